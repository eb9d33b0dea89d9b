"""A task's tree becomes a Task; every mistake on the way is reported, and the rest is built."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, cast

from answerkey.errors import Place, SpecError
from answerkey.metrics import Trials
from answerkey.scorers import Action
from answerkey.solvers import SOLVERS, Solver
from answerkey.spec.config import Config, Given, read_parameters, resolve_config
from answerkey.spec.deprecations import carry_over
from answerkey.spec.designs import build_design
from answerkey.spec.fields import Fields, extend_fields, fields_of
from answerkey.spec.findings import Findings
from answerkey.spec.keys import assign_keys
from answerkey.spec.nodes import (
    ListNode,
    MapNode,
    Node,
    Path,
    Places,
    ScalarNode,
    find_node,
    from_plain,
    is_null,
    key_of,
    list_entries,
)
from answerkey.spec.refusals import choose_type
from answerkey.spec.robustness import Ordered, build_choice_order, check_ranking, order_steps
from answerkey.spec.score_references import check_score_references
from answerkey.spec.scoring import BuiltStep, build_scoring, report_template, try_build
from answerkey.spec.shapes import ActionFields, Definition, DesignFields, TaskFields
from answerkey.spec.tasks import Task, hash_definition
from answerkey.spec.trials import build_trials, check_score_names
from answerkey.spec.validation import validate_node
from answerkey.templates import ACTION_NAMES, RowFilter, find_whole

_ORDERED = frozenset(
    {"equals", "not_equals", "greater_than", "less_than", "greater_or_equal", "less_or_equal"}
)


@cache
def solver_model(kind: str) -> type[Fields]:
    """Return the model of a solver's YAML."""
    own = fields_of(SOLVERS[kind])
    return extend_fields(own, f"{own.__name__}Fields", Fields, type=(Literal[kind], ...))


@dataclass(frozen=True)
class _Defined:
    """What a definition says."""

    fields: Any
    solver: Solver | None
    solver_fields: Fields | None
    steps: list[BuiltStep]
    actions: list[tuple[Action, Fields]]
    trials: Trials | None
    ordered: Ordered | None = None


def build_task(
    node: Node, given: Mapping[str, Given], findings: Findings, *, needs_all: bool = True
) -> Task | None:
    """Return the task with config values filled in; None when it cannot be built at all.

    Without `needs_all`, a config value that is not given is no mistake: the task is only looked at.
    """
    if not isinstance(node, MapNode):
        if not node.is_broken:
            findings.add("E108", "a task must be a mapping", node.place, "it begins with `key: …`")
        return None
    parameters = read_parameters(node.get("config_spec"), findings)
    config = resolve_config(parameters, given, findings, place=node.place, needs_all=needs_all)
    current = cast("MapNode", carry_over(node.without("config_spec"), "task", findings))
    unfilled = _spell_out_dataset(current)
    return _build(cast("MapNode", config.fill(unfilled, findings)), config, findings)


def _spell_out_dataset(node: MapNode) -> MapNode:
    """Return a task with `dataset: << config.x >>` written as `dataset: {key: << config.x >>}`."""
    definition = node.get("definition")
    choice = definition.get("dataset") if isinstance(definition, MapNode) else None
    if not isinstance(definition, MapNode) or not isinstance(choice, ScalarNode):
        return node
    if not isinstance(choice.value, str) or find_whole(choice.value) is None:
        return node
    spelled = MapNode({"key": choice}, choice.place, {"key": choice.place})
    return node.having("definition", definition.having("dataset", spelled))


def task_from_source(source: Mapping[str, object]) -> Task:
    """Return the task that `Task.source` describes; raises SpecError when it is none."""
    findings = Findings()
    place = Place(file=str(source["file"]) if source.get("file") else None)
    root = from_plain({key: value for key, value in source.items() if key not in _BESIDE}, place)
    config = Config(values=cast("dict[str, object]", source.get("config") or {}))
    task = _build(
        cast("MapNode", root), config, findings, columns=cast("dict[str, str]", source.get("dataset_columns"))
    )
    if task is None or findings.errors:
        raise (
            findings.errors[0]
            if findings.errors
            else SpecError("E108", "the stored task cannot be read", where=place)
        )
    return task


_BESIDE = frozenset({"config", "dataset_columns", "file"})


def _build(
    node: MapNode, config: Config, findings: Findings, columns: Mapping[str, str] | None = None
) -> Task | None:
    fields = validate_node(TaskFields, node, findings, name="the task") or _stand_in(node)
    definition = node.get("definition")
    defined = _read_definition(definition, findings) if definition is not None else None
    if defined is None or not defined.steps:
        return None
    columns = config.of_type("dataset_column") if columns is None else columns
    source = _describe(fields, defined) | {
        "config": dict(config.values),
        "dataset_columns": dict(columns),
        "file": node.place.file,
    }
    source = json.loads(json.dumps(source, ensure_ascii=False, default=str))
    return Task(
        key=fields.key,
        display_name=fields.display_name,
        description=fields.description,
        long_description=fields.long_description,
        tags=fields.tags,
        config=config.values,
        dataset_columns=columns,
        dataset_key=defined.fields.dataset.key if defined.fields.dataset else None,
        solver=defined.solver,
        scoring=tuple(built.step for built in defined.steps),
        actions=tuple(action for action, _ in defined.actions),
        trials=defined.trials,
        choice_order=defined.ordered[0] if defined.ordered else None,
        snippets=tuple(one for built in defined.steps for one in built.snippets),
        fingerprint=hash_definition(source["definition"]),
        source=source,
        file=node.place.file,
        places=Places(node),
        config_places=config.places,
    )


def _stand_in(node: MapNode) -> TaskFields:
    """Return names for a task whose own are missing or wrong, so that the rest can still be checked."""
    key = re.sub(r"[^a-zA-Z0-9_-]+", "-", key_of(node) or "task")[:250] or "task"
    return TaskFields(key=key, display_name=key, description="", definition=None)


def _describe(fields: TaskFields, defined: _Defined) -> dict[str, Any]:
    """Return the task as plain values, with every key given and every old name gone."""
    top = fields.model_dump(mode="json", exclude={"config_spec", "definition"}, exclude_none=True)
    definition: dict[str, object] = {"type": "benchmark_task"}
    if defined.fields.dataset:
        definition["dataset"] = {"key": defined.fields.dataset.key}
    if defined.solver_fields is not None:
        definition["solver"] = defined.solver_fields.model_dump(mode="json", exclude_none=True, fallback=str)
    definition["scorers"] = [built.source for built in defined.steps]
    if defined.trials is not None:
        definition["trials"] = asdict(defined.trials)
    if defined.ordered is not None:
        definition["choice_order"] = defined.ordered[1].model_dump(mode="json")
    definition |= defined.fields.model_dump(include=set(DesignFields.model_fields), exclude_none=True)
    if defined.actions:
        definition["actions"] = [
            {
                "key": action.key,
                "action": action.action,
                "filter": one.model_dump(mode="json", exclude_unset=True, fallback=str),
            }
            for action, one in defined.actions
        ]
    return {**top, "definition": definition}


def _read_definition(node: Node, findings: Findings) -> _Defined | None:
    node = carry_over(node, "definition", findings)
    if isinstance(node, MapNode) and (choice := node.get("dataset")) is not None:
        node = node.having("dataset", carry_over(choice, "dataset choice", findings))
    fields = validate_node(Definition, node, findings, name="`definition`")
    if not isinstance(node, MapNode):
        return None
    trials = build_trials(node.get("trials"), findings)
    steps = build_scoring(node.get("scorers"), findings, trials, build_design(fields))
    check_score_names(trials, [built.step for built in steps], node.entries.get("trials", node), findings)
    solver, solver_fields = build_solver(node.get("solver"), findings)
    actions = _build_actions(node.get("actions"), findings)
    ordered = build_choice_order(node.get("choice_order"), findings)
    steps = order_steps(node, ordered[0] if ordered else None, steps, solver, findings)
    check_ranking(node, steps, solver, findings)
    if len(steps) == len(list_entries(node, "scorers")):
        check_score_references(node, [built.step for built in steps], actions, findings)
    if fields is None:
        return None
    return _Defined(fields, solver, solver_fields, steps, actions, trials, ordered)


def build_solver(node: Node | None, findings: Findings) -> tuple[Solver | None, Fields | None]:
    """Return the solver of a definition and its fields; None when there is none or it cannot be built."""
    if node is None or is_null(node):
        return None, None
    found = choose_type(node, "solver", SOLVERS, findings)
    if found is None or not isinstance(node, MapNode):
        return None, None
    kind = str(cast("ScalarNode", node.entries["type"]).value)
    fields = validate_node(solver_model(kind), node, findings, name=f"solver `{kind}`")
    solver = cast("Solver | None", try_build(fields, node, findings)) if fields is not None else None
    if solver is None:
        return None, None
    for name, error in solver.compile_templates()[1]:
        report_template(error, find_node(node, _split_path(name))[0], findings)
    return solver, fields


def _split_path(name: str) -> Path:
    return tuple(int(step) if step.isdigit() else step for step in name.split("."))


def _build_actions(node: Node | None, findings: Findings) -> list[tuple[Action, Fields]]:
    built, wanted = [], []
    for index, entry in enumerate(node.entries if isinstance(node, ListNode) else ()):
        fields = validate_node(ActionFields, entry, findings, name=f"action {index + 1}")
        part = entry.get("filter") if isinstance(entry, MapNode) else None
        found = build_filter(part, findings, names=ACTION_NAMES) if part is not None else None
        if fields is not None and found is not None:
            built.append((Action(key=fields.key, filter=found[0], action=fields.action), found[1]))
            wanted.append((fields.key, fields.key, entry.place))
    assign_keys(wanted, findings, what="action", within="in the task")
    return built


def build_filter(
    node: Node, findings: Findings, *, names: tuple[str, ...]
) -> tuple[RowFilter, Fields] | None:
    """Return a row filter and its fields; its expression is compiled, and a missing `value` is a mistake.

    `names` are those that the expression sees.
    """
    fields = validate_node(fields_of(RowFilter), node, findings, name="the filter")
    if fields is None or not isinstance(node, MapNode):
        return None
    operator = str(getattr(fields, "op", ""))
    if operator in _ORDERED and "value" not in fields.model_fields_set:
        findings.add("E108", f"a filter with op `{operator}` needs `value`", node.place)
        return None
    if operator not in _ORDERED and "value" in fields.model_fields_set:
        findings.add("E108", f"a filter with op `{operator}` has no `value`", node.key_place("value"))
        return None
    condition = cast("RowFilter | None", try_build(fields, node, findings))
    if condition is None:
        return None
    try:
        condition.compile(names)
    except SpecError as error:
        report_template(error, node.entries["expression"], findings)
    return condition, fields
