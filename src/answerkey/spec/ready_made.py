"""Ready-made tasks: the files of `benchmarks`, raw files of a benchmark, and a task as a project of
its own.

A file has `about` (what people need to know), `task` (in what its task file differs from the
others), `hub` (the source `huggingface`) and `forms`: how to tell what a file on disk is, and which
columns to derive so that the task can read it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import wrap
from typing import Any
from urllib.parse import urlsplit

from answerkey.datasets.sources import UrlSource, list_files
from answerkey.datasets.storage import allow_fetching
from answerkey.datasets.tables import load_table, matches
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    Place,
    SpecError,
    find_near,
    listing,
    raise_all,
)
from answerkey.spec.config import Config, Given, pick_declared, resolve_config
from answerkey.spec.nodes import Node, Problems, from_plain, to_plain
from answerkey.spec.project import RUN_NAMES
from answerkey.spec.sources import DatasetSpec, build_source, is_remote, name_dataset
from answerkey.spec.yaml_text import parse_yaml

FOLDER = "benchmarks"
#: Where the caller names a dataset.
_PLACE = Place(file="--dataset")
_WIDTH = 110
_RUN_COMMENT = (
    "# A run puts the pieces together. `builtin/random` answers by chance: name your model here.\n"
)
_DATASET_COMMENT = (
    "# Where the questions come from, and how each column that the task reads is derived.\n"
)


@dataclass(frozen=True, kw_only=True)
class About:
    """What people need to know of a benchmark; `chance` is the mean of 1/K over its rows.

    `expected` are published numbers, each with `model`, `value`, `setting` and the address of its
    `source`. The hub gives out a `gated` dataset only to those who accepted its terms.
    """

    title: str
    summary: str
    languages: Sequence[str]
    rows: int | None = None
    options: str
    chance: float | None = None
    category: str | None = None
    homepage: str
    citation: str
    licence: str
    expected: Sequence[Mapping[str, Any]] = ()
    gated: bool = False


@dataclass(frozen=True)
class Form:
    """How to tell a form of raw files, and how they are read: `how` has fields of a dataset's
    source.

    They are told by the ending of their names and the columns they have. Of a folder, the files
    that `prefer` matches are read if there are some.
    """

    description: str
    expects: Sequence[str]
    how: Node
    prefer: str | None = None
    extension: str | None = None


@dataclass(frozen=True)
class ReadyMade:
    """A ready-made task by name, with the dataset on the hub and its own forms of raw files.

    `shots` has the fields of `hub` that lead to the rows for few-shot prompts; none for a task
    without.
    """

    name: str
    about: About
    task: Node
    hub: Node
    own_forms: tuple[Form, ...]
    shots: Node

    @property
    def forms(self) -> Iterator[Form]:
        """The forms of a benchmark, and last the one that its task reads without any change."""
        yield from self.own_forms
        category = self.about.category or "category"
        derive = {category: f"{{{{ sample['{category}'] | default('all') }}}}"}
        text = "a table with `question`, `options` (a list of texts) and `answer` (a letter)"
        yield Form(text, ("question", "options", "answer"), from_plain({"derive": derive}, _PLACE))

    @property
    def parameters(self) -> Iterator[tuple[str, object, str]]:
        """The config values that may be given: key, default, what it is."""
        for entry in to_plain(self.task)["config_spec"]:
            yield entry["key"], entry.get("default_value"), entry.get("description", "")

    def config(self, given: Mapping[str, Given], problems: Problems) -> Config:
        """Return the config of the task; values that it does not declare are left out."""
        return resolve_config(self.task, pick_declared(given, self.task), problems)

    def describe(self) -> dict[str, Any]:
        """Return all that is to be known as plain values."""
        hub = to_plain(self.config({}, Problems()).fill(self.hub, Problems()))
        return {
            "name": self.name,
            **asdict(self.about),
            "hub": {key: hub[key] for key in ("path", "name", "split", "revision") if key in hub},
            "forms": [
                {"description": one.description, "columns": list(one.expects)}
                for one in self.own_forms
            ],
            "config": [
                {"key": key, "default": default, "description": text}
                for key, default, text in self.parameters
            ],
        }

    def hub_datasets(self) -> Iterator[tuple[str, Node]]:
        """Yield the datasets on the hub, as dataset files would have them, by the config value for
        each.

        These are the questions and, where there may be some, the examples.
        """
        place, kinds = (
            self.hub.place,
            {"dataset": ({}, ""), "examples": (self.shots.entries, "_examples")},
        )
        for parameter, (more, ending) in kinds.items():
            source = {"type": Node("huggingface", place), **self.hub.entries, **more}
            entries = {
                "key": Node(self.name + ending, place),
                "display_name": Node(self.about.title, place),
                "source": Node(source, place, keys=self.hub.keys),
            }
            if more or not ending:
                yield parameter, Node(entries, place)


@cache
def _paths() -> Mapping[str, Any]:
    found = (files("answerkey.spec") / FOLDER).iterdir()
    named = {path.name.removesuffix(".yaml"): path for path in found if path.name.endswith(".yaml")}
    return dict(sorted(named.items()))


def list_ready_made() -> list[str]:
    """Return the names of all ready-made tasks."""
    return list(_paths())


def find_ready_made(given: object) -> str | None:
    """Return the ready-made task that a caller means.

    A file, or a folder with a run file, comes first.
    """
    if not isinstance(given, str | Path):
        return None
    name, path = str(given).lower().replace("-", "_"), Path(given)
    if name not in _paths() or path.is_file():
        return None
    is_project = path.is_dir() and any((path / one).is_file() for one in RUN_NAMES)
    return None if is_project else name


def suggest_ready_made(name: str) -> str | None:
    """Return the hint to the ready-made task that a name may mean, and to its part that has that
    name.
    """
    wanted = name.lower().replace("-", "_")
    near = find_near(wanted, _paths()) or [one for one in _paths() if wanted.startswith(f"{one}_")]
    if not near:
        return None
    for entry in to_plain(load_ready_made(near[-1]).task)["config_spec"]:
        for value in entry.get("allowed_values", ()):
            if str(value).lower().replace("-", "_") == wanted:
                return f"did you mean `{near[-1]}` with `--config {entry['key']}={value}`?"
    return f"did you mean `{near[-1]}`?"


@cache
def load_ready_made(name: str) -> ReadyMade:
    """Return a ready-made task; raises SpecError for a name that there is not."""
    paths = _paths()
    if name not in paths:
        near = suggest_ready_made(name) or f"there are: {listing(paths)}"
        raise SpecError("E113", f"there is no ready-made task `{name}`", hint=near)
    root = parse_yaml(paths[name].read_text(encoding="utf-8"), f"{FOLDER}/{name}.yaml", Problems())
    told = {one.name for one in fields(Form)} - {"how"}
    forms = {}
    for key, form in root.at("forms").entries.items():
        stated = {one: to_plain(entry) for one, entry in form.entries.items() if one in told}
        forms[key] = Form(how=form.without(*told), **stated)
    hub = root.entries["hub"]
    read_as = forms[hub.at("form").value].how
    complete = Node({**hub.without("form").entries, **read_as.entries}, hub.place, keys=hub.keys)
    about, task = About(**to_plain(root.at("about"))), root.entries["task"]
    written = from_plain(_write_task(name, about, to_plain(task)), task.place)
    shots = task.at("shots").at("from") if "shots" in task.entries else Node({}, task.place)
    return ReadyMade(name, about, written, complete, tuple(forms.values()), shots)


#: What the config values of ready-made tasks are called, and what they are.
_CONFIG = {
    "dataset": ("Dataset", "A dataset of the run file in place of the one on the hub."),
    "split": ("Split", "Which split of the hub's dataset is asked."),
    "subset": ("Subset", "Which set of the hub's dataset is asked."),
    "language": ("Language", "Which language of the hub's dataset is asked."),
    "labels": ("Labels", "Which rows are asked, by what annotators say of their labels."),
    "orders": ("Order of the options", "In which order the options are shown."),
    "prompt": ("Prompt", "Whose wording of the prompt is used."),
    "extraction": ("Extraction rule", "How the choice is read from the completion."),
    "shots": ("Shots", "How many solved examples stand before the question."),
    "examples": (
        "Examples",
        "A file or a dataset of the run file with examples, in place of the hub's.",
    ),
}
_ORDERS = ("shuffled", "original", "rotations")
_EXTRACTIONS = ("stated_answer", "first_character", "first_character_literal", "leading_label")
_LETTERS = "'ABCDEFGHIJKLMNOPQRSTUVWXYZ'"
#: A line of a prompt that stands for one for each option: `[A. option]`, `[(A) option]`.
_OPTION = re.compile(r"\n\[(\W*)A(\W+)option\]")
_LINE = rf"\n\1{{{{ {_LETTERS}[loop.index0] }}}}\2{{{{ option }}}}\n"
_PROMPT = """\
{{ sample.question }}

[A. option]

Answer with the letter of the right option and nothing else.
Answer:"""


def _write_task(name: str, about: About, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task file of a benchmark, whose own file says in what it differs from the others.

    `choose` has config values with all that they may be, `prompts` the wordings by name, ours
    first, `shots` what few-shot prompts are made of: `by`, `answer`, `from`. `images` are columns.
    """
    shots, prompts = own.get("shots"), own.get("prompts") or {"answerkey": _PROMPT}
    messages: Any = {wording: _write_messages(text, own) for wording, text in prompts.items()}
    choices = dict(own.get("choose") or {}) | ({"orders": _ORDERS} if own.get("shuffled") else {})
    choices |= ({"prompt": messages} if len(prompts) > 1 else {}) | {"extraction": _EXTRACTIONS}
    parameters: list[dict[str, Any]] = [
        {"type": "dataset", "key": "dataset", "default_value": name}
    ]
    for key, allowed in choices.items():
        mapping = {"values_mapping": allowed} if isinstance(allowed, Mapping) else {}
        stated = {"type": "categorical", "key": key, "default_value": next(iter(allowed))}
        parameters.append({**stated, "allowed_values": list(allowed), **mapping})
    definition: dict[str, Any] = {"dataset": {"key": "<< config.dataset >>"}}
    solver: dict[str, Any] = {"type": "single_turn_solver"}
    if shots is not None:
        parameters.append({"type": "int", "key": "shots", "default_value": 0, "min": 0})
        parameters.append(
            {"type": "dataset", "key": "examples", "default_value": f"{name}_examples"}
        )
        solver["examples"] = {
            "dataset": "<< config.examples >>",
            "num_examples": "<< config.shots >>",
        }
        solver["examples"] |= {"by": shots["by"]} if "by" in shots else {}
    if group := own.get("group_by", about.category):
        definition["group_by"] = group
    if "orders" in choices:
        definition["choice_order"] = {
            "options": "{{ sample.options }}",
            "orders": "<< config.orders >>",
        }
    chosen = "<< config.prompt >>" if len(prompts) > 1 else next(iter(messages.values()))
    definition["solver"] = {
        **solver,
        "input_builder": {"type": "chat_completion", "input_messages": chosen},
    }
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": f"{{{{ {_LETTERS}[:sample.options | length] | list }}}}",
        "options": "{{ sample.options }}",
        "extraction": "<< config.extraction >>",
        "metrics": [{"type": "mean", "field": "is_correct", "name": "Accuracy"}],
    }
    told = {
        key: {"display_name": title, "description": text} for key, (title, text) in _CONFIG.items()
    }
    return {
        "key": name,
        "display_name": about.title,
        "description": own["description"],
        "tasks": ["chat_completion"],
        "tags": ["ready-made", *own["tags"]],
        "config_spec": [{**one, **told[one["key"]]} for one in parameters],
        "definition": {**definition, "scorers": [scorer]},
    }


def _write_messages(prompt: str, own: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a wording: the examples as turns of their own, where there may be
    any.
    """
    question = _OPTION.sub(rf"{{% for option in sample.options %}}{_LINE}{{%- endfor %}}", prompt)
    if columns := own.get("images"):
        images = [
            {"type": "image", "image": f"{{{{ sample.{one} | default(none) }}}}"} for one in columns
        ]
        return [{"role": "user", "content": [{"type": "text", "text": question}, *images]}]
    turns = [
        ("user", question),
        ("assistant", own.get("shots", {}).get("answer", "{{ sample.answer }}")),
    ]
    shown = [
        {"role": role, "content": re.sub(r"\bsample\b", "example", text), "for_each": "examples"}
        for role, text in (turns if "shots" in own else ())
    ]
    return [*shown, {"role": "user", "content": question}]


def open_raw_files(
    given: str | Path, ready: ReadyMade, config: Config, problems: Problems
) -> DatasetSpec | None:
    """Return what a caller gives as the data of a ready-made task: files, told by their columns.

    Report what has none of its forms; raise DataError for a file that cannot be had.
    """
    seen: list[str] = []
    for form in ready.forms:
        found = _find_files(given, form)
        if found is None:
            continue
        stated, first, notice = found
        filled = config.fill(form.how, problems, ("source",))
        entries = {name: Node(value, _PLACE) for name, value in stated.items()} | filled.entries
        node = Node(entries, _PLACE, keys=filled.keys)
        how: Any = build_source(node, Problems(), base=Path())
        try:
            columns = list(load_table(first, how).rows.columns)
        except AnswerkeyError:  # read so, it has none
            columns = []
        if set(form.expects) <= set(columns):
            if notice is not None:
                hint = "to read others, give a single file or a folder with them alone"
                problems.notice(notice, Place(file=stated["directory_path"]), hint)
            source = build_source(node, problems, base=Path())
            title = ready.about.title
            return (
                None
                if source is None
                else DatasetSpec(name_dataset(given), source, title, place=_PLACE)
            )
        seen = seen or columns
    columns_text = f" (columns: {listing(seen)})" if seen else ""
    known = "; ".join(form.description for form in ready.forms)
    message = (
        f"`--dataset {given}` is no data of `{ready.name}` in a form that is known{columns_text}"
    )
    hint = f"known are: {known}. Or give a dataset file that derives these columns"
    problems.report(DataError("E206", message, where=Place(file=str(given)), hint=hint))
    return None


def _find_files(given: str | Path, form: Form) -> tuple[dict[str, str], Path, str | None] | None:
    """Return how a source names the files that may have a form by their names, and the first of
    them.

    The third is what to say when not all files of a folder are read.
    """
    path = Path(given)
    is_folder = not is_remote(str(given)) and path.is_dir()
    if not is_folder:
        name = urlsplit(str(given)).path if is_remote(str(given)) else path.name
        if form.extension is not None and form.extension not in name.lower().split(".")[1:]:
            return None
        if is_remote(str(given)):
            allow_fetching(str(given))
            return {"type": "url", "url": str(given)}, UrlSource(url=str(given)).fetch().path, None
        return {"type": "local", "file_path": str(path.resolve())}, path, None
    there = list(list_files(path, form.extension).values())
    if not there or (form.extension is None and len({one.suffix for one in there}) > 1):
        return None
    stated = {"type": "folder", "directory_path": str(path.resolve())}
    if form.extension:
        stated["extension"] = form.extension
    wanted = [
        one
        for one in there
        if form.prefer and matches(one.relative_to(path).as_posix(), form.prefer)
    ]
    if not form.prefer or not wanted or len(wanted) == len(there):
        return stated, there[0], None
    notice = f"of {len(there)} files only those that match `{form.prefer}` are read: {len(wanted)}"
    return {**stated, "pattern": form.prefer}, wanted[0], notice


def write_project(ready: ReadyMade, dataset: str | None = None) -> dict[str, str]:
    """Return a ready-made task as files of a project.

    `dataset` is a file or folder in place of the hub.
    """
    about, key, problems = ready.about, ready.name, Problems()
    config = ready.config({}, problems)
    described = {name: to_plain(config.fill(node, problems)) for name, node in ready.hub_datasets()}
    if dataset is not None:
        opened = open_raw_files(dataset, ready, config, problems)
        raise_all(problems.errors)
        found: Any = opened.source if opened else None
        plain = asdict(found)
        filters = [
            {name: one for name, one in each.items() if one is not None}
            for each in plain["filters"]
        ]
        place = getattr(found, "path_field", "url")
        stated = {"type": plain.pop("type"), place: plain.pop(place), **plain, "filters": filters}
        source = {name: value for name, value in stated.items() if value not in (None, {}, [], 0)}
        described["dataset"] = {**described["dataset"], "source": source}
    asked = {"task_key": key, "task_config": {"dataset": key}, "model_key": "builtin/random?seed=0"}
    run = {
        "datasets": [{"$ref": f"{name}.yaml"} for name in described],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": {"key": key, "display_name": about.title, "task_specifications": [asked]},
    }
    comment = "".join(
        f"{line}\n"
        for text in (f"{about.title}. {about.citation}", f"Licence: {about.licence}")
        for line in wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    )
    return {
        "run.yaml": _RUN_COMMENT + write_yaml(run),
        "task.yaml": comment + write_yaml(to_plain(ready.task)),
        **{f"{name}.yaml": _DATASET_COMMENT + write_yaml(one) for name, one in described.items()},
    }


def write_yaml(plain: Mapping[str, Any]) -> str:
    """Return plain values as YAML, with texts of several lines as blocks."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import LiteralScalarString

    def lay_out(value: object) -> object:
        if isinstance(value, Mapping):
            return {key: lay_out(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [lay_out(one) for one in value]
        return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value

    yaml = YAML()
    yaml.width = _WIDTH
    yaml.allow_unicode = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(lay_out(plain), out)
    return out.getvalue()
