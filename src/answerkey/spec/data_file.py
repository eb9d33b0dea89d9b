"""A data file in place of a task: its columns become a dataset, a task and a run, as YAML would say
it.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from answerkey.datasets.questions import (
    DATASET_ROLES,
    SAID_ROLES,
    QuestionColumns,
    find_columns,
    fold_name,
)
from answerkey.datasets.recognition import recognise
from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.errors import DataError, Place, SpecError, listing, suggest
from answerkey.spec.nodes import Problems, name_key
from answerkey.spec.project import Overrides
from answerkey.spec.ready_made import write_yaml
from answerkey.spec.sources import DatasetSpec, is_remote, show_file

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
class DataFile:
    """What is recognised in a data file.

    `completions` is a column of completions, `images` are those of images; they need not be used.
    `header` are the names of the columns where the file does not say them.
    """

    columns: QuestionColumns
    count: int
    completions: str | None
    images: tuple[str, ...]
    header: tuple[str, ...] | None

    def note_unused(self, overrides: Overrides) -> str | None:
        """Return what is said of completions that are not used; None where all are."""
        if self.completions is None or self.completions in self.columns.taken:
            return None
        instead = "the model answers" if overrides.model is not None else "others are given"
        return f"completions in `{self.completions}` are not used: {instead}"


def recognise_file(given: str | Path, overrides: Overrides) -> DataFile:
    """Return what the columns of a data file are; raises as `recognise`."""
    columns, roles = dict(overrides.columns), tuple[str, ...](DATASET_ROLES)
    if overrides.model is not None or overrides.completions is not None:
        roles = tuple(role for role in roles if role != "completion")
    elif overrides.completion_column is not None:
        columns["completion"] = overrides.completion_column
    for role in columns.keys() - set(SAID_ROLES):
        hint = suggest(role, SAID_ROLES) or f"what a column can be: {listing(SAID_ROLES)}"
        raise SpecError(
            "E119", f"`--column {role}={columns[role]}`: nothing is called `{role}`", hint=hint
        )
    path = Path(given)
    known = path.stat() if not is_remote(str(given)) and path.is_file() else None
    stamp = known and (known.st_mtime_ns, known.st_size)
    return _recognise(str(given), tuple(columns.items()), roles, stamp)


@lru_cache(maxsize=16)
def _recognise(
    given: str,
    columns: tuple[tuple[str, str], ...],
    roles: tuple[str, ...],
    stamp: tuple[int, int] | None,  # noqa: ARG001 - a file that has changed is another one
) -> DataFile:
    source = DatasetSpec.of_questions(given).source
    rows = source.read(name=given).rows
    named = find_columns(tuple(rows.columns), ("completion",)).columns.get("completion")
    found = recognise(rows, dict(columns), roles)
    images = [
        name
        for name in rows.columns
        if _IMAGE.fullmatch(fold_name(name)) and _is_filled(rows, name)
    ]
    return DataFile(found, len(rows), named, tuple(images), getattr(source, "header", None))


def _is_filled(rows: Rows, name: str) -> bool:
    return any(any(block.values(name)) for _, block in iterate_blocks(rows, [name]))


def describe_file(given: str | Path, overrides: Overrides) -> str:
    """Return the line that says what was recognised in a data file."""
    file = recognise_file(given, overrides)
    counted = f"{file.count:,} row{'' if file.count == 1 else 's'}"
    header = "no header line" if file.header else None
    parts = filter(None, [counted, header, file.columns.describe(), file.note_unused(overrides)])
    return f"{Path(show_file(given)).name}: {'; '.join(parts)}"


def make_run(
    given: str | Path, overrides: Overrides, problems: Problems, *, shows_images: bool = False
) -> dict[str, Any]:
    """Return a data file as a run file would describe it, with the dataset and the task in it.

    The completions of the file are scored, unless the caller names a model, or others; that is
    noticed. A model is asked about images only where the prompt `shows_images`, as in a project
    that is written.
    """
    path = shlex.quote(str(given))
    if overrides.dataset is not None:
        message = (
            f"`{given}` is a data file: it brings its own samples, and `--dataset` is for a task"
        )
        hint = f"leave `--dataset` out: `answerkey run {path} --model MODEL`"
        raise SpecError("E119", message, hint=hint)
    file = recognise_file(given, overrides)
    if unused := file.note_unused(overrides):
        problems.notice(unused, Place(file=show_file(given)))
    said, dataset = file.columns.say(), DatasetSpec.of_questions(given)
    is_asked = "completion" not in said and overrides.completions is None
    if is_asked and file.images and not shows_images:
        message = (
            f"images in {listing(file.images)} are not shown without a task file: the model "
            "would guess"
        )
        hint = f"write a project whose prompt shows them: `answerkey init my-eval --dataset {path}`"
        raise DataError("E215", message, where=Place(file=show_file(given)), hint=hint)
    if not is_asked and file.columns.is_relabelled:
        labels = f"the labels in `{file.columns.columns.get('choices', 'options')}`"
        message = f"{labels} have several characters, and recorded completions answer with them"
        hint = "rename them to single characters, in the file and in the completions"
        raise DataError("E215", message, where=Place(file=show_file(given)), hint=hint)
    key = name_key(dataset.key) or "data"
    place = getattr(dataset.source, "path_field", "url")
    source = {"type": dataset.source.type, place: getattr(dataset.source, place), "questions": said}
    source |= {"header": list(file.header)} if file.header else {}
    definition: dict[str, Any] = {"scorers": [_SCORER]}
    if "completion" not in said:
        content: object = (_PASSAGE if "passage" in said else "") + _PROMPT
        if is_asked and file.images:
            images = [
                {"type": "image", "image": f"{{{{ sample[{name!r}] }}}}"} for name in file.images
            ]
            content = [*images, {"type": "text", "text": content}]
        builder = {
            "type": "chat_completion",
            "input_messages": [{"role": "user", "content": content}],
        }
        definition = {
            "solver": {"type": "single_turn_solver", "input_builder": builder},
            **definition,
        }
    return {
        "datasets": [{"key": key, "source": source}],
        "tasks": [{"key": key, "definition": definition}],
        "evaluation": {"key": key, "task_specifications": [{"task_key": key}]},
    }


def write_project(given: str | Path, overrides: Overrides, folder: Path) -> dict[str, str]:
    """Return a data file as the files of a project in a folder, by their names."""
    run = make_run(given, overrides, Problems(), shows_images=True)
    (dataset,), (task,), (asked,) = (
        run["datasets"],
        run["tasks"],
        run["evaluation"]["task_specifications"],
    )
    for place in dataset["source"].keys() & {"file_path", "url"}:
        dataset["source"][place] = _relate(dataset["source"][place], folder)
    if overrides.completions is not None:
        asked["completions"] = _relate(str(overrides.completions), folder)
    elif "solver" in task["definition"]:
        asked["model_key"] = overrides.model or "builtin/random?seed=0"
    run |= {f"{kind}s": [{"$ref": f"{kind}.yaml"}] for kind in ("dataset", "task")}
    files = {"run": run, "task": task, "dataset": dataset}
    return {f"{kind}.yaml": _COMMENTS[kind] + write_yaml(plain) for kind, plain in files.items()}


def _relate(file: str, folder: Path) -> str:
    """Return how a file of the project names another one."""
    near = os.path.relpath(Path(file).resolve(), folder.resolve())
    return show_file(file) if is_remote(file) else Path(near).as_posix()
