"""How other harnesses extract an answer from the same text: one extractor for each, for the audit
only.

Each does in our own words what the harness does; the long series compares six of them with the
harness's own code (`tests/conformance/test_extractors.py`). An extractor never guesses: where the
harness would draw at random, or ask another model, it reads nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase

#: How many patterns are kept for label sets in use.
_KEPT = 512
#: How a pattern begins that matches nowhere else than at the beginning of a text.
_AT_BEGIN = ("^", r"\A")


@dataclass(frozen=True)
class Extractor:
    """A harness by its name, what it reads in one sentence, and the function that does it.

    `find` takes the text and the labels of its sample, and the texts of the options if it
    `reads_options`. It may return a label that the sample does not offer; `read` then gives None:
    it can be no right answer.
    """

    name: str
    about: str
    find: Callable[..., str | None]
    reads_options: bool = False

    def read(
        self, text: str, choices: Sequence[str], options: Sequence[str] | None = None
    ) -> str | None:
        """Return the choice that the harness would read, None for none."""
        hit = (
            self.find(text, choices, options or ())
            if self.reads_options
            else self.find(text, choices)
        )
        return hit if hit in choices else None


@lru_cache(maxsize=_KEPT)
def compile_labels(
    pattern: str, choices: tuple[str, ...], flags: int = re.NOFLAG
) -> re.Pattern[str]:
    """Return a pattern with `LABEL` replaced by any of the labels, in a group `found` unless it has
    one.
    """
    longest_first = "|".join(map(re.escape, sorted(choices, key=len, reverse=True)))
    opened = "(?:" if "?P<found>" in pattern else "(?P<found>"
    return re.compile(pattern.replace("LABEL", f"{opened}{longest_first})"), flags)


def find_first(
    pattern: str, text: str, choices: Sequence[str], flags: int = re.NOFLAG, *, start: int = 0
) -> str | None:
    """Return the label in the first match; none begins before `start`."""
    compiled = compile_labels(pattern, tuple(choices), flags)
    # What must stand at the beginning of the text is not looked for at every other place.
    is_fixed = pattern.startswith(_AT_BEGIN) and not flags & re.MULTILINE
    hit = compiled.match(text) if is_fixed else compiled.search(text, start)
    return hit["found"] if hit else None


def find_last(pattern: str, text: str, choices: Sequence[str], start: int = 0) -> str | None:
    """Return the label in the last match.

    Matches do not overlap, and none begins before `start`.
    """
    if pattern.startswith(_AT_BEGIN):
        return find_first(pattern, text, choices)
    label = None
    for hit in compile_labels(pattern, tuple(choices)).finditer(text, start):
        label = hit["found"]
    return label


@lru_cache(maxsize=_KEPT)
def _write_lone(choices: tuple[str, ...], kind: str = r"\w") -> str:
    """Return the pattern of a label that stands alone, without characters of a kind beside it."""
    # A label of one character is looked for before what stands in front of it: that is faster.
    is_usual = all(len(label) == 1 for label in choices)
    return rf"(?s:LABEL(?<!{kind}.)(?!{kind}))" if is_usual else rf"(?<!{kind})LABEL(?!{kind})"


def _find_answer(text: str) -> int:
    """Return from where on to look for the word in any case, which every `(?i:answer` needs; -1 for
    nowhere.

    Beyond ASCII, the lower case of a text may be longer than itself, and all of it is looked at.
    """
    at = text.casefold().find("answer")
    return at if text.isascii() else min(at, 0)


#: What every `(?i:answer)\\s*:` needs in a text without case.
_ANSWER_COLON = re.compile(r"answer\s*+:")


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
#: Marks that may stand around a label.
_DECOR = r"[*_`$()\[\]{}\"'<> \t]{0,8}"
#: MMLU-Pro offers ten options at most, and looks for these letters whatever a sample offers.
_TEN = tuple(ascii_uppercase[:10])
_FOUR = tuple(ascii_uppercase[:4])
#: What simple-evals looks for, in this order; white space may stand before the colon.
_LOCAL_ANSWERS = (
    "answer:", "উত্তর:", "उत्तर:", "উত্তরঃ", "antwort:", "답변:", "정답:", "답:", "答案\uff1a",
    "答案:",
    "答\uff1a", "答:", "答复\uff1a", "答曰\uff1a", "الإجابة:", "الجواب:", "إجابة:",
    "الإجابة النهائية:",
    "الإجابة الصحيحة:", "الإجابة الصحيحة هي:", "الإجابة هي:", "الجواب النهائي:", "respuesta:",
    "risposta:", "答え:", "答え\uff1a", "回答:", "回答\uff1a", "解答:", "jawaban:", "réponse:",
    "resposta:", "jibu:", "idahun:", "ìdáhùn:", "idáhùn:", "àmọ̀nà:", "àdáhùn:", "ànúgọ:", "àṣàyàn:",
)  # fmt: skip
#: What it reads as one of four letters, beside these themselves.
_LETTERS = dict(zip("أبجدঅবডঢ\uff21\uff22\uff23\uff24", "ABCD" * 3, strict=True))
_WRAPPING = re.compile(r"\*\*|\\(?:boxed|text|mathrm|mathbf)|\\[(${]|[${]")

#: What Inspect unwraps before it looks, each with a mark that it needs: words without other marks
#: between dollars or stars, and one letter in parentheses at the start, after a colon or a comma,
#: with nothing behind it that belongs to it.
_UNWRAPPED = (
    ("$", re.compile(r"\$\s*+([A-Za-z\d][A-Za-z\d ,]*+)\s*+\$"), r"\1"),
    ("**", re.compile(r"\*\*\s*+([A-Za-z\d][A-Za-z\d ,]*+)\s*+\*\*"), r"\1"),
    ("(", re.compile(r"((?:\A|[:,])\s*+)\(([A-Za-z\d])\)(?=[^\S\n]*+(?:[,.\n]|\Z))"), r"\1\2"),
)
_INSPECT_LINE = re.compile(
    r"^answer\s*+:\s*+([a-z\d ,]++)(?=[^\S\n]*+(?:[.\n]|\Z))", _ANY_CASE | re.MULTILINE
)
_INSPECT_ANYWHERE = re.compile(r"answer\s*+:\s*+([a-z\d ,]+)(?!\w)", _ANY_CASE)


def _read_inspect(text: str, _choices: Sequence[str]) -> str | None:
    if ":" not in text:
        return None
    for mark, wrapped, bare in _UNWRAPPED:
        if mark in text:
            text = wrapped.sub(bare, text)
    if not _ANSWER_COLON.search(text.casefold()):
        return None
    start = _find_answer(text)
    hit = _INSPECT_LINE.findall(text, start) or _INSPECT_ANYWHERE.findall(text, start)
    # More than a label and commas is no answer.
    return hit[-1].strip().strip(",").upper() if hit else None


#: The marker, marks around the label, and one label or several: several are no answer.
_GAP, _WORD = r"[ ,\uff0c/\u3001]++", r"LABEL++(?![A-Za-z\d])"
_EVALSCOPE = (
    r"(?i:answer)\s*+:\s*+\**+\s*+(?:(?:\$++|\\\(|\\(?:boxed|fbox|text|textbf|mathbf|mathrm)\s*+\{)\s*+)*"
    r"([(\[\uff08\u3010]\s*+)?"
    rf"(?P<found>{_WORD}(?:{_GAP}(?:(?i:and|or){_GAP})?{_WORD})*)"
    r"(?(1)\s*+[)\]\uff09\u3011])"
)


def _read_evalscope(text: str, choices: Sequence[str]) -> str | None:
    hit = None
    if _ANSWER_COLON.search(text.casefold()):
        hit = find_last(_EVALSCOPE, text, choices, _find_answer(text))
    return hit or next((letter for letter in reversed(text) if letter.isupper()), None)


def _read_simple_evals(text: str, choices: Sequence[str]) -> str | None:
    bare = _WRAPPING.sub("", text)
    lowered = bare.lower()
    for item in _LOCAL_ANSWERS:
        word, colon = item[:-1], item[-1]
        if word not in lowered or colon not in lowered:
            continue
        pattern = rf"{word}\s*+{colon}[ \t]*+LABEL"
        hit = find_first(pattern, bare, (*_FOUR, *_LETTERS), _ANY_CASE)
        if hit is not None:
            # The case is ignored in looking, not in comparing: "Answer: b" is no B.
            return hit if hit in choices else _LETTERS.get(hit, hit)
    return None


def _read_mmlu_pro(text: str, _choices: Sequence[str]) -> str | None:
    return (
        find_first(r"answer is \(?LABEL\)?", text, _TEN)
        or ("nswer:" in text and find_first(r"^.*[aA]nswer:\s*+LABEL", text, _TEN, re.MULTILINE))
        or find_last(_write_lone(_TEN), text, _TEN)
    )


def _read_olmes(text: str, choices: Sequence[str]) -> str | None:
    hit, start = None, _find_answer(text)
    if start >= 0:
        if "(" in text:
            hit = find_last(r"(?i:the answer is)\s*+:?\s*+\(LABEL\)", text, choices)
        hit = hit or find_last(rf"(?i:answer is|answer:){_DECOR}LABEL(?!\w)", text, choices, start)
    if hit is None and "(" in text:
        hit = find_last(r"\(LABEL\)", text, choices)
    return hit or find_last(_write_lone(tuple(choices)), text, choices)


# Extractors with a list of patterns, tried in order, and with the texts of the options.

_BARE = r"(\()?LABEL(?(1)\))"
#: A label with what must follow it, and with what must stand before it.
_ENDED = rf"(?:\*\*)?{_BARE}(?:\*\*)?(?:[., ]|\s?:|$)"
_ALONE = rf"(?:^| ){_ENDED}"
#: The last match of the first that matches counts.
_LIGHTEVAL = (
    rf"(?i:final answer is):?\s*+{_BARE}\.?\s?I hope",
    rf"(?i:final answer).{{0,100}}?(?<!\s)\s++(?i:is):?\s*+{_BARE}",
    rf"(?i:answer)\s?:.{{0,50}}?{_ALONE}",
    rf"(?i:answer).{{0,50}}?{_ALONE}",
    rf"^{_ENDED}",
    rf"\n{_ENDED}",
    _ALONE,
    r"LABEL",
)
#: So many of them need the word.
_WITH_ANSWER = sum("answer" in pattern for pattern in _LIGHTEVAL)


def _read_lighteval(text: str, choices: Sequence[str]) -> str | None:
    start = _find_answer(text)
    for pattern in _LIGHTEVAL[:_WITH_ANSWER] if start >= 0 else ():
        if hit := find_last(pattern, text, choices, start - len("final ")):
            return hit
    remainder = (find_last(pattern, text, choices) for pattern in _LIGHTEVAL[_WITH_ANSWER:])
    return next(filter(None, remainder), None)


def _read_lm_eval(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    capitals = re.findall(r"\(([A-Z])\)", text) if "(" in text else ()
    if capitals:
        return str(capitals[-1])
    labels = _fold_options(tuple(options), tuple(choices)) if options else {}
    hit = None if "" in labels or not labels else _find_last_text(_fold(text), labels)
    # A text that ends in white space without its punctuation is found, and stands for no label.
    if hit:
        return labels.get(hit.strip())
    return find_last(r":\s*LABEL", text, choices) if ":" in text else None


@lru_cache(maxsize=4_096)
def _fold_options(options: tuple[str, ...], choices: tuple[str, ...]) -> dict[str, str]:
    """Return the labels by the folded texts of their options.

    Of options that are alike the last counts.
    """
    return dict(zip((_fold(item.strip()) for item in options), choices, strict=False))


#: What Unicode calls punctuation, of ASCII.
_PUNCTUATION = dict.fromkeys(map(ord, "!\"#%&'()*,-./:;?@[\\]_{}"))


def _fold(text: str) -> str:
    """Return the text in lower case, without punctuation."""
    lowered = text.lower()
    if lowered.isascii():
        return lowered.translate(_PUNCTUATION)
    return "".join(item for item in lowered if unicodedata.category(item)[0] != "P")


def _find_last_text(text: str, target: Iterable[str]) -> str | None:
    """Return which of the texts is the last to be found, as a pattern of alternatives would find
    them.

    From left to right, the longest where several begin; no two overlap.
    """
    last, places = None, {item: text.find(item) for item in target}
    while places := {item: place for item, place in places.items() if place >= 0}:
        last = min(places, key=lambda item: (places[item], -len(item)))
        at = places[last] + len(last)
        places = {
            item: place if place >= at else text.find(item, at) for item, place in places.items()
        }
    return last


_LAST_LABEL = r"[\s\uff0c\uff1a:,]LABEL[\u3002\uff0c,.]?$"
#: The first match of the first that matches counts; of a `found` that is a text, the first choice
#: in it. Before each stand words that it needs.
_OPENCOMPASS = (
    ("答案", r"答案是?\s*+[:\uff1a]?\s*+LABEL"),
    ("答案选项", r"答案选项应?该?[是为]\s*+LABEL"),
    ("答案应", r"答案应该?[是选]\s*+LABEL"),
    ("答案选项", r"答案选项(?:[是为]?\s*+[:\uff1a]\s*+|为?\s++\(?\*{0,2})LABEL"),
    ("", r"(?:答案[为选]|选择?)\s*+LABEL"),
    ("只有", r"只有选?项?\s?LABEL\s?(?:是?错|不?正确)"),
    ("说法", r"说法(?:不?对|不?正确|错误)选?项?的?是\s?LABEL"),
    ("是正确", r"LABEL\s?是正确(?:的|答案)"),
    ("选项", r"选项\s?LABEL\s?正确"),
    ("所以答", r"所以答\s?LABEL"),
    ("", _LAST_LABEL),
    (
        "",
        r"(?:所[以有]\s?|[\s\uff0c,\uff1a:][故即]|[是为\u3002]\s?|因此\s?|显然\s?)LABEL[\u3002.]?$",
    ),
    ("答案", r"答案(?:(?:应该)?是|为)\s?(?P<found>\S{1,99})(?:\u3002|$)"),
    (":", r"(?i:answer\s*+:\s*+LABEL)"),
    ("he answer is", r"[Tt]he answer is:?\s++\(?LABEL"),
    ("he answer is", r"[Tt]he answer is:?\s++\(?\*{1,2}LABEL"),
    ("he answer is option", r"[Tt]he answer is option:?\s++\(?LABEL"),
    ("he correct answer is", r"[Tt]he correct answer is:?\s++\(?LABEL"),
    ("he correct answer is option", r"[Tt]he correct answer is option:?\s++\(?LABEL"),
    ("boxed{", r"\A(?>.*?[Tt]he correct (?:answer|option|answer option) is).*?boxed\{LABEL\}"),
    ("he answer to the question is", r"[Tt]he answer to the question is:?\s++\(?LABEL"),
    ("选项", r"^选项\s?LABEL"),
    ("项", r"^LABEL\s?选?项"),
    ("", r"^LABEL[\s\u3002\uff0c,\uff1a:.$]"),
    ("1", r"1.(?P<found>.*)"),
    (":", r"LABEL:"),
    ("", r"LABEL"),
)


def _read_opencompass(text: str, choices: Sequence[str]) -> str | None:
    bare = text.strip()
    for words, pattern in _OPENCOMPASS:
        if words not in bare:
            continue
        # One character before the label, and at most one after it.
        start = len(bare) - max(map(len, choices), default=0) - 2 if pattern is _LAST_LABEL else 0
        hit = find_first(pattern, bare, choices, re.DOTALL, start=start) or ""
        label = next((item for item in choices if item in hit), None)
        if label is not None:
            return label
    return None


_REFUSALS = (
    "Sorry, I can't help with images of people yet.", "I can't process this file.",
    "I'm sorry, but without the image provided", "Cannot determine the answer",
)  # fmt: skip
#: What ends a word, as white space does; and what is part of one.
_BREAKS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_IN_WORD = r"[^\s.()\[\],:;!*#{}]"
#: A label is near the end when fewer than so many words follow it.
_NEAR_END = 4


def _read_vlmevalkit(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    # No label with a break in it is found where they are taken out.
    words = text
    if any(label.translate(_BREAKS) != label for label in choices):
        words = text.translate(_BREAKS)
    ends: dict[str, int] = {}
    pattern = compile_labels(_write_lone(tuple(choices), _IN_WORD), tuple(choices))
    for match in pattern.finditer(words):
        ends.setdefault(match["found"], match.end())
    if any(phrase in text for phrase in _REFUSALS):
        return None
    if not ends and find_first(_write_lone(("Z",), _IN_WORD), words, ("Z",)):
        return None
    if len(ends) == 1:
        label, end = ends.popitem()
        if len(words[end:].translate(_BREAKS).split(None, _NEAR_END)) < _NEAR_END:
            return label
    return _find_only_text(text.lower(), choices, options)


def _find_only_text(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    """Return the only option whose text occurs, if the text is not much longer than all of them."""
    if len(text) > 2 * sum(map(len, options)):
        return None
    labels = []
    for label, option in zip(choices, options, strict=False):
        if option.lower() in text:
            labels.append(label)
    return labels[0] if len(labels) == 1 else None


_ALL = (
    Extractor(
        "lm-eval",
        "the last capital in parentheses, else the last text of an option without case "
        "and punctuation,"
        " else the last label right after a colon",
        _read_lm_eval,
        reads_options=True,
    ),
    Extractor(
        "lighteval",
        'the last label after "final answer is", else up to 50 characters after '
        '"answer" and a colon, else'
        " after that word, else at the start of the text, of a line, after a space, "
        "else anywhere, be it part"
        " of a word",
        _read_lighteval,
    ),
    Extractor(
        "opencompass",
        "the first of some thirty Chinese and English cues that matches, else the "
        "first label anywhere,"
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
        "the last line `ANSWER: X` with nothing after the label, else the last "
        "`ANSWER: X` anywhere; case,"
        " and stars, dollars or parentheses around the label, do not matter; words or "
        "a second label after"
        " it are no answer",
        _read_inspect,
    ),
    Extractor(
        "evalscope",
        "the label after the last `ANSWER:` that has one, else the last capital of the text",
        _read_evalscope,
    ),
    Extractor(
        "simple-evals",
        "the first `Answer: X` in one of many languages, after Markdown and LaTeX are "
        "taken off; A to D"
        " alone, and the case of the letter counts",
        _read_simple_evals,
    ),
    Extractor(
        "MMLU-Pro",
        'the first "answer is X", else the last "Answer: X" of the first line with '
        "one, else the last A to"
        " J that stands alone, the pronoun I included; its random guess is left out",
        _read_mmlu_pro,
    ),
    Extractor(
        "VLMEvalKit",
        "the only label among the words if it is near the end, else the only option "
        "whose text occurs, in a"
        " short text; its judge and its random guess are left out",
        _read_vlmevalkit,
        reads_options=True,
    ),
    Extractor(
        "OLMES",
        'the last "the answer is (X)", else the last "answer is X" or "answer: X", '
        "else the last (X),"
        " else the last label that stands alone; its score for the format is left out",
        _read_olmes,
    ),
    Extractor(
        "compl-ai",
        "a capital at the start before a blank or the end, else a capital at the end "
        "after a blank; it"
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
EXTRACTORS: dict[str, Extractor] = {item.name: item for item in _ALL}
