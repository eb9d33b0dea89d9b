"""The pages of the scorers say what the code does: every field, every output, every reason."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from answerkey.reader import REASONS
from answerkey.scorers import SCORERS
from answerkey.scorers.question import FAULTS

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def read_page(name: str) -> str:
    """Return the page of a scorer."""
    return (FOLDER / f"scorer-{name}.md").read_text(encoding="utf-8")


def list_rows(page: str, heading: str) -> list[str]:
    """Return the first cells of the tables under a heading."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


@pytest.mark.parametrize("name", list(SCORERS))
def test_every_field_has_its_line(name: str) -> None:
    """The table of fields lists exactly the fields of the scorer."""
    fields = dataclasses.fields(SCORERS[name])  # type: ignore[arg-type]  # scorers are dataclasses
    assert list_rows(read_page(name), "Fields") == [
        field.name for field in fields if not field.name.startswith("_")
    ]


@pytest.mark.parametrize("name", [name for name, scorer in SCORERS.items() if scorer.value_types])
def test_every_output_has_its_line(name: str) -> None:
    """The table of outputs lists exactly the values and the metadata of the scorer."""
    scorer = SCORERS[name]
    assert list_rows(read_page(name), "Outputs") == [
        *(scorer.value_types or ()),
        *(scorer.metadata_types or ()),
    ]


def test_every_reason_has_its_line() -> None:
    """The reasons stand on the page in the order in which they are tried, and so do those of FAILED
    rows.
    """
    page = read_page("string_equals_mcqa")
    assert list_rows(page, "The rule `first_character`") == list(REASONS)
    assert list_rows(page, "Choices and ground truths") == list(FAULTS)
