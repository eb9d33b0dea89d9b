"""Laws of `string_equals_mcqa` over all completions, and of options in other orders."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.samples import samples_from_frame, score_table

from answerkey.reader import REASONS
from answerkey.scorers import StringEqualsMcqa, judge
from answerkey.solvers.choice_order import ChoiceOrder, plan_row
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Row,
    Samples,
    Score,
    ScoreStatus,
)

#: `make test-long` draws three times as many examples.
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))

LISTS = (
    "ABCD", "ABCDEFGHIJ", "A", "AB", "1234", "12", "YN", "aAoOyY", "+-", ",-A", "1A2B", "]^\\-",
    "IO'/",
    "\u0627\u0628\u062c", "\u2460\u2461\u2462", "\u00c4\u00d6", "A\u00c4", "\u1100\uac00", "K;`",
    ").A",
    ("1\ufe0f\u20e3", "2\ufe0f\u20e3", "3"), ("\U0001f170\ufe0f", "\U0001f171\ufe0f", "C"),
)  # fmt: skip
JOINTS = (
    *",/&+;\u037e\u3001\uff0c\u060c-\u2010\u2011\u2013\u2014\u2212\u301c\xad\u6216\u548c",
    " or ", " and ", " OR ", " und ", " oder ", " ou ", " et ", " o ", " y ", ", or ", ",y ",
    " / ", " & ",
)  # fmt: skip
WORDS = (
    "is", "IS", "are", "because", "since", "both", "or", "and", "isn't", "I", "think", "nswer",
    "level",
    "5", ".5", "\u00e9", "\u91cc", "_", "\u0660", "\u00b2", "o", "y", "\u0131s",
)  # fmt: skip
#: What is an ASCII character in NFC, or nearly one.
DOUBLES = ("\u212a", "\u037e", "\u1fef", "A\u030a", "\uff21", "1\ufe0f\u20e3", "\u0130s", "\u017f")
MARKS = tuple(".:)('\u2019\uff07\"*?!=\x00\x7f$\u0301\u0308\u200d\ufe0f\u20e3\u3002")
SPACES = (
    " ", "  ", "\t", "\x1f", "\xa0", "\u3000", "\u200b", "\u2060", "\ufeff",
    "\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029",
)  # fmt: skip

#: Tokens around thoughts.
THOUGHTS = (
    "<think>", "</think>", "[THINK]", "[/THINK]", "<|channel|>analysis<|message|>", "<|end|>",
    "<|start|>assistant<|channel|>final<|message|>", "analysisWe", "assistantfinal",
    "<|im_start|>assistant\n",
)  # fmt: skip


@st.composite
def draw_completions(draw: st.DrawFn, choices: Sequence[str]) -> str:
    """Return a text that mostly begins with a choice and goes on in the ways that the rule tells
    apart.
    """
    labels = [f"\n{choice}{mark}" for choice in choices for mark in ".):"]
    pieces = st.one_of(
        st.sampled_from(choices),
        st.sampled_from(DOUBLES),
        st.sampled_from(JOINTS),
        st.sampled_from(WORDS),
        st.sampled_from(MARKS),
        st.sampled_from(SPACES),
        st.sampled_from(labels),
        st.sampled_from(THOUGHTS),
        st.text(max_size=3),
    )
    lead = draw(st.sampled_from(("", "", " ", *SPACES)))
    first = draw(st.sampled_from((*choices, *choices, "", *DOUBLES, *THOUGHTS)))
    return lead + first + "".join(draw(st.lists(pieces, max_size=8)))


@st.composite
def draw_tables(draw: st.DrawFn) -> tuple[list[str], list[Completion], list[str]]:
    """Return choices, some completions, and a truth for each."""
    choices = list(draw(st.sampled_from(LISTS)))
    texts = draw(st.lists(draw_completions(choices), min_size=1, max_size=12))
    completions = []
    for text in texts:
        status = draw(st.sampled_from((*["OK"] * 9, *CompletionStatus)))
        completion = Completion(
            text if status == "OK" else None,
            CompletionStatus(status),
            reasoning=draw(st.sampled_from((None, None, "", "hm"))),
            reasoning_tokens=draw(st.sampled_from((None, 0, 7))),
            finish_reason=draw(st.sampled_from((None, "stop", "tool_calls"))),
        )
        completions.append(completion)
    truths = draw(st.lists(st.sampled_from(choices), min_size=len(texts), max_size=len(texts)))
    return choices, completions, truths


def build_samples(choices: Sequence[str] | None, truths: Sequence[str]) -> Samples:
    """Return samples with these truths, all with the same choices."""
    schema = {"truth": pl.String(), "choices": pl.List(pl.String)}
    cells = choices if choices is None else list(choices)
    frame = pl.DataFrame({"truth": truths, "choices": [cells] * len(truths)}, schema)
    return samples_from_frame(frame, pl.Series(map(str, range(len(truths)))))


def score_texts(
    choices: Sequence[str] | None,
    completions: Sequence[Completion],
    truths: Sequence[str],
    extraction: str,
) -> list[Score]:
    """Return the scores as they come back from the table, in order."""
    scorer = StringEqualsMcqa("{{ sample.truth }}", "{{ sample.choices }}", extraction=extraction)
    samples = build_samples(choices, truths)
    table = Completions.build(samples.ids, completions, source="recorded")
    return list(score_table(scorer, samples, table).rows())


@pytest.mark.parametrize("extraction", ["first_character", "first_character_literal"])
def test_the_table_holds_what_judge_gives(extraction: str) -> None:
    """For all completions and choices, the table of scores has exactly what `judge` gives for each
    row.
    """

    @given(draw_tables())
    @settings(max_examples=120 if IS_LONG else 12)
    def check(table: tuple[list[str], list[Completion], list[str]]) -> None:
        choices, completions, truths = table
        expected = [
            judge(completion, choices, truth, extraction)
            for completion, truth in zip(completions, truths, strict=True)
        ]
        assert score_texts(choices, completions, truths, extraction) == expected

    check()


#: Lists of choices that are wrong, or right only after a look at them.
ODD_LISTS: tuple[list[str | None] | None, ...] = (
    None, [], [None], ["A", None], ["A", "A"], ["AB"], ["A B", "", ""], ["A", ""], [" ",
    "A"], ["A", "B "],
    ["\x7f", "A"], ["\u212a", "K"], ["\u00c4", "A"], ["A", "\nB"], ["1\ufe0f\u20e3", "2"],
)  # fmt: skip
ODD_TRUTHS = (None, "", " A", "AB", "?", "\u212a", "A B")


@pytest.mark.parametrize(
    "extraction", ["first_character", "first_character_literal", "stated_answer"]
)
@pytest.mark.parametrize("choices", ODD_LISTS, ids=repr)
def test_the_table_holds_what_judge_gives_where_choices_are_odd(
    extraction: str,
    choices: Any,  # noqa: ANN401 - also what is no list
) -> None:
    """Lists with blanks, nulls or doubles, and truths outside them, get what `judge` gives."""
    truths: list[Any] = [*ODD_TRUTHS, "A"]
    for text in ("A", "\u212a.", "AB", None):
        completions = [Completion(text)] * len(truths)
        expected = [judge(text, choices, truth, extraction) for truth in truths]
        assert score_texts(choices, completions, truths, extraction) == expected


@given(st.data())
@settings(max_examples=200 if IS_LONG else 20)
def test_correct_implies_valid(data: st.DataObject) -> None:
    """A correct completion is VALID and predicts the truth; an INVALID one has a reason."""
    choices = list(data.draw(st.sampled_from(LISTS)))
    text = data.draw(draw_completions(choices))
    score = judge(text, choices, data.draw(st.sampled_from(choices)))
    metadata = score.metadata
    is_valid = metadata["completion_validity"] == "VALID"
    predicted = metadata["predicted_choice"]
    assert score.values["is_correct"] == float(predicted == metadata["ground_truth_choice"])
    assert is_valid == (predicted in choices) == (metadata["validity_reason"] is None)
    assert is_valid or metadata["validity_reason"] in REASONS


@given(st.data())
@settings(max_examples=150 if IS_LONG else 16)
def test_composed_and_decomposed_spellings_are_equal(data: st.DataObject) -> None:
    """The verdict on a completion does not depend on how its accented letters are spelt."""
    choices = list(data.draw(st.sampled_from(LISTS)))
    text = unicodedata.normalize("NFC", data.draw(draw_completions(choices)))
    decomposed = unicodedata.normalize("NFD", text)
    names = [unicodedata.normalize("NFD", choice) for choice in choices]
    assert judge(decomposed, names, names[0]) == judge(text, choices, choices[0])


@given(st.data())
@settings(max_examples=100 if IS_LONG else 16)
def test_white_space_before_the_text_changes_nothing(data: st.DataObject) -> None:
    """The verdict is the same whatever white space stands before the completion."""
    choices = list(data.draw(st.sampled_from(LISTS)))
    text = data.draw(draw_completions(choices))
    lead = "".join(data.draw(st.lists(st.sampled_from(SPACES), max_size=4)))
    assert judge(f"{lead}B{text}", choices, choices[0]) == judge(f"B{text}", choices, choices[0])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)


@given(st.recursive(SCALARS, st.lists))
@example(["A", "B"])
@settings(max_examples=150 if IS_LONG else 16)
def test_choices_of_any_kind_are_read_or_refused(value: object) -> None:
    """Whatever stands for the choices gives a verdict or a FAILED row, never an exception."""
    for spelling in (value, json.dumps(value), repr(value)):
        score = judge("A", spelling, "A")  # type: ignore[arg-type]  # this is the point
        assert score.status in {ScoreStatus.SCORED, ScoreStatus.FAILED}


# Options in other orders.

LABELS = "ABCDEFGH"
Texts = st.lists(st.text(min_size=1, max_size=20), min_size=2, max_size=8, unique=True)


def read_list(cell: object) -> list[object]:
    """Return the options of a cell that holds a list, or the JSON text of one."""
    result: list[object] = json.loads(cell) if isinstance(cell, str) else list(cell)  # type: ignore[call-overload]  # a list
    return result


@given(Texts, st.data())
def test_the_right_option_is_where_the_truth_says(texts: list[str], data: st.DataObject) -> None:
    """In every order, the option behind the moved label is the one that was right in the file."""
    labels = tuple(LABELS[: len(texts)])
    truth = data.draw(st.sampled_from(labels))
    row = Row(options=json.dumps(texts) if data.draw(st.booleans()) else texts, question="q")
    setting = ChoiceOrder(
        "{{ sample.options }}", data.draw(st.sampled_from(("rotations", "shuffled")))
    )
    planned = plan_row(setting, row, labels)
    for order in planned.orders:
        shown = read_list(setting.arrange(row, labels, order)["options"])
        moved = labels[list(order).index(labels.index(truth))]
        if not any(_has_label(text, label) for text, label in zip(texts, labels, strict=True)):
            assert shown[labels.index(moved)] == texts[labels.index(truth)]


def _has_label(text: str, label: str) -> bool:
    return label in text


@given(Texts, st.integers(0, 5))
def test_every_rotation_holds_every_option_once(texts: Sequence[str], seed: int) -> None:
    """Nothing is lost and nothing is shown twice; a shuffle is one of the permutations."""
    labels = tuple(LABELS[: len(texts)])
    row = Row(options=list(texts))
    for orders in ("rotations", "shuffled"):
        planned = plan_row(ChoiceOrder("{{ sample.options }}", orders, seed), row, labels)
        assert all(sorted(order) == list(range(len(texts))) for order in planned.orders)
        if orders == "rotations" and planned.not_reordered is None:
            places = zip(*planned.orders, strict=True)
            assert all(sorted(place) == list(range(len(texts))) for place in places)
