"""One sample's whole way: row, prompt, completion, and per scorer the verdict and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl

from answerkey.errors import RunError, find_near, listing
from answerkey.evaluate.pairs import AnyRun
from answerkey.evaluate.reopen import find_task, reopen
from answerkey.exporters import describe_verdict, find_encoded, to_json
from answerkey.models.images import hide_images, write_content
from answerkey.reports.view import count_trials, show_path
from answerkey.runs import Run, TaskRun, load_run
from answerkey.scorers import Scorer, explain_verdict, judge, reads_choices
from answerkey.text import (
    BLANK,
    INDENT,
    Drawn,
    Line,
    Role,
    Span,
    clean_numbers,
    join_blocks,
    line,
    make_visible,
    measure_width,
    show_place,
    wrap,
)
from answerkey.types import THEIR_SCHEMA, Completion, Completions, Samples, Score, ScoreStatus

#: So many blank lines in a row are shown as they are.
_MOST_BLANK = 20
#: So many ids are read together, and so many are searched for one that is meant.
READ_IDS, SEARCHED_IDS = 500_000, 20_000


@dataclass(frozen=True)
class Explanation(Drawn):
    """One sample's way in every task that has it, and in every trial; each is a mapping."""

    drawn_by = "answerkey.reports.explain:draw_explanation"

    samples: tuple[Mapping[str, Any], ...]


def explain(run: AnyRun, sample: str | int, *, task: str | None = None) -> Explanation:
    """Return the sample's way in every task that has it, or in the one named.

    E504 when none has it. `sample` is its id, or the number of its row where ids are numbers. A
    sample that was asked several times has a way for each trial. `sample` and `completion` are None
    where the run's files are gone (see `missing`); `theirs` is another tool's verdict, where there
    is one.
    """
    run, name = load_run(run), str(sample)
    tasks = [find_task(run, task)] if task else list(run.tasks.values())
    ways = []
    for task_run in tasks:
        position = find_position(task_run, name)
        if position is not None:
            for trial in range(count_trials(task_run)):
                ways.append(_explain_in_task(run, task_run, position + trial))
    if not ways:
        raise _refuse_sample(name, tasks)
    return Explanation(tuple(ways))


def _refuse_sample(name: str, tasks: Sequence[TaskRun]) -> RunError:
    """Return E504 for an id that no sample has, with the ids that are near."""
    ids: list[str] = []
    for task in tasks:
        ids += map(str, task.stored_scores.read(0, SEARCHED_IDS, ["sample_id"])["sample_id"])
    hint = "the run has no samples"
    if ids:
        hint = f"the ids go from `{ids[0]}` to `{ids[-1]}`"
    near = [sample_id for sample_id in ids if sample_id.startswith(name)][:3]
    if not near:
        near = find_near(name.zfill(6) if name.isdecimal() else name, ids, most=3)
    if near:
        hint = f"near it: {listing(near)}"
    return RunError("E504", f"there is no sample `{name}` in this run", hint=hint)


def draw_explanation(explanation: Explanation, width: int) -> list[Line]:
    """Return all of it as lines, one way after the other."""
    return join_blocks(draw_explained(one, width) for one in explanation.samples)


def describe_explained(explained: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sample's way as `--json` prints it."""
    described = {name: value for name, value in explained.items() if name != "scorers"}
    # Through text once: dates and other values that JSON lacks become what they print as.
    plain: dict[str, Any] = json.loads(json.dumps(clean_numbers(described), default=str))
    return plain


def find_position(task: TaskRun, name: str) -> int | None:
    """Return where a sample stands in the run, by its id or by the number of its row."""
    names = [name]
    if name.isdecimal() and name.isascii():
        names.append(name.zfill(6))
    positions: dict[str, int] = {}
    for offset, ids in iterate_ids(task):
        for sample_id in names:
            position = ids.index_of(sample_id)
            if position is not None:
                positions.setdefault(sample_id, offset + int(position))
        if name in positions:
            break
    return positions.get(name, positions.get(names[-1]))


def iterate_ids(task: TaskRun) -> Iterator[tuple[int, pl.Series]]:
    """Yield the ids of a task's rows, some at a time, with the position of the first of them."""
    scores = task.stored_scores
    for offset in range(0, len(scores), READ_IDS):
        yield offset, scores.read(offset, READ_IDS, ["sample_id"])["sample_id"]


def _explain_in_task(run: Run, task: TaskRun, position: int) -> dict[str, Any]:
    stored = task.stored_scores.read(position, 1).row(0, named=True)
    sample_id, trial = stored.pop("sample_id"), stored.pop("trial")
    encoded = find_encoded(task)
    scores: dict[str, dict[str, Any]] = {}
    for key, verdict in stored.items():
        scores[key] = {**describe_verdict(verdict, encoded.get(key, ())), "why": None}
    size = count_trials(task)
    explained: dict[str, Any] = {
        "run": show_path(run),
        "task": task.key,
        "sample_id": str(sample_id),
    }
    if size > 1:
        explained["trial"] = int(trial)
    explained |= dict.fromkeys(("where", "missing", "sample"))
    theirs = {}
    completion: Completion | None = None
    try:
        opened = reopen(run, task.key)
    except RunError as error:
        explained["missing"] = error.message
        if len(task.stored_completions):
            kept = task.stored_completions.read(position, 1)
            completion = next(Completions.from_frame(kept).rows(), None)
    else:
        part = opened.read(position // size, 1).slice(position % size, 1)
        completion = next(part.completions.rows())
        explained["where"] = show_place(part.samples.place(0)) or None
        explained["sample"] = dict(part.samples.row(0))
        replies = part.completions.frame
        theirs = {name: replies[name][0] for name in THEIR_SCHEMA if name in replies.columns}
        for step in opened.task.scoring:
            if step.key in scores:
                why = _find_why(step.scorer, part.samples, completion, scores[step.key])
                scores[step.key]["why"] = why
    explained |= _describe_completion(completion)
    explained["scores"] = scores
    if theirs:
        explained["theirs"] = theirs
    explained["scorers"] = {entry["key"]: entry for entry in task.manifest.get("scorers") or []}
    return explained


def _describe_completion(completion: Completion | None) -> dict[str, Any]:
    if completion is None:
        return dict.fromkeys(("prompt", "completion", "completion_status"))
    described: dict[str, Any] = {
        "prompt": None if completion.prompt is None else list(completion.prompt),
        "completion": completion.text,
        "completion_status": completion.status.value,
    }
    if completion.reasoning:
        described["reasoning"] = completion.reasoning
    return described


def _find_why(
    scorer: Scorer, samples: Samples, completion: Completion, score: Mapping[str, Any]
) -> str | None:
    """Return why the verdict is so: the row's own error, or the rule that `judge` followed."""
    metadata = score["metadata"]
    said: str | None = metadata.get("judge_error") or metadata.get("fallback_error")
    if score["status"] == ScoreStatus.FAILED.value:
        problems, _ = scorer.check_rows(samples)
        return problems[0].error.message if problems else said
    if score["status"] == ScoreStatus.ERROR.value:
        return said
    if not reads_choices(scorer):
        return None
    choices, truth = metadata["choices"], metadata["ground_truth_choice"]
    if scorer.model_key is not None:  # what a model read is not read again
        return explain_verdict(completion, choices, Score(ScoreStatus.SCORED, metadata=metadata))
    options = None
    if scorer.options is not None:
        [options] = scorer.option_texts(samples)
    return explain_verdict(
        completion, choices, judge(completion, choices, truth, scorer.extraction, options)
    )


# -------------------------------------------------------------------------------------------- as
# lines


def draw_explained(explained: Mapping[str, Any], width: int) -> list[Line]:
    """Return the sample's way from its row to its scores, nothing cut."""
    sample_id, task = explained["sample_id"], explained["task"]
    trial = f", trial {explained['trial']}" if "trial" in explained else ""
    lines = [line(Span(f"Sample {sample_id}", "title"), f" in task {task}{trial}")]
    if explained["where"]:
        lines.append(line(Span("  --> ", "dim"), explained["where"]))
    if explained["missing"]:
        lines.append(line(Span("warning", "warn"), f": {explained['missing']}"))
    if explained["sample"] is not None:
        lines += [BLANK, line(Span("Row", "title")), *_draw_pairs(explained["sample"], width)]
    if explained["completion_status"] is not None:
        lines += draw_messages("Prompt", explained["prompt"] or ())
        text = explained["completion"]
        if "reasoning" in explained:
            lines += [BLANK, line(Span("Thoughts", "title")), *_draw_block(explained["reasoning"])]
        lines += [BLANK, line(Span("Completion", "title"), f"  {explained['completion_status']}")]
        none = line(INDENT, Span("no text" if text is None else "empty text", "dim"))
        lines += _draw_block(text) if text else [none]
    for key, score in explained["scores"].items():
        lines += [BLANK, *_draw_score(key, score, explained["scorers"].get(key, {}), width)]
    if "theirs" in explained:
        lines += [
            BLANK,
            line(Span("Imported verdict", "title")),
            *_draw_pairs(explained["theirs"], width),
        ]
    return lines


def _draw_score(
    key: str, score: Mapping[str, Any], about: Mapping[str, Any], width: int
) -> list[Line]:
    is_scored = score["status"] == "SCORED"
    correct = score["values"].get("is_correct") if is_scored else None
    status = Span(score["status"], "strong")
    if correct in {0, 1}:
        wrong: Role = "warn" if score["metadata"].get("completion_validity") == "INVALID" else "bad"
        status = Span("SCORED, correct", "good") if correct else Span("SCORED, not correct", wrong)
    purpose = " (qa: not part of the score)" if about.get("purpose") == "qa" else ""
    name = str(about.get("display_name") or key)
    facts = {"reason": score["reason"]} if score["reason"] else {}
    found = {**score["values"], **score["metadata"]}
    facts |= {fact: value for fact, value in found.items() if is_scored or value is not None}
    lines = [
        line(Span("Score", "title"), f" by {name}{purpose}  ", status),
        *_draw_pairs(facts, width),
    ]
    if score.get("excluded_by"):
        action = str(score["excluded_by"])
        lines.append(line(INDENT, Span(f"kept out of the metrics by action `{action}`", "warn")))
    if score["why"] is not None:
        first, *rest = wrap(make_visible(score["why"]), width - 7)
        lines.append(line(INDENT, Span("why", "strong"), f"  {first}"))
        lines += [line(" " * 7 + more) for more in rest]
    return lines


def _draw_pairs(pairs: Mapping[str, object], width: int) -> list[Line]:
    """Return names and values.

    Text as it is, what is no text or would look like something else as JSON.
    """
    names = [make_visible(str(name)) for name in pairs]
    room = max(map(measure_width, names), default=0)
    lines: list[Line] = []
    for name, value in zip(names, pairs.values(), strict=True):
        is_plain = (
            isinstance(value, str)
            and value == value.strip()
            and value not in {"", "null", "true", "false"}
        )
        told = hide_images(str(value) if is_plain else to_json(value))
        shown = make_visible(told, keep_lines=True).split("\n")
        first, *rest = [part for one in shown for part in wrap(one, max(20, width - room - 4))]
        lines.append(
            line(INDENT, Span(name + " " * (room - measure_width(name)), "dim"), f"  {first}")
        )
        lines += [line(" " * (room + 4) + more) for more in rest]
    return lines


def draw_messages(title: str, messages: Sequence[Mapping[str, object]]) -> list[Line]:
    """Return messages in full under a title; nothing for none."""
    lines = [BLANK, line(Span(title, "title"))] if messages else []
    for message in messages:
        content = message.get("content")
        lines.append(line(INDENT, Span(str(message.get("role", "?")), "dim")))
        told = content if isinstance(content, str) else write_content(content) or to_json(content)
        lines += _draw_block(told)
    return lines


def _draw_block(text: str) -> list[Line]:
    """Return the lines of a text; a long run of blank ones is told as a count."""
    lines: list[Line] = []
    margin = Span("  | ", "dim")
    for is_blank, run in groupby(make_visible(text, keep_lines=True).split("\n"), key=_is_blank):
        texts = list(run)
        if is_blank and len(texts) > _MOST_BLANK:
            lines.append(line(margin, Span(f"({len(texts):,} blank lines)", "dim")))
        else:
            lines += [line(margin, text) for text in texts]
    return lines


def _is_blank(text: str) -> bool:
    return not text.strip()
