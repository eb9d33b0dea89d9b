"""Policies: rules that a run's numbers are held against, read from files and checked against the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from answerkey.datasets import is_stored, require_address
from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.metrics import KeyedMetric, Mean, ValueNames, foresee_names
from answerkey.spec.config import Config
from answerkey.spec.nodes import ListNode, MapNode, Node, Problems, ScalarNode, from_plain, resolve_path
from answerkey.spec.project import Loaded, Overrides, Project
from answerkey.spec.shapes import part
from answerkey.spec.task import ScoringStep, Task
from answerkey.spec.validation import Fields, Key, Part, Text, assign_keys, number_key, validate_node

Operator = Literal[">", ">=", "=", "<", "<="]
Bound = Literal["value", "lower", "upper"]
ShareName = Literal["invalid", "refused", "failed", "error"]
Stated = str | Path | Mapping[str, object] | Sequence[object]

ALPHA = 0.05


@dataclass(frozen=True)
class Threshold:
    """Every value of a name stands right of or left of a threshold: itself, or an end of its interval.

    With `group_by` the values of all groups must, or with `average: macro` their average.
    """

    metric: str
    operator: Operator
    threshold: float
    bound: Bound = "value"
    group_by: str | None = None
    average: Literal["macro"] | None = None

    type: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        if self.threshold - self.threshold != 0:
            raise SpecError("E108", f"`threshold` is {self.threshold!r}, not a finite number")
        if self.average is not None and self.group_by is None:
            hint = "write `group_by: COLUMN` beside it"
            raise SpecError("E108", "`average` needs to know over which groups", hint=hint)


@dataclass(frozen=True)
class Exists:
    """There is a value of a name."""

    metric: str

    type: ClassVar[str] = "exists"


@dataclass(frozen=True)
class ShareLimit:
    """A share of samples: INVALID and REFUSED ones of those scored, FAILED and ERROR ones of all."""

    of: ShareName
    operator: Operator
    threshold: float

    type: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            message = f"`threshold` is {self.threshold!r}; a share lies between 0 and 1"
            raise SpecError("E108", message, hint="write 0.05 for 5 %")


@dataclass(frozen=True)
class NotWorse:
    """The run is not significantly worse than a baseline on the same samples.

    With `margin`, it is shown not to be worse by more than that: the whole interval of the difference lies
    above. `baseline` is the folder of a run; None when nobody names one.
    """

    baseline: str | None = None
    metric: str | None = None
    alpha: float | None = None
    margin: float | None = None
    better: Literal["higher", "lower"] = "higher"

    type: ClassVar[str] = "not_worse"

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 < self.alpha < 1:
            message = f"`alpha` is {self.alpha!r}; it must lie between 0 and 1"
            raise SpecError("E108", message, hint=f"leave it out for {ALPHA}")
        if self.margin is not None and not 0 <= self.margin < float("inf"):
            raise SpecError("E108", f"`margin` is {self.margin!r}; it must be 0 or more")
        if self.margin is not None and self.alpha is not None:
            hint = "leave one of them out: a margin is held against the 95 % interval"
            raise SpecError("E108", "`alpha` has no effect beside `margin`", hint=hint)


Definition = Threshold | Exists | ShareLimit | NotWorse
RULES: Mapping[str, type] = {one.type: one for one in (Threshold, Exists, ShareLimit, NotWorse)}
RULE = Part("rule", RULES, suffix="Definition")


@dataclass(frozen=True)
class Scope:
    """Which tasks a rule is about: keys of evaluations, and of their task specifications; None is all."""

    evaluation_keys: tuple[str, ...] | None = None
    task_specification_keys: tuple[str, ...] | None = None

    def covers(self, evaluation: str) -> bool:
        """Return whether a run of this evaluation is meant."""
        return self.evaluation_keys is None or evaluation in self.evaluation_keys

    def pick(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys of task specifications that are meant."""
        wanted = self.task_specification_keys
        return [key for key in keys if wanted is None or key in wanted]


def _describe_names(named: Rule | Policy) -> dict[str, Any]:
    described = {"key": named.key, "display_name": named.display_name}
    return described | ({"description": named.description} if named.description else {})


@dataclass(frozen=True)
class Rule:
    """One rule of a policy; `place` is where its definition stands."""

    key: str
    definition: Definition
    display_name: str
    description: str | None = None
    scope: Scope = field(default_factory=Scope)
    place: Place = field(default_factory=Place, compare=False)

    def describe(self) -> dict[str, Any]:
        """Return the rule as plain values, in the form of the files; `all_latest` is every task."""
        scope = {name: list(keys) for name, keys in asdict(self.scope).items() if keys is not None}
        stated = {name: value for name, value in asdict(self.definition).items() if value is not None}
        definition = {"type": self.definition.type, **stated}
        return _describe_names(self) | {"definition": definition, "scope": scope or "all_latest"}


@dataclass(frozen=True)
class Policy:
    """Rules that belong together."""

    key: str
    rules: tuple[Rule, ...]
    display_name: str
    description: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the policy as plain values, in the form of the files."""
        return _describe_names(self) | {"rules": [rule.describe() for rule in self.rules]}


def list_rules(policies: Sequence[Policy]) -> Iterator[tuple[Policy, Rule]]:
    """Yield every rule with its policy, in order."""
    yield from ((policy, rule) for policy in policies for rule in policy.rules)


def name_baseline(policies: Sequence[Policy], baseline: str | None) -> tuple[Policy, ...]:
    """Return the policies with the caller's baseline in every rule that needs one.

    Where no rule does, the baseline comes with a rule of its own.
    """
    if baseline is None:
        return tuple(policies)
    if not any(isinstance(rule.definition, NotWorse) for _, rule in list_rules(policies)):
        own = Rule("not_worse", NotWorse(baseline), "Not worse than the baseline")
        key = number_key("baseline", {policy.key for policy in policies})
        return (*policies, Policy(key, (own,), "Baseline"))

    def name_in(rule: Rule) -> Rule:
        definition = rule.definition
        if not isinstance(definition, NotWorse):
            return rule
        return replace(rule, definition=replace(definition, baseline=baseline))

    return tuple(replace(policy, rules=tuple(map(name_in, policy.rules))) for policy in policies)


class ScopeFields(Fields):
    """Which tasks a rule is about."""

    evaluation_keys: Annotated[list[Key], Field(min_length=1)] | None = None
    task_specification_keys: Annotated[list[Key], Field(min_length=1)] | None = None


class RuleFields(Fields):
    """A rule of a policy."""

    key: Key
    display_name: Text | None = None
    description: Text | None = None
    definition: Annotated[Any, part("rule_definition")]
    scope: Literal["all_latest"] | ScopeFields | None = None


class PolicyFields(Fields):
    """A policy."""

    key: Key | None = None
    display_name: Text | None = None
    description: Text | None = None
    rules: Annotated[list[Annotated[Any, part("rule")]], Field(min_length=1)]


def build_policies(
    node: Node | None, problems: Problems, *, config: Config, base: Path
) -> tuple[Policy, ...]:
    """Return the policies of a list, or of the one mapping in its place; what is wrong is left out.

    `base` is for paths that are stated in no file.
    """
    if node is None or node.is_null or node.is_broken:
        return ()
    node = config.fill(node, problems, ("policies",))
    entries = node.entries if isinstance(node, ListNode) else (node,)
    found = []
    for number, entry in enumerate(entries, start=1):
        name = f"policy {number}" if len(entries) > 1 else "the policy"
        if fields := validate_node(PolicyFields, entry, problems, name=name):
            found.append((entry, fields))
    wanted = [(fields.key, "policy", entry.place) for entry, fields in found]
    keys = assign_keys(wanted, problems, what="policy", within="in the run file")
    policies = []
    for (entry, fields), key in zip(found, keys, strict=True):
        rules = [rule for one in entry.at("rules").items if (rule := _build_rule(one, problems, base))]
        own = [(rule.key, rule.key, rule.place) for rule in rules]
        assign_keys(own, problems, what="rule", within=f"in policy `{key}`")
        policies.append(Policy(key, tuple(rules), fields.display_name or key, fields.description))
    return tuple(policies)


def _build_rule(entry: Node, problems: Problems, base: Path) -> Rule | None:
    fields = validate_node(RuleFields, entry, problems, name="the rule")
    stated = entry.get("definition")
    definition = _build_definition(stated, problems, base) if stated is not None else None
    if fields is None or definition is None or stated is None:
        return None
    scope = Scope()
    if isinstance(fields.scope, ScopeFields):
        scope = Scope(**{name: tuple(keys) for name, keys in fields.scope if keys is not None})
    return Rule(
        fields.key, definition, fields.display_name or fields.key, fields.description, scope, stated.place
    )


def _build_definition(node: Node, problems: Problems, base: Path) -> Definition | None:
    operator = node.get("operator")
    kind = RULE.choose(node, problems)
    if kind is not None and isinstance(operator, ScalarNode) and operator.style in {">", "|"}:
        hint = 'YAML reads `>` and `|` as the beginning of a text block: write the operator in quotes, `">="`'
        problems.add("E108", "`operator` is not in quotes", operator.place, hint)
        return None
    read = RULE.read(node, problems)
    built: Definition | None = None if read is None else read[1]
    stated = node.get("baseline")
    if not isinstance(built, NotWorse) or built.baseline is None or stated is None:
        return built
    place = stated.place
    folder = Path(place.file).parent if place.file else base
    try:
        if is_stored(built.baseline):
            return replace(built, baseline=require_address(built.baseline, place))
        return replace(built, baseline=str(resolve_path(folder / built.baseline, place)))
    except SpecError as error:
        problems.report(error)
        return None


def read_policies(stated: Stated, project: Project, config: Config | None = None) -> tuple[Policy, ...]:
    """Return the policies that the caller gives in place of the run file's: a file, or plain values."""
    problems, base = project.problems, project.folder
    try:
        if isinstance(stated, str | Path):
            base = Path(stated).parent
            node: Node | None = project.read(Path(stated), limit=base)
        else:
            node = project.read(stated if isinstance(stated, Mapping) else {"policies": stated})
    except SpecError as error:
        problems.report(error)
        return ()
    if isinstance(node, MapNode) and "rules" not in node.entries:  # under `policies`, as in a run file
        if "policies" not in node.entries and not node.is_broken:
            hint = "it begins with `policies:`, a list of policies, each with `key` and `rules`"
            problems.add("E108", "the file holds no policies", node.place, hint)
        node = node.get("policies")
    return build_policies(node, problems, config=config or Config(), base=base)


def policies_from_source(plain: Sequence[object]) -> tuple[Policy, ...]:
    """Return the policies that `Policy.describe` once described; raises SpecError when they are none."""
    problems = Problems()
    policies = build_policies(from_plain(plain, Place()), problems, config=Config(), base=Path())
    if problems.errors:
        raise problems.errors[0]
    return policies


def load_policies(stated: Stated, overrides: Overrides) -> Loaded[tuple[Policy, ...]]:
    """Return the policies of a file, or of plain values of the same form."""
    problems = Problems()
    folder = Path(stated).parent if isinstance(stated, str | Path) else Path()
    return Loaded.of(read_policies(stated, Project.open(folder, overrides, problems)), problems)


def hold_policies(
    policies: Sequence[Policy], tasks: Mapping[str, Task], evaluation: str
) -> Loaded[tuple[Policy, ...]]:
    """Return policies with what they name and the tasks, by specification key, do not have."""
    problems = Problems()
    check_policies(policies, tasks, evaluation, problems)
    return Loaded.of(tuple(policies), problems)


@dataclass(frozen=True)
class Foreseen:
    """A metric of a task, and what its values will be called."""

    step: ScoringStep
    metric: KeyedMetric
    names: ValueNames

    def allow(self, name: str) -> bool:
        """Return whether a value of the metric may be called so, alone or among namesakes.

        What keeps it apart from a namesake are the keys that its name begins with.
        """
        key = self.metric.key
        return any(
            name.startswith(one) and self.names.allow(name[len(one) :])
            for one in ("", f"{key}_", f"{self.step.key}_{key}_")
        )


def foresee_metrics(task: Task, name: str | None = None) -> list[Foreseen]:
    """Return the metrics of a task, or those that may have a value of a name."""
    every = (
        Foreseen(step, metric, foresee_names(metric.metric))
        for step in task.scoring
        for metric in step.metrics
    )
    return [one for one in every if name is None or one.allow(name)]


def find_compared(task: Task, name: str) -> tuple[str, str] | None:
    """Return the scorer and the value whose mean a metric is; None when it is no plain mean of a value.

    With trials, the mean of their mean is one.
    """
    for one in foresee_metrics(task, name):
        metric = one.metric.metric
        if isinstance(metric, Mean):
            value, _, label = metric.field.partition(".")
            usual = task.trials.aggregators_of(value)[0].label if task.trials else ""
            if (label or usual) == ("mean" if task.trials else ""):
                return one.step.key, value
    return None


def check_policies(
    policies: Sequence[Policy], tasks: Mapping[str, Task], evaluation: str, problems: Problems
) -> None:
    """Report what rules name and the tasks do not have; `tasks` are those of the run by specification key."""
    for policy, rule in list_rules(policies):
        label = f"rule `{rule.key}` of policy `{policy.key}`"
        keys = _choose_tasks(rule, label, list(tasks), evaluation, problems)
        if keys:
            _check_definition(rule, label, [tasks[key] for key in keys], problems)


def _choose_tasks(rule: Rule, label: str, keys: list[str], evaluation: str, problems: Problems) -> list[str]:
    """Return the task specifications that a rule is about; report keys that name none."""
    scope = rule.scope
    evaluations = scope.evaluation_keys or ()
    if not scope.covers(evaluation):
        message = (
            f"{label} is for the evaluation {listing(evaluations)}, and this is `{evaluation}`: it is skipped"
        )
        problems.notice(message, rule.place)
        return []
    chosen, is_shared = scope.pick(keys), len(evaluations) > 1  # others may have the task specifications
    for key in scope.task_specification_keys or () if not is_shared else ():
        if key not in keys:
            hint = suggest(key, keys) or f"task specifications: {listing(keys)}"
            message = f"{label} names the task specification `{key}`, which is not defined"
            problems.add("E113", message, rule.place, hint)
    if not chosen and is_shared:
        message = f"{label} is for task specifications of other evaluations: it is skipped"
        problems.notice(message, rule.place)
    return chosen


def _check_definition(rule: Rule, label: str, tasks: Sequence[Task], problems: Problems) -> None:
    """Report what a rule names and its tasks do not have; a share of samples names nothing."""
    definition = rule.definition
    name = None if isinstance(definition, ShareLimit) else definition.metric
    if name is None:
        return
    found = [one for task in tasks for one in foresee_metrics(task, name)]
    if not found:
        names = [one.names for task in tasks for one in foresee_metrics(task)]
        known = list(
            dict.fromkeys(
                text
                for one in names
                for text in (*one.names, *(f"{first}…{last}" for first, last in one.patterns if first + last))
            )
        )
        message = f"{label} names the metric `{name}`, which no task in its scope has"
        problems.add("E113", message, rule.place, suggest(name, known) or f"metrics: {listing(known)}")
        return
    if isinstance(definition, NotWorse) and not any(find_compared(task, name) for task in tasks):
        hint = "name a `mean` of one of the scorer's values, or leave `metric` out for the main one"
        message = f"{label}: `{name}` is no mean: samples cannot be compared pair by pair"
        problems.add("E108", message, rule.place, hint)
    if not isinstance(definition, Threshold):
        return
    if not 0 <= definition.threshold <= 1 and all(one.names.is_share for one in found):
        message = f"{label}: `threshold` is {definition.threshold!r}, and `{name}` lies between 0 and 1"
        problems.add("E108", message, rule.place, "write 0.85 for 85 %")
    column = definition.group_by
    columns = list(dict.fromkeys(one for metric in found for one in metric.metric.design.group_by))
    if column is not None and column not in columns:
        add = f"add `group_by: {column}` to the metric or to the `definition` of its task"
        message = f"{label}: `{name}` is not measured by `{column}`"
        problems.add("E108", message, rule.place, suggest(column, columns) or add)
