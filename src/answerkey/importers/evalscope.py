"""evalscope: the folder of a run with `predictions/` and `reviews/`, or one file of either.

A review says what was asked, what was right and how it was judged; the prediction of the same `index` says
more about the reply. The options stand in the prompt only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from answerkey.importers import questions as ask
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogFile,
    LookupTable,
    Record,
    Verdict,
    group_files,
)
from answerkey.models.responses import read_message
from answerkey.types import Completion


class EvalscopeReader(KnownReader):
    """Reads what evalscope writes."""

    kind = "evalscope"
    title = "evalscope output"
    file_name = re.compile(
        r"(.*/)?(?P<part>predictions|reviews)/(?P<model>.+)/(?P<name>[^/]+)\.jsonl(\.gz|\.zst)?"
    )
    row_keys = ({"index", "sample_score"}, {"index", "model_output"})

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each reply."""
        sets, models = group_files(log.files(), self.file_name)
        log.name_model(models, "the output", "copy the folders of one model, or name one file of its reviews")
        if not sets:
            alone = next(
                (file for file in log.files() if file.name.endswith((".jsonl", ".gz", ".zst"))), None
            )
            if alone is None:
                message = f"`{log.path}` holds no `predictions` and no `reviews` of evalscope"
                raise log.make_error("E201", message)
            sets = {alone.stem: {"reviews": alone}}
        log.name_task(list(sets), "sets of evalscope")
        for name, files in sorted(sets.items()):
            yield from _read_set(log, name, files, category=None if len(sets) == 1 else name)


def _read_set(log: Log, name: str, files: dict[str, LogFile], *, category: str | None) -> Iterator[Record]:
    """Yield the records of one set; with both files, reviews wait on disk until their predictions come."""
    if len(files) == 1:
        for file in files.values():
            yield from log.convert(file, log.rows(file), lambda row: _read_row(log, row, row, category))
        return
    used = 0
    with LookupTable() as kept:

        def keep(review: Json) -> list[Record]:
            kept.put(_require_index(review), review.value)
            return []

        def join(row: Json) -> Record:
            return _read_row(log, Json(kept.get(_require_index(row))), row, category)

        list(log.convert(files["reviews"], log.rows(files["reviews"]), keep))
        for record in log.convert(files["predictions"], log.rows(files["predictions"]), join):
            used += record.question is not None and record.question.truth is not None
            yield record
        if kept.count != used:
            log.notice(f"`{name}`: {kept.count} reviews, {used} of them with a prediction")


def _require_index(row: Json) -> str:
    index = row.text("index")
    if index is None:
        raise DamagedError("the line has no `index`")
    return index


def _read_row(log: Log, review: Json, prediction: Json, category: str | None) -> Record:
    """Return the record of a review and a prediction, which may be one and the same."""
    index, score = _require_index(prediction), review.at("sample_score")
    messages = _find_prompt(review) or _find_prompt(prediction)
    question = ask.find_shown(ask.find_question(messages))
    choices, options = question.choices, question.options
    log.description.model = log.description.model or prediction.text("model")
    group, turn = score.text("group_id"), score.count("generation_index")
    name = index if group is None else group
    read = score.text("score", "extracted_prediction")
    return Record(
        name if category is None else f"{category}/{name}",
        replace(
            question,
            truth=ask.find_truth(review.get("target"), choices, options),
            category=category,
            original=score.object("sample_metadata") or prediction.object("metadata"),
        ),
        replace(_read_reply(review, prediction), prompt=messages),
        Verdict(_read_value(log, score), ask.find_label(read, choices, None) or read),
        0 if group is None else turn or 0,
    )


def _find_prompt(row: Json) -> ask.Messages | None:
    """Return the messages before the reply; older reviews have `input`."""
    found = ask.read_messages(row.get("messages") or row.get("input")) or []
    last = max((at for at, one in enumerate(found) if one["role"] == "user"), default=-1)
    return found[: last + 1] or None


def _read_value(log: Log, score: Json) -> float | None:
    """Return the verdict of a review: of the score that is wanted, its main score, or its only one."""
    values, wanted = score.get("score", "value"), log.options.score
    if not isinstance(values, dict):
        return Json(values).number()
    main = wanted or score.text("score", "main_score_name")
    name = main if main in values else next(iter(values), None)
    if wanted is not None and name != wanted:
        return None
    log.description.score = log.description.score or (None if name is None else str(name))
    return Json(values).number(str(name))


def _read_reply(review: Json, prediction: Json) -> Completion:
    """Return what was said: of a prediction its first choice, of a review its text."""
    output = prediction.at("model_output")
    if output.value is None:
        return read_message(review.text("sample_score", "score", "prediction"))
    content = next(iter(output.list("choices")), Json(None)).get("message", "content")
    error = output.text("error") or output.text("error", "message")
    if error and not ask.join_parts(content):
        return ask.fail(error)
    reasoning = None
    if isinstance(content, list):
        reasoning = ask.join_parts(content, "reasoning", kind="reasoning")
        content = [part for part in content if Json(part).get("type") != "reasoning"]
    said = read_message({"role": "assistant", "content": content})
    return replace(ask.add_usage(said, output), reply=None, reasoning=reasoning)
