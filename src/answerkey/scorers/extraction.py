"""The extraction rules by name, and `{pattern: …}`, a regular expression that the user writes.

A rule reads one text at a time. What it reads in a short text is remembered, because models give
the same short replies again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import polars as pl

from answerkey import reader
from answerkey.errors import SpecError, listing
from answerkey.reader import GRADES, Reading, accept_reading
from answerkey.reader.characters import WHITE_SPACE, compose
from answerkey.scorers.question import (
    LabelCheck,
    Labels,
    check_characters,
    check_characters_or_numbers,
)

#: A text to be read, the labels of the question, and its option texts if they are known.
Passage = tuple[str, Labels, Labels | None]
#: What is read in longer texts is not remembered.
LONGEST_REMEMBERED = 2_000


@dataclass(frozen=True)
class ExtractionRule:
    """One way to read a choice from a text.

    With `has_parts`, a reading says which part of the rule decided, and where in the text.
    A rule that `reads_options` looks at the texts of the options. `check_labels` refuses labels
    that the rule cannot read. `accept` is the lowest grade of confidence that counts.
    """

    name: str
    has_parts: bool = False
    reads_options: bool = False
    accept: str = "stated"
    check_labels: LabelCheck = check_characters

    def read(
        self,
        text: str,
        labels: Sequence[str],
        options: Sequence[str] | None = None,
    ) -> Reading:
        """Return the choice that a text names, or why it names none."""
        texts = None if options is None else tuple(options)
        [reading] = self.read_all([(text, tuple(labels), texts)])
        return reading

    def read_all(self, passages: Iterable[Passage]) -> list[Reading]:
        """Return what is read in each passage."""
        readings = []
        for text, labels, options in passages:
            if not self.reads_options:
                options = None  # noqa: PLW2901 - the rule does not see them
            read: Callable[..., Reading] = _recall_reading
            if len(text) > LONGEST_REMEMBERED:
                read = reader.read
            reading = read(text, labels, options, self.name)
            if self.accept != "stated":
                reading = accept_reading(reading, self.accept)
            readings.append(reading)
        return readings


_recall_reading = lru_cache(maxsize=65_536)(reader.read)

RULES: dict[str, ExtractionRule] = {
    "first_character": ExtractionRule("first_character"),
    "first_character_literal": ExtractionRule("first_character_literal"),
    "leading_label": ExtractionRule("leading_label", has_parts=True),
    "stated_answer": ExtractionRule(
        "stated_answer",
        has_parts=True,
        reads_options=True,
        check_labels=check_characters_or_numbers,
    ),
}


@dataclass(frozen=True)
class PatternRule(ExtractionRule):
    """The first match of a regular expression with one group.

    Texts are matched by Polars, many at a time: its engine takes linear time for any pattern.
    """

    pattern: str = ""

    def read_all(self, passages: Iterable[Passage]) -> list[Reading]:
        """Return what the first match in each passage names."""
        texts = []
        labels = []
        for text, choices, _ in passages:
            # Polars cannot hold a lone surrogate; one character replaces it, so that places stay.
            encoded = text.encode(errors="replace")
            texts.append(encoded.decode())
            labels.append(choices)
        column = pl.Series(texts, dtype=pl.String)
        wholes = column.str.extract(self.pattern, 0)
        groups = column.str.extract(self.pattern, 1)
        offsets = column.str.find(self.pattern)
        return list(map(_read_match, texts, labels, wholes, groups, offsets))


def _read_match(
    text: str,
    labels: Labels,
    whole: str | None,
    group: str | None,
    offset: int | None,
) -> Reading:
    """Return the choice that a match names; in any case, if no two choices differ only by case.

    `whole` is the match, `group` what its group holds, `offset` the byte at which it begins.
    """
    if not text.strip(WHITE_SPACE):
        return Reading(reason="EMPTY")
    if whole is None or group is None or offset is None:
        return Reading(reason="NOTHING_STATED")
    before = text.encode()[:offset].decode()
    span = (len(before), len(before) + len(whole))
    name = compose(group.strip(WHITE_SPACE))
    folded = {label.lower(): label for label in labels}
    is_case_free = len(folded) == len(labels)
    if name not in labels and is_case_free:
        name = folded.get(name.lower(), name)
    if name not in labels:
        return Reading(None, "NOT_A_CHOICE", span)
    return Reading(name, None, span)


_HINT = "write it in RE2 syntax, with one group around the choice: `answer is \\(?([A-D])\\)?`"


def find_rule(extraction: object) -> ExtractionRule:
    """Return the rule with this name or pattern, or raise a SpecError that names those there are.

    A `fallback` beside them is no part of the rule.
    """
    fields: dict[str, object] = {"rule": extraction}
    if isinstance(extraction, Mapping):
        fields = dict(extraction)
    fallback = fields.pop("fallback", "none")
    if not isinstance(fallback, str) or not fallback.strip():
        fields = {}
    match fields:
        case {"pattern": str(pattern)} if len(fields) == 1:
            return _build_pattern_rule(pattern)
        case {"rule": "stated_answer", "accept": str(grade)} if grade in GRADES:
            return replace(RULES["stated_answer"], accept=grade)
        case {"rule": str(name)} if name in RULES and len(fields) == 1:
            return RULES[name]
    hint = (
        f"extraction rules: {listing(RULES)}, and `{{pattern: …}}` with a regular expression;"
        " `{rule: …, fallback: MODEL}` has a model read the rest, and `{rule: stated_answer,"
        f" accept: GRADE}}` sets the lowest grade that counts, out of {listing(GRADES)}"
    )
    raise SpecError("E108", f"unknown extraction rule {extraction!r}", hint=hint)


def _build_pattern_rule(pattern: str) -> PatternRule:
    """Return the rule of a regular expression with exactly one group."""
    try:
        matches = pl.select(groups=pl.lit("").str.extract_groups(pattern))
    except pl.exceptions.ComputeError as error:
        last_line = str(error).rstrip().splitlines()[-1]
        why = last_line.rpartition("error: ")[2]
        message = f"`pattern` {pattern!r} is not a regular expression: {why}"
        raise SpecError("E108", message, hint=_HINT) from None
    groups = matches["groups"].struct.fields
    if len(groups) != 1:
        message = f"`pattern` {pattern!r} has {len(groups)} groups, and needs exactly one"
        raise SpecError("E108", message, hint=f"{_HINT}; further brackets are written `(?:…)`")
    return PatternRule("pattern", has_parts=True, pattern=pattern)
