"""`import_log`: another tool's log becomes a folder with a dataset, completions, a task and a run file.

    log ──► reader ──► Records ──► RecordStore ──► two tables in one order ──► DIR, whole or not at all

A reader is a class with a `kind` (see `LogReader`); packages add theirs through entry points of the group
`answerkey.importers`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count, groupby
from pathlib import Path
from typing import Literal

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.columns import fill_column, without_collecting
from answerkey.datasets.content import describe_long, find_cell_limit, require_plain
from answerkey.datasets.questions import LABELS
from answerkey.errors import AnswerkeyError, DataError, Place, RunError, SpecError, listing, suggest
from answerkey.evaluate.prepare import Options
from answerkey.evaluate.runner import check
from answerkey.evaluate.runner import run as run_project
from answerkey.importers.evidence import DATASET_KEY, EvidenceReader
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
    RecordBlock,
    iterate_files,
)
from answerkey.importers.predictions import EvalscopeReader, OpenCompassReader
from answerkey.importers.promptfoo import PromptfooReader
from answerkey.importers.tables import (
    AnthropicBatchReader,
    EveryEvalEverReader,
    ExportReader,
    MmluProReader,
    OpenAiBatchReader,
    PlainReader,
)
from answerkey.models.cache import default_cache_file
from answerkey.models.responses import mend_text
from answerkey.runs import Run, is_run, load_run
from answerkey.spec.schema import write_schema
from answerkey.types import CompletionStatus, Notice, Registry, make_encoder

AUTO = "auto"
#: In the order in which they are asked whether they recognise a log; the last takes any table.
_READERS: tuple[type[LogReader], ...] = (
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
READERS: Registry[LogReader] = Registry("answerkey.importers", {one.kind: one for one in _READERS})
_REPORT_EVERY = 2_000
#: A notice as `import.json` has it.
_NOTICE = re.compile(r"warning: (.*?)(?:\n  --> ([^\n]*))?(?:\n  = help: (.*))?", re.DOTALL)
#: So many files of a folder are looked at.
_LOOKED_AT = 100
_HASHED = 2**20
#: A log that has no larger share of the keys of a kind is not near to it.
_NEAR = 0.5
_ENDINGS = (".gz", ".zst", ".eval", ".jsonl", ".ndjson", ".json", ".zip", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class ImportedTask:
    """A task of an imported log: its key in the project, what the log says of it, and what it holds.

    `samples` were asked `num_trials` times each. `statuses` counts completions by status, `judged` those that
    the tool judged, and `their_mean` is the mean of its verdicts. `scorers` are those of the task file.
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
        told = self.description
        return {
            "task": told.task,
            "model": told.model,
            "samples": self.samples,
            "num_trials": self.num_trials,
            "completions": self.statuses,
            "theirs": {
                "score": told.score,
                "judged": self.judged,
                "mean": self.their_mean,
                "reported": told.reported,
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
        return sum(one.samples for one in self.tasks)

    @property
    def has_questions(self) -> bool:
        """Whether the log says what was asked; a run needs that."""
        return all(one.has_questions for one in self.tasks)


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
    progress: Callable[[str, int, int], None] | None = None,
) -> Imported:
    """Import a log into a new folder (default `imported/<name>`) and return what it holds.

    `kind` is one of `READERS`, or `auto`; the rest is told by `ImportOptions`. What a run of the import would
    refuse is among its notices.
    """
    options = ImportOptions(
        score, None if dataset is None else Path(dataset), task, columns or {}, single_answers, allow_failed
    )
    try:
        found = _import(kind, Path(path), None if out is None else Path(out), options, progress)
    except DataError as error:
        is_table = kind == AUTO and error.code != "E201" and detect_kind(path) == PlainReader.kind
        near = _name_nearest(LogPreview(Path(path))) if is_table else None
        error.hint = "; ".join(filter(None, (near, error.hint))) or None
        raise
    errors = check(found.folder).errors if found.has_questions else ()
    if not errors:
        return found
    more = f", and {len(errors) - 1} more mistakes" if len(errors) > 1 else ""
    folder = shlex.quote(str(found.folder))
    refused = Notice(
        f"`answerkey run` would refuse it: {errors[0].message}{more}",
        where=errors[0].where,
        hint=f"`answerkey check {folder}` shows all; "
        f"`answerkey run {folder} --allow-failed N` leaves up to N rows out",
    )
    return replace(found, notices=(*found.notices, refused))


def _import(
    kind: str,
    source: Path,
    out: Path | None,
    options: ImportOptions,
    progress: Callable[[str, int, int], None] | None = None,
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
    name = source.resolve().name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    folder = out if out is not None else Path("imported") / (name or "log")
    with _write_whole(folder) as temporary:
        parts: list[tuple[Path, ImportedTask]] = []
        keys: set[str] = set()
        several, read = _SeveralRight(log, is_allowed=options.single_answers), 0
        records = several.leave_out(reader.read(log))
        # A reader goes over to another task by another description.
        for number, (_, group) in enumerate(groupby(records, lambda _: id(log.description))):
            part, told = temporary / f"part-{number}", log.description
            part.mkdir()
            with (
                tempfile.TemporaryDirectory(prefix=".lines-", dir=temporary) as stage,
                closing(RecordStore(Path(stage))) as store,
            ):
                read = _fill(store, group, log, read, progress)
                if store.counts["says"]:
                    parts.append((part, _write_part(part, log, store, told, keys)))
        limit = Options(allow_failed=options.allow_failed).failed_limit(max(log.seen, read + log.broken))
        if log.broken > limit:
            if parts:
                hint = f"copy the log again, or import the rest with `--allow-failed {log.broken}`"
                log.errors.errors[0].hint = hint
            log.errors.raise_any()
        several.refuse()
        wanted = options.task
        if wanted is not None and wanted not in log.tasks:
            hint = f"tasks: {listing(log.tasks)}" if log.tasks else "leave `--task` out: it has only one"
            hint = suggest(wanted, log.tasks) or hint
            raise log.make_error("E206", f"the log has no task `{wanted}`", hint)
        if options.score is not None and parts and not any(part.judged for _, part in parts):
            hint = "leave `--score` out: the first score of the log is taken then"
            raise log.make_error("E206", f"the log has no score `{options.score}`", hint)
        if not parts:
            raise log.make_error(
                "E210", "nothing of the log can be used" if log.broken else "the log has no completions"
            )
        if log.broken:
            log.notice(f"{log.broken} lines or members are broken or missing, and left out")
        found = Imported(
            path=log.path,
            folder=folder,
            kind=reader.kind,
            title=reader.title,
            tasks=tuple(one for _, one in parts),
            broken=log.broken,
            notices=tuple(log.notices),
            broken_places=tuple(str(one.where) for one in log.errors.errors),
        )
        _write_project(temporary, found, [part for part, _ in parts], reader)
    return found


def _fill(
    store: RecordStore,
    records: Iterable[Record | RecordBlock],
    log: Log,
    read: int,
    progress: Callable[[str, int, int], None] | None,
) -> int:
    """Put the records of a task into a store; return how many were read, with `read` before them."""
    with without_collecting():
        number = read
        for record in records:
            before = number
            if isinstance(record, RecordBlock):
                number += record.frame.height
                store.add_block(record.frame)
            else:
                number += 1
                if not store.add(record):
                    where = Place(file=str(log.path), sample=record.sample_id)
                    text = f"a text of sample `{record.sample_id}`"
                    log.mark_broken(describe_long(text, store.longest), where)
            if progress is not None and number // _REPORT_EVERY > before // _REPORT_EVERY:
                progress("read", number - number % _REPORT_EVERY, 0)
    store.flush()
    return read + max(store.counts["asks"], store.counts["says"])


def _write_part(
    folder: Path, log: Log, store: RecordStore, told: LogDescription, keys: set[str]
) -> ImportedTask:
    """Write the tables of a task, and return what it holds; its key is a new one."""
    counts = store.counts
    samples, num_trials, missing = store.write_tables(folder, file=str(log.path), last_wins=told.last_wins)
    _add_notices(log, store, told, samples, missing)
    first = _make_key(told.task or "imported")
    others = (f"{first}-{place}" for place in count(2))
    key = first if first not in keys else next(one for one in others if one not in keys)
    keys.add(key)
    return ImportedTask(
        key=key,
        description=told,
        samples=samples,
        num_trials=num_trials,
        statuses=dict(sorted(store.statuses.items())),
        judged=counts["their_score"],
        their_mean=store.right / counts["their_score"] if counts["their_score"] else None,
        has_questions=bool(counts["asks"]),
        scorers=_describe_scorers(store),
    )


class _SeveralRight:
    """Questions with several right letters, which are outside of what is scored here."""

    def __init__(self, log: Log, *, is_allowed: bool) -> None:
        self._log, self._is_allowed = log, is_allowed
        self._count = self._all = 0
        self._first: str | None = None

    def leave_out(self, records: Iterable[Record | RecordBlock]) -> Iterator[Record | RecordBlock]:
        """Yield the records of questions with one right letter."""
        for record in records:
            if isinstance(record, RecordBlock):
                self._all += record.frame.height
                yield record
                continue
            asked, self._all = record.question, self._all + 1
            labels = [] if asked is None else (asked.truth or "").split(",")
            if asked is None or len(labels) == 1 or not set(labels) <= set(asked.choices or ()):
                yield record
            else:
                self._count += 1
                self._first = self._first or record.sample_id

    def refuse(self) -> None:
        """Tell how many were left out; DataError E203 when that was not asked for, or nothing is left."""
        if not self._count:
            return
        message = f"{self._count} of {self._all} questions have several right letters"
        message += f" (first: sample `{self._first}`), and one is scored here"
        if self._is_allowed and self._count < self._all:
            self._log.notice(f"{self._count} questions with several right letters are left out")
            return
        rest = self._all - self._count
        hint = f"`--single-answers` leaves them out and takes the other {rest}"
        if not rest:
            hint = "`--single-answers` leaves such questions out, and no other is in this log"
        where = Place(file=str(self._log.path), sample=self._first)
        raise DataError("E215", message, where=where, hint=hint)


def find_kind(path: Path) -> str | None:
    """Return the kind of a log; None for what no importer recognises."""
    preview = LogPreview(path)
    return next((kind for kind in READERS if READERS[kind].recognises(preview)), None)


def keep_log(path: Path, kind: str, options: ImportOptions) -> Path:
    """Import a log into the cache, unless it is there with this content and these options.

    Return its project.
    """
    path = path.resolve()
    content = sha256(f"{__version__}\n{kind}\n{path}\n{options}".encode(errors="replace"))
    files = [path] if options.dataset is None else [path, options.dataset]
    for file in (file for source in files for file in iterate_files(source, packed=True)):
        content.update(f"\n{file.name}\n".encode(errors="replace"))
        with file.open() as stream:
            while block := stream.read(_HASHED):
                content.update(block)
    cached = default_cache_file().parent / "logs" / content.hexdigest()[:32]
    place = cached / "project" / _make_key(path.name)  # by this name people see it
    if not place.exists():
        try:
            _import(kind, path, place, options)
        except SpecError:
            if not place.exists():  # no other process was faster
                raise
    return place


def read_notices(project: Path) -> list[Notice]:
    """Return what was told when a log was imported."""
    texts = json.loads((project / "import.json").read_text(encoding="utf-8"))["notices"]
    matches = filter(None, map(_NOTICE.fullmatch, texts))
    return [Notice(match[1], where=Place(file=match[2]), hint=match[3]) for match in matches]


def find_logs(folder: Path) -> list[tuple[Path, str]]:
    """Return the logs that lie in a folder, each a file of its own, and their kinds."""
    files = sorted(path for path in folder.iterdir() if path.is_file())[:_LOOKED_AT]
    kinds = [(path, find_kind(path)) for path in files]
    return [(path, kind) for path, kind in kinds if kind not in {None, PlainReader.kind}]


def open_log(path: Path) -> Run | None:
    """Return the run of a log, imported and scored in the cache; None for what no importer recognises."""
    if (kind := find_kind(path)) is None:
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
    found = load_run(out)
    notices = [replace(one, hint=_name_command(one.hint, path)) for one in read_notices(project)]
    return replace(
        found, manifest={**found.manifest, "notices": [*map(str, notices), *found.manifest["notices"]]}
    )


def _name_command(hint: str | None, path: Path) -> str | None:
    """Return a hint that names an option with the command that has it."""
    if hint is None or "`--" not in hint:
        return hint
    return f"{hint}; these are options of `answerkey score {shlex.quote(str(path))}`"


def detect_kind(path: str | Path) -> str:
    """Return the kind of a log; DataError E201 when no reader recognises it."""
    if (kind := find_kind(Path(path))) is not None:
        return kind
    preview = LogPreview(Path(path))
    message = f"the kind of the log `{path}` is not recognised"
    files = listing(sorted(preview.names), limit=5)
    hint = f"name one of {listing(READERS)} in place of `auto`; files there: {files}"
    hint = _name_nearest(preview) or hint
    if Path(path).is_dir() and (logs := find_logs(Path(path))):
        raise refuse_folder(Path(path), logs, "import auto")
    raise DataError("E201", message, where=Place(file=str(path)), hint=hint)


def refuse_folder(folder: Path, logs: Sequence[tuple[Path, str]], command: str) -> DataError:
    """Return the error of a folder in which each file is a log of its own."""
    names = listing([path.name for path, _ in logs], limit=5)
    kinds = listing(sorted({kind for _, kind in logs}))
    message = f"`{folder}` is not one log: its files are logs of their own ({kinds}): {names}"
    hint = f"name one of them: `answerkey {command} {shlex.quote(str(logs[0][0]))}`"
    return DataError("E201", message, where=Place(file=str(folder)), hint=hint)


def _name_nearest(preview: LogPreview) -> str | None:
    """Return which kind a log is nearest to, and what of that it lacks; None where nothing is near."""
    known = {name for name in preview.first if isinstance(name, str)}
    best, told = _NEAR, None
    for kind in READERS:
        reader = READERS[kind]
        for keys in (*getattr(reader, "row_keys", ()), *getattr(reader, "head_keys", ())):
            there = {one for one in keys if one in known or preview.mentions(one)}
            if len(there) / len(keys) > best:
                best, missing = len(there) / len(keys), listing(sorted(keys - there))
                told = f"it is nearest to `{kind}`, but lacks {missing}"
    return told


@contextmanager
def _write_whole(folder: Path) -> Iterator[Path]:
    """Yield a folder that gets its name when all is in it; nothing is left when something goes wrong."""
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


def _add_notices(log: Log, store: RecordStore, told: LogDescription, samples: int, missing: int) -> None:
    """Add what a reader cannot know: it needs all records of a task."""
    of = f"task `{told.task}`: " if len(log.tasks) > 1 else ""
    if missing:
        hint = "they are in the completions with the status ERROR: a run of them is incomplete"
        log.notice(f"{of}{missing} completions are not in the log", hint)
    if told.expected is not None and told.expected > samples:
        log.notice(f"{of}the log has {samples} of {told.expected} samples")
    asked, labelled = store.counts["asks"], store.counts["choices"]
    if 0 < labelled < asked:
        message = f"{of}{asked - labelled} of {asked} questions have no choices"
        log.notice(message, "they cannot be scored as they are")
    if asked and not labelled:
        guessed = store.guess_choices()
        by_truths = f"taken to be {listing(guessed or ())}, by the truths"
        log.notice(
            f"{of}the log lists no choices: {by_truths if guessed else 'replies are compared as texts'}"
        )


def describe_import(found: Imported) -> dict[str, object]:
    """Return an import as plain values, as `import.json` and `--json` have it."""
    statuses = sum((Counter(one.statuses) for one in found.tasks), Counter[str]())
    only = found.tasks[0].describe() if len(found.tasks) == 1 else {}
    return {
        "log": str(found.path),
        "folder": str(found.folder),
        "kind": found.kind,
        "tool": found.title,
        **only,
        "samples": found.samples,
        "completions": dict(sorted(statuses.items())),
        "tasks": [one.describe() for one in found.tasks],
        "left_out": found.broken,
        "left_out_places": list(found.broken_places),
        "notices": [str(one) for one in found.notices],
        "answerkey_version": __version__,
    }


# ── all records, and the two tables of them ─────────────────────────────────────────────────────────────────

DATASET, COMPLETIONS = "dataset.parquet", "completions.parquet"
NOT_IN_LOG = "the log has no completion of this sample"
_TEXT, _TEXTS = pl.String(), pl.List(pl.String)
#: The columns of `dataset.parquet`, after `sample_id`.
_QUESTION_COLUMNS: dict[str, pl.DataType] = {
    "question": _TEXT,
    "options": _TEXTS,
    "choices": _TEXTS,
    "answer": _TEXT,
    "category": _TEXT,
    "passage": _TEXT,
    "original": _TEXT,
}
#: The columns of `completions.parquet`, after `sample_id` and `trial`.
_COMPLETION_COLUMNS: dict[str, pl.DataType] = {
    "completion": _TEXT,
    "completion_status": _TEXT,
    "their_score": pl.Float64(),
    "their_answer": _TEXT,
    "finish_reason": _TEXT,
    "prompt_tokens": pl.Int64(),
    "completion_tokens": pl.Int64(),
    "latency": pl.Float64(),
    "error": _TEXT,
    "prompt": _TEXT,
    "reasoning": _TEXT,
    "logprobs": _TEXT,
}
#: What is known of each record beside its columns: whether it asks, and whether it says something.
_KEYS: dict[str, pl.DataType] = {
    "sample_id": _TEXT,
    "trial": pl.Int64(),
    "asks": pl.Boolean(),
    "says": pl.Boolean(),
}
#: All of that, with the place of a record among those that are held.
_STAGED = {"record": pl.Int64(), **_KEYS, **_QUESTION_COLUMNS, **_COMPLETION_COLUMNS}
_OK = CompletionStatus.OK.value
#: Records are written after so many, or so many characters.
_HELD, _HELD_CHARACTERS = 32_768, 16 * 2**20
#: A group of rows has at most about so many bytes, and so many rows.
_GROUP_BYTES, _GROUP_ROWS = 32 * 2**20, 131_072
_SHOWN = 5
#: So many different truths are told apart; a dataset with more has no labels for truths.
_TRUTHS = 64
#: Fewer choices than these are not taken for granted where a log does not list any.
_FEWEST_GUESSED = 4
_write_json = make_encoder(is_compact=False)


class RecordStore:
    """All records of a log in a folder of their own: Parquet files as they come, their keys in a database.

    `counts` has the number of `records`, of those that `asks`, `says` or do both (`paired`), and of the cells
    of each column that are filled. `right` is the sum of the tool's verdicts.
    """

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.truths: set[str] = set()
        self.right = 0.0
        self._folder = folder
        self._parts: list[Path] = []
        self._hashes: list[pl.Series] = []  # of the ids of samples: they take less memory than ids
        self._held: list[tuple[object, ...]] = []
        self._blocks: list[pl.DataFrame] = []
        self._size = self._characters = 0
        self.longest = find_cell_limit() // 4  # a character takes up to four bytes
        self._base = sqlite3.connect(folder / "keys.sqlite", isolation_level=None)
        for command in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA locking_mode = EXCLUSIVE",
            "PRAGMA synchronous = OFF",
            "PRAGMA page_size = 16384",
            "PRAGMA cache_size = -32768",
            f"CREATE TABLE keys ({', '.join(_KEYS)})",
            "CREATE TABLE samples (number INTEGER PRIMARY KEY, sample_id UNIQUE, record)",
            "CREATE TABLE said (sample_id, trial, record, PRIMARY KEY (sample_id, trial)) WITHOUT ROWID",
            "CREATE TABLE trials (number INTEGER PRIMARY KEY, trial)",
            "BEGIN",
        ):
            self._base.execute(command)

    def close(self) -> None:
        """Let go of the database."""
        self._base.close()

    def add(self, record: Record) -> bool:
        """Take a record in; return False for one with a text that is too long for a table."""
        question, said = record.question, record.completion
        row: tuple[object, ...] = (self._size, record.sample_id, record.trial)
        row += (question is not None, said is not None)
        if question is None:
            row += (None,) * len(_QUESTION_COLUMNS)
        else:
            row += (
                question.question,
                None if question.options is None else list(question.options),
                None if question.choices is None else list(question.choices),
                question.truth,
                question.category,
                question.passage,
                _write_json(question.original) if question.original else None,
            )
        if said is None:
            row += (None,) * len(_COMPLETION_COLUMNS)
        else:
            row += (
                said.text,
                said.status.value,
                record.verdict.value,
                record.verdict.answer,
                said.finish_reason,
                said.prompt_tokens,
                said.completion_tokens,
                said.latency,
                said.error,
                None if said.prompt is None else _write_json(said.prompt),
                said.reasoning,
                None if said.logprobs is None else _write_json(said.logprobs),
            )
        lengths = [len(cell) for cell in row if type(cell) is str]
        if question is not None and question.options is not None:
            lengths.append(sum(map(len, question.options)))
        if max(lengths) > self.longest:
            return False
        if said is not None and isinstance(said.logprobs, Mapping):
            self.counts["rankings"] += "ranking" in said.logprobs
        self._held.append(row)
        self._note(1, sum(lengths))
        return True

    def add_block(self, frame: pl.DataFrame) -> None:
        """Take in a table of records that ask and say; columns that it has not are null."""
        own = {"record": pl.int_range(self._size, self._size + frame.height), "trial": pl.lit(0)}
        own |= {"asks": pl.lit(value=True), "says": pl.lit(value=True), "completion_status": pl.lit(_OK)}
        own |= {name: pl.col(name) for name in frame.columns}
        block = frame.select(
            own.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in _STAGED.items()
        )
        sizes = (pl.col(name).str.len_chars().sum() for name, dtype in _STAGED.items() if dtype == _TEXT)
        options = pl.col("options").list.join("").str.len_chars().sum()
        self._blocks.append(block)
        self._note(frame.height, sum(block.select(*sizes, options).row(0)))

    def _note(self, records: int, characters: int) -> None:
        """Count records that are held, and write them when there are enough."""
        self._size += records
        self._characters += characters
        if self._size >= _HELD or self._characters >= _HELD_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Write and count the records that are held."""
        columns: list[Sequence[object]] = list(zip(*self._held, strict=True)) or [()] * len(_STAGED)

        def build() -> pl.DataFrame:
            pairs = zip(_STAGED.items(), columns, strict=True)
            return pl.DataFrame([fill_column(name, cells, dtype) for (name, dtype), cells in pairs])

        try:
            frame = build()
        except UnicodeEncodeError:  # half surrogate pairs, which no file can hold
            columns = [[_mend(cell) for cell in column] for column in columns]
            frame = build()
        if self._blocks:
            frame = pl.concat([frame, *self._blocks]).sort("record")
        frame = frame.drop("record")
        counted = frame.select(
            pl.len().alias("records"),
            pl.col("asks", "says").sum(),
            (pl.col("asks") & pl.col("says")).sum().alias("paired"),
            pl.col(*_QUESTION_COLUMNS, *_COMPLETION_COLUMNS).count(),
        )
        self.counts.update(counted.row(0, named=True), characters=self._characters)
        self.statuses.update(frame["completion_status"].drop_nulls().to_list())
        if len(self.truths) < _TRUTHS:
            self.truths.update(frame.filter("asks")["answer"].fill_null("").unique())
        for value in frame["their_score"].drop_nulls():
            self.right += value
        self._hashes.append(frame["sample_id"].hash())
        self._parts.append(self._folder / f"records-{len(self._parts):06d}.parquet")
        frame.write_parquet(self._parts[-1], compression="lz4", statistics=False)
        self._held, self._blocks, self._size, self._characters = [], [], 0, 0

    def guess_choices(self) -> list[str] | None:
        """Return the choices of a log without any, if its truths are letters: from A to the last, or D."""
        if self.counts["choices"] or not self.truths or not self.truths <= set(LABELS[:26]):
            return None
        return list(LABELS[: max(_FEWEST_GUESSED, *(LABELS.index(one) + 1 for one in self.truths))])

    def write_tables(self, folder: Path, *, file: str, last_wins: bool) -> tuple[int, int, int]:
        """Write both tables into a folder, in the same order of samples; return samples, trials and gaps.

        Most logs have one record for each sample; these are copied. In others a sample comes several times
        (epochs), or questions and answers are apart: the first question and the last answer count. A trial
        that is in no record is an ERROR among the completions. Without any question there are only
        completions. DataError when records do not fit together.
        """
        ask, counts = self._base.execute, self.counts
        always = {"answer", "completion", "completion_status"}
        questions, completions = (
            ["sample_id", *(name for name in columns if counts[name] or name in always)]
            for columns in (_QUESTION_COLUMNS, _COMPLETION_COLUMNS)
        )
        records = pl.scan_parquet(self._parts, glob=False)
        if counts["paired"] == counts["records"] == pl.concat(self._hashes).n_unique():
            self._sink(records.select(questions), folder / DATASET)
            self._sink(records.select(completions), folder / COMPLETIONS)
            return counts["records"], 1, 0
        marks = ", ".join("?" * len(_KEYS))
        for path in self._parts:
            keys = pl.read_parquet(path, columns=list(_KEYS), glob=False)
            self._base.executemany(f"INSERT INTO keys VALUES ({marks})", keys.iter_rows())

        def pick(rows: pl.Series) -> pl.LazyFrame:
            """Return some records, whose numbers ascend."""
            numbered = records.with_row_index("record", 1)
            return numbered.join(rows.to_frame().lazy(), on="record", how="semi", maintain_order="left")

        last = "SELECT sample_id, trial, max(rowid) FROM keys WHERE says GROUP BY sample_id, trial"
        ask(f"INSERT INTO said {last}")
        again = "SELECT sample_id FROM keys WHERE says AND rowid NOT IN (SELECT record FROM said)"
        if not last_wins and (ids := self._list_ids(again, "rowid")):
            message, hint = f"samples are there twice: {ids}", "import the files of one run at a time"
            raise DataError("E208", message, where=Place(file=file), hint=hint)
        first = "SELECT sample_id, min(rowid) AS first FROM keys WHERE asks GROUP BY sample_id"
        if not counts["asks"]:
            first = "SELECT sample_id, min(record) AS first FROM said GROUP BY sample_id"
        ask(f"INSERT INTO samples (sample_id, record) {first} ORDER BY first")
        unknown = "SELECT sample_id FROM said WHERE sample_id NOT IN (SELECT sample_id FROM samples)"
        if ids := self._list_ids(unknown, "record"):
            (count,) = ask(f"SELECT count(*) FROM ({unknown})").fetchone()
            message = f"completions without a question: {count} ({ids})"
            hint = "the ids of the log and of the dataset must be the same"
            raise DataError("E209", message, where=Place(file=file), hint=hint)
        ask("INSERT INTO trials (trial) SELECT DISTINCT trial FROM said ORDER BY trial")
        if counts["asks"]:
            rows = self._list_records("SELECT record FROM samples ORDER BY number")
            self._sink(pick(rows).select(questions), folder / DATASET)
        grid = (
            "FROM samples CROSS JOIN trials"
            " LEFT JOIN said ON said.sample_id = samples.sample_id AND said.trial = trials.trial"
        )
        rows = self._list_records(f"SELECT said.record {grid} ORDER BY samples.number, trials.number")
        names = [name for name in completions if name not in {"sample_id", "error"}]
        if rows.null_count() or not rows.is_sorted():
            found = self._order(grid, names)
        else:
            numbers = {trial: number - 1 for number, trial in ask("SELECT number, trial FROM trials")}
            found = pick(rows).with_columns(pl.col("trial").replace_strict(numbers))
        self._sink(found.select("sample_id", "trial", *names, "error"), folder / COMPLETIONS)
        (num_trials,) = ask("SELECT count(*) FROM trials").fetchone()
        return len(rows) // num_trials, num_trials, rows.null_count()

    def _order(self, grid: str, names: Sequence[str]) -> pl.LazyFrame:
        """Return the completions in the order of samples and trials; one that is missing is an ERROR."""
        ask, columns = self._base.execute, ["record", *names, "error"]
        ask(f"CREATE TABLE texts (record INTEGER PRIMARY KEY, {', '.join(columns[1:])})")
        insert = f"INSERT INTO texts VALUES ({', '.join('?' * len(columns))})"
        start = 1
        for path in self._parts:
            frame = pl.read_parquet(path, glob=False).with_row_index("record", start)
            start += frame.height
            self._base.executemany(insert, frame.filter("says").select(columns).iter_rows())
        special = {
            "completion_status": f"ifnull(completion_status, '{CompletionStatus.ERROR.value}')",
            "error": f"CASE WHEN completion_status IS NULL THEN '{NOT_IN_LOG}' ELSE error END",
        }
        cells = ", ".join(special.get(name, name) for name in columns[1:])
        rows = ask(
            f"SELECT samples.sample_id, trials.number - 1, {cells} {grid}"
            " LEFT JOIN texts ON texts.record = said.record ORDER BY samples.number, trials.number"
        )
        schema = {"sample_id": _TEXT, "trial": pl.Int64()}
        schema |= {name: _COMPLETION_COLUMNS[name] for name in columns[1:]}
        parts: list[Path] = []
        while block := rows.fetchmany(self._group):
            parts.append(self._folder / f"ordered-{len(parts):06d}.parquet")
            frame = pl.DataFrame(block, schema=schema, orient="row")
            frame.write_parquet(parts[-1], compression="lz4", statistics=False)
        return pl.scan_parquet(parts, glob=False)

    @property
    def _group(self) -> int:
        """How many rows are written together."""
        held = _GROUP_BYTES * self.counts["records"] // max(self.counts["characters"], 1)
        return max(1_000, min(held, _GROUP_ROWS))

    def _sink(self, rows: pl.LazyFrame, path: Path) -> None:
        rows.sink_parquet(
            path, compression="zstd", compression_level=1, statistics=False, row_group_size=self._group
        )

    def _list_records(self, query: str) -> pl.Series:
        return pl.Series("record", (row[0] for row in self._base.execute(query)), dtype=pl.UInt32)

    def _list_ids(self, query: str, order: str) -> str:
        """Return the first ids that a query finds, for a message; empty when it finds none."""
        ids = [row[0] for row in self._base.execute(f"{query} ORDER BY {order} LIMIT {_SHOWN + 1}")]
        return listing(ids[:_SHOWN]) + (" ..." if len(ids) > _SHOWN else "") if ids else ""


def _mend(cell: object) -> object:
    if isinstance(cell, list):
        return [mend_text(one) for one in cell]
    return mend_text(cell) if isinstance(cell, str) else cell


# ── the files of the project ────────────────────────────────────────────────────────────────────────────────

_SCHEMAS, _ROWS = ".schemas", "dataset.jsonl"
_BLOCK = 8_192
_LONGEST_KEY = 80
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,250}")
_WORDS = frozenset({"null", "true", "false", "yes", "off"})
#: Characters that JSON leaves as they are and YAML does not read back.
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_TEXT_SCORER = """\
    # The log lists no choices: a reply is right when it equals the truth, letter by letter.
    - type: string_equals
      ground_truth: "{{ sample.answer }}"
"""
_EXTRACTION = """\
      # How a reply is read. `stated_answer` finds an answer wherever it stands, `first_character`
      # is the strictest rule; the summary shows what both read.
      extraction: stated_answer
"""


def _write_project(folder: Path, found: Imported, parts: Sequence[Path], reader: LogReader) -> None:
    """Write `import.json` and, where there are questions, a task file for each task and the run file.

    The tables of the only task lie beside them, those of several in folders with the keys of the tasks.
    """
    text = json.dumps(describe_import(found), ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "import.json").write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")
    is_only, stated = len(parts) == 1, set[str]()
    models, datasets, tasks, specifications = "", "", "", ""
    for part, one in zip(parts, found.tasks, strict=True):
        place, told = folder if is_only else folder / one.key, one.description
        if is_only:
            for file in part.iterdir():
                file.replace(folder / file.name)
            part.rmdir()
        else:
            part.replace(place)
        if not found.has_questions:
            continue
        at, dataset_key = ("", DATASET_KEY) if is_only else (f"{one.key}/", one.key)
        task_key, dataset = _write_task(place, found, one, reader, dataset_key)
        if told.model and told.model not in stated:
            stated.add(told.model)
            models += f"""\
  - key: {_make_key(told.model)}
    display_name: {_quote_plain(told.model)}
    config:
      connection_type: placeholder
"""
        datasets += f"""\
  - key: {dataset_key}
    display_name: {_quote_plain(told.task or "Imported questions")}
    source:
      type: local
      file_path: {at}{dataset}
"""
        tasks += f"  - $ref: {at}task.yaml\n"
        specifications += f"    - task_key: {task_key}\n      completions: {at}{COMPLETIONS}\n"
        specifications += f"      model_key: {_make_key(told.model)}\n" if told.model else ""
    if not found.has_questions:
        return
    first = found.tasks[0].description
    key = found.tasks[0].key if is_only else _make_key(found.folder.name)
    name = first.task or found.folder.name if is_only else f"{len(parts)} tasks of {found.folder.name}"
    source = _make_plain(f"{found.title} `{name}`")
    title = ", ".join(part for part in (first.task if is_only else name, *sorted(stated)) if part) or key
    _write_yaml(
        folder,
        "run",
        f"""\
# {source}: what was asked, what was said, and how it is scored. No model is asked.
{f"models:{chr(10)}{models}{chr(10)}" if models else ""}datasets:
{datasets}
tasks:
{tasks}
evaluation:
  key: {key}
  display_name: {_quote_plain(title)}
  description: {_quote_plain(f"Imported from {source}.")}
  task_specifications:
{specifications}""",
    )


def _write_yaml(folder: Path, kind: Literal["task", "run"], text: str) -> None:
    """Write a file with the JSON Schema by which editors know its fields."""
    (folder / _SCHEMAS).mkdir(exist_ok=True)
    head = f"# yaml-language-server: $schema={_SCHEMAS}/{kind}.json\n"
    (folder / f"{kind}.yaml").write_text(head + text, encoding="utf-8")
    (folder / _SCHEMAS / f"{kind}.json").write_text(write_schema(kind), encoding="utf-8")


def _write_task(
    folder: Path, found: Imported, one: ImportedTask, reader: LogReader, dataset_key: str
) -> tuple[str, str]:
    """Write the task file; return its key, and the file of its dataset.

    The task is that which an evidence log states, with the rows as it names their columns, or one that fits.
    """
    name = one.description.task or "imported"
    if isinstance(reader, EvidenceReader) and reader.definition is not None:
        key = reader.task_key if _KEY.fullmatch(reader.task_key) else one.key
        description = {"description": f"Imported from the evidence log of {_make_plain(name)}."}
        fields = {"key": key, "display_name": _make_plain(name), **reader.task_fields}
        fields |= {} if "description" in fields else description
        task = "# The task of the evidence log, as it states it. The replies are recorded.\n"
        task += "".join(f"{line}\n" for line in write_yaml({**fields, "definition": reader.definition}))
        _write_yaml(folder, "task", task)
        _write_rows(folder)
        return key, _ROWS
    source = _make_plain(f"{found.title} `{one.description.task or found.folder.name}`")
    trials = f"  trials:\n    num_trials: {one.num_trials}\n" if one.num_trials > 1 else ""
    _write_yaml(
        folder,
        "task",
        f"""\
# What the replies of {source} are scored with. Change it as you like; the replies stay.
key: {one.key}
display_name: {_quote_plain(name)}
description: {_quote_plain(f"Imported from {source}.")}
tasks: [chat_completion]

definition:
  type: benchmark_task
  dataset:
    key: {dataset_key}
{trials}  scorers:
{one.scorers}""",
    )
    return one.key, DATASET


def _describe_scorers(store: RecordStore) -> str:
    """Return the scorers of a task that fits the replies of any log, as YAML."""
    counts, choices = store.counts, store.guess_choices()
    if not counts["choices"] and choices is None:
        return _TEXT_SCORER
    guessed = "    # The log lists no choices: these are told from its truths.\n" if choices else ""
    stated = json.dumps(choices, ensure_ascii=False) if choices else '"{{ sample.choices }}"'
    common = f'      ground_truth_choice: "{{{{ sample.answer }}}}"\n      choices: {stated}\n'
    options = '      options: "{{ sample.options }}"\n' if counts["options"] else ""
    ranking = f"""\
    # The log has the log-probability of each choice: how sure the model was, and if rightly.
    - type: choice_probabilities
{common}      extraction: stated_answer
"""
    text = f"{guessed}    - type: string_equals_mcqa\n{common}{options}{_EXTRACTION}"
    return text + (ranking if counts["rankings"] == counts["says"] else "")


def _write_rows(folder: Path) -> None:
    """Write the samples with the columns that the log's own task names; some are in memory at a time."""
    scan = pl.scan_parquet(folder / DATASET, glob=False)
    names = [name for name in ("sample_id", "original") if name in scan.collect_schema()]
    with (folder / _ROWS).open("w", encoding="utf-8", newline="\n") as out:
        offset = 0
        while (block := scan.select(names).slice(offset, _BLOCK).collect()).height:
            offset += block.height
            for row in block.iter_rows(named=True):
                original = json.loads(row.get("original") or "{}")
                own = original.get("sample_id")
                if own is None or str(own) != row["sample_id"]:
                    original["sample_id"] = row["sample_id"]
                out.write(json.dumps(original, ensure_ascii=False, allow_nan=False) + "\n")
    (folder / DATASET).unlink()


def write_yaml(value: Mapping[str, object] | list[object], depth: int = 0) -> Iterator[str]:
    """Yield the lines of a YAML block in which every text is quoted, so that it stays what it is.

    A word that can be nothing else stays bare.
    """

    def quote(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(r"[a-z_]{3,}", value) and value not in _WORDS:
            return value
        text = mend_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
        return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

    pad = "  " * depth
    if isinstance(value, Mapping):
        entries = [(f"{pad}{quote(str(key))}:", inner) for key, inner in value.items()]
    else:
        entries = [(f"{pad}-", inner) for inner in value]
    for start, inner in entries:
        if isinstance(inner, Mapping | list) and inner:
            yield start
            yield from write_yaml(inner, depth + 1)
        else:
            yield f"{start} {quote(inner)}"


def _make_key(text: str) -> str:
    """Return a text as a key: letters, digits, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:_LONGEST_KEY] or "imported"


def _make_plain(text: str) -> str:
    """Return a name on one line, without what a task file would take for a config or environment value."""
    words = "".join(one if one.isprintable() else " " for one in text).replace("<<", "< <").split()
    plain = " ".join(words)
    return f"`{plain}`" if plain.startswith("$") else plain


def _quote_plain(text: str) -> str:
    """Return a name as YAML reads it back: JSON is YAML, but for a few line breaks."""
    return json.dumps(_make_plain(text), ensure_ascii=False)
