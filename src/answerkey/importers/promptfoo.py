"""promptfoo: what `promptfoo eval -o` writes: JSON, JSON Lines, YAML or CSV.

A row is one test with one prompt and one provider. Of several prompts or providers one is taken. The truth is
one of the variables of the test, or what an assertion expects. Repeats of a test are trials.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import PurePosixPath

from answerkey.datasets import questions as ask
from answerkey.datasets.content import iterate_lines
from answerkey.errors import listing
from answerkey.importers import prompts
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogFile,
    LogPreview,
    LookupTable,
    Record,
    Row,
    Verdict,
)
from answerkey.models.responses import read_message
from answerkey.spec.nodes import parse_plain
from answerkey.types import Completion, CompletionStatus

#: Assertions that state the right answer, the strictest first.
_ASSERTIONS = ("equals", "is", "contains", "icontains", "starts-with", "regex")
#: By `--column` these choose among the rows.
_CHOSEN = ("provider", "prompt")
_ERROR = 2
_LONGEST_HEAD = 2**20
_PROMPTS = "results/prompts"
_YAML = (".yaml", ".yml")
_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".gz", ".zst", *_YAML)
#: The columns of a CSV file: what one provider said to one prompt, then how it was graded.
_SAID, _GRADES = re.compile(r"\[(?P<provider>[^\]]+)\] (?P<prompt>.*)", re.DOTALL), ("Status", "Score")


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
            return {*_GRADES} <= set(names) and any(map(_SAID.fullmatch, names))
        is_yaml = preview.path.suffix in _YAML
        return (is_yaml and preview.head.startswith("evalId:")) or super().recognises(preview)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each test and repeat."""
        told, options = log.description, log.options
        told.task = log.path.name.partition(".")[0]
        told.score = options.score or "success"
        files = [file for file in log.files() if PurePosixPath(file.name).name.endswith(_ENDINGS)]
        if log.path.is_dir():
            first = shlex.quote(files[0].file) if files else "FILE"
            message = f"`{log.path}` is a folder; its files are logs of their own"
            raise log.make_error("E201", message, f"name one: `answerkey import promptfoo {first}`")
        chosen, others, repeats, stated = _choose_rows(log, files)
        told.model = chosen[0] or None
        columns = tuple((role, one) for role, one in options.columns.items() if role not in _CHOSEN)
        names: dict[str, None] = {}
        unknown = present = highest = 0

        def read_row(row: Json) -> list[Record]:
            nonlocal unknown, present, highest
            number, name = _name_row(row)
            if name != chosen:
                return []
            present += 1
            highest = max(highest, number + 1)
            messages = prompts.parse_chat(row.text("prompt", "raw"))
            cells, question = _read_question(row, messages, columns)
            names.update(dict.fromkeys(cells))
            unknown += question.truth is None
            said = _read_reply(row, messages)
            sample, trial = divmod(number, repeats)
            return [Record(str(sample), question, said, _read_verdict(row, said, options.score), trial)]

        for file in files:
            yield from log.convert(file, _iterate_rows(log, file), read_row)
        if unknown:
            message = f"{unknown} tests state no truth: no variable is known for it, and no assertion has one"
            raise log.make_error("E206", message, f"`--column answer=NAME`; variables: {listing(names)}")
        if stated is not None:
            log.compare_count(present + log.broken, stated, "its list of prompts", "rows")
        elif present < highest and not log.broken:
            log.notice(f"`testIdx` goes to {highest - 1}, but the log holds {present} of {highest} tests")
        if others:
            hint = "`--column provider=NAME` and `--column prompt=LABEL` take another"
            taken = " with prompt ".join(chosen)
            log.notice(f"the rows of {taken} are taken; others: {listing(others)}", hint)


def _name_row(row: Json) -> tuple[int, tuple[str, str]]:
    """Return the number of a row's test, and its provider and prompt."""
    number = row.count("testIdx")
    if number is None:
        raise DamagedError("the row has no `testIdx`")
    provider = row.text("provider", "label") or row.text("provider", "id") or row.text("provider")
    label = row.text("prompt", "label") or row.text("promptId") or row.text("promptIdx")
    return number, (provider or "", label or "")


def _choose_rows(log: Log, files: list[LogFile]) -> tuple[tuple[str, str], list[str], int, int | None]:
    """Return the provider and the prompt whose rows are taken, the others, and how often a test was asked.

    The last is how many rows the log states of them, None where it does not.

    Of those that are wanted, the first in the order of the evaluation: rows come in that of arrival. Repeats
    of a test have the same variables and assertions, and follow each other.
    """
    wanted = [log.options.columns.get(name) for name in _CHOSEN]
    places: dict[tuple[str, str], int] = {}
    head: Row = {}
    first = Log(log.path, log.options)  # what is broken is told when the rows are read
    repeats = 1
    with LookupTable() as tests:
        for file in files:
            for row in _iterate_rows(first, file, head):
                try:
                    number, name = _name_row(row)
                except DamagedError:
                    continue
                place = row.count("promptIdx") or 0
                places[name] = min(place, places.get(name, place))
                asked = repr((name, row.object("vars"), row.get("testCase", "assert")))
                content = blake2b(asked.encode(errors="replace"), digest_size=16).hexdigest()
                known = tests.get(content) or (number, number)
                low, high = min(*known, number), max(*known, number)
                tests.put(content, (low, high))
                repeats = max(repeats, high - low + 1)
        if repeats > 1 and any(low // repeats != high // repeats for low, high in tests.values()):
            repeats = 1  # the same test twice, in different places
    fitting = [
        name
        for name in sorted(places, key=places.__getitem__)
        if all(one in {None, own} for one, own in zip(wanted, name, strict=True))
    ]
    names = [" with prompt ".join(name) for name in places if name not in fitting[:1]]
    if places and not fitting:
        message = "no row is of the provider and the prompt that are wanted"
        raise log.make_error("E206", message, f"there are: {listing(names)}")
    if not fitting:
        return ("", ""), names, repeats, None
    listed = Json(head).list(_PROMPTS)[places[fitting[0]] :]
    counts = (
        [listed[0].count("metrics", f"test{end}Count") for end in ("Pass", "Fail", "Error")] if listed else []
    )
    stated = sum(filter(None, counts)) if any(count is not None for count in counts) else None
    return fitting[0], names, repeats, stated


def _iterate_rows(log: Log, file: LogFile, head: Row | None = None) -> Iterator[Json]:
    """Yield the rows of a file: lines, if its name or the first one says so, or a list in an object.

    The prompts of such an object are put into `head`.
    """
    endings = PurePosixPath(file.name).suffixes
    if ".csv" in endings:
        yield from _iterate_csv(log, file)
        return
    if not {*_YAML}.isdisjoint(endings):
        with log.guard(file):
            found = Json(parse_plain(file.read_whole().decode("utf-8-sig")))
            if head is not None:
                head[_PROMPTS] = found.get("results", "prompts")
            for one in found.list("results", "results"):
                log.seen += 1
                yield one
        return
    is_lines = not {".jsonl", ".ndjson"}.isdisjoint(endings)
    first = {} if is_lines else file.read_first(_LONGEST_HEAD).value
    if isinstance(first, dict) and "results" not in first:
        yield from log.rows(file)
        return
    before = log.seen
    yield from log.elements(file, "results", "results", head=head, kept=(_PROMPTS,))
    if log.seen == before and not log.broken:  # the oldest files have the rows right below
        yield from log.elements(file, "results")


def _iterate_csv(log: Log, file: LogFile) -> Iterator[Json]:
    """Yield the cells of a CSV file as rows of JSON have them: one for each test, prompt and provider."""
    with log.guard(file), file.open() as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        lines = csv.reader(iterate_lines(text, file.file), strict=True)
        try:
            names = next(lines, [])
            said = [(place, match) for place, name in enumerate(names) if (match := _SAID.fullmatch(name))]
            ends = [*(place for place, _ in said[1:]), len(names)]
            variables = names[: said[0][0] if said else 0]
            for number, cells in enumerate(lines):
                values = dict(zip(variables, cells, strict=False))
                values.pop("Description", None)
                for index, ((place, match), end) in enumerate(zip(said, ends, strict=True)):
                    log.seen += 1
                    graded = dict(zip(names[place:end], cells[place:end], strict=False))
                    is_error = graded.get("Status") == "ERROR"
                    row: Row = {
                        "testIdx": number,
                        "promptIdx": index,
                        "provider": match["provider"],
                        "prompt": {"label": match["prompt"]},
                        "vars": values,
                        "response": {"output": None if is_error else cells[place]},
                        "error": cells[place] if is_error else None,
                        "success": graded.get("Status") == "PASS",
                    }
                    yield Json(row, lines.line_num)
        except (csv.Error, IndexError) as error:
            raise DamagedError(f"line {lines.line_num}: {error}") from None


def _read_question(
    row: Json, messages: prompts.Messages | None, columns: tuple[tuple[str, str], ...]
) -> tuple[Mapping[str, object], ask.Question]:
    """Return the variables of a test, and what it asks."""
    cells = row.object("vars") or row.object("testCase", "vars")
    chosen = tuple((role, column) for role, column in columns if column in cells)
    # What the strictest assertion with a value expects, where no variable is the truth.
    stated = {one.text("type"): one.text("value") for one in row.list("testCase", "assert")}
    expected = next((text for name in _ASSERTIONS if (text := stated.get(name)) is not None), None)
    found = ask.read_asked(cells, prompts.find_question(messages), chosen=chosen)
    if found.truth is None and expected is not None:
        found = replace(found, truth=ask.find_truth(expected, found.choices, found.options))
    return cells, found


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
