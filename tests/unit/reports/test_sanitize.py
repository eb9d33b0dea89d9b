from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.reports.sanitize import make_visible, measure_width, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202eevil", "\\u202eevil"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ufeffB", "\\ufeffB"),
        ("\x9b31m", "\\x9b31m"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("答え ب Å", "答え ب Å"),
    ],
)
def test_hidden_characters_are_written_out(text: str, shown: str) -> None:
    """Whatever a terminal would obey or hide is printed as an escape; every script stays as it is."""
    assert make_visible(text) == shown


def test_a_block_keeps_its_lines() -> None:
    """With `keep_lines` line feeds stay, tabs are four spaces, the rest is still written out."""
    assert make_visible("a\n\tb\r\n\x1b", keep_lines=True) == "a\n    b\\r\n\\x1b"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    """No control character survives, whatever the text."""
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in make_visible(text))


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("答え", 4), ("e\u0301", 1), ("", 0)])
def test_width_counts_terminal_cells(text: str, width: int) -> None:
    """East Asian wide characters take two cells, combining marks none."""
    assert measure_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("exactly ten", 11, "exactly ten"),
        ("a long text", 6, "a lon…"),
        ("答え答え", 5, "答え…"),
    ],
)
def test_a_cut_is_marked_and_fits(text: str, width: int, shown: str) -> None:
    """A text that does not fit ends with an ellipsis inside the width."""
    assert shorten(text, width) == shown


@given(st.text(max_size=200), st.integers(2, 40))
def test_shortened_text_never_exceeds_the_width(text: str, width: int) -> None:
    """The cut text takes at most `width` cells."""
    assert measure_width(shorten(text, width)) <= width
