"""`import_log`: another tool's log becomes a folder with a dataset, completions, a task and a run file.

    log ──► reader ──► Records ──► spill files ──► two tables in one order ──► DIR, whole or not at all

A reader is a class with a `kind` (see `LogReader`); packages add theirs through entry points of the group
`answerkey.importers`.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.columns import fill_column, without_collecting
from answerkey.datasets.content import MAX_CELL, require_plain
from answerkey.errors import DataError, Place, RunError, SpecError, listing, suggest
from answerkey.evaluate import Options
from answerkey.importers.evalscope import EvalscopeReader
from answerkey.importers.evidence import DATASET_KEY, EvidenceReader
from answerkey.importers.helm import HelmReader
from answerkey.importers.inspect import InspectReader
from answerkey.importers.lighteval import LightevalReader
from answerkey.importers.lm_eval import LmEvalReader
from answerkey.importers.logs import ImportOptions, Log, LogDescription, LogPreview, LogReader, Record
from answerkey.importers.opencompass import OpenCompassReader
from answerkey.importers.promptfoo import PromptfooReader
from answerkey.importers.questions import LABELS
from answerkey.importers.tables import (
    AnthropicBatchReader,
    EveryEvalEverReader,
    MmluProReader,
    OpenAiBatchReader,
    PlainReader,
)
from answerkey.models.responses import mend_text
from answerkey.spec import schema
from answerkey.types import CompletionStatus, Notice, Registry

AUTO = "auto"
#: By kind, in the order in which they are asked whether they recognise a log; the last takes any table.
READERS: Registry[LogReader] = Registry(
    "answerkey.importers",
    {
        "inspect": InspectReader,
        "lm-eval": LmEvalReader,
        "mmlu-pro": MmluProReader,
        "openai-batch": OpenAiBatchReader,
        "anthropic-batch": AnthropicBatchReader,
        "helm": HelmReader,
        "lighteval": LightevalReader,
        "evalscope": EvalscopeReader,
        "opencompass": OpenCompassReader,
        "promptfoo": PromptfooReader,
        "every_eval_ever": EveryEvalEverReader,
        "evidence": EvidenceReader,
        "plain": PlainReader,
    },
)
_REPORT_EVERY = 2_000
_ENDINGS = (".gz", ".zst", ".eval", ".jsonl", ".ndjson", ".json", ".zip", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class Imported:
    """An imported log: where it lay and lies now, what it says of itself, and what became of its records.

    `samples` were asked `num_trials` times each. `statuses` counts completions by status, `judged` those that
    the tool judged, and `their_mean` is the mean of its verdicts. `broken` lines or members are left out.
    """

    path: Path
    folder: Path
    kind: str
    title: str
    description: LogDescription
    samples: int
    num_trials: int
    statuses: dict[str, int]
    judged: int
    their_mean: float | None
    broken: int
    notices: tuple[Notice, ...] = ()
    has_questions: bool = True
    broken_places: tuple[str, ...] = ()


def import_log(
    kind: str,
    path: str | Path,
    *,
    out: str | Path | None = None,
    options: ImportOptions | None = None,
    allow_failed: int | str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Imported:
    """Import a log into a new folder (default `imported/<name>`) and return what it holds.

    `kind` is one of `READERS`, or `auto`. More broken lines than `allow_failed` (a number, or a share such as
    `"2%"`) are an error, and nothing is written.
    """
    source = Path(path)
    reader = find_reader(kind, source)
    log = Log(source, options or ImportOptions())
    name = source.resolve().name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    folder = Path(out) if out is not None else Path("imported") / (name or "log")
    with _write_whole(folder) as draft, tempfile.TemporaryDirectory(prefix=".lines-", dir=draft) as stage:
        spill = RecordSpill(Path(stage))
        counts = spill.counts
        with without_collecting():
            for number, record in enumerate(reader.read(log), 1):
                if not spill.add(record):
                    where = Place(file=str(log.path), sample=record.sample_id)
                    log.mark_broken(f"a text of sample `{record.sample_id}` is too long for a table", where)
                if progress is not None and number % _REPORT_EVERY == 0:
                    progress("read", number, 0)
            spill.flush()
        limit = Options(allow_failed=allow_failed).failed_limit(max(log.seen, counts.records + log.broken))
        if log.broken > limit:
            log.errors.raise_any()
        if not counts.completions:
            raise log.make_error(
                "E210", "nothing of the log can be used" if log.broken else "the log has no completions"
            )
        joined = join_records(spill, draft, file=str(source), last_wins=log.description.last_wins)
        _add_notices(log, counts, joined)
        found = Imported(
            path=log.path,
            folder=folder,
            kind=reader.kind,
            title=reader.title,
            description=log.description,
            samples=joined.samples,
            num_trials=joined.num_trials,
            statuses=dict(sorted(counts.statuses.items())),
            judged=counts.judged,
            their_mean=counts.right / counts.judged if counts.judged else None,
            broken=log.broken,
            notices=tuple(log.notices),
            has_questions=bool(counts.questions),
            broken_places=tuple(str(one.where) for one in log.errors.errors),
        )
        _write_project(draft, found, counts, reader)
    return found


def find_reader(kind: str, path: Path) -> LogReader:
    """Return the reader of a kind, or for `auto` the first that recognises the log."""
    if not path.exists():
        raise DataError("E201", f"there is no log `{path}`", where=Place(file=str(path)))
    require_plain(path)
    if kind == AUTO:
        return READERS[detect_kind(path)]()
    if kind not in READERS:
        hint = suggest(kind, [*READERS, AUTO]) or f"kinds: {listing([AUTO, *READERS])}"
        raise SpecError("E119", f"there is no kind of log `{kind}`", hint=hint)
    return READERS[kind]()


def detect_kind(path: str | Path) -> str:
    """Return the kind of a log; DataError E201 when no reader recognises it."""
    preview = LogPreview(Path(path))
    for kind in READERS:
        if READERS[kind].recognises(preview):
            return kind
    message = f"the kind of the log `{path}` cannot be told"
    files = listing(sorted(preview.names), limit=5)
    hint = f"name one of {listing(READERS)} in place of `auto`; files there: {files}"
    raise DataError("E201", message, where=Place(file=str(path)), hint=hint)


@contextmanager
def _write_whole(folder: Path) -> Iterator[Path]:
    """Yield a folder that gets its name when all is in it; nothing is left when something goes wrong."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        hint = "name a new or empty folder with `--out`"
        raise SpecError("E119", f"`{folder}` is there already; nothing was written", hint=hint)
    draft = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield draft
        draft.chmod(0o755)
        draft.replace(folder)
    except (OSError, pl.exceptions.PolarsError) as error:
        hint = "check the free space and the rights of the folder, or choose another with `--out`"
        raise RunError("E502", f"cannot write `{folder}`: {error}", hint=hint) from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def _add_notices(log: Log, counts: RecordCounts, joined: Joined) -> None:
    """Add what a reader cannot know: it needs all records."""
    if log.broken:
        log.notice(f"{log.broken} broken lines or members are left out")
    if joined.missing:
        hint = "they are in the completions with the status ERROR: a run of them is incomplete"
        log.notice(f"{joined.missing} completions are not in the log", hint)
    expected = log.description.expected
    if expected is not None and expected > joined.samples:
        log.notice(f"the log has {joined.samples} of {expected} samples")
    unlabelled = counts.questions - counts.with_choices
    if unlabelled and counts.with_choices:
        message = f"{unlabelled} of {counts.questions} questions have no choices"
        log.notice(message, "they cannot be scored as they are")
    if not counts.with_choices and counts.questions:
        guessed = counts.guess_choices()
        told = (
            f"taken to be {listing(guessed)}, by the truths" if guessed else "replies are compared as texts"
        )
        log.notice(f"the log lists no choices: {told}")


def describe_import(found: Imported) -> dict[str, object]:
    """Return an import as plain values, as `import.json` and `--json` have it."""
    return {
        "log": str(found.path),
        "folder": str(found.folder),
        "kind": found.kind,
        "tool": found.title,
        "task": found.description.task,
        "model": found.description.model,
        "samples": found.samples,
        "num_trials": found.num_trials,
        "completions": found.statuses,
        "theirs": {
            "score": found.description.score,
            "judged": found.judged,
            "mean": found.their_mean,
            "reported": found.description.reported,
        },
        "left_out": found.broken,
        "left_out_places": list(found.broken_places),
        "notices": [str(one) for one in found.notices],
        "answerkey_version": __version__,
    }


# ── records in spill files ──────────────────────────────────────────────────────────────────────────────────

_TEXT, _TEXTS = pl.String(), pl.List(pl.String)
#: The columns of `dataset.parquet`, after `sample_id`.
_QUESTION_COLUMNS: dict[str, pl.DataType] = {
    "question": _TEXT,
    "options": _TEXTS,
    "choices": _TEXTS,
    "answer": _TEXT,
    "category": _TEXT,
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
#: `is_question` and `is_completion` tell which of the columns a record fills.
_SPILL_COLUMNS: dict[str, pl.DataType] = {
    "sample_id": _TEXT,
    "trial": pl.Int64(),
    "is_question": pl.Boolean(),
    "is_completion": pl.Boolean(),
    **_QUESTION_COLUMNS,
    **_COMPLETION_COLUMNS,
}
#: A spill file is written after so many records, or so many characters.
SPILL_RECORDS = 32_768
SPILL_CHARACTERS = 16 * 2**20
#: So many different truths are told apart; a dataset with more has no labels for truths.
_TRUTHS = 64
#: A character takes up to four bytes.
_MOST_CHARACTERS = MAX_CELL // 4
#: Fewer choices than these are not taken for granted where a log does not list any.
_FEWEST_GUESSED = 4
#: Made once: `json.dumps` with options makes an encoder for every value.
_write_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass
class RecordCounts:
    """What all records have in common, and how many there are of what; `present` columns hold something."""

    questions: int = 0
    completions: int = 0
    with_choices: int = 0
    with_options: int = 0
    with_ranking: int = 0
    truths: set[str] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    right: float = 0.0
    characters: int = 0
    present: set[str] = field(default_factory=set)

    @property
    def records(self) -> int:
        """How many records there are, at most."""
        return max(self.questions, self.completions)

    def add(self, record: Record) -> None:
        """Count a record."""
        if record.question is not None:
            self.questions += 1
            self.with_choices += record.question.choices is not None
            self.with_options += record.question.options is not None
            if len(self.truths) < _TRUTHS:
                self.truths.add(record.question.truth or "")
        if record.completion is not None:
            self.completions += 1
            self.statuses[record.completion.status.value] += 1
            logprobs = record.completion.logprobs
            self.with_ranking += isinstance(logprobs, Mapping) and "ranking" in logprobs
            if record.verdict.value is not None:
                self.judged += 1
                self.right += record.verdict.value

    def guess_choices(self) -> list[str] | None:
        """Return the choices of a log without any, if its truths are letters: from A to the last, or D."""
        if self.with_choices or not self.truths or not self.truths <= set(LABELS[:26]):
            return None
        return list(LABELS[: max(_FEWEST_GUESSED, *(LABELS.index(one) + 1 for one in self.truths))])


class RecordSpill:
    """Takes records in and keeps them as Parquet files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.counts = RecordCounts()
        self.folder = folder
        self.paths: list[Path] = []
        self._rows: list[tuple[object, ...]] = []
        self._characters = 0

    def add(self, record: Record) -> bool:
        """Take a record in; return False for one with a text that is too long for a table."""
        question, said = record.question, record.completion
        row: tuple[object, ...] = (record.sample_id, record.trial, question is not None, said is not None)
        if question is None:
            row += (None,) * len(_QUESTION_COLUMNS)
        else:
            row += (
                question.question,
                None if question.options is None else list(question.options),
                None if question.choices is None else list(question.choices),
                question.truth,
                question.category,
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
        if max(lengths) > _MOST_CHARACTERS:
            return False
        self.counts.add(record)
        self._rows.append(row)
        self._characters += sum(lengths)
        if len(self._rows) >= SPILL_RECORDS or self._characters >= SPILL_CHARACTERS:
            self.flush()
        return True

    def flush(self) -> None:
        """Write the records that are held."""
        if not self._rows:
            return
        columns = list(zip(*self._rows, strict=True))
        try:
            frame = _build_frame(columns)
        except UnicodeEncodeError:  # half surrogate pairs, which no file can hold
            frame = _build_frame([[_mend(cell) for cell in column] for column in columns])
        self.counts.characters += self._characters
        self.counts.present.update(name for name in frame.columns if frame[name].null_count() < frame.height)
        path = self.folder / f"records-{len(self.paths):06d}.parquet"
        frame.write_parquet(path, compression="lz4", statistics=False)
        self.paths.append(path)
        self._rows, self._characters = [], 0


def _build_frame(columns: Sequence[Sequence[object]]) -> pl.DataFrame:
    pairs = zip(_SPILL_COLUMNS.items(), columns, strict=True)
    return pl.DataFrame([fill_column(name, cells, dtype) for (name, dtype), cells in pairs])


def _mend(cell: object) -> object:
    if isinstance(cell, list):
        return [mend_text(one) for one in cell]
    return mend_text(cell) if isinstance(cell, str) else cell


# ── spill files joined into two tables ──────────────────────────────────────────────────────────────────────

DATASET, COMPLETIONS = "dataset.parquet", "completions.parquet"
#: Rows that are put in order together.
CHUNK_ROWS = 65_536
#: A group of rows has at most about so many bytes.
_GROUP_BYTES = 32 * 2**20
_GROUP_ROWS = 131_072
_SHOWN = 5
NOT_IN_LOG = "the log has no completion of this sample"


@dataclass(frozen=True)
class Joined:
    """What became of the records: `missing` trials are in no record."""

    samples: int
    num_trials: int = 1
    missing: int = 0


def join_records(spill: RecordSpill, folder: Path, *, file: str, last_wins: bool) -> Joined:
    """Write the two tables of all records into a folder, in the same order of samples.

    Most logs have one record for each sample; these are copied. In others the same sample comes several times
    (epochs), or questions and answers are apart. Of each record then a hash of its id is held in memory, and
    the answers are put in order by way of files. Without any question there are only completions. DataError
    when records do not fit together.
    """
    counts = spill.counts
    present = counts.present | {"answer", "completion", "completion_status"}
    question_columns = ["sample_id", *(name for name in _QUESTION_COLUMNS if name in present)]
    completion_columns = ["sample_id", *(name for name in _COMPLETION_COLUMNS if name in present)]
    group = max(1_000, min(_GROUP_BYTES * counts.records // max(counts.characters, 1), _GROUP_ROWS))

    def scan() -> pl.LazyFrame:
        return pl.scan_parquet(spill.paths, glob=False)

    def sink(found: pl.LazyFrame, name: str) -> None:
        found.sink_parquet(
            folder / name, compression="zstd", compression_level=1, statistics=False, row_group_size=group
        )

    def pick(rows: pl.Series, columns: Sequence[str]) -> pl.LazyFrame:
        """Return the records at some places, which ascend."""
        wanted = pl.LazyFrame({"row": rows.cast(pl.UInt32)})
        records = scan().with_row_index("row")
        return records.join(wanted, on="row", how="semi", maintain_order="left").select(columns)

    def list_ids(rows: pl.Series) -> str:
        ids = pick(rows.unique().sort().head(_SHOWN), ["sample_id"]).collect()["sample_id"].to_list()
        return listing(ids) + (" ..." if len(rows) > _SHOWN else "")

    keys = (
        scan()
        .select(pl.col("sample_id").hash().alias("hash"), "trial", "is_question", "is_completion")
        .collect()
        .with_row_index("row")
    )
    if keys["is_question"].all() and keys["is_completion"].all() and keys["hash"].n_unique() == keys.height:
        sink(scan().select(question_columns), DATASET)
        sink(scan().select(completion_columns), COMPLETIONS)
        return Joined(keys.height)

    said = keys.filter("is_completion")
    is_again = said.select("hash", "trial").is_duplicated()
    if is_again.any() and not last_wins:
        rows = said.filter(is_again & ~pl.struct("hash", "trial").is_first_distinct())["row"]
        message, hint = f"samples are there twice: {list_ids(rows)}", "import the files of one run at a time"
        raise DataError("E208", message, where=Place(file=file), hint=hint)
    if is_again.any():
        said = said.unique(["hash", "trial"], keep="last", maintain_order=True)
    numbers = said["trial"].unique().sort()
    said = said.with_columns(numbers.search_sorted(said["trial"]).cast(pl.Int64).alias("trial"))
    has_questions = bool(keys["is_question"].any())
    asked = (keys.filter("is_question") if has_questions else said).unique(
        "hash", keep="first", maintain_order=True
    )
    samples = asked.select("hash", pl.col("row").alias("first")).with_row_index("sample")
    found = said.join(samples, on="hash", how="left", maintain_order="left")
    unknown = found.filter(pl.col("sample").is_null())
    if unknown.height:
        message = f"completions without a question: {unknown.height} ({list_ids(unknown['row'])})"
        hint = "the ids of the log and of the dataset must be the same"
        raise DataError("E209", message, where=Place(file=file), hint=hint)
    num_trials = max(1, len(numbers))
    if has_questions:
        sink(pick(samples["first"], question_columns), DATASET)
    ids = spill.folder / "ids.parquet"
    pick(samples["first"], ["sample_id"]).sink_parquet(ids)
    places = found.select("row", "sample", "trial")
    ordered = _order_completions(spill, places, ids, completion_columns, num_trials=num_trials)
    sink(pl.scan_parquet(list(ordered), glob=False), COMPLETIONS)
    return Joined(samples.height, num_trials, samples.height * num_trials - found.height)


def _order_completions(
    spill: RecordSpill, places: pl.DataFrame, ids: Path, columns: Sequence[str], *, num_trials: int
) -> Iterator[Path]:
    """Yield files with the completions in the order of samples and trials; one that is missing is an ERROR.

    `places` says which sample and trial each record is of. First each completion goes into the file of its
    chunk of samples, then each chunk is put in order.
    """
    step = max(1, CHUNK_ROWS // num_trials)
    start = 0
    for number, path in enumerate(spill.paths):
        frame = pl.read_parquet(path, glob=False).select(columns)
        own = places.filter(pl.col("row").is_between(start, start + frame.height - 1))
        rows = frame[own["row"] - start].with_columns(own["sample"], own["trial"])
        start += frame.height
        chunks = rows.with_columns((pl.col("sample") // step).alias("chunk"))
        for (chunk,), part in chunks.partition_by("chunk", as_dict=True, include_key=False).items():
            name = f"said-{int(chunk):06d}-{number:06d}.parquet"
            part.write_parquet(spill.folder / name, compression="lz4", statistics=False)
    trials = pl.DataFrame({"trial": pl.int_range(0, num_trials, dtype=pl.Int64, eager=True)})
    rest = [name for name in columns if name not in {"sample_id", "error"}]
    offset = 0
    while (block := pl.scan_parquet(ids, glob=False).slice(offset, step).collect()).height:
        samples = block.with_columns((offset + pl.int_range(pl.len())).cast(pl.UInt32).alias("sample"))
        grid = samples.join(trials, how="cross", maintain_order="left_right")
        chunk_name = f"said-{offset // step:06d}"
        parts = sorted(spill.folder.glob(f"{chunk_name}-*.parquet"))
        if parts:
            said = pl.concat([pl.read_parquet(part, glob=False) for part in parts]).drop("sample_id")
        else:
            types = {name: _COMPLETION_COLUMNS[name] for name in columns if name in _COMPLETION_COLUMNS}
            said = pl.DataFrame(schema={"sample": pl.UInt32(), "trial": pl.Int64(), **types})
        filled = grid.join(said, on=["sample", "trial"], how="left", maintain_order="left").with_columns(
            pl.col("completion_status").fill_null(CompletionStatus.ERROR.value),
            pl.when(pl.col("completion_status").is_null())
            .then(pl.lit(NOT_IN_LOG))
            .otherwise(pl.col("error") if "error" in columns else None)
            .alias("error"),
        )
        path = spill.folder / f"{chunk_name}-ordered.parquet"
        ordered = filled.select("sample_id", "trial", *rest, "error")
        ordered.write_parquet(path, compression="lz4", statistics=False)
        yield path
        offset += step


# ── the files of the project ────────────────────────────────────────────────────────────────────────────────

_SCHEMAS, _ROWS = ".schemas", "dataset.jsonl"
_BLOCK = 8_192
_LONGEST_KEY = 80
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,250}")
_WORDS = frozenset({"null", "true", "false", "yes", "off"})
#: Characters that JSON leaves as they are and YAML does not read back.
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _write_project(folder: Path, found: Imported, counts: RecordCounts, reader: LogReader) -> None:
    """Write `import.json` and, where there are questions, the task and the run file.

    The task is that which an evidence log states, with the rows as it names their columns, or one that fits.
    """
    text = json.dumps(describe_import(found), ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "import.json").write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")
    if not found.has_questions:
        return
    name = found.description.task or "imported"
    source = _make_plain(f"{found.title} `{found.description.task or found.folder.name}`")
    key = task_key = _make_key(name)
    dataset = DATASET
    if isinstance(reader, EvidenceReader) and reader.definition is not None:
        if _KEY.fullmatch(reader.task_key):
            task_key = reader.task_key
        description = {"description": f"Imported from the evidence log of {_make_plain(name)}."}
        fields = {"key": task_key, "display_name": _make_plain(name), **reader.task_fields}
        fields |= {} if "description" in fields else description
        start = "# The task of the evidence log, as it states it. The replies are recorded."
        task_lines = [start, *write_yaml({**fields, "definition": reader.definition})]
        dataset = _ROWS
        _write_rows(folder)
    else:
        task_lines = _list_task(key, name, source, found.num_trials, counts)
    _write_yaml_file(folder, "task", task_lines)
    _write_yaml_file(folder, "run", _list_run(key, task_key, dataset, source, found.description))


def _list_task(key: str, name: str, source: str, num_trials: int, counts: RecordCounts) -> list[str]:
    """Return the lines of a task that scores the replies of any log."""
    lines = [
        f"# What the replies of {source} are scored with. Change it as you like; the replies stay.",
        f"key: {key}",
        f"display_name: {_quote_plain(name)}",
        f"description: {_quote_plain(f'Imported from {source}.')}",
        "tasks: [chat_completion]",
        "",
        "definition:",
        "  type: benchmark_task",
        "  dataset:",
        f"    key: {DATASET_KEY}",
    ]
    if num_trials > 1:
        lines += ["  trials:", f"    num_trials: {num_trials}"]
    lines.append("  scorers:")
    choices = counts.guess_choices()
    if not counts.with_choices and choices is None:
        return [
            *lines,
            "    # The log lists no choices: a reply is right when it equals the truth, letter by letter.",
            "    - type: string_equals",
            '      ground_truth: "{{ sample.answer }}"',
        ]
    if choices:
        lines.append("    # The log lists no choices: these are told from its truths.")
    stated = json.dumps(choices, ensure_ascii=False) if choices else '"{{ sample.choices }}"'
    common = ['      ground_truth_choice: "{{ sample.answer }}"', f"      choices: {stated}"]
    lines += ["    - type: string_equals_mcqa", *common]
    if counts.with_options == counts.questions:
        lines.append('      options: "{{ sample.options }}"')
    lines += [
        "      # How a reply is read. `first_character` is the strictest rule, `stated_answer` finds an",
        "      # answer wherever it stands; `answerkey audit` shows what each would say.",
        "      extraction: stated_answer",
    ]
    if counts.with_ranking == counts.completions:
        lines += [
            "    # The log has the log-probability of each choice: how sure the model was, and if rightly.",
            "    - type: choice_probabilities",
            *common,
            "      extraction: stated_answer",
        ]
    return lines


def _list_run(key: str, task_key: str, dataset: str, source: str, told: LogDescription) -> list[str]:
    """Return the lines of the run file, by which `answerkey run DIR` scores the imported completions."""
    title = ", ".join(part for part in (told.task, told.model) if part) or key
    lines = [f"# {source}: what was asked, what was said, and the task that scores it. No model is asked."]
    if told.model:
        lines += [
            "models:",
            f"  - key: {_make_key(told.model)}",
            f"    display_name: {_quote_plain(told.model)}",
            "    config:",
            "      connection_type: placeholder",
            "",
        ]
    lines += [
        "datasets:",
        f"  - key: {DATASET_KEY}",
        f"    display_name: {_quote_plain(told.task or 'Imported questions')}",
        "    source:",
        "      type: local",
        f"      file_path: {dataset}",
        "",
        "tasks:",
        "  - $ref: task.yaml",
        "",
        "evaluation:",
        f"  key: {key}",
        f"  display_name: {_quote_plain(title)}",
        f"  description: {_quote_plain(f'Imported from {source}.')}",
        "  task_specifications:",
        f"    - task_key: {task_key}",
        f"      completions: {COMPLETIONS}",
    ]
    return lines + ([f"      model_key: {_make_key(told.model)}"] if told.model else [])


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


def _write_yaml_file(folder: Path, kind: Literal["task", "run"], lines: Iterable[str]) -> None:
    """Write a file with the schema by which editors know its fields."""
    lines = [f"# yaml-language-server: $schema={_SCHEMAS}/{kind}.json", *lines]
    (folder / f"{kind}.yaml").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / _SCHEMAS).mkdir(exist_ok=True)
    text = json.dumps(schema(kind), indent=1) + "\n"
    (folder / _SCHEMAS / f"{kind}.json").write_text(text, encoding="utf-8")


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
