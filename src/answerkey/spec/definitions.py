"""The definitions of a run file by key: datasets, models, adapters and tasks; and their lookup."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.errors import AnswerkeyError, Place, SpecError, listing, suggest
from answerkey.models.config import (
    Caller,
    CustomConfig,
    Generation,
    ModelConfig,
    is_live,
    read_name,
)
from answerkey.models.names import complete_name
from answerkey.sandbox import check_snippet
from answerkey.spec.config import Settings, resolve_config
from answerkey.spec.job import ModelChoice
from answerkey.spec.nodes import Json, Node, advise, with_key
from answerkey.spec.project import YAML_ENDINGS, Project
from answerkey.spec.sources import DatasetSpec, build_dataset
from answerkey.spec.task import build_task

if TYPE_CHECKING:
    from answerkey.spec.ready_made import ReadyMade


def define(project: Project, node: Node) -> None:
    """Add the datasets, models, adapters and tasks of a run file; report keys used twice."""
    earlier = len(project.problems.errors)
    for written in node.field("datasets").items:
        entry = with_key(written)
        dataset = build_dataset(entry, project.folder)
        _add_unique(dataset, entry, project.datasets, "dataset")
    if node.entries.keys() & {"models", "model_adapters"}:
        _define_models(project, node)
    for written in node.field("tasks").items:
        entry = with_key(written)
        if entry.key is None:
            check_unused_task(entry)
            continue
        if entry.key in project.tasks:
            entry.report("E114", f"task key `{entry.key}` is used twice", key="key")
        project.tasks.setdefault(entry.key, entry)
    project.is_faulty = len(project.problems.errors) > earlier


def _define_models(project: Project, node: Node) -> None:
    from answerkey.spec.models import OWN_ADAPTERS, build_adapter, build_model

    for entry in node.field("models").items:
        _add_unique(build_model(entry), entry, project.models, "model")
    for entry in node.field("model_adapters").items:
        _add_unique(build_adapter(entry), entry, project.adapters, "model adapter")
    adapters = OWN_ADAPTERS | project.adapters.keys()
    for model in project.models.values():
        if model.adapter is not None and model.adapter not in adapters:
            message = f"model adapter `{model.adapter}` is not defined"
            hint = advise(model.adapter, sorted(adapters), "adapters")
            project.problems.add("E113", message, model.place, hint)


def _add_unique(
    built: Any,  # noqa: ANN401 - whatever has a key
    entry: Node,
    kept: Json,
    what: str,
) -> None:
    if built is not None and built.key in kept:
        entry.report("E114", f"{what} key `{built.key}` is used twice")
    elif built is not None:
        kept[built.key] = built


def check_unused_task(node: Node) -> None:
    """Report the mistakes in a task that is not run; config values may be missing."""
    build_task(node, resolve_config(node, {}, needs_all=False))


def report_missing_file(project: Project, path: Path) -> None:
    """Report that `--dataset` names neither a file nor a dataset of the run file."""
    names = [*project.datasets]
    if path.parent.is_dir():
        names += sorted(map(str, path.parent.iterdir()))
    hint = suggest(str(path), names) or f"there are: {listing(names, limit=5)}"
    message = f"`--dataset {path}`: there is no such file"
    project.problems.add("E119", message, Place(file=str(path)), hint)


def find_task(project: Project, key: str) -> Node | None:
    """Return a task of the run file, or a ready-made one."""
    from answerkey.spec.ready_made import list_ready_made, load_ready_made

    if key not in project.tasks and key in list_ready_made():
        return load_ready_made(key, project.problems).task
    return project.tasks.get(key)


def open_task(
    project: Project,
    entry: Node,
    key: str,
    settings: Settings,
) -> tuple[Node | None, Settings]:
    """Return the ready-made task that a specification names, and its config values.

    Report a task that is not defined.
    """
    from answerkey.spec.ready_made import list_ready_made, load_ready_made

    if key in list_ready_made():
        ready = load_ready_made(key, project.problems)
        return ready.task, add_datasets(project, ready, settings)
    if not project.is_faulty and "<<" not in key:
        hint = advise(key, project.tasks, "tasks")
        entry.entries["task_key"].report("E113", f"task `{key}` is not defined", hint)
    return None, settings


def find_dataset(
    project: Project,
    key: str,
    place: Place,
) -> DatasetSpec | None:
    """Return a dataset by key; report one that is not defined."""
    if key in project.datasets:
        return project.datasets[key]
    hint = "give the file with `--dataset FILE`"
    if project.datasets:
        hint = advise(key, project.datasets, "datasets")
    message = f"dataset `{key}` is not defined"
    messages = [error.message for error in project.problems.errors]
    is_known = project.is_faulty or "<<" in key or message in messages
    if not is_known:
        project.problems.add("E113", message, place, hint)
    return None


def find_given_model(project: Project) -> str | None:
    """Return the model that the caller names, as a file would: by key, path or provider."""
    name = project.options.model_name
    if name is None or isinstance(project.options.model, ModelConfig):
        return name
    if name in project.models or suggest(name, project.models):
        return name
    if is_model_file(name):
        return open_model_file(project, name)
    return complete_name(name)


def is_model_file(name: str) -> bool:
    """Return whether the name of a model is the path of a model file."""
    return name.lower().endswith(YAML_ENDINGS) and Path(name).is_file()


def open_model_file(project: Project, name: str) -> str:
    """Define the model of a model file, and return the path that is its key from then on."""
    from answerkey.spec.models import build_model

    path = Path(name).resolve()
    if str(path) not in project.models:
        model = build_model(project.read(path, limit=path.parent))
        if model is not None:
            project.models[str(path)] = model
        project.is_faulty |= model is None
    return str(path)


def choose_model(project: Project, reference: str, place: Place) -> ModelChoice:
    """Return the model that a reference means, for `open_model`; SpecError if there is none."""
    model = project.options.model
    is_callers = project.is_callers
    if is_callers is None:
        is_callers = reference == find_given_model(project)
    if isinstance(model, ModelConfig) and reference == model.name:
        return model
    environment = project.environment
    hosts = frozenset(project.options.allow_hosts)
    caller = Caller(environment.values, environment.project_names, hosts)
    name = reference
    spec = project.models.get(reference)
    if spec is not None and spec.config is not None:
        config = _add_adapter(project, spec.config, spec.adapter)
        return replace(config, caller=caller)
    if spec is not None:
        name = spec.name or reference
    elif "/" not in reference and ":" not in reference:
        hint = _suggest_model(project, reference, is_callers=is_callers)
        raise SpecError("E113", f"model `{reference}` is not defined", where=place, hint=hint)
    try:
        if is_live(name):
            return read_name(
                name,
                caller=caller,
                is_callers=is_callers,
                place=place,
            )
        from answerkey.models.model import open_model

        open_model(name)
    except SpecError as error:
        raise SpecError(error.code, error.message, where=place, hint=error.hint) from None
    return name


def _add_adapter(
    project: Project,
    model: ModelConfig,
    adapter: str | None,
) -> ModelConfig:
    """Return a model with the adapter that the run file defines for it."""
    config = model.config
    if adapter is None or not isinstance(config, CustomConfig):
        return model
    config = replace(config, adapter=project.adapters.get(adapter))
    return replace(model, config=config)


def _suggest_model(
    project: Project,
    name: str,
    *,
    is_callers: bool,
) -> str:
    from answerkey.models.model import suggest_model

    whole = complete_name(name)
    hints = []
    if project.models:
        hints.append(advise(name, project.models, "models"))
    elif not is_callers:
        hints.append("name it as `provider/model` or by its URL, or define it in a run file")
    if whole != name:
        hints.append(f"write `{whole}` for the model of that provider")
    elif is_callers:
        hints.append(suggest_model(name))
    return "; ".join(hints)


def prepare_model(
    project: Project,
    reference: str,
    place: Place,
    generation: Generation,
) -> ModelChoice:
    """Return a model that will be called, with its generation; raise SpecError if it cannot be."""
    model = choose_model(project, reference, place)
    if reference in project.models and project.models[reference].task == "embeddings":
        message = f"model `{reference}` gives embeddings: it cannot complete prompts"
        raise SpecError("E301", message, where=place)
    if isinstance(model, str) or model is project.options.model:
        return model
    model = replace(model, generation=generation.over(model.generation))
    if not model.snippets:
        from answerkey.models.model import open_model

        open_model(model)
        return model
    mistake = check_snippet(model.snippets[0])
    if mistake is not None:
        raise mistake
    return model


def find_model(
    project: Project,
    reference: str,
    place: Place,
    generation: Generation | None,
) -> ModelChoice | None:
    """Return a model to call; report one that is not defined, or cannot be called.

    Without `generation` it is not called, and None is returned.
    """
    if "<<" in reference:
        return None
    try:
        if generation is None:
            choose_model(project, reference, place)
            return None
        model = prepare_model(project, reference, place, generation)
    except AnswerkeyError as error:
        if error.code != "E113" or not project.is_faulty:
            project.problems.report(error)
        return None
    if isinstance(model, str) and generation.given():
        project.problems.notice(f"`generation` has no effect on the model `{model}`", place)
    return model


def add_datasets(
    project: Project,
    ready: ReadyMade,
    settings: Settings,
) -> dict[str, Node]:
    """Add the datasets of a ready-made task; return its config values, which name them.

    They may depend on the config (`split`, `subset`): each kind of them has a key of its own.
    """
    from answerkey.spec.ready_made import open_raw_files

    earlier = len(project.problems.errors)
    config = ready.config(settings)
    chosen = dict(settings)
    if len(project.problems.errors) > earlier:
        project.is_faulty = True
        return chosen
    project.open_files = partial(open_raw_files, ready=ready, config=config)
    for parameter, node in ready.hub_datasets():
        dataset = build_dataset(config.fill(node), project.folder)
        if dataset is not None and parameter in settings:
            name = str(settings[parameter].value)
            path = project.folder / name
            is_file = name not in project.datasets and path.exists()
            if parameter != "examples" or not is_file:
                continue
            opened = project.open_files(str(path))
            if opened is None:
                continue
            dataset = replace(opened, key=dataset.key, place=dataset.place)
        if dataset is not None:
            key = _add_dataset(project, dataset)
            chosen[parameter] = ready.hub.changed(key)
    return chosen


def _add_dataset(project: Project, dataset: DatasetSpec) -> str:
    """Add a dataset of the hub under a key of its own, unless the run file has one; return it."""
    key = dataset.key
    numbers = count(2)
    while True:
        present = project.datasets.setdefault(key, replace(dataset, key=key))
        is_users = _find_file(present) != _find_file(dataset)
        if is_users or present.source == dataset.source:
            return key
        key = f"{dataset.key}-{next(numbers)}"


def _find_file(dataset: DatasetSpec) -> str | None:
    return dataset.place.file if dataset.place else None
