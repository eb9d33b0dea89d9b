"""`import_log`: another tool's log becomes a folder with a dataset, completions, a task and a run
file.

    log ──► reader ──► Records ──► RecordStore ──► two tables in one order ──► DIR, whole or not at
    all

A reader is a class with a `kind` (see `LogReader`); packages add theirs through entry points of the
group `answerkey.importers`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count, groupby
from pathlib import Path

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.content import describe_long, require_plain
from answerkey.errors import AnswerkeyError, DataError, Place, RunError, SpecError, listing, suggest
from answerkey.evaluate.options import Options
from answerkey.evaluate.run import run as run_project
from answerkey.importers.evidence import EvidenceReader
from answerkey.importers.harnesses import LightevalReader, LmEvalReader
from answerkey.importers.helm import HelmReader
from answerkey.importers.inspect import InspectReader
from answerkey.importers.logs import (
    ImportOptions,
    Log,
    LogDescription,
    LogPreview,
    LogReader,
    Record,
    iterate_files,
)
from answerkey.importers.predictions import EvalscopeReader, OpenCompassReader
from answerkey.importers.project_files import (
    Imported,
    ImportedTask,
    describe_scorers,
    make_key,
    write_project,
)
from answerkey.importers.promptfoo import PromptfooReader
from answerkey.importers.records import RecordStore
from answerkey.importers.tables import (
    AnthropicBatchReader,
    EveryEvalEverReader,
    ExportReader,
    MmluProReader,
    OpenAiBatchReader,
    PlainReader,
)
from answerkey.models.cache import default_cache_file
from answerkey.runs import Run, is_run, load_run
from answerkey.types import Notice, Registry

AUTO = "auto"
#: In the order in which they are asked whether they recognise a log; the last takes any table.
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
    ExportReader,
    PlainReader,
)
_READERS = {reader.kind: reader for reader in _KINDS}
READERS: Registry[LogReader] = Registry("answerkey.importers", _READERS, _READERS.__getitem__)
_REPORT_EVERY = 2_000
#: A notice as `import.json` has it.
_NOTICE = re.compile(r"warning: (.*?)(?:\n  --> ([^\n]*))?(?:\n  = help: (.*))?", re.DOTALL)
#: So many files of a folder are looked at.
_LOOKED_AT = 100
_HASHED = 2**20
_ENDINGS = (
    ".gz",
    ".zst",
    ".eval",
    ".jsonl",
    ".ndjson",
    ".json",
    ".zip",
    ".csv",
    ".tsv",
    ".parquet",
)
Progress = Callable[[str, int, int], None]


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
    progress: Progress | None = None,
) -> Imported:
    """Import a log into a new folder (default `imported/<name>`) and return what it holds.

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
    folder = _name_folder(source) if out is None else Path(out)
    return _import(kind, source, folder, options, progress)


def _name_folder(source: Path) -> Path:
    """Return the default folder of an import."""
    name = source.resolve().name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return Path("imported") / (name or "log")


def _import(
    kind: str,
    source: Path,
    folder: Path,
    options: ImportOptions,
    progress: Progress | None = None,
) -> Imported:
    """Import a log, whole or not at all."""
    if not source.exists():
        raise DataError("E201", f"there is no log `{source}`", where=Place(file=str(source)))
    require_plain(source)
    if kind != AUTO and kind not in READERS:
        hint = suggest(kind, [*READERS, AUTO]) or f"kinds: {listing([AUTO, *READERS])}"
        raise SpecError("E119", f"there is no kind of log `{kind}`", hint=hint)
    reader = READERS[detect_kind(source) if kind == AUTO else kind]()
    log = Log(source, options)
    with _write_whole(folder) as temporary:
        parts = _Parts(log, temporary, progress)
        several = _SeveralRight(log)
        parts.read(several.leave_out(reader.read(log)))
        _refuse_broken(log, parts)
        several.refuse()
        _require_wanted(log, parts.tasks)
        if log.broken:
            log.notice(f"{log.broken} lines or members are broken or missing, and left out")
        imported = Imported(
            path=log.path,
            folder=folder,
            kind=reader.kind,
            title=reader.title,
            tasks=tuple(parts.tasks),
            broken=log.broken,
            notices=tuple(log.notices),
            broken_places=tuple(str(error.where) for error in log.errors.errors),
        )
        write_project(temporary, imported, parts.folders, reader)
    return imported


@dataclass
class _Parts:
    """The tasks of a log, each with the folder of its tables; `read` counts their records."""

    log: Log
    temporary: Path
    progress: Progress | None
    folders: list[Path] = field(default_factory=list)
    tasks: list[ImportedTask] = field(default_factory=list)
    read_records: int = 0

    def read(self, records: Iterable[Record]) -> None:
        """Write the tables of all tasks."""
        # A reader goes over to another task by another description.
        groups = groupby(records, lambda _: id(self.log.description))
        for number, (_, group) in enumerate(groups):
            folder = self.temporary / f"part-{number}"
            folder.mkdir()
            description = self.log.description
            with tempfile.TemporaryDirectory(prefix=".lines-", dir=self.temporary) as stage:
                store = RecordStore(Path(stage))
                self._fill(store, group)
                if store.counts["says"]:
                    self.folders.append(folder)
                    self.tasks.append(self._write_task(folder, store, description))

    def _fill(self, store: RecordStore, records: Iterable[Record]) -> None:
        """Put the records of a task into a store."""
        for number, record in enumerate(records, self.read_records + 1):
            if not store.add(record):
                where = Place(file=str(self.log.path), sample=record.sample_id)
                text = f"a text of sample `{record.sample_id}`"
                self.log.mark_broken(describe_long(text, store.longest), where)
            if self.progress is not None and number % _REPORT_EVERY == 0:
                self.progress("read", number, 0)
        store.finish()
        self.read_records += max(store.counts["asks"], store.counts["says"])

    def _write_task(
        self, folder: Path, store: RecordStore, description: LogDescription
    ) -> ImportedTask:
        """Write the tables of a task, and return what it holds."""
        samples, num_trials, missing = store.write_tables(
            folder, file=str(self.log.path), last_wins=description.last_wins
        )
        _add_notices(self.log, store, description, samples, missing)
        judged = store.counts["their_score"]
        return ImportedTask(
            key=self._make_key(description.task or "imported"),
            description=description,
            samples=samples,
            num_trials=num_trials,
            statuses=dict(sorted(store.statuses.items())),
            judged=judged,
            their_mean=store.right / judged if judged else None,
            has_questions=bool(store.counts["asks"]),
            scorers=describe_scorers(store),
        )

    def _make_key(self, name: str) -> str:
        """Return a key that no other task has."""
        keys = {task.key for task in self.tasks}
        key = make_key(name)
        if key not in keys:
            return key
        return next(f"{key}-{place}" for place in count(2) if f"{key}-{place}" not in keys)


class _SeveralRight:
    """Questions with several right letters, which are outside of what is scored here."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._count = 0
        self._all = 0
        self._first: str | None = None

    def leave_out(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of questions with one right letter."""
        for record in records:
            self._all += 1
            if _has_several_truths(record):
                self._count += 1
                self._first = self._first or record.sample_id
            else:
                yield record

    def refuse(self) -> None:
        """Tell how many were left out.

        DataError E215 unless the caller allows that, or when nothing is left.
        """
        if not self._count:
            return
        left = self._all - self._count
        if self._log.options.single_answers and left:
            self._log.notice(f"{self._count} questions with several right letters are left out")
            return
        message = f"{self._count} of {self._all} questions have several right letters"
        message += f" (first: sample `{self._first}`), and one is scored here"
        hint = f"`--single-answers` leaves them out and takes the other {left}"
        if not left:
            hint = "`--single-answers` leaves such questions out, and no other is in this log"
        where = Place(file=str(self._log.path), sample=self._first)
        raise DataError("E215", message, where=where, hint=hint)


def _has_several_truths(record: Record) -> bool:
    question = record.question
    if question is None or question.truth is None or "," not in question.truth:
        return False
    return set(question.truth.split(",")) <= set(question.choices or ())


def _refuse_broken(log: Log, parts: _Parts) -> None:
    """Raise the errors of broken lines when there are more than the caller allows."""
    rows = max(log.seen, parts.read_records + log.broken)
    limit = Options(allow_failed=log.options.allow_failed).failed_limit(rows)
    if log.broken <= limit:
        return
    if parts.tasks:
        hint = f"copy the log again, or import the rest with `--allow-failed {log.broken}`"
        log.errors.errors[0].hint = hint
    log.errors.raise_any()


def _require_wanted(log: Log, tasks: Sequence[ImportedTask]) -> None:
    """Raise an error when the log has not got what the caller asks for."""
    task, score = log.options.task, log.options.score
    if task is not None and task not in log.tasks:
        hint = "leave `--task` out: it has only one"
        if log.tasks:
            hint = suggest(task, log.tasks) or f"tasks: {listing(log.tasks)}"
        raise log.make_error("E206", f"the log has no task `{task}`", hint)
    if score is not None and tasks and not any(task.judged for task in tasks):
        hint = "leave `--score` out: the first score of the log is taken then"
        raise log.make_error("E206", f"the log has no score `{score}`", hint)
    if not tasks:
        message = "nothing of the log can be used" if log.broken else "the log has no completions"
        raise log.make_error("E210", message)


def _add_notices(
    log: Log, store: RecordStore, description: LogDescription, samples: int, missing: int
) -> None:
    """Add what a reader cannot know: it needs all records of a task."""
    task = f"task `{description.task}`: " if len(log.tasks) > 1 else ""
    if missing:
        hint = "they are in the completions with the status ERROR: a run of them is incomplete"
        log.notice(f"{task}{missing} completions are not in the log", hint)
    if description.expected is not None and description.expected > samples:
        log.notice(f"{task}the log has {samples} of {description.expected} samples")
    if store.foreign_truths:
        more = ""
        if store.foreign_truths > 1:
            more = f", and {store.foreign_truths - 1} more"
        hint = "`answerkey run` with `--allow-failed N` leaves up to N such rows out"
        log.notice(f"{task}`answerkey run` would refuse it: {store.foreign_truth}{more}", hint)
    questions = store.counts["asks"]
    labelled = store.counts["choices"]
    if 0 < labelled < questions:
        message = f"{task}{questions - labelled} of {questions} questions have no choices"
        log.notice(message, "they cannot be scored as they are")
    if questions and not labelled:
        guessed = store.guess_choices()
        consequence = "replies are compared as texts"
        if guessed:
            consequence = f"taken to be {listing(guessed)}, by the truths"
        log.notice(f"{task}the log lists no choices: {consequence}")


@contextmanager
def _write_whole(folder: Path) -> Iterator[Path]:
    """Yield a folder that gets its name when all is in it.

    Nothing is left when something goes wrong.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        hint = "name a new or empty folder with `--out`"
        raise SpecError("E119", f"`{folder}` is there already; nothing was written", hint=hint)
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(folder)
    except (OSError, pl.exceptions.PolarsError, sqlite3.Error) as error:
        hint = "check the free space and the rights of the folder, or choose another with `--out`"
        raise RunError("E502", f"cannot write `{folder}`: {error}", hint=hint) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


# ── logs in the cache


def keep_log(path: Path, kind: str, options: ImportOptions) -> Path:
    """Import a log into the cache, unless it is there with this content and these options.

    Return its project.
    """
    path = path.resolve()
    content = sha256(f"{__version__}\n{kind}\n{path}\n{options}".encode(errors="replace"))
    sources = [path] if options.dataset is None else [path, options.dataset]
    for source in sources:
        for file in iterate_files(source, packed=True):
            content.update(f"\n{file.name}\n".encode(errors="replace"))
            with file.open() as stream:
                while block := stream.read(_HASHED):
                    content.update(block)
    cached = default_cache_file().parent / "logs" / content.hexdigest()[:32]
    # By this name people see it.
    place = cached / "project" / make_key(path.name)
    if not place.exists():
        try:
            _import(kind, path, place, options)
        except SpecError:
            # Unless another process was faster.
            if not place.exists():
                raise
    return place


def read_notices(project: Path) -> list[Notice]:
    """Return the notices of the import of a log."""
    texts = json.loads((project / "import.json").read_text(encoding="utf-8"))["notices"]
    matches = filter(None, map(_NOTICE.fullmatch, texts))
    return [Notice(match[1], where=Place(file=match[2]), hint=match[3]) for match in matches]


def open_log(path: Path) -> Run | None:
    """Return the run of a log, imported and scored in the cache.

    None for what no importer recognises.
    """
    kind = find_kind(path)
    if kind is None:
        return None
    try:
        project = keep_log(path, kind, ImportOptions())
    except AnswerkeyError as error:
        error.hint = _name_command(error.hint, path)
        raise
    out = project.parents[1] / project.name
    if not is_run(out) or load_run(out).status != "complete":
        shutil.rmtree(out, ignore_errors=True)
        run_project(project, out=out)
    run = load_run(out)
    notices = read_notices(project)
    hinted = [replace(notice, hint=_name_command(notice.hint, path)) for notice in notices]
    shown = [*map(str, hinted), *run.manifest["notices"]]
    return replace(run, manifest={**run.manifest, "notices": shown})


def _name_command(hint: str | None, path: Path) -> str | None:
    """Return a hint that names an option with the command that has it."""
    if hint is None or "`--" not in hint:
        return hint
    return f"{hint}; these are options of `answerkey score {shlex.quote(str(path))}`"


# ── kinds of logs


def find_kind(path: Path) -> str | None:
    """Return the kind of a log; None for what no importer recognises."""
    preview = LogPreview(path)
    return next((kind for kind in READERS if READERS[kind].recognises(preview)), None)


def find_logs(folder: Path) -> list[tuple[Path, str]]:
    """Return the logs that lie in a folder, each a file of its own, and their kinds."""
    logs = []
    for path in sorted(path for path in folder.iterdir() if path.is_file())[:_LOOKED_AT]:
        kind = find_kind(path)
        if kind is not None and kind != PlainReader.kind:
            logs.append((path, kind))
    return logs


def detect_kind(path: str | Path) -> str:
    """Return the kind of a log; DataError E201 when no reader recognises it."""
    path = Path(path)
    kind = find_kind(path)
    if kind is not None:
        return kind
    logs = find_logs(path) if path.is_dir() else []
    if logs:
        raise refuse_folder(path, logs, "import auto")
    files = listing(sorted(LogPreview(path).names), limit=5)
    hint = f"name one of {listing(READERS)} in place of `auto`; files there: {files}"
    raise DataError(
        "E201",
        f"the kind of the log `{path}` is not recognised",
        where=Place(file=str(path)),
        hint=hint,
    )


def refuse_folder(folder: Path, logs: Sequence[tuple[Path, str]], command: str) -> DataError:
    """Return the error of a folder in which each file is a log of its own."""
    names = listing([path.name for path, _ in logs], limit=5)
    kinds = listing(sorted({kind for _, kind in logs}))
    message = f"`{folder}` is not one log: its files are logs of their own ({kinds}): {names}"
    hint = f"name one of them: `answerkey {command} {shlex.quote(str(logs[0][0]))}`"
    return DataError("E201", message, where=Place(file=str(folder)), hint=hint)
