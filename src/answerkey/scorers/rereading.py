"""The same completions read by every rule, and by the lenses of other harnesses: what the audit compares."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import polars as pl

from answerkey.scorers.base import Scorer
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.lenses import LENSES
from answerkey.scorers.mcqa import StringEqualsMcqa
from answerkey.types import Completions, CompletionStatus, Samples, Scores

#: The rules that need no pattern of the user's.
FIRST, LITERAL, STATED = "first_character", "first_character_literal", "stated_answer"
RULE_NAMES = (FIRST, LITERAL, "leading_label", STATED)

#: So many samples stand for all in a summary; the audit itself reads every one.
MOST_SPOTS = 1_000

#: What the run itself read, among the counts by rule.
OWN = "own"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Reader:
    """A rule or a lens: from a text, its labels and the texts of its options to a label, or None."""

    name: str
    kind: Literal["rule", "lens"]
    read: Callable[[str, Labels, Labels | None], str | None]
    reads_options: bool = False


@dataclass(frozen=True)
class Passages:
    """Completions to read: text (None where there is none), labels, option texts and truth of each.

    `is_told` says that the rules are given the option texts, as the scorer's field `options` does; lenses see
    them whenever they are known.
    """

    texts: Sequence[str | None]
    choices: Sequence[Labels]
    options: Sequence[Labels | None]
    is_told: bool = False

    def __len__(self) -> int:
        return len(self.texts)


#: The lenses for which the texts of the options make a difference.
READ_OPTIONS = frozenset({"lm-eval", "VLMEvalKit"})


def list_readers(*, lenses: bool = True) -> tuple[Reader, ...]:
    """Return the rules, and the lenses."""
    found = LENSES.values() if lenses else ()
    return (
        *map(_bind_rule, RULE_NAMES),
        *(Reader(lens.name, "lens", lens.read, lens.name in READ_OPTIONS) for lens in found),
    )


def _bind_rule(name: str) -> Reader:
    return Reader(name, "rule", partial(_read_by_rule, name), find_rule(name).reads_options)


@lru_cache(maxsize=4_096)
def _read_by_rule(name: str, text: str, choices: Labels, options: Labels | None) -> str | None:
    """Return what a rule reads; part after part of a run has the same short texts."""
    return find_rule(name).read(text, choices, options).choice


def list_passages(
    scorer: StringEqualsMcqa, samples: Samples, completions: Completions, scores: Scores
) -> Passages:
    """Return what there is to read; every row has been scored."""
    choices = scores.column("choices")
    return Passages(
        list_texts(completions.frame["completion"], completions.frame["status"]),
        [] if choices is None else [tuple(names) for names in choices.to_list()],
        _list_options(scorer, samples),
        is_told=scorer.options is not None,
    )


def _list_options(scorer: StringEqualsMcqa, samples: Samples) -> list[Labels | None]:
    if scorer.options is None and "options" not in samples.columns:
        return [None] * len(samples)
    return [None if texts is None else tuple(texts) for texts in scorer.know(samples).options]


def list_texts(texts: pl.Series, calls: pl.Series) -> list[str | None]:
    """Return the texts of completions; None for a refusal and for a reply without any."""
    return [
        text if call == CompletionStatus.OK.value else None
        for text, call in zip(texts.to_list(), calls.to_list(), strict=True)
    ]


def reread(passages: Passages, readers: Sequence[Reader]) -> dict[str, pl.Series]:
    """Return what each reader reads in each text: a choice, or null."""
    blank = [None] * len(passages)
    plain = _code(passages, blank)
    told = plain if all(one is None for one in passages.options) else _code(passages, passages.options)
    found: dict[str, pl.Series] = {}
    for reader in readers:
        is_told = reader.kind == "lens" or passages.is_told
        keys, codes = told if is_told and reader.reads_options else plain
        labels = [
            None if text is None else reader.read(text, choices, options) for text, choices, options in keys
        ]
        found[reader.name] = pl.Series(reader.name, labels, dtype=pl.String).gather(codes)
    return found


Coding = tuple[list[tuple[str | None, Labels, Labels | None]], pl.Series]


def _code(passages: Passages, options: Sequence[Labels | None]) -> Coding:
    """Return the distinct combinations, and which of them each row has."""
    numbers: dict[tuple[str | None, Labels, Labels | None], int] = {}
    codes = [
        numbers.setdefault(key, len(numbers))
        for key in zip(passages.texts, passages.choices, options, strict=True)
    ]
    return list(numbers), pl.Series(codes, dtype=pl.UInt32)


def choose_spots(count: int, most: int = MOST_SPOTS) -> tuple[int, ...]:
    """Return the positions, in order, of at most `most` samples that stand for all `count` of them.

    They are drawn at random, and depend on nothing but the two numbers.
    """
    if count <= most:
        return tuple(range(count))
    draw = random.Random(0)  # noqa: S311 - for repeatability, not for secrets
    return tuple(sorted(draw.sample(range(count), most)))


def pick_spots(spots: Sequence[int], stretch: range, size: int) -> list[int]:
    """Return which rows of a stretch of samples, with `size` rows each, belong to the spots."""
    first, last = bisect_left(spots, stretch.start), bisect_left(spots, stretch.stop)
    starts = [(spot - stretch.start) * size for spot in spots[first:last]]
    return [start + trial for start in starts for trial in range(size)]


def count_readings(
    scorer: Scorer, samples: Samples, completions: Completions, scores: Scores, rows: Sequence[int]
) -> dict[str, Any]:
    """Return how many of these rows each rule reads, and how many rightly: `n`, and by rule two counts.

    `samples` is how many samples the rows are of, `own` what the scorer itself reads, by the rule that
    `own_rule` names. Rows without a score, or kept out of the metrics, are passed over. Empty for scorers
    that read no choices.
    """
    if not isinstance(scorer, StringEqualsMcqa):
        return {}
    chosen = pl.Series(rows, dtype=pl.UInt32)
    chosen = chosen if scores.are_all_counted else chosen.filter(scores.counted().gather(chosen))
    own, truths, choices = (_gather(scores, name, chosen) for name in _READ_OF_SCORES)
    passages = Passages(
        list_texts(
            completions.frame["completion"].gather(chosen), completions.frame["status"].gather(chosen)
        ),
        [tuple(names) for names in choices.to_list()],
        _list_options(scorer, samples.take(chosen)) if scorer.options else [None] * len(chosen),
        is_told=scorer.options is not None,
    )
    others = [reader for reader in list_readers(lenses=False) if reader.name != scorer.extraction]
    counts = {
        name: {"correct": int((read == truths).sum()), "invalid": read.null_count()}
        for name, read in {OWN: own, **reread(passages, others)}.items()
    }
    owners = samples.ids if samples.orders is None else samples.orders["base_sample_id"]
    theirs = count_their_readings(passages, own == truths, truths, _take_theirs(completions, chosen))
    return {
        "n": len(chosen),
        "samples": owners.gather(chosen).n_unique(),
        "rules": counts,
        "own_rule": {find_rule(scorer.extraction).name: len(chosen)},
        **theirs,
    }


def _take_theirs(completions: Completions, rows: pl.Series) -> pl.Series | None:
    found = completions.frame
    return found["their_score"].gather(rows) if "their_score" in found.columns else None


def count_their_readings(
    passages: Passages, is_right: pl.Series, truths: pl.Series, theirs: pl.Series | None
) -> dict[str, Any]:
    """Return who reads as another tool does where its verdict is not ours: `theirs`, with `n` and `readers`.

    A rule or lens agrees with the tool when it makes right what the tool calls right. Nothing without
    verdicts of others.
    """
    if theirs is None:
        return {}
    is_judged = theirs.is_in([0.0, 1.0]).fill_null(value=False)
    differ = (is_judged & ((theirs == 1) != is_right.fill_null(value=False))).arg_true()
    rows = differ.to_list()
    some = Passages(
        [passages.texts[row] for row in rows],
        [passages.choices[row] for row in rows],
        [passages.options[row] for row in rows],
        is_told=passages.is_told,
    )
    wanted, truth = theirs.gather(differ) == 1, truths.gather(differ)
    found = reread(some, list_readers()) if rows else {}
    agreeing = {
        name: int(((read == truth).fill_null(value=False) == wanted).sum()) for name, read in found.items()
    }
    return {"theirs": {"n": len(rows), "readers": agreeing}}


_READ_OF_SCORES = ("predicted_choice", "ground_truth_choice", "choices")


def _gather(scores: Scores, name: str, rows: pl.Series) -> pl.Series:
    found = scores.column(name)
    return pl.Series([None] * len(rows), dtype=pl.String) if found is None else found.gather(rows)
