"""lm-evaluation-harness: `samples_<task>_<time>.jsonl`, alone, in the folder of a run, or in an archive.

A line is one question under one filter; the same replies come again for the next filter, and only one is
taken. Tasks by log-probability have no replies: there the likeliest choice stands for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.errors import DataError, Place, listing
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_text, read_number
from answerkey.exchange.json_streams import parse_json
from answerkey.exchange.lines import Line, Theirs
from answerkey.exchange.lm_eval_rows import Question
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece

SAMPLES = re.compile(r"samples_(?P<task>.+?)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl(\.gz|\.zst)?")
_NUMBERS = "results_*.json"
NUMBERS = re.compile(r"results_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.json")
#: Metrics that say whether an answer is right, the usual first.
METRICS = ("acc", "exact_match", "acc_norm", "em", "mc1")
_KNOWN = frozenset({"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"})
#: So many tasks are called by their names.
_NAMED = 3


class LmEvalReader:
    """Reads the samples of a run of lm-evaluation-harness; of several runs in a folder, the newest."""

    kind: ClassVar[str] = "lm-eval"
    title: ClassVar[str] = "lm-evaluation-harness log"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether there are files named as lm-eval names them, or lines as it writes them."""
        if any(SAMPLES.fullmatch(PurePosixPath(name).name) for name in glimpse.names):
            return True
        return {"doc_id", "doc", "resps", "filtered_resps"} <= set(glimpse.first)

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each question and repeat, under one filter."""
        files = _choose_files(log)
        _tell(log, [task for task, _ in files])
        for task, piece in files:
            reading = _Task(log, task, is_only=len(files) == 1)
            for number, row in log.read_lines(piece):
                found = log.take(reading.read, row, piece, number)
                yield from found or ()
            reading.conclude()
        _find_reported(log)


def _choose_files(log: Log) -> list[tuple[str, Piece]]:
    """Return the files of the newest run by task; a file of any name, when it is all there is."""
    found: dict[str, tuple[str, Piece]] = {}
    older = 0
    for piece in log.pieces():
        match = SAMPLES.fullmatch(PurePosixPath(piece.name).name)
        if match is None:
            continue
        known = found.get(match["task"])
        older += known is not None
        if known is None or known[0] < match["time"]:
            found[match["task"]] = (match["time"], piece)
    if older:
        log.notice(f"{older} files of earlier runs are left aside", "name one file, or one folder of a run")
    if found:
        return [(task, piece) for task, (_, piece) in sorted(found.items())]
    if log.path.is_file():
        return [(PurePosixPath(piece.name).name.partition(".")[0], piece) for piece in log.pieces()][:1]
    message = f"the folder `{log.path}` holds no file `samples_*.jsonl`"
    hint = "lm-eval writes them with `--log_samples`"
    raise DataError("E201", message, where=Place(file=str(log.path)), hint=hint)


def _tell(log: Log, tasks: Sequence[str]) -> None:
    log.told.task = ", ".join(tasks) if len(tasks) <= _NAMED else f"{len(tasks)} tasks of lm-eval"
    log.told.model = _read_about(log, "model_name") or _read_about(log, "config", "model")


def _iterate_numbers(log: Log) -> Iterator[Mapping[str, object]]:
    """Yield the files of numbers beside the samples, the newest first."""
    matches = (SAMPLES.fullmatch(PurePosixPath(piece.name).name) for piece in log.pieces())
    times = {match["time"] for match in matches if match}
    beside = log.path.rglob(_NUMBERS) if log.path.is_dir() else log.path.parent.glob(_NUMBERS)
    for path in sorted(beside, reverse=True):
        match = NUMBERS.fullmatch(path.name)
        if match is None or match["time"] not in times or not path.is_file():
            continue
        try:
            found = parse_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, DamagedError):
            continue
        if isinstance(found, dict):
            yield found


def _read_about(log: Log, *path: str) -> str | None:
    return next((text for one in _iterate_numbers(log) if (text := get_text(one, *path))), None)


def _find_reported(log: Log) -> None:
    """Take in what the run itself says of the score that was taken, for each task."""
    for one in _iterate_numbers(log):
        tasks = get(one, "results")
        for task, values in tasks.items() if isinstance(tasks, dict) else ():
            number = read_number(get(values, str(log.told.score)))
            if number is not None:
                log.told.reported.setdefault(str(task), number)


class _Task:
    """The lines of one file. The first of them decide which filter and which metric are looked at."""

    def __init__(self, log: Log, name: str, *, is_only: bool) -> None:
        self._log = log
        self._name = name
        self._category = None if is_only else name
        wish = (log.wishes.score or "").split(",")
        self._metric: str | None = wish[0] or None
        self._filter: str | None = wish[1] if len(wish) > 1 else None
        self._others: dict[str, int] = {}
        self._repeats = 1

    def read(self, row: Row) -> list[Line]:
        """Return the lines of a row: none under another filter, one for each repeat under this."""
        under = get_text(row, "filter") or "none"
        self._choose(row, under)
        if under != self._filter:
            self._others[under] = self._others.get(under, 0) + 1
            return []
        number = get_text(row, "doc_id")
        if number is None:
            raise DamagedError("the line has no `doc_id`")
        question = Question(row, self._metric or "")
        asked = question.describe(self._category)
        theirs = Theirs(read_number(row.get(self._metric or "")), question.find_their_answer())
        said = question.list_completions()
        self._repeats = max(self._repeats, len(said))
        # Repeats are judged together, after the filter; the verdict is shown with the first.
        return [
            Line(f"{self._name}/{number}", asked, one, Theirs() if trial else theirs, trial)
            for trial, one in enumerate(said)
        ]

    def _choose(self, row: Row, under: str) -> None:
        if self._filter is None:
            self._filter = under
        if self._metric is None:
            listed = [one for one in _list_metrics(row) if read_number(row.get(one)) is not None]
            self._metric = next((one for one in METRICS if one in listed), listed[0] if listed else "")
        if self._metric:
            self._log.told.score = f"{self._metric},{self._filter}"

    def conclude(self) -> None:
        """Tell which filters were passed over."""
        if self._others:
            hint = f"`--score {self._metric or 'acc'},{next(iter(self._others))}` takes another"
            names = listing(sorted(self._others))
            self._log.notice(f"task `{self._name}`: filter `{self._filter}` is taken; others: {names}", hint)
        if self._repeats > 1:
            self._log.notice(
                f"task `{self._name}`: each question was asked {self._repeats} times and judged once; "
                "the verdict is that of the first trial"
            )


def _list_metrics(row: Row) -> list[str]:
    listed = row.get("metrics")
    if isinstance(listed, list):
        return [one for one in listed if isinstance(one, str)]
    return [name for name in row if name not in _KNOWN and not name.endswith("_hash")]
