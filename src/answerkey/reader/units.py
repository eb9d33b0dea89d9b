"""A text in units: words, phrases and marks with the role of each, and the labels among them.

The words of all languages stand in `words/`, a file for each language: roles, a colon, words and phrases.
"""

from __future__ import annotations

import re
import unicodedata
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
#: `that`, `dass`: what follows depends on the clause before.
THAT = 1 << 33

ROLES: dict[str, int] = {
    name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)
}


# The marks around and between labels: dress, brackets, links, joints, ends of sentences.

_EMPHASIS = {sign * count for sign in "*_`" for count in range(1, 5)} | {"~~"}
QUOTES = set("\"'\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a")
QUOTES |= set("\u300c\u300d\u300e\u300f")
_STYLES = ("text", "textbf", "textit", "textrm", "textsf", "texttt", "emph", "underline", "operatorname")
_FONTS = ("mathbf", "mathrm", "mathit", "mathsf", "mathtt", "bf", "rm", "displaystyle", "large", "huge")
_BOXES = ("boxed", "fbox", "framebox")
_LATEX = {f"\\{name}" for name in (*_STYLES, *_FONTS, *_BOXES, *"()[]{}")} | {"$", "$$"}
_HTML = {f"<{slash}{name}>" for name in ("b", "strong", "i", "em", "u", "p", "mark") for slash in ("", "/")}
_BRACKETS_OPEN = set("([{\u3008\u300a\u3010\u3014\u3016\u3018\uff08\uff3b\uff5b\u27e8")
_BRACKETS_CLOSE = set(")]}\u3009\u300b\u3011\u3015\u3017\u3019\uff09\uff3d\uff5d\u27e9")

#: What carries no meaning in any place: emphasis, quotes, LaTeX and HTML.
DRESS = frozenset(_EMPHASIS | QUOTES | _LATEX | _HTML)
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

#: `l'option`, `qu'elle`; not `C'dir`, which is Turkish.
_ELISION = (
    "(?:[cdjlmnst]|[CDJLMNST](?!['\u2019](?:[dt](?:[i\u0131u\u00fc]r|[ae]n?)|n[i\u0131]n|y[aei])\\b)|[Qq]u)"
)
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
