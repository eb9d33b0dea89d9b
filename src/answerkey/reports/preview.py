"""What commands show before there is a run: `check`, `doctor`, `--dry-run`, `tasks`, `import`.

Prompts and completions in full, which `explain` shows as well, are at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from answerkey.errors import hide_secrets
from answerkey.exporters import to_json
from answerkey.models import images
from answerkey.reports.terminal import UNLIMITED, format_cost
from answerkey.reports.view import Entry, Json
from answerkey.text import (
    BLANK,
    GAP,
    INDENT,
    Lines,
    Role,
    Span,
    describe_notices,
    describe_problems,
    draw_facts,
    draw_labelled,
    draw_notice,
    draw_problems,
    draw_table,
    draw_text,
    format_count,
    format_percent,
    make_visible,
)

if TYPE_CHECKING:  # each command has loaded what it shows
    from answerkey.evaluate.dry_run import Checked, DryRun, PlannedTask
    from answerkey.importers.imports import Imported
    from answerkey.importers.task_tables import ImportedTask
    from answerkey.spec.ready_made import ReadyMade

# ── check


def draw_check(checked: Checked, width: int) -> Lines:
    """Return every error, every warning, and the count."""
    lines: Lines = []
    if checked.errors:
        lines += [*draw_problems(checked.errors, width), BLANK]
    for notice in checked.notices:
        lines += [*draw_notice(notice), BLANK]
    errors = format_count(len(checked.errors), "error")
    warnings = format_count(len(checked.notices), "warning")
    tasks = format_count(len(checked.tasks), "task")
    count = sum(task.rows for task in checked.tasks)
    rows = format_count(count, "row")
    text = f": {errors}, {warnings}; {tasks}, {rows} checked"
    verdict = _state_outcome(is_good=not checked.errors)
    return [*lines, (verdict, text)]


def _state_outcome(*, is_good: bool) -> Span:
    return Span("passed", "good") if is_good else Span("failed", "bad")


def describe_check(checked: Checked, file: str) -> Json:
    """Return what `check --json` prints."""
    tasks = []
    for task in checked.tasks:
        described = {
            "key": task.key,
            "dataset": task.dataset,
            "rows": task.rows,
        }
        tasks.append(described)
    return {
        "check": {
            "file": hide_secrets(file),
            "good": not checked.errors,
            "tasks": tasks,
        },
        **describe_problems(checked.errors),
        "notices": describe_notices(checked.notices),
    }


# ── doctor

_SIGNS: dict[str, tuple[str, Role]] = {
    "good": ("✓", "good"),
    "note": ("·", "dim"),
    "warning": ("!", "warn"),
    "failed": ("✗", "bad"),
}


def draw_examination(examined: Entry, width: int) -> Lines:
    """Return each check with what was seen, what it means and what to do, then the count."""
    about = f"task {examined['task']}" if examined["task"] else "built-in questions"
    lines: Lines = [(Span(examined["model"], "title"), f": {about}")]
    names = [check["check"] for check in examined["checks"]]
    longest = max(map(len, names))
    for check in examined["checks"]:
        status = check["status"]
        sign, role = _SIGNS[status]
        head = f"{INDENT}{sign} {status:<7}{GAP}{check['check']:<{longest}}{GAP}"
        texts = [check["seen"]]
        if check["means"]:
            texts.append(f"means: {check['means']}")
        if check["advice"]:
            texts.append(f"do: {check['advice']}")
        label = Span(head, role)
        for text in texts:
            lines += draw_labelled(label, text, width)
            label = Span(" " * len(head))
    counts = Counter(check["status"] for check in examined["checks"])
    warnings = format_count(counts["warning"], "warning")
    calls = format_count(examined["calls"], "call")
    tokens = f"{examined['prompt_tokens']} + {examined['completion_tokens']} tokens"
    errors = format_count(counts["failed"], "error")
    text = f": {errors}, {warnings}; {calls}, {tokens}"
    if examined["cost"] is not None:
        text += f", {examined['cost']:.5f} USD"
    text += f", {examined['seconds']:.1f} s"
    verdict = _state_outcome(is_good=examined["good"])
    return [*lines, (verdict, text)]


# ── dry run


def draw_plan(plan: DryRun) -> Lines:
    """Return what a run would ask, task by task, with the first prompt in full."""
    lines: Lines = [(Span("Dry run", "title"), ": no model was called, nothing was written")]
    for task in plan.tasks:
        lines += draw_heading(task.key)
        lines += draw_facts(_list_facts(task).items(), UNLIMITED)
        lines += draw_messages("First prompt", task.first_prompt or ())
    return lines


def _list_facts(task: PlannedTask) -> dict[str, str]:
    facts = {
        "model": task.model or "none: completions are recorded",
        "samples": str(task.samples),
    }
    is_repeated = task.prompts != task.samples
    if task.model and is_repeated:
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


def describe_plan(plan: DryRun) -> Json:
    """Return what `run --dry-run --json` prints below `dry_run`."""
    return {"tasks": [vars(task) for task in plan.tasks]}


# ── ready-made tasks


def draw_ready_made(tasks: Sequence[ReadyMade], width: int) -> Lines:
    """Return the list of ready-made tasks."""
    rows = []
    for task in tasks:
        about = task.about
        cells = (
            Span(task.name, "strong"),
            "" if about.rows is None else f"{about.rows:,}",
            about.options,
            "" if about.chance is None else format_percent(about.chance),
            " ".join(about.languages),
            about.licence,
        )
        rows.append(cells)
    header = ("task", "questions", "options", "chance", "language", "licence")
    return draw_table(header, rows, "<>>><~", width)


def draw_ready_made_task(ready: ReadyMade, width: int) -> Lines:
    """Return all that is to be known of a ready-made task, and how it is run."""
    lines: Lines = [(Span(ready.name, "title"), f"  {ready.about.title}")]
    lines += draw_text(ready.about.summary, width, indent="")
    lines.append(BLANK)
    lines += draw_facts(_list_properties(ready), UNLIMITED)
    lines += [BLANK, Span("Files that are read with `--dataset`", "head")]
    for form in ready.forms:
        lines += draw_text(f"- {form.description}", width)
    lines += [BLANK, Span("Config values", "head")]
    rows = []
    for key, value, text in ready.parameters:
        default = "" if value is None else str(value)
        rows.append((key, default, text))
    header = ("name", "default", "meaning")
    lines += draw_table(header, rows, "<<~", width)
    lines += [BLANK, Span("Run it", "head")]
    for command in list_commands(ready):
        lines.append(f"  {command}")
    return lines


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
    places = ready.describe()["hub"]
    hub = ", ".join(map(str, places.values()))
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


def describe_ready_made(tasks: Sequence[ReadyMade]) -> Json:
    """Return ready-made tasks as plain values."""
    described = []
    for task in tasks:
        about = task.describe()
        about["commands"] = list_commands(task)
        described.append(about)
    return {"tasks": described}


# ── the log of another tool


def draw_import(imported: Imported, width: int) -> Lines:
    """Return what was read, how much of it, what the tool says of it, and where it lies now."""
    lines: Lines = [Span("Imported", "title")]
    facts = {"log": f"{imported.title} ({imported.kind})"}
    for number, task in enumerate(imported.tasks):
        if number:
            lines += draw_facts(facts.items(), width)
            facts = {}
        facts |= _list_imported(task)
    if imported.damaged:
        facts["left out"] = format_count(imported.damaged, "damaged record")
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
        facts["their verdict"] = _format_verdict(task)
    return facts


def _format_verdict(task: ImportedTask) -> str:
    about = task.description
    verdict = f"`{about.score}`: " if about.score else ""
    if task.imported_mean is not None:
        verdict += f"{format_percent(task.imported_mean)} right, "
    return f"{verdict}{task.judged} judged"


# ── prompts and completions in full

#: How many blank lines in a row are shown as they are.
MAX_BLANK = 20


def draw_heading(title: str, note: str = "") -> Lines:
    """Return a title below a blank line."""
    return [BLANK, (Span(title, "title"), note)]


def draw_messages(
    title: str,
    messages: Sequence[Mapping[str, object]],
) -> Lines:
    """Return messages in full under a title; nothing for none."""
    lines = draw_heading(title) if messages else []
    for message in messages:
        role = str(message.get("role", "?"))
        lines.append((INDENT, Span(role, "dim")))
        lines += draw_block(write_value(message.get("content")))
    return lines


def draw_block(text: str) -> Lines:
    """Return the lines of a text; a long run of blank lines becomes a count."""
    lines: Lines = []
    margin = Span("  | ", "dim")
    texts = make_visible(text, keep_lines=True).split("\n")
    for has_text, group in groupby(texts, key=lambda text: bool(text.strip())):
        alike = list(group)
        if not has_text and len(alike) > MAX_BLANK:
            count = f"({len(alike):,} blank lines)"
            lines.append((margin, Span(count, "dim")))
        else:
            lines += [(margin, text) for text in alike]
    return lines


def write_value(value: object) -> str:
    """Return a value as text, with words in place of images."""
    if isinstance(value, str):
        return images.hide_images(value)
    return images.describe_content(value) or images.hide_images(to_json(value))
