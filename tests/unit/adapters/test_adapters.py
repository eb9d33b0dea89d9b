"""Laws of the adapters that need no other program; `test_in_tools.py` runs the others in theirs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.processes import run_python

from answerkey.adapters import LmEvalFilter, reward
from answerkey.reader import read

LETTERS = ["A", "B", "C"]
CITIES = ["Sydney", "Canberra", "Perth"]
CORPUS = Path(__file__).parents[2] / "cases" / "corpus" / "open.jsonl"


def load_corpus() -> list[dict[str, Any]]:
    """Return the open half of the corpus."""
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def test_importing_the_adapters_loads_the_reader_and_no_program() -> None:
    """Neither an adapted program nor a heavy library is loaded by it."""
    names = (
        "inspect_ai",
        "lm_eval",
        "lighteval",
        "torch",
        "numpy",
        "polars",
        "pydantic",
        "answerkey.types",
    )
    script = (
        "import sys; from answerkey.adapters import LmEvalFilter, reward\n"
        "reward(['B'], 'AB', 'B'); LmEvalFilter().apply([['B']], [{'choices': ['x', 'y']}])\n"
        f"print([name for name in {names!r} if name in sys.modules])"
    )
    assert run_python("-c", script, check=True).stdout.strip() == "[]"


def test_a_reward_is_1_for_the_answer_and_0_for_all_others() -> None:
    """On the whole open corpus, with choices, answers and options of each completion."""
    rows = load_corpus()
    answers = [row["label"] or row["choices"][0] for row in rows]
    readings = [read(row["completion"], row["choices"], row["options"]) for row in rows]
    result = reward(
        [row["completion"] for row in rows],
        [row["choices"] for row in rows],
        answers,
        [row["options"] for row in rows],
    )
    expected = [float(seen.choice == truth) for seen, truth in zip(readings, answers, strict=True)]
    assert result == expected
    assert {type(reward) for reward in result} == {float}
    assert 0 < sum(result) < len(rows)


@pytest.mark.parametrize("choices", ["ABC", LETTERS, tuple(LETTERS), [LETTERS] * 3])
@pytest.mark.parametrize("answer", ["B", ["B"] * 3])
@pytest.mark.parametrize("options", [CITIES, [CITIES] * 3])
def test_what_is_the_same_for_all_is_given_once_or_for_each(
    choices: Sequence[str] | list[list[str]],
    answer: str | list[str],
    options: list[str] | list[list[str]],
) -> None:
    """A trainer passes columns; a caller with one question need not repeat it."""
    completions = ["The answer is (B).", "The answer is Canberra.", "The answer is (C)."]
    assert reward(completions, choices, answer, options) == [1.0, 1.0, 0.0]


def test_options_may_be_known_of_some_questions_only() -> None:
    """A column of a dataset holds null where a question has no texts."""
    texts = ["The answer is Canberra."] * 2
    assert reward(texts, LETTERS, "B", [CITIES, None]) == [1.0, 0.0]
    assert reward(texts, LETTERS, "B") == [0.0, 0.0]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "assistant", "content": "The answer is (B)."}], 1.0),
        ([{"content": "The answer is (B)."}], 1.0),
        ([{"role": "assistant", "content": "A"}, {"role": "assistant", "content": "B"}], 1.0),
        ([{"role": "assistant", "content": "B"}, {"role": "tool", "content": "A"}], 1.0),
        (
            [{"role": "assistant", "content": [{"type": "text", "text": "B"}, {"type": "image"}]}],
            1.0,
        ),
        ([{"role": "assistant", "content": None, "tool_calls": []}], 0.0),
        ([{"role": "user", "content": "B"}], 0.0),
        ([], 0.0),
    ],
)
def test_the_last_assistants_text_is_read(messages: list[dict[str, Any]], expected: float) -> None:
    """Content is a text, a list of parts, or nothing."""
    assert reward([messages], LETTERS, "B") == [expected]


@pytest.mark.parametrize(
    ("choices", "answer", "message"),
    [
        (LETTERS, "D", r"the answer 'D' is not one of the choices \['A', 'B', 'C'\]"),
        (LETTERS, [1], "the answer 1 is not one of"),
        ("ABC", "AB", "the answer 'AB' is not one of"),
        (LETTERS, ["B", "B"], "longer"),
    ],
)
def test_an_answer_that_cannot_be_right_is_an_error(
    choices: Sequence[str], answer: str | list[str], message: str
) -> None:
    """A reward of 0.0 for a mistake in the dataset would teach the model something wrong."""
    with pytest.raises(ValueError, match=message):
        reward(["B"], choices, answer)


def test_the_filter_makes_each_response_a_choice_or_the_fallback() -> None:
    """Several responses of a document stay separate; a response that is not text states nothing."""
    responses: list[list[object]] = [["The answer is (B).", "Both A and B."], ["Perth", None]]
    result = LmEvalFilter().apply(responses, [{"choices": CITIES}, {"choices": CITIES}])
    assert result == [["B", "[invalid]"], ["C", "[invalid]"]]
    assert LmEvalFilter(fallback="none").apply([["?"]], [{"choices": CITIES}]) == [["none"]]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"options": "options.text", "choices": "options.label"}, "2"),
        ({"options": "options.text"}, "B"),
        ({"options": "options.text", "choices": ["x", "y", "z"]}, "y"),
        ({"options": None, "choices": ["A", "B", "C"]}, "[invalid]"),
    ],
)
def test_the_filter_finds_choices_in_the_document(fields: dict[str, Any], expected: str) -> None:
    """Fields are named, also inside of a field; labels may be listed."""
    doc = {"options": {"text": CITIES, "label": ["1", "2", "3"]}}
    assert LmEvalFilter(**fields).apply([["It is Canberra."]], [doc]) == [[expected]]


@pytest.mark.parametrize("options", [[], ["x"] * 27])
def test_letters_are_for_one_to_twenty_six_options(options: list[str]) -> None:
    """No label is made up beyond Z."""
    with pytest.raises(
        ValueError, match=f"letters for 1 to 26 options, but there are {len(options)}"
    ):
        LmEvalFilter().apply([["A"]], [{"choices": options}])


def test_other_columns_are_ignored() -> None:
    """Trainers pass prompts, token ids, their own state and every column of the dataset."""
    columns: dict[str, Any] = {
        "prompts": ["Which?"],
        "completion_ids": [[1, 2]],
        "trainer_state": object(),
        "subject": ["x"],
    }
    assert reward(completions=["B"], choices=[LETTERS], answer=["B"], **columns) == [1.0]
    assert reward([], LETTERS, "B") == []
