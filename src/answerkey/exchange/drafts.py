"""Lines kept in files until all have been read, and what all of them have in common."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from answerkey.datasets.columns import fill_column
from answerkey.datasets.content import MAX_CELL
from answerkey.exchange.lines import Asked, Line
from answerkey.models.message import mend_text
from answerkey.types import Completion

_TEXT, _TEXTS = pl.String(), pl.List(pl.String)
#: What belongs to the line as a whole; `is_asked` and `is_said` tell which of the other columns it fills.
KEYS: dict[str, pl.DataType] = {
    "sample_id": _TEXT,
    "trial": pl.Int64(),
    "is_asked": pl.Boolean(),
    "is_said": pl.Boolean(),
}
#: The columns of `dataset.parquet`, after `sample_id`.
ASKED: dict[str, pl.DataType] = {
    "question": _TEXT,
    "options": _TEXTS,
    "choices": _TEXTS,
    "answer": _TEXT,
    "category": _TEXT,
    "original": _TEXT,
}
#: The columns of `completions.parquet`, after `sample_id` and `trial`.
SAID: dict[str, pl.DataType] = {
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
_SCHEMA = KEYS | ASKED | SAID
_NOTHING_ASKED, _NOTHING_SAID = (None,) * len(ASKED), (None,) * len(SAID)
#: A file is written after so many lines, or so many characters.
DRAFT_LINES = 32_768
DRAFT_CHARACTERS = 16 * 2**20
#: So many different truths are told apart; a dataset with more has no labels for truths.
_TRUTHS = 64
#: A character takes up to four bytes.
_MOST_CHARACTERS = MAX_CELL // 4


@dataclass
class Seen:
    """What all lines have in common, and how many there are of what."""

    asked: int = 0
    said: int = 0
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
    def lines(self) -> int:
        """How many lines there are, at most."""
        return max(self.asked, self.said)

    def note(self, line: Line) -> None:
        """Take a line in."""
        if line.asked is not None:
            self.asked += 1
            self.with_choices += line.asked.choices is not None
            self.with_options += line.asked.options is not None
            if len(self.truths) < _TRUTHS:
                self.truths.add(line.asked.truth or "")
        if line.completion is not None:
            self.said += 1
            self.statuses[line.completion.status.value] += 1
            logprobs = line.completion.logprobs
            self.with_ranking += isinstance(logprobs, Mapping) and "ranking" in logprobs
            if line.theirs.value is not None:
                self.judged += 1
                self.right += line.theirs.value


class LineDrafts:
    """Takes lines in and keeps them as Parquet files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.seen = Seen()
        self.paths: list[Path] = []
        self._folder = folder
        self._rows: list[tuple[object, ...]] = []
        self._characters = 0

    def add(self, line: Line) -> bool:
        """Take a line in; return False for one with a text that is too long for a table."""
        row, characters = _lay_out(line)
        if characters > _MOST_CHARACTERS and _has_huge(row):
            return False
        self.seen.note(line)
        self._rows.append(row)
        self._characters += characters
        if len(self._rows) >= DRAFT_LINES or self._characters >= DRAFT_CHARACTERS:
            self.flush()
        return True

    def flush(self) -> None:
        """Write the lines that are held."""
        if not self._rows:
            return
        frame = _build_frame(self._rows)
        self.seen.characters += self._characters
        self.seen.present.update(name for name in frame.columns if frame[name].null_count() < frame.height)
        path = self._folder / f"lines-{len(self.paths):06d}.parquet"
        frame.write_parquet(path, compression="lz4", statistics=False)
        self.paths.append(path)
        self._rows, self._characters = [], 0


def _lay_out(line: Line) -> tuple[tuple[object, ...], int]:
    """Return the cells of a line, and about how many characters they have."""
    asked, said = line.asked, line.completion
    questions = _NOTHING_ASKED if asked is None else _lay_out_asked(asked)
    answers = _NOTHING_SAID if said is None else _lay_out_said(said, line)
    cells = (line.sample_id, line.trial, asked is not None, said is not None, *questions, *answers)
    return cells, sum(len(cell) for cell in cells if type(cell) is str)


def _lay_out_asked(asked: Asked) -> tuple[object, ...]:
    return (
        asked.question,
        None if asked.options is None else list(asked.options),
        None if asked.choices is None else list(asked.choices),
        asked.truth,
        asked.category,
        _write_json(asked.original) if asked.original else None,
    )


def _lay_out_said(said: Completion, line: Line) -> tuple[object, ...]:
    return (
        said.text,
        said.status.value,
        line.theirs.value,
        line.theirs.answer,
        said.finish_reason,
        said.prompt_tokens,
        said.completion_tokens,
        said.latency,
        said.error,
        None if said.prompt is None else _write_json(said.prompt),
        said.reasoning,
        None if said.logprobs is None else _write_json(said.logprobs),
    )


#: Made once: `json.dumps` with options makes an encoder for every value.
_write_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


def _has_huge(row: tuple[object, ...]) -> bool:
    return any(type(cell) is str and len(cell) > _MOST_CHARACTERS for cell in row)


def _build_frame(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    try:
        return pl.DataFrame(_fill_columns(zip(*rows, strict=True)))
    except UnicodeEncodeError:
        return pl.DataFrame(_fill_columns(map(_mend, zip(*rows, strict=True))))


def _fill_columns(columns: Iterator[tuple[object, ...]]) -> list[pl.Series]:
    pairs = zip(_SCHEMA.items(), columns, strict=True)
    return [fill_column(name, cells, dtype) for (name, dtype), cells in pairs]


def _mend(cells: tuple[object, ...]) -> tuple[object, ...]:
    """Return cells with half surrogate pairs, which no file can hold, as U+FFFD."""
    return tuple(_mend_cell(cell) for cell in cells)


def _mend_cell(cell: object) -> object:
    if isinstance(cell, list):
        return [mend_text(one) for one in cell]
    return mend_text(cell) if isinstance(cell, str) else cell
