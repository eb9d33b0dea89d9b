"""Build a plan from run files, task files and ready-made tasks: tasks with dataset and model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from answerkey.datasets.formats import FORMATS
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    InternalError,
    Place,
    SpecError,
    is_url,
    listing,
)
from answerkey.models.config import Generation
from answerkey.options import Options
from answerkey.spec import definitions
from answerkey.spec.config import (
    Settings,
    parse_caller_config,
    report_unknown,
)
from answerkey.spec.job import Job, ModelChoice, Plan, Task
from answerkey.spec.job_builder import (
    add_policies,
    build_job,
    build_jobs,
    find_judges,
    list_judges,
    list_variants,
    open_given_dataset,
    resolve,
)
from answerkey.spec.nodes import (
    Location,
    Node,
    ProblemList,
    from_plain,
    with_key,
)
from answerkey.spec.project import (
    YAML_ENDINGS,
    Project,
    find_file,
    find_ready_made,
    load_environment,
)
from answerkey.spec.sources import (
    DatasetSpec,
    build_dataset,
    is_data_file,
    is_remote,
    show_file,
)
from answerkey.spec.task import build_task
from answerkey.spec.validation import (
    KEY_PATTERN,
)

#: `tasks` is also a key of task files: the kinds of model that they are for.
_RUN_ONLY = frozenset(
    {
        "config",
        "datasets",
        "evaluation",
        "model_adapters",
        "models",
        "policies",
        "run_config",
        "secrets",
    }
)
_DATASET_ONLY = frozenset({"source", "file_path"})
#: The kinds of files other than task files and run files.
_OTHER_KINDS = {
    "empty": "empty",
    "no mapping": "no mapping",
    "evaluation": "an evaluation, which stands under `evaluation` of a run file",
    "dataset": "a dataset file, which is named by `--dataset`",
}
_KINDS_HINT = "a run file has `tasks` and `evaluation`, a task file has `key` and `definition`"
#: The source of a task or a run: a file, or plain values of the same form.
TaskSource = Location | Mapping[str, object]


def load_task(
    task: TaskSource,
    options: Options | None = None,
    problems: ProblemList | None = None,
) -> Task:
    """Return the Task of a task file, or of a mapping of the same form.

    Raise all its errors at once; notices are added to `problems`.
    """
    options = options or Options()
    problems = problems or ProblemList()
    built = None
    try:
        project, node = _open(task, options, problems)
        if _find_kind(node) in {"task", "empty", "no mapping"}:
            settings = parse_caller_config(options.config, problems)
            built = build_task(with_key(node), resolve(project, node, settings))
        else:
            message = "this is not a task file: it has no `definition`"
            node.report("E108", message, "give the task file itself, or use `load_plan`")
    except AnswerkeyError as error:
        problems.report(error)
    problems.raise_any()
    if built is None:
        raise InternalError("E901", "a task without errors was not built")
    return built


def load_dataset(path: Location, options: Options | None = None) -> DatasetSpec | None:
    """Return the dataset of a dataset file, None for a file of another kind.

    Raise all errors at once.
    """
    problems = ProblemList()
    project, node = _open(path, options or Options(), problems)
    if _find_kind(node) != "dataset":
        return None
    dataset = build_dataset(node, project.folder)
    problems.raise_any()
    return dataset


def load_model(
    reference: str,
    path: Location,
    *,
    generation: Generation,
    options: Options,
) -> ModelChoice:
    """Return the model that a reference means in the project of a file, for `open_model`.

    The file counts as having named it, not the caller. It is only read for a model that it defines
    itself. Raises SpecError.
    """
    problems = ProblemList()
    file = Path(path)
    project = Project.open(_folder_of(file), options, problems)
    if is_url(reference):
        # Whoever stored the reference chose the host: the keys of this project are not sent there.
        project.environment = load_environment(None, options.env)
    project.is_callers = False
    if definitions.is_model_file(reference):
        definitions.open_model_file(project, reference)
    elif "/" not in reference and not is_data_file(file):
        definitions.define(project, project.read(find_file(file)))
        if reference not in project.models:
            problems.raise_any()
    place = Place(file=str(file))
    return definitions.prepare_model(project, reference, place, generation)


def load_judges(
    task: Task,
    *,
    run_file: Location | None,
    options: Options,
) -> dict[str, ModelChoice]:
    """Return the models that the scorers of a task call, by the scorer's key.

    Raise all errors at once. A key is looked up in `run_file`, where the task is used; without one,
    only a name will do.
    """
    names = list_judges(task)
    if not names:
        return {}
    problems = ProblemList()
    project = Project.open(_folder_of(run_file or task.file), options, problems)
    project.is_callers = False
    if run_file is not None and any("/" not in name for name, _ in names.values()):
        node = project.read(find_file(Path(run_file)))
        if "definition" not in node.entries:
            definitions.define(project, node)
    # Other mistakes in the run file do not matter, unless a judge is what is wrong there.
    earlier = len(problems.errors)
    judges = find_judges(project, names)
    problems.raise_any(earlier)
    if len(judges) < len(names):
        problems.raise_any()
    return judges


def _folder_of(file: Location | None) -> Path:
    path = Path(file or "")
    return path if path.is_dir() else path.parent


def load_plan(
    path: Task | TaskSource,
    options: Options | None = None,
    *,
    is_callers: bool | None = None,
) -> Plan:
    """Return the plan of a run file or its folder, a task file, a Task or a ready-made task.

    `is_callers` says of a mapping whether the caller wrote it, and so names its models.
    """
    options = options or Options()
    problems = ProblemList()
    plan = Plan()
    try:
        settings: Settings = {}
        if options.config:
            settings = parse_caller_config(options.config, problems)
        if isinstance(path, Task):
            project = Project.open(_folder_of(path.file), options, problems)
            plan = _plan_built_task(project, path, settings)
        elif (ready := find_ready_made(path)) is not None:
            project = Project.open(Path(), options, problems)
            plan = _plan_ready_made(project, ready, settings)
        else:
            project, node = _open(path, options, problems)
            project.is_callers = is_callers
            kind = _find_kind(node)
            if kind == "run":
                from answerkey.spec.run_file import plan_run

                plan = plan_run(project, node, settings)
            elif kind == "task":
                open_given_dataset(project)
                plan = _plan_task(project, with_key(node), settings)
            else:
                message = f"the file is {_OTHER_KINDS[kind]}"
                problems.add("E108", message, node.place, _KINDS_HINT)
    except AnswerkeyError as error:
        problems.report(error)
    return replace(plan, problems=problems)


def _open(
    path: TaskSource,
    options: Options,
    problems: ProblemList,
) -> tuple[Project, Node]:
    """Return the project and the tree of a file of any kind, or of a mapping."""
    ready = find_ready_made(path)
    if ready is not None:
        from answerkey.spec.ready_made import load_ready_made

        project = Project.open(Path(), options, problems)
        return project, load_ready_made(ready, problems).task
    if isinstance(path, str | Path) and is_data_file(path):
        return _open_data_file(path, options, problems)
    if options.columns:
        hint = "name the columns in the task, or in `questions` of the dataset"
        raise SpecError("E119", f"`--column` is for a data file, which `{path}` is not", hint=hint)
    if isinstance(path, Mapping):
        project = Project.open(Path(), options, problems)
        return project, project.read(path)
    file = find_file(Path(path))
    if not file.suffix and not file.exists():
        from answerkey.spec.ready_made import suggest_ready_made

        message = f"there is no file and no ready-made task `{path}`"
        hint = suggest_ready_made(str(path)) or "`answerkey tasks` lists the ready-made tasks"
        raise SpecError("E101", message, where=Place(file=str(path)), hint=hint)
    project = Project.open(file.parent, options, problems)
    is_yaml = file.suffix.lower() in {*YAML_ENDINGS, ".json"}
    try:
        node = project.read(file)
        if node.is_map or is_yaml:
            return project, node
    except AnswerkeyError as error:
        if error.code != "E102" or is_yaml:
            raise
    message = f"`{file}` is not a YAML file, and its ending is not that of a data format"
    hint = f"endings of data files: {listing(FORMATS)}"
    raise DataError("E201", message, where=Place(file=str(file)), hint=hint)


def _open_data_file(
    path: Location,
    options: Options,
    problems: ProblemList,
) -> tuple[Project, Node]:
    """Return a data file as a run file would describe it."""
    from answerkey.spec.data_file import make_run

    folder = Path() if is_remote(path) else Path(path).parent
    run = make_run(path, options, problems)
    node = from_plain(run, Place(file=show_file(path)), problems)
    return Project.open(folder, options, problems), node


def _find_kind(node: Node) -> str:
    """Return what a file is: `task`, `run`, or one of `_OTHER_KINDS`."""
    keys = node.entries.keys()
    if not node.is_map:
        return "empty" if node.is_null else "no mapping"
    if "definition" in keys:
        return "task"
    if "task_specifications" in keys:
        return "evaluation"
    if keys & _RUN_ONLY:
        return "run"
    if keys & _DATASET_ONLY:
        return "dataset"
    return "task" if "key" in keys else "run"


def _plan_ready_made(project: Project, name: str, settings: Settings) -> Plan:
    from answerkey.spec.ready_made import load_ready_made

    ready = load_ready_made(name, project.problems)
    settings = definitions.add_datasets(project, ready, settings)
    open_given_dataset(project)
    plan = _plan_task(project, ready.task, settings)
    return replace(plan, key=name, display_name=ready.about.title)


def _plan_task(project: Project, node: Node, settings: Settings) -> Plan:
    """Return the plan of one task, on the dataset that the caller names."""
    key = node.key or "task"
    if not re.fullmatch(KEY_PATTERN, key):
        key = "task"  # the task itself says what is wrong with its key
    project.tasks[key] = node
    variants = list_variants(project, node, key)
    build = partial(build_job, project, key)
    return _plan_jobs(project, build_jobs(project, variants, [key], settings, {}, build))


def _plan_built_task(project: Project, task: Task, settings: Settings) -> Plan:
    open_given_dataset(project)
    report_unknown(settings, [])
    return _plan_jobs(project, [build_job(project, task.key, task)])


def _plan_jobs(project: Project, planned: Sequence[Job | None]) -> Plan:
    """Return the plan of one task and its variants."""
    jobs = tuple(filter(None, planned))
    if not jobs:
        return Plan()
    task = jobs[0].task
    plan = Plan(task.key, jobs, task.display_name)
    if project.options.states_gates:
        return add_policies(plan, project)
    return plan
