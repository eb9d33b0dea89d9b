"""A column that says whether the label of a row can be relied on, and which of its values say so."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from answerkey.types import Samples

#: What annotators call a label that is in order; compared in lower case.
CLEAN_VALUES = frozenset(
    {"ok", "okay", "clean", "good", "correct", "valid", "verified", "no_error", "true", "yes", "1"}
)

#: The column, and the values that are clean.
CleanLabels = tuple[str, frozenset[str]]


def choose_clean(column: str | None, clean: Sequence[str]) -> CleanLabels | None:
    """Return the column with the values that the caller calls clean, or the usual ones; None without one."""
    return None if column is None else (column, frozenset(map(_write, clean)) or CLEAN_VALUES)


def read_label_quality(samples: Samples, column: str) -> pl.Series:
    """Return what a column says of each label, as text in lower case."""
    return pl.Series([_write(one) for one in samples.values(column)], dtype=pl.String)


def _write(value: object) -> str:
    return "(none)" if value is None else str(value).strip().lower()
