"""The plots of a task: the values that they are drawn from, and the same as Vega-Lite specifications.

task ──► describe_plots ──► values, in the overview of a run ──► the page, or draw_plots ──► Vega-Lite
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from answerkey.metrics import wilson
from answerkey.metrics.base import ValueCounts
from answerkey.metrics.classification import Calibration, measure_recalls, measure_rstd
from answerkey.run_audit.findings import TaskAudit
from answerkey.runs import Table, TaskRun
from answerkey.scorers.choice_probabilities import judge_probabilities
from answerkey.types import MetricValue, ScoreStatus, Validity

#: More categories than these are no plot; more letters no square that anybody could read.
MOST_CATEGORIES, MOST_LETTERS = 200, 40
INVALID = Validity.INVALID.value
#: For the reliability curve, so many completions are read together, and at most so many in all.
BLOCK, MOST_RELIABILITY = 1_024, 20_480
#: A mean times its count is a whole number but for so much.
ROUNDING = 1e-6
#: So many latencies and usages are read together.
READ_TOGETHER = 131_072
#: About so many bars; values beyond the 99th percentile share the last one.
BARS = 20
NEARLY_ALL = 0.99
#: One bar more shows values up to here; beyond, they are outliers.
NEAR = 1.25

Plain = dict[str, Any]
Letters = Mapping[str, Mapping[str, int]]


def describe_plots(task: TaskRun, audit: TaskAudit, readings: Sequence[Plain], *, is_complete: bool) -> Plain:
    """Return the plots by name: counts of any run, shares of a complete one; None with nothing to show."""
    found: Letters = task.totals.get("letters") or {}
    letters, recalls = list_letters(task), measure_recalls(found)
    # INVALID completions by reason, the most frequent first; what they state, where all were read.
    invalid: Mapping[str, Mapping[str, Any]] = task.totals.get("invalid") or {}
    counts = sorted(
        ((name, one["count"]) for name, one in invalid.items()), key=lambda one: (-one[1], one[0])
    )
    read = {} if audit.drawn_from is not None else {(one.reason, one.count): one for one in audit.reasons}
    reasons = [
        {"reason": name, "count": count, "stated": one and one.stated, "right": one and one.right}
        for name, count in counts
        for one in [read.get((name, count))]
    ]
    square = None
    if found and len(letters) <= MOST_LETTERS:
        true, predicted = [one for one in letters if one in found], [*letters, INVALID]
        cells = [[found[letter].get(other, 0) for other in predicted] for letter in true]
        square = {"true": true, "predicted": predicted, "counts": cells}
    recalled = None
    if recalls and len(recalls) <= MOST_LETTERS:
        has_interval = _has_independent_rows(task)
        rows = []
        for letter, value in sorted(recalls.items()):
            n, right = sum(found[letter].values()), found[letter].get(letter, 0)
            interval = wilson(right, n) if has_interval else None
            rows.append({"letter": letter, "value": value, "interval": interval, "n": n})
        recalled = {"rows": rows, "rstd": measure_rstd(list(recalls.values()))}
    return {
        "categories": _describe_categories(task) if is_complete else None,
        "invalid": reasons or None,
        "rules": readings or None if is_complete else None,
        "letters": square,
        "recalls": recalled if is_complete else None,
        "reliability": _describe_reliability(task) if is_complete else None,
        **_describe_calls(task.stored_completions),
    }


def _has_independent_rows(task: TaskRun) -> bool:
    """Return whether each row is a draw of its own; trials, and orders, of one sample are not."""
    return not (task.totals.get("trials") or task.totals.get("orders"))


# ── categories and letters ─────────────────────────────────────────────────────────────────────────────────


def list_categories(task: TaskRun) -> Mapping[str, Mapping[str, int]]:
    """Return the counts by category in the order of their text, those of the most frequent ones."""
    found: Mapping[str, Mapping[str, int]] = task.totals.get("categories") or {}
    largest = sorted(found, key=lambda label: (-found[label]["n"], label))[:MOST_CATEGORIES]
    return {label: found[label] for label in sorted(largest)}


def _describe_categories(task: TaskRun) -> Plain | None:
    """Return the main metric by group, or the accuracy by category."""
    metric = task.main_metric
    if metric is not None and metric.groups:
        groups = metric.groups[0]
        largest = sorted(groups.values, key=lambda one: -one.n)[:MOST_CATEGORIES]
        rows = [
            {"label": str(one.group), "value": one.value, "interval": one.interval, "n": one.n}
            for one in groups.values
            if one in largest
        ]
        return {"column": groups.column, "rows": rows} if rows else None
    has_interval = _has_independent_rows(task)
    rows = []
    for label, one in list_categories(task).items():
        n, correct = one["n"], one["correct"]
        is_share = n > 0 and not one["partial"]  # where answers are right in part, no count says how much
        interval = wilson(correct, n) if is_share and has_interval else None
        rows.append(
            {"label": label, "value": correct / n if is_share else None, "interval": interval, "n": n}
        )
    if all(row["value"] is None for row in rows):
        return None
    return {"column": task.totals["category_column"], "rows": rows}


def list_letters(task: TaskRun) -> list[str]:
    """Return all choices that are true or predicted somewhere, in the order of their text."""
    found: Letters = task.totals.get("letters") or {}
    return sorted({*found, *(letter for row in found.values() for letter in row)} - {INVALID})


# ── reliability: whether a model is right as often as it is sure ────────────────────────────────────────────
# A task that measures calibration has the curve. Of others it is made here, where completions came with
# log-probabilities and a scorer knows the choices: by the likeliest choice, as `choice_probabilities` does.


def _describe_reliability(task: TaskRun) -> Plain | None:
    """Return confidence and accuracy by bin, and the expected calibration error; None without any."""
    found = _find_curve(task) or _measure_curve(task)
    if found is None:
        return None
    has_interval = _has_independent_rows(task)
    bins: Sequence[Mapping[str, Any]] = found.details["bins"]  # type: ignore[assignment]  # as the metric wrote it
    rows = []
    for one in bins:
        right = one["n"] * (one["accuracy"] or 0.0)
        # Answers that may be right in part have no interval.
        is_count = has_interval and one["n"] > 0 and abs(right - round(right)) < ROUNDING
        rows.append(
            {
                "low": one["from"],
                "high": one["to"],
                "confidence": one["confidence"],
                "accuracy": one["accuracy"],
                "interval": wilson(round(right), one["n"]) if is_count else None,
                "n": one["n"],
            }
        )
    return {"bins": rows, "ece": found.value, "ece_bins": len(rows)}


def say_reliability_part(task: TaskRun) -> str | None:
    """Return what to say of a curve that is not of all completions; None where there is no need."""
    count = len(task.stored_completions)
    if count <= MOST_RELIABILITY or _find_curve(task) or not _has_logprobs(task.stored_completions):
        return None
    some = f"{MOST_RELIABILITY:,} of {count:,} completions"
    return f"the reliability curve of `{task.key}` is of {some}, from all over the run"


def _find_curve(task: TaskRun) -> MetricValue | None:
    """Return the calibration that the task itself measures."""
    found = (one for one in task.metrics.values() if one.type == Calibration.type)
    return next((one for one in found if one.value is not None and "bins" in one.details), None)


def _measure_curve(task: TaskRun) -> MetricValue | None:
    """Return the calibration of a task that does not measure it; None where nothing is known.

    Confidence and correctness are those of the likeliest choice, of completions that count.
    """
    key = task.main_scorer
    if key is None or not _has_logprobs(task.stored_completions):
        return None
    # Everywhere, or at equal distances all over the run.
    offsets, most = range(0, len(task.stored_completions), BLOCK), MOST_RELIABILITY // BLOCK
    chosen = (offsets[place * len(offsets) // most] for place in range(most))
    pairs: Counter[tuple[float, float]] = Counter()
    for offset in chosen if len(offsets) > most else offsets:
        verdicts = task.stored_scores.read(offset, BLOCK, [key])[key].struct.unnest()
        metadata = verdicts["metadata"].struct
        if not {"choices", "ground_truth_choice"} <= set(metadata.fields):
            return None
        rows = zip(
            task.stored_completions.read(offset, BLOCK, ["logprobs"])["logprobs"],
            verdicts["status"],
            verdicts["excluded_by"],
            metadata.field("choices").to_list(),
            metadata.field("ground_truth_choice").to_list(),
            strict=True,
        )
        for told, status, excluded, choices, truth in rows:
            if told is None or status != ScoreStatus.SCORED.value or excluded is not None or not choices:
                continue
            values = judge_probabilities(json.loads(told), choices, truth).values
            if values.get("confidence") is not None:
                pairs[float(str(values["confidence"])), float(str(values["is_correct"]))] += 1
    if not pairs:
        return None
    metric = Calibration(bins=(10,))
    part = metric.collect(ValueCounts(list(pairs.items()), Counter(), list(metric.fields())))
    return metric.finish(part)[0]


def _has_logprobs(kept: Table) -> bool:
    """Return whether completions came with log-probabilities, as the first and the middle ones tell."""
    blocks = (kept.read(offset, BLOCK, ["logprobs"]) for offset in {0, len(kept) // 2} if len(kept))
    return any(one["logprobs"].count() for one in blocks if "logprobs" in one.columns)


# ── how long completions took, and how many tokens they are ─────────────────────────────────────────────────


def _describe_calls(kept: Table) -> Plain:
    """Return `latency` (seconds of calls, without those from the cache) and `tokens`; None if unknown."""
    parts = [
        kept.read(offset, READ_TOGETHER, ("latency", "usage", "source")).select(
            pl.when(pl.col("source") != "cache").then("latency").alias("latency"),
            pl.col("usage").struct.field("prompt_tokens").alias("prompt"),
            pl.col("usage").struct.field("completion_tokens").alias("completion"),
        )
        for offset in range(0, len(kept), READ_TOGETHER)
    ]
    plots: Plain = {"latency": None, "tokens": None}
    if not parts:
        return plots
    found = pl.concat(parts)
    seconds, prompt, completion = (found[name].drop_nulls() for name in ("latency", "prompt", "completion"))
    seconds = seconds.filter(seconds.is_finite())
    if len(seconds):
        ends = {name: _find_quantile(seconds, share) for name, share in (("p50", 0.5), ("p95", 0.95))}
        plots["latency"] = {**ends, "bins": count_bins(seconds)}
    if len(prompt) or len(completion):
        bins = count_bins(completion.cast(pl.Float64), is_whole=True)
        plots["tokens"] = {"prompt": int(prompt.sum()), "completion": int(completion.sum()), "bins": bins}
    return plots


def _find_quantile(values: pl.Series, share: float) -> float:
    return float(str(values.quantile(share, "linear")))


def count_bins(values: pl.Series, *, is_whole: bool = False) -> list[Plain]:
    """Return bars of equal, round width from the smallest value on, each from `low` up to, without, `high`.

    Values far beyond the others are in a wider bar of their own, which ends with the largest.
    """
    if not len(values):
        return []
    smallest, largest = float(str(values.min())), float(str(values.max()))
    high = _find_quantile(values, NEARLY_ALL)
    step = choose_step(high - smallest, is_whole=is_whole)
    first, last = math.floor(smallest / step), math.floor(high / step) + 1
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


# ── Vega-Lite ───────────────────────────────────────────────────────────────────────────────────────────────
# Plain JSON with its values in it. Field names are ours; what comes from data is in the values alone.

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
MIME_TYPE = "application/vnd.vegalite.v5+json"
#: Okabe and Ito's colours, which people with any colour vision tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
WIDTH, HEIGHT, ROW = 480, 240, 18

Rows = Sequence[Mapping[str, Any]]


class Plot(dict[str, Any]):
    """A Vega-Lite specification; a notebook that knows them draws it."""

    def _repr_mimebundle_(self, **_: object) -> Plain:
        return {MIME_TYPE: dict(self), "text/plain": f"<plot {self.get('title', '')!r}>"}


def draw_plots(tasks: Rows) -> dict[str, Plot]:
    """Return the plots of a run's overview by name, those of several tasks by `task/name`.

    Only those that show something are there, in the order of the page.
    """
    found: dict[str, Plot] = {}
    for task in tasks:
        about = f"{task['display_name'] or task['key']}, {task['model']}"
        for name, drawn in _draw_task(task["plots"], task["headline"]):
            plot = {"$schema": SCHEMA, "width": WIDTH, "height": HEIGHT, **drawn}
            plot["title"] = {"text": drawn["title"], "subtitle": about, "anchor": "start"}
            plot["config"] = {"view": {"stroke": None}}
            found[name if len(tasks) == 1 else f"{task['key']}/{name}"] = Plot(plot)
    return found


def _draw_task(plots: Plain, headline: Plain) -> Iterator[tuple[str, Plain]]:
    dashed = {"strokeDash": [4, 4], "color": GREY}
    if plot := plots["categories"]:
        drawn = _draw_forest(plot["rows"], {"color": {"value": BLUE}}, is_share=headline["is_share"])
        if headline["chance"] is not None:
            x = {"datum": headline["chance"], "type": "quantitative"}
            line = {"data": {"values": [{}]}, "mark": {"type": "rule", **dashed}, "encoding": {"x": x}}
            drawn["layer"].insert(0, line)
        yield "categories", {"title": f"{headline['name']} by {plot['column']}", **drawn}
    if plot := plots["invalid"]:
        told = _list_tooltips(
            ("reason", "reason"),
            ("count", "completions"),
            ("stated", "state an answer"),
            ("right", "the right one"),
        )
        yield (
            "invalid",
            {
                "title": "INVALID completions by reason",
                "height": {"step": ROW},
                "data": {"values": plot},
                "mark": {"type": "bar", "color": ORANGE},
                "encoding": {
                    "y": _field("reason", "nominal", None, sort="-x"),
                    "x": _field("count", "quantitative", "completions"),
                    "tooltip": told,
                },
            },
        )
    if plot := plots["rules"]:
        kinds, colours = ["own", "rule", "lens"], [ORANGE, BLUE, GREY]
        encodings = {
            "color": _field("kind", "nominal", None, scale={"domain": kinds, "range": colours}),
            "shape": _field("kind", "nominal", None, scale={"domain": kinds}),
        }
        drawn = _draw_forest(plot, encodings, is_share=True)
        yield "rules", {"title": "Accuracy under each reading rule", **drawn}
    if plot := plots["letters"]:
        yield "letters", _draw_letters(plot)
    if plot := plots["recalls"]:
        told = _list_tooltips(("letter", "letter"), ("value", "recall", ".2%"), ("n", "samples"))
        x = _field("letter", "nominal", None, axis={"labelAngle": 0})
        yield (
            "recalls",
            {
                "title": "Recall by letter",
                "data": {"values": plot["rows"]},
                "mark": {"type": "bar", "color": BLUE},
                "encoding": {"x": x, "y": _share("value", "recall"), "tooltip": told},
            },
        )
    if plot := plots["reliability"]:
        told = _list_tooltips(
            ("confidence", "confidence", ".1%"), ("accuracy", "accuracy", ".1%"), ("n", "completions")
        )
        curve = {"x": _share("confidence", "confidence"), "y": _share("accuracy", "accuracy")}
        ideal = [{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}]
        yield (
            "reliability",
            {
                "title": f"Right as often as sure? ECE {100 * plot['ece']:.2f} % in {plot['ece_bins']} bins",
                "width": HEIGHT,
                "layer": [
                    {"data": {"values": ideal}, "mark": {"type": "line", **dashed}, "encoding": curve},
                    {
                        "data": {"values": [one for one in plot["bins"] if one["n"]]},
                        "mark": {"type": "line", "color": BLUE, "point": {"size": 60, "color": BLUE}},
                        "encoding": {**curve, "tooltip": told},
                    },
                ],
            },
        )
    if plot := plots["latency"]:
        title = f"Latency: p50 {plot['p50']:.2f} s, p95 {plot['p95']:.2f} s"
        yield "latency", _draw_histogram(title, plot["bins"], "seconds", BLUE)
    if plot := plots["tokens"]:
        title = f"Tokens: {plot['prompt']:,} of prompts, {plot['completion']:,} of completions"
        yield "tokens", _draw_histogram(title, plot["bins"], "tokens of a completion", GREEN)


def _field(name: str, kind: str, title: str | None, **more: object) -> Plain:
    return {"field": name, "type": kind, "title": title, **more}


def _share(name: str, title: str) -> Plain:
    return _field(name, "quantitative", title, axis={"format": ".0%"}, scale={"domain": [0, 1]})


def _list_tooltips(*fields: tuple[str, str] | tuple[str, str, str]) -> list[Plain]:
    """Return what is told of a mark: field, title and perhaps format of each."""
    return [dict(zip(("field", "title", "format"), one, strict=False)) for one in fields]


def _draw_forest(rows: Rows, encodings: Mapping[str, Any], *, is_share: bool) -> Plain:
    """Return points with their intervals, one row each."""
    form = ".2%" if is_share else ".4~g"
    x = _share("value", "") if is_share else _field("value", "quantitative", "", scale={"zero": False})
    told = _list_tooltips(
        ("label", "label"),
        ("value", "value", form),
        ("low", "95 % from", form),
        ("high", "to", form),
        ("n", "n"),
    )
    y = _field("label", "nominal", None, sort={"field": "value", "order": "descending"})
    ends = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "tooltip": told}
    values = [
        {**row, **dict(zip(("low", "high"), row["interval"] or (None, None), strict=True))} for row in rows
    ]
    return {
        "height": {"step": ROW},
        "data": {"values": values},
        "layer": [
            {"transform": [{"filter": "isValid(datum.low)"}], "mark": {"type": "rule"}, "encoding": ends},
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {"x": x, "y": y, "tooltip": told, **encodings},
            },
        ],
    }


def _draw_letters(plot: Plain) -> Plain:
    values = [
        {"true": true, "predicted": predicted, "count": count, "share": count / sum(row) if sum(row) else 0}
        for true, row in zip(plot["true"], plot["counts"], strict=True)
        for predicted, count in zip(plot["predicted"], row, strict=True)
    ]
    told = _list_tooltips(
        ("true", "true"),
        ("predicted", "predicted"),
        ("count", "completions"),
        ("share", "of this truth", ".1%"),
    )
    dark = {"condition": {"test": "datum.share > 0.5", "value": "white"}, "value": "black"}
    shades = {"scheme": "blues", "domain": [0, 1]}
    return {
        "title": "Letters true against predicted",
        "width": {"step": 44},
        "height": {"step": 32},
        "data": {"values": values},
        "encoding": {
            "y": _field("true", "nominal", "true", sort=plot["true"]),
            "x": _field("predicted", "nominal", "predicted", sort=plot["predicted"], axis={"labelAngle": 0}),
        },
        "layer": [
            {
                "mark": "rect",
                "encoding": {
                    "color": _field("share", "quantitative", "of this truth", scale=shades),
                    "tooltip": told,
                },
            },
            {"mark": "text", "encoding": {"text": {"field": "count"}, "color": dark}},
        ],
    }


def _draw_histogram(title: str, bins: Rows, axis: str, colour: str) -> Plain:
    return {
        "title": title,
        "data": {"values": bins},
        "mark": {"type": "bar", "color": colour},
        "encoding": {
            "x": {"field": "low", "bin": {"binned": True}, "type": "quantitative", "title": axis},
            "x2": {"field": "high"},
            "y": _field("count", "quantitative", "completions"),
            "tooltip": _list_tooltips(("low", "from"), ("high", "to"), ("count", "completions")),
        },
    }
