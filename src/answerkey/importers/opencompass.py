"""OpenCompass: `predictions/<model>/<dataset>.json`, alone or in the folder of a run.

A file is an object with a question under each of "0", "1", …; a large dataset is split into `_0`, `_1`, …
`results/` has the verdicts, if the run kept details. The options stand in the prompt only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from answerkey.importers.logs import (
    DamagedError,
    JsonStream,
    Log,
    LogFile,
    LogPreview,
    LookupTable,
    Question,
    Record,
    Row,
    Verdict,
    get,
    get_number,
    get_text,
    iterate_files,
)
from answerkey.importers.questions import (
    find_label,
    find_question,
    find_shown,
    name_stem,
    read_messages,
    require_one_model,
    take_labels,
)
from answerkey.models.responses import read_message
from answerkey.types import Completion

_FILE = re.compile(r"(.*/)?(?P<part>predictions|results)/(?P<model>[^/]+)/(?P<name>[^/]+)\.json(\.gz|\.zst)?")
_SPLIT = re.compile(r"(?P<name>.+)_(?P<number>\d+)")
_PREDICTIONS, _RESULTS, _PARTIAL = "predictions", "results", "tmp_"
_LABEL = "label: "
Files = dict[str, list[LogFile]]


class OpenCompassReader:
    """Reads what OpenCompass writes."""

    kind: ClassVar[str] = "opencompass"
    title: ClassVar[str] = "OpenCompass output"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether there are folders as OpenCompass has them, or a file of its predictions."""
        files = (_FILE.fullmatch(name) for name in preview.names)
        if any(one is not None and one["part"] == _PREDICTIONS for one in files):
            return True
        is_numbered = re.match(r'\{\s*"\d+"\s*:\s*\{', preview.head) is not None
        return is_numbered and (preview.mentions("origin_prompt") or f'"{_LABEL}' in preview.head)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question."""
        predictions, results = _find_files(log)
        names = list(predictions)
        log.description.task = names[0] if len(names) == 1 else f"{len(names)} datasets of OpenCompass"
        log.description.score = "correct" if results else None
        for name, files in predictions.items():
            with LookupTable() as verdicts:
                for part, file in enumerate(results.get(name, ())):
                    _keep_verdicts(log, file, verdicts, part)
                category = None if len(names) == 1 else name
                offset = 0
                for part, file in enumerate(files):
                    before = log.seen
                    yield from _read_part(log, file, verdicts, part, offset, category)
                    offset += log.seen - before


def _find_files(log: Log) -> tuple[Files, Files]:
    """Return predictions and results by dataset, the parts of a split one in their order."""
    found: dict[str, dict[str, LogFile]] = {_PREDICTIONS: {}, _RESULTS: {}}
    models, partial = set(), 0
    for file in _list_files(log):
        match = _FILE.fullmatch(file.name)
        if match is None:
            continue
        if match["name"].startswith(_PARTIAL):
            partial += match["part"] == _PREDICTIONS
            continue
        models.add(match["model"])
        found[match["part"]][match["name"]] = file
    if partial:
        log.notice(f"{partial} files `tmp_*` of predictions that were not finished are left aside")
    hint = "copy the folders of one model, or name one file of its predictions"
    log.description.model = require_one_model(log, models, "the output", hint)
    predictions = _join_splits(found[_PREDICTIONS])
    if not predictions and log.path.is_file():
        file = next(iter(log.files()))
        predictions = {name_stem(file.name): [file]}
    if not predictions:
        raise log.make_error("E201", f"`{log.path}` holds no folder `predictions` of OpenCompass")
    return predictions, _join_splits(found[_RESULTS])


def _list_files(log: Log) -> Iterator[LogFile]:
    """Yield the files of the log under their names; of one file of predictions, its results too."""
    parts = log.path.resolve().parts
    if not log.path.is_file() or len(parts) < 3 or parts[-3] != _PREDICTIONS:  # noqa: PLR2004 - part, model, file
        yield from log.files()
        return
    for part in (_PREDICTIONS, _RESULTS):
        path = Path(*parts[:-3], part, *parts[-2:])
        for file in iterate_files(path) if path.is_file() else ():
            yield LogFile("/".join((part, *parts[-2:])), file.file, file.open)


def _join_splits(files: dict[str, LogFile]) -> Files:
    """Return files by dataset: `x_0`, `x_1`, … are one, unless there is an `x` or a number is missing."""
    splits: dict[str, dict[int, str]] = {}
    for name in files:
        match = _SPLIT.fullmatch(name)
        if match is not None and match["name"] not in files:
            splits.setdefault(match["name"], {})[int(match["number"])] = name
    joined: Files = {}
    alone = dict(files)
    for name, parts in splits.items():
        if sorted(parts) == list(range(len(parts))):
            joined[name] = [alone.pop(parts[number]) for number in sorted(parts)]
    return dict(sorted((joined | {name: [file] for name, file in alone.items()}).items()))


def _keep_verdicts(log: Log, file: LogFile, verdicts: LookupTable, part: int) -> None:
    """Put the details of a file of results aside, by part and number; a file without any has none."""
    with log.guard(file), file.open_text() as text:
        for key, value in JsonStream(text).elements("details"):
            if isinstance(value, dict):
                correct = value.get("correct", value.get("is_correct"))
                read = value.get("predictions", value.get("pred"))
                right = value.get("references", value.get("refr"))
                verdicts.put(f"{part}/{key}", {"correct": correct, "read": read, "right": right})


def _read_part(
    log: Log, file: LogFile, verdicts: LookupTable, part: int, offset: int, category: str | None
) -> Iterator[Record]:
    prefix = "" if category is None else f"{category}/"
    with log.guard(file), file.open_text() as text:
        stream = JsonStream(text)
        for key, value in stream.elements():
            log.seen += 1
            number = int(key) + offset if key.isascii() and key.isdigit() else key
            name, verdict = f"{prefix}{number}", verdicts.get(f"{part}/{key}")
            rows = [(stream.line, value if isinstance(value, dict) else {})]
            yield from log.convert(rows, lambda row: [_read_row(row, name, category, verdict)], file)  # noqa: B023 - called at once


def _read_row(row: Row, name: str, category: str | None, kept: object) -> Record:
    if "prediction" not in row:
        raise DamagedError("the question has no `prediction`")
    # Where labels were asked one by one, what was asked stands with each.
    first = next((value for key, value in row.items() if key.startswith(_LABEL)), None)
    prompt = row.get("origin_prompt") or get(first, "testing input") or get(first, "prompt")
    messages = read_messages(prompt)
    shown = find_shown(find_question(messages))
    labels = take_labels([key.removeprefix(_LABEL) for key in row if key.startswith(_LABEL)])
    choices = labels or shown.choices
    options = shown.options if shown.choices == choices else None
    truth = _take_one(row.get("gold", get(kept, "right")))
    question = Question(
        question=shown.question,
        choices=choices,
        options=options,
        truth=find_label(truth, choices, options) or get_text(truth),
        category=category,
    )
    said = read_message(_take_one(row["prediction"]))
    # The verdict of the results: whether it is correct, or whether what was read is right.
    read, right = _take_one(get(kept, "read")), _take_one(get(kept, "right"))
    value = get_number(_take_one(get(kept, "correct")))
    if value is None and read is not None and right is not None:
        value = float(read == right)
    answer = find_label(get_text(read), choices, options) or get_text(read)
    return Record(name, question, Completion(said.text, said.status, messages), Verdict(value, answer))


def _take_one(value: object) -> object:
    """Return the only one of a list; what is no list as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
