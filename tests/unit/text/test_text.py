"""Laws of what people read: safe text, numbers, tables, errors as lines."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from answerkey.errors import DataError, Place, SpecError
from answerkey.text import (
    Span,
    describe_notices,
    draw_notice,
    draw_problems,
    draw_table,
    escape_json,
    format_count,
    format_interval,
    format_number,
    format_value,
    make_visible,
    measure_width,
    plain_text,
    shorten,
    wrap,
)
from answerkey.types import MetricValue, Notice

#: Format characters that show something, or that scripts and emoji need.
KEPT = {0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x200C, 0x200D, 0x110BD, 0x110CD}
KEPT |= {*range(0x600, 0x606), *range(0x13430, 0x13440)}


def test_hidden_characters_are_written_out() -> None:
    """Whatever a terminal would obey or hide is printed as an escape.

    Every script stays as it is. With `keep_lines` line feeds stay, tabs are four spaces.
    """
    for text in ("plain", "👩\u200d🚀", "答え ب Å"):
        assert make_visible(text) == text
    assert make_visible("\x1b[31mred a\nb\tc\r") == "\\x1b[31mred a\\nb\\tc\\r"
    assert make_visible("\u202eevil zero\u200bwidth") == "\\u202eevil zero\\u200bwidth"
    assert make_visible("\ufeffB \x9b31m \U000e0041") == "\\ufeffB \\x9b31m \\U000e0041"
    assert make_visible("\ud800") == "\\ud800"
    assert make_visible("a\n\tb\r\n\x1b", keep_lines=True) == "a\n    b\\r\n\\x1b"


@given(st.text(), st.integers(2, 40))
def test_nothing_that_a_terminal_obeys_is_left(text: str, width: int) -> None:
    """No control character survives, whatever the text.

    JSON is read back as it was; cut text fits.
    """
    assert not {*range(32), *range(127, 160)} & set(map(ord, make_visible(text)))
    shown = escape_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert make_visible(shown) == shown
    assert measure_width(shorten(text, width)) <= width


def test_every_hidden_character_is_known() -> None:
    """Of all characters, those for control, format and line ends are written out, but for a few."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    codes = {code for code in range(0x110000) if unicodedata.category(chr(code)) in kinds}
    assert [hex(code) for code in codes - KEPT if make_visible(chr(code)) == chr(code)] == []


def test_a_cut_is_marked_and_fits() -> None:
    """A text that does not fit ends with an ellipsis inside the width."""
    texts = {("short", 10): "short", ("exactly ten", 11): "exactly ten"}
    texts |= {("a long text", 6): "a lon…", ("答え答え", 5): "答え…"}
    assert {(text, width): shorten(text, width) for text, width in texts} == texts


def test_numbers_are_short() -> None:
    """Six significant digits; whole numbers have no point.

    What has a Wilson interval is a share, a mean of lengths is none; no value is neither 0 nor NaN.
    """
    numbers = map(format_number, (3.0, 12.5, 1 / 3, 0.0, -2.0))
    assert list(numbers) == ["3", "12.5", "0.333333", "0", "-2"]
    accuracy = MetricValue("Accuracy", 11918 / 14014, 14014, {}, (0.8, 0.9), "wilson", type="mean")
    length = MetricValue("length", 12.5, 9, type="mean")
    recall = MetricValue("recall", None, 0, note="0/0", type="recall")
    assert list(map(format_value, (accuracy, length, recall))) == ["85.04 %", "12.5", "no value"]
    assert format_interval((0.844435, 0.856244)) == "[84.44, 85.62]"
    assert [format_count(1, "sample"), format_count(2, "sample")] == ["1 sample", "2 samples"]


def test_a_table_is_laid_out() -> None:
    """Columns are aligned, only the flexible one is cut, empty headings take no line."""
    aligned = draw_table(("name", "n"), [("a", "1"), ("long name", "100")], "<>", 80)
    assert plain_text(aligned) == "  name         n\n  a            1\n  long name  100\n"
    cut = draw_table(("id", "text"), [("000001", "a text that is much too long")], "<~", 24)
    assert plain_text(cut) == "  id      text\n  000001  a text that i…\n"
    assert plain_text(draw_table(("", ""), [("a", "b")], "<<", 80)) == "  a  b\n"


def test_lines_keep_their_text() -> None:
    """A role is only a hint to the printer.

    Text breaks at spaces, a longer word has its own line.
    """
    assert plain_text([(Span("bad", "bad"), " news  ")]) == "bad news\n"
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("a verylongword b", 5) == ["a", "verylongword", "b"]


TRUTH = DataError(
    "E204",
    "sample `mmlu-0017`: ground truth 'E' is not among the choices ['A', 'B', 'C', 'D']",
    where=Place("data/mmlu.jsonl", 18, field="answer"),
    hint="fix the row, or run with `--allow-failed 1`",
)


def test_an_error_says_what_happened_where_and_what_to_do() -> None:
    """Code and message, then the place, then the help, each on its line.

    No column's name is obeyed.
    """
    assert plain_text(draw_problems([TRUTH])) == (
        "error[E204]: sample `mmlu-0017`: ground truth 'E' is not among the choices "
        "['A', 'B', 'C', 'D']\n"
        "  --> data/mmlu.jsonl:18, column `answer`\n"
        "  = help: fix the row, or run with `--allow-failed 1`\n"
    )
    hostile = DataError("E206", "column `\x1b[31mx`", where=Place("d.csv", field="\x1b[0m"))
    assert "\x1b" not in plain_text(draw_problems([hostile]))


def test_errors_are_separated_and_counted() -> None:
    """Several errors have a blank line between them; after fifty only their number is told."""
    text = plain_text(draw_problems([SpecError("E107", "unknown key `a`")] * 52))
    assert text.startswith("error[E107]: unknown key `a`\n\nerror[E107]")
    assert text.endswith("and 2 more errors; `--json` has them all\n")


def test_a_notice_is_a_warning() -> None:
    """A notice has the shape of an error, with the word warning."""
    notice = Notice("`choices_field` is an old name", Place("task.yaml", 3, 5), "write `choices`")
    assert plain_text(draw_notice(notice)) == (
        "warning: `choices_field` is an old name\n  --> task.yaml:3:5\n  = help: write `choices`\n"
    )
    assert describe_notices([notice])[0]["line"] == 3
