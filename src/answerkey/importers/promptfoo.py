"""promptfoo: the JSON of `promptfoo eval -o`, or its JSON Lines.

A row is one test with one prompt and one provider. Of several prompts or providers one is taken. The truth is
one of the test's variables, or what an assertion expects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.errors import AnswerkeyError, listing
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
    parse_json,
)
from answerkey.importers.questions import (
    Messages,
    QuestionColumns,
    fail,
    find_label,
    find_question,
    find_shown,
    read_messages,
)
from answerkey.models.responses import read_message
from answerkey.types import Completion, CompletionStatus

#: Assertions that state the right answer, the strictest first.
_ASSERTIONS = ("equals", "is", "contains", "icontains", "starts-with", "regex")
#: By `--column` these choose among the rows.
_CHOSEN = ("provider", "prompt")
_ERROR = 2
_LONGEST_HEAD = 2**20


class PromptfooReader:
    """Reads the results of a promptfoo evaluation: one prompt with one provider.

    The first row decides which, unless it is said.
    """

    kind: ClassVar[str] = "promptfoo"
    title: ClassVar[str] = "promptfoo results"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether it begins like promptfoo's results, or a line of them."""
        if {"promptIdx", "testIdx", "provider"} <= set(preview.first):
            return True
        is_known = preview.mentions("evalId", "results") or preview.mentions("promptIdx", "testCase")
        return preview.head.startswith("{") and is_known

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each test."""
        told, options = log.description, log.options
        told.task = log.path.name.partition(".")[0]
        told.score = options.score or "success"
        wanted = [options.columns.get(name) for name in _CHOSEN]
        columns = QuestionColumns({role: one for role, one in options.columns.items() if role not in _CHOSEN})
        chosen: tuple[str, str] | None = None
        others: dict[tuple[str, str], None] = {}

        def read_row(row: Row) -> list[Record]:
            nonlocal chosen
            number, name = get_count(row, "testIdx"), _name_row(row)
            if number is None:
                raise DamagedError("the row has no `testIdx`")
            if chosen is None and all(
                one is None or one == own for one, own in zip(wanted, name, strict=True)
            ):
                chosen = name
                told.model = name[0] or None
            if name != chosen:
                others[name] = None
                return []
            said = _read_reply(row)
            question, verdict = _read_question(row, columns), _read_verdict(row, said, options.score)
            return [Record(str(number), question, said, verdict)]

        for file in log.files():
            if PurePosixPath(file.name).name.endswith((".json", ".jsonl", ".ndjson", ".gz", ".zst")):
                yield from log.convert(_iterate_rows(log, file), read_row, file)
        names = [f"{provider} with prompt {prompt}" for provider, prompt in others]
        if chosen is None and others:
            message = "no row is of the provider and the prompt that are wanted"
            raise log.make_error("E206", message, f"there are: {listing(names)}")
        if chosen is not None and others:
            taken = f"{chosen[0]} with prompt {chosen[1]}"
            hint = "`--column provider=NAME` and `--column prompt=LABEL` take another"
            log.notice(f"the rows of {taken} are taken; others: {listing(names)}", hint)


def _iterate_rows(log: Log, file: LogFile) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a file: lines, if its name or the first one says so, or a list in an object."""
    is_lines = not {".jsonl", ".ndjson"}.isdisjoint(PurePosixPath(file.name).suffixes)
    if not is_lines:
        try:
            with file.open() as stream:
                first = parse_json(stream.readline(_LONGEST_HEAD).decode("utf-8-sig", "replace"))
            is_lines = isinstance(first, dict) and "results" not in first
        except (DamagedError, OSError, AnswerkeyError):
            pass
    if is_lines:
        yield from log.read_lines(file)
        return
    found = False
    for one in log.read_elements(file, "results", "results"):
        found = True
        yield one
    if not found and not log.broken:  # the oldest files have the rows right below
        yield from log.read_elements(file, "results")


def _name_row(row: Row) -> tuple[str, str]:
    """Return the provider and the label of the prompt."""
    provider = get_text(row, "provider", "id") or get_text(row, "provider") or ""
    label = get_text(row, "prompt", "label") or get_text(row, "promptId") or get_text(row, "promptIdx")
    return get_text(row, "provider", "label") or provider, label or ""


def _read_prompt(row: Row) -> Messages | None:
    """Return the prompt as messages; a chat is logged as their JSON text."""
    text = get_text(row, "prompt", "raw")
    if text is not None and text.lstrip().startswith("["):
        try:
            listed = parse_json(text)
        except DamagedError:
            listed = None
        if isinstance(listed, list) and all(isinstance(one, dict) and "role" in one for one in listed):
            return read_messages(listed)
    return read_messages(text)


def _read_question(row: Row, columns: QuestionColumns) -> Question:
    shown = find_shown(find_question(_read_prompt(row)))
    found = columns.read(get_object({"vars": get(row, "vars") or get(row, "testCase", "vars")}, "vars"))
    choices, options, truth = found.choices, found.options, found.truth
    if choices is None and shown.choices is not None:
        choices, options = shown.choices, shown.options
    if truth is None:  # what the strictest assertion with a value expects
        stated = {
            get_text(one, "type"): get_text(one, "value") for one in get_list(row, "testCase", "assert")
        }
        truth = next((text for name in _ASSERTIONS if (text := stated.get(name)) is not None), None)
    return replace(
        found,
        question=found.question or shown.question,
        choices=choices,
        options=options,
        truth=find_label(truth, choices, options) or truth,
    )


def _read_verdict(row: Row, said: Completion, score: str | None) -> Verdict:
    if said.status is CompletionStatus.ERROR:
        return Verdict()
    if score is not None:
        named = get_number(row, "namedScores", score)
        return Verdict(get_number(row, "gradingResult", "namedScores", score) if named is None else named)
    success = row.get("success")
    return Verdict(float(success) if isinstance(success, bool) else get_number(row, "score"))


def _read_reply(row: Row) -> Completion:
    answer, error = get(row, "response"), get_text(row, "error") or get_text(row, "response", "error")
    output, prompt = get(answer, "output"), _read_prompt(row)
    if error and (get_count(row, "failureReason") == _ERROR or output is None):
        return fail(error, prompt)
    latency = get_number(row, "latencyMs")
    return replace(
        read_message(output),
        prompt=prompt,
        finish_reason=get_text(answer, "finishReason"),
        prompt_tokens=get_count(answer, "tokenUsage", "prompt"),
        completion_tokens=get_count(answer, "tokenUsage", "completion"),
        latency=None if latency is None else latency / 1000,
    )
