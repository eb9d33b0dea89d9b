"""Scoring the rows of a shard; and the audited samples, read by every rule and as other harnesses read."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import polars as pl

from answerkey.reader import EXTRACTORS
from answerkey.scorers.base import Scorer
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.mcqa import StringEqualsMcqa, note_orders
from answerkey.scorers.model_judge import ModelScorer
from answerkey.types import RULE_NAMES, Completions, CompletionStatus, Samples, Scores

#: Why a row that the dataset got wrong has no score.
BAD_ROW = "BAD_ROW"


def score_rows(scorer: Scorer, samples: Samples, completions: Completions, failed: Sequence[int]) -> Scores:
    """Return a scorer's verdicts with these rows FAILED; nobody is asked about a row that is."""
    if not failed or not isinstance(scorer, ModelScorer):
        return note_orders(scorer.score(samples, completions).fail(failed, BAD_ROW), samples)
    left_out = set(failed)
    rows = [row for row in range(len(samples)) if row not in left_out]
    scores = scorer.score(samples.take(rows), completions.take(rows))
    return note_orders(scores.spread(rows, len(samples), BAD_ROW), samples)


def join_scores(completions: Completions, scores: Mapping[str, Scores]) -> pl.DataFrame:
    """Return the stored form of a shard's scores: `sample_id`, `trial`, then one struct per scorer key."""
    tables = [completions.frame.select("sample_id", "trial")]
    tables += [pl.DataFrame([one.frame.to_struct(key)]) for key, one in scores.items()]
    return pl.concat(tables, how="horizontal")


# Audited samples: the same completions read by every rule and by other harnesses' extractors.

FIRST, LITERAL, _, STATED = RULE_NAMES
#: So many samples stand for all in a summary; the audit itself reads every one.
MOST_AUDITED = 1_000
#: What the run itself read, among the counts by rule.
OWN = "own"

Labels = tuple[str, ...]
Passage = tuple[str | None, Labels, Labels | None]


@dataclass(frozen=True)
class Passages:
    """Completions to read: text (None where there is none), labels and option texts of each.

    `is_told` says that the rules are given the option texts, as the scorer's field `options` does; extractors
    see them whenever they are known.
    """

    texts: Sequence[str | None]
    choices: Sequence[Labels]
    options: Sequence[Labels | None]
    is_told: bool = False

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Sequence[int]) -> Passages:
        """Return some of them."""
        return Passages(
            [self.texts[row] for row in rows],
            [self.choices[row] for row in rows],
            [self.options[row] for row in rows],
            self.is_told,
        )


@lru_cache(maxsize=4_096)
def _read_by_rule(name: str, text: str, choices: Labels, options: Labels | None) -> str | None:
    """Return what a rule reads; part after part of a run has the same short texts."""
    return find_rule(name).read(text, choices, options).choice


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
    choices, is_told = scores.column("choices"), scorer.options is not None
    options: Sequence[Labels | None] = [None] * len(samples)
    if is_told or (not only_told and "options" in samples.columns):
        options = [None if texts is None else tuple(texts) for texts in scorer.sample_facts(samples).options]
    return Passages(
        list_texts(completions.frame["completion"], completions.frame["status"]),
        [] if choices is None else [tuple(names) for names in choices.to_list()],
        options,
        is_told,
    )


def list_texts(texts: pl.Series, calls: pl.Series) -> list[str | None]:
    """Return the texts of completions; None for a refusal and for a reply without any."""
    return texts.zip_with(calls == CompletionStatus.OK.value, pl.Series([None], dtype=pl.String)).to_list()


def reread(passages: Passages, names: Sequence[str]) -> dict[str, pl.Series]:
    """Return what each of these rules and extractors reads in each text: a choice, or null."""

    def number(options: Sequence[Labels | None]) -> tuple[list[Passage], pl.Series]:
        """Return the distinct combinations, and which of them each row has."""
        numbers: dict[Passage, int] = {}
        keys = zip(passages.texts, passages.choices, options, strict=True)
        codes = [numbers.setdefault(key, len(numbers)) for key in keys]
        return list(numbers), pl.Series(codes, dtype=pl.UInt32)

    plain = number([None] * len(passages))
    told = plain if all(one is None for one in passages.options) else number(passages.options)
    found: dict[str, pl.Series] = {}
    for name in names:
        extractor = EXTRACTORS.get(name)
        read = partial(_read_by_rule, name) if extractor is None else extractor.read
        is_told = passages.is_told or extractor is not None
        keys, codes = told if is_told and (extractor or find_rule(name)).reads_options else plain
        labels = [None if text is None else read(text, choices, options) for text, choices, options in keys]
        found[name] = pl.Series(name, labels, dtype=pl.String).gather(codes)
    return found


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
    verdicts = Scores(scores.frame[chosen], scores.encoded)
    passages = list_passages(scorer, asked, said, verdicts, only_told=True)
    own, truths = (
        pl.Series([None] * len(chosen), dtype=pl.String) if found is None else found
        for found in (verdicts.column("predicted_choice"), verdicts.column("ground_truth_choice"))
    )
    others = [name for name in RULE_NAMES if name != scorer.extraction]
    owners = asked.ids if asked.orders is None else asked.orders["base_sample_id"]
    counts = {
        "n": len(chosen),
        "samples": owners.n_unique(),
        "rules": {
            name: {"correct": int((read == truths).sum()), "invalid": read.null_count()}
            for name, read in {OWN: own, **reread(passages, others)}.items()
        },
        "own_rule": {find_rule(scorer.extraction).name: len(chosen)},
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
