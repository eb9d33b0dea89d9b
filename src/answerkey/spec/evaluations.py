"""The evaluation of a run file: which tasks are to be run, with which config, model and rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from answerkey.datasets import is_stored, require_address
from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.models import Generation
from answerkey.spec.config import (
    Config,
    Given,
    given_by_caller,
    read_given,
    read_parameters,
    refuse_config,
    resolve_config,
)
from answerkey.spec.connections import build_generation
from answerkey.spec.definitions import Definitions, check_named, fill_open
from answerkey.spec.deprecations import carry_over
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, is_null, key_of, list_entries
from answerkey.spec.plans import Variant
from answerkey.spec.reader import resolve_path
from answerkey.spec.ready_plans import adopt, find_among_ready_made
from answerkey.spec.shapes import EvaluationFields, RunConfigFields, SpecificationFields
from answerkey.spec.validation import validate_node


@dataclass(frozen=True)
class Wish:
    """One specification as it is asked for, before its task is built."""

    task_key: str
    node: MapNode
    given: Mapping[str, Given]
    key: str | None = None
    display_name: str | None = None
    model_key: str | None = None
    model_place: Place | None = None
    completions: Path | str | None = None
    selection: Mapping[str, object] = field(default_factory=dict)
    generation: Generation = field(default_factory=Generation)
    trials: Node | None = None
    num_runs: int = 1
    place: Place = field(default_factory=Place)
    variant: Variant | None = None


SELECTION = {"num_samples", "subsampling", "seed", "stratify_by"}


def read_run_config(node: Node | None, findings: Findings) -> dict[str, object]:
    """Return the values of `run_config` that are given."""
    if node is None or is_null(node):
        return {}
    refuse_config(node, findings)
    fields = validate_node(RunConfigFields, node, findings, name="`run_config`")
    return {} if fields is None else fields.model_dump(exclude_none=True)


def read_evaluation(
    node: Node, run: MapNode, base: Mapping[str, object], known: Definitions
) -> tuple[list[Wish], EvaluationFields | None]:
    """Return the tasks that an evaluation asks for, and its own fields."""
    findings = known.findings
    if not isinstance(node, MapNode):
        validate_node(EvaluationFields, node, findings, name="`evaluation`")
        return [], None
    node = cast("MapNode", carry_over(node, "evaluation", findings))
    config, for_tasks = resolve_own_config(node, run, known, findings)
    check_named(config, known)
    filled = cast("MapNode", config.fill(node.without("config_spec"), findings))
    fields = validate_node(EvaluationFields, filled, findings, name="`evaluation`")
    era = {} if fields is None else {"num_samples": fields.num_samples, "subsampling": fields.subsampling}
    common = {key: value for key, value in era.items() if value is not None} | dict(base)
    wishes = [
        wish
        for entry in list_entries(filled, "task_specifications")
        if (wish := _read_wish(entry, common, for_tasks, known))
    ]
    _refuse_unknown_config(for_tasks, config, wishes, known)
    return wishes, fields


def resolve_own_config(
    node: MapNode, run: MapNode, known: Definitions, findings: Findings
) -> tuple[Config, dict[str, Given]]:
    """Return the evaluation's own config, and the values that are left for its tasks."""
    parameters = read_parameters(node.get("config_spec"), findings)
    stated = {
        **read_given(run.get("config"), findings, name="config"),
        **given_by_caller(known.overrides.config),
    }
    own = {name: one for name, one in stated.items() if name in parameters}
    for_tasks = {name: one for name, one in stated.items() if name not in parameters}
    config = resolve_config(parameters, fill_open(parameters, own, known), findings, place=node.place)
    return config, for_tasks


def _read_wish(
    entry: Node, common: Mapping[str, object], for_tasks: Mapping[str, Given], known: Definitions
) -> Wish | None:
    findings = known.findings
    entry = carry_over(entry, "specification", findings)
    fields = validate_node(SpecificationFields, entry, findings, name="the task specification")
    if fields is None or not isinstance(entry, MapNode):
        return None
    given = read_given(entry.get("task_config"), findings, name="task_config")
    ready = None if fields.task_key in known.own_tasks else find_among_ready_made(fields.task_key)
    if ready is not None:
        given = adopt(ready, given, known)
    node = known.tasks.get(fields.task_key)
    if node is None and ("tasks" in known.unread or "<<" in fields.task_key):
        return None
    if node is None:
        hint = suggest(fields.task_key, known.tasks) or f"tasks: {listing(known.tasks)}"
        findings.add(
            "E113", f"task `{fields.task_key}` is not defined", entry.entries["task_key"].place, hint
        )
        return None
    own = fields.model_dump(include=SELECTION, exclude_none=True)
    return Wish(
        task_key=fields.task_key,
        node=node,
        given={**given, **_declared(for_tasks, node)},
        key=fields.key,
        display_name=fields.display_name,
        model_key=fields.model_key,
        model_place=entry.key_place("model_key"),
        completions=_find_completions(entry, fields.completions, known),
        selection={**common, **own},
        generation=build_generation(fields.generation),
        trials=entry.get("trials"),
        num_runs=fields.repeatability.num_runs if fields.repeatability else 1,
        place=entry.place,
    )


def _find_completions(entry: MapNode, stated: str | None, known: Definitions) -> Path | str | None:
    """Return the file of recorded completions, or its address on shared storage.

    A relative path is relative to the file that states it.
    """
    if stated is None:
        return None
    place = entry.entries["completions"].place
    folder = Path(place.file).parent if place.file else known.project.folder
    try:
        return require_address(stated, place) if is_stored(stated) else resolve_path(folder / stated, place)
    except SpecError as error:
        known.findings.report(error)
        return None


def _declared(given: Mapping[str, Given], task: MapNode) -> dict[str, Given]:
    """Return the values whose names a task declares."""
    names = {key_of(entry) for entry in list_entries(task, "config_spec")}
    return {name: one for name, one in given.items() if name in names}


def _refuse_unknown_config(
    given: Mapping[str, Given], config: Config, wishes: list[Wish], known: Definitions
) -> None:
    names = {str(key_of(entry)) for wish in wishes for entry in list_entries(wish.node, "config_spec")}
    names |= set(config.parameters)
    for name, one in given.items() if "tasks" not in known.unread else ():
        if name not in names:
            hint = suggest(name, names) or f"names: {listing(sorted(names))}"
            known.findings.add("E110", f"unknown config name `{name}`", one.place, hint)


def wish_every_task(run: MapNode, base: Mapping[str, object], known: Definitions) -> list[Wish]:
    """Return one wish per task, for a run file without an evaluation."""
    findings = known.findings
    stated = {
        **read_given(run.get("config"), findings, name="config"),
        **given_by_caller(known.overrides.config),
    }
    wishes = [
        Wish(key, node, _declared(stated, node), selection=base, place=node.place)
        for key, node in known.tasks.items()
    ]
    _refuse_unknown_config(stated, Config(), wishes, known)
    return wishes
