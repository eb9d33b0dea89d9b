"""A data file in place of a task: its columns become a dataset, a task and a run, as YAML would say it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from answerkey.datasets.questions import DATASET_ROLES, SAID_ROLES, QuestionColumns, find_columns
from answerkey.datasets.recognition import recognise
from answerkey.errors import Place, SpecError, listing, suggest
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

Answer with the letter of the right option and nothing else.
Answer:"""
_SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.truth }}",
    "choices": "{{ sample.choices }}",
    "options": "{{ sample.options }}",
    "extraction": "stated_answer",
}
_COMMENTS = {
    "dataset": "# Which columns are what; the task reads them by these names, and the labels as `choices`.\n",
    "task": "# What is asked, and how replies are scored.\n",
    "run": "# Which model answers; none is called where the dataset brings completions.\n",
}


def recognise_file(given: str | Path, overrides: Overrides) -> tuple[QuestionColumns, int, str | None]:
    """Return what the columns of a data file are, and how many rows say so; raises as `recognise`.

    The third is what is said of a column of completions that is not used.

    """
    columns, roles = dict(overrides.columns), tuple[str, ...](DATASET_ROLES)
    if overrides.model is not None or overrides.completions is not None:
        roles = tuple(role for role in roles if role != "completion")
    elif overrides.completion_column is not None:
        columns["completion"] = overrides.completion_column
    for role in columns.keys() - set(SAID_ROLES):
        hint = suggest(role, SAID_ROLES) or f"what a column can be: {listing(SAID_ROLES)}"
        raise SpecError("E119", f"`--column {role}={columns[role]}`: nothing is called `{role}`", hint=hint)
    path = Path(given)
    known = path.stat() if not is_remote(str(given)) and path.is_file() else None
    stamp = known and (known.st_mtime_ns, known.st_size)
    found, count, name = _recognise(str(given), tuple(columns.items()), roles, stamp)
    if name is None or name in found.taken:
        return found, count, None
    instead = "the model answers" if overrides.model is not None else "others are given"
    return found, count, f"completions in `{name}` are not used: {instead}"


@lru_cache(maxsize=16)
def _recognise(
    given: str,
    columns: tuple[tuple[str, str], ...],
    roles: tuple[str, ...],
    stamp: tuple[int, int] | None,  # noqa: ARG001 - a file that has changed is another one
) -> tuple[QuestionColumns, int, str | None]:
    rows = DatasetSpec.of_path(given).source.read(name=given).rows
    named = find_columns(tuple(rows.columns), ("completion",)).columns.get("completion")
    return recognise(rows, dict(columns), roles), len(rows), named


def describe_file(given: str | Path, overrides: Overrides) -> str:
    """Return the line that says what was recognised in a data file."""
    found, count, unused = recognise_file(given, overrides)
    told = f"{Path(show_file(given)).name}: {count:,} row{'' if count == 1 else 's'}; {found.describe()}"
    return f"{told}; {unused}" if unused else told


def make_run(given: str | Path, overrides: Overrides, problems: Problems) -> dict[str, Any]:
    """Return a data file as a run file would describe it, with the dataset and the task in it.

    The completions of the file are scored, unless the caller names a model, or others; that is noticed.
    """
    if overrides.dataset is not None:
        message = f"`--dataset` is of a task, and `{given}` is a data file"
        raise SpecError("E119", message, hint="leave one of them out")
    found, _, unused = recognise_file(given, overrides)
    if unused:
        problems.notice(unused, Place(file=show_file(given)))
    said, dataset = found.say(), DatasetSpec.of_path(given)
    key = name_key(dataset.key) or "data"
    place = getattr(dataset.source, "path_field", "url")
    source = {"type": dataset.source.type, place: getattr(dataset.source, place), "questions": said}
    definition: dict[str, Any] = {"scorers": [_SCORER]}
    if "completion" not in said:
        content = (_PASSAGE if "passage" in said else "") + _PROMPT
        builder = {"type": "chat_completion", "input_messages": [{"role": "user", "content": content}]}
        definition = {"solver": {"type": "single_turn_solver", "input_builder": builder}, **definition}
    return {
        "datasets": [{"key": key, "source": source}],
        "tasks": [{"key": key, "definition": definition}],
        "evaluation": {"key": key, "task_specifications": [{"task_key": key}]},
    }


def write_project(given: str | Path, overrides: Overrides, folder: Path) -> dict[str, str]:
    """Return a data file as the files of a project in a folder, by their names."""
    run = make_run(given, overrides, Problems())
    (dataset,), (task,), (asked,) = run["datasets"], run["tasks"], run["evaluation"]["task_specifications"]
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
