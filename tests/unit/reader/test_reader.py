"""The reader can be embedded in any program."""

from __future__ import annotations

import subprocess
import sys

import pytest

from answerkey import reader

HEAVY = ("polars", "jinja2", "pydantic", "ruamel", "answerkey.types", "answerkey.scorers")


def test_the_reader_loads_no_heavy_library() -> None:
    """Neither Polars nor Jinja nor pydantic is imported, not even when every rule has read a
    text.
    """
    script = (
        "import sys; from answerkey.reader import EXTRACTORS, RULES, read\n"
        "for rule in RULES: read('Answer: Ｂ\\u0301', ['A', 'B'], ['x', 'y'], rule)\n"
        "for one in EXTRACTORS.values(): one.read('Answer: B', ['A', 'B'], ['x', 'y'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("rule", "choice", "part"),
    [
        ("first_character", None, None),
        ("first_character_literal", "C", None),
        ("leading_label", None, "as_it_is"),
        ("stated_answer", "B", "answer_cue"),
    ],
)
def test_rules_are_called_by_name(rule: str, choice: str | None, part: str | None) -> None:
    """One text, read by each of the rules; the option texts reach the rule that reads them."""
    result = reader.read("Clearly, the answer is Rome.", "ABCD", ["Oslo", "Rome"], rule)
    assert (result.choice, result.part) == (choice, part)


def test_many_texts_are_read_as_each_alone() -> None:
    """Without a rule it is `stated_answer`, for one text as for many."""
    texts = ["Clearly, the answer is Rome.", "A or B", ""]
    result = reader.read_many(iter(texts), "ABCD", ["Oslo", "Rome"])
    assert [reading.choice for reading in result] == ["B", None, None]
    assert result == [reader.read(text, "ABCD", ["Oslo", "Rome"]) for text in texts]
    assert [
        reading.choice
        for reading in reader.read_many(texts, "ABCD", rule="first_character_literal")
    ] == [
        "C",
        "A",
        None,
    ]


@pytest.mark.parametrize("text", ["say it", "C", "not q", ""])
def test_an_only_choice_is_not_what_is_left_over(text: str) -> None:
    """Where there is one choice, nothing else can be excluded, and no text that names none is read
    as it.
    """
    assert reader.read(text, ["q"]).choice is None
