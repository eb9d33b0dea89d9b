"""Questions that are asked twice, word for word or nearly so, and whether their truths agree.

questions ──► sketch_questions (a few numbers each) ──► pair_rows (candidates) ──► Likeness (words decide)

The time that it takes grows with the number of questions, not with its square.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from answerkey.dataset_audit.questions import Question, QuestionFields, fold_text, read_questions
from answerkey.datasets.rows import Rows
from answerkey.types import Samples

#: How many rows are shown for each thing that is found, and how much of a note.
SHOWN, SHOWN_NOTE = 5, 60


@dataclass(frozen=True)
class Example:
    """A row that shows something: its sample id, where it stands, and what is to be seen there."""

    sample: str
    file: str | None
    line: int | None
    note: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else (self.file or f"row {self.line}")
        return f"{self.sample} ({place})" + (f": {self.note}" if self.note else "")


def make_example(samples: Samples, row: int, note: str = "") -> Example:
    """Return where a row stands, with a note."""
    place = samples.place(row)
    shown = note if len(note) <= SHOWN_NOTE else f"{note[:SHOWN_NOTE]}…"
    return Example(str(place.sample), place.file, place.line, shown)


# ------------------------------------------------------------------------------- candidates

#: Each band is the hash of so many minima; questions that agree in one band are held against each other.
BANDS, BAND_ROWS = 12, 3
#: Words apart, but signs that carry meaning and characters of scripts without spaces one by one.
_SINGLE = r"\u3040-\u30ff\u3400-\u9fff"
_TOKEN = rf"[{_SINGLE}]|[^\W_{_SINGLE}]+|[-+*/=<>^~%$\u00ac\u00b1\u00d7\u00f7\u2190-\u22ff]"
_TOKENS = re.compile(_TOKEN)
#: Words that turn a question into its opposite: two questions that differ in them are two questions.
_TURNING = frozenset({"not", "except", "never", "no", "least", "false", "incorrect", "most", "without"})


def sketch_questions(questions: pl.Series, options: pl.Series, first_row: int) -> pl.DataFrame:
    """Return for each question its row, the hash of its text, and its bands; options in any order.

    `questions` are texts, `options` lists of texts; the rows are numbered from `first_row` on.
    """
    joined = pl.col("options").list.sort().list.join("\x1f")
    folded = pl.DataFrame({"question": questions, "options": options}).select(
        pl.int_range(first_row, first_row + pl.len(), dtype=pl.Int64).alias("row"),
        # Differences of case, width and white space are none.
        *(
            texts.fill_null("")
            .str.normalize("NFKC")
            .str.to_lowercase()
            .str.replace_all(r"\s+", " ")
            .str.strip_chars()
            for texts in (pl.col("question"), joined)
        ),
    )
    words = pl.concat(
        # A word in the question is not the same as one in an option.
        folded.select("row", pl.col(name).str.extract_all(_TOKEN).alias("word"))
        .explode("word")
        .drop_nulls()
        .select("row", (pl.lit(name) + "\x1f" + pl.col("word")).hash().alias("word"))
        for name in ("question", "options")
    )
    minima = words.group_by("row").agg(
        pl.col("word").hash(seed).min().alias(str(seed)) for seed in range(BANDS * BAND_ROWS)
    )
    bands = [
        pl.struct(str(band * BAND_ROWS + number) for number in range(BAND_ROWS)).hash(band)
        for band in range(BANDS)
    ]
    bands = [one.alias(f"band {band}") for band, one in enumerate(bands)]
    keys = folded.select("row", pl.struct("question", "options").hash().alias("key"))
    return keys.join(minima.select("row", *bands), on="row", how="left", maintain_order="left")


def group_same(sketches: pl.DataFrame) -> list[list[int]]:
    """Return the rows that have the same hash of their text, in groups, in the order of the first ones."""
    groups = sketches.group_by("key").agg(pl.col("row").sort()).filter(pl.col("row").list.len() > 1)
    rows: list[list[int]] = groups.sort(pl.col("row").list.first())["row"].to_list()
    return rows


def pair_rows(sketches: pl.DataFrame) -> pl.DataFrame:
    """Return candidates for questions that are nearly the same: `one` and `other`, the likeliest first.

    In a band that many share, each row is held against the first and against the one before it, so that there
    are at most twice as many pairs as rows. The more bands a pair shares, the likelier it is.
    """
    firsts = sketches.sort("row").unique("key", keep="first", maintain_order=True)
    pairs = []
    for name in (f"band {band}" for band in range(BANDS)):
        near = firsts.select("row", name).drop_nulls().filter(pl.len().over(name) > 1)
        before, first = pl.col("row").shift().over(name), pl.col("row").first().over(name)
        both = [near.select(one.alias("one"), pl.col("row").alias("other")) for one in (before, first)]
        pairs.append(pl.concat(both).drop_nulls().filter(pl.col("one") < pl.col("other")).unique())
    found = pl.concat(pairs).group_by("one", "other").len("bands")
    return found.sort("bands", "one", "other", descending=[True, False, False]).drop("bands")


def group_pairs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the rows that pairs connect, in groups, in the order of the first ones."""
    parents: dict[int, int] = {}

    def find(row: int) -> int:
        while (parent := parents.setdefault(row, row)) != row:
            parents[row] = parents[parent]
            row = parent
        return row

    for one, other in pairs:
        first, second = sorted((find(one), find(other)))
        parents[second] = first
    groups: dict[int, list[int]] = {}
    for row in sorted(parents):
        groups.setdefault(find(row), []).append(row)
    return [groups[first] for first in sorted(groups)]


# ------------------------------------------------------------------------------- likeness


@dataclass(frozen=True)
class Words:
    """The words of a question and those of its options; `telling` are those that must be the same."""

    question: Counter[str]
    options: Counter[str]
    telling: tuple[tuple[str, int], ...]

    @classmethod
    def read(cls, question: str, options: Iterable[str]) -> Words:
        """Return the words of a question."""
        texts = (question, "\x1f".join(options))
        plain = [one if one.isascii() else unicodedata.normalize("NFKC", one) for one in texts]
        first, second = (Counter(_TOKENS.findall(text.lower())) for text in plain)
        telling = [
            (f"{place} {word}", count)
            for place, words in enumerate((first, second))
            for word, count in words.items()
            if word in _TURNING or not word.isalpha()
        ]
        return cls(first, second, tuple(sorted(telling)))


@dataclass
class Likeness:
    """How alike questions are, by their words; rare words count more than those of every question."""

    questions: int = 0
    known: Counter[str] = field(default_factory=Counter)
    weights: dict[str, float] = field(default_factory=dict)

    def learn(self, words: Words) -> None:
        """Take a question into account."""
        self.questions += 1
        self.known.update({*words.question, *words.options})

    def compare(self, one: Words, other: Words) -> float:
        """Return how alike two questions are, 0 to 1: the less alike of question and options.

        0 where their numbers or signs differ, or a word that turns a question into its opposite.
        """
        if one.telling != other.telling:
            return 0.0
        return min(self._overlap(one.question, other.question), self._overlap(one.options, other.options))

    def _overlap(self, one: Counter[str], other: Counter[str]) -> float:
        common = self._weigh({word: min(count, other[word]) for word, count in one.items() if word in other})
        every = self._weigh(one) + self._weigh(other) - common
        return common / every if every else 1.0

    def _weigh(self, words: Mapping[str, int]) -> float:
        weights, total = self.weights, 0.0
        for word, count in words.items():
            weight = weights.get(word)
            if weight is None:
                weight = weights[word] = math.log1p(self.questions / max(1, self.known[word]))
            total += count * weight
        return total


# ------------------------------------------------------------------------------- what is found

#: Of the words of so many questions the frequencies are known; that is enough to tell rare from common.
MOST_WEIGHED = 20_000
#: How many questions are loaded together, and how many candidates are held against each other at most.
BATCH, MOST_PAIRS, PAIR_BATCH = 16_384, 200_000, 20_000


@dataclass(frozen=True)
class QuestionRows:
    """Where questions lie, and how they are read; small enough to be sent around."""

    rows: Rows
    fields: QuestionFields
    first_row: int


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


def find_repeats(
    sources: Sequence[QuestionRows], sketches: pl.DataFrame, similarity: float
) -> tuple[Repeats, Repeats, int]:
    """Return questions that are the same, those that are nearly so, and how many candidates were passed over.

    They are nearly the same from a likeness of `similarity` on.
    """
    pairs = pair_rows(sketches)
    checked: list[tuple[int, int]] = pairs.head(MOST_PAIRS).sort("one", "other").rows()
    likeness = Likeness()
    total = sum(len(source.rows) for source in sources)
    for _, question, _, _ in _iterate(sources, range(min(MOST_WEIGHED, total)) if checked else ()):
        likeness.learn(Words.read(question.text or "", question.texts))
    alike: dict[tuple[int, int], float] = {}
    for start in range(0, len(checked), PAIR_BATCH):
        batch = checked[start : start + PAIR_BATCH]
        words = {
            row: Words.read(question.text or "", question.texts)
            for row, question, _, _ in _iterate(sources, sorted({row for pair in batch for row in pair}))
        }
        for one, other in batch:
            value = likeness.compare(words[one], words[other])
            if value >= similarity:
                alike[one, other] = value
    same = _sum_up(sources, group_same(sketches), {})
    return same, _sum_up(sources, group_pairs(alike), alike), pairs.height - len(checked)


def _iterate(
    sources: Sequence[QuestionRows], rows: Sequence[int]
) -> Iterator[tuple[int, Question, Samples, int]]:
    """Yield the questions at these rows, which ascend, each with its samples and its place among them."""
    for source in sources:
        first, last = source.first_row, source.first_row + len(source.rows)
        own = pl.Series([row - first for row in rows if first <= row < last], dtype=pl.Int64)
        for start in range(0, len(own), BATCH):
            places = own.slice(start, BATCH)
            samples = source.rows.take(places).load(source.fields.columns)
            found = read_questions(samples, source.fields)
            for number, (place, question) in enumerate(zip(places.to_list(), found, strict=True)):
                yield first + place, question, samples, number


def _sum_up(
    sources: Sequence[QuestionRows], groups: Sequence[Sequence[int]], alike: Mapping[tuple[int, int], float]
) -> Repeats:
    examples: dict[int, Example] = {}
    truths: dict[int, str | None] = {}
    for row, question, samples, number in _iterate(sources, sorted(row for group in groups for row in group)):
        examples[row], truths[row] = make_example(samples, number), None
        if (place := question.truth) is not None:
            texts = question.texts  # the label stands for an option without any
            truths[row] = fold_text(texts[place]) if place < len(texts) else question.labels[place]
    likeness: dict[int, float] = {}
    for pair, value in alike.items():
        for row in pair:
            likeness[row] = max(value, likeness.get(row, 0.0))

    def measure(group: Sequence[int]) -> float:
        return max(likeness.get(row, 1.0) for row in group)

    def contradict(group: Sequence[int]) -> bool:
        return len({truth.casefold() for row in group if (truth := truths[row]) is not None}) > 1

    def show(group: Sequence[int]) -> Example:
        first, other = examples[group[0]], examples[group[1]]
        likely = f" {measure(group):.2f}" if alike else ""
        more = f" and {len(group) - 2} more" if len(group) > 2 else ""  # noqa: PLR2004 - the pair itself
        is_here = other.file in {first.file, None}
        place = f"line {other.line}" if is_here else f"{Path(str(other.file)).name}:{other.line}"
        differ = f"; truths {truths[group[0]]!r} and {truths[group[1]]!r}" if contradict(group[:2]) else ""
        return replace(first, note=f"like{likely} {other.sample} ({place}){more}{differ}")

    contradicting = [group for group in groups if contradict(group)]
    ordered = sorted(groups, key=lambda group: (-measure(group), group))
    return Repeats(
        rows=sum(len(group) - 1 for group in groups),
        groups=len(groups),
        contradicting=len(contradicting),
        examples=tuple(map(show, ordered[:SHOWN])),
        contradictions=tuple(map(show, contradicting[:SHOWN])),
    )
