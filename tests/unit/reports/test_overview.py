"""Laws of the overview of a run: the keys that pages rely on, and what stands in them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.reports.overview import describe_overview
from answerkey.reports.terminal import draw_summary
from answerkey.runs import Run
from answerkey.testing import Reply, TestServer
from answerkey.text import plain_text

RUN_KEYS = "id label path status started_at seconds simulated notices gates tasks"
TASK_KEYS = (
    "key display_name model dataset scorer rule num_trials votes samples "
    "headline counts metrics"
    " findings audited plots rows"
)
HEADLINE_KEYS = "name value interval n right is_share chance above_chance baseline sentence note"
PLOT_KEYS = "categories invalid rules letters recalls reliability latency tokens"
MCQA = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}
CHAT = {
    "type": "chat_completion",
    "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
}
SOLVER = {"type": "single_turn_solver", "input_builder": CHAT}
ROWS = [
    {"question": "one", "answer": "A", "category": "law", "completion": "A"},
    {"question": "two", "answer": "B", "category": "law", "completion": "The answer is B"},
    {"question": "three", "answer": "B", "category": "art", "completion": "A"},
    {"question": "four", "answer": "B", "category": "art", "completion": "B"},
]


def make_task(*scorers: Mapping[str, Any], **definition: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML has any
    """Return a task with these scorers, or with one that reads choices."""
    words = {"key": "small", "display_name": "Small", "description": "Some questions."}
    return {**words, "definition": {"scorers": list(scorers) or [MCQA], **definition}}


def write_run(
    folder: Path,
    rows: Sequence[Mapping[str, Any]] = ROWS,
    name: str = "out",
    *,
    task: Mapping[str, Any] | None = None,
    model: str | None = None,
) -> Run:
    """Return a finished run on disk; without a model the rows hold the completions."""
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "task.yaml").write_text(json.dumps(task or make_task()))
    return ak.run(
        folder / "task.yaml", dataset=folder / "rows.jsonl", out=folder / name, model=model
    )


def ask(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Run:
    """Return a run that asked a live model with log-probabilities, scored by the text alone.

    It says A, and is 0.75 sure of it; it refuses to answer what is called broken.
    """

    def answer(messages: Sequence[Mapping[str, Any]]) -> Reply:
        if messages[-1]["content"] == "broken":
            return Reply(status=400, body=b"{}")
        return Reply("A", logprobs={"A": math.log(0.75), "B": math.log(0.25)})

    with TestServer(answer) as server:
        return write_run(
            folder, rows, task=make_task(solver=SOLVER), model=f"{server.url}?top_logprobs=2#m"
        )


@pytest.fixture
def done(tmp_path: Path) -> Run:
    """Return a run of four samples: two right, one wrong, one INVALID."""
    return write_run(tmp_path / "project", name="done")


def describe(run: Run, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401 - of describe_overview
    """Return the overview of a run with one task, and that task."""
    told = describe_overview(run, **options)
    json.dumps(told, allow_nan=False)
    (task,) = told["tasks"]
    return told, task


def test_the_keys_are_those_of_the_contract(done: Run, tmp_path: Path) -> None:
    """Every key is there, whatever is known.

    A page is sent to others, so no path of this machine is.
    """
    told, task = describe(done)
    assert (list(told), list(task)) == (RUN_KEYS.split(), TASK_KEYS.split())
    assert set(task["headline"]) == set(HEADLINE_KEYS.split())
    assert list(task["plots"]) == PLOT_KEYS.split()
    assert set(task["audited"]) == {"n", "of", "sentence", "unfit"}
    assert str(tmp_path) not in json.dumps(told)


def test_the_headline_says_number_interval_and_chance(done: Run) -> None:
    """What a reader needs in ten seconds is one sentence, and the numbers in it."""
    told, task = describe(done)
    about = [told[name] for name in ("label", "path", "status", "simulated")]
    assert about == ["done", "done", "complete", False]
    headline = task["headline"]
    assert (headline["name"], headline["value"], headline["n"]) == ("Accuracy", 0.5, 4)
    assert (headline["chance"], headline["above_chance"], headline["is_share"]) == (0.5, 0.0, True)
    assert (headline["right"], headline["note"]) == (2, None)
    assert headline["sentence"] == (
        "Accuracy is 50.00 % (95 % interval 15.00 to 85.00) on 4 samples, not told "
        "apart from the chance"
        " level of 50.00 %."
    )
    counts = {
        "samples": 4,
        "scored": 4,
        "valid": 3,
        "invalid": 1,
        "refused": 0,
        "declined": 0,
        "failed": 0,
        "errors": 0,
    }
    assert list(task["counts"].items()) == list(counts.items())
    named = [task[name] for name in ("model", "dataset", "rule")]
    assert named == ["dataset completions", "rows", "first_character"]


def test_plots_hold_what_is_drawn(done: Run) -> None:
    """Categories with intervals, INVALID by reason, rules, letters and recalls."""
    plots = describe(done)[1]["plots"]
    assert plots["categories"]["column"] == "category"
    art, law = plots["categories"]["rows"]
    shown = [(one["label"], one["value"], one["n"]) for one in (art, law)]
    assert shown == [("art", 0.5, 2), ("law", 0.5, 2)]
    assert art["interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
    assert plots["invalid"] == [{"reason": "NOT_A_CHOICE", "count": 1, "stated": 1, "right": 1}]
    rules = {
        one["name"]: (one["kind"], one["value"], one["invalid_share"]) for one in plots["rules"]
    }
    assert rules["first_character"] == ("own", 0.5, 0.25)
    assert rules["stated_answer"] == ("rule", 0.75, 0.0)
    letters = plots["letters"]
    assert (letters["true"], letters["predicted"]) == (["A", "B"], ["A", "B", "INVALID"])
    assert letters["counts"] == [[1, 0, 0], [1, 1, 1]]
    assert [(one["letter"], one["n"]) for one in plots["recalls"]["rows"]] == [("A", 1), ("B", 3)]
    assert plots["recalls"]["rstd"] == pytest.approx(100 / 3)
    assert (plots["reliability"], plots["latency"], plots["tokens"]) == (None, None, None)


def test_the_table_of_samples_says_what_to_choose_from(done: Run) -> None:
    """Categories, reasons and letters for the filters; whether rules disagree somewhere."""
    assert describe(done)[1]["rows"] == {
        "count": 4,
        "embedded": 4,
        "sentence": None,
        "categories": ["art", "law"],
        "reasons": ["NOT_A_CHOICE"],
        "letters": ["A", "B"],
        "has_flips": True,
        "trials": 1,
    }


def test_a_baseline_is_compared_sample_by_sample(done: Run, tmp_path: Path) -> None:
    """The difference has its interval and its p; the sentence says it, too."""
    better = write_run(
        tmp_path / "other", [{**row, "completion": row["answer"]} for row in ROWS], "better"
    )
    told, task = describe(better, baseline=done)
    baseline = task["headline"]["baseline"]
    assert (baseline["label"], baseline["value"], baseline["difference"]) == ("done", 0.5, 0.5)
    assert baseline["p"] == 0.5
    assert task["headline"]["sentence"].endswith("p 0.50000).")
    assert "Against done: +50.00 points" in task["headline"]["sentence"]
    assert told["notices"] == [
        "the datasets of `better` and `done` differ, though samples and truths are the same"
    ]
    # What cannot be compared is said, and nothing is made up.
    told, task = describe(done, baseline=write_run(tmp_path / "third", ROWS[:2], "shorter"))
    assert task["headline"]["baseline"] is None
    assert told["notices"][0].startswith("not compared with `shorter`: the runs have other samples")


def test_without_its_dataset_a_run_says_what_it_counted(done: Run, tmp_path: Path) -> None:
    """Completions are not read again, and the page says so; no path is named on it."""
    brief = describe(done, is_brief=True)[1]
    (tmp_path / "project" / "rows.jsonl").unlink()
    told, task = describe(done)
    sentence = (
        "completions are not read again: the dataset or the completions are gone or have changed"
    )
    assert task["audited"] == {"n": 4, "of": 4, "sentence": sentence, "unfit": None}
    rules = ["first_character", "first_character_literal", "leading_label", "stated_answer"]
    assert [one["name"] for one in task["plots"]["rules"]] == rules
    assert task["plots"]["invalid"] == [
        {"reason": "NOT_A_CHOICE", "count": 1, "stated": None, "right": None}
    ]
    assert task["headline"]["value"] == 0.5
    assert str(tmp_path) not in json.dumps(told)
    # A brief overview reads nothing again either way.
    assert brief == {**task, "audited": {**task["audited"], "sentence": None}}


def test_scorers_without_choices_have_no_letters() -> None:
    """A scorer that compares texts has its accuracy, and nothing about choices or chance."""
    texts = {"ground_truth": "{{ sample.answer }}", "value": "{{ sample.completion }}"}
    rows = [{"answer": "x", "completion": "x"}, {"answer": "y", "completion": "z"}]
    _, task = describe(ak.score(make_task({"type": "string_equals", **texts}), rows))
    assert task["headline"]["value"] == 0.5
    assert (task["headline"]["chance"], task["rule"]) == (None, None)
    assert {name for name, plot in task["plots"].items() if plot is not None} == set()
    assert (task["rows"]["letters"], task["rows"]["has_flips"]) == ([], False)


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
    task = make_task(solver=SOLVER, trials={"num_trials": 2, **aggregators})
    _, told = describe(write_run(tmp_path, rows, task=task, model="builtin/constant?choice=A"))
    assert (told["num_trials"], told["samples"], told["rows"]["trials"]) == (2, 3, 2)
    assert told["votes"] == "100.00 % (6 of 6 trials agree with the majority; 0 of 3 samples tied)"
    assert told["rows"]["count"] == 6
    assert told["headline"]["chance"] == chance
    assert told["plots"]["categories"]["rows"] == [
        {"label": "law", "value": 1.0, "interval": None, "n": 6}
    ]


def test_samples_without_any_vote_are_said(tmp_path: Path) -> None:
    """Replies that are INVALID agree on nothing; the terminal says the same as the page."""
    rows = [{"question": str(place), "answer": "A", "category": "law"} for place in range(3)]
    task = make_task(solver=SOLVER, trials={"num_trials": 2})
    run = write_run(tmp_path, rows, task=task, model="builtin/constant?choice=?")
    votes = (
        "0.00 % (0 of 6 trials agree with the majority; 0 of 3 samples tied, 3 without any vote)"
    )
    assert describe(run)[1]["votes"] == votes
    assert f"\n  self-consistency {votes}\n" in plain_text(draw_summary(run, 200))


def test_an_incomplete_run_has_counts_and_no_shares(make_run: Callable[..., Run]) -> None:
    """A share of the rest says nothing about the whole; what was counted is counted.

    A warning keeps its words and its advice, and not its place.
    """
    told, task = describe(make_run("incomplete"))
    assert told["notices"] == ["`choices_field` is an old name; write `choices`"]
    assert told["simulated"] is True
    assert task["headline"]["value"] is None
    assert task["headline"]["sentence"].startswith("INCOMPLETE: ")
    assert {one["value"] for one in task["metrics"]} == {None}
    assert {name for name, plot in task["plots"].items() if plot is not None} == {
        "invalid",
        "letters",
    }


def test_a_live_run_has_latency_tokens_and_reliability(tmp_path: Path) -> None:
    """Calls are counted in bars that add up.

    The curve needs log-probabilities, and no scorer for them.
    """
    rows = [{"question": str(place), "answer": "AB"[place % 2]} for place in range(10)]
    plots = describe(ask(tmp_path, rows))[1]["plots"]
    for name in ("latency", "tokens"):
        assert sum(one["count"] for one in plots[name]["bins"]) == 10
    assert 0 < plots["latency"]["p50"] <= plots["latency"]["p95"]
    assert plots["tokens"]["prompt"] > 0
    (sure,) = [one for one in plots["reliability"]["bins"] if one["n"]]
    assert (sure["low"], sure["n"], sure["accuracy"]) == (0.7, 10, 0.5)
    assert sure["confidence"] == pytest.approx(0.75)
    assert plots["reliability"]["ece"] == pytest.approx(0.25)
    assert plots["reliability"]["ece_bins"] == 10


def test_a_run_with_failed_calls_shows_no_accuracy(tmp_path: Path) -> None:
    """The sentence says how many got no completion.

    Findings that rest on the accuracy are left out.
    """
    rows = [{"question": str(place), "answer": "B"} for place in range(30)]
    told, task = describe(ask(tmp_path, [*rows, {"question": "broken", "answer": "A"}]))
    assert told["status"] == "incomplete"
    assert task["headline"]["sentence"] == (
        "INCOMPLETE: 1 of 31 samples got no completion, so no accuracy is shown: a "
        "share of the rest says"
        " nothing about the whole."
    )
    assert task["counts"]["errors"] == 1
    assert [one["kind"] for one in task["findings"]] == ["COMPLETIONS_ALIKE"]
    assert task["plots"]["latency"] is not None


def test_a_run_of_several_tasks_has_one_part_for_each(tmp_path: Path) -> None:
    """Tasks stand in the order of the run file, each with its own numbers and its own dataset."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    source = {"type": "local", "file_path": "rows.jsonl"}
    tasks = [{**make_task(dataset={"key": "rows"}), "key": key} for key in ("second", "first")]
    plan = {"datasets": [{"key": "rows", "display_name": "Rows", "source": source}], "tasks": tasks}
    (tmp_path / "run.yaml").write_text(json.dumps(plan))
    told = describe_overview(
        ak.run(tmp_path / "run.yaml", out=tmp_path / "out"), run_id="r7", label="both"
    )
    assert (told["id"], told["label"], told["path"]) == ("r7", "both", "out")
    assert [one["key"] for one in told["tasks"]] == ["second", "first"]
    assert [one["headline"]["value"] for one in told["tasks"]] == [0.5, 0.5]
    assert {one["dataset"] for one in told["tasks"]} == {"Rows"}


def test_a_judge_without_choices_has_its_scores(tmp_path: Path) -> None:
    """The scorer says who judges; a mean that is no share is compared with no chance level."""
    with TestServer('{"score": 4}') as server:
        prompt = "How good is {{ input_prompt }}?"
        judge = {
            "type": "model_as_a_judge_scorer",
            "model_key": f"{server.url}#judge",
            "user_prompt": prompt,
        }
        run = write_run(tmp_path, task=make_task({**judge, "score_min": 1, "score_max": 5}))
    _, task = describe(run)
    assert task["scorer"].startswith("model_as_a_judge_scorer, judged by http")
    assert (task["headline"]["value"], task["headline"]["chance"], task["rule"]) == (
        0.75,
        None,
        None,
    )
    assert [name for name, plot in task["plots"].items() if plot] == []


def test_a_run_under_way_shows_what_is_finished(done: Run) -> None:
    """Tasks that are not finished are named; those that are have counts and no shares."""
    assert isinstance(done.path, Path)
    manifest = json.loads((done.path / "run.json").read_text())
    manifest |= {
        "status": "running",
        "tasks": [*manifest["tasks"], {**manifest["tasks"][0], "key": "later"}],
    }
    (done.path / "run.json").write_text(json.dumps(manifest))
    told, task = describe(ak.load_run(done.path))
    assert told["status"] == "running"
    assert "task `later` is not finished" in told["notices"]
    assert (task["headline"]["value"], task["counts"]["samples"]) == (None, 4)


def test_a_large_run_is_read_in_part(done: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more completions than are read again so many are drawn, and the page says so.

    The figure of rules compares all of them, the run's own too, on the same samples.
    """
    monkeypatch.setattr("answerkey.reports.samples.MAX_REREAD", 3)
    _, task = describe(done)
    assert (task["audited"]["n"], task["audited"]["of"]) == (3, 4)
    assert task["audited"]["sentence"] == (
        "read again are 3 of 4 completions, drawn at random; `answerkey audit` reads all"
    )
    assert task["plots"]["letters"]["counts"] == [[1, 0, 0], [1, 1, 1]]
    assert task["plots"]["invalid"][0]["stated"] is None
    assert {(one["n"], one["drawn"]) for one in task["plots"]["rules"]} == {(3, 3)}
    assert (task["plots"]["rules"][0]["value"], task["headline"]["value"]) == (2 / 3, 0.5)
    assert all(
        one["sentence"].startswith("On 3 samples drawn at random: ") for one in task["findings"]
    )


def test_a_curve_of_some_completions_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are too many to read all, they come from all over the run, and the page says how
    many.
    """
    monkeypatch.setattr("answerkey.reports.overview.BLOCK", 2)
    monkeypatch.setattr("answerkey.reports.overview.MAX_RELIABILITY", 4)
    told, task = describe(
        ask(tmp_path, [{"question": str(place), "answer": "A"} for place in range(10)])
    )
    assert sum(one["n"] for one in task["plots"]["reliability"]["bins"]) == 4
    assert told["notices"] == [
        "the reliability curve of `small` is of 4 of 10 completions, from all over the run"
    ]
