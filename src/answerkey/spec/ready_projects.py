"""A ready-made task as files of a project, to be changed: run file, task file, dataset file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict
from textwrap import wrap
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from answerkey.errors import raise_all
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, to_plain
from answerkey.spec.raw_files import open_raw_files
from answerkey.spec.ready_made import ReadyMade

_WIDTH = 110
_RUN_COMMENT = "# A run puts the pieces together. `builtin/random` answers by chance: name your model here.\n"
_DATASET_COMMENT = "# Where the questions come from, and how each column that the task reads is derived.\n"


def write_project(ready: ReadyMade, dataset: str | None = None) -> dict[str, str]:
    """Return the files of a project by name; `dataset` is a file or folder in place of the hub."""
    task = cast("dict[str, Any]", to_plain(ready.task))
    source = _describe_source(ready, dataset)
    described = {"key": ready.name, "display_name": ready.about.title, "source": source}
    evaluation = {
        "key": ready.name,
        "display_name": ready.about.title,
        "task_specifications": [
            {
                "task_key": ready.name,
                "task_config": {"dataset": ready.name},
                "model_key": "builtin/random?seed=0",
            }
        ],
    }
    run = {
        "datasets": [{"$ref": "dataset.yaml"}],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": evaluation,
    }
    about = ready.about
    comment = "".join(
        f"{line}\n"
        for text in (f"{about.title}. {about.citation}", f"Licence: {about.licence}")
        for line in wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    )
    return {
        "run.yaml": _RUN_COMMENT + _dump(run),
        "task.yaml": comment + _dump(task),
        "dataset.yaml": _DATASET_COMMENT + _dump(described),
    }


def _describe_source(ready: ReadyMade, dataset: str | None) -> dict[str, Any]:
    findings = Findings()
    if dataset is None:
        filled = cast("MapNode", ready.default_config().fill(ready.hub_dataset(), findings))
        return cast("dict[str, Any]", to_plain(filled.entries["source"]))
    found = open_raw_files(dataset, ready, ready.default_config(), findings)
    raise_all(findings.errors)
    source: Any = found.source if found else None
    plain = asdict(source)
    filters = [{key: value for key, value in one.items() if value is not None} for one in plain["filters"]]
    place = getattr(source, "path_field", "url")
    stated = {"type": plain.pop("type"), place: plain.pop(place), **plain, "filters": filters}
    return {key: value for key, value in stated.items() if value not in (None, {}, [], 0)}


def _dump(plain: Mapping[str, Any]) -> str:
    yaml = YAML()
    yaml.width = _WIDTH
    yaml.allow_unicode = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_lay_out(plain), out)
    return out.getvalue()


def _lay_out(value: object) -> object:
    """Return plain values with texts of several lines as blocks."""
    if isinstance(value, Mapping):
        return {key: _lay_out(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_lay_out(one) for one in value]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
