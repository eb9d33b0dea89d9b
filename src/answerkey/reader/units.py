"""A text in units: words, phrases and marks with the role of each, and the labels among them.

The words of all languages stand in `words/`, a file for each language: roles, a colon, words and
phrases, a bar, and an example with `~` in the place of the words and the choice that it states
(`-`: none).
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import compress
from operator import not_

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
UNDO = 1 << 30
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
QUESTION = 1 << 33
REFUSE = 1 << 29
#: `my`, `final`, `only`: makes an option word a cue (`my choice is`).
OWN = 1 << 28
#: A correction that names no new answer itself: `that is wrong`.
MUTE = 1 << 31
#: Endings that touch a label: `나입니다`, `B'dir`.
ENDING = 1 << 32
#: `that`, `dass`: what follows depends on the clause before.
THAT = 1 << 19

ROLES: dict[str, int] = {
    name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)
}

#: Roles of words that may state or exclude a choice.
CUES = (
    ANSWER
    | OPTION
    | RIGHT
    | PICK
    | THINK
    | IT
    | SO
    | LEAVE
    | MATCH
    | DROP
    | NOT
    | NOT_AFTER
    | FIX
    | MAYBE
)
#: Roles that are looked for in the whole text.
MARKED = CUES | WRONG | BUT | UNDO | QUESTION


# The marks around and between labels: dress, brackets, links, joints, ends of sentences.

_EMPHASIS = {sign * count for sign in "*_`" for count in range(1, 5)} | {"~~"}
QUOTES = set("\"'\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a")
QUOTES |= set("\u300c\u300d\u300e\u300f")
_STYLES = (
    "text",
    "textbf",
    "textit",
    "textrm",
    "textsf",
    "texttt",
    "emph",
    "underline",
    "operatorname",
)
_FONTS = (
    "mathbf",
    "mathrm",
    "mathit",
    "mathsf",
    "mathtt",
    "bf",
    "rm",
    "displaystyle",
    "large",
    "huge",
)
_BOXES = ("boxed", "fbox", "framebox", "box")
_LATEX = {f"\\{name}" for name in (*_STYLES, *_FONTS, *_BOXES, *"()[]{}")} | {"$", "$$"}
_HTML = {
    f"<{slash}{name}>"
    for name in ("b", "strong", "i", "em", "u", "p", "mark")
    for slash in ("", "/")
}
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
ARROWS = frozenset(
    {"->", "-->", "=>", "==>", *"\u2192\u21d2\u27a1\u27f9\u2794\u27a4", "\u27a1\ufe0f"}
)
EQUALS = frozenset({"=", "==", "\uff1d"})
LINKS = COLONS | DASHES | ARROWS | EQUALS
COMMAS = frozenset(",\uff0c\u060c\u3001")
JOINTS = COMMAS | frozenset("/&+;\u037e\uff0f\uff06\uff1b\u061b")
STOPS = frozenset(
    (*".!?;\u3002\uff01\uff1f\u0964\u061f\u2026\u06d4\uff0e\uff1b\u061b\u037e", "...")
)
QUESTION_MARKS = frozenset("?\uff1f\u061f")

#: Marks that a label carries in a list, and what a line may begin with.
LABEL_MARKS = frozenset(".):,-]\uff0e\uff09\uff1a\u3001\uff0c\u2013\u2014")
BULLETS = ARROWS | {"-", "*", "+", ">", *("#" * count for count in range(1, 7))}
BULLETS |= frozenset("\u2022\u25cf\u25a0\u25aa\u00b7\u2023\u25ba\U0001f449")

#: Directly after a label these make it something else: `C++`, `A^2`, `4%`; after a number they go
#: on with it.
SPOILING = frozenset("+#^%=\\\u00b0\u00b2\u00b3\u20ac\u00a3")
OPERATORS = frozenset({*"+-*/=&^%\u00d7\u00f7\u2212\u00b7", "\\times", "\\cdot", "\\%"})


# Text in tokens: words (by script), numbers, marks, tags, LaTeX commands and line breaks.

_COMBINING = "\u0300-\u036f"
_EXTENDERS = "\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff"
_LATIN = f"A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff{_COMBINING}"
_GREEK = f"\u0370-\u03ff\u1f00-\u1fff{_COMBINING}"
_CYRILLIC = f"\u0400-\u052f\u1c80-\u1c8f{_COMBINING}"
_HEBREW = "\u0591-\u05bd\u05bf-\u05f4"
_ARABIC_RUN = (
    "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
)
_ARABIC_RUN += "\ufb50-\ufdff\ufe70-\ufefc\u200c\u200d"
_INDIA = (
    "\u0900-\u0963\u0970-\u09e5\u09f0-\u0a65\u0a70-\u0ae5\u0af0-\u0b65\u0b70-\u0be5\u0bf0-\u0c65"
)
_INDIA += "\u0c70-\u0ce5\u0cf0-\u0d65\u0d70-\u0dff\u200c\u200d"
_INDOCHINA = "\u0e01-\u0e4f\u0e80-\u0ecf\u1000-\u103f\u1780-\u17d3"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
_WIDE = "\uff21-\uff3a\uff41-\uff5a"
_MATHEMATICAL = "\U0001d400-\U0001d7cb"

#: One run for each script, so that `B입니다` is a label and a word; Chinese and hiragana go by the
#: character.
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
_TURKISH_ENDING = "['\u2019](?:[dt](?:[i\u0131u\u00fc]r|[ae]n?)|n[i\u0131]n|y[aei])\\b"
_ELISION = f"(?:[cdjlmnst]|[CDJLMNST](?!{_TURKISH_ENDING})|[Qq]u)"
_TAG = r"</?[A-Za-z][A-Za-z0-9_:.\-]{0,40} ?/?>|<\|[A-Za-z_]{1,40}\|>"
_SIGN_RUNS = r"\\(?:[A-Za-z]++|[()\[\]{}])|[-=]{1,64}+>|-++|=++|\*++|_++|`++|~++|#++|\$++"

#: More white space on end than any rule counts: the rest of it, up to its last line break, is one
#: break.
_MOST_BLANKS = 256
_BLANK = f"[{SPACES}{LINE_BREAKS}]"
_BREAK = rf"(?:\r\n|[{LINE_BREAKS}])"

#: Words and marks of ASCII among ASCII come first: they are the most, and quickly told.
_COMMON = r"[A-Za-z]++(?!'|[^\x00-\x7f])|[.,()?:;!{}\"/&+%^|@\]](?![^\x00-\x7f])"

#: A token, and the spaces before it.
_PIECE = re.compile(
    rf"([{SPACES}]*+)({_COMMON}|\d++(?:[.,:]\d++)*+[{_EXTENDERS}]*+"
    rf"|{_ELISION}['\u2019](?=[{_LATIN}])|[{_LATIN}]++(?:['\u2019][{_LATIN}]++)*+"
    rf"|{_TAG}|{_SIGN_RUNS}|{'|'.join(f'[{run}]++' for run in _RUNS)}"
    rf"|[^{SPACES}{LINE_BREAKS}](?:[{_EXTENDERS}{_COMBINING}]|\u200d[^{SPACES}{LINE_BREAKS}])*+"
    rf"|(?<={_BLANK}{{{_MOST_BLANKS}}}){_BLANK}+(?=[{LINE_BREAKS}]){_BREAK}|{_BREAK})"
)


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text; the spaces between them are left out."""
    return [token for _, token in _PIECE.findall(text.rstrip(WHITE_SPACE))]


# The words of all languages in one place: what part a word, or the longest phrase from it on,
# plays.

#: Marks that Arabic may or may not write, the lengthening stroke, and alefs that are often written
#: bare.
_ARABIC_FORMS: dict[int, str | None] = {
    **dict.fromkeys((0x640, *range(0x64B, 0x660), 0x670)),
    **dict.fromkeys((0x622, 0x623, 0x625), "\u0627"),
}

_FIRST_ARABIC = "\u0622"

WORD_FILES = (
    *(
        "arabic",
        "central_europe",
        "chinese",
        "dutch",
        "english",
        "french",
        "german",
        "hindi",
        "italian",
    ),
    *("japanese", "korean", "nordic", "others", "portuguese", "russian", "signs", "spanish"),
)

#: A longer token is no word of the lexicon; composing long runs of marks takes quadratic time.
_LONGEST_TOKEN = 64
_SHORTEST_FOLDED = 3


@dataclass(slots=True)
class Branch:
    """Words that may stand here: their roles, and what may follow those that phrases go on
    after.
    """

    roles: dict[str, int] = field(default_factory=dict)
    following: dict[str, Branch] = field(default_factory=dict)


def normalize_word(token: str) -> str:
    """Return a token as the lexicon spells it: lower case, one spelling for each letter.

    Never empty.
    """
    if token.isascii():
        return token.lower()
    if len(token) <= _LONGEST_TOKEN:
        token = unicodedata.normalize("NFKC", token)
    word = token.lower().replace("\u2019", "'")
    if max(word) < _FIRST_ARABIC:
        return word
    return word.translate(_ARABIC_FORMS) or word  # a line that only stretches letters has none


def fold_accents(word: str) -> str:
    """Return a Latin word without accents, for those who write `reponse`; short words keep
    theirs.
    """
    if not _SHORTEST_FOLDED < len(word) <= _LONGEST_TOKEN or not "\u00c0" <= max(word) < "\u0250":
        return word
    return "".join(
        one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one)
    )


@cache
def load_lexicon() -> Branch:
    """Return all words and phrases of all languages."""
    lexicon = Branch()
    for names, phrases in list_words():
        roles = 0
        for name in names:
            roles |= ROLES[name]
        for words in (words for phrase in phrases for words in _spell_phrase(phrase)):
            branch = lexicon
            for word in words[:-1]:
                branch.roles.setdefault(word, 0)
                branch = branch.following.setdefault(word, Branch())
            branch.roles[words[-1]] = branch.roles.get(words[-1], 0) | roles
    return lexicon


def list_words() -> Iterator[tuple[list[str], list[str]]]:
    """Yield roles, and the words and phrases that play them, line by line.

    Each ends with an example.
    """
    # The loader reads from an archive, too, and needs none of the modules of `importlib.resources`.
    folder, loader = os.path.dirname(__file__), globals()["__loader__"]  # noqa: PTH120
    for name in WORD_FILES:
        data: bytes = loader.get_data(os.path.join(folder, "words", f"{name}.txt"))  # noqa: PTH118
        for line in data.decode().splitlines():
            if not line.startswith("#"):
                roles, _, words = line.partition(": ")
                yield roles.split(), words.partition(" | ")[0].split(", ")


def _spell_phrase(phrase: str) -> Iterator[list[str]]:
    """Yield the words of a phrase, as written and without accents."""
    if phrase.endswith("'"):
        yield [phrase]
        return
    is_plain = phrase.isascii() and phrase.replace(" ", "").isalpha()
    words = (
        phrase.split() if is_plain else [normalize_word(token) for token in split_tokens(phrase)]
    )
    yield words
    plain = words if is_plain else [fold_accents(word) for word in words]
    if plain != words:
        yield plain


# The choices of a row as labels in a text, in every spelling that cannot be mistaken.

#: Longer tokens are no label: room for `viii` and for a letter with its marks.
LONGEST_LABEL = 8

_DECORATION = "().\ufe0e\ufe0f\u20e3"
#: White letters in black circles and boxes, and the letters of flags.
_BOXED_LETTERS = {
    first + place: chr(ord("A") + place)
    for first in (0x1F150, 0x1F170, 0x1F1E6)
    for place in range(26)
}


@dataclass(frozen=True, eq=False)
class Labels:
    """The choices by what may be written for them; `fold` gives a token the form of the keys.

    `is_plain`: neither case nor typography tells two choices apart.
    """

    choices: tuple[str, ...]
    by_key: dict[str, str]
    fold: Callable[[str], str]
    is_plain: bool
    kinds: frozenset[tuple[bool, bool, str]]

    def find(self, token: str, word: str) -> str | None:
        """Return the choice that a token names; `word` is the token as the lexicon spells it."""
        if self.is_plain and token.isascii():
            return self.by_key.get(word)
        if len(token) > LONGEST_LABEL:
            return None
        return self.by_key.get(_strip_label(word).lower() if self.is_plain else self.fold(token))

    def resembles(self, token: str) -> bool:
        """Say whether a token looks like a label of the same kind that is not among the choices:
        `E`.
        """
        return len(token) == 1 and token.isalnum() and _find_kind(token) in self.kinds


@lru_cache(maxsize=256)
def read_labels(choices: tuple[str, ...]) -> Labels:
    """Return the labels of these choices, read as freely as keeps all of them apart."""
    kinds = frozenset(_find_kind(choice[0]) for choice in choices if choice)
    for fold in (_fold_all, _fold_forms):
        by_key = {fold(choice): choice for choice in choices}
        if len(by_key) == len(choices):
            return Labels(choices, by_key, fold, fold is _fold_all, kinds)
    return Labels(
        choices, {choice: choice for choice in choices}, compose, is_plain=False, kinds=kinds
    )


def _fold_all(token: str) -> str:
    return normalize_word(_fold_forms(token))


def _fold_forms(token: str) -> str:
    """Return a token without typographic variety: full-width, circled, bold, other digits.

    Case stays.
    """
    token = unicodedata.normalize("NFKC", token)
    return _strip_label(token)


def _strip_label(token: str) -> str:
    bare = token.strip(_DECORATION) or token
    if bare.isascii():
        return bare
    bare = bare.translate(_BOXED_LETTERS)
    if not any(map(str.isdecimal, bare)):
        return bare
    return "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in bare)


def _find_kind(character: str) -> tuple[bool, bool, str]:
    script = unicodedata.name(character, "?").partition(" ")[0]
    return character.isupper(), character.isdecimal(), script


# What a token is: its roles, the words that may follow it in a phrase, and the choice that it
# names.

_Entry = tuple[int, Branch | None, str | None]
#: What a token is that is nothing of these; among the words, that of a line break.
_NO_ENTRY: _Entry = (0, None, None)
FIRST_HANGUL = "\uac00"


@lru_cache(maxsize=64)
def _list_entries(labels: Labels | None = None) -> dict[str, _Entry]:
    """Return all words that play a role, begin a phrase, or name one of the choices."""
    if labels is None:
        lexicon = load_lexicon()
        words = {
            word: (roles, lexicon.following.get(word), None)
            for word, roles in lexicon.roles.items()
        }
        return {**words, BREAK: _NO_ENTRY}
    entries = dict(_list_entries())
    if labels.is_plain:
        for key, choice in labels.by_key.items():
            entries[key] = (*entries.get(key, _NO_ENTRY)[:2], choice)
    return entries


@lru_cache(maxsize=16_384)
def _find_entry(labels: Labels, token: str) -> tuple[str, _Entry | None]:
    """Return the word of a token, and what it is.

    It may lack accents, or be a label in other type.
    """
    word, known = normalize_word(token), _list_entries()
    entry = known.get(word) or known.get(fold_accents(word))
    choice = _find_choice(labels, token, word)
    return word, entry if choice is None else (*(entry or _NO_ENTRY)[:2], choice)


def _find_choice(labels: Labels, token: str, word: str) -> str | None:
    """Return the choice that a token names, perhaps with an ending: `B'dir`, `나입니다`."""
    found = labels.find(token, word)
    if found is not None or len(token) > LONGEST_LABEL or len(word) == 1:
        return found
    if word[1] != "'" and word[0] < FIRST_HANGUL:
        return None
    is_ending = load_lexicon().roles.get(word[1:].removeprefix("'"), 0) & ENDING
    return labels.find(token[0], word[0]) if is_ending else None


# A text in units: words, phrases and marks with the part that each plays, and the labels among
# them.

#: The word of a line break, whichever it is.
BREAK = "\n"

#: Breaks that are not written as `BREAK`. Every 64th character is enough to see where a long blank
#: may be.
_OTHER_BREAKS = frozenset({*LINE_BREAKS[1:], "\r\n"})
_LONG_BLANK = re.compile(f"{_BLANK}{{{_MOST_BLANKS // 64}}}")


#: A letter that an apostrophe follows: a token such as `B'dir` may be a label with its ending.
_LETTER_APOSTROPHE = re.compile("'(?<=(?<![A-Za-z])[A-Za-z]')")


@dataclass(slots=True)
class Units:
    """Lists of the same `size`: words, roles, the choices that are named, and the spaces before
    each.

    A unit is a token, or a phrase of several; the word of a phrase is empty. `marked` are the units
    that play a role of `MARKED` or name a choice, `named` those that name one, and `breaks` those
    that end a line. `raw` holds the words of all tokens, and `places` where each unit begins among
    them, and where the last one ends; `known` are these words, each once, and `played` all roles.
    `pieces` are three for each token: nothing, the spaces before it, and the token.
    """

    text: str
    pieces: list[str]
    raw: list[str]
    known: set[str]
    places: Sequence[int]
    gaps: list[str]
    words: list[str]
    roles: list[int]
    labels: list[str | None]
    marked: list[int]
    named: list[int]
    breaks: list[int]
    size: int
    played: int = 0
    _last: tuple[int, int] = 0, 0

    def start(self, at: int) -> int:
        """Return where a unit begins in the text."""
        return self._find_offset(3 * self.places[at] + 2)

    def end(self, at: int) -> int:
        """Return where a unit ends in the text."""
        return self._find_offset(3 * self.places[at + 1])

    def _find_offset(self, piece: int) -> int:
        """Return where a piece begins; one after the other, all take no longer than the last."""
        begin, offset = self._last if self._last[0] <= piece else (0, 0)
        if 2 * piece > begin + len(self.pieces):  # the end is nearer
            offset = len(self.text.rstrip(WHITE_SPACE)) - len("".join(self.pieces[piece:]))
        else:
            offset += len("".join(self.pieces[begin:piece]))
        self._last = piece, offset
        return offset

    def token(self, at: int) -> str:
        """Return a unit as it is written."""
        place, end = self.places[at], self.places[at + 1]
        begin = 3 * place + 2
        return self.pieces[begin] if end == place + 1 else "".join(self.pieces[begin : 3 * end])


def split_units(text: str, labels: Labels) -> Units:
    """Return the text in units; the longest phrase wins."""
    pieces: list[str] = _PIECE.split(text.rstrip(WHITE_SPACE))
    gaps, tokens = pieces[1::3], pieces[2::3]
    raw = list(map(str.lower, tokens))
    entries = list(map(_list_entries(labels).get, raw))
    for at in _list_odd(text, tokens, labels):
        find = _find_entry if len(tokens[at]) <= _LONGEST_TOKEN else _find_entry.__wrapped__
        raw[at], entries[at] = find(labels, tokens[at])
    known = set(raw)
    if not _OTHER_BREAKS.isdisjoint(known) or (
        len(text) > _MOST_BLANKS and _LONG_BLANK.search(text[::64])
    ):
        for at, word in enumerate(raw):
            if word[0] in LINE_BREAKS:
                raw[at], entries[at] = BREAK, _NO_ENTRY
        known = set(raw)
    size = len(raw)
    roles = [0] * size
    names: list[str | None] = [None] * size
    units = Units(
        text, pieces, raw, known, range(size + 1), gaps, raw, roles, names, [], [], [], size
    )
    phrases = _read_entries(units, entries)
    if phrases:
        _join_phrases(units, phrases)
    return units


def begins_plainly(text: str, at: int, labels: Labels) -> bool:
    """Say whether a text begins with a word that plays no role, begins no phrase and is no
    label.
    """
    found = _PIECE.match(text, at)
    word = found[2].lower() if found and labels.is_plain else ""
    return word.isascii() and word.isalnum() and word not in _list_entries(labels)


def _list_odd(text: str, tokens: list[str], labels: Labels) -> Iterable[int]:
    """Return the tokens that are not simply words in ASCII, and all if the choices differ by
    case.
    """
    if not labels.is_plain:
        return range(len(tokens))
    found: list[int] = []
    if "'" in text and _LETTER_APOSTROPHE.search(text):
        found += [at for at, token in enumerate(tokens) if "'" in token and token[1:2] == "'"]
    if not text.isascii():
        found += compress(range(len(tokens)), map(not_, map(str.isascii, tokens)))
    return found


def _read_entries(units: Units, entries: list[_Entry | None]) -> list[tuple[int, int]]:
    """Note what the units are, and return where the phrases begin and end."""
    raw, roles, marked = units.raw, units.roles, units.marked
    phrases = []
    hidden = played = 0
    raw.append("")  # no phrase goes on beyond the end
    for at in compress(range(units.size), entries):
        role, branch, name = entries[at] or _NO_ENTRY
        unit = at - hidden
        if branch is None:
            if not role and name is None:
                units.breaks.append(unit)
                continue
        elif raw[at + 1] in branch.roles:
            last, found = _find_phrase(raw, at + 1, branch)
            # `é A` is no phrase with an article.
            is_label = (entries[last - 1] or _NO_ENTRY)[2] is not None
            if found and not (is_label and units.token(last - 1).isupper()):
                role, name = found, None
                phrases.append((at, last))
                hidden += last - at - 1
                entries[at + 1 : last] = [None] * (last - at - 1)
        roles[unit] = role
        played |= role
        if name is not None:
            units.labels[unit] = name
            units.named.append(unit)
            marked.append(unit)
        elif role & MARKED:
            marked.append(unit)
    raw.pop()
    units.played = played
    return phrases


def _find_phrase(raw: list[str], further: int, branch: Branch | None) -> tuple[int, int]:
    """Return where the longest phrase ends and its roles, from its second word on.

    Zeros if there is none.
    """
    found = 0, 0
    while branch is not None and further < len(raw):
        word = raw[further]
        further += 1
        if roles := branch.roles.get(word):
            found = further, roles
        branch = branch.following.get(word)
    return found


def _join_phrases(units: Units, phrases: list[tuple[int, int]]) -> None:
    """Keep the first token of each phrase, and drop its others."""
    raw, spaces, done = units.raw, units.gaps, 0
    words: list[str] = []
    gaps: list[str] = []
    places: list[int] = []
    for begin, end in (*phrases, (units.size, units.size)):
        words += raw[done:begin]
        words.append("")
        gaps += spaces[done : begin + 1]
        places += range(done, begin + 1)
        done = end
    words.pop()
    size = units.size = len(words)
    units.words, units.gaps, units.places = words, gaps, places
    del units.roles[size:], units.labels[size:]
