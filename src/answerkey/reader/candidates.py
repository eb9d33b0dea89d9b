"""Where a text names a choice: option texts, labels that stand on their own, labels joined to
others.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from answerkey.reader.units import (
    AFTER,
    AND,
    ANSWER,
    BE,
    BREAK,
    BUT,
    CLOSE,
    COMMAS,
    DASHES,
    DRESS,
    EQUALS,
    FILL,
    FIRST_HANGUL,
    FIX,
    HYPHENS,
    IF,
    IT,
    JOINTS,
    LABEL_MARKS,
    LEAVE,
    MATCH,
    MAYBE,
    NOT,
    NOT_AFTER,
    OPEN,
    OPTION,
    OR,
    PICK,
    RIGHT,
    ROUND_CLOSE,
    ROUND_OPEN,
    SPOILING,
    STOPS,
    WRONG,
    Labels,
    Units,
    normalize_word,
    split_tokens,
)

# The texts of the options, and where a completion writes one of them in full.

#: Words and numbers between spaces that are tokens of their own, whatever marks stand around them.
_PLAIN_WORDS = re.compile(r'(?<!\S)[("*$]*+([a-z]++|[0-9]++(?:[.,:][0-9]++)*+)[.,;:!?)"*%]*+(?!\S)')

_ENGLISH_ARTICLES = ("the", "a", "an")
_ROMANCE_ARTICLES = (
    "le",
    "la",
    "les",
    "un",
    "une",
    "el",
    "los",
    "las",
    "una",
    "il",
    "lo",
    "gli",
    "os",
    "as",
)
_ARTICLES = frozenset(
    (*_ENGLISH_ARTICLES, *_ROMANCE_ARTICLES, "um", "uma", "der", "die", "das", "ein", "eine")
)
_AFTER_LABEL = LABEL_MARKS | CLOSE

#: Every dash in an option's text, and in what is compared with it.
MINUS = "-"
_CURRENCIES = frozenset("$\u20ac\u00a3\u00a5")
_KOREAN_VERBS = frozenset(
    {"\uc785\ub2c8\ub2e4", "\uc774\ub2e4", "\ub2e4", "\uc774\uc5d0\uc694", "\uc608\uc694"}
)
_BEFORE_NUMBER = frozenset({"/", "^", "\u00b1", "\\pm", "\u00d7"})

#: The words of an option, and the choice that it belongs to; None if several options have these
#: words.
_Entry = tuple[tuple[str, ...], str | None]


@dataclass(slots=True)
class FoundText:
    """An option's text in a completion: the choice (None if several options have that text), and
    its end.
    """

    choice: str | None
    end: int


@dataclass(slots=True)
class OptionTexts:
    """All options, and those that may occur in a text: `spelled` has their words, by the first of
    them.

    `is_near`: the text has the plain words of an option, if not its marks.
    """

    options: tuple[str, ...]
    spelled: dict[str, list[_Entry]]
    is_near: bool = False

    def find(self, units: Units, at: int) -> FoundText | None:
        """Return the longest option text that begins with the unit at `at`."""
        if not self.spelled or at >= units.size:
            return None
        raw, begin = units.raw, units.places[at]
        first = raw[begin]
        entries = self.spelled.get(first)
        if entries is None and (
            first.isascii() or (entries := _find_other(self.spelled, first)) is None
        ):
            return None
        if first[0].isdecimal() and _is_inside_number(units, at):
            return None
        best: tuple[int, str | None] = 0, None
        for words, choice in entries:
            end = _match(raw, begin, words)
            if end > best[0]:
                best = end, choice
        return FoundText(best[1], bisect_left(units.places, best[0])) if best[0] else None

    def find_before(self, units: Units, at: int) -> tuple[str | None, int] | None:
        """Return the choice of the option text that ends before the unit at `at`, and where it
        begins.
        """
        if at == 0:
            return None
        raw, end = units.raw, units.places[at]
        for entries in self.spelled.values():
            for words, choice in entries:
                begin = end - len(words)
                if begin >= 0 and words[-1] == raw[end - 1] and _match(raw, begin, words) == end:
                    return choice, bisect_left(units.places, begin)
        return None

    def is_own(self, units: Units, at: int, choice: str | None) -> bool:
        """Say whether the text of this choice begins at `at`."""
        found = self.find(units, at)
        return found is not None and found.choice == choice


NO_TEXTS = OptionTexts((), {})


def read_texts(options: Sequence[str] | None, labels: Labels, units: Units) -> OptionTexts:
    """Return the texts of the options, which are in the order of the choices.

    More than those are ignored.
    """
    if not options:
        return NO_TEXTS
    texts, known = tuple(options[: len(labels.choices)]), units.known
    owners = _find_owners(texts, labels, known)
    spelled: dict[str, list[_Entry]] = {}
    for words, choices in owners.items():
        # Of ASCII, a dash alone is written in several ways.
        if known.issuperset(words) or MINUS in words or not units.text.isascii():
            spelled.setdefault(words[0], []).append(
                (words, choices[0] if len(choices) == 1 else None)
            )
    return OptionTexts(texts, spelled, bool(owners))


def _find_other(spelled: dict[str, list[_Entry]], first: str) -> list[_Entry] | None:
    """Return the options whose first word is another form of this one: any dash, a noun with its
    verb.
    """
    if first[0] < FIRST_HANGUL:
        return spelled.get(MINUS) if first in DASHES else None
    stems = (first[:end] for end in (-3, -2, -1))
    return next((spelled[stem] for stem in stems if stem in spelled), None)


def _match(raw: list[str], begin: int, words: tuple[str, ...]) -> int:
    """Return where the words end that begin here, emphasis between them ignored.

    0 if they are others.
    """
    at, size = begin, len(raw)
    for word in words:
        if at < size and raw[at] == word:
            at += 1
            continue
        while at < size and raw[at] != word and raw[at] in DRESS and at < begin + 2 * len(words):
            at += 1
        if at >= size or (raw[at] != word and not _is_same(raw[at], word)):
            return 0
        at += 1
    return at


def _is_same(token: str, word: str) -> bool:
    """Say whether a token is a word of an option in another form: any dash, a Korean noun with its
    verb.
    """
    if word == MINUS:
        return token in DASHES
    return (
        word[0] >= FIRST_HANGUL and token.startswith(word) and token[len(word) :] in _KOREAN_VERBS
    )


def _is_inside_number(units: Units, at: int) -> bool:
    """Say whether the number at `at` is part of a longer one: `-5`, `1/5`, `2^5`."""
    if at == 0 or units.gaps[at]:
        return False
    before = at - 2 if at > 1 and units.words[at - 1] in _CURRENCIES else at - 1
    if units.words[before] in DASHES and not units.gaps[before + 1]:
        # A dash between two numbers is a range.
        return before == 0 or bool(units.gaps[before]) or not units.words[before - 1][:1].isalnum()
    return units.words[before] in _BEFORE_NUMBER


def _find_owners(
    options: tuple[str, ...], labels: Labels, known: set[str]
) -> dict[tuple[str, ...], list[str]]:
    """Return the choices of options that the known words may make up, by their words.

    Articles may lack.
    """
    spelled = [
        (_spell_option(options[at], labels.choices[at], labels), labels.choices[at])
        for at, needed in enumerate(list_needed(options, labels))
        if needed <= known
    ]
    if not spelled:
        return {}
    owners: dict[tuple[str, ...], list[str]] = {}
    for words, choice in spelled:
        owners.setdefault(words, []).append(choice)
    for words, choice in spelled:
        if len(words) > 1 and words[0] in _ARTICLES and words[1:] not in owners:
            owners[words[1:]] = [choice]
    owners.pop((), None)
    return owners


@lru_cache(maxsize=4096)
def list_needed(options: tuple[str, ...], labels: Labels) -> tuple[frozenset[str], ...]:
    """Return plain words of each option that a text needs to contain it.

    Quick, and not all of them.
    """
    if not labels.is_plain:
        return (frozenset(),) * len(options)
    free = _ARTICLES | labels.by_key.keys()
    return tuple(frozenset(_PLAIN_WORDS.findall(text.lower())) - free for text in options)


@lru_cache(maxsize=4096)
def _spell_option(text: str, choice: str, labels: Labels) -> tuple[str, ...]:
    """Return the words of an option without its own label (`(A) Paris`), emphasis and a full
    stop.
    """
    tokens = split_tokens(text.strip())
    words = [normalize_word(token) for token in tokens]
    begin = _skip_label(tokens, words, choice, labels=labels)
    kinds = (
        {"~~", "$"} if words.count("$") == 1 else {"~~"}
    )  # one dollar sign is an amount, two are a formula
    kept = [
        MINUS if word in DASHES else word
        for word in words[begin:]
        if word not in DRESS or word in kinds
    ]
    while len(kept) > 1 and kept[-1] in STOPS:
        kept.pop()
    return tuple(kept)


def _skip_label(tokens: Sequence[str], words: Sequence[str], choice: str, *, labels: Labels) -> int:
    at = 0
    while at < len(words) and words[at] in OPEN:
        at += 1
    if at + 2 >= len(words) or words[at + 1] not in _AFTER_LABEL:
        return 0
    if words[at + 1] in DASHES and len(tokens[at + 2]) == 1:
        return 0  # `C-B` is the whole text
    return at + 2 if labels.find(tokens[at], words[at]) == choice else 0


# Where a label can stand: what may be before it and after it without making it something else.

#: How many brackets and marks of emphasis may stand around a label: the work at one place is
#: bounded.
WRAPS = 6

#: Labels that are words, too, and the verbs that may follow them all the same.
_WORDS = frozenset({"a", "i"})
_VERBS = frozenset({"is", "are", "ist", "est", "es", "\u00e8", "\u00e9", "\u4e3a", "\u662f"})
_PRONOUNS = frozenset("I")
_APOSTROPHES = ("'", "\u2019")
#: A conjunction in French, and a noun in English.
_CAR = "car"

_FOLLOWING = AFTER | BE | OR | AND | BUT | IF | FIX
#: Parts of verbs that end a sentence: `B नहीं है`, `B चुनता हूँ`.
_FOREIGN = PICK | NOT_AFTER | RIGHT | ANSWER
_PARTICLES = BE | OPTION | FILL | RIGHT | WRONG | AND | OR | AFTER | MAYBE


@dataclass(slots=True)
class Scan:
    """What a text is read with: its units, the labels of its choices, and the texts of its
    options.
    """

    units: Units
    labels: Labels
    texts: OptionTexts
    #: What `read_names` found, by the place of the first label.
    names: dict[int, Named | None] = field(default_factory=dict)


def find_label(units: Units, at: int) -> int | None:
    """Return where the label is that begins here, after brackets and emphasis."""
    words, labels = units.words, units.labels
    if at >= units.size:
        return None
    if labels[at] is not None:
        return at
    if words[at] not in OPEN:
        return None
    for position in range(at + 1, min(at + WRAPS, len(words))):
        if units.gaps[position] and words[position - 1] in DRESS:
            return None
        if labels[position] is not None:
            return position
        if words[position] not in OPEN:
            return None
    return None


def close_label(units: Units, position: int) -> int:
    """Return the first unit after a label and what closes its wrapping."""
    at, words = position + 1, units.words
    while at < len(words) and words[at] in CLOSE and not units.gaps[at] and at < position + WRAPS:
        at += 1
    return at


def is_word(units: Units, at: int) -> bool:
    """Say whether the unit is a word, a number or a phrase."""
    return at < units.size and (not (word := units.words[at]) or word[0].isalnum())


def is_plain(scan: Scan, at: int) -> bool:
    """Say whether a unit is a word that plays no role, is no label, and begins no option's text."""
    units = scan.units
    if at >= units.size or units.roles[at] or units.labels[at] is not None:
        return False
    word = units.words[at] if units.text.isascii() else units.token(at)
    is_long = len(word) > 1 and units.words[at][0].isalnum()
    return is_long and not (scan.texts.spelled and scan.texts.find(units, at))


def is_end(units: Units, at: int) -> bool:
    """Say whether the text or its line ends here."""
    return at >= units.size or units.words[at] == BREAK


def begins_well(units: Units, position: int) -> bool:
    """Say whether nothing before a label makes it part of a word or a number."""
    if position == 0 or units.gaps[position]:
        return True
    before, token = units.token(position - 1), units.token(position)
    if before[-1:] in _APOSTROPHES and len(before) > 1:
        return not token.islower()  # `l'a vu`
    if before[-1:].isalnum():
        return not (before[-1:].isascii() and token.isascii())
    if before in DASHES and token.isdecimal():
        return False
    if before in HYPHENS:
        return not (position > 1 and not units.gaps[position - 1] and is_word(units, position - 2))
    return not (
        before == "$" and token.isdecimal() and "$" not in units.words[position + 1 : position + 3]
    )


def stands(scan: Scan, position: int, at: int) -> bool:
    """Say whether a label is set off from what follows it and its wrapping, which is at `at`."""
    units = scan.units
    if at >= units.size or units.words[at] == BREAK:
        return True
    if position and units.roles[position - 1] & OPTION and not units.token(position).islower():
        # Whatever follows `option B`, unless it goes on: `option B-2`.
        return units.words[at] not in SPOILING and (
            bool(units.gaps[at]) or not is_word(units, at) or _may_touch(units, position, at)
        )
    if not is_word(units, at):
        return _may_open(scan, position, at) if units.gaps[at] else not _spoils(scan, at)
    if not units.gaps[at] and units.words[at - 1] not in ROUND_CLOSE:
        return _may_touch(units, position, at)
    if at > position + 1 and units.words[at - 1] != "_":
        return True
    return _may_follow(scan, position, at)


def _may_open(scan: Scan, position: int, at: int) -> bool:
    """Say whether a mark after a label and a space sets it off.

    Emphasis and quotes belong to their words.
    """
    units, end = scan.units, at
    while end < min(at + WRAPS, units.size) and units.words[end] in DRESS:
        end += 1
    if end == at or not is_word(units, end):
        return True
    return scan.texts.is_own(units, end, units.labels[position])


def _spoils(scan: Scan, at: int) -> bool:
    """Say whether the mark right after a label makes it something else: `C++`, `A-level`, `f(x)`,
    `i.e.`.
    """
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
    is_initial = (
        len(following) == 1 and following.isalpha() and units.words[at + 2 : at + 3] == ["."]
    )
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
        return word in _VERBS or not units.token(at).isascii()
    if roles & _FOLLOWING or (roles & NOT and not roles & WRONG):
        return True
    is_inverted = position > 0 and bool(units.roles[position - 1] & (BE | LEAVE))
    if is_inverted and roles & (FILL | RIGHT) and token.isupper() and token not in _PRONOUNS:
        return True  # `makes C the one`, `ist C die`, `ist C richtig`
    if (roles & OPTION and token.isupper()) or (roles & _FOREIGN and not units.token(at).isascii()):
        return True
    return scan.texts.is_own(units, at, units.labels[position])


# Labels that are joined to others: `A or B`, `A, B and C`, `A (Paris) / B (Lyon)`, `A-C`.

#: The longest remark in brackets after a label, and the most light words after a joint.
_ASIDE = 16
_MOST_LIGHT = 3

PLURALS = frozenset({"are", "sind", "sont", "son", "sono", "s\u00e3o", "zijn", "s\u0105"})
_JOINING = JOINTS | DASHES


def find_joined(scan: Scan, position: int, end: int) -> int | None:
    """Return where the label is that is joined to the one at `position`, which is closed before
    `end`.
    """
    units = scan.units
    if end >= units.size:
        return None
    if units.words[end] in ROUND_OPEN:
        if _is_row(units, position, end):
            return end + 1
    elif not (scan.texts.spelled or units.words[end] in _JOINING or units.roles[end] & (OR | AND)):
        return None
    is_wrapped = end > position + 1
    joined = _find_after_joint(scan, end, is_wrapped=is_wrapped)
    if joined is not None:
        return joined
    begin = skip_remark(scan, end, units.labels[position])
    return None if begin == end else _find_after_joint(scan, begin, is_wrapped=is_wrapped)


def _find_after_joint(scan: Scan, at: int, *, is_wrapped: bool) -> int | None:
    """Return where the label is after the joint that stands here, if it is one more answer."""
    further = _skip_joint(scan.units, at)
    joined = None if further is None else find_label(scan.units, further)
    if joined is None or not _is_another(
        scan, joined, is_direct=further == at + 1, is_wrapped=is_wrapped
    ):
        return None
    return joined


def _is_row(units: Units, position: int, end: int) -> bool:
    """Say whether another label in brackets follows one in brackets: `(A) (B)`, not `(E) (i) and
    (iii)`.
    """
    if end + 2 >= units.size or units.words[end - 1] not in ROUND_CLOSE:
        return False
    is_alike = units.token(end + 1).isupper() == units.token(position).isupper()
    return is_alike and units.labels[end + 1] is not None and units.words[end + 2] in ROUND_CLOSE


def skip_remark(scan: Scan, at: int, choice: str | None) -> int:
    """Return the first unit after a remark in brackets or the option's own text.

    `at` if there is none.
    """
    units = scan.units
    if at >= units.size or not (units.words[at] in ROUND_OPEN or scan.texts.spelled):
        return at
    begin = at + 1 if units.words[at] in LABEL_MARKS else at
    while begin < units.size and units.words[begin] in OPEN and begin < at + WRAPS:
        begin += 1
    text = scan.texts.find(units, begin)
    if text is not None and text.choice == choice:
        end = text.end
        while end < min(text.end + WRAPS, units.size) and units.words[end] in CLOSE:
            end += 1
        return end
    if units.words[at] not in ROUND_OPEN:
        return at
    for end in range(at + 1, min(at + _ASIDE, units.size)):
        if units.words[end] in ROUND_CLOSE:
            return end + 1
        if units.words[end] == BREAK:
            break
    return at


def _skip_joint(units: Units, at: int) -> int | None:
    """Return where a joined label may begin: after `,`, `/`, `or`, `, or`, or a dash without
    spaces.
    """
    if at >= units.size:
        return None
    begin, word = at, units.words[at]
    if word in DASHES:
        is_tight = not units.gaps[at] and at + 1 < units.size and not units.gaps[at + 1]
        return at + 1 if is_tight else None
    if word in JOINTS:
        at += 1
    if at < units.size and units.roles[at] & (OR | AND) and not _is_listed(units, at):
        at += 1
    return None if at == begin else _skip_light(units, at)


def _is_listed(units: Units, at: int) -> bool:
    """Say whether a letter that is a word for `and`, too, is a label here: `C, E, or G`."""
    return units.labels[at] is not None and find_label(units, at + 1) is None


def _skip_light(units: Units, at: int) -> int | None:
    """Return the first unit that is a label or no light word: `or the option B`."""
    for further in range(at, min(at + _MOST_LIGHT, units.size)):
        is_label = units.labels[further] is not None and not is_word(units, further + 1)
        if is_label or not units.roles[further] & (FILL | OPTION | MAYBE):
            return further
    return None


def _is_another(scan: Scan, position: int, *, is_direct: bool, is_wrapped: bool) -> bool:
    """Say whether a label after a joint is one more answer, and not the beginning of something
    else.
    """
    units = scan.units
    at = close_label(units, position)
    if not stands(scan, position, at):
        following = units.words[position + 1 : position + 2]
        if is_direct and following and following[0] in _JOINING:
            return True
        # `A, C i D`: whatever the word is, the letter is none of a sentence.
        token = units.token(position)
        is_letter = token.isupper() and token not in _PRONOUNS and is_word(units, position + 1)
        is_apart = is_letter and (
            units.gaps[position + 1] or not units.token(position + 1).isascii()
        )
        is_joined = is_direct or bool(units.roles[position - 1] & (OR | AND))
        return bool(is_apart) and is_joined and not is_wrapped
    if at < units.size and units.roles[at] & BE and units.words[at] not in PLURALS:
        further = units.roles[at] | (units.roles[at + 1] if at + 1 < units.size else 0)
        return not further & (NOT | WRONG)
    return True


# Labels as a text names them: one, or several joined, set off from the words around them.

#: More labels than these are a list of something else.
MANY = 26

_LONGEST_KEY = 6

#: How far from a label its text may begin, in units.
_TO_TEXT = 12

_BETWEEN = LABEL_MARKS | OPEN | CLOSE | DASHES | COMMAS | EQUALS | {"\u3002"}
_TEXT_ENDS = CLOSE | STOPS | COMMAS | DASHES
_BRACKETS = frozenset("([\uff08\u3010")
_QUOTED = frozenset("\"'")


@dataclass(slots=True)
class Named:
    """The choices that a place in the text names, from one unit to another.

    `is_wrapped`: in brackets, quotes or emphasis. `clashes`: followed by the text of another
    option.
    """

    choices: tuple[str, ...]
    begin: int
    end: int
    is_wrapped: bool = False
    clashes: bool = False


def read_names(scan: Scan, at: int) -> Named | None:
    """Return the labels named from here on, if they are set off from the words around them."""
    position = find_label(scan.units, at)
    if position is None:
        return None
    if position not in scan.names:
        scan.names[position] = _read_names_at(scan, position)
    names = scan.names[position]
    if names is None or position == at:
        return names
    return Named(names.choices, at, names.end, names.is_wrapped, names.clashes)


def _read_names_at(scan: Scan, position: int) -> Named | None:
    units = scan.units
    if not begins_well(units, position):
        return None
    last, end, named = position, close_label(units, position), [str(units.labels[position])]
    for _ in range(1, MANY):
        further = find_joined(scan, last, end)
        if further is None:
            break
        last, end = further, close_label(units, further)
        named.append(str(units.labels[last]))
    if not stands(scan, last, end):
        return None
    choices = tuple(dict.fromkeys(named)) if last > position else (named[0],)
    clashes = (
        len(choices) == 1 and bool(scan.texts.spelled) and _clashes(scan, position, end, choices[0])
    )
    return Named(choices, position, end, end > position + 1, clashes)


def _clashes(scan: Scan, position: int, end: int, choice: str) -> bool:
    """Say whether a label goes with another option's text, or is that text itself."""
    units = scan.units
    begin, limit = end, min(end + _TO_TEXT, units.size)
    text = scan.texts.find(units, begin)
    while text is None and begin < limit and (further := _step_to_text(units, begin)) > begin:
        begin = further
        text = scan.texts.find(units, begin)
    if text is not None:
        return text.choice != choice and _ends_clause(units, text.end)
    word = scan.texts.find(units, position)
    if word is None or word.choice is None or word.choice == choice:
        return False
    option = scan.texts.options[scan.labels.choices.index(word.choice)]
    if units.token(position) not in option:
        return False  # `C` is not the text `c`
    before = position - 1
    while before >= 0 and units.words[before] in DRESS:
        before -= 1
    is_bracketed = (
        before >= 0 and units.words[before] in _BRACKETS and not units.words[position].isdecimal()
    )
    return before < 0 or not (units.roles[before] & OPTION or is_bracketed)


def _step_to_text(units: Units, at: int) -> int:
    """Return the unit after what may stand between a label and its text; `at` if it may not."""
    word = units.words[at]
    # The next key of an object: `"answer": "B", "answer_text": "Lyon"`.
    quote = units.words[at - 1] if at else ""
    for end in range(at + 1, min(at + _LONGEST_KEY, units.size - 1)) if quote in _QUOTED else ():
        if units.words[end] == quote:
            if units.words[end + 1] == ":":
                return end + 2
            break
    is_that = not ~units.roles[at] & (IT | BE)  # `A, that is Lyon`
    return (
        at + 1 if word in _BETWEEN or units.roles[at] & (FILL | MATCH | OPTION) or is_that else at
    )


def _ends_clause(units: Units, end: int) -> bool:
    """Say whether nothing more is said of a text here: a full stop, a comma, a bracket,
    `because`.
    """
    if is_end(units, end) or units.words[end] in _TEXT_ENDS or units.roles[end] & AFTER:
        return True
    is_last = is_end(units, end + 1) or units.words[end + 1] in STOPS
    return is_last and bool(units.roles[end] & BE) and not units.token(end).isascii()
