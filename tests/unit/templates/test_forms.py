"""Laws of the forms: what columns compute, and on which rows that is exact."""

from __future__ import annotations

import polars as pl
import pytest

from answerkey.templates.forms import (
    Column,
    Computed,
    Element,
    Field,
    Form,
    Letters,
    Text,
    limit_size,
    print_cells,
)
from answerkey.templates.limits import MOST_ELEMENTS
from answerkey.types import Samples

A, B = Column("sample", "a"), Column("sample", "b")


def compute(form: Form, *encoded: str, **columns: object) -> list[object] | None:
    """Return what a form computes: a value per row, `...` where it is not exact; None if it cannot."""
    frame = pl.DataFrame(columns, strict=False)
    ids = pl.Series([str(n) for n in range(frame.height)], dtype=pl.String)
    computed = form.compute({"sample": Samples(frame, ids, encoded=frozenset(encoded))})
    if computed is None:
        return None
    good = computed.good
    return [
        value if good is None or good[row] else ... for row, value in enumerate(computed.series.to_list())
    ]


def test_a_column_is_itself() -> None:
    """Of every type that datasets have."""
    for cells in (["x", None], [1, None], [1.5, None], [True], [["x"], None], [{"k": [1]}, None]):
        assert compute(A, a=cells) == cells


def test_a_column_that_is_not_there_or_encoded_is_not_computed() -> None:
    """Nor is one of a type that datasets do not have, nor one of another table."""
    assert compute(A, b=[1]) is None
    assert compute(A, "a", a=["1"]) is None
    assert compute(A, a=pl.Series(["2026-01-02"]).str.to_date()) is None
    assert compute(Column("scores", "a"), a=[1]) is None


def test_a_field_is_not_exact_where_its_struct_is_null() -> None:
    """A null field is; a missing one is not computed."""
    assert compute(Field(A, "k"), a=[{"k": 1}, {"k": None}]) == [1, None]
    assert compute(Field(A, "k"), a=[{"k": 1}, None, {"k": None}]) == [1, ..., None]
    assert compute(Field(Field(A, "k"), "l"), a=[{"k": {"l": 1}}, None, {"k": None}]) == [1, ..., ...]
    assert compute(Field(A, "l"), a=[{"k": 1}]) is None
    assert compute(Field(A, "k"), a=["x"]) is None
    assert compute(Field(B, "k"), a=["x"]) is None


def test_an_element_is_not_exact_outside_its_list() -> None:
    """From the front and from the back; a null element is a value."""
    lists = [["x", "y"], ["x"], [], None, [None, None]]
    assert compute(Element(A, 1), a=lists) == ["y", ..., ..., ..., None]
    assert compute(Element(A, -1), a=lists) == ["y", "x", ..., ..., None]
    assert compute(Element(A, -2), a=lists) == ["x", ..., ..., ..., None]


def test_an_index_may_be_a_column_of_whole_numbers() -> None:
    """Null and what is outside are not exact, however far."""
    lists = [["x", "y"]] * 7
    assert compute(Element(A, B), a=lists, b=[0, 1, -2, 2, None, 2**62, -(2**40)]) == [
        "x",
        "y",
        "x",
        *[...] * 4,
    ]
    for other in (["0"] * 7, [True] * 7, [0.0] * 7):
        assert compute(Element(A, B), a=lists, b=other) is None


def test_a_character_of_a_text_is_an_element() -> None:
    """A code point, as in Python."""
    assert compute(Element(A, 1), a=["aé", "e\u0301", "a", "", None]) == ["é", "\u0301", ..., ..., ...]
    assert compute(Element(A, B), a=["日本", "a"], b=[-1, 1]) == ["本", ...]


def test_only_lists_and_texts_have_elements() -> None:
    """And an index beyond all lists is left to Python."""
    assert compute(Element(A, 0), a=[1]) is None
    assert compute(Element(A, 0), b=[1]) is None
    assert compute(Element(A, 2**31), a=[["x"]]) is None


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ("upper", ["AB ", "NONE", ..., ""]),
        ("lower", ["ab ", "none", ..., ""]),
        ("trim", ["aB", "None", ..., ""]),
    ],
)
def test_letters_are_changed_where_all_are_ascii(change: str, texts: list[object]) -> None:
    """Null prints as `None`, as in Jinja."""
    assert compute(Letters(A, change), a=["aB ", None, "ß ", ""]) == texts  # type: ignore[arg-type]


def test_trim_strips_what_python_strips() -> None:
    """The separators from 28 to 31 too."""
    blanks = "".join(chr(code) for code in range(128) if chr(code).isspace())
    assert compute(Letters(A, "trim"), a=[f"{blanks}a{blanks}", "\x00a\x7f"]) == ["a", "\x00a\x7f"]


def test_a_method_is_one_of_texts_alone() -> None:
    """Null has none, nor has a number."""
    assert compute(Letters(A, "upper", is_method=True), a=["a", None]) == ["A", ...]
    assert compute(Letters(A, "upper", is_method=True), a=[1]) is None
    assert compute(Letters(B, "upper"), a=[1]) is None


def test_values_print_as_jinja_prints_them() -> None:
    """Null, booleans, whole numbers, floats, lists and structs."""
    assert compute(Text(("<", A, ">")), a=["x", None]) == ["<x>", "<None>"]
    assert compute(Text((A,)), a=[True, False, None]) == ["True", "False", "None"]
    assert compute(Text((A,)), a=[-1, 2**62, None]) == ["-1", str(2**62), "None"]
    assert compute(Text((A,)), a=[1.0, 1e16, 0.0, -0.0, None]) == ["1.0", "1e+16", "0.0", "-0.0", "None"]
    assert compute(Text((A,)), a=[["x", None], [], None]) == ["['x', None]", "[]", "None"]
    assert compute(Text((A,)), a=[{"k": 0.1}]) == ["{'k': 0.1}"]
    assert compute(Text((A, "/", B)), a=["x", "y"], b=[1, None]) == ["x/1", "y/None"]


def test_text_is_exact_only_where_every_piece_is() -> None:
    """The first piece that fails is the row's trouble, which rendering finds."""
    form = Text((Element(A, 0), " ", Letters(B, "upper")))
    assert compute(form, a=[["x"], [], ["x"]], b=["y", "y", "ß"]) == ["x Y", ..., ...]
    assert compute(form, a=[["x"]], c=["y"]) is None
    assert compute(Text((A,)), a=[[0.0], [-0.0]]) is None
    assert compute(Letters(A, "upper"), a=[[0.0], [-0.0]]) is None


def test_text_of_no_rows_is_empty() -> None:
    """Whatever stands around it."""
    assert compute(Text(("<", A, ">")), a=pl.Series([], dtype=pl.String)) == []


def test_long_texts_are_left_to_the_limits_of_one_row() -> None:
    """Their neighbours are not."""
    assert compute(Text((A, "!")), a=["x" * 500_000, "y"]) == [..., "y!"]
    assert compute(Text((A,)), a=[["x" * 500_001], ["y"]]) == [..., "['y']"]


def test_a_value_beyond_all_limits_is_not_printed() -> None:
    """One that counts more than a template may make."""
    cells = Computed(pl.Series([["x"] * (MOST_ELEMENTS // 2), ["y"]]))
    printed = print_cells(cells)
    assert printed is not None
    assert printed.good is not None
    assert printed.good.to_list() == [False, True]
    limited = limit_size(cells)
    assert limited.good is not None
    assert limited.good.to_list() == [False, True]


def test_small_values_are_handed_on_as_they_are() -> None:
    """Texts have no limit of their own."""
    cells = Computed(pl.Series([["x"]]))
    assert limit_size(cells) == cells
    text = Computed(pl.Series(["x" * 20]))
    assert limit_size(text) is text


def test_rows_that_two_sides_call_exact_are_exact() -> None:
    """None stands for all rows."""
    first, second = pl.Series([True, True, False]), pl.Series([True, False, True])
    cells = Computed(pl.Series([1, 2, 3]))
    assert cells.require(None).good is None
    assert cells.require(first).require(None).good is first
    both = cells.require(first).require(second).good
    assert both is not None
    assert both.to_list() == [True, False, False]


def test_texts_that_would_take_much_memory_are_not_computed() -> None:
    """A long template over a long table is rendered row by row, since every text is out of proportion."""
    assert compute(Text(("x" * 700_000, A)), a=["y"] * 100) is None
