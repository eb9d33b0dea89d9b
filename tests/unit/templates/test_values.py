"""Laws of what leaves a template: plain values, and foreign exceptions in the words of the user."""

from __future__ import annotations

import builtins
import datetime as dt
import json
import re

import jinja2.exceptions
import pytest
from jinja2 import Undefined, UndefinedError
from markupsafe import Markup

from answerkey.templates.limits import MAX_ELEMENTS, count_size, measure
from answerkey.templates.values import (
    FOREIGN,
    ExcessError,
    MissingName,
    describe_type,
    make_plain,
    make_printable,
    translate_error,
)
from answerkey.types import Row


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *(((number for number in (1, 2)), [1, 2]), (range(2), [0, 1]), ({"a": 1}.keys(), ["a"])),
        *(({"a": 1}.values(), [1]), ({"a": 1}.items(), [["a", 1]]), ((1, (2, 3)), [1, [2, 3]])),
        *(([iter([1])], [[1]]), ({"a": range(1)}, {"a": [0]}), (Row(a=1), {"a": 1})),
        (Markup("<b>"), "<b>"),
        (dt.date(2026, 1, 2), dt.date(2026, 1, 2)),
        (b"a", b"a"),
    ],
)
def test_what_is_lazy_becomes_a_list(value: object, plain: object) -> None:
    """Generators, ranges, views and tuples are lists, at any depth; marked-up text is text."""
    result = make_plain(value)
    assert result == plain
    assert type(result) is type(plain)


def test_what_is_printed_keeps_its_tuples() -> None:
    """Jinja prints a tuple with round brackets."""
    assert make_printable((1, iter([2]))) == (1, [2])


def test_an_undefined_value_fails_at_any_depth() -> None:
    """Only as a whole, when printed, is it nothing."""
    assert make_printable(Undefined()) == ""
    for value in (Undefined(name="x"), [Undefined(name="x")], {"a": (Undefined(name="x"),)}):
        with pytest.raises(UndefinedError, match="'x' is undefined"):
            make_plain(value)


#: Reading files, importing, warning, parsing Python: nothing of it happens while a template
#: renders.
OUT_OF_REACH = (
    OSError,
    ImportError,
    EOFError,
    BufferError,
    ReferenceError,
    SyntaxError,
    SystemError,
    Warning,
    StopIteration,
    StopAsyncIteration,
    BaseExceptionGroup,
)


def all_exceptions() -> list[type[Exception]]:
    """Return the exceptions of Python and Jinja that are within reach."""
    results = [
        *vars(builtins).values(),
        *vars(jinja2.exceptions).values(),
        re.error,
        json.JSONDecodeError,
    ]
    classes = [kind for kind in results if isinstance(kind, type) and issubclass(kind, Exception)]
    kinds = [cls for cls in classes if cls is not Exception]
    return [kind for kind in kinds if not issubclass(kind, OUT_OF_REACH)]


@pytest.mark.parametrize("kind", list(dict.fromkeys(all_exceptions())))
def test_every_exception_of_a_rendering_template_is_translated(kind: type[Exception]) -> None:
    """The table covers what Jinja and Python can raise."""
    assert issubclass(kind, FOREIGN)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("float division by zero"), "division by zero"),
        (KeyError("a"), "there is no key 'a'"),
        (IndexError("list index out of range"), "list index out of range"),
        (LookupError("unknown encoding: x"), "unknown encoding: x"),
        (OverflowError("too large"), "too large"),
        (FloatingPointError("f"), "f"),
        (
            RecursionError("maximum recursion depth exceeded"),
            "the template calls itself too often, or the value is nested too deeply",
        ),
        (RuntimeError("r"), "r"),
        (MemoryError(), "the template needs more memory than is available"),
        (TypeError("t"), "t"),
        *((ValueError("v"), "v"), (UnicodeError("u"), "u"), (AttributeError("a"), "a")),
        *((AssertionError(), "AssertionError"), (UnboundLocalError("l"), "l")),
        (re.error("bad"), "not a regular expression: bad"),
        (jinja2.exceptions.TemplateRuntimeError("x"), "x"),
        (jinja2.exceptions.FilterArgumentError("x"), "x"),
        (jinja2.exceptions.SecurityError("x"), "not allowed in a template: x"),
        (jinja2.exceptions.UndefinedError("x"), "x"),
        (MissingName("x"), "x"),
    ],
)
def test_each_exception_has_its_message(error: Exception, message: str) -> None:
    """The user reads what is wrong with the row, not the name of a Python class."""
    assert translate_error(error).message == message


def test_an_undefined_name_keeps_its_hint_and_column() -> None:
    """What the environment found out is handed on."""
    problem = translate_error(MissingName("m", hint="h", column="c"))
    assert (problem.hint, problem.column, problem.is_undefined) == ("h", "c", True)


def test_a_null_in_a_wrong_place_gets_a_hint() -> None:
    """The commonest TypeError is a null cell."""
    assert translate_error(TypeError("'NoneType' object is not iterable")).hint is not None


def test_a_value_is_counted_no_further_than_necessary() -> None:
    """Characters and parts; keys and numbers too."""
    assert count_size([["a"] * 10 for _ in range(10)], 1_000) == 11 + 10 * (11 + 10)
    assert count_size({"key": [b"ab", 10**6, None]}, 1_000) == 2 + len("key") + 4 + 2 + 1 + 1
    assert 100 < count_size([["a"] * 10_000] * 2, 100) < 11_000
    assert count_size([None] * 1_000_001, MAX_ELEMENTS) > MAX_ELEMENTS


def test_a_list_that_is_too_long_to_print_is_refused() -> None:
    """The texts of a list count together."""
    with pytest.raises(ExcessError, match="a value of more than 10,000,000 elements"):
        measure(["x" * MAX_ELEMENTS, "y"])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((None, "null"), (True, "a boolean"), (1, "a number"), (1.5, "a number"), ("", "text")),
        *(([], "a list"), (Row(), "a sample"), ({}, "a mapping"), (b"", "a bytes")),
    ],
)
def test_types_have_words_that_users_know(value: object, words: str) -> None:
    """Messages do not speak of NoneType or str."""
    assert describe_type(value) == words
