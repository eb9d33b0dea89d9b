"""promptfoo: what `promptfoo eval -o` writes: JSON, JSON Lines, YAML or CSV.

A row is one test with one prompt and one provider. Of several prompts or providers one is taken.
The truth is one of the variables of the test, or what an assertion expects. Repeats of a test are
trials.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import PurePosixPath

from answerkey.datasets.content import iterate_lines
from answerkey.errors import listing
from answerkey.importers import prompts
from answerkey.importers import questions as ask
from answerkey.importers.json_stream import DamagedError, Json, Row
from answerkey.importers.logs import (
    KnownReader,
    Log,
    LogFile,
    LogPreview,
    LookupTable,
    Record,
    Verdict,
)
from answerkey.models.responses import read_message
from answerkey.spec.yaml_text import parse_plain
from answerkey.types import Completion, CompletionStatus

#: Assertions that state the right answer, the strictest first.
_ASSERTIONS = ("equals", "is", "contains", "icontains", "starts-with", "regex")
#: By `--column` these choose among the rows.
_CHOSEN = ("provider", "prompt")
_ERROR = 2
_LONGEST_HEAD = 2**20
_PROMPTS = "results/prompts"
_YAML = (".yaml", ".yml")
_LINES = frozenset({".jsonl", ".ndjson"})
_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".gz", ".zst", *_YAML)
#: The columns of a CSV file: what one provider said to one prompt, then how it was graded.
_REPLY = re.compile(r"\[(?P<provider>[^\]]+)\] (?P<prompt>.*)", re.DOTALL)
_GRADES = ("Status", "Score")
_TEST_COUNTS = ("testPassCount", "testFailCount", "testErrorCount")
#: Provider and prompt of a row.
Pair = tuple[str, str]


class PromptfooReader(KnownReader):
    """Reads the results of a promptfoo evaluation: one prompt with one provider."""

    kind = "promptfoo"
    title = "promptfoo results"
    row_keys = ({"promptIdx", "testIdx", "provider"},)
    head_keys = ({"evalId", "results"}, {"promptIdx", "testCase"})

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether it is JSON or YAML that begins like results, or CSV with its columns.

        Files of a folder are logs of their own.
        """
        if preview.path.is_dir():
            return False
        if preview.path.suffix == ".csv":
            names = next(csv.reader(io.StringIO(preview.head, newline="")), [])
            return {*_GRADES} <= set(names) and any(map(_REPLY.fullmatch, names))
        is_yaml = preview.path.suffix in _YAML
        return (is_yaml and preview.head.startswith("evalId:")) or super().recognises(preview)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each test and repeat."""
        log.description.task = log.path.name.partition(".")[0]
        log.description.score = log.options.score or "success"
        files = [file for file in log.files() if PurePosixPath(file.name).name.endswith(_ENDINGS)]
        if log.path.is_dir():
            first = shlex.quote(files[0].file) if files else "FILE"
            message = f"`{log.path}` is a folder; its files are logs of their own"
            raise log.make_error("E201", message, f"name one: `answerkey import promptfoo {first}`")
        survey = _survey_rows(log, files)
        pair = survey.choose_pair(log)
        log.description.model = pair[0] or None
        rows = _ChosenRows(log, pair, survey.repeats)
        for file in files:
            yield from log.convert(file, _iterate_rows(log, file), rows.read)
        rows.compare(survey.count_tests(pair))
        pairs = [" with prompt ".join(name) for name in survey.places if name != pair]
        if pairs:
            hint = "`--column provider=NAME` and `--column prompt=LABEL` take another"
            message = f"the rows of {' with prompt '.join(pair)} are taken"
            log.notice(f"{message}; others: {listing(pairs)}", hint)


class _ChosenRows:
    """The rows of one provider and prompt; `repeats` is how often a test was asked."""

    def __init__(self, log: Log, pair: Pair, repeats: int) -> None:
        self._log = log
        self._pair = pair
        self._repeats = repeats
        columns = log.options.columns.items()
        self._columns = [(role, name) for role, name in columns if role not in _CHOSEN]
        self._variables: dict[str, None] = {}
        self._without_truth = 0
        self._present = 0
        self._highest = 0

    def read(self, row: Json) -> list[Record]:
        """Return the record of a row; nothing for one of another provider or prompt."""
        number, pair = _name_row(row)
        if pair != self._pair:
            return []
        self._present += 1
        self._highest = max(self._highest, number + 1)
        messages = prompts.parse_chat(row.text("prompt", "raw"))
        variables = row.object("vars") or row.object("testCase", "vars")
        self._variables.update(dict.fromkeys(variables))
        question = _read_question(row, variables, messages, self._columns)
        self._without_truth += question.truth is None
        reply = _read_reply(row, messages)
        verdict = _read_verdict(row, reply, self._log.options.score)
        sample, trial = divmod(number, self._repeats)
        return [Record(str(sample), question, reply, verdict, trial)]

    def compare(self, expected: int | None) -> None:
        """Tell what is missing; E206 for tests without a truth."""
        log = self._log
        if self._without_truth:
            message = f"{self._without_truth} tests state no truth: no variable is known for it"
            hint = f"`--column answer=NAME`; variables: {listing(self._variables)}"
            raise log.make_error("E206", f"{message}, and no assertion has one", hint)
        if expected is not None:
            present = self._present + log.broken
            log.compare_count(present, expected, "its list of prompts", "rows")
        elif self._present < self._highest and not log.broken:
            tests = f"{self._present} of {self._highest} tests"
            log.notice(f"`testIdx` goes to {self._highest - 1}, but the log holds {tests}")


def _name_row(row: Json) -> tuple[int, Pair]:
    """Return the number of a row's test, and its provider and prompt."""
    number = row.count("testIdx")
    if number is None:
        raise DamagedError("the row has no `testIdx`")
    provider = row.text("provider", "label") or row.text("provider", "id") or row.text("provider")
    label = row.text("prompt", "label") or row.text("promptId") or row.text("promptIdx")
    return number, (provider or "", label or "")


@dataclass
class _Survey:
    """What a first look at all rows finds.

    `places` has the place of each provider and prompt in the evaluation, `head` what the log says
    of its prompts, `repeats` how often a test was asked.
    """

    places: dict[Pair, int] = field(default_factory=dict)
    head: Row = field(default_factory=dict)
    repeats: int = 1

    def choose_pair(self, log: Log) -> Pair:
        """Return the provider and the prompt whose rows are taken; E206 where there are none.

        Of those that the caller names, the first in the order of the evaluation: rows come in that
        of arrival.
        """
        provider, prompt = (log.options.columns.get(name) for name in _CHOSEN)
        for pair in sorted(self.places, key=self.places.__getitem__):
            if provider in {None, pair[0]} and prompt in {None, pair[1]}:
                return pair
        if self.places:
            message = "no row is of the provider and the prompt that are wanted"
            names = [" with prompt ".join(pair) for pair in self.places]
            raise log.make_error("E206", message, f"there are: {listing(names)}")
        return "", ""

    def count_tests(self, pair: Pair) -> int | None:
        """Return how many rows of a provider and prompt the log states; None where it does not."""
        listed = Json(self.head).list(_PROMPTS)[self.places.get(pair, 0) :]
        if not listed or pair not in self.places:
            return None
        counts = [listed[0].count("metrics", name) for name in _TEST_COUNTS]
        numbers = [count for count in counts if count is not None]
        return sum(numbers) if numbers else None


def _survey_rows(log: Log, files: Sequence[LogFile]) -> _Survey:
    """Return what a first look at all rows finds; broken ones are told at the second.

    Repeats of a test have the same variables and assertions, and follow each other.
    """
    survey = _Survey()
    first_look = Log(log.path, log.options)
    with LookupTable() as tests:
        for file in files:
            for row in _iterate_rows(first_look, file, survey.head):
                try:
                    number, pair = _name_row(row)
                except DamagedError:
                    continue
                place = row.count("promptIdx") or 0
                survey.places[pair] = min(place, survey.places.get(pair, place))
                test = repr((pair, row.object("vars"), row.get("testCase", "assert")))
                content = blake2b(test.encode(errors="replace"), digest_size=16).hexdigest()
                low, high = tests.get(content) or (number, number)
                low, high = min(low, number), max(high, number)
                tests.put(content, (low, high))
                survey.repeats = max(survey.repeats, high - low + 1)
        for low, high in tests.values():
            if low // survey.repeats != high // survey.repeats:
                # The same test twice, in different places.
                survey.repeats = 1
                break
    return survey


def _iterate_rows(log: Log, file: LogFile, head: Row | None = None) -> Iterator[Json]:
    """Yield the rows of a file: lines, if its name or the first one says so, or a list in an
    object.

    The prompts of such an object are put into `head`.
    """
    endings = PurePosixPath(file.name).suffixes
    if ".csv" in endings:
        yield from _iterate_csv(log, file)
        return
    if not {*_YAML}.isdisjoint(endings):
        yield from _iterate_yaml(log, file, head)
        return
    first = {} if not _LINES.isdisjoint(endings) else file.read_first(_LONGEST_HEAD).value
    if isinstance(first, dict) and "results" not in first:
        yield from log.rows(file)
        return
    before = log.seen
    yield from log.elements(file, "results", "results", head=head, kept=(_PROMPTS,))
    if log.seen == before and not log.broken:  # the oldest files have the rows right below
        yield from log.elements(file, "results")


def _iterate_yaml(log: Log, file: LogFile, head: Row | None) -> Iterator[Json]:
    with log.guard(file):
        document = Json(parse_plain(file.read_whole().decode("utf-8-sig")))
        if head is not None:
            head[_PROMPTS] = document.get("results", "prompts")
        for row in document.list("results", "results"):
            log.seen += 1
            yield row


def _iterate_csv(log: Log, file: LogFile) -> Iterator[Json]:
    """Yield the cells of a CSV file as rows of JSON have them: one for each test, prompt and
    provider.
    """
    with log.guard(file), file.open() as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        lines = csv.reader(iterate_lines(text, file.file), strict=True)
        try:
            names = next(lines, [])
            for number, cells in enumerate(lines):
                for row in _split_line(names, cells):
                    log.seen += 1
                    row["testIdx"] = number
                    yield Json(row, lines.line_num)
        except (csv.Error, IndexError) as error:
            raise DamagedError(f"line {lines.line_num}: {error}") from None


def _split_line(names: list[str], cells: list[str]) -> Iterator[Row]:
    """Yield a row for each reply in a line of CSV; IndexError where it lacks cells."""
    matches = [(place, _REPLY.fullmatch(name)) for place, name in enumerate(names)]
    replies = [(place, match) for place, match in matches if match]
    if not replies:
        return
    variables = dict(zip(names[: replies[0][0]], cells, strict=False))
    variables.pop("Description", None)
    ends = [*(place for place, _ in replies[1:]), len(names)]
    for index, ((place, match), end) in enumerate(zip(replies, ends, strict=True)):
        grades = dict(zip(names[place:end], cells[place:end], strict=False))
        status = grades.get("Status")
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


def _read_question(
    row: Json,
    variables: Mapping[str, object],
    messages: prompts.Messages | None,
    columns: Sequence[tuple[str, str]],
) -> ask.Question:
    """Return what a test asks."""
    chosen = tuple((role, name) for role, name in columns if name in variables)
    question = ask.read_asked(variables, prompts.find_question(messages), chosen=chosen)
    if question.truth is not None:
        return question
    # What the strictest assertion with a value expects, where no variable is the truth.
    values = {part.text("type"): part.text("value") for part in row.list("testCase", "assert")}
    for kind in _ASSERTIONS:
        value = values.get(kind)
        if value is not None:
            truth = ask.find_truth(value, question.choices, question.options)
            return replace(question, truth=truth)
    return question


def _read_verdict(row: Json, reply: Completion, score: str | None) -> Verdict:
    if reply.status is CompletionStatus.ERROR:
        return Verdict()
    if score is not None:
        value = row.number("namedScores", score)
        if value is None:
            value = row.number("gradingResult", "namedScores", score)
        return Verdict(value)
    success = row.get("success")
    return Verdict(float(success) if isinstance(success, bool) else row.number("score"))


def _read_reply(row: Json, prompt: prompts.Messages | None) -> Completion:
    answer = row.at("response")
    output = answer.get("output")
    error = row.text("error") or answer.text("error")
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
