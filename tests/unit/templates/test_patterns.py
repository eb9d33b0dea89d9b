"""Laws of regular expressions that cannot run for ever."""

from __future__ import annotations

import re

import pytest

from answerkey.templates import RowTrouble, Template
from answerkey.templates.limits import Effort
from answerkey.templates.patterns import is_quick, replace_matches


@pytest.mark.parametrize(
    ("pattern", "size", "quick"),
    [
        ("[aeiou]+", 1_000_000, True),
        ("[aeiou]+x", 5_000, True),
        ("[aeiou]+x", 50_000, False),
        ("abc", 1_000_000, True),
        (r"^\s*([A-D])\s*$", 5_000, True),
        (r"\s*([A-D])\s*$", 5_000, False),
        (r"\)*", 5_000, True),
        (r"[(+*)]", 5_000, True),
        ("(a+)+$", 30, False),
        ("(?:a|b)*", 30, False),
        ("(a){5}", 30, False),
        ("a?" * 40, 30, False),
        ("(?x)(a) *", 30, False),
        ("a|b", 5_000, True),
    ],
)
def test_the_worst_case_of_a_pattern_decides_who_runs_it(pattern: str, size: int, quick: bool) -> None:  # noqa: FBT001 - a column of the table
    """Repeats multiply the size of the text, branches double, a repeated group has no bound."""
    assert is_quick(pattern, re.NOFLAG, size) is quick


def test_an_anchor_saves_the_tries_from_other_starts_unless_every_line_is_one() -> None:
    """`^` means the beginning of the text only without the multi-line flag."""
    assert is_quick(r"^\s*x.*y", re.NOFLAG, 5_000)
    assert not is_quick(r"^\s*x.*y", re.MULTILINE, 5_000)


@pytest.mark.parametrize("pattern", ["(a|a)*$", "(a|aa)+$"])
def test_a_catastrophic_pattern_is_the_rows_trouble(pattern: str) -> None:
    """It is stopped, and the message names it."""
    template = Template.compile(f"{{{{ sample.x | regex_replace('{pattern}', 'x') }}}}")
    with pytest.raises(RowTrouble) as caught:
        template.evaluate(sample={"x": "a" * 5000 + "c"})
    assert caught.value.message == f"`regex_replace`: the pattern {pattern!r} takes too long on this text"


def test_a_replacement_that_fills_the_memory_is_refused() -> None:
    """Also for a harmless pattern."""
    with pytest.raises(OverflowError, match="more than 10,000,000 characters"):
        replace_matches("a", "x" * 10_000, "a" * 10_000, flags=re.NOFLAG, effort=Effort())


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
    text = "ab, aB  ABC éÉ xx"
    assert replace_matches(pattern, repl, text, flags=re.NOFLAG, effort=Effort()) == re.sub(
        pattern, repl, text
    )
    long = text * 1000
    assert replace_matches(pattern, repl, long, flags=re.NOFLAG, effort=Effort()) == re.sub(
        pattern, repl, long
    )
