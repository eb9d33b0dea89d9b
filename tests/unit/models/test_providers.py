"""Laws of the APIs: how requests are built, answers read, keys hidden, and what makes an
identity.
"""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest
from tests.servers import connect

from answerkey.errors import SolverError
from answerkey.models.config import Adapter, Caller, Generation, Price, Secret
from answerkey.models.model import LiveModel
from answerkey.models.names import ApiName
from answerkey.models.providers import APIS, AdapterApi, Api, Connection
from answerkey.models.responses import Fields
from answerkey.types import CompletionStatus

SYSTEM = {"role": "system", "content": "Answer with a letter."}
ASK = {"role": "user", "content": "A or B?"}
SAY = {"role": "assistant", "content": "B"}
EVERYTHING = Generation(0.5, 0.9, 16, 7, ("\n",), logprobs=True, top_logprobs=5)


def build(
    api: Api, *messages: Fields, generation: Generation | None = None, model: str = "m"
) -> object:
    """Return the body of a request."""
    connection = Connection("n", api, "http://h/", model, generation=generation or Generation())
    return connection.build(messages)


def rename_limit(api: Api) -> Api:
    """Return an API that calls the limit of tokens as OpenAI does."""
    return replace(api, names={**api.names, "max_tokens": "max_completion_tokens"})


def test_the_chat_api_takes_every_parameter() -> None:
    """Parameters have the names of the API; its own hosts call the limit of tokens otherwise."""
    expected = {
        "model": "m",
        "messages": [ASK],
        "max_tokens": 16,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["\n"],
        "logprobs": True,
        "top_logprobs": 5,
    }
    assert build(APIS["chat"], ASK, generation=EVERYTHING) == expected
    newer = {
        "max_completion_tokens" if name == "max_tokens" else name: value
        for name, value in expected.items()
    }
    assert build(rename_limit(APIS["chat"]), ASK, generation=EVERYTHING) == newer


def test_a_schema_is_asked_for() -> None:
    """A shape of the answer is asked for in the way of each API that has one.

    Others are asked without.
    """
    schema = {"type": "object"}
    chat = Connection("n", APIS["chat"], "http://h/", schema=schema).build([ASK])
    assert isinstance(chat, dict)
    assert chat["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }
    assert LiveModel(Connection("n", APIS["anthropic"], "http://h/")).with_schema(schema) is None
    gemini = Connection("n", APIS["gemini"], "http://h/", schema=schema).build([ASK])
    assert isinstance(gemini, dict)
    assert gemini["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }


def test_text_completions_get_one_plain_text() -> None:
    """The texts of the messages are parted by an empty line, without roles; `logprobs` is a number.

    Where the text comes back, nothing after it is wanted. An address may stand for one model.
    """
    parts = {"role": "user", "content": ["A", {"type": "text", "text": "or B?"}]}
    assert build(
        APIS["completions"], SYSTEM, parts, {"role": "assistant", "content": "Answer:"}
    ) == {"model": "m", "prompt": "Answer with a letter.\n\nA\nor B?\n\nAnswer:"}
    for generation, fields in (
        (Generation(max_tokens=1, logprobs=True), {"max_tokens": 1, "logprobs": 1}),
        (Generation(top_logprobs=5), {"logprobs": 5}),
        (Generation(logprobs=False, top_logprobs=5), {}),
        (Generation(logprobs=True, echo=True), {"echo": True, "logprobs": 1, "max_tokens": 1}),
    ):
        body = {"prompt": "A or B?", **fields}
        assert build(APIS["completions"], ASK, generation=generation) == {"model": "m", **body}
        bare = Connection("n", APIS["completions"], "http://h/", None, generation=generation)
        assert bare.build([ASK]) == body


def test_anthropic_has_the_system_apart() -> None:
    """System and developer messages become `system`; the API asks for a limit of tokens."""
    developer = {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}
    generation = Generation(temperature=0, stop=("Q:",))
    assert build(APIS["anthropic"], SYSTEM, ASK, SAY, developer, generation=generation) == {
        "model": "m",
        "max_tokens": 4096,
        "messages": [ASK, SAY],
        "system": "Answer with a letter.\n\nBe brief.",
        "temperature": 0,
        "stop_sequences": ["Q:"],
    }
    limited = build(APIS["anthropic"], ASK, generation=Generation(max_tokens=9))
    assert limited == {"model": "m", "max_tokens": 9, "messages": [ASK]}


def test_gemini_has_its_own_names() -> None:
    """The assistant is `model`, the system stands apart, parameters are in `generationConfig`."""
    assert build(
        APIS["gemini"],
        SYSTEM,
        ASK,
        SAY,
        generation=replace(EVERYTHING, logprobs=None, top_logprobs=None),
    ) == {
        "contents": [
            {"role": "user", "parts": [{"text": "A or B?"}]},
            {"role": "model", "parts": [{"text": "B"}]},
        ],
        "systemInstruction": {"parts": [{"text": "Answer with a letter."}]},
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxOutputTokens": 16,
            "seed": 7,
            "stopSequences": ["\n"],
        },
    }
    contents = {"contents": [{"role": "user", "parts": [{"text": "A or B?"}]}]}
    assert build(APIS["gemini"], ASK) == contents


NO_TEXT: list[Fields] = [
    {"role": "user", "content": None},
    {"role": "user", "content": 3},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
    {"role": "user", "content": [3]},
    {"role": "user", "content": [{"type": [], "text": "x"}]},
    {"role": "tool", "content": "x"},
]


@pytest.mark.parametrize("api", ["completions", "anthropic", "gemini"])
def test_what_an_api_cannot_be_sent_is_refused(api: ApiName) -> None:
    """Where an API takes texts from us, anything else is E302, and so is a role that it lacks.

    The chat API is sent messages as they are.
    """
    for message in NO_TEXT if api != "completions" else NO_TEXT[:-1]:
        with pytest.raises(SolverError, match=r"^error\[E302\]"):
            build(APIS[api], message)
        assert build(APIS["chat"], message) == {"model": "m", "messages": [message]}
    for source in ("{{ input.mesages }}", '{"q": {{ input.messages[0].content }}}'):
        with pytest.raises(SolverError, match=r"E302.*adapter `mine`, `process_input`: "):
            adapt(source).build([ASK])


def adapt(
    process_input: str = "{{ input | tojson }}", process_output: str = "{{ body }}", **more: object
) -> Connection:
    """Return a connection with an adapter of the user's own."""
    api = AdapterApi(Adapter("mine", process_input, process_output), {"key": "own"})
    return Connection("n", api, "http://h/", "m", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("{{ input | tojson }}", {"messages": [ASK]}),
        ("{{ input }}", {"messages": [ASK]}),
        ('{"q": {{ input.messages[-1].content | tojson }}}', {"q": "A or B?"}),
        (
            '{"m": "{{ model_info.model_key }}", "k": "{{ model_info.key }}"}',
            {"m": "m", "k": "own"},
        ),
        ('["{{ input.messages[0].role }}"]', ["user"]),
        ('{"q": "one\ntwo"}', {"q": "one\ntwo"}),
        ('{"t": {{ model_info.generation.temperature }}}', {"t": 0}),
    ],
)
def test_an_adapter_builds_the_request(source: str, body: object) -> None:
    """The input template reads `input` and `model_info`, and writes JSON."""
    assert adapt(source, generation=Generation(temperature=0)).build([ASK]) == body


ANSWER = b'{"answer": "B", "choices": [{"message": {"content": "C"}}], "n": 3}'


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ body }}", "C"),
        ("{{ body | tojson }}", "C"),
        ("{% set body = body | fromjson %}\n{{ body | tojson }}", "C"),
        ('{"choices": [{"message": {"content": {{ body.answer | tojson }}}}]}', "B"),
        ('{{ {"choices": [{"message": {"content": body["answer"]}}]} }}', "B"),
        (
            '{{ {"choices": [{"message": {"content": body.answer ~ status_code}}]} | tojson }}',
            "B200",
        ),
        ('{{ {"choices": [{"message": {"content": body[:3]}}]} | tojson }}', '{"a'),
    ],
)
def test_an_adapter_reads_the_answer(source: str, text: str) -> None:
    """The output template sees the body as text whose fields can be read, and gives a chat
    completion.
    """
    completion = adapt(process_output=source).read(200, ANSWER)
    assert (completion.text, completion.error) == (text, None)


@pytest.mark.parametrize(
    ("source", "body", "reason"),
    [
        ("{{ body.anser }}", ANSWER, "text has no field `anser`"),
        ("{{ body.answer }}", ANSWER, "the body is not JSON"),
        ("{{ body.choices }}", ANSWER, "the body is JSON, but not an object: list"),
        ("{{ body.answer }}", b"<html>", "Expecting value"),
        ("{{ body | fromjson }}", b"<html>", "`fromjson`: '<html>' is not JSON"),
        ("{{ body }}", b"\xff", "the body is not UTF-8"),
        ("{{ 1 // 0 }}", ANSWER, "division by zero"),
        ('"{{ body.answer }}', ANSWER, "the body is not JSON"),
        (
            '{"choices": [{"message": {"content": {{ body.n }}}}]}',
            ANSWER,
            "the content is neither text nor",
        ),
    ],
)
def test_an_adapter_that_cannot_read_the_answer(source: str, body: bytes, reason: str) -> None:
    """What a template cannot make a chat completion of is an ERROR with the endpoint's own body."""
    completion = adapt(process_output=source).read(200, body)
    assert (completion.text, completion.status) == (None, CompletionStatus.ERROR)
    assert str(completion.error).startswith(f"adapter `mine`, `process_output`: {reason}")
    assert completion.raw == body.decode(errors="replace")


def test_an_adapter_is_not_shown_errors() -> None:
    """An answer with another status than 2xx is an error, whatever the template would make of
    it.
    """
    says = json.dumps({"choices": [{"message": {"content": "B"}}]})
    completion = adapt(process_output=says).read(500, b'{"message": "down"}')
    assert completion.error == "HTTP 500: down"


def test_an_adapter_takes_generation_only_if_it_reads_it() -> None:
    """Parameters that no template reads would be dropped, so they are refused."""
    assert "seed" in adapt().api.unsupported
    assert adapt("{{ model_info.generation | tojson }}").api.unsupported == frozenset()


KEY = "sk-canary-0123456789/+="
CONNECTION = Connection(
    name="openai/x",
    api=APIS["chat"],
    url="https://x.example/v1/chat/completions",
    model="x",
    headers={"Authorization": Secret(f"Bearer {KEY}"), "X-Tier": "gold"},
    key=Secret(KEY),
)


def test_secrets_do_not_show() -> None:
    """Neither the printed form nor the identity of a connection has a secret in it.

    It cannot be stored.
    """
    assert "canary" not in repr(CONNECTION)
    assert "canary" not in str(CONNECTION)
    with pytest.raises(TypeError):
        pickle.dumps(CONNECTION)


def test_the_identity_is_what_decides_the_answers() -> None:
    """URL, model, API, generation, schema and plain headers count.

    Keys, names and limits do not.
    """
    same = replace(
        CONNECTION,
        name="other",
        key=None,
        headers={"X-Tier": "gold", "Authorization": Secret("y")},
        api=rename_limit(APIS["chat"]),
        max_concurrent=3,
        missing_key="K",
    )
    assert same.identity == CONNECTION.identity
    different = [
        replace(CONNECTION, url="https://y.example/v1/chat/completions"),
        replace(CONNECTION, model="y"),
        replace(CONNECTION, api=APIS["anthropic"]),
        replace(CONNECTION, generation=Generation(temperature=0)),
        replace(CONNECTION, generation=Generation(temperature=1)),
        replace(CONNECTION, generation=Generation(reasoning_effort="low")),
        replace(CONNECTION, generation=Generation(extra_body={"x": 1})),
        replace(CONNECTION, generation=Generation(extra_body={"x": {"y": 1}})),
        replace(CONNECTION, headers={"X-Tier": "silver"}),
        replace(CONNECTION, schema={"type": "object"}),
        replace(CONNECTION, api=AdapterApi(Adapter("a", "{}", "{}"))),
        replace(CONNECTION, api=AdapterApi(Adapter("a", "{}", "{ }"))),
    ]
    assert len({connection.identity for connection in [CONNECTION, *different]}) == 13


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": f"Incorrect API key provided: {KEY}"}},
        {"echo": {"authorization": f"Bearer {KEY}"}},
        {"choices": [{"message": {"content": f"Your key is {KEY}."}}]},
        {"choices": [{"message": {"content": "B", "reasoning": KEY}, "logprobs": {"x": KEY}}]},
        {"choices": [{"message": {"content": None, "refusal": KEY}}]},
    ],
)
@pytest.mark.parametrize("status", [200, 401])
def test_a_key_that_comes_back_is_hidden(body: object, status: int) -> None:
    """Whatever an endpoint sends back, the key is stored nowhere."""
    for text in (
        json.dumps(body),
        json.dumps(body).replace("/", "\\/"),
        json.dumps(body).replace("s", "\\u0073"),
        f"<html>{KEY}",
    ):
        completion = CONNECTION.read(status, text.encode())
        assert KEY not in repr(completion)
        assert "canary" not in repr(completion)


def test_short_keys_are_no_secrets() -> None:
    """A key such as `EMPTY` may be part of an answer; it is not hidden there."""
    connection = replace(
        CONNECTION, headers={"Authorization": Secret("Bearer EMPTY")}, key=Secret("EMPTY")
    )
    body = json.dumps({"choices": [{"message": {"content": "EMPTY set"}}]}).encode()
    assert connection.read(200, body).text == "EMPTY set"


def test_the_price_list_is_asked_for_the_model_at_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of one token follows from what a thousand cost.

    What the list lacks is not known.
    """
    model = connect("openai/gpt-4o-mini", caller=Caller())
    expected = {"model_ref": "gpt-4o-mini", "provider_api_url": model.url}

    def calc_price(usage: dict[str, int], **about: str) -> SimpleNamespace:
        if about != expected:
            raise LookupError
        read, written = (usage.get(f"cache_{name}_tokens", 0) for name in ("read", "write"))
        new = usage["input_tokens"] - read - written
        cost = Decimal("0.001") * new + Decimal("0.0001") * read + Decimal("0.003") * written
        output_price = Decimal("0.002") * usage.get("output_tokens", 0)
        return SimpleNamespace(input_price=cost, output_price=output_price)

    monkeypatch.setitem(
        sys.modules, "genai_prices", SimpleNamespace(Usage=dict, calc_price=calc_price)
    )
    assert model.find_price() == Price(0.001, 0.002, cached=0.0001, written=0.003)
    assert replace(model, model="another").find_price() is None
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert model.find_price() is None
