"""promptfoo: the JSON of `promptfoo eval -o`, or its JSON Lines.

A row is one test with one prompt and one provider. Of several prompts or providers one is taken. The truth is
one of the test's variables, or what an assertion expects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.errors import AnswerkeyError, DataError, Place, listing
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.columns import Roles, find_roles
from answerkey.exchange.fields import get, get_count, get_number, get_text
from answerkey.exchange.json_streams import parse_json
from answerkey.exchange.labels import find_label
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece
from answerkey.exchange.prompts import find_question, find_shown, read_messages
from answerkey.models.responses import mend_text, read_message
from answerkey.types import Completion, CompletionStatus

#: What is read of a test's variables; what they answer with is in the reply.
_ROLES = ("question", "options", "choices", "answer", "index", "category")
#: Assertions that state the right answer, the strictest first.
ASSERTIONS = ("equals", "is", "contains", "icontains", "starts-with", "regex")
#: By `--column` these choose among the rows.
_CHOSEN = ("provider", "prompt")
_ERROR = 2
_LINES = frozenset({".jsonl", ".ndjson"})
_LONGEST_HEAD = 2**20


class PromptfooReader:
    """Reads the results of a promptfoo evaluation."""

    kind: ClassVar[str] = "promptfoo"
    title: ClassVar[str] = "promptfoo results"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether it begins like promptfoo's results, or a line of them."""
        if {"promptIdx", "testIdx", "provider"} <= set(glimpse.first):
            return True
        is_whole = glimpse.head.startswith("{") and glimpse.mentions("evalId", "results")
        return is_whole or (glimpse.head.startswith("{") and glimpse.mentions("promptIdx", "testCase"))

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each test."""
        rows = _Rows(log)
        log.told.task = log.path.name.partition(".")[0]
        log.told.score = log.wishes.score or "success"
        for piece in log.pieces():
            if not PurePosixPath(piece.name).name.endswith((".json", ".jsonl", ".ndjson", ".gz", ".zst")):
                continue
            for number, row in _iterate_rows(log, piece):
                line = log.take(rows.read, row, piece, number)
                if line is not None:
                    yield line
        rows.conclude()


def _iterate_rows(log: Log, piece: Piece) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a file: lines, or the list inside the object."""
    if not _is_lines(piece):
        yield from _iterate_whole(log, piece)
        return
    yield from log.read_lines(piece)


def _iterate_whole(log: Log, piece: Piece) -> Iterator[tuple[int, Row]]:
    found = False
    for one in log.read_elements(piece, "results", "results"):
        found = True
        yield one
    if not found and not log.spoiled:
        # The oldest files have the rows right below.
        yield from log.read_elements(piece, "results")


def _is_lines(piece: Piece) -> bool:
    """Return whether a file has one row on each line: by its name, or as its first line is a whole row."""
    if any(suffix in _LINES for suffix in PurePosixPath(piece.name).suffixes):
        return True
    try:
        with piece.open() as stream:
            found = parse_json(stream.readline(_LONGEST_HEAD).decode("utf-8-sig", "replace"))
    except (DamagedError, OSError, AnswerkeyError):
        return False
    return isinstance(found, dict) and "results" not in found


class _Rows:
    """The rows of one prompt with one provider; the first row decides which, unless it is said."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._wish = {name: log.wishes.columns.get(name) for name in _CHOSEN}
        self._columns = {name: column for name, column in log.wishes.columns.items() if name not in _CHOSEN}
        self._chosen: tuple[str, str] | None = None
        self._others: dict[tuple[str, str], int] = {}
        self._roles: tuple[frozenset[str], Roles] | None = None

    def read(self, row: Row) -> Line | None:
        """Return the line of a row; None for another prompt or provider."""
        number = get_count(row, "testIdx")
        if number is None:
            raise DamagedError("the row has no `testIdx`")
        if not self._takes(row):
            return None
        named = get(row, "vars") or get(row, "testCase", "vars")
        asked = self._describe(row, named if isinstance(named, dict) else {})
        said = _read_reply(row)
        return Line(str(number), asked, said, self._judge(row, said))

    def _takes(self, row: Row) -> bool:
        name = _name_row(row)
        wanted = [self._wish[one] for one in _CHOSEN]
        fits = all(wish is None or wish == own for wish, own in zip(wanted, name, strict=True))
        if self._chosen is None and fits:
            self._chosen = name
            self._log.told.model = name[0] or None
        if name != self._chosen:
            self._others[name] = self._others.get(name, 0) + 1
        return name == self._chosen

    def conclude(self) -> None:
        """Tell which prompts and providers were passed over; E206 when what is wanted is not there."""
        names = [f"{provider} with prompt {prompt}" for provider, prompt in self._others]
        if self._chosen is None and self._others:
            message = "no row is of the provider and the prompt that are wanted"
            hint = f"there are: {listing(names)}"
            raise DataError("E206", message, where=Place(file=str(self._log.path)), hint=hint)
        if self._others and self._chosen:
            hint = "`--column provider=NAME` and `--column prompt=LABEL` take another"
            taken = f"{self._chosen[0]} with prompt {self._chosen[1]}"
            self._log.notice(f"the rows of {taken} are taken; others: {listing(names)}", hint)

    def _describe(self, row: Row, named: dict[str, object]) -> Asked:
        prompt = read_prompt(row)
        question = find_question(prompt)
        shown = find_shown(question)
        found = self._find_roles(named).read_asked(named)
        choices, options = found.choices, found.options
        if choices is None and shown is not None:
            choices, options = shown.choices, shown.options
        truth = found.truth if found.truth is not None else _find_expected(row)
        return replace(
            found,
            question=found.question or (shown.question if shown else question),
            choices=choices,
            options=options,
            truth=find_label(truth, choices, options) or truth,
        )

    def _find_roles(self, named: dict[str, object]) -> Roles:
        """Return which variable is what; most tests have the same variables."""
        names = frozenset(named)
        if self._roles is None or self._roles[0] != names:
            fit = {name: column for name, column in self._columns.items() if column in names}
            found = find_roles(list(named), fit)
            columns = {role: name for role, name in found.columns.items() if role in _ROLES}
            self._roles = (names, replace(found, columns=columns))
        return self._roles[1]

    def _judge(self, row: Row, said: Completion) -> Theirs:
        if said.status is CompletionStatus.ERROR:
            return Theirs()
        wish = self._log.wishes.score
        if wish is not None:
            named = get_number(row, "namedScores", wish)
            return Theirs(get_number(row, "gradingResult", "namedScores", wish) if named is None else named)
        success = row.get("success")
        return Theirs(float(success) if isinstance(success, bool) else get_number(row, "score"))


def _name_row(row: Row) -> tuple[str, str]:
    """Return the provider and the label of the prompt."""
    provider = get_text(row, "provider", "id") or get_text(row, "provider") or ""
    label = get_text(row, "prompt", "label") or get_text(row, "promptId") or get_text(row, "promptIdx")
    return get_text(row, "provider", "label") or provider, label or ""


def read_prompt(row: Row) -> list[dict[str, object]] | None:
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


def _find_expected(row: Row) -> str | None:
    """Return what the strictest assertion with a value expects."""
    listed = get(row, "testCase", "assert")
    stated = (
        {get_text(one, "type"): get_text(one, "value") for one in listed} if isinstance(listed, list) else {}
    )
    return next((text for name in ASSERTIONS if (text := stated.get(name)) is not None), None)


def _read_reply(row: Row) -> Completion:
    answer, error = get(row, "response"), get_text(row, "error") or get_text(row, "response", "error")
    output, prompt = get(answer, "output"), read_prompt(row)
    has_failed = get_count(row, "failureReason") == _ERROR or output is None
    if error and has_failed:
        return Completion(None, CompletionStatus.ERROR, prompt, error=mend_text(error)[:500])
    said = read_message(output)
    usage, latency = get(answer, "tokenUsage"), get_number(row, "latencyMs")
    return replace(
        said,
        prompt=prompt,
        finish_reason=get_text(answer, "finishReason"),
        prompt_tokens=get_count(usage, "prompt"),
        completion_tokens=get_count(usage, "completion"),
        latency=None if latency is None else latency / 1000,
    )
