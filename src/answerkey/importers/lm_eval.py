"""lm-evaluation-harness: `samples_<task>_<time>.jsonl`, alone, in the folder of a run, or in an archive.

A line is one question under one filter; the same replies come again for the next filter, and only one is
taken. Tasks by log-probability have no replies: there the likeliest choice stands for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from answerkey.errors import listing
from answerkey.importers import questions as ask
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    Question,
    Record,
    Verdict,
    parse_json,
)
from answerkey.models.responses import read_message
from answerkey.types import Completion

_TIME = r"(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)"
_RESULTS = re.compile(rf"results_{_TIME}\.json")
#: Metrics that say whether an answer is right, the usual first.
_METRICS = ("acc", "exact_match", "acc_norm", "em", "mc1")
_KNOWN = frozenset({"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"})
#: So many tasks are called by their names.
_NAMED = 3
_QUESTIONS = ("question", "query", "ctx", "question_stem", "input", "text", "problem", "premise")
_OPTIONS = ("choices", "options", "endings", "mc1_targets")
#: A row with this metric asks in half of its requests how likely the continuations are without the question.
_HALVED_BY = "acc_mutual_info"
#: By how much of a continuation these metrics divide its log-probability.
_LENGTHS: dict[str, Callable[[str], int]] = {
    "acc_norm": len,
    "acc_bytes": lambda text: len(text.encode(errors="replace")),
}
#: What a filter says that found nothing.
_INVALID = "[invalid]"
#: Minus infinity, which no JSON has, as a log-probability of no probability either.
_IMPOSSIBLE = -1e30


class LmEvalReader(KnownReader):
    """Reads the samples of a run of lm-evaluation-harness; of several runs in a folder, the newest."""

    kind = "lm-eval"
    title = "lm-evaluation-harness log"
    file_name = re.compile(rf"(.*/)?samples_(?P<task>[^/]+?)_{_TIME}\.jsonl(\.gz|\.zst)?")
    row_keys = ({"doc_id", "doc", "resps", "filtered_resps"},)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question and repeat, under one filter."""
        hint = "lm-eval writes them with `--log_samples`"
        files = ask.choose_newest(log, self.file_name, wanted="samples_*.jsonl", option=hint)
        tasks, results = [task for task, _ in files], list(_iterate_results(log))
        told = log.description
        told.task = ", ".join(tasks) if len(tasks) <= _NAMED else f"{len(tasks)} tasks of lm-eval"
        models = [one.text(*path) for path in (("model_name",), ("config", "model")) for one in results]
        told.model = next((name for name in models if name), None)
        for task, file in files:
            reading = _TaskRows(log, task, is_only=len(files) == 1)
            yield from log.convert(file, log.rows(file), reading.read)
            reading.add_notices()
        for one in results:
            for name, values in one.object("results").items():
                number = Json(values).number(str(told.score))
                if number is not None:
                    told.reported.setdefault(str(name), number)


def _iterate_results(log: Log) -> Iterator[Json]:
    """Yield the files of numbers beside the samples, the newest first."""
    matches = (LmEvalReader.file_name.fullmatch(file.name) for file in log.files())
    times = {match["time"] for match in matches if match}
    pattern = "results_*.json"
    beside = log.path.rglob(pattern) if log.path.is_dir() else log.path.parent.glob(pattern)
    for path in sorted(beside, reverse=True):
        match = _RESULTS.fullmatch(path.name)
        if match is not None and match["time"] in times and path.is_file():
            with suppress(OSError, ValueError, DamagedError):
                yield Json(parse_json(path.read_text(encoding="utf-8")))


class _TaskRows:
    """The rows of one file. The first of them decide which filter and which metric are looked at."""

    def __init__(self, log: Log, name: str, *, is_only: bool) -> None:
        self._log = log
        self._name = name
        self._category = None if is_only else name
        metric, *chosen = (log.options.score or "").split(",")
        self._metric: str | None = metric or None
        self._filter: str | None = chosen[0] if chosen else None
        self._others: dict[str, None] = {}
        self._repeats = 1

    def read(self, row: Json) -> list[Record]:
        """Return the records of a row: none under another filter, one for each repeat under this."""
        under = row.text("filter") or "none"
        self._filter = under if self._filter is None else self._filter
        if self._metric is None:
            stated = row.get("metrics")
            names = [name for name in row.object() if name not in _KNOWN and not name.endswith("_hash")]
            names = [one for one in stated if isinstance(one, str)] if isinstance(stated, list) else names
            listed = [one for one in names if row.number(one) is not None]
            self._metric = next((one for one in _METRICS if one in listed), listed[0] if listed else "")
        if self._metric:
            self._log.description.score = f"{self._metric},{self._filter}"
        if under != self._filter:
            self._others[under] = None
            return []
        number = row.text("doc_id")
        if number is None:
            raise DamagedError("the line has no `doc_id`")
        question, replies, answer = _read_row(row, self._metric, self._category)
        self._repeats = max(self._repeats, len(replies))
        verdict = Verdict(row.number(self._metric), answer)
        return ask.list_trials(f"{self._name}/{number}", question, replies, verdict)

    def add_notices(self) -> None:
        """Tell which filters were passed over, and what was judged together."""
        if self._others:
            hint = f"`--score {self._metric or 'acc'},{next(iter(self._others))}` takes another"
            names = listing(sorted(self._others))
            self._log.notice(f"task `{self._name}`: filter `{self._filter}` is taken; others: {names}", hint)
        ask.say_repeats(self._log, self._name, self._repeats)


def _read_row(row: Json, metric: str, category: str | None) -> tuple[Question, list[Completion], str | None]:
    """Return what was asked, the replies (one for each repeat), and what the filter extracted."""
    original, requests, logprobs = row.at("doc"), _list_requests(row), _list_logprobs(row)
    continuations = [text for _, text in requests][: len(logprobs)]
    options, labels = _find_options(original)
    choices = labels or (None if options is None else ask.label_options(len(options)))
    if logprobs:
        choices = None
        if 1 < len(logprobs) == len(continuations):
            if options is None or len(options) != len(continuations):
                options, labels = tuple(text.strip() for text in continuations), None
            choices = ask.take_counting(continuations) or labels or ask.label_options(len(options))
        if choices is None:
            message = "the line has log-probabilities and no choices: this task is no multiple choice"
            raise DamagedError(message)
    target = row.get("target")
    if isinstance(target, str) and target.startswith("["):
        several = ask.read_texts(target)
        target = several[0] if several and len(several) == 1 else target
    if isinstance(target, list):
        target = target[0] if len(target) == 1 else str(target)
    truth = ask.find_label(target, choices, options, by_index=bool(logprobs))
    question = Question(
        question=original.any_text(*_QUESTIONS) or (requests[0][0] if requests else None),
        choices=choices,
        options=options,
        truth=truth or (None if target is None else str(target).strip()),
        category=category or original.any_text("subject", "category", "subset", "topic", "domain"),
        original=original.object(),
    )
    prompt = ask.parse_chat(requests[0][0]) if requests else None
    if logprobs and choices:
        # A continuation is a choice after a space.
        measure = _LENGTHS.get(metric)
        lengths = [max(1, measure(text.removeprefix(" "))) if measure else 1 for text in continuations]
        shares = [one / length for one, length in zip(logprobs, lengths, strict=True)]
        label = choices[ask.find_largest(shares)]
        return question, [ask.rank_choices(continuations, logprobs, label, prompt)], label
    replies = [read_message(text) for text in _take_first(row.get("resps"), [])]
    if not replies:
        raise DamagedError("the line has no reply in `resps`")
    read = _take_first(row.get("filtered_resps"), [None])[0]
    text = Json(read).text()
    answer = None if text == _INVALID else ask.find_label(read, choices, options) or text
    return question, [Completion(one.text, one.status, prompt) for one in replies], answer


def _take_first(listed: object, empty: list[object]) -> list[object]:
    """Return the first of a list of lists; of a plain list, its first alone; `empty` of an empty one."""
    first = listed[0] if isinstance(listed, list) and listed else listed
    return first if isinstance(first, list) and first else empty if isinstance(first, list) else [first]


def _list_requests(row: Json) -> list[tuple[str, str]]:
    """Return prompt and continuation of each request; what is no text is empty."""

    def read(value: object) -> str:
        value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, str) else ""

    if arguments := row.object("arguments"):
        pairs = [(Json(one).get("arg_0"), Json(one).get("arg_1")) for one in arguments.values()]
    else:
        lists = [one.value for one in row.list("arguments")]
        pairs = [(*one, None)[:2] for one in lists if isinstance(one, list) and one]
    return [(read(first), read(second)) for first, second in pairs]


def _list_logprobs(row: Json) -> list[float]:
    """Return the log-probability of each continuation; none for a task that generates.

    Each is logged with whether it was the greedy choice.
    """
    found: list[float] = []
    for one in row.list("filtered_resps"):
        pair = one.value
        if not isinstance(pair, list) or len(pair) != 2 or str(pair[1]) not in {"True", "False"}:  # noqa: PLR2004 - a pair
            return []
        number = Json(pair[0]).number()
        if number is None and str(pair[0]) not in {"-inf", "-Infinity"}:
            return []
        found.append(_IMPOSSIBLE if number is None else number)
    return found[: len(found) // 2] if _HALVED_BY in row.object() and len(found) % 2 == 0 else found


def _find_options(original: Json) -> tuple[ask.Texts | None, ask.Texts | None]:
    """Return the options of a row of a dataset, and their labels where it has them."""
    for name in _OPTIONS:
        found = original.get(name)
        if isinstance(found, dict):
            texts = ask.read_texts(found.get("text", found.get("choices")))
            labels = ask.read_texts(found.get("label"))
            if texts:
                return texts, ask.take_labels(labels) if labels and len(labels) == len(texts) else None
        texts = ask.read_texts(found)
        if texts:
            return texts, None
    return None, None
