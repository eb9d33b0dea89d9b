"""All records of a task, kept in a database until the two tables of them are written."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from answerkey.datasets.content import find_cell_limit
from answerkey.errors import DataError, Place, listing
from answerkey.importers.logs import Record, Verdict
from answerkey.importers.questions import LABELS, Question
from answerkey.models.responses import mend_text
from answerkey.types import Completion, CompletionStatus, make_encoder

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
_COLUMNS = (*_QUESTION_COLUMNS, *_COMPLETION_COLUMNS)
#: These are in the tables even where they hold nothing.
_ALWAYS = frozenset({"answer", "completion", "completion_status"})
_KEYS = ("record", "sample_id", "trial", "asks", "says")
_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA synchronous = OFF",
    "PRAGMA page_size = 16384",
    "PRAGMA cache_size = -32768",
    f"CREATE TABLE records ({_KEYS[0]} INTEGER PRIMARY KEY, {', '.join((*_KEYS[1:], *_COLUMNS))})",
    "CREATE TABLE samples (number INTEGER PRIMARY KEY, sample_id UNIQUE, record)",
    "CREATE TABLE trials (number INTEGER PRIMARY KEY, trial)",
    "CREATE TABLE answers (sample_id, trial, record, PRIMARY KEY (sample_id, trial)) WITHOUT ROWID",
    "BEGIN",
)
_INSERT = f"INSERT INTO records VALUES ({', '.join('?' * (len(_KEYS) + len(_COLUMNS)))})"
#: Every sample and trial, with its answer where the log has one.
_GRID = """
    FROM samples CROSS JOIN trials
    LEFT JOIN answers ON answers.sample_id = samples.sample_id AND answers.trial = trials.trial
    LEFT JOIN records ON records.record = answers.record
    ORDER BY samples.number, trials.number
"""
#: A group of rows has at most about so many characters, and so many rows.
_GROUP_CHARACTERS, _GROUP_ROWS = 32 * 2**20, 131_072
_SMALLEST_GROUP = 1_000
_SHOWN = 5
#: So many different truths are told apart; a dataset with more has no labels for truths.
_TRUTHS = 64
#: Fewer choices than these are not taken for granted where a log does not list any.
_FEWEST_GUESSED = 4
_write_json = make_encoder(is_compact=False)


class RecordStore:
    """All records of a task, in a database in a folder of their own.

    `counts` has the number of `records`, of those that `asks`, `says` or do both (`paired`), and of
    the cells of each column that are filled. `right` is the sum of the tool's verdicts, `longest`
    the most characters of a text.
    """

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.statuses: dict[str, int] = {}
        self.truths: set[str] = set()
        self.right = 0.0
        self.longest = find_cell_limit() // 4  # a character takes up to four bytes
        self._characters = 0
        self._rankings = 0
        self._folder = folder
        self._base = sqlite3.connect(folder / "records.sqlite", isolation_level=None)
        for command in _SETTINGS:
            self._base.execute(command)

    def close(self) -> None:
        """Close the database."""
        self._base.close()

    def add(self, record: Record) -> bool:
        """Add a record; return False for one with a text that is too long for a table."""
        question, completion = record.question, record.completion
        row = (
            None,
            record.sample_id,
            record.trial,
            None if question is None else 1,
            None if completion is None else 1,
            *_list_question(question),
            *_list_completion(completion, record.verdict),
        )
        lengths = [len(cell) for cell in row if type(cell) is str]
        if max(lengths) > self.longest:
            return False
        try:
            self._base.execute(_INSERT, row)
        except UnicodeEncodeError:  # half surrogate pairs, which no file can hold
            self._base.execute(_INSERT, [_mend(cell) for cell in row])
        self._characters += sum(lengths)
        if completion is not None and isinstance(completion.logprobs, Mapping):
            self._rankings += "ranking" in completion.logprobs
        return True

    def finish(self) -> None:
        """Count what all records hold, once they are added."""
        names = ("asks", "says", *_COLUMNS)
        counted = {
            "records": "*",
            "paired": "asks AND says",
            **dict(zip(names, names, strict=True)),
        }
        columns = ", ".join(f"count({cells})" for cells in counted.values())
        (counts,) = self._base.execute(f"SELECT {columns} FROM records")
        self.counts = Counter(dict(zip(counted, counts, strict=True)))
        self.counts["rankings"] = self._rankings
        statuses = "SELECT completion_status, count(*) FROM records WHERE says GROUP BY 1"
        self.statuses = dict(self._base.execute(statuses))
        truths = f"SELECT DISTINCT ifnull(answer, '') FROM records WHERE asks LIMIT {_TRUTHS}"
        self.truths = {truth for (truth,) in self._base.execute(truths)}
        ((self.right,),) = self._base.execute("SELECT total(their_score) FROM records")

    def guess_choices(self) -> list[str] | None:
        """Return the choices of a log without any, if its truths are letters: from A to the last,
        or D.
        """
        if self.counts["choices"] or not self.truths or not self.truths <= set(LABELS[:26]):
            return None
        last = max(LABELS.index(truth) for truth in self.truths)
        return list(LABELS[: max(_FEWEST_GUESSED, last + 1)])

    def write_tables(self, folder: Path, *, file: str, last_wins: bool) -> tuple[int, int, int]:
        """Write both tables into a folder, in the same order of samples.

        Return samples, trials and gaps. A sample may come several times (epochs), or questions and
        answers apart: the first question and the last answer count. A trial that is in no record is
        an ERROR among the completions. Without any question there are only completions. DataError
        when records do not fit together.
        """
        self._choose_answers(file, last_wins=last_wins)
        self._choose_samples(file)
        trials = "SELECT DISTINCT trial FROM answers ORDER BY trial"
        self._base.execute(f"INSERT INTO trials (trial) {trials}")
        if self.counts["asks"]:
            self._write_questions(folder / DATASET)
        num_samples = self._count_rows("samples")
        num_trials = self._count_rows("trials")
        is_simple = self.counts["paired"] == self.counts["records"] == num_samples
        self._write_completions(folder / COMPLETIONS, has_trials=not is_simple)
        return num_samples, num_trials, num_samples * num_trials - self._count_rows("answers")

    def _choose_answers(self, file: str, *, last_wins: bool) -> None:
        """Choose the last answer of each sample and trial; E208 where there should be only one."""
        last = "SELECT sample_id, trial, max(record) FROM records WHERE says"
        self._base.execute(f"INSERT INTO answers {last} GROUP BY sample_id, trial")
        if last_wins or self._count_rows("answers") == self.counts["says"]:
            return
        chosen = "SELECT record FROM answers"
        repeated = f"SELECT sample_id FROM records WHERE says AND record NOT IN ({chosen})"
        message = f"samples are there twice: {self._list_ids(repeated)}"
        hint = "import the files of one run at a time"
        raise DataError("E208", message, where=Place(file=file), hint=hint)

    def _choose_samples(self, file: str) -> None:
        """Choose the first record of each sample; E209 for answers without a question."""
        first = "SELECT sample_id, min(record) AS first FROM"
        first += " records WHERE asks" if self.counts["asks"] else " answers"
        first += " GROUP BY sample_id ORDER BY first"
        self._base.execute(f"INSERT INTO samples (sample_id, record) {first}")
        samples = "SELECT sample_id FROM samples"
        unknown = f"SELECT sample_id FROM answers WHERE sample_id NOT IN ({samples})"
        count = self._count_rows(f"({unknown})")
        if count:
            message = f"completions without a question: {count} ({self._list_ids(unknown)})"
            hint = "the ids of the log and of the dataset must be the same"
            raise DataError("E209", message, where=Place(file=file), hint=hint)

    def _write_questions(self, path: Path) -> None:
        names = self._list_filled(_QUESTION_COLUMNS)
        query = f"""
            SELECT samples.sample_id, {", ".join(names)}
            FROM samples CROSS JOIN records ON records.record = samples.record
            ORDER BY samples.number
        """
        types = {name: _QUESTION_COLUMNS[name] for name in names}
        self._write(query, {"sample_id": _TEXT, **types}, path)

    def _write_completions(self, path: Path, *, has_trials: bool) -> None:
        """Write the completions; where there are trials, one that is missing is an ERROR."""
        names = self._list_filled(_COMPLETION_COLUMNS)
        cells = {name: name for name in names}
        types: dict[str, pl.DataType] = {"sample_id": _TEXT}
        if has_trials:
            status = CompletionStatus.ERROR.value
            names = ["trial", *(name for name in names if name != "error"), "error"]
            types["trial"] = pl.Int64()
            cells["trial"] = "trials.number - 1"
            cells["completion_status"] = f"ifnull(completion_status, '{status}')"
            cells["error"] = f"CASE WHEN says IS NULL THEN '{NOT_IN_LOG}' ELSE error END"
        types |= {name: _COMPLETION_COLUMNS.get(name, pl.Int64()) for name in names}
        expressions = ", ".join(cells[name] for name in names)
        self._write(f"SELECT samples.sample_id, {expressions} {_GRID}", types, path)

    def _list_filled(self, columns: Iterable[str]) -> list[str]:
        return [name for name in columns if self.counts[name] or name in _ALWAYS]

    def _write(self, query: str, types: Mapping[str, pl.DataType], path: Path) -> None:
        """Write the rows that a query finds as Parquet; one group of them is in memory."""
        fitting = _GROUP_CHARACTERS * self.counts["records"] // max(self._characters, 1)
        group = min(max(fitting, _SMALLEST_GROUP), _GROUP_ROWS)
        cursor = self._base.execute(query)
        parts: list[Path] = []
        while rows := cursor.fetchmany(group):
            parts.append(self._folder / f"{path.stem}-{len(parts):06d}.parquet")
            frame = _make_frame(rows, types)
            frame.write_parquet(parts[-1], compression="uncompressed", statistics=False)
        pl.scan_parquet(parts, glob=False).sink_parquet(
            path,
            compression="zstd",
            compression_level=1,
            statistics=False,
            row_group_size=group,
        )

    def _count_rows(self, table: str) -> int:
        (count,) = self._base.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def _list_ids(self, query: str) -> str:
        """Return the first ids that a query finds, for a message."""
        rows = self._base.execute(f"{query} ORDER BY record LIMIT {_SHOWN + 1}").fetchall()
        ids = [row[0] for row in rows]
        more = " ..." if len(ids) > _SHOWN else ""
        return listing(ids[:_SHOWN]) + more


def _list_question(question: Question | None) -> tuple[object, ...]:
    """Return the cells of a question, in the order of its columns."""
    if question is None:
        return (None,) * len(_QUESTION_COLUMNS)
    return (
        question.question,
        None if question.options is None else _write_json(question.options),
        None if question.choices is None else _write_json(question.choices),
        question.truth,
        question.category,
        question.passage,
        _write_json(question.original) if question.original else None,
    )


def _list_completion(completion: Completion | None, verdict: Verdict) -> tuple[object, ...]:
    """Return the cells of a completion, in the order of its columns."""
    if completion is None:
        return (None,) * len(_COMPLETION_COLUMNS)
    return (
        completion.text,
        completion.status.value,
        verdict.value,
        verdict.answer,
        completion.finish_reason,
        completion.prompt_tokens,
        completion.completion_tokens,
        completion.latency,
        completion.error,
        None if completion.prompt is None else _write_json(completion.prompt),
        completion.reasoning,
        None if completion.logprobs is None else _write_json(completion.logprobs),
    )


def _mend(cell: object) -> object:
    return mend_text(cell) if isinstance(cell, str) else cell


def _make_frame(
    rows: Sequence[tuple[object, ...]], types: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return rows of the database as a table; lists are JSON there."""
    columns = []
    for place, (name, dtype) in enumerate(types.items()):
        cells = [row[place] for row in rows]
        if dtype == _TEXTS:
            columns.append(pl.Series(name, cells, dtype=_TEXT).str.json_decode(_TEXTS))
        else:
            columns.append(pl.Series(name, cells, dtype=dtype))
    return pl.DataFrame(columns)
