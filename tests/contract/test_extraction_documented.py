"""The page of the extraction rules names every rule, every part and every reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from answerkey.reader import PART_REASONS, PARTS
from answerkey.scorers.extraction import RULES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "extraction-rules.md"


@pytest.mark.parametrize(
    "name", [*RULES, *PART_REASONS, *(part for parts in PARTS.values() for part in parts), "answer_span"]
)
def test_every_name_stands_on_the_page(name: str) -> None:
    """A rule, a part or a reason that the scores name is explained."""
    assert name in re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8"))
