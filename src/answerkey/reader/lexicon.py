"""The words and marks that the reader knows, and how a text falls into tokens.

The words of all languages stand in `words/`, a file for each language. A line has roles, a colon,
words and phrases, a bar, and an example: `~` stands for each of the words, and the choice that the
example states comes last (`-`: none).
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from answerkey.reader.characters import LINE_BREAKS, SPACES, WHITE_SPACE

# The roles of words in stating an answer, as bits: a word may have several.

(
    # `answer`, and in languages that need nothing between it and the label, BARE as well.
    ANSWER,
    BARE,
    OPTION,
    # `is`, `must be`; `might be` and `probably` are MAYBE.
    BE,
    MAYBE,
    # Words that change nothing between a cue and its label: articles, `clearly`, `following`.
    FILL,
    RIGHT,
    WRONG,
    NOT,
    # A negation that follows what it negates: `B가 아닙니다`, `B değil`.
    NOT_AFTER,
    PICK,
    THINK,
    SO,
    IT,
    OR,
    AND,
    IF,
    # Somebody else's opinion, or an earlier one: `many would say`, `at first`.
    SAYS,
    # What follows replaces what was said; UNDO retracts it even if nothing follows.
    FIX,
    UNDO,
    # Words that may follow a label and cannot follow an article: `because`, `which`.
    AFTER,
    # `to`, `for`, `of`: more words may stand between `answer` and `is`.
    PREP,
    LEAVE,
    DROP,
    MATCH,
    NONE,
    YES,
    BUT,
    QUESTION,
    REFUSE,
    # `my`, `final`, `only`: makes an option word a cue (`my choice is`).
    OWN,
    # A correction that names no new answer itself: `that is wrong`.
    MUTE,
    # Endings that touch a label: `나입니다`, `B'dir`.
    ENDING,
    # `that`, `dass`: what follows depends on the clause before.
    THAT,
    # `the second option`: it names a choice by its place, which stands in the bits above.
    ORDINAL,
) = (1 << bit for bit in range(35))

#: The word of a line break, whichever it is.
BREAK = "\n"

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


def list_names(text: str) -> list[str]:
    """Return the names in a text that lists them."""
    return text.split()


_EMPHASIS = {sign * count for sign in "*_`" for count in range(1, 5)} | {"~~"}
QUOTES = set(
    "\"'\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a\u300c\u300d\u300e\u300f"
)
_STYLES = list_names("text textbf textit textrm textsf texttt emph underline operatorname")
_FONTS = list_names("mathbf mathrm mathit mathsf mathtt bf rm displaystyle large huge")
_BOXES = list_names("boxed fbox framebox box")
_LATEX = {f"\\{name}" for name in (*_STYLES, *_FONTS, *_BOXES, *"()[]{}")} | {"$", "$$"}
_TAGS = list_names("b strong i em u p mark")
_HTML = {f"<{name}>" for name in _TAGS} | {f"</{name}>" for name in _TAGS}
_BRACKETS_OPEN = set("([{\u3008\u300a\u3010\u3014\u3016\u3018\uff08\uff3b\uff5b\u27e8")
_BRACKETS_CLOSE = set(")]}\u3009\u300b\u3011\u3015\u3017\u3019\uff09\uff3d\uff5d\u27e9")

#: Marks without a meaning of their own: emphasis, quotes, LaTeX and HTML.
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
CHANGING = frozenset("+#^%=\\\u00b0\u00b2\u00b3\u20ac\u00a3")
OPERATORS = frozenset({*"+-*/=&^%\u00d7\u00f7\u2212\u00b7", "\\times", "\\cdot", "\\%"})


# Text in tokens: words (by script), numbers, marks, tags, LaTeX commands and line breaks.

_COMBINING = "\u0300-\u036f"
_EXTENDERS = "\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff"
_LATIN = f"A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff{_COMBINING}"

#: One run for each script, so that `B입니다` is a label and a word; Chinese and hiragana go by the
#: character.
_RUNS = (
    f"\u0370-\u03ff\u1f00-\u1fff{_COMBINING}",  # Greek
    f"\u0400-\u052f\u1c80-\u1c8f{_COMBINING}",  # Cyrillic
    "\u0591-\u05bd\u05bf-\u05f4",  # Hebrew
    (  # Arabic
        "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
        "\ufb50-\ufdff\ufe70-\ufefc\u200c\u200d"
    ),
    (  # the scripts of India
        "\u0900-\u0963\u0970-\u09e5\u09f0-\u0a65\u0a70-\u0ae5\u0af0-\u0b65\u0b70-\u0be5\u0bf0-\u0c65"
        "\u0c70-\u0ce5\u0cf0-\u0d65\u0d70-\u0dff\u200c\u200d"
    ),
    "\u0e01-\u0e4f\u0e80-\u0ecf\u1000-\u103f\u1780-\u17d3",  # Thai and its neighbours
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f",  # katakana
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff",  # Hangul
    "\uff21-\uff3a\uff41-\uff5a",  # full-width letters
    "\U0001d400-\U0001d7cb",  # mathematical letters
)

#: `l'option`, `qu'elle`; not `C'dir`, which is Turkish.
_TURKISH_ENDING = "['\u2019](?:[dt](?:[i\u0131u\u00fc]r|[ae]n?)|n[i\u0131]n|y[aei])\\b"
_ELISION = f"(?:[cdjlmnst]|[CDJLMNST](?!{_TURKISH_ENDING})|[Qq]u)"
_TAG = r"</?[A-Za-z][A-Za-z0-9_:.\-]{0,40} ?/?>|<\|[A-Za-z_]{1,40}\|>"
_SIGN_RUNS = r"\\(?:[A-Za-z]++|[()\[\]{}])|[-=]{1,64}+>|-++|=++|\*++|_++|`++|~++|#++|\$++"

_BREAK = rf"(?:\r\n|[{LINE_BREAKS}])"

#: ASCII words and marks among ASCII come first: they are the most frequent, and fast to match.
_COMMON = r"[A-Za-z]++(?!'|[^\x00-\x7f])|[.,()?:;!{}\"/&+%^|@\]](?![^\x00-\x7f])"

#: A token, and the spaces before it.
PIECE = re.compile(
    rf"([{SPACES}]*+)({_COMMON}|\d++(?:[.,:]\d++)*[{_EXTENDERS}]*+"
    rf"|{_ELISION}['\u2019](?=[{_LATIN}])|[{_LATIN}]++(?:['\u2019][{_LATIN}]++)*"
    rf"|{_TAG}|{_SIGN_RUNS}|{'|'.join(f'[{run}]++' for run in _RUNS)}"
    rf"|[^{SPACES}{LINE_BREAKS}](?:[{_EXTENDERS}{_COMBINING}]|\u200d[^{SPACES}{LINE_BREAKS}])*"
    rf"|{_BREAK})"
)


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text; the spaces between them are left out."""
    return [token for _, token in PIECE.findall(text.rstrip(WHITE_SPACE))]


# The words of all languages: the roles of a word, or of the longest phrase that begins with it.

#: Marks that Arabic may or may not write, the lengthening stroke, and alefs that are often written
#: bare.
_ARABIC_MARKS = "\u0640\u0670" + "".join(map(chr, range(0x64B, 0x660)))
_ARABIC_FORMS = str.maketrans("\u0622\u0623\u0625", "\u0627" * 3, _ARABIC_MARKS)

_FIRST_ARABIC = "\u0622"

WORD_FILES = list_names(
    "arabic central_europe chinese dutch english french german hindi italian japanese korean "
    "nordic ordinals others portuguese russian signs spanish"
)

#: Longer tokens are not in the lexicon; composing long runs of marks takes quadratic time.
LONGEST_TOKEN = 64
_SHORTEST_FOLDED = 3


#: The first character of the scripts that are not written with spaces, or with marks in words.
_FIRST_UNSPACED = "\u0900"


@dataclass(slots=True)
class Lexicon:
    """The roles of all words, and the phrases by their first two words.

    A phrase stands there as the words after these two, and its roles. A word that is only part of
    phrases has no role of its own.
    """

    roles: dict[str, int]
    phrases: dict[tuple[str, str], dict[tuple[str, ...], int]]

    def find_roles(self, words: Sequence[str]) -> int:
        """Return the roles of a word or a phrase; 0 for one that is not known."""
        if len(words) == 1:
            return self.roles.get(words[0], 0)
        tails = self.phrases.get((words[0], words[1]), {})
        return tails.get(tuple(words[2:]), 0)


def normalize_word(token: str) -> str:
    """Return a token as the lexicon spells it: lower case, one spelling for each letter."""
    if token.isascii():
        return token.lower()
    if len(token) <= LONGEST_TOKEN:
        token = unicodedata.normalize("NFKC", token)
    word = token.lower().replace("\u2019", "'").replace("i\u0307", "i")  # Turkish dotted capital
    if max(word) < _FIRST_ARABIC:
        return word
    return word.translate(_ARABIC_FORMS) or word  # a word must not become empty


def fold_accents(word: str) -> str:
    """Return a Latin word without accents, for those who write `reponse`.

    Short words keep their accents, since other words differ from them by the accent alone.
    """
    if not _SHORTEST_FOLDED < len(word) <= LONGEST_TOKEN:
        return word
    if not "\u00c0" <= max(word) < "\u0250":
        return word
    letters = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@cache
def load_lexicon() -> Lexicon:
    """Return all words and phrases of all languages; one that is listed again has all its roles."""
    roles: defaultdict[str, int] = defaultdict(int)
    phrases: defaultdict[tuple[str, str], dict[tuple[str, ...], int]] = defaultdict(dict)
    for words, playing in _list_phrases():
        if len(words) == 1:
            roles[words[0]] |= playing
            continue
        for word in words:
            roles[word] |= 0
        first, second, *tail = words
        tails = phrases[first, second]
        tails[tuple(tail)] = tails.get(tuple(tail), 0) | playing
    return Lexicon(dict(roles), dict(phrases))


def _list_phrases() -> Iterator[tuple[list[str], int]]:
    """Yield the words of each word or phrase, as written and without accents, and its roles."""
    for names, phrases in list_words():
        roles = 0
        for name in names:
            roles |= int(name) * 2 * ORDINAL if name.isdecimal() else ROLES[name]
        for phrase in phrases:
            words = _split_phrase(phrase)
            yield words, roles
            plain = words if phrase.isascii() else list(map(fold_accents, words))
            if plain != words:
                yield plain, roles


def list_words() -> Iterator[tuple[list[str], list[str]]]:
    """Yield the roles of each line of the word lists, and the words and phrases that play them."""
    # The loader also reads from an archive, and needs no module of `importlib.resources`.
    folder = os.path.dirname(__file__)  # noqa: PTH120
    loader = globals()["__loader__"]
    for name in WORD_FILES:
        data: bytes = loader.get_data(os.path.join(folder, "words", f"{name}.txt"))  # noqa: PTH118
        for line in unicodedata.normalize("NFKC", data.decode()).splitlines():
            if not line.startswith("#"):
                roles, _, words = line.partition(": ")
                words = normalize_word(words.partition(" | ")[0])
                yield roles.split(), words.split(", ")


def _split_phrase(phrase: str) -> list[str]:
    """Return the words of a phrase as `normalize_word` spells them."""
    is_spaced = phrase.isascii() or max(phrase) < _FIRST_UNSPACED
    if is_spaced and phrase.replace(" ", "").isalpha():
        return phrase.split()
    if phrase.endswith("'"):
        return [phrase]
    return split_tokens(phrase)
