"""Laws of gates: what each rule sees in a run, and what a run that is not complete comes to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.errors import AnswerkeyError, RunError
from answerkey.gates.policies import gate
from answerkey.types import Gate, GateCheck, GateStatus

SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
    "metrics": [
        {"type": "mean", "field": "is_correct", "name": "Accuracy", "group_by": "subject"},
        {"type": "frequency", "field": "completion_validity"},
        {"type": "max", "field": "is_correct", "name": "Best"},
    ],
}
TASK = {"key": "quiz", "display_name": "Quiz", "description": "", "definition": {"scorers": [SCORER]}}
#: Sixteen right, two wrong, two INVALID.
SAID = [*["A"] * 16, "B", "B", "hm", "hm"]
ROWS = [
    {"sample_id": f"s{place:02d}", "answer": "A", "subject": "law" if place < 10 else "art"}
    for place in range(20)
]


def score(said: list[str | None], rules: object = None, **options: Any) -> ak.Run:  # noqa: ANN401 - options of `score`
    """Return the run of twenty completions, held against a list of rules."""
    policies = [{"key": "p", "rules": rules}] if rules else None
    return ak.score(TASK, ROWS[: len(said)], said, policies=policies, **options)


def rule(kind: str, **fields: object) -> dict[str, object]:
    """Return a rule of a kind."""
    scope = fields.pop("scope", "all_latest")
    return {"key": "r", "definition": {"type": kind, **fields}, "scope": scope}


def only_gate(run: ak.Run) -> Gate:
    """Return the only gate of a run."""
    (found,) = run.gates
    return found


def check_of(kind: str, **fields: object) -> GateCheck:
    """Return the only check of a rule on the twenty completions."""
    (check,) = only_gate(score(list(SAID), [rule(kind, **fields)])).checks
    return check


@pytest.mark.parametrize(
    ("operator", "threshold", "status"),
    [
        (">", 0.8, "FAIL"),
        (">=", 0.8, "PASS"),
        ("=", 0.8, "PASS"),
        ("<=", 0.8, "PASS"),
        ("<", 0.8, "FAIL"),
        (">", 0.79, "PASS"),
        ("=", 0.79, "FAIL"),
        ("<", 0.81, "PASS"),
    ],
)
def test_a_threshold_is_held_against_the_value(operator: str, threshold: float, status: str) -> None:
    """Sixteen of twenty are 0.8, to the last bit."""
    check = check_of("threshold", metric="Accuracy", operator=operator, threshold=threshold)
    assert (check.status, check.number, check.value, check.n) == (status, 0.8, 0.8, 20)


@pytest.mark.parametrize(
    ("bound", "number", "status"), [("lower", 0.5839826, "FAIL"), ("upper", 0.9193423, "PASS")]
)
def test_a_bound_is_an_end_of_the_interval(bound: str, number: float, status: str) -> None:
    """The ends of the Wilson interval of 16 of 20."""
    check = check_of("threshold", metric="Accuracy", operator=">=", threshold=0.8, bound=bound)
    assert check.number == pytest.approx(number, abs=1e-7)
    assert (check.status, check.value) == (status, 0.8)


def test_a_bound_that_there_is_not_lets_nothing_through() -> None:
    """A maximum has no interval; the check says so, whatever its value."""
    check = check_of("threshold", metric="Best", operator=">=", threshold=0.0, bound="lower")
    assert (check.status, check.number, check.value) == ("FAIL", None, 1.0)
    assert check.note == "there is no interval: the end of a sample says nothing about values not seen"


def test_a_label_that_never_occurs_is_a_share_of_zero() -> None:
    """No completion is called so: that is 0 of 20, not a missing value."""
    check = check_of(
        "threshold", metric="completion_validity_ODD", operator="<=", threshold=0.2, bound="upper"
    )
    assert check.value == 0.0
    assert check.interval is not None
    assert check.interval[1] == pytest.approx(0.161125, abs=1e-6)
    assert (check.status, check.n) == ("PASS", 20)


def test_every_group_must_stand() -> None:
    """By subject: ten of ten in law, six of ten in art; the macro average is one number."""
    fields = {"metric": "Accuracy", "operator": ">=", "threshold": 0.7, "group_by": "subject"}
    found = only_gate(score(list(SAID), [rule("threshold", **fields)]))
    assert [(one.group, one.value, one.n, one.status) for one in found.checks] == [
        ("art", 0.6, 10, "FAIL"),
        ("law", 1.0, 10, "PASS"),
    ]
    assert found.status is GateStatus.FAIL
    (macro,) = only_gate(score(list(SAID), [rule("threshold", **fields, average="macro")])).checks
    assert (macro.group, macro.value, macro.n, macro.status) == (None, 0.8, 2, "PASS")


def test_existence_needs_a_value() -> None:
    """A metric of nothing has no value, and does not count as measured."""
    assert check_of("exists", metric="Accuracy").status is GateStatus.PASS
    rows = [{**row, "answer": "Z"} for row in ROWS]
    policies = [{"rules": [rule("exists", metric="Accuracy")]}]
    run = ak.score(TASK, rows, list(SAID), policies=policies, allow_failed="100%")
    (check,) = only_gate(run).checks
    assert (check.status, check.value) == ("FAIL", None)
    assert check.note == "no sample counts towards it"


@pytest.mark.parametrize(
    ("of", "count", "whole"), [("invalid", 2, 20), ("refused", 0, 20), ("failed", 0, 20), ("error", 0, 20)]
)
def test_shares_of_samples_come_from_the_counts(of: str, count: int, whole: int) -> None:
    """INVALID and REFUSED of those scored, FAILED and ERROR of all."""
    check = check_of("share", of=of, operator="<=", threshold=0.05)
    assert (check.number, check.n, check.details) == (count / whole, whole, {"count": count, "of": whole})
    assert check.status == ("FAIL" if count else "PASS")


def test_a_share_of_nothing_lets_nothing_through() -> None:
    """Where no sample is scored, there is no INVALID share to be small."""
    rows = [{**row, "answer": "Z"} for row in ROWS]
    policies = [{"rules": [rule("share", of="invalid", operator="<=", threshold=1.0)]}]
    run = ak.score(TASK, rows, list(SAID), policies=policies, allow_failed="100%")
    (check,) = only_gate(run).checks
    assert (check.status, check.number, check.note) == ("FAIL", None, "no sample is scored")


def test_an_incomplete_run_decides_nothing() -> None:
    """With one call that failed, not even a rule that every value meets is decided."""
    said: list[dict[str, Any]] = [{"sample_id": row["sample_id"], "completion": "A"} for row in ROWS]
    said[3] |= {"completion": None, "completion_status": "ERROR"}
    rules = [
        rule("threshold", metric="Accuracy", operator=">=", threshold=0.0),
        {**rule("share", of="error", operator="<=", threshold=1.0), "key": "s"},
    ]
    run = ak.score(TASK, ROWS, said, policies=[{"rules": rules}])
    assert run.status == "incomplete"
    assert [(one.status, one.note, one.checks) for one in run.gates] == [
        ("NOT_DECIDED", "the run is not complete", ()),
        ("NOT_DECIDED", "the run is not complete", ()),
    ]


def test_a_rule_for_another_evaluation_is_skipped() -> None:
    """It says nothing about this run."""
    run = score(list(SAID), [rule("exists", metric="Accuracy", scope={"evaluation_keys": ["other"]})])
    found = only_gate(run)
    assert (found.status, found.note) == ("SKIPPED", "it is for the evaluation `other`, and this is `quiz`")
    assert run.manifest["notices"] == [
        "warning: rule `r` of policy `p` is for the evaluation `other`, and this is `quiz`: it is skipped"
    ]


def write_run(folder: Path, said: list[str | None], name: str, **options: Any) -> ak.Run:  # noqa: ANN401 - of `run`
    """Return a run in a folder."""
    (folder / "task.json").write_text(json.dumps(TASK))
    rows = [{**row, "completion": one} for row, one in zip(ROWS, said, strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ak.run(folder / "task.json", dataset=str(folder / "rows.jsonl"), out=folder / name, **options)


#: Eight right where the baseline has sixteen: nine flips for the worse, one for the better.
WORSE: list[str | None] = [*["B"] * 9, *["A"] * 8, "B", "hm", "hm"]


def test_not_worse_is_decided_pair_by_pair(tmp_path: Path) -> None:
    """Nine lost and one gained of twenty: McNemar's exact p is 0.0215, so at 0.05 worse, at 0.01 not."""
    write_run(tmp_path, list(SAID), "base")
    rules = [rule("not_worse"), {**rule("not_worse", alpha=0.01), "key": "s"}]
    policies = [{"rules": rules}]
    run = write_run(tmp_path, WORSE, "new", policies=policies, baseline=tmp_path / "base")
    assert [one.status for one in run.gates] == ["FAIL", "PASS"]
    (check,) = run.gates[0].checks
    assert (check.name, check.value, check.number, check.n) == ("Accuracy", 0.4, -0.4, 20)
    assert check.details["p"] == pytest.approx(0.021484375)
    assert check.details["flips"] == {"both": 7, "first_only": 1, "second_only": 9, "neither": 3}
    assert check.details["baseline_value"] == 0.8


@pytest.mark.parametrize(("margin", "status"), [(0.7, "PASS"), (0.5, "FAIL")])
def test_a_margin_is_held_against_the_whole_interval(tmp_path: Path, margin: float, status: str) -> None:
    """The interval of the difference reaches down to -0.68: not worse than 0.7, perhaps than 0.5."""
    write_run(tmp_path, list(SAID), "base")
    policies = [{"rules": [rule("not_worse", margin=margin)]}]
    run = write_run(tmp_path, WORSE, "new", policies=policies, baseline=tmp_path / "base")
    (check,) = only_gate(run).checks
    assert check.interval == pytest.approx((-0.67999, -0.12001), abs=1e-5)
    assert check.status == status


def test_lower_may_be_better(tmp_path: Path) -> None:
    """Of a value that counts mistakes, more is worse."""
    write_run(tmp_path, WORSE, "base")
    policies = [{"rules": [rule("not_worse", better="lower")]}]
    run = write_run(tmp_path, list(SAID), "new", policies=policies, baseline=tmp_path / "base")
    assert only_gate(run).status is GateStatus.FAIL


def test_the_metric_of_a_comparison_may_be_named(tmp_path: Path) -> None:
    """A mean stands for the value that it is the mean of."""
    write_run(tmp_path, list(SAID), "base")
    policies = [{"rules": [rule("not_worse", metric="Accuracy", baseline=str(tmp_path / "base"))]}]
    run = write_run(tmp_path, WORSE, "new", policies=policies)
    assert only_gate(run).checks[0].number == -0.4


def test_without_a_baseline_nothing_is_decided(tmp_path: Path) -> None:
    """The first run has none; a later look decides it, and leaves the run as it is."""
    write_run(tmp_path, list(SAID), "base")
    run = write_run(tmp_path, WORSE, "new", policies=[{"rules": [rule("not_worse")]}])
    assert (only_gate(run).status, only_gate(run).checks[0].note) == ("NOT_DECIDED", "no baseline is named")
    again = gate(run, baseline=tmp_path / "base")
    assert only_gate(again).status is GateStatus.FAIL
    assert only_gate(ak.load_run(tmp_path / "new")).status is GateStatus.NOT_DECIDED


def test_a_baseline_that_is_no_run_is_found_before_anything_runs(tmp_path: Path) -> None:
    """A mistyped folder costs nothing."""
    with pytest.raises(RunError, match="the baseline of rule `not_worse` cannot be read") as caught:
        write_run(tmp_path, list(SAID), "new", baseline=tmp_path / "gone")
    assert caught.value.code == "E501"
    assert not (tmp_path / "new").exists()


def test_a_stored_baseline_that_is_gone_leaves_its_rule_open(tmp_path: Path) -> None:
    """Whoever looks at an old run again is not stopped by what others deleted."""
    write_run(tmp_path, list(SAID), "base")
    run = write_run(tmp_path, list(SAID), "new", baseline=tmp_path / "base")
    assert only_gate(run).status is GateStatus.PASS
    shutil.rmtree(tmp_path / "base")
    for again in (gate(run), ak.rescore(run, out=tmp_path / "again")):
        (check,) = only_gate(again).checks
        assert (check.status, check.note) == ("NOT_DECIDED", f"`{tmp_path / 'base'}` is not a run folder")


def test_runs_that_cannot_be_compared_are_not_decided(tmp_path: Path) -> None:
    """Other samples are found when the run is over: it is kept, and its gate says why."""
    (tmp_path / "old").mkdir()
    write_run(tmp_path / "old", list(SAID), "base")
    run = write_run(tmp_path, list(SAID), "new", baseline=tmp_path / "old" / "base", num_samples=5)
    (check,) = only_gate(run).checks
    assert run.status == "complete"
    assert check.status is GateStatus.NOT_DECIDED
    assert check.note is not None
    assert check.note.startswith("the runs have other samples: 15 samples of `base` are not in `new`")


def test_run_json_holds_policies_and_gates(tmp_path: Path) -> None:
    """What was needed and what was found, in the folder of the run; read back, they are the same."""
    fields = {"metric": "Accuracy", "operator": ">=", "threshold": 0.9}
    run = write_run(
        tmp_path, list(SAID), "new", policies=[{"key": "p", "rules": [rule("threshold", **fields)]}]
    )
    stored = json.loads((tmp_path / "new" / "run.json").read_text())
    assert stored["policies"][0]["rules"][0]["definition"] == {
        "type": "threshold",
        **fields,
        "bound": "value",
    }
    assert [(one["policy"], one["rule"], one["status"]) for one in stored["gates"]] == [("p", "r", "FAIL")]
    assert ak.load_run(tmp_path / "new").gates == run.gates


def test_a_run_without_policies_has_no_gates(tmp_path: Path) -> None:
    """Neither in its folder nor as values."""
    run = write_run(tmp_path, list(SAID), "new")
    assert run.gates == ()
    assert not {"policies", "gates"} & json.loads((tmp_path / "new" / "run.json").read_text()).keys()


def test_a_run_that_stopped_has_its_rules_open(tmp_path: Path) -> None:
    """What `run.json` says before the end is enough to tell that nothing is decided."""
    run = write_run(tmp_path, list(SAID), "new", policies=[{"rules": [rule("exists", metric="Accuracy")]}])
    left = {name: value for name, value in run.manifest.items() if name != "gates"}
    (tmp_path / "new" / "run.json").write_text(json.dumps(left | {"status": "incomplete"}))
    found = only_gate(ak.load_run(tmp_path / "new"))
    assert (found.status, found.display_name) == ("NOT_DECIDED", "r")


def test_rescore_keeps_the_gates_of_the_old_run(tmp_path: Path) -> None:
    """The old policies are decided on the new scores, unless there are new ones."""
    policies = [{"rules": [rule("threshold", metric="Accuracy", operator=">=", threshold=0.9)]}]
    old = write_run(tmp_path, list(SAID), "old", policies=policies)
    assert only_gate(ak.rescore(old, out=tmp_path / "again")).status is GateStatus.FAIL
    other = [{"rules": [rule("exists", metric="Accuracy")]}]
    assert only_gate(ak.rescore(old, out=tmp_path / "other", policies=other)).status is GateStatus.PASS
    assert ak.rescore(old, out=tmp_path / "none", policies=[]).gates == ()


def test_rescore_refuses_gates_that_the_new_task_cannot_answer(tmp_path: Path) -> None:
    """A metric that is gone is an error before the scoring, with the nearest name."""
    policies = [{"rules": [rule("exists", metric="Accuracy")]}]
    old = write_run(tmp_path, list(SAID), "old", policies=policies)
    renamed = json.loads(json.dumps(TASK).replace('"Accuracy"', '"Accurate"'))
    with pytest.raises(AnswerkeyError, match="names the metric `Accuracy`, which no task"):
        ak.rescore(old, renamed, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_resume_takes_no_other_policies(tmp_path: Path) -> None:
    """A run goes on with the rules that it was started with."""
    run = write_run(tmp_path, list(SAID), "new")
    left = dict(run.manifest) | {"status": "running"}
    (tmp_path / "new" / "run.json").write_text(json.dumps(left))
    with pytest.raises(AnswerkeyError, match="`policies` cannot be chosen"):
        ak.resume(tmp_path / "new", policies=[])


def test_a_resumed_run_decides_its_gates(tmp_path: Path) -> None:
    """Policies are in `run.json` from the start."""
    run = write_run(tmp_path, list(SAID), "new", policies=[{"rules": [rule("exists", metric="Accuracy")]}])
    left = {name: value for name, value in run.manifest.items() if name != "gates"}
    (tmp_path / "new" / "run.json").write_text(json.dumps(left | {"status": "running"}))
    assert only_gate(ak.resume(tmp_path / "new")).status is GateStatus.PASS


def write_evaluation(folder: Path, specifications: str, rules: str) -> None:
    """Write a run file with these task specifications and rules."""
    (folder / "task.yaml").write_text(json.dumps(TASK))
    rows = [{**row, "completion": one} for row, one in zip(ROWS, SAID, strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.yaml").write_text(
        "datasets: [{key: d, display_name: D, source: {type: local, file_path: rows.jsonl}}]\n"
        "tasks: [{$ref: task.yaml}]\n"
        f"evaluation: {{key: e, task_specifications: [{specifications}]}}\n"
        f"policies: {{rules: [{rules}]}}\n"
    )


HIGH = '{key: r, definition: {type: threshold, metric: Accuracy, operator: ">=", threshold: 0.9}'


def test_every_repetition_must_stand(tmp_path: Path) -> None:
    """A task that is run several times has a value for each time."""
    asks = {
        "type": "chat_completion",
        "input_messages": [{"role": "user", "content": "{{ sample.subject }}"}],
    }
    solver = {"type": "single_turn_solver", "input_builder": asks}
    asked = "{task_key: quiz, model_key: builtin/constant?choice=B, repeatability: {num_runs: 2}}"
    write_evaluation(tmp_path, asked, HIGH + "}")
    (tmp_path / "task.yaml").write_text(
        json.dumps({**TASK, "definition": {"scorers": [SCORER], "solver": solver}})
    )
    found = only_gate(ak.run(tmp_path, out=tmp_path / "out"))
    assert [(one.task, one.repetition, one.value) for one in found.checks] == [
        ("quiz", 1, 0.0),
        ("quiz", 2, 0.0),
    ]


def test_a_scope_picks_tasks(tmp_path: Path) -> None:
    """All tasks of the run, or those that the rule names."""
    both = "{key: one, task_key: quiz}, {key: two, task_key: quiz, num_samples: 10}"
    write_evaluation(tmp_path, both, HIGH + "}")
    found = only_gate(ak.run(tmp_path, out=tmp_path / "all"))
    assert [(one.task, one.value, one.status) for one in found.checks] == [
        ("one", 0.8, "FAIL"),
        ("two", 1.0, "PASS"),
    ]
    write_evaluation(tmp_path, both, HIGH + ", scope: {task_specification_keys: [two]}}")
    assert only_gate(ak.run(tmp_path, out=tmp_path / "two")).status is GateStatus.PASS


def test_several_tasks_against_a_baseline_are_corrected_for_their_number(tmp_path: Path) -> None:
    """Two comparisons of p 0.0215 each come to 0.043 by Holm."""
    both = "{key: one, task_key: quiz}, {key: two, task_key: quiz}"
    write_evaluation(tmp_path, both, HIGH + "}")
    ak.run(tmp_path, out=tmp_path / "base")
    rows = [{**row, "completion": one} for row, one in zip(ROWS, WORSE, strict=True)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ak.run(tmp_path, out=tmp_path / "new", policies=[], baseline=tmp_path / "base")
    assert [one.details["p_adjusted"] for one in only_gate(run).checks] == [0.04296875, 0.04296875]
    assert only_gate(run).status is GateStatus.FAIL


def test_namesakes_must_all_stand() -> None:
    """A name that two metrics share means both of them."""
    twice = [
        {"type": "mean", "field": "is_correct", "name": "Accuracy", "key": "a"},
        {"type": "max", "field": "is_correct", "name": "Accuracy", "key": "b"},
    ]
    scorer = {**SCORER, "metrics": twice}
    task = {**TASK, "definition": {"scorers": [scorer]}}
    policies = [{"rules": [rule("threshold", metric="Accuracy", operator=">=", threshold=0.9)]}]
    found = only_gate(ak.score(task, ROWS, list(SAID), policies=policies))
    assert [(one.name, one.status) for one in found.checks] == [
        ("a_Accuracy", "FAIL"),
        ("b_Accuracy", "PASS"),
    ]
