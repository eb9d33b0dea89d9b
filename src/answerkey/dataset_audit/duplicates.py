"""Questions that a dataset asks twice: word for word, or nearly so.

Candidates are found by min-hashing: of every question a few hashes are kept, and questions that
agree in some of them are compared word by word.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import shake_128
from pathlib import Path
from typing import NamedTuple

import polars as pl

from answerkey.dataset_audit.questions import Question, QuestionFields, fold_text, read_questions
from answerkey.datasets.rows import Rows
from answerkey.types import Samples

#: How many examples are shown, and how much of a note.
SHOWN, SHOWN_NOTE = 5, 60
#: A band is the hash of some minima; questions that agree in a band are candidates.
BANDS, BAND_ROWS = 12, 3
#: How many candidates are compared at most, and how many questions are loaded together for it.
MOST_PAIRS, BATCH = 200_000, 16_384
#: Word frequencies are counted in so many questions: enough to tell rare words from common ones.
MOST_WEIGHED = 20_000
#: Words; but signs that carry meaning, and characters of scripts without spaces, one by one.
_SINGLE = r"\u3040-\u30ff\u3400-\u9fff"
_TOKENS = re.compile(
    rf"[{_SINGLE}]|[^\W_{_SINGLE}]+|[-+*/=<>^~%$\u00ac\u00b1\u00d7\u00f7\u2190-\u22ff]"
)
#: Words that turn a question into its opposite.
_TURNING = frozenset(
    {"not", "except", "never", "no", "least", "false", "incorrect", "most", "without"}
)


@dataclass(frozen=True)
class Example:
    """A row that shows something: its sample id, where it is, and what is to be seen there."""

    sample: str
    file: str | None
    line: int | None
    note: str = ""


def make_example(samples: Samples, row: int, note: str = "") -> Example:
    """Return where a row is, with a note."""
    place = samples.place(row)
    if len(note) > SHOWN_NOTE:
        note = f"{note[:SHOWN_NOTE]}…"
    return Example(str(place.sample), place.file, place.line, note)


@dataclass(frozen=True)
class QuestionRows:
    """Rows with the fields that their questions are read from; `first_row` counts all rows before
    them.
    """

    rows: Rows
    fields: QuestionFields
    first_row: int


@dataclass(frozen=True)
class Repeats:
    """The number of rows beyond the first of each group, the number of groups, and examples.

    `contradicting` are groups whose truths differ, by the text of the right option.
    """

    rows: int = 0
    groups: int = 0
    contradicting: int = 0
    examples: tuple[Example, ...] = ()
    contradictions: tuple[Example, ...] = ()


# Words


class Words(NamedTuple):
    """The words of a question and those of its options; the `decisive` ones must be the same."""

    question: Counter[str]
    options: Counter[str]
    decisive: frozenset[tuple[int, str, int]]


def read_words(question: Question) -> Words:
    """Return the words of a question."""
    words = _count_words(question.text or "")
    option_words = _count_words("\x1f".join(question.texts))
    decisive = set()
    for part, counter in enumerate((words, option_words)):
        for word, count in counter.items():
            if word in _TURNING or not word.isalpha():
                decisive.add((part, word, count))
    return Words(words, option_words, frozenset(decisive))


def _count_words(text: str) -> Counter[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return Counter(_TOKENS.findall(text.lower()))


class WordWeights:
    """How much each word counts: rare words count more than those in every question."""

    def __init__(self, questions: Iterable[Words] = ()) -> None:
        self._questions = 0
        self._counts: Counter[str] = Counter()
        for words in questions:
            self.add(words)

    def add(self, words: Words) -> None:
        """Count the words of a question, if it is one of the first."""
        if self._questions < MOST_WEIGHED:
            self._questions += 1
            self._counts.update({*words.question, *words.options})

    def weigh(self, words: Mapping[str, int]) -> float:
        """Return the weight of all words together."""
        total = 0.0  # not `sum`, which rounds differently from Python 3.12 on
        for word, count in words.items():
            total += count * math.log1p(self._questions / max(1, self._counts[word]))
        return total


def measure_likeness(left: Words, right: Words, weights: WordWeights) -> float:
    """Return how alike two questions are, 0 to 1: the less alike of question and options.

    0 where their numbers, signs, or words such as *not* differ.
    """
    if left.decisive != right.decisive:
        return 0.0
    shares = []
    for first, second in ((left.question, right.question), (left.options, right.options)):
        common = weights.weigh(first & second)
        total = weights.weigh(first) + weights.weigh(second) - common
        shares.append(common / total if total else 1.0)
    return min(shares)


# Candidates


@lru_cache(maxsize=65_536)
def _hash_word(word: str) -> tuple[int, ...]:
    """Return the hashes of a word, the same in every process."""
    count = BANDS * BAND_ROWS
    digest = shake_128(word.encode("utf-8", "surrogatepass")).digest(4 * count)
    return struct.unpack(f"<{count}I", digest)


def _fold(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.lower().split())


def _fold_truth(question: Question) -> str | None:
    """Return the text of the right option, or its label if it has no text."""
    if question.truth is None:
        return None
    if question.truth < len(question.options):
        return fold_text(question.texts[question.truth])
    return question.labels[question.truth]


class Sketches:
    """What is kept of every question until duplicates are looked for: a few hashes."""

    def __init__(self) -> None:
        self.weights = WordWeights()
        self._frames: list[pl.DataFrame] = []
        columns = ["row", "key", "truth", *(f"band {band}" for band in range(BANDS))]
        self._schema = dict.fromkeys(columns, pl.Int64)

    def add(self, questions: Sequence[Question], first_row: int) -> None:
        """Keep the hashes of questions, which are rows from `first_row` on."""
        rows = []
        for row, question in enumerate(questions, first_row):
            words = read_words(question)
            self.weights.add(words)
            texts = sorted(map(_fold, question.texts))
            key = hash((_fold(question.text or ""), *texts))
            truth = _fold_truth(question)
            truth_hash = None if truth is None else hash(truth.casefold())
            rows.append((row, key, truth_hash, *_hash_bands(words)))
        self._frames.append(pl.DataFrame(rows, schema=self._schema, orient="row"))

    def collect(self) -> pl.DataFrame:
        """Return the hashes of all questions."""
        return pl.concat(self._frames)


def _hash_bands(words: Words) -> list[int | None]:
    """Return a hash for each band; None for a question without words."""
    tokens = {f"question {word}" for word in words.question}
    tokens |= {f"option {word}" for word in words.options}
    if not tokens:
        return [None] * BANDS
    minima = list(map(min, zip(*map(_hash_word, tokens), strict=True)))
    starts = range(0, len(minima), BAND_ROWS)
    return [hash(tuple(minima[start : start + BAND_ROWS])) for start in starts]


def pair_rows(sketches: pl.DataFrame) -> tuple[list[tuple[int, int]], int]:
    """Return candidates for questions that are nearly the same, the likeliest first, and how many
    there are; at most `MOST_PAIRS` are returned.

    In a band, each row is paired with the first one and with the one before it, so that there are
    at most twice as many pairs as rows. The more bands a pair shares, the likelier it is.
    """
    frames = []
    for band in range(BANDS):
        rows = sketches.select("row", band=f"band {band}").drop_nulls()
        rows = rows.filter(pl.col("band").is_duplicated()).sort("band", "row")
        near = rows.select(
            "row",
            before=pl.col("row").shift().over("band"),
            first=pl.col("row").first().over("band"),
        ).drop_nulls()
        frames.append(near.select(one="before", other="row"))
        frames.append(
            near.filter(pl.col("first") != pl.col("before")).select(one="first", other="row")
        )
    pairs = pl.concat(frames).group_by("one", "other").len()
    likeliest = pairs.sort("len", "one", "other", descending=[True, False, False])
    return likeliest.head(MOST_PAIRS).select("one", "other").rows(), pairs.height


# Groups


class _Group(NamedTuple):
    """Rows that ask the same, whether their truths differ, and how alike they are."""

    rows: Sequence[int]
    differ: bool
    likeness: float | None


def find_repeats(
    sources: Sequence[QuestionRows], sketches: Sketches, similarity: float
) -> tuple[Repeats, Repeats, int]:
    """Return questions that are the same, those that are nearly so, and how many candidates were
    not compared.

    They are nearly the same from a likeness of `similarity` on.
    """
    hashes = sketches.collect()
    again = hashes.filter(pl.col("key").is_duplicated()).group_by("key", maintain_order=True)
    truths = pl.col("truth").drop_nulls().n_unique()
    same = []
    for rows, count in again.agg("row", truths=truths).select("row", "truths").iter_rows():
        same.append(_Group(rows, count > 1, None))
    first = hashes.unique("key", keep="first", maintain_order=True)
    pairs, candidates = pair_rows(first)
    alike = _compare_pairs(sources, sorted(pairs), sketches.weights, similarity)
    near = list(_group_alike(alike, hashes))
    skipped = candidates - len(pairs)
    return _sum_up(sources, same), _sum_up(sources, near), skipped


def _compare_pairs(
    sources: Sequence[QuestionRows],
    pairs: Sequence[tuple[int, int]],
    weights: WordWeights,
    similarity: float,
) -> dict[tuple[int, int], float]:
    """Return the likeness of the pairs that are nearly the same."""
    alike = {}
    for start in range(0, len(pairs), BATCH):
        batch = pairs[start : start + BATCH]
        words = {}
        for row, question, _ in _load(sources, sorted({row for pair in batch for row in pair})):
            words[row] = read_words(question)
        for left, right in batch:
            likeness = measure_likeness(words[left], words[right], weights)
            if likeness >= similarity:
                alike[left, right] = likeness
    return alike


def group_pairs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the rows that pairs connect, in groups, in the order of their first rows."""
    parents: dict[int, int] = {}

    def find_root(row: int) -> int:
        while (parent := parents.setdefault(row, row)) != row:
            parents[row] = parents[parent]
            row = parent
        return row

    for left, right in pairs:
        first, second = sorted((find_root(left), find_root(right)))
        parents[second] = first
    groups: dict[int, list[int]] = {}
    for row in sorted(parents):
        groups.setdefault(find_root(row), []).append(row)
    return [groups[first] for first in sorted(groups)]


def _group_alike(alike: Mapping[tuple[int, int], float], hashes: pl.DataFrame) -> Iterator[_Group]:
    """Yield groups of questions that are nearly the same, as alike as their likest pair."""
    likeness: dict[int, float] = {}
    for pair, value in alike.items():
        for row in pair:
            likeness[row] = max(value, likeness.get(row, 0.0))
    chosen = hashes.filter(pl.col("row").is_in(list(likeness)))
    truths = dict(chosen.select("row", "truth").iter_rows())
    for rows in group_pairs(alike):
        differ = len({truths[row] for row in rows} - {None}) > 1
        yield _Group(rows, differ, max(likeness[row] for row in rows))


def _load(
    sources: Sequence[QuestionRows], rows: Sequence[int]
) -> Iterator[tuple[int, Question, Example]]:
    """Yield the questions at these rows, which ascend, and where they are."""
    for source in sources:
        first = source.first_row
        places = [row - first for row in rows if 0 <= row - first < len(source.rows)]
        for start in range(0, len(places), BATCH):
            batch = pl.Series(places[start : start + BATCH], dtype=pl.Int64)
            samples = source.rows.take(batch).load(source.fields.columns)
            questions = read_questions(samples, source.fields)
            for number, question in enumerate(questions):
                yield first + batch[number], question, make_example(samples, number)


def _sum_up(sources: Sequence[QuestionRows], groups: Sequence[_Group]) -> Repeats:
    contradicting = [group for group in groups if group.differ]
    likest = sorted(groups, key=lambda group: -(group.likeness or 0))[:SHOWN]
    shown = [*likest, *contradicting[:SHOWN]]
    examples = {}
    truths = {}
    for row, question, example in _load(
        sources, sorted({row for group in shown for row in group.rows[:2]})
    ):
        examples[row] = example
        truths[row] = _fold_truth(question)
    texts = [_describe_group(group, examples, truths) for group in shown]
    return Repeats(
        rows=sum(len(group.rows) - 1 for group in groups),
        groups=len(groups),
        contradicting=len(contradicting),
        examples=tuple(texts[: len(likest)]),
        contradictions=tuple(texts[len(likest) :]),
    )


def _describe_group(
    group: _Group, examples: Mapping[int, Example], truths: Mapping[int, str | None]
) -> Example:
    first, second = examples[group.rows[0]], examples[group.rows[1]]
    place = f"line {second.line}"
    if second.file not in {first.file, None}:
        place = f"{Path(str(second.file)).name}:{second.line}"
    likeness = "" if group.likeness is None else f" {group.likeness:.2f}"
    note = f"like{likeness} {second.sample} ({place})"
    if len(group.rows) > 2:  # noqa: PLR2004 - the pair itself
        note += f" and {len(group.rows) - 2} more"
    first_truth, second_truth = (truths[row] or "" for row in group.rows[:2])
    if first_truth and second_truth and first_truth.casefold() != second_truth.casefold():
        note += f"; truths {first_truth!r} and {second_truth!r}"
    return replace(first, note=note)
