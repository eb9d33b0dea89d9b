"""Policies: the rules of a run, read from files, checked against its tasks, decided when it is
complete.

They are plain values in the form of the files, as `run.json` keeps them, with all that may be left
out there filled in: a policy has `key`, `display_name` and `rules`, a rule `key`, `display_name`,
`definition` and `scope`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from answerkey.datasets.storage import name_lasting
from answerkey.errors import AnswerkeyError, Place, RunError, SpecError, listing, raise_all, suggest
from answerkey.gates.rules import (
    MAIN,
    RULES,
    Definition,
    NotWorse,
    ShareLimit,
    Threshold,
    read_definition,
)
from answerkey.runs import NOT_COMPLETE, Run, RunPlace, describe_gates, leave_open, load_run
from answerkey.spec import Overrides, Task, sort_errors, task_from_source
from answerkey.spec.config import Config
from answerkey.spec.nodes import Node, Problems, from_plain
from answerkey.spec.project import Project
from answerkey.spec.shapes import part
from answerkey.spec.sources import resolve_stated
from answerkey.spec.task import find_compared, find_metrics
from answerkey.spec.validation import (
    Fields,
    Key,
    Part,
    Text,
    assign_keys,
    number_key,
    validate_node,
)
from answerkey.text import read_fraction
from answerkey.types import GateStatus, Notice, find_worst_status

RULE = Part("rule", RULES, suffix="Definition")
#: The policy of gates that options state.
OPTIONS = "options"
WHOLE = 100

Plain = dict[str, Any]
#: Where the definition of each rule stands, by the keys of its policy and its own.
Places = Mapping[tuple[str, str], Place]


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


# From files


def plan_policies(
    project: Project,
    evaluation: str,
    tasks: Mapping[str, Task],
    node: Node | None = None,
    config: Config | None = None,
) -> tuple[tuple[Plain, ...], Places]:
    """Return the policies of a run: the caller's, else those of a file, checked against the tasks.

    `tasks` are those of the run by specification key; without any, nothing can be said to be
    missing.
    """
    overrides, problems, base = project.overrides, project.problems, project.folder
    if (stated := overrides.policies) is not None:  # in place of the run file's
        try:
            if isinstance(stated, str | Path):
                base = Path(stated).parent
                node = project.read(Path(stated), limit=base)
            else:
                node = project.read(stated if isinstance(stated, Mapping) else {"policies": stated})
        except SpecError as error:
            problems.report(error)
            node = None
        if (
            node and node.is_map and "rules" not in node.entries
        ):  # under `policies`, as in a run file
            if "policies" not in node.entries and not node.is_broken:
                hint = "it begins with `policies:`, a list of policies, each with `key` and `rules`"
                problems.add("E108", "the file holds no policies", node.place, hint)
            node = node.get("policies")
    policies, places = build_policies(node, problems, config=config or Config(), base=base)
    if overrides.baseline is not None:
        policies = _name_baseline(policies, name_lasting(overrides.baseline))
    policies, places = _add_options(policies, places, overrides)
    rules = [(one["key"], rule) for one in policies for rule in one["rules"]]
    # What a rule names and the tasks do not have is reported; a share of samples names nothing.
    for policy, rule in rules if tasks else ():
        label, place = (
            f"rule `{rule['key']}` of policy `{policy}`",
            places.get((policy, rule["key"]), Place()),
        )
        evaluations, wanted = _read_scope(rule)
        if evaluations is not None and evaluation not in evaluations:
            here = f"and this is `{evaluation}`: it is skipped"
            problems.notice(f"{label} is for the evaluation {listing(evaluations)}, {here}", place)
            continue
        chosen = [task for key, task in tasks.items() if wanted is None or key in wanted]
        is_shared = len(evaluations or ()) > 1  # others may have the task specifications
        for key in wanted or () if not is_shared else ():
            if key not in tasks:
                hint = suggest(key, tasks) or f"task specifications: {listing(tasks)}"
                message = f"{label} names the task specification `{key}`, which is not defined"
                problems.add("E113", message, place, hint)
        if not chosen and is_shared:
            problems.notice(
                f"{label} is for task specifications of other evaluations: it is skipped", place
            )
        definition = read_definition(rule["definition"])
        name = None if isinstance(definition, ShareLimit) else definition.metric
        if not chosen or (name is None and not isinstance(definition, Threshold)):
            continue
        found = [one for task in chosen for one in find_metrics(task, name)]
        if name is None:
            first = [one for task in chosen for one in task.main_step.metrics[:1]]
            found = [one for one in found if one.metric in first]
            name = next((one for metric in found for one in metric.names.names), MAIN)
        if not found:
            if name == MAIN:
                continue
            known: dict[str, None] = {}
            for one in [one.names for task in chosen for one in find_metrics(task)]:
                known |= dict.fromkeys(one.names)
                known |= dict.fromkeys(
                    f"{first}…{last}" for first, last in one.patterns if first + last
                )
            message = f"{label} names the metric `{name}`, which no task in its scope has"
            problems.add(
                "E113", message, place, suggest(name, known) or f"metrics: {listing(known)}"
            )
        elif isinstance(definition, NotWorse) and not any(
            find_compared(task, name) for task in chosen
        ):
            hint = (
                "name a `mean` of one of the scorer's values, or leave `metric` out for "
                "the main one"
            )
            message = f"{label}: `{name}` is no mean: samples cannot be compared pair by pair"
            problems.add("E108", message, place, hint)
        elif isinstance(definition, Threshold):
            if not 0 <= definition.threshold <= 1 and all(one.names.is_share for one in found):
                message = (
                    f"{label}: `threshold` is {definition.threshold!r}, and `{name}` lies "
                    "between 0 and 1"
                )
                percent = definition.threshold if 1 < definition.threshold <= WHOLE else 85
                problems.add("E108", message, place, f"write {percent / WHOLE:g} for {percent:g} %")
            column = definition.group_by
            columns = list(
                dict.fromkeys(one for metric in found for one in metric.metric.design.group_by)
            )
            if column is not None and column not in columns:
                add = f"add `group_by: {column}` to the metric or to the `definition` of its task"
                message = f"{label}: `{name}` is not measured by `{column}`"
                problems.add("E108", message, place, suggest(column, columns) or add)
    return policies, places


def build_policies(
    node: Node | None, problems: Problems, *, config: Config, base: Path
) -> tuple[tuple[Plain, ...], Places]:
    """Return the policies of a list, or of the one mapping in its place; what is wrong is left out.

    `base` is for paths that are stated in no file.
    """
    if node is None or node.is_null or node.is_broken:
        return (), {}
    node = config.fill(node, problems, ("policies",))
    entries = node.items if node.is_list else (node,)
    found = []
    for number, entry in enumerate(entries, start=1):
        name = f"policy {number}" if len(entries) > 1 else "the policy"
        if fields := validate_node(PolicyFields, entry, problems, name=name):
            found.append((entry, fields))
    wanted = [(fields.key, "policy", entry.place) for entry, fields in found]
    keys = assign_keys(wanted, problems, what="policy", within="in the run file")
    policies: list[Plain] = []
    places: dict[tuple[str, str], Place] = {}
    for (entry, fields), key in zip(found, keys, strict=True):
        rules, own = [], []
        for one in entry.at("rules").items:
            stated = validate_node(RuleFields, one, problems, name="the rule")
            definition = one.get("definition")
            built = None if definition is None else _build_definition(definition, problems, base)
            if stated is None or definition is None or built is None:
                continue
            scope: Any = stated.scope or "all_latest"
            if isinstance(scope, ScopeFields):
                scope = scope.model_dump(exclude_none=True) or "all_latest"
            named = _describe_names(stated, stated.key)
            rules.append(named | {"definition": _describe(built), "scope": scope})
            own.append((stated.key, stated.key, definition.place))
            places[key, stated.key] = definition.place
        assign_keys(own, problems, what="rule", within=f"in policy `{key}`")
        policies.append(_describe_names(fields, key) | {"rules": rules})
    return tuple(policies), places


def _describe_names(fields: PolicyFields | RuleFields, key: str) -> Plain:
    described = {"key": key, "display_name": fields.display_name or key}
    return described | ({"description": fields.description} if fields.description else {})


def _describe(definition: Definition) -> Plain:
    stated = {name: value for name, value in asdict(definition).items() if value is not None}
    return {"type": definition.type, **stated}


def _build_definition(node: Node, problems: Problems, base: Path) -> Definition | None:
    operator = node.get("operator")
    if operator is not None and operator.style in {">", "|"} and RULE.choose(node, problems):
        hint = (
            "YAML reads `>` and `|` as the beginning of a text block: write the operator "
            'in quotes, `">="`'
        )
        problems.add("E108", "`operator` is not in quotes", operator.place, hint)
        return None
    built: Definition | None = RULE.read(node, problems)[1]
    if not isinstance(built, NotWorse) or built.baseline is None:
        return built
    try:
        return replace(
            built, baseline=str(resolve_stated(built.baseline, node.at("baseline").place, base))
        )
    except SpecError as error:
        problems.report(error)
        return None


def _name_baseline(policies: Sequence[Plain], baseline: str) -> tuple[Plain, ...]:
    """Return the policies with the caller's baseline in every rule that needs one.

    Where no rule does, the baseline comes with a rule of its own.
    """
    rules = [rule for policy in policies for rule in policy["rules"]]
    needing = [rule for rule in rules if rule["definition"]["type"] == NotWorse.type]
    for rule in needing:
        rule["definition"] = {"type": NotWorse.type, "baseline": baseline} | rule["definition"]
        rule["definition"]["baseline"] = baseline
    if needing:
        return tuple(policies)
    definition = _describe(NotWorse(baseline))
    rule = {
        "key": "not_worse",
        "display_name": "Not worse than the baseline",
        "definition": definition,
    }
    key = number_key("baseline", {policy["key"] for policy in policies})
    own = {"key": key, "display_name": "Baseline", "rules": [{**rule, "scope": "all_latest"}]}
    return (*policies, own)


def _add_options(
    policies: tuple[Plain, ...], places: Places, overrides: Overrides
) -> tuple[tuple[Plain, ...], Places]:
    """Add what `--fail-under` and `--not-worse-than` ask, in place of what they asked of a stored
    run.
    """
    given: dict[str, Definition] = {}
    if overrides.fail_under is not None:
        try:
            given["fail_under"] = Threshold(">=", read_fraction(str(overrides.fail_under)))
        except ValueError:
            message = f"`--fail-under {overrides.fail_under}` is no number"
            raise SpecError(
                "E119", message, hint="write `--fail-under 0.8` or `--fail-under 80%`"
            ) from None
    if overrides.not_worse_than is not None:
        given["not_worse_than"] = NotWorse(name_lasting(overrides.not_worse_than))
    if not given:
        return policies, places
    before = next((one for one in policies if one["key"] == OPTIONS), None)
    rules = [rule for rule in before["rules"] if rule["key"] not in given] if before else []
    for key, one in given.items():
        definition = {"definition": _describe(one), "scope": "all_latest"}
        rules.append({"key": key, "display_name": key, **definition})
        places = {**places, (OPTIONS, key): Place(file=f"--{key.replace('_', '-')}")}
    own = {"key": OPTIONS, "display_name": "Options", "rules": rules}
    return (*(one for one in policies if one is not before), own), places


def _read_scope(rule: Plain) -> tuple[list[str] | None, list[str] | None]:
    """Return the keys of evaluations, and of their task specifications, that a rule is about.

    None is all.
    """
    scope = {} if rule["scope"] == "all_latest" else rule["scope"]
    return scope.get("evaluation_keys"), scope.get("task_specification_keys")


def find_baseline_errors(
    policies: Sequence[Plain], places: Places, evaluation: str
) -> list[AnswerkeyError]:
    """Return why baselines of rules for an evaluation cannot be compared with, as far as is known
    before.
    """
    errors: list[AnswerkeyError] = []
    for policy, rule in [(one["key"], rule) for one in policies for rule in one["rules"]]:
        baseline, (evaluations, _) = rule["definition"].get("baseline"), _read_scope(rule)
        if baseline is None or (evaluations is not None and evaluation not in evaluations):
            continue
        place = places.get((policy, rule["key"]), Place())
        where = place if place.file else Place(file=baseline)
        try:
            status = load_run(baseline).status
        except RunError as error:
            message = f"the baseline of rule `{rule['key']}` cannot be read: {error.message}"
            hint = (
                "name the folder of a run, relative to the file that states it, or give "
                "`--baseline RUN`"
            )
            errors.append(RunError(error.code, message, where=where, hint=hint))
            continue
        if status != "complete":
            message = f"the baseline of rule `{rule['key']}` is {status}: `{baseline}`"
            hint = f"`answerkey show {baseline}` says what is missing, and how to go on"
            errors.append(RunError("E508", message, where=where, hint=hint))
    return errors


def take_policies(
    tasks: Mapping[str, Task],
    evaluation: str,
    overrides: Overrides,
    *,
    stored: Sequence[object] = (),
) -> tuple[tuple[Plain, ...], list[Notice]]:
    """Return the policies that the caller gives, else the stored ones, for tasks that are loaded
    already.

    Everything that is wrong with them is raised at once; a stored baseline that is gone leaves its
    rule open.
    """
    problems, stated = Problems(), overrides.policies
    project = Project(Path(), overrides, problems)
    if stated is not None:
        folder = Path(stated).parent if isinstance(stated, str | Path) else Path()
        project = Project.open(folder, overrides, problems)
    policies, places = plan_policies(project, evaluation, tasks, from_plain(stored, Place()))
    errors = find_baseline_errors(policies, places, evaluation) if overrides.states_gates else []
    raise_all([*sort_errors(problems.errors), *errors])
    return policies, problems.notices


# Decided


def decide_gates(run: Run, policies: Sequence[Plain]) -> list[dict[str, Any]]:
    """Return the entry `gates` of `run.json`: how every rule stands.

    Nothing is decided of a run that is not complete.
    """
    gates = []
    for policy, rule in [(one["key"], rule) for one in policies for rule in one["rules"]]:
        gate = leave_open(policy, rule, NOT_COMPLETE)
        evaluations, wanted = _read_scope(rule)
        keys = [key for key in run.tasks if wanted is None or key in wanted]
        is_other = evaluations is not None and run.key not in evaluations
        if is_other or (run.tasks and not keys):
            note = f"it is for other tasks: {listing(wanted or ())}"
            if is_other:
                note = (
                    f"it is for the evaluation {listing(evaluations or ())}, and this is "
                    f"`{run.key}`"
                )
            gate = replace(gate, status=GateStatus.SKIPPED, note=note)
        elif run.status == "complete":
            checks = tuple(read_definition(rule["definition"]).check(run, keys))
            status = find_worst_status(check.status for check in checks)
            missing = None if status else "no task in its scope has such a value"
            gate = replace(gate, status=status or GateStatus.FAIL, checks=checks, note=missing)
        gates.append(gate)
    return describe_gates(gates)


def gate(
    run: Run,
    policies: str | Path | Mapping[str, object] | Sequence[object] | None = None,
    baseline: Run | str | RunPlace | None = None,
    *,
    fail_under: float | str | None = None,
    not_worse_than: str | Path | None = None,
) -> Run:
    """Return a run with its gates decided anew: by its own policies, or by those that are given.

    The folder of the run stays as it is.
    """
    path = baseline.path if isinstance(baseline, Run) else baseline
    named = None if path is None else str(path)
    overrides = Overrides(
        policies=policies, baseline=named, fail_under=fail_under, not_worse_than=not_worse_than
    )
    tasks = {key: task_from_source(one.source["task"]) for key, one in run.tasks.items()}
    found, _ = take_policies(tasks, run.key, overrides, stored=run.manifest.get("policies") or ())
    stated = {"policies": list(found)} if found else {}
    return replace(run, manifest={**run.manifest, **stated, "gates": decide_gates(run, found)})
