"""Laws of tasks that read log-probabilities, from the file to the run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.projects import SCORER, describe_solver

import answerkey as ak
from answerkey.errors import AnswerkeyError
from answerkey.evaluate.dry_run import plan_calls
from answerkey.models import model as model_module
from answerkey.testing import Reply, TestServer
from answerkey.types import Completion, Request

if TYPE_CHECKING:
    from tests.unit.evaluate.conftest import Project

ROWS = [
    {"question": "q1", "options": ["red", "blue"], "answer": "B"},
    {"question": "q2", "options": ["red", "dark blue"], "answer": "A"},
    {"question": "q3", "options": ["red", "blue"], "answer": "A"},
]
QUESTION = "{{ sample.question }}"
ASKING = describe_solver(f"{QUESTION}\n{{{{ sample.options | join('\\n') }}}}")
RANKING = {
    **describe_solver(QUESTION),
    "type": "choice_ranking_solver",
    "continuations": "{{ sample.options | map('regex_replace', '^', ' ') | list }}",
}
TEXT = SCORER
PROBABILITIES = {**SCORER, "type": "choice_probabilities"}
ECHO = "?api=completions&echo=true#m"


def order(orders: str, **more: object) -> dict[str, object]:
    """Return a setting of `choice_order`."""
    return {"options": "{{ sample.options }}", "orders": orders, **more}


def debias(share: float) -> dict[str, object]:
    """Return a definition with PriDe."""
    return {"choice_order": order("original", pride={"share": share})}


def write(project: Project, *scorers: Mapping[str, Any], **definition: object) -> Project:
    """Write a task file and its rows."""
    project.write_rows(ROWS)
    project.write_task(project.task(scorers=scorers or [PROBABILITIES], **definition))
    return project


def answer(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """Be 0.8 sure of B, and write A to the second question; send nothing to the third."""
    prompt = messages[-1]["content"]
    shares = {"B": 0.6, " B": 0.2, "A": 0.2}
    logprobs = {token: math.log(share) for token, share in shares.items()}
    return Reply("A" if prompt == "q2" else "B", logprobs={} if prompt == "q3" else logprobs)


def read_values(run: ak.Run) -> dict[str, float | None]:
    """Return the values of all metrics by name."""
    return {name: value.value for name, value in run.metrics.items()}


def test_text_and_probabilities_are_scored_apart(project: Project) -> None:
    """Each scorer has its own numbers.

    A completion without log-probabilities has none by probability.
    """
    with TestServer(answer) as server:
        run = write(project, TEXT, PROBABILITIES).run(model=f"{server.url}?top_logprobs=5#m")
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
    assert read_values(ak.rescore(run, out=project.folder / "two")) == read_values(run)


@pytest.mark.parametrize(
    ("solver", "model", "message"),
    [
        (ASKING, "http://127.0.0.1:9/v1#m", r"E108.*is not asked for them"),
        (ASKING, "http://127.0.0.1:9/v1?logprobs=true#m", r"E108.*`top_logprobs` is not set"),
        (ASKING, "builtin/random", r"(?s)E108.*has none.*name the model of an endpoint"),
        (RANKING, "builtin/random", "E301"),
        (RANKING, "http://127.0.0.1:9/v1?api=completions#m", "E301"),
    ],
)
def test_a_model_that_sends_no_logprobs_or_echo_is_refused_before_it_is_asked(
    project: Project, solver: object, model: str, message: str
) -> None:
    """The error names the scorer, and how to ask for them."""
    with pytest.raises(AnswerkeyError, match=message):
        write(project, solver=solver).run(model=model)


@pytest.mark.parametrize(
    ("scorer", "definition", "code", "message"),
    [
        (TEXT, {"solver": RANKING}, "E108", "no text"),
        (PROBABILITIES, {"solver": {**RANKING, "continuations": QUESTION}}, "E302", ""),
        (TEXT, debias(2), "E108", "`share` is 2.0"),
        (TEXT, debias(0.5), "E108", "no scorer of the task"),
    ],
)
def test_what_has_nothing_to_read_is_found_by_check(
    project: Project, scorer: dict[str, Any], definition: dict[str, Any], code: str, message: str
) -> None:
    """A ranking has no text, continuations must be texts, and PriDe needs a scorer of
    probabilities.
    """
    write(project, scorer, **definition)
    rows = project.folder / "rows.jsonl"
    errors = ak.check(project.folder / "task.yaml", dataset=rows).errors
    assert {error.code for error in errors} == {code}
    assert message in errors[0].message


def test_recorded_completions_may_bring_logprobs(project: Project) -> None:
    """As a column, or in a whole chat completion."""
    top = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.5}]
    logprobs = {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": top}]}
    message = {"role": "assistant", "content": "A"}
    whole = {"choices": [{"message": message, "logprobs": logprobs, "finish_reason": "stop"}]}
    task = project.task(solver=None, scorers=[PROBABILITIES])
    column = [{"completion": "A", "logprobs": json.dumps(logprobs)} for _ in ROWS]
    cells = [{"completion": whole} for _ in ROWS]
    for completions in (column, cells):
        values = read_values(ak.score(task, ROWS, completions))
        assert values["Accuracy by Probability"] == pytest.approx(2 / 3)
        assert values["Text Mismatch Rate"] == 0.0


def rank(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """Find ` red` likelier than any other ending.

    A long ending less likely, but not by its length.
    """
    del messages
    return Reply("x", logprobs={" red": -1.0, " blue": -2.0, " dark blue": -1.5})


@pytest.mark.parametrize(("normalise", "accuracy"), [("none", 2 / 3), ("tokens", 1 / 3)])
def test_base_models_rank_continuations(project: Project, normalise: str, accuracy: float) -> None:
    """Each continuation is one call; nothing that is generated counts."""
    write(project, {**PROBABILITIES, "normalise": normalise}, solver=RANKING)
    with TestServer(rank) as server:
        options: dict[str, Any] = {"model": f"{server.url}{ECHO}", "cache_policy": "no-cache"}
        rows = project.folder / "rows.jsonl"
        planned = plan_calls(project.folder / "task.yaml", dataset=rows, **options).tasks[0]
        assert (planned.calls, planned.completion_tokens) == (6, 6)
        run = project.run(**options)
        bodies = [request.body or {} for request in server.asked.requests]
        assert [body["max_tokens"] for body in bodies] == [1] * 6
    assert read_values(run)["Accuracy by Probability"] == pytest.approx(accuracy)
    stored = json.loads(run.tasks["quiz"].completions["logprobs"][1])["ranking"]
    assert stored[1] == {"continuation": " dark blue", "logprob": -1.5, "tokens": 2, "bytes": 10}


class OwnModel:
    """A model in the process: it writes B, is 0.7 sure of A, and finds ` red` likeliest."""

    is_simulated = False

    def __init__(self, name: str = "own") -> None:
        self.name = name
        self.prompts: list[str] = []

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Return B, with its first token's alternatives."""
        shares = {"A": math.log(0.7), "B": math.log(0.3)}
        logprobs = {"tokens": ["B"], "token_logprobs": [shares["B"]], "top_logprobs": [shares]}
        return [Completion("B", logprobs=logprobs)] * len(requests)

    def loglikelihoods(self, context: str, continuations: Sequence[str]) -> list[float]:
        """Return the log-probabilities of the continuations."""
        self.prompts.append(context)
        logprobs = {" red": -1.0, " blue": -2.0, " dark blue": -1.5}
        return [logprobs[text] for text in continuations]


@pytest.mark.parametrize(("normalise", "accuracy"), [("none", 2 / 3), ("bytes", 1 / 3)])
def test_models_in_the_process_can_rank(project: Project, normalise: str, accuracy: float) -> None:
    """It is asked once for each sample, and what it said is in the journal."""
    write(project, {**PROBABILITIES, "normalise": normalise}, solver=RANKING)
    model = OwnModel()
    with pytest.raises(ak.SolverError, match="stopped at the limit of 3 calls"):
        project.run(model=model, max_calls=3)
    assert model.prompts == ["q1", "q2"]
    run = ak.resume(project.folder / "run", model=model)
    assert model.prompts[2:] == ["q2", "q3"]
    assert read_values(run)["Accuracy by Probability"] == pytest.approx(accuracy)
    stored = json.loads(run.tasks["quiz"].completions["logprobs"][1])["ranking"]
    assert stored[1] == {"continuation": " dark blue", "logprob": -1.5, "bytes": 10}


def test_the_tokens_of_a_model_in_the_process_are_not_known(project: Project) -> None:
    """What cannot be divided by its tokens is FAILED."""
    write(project, {**PROBABILITIES, "normalise": "tokens"}, solver=RANKING)
    assert project.run(model=OwnModel()).tasks["quiz"].counts["failed"] == 3


def test_a_model_of_a_package_ranks_and_is_sure(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry point finds the same class; `complete` gives probabilities of letters."""
    point = EntryPoint("acme", f"{__name__}:OwnModel", "answerkey.models")
    points = {"answerkey.models": [point]}
    monkeypatch.setattr(model_module, "entry_points", lambda group: points[group])
    run = write(project, solver=RANKING).run(model="acme/small")
    assert read_values(run)["Accuracy by Probability"] == pytest.approx(2 / 3)
    write(project, solver=ASKING)
    values = read_values(project.run(model="acme/small", out="letters"))
    assert values["Accuracy by Probability"] == pytest.approx(2 / 3)
    assert values["Text Mismatch Rate"] == 1.0


def give_text(_context: str, _continuations: Sequence[str]) -> object:
    """Return no numbers."""
    return ["likely", math.nan]


def give_one(_context: str, _continuations: Sequence[str]) -> object:
    """Return too few numbers."""
    return [-1.0]


def raise_error(_context: str, _continuations: Sequence[str]) -> object:
    """Fail."""
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("loglikelihoods", "counts", "error"),
    [
        (give_text, (3, 0), None),
        (give_one, (0, 3), "ValueError: `loglikelihoods` returned 1 numbers for 2 continuations"),
        (raise_error, (0, 3), "RuntimeError: out of memory"),
    ],
)
def test_what_is_no_log_probability_is_not_made_one(
    project: Project, loglikelihoods: object, counts: tuple[int, int], error: str | None
) -> None:
    """A value that is none is FAILED, an exception or a wrong count is the error of the calls."""
    model = OwnModel()
    vars(model)["loglikelihoods"] = loglikelihoods
    task = write(project, solver=RANKING).run(model=model).tasks["quiz"]
    assert (task.counts["failed"], task.counts["errors"]) == counts
    assert task.completions["error"][0] == error


def test_numbers_of_numpy_are_log_probabilities(project: Project) -> None:
    """As a model gives them that computes with NumPy."""
    model = OwnModel()
    vars(model)["loglikelihoods"] = lambda _context, ends: -np.arange(1.0, 1 + len(ends))
    run = write(project, solver=RANKING).run(model=model)
    assert run.tasks["quiz"].counts["failed"] == 0
    assert read_values(run)["Accuracy by Probability"] == pytest.approx(2 / 3)


def test_an_object_may_return_texts(project: Project) -> None:
    """What is no completion is read like the value of a function."""
    model = type("Texts", (), {"complete": lambda _self, requests: ["B"] * len(requests)})()
    run = write(project, TEXT, solver=ASKING).run(model=model)
    assert run.tasks["quiz"].completions["completion"].to_list() == ["B", "B", "B"]


def test_a_model_in_the_process_without_them_cannot_rank(project: Project) -> None:
    """E301, before anything is asked."""
    model = type("Silent", (), {"complete": OwnModel.complete})()
    with pytest.raises(ak.SpecError, match=r"^error\[E301\]: .*model `Silent`"):
        write(project, solver=RANKING).run(model=model)


def test_an_endpoint_that_does_not_echo_fails_every_row(project: Project) -> None:
    """No ranking is made up."""
    with TestServer(Reply("x", logprobs={})) as server:
        run = write(project, solver=RANKING).run(model=f"{server.url}{ECHO}")
    assert run.tasks["quiz"].counts["failed"] == 3
    assert read_values(run)["Accuracy by Probability"] is None


def test_orders_and_probabilities_go_together(project: Project) -> None:
    """A model that finds the first place likeliest has a recall of 1 there and 0 elsewhere."""
    write(project, choice_order=order("rotations"), solver=ASKING)
    logprobs = {"A": math.log(0.9), "B": math.log(0.1)}
    with TestServer(Reply("B", logprobs=logprobs)) as server:
        values = read_values(project.run(model=f"{server.url}?top_logprobs=2#m"))
    assert (values["order_recall_A"], values["order_recall_B"]) == (1.0, 0.0)
    assert (values["order_rstd"], values["Accuracy by Probability"]) == (50.0, 0.5)


WORDS = ["right", "wrong", "bad", "worse"]
PLACES = (0.55, 0.2, 0.15, 0.1)
SURE = {"right": 4.0, "wrong": 2.0, "bad": 1.0, "worse": 1.0}


def like_places(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """Find an option as likely as its place and its content together make it."""
    lines = str(messages[-1]["content"]).split("\n")[1:]
    weights = [share * SURE[word] for share, word in zip(PLACES, lines, strict=True)]
    logprobs = {}
    for label, weight in zip("ABCD", weights, strict=True):
        logprobs[label] = math.log(weight / sum(weights))
    return Reply(max(logprobs, key=lambda label: logprobs[label]), logprobs=logprobs)


def test_pride_asks_the_rotations_of_some_samples_and_debiases_the_others(project: Project) -> None:
    """Rows that estimate the prior count towards nothing else; `rescore` gives the same numbers."""
    rows = []
    for number in range(60):
        turn = number % 4
        options = [*WORDS[turn:], *WORDS[:turn]]
        truth = "ABCD"[options.index("right")]
        rows.append({"question": f"q{number}", "options": options, "answer": truth})
    pride = order("original", pride={"share": 0.3, "seed": 2})
    scorer = {**PROBABILITIES, "choices": ["A", "B", "C", "D"]}
    write(project, scorer, choice_order=pride, solver=ASKING)
    project.write_rows(rows)
    with TestServer(like_places) as server:
        run = project.run(model=f"{server.url}?top_logprobs=4#m")
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
    assert read_values(ak.rescore(run, out=project.folder / "two")) == values
    pair = ak.compare(run, ak.load_run(project.folder / "two")).tasks[0].pairs[0]
    assert (pair.difference.n, pair.difference.first) == (60, values["Accuracy by Probability"])
