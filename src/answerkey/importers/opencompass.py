"""OpenCompass: `predictions/<model>/<dataset>.json`, alone or in the folder of a run.

A file is an object with a question under each of "0", "1", …; a large dataset is split into `_0`, `_1`, …
`results/` has the verdicts, if the run kept details. The options stand in the prompt only.
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
    LogPreview,
    LookupTable,
    Record,
    Verdict,
    group_files,
    iterate_files,
)
from answerkey.models.responses import read_message
from answerkey.types import Completion

_SPLIT = re.compile(r"(?P<name>.+)_(?P<number>\d+)")
_LABEL = "label: "
Files = dict[str, list[LogFile]]


class OpenCompassReader(KnownReader):
    """Reads what OpenCompass writes."""

    kind = "opencompass"
    title = "OpenCompass output"
    file_name = re.compile(r"(.*/)?predictions/[^/]+/[^/]+\.json(\.gz|\.zst)?")

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether there are folders as OpenCompass has them, or a file of its predictions."""
        is_numbered = re.match(r'\{\s*"\d+"\s*:\s*\{', preview.head) is not None
        is_file = is_numbered and (preview.mentions("origin_prompt") or f'"{_LABEL}' in preview.head)
        return is_file or super().recognises(preview)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question."""
        predictions, results = _find_files(log)
        log.name_task(list(predictions), "datasets of OpenCompass")
        log.description.score = "correct" if results else None
        for name, files in predictions.items():
            category = None if len(predictions) == 1 else name
            with LookupTable() as verdicts:
                for part, file in enumerate(results.get(name, ())):
                    _keep_verdicts(log, file, verdicts, part)
                offset = 0
                for part, file in enumerate(files):
                    before = log.seen

                    def read(row: Json, part: int = part, offset: int = offset) -> Record:
                        number = int(row.key) + offset if row.key.isascii() and row.key.isdigit() else row.key
                        sample_id = str(number) if category is None else f"{category}/{number}"  # noqa: B023 - used at once
                        return _read_row(row, sample_id, category, Json(verdicts.get(f"{part}/{row.key}")))  # noqa: B023 - same

                    yield from log.convert(file, log.elements(file), read)
                    offset += log.seen - before


def _find_files(log: Log) -> tuple[Files, Files]:
    """Return predictions and results by dataset, the parts of a split one in their order."""
    files = list(log.files())
    path = log.path.resolve()
    beside = path.parents[2] / "results" / path.parent.name / path.name if len(path.parents) > 2 else path  # noqa: PLR2004 - part, model, file
    if log.path.is_file() and beside.is_file() and path.parents[1].name == "predictions":
        files += iterate_files(beside)
    pattern = r"(.*/)?(?P<part>predictions|results)/(?P<model>[^/]+)/(?P<name>[^/]+)\.json(\.gz|\.zst)?"
    found, models = group_files(files, re.compile(pattern))
    partial = [name for name in found if name.startswith("tmp_")]
    unfinished = sum("predictions" in found.pop(name) for name in partial)
    if unfinished:
        log.notice(f"{unfinished} files `tmp_*` of predictions that were not finished are left aside")
    log.name_model(models, "the output", "copy the folders of one model, or name one file of its predictions")
    predictions, results = (
        _join_splits({name: parts[part] for name, parts in found.items() if part in parts})
        for part in ("predictions", "results")
    )
    if not predictions and log.path.is_file():
        predictions = {files[0].stem: files[:1]}
    if not predictions:
        raise log.make_error("E201", f"`{log.path}` holds no folder `predictions` of OpenCompass")
    return predictions, results


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
    for row in log.values(file, "details"):
        if detail := row.object():
            correct = detail.get("correct", detail.get("is_correct"))
            read = detail.get("predictions", detail.get("pred"))
            right = detail.get("references", detail.get("refr"))
            verdicts.put(f"{part}/{row.key}", {"correct": correct, "read": read, "right": right})


def _read_row(row: Json, name: str, category: str | None, kept: Json) -> Record:
    cells = row.object()
    if "prediction" not in cells:
        raise DamagedError("the question has no `prediction`")
    # Where labels were asked one by one, what was asked stands with each.
    asked = {key.removeprefix(_LABEL): value for key, value in cells.items() if key.startswith(_LABEL)}
    first = Json(next(iter(asked.values()), None))
    prompt = row.get("origin_prompt") or first.get("testing input") or first.get("prompt")
    messages = ask.read_messages(prompt)
    shown = ask.find_shown(ask.find_question(messages))
    choices = ask.take_labels(list(asked)) or shown.choices
    options = shown.options if shown.choices == choices else None
    truth = _take_one(cells.get("gold", kept.get("right")))
    label = ask.find_label(truth, choices, options) or Json(truth).text()
    question = replace(shown, choices=choices, options=options, truth=label, category=category)
    said = read_message(_take_one(cells["prediction"]))
    # The verdict of the results: whether it is correct, or whether what was read is right.
    read, right = _take_one(kept.get("read")), _take_one(kept.get("right"))
    value = Json(_take_one(kept.get("correct"))).number()
    if value is None and read is not None and right is not None:
        value = float(read == right)
    text = Json(read).text()
    verdict = Verdict(value, ask.find_label(text, choices, options) or text)
    return Record(name, question, Completion(said.text, said.status, messages), verdict)


def _take_one(value: object) -> object:
    """Return the only one of a list; what is no list as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
