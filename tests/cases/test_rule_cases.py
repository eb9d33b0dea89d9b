"""Runs every row of the literate tables of the extraction rules with parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from answerkey.reader import PARTS, Reading
from answerkey.scorers.extraction import find_rule

FOLDER = Path(__file__).parent
COUNTS = {"stated_answer": 1998, "leading_label": 113}
HEADS = {
    "stated_answer": ["completion", "choices", "options", "answer", "reason", "part"],
    "leading_label": ["completion", "choices", "answer", "reason", "part"],
}


@dataclass(frozen=True)
class Case:
    """One row: the rule, its line in the page, what is read and what comes of it."""

    rule: str
    line: int
    text: str
    choices: tuple[str, ...]
    options: tuple[str, ...] | None
    expected: Reading

    def __str__(self) -> str:
        return f"{self.rule} line {self.line}"


def read_cases(rule: str) -> Iterator[Case]:
    """Yield the rows of all tables of a page; refuse one that is not well formed."""
    lines = (FOLDER / f"{rule}.md").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("| `"):
            continue
        cells = [cell.strip().removeprefix("`").removesuffix("`") for cell in line[2:-2].split(" | ")]
        if len(cells) != len(HEADS[rule]):
            pytest.fail(f"{rule} line {number}: {len(cells)} cells")
        row = dict(zip(HEADS[rule], cells, strict=True))
        options = row.get("options")
        yield Case(
            rule,
            number,
            json.loads(row["completion"]),
            tuple(row["choices"].split(" ")),
            tuple(json.loads(options)) if options else None,
            Reading(row["answer"] or None, row["reason"] or None, part=row["part"] or None),
        )


CASES = [case for rule in HEADS for case in read_cases(rule)]


def strip_span(reading: Reading) -> Reading:
    """Return a reading without its place, which the tables do not say."""
    return Reading(reading.choice, reading.reason, part=reading.part)


def test_pages_have_as_many_rows_as_they_should() -> None:
    """No row is lost to a typing mistake."""
    assert {rule: len([case for case in CASES if case.rule == rule]) for rule in HEADS} == COUNTS


@pytest.mark.parametrize("rule", HEADS)
def test_every_part_has_a_row(rule: str) -> None:
    """Each part of the rule decides at least one row."""
    assert {case.expected.part for case in CASES if case.rule == rule} - {None} == set(PARTS[rule])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_reads_what_the_page_says(case: Case) -> None:
    """The rule for one completion decides as the row says, and its passage lies within the text."""
    reading = find_rule(case.rule).read(case.text, case.choices, case.options)
    assert strip_span(reading) == case.expected
    begin, end = reading.span or (0, 1)
    assert 0 <= begin < end <= max(len(case.text), 1)
    assert (reading.span is not None) >= (reading.choice is not None)


@pytest.mark.parametrize("rule", HEADS)
def test_column_form_reads_what_the_page_says(rule: str) -> None:
    """The column form gives the same readings, with the options of each row."""
    cases = [case for case in CASES if case.rule == rule]
    for choices in dict.fromkeys(case.choices for case in cases):
        some = [case for case in cases if case.choices == choices] * 2
        texts = pl.Series([case.text for case in some], dtype=pl.String)
        options = pl.Series([case.options for case in some], dtype=pl.List(pl.String))
        table = find_rule(rule).read_all(texts, choices, options)
        found = [Reading(choice, reason, part=part) for choice, reason, part, _ in table.iter_rows()]
        assert found == [case.expected for case in some]
