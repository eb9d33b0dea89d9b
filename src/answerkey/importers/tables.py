"""Logs that are tables: plain ones, MMLU-Pro's lists, outputs of batches, and rows of
every_eval_ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from answerkey.datasets.content import COMPRESSIONS, refuse_file, require_plain
from answerkey.datasets.formats import FORMATS
from answerkey.datasets.options import take_labels, write_cell
from answerkey.datasets.questions import LOG_ROLES, QuestionColumns, find_columns, require_roles
from answerkey.datasets.recognition import recognise
from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.datasets.tables import load_table
from answerkey.errors import Place, SpecError, listing
from answerkey.importers.json_values import DamagedError, Json, parse_first
from answerkey.importers.logs import (
    KeySets,
    Log,
    LogFile,
    LogPreview,
    LogReader,
    Record,
    Records,
    iterate_files,
)
from answerkey.importers.prompts import CATEGORIES, list_trials, read_messages
from answerkey.importers.questions import (
    DERIVED,
    Question,
    Row,
    parse_prompt,
    read_question,
    read_texts,
)
from answerkey.models.batch_lines import get_path, read_line
from answerkey.models.responses import (
    Fields,
    fail,
    parse_anthropic,
    parse_chat,
    parse_text,
    read_body,
    read_message,
    read_usage,
)
from answerkey.types import Completion, CompletionStatus

# ── plain tables

_BLOCK = 8_192


class PlainReader(LogReader):
    """Reads any table (CSV, JSON Lines, JSON, Parquet, …) with a completion in each row."""

    kind = "plain"
    title = "table"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the ending of the name is that of a table."""
        endings = []
        for suffix in preview.path.suffixes:
            ending = suffix.lower()
            if ending not in COMPRESSIONS:
                endings.append(ending)
        return preview.path.is_file() and not FORMATS.keys().isdisjoint(endings[-1:])

    def read(self, log: Log) -> Records:
        """Yield a record for each row."""
        rows, roles = _open_table(log.path, log.options.columns)
        if "completion" not in roles.columns:
            hint = f"name the column: `--column completion=NAME`; columns: {listing(rows.columns)}"
            raise log.make_error("E209", "no column holds completions", hint)
        columns = roles.columns
        log.description.task = log.stem
        log.description.score = columns.get("score") or columns.get("predicted")
        for sample_id, row, question in _iterate_table(rows, roles):
            log.seen += 1
            trial = Json(roles.cell(row, "trial"))
            reply = read_message(roles.cell(row, "completion"))
            completion = reply.with_fields(
                trial=trial.count() or 0,
                imported_score=_read_score(roles, row, question),
                imported_answer=roles.text(row, "predicted"),
            )
            yield Record(sample_id, question, completion)


def _read_score(
    roles: QuestionColumns,
    row: Row,
    question: Question,
) -> float | None:
    """Return the score in a row, or whether the extracted answer is the truth."""
    if "score" in roles.columns:
        score = Json(roles.cell(row, "score"))
        return score.verdict()
    label = question.find_label(roles.text(row, "predicted"))
    if label is None:
        return None
    return float(label == question.truth)


def _open_table(
    path: Path,
    chosen: Mapping[str, str],
) -> tuple[Rows, QuestionColumns]:
    """Open a table; raise E119 if it cannot be what the caller says, E206 for a missing column."""
    rows = load_table(path, by_trial=True).rows
    require_roles(chosen, LOG_ROLES)
    roles = recognise(
        rows,
        chosen,
        LOG_ROLES,
        needs_all=False,
    )
    if "truth" not in roles.columns:
        hint = f"name the column: `--column truth=NAME`; columns: {listing(rows.columns)}"
        raise refuse_file("E206", "no column holds the truth", str(path), hint)
    return rows, roles


def _iterate_table(rows: Rows, roles: QuestionColumns) -> Iterator[tuple[str, Row, Question]]:
    """Yield the id, the cells and the question of each row."""
    id_column = roles.columns.get("id", "")
    for _, block in iterate_blocks(rows, size=_BLOCK):
        derived = roles.derive(block)
        added = set(derived.columns).difference(rows.columns)
        taken = roles.taken.union(added)
        numbers = derived.ids.to_list()
        for number, row in zip(numbers, derived.rows(), strict=True):
            cell = row.get(id_column)
            sample_id = str(number if cell in (None, "") else cell)
            question = read_question(DERIVED, row, taken)
            yield sample_id, row, question


# ── MMLU-Pro

#: The fields that may contain the reply, the most usual first.
_TEXTS = ("model_outputs", "generated_text", "model_output")
_START, _SHOTS = "model_outputs_", re.compile(r"_\d+shots?$")
_LEFT_OUT = frozenset({"question", "options", "pred", *_TEXTS})


class MmluProReader(LogReader):
    """Reads MMLU-Pro's lists of dataset rows, with the reply and the answer extracted by a pattern.

    These are `<subject>_result.json` and `model_outputs_<model>_<shots>.json`, also in folders and
    archives.
    """

    kind = "mmlu-pro"
    title = "MMLU-Pro output"
    row_keys = tuple({"question", "options", "answer", "pred", name} for name in _TEXTS)

    def read(self, log: Log) -> Records:
        """Yield a record for each row."""
        log.description.task = "MMLU-Pro"
        log.description.score = "pred"
        name = log.path.name.partition(".json")[0].removesuffix(".zip")
        if name.startswith(_START):  # the number of examples is not part of the model's name
            model = name.removeprefix(_START)
            log.description.model = _SHOTS.sub("", model)
        files = list(filter(_is_list, log.files()))
        if not files:
            raise log.make_error("E201", f"`{log.path}` contains no list of rows")
        for file in files:
            document = log.read_whole(file)
            rows = log.elements(document.value)
            yield from log.convert(file, rows, _read_mmlu_pro)


def _is_list(file: LogFile) -> bool:
    """Return whether a file is a list of rows; a summary is an object."""
    name, _, _ = file.name.partition(".gz")
    return name.endswith(".json") and not file.read_head().startswith("{")


def _read_mmlu_pro(row: Json) -> list[Record]:
    cells = row.object()
    number = row.text("question_id")
    options = read_texts(row.get("options"))
    if number is None or options is None:
        raise DamagedError("the row has no `question_id`, or no `options`")
    text = None
    for name in reversed(_TEXTS):
        text = cells.get(name, text)
    if isinstance(text, list):
        text = text[0] if text else None
    columns = find_columns(tuple(cells))
    question = read_question(columns, cells, _LEFT_OUT)
    completion = read_message(text)
    extracted = row.text("pred")
    if extracted is not None:
        completion = completion.with_fields(
            imported_score=float(extracted == question.truth),
            imported_answer=extracted,
        )
    return [Record(number, question, completion)]


# ── batches

_LINES = (".jsonl", ".ndjson", ".gz", ".zst")


class OpenAiBatchReader(LogReader):
    """Reads the output and error files of OpenAI's and compatible batches."""

    kind = "openai-batch"
    title = "OpenAI batch output"
    row_keys: ClassVar[KeySets] = (
        {"custom_id", "response"},
        {"custom_id", "error"},
    )
    model_path: ClassVar = "response.body.model"

    def read(self, log: Log) -> Records:
        """Yield the questions of the dataset, whose ids are the `custom_id`s, then the answers."""
        path = log.options.dataset
        log.description.task = log.stem
        if path is None:
            message = "the log has neither questions nor truths: only completions are written"
            hint = "name the file with the questions: `--dataset FILE`"
            log.notice(message, hint)
        else:
            log.description.task = path.name.partition(".")[0]
            yield from _read_questions(path, log.options.columns)
        read = partial(self._read_row, log)
        for file in log.files(*_LINES):
            yield from log.convert_lines(file, read)

    def _read_row(
        self,
        log: Log,
        row: Json,
    ) -> list[Record]:
        name = row.require("line", "custom_id")
        if not log.description.model:
            model = get_path(row.value, self.model_path)
            log.description.model = write_cell(model)
        read = partial(read_body, take=self.parse)
        completion = read_line(row.value, read)
        return [Record(name, None, completion)]

    def parse(self, body: Fields) -> Completion:
        """Return the completion in a body: a chat completion, a text completion, or a response."""
        kind = body.get("object")
        if kind == "text_completion":
            return parse_text(body)
        has_output = body.get("output") is not None
        if kind == "response" or (has_output and not body.get("choices")):
            return _parse_response(Json(body))
        return parse_chat(body)


def _read_questions(path: Path, columns: Mapping[str, str]) -> Records:
    """Yield the questions in the dataset that the caller names."""
    if not path.is_file():
        require_plain(path)
        message = f"`--dataset {path}`: the file does not exist"
        where = Place(file=str(path))
        raise SpecError("E119", message, where=where)
    rows, roles = _open_table(path, columns)
    for sample_id, _, question in _iterate_table(rows, roles):
        yield Record(sample_id, question)


def _parse_response(body: Json) -> Completion:
    """Return the reply of the Responses API: the texts of its messages, without thoughts."""
    state = body.text("status")
    if state in {"failed", "cancelled"}:
        return fail(f"the response is {state}")
    reply = read_message(body.pick("output"))
    reason = body.text("incomplete_details", "reason")
    if reason == "content_filter" and not reply.text:
        return reply.with_fields(
            text=None,
            status=CompletionStatus.REFUSED,
            finish_reason=reason,
        )
    is_cut = reason in {"max_output_tokens", "max_tokens"}
    return reply.with_fields(finish_reason="length" if is_cut else "stop")


class AnthropicBatchReader(OpenAiBatchReader):
    """Reads the results of Anthropic's message batches."""

    kind = "anthropic-batch"
    title = "Anthropic batch output"
    row_keys = ({"custom_id", "result"},)
    model_path = "result.message.model"

    def parse(self, body: Fields) -> Completion:
        """Return the completion in a message."""
        return parse_anthropic(body)


# ── every_eval_ever

#: The metadata of answerkey's own rows: the trial, the status of the call, and the labels.
_OWN_KEYS = ("trial", "completion_status", "choice_labels")
_MAX_TRIALS = 10**9


class EveryEvalEverReader(LogReader):
    """Reads rows of single samples in the shared schema.

    The files with aggregate numbers are skipped.
    """

    kind = "every_eval_ever"
    title = "every_eval_ever rows"
    head_keys = ({"schema_version", "evaluation_id"},)

    def read(self, log: Log) -> Records:
        """Yield a record for each reply; each file is a task."""
        totals = _count_stated(log)
        for file in log.files(*_LINES):
            first = parse_first(file.read_head())
            name = first.text("evaluation_name") or file.stem
            if not log.begin_task(name):
                continue
            log.description.score = "evaluation.is_correct"
            read = partial(_read_row, log)
            yield from log.convert_lines(file, read)
            total = totals.get(file.stem)
            log.compare_count(
                log.present,
                total,
                "the file of results",
                "rows",
            )


def _count_stated(log: Log) -> dict[str, int]:
    """Return the number of rows that the aggregate files state, by the stem of the file with the
    rows.

    That of a single file of rows is next to it.
    """
    path = log.path
    if path.is_file():
        stem = log.stem.removesuffix("_samples")
        path = path.with_name(f"{stem}.json")
    totals: dict[str, int] = {}
    if not path.exists():
        return totals
    for file in iterate_files(path):
        if file.name.endswith(".json"):
            numbers = log.read_whole(file)
            total = numbers.count("detailed_evaluation_results", "total_rows")
            if total is not None:
                totals[f"{file.stem}_samples"] = total
    return totals


def _read_row(log: Log, row: Json) -> list[Record]:
    """Return the records of a row, one for each reply."""
    log.description.model = log.description.model or row.text("model_id")
    metadata = row.at("metadata")
    question = _read_row_question(row, metadata)
    trial = metadata.any_number("trial", "epoch") or 0
    evaluation = row.at("evaluation")
    extracted = None
    for attribution in row.list("answer_attribution"):  # the last of them
        extracted = attribution.text("extracted_value") or None
    return list_trials(
        row.require("row", "sample_id"),
        question,
        _list_replies(row),
        first=int(trial) if 0 <= trial < _MAX_TRIALS else 0,
        imported_score=evaluation.any_number("is_correct", "score"),
        imported_answer=extracted,
    )


def _read_row_question(row: Json, metadata: Json) -> Question:
    """Return the question in a row; choices that are labels leave the options to the prompt."""
    prompt = row.text("input", "raw")
    question = parse_prompt(prompt)
    question.question = prompt or row.text("input", "formatted")
    texts = read_texts(row.get("input", "choices"))
    if texts is not None:
        question.take_choices(texts)
        labels = read_texts(metadata.text("choice_labels")) or ()
        if len(labels) == len(texts):
            question.choices = take_labels(labels)
            question.options = None if labels == texts else texts
    reference = row.get("input", "reference")
    question.truth = question.name_truth(reference)
    question.category = metadata.any_text(*CATEGORIES)
    original = dict(metadata.object())
    for key in _OWN_KEYS:
        original.pop(key, None)
    question.original = original
    return question


def _list_replies(row: Json) -> list[Completion]:
    """Return the replies; of an exchange with several turns, the last one."""
    messages = row.get("messages")
    raw = row.get("output", "raw")
    texts = [raw] if isinstance(raw, str) else raw
    if not (isinstance(texts, list) and texts):
        if not isinstance(messages, list):
            return [_read_status(row)]
        texts = [{"messages": messages}]
    prompt = read_messages(row.text("input", "formatted"))
    latency = row.number("performance", "latency_ms")
    usage = read_usage(row.get("token_usage"))
    replies = []
    for place, text in enumerate(texts):
        reply = read_message(text)
        reasoning = row.element(place, "output", "reasoning_trace")
        reply = reply.with_fields(
            **usage,
            prompt=reply.prompt or prompt,
            latency=None if latency is None else latency / 1000,
            reasoning=reasoning.text(),
        )
        replies.append(reply)
    return replies


def _read_status(row: Json) -> Completion:
    """Return the completion of a call without a text."""
    error = row.text("error")
    status = row.text("metadata", "completion_status")
    if error and status in {None, CompletionStatus.ERROR}:
        return fail(error)
    if status in set(CompletionStatus) - {CompletionStatus.OK}:
        return Completion(None, CompletionStatus(status))
    return Completion(None, CompletionStatus.NO_TEXT)
