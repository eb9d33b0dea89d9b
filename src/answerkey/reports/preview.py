"""What commands show before there is a run: `check`, `doctor`, `run --dry-run`, `tasks` and
`import`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.errors import hide_secrets
from answerkey.evaluate.dry_run import Checked, DryRun, PlannedTask
from answerkey.importers import Imported
from answerkey.reports.explain import draw_messages
from answerkey.reports.terminal import UNLIMITED, format_cost
from answerkey.spec.ready_made import ReadyMade
from answerkey.text import (
    BLANK,
    GAP,
    INDENT,
    Line,
    Role,
    Span,
    Table,
    describe_notices,
    describe_problems,
    draw_facts,
    draw_notice,
    draw_problems,
    draw_text,
    format_count,
    format_percent,
    lay_out,
    line,
    make_visible,
    wrap,
)

# check


def draw_check(checked: Checked, width: int) -> list[Line]:
    """Return every error, every warning, and the count."""
    blocks = [draw_problems(checked.errors, width), *map(draw_notice, checked.notices)]
    found = (
        f"{format_count(len(checked.errors), 'error')}, "
        f"{format_count(len(checked.notices), 'warning')}"
    )
    rows_seen = format_count(sum(task.rows for task in checked.tasks), "row")
    seen = f"{format_count(len(checked.tasks), 'task')}, {rows_seen} checked"
    verdict = Span("not good", "bad") if checked.errors else Span("good", "good")
    above = [one for block in blocks if block for one in (*block, BLANK)]
    return [*above, line(verdict, f": {found}; {seen}")]


def describe_check(checked: Checked, file: str) -> dict[str, Any]:
    """Return what `check --json` prints."""
    tasks = [
        {"key": task.key, "dataset": task.dataset, "rows": task.rows} for task in checked.tasks
    ]
    return {
        "check": {"file": hide_secrets(file), "good": not checked.errors, "tasks": tasks},
        **describe_problems(checked.errors),
        "notices": describe_notices(checked.notices),
    }


# doctor

_SIGNS = {"good": "✓", "note": "·", "warning": "!", "failed": "✗"}
_ROLES: dict[str, Role] = {"good": "good", "note": "dim", "warning": "warn", "failed": "bad"}


def draw_examination(found: Mapping[str, Any], width: int) -> list[Line]:
    """Return each check with its status, what was seen, what it means and what to do.

    Then the count.
    """
    about = f"task {found['task']}" if found["task"] else "built-in questions"
    lines = [line(Span(found["model"], "title"), f": {about}")]
    wide = max(len(one["check"]) for one in found["checks"])
    for one in found["checks"]:
        status, named = one["status"], {"means": one["means"], "do": one["advice"]}
        head = f"{INDENT}{_SIGNS[status]} {status:<7}{GAP}{one['check']:<{wide}}{GAP}"
        texts = [one["seen"], *(f"{name}: {text}" for name, text in named.items() if text)]
        first, *more = (
            part for text in texts for part in draw_text(text, width, indent=" " * len(head))
        )
        lines += [line(Span(head, _ROLES[status]), first[0].text.lstrip()), *more]
    counts = Counter(one["status"] for one in found["checks"])
    verdict = Span("good", "good") if found["good"] else Span("not good", "bad")
    told = f": {counts['failed']} failed, {format_count(counts['warning'], 'warning')}"
    cost = "" if found["cost"] is None else f", {found['cost']:.5f} USD"
    spent = (
        f"{found['prompt_tokens']} + {found['completion_tokens']} tokens{cost}, "
        f"{found['seconds']:.1f} s"
    )
    return [*lines, line(verdict, f"{told}; {format_count(found['calls'], 'call')}, {spent}")]


# ---------------------------------------------------------------------------------------------- dry
# run


def draw_plan(plan: DryRun) -> list[Line]:
    """Return what a run would ask, task by task, with the first prompt in full."""
    lines: list[Line] = [
        line(Span("Dry run", "title"), ": no model was called, nothing was written")
    ]
    for task in plan.tasks:
        lines += [BLANK, line(Span(task.key, "title"))]
        lines += draw_facts([(name, text) for name, text in _list_facts(task) if text], UNLIMITED)
        lines += draw_messages("First prompt", task.first_prompt or ())
    return lines


def _list_facts(task: PlannedTask) -> list[tuple[str, str]]:
    prompts, tokens, judged, read = "", f"at most {task.completion_tokens}", "", ""
    if task.model and task.prompts != task.samples:
        each = f"{task.prompts / max(task.samples, 1):.4g} for each sample (orders and trials)"
        prompts = f"{task.prompts}: {each}"
    if task.completion_tokens is None:
        tokens = "" if task.cost == 0 else "unknown: the model has no `max_tokens`"
    cost = (
        "unknown"
        if task.cost is None
        else f"at most {format_cost(task.cost)}"
        if task.cost
        else "0.00 USD"
    )
    if task.judge_calls:
        judged = f"about {task.judge_calls} calls more; tokens and cost are not in the above"
    if task.fallback_calls:
        read = f"at most {task.fallback_calls} calls more; tokens and cost are not in the above"
    return [
        ("model", task.model or "none: completions are recorded"),
        ("samples", str(task.samples)),
        ("prompts", prompts),
        ("calls", f"{task.calls}{f', and {task.cached} from the cache' if task.cached else ''}"),
        ("prompt tokens", f"about {task.prompt_tokens} (characters / 4)"),
        ("completion tokens", tokens),
        ("cost", cost),
        ("judge", judged),
        ("fallback", read),
    ]


def describe_plan(plan: DryRun) -> dict[str, Any]:
    """Return what `run --dry-run --json` prints below `dry_run`."""
    names = [
        "key",
        "model",
        "samples",
        "prompts",
        "calls",
        "cached",
        "judge_calls",
        "fallback_calls",
    ]
    names += ["prompt_tokens", "completion_tokens", "cost"]
    return {
        "tasks": [
            {name: getattr(task, name) for name in names}
            | {
                "first_prompt": None
                if task.first_prompt is None
                else list(map(dict, task.first_prompt))
            }
            for task in plan.tasks
        ]
    }


# ------------------------------------------------------------------------------------- ready-made
# tasks

_LABEL = 12


def draw_ready_made(tasks: Sequence[ReadyMade], width: int) -> list[Line]:
    """Return the list of ready-made tasks."""
    rows = [
        (
            Span(one.name, "strong"),
            "" if one.about.rows is None else f"{one.about.rows:,}",
            one.about.options,
            "" if one.about.chance is None else format_percent(one.about.chance),
            " ".join(one.about.languages),
            one.about.licence,
        )
        for one in tasks
    ]
    header = ("task", "questions", "options", "chance", "language", "licence")
    return lay_out(Table(header, rows, "<>>><<", flexible=5), width)


def draw_ready_made_task(ready: ReadyMade, width: int) -> list[Line]:
    """Return all that is to be known of a ready-made task, and how it is run."""
    about, hub = ready.about, ready.describe()["hub"]
    unknown = "differs from question to question; `answerkey audit` says it"
    facts = {
        "questions": "" if about.rows is None else f"{about.rows:,}",
        "options": about.options,
        "chance": unknown if about.chance is None else format_percent(about.chance),
        "category": f"column `{about.category}`" if about.category else "none",
        "language": ", ".join(about.languages),
        "licence": about.licence,
        "homepage": about.homepage,
        "cite as": about.citation,
        "on the hub": ", ".join(str(value) for value in hub.values())
        + (" (it wants a token and accepted terms)" if about.gated else ""),
    } | {
        f"expected{' ' * place}": "{model}: {value:.2%} ({setting}; {source})".format(**one)
        for place, one in enumerate(about.expected)
    }
    lines = [line(Span(ready.name, "title"), f"  {about.title}")]
    lines += [*draw_text(about.summary, width, indent=""), BLANK]
    for label, text in facts.items():
        parts = wrap(make_visible(text), width - _LABEL - 2) if text else []
        labels = [label, *[""] * (len(parts) - 1)]
        lines += [
            line("  ", Span(head.ljust(_LABEL), "dim"), part)
            for head, part in zip(labels, parts, strict=False)
        ]
    lines += [BLANK, line(Span("Files that are read with `--dataset`", "head"))]
    for form in ready.forms:
        first, *rest = wrap(make_visible(form.description), width - 4)
        lines += [line(f"  - {first}"), *(line(f"    {part}") for part in rest)]
    lines += [BLANK, line(Span("Config values", "head"))]
    rows = [
        (key, "" if value is None else str(value), text) for key, value, text in ready.parameters
    ]
    lines += lay_out(Table(("name", "default", "meaning"), rows, "<<<", flexible=2), width)
    lines += [BLANK, line(Span("Run it", "head"))]
    return [*lines, *(line(f"  {command}") for command in list_commands(ready))]


def list_commands(ready: ReadyMade) -> list[str]:
    """Return command lines to begin with."""
    return [
        f"answerkey run {ready.name} --model openai/gpt-4.1-nano",
        f"answerkey run {ready.name} --dataset FILE_OR_FOLDER --model builtin/random",
        f"answerkey score {ready.name} --dataset FILE_OR_FOLDER --completions completions.jsonl",
        f"answerkey init my-project --task {ready.name}",
    ]


def describe_ready_made(tasks: Sequence[ReadyMade]) -> dict[str, Any]:
    """Return ready-made tasks as plain values."""
    return {"tasks": [{**one.describe(), "commands": list_commands(one)} for one in tasks]}


# --------------------------------------------------------------------------------- the log of
# another tool


def draw_import(found: Imported, width: int) -> list[Line]:
    """Return what was read, how much of it, what the tool says of it, and where it lies now."""
    lines = [line(Span("Imported", "title"))]
    facts: dict[str, str | None] = {"log": f"{found.title} ({found.kind})"}
    for one in found.tasks:
        told = one.description
        trials = f", {one.num_trials} times each" if one.num_trials > 1 else ""
        theirs = f"`{told.score}`: " if told.score else ""
        theirs += "" if one.their_mean is None else f"{format_percent(one.their_mean)} right, "
        reported = ", ".join(
            f"{name} {value:.6g}" for name, value in list(told.reported.items())[:3]
        )
        theirs += f"{one.judged} judged" + (f"; the log reports {reported}" if reported else "")
        facts |= {
            "task": told.task or None,
            "model": told.model or None,
            "samples": f"{format_count(one.samples, 'sample')}{trials}",
            "completions": ", ".join(f"{count} {status}" for status, count in one.statuses.items()),
            "their verdict": theirs if one.judged else None,
        }
        if one is not found.tasks[-1]:
            lines += draw_facts([(name, text) for name, text in facts.items() if text], width)
            facts = {}
    facts |= {
        "left out": f"{found.broken} broken lines or members" if found.broken else None,
        "folder": str(found.folder),
    }
    return [*lines, *draw_facts([(name, text) for name, text in facts.items() if text], width)]
