"""How other harnesses extract an answer from the same text: one extractor for each, for the audit only.

Each is written from a description of what the harness does, not from its code. An extractor never guesses:
where the harness would draw at random, or ask another model, it reads nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from string import ascii_uppercase

#: How many patterns are kept for label sets in use.
_KEPT = 512


@dataclass(frozen=True)
class Extractor:
    """A harness by its name, what it reads in one sentence, and the function that does it.

    `find` takes the text and the labels of its sample, and the texts of the options if it `reads_options`. It
    may return a label that the sample does not offer; `read` then gives None: it can be no right answer.
    """

    name: str
    about: str
    find: Callable[..., str | None]
    reads_options: bool = False

    def read(self, text: str, choices: Sequence[str], options: Sequence[str] | None = None) -> str | None:
        """Return the choice that the harness would read, None for none."""
        found = self.find(text, choices, options or ()) if self.reads_options else self.find(text, choices)
        return found if found in choices else None


@lru_cache(maxsize=_KEPT)
def compile_labels(pattern: str, choices: tuple[str, ...], flags: int = re.NOFLAG) -> re.Pattern[str]:
    """Return a pattern with `LABEL` replaced by a group that takes any of the labels."""
    longest_first = "|".join(map(re.escape, sorted(choices, key=len, reverse=True)))
    return re.compile(pattern.replace("LABEL", f"({longest_first})"), flags)


def find_first(pattern: str, text: str, choices: Sequence[str], flags: int = re.NOFLAG) -> str | None:
    """Return the label in the first match."""
    found = compile_labels(pattern, tuple(choices), flags).search(text)
    return found[1] if found else None


def find_last(pattern: str, text: str, choices: Sequence[str], flags: int = re.NOFLAG) -> str | None:
    """Return the label in the last match; matches do not overlap."""
    label = None
    for found in compile_labels(pattern, tuple(choices), flags).finditer(text):
        label = found[1]
    return label


# The word for an answer in many languages.

#: A colon, in Chinese texts a wide one.
COLON = r"[:\uff1a]"

#: With a colon after them, in the order in which they are looked for.
LOCAL_ANSWERS = (
    "answer", "উত্তর", "उत्तर", "উত্তরঃ", "antwort", "답변", "정답", "답", "答案", "答", "答复", "答曰",
    "الإجابة", "الجواب", "إجابة", "الإجابة النهائية", "الإجابة الصحيحة", "الإجابة الصحيحة هي",
    "الإجابة هي", "respuesta", "risposta", "答え", "回答", "解答", "jawaban", "réponse", "resposta",
    "jibu", "idahun", "ìdáhùn", "idáhùn", "àmọ̀nà", "àdáhùn", "àṣàyàn",
)  # fmt: skip

#: In any place of a text.
ANSWER_WORDS = (
    "answer", "antwort", "réponse", "respuesta", "risposta", "resposta", "ответ", "उत्तर", "উত্তর",
    "jawaban", "cevap", "odpowiedź", "đáp án", "jibu", "الإجابة", "الجواب", "إجابة", "答案", "回答", "解答",
    "答え", "정답", "답",
)  # fmt: skip


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


# Extractors that look at the text as a whole, or at its two ends.


def _look_up(text: str, choices: Sequence[str]) -> str | None:
    label = text.strip()
    return label if label in choices else None


def _compare(text: str, choices: Sequence[str]) -> str | None:
    return text if text in choices else None


def _look_at_start(text: str, choices: Sequence[str]) -> str | None:
    return next((label for label in choices if text.startswith(label)), None)


def _look_at_ends(text: str, _choices: Sequence[str]) -> str | None:
    """Return a capital that stands alone at the start, else at the end, offered or not."""
    bare = text.strip()
    if bare[:1].isupper() and (len(bare) == 1 or bare[1].isspace()):
        return bare[0]
    if bare[-1:].isupper() and bare[-2:-1].isspace():
        return bare[-1]
    return None


# Extractors that look for a marker such as `ANSWER:` or "answer is", and read the label after it.

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


def _read_inspect(text: str, choices: Sequence[str]) -> str | None:
    anchored = rf"{_LINE_START}(?i:answer)[*_]*\s*:{_DECOR}LABEL{_DECOR}\.?[ \t*]*$"
    found = find_last(anchored, text, choices, re.MULTILINE)
    return found or find_last(rf"(?i:answer)[*_]*\s*:{_DECOR}LABEL(?!\w)", text, choices)


def _read_evalscope(text: str, choices: Sequence[str]) -> str | None:
    several = (
        rf"(?:(?i:answer)\s*:|答案\s*{COLON}){_DECOR}LABEL(?:[,\uff0c \t]*(?:and\b)?[ \t]*(?:LABEL))?(?!\w)"
    )
    found = [(one[1], one[2]) for one in compile_labels(several, tuple(choices)).finditer(text)]
    if found:
        return found[-1][0] if found[-1][1] is None else None
    return next((letter for letter in reversed(text) if letter.isupper()), None)


def _read_simple_evals(text: str, choices: Sequence[str]) -> str | None:
    bare = _WRAPPING.sub("", text)
    for word in find_present(LOCAL_ANSWERS, bare):
        found = find_first(rf"{word}\s*{COLON}[ \t]*LABEL", bare, (*_FOUR, *_LETTERS), _ANY_CASE)
        if found is not None:
            # The case is ignored in looking, not in comparing: "Answer: b" is no B.
            return found if found in choices else _LETTERS.get(found, found)
    return None


def _read_mmlu_pro(text: str, _choices: Sequence[str]) -> str | None:
    return (
        find_first(r"answer is \(?LABEL\)?", text, _TEN)
        or find_last(r"[aA]nswer:\s*LABEL", text, _TEN)
        or find_last(r"\bLABEL\b", text, _TEN)
    )


def _read_olmes(text: str, choices: Sequence[str]) -> str | None:
    return (
        find_last(r"(?i:the answer is)\s*+:?\s*+\(LABEL\)", text, choices)
        or find_last(rf"(?i:answer is|answer:){_DECOR}LABEL(?!\w)", text, choices)
        or find_last(r"\(LABEL\)", text, choices)
        or find_last(r"(?<!\w)LABEL(?!\w)", text, choices)
    )


# Extractors with a list of patterns, tried in order, and with the texts of the options.

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


def _read_lighteval(text: str, choices: Sequence[str]) -> str | None:
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
    for end in chain(with_colon, every):
        # The first label within reach, on the same line.
        found = label.search(text[end : end + _REACH + 8].partition("\n")[0])
        if found and found.start(1) <= _REACH:
            return found[1]
    return None


_BEFORE_ZH = (
    "答案", "答案是", "答案为", "答案选", "答案应是", "答案应该是", "答案应选", "答案应该选",
    "正确答案是", "正确选项是", "正确的是", "错误的是", "选", "选择", "选项", "故选", "应选", "只有",
    "所以", "因此", "显然",
)  # fmt: skip
_BEFORE_EN = (
    "the answer is", "the answer is option", "the correct answer is", "the correct answer is option",
    "the correct option is", "the answer to the question is", "correct answer:", "correct option:",
    "answer:", "choice",
)  # fmt: skip
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


def _read_opencompass(text: str, choices: Sequence[str]) -> str | None:
    for pattern in _ENGLISH if text.isascii() else _OPENCOMPASS:
        found = find_first(pattern, text, choices)
        if found is not None:
            return found
    return find_first(r"LABEL", text, choices)


_REFUSALS = (
    "sorry, i can't", "sorry, i cannot", "i can't help", "i cannot help", "i can't process",
    "i cannot process", "i can't determine", "i cannot determine", "cannot determine the answer",
    "i am unable to", "i'm unable to",
)  # fmt: skip
_BREAKS = re.compile(r"[.()\[\],:;!*#{}]")


def _read_vlmevalkit(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    lowered = text.lower()
    if any(phrase in lowered for phrase in _REFUSALS):
        return None
    words = _BREAKS.sub(" ", text).split()
    present = [label for label in choices if label in words]
    if len(present) == 1 and words.index(present[0]) > len(words) - _NEAR_END:
        return present[0]
    # Of the option texts one alone may occur, and not in a text much longer than all of them.
    if options and len(text) <= 2 * sum(map(len, options)):
        pairs = zip(choices, options, strict=False)
        found = [label for label, one in pairs if one and one.lower() in lowered]
        if len(found) == 1:
            return found[0]
    pattern = compile_labels(r"(?i:answer is)\s*+:?\s*+\(?LABEL\)?(?!\w)", tuple(choices))
    labels = {one[1] for one in pattern.finditer(text)}
    return labels.pop() if len(labels) == 1 else None


_ALL = (
    Extractor(
        "lm-eval",
        "the last capital in parentheses, else the last text of an option without case and punctuation,"
        " else the last label right after a colon",
        _read_lm_eval,
        reads_options=True,
    ),
    Extractor(
        "lighteval",
        'the right-most label after "final answer is", else after the word for an answer and a colon,'
        " else after that word, else at the start of the text, of a line, else anywhere",
        _read_lighteval,
    ),
    Extractor(
        "opencompass",
        "the first of some thirty Chinese and English cues that matches, else the first label anywhere,"
        " be it part of a word",
        _read_opencompass,
    ),
    Extractor(
        "HELM",
        "the whole text, without white space around it, must be the label",
        _look_up,
    ),
    Extractor(
        "Inspect",
        "the last line `ANSWER: X` with nothing after the label, else the last `ANSWER: X` anywhere;"
        " marks around the label are taken off",
        _read_inspect,
    ),
    Extractor(
        "evalscope",
        "the label after the last `ANSWER:` or its Chinese form, else the last capital of the text",
        _read_evalscope,
    ),
    Extractor(
        "simple-evals",
        "the first `Answer: X` in one of many languages, after Markdown and LaTeX are taken off; A to D"
        " alone, and the case of the letter counts",
        _read_simple_evals,
    ),
    Extractor(
        "MMLU-Pro",
        'the first "answer is X", else the last "Answer: X", else the last A to J that stands alone, the'
        " pronoun I included; its random guess is left out",
        _read_mmlu_pro,
    ),
    Extractor(
        "VLMEvalKit",
        "the only label among the words if it is near the end, else the only option whose text occurs,"
        ' else "answer is X"; its judge and its random guess are left out',
        _read_vlmevalkit,
        reads_options=True,
    ),
    Extractor(
        "OLMES",
        'the last "the answer is (X)", else the last "answer is X" or "answer: X", else the last (X),'
        " else the last label that stands alone; its score for the format is left out",
        _read_olmes,
    ),
    Extractor(
        "compl-ai",
        "a capital at the start before a blank or the end, else a capital at the end after a blank; it"
        " need not be an offered label",
        _look_at_ends,
    ),
    Extractor(
        "openai/evals",
        "the text must start with a label, whatever follows it",
        _look_at_start,
    ),
    Extractor(
        "deepeval",
        "the whole text must be the label, character by character",
        _compare,
    ),
)
EXTRACTORS: dict[str, Extractor] = {one.name: one for one in _ALL}
