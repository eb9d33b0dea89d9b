"""All records of a task, kept in Parquet files until the two tables of them are written."""

from __future__ import annotations

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
#: These are in the tables even where they hold nothing.
_ALWAYS = frozenset({"answer", "completion", "completion_status"})
_KEYS: dict[str, pl.DataType] = {
    "record": pl.UInt32(),
    "sample_id": _TEXT,
    "trial": pl.Int64(),
    "asks": pl.Boolean(),
    "says": pl.Boolean(),
}
_LISTS = ["options", "choices"]
_SCHEMA = {**_KEYS, **_QUESTION_COLUMNS, **_COMPLETION_COLUMNS, **dict.fromkeys(_LISTS, _TEXT)}
#: A group of rows in memory has about so many characters at most, and so many rows.
_GROUP_CHARACTERS, _GROUP_ROWS = 32 * 2**20, 65_536
_SHOWN = 5
#: So many different truths are told apart; a dataset with more has no labels for truths.
_TRUTHS = 64
#: Fewer choices than these are not taken for granted where a log does not list any.
_FEWEST_GUESSED = 4
_write_json = make_encoder(is_compact=False)


class RecordStore:
    """All records of a task, in files of a folder of their own.

    `counts` has the number of `records`, of those that `asks`, `says` or do both (`paired`), and of
    the cells of each column that are filled. `right` is the sum of the tool's verdicts, `longest`
    the most characters of a text. `foreign_truths` counts questions whose truth is none of their
    choices; `foreign_truth` describes the first.
    """

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.truths: set[str] = set()
        self.right = 0.0
        self.foreign_truths = 0
        self.foreign_truth = ""
        self.longest = find_cell_limit() // 4  # a character takes up to four bytes
        self._folder = folder
        self._files: list[Path] = []
        self._rows: list[tuple[object, ...]] = []
        self._characters = 0

    def add(self, record: Record) -> bool:
        """Add a record; return False for one with a text that is too long for a table."""
        question, completion = record.question, record.completion
        row = (
            self.counts["records"],
            record.sample_id,
            record.trial,
            None if question is None else True,
            None if completion is None else True,
            *_list_question(question),
            *_list_completion(completion, record.verdict),
        )
        lengths = [len(cell) for cell in row if type(cell) is str]
        if max(lengths) > self.longest:
            return False
        self._rows.append(row)
        self._characters += sum(lengths)
        self.counts["records"] += 1
        if question is not None and question.choices and question.truth not in question.choices:
            self._note_foreign_truth(record.sample_id, question)
        if completion is not None and isinstance(completion.logprobs, Mapping):
            self.counts["rankings"] += "ranking" in completion.logprobs
        if self._characters > _GROUP_CHARACTERS or len(self._rows) >= _GROUP_ROWS:
            self.finish()
        return True

    def _note_foreign_truth(self, sample_id: str, question: Question) -> None:
        self.foreign_truths += 1
        if self.foreign_truths == 1:
            choices = list(question.choices or ())
            truth = f"ground truth {question.truth!r} is not among the choices {choices}"
            self.foreign_truth = f"sample `{sample_id}`: {truth}"

    def finish(self) -> None:
        """Write the records that are in memory, and count what they hold."""
        try:
            frame = _make_frame(self._rows)
        except UnicodeEncodeError:  # half surrogate pairs, which no file can hold
            frame = _make_frame([tuple(map(_mend, row)) for row in self._rows])
        self._files.append(self._folder / f"records-{len(self._files):06d}.parquet")
        frame.write_parquet(self._files[-1], compression="uncompressed")
        self._rows.clear()
        self._characters = 0
        for column in frame.iter_columns():
            self.counts[column.name] += len(column) - column.null_count()
        self.counts["paired"] += frame.filter("asks", "says").height
        self.statuses.update(frame.filter("says")["completion_status"].to_list())
        if len(self.truths) < _TRUTHS:
            self.truths.update(frame.filter("asks")["answer"].fill_null("").unique().head(_TRUTHS))
        self.right += float(frame["their_score"].sum())

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
        keys = pl.read_parquet(self._files, columns=list(_KEYS))
        completions = keys.filter("says")
        answers = completions.unique(["sample_id", "trial"], keep="last", maintain_order=True)
        if not last_wins and answers.height < completions.height:
            repeated = completions.filter(
                pl.col("record").is_in(answers["record"].implode()).not_()
            )
            message = f"samples are there twice: {_list_ids(repeated)}"
            hint = "import the files of one run at a time"
            raise DataError("E208", message, where=Place(file=file), hint=hint)
        asked = keys.filter("asks") if self.counts["asks"] else answers
        samples = asked.unique("sample_id", keep="first", maintain_order=True)
        unknown = answers.join(samples, on="sample_id", how="anti", maintain_order="left")
        if unknown.height:
            message = f"completions without a question: {unknown.height} ({_list_ids(unknown)})"
            hint = "the ids of the log and of the dataset must be the same"
            raise DataError("E209", message, where=Place(file=file), hint=hint)
        if self.counts["asks"]:
            names = self._list_filled(_QUESTION_COLUMNS)
            self._write(samples.select("sample_id", "record"), names, folder / DATASET)
        trials = answers.select("trial").unique().sort("trial").with_row_index("number")
        grid = samples.select("sample_id").join(trials, how="cross", maintain_order="left_right")
        records = answers.select("sample_id", "trial", "record")
        grid = grid.join(records, on=["sample_id", "trial"], how="left", maintain_order="left")
        grid = grid.select("sample_id", pl.col("number").cast(pl.Int64).alias("trial"), "record")
        is_simple = self.counts["paired"] == self.counts["records"] == samples.height
        self._write_completions(grid, folder / COMPLETIONS, has_trials=not is_simple)
        return samples.height, trials.height, grid["record"].null_count()

    def _write_completions(self, grid: pl.DataFrame, path: Path, *, has_trials: bool) -> None:
        """Write the completions; where there are trials, one that is missing is an ERROR."""
        names = self._list_filled(_COMPLETION_COLUMNS)
        if not has_trials:
            self._write(grid.drop("trial"), names, path)
            return
        names = [*(name for name in names if name != "error"), "error"]
        self._write(grid, names, path, missing=True)

    def _list_filled(self, columns: Iterable[str]) -> list[str]:
        return [name for name in columns if self.counts[name] or name in _ALWAYS]

    def _write(
        self, grid: pl.DataFrame, names: Sequence[str], path: Path, *, missing: bool = False
    ) -> None:
        """Write columns of the records that a grid names, in its order, some rows at a time.

        With `missing`, rows without a record are an ERROR.
        """
        scan = pl.scan_parquet(self._files, glob=False).select("record", *names)
        group = max(1, -(-self.counts["records"] // len(self._files)))
        parts: list[Path] = []
        for start in range(0, grid.height, group):
            rows = grid.slice(start, group)
            chosen = pl.col("record").is_between(rows["record"].min(), rows["record"].max())
            chosen &= pl.col("record").is_in(rows["record"].drop_nulls().implode())
            cells = scan.filter(chosen).collect()
            frame = rows.join(cells, on="record", how="left", maintain_order="left")
            if missing:
                is_missing = pl.col("record").is_null()
                status = pl.lit(CompletionStatus.ERROR.value)
                frame = frame.with_columns(
                    pl.when(is_missing)
                    .then(status)
                    .otherwise("completion_status")
                    .alias("completion_status"),
                    pl.when(is_missing).then(pl.lit(NOT_IN_LOG)).otherwise("error").alias("error"),
                )
            parts.append(self._folder / f"{path.stem}-{len(parts):06d}.parquet")
            frame.drop("record").write_parquet(parts[-1], compression="uncompressed")
        pl.scan_parquet(parts, glob=False).sink_parquet(
            path, compression="zstd", compression_level=1, statistics=False, row_group_size=group
        )


def _list_ids(rows: pl.DataFrame) -> str:
    """Return the first ids, for a message."""
    ids = rows["sample_id"].to_list()
    more = " ..." if len(ids) > _SHOWN else ""
    return listing(ids[:_SHOWN]) + more


def _list_question(question: Question | None) -> tuple[object, ...]:
    """Return the cells of a question, in the order of its columns."""
    if question is None:
        return (None,) * len(_QUESTION_COLUMNS)
    return (
        question.question,
        question.options and _write_json(question.options),
        question.choices and _write_json(question.choices),
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


def _make_frame(rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
    """Return rows as a table; lists, which are JSON there, are read much faster together."""
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    return frame.with_columns(pl.col(_LISTS).str.json_decode(_TEXTS))
