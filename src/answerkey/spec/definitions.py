"""What a run file defines: datasets, models, adapters and tasks by key, and how a reference finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answerkey.errors import AnswerkeyError, Place, SpecError, listing, suggest
from answerkey.models import Adapter, Caller, ModelConfig
from answerkey.spec.config import Config, Given
from answerkey.spec.connections import ModelSpec, build_model
from answerkey.spec.findings import Findings
from answerkey.spec.model_choice import Choice, Models, build_adapter, check_adapters
from answerkey.spec.nodes import MapNode, Node, key_of, list_entries
from answerkey.spec.opening import YAML_SUFFIXES, Project
from answerkey.spec.parameters import DatasetParameter, ModelParameter, Parameter
from answerkey.spec.plans import Overrides
from answerkey.spec.sources import DatasetSpec, build_dataset, is_remote
from answerkey.spec.task_building import build_task


@dataclass
class Definitions:
    """What a run file defines, by key, and what the caller adds to it; a broken one is not also undefined.

    `unread` names the lists (`datasets`, `tasks` …) that lack something which could not be read: nothing can
    be said to be missing there. `own_tasks` are those of the file, not ready-made ones. `open_files` reads
    files that the caller gives otherwise than as they are.
    """

    project: Project
    datasets: dict[str, DatasetSpec] = field(default_factory=dict)
    broken_datasets: set[str] = field(default_factory=set)
    models: dict[str, ModelSpec] = field(default_factory=dict)
    broken_models: set[str] = field(default_factory=set)
    adapters: dict[str, Adapter] = field(default_factory=dict)
    tasks: dict[str, MapNode] = field(default_factory=dict)
    own_tasks: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    given_dataset: DatasetSpec | None = None
    open_files: Callable[[str | Path], DatasetSpec | None] | None = None

    @property
    def findings(self) -> Findings:
        """What was found so far."""
        return self.project.findings

    @property
    def overrides(self) -> Overrides:
        """What the caller says."""
        return self.project.overrides

    def offer_models(self) -> Models:
        """Return the models that a reference can mean."""
        environment = self.project.environment
        hosts = frozenset(self.overrides.allow_hosts)
        caller = Caller(environment.values, environment.project_names, hosts)
        return Models(self.models, self.adapters, caller)


def read_definitions(node: MapNode, known: Definitions) -> None:
    """Read datasets, models and adapters, and find the tasks; keys that appear twice are reported."""
    findings = known.findings
    known.unread.update(name for name in _LISTS if _is_unread(node, name))
    for entry in list_entries(node, "datasets"):
        dataset = build_dataset(entry, findings, base=known.project.folder)
        if dataset is None:
            known.broken_datasets.update(filter(None, [key_of(entry)]))
        else:
            _keep(dataset, known.datasets, findings, what="dataset")
    for entry in list_entries(node, "models"):
        model = build_model(entry, findings)
        if model is None:
            known.broken_models.update(filter(None, [key_of(entry)]))
        else:
            _keep(model, known.models, findings, what="model")
    for entry in list_entries(node, "model_adapters"):
        _keep_adapter(entry, known)
    if "model_adapters" not in known.unread:
        check_adapters(known.models, known.adapters, findings)
    for entry in list_entries(node, "tasks"):
        key = key_of(entry)
        if not isinstance(entry, MapNode) or key is None:
            build_task(entry, {}, findings, needs_all=False)
            continue
        if key in known.tasks:
            findings.add("E114", f"task key `{key}` is used twice", entry.key_place("key"))
        known.tasks.setdefault(key, entry)
        known.own_tasks.add(key)


def _keep_adapter(entry: Node, known: Definitions) -> None:
    adapter = build_adapter(entry, known.findings)
    if adapter is not None and adapter.key in known.adapters:
        known.findings.add("E114", f"model adapter key `{adapter.key}` is used twice", entry.place)
    if adapter is not None:
        known.adapters.setdefault(adapter.key, adapter)


_LISTS = ("datasets", "models", "model_adapters", "tasks")


def _is_unread(node: MapNode, name: str) -> bool:
    listed = node.get(name)
    is_broken = node.is_broken or (listed is not None and listed.is_broken)
    return is_broken or any(_lacks_key(entry) for entry in list_entries(node, name))


def _lacks_key(entry: Node) -> bool:
    """Return whether nobody can tell the key, because it or all around it could not be had."""
    key = entry.get("key") if isinstance(entry, MapNode) else None
    return entry.is_broken if key is None else key.is_broken


def _keep(built: DatasetSpec | ModelSpec, kept: dict[str, Any], findings: Findings, *, what: str) -> None:
    if built.key in kept:
        findings.add("E114", f"{what} key `{built.key}` is used twice", built.place)
    kept.setdefault(built.key, built)


def open_given_dataset(known: Definitions) -> DatasetSpec | None:
    """Return the dataset of `--dataset`: a key of the run file, a dataset file, data files or an address."""
    given = known.overrides.dataset
    if given is None:
        return None
    if str(given) in known.datasets:
        return known.datasets[str(given)]
    try:
        if Path(given).suffix.lower() in YAML_SUFFIXES and not is_remote(str(given)):
            return _read_dataset(Path(given), known)
        if not is_remote(str(given)) and not Path(given).exists():
            raise _refuse_missing(given, known)
        return known.open_files(given) if known.open_files else DatasetSpec.of_path(given)
    except AnswerkeyError as error:
        known.findings.report(error)
        return None


def _read_dataset(path: Path, known: Definitions) -> DatasetSpec | None:
    return build_dataset(known.project.read(path, limit=path.parent), known.findings, base=path.parent)


def _refuse_missing(given: str | Path, known: Definitions) -> SpecError:
    hint = f"datasets of the run file: {listing(known.datasets)}" if known.datasets else None
    message = f"`--dataset {given}`: there is no such file"
    return SpecError("E119", message, where=Place(file=str(given)), hint=hint)


def find_dataset(key: str, known: Definitions, place: Place) -> DatasetSpec | None:
    """Return a dataset by key; report one that is not defined."""
    found = known.datasets.get(key)
    is_told = key in known.broken_datasets or "datasets" in known.unread or "<<" in key
    if found is None and not is_told:
        hint = suggest(key, known.datasets)
        if hint is None:
            hint = (
                f"datasets: {listing(known.datasets)}"
                if known.datasets
                else "give the file with `--dataset FILE`"
            )
        known.findings.add("E113", f"dataset `{key}` is not defined", place, hint)
        known.broken_datasets.add(key)
    return found


def find_model(choice: Choice, known: Definitions, *, is_asked: bool) -> str | ModelConfig | None:
    """Return a model to ask, or None; report one that is not defined, or cannot be asked and is to be."""
    if choice.reference in known.broken_models or "<<" in choice.reference:
        return None
    models = known.offer_models()
    try:
        found = models.choose(choice) if is_asked else models.find(choice)
    except SpecError as error:
        if error.code != "E113" or "models" not in known.unread:
            known.findings.report(error)
        return None
    if is_asked and isinstance(found, str) and choice.generation.given():
        known.findings.notice(f"`generation` has no effect on the model `{found}`", choice.place)
    return found if is_asked else None


def check_named(config: Config, known: Definitions) -> None:
    """Report `dataset` and `model` parameters that name nothing."""
    for key, name in config.of_type("dataset").items():
        if known.given_dataset is None:
            find_dataset(name, known, config.places.get(key, Place()))
    for key, name in config.of_type("model").items():
        find_model(Choice(name, config.places.get(key, Place())), known, is_asked=False)


def fill_open(
    parameters: Mapping[str, Parameter], given: Mapping[str, Given], known: Definitions
) -> Mapping[str, Given]:
    """Return the given values, with `--dataset` and `--model` for parameters that are left open."""
    filled = dict(given)
    for key, parameter in parameters.items():
        if key in given or parameter.has_default:
            continue
        if isinstance(parameter, DatasetParameter) and known.given_dataset is not None:
            filled[key] = Given(known.given_dataset.key, Place(file="--dataset"))
        if isinstance(parameter, ModelParameter) and known.overrides.model is not None:
            filled[key] = Given(known.overrides.model, Place(file="--model"))
    return filled
