"""lm-evaluation-harness and lighteval: the samples of a task in a file, a run folder or an archive.

Of several runs in a folder, the newest one counts. In tasks by log-probability, the likeliest
choice serves as the reply.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from answerkey.datasets.options import Texts, label_options, take_labels
from answerkey.datasets.rows import iterate_blocks
from answerkey.datasets.tables import load_table
from answerkey.errors import listing
from answerkey.importers.archives import is_archive
from answerkey.importers.json_values import DamagedError, Json
from answerkey.importers.logs import (
    Log,
    LogFile,
    LogReader,
    Record,
    Records,
    iterate_entries,
    iterate_files,
)
from answerkey.importers.prompts import (
    Messages,
    find_question,
    list_trials,
    rank_choices,
    read_messages,
)
from answerkey.importers.questions import Question, parse_prompt, read_logged_question, read_texts
from answerkey.models.responses import read_message, to_json_values
from answerkey.types import Completion

_TIME = r"(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)"
#: The results file of a run, as both tools name it.
_RESULTS = re.compile(rf"(.*/)?results_{_TIME}\.json")
#: Replaces minus infinity, which JSON does not have; no probability is this low.
_MINUS_INFINITY = -1e30


class TaskFile(NamedTuple):
    """The file with a task's samples, and when it was written."""

    task: str
    time: str
    file: LogFile


def choose_newest(
    log: Log,
    pattern: re.Pattern[str],
    file_names: str,
    option: str,
) -> list[TaskFile]:
    """Return the files of the newest run, or the only file, whatever its name.

    The pattern has the groups `task` and `time`. The error for a folder without such files names
    them, and the option with which the tool writes them.
    """
    newest: dict[str, TaskFile] = {}
    older = 0
    for file in log.files():
        match = pattern.fullmatch(file.name)
        if match is None:
            continue
        task = match["task"]
        time = match["time"] or ""
        if task in newest:
            older += 1
        if task not in newest or newest[task].time < time:
            newest[task] = TaskFile(task, time, file)
    if older:
        hint = "name one file, or one folder of a run"
        log.notice(f"{older} files of earlier runs are skipped", hint)
    if newest:
        return [newest[task] for task in sorted(newest)]
    if log.path.is_file():
        file = next(log.files())
        return [TaskFile(file.stem, "", file)]
    message = f"the folder `{log.path}` contains no file `{file_names}`"
    raise log.make_error("E201", message, option)


def read_results(
    log: Log,
    key: str,
    files: Sequence[TaskFile],
) -> dict[str, Json]:
    """Return the results of the runs in the log by time, the newest first.

    The results of a log that is a single file are next to it. Tasks of the results (`key`) without
    samples in a log of several files get a notice.
    """
    candidates: list[LogFile] = []
    if log.path.is_file() and not is_archive(log.path):
        for path in log.path.parent.glob("results_*.json"):
            candidates += iterate_files(path)
    else:
        candidates += log.files()
    candidates.sort(key=lambda file: file.name, reverse=True)
    times = {task_file.time for task_file in files}
    results: dict[str, Json] = {}
    missing: set[str] = set()
    for file in candidates:
        match = _RESULTS.fullmatch(file.name)
        if match is None:
            continue
        time = match["time"]
        if time in times:
            results[time] = log.read_whole(file)
            missing.update(results[time].object(key))
    missing.difference_update(task_file.task for task_file in files)
    if missing and log.path.is_dir():
        tasks = listing(sorted(missing))
        log.notice(f"the log has no samples of some tasks in its results file: {tasks}")
    return results


def _choose_metric(usual: Iterable[str], metrics: Json) -> str:
    """Return the first usual metric of a row, or else the first number; "" if there is none."""
    cells = metrics.object()
    for name in usual:
        if name in cells:
            return name
    for name in cells:
        if metrics.number(name) is not None:
            return name
    return ""


# ── lm-evaluation-harness

#: Metrics that measure whether an answer is right, the most usual first.
_METRICS = ("acc", "exact_match", "acc_norm", "em", "mc1")
#: The length of a continuation by which these metrics divide its log-probability.
_LENGTHS: dict[str, Callable[[str], int]] = {
    "acc_norm": len,
    "acc_bytes": lambda text: len(text.encode(errors="replace")),
}
_PAIR = 2


class LmEvalReader(LogReader):
    """Reads `samples_<task>_<time>.jsonl` of lm-evaluation-harness.

    A line is one question under one filter; the same replies are repeated for every filter, so only
    one filter is used.
    """

    kind = "lm-eval"
    title = "lm-evaluation-harness log"
    file_name = re.compile(rf"(.*/)?samples_(?P<task>[^/]+?)_{_TIME}\.jsonl(\.gz|\.zst)?")
    row_keys = ({"doc_id", "doc", "resps", "filtered_resps"},)

    def read(self, log: Log) -> Records:
        """Yield a record for each question and repeat, under one filter."""
        hint = "lm-eval writes them with `--log_samples`"
        files = choose_newest(
            log,
            self.file_name,
            "samples_*.jsonl",
            hint,
        )
        results = read_results(log, "n-samples", files)
        newest = next(iter(results.values()), Json(None))
        model = newest.text("model_name")
        log.description.model = model or newest.text("config", "model")
        for task_file in files:
            if log.begin_task(task_file.task):
                result = results.get(task_file.time, Json(None))
                yield from self._read_task(log, task_file, result)

    def _read_task(
        self,
        log: Log,
        task_file: TaskFile,
        result: Json,
    ) -> Records:
        """Yield the records of a task; compare their number with the results of its run."""
        task, time, file = task_file
        rows = _LmEvalRows(log, task)
        yield from log.convert_lines(file, rows.read)
        rows.finish()
        present = log.present - rows.skipped
        effective = result.count("n-samples", task, "effective")
        log.compare_count(present, effective, f"`results_{time}.json`")


class _LmEvalRows:
    """The rows of one task; the first ones decide which metric and which filter are used.

    Several replies to a question were judged together; their verdict is put into the first record.
    """

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._name = name
        score = log.options.score or ""
        self._metric, _, self._filter = score.partition(",")
        self._other_filters: Counter[str] = Counter()

    @property
    def skipped(self) -> int:
        """The number of rows of other filters."""
        return self._other_filters.total()

    def read(self, row: Json) -> list[Record]:
        """Return the records of a row, one per repeat; none for another filter."""
        name = row.text("filter") or "none"
        self._filter = self._filter or name
        if not self._metric:
            listed = row.get("metrics")
            names = listed if isinstance(listed, list) else _METRICS
            metrics = row.pick(*map(str, names))
            self._metric = _choose_metric(_METRICS, Json(metrics))
        if self._metric:
            self._log.description.score = f"{self._metric},{self._filter}"
        if name != self._filter:
            self._other_filters[name] += 1
            return []
        question, replies, answer = _read_lm_eval(row, self._metric)
        return list_trials(
            f"{self._name}/{row.require('line', 'doc_id')}",
            question,
            replies,
            imported_score=row.number(self._metric),
            imported_answer=answer,
        )

    def finish(self) -> None:
        """Add a notice about the skipped filters; raise E206 if no row has the requested one."""
        if not self._other_filters:
            return
        if self._log.present == self.skipped:
            message = f"task `{self._name}` has no score `{self._log.options.score}`"
            scores = listing(f"{self._metric},{name}" for name in self._other_filters)
            hint = f"its scores: {scores}; `--task NAME` selects one task"
            raise self._log.make_error("E206", message, hint)
        metric = self._metric or "acc"
        first = next(iter(self._other_filters))
        task = shlex.quote(self._name)
        score = shlex.quote(f"{metric},{first}")
        hint = f"`--task {task} --score {score}` uses another"
        names = listing(sorted(self._other_filters))
        message = f"task `{self._name}`: filter `{self._filter}` is used; others: {names}"
        self._log.notice(message, hint)


def _read_lm_eval(
    row: Json,
    metric: str,
) -> tuple[Question, list[Completion], str | None]:
    """Return the question, the reply of each repeat, and what the filter extracted."""
    requests = _list_requests(row)
    prompt = None
    if requests:
        context, _ = requests[0]
        prompt = read_messages(context)
    doc = row.object("doc")
    target = row.get("target")
    shown = find_question(prompt)
    question = read_logged_question(doc, shown, target=target)
    question.original = doc
    logprobs = _list_logprobs(row)
    if not logprobs:
        return question, _list_replies(row, prompt), _read_extracted(row)
    count = len(logprobs)
    continuations = [continuation for _, continuation in requests[:count]]
    choices = _label_continuations(
        question,
        continuations,
        count,
        target,
    )
    by = _normalise(logprobs, continuations, metric)
    completion = rank_choices(
        choices,
        continuations,
        logprobs,
        prompt,
        by,
    )
    return question, [completion], completion.text


def _label_continuations(
    question: Question,
    continuations: list[str],
    count: int,
    target: object,
) -> Texts:
    """Make the ranked continuations the choices of a question; return their labels.

    The labels are continuations that count (`A`, `B`), or else those of the row, or else letters.
    """
    letters = take_labels(continuations, counting=True)
    has_options = len(question.options or ()) == count
    if not has_options:
        question.options = None
        if letters is None:
            question.options = tuple(text.strip() for text in continuations)
    choices = letters
    if letters is None and has_options:
        choices = question.choices
    if choices is None or len(choices) != count:
        choices = label_options(count)
    if choices is None or not 1 < count == len(continuations):
        message = "the line has log-probabilities, but no choices: the task is not multiple choice"
        raise DamagedError(message)
    question.choices = choices
    label = question.find_label(target, by_index=True)
    question.truth = label or question.truth
    return choices


def _normalise(
    logprobs: list[float],
    continuations: list[str],
    metric: str,
) -> list[float]:
    """Return the log-probabilities as a metric compares them."""
    measure = _LENGTHS.get(metric)
    if measure is None:
        return logprobs
    shares = []
    for logprob, text in zip(logprobs, continuations, strict=True):
        choice = text.removeprefix(" ")  # a continuation is a choice after a space
        length = max(1, measure(choice))
        shares.append(logprob / length)
    return shares


def _list_replies(row: Json, prompt: Messages | None) -> list[Completion]:
    first = row.element(0, "resps")
    if first.value in (None, []):
        raise DamagedError("the line has no reply in `resps`")
    replies = []
    for entry in first.list() or [first]:
        reply = read_message(entry.value)
        replies.append(reply.with_fields(prompt=prompt))
    return replies


def _read_extracted(row: Json) -> str | None:
    """Return what the filter extracted, from the first repeat if there are several."""
    first = row.element(0, "filtered_resps")
    text = first.text()
    if text is None:
        text = first.element(0).text()
    return None if text == "[invalid]" else text


def _list_requests(row: Json) -> list[tuple[str, str]]:
    """Return the prompt and the continuation of each request; "" for a value that is not text."""
    pairs = []
    for request in iterate_entries(row.get("arguments")):
        context = request.get("arg_0") or request.element(0).value
        continuation = request.get("arg_1") or request.element(1).value
        pairs.append((_read_text(context), _read_text(continuation)))
    return pairs


def _read_text(argument: object) -> str:
    """Return an argument of a request as text; "" if it is not one."""
    if isinstance(argument, list) and argument:
        argument = argument[0]
    return argument if isinstance(argument, str) else ""


def _list_logprobs(row: Json) -> list[float]:
    """Return the log-probability of each continuation; none for a task with generated replies.

    In the log, each is paired with whether it was the greedy choice.
    """
    logprobs: list[float] = []
    for response in row.list("filtered_resps"):
        pair = response.value
        if not isinstance(pair, list) or len(pair) != _PAIR:
            return []
        number, is_greedy = pair
        logprob = Json(number).number()
        if logprob is None and str(number) in {"-inf", "-Infinity"}:
            logprob = _MINUS_INFINITY
        if logprob is None or str(is_greedy) not in {"True", "False"}:
            return []
        logprobs.append(logprob)
    # With this metric, half of the requests are for the continuations without the question.
    half, is_odd = divmod(len(logprobs), 2)
    if "acc_mutual_info" in row.object() and not is_odd:
        return logprobs[:half]
    return logprobs


# ── lighteval

_LIGHTEVAL_METRICS = (
    "acc",
    "loglikelihood_acc",
    "exact_match",
    "extractive_match",
    "em",
    "acc_norm",
    "qem",
    "pem",
)
_COLUMNS = frozenset({"doc", "metric", "model_response"})
_BLOCK = 2_048


class LightevalReader(LogReader):
    """Reads `details_<task>|<shots>_<time>.parquet` of lighteval."""

    kind = "lighteval"
    title = "lighteval details"
    file_name = re.compile(rf"(.*/)?details_(?P<task>[^/]+?)(_{_TIME})?\.parquet")

    def read(self, log: Log) -> Records:
        """Yield a record for each question and each of its replies."""
        hint = "lighteval writes them with `--save-details`"
        files = choose_newest(
            log,
            self.file_name,
            "details_*.parquet",
            hint,
        )
        # The model is what the folders between `details` and the time are called.
        parts = Path(files[0].file.file).parts
        if "details" in parts:
            last = len(parts) - parts[::-1].index("details")
            model = "/".join(parts[last:-2])
            log.description.model = model or None
        results = read_results(log, "config_tasks", files)
        newest = next(iter(results.values()), Json(None))
        for task, _, file in files:
            if not log.begin_task(task):
                continue
            details = _iterate_details(log, file)
            read = partial(_read_details, log)
            yield from log.convert(file, details, read)
            expected = newest.count("config_tasks", task, "effective_num_docs")
            log.compare_count(log.present, expected, "the results file")


def _iterate_details(log: Log, file: LogFile) -> Iterator[Json]:
    """Yield the rows of a Parquet file, numbered from 1, a block at a time."""
    path = Path(file.file)
    if not path.is_file():
        log.add_damage("Parquet cannot be read inside an archive: unpack it first", file.place())
        return
    with log.guard(file):
        rows = load_table(path, by_trial=True).rows
        if not _COLUMNS.issubset(rows.columns):
            names = listing(sorted(_COLUMNS))
            raise DamagedError(f"it lacks some of the columns {names}")
        number = 0
        for _, block in iterate_blocks(rows, size=_BLOCK):
            for row in block.rows():
                log.seen += 1
                number += 1
                yield Json(dict(row), number)


def _read_details(log: Log, row: Json) -> list[Record]:
    """Return the records of a row."""
    cells = Json(to_json_values(row.object()))
    doc = cells.at("doc")
    metrics = cells.at("metric")
    response = cells.at("model_response")
    description = log.description
    if description.score is None:
        description.score = log.options.score or _choose_metric(_LIGHTEVAL_METRICS, metrics)
    prompt = read_messages(response.get("input"))
    texts = read_texts(doc.get("choices")) or ()
    query = doc.text("query") or find_question(prompt)
    question = _read_doc(doc, texts, query)
    replies = _read_responses(response, prompt)
    extracted = response.element(0, "text_post_processed").text() or ""
    answer = extracted.strip()
    if not replies:
        completion = _rank_texts(
            response,
            question.choices,
            texts,
            prompt,
        )
        replies = [completion]
        answer = completion.text or ""
    place = (row.line or 0) - 1
    return list_trials(
        doc.text("id") or str(place),
        question,
        replies,
        imported_score=metrics.number(description.score),
        imported_answer=answer or None,
    )


def _read_doc(
    doc: Json,
    texts: Texts,
    query: str | None,
) -> Question:
    """Return the question in a row; `texts` are its choices."""
    question = parse_prompt(query)
    shown_options = question.options
    if len(texts) > 1:
        question.take_choices(texts)
    if question.options != shown_options:
        question.question = query
    places = doc.get("gold_index")
    if not isinstance(places, list):
        places = [places]
    choices = question.choices or ()
    truths = []
    for place in places:
        index = Json(place).count()
        if index is not None and index < len(texts):
            right = choices if len(choices) == len(texts) else texts
            truths.append(right[index].strip())
    question.truth = question.name_truth(truths)
    question.original = doc.pick(
        "id",
        "task_name",
        "specific",
        "num_samples",
    )
    return question


def _read_responses(response: Json, prompt: Messages | None) -> list[Completion]:
    """Return the replies in a row, with their reasoning."""
    texts = response.get("text")
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list):
        return []
    replies = []
    for place, text in enumerate(texts):
        reasoning = response.element(place, "reasonings")
        reply = read_message(text).with_fields(
            prompt=prompt,
            reasoning=reasoning.text() or None,
        )
        replies.append(reply)
    return replies


def _rank_texts(
    response: Json,
    choices: Texts | None,
    texts: Texts,
    prompt: Messages | None,
) -> Completion:
    """Return the likeliest choice; raise DamagedError if a choice has no log-probability."""
    logprobs = []
    for element in response.list("logprobs"):
        number = element.number()
        logprobs.append(_MINUS_INFINITY if number is None else number)
    is_complete = len(logprobs) == len(texts)
    if not choices or not is_complete or len(choices) != len(texts):
        raise DamagedError("the row has neither a reply nor a log-probability of each choice")
    return rank_choices(
        choices,
        texts,
        logprobs,
        prompt,
    )
