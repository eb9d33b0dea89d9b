"""The same completions read by every rule, and as other harnesses read them, for audits."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import eq
from typing import Any

import polars as pl

from answerkey.reader import EXTRACTORS
from answerkey.scorers.base import Scorer
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.mcqa import StringEqualsMcqa, reads_choices
from answerkey.scorers.question import Labels
from answerkey.types import RULE_NAMES, Completions, CompletionStatus, Samples, Scores

FIRST, LITERAL, _, STATED = RULE_NAMES
#: A summary reads this many samples, which stand for all; the audit itself reads every one.
MOST_AUDITED = 1_000
#: What the run itself read, among the counts by rule.
OWN = "own"
#: A completion to read: its text (None where there is none), labels and option texts.
Passage = tuple[str | None, Labels, Labels | None]


def list_passages(
    scorer: StringEqualsMcqa,
    samples: Samples,
    completions: Completions,
    scores: Scores,
    *,
    only_told: bool = False,
) -> list[Passage]:
    """Return what there is to read; every row has been scored.

    With `only_told`, option texts are those of the scorer's field; else also those of a column
    `options`.
    """
    options = scorer.option_texts(samples, only_told=only_told)
    return list(
        zip(
            list_texts(completions),
            list_labels(scores),
            options,
            strict=True,
        )
    )


def list_texts(completions: Completions) -> list[str | None]:
    """Return the texts of completions; None for a refusal and for a reply without any."""
    is_text = completions.column("status") == CompletionStatus.OK.value
    return pl.select(pl.when(is_text).then(completions.column("completion"))).to_series().to_list()


def list_labels(scores: Scores) -> list[Labels]:
    """Return the labels of each question that was scored."""
    choices = scores.column("choices")
    if choices is None:
        return []
    return [tuple(labels) for labels in choices.to_list()]


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
    columns = {}
    for name in names:
        choices = [
            _read_choice(
                name,
                *passage,
                is_told=is_told,
            )
            for passage in passages
        ]
        columns[name] = pl.Series(name, choices, dtype=pl.String)
    return columns


def _read_choice(
    name: str,
    text: str | None,
    labels: Labels,
    options: Labels | None,
    *,
    is_told: bool,
) -> str | None:
    """Return the choice that a rule or an extractor reads."""
    if text is None:
        return None
    if name in EXTRACTORS:
        return EXTRACTORS[name].read(text, labels, options)
    return find_rule(name).read(text, labels, options if is_told else None).choice


def choose_audited(count: int, most: int = MOST_AUDITED) -> tuple[int, ...]:
    """Return the positions, in order, of at most `most` samples that stand for all `count` of them.

    They are drawn at random, and depend on nothing but the two numbers.
    """
    if count <= most:
        return tuple(range(count))
    draw = random.Random(0)  # noqa: S311 - for repeatability, not for secrets
    return tuple(sorted(draw.sample(range(count), most)))


def find_audited_rows(
    audited: Sequence[int],
    stretch: range,
    size: int,
) -> list[int]:
    """Return the rows of audited samples in a stretch of samples with `size` rows each."""
    first = bisect_left(audited, stretch.start)
    last = bisect_left(audited, stretch.stop)
    rows: list[int] = []
    for sample in audited[first:last]:
        start = (sample - stretch.start) * size
        rows += range(start, start + size)
    return rows


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
    that read no choices. `theirs` compares with the verdicts of another tool, where there are any.
    """
    if not reads_choices(scorer):
        return {}
    is_counted = scores.counted().to_list()
    chosen = pl.Series([row for row in rows if is_counted[row]], dtype=pl.UInt32)
    samples = samples.take(chosen)
    completions = completions.take(chosen)
    scores = scores.take(chosen)
    is_told = scorer.options is not None
    passages = list_passages(scorer, samples, completions, scores, only_told=True)
    truths = scores.text("ground_truth_choice").to_list()
    readings = {OWN: scores.text("predicted_choice")}
    names = [name for name in RULE_NAMES if name != scorer.rule_name]
    readings |= reread(passages, names, is_told=is_told)
    rules = {}
    for name, choices in readings.items():
        rules[name] = {"correct": _count_equal(choices, truths), "invalid": choices.null_count()}
    owners = samples.ids if samples.orders is None else samples.orders["base_sample_id"]
    counts = {
        "n": len(chosen),
        "samples": owners.n_unique(),
        "rules": rules,
        "own_rule": {scorer.rule_name: len(chosen)},
    }
    if all(completion.their_score is None for completion in completions):
        return counts
    disputed = {}
    for row, completion in enumerate(completions):
        is_right = float(readings[OWN][row] == truths[row])
        if completion.their_score in {0.0, 1.0} and completion.their_score != is_right:
            disputed[row] = completion.their_score
    # A reader agrees with the other tool if it makes right what that tool calls right.
    readers = {}
    if disputed:
        texts = [passages[row] for row in disputed]
        for name, choices in reread(
            texts,
            (*RULE_NAMES, *EXTRACTORS),
            is_told=is_told,
        ).items():
            verdicts = [
                float(choice == truths[row])
                for choice, row in zip(
                    choices,
                    disputed,
                    strict=True,
                )
            ]
            readers[name] = _count_equal(verdicts, disputed.values())
    return {**counts, "theirs": {"n": len(disputed), "readers": readers}}


def _count_equal(left: Iterable[object], right: Iterable[object]) -> int:
    return sum(map(eq, left, right))
