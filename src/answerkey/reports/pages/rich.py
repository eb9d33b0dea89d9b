"""Runs, comparisons and audits as a notebook shows them: small fragments that stand alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from answerkey.reports.comparison_text import letter_runs
from answerkey.reports.pages.fragments import (
    Point,
    Reference,
    draw_details,
    draw_findings,
    draw_forest,
    draw_number,
    draw_table,
    draw_text,
    draw_title,
    draw_warning,
    wrap_fragment,
)
from answerkey.reports.pages.overview import describe_run
from answerkey.reports.readings import Reading, list_reading, say_unfit
from answerkey.reports.summary import SIMULATED
from answerkey.runs import Run
from answerkey.text import (
    format_chance,
    format_count,
    format_figure,
    format_interval,
    format_number,
    format_percent,
)
from answerkey.verbs.audits import Audit, TaskAudit
from answerkey.verbs.comparisons import ALPHA, Comparison, PairComparison, TaskComparison

#: A fragment is for a glance; the text below it has the rest.
SHOWN_METRICS, SHOWN_CATEGORIES, SHOWN_PAIRS = 12, 20, 40
EVERYTHING = "As text"

Values = Mapping[str, Any]


def draw_run(run: Run, text: str) -> str:
    """Return a run as HTML; `text` is its whole summary, which opens when asked for."""
    told = describe_run(run, is_brief=True)
    name = str(run.manifest.get("display_name") or run.key)
    parts = [draw_title(name, f"{told['label']}, {told['status']}")]
    parts += [draw_warning(SIMULATED)] if told["simulated"] else []
    parts += [draw_warning(one) for one in told["notices"]]
    parts += [draw_text(_say_gate(one)) for one in told["gates"]]
    for task in told["tasks"]:
        parts += _draw_task(task)
    return wrap_fragment([*parts, draw_details(EVERYTHING, text)])


def _say_gate(gate: Values) -> str:
    word = {True: "✓ PASS", False: "✗ FAIL"}.get(gate["is_pass"], "?")
    return f"{word}  {gate['name']}: {gate['sentence']}"


def _draw_task(task: Values) -> Iterator[str]:
    headline, counts = task["headline"], task["counts"]
    yield draw_title(task["display_name"] or task["key"], f"{task['model']} on {task['dataset']}")
    if headline["value"] is None:
        yield draw_warning(headline["sentence"])
    else:
        value = format_figure(headline["value"], as_share=headline["is_share"])
        interval = _write_interval(headline["interval"], as_share=headline["is_share"])
        yield draw_number(value, f"{headline['name']} {interval}".rstrip())
        yield draw_text(headline["sentence"])
    yield draw_text(
        f"{format_count(counts['samples'], 'sample')} = {counts['scored']} scored + {counts['failed']} failed"
        f" + {counts['errors']} errors; scored = {counts['valid']} valid + {counts['invalid']} invalid"
        f" (refused {counts['refused']})",
        is_dim=True,
    )
    yield draw_findings([(one["sentence"], one["step"]) for one in task["findings"]])
    yield _draw_metrics(task["metrics"])
    yield _draw_rules(task)
    yield _draw_categories(task)
    yield _draw_invalid(task["plots"]["invalid"] or [], counts["scored"])


def _write_interval(interval: Sequence[float] | None, *, as_share: bool) -> str:
    return format_interval(None if interval is None else (interval[0], interval[1]), as_share=as_share)


def _draw_metrics(metrics: Sequence[Values]) -> str:
    """Return the metrics beside the first one, which stands above in large type."""
    rows = [
        (
            one["name"],
            format_figure(one["value"], as_share=one["is_share"]),
            _write_interval(one["interval"], as_share=one["is_share"]),
            str(one["n"]),
        )
        for one in metrics[1 : SHOWN_METRICS + 1]
        if one["value"] is not None
    ]
    return draw_table(("metric", "value", "95 % interval", "n"), rows, "<>>>")


def _write_row(value: float | None, interval: Sequence[float] | None, *, as_share: bool) -> str:
    shown = _write_interval(interval, as_share=as_share)
    return f"{format_figure(value, as_share=as_share)} {shown}".rstrip()


def _draw_rules(task: Values) -> str:
    rows: Sequence[Values] = task["plots"]["rules"] or []
    points = [
        Point(
            one["label"],
            one["value"],
            one["interval"],
            f"{_write_row(one['value'], one['interval'], as_share=True)}, read {one['read']:,}",
            is_own=one["kind"] == "own",
        )
        for one in rows
    ]
    if len(points) <= 1:
        return ""
    reference = _refer(task["headline"]["chance"])
    drawn = draw_forest(points, "Accuracy under each reading rule", reference=reference, is_share=True)
    told = [task["audited"][name] for name in ("sentence", "unfit")]
    return draw_title("Read by") + drawn + "".join(draw_text(one, is_dim=True) for one in told if one)


def _refer(chance: float | None) -> Reference | None:
    return None if chance is None else Reference(chance, f"chance {format_percent(chance)}")


def _draw_categories(task: Values) -> str:
    plot, headline = task["plots"]["categories"], task["headline"]
    if plot is None:
        return ""
    rows = sorted(plot["rows"], key=lambda one: -one["n"])[:SHOWN_CATEGORIES]
    points = [
        Point(
            one["label"],
            one["value"],
            one["interval"],
            _write_row(one["value"], one["interval"], as_share=headline["is_share"]),
        )
        for one in sorted(rows, key=lambda one: one["label"])
    ]
    title = f"{headline['name']} by {plot['column']}"
    drawn = draw_forest(points, title, reference=_refer(headline["chance"]), is_share=headline["is_share"])
    left = len(plot["rows"]) - len(rows)
    return draw_title(title) + drawn + (draw_text(f"and {left} smaller ones", is_dim=True) if left else "")


def _draw_invalid(rows: Sequence[Values], scored: int) -> str:
    cells = [(one["reason"], str(one["count"]), format_percent(one["count"] / scored)) for one in rows]
    return draw_table(("INVALID because", "count", "share of scored"), cells if scored else [], "<>>")


def draw_comparison(comparison: Comparison, text: str) -> str:
    """Return a comparison as HTML: the runs, a forest plot of their differences, the samples that flipped."""
    parts = [draw_warning(notice.message) for notice in comparison.notices]
    for task in comparison.tasks:
        parts += _draw_compared(task, comparison.baseline)
    return wrap_fragment([*parts, draw_details(EVERYTHING, text)])


def _draw_compared(task: TaskComparison, baseline: str | None) -> Iterator[str]:
    as_share = all(run.is_share for run in task.runs)
    letters = letter_runs(task)
    yield draw_title(task.key, f"{len(task.runs)} runs on {format_count(task.samples, 'sample')}")
    rows = [
        (
            letters[run.label],
            run.label + (" (baseline)" if run.label == baseline else ""),
            run.model,
            format_figure(run.mean, as_share=as_share),
            str(run.n),
        )
        for run in task.runs
    ]
    yield draw_table(("", "run", "model", "mean", "n"), rows, "<<<>>")
    pairs = task.pairs[:SHOWN_PAIRS]
    points = [_point_at(pair, letters, as_share=as_share) for pair in pairs]
    yield draw_title("Differences", f"in {'points' if as_share else 'values'}, with 95 % intervals")
    yield draw_forest(points, "Differences between runs", reference=Reference(0.0, "0"), is_share=False)
    yield from (draw_text(_say_pair(pair, letters)) for pair in pairs)
    if len(task.pairs) > len(pairs):
        yield draw_text(f"and {len(task.pairs) - len(pairs)} more", is_dim=True)


def _point_at(pair: PairComparison, letters: Mapping[str, str], *, as_share: bool) -> Point:
    scale = 100 if as_share else 1
    found = pair.difference
    interval = None if found.evidence.interval is None else [scale * end for end in found.evidence.interval]

    def write(value: float) -> str:
        return f"{value:.2f}" if as_share else format_number(value)

    value = scale * found.value
    ends = f" [{write(interval[0])}, {write(interval[1])}]" if interval else ""
    sign = "+" if value > 0 else ""
    name = f"{letters[pair.first]} - {letters[pair.second]}"
    return Point(name, value, interval, f"{sign}{write(value)}{ends}", is_own=pair.is_significant())


def _say_pair(pair: PairComparison, letters: Mapping[str, str]) -> str:
    first, second = letters[pair.first], letters[pair.second]
    better, worse = (first, second) if pair.difference.value > 0 else (second, first)
    chance = f"p {format_chance(pair.p_adjusted)}" if pair.p_adjusted is not None else "no test"
    is_better = pair.is_significant()
    verdict = f"{better} is better than {worse}" if is_better else f"{first} - {second} may be chance"
    word = "right" if pair.difference.flips is not None else "higher"
    flips = f"only {first} is {word} in {len(pair.first_only)}, only {second} in {len(pair.second_only)}"
    return f"{verdict} ({chance}, limit {ALPHA}); {flips}."


def draw_audit(audit: Audit, text: str) -> str:
    """Return an audit as HTML: what stands out, then the same completions under every rule."""
    parts = [draw_warning(notice.message) for notice in audit.notices]
    for task in audit.tasks:
        parts += _draw_audited(task)
    return wrap_fragment([*parts, draw_details(EVERYTHING, text)])


def _draw_audited(task: TaskAudit) -> Iterator[str]:
    by = f"by {task.scorer}, extraction {task.rule}, " if task.scorer else ""
    yield draw_title(task.key, f"{by}{format_count(task.n, 'completion')}")
    if task.findings:
        yield draw_findings([(one.sentence, one.step) for one in task.findings])
    else:
        yield draw_text("Nothing stands out." if task.n else "There was nothing to audit.")
    if task.own is None:
        yield draw_text("No scorer of this task reads choices.", is_dim=True)
        return
    points = [_point_reader(list_reading(one, task)) for one in task.readers]
    yield draw_title("Read by")
    reference = _refer(task.chance)
    yield draw_forest(points, "Accuracy under each rule and lens", reference=reference, is_share=True)
    yield from (draw_text(one, is_dim=True) for one in say_unfit(task))
    rows = [(one.reason, str(one.count), str(one.stated), str(one.right)) for one in task.reasons]
    yield draw_table(("INVALID because", "count", "state an answer", "the right one"), rows, "<>>>")


def _point_reader(one: Reading) -> Point:
    shown = f"{_write_row(one.value, one.interval, as_share=True)}, read {one.read:,}"
    return Point(one.label, one.value, one.interval, shown, is_own=one.kind == "own")
