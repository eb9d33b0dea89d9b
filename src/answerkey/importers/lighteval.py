"""lighteval: `details_<task>|<shots>_<time>.parquet`, alone or in the folder of a run.

Its columns are `doc`, `metric` and `model_response`; older releases had the same as flat columns. Tasks by
log-probability have no replies: there the likeliest choice stands for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from answerkey.datasets.rows import iterate_blocks
from answerkey.datasets.tables import load_table
from answerkey.importers import questions as ask
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogFile,
    Question,
    Record,
    Row,
    Verdict,
)
from answerkey.models.responses import read_message, to_json_values
from answerkey.types import Completion

#: Metrics that say whether an answer is right, the usual first.
_METRICS = ("acc", "loglikelihood_acc", "exact_match", "extractive_match", "em", "acc_norm", "qem", "pem")
_COLUMNS = frozenset({"doc", "metric", "model_response"})
_OLD_COLUMNS = frozenset({"predictions", "full_prompt"})
_BLOCK = 2_048
_FEWEST = 2
_IMPOSSIBLE = -1e30


class LightevalReader(KnownReader):
    """Reads the details of a run of lighteval; of several runs in a folder, the newest."""

    kind = "lighteval"
    title = "lighteval details"
    file_name = re.compile(r"(.*/)?details_(?P<task>[^/]+?)(_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.parquet")

    #: Of the file at hand: its task, where there are several, the metric, and how often each was asked.
    _task: str | None
    _metric: str | None
    _repeats: int

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question and each of its replies."""
        hint = "lighteval writes them with `--save-details`"
        files = ask.choose_newest(log, self.file_name, wanted="details_*.parquet", option=hint)
        log.name_task([task for task, _ in files], "tasks of lighteval")
        # The model is what the folders between `details` and the time are called.
        parts = Path(files[0][1].file).parts
        if "details" in parts:
            last = len(parts) - parts[::-1].index("details")
            log.description.model = "/".join(parts[last:-2]) or None
        for task, file in files:
            self._task = None if len(files) == 1 else task
            self._metric, self._repeats = log.options.score, 1
            yield from log.convert(file, _iterate_rows(log, file), partial(self._read_row, log))
            ask.say_repeats(log, task, self._repeats)

    def _read_row(self, log: Log, row: Json) -> list[Record]:
        """Return the records of a row; the first of a file decides which metric is looked at."""
        doc, metrics, said = _split(row.object())
        if self._metric is None:
            names = list(metrics.object())
            numbers = (one for one in names if metrics.number(one) is not None)
            self._metric = next((one for one in _METRICS if one in names), None) or next(numbers, "")
        log.description.score = self._metric or None
        prompt = ask.read_messages(said.get("input"))
        asked = doc.text("query") or None
        if not asked and prompt and isinstance(prompt[-1]["content"], str):
            asked = prompt[-1]["content"]
        texts = ask.read_texts(doc.get("choices")) or ()
        choices, options = _find_choices(texts, asked)
        kept = {name: doc.get(name) for name in ("id", "task_name", "specific", "num_samples")}
        question = Question(
            question=asked,
            choices=choices,
            options=options,
            truth=_find_truth(doc, texts, choices, options),
            category=self._task,
            original={name: value for name, value in kept.items() if value is not None},
        )
        identity = doc.text("id") or str((row.line or 0) - 1)
        listed = said.get("text")
        replies = listed if isinstance(listed, list) else [listed] if isinstance(listed, str) else []
        if replies:
            completions = [
                Completion(one.text, one.status, prompt, reasoning=_pick_text(said, "reasonings", place))
                for place, one in enumerate(map(read_message, replies))
            ]
            read = _pick_text(said, "text_post_processed", 0)
            answer = None if read is None else ask.find_label(read, choices, options) or read.strip()
        else:
            found = [one.number() for one in said.list("logprobs")]
            logprobs = [_IMPOSSIBLE if one is None else one for one in found]
            if choices is None or not logprobs or not len(logprobs) == len(choices) == len(texts):
                raise DamagedError("the row has neither a reply nor a log-probability of each choice")
            answer = choices[ask.find_largest(logprobs)]
            completions = [ask.rank_choices(texts, logprobs, answer, prompt)]
        self._repeats = max(self._repeats, len(completions))
        name = identity if self._task is None else f"{self._task}/{identity}"
        return ask.list_trials(name, question, completions, Verdict(metrics.number(self._metric), answer))


def _iterate_rows(log: Log, file: LogFile) -> Iterator[Json]:
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
                yield Json(dict(row), number)


def _split(row: Row) -> tuple[Json, Json, Json]:
    """Return what was asked, the metrics and what was said, also of a row of an older release."""
    if "doc" in row:
        return _unpack(row["doc"]), _unpack(row.get("metric")), _unpack(row.get("model_response"))
    doc = {
        "query": row.get("example") or row.get("full_prompt"),
        "choices": row.get("choices"),
        "gold_index": row.get("gold_index", _unpack(row.get("specifics")).get("gold_index")),
        "gold": row.get("gold"),
    }
    replies = _unpack(row.get("predictions")).value
    listed = replies if isinstance(replies, list) else [replies]
    # A log-probability stands alone, or before whether it was the greedy choice.
    firsts = [one[0] if isinstance(one, list | tuple) and one else one for one in listed]
    numbers = [None if isinstance(one, str) else Json(one).number() for one in firsts]
    said: Row = {"input": row.get("full_prompt")}
    if len(listed) >= _FEWEST and all(number is not None for number in numbers):
        said["logprobs"] = numbers
    else:
        said["text"] = listed
    return Json(doc), _unpack(row.get("metrics")), Json(said)


def _unpack(value: object) -> Json:
    """Return a cell as plain values; a list may be its JSON text."""
    if isinstance(value, str) and value.startswith("[") and (found := ask.read_texts(value)) is not None:
        return Json(list(found))
    return Json(to_json_values(value) if isinstance(value, Mapping) else value)


def _find_choices(texts: ask.Texts, prompt: str | None) -> tuple[ask.Texts | None, ask.Texts | None]:
    """Return labels and options. Choices that are labels themselves leave the options to the prompt."""
    shown = ask.find_shown(prompt)
    if len(texts) < _FEWEST:
        return shown.choices, shown.options
    labels = ask.take_labels(texts)
    if labels is None:
        return ask.label_options(len(texts)), tuple(text.strip() for text in texts)
    return labels, shown.options if shown.choices == labels else None


def _find_truth(
    doc: Json, texts: ask.Texts, choices: ask.Texts | None, options: ask.Texts | None
) -> str | None:
    given = doc.get("gold_index")
    found = []
    for place in given if isinstance(given, list) else [given]:
        if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(texts):
            text = texts[place].strip()
            label = choices[place] if choices and len(choices) == len(texts) else None
            found.append(label or ask.find_label(text, choices, options) or text)
    if not found:
        gold = ask.read_texts(doc.get("gold")) or (doc.text("gold") or "",)
        found = [ask.find_label(one.strip(), choices, options) or one.strip() for one in gold]
    return ",".join(found) or None


def _pick_text(said: Json, name: str, place: int) -> str | None:
    """Return the text in a place of a list; None for none, or an empty one."""
    found = next((one.value for one in said.list(name)[place:]), None)
    return found if isinstance(found, str) and found else None
