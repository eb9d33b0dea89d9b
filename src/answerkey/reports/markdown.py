"""A run's summary as Markdown, for a page that people keep: the number, what stands out, the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from answerkey.report.overview import describe_run
from answerkey.reports.step_summary import escape_markdown, list_gates, list_metrics, say_counts, say_verdict
from answerkey.reports.summary import SIMULATED
from answerkey.runs import Run, TaskRun
from answerkey.text import format_figure, format_interval, format_percent

SENTENCE, SHOWN_CATEGORIES, SHOWN_LETTERS = 2_000, 60, 12

Values = Mapping[str, Any]


def write_markdown(run: Run) -> str:
    """Return the Markdown of a run; nothing in it comes unescaped from data."""
    return "\n".join([*_list_lines(run), ""])


def _list_lines(run: Run) -> Iterator[str]:
    told = describe_run(run, is_brief=True)
    yield f"# {escape_markdown(str(run.manifest.get('display_name') or run.key))}: {say_verdict(run)}"
    yield ""
    if run.path is not None:
        yield f"Run {escape_markdown(run.path.name)}, {run.status}, begun {told['started_at']}."
        yield ""
    notices = [SIMULATED] * told["simulated"] + told["notices"]
    yield from _list_points(notices)
    yield from list_gates(run)
    for task, values in zip(run.tasks.values(), told["tasks"], strict=True):
        yield from _list_task(task, values, is_complete=run.status == "complete")


def _list_points(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield f"- {_say(text)}"
    if texts:
        yield ""


def _say(text: str) -> str:
    return escape_markdown(text, SENTENCE)


def _list_task(task: TaskRun, values: Values, *, is_complete: bool) -> Iterator[str]:
    name = str(values["display_name"] or values["key"])
    title = name if name == values["key"] else f"{values['key']}: {name}"
    yield f"## {escape_markdown(title)}"
    yield ""
    yield f"**{_say(values['headline']['sentence'])}**"
    yield ""
    yield f"Completions of {_say(values['model'])} on {_say(values['dataset'])}. {say_counts(task.counts)}"
    yield ""
    yield from list_metrics(task) if is_complete else ()
    yield from _list_findings(values["findings"])
    yield from _list_plots(values)


def _list_findings(findings: Sequence[Values]) -> Iterator[str]:
    if not findings:
        return
    yield "### What stands out"
    yield ""
    for number, one in enumerate(findings, 1):
        yield f"{number}. {_say(one['sentence'])} *Next: {_say(one['step'])}*"
    yield ""


def _list_plots(values: Values) -> Iterator[str]:
    plots, as_share = values["plots"], values["headline"]["is_share"]
    invalid = [(one["reason"], str(one["count"])) for one in plots["invalid"] or ()]
    yield from _list_table("INVALID by reason", ("reason", "completions"), invalid, "<>")
    rules = [
        (
            one["label"],
            *_write(one, as_share=True),
            format_percent(one["invalid_share"]),
            str(one["read"]),
            str(one["n"]),
        )
        for one in plots["rules"] or ()
    ]
    titles = ("rule", "accuracy", "95 % interval", "INVALID", "read", "n")
    yield from _list_table("Read by", titles, rules, "<>>>>>")
    told = [values["audited"][name] for name in ("sentence", "unfit")] if rules else []
    yield from _list_points([text for text in told if text])
    categories = plots["categories"] or {"column": "", "rows": []}
    largest = sorted(categories["rows"], key=lambda one: -one["n"])[:SHOWN_CATEGORIES]
    rows = [
        (one["label"], *_write(one, as_share=as_share), str(one["n"]))
        for one in categories["rows"]
        if one in largest
    ]
    header = (categories["column"], "value", "95 % interval", "n")
    yield from _list_table(f"By {categories['column']}", header, rows, "<>>>")
    yield from _list_letters(plots["letters"])


def _list_letters(plot: Values | None) -> Iterator[str]:
    if plot is None or len(plot["predicted"]) > SHOWN_LETTERS + 1:
        return
    rows = [(letter, *map(str, counts)) for letter, counts in zip(plot["true"], plot["counts"], strict=True)]
    header = ("true \\ predicted", *plot["predicted"])
    yield from _list_table("Letters", header, rows, "<" + ">" * len(plot["predicted"]))


def _write(one: Values, *, as_share: bool) -> tuple[str, str]:
    ends = one["interval"]
    interval = format_interval(None if ends is None else (ends[0], ends[1]), as_share=as_share)
    return format_figure(one["value"], as_share=as_share), interval


def _list_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], align: str
) -> Iterator[str]:
    if not rows:
        return
    yield f"### {escape_markdown(title)}"
    yield ""
    yield f"| {' | '.join(map(escape_markdown, header))} |"
    yield f"|{'|'.join('---:' if side == '>' else '---' for side in align)}|"
    for row in rows:
        yield f"| {' | '.join(map(escape_markdown, row))} |"
    yield ""
