"""One sample's whole way: row, prompt, completion, and per scorer the verdict and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from answerkey.errors import RunError, suggest
from answerkey.evaluate.pairs import AnyRun
from answerkey.evaluate.reopen import find_task
from answerkey.exporters import describe_verdict, to_json
from answerkey.models.images import hide_images
from answerkey.reports.preview import draw_block, draw_heading, draw_messages
from answerkey.reports.sample_view import explain_score
from answerkey.reports.samples import Excerpt, SampleSource, find_position
from answerkey.reports.view import Entry, Json, count_trials, read_ids
from answerkey.runs import Run, TaskRun, load_run
from answerkey.text import (
    BLANK,
    INDENT,
    Drawn,
    Lines,
    Role,
    Span,
    draw_labelled,
    join_blocks,
    make_visible,
    measure_width,
    show_place,
)
from answerkey.types import IMPORTED_SCHEMA

#: Texts that would look like other values.
LIKE_JSON = frozenset({"", "null", "true", "false"})
#: How many ids are searched for one that is meant.
SEARCHED_IDS = 20_000


@dataclass(frozen=True)
class Explanation(Drawn):
    """One sample's way in every task that has it, and in every trial; each is a mapping."""

    samples: tuple[Entry, ...]

    def draw(self, width: int) -> Lines:
        """Return its lines, each of at most `width` cells."""
        return join_blocks(draw_explained(explained, width) for explained in self.samples)


def explain(
    run: AnyRun,
    sample: str | int,
    *,
    task: str | None = None,
) -> Explanation:
    """Return the sample's way in every task that has it, or in the one named.

    E504 when none has it. `sample` is its id, or the number of its row where ids are numbers. A
    sample that was asked several times has a way for each trial. `sample` and `completion` are None
    where the run's files are gone (see `missing`); `imported` is another tool's verdict, where
    there is one.
    """
    run, name = load_run(run), str(sample)
    tasks = list(run.tasks.values())
    if task:
        tasks = [find_task(run, task)]
    ways = []
    for task_run in tasks:
        position = find_position(task_run, name)
        if position is not None:
            source = SampleSource(run, task_run)
            for trial in range(count_trials(task_run)):
                ways.append(_explain_row(run, task_run, source, position + trial))
    if not ways:
        raise _refuse_sample(name, tasks)
    return Explanation(tuple(ways))


def _refuse_sample(name: str, tasks: Sequence[TaskRun]) -> RunError:
    """Return E504 for an id that no sample has, with the ids that are near."""
    ids: list[str] = []
    for task in tasks:
        ids.extend(read_ids(task, 0, SEARCHED_IDS))
    likely = name.zfill(6) if name.isdecimal() else name
    hint = suggest(likely, ids)
    if hint is None and ids:
        hint = f"the ids go from `{ids[0]}` to `{ids[-1]}`"
    return RunError("E504", f"there is no sample `{name}` in this run", hint=hint)


def describe_explained(explained: Entry) -> Json:
    """Return the sample's way as `--json` prints it."""
    # Through text once: dates and other values that JSON lacks become what they print as.
    described: Json = json.loads(to_json(explained))
    del described["scorers"]
    return described


def _explain_row(
    run: Run,
    task: TaskRun,
    source: SampleSource,
    position: int,
) -> Json:
    part = next(source.read([position]))
    stored = part.scores.row(0, named=True)
    explained: Json = {
        "run": None if run.path is None else str(run.path),
        "task": task.key,
        "sample_id": str(stored["sample_id"]),
    }
    if source.num_trials > 1:
        explained["trial"] = int(stored["trial"])
    explained["where"] = None
    explained["missing"] = source.missing
    explained["sample"] = None
    if part.samples is not None:
        place = part.samples.place(0)
        explained["where"] = show_place(place) or None
        explained["sample"] = dict(part.samples.row(0))
    explained |= _describe_completion(part)
    explained["scores"] = {}
    for step in source.task.scoring:
        if step.key in stored:
            encoded = source.encoded[step.key]
            verdict = describe_verdict(stored[step.key], encoded)
            verdict["why"] = explain_score(step.scorer, verdict, part, 0)
            explained["scores"][step.key] = verdict
    if part.completions is not None:
        completions = part.completions.frame.row(0, named=True)
        imported = {}
        for name in IMPORTED_SCHEMA:
            if name in completions:
                imported[name] = completions[name]
        if imported:
            explained["imported"] = imported
    explained["scorers"] = {}
    for entry in task.manifest["scorers"]:
        explained["scorers"][entry["key"]] = entry
    return explained


def _describe_completion(part: Excerpt) -> Json:
    if part.completions is None:
        return dict.fromkeys(("prompt", "completion", "completion_status"))
    completion = part.completions.items[0]
    described: Json = {
        "prompt": completion.prompt and list(completion.prompt),
        "completion": completion.text,
        "completion_status": completion.status.value,
    }
    if completion.reasoning:
        described["reasoning"] = completion.reasoning
    return described


# ── as lines


def draw_explained(explained: Entry, width: int) -> Lines:
    """Return the sample's way from its row to its scores, nothing cut."""
    title = f"Sample {explained['sample_id']}"
    trial = f", trial {explained['trial']}" if "trial" in explained else ""
    lines: Lines = [(Span(title, "title"), f" in task {explained['task']}{trial}")]
    if explained["where"]:
        lines.append((Span("  --> ", "dim"), explained["where"]))
    if explained["missing"]:
        lines.append((Span("warning", "warn"), f": {explained['missing']}"))
    if explained["sample"] is not None:
        lines += draw_heading("Row")
        lines += _draw_pairs(explained["sample"], width)
    if explained["completion_status"] is not None:
        lines += _draw_exchange(explained)
    for key, score in explained["scores"].items():
        about = explained["scorers"].get(key, {})
        lines.append(BLANK)
        lines += _draw_score(key, score, about, width)
    if "imported" in explained:
        lines += draw_heading("Imported verdict")
        lines += _draw_pairs(explained["imported"], width)
    return lines


def _draw_exchange(explained: Entry) -> Lines:
    lines = draw_messages("Prompt", explained["prompt"] or ())
    if "reasoning" in explained:
        lines += draw_heading("Thoughts")
        lines += draw_block(explained["reasoning"])
    lines += draw_heading("Completion", f"  {explained['completion_status']}")
    text = explained["completion"]
    if text:
        return lines + draw_block(text)
    nothing = "no text" if text is None else "empty text"
    lines.append((INDENT, Span(nothing, "dim")))
    return lines


def _draw_score(
    key: str,
    score: Entry,
    about: Entry,
    width: int,
) -> Lines:
    values = score["values"]
    metadata = score["metadata"]
    status = Span(score["status"], "strong")
    if values.get("is_correct") == 1:
        status = Span("SCORED, correct", "good")
    elif values.get("is_correct") == 0:
        is_invalid = metadata.get("completion_validity") == "INVALID"
        role: Role = "warn" if is_invalid else "bad"
        status = Span("SCORED, not correct", role)
    facts = {**values, **metadata}
    if score["status"] != "SCORED":
        facts = {"reason": score["reason"]}
        for name, value in {**values, **metadata}.items():
            if value is not None:
                facts[name] = value
    if score.get("excluded_by"):
        facts["excluded by"] = f"action `{score['excluded_by']}`"
    if score["why"] is not None:
        facts["why"] = score["why"]
    scorer = str(about.get("display_name") or key)
    purpose = " (qa: not part of the score)" if about.get("purpose") == "qa" else ""
    head = (Span("Score", "title"), f" by {scorer}{purpose}  ", status)
    return [head, *_draw_pairs(facts, width)]


def _draw_pairs(pairs: Mapping[str, object], width: int) -> Lines:
    """Return names and values.

    Text as it is, what is no text or would look like something else as JSON.
    """
    names = [make_visible(str(name)) for name in pairs]
    room = max(map(measure_width, names), default=0)
    lines: Lines = []
    for name, value in zip(names, pairs.values(), strict=True):
        text = _write_plainly(value)
        padding = " " * (room - measure_width(name))
        label = Span(f"{INDENT}{name}{padding}  ", "dim")
        shown = make_visible(hide_images(text), keep_lines=True)
        for paragraph in shown.split("\n"):
            lines += draw_labelled(label, paragraph, width)
            label = Span(" " * (room + 4))
    return lines


def _write_plainly(value: object) -> str:
    is_plain = isinstance(value, str) and value == value.strip()
    if is_plain and value not in LIKE_JSON:
        return str(value)
    return to_json(value)
