"""What commands show before there is a run: `check`, `doctor`, `--dry-run`, `tasks`, `import`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from answerkey.errors import hide_secrets
from answerkey.evaluate.dry_run import Checked, DryRun, PlannedTask
from answerkey.importers.imports import Imported, ImportedTask
from answerkey.reports.messages import draw_messages
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
)

# ── check


def draw_check(checked: Checked, width: int) -> list[Line]:
    """Return every error, every warning, and the count."""
    lines: list[Line] = []
    for block in (draw_problems(checked.errors, width), *map(draw_notice, checked.notices)):
        if block:
            lines += [*block, BLANK]
    errors = format_count(len(checked.errors), "error")
    warnings = format_count(len(checked.notices), "warning")
    tasks = format_count(len(checked.tasks), "task")
    rows = format_count(sum(task.rows for task in checked.tasks), "row")
    text = f": {errors}, {warnings}; {tasks}, {rows} checked"
    return [*lines, line(_say_good(is_good=not checked.errors), text)]


def _say_good(*, is_good: bool) -> Span:
    return Span("good", "good") if is_good else Span("not good", "bad")


def describe_check(checked: Checked, file: str) -> dict[str, Any]:
    """Return what `check --json` prints."""
    tasks = []
    for task in checked.tasks:
        tasks.append({"key": task.key, "dataset": task.dataset, "rows": task.rows})
    return {
        "check": {"file": hide_secrets(file), "good": not checked.errors, "tasks": tasks},
        **describe_problems(checked.errors),
        "notices": describe_notices(checked.notices),
    }


# ── doctor

_SIGNS = {"good": "✓", "note": "·", "warning": "!", "failed": "✗"}
_ROLES: dict[str, Role] = {"good": "good", "note": "dim", "warning": "warn", "failed": "bad"}


def draw_examination(found: Mapping[str, Any], width: int) -> list[Line]:
    """Return each check with what was seen, what it means and what to do, then the count."""
    about = f"task {found['task']}" if found["task"] else "built-in questions"
    lines = [line(Span(found["model"], "title"), f": {about}")]
    longest = max(len(check["check"]) for check in found["checks"])
    for check in found["checks"]:
        status = check["status"]
        head = f"{INDENT}{_SIGNS[status]} {status:<7}{GAP}{check['check']:<{longest}}{GAP}"
        texts = [check["seen"]]
        if check["means"]:
            texts.append(f"means: {check['means']}")
        if check["advice"]:
            texts.append(f"do: {check['advice']}")
        drawn: list[Line] = []
        for text in texts:
            drawn += draw_text(text, width, indent=" " * len(head))
        first, *further = drawn
        lines += [line(Span(head, _ROLES[status]), first[0].text.lstrip()), *further]
    counts = Counter(check["status"] for check in found["checks"])
    text = f": {counts['failed']} failed, {format_count(counts['warning'], 'warning')}; "
    text += f"{format_count(found['calls'], 'call')}, "
    text += f"{found['prompt_tokens']} + {found['completion_tokens']} tokens"
    if found["cost"] is not None:
        text += f", {found['cost']:.5f} USD"
    text += f", {found['seconds']:.1f} s"
    return [*lines, line(_say_good(is_good=found["good"]), text)]


# ── dry run


def draw_plan(plan: DryRun) -> list[Line]:
    """Return what a run would ask, task by task, with the first prompt in full."""
    lines = [line(Span("Dry run", "title"), ": no model was called, nothing was written")]
    for task in plan.tasks:
        lines += [BLANK, line(Span(task.key, "title"))]
        lines += draw_facts(_list_facts(task).items(), UNLIMITED)
        lines += draw_messages("First prompt", task.first_prompt or ())
    return lines


def _list_facts(task: PlannedTask) -> dict[str, str]:
    facts = {
        "model": task.model or "none: completions are recorded",
        "samples": str(task.samples),
    }
    if task.model and task.prompts != task.samples:
        each = f"{task.prompts / max(task.samples, 1):.4g} for each sample (orders and trials)"
        facts["prompts"] = f"{task.prompts}: {each}"
    facts["calls"] = str(task.calls)
    if task.cached:
        facts["calls"] += f", and {task.cached} from the cache"
    facts["prompt tokens"] = f"about {task.prompt_tokens} (characters / 4)"
    if task.completion_tokens is not None:
        facts["completion tokens"] = f"at most {task.completion_tokens}"
    elif task.cost != 0:
        facts["completion tokens"] = "unknown: the model has no `max_tokens`"
    facts["cost"] = "unknown"
    if task.cost is not None:
        facts["cost"] = f"at most {format_cost(task.cost)}" if task.cost else "0.00 USD"
    apart = "calls more; tokens and cost are not in the above"
    if task.judge_calls:
        facts["judge"] = f"about {task.judge_calls} {apart}"
    if task.fallback_calls:
        facts["fallback"] = f"at most {task.fallback_calls} {apart}"
    return facts


def describe_plan(plan: DryRun) -> dict[str, Any]:
    """Return what `run --dry-run --json` prints below `dry_run`."""
    return {"tasks": [vars(task) for task in plan.tasks]}


# ── ready-made tasks


def draw_ready_made(tasks: Sequence[ReadyMade], width: int) -> list[Line]:
    """Return the list of ready-made tasks."""
    rows = []
    for task in tasks:
        about = task.about
        rows.append(
            (
                Span(task.name, "strong"),
                "" if about.rows is None else f"{about.rows:,}",
                about.options,
                "" if about.chance is None else format_percent(about.chance),
                " ".join(about.languages),
                about.licence,
            )
        )
    header = ("task", "questions", "options", "chance", "language", "licence")
    return lay_out(Table(header, rows, "<>>><<", flexible=5), width)


def draw_ready_made_task(ready: ReadyMade, width: int) -> list[Line]:
    """Return all that is to be known of a ready-made task, and how it is run."""
    lines = [line(Span(ready.name, "title"), f"  {ready.about.title}")]
    lines += [*draw_text(ready.about.summary, width, indent=""), BLANK]
    lines += draw_facts(_list_properties(ready), UNLIMITED)
    lines += [BLANK, line(Span("Files that are read with `--dataset`", "head"))]
    for form in ready.forms:
        lines += draw_text(f"- {form.description}", width)
    lines += [BLANK, line(Span("Config values", "head"))]
    rows = []
    for key, value, text in ready.parameters:
        rows.append((key, "" if value is None else str(value), text))
    lines += lay_out(Table(("name", "default", "meaning"), rows, "<<<", flexible=2), width)
    lines += [BLANK, line(Span("Run it", "head"))]
    return [*lines, *(line(f"  {command}") for command in list_commands(ready))]


def _list_properties(ready: ReadyMade) -> Iterator[tuple[str, str]]:
    about = ready.about
    if about.rows is not None:
        yield "questions", f"{about.rows:,}"
    yield "options", about.options
    chance = "differs from question to question; `answerkey audit` says it"
    if about.chance is not None:
        chance = format_percent(about.chance)
    yield "chance", chance
    if about.category:
        yield "category", f"column `{about.category}`"
    yield "language", ", ".join(about.languages)
    yield "licence", about.licence
    yield "homepage", about.homepage
    yield "cite as", about.citation
    hub = ", ".join(map(str, ready.describe()["hub"].values()))
    if about.gated:
        hub += " (it wants a token and accepted terms)"
    yield "on the hub", hub
    for expected in about.expected:
        yield "expected", "{model}: {value:.2%} ({setting}; {source})".format(**expected)


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
    return {"tasks": [{**task.describe(), "commands": list_commands(task)} for task in tasks]}


# ── the log of another tool


def draw_import(imported: Imported, width: int) -> list[Line]:
    """Return what was read, how much of it, what the tool says of it, and where it lies now."""
    lines = [line(Span("Imported", "title"))]
    facts = {"log": f"{imported.title} ({imported.kind})"}
    for number, task in enumerate(imported.tasks):
        if number:
            lines += draw_facts(facts.items(), width)
            facts = {}
        facts |= _list_imported(task)
    if imported.broken:
        facts["left out"] = f"{imported.broken} broken lines or members"
    facts["folder"] = str(imported.folder)
    return [*lines, *draw_facts(facts.items(), width)]


def _list_imported(task: ImportedTask) -> dict[str, str]:
    about = task.description
    facts = {}
    if about.task:
        facts["task"] = about.task
    if about.model:
        facts["model"] = about.model
    facts["samples"] = format_count(task.samples, "sample")
    if task.num_trials > 1:
        facts["samples"] += f", {task.num_trials} times each"
    statuses = [f"{count} {status}" for status, count in task.statuses.items()]
    if statuses:
        facts["completions"] = ", ".join(statuses)
    if task.judged:
        verdict = f"`{about.score}`: " if about.score else ""
        if task.their_mean is not None:
            verdict += f"{format_percent(task.their_mean)} right, "
        verdict += f"{task.judged} judged"
        reported = [f"{name} {value:.6g}" for name, value in list(about.reported.items())[:3]]
        if reported:
            verdict += f"; the log reports {', '.join(reported)}"
        facts["their verdict"] = verdict
    return facts
