"""The word for an answer in many languages."""

from __future__ import annotations

import re
from functools import cache

#: A colon, in Chinese texts a wide one.
COLON = r"[:\uff1a]"

#: With a colon after them, in the order in which they are looked for.
LOCAL_ANSWERS = (
    "answer",
    "উত্তর",
    "उत्तर",
    "উত্তরঃ",
    "antwort",
    "답변",
    "정답",
    "답",
    "答案",
    "答",
    "答复",
    "答曰",
    "الإجابة",
    "الجواب",
    "إجابة",
    "الإجابة النهائية",
    "الإجابة الصحيحة",
    "الإجابة الصحيحة هي",
    "الإجابة هي",
    "respuesta",
    "risposta",
    "答え",
    "回答",
    "解答",
    "jawaban",
    "réponse",
    "resposta",
    "jibu",
    "idahun",
    "ìdáhùn",
    "idáhùn",
    "àmọ̀nà",
    "àdáhùn",
    "àṣàyàn",
)

#: In any place of a text.
ANSWER_WORDS = (
    "answer",
    "antwort",
    "réponse",
    "respuesta",
    "risposta",
    "resposta",
    "ответ",
    "उत्तर",
    "উত্তর",
    "jawaban",
    "cevap",
    "odpowiedź",
    "đáp án",
    "jibu",
    "الإجابة",
    "الجواب",
    "إجابة",
    "答案",
    "回答",
    "解答",
    "答え",
    "정답",
    "답",
)


def find_present(words: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the words that occur in a text in any case; few patterns then have to be tried."""
    lowered = text.lower()
    return tuple(word for word in words if word in lowered)


@cache
def compile_cue(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of any of these words, in any case; group 1 is a colon after it, if there is one.

    What is written in words is not found inside a longer one; Chinese, Japanese and Korean are not.
    """
    spelled = "|".join(rf"\b{word}" if word < "\u2e80" else word for word in words)
    return re.compile(rf"(?:{spelled})(?:\s{{0,3}}({COLON}))?", re.IGNORECASE)
