from __future__ import annotations

import json
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.samples import read_cases, samples_from_frame, score_table

from answerkey.errors import SpecError
from answerkey.reader import Reading
from answerkey.reader.first_character import DASHES, read_first_character
from answerkey.scorers import StringEqualsMcqa, judge
from answerkey.scorers.extraction import RULES, find_rule
from answerkey.types import Completion, Completions, CompletionStatus, Samples

CASES = read_cases(__file__)


def test_rules_are_found_by_name() -> None:
    """A rule's name is its key.

    A mapping with nothing but `pattern` is a rule of the user's own.
    """
    for name in ("first_character", "first_character_literal", "leading_label", "stated_answer"):
        assert find_rule(name) is RULES[name]
        assert RULES[name].name == name
    rule = find_rule({"pattern": "answer: (.)"})
    assert rule.name == "pattern"
    assert rule.read("answer: B", ("A", "B")).choice == "B"


@pytest.mark.parametrize("extraction", CASES["unknown"])
def test_unknown_rules_are_refused(extraction: object) -> None:
    """The error lists those there are."""
    with pytest.raises(SpecError) as caught:
        find_rule(extraction)
    hint = str(caught.value.hint)
    assert caught.value.code == "E108"
    assert "`first_character`, `first_character_literal`, `leading_label`, `stated_answer`" in hint
    assert "`{pattern: …}`" in hint


TWO = ("A", "B")


def test_options_of_each_row_reach_the_rule() -> None:
    """The same text is read with the options of its own row; a lone label is read without them."""
    passages = [
        ("The answer is Rome.", TWO, ("Paris", "Rome")),
        ("The answer is Rome.", TWO, ("Rome", "Oslo")),
        ("B", TWO, ("x", "y")),
        ("B", TWO, None),
        ("Rome", TWO, None),
    ]
    readings = find_rule("stated_answer").read_all(passages)
    assert [reading.choice for reading in readings] == ["B", "A", "B", "B", None]


def build(options: str | None) -> tuple[StringEqualsMcqa, Samples, Completions]:
    """Return a scorer, rows with different choices, and completions of every kind."""
    rows = [
        {"truth": "B", "choices": ["A", "B"], "texts": ["Paris", "Rome"]},
        {"truth": "C", "choices": ["A", "B", "C"], "texts": ["x", "y", "z"]},
        {"truth": "A", "choices": ["A", "B"], "texts": ["Rome", "Oslo"]},
        {"truth": "A", "choices": ["A", "B"], "texts": None},
        {"truth": "Z", "choices": ["A", "B"], "texts": None},
    ]
    samples = samples_from_frame(pl.DataFrame(rows))
    replies = [
        Completion("The answer is Rome."),
        Completion("Answer: C"),
        Completion("The answer is Rome."),
        Completion(None, CompletionStatus.REFUSED),
        Completion("A"),
    ]
    scorer = StringEqualsMcqa(
        "{{ sample.truth }}", "{{ sample.choices }}", extraction="stated_answer", options=options
    )
    return scorer, samples, Completions.build(samples.ids, replies, source="recorded")


def test_scorer_tells_the_rule_what_its_field_gives() -> None:
    """With `options` a text counts; without it the column of that name does not."""
    scorer, samples, completions = build("{{ sample.texts }}")
    rows = list(score_table(scorer, samples, completions).rows())
    assert [row.metadata["predicted_choice"] for row in rows] == ["B", "C", "A", None, None]
    assert [row.metadata["validity_reason"] for row in rows] == [None, None, None, "REFUSED", None]
    assert [row.metadata["answer_span"] for row in rows] == [[4, 18], [0, 9], [4, 18], None, None]
    assert rows[1].metadata["extraction_rule"] == "stated_answer/answer_cue"
    scorer, samples, completions = build(None)
    judged = judge("The answer is Rome.", ["A", "B"], "B", "stated_answer", ["Paris", "Rome"])
    assert judged.values == {"is_correct": 1.0}  # one completion as in a column
    untold = list(score_table(scorer, samples, completions).rows())
    assert [row.metadata["predicted_choice"] for row in untold] == [None, "C", None, None, None]


FOUR = ("A", "B", "C", "D")


def match(pattern: str, text: str) -> Reading:
    """Return what a pattern reads."""
    return find_rule({"pattern": pattern}).read(text, FOUR)


@pytest.mark.parametrize(
    ("pattern", "text", "reading"),
    [
        (r"answer is \(?([A-D])", "The answer is (B).", Reading("B", None, (4, 16))),
        (r"([A-D])", "x A B", Reading("A", None, (2, 3))),
        (r"(?s).*([A-D])", "x A\nB y", Reading("B", None, (0, 5))),
        (r"(?i)answer: ([a-d])", "ANSWER: b", Reading("B", None, (0, 9))),
        (r"answer:(?P<letter>.*)", "answer:  C \n", Reading("C", None, (0, 11))),
        (r"answer is (\w+)", "answer is Paris", Reading(None, "NOT_A_CHOICE", (0, 15))),
        (r"answer is (\w)", "no such words", Reading(None, "NOTHING_STATED")),
        (r"x(y)?", "x", Reading(None, "NOTHING_STATED")),
        (r"(.)", " \n", Reading(None, "EMPTY")),
        (r"答案(?:是|：)(.)", "所以，答案是C。", Reading("C", None, (3, 7))),
        (r"é(.)", "éé B é\u00a0x éB", Reading(None, "NOT_A_CHOICE", (0, 2))),
    ],
)
def test_first_match_decides(pattern: str, text: str, reading: Reading) -> None:
    """The group, without white space, is the choice.

    The passage is the whole match, in characters.
    """
    assert match(pattern, text) == reading


def test_case_is_ignored_only_where_it_tells_no_choices_apart() -> None:
    """`b` is `B` unless both are choices, or only the other is written."""
    rule = find_rule({"pattern": "(.)"})
    assert rule.read("b", ("A", "B")).choice == "B"
    assert rule.read("b", ("B", "b")).choice == "b"
    assert rule.read("a", ("A", "B", "b")).reason == "NOT_A_CHOICE"


@pytest.mark.parametrize(("pattern", "message"), CASES["bad_patterns"])
def test_bad_patterns_are_refused(pattern: object, message: str) -> None:
    """A pattern that is none, or has not one group, is an error of the task.

    The hint shows a good one.
    """
    with pytest.raises(SpecError) as caught:
        find_rule({"pattern": pattern})
    assert caught.value.code == "E108"
    assert message in caught.value.message
    assert caught.value.message == caught.value.message.strip()
    assert "`answer is" in str(caught.value.hint)


def test_a_pattern_reads_many_texts_in_their_order() -> None:
    """There is a reading for each text; what Polars cannot hold is replaced by one character."""
    assert match("answer is (.)", "\ud800 answer is B") == Reading("B", None, (2, 13))
    texts = ["is A", "é is B", "is A", "nothing"]
    readings = find_rule({"pattern": "is (.)"}).read_all([(text, FOUR, None) for text in texts])
    first = Reading("A", None, (0, 4))
    assert readings == [first, Reading("B", None, (2, 6)), first, Reading(None, "NOTHING_STATED")]


LETTERS = ("A", "B", "C", "D")
HELM = Path(__file__).parents[4] / "shared/data/helm_mmlu/helm_mmlu.jsonl"


@pytest.mark.parametrize("dash", sorted(DASHES))
def test_every_dash_joins_two_choices(dash: str) -> None:
    """Hyphens, dashes and the minus sign join choices when no space is between."""
    assert unicodedata.category(dash) == "Pd" or dash == "\N{MINUS SIGN}"
    assert read_first_character(f"A{dash}C", LETTERS) == Reading(reason="SEVERAL_CHOICES")
    assert read_first_character(f"A {dash} C", LETTERS) == Reading(choice="A")


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
def test_labels_are_found_at_the_beginning_of_lines(choices: str, text: str, reading: str) -> None:
    """A text that begins with a label may go on with the others."""
    expected = Reading(choice=reading) if len(reading) == 1 else Reading(reason=reading)
    assert read_first_character(text, tuple(choices)) == expected


@cache
def read_helm() -> list[dict[str, Any]]:
    """Return 14,014 questions with the completions of three models."""
    return [json.loads(line) for line in HELM.read_text(encoding="utf-8").strip().split("\n")]


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
    rows = read_helm()
    rule = find_rule("first_character")
    choices = [rule.read(row["completions"][model], LETTERS).choice for row in rows]
    assert len(rows) == 14014
    assert sum(choice == row["answer"] for choice, row in zip(choices, rows, strict=True)) == right


def test_marks_that_join_may_be_choices_themselves() -> None:
    """Every way through them is walked once, and none ends at another choice that stands alone."""
    choices = ("/", "\u548c", "o", "y")
    assert read_first_character("y, \u548c/\u548c\u548cA", choices) == Reading(choice="y")
    assert read_first_character("y, \u548c/\u548c\u548c o", choices) == Reading(
        reason="SEVERAL_CHOICES"
    )
