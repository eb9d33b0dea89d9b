"""How an answer is read from a completion: the extraction rules by name, for one text and for a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import polars as pl

from answerkey.errors import SpecError, listing, suggest
from answerkey.scorers.first_character import read_column, read_first_character
from answerkey.scorers.heads import HeadReader, Reading
from answerkey.scorers.rules_with_parts import PART_SCHEMA, LeadingLabel, Pattern, StatedAnswer

#: What a column of readings looks like: the choice, or the reason why there is none.
READING_SCHEMA: dict[str, pl.DataType] = {"choice": pl.String(), "reason": pl.String()}


class ExtractionRule(Protocol):
    """One way to read a choice from a text; `read_all` gives exactly what `read` gives row by row."""

    name: str

    @property
    def has_parts(self) -> bool:
        """Whether readings say which part of the rule decided, and where in the text."""

    @property
    def reads_options(self) -> bool:
        """Whether the texts of the options make a difference."""

    def read(self, text: str, choices: Sequence[str], options: Sequence[str] | None = None, /) -> Reading:
        """Return the choice that the text names, or the reason why it names none."""

    def read_all(
        self, texts: pl.Series, choices: Sequence[str], options: pl.Series | None = None, /
    ) -> pl.DataFrame:
        """Return the readings of a column of texts (no nulls), columns as `find_schema` says."""


def find_schema(rule: ExtractionRule) -> dict[str, pl.DataType]:
    """Return what a column of this rule's readings looks like."""
    return PART_SCHEMA if rule.has_parts else READING_SCHEMA


class FirstCharacter:
    """The default: the first character, if nothing makes it ambiguous."""

    name = "first_character"
    has_parts = False
    reads_options = False

    def read(self, text: str, choices: Sequence[str], _options: Sequence[str] | None = None) -> Reading:
        """Return the first character after white space, or the reason why it names no choice."""
        return read_first_character(text, choices)

    def read_all(
        self, texts: pl.Series, choices: Sequence[str], _options: pl.Series | None = None
    ) -> pl.DataFrame:
        """Return the same for a column."""
        return read_column(texts, choices)


class FirstCharacterLiteral:
    """Exactly the first code point of the raw text and nothing else: parity with the hosted platform."""

    name = "first_character_literal"
    has_parts = False
    reads_options = False

    def read(self, text: str, choices: Sequence[str], _options: Sequence[str] | None = None) -> Reading:
        """Return the first code point, or the reason why it names no choice."""
        if not text:
            return Reading(reason="EMPTY")
        return Reading(choice=text[0]) if text[0] in choices else Reading(reason="NOT_A_CHOICE")

    def read_all(
        self, texts: pl.Series, choices: Sequence[str], _options: pl.Series | None = None
    ) -> pl.DataFrame:
        """Return the same for a column, whose texts differ in nothing but their first code point."""
        reader = HeadReader(partial(self.read, choices=choices))
        return reader.look_up(reader.read_whole(texts.str.head(1)))


RULES: dict[str, ExtractionRule] = {
    rule.name: rule for rule in (FirstCharacter(), FirstCharacterLiteral(), LeadingLabel(), StatedAnswer())
}


def find_rule(extraction: object) -> ExtractionRule:
    """Return the rule with this name or pattern, or raise a SpecError that names those there are."""
    if isinstance(extraction, str) and extraction in RULES:
        return RULES[extraction]
    if isinstance(extraction, Mapping) and set(extraction) == {"pattern"}:
        return Pattern(extraction["pattern"])
    near = suggest(extraction, RULES) if isinstance(extraction, str) else None
    known = f"extraction rules: {listing(RULES)}, and `{{pattern: …}}` with a regular expression"
    raise SpecError(
        "E108", f"unknown extraction rule {extraction!r}", hint=f"{near} {known}" if near else known
    )
