"""Laws of policies: what is read, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.gates.policies import Policy, Scope, policies_from_source
from answerkey.gates.rules import Exists, NotWorse, ShareLimit, Threshold
from answerkey.spec import Loaded, Overrides, Plan, load_plan

from .conftest import RUN, TASK, Write, value_of

NAMED = (
    TASK
    + """\
      metrics:
        - {type: mean, field: is_correct, name: MCQA Accuracy}
        - {type: frequency, field: completion_validity}
        - {type: mean, field: is_correct, name: By subject, key: grouped, group_by: subject}
"""
)
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
        definition: {type: threshold, metric: MCQA Accuracy, operator: ">", threshold: 0.8}
        scope: all_latest
      - key: measured
        display_name: Accuracy is measured
        definition: {type: exists, metric: MCQA Accuracy}
        scope: {evaluation_keys: [trial], task_specification_keys: [mcqa]}
"""


def rule(text: str, scope: str = "all_latest") -> str:
    """Return a policy of one rule with this definition."""
    return f"policies:\n  rules:\n    - key: one\n      scope: {scope}\n      definition: {text}\n"


def load(project: Write, policies: str, overrides: Overrides | None = None) -> Loaded[Plan]:
    """Return the plan of a project with these policies in its run file."""
    project(task_yaml=NAMED, run_yaml=policies + RUN)
    return load_plan("run.yaml", overrides)


def policies_of(loaded: Loaded[Plan]) -> tuple[Policy, ...]:
    """Return the policies of a plan that was loaded without errors."""
    return value_of(loaded).policies


def only_error(loaded: Loaded[Plan]) -> tuple[str, str, str | None]:
    """Return code, message and hint of the only error."""
    (error,) = loaded.errors
    return error.code, error.message, error.hint


def test_a_list_of_policies_is_read_as_the_platform_writes_it(project: Write) -> None:
    """Policies hold rules; a rule has a definition and a scope."""
    (policy,) = policies_of(load(project, RULES))
    assert (policy.key, policy.display_name, policy.description) == (
        "release",
        "Release",
        "What a release needs.",
    )
    high, measured = policy.rules
    assert high.definition == Threshold("MCQA Accuracy", ">", 0.8)
    assert (high.display_name, high.description, high.scope) == (
        "Accuracy is high",
        "Above four fifths.",
        Scope(),
    )
    assert measured.definition == Exists("MCQA Accuracy")
    assert measured.scope == Scope(("trial",), ("mcqa",))


def test_one_policy_may_stand_without_a_list(project: Write) -> None:
    """`policies: {rules: […]}` is one policy; keys and names that are left out are filled in."""
    (policy,) = policies_of(load(project, rule("{type: exists, metric: MCQA Accuracy}")))
    assert (policy.key, policy.display_name, policy.rules[0].display_name) == ("policy", "policy", "one")


VALIDITY = "{type: threshold, metric: completion_validity_INVALID, operator: <=, threshold: 0.1}"
GROUPED = (
    "{type: threshold, metric: By subject, operator: <, threshold: 1, group_by: subject, average: macro}"
)


@pytest.mark.parametrize(
    ("text", "definition"),
    [
        (
            "{type: threshold, metric: MCQA Accuracy, operator: '>=', threshold: '0.8', bound: lower}",
            Threshold("MCQA Accuracy", ">=", 0.8, "lower"),
        ),
        (
            "{type: threshold, metric: MCQA Accuracy, operator: =, threshold: 1}",
            Threshold("MCQA Accuracy", "=", 1.0),
        ),
        (GROUPED, Threshold("By subject", "<", 1.0, group_by="subject", average="macro")),
        (VALIDITY, Threshold("completion_validity_INVALID", "<=", 0.1)),
        ("{type: share, of: invalid, operator: <=, threshold: 0.02}", ShareLimit("invalid", "<=", 0.02)),
        ("{type: not_worse}", NotWorse()),
        ("{type: not_worse, metric: MCQA Accuracy, alpha: 0.01}", NotWorse(None, "MCQA Accuracy", 0.01)),
        ("{type: not_worse, margin: 0.02, better: lower}", NotWorse(margin=0.02, better="lower")),
    ],
)
def test_every_kind_of_rule_is_read(project: Write, text: str, definition: object) -> None:
    """Each type has its own fields, with their defaults."""
    (policy,) = policies_of(load(project, rule(text)))
    assert policy.rules[0].definition == definition


ACCURACY = "{type: threshold, metric: MCQA Accuracy, operator: %s}"
SUBJECT = "{type: threshold, metric: By subject, operator: '>', threshold: 0.8, group_by: subjekt}"
NO_METRIC = "which no task in its scope has"
NO_PAIRS = "is no mean: samples cannot be compared pair by pair"


@pytest.mark.parametrize(
    ("text", "code", "message", "hint"),
    [
        ("{type: exists, metric: MCQA Acuracy}", "E113", f"{ONE} names the metric `MCQA Acuracy`, {NO_METRIC}", "did you mean `MCQA Accuracy`?"),  # noqa: E501 - one case, one line
        ("{type: exists, metric: bleu}", "E113", f"{ONE} names the metric `bleu`, {NO_METRIC}", "metrics: `MCQA Accuracy`, `completion_validity_…`, `By subject`"),  # noqa: E501 - one case, one line
        (ACCURACY % "'>', threshold: 80", "E108", f"{ONE}: `threshold` is 80.0, and `MCQA Accuracy` lies between 0 and 1", "write 0.85 for 85 %"),  # noqa: E501 - one case, one line
        (SUBJECT, "E108", f"{ONE}: `By subject` is not measured by `subjekt`", "did you mean `subject`?"),
        (ACCURACY % "'>', threshold: 0.8, group_by: topic", "E108", f"{ONE}: `MCQA Accuracy` is not measured by `topic`", "add `group_by: topic` to the metric or to the `definition` of its task"),  # noqa: E501 - one case, one line
        (ACCURACY % "'>', threshold: 0.8, average: macro", "E108", "`average` needs to know over which groups", "write `group_by: COLUMN` beside it"),  # noqa: E501 - one case, one line
        ("{type: not_worse, metric: completion_validity_VALID}", "E108", f"{ONE}: `completion_validity_VALID` {NO_PAIRS}", "name a `mean` of one of the scorer's values, or leave `metric` out for the main one"),  # noqa: E501 - one case, one line
        ("{type: share, of: invalid, operator: <=, threshold: 5}", "E108", "`threshold` is 5.0; a share lies between 0 and 1", "write 0.05 for 5 %"),  # noqa: E501 - one case, one line
        ("{type: not_worse, margin: 0.1, alpha: 0.1}", "E108", "`alpha` has no effect beside `margin`", "leave one of them out: a margin is held against the 95 % interval"),  # noqa: E501 - one case, one line
        ("{type: not_worse, alpha: 5}", "E108", "`alpha` is 5.0; it must lie between 0 and 1", "leave it out for 0.05"),  # noqa: E501 - one case, one line
        ("{type: not_worse, margin: -1}", "E108", "`margin` is -1.0; it must be 0 or more", None),
        ("{type: treshold, metric: MCQA Accuracy}", "E109", "unknown rule type 'treshold'", "did you mean `threshold`? supported: `exists`, `not_worse`, `share`, `threshold`"),  # noqa: E501 - one case, one line
        (ACCURACY % "==, threshold: 0.8", "E108", "`operator` is '=='; it must be '>', '>=', '=', '<' or '<='", "did you mean `=`?"),  # noqa: E501 - one case, one line
        ("{type: exists, metrik: x, metric: MCQA Accuracy}", "E107", "unknown key `metrik` in rule `exists`", "did you mean `metric`?"),  # noqa: E501 - one case, one line
    ],
)  # fmt: skip
def test_a_rule_that_could_not_be_decided_is_refused(
    project: Write, text: str, code: str, message: str, hint: str | None
) -> None:
    """What no run can answer is an error before anything runs, with the nearest name."""
    assert only_error(load(project, rule(text))) == (code, message, hint)


def test_an_operator_without_quotes_is_told(project: Write) -> None:
    """YAML reads `>` as the beginning of a text block, and `>=` not at all."""
    text = (
        "\n        type: threshold\n        metric: MCQA Accuracy\n        operator: >\n        threshold: 1"
    )
    code, message, hint = only_error(load(project, rule(text)))
    assert (code, message) == ("E108", "`operator` is not in quotes")
    assert hint is not None
    assert hint.endswith('write the operator in quotes, `">="`')
    loaded = load(project, rule(text.replace("operator: >", "operator: >=")))
    assert [(error.code, error.hint) for error in loaded.errors] == [
        ("E102", "text that begins with `>` or `|` needs quotes")
    ]


def test_an_error_says_where_the_rule_stands(project: Write) -> None:
    """The place is that of the definition."""
    loaded = load(project, rule("{type: exists, metric: bleu}"))
    assert str(loaded.errors[0].where) == "run.yaml:5:19"


def test_keys_are_unique(project: Write) -> None:
    """Two rules of a policy, and two policies, cannot have the same key."""
    twice = RULES.replace("key: measured", "key: high")
    assert only_error(load(project, twice))[:2] == (
        "E114",
        "rule key `high` is used twice in policy `release`",
    )
    entry = RULES.removeprefix("policies:\n")
    assert only_error(load(project, RULES + entry))[:2] == (
        "E114",
        "policy key `release` is used twice in the run file",
    )


def test_a_policy_without_rules_is_refused(project: Write) -> None:
    """It would pass whatever the run is; no policies at all are written as an empty list."""
    assert [error.code for error in load(project, "policies: {rules: []}\n").errors] == ["E108"]
    assert [error.code for error in load(project, "policies: {}\n").errors] == ["E108"]
    assert policies_of(load(project, "policies: []\n")) == ()


def test_a_scope_names_what_there_is(project: Write) -> None:
    """An unknown task specification is an error; a rule for another evaluation is skipped, and told."""
    text = "{type: exists, metric: MCQA Accuracy}"
    loaded = load(project, rule(text, "{task_specification_keys: [mqca]}"))
    assert only_error(loaded) == (
        "E113",
        f"{ONE} names the task specification `mqca`, which is not defined",
        "did you mean `mcqa`?",
    )
    loaded = load(project, rule(text, "{evaluation_keys: [other]}"))
    assert loaded.errors == []
    assert [notice.message for notice in loaded.notices] == [
        f"{ONE} is for the evaluation `other`, and this is `trial`: it is skipped"
    ]
    loaded = load(project, rule(text, "{evaluation_keys: [other, trial], task_specification_keys: [theirs]}"))
    assert loaded.errors == []
    assert [notice.message for notice in loaded.notices] == [
        f"{ONE} is for task specifications of other evaluations: it is skipped"
    ]


def test_a_baseline_is_relative_to_the_file_that_states_it(project: Write, write: Write) -> None:
    """As every path; the caller's is put into every rule that compares."""
    folder = project(task_yaml=NAMED, run_yaml="policies: {$ref: sub/gates.yaml}\n" + RUN)
    write(sub__gates_yaml="rules: [{key: one, definition: {type: not_worse, baseline: base}}]\n")
    (policy,) = policies_of(load_plan("run.yaml"))
    assert policy.rules[0].definition == NotWorse(str(folder / "sub" / "base"))
    (policy,) = policies_of(load_plan("run.yaml", Overrides(baseline="mine")))
    assert policy.rules[0].definition == NotWorse(str(folder / "mine"))


def test_a_baseline_without_a_rule_is_a_rule_of_its_own(project: Write) -> None:
    """`--baseline` alone holds the run against it."""
    project(task_yaml=NAMED)
    (policy,) = policies_of(load_plan("run.yaml", Overrides(baseline="base")))
    assert (policy.key, policy.rules[0].definition) == ("baseline", NotWorse(str(Path("base").resolve())))
    own = rule("{type: exists, metric: MCQA Accuracy}").replace("  rules", "  key: baseline\n  rules")
    taken = policies_of(load(project, own, Overrides(baseline="base")))
    assert [policy.key for policy in taken] == ["baseline", "baseline-2"]


def test_the_caller_brings_policies_of_their_own(project: Write, write: Write) -> None:
    """A file with `policies`, a policy alone, or plain values stand in place of those of the run file."""
    project(task_yaml=NAMED, run_yaml=RULES + RUN)
    write(gates_yaml=rule("{type: exists, metric: MCQA Accuracy}"))
    plain = {"rules": [{"key": "one", "definition": {"type": "exists", "metric": "MCQA Accuracy"}}]}
    for given in ("gates.yaml", plain, [plain], {"policies": [plain]}):
        (policy,) = policies_of(load_plan("run.yaml", Overrides(policies=given)))
        assert [one.definition for one in policy.rules] == [Exists("MCQA Accuracy")]
    assert policies_of(load_plan("run.yaml", Overrides(policies=[]))) == ()
    loaded = load_plan("task.yaml", Overrides(policies="gates.yaml", dataset="questions.jsonl"))
    assert [policy.key for policy in policies_of(loaded)] == ["policy"]


def test_a_file_without_policies_is_refused(project: Write, write: Write) -> None:
    """Whoever names a file for its policies is told when it has none."""
    project(task_yaml=NAMED)
    write(gates_yaml="rulez: []\n")
    loaded = load_plan("run.yaml", Overrides(policies="gates.yaml"))
    assert only_error(loaded)[:2] == ("E108", "the file holds no policies")
    loaded = load_plan("run.yaml", Overrides(policies="gone.yaml"))
    assert [error.code for error in loaded.errors] == ["E101"]


def test_config_values_of_the_evaluation_stand_in_rules(project: Write) -> None:
    """`<< config.x >>` names the evaluation's parameters, so that `--config` moves a threshold."""
    spec = "  config_spec: [{type: float, key: least, display_name: Least, default_value: 0.5}]\n"
    run = RUN.replace("  display_name: Trial\n", "  display_name: Trial\n" + spec)
    text = '{type: threshold, metric: MCQA Accuracy, operator: ">=", threshold: << config.least >>}'
    project(task_yaml=NAMED, run_yaml=rule(text) + run)
    (policy,) = policies_of(load_plan("run.yaml"))
    assert policy.rules[0].definition == Threshold("MCQA Accuracy", ">=", 0.5)
    (policy,) = policies_of(load_plan("run.yaml", Overrides(config={"least": "0.9"})))
    assert policy.rules[0].definition == Threshold("MCQA Accuracy", ">=", 0.9)
    project(task_yaml=NAMED, run_yaml=rule(text) + RUN)
    assert only_error(load_plan("run.yaml"))[:2] == ("E110", "unknown config name `least`")


def test_policies_come_back_from_their_plain_form(project: Write) -> None:
    """What `run.json` holds is enough to decide the rules again."""
    more = """\
      - {key: share, definition: {type: share, of: failed, operator: =, threshold: 0}}
      - {key: base, definition: {type: not_worse, baseline: base, margin: 0.1, better: lower}}
"""
    policies = policies_of(load(project, RULES + more))
    plain = [policy.describe() for policy in policies]
    assert policies_from_source(plain) == policies
    assert plain[0]["rules"][0] == {
        "key": "high",
        "display_name": "Accuracy is high",
        "description": "Above four fifths.",
        "definition": {
            "type": "threshold",
            "metric": "MCQA Accuracy",
            "operator": ">",
            "threshold": 0.8,
            "bound": "value",
        },
        "scope": "all_latest",
    }


def test_a_broken_task_hides_nothing_and_invents_nothing(project: Write) -> None:
    """Where a task cannot be built, no metric is said to be missing."""
    broken = NAMED.replace("string_equals_mcqa", "string_equals_mcq")
    project(task_yaml=broken, run_yaml=rule("{type: exists, metric: bleu}") + RUN)
    assert [error.code for error in load_plan("run.yaml").errors] == ["E109"]


def test_namesakes_are_meant_together(project: Write) -> None:
    """A name that two metrics share, alone or with their keys in front, is known."""
    second = NAMED + "        - {type: mean, field: is_correct, name: MCQA Accuracy, key: again}\n"
    for name in ("MCQA Accuracy", "again_MCQA Accuracy", "string_equals_mcqa_again_MCQA Accuracy"):
        project(task_yaml=second, run_yaml=rule(f"{{type: exists, metric: {name}}}") + RUN)
        assert load_plan("run.yaml").errors == []
