"""A run file, or a task file with what the caller adds, becomes a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from answerkey.datasets import Selection, name_lasting
from answerkey.errors import Place, listing, suggest
from answerkey.models import ModelConfig
from answerkey.spec.config import Config, given_by_caller, read_parameters, resolve_config
from answerkey.spec.definitions import (
    Definitions,
    check_named,
    fill_open,
    find_dataset,
    find_model,
    open_given_dataset,
    read_definitions,
)
from answerkey.spec.evaluations import (
    SELECTION,
    Wish,
    read_evaluation,
    read_run_config,
    resolve_own_config,
    wish_every_task,
)
from answerkey.spec.findings import Findings
from answerkey.spec.judges import find_judges
from answerkey.spec.keys import assign_keys
from answerkey.spec.model_choice import Choice
from answerkey.spec.nodes import MapNode, Node, is_null, key_of
from answerkey.spec.opening import Project
from answerkey.spec.plans import Overrides, Plan, Specification
from answerkey.spec.policies import Policy, name_baseline
from answerkey.spec.policy_building import build_policies, read_policies
from answerkey.spec.policy_checking import check_policies
from answerkey.spec.ready_made import ReadyMade
from answerkey.spec.ready_plans import adopt
from answerkey.spec.shapes import RunFields
from answerkey.spec.sources import DatasetSpec
from answerkey.spec.task_building import build_task
from answerkey.spec.tasks import Task
from answerkey.spec.trials import override_trials
from answerkey.spec.validation import validate_node
from answerkey.spec.variants import spread_wishes


def plan_task(project: Project, node: MapNode) -> Plan | None:
    """Return the plan of a task file: one specification, on the dataset that the caller names."""
    known = Definitions(project)
    known.given_dataset = open_given_dataset(known)
    key = key_of(node) or "task"
    known.tasks[key] = node
    wish = Wish(key, node, given_by_caller(known.overrides.config), place=node.place)
    specifications = _specify(spread_wishes([wish], known), known)
    if not specifications:
        return None
    only = specifications[0]
    return Plan(
        key=only.task.key,
        specifications=tuple(specifications),
        project=project.folder,
        file=node.place.file or "",
        display_name=only.task.display_name,
        description=only.task.description,
        policies=_gate(project, only.task.key, specifications, None, Config()),
    )


def plan_ready_made(project: Project, ready: ReadyMade) -> Plan | None:
    """Return the plan of a ready-made task, on its dataset or on files that the caller names."""
    known = Definitions(project)
    given = adopt(ready, given_by_caller(known.overrides.config), known)
    known.given_dataset = open_given_dataset(known)
    wish = Wish(ready.name, ready.task, given, place=ready.task.place)
    specifications = _specify([wish], known)
    if not specifications:
        return None
    return Plan(
        key=ready.name,
        specifications=tuple(specifications),
        project=project.folder,
        file=ready.task.place.file or "",
        display_name=ready.about.title,
        description=ready.about.summary,
        policies=_gate(project, ready.name, specifications, None, Config()),
    )


def plan_run(project: Project, node: MapNode) -> Plan | None:
    """Return the plan of a run file."""
    findings = project.findings
    validate_node(RunFields, node, findings, name="the run file")
    known = Definitions(project)
    read_definitions(node, known)
    known.given_dataset = open_given_dataset(known)
    base = read_run_config(node.get("run_config"), findings)
    evaluation = node.get("evaluation")
    if evaluation is not None and not is_null(evaluation):
        wishes, fields = read_evaluation(evaluation, node, base, known)
    else:
        wishes, fields = wish_every_task(node, base, known), None
    _look_at_unused(wishes, known)
    wishes = spread_wishes([_set_trials(wish, node, base) for wish in wishes], known)
    specifications = _specify(wishes, known)
    key = fields.key if fields else Path(node.place.file or "run.yaml").resolve().parent.name or "run"
    return Plan(
        key=key,
        specifications=tuple(specifications),
        project=project.folder,
        file=node.place.file or "",
        display_name=fields.display_name if fields else None,
        description=fields.description if fields else None,
        cache_policy=cast("str | None", base.get("cache_policy", fields.cache_policy if fields else None)),
        policies=_gate(
            project,
            key,
            specifications if len(specifications) == len(wishes) else (),
            node.get("policies"),
            _find_config(evaluation, node, known),
        ),
    )


def _find_config(evaluation: Node | None, run: MapNode, known: Definitions) -> Config:
    """Return the config of the evaluation, whose mistakes have been reported."""
    if not isinstance(evaluation, MapNode):
        return Config()
    return resolve_own_config(evaluation, run, known, Findings())[0]


def _gate(
    project: Project, key: str, specifications: Sequence[Specification], node: Node | None, config: Config
) -> tuple[Policy, ...]:
    """Return the policies of a run: the caller's, else the file's, held against what is to be run."""
    overrides, findings = project.overrides, project.findings
    if overrides.policies is not None:
        policies = read_policies(overrides.policies, project, config)
    else:
        policies = build_policies(node, findings, config=config, base=project.folder)
    baseline = None if overrides.baseline is None else name_lasting(overrides.baseline)
    tasks = {one.key: one.task for one in specifications}
    if tasks:
        check_policies(policies, tasks, key, findings)
    return name_baseline(policies, baseline)


def _set_trials(wish: Wish, run: MapNode, base: Mapping[str, object]) -> Wish:
    """Return the wish with its task's trials as the run wants them: the specification, then `run_config`."""
    config = run.get("run_config")
    is_sound = isinstance(config, MapNode) and "trials_config" in base
    common = cast("MapNode", config).get("trials_config") if is_sound else None
    return replace(wish, node=override_trials(wish.node, common, wish.trials))


def _look_at_unused(wishes: list[Wish], known: Definitions) -> None:
    used = {wish.task_key for wish in wishes}
    for key, node in known.tasks.items():
        if key not in used:
            build_task(node, {}, known.findings, needs_all=False)


def _specify(wishes: list[Wish], known: Definitions) -> list[Specification]:
    """Return the specifications that can be built."""
    wanted = [(wish.key, wish.task_key, wish.place) for wish in wishes]
    keys = assign_keys(wanted, known.findings, what="task specification", within="in the evaluation")
    for wish in wishes:
        _check_references(wish, keys, known)
    built = (_specify_one(wish, key, known) for wish, key in zip(wishes, keys, strict=True))
    return [one for one in built if one is not None]


def _check_references(wish: Wish, keys: list[str], known: Definitions) -> None:
    """Report `task_result` parameters that name no specification of this evaluation."""
    parameters = read_parameters(wish.node.get("config_spec"), Findings())
    config = resolve_config(parameters, wish.given, Findings(), place=wish.place)
    for name, key in config.of_type("task_result").items():
        if key not in keys:
            hint = suggest(key, keys) or f"task specifications: {listing(keys)}"
            message = f"config value `{name}` names the task specification `{key}`, which is not defined"
            known.findings.add("E113", message, config.places.get(name, wish.place), hint)


def _specify_one(wish: Wish, key: str, known: Definitions) -> Specification | None:
    parameters = read_parameters(wish.node.get("config_spec"), Findings())
    task = build_task(wish.node, fill_open(parameters, wish.given, known), known.findings)
    if task is None:
        return None
    config = Config(parameters, task.config, task.config_places)
    check_named(config, known)
    dataset = _dataset_of(task, known)
    model_key, model = _model_of(task, wish, known)
    examples = _examples_of(task, dataset, known)
    judges = find_judges(task, known)
    if dataset is None:
        return None
    return Specification(
        key=key,
        task=task,
        dataset=dataset,
        display_name=wish.display_name,
        model=model,
        model_key=model_key,
        model_name=_name_model(wish, known),
        selection=_select(wish.selection, known.overrides),
        num_runs=wish.num_runs,
        examples=examples,
        judges=judges,
        variant=wish.variant,
        completions=_find_recorded(task, wish, known),
    )


def _name_model(wish: Wish, known: Definitions) -> str | None:
    """Return the name of the model that the file names, as its definition has it."""
    found = known.models.get(wish.model_key or "")
    return wish.model_key if found is None else found.title


def _find_recorded(task: Task, wish: Wish, known: Definitions) -> Path | str | None:
    """Return the recorded completions that the file names; a model that the caller names is asked instead."""
    is_asked = task.solver is not None and task.solver.needs_model and known.overrides.model is not None
    return None if is_asked else wish.completions


def _select(stated: Mapping[str, object], overrides: Overrides) -> Selection:
    chosen = {name: value for name, value in stated.items() if name in SELECTION}
    chosen |= {name: value for name in SELECTION if (value := getattr(overrides, name)) is not None}
    return Selection(**chosen)  # type: ignore[arg-type]  # the names were validated as the fields of Selection


def _dataset_of(task: Task, known: Definitions) -> DatasetSpec | None:
    if known.overrides.dataset is not None:
        return known.given_dataset  # one that could not be read has been reported
    place = task.place("definition", "dataset")
    if task.dataset_key is not None:
        return find_dataset(task.dataset_key, known, place)
    if len(known.datasets) == 1:
        return next(iter(known.datasets.values()))
    hint = "give one with `--dataset FILE`"
    if known.datasets:
        hint = f"name one in `definition.dataset.key` (there: {listing(known.datasets)}), or {hint}"
    if "datasets" not in known.unread:
        known.findings.add("E119", f"task `{task.key}` names no dataset", task.place("definition"), hint)
    return None


def _examples_of(task: Task, dataset: DatasetSpec | None, known: Definitions) -> DatasetSpec | None:
    wanted = getattr(task.solver, "examples", None)
    if wanted is None:
        return None
    if wanted.dataset == task.dataset_key:
        return dataset
    return find_dataset(wanted.dataset, known, task.place("definition", "solver", "examples", "dataset"))


def _model_of(task: Task, wish: Wish, known: Definitions) -> tuple[str | None, str | ModelConfig | None]:
    """Return the model's key, and how it is opened when it is to be asked."""
    reference = known.overrides.model or wish.model_key
    if reference is None:
        return None, None
    is_callers = known.overrides.model is not None
    place = Place(file="--model") if is_callers else wish.model_place or wish.place
    choice = Choice(reference, place, is_callers=is_callers, generation=wish.generation)
    recorded = known.overrides.completions or _find_recorded(task, wish, known)
    is_asked = task.solver is not None and task.solver.needs_model and recorded is None
    return reference, find_model(choice, known, is_asked=is_asked)
