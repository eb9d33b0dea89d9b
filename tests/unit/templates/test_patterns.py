"""Laws of regular expressions that cannot run for ever."""

from __future__ import annotations

import re

import pytest

from answerkey.templates import RowTrouble, Template
from answerkey.templates.limits import Effort, count_tries, replace_matches
from answerkey.templates.values import ExcessError


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
    assert (count_tries(pattern, re.NOFLAG, size) <= 10**8) is quick


def test_an_anchor_saves_the_tries_from_other_starts_unless_every_line_is_one() -> None:
    """`^` means the beginning of the text only without the multi-line flag."""
    assert count_tries(r"^\s*x.*y", re.NOFLAG, 5_000) <= 10**8 < count_tries(r"^\s*x.*y", re.MULTILINE, 5_000)


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


def test_a_pattern_of_absurd_length_is_no_pattern() -> None:
    """It is refused before it is compiled."""
    with pytest.raises(re.error, match="the pattern has 2,001 characters; 2,000 are allowed"):
        replace_matches("a" * 2_001, "", "a", flags=re.NOFLAG, effort=Effort())


def test_a_pattern_without_end_takes_the_time_of_its_row() -> None:
    """Then it is the row's trouble; what is left of the time is for the other patterns of the row."""
    effort = Effort()
    with pytest.raises(ExcessError, match="takes too long on this text"):
        replace_matches("(a|aa)+$", "", "a" * 60 + "b", flags=re.NOFLAG, effort=effort)
    assert 0 < effort.seconds < 0.5


def test_a_group_that_a_slow_pattern_has_not_is_no_pattern() -> None:
    """It is the same error whichever library replaces."""
    for pattern in ("(a)", "(a+)+"):
        with pytest.raises(re.error, match="invalid group reference"):
            replace_matches(pattern, r"\9", "a", flags=re.NOFLAG, effort=Effort())


def test_a_pattern_that_the_other_library_reads_otherwise_is_refused() -> None:
    """What may take long is read by a library that knows more; where it cannot read it, that is said."""
    with pytest.raises(re.error, match="nothing for fuzzy constraint"):
        replace_matches("{e<=1}(a+)+", "", "a", flags=re.NOFLAG, effort=Effort())
