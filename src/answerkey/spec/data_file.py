"""Use a data file in place of a task: its columns become a dataset, a task and a run."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from answerkey.datasets.questions import (
    DATASET_ROLES,
    SAID_ROLES,
    QuestionColumns,
    find_columns,
    fold_name,
    require_roles,
)
from answerkey.datasets.recognition import recognise
from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.errors import (
    DataError,
    Place,
    SpecError,
    listing,
)
from answerkey.options import Options
from answerkey.spec.nodes import Json, Location, ProblemList, name_key
from answerkey.spec.ready_made import write_yaml
from answerkey.spec.sources import (
    DatasetSpec,
    is_remote,
    show_file,
)

_PASSAGE = "{% if sample.passage %}{{ sample.passage }}\n\n{% endif %}"
_PROMPT = """\
{{ sample.question }}
{% for letter, text in sample.choices | zip(sample.options) %}
{{ letter }}. {{ text }}
{%- endfor %}

Answer with the {{ 'number' if sample.choices[0] < 'A' else 'letter' }} of the right option and nothing else.
Answer:"""  # noqa: E501 - the text as it is written
_SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.truth }}",
    "choices": "{{ sample.choices }}",
    "options": "{{ sample.options }}",
    "extraction": "stated_answer",
}
_COMMENTS = {
    "dataset": "# Which columns are what; the task reads them by these names, and the labels as "
    "`choices`.\n",
    "task": "# What is asked, and how replies are scored.\n",
    "run": "# Which model answers; none is called where the dataset brings completions.\n",
}


#: Columns that hold images: `image`, `image_1`, `img_path`, `decoded_image`, …
_IMAGE = re.compile(r"(decoded)?(image|img|picture|photo|figure)s?(path|file|url|bytes)?\d*")


@dataclass(frozen=True)
class RecognisedFile:
    """The contents of a data file as recognised.

    `completions` is a column of completions, `images` are columns of images; they need not be used.
    `header` has the names of the columns if the file does not.
    """

    columns: QuestionColumns
    count: int
    completions: str | None
    images: tuple[str, ...]
    header: tuple[str, ...] | None

    def note_unused(self, options: Options) -> str | None:
        """Return a notice about completions that are not used; None where all are."""
        if self.completions is None or self.completions in self.columns.taken:
            return None
        instead = "the model answers" if options.model is not None else "others are given"
        return f"completions in `{self.completions}` are not used: {instead}"


def recognise_file(path: Location, options: Options) -> RecognisedFile:
    """Return the roles of the columns of a data file; raises as `recognise`."""
    columns = dict(options.columns)
    roles: tuple[str, ...] = DATASET_ROLES
    if options.model is not None or options.completions is not None:
        roles = tuple(role for role in roles if role != "completion")
    elif options.completion_column is not None:
        columns["completion"] = options.completion_column
    require_roles(columns, SAID_ROLES)
    stamp = None
    if not is_remote(path) and Path(path).is_file():
        stat = Path(path).stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
    return _recognise(str(path), tuple(columns.items()), roles, stamp)


@lru_cache(maxsize=16)
def _recognise(
    path: str,
    columns: tuple[tuple[str, str], ...],
    roles: tuple[str, ...],
    stamp: tuple[int, int] | None,  # noqa: ARG001 - a file that has changed is another one
) -> RecognisedFile:
    source = DatasetSpec.of_questions(path).source
    rows = source.read(name=path).rows
    found_columns = find_columns(tuple(rows.columns), ("completion",)).columns
    completions = found_columns.get("completion")
    images = []
    for name in rows.columns:
        if _IMAGE.fullmatch(fold_name(name)) and _is_filled(rows, name):
            images.append(name)
    recognised = recognise(rows, dict(columns), roles)
    header = getattr(source, "header", None)
    return RecognisedFile(recognised, len(rows), completions, tuple(images), header)


def _is_filled(rows: Rows, name: str) -> bool:
    return any(any(block.values(name)) for _, block in iterate_blocks(rows))


def describe_file(path: Location, options: Options) -> str:
    """Return the line that says what was recognised in a data file."""
    file = recognise_file(path, options)
    parts = ["1 row" if file.count == 1 else f"{file.count:,} rows"]
    if file.header:
        parts.append("no header line")
    parts.append(file.columns.describe())
    unused = file.note_unused(options)
    if unused:
        parts.append(unused)
    return f"{Path(show_file(path)).name}: {'; '.join(parts)}"


def make_run(
    path: Location,
    options: Options,
    problems: ProblemList,
    *,
    shows_images: bool = False,
) -> Json:
    """Return a data file as a run file would describe it, with the dataset and the task in it.

    The completions of the file are scored unless the caller names a model or other completions,
    which adds a notice. A model is only asked about images if the prompt `shows_images`, as in a
    project that is written.
    """
    if options.dataset is not None:
        message = f"`{path}` has its own samples: `--dataset` is for a task"
        command = f"answerkey run {shlex.quote(str(path))} --model MODEL"
        raise SpecError("E119", message, hint=f"leave `--dataset` out: `{command}`")
    file = recognise_file(path, options)
    unused = file.note_unused(options)
    if unused:
        problems.notice(unused, Place(file=show_file(path)))
    columns = file.columns.say()
    is_asked = "completion" not in columns and options.completions is None
    _check_file(path, file, is_asked=is_asked, shows_images=shows_images)
    dataset = DatasetSpec.of_questions(path)
    key = name_key(dataset.key) or "data"
    path_field = getattr(dataset.source, "path_field", "url")
    source = {
        "type": dataset.source.type,
        path_field: getattr(dataset.source, path_field),
        "questions": columns,
    }
    if file.header:
        source["header"] = list(file.header)
    definition: Json = {}
    if "completion" not in columns:
        definition["solver"] = _write_solver(columns, file.images if is_asked else ())
    definition["scorers"] = [_SCORER]
    return {
        "datasets": [{"key": key, "source": source}],
        "tasks": [{"key": key, "definition": definition}],
        "evaluation": {"key": key, "task_specifications": [{"task_key": key}]},
    }


def _check_file(
    path: Location,
    file: RecognisedFile,
    *,
    is_asked: bool,
    shows_images: bool,
) -> None:
    """Raise DataError for images that would not be shown, and for labels that are not letters."""
    place = Place(file=show_file(path))
    if is_asked and file.images and not shows_images:
        message = f"images in {listing(file.images)} are not shown without a task file: "
        message += "the model would guess"
        command = f"answerkey init my-eval --dataset {shlex.quote(str(path))}"
        hint = f"write a project whose prompt shows them: `{command}`"
        raise DataError("E215", message, where=place, hint=hint)
    if not is_asked and file.columns.is_relabelled:
        message = f"the labels in `{file.columns.columns.get('choices', 'options')}` "
        message += "have several characters, and recorded completions answer with them"
        hint = "rename them to single characters, in the file and in the completions"
        raise DataError("E215", message, where=place, hint=hint)


def _write_solver(columns: Collection[str], images: Sequence[str]) -> Json:
    """Return a solver that asks the question, with its passage and its images."""
    text = _PROMPT
    if "passage" in columns:
        text = _PASSAGE + _PROMPT
    content: object = text
    if images:
        parts = [{"type": "image", "image": f"{{{{ sample[{name!r}] }}}}"} for name in images]
        content = [*parts, {"type": "text", "text": text}]
    messages = [{"role": "user", "content": content}]
    builder = {"type": "chat_completion", "input_messages": messages}
    return {"type": "single_turn_solver", "input_builder": builder}


def write_project(
    path: Location,
    options: Options,
    folder: Path,
) -> dict[str, str]:
    """Return a data file as the files of a project in a folder, by their names."""
    run = make_run(path, options, ProblemList(), shows_images=True)
    dataset = run["datasets"][0]
    task = run["tasks"][0]
    entry = run["evaluation"]["task_specifications"][0]
    source = dataset["source"]
    for name in ("file_path", "url"):
        if name in source:
            source[name] = _write_relative_path(source[name], folder)
    if options.completions is not None:
        entry["completions"] = _write_relative_path(str(options.completions), folder)
    elif "solver" in task["definition"]:
        entry["model_key"] = options.model or "builtin/random?seed=0"
    run["datasets"] = [{"$ref": "dataset.yaml"}]
    run["tasks"] = [{"$ref": "task.yaml"}]
    files = {
        "run": run,
        "task": task,
        "dataset": dataset,
    }
    texts = {}
    for kind, plain in files.items():
        texts[f"{kind}.yaml"] = _COMMENTS[kind] + write_yaml(plain)
    return texts


def _write_relative_path(file: str, folder: Path) -> str:
    """Return the path by which a file of the project names another one."""
    if is_remote(file):
        return show_file(file)
    path = os.path.relpath(Path(file).resolve(), folder.resolve())
    return Path(path).as_posix()
