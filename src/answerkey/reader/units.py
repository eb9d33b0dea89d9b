"""A text in units: words, phrases, marks and option texts, each with its role or its choice.

The full text of an option is one unit, whatever words it has: `No`, `not before noon` and
`A and B` say nothing beside naming their option. A label that stands before its own option's text
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

# The choices of a row as labels in a text, in every spelling that cannot be mistaken.

#: Longer tokens are no label: room for `viii` and for a letter with its marks.
_LONGEST_LABEL = 8
_FIRST_HANGUL = "\uac00"
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

    `is_plain`: neither case nor typography tells two choices apart. `kinds` are those of the
    characters that the choices begin with.
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
        if len(token) > _LONGEST_LABEL:
            return None
        if self.is_plain:
            return self.by_key.get(_strip_label(word).lower())
        return self.by_key.get(self.fold(token))

    def resembles(self, token: str) -> bool:
        """Say whether a token looks like a label of the same kind: `E`, where A to D are asked."""
        return len(token) == 1 and token.isalnum() and _kind(token) in self.kinds


@lru_cache(maxsize=256)
def read_labels(choices: tuple[str, ...]) -> Labels:
    """Return the labels of these choices, read as freely as keeps all of them apart."""
    kinds = frozenset(_kind(choice[0]) for choice in choices if choice)
    folds = (_fold_all, _fold_forms)
    fold = next((fold for fold in folds if len(set(map(fold, choices))) == len(choices)), compose)
    by_key = {fold(choice): choice for choice in choices}
    return Labels(choices, by_key, fold, fold is _fold_all, kinds)


def _fold_all(token: str) -> str:
    return normalize_word(_fold_forms(token))


def _fold_forms(token: str) -> str:
    """Return a token without typographic variety: full-width, circled, bold, other digits."""
    return _strip_label(unicodedata.normalize("NFKC", token))


def _strip_label(token: str) -> str:
    bare = token.strip(_DECORATION) or token
    if bare.isascii():
        return bare
    bare = bare.translate(_BOXED_LETTERS)
    if not any(map(str.isdecimal, bare)):
        return bare
    digits = (unicodedata.decimal(letter, letter) for letter in bare)
    return "".join(map(str, digits))


def _kind(character: str) -> tuple[bool, bool, str]:
    script = unicodedata.name(character, "?").partition(" ")[0]
    return character.isupper(), character.isdecimal(), script


# The texts of the options, and where a completion writes one of them in full.

_AFTER_LABEL = LABEL_MARKS | CLOSE
#: Every dash in an option's text, and in what is compared with it.
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


_ARTICLES = frozenset({"a", "an", "the"})
#: Words and numbers that are spelled alike wherever they stand.
_PLAIN_WORD = re.compile(r"(?<![a-z'\\])[a-z]++(?!')|\d++(?:[.,:]\d++)*")


@lru_cache(maxsize=4096)
def _list_plain_words(option: str) -> frozenset[str]:
    """Return words without which a text cannot have this option's text."""
    words = _PLAIN_WORD.findall(option.lower() if option.isascii() else "")
    return frozenset(words) - _ARTICLES


def spell_options(options: Sequence[str], labels: Labels) -> dict[_Spelling, str]:
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


@lru_cache(maxsize=4096)
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
    if labels.find(tokens[at], words[at]) != choice:
        return 0
    return at + 2


def _find_texts(units: Units) -> list[_Span]:
    """Return where option texts stand among the tokens; the longest wins, and none overlap."""
    longest: dict[int, tuple[int, str]] = {}
    for words, choice in spell_options(_list_possible(units), units.choices).items():
        # A word may be written otherwise than in the option: any dash, a Korean noun with its verb.
        is_variable = _MINUS in words or max(words) >= _FIRST_HANGUL
        if not is_variable and not units.known.issuperset(words):
            continue
        for begin in _list_first(units, words[0]):
            end = _match(units.raw, begin, words)
            if end:
                longest[begin] = max((end, choice), longest.get(begin, (0, "")))
    spans: list[_Span] = []
    done = 0
    for begin in sorted(longest):
        if begin >= done:
            done, choice = longest[begin]
            spans.append((begin, done, choice))
    return spans


def _list_possible(units: Units) -> list[str]:
    """Return the options whose text may occur; the others are empty."""
    possible = []
    for option in units.option_texts:
        is_possible = units.known.issuperset(_list_plain_words(option))
        possible.append(option if is_possible else "")
    return possible


def _list_first(units: Units, first: str) -> Iterator[int]:
    """Yield where the first word of an option stands, in any of its forms."""
    raw = units.raw
    if first == _MINUS:
        for at, word in enumerate(raw):
            if word in DASHES and not any(units.gaps[at + 1 : at + 2]):
                yield at  # a dash with a space after it is no sign
    elif first[0] >= _FIRST_HANGUL:
        for at, word in enumerate(raw):
            if _is_same(word, first):
                yield at
    else:
        is_number = first[0].isdecimal()
        for at in list_places(raw, first):
            if not is_number or not _is_inside_number(units, at):
                yield at


def list_places(words: list[str], word: str) -> Iterator[int]:
    """Yield where a word stands among others."""
    at = -1
    for _ in range(words.count(word)):
        at = words.index(word, at + 1)
        yield at


def _match(raw: list[str], begin: int, words: tuple[str, ...]) -> int:
    """Return where the words end that begin here, ignoring emphasis; 0 if others stand here."""
    at = begin
    last = begin + 2 * len(words)
    for word in words:
        while at < len(raw) and raw[at] != word and raw[at] in DRESS and at < last:
            at += 1
        if at >= len(raw) or not _is_same(raw[at], word):
            return 0
        at += 1
    return at


def _is_same(token: str, word: str) -> bool:
    if token == word:
        return True
    if word == _MINUS:
        return token in DASHES
    if word[0] < _FIRST_HANGUL:
        return False
    return token.startswith(word) and token[len(word) :] in KOREAN_VERBS


def _is_inside_number(units: Units, at: int) -> bool:
    """Say whether the number at `at` is part of a longer one: `-5`, `1/5`, `2^5`."""
    if at == 0 or units.gaps[at]:
        return False
    before = units.raw[at - 1]
    if before not in DASHES:
        return before in _BEFORE_NUMBER
    # A dash between two numbers is a range.
    return at == 1 or bool(units.gaps[at - 1]) or not units.raw[at - 2][:1].isalnum()


# Tokens that are not plain ASCII: their words, how the lexicon spells them, and their choices.


@lru_cache(maxsize=16_384)
def _read_token(labels: Labels, token: str) -> tuple[str, str, str | None]:
    """Return the word of a token, its spelling in the lexicon, and the choice that it names.

    It may lack accents, or be a label in other type.
    """
    if token[0] in LINE_BREAKS:
        return BREAK, BREAK, None
    word = normalize_word(token)
    spelling = word if word in load_lexicon().roles else fold_accents(word)
    return word, spelling, _find_choice(labels, token, word)


def _find_choice(labels: Labels, token: str, word: str) -> str | None:
    """Return the choice that a token names, perhaps with an ending: `B'dir`, `나입니다`."""
    choice = labels.find(token, word)
    if choice is not None or len(token) > _LONGEST_LABEL or len(word) == 1:
        return choice
    if word[1] != "'" and word[0] < _FIRST_HANGUL:
        return None
    ending = load_lexicon().roles.get(word[1:].removeprefix("'"), 0) & ENDING
    return labels.find(token[0], word[0]) if ending else None


# A text in units.

#: Line breaks but for the usual one, and a letter that an apostrophe follows: a token such as
#: `B'dir` may be a label with its ending.
_ODD = re.compile("[\r\x0b\x0c\x1c-\x1e]|'(?<=(?<![A-Za-z])[A-Za-z]')")
#: What may stand between a label and its own option's text.
_BEFORE_TEXT = (LABEL_MARKS | CLOSE | OPEN | DASHES | EQUALS) - {","}
#: How many brackets and marks of emphasis may stand around a label: the work at one place is
#: bounded.
WRAPS = 6
#: Line breaks that follow the last unit and, by negative indices, stand before the first.
MARGIN = 8


@dataclass(slots=True)
class Units:
    """Lists of words, roles, the choices that are named, and the spaces before each.

    Behind the `size` units there is a margin of line breaks.

    A unit is a token, a phrase, or the full text of an option; the word of the last two is empty.
    `options` has the choices of option texts by their unit, an empty one if several options have
    that text. `text_ends` says of labels that stand before their own option's text where it ends.
    `marked` are the units that play a role of `MARKED` or name a choice, `named` those that name
    one. `raw` holds the words of all tokens, `places` where each unit begins among them, and where
    the last one ends; `known` are these words, each once. `pieces` are three for each token:
    nothing, the spaces before it, and the token.
    """

    text: str
    choices: Labels
    pieces: list[str]
    raw: list[str]
    known: set[str]
    gaps: list[str]
    option_texts: tuple[str, ...]
    words: list[str]
    labels: list[str | None]
    roles: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    size: int = 0
    options: dict[int, str] = field(default_factory=dict)
    text_ends: dict[int, int] = field(default_factory=dict)
    marked: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    #: What `read_names` found, by the place of the first label.
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
        """Return where a unit begins in the text."""
        return len("".join(self.pieces[: 3 * self.places[at] + 2]))

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Return where the units from `begin` to `end` stand in the text."""
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
    tokens = pieces[2::3]
    raw = list(map(str.lower, tokens))
    spellings = raw.copy()
    choices: list[str | None] = [None] * len(raw)
    for at in _list_odd(text, tokens, labels):
        read = _read_token if len(tokens[at]) <= LONGEST_TOKEN else _read_token.__wrapped__
        raw[at], spellings[at], choices[at] = read(labels, tokens[at])
    known = set(raw)
    if labels.is_plain:
        for word in known.intersection(labels.by_key):
            for at in list_places(raw, word):
                choices[at] = labels.by_key[word]
    units = Units(
        text,
        labels,
        pieces,
        raw,
        known=known,
        gaps=pieces[1::3],
        option_texts=tuple(options or ()),
        words=raw.copy(),
        labels=choices,
    )
    texts = _find_texts(units) if options else []
    _join_tokens(units, spellings, texts)
    return units


def _list_odd(text: str, tokens: list[str], labels: Labels) -> Iterable[int]:
    """Return the tokens that are not simply words in ASCII; all if the choices differ by case."""
    if not labels.is_plain:
        return range(len(tokens))
    if text.isascii() and _ODD.search(text) is None:
        return ()
    odd = {token for token in set(tokens) if not token.isascii() or token[1:2] == "'"}
    odd.update(LINE_BREAKS, {"\r\n"})
    return [at for at, token in enumerate(tokens) if token in odd]


def _join_tokens(units: Units, spellings: list[str], texts: Sequence[_Span]) -> None:
    """Make one unit of each option's text, whose words mean nothing, and of each phrase."""
    joined = []
    for begin, end, _ in texts:
        if end > begin + 1:
            spellings[begin:end] = [""] * (end - begin)
            joined.append((begin, end, 0))
    units.roles = list(map(load_lexicon().roles.get, spellings, repeat(0)))
    units.places = list(range(len(spellings)))
    phrases = _find_phrases(units, spellings)
    for begin, end, roles in sorted(joined + phrases, reverse=True):
        units.words[begin] = ""
        units.roles[begin], units.labels[begin] = _read_phrase(roles, units.choices)
        for column in (units.words, units.roles, units.labels, units.gaps, units.places):
            del column[begin + 1 : end]
    if texts:
        _place_texts(units, texts, phrases)
    units.size = len(units.words)
    units.words += [BREAK] * MARGIN
    units.roles += [0] * MARGIN
    units.labels += [None] * MARGIN
    units.gaps += [""] * MARGIN
    units.places += [len(spellings)] * (MARGIN + 1)
    units.named = list(compress(range(units.size), units.labels))
    if texts:
        _attach_labels(units)
        _attach_texts(units)
        units.named = list(compress(range(units.size), units.labels))
    marked = compress(range(units.size), map(MARKED.__and__, units.roles))
    units.marked = sorted({*marked, *units.named})


def _place_texts(
    units: Units, texts: Sequence[_Span], phrases: Sequence[tuple[int, int, int]]
) -> None:
    """Note which units are texts of options; part of a phrase is none."""
    covered = {at for begin, end, _ in phrases for at in range(begin, end)}
    for begin, _, choice in texts:
        if begin not in covered:
            units.options[bisect_left(units.places, begin)] = choice


def _find_phrases(units: Units, spellings: list[str]) -> list[tuple[int, int, int]]:
    """Return where phrases begin and end, and their roles; the longest wins, and none overlap.

    A phrase does not end with a capital label: `é A` is none with an article.
    """
    pairs = list(map(load_lexicon().phrases.get, pairwise(spellings)))
    phrases: list[tuple[int, int, int]] = []
    done = 0
    for begin in compress(range(len(pairs)), pairs):
        if begin < done:
            continue
        longest = 0
        for tail, roles in (pairs[begin] or {}).items():
            end = begin + 2 + len(tail)
            if end > longest and tuple(spellings[begin + 2 : end]) == tail:
                longest, longest_roles = end, roles
        if longest and not _ends_with_label(units, longest):
            phrases.append((begin, longest, longest_roles))
            done = longest
    return phrases


def _ends_with_label(units: Units, end: int) -> bool:
    """Say whether a phrase that ends here ends with a capital label."""
    return units.labels[end - 1] is not None and units.pieces[3 * end - 1].isupper()


def _read_phrase(roles: int, labels: Labels) -> tuple[int, str | None]:
    """Return the roles of a phrase, and the choice that it names by its place, if any."""
    if roles < ORDINAL:
        return roles, None
    place = roles // (2 * ORDINAL)
    if place > len(labels.choices):
        return 0, None
    return 0, labels.choices[place - 1]


def _attach_labels(units: Units) -> None:
    """Make one label of each option's text and its own label in brackets: `Lyon (B)`."""
    for at, choice in units.options.items():
        bracket = units.skip(at + 1, DRESS)
        is_named = units.words[bracket] in ROUND_OPEN and units.words[bracket + 2] in ROUND_CLOSE
        if choice and is_named and units.labels[bracket + 1] == choice:
            units.text_ends[at] = bracket + 3
            units.roles[at] = 0
            units.labels[at] = choice
            units.labels[bracket + 1] = None


def _attach_texts(units: Units) -> None:
    """Make one label of each label and its own option's text: `B. Lyon`."""
    for label in units.named:
        at = units.skip(label + 1, _BEFORE_TEXT)
        if at == label + 1 and units.token(label) == "a":
            continue  # an article
        if units.labels[label] is not None and units.options.get(at) == units.labels[label]:
            units.text_ends[label] = max(at + 1, units.text_ends.get(at, 0))
            units.roles[at] = 0
            units.labels[at] = None
