"""Build jobs from a task and its variants, with dataset, model and judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from answerkey import features
from answerkey.datasets.dataset import Selection
from answerkey.datasets.tables import DataTable
from answerkey.errors import AnswerkeyError, Place, listing
from answerkey.models.config import Generation
from answerkey.spec import definitions
from answerkey.spec.config import Config, Settings, reads_config, resolve_config
from answerkey.spec.job import Job, ModelChoice, Plan, Task
from answerkey.spec.nodes import Location, Node, advise, with_key
from answerkey.spec.project import YAML_ENDINGS, Project
from answerkey.spec.sources import DatasetSpec, build_dataset, is_remote
from answerkey.spec.task import build_task

if TYPE_CHECKING:
    from answerkey.spec.variants import TaskNode

#: The names that scorers give to the models they call, with their places, by scorer key.
Judges = Mapping[str, tuple[str, Place]]


def resolve(
    project: Project,
    node: Node,
    settings: Settings,
    common: Settings | None = None,
) -> Config:
    """Return the config of a task or an evaluation.

    `--dataset` and `--model` are for parameters that have neither a value nor a default.
    """
    if not settings and not reads_config(node):
        return Config()
    fallbacks: dict[str, Node] = {}
    dataset = project.given_dataset
    if dataset is not None:
        place = Place(file="--dataset")
        fallbacks["dataset"] = Node(dataset.key, place)
    if project.options.model is not None:
        place = Place(file="--model")
        model = definitions.find_given_model(project)
        fallbacks["model"] = Node(model, place)
    return resolve_config(
        node,
        settings,
        common or {},
        fallbacks=fallbacks,
    )


def check_references(
    project: Project,
    config: Config,
    keys: Sequence[str],
) -> None:
    """Report `dataset`, `model` and `task_result` parameters that name nothing.

    `keys` are those of the task specifications.
    """
    for name, target in config.of_type("task_result").items():
        if target not in keys:
            message = f"config value `{name}`: task specification `{target}` is not defined"
            place = config.places[name]
            hint = advise(target, keys, "task specifications")
            project.problems.add("E113", message, place, hint)
    if project.given_dataset is None:
        for key, name in config.of_type("dataset").items():
            definitions.find_dataset(project, name, config.places[key])
    for key, name in config.of_type("model").items():
        definitions.find_model(project, name, config.places[key], None)


def list_variants(
    project: Project,
    task: Node,
    key: str,
    *,
    has_completions: bool = False,
) -> Iterable[TaskNode]:
    """Return a task, and the same task with another prompt for each of its `variants`.

    `has_completions`: the file names recorded completions; so may the caller.
    """
    if task.field("definition").field("variants").is_null:
        return [(task, None)]
    from answerkey.spec.variants import split_task

    is_recorded = has_completions or project.options.brings_completions
    return split_task(task, key, has_completions=is_recorded)


def build_jobs(
    project: Project,
    variants: Iterable[TaskNode],
    keys: Sequence[str],
    settings: Settings,
    common: Settings,
    build: Callable[[Task], Job | None],
) -> list[Job | None]:
    """Return the job that `build` makes of each variant of a task; None where it cannot be built.

    `settings` are config values for the task, and of `common` those that it declares. `keys` are
    those of the task specifications.
    """
    jobs = []
    for node, variant in variants:
        config = resolve(project, node, settings, common)
        task = build_task(node, config)
        job = None
        if task is not None:
            if config.is_read:
                check_references(project, config, keys)
            job = build(task)
        if job is not None and variant is not None:
            job = replace(job, key=variant.job_key, variant=variant)
        jobs.append(job)
    return jobs


def build_job(
    project: Project,
    key: str,
    task: Task,
    *,
    model_key: str | None = None,
    place: Place | None = None,
    completions: Location | DataTable | None = None,
    generation: Generation | None = None,
) -> Job | None:
    """Return a task with its dataset, model and judges; None without a dataset.

    `place` is where a file names the model.
    """
    options = project.options
    dataset = _choose_dataset(task, project)
    examples = getattr(task.solver, "examples", None)
    if examples is not None:
        examples = _choose_examples(examples.dataset, task, dataset, project)
    reference = model_key
    if options.model is not None:
        reference = definitions.find_given_model(project)
        place = Place(file="--model")
    model = None
    if reference is not None:
        chosen = generation or Generation()
        is_recorded = completions is not None or options.brings_completions
        model = definitions.find_model(
            project,
            reference,
            place or Place(),
            chosen if task.needs_model and not is_recorded else None,
        )
    judges = find_judges(project, list_judges(task))
    if dataset is None:
        return None
    return Job(
        key=key,
        task=task,
        dataset_spec=dataset,
        model_choice=model,
        model_key=reference,
        selection=options.select(Selection()),
        examples_spec=examples,
        judge_choices=judges,
        completions_from=completions,
    )


def list_judges(task: Task) -> Judges:
    """Return the model names of the scorers that call one, with their places, by scorer key."""
    judges = {}
    for step in task.scoring:
        if step.model_key is not None:
            place = task.place(*step.model_path)
            judges[step.key] = (step.model_key, place)
    return judges


def find_judges(project: Project, names: Judges) -> dict[str, ModelChoice]:
    """Return the model of each scorer that calls one, by the scorer's key; report mistakes."""
    judges: dict[str, ModelChoice] = {}
    generation = Generation()
    for key, (name, place) in names.items():
        model = definitions.find_model(project, name, place, generation)
        if model is not None:
            judges[key] = model
    return judges


def _choose_examples(
    name: str,
    task: Task,
    dataset: DatasetSpec | None,
    project: Project,
) -> DatasetSpec | None:
    """Return the dataset with this name from which a solver takes its examples."""
    if name == task.dataset_key:
        return dataset
    place = task.place("definition", "solver", "examples", "dataset")
    return definitions.find_dataset(project, name, place)


def open_given_dataset(project: Project) -> None:
    """Open what `--dataset` names: a key of the run file, a dataset file, data, or an address."""
    location = project.options.dataset
    if location is None:
        return
    if not isinstance(location, str | Path):
        project.given_dataset = DatasetSpec("samples", location)
        return
    path = Path(location)
    # A folder may be called like the benchmark whose files it has.
    is_raw_files = project.open_files is not None and path.exists()
    if str(location) in project.datasets and not is_raw_files:
        project.given_dataset = project.datasets[str(location)]
        return
    is_address = is_remote(location)
    try:
        if path.suffix.lower() in YAML_ENDINGS and not is_address:
            node = with_key(project.read(path, limit=path.parent))
            project.given_dataset = build_dataset(node, path.parent)
        elif is_address or path.exists():
            project.given_dataset = (project.open_files or DatasetSpec.of_path)(location)
        else:
            definitions.report_missing_file(project, path)
    except AnswerkeyError as error:
        project.problems.report(error)


def _choose_dataset(task: Task, project: Project) -> DatasetSpec | None:
    """Return the caller's dataset, or the task's, or the only one of the run file."""
    if project.options.dataset is not None:
        return project.given_dataset  # one that could not be read was reported
    datasets = project.datasets
    if task.dataset_key is not None:
        place = task.place("definition", "dataset")
        return definitions.find_dataset(project, task.dataset_key, place)
    if len(datasets) == 1:
        return next(iter(datasets.values()))
    if project.is_faulty:
        return None
    message = f"task `{task.key}` names no dataset"
    hint = "give one with `--dataset FILE`"
    if datasets:
        hint = f"name one in `definition.dataset.key` (there: {listing(datasets)}), or {hint}"
    place = task.place("definition")
    project.problems.add("E119", message, place, hint)
    return None


def add_policies(
    plan: Plan,
    project: Project,
    node: Node | None = None,
    config: Config | None = None,
    *,
    is_sound: bool = True,
) -> Plan:
    """Return a plan with its policies, the caller's or else the file's, checked against its tasks.

    They are not checked where a task could not be built.
    """
    tasks = {}
    if is_sound:
        tasks = {job.key: job.task for job in plan.jobs}
    gates = features.load_gates()
    policies, places = gates.plan_policies(
        project,
        plan.key,
        tasks,
        node,
        config,
    )
    return replace(plan, policies=policies, rule_places=places)
