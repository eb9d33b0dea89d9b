"""The same completions read by every rule, and as other harnesses read them: for summaries and audits."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from answerkey.reader import EXTRACTORS, Reading
from answerkey.reader.extractors import measure_options
from answerkey.scorers.base import Scorer
from answerkey.scorers.extraction import Labels, find_rule
from answerkey.scorers.mcqa import StringEqualsMcqa
from answerkey.types import RULE_NAMES, Completions, CompletionStatus, Samples, Scores

FIRST, LITERAL, _, STATED = RULE_NAMES
#: So many samples stand for all in a summary; the audit itself reads every one.
MOST_AUDITED = 1_000
#: What the run itself read, among the counts by rule.
OWN = "own"
#: What an extractor reads in longer texts is not remembered.
LONGEST_EXTRACTED = 24


@dataclass(frozen=True)
class Passages:
    """Completions to read: text (None where there is none), labels and option texts of each.

    `is_told` says that the rules are given the option texts, as the scorer's field `options` does; extractors
    see them whenever they are known.
    """

    texts: Sequence[str | None]
    labels: Sequence[Labels]
    options: Sequence[Labels | None]
    is_told: bool = False

    def take(self, rows: Sequence[int]) -> Passages:
        """Return some of them."""
        texts = [self.texts[row] for row in rows]
        labels = [self.labels[row] for row in rows]
        options = [self.options[row] for row in rows]
        return Passages(texts, labels, options, self.is_told)

    def rows(self) -> Iterator[tuple[str | None, Labels, Labels | None]]:
        """Yield them one by one."""
        return zip(self.texts, self.labels, self.options, strict=True)


def list_passages(
    scorer: StringEqualsMcqa,
    samples: Samples,
    completions: Completions,
    scores: Scores,
    *,
    only_told: bool = False,
) -> Passages:
    """Return what there is to read; every row has been scored.

    With `only_told`, option texts are those that the scorer is given; else also those of a column `options`.
    """
    options = scorer.option_texts(samples, only_told=only_told)
    is_told = scorer.options is not None
    return Passages(list_texts(completions), list_labels(scores), options, is_told)


def list_texts(completions: Completions) -> list[str | None]:
    """Return the texts of completions; None for a refusal and for a reply without any."""
    is_said = completions.frame["status"] == CompletionStatus.OK.value
    nothing = pl.Series([None], dtype=pl.String)
    return completions.frame["completion"].zip_with(is_said, nothing).to_list()


def list_labels(scores: Scores) -> list[Labels]:
    """Return the labels of each question that was scored."""
    choices = scores.column("choices")
    if choices is None:
        return []
    return [tuple(labels) for labels in choices.to_list()]


def reread(passages: Passages, names: Sequence[str]) -> dict[str, pl.Series]:
    """Return what each of these rules and extractors reads in each text: a choice, or null."""
    columns: dict[str, pl.Series] = {}
    for name in names:
        choices = [
            None if text is None else read_choice(name, text, labels, options, is_told=passages.is_told)
            for text, labels, options in passages.rows()
        ]
        columns[name] = pl.Series(name, choices, dtype=pl.String)
    return columns


def read_choice(name: str, text: str, labels: Labels, options: Labels | None, *, is_told: bool) -> str | None:
    """Return the choice that a rule or an extractor reads."""
    if name in EXTRACTORS:
        return extract(name, text, labels, fit_options(text, options))
    return read_by_rule(name, text, labels, options if is_told else None).choice


def read_by_rule(name: str, text: str, labels: Labels, options: Labels | None) -> Reading:
    """Return what a rule reads."""
    return find_rule(name).read(text, labels, options)


def extract(name: str, text: str, labels: Labels, options: Labels | None) -> str | None:
    """Return what the extractor of another harness reads."""
    if not EXTRACTORS[name].reads_options:
        options = None
    if len(text) > LONGEST_EXTRACTED:
        return EXTRACTORS[name].read(text, labels, options)
    return _recall_choice(name, text, labels, options)


@lru_cache(maxsize=65_536)
def _recall_choice(name: str, text: str, labels: Labels, options: Labels | None) -> str | None:
    return EXTRACTORS[name].read(text, labels, options)


def fit_options(text: str | None, options: Labels | None) -> Labels | None:
    """Return what an extractor looks for in the text; no option is in a text that is shorter than each."""
    if text is None or not options or measure_options(options) > len(text.lower()):
        return None
    return options


def choose_audited(count: int, most: int = MOST_AUDITED) -> tuple[int, ...]:
    """Return the positions, in order, of at most `most` samples that stand for all `count` of them.

    They are drawn at random, and depend on nothing but the two numbers.
    """
    if count <= most:
        return tuple(range(count))
    draw = random.Random(0)  # noqa: S311 - for repeatability, not for secrets
    return tuple(sorted(draw.sample(range(count), most)))


def find_audited_rows(audited: Sequence[int], stretch: range, size: int) -> list[int]:
    """Return which rows of a stretch of samples, with `size` rows each, belong to audited samples."""
    first, last = bisect_left(audited, stretch.start), bisect_left(audited, stretch.stop)
    starts = [(sample - stretch.start) * size for sample in audited[first:last]]
    return [start + trial for start in starts for trial in range(size)]


def count_readings(
    scorer: Scorer, samples: Samples, completions: Completions, scores: Scores, rows: Sequence[int]
) -> dict[str, Any]:
    """Return how many of these rows each rule reads, and how many rightly: `n`, and by rule two counts.

    `samples` is how many samples the rows are of, `own` what the scorer itself reads, by the rule that
    `own_rule` names. Rows without a score, or kept out of the metrics, are passed over. Empty for scorers
    that read no choices. Where another tool has judged, `theirs` says by which rules and extractors so many
    completions get its verdict of those where it is not ours.
    """
    if not isinstance(scorer, StringEqualsMcqa):
        return {}
    chosen = pl.Series(rows, dtype=pl.UInt32)
    chosen = chosen if scores.are_all_counted else chosen.filter(scores.counted().gather(chosen))
    asked, said = samples.take(chosen), completions.take(chosen)
    verdicts = scores.take(chosen)
    passages = list_passages(scorer, asked, said, verdicts, only_told=True)
    own, truths = verdicts.text("predicted_choice"), verdicts.text("ground_truth_choice")
    others = [name for name in RULE_NAMES if name != scorer.rule_name]
    owners = asked.ids if asked.orders is None else asked.orders["base_sample_id"]
    counts = {
        "n": len(chosen),
        "samples": owners.n_unique(),
        "rules": {
            name: {"correct": int((read == truths).sum()), "invalid": read.null_count()}
            for name, read in {OWN: own, **reread(passages, others)}.items()
        },
        "own_rule": {scorer.rule_name: len(chosen)},
    }
    if "their_score" not in said.frame.columns:
        return counts
    # Who reads as another tool does where its verdict is not ours: who makes right what it calls right.
    theirs, is_right = said.frame["their_score"], (own == truths).fill_null(value=False)
    is_judged = theirs.is_in([0.0, 1.0]).fill_null(value=False)
    differ = (is_judged & ((theirs == 1) != is_right)).arg_true()
    wanted, truth = theirs.gather(differ) == 1, truths.gather(differ)
    found = reread(passages.take(differ.to_list()), (*RULE_NAMES, *EXTRACTORS)) if len(differ) else {}
    agreeing = {
        name: int(((read == truth).fill_null(value=False) == wanted).sum()) for name, read in found.items()
    }
    return {**counts, "theirs": {"n": len(differ), "readers": agreeing}}
