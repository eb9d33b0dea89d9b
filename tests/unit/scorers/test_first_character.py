from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path

import polars as pl
import pytest

from answerkey.scorers.first_character import (
    ALIASES,
    DASHES,
    read_column,
    read_first_character,
)
from answerkey.scorers.heads import Reading

LETTERS = ("A", "B", "C", "D")
HELM = Path(__file__).parents[4] / "shared/data/helm_mmlu/helm_mmlu.jsonl"


@pytest.mark.parametrize("dash", sorted(DASHES))
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
    column = read_column(pl.Series([text] * 100), ("A", "B", "o"))
    assert column.unique().rows() == [(reading.choice, reading.reason)]


def test_column_of_texts_keeps_its_order() -> None:
    """Texts that expressions decide and texts that the rule decides come back in their places."""
    texts = ["B", "Ｂ", "A or B", "", "B。", "Answer", "A, é"] * 100
    expected = [
        ("B", None),
        (None, "NOT_A_CHOICE"),
        (None, "SEVERAL_CHOICES"),
        (None, "EMPTY"),
        ("B", None),
        (None, "PART_OF_A_WORD"),
        ("A", None),
    ]
    assert read_column(pl.Series(texts), LETTERS).rows() == expected * 100


def test_no_other_character_becomes_ascii_when_composed() -> None:
    """Over all of Unicode, NFC turns no other characters into ASCII than those that labels allow for."""
    found = {
        unicodedata.normalize("NFC", one): one
        for one in map(chr, range(128, sys.maxunicode + 1))
        if unicodedata.normalize("NFC", one).isascii()
    }
    assert found == ALIASES


@pytest.mark.parametrize(
    ("choices", "text", "reading"),
    [
        ("AKC", "A. x\n\u212a. y\nC. z", "ECHOES_CHOICES"),
        ("A;`", "A) x\r\u037e) y\x0b `) z", "ECHOES_CHOICES"),
        ("12", "1. x\n2. y", "ECHOES_CHOICES"),
        ("123", "1. x\n2.5 y\n3.\u0661", "1"),
        ("\u00c4BC", "\u00c4. x\nB. y\n\n C. z", "ECHOES_CHOICES"),
        ("B\u00c4C", "B. x\nA\u0308. y\u2028C. z", "ECHOES_CHOICES"),
        ("ABC", " A. x\nB) y\nC: z", "A"),
        ("ABC", "A. x\nB. y\nB. z", "A"),
        ("A", "A. x\nA. y", "A"),
    ],
)
def test_labels_are_found_in_columns_as_in_texts(choices: str, text: str, reading: str) -> None:
    """Texts that begin with a label are read the same one by one and in a column of many."""
    expected = Reading(choice=reading) if len(reading) == 1 else Reading(reason=reading)
    assert read_first_character(text, tuple(choices)) == expected
    texts = [f"{text}\n{number}" for number in range(100)]
    column = read_column(pl.Series(texts), tuple(choices))
    assert column.unique().rows() == [(expected.choice, expected.reason)]


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


def test_marks_that_join_may_be_choices_themselves() -> None:
    """Every way through them is walked once, and none ends at another choice that stands alone."""
    choices = ("/", "\u548c", "o", "y")
    assert read_first_character("y, \u548c/\u548c\u548cA", choices) == Reading(choice="y")
    assert read_first_character("y, \u548c/\u548c\u548c o", choices) == Reading(reason="SEVERAL_CHOICES")


def test_texts_that_are_read_whole_stand_beside_others() -> None:
    """A column may hold texts that their first characters decide, and one that they do not."""
    texts = pl.Series(["B", "A" + " " * 20 + "or B", "A lot", "C."])
    assert read_column(texts, LETTERS).rows() == [
        ("B", None),
        (None, "SEVERAL_CHOICES"),
        (None, "RUNS_INTO_TEXT"),
        ("C", None),
    ]
