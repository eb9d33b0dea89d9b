"""Laws of thoughts in a text: what is thought and what is said, in every form that models write."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.reader.markup import is_thought, split_thoughts

HARMONY = (
    "<|channel|>analysis<|message|>hm "
    "A<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>"
)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>hm A</think>B", "hm A", "B"),
        ("\n<think>\nhm A\n</think>\n\nB", "hm A", "B"),
        ("<think>\n\n</think>\n\nB", "", "B"),
        ("<thinking>hm A</thinking>B", "hm A", "B"),
        ("<reasoning>hm A</reasoning> B", "hm A", "B"),
        ("<seed:think>hm A</seed:think>B", "hm A", "B"),
        ("[THINK]hm A[/THINK]B", "hm A", "B"),
        ("\u25c1think\u25b7hm A\u25c1/think\u25b7B", "hm A", "B"),
        ("<unused94>hm A<unused95>B", "hm A", "B"),
        ("<|channel>thought\nhm A<channel|>B", "hm A", "B"),
        # The chat template has opened it, in the prompt.
        ("hm A</think>B", "hm A", "B"),
        ("<|im_start|>assistant\n<think>hm A</think>B<|im_end|>", "hm A", "B"),
        # Harmony, with its special tokens and without.
        (HARMONY, "hm A", "B"),
        (f"<|start|>assistant{HARMONY}", "hm A", "B"),
        ("analysishm", None, None),
        ("analysisWe have A.assistantfinalB", "We have A.", "B"),
        ("commentaryWe have A.assistantfinalB", "We have A.", "B"),
        ("\ufeff analysisWe have A.assistantfinalB", "We have A.", "B"),
        # Several, and one in the middle.
        ("<think>hm</think><think>A</think>B", "hm\nA", "B"),
        ("I say <think>hm A</think>B", "hm A", "I say B"),
        ("<think>hm <think> A</think>B", "hm <think> A", "B"),
        ("<think>hm</think> <think>A", "hm\nA", ""),
        # Never closed.
        ("<think>hm A", "hm A", ""),
        ("<|channel|>analysis<|message|>hm A", "hm A", ""),
        ("analysisWe have A.", "We have A.", ""),
        # No thoughts.
        ("B", None, None),
        ("", None, None),
        ("Use the <think> tag: B", None, None),
        ("B<|im_end|>", None, None),
        ("[INST] A [/INST] B", None, None),
        ("An analysis: B", None, None),
    ],
)
def test_thoughts_are_told_from_what_is_said(
    text: str, thought: str | None, answer: str | None
) -> None:
    """What follows the thoughts is what is said; a text without any stays as it is."""
    assert split_thoughts(text) == (None if thought is None else (thought, answer))
    assert is_thought(text) == (answer == "")


PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "[THINK]",
        "B",
        " ",
        "\n",
        "<|channel|>analysis<|message|>",
        "<|end|>",
        "</s>",
    ]
)


@given(st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join))
def test_nothing_is_said_that_is_not_in_the_text(text: str) -> None:
    """What is said is left of the text, in its order.

    So is each thought, and nothing is thought twice.
    """
    result = split_thoughts(text)
    if result is not None:
        thought, answer = result
        assert len(answer) + len(thought) <= len(text)
        for part in (answer, *thought.split("\n")):
            letters = iter(text)
            assert all(character in letters for character in part)


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "<|end|>", "<think></think>", "<|channel|>a<|message|>"]
)
def test_many_tokens_take_no_long_time(piece: str) -> None:
    """The time grows with the length of the text, not with its square."""
    began = time.process_time()
    split_thoughts(piece * 20_000)
    assert time.process_time() - began < 5
