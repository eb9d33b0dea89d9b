"""Questions that are asked twice: word for word, or nearly so; in time that grows with their number.

questions ──► sketch_questions (a few numbers each) ──► pair_rows (candidates) ──► Likeness (words decide)
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

#: Each band is the hash of so many minima; questions that agree in one band are held against each other.
BANDS, BAND_ROWS = 12, 3
#: Words apart, but signs that carry meaning and characters of scripts without spaces one by one.
_SINGLE = r"\u3040-\u30ff\u3400-\u9fff"
_TOKEN = rf"[{_SINGLE}]|[^\W_{_SINGLE}]+|[-+*/=<>^~%$\u00ac\u00b1\u00d7\u00f7\u2190-\u22ff]"
_TOKENS = re.compile(_TOKEN)
#: Words that turn a question into its opposite: two questions that differ in them are two questions.
_TURNING = frozenset({"not", "except", "never", "no", "least", "false", "incorrect", "most", "without"})
#: Of the words of so many questions the frequencies are known; that is enough to tell rare from common.
MOST_WEIGHED = 20_000

ROW, KEY = "row", "key"


def sketch_questions(questions: pl.Series, options: pl.Series, first_row: int) -> pl.DataFrame:
    """Return for each question its row, the hash of its text, and its bands; options in any order.

    `questions` are texts, `options` lists of texts; the rows are numbered from `first_row` on.
    """
    folded = pl.DataFrame({"question": questions, "options": options}).select(
        pl.int_range(first_row, first_row + pl.len(), dtype=pl.Int64).alias(ROW),
        _fold(pl.col("question").fill_null("")).alias("question"),
        _fold(pl.col("options").list.sort().list.join("\x1f").fill_null("")).alias("options"),
    )
    keys = folded.select(ROW, pl.struct("question", "options").hash().alias(KEY))
    words = pl.concat(
        [
            # A word in the question is not the same as one in an option.
            _list_words(folded, name).select(
                ROW, (pl.lit(name) + "\x1f" + pl.col("word")).hash().alias("word")
            )
            for name in ("question", "options")
        ]
    )
    minima = words.group_by(ROW).agg(
        pl.col("word").hash(seed).min().alias(str(seed)) for seed in range(BANDS * BAND_ROWS)
    )
    bands = minima.select(ROW, *(_hash_band(band).alias(f"band {band}") for band in range(BANDS)))
    return keys.join(bands, on=ROW, how="left", maintain_order="left")


def _fold(texts: pl.Expr) -> pl.Expr:
    """Return texts without differences of case, width and white space."""
    return texts.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()


def _list_words(folded: pl.DataFrame, name: str) -> pl.DataFrame:
    found = folded.select(ROW, pl.col(name).str.extract_all(_TOKEN).alias("word"))
    return found.explode("word").drop_nulls()


def _hash_band(band: int) -> pl.Expr:
    return pl.struct(str(band * BAND_ROWS + number) for number in range(BAND_ROWS)).hash(band)


def group_same(sketches: pl.DataFrame) -> list[list[int]]:
    """Return the rows that have the same hash of their text, in groups, in the order of the first ones."""
    groups = sketches.group_by(KEY).agg(pl.col(ROW).sort()).filter(pl.col(ROW).list.len() > 1)
    rows: list[list[int]] = groups.sort(pl.col(ROW).list.first())[ROW].to_list()
    return rows


def pair_rows(sketches: pl.DataFrame) -> pl.DataFrame:
    """Return candidates for questions that are nearly the same: `one` and `other`, the likeliest first.

    In a band that many share, each row is held against the first and against the one before it, so that there
    are at most twice as many pairs as rows. The more bands a pair shares, the likelier it is.
    """
    firsts = sketches.sort(ROW).unique(KEY, keep="first", maintain_order=True)
    pairs = []
    for band in range(BANDS):
        name = f"band {band}"
        near = firsts.select(ROW, name).drop_nulls().filter(pl.len().over(name) > 1)
        before, first = pl.col(ROW).shift().over(name), pl.col(ROW).first().over(name)
        both = [near.select(one.alias("one"), pl.col(ROW).alias("other")) for one in (before, first)]
        pairs.append(pl.concat(both).drop_nulls().filter(pl.col("one") < pl.col("other")).unique())
    found = pl.concat(pairs).group_by("one", "other").len("bands")
    return found.sort("bands", "one", "other", descending=[True, False, False]).drop("bands")


@dataclass(frozen=True)
class Words:
    """The words of a question and those of its options; `telling` are those that must be the same."""

    question: Counter[str]
    options: Counter[str]
    telling: tuple[tuple[str, int], ...]

    @classmethod
    def read(cls, question: str, options: Iterable[str]) -> Words:
        """Return the words of a question."""
        counts = _count_words(question), _count_words("\x1f".join(options))
        telling = [
            (f"{place} {word}", count)
            for place, words in enumerate(counts)
            for word, count in words.items()
            if word in _TURNING or not word.isalpha()
        ]
        return cls(*counts, tuple(sorted(telling)))


def _count_words(text: str) -> Counter[str]:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return Counter(_TOKENS.findall(plain.lower()))


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


def group_pairs(pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
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
