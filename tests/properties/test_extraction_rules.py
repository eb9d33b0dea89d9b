"""Laws of the extraction rules with parts over all texts, not only those somebody thought of."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import samples_from_frame, score_table

from answerkey.reader import PARTS
from answerkey.scorers import StringEqualsMcqa, judge
from answerkey.scorers.extraction import ExtractionRule, find_rule
from answerkey.types import Completion, Completions

EXAMPLES = 1200 if os.environ.get("ANSWERKEY_LONG") else 25

RULES: dict[str, str | dict[str, str]] = {
    "leading_label": "leading_label",
    "stated_answer": "stated_answer",
    "pattern": {"pattern": r"(?i)answer is \(?(\w)"},
}
LISTS = (
    "ABCD", "ABCDEFGHIJ", "A", "AB", "1234", "YN", "aAbB", "+-", "(){}", "IVX", "①②③", "ⅠⅡⅢ",
    "αβγδ",
    "АБВГ", "أبجد", "甲乙丙丁", "アイウエ", "가나다라", "कखगघ", "ÄÖ", "İıIi", "ßẞ", "*_",
)  # fmt: skip
PIECES = (
    "The answer is ", "Answer: ", "answer", "Final answer:", "I choose ", "I think ", "it is ",
    "so ",
    "not ", "correct", "is correct", "is wrong", "is", "wait, ", "actually ", "let me reconsider",
    "or",
    "and", "but ", "option ", "that leaves ", "if ", "many people think ", "none of the above",
    "because", "Sydney", "Canberra", "\\boxed{", "}", "\\text{", "$", "<answer>", "</answer>",
    "<think>", "</think>", "[[", "]]", '{"answer": "', '"}', "Question: ", "Q:", "<|im_end|>", "**",
    "*", "_", "`", "(", ")", "[", "]", '"', "'", ".", ",", ":", ";", "-", "/", "+", "=", "?", "!",
    "#",
    "- ", "1.", "2", "3.5", "A", "B", "b", "C", "I", "II", "Ｂ", "②", "\n", "\n\n", " ", "  ", "\t",
    "\r\n", "\u2028", "\u00a0", "\u200b", "答案是", "正解は", "です", "정답은 ", "입니다",
    "الإجابة ", "उत्तर ", "है",
    "réponse : ", "die Antwort ist ", "nicht ", "ответ: ", "e\u0301", "\u0301", "\ufe0f", "\u20e3",
    "\U0001f469\u200d\U0001f52c", "B'dir", "l'", "d'", "isn't", "N/A", "e.g. ", "\x00", "\x7f",
)  # fmt: skip
OPTION_TEXTS = st.sampled_from(
    ["Sydney", "Canberra", "the answer", "A", "B", "2", "", " ", "(A) Sydney", "**b**",
    "none of the above"]
)  # fmt: skip


def draw_texts(choices: Sequence[str]) -> st.SearchStrategy[str]:
    """Return texts made of what the rules look for, of the choices, and of anything else."""
    pieces = st.one_of(st.sampled_from(PIECES), st.sampled_from(list(choices)), st.text(max_size=3))
    return st.lists(pieces, max_size=14).map("".join)


@st.composite
def draw_cases(draw: st.DrawFn) -> tuple[list[str], list[str], list[list[str] | None]]:
    """Return choices, some texts, and for each the texts of its options, or none."""
    choices = list(draw(st.sampled_from(LISTS)))
    texts = draw(st.lists(draw_texts(choices), min_size=1, max_size=6))
    some = st.none() | st.lists(OPTION_TEXTS, min_size=0, max_size=len(choices) + 1)
    return choices, texts, draw(st.lists(some, min_size=len(texts), max_size=len(texts)))


@pytest.mark.parametrize("name", RULES)
def test_every_text_gets_a_choice_or_a_reason(name: str) -> None:
    """No text raises.

    A choice is one of the choices, a part is known, a passage lies within the text.
    """
    rule: ExtractionRule = find_rule(RULES[name])

    @given(draw_cases())
    @settings(max_examples=EXAMPLES)
    def check(case: tuple[list[str], list[str], list[list[str] | None]]) -> None:
        choices, texts, option_lists = case
        for text, options in zip(texts, option_lists, strict=True):
            reading = rule.read(text, choices, options)
            assert (reading.choice is None) != (reading.reason is None)
            assert reading.choice is None or reading.choice in choices
            assert reading.part is None or reading.part in PARTS[name]
            begin, end = reading.span or (0, 0)
            assert 0 <= begin <= end <= len(text)
            assert reading.choice is None or begin < end

    check()


@pytest.mark.parametrize("name", RULES)
def test_the_table_holds_what_judge_gives(name: str) -> None:
    """For all texts and options, the table of scores has exactly what `judge` gives for each
    row.
    """
    extraction = RULES[name]

    @given(draw_cases())
    @settings(max_examples=EXAMPLES)
    def check(case: tuple[list[str], list[str], list[list[str] | None]]) -> None:
        choices, texts, option_lists = case
        names = [unicodedata.normalize("NFC", choice) for choice in choices]
        options = pl.Series("options", option_lists, dtype=pl.List(pl.String))
        frame = pl.DataFrame([options]).with_columns(truth=pl.lit(names[0]))
        samples = samples_from_frame(frame, pl.Series(map(str, range(len(texts)))))
        scorer = StringEqualsMcqa("{{ sample.truth }}", list(choices), extraction=extraction)
        scorer = replace(scorer, options="{{ sample.options }}")
        answers = [Completion(text) for text in texts]
        completions = Completions.build(samples.ids, answers, source="recorded")
        scores = score_table(scorer, samples, completions).rows()
        for text, shown, score in zip(texts, option_lists, scores, strict=True):
            assert score == judge(text, choices, names[0], extraction, shown)

    check()


@given(st.text(max_size=60), st.sampled_from(LISTS))
@settings(max_examples=EXAMPLES)
def test_arbitrary_text_never_raises(text: str, choices: str) -> None:
    """Also text that has nothing to do with answers gets a reading by every rule."""
    for extraction in RULES.values():
        reading = find_rule(extraction).read(text, tuple(choices), ("x", "y"))
        assert reading.choice is None or reading.choice in choices


@given(draw_cases(), st.sampled_from(("", " ", "\n", "\n\n  ")))
@settings(max_examples=EXAMPLES)
def test_white_space_around_the_text_changes_nothing(
    case: tuple[list[str], list[str], list[list[str] | None]], space: str
) -> None:
    """The choice and the reason are the same whatever white space stands before and after the
    text.
    """
    choices, texts, option_lists = case
    for extraction in ("leading_label", "stated_answer"):
        rule = find_rule(extraction)
        for text, options in zip(texts, option_lists, strict=True):
            plain = rule.read(text, choices, options)
            spaced = rule.read(f"{space}{text}{space}", choices, options)
            for name in ("choice", "reason", "part"):
                assert getattr(plain, name) == getattr(spaced, name)
