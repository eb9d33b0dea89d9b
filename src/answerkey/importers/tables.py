"""Logs that are tables: plain ones, MMLU-Pro's lists, outputs of batches, and rows of every_eval_ever."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

from answerkey.datasets import Rows, iterate_blocks, load_table
from answerkey.datasets.content import COMPRESSIONS, require_plain
from answerkey.datasets.tables import FORMATS
from answerkey.errors import DataError, Place, SpecError, listing
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
    get_count,
    get_list,
    get_number,
    get_object,
    get_text,
)
from answerkey.importers.questions import (
    LABELS,
    Roles,
    Texts,
    fail,
    find_label,
    find_roles,
    find_shown,
    find_truth,
    label_options,
    read_messages,
    read_texts,
    take_labels,
)
from answerkey.models.responses import fail as fail_call
from answerkey.models.responses import (
    find_complaint,
    read_body,
    read_message,
    take_anthropic,
    take_chat,
    take_text,
)
from answerkey.types import Completion, CompletionStatus

# ── plain tables ────────────────────────────────────────────────────────────────────────────────────────────

_BLOCK = 8_192


class PlainReader:
    """Reads any table (CSV, JSON Lines, JSON, Parquet, …) that has a completion in each row."""

    kind: ClassVar[str] = "plain"
    title: ClassVar[str] = "table"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the name's ending is that of a table."""
        endings = [one.lower() for one in preview.path.suffixes if one.lower() not in COMPRESSIONS]
        return preview.path.is_file() and bool(endings) and endings[-1] in FORMATS

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each row."""
        rows, roles = _open_table(log.path, log.options.columns)
        if "completion" not in roles.columns:
            hint = f"name the column: `--column completion=NAME`; columns: {listing(rows.columns)}"
            raise log.make_error("E209", "no column holds completions", hint)
        log.description.task = log.path.name.partition(".")[0]
        log.description.score = roles.columns.get("score") or roles.columns.get("predicted")
        for sample_id, row in _iterate_table(rows, roles):
            question = roles.read_question(row)
            said = read_message(roles.cell(row, "completion"))
            trial = get_count(roles.cell(row, "trial")) or 0
            log.seen += 1
            yield Record(sample_id, question, said, roles.read_verdict(row, question), trial)


def _open_table(path: Path, columns: Mapping[str, str]) -> tuple[Rows, Roles]:
    """Open a table; E206 when it has no truth."""
    rows = load_table(path, by_trial=True).rows
    roles = find_roles(rows.columns, columns)
    if not {"answer", "index"} & set(roles.columns):
        hint = f"name the column: `--column answer=NAME`; columns: {listing(rows.columns)}"
        raise DataError("E206", "no column holds the truth", where=Place(file=str(path)), hint=hint)
    return rows, roles


def _iterate_table(rows: Rows, roles: Roles) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield id and cells of each row."""
    own = roles.columns.get("id")
    for _, block in iterate_blocks(rows, size=_BLOCK):
        for number, row in zip(block.ids.to_list(), block.rows(), strict=True):
            cell = row.get(own) if own else None
            yield (str(number) if cell is None or cell == "" else str(cell)), row


# ── MMLU-Pro ────────────────────────────────────────────────────────────────────────────────────────────────

#: Where the text stands, the usual first.
_TEXTS = ("model_outputs", "generated_text", "model_output")
_START, _SHOTS = "model_outputs_", re.compile(r"_\d+shots?$")
_LEFT_OUT = frozenset({"question", "options", "pred", *_TEXTS})


class MmluProReader:
    """Reads MMLU-Pro's lists of the dataset's rows with the model's text and what a pattern read in it.

    `<subject>_result.json`, `model_outputs_<model>_<shots>.json`, folders and archives of them.
    """

    kind: ClassVar[str] = "mmlu-pro"
    title: ClassVar[str] = "MMLU-Pro output"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the first row has the columns of the dataset, a text and a reading of it."""
        row = preview.first
        return {"question", "options", "answer", "pred"} <= set(row) and any(name in row for name in _TEXTS)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each row."""
        log.description.task, log.description.score = "MMLU-Pro", "pred"
        name = log.path.name.partition(".json")[0].removesuffix(".zip")
        if name.startswith(_START):  # the number of examples is no part of the model's name
            log.description.model = _SHOTS.sub("", name.removeprefix(_START))
        unread = 0
        files = [file for file in log.files() if _is_list(file)]
        if not files:
            raise log.make_error("E201", f"`{log.path}` holds no list of rows")
        for file in files:
            for record in log.convert(log.read_elements(file), _read_mmlu_pro, file):
                unread += record.verdict.value is None
                yield record
        if unread:
            hint = "MMLU-Pro guesses at random there; such a guess is no verdict"
            log.notice(f"in {unread} replies their pattern read nothing", hint)


def _is_list(file: LogFile) -> bool:
    """Return whether a file holds a list; beside the lists there are summaries, which are objects."""
    if not PurePosixPath(file.name).name.partition(".gz")[0].endswith(".json"):
        return False
    try:
        with file.open() as stream:
            return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    except (DamagedError, OSError):
        return True


def _read_mmlu_pro(row: Row) -> list[Record]:
    number, options = get_text(row, "question_id"), read_texts(row.get("options"))
    if number is None or options is None:
        raise DamagedError("the row has no `question_id`, or no `options`")
    text = next((row[name] for name in _TEXTS if name in row), None)
    if isinstance(text, list):
        text = text[0] if text else None
    choices = label_options(len(options))
    truth = find_label(row.get("answer"), choices, None)
    truth = truth or find_label(row.get("answer_index"), choices, None, by_index=True)
    read = get_text(row, "pred")
    question = Question(
        question=get_text(row, "question"),
        choices=choices,
        options=options,
        truth=truth or get_text(row, "answer"),
        category=get_text(row, "category"),
        original={name: value for name, value in row.items() if name not in _LEFT_OUT},
    )
    verdict = Verdict(None if read is None else float(read == truth), read)
    return [Record(number, question, read_message(text), verdict)]


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────

_OK, _FIRST_ERROR = 200, 400


class OpenAiBatchReader:
    """Reads output and error files of OpenAI's batches, and of those who copied them."""

    kind: ClassVar[str] = "openai-batch"
    title: ClassVar[str] = "OpenAI batch output"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the first line has a `custom_id` and a place for an answer."""
        return "custom_id" in preview.first and {"response", "error"} & set(preview.first) != set()

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question of the dataset, then one for each answer."""
        return _read_batch(log, _read_openai, ("response", "body", "model"))


class AnthropicBatchReader:
    """Reads the results of Anthropic's message batches."""

    kind: ClassVar[str] = "anthropic-batch"
    title: ClassVar[str] = "Anthropic batch output"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the first line has a `custom_id` and a result with a type."""
        return "custom_id" in preview.first and get_text(preview.first, "result", "type") is not None

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question of the dataset, then one for each answer."""
        return _read_batch(log, _read_anthropic, ("result", "message", "model"))


def _read_batch(
    log: Log, read_answer: Callable[[Row], Completion], model: tuple[str, ...]
) -> Iterator[Record]:
    """Yield the questions of the dataset whose ids are the `custom_id`s, then the answers, in any order."""
    path, told = log.options.dataset, log.description
    if path is not None:
        if not path.is_file():
            require_plain(path)
            raise SpecError("E119", f"`--dataset {path}`: there is no such file", where=Place(file=str(path)))
        rows, roles = _open_table(path, log.options.columns)
        for sample_id, row in _iterate_table(rows, roles):
            yield Record(sample_id, roles.read_question(row))
    told.task = (path or log.path).name.partition(".")[0]
    if path is None:
        hint = "name the file with the questions: `--dataset FILE`"
        log.notice("the log has no questions and no truths: only completions are written", hint)

    def read_row(row: Row) -> list[Record]:
        name = get_text(row, "custom_id")
        if not name:
            raise DamagedError("the line has no `custom_id`")
        said = read_answer(row)
        told.model = told.model or get_text(row, *model)
        return [Record(name, None, said)]

    for file in log.files():
        if file.name.endswith((".jsonl", ".ndjson", ".gz", ".zst")) or not log.path.is_dir():
            yield from log.convert(log.read_lines(file), read_row, file)


def _read_openai(row: Row) -> Completion:
    """Return what a line says: a chat completion, a text completion, or a response."""
    error, answer = row.get("error"), row.get("response")
    if error:
        complaint = find_complaint(error) or "no reason is given"
        return fail_call(f"{get_text(error, 'code') or 'error'}: {complaint}")
    if not isinstance(answer, dict):
        return fail_call("the line has neither an answer nor an error")
    status, body = answer.get("status_code"), answer.get("body")
    status = status if isinstance(status, int) else _OK
    if get(body, "object") != "response" and (get(body, "output") is None or get(body, "choices")):
        is_text = get(body, "object") == "text_completion"
        return read_body(status, _to_bytes(body), take_text if is_text else take_chat)
    # The Responses API: the texts of its messages, thoughts apart.
    if status >= _FIRST_ERROR:
        return fail_call(f"HTTP {status}: {find_complaint(body)}")
    if get_text(body, "status") in {"failed", "cancelled"}:
        return fail_call(find_complaint(get(body, "error")) or f"the response is {get_text(body, 'status')}")
    said = read_message({"output": get(body, "output"), "usage": get(body, "usage")})
    reason = get_text(body, "incomplete_details", "reason")
    if reason == "content_filter" and not said.text:
        return replace(said, text=None, status=CompletionStatus.REFUSED, finish_reason="content_filter")
    return replace(said, finish_reason="length" if reason in {"max_output_tokens", "max_tokens"} else "stop")


def _read_anthropic(row: Row) -> Completion:
    """Return what a line says: a message, or why there is none."""
    kind = get_text(row, "result", "type")
    if kind == "succeeded":
        return read_body(_OK, _to_bytes(get(row, "result", "message")), take_anthropic)
    reason = find_complaint(get(row, "result", "error"))
    return fail_call(f"{kind or 'no result'}: {reason}" if reason else kind or "no result")


def _to_bytes(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode(errors="replace")
    try:
        return json.dumps(body).encode()
    except RecursionError:
        return b""


# ── every_eval_ever ─────────────────────────────────────────────────────────────────────────────────────────

#: Where answerkey's own rows say which trial they are of, what became of the call, and the labels.
_OWN = ("trial", "completion_status", "choice_labels")
_CATEGORIES = ("category", "subject", "topic", "domain", "subset")
_LONGEST_TRIAL = 9


class EveryEvalEverReader:
    """Reads rows of single samples as the shared schema has them; the files of numbers are passed over."""

    kind: ClassVar[str] = "every_eval_ever"
    title: ClassVar[str] = "every_eval_ever rows"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the first line has what every row must have, or its files the usual names."""
        if preview.mentions("schema_version", "evaluation_id") and any(
            name.endswith("_samples.jsonl") for name in preview.names
        ):
            return True
        return {"schema_version", "evaluation_id", "sample_id", "answer_attribution"} <= set(preview.first)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each reply."""
        told = log.description
        told.score = "evaluation.is_correct"

        def read_row(row: Row) -> list[Record]:
            told.task = told.task or get_text(row, "evaluation_name")
            told.model = told.model or get_text(row, "model_id")
            return _read_every_eval_ever(row)

        for file in log.files():
            if file.name.endswith((".jsonl", ".ndjson", ".gz", ".zst")) or not log.path.is_dir():
                yield from log.convert(log.read_lines(file), read_row, file)


def _read_every_eval_ever(row: Row) -> list[Record]:
    name = get_text(row, "sample_id")
    if name is None:
        raise DamagedError("the row has no `sample_id`")
    choices, options = _find_choices(row)
    metadata = get_object(row, "metadata")
    question = Question(
        question=get_text(row, "input", "raw") or get_text(row, "input", "formatted"),
        choices=choices,
        options=options,
        truth=find_truth(get(row, "input", "reference"), choices, options),
        category=next((one for key in _CATEGORIES if (one := get_text(metadata, key))), None),
        original={key: value for key, value in metadata.items() if key not in _OWN},
    )
    correct = get(row, "evaluation", "is_correct")
    value = float(correct) if isinstance(correct, bool) else get_number(row, "evaluation", "score")
    attributed = [one for one in get_list(row, "answer_attribution") if isinstance(one, dict)]
    read = get_text(attributed[-1], "extracted_value") if attributed else None
    verdict = Verdict(value, (find_label(read, choices, options) or read) if read else None)
    stated = get_text(metadata, "trial") or ""
    is_trial = stated.isascii() and stated.isdigit() and len(stated) <= _LONGEST_TRIAL
    first = int(stated) if is_trial else 0
    return [
        Record(name, question, one, Verdict() if place else verdict, first + place)
        for place, one in enumerate(_list_replies(row))
    ]


def _find_choices(row: Row) -> tuple[Texts | None, Texts | None]:
    """Return labels and options; choices that are labels leave the options to the prompt."""
    texts = read_texts(get(row, "input", "choices"))
    if texts is None:
        shown = find_shown(get_text(row, "input", "raw"))
        return shown.choices, shown.options
    stated = read_texts(get_text(row, "metadata", "choice_labels"))
    if stated is not None and len(stated) == len(texts):
        return take_labels(stated), None if stated == texts else texts
    own = take_labels(texts)
    if own is not None and own == LABELS[: len(own)]:
        return own, None
    return label_options(len(texts)), texts


def _list_replies(row: Row) -> list[Completion]:
    """Return what was said; of an exchange in several turns, what was said last."""
    error, stated = get_text(row, "error"), get_text(row, "metadata", "completion_status")
    messages, raw = get(row, "messages"), get(row, "output", "raw")
    texts: list[object] = raw if isinstance(raw, list) else [raw] if isinstance(raw, str) else []
    if not texts and isinstance(messages, list):
        texts = [{"messages": messages}]
    if not texts:
        status = CompletionStatus(stated) if stated in set(CompletionStatus) else CompletionStatus.NO_TEXT
        if (error and not stated) or status is CompletionStatus.ERROR:
            return [fail(error) if error else Completion(None, CompletionStatus.ERROR)]
        return [Completion(None, CompletionStatus.NO_TEXT if status is CompletionStatus.OK else status)]
    reasoning = read_texts(get(row, "output", "reasoning_trace")) or ()
    prompt = read_messages(get_text(row, "input", "formatted"))
    latency = get_number(row, "performance", "latency_ms")
    return [
        replace(
            said,
            reply=None,
            prompt=said.prompt or prompt,
            prompt_tokens=get_count(row, "token_usage", "input_tokens"),
            completion_tokens=get_count(row, "token_usage", "output_tokens"),
            latency=None if latency is None else latency / 1000,
            reasoning=reasoning[place] if place < len(reasoning) else None,
        )
        for place, said in enumerate(map(read_message, texts))
    ]
