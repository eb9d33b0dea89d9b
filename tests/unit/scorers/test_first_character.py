from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import polars as pl
import pytest

from answerkey.scorers.first_character import (
    DASHES,
    SMALL_GROUP,
    Reading,
    read_column,
    read_first_character,
)

LETTERS = ("A", "B", "C", "D")
HELM = Path(__file__).parents[4] / "shared/data/helm_mmlu/helm_mmlu.jsonl"


@pytest.mark.parametrize("dash", DASHES)
def test_every_dash_joins_two_choices(dash: str) -> None:
    """Hyphens, dashes and the minus sign join choices when no space is between."""
    assert unicodedata.category(dash) == "Pd" or dash == "\N{MINUS SIGN}"
    assert read_first_character(f"A{dash}C", LETTERS) == Reading(reason="SEVERAL_CHOICES")
    assert read_first_character(f"A {dash} C", LETTERS) == Reading(choice="A")


@pytest.mark.parametrize(
    "text",
    [
        "A" + " " * 200_000 + "B",
        "A" + ", A" * 100_000,
        "A" + "/B" * 100_000 + "x",
        "A, " + "o " * 100_000,
        "A" + "\u0301\u0327" * 100_000,
        "A " + "x" * 400_000,
        "A." + "\nA." * 100_000,
        "\u200b" * 200_000 + "A",
        "é" * 400_000,
    ],
    ids=["spaces", "same choice", "chain", "joining words", "marks", "word", "lines", "invisible", "accents"],
)
def test_long_texts_are_read_in_linear_time(text: str) -> None:
    """Texts made to be slow are read at once, the same by the rule and by the column form."""
    reading = read_first_character(text, ("A", "B", "o"))
    column = read_column(pl.Series([text] * SMALL_GROUP), ("A", "B", "o"))
    assert column.unique().rows() == [(reading.choice, reading.reason)]


def test_column_of_texts_keeps_its_order() -> None:
    """Texts that expressions decide and texts that the rule decides come back in their places."""
    texts = ["B", "Ｂ", "A or B", "", "B。", "Answer", "A, é"] * SMALL_GROUP
    expected = [
        ("B", None),
        (None, "NOT_A_CHOICE"),
        (None, "SEVERAL_CHOICES"),
        (None, "EMPTY"),
        ("B", None),
        (None, "PART_OF_A_WORD"),
        ("A", None),
    ]
    assert read_column(pl.Series(texts), LETTERS).rows() == expected * SMALL_GROUP


def test_column_may_be_empty() -> None:
    """No texts have no readings."""
    found = read_column(pl.Series([], dtype=pl.String), LETTERS)
    assert found.schema == {"choice": pl.String, "reason": pl.String}
    assert found.height == 0


@pytest.mark.skipif(not HELM.exists(), reason="the shared material is not here")
@pytest.mark.parametrize(
    ("model", "right"),
    [
        ("anthropic_claude-3-opus-20240229", 11918),
        ("openai_gpt-4o-2024-05-13", 11886),
        ("meta_llama-3-70b", 11023),
    ],
)
def test_known_numbers_of_real_models(model: str, right: int) -> None:
    """Of 14,014 real completions as many are right as independent code counted."""
    rows = [json.loads(line) for line in HELM.read_text(encoding="utf-8").strip().split("\n")]
    found = read_column(pl.Series([row["completions"][model] for row in rows]), LETTERS)
    assert len(rows) == 14014
    assert (found["choice"] == pl.Series([row["answer"] for row in rows])).sum() == right
