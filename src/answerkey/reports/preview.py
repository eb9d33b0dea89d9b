"""What `check` found, and what `--dry-run` would ask."""

from __future__ import annotations

from typing import Any

from answerkey.errors import hide_secrets
from answerkey.evaluate import Checked, CheckedTask, DryRun, PlannedTask, PlannedTemplate
from answerkey.reports.calls import format_cost
from answerkey.reports.explain_text import draw_messages
from answerkey.text import (
    BLANK,
    GAP,
    INDENT,
    Line,
    Span,
    Table,
    describe_notices,
    draw_notice,
    draw_problems,
    format_count,
    lay_out,
    line,
    make_visible,
    wrap,
)


def draw_check(checked: Checked, width: int, *, with_plan: bool = False) -> list[Line]:
    """Return every error, every warning, with `with_plan` how templates are evaluated, and the count."""
    lines = draw_problems(checked.errors)
    for notice in checked.notices:
        lines += [*([BLANK] if lines else []), *draw_notice(notice)]
    for task in checked.tasks if with_plan else ():
        lines += [*([BLANK] if lines else []), *_draw_templates(task, width)]
    return [*lines, *([BLANK] if lines else []), _sum_up(checked)]


def _sum_up(checked: Checked) -> Line:
    found = f"{format_count(len(checked.errors), 'error')}, {format_count(len(checked.notices), 'warning')}"
    rows = sum(task.rows for task in checked.tasks)
    seen = f"{format_count(len(checked.tasks), 'task')}, {format_count(rows, 'row')} checked"
    verdict = Span("not good", "bad") if checked.errors else Span("good", "good")
    return line(verdict, f": {found}; {make_visible(seen)}")


def _draw_templates(task: CheckedTask, width: int) -> list[Line]:
    lines = [line(Span(f"Templates of task {make_visible(task.key)}", "title"))]
    for one in task.templates:
        first, *more = wrap(make_visible(str(one.plan)), width - len(f"{INDENT}{INDENT}template{GAP}"))
        facts = [("template", make_visible(str(one.template.source))), ("plan", first)]
        rows = [(Span(name, "dim"), text) for name, text in (*facts, *(("", text) for text in more))]
        table = Table(("", ""), rows, "<<", flexible=1)
        lines += [line(f"{INDENT}{make_visible(one.field)}"), *lay_out(table, width, indent=INDENT * 2)]
    return lines


def describe_check(checked: Checked, file: str) -> dict[str, Any]:
    """Return what `check --json` prints."""
    tasks = [
        {
            "key": task.key,
            "dataset": task.dataset,
            "rows": task.rows,
            "templates": [_describe_template(one) for one in task.templates],
        }
        for task in checked.tasks
    ]
    return {
        "check": {"file": hide_secrets(file), "good": not checked.errors, "tasks": tasks},
        "errors": [error.describe() for error in checked.errors],
        "notices": describe_notices(checked.notices),
    }


def _describe_template(one: PlannedTemplate) -> dict[str, Any]:
    return {
        "field": one.field,
        "template": one.template.source,
        "kind": one.template.kind,
        "columns": None if one.columns is None else list(one.columns),
        "plan": {
            "kind": one.plan.kind,
            "reads": list(one.plan.reads),
            "why": one.plan.why,
            "text": str(one.plan),
        },
    }


def draw_plan(plan: DryRun) -> list[Line]:
    """Return what a run would ask, task by task, with the first prompt in full."""
    lines: list[Line] = [line(Span("Dry run", "title"), ": nothing was asked, nothing was written")]
    for task in plan.tasks:
        lines += [BLANK, *_draw_planned(task)]
    return lines


def _draw_planned(task: PlannedTask) -> list[Line]:
    facts = [
        ("model", make_visible(task.model or "none: completions are recorded")),
        ("samples", str(task.samples)),
        ("prompts", _say_prompts(task)),
        ("calls", f"{task.calls}{f', and {task.cached} from the cache' if task.cached else ''}"),
        ("prompt tokens", f"about {task.prompt_tokens} (characters / 4)"),
        ("completion tokens", _say_completion_tokens(task)),
        ("cost", _say_cost(task)),
    ]
    if task.judge_calls:
        facts.append(("judge", f"about {task.judge_calls} calls more; tokens and cost are not in the above"))
    table = Table(("", ""), [(Span(name, "dim"), value) for name, value in facts if value], "<<")
    lines = [line(Span(make_visible(task.key), "title")), *lay_out(table, 200)]
    return lines + draw_messages("First prompt", task.first_prompt or ())


def _say_prompts(task: PlannedTask) -> str:
    """Return how many prompts there are, where that is another number than that of samples."""
    if not task.model or task.prompts == task.samples:
        return ""
    return f"{task.prompts}: {task.prompts / max(task.samples, 1):.4g} for each sample (orders and trials)"


def _say_completion_tokens(task: PlannedTask) -> str:
    if task.cost == 0 and task.completion_tokens is None:
        return ""
    most = task.completion_tokens
    return "unknown: the model has no `max_tokens`" if most is None else f"at most {most}"


def _say_cost(task: PlannedTask) -> str:
    if task.cost is None:
        return "unknown"
    return f"{task.cost:.2f} USD" if not task.cost else f"at most {format_cost(task.cost)}"


def describe_plan(plan: DryRun) -> dict[str, Any]:
    """Return what `run --dry-run --json` prints below `dry_run`."""
    tasks = [
        {
            "key": task.key,
            "model": task.model,
            "samples": task.samples,
            "prompts": task.prompts,
            "calls": task.calls,
            "cached": task.cached,
            "judge_calls": task.judge_calls,
            "prompt_tokens": task.prompt_tokens,
            "completion_tokens": task.completion_tokens,
            "cost": task.cost,
            "first_prompt": None if task.first_prompt is None else [dict(one) for one in task.first_prompt],
        }
        for task in plan.tasks
    ]
    return {"tasks": tasks}
