"""How an answer is read from a completion: the extraction rules by name, for one text and for a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl

from answerkey.errors import SpecError, listing, suggest
from answerkey.scorers.first_character import Reading, read_column, read_first_character

#: What a column of readings looks like: the choice, or the reason why there is none.
READING_SCHEMA = {"choice": pl.String, "reason": pl.String}


class ExtractionRule(Protocol):
    """One way to read a choice from a text; `read_all` gives exactly what `read` gives row by row."""

    name: str

    def read(self, text: str, choices: Sequence[str]) -> Reading:
        """Return the choice that the text names, or the reason why it names none."""

    def read_all(self, texts: pl.Series, choices: Sequence[str]) -> pl.DataFrame:
        """Return the readings of a column of texts (no nulls), columns as `READING_SCHEMA`."""


class FirstCharacter:
    """The default: the first character, if nothing makes it ambiguous."""

    name = "first_character"

    def read(self, text: str, choices: Sequence[str]) -> Reading:
        """Return the first character after white space, or the reason why it names no choice."""
        return read_first_character(text, choices)

    def read_all(self, texts: pl.Series, choices: Sequence[str]) -> pl.DataFrame:
        """Return the same for a column."""
        return read_column(texts, choices)


class FirstCharacterLiteral:
    """Exactly the first code point of the raw text and nothing else: parity with the hosted platform."""

    name = "first_character_literal"

    def read(self, text: str, choices: Sequence[str]) -> Reading:
        """Return the first code point, or the reason why it names no choice."""
        if not text:
            return Reading(reason="EMPTY")
        return Reading(choice=text[0]) if text[0] in choices else Reading(reason="NOT_A_CHOICE")

    def read_all(self, texts: pl.Series, choices: Sequence[str]) -> pl.DataFrame:
        """Return the same for a column."""
        first = pl.col("text").str.slice(0, 1)
        is_choice = first.is_in(list(choices))
        reason = pl.when(first == "").then(pl.lit("EMPTY")).when(~is_choice).then(pl.lit("NOT_A_CHOICE"))
        choice = pl.when(is_choice).then(first)
        return pl.DataFrame({"text": texts}).select(choice.alias("choice"), reason.alias("reason"))


RULES: dict[str, ExtractionRule] = {rule.name: rule for rule in (FirstCharacter(), FirstCharacterLiteral())}

#: Described, and refused by name until they are there.
RULES_TO_COME = ("leading_label", "stated_answer", "{pattern: …}")


def find_rule(extraction: object) -> ExtractionRule:
    """Return the rule with this name, or raise a SpecError that names those there are."""
    if isinstance(extraction, str) and extraction in RULES:
        return RULES[extraction]
    is_pattern = isinstance(extraction, Mapping) and set(extraction) == {"pattern"}
    if is_pattern or extraction in RULES_TO_COME:
        name = "{pattern: …}" if is_pattern else extraction
        raise SpecError(
            "E116",
            f"the extraction rule `{name}` is not in this release",
            hint=f"extraction rules in this release: {listing(RULES)}",
        )
    near = suggest(extraction, [*RULES, *RULES_TO_COME]) if isinstance(extraction, str) else None
    known = f"extraction rules: {listing(RULES)}"
    raise SpecError(
        "E108", f"unknown extraction rule {extraction!r}", hint=f"{near} {known}" if near else known
    )
