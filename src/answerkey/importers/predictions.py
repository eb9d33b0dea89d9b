"""evalscope and OpenCompass: folders with `predictions/` and verdicts beside them.

Only the prompts contain the options.
"""

from __future__ import annotations

import re

from answerkey.datasets.options import take_labels, write_cell
from answerkey.importers.json_values import DamagedError, Json
from answerkey.importers.logs import (
    FileGroups,
    Log,
    LogFile,
    LogPreview,
    LogReader,
    Parts,
    Record,
    Records,
    iterate_entries,
)
from answerkey.importers.prompts import (
    Messages,
    add_usage,
    find_question,
    join_parts,
    read_messages,
)
from answerkey.importers.questions import parse_prompt
from answerkey.models.responses import fail, read_message
from answerkey.types import Completion

# ── evalscope

_REPORT = re.compile(r"(.*/)?reports/.+\.json")


class EvalscopeReader(LogReader):
    """Reads the folder of a run with `predictions/` and `reviews/`, or one file of either.

    A review has the question, the truth and the verdict; the prediction with the same `index` has
    more about the reply.
    """

    kind = "evalscope"
    title = "evalscope output"
    file_name = re.compile(
        r"(.*/)?(?P<part>predictions|reviews)/(?P<model>.+)/(?P<name>[^/]+)\.jsonl(\.gz|\.zst)?"
    )
    row_keys = ({"index", "sample_score"}, {"index", "model_output"})

    def read(self, log: Log) -> Records:
        """Yield a record for each reply."""
        sets = log.group_files(self.file_name, "reviews")
        if not sets:
            message = f"`{log.path}` contains no `predictions` and no `reviews` of evalscope"
            raise log.make_error("E201", message)
        counts = _read_reports(log)
        for name, files in sorted(sets.items()):
            if log.begin_task(name):
                yield from _read_set(log, files, counts.get(name))


def _read_reports(log: Log) -> dict[str, int]:
    """Return the number of samples of each set, as stated in the reports of a run."""
    counts: dict[str, int] = {}
    for file in log.files():
        if not _REPORT.fullmatch(file.name):
            continue
        report = log.read_whole(file)
        for metric in report.list("metrics"):
            for category in metric.list("categories"):
                for subset in category.list("subsets"):
                    count = subset.count("num")
                    name = subset.text("name")
                    if count is not None:
                        counts[f"{file.stem}_{name}"] = count
    return counts


def _read_set(
    log: Log,
    files: Parts,
    expected: int | None,
) -> Records:
    """Yield the records of a set; `expected` is the number of samples in the run's report.

    Reviews are kept until the prediction with the same `index` is read.
    """
    reviews: dict[str, Json] = {}
    main = files.get("predictions") or files["reviews"]
    if len(files) > 1:
        for review in log.rows(files["reviews"]):
            index = review.text("index") or ""
            reviews[index] = review
    before = log.seen

    def read(row: Json) -> list[Record]:
        review = row
        if reviews:
            index = row.require("line", "index")
            review = reviews.get(index, Json(None))
        return _read_review(log, review, row)

    yield from log.convert_lines(main, read)
    present = log.seen - before
    if expected is None and present < len(reviews):
        log.compare_count(
            present,
            len(reviews),
            "the file of reviews",
            "predictions",
        )
    else:
        log.compare_count(present, expected, "the report")


def _read_review(
    log: Log,
    review: Json,
    prediction: Json,
) -> list[Record]:
    """Return the record of a review and a prediction, which may be the same row."""
    index = prediction.require("line", "index")
    log.description.model = log.description.model or prediction.text("model")
    messages = _read_prompt(review) or _read_prompt(prediction)
    shown = find_question(messages)
    question = parse_prompt(shown)
    score = review.at("sample_score")
    question.truth = question.name_truth(review.get("target"))
    metadata = score.object("sample_metadata")
    question.original = metadata or prediction.object("metadata")
    group = score.text("group_id")
    trial = 0
    if group:
        trial = score.count("generation_index") or 0
    reply = _read_output(review, prediction)
    completion = reply.with_fields(
        prompt=messages or None,
        trial=trial,
        imported_score=_read_score(log, score),
        imported_answer=score.text("score", "extracted_prediction"),
    )
    return [Record(group or index, question, completion)]


def _read_prompt(row: Json) -> Messages:
    """Return the messages before the reply; older reviews have them in `input`."""
    content = row.get("messages") or row.get("input")
    messages = read_messages(content) or []
    end = 0
    for place, message in enumerate(messages, 1):
        if message["role"] == "user":
            end = place
    return messages[:end]


def _read_score(log: Log, score: Json) -> float | None:
    """Return the value of the score that the caller names, or else of the main or the only one."""
    values = score.get("score", "value")
    if not isinstance(values, dict):
        return Json(values).number()
    main_name = score.text("score", "main_score_name")
    names = [main_name, *values]
    if log.options.score is not None:
        names = [log.options.score]
    for name in names:
        if name in values:
            log.description.score = log.description.score or name
            return Json(values).number(str(name))
    return None


def _read_output(review: Json, prediction: Json) -> Completion:
    """Return the reply: the first choice of a prediction, or the text of a review."""
    output = prediction.at("model_output")
    if output.value is None:
        return read_message(review.text("sample_score", "score", "prediction"))
    choice = output.element(0, "choices")
    content = choice.get("message", "content")
    error = output.text("error") or output.text("error", "message")
    if error and not join_parts(content):
        return fail(error)
    reply = read_message({"content": content})
    return add_usage(reply, output)


# ── OpenCompass

_FILE = re.compile(
    r"(.*/)?(?P<part>predictions|results)/(?P<model>[^/]+)/"
    # Files with `tmp_` are not finished.
    r"(?P<name>(?!tmp_)[^/]+)\.json(\.gz|\.zst)?"
)
_LABEL = "label: "


class OpenCompassReader(LogReader):
    """Reads `predictions/<model>/<dataset>.json`, alone or in the folder of a run.

    A file is an object with a question under each of "0", "1", …; a large dataset is split into
    `_0`, `_1`, … `results/` has the verdicts, if the run stored details.
    """

    kind = "opencompass"
    title = "OpenCompass output"
    file_name = re.compile(r"(.*/)?predictions/[^/]+/[^/]+\.json(\.gz|\.zst)?")

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether there are folders like those of OpenCompass, or a file of predictions."""
        head = preview.head
        has_prompts = preview.mentions("origin_prompt") or f'"{_LABEL}' in head
        if has_prompts and re.match(r'\{\s*"\d+"\s*:\s*\{', head):
            return True
        return super().recognises(preview)

    def read(self, log: Log) -> Records:
        """Yield a record for each question."""
        groups = log.group_files(_FILE, "predictions")
        predictions = _join_splits(groups, "predictions")
        results = _join_splits(groups, "results")
        if not predictions:
            message = f"`{log.path}` contains no folder `predictions` of OpenCompass"
            raise log.make_error("E201", message)
        for name, parts in predictions.items():
            if log.begin_task(name):
                log.description.score = "correct" if results else None
                yield from _read_dataset(
                    log,
                    name,
                    parts,
                    results.get(name, []),
                )


def _join_splits(groups: FileGroups, part: str) -> dict[str, list[LogFile]]:
    """Return files by dataset: `x_0`, `x_1`, … are one dataset, unless there is an `x`."""
    files = {}
    for name, parts in groups.items():
        if part in parts:
            files[name] = [parts[part]]
    for name in sorted(files):
        dataset = name.removesuffix("_0")
        if dataset == name or dataset in files:
            continue
        splits: list[LogFile] = []
        while name in files:
            splits += files.pop(name)
            name = f"{dataset}_{len(splits)}"  # noqa: PLW2901 - the next split
        files[dataset] = splits
    return dict(sorted(files.items()))


def _read_dataset(
    log: Log,
    name: str,
    parts: list[LogFile],
    results: list[LogFile],
) -> Records:
    """Yield the records of a dataset; compare their number with that of the verdicts."""
    verdicts: dict[tuple[int, str], object] = {}
    for part, file in enumerate(results):
        details = log.read_whole(file).get("details")
        for detail in iterate_entries(details):
            if detail.object():
                verdicts[part, detail.key] = detail.value
    # The numbers of a later part continue those of the parts before it.
    offset = 0
    for part, file in enumerate(parts):
        highest = -1

        def read(
            row: Json,
            part: int = part,
            offset: int = offset,
        ) -> list[Record]:
            nonlocal highest
            sample_id = row.key
            if sample_id.isascii() and sample_id.isdigit():
                highest = max(highest, int(sample_id))
                sample_id = str(int(sample_id) + offset)
            detail = verdicts.get((part, row.key))
            return _read_prediction(row, sample_id, Json(detail))

        document = log.read_whole(file)
        rows = log.elements(document.value)
        yield from log.convert(file, rows, read)
        offset += highest + 1
    expected = max(log.present, len(verdicts))
    log.compare_count(log.present, expected, "the file of results")
    missing = offset - log.present
    if missing > 0:
        log.notice(
            f"`{name}`: questions are numbered up to {offset - 1}, but {missing} are missing"
        )


def _read_prediction(
    row: Json,
    name: str,
    detail: Json,
) -> list[Record]:
    """Return the record of a question; `detail` is its entry in the results."""
    cells = row.object()
    if "prediction" not in cells:
        raise DamagedError("the question has no `prediction`")
    # If each label was a request of its own, its prompt is stored with it.
    labels = {}
    for key, value in cells.items():
        if key.startswith(_LABEL):
            labels[key.removeprefix(_LABEL)] = value
    first = Json(next(iter(labels.values()), None))
    first_prompt = first.get("testing input") or first.get("prompt")
    messages = read_messages(row.get("origin_prompt") or first_prompt)
    shown = find_question(messages)
    question = parse_prompt(shown)
    choices = take_labels(list(labels)) or question.choices
    if choices != question.choices:
        question.choices = choices
        question.options = None
    right = _pick(detail, "references", "refr")
    truth = _unwrap(cells["gold"]) if "gold" in cells else right
    question.truth = question.name_truth(truth)
    extracted = _pick(detail, "predictions", "pred")
    is_correct = _pick(detail, "correct", "is_correct")
    value = Json(is_correct).number()
    if value is None and extracted is not None and right is not None:
        value = float(extracted == right)
    reply = read_message(_unwrap(cells["prediction"]))
    completion = reply.with_fields(
        prompt=messages,
        imported_score=value,
        imported_answer=write_cell(extracted),
    )
    return [Record(name, question, completion)]


def _pick(detail: Json, name: str, older_name: str) -> object:
    """Return a value of the results, which older releases name differently."""
    cells = detail.object()
    if name not in cells:
        name = older_name
    return _unwrap(cells.get(name))


def _unwrap(value: object) -> object:
    """Return the only element of a list; any other value unchanged."""
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    return value
