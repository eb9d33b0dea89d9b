"""Laws of tasks that read log-probabilities, from the file to the run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.errors import AnswerkeyError
from answerkey.evaluate.runner import plan_calls
from answerkey.testing import Reply, TestServer

ROWS = [
    {"question": "q1", "options": ["red", "blue"], "answer": "B"},
    {"question": "q2", "options": ["red", "dark blue"], "answer": "A"},
    {"question": "q3", "options": ["red", "blue"], "answer": "A"},
]
CHAT = {"type": "chat_completion", "input_messages": [{"role": "user", "content": "{{ sample.question }}"}]}
SOLVER = {"type": "single_turn_solver", "input_builder": CHAT}
RANKING = {
    "type": "choice_ranking_solver",
    "input_builder": CHAT,
    "continuations": "{{ sample.options | map('regex_replace', '^', ' ') | list }}",
}
PROBABILITIES = {
    "type": "choice_probabilities",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}
TEXT = {**PROBABILITIES, "type": "string_equals_mcqa"}
Called = Callable[..., Any]


def write_project(folder: Path, **definition: object) -> Path:
    """Write a task file and its rows; return the task file."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    task = {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}
    (folder / "task.yaml").write_text(json.dumps(task))
    return folder / "task.yaml"


def answer(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """Be 0.8 sure of B, and write A to the second question; send nothing to the third."""
    prompt = messages[-1]["content"]
    shares = {"B": 0.6, " B": 0.2, "A": 0.2}
    logprobs = {token: math.log(share) for token, share in shares.items()}
    return Reply("A" if prompt == "q2" else "B", logprobs={} if prompt == "q3" else logprobs)


def read_values(run: ak.Run) -> dict[str, float | None]:
    """Return the values of all metrics by name."""
    return {name: one.value for name, one in run.metrics.items()}


def test_text_and_probabilities_are_scored_apart(tmp_path: Path) -> None:
    """Each scorer has its own numbers; a completion without log-probabilities has none by probability."""
    task = write_project(tmp_path, solver=SOLVER, scorers=[TEXT, PROBABILITIES])
    with TestServer(answer) as server:
        model = f"{server.url}?top_logprobs=5#m"
        run = ak.run(task, dataset=tmp_path / "rows.jsonl", model=model, out=tmp_path / "out")
    assert read_values(run) == {
        "Accuracy": pytest.approx(2 / 3),
        "Accuracy by Probability": 0.5,
        "Text Mismatch Rate": 0.5,
        "ece_10": pytest.approx(0.3),
        "ece_15": pytest.approx(0.3),
        "Brier Score": pytest.approx((0.08 + 1.28) / 2),
        "NLL": pytest.approx((-math.log(0.8) - math.log(0.2)) / 2),
        "Choice Mass": pytest.approx(1.0),
        "Choices outside top_logprobs": 0.0,
    }
    assert run.metrics["Accuracy by Probability"].n_excluded == {"failed": 1}
    assert run.tasks["quiz"].totals["failures"]["choice_probabilities"]["NO_LOGPROBS"]["count"] == 1
    again = ak.rescore(run, out=tmp_path / "two")
    assert read_values(again) == read_values(run)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("http://127.0.0.1:9/v1#m", "is not asked for them"),
        ("http://127.0.0.1:9/v1?logprobs=true#m", "`top_logprobs` is not set"),
        ("builtin/random", "has none"),
    ],
)
def test_a_model_that_sends_no_logprobs_is_refused_before_it_is_asked(
    tmp_path: Path, model: str, said: str
) -> None:
    """The error names the scorer, and how to ask for them."""
    task = write_project(tmp_path, solver=SOLVER, scorers=[PROBABILITIES])
    with pytest.raises(AnswerkeyError, match=said) as caught:
        ak.run(task, dataset=tmp_path / "rows.jsonl", model=model, out=tmp_path / "out")
    assert caught.value.code == "E108"


def test_recorded_completions_may_bring_logprobs() -> None:
    """As a column, or in a whole chat completion."""
    top = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.5}]
    logprobs = {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": top}]}
    message = {"role": "assistant", "content": "A"}
    whole = {"choices": [{"message": message, "logprobs": logprobs, "finish_reason": "stop"}]}
    task = {
        "key": "quiz",
        "display_name": "Quiz",
        "description": "",
        "definition": {"scorers": [PROBABILITIES]},
    }
    column = [{"completion": "A", "logprobs": json.dumps(logprobs)} for _ in ROWS]
    cells = [{"completion": whole} for _ in ROWS]
    for said in (column, cells):
        values = read_values(ak.score(task, ROWS, said))
        assert values["Accuracy by Probability"] == pytest.approx(2 / 3)
        assert values["Text Mismatch Rate"] == 0.0


def rank(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """Find ` red` likelier than any other ending; a long ending less likely, but not by its length."""
    del messages
    return Reply("x", logprobs={" red": -1.0, " blue": -2.0, " dark blue": -1.5})


@pytest.mark.parametrize(("normalise", "accuracy"), [("none", 2 / 3), ("tokens", 1 / 3)])
def test_base_models_rank_continuations(tmp_path: Path, normalise: str, accuracy: float) -> None:
    """Each continuation is one call; nothing that is generated counts."""
    scorer = {**PROBABILITIES, "normalise": normalise}
    task = write_project(tmp_path, solver=RANKING, scorers=[scorer])
    with TestServer(rank) as server:
        model = f"{server.url}?api=completions&echo=true#m"
        planned = plan_calls(
            task, dataset=tmp_path / "rows.jsonl", model=model, cache_policy="no-cache"
        ).tasks[0]
        assert (planned.calls, planned.completion_tokens) == (6, 6)
        run = ak.run(
            task, dataset=tmp_path / "rows.jsonl", model=model, out=tmp_path / "out", cache_policy="no-cache"
        )
        assert server.asked.total == 6
        assert {request.body and request.body["max_tokens"] for request in server.asked.requests} == {1}
    assert read_values(run)["Accuracy by Probability"] == pytest.approx(accuracy)
    stored = json.loads(run.tasks["quiz"].completions["logprobs"][1])["ranking"]
    assert stored[1] == {"continuation": " dark blue", "logprob": -1.5, "tokens": 2, "bytes": 10}


def test_an_endpoint_that_does_not_echo_fails_every_row(tmp_path: Path) -> None:
    """No ranking is made up."""
    task = write_project(tmp_path, solver=RANKING, scorers=[PROBABILITIES])
    with TestServer(Reply("x", logprobs={})) as server:
        model = f"{server.url}?api=completions&echo=true#m"
        run = ak.run(task, dataset=tmp_path / "rows.jsonl", model=model, out=tmp_path / "out")
    assert run.tasks["quiz"].counts["failed"] == 3
    assert read_values(run)["Accuracy by Probability"] is None


def test_ranking_needs_a_model_that_echoes(tmp_path: Path) -> None:
    """Any other is refused by name."""
    task = write_project(tmp_path, solver=RANKING, scorers=[PROBABILITIES])
    for model in ("builtin/random", "http://127.0.0.1:9/v1?api=completions#m"):
        with pytest.raises(AnswerkeyError) as caught:
            ak.run(task, dataset=tmp_path / "rows.jsonl", model=model, out=tmp_path / model[:4])
        assert caught.value.code == "E301"


def test_a_scorer_of_texts_cannot_read_a_ranking(tmp_path: Path, call: Called) -> None:
    """There is no text: every completion would be INVALID."""
    task = write_project(tmp_path, solver=RANKING, scorers=[TEXT])
    found = call("check", task, "--dataset", tmp_path / "rows.jsonl", "--json").json["errors"]
    assert [one["code"] for one in found] == ["E108"]
    assert "no text" in found[0]["message"]


def test_continuations_must_be_texts(tmp_path: Path, call: Called) -> None:
    """A row without any cannot be asked."""
    solver = {**RANKING, "continuations": "{{ sample.question }}"}
    task = write_project(tmp_path, solver=solver, scorers=[PROBABILITIES])
    found = call("check", task, "--dataset", tmp_path / "rows.jsonl", "--json").json["errors"]
    assert {one["code"] for one in found} == {"E302"}


def test_orders_and_probabilities_go_together(tmp_path: Path) -> None:
    """A model that finds the first place likeliest has a recall of 1 there and 0 elsewhere."""
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    prompt = {"role": "user", "content": "{{ sample.question }} {{ sample.options | join(' ') }}"}
    solver = {"type": "single_turn_solver", "input_builder": {**CHAT, "input_messages": [prompt]}}
    task = write_project(tmp_path, choice_order=order, solver=solver, scorers=[PROBABILITIES])
    logprobs = {"A": math.log(0.9), "B": math.log(0.1)}
    with TestServer(Reply("B", logprobs=logprobs)) as server:
        model = f"{server.url}?top_logprobs=2#m"
        values = read_values(ak.run(task, dataset=tmp_path / "rows.jsonl", model=model, out=tmp_path / "out"))
    assert (values["order_recall_A"], values["order_recall_B"], values["order_rstd"]) == (1.0, 0.0, 50.0)
    assert values["Accuracy by Probability"] == 0.5


WORDS = ["right", "wrong", "bad", "worse"]
PLACES = (0.55, 0.2, 0.15, 0.1)
SURE = {"right": 4.0, "wrong": 2.0, "bad": 1.0, "worse": 1.0}


def like_places(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """Find an option as likely as its place and its content together make it."""
    lines = str(messages[-1]["content"]).split("\n")[1:]
    weights = [share * SURE[word] for share, word in zip(PLACES, lines, strict=True)]
    logprobs = {label: math.log(one / sum(weights)) for label, one in zip("ABCD", weights, strict=True)}
    return Reply(max(logprobs, key=lambda label: logprobs[label]), logprobs=logprobs)


def test_pride_asks_the_rotations_of_some_samples_and_debiases_the_others(tmp_path: Path) -> None:
    """Rows that estimate the prior count towards nothing else; `rescore` gives the same numbers."""
    rows = []
    for number in range(60):
        turn = number % 4
        options = [*WORDS[turn:], *WORDS[:turn]]
        rows.append({"question": f"q{number}", "options": options, "answer": "ABCD"[options.index("right")]})
    order = {"options": "{{ sample.options }}", "orders": "original", "pride": {"share": 0.3, "seed": 2}}
    prompt = {"role": "user", "content": "{{ sample.question }}\n{{ sample.options | join('\n') }}"}
    solver = {"type": "single_turn_solver", "input_builder": {**CHAT, "input_messages": [prompt]}}
    scorer = {**PROBABILITIES, "choices": ["A", "B", "C", "D"]}
    task = write_project(tmp_path, choice_order=order, solver=solver, scorers=[scorer])
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with TestServer(like_places) as server:
        model = f"{server.url}?top_logprobs=4#m"
        run = ak.run(task, dataset=tmp_path / "rows.jsonl", model=model, out=tmp_path / "out")
        drawn = run.metrics["pride_accuracy"].n_excluded["estimates_prior"]
        assert server.asked.total == 60 + 3 * drawn
    values = read_values(run)
    assert 5 < drawn < 35
    assert values["pride_accuracy"] == 1.0
    assert values["pride_accuracy_before"] is not None
    assert values["pride_accuracy_before"] < 0.8
    assert (run.metrics["Accuracy by Probability"].n, run.metrics["order_mean"].n) == (60, 60)
    assert run.tasks["quiz"].totals["orders"]["extra"] == 3 * drawn
    assert run.tasks["quiz"].counts["samples"] == 60
    assert read_values(ak.rescore(run, out=tmp_path / "two")) == values
    pair = ak.compare(run, ak.load_run(tmp_path / "two")).tasks[0].pairs[0]
    assert (pair.difference.n, pair.difference.first) == (60, values["Accuracy by Probability"])


def test_pride_needs_a_scorer_of_probabilities(tmp_path: Path, call: Called) -> None:
    """There is nothing to take a prior out of in a text."""
    order = {"options": "{{ sample.options }}", "orders": "original", "pride": {"share": 2}}
    task = write_project(tmp_path, choice_order=order, solver=SOLVER, scorers=[TEXT])
    found = call("check", task, "--dataset", tmp_path / "rows.jsonl", "--json").json["errors"]
    assert [one["message"] for one in found] == ["`share` is 2.0"]
    order["pride"] = {"share": 0.5}
    task = write_project(tmp_path, choice_order=order, solver=SOLVER, scorers=[TEXT])
    found = call("check", task, "--dataset", tmp_path / "rows.jsonl", "--json").json["errors"]
    assert "no scorer of the task reads any" in found[0]["message"]
