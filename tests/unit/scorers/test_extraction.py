from __future__ import annotations

import polars as pl
import pytest

from answerkey.errors import SpecError
from answerkey.scorers.extraction import RULES, find_rule
from answerkey.scorers.heads import Reading


def refuse(extraction: object) -> SpecError:
    """Return the error that an extraction rule gets."""
    with pytest.raises(SpecError) as caught:
        find_rule(extraction)
    return caught.value


@pytest.mark.parametrize(
    "name", ["first_character", "first_character_literal", "leading_label", "stated_answer"]
)
def test_rules_are_found_by_name(name: str) -> None:
    """A rule's name is its key in the registry."""
    assert find_rule(name) is RULES[name]
    assert RULES[name].name == name


def test_pattern_is_a_rule_of_the_users_own() -> None:
    """A mapping with nothing but `pattern` is a rule; its name is the same whatever the pattern is."""
    rule = find_rule({"pattern": "answer: (.)"})
    assert rule.name == "pattern"
    assert rule.read("answer: B", ("A", "B")).choice == "B"


@pytest.mark.parametrize(
    "extraction",
    ["first_charcter", "", None, 3, ["first_character"], {"regex": "x"}, {"pattern": "(x)", "flags": "i"}],
)
def test_unknown_rules_are_refused(extraction: object) -> None:
    """An unknown rule lists those there are."""
    error = refuse(extraction)
    assert error.code == "E108"
    assert "`first_character`, `first_character_literal`, `leading_label`, `stated_answer`" in str(error.hint)
    assert "`{pattern: …}`" in str(error.hint)


def test_near_miss_gets_a_suggestion() -> None:
    """A typing mistake is answered with the nearest rule."""
    assert str(refuse("first_charcter").hint).startswith("did you mean `first_character`?")


def test_literal_rule_reads_one_code_point() -> None:
    """The literal rule looks at the first code point alone, also in a column."""
    rule = RULES["first_character_literal"]
    texts = ["Based on", " B", "", "B\u0301", "b"]
    readings = [rule.read(text, ("A", "B")) for text in texts]
    assert readings == [
        Reading(choice="B"),
        Reading(reason="NOT_A_CHOICE"),
        Reading(reason="EMPTY"),
        Reading(choice="B"),
        Reading(reason="NOT_A_CHOICE"),
    ]
    assert rule.read_all(pl.Series(texts), ("A", "B")).rows() == [
        (one.choice, one.reason) for one in readings
    ]
