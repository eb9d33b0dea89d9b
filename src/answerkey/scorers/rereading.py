"""The same completions read by every rule, and as other harnesses read them, for audits."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import eq
from typing import Any

import polars as pl

from answerkey.datasets.rows import list_rows
from answerkey.reader import EXTRACTORS
from answerkey.scorers.base import Scorer
from answerkey.scorers.extraction import LONGEST_REMEMBERED, find_rule
from answerkey.scorers.mcqa import StringEqualsMcqa, reads_choices
from answerkey.scorers.question import Labels
from answerkey.types import RULE_NAMES, Completions, Samples, Scores

FIRST, LITERAL, _, STATED = RULE_NAMES
#: A summary reads this many samples, which stand for all; the audit itself reads every one.
MOST_AUDITED = 1_000
#: What the run itself read, among the counts by rule.
OWN = "own"
#: A completion to read: its text (None where there is none), labels and option texts.
Passage = tuple[str | None, Labels, Labels | None]
#: How many texts are remembered with what the extractors read in them.
REMEMBERED_TEXTS = 8_192


def list_passages(
    scorer: StringEqualsMcqa,
    samples: Samples,
    completions: Completions,
    scores: Scores,
) -> list[Passage]:
    """Return what there is to read; every row has been scored."""
    texts = completions.column("completion").to_list()
    labels = map(tuple, scores.columns["choices"].to_list())
    options = scorer.option_texts(samples)
    return list(zip(texts, labels, options, strict=True))


def reread(
    passages: Sequence[Passage],
    names: Sequence[str],
    *,
    is_told: bool = False,
) -> dict[str, pl.Series]:
    """Return what each of these rules and extractors reads in each text: a choice, or null.

    With `is_told`, rules see the option texts, as with the scorer's field `options`; extractors see
    them whenever they are known.
    """
    shown = []
    for text, labels, options in passages:
        shown.append((text or "", labels, options if is_told else None))
    by_extractors: list[Mapping[str, str | None]] = []
    if not EXTRACTORS.keys().isdisjoint(names):
        by_extractors = list(map(read_by_extractors, passages))
    columns = {}
    for name in names:
        if name in EXTRACTORS:
            choices = [reading[name] for reading in by_extractors]
        else:
            choices = [reading.choice for reading in find_rule(name).read_all(shown)]
        columns[name] = pl.Series(name, choices, dtype=pl.String)
    return columns


def read_by_extractors(passage: Passage) -> Mapping[str, str | None]:
    """Return the choice that each extractor reads in a completion."""
    text, labels, options = passage
    if text is None:
        return dict.fromkeys(EXTRACTORS)
    read: Callable[..., Mapping[str, str | None]] = _recall_choices
    if len(text) > LONGEST_REMEMBERED:
        read = _recall_choices.__wrapped__
    choices = dict(read(text, labels))
    for name, extractor in EXTRACTORS.items():
        if extractor.reads_options:
            choices[name] = extractor.read(text, labels, options)
    return choices


@lru_cache(maxsize=REMEMBERED_TEXTS)
def _recall_choices(text: str, labels: Labels) -> Mapping[str, str | None]:
    """Return what the extractors read that do not look at the options; None for the others."""
    choices = {}
    for name, extractor in EXTRACTORS.items():
        choices[name] = None if extractor.reads_options else extractor.read(text, labels)
    return choices


def choose_audited(count: int, most: int = MOST_AUDITED) -> tuple[int, ...]:
    """Return the positions, in order, of at most `most` samples that stand for all `count` of them.

    They are drawn at random, and depend on nothing but the two numbers.
    """
    draw = random.Random(0)  # noqa: S311 - for repeatability, not for secrets
    positions = draw.sample(range(count), min(count, most))
    return tuple(sorted(positions))


def find_audited_rows(
    audited: Sequence[int],
    stretch: range,
    size: int,
) -> list[int]:
    """Return the rows of audited samples in a stretch of samples with `size` rows each."""
    positions = [sample - stretch.start for sample in audited if sample in stretch]
    return list_rows(positions, size)


def count_readings(
    scorer: Scorer,
    samples: Samples,
    completions: Completions,
    scores: Scores,
    rows: Sequence[int],
) -> dict[str, Any]:
    """Return how many of these rows each rule reads, and how many rightly: `n`, and by rule two
    counts.

    `samples` is the number of samples behind the rows, `own` what the scorer itself reads, by the
    rule that `own_rule` names. Rows that take no part in metrics are skipped. Empty for scorers
    that read no choices.
    """
    if not reads_choices(scorer):
        return {}
    chosen = pl.Series(rows, dtype=pl.UInt32)
    is_counted = scores.counted().gather(chosen)
    chosen = chosen.filter(is_counted)
    samples = samples.take(chosen)
    completions = completions.take(chosen)
    scores = scores.take(chosen)
    truths = scores.text("ground_truth_choice").to_list()
    readings = {OWN: scores.text("predicted_choice")}
    names = [name for name in RULE_NAMES if name != scorer.rule_name]
    passages = list_passages(scorer, samples, completions, scores)
    readings |= reread(passages, names, is_told=scorer.options is not None)
    rules = {}
    for name, choices in readings.items():
        correct = sum(map(eq, choices, truths))
        rules[name] = {"correct": correct, "invalid": choices.null_count()}
    owners = samples.ids
    if samples.orders is not None:
        owners = samples.orders["base_sample_id"]
    return {
        "n": len(chosen),
        "samples": owners.n_unique(),
        "rules": rules,
        "own_rule": {scorer.rule_name: len(chosen)},
    }
