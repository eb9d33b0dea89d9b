"""Laws of the values that leave a template."""

from __future__ import annotations

import datetime as dt

import pytest
from jinja2 import Undefined, UndefinedError
from markupsafe import Markup

from answerkey.templates.values import describe_type, make_plain, make_printable
from answerkey.types import Row


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((one for one in (1, 2)), [1, 2]),
        (range(2), [0, 1]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        ({"a": 1}.items(), [["a", 1]]),
        ((1, (2, 3)), [1, [2, 3]]),
        ([iter([1])], [[1]]),
        ({"a": range(1)}, {"a": [0]}),
        (Row(a=1), {"a": 1}),
        (Markup("<b>"), "<b>"),
        (dt.date(2026, 1, 2), dt.date(2026, 1, 2)),
        (b"a", b"a"),
    ],
)
def test_what_is_lazy_becomes_a_list(value: object, plain: object) -> None:
    """Generators, ranges, views and tuples are lists, at any depth; marked-up text is text."""
    found = make_plain(value)
    assert found == plain
    assert type(found) is type(plain)


def test_what_is_printed_keeps_its_tuples() -> None:
    """Jinja prints a tuple with round brackets."""
    assert make_printable((1, iter([2]))) == (1, [2])


def test_an_undefined_value_fails_at_any_depth() -> None:
    """Only as a whole, when printed, is it nothing."""
    assert make_printable(Undefined()) == ""
    for value in (Undefined(name="x"), [Undefined(name="x")], {"a": (Undefined(name="x"),)}):
        with pytest.raises(UndefinedError, match="'x' is undefined"):
            make_plain(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("", "text"),
        ([], "a list"),
        (Row(), "a sample"),
        ({}, "a mapping"),
        (b"", "a bytes"),
    ],
)
def test_types_have_words_that_users_know(value: object, words: str) -> None:
    """Messages do not speak of NoneType or str."""
    assert describe_type(value) == words
