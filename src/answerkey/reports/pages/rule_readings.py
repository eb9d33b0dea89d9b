"""Completions read by every rule and every lens: what each finds, and where in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from answerkey.reader import EXTRACTORS, Reading
from answerkey.reader.characters import LONGEST_CHARACTER, WHITE_SPACE, measure_character
from answerkey.reports.pages.excerpts import Excerpt
from answerkey.reports.pages.sample_source import SampleSource
from answerkey.run_audit.audit import name_rule
from answerkey.scorers import StringEqualsMcqa
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.scoring import FIRST, LITERAL, RULE_NAMES, Labels, Passages, list_passages, list_texts
from answerkey.types import Scores

Span = tuple[int, int]


@dataclass(frozen=True)
class RuleReading:
    """What one rule or lens reads in a completion; of kind `own` is what the run itself read."""

    name: str
    kind: str
    choice: str | None
    part: str | None = None
    span: Span | None = None


@dataclass(frozen=True)
class RowReadings:
    """All readings of one row, the run's own first.

    `is_flipped` says whether not all rules read alike; None for a row that no metric counts.
    """

    truth: str | None
    readings: tuple[RuleReading, ...]
    is_flipped: bool | None


@dataclass(frozen=True)
class _Own:
    """What the run itself read in a completion."""

    choice: str | None
    truth: str | None
    rule: str | None
    span: list[int] | None
    is_counted: bool

    @property
    def part(self) -> str | None:
        return (self.rule or "").partition("/")[2] or None


def read_rows(source: SampleSource, part: Excerpt, *, lenses: bool = True) -> list[RowReadings | None]:
    """Return the readings of each row; None where there is no verdict on a choice, or no text to read."""
    found: list[RowReadings | None] = [None] * len(part)
    step = source.reading
    if step is None or not isinstance(step.scorer, StringEqualsMcqa) or part.completions is None:
        return found
    scores = Scores(part.scores[step.key].struct.unnest(), source.encoded[step.key])
    choices = scores.column("choices")
    if choices is None or (part.samples is None and step.scorer.options is not None):
        return found
    rows = choices.is_not_null().arg_true()
    known = Scores(scores.frame[rows], scores.encoded)
    passages = _list_passages(step.scorer, part, rows, known)
    reader = _Reader(step.scorer, lenses=lenses)
    texts = zip(passages.texts, passages.choices, passages.options, _list_own(known), strict=True)
    for place, (text, labels, options, own) in zip(rows.to_list(), texts, strict=True):
        found[place] = reader.read(text, labels, options, own)
    return found


def _list_passages(scorer: StringEqualsMcqa, part: Excerpt, rows: pl.Series, scores: Scores) -> Passages:
    if part.completions is None:
        return Passages([], [], [])
    said = part.completions.take(rows)
    if part.samples is not None:
        return list_passages(scorer, part.samples.take(rows), said, scores)
    choices = scores.column("choices")
    names = [] if choices is None else [tuple(one) for one in choices.to_list()]
    return Passages(list_texts(said.frame["completion"], said.frame["status"]), names, [None] * len(names))


def _list_own(scores: Scores) -> Iterator[_Own]:
    nothing = [None] * len(scores)
    names = ("predicted_choice", "ground_truth_choice", "extraction_rule", "answer_span")
    columns = [nothing if (one := scores.column(name)) is None else one.to_list() for name in names]
    return map(_Own, *columns, scores.counted().to_list())


class _Reader:
    """Reads one completion by the rules that are not the run's own, and by the lenses."""

    def __init__(self, scorer: StringEqualsMcqa, *, lenses: bool) -> None:
        self._name = name_rule(scorer)
        self._is_told = scorer.options is not None
        self._rules = [name for name in RULE_NAMES if name != scorer.extraction]
        self._lenses = list(EXTRACTORS) if lenses else []

    def read(self, text: str | None, choices: Labels, options: Labels | None, own: _Own) -> RowReadings:
        span = find_first(self._name, text) if own.span is None else (own.span[0], own.span[1])
        first = RuleReading(self._name, "own", own.choice, own.part, span)
        told = options if self._is_told else None
        rules = [self._read_rule(name, text, choices, told) for name in self._rules]
        lenses = [
            RuleReading(
                name, "lens", _see(name, text, choices, options if EXTRACTORS[name].reads_options else None)
            )
            for name in self._lenses
        ]
        # A pattern of the user's own is no rule that others could be held against.
        alike = rules if len(rules) == len(RULE_NAMES) else [first, *rules]
        is_flipped = len({one.choice for one in alike}) > 1 if own.is_counted else None
        return RowReadings(own.truth, (first, *rules, *lenses), is_flipped)

    @staticmethod
    def _read_rule(name: str, text: str | None, choices: Labels, options: Labels | None) -> RuleReading:
        if text is None:
            return RuleReading(name, "rule", None)
        found = _read(name, text, choices, options if find_rule(name).reads_options else None)
        span = find_first(name, text) if found.span is None else found.span
        return RuleReading(name, "rule", found.choice, found.part, span)


@lru_cache(maxsize=8_192)
def _read(name: str, text: str, choices: Labels, options: Labels | None) -> Reading:
    """Return what a rule reads; many completions are the same few characters."""
    return find_rule(name).read(text, choices, options)


@lru_cache(maxsize=16_384)
def _see(name: str, text: str | None, choices: Labels, options: Labels | None) -> str | None:
    return None if text is None else EXTRACTORS[name].read(text, choices, options)


def find_first(rule: str, text: str | None) -> Span | None:
    """Return where the character stands that a rule of the first character looks at."""
    if not text or rule not in {FIRST, LITERAL}:
        return None
    if rule == LITERAL:
        return 0, 1
    begin = len(text) - len(text.lstrip(WHITE_SPACE))
    size = min(measure_character(text, begin), LONGEST_CHARACTER)
    return (begin, begin + size) if size else None
