"""Laws of rules: what each kind sees in a run, and what a run that is not complete comes to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.projects import describe_solver

import answerkey as ak
from answerkey.errors import AnswerkeyError, RunError
from answerkey.gates.policies import gate
from answerkey.types import Gate, GateCheck

from .conftest import ROWS, SAID, SCORER, TASK, Write, rule

Runner = Callable[..., ak.Run]
#: Eight right where the baseline has sixteen: nine flips for the worse, one for the better.
WORSE: list[str | None] = [*["B"] * 9, *["A"] * 8, "B", "hm", "hm"]
MEASURED = rule("exists", metric="Accuracy")
HIGH = rule("threshold", metric="Accuracy", operator=">=", threshold=0.9)


def only_gate(run: ak.Run) -> Gate:
    """Return the only gate of a run."""
    (only,) = run.gates
    return only


def score(
    *rules: object,
    truth: str = "A",
    replies: Any = SAID,  # noqa: ANN401 - of `score`
    task: Any = TASK,  # noqa: ANN401 - same
    **options: Any,  # noqa: ANN401 - of `score`
) -> ak.Run:
    """Return the run of twenty completions, held against rules."""
    rows = [{**row, "answer": truth} for row in ROWS]
    policies = [{"key": "p", "rules": list(rules)}]
    return ak.score(task, rows, list(replies), policies=policies, **options)


def check_of(kind: str, **fields: object) -> GateCheck:
    """Return the only check of a rule on the twenty completions."""
    (check,) = only_gate(score(rule(kind, **fields))).checks
    return check


@pytest.mark.parametrize(
    ("operator", "threshold", "status"),
    [
        (">", 0.8, "FAIL"), (">=", 0.8, "PASS"), ("=", 0.8, "PASS"), ("<=", 0.8, "PASS"), ("<",
        0.8, "FAIL"),
        (">", 0.79, "PASS"), ("=", 0.79, "FAIL"), ("<", 0.81, "PASS"),
    ],
)  # fmt: skip
def test_thresholds_hold_for_the_value(operator: str, threshold: float, status: str) -> None:
    """Sixteen of twenty are 0.8, to the last bit."""
    check = check_of("threshold", metric="Accuracy", operator=operator, threshold=threshold)
    assert (check.status, check.number, check.value, check.n) == (status, 0.8, 0.8, 20)


@pytest.mark.parametrize(
    ("metric", "bound", "number", "status", "note"),
    [
        ("Accuracy", "lower", 0.5839826, "FAIL", None),
        ("Accuracy", "upper", 0.9193423, "PASS", None),
        # No completion is called so: that is 0 of 20, not a missing value.
        ("completion_validity_ODD", "upper", 0.161125, "FAIL", None),
        ("Best", "lower", None, "FAIL", "the end of a sample says nothing about values not seen"),
    ],
)
def test_a_bound_is_an_end_of_the_interval(
    metric: str, bound: str, number: float | None, status: str, note: str | None
) -> None:
    """Of the Wilson interval; one that there is not lets nothing through, whatever the value."""
    check = check_of("threshold", metric=metric, operator=">=", threshold=0.8, bound=bound)
    assert check.number == (number if number is None else pytest.approx(number, abs=1e-6))
    assert (check.status, check.note) == (status, note and f"there is no interval: {note}")


def test_nothing_lets_nothing_through() -> None:
    """A metric of nothing has no value."""
    (check,) = only_gate(score(MEASURED, truth="Z", allow_failed="100%")).checks
    assert (check.status, check.number) == ("FAIL", None)
    assert check.note == "no sample counts towards it"
    assert check_of("exists", metric="Accuracy").status == "PASS"


def test_an_incomplete_run_decides_nothing() -> None:
    """With one call that failed, not even a rule that every value meets is decided."""
    rows: list[dict[str, Any]] = [{**row, "completion": "A"} for row in ROWS]
    rows[3] |= {"completion": None, "completion_status": "ERROR"}
    run = score(MEASURED, rule("threshold", key="s", operator="<=", threshold=1.0), replies=rows)
    assert run.status == "incomplete"
    results = [(item.status, item.note, item.checks) for item in run.gates]
    assert results == [("NOT_DECIDED", "the run is not complete", ())] * 2


def test_a_rule_for_another_evaluation_is_skipped() -> None:
    """It says nothing about this run."""
    run = score(rule("exists", metric="Accuracy", scope={"evaluation_keys": ["other"]}))
    why = "it is for the evaluation `other`, and this is `quiz`"
    assert (only_gate(run).status, only_gate(run).note) == ("SKIPPED", why)
    skipped = (
        "rule `r` of policy `p` is for the evaluation `other`, and this is `quiz`: it is skipped"
    )
    assert run.manifest["notices"] == [f"warning: {skipped}"]


def test_namesakes_must_all_stand() -> None:
    """A name that two metrics share means both of them."""
    accuracy = {"field": "is_correct", "name": "Accuracy"}
    twice = [{"type": kind, "key": kind, **accuracy} for kind in ("mean", "max")]
    task = {**TASK, "definition": {"scorers": [{**SCORER, "metrics": twice}]}}
    statuses = [(check.name, check.status) for check in only_gate(score(HIGH, task=task)).checks]
    assert statuses == [("mean_Accuracy", "FAIL"), ("max_Accuracy", "PASS")]


def test_not_worse_is_decided_pair_by_pair(run: Runner, tmp_path: Path) -> None:
    """Nine lost and one gained of twenty: McNemar's exact p is 0.0215, so at 0.05 worse.

    The interval of the difference reaches down to -0.68: not worse than 0.7, perhaps than 0.5.
    """
    run("base")
    fields: list[dict[str, Any]] = [{}, {"margin": 0.7}, {"margin": 0.5}, {"metric": "Accuracy"}]
    rules = [rule("not_worse", key=str(place), **changes) for place, changes in enumerate(fields)]
    result = run("new", WORSE, *rules, baseline=tmp_path / "base")
    assert [changes.status for changes in result.gates] == ["FAIL", "PASS", "FAIL", "FAIL"]
    (check,) = result.gates[0].checks
    assert (check.name, check.value, check.number, check.n) == ("Accuracy", 0.4, -0.4, 20)
    assert check.interval == pytest.approx((-0.67999, -0.12001), abs=1e-5)
    assert check.details == {
        "baseline": str(tmp_path / "base"), "baseline_value": 0.8, "p": pytest.approx(0.021484375),
        "p_adjusted": pytest.approx(0.021484375), "p_method": "mcnemar_exact",
        "flips": {"both": 7, "first_only": 1, "second_only": 9, "neither": 3},
    }  # fmt: skip


def test_without_a_baseline_nothing_is_decided(run: Runner, tmp_path: Path) -> None:
    """The first run has none; it can be decided later, without changing the run."""
    run("base")
    new = run("new", WORSE, rule("not_worse"))
    assert only_gate(new).status == "NOT_DECIDED"
    assert only_gate(new).checks[0].note == "no baseline is given"
    assert only_gate(gate(new, baseline=tmp_path / "base")).status == "FAIL"
    assert only_gate(ak.load_run(tmp_path / "new")).status == "NOT_DECIDED"


def test_a_baseline_that_is_not_a_run_is_refused_at_once(run: Runner, tmp_path: Path) -> None:
    """A mistyped folder costs nothing."""
    with pytest.raises(RunError, match="the baseline of rule `baseline` cannot be read") as caught:
        run("new", baseline=tmp_path / "gone")
    assert caught.value.code == "E501"
    assert not (tmp_path / "new").exists()


def test_a_stored_baseline_that_is_gone_leaves_its_rule_open(run: Runner, tmp_path: Path) -> None:
    """An old run can be shown again even if its baseline was deleted."""
    run("base")
    new = run("new", baseline=tmp_path / "base")
    assert only_gate(new).status == "PASS"
    shutil.rmtree(tmp_path / "base")
    for again in (gate(new), ak.rescore(new, out=tmp_path / "again")):
        (check,) = only_gate(again).checks
        assert check.status == "NOT_DECIDED"
        assert check.note == f"`{tmp_path / 'base'}` is not a run folder"


def test_runs_that_cannot_be_compared_are_not_decided(run: Runner, tmp_path: Path) -> None:
    """Other samples are found when the run is over: it is kept, and its gate says why."""
    run("base")
    new = run("new", baseline=tmp_path / "base", num_samples=5)
    (check,) = only_gate(new).checks
    assert (new.status, check.status) == ("complete", "NOT_DECIDED")
    why = "the runs have other samples: 15 samples of `base` are not in `new`"
    assert str(check.note).startswith(why)


def test_several_comparisons_are_corrected(write: Write, tmp_path: Path) -> None:
    """Two comparisons of p 0.0215 each come to 0.043 by Holm."""
    specifications = "{key: one, task_key: quiz}, {key: two, task_key: quiz}"
    base = ak.run(write(specifications=specifications), out=tmp_path / "base").path
    folder = write(specifications=specifications, said=WORSE)
    new = ak.run(folder, out=tmp_path / "new", baseline=str(base))
    expected = [0.04296875, 0.04296875]
    assert [check.details["p_adjusted"] for check in only_gate(new).checks] == expected
    assert only_gate(new).status == "FAIL"


def test_a_scope_picks_tasks(write: Write, tmp_path: Path) -> None:
    """All tasks of the run, or those that the rule names."""
    specifications = "{key: one, task_key: quiz}, {key: two, task_key: quiz, num_samples: 10}"
    folder = write(specifications=specifications)
    result = only_gate(ak.run(folder, out=tmp_path / "all", policies={"rules": [HIGH]}))
    checked = [(check.task, check.value, check.status) for check in result.checks]
    assert checked == [("one", 0.8, "FAIL"), ("two", 1.0, "PASS")]
    second = {**HIGH, "scope": {"task_specification_keys": ["two"]}}
    run = ak.run(folder, out=tmp_path / "two", policies={"rules": [second]})
    assert only_gate(run).status == "PASS"


def test_every_repetition_must_stand(write: Write, tmp_path: Path) -> None:
    """A task that is run several times has a value for each time."""
    solver = describe_solver("{{ sample.subject }}")
    asks = "{task_key: quiz, model_key: builtin/constant?choice=B, repeatability: {num_runs: 2}}"
    task = {**TASK, "definition": {**TASK["definition"], "solver": solver}}
    folder = write(specifications=asks, task=task)
    result = only_gate(ak.run(folder, out=tmp_path / "out", policies={"rules": [HIGH]}))
    checked = [(check.task, check.repetition, check.value) for check in result.checks]
    assert checked == [("quiz", 1, 0.0), ("quiz", 2, 0.0)]


def test_run_json_holds_policies_and_gates(run: Runner, tmp_path: Path) -> None:
    """What was needed and what was found, in the folder of the run; read back, they are the same.

    A run without policies has neither.
    """
    new = run("new", SAID, HIGH)
    stored = json.loads((tmp_path / "new" / "run.json").read_text())
    definition = {**HIGH["definition"], "bound": "value"}  # type: ignore[dict-item]  # a mapping
    assert stored["policies"][0]["rules"][0]["definition"] == definition
    expected = [("p", "r", "FAIL")]
    assert [(row["policy"], row["rule"], row["status"]) for row in stored["gates"]] == expected
    assert ak.load_run(tmp_path / "new").gates == new.gates
    assert run("none").gates == ()
    stored = json.loads((tmp_path / "none" / "run.json").read_text())
    assert not {"policies", "gates"} & stored.keys()


@pytest.mark.parametrize("status", ["incomplete", "running"])
def test_a_run_that_stopped_has_its_rules_open(run: Runner, tmp_path: Path, status: str) -> None:
    """What `run.json` says before the end is enough to tell.

    A run that goes on decides them then.
    """
    manifest = {**run("new", SAID, MEASURED).manifest, "status": status}
    del manifest["gates"]
    (tmp_path / "new" / "run.json").write_text(json.dumps(manifest))
    result = only_gate(ak.load_run(tmp_path / "new"))
    assert (result.status, result.display_name) == ("NOT_DECIDED", "r")
    if status == "running":
        with pytest.raises(AnswerkeyError, match="`policies` cannot be changed"):
            ak.resume(tmp_path / "new", policies=[])
        assert only_gate(ak.resume(tmp_path / "new")).status == "PASS"


def test_rescore_keeps_the_gates_of_the_old_run(run: Runner, tmp_path: Path) -> None:
    """The old policies are decided on the new scores, unless there are new ones.

    A metric that is gone is an error before the scoring.
    """
    old = run("old", SAID, HIGH)
    assert only_gate(ak.rescore(old, out=tmp_path / "again")).status == "FAIL"
    measured = ak.rescore(old, out=tmp_path / "other", policies={"rules": [MEASURED]})
    assert only_gate(measured).status == "PASS"
    assert ak.rescore(old, out=tmp_path / "none", policies=[]).gates == ()
    renamed = json.loads(json.dumps(TASK).replace('"Accuracy"', '"Accurate"'))
    with pytest.raises(AnswerkeyError, match="names the metric `Accuracy`, which no task"):
        ak.rescore(old, renamed, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()
