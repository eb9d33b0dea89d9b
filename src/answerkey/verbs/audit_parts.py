"""What is counted of some rows of a run for its audit: plain numbers and first examples, which merge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from answerkey.datasets import Recorded, Rows
from answerkey.metrics.base import count_left_out
from answerkey.metrics.task_counts import count_choices, count_letters, find_invalid_reasons
from answerkey.metrics.trials import find_owners
from answerkey.runs import Table
from answerkey.scorers import StringEqualsMcqa, find_audited_rows
from answerkey.scorers.scoring import FIRST, OWN, RULE_NAMES, STATED, list_passages, list_readers, reread
from answerkey.types import Completions, CompletionStatus, Samples, Scores
from answerkey.verbs.audits import SHOWN

Part = dict[str, Any]

#: How many of the most frequent texts are counted, and how much of each is kept.
TEXTS, TEXT_CHARACTERS = 64, 200

#: So short are texts of a token or two; one of them that is a word is its beginning.
SHORT = 12
_STUB = r"^\p{L}+$"

#: What templates and format strings leave behind when nobody fills them.
_PLACEHOLDER = (
    r"\{\{[^{}]{1,80}\}\}"
    r"|<<\s*config\.[^<>]{1,80}>>"
    r"|(?:^|[\s\"'(:>]|\\n)\{[A-Za-z_][A-Za-z0-9_.]{0,60}\}"
)
_LEAD = re.compile(r"^[^{<]*")


@dataclass(frozen=True)
class AuditedRows:
    """Where the rows of a task lie, and what is to be looked at; small enough to be sent around.

    `quality` is the column that says whether a label can be relied on, with the values that say so. `spots`
    are the positions of the samples that are looked at, in order; None for all.
    """

    scorer_key: str
    scorer: StringEqualsMcqa | None
    rows: Rows
    recorded: Recorded
    scores: Table
    num_trials: int
    columns: frozenset[str] | None
    encoded: frozenset[str] = frozenset()
    quality: tuple[str, frozenset[str]] | None = None
    spots: tuple[int, ...] | None = None


@dataclass(frozen=True)
class _Block:
    """Rows that count: their samples, completions and scores."""

    samples: Samples
    completions: Completions
    scores: Scores

    def take(self, places: pl.Series) -> _Block:
        return _Block(
            self.samples.take(places),
            self.completions.take(places),
            Scores(self.scores.frame[places], self.scores.encoded),
        )


def measure_rows(source: AuditedRows, stretch: tuple[int, int]) -> Part:
    """Return what is counted of some samples, given by the first of them and how many."""
    offset, length = stretch
    size = source.num_trials
    samples = source.rows.slice(offset, length).load(source.columns)
    completions = source.recorded.slice(offset, len(samples)).read(samples)
    stored = source.scores.read(offset * size, len(samples) * size, ["sample_id", source.scorer_key])
    scores = Scores(stored[source.scorer_key].struct.unnest(), source.encoded)
    whole = _Block(samples.repeat(size), completions, scores)
    if source.spots is not None:
        rows = find_audited_rows(source.spots, range(offset, offset + len(samples)), size)
        whole = whole.take(pl.Series(rows, dtype=pl.UInt32))
    counted = whole.scores.counted()
    block = whole if whole.scores.are_all_counted else whole.take(counted.arg_true())
    part = {
        "samples": len(samples),
        "n": len(block.scores),
        "owners": find_owners(block.samples).n_unique(),
        "left_out": dict(count_left_out(whole.scores)),
        "texts": _count_texts(block.completions),
        "cut_off": _count_cut_off(block),
        "prompts": _count_placeholders(block.completions),
        "statuses": dict(block.completions.frame["status"].value_counts().iter_rows()),
    }
    return part if source.scorer is None else part | _measure_readings(source, source.scorer, block)


def _measure_readings(source: AuditedRows, scorer: StringEqualsMcqa, block: _Block) -> Part:
    scores, ids = block.scores, block.samples.ids
    readers = [one for one in list_readers() if one.name != scorer.extraction]
    read = reread(list_passages(scorer, block.samples, block.completions, scores), readers)
    truths, own = _column(scores, "ground_truth_choice"), _column(scores, "predicted_choice")
    table = pl.DataFrame([ids.alias("id"), truths.alias("truth"), own.alias(OWN), *read.values()])
    own_name = scorer.extraction if isinstance(scorer.extraction, str) else ""
    rules = {name: OWN if name == own_name else name for name in RULE_NAMES}
    names = [OWN, *read]
    part = {
        "readers": {name: _compare_readings(table, name) for name in names},
        "flips": _count_flips(table, list(rules.values())),
        "reasons": _count_reasons(block, table, rules[STATED]),
        "disagree": _count_disagreement(table, rules[FIRST], rules[STATED]),
        "letters": count_letters(scores),
        "choice_counts": count_choices(scores),
    }
    return (
        part if source.quality is None else part | _count_clean(block.samples, table, names, source.quality)
    )


def _column(scores: Scores, name: str) -> pl.Series:
    found = scores.column(name)
    return (
        pl.repeat(None, len(scores), dtype=pl.String, eager=True) if found is None else found.cast(pl.String)
    )


def _compare_readings(table: pl.DataFrame, name: str) -> Part:
    right, was_right = pl.col(name).eq_missing(pl.col("truth")), pl.col(OWN).eq_missing(pl.col("truth"))
    shown = {
        "gained": _show(table.filter(right & ~was_right)),
        "lost": _show(table.filter(~right & was_right)),
    }
    counts = table.select(
        correct=right.sum(),
        invalid=pl.col(name).is_null().sum(),
        changes=pl.col(name).ne_missing(pl.col(OWN)).sum(),
        gains=(right & ~was_right).sum(),
        losses=(~right & was_right).sum(),
    )
    return counts.row(0, named=True) | shown


def _count_flips(table: pl.DataFrame, rules: Sequence[str]) -> Part:
    """Count the rows that not all rules read alike."""
    first, *others = [name for name in rules if name in table.columns]
    differs = pl.any_horizontal(
        pl.lit(value=False), *(pl.col(first).ne_missing(pl.col(name)) for name in others)
    )
    return _count(table.filter(differs))


def _count(found: pl.DataFrame) -> Part:
    return {"count": found.height, "examples": _show(found)}


def _show(found: pl.DataFrame) -> list[str]:
    """Return the first samples of some rows, each once however many of its trials are there."""
    return found["id"].unique(maintain_order=True).head(SHOWN).to_list()


def _count_disagreement(table: pl.DataFrame, first: str, stated: str) -> Part:
    """Count the rows whose first character and whose stated answer are two different choices."""
    if stated not in table.columns:
        return {"count": 0, "examples": [], "first_right": 0, "stated_right": 0}
    found = table.filter(pl.col(first) != pl.col(stated))
    return _count(found) | {
        "first_right": found.filter(pl.col(first) == pl.col("truth")).height,
        "stated_right": found.filter(pl.col(stated) == pl.col("truth")).height,
    }


def _count_reasons(block: _Block, table: pl.DataFrame, stated: str) -> Part:
    """Count INVALID rows by reason, and what the text states all the same."""
    said = pl.col(stated) if stated in table.columns else pl.lit(None, dtype=pl.String)
    calls = block.completions.frame["status"]
    rows = table.select(
        "id",
        find_invalid_reasons(block.scores, calls).alias("reason"),
        stated=said.is_not_null(),
        right=said.eq_missing(pl.col("truth")),
        text=block.completions.frame["completion"].str.head(TEXT_CHARACTERS),
    ).drop_nulls("reason")
    groups = rows.group_by("reason", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("stated", "right").sum(),
        pl.col("id", "text").first(),
    )
    return {
        reason: {"count": count, "stated": has, "right": right, "example": [[name, text]]}
        for reason, count, has, right, name, text in groups.iter_rows()
    }


def _count_clean(
    samples: Samples, table: pl.DataFrame, names: Sequence[str], quality: tuple[str, frozenset[str]]
) -> Part:
    column, values = quality
    labels = pl.Series([write_quality(one) for one in samples.values(column)], dtype=pl.String)
    is_clean = labels.is_in(sorted(values))
    clean = table.filter(is_clean)
    return {
        "labels": dict(sorted(labels.value_counts().iter_rows())),
        "clean": {
            "n": clean.height,
            "owners": find_owners(samples).filter(is_clean).n_unique(),
            "readers": {name: _compare_readings(clean, name) for name in names},
        },
    }


def write_quality(value: object) -> str:
    """Return what a label is called, as text in lower case."""
    return "(none)" if value is None else str(value).strip().lower()


def _count_texts(completions: Completions) -> Part:
    """Count the most frequent texts; those with the same beginning and length count as the same."""
    texts = completions.frame.filter(pl.col("status") == CompletionStatus.OK.value).select(
        pl.col("completion").str.head(TEXT_CHARACTERS).alias("text"),
        pl.col("completion").str.len_chars().alias("length"),
    )
    counts = texts.drop_nulls().group_by("text", "length").len().sort("len", "text", descending=[True, False])
    return {f"{length} {text}": count for text, length, count in counts.head(TEXTS).iter_rows()}


def _count_cut_off(block: _Block) -> Part:
    frame = block.completions.frame
    invalid = find_invalid_reasons(block.scores, frame["status"]).is_not_null()
    rows = pl.DataFrame([block.samples.ids.alias("id"), invalid.alias("invalid")]).with_columns(
        is_cut=frame["finish_reason"].eq_missing("length"),
        is_open=frame["completion"].str.contains("<think>", literal=True).fill_null(value=False)
        & ~frame["completion"].str.contains("</think>", literal=True).fill_null(value=False),
    )
    cut = rows.filter(pl.col("is_cut") | pl.col("is_open"))
    texts = frame["completion"].str.strip_chars()
    stubs = rows.filter((invalid & texts.str.contains(_STUB)).fill_null(value=False))
    return _count(cut) | {
        "short": int((texts.str.len_chars() <= SHORT).sum()),
        "stubs": _count(stubs),
        "by_limit": int(rows["is_cut"].sum()),
        "open_thoughts": int(rows["is_open"].sum()),
        "invalid": int(cut["invalid"].sum()),
    }


def _count_placeholders(completions: Completions) -> Part:
    """Count in how many prompts something is left that a template should have filled."""
    prompts = completions.frame["prompt"].drop_nulls()
    found = pl.DataFrame({"row": pl.int_range(len(prompts), eager=True), "found": prompts}).select(
        "row", pl.col("found").str.extract_all(_PLACEHOLDER)
    )
    each = found.explode("found").drop_nulls().unique()["found"]
    counts: dict[str, int] = {}
    for text, count in each.value_counts().iter_rows():
        name = _LEAD.sub("", text)
        counts[name] = counts.get(name, 0) + count
    return {"n": len(prompts), "placeholders": dict(sorted(counts.items(), key=lambda one: -one[1])[:TEXTS])}


def merge_audit_parts(parts: Iterable[Mapping[str, Any]]) -> Part:
    """Return parts, given in dataset order, as one: numbers are added, of lists the first entries stay."""
    merged: Part = {}
    for part in parts:
        for key, leaf in part.items():
            merged[key] = _merge(merged[key], leaf) if key in merged else leaf
    return merged


def _merge(first: Any, second: Any) -> Any:  # noqa: ANN401 - the leaves of a part
    if isinstance(first, dict):
        return merge_audit_parts([first, second])
    return [*first, *second][:SHOWN] if isinstance(first, list) else first + second
