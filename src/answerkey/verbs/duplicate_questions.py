"""Which questions of a dataset are asked twice, and whether their truths agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from answerkey.datasets.duplicates import (
    MOST_WEIGHED,
    ROW,
    Likeness,
    Words,
    group_pairs,
    group_same,
    pair_rows,
)
from answerkey.types import Samples
from answerkey.verbs.dataset_audits import SHOWN, Example
from answerkey.verbs.question_checks import QuestionRows, fold_text, make_example
from answerkey.verbs.question_reading import Question, read_questions

#: How many questions are loaded together, and how many candidates are held against each other at most.
BATCH, MOST_PAIRS, PAIR_BATCH = 16_384, 200_000, 20_000


@dataclass(frozen=True)
class Repeats:
    """Rows beyond the first of each group, in how many groups, and examples.

    `contradicting` are groups whose truths differ, by the text of the right option.
    """

    rows: int = 0
    groups: int = 0
    contradicting: int = 0
    examples: tuple[Example, ...] = ()
    contradictions: tuple[Example, ...] = ()


@dataclass(frozen=True)
class FoundRepeats:
    """Questions that are the same, and those that are nearly so; `skipped` candidates were not looked at."""

    same: Repeats
    near: Repeats
    skipped: int = 0


@dataclass(frozen=True)
class _Seen:
    """What is kept of a question that is looked at again."""

    example: Example
    truth: str | None
    words: Words | None = None


def find_repeats(sources: Sequence[QuestionRows], sketches: pl.DataFrame, similarity: float) -> FoundRepeats:
    """Return the questions that are asked twice; nearly the same from a likeness of `similarity` on."""
    groups = group_same(sketches)
    seen = _look_at(sources, sorted({row for group in groups for row in group}), with_words=False)
    same = _sum_up(groups, seen, {})
    pairs = pair_rows(sketches)
    checked: list[tuple[int, int]] = pairs.head(MOST_PAIRS).sort("one", "other").rows()
    alike = _compare(sources, checked, similarity) if checked else {}
    near_groups = group_pairs(list(alike))
    seen = _look_at(sources, sorted({row for group in near_groups for row in group}), with_words=False)
    return FoundRepeats(same, _sum_up(near_groups, seen, alike), pairs.height - len(checked))


def _compare(
    sources: Sequence[QuestionRows], pairs: Sequence[tuple[int, int]], similarity: float
) -> dict[tuple[int, int], float]:
    """Return how alike the questions of each pair are, of those that are alike enough."""
    likeness = Likeness()
    for _, question, _ in _iterate(sources, range(min(MOST_WEIGHED, _count(sources)))):
        likeness.learn(_read_words(question))
    alike: dict[tuple[int, int], float] = {}
    for start in range(0, len(pairs), PAIR_BATCH):
        batch = pairs[start : start + PAIR_BATCH]
        seen = _look_at(sources, sorted({row for pair in batch for row in pair}), with_words=True)
        for one, other in batch:
            first, second = seen[one].words, seen[other].words
            likely = likeness.compare(first, second) if first and second else 0.0
            if likely >= similarity:
                alike[one, other] = likely
    return alike


def _count(sources: Sequence[QuestionRows]) -> int:
    return sum(len(source.rows) for source in sources)


def _read_words(question: Question) -> Words:
    return Words.read(question.text or "", question.texts)


def _look_at(sources: Sequence[QuestionRows], rows: Sequence[int], *, with_words: bool) -> dict[int, _Seen]:
    return {
        row: _Seen(make_example(*place), _find_truth(question), _read_words(question) if with_words else None)
        for row, question, place in _iterate(sources, rows)
    }


def _find_truth(question: Question) -> str | None:
    """Return the text of the right option; its label where there are no texts."""
    if question.truth is None:
        return None
    if question.truth < len(question.texts):
        return fold_text(question.texts[question.truth])
    return question.labels[question.truth]


def _iterate(
    sources: Sequence[QuestionRows], rows: Sequence[int]
) -> Iterator[tuple[int, Question, tuple[Samples, int]]]:
    """Yield the questions at these rows, which ascend, each with where it stands."""
    for source in sources:
        last = source.first_row + len(source.rows)
        own = pl.Series(
            [row - source.first_row for row in rows if source.first_row <= row < last], dtype=pl.Int64
        )
        for start in range(0, len(own), BATCH):
            places = own.slice(start, BATCH)
            samples = source.rows.take(places).load(source.fields.columns)
            found = read_questions(samples, source.fields)
            for number, (place, question) in enumerate(zip(places.to_list(), found, strict=True)):
                yield source.first_row + place, question, (samples, number)


def _sum_up(
    groups: Sequence[Sequence[int]], seen: dict[int, _Seen], alike: dict[tuple[int, int], float]
) -> Repeats:
    contradicting = [group for group in groups if _contradict(group, seen)]
    order = sorted(groups, key=lambda group: (-_measure(group, alike), group))
    return Repeats(
        rows=sum(len(group) - 1 for group in groups),
        groups=len(groups),
        contradicting=len(contradicting),
        examples=tuple(_show(group, seen, alike) for group in order[:SHOWN]),
        contradictions=tuple(_show(group, seen, alike) for group in contradicting[:SHOWN]),
    )


def _contradict(group: Sequence[int], seen: dict[int, _Seen]) -> bool:
    truths = {truth.casefold() for row in group if (truth := seen[row].truth) is not None}
    return len(truths) > 1


def _measure(group: Sequence[int], alike: dict[tuple[int, int], float]) -> float:
    members = set(group)
    return (
        max((value for pair, value in alike.items() if members.issuperset(pair)), default=1.0)
        if alike
        else 1.0
    )


def _show(group: Sequence[int], seen: dict[int, _Seen], alike: dict[tuple[int, int], float]) -> Example:
    first, *others = (seen[row] for row in group)
    other = others[0].example
    likely = f" {_measure(group, alike):.2f}" if alike else ""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    here = other.file == first.example.file or other.file is None
    place = f"line {other.line}" if here else f"{Path(str(other.file)).name}:{other.line}"
    differ = _contradict(group[:2], seen)
    truths = f"; truths {first.truth!r} and {others[0].truth!r}" if differ else ""
    return replace(first.example, note=f"like{likely} {other.sample} ({place}){more}{truths}")


def join_sketches(sketches: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the sketches of all parts, in the order of their rows."""
    return pl.concat(sketches).sort(ROW)
