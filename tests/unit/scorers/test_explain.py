from __future__ import annotations

import pytest

from answerkey.reader import REASONS
from answerkey.scorers import explain_verdict, judge
from answerkey.types import Completion, CompletionStatus

CHOICES = ["A", "B", "C", "D"]
OPTIONS = ["Sydney", "Canberra", "Melbourne", "Perth"]
PATTERN = {"pattern": r"answer is \(?(\w)"}
TRUNCATED = (
    "INVALID: the reply ends within its thoughts, and no text follows them: "
    "raise the token limit (`max_tokens`)"
)


@pytest.mark.parametrize(
    ("extraction", "text", "sentence"),
    [
        (
            "stated_answer",
            "The answer is (B).",
            (
                "VALID: 'B', by 'answer is (B)' (characters 5 to 17): words for the "
                "answer lead to it; "
                "it is the ground truth 'B'"
            ),
        ),
        (
            "stated_answer",
            "C",
            (
                "VALID: 'C', by 'C' (character 1): it stands on a line of its own; "
                "it is not the ground truth 'B'"
            ),
        ),
        (
            "stated_answer",
            "A or C",
            (
                "INVALID: several answers are stated, and none replaces the others; "
                "the last is 'A or C' (characters 1 to 6)"
            ),
        ),
        (
            "stated_answer",
            "Answer: A. Canberra",
            (
                "INVALID: in 'Answer: A' (characters 1 to 9) the label and the text belong "
                "to different options; 'A' is doubted: the text of another option goes with it"
            ),
        ),
        (
            "stated_answer",
            "Answer: E",
            (
                "INVALID: what is stated, 'Answer: E' (characters 1 to 9), "
                "is not one of the choices ['A', 'B', 'C', 'D']"
            ),
        ),
        ("stated_answer", "Hello", "INVALID: the text states no answer"),
        (
            "stated_answer",
            "<think>B",
            TRUNCATED,
        ),
        (
            "stated_answer",
            "The answer is B. Let me reconsider.",
            "INVALID: the text states no answer; 'B' is doubted: later words take it back",
        ),
        ("stated_answer", " ", "INVALID: the text is empty or only white space"),
        (
            "leading_label",
            "**B**",
            (
                "VALID: 'B', by 'B' (character 3): the text begins with it, after "
                "brackets, quotes, "
                "emphasis or other marks; it is the ground truth 'B'"
            ),
        ),
        (
            "leading_label",
            "Hello",
            (
                "INVALID: after its wrapping the text begins with 'H' (character 1), "
                "none of the choices ['A', 'B', 'C', 'D']"
            ),
        ),
        (
            PATTERN,
            "answer is D",
            (
                "VALID: 'D', by 'answer is D' (characters 1 to 11): the first match of "
                "the pattern names it; "
                "it is not the ground truth 'B'"
            ),
        ),
        (PATTERN, "hello", "INVALID: the pattern matches nowhere in the text"),
    ],
)
def test_verdicts_are_told_with_their_passage(
    extraction: str | dict[str, str], text: str, sentence: str
) -> None:
    """The sentence says which part of the rule decided, and where in the text."""
    assert (
        explain_verdict(text, CHOICES, judge(text, CHOICES, "B", extraction, OPTIONS)) == sentence
    )


def test_long_passages_are_cut() -> None:
    """The sentence stays short whatever the passage is."""
    text = "answer is " + "x" * 500
    sentence = explain_verdict(
        text, CHOICES, judge(text, CHOICES, "B", {"pattern": "answer is (x+)"})
    )
    assert len(sentence) < 300
    assert "…" in sentence


CHOICES = ["A", "B", "C", "D"]


@pytest.mark.parametrize(
    ("completion", "sentence"),
    [
        ("B.", "VALID: the completion begins with 'B', which is the ground truth 'B'"),
        (" A", "VALID: the completion begins with 'A', which is not the ground truth 'B'"),
        (None, "INVALID: there is a reply, but no text in it"),
        (" ", "INVALID: the text is empty or only white space"),
        (
            "\nE",
            "INVALID: the first character, 'E', is not one of the choices ['A', 'B', 'C', 'D']",
        ),
        (
            "A or B",
            (
                "INVALID: the completion begins with 'A' joined to another of the choices "
                "['A', 'B', 'C', 'D']"
            ),
        ),
        ("Answer: B", "INVALID: 'A' is only the beginning of a longer word or number"),
        ("A good choice", "INVALID: 'A' runs into the words after it: nothing sets it off"),
        (
            "A. x\nB. y\nC. z",
            (
                "INVALID: the completion begins with 'A' and then lists the other choices alike: "
                "it repeats the options"
            ),
        ),
        (
            Completion(None, CompletionStatus.REFUSED),
            "INVALID: the provider marked the reply as a refusal, which answers nothing",
        ),
        (
            Completion(None, CompletionStatus.ERROR),
            "ERROR: the call failed, so there is nothing to judge",
        ),
    ],
)
def test_every_verdict_is_explained_in_one_sentence(
    completion: str | Completion | None, sentence: str
) -> None:
    """The sentence names the character that was read, and the choices where they matter."""
    assert explain_verdict(completion, CHOICES, judge(completion, CHOICES, "B")) == sentence


def test_literal_rule_is_explained_by_its_own_character() -> None:
    """The literal rule looks at white space too, and the sentence says so."""
    score = judge(" B", CHOICES, "B", extraction="first_character_literal")
    assert "the first character, ' '," in explain_verdict(" B", CHOICES, score)


def test_failed_rows_are_the_datasets_fault() -> None:
    """A FAILED row is explained by what is wrong with the row."""
    sentence = explain_verdict("A", CHOICES, judge("A", CHOICES, "E"))
    assert (
        sentence
        == "FAILED: the ground truth of this row is not one single character out of its choices"
    )


def test_reasons_stand_in_the_order_in_which_they_are_tried() -> None:
    """The table of reasons is the table of the rule."""
    assert list(REASONS) == [
        "REFUSED",
        "NO_TEXT",
        "EMPTY",
        "TRUNCATED_THINKING",
        "NOT_A_CHOICE",
        "SEVERAL_CHOICES",
        "PART_OF_A_WORD",
        "RUNS_INTO_TEXT",
        "ECHOES_CHOICES",
    ]
