"""What a run file defines: datasets, models, adapters and tasks by key, and how a reference finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.spec.config import Config, Given
from answerkey.spec.connections import ModelSpec, build_adapter, build_model, check_adapters, choose_model
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, key_of, list_entries
from answerkey.spec.opening import YAML_SUFFIXES, Project
from answerkey.spec.parameters import DatasetParameter, ModelParameter, Parameter
from answerkey.spec.plans import Overrides
from answerkey.spec.sources import DatasetSpec, build_dataset
from answerkey.spec.task_building import build_task


@dataclass
class Definitions:
    """What a run file defines, by key, and what the caller adds to it; a broken one is not also undefined."""

    project: Project
    datasets: dict[str, DatasetSpec] = field(default_factory=dict)
    broken_datasets: set[str] = field(default_factory=set)
    models: dict[str, ModelSpec] = field(default_factory=dict)
    broken_models: set[str] = field(default_factory=set)
    tasks: dict[str, MapNode] = field(default_factory=dict)
    given_dataset: DatasetSpec | None = None

    @property
    def findings(self) -> Findings:
        """What was found so far."""
        return self.project.findings

    @property
    def overrides(self) -> Overrides:
        """What the caller says."""
        return self.project.overrides


def read_definitions(node: MapNode, known: Definitions) -> None:
    """Read datasets, models and adapters, and find the tasks; keys that appear twice are reported."""
    findings = known.findings
    for entry in list_entries(node, "datasets"):
        dataset = build_dataset(entry, findings, base=known.project.folder)
        _keep(dataset, entry, known.datasets, known.broken_datasets, findings, "dataset")
    for entry in list_entries(node, "models"):
        model = build_model(entry, findings)
        _keep(model, entry, known.models, known.broken_models, findings, "model")
    adapters = {
        key for entry in list_entries(node, "model_adapters") if (key := build_adapter(entry, findings))
    }
    check_adapters(known.models, adapters, findings)
    for entry in list_entries(node, "tasks"):
        key = key_of(entry)
        if not isinstance(entry, MapNode) or key is None:
            build_task(entry, {}, findings, needs_all=False)
            continue
        if key in known.tasks:
            findings.add("E114", f"task key `{key}` is used twice", entry.key_place("key"))
        known.tasks.setdefault(key, entry)


def _keep(
    built: DatasetSpec | ModelSpec | None,
    entry: Node,
    kept: dict[str, Any],
    broken: set[str],
    findings: Findings,
    what: str,
) -> None:
    if built is None:
        broken.update({key} if (key := key_of(entry)) else ())
        return
    if built.key in kept:
        findings.add("E114", f"{what} key `{built.key}` is used twice", built.place)
    kept.setdefault(built.key, built)


def open_given_dataset(known: Definitions) -> DatasetSpec | None:
    """Return the dataset of `--dataset`: a key of the run file, a dataset file, or a data file."""
    given = known.overrides.dataset
    if given is None:
        return None
    if str(given) in known.datasets:
        return known.datasets[str(given)]
    path = Path(given)
    if path.suffix.lower() not in YAML_SUFFIXES:
        if not path.is_file():
            hint = f"datasets of the run file: {listing(known.datasets)}" if known.datasets else None
            known.findings.add(
                "E119", f"`--dataset {given}`: there is no such file", Place(file=str(given)), hint
            )
        return DatasetSpec.of_file(path)
    try:
        return build_dataset(known.project.read(path, limit=path.parent), known.findings, base=path.parent)
    except SpecError as error:
        known.findings.report(error)
        return None


def find_dataset(key: str, known: Definitions, place: Place) -> DatasetSpec | None:
    """Return a dataset by key; report one that is not defined."""
    found = known.datasets.get(key)
    if found is None and key not in known.broken_datasets and "<<" not in key:
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


def find_model(reference: str, known: Definitions, place: Place, *, is_asked: bool) -> str | None:
    """Return the name of a model to ask, or None; report one that is not defined or cannot be asked."""
    if reference in known.broken_models or "<<" in reference or (reference in known.models and not is_asked):
        return None
    try:
        return choose_model(reference, known.models, place)
    except SpecError as error:
        known.findings.report(error)
        return None


def check_named(config: Config, known: Definitions) -> None:
    """Report `dataset` and `model` parameters that name nothing."""
    for key, name in config.of_type("dataset").items():
        if known.given_dataset is None:
            find_dataset(name, known, config.places.get(key, Place()))
    for key, name in config.of_type("model").items():
        find_model(name, known, config.places.get(key, Place()), is_asked=False)


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
