"""A run on a terminal: its numbers, the counts behind them, and its folder; and progress."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from answerkey.reports.view import (
    CallsView,
    CategoryRow,
    Entry,
    MetricView,
    ReasonView,
    RunView,
    TaskView,
    find_example,
    list_groups,
    view_run,
)
from answerkey.runs import Run
from answerkey.text import (
    BLANK,
    GAP,
    INDENT,
    Cell,
    Cells,
    Line,
    Lines,
    Role,
    Span,
    draw_facts,
    draw_letter_table,
    draw_table,
    draw_text,
    format_count,
    format_figure,
    format_interval,
    format_percent,
    make_visible,
    quote,
    shorten,
    shorten_path,
    wrap,
)
from answerkey.types import Groups, GroupValue, MetricValue

if TYPE_CHECKING:  # showing a run needs nothing that makes one
    from answerkey.evaluate.observer import CallProgress

#: The width of lines that are never cut: commands are copied from the terminal.
UNLIMITED = 10_000
SIMULATED = "SIMULATED: answers made from the key, by no language model"
MAX_NAMES, MAX_REASONS, MAX_RUNS = 4, 10, 10
#: Groups or categories at each end, the best and the worst; `-v` shows more of them.
ENDS, VERBOSE_ENDS = 5, 100
#: A warning is due if more recorded completions than this share begin with a thinking block.
THINKING_SHARE = 0.01

#: What has a value and an interval.
Measured = MetricValue | GroupValue | CategoryRow


class Layout(NamedTuple):
    """How a summary is drawn: how wide, how precise, how much; shares only of a complete run."""

    width: int
    digits: int | None
    verbose: bool
    is_complete: bool

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Cells],
        align: str,
    ) -> Lines:
        """Return a table below a blank line; nothing without rows."""
        if not rows:
            return []
        return [BLANK, *draw_table(header, rows, align, self.width)]

    def text(self, text: str, role: Role = "plain") -> Lines:
        """Return a text in indented lines."""
        return draw_text(text, self.width, role)

    def figure(self, value: float | None, *, as_share: bool) -> str:
        """Return a number as precise as the summary is."""
        return format_figure(value, as_share=as_share, digits=self.digits)

    def figures(
        self,
        entry: Measured,
        *,
        as_share: bool,
    ) -> tuple[str, str]:
        """Return a value and its interval, which is empty where there is none."""
        number = self.figure(entry.value, as_share=as_share)
        interval = format_interval(
            entry.interval,
            as_share=as_share,
            digits=self.digits,
        )
        return number, interval


def draw_summary(
    run: Run,
    width: int,
    *,
    verbose: bool = False,
    digits: int | None = None,
) -> Lines:
    """Return the summary of a run: the number first and last; `verbose` adds the tables behind it.

    A run that is not complete shows no accuracy.
    """
    view = view_run(run)
    layout = Layout(width, digits, verbose, view.is_complete)
    lines = _draw_head(view, layout)
    for task in view.tasks:
        lines += _draw_task(task, layout)
    if not view.tasks:
        lines += [BLANK, "  No task of this run is finished."]
    for calls in view.unfinished.values():
        lines += _draw_calls(calls, layout)
    if any("variant" in task.task.manifest for task in view.tasks):
        from answerkey.comparison.compare import draw_variants

        lines += draw_variants(run, width, digits)
    if view.gates:
        from answerkey.gates.rules import draw_gates

        lines += draw_gates(run, width)
    if view.notices:
        lines += _draw_notices(view.notices)
    return lines + _draw_headlines(view, layout)


def _draw_head(view: RunView, layout: Layout) -> Lines:
    role: Role = "good" if view.is_complete else "warn"
    title = Span(view.title, "title")
    lines: Lines = [(title, "  ", Span(view.status, role))]
    if view.path is not None:
        path = shorten_path(view.path)
        lines.append((Span("run ", "dim"), path))
    if not view.can_resume:
        return lines
    if view.stopped:
        lines += draw_text(
            view.stopped,
            layout.width,
            "warn",
            indent="",
        )
    when = "to continue: "
    if view.status == "running":
        when = "to continue, unless it is still running: "
    command = f"answerkey resume {shlex.quote(str(view.path))}"
    lines.append((Span(when, "dim"), command))
    return lines


def _draw_task(task: TaskView, layout: Layout) -> Lines:
    lines: Lines = [BLANK, *_draw_facts(task, layout), BLANK]
    if layout.is_complete:
        lines += _draw_numbers(task, layout)
    else:
        lines += layout.text(task.incomplete, "warn")
        if task.advice:
            lines += layout.text(task.advice, "warn")
    lines += [BLANK, *_draw_counts(task)]
    if layout.is_complete and task.task.totals["readings"]:
        from answerkey.run_audit.text import draw_both_rules

        lines += draw_both_rules(task.task, layout.width, layout.digits)
    lines += _draw_lost(task, layout)
    if layout.is_complete:
        lines += _draw_groups(task, layout)
    if layout.verbose:
        letters = task.task.totals["letters"]
        lines += draw_letter_table(letters, layout.width, with_shares=layout.is_complete)
    lines += _draw_audit(task, layout)
    if task.calls:
        lines += _draw_calls(task.calls, layout)
    return lines


def _draw_audit(task: TaskView, layout: Layout) -> Lines:
    """Return how another tool judged, what a fallback was asked, and what is doubted."""
    lines: Lines = []
    if not task.task.totals.keys() & {"imported", "fallback", "doubted"}:
        return lines
    from answerkey.run_audit import text as audit

    lines += audit.draw_imported_verdicts(
        task.task,
        layout.width,
        layout.digits,
        with_shares=layout.is_complete,
    )
    if layout.is_complete:
        remarks = audit.describe_fallback_use(task.task, layout.digits)
        remarks += audit.describe_doubted(task.task, layout.digits)
        for sentence in remarks:
            lines += [BLANK, *layout.text(sentence)]
    return lines


def _draw_notices(notices: Sequence[str]) -> Lines:
    lines: Lines = [BLANK]
    for notice in notices:
        first, *further = make_visible(notice, keep_lines=True).split("\n")
        lines.append((Span("warning", "warn"), f": {first.removeprefix('warning: ')}"))
        lines += further
    return lines


def _draw_headlines(view: RunView, layout: Layout) -> Lines:
    """Return the number of each task again, as the last lines, where people look first."""
    lines: Lines = [BLANK]
    for task in view.tasks:
        name = f"{task.key}: " if len(view.tasks) > 1 else ""
        if not view.is_complete:
            lines.append(Span(f"{name}INCOMPLETE, no accuracy", "warn"))
            continue
        for entry in task.metrics:
            if entry.is_about_order:
                continue
            details = entry.metric.details
            right = ""
            if "of" in details:
                right = f"  {details['count']} of {details['of']} right"
            number, interval = layout.figures(entry.metric, as_share=entry.is_share)
            text = f"{name}{entry.label} {number} {interval}".rstrip()
            lines.append((Span(text, "title"), right))
            break
    return lines if len(lines) > 1 else []


# ── what was evaluated


def _draw_facts(task: TaskView, layout: Layout) -> Lines:
    """Return the title of a task, and what was evaluated."""
    facts = _list_answerers(task)
    facts.append(("dataset", f"{task.dataset} ({_format_size(task)})"))
    manifest = task.task.manifest
    if manifest.get("choice_order"):
        from answerkey.robustness.choice_order import describe_order

        if order := describe_order(task.task):
            facts.append(("choice order", order))
    if manifest.get("trials"):
        facts.append(("trials", _describe_trials(manifest["trials"])))
    if repeated := manifest.get("repeatability"):
        text = f"{repeated['num_runs']} runs; what follows is the first of them"
        facts.append(("repeated", text))
    if layout.verbose:
        values = []
        for key, value in manifest["config"].items():
            values.append(f"{key}={value!r}")
        facts.append(("config", ", ".join(values) or "none"))
    name = ""
    if task.display_name not in {"", task.key}:
        name = f"  {task.display_name}"
    title = (Span(task.key, "title"), name)
    return [title, *draw_facts(facts, layout.width)]


def _list_answerers(task: TaskView) -> list[tuple[str, Cell]]:
    """Return who answered, who judged, and which replies are old."""
    facts: list[tuple[str, Cell]] = []
    if task.model:
        facts.append(("model", task.model))
        if task.is_simulated:
            facts.append(("", Span(SIMULATED, "warn")))
    else:
        facts.append(("completions", _describe_completions(task)))
    facts += task.helpers
    if task.reused:
        facts.append(("replies", Span(task.reused, "warn")))
    return facts


def _describe_completions(task: TaskView) -> str:
    recorded = task.task.manifest["completions"]
    text = "in the dataset"
    if recorded["file"]:
        text = f"recorded in {shorten_path(recorded['file'])}"
    elif recorded["source"] == "recorded":
        text = "given in memory"
    if recorded.get("model"):
        text = f"of {recorded['model']}, {text}"
    if recorded["column"]:
        text += f", column {recorded['column']}"
    if recorded.get("split_thinking"):
        text += ", thoughts taken out"
    return text


def _format_size(task: TaskView) -> str:
    dataset = task.task.manifest["dataset"]
    used = task.counts["samples"]
    size = format_count(used, "sample")
    if dataset["rows_read"] != used:
        size = f"{used} of {dataset['rows_read']} rows"
    if dataset["file"]:
        size = f"{shorten_path(dataset['file'])}, {size}"
    return size


def _describe_trials(trials: Entry) -> str:
    """Return how many trials there were, and how each score combines them."""
    meanings: dict[str, str] = {}
    for entry in trials["score_aggregators"]:
        name = entry["score_name"]
        aggregator = entry["aggregator"]
        k = str(aggregator["k"] or "k")
        function = aggregator["function"].replace("k", k, 1)
        meanings.setdefault(name, f"{name} is its {function}")
    meaning = "; ".join(meanings.values()) or "values are their mean"
    return f"{trials['num_trials']} of each sample; {meaning}"


# ── the numbers


def _draw_numbers(task: TaskView, layout: Layout) -> Lines:
    """Return the metrics of a task: those that count for the score, then the quality checks."""
    scored: list[MetricView] = []
    checks: list[MetricView] = []
    about_order = []
    for view in task.metrics:
        if view.is_about_order:
            about_order.append(view)
        elif view.metric.purpose == "score":
            scored.append(view)
        else:
            checks.append(view)
    lines: Lines = ["  This task has no metric."]
    if scored:
        lines = _draw_metrics(task, scored, layout)
    if checks:
        lines += [BLANK, "  Quality checks (purpose qa), not part of the score"]
        lines += _draw_metrics(task, checks, layout)
    if about_order:
        from answerkey.robustness.choice_order import draw_choice_order

        lines += draw_choice_order(task.task, layout.width, layout.digits)
    if task.task.repeatability:
        lines += _draw_repeatability(task.task.repeatability, task.metrics, layout)
    return lines


def _draw_metrics(
    task: TaskView,
    views: Sequence[MetricView],
    layout: Layout,
) -> Lines:
    scorers = {view.metric.scorer for view in views}
    is_clustered = any(view.metric.details.get("cluster_by") for view in views)
    has_errors = layout.verbose or layout.digits is not None or is_clustered
    rows: list[Cells] = []
    for view in views:
        metric = view.metric
        role: Role = "dim" if metric.value is None else "strong"
        number, interval = layout.figures(metric, as_share=view.is_share)
        error = ""
        if has_errors and metric.std_error is not None:
            error = layout.figure(metric.std_error, as_share=view.is_share)
        # A single scorer is worth a mention only by the name that the user gave it.
        key = metric.scorer if len(scorers) > 1 else ""
        scorer = task.scorer_names.get(metric.scorer, key)
        cells = (
            Span(view.label, "strong"),
            Span(number, role),
            interval,
            error,
            str(metric.n),
            Span(scorer, "dim"),
        )
        rows.append(cells)
    header = ("", "value", "95 % interval", "std. error", "n", "scorer")
    lines = draw_table(header, rows, "~>>>><", layout.width)
    return lines + _draw_notes(views, layout)


def _draw_notes(views: Sequence[MetricView], layout: Layout) -> Lines:
    """Return the notes on metrics, each once."""
    lines: Lines = []
    notes: dict[str, list[str]] = {}
    for view in views:
        for text in _list_notes(view.metric):
            notes.setdefault(text, []).append(view.label)
    for text, labels in notes.items():
        which = ""
        if len(labels) < len(views):
            shown = ", ".join(labels[:MAX_NAMES])
            which = f" ({shown} …)" if len(labels) > MAX_NAMES else f" ({shown})"
        lines += layout.text(f"{text}{which}", "dim")
    return lines


def _list_notes(metric: MetricValue) -> Iterator[str]:
    """Yield the notes on a metric."""
    details = metric.details
    counts = []
    for reason, count in metric.n_excluded.items():
        if count:
            counts.append(f"{reason} {count}")
    if counts:
        yield f"left out: {', '.join(counts)}"
    if metric.note:
        yield metric.note
    if metric.value is not None:
        if details.get("cluster_by"):
            clusters = f"{details.get('clusters')} clusters, corrected by C/(C-1)"
            yield f"standard error clustered by {details['cluster_by']}: {clusters}"
        if metric.interval_note:
            yield f"no interval: {metric.interval_note}"
    if details.get("counts") == "trials":
        yield f"counted per trial, {details.get('num_trials')} of each sample"
    if details.get("counts") == "orders":
        yield "counted per order of the options"


def _draw_repeatability(
    repeated: Entry,
    metrics: Sequence[MetricView],
    layout: Layout,
) -> Lines:
    """Return how far the metrics, and the scores of single samples, are the same in every run."""
    shares = {view.metric.name: view.is_share for view in metrics}
    rows: list[Cells] = []
    for metric in repeated["metrics"]:
        name = metric["name"]
        figure = partial(layout.figure, as_share=shares.get(name, False))
        cells = (
            Span(name, "strong"),
            figure(metric["mean"]),
            figure(metric["std_dev"]),
            ", ".join(map(figure, metric["values"][:MAX_RUNS])),
        )
        rows.append(cells)
    header = (f"Over {repeated['num_runs']} runs", "mean", "std. dev.", "values")
    lines = layout.table(header, rows, "<>>~")
    for scorer, agreement in repeated["agreement"].items():
        if agreement["samples"]:
            share = format_percent(agreement["mean_share"])
            samples = format_count(agreement["samples"], "sample")
            text = (
                f"{scorer}: the most frequent score of a sample has {share} of its runs on average;"
                f" it has all of them in {agreement['unanimous']} of {samples}"
            )
            lines += layout.text(text)
    return lines


# ── counts, and what was lost


def _draw_counts(task: TaskView) -> Lines:
    """Return the counts as sums: every sample is somewhere, and it shows."""
    totals = task.task.totals
    texts = [*format_counts(task.counts, "sample")]
    if task.row_counts is not None:
        noun = "row" if "orders" in totals else "trial"
        texts.append(f"(a sample counts as its worst {noun})")
        texts += format_counts(task.row_counts, noun)
    for key, count in totals["excluded"].items():
        texts.append(f"{format_count(count, 'scored sample')} kept out by action `{key}`")
    warnings = []
    if cut_off := totals["cut_off"]:
        warnings.append(f"cut off by the token limit: {cut_off}")
    if truncated := totals["invalid"].get("TRUNCATED_THINKING"):
        count = truncated["count"]
        warnings.append(f"end within their thoughts: {count}; raise `max_tokens` of the model")
    thinking = totals.get("thinking", 0)
    rows = task.row_counts or task.counts
    if thinking > THINKING_SHARE * rows["samples"]:
        warnings.append(f"begin with a thinking block: {thinking}, scored as they are written;")
        warnings.append("`--split-thinking` takes the thoughts out")
    lines: Lines = [f"  {text}" for text in texts]
    for warning in warnings:
        lines.append(("  ", Span(warning, "warn")))
    return lines


def format_counts(counts: Mapping[str, int], noun: str) -> tuple[str, str]:
    """Return the counts as two sums: every sample is somewhere."""
    samples = format_count(counts["samples"], noun)
    parts = f"{counts['scored']} scored + {counts['failed']} failed + {counts['errors']} errors"
    refusals = f"refused by provider {counts['refused']}, declined {counts['declined']}"
    valid = f"{counts['valid']} valid + {counts['invalid']} invalid ({refusals})"
    return f"{samples} = {parts}", f"scored = {valid}"


def _draw_lost(task: TaskView, layout: Layout) -> Lines:
    """Return INVALID completions and samples without a score by reason, and failed scorers."""
    lines = _draw_invalid(task, layout)
    columns = ("reason", "count", "example")
    rows: list[Cells] = []
    for reason in task.failed:
        rows.append(("failed", *reason.cells))
    for reason in task.errors:
        rows.append(("errors", *reason.cells))
    lines += layout.table(("No score", *columns), rows, "<~><")
    rows = []
    raised: Lines = []
    for scorer, reasons in task.failures.items():
        name = task.scorer_names.get(scorer, scorer)
        for reason in reasons:
            if scorer != task.task.main_scorer:  # whose rows stand in the table above
                rows.append((name, *reason.cells))
            raised += _draw_traceback(reason, layout)
    lines += layout.table(("Failed scorer", *columns), rows, "<~><")
    return lines + raised


def _draw_invalid(task: TaskView, layout: Layout) -> Lines:
    rows = []
    scored = (task.row_counts or task.counts)["scored"]
    for reason in task.invalid:
        name, count, sample = reason.cells
        share = format_percent(reason.count / scored) if layout.is_complete else ""
        completion = quote(reason.example.get("completion"), layout.width)
        rows.append((name, count, share, sample, completion))
    header = ("Invalid because", "count", "share", "example", "completion")
    return layout.table(header, rows, "<>><~")


def _draw_traceback(reason: ReasonView, layout: Layout) -> Lines:
    """Return the last place in the user's code, and what was raised there."""
    traceback = reason.example.get("traceback") or ""
    texts = [text.strip() for text in traceback.strip().splitlines()]
    if not texts:
        return []
    where = reason.cells[-1]
    places = [text for text in texts if text.startswith("File ")]
    if places:
        where = f"{where}: {places[-1]}"
    where = f"{where}: {texts[-1]}"
    lines: Lines = []
    indent = "  "
    for part in wrap(make_visible(where), layout.width - 2):
        lines.append((indent, Span(part, "warn")))
        indent = "    "
    return lines


# ── groups and categories


def _draw_groups(task: TaskView, layout: Layout) -> Lines:
    """Return for each column the first metric by group, with averages of all; or the accuracy by
    category.
    """
    lines: Lines = []
    if task.categories:
        macro = None
        if task.categories.macro:
            macro = CategoryRow("macro average", None, 0, *task.categories.macro)
        column = task.categories.column
        rows = task.categories.rows
        lines += _draw_values(column, "accuracy", rows, layout, macro=macro)
    columns: dict[str, list[tuple[MetricView, Groups]]] = {}
    for view in task.metrics:
        for groups in view.metric.groups:
            grouped = columns.setdefault(groups.column, [])
            grouped.append((view, groups))
    for column, grouped in columns.items():
        view, groups = grouped[0]
        rows = list_groups(groups)
        lines += _draw_values(
            column,
            view.label,
            rows,
            layout,
            as_share=view.is_share,
        )
        lines += _draw_averages(column, grouped, layout)
    return lines


def _draw_averages(
    column: str,
    grouped: Sequence[tuple[MetricView, Groups]],
    layout: Layout,
) -> Lines:
    rows = []
    for view, groups in grouped:
        macro, interval = layout.figures(groups.macro, as_share=view.is_share)
        cells = (
            view.label,
            layout.figure(view.metric.value, as_share=view.is_share),
            macro,
            interval,
            str(groups.macro.n),
        )
        rows.append(cells)
    header = (f"Averages by {column}", "micro", "macro", "95 % of macro", "groups")
    lines = layout.table(header, rows, "~>>>>")
    if groups.macro.note:
        lines += layout.text(groups.macro.note, "dim")
    return lines


def _draw_values(
    column: str,
    label: str,
    values: Sequence[CategoryRow],
    layout: Layout,
    *,
    as_share: bool = True,
    macro: CategoryRow | None = None,
) -> Lines:
    """Return the best and the worst of a column, with a line about those between them."""
    rows: list[Cells] = []
    ordered = sorted(values, key=lambda row: -(row.value or 0.0))
    ordered.sort(key=lambda row: row.value is None)
    for row in ordered:
        number, interval = layout.figures(row, as_share=as_share)
        cells = (
            row.label,
            number,
            interval,
            "" if row.correct is None else str(row.correct),
            str(row.n),
        )
        rows.append(cells)
    size = VERBOSE_ENDS if layout.verbose else ENDS
    hidden = len(rows) - 2 * size
    if hidden > 0:
        where = "`--json` has all" if layout.verbose else "`-v` shows more"
        gap = Span(f"… {hidden} more; {where}", "dim")
        rows[size:-size] = [(gap, "", "", "", "")]
    if macro is not None:
        number, interval = layout.figures(macro, as_share=True)
        cells = (macro.label, number, interval, "", "")
        rows.append([Span(cell, "dim") for cell in cells])
    header = (f"By {column}", label, "95 % interval", "right", "n")
    return layout.table(header, rows, "~>>>>")


# ── calls


def _draw_calls(calls: Sequence[CallsView], layout: Layout) -> Lines:
    """Return the calls of a task, by purpose."""
    lines: Lines = []
    for view in calls:
        kind, _, key = view.purpose.partition(":")
        title = f"Calls of the {kind} {key}" if key else "Calls"
        lines += [BLANK, f"  {title}"]
        lines += draw_facts(_list_call_facts(view).items(), layout.width)
        lines += _draw_call_reasons("Failed because", view.errors, layout)
        lines += _draw_call_reasons("Retried because", view.retried, layout)
    return lines


def _list_call_facts(calls: CallsView) -> dict[str, str]:
    made = f"{calls.calls} = {calls.asked} sent + {calls.cached} from the cache"
    prompts = f"{calls.prompt_tokens} prompt"
    completions = f"{calls.completion_tokens} completion"
    if calls.cached_tokens:
        prompts += f" ({calls.cached_tokens} of them cached)"
    if calls.reasoning_tokens:
        completions += f" ({calls.reasoning_tokens} of them reasoning)"
    facts = {
        "calls": f"{made}; {calls.failed} failed, {calls.retries} retried",
        "tokens": f"{prompts} + {completions}",
    }
    if calls.cost is not None:
        facts["cost"] = format_cost(calls.cost)
    if calls.latency:
        median = calls.latency["p50"]
        slow = calls.latency["p95"]
        facts["latency"] = f"p50 {median:.2f} s, p95 {slow:.2f} s"
    return facts


def _draw_call_reasons(
    title: str,
    reasons: Sequence[ReasonView],
    layout: Layout,
) -> Lines:
    rows = []
    for reason in reasons[:MAX_REASONS]:
        message = reason.example.get("error", "")
        rows.append((*reason.cells, shorten(message, layout.width)))
    header = (title, "count", "example", "message")
    return layout.table(header, rows, "<><~")


def format_cost(cost: float) -> str:
    """Return a sum in USD with two digits, and more for less than a cent."""
    digits = 2 if cost >= 0.01 or not cost else 4  # noqa: PLR2004 - a cent
    return f"about {cost:.{digits}f} USD"


# ── what to do next


def draw_next_steps(run: Run) -> Lines:
    """Return the commands to try next.

    Each works as it stands, but for `compare`, which needs another run.
    """
    if run.path is None or not run.tasks:
        return []
    folder = shlex.quote(str(run.path))
    steps = [(f"answerkey report {folder}", "all of it as one HTML file")]
    if example := find_example(run):
        sample, purpose = example
        steps.append((f"answerkey explain {folder} {shlex.quote(sample)}", purpose))
    steps.append((f"answerkey audit {folder}", "how far the number can be trusted"))
    if run.status == "complete":
        steps.append((f"answerkey compare {folder} OTHER_RUN", "is the difference real?"))
    return _draw_steps(steps)


def draw_next_for_several(folder: str) -> Lines:
    """Return what to try next with several runs below a folder."""
    name = shlex.quote(folder)
    return _draw_steps(
        [
            (f"answerkey compare {name}", "are the differences real?"),
            (f"answerkey report {name}", "all of it as one HTML file"),
        ]
    )


def _draw_steps(steps: Sequence[tuple[str, str]]) -> Lines:
    rows = []
    for command, purpose in steps:
        rows.append((command, Span(f"# {purpose}", "dim")))
    lines: Lines = [Span("Next", "title")]
    lines += draw_table(("", ""), rows, "<<", UNLIMITED)
    return lines


# ── progress

#: The two characters of a bar: what is done, and what is left.
BAR, PLAIN_BAR = "━─", "=-"
_BAR_CELLS = _MAX_NAME = 24


class RunProgress(NamedTuple):
    """How far one of several runs is: `done` of `total` calls of its solvers.

    `calls` is the progress of the task that calls a model now; `state` is shown where none does.
    """

    name: str
    done: int
    total: int
    calls: CallProgress | None = None
    state: str = ""
    is_over: bool = False


def draw_bar(
    name: str,
    done: int,
    total: int,
    *,
    bar: str = BAR,
) -> Line:
    """Return a bar with its name and count."""
    full = _BAR_CELLS * done // total if total else 0
    return (
        Span(f"{shorten(name, _MAX_NAME)}{GAP}", "title"),
        Span(bar[0] * full, "good"),
        Span(bar[1] * (_BAR_CELLS - full), "dim"),
        f"{GAP}{done}/{total}" if total else f"{GAP}{done}",
    )


def draw_progress(
    progress: CallProgress,
    width: int,
    *,
    bar: str = BAR,
) -> Lines:
    """Return a bar, then how the calls go, in lines of at most `width` cells."""
    head = draw_bar(
        _name_progress(progress),
        progress.done,
        progress.total,
        bar=bar,
    )
    text = ", ".join(_list_progress(progress))
    return [head, *draw_text(text, width)]


def draw_runs(
    runs: Sequence[RunProgress],
    width: int,
    *,
    bar: str = BAR,
) -> Lines:
    """Return a bar for each of several runs, each with a line of how its calls go."""
    lines: Lines = []
    for run in runs:
        head = draw_bar(
            run.name,
            run.done,
            run.total,
            bar=bar,
        )
        text = shorten(_describe_progress(run), width - len(INDENT))
        lines += [head, *draw_text(text, width, "dim")]
    return lines


def _describe_progress(run: RunProgress) -> str:
    if run.state or run.calls is None:
        return run.state or "waiting"
    facts = [_name_progress(run.calls), *_list_progress(run.calls)]
    return ", ".join(facts)


def _name_progress(progress: CallProgress) -> str:
    if progress.purpose == "solve":
        return progress.task
    return f"{progress.task} {progress.purpose}"


def _list_progress(progress: CallProgress) -> Iterator[str]:
    """Yield how the calls go: the pace, the numbers so far, and what they cost."""
    for batch in progress.batches:
        yield f"batch {batch.batch} {batch.status} {batch.done}/{batch.total}"
    if progress.done < progress.total and progress.pace is not None:
        if progress.pace:
            yield f"{progress.pace:.1f} requests/s"
        else:
            yield f"waiting: {progress.problem}" if progress.problem else "waiting"
        if progress.pace and progress.seconds_left is not None:
            yield f"{format_duration(progress.seconds_left)} left"
    yield f"failed {progress.failed}"
    yield f"retried {progress.retried}"
    yield f"tokens {progress.prompt_tokens:,} + {progress.completion_tokens:,}"
    if progress.remembered:
        yield f"already answered {progress.remembered}"


def format_duration(seconds: float) -> str:
    """Return `0:07`, `12:30` or `3:05:00`."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"
