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
        if self.reads_options:
            hit = self.find(text, choices, options or ())
        else:
            hit = self.find(text, choices)
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
    pattern: str, text: str, choices: Sequence[str], flags: int = re.NOFLAG
) -> str | None:
    """Return the label in the first match."""
    hit = compile_labels(pattern, tuple(choices), flags).search(text)
    return hit["found"] if hit else None


def find_last(pattern: str, text: str, choices: Sequence[str]) -> str | None:
    """Return the label in the last match; matches do not overlap."""
    label = None
    for hit in compile_labels(pattern, tuple(choices)).finditer(text):
        label = hit["found"]
    return label


@lru_cache(maxsize=_KEPT)
def _write_lone(choices: tuple[str, ...]) -> str:
    """Return the pattern of a label that stands alone, without a word character beside it."""
    # It is faster to search for a label of one character first, and then to look behind it.
    is_usual = all(len(label) == 1 for label in choices)
    return r"(?s:LABEL(?<!\w.)(?!\w))" if is_usual else r"(?<!\w)LABEL(?!\w)"


def _has_answer(text: str) -> bool:
    """Say whether a text has the word in any case, which every `(?i:answer` needs."""
    return "answer" in text.casefold()


#: What every `(?i:answer)\\s*:` needs in a text without case.
_ANSWER_COLON = re.compile(r"answer\s*+:")


# Extractors that look at the text as a whole, or at its two ends.


def _read_whole_text(text: str, _choices: Sequence[str]) -> str | None:
    return text.strip()


def _read_unchanged_text(text: str, _choices: Sequence[str]) -> str | None:
    return text


def _read_start(text: str, choices: Sequence[str]) -> str | None:
    return next(filter(text.startswith, choices), None)


def _read_start_or_end(text: str, _choices: Sequence[str]) -> str | None:
    """Return a capital that stands alone at the start, else at the end, offered or not."""
    for word in (*text.split(None, 1)[:1], *text.rsplit(None, 1)[-1:]):
        if len(word) == 1 and word.isupper():
            return word
    return None


# Extractors that look for a marker such as `ANSWER:` or "answer is", and read the label after it.

_ANY_CASE = re.IGNORECASE
#: Marks that may stand around a label.
_DECOR = r"[*_`$()\[\]{}\"'<> \t]{0,8}"
#: MMLU-Pro offers ten options at most, and looks for these letters whatever a sample offers.
_TEN = tuple(ascii_uppercase[:10])
_FOUR = tuple(ascii_uppercase[:4])
#: The cues of simple-evals, in this order; white space may precede the colon.
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
    hit = _INSPECT_LINE.findall(text) or _INSPECT_ANYWHERE.findall(text)
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
        hit = find_last(_EVALSCOPE, text, choices)
    return hit or next(filter(str.isupper, reversed(text)), None)


def _read_simple_evals(text: str, choices: Sequence[str]) -> str | None:
    bare = _WRAPPING.sub("", text)
    lowered = bare.lower()
    for item in _LOCAL_ANSWERS:
        word, colon = item[:-1], item[-1]
        if word not in lowered:
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
    patterns = []
    if _has_answer(text):
        patterns += [
            r"(?i:the answer is)\s*+:?\s*+\(LABEL\)",
            rf"(?i:answer is|answer:){_DECOR}LABEL(?!\w)",
        ]
    patterns += [r"\(LABEL\)", _write_lone(tuple(choices))]
    return _find_last_of(patterns, text, choices)


def _find_last_of(patterns: Sequence[str], text: str, choices: Sequence[str]) -> str | None:
    """Return the label in the last match of the first pattern that matches."""
    hits = (find_last(pattern, text, choices) for pattern in patterns)
    return next(filter(None, hits), None)


# Extractors with a list of patterns, tried in order, and with the texts of the options.

_BARE = r"(\()?LABEL(?(1)\))"
#: A label with the marks that must follow it, and with those that must precede it as well.
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
    first = 0 if _has_answer(text) else _WITH_ANSWER
    return _find_last_of(_LIGHTEVAL[first:], text, choices)


def _read_lm_eval(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    capitals = re.findall(r"\(([A-Z])\)", text) if "(" in text else ()
    if capitals:
        return str(capitals[-1])
    labels = _fold_options(tuple(options), tuple(choices)) if options else {}
    hit = None if "" in labels or not labels else _find_last_text(_fold(text), labels)
    # A text that ends in white space once its punctuation is gone matches, but has no label.
    if hit:
        return labels.get(hit.strip())
    return find_last(r":\s*LABEL", text, choices) if ":" in text else None


@lru_cache(maxsize=4_096)
def _fold_options(options: tuple[str, ...], choices: tuple[str, ...]) -> dict[str, str]:
    """Return the labels by the folded texts of their options.

    If options have the same text, the last one counts.
    """
    return dict(zip((_fold(item.strip()) for item in options), choices, strict=False))


#: The ASCII characters that are punctuation in Unicode.
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
    ("", r"[\s\uff0c\uff1a:,]LABEL[\u3002\uff0c,.]?$"),
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
        hit = find_first(pattern, bare, choices, re.DOTALL) or ""
        for label in choices:
            if label in hit:
                return label
    return None


_REFUSALS = (
    "Sorry, I can't help with images of people yet.", "I can't process this file.",
    "I'm sorry, but without the image provided", "Cannot determine the answer",
)  # fmt: skip
#: A word, as VLMEvalKit divides a text.
_WORD_BETWEEN_MARKS = re.compile(r"[^\s.()\[\],:;!*#{}]+")
#: A label is near the end when fewer than so many words follow it.
_NEAR_END = 4


def _read_vlmevalkit(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    if any(phrase in text for phrase in _REFUSALS):
        return None
    words = _WORD_BETWEEN_MARKS.findall(text)
    labels = [label for label in choices if label in words]
    if not labels and "Z" in words:
        return None
    if len(labels) == 1 and len(words) - words.index(labels[0]) <= _NEAR_END:
        return labels[0]
    return _find_only_text(text.lower(), choices, options)


def _find_only_text(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:
    """Return the only option whose text occurs, if the text is not much longer than all of them."""
    if len(text) > 2 * sum(map(len, options)):
        return None
    pairs = zip(choices, options, strict=False)
    labels = [label for label, option in pairs if option.lower() in text]
    return labels[0] if len(labels) == 1 else None


_ALL = (
    Extractor(
        "lm-eval",
        "the last capital in parentheses, else the last text of an option without case and "
        "punctuation, else the last label right after a colon",
        _read_lm_eval,
        reads_options=True,
    ),
    Extractor(
        "lighteval",
        'the last label after "final answer is", else up to 50 characters after "answer" and a '
        "colon, else after that word, else at the start of the text, of a line, after a space, "
        "else anywhere, be it part of a word",
        _read_lighteval,
    ),
    Extractor(
        "opencompass",
        "the first of some thirty Chinese and English cues that matches, else the first label "
        "anywhere, be it part of a word",
        _read_opencompass,
    ),
    Extractor(
        "HELM",
        "the whole text, without white space around it, must be the label",
        _read_whole_text,
    ),
    Extractor(
        "Inspect",
        "the last line `ANSWER: X` with nothing after the label, else the last `ANSWER: X` "
        "anywhere; case, and stars, dollars or parentheses around the label, do not matter; words "
        "or a second label after it are no answer",
        _read_inspect,
    ),
    Extractor(
        "evalscope",
        "the label after the last `ANSWER:` that has one, else the last capital of the text",
        _read_evalscope,
    ),
    Extractor(
        "simple-evals",
        "the first `Answer: X` in one of many languages, after Markdown and LaTeX are taken off; "
        "A to D alone, and the case of the letter counts",
        _read_simple_evals,
    ),
    Extractor(
        "MMLU-Pro",
        'the first "answer is X", else the last "Answer: X" of the first line with one, else the '
        "last A to J that stands alone, the pronoun I included; its random guess is left out",
        _read_mmlu_pro,
    ),
    Extractor(
        "VLMEvalKit",
        "the only label among the words if it is near the end, else the only option whose text "
        "occurs, in a short text; its judge and its random guess are left out",
        _read_vlmevalkit,
        reads_options=True,
    ),
    Extractor(
        "OLMES",
        'the last "the answer is (X)", else the last "answer is X" or "answer: X", else the last '
        "(X), else the last label that stands alone; its score for the format is left out",
        _read_olmes,
    ),
    Extractor(
        "compl-ai",
        "a capital at the start before a blank or the end, else a capital at the end after a "
        "blank; it need not be an offered label",
        _read_start_or_end,
    ),
    Extractor(
        "openai/evals",
        "the text must start with a label, whatever follows it",
        _read_start,
    ),
    Extractor(
        "deepeval",
        "the whole text must be the label, character by character",
        _read_unchanged_text,
    ),
)
EXTRACTORS: dict[str, Extractor] = {extractor.name: extractor for extractor in _ALL}
