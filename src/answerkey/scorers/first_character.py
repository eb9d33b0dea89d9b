"""The extraction rule `first_character`: the first character, if it unambiguously names a choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.scorers.characters import (
    WHITE_SPACE,
    compose,
    is_word_character,
    measure_character,
    read_word,
    skip_spaces,
)

#: `;` twice: the Greek question mark is the same character in NFC.
SEPARATORS = ",/&+;\u037e\u3001\uff0c\u060c"
JOINING_WORDS = frozenset({"or", "and", "und", "oder", "ou", "et", "o", "y"})
JOINING_CHARACTERS = "或和"
#: The Unicode category "dash punctuation" as far as it is written between letters, and the minus sign.
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\u301c\ufe58\ufe63\uff0d"
HYPHENS = "-\xad\u2010\u2011\ufe63\uff0d"
APOSTROPHES = "'\u2019\uff07"
#: What may follow, on its line, the other choice and the choice itself; `""` is no word at all.
WORDS_AFTER_ANOTHER = frozenset({"", "is", "are", "because", "since", "both", "or", "and"})
WORDS_AFTER = frozenset({"", "is", "because", "since"})
LABEL_MARKS = ".):"

#: One more than the longest word above: enough to tell every other word from them.
_LONGEST_WORD = 8


@dataclass(frozen=True)
class Reading:
    """What a rule reads in a completion: a choice, or the reason why it names none."""

    choice: str | None = None
    reason: str | None = None


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
    if _read_next_word(text, end) not in WORDS_AFTER:
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
    if text[at : at + 1] in tuple(DASHES):
        yield at + 1
    begin = skip_spaces(text, at)
    if text[begin : begin + 1] in tuple(SEPARATORS):
        begin = skip_spaces(text, begin + 1)
        yield begin
        yield from _skip_joining_word(text, begin)
    elif begin > at or text[begin : begin + 1] in tuple(JOINING_CHARACTERS):
        yield from _skip_joining_word(text, begin)


def _skip_joining_word(text: str, at: int) -> Iterator[int]:
    if text[at : at + 1] in tuple(JOINING_CHARACTERS):
        yield skip_spaces(text, at + 1)
        return
    word = read_word(text, at, limit=_LONGEST_WORD)
    begin = skip_spaces(text, at + len(word))
    if word.lower() in JOINING_WORDS and begin > at + len(word):
        yield begin


def _stands_alone(text: str, end: int, d: str) -> bool:
    return not _is_part_of_word(text, end, d) and _read_next_word(text, end) in WORDS_AFTER_ANOTHER


def _is_part_of_word(text: str, end: int, c: str) -> bool:
    """Say whether the character `c`, which ends at `end`, begins a longer word or number."""
    following, further = text[end : end + 1], text[end + 1 : end + 2]
    if following in tuple(APOSTROPHES + HYPHENS + "/"):
        return is_word_character(further)
    if following in tuple(".,:") and c.isdecimal():
        return further.isdecimal()
    return is_word_character(following)


def _read_next_word(text: str, end: int) -> str:
    """Return the word after white space on the same line, in lower case; nothing if there is none."""
    begin = skip_spaces(text, end)
    return "" if begin == end else read_word(text, begin, limit=_LONGEST_WORD).lower()


def _echoes_choices(text: str, end: int, choices: Sequence[str]) -> bool:
    """Say whether later lines begin with two other choices (or the only other), labelled as the first is."""
    mark, found = text[end : end + 1], set()
    if mark not in tuple(LABEL_MARKS):
        return False
    for line in text[end:].splitlines()[1:]:
        label = line.lstrip(WHITE_SPACE)
        size = measure_character(label)
        d = compose(label[:size])
        if label[size : size + 1] == mark and d in choices[1:] and not _is_part_of_word(label, size, d):
            found.add(d)
    return 0 < min(2, len(choices) - 1) <= len(found)


# The column form: ASCII is decided by expressions, all else by the rule above, once for each distinct text.

#: Fewer texts are read one by one (building expressions would cost more), and so are unusually many choices.
SMALL_GROUP = 64
MANY_CHOICES = 32

_SPACE = r"[\t\x1f ]"
_BREAK = r"[\n\x0b\x0c\r\x1c-\x1e]"
_WORD = "[0-9A-Za-z_]"
_NO_WORD = r"(?:[^0-9A-Za-z_]|\z)"
_NO_SPACE_OR_WORD = r"[^\t-\r\x1c-\x1f 0-9A-Za-z_]"
_JOINING = f"(?i:{'|'.join(sorted(JOINING_WORDS))})"
_JOINT = f"(?:{_SPACE}*[,/&+;]{_SPACE}*(?:{_JOINING}{_SPACE}+)?|{_SPACE}+{_JOINING}{_SPACE}+|-)"

#: States of a text besides a reason: no reason, and three that further looking must settle.
_VALID, _JOINED, _LABELLED, _UNREAD = "", "joined", "labelled", "unread"


def read_column(texts: pl.Series, choices: Sequence[str]) -> pl.DataFrame:
    """Return `choice` and `reason` of every text (no nulls), exactly as `read_first_character` gives them."""
    if len(texts) < SMALL_GROUP or len(choices) > MANY_CHOICES or not "".join(choices).isascii():
        return _read_distinct(texts, choices)
    frame = _look_at_start(texts, choices)
    is_open = pl.col("reason").is_in([_JOINED, _LABELLED])
    is_ascii = pl.col("text").str.len_bytes() == pl.col("text").str.len_chars()
    opened = frame.filter(is_open).with_columns(
        reason=pl.when(is_ascii).then("reason").otherwise(pl.lit(_UNREAD))
    )
    joined = opened.filter(pl.col("reason") == _JOINED).with_columns(reason=_look_at_line(choices))
    labelled = opened.filter(pl.col("reason") == _LABELLED).with_columns(reason=_look_at_lines(choices))
    unread = pl.concat([one.filter(pl.col("reason") == _UNREAD) for one in (frame, opened)])
    settled = pl.concat([frame.filter(~is_open & (pl.col("reason") != _UNREAD)), joined, labelled])
    is_valid = pl.col("reason") == _VALID
    parts = [
        settled.select("row", choice=pl.when(is_valid).then("c"), reason=pl.when(~is_valid).then("reason")),
        pl.concat([unread.select("row"), _read_distinct(unread["text"], choices)], how="horizontal"),
    ]
    return pl.concat(parts).sort("row").select("choice", "reason")


def _read_distinct(texts: pl.Series, choices: Sequence[str]) -> pl.DataFrame:
    frame = pl.DataFrame({"text": texts})
    distinct = frame.unique()
    readings = [read_first_character(text, choices) for text in distinct["text"]]
    found = distinct.with_columns(
        pl.Series("choice", [one.choice for one in readings], dtype=pl.String),
        pl.Series("reason", [one.reason for one in readings], dtype=pl.String),
    )
    return frame.join(found, on="text", how="left", maintain_order="left").select("choice", "reason")


def _look_at_start(texts: pl.Series, choices: Sequence[str]) -> pl.DataFrame:
    """Return `row`, the stripped `text`, its first characters `c` and `after`, and the reason or state."""
    text = pl.col("text").str.strip_chars_start("\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f ")
    frame = pl.DataFrame({"text": texts}).with_row_index("row").with_columns(text)
    frame = frame.with_columns(c=pl.col("text").str.slice(0, 1), after=pl.col("text").str.slice(1, 1))
    c, after = pl.col("c"), pl.col("after")
    is_label = (c == choices[0]) & after.is_in(list(LABEL_MARKS))
    is_digit = c.str.contains("^[0-9]$")
    state = (
        pl.when(c == "")
        .then(pl.lit("EMPTY"))
        .when((c.str.len_bytes() > 1) | (after.str.len_bytes() > 1))
        .then(pl.lit(_UNREAD))
        .when(~c.is_in(list(choices)))
        .then(pl.lit("NOT_A_CHOICE"))
        .when(after.str.contains(f"^{_WORD}$"))
        .then(pl.lit("PART_OF_A_WORD"))
        .when(is_label)
        .then(pl.lit(_LABELLED))
        .when(after.is_in(list("\t\x1f ,/&+;-'")) | (is_digit & after.is_in([".", ":"])))
        .then(pl.lit(_JOINED))
        .otherwise(pl.lit(_VALID))
    )
    return frame.with_columns(reason=state)


def _look_at_line(choices: Sequence[str]) -> pl.Expr:
    """Return the reason of a text whose `c` is followed by something that may join it to what comes next."""
    text = pl.col("text")
    is_part = text.str.contains(f"^(?:.['/-]{_WORD}|[0-9][.,:][0-9])")
    runs = text.str.contains(f"^.{_SPACE}+{_WORD}") & ~text.str.contains(
        f"^.{_SPACE}+(?i:is|because|since){_NO_WORD}"
    )
    return (
        pl.when(text.str.contains(_write_several(choices)))
        .then(pl.lit("SEVERAL_CHOICES"))
        .when(is_part)
        .then(pl.lit("PART_OF_A_WORD"))
        .when(runs)
        .then(pl.lit("RUNS_INTO_TEXT"))
        .otherwise(pl.lit(_VALID))
    )


def _write_several(choices: Sequence[str]) -> str:
    """Return the pattern of a choice joined to another one, for ASCII text."""
    chain = f"(?:{_JOINT}{_write_class(choices)})*{_JOINT}"
    ends = _write_ends(choices)
    beginnings = []
    for c in choices:
        others = [d for d in choices if d != c]
        if others:
            onward = f"(?:{_write_ends(others)}|{_write_class(others)}{chain}{ends})"
            beginnings.append(f"{_write_class([c])}{chain}{onward}")
    return f"^(?:{'|'.join(beginnings)})" if beginnings else "^[^\\x00-\\x{10ffff}]"


def _write_class(characters: Sequence[str]) -> str:
    codes = (rf"\x{ord(one):02x}" for one in characters)
    return f"[{''.join(codes)}]"


def _write_ends(choices: Sequence[str]) -> str:
    """Return the pattern of one of the choices, standing alone: no part of a word, no other word after it."""
    words = "|".join(sorted(WORDS_AFTER_ANOTHER - {""}))
    common = (
        rf"{_SPACE}*(?:\z|{_BREAK})|{_SPACE}+(?:{_NO_SPACE_OR_WORD}|(?i:{words}){_NO_WORD})|['/-]{_NO_WORD}"
    )
    plain, digits = [d for d in choices if not d.isdecimal()], [d for d in choices if d.isdecimal()]
    ends = []
    if plain:
        ends.append(rf"{_write_class(plain)}(?:{common}|[^\t-\r\x1c-\x1f 0-9A-Za-z_'/-])")
    if digits:
        after = r"[^\t-\r\x1c-\x1f 0-9A-Za-z_'/.,:-]|[.,:](?:[^0-9]|\z)"
        ends.append(f"{_write_class(digits)}(?:{common}|{after})")
    return f"(?:{'|'.join(ends)})"


def _look_at_lines(choices: Sequence[str]) -> pl.Expr:
    """Return the reason of a text that begins with the first choice as a label."""
    text, after = pl.col("text"), pl.col("after")
    needed = min(2, len(choices) - 1)
    echoes = pl.lit(value=False)
    for mark in LABEL_MARKS if needed else "":
        found = [text.str.contains(_write_label(d, mark)).cast(pl.Int32) for d in choices[1:]]
        echoes = echoes | ((after == mark) & (pl.sum_horizontal(found) >= needed))
    return (
        pl.when(text.str.contains("^[0-9][.:][0-9]"))
        .then(pl.lit("PART_OF_A_WORD"))
        .when(echoes)
        .then(pl.lit("ECHOES_CHOICES"))
        .otherwise(pl.lit(_VALID))
    )


def _write_label(d: str, mark: str) -> str:
    """Return the pattern of a later line that begins with this choice and mark."""
    is_number = d.isdecimal() and mark != ")"
    return rf"{_BREAK}[\t-\r\x1c-\x1f ]*{_write_class([d])}[{mark}]" + (r"(?:[^0-9]|\z)" if is_number else "")
