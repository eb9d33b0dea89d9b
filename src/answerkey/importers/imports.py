"""Imports logs of other tools: `import_log` writes the files of a run, `load_log` passes its tables
to `evaluate`, `open_log` returns it scored.

    log ──► reader ──► Records ──► TaskTables ──► evaluate

A reader is a class with a `kind` (see `LogReader`); packages add theirs through entry points of the
group `answerkey.importers`.
"""

from __future__ import annotations

import atexit
import json
import shlex
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from answerkey._version import __version__
from answerkey.datasets.content import refuse_file, require_plain
from answerkey.datasets.sources import MemorySource
from answerkey.datasets.tables import load_table
from answerkey.engines import open_engine
from answerkey.errors import (
    AnswerkeyError,
    RunError,
    SpecError,
    listing,
    suggest,
)
from answerkey.evaluate.display import Display, Progress, ignore_progress
from answerkey.evaluate.run import open_run, read_plan
from answerkey.importers.evidence import EvidenceReader
from answerkey.importers.harnesses import LightevalReader, LmEvalReader
from answerkey.importers.helm import HelmReader
from answerkey.importers.inspect import InspectReader
from answerkey.importers.json_values import Row
from answerkey.importers.logs import ImportOptions, Log, LogPreview, LogReader, Records
from answerkey.importers.predictions import EvalscopeReader, OpenCompassReader
from answerkey.importers.promptfoo import PromptfooReader
from answerkey.importers.tables import (
    AnthropicBatchReader,
    EveryEvalEverReader,
    MmluProReader,
    OpenAiBatchReader,
    PlainReader,
)
from answerkey.importers.task_tables import COMPLETIONS, DATASET, ImportedTask, TaskTables
from answerkey.runs import Run
from answerkey.spec import Options
from answerkey.spec.nodes import name_key
from answerkey.spec.ready_made import write_yaml
from answerkey.types import Notice, Registry

AUTO = "auto"
#: In the order in which they are tried; the last one accepts any table.
_KINDS: tuple[type[LogReader], ...] = (
    InspectReader,
    LmEvalReader,
    MmluProReader,
    OpenAiBatchReader,
    AnthropicBatchReader,
    HelmReader,
    LightevalReader,
    EvalscopeReader,
    OpenCompassReader,
    PromptfooReader,
    EveryEvalEverReader,
    EvidenceReader,
    PlainReader,
)
OWN_READERS = {reader.kind: reader for reader in _KINDS}
READERS: Registry[LogReader] = Registry("answerkey.importers", OWN_READERS, OWN_READERS.__getitem__)
_REPORT_EVERY = 2_000
_LONGEST_KEY = 80
_ABOUT = "# The questions, the replies, and how they are scored. No model is called.\n"


@dataclass(frozen=True)
class Imported:
    """An imported log: its path, its folder, its tasks, and the number of damaged lines."""

    path: Path
    folder: Path
    kind: str
    title: str
    tasks: tuple[ImportedTask, ...]
    damaged: int
    notices: tuple[Notice, ...] = ()
    damaged_places: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """The number of samples in all tasks."""
        return sum(task.samples for task in self.tasks)

    @property
    def has_questions(self) -> bool:
        """Whether the log contains the questions, which a run needs."""
        return all(task.has_questions for task in self.tasks)

    def describe(self) -> Row:
        """Return the import as plain values, for `import.json` and `--json`."""
        return {
            "log": str(self.path),
            "folder": str(self.folder),
            "kind": self.kind,
            "tool": self.title,
            "samples": self.samples,
            "tasks": [task.describe() for task in self.tasks],
            "left_out": self.damaged,
            "left_out_places": list(self.damaged_places),
            "notices": [str(notice) for notice in self.notices],
            "answerkey_version": __version__,
        }

    def describe_run(self) -> dict[str, Any]:
        """Return the run file of the tasks, whose tables are in folders named by their keys."""
        models: Row = {}
        run: dict[str, Any] = {"datasets": [], "tasks": []}
        specifications: list[object] = []
        for task in self.tasks:
            title = task.description.task or "Imported questions"
            definition: Row = {
                "dataset": {"key": task.key},
                "scorers": task.scorers,
            }
            if task.num_trials > 1:
                definition["trials"] = {"num_trials": task.num_trials}
            source = {
                "type": "local",
                "file_path": f"{task.key}/{DATASET}",
            }
            run["datasets"].append(_make_part(task.key, title, source=source))
            run["tasks"].append(_make_part(task.key, title, definition=definition))
            specification = {
                "task_key": task.key,
                "completions": f"{task.key}/{COMPLETIONS}",
            }
            model = task.description.model
            if model:
                key = make_key(model)
                specification["model_key"] = key
                config = {"connection_type": "placeholder"}
                models[model] = _make_part(key, model, config=config)
            specifications.append(specification)
        run["evaluation"] = _make_part(
            make_key(self.path.resolve().name),
            f"{self.path.name} ({self.title})",
            task_specifications=specifications,
        )
        if models:
            return {"models": list(models.values()), **run}
        return run


def make_key(text: str) -> str:
    """Return a text as a key: letters, digits, `_` and `-`."""
    return name_key(text)[:_LONGEST_KEY] or "imported"


def _make_part(key: str, title: str, **fields: object) -> Row:
    """Return a part of a run file."""
    return {
        "key": key,
        "display_name": _clean_name(title),
        **fields,
    }


def _clean_name(text: str) -> str:
    """Return a name on one line, without what a task file would read as a config or environment
    value.
    """
    letters = [letter if letter.isprintable() else " " for letter in text]
    printable = "".join(letters).replace("<<", "< <")
    plain = " ".join(printable.split())
    if plain.startswith("$"):
        return f"`{plain}`"
    return plain


# ── from a log to its tables


def _choose_reader(kind: str, source: Path) -> LogReader:
    """Return the reader of a kind, or of the kind that is recognised."""
    if not source.exists():
        raise refuse_file("E201", f"the log `{source}` does not exist", str(source))
    require_plain(source)
    if kind == AUTO:
        kind = detect_kind(source)
    if kind not in READERS:
        kinds = [AUTO, *READERS]
        hint = suggest(kind, kinds) or f"kinds: {listing(kinds)}"
        raise SpecError("E119", f"unknown kind of log `{kind}`", hint=hint)
    return READERS[kind]()


def _read_log(
    reader: LogReader,
    source: Path,
    folder: Path,
    options: ImportOptions,
    progress: Progress = ignore_progress,
) -> Imported:
    """Write the tables of a log below a folder; return the import."""
    log = Log(source, options)
    tasks: dict[str, ImportedTask] = {}
    several: list[str] = []
    records = _iterate_records(
        reader,
        log,
        several,
        progress,
    )
    # When a reader begins another task, the log gets another description.
    for _, group in groupby(records, lambda _: id(log.description)):
        name = make_key(log.description.task or "imported")
        key = name
        while key in tasks:
            key = f"{name}-{len(tasks) + 1}"
        task = ImportedTask(key, log.description)
        tables = TaskTables(folder / key, task)
        tables.write(log, group)
        if tables.counts["completions"]:
            tables.finish(log)
            tasks[key] = task
        else:
            shutil.rmtree(folder / key)
    _require_intact(log, has_tasks=bool(tasks))
    _require_single_truths(log, several)
    _require_requested(log, tasks.values())
    if log.damaged:
        log.notice(f"{log.damaged} lines or members are damaged or missing, and left out")
    return Imported(
        path=log.path,
        folder=folder,
        kind=reader.kind,
        title=reader.title,
        tasks=tuple(tasks.values()),
        damaged=log.damaged,
        notices=tuple(log.notices),
        damaged_places=tuple(str(error.where) for error in log.errors.errors),
    )


def _iterate_records(
    reader: LogReader,
    log: Log,
    several: list[str],
    progress: Progress,
) -> Records:
    """Yield the records that can be scored; add the ids of questions with several truths to
    `several`.
    """
    for record in reader.read(log):
        log.records += 1
        if log.records % _REPORT_EVERY == 0:
            progress("read", log.records, 0)
        if record.question is not None and record.question.has_several_truths:
            several.append(record.sample_id)
        else:
            yield record


def _require_intact(log: Log, *, has_tasks: bool) -> None:
    """Raise the errors of damaged lines if there are more than the caller allows."""
    rows = max(log.seen, log.records + log.damaged)
    options = Options(allow_failed=log.options.allow_failed)
    if log.damaged <= options.failed_limit(rows):
        return
    if has_tasks:
        hint = f"copy the log again, or import the rest with `--allow-failed {log.damaged}`"
        log.errors.errors[0].hint = hint
    log.errors.raise_any()


def _require_single_truths(log: Log, several: list[str]) -> None:
    """Raise E215 for questions with several right letters, unless the caller leaves them out.

    Raised also if no questions would be left.
    """
    if not several:
        return
    left = log.records - len(several)
    if log.options.single_answers and left:
        log.notice(f"{len(several)} questions with several right letters are left out")
        return
    message = (
        f"{len(several)} of {log.records} questions have several right letters "
        f"(first: sample `{several[0]}`); only one can be scored"
    )
    hint = f"`--single-answers` leaves them out and imports the other {left}"
    raise log.make_error("E215", message, hint)


def _require_requested(log: Log, tasks: Collection[ImportedTask]) -> None:
    """Raise an error if the log lacks what the caller asked for."""
    task = log.options.task
    score = log.options.score
    if task is not None and task not in log.tasks:
        names = listing(log.tasks) or "one without a name"
        hint = suggest(task, log.tasks) or f"tasks: {names}"
        raise log.make_error("E206", f"the log has no task `{task}`", hint)
    if score is not None and tasks and not any(task.judged for task in tasks):
        hint = "leave `--score` out to use the first score of the log"
        raise log.make_error("E206", f"the log has no score `{score}`", hint)
    if not tasks:
        message = "nothing in the log can be used" if log.damaged else "the log has no completions"
        raise log.make_error("E210", message)


# ── an import that is kept


def import_log(  # noqa: PLR0913 - each is an option of the command
    kind: str,
    path: str | Path,
    *,
    out: str | Path | None = None,
    task: str | None = None,
    score: str | None = None,
    dataset: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    single_answers: bool = False,
    allow_failed: int | str | None = None,
    progress: Progress = ignore_progress,
) -> Imported:
    """Import a log into a new folder (default `imported/<name>`) and return the import.

    `kind` is one of `READERS`, or `auto`; `ImportOptions` describes the other options.
    """
    options = ImportOptions(
        score=score,
        dataset=None if dataset is None else Path(dataset),
        task=task,
        columns=columns or {},
        single_answers=single_answers,
        allow_failed=allow_failed,
    )
    source = Path(path)
    name = source.resolve().stem or "log"
    folder = Path(out or f"imported/{name}")
    reader = _choose_reader(kind, source)
    with _write_folder(folder) as draft:
        imported = _read_log(
            reader,
            source,
            draft,
            options,
            progress,
        )
        imported = replace(imported, folder=folder)
        _write_descriptions(imported, draft)
    return imported


def _write_descriptions(imported: Imported, folder: Path) -> None:
    """Write a description of the import, and the run file that scores it."""
    text = json.dumps(
        imported.describe(),
        ensure_ascii=False,
        indent=2,
        allow_nan=False,
    )
    description = folder / "import.json"
    description.write_text(
        f"{text}\n",
        encoding="utf-8",
        errors="backslashreplace",
    )
    if imported.has_questions:
        run = _ABOUT + write_yaml(imported.describe_run())
        (folder / "run.yaml").write_text(run, encoding="utf-8")


@contextmanager
def _write_folder(folder: Path) -> Iterator[Path]:
    """Yield a draft folder that gets its name when it is complete.

    Nothing is left if an error occurs.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        hint = "name a new or empty folder with `--out`"
        raise SpecError("E119", f"`{folder}` already exists; nothing was written", hint=hint)
    draft = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield draft
        draft.chmod(0o755)
        draft.replace(folder)
    except OSError as error:
        hint = (
            "check the free space and the permissions of the folder, or choose another with `--out`"
        )
        raise RunError("E502", f"cannot write `{folder}`: {error}", hint=hint) from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


# ── a log in place of a run file, or of a run


def load_log(
    path: Path, kind: str, options: ImportOptions
) -> tuple[dict[str, Any], Sequence[Notice]]:
    """Return a log as a run file with tables in memory; raise E209 if it has no questions.

    Tables that are too large for memory stay in temporary files until the process ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="answerkey-log-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    imported = _read_log(
        _choose_reader(kind, path),
        path,
        folder,
        options,
    )
    if not imported.has_questions:
        message = f"`{path}` has replies, but neither questions nor truths"
        command = f"answerkey score {shlex.quote(str(path))} --dataset FILE"
        hint = f"name the file that has them: `{command}`"
        raise refuse_file("E209", message, str(path), hint)
    run = imported.describe_run()
    specifications = run["evaluation"]["task_specifications"]
    for dataset, specification in zip(run["datasets"], specifications, strict=True):
        place = folder / dataset["key"]
        samples = load_table(place / DATASET, shown=str(path))
        dataset["source"] = MemorySource(samples, origin=str(path))
        specification["completions"] = load_table(
            place / COMPLETIONS, by_trial=True, shown=str(path)
        )
    return run, imported.notices


def open_log(path: Path) -> Run | None:
    """Return a log as a run, scored in memory; None if no importer recognises it."""
    kind = find_kind(path, READERS)
    if kind is None:
        return None
    try:
        run, notices = load_log(path, kind, ImportOptions())
    except AnswerkeyError as error:
        error.hint = _name_command(error.hint, path)
        raise
    options = Options()
    plan = read_plan(run, options)
    for notice in notices:
        hint = _name_command(notice.hint, path)
        plan.notices.append(replace(notice, hint=hint))
    opened = open_run(
        run,
        plan,
        options,
        open_engine(),
        Display(),
    )
    return opened.run(None)


def _name_command(hint: str | None, path: Path) -> str | None:
    """Return a hint that names an option, followed by the command that has the option."""
    if hint is None or "`--" not in hint:
        return hint
    return f"{hint}; these are options of `answerkey score {shlex.quote(str(path))}`"


# ── kinds of logs


def find_kind(path: Path, readers: Mapping[str, type[LogReader]]) -> str | None:
    """Return the kind of a log; None if no reader recognises it."""
    preview = LogPreview(path)
    # The plain reader accepts any table, so readers of other packages come before it.
    for kind in sorted(readers, key=PlainReader.kind.__eq__):
        if readers[kind].recognises(preview):
            return kind
    return None


def detect_kind(path: str | Path) -> str:
    """Return the kind of a log; raise DataError E201 if no reader recognises it."""
    path = Path(path)
    kind = find_kind(path, READERS)
    if kind is not None:
        return kind
    hint = f"name one of {listing(READERS)} in place of `auto`"
    files = sorted(LogPreview(path).names)
    if path.is_dir() and files:
        hint = f"name one of its files: `answerkey import auto {shlex.quote(str(path / files[0]))}`"
    message = f"the kind of the log `{path}` is not recognised"
    raise refuse_file("E201", message, str(path), hint)
