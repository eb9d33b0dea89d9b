"""Lenses with a list of patterns, tried in order, and with the texts of the options."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain

from answerkey.scorers.lenses.lens import Lens, compile_labels, find_first, find_last
from answerkey.scorers.lenses.words import ANSWER_WORDS, COLON, compile_cue, find_present

#: How far behind a cue lighteval looks for a label.
_REACH = 50
#: A label is near the end for VLMEvalKit when fewer than so many words follow it.
_NEAR_END = 5


def _read_lm_eval(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    capital = None
    for found in re.finditer(r"\(([A-Z])\)", text):
        capital = found[1]
    if capital is not None:
        return capital
    place = _find_last_text(_fold(text), [_fold(one.strip()) for one in options[: len(choices)]])
    if place is not None:
        return choices[place]
    return find_last(r":\s*LABEL", text, choices)


def _fold(text: str) -> str:
    """Return the text in lower case, without punctuation."""
    lowered = text.lower()
    if lowered.isascii():
        return re.sub(r"[!-#%-*,-/:;?@\[-\]_{}]", "", lowered)
    return "".join(one for one in lowered if unicodedata.category(one)[0] != "P")


def _find_last_text(text: str, wanted: Sequence[str]) -> int | None:
    """Return which of the texts is the last to be found, as a pattern of alternatives would find them.

    From left to right, the first of the list where several begin; no two overlap.
    """
    last, at = None, 0
    places = {number: text.find(one) for number, one in enumerate(wanted) if one}
    while places := {number: place for number, place in places.items() if place >= 0}:
        last = min(places, key=lambda number: (places[number], number))
        at = places[last] + len(wanted[last])
        places = {
            number: place if place >= at else text.find(wanted[number], at)
            for number, place in places.items()
        }
    return last


_LABEL = r"(?:\*\*|\()?(?<!\w)LABEL(?!\w)(?:\)|\*\*)?"


def _read_lighteval(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - a lens
    return (
        find_last(rf"(?i:final answer is):?\s{{0,9}}{_LABEL}\.?\s?I hope", text, choices)
        or _find_behind_cue(text, choices)
        or find_first(rf"\A\s*{_LABEL}", text, choices)
        or find_last(rf"^[ \t]*{_LABEL}", text, choices, re.MULTILINE)
        or find_last(_LABEL, text, choices)
    )


def _find_behind_cue(text: str, choices: Sequence[str]) -> str | None:
    """Return the label behind the right-most word for an answer with a colon, else without one."""
    words = find_present(ANSWER_WORDS, text)
    cues = [(found.end(), found[1]) for found in compile_cue(words).finditer(text)] if words else []
    with_colon = (end for end, colon in reversed(cues) if colon)
    every = (end for end, _ in reversed(cues))
    label = compile_labels(_LABEL, tuple(choices))
    return next(
        (found for end in chain(with_colon, every) if (found := _find_near(label, text, end)) is not None),
        None,
    )


def _find_near(label: re.Pattern[str], text: str, start: int) -> str | None:
    """Return the first label within reach, on the same line."""
    found = label.search(text[start : start + _REACH + 8].partition("\n")[0])
    return found[1] if found and found.start(1) <= _REACH else None


_BEFORE_ZH = (
    "答案",
    "答案是",
    "答案为",
    "答案选",
    "答案应是",
    "答案应该是",
    "答案应选",
    "答案应该选",
    "正确答案是",
    "正确选项是",
    "正确的是",
    "错误的是",
    "选",
    "选择",
    "选项",
    "故选",
    "应选",
    "只有",
    "所以",
    "因此",
    "显然",
)
_BEFORE_EN = (
    "the answer is",
    "the answer is option",
    "the correct answer is",
    "the correct answer is option",
    "the correct option is",
    "the answer to the question is",
    "correct answer:",
    "correct option:",
    "answer:",
    "choice",
)
_AFTER = ("是正确", "是对的", "正确", "is correct", "is the correct answer")
_SIGNS = rf"\s?{COLON}?\s?"
#: In the order in which they are tried; the first match of the first that matches counts.
_ENGLISH = (
    *(rf"(?i:{cue})\s*+:?\s*+\*{{0,2}}\(?LABEL\)?(?!\w)" for cue in _BEFORE_EN),
    *(rf"LABEL\)?\s?(?i:{cue})" for cue in _AFTER[-2:]),
    r"[\s,:\uff0c\uff1a]LABEL[.,\u3002\uff0c]?$",
    r"(?:\s|^)LABEL[\s.,:\u3002\uff0c\uff1a]",
)
_OPENCOMPASS = (
    *(rf"{cue}{_SIGNS}LABEL" for cue in _BEFORE_ZH),
    *(rf"LABEL\s?{cue}" for cue in _AFTER[:-2]),
    *_ENGLISH,
)


def _read_opencompass(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - same
    for pattern in _ENGLISH if text.isascii() else _OPENCOMPASS:
        found = find_first(pattern, text, choices)
        if found is not None:
            return found
    return find_first(r"LABEL", text, choices)


_REFUSALS = (
    "sorry, i can't",
    "sorry, i cannot",
    "i can't help",
    "i cannot help",
    "i can't process",
    "i cannot process",
    "i can't determine",
    "i cannot determine",
    "cannot determine the answer",
    "i am unable to",
    "i'm unable to",
)
_BREAKS = re.compile(r"[.()\[\],:;!*#{}]")


def _read_vlmevalkit(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    lowered = text.lower()
    if any(phrase in lowered for phrase in _REFUSALS):
        return None
    words = _BREAKS.sub(" ", text).split()
    present = [label for label in choices if label in words]
    if len(present) == 1 and words.index(present[0]) > len(words) - _NEAR_END:
        return present[0]
    return _find_only_text(lowered, choices, options) or _find_only(
        r"(?i:answer is)\s*+:?\s*+\(?LABEL\)?(?!\w)", text, choices
    )


def _find_only_text(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    """Return the label of the only option whose text occurs; a text much longer than all options is none."""
    if not options or len(text) > 2 * sum(map(len, options)):
        return None
    found = [label for label, one in zip(choices, options, strict=False) if one and one.lower() in text]
    return found[0] if len(found) == 1 else None


def _find_only(pattern: str, text: str, choices: Sequence[str]) -> str | None:
    found: Iterator[str] = (one[1] for one in compile_labels(pattern, tuple(choices)).finditer(text))
    labels = set(found)
    return labels.pop() if len(labels) == 1 else None


LM_EVAL = Lens(
    "lm-eval",
    "the last capital in parentheses, else the last text of an option without case and punctuation, else the"
    " last label right after a colon",
    _read_lm_eval,
)
LIGHTEVAL = Lens(
    "lighteval",
    'the right-most label after "final answer is", else after the word for an answer and a colon, else after'
    " that word, else at the start of the text, of a line, else anywhere",
    _read_lighteval,
)
OPENCOMPASS = Lens(
    "opencompass",
    "the first of some thirty Chinese and English cues that matches, else the first label anywhere, be it"
    " part of a word",
    _read_opencompass,
)
VLMEVALKIT = Lens(
    "VLMEvalKit",
    "the only label among the words if it is near the end, else the only option whose text occurs, else"
    ' "answer is X"; its judge and its random guess are left out',
    _read_vlmevalkit,
)
