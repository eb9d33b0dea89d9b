"""Policies: read from files, checked against the tasks of a run, decided when it is complete.

A policy keeps the form of its file, with defaults filled in, and is stored like that in `run.json`:
it has `key`, `display_name` and `rules`; a rule has `key`, `display_name`, `definition` and
`scope`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from answerkey.datasets.storage import name_lasting
from answerkey.errors import AnswerkeyError, Place, RunError, SpecError, listing, raise_all
from answerkey.gates.rules import RULES, NotWorse, Rule, Threshold, read_definition
from answerkey.runs import (
    NOT_COMPLETE,
    Run,
    RunPlace,
    describe_gates,
    load_run,
    make_undecided_gate,
)
from answerkey.spec import Options, Task, sort_errors, task_from_source
from answerkey.spec.config import Config
from answerkey.spec.nodes import Node, ProblemList, advise, from_plain
from answerkey.spec.project import Project
from answerkey.spec.shapes import part
from answerkey.spec.sources import resolve_stated
from answerkey.spec.validation import (
    Fields,
    Key,
    Part,
    Text,
    assign_keys,
    validate_node,
)
from answerkey.text import read_fraction
from answerkey.types import Gate, GateStatus, Notice, find_worst_status

RULE = Part("rule", RULES, suffix="Definition")
EVERYTHING: Literal["all_latest"] = "all_latest"
#: The key of the policy that holds `--fail-under` and `--not-worse-than`.
OPTIONS = "options"

Json = dict[str, Any]
Policies = tuple[Json, ...]
Keys = list[str] | None
#: Where each rule is defined, by the key of its policy and its own.
Places = Mapping[tuple[str, str], Place]


SomeKeys = Annotated[list[Key], Field(min_length=1)]


class ScopeFields(Fields):
    """The tasks that a rule applies to."""

    evaluation_keys: SomeKeys | None = None
    task_specification_keys: SomeKeys | None = None


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
) -> tuple[Policies, Places]:
    """Return the caller's policies, or else those of the file, checked against the tasks of the
    run, which are given by specification key.
    """
    overrides = project.options
    base = project.folder
    if overrides.policies is not None:
        if isinstance(overrides.policies, str | Path):
            base = Path(overrides.policies).parent
        node = _read_callers_policies(project)
    config = config or Config()
    policies, places = build_policies(node, config=config, base=base)
    policies, places = _add_options(policies, places, overrides)
    if tasks:
        for policy, rule in _list_rules(policies):
            place = places.get((policy, rule["key"]), Place())
            label = f"rule `{rule['key']}` of policy `{policy}`"
            _check_rule(rule, label, place, evaluation, tasks, project.problems)
    return policies, places


def _read_callers_policies(project: Project) -> Node | None:
    """Return the node of the policies that replace those of the run file."""
    policies = project.options.policies
    try:
        if isinstance(policies, str | Path):
            path = Path(policies)
            node = project.read(path, limit=path.parent)
        elif isinstance(policies, Mapping):
            node = project.read(policies)
        else:
            node = project.read({"policies": policies})
    except AnswerkeyError as error:
        project.problems.report(error)
        return None
    if not node.is_map or "rules" in node.entries:
        return node
    if "policies" not in node.entries:
        hint = "it begins with `policies:`, a list of policies, each with `key` and `rules`"
        node.report("E108", "the file holds no policies", hint)
    return node.entries.get("policies")


def _check_rule(
    rule: Json,
    label: str,
    place: Place,
    evaluation: str,
    tasks: Mapping[str, Task],
    problems: ProblemList,
) -> None:
    """Report what a rule names and the tasks in its scope do not have."""
    evaluations, specifications = _read_scope(rule)
    if evaluations is not None and evaluation not in evaluations:
        skipped = f"and this is `{evaluation}`: it is skipped"
        problems.notice(f"{label} is for the evaluation {listing(evaluations)}, {skipped}", place)
        return
    in_scope = []
    for key in specifications or tasks:
        if key in tasks:
            in_scope.append(tasks[key])
        elif evaluations is None or len(evaluations) == 1:
            # If the rule is for several evaluations, another one may define it.
            message = f"{label} names the task specification `{key}`, which is not defined"
            hint = advise(key, tasks, "task specifications")
            problems.add("E113", message, place, hint)
    if not in_scope:
        return
    definition = read_definition(rule["definition"])
    for error in definition.find_errors(label, in_scope):
        problems.add(error.code, error.message, place, error.hint)


def build_policies(
    node: Node | None,
    *,
    config: Config,
    base: Path,
) -> tuple[Policies, Places]:
    """Return the policies of a list, or of a single mapping; report and leave out invalid ones.

    `base` is the folder for relative paths that do not come from a file.
    """
    if node is None or node.is_null:
        return (), {}
    node = config.fill(node, ("policies",))
    entries = node.items if node.is_list else (node,)
    valid = []
    for number, entry in enumerate(entries, start=1):
        name = "the policy"
        if len(entries) > 1:
            name = f"policy {number}"
        fields = validate_node(PolicyFields, entry, name)
        if fields is not None:
            valid.append((entry, fields))
    nodes = [(entry, "policy") for entry, _ in valid]
    keys = assign_keys(nodes, "policy", "in the run file")
    policies = []
    places: dict[tuple[str, str], Place] = {}
    for (entry, fields), key in zip(valid, keys, strict=True):
        rules = []
        nodes = []
        for rule_node in entry.at("rules").items:
            rule = _build_rule(rule_node, base)
            if rule is None:
                continue
            rules.append(rule)
            nodes.append((rule_node, rule["key"]))
            places[key, rule["key"]] = rule_node.at("definition").place
        assign_keys(nodes, "rule", f"in policy `{key}`")
        policy = _dump_fields(fields, key)
        policy["rules"] = rules
        policies.append(policy)
    return tuple(policies), places


def _build_rule(node: Node, base: Path) -> Json | None:
    fields = validate_node(RuleFields, node, "the rule")
    definition_node = node.entries.get("definition")
    if definition_node is None:
        return None
    definition = _build_definition(definition_node, base)
    if fields is None or definition is None:
        return None
    rule = _dump_fields(fields, fields.key)
    rule["definition"] = _dump(definition)
    rule["scope"] = rule.get("scope") or EVERYTHING
    return rule


def _dump_fields(fields: PolicyFields | RuleFields, key: str) -> Json:
    values = fields.model_dump(exclude_none=True)
    return {"key": key, "display_name": key, **values}


def _dump(definition: Rule) -> Json:
    fields: Json = {"type": definition.type}
    for name, value in asdict(definition).items():
        if value is not None:
            fields[name] = value
    return fields


def _build_definition(node: Node, base: Path) -> Rule | None:
    operator = node.field("operator")
    if operator.style in {">", "|"} and RULE.choose(node):
        hint = "YAML reads `>` and `|` as the beginning of a text block: "
        hint += 'write the operator in quotes, `">="`'
        operator.report("E108", "`operator` is not in quotes", hint)
        return None
    definition: Rule | None
    _, definition = RULE.read(node)
    if not isinstance(definition, NotWorse) or definition.baseline is None:
        return definition
    place = node.at("baseline").place
    try:
        baseline = resolve_stated(definition.baseline, place, base)
    except SpecError as error:
        node.problems.report(error)
        return None
    return replace(definition, baseline=str(baseline))


# From options


def _set_baseline(policies: Policies, baseline: str) -> bool:
    """Set the caller's baseline in every rule that compares with one; return whether any does."""
    has_comparison = False
    for _, rule in _list_rules(policies):
        definition = rule["definition"]
        if definition["type"] == NotWorse.type:
            definition["baseline"] = baseline
            has_comparison = True
    return has_comparison


def _add_options(
    policies: Policies,
    places: Places,
    overrides: Options,
) -> tuple[Policies, Places]:
    """Add the rules of `--fail-under` and `--not-worse-than`, replacing those of a stored run.

    `--baseline` becomes a rule too, unless one already compares with a baseline.
    """
    definitions: dict[str, Rule] = {}
    if overrides.fail_under is not None:
        threshold = _read_threshold(str(overrides.fail_under))
        definitions["fail_under"] = Threshold(
            operator=">=",
            threshold=threshold,
        )
    if overrides.baseline is not None:
        baseline = name_lasting(overrides.baseline)
        if not _set_baseline(policies, baseline):
            definitions["baseline"] = NotWorse(baseline)
    if overrides.not_worse_than is not None:
        baseline = name_lasting(overrides.not_worse_than)
        definitions["not_worse_than"] = NotWorse(baseline)
    if not definitions:
        return policies, places
    rules = {}
    kept = []
    for policy in policies:
        if policy["key"] != OPTIONS:
            kept.append(policy)
            continue
        for rule in policy["rules"]:
            rules[rule["key"]] = rule
    places = dict(places)
    for key, definition in definitions.items():
        rules[key] = {
            "key": key,
            "display_name": key,
            "definition": _dump(definition),
            "scope": EVERYTHING,
        }
        flag = key.replace("_", "-")
        places[OPTIONS, key] = Place(file=f"--{flag}")
    options = {
        "key": OPTIONS,
        "display_name": "Options",
        "rules": list(rules.values()),
    }
    return (*kept, options), places


def _read_threshold(text: str) -> float:
    """Return the number of `--fail-under`."""
    try:
        return read_fraction(text)
    except ValueError:
        message = f"`--fail-under {text}` is not a number"
        hint = "write `--fail-under 0.8` or `--fail-under 80%`"
        raise SpecError("E119", message, hint=hint) from None


# Rules of policies


def _list_rules(policies: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """Yield each rule with the key of its policy."""
    for policy in policies:
        for rule in policy["rules"]:
            yield policy["key"], rule


def _read_scope(rule: Json) -> tuple[Keys, Keys]:
    """Return the keys of the evaluations and of the task specifications that a rule applies to.

    None means all.
    """
    scope = rule["scope"]
    if scope == EVERYTHING:
        return None, None
    return scope.get("evaluation_keys"), scope.get("task_specification_keys")


def find_baseline_errors(
    policies: Sequence[Json],
    places: Places,
    evaluation: str,
) -> list[AnswerkeyError]:
    """Return an error for every baseline in an evaluation's rules that cannot be used."""
    errors: list[AnswerkeyError] = []
    for policy, rule in _list_rules(policies):
        baseline = rule["definition"].get("baseline")
        evaluations, _ = _read_scope(rule)
        is_in_scope = evaluations is None or evaluation in evaluations
        if baseline is None or not is_in_scope:
            continue
        place = places.get((policy, rule["key"]), Place())
        if not place.file:
            place = Place(file=baseline)
        label = f"the baseline of rule `{rule['key']}`"
        try:
            status = load_run(baseline).status
        except RunError as error:
            message = f"{label} cannot be read: {error.message}"
            hint = "name the folder of a run, relative to the file that states it, "
            hint += "or give `--baseline RUN`"
            errors.append(RunError(error.code, message, where=place, hint=hint))
            continue
        if status != "complete":
            hint = f"`answerkey show {baseline}` says what is missing, and how to continue"
            message = f"{label} is {status}: `{baseline}`"
            errors.append(RunError("E508", message, where=place, hint=hint))
    return errors


def resolve_policies(
    tasks: Mapping[str, Task],
    evaluation: str,
    overrides: Options,
    *,
    stored: Sequence[object] = (),
) -> tuple[Policies, list[Notice]]:
    """Return the caller's policies, or else the stored ones, for tasks that are already loaded.

    All errors are raised together. A missing stored baseline is not an error: its rule stays
    undecided.
    """
    problems = ProblemList()
    folder = Path()
    if isinstance(overrides.policies, str | Path):
        folder = Path(overrides.policies).parent
    project = Project(folder, overrides, problems)
    if overrides.policies is not None:
        project = Project.open(folder, overrides, problems)
    node = from_plain(stored, Place(), problems)
    policies, places = plan_policies(project, evaluation, tasks, node)
    errors = sort_errors(problems.errors)
    if overrides.states_gates:
        errors += find_baseline_errors(policies, places, evaluation)
    raise_all(errors)
    return policies, problems.notices


# Decisions


def decide_gates(run: Run, policies: Sequence[Json]) -> list[Json]:
    """Return the entry `gates` of `run.json`; gates of an incomplete run stay undecided."""
    gates = []
    for policy, rule in _list_rules(policies):
        gates.append(_decide(run, policy, rule))
    return describe_gates(gates)


def _decide(run: Run, policy: str, rule: Json) -> Gate:
    gate = make_undecided_gate(policy, rule, NOT_COMPLETE)
    evaluations, specifications = _read_scope(rule)
    if evaluations is not None and run.key not in evaluations:
        note = f"it is for the evaluation {listing(evaluations)}, and this is `{run.key}`"
        return replace(gate, status=GateStatus.SKIPPED, note=note)
    in_scope = specifications or list(run.tasks)
    keys = [key for key in run.tasks if key in in_scope]
    if run.tasks and not keys:
        note = f"it is for other tasks: {listing(in_scope)}"
        return replace(gate, status=GateStatus.SKIPPED, note=note)
    if run.status != "complete":
        return gate
    definition = read_definition(rule["definition"])
    checks = definition.check(run, keys)
    status = find_worst_status(check.status for check in checks)
    if status is None:
        note = "no task in its scope has such a value"
        return replace(gate, status=GateStatus.FAIL, note=note)
    return replace(
        gate,
        status=status,
        checks=tuple(checks),
        note=None,
    )


def gate(
    run: Run,
    policies: str | Path | Mapping[str, object] | Sequence[object] | None = None,
    baseline: Run | str | RunPlace | None = None,
    *,
    fail_under: float | str | None = None,
    not_worse_than: str | Path | None = None,
) -> Run:
    """Return a run with its gates decided again, by its own policies or by the given ones.

    The run folder is not changed.
    """
    path = baseline.path if isinstance(baseline, Run) else baseline
    overrides = Options(
        policies=policies,
        baseline=None if path is None else str(path),
        fail_under=fail_under,
        not_worse_than=not_worse_than,
    )
    tasks = {}
    for key, task_run in run.tasks.items():
        tasks[key] = task_from_source(task_run.source["task"])
    chosen, _ = resolve_policies(
        tasks,
        run.key,
        overrides,
        stored=run.manifest.get("policies") or (),
    )
    manifest = {**run.manifest, "gates": decide_gates(run, chosen)}
    if chosen:
        manifest["policies"] = list(chosen)
    return replace(run, manifest=manifest)
