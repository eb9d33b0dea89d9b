"""The extraction rules that say which part of them decided, and where in the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import polars as pl

from answerkey.scorers.heads import Reading
from answerkey.scorers.leading_label import read_leading_label
from answerkey.scorers.pairing import read_pairs
from answerkey.scorers.pattern_rule import check_pattern, match_all, read_pattern
from answerkey.scorers.stated_answer import read_stated_answer

#: What a column of such readings looks like: `span` is where the passage begins and ends.
PART_SCHEMA: dict[str, pl.DataType] = {
    "choice": pl.String(),
    "reason": pl.String(),
    "part": pl.String(),
    "span": pl.List(pl.Int64),
}

#: Texts with one character of a word in them: if that names a choice, no option's text can change it.
_LONE_CHARACTER = r"^\W*\w\W*$"


class LeadingLabel:
    """The first character after its wrapping, if nothing makes it ambiguous."""

    name = "leading_label"
    has_parts = True
    reads_options = False

    def read(self, text: str, choices: Sequence[str], _options: Sequence[str] | None = None) -> Reading:
        """Return the first character after its wrapping, or the reason why it names no choice."""
        return read_leading_label(text, choices)

    def read_all(
        self, texts: pl.Series, choices: Sequence[str], _options: pl.Series | None = None
    ) -> pl.DataFrame:
        """Return the same for a column."""
        return _read_distinct(texts, partial(read_leading_label, choices=choices))


class StatedAnswer:
    """The answer that the text states, wherever it stands."""

    name = "stated_answer"
    has_parts = True
    reads_options = True

    def read(self, text: str, choices: Sequence[str], options: Sequence[str] | None = None) -> Reading:
        """Return the answer that the text states, or the reason why it states none."""
        return read_stated_answer(text, choices, options)

    def read_all(
        self, texts: pl.Series, choices: Sequence[str], options: pl.Series | None = None
    ) -> pl.DataFrame:
        """Return the same for a column, with the option texts of each row."""
        without = partial(read_stated_answer, choices=choices)
        if options is None:
            return _read_distinct(texts, without)
        is_lone = texts.str.contains(_LONE_CHARACTER)
        lone = _read_distinct(texts.filter(is_lone), without)
        settled = is_lone.clone()
        settled[is_lone.arg_true()] = lone["choice"].is_not_null()
        rest, told = texts.filter(~settled), options.filter(~settled)
        readings, codes = read_pairs(rest.to_list(), told.to_list(), choices)
        paired = tabulate(readings, PART_SCHEMA)[pl.Series(codes, dtype=pl.UInt32)]
        return _merge(lone.filter(lone["choice"].is_not_null()), paired, settled)


class Pattern:
    """The first match of the user's own regular expression."""

    name = "pattern"
    has_parts = True
    reads_options = False

    def __init__(self, pattern: object) -> None:
        self.pattern = check_pattern(pattern)

    def read(self, text: str, choices: Sequence[str], _options: Sequence[str] | None = None) -> Reading:
        """Return the choice that the first match names, or the reason why there is none."""
        return read_pattern(text, choices, self.pattern)

    def read_all(
        self, texts: pl.Series, choices: Sequence[str], _options: pl.Series | None = None
    ) -> pl.DataFrame:
        """Return the same for a column."""
        distinct = texts.unique(maintain_order=True)
        return _spread(texts, distinct, tabulate(match_all(distinct, choices, self.pattern), PART_SCHEMA))


def _read_distinct(texts: pl.Series, read: Callable[[str], Reading]) -> pl.DataFrame:
    distinct = texts.unique(maintain_order=True)
    return _spread(texts, distinct, tabulate(map(read, distinct), PART_SCHEMA))


def _spread(texts: pl.Series, distinct: pl.Series, readings: pl.DataFrame) -> pl.DataFrame:
    """Return the readings of distinct texts at each of the texts."""
    table = readings.with_columns(distinct.alias("text"))
    found = texts.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    return found.select(list(PART_SCHEMA))


def _merge(first: pl.DataFrame, second: pl.DataFrame, is_first: pl.Series) -> pl.DataFrame:
    """Return the rows of both in one table: where `is_first` the next of the first, else of the second."""
    order = pl.concat([is_first.arg_true(), (~is_first).arg_true()])
    return pl.concat([first, second]).with_columns(order.alias("row")).sort("row").drop("row")


def tabulate(readings: Iterable[Reading], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return readings as a table with these columns."""
    found = list(readings)
    return pl.DataFrame(
        [
            pl.Series(name, [getattr(one, name) for one in found], dtype=dtype)
            for name, dtype in schema.items()
        ]
    )
