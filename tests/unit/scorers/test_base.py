"""What a scorer of one's own inherits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pytest

from answerkey.errors import SpecError
from answerkey.scorers.base import BaseScorer
from answerkey.types import Samples


@dataclass(frozen=True)
class Bare(BaseScorer):
    """A scorer that adds two fields."""

    wanted: str
    other: str | None = None

    template_fields: ClassVar[tuple[str, ...]] = ("wanted", "other")


SAMPLES = Samples(pl.DataFrame({"x": ["1"]}), pl.Series(["a"]))


def test_a_scorer_of_one_s_own_needs_nothing_but_its_score() -> None:
    """It is given completions, takes every row, knows no choices and runs no code of the user's."""
    scorer = Bare("{{ sample.x }}")
    assert scorer.needs_completion
    assert scorer.check_fields() == []
    assert scorer.check_rows(SAMPLES) == ([], [])
    assert scorer.know(SAMPLES) is None
    assert scorer.snippets() == ()


def test_its_templates_are_those_of_the_fields_that_are_given() -> None:
    """A field left out has none; one that does not compile is its own error."""
    templates = Bare("{{ sample.x }}").templates()
    assert {name: one.values(SAMPLES) for name, one in templates.items()} == {"wanted": ["1"]}
    with pytest.raises(SpecError):
        Bare("{{ sample.x").templates()
