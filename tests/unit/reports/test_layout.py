from __future__ import annotations

from answerkey.text import Span, Table, lay_out, line, plain_text, wrap


def test_columns_are_aligned() -> None:
    """Each column is as wide as its widest cell; `>` aligns to the right."""
    table = Table(("name", "n"), [("a", "1"), ("long name", "100")], "<>")
    assert plain_text(lay_out(table, 80)) == "  name         n\n  a            1\n  long name  100\n"


def test_the_flexible_column_gives_way() -> None:
    """When the table is too wide only the flexible column is cut."""
    table = Table(("id", "text"), [("000001", "a text that is much too long")], "<<", flexible=1)
    assert plain_text(lay_out(table, 24)) == "  id      text\n  000001  a text that i…\n"


def test_a_table_without_headings_has_no_heading_line() -> None:
    """Empty headings take no line."""
    assert plain_text(lay_out(Table(("", ""), [("a", "b")], "<<"), 80)) == "  a  b\n"


def test_roles_do_not_change_the_text() -> None:
    """A role is only a hint to the printer; the text is the same without it."""
    assert plain_text([line(Span("bad", "bad"), " news  ")]) == "bad news\n"


def test_wrapped_lines_fit() -> None:
    """Text breaks at spaces; a longer word has its own line."""
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("a verylongword b", 5) == ["a", "verylongword", "b"]
