"""A ready-made task among what a run defines: its task, its dataset on the hub, its forms of raw files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import cast

from answerkey.spec.config import Config, Given, read_parameters, resolve_config
from answerkey.spec.definitions import Definitions
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode
from answerkey.spec.raw_files import open_raw_files
from answerkey.spec.ready_made import ReadyMade, list_ready_made, load_ready_made
from answerkey.spec.sources import DatasetSpec, build_dataset

#: The parameter of every ready-made task that names its dataset.
DATASET = "dataset"


def find_among_ready_made(name: str) -> ReadyMade | None:
    """Return the ready-made task that a key names, or None."""
    return load_ready_made(name) if name in list_ready_made() else None


def adopt(ready: ReadyMade, given: Mapping[str, Given], known: Definitions) -> dict[str, Given]:
    """Add a ready-made task to what is defined; return its config values, with its dataset among them.

    The dataset may depend on the config (`split`, `subset`), so that each kind of it has a key of its own.
    """
    config = _read_config(ready, given)
    known.tasks.setdefault(ready.name, ready.task)
    if config is None:
        known.broken_datasets.add(ready.name)
        return dict(given)
    known.open_files = partial(open_raw_files, ready=ready, config=config, findings=known.findings)
    node = cast("MapNode", config.fill(ready.hub_dataset(), known.findings))
    dataset = build_dataset(node, known.findings, base=known.project.folder)
    if DATASET in given or dataset is None:
        return dict(given)
    return {**given, DATASET: Given(_keep(dataset, known), ready.hub.place)}


def _read_config(ready: ReadyMade, given: Mapping[str, Given]) -> Config | None:
    """Return the config of the task; None for a mistake in it, which is told when the task is built."""
    findings = Findings()
    parameters = read_parameters(ready.task.get("config_spec"), findings)
    known = {name: one for name, one in given.items() if name in parameters}
    config = resolve_config(parameters, known, findings, place=ready.task.place)
    return None if findings.errors else config


def _keep(dataset: DatasetSpec, known: Definitions) -> str:
    """Keep a dataset under a key, which is returned; one that the run file defines itself stays."""
    numbered = (f"{dataset.key}-{number}" for number in count(2))
    for key in chain([dataset.key], numbered):
        there = known.datasets.setdefault(key, replace(dataset, key=key))
        is_users = (there.place and there.place.file) != (dataset.place and dataset.place.file)
        if is_users or there.source == dataset.source:
            return key
    raise AssertionError
