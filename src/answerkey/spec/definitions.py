"""What a run file defines by key: datasets, models, adapters and tasks; and how they are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from answerkey.errors import (
    AnswerkeyError,
    Place,
    SpecError,
    listing,
    suggest,
)
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
from answerkey.scorers import asks_model
from answerkey.spec.config import (
    Config,
    Given,
    resolve_config,
)
from answerkey.spec.nodes import (
    Node,
    Problems,
    with_key,
)
from answerkey.spec.project import YAML_ENDINGS, Project
from answerkey.spec.ready_made import ReadyMade, open_raw_files
from answerkey.spec.sources import (
    DatasetSpec,
    build_dataset,
    is_remote,
)
from answerkey.spec.task import Task, build_task
from answerkey.spec.yaml_text import resolve_path

Judges = dict[str, str | ModelConfig]


def define(project: Project, node: Node) -> None:
    """Add the datasets, models, adapters and tasks of a run file; report keys used twice."""
    problems = project.problems
    for name in ("datasets", "models", "model_adapters", "tasks"):
        if node.is_broken or _lacks_entry(node.at(name)):
            project.unread.add(name)
    for entry in map(with_key, node.at("datasets").items):
        dataset = build_dataset(entry, problems, base=project.folder)
        _keep(dataset, entry, project.datasets, "dataset", project)
    if node.at("models").items or node.at("model_adapters").items:
        _define_models(project, node)
    for entry in map(with_key, node.at("tasks").items):
        if entry.key is None:
            check_unused_task(entry, problems)
            continue
        if entry.key in project.tasks:
            message = f"task key `{entry.key}` is used twice"
            problems.add("E114", message, entry.key_place("key"))
        project.tasks.setdefault(entry.key, entry)


def _lacks_entry(listed: Node) -> bool:
    """Return whether a list has an entry that could not be read, or whose key could not be."""
    keys = (entry.entries.get("key", entry) for entry in listed.items)
    return listed.is_broken or any(key.is_broken for key in keys)


def _define_models(project: Project, node: Node) -> None:
    from answerkey.spec.models import build_adapter, build_model

    for entry in node.at("models").items:
        model = build_model(entry, project.problems)
        _keep(model, entry, project.models, "model", project)
    for entry in node.at("model_adapters").items:
        adapter = build_adapter(entry, project.problems)
        _keep(adapter, entry, project.adapters, "model adapter", project)
    if "model_adapters" not in project.unread:
        for key in project.models:
            _check_adapter(project, key)


def _check_adapter(project: Project, key: str) -> None:
    from answerkey.spec.models import OWN_ADAPTERS

    model = project.models[key]
    adapters = OWN_ADAPTERS | project.adapters.keys()
    if model.adapter is not None and model.adapter not in adapters:
        hint = suggest(model.adapter, adapters) or f"adapters: {listing(sorted(adapters))}"
        message = f"model adapter `{model.adapter}` is not defined"
        project.problems.add("E113", message, model.place, hint)


def _keep(
    built: Any,  # noqa: ANN401 - whatever has a key
    entry: Node,
    kept: dict[str, Any],
    what: str,
    project: Project,
) -> None:
    if built is None:
        project.broken.add(entry.key or "")
        return
    if built.key in kept:
        project.problems.add("E114", f"{what} key `{built.key}` is used twice", entry.place)
    kept.setdefault(built.key, built)


def check_unused_task(node: Node, problems: Problems) -> None:
    """Report what is wrong with a task that is not run: config values need not be given."""
    build_task(node, resolve_config(node, {}, problems, needs_all=False), problems)


def open_given_dataset(project: Project) -> None:
    """Open what `--dataset` names: a key of the run file, a dataset file, data, or an address."""
    location = project.overrides.dataset
    if location is None:
        return
    if not isinstance(location, str | Path):
        project.given_dataset = DatasetSpec("samples", location)
        return
    path = Path(location)
    # A folder may be called like the benchmark whose files it has.
    if str(location) in project.datasets and not (project.open_files and path.exists()):
        project.given_dataset = project.datasets[str(location)]
        return
    try:
        if is_remote(location):
            project.given_dataset = (project.open_files or DatasetSpec.of_path)(location)
        elif path.suffix.lower() in YAML_ENDINGS:
            node = with_key(project.read(path, limit=path.parent))
            project.given_dataset = build_dataset(node, project.problems, base=path.parent)
        elif path.exists():
            project.given_dataset = (project.open_files or DatasetSpec.of_path)(location)
        else:
            raise _refuse_dataset_path(project, path)
    except AnswerkeyError as error:
        project.problems.report(error)


def _refuse_dataset_path(project: Project, path: Path) -> SpecError:
    files = sorted(map(str, path.parent.iterdir())) if path.parent.is_dir() else []
    hint = suggest(str(path), files) or f"files there: {listing(files, limit=5)}"
    if project.datasets:
        hint += f" datasets of the run file: {listing(project.datasets)}"
    message = f"`--dataset {path}`: there is no such file"
    return SpecError("E119", message, where=Place(file=str(path)), hint=hint)


def find_dataset(
    project: Project,
    key: str,
    place: Place,
) -> DatasetSpec | None:
    """Return a dataset by key; report one that is not defined."""
    if key in project.datasets:
        return project.datasets[key]
    if key not in project.broken and "datasets" not in project.unread and "<<" not in key:
        hint = "give the file with `--dataset FILE`"
        if project.datasets:
            hint = suggest(key, project.datasets) or f"datasets: {listing(project.datasets)}"
        project.problems.add("E113", f"dataset `{key}` is not defined", place, hint)
        project.broken.add(key)
    return None


def find_given_model(project: Project) -> str | None:
    """Return the model that the caller names, as a file would: by key, path, or provider."""
    name = project.overrides.model_name
    if name is None or name in project.models:
        return name
    if isinstance(project.overrides.model, ModelConfig):
        return name
    if name.lower().endswith(YAML_ENDINGS) and (Path(name).exists() or not is_live(name)):
        return str(resolve_path(Path(name), Place(file="--model")))
    if suggest(name, project.models):
        return name
    return complete_name(name)


def open_model_file(
    project: Project,
    path: str,
    typed: str | None = None,
) -> None:
    """Define the model of a model file by its path; errors show the path as `typed`."""
    if path in project.models or path in project.broken:
        return
    from answerkey.spec.models import build_model

    model = None
    try:
        node = project.read(Path(typed or path), limit=Path(path).parent)
        model = build_model(node, project.problems)
    except SpecError as error:
        project.problems.report(error)
    if model is None:
        project.broken.add(path)
        return
    project.models[path] = model
    _check_adapter(project, path)


def _open_given_model_file(project: Project, reference: str) -> None:
    if reference.lower().endswith(YAML_ENDINGS) and reference == find_given_model(project):
        open_model_file(project, reference, project.overrides.model_name)


def choose_model(
    project: Project,
    reference: str,
    place: Place,
    *,
    is_callers: bool = False,
) -> str | ModelConfig:
    """Return the model that a reference means, for `open_model`; raise SpecError if it is none.

    `is_callers`: the caller wrote the reference, not a file.
    """
    model = project.overrides.model
    if isinstance(model, ModelConfig) and reference == model.name:
        return model
    environment = project.environment
    hosts = frozenset(project.overrides.allow_hosts)
    caller = Caller(environment.values, environment.project_names, hosts)
    name = reference
    spec = project.models.get(reference)
    if spec is not None:
        if spec.config is not None:
            config = spec.config.config
            if isinstance(config, CustomConfig) and spec.adapter is not None:
                config = replace(config, adapter=project.adapters.get(spec.adapter))
            return replace(spec.config, config=config, caller=caller)
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


def _suggest_model(
    project: Project,
    name: str,
    *,
    is_callers: bool,
) -> str:
    from answerkey.models.model import suggest_model

    near = suggest(name, project.models)
    whole = complete_name(name)
    hints = []
    if near or project.models or not is_callers:
        hints.append(near or f"models: {listing(project.models)}")
    if whole != name:
        hints.append(f"write `{whole}` for the model of that provider")
    elif not near:
        hints.append(suggest_model(name) if is_callers else "or name one as `builtin/random`")
    return "; ".join(hints)


def prepare_model(
    project: Project,
    reference: str,
    place: Place,
    generation: Generation,
    *,
    is_callers: bool,
) -> str | ModelConfig:
    """Return a model that will be called, with its generation; raise SpecError if it cannot be."""
    model = choose_model(project, reference, place, is_callers=is_callers)
    if reference in project.models and project.models[reference].task == "embeddings":
        message = f"model `{reference}` gives embeddings: it cannot complete prompts"
        raise SpecError("E301", message, where=place)
    if isinstance(model, str) or model is project.overrides.model:
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
    *,
    is_callers: bool = False,
) -> str | ModelConfig | None:
    """Return a model to call; report one that is not defined, or cannot be called.

    Without `generation` it is not called, and None is returned.
    """
    _open_given_model_file(project, reference)
    if reference in project.broken or "<<" in reference:
        return None
    try:
        if generation is None:
            choose_model(project, reference, place, is_callers=is_callers)
            return None
        model = prepare_model(project, reference, place, generation, is_callers=is_callers)
    except SpecError as error:
        if error.code != "E113" or "models" not in project.unread:
            project.problems.report(error)
        return None
    if isinstance(model, str) and generation.given():
        project.problems.notice(f"`generation` has no effect on the model `{model}`", place)
    return model


def list_judges(task: Task) -> dict[str, tuple[str, Place]]:
    """Return how the scorers that call a model name it, and where, by the scorer's key."""
    judges = {}
    for step in task.scoring:
        if asks_model(step.scorer):
            judges[step.key] = (step.scorer.model_key, task.place(*step.model_path))
    return judges


def find_judges(
    project: Project,
    task: Task,
    *,
    is_callers: bool = False,
) -> Judges:
    """Return the model of each scorer that calls one, by the scorer's key; report mistakes."""
    judges: Judges = {}
    for key, (name, place) in list_judges(task).items():
        model = find_model(project, name, place, Generation(), is_callers=is_callers)
        if model is not None:
            judges[key] = model
    return judges


def check_references(project: Project, config: Config) -> None:
    """Report `dataset` and `model` parameters that name nothing."""
    if project.given_dataset is None:
        for key, name in config.of_type("dataset").items():
            find_dataset(project, name, config.places.get(key, Place()))
    for key, name in config.of_type("model").items():
        find_model(project, name, config.places.get(key, Place()), None)


def resolve(
    project: Project,
    node: Node,
    settings: Mapping[str, Given],
) -> Config:
    """Return the config of a task or an evaluation.

    `--dataset` and `--model` are for parameters that have neither a value nor a default.
    """
    fallbacks: dict[str, Given] = {}
    model = find_given_model(project)
    if project.given_dataset is not None:
        fallbacks["dataset"] = Given(project.given_dataset.key, Place(file="--dataset"))
    if model is not None:
        fallbacks["model"] = Given(model, Place(file="--model"))
    return resolve_config(node, settings, project.problems, fallbacks=fallbacks)


def adopt(
    project: Project,
    ready: ReadyMade,
    settings: Mapping[str, Given],
) -> dict[str, Given]:
    """Add the datasets of a ready-made task; return its config values, which name them.

    They may depend on the config (`split`, `subset`): each kind of them has a key of its own.
    """
    mistakes = Problems()  # they are reported when the task is built
    config = ready.config(settings, mistakes)
    chosen = dict(settings)
    if mistakes.errors:
        project.broken |= {ready.name, f"{ready.name}_examples"}
        return chosen
    problems = project.problems
    project.open_files = partial(
        open_raw_files,
        ready=ready,
        config=config,
        problems=problems,
    )
    for parameter, node in ready.hub_datasets():
        dataset = build_dataset(config.fill(node, problems), problems, base=project.folder)
        if dataset is not None and parameter in settings:
            name = str(settings[parameter].value)
            path = project.folder / name
            if parameter != "examples" or name in project.datasets or not path.exists():
                continue
            opened = project.open_files(str(path))
            dataset = opened and replace(opened, key=dataset.key, place=dataset.place)
        if dataset is not None:
            chosen[parameter] = Given(_add_dataset(project, dataset), ready.hub.place)
    return chosen


def _add_dataset(project: Project, dataset: DatasetSpec) -> str:
    """Add a dataset of the hub under a key of its own, unless the run file has one; return it."""
    key = dataset.key
    numbers = count(2)
    while True:
        present = project.datasets.setdefault(key, replace(dataset, key=key))
        is_users = (present.place and present.place.file) != (dataset.place and dataset.place.file)
        if is_users or present.source == dataset.source:
            return key
        key = f"{dataset.key}-{next(numbers)}"
