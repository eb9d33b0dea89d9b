"""evalscope and OpenCompass: folders with `predictions/` and, beside them, how these were judged.

The options stand in the prompts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from answerkey.datasets import questions as ask
from answerkey.errors import listing
from answerkey.importers import prompts
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

# ── evalscope ───────────────────────────────────────────────────────────────────────────────────────────────

_REPORT = re.compile(r"(.*/)?reports/.+\.json")


class EvalscopeReader(KnownReader):
    """Reads the folder of a run with `predictions/` and `reviews/`, or one file of either.

    A review says what was asked, what was right and how it was judged; the prediction of the same `index`
    says more about the reply.
    """

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
            lines = (file for file in log.files() if file.name.endswith((".jsonl", ".gz", ".zst")))
            alone = next(lines, None)
            if alone is None:
                message = f"`{log.path}` holds no `predictions` and no `reviews` of evalscope"
                raise log.make_error("E201", message)
            sets = {alone.stem: {"reviews": alone}}
        stated = _read_reports(log)
        if missing := sorted(stated.keys() - sets.keys()):
            log.notice(f"the report names sets of which there is no file: {listing(missing)}")
        for name, files in sorted(sets.items()):
            if log.begin_task(name):
                yield from _read_set(log, name, files, stated.get(name))


def _read_reports(log: Log) -> dict[str, int]:
    """Return how many samples the reports of a run state of each set."""
    stated: dict[str, int] = {}
    for file in log.files():
        if _REPORT.fullmatch(file.name) and (report := log.read_beside(file)) is not None:
            for category in (one for metric in report.list("metrics") for one in metric.list("categories")):
                for subset in category.list("subsets"):
                    if (count := subset.count("num")) is not None:
                        stated[f"{file.stem}_{subset.text('name')}"] = count
    return stated


def _read_set(log: Log, name: str, files: dict[str, LogFile], stated: int | None) -> Iterator[Record]:
    """Yield the records of one set; with both files, reviews wait on disk until their predictions come.

    `stated` is how many samples the report of the run has.
    """
    before = log.seen
    if len(files) == 1:
        for file in files.values():
            yield from log.convert(file, log.rows(file), lambda row: _read_review(log, row, row))
        log.compare_count(log.seen - before, stated, "the report")
        return
    used = 0
    with LookupTable() as kept:

        def keep(review: Json) -> list[Record]:
            kept.put(review.require("line", "index"), review.value)
            return []

        def join(row: Json) -> Record:
            return _read_review(log, Json(kept.get(row.require("line", "index"))), row)

        list(log.convert(files["reviews"], log.rows(files["reviews"]), keep))
        reviews, before = log.seen - before, log.seen
        for record in log.convert(files["predictions"], log.rows(files["predictions"]), join):
            used += record.question is not None and record.question.truth is not None
            yield record
        predictions = log.seen - before
        if stated is not None:
            log.compare_count(predictions, stated, "the report")
        elif predictions < reviews:
            log.compare_count(predictions, reviews, "the file of reviews", "predictions")
        if used < predictions:
            log.notice(f"`{name}`: {predictions - used} of {predictions} predictions have no review")


def _read_review(log: Log, review: Json, prediction: Json) -> Record:
    """Return the record of a review and a prediction, which may be one and the same."""
    index, score, told = prediction.require("line", "index"), review.at("sample_score"), log.description
    told.model = told.model or prediction.text("model")
    messages: prompts.Messages = []
    for row in (review, prediction):  # what stands before the reply; older reviews have `input`
        found = prompts.read_messages(row.get("messages") or row.get("input")) or []
        last = max((at for at, one in enumerate(found) if one["role"] == "user"), default=-1)
        messages = messages or found[: last + 1]
    question = prompts.split_prompt(prompts.find_question(messages))
    choices = question.choices
    # The verdict is that of the score that is wanted, of the main one, or of the only one.
    values, wanted = score.get("score", "value"), log.options.score
    value = Json(values).number()
    if isinstance(values, dict):
        main = wanted or score.text("score", "main_score_name")
        name = main if main in values else next(iter(values), None)
        if wanted in {None, name}:
            told.score = told.score or (None if name is None else str(name))
            value = Json(values).number(str(name))
    read = score.text("score", "extracted_prediction")
    group = score.text("group_id")
    return Record(
        index if group is None else group,
        replace(
            question,
            truth=ask.find_truth(review.get("target"), choices, question.options),
            original=score.object("sample_metadata") or prediction.object("metadata"),
        ),
        replace(_read_output(review, prediction), prompt=messages or None),
        Verdict(value, ask.find_label(read, choices, None) or read),
        0 if group is None else score.count("generation_index") or 0,
    )


def _read_output(review: Json, prediction: Json) -> Completion:
    """Return what was said: of a prediction its first choice, of a review its text."""
    output = prediction.at("model_output")
    if output.value is None:
        return read_message(review.text("sample_score", "score", "prediction"))
    content = next(iter(output.list("choices")), Json(None)).get("message", "content")
    error = output.text("error") or output.text("error", "message")
    if error and not prompts.join_parts(content):
        return prompts.fail(error)
    reasoning = None
    if isinstance(content, list):
        reasoning = prompts.join_parts(content, "reasoning", kind="reasoning")
        content = [part for part in content if Json(part).get("type") != "reasoning"]
    said = read_message({"role": "assistant", "content": content})
    return prompts.add_usage(said, output, reply=None, reasoning=reasoning)


# ── OpenCompass ─────────────────────────────────────────────────────────────────────────────────────────────

_FILE = re.compile(r"(.*/)?(?P<part>predictions|results)/(?P<model>[^/]+)/(?P<name>[^/]+)\.json(\.gz|\.zst)?")
_SPLIT = re.compile(r"(?P<name>.+)_(?P<number>\d+)")
_LABEL = "label: "


class OpenCompassReader(KnownReader):
    """Reads `predictions/<model>/<dataset>.json`, alone or in the folder of a run.

    A file is an object with a question under each of "0", "1", …; a large dataset is split into `_0`, `_1`, …
    `results/` has the verdicts, if the run kept details.
    """

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
        files = list(log.files())
        path = log.path.resolve()
        beside = path.parents[2] / "results" / path.parent.name / path.name if len(path.parents) > 2 else path  # noqa: PLR2004 - part, model, file
        if log.path.is_file() and beside.is_file() and path.parents[1].name == "predictions":
            files += iterate_files(beside)
        found, models = group_files(files, _FILE)
        partial = [name for name in found if name.startswith("tmp_")]
        if unfinished := sum("predictions" in found.pop(name) for name in partial):
            log.notice(f"{unfinished} files `tmp_*` of predictions that were not finished are left aside")
        hint = "copy the folders of one model, or name one file of its predictions"
        log.name_model(models, "the output", hint)
        predictions, results = (
            _join_splits({name: parts[part] for name, parts in found.items() if part in parts})
            for part in ("predictions", "results")
        )
        if not predictions and log.path.is_file():
            predictions = {files[0].stem: files[:1]}
        if not predictions:
            raise log.make_error("E201", f"`{log.path}` holds no folder `predictions` of OpenCompass")
        for name, parts in predictions.items():
            if not log.begin_task(name):
                continue
            log.description.score = "correct" if results else None
            with LookupTable() as verdicts:
                for part, file in enumerate(results.get(name, ())):
                    for row in log.values(file, "details"):
                        if row.object():
                            verdicts.put(f"{part}/{row.key}", row.value)
                offset = present = 0
                for part, file in enumerate(parts):
                    before = log.seen

                    highest = 0

                    def read(row: Json, part: int = part, offset: int = offset) -> Record:
                        nonlocal highest
                        number: int | str = row.key
                        if row.key.isascii() and row.key.isdigit():
                            highest = max(highest, int(row.key) + 1)
                            number = int(row.key) + offset
                        detail = Json(verdicts.get(f"{part}/{row.key}"))
                        return _read_prediction(row, str(number), detail)

                    yield from log.convert(file, log.elements(file), read)
                    present += log.seen - before
                    offset += max(highest, log.seen - before)
                judged = verdicts.count
                if judged > present:
                    log.compare_count(present, judged, "the file of results")
                elif present < offset:
                    log.notice(
                        f"`{name}`: the questions go to {offset - 1}, but {offset - present} are missing"
                    )
                elif judged < present:
                    log.notice(
                        f"`{name}`: {present - judged} of {present} samples have no verdict in `results`"
                    )
                elif not present:
                    log.compare_count(0, None, "")


def _join_splits(files: dict[str, LogFile]) -> dict[str, list[LogFile]]:
    """Return files by dataset: `x_0`, `x_1`, … are one, unless there is an `x` or a number is missing."""
    splits: dict[str, dict[int, str]] = {}
    for name in files:
        match = _SPLIT.fullmatch(name)
        if match is not None and match["name"] not in files:
            splits.setdefault(match["name"], {})[int(match["number"])] = name
    alone = dict(files)
    joined = {
        name: [alone.pop(parts[number]) for number in sorted(parts)]
        for name, parts in splits.items()
        if sorted(parts) == list(range(len(parts)))
    }
    return dict(sorted((joined | {name: [file] for name, file in alone.items()}).items()))


def _read_prediction(row: Json, name: str, detail: Json) -> Record:
    """Return the record of a question; `detail` is what the results say of it."""
    cells = row.object()
    if "prediction" not in cells:
        raise DamagedError("the question has no `prediction`")
    # Where labels were asked one by one, what was asked stands with each.
    asked = {key.removeprefix(_LABEL): value for key, value in cells.items() if key.startswith(_LABEL)}
    first = Json(next(iter(asked.values()), None))
    prompt = row.get("origin_prompt") or first.get("testing input") or first.get("prompt")
    messages = prompts.read_messages(prompt)
    shown = prompts.split_prompt(prompts.find_question(messages))
    choices = ask.take_labels(list(asked)) or shown.choices
    options = shown.options if shown.choices == choices else None
    known = detail.object()
    correct, read, right = (
        _take_one(known.get(one, known.get(other)))
        for one, other in (("correct", "is_correct"), ("predictions", "pred"), ("references", "refr"))
    )
    truth = _take_one(cells["gold"]) if "gold" in cells else right
    label = ask.find_label(truth, choices, options) or ask.write_cell(truth)
    said = read_message(_take_one(cells["prediction"]))
    value = Json(correct).number()
    if value is None and read is not None and right is not None:
        value = float(read == right)
    text = ask.write_cell(read)
    return Record(
        name,
        replace(shown, choices=choices, options=options, truth=label),
        Completion(said.text, said.status, messages),
        Verdict(value, ask.find_label(text, choices, options) or text),
    )


def _take_one(value: object) -> object:
    """Return the only one of a list; what is no list as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
