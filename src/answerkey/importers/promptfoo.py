"""promptfoo: the JSON of `promptfoo eval -o`, or its JSON Lines.

A row is one test with one prompt and one provider. Of several prompts or providers one is taken. The truth is
one of the test's variables, or what an assertion expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from answerkey.datasets import questions as ask
from answerkey.errors import AnswerkeyError, listing
from answerkey.importers import prompts
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogFile,
    Record,
    Verdict,
    parse_json,
)
from answerkey.models.responses import read_message
from answerkey.types import Completion, CompletionStatus

#: Assertions that state the right answer, the strictest first.
_ASSERTIONS = ("equals", "is", "contains", "icontains", "starts-with", "regex")
#: By `--column` these choose among the rows.
_CHOSEN = ("provider", "prompt")
_ERROR = 2
_LONGEST_HEAD = 2**20


class PromptfooReader(KnownReader):
    """Reads the results of a promptfoo evaluation: one prompt with one provider.

    The first row decides which, unless it is said.
    """

    kind = "promptfoo"
    title = "promptfoo results"
    row_keys = ({"promptIdx", "testIdx", "provider"},)
    head_keys = ({"evalId", "results"}, {"promptIdx", "testCase"})

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each test."""
        told, options = log.description, log.options
        told.task = log.path.name.partition(".")[0]
        told.score = options.score or "success"
        wanted = [options.columns.get(name) for name in _CHOSEN]
        columns = {role: one for role, one in options.columns.items() if role not in _CHOSEN}
        chosen: tuple[str, str] | None = None
        others: dict[tuple[str, str], None] = {}

        def read_row(row: Json) -> list[Record]:
            nonlocal chosen
            number = row.count("testIdx")
            if number is None:
                raise DamagedError("the row has no `testIdx`")
            provider = row.text("provider", "label") or row.text("provider", "id") or row.text("provider")
            label = row.text("prompt", "label") or row.text("promptId") or row.text("promptIdx")
            name = (provider or "", label or "")
            if chosen is None and all(one in {None, own} for one, own in zip(wanted, name, strict=True)):
                chosen = name
                told.model = name[0] or None
            if name != chosen:
                others[name] = None
                return []
            messages = prompts.parse_chat(row.text("prompt", "raw"))
            said = _read_reply(row, messages)
            verdict = _read_verdict(row, said, options.score)
            return [Record(str(number), _read_question(row, messages, columns), said, verdict)]

        for file in log.files():
            if PurePosixPath(file.name).name.endswith((".json", ".jsonl", ".ndjson", ".gz", ".zst")):
                yield from log.convert(file, _iterate_rows(log, file), read_row)
        names = [f"{provider} with prompt {prompt}" for provider, prompt in others]
        if chosen is None and others:
            message = "no row is of the provider and the prompt that are wanted"
            raise log.make_error("E206", message, f"there are: {listing(names)}")
        if chosen is not None and others:
            taken = f"{chosen[0]} with prompt {chosen[1]}"
            hint = "`--column provider=NAME` and `--column prompt=LABEL` take another"
            log.notice(f"the rows of {taken} are taken; others: {listing(names)}", hint)


def _iterate_rows(log: Log, file: LogFile) -> Iterator[Json]:
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
        yield from log.rows(file)
        return
    before = log.seen
    yield from log.elements(file, "results", "results")
    if log.seen == before and not log.broken:  # the oldest files have the rows right below
        yield from log.elements(file, "results")


def _read_question(row: Json, messages: prompts.Messages | None, columns: Mapping[str, str]) -> ask.Question:
    shown = ask.find_shown(prompts.find_question(messages))
    cells = row.object("vars") or row.object("testCase", "vars")
    chosen = tuple((role, column) for role, column in columns.items() if column in cells)
    found = ask.find_columns(tuple(cells), chosen=chosen).read_question(cells)
    choices, options, truth = found.choices, found.options, found.truth
    if choices is None and shown.choices is not None:
        choices, options = shown.choices, shown.options
    if truth is None:  # what the strictest assertion with a value expects
        stated = {one.text("type"): one.text("value") for one in row.list("testCase", "assert")}
        truth = next((text for name in _ASSERTIONS if (text := stated.get(name)) is not None), None)
    return replace(
        found,
        question=found.question or shown.question,
        choices=choices,
        options=options,
        truth=ask.find_label(truth, choices, options) or truth,
    )


def _read_verdict(row: Json, said: Completion, score: str | None) -> Verdict:
    if said.status is CompletionStatus.ERROR:
        return Verdict()
    if score is not None:
        named = row.number("namedScores", score)
        return Verdict(row.number("gradingResult", "namedScores", score) if named is None else named)
    success = row.get("success")
    return Verdict(float(success) if isinstance(success, bool) else row.number("score"))


def _read_reply(row: Json, prompt: prompts.Messages | None) -> Completion:
    answer, error = row.at("response"), row.text("error") or row.text("response", "error")
    output = answer.get("output")
    if error and (row.count("failureReason") == _ERROR or output is None):
        return prompts.fail(error, prompt)
    latency = row.number("latencyMs")
    return replace(
        read_message(output),
        prompt=prompt,
        finish_reason=answer.text("finishReason"),
        prompt_tokens=answer.count("tokenUsage", "prompt"),
        completion_tokens=answer.count("tokenUsage", "completion"),
        latency=None if latency is None else latency / 1000,
    )
