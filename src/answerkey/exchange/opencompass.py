"""OpenCompass: `predictions/<model>/<dataset>.json`, alone or in the folder of a run.

A file is an object with a question under each of "0", "1", …; a large dataset is split into `_0`, `_1`, …
`results/` has the verdicts, if the run kept details. The options stand in the prompt only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from answerkey.errors import DataError, Place, listing
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_text, read_number
from answerkey.exchange.json_streams import JsonStream
from answerkey.exchange.labels import find_label, take_labels
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece, iterate_pieces
from answerkey.exchange.prompts import find_question, find_shown, read_messages
from answerkey.exchange.shelves import Shelf
from answerkey.models.responses import read_message
from answerkey.types import Completion

_FILE = re.compile(r"(.*/)?(?P<part>predictions|results)/(?P<model>[^/]+)/(?P<name>[^/]+)\.json(\.gz|\.zst)?")
_SPLIT = re.compile(r"(?P<name>.+)_(?P<number>\d+)")
PREDICTIONS, RESULTS = "predictions", "results"
PARTIAL = "tmp_"
_LABEL = "label: "


class OpenCompassReader:
    """Reads what OpenCompass writes."""

    kind: ClassVar[str] = "opencompass"
    title: ClassVar[str] = "OpenCompass output"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether there are folders as OpenCompass has them, or a file of its predictions."""
        files = (_FILE.fullmatch(name) for name in glimpse.names)
        if any(one is not None and one["part"] == PREDICTIONS for one in files):
            return True
        is_numbered = re.match(r'\{\s*"\d+"\s*:\s*\{', glimpse.head) is not None
        return is_numbered and (glimpse.mentions("origin_prompt") or f'"{_LABEL}' in glimpse.head)

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each question."""
        predictions, results = _find_files(log)
        names = list(predictions)
        log.told.task = names[0] if len(names) == 1 else f"{len(names)} datasets of OpenCompass"
        log.told.score = "correct" if results else None
        for name, pieces in predictions.items():
            with Shelf() as verdicts:
                for place, piece in enumerate(results.get(name, ())):
                    _keep_verdicts(log, piece, verdicts, place)
                yield from _read_dataset(log, name, pieces, verdicts, is_only=len(names) == 1)


Found = dict[str, list[Piece]]


def _find_files(log: Log) -> tuple[Found, Found]:
    """Return predictions and results by dataset, the parts of a split one in their order."""
    found: dict[str, dict[str, Piece]] = {PREDICTIONS: {}, RESULTS: {}}
    models, partial = set(), 0
    for piece in _list_pieces(log):
        match = _FILE.fullmatch(piece.name)
        if match is None:
            continue
        if match["name"].startswith(PARTIAL):
            partial += match["part"] == PREDICTIONS
            continue
        models.add(match["model"])
        found[match["part"]][match["name"]] = piece
    if partial:
        log.notice(f"{partial} files `tmp_*` of predictions that were not finished are left aside")
    if len(models) > 1:
        message = f"`{log.path}` holds the output of several models: {listing(sorted(models))}"
        hint = "copy the folders of one model, or name one file of its predictions"
        raise DataError("E201", message, where=Place(file=str(log.path)), hint=hint)
    log.told.model = next(iter(models), None)
    predictions = _join_splits(found[PREDICTIONS])
    if not predictions and log.path.is_file():
        piece = next(iter(log.pieces()))
        predictions = {PurePosixPath(piece.name).name.partition(".")[0]: [piece]}
    if not predictions:
        message = f"`{log.path}` holds no folder `predictions` of OpenCompass"
        raise DataError("E201", message, where=Place(file=str(log.path)))
    return predictions, _join_splits(found[RESULTS])


def _list_pieces(log: Log) -> Iterator[Piece]:
    """Yield the files of the log under their names; of one file of predictions, its results too."""
    parts = log.path.resolve().parts
    if not log.path.is_file() or len(parts) < 3 or parts[-3] != PREDICTIONS:  # noqa: PLR2004 - part, model, file
        yield from log.pieces()
        return
    for part in (PREDICTIONS, RESULTS):
        path = Path(*parts[:-3], part, *parts[-2:])
        for piece in iterate_pieces(path) if path.is_file() else ():
            yield Piece("/".join((part, *parts[-2:])), piece.file, piece.open)


def _join_splits(files: dict[str, Piece]) -> Found:
    """Return files by dataset: `x_0`, `x_1`, … are one, unless there is an `x` or a number is missing."""
    splits: dict[str, dict[int, Piece]] = {}
    for name, piece in files.items():
        match = _SPLIT.fullmatch(name)
        if match is not None and match["name"] not in files:
            splits.setdefault(match["name"], {})[int(match["number"])] = piece
    whole = {name: parts for name, parts in splits.items() if sorted(parts) == list(range(len(parts)))}
    joined = {name: [parts[number] for number in sorted(parts)] for name, parts in whole.items()}
    taken = {id(piece) for pieces in joined.values() for piece in pieces}
    alone = {name: [piece] for name, piece in files.items() if id(piece) not in taken}
    return dict(sorted((joined | alone).items()))


def _keep_verdicts(log: Log, piece: Piece, verdicts: Shelf, place: int) -> None:
    """Put the details of a file of results aside, by part and number; a file without any has none."""
    with log.guard(piece), piece.open_text() as text:
        for key, value in JsonStream(text).elements("details"):
            if isinstance(value, dict):
                correct = value.get("correct", value.get("is_correct"))
                read = value.get("predictions", value.get("pred"))
                right = value.get("references", value.get("refr"))
                verdicts.put(f"{place}/{key}", {"correct": correct, "read": read, "right": right})


def _read_dataset(
    log: Log, name: str, pieces: Sequence[Piece], verdicts: Shelf, *, is_only: bool
) -> Iterator[Line]:
    offset = 0
    prefix = "" if is_only else f"{name}/"
    for place, piece in enumerate(pieces):
        count = 0
        with log.guard(piece), piece.open_text() as text:
            stream = JsonStream(text)
            for key, value in stream.elements():
                log.seen += 1
                count += 1
                number = int(key) + offset if key.isascii() and key.isdigit() else key
                row = _Row(f"{prefix}{number}", None if is_only else name, verdicts.get(f"{place}/{key}"))
                line = log.take(row.read, value if isinstance(value, dict) else {}, piece, stream.line)
                if line is not None:
                    yield line
        offset += count


class _Row:
    """One question of a file of predictions."""

    def __init__(self, sample_id: str, category: str | None, verdict: object) -> None:
        self._sample_id = sample_id
        self._category = category
        self._verdict = verdict

    def read(self, row: Row) -> Line:
        """Return the line; DamagedError when the row has no prediction."""
        if "prediction" not in row:
            raise DamagedError("the question has no `prediction`")
        messages = read_messages(row.get("origin_prompt") or _find_prompt(row))
        question = find_question(messages)
        labels = take_labels([name.removeprefix(_LABEL) for name in row if name.startswith(_LABEL)])
        shown = find_shown(question)
        choices = labels or (shown.choices if shown else None)
        options = shown.options if shown and shown.choices == choices else None
        truth = _take_one(row.get("gold", get(self._verdict, "right")))
        asked = Asked(
            question=shown.question if shown else question,
            choices=choices,
            options=options,
            truth=find_label(truth, choices, options) or get_text({"": truth}, ""),
            category=self._category,
        )
        said = read_message(_take_one(row["prediction"]))
        completion = Completion(said.text, said.status, messages)
        return Line(self._sample_id, asked, completion, self._judge(choices, options))

    def _judge(self, choices: tuple[str, ...] | None, options: tuple[str, ...] | None) -> Theirs:
        """Return the verdict of the results: whether it is correct, or whether what was read is right."""
        read, right = _take_one(get(self._verdict, "read")), _take_one(get(self._verdict, "right"))
        value = read_number(_take_one(get(self._verdict, "correct")))
        if value is None and read is not None and right is not None:
            value = float(read == right)
        text = get_text({"": read}, "")
        return Theirs(value, find_label(text, choices, options) or text)


def _find_prompt(row: Row) -> object:
    """Return what was asked, of a question whose labels were asked one by one."""
    first = next((value for name, value in row.items() if name.startswith(_LABEL)), None)
    return get(first, "testing input") or get(first, "prompt")


def _take_one(value: object) -> object:
    """Return the only one of a list; what is no list as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
