"""MMLU-Pro: lists of the dataset's rows with the model's text and what a pattern read in it.

`<subject>_result.json`, `model_outputs_<model>_<shots>.json`, folders and archives of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.errors import DataError, Place
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get_text
from answerkey.exchange.labels import find_label, label_options, read_texts
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece
from answerkey.models.responses import read_message

#: Where the text stands, the usual first.
TEXTS = ("model_outputs", "generated_text", "model_output")
_START, _SHOTS = "model_outputs_", re.compile(r"_\d+shots?$")
_LEFT_OUT = frozenset({"question", "options", "pred", *TEXTS})


class MmluProReader:
    """Reads what MMLU-Pro's evaluation writes."""

    kind: ClassVar[str] = "mmlu-pro"
    title: ClassVar[str] = "MMLU-Pro output"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether the first row has the columns of the dataset, a text and a reading of it."""
        row = glimpse.first
        return {"question", "options", "answer", "pred"} <= set(row) and any(name in row for name in TEXTS)

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each row."""
        log.told.task, log.told.score = "MMLU-Pro", "pred"
        log.told.model = _name_model(log)
        unread = files = 0
        for piece in log.pieces():
            if not _is_list(piece):
                continue
            files += 1
            for number, row in log.read_elements(piece):
                line = log.take(_read_row, row, piece, number)
                if line is not None:
                    unread += line.theirs.value is None
                    yield line
        if not files:
            raise DataError("E201", f"`{log.path}` holds no list of rows", where=Place(file=str(log.path)))
        if unread:
            hint = "MMLU-Pro guesses at random there; such a guess is no verdict"
            log.notice(f"in {unread} replies their pattern read nothing", hint)


def _name_model(log: Log) -> str | None:
    """Return the model in `model_outputs_<model>_<shots>`; the number of examples is no part of its name."""
    name = log.path.name.partition(".json")[0].removesuffix(".zip")
    return _SHOTS.sub("", name.removeprefix(_START)) if name.startswith(_START) else None


def _is_list(piece: Piece) -> bool:
    """Return whether a file holds a list; beside the lists there are summaries, which are objects."""
    if not PurePosixPath(piece.name).name.partition(".gz")[0].endswith(".json"):
        return False
    try:
        with piece.open() as stream:
            return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    except (DamagedError, OSError):
        return True


def _read_row(row: Row) -> Line:
    number, options = get_text(row, "question_id"), read_texts(row.get("options"))
    if number is None or options is None:
        raise DamagedError("the row has no `question_id`, or no `options`")
    text = next((row[name] for name in TEXTS if name in row), None)
    if isinstance(text, list):
        text = text[0] if text else None
    choices = label_options(len(options))
    truth = find_label(row.get("answer"), choices, None) or find_label(
        row.get("answer_index"), choices, None, by_index=True
    )
    read = get_text(row, "pred")
    asked = Asked(
        question=get_text(row, "question"),
        choices=choices,
        options=options,
        truth=truth or get_text(row, "answer"),
        category=get_text(row, "category"),
        original={name: value for name, value in row.items() if name not in _LEFT_OUT},
    )
    verdict = None if read is None else float(read == truth)
    return Line(number, asked, read_message(text), Theirs(verdict, read))
