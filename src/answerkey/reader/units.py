"""A text in units: words, phrases and marks with the role of each, the labels among them, and option texts.

The words of all languages stand in `words/`, a file for each language: roles, a colon, words and phrases.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from itertools import accumulate

from answerkey.reader.characters import LINE_BREAKS, SPACES, WHITE_SPACE, compose

# The parts that words play in stating an answer, as bits: a word may play several.

#: `answer`, and in languages that need nothing between it and the label, BARE as well.
ANSWER = 1 << 0
BARE = 1 << 1
OPTION = 1 << 2
#: `is`, `must be`; `might be` and `probably` are MAYBE.
BE = 1 << 3
MAYBE = 1 << 4
#: Words that change nothing between a cue and its label: articles, `clearly`, `following`.
FILL = 1 << 5
RIGHT = 1 << 6
WRONG = 1 << 7
NOT = 1 << 8
#: A negation that follows what it negates: `B가 아닙니다`, `B değil`.
NOT_AFTER = 1 << 9
PICK = 1 << 10
THINK = 1 << 11
SO = 1 << 12
IT = 1 << 13
OR = 1 << 14
AND = 1 << 15
IF = 1 << 16
#: Somebody else's opinion, or an earlier one: `many would say`, `at first`.
SAYS = 1 << 17
#: What comes replaces what was said; UNDO takes it back even if nothing comes.
FIX = 1 << 18
UNDO = 1 << 19
#: Words that may follow a label and cannot follow an article: `because`, `which`.
AFTER = 1 << 20
#: `to`, `for`, `of`: more words may stand between `answer` and `is`.
PREP = 1 << 21
LEAVE = 1 << 22
DROP = 1 << 23
MATCH = 1 << 24
NONE = 1 << 25
YES = 1 << 26
BUT = 1 << 27
QUESTION = 1 << 28
REFUSE = 1 << 29
#: `my`, `final`, `only`: makes an option word a cue (`my choice is`).
OWN = 1 << 30
#: A correction that names no new answer itself: `that is wrong`.
MUTE = 1 << 31
#: Endings that touch a label: `나입니다`, `B'dir`.
ENDING = 1 << 32

ROLES: dict[str, int] = {
    name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)
}


# The marks around and between labels: dress, brackets, links, joints, ends of sentences.

_EMPHASIS = {sign * count for sign in "*_`" for count in range(1, 5)} | {"~~"}
_QUOTES = set("\"'\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a")
_QUOTES |= set("\u300c\u300d\u300e\u300f")
_STYLES = ("text", "textbf", "textit", "textrm", "textsf", "texttt", "emph", "underline", "operatorname")
_FONTS = ("mathbf", "mathrm", "mathit", "mathsf", "mathtt", "bf", "rm", "displaystyle", "large", "huge")
_BOXES = ("boxed", "fbox", "framebox")
_LATEX = {f"\\{name}" for name in (*_STYLES, *_FONTS, *_BOXES, *"()[]{}")} | {"$", "$$"}
_HTML = {f"<{slash}{name}>" for name in ("b", "strong", "i", "em", "u", "p", "mark") for slash in ("", "/")}
_BRACKETS_OPEN = set("([{\u3008\u300a\u3010\u3014\u3016\u3018\uff08\uff3b\uff5b\u27e8")
_BRACKETS_CLOSE = set(")]}\u3009\u300b\u3011\u3015\u3017\u3019\uff09\uff3d\uff5d\u27e9")

#: What carries no meaning in any place: emphasis, quotes, LaTeX and HTML.
DRESS = frozenset(_EMPHASIS | _QUOTES | _LATEX | _HTML)
OPEN = DRESS | _BRACKETS_OPEN
CLOSE = DRESS | _BRACKETS_CLOSE
WRAPPING = OPEN | CLOSE
MATHEMATICS = frozenset({"$", "$$", "\\(", "\\["})
ROUND_OPEN = frozenset("(\uff08")
ROUND_CLOSE = frozenset(")\uff09")

COLONS = frozenset(":\uff1a\ufe55")
HYPHENS = frozenset("-\u2010\u2011\uff0d")
DASHES = HYPHENS | {"--", "---", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212"}
ARROWS = frozenset({"->", "-->", "=>", "==>", *"\u2192\u21d2\u27a1\u27f9\u2794\u27a4", "\u27a1\ufe0f"})
EQUALS = frozenset({"=", "==", "\uff1d"})
LINKS = COLONS | DASHES | ARROWS | EQUALS
COMMAS = frozenset(",\uff0c\u060c\u3001")
JOINTS = COMMAS | frozenset("/&+;\u037e\uff0f\uff06\uff1b\u061b")
STOPS = frozenset(".!?;\u3002\uff01\uff1f\u0964\u061f\u2026\u06d4\uff0e\uff1b\u061b\u037e")
QUESTION_MARKS = frozenset("?\uff1f\u061f")

#: Marks that a label carries in a list, and what a line may begin with.
LABEL_MARKS = frozenset(".):,-]\uff0e\uff09\uff1a\u3001\uff0c\u2013\u2014")
BULLETS = ARROWS | {"-", "*", "+", ">", *("#" * count for count in range(1, 7))}
BULLETS |= frozenset("\u2022\u25cf\u25a0\u25aa\u00b7\u2023\u25ba\U0001f449")

#: Directly after a label these make it something else: `C++`, `A^2`, `4%`; after a number they go on with it.
SPOILING = frozenset("+#^%=\\\u00b0\u00b2\u00b3\u20ac\u00a3")
OPERATORS = frozenset({*"+-*/=&^%\u00d7\u00f7\u2212\u00b7", "\\times", "\\cdot", "\\%"})


# Text in tokens: words (by script), numbers, marks, tags, LaTeX commands and line breaks.

_COMBINING = "\u0300-\u036f"
_EXTENDERS = "\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff"
_LATIN = f"A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff{_COMBINING}"
_GREEK = f"\u0370-\u03ff\u1f00-\u1fff{_COMBINING}"
_CYRILLIC = f"\u0400-\u052f\u1c80-\u1c8f{_COMBINING}"
_HEBREW = "\u0591-\u05bd\u05bf-\u05f4"
_ARABIC_RUN = "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
_ARABIC_RUN += "\ufb50-\ufdff\ufe70-\ufefc\u200c\u200d"
_INDIA = "\u0900-\u0963\u0970-\u09e5\u09f0-\u0a65\u0a70-\u0ae5\u0af0-\u0b65\u0b70-\u0be5\u0bf0-\u0c65"
_INDIA += "\u0c70-\u0ce5\u0cf0-\u0d65\u0d70-\u0dff\u200c\u200d"
_INDOCHINA = "\u0e01-\u0e4f\u0e80-\u0ecf\u1000-\u103f\u1780-\u17d3"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
_WIDE = "\uff21-\uff3a\uff41-\uff5a"
_MATHEMATICAL = "\U0001d400-\U0001d7cb"

#: One run for each script, so that `B입니다` is a label and a word; Chinese and hiragana go by the character.
_RUNS = (
    _GREEK,
    _CYRILLIC,
    _HEBREW,
    _ARABIC_RUN,
    _INDIA,
    _INDOCHINA,
    _KATAKANA,
    _HANGUL,
    _WIDE,
    _MATHEMATICAL,
)

_ELISION = "(?:[cdjlmnstCDJLMNST]|[Qq]u)"
_TAG = r"</?[A-Za-z][A-Za-z0-9_:.\-]{0,40} ?/?>|<\|[A-Za-z_]{1,40}\|>|\[/?[A-Za-z]{3,12}\]"
_SIGN_RUNS = r"\\[A-Za-z]+|\\[()\[\]{}]|[-=]+>|\*+|_+|`+|~+|#+|\$+|=+|-+"

#: More white space on end than any rule counts: the rest of it, up to its last line break, is one gap.
_MOST_BLANKS = 256
_ASCII_SPACES = r" \t\x1f"
_ASCII_BREAKS = r"\n\x0b\x0c\r\x1c-\x1e"


def _write_gap(spaces: str, breaks: str) -> str:
    blank = f"[{spaces}{breaks}]"
    return f"((?<={blank}{{{_MOST_BLANKS}}}){blank}+(?=[{breaks}])|[{spaces}]*)"


_ASCII = re.compile(
    rf"{_write_gap(_ASCII_SPACES, _ASCII_BREAKS)}(\r\n|[{_ASCII_BREAKS}]|{_ELISION}'(?=[A-Za-z])"
    rf"|[A-Za-z]+(?:'[A-Za-z]+)*|[0-9]+(?:[.,:][0-9]+)*|{_TAG}|{_SIGN_RUNS}|[^ \t\x1f])"
)

_ANY = re.compile(
    rf"{_write_gap(SPACES, LINE_BREAKS)}(\r\n|[{LINE_BREAKS}]|{_ELISION}['\u2019](?=[{_LATIN}])"
    rf"|[{_LATIN}]+(?:['\u2019][{_LATIN}]+)*|\d+(?:[.,:]\d+)*[{_EXTENDERS}]*"
    rf"|{_TAG}|\u25c1/?think\u25b7|{_SIGN_RUNS}|{'|'.join(f'[{run}]+' for run in _RUNS)}"
    rf"|[^{SPACES}](?:[{_EXTENDERS}{_COMBINING}]|\u200d[^{SPACES}{LINE_BREAKS}])*)"
)


def split_tokens(text: str) -> list[tuple[str, str]]:
    """Return the spaces before each token, and the token; white space at the end is left out."""
    text = text.rstrip(WHITE_SPACE)
    return (_ASCII if text.isascii() else _ANY).findall(text)


# The words of all languages in one place: what part a word, or the longest phrase from it on, plays.

#: Marks that Arabic may or may not write, the lengthening stroke, and alefs that are often written bare.
_ARABIC_FORMS: dict[int, str | None] = {
    **dict.fromkeys((0x640, *range(0x64B, 0x660), 0x670)),
    **dict.fromkeys((0x622, 0x623, 0x625), "\u0627"),
}

#: A longer token is no word of the lexicon; composing long runs of marks takes quadratic time.
_LONGEST_TOKEN = 64
_SHORTEST_FOLDED = 3


@dataclass(slots=True)
class Branch:
    """The roles of the words so far, and the words that may follow them in a phrase."""

    roles: int = 0
    following: dict[str, Branch] = field(default_factory=dict)


def normalize_word(token: str) -> str:
    """Return a token as the lexicon spells it: lower case, one spelling for each letter; never empty."""
    if token.isascii():
        return token.lower()
    if len(token) <= _LONGEST_TOKEN:
        token = unicodedata.normalize("NFKC", token)
    word = token.lower().replace("\u2019", "'")
    return word.translate(_ARABIC_FORMS) or word  # a line that only stretches letters has none


def fold_accents(word: str) -> str:
    """Return a Latin word without accents, for those who write `reponse`; short words keep theirs."""
    if not _SHORTEST_FOLDED < len(word) <= _LONGEST_TOKEN or not "\u00c0" <= max(word) < "\u0250":
        return word
    return "".join(one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one))


@cache
def load_lexicon() -> dict[str, Branch]:
    """Return the tree of all words and phrases, by first word."""
    tree = Branch()
    for roles, phrases in list_words():
        flags = 0
        for role in roles:
            flags |= ROLES[role]
        for words in (words for phrase in phrases for words in _spell_phrase(phrase)):
            branch = tree
            for word in words:
                branch = branch.following.setdefault(word, Branch())
            branch.roles |= flags
    return tree.following


def list_words() -> Iterator[tuple[list[str], list[str]]]:
    """Yield roles, and the words and phrases that play them, line by line."""
    folder = resources.files(__package__) / "words"
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                roles, _, words = line.partition(": ")
                yield roles.split(), words.split(", ")


def _spell_phrase(phrase: str) -> Iterator[list[str]]:
    """Yield the words of a phrase, as written and without accents."""
    if phrase.endswith("'"):
        yield [phrase]
        return
    is_plain = phrase.isascii() and phrase.replace(" ", "").isalpha()
    words = phrase.split() if is_plain else [normalize_word(token) for _, token in split_tokens(phrase)]
    yield words
    plain = words if is_plain else [fold_accents(word) for word in words]
    if plain != words:
        yield plain


# The choices of a row as labels in a text, in every spelling that cannot be mistaken.

#: Longer tokens are no label: room for `viii` and for a letter with its marks.
LONGEST_LABEL = 8

_DECORATION = "().\ufe0e\ufe0f\u20e3"


@dataclass(frozen=True, eq=False)
class Labels:
    """The choices by what may be written for them; `fold` gives a token the form of the keys.

    `is_plain`: neither case nor typography tells two choices apart.
    """

    choices: tuple[str, ...]
    by_key: dict[str, str]
    fold: Callable[[str], str]
    is_plain: bool

    def find(self, token: str, word: str) -> str | None:
        """Return the choice that a token names; `word` is the token as the lexicon spells it."""
        if self.is_plain and token.isascii():
            return self.by_key.get(word)
        return self.by_key.get(self.fold(token)) if len(token) <= LONGEST_LABEL else None

    def resembles(self, token: str) -> bool:
        """Say whether a token looks like a label of the same kind that is not among the choices: `E`."""
        if len(token) != 1 or not token.isalnum():
            return False
        return _find_kind(token) in {_find_kind(choice[0]) for choice in self.choices}


@lru_cache(maxsize=256)
def read_labels(choices: tuple[str, ...]) -> Labels:
    """Return the labels of these choices, read as freely as keeps all of them apart."""
    for fold in (_fold_all, _fold_forms):
        by_key = {fold(choice): choice for choice in choices}
        if len(by_key) == len(choices):
            return Labels(choices, by_key, fold, fold is _fold_all)
    return Labels(choices, {choice: choice for choice in choices}, compose, is_plain=False)


def _fold_all(token: str) -> str:
    return normalize_word(_fold_forms(token))


def _fold_forms(token: str) -> str:
    """Return a token without typographic variety: full-width, circled, bold, other digits; case stays."""
    token = unicodedata.normalize("NFKC", token)
    bare = token.strip(_DECORATION) or token
    return "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in bare)


def _find_kind(character: str) -> tuple[bool, bool, str]:
    script = unicodedata.name(character, "?").partition(" ")[0]
    return character.isupper(), character.isdecimal(), script


# A text in units: words, phrases and marks with the part that each plays, and the labels among them.

#: The word of a line break, whichever it is.
BREAK = "\n"

_FIRST_HANGUL = "\uac00"
_OTHER_BREAKS = re.compile(f"[{LINE_BREAKS[1:]}]")


@dataclass(frozen=True, slots=True)
class Units:
    """Lists of the same `size`: words with the spaces before them, roles, labels, and where they end.

    A unit is a token, or a phrase of several; the word of a phrase is empty. `raw` holds the words of all
    tokens, and `places` where each unit begins among them.
    """

    text: str
    raw: list[str]
    places: Sequence[int]
    gaps: list[str]
    words: list[str]
    roles: list[int]
    labels: list[str | None]
    ends: list[int]
    size: int

    def start(self, at: int) -> int:
        """Return where a unit begins in the text."""
        return (self.ends[at - 1] if at else 0) + len(self.gaps[at])

    def token(self, at: int) -> str:
        """Return a unit as it is written."""
        return self.text[self.start(at) : self.ends[at]]


def split_units(text: str, labels: Labels) -> Units:
    """Return the text in units; the longest phrase wins."""
    lexicon = load_lexicon()
    if text.isascii() and labels.is_plain and "'" not in text:
        found = split_tokens(text.lower())
        raw = [token for _, token in found]
        branches = list(map(lexicon.get, raw))
        names = list(map(labels.by_key.get, raw))
    else:
        found = split_tokens(text)
        raw = [normalize_word(token) for _, token in found]
        # A word beyond ASCII may be written without its accents.
        branches = [
            lexicon.get(word) or (None if word.isascii() else lexicon.get(fold_accents(word))) for word in raw
        ]
        names = [_find_choice(labels, token, word) for (_, token), word in zip(found, raw, strict=True)]
    ends = list(accumulate(len(gap) + len(token) for gap, token in found))
    if _OTHER_BREAKS.search(text):
        raw = [BREAK if word[:1] in LINE_BREAKS else word for word in raw]
    roles = [0 if branch is None else branch.roles for branch in branches]
    units = Units(text, raw, range(len(raw)), [gap for gap, _ in found], raw, roles, names, ends, len(raw))
    phrases = list(_find_phrases(raw, branches))
    return _join_phrases(units, phrases) if phrases else units


def _find_choice(labels: Labels, token: str, word: str) -> str | None:
    if len(token) > LONGEST_LABEL:
        return None
    found = labels.find(token, word)
    if found is not None or len(word) == 1 or not (word[1] == "'" or word[0] >= _FIRST_HANGUL):
        return found
    ending = load_lexicon().get(word[1:].removeprefix("'"))
    return labels.find(token[0], word[0]) if ending is not None and ending.roles & ENDING else None


def _find_phrases(raw: list[str], branches: list[Branch | None]) -> Iterator[tuple[int, int, int]]:
    """Yield where the phrases of several words begin and end, and their roles."""
    position, count = 0, len(raw)
    for at, first in enumerate(branches):
        if first is None or not first.following or at < position:
            continue
        branch, end, roles, further = first, at + 1, 0, at + 1
        while further < count and (following := branch.following.get(raw[further])) is not None:
            branch = following
            further += 1
            if branch.roles:
                end, roles = further, branch.roles
        if roles:
            position = end
            yield at, end, roles


def _join_phrases(units: Units, phrases: Sequence[tuple[int, int, int]]) -> Units:
    """Return the units with the tokens of each phrase as one."""
    last = {begin: end - 1 for begin, end, _ in phrases}
    within = {at for begin, end, _ in phrases for at in range(begin + 1, end)}
    kept = [at for at in range(units.size) if at not in within]
    for begin, _, roles in phrases:
        units.roles[begin], units.labels[begin] = roles, None
    return Units(
        units.text,
        units.raw,
        kept,
        [units.gaps[at] for at in kept],
        ["" if at in last else units.raw[at] for at in kept],
        [units.roles[at] for at in kept],
        [units.labels[at] for at in kept],
        [units.ends[last.get(at, at)] for at in kept],
        len(kept),
    )


# The texts of the options, and where a completion writes one of them in full.

#: The first word of an option begins within so many characters, whatever stands before it.
_OPTION_PREFIX = 64
_LONG_WORD = 16

_ENGLISH_ARTICLES = ("the", "a", "an")
_ROMANCE_ARTICLES = ("le", "la", "les", "un", "une", "el", "los", "las", "una", "il", "lo", "gli", "os", "as")
_ARTICLES = frozenset(
    (*_ENGLISH_ARTICLES, *_ROMANCE_ARTICLES, "um", "uma", "der", "die", "das", "ein", "eine")
)
_AFTER_LABEL = LABEL_MARKS | CLOSE

#: The words of an option, and the choice that it belongs to; None if several options have these words.
_Entry = tuple[tuple[str, ...], str | None]


@dataclass(frozen=True, slots=True)
class FoundText:
    """An option's text in a completion: the choice (None if several options have that text), and its end."""

    choice: str | None
    end: int


@dataclass(frozen=True, slots=True)
class OptionTexts:
    """The options as they are written; their words are found once they are needed."""

    options: tuple[str, ...]
    labels: Labels | None
    prefixes: str = ""

    def find(self, units: Units, at: int) -> FoundText | None:
        """Return the longest option text that begins with the unit at `at`."""
        if self.labels is None or at >= units.size:
            return None
        raw, begin = units.raw, units.places[at]
        if not self._may_begin(raw[begin]):
            return None
        best: tuple[int, str | None] | None = None
        for words, choice in _spell_options(self.options, self.labels).get(raw[begin], ()):
            end = _match(raw, begin, words)
            if end and (best is None or end > best[0]):
                best = end, choice
        return best and FoundText(best[1], bisect_left(units.places, best[0]))

    def _may_begin(self, word: str) -> bool:
        """Say whether an option may begin with this word; quick, and never wrongly no."""
        return (
            word in self.prefixes
            or len(word) > _LONG_WORD
            or not word.isascii()
            or not self.prefixes.isascii()
        )

    def is_own(self, units: Units, at: int, choice: str | None) -> bool:
        """Say whether the text of this choice begins at `at`."""
        found = self.find(units, at)
        return found is not None and found.choice == choice


NO_TEXTS = OptionTexts((), None)


def read_texts(options: Sequence[str] | None, labels: Labels) -> OptionTexts:
    """Return the texts of the options, which are in the order of the choices; more than those are ignored."""
    if not options:
        return NO_TEXTS
    texts = tuple(options[: len(labels.choices)])
    return OptionTexts(texts, labels, "\n".join([text.lstrip()[:_OPTION_PREFIX].lower() for text in texts]))


def _match(raw: list[str], begin: int, words: tuple[str, ...]) -> int:
    """Return where the words end that begin here, emphasis between them ignored; 0 if they are others."""
    at, size = begin, len(raw)
    for word in words:
        while at < size and raw[at] != word and raw[at] in DRESS and at < begin + 2 * len(words):
            at += 1
        if at >= size or raw[at] != word:
            return 0
        at += 1
    return at


@lru_cache(maxsize=1024)
def _spell_options(options: tuple[str, ...], labels: Labels) -> dict[str, list[_Entry]]:
    """Return the words of the options by the first of them, and without an article that they begin with."""
    named = list(zip(options, labels.choices, strict=False))
    spelled = [(_spell_option(text, choice, labels), choice) for text, choice in named]
    owners: dict[tuple[str, ...], list[str]] = {}
    for words, choice in spelled:
        owners.setdefault(words, []).append(choice)
    for words, choice in spelled:
        if len(words) > 1 and words[0] in _ARTICLES and words[1:] not in owners:
            owners[words[1:]] = [choice]
    by_first: dict[str, list[_Entry]] = {}
    for words, choices in owners.items():
        if words:
            by_first.setdefault(words[0], []).append((words, choices[0] if len(choices) == 1 else None))
    return by_first


def _spell_option(text: str, choice: str, labels: Labels) -> tuple[str, ...]:
    """Return the words of an option without its own label (`(A) Paris`), emphasis and a full stop."""
    tokens = [token for _, token in split_tokens(text.strip())]
    words = [normalize_word(token) for token in tokens]
    begin = _skip_label(tokens, words, choice, labels=labels)
    kept = [word for word in words[begin:] if word not in DRESS]
    while len(kept) > 1 and kept[-1] in STOPS:
        kept.pop()
    return tuple(kept)


def _skip_label(tokens: Sequence[str], words: Sequence[str], choice: str, *, labels: Labels) -> int:
    at = 0
    while at < len(words) and words[at] in OPEN:
        at += 1
    if at + 2 >= len(words) or words[at + 1] not in _AFTER_LABEL:
        return 0
    return at + 2 if labels.find(tokens[at], words[at]) == choice else 0


# Where a label can stand: what may be before it and after it without making it something else.

#: How many brackets and marks of emphasis may stand around a label: the work at one place is bounded.
WRAPS = 6

#: Labels that are words, too, and the verbs that may follow them all the same.
_WORDS = frozenset({"a", "i"})
_VERBS = frozenset({"is", "are", "ist", "est", "es", "\u00e8", "\u00e9", "\u4e3a", "\u662f"})
#: A conjunction in French, and a noun in English.
_CAR = "car"

_FOLLOWING = AFTER | BE | OR | AND | BUT | IF | FIX
#: Parts of verbs that end a sentence: `B नहीं है`, `B चुनता हूँ`.
_FOREIGN = PICK | NOT_AFTER | RIGHT | ANSWER
_PARTICLES = BE | OPTION | FILL | RIGHT | WRONG | AND | OR | AFTER | MAYBE


@dataclass(frozen=True, slots=True)
class Scan:
    """What a text is read with: its units, the labels of its choices, and the texts of its options."""

    units: Units
    labels: Labels
    texts: OptionTexts


def find_label(units: Units, at: int) -> int | None:
    """Return where the label is that begins here, after brackets and emphasis."""
    words, gaps, labels = units.words, units.gaps, units.labels
    for position in range(at, min(at + WRAPS, len(words))):
        if position > at and gaps[position] and words[position - 1] in DRESS:
            return None
        if labels[position] is not None:
            return position
        if words[position] not in OPEN:
            return None
    return None


def close_label(units: Units, position: int) -> int:
    """Return the first unit after a label and what closes its wrapping."""
    at, end = position + 1, min(position + WRAPS, units.size)
    while at < end and units.words[at] in CLOSE and not units.gaps[at]:
        at += 1
    return at


def is_word(units: Units, at: int) -> bool:
    """Say whether the unit is a word, a number or a phrase."""
    return at < units.size and (not units.words[at] or units.words[at][0].isalnum())


def is_end(units: Units, at: int) -> bool:
    """Say whether the text or its line ends here."""
    return at >= units.size or units.words[at] == BREAK


def begins_well(units: Units, position: int) -> bool:
    """Say whether nothing before a label makes it part of a word or a number."""
    if position == 0 or units.gaps[position]:
        return True
    before, token = units.token(position - 1), units.token(position)
    if before[-1:].isalnum():
        return not (before[-1:].isascii() and token.isascii())
    if before in HYPHENS:
        is_joined = position > 1 and not units.gaps[position - 1] and is_word(units, position - 2)
        return not is_joined and not token.isdecimal()
    return not (before == "$" and token.isdecimal() and "$" not in units.words[position + 1 : position + 3])


def stands(scan: Scan, position: int) -> bool:
    """Say whether a label is set off from what follows it."""
    units = scan.units
    at = close_label(units, position)
    if is_end(units, at):
        return True
    if not is_word(units, at):
        return _may_open(scan, position, at) if units.gaps[at] else not _spoils(scan, at)
    if not units.gaps[at]:
        return _may_touch(units, position, at)
    if at > position + 1 and units.words[at - 1] != "_":
        return True
    return _may_follow(scan, position, at)


def _may_open(scan: Scan, position: int, at: int) -> bool:
    """Say whether a mark after a label and a space sets it off; emphasis and quotes belong to their words."""
    units, end = scan.units, at
    while end < min(at + WRAPS, units.size) and units.words[end] in DRESS:
        end += 1
    if end == at or not is_word(units, end):
        return True
    return scan.texts.is_own(units, end, units.labels[position])


def _spoils(scan: Scan, at: int) -> bool:
    """Say whether the mark right after a label makes it something else: `C++`, `A-level`, `f(x)`, `i.e.`."""
    units, word = scan.units, scan.units.words[at]
    if word in {"(", "["}:
        return scan.texts.find(units, at + 1) is None
    if word in SPOILING:
        return True
    if at + 1 >= units.size:
        return False
    if word in HYPHENS or word == "/":
        return not units.gaps[at + 1] and is_word(units, at + 1) and units.labels[at + 1] is None
    following = units.words[at + 1]
    is_initial = len(following) == 1 and following.isalpha() and units.words[at + 2 : at + 3] == ["."]
    return word == "." and is_initial


def _may_touch(units: Units, position: int, at: int) -> bool:
    """Say whether a word may stand directly after a label: in another script, as in `B입니다`."""
    label = units.token(position)
    if label.isascii() and units.token(at).isascii():
        return False
    if label.isascii() and label.isalpha():
        return bool(units.roles[at])
    return bool(units.roles[at] & _PARTICLES)


def _may_follow(scan: Scan, position: int, at: int) -> bool:
    """Say whether the word after a label, and after a space, leaves it a label: `B because`."""
    units = scan.units
    roles, word, token = units.roles[at], units.words[at], units.token(position)
    if token.lower() in _WORDS and (roles & BE or word == _CAR):
        return word in _VERBS
    if roles & _FOLLOWING or (roles & NOT and not roles & WRONG):
        return True
    if (roles & OPTION and token.isupper()) or (roles & _FOREIGN and not units.token(at).isascii()):
        return True
    return scan.texts.is_own(units, at, units.labels[position])


# Labels that are joined to others: `A or B`, `A, B and C`, `A (Paris) / B (Lyon)`, `A-C`.

#: The longest remark in brackets after a label, and the most light words after a joint.
_ASIDE = 16
_MOST_LIGHT = 3

_PLURALS = frozenset({"are", "sind", "sont", "son", "sono", "s\u00e3o"})
_JOINING = JOINTS | DASHES


def find_joined(scan: Scan, position: int) -> int | None:
    """Return where the label is that is joined to the one at `position`."""
    units = scan.units
    end = close_label(units, position)
    for begin in dict.fromkeys((end, skip_remark(scan, end, str(units.labels[position])))):
        further = _skip_joint(units, begin)
        joined = None if further is None else find_label(units, further)
        if joined is not None and _is_another(scan, joined, is_direct=further == begin + 1):
            return joined
    return None


def skip_remark(scan: Scan, at: int, choice: str) -> int:
    """Return the first unit after a remark in brackets or the option's own text; `at` if there is none."""
    units = scan.units
    begin = at + 1 if at < units.size and units.words[at] in LABEL_MARKS else at
    while begin < min(at + WRAPS, units.size) and units.words[begin] in OPEN:
        begin += 1
    text = scan.texts.find(units, begin)
    if text is not None and text.choice == choice:
        end = text.end
        while end < min(text.end + WRAPS, units.size) and units.words[end] in CLOSE:
            end += 1
        return end
    if at >= units.size or units.words[at] not in ROUND_OPEN:
        return at
    for end in range(at + 1, min(at + _ASIDE, units.size)):
        if units.words[end] in ROUND_CLOSE:
            return end + 1
        if units.words[end] == BREAK:
            break
    return at


def _skip_joint(units: Units, at: int) -> int | None:
    """Return where a joined label may begin: after `,`, `/`, `or`, `, or`, or a dash without spaces."""
    if at >= units.size:
        return None
    begin, word = at, units.words[at]
    if word in DASHES:
        is_tight = not units.gaps[at] and at + 1 < units.size and not units.gaps[at + 1]
        return at + 1 if is_tight else None
    if word in JOINTS:
        at += 1
    if at < units.size and units.roles[at] & (OR | AND):
        at += 1
    return None if at == begin else _skip_light(units, at)


def _skip_light(units: Units, at: int) -> int | None:
    """Return the first unit that is a label or no light word: `or the option B`."""
    for further in range(at, min(at + _MOST_LIGHT, units.size)):
        is_label = units.labels[further] is not None and not is_word(units, further + 1)
        if is_label or not units.roles[further] & (FILL | OPTION | MAYBE):
            return further
    return None


def _is_another(scan: Scan, position: int, *, is_direct: bool) -> bool:
    """Say whether a label after a joint is one more answer, and not the beginning of something else."""
    units = scan.units
    if not stands(scan, position):
        following = units.words[position + 1 : position + 2]
        return is_direct and bool(following) and following[0] in _JOINING
    at = close_label(units, position)
    if at < units.size and units.roles[at] & BE and units.words[at] not in _PLURALS:
        further = units.roles[at] | (units.roles[at + 1] if at + 1 < units.size else 0)
        return not further & (NOT | WRONG)
    return True


# Labels as a text names them: one, or several joined, set off from the words around them.

#: More labels than these are a list of something else.
MANY = 26

_BETWEEN = LABEL_MARKS | OPEN | DASHES
_TEXT_ENDS = CLOSE | STOPS | COMMAS


@dataclass(frozen=True, slots=True)
class Named:
    """The choices that a place in the text names, from one unit to another.

    `is_wrapped`: in brackets, quotes or emphasis. `clashes`: followed by the text of another option.
    """

    choices: tuple[str, ...]
    begin: int
    end: int
    is_wrapped: bool = False
    clashes: bool = False


def read_names(scan: Scan, at: int) -> Named | None:
    """Return the labels named from here on, if they are set off from the words around them."""
    units = scan.units
    position = find_label(units, at)
    if position is None or not begins_well(units, position):
        return None
    found = [position]
    while len(found) < MANY and (further := find_joined(scan, found[-1])) is not None:
        found.append(further)
    if not stands(scan, found[-1]):
        return None
    choices = tuple(dict.fromkeys(str(units.labels[one]) for one in found))
    end = close_label(units, found[-1])
    clashes = len(choices) == 1 and _clashes(scan, end, choices[0])
    return Named(choices, at, end, end > position + 1, clashes)


def _clashes(scan: Scan, end: int, choice: str) -> bool:
    """Say whether the label is followed by the full text of another option, up to the end of its line."""
    units = scan.units
    at, opened = end, False
    while at < min(end + WRAPS, units.size) and units.words[at] in _BETWEEN:
        opened = opened or units.words[at] in ROUND_OPEN
        at += 1
    text = scan.texts.find(units, at)
    if text is None or text.choice == choice:
        return False
    at = text.end
    if opened and at < units.size and units.words[at] in ROUND_CLOSE:
        return True
    while at < min(text.end + WRAPS, units.size) and units.words[at] in _TEXT_ENDS:
        at += 1
    return is_end(units, at)
