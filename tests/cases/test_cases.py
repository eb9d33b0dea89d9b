"""Runs every row of the literate tables beside this file."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML
from tests.samples import record, samples_from_frame, score_table

from answerkey.reader import REASONS
from answerkey.scorers import StringEqualsMcqa, judge
from answerkey.types import Completion, CompletionStatus, Score, ScoreStatus

PAGE = Path(__file__).with_name("string_equals_mcqa.md")

VERDICTS = ("completion", "choices", "truth", "is_correct", "validity", "reason", "note")
LITERAL = (*VERDICTS, "extraction")
CALLS = ("completion", "choices", "truth", "status", "reason", "note")
SPELLINGS = ("choices", "truth", "read as", "right", "note")
FIELDS = ("fields", "sample", "is_correct", "note")
#: Completions without a text.
ABSENT = {"refusal": CompletionStatus.REFUSED, "error": CompletionStatus.ERROR}
COUNTS = {VERDICTS: 214, LITERAL: 11, CALLS: 1, SPELLINGS: 36, FIELDS: 16}


@dataclass(frozen=True)
class Case:
    """One row of a table: its line in the page, and its cells by column name."""

    line: int
    head: tuple[str, ...]
    cells: dict[str, str]

    def __str__(self) -> str:
        return f"line {self.line}"


def read_cases(page: str) -> Iterator[Case]:
    """Yield the rows of all tables; refuse a table that is not well formed."""
    head: tuple[str, ...] | None = None
    lines = page.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            head = None
            continue
        cells = read_cells(line, number)
        if head is None:
            head = tuple(cells)
            if head not in COUNTS or not set(lines[number]) <= set("|-"):
                pytest.fail(f"line {number}: not the head of a known table: {line}")
        elif set(line) != set("|-"):
            if len(cells) != len(head):
                pytest.fail(f"line {number}: {len(cells)} cells under {len(head)} columns: {line}")
            yield Case(number, head, dict(zip(head, cells, strict=True)))


def read_cells(line: str, number: int) -> list[str]:
    """Return the cells of one row, without their backticks."""
    if not line.endswith("|"):
        pytest.fail(f"line {number}: the row does not end: {line}")
    return [cell.strip().removeprefix("`").removesuffix("`") for cell in line[1:-1].split("|")]


CASES = list(read_cases(PAGE.read_text(encoding="utf-8")))


def list_cases(*heads: tuple[str, ...]) -> list[Case]:
    """Return the rows of the tables with these heads."""
    return [case for case in CASES if case.head in heads]


def read_completion(cell: str) -> Completion:
    """Return the completion that a cell writes."""
    if cell in ABSENT:
        return Completion(None, ABSENT[cell])
    text = json.loads(cell)
    return Completion(text, CompletionStatus.NO_TEXT if text is None else CompletionStatus.OK)


def expect_score(case: Case) -> Score:
    """Return the score that the row states."""
    if case.head == CALLS:
        metadata: dict[str, Any] = dict.fromkeys(StringEqualsMcqa.metadata_types)
        status, reason = ScoreStatus(case.cells["status"]), case.cells["reason"]
        return Score(status, reason, {"is_correct": None}, metadata)
    text = read_completion(case.cells["completion"]).text or ""
    is_valid = case.cells["validity"] == "VALID"
    choices = case.cells["choices"].split(" ")
    extraction = case.cells.get("extraction", "first_character")
    first = text[:1] if extraction == "first_character_literal" else find_predicted(text, choices)
    return Score(
        ScoreStatus.SCORED,
        values={"is_correct": float(case.cells["is_correct"])},
        metadata={
            "completion_validity": case.cells["validity"],
            "validity_reason": case.cells["reason"] or None,
            "predicted_choice": first if is_valid else None,
            "ground_truth_choice": case.cells["truth"],
            "choices": choices,
            "extraction_rule": extraction,
        },
    )


def find_predicted(text: str, choices: list[str]) -> str:
    """Return the choice that the text of a VALID row begins with."""
    start = unicodedata.normalize("NFC", text).lstrip().lstrip("\ufeff\u200b\u2060")
    return next((choice for choice in choices if start.startswith(choice)), "")


def test_page_has_as_many_rows_as_it_should() -> None:
    """No row is lost to a typing mistake: each kind of table has the known number of rows."""
    assert Counter(case.head for case in CASES) == COUNTS


def test_page_shows_every_reason() -> None:
    """Each reason of the rule has a row."""
    assert {case.cells["reason"] for case in list_cases(VERDICTS)} == {"", *REASONS}


@pytest.mark.parametrize("case", list_cases(VERDICTS, LITERAL, CALLS), ids=str)
def test_a_completion_has_the_verdict_of_the_page(case: Case) -> None:
    """The rule decides as the row says, and the scorer stores that."""
    choices, truth = case.cells["choices"].split(" "), case.cells["truth"]
    completion = read_completion(case.cells["completion"])
    extraction = case.cells.get("extraction", "first_character")
    expected = expect_score(case)
    assert judge(completion, choices, truth, extraction) == expected
    scorer = StringEqualsMcqa("{{ sample.truth }}", "{{ sample.choices }}", extraction=extraction)
    assert score_row(scorer, {"truth": truth, "choices": choices}, completion) == expected


def score_row(scorer: StringEqualsMcqa, row: dict[str, object], completion: Completion) -> Score:
    """Return the score that the scorer's table holds for a row."""
    samples = samples_from_frame(pl.DataFrame([row]), ["1"])
    return next(score_table(scorer, samples, record(samples, [completion])).rows())


@pytest.mark.parametrize("case", list_cases(SPELLINGS), ids=str)
def test_choices_and_truth_are_read_in_every_spelling(case: Case) -> None:
    """What a row reads as choices and truth is the same by the rule, by constants and from a
    column.
    """
    choices, truth = json.loads(case.cells["choices"]), json.loads(case.cells["truth"])
    status, _, reason = case.cells["read as"].partition(" `")
    right = case.cells["right"] or "A"
    row = {"choices": json.dumps(choices), "truth": json.dumps(truth)}
    samples = samples_from_frame(pl.DataFrame([row]), ["1"], encoded=row)
    scorer = StringEqualsMcqa("{{ sample.truth }}", "{{ sample.choices }}")
    from_column = next(score_table(scorer, samples, record(samples, [right])).rows())
    for score in (judge(right, choices, truth), from_column):
        if status == "FAILED":
            assert (score.status, score.reason) == (ScoreStatus.FAILED, reason)
        else:
            assert score.values == {"is_correct": 1.0}
            assert score.metadata["choices"] == case.cells["read as"].split(" ")
    problems, _ = scorer.check_rows(samples)
    assert [problem.reason for problem in problems[:1]] == ([reason] if reason else [])


@pytest.mark.parametrize("case", list_cases(FIELDS), ids=str)
def test_fields_work_as_a_task_file_writes_them(case: Case) -> None:
    """Each spelling of the fields, the deprecated ones included, gives the verdict of the row."""
    fields = YAML(typ="safe").load(case.cells["fields"])
    sample = json.loads(case.cells["sample"])
    score = score_row(StringEqualsMcqa(**fields), sample, Completion("B"))
    assert score.values == {"is_correct": float(case.cells["is_correct"])}


HEAD = "| fields | sample | is_correct | note |"


@pytest.mark.parametrize(
    "page",
    [
        "| completion | truth |\n|---|---|",
        f"{HEAD}\n| a | b | c | d |",
        f"{HEAD}\n|---|---|---|---|\n| a | b | c |",
        f"{HEAD}\n|---|---|---|---|\n| a | b | c | d",
    ],
)
def test_malformed_table_is_refused(page: str) -> None:
    """An unknown head, a missing rule, a missing cell or an open row fails; it is never skipped."""
    with pytest.raises(pytest.fail.Exception):
        list(read_cases(page))
