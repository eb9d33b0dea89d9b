from __future__ import annotations

import pytest

from answerkey.scorers.stated.tokens import split_tokens


def list_tokens(text: str) -> list[str]:
    """Return the tokens without the spaces before them."""
    return [token for _, token in split_tokens(text)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The answer is B.", ["The", "answer", "is", "B", "."]),
        ("isn't", ["isn't"]),
        ("l'option D'accord", ["l'", "option", "D'", "accord"]),
        ("1.5 and 10,000", ["1.5", "and", "10,000"]),
        ("4km", ["4", "km"]),
        ("\\boxed{\\text{B}}", ["\\boxed", "{", "\\text", "{", "B", "}", "}"]),
        ("<answer>B</answer>", ["<answer>", "B", "</answer>"]),
        ("<|im_end|>", ["<|im_end|>"]),
        ("a < b > c", ["a", "<", "b", ">", "c"]),
        ("**B** -> C", ["**", "B", "**", "->", "C"]),
        ("a\r\nb", ["a", "\r\n", "b"]),
        ("正解はCです。", ["正", "解", "は", "C", "で", "す", "。"]),
        ("정답은 B입니다", ["정답은", "B", "입니다"]),
        ("Ответ: Б", ["Ответ", ":", "Б"]),
        ("2️⃣", ["2️⃣"]),
        ("e\u0301", ["e\u0301"]),
        ("  ", []),
        ("", []),
    ],
)
def test_text_falls_into_tokens(text: str, tokens: list[str]) -> None:
    """Words go by script, numbers and tags stay whole, every other mark is its own token."""
    assert list_tokens(text) == tokens


@pytest.mark.parametrize("text", ["  a b\n c", "答案 ： B", "\u00a0x\u3000y\u2028z", "\x1fA\tB"])
def test_gaps_and_tokens_are_the_text(text: str) -> None:
    """Nothing is lost between the tokens."""
    assert "".join(gap + token for gap, token in split_tokens(text)) == text.rstrip()
