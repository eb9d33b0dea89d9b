"""lighteval: `details_<task>|<shots>_<time>.parquet`, alone or in the folder of a run.

Its columns are `doc`, `metric` and `model_response`; older releases had the same as flat columns. Tasks by
log-probability have no replies: there the likeliest choice stands for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import ClassVar

from answerkey.datasets import iterate_blocks, load_table
from answerkey.importers.logs import (
    DamagedError,
    Log,
    LogFile,
    LogPreview,
    Question,
    Record,
    Row,
    Verdict,
    get,
    get_list,
    get_number,
    get_text,
)
from answerkey.importers.questions import (
    Texts,
    choose_newest,
    find_label,
    find_largest,
    find_shown,
    label_options,
    rank_choices,
    read_messages,
    read_texts,
    say_repeats,
    take_labels,
)
from answerkey.models.responses import read_message, to_json_values
from answerkey.types import Completion

_DETAILS = re.compile(r"details_(?P<task>.+?)(_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.parquet")
#: Metrics that say whether an answer is right, the usual first.
_METRICS = ("acc", "loglikelihood_acc", "exact_match", "extractive_match", "em", "acc_norm", "qem", "pem")
_COLUMNS = frozenset({"doc", "metric", "model_response"})
_OLD_COLUMNS = frozenset({"predictions", "full_prompt"})
_BLOCK = 2_048
_FEWEST = 2
_IMPOSSIBLE = -1e30


class LightevalReader:
    """Reads the details of a run of lighteval; of several runs in a folder, the newest."""

    kind: ClassVar[str] = "lighteval"
    title: ClassVar[str] = "lighteval details"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether there are files named as lighteval names them."""
        return any(_DETAILS.fullmatch(PurePosixPath(name).name) for name in preview.names)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question and each of its replies."""
        hint = "lighteval writes them with `--save-details`"
        files = choose_newest(log, _DETAILS, wanted="details_*.parquet", option=hint)
        tasks = sorted({task for task, _ in files})
        log.description.task = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks of lighteval"
        # The model is what the folders between `details` and the time are called.
        parts = Path(files[0][1].file).parts
        if "details" in parts:
            last = len(parts) - parts[::-1].index("details")
            log.description.model = "/".join(parts[last:-2]) or None
        for task, file in files:
            reading = _TaskRows(log, None if len(files) == 1 else task)
            yield from log.convert(_iterate_rows(log, file), reading.read, file)
            say_repeats(log, task, reading.repeats)


def _iterate_rows(log: Log, file: LogFile) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a Parquet file with their numbers from 1 on; a part of them is in memory."""
    path = Path(file.file)
    if not path.is_file():
        log.mark_broken("Parquet cannot be read inside an archive: unpack it first", file.place())
        return
    with log.guard(file):
        rows = load_table(path, by_trial=True).rows
        if not any(set(rows.columns) >= form for form in (_COLUMNS, _OLD_COLUMNS)):
            message = "it has neither the columns `doc`, `metric` and `model_response` nor older ones"
            raise DamagedError(message)
        number = 0
        for _, block in iterate_blocks(rows, size=_BLOCK):
            for row in block.rows():
                log.seen += 1
                number += 1
                yield number, dict(row)


class _TaskRows:
    """The rows of one file, whose task is named where there are several files.

    The first row decides which metric is looked at.
    """

    def __init__(self, log: Log, task: str | None) -> None:
        self._log = log
        self._task = task
        self._metric = log.options.score
        self._number = -1
        self.repeats = 1

    def read(self, row: Row) -> list[Record]:
        """Return the records of a row."""
        self._number += 1
        doc, metrics, said = _split(row)
        if self._metric is None:
            names = list(metrics) if isinstance(metrics, dict) else []
            numbers = (one for one in names if get_number(metrics, one) is not None)
            self._metric = next((one for one in _METRICS if one in names), None) or next(numbers, "")
        self._log.description.score = self._metric or None
        prompt = read_messages(get(said, "input"))
        asked = get_text(doc, "query") or None
        if not asked and prompt and isinstance(prompt[-1]["content"], str):
            asked = prompt[-1]["content"]
        texts = read_texts(get(doc, "choices")) or ()
        choices, options = _find_choices(texts, asked)
        kept = {name: get(doc, name) for name in ("id", "task_name", "specific", "num_samples")}
        question = Question(
            question=asked,
            choices=choices,
            options=options,
            truth=_find_truth(doc, texts, choices, options),
            category=self._task,
            original={name: value for name, value in kept.items() if value is not None},
        )
        identity = get_text(doc, "id") or str(self._number)
        name = identity if self._task is None else f"{self._task}/{identity}"
        listed = get(said, "text")
        replies = listed if isinstance(listed, list) else [listed] if isinstance(listed, str) else []
        if replies:
            completions = [
                Completion(one.text, one.status, prompt, reasoning=_pick_text(said, "reasonings", place))
                for place, one in enumerate(map(read_message, replies))
            ]
            read = _pick_text(said, "text_post_processed", 0)
            answer = None if read is None else find_label(read, choices, options) or read.strip()
        else:
            numbers_or_none = [get_number(one) for one in get_list(said, "logprobs")]
            logprobs = [_IMPOSSIBLE if one is None else one for one in numbers_or_none]
            if choices is None or not logprobs or not len(logprobs) == len(choices) == len(texts):
                raise DamagedError("the row has neither a reply nor a log-probability of each choice")
            answer = choices[find_largest(logprobs)]
            completions = [rank_choices(texts, logprobs, answer, prompt)]
        self.repeats = max(self.repeats, len(completions))
        # Replies are judged together; the verdict is shown with the first.
        verdict = Verdict(get_number(metrics, self._metric), answer)
        return [
            Record(name, question, one, Verdict() if trial else verdict, trial)
            for trial, one in enumerate(completions)
        ]


def _split(row: Row) -> tuple[object, object, object]:
    """Return what was asked, the metrics and what was said, also of a row of an older release."""
    if "doc" in row:
        return _unpack(row["doc"]), _unpack(row.get("metric")), _unpack(row.get("model_response"))
    doc = {
        "query": row.get("example") or row.get("full_prompt"),
        "choices": row.get("choices"),
        "gold_index": row.get("gold_index", get(_unpack(row.get("specifics")), "gold_index")),
        "gold": row.get("gold"),
    }
    replies = _unpack(row.get("predictions"))
    listed = replies if isinstance(replies, list) else [replies]
    # A log-probability stands alone, or before whether it was the greedy choice.
    firsts = [one[0] if isinstance(one, list | tuple) and one else one for one in listed]
    numbers = [None if isinstance(one, str) else get_number(one) for one in firsts]
    said: Row = {"input": row.get("full_prompt")}
    if len(listed) >= _FEWEST and all(number is not None for number in numbers):
        said["logprobs"] = numbers
    else:
        said["text"] = listed
    return doc, _unpack(row.get("metrics")), said


def _unpack(value: object) -> object:
    """Return a cell as plain values; it may be their JSON text."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        found = read_texts(value)
        return list(found) if found is not None else value
    return to_json_values(value) if isinstance(value, Mapping) else value


def _find_choices(texts: Texts, prompt: str | None) -> tuple[Texts | None, Texts | None]:
    """Return labels and options. Choices that are labels themselves leave the options to the prompt."""
    shown = find_shown(prompt)
    if len(texts) < _FEWEST:
        return shown.choices, shown.options
    labels = take_labels(texts)
    if labels is None:
        return label_options(len(texts)), tuple(text.strip() for text in texts)
    return labels, shown.options if shown.choices == labels else None


def _find_truth(doc: object, texts: Texts, choices: Texts | None, options: Texts | None) -> str | None:
    given = get(doc, "gold_index")
    found = []
    for place in given if isinstance(given, list) else [given]:
        if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(texts):
            text = texts[place].strip()
            label = choices[place] if choices and len(choices) == len(texts) else None
            found.append(label or find_label(text, choices, options) or text)
    if not found:
        gold = read_texts(get(doc, "gold")) or (get_text(doc, "gold") or "",)
        found = [find_label(one.strip(), choices, options) or one.strip() for one in gold]
    return ",".join(found) or None


def _pick_text(said: object, name: str, place: int) -> str | None:
    """Return the text in a place of a list; None for none, or an empty one."""
    listed = get_list(said, name)
    found = listed[place] if place < len(listed) else None
    return found if isinstance(found, str) and found else None
