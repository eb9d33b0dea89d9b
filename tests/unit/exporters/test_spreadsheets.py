"""Laws of CSV that people open in a spreadsheet."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.exporters import guard_column


def guard(text: str | None) -> str | None:
    """Return one guarded text."""
    found: str | None = guard_column(pl.Series("text", [text], dtype=pl.String))[0]
    return found


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("\t=1", "\t'=1"),
        ("\r=1", "\r'=1"),
        ("\n=1", "\n'=1"),
        (" =1", " '=1"),
        ("＝1", "'＝1"),
        ("- item", "'- item"),
        ("a;=HYPERLINK(1)", "a;'=HYPERLINK(1)"),
        ('a;"=1"', 'a;"\'=1"'),
        ("a\n=1\n@b", "a\n'=1\n'@b"),
        ("a\t--cmd|x", "a\t'--cmd|x"),
    ],
)
def test_what_would_be_computed_is_text(text: str, guarded: str) -> None:
    """An apostrophe stands before whatever begins like a formula, where a cell begins or may begin."""
    assert guard(text) == guarded


@pytest.mark.parametrize(
    "text",
    [
        *("B", "", "a=b", "a - b", "x@y.z", "5", "-5", "+1.5e-3", "-.5", "-", "+", "1-2"),
        "Options:\n- one\n- two",
        "a, b; c",
    ],
)
def test_other_texts_stay(text: str) -> None:
    """Numbers, lone signs, lists within a text and everything else are as they were."""
    assert guard(text) == text


def test_no_text_is_no_text() -> None:
    """A null stays null, and columns that hold no text are left alone."""
    assert guard(None) is None
    numbers = pl.Series("n", [-1.0, 2.0])
    assert guard_column(numbers).to_list() == [-1.0, 2.0]


@given(st.text())
def test_no_cell_begins_a_formula(text: str) -> None:
    """Whatever the text, its first sign is none that is computed, unless all of it is a number or a sign."""
    shown = guard(text) or ""
    first = shown.lstrip()[:1]
    is_number = shown.strip() in {"+", "-"} or _is_number(shown)
    assert first not in {"=", "@", "+", "-"} or is_number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("unseen", ["\x1c", "\x00", "\x7f", "\x85", "\ufeff", "\u200b", "\u200e", "\u2060"])
def test_what_nobody_sees_hides_no_formula(unseen: str) -> None:
    """In front of a cell, and after what other programs take for the end of one."""
    found = guard_column(pl.Series("x", [f"{unseen}=1+1", f"x;{unseen}@SUM(1)", f"{unseen}x"])).to_list()
    assert found == [f"{unseen}'=1+1", f"x;{unseen}'@SUM(1)", f"{unseen}x"]
