"""How long completions took and how many tokens they are, as histograms."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from answerkey.runs import Table, TaskRun

READ_TOGETHER = 131_072
COLUMNS = ("latency", "usage", "source")
#: About so many bars; values beyond the 99th percentile share the last one.
BARS = 20
NEARLY_ALL = 0.99
#: One bar more shows values up to here; beyond, they are outliers.
NEAR = 1.25
CACHE = "cache"

Plot = dict[str, Any]


def describe_timing(task: TaskRun) -> Plot:
    """Return `latency` (seconds of calls, without those from the cache) and `tokens`; None if unknown."""
    found = _read(task.stored_completions)
    if found is None:
        return {"latency": None, "tokens": None}
    return {"latency": _describe_latency(found), "tokens": _describe_tokens(found)}


def _read(kept: Table) -> pl.DataFrame | None:
    """Return the numbers of all completions that the run keeps: a few bytes each."""
    parts = [
        kept.read(offset, READ_TOGETHER, COLUMNS).select(
            pl.when(pl.col("source") != CACHE).then("latency").alias("latency"),
            pl.col("usage").struct.field("prompt_tokens").alias("prompt"),
            pl.col("usage").struct.field("completion_tokens").alias("completion"),
        )
        for offset in range(0, len(kept), READ_TOGETHER)
    ]
    return pl.concat(parts) if parts else None


def _describe_latency(found: pl.DataFrame) -> Plot | None:
    seconds = found["latency"].drop_nulls()
    seconds = seconds.filter(seconds.is_finite())
    if not len(seconds):
        return None
    ends = {name: _find_quantile(seconds, share) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return {**ends, "bins": count_bins(seconds)}


def _describe_tokens(found: pl.DataFrame) -> Plot | None:
    prompt, completion = found["prompt"].drop_nulls(), found["completion"].drop_nulls()
    if not len(prompt) and not len(completion):
        return None
    bins = count_bins(completion.cast(pl.Float64), is_whole=True)
    return {"prompt": int(prompt.sum()), "completion": int(completion.sum()), "bins": bins}


def _find_quantile(values: pl.Series, share: float) -> float:
    return float(str(values.quantile(share, "linear")))


def count_bins(values: pl.Series, *, is_whole: bool = False) -> list[Plot]:
    """Return bars of equal, round width from the smallest value on, each from `low` up to, without, `high`.

    Values far beyond the others are in a wider bar of their own, which ends with the largest.
    """
    if not len(values):
        return []
    smallest, largest = float(str(values.min())), float(str(values.max()))
    step = choose_step(_find_quantile(values, NEARLY_ALL) - smallest, is_whole=is_whole)
    first = math.floor(smallest / step)
    last = math.floor(_find_quantile(values, NEARLY_ALL) / step) + 1
    has_outliers = largest > (first + (last - first) * NEAR) * step
    last = last if has_outliers else max(last, math.floor(largest / step) + 1)
    places = (values / step).floor().cast(pl.Int64).clip(first, last if has_outliers else last - 1)
    counts = dict(places.value_counts().iter_rows())
    bars = [
        {"low": place * step, "high": (place + 1) * step, "count": counts.get(place, 0)}
        for place in range(first, last)
    ]
    return [*bars, {"low": last * step, "high": largest, "count": counts[last]}] if has_outliers else bars


def choose_step(width: float, *, is_whole: bool = False) -> float:
    """Return 1, 2 or 5 times a power of ten, so that about twenty steps make the width."""
    if width <= 0:
        return 1.0 if is_whole else 0.1
    power = 10.0 ** math.floor(math.log10(width / BARS))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * BARS >= width)
    return max(1.0, step) if is_whole else step
