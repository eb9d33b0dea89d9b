"""The page of the extraction rules names every rule, every part and every reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from answerkey.reader import PART_REASONS, PARTS
from answerkey.scorers.extraction import RULES
from answerkey.scorers.mcqa import PROMPT

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "extraction-rules.md"


@pytest.mark.parametrize(
    "name",
    [*RULES, *PART_REASONS, *(part for parts in PARTS.values() for part in parts), "answer_span"],
)
def test_every_name_stands_on_the_page(name: str) -> None:
    """A rule, a part or a reason that the scores name is explained."""
    assert name in re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8"))


def test_prompt_of_a_fallback_stands_on_the_page() -> None:
    """What a model is asked about a completion is documented word by word."""
    assert f"```text\n{PROMPT}\n```" in PAGE.read_text(encoding="utf-8")
