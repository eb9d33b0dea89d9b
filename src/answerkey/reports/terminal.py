"""A run as a terminal shows it: the numbers, what stands behind them, where it lies.

And how far one is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey.reports.view import find_example, find_neighbour, view_run
from answerkey.runs import Run, list_forced
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

if TYPE_CHECKING:  # showing a run needs nothing that makes one
    from answerkey.evaluate.observer import CallProgress

#: A width for lines that must stay whole: a command is copied as it stands.
UNLIMITED = 10_000
SIMULATED = "SIMULATED: answers made from the key, by no language model"
SHOWN_ID, SHOWN_NAMES, SHOWN_NOTES, SHOWN_REASONS, SHOWN_RUNS = 40, 4, 3, 10, 10
#: Groups or categories at each end, the best and the worst; `-v` shows so many of them.
SHOWN_ENDS, SHOWN_GROUPS = 5, 200
#: Of recorded completions, so many that begin with a thinking block are told of.
THINKING_SHARE = 0.01
#: Reasons for INVALID; `-v` shows all.
SHOWN_INVALID = 5

View = Mapping[str, Any]


def draw_summary(
    run: Run, width: int, *, verbose: bool = False, digits: int | None = None
) -> list[Line]:
    """Return the summary of a run: the number first and last; `verbose` adds the tables behind it.

    A run that is not complete shows no accuracy.
    """
    view, is_complete = view_run(run), run.status == "complete"
    head = Span(run.status, "good" if is_complete else "warn")
    lines = [line(Span(view["title"], "title"), "  ", head)]
    if run.path is not None:
        lines.append(line(Span("run ", "dim"), shorten_path(str(run.path))))
    if view["can_go_on"]:
        why = (view["run"].get("stopped") or {}).get("message")
        lines += draw_text(why, width, "warn", indent="") if why else []
        when = "to go on, unless it is still at work: " if run.status == "running" else "to go on: "
        lines.append(line(Span(when, "dim"), f"answerkey resume {shlex.quote(str(run.path))}"))
    for task in view["tasks"]:
        lines += [BLANK, *_draw_facts(run, task, width, verbose=verbose), BLANK]
        if is_complete:
            lines += _draw_numbers(task, width, digits=digits, with_errors=verbose)
            if any(value["is_about_order"] for value in task["metrics"]):
                from answerkey.robustness.choice_order import draw_choice_order

                lines += draw_choice_order(run.tasks[task["key"]], width, digits)
            lines += _draw_repeatability(task, width) if "repeatability" in task else []
        else:
            why = "so no accuracy is shown: a share of the rest says nothing about the whole."
            for text in filter(None, (f"INCOMPLETE: {task['cause']}, {why}", task["advice"])):
                lines += draw_text(text, width, "warn")
        lines += [BLANK, *_draw_counts(task, width)]
        if is_complete and "trials" in task:
            from answerkey.run_audit.text import say_votes

            if votes := say_votes(run.tasks[task["key"]]):
                lines += draw_text(f"self-consistency {votes}", width)
        if is_complete and task["tally"].get("readings"):
            from answerkey.run_audit.text import draw_both_rules

            lines += draw_both_rules(run.tasks[task["key"]], width, digits)
        lines += _draw_lost(task, width, with_shares=is_complete, verbose=verbose)
        if is_complete:
            lines += _draw_groups(task, width, digits, verbose=verbose)
            lines += (
                _draw_categories(task, width, digits, verbose=verbose) if task["categories"] else []
            )
        if verbose:
            lines += draw_letter_table(task["tally"]["letters"], width, with_shares=is_complete)
        if task["tally"].get("readings") or task["tally"].get("theirs"):
            from answerkey.run_audit.text import draw_imported_verdicts, draw_readings

            lines += (
                draw_readings(run.tasks[task["key"]], width, digits)
                if is_complete and verbose
                else []
            )
            lines += draw_imported_verdicts(
                run.tasks[task["key"]], width, digits, with_shares=is_complete
            )
        if task.get("fallback") and is_complete:
            from answerkey.run_audit.text import say_fallbacks

            for sentence in say_fallbacks(run.tasks[task["key"]], digits):
                lines += [BLANK, *draw_text(sentence, width)]
        lines += _draw_calls(task["calls"], width) if task["calls"] else []
    if not view["tasks"]:
        lines += [BLANK, line("  No task of this run is finished.")]
    for entry in view["unfinished"]:
        lines += _draw_calls(entry.get("calls") or {}, width)
    if any("variant" in task for task in view["tasks"]):
        from answerkey.comparison.compare import draw_variants

        lines += draw_variants(run, width, digits)
    if run.gates:
        from answerkey.gates.rules import draw_gates

        lines += draw_gates(run, width)
    lines += [BLANK] if view["notices"] else []
    for notice in view["notices"]:
        first, *rest = make_visible(str(notice), keep_lines=True).split("\n")
        lines.append(line(Span("warning", "warn"), f": {first.removeprefix('warning: ')}"))
        lines += [line(more) for more in rest]
    return [*lines, *_draw_headlines(view, digits, is_complete=is_complete)]


def _draw_headlines(view: View, digits: int | None, *, is_complete: bool) -> list[Line]:
    """Return the number of each task once more, as the last lines: there one looks first."""
    lines: list[Line] = [BLANK]
    for task in view["tasks"]:
        shown = [value for value in task["metrics"] if not value["is_about_order"]]
        name = f"{task['key']}: " if len(view["tasks"]) > 1 else ""
        if not is_complete:
            lines.append(line(Span(f"{name}INCOMPLETE, no accuracy", "warn")))
        elif shown:
            (number, interval), details = _format(shown[0], digits), shown[0].get("details") or {}
            right = f"  {details['count']} of {details['of']} right" if "of" in details else ""
            text = f"{name}{shown[0]['label']} {number} {interval}".rstrip()
            lines.append(line(Span(text, "title"), right))
    return lines if len(lines) > 1 else []


def _draw_facts(run: Run, task: View, width: int, *, verbose: bool) -> list[Line]:
    """Return the title of a task, and what was evaluated."""
    name, model, trials = str(task["display_name"] or ""), task["model"], task.get("trials")
    completions, dataset = task["completions"] or {}, task["dataset"] or {}
    facts: list[tuple[str, Cell]] = []
    if model:
        facts.append(("model", str(model["name"])))
        facts += [("", Span(SIMULATED, "warn"))] if model.get("simulated") else []
        facts += list_forced(task).items()
    else:
        said = "in the dataset"
        if completions.get("source") == "recorded":
            who = f"of {completions['model']}, " if completions.get("model") else ""
            file = completions.get("file")
            said = f"{who}recorded in {shorten_path(file)}" if file else "given in memory"
        column = f", column {completions['column']}" if completions.get("column") else ""
        thoughts = ", thoughts taken out" if completions.get("split_thinking") else ""
        facts.append(("completions", f"{said}{column}{thoughts}"))
    facts += [("judge", judge) for judge in task["judges"]]
    facts += [("fallback", model) for model in task["fallbacks"]]
    facts += [("replies", Span(task["reused"], "warn"))] if "reused" in task else []
    label = dataset.get("display_name") or dataset.get("key") or "in memory"
    file = shorten_path(dataset["file"]) if dataset.get("file") else ""
    used = task["counts"]["samples"]
    read = dataset.get("rows_read", used)
    size = format_count(used, "sample") if used == read else f"{used} of {read} rows"
    facts.append(("dataset", f"{label} ({f'{file}, ' if file not in {'', label} else ''}{size})"))
    if task.get("choice_order"):
        from answerkey.robustness.choice_order import say_order

        order = say_order(run.tasks[task["key"]])
        facts += [("choice order", order)] if order else []
    if trials:
        meant: dict[str, str] = {}
        for one in trials["score_aggregators"]:
            function, k = one["aggregator"]["function"], one["aggregator"]["k"]
            meant.setdefault(one["score_name"], function.replace("k", str(k), 1 if k else 0))
        stands = "; ".join(f"{score} is its {label}" for score, label in meant.items())
        each = f"{trials['num_trials']} of each sample"
        facts.append(("trials", f"{each}; {stands or 'values are their mean'}"))
    if task["repeated"]:
        facts.append(
            ("repeated", f"{task['repeated']['num_runs']} runs; what follows is the first of them")
        )
    if verbose:
        config = ", ".join(f"{key}={value!r}" for key, value in task["config"].items())
        prints = [
            f"{kind} {str(value or 'none')[:16]}" for kind, value in task["fingerprints"].items()
        ]
        facts += [("config", config or "none"), ("fingerprints", ", ".join(prints))]
    title = line(Span(task["key"], "title"), f"  {name}" if name and name != task["key"] else "")
    return [title, *draw_facts(facts, width)]


# ------------------------------------------------------------------------------------------ the
# numbers


def _draw_numbers(task: View, width: int, *, digits: int | None, with_errors: bool) -> list[Line]:
    """Return the metrics of a task: those that count for the score, then the quality checks."""
    shown = [value for value in task["metrics"] if not value["is_about_order"]]
    scored = [value for value in shown if value["purpose"] == "score"]
    checks = [value for value in shown if value["purpose"] != "score"]
    draw = partial(_draw_metrics, task, width=width, digits=digits, with_errors=with_errors)
    lines = draw(scored) if scored else [line("  This task has no metric.")]
    if checks:
        lines += [
            BLANK,
            line("  Quality checks (purpose qa), not part of the score"),
            *draw(checks),
        ]
    return lines


def _draw_metrics(
    task: View, values: Sequence[View], width: int, *, digits: int | None, with_errors: bool
) -> list[Line]:
    # A single scorer is worth a mention only by the name that the user gave it.
    names = {value["scorer"]: value["scorer"] for value in values}
    names = (names if len(names) > 1 else dict.fromkeys(names, "")) | task["scorer_names"]
    with_errors = with_errors or digits is not None
    rows: list[Sequence[Cell]] = []
    # What is to be said of some of the metrics, each text once, and of which.
    left_out: dict[str, list[str]] = {}
    clustered: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    repeated: list[View] = []
    for value in values:
        label, details, has_value = (
            value["label"],
            value.get("details") or {},
            value["value"] is not None,
        )
        number, interval = _format(value, digits)
        rows.append(
            [
                Span(label, "strong"),
                Span(number, "strong" if has_value else "dim"),
                interval,
                format_error(value["std_error"], as_share=value["is_share"], digits=digits),
                str(value["n"]),
                Span(names[value["scorer"]], "dim"),
            ]
        )
        counts = ", ".join(
            f"{reason} {count}" for reason, count in value["n_excluded"].items() if count
        )
        if counts:
            left_out.setdefault(counts, []).append(label)
        if column := details.get("cluster_by"):
            with_errors = True
            how = "corrected by" if details.get("clusters_corrected") else "without the correction"
            text = f"clustered by {column}: {details.get('clusters')} clusters, {how} C/(C-1)"
            if has_value:
                clustered.setdefault(f"standard error {text}", []).append(label)
        if has_value and value.get("interval_note"):
            missing.setdefault(value["interval_note"], []).append(label)
        if details.get("counts") in {"trials", "orders"}:
            repeated.append(value)

    def say_which(labels: Sequence[str]) -> str:
        return f" of {_list_some(labels, SHOWN_NAMES)}" if len(labels) < len(values) else ""

    notes = [f"left out{say_which(labels)}: {text}" for text, labels in left_out.items()]
    notes += [f"{value['label']}: {value['note']}" for value in values if value.get("note")]
    notes += [f"{text}{say_which(labels)}" for text, labels in clustered.items()]
    notes += [f"no interval{say_which(labels)}: {text}" for text, labels in missing.items()]
    if repeated:
        details = repeated[0]["details"]
        each = f"trial, {details.get('num_trials')} of each sample"
        unit = "order of the options" if details["counts"] == "orders" else each
        labels = _list_some([value["label"] for value in repeated], SHOWN_NOTES)
        notes.append(f"counted per {unit}: {labels}")
    rows = rows if with_errors else [[*row[:3], "", *row[4:]] for row in rows]
    header = ("", "value", "95 % interval", "std. error", "n", "scorer")
    lines = lay_out(Table(header, rows, "<>>>><", flexible=0), width)
    return lines + [one for note in notes for one in draw_text(note, width, "dim")]


def _format(value: View, digits: int | None, *, as_share: bool | None = None) -> tuple[str, str]:
    """Return a number and its interval as text."""
    as_share = value["is_share"] if as_share is None else as_share
    number = format_figure(value["value"], as_share=as_share, digits=digits)
    return number, format_interval(value["interval"], as_share=as_share, digits=digits)


def _list_some(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _draw_repeatability(task: View, width: int) -> list[Line]:
    """Return how far the metrics, and the scores of single samples, are the same in every run."""
    found = task["repeatability"]
    shares = {value["name"]: value["is_share"] for value in task["metrics"]}
    rows: list[Sequence[Cell]] = []
    for one in found["metrics"]:
        as_share = shares.get(one["name"], one["type"] in FRACTION_TYPES)
        values = [format_figure(value, as_share=as_share) for value in one["values"]]
        more = ", …" if len(values) > SHOWN_RUNS else ""
        mean, spread = (format_figure(one[name], as_share=as_share) for name in ("mean", "std_dev"))
        listed = ", ".join(values[:SHOWN_RUNS]) + more
        rows.append([Span(one["name"], "strong"), Span(mean, "strong"), spread, listed])
    header = (f"Over {found['num_runs']} runs", "mean", "std. dev.", "values")
    lines = [BLANK, *lay_out(Table(header, rows, "<>><", flexible=3), width)]
    for key, one in found["agreement"].items():
        if one["samples"]:
            share = f"has {format_percent(one['mean_share'])} of its runs on average"
            every = (
                f"it has all of them in {one['unanimous']} of "
                f"{format_count(one['samples'], 'sample')}"
            )
            lines.append(line(f"  {key}: the most frequent score of a sample {share}; {every}"))
    return lines


# ----------------------------------------------------------------------------- counts and what was
# lost


def _draw_counts(task: View, width: int) -> list[Line]:
    """Return the counts as sums: every sample is somewhere, and it shows."""
    lines: list[Line] = []
    noun = "row" if "orders" in task["tally"] else "trial"
    for counts, what in ((task["counts"], "sample"), (task["row_counts"], noun)):
        if counts is None:
            break
        lines += [line(f"  (a sample counts as its worst {noun})")] if lines else []
        parts = (
            f"{counts['scored']} scored + {counts['failed']} failed + {counts['errors']} errors;"
        )
        first = f"{format_count(counts['samples'], what)} = {parts}"
        second = (
            f"scored = {counts['valid']} valid + {counts['invalid']} invalid (refused "
            f"{counts['refused']})"
        )
        fits = measure_width(f"{first} {second}") + 2 <= width
        lines += [
            line(f"  {part}") for part in ([f"{first} {second}"] if fits else [first, second])
        ]
    for key, count in task["tally"]["excluded"].items():
        kept = f"kept out by action `{key}`"
        lines.append(line(f"  {format_count(count, 'scored sample')} {kept}"))
    warnings = []
    if cut_off := task["tally"].get("cut_off", 0):
        warnings.append(f"cut off by the token limit: {cut_off}")
    if truncated := task["tally"]["invalid"].get("TRUNCATED_THINKING"):
        warnings.append(
            f"end within their thoughts: {truncated['count']}; raise `max_tokens` of the model"
        )
    thinking, rows = (
        task["tally"].get("thinking", 0),
        (task["row_counts"] or task["counts"])["samples"],
    )
    if thinking > THINKING_SHARE * rows:
        warnings.append(f"begin with a thinking block: {thinking}, scored as they are written;")
        warnings.append("`--split-thinking` takes the thoughts out")
    return lines + [line("  ", Span(text, "warn")) for text in warnings]


def _draw_lost(task: View, width: int, *, with_shares: bool, verbose: bool) -> list[Line]:
    """Return INVALID completions and samples without a score by reason, and where code of a scorer
    failed.
    """
    shown = task["invalid"] if verbose else task["invalid"][:SHOWN_INVALID]
    rows: list[Sequence[Cell]] = [
        (
            one["reason"],
            str(one["count"]),
            format_percent(one["share"]) if with_shares else "",
            shorten(one["example"]["sample_id"], SHOWN_ID),
            quote(one["example"]["completion"], width),
        )
        for one in shown
    ]
    header = ("Invalid because", "count", "share", "example", "completion")
    lines = _draw_table(header, rows, "<>><<", 4, width)
    if left := task["invalid"][len(shown) :]:
        count = format_count(sum(one["count"] for one in left), "more INVALID completion")
        reasons = format_count(len(left), "other reason")
        lines.append(line(Span(f"  {count} for {reasons}; `-v` shows all", "dim")))
    rows = []
    for one in task["unscored"]:
        more = (
            f" and {one['count'] - len(one['samples'])} more"
            if one["count"] > len(one["samples"])
            else ""
        )
        rows.append(
            (one["kind"], one["reason"], str(one["count"]), ", ".join(one["samples"]) + more)
        )
    lines += _draw_table(("No score", "reason", "count", "samples"), rows, "<<><", 3, width)
    rows = [
        (
            one["name"],
            one["reason"],
            str(one["count"]),
            shorten(one["example"]["sample_id"], SHOWN_ID),
        )
        for one in task["failures"]
        if one["scorer"] != task["main_scorer"]  # whose rows stand in the table above
    ]
    lines += _draw_table(("Failed scorer", "reason", "count", "example"), rows, "<<><", 1, width)
    for one in task["failures"]:
        traceback = (one["example"].get("traceback") or "").strip().splitlines()
        if traceback:
            # The last place in the user's code, and what was raised there.
            files = [text.strip() for text in traceback if text.lstrip().startswith("File ")]
            said = make_visible(": ".join([*files[-1:], traceback[-1].strip()]))
            first, *rest = wrap(
                f"{shorten(one['example']['sample_id'], SHOWN_ID)}: {said}", width - 2
            )
            lines += [
                line("  ", Span(first, "warn")),
                *(line("    ", Span(more, "warn")) for more in rest),
            ]
    return lines


def _draw_table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], align: str, flexible: int, width: int
) -> list[Line]:
    """Return a table below a blank line; nothing without rows."""
    return [BLANK, *lay_out(Table(header, rows, align, flexible), width)] if rows else []


# --------------------------------------------------------------------------------- groups and
# categories


def _find_ends(values: Sequence[View], *, verbose: bool) -> tuple[list[View], list[View], str]:
    """Return the best and the worst, by value, and a line about what is between them.

    Few are all best.
    """
    ranked = sorted(values, key=lambda one: (one["value"] is None, -(one["value"] or 0.0)))
    size = SHOWN_GROUPS // 2 if verbose else SHOWN_ENDS
    if len(ranked) <= 2 * size:
        return ranked, [], ""
    where = "`--json` has all" if verbose else "`-v` shows them"
    return ranked[:size], ranked[-size:], f"… {len(ranked) - 2 * size} more; {where}"


def _draw_groups(task: View, width: int, digits: int | None, *, verbose: bool) -> list[Line]:
    """Return for each column the first metric by group, then micro and macro averages of all
    metrics.
    """
    by_column: dict[str, list[tuple[View, View]]] = {}
    for value in task["metrics"]:
        for groups in value.get("groups", ()):
            by_column.setdefault(groups["column"], []).append((value, groups))
    lines: list[Line] = []
    for column, found in by_column.items():
        value, groups = found[0]
        best, worst, between = _find_ends(groups["values"], verbose=verbose)
        shown = best + worst
        rows: list[Sequence[Cell]] = [
            (str(one["group"]), *_format(one, digits, as_share=value["is_share"]), str(one["n"]))
            for one in shown
        ]
        rows[len(best) : len(best)] = [(Span(between, "dim"), "", "", "")] if between else []
        title = f"By {column}"
        header = (title, value["label"], "95 % interval", "n")
        lines += _draw_table(header, rows, "<>>>", 0, width)
        lines += [] if rows else [BLANK, line(f"  {title}: {groups['macro']['note']}")]
        # Why groups have no value or no interval, and the first of which each holds for.
        missing: dict[str, list[str]] = {}
        for one in shown:
            note = one["note"] if one["value"] is None else f"no interval: {one['interval_note']}"
            if one["interval"] is None and note:
                missing.setdefault(note, []).append(str(one["group"]))
        for note, names in missing.items():
            more = " …" if len(names) > SHOWN_NOTES else ""
            lines += draw_text(f"{', '.join(names[:SHOWN_NOTES])}{more}: {note}", width, "dim")
        rows = [
            (
                one["label"],
                format_figure(one["value"], as_share=one["is_share"], digits=digits),
                *_format(macros["macro"], digits, as_share=one["is_share"]),
                str(macros["macro"]["n"]),
            )
            for one, macros in found
        ]
        title = f"Averages by {column}"
        lines += _draw_table(
            (title, "micro", "macro", "95 % of macro", "groups"), rows, "<>>>>", 0, width
        )
        macros = [groups["macro"] for _, groups in found]
        notes = {
            one["interval_note"]
            for one in macros
            if one["value"] is not None and one["interval_note"]
        }
        for note in sorted(notes):
            lines += draw_text(f"no interval of the macro average: {note}", width, "dim")
    return lines


def _draw_categories(task: View, width: int, digits: int | None, *, verbose: bool) -> list[Line]:
    """Return the accuracy of each category, best first, with interval and count.

    Then their mean.
    """
    found = task["categories"]
    best, worst, between = _find_ends(found["rows"], verbose=verbose)
    rows: list[Sequence[Cell]] = [
        (
            one["label"],
            "" if one["value"] is None else format_percent(one["value"], digits),
            format_interval(one["interval"], digits=digits),
            str(one["correct"]),
            str(one["n"]),
        )
        for one in best + worst
    ]
    rows[len(best) : len(best)] = [(Span(between, "dim"), "", "", "", "")] if between else []
    if found["macro"]:
        value, interval = found["macro"]
        cells = (
            "macro average",
            format_percent(value, digits),
            format_interval(interval, digits=digits),
        )
        if verbose or cells[1] not in {_format(one, digits)[0] for one in task["metrics"][:1]}:
            rows.append([Span(cell, "dim") for cell in (*cells, "", "")])
    header = (f"By {found['column']}", "accuracy", "95 % interval", "right", found["unit"])
    return _draw_table(header, rows, "<>>>>", 0, width)


# calls


def _draw_calls(calls: View, width: int) -> list[Line]:
    """Return what a task asked of its models, by purpose."""
    lines: list[Line] = []
    for purpose, one in calls.items():
        kind, _, key = purpose.partition(":")
        title = f"Calls of the {kind} {key}" if key else "Calls"
        made = f"{one['calls']} = {one['asked']} sent + {one['cached']} from the cache"
        thought = f" ({count} of them reasoning)" if (count := one.get("reasoning_tokens")) else ""
        cached = f" ({count} of them cached)" if (count := one.get("cached_tokens")) else ""
        tokens = (
            f"{one['prompt_tokens']} prompt{cached} + {one['completion_tokens']} "
            f"completion{thought}"
        )
        facts: list[tuple[str, Cell]] = [
            ("calls", f"{made}; {one['failed']} failed, {one['retries']} retried"),
            ("tokens", tokens),
        ]
        facts += [] if one["cost"] is None else [("cost", format_cost(one["cost"]))]
        if one["latency"] is not None:
            facts.append(
                ("latency", f"p50 {one['latency']['p50']:.2f} s, p95 {one['latency']['p95']:.2f} s")
            )
        lines += [BLANK, line(f"  {title}"), *draw_facts(facts, width)]
        for why, found in (("Failed because", one["errors"]), ("Retried because", one["retried"])):
            rows = [
                (
                    each["reason"],
                    str(each["count"]),
                    shorten(each["example"]["sample_id"], SHOWN_ID),
                    shorten(each["example"]["error"], width),
                )
                for each in found[:SHOWN_REASONS]
            ]
            lines += _draw_table((why, "count", "example", "what was said"), rows, "<><<", 3, width)
    return lines


def format_cost(cost: float) -> str:
    """Return a sum in USD with two digits, and more for less than a cent."""
    return f"about {cost:.2f} USD" if cost >= 0.01 or not cost else f"about {cost:.4f} USD"  # noqa: PLR2004


# --------------------------------------------------------------------------- several runs, and what
# next


def draw_next_steps(run: Run, more: Sequence[tuple[str, str]] = ()) -> list[Line]:
    """Return what to try next, as commands; `more` are commands and their purpose.

    Each works as it stands, but for `compare` where no other run lies beside this one.
    """
    if run.path is None or not run.tasks:
        return []
    folder, example, other = shlex.quote(str(run.path)), find_example(run), find_neighbour(run)
    steps = [(f"answerkey report {folder}", "all of it as one HTML file")]
    if example:
        sample, what = example
        steps.append(
            (f"answerkey explain {folder} {shlex.quote(sample)}", f"a sample that is {what}")
        )
    steps.append((f"answerkey audit {folder}", "how far the number can be trusted"))
    if run.status == "complete":
        against = f"{shlex.quote(other)} {folder}" if other else f"{folder} OTHER_RUN"
        steps.append((f"answerkey compare {against}", "is the difference real?"))
    return _draw_steps((*steps, *more))


def draw_next_for_several(folder: str) -> list[Line]:
    """Return what to try next with several runs below a folder."""
    texts = {"compare": "are the differences real?", "report": "all of it as one HTML file"}
    return _draw_steps(
        [(f"answerkey {name} {shlex.quote(folder)}", text) for name, text in texts.items()]
    )


def _draw_steps(steps: Sequence[tuple[str, str]]) -> list[Line]:
    rows = [(command, Span(f"# {what}", "dim")) for command, what in steps]
    return [line(Span("Next", "title")), *lay_out(Table(("", ""), rows, "<<"), UNLIMITED)]


# ---------------------------------------------------------------------------------- how far the
# calls are

#: What a bar is made of: the part that is done, and the rest.
BAR, PLAIN_BAR = "━─", "=-"
_BAR_CELLS = _LONGEST_NAME = 24


def draw_bar(name: str, done: int, total: int, *, bar: str = BAR) -> Line:
    """Return a bar with its name and count."""
    full = _BAR_CELLS * done // total if total else 0
    return line(
        Span(f"{shorten(name, _LONGEST_NAME)}{GAP}", "title"),
        Span(bar[0] * full, "good"),
        Span(bar[1] * (_BAR_CELLS - full), "dim"),
        f"{GAP}{done}/{total}" if total else f"{GAP}{done}",
    )


def draw_progress(progress: CallProgress, width: int, *, bar: str = BAR) -> list[Line]:
    """Return a small block: a bar with how far it is, then how it goes, in lines of at most `width`
    cells.
    """
    name, pace, facts, waiting = _say_progress(progress)
    head = draw_bar(name, progress.done, progress.total, bar=bar)
    taken = sum(measure_width(span.text) for span in head)
    for part in pace:
        taken += len(GAP) + measure_width(part)
        head = (*head, Span(f"{GAP}{part}")) if taken <= width else head
    lines: list[list[Span]] = [[]]
    taken = len(INDENT)
    for text, role in facts:
        cells = len(GAP) + measure_width(text)
        if lines[-1] and taken + cells > width:
            lines.append([])
            taken = len(INDENT)
        lines[-1] += [Span(GAP), Span(text, role)]
        taken += cells
    why = [line(GAP, Span(shorten(waiting, width - len(GAP)), "warn"))] if waiting else []
    return [head, *map(tuple, lines), *why]


def write_progress(progress: CallProgress) -> str:
    """Return the same on one line, for a log."""
    name, pace, facts, waiting = _say_progress(progress)
    share = f" ({100 * progress.done // progress.total} %)" if progress.total else ""
    texts = [f"{progress.done} of {progress.total}{share}", *pace, *(text for text, _ in facts)]
    return (
        f"{make_visible(name)}: "
        f"{', '.join([*texts, *([make_visible(waiting)] if waiting else [])])}"
    )


class RunProgress(NamedTuple):
    """How far one of several runs is: `done` of `total` calls of its solvers.

    `calls` is how the task goes that calls a model now; `state` is said in its place where none is
    called.
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
        full = _BAR_CELLS * run.done // run.total if run.total else 0
        share = Span(bar[0] * full + bar[1] * (_BAR_CELLS - full), "good" if run.done else "dim")
        count = f"{run.done}/{run.total}" if run.total else ""
        rows.append(
            [
                Span(shorten(run.name, _LONGEST_NAME), "title"),
                share,
                count,
                ", ".join(_say_run(run)),
            ]
        )
    return lay_out(Table(("",) * 4, rows, "<<><", flexible=3), width, indent="")


def write_runs(runs: Sequence[RunProgress]) -> list[Line]:
    """Return the same for a log."""
    return [
        line(
            make_visible(f"{run.name}: {', '.join([f'{run.done} of {run.total}', *_say_run(run)])}")
        )
        for run in [*runs, _sum_runs(runs)]
    ]


def _sum_runs(runs: Sequence[RunProgress]) -> RunProgress:
    """Return how far all runs are together; the slowest says how long they take."""
    going = [(run, run.calls.pace) for run in runs if run.calls is not None and run.calls.pace]
    texts = [f"{sum(pace for _, pace in going):.0f} requests/s"] if going else []
    left = max(((run.total - run.done) / pace for run, pace in going), default=None)
    texts += [] if left is None else [f"{format_duration(left)} left"]
    texts.append(f"{sum(run.is_over for run in runs)} of {len(runs)} runs done")
    counts = (sum(run.done for run in runs), sum(run.total for run in runs))
    return RunProgress("total", *counts, state=", ".join(texts))


def _say_run(run: RunProgress) -> list[str]:
    """Return how one of several runs goes, in few words."""
    calls = run.calls
    if run.state or calls is None:
        return [run.state or "waiting"]
    _, texts, _, waiting = _say_progress(calls)
    if calls.accuracy is not None:
        texts.append(f"accuracy {100 * calls.accuracy[0]:.1f} %")
    texts += [
        f"{name} {count}" for name in ("failed", "retried") if (count := getattr(calls, name))
    ]
    if calls.purpose == "solve":
        texts.append(calls.task)
    else:
        texts.append(f"{calls.task} {calls.purpose} {calls.done}/{calls.total}")
    return [*([waiting] if waiting else []), *texts]


def _say_progress(
    progress: CallProgress,
) -> tuple[str, list[str], list[tuple[str, Role]], str | None]:
    """Return name, pace, facts with their roles, and why nothing comes back, where that is so."""
    name = progress.task if progress.purpose == "solve" else f"{progress.task} {progress.purpose}"
    is_going, pace = progress.pace is not None and progress.done < progress.total, []
    if progress.batches:
        batches = (
            f"batch {one.batch} {one.status} {one.done}/{one.total}" for one in progress.batches
        )
        pace = list(map(make_visible, batches))
    elif is_going and progress.pace:
        pace = [f"{progress.pace:.{0 if progress.pace >= 10 else 1}f} requests/s"]  # noqa: PLR2004
        pace += (
            []
            if progress.seconds_left is None
            else [f"{format_duration(progress.seconds_left)} left"]
        )
    elif is_going:
        pace = ["waiting"]
    facts: list[tuple[str, Role]] = []
    if progress.accuracy is not None:
        share, (low, high) = progress.accuracy
        facts.append(
            (f"accuracy so far {100 * share:.1f} % [{100 * low:.1f}, {100 * high:.1f}]", "strong")
        )
    if progress.invalid_share is not None:
        facts.append((f"INVALID {100 * progress.invalid_share:.1f} %", "plain"))
    facts.append((f"failed {progress.failed}", "bad" if progress.failed else "plain"))
    facts.append((f"retried {progress.retried}", "warn" if progress.retried else "plain"))
    tokens = f"{format_large(progress.prompt_tokens)} + {format_large(progress.completion_tokens)}"
    facts.append((f"tokens {tokens}", "plain"))
    facts += [(f"known before {progress.known}", "dim")] if progress.known else []
    is_waiting = is_going and not progress.pace and progress.problem
    return name, pace, facts, f"waits because {progress.problem}" if is_waiting else None


def format_duration(seconds: float) -> str:
    """Return `0:07`, `12:30` or `3:05:00`."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def format_large(number: int) -> str:
    """Return a number in few digits: `950`, `12.3k`, `4.56M`."""
    if number < 1_000:  # noqa: PLR2004
        return str(number)
    return f"{number / 1e3:.1f}k" if number < 1_000_000 else f"{number / 1e6:.2f}M"  # noqa: PLR2004
