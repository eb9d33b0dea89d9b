"""A text in units: words, phrases, marks and option texts, each with its role or its choice.

The full text of an option is one unit, whatever words it has: `No`, `not before noon` and
`A and B` only name their option. A label that stands before its own option's text
takes the text with it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, pairwise, repeat
from operator import not_
from string import ascii_uppercase

from answerkey.reader.characters import LINE_BREAKS, WHITE_SPACE, compose
from answerkey.reader.lexicon import (
    BREAK,
    CLOSE,
    DASHES,
    DRESS,
    ENDING,
    EQUALS,
    FILL,
    LABEL_MARKS,
    LONGEST_TOKEN,
    MARKED,
    OPEN,
    ORDINAL,
    PIECE,
    ROUND_CLOSE,
    ROUND_OPEN,
    STOPS,
    fold_accents,
    load_lexicon,
    normalize_word,
    split_tokens,
)

# The choices of a row as labels in a text, in every unambiguous spelling.

#: Longer tokens are not labels; this allows `viii`, and a letter with its marks.
_LONGEST_LABEL = 8
_FIRST_HANGUL = "\uac00"
_DECORATION = "().\ufe0e\ufe0f\u20e3"
#: White letters in black circles and boxes, and the letters of flags.
_BOXED_LETTERS = {
    first + place: letter
    for first in (0x1F150, 0x1F170, 0x1F1E6)
    for place, letter in enumerate(ascii_uppercase)
}


@dataclass(eq=False)
class Labels:
    """The choices by their spellings; `fold` converts a token to the form of the keys.

    `is_plain`: neither case nor typography tells two choices apart. `kinds` are those of the
    characters that the choices begin with.
    """

    choices: tuple[str, ...]
    by_key: dict[str, str]
    fold: Callable[[str], str]

    def __post_init__(self) -> None:
        self.is_plain = self.fold is _fold_all
        self.kinds = {_classify_character(choice[0]) for choice in self.choices if choice}

    def find(self, token: str) -> str | None:
        """Return the choice that a token names, perhaps with an ending: `B'dir`, `나입니다`."""
        is_short = len(token) <= _LONGEST_LABEL
        choice = None
        if is_short or (self.is_plain and token.isascii()):
            choice = self.by_key.get(self.fold(token))
        if choice is not None or not is_short:
            return choice
        word = normalize_word(token)
        if word[1:2] != "'" and word[0] < _FIRST_HANGUL:
            return None
        ending = word[1:].removeprefix("'")
        is_ending = load_lexicon().roles.get(ending, 0) & ENDING
        return self.by_key.get(self.fold(token[0])) if is_ending else None

    def resembles(self, token: str) -> bool:
        """Say whether a token looks like a label of the same kind: `E`, where A to D are asked."""
        return len(token) == 1 and token.isalnum() and _classify_character(token) in self.kinds


@lru_cache(maxsize=64)
def read_labels(choices: tuple[str, ...]) -> Labels:
    """Return the labels of these choices, folded as far as they all stay distinct."""
    fold: Callable[[str], str] = compose
    for freer in (_fold_forms, _fold_all):
        if len(set(map(freer, choices))) == len(choices):
            fold = freer
    return Labels(choices, {fold(choice): choice for choice in choices}, fold)


def _fold_all(token: str) -> str:
    return normalize_word(_fold_forms(token))


def _fold_forms(token: str) -> str:
    """Return a token without typographic variety: full-width, circled, bold, other digits."""
    return _strip_label(unicodedata.normalize("NFKC", token))


def _strip_label(token: str) -> str:
    bare = token.strip(_DECORATION) or token
    if bare.isascii():
        return bare
    letters = bare.translate(_BOXED_LETTERS)
    return "".join(str(unicodedata.decimal(letter, letter)) for letter in letters)


def _classify_character(character: str) -> tuple[bool, bool, str]:
    script = unicodedata.name(character, "?").partition(" ")[0]
    return character.isupper(), character.isdecimal(), script


# The texts of the options, and where a completion writes one of them in full.

_AFTER_LABEL = LABEL_MARKS | CLOSE
#: Stands for every dash in an option's text and in the texts compared with it.
_MINUS = "-"
KOREAN_VERBS = (
    "\uc785\ub2c8\ub2e4",
    "\uc774\ub2e4",
    "\ub2e4",
    "\uc774\uc5d0\uc694",
    "\uc608\uc694",
)
_BEFORE_NUMBER = frozenset({"/", "^", "\u00b1", "\\pm", "\u00d7"})

#: The words of an option.
_Spelling = tuple[str, ...]
#: Where an option's text begins and ends among the tokens, and its choice.
_Span = tuple[int, int, str]
#: Options by the first word of their texts.
_Openings = dict[str, list[tuple[_Spelling, str]]]
#: Where a phrase begins and ends among the tokens, and its roles.
_Phrase = tuple[int, int, int]

_ARTICLES = frozenset({"a", "an", "the"})
#: Words and numbers that are spelled the same everywhere.
_PLAIN_WORD = re.compile(r"(?<![a-z'\\])[a-z]++(?!')|\d++(?:[.,:]\d++)*")


@lru_cache(maxsize=1024)
def _list_plain_words(options: tuple[str, ...]) -> list[frozenset[str]]:
    """Return words of each option that a text must have if it has the option's text."""
    plain = []
    for option in options:
        words = _PLAIN_WORD.findall(option.lower()) if option.isascii() else ()
        plain.append(frozenset(words) - _ARTICLES)
    return plain


@lru_cache(maxsize=1024)
def spell_options(options: tuple[str, ...], labels: Labels) -> dict[_Spelling, str]:
    """Return the words of the options with their choices: an empty one if several have these words.

    An article may be left out.
    Options go with the choices in their order; more options than choices are ignored.
    """
    owners: dict[_Spelling, str] = {}
    short: dict[_Spelling, str] = {}
    for text, choice in zip(options, labels.choices, strict=False):
        words = _spell_option(text, choice, labels)
        if words:
            owners[words] = "" if words in owners else choice
        if len(words) > 1 and load_lexicon().roles.get(words[0], 0) & FILL:
            short[words[1:]] = choice
    return short | owners


def _spell_option(text: str, choice: str, labels: Labels) -> _Spelling:
    """Return the words of an option without its own label (`(A) Paris`), emphasis and full stop."""
    tokens = split_tokens(text.strip())
    words = list(map(normalize_word, tokens))
    dress = DRESS - {"~~"}
    if words.count("$") == 1:
        dress -= {"$"}  # an amount; two are a formula
    kept = []
    for word in words[_skip_own_label(tokens, words, choice, labels) :]:
        if word not in dress:
            kept.append(_MINUS if word in DASHES else word)
    while len(kept) > 1 and kept[-1] in STOPS:
        kept.pop()
    if len(kept) == len("(a)") and kept[0] in OPEN and kept[2] in CLOSE:
        return (kept[1],)
    return tuple(kept)


def _skip_own_label(
    tokens: Sequence[str],
    words: Sequence[str],
    choice: str,
    labels: Labels,
) -> int:
    at = 0
    while at < len(words) and words[at] in OPEN:
        at += 1
    if at + 2 >= len(words) or words[at + 1] not in _AFTER_LABEL:
        return 0
    return at + 2 if labels.find(tokens[at]) == choice else 0


def _find_texts(units: Units) -> list[_Span]:
    """Return the spans of option texts among the tokens; the longest wins, and none overlap."""
    raw, options = units.raw, units.option_texts
    possible = []
    for option, plain in zip(options, _list_plain_words(options), strict=True):
        possible.append(option if units.known >= plain else "")
    openings = _list_openings(tuple(possible), units.choices)
    if not openings:
        return []
    spans: list[_Span] = []
    done = 0
    for at in compress(range(len(raw)), map(openings.__contains__, raw)):
        if at < done or _is_inside_number(units, at):
            continue
        matches = [(_match(raw, at, words), choice) for words, choice in openings[raw[at]]]
        end, choice = max(matches)
        if end:
            spans.append((at, end, choice))
            done = end
    return spans


@lru_cache(maxsize=1024)
def _list_openings(options: tuple[str, ...], labels: Labels) -> _Openings:
    """Return the options by the words with which their texts may begin."""
    openings: _Openings = {}
    for words, choice in spell_options(options, labels).items():
        for first in _list_forms(words[0]):
            openings.setdefault(first, []).append((words, choice))
    return openings


def _list_forms(word: str) -> Iterable[str]:
    """Return how a text may write a word of an option: any dash, a Korean noun with its verb."""
    if word == _MINUS:
        return DASHES
    if word[0] < _FIRST_HANGUL:
        return (word,)
    return [word + verb for verb in ("", *KOREAN_VERBS)]


def list_places(words: list[str], word: str) -> Iterator[int]:
    """Yield the positions of a word in a list of words."""
    at = -1
    for _ in range(words.count(word)):
        at = words.index(word, at + 1)
        yield at


def _match(raw: list[str], begin: int, words: _Spelling) -> int:
    """Return where these words, which begin here, end, ignoring emphasis; 0 for other words."""
    at = begin + 1
    last = min(begin + 2 * len(words), len(raw))
    for word in words[1:]:
        while at < last and raw[at] != word and raw[at] in DRESS:
            at += 1
        if at >= len(raw) or (raw[at] != word and raw[at] not in _list_forms(word)):
            return 0
        at += 1
    return at


def _is_inside_number(units: Units, at: int) -> bool:
    """Say whether the number at `at` is part of a longer one: `-5`, `1/5`, `2^5`."""
    raw, gaps = units.raw, units.gaps
    if raw[at] in DASHES:
        return bool(gaps[at + 1])  # a dash with a space after it is no sign
    if gaps[at] or not raw[at][0].isdecimal():
        return False
    if raw[at - 1] not in DASHES:
        return raw[at - 1] in _BEFORE_NUMBER
    # A dash between two numbers is a range.
    return bool(gaps[at - 1]) or not raw[at - 2][0].isalnum()


# A text in units.

#: A letter that an apostrophe follows: a token such as `B'dir` may be a label with its ending.
_LETTER_APOSTROPHE = re.compile("'(?<=(?<![A-Za-z])[A-Za-z]')")
_RARE_BREAK = re.compile("[\r\x0b\x0c\x1c-\x1e]")
#: What may stand between a label and its own option's text.
_BEFORE_TEXT = (LABEL_MARKS | CLOSE | OPEN | DASHES | EQUALS) - {","}
#: The maximum number of brackets and marks of emphasis around a label; this bounds the work.
WRAPS = 6
#: Line breaks that follow the last unit and, by negative indices, stand before the first.
MARGIN = 8


@dataclass(slots=True)
class Units:
    """The units of a text, as lists of their words, roles, named choices and spaces before them.

    Behind the `size` units there is a margin of line breaks.

    A unit is a token, a phrase, or the full text of an option; the word of the last two is empty.
    `options` has the choices of option texts by their unit, an empty one if several options have
    that text. `text_ends` has, for labels before their own option's text, where that text ends.
    `marked` are the units that play a role of `MARKED` or name a choice, `named` those that name
    one. `raw` holds the words of all tokens, `places` where each unit begins among them, and where
    the last one ends; `known` are these words, each once. `pieces` are three for each token:
    nothing, the spaces before it, and the token.
    """

    text: str
    choices: Labels
    option_texts: tuple[str, ...]
    pieces: list[str]
    raw: list[str]
    known: set[str]
    gaps: list[str]
    words: list[str]
    labels: list[str | None]
    roles: list[int]
    places: list[int]
    size: int = 0
    marked: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    options: dict[int, str] = field(default_factory=dict)
    text_ends: dict[int, int] = field(default_factory=dict)
    #: The results of `read_names`, by the position of the first label.
    names: dict[int, object] = field(default_factory=dict)

    def plays(self, begin: int, end: int, roles: int) -> bool:
        """Say whether a unit from `begin` to `end` plays one of these roles."""
        return any(map(roles.__and__, self.roles[max(begin, 0) : end]))

    def skip(self, at: int, marks: frozenset[str], most: int = WRAPS) -> int:
        """Return the first unit from `at` on that is none of these marks, or the last of `most`."""
        end = at + most
        while at < end and self.words[at] in marks:
            at += 1
        return at

    def skip_back(self, at: int, marks: frozenset[str], most: int = WRAPS) -> int:
        """Return the nearest unit from `at` back that is none of these marks."""
        end = at - most
        while at > end and self.words[at] in marks:
            at -= 1
        return at

    def start(self, at: int) -> int:
        """Return the position in the text at which a unit begins."""
        remainder = "".join(self.pieces[3 * self.places[at] + 2 :])
        return len(self.text.rstrip(WHITE_SPACE)) - len(remainder)

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Return the span in the text of the units from `begin` to `end`."""
        first = self.start(begin)
        pieces = self.pieces[3 * self.places[begin] + 2 : 3 * self.places[end]]
        return first, first + len("".join(pieces))

    def token(self, at: int) -> str:
        """Return a unit as it is written."""
        begin = 3 * self.places[at] + 2
        return "".join(self.pieces[begin : 3 * self.places[at + 1]])


def split_units(text: str, labels: Labels, options: Sequence[str] | None = None) -> Units:
    """Return the text in units; option texts come first, then the longest phrase wins."""
    pieces: list[str] = PIECE.split(text.rstrip(WHITE_SPACE))
    tokens = pieces[2::3] + [BREAK] * MARGIN
    raw, spellings, choices = _read_tokens(text, tokens, labels)
    units = Units(
        text,
        labels,
        option_texts=tuple(options or ()),
        pieces=pieces,
        raw=raw,
        known=set(raw),
        gaps=pieces[1::3] + [""] * MARGIN,
        words=raw.copy(),
        labels=choices,
        roles=[],
        places=list(range(len(raw) + 1)),
    )
    texts = _find_texts(units) if options else []
    for begin, end, _ in texts:
        if end > begin + 1:
            spellings[begin:end] = [""] * (end - begin)
    units.roles = list(map(load_lexicon().roles.get, spellings, repeat(0)))
    _join_tokens(units, texts, _find_phrases(units, spellings))
    units.named = list(compress(range(units.size), units.labels))
    if texts:
        _attach_labels(units)
        _attach_texts(units)
        units.named = list(compress(range(units.size), units.labels))
    playing = compress(range(units.size), units.roles)
    marked = [at for at in playing if units.roles[at] & MARKED]
    units.marked = sorted({*marked, *units.named})
    return units


def _read_tokens(
    text: str,
    tokens: list[str],
    labels: Labels,
) -> tuple[list[str], list[str], list[str | None]]:
    """Return the words of the tokens, their spellings in the lexicon, and the choices they name."""
    words = list(map(str.lower, tokens))
    spellings = words.copy()
    choices = list(map(labels.by_key.get, words))
    odd: Iterable[int] = range(len(tokens))
    if labels.is_plain and not _LETTER_APOSTROPHE.search(text) and not _RARE_BREAK.search(text):
        if text.isascii():
            return words, spellings, choices
        odd = compress(odd, map(not_, map(str.isascii, tokens)))
    for at in odd:
        token = tokens[at]
        read = _read_token if len(token) <= LONGEST_TOKEN else _read_token.__wrapped__
        words[at], spellings[at], choices[at] = read(labels, token)
    return words, spellings, choices


@lru_cache(maxsize=16_384)
def _read_token(labels: Labels, token: str) -> tuple[str, str, str | None]:
    """Return the word of a token, its spelling in the lexicon, and the choice that it names.

    It may lack accents, or be a label in other type.
    """
    word = BREAK if token[0] in LINE_BREAKS else normalize_word(token)
    spelling = word if word in load_lexicon().roles else fold_accents(word)
    return word, spelling, labels.find(token)


def _join_tokens(units: Units, texts: Sequence[_Span], phrases: Sequence[_Phrase]) -> None:
    """Make one unit of each option's text, whose words mean nothing, and of each phrase."""
    joined = [(begin, end, 0) for begin, end, _ in texts if end > begin + 1]
    for begin, end, roles in sorted([*joined, *phrases], reverse=True):
        units.words[begin] = ""
        units.roles[begin], units.labels[begin] = _read_phrase(roles, units.choices)
        for column in (units.words, units.roles, units.labels, units.gaps, units.places):
            del column[begin + 1 : end]
    units.size = len(units.words) - MARGIN
    for begin, end, choice in texts:
        at = bisect_left(units.places, begin)
        if units.places[at : at + 2] == [begin, end]:  # otherwise it is part of a phrase
            units.options[at] = choice


def _find_phrases(units: Units, spellings: list[str]) -> list[_Phrase]:
    """Return where phrases begin and end, and their roles; the longest wins, and none overlap.

    A phrase does not end with a capital label: in `é A`, the `A` is not an article.
    """
    pairs = list(map(load_lexicon().phrases.get, pairwise(spellings)))
    phrases: list[_Phrase] = []
    done = 0
    for begin in compress(range(len(pairs)), pairs):
        if begin < done:
            continue
        ends = {}
        for tail, roles in (pairs[begin] or {}).items():
            end = begin + 2 + len(tail)
            if tuple(spellings[begin + 2 : end]) == tail:
                ends[end] = roles
        longest = max(ends, default=0)
        if longest and not _ends_with_label(units, longest):
            phrases.append((begin, longest, ends[longest]))
            done = longest
    return phrases


def _ends_with_label(units: Units, end: int) -> bool:
    """Say whether a phrase that ends here ends with a capital label."""
    is_label = units.labels[end - 1] is not None
    return is_label and units.pieces[3 * end - 1].isupper()


def _read_phrase(roles: int, labels: Labels) -> tuple[int, str | None]:
    """Return the roles of a phrase, and the choice that it names by its place, if any."""
    if roles < ORDINAL:
        return roles, None
    place = roles // (2 * ORDINAL)
    if place > len(labels.choices):
        return 0, None
    return 0, labels.choices[place - 1]  # without a number it is the last


def _attach_labels(units: Units) -> None:
    """Make one label of each option's text and its own label in brackets: `Lyon (B)`."""
    words, labels = units.words, units.labels
    for at, choice in units.options.items():
        bracket = units.skip(at + 1, DRESS)
        is_named = words[bracket] in ROUND_OPEN and words[bracket + 2] in ROUND_CLOSE
        if choice and is_named and labels[bracket + 1] == choice:
            units.text_ends[at] = bracket + 3
            units.roles[at] = 0
            labels[at] = choice
            labels[bracket + 1] = None


def _attach_texts(units: Units) -> None:
    """Make one label of each label and its own option's text: `B. Lyon`."""
    for label in units.named:
        choice = units.labels[label]
        at = units.skip(label + 1, _BEFORE_TEXT)
        is_article = at == label + 1 and units.token(label) == "a"
        if choice is not None and units.options.get(at) == choice and not is_article:
            units.text_ends[label] = max(at + 1, units.text_ends.get(at, 0))
            units.roles[at] = 0
            units.labels[at] = None
