"""Lenses that look for a marker such as `ANSWER:` or "answer is", and read the label after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

from answerkey.scorers.lenses.lens import Lens, compile_labels, find_first, find_last
from answerkey.scorers.lenses.words import COLON, LOCAL_ANSWERS, find_present

_ANY_CASE = re.IGNORECASE
#: Marks that may stand around a label or before a marker.
_DECOR = r"[*_`$()\[\]{}\"'<> \t]{0,8}"
_LINE_START = r"^[ \t>#*_`-]{0,8}"
#: MMLU-Pro offers ten options at most, and looks for these letters whatever a sample offers.
_TEN = tuple(ascii_uppercase[:10])
_FOUR = tuple(ascii_uppercase[:4])
#: What the rules of simple-evals read as one of four letters, beside these themselves.
_LETTERS = dict(zip("أبجدঅবডঢ\uff21\uff22\uff23\uff24", "ABCD" * 3, strict=True))
_WRAPPING = re.compile(r"\*\*|\\(?:boxed|text|mathrm|mathbf)|\\[(${]|[${]")


def _read_inspect(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - a lens
    anchored = rf"{_LINE_START}(?i:answer)[*_]*\s*:{_DECOR}LABEL{_DECOR}\.?[ \t*]*$"
    found = find_last(anchored, text, choices, re.MULTILINE)
    return found or find_last(rf"(?i:answer)[*_]*\s*:{_DECOR}LABEL(?!\w)", text, choices)


def _read_evalscope(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - same
    several = (
        rf"(?:(?i:answer)\s*:|答案\s*{COLON}){_DECOR}LABEL(?:[,\uff0c \t]*(?:and\b)?[ \t]*(?:LABEL))?(?!\w)"
    )
    found = _find_last_pair(several, text, choices)
    if found is not None:
        return found[0] if found[1] is None else None
    return next((letter for letter in reversed(text) if letter.isupper()), None)


def _find_last_pair(pattern: str, text: str, choices: Sequence[str]) -> tuple[str, str | None] | None:
    """Return both labels of the last match, the second None when there is one alone."""
    last = None
    for found in compile_labels(pattern, tuple(choices)).finditer(text):
        last = (found[1], found[2])
    return last


def _read_simple_evals(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - same
    bare = _WRAPPING.sub("", text)
    for word in find_present(LOCAL_ANSWERS, bare):
        found = find_first(rf"{word}\s*{COLON}[ \t]*LABEL", bare, (*_FOUR, *_LETTERS), _ANY_CASE)
        if found is not None:
            # The case is ignored in looking, not in comparing: "Answer: b" is no B.
            return found if found in choices else _LETTERS.get(found, found)
    return None


def _read_mmlu_pro(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - same
    return (
        find_first(r"answer is \(?LABEL\)?", text, _TEN)
        or find_last(r"[aA]nswer:\s*LABEL", text, _TEN)
        or find_last(r"\bLABEL\b", text, _TEN)
    )


def _read_olmes(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - same
    return (
        find_last(r"(?i:the answer is)\s*+:?\s*+\(LABEL\)", text, choices)
        or find_last(rf"(?i:answer is|answer:){_DECOR}LABEL(?!\w)", text, choices)
        or find_last(r"\(LABEL\)", text, choices)
        or find_last(r"(?<!\w)LABEL(?!\w)", text, choices)
    )


INSPECT = Lens(
    "Inspect",
    "the last line `ANSWER: X` with nothing after the label, else the last `ANSWER: X` anywhere; marks around"
    " the label are taken off",
    _read_inspect,
)
EVALSCOPE = Lens(
    "evalscope",
    "the label after the last `ANSWER:` or its Chinese form, else the last capital of the text",
    _read_evalscope,
)
SIMPLE_EVALS = Lens(
    "simple-evals",
    "the first `Answer: X` in one of many languages, after Markdown and LaTeX are taken off; A to D alone,"
    " and the case of the letter counts",
    _read_simple_evals,
)
MMLU_PRO = Lens(
    "MMLU-Pro",
    'the first "answer is X", else the last "Answer: X", else the last A to J that stands alone, the pronoun'
    " I included; its random guess is left out",
    _read_mmlu_pro,
)
OLMES = Lens(
    "OLMES",
    'the last "the answer is (X)", else the last "answer is X" or "answer: X", else the last (X), else the'
    " last label that stands alone; its score for the format is left out",
    _read_olmes,
)
