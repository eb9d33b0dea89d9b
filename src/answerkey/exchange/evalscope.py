"""evalscope: the folder of a run with `predictions/` and `reviews/`, or one file of either.

A review says what was asked, what was right and how it was judged; the prediction of the same `index` says
more about the reply. The options stand in the prompt only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.errors import DataError, Place, listing
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_count, get_number, get_text, read_number
from answerkey.exchange.labels import find_label
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece
from answerkey.exchange.prompts import find_question, find_shown, join_text, read_messages
from answerkey.exchange.shelves import Shelf
from answerkey.models.responses import mend_text, read_message, to_json_values
from answerkey.types import Completion, CompletionStatus

_FILE = re.compile(r"(.*/)?(?P<part>predictions|reviews)/(?P<model>.+)/(?P<name>[^/]+)\.jsonl(\.gz|\.zst)?")
PREDICTIONS, REVIEWS = "predictions", "reviews"
_ENDS = {"max_tokens": "length", "model_length": "length"}


class EvalscopeReader:
    """Reads what evalscope writes."""

    kind: ClassVar[str] = "evalscope"
    title: ClassVar[str] = "evalscope output"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether there are folders as evalscope has them, or a line of a review or a prediction."""
        if any(_FILE.fullmatch(name) for name in glimpse.names):
            return True
        return "index" in glimpse.first and bool({"sample_score", "model_output"} & set(glimpse.first))

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each reply."""
        sets = _find_sets(log)
        log.told.task = sets[0].name if len(sets) == 1 else f"{len(sets)} sets of evalscope"
        log.told.model = sets[0].model
        for one in sets:
            yield from _Set(log, one, is_only=len(sets) == 1).read()


@dataclass(frozen=True)
class _Files:
    """The two files of one set of questions."""

    name: str
    model: str | None
    predictions: Piece | None = None
    reviews: Piece | None = None


def _find_sets(log: Log) -> list[_Files]:
    found: dict[tuple[str, str], dict[str, Piece]] = {}
    for piece in log.pieces():
        match = _FILE.fullmatch(piece.name) or _FILE.fullmatch(PurePosixPath(piece.file).as_posix())
        if match is not None:
            found.setdefault((match["model"], match["name"]), {})[match["part"]] = piece
    models = sorted({model for model, _ in found})
    if len(models) > 1:
        message = f"`{log.path}` holds the output of several models: {listing(models)}"
        hint = "copy the folders of one model, or name one file of its reviews"
        raise DataError("E201", message, where=Place(file=str(log.path)), hint=hint)
    if found:
        return [
            _Files(name, model, files.get(PREDICTIONS), files.get(REVIEWS))
            for (model, name), files in sorted(found.items())
        ]
    alone = next((one for one in log.pieces() if one.name.endswith((".jsonl", ".gz", ".zst"))), None)
    if alone is None:
        message = f"`{log.path}` holds no `predictions` and no `reviews` of evalscope"
        raise DataError("E201", message, where=Place(file=str(log.path)))
    return [_Files(PurePosixPath(alone.name).name.partition(".")[0], None, reviews=alone)]


class _Set:
    """The questions of one file; with both files, reviews wait on disk until their predictions come."""

    def __init__(self, log: Log, files: _Files, *, is_only: bool) -> None:
        self._log = log
        self._files = files
        self._prefix = "" if is_only else f"{files.name}/"
        self._category = None if is_only else files.name

    def read(self) -> Iterator[Line]:
        """Yield the lines of the set."""
        reviews, predictions = self._files.reviews, self._files.predictions
        if predictions is None or reviews is None:
            yield from self._read_alone(reviews or predictions)
            return
        with Shelf() as shelf:
            for number, row in self._log.read_lines(reviews):
                index = self._log.take(_require_index, row, reviews, number)
                if index is not None:
                    shelf.put(index, row)
            used = 0
            for number, row in self._log.read_lines(predictions):
                line = self._log.take(lambda one: self._join(one, shelf), row, predictions, number)
                if line is not None:
                    used += line.asked is not None and line.asked.truth is not None
                    yield line
            self._conclude(shelf.count, used)

    def _read_alone(self, piece: Piece | None) -> Iterator[Line]:
        if piece is None:
            return
        for number, row in self._log.read_lines(piece):
            line = self._log.take(lambda one: self._build(one, one), row, piece, number)
            if line is not None:
                yield line

    def _conclude(self, reviewed: int, used: int) -> None:
        if reviewed != used:
            self._log.notice(f"`{self._files.name}`: {reviewed} reviews, {used} of them with a prediction")

    def _join(self, row: Row, shelf: Shelf) -> Line:
        review = shelf.get(_require_index(row))
        return self._build(review if isinstance(review, dict) else {}, row)

    def _build(self, review: Row, prediction: Row) -> Line:
        """Return the line of a review and a prediction, which may be one and the same."""
        index, score = _require_index(prediction), get(review, "sample_score")
        messages = _find_prompt(review) or _find_prompt(prediction)
        question = find_question(messages)
        shown = find_shown(question)
        choices, options = (shown.choices, shown.options) if shown else (None, None)
        group, turn = get_text(score, "group_id"), get_count(score, "generation_index")
        asked = Asked(
            question=shown.question if shown else question,
            choices=choices,
            options=options,
            truth=_read_truth(review.get("target"), choices, options),
            category=self._category,
            original=_keep_rest(review, prediction),
        )
        said = replace(_read_reply(review, prediction), prompt=messages)
        self._log.told.model = self._log.told.model or get_text(prediction, "model")
        name = f"{self._prefix}{index if group is None else group}"
        read = get_text(score, "score", "extracted_prediction")
        theirs = Theirs(self._read_value(score), find_label(read, choices, None) or read)
        return Line(name, asked, said, theirs, 0 if group is None else turn or 0)

    def _read_value(self, score: object) -> float | None:
        """Return the verdict of a review: of the score that is wanted, its main score, or its only one."""
        values = get(score, "score", "value")
        if not isinstance(values, dict):
            return read_number(values)
        main = self._log.wishes.score or get_text(score, "score", "main_score_name")
        name = main if main in values else next(iter(values), None)
        if self._log.wishes.score is not None and name != self._log.wishes.score:
            return None
        self._log.told.score = self._log.told.score or (None if name is None else str(name))
        return get_number(values, str(name))


def _require_index(row: Row) -> str:
    index = get_text(row, "index")
    if index is None:
        raise DamagedError("the line has no `index`")
    return index


def _find_prompt(row: Row) -> list[dict[str, object]] | None:
    """Return the messages before the reply; older reviews have `input`."""
    found = read_messages(row.get("messages") or row.get("input")) or []
    last = max((at for at, one in enumerate(found) if one["role"] == "user"), default=-1)
    return found[: last + 1] or None


def _read_truth(
    target: object, choices: tuple[str, ...] | None, options: tuple[str, ...] | None
) -> str | None:
    wanted = target if isinstance(target, list) else [target]
    texts = [find_label(one, choices, options) or get_text({"": one}, "") for one in wanted]
    return ",".join(text for text in texts if text) or None


def _keep_rest(review: Row, prediction: Row) -> Row:
    rest = get(review, "sample_score", "sample_metadata") or prediction.get("metadata")
    return rest if isinstance(rest, dict) else {}


def _read_reply(review: Row, prediction: Row) -> Completion:
    """Return what was said: of a prediction its first choice, of a review its text."""
    output = get(prediction, "model_output")
    if output is None:
        return read_message(get_text(review, "sample_score", "score", "prediction"))
    listed = get(output, "choices")
    choice = listed[0] if isinstance(listed, list) and listed else None
    end = get_text(choice, "stop_reason")
    usage, logprobs = get(output, "usage"), get(choice, "logprobs")
    content = get(choice, "message", "content")
    error = get_text(output, "error") or get_text(output, "error", "message")
    if error and not join_text(content):
        return Completion(None, CompletionStatus.ERROR, error=mend_text(error)[:500])
    said = read_message({"role": "assistant", "content": _drop_thoughts(content)})
    return replace(
        said,
        reply=None,
        finish_reason=_ENDS.get(end, end) if end else None,
        prompt_tokens=get_count(usage, "input_tokens"),
        completion_tokens=get_count(usage, "output_tokens"),
        latency=get_number(output, "time"),
        reasoning=_find_thoughts(content),
        logprobs=to_json_values(logprobs) if isinstance(logprobs, dict) else None,
    )


def _drop_thoughts(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [part for part in content if get(part, "type") != "reasoning"]


def _find_thoughts(content: object) -> str | None:
    parts = content if isinstance(content, list) else []
    texts = [get(part, "reasoning") for part in parts if get(part, "type") == "reasoning"]
    found = [mend_text(text) for text in texts if isinstance(text, str)]
    return "\n".join(found) or None
