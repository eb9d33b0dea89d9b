"""Policies: the rules of a run, read from files, checked against its tasks, decided when it is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from answerkey.datasets import is_stored, name_lasting, require_address
from answerkey.errors import AnswerkeyError, Place, RunError, SpecError, listing, raise_all, suggest
from answerkey.gates.rules import RULES, Definition, NotWorse, ShareLimit, Threshold
from answerkey.runs import NOT_COMPLETE, Run, RunPlace, describe_gates, leave_open, load_run
from answerkey.spec import Overrides, Task, sort_errors, task_from_source
from answerkey.spec.config import Config
from answerkey.spec.nodes import ListNode, MapNode, Node, Problems, ScalarNode, from_plain, resolve_path
from answerkey.spec.project import Project
from answerkey.spec.shapes import part
from answerkey.spec.task import find_compared, foresee_metrics
from answerkey.spec.validation import Fields, Key, Part, Text, assign_keys, number_key, validate_node
from answerkey.types import Gate, GateStatus, Notice, find_worst_status

RULE = Part("rule", RULES, suffix="Definition")


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

    def find_baseline_error(self) -> AnswerkeyError | None:
        """Return why the baseline cannot be compared with, as far as that is known before the run."""
        baseline = self.definition.baseline if isinstance(self.definition, NotWorse) else None
        if baseline is None:
            return None
        where = self.place if self.place.file else Place(file=baseline)
        try:
            status = load_run(baseline).status
        except RunError as error:
            message = f"the baseline of rule `{self.key}` cannot be read: {error.message}"
            hint = "name the folder of a run, relative to the file that states it, or give `--baseline RUN`"
            return RunError(error.code, message, where=where, hint=hint)
        message = f"the baseline of rule `{self.key}` is {status}: `{baseline}`"
        hint = f"`answerkey show {baseline}` says what is missing, and how to go on"
        return None if status == "complete" else RunError("E508", message, where=where, hint=hint)


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

    def find_baseline_errors(self, evaluation: str) -> list[AnswerkeyError]:
        """Return what is wrong with the baselines that rules for an evaluation name."""
        rules = [rule for rule in self.rules if rule.scope.covers(evaluation)]
        return [error for rule in rules if (error := rule.find_baseline_error()) is not None]


def _describe_names(named: Rule | Policy) -> dict[str, Any]:
    described = {"key": named.key, "display_name": named.display_name}
    return described | ({"description": named.description} if named.description else {})


# From files ------------------------------------------------------------------------------------------------


def plan_policies(
    project: Project,
    evaluation: str,
    tasks: Mapping[str, Task],
    node: Node | None = None,
    config: Config | None = None,
) -> tuple[Policy, ...]:
    """Return the policies of a run: the caller's, else those of a file, checked against the tasks.

    `tasks` are those of the run by specification key; without any, nothing can be said to be missing.
    """
    overrides, problems, base = project.overrides, project.problems, project.folder
    stated = overrides.policies
    if isinstance(stated, str | Path):
        base = Path(stated).parent
    if stated is not None:
        node = _read_stated(stated, project, base)
    policies = build_policies(node, problems, config=config or Config(), base=base)
    if tasks:
        for policy in policies:
            for rule in policy.rules:
                _check_rule(rule, f"rule `{rule.key}` of policy `{policy.key}`", tasks, evaluation, problems)
    return policies if overrides.baseline is None else _name_baseline(policies, overrides.baseline)


def _read_stated(
    stated: str | Path | Mapping[str, object] | Sequence[object], project: Project, base: Path
) -> Node | None:
    """Return the policies that the caller gives in place of the run file's: a file, or plain values."""
    try:
        if isinstance(stated, str | Path):
            node = project.read(Path(stated), limit=base)
        else:
            node = project.read(stated if isinstance(stated, Mapping) else {"policies": stated})
    except SpecError as error:
        project.problems.report(error)
        return None
    if isinstance(node, MapNode) and "rules" not in node.entries:  # under `policies`, as in a run file
        if "policies" not in node.entries and not node.is_broken:
            hint = "it begins with `policies:`, a list of policies, each with `key` and `rules`"
            project.problems.add("E108", "the file holds no policies", node.place, hint)
        return node.get("policies")
    return node


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
    name = fields.display_name or fields.key
    return Rule(fields.key, definition, name, fields.description, scope, stated.place)


def _build_definition(node: Node, problems: Problems, base: Path) -> Definition | None:
    operator = node.get("operator")
    if isinstance(operator, ScalarNode) and operator.style in {">", "|"} and RULE.choose(node, problems):
        hint = 'YAML reads `>` and `|` as the beginning of a text block: write the operator in quotes, `">="`'
        problems.add("E108", "`operator` is not in quotes", operator.place, hint)
        return None
    read = RULE.read(node, problems)
    built: Definition | None = None if read is None else read[1]
    if not isinstance(built, NotWorse) or built.baseline is None:
        return built
    place = node.at("baseline").place
    folder = Path(place.file).parent if place.file else base
    try:
        if is_stored(built.baseline):
            return replace(built, baseline=require_address(built.baseline, place))
        return replace(built, baseline=str(resolve_path(folder / built.baseline, place)))
    except SpecError as error:
        problems.report(error)
        return None


def _name_baseline(policies: Sequence[Policy], given: str | Path) -> tuple[Policy, ...]:
    """Return the policies with the caller's baseline in every rule that needs one.

    Where no rule does, the baseline comes with a rule of its own.
    """
    baseline = name_lasting(given)
    named, is_needed = [], False
    for policy in policies:
        rules = []
        for rule in policy.rules:
            definition = rule.definition
            if isinstance(definition, NotWorse):
                definition, is_needed = replace(definition, baseline=baseline), True
            rules.append(replace(rule, definition=definition))
        named.append(replace(policy, rules=tuple(rules)))
    if not is_needed:
        own = Rule("not_worse", NotWorse(baseline), "Not worse than the baseline")
        key = number_key("baseline", {policy.key for policy in policies})
        named.append(Policy(key, (own,), "Baseline"))
    return tuple(named)


def _check_rule(
    rule: Rule, label: str, tasks: Mapping[str, Task], evaluation: str, problems: Problems
) -> None:
    """Report what a rule names and the tasks do not have; a share of samples names nothing."""
    scope, definition, place = rule.scope, rule.definition, rule.place
    evaluations, keys = scope.evaluation_keys or (), list(tasks)
    if not scope.covers(evaluation):
        here = f"and this is `{evaluation}`: it is skipped"
        problems.notice(f"{label} is for the evaluation {listing(evaluations)}, {here}", place)
        return
    chosen, is_shared = scope.pick(keys), len(evaluations) > 1  # others may have the task specifications
    for key in scope.task_specification_keys or () if not is_shared else ():
        if key not in keys:
            hint = suggest(key, keys) or f"task specifications: {listing(keys)}"
            message = f"{label} names the task specification `{key}`, which is not defined"
            problems.add("E113", message, place, hint)
    if not chosen and is_shared:
        problems.notice(f"{label} is for task specifications of other evaluations: it is skipped", place)
    name = None if isinstance(definition, ShareLimit) else definition.metric
    if not chosen or name is None:
        return
    found = [one for key in chosen for one in foresee_metrics(tasks[key], name)]
    if not found:
        known: dict[str, None] = {}
        for one in [one.names for key in chosen for one in foresee_metrics(tasks[key])]:
            known |= dict.fromkeys(one.names)
            known |= dict.fromkeys(f"{first}…{last}" for first, last in one.patterns if first + last)
        message = f"{label} names the metric `{name}`, which no task in its scope has"
        problems.add("E113", message, place, suggest(name, known) or f"metrics: {listing(known)}")
    elif isinstance(definition, NotWorse) and not any(find_compared(tasks[key], name) for key in chosen):
        hint = "name a `mean` of one of the scorer's values, or leave `metric` out for the main one"
        message = f"{label}: `{name}` is no mean: samples cannot be compared pair by pair"
        problems.add("E108", message, place, hint)
    elif isinstance(definition, Threshold):
        if not 0 <= definition.threshold <= 1 and all(one.names.is_share for one in found):
            message = f"{label}: `threshold` is {definition.threshold!r}, and `{name}` lies between 0 and 1"
            problems.add("E108", message, place, "write 0.85 for 85 %")
        column = definition.group_by
        columns = list(dict.fromkeys(one for metric in found for one in metric.metric.design.group_by))
        if column is not None and column not in columns:
            add = f"add `group_by: {column}` to the metric or to the `definition` of its task"
            message = f"{label}: `{name}` is not measured by `{column}`"
            problems.add("E108", message, place, suggest(column, columns) or add)


def take_policies(
    tasks: Mapping[str, Task], evaluation: str, overrides: Overrides, *, stored: Sequence[object] = ()
) -> tuple[tuple[Policy, ...], list[Notice]]:
    """Return the policies that the caller gives, else the stored ones, for tasks that are loaded already.

    Everything that is wrong with them is raised at once; a stored baseline that is gone leaves its rule open.
    """
    problems, stated = Problems(), overrides.policies
    project = Project(Path(), overrides, problems)
    if stated is not None:
        folder = Path(stated).parent if isinstance(stated, str | Path) else Path()
        project = Project.open(folder, overrides, problems)
    policies = plan_policies(project, evaluation, tasks, from_plain(stored, Place()))
    is_given = stated is not None or overrides.baseline is not None
    errors = [error for one in policies if is_given for error in one.find_baseline_errors(evaluation)]
    raise_all([*sort_errors(problems.errors), *errors])
    return policies, problems.notices


def policies_from_source(plain: Sequence[object]) -> tuple[Policy, ...]:
    """Return the policies that `Policy.describe` once described; raises SpecError when they are none."""
    problems = Problems()
    policies = build_policies(from_plain(plain, Place()), problems, config=Config(), base=Path())
    raise_all(problems.errors)
    return policies


# Decided ---------------------------------------------------------------------------------------------------


def decide_gates(run: Run, policies: Sequence[Policy]) -> tuple[Gate, ...]:
    """Return how every rule stands; nothing is decided of a run that is not complete."""
    gates = []
    for key, rule in [(policy.key, rule) for policy in policies for rule in policy.rules]:
        gate = leave_open(key, rule.describe(), NOT_COMPLETE)
        keys, scope = rule.scope.pick(list(run.tasks)), rule.scope
        if not scope.covers(run.key):
            evaluations = listing(scope.evaluation_keys or ())
            note = f"it is for the evaluation {evaluations}, and this is `{run.key}`"
            gate = replace(gate, status=GateStatus.SKIPPED, note=note)
        elif run.tasks and not keys:
            note = f"it is for other tasks: {listing(scope.task_specification_keys or ())}"
            gate = replace(gate, status=GateStatus.SKIPPED, note=note)
        elif run.status == "complete":
            checks = tuple(rule.definition.check(run, keys))
            status = find_worst_status(check.status for check in checks)
            missing = None if status else "no task in its scope has such a value"
            gate = replace(gate, status=status or GateStatus.FAIL, checks=checks, note=missing)
        gates.append(gate)
    return tuple(gates)


def conclude_gates(run: Run) -> dict[str, Any]:
    """Return the entry `gates` for the `run.json` of a run that has policies, and ends."""
    return {"gates": describe_gates(decide_gates(run, policies_from_source(run.manifest["policies"])))}


def gate(
    run: Run,
    policies: str | Path | Mapping[str, object] | Sequence[object] | None = None,
    baseline: Run | str | RunPlace | None = None,
) -> Run:
    """Return a run with its gates decided anew: by its own policies, or by those that are given.

    The folder of the run stays as it is.
    """
    path = baseline.path if isinstance(baseline, Run) else baseline
    overrides = Overrides(policies=policies, baseline=None if path is None else str(path))
    tasks = {key: task_from_source(one.source["task"]) for key, one in run.tasks.items()}
    found, _ = take_policies(tasks, run.key, overrides, stored=run.manifest.get("policies") or ())
    changes: dict[str, Any] = {"gates": describe_gates(decide_gates(run, found))}
    changes |= {"policies": [policy.describe() for policy in found]} if found else {}
    return replace(run, manifest={**run.manifest, **changes})
