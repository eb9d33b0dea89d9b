"""The tally of samples that were asked several times.

`counts`, `failed`, `errors` and `excluded` are of samples, and a sample counts as its worst trial: it is in
error when any call failed, invalid when any completion is, valid when all are. `completion_statuses`,
`invalid`, `letters` and `categories` are of trials. `trials` holds `num_trials` and the `counts` of trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from answerkey.metrics import tally as single
from answerkey.metrics.failures import measure_failures
from answerkey.metrics.tally import Tally
from answerkey.metrics.trials import SEVERITY, find_worst
from answerkey.types import Completions, CompletionStatus, Samples, Scores

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
    scores = verdicts[main]
    category = single.find_category_column(samples.columns)
    tally = single.measure_tally(samples, completions, scores, category)
    tally["failures"] = measure_failures(samples.ids, verdicts, completions)
    if num_trials == 1 or completions is None:
        return tally
    worst = find_worst(_rank_trials(completions, scores), num_trials)
    of_samples = single.measure_tally(
        samples.take(worst.to_list()),
        Completions(completions.frame[worst]),
        Scores(scores.frame[worst], scores.encoded),
    )
    trials = {"num_trials": num_trials, "counts": tally["counts"]}
    return {**tally, **{name: of_samples[name] for name in OF_SAMPLES}, "trials": trials}


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
    found = [tally["trials"] for tally in tallies if "trials" in tally]
    if not found:
        return merged
    counts = {name: sum(one["counts"][name] for one in found) for name in single.COUNTS}
    return {**merged, "trials": {"num_trials": found[0]["num_trials"], "counts": counts}}
