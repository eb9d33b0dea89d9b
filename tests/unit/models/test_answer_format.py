"""Laws of `answer_format` and `prefill`: what each API is sent, what came back, and what is scored
of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from answerkey.errors import SpecError
from answerkey.models.batch import write_line
from answerkey.models.calls import Call
from answerkey.models.config import Adapter, Caller, Generation
from answerkey.models.connections import connect
from answerkey.models.model import LiveModel, build_calls, open_model
from answerkey.models.names import API_NAMES, PROVIDERS
from answerkey.models.providers import AdapterApi, Connection
from answerkey.models.responses import take_off_envelope
from answerkey.testing import Reply, TestServer
from answerkey.types import Completion, Request

from .test_batch import MemoryBook

ASK = [{"role": "user", "content": "A or B?"}]
QUESTION = Request("1", ASK, ("A", "B"))
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": ["A", "B"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
NAMED = {"name": "answer", "schema": SCHEMA, "strict": True}
RESPONSE_FORMAT = {"response_format": {"type": "json_schema", "json_schema": NAMED}}
CHAT = {"model": "m", "messages": ASK}
JSON = '{"answer": "B"}'
#: Environment values that lead from every provider's name to the test server.
AT_SERVER = {f"{name.upper()}_BASE_URL": "{url}" for name in PROVIDERS}


@pytest.fixture(scope="module")
def running() -> Iterator[TestServer]:
    """Return a server for all tests."""
    with TestServer() as started:
        yield started


@pytest.fixture
def server(running: TestServer) -> TestServer:
    """Return the server as if it had been asked nothing."""
    running.change(ignores_format=False)
    running.forget()
    return running


def ask(
    server: TestServer, name: str, *questions: Request
) -> tuple[dict[str, object], list[Completion]]:
    """Return the body that the server was sent last, and what is made of its replies."""
    values = {key: value.format(url=server.url) for key, value in AT_SERVER.items()}
    model = open_model(name.format(url=server.url, root=server.root), caller=Caller(values))
    assert isinstance(model, LiveModel)
    with model:
        said = model.complete(questions or (QUESTION,))
    body = server.asked.requests[-1].body
    assert body is not None
    return dict(body), said


@pytest.mark.parametrize(
    ("name", "body", "came"),
    [
        ("{url}?answer_format=choice#m", {**CHAT, **RESPONSE_FORMAT}, JSON),
        ("openai/m?answer_format=choice", {**CHAT, **RESPONSE_FORMAT}, JSON),
        ("azure/m?answer_format=choice", {**CHAT, **RESPONSE_FORMAT}, JSON),
        ("ollama/m?answer_format=choice", {**CHAT, **RESPONSE_FORMAT}, JSON),
        ("llamacpp/m?answer_format=choice", {**CHAT, **RESPONSE_FORMAT}, JSON),
        ("sglang/m?answer_format=choice", {**CHAT, **RESPONSE_FORMAT}, JSON),
        ("openrouter/m?answer_format=choice", {**CHAT, **RESPONSE_FORMAT}, JSON),
        (
            "cohere/m?answer_format=choice",
            {**CHAT, "response_format": {"type": "json_object", "schema": SCHEMA}},
            JSON,
        ),
        (
            "vllm/m?answer_format=choice",
            {**CHAT, "structured_outputs": {"choice": ["A", "B"]}},
            None,
        ),
        (
            "vllm/m?api=completions&answer_format=choice",
            {"model": "m", "prompt": "A or B?", "structured_outputs": {"choice": ["A", "B"]}},
            None,
        ),
        (
            "{url}?api=responses&answer_format=choice#m",
            {"model": "m", "input": ASK, "text": {"format": {"type": "json_schema", **NAMED}}},
            JSON,
        ),
        (
            "anthropic/m?answer_format=choice&reasoning_effort=low",
            {
                "model": "m",
                "max_tokens": 4096,
                "messages": ASK,
                "output_config": {
                    "effort": "low",
                    "format": {"type": "json_schema", "schema": SCHEMA},
                },
            },
            JSON,
        ),
        (
            "{root}/v1beta?api=gemini&answer_format=choice#m",
            {
                "contents": [{"role": "user", "parts": [{"text": "A or B?"}]}],
                "generationConfig": {
                    "responseMimeType": "text/x.enum",
                    "responseSchema": {"type": "STRING", "enum": ["A", "B"]},
                },
            },
            None,
        ),
    ],
)
def test_each_api_is_asked_for_a_choice(
    server: TestServer, name: str, body: dict[str, object], came: str | None
) -> None:
    """The server obeys; what is scored is the bare choice, and the JSON that came is kept."""
    server.change("A? No: the answer is B.")
    sent, (said,) = ask(server, name)
    assert (sent, said.text, said.raw) == (body, "B", came)


@pytest.mark.parametrize("name", ["{url}?answer_format=choice#m", "vllm/m?answer_format=choice"])
@pytest.mark.parametrize("reply", ["B", "The answer is B.", JSON])
def test_a_reply_of_another_form_stays_as_it_is(server: TestServer, name: str, reply: str) -> None:
    """Where an endpoint ignores the constraint, the reply is scored as it is written."""
    server.change(reply, ignores_format=True)
    _, (said,) = ask(server, name)
    assert said.text == ("B" if reply == JSON else reply)


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "B"',
        '{"answer": 2}',
        '{"answer": "B", "why": "x"}',
        '{"Answer": "B"}',
        '["B"]',
        "",
        "[" * 9999,
    ],
)
def test_only_the_object_that_we_asked_for_is_taken_off(text: str) -> None:
    """Anything else, half of it included, stays a text; a completion without one stays as well."""
    assert take_off_envelope(Completion(text)) == Completion(text)
    assert take_off_envelope(Completion(None)) == Completion(None)
    assert take_off_envelope(Completion(' {"answer":"B"}\n')).text == "B"


def test_thoughts_before_the_object_are_taken_out_first(server: TestServer) -> None:
    """The choice is scored, the thoughts are kept apart, and `raw` is the whole text."""
    whole = f"<think>A?</think>\n{JSON}"
    server.change(whole, ignores_format=True)
    _, (said,) = ask(server, "{url}?answer_format=choice#m")
    assert (said.text, said.reasoning, said.raw) == ("B", "A?", whole)


def test_the_choices_are_those_of_the_sample(server: TestServer) -> None:
    """The same prompt with other choices is another call; with the same ones it is asked once."""
    asked = [
        Request(str(at), ASK, choices)
        for at, choices in enumerate((("A", "B"), ("yes", "no"), ("A", "B")))
    ]
    server.change("no")
    _, said = ask(server, "{url}?answer_format=choice#m", *asked)
    assert [one.text for one in said] == ["A", "no", "A"]
    assert server.asked.total == 2


def test_a_sample_without_choices_is_an_error() -> None:
    """There is nothing to constrain its reply to."""
    model = open_model("http://127.0.0.1:9/v1?answer_format=choice#m", caller=Caller({}))
    assert isinstance(model, LiveModel)
    with pytest.raises(SpecError, match="answers from the choices, and sample `7` has none"):
        model.complete([Request("7", ASK)])


def test_batches_send_the_same_body(server: TestServer) -> None:
    """One by one, or as a line of a batch."""
    server.change("B")
    alone, _ = ask(server, "{url}?answer_format=choice&max_tokens=9#m")
    found = connect(f"{server.url}?answer_format=choice&max_tokens=9#m", caller=Caller({}))
    model = LiveModel(found)
    (call,) = build_calls(model, [QUESTION], 0)
    line = write_line(found, call)
    assert isinstance(line, bytes)
    assert json.loads(line)["body"] == alone
    server.change(batch_polls=1)
    server.forget()
    with LiveModel(found, batches=MemoryBook()) as model:
        (completion,) = model.complete([QUESTION])
    assert (completion.text, completion.raw) == ("B", JSON)
    paths = [request.path for request in server.asked.requests]
    assert not any(path.endswith("/chat/completions") for path in paths)


def test_an_adapter_is_given_the_choices() -> None:
    """A template that reads `kwargs` can ask for them in its own way.

    The JSON is taken off as well.
    """
    source = (
        '{"q": {{ input.messages[-1].content | tojson }}, "only": {{ kwargs.choices | tojson }}}'
    )
    reads = '{"choices": [{"message": {"role": "assistant", "content": {{ body | tojson }}}}]}'
    generation = Generation(answer_format="choice")
    connection = Connection(
        "n", AdapterApi(Adapter("mine", source, reads)), "http://h/", generation=generation
    )
    assert connection.build(ASK, ("A", "B")) == {"q": "A or B?", "only": ["A", "B"]}
    assert connection.read(200, JSON.encode()).text == "B"
    assert connection.identity != Connection("n", connection.api, "http://h/").identity


LAST = {"role": "assistant", "content": "The answer is"}
BEGUN = {"model": "m", "messages": [*ASK, LAST]}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("groq/m", BEGUN),
        ("openrouter/m", BEGUN),
        ("ollama/m", BEGUN),
        ("llamacpp/m", BEGUN),
        ("vllm/m", {**BEGUN, "continue_final_message": True, "add_generation_prompt": False}),
        ("sglang/m", {**BEGUN, "continue_final_message": True, "add_generation_prompt": False}),
        ("mistral/m", {"model": "m", "messages": [*ASK, {**LAST, "prefix": True}]}),
        ("deepseek/m", {"model": "m", "messages": [*ASK, {**LAST, "prefix": True}]}),
        ("anthropic/m", {**BEGUN, "max_tokens": 4096}),
        ("vllm/m?api=completions", {"model": "m", "prompt": "A or B?\n\nThe answer is"}),
        ("{url}?api=completions#m", {"model": "m", "prompt": "A or B?\n\nThe answer is"}),
    ],
)
def test_a_reply_is_begun(server: TestServer, name: str, body: dict[str, object]) -> None:
    """Each API is told to go on from there; the completion is what follows, repeated or not."""
    start, mark, model = name.partition("#")
    begun = f"{start}{'&' if '?' in start else '?'}prefill=The%20answer%20is{mark}{model}"
    server.change(" B")
    sent, (said,) = ask(server, begun)
    repeated = "The answer is B" if '"prefix"' in json.dumps(sent) else None
    assert (sent, said.text, said.raw) == (body, " B", repeated)


def test_a_text_that_does_not_begin_so_stays(server: TestServer) -> None:
    """Only the prefill itself is taken off; a refusal has no text to take it from."""
    server.change({"A or B?": "B, the answer is", "C?": Reply("no", "refusal")})
    refused = Request("2", [{"role": "user", "content": "C?"}])
    _, said = ask(server, "vllm/m?prefill=the%20answer%20is", QUESTION, refused)
    assert [one.text for one in said] == ["B, the answer is", None]


def test_deepseek_begins_replies_at_another_address() -> None:
    """Its beta API, with its own key; other calls go where they went."""
    for query, path in (("", "v1"), ("?prefill=x", "beta")):
        found = connect(f"deepseek/m{query}", caller=Caller({"DEEPSEEK_API_KEY": "sk-0123456789"}))
        assert (found.url, found.has_secret) == (
            f"https://api.deepseek.com/{path}/chat/completions",
            True,
        )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "http://h/v1?api=completions&answer_format=choice#m",
            "the API `completions` does not take `answer_format`",
        ),
        (
            "deepseek/m?answer_format=choice",
            "the API `chat` at `api.deepseek.com` does not take `answer_format`",
        ),
        ("openai/m?prefill=x", "the API `chat` does not take `prefill`"),
        ("xai/m?prefill=x", "the API `chat` does not take `prefill`"),
        ("http://h/v1?prefill=x#m", "the API `chat` does not take `prefill`"),
        ("openai/m?api=responses&prefill=x", "the API `responses` does not take `prefill`"),
        ("gemini/m?prefill=x", "the API `gemini` does not take `prefill`"),
        (
            "vllm/m?prefill=x&answer_format=choice",
            "`answer_format`, `prefill` cannot be set together",
        ),
        ("vllm/m?api=completions&echo=true&prefill=x", "`echo`, `prefill` cannot be set together"),
        (
            "vllm/m?api=completions&echo=true&answer_format=choice",
            "`echo`, `answer_format` cannot be set together",
        ),
        (
            "anthropic/m?prefill=So%3A%20",
            "the API `anthropic` takes no `prefill` that ends in white space",
        ),
        (
            "openai/m?answer_format=choice&extra_body.response_format.type=text",
            "`response_format.type` of `extra_body` is set by answerkey itself",
        ),
    ],
)
def test_what_an_endpoint_cannot_is_an_error(name: str, said: str) -> None:
    """It names the API, and is told before anything is called."""
    with pytest.raises(SpecError) as caught:
        connect(name, caller=Caller({}))
    assert (caught.value.code, caught.value.message) == ("E108", f"model `{name}`: {said}")


def test_every_provider_takes_a_prefill_as_documented() -> None:
    """The reference names providers for the API `chat`, and has a text for each other API that
    takes it.
    """
    page = (Path(__file__).parents[3] / "docs" / "reference" / "model-file.md").read_text(
        encoding="utf-8"
    )
    (row,) = [line for line in page.splitlines() if line.startswith("| `prefill` |")]
    cells = dict(zip(API_NAMES, [cell.strip() for cell in row.split("|")[2:-1]], strict=True))
    titles = {title.lower().replace(".", "") for title in cells.pop("chat").split(", ")}
    assert titles < set(PROVIDERS)
    values = {f"{name.upper()}_API_KEY": "sk-canary-1" for name in PROVIDERS}
    values |= dict.fromkeys(("AWS_REGION", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_PROJECT"), "x")
    caller = Caller(values | {"AZURE_BASE_URL": "https://x.openai.azure.com/openai/v1"})
    for name in PROVIDERS:
        for api in API_NAMES:
            is_documented = name in titles if api == "chat" else bool(cells[api])
            model = f"{name}/m?api={api}&prefill=x"
            if is_documented:
                assert connect(model, caller=caller).generation.prefill == "x"
                continue
            with pytest.raises(SpecError, match=f"the API `{api}` does not take `prefill`"):
                connect(model, caller=caller)


@pytest.mark.parametrize(
    ("name", "is_unknown"), [("http://h/v1?prefill=x#m", True), ("openai/m?prefill=x", False)]
)
def test_the_hint_names_who_can(name: str, *, is_unknown: bool) -> None:
    """An address may be that of one of them: then its name says so."""
    with pytest.raises(SpecError) as caught:
        connect(name, caller=Caller({}))
    hint = caught.value.hint or ""
    assert "APIs that have it: `completions`, `anthropic`, `chat` of `deepseek`, `groq`, " in hint
    assert ("say which: `vllm/NAME` and `VLLM_BASE_URL`" in hint) == is_unknown


def test_values_are_checked() -> None:
    """A format that there is not, and a prefill without text, are slips."""
    for query, wanted in (
        ("answer_format=letter", "not one of `choice`"),
        ("prefill=", "not a text that is not"),
    ):
        with pytest.raises(SpecError, match=wanted) as caught:
            connect(f"vllm/m?{query}", caller=Caller({}))
        assert caught.value.code == "E301"


def test_both_take_part_in_the_identity() -> None:
    """Also how they are asked for: one address may be named as that of two servers."""
    address = {f"{name}_BASE_URL": "http://127.0.0.1:9/v1" for name in ("VLLM", "OLLAMA")}
    queries: Sequence[str] = ("", "?answer_format=choice", "?prefill=x", "?prefill=y")
    names = [f"{server}/m{query}" for server in ("vllm", "ollama") for query in queries]
    found = {name: connect(name, caller=Caller(address)).identity for name in names}
    assert found["vllm/m"] == found["ollama/m"]
    assert len(set(found.values())) == len(names) - 1


def test_a_call_keeps_its_choices() -> None:
    """Only one whose reply is constrained has them, and they are part of its key."""
    calls: list[Call] = []
    for query in ("", "?answer_format=choice"):
        model = open_model(f"vllm/m{query}", caller=Caller({}))
        assert isinstance(model, LiveModel)
        calls += build_calls(model, [QUESTION], 0)
    assert [one.choices for one in calls] == [None, ["A", "B"]]
