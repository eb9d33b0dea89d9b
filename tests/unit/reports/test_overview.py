"""Laws of the overview of a run: the keys that pages rely on, and what stands in them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.projects import describe_solver, write_rows, write_task

import answerkey as ak
from answerkey.reports.overview import audit_task, build_overview, count_readings, dump
from answerkey.reports.samples import SampleTable
from answerkey.runs import Run
from answerkey.testing import Reply, TestServer

from .conftest import COUNTED

Rows = Sequence[Mapping[str, Any]]
RUN_KEYS = "id label status started_at seconds simulated notices gates tasks"
TASK_KEYS = (
    "key display_name model dataset scorer rule samples headline counts metrics calls"
    " findings audited audit_note plots rows"
)
HEADLINE_KEYS = "name value interval n right is_share chance above_chance note"
PLOT_KEYS = "invalid letters categories rules reliability"
ROWS = [
    {"question": "one", "answer": "A", "category": "law", "completion": "A"},
    {"question": "two", "answer": "B", "category": "law", "completion": "The answer is B"},
    {"question": "three", "answer": "B", "category": "art", "completion": "A"},
    {"question": "four", "answer": "B", "category": "art", "completion": "B"},
]


def write_run(folder: Path, rows: Rows = ROWS, model: str | None = None, **parts: object) -> Run:
    """Return a finished run on disk; without a model the rows hold the completions."""
    dataset = write_rows(folder / "rows.jsonl", rows)
    task = write_task(folder / "task.yaml", **parts)
    return ak.run(task, dataset=dataset, out=folder / "out", model=model)


def ask(folder: Path, rows: Rows) -> Run:
    """Return a run that asked a live model with log-probabilities, scored by the text alone.

    It says A, and is 0.75 sure of it; it refuses to answer what is called broken.
    """

    def answer(messages: Sequence[Mapping[str, Any]]) -> Reply:
        if messages[-1]["content"] == "broken":
            return Reply(status=400, body=b"{}")
        return Reply("A", logprobs={"A": math.log(0.75), "B": math.log(0.25)})

    with TestServer(answer) as server:
        return write_run(folder, rows, f"{server.url}?top_logprobs=2#m", solver=describe_solver())


@pytest.fixture
def done(tmp_path: Path) -> Run:
    """Return a run of four samples: two right, one wrong, one INVALID."""
    return write_run(tmp_path)


def describe(run: Run, *, is_brief: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the overview of a run with one task, and that task."""
    audits = {}
    for key, task_run in run.tasks.items():
        audits[key] = count_readings(task_run)
        if not is_brief:
            audits[key] = audit_task(SampleTable(run, task_run))
    overview = dump(build_overview(run, audits, run_id="r0", label="done"))
    json.dumps(overview, allow_nan=False)
    (task,) = overview["tasks"]
    return overview, task


def test_the_keys_are_those_of_the_contract(done: Run, tmp_path: Path) -> None:
    """Every key is there, whatever is known.

    A page is sent to others, so no path of this machine is.
    """
    overview, task = describe(done)
    assert (list(overview), list(task)) == (RUN_KEYS.split(), TASK_KEYS.split())
    assert set(task["headline"]) == set(HEADLINE_KEYS.split())
    assert list(task["plots"]) == PLOT_KEYS.split()
    assert str(tmp_path) not in json.dumps(overview)


def test_the_headline_says_number_interval_and_chance(done: Run) -> None:
    """What a reader needs in ten seconds."""
    overview, task = describe(done)
    assert overview.items() >= {"label": "done", "status": "complete", "simulated": False}.items()
    headline = {"name": "Accuracy", "value": 0.5, "n": 4, "right": 2, "note": None}
    headline |= {"chance": 0.5, "above_chance": 0.0, "is_share": True}
    assert task["headline"] == {**headline, "interval": task["headline"]["interval"]}
    assert list(task["counts"].items()) == list(zip(COUNTED, (4, 4, 3, 1, 0, 0, 0, 0), strict=True))
    about = [task[name] for name in ("model", "dataset", "rule")]
    assert about == ["dataset completions", "rows", "first_character"]


def test_plots_hold_what_is_drawn(done: Run) -> None:
    """Categories with intervals, INVALID by reason, rules and letters."""
    plots = describe(done)[1]["plots"]
    assert plots["categories"]["column"] == "category"
    art, law = plots["categories"]["rows"]
    shown = [(bar["label"], bar["value"], bar["n"]) for bar in (art, law)]
    assert shown == [("art", 0.5, 2), ("law", 0.5, 2)]
    assert art["interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
    assert plots["invalid"] == [{"reason": "NOT_A_CHOICE", "count": 1, "stated": 1, "right": 1}]
    rules = {plot["name"]: plot for plot in plots["rules"]}
    own_rule = {"kind": "own", "value": 0.5, "invalid_share": 0.25}
    assert rules["first_character"].items() >= own_rule.items()
    bar_of_rule = {"kind": "rule", "value": 0.75, "invalid_share": 0.0}
    assert rules["stated_answer"].items() >= bar_of_rule.items()
    letters = plots["letters"]
    assert (letters["true"], letters["predicted"]) == (["A", "B"], ["A", "B", "INVALID"])
    assert letters["counts"] == [[1, 0, 0], [1, 1, 1]]
    assert plots["reliability"] is None


def test_without_its_dataset_a_run_says_what_it_counted(done: Run, tmp_path: Path) -> None:
    """Completions are not read again, and the page says so; no path is named on it."""
    brief = describe(done, is_brief=True)[1]
    (tmp_path / "rows.jsonl").unlink()
    overview, task = describe(done)
    reason = "the dataset or the completions are gone or have changed"
    assert task["audited"] == 4
    assert task["audit_note"] == f"completions are not read again: {reason}"
    rules = ["first_character", "first_character_literal", "leading_label", "stated_answer"]
    assert [rule["name"] for rule in task["plots"]["rules"]] == rules
    (bar,) = task["plots"]["invalid"]
    assert bar == {"reason": "NOT_A_CHOICE", "count": 1, "stated": None, "right": None}
    assert task["headline"]["value"] == 0.5
    assert str(tmp_path) not in json.dumps(overview)
    # A brief overview reads nothing again either way.
    assert brief == {**task, "audit_note": None}


PASS_2 = {"score_name": "is_correct", "aggregator": {"function": "pass@k", "k": 2}}


@pytest.mark.parametrize(
    ("aggregators", "chance"), [({}, 0.5), ({"score_aggregators": [PASS_2]}, None)]
)
def test_trials_are_counted_apart_from_samples(
    tmp_path: Path, aggregators: dict[str, Any], chance: float | None
) -> None:
    """Categories of trials have no interval: trials of one sample are no independent draws.

    Guessing twice is right more often than once: for pass@2, 1/K is no level to hold a number
    against.
    """
    rows = [{"question": str(place), "answer": "A", "category": "law"} for place in range(3)]
    model, trials = "builtin/constant?choice=A", {"num_trials": 2, **aggregators}
    _, task = describe(write_run(tmp_path, rows, model, solver=describe_solver(), trials=trials))
    assert (task["samples"], task["rows"]["trials"], task["rows"]["count"]) == (3, 2, 6)
    assert task["headline"]["chance"] == chance
    (law,) = task["plots"]["categories"]["rows"]
    assert law == {"label": "law", "correct": 6, "value": 1.0, "interval": None, "n": 6}


def test_an_incomplete_run_has_counts_and_no_shares(make_run: Callable[..., Run]) -> None:
    """A share of the rest says nothing about the whole; what was counted is counted.

    A warning keeps its words and its advice, and not its place.
    """
    overview, task = describe(make_run("incomplete"))
    assert overview["notices"] == ["`choices_field` is an old name; write `choices`"]
    assert overview["simulated"] is True
    assert task["headline"]["value"] is None
    assert task["headline"]["note"].startswith("INCOMPLETE: ")
    assert {metric["value"] for metric in task["metrics"]} == {None}
    assert {name for name in task["plots"] if task["plots"][name]} == {"invalid", "letters"}


def test_a_live_run_has_its_calls(tmp_path: Path) -> None:
    """With tokens and latency."""
    rows = [{"question": str(place), "answer": "AB"[place % 2]} for place in range(10)]
    (calls,) = describe(ask(tmp_path, rows))[1]["calls"]
    assert (calls["purpose"], calls["asked"]) == ("solve", 10)
    assert 0 < calls["latency"]["p50"] <= calls["latency"]["p95"]
    assert calls["prompt_tokens"] > 0


def test_a_run_with_failed_calls_shows_no_accuracy(tmp_path: Path) -> None:
    """The sentence says how many got no completion.

    Findings that rest on the accuracy are left out.
    """
    rows = [{"question": str(place), "answer": "B"} for place in range(30)]
    overview, task = describe(ask(tmp_path, [*rows, {"question": "broken", "answer": "A"}]))
    what = "so no accuracy is shown: a share of the rest says nothing about the whole"
    cause = "1 of 31 samples got no completion"
    assert task["headline"]["note"] == f"INCOMPLETE: {cause}, {what}."
    assert (overview["status"], task["counts"]["errors"]) == ("incomplete", 1)
    assert [finding["kind"] for finding in task["findings"]] == ["COMPLETIONS_ALIKE"]


def test_a_large_run_is_read_in_part(done: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more completions than are read again so many are drawn, and the page says so.

    The figure of rules compares all of them, the run's own too, on the same samples.
    """
    monkeypatch.setattr("answerkey.reports.samples.MAX_REREAD", 3)
    _, task = describe(done)
    note = "3 of 4 completions, drawn at random, were read again; `answerkey audit` reads all"
    assert (task["audited"], task["audit_note"]) == (3, note)
    assert task["plots"]["letters"]["counts"] == [[1, 0, 0], [1, 1, 1]]
    assert task["plots"]["invalid"][0]["stated"] is None
    assert {(rule["n"], rule["drawn"]) for rule in task["plots"]["rules"]} == {(3, 3)}
    assert (task["plots"]["rules"][0]["value"], task["headline"]["value"]) == (2 / 3, 0.5)
    for finding in task["findings"]:
        assert finding["sentence"].startswith("On 3 samples drawn at random: ")
