from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.text import escape_json, make_visible, measure_width, shorten


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


#: Format characters that show something, or that scripts and emoji need.
KEPT = {
    *range(0x600, 0x606),
    *(0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x200C, 0x200D, 0x110BD, 0x110CD),
    *range(0x13430, 0x13440),
}


def test_every_hidden_character_is_known() -> None:
    """Of all characters, those for control, format and line ends are written out, but for a few."""
    hidden = {
        code
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and code not in KEPT
    }
    assert [hex(code) for code in sorted(hidden) if make_visible(chr(code)) == chr(code)] == []


@given(st.text())
def test_json_says_the_same_without_hidden_characters(text: str) -> None:
    """What a terminal would obey or hide is an escape in JSON, and is read back as it was."""
    shown = escape_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert make_visible(shown) == shown


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
