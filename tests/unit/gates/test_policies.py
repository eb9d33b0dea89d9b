"""Laws of policies: what is read, and what is refused before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from answerkey.spec import Options, Plan, load_plan

from .conftest import SCORER, TASK, Write

ONE = "rule `one` of policy `policy`"
RULES = """\
policies:
  - key: release
    display_name: Release
    description: What a release needs.
    rules:
      - key: high
        display_name: Accuracy is high
        description: Above four fifths.
        definition: {type: threshold, metric: Accuracy, operator: ">", threshold: 0.8}
        scope: all_latest
      - key: measured
        definition: {type: exists, metric: Accuracy}
        scope: {evaluation_keys: [e], task_specification_keys: [quiz]}
"""
EXISTS = "{type: exists, metric: Accuracy}"
ABOVE = {"operator": ">", "threshold": 0.8, "bound": "value"}


def rule(text: str, scope: str = "all_latest", more: str = "") -> str:
    """Return a policy of one rule with this definition."""
    body = f"    - key: one\n      scope: {scope}\n      definition: {text}\n"
    return f"policies:\n{more}  rules:\n{body}"


def load(write: Write, text: str = "", **overrides: Any) -> Plan:  # noqa: ANN401 - of Options
    """Return the plan of a project with these policies in its run file."""
    write(text)
    return load_plan("run.yaml", Options(**overrides))


def policies_of(loaded: Plan) -> list[Any]:
    """Return the policies of a plan that was loaded without errors."""
    assert [str(error) for error in loaded.errors] == []
    return list(loaded.policies)


def definition_of(loaded: Plan) -> dict[str, object]:
    """Return the definition of the only rule."""
    ((only,),) = [policy["rules"] for policy in policies_of(loaded)]
    return dict(only["definition"])


def only_error(loaded: Plan) -> tuple[str, str, str | None]:
    """Return code, message and hint of the only error."""
    (error,) = loaded.errors
    return error.code, error.message, error.hint


def test_policies_are_read_as_the_platform_writes_them(write: Write) -> None:
    """What was left out is filled in, in the form of the files; read again, it is the same."""
    (policy,) = result = policies_of(load(write, RULES))
    about = {"key": "release", "display_name": "Release", "description": "What a release needs."}
    assert policy == about | {"rules": policy["rules"]}
    high, measured = policy["rules"]
    definition = {"type": "threshold", "metric": "Accuracy", **ABOVE}
    head = {"key": "high", "display_name": "Accuracy is high", "description": "Above four fifths."}
    assert high == head | {"definition": definition, "scope": "all_latest"}
    scope = {"evaluation_keys": ["e"], "task_specification_keys": ["quiz"]}
    definition = {"type": "exists", "metric": "Accuracy"}
    head = {"key": "measured", "display_name": "measured"}
    assert measured == head | {"definition": definition, "scope": scope}
    assert policies_of(load(write, policies=result)) == result


@pytest.mark.parametrize(
    ("kind", "fields", "filled"),
    [
        ("threshold", "metric: Accuracy, operator: '>=', threshold: '0.8', bound: lower",
        {"threshold": 0.8}),
        ("threshold", "metric: Best, operator: '=', threshold: 1", {"bound": "value"}),
        ("threshold", "metric: completion_validity_X, operator: <=, threshold: 0.1",
        {"bound": "value"}),
        ("not_worse", "margin: 0.02", {}),
    ],
)  # fmt: skip
def test_rules_are_read(write: Write, kind: str, fields: str, filled: dict[str, object]) -> None:
    """Each type has its own fields, with their defaults."""
    result = definition_of(load(write, rule(f"{{type: {kind}, {fields}}}")))
    assert result == {"type": kind, **YAML(typ="safe").load(f"{{{fields}}}"), **filled}


ACCURACY = "{type: threshold, metric: Accuracy, operator: %s}"
NO_METRIC = "which no task in its scope has"


@pytest.mark.parametrize(
    ("text", "code", "message", "hint"),
    [
        ("{type: exists, metric: Acuracy}", "E113", f"{ONE} names the metric `Acuracy`, {NO_METRIC}", "did you mean `Accuracy`?"),  # noqa: E501 - one case, one line
        ("{type: exists, metric: bleu}", "E113", f"{ONE} names the metric `bleu`, {NO_METRIC}", "metrics: `Accuracy`, `Best`"),  # noqa: E501 - one case, one line
        (ACCURACY % "'>', threshold: 80", "E108", f"{ONE}: `threshold` is 80.0, but `Accuracy` is between 0 and 1", "write 0.8 for 80 %"),  # noqa: E501 - one case, one line
        ("{type: not_worse, metric: completion_validity_VALID}", "E108", f"{ONE}: `completion_validity_VALID` is not a mean: samples cannot be compared pair by pair", "name a `mean` of one of the scorer's values, or leave `metric` out for the main one"),  # noqa: E501 - one case, one line
        ("{type: not_worse, margin: -1}", "E108", "`margin` is -1.0; it must be 0 or more", None),
        ("{type: treshold, metric: Accuracy}", "E109", "unknown rule type 'treshold'", "did you mean `threshold`? supported: `exists`, `not_worse`, `threshold`"),  # noqa: E501 - one case, one line
        (ACCURACY % "==, threshold: 0.8", "E108", "`operator` is '=='; it must be '>', '>=', '=', '<' or '<='", "did you mean `=`?"),  # noqa: E501 - one case, one line
        ("{type: exists, metrik: x, metric: Accuracy}", "E107", "unknown key `metrik` in rule `exists`", "did you mean `metric`?"),  # noqa: E501 - one case, one line
        ("\n        type: threshold\n        metric: Accuracy\n        operator: >\n        threshold: 1", "E108", "`operator` is not in quotes", 'YAML reads `>` and `|` as the beginning of a text block: write the operator in quotes, `">="`'),  # noqa: E501 - one case, one line
    ],
)  # fmt: skip
def test_a_rule_that_could_not_be_decided_is_refused(
    write: Write, text: str, code: str, message: str, hint: str | None
) -> None:
    """What no run can answer is an error before anything runs, with its place and the nearest
    name.
    """
    loaded = load(write, rule(text))
    assert only_error(loaded) == (code, message, hint)
    assert str(loaded.errors[0].where).startswith("run.yaml:8:" if "\n" in text else "run.yaml:5:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RULES.replace("measured", "high"), "rule key `high` is used twice in policy `release`"),
        (RULES + RULES[len("policies:\n") :], "policy key `release` is used twice in the run file"),
    ],
)
def test_keys_are_unique(write: Write, text: str, message: str) -> None:
    """Two rules of a policy, and two policies, cannot have the same key."""
    assert only_error(load(write, text))[:2] == ("E114", message)


def test_a_policy_without_rules_is_refused(write: Write) -> None:
    """It would pass whatever the run is; no policies at all are written as an empty list."""
    for text in ("policies: {rules: []}\n", "policies: {}\n"):
        assert [error.code for error in load(write, text).errors] == ["E108"]
    assert policies_of(load(write, "policies: []\n")) == []


@pytest.mark.parametrize(
    ("scope", "errors", "notices"),
    [
        ("{task_specification_keys: [x]}",
        ["names the task specification `x`, which is not defined"], []),
        ("{evaluation_keys: [x]}", [],
        ["is for the evaluation `x`, and this is `e`: it is skipped"]),
        ("{evaluation_keys: [x, e], task_specification_keys: [y]}", [], []),
    ],
)  # fmt: skip
def test_scope_is_checked(write: Write, scope: str, errors: list[str], notices: list[str]) -> None:
    """An unknown task specification is an error.

    A rule for another evaluation is skipped, and told.
    """
    loaded = load(write, rule(EXISTS, scope))
    assert [error.message for error in loaded.errors] == [f"{ONE} {text}" for text in errors]
    assert [notice.message for notice in loaded.notices] == [f"{ONE} {text}" for text in notices]


def test_a_baseline_is_relative_to_the_file_that_states_it(write: Write) -> None:
    """As every path; the caller's is put into every rule that compares."""
    folder = write("policies: {$ref: sub/gates.yaml}\n")
    (folder / "sub").mkdir()
    text = "rules: [{key: one, definition: {type: not_worse, baseline: base}}]\n"
    (folder / "sub" / "gates.yaml").write_text(text)
    expected = {"type": "not_worse", "baseline": str(folder / "sub" / "base")}
    assert definition_of(load_plan("run.yaml")) == expected
    result = definition_of(load_plan("run.yaml", Options(baseline="mine")))
    assert list(result.items()) == list((expected | {"baseline": str(folder / "mine")}).items())


def test_a_baseline_without_a_rule_is_a_rule_of_its_own(write: Write) -> None:
    """`--baseline` alone holds the run against it."""
    assert definition_of(load(write, baseline="base"))["baseline"] == str(Path("base").resolve())
    policies = policies_of(load(write, rule(EXISTS), baseline="base"))
    assert [policy["key"] for policy in policies] == ["policy", "options"]


def test_options_state_gates_without_a_file(write: Write) -> None:
    """They come beside the rules of a file, which keep their own baselines, as plain rules of one
    policy.
    """
    policy = rule("{type: not_worse, baseline: released}")
    policies = policies_of(load(write, policy, fail_under="80%", not_worse_than="base"))
    assert policies[0]["rules"][0]["definition"]["baseline"] == str(Path("released").resolve())
    definitions = {
        "fail_under": {"type": "threshold", **ABOVE, "operator": ">="},
        "not_worse_than": {"type": "not_worse", "baseline": str(Path("base").resolve())},
    }
    rules = [
        {"key": key, "display_name": key, "definition": definition, "scope": "all_latest"}
        for key, definition in definitions.items()
    ]
    assert policies[1] == {"key": "options", "display_name": "Options", "rules": rules}


@pytest.mark.parametrize(
    ("least", "threshold"),
    [(0.8, 0.8), ("0.8", 0.8), (" 82.3% ", 0.823), ("4/5", 0.8), (1, 1.0)],
)
def test_a_threshold_may_be_a_percentage(write: Write, least: object, threshold: float) -> None:
    """Both are the same number, to the last bit."""
    assert definition_of(load(write, fail_under=least))["threshold"] == threshold


@pytest.mark.parametrize(
    ("least", "code", "hint"),
    [
        (80, "E108", "write 0.8 for 80 %"),
        ("-1", "E108", "write 0.85 for 85 %"),
        *(
            (text, "E119", "write `--fail-under 0.8` or `--fail-under 80%`")
            for text in ("x", "", "%", "nan", "1/0")
        ),
    ],
)
def test_no_share_has_this_threshold(write: Write, least: object, code: str, hint: str) -> None:
    """What is not a number, and a percentage that lacks its mark."""
    result = only_error(load(write, fail_under=least))
    assert (result[0], result[2]) == (code, hint)


def test_a_threshold_without_a_metric_is_on_the_main_value(write: Write) -> None:
    """In a file, too; of several scorers it is the first that counts for the score."""
    result = definition_of(load(write, rule("{type: threshold, operator: '>', threshold: 0.8}")))
    assert result == {"type": "threshold", **ABOVE}
    metric = {"type": "max", "field": "is_correct", "name": "M"}
    judged = {**SCORER, "key": "second", "metrics": [metric]}
    task = {**TASK, "definition": {**TASK["definition"], "scorers": [judged, SCORER]}}
    write(task=task)
    _, message, _ = only_error(load_plan("run.yaml", Options(fail_under=80)))
    assert message.endswith("`M` is between 0 and 1")


def test_the_caller_brings_policies_of_their_own(write: Write) -> None:
    """A file with `policies`, a policy alone, or plain values stand in place of those of the run
    file.
    """
    (write(RULES) / "gates.yaml").write_text(rule(EXISTS))
    plain = {"rules": [{"key": "one", "definition": {"type": "exists", "metric": "Accuracy"}}]}
    for policies in ("gates.yaml", plain, [plain], {"policies": [plain]}):
        result = definition_of(load_plan("run.yaml", Options(policies=policies)))
        assert result == {"type": "exists", "metric": "Accuracy"}
    assert policies_of(load_plan("run.yaml", Options(policies=[]))) == []
    loaded = load_plan("task.yaml", Options(policies="gates.yaml", dataset="rows.jsonl"))
    assert definition_of(loaded) == result
    assert policies_of(loaded)[0]["key"] == "policy"


@pytest.mark.parametrize(("file", "code"), [("task.yaml", "E108"), ("gone.yaml", "E101")])
def test_a_file_without_policies_is_refused(write: Write, file: str, code: str) -> None:
    """A file named for its policies must have some."""
    assert [error.code for error in load(write, policies=file).errors] == [code]


def test_config_values_of_the_evaluation_stand_in_rules(write: Write) -> None:
    """`<< config.x >>` names the evaluation's parameters, so that `--config` moves a threshold."""
    text = '{type: threshold, metric: Accuracy, operator: ">=", threshold: << config.least >>}'
    write(
        rule(text),
        config="[{type: float, key: least, display_name: Least, default_value: 0.5}]",
    )
    for config, threshold in (({}, 0.5), ({"least": "0.9"}, 0.9)):
        loaded = load_plan("run.yaml", Options(config=config))
        assert definition_of(loaded)["threshold"] == threshold
    assert only_error(load(write, rule(text)))[:2] == ("E110", "unknown config name `least`")


def test_a_broken_task_hides_nothing_and_invents_nothing(write: Write) -> None:
    """If a task cannot be built, no metric is reported as missing."""
    broken = json.loads(json.dumps(TASK).replace("string_equals_mcqa", "string_equals_mcq"))
    write(rule("{type: exists, metric: bleu}"), task=broken)
    assert [error.code for error in load_plan("run.yaml").errors] == ["E109"]


def test_namesakes_are_meant_together(write: Write) -> None:
    """A name that two metrics share, alone or with their keys in front, is known."""
    second = {"type": "mean", "field": "is_correct", "name": "Accuracy", "key": "again"}
    scorer = {**SCORER, "metrics": [*SCORER["metrics"], second]}
    task = {**TASK, "definition": {**TASK["definition"], "scorers": [scorer]}}
    for name in ("Accuracy", "again_Accuracy", "string_equals_mcqa_again_Accuracy"):
        write(rule(f"{{type: exists, metric: {name}}}"), task=task)
        assert load_plan("run.yaml").errors == []
