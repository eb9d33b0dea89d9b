"""Ready-made tasks: the files of `benchmarks`, each a task, where its data is, and how raw files of it look.

A file has `about` (what people need to know), `task` (a task file), `hub` (the source `huggingface`) and
`forms`: how to tell what a file on disk is, and which columns to derive so that the task can read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from answerkey.errors import SpecError, listing, suggest
from answerkey.spec.config import Config, read_parameters, resolve_config
from answerkey.spec.fields import Fields, Number, Text, Whole
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, ScalarNode, list_entries
from answerkey.spec.opening import RUN_NAMES
from answerkey.spec.reader import parse_yaml
from answerkey.spec.validation import validate_node

FOLDER = "benchmarks"
#: What a form says beside how files are read.
_BESIDE = ("description", "expects", "prefer", "extension")


class About(Fields):
    """What people need to know of a benchmark; `chance` is the mean of 1/K over its rows."""

    title: Text
    summary: Text
    languages: tuple[Text, ...]
    rows: Whole | None = None
    options: Text
    chance: Annotated[Number, Field(gt=0, lt=1)] | None = None
    category: Text | None = None
    homepage: Text
    citation: Text
    licence: Text


class FormFields(Fields):
    """How to tell a form of raw files: by the ending of their names and the columns they have.

    Of a folder, the files that `prefer` matches are read if there are some. `reading` fields are those of a
    dataset's source.
    """

    description: Text
    expects: tuple[Text, ...]
    prefer: Text | None = None
    extension: Text | None = None


@dataclass(frozen=True)
class Form:
    """A form of raw files; `source` is the part of a dataset's source that says how they are read."""

    key: str
    description: str
    expects: tuple[str, ...]
    prefer: str | None
    extension: str | None
    source: MapNode


@dataclass(frozen=True)
class ReadyMade:
    """A ready-made task by name."""

    name: str
    about: About
    task: MapNode
    hub: MapNode
    forms: tuple[Form, ...]

    @property
    def parameters(self) -> Iterator[tuple[str, object, str]]:
        """The config values that may be given: key, default, what it is."""
        for entry in list_entries(self.task, "config_spec"):
            plain = cast("MapNode", entry).entries
            told = {name: node.value for name, node in plain.items() if isinstance(node, ScalarNode)}
            yield str(told["key"]), told.get("default_value"), str(told.get("description", ""))

    def default_config(self) -> Config:
        """Return the config when nothing is given."""
        parameters = read_parameters(self.task.get("config_spec"), Findings())
        return resolve_config(parameters, {}, Findings(), place=self.task.place)

    def describe(self) -> dict[str, Any]:
        """Return all that is to be known as plain values."""
        about = self.about.model_dump(mode="json")
        filled = cast("MapNode", self.default_config().fill(self.hub, Findings()))
        hub = {name: node.value for name, node in filled.entries.items() if isinstance(node, ScalarNode)}
        return {
            "name": self.name,
            **about,
            "hub": {key: hub[key] for key in ("path", "name", "split", "revision") if key in hub},
            "forms": [{"description": one.description, "columns": list(one.expects)} for one in self.forms],
            "config": [
                {"key": key, "default": default, "description": text}
                for key, default, text in self.parameters
            ],
        }

    def hub_dataset(self) -> MapNode:
        """Return the dataset on the hub, as a dataset file would describe it."""
        place = self.hub.place
        return MapNode(
            {
                "key": ScalarNode(self.name, place),
                "display_name": ScalarNode(self.about.title, place),
                "source": MapNode(
                    {"type": ScalarNode("huggingface", place), **self.hub.entries}, place, self.hub.keys
                ),
            },
            place,
        )


def list_ready_made() -> list[str]:
    """Return the names of all ready-made tasks."""
    return list(_paths())


@cache
def _paths() -> Mapping[str, Any]:
    found = (files("answerkey.spec") / FOLDER).iterdir()
    named = {path.name.removesuffix(".yaml"): path for path in found if path.name.endswith(".yaml")}
    return dict(sorted(named.items()))


def find_ready_made(given: object) -> str | None:
    """Return the ready-made task that a caller means; a file, or a folder with a run file, comes first."""
    if not isinstance(given, str | Path):
        return None
    name = str(given).lower().replace("-", "_")
    if name not in _paths():
        return None
    path = Path(given)
    is_project = path.is_dir() and any((path / one).is_file() for one in RUN_NAMES)
    return None if path.is_file() or is_project else name


@cache
def load_ready_made(name: str) -> ReadyMade:
    """Return a ready-made task; raises SpecError for a name that there is not."""
    paths = _paths()
    if name not in paths:
        near = suggest(name, paths) or f"there are: {listing(paths)}"
        raise SpecError("E113", f"there is no ready-made task `{name}`", hint=near)
    findings = Findings()
    node = parse_yaml(paths[name].read_text(encoding="utf-8"), f"{FOLDER}/{name}.yaml", findings)
    parts = cast("MapNode", node).entries
    about = validate_node(About, parts["about"], findings, name="`about`")
    forms = [_read_form(key, form, findings) for key, form in cast("MapNode", parts["forms"]).entries.items()]
    if findings.errors or about is None:
        raise findings.errors[0]
    hub = cast("MapNode", parts["hub"])
    by_key = {form.key: form for form in forms}
    read_as = str(cast("ScalarNode", hub.entries["form"]).value)
    complete = MapNode({**hub.without("form").entries, **by_key[read_as].source.entries}, hub.place, hub.keys)
    return ReadyMade(name, about, cast("MapNode", parts["task"]), complete, tuple(forms))


def _read_form(key: str, node: Node, findings: Findings) -> Form:
    whole = cast("MapNode", node)
    told = MapNode({name: whole.entries[name] for name in _BESIDE if name in whole.entries}, whole.place)
    fields = validate_node(FormFields, told, findings, name=f"form `{key}`")
    if fields is None:
        raise findings.errors[0]
    return Form(
        key, fields.description, fields.expects, fields.prefer, fields.extension, whole.without(*_BESIDE)
    )
