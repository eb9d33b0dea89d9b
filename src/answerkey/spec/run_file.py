"""Build a plan from a run file: each task specification becomes a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from answerkey.datasets.dataset import Selection
from answerkey.datasets.tables import DataTable
from answerkey.models.config import CachePolicy
from answerkey.spec import definitions
from answerkey.spec.config import Config, Settings, list_declared, refuse_config, report_unknown
from answerkey.spec.job import Job, Plan, Task
from answerkey.spec.job_builder import (
    add_policies,
    build_job,
    build_jobs,
    check_references,
    list_variants,
    open_given_dataset,
    resolve,
)
from answerkey.spec.models import GenerationFields
from answerkey.spec.nodes import Json, Location, Node, with_key
from answerkey.spec.project import Project
from answerkey.spec.shapes import (
    OLD,
    Count,
    NamedByFile,
    part,
)
from answerkey.spec.sources import resolve_stated
from answerkey.spec.trials import TrialsConfigFields, override_trials
from answerkey.spec.validation import (
    Fields,
    Key,
    Text,
    Whole,
    assign_keys,
    replace_old_names,
    validate_node,
)
from answerkey.spec.variants import BASE

#: A reference to a model or an adapter may also contain `$`; a built-in model is named with its
#: parameters.
MODEL_REFERENCE = r"^[a-zA-Z0-9_\-$]+([/:].+)?$"
ModelReference = Annotated[Text, Field(pattern=MODEL_REFERENCE, max_length=1000)]
Subsampling = Literal["head", "random"]


class RepeatabilityFields(Fields):
    """How often a task specification is run."""

    num_runs: Annotated[Whole, Field(ge=2)]


class SelectionFields(Fields):
    """Which rows of the dataset are used."""

    num_samples: Count | None = None
    subsampling: Subsampling | None = None
    seed: Whole | None = None
    stratify_by: Text | None = None


class SpecificationFields(SelectionFields):
    """One task of an evaluation with its config and model."""

    type: Literal["standard"] = "standard"
    key: Key | None = None
    display_name: Text | None = None
    task_key: Key
    task_config: Json | None = None
    model_key: ModelReference | None = None
    completions: Text | None = None
    generation: GenerationFields | None = None
    extra_body: Json | None = None
    trials: Annotated[Any, part("trials")] | None = None
    repeatability: RepeatabilityFields | None = None


class EvaluationFields(NamedByFile):
    """The tasks that a run evaluates."""

    config_spec: list[Annotated[Any, part("parameter")]] | None = None
    task_specifications: list[Annotated[Any, part("specification")]]
    mode: Literal["debug", "full"] | None = Field(default=None, json_schema_extra=OLD)
    num_samples: Count | None = Field(default=None, json_schema_extra=OLD)
    subsampling: Subsampling | None = Field(default=None, json_schema_extra=OLD)
    cache_policy: CachePolicy | None = Field(default=None, json_schema_extra=OLD)


class RunConfigFields(SelectionFields):
    """The settings of a run."""

    cache_policy: CachePolicy | None = None
    trials_config: TrialsConfigFields | None = None


Policy = Annotated[Any, part("policy")]


class RunFields(Fields):
    """A run file."""

    secrets: Json | list[Any] | None = None
    model_adapters: list[Annotated[Any, part("adapter")]] | None = None
    models: list[Annotated[Any, part("model")]] | None = None
    datasets: list[Annotated[Any, part("dataset")]] | None = None
    tasks: list[Annotated[Any, part("task")]] | None = None
    evaluation: Annotated[Any, part("evaluation")] | None = None
    config: Json | None = None
    run_config: Annotated[Any, part("run_config")] | None = None
    policies: list[Policy] | Policy | None = None


_SELECTION = set(SelectionFields.model_fields)
_WITHIN = "in the evaluation"
#: The settings of a run that apply to all its tasks.
Common = Mapping[str, Any]


def plan_run(project: Project, node: Node, callers: Settings) -> Plan:
    """Return the plan of a run file."""
    validate_node(RunFields, node, "the run file")
    definitions.define(project, node)
    open_given_dataset(project)
    settings = {**node.field("config").entries, **callers}
    fields, config, entries = _read_evaluation(project, node.field("evaluation"), settings)
    for_tasks = dict(settings)
    for name in config.parameters:
        for_tasks.pop(name, None)
    names = list(config.parameters)
    _check_tasks(project, entries, for_tasks, names)
    common: Json = {}
    if fields is not None:
        shared = {*_SELECTION, "cache_policy"}
        common = fields.model_dump(include=shared, exclude_none=True)
    common |= _read_run_config(node.field("run_config"))
    built = _list_jobs(project, entries, for_tasks, common)
    if fields is None:
        file = Path(node.place.file or "run.yaml")
        name = file.resolve().parent.name or "run"
        fields = EvaluationFields.model_construct(key=name)
    plan = Plan(
        key=fields.key,
        jobs=tuple(filter(None, built)),
        display_name=fields.display_name,
        cache_policy=common.get("cache_policy"),
    )
    policies = node.field("policies")
    if policies.is_null and not project.options.states_gates:
        return plan
    return add_policies(plan, project, policies, config, is_sound=None not in built)


def _check_tasks(
    project: Project,
    entries: Sequence[Node],
    settings: Settings,
    names: list[str],
) -> None:
    """Report config values that no task declares, and what is wrong with tasks that are not run.

    The evaluation declares `names`.
    """
    unused = dict(project.tasks)
    for entry in entries:
        key = str(entry.field("task_key").value)
        unused.pop(key, None)
        names += list_declared(definitions.find_task(project, key) or entry)
    if entries and not project.is_faulty:
        report_unknown(settings, names)
    for task in unused.values():
        definitions.check_unused_task(task)


def _read_run_config(node: Node) -> Json:
    """Return the settings of a run file for all its tasks, with `trials` as a node."""
    if node.is_null:
        return {}
    refuse_config(node)
    fields = validate_node(RunConfigFields, node, "`run_config`")
    if fields is None:
        return {}
    common = fields.model_dump(exclude_none=True)
    if common.pop("trials_config", None):
        common["trials"] = node.entries["trials_config"]
    return common


def _read_evaluation(
    project: Project,
    node: Node,
    settings: Settings,
) -> tuple[EvaluationFields | None, Config, list[Node]]:
    """Return the fields and the config of an evaluation, and its task specifications.

    A run without an evaluation runs every task.
    """
    config = Config()
    if node.is_null:
        entries = []
        for key, task in project.tasks.items():
            fields_of_task = {"task_key": task.changed(key)}
            entries.append(task.changed(fields_of_task))
        return None, config, entries
    node = with_key(replace_old_names(node, "evaluation"))
    if node.is_map:
        config = resolve(project, node, {}, settings)
        check_references(project, config, ())
        node = config.fill(node.without("config_spec"))
    fields = validate_node(EvaluationFields, node, "`evaluation`")
    return fields, config, list(node.field("task_specifications").items)


def _list_jobs(
    project: Project,
    entries: Sequence[Node],
    settings: Settings,
    common: Common,
) -> list[Job | None]:
    """Return the jobs of an evaluation; None for one that cannot be built.

    `settings` are config values for the tasks, `common` is what the run says of all of them.
    """
    candidates = []
    for entry in entries:
        task_key = str(entry.field("task_key").value)
        candidates.append((entry, task_key))
    keys = assign_keys(candidates, "task specification", _WITHIN)
    jobs: list[Job | None] = []
    for entry, key in zip(entries, keys, strict=True):
        jobs += _build_entry(project, entry, key, keys, settings, common)
    for job in filter(None, jobs):
        if job.variant and job.variant.key != BASE and job.key in keys:
            message = f"task specification key `{job.key}` is used twice {_WITHIN}"
            place = job.task.place("definition")
            project.problems.add("E114", message, place, "give each its own `key`")
    return jobs


def _build_entry(
    project: Project,
    entry: Node,
    key: str,
    keys: Sequence[str],
    settings: Settings,
    common: Common,
) -> list[Job | None]:
    """Return the job of one task specification, and those of its variants."""
    entry = replace_old_names(entry, "specification")
    written = entry
    if isinstance(entry.field("completions").value, DataTable):
        written = entry.without("completions")  # a table is in no file
    fields = validate_node(SpecificationFields, written, "the task specification")
    if fields is None:
        return [None]
    values: Settings = entry.field("task_config").entries
    node = project.tasks.get(fields.task_key)
    if node is None:
        node, values = definitions.open_task(project, entry, fields.task_key, values)
    if node is None:
        return [None]
    if "trials" in common or "trials" in entry.entries:
        shared = common.get("trials", Node(None))
        node = override_trials(node, shared, entry.field("trials"))
    is_stated = not entry.field("completions").is_null
    variants = list_variants(project, node, key, has_completions=is_stated)
    build = partial(_build_job, project, key, fields, entry, common)
    return build_jobs(project, variants, keys, values, settings, build)


def _build_job(
    project: Project,
    key: str,
    fields: SpecificationFields,
    entry: Node,
    common: Common,
    task: Task,
) -> Job | None:
    """Return the job of a task with what its specification says; None without a dataset."""
    completions: Location | DataTable | None = None
    table = entry.field("completions").value
    # The caller's model is called in place of the file's completions.
    is_called = task.needs_model and project.options.model is not None
    if isinstance(table, DataTable):
        completions = table
    elif fields.completions is not None and not is_called:
        place = entry.entries["completions"].place
        completions = resolve_stated(fields.completions, place, project.folder)
    generation = None
    if fields.generation is not None or fields.extra_body is not None:
        from answerkey.spec.models import build_generation

        generation = build_generation(fields.generation, fields.extra_body)
    job = build_job(
        project,
        key,
        task,
        model_key=fields.model_key,
        place=entry.key_place("model_key"),
        completions=completions,
        generation=generation,
    )
    if job is None:
        return None
    rows = {name: common[name] for name in _SELECTION & common.keys()}
    rows |= fields.model_dump(include=_SELECTION, exclude_none=True)
    selection = Selection(**rows)
    num_runs = 1
    if fields.repeatability is not None:
        num_runs = fields.repeatability.num_runs
    model_name = fields.model_key
    if model_name in project.models:
        model_name = project.models[model_name].title
    return replace(
        job,
        display_name=fields.display_name,
        model_name=model_name,
        selection=project.options.select(selection),
        num_runs=num_runs,
    )
