"""`answerkey doctor` on a healthy endpoint and on broken ones: each is named, and so is what to
do.
"""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from tests.projects import write_rows

from answerkey.evaluate import doctor
from answerkey.testing import Reply, TestServer
from answerkey.testing.replies import read_prompt

from .conftest import QUIZ, Call

KEY = "sk-canary-0123456789abcdef"
ANSWERS = {"colour?": "B", "legs": "D", "fruit": "C", "random": "fox, Rome, 7", "ready": "Ready."}
CHECKS = {
    "reachable", "model", "one letter", "thinking", "chat template", "log-probabilities",
    "repeatable", "price",
}  # fmt: skip
Messages = Sequence[Mapping[str, object]]


def say(messages: Messages) -> str:
    """Return what a healthy model says."""
    prompt = read_prompt(messages)
    return next((text for word, text in ANSWERS.items() if word in prompt), "A")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestServer]:
    """Return a healthy endpoint."""
    for name in ("OPENAI_API_KEY", "ANSWERKEY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with TestServer(lambda messages: Reply(say(messages))) as running:
        yield running


def examine(model: str, task: Any = None, **options: object) -> dict[str, Any]:  # noqa: ANN401 - of any kind
    """Return what is found within the usual limits."""
    return doctor.examine(model, task, 20.0, **options)


def find(checks: Sequence[Mapping[str, str]], check: str) -> Mapping[str, str]:
    """Return the finding of a check."""
    return next(entry for entry in checks if entry["check"] == check)


def test_a_healthy_endpoint_is_good_in_every_check(call: Call, server: TestServer) -> None:
    """Exit code 0.

    Each check is named once, nothing is cached, and all calls cost less than a cent.
    """
    words = ("doctor", f"{server.url}#test", "--price", "0.15:0.60", "--json")
    done = call(*words)
    report = done.json["doctor"]
    assert (done.code, report["good"], report["answered"], report["task"]) == (0, True, True, None)
    statuses = {row["check"]: row["status"] for row in report["checks"]}
    assert statuses == dict.fromkeys(CHECKS, "good")
    seen = "`stated_answer` reads 3 of 3 replies, 3 right; for example 'B'"
    assert find(report["checks"], "one letter")["seen"] == seen
    price = "0.15 USD a million prompt tokens, 0.6 USD"
    assert find(report["checks"], "price")["seen"].startswith(price)
    assert report["calls"] == server.asked.by_path["/v1/chat/completions"] == 8
    assert 0 < report["cost"] < 0.01
    assert call(*words).json["doctor"]["calls"] == 8


def test_what_is_sent(server: TestServer) -> None:
    """The questions first, as a data file would ask them.

    Then one change of the request for each check.
    """
    examine(f"{server.url}?seed=7#test")
    assert server.asked.by_path == {"/v1/models": 1, "/v1/chat/completions": 8}
    bodies = [json.dumps(request.body) for request in server.asked.requests if request.body]
    letters = [
        "Which of these is a colour?\n\nA. seven\nB. blue\nC. chair\nD. May",
        "How many legs does a cat have?\n\nA. two\nB. ten\nC. six\nD. four",
        "Which of these is a fruit?\n\nA. iron\nB. paper\nC. apple\nD. dust",
    ]
    instruction = "\n\nAnswer with the letter of the right option and nothing else.\nAnswer:"

    def write(content: object, **more: object) -> str:
        messages = [{"role": "user", "content": content}]
        return json.dumps({"model": "test", "messages": messages, **more})

    assert sorted(bodies[:3]) == sorted(
        write(text + instruction, max_tokens=512, seed=7) for text in letters
    )
    few = {"max_tokens": 16, "seed": 7}
    assert sorted(bodies[3:]) == sorted(
        [
            write("Write the word ready, and nothing else.", **few),
            write(letters[0] + instruction, **few, logprobs=True, top_logprobs=5),
            *[write(doctor.TEXTS["random"], temperature=0.0, **few)] * 3,
        ]
    )


def think(text: str) -> Callable[[Messages], Reply]:
    """Return a model that ends within its thoughts."""
    return lambda _: Reply(f"<think>{text}", "truncated")


numbers = itertools.count()


def say_otherwise(messages: Messages) -> str:
    """Return what a model says that is never the same."""
    return f"fox {next(numbers)}" if "random" in read_prompt(messages) else say(messages)


TOKENS = {"B": -0.1, "C": -3.0}
#: The broken endpoints that answer: what they answer, what stands behind `?`, the check that names
#: what is wrong, its status and words, what to do, and the exit code.
ANSWERING: dict[str, tuple[Any, str, str, str, str, str, int]] = {
    "chatty, but read": (lambda messages: f"Sure! The answer is {say(messages)}, I think.", "",
        "one letter", "warning", "3 of them are more than a letter", "`extraction: stated_answer`",
        0),
    "chatty": ("That depends on you.", "", "one letter", "failed", "NOTHING_STATED",
        "ask for the letter alone", 1),
    "always the same letter": ("A", "", "one letter", "warning", "0 right", "see `chat template`",
        0),
    "empty replies": (Reply(kind="empty_text"), "", "one letter", "failed",
        "3 of 3 replies (EMPTY)", "log", 1),
    "refusals": (Reply("no", "refusal"), "", "one letter", "failed", "3 of 3 replies (REFUSED)",
        "withheld", 1),
    "thoughts cut by the limit": (think("Let me see"), "?max_tokens=16", "thinking", "failed",
        "the limit of 16 tokens ends 3 of 3 replies within the thoughts", "raise `max_tokens`", 1),
    "thoughts cut by the limit of doctor": (think("Let me see"), "", "thinking", "warning",
        "the limit of 512 tokens ends 3 of 3 replies", "try a larger `?max_tokens=`", 0),
    "no chat template": (lambda _: Reply(" and write it again. The word", "truncated"),
        "?api=completions", "chat template", "warning",
        "the model writes 'and write it again. The word': no chat template is applied",
        "use the chat API", 1),
    "turn tokens": (lambda messages: f"{say(messages)}<|im_end|>\n<|im_start|>user", "",
        "chat template", "warning", "a reply holds '<|im_end|>'",
        "correct the server's chat template", 0),
    "log-probabilities dropped": (lambda messages: Reply(say(messages), logprobs={}), "",
        "log-probabilities", "warning", "asked for, and none came", "", 0),
    "few log-probabilities": (lambda messages: Reply(say(messages), logprobs=TOKENS), "",
        "log-probabilities", "warning", "of the 2 likeliest tokens", "", 0),
    "not repeatable": (say_otherwise, "", "repeatable", "warning", "temperature 0 gives 'fox ",
        "set `seed`", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERING)
def test_an_endpoint_that_answers_badly_is_named(call: Call, server: TestServer, name: str) -> None:
    """The check that concerns it says what was seen, what it means and what to do."""
    answers, query, check, status, seen, advice, code = ANSWERING[name]
    server.change(answers)
    done = call("doctor", f"{server.url}{query}#test", "--json")
    entry = find(done.json["doctor"]["checks"], check)
    assert (entry["status"], done.code) == (status, code)
    assert seen in entry["seen"]
    assert advice in entry["advice"]
    assert entry["means"]
    assert done.json["doctor"]["good"] == (code == 0)
    assert done.json["doctor"]["calls"] <= 12


def refuse(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    """Return a reply that is an error in the way of OpenAI."""
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return Reply(status=status, headers=headers, body=body)


#: The endpoints that do not answer: what they do, the check that names it, its words, and what to
#: do.
SILENT: dict[str, tuple[Any, dict[str, Any], str, str, str]] = {
    "hangs": ("A", {"faults": {"hang": 1.0}}, "reachable",
        "no whole reply from `127.0.0.1` within 0.2 s", "loaded?"),
    "wrong key": ("A", {"api_key": "another"}, "key", "refuses the key (status 401)",
        "check the key in the environment variable `ANSWERKEY_API_KEY`"),
    "no quota": (refuse(429, "Pay.", "insufficient_quota"), {}, "key", "has no quota left",
        "add credit"),
    "unknown model": (refuse(404, "There is no tast", "model_not_found"), {}, "model",
        "`127.0.0.1` does not know the model", "did you mean `test`?"),
    "web page": (Reply(kind="html"), {}, "reachable", "is a web page, not an API",
        "correct the name or the address"),
    "rate limit": (refuse(429, "Slow down", **{"Retry-After": "30",
        "x-ratelimit-limit-requests": "3"}), {}, "rate limits", "HTTP 429: Slow down",
        "`rate_limit`"),
    "refused parameter": ("A", {"unknown_fields": ("max_tokens",)}, "request",
        "unknown field 'max_tokens'", "correct"),
    "server error": ("A", {"faults": {"500": 1.0}}, "reachable", "HTTP 500", "log of the endpoint"),
    "no JSON": (Reply(kind="bad_json"), {}, "request", "the body is not JSON",
        "correct what the message names"),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_an_endpoint_that_does_not_answer_is_named(
    call: Call, server: TestServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Exit code 3, one check that failed, no further calls.

    The key is in nothing that is printed.
    """
    answers, behaviour, check, seen, advice = SILENT[name]
    monkeypatch.setenv("ANSWERKEY_API_KEY", KEY)
    server.change(answers, **behaviour)
    seconds = "0.2" if name == "hangs" else "20"
    words = ("doctor", f"{server.url}#tast", "--timeout", seconds)
    done = call(*words, "--json")
    checks = done.json["doctor"]["checks"]
    assert done.code == 3
    assert [entry["check"] for entry in checks if entry["status"] == "failed"] == [check]
    assert (seen in checks[-1]["seen"], advice in checks[-1]["advice"]) == (True, True)
    assert checks[-1]["means"]
    assert (done.json["doctor"]["calls"], done.json["doctor"]["answered"]) == (3, False)
    plain = call(*words)
    assert KEY not in done.out + done.err + plain.out + plain.err
    assert f"\n  ✗ failed   {check}" in plain.out


def test_where_nothing_listens_the_server_is_named_that_should(call: Call) -> None:
    """A refused connection is told at once."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = call("doctor", f"http://127.0.0.1:{port}/v1#test")
    assert done.code == 3
    assert "cannot connect to `127.0.0.1`: Connection refused" in " ".join(done.out.split())
    assert "do: check the address, and whether the endpoint is running\n" in done.out
    assert "failed: 1 error, 0 warnings; 3 calls, 0 + 0 tokens" in done.out


def test_an_address_without_its_version_is_corrected(call: Call, server: TestServer) -> None:
    """What is missing is most often `/v1`."""
    server.change(Reply(kind="html"))
    done = call("doctor", f"{server.root}/openai#test", "--json")
    advice = done.json["doctor"]["checks"][-1]["advice"]
    assert advice == f"most APIs have `/v1` in their address: write `{server.root}/openai/v1#test`"


def test_a_key_that_is_not_sent_is_asked_for(call: Call, server: TestServer) -> None:
    """Without a key, the environment value is named that would hold it."""
    server.change(api_key="another")
    last = call("doctor", f"{server.url}#test", "--json").json["doctor"]["checks"][-1]
    assert "requires an API key, but none was sent" in last["seen"]
    assert last["advice"] == "put a key into the environment variable `ANSWERKEY_API_KEY`"


def test_a_provider_elsewhere_is_given_its_own_key(
    call: Call, server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `<PROVIDER>_BASE_URL`, the variable is named that the provider's key is read from."""
    server.change(api_key="another")
    monkeypatch.setenv("HUGGINGFACE_BASE_URL", server.url)
    last = call("doctor", "huggingface/test", "--json").json["doctor"]["checks"][-1]
    assert last["advice"] == "put a key into the environment variable `HF_TOKEN`"


def test_a_model_that_is_not_listed_is_a_warning(call: Call, server: TestServer) -> None:
    """Servers that answer to any name are told by their list of models."""
    checks = call("doctor", f"{server.url}#my-model", "--json").json["doctor"]["checks"]
    assert find(checks, "model")["status"] == "warning"
    assert find(checks, "model")["advice"] == "models there: `test`"


@pytest.mark.parametrize(
    ("answers", "query", "where"),
    [
        (lambda m: Reply(say(m), "reasoning"), "", "apart from the text"),
        (lambda m: f"<think>Well.</think>{say(m)}", "",
         "in the text, as `<think>` or the like, and taken out"),
        (lambda m: f"<think>Well.</think>{say(m)}", "?thinking=keep", "thoughts are in the text; "),
    ],
)  # fmt: skip
def test_thoughts_are_found_where_they_go(
    server: TestServer,
    answers: Any,  # noqa: ANN401
    query: str,
    where: str,
) -> None:
    """They are good as long as they end."""
    server.change(answers)
    checks = examine(f"{server.url}{query}#test")["checks"]
    assert find(checks, "thinking")["status"] == "good"
    assert where in find(checks, "thinking")["seen"]


def test_an_echo_is_left_out(server: TestServer) -> None:
    """What is asked for to rank continuations would stand before every reply."""
    result = examine(f"{server.url}?api=completions&echo=true#test")
    assert find(result["checks"], "one letter")["status"] == "good"
    assert not any("echo" in request.body for request in server.asked.requests if request.body)


def test_checks_that_are_refused_are_notes(server: TestServer) -> None:
    """A parameter that the endpoint does not take is no fault of its numbers."""
    server.change(unknown_fields=("temperature", "logprobs"))
    checks = examine(f"{server.url}#test")["checks"]
    for check in ("repeatable", "log-probabilities"):
        assert find(checks, check)["status"] == "note"
        assert "HTTP 400: unknown field" in find(checks, check)["seen"]


def test_some_questions_that_are_refused_are_a_warning(server: TestServer) -> None:
    """The others are looked at."""
    server.change(lambda m: refuse(503, "Busy") if "legs" in read_prompt(m) else Reply(say(m)))
    checks = examine(f"{server.url}#test")["checks"]
    assert find(checks, "reachable")["seen"] == "1 of 3 questions: HTTP 503: Busy"
    assert "reads 2 of 2 replies, 2 right" in find(checks, "one letter")["seen"]


@pytest.fixture
def task(tmp_path: Any) -> list[str]:  # noqa: ANN401 - a path
    """Return the arguments of a task with the default rule."""
    (tmp_path / "task.yaml").write_text(json.dumps(QUIZ))
    truths = {"colour?": "B", "legs": "D", "x": "A"}
    rows = [{"question": text, "answer": answer} for text, answer in truths.items()]
    write_rows(tmp_path / "rows.jsonl", rows * 3)
    return ["task.yaml", "--dataset", "rows.jsonl"]


def test_tasks_bring_questions_and_rules(call: Call, server: TestServer, task: list[str]) -> None:
    """The first samples are asked with the model's own limit, and read by the task's scorer."""
    words = ("doctor", f"{server.url}?max_tokens=8#test", *task)
    good = call(*words, "--json").json["doctor"]
    assert (good["task"], good["good"]) == ("quiz", True)
    seen = "`first_character` reads 3 of 3 replies, 3 right"
    assert find(good["checks"], "one letter")["seen"].startswith(seen)
    bodies = [request.body for request in server.asked.requests if request.body]
    assert [(body["max_tokens"], body["messages"][0]["content"]) for body in bodies[:3]] == [
        (8, "colour?"),
        (8, "legs"),
        (8, "x"),
    ]
    server.change(lambda messages: f"The answer is {say(messages)}.")
    bad = call(*words)
    assert bad.code == 1
    assert "`first_character` cannot read 3 of 3 replies (NOT_A_CHOICE)" in bad.out


def test_a_run_file_brings_its_generation_parameters(server: TestServer, task: list[str]) -> None:
    """What the file says of a task is sent with its questions."""
    specification = {"task_key": "quiz", "generation": {"max_tokens": 9, "top_p": 0.5}}
    run = {"tasks": [QUIZ], "evaluation": {"key": "e", "task_specifications": [specification]}}
    examine(f"{server.url}#test", run, dataset=task[-1])
    bodies = [request.body for request in server.asked.requests if request.body]
    assert [(body["max_tokens"], body["top_p"]) for body in bodies[:3]] == [(9, 0.5)] * 3


@pytest.mark.parametrize(
    ("scorer", "seen"),
    [
        (
            {"type": "string_equals", "ground_truth": "{{ sample.answer }}"},
            "scorer `string_equals`: 3 of 3 right; for example 'B'",
        ),
        (
            {
                "type": "model_as_a_judge_scorer",
                "model_key": "builtin/constant",
                "user_prompt": "{{ sample.answer }}",
            },
            "a model judges the replies: not tried; for example 'B'",
        ),
    ],
)
def test_scorers_that_know_no_letters_have_a_note(
    server: TestServer, task: list[str], scorer: dict[str, str], seen: str
) -> None:
    """What they say of the replies is shown where it costs nothing."""
    quiz: dict[str, Any] = json.loads(json.dumps(QUIZ))
    quiz["definition"]["scorers"] = [scorer]
    checks = examine(f"{server.url}#test", quiz, dataset=task[-1])["checks"]
    assert find(checks, "one letter")["status"] == "note"
    assert find(checks, "one letter")["seen"] == seen


def test_a_task_of_log_probabilities_needs_them(server: TestServer, task: list[str]) -> None:
    """Where they are dropped, the check fails."""
    server.change(lambda messages: Reply(say(messages), logprobs={}))
    quiz: dict[str, Any] = json.loads(json.dumps(QUIZ))
    quiz["definition"]["scorers"][0]["type"] = "choice_probabilities"
    result = examine(f"{server.url}?top_logprobs=5#test", quiz, dataset=task[-1])
    assert find(result["checks"], "log-probabilities")["status"] == "failed"
    assert result["good"] is False


def test_longer_replies_are_a_note(call: Call, server: TestServer, task: list[str]) -> None:
    """What the scorer reads is good enough for it."""
    server.change(lambda messages: f"{say(messages)}. It is so.")
    report = call("doctor", f"{server.url}#test", *task, "--json").json["doctor"]
    assert (find(report["checks"], "one letter")["status"], report["good"]) == ("note", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["builtin/random"], "`doctor` asks an endpoint: `builtin/random` is none"),
        (["openai/gpt-4.1-nano"], "`OPENAI_API_KEY` is not set"),
        (["no-such-model"], "model `no-such-model` is not defined"),
        (["openai/m", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_cannot_be_examined_is_an_error(
    call: Call, server: TestServer, words: list[str], message: str
) -> None:
    """Exit code 2, before anything is sent."""
    refused = call("doctor", *words)
    assert (refused.code, message in refused.err, server.asked.total) == (2, True, 0)


def test_what_a_terminal_shows(call: Call, server: TestServer) -> None:
    """A sign and a word for each check, what to do below it, one line of counts; 100 cells wide."""
    server.change("A")
    done = call("doctor", f"{server.url}#test")
    lines = done.out.splitlines()
    assert done.err == "a few small calls, each of at most 20 s\n"
    assert lines[0] == f"{server.url}#test: built-in questions"
    seen = "`stated_answer` reads 3 of 3 replies, 0 right; for example 'A'"
    assert f"  ! warning  one letter         {seen}" in lines
    assert f"{'':32}means: the questions are easy: the model may not see them" in lines
    assert f"{'':32}do: see `chat template`" in lines
    assert lines[-1].startswith("passed: 0 errors, 1 warning; 8 calls, ")
    assert max(map(len, lines)) <= 100
    assert call("doctor", f"{server.url}#test", "-q").err == ""
