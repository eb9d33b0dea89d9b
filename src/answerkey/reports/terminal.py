"""A run on a terminal: its numbers, what they rest on, and where it lies; and progress."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from answerkey.reports.view import (
    CallsView,
    Categories,
    MetricView,
    Reason,
    Repeatability,
    RunView,
    TaskView,
    find_example,
    find_neighbour,
    view_run,
)
from answerkey.runs import Run
from answerkey.text import (
    BLANK,
    FRACTION_TYPES,
    GAP,
    INDENT,
    Cell,
    Line,
    Role,
    Span,
    Table,
    draw_facts,
    draw_letter_table,
    draw_text,
    format_count,
    format_error,
    format_figure,
    format_interval,
    format_percent,
    lay_out,
    line,
    make_visible,
    measure_width,
    quote,
    shorten,
    shorten_path,
    wrap,
)
from answerkey.types import Groups, GroupValue

if TYPE_CHECKING:  # showing a run needs nothing that makes one
    from answerkey.evaluate.observer import CallProgress

#: A width for lines that must stay whole: a command is copied as it stands.
UNLIMITED = 10_000
SIMULATED = "SIMULATED: answers made from the key, by no language model"
NO_ACCURACY = "so no accuracy is shown: a share of the rest says nothing about the whole."
MAX_ID, MAX_NAMES, MAX_NOTES, MAX_REASONS, MAX_RUNS = 40, 4, 3, 10, 10
#: Groups or categories at each end, the best and the worst; `-v` shows more of them.
ENDS, VERBOSE_ENDS = 5, 100
#: A warning is due if more recorded completions than this share begin with a thinking block.
THINKING_SHARE = 0.01
#: Reasons for INVALID; `-v` shows all.
MAX_INVALID = 5

Rows = Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a summary is drawn: how wide, how precise, how much; shares only of a complete run."""

    width: int
    digits: int | None
    verbose: bool
    is_complete: bool

    def table(
        self, header: Sequence[str], rows: Rows, align: str, flexible: int | None = None
    ) -> list[Line]:
        """Return a table below a blank line; nothing without rows."""
        if not rows:
            return []
        return [BLANK, *lay_out(Table(header, rows, align, flexible), self.width)]

    def text(self, text: str, role: Role = "plain") -> list[Line]:
        """Return a text in indented lines."""
        return draw_text(text, self.width, role)

    def number(self, value: float | None, *, as_share: bool) -> str:
        """Return a number."""
        return format_figure(value, as_share=as_share, digits=self.digits)

    def interval(self, interval: tuple[float, float] | None, *, as_share: bool = True) -> str:
        """Return an interval; empty when there is none."""
        return format_interval(interval, as_share=as_share, digits=self.digits)


def draw_summary(
    run: Run, width: int, *, verbose: bool = False, digits: int | None = None
) -> list[Line]:
    """Return the summary of a run: the number first and last; `verbose` adds the tables behind it.

    A run that is not complete shows no accuracy.
    """
    view = view_run(run)
    layout = Layout(width, digits, verbose, view.is_complete)
    lines = _draw_head(view, layout)
    for task in view.tasks:
        lines += _draw_task(task, layout)
    if not view.tasks:
        lines += [BLANK, line("  No task of this run is finished.")]
    for calls in view.unfinished.values():
        lines += _draw_calls(calls, layout)
    if any("variant" in task.task.manifest for task in view.tasks):
        from answerkey.comparison.compare import draw_variants

        lines += draw_variants(run, width, digits)
    if view.gates:
        from answerkey.gates.rules import draw_gates

        lines += draw_gates(run, width)
    return [*lines, *_draw_notices(view.notices), *_draw_headlines(view, layout)]


def _draw_head(view: RunView, layout: Layout) -> list[Line]:
    status = Span(view.status, "good" if view.is_complete else "warn")
    lines = [line(Span(view.title, "title"), "  ", status)]
    if view.path is not None:
        lines.append(line(Span("run ", "dim"), shorten_path(view.path)))
    if not view.can_go_on:
        return lines
    if view.stopped:
        lines += draw_text(view.stopped, layout.width, "warn", indent="")
    when = "to go on: "
    if view.status == "running":
        when = "to go on, unless it is still at work: "
    command = f"answerkey resume {shlex.quote(str(view.path))}"
    return [*lines, line(Span(when, "dim"), command)]


def _draw_task(task: TaskView, layout: Layout) -> list[Line]:
    lines = [BLANK, *_draw_facts(task, layout), BLANK]
    if layout.is_complete:
        lines += _draw_numbers(task, layout)
    else:
        lines += layout.text(f"INCOMPLETE: {task.cause}, {NO_ACCURACY}", "warn")
        if task.advice:
            lines += layout.text(task.advice, "warn")
    lines += [BLANK, *_draw_counts(task, layout)]
    if layout.is_complete:
        lines += _draw_votes(task, layout)
    lines += _draw_lost(task, layout)
    if layout.is_complete:
        lines += _draw_groups(task.metrics, layout)
        if task.categories:
            lines += _draw_categories(task.categories, task.metrics, layout)
    if layout.verbose:
        letters = task.task.totals["letters"]
        lines += draw_letter_table(letters, layout.width, with_shares=layout.is_complete)
    return [*lines, *_draw_audit(task, layout), *_draw_calls(task.calls, layout)]


def _draw_votes(task: TaskView, layout: Layout) -> list[Line]:
    """Return how far trials agree, and the accuracy by the two most usual rules."""
    lines: list[Line] = []
    if task.task.manifest.get("trials"):
        from answerkey.run_audit.text import say_votes

        if votes := say_votes(task.task):
            lines += layout.text(f"self-consistency {votes}")
    if task.task.totals.get("readings"):
        from answerkey.run_audit.text import draw_both_rules

        lines += draw_both_rules(task.task, layout.width, layout.digits)
    return lines


def _draw_audit(task: TaskView, layout: Layout) -> list[Line]:
    """Return what other rules read, how another tool judged, what a fallback was asked, and what
    is doubted.
    """
    totals = task.task.totals
    lines: list[Line] = []
    if totals.get("readings") or totals.get("theirs"):
        from answerkey.run_audit.text import draw_imported_verdicts, draw_readings

        if layout.is_complete and layout.verbose:
            lines += draw_readings(task.task, layout.width, layout.digits)
        lines += draw_imported_verdicts(
            task.task, layout.width, layout.digits, with_shares=layout.is_complete
        )
    if layout.is_complete and (totals.get("fallback") or totals.get("doubted")):
        from answerkey.run_audit.text import say_doubted, say_fallbacks

        sentences = say_fallbacks(task.task, layout.digits) + say_doubted(task.task, layout.digits)
        for sentence in sentences:
            lines += [BLANK, *layout.text(sentence)]
    return lines


def _draw_notices(notices: Sequence[str]) -> list[Line]:
    if not notices:
        return []
    lines: list[Line] = [BLANK]
    for notice in notices:
        first, *further = make_visible(notice, keep_lines=True).split("\n")
        lines.append(line(Span("warning", "warn"), f": {first.removeprefix('warning: ')}"))
        lines += map(line, further)
    return lines


def _draw_headlines(view: RunView, layout: Layout) -> list[Line]:
    """Return the number of each task once more, as the last lines: people look there first."""
    lines: list[Line] = []
    for task in view.tasks:
        name = f"{task.key}: " if len(view.tasks) > 1 else ""
        metrics = _list_shown(task.metrics)
        if not view.is_complete:
            lines.append(line(Span(f"{name}INCOMPLETE, no accuracy", "warn")))
        elif metrics:
            first = metrics[0]
            details, right = first.metric.details, ""
            if "of" in details:
                right = f"  {details['count']} of {details['of']} right"
            number = layout.number(first.metric.value, as_share=first.is_share)
            interval = layout.interval(first.metric.interval, as_share=first.is_share)
            text = f"{name}{first.label} {number} {interval}".rstrip()
            lines.append(line(Span(text, "title"), right))
    return [BLANK, *lines] if lines else []


# ── what was evaluated


def _draw_facts(task: TaskView, layout: Layout) -> list[Line]:
    """Return the title of a task, and what was evaluated."""
    facts = _list_answerers(task)
    facts.append(("dataset", _say_dataset(task)))
    manifest = task.task.manifest
    if manifest.get("choice_order"):
        from answerkey.robustness.choice_order import say_order

        if order := say_order(task.task):
            facts.append(("choice order", order))
    if manifest.get("trials"):
        facts.append(("trials", _say_trials(manifest["trials"])))
    if repeated := manifest.get("repeatability"):
        text = f"{repeated['num_runs']} runs; what follows is the first of them"
        facts.append(("repeated", text))
    if layout.verbose:
        config = manifest.get("config") or {}
        values = ", ".join(f"{key}={value!r}" for key, value in config.items())
        facts.append(("config", values or "none"))
        prints = []
        for kind in ("task", "dataset"):
            fingerprint = (manifest.get(kind) or {}).get("fingerprint")
            prints.append(f"{kind} {str(fingerprint or 'none')[:16]}")
        facts.append(("fingerprints", ", ".join(prints)))
    name = ""
    if task.display_name not in {"", task.key}:
        name = f"  {task.display_name}"
    return [line(Span(task.key, "title"), name), *draw_facts(facts, layout.width)]


def _list_answerers(task: TaskView) -> list[tuple[str, Cell]]:
    """Return who answered, who judged, and which replies are old."""
    facts: list[tuple[str, Cell]] = []
    if task.model:
        facts.append(("model", task.model))
        if task.is_simulated:
            facts.append(("", Span(SIMULATED, "warn")))
    else:
        facts.append(("completions", _say_completions(task)))
    facts += [("judge", judge) for judge in task.judges]
    facts += [("fallback", model) for model in task.fallbacks]
    if task.reused:
        facts.append(("replies", Span(task.reused, "warn")))
    return facts


def _say_completions(task: TaskView) -> str:
    recorded = task.completions
    text = "in the dataset"
    if recorded.source == "recorded":
        text = "given in memory"
        if recorded.file:
            text = f"recorded in {shorten_path(recorded.file)}"
            if recorded.model:
                text = f"of {recorded.model}, {text}"
    if recorded.column:
        text += f", column {recorded.column}"
    if recorded.split_thinking:
        text += ", thoughts taken out"
    return text


def _say_dataset(task: TaskView) -> str:
    dataset, used = task.dataset, task.counts["samples"]
    label = dataset.label or "in memory"
    size = format_count(used, "sample")
    if dataset.rows_read not in {None, used}:
        size = f"{used} of {dataset.rows_read} rows"
    if dataset.file:
        file = shorten_path(dataset.file)
        if file != label:
            size = f"{file}, {size}"
    return f"{label} ({size})"


def _say_trials(trials: Mapping[str, object]) -> str:
    """Return how many trials there were, and what stands for them in each score."""
    meanings: dict[str, str] = {}
    for entry in trials["score_aggregators"]:  # type: ignore[attr-defined]  # a list of objects
        function, k = entry["aggregator"]["function"], entry["aggregator"]["k"]
        if k:
            function = function.replace("k", str(k), 1)
        meanings.setdefault(entry["score_name"], function)
    texts = [f"{score} is its {label}" for score, label in meanings.items()]
    return f"{trials['num_trials']} of each sample; {'; '.join(texts) or 'values are their mean'}"


# ── the numbers


def _list_shown(metrics: Iterable[MetricView]) -> list[MetricView]:
    return [metric for metric in metrics if not metric.is_about_order]


def _draw_numbers(task: TaskView, layout: Layout) -> list[Line]:
    """Return the metrics of a task: those that count for the score, then the quality checks."""
    scored: list[MetricView] = []
    checks: list[MetricView] = []
    for view in _list_shown(task.metrics):
        group = scored if view.metric.purpose == "score" else checks
        group.append(view)
    lines = [line("  This task has no metric.")]
    if scored:
        lines = _draw_metrics(task, scored, layout)
    if checks:
        lines += [BLANK, line("  Quality checks (purpose qa), not part of the score")]
        lines += _draw_metrics(task, checks, layout)
    if any(view.is_about_order for view in task.metrics):
        from answerkey.robustness.choice_order import draw_choice_order

        lines += draw_choice_order(task.task, layout.width, layout.digits)
    if task.repeatability:
        lines += _draw_repeatability(task.repeatability, task.metrics, layout)
    return lines


def _draw_metrics(task: TaskView, views: Sequence[MetricView], layout: Layout) -> list[Line]:
    # A single scorer is worth a mention only by the name that the user gave it.
    names = {view.metric.scorer: "" for view in views}
    if len(names) > 1:
        names = {scorer: scorer for scorer in names}
    names |= task.scorer_names
    is_clustered = any(view.metric.details.get("cluster_by") for view in views)
    has_errors = layout.verbose or layout.digits is not None or is_clustered
    rows: list[Sequence[Cell]] = []
    for view in views:
        metric, as_share = view.metric, view.is_share
        error = ""
        if has_errors:
            error = format_error(metric.std_error, as_share=as_share, digits=layout.digits)
        role: Role = "dim" if metric.value is None else "strong"
        rows.append(
            [
                Span(view.label, "strong"),
                Span(layout.number(metric.value, as_share=as_share), role),
                layout.interval(metric.interval, as_share=as_share),
                error,
                str(metric.n),
                Span(names[metric.scorer], "dim"),
            ]
        )
    header = ("", "value", "95 % interval", "std. error", "n", "scorer")
    lines = lay_out(Table(header, rows, "<>>>><", flexible=0), layout.width)
    for note in _list_notes(views):
        lines += layout.text(note, "dim")
    return lines


def _list_notes(views: Sequence[MetricView]) -> list[str]:
    """Return what is to be said of the metrics, each text once, with the metrics it is about."""
    left_out: dict[str, list[str]] = {}
    clustered: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    noted, repeated = [], []
    for view in views:
        metric, label = view.metric, view.label
        counts = [f"{reason} {count}" for reason, count in metric.n_excluded.items() if count]
        if counts:
            left_out.setdefault(", ".join(counts), []).append(label)
        if metric.note:
            noted.append(f"{label}: {metric.note}")
        if metric.value is not None and (text := _say_clusters(metric.details)):
            clustered.setdefault(text, []).append(label)
        if metric.value is not None and metric.interval_note:
            missing.setdefault(metric.interval_note, []).append(label)
        if metric.details.get("counts") in {"trials", "orders"}:
            repeated.append(view)

    def say_which(labels: Sequence[str]) -> str:
        return f" of {_list_some(labels, MAX_NAMES)}" if len(labels) < len(views) else ""

    notes = [f"left out{say_which(labels)}: {text}" for text, labels in left_out.items()]
    notes += noted
    notes += [f"{text}{say_which(labels)}" for text, labels in clustered.items()]
    notes += [f"no interval{say_which(labels)}: {text}" for text, labels in missing.items()]
    if repeated:
        details = repeated[0].metric.details
        unit = f"trial, {details.get('num_trials')} of each sample"
        if details["counts"] == "orders":
            unit = "order of the options"
        labels = _list_some([view.label for view in repeated], MAX_NOTES)
        notes.append(f"counted per {unit}: {labels}")
    return notes


def _say_clusters(details: Mapping[str, object]) -> str:
    column = details.get("cluster_by")
    if not column:
        return ""
    how = "corrected by" if details.get("clusters_corrected") else "without the correction"
    clusters = f"{details.get('clusters')} clusters, {how} C/(C-1)"
    return f"standard error clustered by {column}: {clusters}"


def _list_some(names: Sequence[str], limit: int) -> str:
    text = ", ".join(names[:limit])
    if len(names) > limit:
        text += f" and {len(names) - limit} more"
    return text


def _draw_repeatability(
    repeated: Repeatability, metrics: Sequence[MetricView], layout: Layout
) -> list[Line]:
    """Return how far the metrics, and the scores of single samples, are the same in every run."""
    shares = {view.metric.name: view.is_share for view in metrics}
    rows: list[Sequence[Cell]] = []
    for metric in repeated.metrics:
        as_share = shares.get(metric.name, metric.type in FRACTION_TYPES)
        values = [format_figure(value, as_share=as_share) for value in metric.values]
        if len(values) > MAX_RUNS:
            values[MAX_RUNS:] = ["…"]
        mean = format_figure(metric.mean, as_share=as_share)
        spread = format_figure(metric.std_dev, as_share=as_share)
        rows.append([Span(metric.name, "strong"), Span(mean, "strong"), spread, ", ".join(values)])
    header = (f"Over {repeated.num_runs} runs", "mean", "std. dev.", "values")
    lines = [BLANK, *lay_out(Table(header, rows, "<>><", flexible=3), layout.width)]
    for agreement in repeated.agreement:
        share = f"has {format_percent(agreement.mean_share)} of its runs on average"
        samples = format_count(agreement.samples, "sample")
        every = f"it has all of them in {agreement.unanimous} of {samples}"
        text = f"the most frequent score of a sample {share}; {every}"
        lines.append(line(f"  {agreement.scorer}: {text}"))
    return lines


# ── counts, and what was lost


def _draw_counts(task: TaskView, layout: Layout) -> list[Line]:
    """Return the counts as sums: every sample is somewhere, and it shows."""
    totals = task.task.totals
    lines = _draw_sum(task.counts, "sample", layout)
    if task.row_counts is not None:
        noun = "row" if "orders" in totals else "trial"
        lines.append(line(f"  (a sample counts as its worst {noun})"))
        lines += _draw_sum(task.row_counts, noun, layout)
    for key, count in totals["excluded"].items():
        text = f"{format_count(count, 'scored sample')} kept out by action `{key}`"
        lines.append(line(f"  {text}"))
    warnings = []
    if cut_off := totals.get("cut_off"):
        warnings.append(f"cut off by the token limit: {cut_off}")
    if truncated := totals["invalid"].get("TRUNCATED_THINKING"):
        count = truncated["count"]
        warnings.append(f"end within their thoughts: {count}; raise `max_tokens` of the model")
    thinking = totals.get("thinking", 0)
    if thinking > THINKING_SHARE * (task.row_counts or task.counts)["samples"]:
        warnings.append(f"begin with a thinking block: {thinking}, scored as they are written;")
        warnings.append("`--split-thinking` takes the thoughts out")
    return lines + [line("  ", Span(text, "warn")) for text in warnings]


def _draw_sum(counts: Mapping[str, int], noun: str, layout: Layout) -> list[Line]:
    first = (
        f"{format_count(counts['samples'], noun)} = {counts['scored']} scored"
        f" + {counts['failed']} failed + {counts['errors']} errors;"
    )
    second = (
        f"scored = {counts['valid']} valid + {counts['invalid']} invalid ({say_refusals(counts)})"
    )
    if measure_width(f"{first} {second}") + 2 <= layout.width:
        return [line(f"  {first} {second}")]
    return [line(f"  {first}"), line(f"  {second}")]


def say_refusals(counts: Mapping[str, int]) -> str:
    """Return how many completions the provider refused, and how many decline in words."""
    return f"refused by provider {counts['refused']}, declined {counts['declined']}"


def _draw_lost(task: TaskView, layout: Layout) -> list[Line]:
    """Return INVALID completions and samples without a score by reason, and failed scorers."""
    lines = _draw_invalid(task, layout)
    rows: list[Sequence[Cell]] = []
    for entry in task.unscored:
        samples = ", ".join(entry.samples)
        if entry.count > len(entry.samples):
            samples += f" and {entry.count - len(entry.samples)} more"
        rows.append((entry.kind, entry.reason, str(entry.count), samples))
    lines += layout.table(("No score", "reason", "count", "samples"), rows, "<<><", 3)
    rows = []
    raised: list[Line] = []
    for failures in task.failures:
        for reason in failures.reasons:
            sample = shorten(reason.example.sample_id, MAX_ID)
            if failures.scorer != task.task.main_scorer:  # whose rows stand in the table above
                rows.append((failures.name, reason.name, str(reason.count), sample))
            raised += _draw_traceback(sample, reason.example.traceback or "", layout)
    lines += layout.table(("Failed scorer", "reason", "count", "example"), rows, "<<><", 1)
    return lines + raised


def _draw_invalid(task: TaskView, layout: Layout) -> list[Line]:
    shown = task.invalid if layout.verbose else task.invalid[:MAX_INVALID]
    rows = []
    for reason in shown:
        share = ""
        if layout.is_complete:
            share = format_percent(reason.count / task.num_completions)
        completion = quote(reason.example.completion, layout.width)
        sample = shorten(reason.example.sample_id, MAX_ID)
        rows.append((reason.name, str(reason.count), share, sample, completion))
    header = ("Invalid because", "count", "share", "example", "completion")
    lines = layout.table(header, rows, "<>><<", 4)
    if hidden := task.invalid[len(shown) :]:
        total = sum(reason.count for reason in hidden)
        count = format_count(total, "more INVALID completion")
        reasons = format_count(len(hidden), "other reason")
        lines.append(line(Span(f"  {count} for {reasons}; `-v` shows all", "dim")))
    return lines


def _draw_traceback(sample: str, traceback: str, layout: Layout) -> list[Line]:
    """Return the last place in the user's code, and what was raised there."""
    texts = [text.strip() for text in traceback.strip().splitlines()]
    if not texts:
        return []
    places = [text for text in texts if text.startswith("File ")]
    where = ": ".join([sample, *places[-1:], texts[-1]])
    first, *further = wrap(make_visible(where), layout.width - 2)
    lines = [line("  ", Span(first, "warn"))]
    return lines + [line("    ", Span(text, "warn")) for text in further]


# ── groups and categories


def _cut_middle(rows: list[Sequence[Cell]], layout: Layout) -> list[Sequence[Cell]]:
    """Return the best and the worst rows, with a line about those between them."""
    size = VERBOSE_ENDS if layout.verbose else ENDS
    hidden = len(rows) - 2 * size
    if hidden <= 0:
        return rows
    where = "`--json` has all" if layout.verbose else "`-v` shows them"
    between: list[Cell] = [""] * len(rows[0])
    between[0] = Span(f"… {hidden} more; {where}", "dim")
    return [*rows[:size], between, *rows[-size:]]


def _rank(value: float | None) -> tuple[bool, float]:
    """Return what values are sorted by: the best first, those without a value last."""
    return value is None, -(value or 0.0)


def _draw_groups(metrics: Sequence[MetricView], layout: Layout) -> list[Line]:
    """Return for each column the first metric by group, then averages of all metrics."""
    columns: dict[str, list[tuple[MetricView, Groups]]] = {}
    for view in metrics:
        for groups in view.metric.groups:
            columns.setdefault(groups.column, []).append((view, groups))
    lines: list[Line] = []
    for column, grouped in columns.items():
        view, groups = grouped[0]
        lines += _draw_group_values(view, groups, layout)
        rows = []
        notes = set()
        for view, groups in grouped:
            macro, as_share = groups.macro, view.is_share
            rows.append(
                (
                    view.label,
                    layout.number(view.metric.value, as_share=as_share),
                    layout.number(macro.value, as_share=as_share),
                    layout.interval(macro.interval, as_share=as_share),
                    str(macro.n),
                )
            )
            if macro.value is not None and macro.interval_note:
                notes.add(macro.interval_note)
        header = (f"Averages by {column}", "micro", "macro", "95 % of macro", "groups")
        lines += layout.table(header, rows, "<>>>>", 0)
        for note in sorted(notes):
            lines += layout.text(f"no interval of the macro average: {note}", "dim")
    return lines


def _draw_group_values(view: MetricView, groups: Groups, layout: Layout) -> list[Line]:
    if not groups.values:
        return [BLANK, line(f"  By {groups.column}: {groups.macro.note}")]
    ranked = sorted(groups.values, key=lambda value: _rank(value.value))
    rows: list[Sequence[Cell]] = []
    for value in ranked:
        number = layout.number(value.value, as_share=view.is_share)
        interval = layout.interval(value.interval, as_share=view.is_share)
        rows.append((str(value.group), number, interval, str(value.n)))
    rows = _cut_middle(rows, layout)
    header = (f"By {groups.column}", view.label, "95 % interval", "n")
    lines = layout.table(header, rows, "<>>>", 0)
    shown = {str(row[0]) for row in rows}
    for note, names in _find_missing(ranked, shown).items():
        more = " …" if len(names) > MAX_NOTES else ""
        lines += layout.text(f"{', '.join(names[:MAX_NOTES])}{more}: {note}", "dim")
    return lines


def _find_missing(values: Iterable[GroupValue], shown: set[str]) -> dict[str, list[str]]:
    """Return why groups that are shown have no value or no interval, and which."""
    missing: dict[str, list[str]] = {}
    for value in values:
        note = f"no interval: {value.interval_note}"
        if value.value is None:
            note = value.note or ""
        if value.interval is None and note and str(value.group) in shown:
            missing.setdefault(note, []).append(str(value.group))
    return missing


def _draw_categories(
    categories: Categories, metrics: Sequence[MetricView], layout: Layout
) -> list[Line]:
    """Return the accuracy of each category, the best first, then their mean."""
    rows: list[Sequence[Cell]] = []
    for row in sorted(categories.rows, key=lambda row: _rank(row.value)):
        number = "" if row.value is None else format_percent(row.value, layout.digits)
        ends = layout.interval(row.interval)
        rows.append((row.label, number, ends, str(row.correct), str(row.n)))
    rows = _cut_middle(rows, layout)
    if categories.macro:
        value, interval = categories.macro
        number = format_percent(value, layout.digits)
        numbers = set()
        for view in metrics[:1]:
            numbers.add(layout.number(view.metric.value, as_share=view.is_share))
        if layout.verbose or number not in numbers:
            cells = ("macro average", number, layout.interval(interval), "", "")
            rows.append([Span(cell, "dim") for cell in cells])
    header = (f"By {categories.column}", "accuracy", "95 % interval", "right", categories.unit)
    return layout.table(header, rows, "<>>>>", 0)


# ── calls


def _draw_calls(calls: Sequence[CallsView], layout: Layout) -> list[Line]:
    """Return what a task asked of its models, by purpose."""
    lines: list[Line] = []
    for view in calls:
        kind, _, key = view.purpose.partition(":")
        title = f"Calls of the {kind} {key}" if key else "Calls"
        lines += [BLANK, line(f"  {title}"), *draw_facts(_list_call_facts(view), layout.width)]
        lines += _draw_call_reasons("Failed because", view.errors, layout)
        lines += _draw_call_reasons("Retried because", view.retried, layout)
    return lines


def _list_call_facts(calls: CallsView) -> list[tuple[str, Cell]]:
    made = f"{calls.calls} = {calls.asked} sent + {calls.cached} from the cache"
    prompts, completions = f"{calls.prompt_tokens} prompt", f"{calls.completion_tokens} completion"
    if calls.cached_tokens:
        prompts += f" ({calls.cached_tokens} of them cached)"
    if calls.reasoning_tokens:
        completions += f" ({calls.reasoning_tokens} of them reasoning)"
    facts: list[tuple[str, Cell]] = [
        ("calls", f"{made}; {calls.failed} failed, {calls.retries} retried"),
        ("tokens", f"{prompts} + {completions}"),
    ]
    if calls.cost is not None:
        facts.append(("cost", format_cost(calls.cost)))
    if calls.latency:
        facts.append(("latency", f"p50 {calls.latency.p50:.2f} s, p95 {calls.latency.p95:.2f} s"))
    return facts


def _draw_call_reasons(title: str, reasons: Sequence[Reason], layout: Layout) -> list[Line]:
    rows = []
    for reason in reasons[:MAX_REASONS]:
        sample = shorten(reason.example.sample_id, MAX_ID)
        text = shorten(reason.example.error, layout.width)
        rows.append((reason.name, str(reason.count), sample, text))
    return layout.table((title, "count", "example", "what was said"), rows, "<><<", 3)


def format_cost(cost: float) -> str:
    """Return a sum in USD with two digits, and more for less than a cent."""
    digits = 2 if cost >= 0.01 or not cost else 4  # noqa: PLR2004 - a cent
    return f"about {cost:.{digits}f} USD"


# ── what to do next


def draw_next_steps(run: Run, more: Sequence[tuple[str, str]] = ()) -> list[Line]:
    """Return what to try next, as commands; `more` are commands and their purpose.

    Each works as it stands, but for `compare` where no other run lies beside this one.
    """
    if run.path is None or not run.tasks:
        return []
    folder = shlex.quote(str(run.path))
    steps = [(f"answerkey report {folder}", "all of it as one HTML file")]
    if example := find_example(run):
        sample, kind = example
        command = f"answerkey explain {folder} {shlex.quote(sample)}"
        steps.append((command, f"a sample that is {kind}"))
    steps.append((f"answerkey audit {folder}", "how far the number can be trusted"))
    if run.status == "complete":
        neighbour = find_neighbour(run)
        runs = f"{shlex.quote(neighbour)} {folder}" if neighbour else f"{folder} OTHER_RUN"
        steps.append((f"answerkey compare {runs}", "is the difference real?"))
    return _draw_steps((*steps, *more))


def draw_next_for_several(folder: str) -> list[Line]:
    """Return what to try next with several runs below a folder."""
    name = shlex.quote(folder)
    return _draw_steps(
        [
            (f"answerkey compare {name}", "are the differences real?"),
            (f"answerkey report {name}", "all of it as one HTML file"),
        ]
    )


def _draw_steps(steps: Sequence[tuple[str, str]]) -> list[Line]:
    rows = [(command, Span(f"# {purpose}", "dim")) for command, purpose in steps]
    return [line(Span("Next", "title")), *lay_out(Table(("", ""), rows, "<<"), UNLIMITED)]


# ── progress

#: The two characters of a bar: what is done, and what is left.
BAR, PLAIN_BAR = "━─", "=-"
_BAR_CELLS = _MAX_NAME = 24


def _count_cells(done: int, total: int) -> int:
    return _BAR_CELLS * done // total if total else 0


def draw_bar(name: str, done: int, total: int, *, bar: str = BAR) -> Line:
    """Return a bar with its name and count."""
    full = _count_cells(done, total)
    count = f"{done}/{total}" if total else str(done)
    return line(
        Span(f"{shorten(name, _MAX_NAME)}{GAP}", "title"),
        Span(bar[0] * full, "good"),
        Span(bar[1] * (_BAR_CELLS - full), "dim"),
        f"{GAP}{count}",
    )


def draw_progress(progress: CallProgress, width: int, *, bar: str = BAR) -> list[Line]:
    """Return a bar, then how the calls go, in lines of at most `width` cells."""
    head = draw_bar(_name_progress(progress), progress.done, progress.total, bar=bar)
    taken = sum(measure_width(span.text) for span in head)
    for part in _say_pace(progress):
        taken += len(GAP) + measure_width(part)
        if taken <= width:
            head = (*head, Span(f"{GAP}{part}"))
    lines: list[Line] = [head]
    current: Line = ()
    taken = len(INDENT)
    for fact in _list_progress(progress):
        cells = len(GAP) + measure_width(fact.text)
        if current and taken + cells > width:
            lines.append(current)
            current, taken = (), len(INDENT)
        current = (*current, Span(GAP), fact)
        taken += cells
    lines.append(current)
    if problem := _say_waiting(progress):
        lines.append(line(GAP, Span(shorten(problem, width - len(GAP)), "warn")))
    return lines


def write_progress(progress: CallProgress) -> str:
    """Return the same on one line, for a log."""
    share = f" ({100 * progress.done // progress.total} %)" if progress.total else ""
    texts = [f"{progress.done} of {progress.total}{share}", *_say_pace(progress)]
    texts += [fact.text for fact in _list_progress(progress)]
    if problem := _say_waiting(progress):
        texts.append(make_visible(problem))
    return f"{make_visible(_name_progress(progress))}: {', '.join(texts)}"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far one of several runs is: `done` of `total` calls of its solvers.

    `calls` is the progress of the task that calls a model now; `state` is shown where none does.
    """

    name: str
    done: int
    total: int
    calls: CallProgress | None = None
    state: str = ""
    is_over: bool = False


def draw_runs(runs: Sequence[RunProgress], width: int, *, bar: str = BAR) -> list[Line]:
    """Return a line for each of several runs, and one for all of them."""
    rows: list[Sequence[Cell]] = []
    for run in [*runs, _sum_runs(runs)]:
        full = _count_cells(run.done, run.total)
        cells = bar[0] * full + bar[1] * (_BAR_CELLS - full)
        rows.append(
            [
                Span(shorten(run.name, _MAX_NAME), "title"),
                Span(cells, "good" if run.done else "dim"),
                f"{run.done}/{run.total}" if run.total else "",
                ", ".join(_say_run(run)),
            ]
        )
    return lay_out(Table(("",) * 4, rows, "<<><", flexible=3), width, indent="")


def write_runs(runs: Sequence[RunProgress]) -> list[Line]:
    """Return the same for a log."""
    lines = []
    for run in [*runs, _sum_runs(runs)]:
        texts = [f"{run.done} of {run.total}", *_say_run(run)]
        lines.append(line(make_visible(f"{run.name}: {', '.join(texts)}")))
    return lines


def _sum_runs(runs: Sequence[RunProgress]) -> RunProgress:
    """Return how far all runs are together; the slowest decides how long they take."""
    pace = seconds = 0.0
    for run in runs:
        if run.calls is not None and run.calls.pace:
            pace += run.calls.pace
            seconds = max(seconds, (run.total - run.done) / run.calls.pace)
    texts = []
    if pace:
        texts = [f"{pace:.0f} requests/s", f"{format_duration(seconds)} left"]
    texts.append(f"{sum(run.is_over for run in runs)} of {len(runs)} runs done")
    done, total = sum(run.done for run in runs), sum(run.total for run in runs)
    return RunProgress("total", done, total, state=", ".join(texts))


def _say_run(run: RunProgress) -> list[str]:
    """Return how one of several runs goes, in few words."""
    calls = run.calls
    if run.state or calls is None:
        return [run.state or "waiting"]
    texts = []
    if problem := _say_waiting(calls):
        texts.append(problem)
    texts += _say_pace(calls)
    if calls.accuracy is not None:
        texts.append(f"accuracy {100 * calls.accuracy[0]:.1f} %")
    if calls.failed:
        texts.append(f"failed {calls.failed}")
    if calls.retried:
        texts.append(f"retried {calls.retried}")
    task = calls.task
    if calls.purpose != "solve":
        task = f"{task} {calls.purpose} {calls.done}/{calls.total}"
    return [*texts, task]


def _name_progress(progress: CallProgress) -> str:
    if progress.purpose == "solve":
        return progress.task
    return f"{progress.task} {progress.purpose}"


def _say_pace(progress: CallProgress) -> list[str]:
    if progress.batches:
        texts = []
        for batch in progress.batches:
            text = f"batch {batch.batch} {batch.status} {batch.done}/{batch.total}"
            texts.append(make_visible(text))
        return texts
    if progress.pace is None or progress.done >= progress.total:
        return []
    if not progress.pace:
        return ["waiting"]
    digits = 0 if progress.pace >= 10 else 1  # noqa: PLR2004 - two digits are enough
    texts = [f"{progress.pace:.{digits}f} requests/s"]
    if progress.seconds_left is not None:
        texts.append(f"{format_duration(progress.seconds_left)} left")
    return texts


def _say_waiting(progress: CallProgress) -> str | None:
    """Return why no replies come back, if none do."""
    if progress.pace != 0 or progress.done >= progress.total or not progress.problem:
        return None
    return f"waits because {progress.problem}"


def _list_progress(progress: CallProgress) -> list[Span]:
    facts = []
    if progress.accuracy is not None:
        share, (low, high) = progress.accuracy
        interval = f"[{100 * low:.1f}, {100 * high:.1f}]"
        facts.append(Span(f"accuracy so far {100 * share:.1f} % {interval}", "strong"))
    if progress.invalid_share is not None:
        facts.append(Span(f"INVALID {100 * progress.invalid_share:.1f} %"))
    facts.append(Span(f"failed {progress.failed}", "bad" if progress.failed else "plain"))
    facts.append(Span(f"retried {progress.retried}", "warn" if progress.retried else "plain"))
    prompt, completion = progress.prompt_tokens, progress.completion_tokens
    facts.append(Span(f"tokens {format_large(prompt)} + {format_large(completion)}"))
    if progress.known:
        facts.append(Span(f"known before {progress.known}", "dim"))
    return facts


def format_duration(seconds: float) -> str:
    """Return `0:07`, `12:30` or `3:05:00`."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def format_large(number: int) -> str:
    """Return a number in few digits: `950`, `12.3k`, `4.56M`."""
    if number < 1_000:  # noqa: PLR2004 - as the suffixes say
        return str(number)
    if number < 1_000_000:  # noqa: PLR2004 - same
        return f"{number / 1e3:.1f}k"
    return f"{number / 1e6:.2f}M"
