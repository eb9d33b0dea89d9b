"""Laws of what leaves a template: plain values, and foreign exceptions in the words of the user."""

from __future__ import annotations

import builtins
import datetime as dt
import json
import re
from types import SimpleNamespace
from typing import Any, cast

import jinja2.exceptions
import pytest
from jinja2 import Undefined, UndefinedError
from markupsafe import Markup

from answerkey.templates.environment import replace_pattern
from answerkey.templates.values import (
    FOREIGN,
    MOST_ELEMENTS,
    MOST_STEPS,
    Budget,
    ExcessError,
    MissingName,
    count_within,
    describe_type,
    make_plain,
    make_printable,
    measure,
    translate_error,
)
from answerkey.types import Row


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *(((one for one in (1, 2)), [1, 2]), (range(2), [0, 1]), ({"a": 1}.keys(), ["a"])),
        *(({"a": 1}.values(), [1]), ({"a": 1}.items(), [["a", 1]]), ((1, (2, 3)), [1, [2, 3]])),
        *(([iter([1])], [[1]]), ({"a": range(1)}, {"a": [0]}), (Row(a=1), {"a": 1})),
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
        *((None, "null"), (True, "a boolean"), (1, "a number"), (1.5, "a number"), ("", "text")),
        *(([], "a list"), (Row(), "a sample"), ({}, "a mapping"), (b"", "a bytes")),
    ],
)
def test_types_have_words_that_users_know(value: object, words: str) -> None:
    """Messages do not speak of NoneType or str."""
    assert describe_type(value) == words


#: Reading files, importing, warning, parsing Python: nothing of it happens while a template renders.
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
    found = [*vars(builtins).values(), *vars(jinja2.exceptions).values(), re.error, json.JSONDecodeError]
    kinds = [
        one for one in found if isinstance(one, type) and issubclass(one, Exception) and one is not Exception
    ]
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
        (KeyError(), "there is no such key"),
        (IndexError("list index out of range"), "list index out of range"),
        (LookupError("unknown encoding: x"), "unknown encoding: x"),
        (OverflowError("too large"), "too large"),
        (FloatingPointError("f"), "f"),
        (
            RecursionError("maximum recursion depth exceeded"),
            "the template calls itself too often, or the value is nested too deeply",
        ),
        (RuntimeError("r"), "r"),
        (MemoryError(), "the template needs more memory than there is"),
        (TypeError("t"), "t"),
        (TypeError(), "values of the wrong type"),
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


def test_error_with_a_line_is_otherwise_the_same() -> None:
    """Only the message changes."""
    problem = translate_error(MissingName("m", hint="h", column="c"), 3)
    assert (problem.message, problem.hint, problem.column) == ("m (line 3 of the template)", "h", "c")
    assert problem.is_undefined


def test_what_is_counted_is_counted_once_and_no_further_than_asked() -> None:
    """A list that is reached twice counts once: a trace shows the messages of the exchange again."""
    shared = ["a"] * 10
    assert count_within([["a"] * 10 for _ in range(10)], 1_000) == 2 * 10 + 2 + 10 * (2 * 10 + 2 + 10)
    assert count_within([["a"] * 10_000] * 2, 100) == 6 + 2 * 10_000 + 2
    assert count_within([shared, {"again": shared}], 1_000) == 6 + (2 * 10 + 2 + 10) + (4 + len("again"))


def replace(pattern: str, repl: str, text: str, *, budget: Budget | None = None, **options: Any) -> str:  # noqa: ANN401 - those of the filter
    """Return what `regex_replace` makes of a text."""
    context = cast("Any", SimpleNamespace(budget=budget or Budget()))
    return replace_pattern(context, text, pattern, repl, **options)


ANCHORED = r"^\s*x.*y"


@pytest.mark.parametrize(
    ("pattern", "size", "quick"),
    [
        *(("[aeiou]+", 1_000_000, True), ("[aeiou]+x", 5_000, True), ("[aeiou]+x", 50_000, False)),
        *(("abc", 1_000_000, True), (r"^\s*([A-D])\s*$", 5_000, True)),
        *((r"\s*([A-D])\s*$", 5_000, False), (r"\)*", 5_000, True), (r"[(+*)]", 5_000, True)),
        *(("(a+)+$", 30, False), ("(?:a|b)*", 30, False), ("(a){5}", 30, False)),
        *(("a?" * 40, 30, False), ("(?x)(a) *", 30, False), ("a|b", 5_000, True)),
        # `^` means the beginning of the text only without the multi-line flag.
        *((ANCHORED, 5_000, True), ("(?#lines)" + ANCHORED, 5_000, False)),
    ],
)
def test_the_worst_case_of_a_pattern_decides_who_runs_it(pattern: str, size: int, quick: bool) -> None:  # noqa: FBT001 - a column of the table
    """Repeats multiply the size of the text, branches double, a repeated group has no bound."""
    budget, is_multiline = Budget(MOST_STEPS - 1), pattern.startswith("(?#lines)")
    try:
        replace(pattern.removeprefix("(?#lines)"), "", "z" * size, budget=budget, multiline=is_multiline)
    except ExcessError:
        assert not quick
    else:
        assert quick


@pytest.mark.parametrize(
    ("pattern", "repl"),
    [
        ("(a)(b)?", r"<\1\2>"),
        ("(?P<n>[A-Z])+", r"\g<n>"),
        (r"(?:\s|,)+", " "),
        ("(x)*", "-"),
        ("(?i)(É)+", "e"),
    ],
)
def test_both_engines_agree(pattern: str, repl: str) -> None:
    """A pattern that goes to the slower engine replaces as Python's own does."""
    for text in ("ab, aB  ABC éÉ xx", "ab, aB  ABC éÉ xx" * 1000):
        assert replace(pattern, repl, text) == re.sub(pattern, repl, text)


def test_a_pattern_without_end_takes_the_time_of_its_row() -> None:
    """Then it is the row's error; what is left of the time is for the other patterns of the row."""
    budget = Budget()
    with pytest.raises(ExcessError, match="takes too long on this text"):
        replace("(a|aa)+$", "", "a" * 60 + "b", budget=budget)
    assert 0 < budget.seconds < 0.5


@pytest.mark.parametrize(
    ("pattern", "repl", "reason"),
    [
        *(("(a)", r"\9", "invalid group reference"), ("(a+)+", r"\9", "invalid group reference")),
        ("{e<=1}(a+)+", "", "nothing for fuzzy constraint"),
    ],
)
def test_what_either_library_cannot_read_is_no_pattern(pattern: str, repl: str, reason: str) -> None:
    """It is the same error whichever library replaces."""
    with pytest.raises(re.error, match=reason):
        replace(pattern, repl, "a")


def test_a_list_that_is_too_long_to_print_is_refused() -> None:
    """The texts of a list count together."""
    with pytest.raises(ExcessError, match="a value of more than 10,000,000 elements"):
        measure(["x" * MOST_ELEMENTS, "y"])
