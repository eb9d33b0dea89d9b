from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from answerkey.reader import EXTRACTORS

LETTERS = ("A", "B", "C", "D")
TEN = tuple("ABCDEFGHIJ")
CITIES = ("Sydney", "Canberra", "Melbourne", "Perth")
TRICKY = Path(__file__).parents[4] / "shared/data/tricky_completions.jsonl"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lm-eval", "I first thought (A), but it is (C).", "C"),
        ("lm-eval", "It must be (X).", None),
        ("lm-eval", "That would be canberra!", "B"),
        ("lm-eval", "Not Sydney. Rather Perth, I think.", "D"),
        ("lm-eval", "So here it is: B", "B"),
        ("lm-eval", "B", None),
        ("lm-eval", "It is (pe-rth", "D"),
        ("lighteval", "The final answer is C. I hope it is correct.", "C"),
        ("lighteval", "Answer: A? No. Answer: (B)", "B"),
        ("lighteval", "Réponse : **D**", "D"),
        ("lighteval", "My answer would be B", "B"),
        ("lighteval", "B. Canberra", "B"),
        ("lighteval", "Well,\nC) Melbourne", "C"),
        ("lighteval", "Surely D", "D"),
        ("lighteval", "Nothing at all", None),
        ("opencompass", "答案是B", "B"),
        ("opencompass", "The correct answer is (C)", "C"),
        ("opencompass", "A good question", "A"),
        ("opencompass", "Nothing", None),
        ("HELM", " B\n", "B"),
        ("HELM", "B.", None),
        ("Inspect", "ANSWER: A\nno,\nANSWER: B", "B"),
        ("Inspect", "**ANSWER: C**", "C"),
        ("Inspect", "I say answer: d, or so", None),
        ("Inspect", "I say answer: d.", "D"),
        ("Inspect", "**Answer:** C", None),
        ("Inspect", "**Answer: $ C $**", "C"),
        ("Inspect", "Answer: (B).", "B"),
        ("Inspect", "Answer: B, (see below)", "B"),
        ("Inspect", "ANSWER: A, B", None),
        ("Inspect", "ANSWER: E", None),
        ("Inspect", "B", None),
        ("evalscope", "ANSWER: A. On reflection, ANSWER: [C]", "C"),
        ("evalscope", "答案：B", "B"),
        ("evalscope", "it is D, surely", "D"),
        ("evalscope", "it is B, said Zoe", None),
        ("simple-evals", "Answer: **B**", "B"),
        ("simple-evals", "Answer: $\\boxed{C}$", "C"),
        ("simple-evals", "Answer: b", None),
        ("simple-evals", "Antwort: Ａ", "A"),
        ("simple-evals", "উত্তরঃ ব", "B"),
        ("simple-evals", "答案: A, 答案\uff1aB", "B"),
        ("simple-evals", "ANSWER\uff1aB", None),
        ("simple-evals", "Because of that", None),
        ("MMLU-Pro", "The answer is (B). Later: Answer: C", "B"),
        ("MMLU-Pro", "So.\nAnswer: A, answer: C\nAnswer: D", "C"),
        ("MMLU-Pro", "Either A or C", "C"),
        ("MMLU-Pro", "nothing here", None),
        ("MMLU-Pro", "Answer: C. Or A", "C"),
        ("OLMES", "The answer is: (B). Some answer: C", "B"),
        ("OLMES", "(A) and (B), or C", "B"),
        ("VLMEvalKit", "I choose (B).", "B"),
        ("VLMEvalKit", "It is canberra, of course", "B"),
        ("VLMEvalKit", "I can't process this file. B", None),
        ("VLMEvalKit", "Z, or Perth", None),
        ("VLMEvalKit", "Not A. The answer is C", None),
        ("OLMES", "Perhaps (A). Therefore, the answer is (D)", "D"),
        ("OLMES", "So my answer: C", "C"),
        ("OLMES", "either (A) or (B)", "B"),
        ("OLMES", "It is C then", "C"),
        ("compl-ai", "B because", "B"),
        ("compl-ai", "It would be D", "D"),
        ("compl-ai", "B.", None),
        ("openai/evals", "Because of B", "B"),
        ("openai/evals", " B", None),
        ("deepeval", "B", "B"),
        ("deepeval", "B\n", None),
    ],
)
def test_each_lens_reads_as_its_harness_does(name: str, text: str, expected: str | None) -> None:
    """What a lens reads is what the description of its harness says."""
    assert EXTRACTORS[name].read(text, LETTERS, CITIES) == expected


def test_a_pronoun_counts_as_a_letter_where_the_harness_takes_it_for_one() -> None:
    """MMLU-Pro and compl-ai read the pronoun `I` as a label.

    With fewer choices that is no answer.
    """
    assert EXTRACTORS["MMLU-Pro"].read("That much I know", TEN) == "I"
    assert EXTRACTORS["compl-ai"].read("I don't know", TEN) == "I"
    assert EXTRACTORS["compl-ai"].read("I don't know", LETTERS) is None


@pytest.mark.parametrize("name", list(EXTRACTORS))
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "the answer is " * 15_000,
        "answer is" + " " * 200_000,
        "ANSWER:" + " " * 200_000 + "x",
        "(" * 200_000,
        "A" * 200_000,
        "**" * 100_000,
        "\n" * 200_000,
        "答案" * 100_000,
        ": " * 100_000,
        "perth " * 30_000,
        "答案是" * 70_000,
        "the correct answer is " * 10_000,
        "Final answer" + " " * 200_000,
        "ANSWER: " + "A, " * 70_000 + "é",
        "$a " + " " * 200_000,
        "(A " * 70_000,
        "Answer\t:\t" * 20_000,
    ],
    ids=lambda text: f"{text[:9]!r}x{len(text)}",
)
def test_no_lens_is_slow_on_long_texts(name: str, text: str) -> None:
    """A text that is made to be slow is read in a moment.

    In quadratic time it would take minutes.
    """
    begun = time.process_time()
    result = EXTRACTORS[name].read(text, LETTERS, CITIES)
    assert result is None or result in LETTERS
    assert time.process_time() - begun < 30


@pytest.mark.parametrize("name", list(EXTRACTORS))
def test_any_labels_will_do(name: str) -> None:
    """Labels may be digits, circled or of several code points.

    A lens that knows none of them reads none.
    """
    for choices in (("1", "2"), ("①", "②"), ("🅰️", "🅱️"), ("أ", "ب"), (".", "*")):
        assert EXTRACTORS[name].read(f"Answer: {choices[1]}", choices) in {
            choices[1],
            choices[0],
            None,
        }


@pytest.mark.skipif(not TRICKY.exists(), reason="the shared material is not there")
def test_lenses_differ_on_what_models_write() -> None:
    """On completions as models write them, readers of the start fail and readers of statements do
    better.
    """
    rows = [json.loads(line) for line in TRICKY.read_text(encoding="utf-8").splitlines()]
    right = {
        name: sum(
            lens.read(row["completion"] or "", tuple(row["choices"]), row["options"])
            == row["human_label"]
            for row in rows
            if row["human_label"] is not None
        )
        for name, lens in EXTRACTORS.items()
    }
    assert right["deepeval"] < right["compl-ai"] < right["lm-eval"] < right["MMLU-Pro"]
    assert max(right.values()) < 45


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lm-eval", "Enfin… can’ber‐ra", "B"),
        ("lm-eval", "Sydney, Perth, Sydney?", "A"),
        ("lm-eval", "one: A, two: C, or B", "C"),
        ("lighteval", "Answer: B, though A was close", "B"),
        ("lighteval", "Answer: D, not A; the answer may also be C", "D"),
        ("lighteval", "My answer would be B, not C", "B"),
        ("lighteval", "answer:" + " " * 50 + "B and A", "B"),
        ("lighteval", "answer:" + " " * 52 + "B and A", "A"),
        ("lighteval", "Answer:\nit is B or A", "A"),
        ("lighteval", "Unanswered B, not A", "B"),
        ("lighteval", "这个答案B，不是A", "A"),
        ("lighteval", "The final answer, then, is D (not A)", "D"),
        ("lighteval", "Both Bananas and Dates", "D"),
        ("lighteval", "The final answer is B. I hope so. Answer: C", "B"),
        ("lighteval", "B then\nC or D", "B"),
        ("lighteval", "Well.\nB or A\nC or D", "C"),
        ("opencompass", "The correct option is B. The answer is C", "C"),
        ("opencompass", "显然A，答案B", "B"),
        ("opencompass", "A不行。B是正确的", "B"),
        ("opencompass", "A or so; B is correct", "A"),
        ("opencompass", "answer: b. Answer: B, not A: it", "A"),
        ("opencompass", "The correct option is \\boxed{B}, not A: it", "B"),
        ("opencompass", "So 1. C or B it", "B"),
        ("opencompass", "我看答案是悉尼（B）。 A不对", "B"),
        ("opencompass", "Dare I say, C.", "C"),
        ("opencompass", "Dear B, no", "D"),
        ("VLMEvalKit", "B one two three four", None),
        ("VLMEvalKit", "B one two three", "B"),
        ("VLMEvalKit", "Sydney or Canberra", None),
        ("VLMEvalKit", f"{'Canberra':>56}", "B"),
        ("VLMEvalKit", f"{'Canberra':>57}", None),
        ("VLMEvalKit", "The answer is A, or the answer is B, as people say here now", None),
        ("VLMEvalKit", "I CAN'T PROCESS THIS FILE. say B", "B"),
    ],
)
def test_lenses_prefer_what_their_harness_prefers(
    name: str, text: str, expected: str | None
) -> None:
    """Where several labels or texts could be read, order and reach of the patterns decide."""
    assert EXTRACTORS[name].read(text, LETTERS, CITIES) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", "B"),
        ("B or so", "B"),
        ("Bx", None),
        ("so B", "B"),
        ("soB", None),
        ("so b", None),
        ("", None),
        (" X ", "X"),
    ],
)
def test_capitals_at_an_end_stand_alone(text: str, expected: str | None) -> None:
    """For compl-ai, between blanks and the ends of the text."""
    assert EXTRACTORS["compl-ai"].read(text, (*LETTERS, "X"), CITIES) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ANSWER: A, or B", None),
        ("ANSWER: A, not B", "A"),
        ("ANSWER: (A). But B", "A"),
        ("ANSWER: (A but B", "B"),
        ("ANSWER: AB", None),
        ("Answer: $\\boxed{\\text{C}}$ as D", "C"),
        ("ANSWER: A. Later: ANSWER: C, not D", "C"),
        ("ANSWER: A and B", None),
        ("ANSWER: A, B", None),
        ("答案：B 不是 A", "A"),
        ("Answer none, but A", "A"),
    ],
)
def test_the_last_marked_answer_counts_unless_it_names_two(text: str, expected: str | None) -> None:
    """For evalscope; without a mark the last capital does."""
    assert EXTRACTORS["evalscope"].read(text, LETTERS, CITIES) == expected


def test_texts_that_overlap_are_found_from_left_to_right() -> None:
    """The first of two texts that share words is found, whichever stands first in the list."""
    options = ("york city", "new york", "x", "z")
    lens = EXTRACTORS["lm-eval"]
    assert lens.read("It is new york city", LETTERS, options) == "B"
    assert lens.read("It is york city, new york", LETTERS, options) == "B"
    assert lens.read("It is new york, york city", LETTERS, options) == "A"


def test_the_longest_of_texts_that_begin_alike_is_found() -> None:
    """For lm-eval.

    Of two that are alike the last counts, and one of nothing but marks spoils them all.
    """
    lens = EXTRACTORS["lm-eval"]
    assert lens.read("guilty of romance", LETTERS, ("Guilty", "Guilty of Romance", "x", "x")) == "B"
    assert lens.read("x", LETTERS, ("Guilty", "Guilty of Romance", "x", "x")) == "D"
    assert lens.read("guilty: C", LETTERS, ("Guilty", "...", "x", "x")) == "C"
    assert lens.read("guilty : C", LETTERS, ("Guilty -", "z", "x", "x")) is None


def test_longer_labels_are_tried_first() -> None:
    """A label that begins with another one is not cut short."""
    lens = EXTRACTORS["lm-eval"]
    assert lens.read("So: AB", ("A", "AB")) == "AB"
    assert lens.read("So: A", ("A", "AB")) == "A"


def test_vlmevalkit_finds_no_label_that_ends_words() -> None:
    """What ends a word is no part of a label."""
    assert EXTRACTORS["VLMEvalKit"].read("a (A) b", ("(A)", "(B)")) is None
