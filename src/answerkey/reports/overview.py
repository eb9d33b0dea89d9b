"""A run as one page shows it first: the number, what stands behind it, the plots; as plain values.

    run ──► describe_overview ──► headline, counts, metrics, findings, plots ──► page, viewer,
    Markdown
                                                                            └──► draw_plots ──►
                                                                            Vega-Lite

Keys are a contract with the front end: null where something is not known, numbers finite, shares
from 0 to 1.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from answerkey.comparison.compare import compare
from answerkey.errors import AnswerkeyError
from answerkey.gates.rules import WORDS, tell_gates
from answerkey.metrics import wilson
from answerkey.metrics.base import ValueCounts
from answerkey.metrics.classification import Calibration
from answerkey.metrics.task_counts import correct_for_chance, measure_recalls, measure_rstd
from answerkey.reports.explain import count_trials
from answerkey.reports.view import (
    count_rows,
    find_cause,
    label_metric,
    measure_seconds,
    name_scorer,
)
from answerkey.run_audit.audit import audit
from answerkey.run_audit.findings import Tally, TaskAudit, find_format, find_run_findings
from answerkey.run_audit.text import (
    describe_counted,
    describe_whole,
    list_readings,
    say_fallbacks,
    say_unfit,
    say_votes,
)
from answerkey.runs import Run, Table, TaskRun, list_forced, name_answerer
from answerkey.scorers.choice_probabilities import judge_probabilities
from answerkey.text import (
    clean_numbers,
    format_chance,
    format_count,
    format_number,
    format_value,
    is_share,
    say_reused,
)
from answerkey.types import GateStatus, MetricValue, ScoreStatus, Validity

COUNTS = ("samples", "scored", "valid", "invalid", "refused", "failed", "errors")
#: What a gate came to; one that is skipped or not decided neither passes nor fails.
DECIDED = {GateStatus.PASS: True, GateStatus.FAIL: False}
#: So many letters can be chosen from in a list.
MOST_LETTERS = 200
#: Of more completions, so many are read again, drawn at random.
MOST_AUDITED = 20_000

#: More categories than these are no plot; more letters no square that anybody could read.
MOST_CATEGORIES, MOST_SQUARE = 200, 40
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


def describe_overview(
    run: Run,
    *,
    audited: Mapping[str, Audited] | None = None,
    baseline: Run | None = None,
    run_id: str = "r0",
    label: str | None = None,
    is_brief: bool = False,
) -> Plain:
    """Return the overview of a run; one that is not complete has counts and no shares.

    `audited` is what `audit_tasks` says of it; with `is_brief` no completion is read, and what the
    run itself counted has to do. With `baseline`, each task is held against the same task of that
    run.
    """
    differences, uncompared = ({}, []) if baseline is None else _compare_with(run, baseline)
    if is_brief:
        audited = {key: _count_readings(task) for key, task in run.tasks.items()}
    elif audited is None:
        audited = audit_tasks(run)
    described: Plain = clean_numbers(
        {
            "id": run_id,
            "label": label or (run.path.name if run.path else run.key),
            "path": run.path.name if run.path else None,
            "status": run.status,
            "started_at": run.manifest.get("started_at"),
            "seconds": measure_seconds(run),
            "simulated": any(
                (one.manifest.get("model") or {}).get("simulated") for one in run.tasks.values()
            ),
            "notices": [*dict.fromkeys(_list_notices(run, audited)), *uncompared],
            "gates": [
                {
                    "name": name,
                    "is_pass": DECIDED.get(gate.status),
                    "sentence": ("" if gate.status in DECIDED else f"{WORDS[gate.status]}: ")
                    + "; ".join(sentences),
                }
                for gate, name, sentences, _ in tell_gates(run)
            ],
            "tasks": [
                _describe_task(
                    task, audited[key], differences.get(key), is_complete=run.status == "complete"
                )
                for key, task in run.tasks.items()
            ],
        }
    )
    return described


def list_plots(run: Run) -> dict[str, Plot]:
    """Return the plots of a run as Vega-Lite specifications, by name.

    Of several tasks by `task/name`.
    """
    return draw_plots(describe_overview(run)["tasks"])


# ── what is said of the whole run


def _list_notices(run: Run, audited: Mapping[str, Audited]) -> list[str]:
    """Return what of the run is missing and why, its warnings, and what of its tasks is not
    shown.
    """
    found: list[str] = []
    if run.status != "complete":
        why = (run.manifest.get("stopped") or {}).get("message")
        keys = [str(entry["key"]) for entry in run.manifest.get("tasks") or []]
        found += [str(why)] if why else []
        found += [f"task `{key}` is not finished" for key in keys if key not in run.tasks]
    for notice in run.manifest.get("notices") or []:
        # Without its heading, and without the file it is about: a page travels, files do not.
        lines = [line.strip() for line in str(notice).removeprefix("warning: ").split("\n")]
        kept = [line.removeprefix("= help: ") for line in lines if not line.startswith("--> ")]
        found.append("; ".join(line for line in kept if line))
    found += [notice for one in audited.values() for notice in one.notices]
    for task in run.tasks.values():
        if reused := say_reused((task.manifest.get("calls") or {}).values()):
            found.append(f"{task.key}: {reused}" if len(run.tasks) > 1 else reused)
        if task.repetitions:
            times = len(task.repetitions) + 1
            found.append(f"`{task.key}` was run {times} times: what is shown is the first run")
        size = len(task.stored_completions)
        if (
            size > MOST_RELIABILITY
            and not _find_curve(task)
            and _has_logprobs(task.stored_completions)
        ):
            some = f"{MOST_RELIABILITY:,} of {size:,} completions"
            found.append(
                f"the reliability curve of `{task.key}` is of {some}, from all over the run"
            )
        count = len(task.totals.get("categories") or {})
        if count > MOST_CATEGORIES:
            column = task.totals["category_column"]
            found.append(
                f"`{column}` has {count:,} values: the {MOST_CATEGORIES} most frequent are shown"
            )
    return found


def _compare_with(run: Run, baseline: Run) -> tuple[dict[str, Plain], list[str]]:
    """Return by task key how a run differs from its baseline, and what could not be compared."""
    label = baseline.path.name if baseline.path else baseline.key
    try:
        found = compare(run, baseline=baseline)
    except AnswerkeyError as error:
        return {}, [f"not compared with `{label}`: {error.message}"]
    differences = {}
    for task in found.tasks:
        pair, one = task.pairs[0], task.pairs[0].difference
        about = {"label": label, "value": one.second, "difference": one.value}
        differences[task.key] = {**about, "interval": one.evidence.interval, "p": pair.p_adjusted}
    return differences, [notice.message for notice in found.notices]


# ── how completions are read by other rules, and what stands out
# ────────────────────────────────────────────


class Audited(NamedTuple):
    """What is known of how completions are read.

    `sentence` says why not all of them were read again.
    """

    audit: TaskAudit
    sentence: str | None = None
    notices: Sequence[str] = ()
    has_flips: bool = False


def audit_tasks(run: Run) -> dict[str, Audited]:
    """Return what is known of each task: up to 20,000 completions are read, as `answerkey audit`
    does.
    """
    return {key: _audit_task(run, task) for key, task in run.tasks.items()}


def _audit_task(run: Run, task: TaskRun) -> Audited:
    """Return what the audit of a task says; without its files, what the run counted."""
    if "task" not in task.source:  # a run that was put together by hand
        return _count_readings(task)
    try:
        told = audit(run, task=task.key, most=MOST_AUDITED)
    except AnswerkeyError as error:
        # A page travels, so no path is named.
        why = "the dataset or the completions are gone or have changed"
        sentence = (
            f"completions are not read again: {why if error.code == 'E505' else error.message}"
        )
        return _count_readings(task)._replace(sentence=sentence)
    found = told.tasks[0]
    has_flips = bool(found.flips) or (found.drawn_from is not None and found.own is not None)
    return Audited(found, _say_drawn(found), [notice.message for notice in told.notices], has_flips)


def _say_drawn(found: TaskAudit) -> str | None:
    if found.drawn_from is None:
        return None
    extent = f"{found.n:,} of {found.drawn_from:,} completions"
    return f"read again are {extent}, drawn at random; `answerkey audit` reads all"


def _count_readings(task: TaskRun) -> Audited:
    """Return what the run itself counted: some completions by every rule, all of them by its
    own.
    """
    found = describe_counted(task)
    if found is None:
        scored = int(count_rows(task)["scored"])
        return Audited(TaskAudit(task.key, None, None, 0, {}, 1, 0, drawn_from=scored))
    whole = describe_whole(task, str(found.rule))
    tally = Tally()
    for status, count in (task.totals.get("completion_statuses") or {}).items():
        tally.counts["status", status] = count
    findings = (*find_run_findings(whole, tally), *find_format(found))
    has_flips = len({(one.correct, one.invalid) for one in found.readers}) > 1
    return Audited(replace(found, findings=findings), _say_drawn(found), has_flips=has_flips)


# ── one task


def _describe_task(
    task: TaskRun, audited: Audited, baseline: Plain | None, *, is_complete: bool
) -> Plain:
    found, key, count = audited.audit, task.main_scorer, len(task.stored_scores)
    reasons = [
        reason
        for group in ("invalid", "failed", "errors")
        for reason in task.totals.get(group) or {}
    ]
    return {
        "key": task.key,
        "display_name": task.manifest.get("display_name"),
        "model": name_answerer(task.manifest, with_folder=False),
        "forced": list_forced(task.manifest),
        "dataset": name_dataset(task),
        "scorer": None if key is None else _name_scorer(task, key),
        "rule": found.rule if found.scorer == key else None,
        "num_trials": count_trials(task),
        "votes": say_votes(task) if is_complete else None,
        "samples": task.counts["samples"],
        "headline": _describe_headline(
            task, describe_whole(task, "").chance or found.chance, baseline, is_complete=is_complete
        ),
        "counts": {name: task.counts.get(name, 0) for name in COUNTS},
        "metrics": [
            {
                "name": label_metric(task, one),
                "scorer": name_scorer(task, one.scorer),
                "kind": one.type,
                "value": one.value if is_complete else None,
                "interval": one.interval if is_complete else None,
                "n": one.n,
                "left_out": {reason: count for reason, count in one.n_excluded.items() if count},
                "purpose": one.purpose,
                "note": one.note or one.interval_note if is_complete else "the run is not complete",
                "is_share": is_share(one),
            }
            for one in task.metrics.values()
        ],
        # Of a run that is not complete, nothing that rests on its accuracy.
        "findings": [
            {"kind": one.kind, "sentence": one.sentence, "step": one.step, "examples": one.examples}
            for one in found.findings
            if is_complete or "accuracy" not in one.numbers
        ],
        "audited": {
            "n": found.n,
            "of": found.drawn_from or found.n,
            "sentence": audited.sentence,
            "unfit": "; ".join(say_unfit(found)) or None,
        },
        "plots": _describe_plots(task, found, is_complete=is_complete),
        # What there is to choose from in the table of samples.
        "rows": {
            "count": count,
            "embedded": count,
            "sentence": None,
            "categories": sorted(_list_categories(task)),
            "reasons": sorted(set(reasons)),
            "letters": _list_letters(task)[:MOST_LETTERS],
            "has_flips": audited.has_flips,
            "trials": count_trials(task),
        },
    }


def name_dataset(task: TaskRun) -> str:
    """Return what the dataset of a task is called; a file without its folder."""
    dataset: Mapping[str, Any] = task.manifest.get("dataset") or {}
    file = Path(dataset["file"]).name if dataset.get("file") else None
    return str(dataset.get("display_name") or dataset.get("key") or file or "in memory")


def _name_scorer(task: TaskRun, key: str) -> str:
    """Return what a scorer is called, and who judges for it."""
    scorers: Sequence[Mapping[str, Any]] = task.manifest.get("scorers") or []
    model = next((one["model"] for one in scorers if one["key"] == key and one.get("model")), None)
    name = name_scorer(task, key)
    if model is None:
        return name
    how = "with the fallback" if model.get("role") == "fallback" else "judged by"
    return f"{name}, {how} {model['name']}"


# ── the number that a reader wants first


def _describe_headline(
    task: TaskRun, chance: float | None, baseline: Plain | None, *, is_complete: bool
) -> Plain:
    """Return the main metric, and a sentence that says all of it.

    No value unless the run is complete. `chance` is what guessing would get, `right` how many
    samples are right; both are told where the metric is the share of right answers. `note` is what
    the page says besides the numbers.
    """
    metric = task.main_metric
    name = "no metric" if metric is None else label_metric(task, metric)
    if metric is None or not is_complete:
        about: Plain = {"name": name, "n": 0 if metric is None else metric.n}
        about["is_share"] = metric is not None and is_share(metric)
        about |= dict.fromkeys(("value", "interval", "right", "chance", "above_chance", "baseline"))
        why = "so no accuracy is shown: a share of the rest says nothing about the whole."
        sentence = (
            "This task has no metric."
            if metric is None
            else f"INCOMPLETE: {find_cause(task)}, {why}"
        )
        return {**about, "sentence": sentence, "note": sentence}
    is_accuracy, details = task.is_accuracy(metric), metric.details
    chance = chance if is_accuracy else None
    # Of trials and orders, what is counted are completions.
    is_counted = (
        is_accuracy and "counts" not in details and details.get("of") == task.counts["scored"]
    )
    value, as_share = metric.value, is_share(metric)
    said = f"{name} has no value: {metric.note or 'nothing to compute it from'}"
    notes = [f"{said}."] if value is None else []
    if value is not None:
        said = f"{name} is {format_value(metric)}"
        if metric.interval is not None:
            column = details.get("cluster_by")
            notes += [f"The interval is clustered by `{column}`."] if column else []
            ends = _write_ends(metric.interval, as_share=as_share)
            said += f" (95 % interval {ends}{f', clustered by {column}' if column else ''})"
        unit = "sample" if details.get("counts") not in {"trials", "orders"} else "completion"
        said += f" on {format_count(metric.n, unit)}"
    if value is not None and chance is not None:
        level, points = (
            f"chance level of {100 * chance:.2f} %",
            f"{100 * abs(value - chance):.2f} points",
        )
        if metric.interval is None:
            said += f"; the {level} is what guessing would get"
        elif metric.interval[0] > chance:
            said += f", {points} above the {level}"
        elif metric.interval[1] < chance:
            said += f", {points} below the {level}"
        else:
            said += f", not told apart from the {level}"
    if baseline:
        found, ends = float(baseline["difference"]), baseline["interval"]
        number = f"{'+' if found > 0 else ''}{format_number(found)}"
        facts = [f"95 % interval {_write_ends(ends, as_share=as_share)}"] if ends else []
        facts += [f"p {format_chance(baseline['p'])}"] if baseline["p"] is not None else []
        how_sure = f" ({', '.join(facts)})" if facts else ""
        amount = f"{100 * found:+.2f} points" if as_share else number
        said += f". Against {baseline['label']}: {amount}{how_sure}"
    return {
        "name": name,
        "value": value,
        "interval": metric.interval,
        "n": metric.n,
        "right": details["count"] if is_counted else None,
        "is_share": as_share,
        "chance": chance,
        "above_chance": None
        if value is None or chance is None
        else correct_for_chance(value, chance),
        "baseline": baseline,
        "sentence": " ".join([f"{said}.", *say_fallbacks(task)]),
        "note": " ".join([*notes, *say_fallbacks(task)]) or None,
    }


def _write_ends(ends: Sequence[float], *, as_share: bool) -> str:
    low, high = (f"{100 * one:.2f}" if as_share else format_number(one) for one in ends)
    return f"{low} to {high}"


# ── the plots of a task


def _describe_plots(task: TaskRun, audit: TaskAudit, *, is_complete: bool) -> Plain:
    """Return the plots by name: counts of any run, shares of a complete one.

    None with nothing to show.
    """
    totals, letters = task.totals, _list_letters(task)
    found: Letters = totals.get("letters") or {}
    # Each row is a draw of its own, but for trials, and orders, of one sample: these have no
    # interval.
    has_interval = not (totals.get("trials") or totals.get("orders"))
    # INVALID completions by reason, the most frequent first; what they state, where all were read.
    counts = {name: one["count"] for name, one in (totals.get("invalid") or {}).items()}
    read = (
        {}
        if audit.drawn_from is not None
        else {(one.reason, one.count): one for one in audit.reasons}
    )
    reasons = [
        {"reason": name, "count": count, "stated": one and one.stated, "right": one and one.right}
        for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        for one in [read.get((name, count))]
    ]
    square = recalled = None
    if found and len(letters) <= MOST_SQUARE:
        true, predicted = [one for one in letters if one in found], [*letters, INVALID]
        cells = [[found[letter].get(other, 0) for other in predicted] for letter in true]
        square = {"true": true, "predicted": predicted, "counts": cells}
    recalls = measure_recalls(found)
    if is_complete and recalls and len(recalls) <= MOST_SQUARE:
        rows = []
        for letter, value in sorted(recalls.items()):
            n, right = sum(found[letter].values()), found[letter].get(letter, 0)
            interval = wilson(right, n) if has_interval else None
            rows.append({"letter": letter, "value": value, "interval": interval, "n": n})
        recalled = {"rows": rows, "rstd": measure_rstd(list(recalls.values()))}
    return {
        "categories": _describe_categories(task, has_interval=has_interval)
        if is_complete
        else None,
        "invalid": reasons or None,
        "rules": list_readings(task, audit) or None if is_complete else None,
        "letters": square,
        "recalls": recalled,
        "reliability": _describe_reliability(task, has_interval=has_interval)
        if is_complete
        else None,
        **_describe_calls(task.stored_completions),
    }


def _list_categories(task: TaskRun) -> Mapping[str, Mapping[str, int]]:
    """Return the counts by category in the order of their text, those of the most frequent ones."""
    found: Mapping[str, Mapping[str, int]] = task.totals.get("categories") or {}
    largest = sorted(found, key=lambda label: (-found[label]["n"], label))[:MOST_CATEGORIES]
    return {label: found[label] for label in sorted(largest)}


def _describe_categories(task: TaskRun, *, has_interval: bool) -> Plain | None:
    """Return the main metric by group, or the accuracy by category; the best comes first."""
    metric = task.main_metric
    if metric is not None and metric.groups:
        groups = metric.groups[0]
        largest = sorted(groups.values, key=lambda one: -one.n)[:MOST_CATEGORIES]
        rows = [
            {"label": str(one.group), "value": one.value, "interval": one.interval, "n": one.n}
            for one in groups.values
            if one in largest
        ]
        return {"column": groups.column, "rows": sorted(rows, key=_rank_row)} if rows else None
    rows = []
    for label, one in _list_categories(task).items():
        n, correct = one["n"], one["correct"]
        is_share = (
            n > 0 and not one["partial"]
        )  # where answers are right in part, no count says how much
        interval = wilson(correct, n) if is_share and has_interval else None
        value = correct / n if is_share else None
        rows.append({"label": label, "value": value, "interval": interval, "n": n})
    if all(row["value"] is None for row in rows):
        return None
    return {"column": task.totals["category_column"], "rows": sorted(rows, key=_rank_row)}


def _rank_row(row: Plain) -> tuple[bool, float]:
    return row["value"] is None, -(row["value"] or 0.0)


def _list_letters(task: TaskRun) -> list[str]:
    """Return all choices that are true or predicted somewhere, in the order of their text."""
    found: Letters = task.totals.get("letters") or {}
    return sorted({*found, *(letter for row in found.values() for letter in row)} - {INVALID})


# ── reliability: whether a model is right as often as it is sure
# ──────────────────────────────────────────── A task that measures calibration has the curve. Of
# others it is made here, where completions came with log-probabilities and a scorer knows the
# choices: by the likeliest choice, as `choice_probabilities` does.


def _describe_reliability(task: TaskRun, *, has_interval: bool) -> Plain | None:
    """Return confidence and accuracy by bin, and the expected calibration error.

    None without any.
    """
    found = _find_curve(task) or _measure_curve(task)
    if found is None:
        return None
    bins: Sequence[Mapping[str, Any]] = found.details["bins"]  # type: ignore[assignment]  # as the metric wrote it
    rows = []
    for one in bins:
        right = one["n"] * (one["accuracy"] or 0.0)
        # Answers that may be right in part have no interval.
        is_count = has_interval and one["n"] > 0 and abs(right - round(right)) < ROUNDING
        interval = wilson(round(right), one["n"]) if is_count else None
        about = {"low": one["from"], "high": one["to"]}
        about |= {name: one[name] for name in ("confidence", "accuracy")}
        rows.append({**about, "interval": interval, "n": one["n"]})
    return {"bins": rows, "ece": found.value, "ece_bins": len(rows)}


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
            if (
                told is None
                or status != ScoreStatus.SCORED.value
                or excluded is not None
                or not choices
            ):
                continue
            values = judge_probabilities(json.loads(told), choices, truth).values
            if values.get("confidence") is not None:
                pairs[float(str(values["confidence"])), float(str(values["is_correct"]))] += 1
    if not pairs:
        return None
    metric = Calibration(bins=(10,))
    counts = ValueCounts(list(pairs.items()), Counter(), list(metric.fields()))
    return metric.state_values(counts, metric.collect(counts))[0]


def _has_logprobs(kept: Table) -> bool:
    """Return whether completions came with log-probabilities, as the first and the middle ones
    tell.
    """
    blocks = (kept.read(offset, BLOCK, ["logprobs"]) for offset in {0, len(kept) // 2} if len(kept))
    return any(one["logprobs"].count() for one in blocks if "logprobs" in one.columns)


# ── how long completions took, and how many tokens they are
# ─────────────────────────────────────────────────


def _describe_calls(kept: Table) -> Plain:
    """Return `latency` (seconds of calls, without those from the cache) and `tokens`; None if
    unknown.
    """
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
    seconds, prompt, completion = (
        found[name].drop_nulls() for name in ("latency", "prompt", "completion")
    )
    seconds = seconds.filter(seconds.is_finite())
    if len(seconds):
        ends = {
            name: _find_quantile(seconds, share) for name, share in (("p50", 0.5), ("p95", 0.95))
        }
        plots["latency"] = {**ends, "bins": count_bins(seconds)}
    if len(prompt) or len(completion):
        bins = count_bins(completion.cast(pl.Float64), is_whole=True)
        plots["tokens"] = {
            "prompt": int(prompt.sum()),
            "completion": int(completion.sum()),
            "bins": bins,
        }
    return plots


def _find_quantile(values: pl.Series, share: float) -> float:
    return float(str(values.quantile(share, "linear")))


def count_bins(values: pl.Series, *, is_whole: bool = False) -> list[Plain]:
    """Return bars of equal, round width from the smallest value on, each from `low` up to, without,
    `high`.

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
    return (
        [*bars, {"low": last * step, "high": largest, "count": counts[last]}]
        if has_outliers
        else bars
    )


def choose_step(width: float, *, is_whole: bool = False) -> float:
    """Return 1, 2 or 5 times a power of ten, so that about twenty steps make the width."""
    if width <= 0:
        return 1.0 if is_whole else 0.1
    power = 10.0 ** math.floor(math.log10(width / BARS))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * BARS >= width)
    return max(1.0, step) if is_whole else step


# ── Vega-Lite
# Plain JSON with its values in it. Field names are ours; what comes from data is in the values
# alone.

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
MIME_TYPE = "application/vnd.vegalite.v5+json"
#: Okabe and Ito's colours, which people with any colour vision tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
WIDTH, HEIGHT, ROW = 480, 240, 18

Rows = Sequence[Mapping[str, Any]]
#: By field of a mark its title, and perhaps its format.
Told = Mapping[str, str | tuple[str, str]]


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
    told: Told
    dashed = {"strokeDash": [4, 4], "color": GREY}
    if plot := plots["categories"]:
        drawn = _draw_forest(
            plot["rows"], {"color": {"value": BLUE}}, is_share=headline["is_share"]
        )
        if headline["chance"] is not None:
            x = {"datum": headline["chance"], "type": "quantitative"}
            line = {
                "data": {"values": [{}]},
                "mark": {"type": "rule", **dashed},
                "encoding": {"x": x},
            }
            drawn["layer"].insert(0, line)
        yield "categories", {"title": f"{headline['name']} by {plot['column']}", **drawn}
    if plot := plots["invalid"]:
        told = {"reason": "reason", "count": "completions", "stated": "state an answer"}
        axes = {
            "y": _field("reason", "nominal", None, sort="-x"),
            "x": _field("count", "quantitative", "completions"),
        }
        drawn = _draw_bars(plot, ORANGE, axes, {**told, "right": "the right one"})
        yield (
            "invalid",
            {"title": "INVALID completions by reason", "height": {"step": ROW}, **drawn},
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
        axes = {
            "x": _field("letter", "nominal", None, axis={"labelAngle": 0}),
            "y": _share("value", "recall"),
        }
        told = {"letter": "letter", "value": ("recall", ".2%"), "n": "samples"}
        yield "recalls", {"title": "Recall by letter", **_draw_bars(plot["rows"], BLUE, axes, told)}
    if plot := plots["reliability"]:
        curve = {"x": _share("confidence", "confidence"), "y": _share("accuracy", "accuracy")}
        ideal = [{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}]
        told = {
            "confidence": ("confidence", ".1%"),
            "accuracy": ("accuracy", ".1%"),
            "n": "completions",
        }
        points = {"type": "line", "color": BLUE, "point": {"size": 60, "color": BLUE}}
        found = [one for one in plot["bins"] if one["n"]]
        layers = [
            {"data": {"values": ideal}, "mark": {"type": "line", **dashed}, "encoding": curve},
            {"data": {"values": found}, "mark": points, "encoding": {**curve, **_tooltip(told)}},
        ]
        title = f"Right as often as sure? ECE {100 * plot['ece']:.2f} % in {plot['ece_bins']} bins"
        yield "reliability", {"title": title, "width": HEIGHT, "layer": layers}
    titles = {"latency": "Latency: p50 {p50:.2f} s, p95 {p95:.2f} s"}
    titles["tokens"] = "Tokens: {prompt:,} of prompts, {completion:,} of completions"
    for name, axis, colour in (
        ("latency", "seconds", BLUE),
        ("tokens", "tokens of a completion", GREEN),
    ):
        if plot := plots[name]:
            axes = {
                "x": {
                    "field": "low",
                    "bin": {"binned": True},
                    "type": "quantitative",
                    "title": axis,
                },
                "x2": {"field": "high"},
                "y": _field("count", "quantitative", "completions"),
            }
            told = {"low": "from", "high": "to", "count": "completions"}
            drawn = _draw_bars(plot["bins"], colour, axes, told)
            yield name, {"title": titles[name].format_map(plot), **drawn}


def _field(name: str, kind: str, title: str | None, **more: object) -> Plain:
    return {"field": name, "type": kind, "title": title, **more}


def _share(name: str, title: str) -> Plain:
    return _field(name, "quantitative", title, axis={"format": ".0%"}, scale={"domain": [0, 1]})


def _tooltip(fields: Told) -> Plain:
    told = [(name, *([one] if isinstance(one, str) else one)) for name, one in fields.items()]
    return {"tooltip": [dict(zip(("field", "title", "format"), one, strict=False)) for one in told]}


def _draw_bars(rows: Rows, colour: str, axes: Plain, told: Told) -> Plain:
    mark = {"type": "bar", "color": colour}
    return {"data": {"values": rows}, "mark": mark, "encoding": {**axes, **_tooltip(told)}}


def _draw_forest(rows: Rows, encodings: Mapping[str, Any], *, is_share: bool) -> Plain:
    """Return points with their intervals, one row each."""
    form = ".2%" if is_share else ".4~g"
    x = (
        _share("value", "")
        if is_share
        else _field("value", "quantitative", "", scale={"zero": False})
    )
    ends = {"low": ("95 % from", form), "high": ("to", form)}
    told = _tooltip({"label": "label", "value": ("value", form), **ends, "n": "n"})
    y = _field("label", "nominal", None, sort={"field": "value", "order": "descending"})
    line = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, **told}
    point = {"type": "point", "filled": True, "size": 70, "opacity": 1}
    values = [
        {**row, **dict(zip(("low", "high"), row["interval"] or (None, None), strict=True))}
        for row in rows
    ]
    return {
        "height": {"step": ROW},
        "data": {"values": values},
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule"},
                "encoding": line,
            },
            {"mark": point, "encoding": {"x": x, "y": y, **told, **encodings}},
        ],
    }


def _draw_letters(plot: Plain) -> Plain:
    values = [
        {
            "true": true,
            "predicted": predicted,
            "count": count,
            "share": count / sum(row) if sum(row) else 0,
        }
        for true, row in zip(plot["true"], plot["counts"], strict=True)
        for predicted, count in zip(plot["predicted"], row, strict=True)
    ]
    names = {"true": "true", "predicted": "predicted", "count": "completions"}
    told = _tooltip({**names, "share": ("of this truth", ".1%")})
    dark = {"condition": {"test": "datum.share > 0.5", "value": "white"}, "value": "black"}
    shades = {"scheme": "blues", "domain": [0, 1]}
    colour = _field("share", "quantitative", "of this truth", scale=shades)
    return {
        "title": "Letters true against predicted",
        "width": {"step": 44},
        "height": {"step": 32},
        "data": {"values": values},
        "encoding": {
            "y": _field("true", "nominal", "true", sort=plot["true"]),
            "x": _field(
                "predicted", "nominal", "predicted", sort=plot["predicted"], axis={"labelAngle": 0}
            ),
        },
        "layer": [
            {"mark": "rect", "encoding": {"color": colour, **told}},
            {"mark": "text", "encoding": {"text": {"field": "count"}, "color": dark}},
        ],
    }
