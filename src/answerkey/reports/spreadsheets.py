"""Text in CSV that no spreadsheet takes for a formula.

Spreadsheets compute a cell that begins with `=`, `+`, `-` or `@`, and what they compute can send the other
cells away. An apostrophe in front makes it text. Programs that take semicolons, tabs or line breaks for the
end of a cell, whatever the quotation marks say, find one there, too.
"""

from __future__ import annotations

import polars as pl

#: What a formula begins with, also in full width; and the part of it that numbers and list marks begin with.
_OPENING = "[=@+\\-＝＠＋－]"  # noqa: RUF001 - meant: spreadsheets take them for the same
_SIGNS = "[+\\-＋－]"  # noqa: RUF001 - same
#: What does not keep a cell from being a formula: blanks, and characters that nobody sees.
_UNSEEN = "\\s\\x00-\\x1f\\x7f-\\x9f\\x{200b}-\\x{200f}\\x{2060}\\x{feff}"
_FIRST = f"^([{_UNSEEN}]*)({_OPENING})"
#: Within a cell a sign with a blank after it stays as it is: it is the mark of a list.
_LATER = f"([;\\t\\r\\n][{_UNSEEN}\"']*)([=@＝＠]|{_SIGNS}+[^\\s+\\-＋－])"  # noqa: RUF001 - same
#: Numbers and lone signs are no formulas.
_HARMLESS = r"^\s*(?:[+\-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+\-]?\d+)?|[+\-])\s*$"
_GUARDED = "${1}'${2}"


def guard_column(texts: pl.Series) -> pl.Series:
    """Return a column of texts in which nothing is a formula; one that holds no text stays as it is."""
    if texts.dtype != pl.String:
        return texts
    guarded = pl.col(texts.name).str.replace_all(_LATER, _GUARDED).str.replace(_FIRST, _GUARDED)
    is_harmless = pl.col(texts.name).str.contains(_HARMLESS)
    kept = pl.when(is_harmless).then(texts.name).otherwise(guarded).alias(texts.name)
    return pl.DataFrame([texts]).select(kept).to_series()
