"""Run files, task files and ready-made tasks become a plan: tasks with a dataset and a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import create_model

from answerkey import features
from answerkey.datasets.dataset import Selection
from answerkey.datasets.formats import FORMATS
from answerkey.datasets.tables import DataTable
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    InternalError,
    Place,
    SpecError,
    is_url,
    listing,
    raise_all,
)
from answerkey.models.config import Generation
from answerkey.scorers import asks_model
from answerkey.solvers import ChatInput, GenericInput
from answerkey.spec import definitions, shapes
from answerkey.spec.config import (
    Config,
    Settings,
    given_by_caller,
    list_declared,
    refuse_config,
    report_unknown,
    resolve_config,
)
from answerkey.spec.job import BASE, Job, ModelChoice, Variant
from answerkey.spec.nodes import (
    Location,
    Node,
    Plain,
    ProblemList,
    advise,
    from_plain,
    sort_errors,
    with_key,
)
from answerkey.spec.options import Options
from answerkey.spec.project import (
    YAML_ENDINGS,
    Project,
    find_file,
    find_ready_made,
    load_environment,
)
from answerkey.spec.shapes import SpecificationFields
from answerkey.spec.sources import (
    DatasetSpec,
    build_dataset,
    is_data_file,
    is_remote,
    resolve_stated,
    show_file,
)
from answerkey.spec.task import Task, build_task, override_trials
from answerkey.spec.validation import (
    KEY_PATTERN,
    Fields,
    Key,
    assign_keys,
    carry_over,
    fields_of,
    validate_node,
)
from answerkey.types import Notice

#: `tasks` is a key of task files too: the kinds of model they are for.
_RUN_ONLY = frozenset(shapes.RunFields.model_fields) - {"tasks"}
_DATASET_ONLY = frozenset({"source", "file_path"})
_SELECTION = frozenset(shapes.SelectionFields.model_fields)
_WITHIN = "in the evaluation"
#: What a file is that is neither a task file nor a run file.
_OTHER_KINDS = {
    "empty": "empty",
    "no mapping": "no mapping",
    "evaluation": "an evaluation, which stands under `evaluation` of a run file",
    "dataset": "a dataset file, which is named by `--dataset`",
}
_KINDS_HINT = "a run file has `tasks` and `evaluation`, a task file has `key` and `definition`"
#: What can be read as a task or a run: a file, or plain values of the same form.
TaskSource = Location | Mapping[str, object]
#: How scorers name the models that they call, and where, by the keys of the scorers.
Judges = Mapping[str, tuple[str, Place]]
#: What a run says of all its tasks.
Common = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """What a file says to run, as much as could be built of it, with everything that is wrong.

    `policies` are plain values, as `run.json` keeps them; `rule_places` say where each rule's
    definition stands, by the keys of its policy and its own.
    """

    key: str = ""
    jobs: tuple[Job, ...] = ()
    display_name: str | None = None
    cache_policy: str | None = None
    policies: tuple[Mapping[str, Any], ...] = ()
    rule_places: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    problems: ProblemList = field(default_factory=ProblemList)

    @property
    def errors(self) -> list[AnswerkeyError]:
        """What is wrong, by position."""
        return sort_errors(self.problems.errors)

    @property
    def notices(self) -> list[Notice]:
        """What the user should know."""
        return self.problems.notices

    def find_baseline_errors(self) -> list[AnswerkeyError]:
        """Return what is wrong with the runs that rules compare with; they are read here."""
        if not self.policies:
            return []
        find: Callable[..., list[AnswerkeyError]] = features.load_gates().find_baseline_errors
        return find(self.policies, self.rule_places, self.key)


@dataclass(frozen=True)
class PromptVariant:
    """Another prompt: what stands in place of the solver's `input_builder`."""

    key: str
    input_builder: ChatInput | GenericInput


@cache
def variant_model() -> type[Fields]:
    """Return the model of a variant's YAML."""
    return create_model("VariantFields", __base__=fields_of(PromptVariant), key=(Key, ...))


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
            settings = given_by_caller(options.config, problems)
            built = build_task(with_key(node), _resolve(project, node, settings))
        else:
            message = "this is not a task file: it has no `definition`"
            node.report("E108", message, "give the task file itself, or use `load_plan`")
    except AnswerkeyError as error:
        problems.report(error)
    raise_all(sort_errors(problems.errors))
    if built is None:
        raise InternalError("E901", "a task without errors was not built")
    return built


def is_task_file(path: Location) -> bool:
    """Return whether a path leads to a task file, rather than a run file or a folder."""
    try:
        node = _open(path, Options(), ProblemList())[1]
    except AnswerkeyError:
        return False
    return _find_kind(node) == "task"


def load_dataset(path: Location, options: Options | None = None) -> DatasetSpec | None:
    """Return the dataset of a dataset file, None for a file of another kind.

    Raise all errors at once.
    """
    problems = ProblemList()
    project, node = _open(path, options or Options(), problems)
    if _find_kind(node) != "dataset":
        return None
    dataset = build_dataset(node, project.folder)
    raise_all(sort_errors(problems.errors))
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
            raise_all(problems.errors)
    place = Place(file=str(file))
    return definitions.prepare_model(project, reference, place, generation)


def load_judges(
    task: Task,
    *,
    run_file: Location | None,
    options: Options,
    is_callers: bool = False,
) -> dict[str, ModelChoice]:
    """Return the models that the scorers of a task call, by the scorer's key.

    Raise all errors at once. A key is looked up in `run_file`, where the task is used; without one,
    only a name will do. `is_callers`: the caller wrote the task, not a file.
    """
    names = _list_judges(task)
    if not names:
        return {}
    problems = ProblemList()
    has_keys = any("/" not in name for name, _ in names.values())
    if run_file is None and has_keys:
        hint = "name it as `provider/model` or by its URL (`http://HOST/v1#NAME`)"
        for name, place in names.values():
            if "/" not in name:
                message = f"model `{name}` is not defined: a task by itself has no models"
                problems.add("E113", message, place, f"{hint}, or use a run file")
        raise_all(problems.errors)
    project = Project.open(_folder_of(run_file or task.file), options, problems)
    project.is_callers = is_callers
    if run_file is not None and has_keys:
        node = project.read(find_file(Path(run_file)))
        if "definition" not in node.entries:
            definitions.define(project, node)
    # Other mistakes in the run file do not matter, unless a judge is what is wrong there.
    earlier = len(problems.errors)
    judges = _find_judges(project, names)
    raise_all(problems.errors[earlier:])
    if len(judges) < len(names):
        raise_all(problems.errors)
    return judges


def _folder_of(file: Location | None) -> Path:
    path = Path(file or "")
    return path if path.is_dir() else path.parent


def load_plan(path: Task | TaskSource, options: Options | None = None) -> Plan:
    """Return the plan of a run file or its folder, a task file, a Task or a ready-made task."""
    options = options or Options()
    problems = ProblemList()
    plan = Plan()
    try:
        settings = given_by_caller(options.config, problems)
        if isinstance(path, Task):
            project = Project.open(_folder_of(path.file), options, problems)
            plan = _plan_built_task(project, path, settings)
        elif (ready := find_ready_made(path)) is not None:
            project = Project.open(Path(), options, problems)
            plan = _plan_ready_made(project, ready, settings)
        else:
            project, node = _open(path, options, problems)
            kind = _find_kind(node)
            if kind == "run":
                plan = _plan_run(project, node, settings)
            elif kind == "task":
                _open_given_dataset(project)
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
        raise SpecError("E119", f"`--column` is for a data file, and `{path}` is none", hint=hint)
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
    message = f"`{file}` is no YAML file, and its ending names no format of data"
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
    settings = definitions.adopt(project, ready, settings)
    _open_given_dataset(project)
    plan = _plan_task(project, ready.task, settings)
    return replace(plan, key=name, display_name=ready.about.title)


def _plan_task(project: Project, node: Node, settings: Settings) -> Plan:
    """Return the plan of one task, on the dataset that the caller names."""
    key = node.key or "task"
    if not re.fullmatch(KEY_PATTERN, key):
        key = "task"  # the task itself says what is wrong with its key
    project.tasks[key] = node
    fields = {
        "task_key": node.changed(key),
        "task_config": node.changed(dict(settings)),
    }
    entry = node.changed(fields)
    return _plan_jobs(project, _list_jobs(project, [entry], {}, {}))


def _plan_built_task(project: Project, task: Task, settings: Settings) -> Plan:
    _open_given_dataset(project)
    report_unknown(settings, [])
    fields = SpecificationFields.model_construct(task_key=task.key)
    job = _build_job(project, task, fields, task.places, task.key, {})
    return _plan_jobs(project, [job])


def _plan_jobs(project: Project, planned: Sequence[Job | None]) -> Plan:
    """Return the plan of one task and its variants."""
    jobs = tuple(filter(None, planned))
    if not jobs:
        return Plan()
    task = jobs[0].task
    plan = Plan(task.key, jobs, task.display_name)
    if project.options.states_gates:
        return _add_policies(plan, project)
    return plan


def _plan_run(project: Project, node: Node, callers: Settings) -> Plan:
    """Return the plan of a run file."""
    validate_node(shapes.RunFields, node, "the run file")
    definitions.define(project, node)
    _open_given_dataset(project)
    settings = {**node.field("config").entries, **callers}
    fields, config, entries = _read_evaluation(project, node.field("evaluation"), settings)
    for_tasks = dict(settings)
    for name in config.parameters:
        for_tasks.pop(name, None)
    _check_tasks(project, entries, for_tasks, list(config.parameters))
    common: Plain = {}
    if fields is not None:
        common = fields.model_dump(include={*_SELECTION, "cache_policy"}, exclude_none=True)
    common |= _read_run_config(node.field("run_config"))
    built = _list_jobs(project, entries, for_tasks, common)
    if fields is None:
        file = Path(node.place.file or "run.yaml")
        name = file.resolve().parent.name or "run"
        fields = shapes.EvaluationFields.model_construct(key=name)
    plan = Plan(
        key=fields.key,
        jobs=tuple(filter(None, built)),
        display_name=fields.display_name,
        cache_policy=common.get("cache_policy"),
    )
    policies = node.field("policies")
    if policies.is_null and not project.options.states_gates:
        return plan
    return _add_policies(plan, project, policies, config, is_sound=None not in built)


def _check_tasks(
    project: Project,
    entries: Sequence[Node],
    settings: Settings,
    names: list[str],
) -> None:
    """Report config values that no task declares, and what is wrong with tasks that are not run.

    `names` are those that the evaluation declares.
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


def _read_run_config(node: Node) -> Plain:
    """Return what a run file says of all its tasks, with `trials` as a node."""
    if node.is_null:
        return {}
    refuse_config(node)
    fields = validate_node(shapes.RunConfigFields, node, "`run_config`")
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
) -> tuple[shapes.EvaluationFields | None, Config, list[Node]]:
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
    node = with_key(carry_over(node, "evaluation"))
    if node.is_map:
        config = _resolve(project, node, {}, settings)
        _check_references(project, config, ())
        node = config.fill(node.without("config_spec"))
    fields = validate_node(shapes.EvaluationFields, node, "`evaluation`")
    return fields, config, list(node.field("task_specifications").items)


def _add_policies(
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
    policies, places = gates.plan_policies(project, plan.key, tasks, node, config)
    return replace(plan, policies=policies, rule_places=places)


def _resolve(
    project: Project,
    node: Node,
    settings: Settings,
    common: Settings | None = None,
) -> Config:
    """Return the config of a task or an evaluation.

    `--dataset` and `--model` are for parameters that have neither a value nor a default.
    """
    fallbacks: dict[str, Node] = {}
    if project.given_dataset is not None:
        fallbacks["dataset"] = Node(project.given_dataset.key, Place(file="--dataset"))
    if project.options.model is not None:
        model = definitions.find_given_model(project)
        fallbacks["model"] = Node(model, Place(file="--model"))
    return resolve_config(node, settings, common or {}, fallbacks=fallbacks)


def _check_references(project: Project, config: Config, keys: Sequence[str]) -> None:
    """Report `dataset`, `model` and `task_result` parameters that name nothing.

    `keys` are those of the task specifications.
    """
    for name, target in config.of_type("task_result").items():
        if target not in keys:
            hint = advise(target, keys, "task specifications")
            message = f"config value `{name}`: task specification `{target}` is not defined"
            project.problems.add("E113", message, config.places[name], hint)
    if project.given_dataset is None:
        for key, name in config.of_type("dataset").items():
            definitions.find_dataset(project, name, config.places[key])
    for key, name in config.of_type("model").items():
        definitions.find_model(project, name, config.places[key], None)


def _list_variants(
    task: Node,
    key: str,
    fields: SpecificationFields,
    options: Options,
) -> Iterator[tuple[Node, Variant | None]]:
    """Yield a task, and the same task with another prompt for each of its `variants`.

    Recorded completions are answers to one prompt: they are taken for those of the task itself.
    """
    definition = task.field("definition")
    listed = definition.field("variants")
    if listed.is_null:
        yield task, None
        return
    bare = definition.without("variants")
    task = task.having("definition", bare)
    if options.brings_completions or fields.completions is not None:
        message = "recorded completions are answers to one prompt: `variants` are left out"
        task.problems.notice(message, listed.place)
        yield task, None
        return
    yield task, Variant(key, BASE)
    solver = bare.field("solver")
    if "input_builder" not in solver.entries:
        message = "`variants` are other prompts, and the task's solver has none"
        listed.report("E108", message, "give the task a `single_turn_solver`")
        return
    base = definition.changed({"key": definition.changed(BASE)})
    entries = [(entry, "variant") for entry in (base, *listed.items)]
    assign_keys(entries, "variant", "in the task")
    for entry in listed.items:
        variant = validate_node(variant_model(), entry, "the variant")
        if variant is not None and entry.key is not None:
            prompt = solver.having("input_builder", entry.entries["input_builder"])
            changed = bare.having("solver", prompt)
            yield task.having("definition", changed), Variant(key, entry.key)


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
        jobs += _build_jobs(project, entry, key, keys, settings, common)
    for job in filter(None, jobs):
        if job.variant and job.variant.key != BASE and job.key in keys:
            message = f"task specification key `{job.key}` is used twice {_WITHIN}"
            place = job.task.place("definition")
            project.problems.add("E114", message, place, "give each its own `key`")
    return jobs


def _build_jobs(
    project: Project,
    entry: Node,
    key: str,
    keys: Sequence[str],
    settings: Settings,
    common: Common,
) -> list[Job | None]:
    """Return the job of one task specification, and those of its variants."""
    entry = carry_over(entry, "specification")
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
    jobs: list[Job | None] = []
    for task_node, variant in _list_variants(node, key, fields, project.options):
        config = _resolve(project, task_node, values, settings)
        task = build_task(task_node, config)
        job = None
        if task is not None:
            _check_references(project, config, keys)
            job = _build_job(project, task, fields, entry, key, common)
        if job is not None and variant is not None:
            job = replace(job, key=variant.job_key, variant=variant)
        jobs.append(job)
    return jobs


def _build_job(
    project: Project,
    task: Task,
    fields: SpecificationFields,
    entry: Node,
    key: str,
    common: Common,
) -> Job | None:
    """Return a task with its dataset, model and judges; None without a dataset."""
    options = project.options
    dataset = _choose_dataset(task, project)
    examples = getattr(task.solver, "examples", None)
    if examples is not None:
        examples = _choose_examples(examples.dataset, task, dataset, project)
    needs_model = task.solver is not None and task.solver.needs_model
    completions: Location | DataTable | None = None
    stated = entry.field("completions").value
    calls_callers = needs_model and options.model is not None
    if isinstance(stated, DataTable):
        completions = stated
    elif fields.completions is not None and not calls_callers:
        # The caller's model is called in place of the file's completions.
        place = entry.entries["completions"].place
        completions = resolve_stated(fields.completions, place, project.folder)
    reference = fields.model_key
    if options.model is not None:
        reference = definitions.find_given_model(project)
    model = None
    if reference is not None:
        is_called = needs_model and completions is None and not options.brings_completions
        model = _find_model(project, reference, fields, entry, is_called=is_called)
    names = _list_judges(task)
    judges = _find_judges(project, names) if names else {}
    if dataset is None:
        return None
    model_name = fields.model_key
    if model_name in project.models:
        model_name = project.models[model_name].title
    return Job(
        key=key,
        task=task,
        dataset_spec=dataset,
        display_name=fields.display_name,
        model_choice=model,
        model_key=reference,
        model_name=model_name,
        selection=_select_rows(common, fields, options),
        num_runs=fields.repeatability.num_runs if fields.repeatability else 1,
        examples_spec=examples,
        judge_choices=judges,
        completions_from=completions,
    )


def _find_model(
    project: Project,
    reference: str,
    fields: SpecificationFields,
    entry: Node,
    *,
    is_called: bool,
) -> ModelChoice | None:
    """Return the model of a specification; None for one that is only named."""
    from answerkey.spec.models import build_generation

    place = entry.key_place("model_key")
    if project.options.model is not None:
        place = Place(file="--model")
    generation = build_generation(fields) if is_called else None
    return definitions.find_model(project, reference, place, generation)


def _list_judges(task: Task) -> Judges:
    """Return how the scorers that call a model name it, and where, by the scorer's key."""
    judges = {}
    for step in task.scoring:
        if asks_model(step.scorer):
            place = task.place(*step.model_path)
            judges[step.key] = (step.scorer.model_key, place)
    return judges


def _find_judges(project: Project, names: Judges) -> dict[str, ModelChoice]:
    """Return the model of each scorer that calls one, by the scorer's key; report mistakes."""
    judges: dict[str, ModelChoice] = {}
    for key, (name, place) in names.items():
        model = definitions.find_model(project, name, place, Generation())
        if model is not None:
            judges[key] = model
    return judges


def _select_rows(
    common: Common,
    fields: SpecificationFields,
    options: Options,
) -> Selection:
    """Return which rows are used; the caller's word wins, then the task specification's."""
    selected = {}
    for name in _SELECTION:
        layers = [common.get(name)]
        for layer in (fields, options):
            layers.append(getattr(layer, name, None))
        for value in layers:
            if value is not None:
                selected[name] = value
    return Selection(**selected)


def _choose_examples(
    name: str,
    task: Task,
    dataset: DatasetSpec | None,
    project: Project,
) -> DatasetSpec | None:
    """Return the dataset that a solver takes its examples from, and calls by this name."""
    if name == task.dataset_key:
        return dataset
    place = task.place("definition", "solver", "examples", "dataset")
    return definitions.find_dataset(project, name, place)


def _open_given_dataset(project: Project) -> None:
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
    hint = "give one with `--dataset FILE`"
    if datasets:
        hint = f"name one in `definition.dataset.key` (there: {listing(datasets)}), or {hint}"
    if not project.is_faulty:
        message = f"task `{task.key}` names no dataset"
        project.problems.add("E119", message, task.place("definition"), hint)
    return None
