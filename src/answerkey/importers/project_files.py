"""What an import holds, and the files of its project: `import.json`, task files and a run file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from answerkey._version import __version__
from answerkey.importers.evidence import DATASET_KEY, EvidenceReader
from answerkey.importers.logs import LogDescription, LogReader
from answerkey.importers.records import COMPLETIONS, DATASET, RecordStore
from answerkey.models.responses import mend_text
from answerkey.types import Notice


@dataclass(frozen=True)
class ImportedTask:
    """A task of an imported log: its key in the project, what the log says of it, and what it
    holds.

    `samples` were asked `num_trials` times each. `statuses` counts completions by status, `judged`
    those that the tool judged, and `their_mean` is the mean of its verdicts. `scorers` are those of
    the task file.
    """

    key: str
    description: LogDescription
    samples: int
    num_trials: int
    statuses: dict[str, int]
    judged: int
    their_mean: float | None
    has_questions: bool
    scorers: str = field(repr=False)

    def describe(self) -> dict[str, object]:
        """Return the task as plain values."""
        description = self.description
        return {
            "task": description.task,
            "model": description.model,
            "samples": self.samples,
            "num_trials": self.num_trials,
            "completions": self.statuses,
            "theirs": {
                "score": description.score,
                "judged": self.judged,
                "mean": self.their_mean,
                "reported": description.reported,
            },
        }


@dataclass(frozen=True)
class Imported:
    """An imported log: where it lay and lies now, its tasks, and how many broken lines it had."""

    path: Path
    folder: Path
    kind: str
    title: str
    tasks: tuple[ImportedTask, ...]
    broken: int
    notices: tuple[Notice, ...] = ()
    broken_places: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """How many samples all tasks have."""
        return sum(task.samples for task in self.tasks)

    @property
    def has_questions(self) -> bool:
        """Whether the log says what was asked; a run needs that."""
        return all(task.has_questions for task in self.tasks)


def describe_import(imported: Imported) -> dict[str, object]:
    """Return an import as plain values, as `import.json` and `--json` have it."""
    statuses: Counter[str] = Counter()
    for task in imported.tasks:
        statuses.update(task.statuses)
    only = imported.tasks[0].describe() if len(imported.tasks) == 1 else {}
    return {
        "log": str(imported.path),
        "folder": str(imported.folder),
        "kind": imported.kind,
        "tool": imported.title,
        **only,
        "samples": imported.samples,
        "completions": dict(sorted(statuses.items())),
        "tasks": [task.describe() for task in imported.tasks],
        "left_out": imported.broken,
        "left_out_places": list(imported.broken_places),
        "notices": [str(notice) for notice in imported.notices],
        "answerkey_version": __version__,
    }


_ROWS = "dataset.jsonl"
_BLOCK = 8_192
_LONGEST_KEY = 80
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,250}")
_BARE_WORD = re.compile(r"(?!(?:null|true|false|yes|off)\Z)[a-z_]{3,}")
#: Characters that JSON leaves as they are and YAML does not read back.
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_TEXT_SCORER = """\
    # The log lists no choices: a reply is right when it equals the truth, letter by letter.
    - type: string_equals
      ground_truth: "{{ sample.answer }}"
"""
_GUESSED = "    # The log lists no choices: these are told from its truths.\n"
_EXTRACTION = """\
      # How a reply is read. `stated_answer` finds an answer wherever it stands, `first_character`
      # is the strictest rule; the summary shows what both read.
      extraction: stated_answer
"""


@dataclass
class _RunFile:
    """The sections of a run file, as they are filled task by task."""

    models: dict[str, str] = field(default_factory=dict)
    datasets: str = ""
    tasks: str = ""
    specifications: str = ""

    def add(self, description: LogDescription, keys: tuple[str, str], at: str, rows: str) -> None:
        """Add a task by the `keys` of its dataset and its own; `at` is its folder."""
        dataset_key, task_key = keys
        title = description.task or "Imported questions"
        self.datasets += f"""\
  - key: {dataset_key}
    display_name: {_quote_plain(title)}
    source:
      type: local
      file_path: {at}{rows}
"""
        self.tasks += f"  - $ref: {at}task.yaml\n"
        self.specifications += f"    - task_key: {task_key}\n"
        self.specifications += f"      completions: {at}{COMPLETIONS}\n"
        model = description.model
        if not model:
            return
        self.specifications += f"      model_key: {make_key(model)}\n"
        self.models[model] = f"""\
  - key: {make_key(model)}
    display_name: {_quote_plain(model)}
    config:
      connection_type: placeholder
"""

    def write(self, folder: Path, imported: Imported) -> None:
        """Write the file."""
        task = imported.tasks[0].description.task
        key = imported.tasks[0].key
        name = task or imported.folder.name
        title = task
        if len(imported.tasks) > 1:
            key = make_key(imported.folder.name)
            name = f"{len(imported.tasks)} tasks of {imported.folder.name}"
            title = name
        titles = [part for part in (title, *sorted(self.models)) if part]
        source = _make_plain(f"{imported.title} `{name}`")
        models = "".join(self.models.values())
        if models:
            models = f"models:\n{models}\n"
        (folder / "run.yaml").write_text(
            f"""\
# {source}: what was asked, what was said, and how it is scored. No model is asked.
{models}datasets:
{self.datasets}
tasks:
{self.tasks}
evaluation:
  key: {key}
  display_name: {_quote_plain(", ".join(titles) or key)}
  description: {_quote_plain(f"Imported from {source}.")}
  task_specifications:
{self.specifications}""",
            encoding="utf-8",
        )


def write_project(
    folder: Path, imported: Imported, parts: Sequence[Path], reader: LogReader
) -> None:
    """Write `import.json` and, where there are questions, a task file for each task and the run
    file.

    The tables of the only task lie beside them, those of several in folders with the keys of the
    tasks.
    """
    text = json.dumps(describe_import(imported), ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "import.json").write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")
    is_only = len(parts) == 1
    run_file = _RunFile()
    for part, task in zip(parts, imported.tasks, strict=True):
        place = folder if is_only else folder / task.key
        _move_folder(part, place)
        if imported.has_questions:
            dataset_key = DATASET_KEY if is_only else task.key
            task_key, rows = _write_task(place, imported, task, reader, dataset_key)
            at = "" if is_only else f"{task.key}/"
            run_file.add(task.description, (dataset_key, task_key), at, rows)
    if imported.has_questions:
        run_file.write(folder, imported)


def _move_folder(source: Path, target: Path) -> None:
    """Move a folder, or its files into one that is there already."""
    if not target.exists():
        source.replace(target)
        return
    for file in source.iterdir():
        file.replace(target / file.name)
    source.rmdir()


def _write_task(
    folder: Path, imported: Imported, task: ImportedTask, reader: LogReader, dataset_key: str
) -> tuple[str, str]:
    """Write the task file; return its key, and the file of its dataset.

    The task is the one that an evidence log states, with the rows as it names their columns, or one
    that fits.
    """
    name = task.description.task or "imported"
    if isinstance(reader, EvidenceReader) and reader.definition is not None:
        return _write_evidence_task(folder, name, task.key, reader), _ROWS
    source = _make_plain(f"{imported.title} `{task.description.task or imported.folder.name}`")
    trials = f"  trials:\n    num_trials: {task.num_trials}\n" if task.num_trials > 1 else ""
    (folder / "task.yaml").write_text(
        f"""\
# What the replies of {source} are scored with. Change it as you like; the replies stay.
key: {task.key}
display_name: {_quote_plain(name)}
description: {_quote_plain(f"Imported from {source}.")}
tasks: [chat_completion]

definition:
  type: benchmark_task
  dataset:
    key: {dataset_key}
{trials}  scorers:
{task.scorers}""",
        encoding="utf-8",
    )
    return task.key, DATASET


def _write_evidence_task(folder: Path, name: str, key: str, reader: EvidenceReader) -> str:
    """Write the task that an evidence log states, and its rows; return its key."""
    if _KEY.fullmatch(reader.task_key):
        key = reader.task_key
    fields = {
        "key": key,
        "display_name": _make_plain(name),
        "description": f"Imported from the evidence log of {_make_plain(name)}.",
        "definition": reader.definition,
    }
    text = "# The task of the evidence log, as it states it. The replies are recorded.\n"
    for line in write_yaml(fields):
        text += f"{line}\n"
    (folder / "task.yaml").write_text(text, encoding="utf-8")
    _write_rows(folder)
    return key


def describe_scorers(store: RecordStore) -> str:
    """Return the scorers of a task that fits the replies of any log, as YAML."""
    counts = store.counts
    guessed = store.guess_choices()
    if not counts["choices"] and guessed is None:
        return _TEXT_SCORER
    choices = json.dumps(guessed) if guessed else '"{{ sample.choices }}"'
    common = f'      ground_truth_choice: "{{{{ sample.answer }}}}"\n      choices: {choices}\n'
    text = _GUESSED if guessed else ""
    text += f"    - type: string_equals_mcqa\n{common}"
    if counts["options"]:
        text += '      options: "{{ sample.options }}"\n'
    text += _EXTRACTION
    if counts["rankings"] == counts["says"]:
        text += f"""\
    # The log has the log-probability of each choice: how sure the model was, and if rightly.
    - type: choice_probabilities
{common}      extraction: stated_answer
"""
    return text


def _write_rows(folder: Path) -> None:
    """Write the samples with the columns that the log's own task names.

    Some are in memory at a time.
    """
    scan = pl.scan_parquet(folder / DATASET, glob=False)
    names = [name for name in ("sample_id", "original") if name in scan.collect_schema()]
    with (folder / _ROWS).open("w", encoding="utf-8", newline="\n") as out:
        offset = 0
        while (block := scan.select(names).slice(offset, _BLOCK).collect()).height:
            offset += block.height
            for row in block.iter_rows(named=True):
                original = json.loads(row.get("original") or "{}")
                sample_id = original.get("sample_id")
                if sample_id is None or str(sample_id) != row["sample_id"]:
                    original["sample_id"] = row["sample_id"]
                out.write(json.dumps(original, ensure_ascii=False, allow_nan=False) + "\n")
    (folder / DATASET).unlink()


def write_yaml(value: Mapping[str, object] | list[object], depth: int = 0) -> Iterator[str]:
    """Yield the lines of a YAML block in which every text is quoted, so that it stays what it is.

    A word that can be nothing else stays bare.
    """
    pad = "  " * depth
    if isinstance(value, Mapping):
        entries = [(f"{pad}{_quote_value(str(key))}:", inner) for key, inner in value.items()]
    else:
        entries = [(f"{pad}-", inner) for inner in value]
    for start, inner in entries:
        if isinstance(inner, Mapping | list) and inner:
            yield start
            yield from write_yaml(inner, depth + 1)
        else:
            yield f"{start} {_quote_value(inner)}"


def _quote_value(value: object) -> str:
    if isinstance(value, str) and _BARE_WORD.fullmatch(value):
        return value
    text = mend_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def make_key(text: str) -> str:
    """Return a text as a key: letters, digits, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:_LONGEST_KEY] or "imported"


def _make_plain(text: str) -> str:
    """Return a name on one line, without what a task file would take for a config or environment
    value.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    plain = " ".join(printable.replace("<<", "< <").split())
    return f"`{plain}`" if plain.startswith("$") else plain


def _quote_plain(text: str) -> str:
    """Return a name as YAML reads it back: JSON is YAML, but for a few line breaks."""
    return json.dumps(_make_plain(text), ensure_ascii=False)
