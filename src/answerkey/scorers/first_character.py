"""The extraction rule `first_character`: the first character, if it unambiguously names a choice."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

import polars as pl

from answerkey.scorers.characters import (
    LINE_BREAKS,
    LONGEST_CHARACTER,
    WHITE_SPACE,
    compose,
    is_word_character,
    match_word,
    measure_character,
    skip_spaces,
)
from answerkey.scorers.heads import HeadReader, Known, Open, Reading

#: `;` twice: the Greek question mark is the same character in NFC.
SEPARATORS = frozenset(",/&+;\u037e\u3001\uff0c\u060c")
JOINING_WORDS = frozenset({"or", "and", "und", "oder", "ou", "et", "o", "y"})
JOINING_CHARACTERS = frozenset("或和")
#: The Unicode category "dash punctuation" as far as it is written between letters, and the minus sign.
DASHES = frozenset("-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\u301c\ufe58\ufe63\uff0d")
HYPHENS = frozenset("-\xad\u2010\u2011\ufe63\uff0d")
APOSTROPHES = frozenset("'\u2019\uff07")
#: The words that may follow, on its line, the other choice and the choice itself.
WORDS_AFTER_ANOTHER = frozenset({"is", "are", "because", "since", "both", "or", "and"})
WORDS_AFTER = frozenset({"is", "because", "since"})
LABEL_MARKS = ".):"

_INSIDE_WORDS = APOSTROPHES | HYPHENS | {"/"}
_INSIDE_NUMBERS = frozenset(".,:")


def read_first_character(text: str, choices: Sequence[str]) -> Reading:
    """Return the choice that the text begins with, or the first reason why that is not unambiguous."""
    text = text.lstrip(WHITE_SPACE)
    if not text:
        return Reading(reason="EMPTY")
    end = measure_character(text)
    c = compose(text[:end])
    if c not in choices:
        return Reading(reason="NOT_A_CHOICE")
    reason = _find_ambiguity(text, end, c, choices=choices)
    return Reading(reason=reason) if reason else Reading(choice=c)


def _find_ambiguity(text: str, end: int, c: str, *, choices: Sequence[str]) -> str | None:
    if _names_another(text, end, c, choices=choices):
        return "SEVERAL_CHOICES"
    if _is_part_of_word(text, end, c):
        return "PART_OF_A_WORD"
    if _runs_into_word(text, end, WORDS_AFTER):
        return "RUNS_INTO_TEXT"
    if c == choices[0] and _echoes_choices(text, end, choices):
        return "ECHOES_CHOICES"
    return None


def _names_another(text: str, end: int, c: str, *, choices: Sequence[str]) -> bool:
    """Say whether `c`, which ends at `end`, is joined to another choice, also through others: `A/B/C`."""
    start = (end, False)
    seen, waiting = {start}, [start]
    while waiting:
        at, is_other = waiting.pop()
        for begin in _find_joined(text, at):
            stop = begin + measure_character(text, begin)
            d = compose(text[begin:stop])
            if d not in choices:
                continue
            following = (stop, is_other or d != c)
            if following[1] and _stands_alone(text, stop, d):
                return True
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def _find_joined(text: str, at: int) -> Iterator[int]:
    """Yield where a character may begin that is joined to the one that ends at `at`."""
    if text[at : at + 1] in DASHES:
        yield at + 1
    begin = skip_spaces(text, at)
    if text[begin : begin + 1] in SEPARATORS:
        begin = skip_spaces(text, begin + 1)
        yield begin
        yield from _skip_joining_word(text, begin)
    elif begin > at or text[begin : begin + 1] in JOINING_CHARACTERS:
        yield from _skip_joining_word(text, begin)


def _skip_joining_word(text: str, at: int) -> Iterator[int]:
    if text[at : at + 1] in JOINING_CHARACTERS:
        yield skip_spaces(text, at + 1)
        return
    end = at + (match_word(text, at, JOINING_WORDS) or 0)
    begin = skip_spaces(text, end) if end > at else end
    if begin > end:
        yield begin


def _stands_alone(text: str, end: int, d: str) -> bool:
    return not _is_part_of_word(text, end, d) and not _runs_into_word(text, end, WORDS_AFTER_ANOTHER)


def _is_part_of_word(text: str, end: int, c: str) -> bool:
    """Say whether the character `c`, which ends at `end`, begins a longer word or number."""
    following = text[end : end + 1]
    if following in _INSIDE_WORDS:
        return is_word_character(text[end + 1 : end + 2])
    if following in _INSIDE_NUMBERS and c.isdecimal():
        return text[end + 1 : end + 2].isdecimal()
    return is_word_character(following)


def _runs_into_word(text: str, end: int, harmless: frozenset[str]) -> bool:
    """Say whether white space and then, on the same line, a word follows that is not one of the harmless."""
    begin = skip_spaces(text, end)
    return begin > end and match_word(text, begin, harmless) is None


def _echoes_choices(text: str, end: int, choices: Sequence[str]) -> bool:
    """Say whether later lines begin with two other choices (or the only other), labelled as the first is."""
    mark, found = text[end : end + 1], set()
    if not mark or mark not in LABEL_MARKS:
        return False
    lines = text[end:].splitlines()[1:]
    for label in filter(None, (line.lstrip(WHITE_SPACE) for line in lines)):
        size = measure_character(label)
        d = compose(label[:size])
        if label[size : size + 1] == mark and d in choices[1:] and not _is_part_of_word(label, size, d):
            found.add(d)
    return 0 < min(2, len(choices) - 1) <= len(found)


# The column form: the rule on the distinct heads of the texts; all else is read whole, equal texts once.

#: Two characters decide nearly every text, some more those that go on with a word.
HEAD_SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 12)


def read_column(texts: pl.Series, choices: Sequence[str]) -> pl.DataFrame:
    """Return `choice` and `reason` of every text (no nulls), exactly as `read_first_character` gives them."""
    names = tuple(choices)
    reader = HeadReader(partial(read_first_character, choices=names), _recall_heads(names))
    numbers = reader.read_heads(texts, HEAD_SIZES)
    is_label, is_open = reader.find(Open.WHOLE, numbers), reader.find(Open.LONGER, numbers)
    if is_label.any():
        labels = _reduce_to_labels(texts.filter(is_label), names)
        numbers.scatter(is_label.arg_true(), reader.read_whole(labels))
    if is_open.any():
        numbers.scatter(is_open.arg_true(), reader.read_whole(texts.filter(is_open)))
    return reader.look_up(numbers)


@lru_cache(maxsize=64)
def _recall_heads(choices: tuple[str, ...]) -> Known:  # noqa: ARG001 - the key of the cache
    return defaultdict(dict)


def _reduce_to_labels(texts: pl.Series, choices: Sequence[str]) -> pl.Series:
    """Return texts that begin with the first choice as a label, with no more than the labels after it.

    Nothing else of such a text matters to the rule, and what is left is the same for many texts.
    """
    start = texts.str.strip_chars_start(WHITE_SPACE).str.extract(f"^(.[^{LABEL_MARKS}]*.)")
    return start + texts.str.extract_all(_write_label(choices[1:])).list.join("")


#: ASCII characters that another character becomes in NFC.
ALIASES = {";": "\u037e", "`": "\u1fef", "K": "\u212a"}


def _write_label(others: Sequence[str]) -> str:
    """Return the pattern of a line that may begin with another choice as a label, and of a digit after it.

    A choice beyond ASCII has many spellings; what may be one is left for the rule to see.
    """
    plain = "".join(d + ALIASES.get(d, "") for d in others if d.isascii())
    bases = "".join(unicodedata.normalize("NFD", d)[0] for d in others if not d.isascii())
    kinds = [f"[{_escape(plain)}]"] if plain else []
    if bases:
        kinds.append(rf"(?:[{_escape(bases)}]|{_BEYOND_ASCII}){_BEYOND_ASCII}{{0,{LONGEST_CHARACTER - 1}}}")
    breaks, spaces = _escape(LINE_BREAKS), _escape(WHITE_SPACE)
    return f"[{breaks}][{spaces}]*(?:{'|'.join(kinds)})[{LABEL_MARKS}](?:[0-9]|{_BEYOND_ASCII})?"


def _escape(characters: str) -> str:
    return "".join(rf"\x{{{ord(one):x}}}" for one in characters)


_BEYOND_ASCII = rf"[^\x00-\x7f{_escape(LINE_BREAKS)}]"
