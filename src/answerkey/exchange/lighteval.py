"""lighteval: `details_<task>|<shots>_<time>.parquet`, alone or in the folder of a run.

Its columns are `doc`, `metric` and `model_response`; older releases had the same as flat columns. Tasks by
log-probability have no replies: there the likeliest choice stands for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from answerkey.datasets import iterate_blocks, load_table
from answerkey.errors import DataError, Place
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_text, read_number
from answerkey.exchange.labels import find_label, label_options, read_texts, take_labels
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece
from answerkey.exchange.prompts import find_shown, read_messages
from answerkey.models.responses import read_message, to_json_values
from answerkey.types import Completion

DETAILS = re.compile(r"details_(?P<task>.+?)(_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.parquet")
#: Metrics that say whether an answer is right, the usual first.
METRICS = ("acc", "loglikelihood_acc", "exact_match", "extractive_match", "em", "acc_norm", "qem", "pem")
_COLUMNS = frozenset({"doc", "metric", "model_response"})
_OLD_COLUMNS = frozenset({"predictions", "full_prompt"})
_BLOCK = 2_048
_FEWEST = 2


class LightevalReader:
    """Reads the details of a run of lighteval; of several runs in a folder, the newest."""

    kind: ClassVar[str] = "lighteval"
    title: ClassVar[str] = "lighteval details"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether there are files named as lighteval names them."""
        return any(DETAILS.fullmatch(PurePosixPath(name).name) for name in glimpse.names)

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each question and each of its replies."""
        files = _choose_files(log)
        tasks = sorted({task for task, _ in files})
        log.told.task = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks of lighteval"
        log.told.model = _name_model(files[0][1])
        for task, piece in files:
            reading = _Task(log, task, is_only=len(files) == 1)
            for number, row in _iterate_rows(log, piece):
                lines = log.take(reading.at(number), row, piece, number + 1)
                yield from lines or ()
            reading.conclude()


def _choose_files(log: Log) -> list[tuple[str, Piece]]:
    """Return the files of the newest run by task; a file of any name, when it is all there is."""
    found: dict[str, tuple[str, Piece]] = {}
    older = 0
    for piece in log.pieces():
        match = DETAILS.fullmatch(PurePosixPath(piece.name).name)
        if match is None:
            continue
        known = found.get(match["task"])
        older += known is not None
        if known is None or known[0] < (match["time"] or ""):
            found[match["task"]] = (match["time"] or "", piece)
    if older:
        log.notice(f"{older} files of earlier runs are left aside", "name one file, or one folder of a run")
    if found:
        return [(task, piece) for task, (_, piece) in sorted(found.items())]
    if log.path.is_file():
        return [(PurePosixPath(piece.name).name.partition(".")[0], piece) for piece in log.pieces()][:1]
    message = f"the folder `{log.path}` holds no file `details_*.parquet`"
    hint = "lighteval writes them with `--save-details`"
    raise DataError("E201", message, where=Place(file=str(log.path)), hint=hint)


def _name_model(piece: Piece) -> str | None:
    """Return the model, which is what the folders between `details` and the time are called."""
    parts = Path(piece.file).parts
    if "details" not in parts:
        return None
    below = parts[len(parts) - parts[::-1].index("details") : -2]
    return "/".join(below) or None


def _iterate_rows(log: Log, piece: Piece) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a Parquet file with their numbers; a part of them is in memory."""
    path = Path(piece.file)
    if not path.is_file():
        log.spoil("Parquet cannot be read inside an archive: unpack it first", piece.place())
        return
    with log.guard(piece):
        rows = load_table(path, by_trial=True).rows
        if not any(set(rows.columns) >= form for form in (_COLUMNS, _OLD_COLUMNS)):
            raise DamagedError(
                "it has neither the columns `doc`, `metric` and `model_response` nor older ones"
            )
        number = 0
        for _, block in iterate_blocks(rows, size=_BLOCK):
            for row in block.rows():
                log.seen += 1
                yield number, dict(row)
                number += 1


class _Task:
    """The rows of one file. The first of them decides which metric is looked at."""

    def __init__(self, log: Log, name: str, *, is_only: bool) -> None:
        self._log = log
        self._name = name
        self._category = None if is_only else name
        self._is_only = is_only
        self._metric = log.wishes.score
        self._repeats = 1
        self._number = 0

    def at(self, number: int) -> _Task:
        """Return the same, for the row of a number."""
        self._number = number
        return self

    def __call__(self, row: Row) -> list[Line]:
        """Return the lines of a row."""
        asked_of, metric, said = _split(row)
        self._choose(metric)
        choices, options = _find_choices(asked_of, said)
        truth = _find_truth(asked_of, choices, options)
        asked = Asked(
            question=get_text(asked_of, "query") or _find_input(said),
            choices=choices,
            options=options,
            truth=truth,
            category=self._category,
            original=_keep_rest(asked_of),
        )
        replies = _list_replies(asked_of, said, choices)
        self._repeats = max(self._repeats, len(replies))
        identity = get_text(asked_of, "id") or str(self._number)
        name = identity if self._is_only else f"{self._name}/{identity}"
        value = read_number(get(metric, self._metric or ""))
        theirs = Theirs(value, _find_their_answer(said, choices, options, replies[0]))
        # Replies are judged together; the verdict is shown with the first.
        return [
            Line(name, asked, one, Theirs() if trial else theirs, trial) for trial, one in enumerate(replies)
        ]

    def _choose(self, metric: object) -> None:
        names = list(metric) if isinstance(metric, dict) else []
        if self._metric is None:
            usual = next((one for one in METRICS if one in names), None)
            self._metric = usual or next(
                (one for one in names if read_number(get(metric, one)) is not None), ""
            )
        self._log.told.score = self._metric or None

    def conclude(self) -> None:
        """Tell what was judged together."""
        if self._repeats > 1:
            self._log.notice(
                f"task `{self._name}`: each question was asked {self._repeats} times and judged once; "
                "the verdict is that of the first trial"
            )


def _split(row: Row) -> tuple[object, object, object]:
    """Return what was asked, the metrics and what was said, also of a row of an older release."""
    if "doc" in row:
        return _plain(row["doc"]), _plain(row.get("metric")), _plain(row.get("model_response"))
    specific = _plain(row.get("specifics"))
    gold = row.get("gold_index", get(specific, "gold_index"))
    asked_of = {
        "query": row.get("example") or row.get("full_prompt"),
        "choices": row.get("choices"),
        "gold_index": gold,
        "gold": row.get("gold"),
    }
    replies = _plain(row.get("predictions"))
    said: dict[str, object] = {"input": row.get("full_prompt")}
    listed = replies if isinstance(replies, list) else [replies]
    numbers = [_read_logprob(one) for one in listed]
    if len(listed) >= _FEWEST and all(number is not None for number in numbers):
        said["logprobs"] = numbers
    else:
        said["text"] = listed
    return asked_of, _plain(row.get("metrics")), said


def _read_logprob(value: object) -> float | None:
    """Return a log-probability, alone or before whether it was the greedy choice."""
    value = value[0] if isinstance(value, list | tuple) and value else value
    return None if isinstance(value, str) else read_number(value)


def _plain(value: object) -> object:
    """Return a cell as plain values; it may be their JSON text."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        found = read_texts(value)
        return list(found) if found is not None else value
    return to_json_values(value) if isinstance(value, Mapping) else value


def _find_choices(asked_of: object, said: object) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return labels and options. Choices that are labels themselves leave the options to the prompt."""
    texts = read_texts(get(asked_of, "choices"))
    shown = find_shown(get_text(asked_of, "query") or _find_input(said))
    if texts is None or len(texts) < _FEWEST:
        return (shown.choices, shown.options) if shown else (None, None)
    labels = take_labels(texts)
    if labels is None:
        return label_options(len(texts)), tuple(text.strip() for text in texts)
    return labels, shown.options if shown and shown.choices == labels else None


def _find_truth(
    asked_of: object, choices: tuple[str, ...] | None, options: tuple[str, ...] | None
) -> str | None:
    given = get(asked_of, "gold_index")
    places = given if isinstance(given, list) else [given]
    texts = read_texts(get(asked_of, "choices")) or ()
    found = []
    for place in places:
        if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(texts):
            text = texts[place].strip()
            label = choices[place] if choices and len(choices) == len(texts) else None
            found.append(label or find_label(text, choices, options) or text)
    if not found:
        gold = read_texts(get(asked_of, "gold")) or (get_text(asked_of, "gold") or "",)
        found = [find_label(one.strip(), choices, options) or one.strip() for one in gold]
    return ",".join(found) or None


def _find_input(said: object) -> str | None:
    messages = read_messages(get(said, "input"))
    content = messages[-1]["content"] if messages else None
    return content if isinstance(content, str) else None


def _keep_rest(asked_of: object) -> Mapping[str, object]:
    kept = ("id", "task_name", "specific", "num_samples")
    found = {name: get(asked_of, name) for name in kept}
    return {name: value for name, value in found.items() if value is not None}


def _list_replies(asked_of: object, said: object, choices: tuple[str, ...] | None) -> list[Completion]:
    """Return the replies; by log-probability, the likeliest choice's label alone."""
    prompt = read_messages(get(said, "input"))
    texts = get(said, "text")
    texts = texts if isinstance(texts, list) else [texts] if isinstance(texts, str) else []
    if texts:
        thoughts = get(said, "reasonings")
        return [
            Completion(one.text, one.status, prompt, reasoning=_pick_text(thoughts, place))
            for place, one in enumerate(map(read_message, texts))
        ]
    listed = get(said, "logprobs")
    numbers = [read_number(one) for one in listed] if isinstance(listed, list) else []
    continuations = read_texts(get(asked_of, "choices")) or ()
    if choices is None or not numbers or len(numbers) != len(choices) or len(continuations) != len(choices):
        raise DamagedError("the row has neither a reply nor a log-probability of each choice")
    return [_rank(continuations, [-1e30 if one is None else one for one in numbers], choices, prompt)]


def _pick_text(listed: object, place: int) -> str | None:
    found = listed[place] if isinstance(listed, list) and place < len(listed) else None
    return found if isinstance(found, str) and found else None


def _rank(
    texts: Sequence[str],
    logprobs: Sequence[float],
    choices: Sequence[str],
    prompt: list[dict[str, object]] | None,
) -> Completion:
    ranking = [
        {"continuation": text, "logprob": number, "bytes": len(text.encode(errors="replace"))}
        for text, number in zip(texts, logprobs, strict=True)
    ]
    best = max(range(len(logprobs)), key=lambda place: (logprobs[place], -place))
    return Completion(choices[best], prompt=prompt, logprobs={"ranking": ranking})


def _find_their_answer(
    said: object, choices: tuple[str, ...] | None, options: tuple[str, ...] | None, reply: Completion
) -> str | None:
    """Return what was taken for the answer: the text after their processing, or the likeliest choice."""
    if reply.logprobs is not None:
        return reply.text
    read = _pick_text(get(said, "text_post_processed"), 0)
    return None if read is None else find_label(read, choices, options) or read.strip()
