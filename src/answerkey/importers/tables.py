"""Logs that are tables: plain ones, MMLU-Pro's lists, outputs of batches, and rows of every_eval_ever."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import ClassVar

from answerkey.datasets import questions as ask
from answerkey.datasets.content import COMPRESSIONS, find_line_limit, require_plain
from answerkey.datasets.formats import FORMATS
from answerkey.datasets.recognition import recognise
from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.datasets.tables import load_table
from answerkey.errors import DataError, Place, SpecError, listing, suggest
from answerkey.importers import prompts
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogDescription,
    LogFile,
    LogPreview,
    Record,
    Verdict,
    iterate_files,
)
from answerkey.models import responses
from answerkey.types import USAGE_NAMES, Completion, CompletionStatus

# ── plain tables ────────────────────────────────────────────────────────────────────────────────────────────

_BLOCK = 8_192
_RIGHT = {"true": 1.0, "yes": 1.0, "correct": 1.0, "c": 1.0, "false": 0.0, "no": 0.0, "incorrect": 0.0}


class PlainReader(KnownReader):
    """Reads any table (CSV, JSON Lines, JSON, Parquet, …) that has a completion in each row."""

    kind = "plain"
    title = "table"

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
        for sample_id, row, question in _iterate_table(rows, roles):
            said = responses.read_message(roles.cell(row, "completion"))
            trial = Json(roles.cell(row, "trial")).count() or 0
            read, score = roles.text(row, "predicted"), roles.cell(row, "score")
            label = ask.find_label(read, question.choices, question.options)
            value = _RIGHT.get(score.strip().lower()) if isinstance(score, str) else None
            value = Json(score).number() if value is None else value
            if value is None and "score" not in roles.columns and label is not None:
                value = float(label == question.truth)
            log.seen += 1
            yield Record(sample_id, question, said, Verdict(value, label or read), trial)


def _open_table(path: Path, chosen: Mapping[str, str]) -> tuple[Rows, ask.QuestionColumns]:
    """Open a table; E119 when it cannot be what the caller says, E206 when a column is not there."""
    rows = load_table(path, by_trial=True).rows
    for role in chosen.keys() - {"truth", *ask.LOG_ROLES}:
        hint = suggest(role, ask.LOG_ROLES) or f"what a column can be: {listing(ask.LOG_ROLES)}"
        raise SpecError("E119", f"`--column {role}={chosen[role]}`: nothing is called `{role}`", hint=hint)
    roles = recognise(rows, chosen, ask.LOG_ROLES, needs_all=False)
    if "truth" not in roles.columns:
        hint = f"name the column: `--column answer=NAME`; columns: {listing(rows.columns)}"
        raise DataError("E206", "no column holds the truth", where=Place(file=str(path)), hint=hint)
    return rows, roles


def _iterate_table(
    rows: Rows, roles: ask.QuestionColumns
) -> Iterator[tuple[str, Mapping[str, object], ask.Question]]:
    """Yield id and cells of each row, and what it asks."""
    own = roles.columns.get("id")
    for _, block in iterate_blocks(rows, size=_BLOCK):
        derived = roles.derive(block)
        taken = roles.taken.union(set(derived.columns).difference(rows.columns))
        for number, row in zip(derived.ids.to_list(), derived.rows(), strict=True):
            cell = row.get(own) if own else None
            sample_id = str(number) if cell is None or cell == "" else str(cell)
            yield sample_id, row, ask.DERIVED.read_question(row, taken)


# ── MMLU-Pro ────────────────────────────────────────────────────────────────────────────────────────────────

#: Where the text stands, the usual first.
_TEXTS = ("model_outputs", "generated_text", "model_output")
_START, _SHOTS = "model_outputs_", re.compile(r"_\d+shots?$")
_LEFT_OUT = frozenset({"question", "options", "pred", *_TEXTS})


class MmluProReader(KnownReader):
    """Reads MMLU-Pro's lists of the dataset's rows with the model's text and what a pattern read in it.

    `<subject>_result.json`, `model_outputs_<model>_<shots>.json`, folders and archives of them.
    """

    kind = "mmlu-pro"
    title = "MMLU-Pro output"
    row_keys = tuple({"question", "options", "answer", "pred", name} for name in _TEXTS)

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
            for record in log.convert(file, log.elements(file), _read_mmlu_pro):
                unread += record.verdict.value is None
                yield record
        if unread:
            hint = "MMLU-Pro guesses at random there; such a guess is no verdict"
            log.notice(f"in {unread} replies their pattern read nothing", hint)


def _is_list(file: LogFile) -> bool:
    """Return whether a file holds a list; beside the lists there are summaries, which are objects."""
    if not PurePosixPath(file.name).name.partition(".gz")[0].endswith(".json"):
        return False
    with suppress(DamagedError, OSError), file.open() as stream:
        return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    return True


def _read_mmlu_pro(row: Json) -> Record:
    cells, number, options = row.object(), row.text("question_id"), ask.read_texts(row.get("options"))
    if number is None or options is None:
        raise DamagedError("the row has no `question_id`, or no `options`")
    text = next((cells[name] for name in _TEXTS if name in cells), None)
    if isinstance(text, list):
        text = text[0] if text else None
    choices = ask.label_options(len(options))
    truth = ask.find_label(row.get("answer"), choices, None)
    truth = truth or ask.find_label(row.get("answer_index"), choices, None, by_index=True)
    read = row.text("pred")
    question = ask.Question(
        question=row.text("question"),
        choices=choices,
        options=options,
        truth=truth or row.text("answer"),
        category=row.text("category"),
        original={name: value for name, value in cells.items() if name not in _LEFT_OUT},
    )
    verdict = Verdict(None if read is None else float(read == truth), read)
    return Record(number, question, responses.read_message(text), verdict)


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────

_OK, _FIRST_ERROR = 200, 400
_LINES = (".jsonl", ".ndjson", ".gz", ".zst")


class OpenAiBatchReader(KnownReader):
    """Reads output and error files of OpenAI's batches, and of those who copied them."""

    kind = "openai-batch"
    title = "OpenAI batch output"
    row_keys: ClassVar[tuple[set[str], ...]] = ({"custom_id", "response"}, {"custom_id", "error"})
    model_path: ClassVar[tuple[str, ...]] = ("response", "body", "model")

    def read(self, log: Log) -> Iterator[Record]:
        """Yield the questions of the dataset, whose ids are the `custom_id`s, then the answers."""
        path, told = log.options.dataset, log.description
        if path is not None:
            if not path.is_file():
                require_plain(path)
                message = f"`--dataset {path}`: there is no such file"
                raise SpecError("E119", message, where=Place(file=str(path)))
            rows, roles = _open_table(path, log.options.columns)
            for sample_id, _, question in _iterate_table(rows, roles):
                yield Record(sample_id, question)
        told.task = (path or log.path).name.partition(".")[0]
        if path is None:
            hint = "name the file with the questions: `--dataset FILE`"
            log.notice("the log has no questions and no truths: only completions are written", hint)
        for file in log.files(*_LINES):
            yield from log.convert(file, log.rows(file), partial(self._read_row, told))

    def _read_row(self, told: LogDescription, row: Json) -> Record:
        name = row.text("custom_id")
        if not name:
            raise DamagedError("the line has no `custom_id`")
        said = self.read_answer(row)
        told.model = told.model or row.text(*self.model_path)
        return Record(name, None, said)

    def read_answer(self, row: Json) -> Completion:
        """Return what a line says: a chat completion, a text completion, or a response."""
        error, answer = row.get("error"), row.at("response")
        if error:
            complaint = responses.find_complaint(error) or "no reason is given"
            return responses.fail(f"{row.text('error', 'code') or 'error'}: {complaint}")
        if not isinstance(answer.value, dict):
            return responses.fail("the line has neither an answer nor an error")
        status, body = answer.get("status_code"), answer.at("body")
        status = status if isinstance(status, int) else _OK
        if body.get("object") != "response" and (body.get("output") is None or body.get("choices")):
            is_text = body.get("object") == "text_completion"
            take = responses.take_text if is_text else responses.take_chat
            return responses.read_body(status, _to_bytes(body.value), take)
        # The Responses API: the texts of its messages, thoughts apart.
        if status >= _FIRST_ERROR:
            return responses.fail(f"HTTP {status}: {responses.find_complaint(body.value)}")
        if body.text("status") in {"failed", "cancelled"}:
            complaint = responses.find_complaint(body.get("error"))
            return responses.fail(complaint or f"the response is {body.text('status')}")
        said = responses.read_message({"output": body.get("output"), "usage": body.get("usage")})
        reason = body.text("incomplete_details", "reason")
        if reason == "content_filter" and not said.text:
            return replace(said, text=None, status=CompletionStatus.REFUSED, finish_reason="content_filter")
        is_cut = reason in {"max_output_tokens", "max_tokens"}
        return replace(said, finish_reason="length" if is_cut else "stop")


class AnthropicBatchReader(OpenAiBatchReader):
    """Reads the results of Anthropic's message batches."""

    kind = "anthropic-batch"
    title = "Anthropic batch output"
    row_keys = ({"custom_id", "result"},)
    model_path = ("result", "message", "model")

    def read_answer(self, row: Json) -> Completion:
        """Return what a line says: a message, or why there is none."""
        kind = row.text("result", "type")
        if kind == "succeeded":
            body = _to_bytes(row.get("result", "message"))
            return responses.read_body(_OK, body, responses.take_anthropic)
        reason = responses.find_complaint(row.get("result", "error"))
        return responses.fail(f"{kind or 'no result'}: {reason}" if reason else kind or "no result")


def _to_bytes(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode(errors="replace")
    with suppress(RecursionError):
        return json.dumps(body).encode()
    return b""


# ── every_eval_ever ─────────────────────────────────────────────────────────────────────────────────────────

#: Where answerkey's own rows say which trial they are of, what became of the call, and the labels.
_OWN = ("trial", "completion_status", "choice_labels")
_LONGEST_TRIAL = 9
_TESTED = "0.3.0"


class EveryEvalEverReader(KnownReader):
    """Reads rows of single samples as the shared schema has them; the files of numbers are passed over."""

    kind = "every_eval_ever"
    title = "every_eval_ever rows"
    row_keys = ({"schema_version", "evaluation_id", "sample_id", "answer_attribution"},)

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the first line has what every row must have, or its files the usual names."""
        is_named = any(name.endswith("_samples.jsonl") for name in preview.names)
        is_named = is_named or preview.path.suffix == ".json"
        is_named = is_named and preview.mentions("schema_version", "evaluation_id")
        return is_named or super().recognises(preview)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each reply; a file is a task."""
        files = list(log.files(*_LINES))
        if log.path.suffix == ".json":  # the numbers: their samples lie beside them
            samples = log.path.with_name(f"{log.path.stem}_samples.jsonl")
            if not samples.is_file():
                raise log.make_error("E201", f"there is no `{samples.name}` beside the file of numbers")
            files = list(iterate_files(samples))
        totals = _count_stated(log)
        for name in sorted(totals.keys() - {file.stem for file in files}):
            log.notice(f"a file of numbers states {totals[name]} rows in `{name}.jsonl`, which is not there")
        for file in files:
            if not log.begin_task(file.read_first(find_line_limit()).text("evaluation_name") or file.stem):
                continue
            before = log.seen
            told = log.description
            told.score = "evaluation.is_correct"

            def read_row(row: Json, told: LogDescription = told) -> list[Record]:
                told.model = told.model or row.text("model_id")
                log.compare_version(row.text("schema_version"), _TESTED)
                return _read_every_eval_ever(row)

            yield from log.convert(file, log.rows(file), read_row)
            log.compare_count(log.seen - before, totals.get(file.stem), "the file of numbers", "rows")


def _count_stated(log: Log) -> dict[str, int]:
    """Return how many rows the files of numbers state, by the stem of the file that has them."""
    files = list(log.files())
    if log.path.is_file():
        numbers = log.path.with_name(f"{log.path.name.partition('.')[0].removesuffix('_samples')}.json")
        files = list(iterate_files(numbers)) if numbers.is_file() else []
    totals: dict[str, int] = {}
    for file in files:
        if file.name.endswith(".json") and (head := log.read_beside(file)) is not None:
            total = head.count("detailed_evaluation_results", "total_rows")
            if total is not None:
                totals[f"{file.stem}_samples"] = total
    return totals


def _read_every_eval_ever(row: Json) -> list[Record]:
    name, metadata = row.require("row", "sample_id"), row.at("metadata")
    choices, options = _find_choices(row)
    question = ask.Question(
        question=row.text("input", "raw") or row.text("input", "formatted"),
        choices=choices,
        options=options,
        truth=ask.find_truth(row.get("input", "reference"), choices, options),
        category=metadata.any_text("category", "subject", "topic", "domain", "subset"),
        original={key: value for key, value in metadata.object().items() if key not in _OWN},
    )
    correct = row.get("evaluation", "is_correct")
    value = float(correct) if isinstance(correct, bool) else row.number("evaluation", "score")
    attributed = [one for one in row.list("answer_attribution") if isinstance(one.value, dict)]
    read = attributed[-1].text("extracted_value") if attributed else None
    verdict = Verdict(value, (ask.find_label(read, choices, options) or read) if read else None)
    stated = metadata.text("trial") or metadata.text("epoch") or ""
    is_trial = stated.isascii() and stated.isdigit() and len(stated) <= _LONGEST_TRIAL
    return prompts.list_trials(name, question, _list_replies(row), verdict, int(stated) if is_trial else 0)


def _find_choices(row: Json) -> tuple[ask.Texts | None, ask.Texts | None]:
    """Return labels and options; choices that are labels leave the options to the prompt."""
    texts = ask.read_texts(row.get("input", "choices"))
    if texts is None:
        shown = ask.find_shown(row.text("input", "raw"))
        return shown.choices, shown.options
    stated = ask.read_texts(row.text("metadata", "choice_labels"))
    if stated is not None and len(stated) == len(texts):
        return ask.take_labels(stated), None if stated == texts else texts
    own = ask.take_labels(texts)
    if own is not None and own == ask.LABELS[: len(own)]:
        return own, None
    return ask.label_options(len(texts)), texts


def _list_replies(row: Json) -> list[Completion]:
    """Return what was said; of an exchange in several turns, what was said last."""
    error, stated = row.text("error"), row.text("metadata", "completion_status")
    messages, raw = row.get("messages"), row.get("output", "raw")
    texts: list[object] = raw if isinstance(raw, list) else [raw] if isinstance(raw, str) else []
    if not texts and isinstance(messages, list):
        texts = [{"messages": messages}]
    if not texts:
        status = CompletionStatus(stated) if stated in set(CompletionStatus) else CompletionStatus.NO_TEXT
        if (error and not stated) or status is CompletionStatus.ERROR:
            return [prompts.fail(error) if error else Completion(None, CompletionStatus.ERROR)]
        return [Completion(None, CompletionStatus.NO_TEXT if status is CompletionStatus.OK else status)]
    reasoning = ask.read_texts(row.get("output", "reasoning_trace")) or ()
    prompt = prompts.read_messages(row.text("input", "formatted"))
    latency = row.number("performance", "latency_ms")
    return [
        replace(
            said,
            reply=None,
            prompt=said.prompt or prompt,
            prompt_tokens=row.count("token_usage", "input_tokens"),
            completion_tokens=row.count("token_usage", "output_tokens"),
            latency=None if latency is None else latency / 1000,
            reasoning=reasoning[place] if place < len(reasoning) else None,
        )
        for place, said in enumerate(map(responses.read_message, texts))
    ]


# ── our own exports ─────────────────────────────────────────────────────────────────────────────────────────


class ExportReader(KnownReader):
    """Reads what `answerkey export --to jsonl` writes: an object for each sample and trial."""

    kind = "answerkey"
    title = "answerkey export"
    row_keys = ({"sample_id", "trial", "completion", "completion_status", "scores", "sample"},)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each row; the first scorer, or that of `--score`, says how it was judged."""
        log.description.task = log.path.name.partition(".")[0]

        def read_row(row: Json) -> Record:
            name, told = row.require("row", "sample_id"), log.description
            scores = row.object("scores")
            told.model = told.model or row.text("model")
            told.score = log.options.score or told.score or next(iter(scores), None)
            judged = Json(scores.get(str(told.score))).at("metadata")
            question = ask.read_asked(row.object("sample"), None, target=judged.get("ground_truth_choice"))
            choices = ask.read_texts(judged.get("choices")) or question.choices
            if choices != question.choices:
                question = replace(question, choices=choices, truth=judged.text("ground_truth_choice"))
            stated = row.text("completion_status") or ""
            status = CompletionStatus(stated) if stated in set(CompletionStatus) else CompletionStatus.OK
            said = Completion(
                row.text("completion"),
                status,
                prompts.read_messages(row.get("prompt")),
                finish_reason=row.text("finish_reason"),
                latency=row.number("latency"),
                error=row.text("completion_error"),
                reasoning=row.text("reasoning"),
            ).with_fields(**{name: row.count(name) for name in USAGE_NAMES})
            value = Json(scores.get(str(told.score))).number("values", "is_correct")
            verdict = Verdict(value, judged.text("predicted_choice"))
            return Record(name, question, said, verdict, row.count("trial") or 0)

        for file in log.files(*_LINES):
            yield from log.convert(file, log.rows(file), read_row)
