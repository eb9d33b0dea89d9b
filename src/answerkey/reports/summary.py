"""What a user wants to see first of a run: the numbers, what stands behind them, where it lies."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.metrics import STOPPED_EARLY
from answerkey.reports.breakdown import draw_categories, draw_failures, draw_letters, draw_reasons
from answerkey.reports.calls import draw_calls, draw_cut_off
from answerkey.reports.failures import draw_scorer_failures
from answerkey.reports.grouping import draw_groups
from answerkey.reports.numbers import draw_numbers
from answerkey.reports.repeats import draw_repeatability, list_repeats, list_trial_counts
from answerkey.run_audit.readings import draw_imported_verdicts, draw_readings
from answerkey.runs import Run, TaskRun
from answerkey.scorers import JUDGE_CALL_FAILED
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Role,
    Span,
    Table,
    format_count,
    lay_out,
    line,
    make_visible,
    measure_width,
    shorten_path,
    wrap,
)

#: A width for lines that must stay whole: a command is copied as it stands.
UNLIMITED = 10_000
SIMULATED = "SIMULATED: answers made from the key, by no language model"


def draw_summary(run: Run, width: int, *, verbose: bool = False, digits: int | None = None) -> list[Line]:
    """Return the summary of a run; a run that is not complete shows no accuracy."""
    lines, is_complete = [*_draw_head(run), *_draw_stopped(run, width)], run.status == "complete"
    for task in run.tasks.values():
        lines += [BLANK, *draw_task(task, width, is_complete=is_complete, verbose=verbose, digits=digits)]
    if not run.tasks:
        lines += [BLANK, line("  No task of this run is finished.")]
    for entry in run.manifest.get("tasks") or []:
        if entry["key"] not in run.tasks:
            lines += draw_calls(entry, width)
    if any(task.manifest.get("variant") for task in run.tasks.values()):
        from answerkey.comparison.variants import draw_variants

        lines += draw_variants(run, width, digits)
    if run.gates:
        from answerkey.gates.text import draw_gates

        lines += draw_gates(run, width)
    return lines + _draw_notices(run)


def _draw_stopped(run: Run, width: int) -> list[Line]:
    """Return why a run is not complete, as far as `run.json` says, and the command that goes on with it."""
    if run.status == "complete" or run.path is None or not _can_go_on(run):
        return []
    why = (run.manifest.get("stopped") or {}).get("message")
    lines = [line(Span(part, "warn")) for part in wrap(make_visible(why), width)] if why else []
    command = f"answerkey resume {shlex.quote(str(run.path))}"
    when = "to go on, unless it is still at work: " if run.status == "running" else "to go on: "
    return [*lines, line(Span(when, "dim"), make_visible(command))]


def _can_go_on(run: Run) -> bool:
    """Return whether there is something left to do; recorded completions stay as they are.

    So do samples that a scorer cannot score, once all calls are answered.
    """
    entries: Sequence[Mapping[str, Any]] = run.manifest.get("tasks") or []
    if (
        run.status == "incomplete"
        and "stopped" not in run.manifest
        and not any(map(_lacks_calls, run.tasks.values()))
    ):
        return False
    if "rescored_from" in run.manifest and not any(map(_list_judges, entries)):
        return False
    return run.status == "running" or "stopped" in run.manifest or any(one.get("calls") for one in entries)


def _draw_head(run: Run) -> list[Line]:
    title = make_visible(str(run.manifest.get("display_name") or run.key))
    role: Role = "good" if run.status == "complete" else "warn"
    facts = [line(Span(title, "title"), "  ", Span(run.status, role))]
    if run.path is not None:
        facts.append(line(Span("run ", "dim"), make_visible(str(run.path))))
    return facts


def draw_task(
    task: TaskRun, width: int, *, is_complete: bool, verbose: bool = False, digits: int | None = None
) -> list[Line]:
    """Return the summary of one task."""
    lines = [_draw_task_title(task), *_draw_facts(task, width, verbose=verbose), BLANK]
    if is_complete:
        lines += draw_numbers(task, width, digits=digits, with_errors=verbose)
    else:
        lines += _draw_no_numbers(task, width)
    lines += draw_repeatability(task, width) if is_complete else []
    lines += [BLANK, *_draw_counts(task.counts, width), *_draw_trial_counts(task, width)]
    lines += _draw_excluded(task)
    lines += draw_cut_off(task)
    lines += draw_reasons(task, width, with_shares=is_complete) + draw_failures(task, width)
    lines += draw_scorer_failures(task, width)
    if is_complete:
        lines += draw_groups(task, width, digits) + draw_categories(task, width, digits)
    lines += draw_letters(task, width, with_shares=is_complete)
    lines += draw_readings(task, width, digits) if is_complete else []
    lines += draw_imported_verdicts(task, width, digits, with_shares=is_complete)
    return lines + draw_calls(task.manifest, width)


def _draw_task_title(task: TaskRun) -> Line:
    name = make_visible(str(task.manifest.get("display_name") or ""))
    return line(Span(make_visible(task.key), "title"), f"  {name}" if name and name != task.key else "")


def _draw_facts(task: TaskRun, width: int, *, verbose: bool) -> list[Line]:
    rows: list[tuple[Cell, Cell]] = []
    model, completions = task.manifest.get("model"), task.manifest.get("completions") or {}
    if model:
        rows.append(("model", make_visible(str(model["name"]))))
        rows += [("", Span(SIMULATED, "warn"))] if model.get("simulated") else []
    if not model:
        rows.append(("completions", make_visible(_say_completions(completions))))
    rows += [("judge", make_visible(judge)) for judge in _list_judges(task.manifest)]
    rows.append(("dataset", make_visible(_say_dataset(task))))
    rows += list_repeats(task)
    rows += _list_details(task) if verbose else []
    facts = [(Span(_text(name), "dim"), value) for name, value in rows]
    return lay_out(Table(("", ""), facts, "<<", flexible=1), width)


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Span) else cell


def _list_judges(entry: Mapping[str, Any]) -> list[str]:
    """Return the names of the models that scorers ask, each once."""
    scorers: Sequence[Mapping[str, Any]] = entry.get("scorers") or []
    return list(dict.fromkeys(str(one["model"]["name"]) for one in scorers if one.get("model")))


def _say_completions(completions: Mapping[str, Any]) -> str:
    column = f", column {completions['column']}" if completions.get("column") else ""
    if completions.get("source") == "recorded":
        file = completions.get("file")
        who = f"of {completions['model']}, " if completions.get("model") else ""
        return f"{who}recorded in {shorten_path(file)}{column}" if file else f"given in memory{column}"
    return f"in the dataset{column}"


def _say_dataset(task: TaskRun) -> str:
    dataset: Mapping[str, Any] = task.manifest.get("dataset") or {}
    name = dataset.get("display_name") or dataset.get("key") or "in memory"
    file = shorten_path(dataset["file"]) if dataset.get("file") else ""
    used, read = task.counts["samples"], dataset.get("rows_read", task.counts["samples"])
    size = format_count(used, "sample") if used == read else f"{used} of {read} rows"
    return f"{name} ({', '.join(part for part in (file if file != name else '', size) if part)})"


def _list_details(task: TaskRun) -> list[tuple[Cell, Cell]]:
    config = ", ".join(f"{name}={value!r}" for name, value in (task.manifest.get("config") or {}).items())
    prints = [
        f"{kind} {str((task.manifest.get(kind) or {}).get('fingerprint') or 'none')[:16]}"
        for kind in ("task", "dataset")
    ]
    return [("config", make_visible(config) or "none"), ("fingerprints", ", ".join(prints))]


def _draw_no_numbers(task: TaskRun, width: int) -> list[Line]:
    cause = find_cause(task)
    text = f"INCOMPLETE: {cause}, so no accuracy is shown: a share of the rest says nothing about the whole."
    hint = _advise_unscored(task)
    return [line("  ", Span(part, "warn")) for one in (text, *hint) for part in wrap(one, width - 2)]


def _lacks_calls(task: TaskRun) -> bool:
    """Return whether a call of the task has failed, to its model or to a judge."""
    failures = (task.tally.get("failures") or {}).values()
    return bool(task.counts["errors"]) or any(JUDGE_CALL_FAILED in reasons for reasons in failures)


def _advise_unscored(task: TaskRun) -> list[str]:
    """Return what to do about samples that could not be scored; nothing where calls failed."""
    unscored = task.tally.get("unscored", 0)
    if _lacks_calls(task) or not unscored:
        return []
    if _find_stopped(task) and task.manifest.get("calls"):
        return ["Mend the scorer and run the task again: replies that were paid for are in the call cache."]
    advice = "Mend the scorer and use `answerkey rescore` with the changed task file"
    return [f"{advice}, or allow as many samples without a score with `--allow-failed {unscored}`."]


def _find_stopped(task: TaskRun) -> tuple[str, str, int] | None:
    """Return scorer, reason and count of the failures that ended a task early; None where none did."""
    for key, reasons in (task.tally.get("failures") or {}).items():
        first = next(iter(reasons))
        if STOPPED_EARLY in reasons and first != STOPPED_EARLY:
            return key, first, reasons[first]["count"]
    return None


def find_cause(task: TaskRun) -> str:
    """Return why a task is not complete: completions or scores that are missing, judges without an answer."""
    counts, failures = task.counts, (task.tally.get("failures") or {}).values()
    unjudged = sum(reasons.get(JUDGE_CALL_FAILED, {}).get("count", 0) for reasons in failures)
    unanswered = counts["errors"] and not (unjudged and "ERROR" not in task.tally["completion_statuses"])
    if unanswered:
        return f"{counts['errors']} of {format_count(counts['samples'], 'sample')} got no completion"
    if unjudged:
        return f"{format_count(unjudged, 'call')} to a judge failed"
    if unscored := task.tally.get("unscored", 0):
        return _say_unscored(task, unscored)
    return "the rest of the run is not complete"


def _say_unscored(task: TaskRun, unscored: int) -> str:
    samples = format_count(task.counts["samples"], "sample")
    if stopped := _find_stopped(task):
        key, reason, count = stopped
        return (
            f"the first {count} all failed in the same way (scorer `{make_visible(key)}`:"
            f" {make_visible(reason)}), and the run stopped there: {unscored} of {samples} were not scored"
        )
    failures = (task.tally.get("failures") or {}).items()
    key, reason, _ = max(
        ((key, reason, one["count"]) for key, reasons in failures for reason, one in reasons.items()),
        key=lambda one: one[2],
    )
    where = f"scorer `{make_visible(key)}`: {make_visible(reason)}"
    return f"{unscored} of {samples} could not be scored (most often {where})"


def _draw_trial_counts(task: TaskRun, width: int) -> list[Line]:
    counts = list_trial_counts(task)
    if counts is None:
        return []
    noun = "row" if "orders" in task.tally else "trial"
    return [line(f"  (a sample counts as its worst {noun})"), *_draw_counts(counts, width, noun=noun)]


def _draw_counts(counts: Mapping[str, int], width: int, *, noun: str = "sample") -> list[Line]:
    """Return the counts as sums: every sample is somewhere, and it shows."""
    samples = format_count(counts["samples"], noun)
    first = f"{samples} = {counts['scored']} scored + {counts['failed']} failed + {counts['errors']} errors;"
    second = f"scored = {counts['valid']} valid + {counts['invalid']} invalid (refused {counts['refused']})"
    whole = f"{first} {second}"
    return [line(f"  {part}") for part in ([whole] if measure_width(whole) + 2 <= width else [first, second])]


def _draw_excluded(task: TaskRun) -> list[Line]:
    return [
        line(f"  {format_count(count, 'scored sample')} kept out by action `{make_visible(key)}`")
        for key, count in task.tally["excluded"].items()
    ]


def _draw_notices(run: Run) -> list[Line]:
    notices: Sequence[str] = run.manifest.get("notices") or []
    lines: list[Line] = []
    for notice in notices:
        first, *rest = make_visible(str(notice), keep_lines=True).split("\n")
        text = first.removeprefix("warning: ")
        lines.append(line(Span("warning", "warn"), f": {text}"))
        lines += [line(more) for more in rest]
    return [BLANK, *lines] if lines else []


def draw_next_steps(run: Run, more: Sequence[tuple[str, str]] = ()) -> list[Line]:
    """Return what to try next, as commands that work as they stand; `more` are commands and their purpose."""
    if run.path is None:
        return []
    folder, example = shlex.quote(str(run.path)), _find_example(run)
    if not run.tasks:
        return []
    steps = [(f"answerkey explain {folder} {shlex.quote(example)}", "one sample")] if example else []
    task = f" --task {shlex.quote(next(iter(run.tasks)))}" if len(run.tasks) > 1 else ""
    steps += [(f"answerkey export {folder}{task} --to csv -o rows.csv", "all samples"), *more]
    rows = [(make_visible(command), Span(f"# {what}", "dim")) for command, what in steps]
    return [line(Span("Next", "title")), *lay_out(Table(("", ""), rows, "<<"), UNLIMITED)]


def _find_example(run: Run) -> str | None:
    for task in run.tasks.values():
        for group in ("failed", "invalid"):
            for one in task.tally[group].values():
                return str(one["example"]["sample_id"])
        first = task.stored_scores.read(0, 1)
        if first.height:
            return str(first["sample_id"][0])
    return None
