"""The extraction rules by name, and `{pattern: …}`, a regular expression of the user's own.

A rule reads one text at a time. What it reads in a short text is remembered, because models give the same
short replies again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from answerkey.errors import SpecError, listing, suggest
from answerkey.reader import (
    Reading,
    read_first_character,
    read_first_code_point,
    read_leading_label,
    read_stated_answer,
)
from answerkey.reader.characters import WHITE_SPACE, compose, strip_white_space
from answerkey.reader.stated_answer import narrow_options

Labels = tuple[str, ...]
#: A text to be read, the labels of the question, and the texts of its options if they are known.
Passage = tuple[str, Labels, Labels | None]
#: What is read in longer texts is not remembered.
LONGEST_REMEMBERED = 2_000

_READERS: dict[str, Callable[..., Reading]] = {
    "first_character": read_first_character,
    "first_character_literal": read_first_code_point,
    "leading_label": read_leading_label,
    "stated_answer": read_stated_answer,
}


@dataclass(frozen=True)
class ExtractionRule:
    """One way to read a choice from a text.

    With `has_parts`, a reading says which part of the rule decided, and where in the text. A rule that
    `reads_options` looks at the texts of the options; one that `reads_numbers` knows labels such as 27.
    """

    name: str
    has_parts: bool = False
    reads_options: bool = False
    reads_numbers: bool = False

    def read(self, text: str, labels: Sequence[str], options: Sequence[str] | None = None) -> Reading:
        """Return the choice that a text names, or why it names none."""
        labels = tuple(labels)
        told: Labels | None = None
        if options and self.reads_options:
            told = narrow_options(text, labels, options)
        if len(text) > LONGEST_REMEMBERED:
            return _READERS[self.name](text, labels, told)
        return _recall_reading(self.name, text, labels, told)

    def read_all(self, passages: Iterable[Passage]) -> list[Reading]:
        """Return what is read in each passage."""
        return [self.read(text, labels, options) for text, labels, options in passages]


@lru_cache(maxsize=65_536)
def _recall_reading(name: str, text: str, labels: Labels, options: Labels | None) -> Reading:
    return _READERS[name](text, labels, options)


RULES: dict[str, ExtractionRule] = {
    rule.name: rule
    for rule in (
        ExtractionRule("first_character"),
        ExtractionRule("first_character_literal"),
        ExtractionRule("leading_label", has_parts=True),
        ExtractionRule("stated_answer", has_parts=True, reads_options=True, reads_numbers=True),
    )
}


@dataclass(frozen=True)
class PatternRule(ExtractionRule):
    """The first match of a regular expression with one group.

    Texts are matched by Polars, many at a time: its engine takes linear time whatever the pattern is.
    """

    pattern: str = ""

    def read(self, text: str, labels: Sequence[str], options: Sequence[str] | None = None) -> Reading:
        """Return the choice that the first match names, or why there is none."""
        del options
        [reading] = self.read_all([(text, tuple(labels), None)])
        return reading

    def read_all(self, passages: Iterable[Passage]) -> list[Reading]:
        """Return what the first match in each passage names."""
        rows = list(passages)
        # A lone surrogate is no text that Polars holds; it is replaced by one character, so that places stay.
        texts = [text.encode("utf-8", "replace").decode("utf-8") for text, _, _ in rows]
        matches = _find_matches(pl.Series(texts, dtype=pl.String), self.pattern)
        labels = [labels for _, labels, _ in rows]
        return [_read_match(*row) for row in zip(texts, labels, matches, strict=True)]


#: The whole match, what its group holds, and the byte at which it begins; all None where nothing matches.
Match = tuple[str | None, str | None, int | None]


def _find_matches(texts: pl.Series, pattern: str) -> Iterator[Match]:
    wholes = texts.str.extract(pattern, 0)
    groups = texts.str.extract(pattern, 1)
    return zip(wholes, groups, texts.str.find(pattern), strict=True)


def _read_match(text: str, labels: Labels, match: Match) -> Reading:
    """Return the choice that a match names; in any case, if no two choices differ only by case."""
    whole, group, offset = match
    if not text.strip(WHITE_SPACE):
        return Reading(reason="EMPTY")
    if whole is None or group is None or offset is None:
        return Reading(reason="NOTHING_STATED")
    begin = len(text.encode()[:offset].decode())
    span = (begin, begin + len(whole))
    name = compose(strip_white_space(group))
    if name in labels:
        return Reading(name, None, span)
    folded = {label.lower(): label for label in labels}
    choice = folded.get(name.lower())
    if choice is None or len(folded) < len(labels):
        return Reading(None, "NOT_A_CHOICE", span)
    return Reading(choice, None, span)


_HINT = "write it in RE2 syntax, with one group around the choice: `answer is \\(?([A-D])\\)?`"


def find_rule(extraction: object) -> ExtractionRule:
    """Return the rule with this name or pattern, or raise a SpecError that names those there are.

    A pattern is a regular expression with exactly one group. A `fallback` beside them is no part of the rule.
    """
    name = extraction
    if isinstance(extraction, Mapping):
        _check_fallback(extraction)
        fields = {key: value for key, value in extraction.items() if key != "fallback"}
        if set(fields) == {"pattern"}:
            return _build_pattern_rule(fields["pattern"])
        name = fields["rule"] if set(fields) == {"rule"} else None
    if isinstance(name, str) and name in RULES:
        return RULES[name]
    rules = (
        f"extraction rules: {listing(RULES)}, and `{{pattern: …}}` with a regular expression;"
        " `{rule: …, fallback: MODEL}` has a model read the rest"
    )
    near = suggest(name, RULES) if isinstance(name, str) else None
    raise SpecError(
        "E108", f"unknown extraction rule {extraction!r}", hint=f"{near} {rules}" if near else rules
    )


def _check_fallback(extraction: Mapping[str, object]) -> None:
    fallback = extraction.get("fallback", "none")
    if not isinstance(fallback, str) or not fallback.strip():
        message = f"`fallback` must name a model, not {fallback!r}"
        raise SpecError("E108", message, hint="leave it out to ask none")


def _build_pattern_rule(pattern: object) -> PatternRule:
    if not isinstance(pattern, str):
        raise SpecError("E108", f"`pattern` must be text, not {pattern!r}", hint=_HINT)
    try:
        groups = pl.select(pl.lit("").str.extract_groups(pattern)).to_series().struct.fields
    except pl.exceptions.ComputeError as error:
        why = str(error).rstrip().splitlines()[-1].removeprefix("error: ").removeprefix("regex error: ")
        message = f"`pattern` {pattern!r} is not a regular expression: {why}"
        raise SpecError("E108", message, hint=_HINT) from None
    if len(groups) != 1:
        message = f"`pattern` {pattern!r} has {len(groups)} groups, and needs exactly one"
        raise SpecError("E108", message, hint=f"{_HINT}; further brackets are written `(?:…)`")
    return PatternRule("pattern", has_parts=True, pattern=pattern)
