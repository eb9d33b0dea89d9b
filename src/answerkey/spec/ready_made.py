"""Ready-made tasks: the files of `benchmarks`, a benchmark's raw files, and a task as a project.

A file has `about` (what people need to know), `task` (how its task file differs from the others),
`hub` (the source `huggingface`) and `forms`: how to recognise a file on disk, and which columns to
derive so that the task can read it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import wrap
from typing import Any
from urllib.parse import urlsplit

from answerkey.datasets.sources import list_files
from answerkey.datasets.storage import allow_fetching
from answerkey.datasets.tables import load_table, matches
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    Place,
    SpecError,
    listing,
    raise_all,
    suggest,
)
from answerkey.spec.config import Config, Settings, resolve_config
from answerkey.spec.nodes import (
    Json,
    Location,
    Node,
    ProblemList,
    from_plain,
    parse_yaml,
    to_plain,
)
from answerkey.spec.project import BENCHMARKS
from answerkey.spec.sources import DatasetSpec, build_source, is_remote, name_dataset

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
    """Facts about a benchmark for readers; `chance` is the mean of 1/K over its rows.

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
    """How to recognise a form of raw files, and how they are read: `how` has fields of a source.

    They are recognised by the ending of their names and the columns they have. Of a folder, the
    files that match `prefer` are read if there are some.
    """

    description: str
    expects: Sequence[str]
    how: Node
    prefer: str | None = None
    extension: str | None = None


@dataclass(frozen=True)
class ReadyMade:
    """A ready-made task by name, with the dataset on the hub and its own forms of raw files.

    `shots` has the fields of `hub` that lead to the rows for few-shot prompts; it may be empty.
    """

    name: str
    about: About
    task: Node
    hub: Node
    own_forms: tuple[Form, ...]
    shots: Node

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of a benchmark, and last the one that its task reads without any change."""
        category = self.about.category or "category"
        derive = {category: f"{{{{ sample['{category}'] | default('all') }}}}"}
        text = "a table with `question`, `options` (a list of texts) and `answer` (a letter)"
        columns = ("question", "options", "answer")
        how = from_plain({"derive": derive}, _PLACE, self.task.problems)
        return (*self.own_forms, Form(text, columns, how))

    @property
    def parameters(self) -> Iterator[tuple[str, object, str]]:
        """The config values: key, default and description."""
        for entry in to_plain(self.task)["config_spec"]:
            default = entry.get("default_value")
            yield entry["key"], default, entry.get("description", "")

    def config(self, settings: Settings) -> Config:
        """Return the config of the task; values that it does not declare are left out."""
        return resolve_config(self.task, {}, settings)

    def describe(self) -> Json:
        """Return everything about the task as plain values."""
        config_values = self.config({})
        hub = to_plain(config_values.fill(self.hub))
        forms = []
        for form in self.own_forms:
            forms.append({"description": form.description, "columns": list(form.expects)})
        config = []
        for key, default, text in self.parameters:
            config.append(
                {
                    "key": key,
                    "default": default,
                    "description": text,
                }
            )
        return {
            "name": self.name,
            **asdict(self.about),
            "hub": {key: hub[key] for key in ("path", "name", "split", "revision") if key in hub},
            "forms": forms,
            "config": config,
        }

    def hub_datasets(self) -> Iterator[tuple[str, Node]]:
        """Yield the datasets on the hub, as dataset files, by the config value that names each.

        These are the questions and, where there may be some, the examples.
        """
        yield "dataset", self._write_dataset(self.name, {})
        if self.shots.entries:
            yield "examples", self._write_dataset(f"{self.name}_examples", self.shots.entries)

    def _write_dataset(self, key: str, fields: Mapping[str, Node]) -> Node:
        hub = self.hub
        source = replace(
            hub,
            value={
                "type": hub.changed("huggingface"),
                **hub.entries,
                **fields,
            },
        )
        names = {"key": hub.changed(key), "display_name": hub.changed(self.about.title)}
        return hub.changed({**names, "source": source})


@cache
def list_ready_made() -> Sequence[str]:
    """Return the names of all ready-made tasks."""
    paths = (files("answerkey.spec") / BENCHMARKS).iterdir()
    return sorted(path.name.removesuffix(".yaml") for path in paths if path.name.endswith(".yaml"))


def suggest_ready_made(name: str) -> str | None:
    """Return a hint to the ready-made task that a name may mean."""
    folded = name.lower().replace("-", "_")
    near = suggest(folded, list_ready_made())
    if near is not None:
        return near
    for task in list_ready_made():
        if folded.startswith(f"{task}_"):
            return f"did you mean `{task}`?"
    return None


def load_ready_made(name: str, problems: ProblemList | None = None) -> ReadyMade:
    """Return a ready-made task; raises SpecError for an unknown name."""
    if name not in list_ready_made():
        near = suggest_ready_made(name) or f"there are: {listing(list_ready_made())}"
        raise SpecError("E113", f"there is no ready-made task `{name}`", hint=near)
    problems = problems or ProblemList()
    file = f"{BENCHMARKS}/{name}.yaml"
    text = (files("answerkey.spec") / file).read_text(encoding="utf-8")
    root = parse_yaml(text, file, problems)
    forms = {}
    for key, node in root.at("forms").entries.items():
        forms[key] = _read_form(node)
    hub = root.entries["hub"]
    form = forms[hub.at("form").value]
    source = {**hub.without("form").entries, **form.how.entries}
    about = About(**to_plain(root.at("about")))
    task = root.entries["task"]
    return ReadyMade(
        name,
        about,
        from_plain(_write_task(name, about, to_plain(task)), task.place, problems),
        replace(hub, value=source),
        tuple(forms.values()),
        task.field("shots").field("from"),
    )


def _read_form(node: Node) -> Form:
    names = ("description", "expects", "prefer", "extension")
    fields = {}
    for name in names:
        if name in node.entries:
            fields[name] = to_plain(node.entries[name])
    return Form(how=node.without(*names), **fields)


#: The names and descriptions of the config values of ready-made tasks.
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
#: A line of a prompt that is repeated for each option: `[A. option]`, `[(A) option]`.
_OPTION = re.compile(r"\n\[(\W*)A(\W+)option\]")
_LINE = rf"\n\1{{{{ {_LETTERS}[loop.index0] }}}}\2{{{{ option }}}}\n"
_PROMPT = """\
{{ sample.question }}

[A. option]

Answer with the letter of the right option and nothing else.
Answer:"""


def _write_task(
    name: str,
    about: About,
    benchmark: Json,
) -> Json:
    """Return the task file of a benchmark, whose own file says how it differs from the others.

    `choose` has config values with all that they may be, `prompts` the wordings by name, ours
    first, `shots` what few-shot prompts are made of: `by`, `answer`, `from`. `images` are columns.
    """
    prompts = benchmark.get("prompts") or {"answerkey": _PROMPT}
    messages: Any = {}
    for wording, text in prompts.items():
        messages[wording] = _write_messages(text, benchmark)
    choices: Json = dict(benchmark.get("choose") or {})
    definition: Json = {"dataset": {"key": "<< config.dataset >>"}}
    if group := benchmark.get("group_by", about.category):
        definition["group_by"] = group
    if benchmark.get("shuffled"):
        choices["orders"] = _ORDERS
        options = "{{ sample.options }}"
        definition["choice_order"] = {"options": options, "orders": "<< config.orders >>"}
    prompt = next(iter(messages.values()))
    if len(prompts) > 1:
        choices["prompt"] = messages
        prompt = "<< config.prompt >>"
    choices["extraction"] = _EXTRACTIONS
    definition["solver"] = {
        "type": "single_turn_solver",
        **_write_examples(benchmark),
        "input_builder": {"type": "chat_completion", "input_messages": prompt},
    }
    definition["scorers"] = [
        {
            "type": "string_equals_mcqa",
            "ground_truth_choice": "{{ sample.answer }}",
            "choices": f"{{{{ {_LETTERS}[:sample.options | length] | list }}}}",
            "options": "{{ sample.options }}",
            "extraction": "<< config.extraction >>",
            "metrics": [
                {
                    "type": "mean",
                    "field": "is_correct",
                    "name": "Accuracy",
                }
            ],
        }
    ]
    return {
        "key": name,
        "display_name": about.title,
        "description": benchmark["description"],
        "tasks": ["chat_completion"],
        "tags": ["ready-made", *benchmark["tags"]],
        "config_spec": _write_parameters(name, choices, has_shots="shots" in benchmark),
        "definition": definition,
    }


def _write_parameters(
    name: str,
    choices: Json,
    *,
    has_shots: bool,
) -> list[Json]:
    """Return the `config_spec` of a benchmark; `choices` are the categorical values."""
    dataset = {
        "type": "dataset",
        "key": "dataset",
        "default_value": name,
    }
    parameters: list[Json] = [dataset]
    for key, allowed in choices.items():
        parameter = {
            "type": "categorical",
            "key": key,
            "default_value": next(iter(allowed)),
        }
        parameter["allowed_values"] = list(allowed)
        if isinstance(allowed, Mapping):
            parameter["values_mapping"] = allowed
        parameters.append(parameter)
    if has_shots:
        parameters.append(
            {
                "type": "int",
                "key": "shots",
                "default_value": 0,
                "min": 0,
            }
        )
        parameters.append(
            {
                "type": "dataset",
                "key": "examples",
                "default_value": f"{name}_examples",
            }
        )
    for parameter in parameters:
        title, text = _CONFIG[parameter["key"]]
        parameter["display_name"] = title
        parameter["description"] = text
    return parameters


def _write_examples(benchmark: Json) -> Json:
    """Return the solver's field for few-shot examples, where there may be any."""
    if "shots" not in benchmark:
        return {}
    examples = {"dataset": "<< config.examples >>", "num_examples": "<< config.shots >>"}
    if "by" in benchmark["shots"]:
        examples["by"] = benchmark["shots"]["by"]
    return {"examples": examples}


def _write_messages(prompt: str, benchmark: Json) -> list[Json]:
    """Return the messages of a wording; examples are turns of their own."""
    question = _OPTION.sub(rf"{{% for option in sample.options %}}{_LINE}{{%- endfor %}}", prompt)
    if columns := benchmark.get("images"):
        content = [{"type": "text", "text": question}]
        for column in columns:
            image = f"{{{{ sample.{column} | default(none) }}}}"
            content.append({"type": "image", "image": image})
        return [{"role": "user", "content": content}]
    messages = []
    if "shots" in benchmark:
        answer = benchmark["shots"].get("answer", "{{ sample.answer }}")
        for role, text in (("user", question), ("assistant", answer)):
            example = re.sub(r"\bsample\b", "example", text)
            messages.append(
                {
                    "role": role,
                    "content": example,
                    "for_each": "examples",
                }
            )
    return [*messages, {"role": "user", "content": question}]


def open_raw_files(
    location: Location,
    ready: ReadyMade,
    config: Config,
) -> DatasetSpec | None:
    """Return a caller's files as the dataset of a ready-made task, recognised by their columns.

    Report files that have none of its forms; raise DataError for a file that cannot be read.
    """
    node = _describe_raw_files(location, ready, config)
    source = None if node is None else build_source(node, Path())
    if source is None:
        return None
    return DatasetSpec(name_dataset(location), source, ready.about.title, place=_PLACE)


def _describe_raw_files(
    location: Location,
    ready: ReadyMade,
    config: Config,
) -> Node | None:
    """Return the source of a dataset as a file would state it."""
    problems = ready.task.problems
    seen: list[str] = []
    for form in ready.forms:
        fields, first = _find_files(location, form)
        if first is None:
            continue
        filled = config.fill(form.how, ("source",))
        entries = from_plain(fields, _PLACE, problems).entries | filled.entries
        node = replace(filled, value=entries, place=_PLACE)
        columns = _read_columns(first, node)
        if columns >= set(form.expects):
            if "pattern" in fields:
                message = f"only the files that match `{form.prefer}` are read"
                hint = "to read others, give a single file or a folder with them alone"
                problems.notice(message, Place(file=str(location)), hint)
            return node
        seen = seen or sorted(columns)
    message = f"`--dataset {location}` has no known form of the data of `{ready.name}`"
    if seen:
        message += f" (columns: {listing(seen)})"
    forms = "; ".join(form.description for form in ready.forms)
    hint = f"known are: {forms}. Or give a dataset file that derives these columns"
    where = Place(file=str(location))
    problems.report(DataError("E206", message, where=where, hint=hint))
    return None


def _read_columns(path: Path, node: Node) -> set[str]:
    """Return the columns of a file, read as a source says; none if it cannot be read so."""
    source: Any = build_source(node, Path())
    try:
        return set(load_table(path, source).rows.columns)
    except AnswerkeyError:
        return set()


def _find_files(location: Location, form: Form) -> tuple[dict[str, str], Path | None]:
    """Return the fields of a source for files that may have a form, and the first of them."""
    path = Path(location)
    if path.is_dir() and not is_remote(location):
        return _find_in_folder(path, form)
    name = urlsplit(str(location)).path if is_remote(location) else path.name
    endings = name.lower().split(".")[1:]
    if form.extension is not None and form.extension not in endings:
        return {}, None
    if is_remote(location):
        from answerkey.datasets.web import UrlSource

        allow_fetching(str(location))
        fetched = UrlSource(url=str(location)).fetch()
        return {"type": "url", "url": str(location)}, fetched.path
    return {"type": "local", "file_path": str(path.resolve())}, path


def _find_in_folder(path: Path, form: Form) -> tuple[dict[str, str], Path | None]:
    """Return the same for a folder, whose preferred files are read if there are some."""
    paths = list(list_files(path, form.extension).values())
    preferred = []
    for file in paths:
        name = file.relative_to(path).as_posix()
        if form.prefer and matches(name, form.prefer):
            preferred.append(file)
    fields = {"type": "folder", "directory_path": str(path.resolve())}
    if form.extension:
        fields["extension"] = form.extension
    if form.prefer and 0 < len(preferred) < len(paths):
        fields["pattern"] = form.prefer
    return fields, next(iter(preferred or paths), None)


def write_project(ready: ReadyMade, dataset: str | None = None) -> dict[str, str]:
    """Return a ready-made task as files of a project; `dataset` is a file in place of the hub."""
    about = ready.about
    key = ready.name
    config = ready.config({})
    datasets = {}
    for name, node in ready.hub_datasets():
        datasets[name] = to_plain(config.fill(node))
    if dataset is not None:
        source = _describe_raw_files(dataset, ready, config)
        raise_all(ready.task.problems.errors)
        datasets["dataset"]["source"] = source and to_plain(source)
    entry = {
        "task_key": key,
        "task_config": {"dataset": key},
        "model_key": "builtin/random?seed=0",
    }
    run = {
        "datasets": [{"$ref": f"{name}.yaml"} for name in datasets],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": {
            "key": key,
            "display_name": about.title,
            "task_specifications": [entry],
        },
    }
    comment = ""
    for text in (f"{about.title}. {about.citation}", f"Licence: {about.licence}"):
        lines = wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        comment += "\n".join(lines) + "\n"
    project = {
        "run.yaml": _RUN_COMMENT + write_yaml(run),
        "task.yaml": comment + write_yaml(to_plain(ready.task)),
    }
    for name, plain in datasets.items():
        project[f"{name}.yaml"] = _DATASET_COMMENT + write_yaml(plain)
    return project


def write_yaml(plain: Json) -> str:
    """Return plain values as YAML, with texts of several lines as blocks."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import LiteralScalarString

    def lay_out(value: object) -> object:
        if isinstance(value, Mapping):
            return {key: lay_out(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return list(map(lay_out, value))
        if isinstance(value, str) and "\n" in value:
            return LiteralScalarString(value)
        return value

    yaml = YAML()
    yaml.width = _WIDTH
    yaml.allow_unicode = True
    yaml.indent(
        mapping=2,
        sequence=4,
        offset=2,
    )
    out = io.StringIO()
    yaml.dump(lay_out(plain), out)
    return out.getvalue()
