"""Runs every row of the literate tables of the extraction rules with parts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from answerkey.reader import PARTS, Reading
from answerkey.scorers.extraction import find_rule

FOLDER = Path(__file__).parent
COUNTS = {"stated_answer": 2343, "leading_label": 113}
THREAD = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+")


@dataclass(frozen=True)
class Case:
    """One row: where it stands, what is read, what comes of it, and its other columns."""

    rule: str
    section: str
    line: int
    text: str
    choices: tuple[str, ...]
    options: tuple[str, ...] | None
    expected: Reading
    language: str | None
    kind: str | None
    thread: str | None


def read_cases(rule: str) -> Iterator[Case]:
    """Yield the rows of all tables of a page, by the heads of their columns.

    Refuse one not well formed.
    """
    section, head = "", ""
    lines = (FOLDER / f"{rule}.md").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        section = line.removeprefix("## ") if line.startswith("## ") else section
        head = line if line.startswith("| completion") else head
        if not line.startswith("| `"):
            continue
        names, cells = ([cell.strip() for cell in row[2:-2].split(" | ")] for row in (head, line))
        if len(cells) != len(names):
            pytest.fail(f"{rule} line {number}: {len(cells)} cells")
        row = {name: cell.strip("`") or None for name, cell in zip(names, cells, strict=True)}
        options = row.get("options")
        yield Case(
            rule=rule,
            section=section,
            line=number,
            text=json.loads(row["completion"] or ""),
            choices=tuple((row["choices"] or "").split(" ")),
            options=tuple(json.loads(options)) if options else None,
            expected=Reading(row["answer"], row["reason"], part=row["part"]),
            language=row.get("language"),
            kind=row.get("class"),
            thread=row.get("thread"),
        )


CASES = [case for rule in COUNTS for case in read_cases(rule)]
SECTIONS = list(dict.fromkeys((case.rule, case.section) for case in CASES))


def strip_span(reading: Reading) -> Reading:
    """Return a reading without its place, which the tables do not say."""
    return Reading(reading.choice, reading.reason, part=reading.part)


def test_pages_have_as_many_rows_as_they_should() -> None:
    """No row is lost to a typing mistake."""
    assert Counter(case.rule for case in CASES) == COUNTS


@pytest.mark.parametrize("rule", COUNTS)
def test_every_part_has_a_row(rule: str) -> None:
    """Each part of the rule decides at least one row."""
    assert {case.expected.part for case in CASES if case.rule == rule} - {None} == set(PARTS[rule])


def test_every_case_of_a_stated_answer_has_its_language_and_class() -> None:
    """Sections are classes.

    A case of a public thread names its class, and has the address beside it.
    """
    cases = [case for case in CASES if case.rule == "stated_answer"]
    assert [case.line for case in cases if not case.language] == []
    assert len({case.language for case in cases}) > 20
    classes = {case.section for case in cases if case.thread is None}
    threads = [case for case in cases if case.thread is not None]
    assert {case.kind for case in threads} <= classes
    assert [case.line for case in threads if not THREAD.fullmatch(case.thread or "")] == []


@pytest.mark.parametrize(("rule", "section"), SECTIONS)
def test_rule_reads_what_the_page_says(rule: str, section: str) -> None:
    """The rule for one completion decides as each row says, and its passage lies within the
    text.
    """
    cases = [case for case in CASES if (case.rule, case.section) == (rule, section)]
    read = find_rule(rule).read
    readings = {case.line: read(case.text, case.choices, case.options) for case in cases}
    results = {line: strip_span(reading) for line, reading in readings.items()}
    assert results == {case.line: case.expected for case in cases}
    for case in cases:
        reading = readings[case.line]
        begin, end = reading.span or (0, 1)
        assert 0 <= begin < end <= max(len(case.text), 1), case.line
        assert reading.span is not None or reading.choice is None, case.line
