"""promptfoo: the JSON, JSON Lines, YAML or CSV that `promptfoo eval -o` writes.

A row is one test with one prompt and one provider; one pair of those is imported. The truth is one
of the test's variables, or what an assertion expects. Repeats of a test are trials.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from answerkey.datasets.content import iterate_lines
from answerkey.errors import listing
from answerkey.importers.json_values import DamagedError, Json, Row, parse_bytes, parse_first
from answerkey.importers.logs import Log, LogFile, LogPreview, LogReader, Record, Records
from answerkey.importers.prompts import find_question, read_messages
from answerkey.importers.questions import read_logged_question
from answerkey.models.responses import fail, read_message
from answerkey.spec.nodes import parse_plain
from answerkey.types import Completion, CompletionStatus

#: Assertions that contain the right answer, the strictest first.
_ASSERTIONS = ("equals", "is", "contains", "icontains", "starts-with", "regex")
#: Roles of `--column` that choose among the rows.
_CHOSEN = ("provider", "prompt")
_ERROR = 2
_YAML = frozenset({".yaml", ".yml"})
_LINES = frozenset({".jsonl", ".ndjson"})
_ENDINGS = (
    ".json",
    ".jsonl",
    ".ndjson",
    ".csv",
    ".gz",
    ".zst",
    *_YAML,
)
#: The CSV column with a provider's replies to a prompt; columns with their grades follow it.
_REPLY = re.compile(r"\[(?P<provider>[^\]]+)\] (?P<prompt>.*)", re.DOTALL)
_TEST_COUNTS = ("testPassCount", "testFailCount", "testErrorCount")
#: The provider and the prompt of a row.
Pair = tuple[str, str]
_PAIR_NAME = " with prompt ".join


class PromptfooReader(LogReader):
    """Reads the results of a promptfoo evaluation: one prompt with one provider."""

    kind = "promptfoo"
    title = "promptfoo results"
    row_keys = ({"promptIdx", "testIdx", "provider"},)
    head_keys = ({"evalId", "results"}, {"promptIdx", "testCase"})

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the log is JSON or YAML that begins like results, or CSV with its columns.

        Each file in a folder is a log of its own.
        """
        if preview.path.is_dir():
            return False
        suffix = preview.path.suffix
        head = preview.head
        if suffix == ".csv":
            text = io.StringIO(head, newline="")
            names = next(csv.reader(text), [])
            has_grades = {"Status", "Score"}.issubset(names)
            return has_grades and any(map(_REPLY.fullmatch, names))
        if suffix in _YAML and head.startswith("evalId:"):
            return True
        return super().recognises(preview)

    def read(self, log: Log) -> Records:
        """Yield a record for each test and repeat."""
        log.description.task = log.stem
        log.description.score = log.options.score or "success"
        tests: list[_Test] = []
        listed: list[object] = []
        for file in _list_files(log):
            rows = _iterate_rows(log, file, listed)
            tests += log.convert(file, rows, _name_test)
        places: dict[Pair, int] = {}
        for test in tests:
            place = test.row.count("promptIdx") or 0
            lowest = places.get(test.pair, place)
            places[test.pair] = min(place, lowest)
        pair = _choose_pair(log, places)
        log.description.model = pair[0] or None
        chosen = [test for test in tests if test.pair == pair]
        repeats = _count_repeats(tests)
        yield from _read_tests(log, chosen, repeats)
        prompt = Json(listed).element(places.get(pair, 0))
        _compare(log, chosen, prompt)
        left_out = [_PAIR_NAME(name) for name in places if name != pair]
        if left_out:
            hint = "`--column provider=NAME` and `--column prompt=LABEL` select another"
            message = f"the rows of {_PAIR_NAME(pair)} are used"
            log.notice(f"{message}; others: {listing(left_out)}", hint)


def _list_files(log: Log) -> list[LogFile]:
    """Return the files of a log; raise E201 for a folder, whose files are logs of their own."""
    files = [file for file in log.files() if file.name.endswith(_ENDINGS)]
    if log.path.is_dir():
        first = shlex.quote(files[0].file) if files else "FILE"
        message = f"`{log.path}` is a folder; its files are logs of their own"
        raise log.make_error("E201", message, f"name one: `answerkey import promptfoo {first}`")
    return files


class _Test(NamedTuple):
    """A row, with the number of its test, and its provider and prompt."""

    number: int
    pair: Pair
    row: Json


def _name_test(row: Json) -> list[_Test]:
    number = row.count("testIdx")
    if number is None:
        raise DamagedError("the row has no `testIdx`")
    provider = row.at("provider").any_text("label", "id") or row.text("provider")
    label = row.text("prompt", "label") or row.any_text("promptId", "promptIdx")
    pair = (provider or "", label or "")
    return [_Test(number, pair, row)]


def _choose_pair(log: Log, places: Mapping[Pair, int]) -> Pair:
    """Return the provider and the prompt to import; raise E206 if the caller's do not exist.

    The first pair in the order of the evaluation is used; rows are in the order of arrival.
    """
    provider, prompt = map(log.options.columns.get, _CHOSEN)
    for pair in sorted(places, key=places.__getitem__):
        is_chosen = provider in {None, pair[0]}
        if is_chosen and prompt in {None, pair[1]}:
            return pair
    if places:
        message = "no row has the requested provider and prompt"
        raise log.make_error("E206", message, f"available: {listing(map(_PAIR_NAME, places))}")
    return "", ""


def _count_repeats(tests: Sequence[_Test]) -> int:
    """Return the number of repeats of each test.

    Repeats have the same variables and assertions, and are consecutive.
    """
    numbers: dict[str, list[int]] = {}
    for number, pair, row in tests:
        assertions = row.get("testCase", "assert")
        test = repr((pair, row.object("vars"), assertions))
        numbers.setdefault(test, []).append(number)
    repeats = 1
    for places in numbers.values():
        span = max(places) - min(places) + 1
        repeats = max(repeats, span)
    for places in numbers.values():
        if min(places) // repeats != max(places) // repeats:
            return 1  # the same test occurs twice, in different places
    return repeats


def _read_tests(
    log: Log,
    tests: Sequence[_Test],
    repeats: int,
) -> Records:
    """Yield the records of one provider and prompt; raise E206 for tests without a truth."""
    columns = {**log.options.columns, **dict.fromkeys(_CHOSEN)}
    if "truth" in columns:
        columns["answer"] = columns.pop("truth")
    names: dict[str, None] = {}
    without_truth = 0
    for number, _, row in tests:
        prompt = read_messages(row.text("prompt", "raw"))
        variables = row.object("vars") or row.object("testCase", "vars")
        names |= dict.fromkeys(variables)
        chosen = tuple((role, name) for role, name in columns.items() if name in variables)
        question = read_logged_question(variables, find_question(prompt), chosen=chosen)
        if question.truth is None:
            expected = _find_assertion(row)
            question.truth = question.name_truth(expected)
        without_truth += question.truth is None
        reply = _read_reply(row)
        sample, trial = divmod(number, repeats)
        completion = reply.with_fields(
            prompt=prompt,
            trial=trial,
            imported_score=_read_score(row, reply, log.options.score),
        )
        yield Record(str(sample), question, completion)
    if without_truth:
        message = f"{without_truth} tests have no truth: no variable is recognised as the truth"
        hint = f"`--column truth=NAME`; variables: {listing(names)}"
        raise log.make_error("E206", f"{message}, and no assertion contains it", hint)


def _compare(
    log: Log,
    tests: Sequence[_Test],
    prompt: Json,
) -> None:
    """Compare the number of tests with what the log states about their prompt."""
    present = len(tests)
    highest = max([test.number + 1 for test in tests], default=0)
    numbers = []
    for name in _TEST_COUNTS:
        count = prompt.count("metrics", name)
        if count is not None:
            numbers.append(count)
    if numbers:
        log.compare_count(
            present + log.damaged,
            sum(numbers),
            "its list of prompts",
            "rows",
        )
    elif present < highest and not log.damaged:
        tests_present = f"{present} of {highest} tests"
        log.notice(f"`testIdx` goes up to {highest - 1}, but the log holds {tests_present}")


def _iterate_rows(
    log: Log,
    file: LogFile,
    listed: list[object],
) -> Iterator[Json]:
    """Yield the rows of a file: JSON lines, CSV, or a list in an object, by its name and its
    beginning.

    The prompts of such an object are added to `listed`.
    """
    endings = PurePosixPath(file.name).suffixes
    head = file.read_head()
    first = parse_first(head).object()
    has_rows = bool(first) and "results" not in first
    if ".csv" in endings:
        yield from _iterate_csv(log, file)
    elif has_rows or not _LINES.isdisjoint(endings):
        yield from log.rows(file)
    else:
        parse = parse_bytes if _YAML.isdisjoint(endings) else _parse_yaml
        document = log.read_whole(file, parse)
        for prompt in document.list("results", "prompts"):
            listed.append(prompt.value)
        # In the oldest files, the rows are one level higher.
        oldest = document.get("results")
        rows = document.get("results", "results") or oldest
        yield from log.elements(rows)


def _parse_yaml(raw: bytes) -> object:
    return parse_plain(raw.decode("utf-8-sig"))


def _iterate_csv(log: Log, file: LogFile) -> Iterator[Json]:
    """Yield a row, as in JSON, for each test, prompt and provider of a CSV file."""
    with log.guard(file), file.open() as raw:
        text = io.TextIOWrapper(
            raw,
            encoding="utf-8-sig",
            newline="",
        )
        texts = iterate_lines(text, file.file)
        lines = csv.reader(texts, strict=True)
        try:
            names = next(lines, [])
            for number, cells in enumerate(lines):
                for row in _split_line(names, cells):
                    log.seen += 1
                    row["testIdx"] = number
                    yield Json(row, lines.line_num)
        except (csv.Error, IndexError) as error:
            raise DamagedError(f"line {lines.line_num}: {error}") from None


def _split_line(
    names: list[str],
    cells: list[str],
) -> Iterator[Row]:
    """Yield a row for each reply in a line of CSV; raise IndexError if it lacks cells."""
    replies: list[tuple[int, re.Match[str]]] = []
    for place, name in enumerate(names):
        match = _REPLY.fullmatch(name)
        if match and "Status" in names[place:]:
            replies.append((place, match))
    for index, (place, match) in enumerate(replies):
        first_reply = replies[0][0]
        variables = dict(zip(names[:first_reply], cells, strict=False))
        variables.pop("Description", None)
        status_place = names.index("Status", place)
        status = cells[status_place]
        is_error = status == "ERROR"
        yield {
            "promptIdx": index,
            "provider": match["provider"],
            "prompt": {"label": match["prompt"]},
            "vars": variables,
            "response": {"output": None if is_error else cells[place]},
            "error": cells[place] if is_error else None,
            "success": status == "PASS",
        }


def _find_assertion(row: Json) -> str | None:
    """Return the value that the strictest assertion expects, if any has one."""
    values = {}
    for part in row.list("testCase", "assert"):
        name = part.text("type")
        values[name] = part.text("value")
    expected = filter(None, map(values.get, _ASSERTIONS))
    return next(expected, None)


def _read_score(
    row: Json,
    reply: Completion,
    score: str | None,
) -> float | None:
    """Return the named score of a row, or whether it succeeded; None for a failed call."""
    if reply.status is CompletionStatus.ERROR:
        return None
    if score is None:
        return row.any_number("success", "score")
    value = row.number("namedScores", score)
    if value is None:
        value = row.number("gradingResult", "namedScores", score)
    return value


def _read_reply(row: Json) -> Completion:
    answer = row.at("response")
    output = answer.get("output")
    error = row.text("error") or answer.text("error")
    has_failed = row.count("failureReason") == _ERROR
    if error and (has_failed or output is None):
        return fail(error)
    latency = row.number("latencyMs")
    reply = read_message(output)
    return reply.with_fields(
        finish_reason=answer.text("finishReason"),
        prompt_tokens=answer.count("tokenUsage", "prompt"),
        completion_tokens=answer.count("tokenUsage", "completion"),
        latency=None if latency is None else latency / 1000,
    )
