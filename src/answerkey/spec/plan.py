"""Run files, task files and ready-made tasks become a plan: tasks with a dataset and a model."""

from __future__ import annotations

import re
from collections.abc import (
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import (
    dataclass,
    field,
    replace,
)
from functools import cache
from pathlib import Path
from typing import Any

from answerkey import features
from answerkey.datasets.content import COMPRESSIONS, Content
from answerkey.datasets.dataset import Selection
from answerkey.datasets.formats import FORMATS
from answerkey.datasets.tables import Table
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    Place,
    SpecError,
    is_url,
    listing,
    raise_all,
    suggest,
)
from answerkey.models.config import (
    Generation,
    ModelConfig,
    is_live,
)
from answerkey.sandbox import Snippet
from answerkey.solvers import ChatInput, GenericInput
from answerkey.spec import definitions, shapes
from answerkey.spec.config import (
    Config,
    Given,
    given_by_caller,
    list_declared,
    pick_declared,
    read_given,
    refuse_config,
    report_unknown,
)
from answerkey.spec.definitions import Judges
from answerkey.spec.nodes import (
    Node,
    Problems,
    from_plain,
    sort_errors,
    with_key,
)
from answerkey.spec.project import (
    YAML_ENDINGS,
    Loaded,
    Overrides,
    Project,
    find_file,
    load_environment,
)
from answerkey.spec.ready_made import (
    find_ready_made,
    list_ready_made,
    load_ready_made,
    suggest_ready_made,
)
from answerkey.spec.shapes import SpecificationFields, carry_over
from answerkey.spec.sources import (
    DatasetSpec,
    build_dataset,
    is_data_file,
    is_remote,
    resolve_stated,
    show_file,
)
from answerkey.spec.task import (
    Task,
    build_task,
    override_trials,
)
from answerkey.spec.validation import (
    KEY_PATTERN,
    Fields,
    Key,
    assign_keys,
    extend_fields,
    fields_of,
    validate_node,
)

#: The variant that has the task's own prompt.
BASE = "base"
#: `tasks` is a key of task files too: the kinds of model they are for.
_RUN_ONLY = frozenset(shapes.RunFields.model_fields) - {"tasks"}
_DATASET_ONLY = frozenset({"source", "file_path"})
_SELECTION = frozenset(shapes.SelectionFields.model_fields)
_WITHIN = "in the evaluation"


@dataclass(frozen=True)
class Variant:
    """Which variant of which specification this is; both by their keys."""

    of: str
    key: str


@dataclass(frozen=True)
class Specification:
    """One task to run, with its dataset and its model.

    `model` is for `open_model`; None when no model is called, or none is named. `model_key` is the
    model's name in the files, also when recorded completions make calling it unnecessary;
    `completions` is the file or the table that has them, and `model_name` the name of the model
    that wrote them. `judges` are the models of scorers that call one, by the scorer's key. The
    whole specification is run `num_runs` times.
    """

    key: str
    task: Task
    dataset: DatasetSpec
    display_name: str | None = None
    model: str | ModelConfig | None = None
    model_key: str | None = None
    model_name: str | None = None
    selection: Selection = field(default_factory=Selection)
    examples: DatasetSpec | None = None
    num_runs: int = 1
    judges: Mapping[str, str | ModelConfig] = field(default_factory=dict)
    variant: Variant | None = None
    completions: Path | str | Table | None = None

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """The user's code that would run: of the task, and of models that are snippets."""
        snippets = list(self.task.snippets)
        for model in (self.model, *self.judges.values()):
            if isinstance(model, ModelConfig):
                snippets += model.snippets
        return tuple(snippets)


@dataclass(frozen=True)
class Plan:
    """All specifications of a run; `project` is the folder of the file given by the caller.

    `policies` are plain values, as `run.json` keeps them; `rule_places` say where each rule's
    definition stands, by the keys of its policy and its own. `matrix` has the specifications of
    each model, by its name; `specifications` are those of the first one then.
    """

    key: str
    specifications: tuple[Specification, ...]
    project: Path
    file: str
    display_name: str | None = None
    description: str | None = None
    cache_policy: str | None = None
    policies: tuple[Mapping[str, Any], ...] = ()
    rule_places: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    matrix: Mapping[str, tuple[Specification, ...]] = field(default_factory=dict)

    def split(self) -> list[Plan]:
        """Return a plan for each model of the matrix; without one, this."""
        if not self.matrix:
            return [self]
        return [replace(self, specifications=each, matrix={}) for each in self.matrix.values()]

    def find_baseline_errors(self, evaluation: str | None = None) -> list[AnswerkeyError]:
        """Return what is wrong with the runs that rules compare with; they are read here."""
        if not self.policies:
            return []
        find: Callable[..., list[AnswerkeyError]] = features.load_gates().find_baseline_errors
        return find(self.policies, self.rule_places, evaluation or self.key)


@dataclass(frozen=True)
class PromptVariant:
    """Another prompt: what stands in place of the solver's `input_builder`."""

    key: str
    input_builder: ChatInput | GenericInput


@cache
def variant_model() -> type[Fields]:
    """Return the model of a variant's YAML."""
    return extend_fields(fields_of(PromptVariant), "VariantFields", Fields, key=(Key, ...))


def load_task(
    task: str | Path | Mapping[str, object],
    *,
    config: Mapping[str, object] | None = None,
    overrides: Overrides | None = None,
) -> Loaded[Task]:
    """Return the Task of a task file, or of a mapping of the same form, with all its problems."""
    overrides = overrides or Overrides()
    problems = Problems()
    built = None
    try:
        project, node = _open(task, overrides, problems)
        if not node.is_map or node.is_broken or _is_task(node):
            settings = given_by_caller({**overrides.config, **(config or {})})
            values = definitions.resolve(project, node, settings)
            built = build_task(with_key(node), values, problems)
        else:
            message = "this is not a task file: it has no `definition`"
            hint = "give the task file itself, or use `load_plan`"
            problems.add("E108", message, node.place, hint)
    except (SpecError, DataError) as error:
        problems.report(error)
    return Loaded.of(built, problems)


def is_task_file(path: str | Path) -> bool:
    """Return whether a path leads to a task file, rather than a run file or a folder."""
    try:
        _, node = _open(path, Overrides(), Problems())
    except (SpecError, DataError):
        return False
    return node.is_map and _is_task(node)


def load_dataset(path: str | Path, overrides: Overrides | None = None) -> DatasetSpec | None:
    """Return the dataset of a dataset file, None for a file of another kind.

    Raise all errors at once.
    """
    problems = Problems()
    project, node = _open(path, overrides or Overrides(), problems)
    if not _is_dataset(node):
        return None
    dataset = build_dataset(node, problems, base=project.folder)
    raise_all(sort_errors(problems.errors))
    return dataset


def load_model(
    reference: str,
    path: str | Path,
    *,
    generation: Generation,
    overrides: Overrides,
) -> str | ModelConfig:
    """Return the model that a reference means in the project of a file, for `open_model`.

    The file counts as having named it, not the caller. It is only read for a model that it defines
    itself. Raises SpecError.
    """
    problems = Problems()
    file = Path(path)
    project = Project.open(_folder_of(file), overrides, problems)
    if is_url(reference):
        # Whoever stored the reference chose the host: the keys of this project are not sent there.
        project.environment = load_environment(None, overrides.env)
    if reference.lower().endswith(YAML_ENDINGS) and not is_live(reference):
        definitions.open_model_file(project, reference)
    elif "/" not in reference and not is_data_file(file):
        definitions.define(project, project.read(find_file(file)))
    if reference in project.broken:
        raise problems.errors[0]
    place = Place(file=str(file))
    return definitions.prepare_model(project, reference, place, generation, is_callers=False)


def load_judges(
    task: Task,
    *,
    run_file: str | Path | None,
    overrides: Overrides,
    is_callers: bool = False,
) -> Judges:
    """Return the models that the scorers of a task call, by the scorer's key.

    Raise all errors at once. A key is looked up in `run_file`, where the task is used; without one,
    only a name will do. `is_callers`: the caller wrote the task, not a file.
    """
    names = definitions.list_judges(task)
    if not names:
        return {}
    problems = Problems()
    has_keys = any("/" not in name for name, _ in names.values())
    if run_file is None and has_keys:
        raise_all(list(_refuse_keys(names)))
    project = Project.open(_folder_of(run_file or task.file), overrides, problems)
    if run_file is not None and has_keys:
        node = project.read(find_file(Path(run_file)))
        if "definition" not in node.entries:
            definitions.define(project, node)
    # Other mistakes in the run file do not matter, unless a judge is what is wrong there.
    earlier = len(problems.errors)
    judges = definitions.find_judges(project, task, is_callers=is_callers)
    raise_all(problems.errors[earlier:])
    if len(judges) < len(names):
        raise_all(problems.errors)
    return judges


def _refuse_keys(names: Mapping[str, tuple[str, Place]]) -> Iterator[SpecError]:
    hint = "name it as `provider/model` or by its URL (`http://HOST/v1#NAME`), or use a run file"
    for name, place in names.values():
        if "/" not in name:
            message = f"model `{name}` is not defined: a task by itself has no models"
            yield SpecError("E113", message, where=place, hint=hint)


def _folder_of(file: str | Path | None) -> Path:
    path = Path(file or "")
    return path if path.is_dir() else path.parent


def load_plan(
    path: Task | str | Path | Mapping[str, object], overrides: Overrides | None = None
) -> Loaded[Plan]:
    """Return the plan of a run file or its folder, a task file, a Task or a ready-made task."""
    overrides = overrides or Overrides()
    problems = Problems()
    plan = None
    try:
        if isinstance(path, Task):
            project = Project.open(Path(path.file or "").parent, overrides, problems)
            plan = _plan_built_task(project, path)
        elif (ready := find_ready_made(path)) is not None:
            plan = _plan_ready_made(Project.open(Path(), overrides, problems), ready)
        else:
            plan = _plan_file(*_open(path, overrides, problems))
    except (SpecError, DataError) as error:
        problems.report(error)
    return Loaded.of(plan, problems)


def _open(
    path: str | Path | Mapping[str, object],
    overrides: Overrides,
    problems: Problems,
) -> tuple[Project, Node]:
    """Return the project and the tree of a file of any kind, or of a mapping."""
    ready = find_ready_made(path)
    if ready is not None:
        return Project.open(Path(), overrides, problems), load_ready_made(ready).task
    if isinstance(path, str | Path) and is_data_file(path):
        from answerkey.spec.data_file import make_run

        folder = Path() if is_remote(path) else Path(path).parent
        node = from_plain(make_run(path, overrides, problems), Place(file=show_file(path)))
        return Project.open(folder, overrides, problems), node
    if overrides.columns:
        hint = "name the columns in the task, or in `questions` of the dataset"
        raise SpecError("E119", f"`--column` is for a data file, and `{path}` is none", hint=hint)
    if isinstance(path, Mapping):
        project = Project.open(Path(), overrides, problems)
        return project, project.read(path)
    file = find_file(Path(path))
    if not file.suffix and not file.exists():
        message = f"there is no file and no ready-made task `{path}`"
        hint = suggest_ready_made(str(path)) or "`answerkey tasks` lists the ready-made tasks"
        raise SpecError("E101", message, where=Place(file=str(path)), hint=hint)
    project = Project.open(file.parent, overrides, problems)
    return project, _read_file(project, file)


def _read_file(project: Project, file: Path) -> Node:
    """Return the tree of a file; with an unknown ending it may be data by mistake."""
    is_yaml = file.suffix.lower() in {*YAML_ENDINGS, ".json"}
    try:
        node = project.read(file)
        if is_yaml or node.is_map:
            return node
    except SpecError as error:
        if is_yaml or error.code != "E102":
            raise
    content = Content(str(file), file)
    endings = f"endings of data files: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}"
    message = f"`{file}` is no YAML file, and its ending names no format of data"
    raise content.error("E201", message, hint=content.guess() or endings)


def _is_task(node: Node) -> bool:
    keys = node.entries.keys()
    return "definition" in keys or ("key" in keys and not keys & (_RUN_ONLY | _DATASET_ONLY))


def _is_dataset(node: Node) -> bool:
    keys = node.entries.keys()
    return bool(keys & _DATASET_ONLY and not keys & _RUN_ONLY and "definition" not in keys)


def _plan_file(project: Project, node: Node) -> Plan | None:
    """Return the plan of a run file or a task file; raise for files of other kinds."""
    keys = node.entries.keys()
    where = node.place
    if not node.is_map:
        hint = "a run file has `tasks` and `evaluation`, a task file has `key` and `definition`"
        message = "the file is empty" if node.is_null else "the file must be a mapping"
        raise SpecError("E108", message, where=where, hint=hint)
    if "evaluations" in keys:
        hint = "run each entry of `evaluations` as a run file of its own"
        message = "evaluation plans of the original platform are not done"
        raise SpecError("E116", message, where=node.key_place("evaluations"), hint=hint)
    if "task_specifications" in keys and "definition" not in keys:
        hint = "write a run file with `evaluation: {$ref: …}`, beside its `tasks` and `datasets`"
        where = node.key_place("task_specifications")
        raise SpecError("E108", "this is an evaluation, not a run file", where=where, hint=hint)
    if _is_task(node):
        definitions.open_given_dataset(project)
        return _plan_task(project, with_key(node), given_by_caller(project.overrides.config))
    if _is_dataset(node):
        hint = "name a task file and give this file with `--dataset`"
        message = "this is a dataset file, not a task or run file"
        raise SpecError("E108", message, where=where, hint=hint)
    return _plan_run(project, node)


def _plan_ready_made(project: Project, name: str) -> Plan | None:
    ready = load_ready_made(name)
    settings = definitions.adopt(project, ready, given_by_caller(project.overrides.config))
    definitions.open_given_dataset(project)
    plan = _plan_task(project, ready.task, settings)
    about = ready.about
    return plan and replace(
        plan,
        key=name,
        display_name=about.title,
        description=about.summary,
    )


def _plan_task(
    project: Project,
    node: Node,
    settings: Mapping[str, Given],
) -> Plan | None:
    """Return the plan of one task, on the dataset that the caller names."""
    key = node.key or "task"
    if not re.fullmatch(KEY_PATTERN, key):
        key = "task"  # the task itself says what is wrong with its key
    project.tasks[key] = node
    report_unknown(settings, list_declared(node), project.problems)
    specifications = _specify(project, [_ask_for(key, node)], settings, {})
    return _plan_specifications(project, specifications, node)


def _plan_built_task(project: Project, task: Task) -> Plan | None:
    definitions.open_given_dataset(project)
    report_unknown(given_by_caller(project.overrides.config), [], project.problems)
    fields = SpecificationFields.model_construct(task_key=task.key)
    specification = _build_specification(project, task, fields, task.places, task.key, {})
    return _plan_specifications(project, [specification], task.places)


def _plan_specifications(
    project: Project,
    specifications: Sequence[Specification | None],
    node: Node,
) -> Plan | None:
    """Return the plan of one task and its variants."""
    built = tuple(filter(None, specifications))
    if not built:
        return None
    task = built[0].task
    return Plan(
        task.key,
        built,
        project.folder,
        node.place.file or "",
        task.display_name,
        task.description,
        **_plan_policies(project, task.key, built, Node(None, Place()), Config()),
    )


def _ask_for(key: str, task: Node) -> Node:
    """Return the task specification of a task that no evaluation asks for."""
    return Node({"task_key": Node(key, task.place)}, task.place)


def _plan_run(project: Project, node: Node) -> Plan:
    """Return the plan of a run file."""
    problems = project.problems
    validate_node(shapes.RunFields, node, problems, name="the run file")
    definitions.define(project, node)
    definitions.open_given_dataset(project)
    settings = read_given(node.field("config"), problems, name="config")
    settings |= given_by_caller(project.overrides.config)
    fields, config, entries, models = _read_evaluation(project, node, settings)
    for_tasks = {name: value for name, value in settings.items() if name not in config.parameters}
    _check_tasks(project, entries, for_tasks, config)
    common: dict[str, Any] = {}
    if fields is not None:
        common = fields.model_dump(include={*_SELECTION, "cache_policy"}, exclude_none=True)
    common |= _read_run_config(node.field("run_config"), problems)
    matrix = {}
    for model in models:
        assigned = [entry.having("model_key", model) for entry in entries]
        matrix[str(model.value)] = _specify(project, assigned, for_tasks, common)
    built = next(iter(matrix.values())) if matrix else _specify(project, entries, for_tasks, common)
    if fields is None:
        name = Path(node.place.file or "run.yaml").resolve().parent.name or "run"
        fields = shapes.EvaluationFields.model_construct(key=name)
    sound = [] if None in built else built
    return Plan(
        key=fields.key,
        specifications=tuple(filter(None, built)),
        project=project.folder,
        file=node.place.file or "",
        display_name=fields.display_name,
        description=fields.description,
        cache_policy=common.get("cache_policy"),
        **_plan_policies(project, fields.key, sound, node.field("policies"), config),
        matrix={name: tuple(filter(None, each)) for name, each in matrix.items()},
    )


def _check_tasks(
    project: Project,
    entries: Sequence[Node],
    settings: Mapping[str, Given],
    config: Config,
) -> None:
    """Report config values that no task declares, and mistakes in tasks that are not used."""
    names = list(config.parameters)
    unused = dict(project.tasks)
    for entry in entries:
        key = str(entry.field("task_key").value)
        unused.pop(key, None)
        names += list_declared(_find_task(project, key) or entry)
    if entries and "tasks" not in project.unread:
        report_unknown(settings, names, project.problems)
    for task in unused.values():
        definitions.check_unused_task(task, project.problems)


def _read_run_config(node: Node, problems: Problems) -> dict[str, Any]:
    """Return what a run file says of all its tasks, with `trials` as a node."""
    if node.is_null:
        return {}
    refuse_config(node, problems)
    fields = validate_node(shapes.RunConfigFields, node, problems, name="`run_config`")
    if fields is None:
        return {}
    common = fields.model_dump(exclude_none=True)
    if common.pop("trials_config", None):
        common["trials"] = node.entries["trials_config"]
    return common


def _read_evaluation(
    project: Project,
    run: Node,
    settings: Mapping[str, Given],
) -> tuple[shapes.EvaluationFields | None, Config, list[Node], list[Node]]:
    """Return the fields and the config of an evaluation, its task specifications, and the models.

    The models are those of a matrix. A run without an evaluation runs every task.
    """
    problems = project.problems
    node = run.field("evaluation")
    if node.is_null:
        return None, Config(), [_ask_for(key, task) for key, task in project.tasks.items()], []
    node = with_key(carry_over(node, "evaluation", problems))
    config = Config()
    models: list[Node] = []
    if node.is_map:
        config = definitions.resolve(project, node, pick_declared(settings, node))
        definitions.check_references(project, config)
        node = config.fill(node.without("config_spec"), problems)
        if not node.field("matrix").is_null:
            node, models = _read_matrix(node, project)
    fields = validate_node(shapes.EvaluationFields, node, problems, name="`evaluation`")
    if fields is None or fields.matrix is None:
        models = []
    return fields, config, list(node.at("task_specifications").items), models


def _plan_policies(
    project: Project,
    key: str,
    specifications: Sequence[Specification | None],
    node: Node,
    config: Config,
) -> dict[str, Any]:
    """Return the policies of a run, the caller's or else the file's, checked against its tasks."""
    if not project.overrides.states_gates and node.is_null:
        return {}
    tasks = {each.key: each.task for each in filter(None, specifications)}
    policies, places = features.load_gates().plan_policies(project, key, tasks, node, config)
    return {"policies": policies, "rule_places": places}


def _read_matrix(evaluation: Node, project: Project) -> tuple[Node, list[Node]]:
    """Return an evaluation with its matrix as task specifications, and the models to call.

    A model of the caller's, or recorded completions, stand in for those models.
    """
    problems = project.problems
    matrix = evaluation.field("matrix")
    tasks = matrix.field("tasks")
    if "task_specifications" in evaluation.entries:
        message = "`matrix` and `task_specifications` exclude each other"
        where = evaluation.key_place("matrix")
        problems.add("E108", message, where, "name the tasks in one of them")
    entries = []
    for entry in tasks.items:
        entries.append(entry if entry.is_map else Node({"task_key": entry}, entry.place))
        for name in entry.entries.keys() & {"model_key", "completions"}:
            message = f"`{name}` cannot stand in a `matrix`: "
            message += "every task is asked of all its `models`"
            hint = "leave it out, or use `task_specifications`"
            problems.add("E108", message, entry.key_place(name), hint)
    models = _read_models(matrix.field("models"), problems)
    if project.overrides.model is not None or project.overrides.brings_completions:
        models = []
    listed = Node(tuple(entries), tasks.place)
    return evaluation.having("task_specifications", listed), models


def _read_models(node: Node, problems: Problems) -> list[Node]:
    """Return the models of a matrix; report one that is named twice."""
    models: dict[str, Node] = {}
    for model in node.items:
        name = str(model.value)
        if name in models:
            problems.add("E114", f"model `{name}` is named twice", model.place, "name it once")
        if model.is_scalar and not model.is_broken:
            models.setdefault(name, model)
    return list(models.values())


def _find_task(project: Project, key: str) -> Node | None:
    if key not in project.tasks and key in list_ready_made():
        return load_ready_made(key).task
    return project.tasks.get(key)


def _list_variants(
    project: Project,
    task: Node,
    key: str,
    *,
    is_recorded: bool,
) -> Iterator[tuple[Node, Variant | None]]:
    """Yield a task, and the same task with another prompt for each of its `variants`.

    Recorded completions are answers to one prompt: they are taken for those of the task itself.
    """
    problems = project.problems
    definition = task.field("definition")
    listed = definition.field("variants")
    if listed.is_null:
        yield task, None
        return
    bare = definition.without("variants")
    task = task.having("definition", bare)
    if is_recorded:
        message = "recorded completions are answers to one prompt: `variants` are left out"
        problems.notice(message, listed.place)
        yield task, None
        return
    yield task, Variant(key, BASE)
    solver = bare.field("solver")
    if "input_builder" not in solver.entries:
        message = "`variants` are other prompts, and the task's solver has none"
        problems.add("E108", message, listed.place, "give the task a `single_turn_solver`")
        return
    candidates: list[tuple[str | None, str, Place]] = [(BASE, BASE, definition.place)]
    candidates += [(entry.key, "variant", entry.place) for entry in listed.items]
    assign_keys(candidates, problems, what="variant", within="in the task")
    for entry in listed.items:
        fields = validate_node(variant_model(), entry, problems, name="the variant")
        if fields is not None and entry.key is not None:
            prompt = solver.having("input_builder", entry.entries["input_builder"])
            yield task.having("definition", bare.having("solver", prompt)), Variant(key, entry.key)


def _specify(
    project: Project,
    entries: Sequence[Node],
    settings: Mapping[str, Given],
    common: Mapping[str, Any],
) -> list[Specification | None]:
    """Return the specifications of an evaluation; None for one that cannot be built.

    `settings` are config values for the tasks, `common` is what the run says of all of them.
    """
    candidates: list[tuple[str | None, str, Place]] = []
    for entry in entries:
        candidates.append((entry.key, str(entry.field("task_key").value), entry.place))
    keys = assign_keys(candidates, project.problems, what="task specification", within=_WITHIN)
    specifications: list[Specification | None] = []
    for entry, key in zip(entries, keys, strict=True):
        specifications += _specify_entry(project, entry, key, keys, settings, common)
    for each in filter(None, specifications):
        if each.variant and each.variant.key != BASE and each.key in keys:
            message = f"task specification key `{each.key}` is used twice {_WITHIN}"
            place = each.task.place("definition")
            project.problems.add("E114", message, place, "give each its own `key`")
    return specifications


def _specify_entry(
    project: Project,
    entry: Node,
    key: str,
    keys: Sequence[str],
    settings: Mapping[str, Given],
    common: Mapping[str, Any],
) -> list[Specification | None]:
    """Return the specification of one task, and those of its variants."""
    problems = project.problems
    entry = carry_over(entry, "specification", problems)
    fields = validate_node(SpecificationFields, entry, problems, name="the task specification")
    if fields is None:
        return [None]
    values = read_given(entry.field("task_config"), problems, name="task_config")
    task_key = fields.task_key
    node = _find_task(project, task_key)
    if node is None:
        if "tasks" not in project.unread and "<<" not in task_key:
            hint = suggest(task_key, project.tasks) or f"tasks: {listing(project.tasks)}"
            place = entry.entries["task_key"].place
            problems.add("E113", f"task `{task_key}` is not defined", place, hint)
        return [None]
    if task_key not in project.tasks:
        values = definitions.adopt(project, load_ready_made(task_key), values)
    values |= pick_declared(settings, node)
    node = override_trials(node, common.get("trials", Node(None, Place())), entry.field("trials"))
    is_recorded = project.overrides.brings_completions or fields.completions is not None
    specifications: list[Specification | None] = []
    for task_node, variant in _list_variants(project, node, key, is_recorded=is_recorded):
        config = definitions.resolve(project, task_node, values)
        _check_task_results(config, keys, entry.place, problems)
        task = build_task(task_node, config, problems)
        specification = None
        if task is not None:
            definitions.check_references(project, config)
            specification = _build_specification(project, task, fields, entry, key, common)
        if specification is not None and variant is not None:
            name = key if variant.key == BASE else f"{key}-{variant.key}"
            specification = replace(specification, key=name, variant=variant)
        specifications.append(specification)
    return specifications


def _check_task_results(
    config: Config,
    keys: Sequence[str],
    place: Place,
    problems: Problems,
) -> None:
    """Report `task_result` parameters that name no task specification."""
    for name, target in config.of_type("task_result").items():
        if target not in keys:
            hint = suggest(target, keys) or f"task specifications: {listing(keys)}"
            message = f"config value `{name}` names the task specification `{target}`, "
            message += "which is not defined"
            problems.add("E113", message, config.places.get(name, place), hint)


def _build_specification(
    project: Project,
    task: Task,
    fields: SpecificationFields,
    entry: Node,
    key: str,
    common: Mapping[str, Any],
) -> Specification | None:
    """Return a task with its dataset, model and judges; None without a dataset."""
    dataset = _choose_dataset(task, project)
    needs_model = task.solver is not None and task.solver.needs_model
    completions = _find_completions(project, fields, entry)
    if needs_model and project.overrides.model is not None:
        completions = None  # the caller's model is called in place of the file's completions
    reference = definitions.find_given_model(project) or fields.model_key
    model = None
    if reference is not None:
        is_called = needs_model and completions is None
        model = _choose_model(project, reference, fields, entry, is_called=is_called)
    examples = _choose_examples(task, dataset, project)
    judges = definitions.find_judges(project, task)
    if dataset is None:
        return None
    model_name = fields.model_key
    if model_name in project.models:
        model_name = project.models[model_name].title
    return Specification(
        key=key,
        task=task,
        dataset=dataset,
        display_name=fields.display_name,
        model=model,
        model_key=reference,
        model_name=model_name,
        selection=_select_rows(common, fields, project.overrides),
        num_runs=fields.repeatability.num_runs if fields.repeatability else 1,
        examples=examples,
        judges=judges,
        completions=completions,
    )


def _select_rows(
    common: Mapping[str, Any],
    fields: SpecificationFields,
    overrides: Overrides,
) -> Selection:
    """Return which rows are used; the caller's word wins, then the task specification's."""
    selected = {name: value for name, value in common.items() if name in _SELECTION}
    for layer in (fields, overrides):
        for name in _SELECTION:
            value = getattr(layer, name, None)
            if value is not None:
                selected[name] = value
    return Selection(**selected)


def _choose_model(
    project: Project,
    reference: str,
    fields: SpecificationFields,
    entry: Node,
    *,
    is_called: bool,
) -> str | ModelConfig | None:
    """Return the model to call; None when recorded completions take its place."""
    from answerkey.spec.models import build_generation

    is_callers = project.overrides.model is not None
    place = Place(file="--model") if is_callers else entry.key_place("model_key")
    generation = None
    if is_called and not project.overrides.brings_completions:
        generation = build_generation(fields)
    return definitions.find_model(project, reference, place, generation, is_callers=is_callers)


def _find_completions(
    project: Project,
    fields: SpecificationFields,
    entry: Node,
) -> Path | str | None:
    """Return the file of recorded completions that a task specification names."""
    if fields.completions is None:
        return None
    try:
        place = entry.entries["completions"].place
        return resolve_stated(fields.completions, place, project.folder)
    except SpecError as error:
        project.problems.report(error)
        return None


def _choose_examples(
    task: Task,
    dataset: DatasetSpec | None,
    project: Project,
) -> DatasetSpec | None:
    """Return the dataset that a solver takes its examples from."""
    examples = getattr(task.solver, "examples", None)
    if examples is None:
        return None
    if examples.dataset == task.dataset_key:
        return dataset
    place = task.place("definition", "solver", "examples", "dataset")
    return definitions.find_dataset(project, examples.dataset, place)


def _choose_dataset(task: Task, project: Project) -> DatasetSpec | None:
    """Return the caller's dataset, or the task's, or the only one of the run file."""
    if project.overrides.dataset is not None:
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
    if "datasets" not in project.unread:
        message = f"task `{task.key}` names no dataset"
        project.problems.add("E119", message, task.place("definition"), hint)
    return None
