"""Which rows a reader asked for, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import polars as pl

from answerkey.errors import SpecError, listing
from answerkey.reports.pages.excerpts import Excerpt, Wanted, join_columns
from answerkey.reports.pages.row_index import RowIndex, iterate_columns
from answerkey.reports.pages.sample_source import SampleSource
from answerkey.templates import RowTrouble

SHOWN = ("all", "right", "wrong", "invalid", "failed", "flipped")
SORTS = ("position", "id", "value", "category", "reason")
#: The columns that a query may ask to be equal to something.
EQUAL = ("reason", "category", "truth", "predicted")


@dataclass(frozen=True)
class Query:
    """What a reader asks for; `text` is a part of the id, the question or the completion, in any case.

    `wrong` is scored, VALID and not fully right; `invalid` is apart from it.
    """

    show: str = "all"
    reason: str | None = None
    category: str | None = None
    truth: str | None = None
    predicted: str | None = None
    text: str | None = None
    sort: str = "position"
    descending: bool = False

    def __post_init__(self) -> None:
        for name, known in (("show", SHOWN), ("sort", SORTS)):
            if getattr(self, name) not in known:
                message = f"`{name}` is {getattr(self, name)!r}"
                raise SpecError("E119", message, hint=f"it is one of {listing(known)}")

    @classmethod
    def parse(cls, words: Mapping[str, str]) -> Query:
        """Return the query of an address; other words are passed over, empty ones are none."""
        names = {one.name for one in fields(cls)} - {"descending"}
        given = {name: text for name, text in words.items() if name in names and text}
        return cls(**given, descending=words.get("descending") in {"1", "true"})

    @property
    def is_plain(self) -> bool:
        """Whether it asks for all rows as they stand."""
        return self == Query()


def filter_rows(
    source: SampleSource, index: RowIndex, query: Query, find_flips: Callable[[], pl.Series]
) -> pl.Series:
    """Return the positions of the rows that a query asks for, in dataset order."""
    mask = pl.repeat(True, len(index), dtype=pl.Boolean, eager=True)  # noqa: FBT003 - the value
    if query.show != "all":
        mask &= _show(index, query.show, find_flips)
    for name in EQUAL:
        wanted = getattr(query, name)
        if wanted is not None:
            found = index.match(name, wanted)
            mask &= _compare(source, name, wanted) if found is None else found
    if query.text:
        mask &= search_text(source, query.text)
    return mask.arg_true().cast(pl.UInt32)


def _show(index: RowIndex, show: str, find_flips: Callable[[], pl.Series]) -> pl.Series:
    if show == "flipped":
        marks = pl.repeat(False, len(index), dtype=pl.Boolean, eager=True)  # noqa: FBT003 - the value
        flips = find_flips()
        return marks.scatter(flips, True) if len(flips) else marks  # noqa: FBT003 - the value
    if show == "failed":
        return ~index.is_scored
    if show == "invalid":
        return index.is_invalid
    valid = index.is_scored & ~index.is_invalid
    return valid & (index.is_right if show == "right" else ~index.is_right)


def _compare(source: SampleSource, name: str, wanted: str) -> pl.Series:
    """Return which rows have this text in a column that has too many texts to be coded."""
    parts = [(table[name] == wanted).fill_null(value=False) for table in iterate_columns(source)]
    return pl.concat(parts)


def search_text(source: SampleSource, text: str) -> pl.Series:
    """Return which rows have a text in their id, question or completion, in one pass over all rows."""
    term = text.lower()
    wanted = Wanted(
        columns=join_columns(source.question_columns),
        scorers=(),
        completions=source.rows.has_completions,
    )
    found = [_search_part(source, part, term) for part in source.rows.iterate(wanted)]
    return pl.concat(found) if found else pl.Series([], dtype=pl.Boolean)


def _search_part(source: SampleSource, part: Excerpt, term: str) -> pl.Series:
    found = _contains(part.scores["sample_id"].cast(pl.String), term)
    if part.completions is not None:
        found |= _contains(part.completions.frame["completion"], term)
    if source.fields is not None and part.samples is not None:
        for template in source.fields.questions:
            native = template.series(part.samples)
            if native is None or native.dtype != pl.String:
                values = template.values(part.samples)
                texts = [None if isinstance(one, RowTrouble | None) else str(one) for one in values]
                native = pl.Series(texts, dtype=pl.String)
            found |= _contains(native, term)
    return found


def _contains(texts: pl.Series, term: str) -> pl.Series:
    return texts.str.to_lowercase().str.contains(term, literal=True).fill_null(value=False)


def sort_rows(source: SampleSource, index: RowIndex, query: Query, positions: pl.Series) -> pl.Series:
    """Return positions in the order asked for; rows without the value come last, equals as they stand."""
    if query.sort == "position":
        return positions.reverse() if query.descending else positions
    keys = pl.DataFrame([positions.alias("p"), _find_keys(source, index, query.sort, positions).alias("key")])
    return keys.sort("key", "p", descending=[query.descending, False], nulls_last=True)["p"]


def _find_keys(source: SampleSource, index: RowIndex, sort: str, positions: pl.Series) -> pl.Series:
    if sort == "value":
        return index.values.gather(positions)
    if sort == "id":
        ids = source.rows.scores.read(0, len(source.rows), ["sample_id"])["sample_id"]
        return ids.cast(pl.String).gather(positions)
    coded = index.columns[sort]
    if coded is None:
        return pl.concat([table[sort] for table in iterate_columns(source)]).gather(positions)
    return coded.rank().gather(positions)
