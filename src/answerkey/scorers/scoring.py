"""Scoring the rows of a shard; and the audited samples, read by every rule and as other harnesses read."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import polars as pl

from answerkey.reader import EXTRACTORS
from answerkey.scorers.base import Scorer
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.mcqa import StringEqualsMcqa, note_orders
from answerkey.scorers.model_judge import AskingScorer
from answerkey.types import Completions, CompletionStatus, Samples, Scores

#: Why a row that the dataset got wrong has no score.
BAD_ROW = "BAD_ROW"


def score_rows(scorer: Scorer, samples: Samples, completions: Completions, failed: Sequence[int]) -> Scores:
    """Return a scorer's verdicts with these rows FAILED; nobody is asked about a row that is."""
    if not failed or not isinstance(scorer, AskingScorer):
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

#: The rules that need no pattern of the user's.
FIRST, LITERAL, STATED = "first_character", "first_character_literal", "stated_answer"
RULE_NAMES = (FIRST, LITERAL, "leading_label", STATED)
#: So many samples stand for all in a summary; the audit itself reads every one.
MOST_AUDITED = 1_000
#: What the run itself read, among the counts by rule.
OWN = "own"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Reader:
    """A rule or an extractor ("lens"): from a text, its labels and option texts to a label, or None."""

    name: str
    kind: Literal["rule", "lens"]
    read: Callable[[str, Labels, Labels | None], str | None]
    reads_options: bool = False


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


def list_readers(*, extractors: bool = True) -> tuple[Reader, ...]:
    """Return the rules, and the extractors."""
    return (
        *(
            Reader(name, "rule", partial(_read_by_rule, name), find_rule(name).reads_options)
            for name in RULE_NAMES
        ),
        *(Reader(one.name, "lens", one.read, one.reads_options) for one in EXTRACTORS.values() if extractors),
    )


@lru_cache(maxsize=4_096)
def _read_by_rule(name: str, text: str, choices: Labels, options: Labels | None) -> str | None:
    """Return what a rule reads; part after part of a run has the same short texts."""
    return find_rule(name).read(text, choices, options).choice


def list_passages(
    scorer: StringEqualsMcqa, samples: Samples, completions: Completions, scores: Scores
) -> Passages:
    """Return what there is to read; every row has been scored."""
    choices = scores.column("choices")
    options: Sequence[Labels | None] = [None] * len(samples)
    if scorer.options is not None or "options" in samples.columns:
        options = [None if texts is None else tuple(texts) for texts in scorer.sample_facts(samples).options]
    return Passages(
        list_texts(completions.frame["completion"], completions.frame["status"]),
        [] if choices is None else [tuple(names) for names in choices.to_list()],
        options,
        is_told=scorer.options is not None,
    )


def list_texts(texts: pl.Series, calls: pl.Series) -> list[str | None]:
    """Return the texts of completions; None for a refusal and for a reply without any."""
    return texts.zip_with(calls == CompletionStatus.OK.value, pl.Series([None], dtype=pl.String)).to_list()


def reread(passages: Passages, readers: Sequence[Reader]) -> dict[str, pl.Series]:
    """Return what each reader reads in each text: a choice, or null."""
    plain = _code(passages, [None] * len(passages))
    told = plain if all(one is None for one in passages.options) else _code(passages, passages.options)
    found: dict[str, pl.Series] = {}
    for reader in readers:
        is_told = reader.kind == "lens" or passages.is_told
        keys, codes = told if is_told and reader.reads_options else plain
        labels = [None if key[0] is None else reader.read(key[0], *key[1:]) for key in keys]
        found[reader.name] = pl.Series(reader.name, labels, dtype=pl.String).gather(codes)
    return found


def _code(
    passages: Passages, options: Sequence[Labels | None]
) -> tuple[list[tuple[str | None, Labels, Labels | None]], pl.Series]:
    """Return the distinct combinations, and which of them each row has."""
    numbers: dict[tuple[str | None, Labels, Labels | None], int] = {}
    keys = zip(passages.texts, passages.choices, options, strict=True)
    codes = [numbers.setdefault(key, len(numbers)) for key in keys]
    return list(numbers), pl.Series(codes, dtype=pl.UInt32)


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
    that read no choices.
    """
    if not isinstance(scorer, StringEqualsMcqa):
        return {}
    chosen = pl.Series(rows, dtype=pl.UInt32)
    chosen = chosen if scores.are_all_counted else chosen.filter(scores.counted().gather(chosen))
    blank = pl.Series([None] * len(chosen), dtype=pl.String)
    own, truths, choices = (
        blank if (found := scores.column(name)) is None else found.gather(chosen)
        for name in ("predicted_choice", "ground_truth_choice", "choices")
    )
    said = completions.frame
    passages = Passages(
        list_texts(said["completion"].gather(chosen), said["status"].gather(chosen)),
        [tuple(names) for names in choices.to_list()],
        [
            None if texts is None else tuple(texts)
            for texts in scorer.sample_facts(samples.take(chosen)).options
        ]
        if scorer.options
        else [None] * len(chosen),
        is_told=scorer.options is not None,
    )
    others = [reader for reader in list_readers(extractors=False) if reader.name != scorer.extraction]
    counts = {
        name: {"correct": int((read == truths).sum()), "invalid": read.null_count()}
        for name, read in {OWN: own, **reread(passages, others)}.items()
    }
    owners = samples.ids if samples.orders is None else samples.orders["base_sample_id"]
    theirs = said["their_score"].gather(chosen) if "their_score" in said.columns else None
    return {
        "n": len(chosen),
        "samples": owners.gather(chosen).n_unique(),
        "rules": counts,
        "own_rule": {find_rule(scorer.extraction).name: len(chosen)},
        **count_their_readings(passages, own == truths, truths, theirs),
    }


def count_their_readings(
    passages: Passages, is_right: pl.Series, truths: pl.Series, theirs: pl.Series | None
) -> dict[str, Any]:
    """Return who reads as another tool does where its verdict is not ours: `theirs`, with `n` and `readers`.

    A rule or extractor agrees with the tool when it makes right what the tool calls right. Nothing without
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
