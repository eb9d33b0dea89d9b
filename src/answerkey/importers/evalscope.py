"""evalscope: the folder of a run with `predictions/` and `reviews/`, or one file of either.

A review says what was asked, what was right and how it was judged; the prediction of the same `index` says
more about the reply. The options stand in the prompt only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.importers.logs import (
    DamagedError,
    Log,
    LogFile,
    LogPreview,
    LookupTable,
    Record,
    Row,
    Verdict,
    get,
    get_count,
    get_list,
    get_number,
    get_text,
)
from answerkey.importers.questions import (
    FINISH_REASONS,
    Messages,
    fail,
    find_label,
    find_question,
    find_shown,
    find_truth,
    join_parts,
    join_reasoning,
    name_stem,
    read_messages,
    require_one_model,
)
from answerkey.models.responses import read_message, to_json_values
from answerkey.types import Completion

_FILE = re.compile(r"(.*/)?(?P<part>predictions|reviews)/(?P<model>.+)/(?P<name>[^/]+)\.jsonl(\.gz|\.zst)?")


class EvalscopeReader:
    """Reads what evalscope writes."""

    kind: ClassVar[str] = "evalscope"
    title: ClassVar[str] = "evalscope output"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether there are folders as evalscope has them, or a line of a review or a prediction."""
        if any(_FILE.fullmatch(name) for name in preview.names):
            return True
        return "index" in preview.first and bool({"sample_score", "model_output"} & set(preview.first))

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each reply."""
        sets: dict[str, dict[str, LogFile]] = {}
        models = set()
        for file in log.files():
            match = _FILE.fullmatch(file.name) or _FILE.fullmatch(PurePosixPath(file.file).as_posix())
            if match is not None:
                models.add(match["model"])
                sets.setdefault(match["name"], {})[match["part"]] = file
        hint = "copy the folders of one model, or name one file of its reviews"
        log.description.model = require_one_model(log, models, "the output", hint)
        if not sets:
            lines = (file for file in log.files() if file.name.endswith((".jsonl", ".gz", ".zst")))
            alone = next(lines, None)
            if alone is None:
                message = f"`{log.path}` holds no `predictions` and no `reviews` of evalscope"
                raise log.make_error("E201", message)
            sets = {name_stem(alone.name): {"reviews": alone}}
        log.description.task = next(iter(sets)) if len(sets) == 1 else f"{len(sets)} sets of evalscope"
        for name, files in sorted(sets.items()):
            yield from _read_set(log, name, files, category=None if len(sets) == 1 else name)


def _read_set(log: Log, name: str, files: dict[str, LogFile], *, category: str | None) -> Iterator[Record]:
    """Yield the records of one set; with both files, reviews wait on disk until their predictions come."""
    reviews, predictions = files.get("reviews"), files.get("predictions")
    if reviews is None or predictions is None:
        for file in files.values():
            rows = log.read_lines(file)
            yield from log.convert(rows, lambda row: [_read_row(log, row, row, category)], file)
        return
    used = 0
    with LookupTable() as kept:

        def keep(review: Row) -> list[Record]:
            kept.put(_require_index(review), review)
            return []

        def join(prediction: Row) -> list[Record]:
            return [_read_row(log, kept.get(_require_index(prediction)) or {}, prediction, category)]

        list(log.convert(log.read_lines(reviews), keep, reviews))
        for record in log.convert(log.read_lines(predictions), join, predictions):
            used += record.question is not None and record.question.truth is not None
            yield record
        if kept.count != used:
            log.notice(f"`{name}`: {kept.count} reviews, {used} of them with a prediction")


def _require_index(row: Row) -> str:
    index = get_text(row, "index")
    if index is None:
        raise DamagedError("the line has no `index`")
    return index


def _read_row(log: Log, review: Row, prediction: Row, category: str | None) -> Record:
    """Return the record of a review and a prediction, which may be one and the same."""
    index, score = _require_index(prediction), get(review, "sample_score")
    messages = _find_prompt(review) or _find_prompt(prediction)
    question = find_shown(find_question(messages))
    choices, options = question.choices, question.options
    rest = get(score, "sample_metadata") or prediction.get("metadata")
    told = log.description
    told.model = told.model or get_text(prediction, "model")
    group, turn = get_text(score, "group_id"), get_count(score, "generation_index")
    name = index if group is None else group
    read = get_text(score, "score", "extracted_prediction")
    return Record(
        name if category is None else f"{category}/{name}",
        replace(
            question,
            truth=find_truth(review.get("target"), choices, options),
            category=category,
            original=rest if isinstance(rest, dict) else {},
        ),
        replace(_read_reply(review, prediction), prompt=messages),
        Verdict(_read_value(log, score), find_label(read, choices, None) or read),
        0 if group is None else turn or 0,
    )


def _find_prompt(row: Row) -> Messages | None:
    """Return the messages before the reply; older reviews have `input`."""
    found = read_messages(row.get("messages") or row.get("input")) or []
    last = max((at for at, one in enumerate(found) if one["role"] == "user"), default=-1)
    return found[: last + 1] or None


def _read_value(log: Log, score: object) -> float | None:
    """Return the verdict of a review: of the score that is wanted, its main score, or its only one."""
    values, wanted = get(score, "score", "value"), log.options.score
    if not isinstance(values, dict):
        return get_number(values)
    main = wanted or get_text(score, "score", "main_score_name")
    name = main if main in values else next(iter(values), None)
    if wanted is not None and name != wanted:
        return None
    log.description.score = log.description.score or (None if name is None else str(name))
    return get_number(values, str(name))


def _read_reply(review: Row, prediction: Row) -> Completion:
    """Return what was said: of a prediction its first choice, of a review its text."""
    output = get(prediction, "model_output")
    if output is None:
        return read_message(get_text(review, "sample_score", "score", "prediction"))
    choice = next(iter(get_list(output, "choices")), None)
    content, logprobs = get(choice, "message", "content"), get(choice, "logprobs")
    end = get_text(choice, "stop_reason")
    error = get_text(output, "error") or get_text(output, "error", "message")
    if error and not join_parts(content):
        return fail(error)
    said = content
    if isinstance(content, list):
        said = [part for part in content if get(part, "type") != "reasoning"]
    return replace(
        read_message({"role": "assistant", "content": said}),
        reply=None,
        finish_reason=FINISH_REASONS.get(end, end) if end else None,
        prompt_tokens=get_count(output, "usage", "input_tokens"),
        completion_tokens=get_count(output, "usage", "output_tokens"),
        latency=get_number(output, "time"),
        reasoning=join_reasoning(content) or None,
        logprobs=to_json_values(logprobs) if isinstance(logprobs, dict) else None,
    )
