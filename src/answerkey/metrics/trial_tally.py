"""The tally of samples that were asked several times.

`counts`, `failed`, `errors` and `excluded` are of samples, and a sample counts as its worst trial: it is in
error when any call failed, invalid when any completion is, valid when all are. `completion_statuses`,
`invalid`, `letters`, `categories` and `theirs` are of trials. `trials` holds `num_trials` and the `counts` of
trials.

Samples whose options are shown in several orders are counted in the same way: `orders` holds the `counts` of
all their rows, and `left_in_place`: how many samples are shown as they stand in the file, by reason. Rows
that are there only to estimate a prior are not counted, but in `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from answerkey.metrics import tally as single
from answerkey.metrics.failures import count_unscored, measure_failures
from answerkey.metrics.observed import merge_parts, sort_keys
from answerkey.metrics.orders import find_own_rows, find_owners, find_worst_row
from answerkey.metrics.tally import Tally
from answerkey.metrics.theirs import measure_theirs
from answerkey.metrics.trials import SEVERITY, find_worst
from answerkey.types import Completions, CompletionStatus, Samples, Scores, ScoreStatus

OF_SAMPLES = ("counts", "failed", "errors", "excluded")
REFUSED, INVALID = 2, 1


def tally_shard(
    samples: Samples,
    completions: Completions | None,
    verdicts: Mapping[str, Scores],
    *,
    main: str,
    num_trials: int = 1,
) -> Tally:
    """Return the tally of one shard, of the main scorer except for the failures, which are of every one.

    All tables have the same rows, `num_trials` for each sample.
    """
    samples, completions, verdicts, extra = _drop_extra(samples, completions, verdicts)
    scores = verdicts[main]
    category = single.find_category_column(samples.columns)
    tally = single.measure_tally(samples, completions, scores, category)
    tally["failures"] = measure_failures(samples.ids, verdicts, completions)
    tally["unscored"] = count_unscored(find_owners(samples), verdicts)
    tally["theirs"] = measure_theirs(samples.ids, completions, scores)
    if completions is None or (num_trials == 1 and samples.orders is None):
        return tally
    severity = _rank_trials(completions, scores)
    if samples.orders is None:
        worst = find_worst(severity, num_trials)
    else:
        worst = find_worst_row(severity, find_owners(samples))
    of_samples = single.measure_tally(
        samples.take(worst.to_list()),
        Completions(completions.frame[worst]),
        Scores(scores.frame[worst], scores.encoded),
    )
    rows: Tally = {} if num_trials == 1 else {"trials": {"num_trials": num_trials, "counts": tally["counts"]}}
    if samples.orders is not None:
        fixed = samples.take(worst.to_list()).orders
        kept = {} if fixed is None else dict(fixed["left_in_place"].drop_nulls().value_counts().iter_rows())
        rows["orders"] = {"counts": tally["counts"], "left_in_place": kept, "extra": extra}
    return {**tally, **{name: of_samples[name] for name in OF_SAMPLES}, **rows}


def _drop_extra(
    samples: Samples, completions: Completions | None, verdicts: Mapping[str, Scores]
) -> tuple[Samples, Completions | None, Mapping[str, Scores], int]:
    """Return the tables without rows that only estimate a prior, and their number; failed calls stay."""
    own = find_own_rows(samples)
    if own is None:
        return samples, completions, verdicts, 0
    for one in verdicts.values():
        own |= one.frame["status"] == ScoreStatus.ERROR.value
    rows = own.arg_true()
    kept = {key: Scores(one.frame[rows], one.encoded) for key, one in verdicts.items()}
    said = None if completions is None else Completions(completions.frame[rows])
    return samples.take(rows), said, kept, len(own) - len(rows)


def _rank_trials(completions: Completions, scores: Scores) -> pl.Series:
    """Return how bad each trial is; 0 for a valid one."""
    reasons = single.find_invalid_reasons(scores, completions.frame["status"])
    is_refused = reasons == CompletionStatus.REFUSED.value
    invalid = pl.when(is_refused).then(REFUSED).when(reasons.is_not_null()).then(INVALID).otherwise(0)
    status = scores.frame["status"].replace_strict(SEVERITY, default=0)
    return pl.select(pl.max_horizontal(invalid, status)).to_series()


def merge_tallies(tallies: Sequence[Mapping[str, Any]]) -> Tally:
    """Return the tallies of shards, given in dataset order, as one."""
    merged = single.merge_tallies(tallies)
    trials = [tally["trials"] for tally in tallies if "trials" in tally]
    if trials:
        merged["trials"] = {"num_trials": trials[0]["num_trials"], "counts": _add_counts(trials)}
    orders = [tally["orders"] for tally in tallies if "orders" in tally]
    if orders:
        kept = sort_keys(merge_parts(one["left_in_place"] for one in orders))
        extra = sum(one["extra"] for one in orders)
        merged["orders"] = {"counts": _add_counts(orders), "left_in_place": kept, "extra": extra}
    return merged


def _add_counts(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {name: sum(one["counts"][name] for one in found) for name in single.COUNTS}
