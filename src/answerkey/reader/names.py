"""Where a text names a choice: labels that stand on their own, and labels joined to others."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase

from answerkey.reader.lexicon import (
    AFTER,
    AND,
    ANSWER,
    BE,
    BREAK,
    BUT,
    CHANGING,
    CLOSE,
    COMMAS,
    DASHES,
    DRESS,
    EQUALS,
    FILL,
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
    STOPS,
    WRONG,
)
from answerkey.reader.units import WRAPS, Units

# Where a label can be: what may come before and after it without making it something else.

#: Verbs that may follow a label that is also a word: `A is`, not `a being`.
_VERBS = frozenset({"is", "are", "ist", "est", "es", "\u00e8", "\u00e9", "\u4e3a", "\u662f"})
_FOLLOWING = AFTER | BE | OR | AND | BUT | IF | FIX
#: Parts of verbs that end a sentence: `B नहीं है`, `B चुनता हूँ`.
_FOREIGN = PICK | NOT_AFTER | RIGHT | ANSWER
_PARTICLES = BE | OPTION | FILL | RIGHT | WRONG | AND | OR | AFTER | MAYBE


def find_label(units: Units, at: int) -> int | None:
    """Return the position of the label that begins here, after brackets and emphasis."""
    for position in range(at, at + WRAPS):
        if units.labels[position] is not None:
            return position
        if units.words[position] not in OPEN:
            return None
    return None


def close_label(units: Units, position: int) -> int:
    """Return the first unit after a label, its own option's text, and its closing brackets."""
    begin = at = units.text_ends.get(position, position + 1)
    while at < begin + WRAPS and units.words[at] in CLOSE and not units.gaps[at]:
        at += 1
    return at


def is_word(units: Units, at: int) -> bool:
    """Say whether the unit is a word, a number, a phrase or an option's text."""
    word = units.words[at]
    return not word or word[0].isalnum()


def is_end(units: Units, at: int) -> bool:
    """Say whether the text or its line ends here."""
    return units.words[at] == BREAK


def is_named_text(units: Units, at: int) -> bool:
    """Say whether there is an option's text here, followed by its own label: `empathy (A)`."""
    position = find_label(units, at)
    is_text = position is not None and units.options.get(position) == units.labels[position]
    return is_text and position in units.text_ends


def is_small(units: Units, position: int) -> bool:
    """Say whether a label is in lower case though the choices are not, as in `(a) First, …`."""
    label = units.labels[position]
    if label is None or not label.isupper():
        return False
    if not units.words[position] or is_named_text(units, position):
        return False  # `the second option`
    return units.token(position).islower()


#: What may come before a digit of the same number or name: `x2`, `-1`.
_BEFORE_NUMBER = DASHES | frozenset(ascii_lowercase)


def _is_tail(units: Units, position: int) -> bool:
    """Say whether a label is the end of a word or a number: `-1`, `$2`, `hepatitis-B`."""
    if position == 0 or units.gaps[position]:
        return False
    before = units.words[position - 1]
    if units.token(position).isdecimal():
        is_formula = "$" in units.words[position + 1 : position + 3]
        return before in _BEFORE_NUMBER or (before == "$" and not is_formula)
    return before in HYPHENS and not units.gaps[position - 1] and is_word(units, position - 2)


def is_separate(units: Units, position: int, at: int) -> bool:
    """Say whether a label is set off from what follows it and its wrapping, which is at `at`."""
    if is_end(units, at) or position in units.text_ends:
        return True
    is_called = _has_option_word(units, position)
    if not is_word(units, at):
        return _is_label_before_mark(units, position, at, is_called=is_called)
    if not units.gaps[at] and units.words[at - 1] not in ROUND_CLOSE:
        return _may_touch(units, position, at)
    if at > position + 1 and units.words[at - 1] != "_":
        return True
    return is_called or _may_follow(units, position, at)


def _is_label_before_mark(units: Units, position: int, at: int, *, is_called: bool) -> bool:
    """Say whether the mark after a label leaves it a label."""
    if is_called:
        return units.words[at] not in CHANGING
    return not (_is_article(units, position, at) if units.gaps[at] else _changes_meaning(units, at))


def _has_option_word(units: Units, position: int) -> bool:
    """Say whether an option word comes before a label: `option B`."""
    is_option = position > 0 and units.roles[position - 1] & OPTION
    return bool(is_option) and not units.token(position).islower()


def _is_article(units: Units, position: int, at: int) -> bool:
    """Say whether a letter leads to what a mark opens: `a "pure" theory`, `a $2 coin`."""
    if units.words[position] != "a" or units.words[at] not in DRESS or units.gaps[at + 1]:
        return False
    if not is_word(units, at + 1) or units.token(at + 1).istitle():
        return False
    return is_small(units, position) or units.words[position - 1] in STOPS | {BREAK}


def _changes_meaning(units: Units, at: int) -> bool:
    """Say whether the mark right after a label makes it something else: `C++`, `A-level`."""
    if units.words[at] in HYPHENS:
        is_compound = is_word(units, at + 1) and units.labels[at + 1] is None
        return is_compound and not units.gaps[at + 1]
    if units.words[at] in {"(", "["}:
        return at + 1 not in units.options
    return units.words[at] in CHANGING


def _may_touch(units: Units, position: int, at: int) -> bool:
    """Say whether a word may stand directly after a label: in another script, as in `B입니다`."""
    label = units.token(position)
    if not label.isascii():
        return bool(units.roles[at] & _PARTICLES)
    return not units.token(at).isascii() and bool(units.roles[at])


def _may_follow(units: Units, position: int, at: int) -> bool:
    """Say whether the word after a label, and after a space, leaves it a label: `B because`."""
    roles = units.roles[at]
    token = units.token(position)
    is_foreign = not units.token(at).isascii()
    if token.lower() in {"a", "i"} and roles & BE:
        return units.words[at] in _VERBS or not units.words[at] or is_foreign
    if roles & _FOLLOWING or roles & (NOT | WRONG) == NOT or (roles & _FOREIGN and is_foreign):
        return True
    if not token.isupper():
        return not units.words[position]  # `the second option`
    before = units.roles[position - 1] if position else 0
    if before & (BE | LEAVE | ANSWER) and roles & (FILL | RIGHT):
        return units.words[position] != "i"  # `makes C the one`, `ist C richtig`
    return bool(roles & OPTION)


# Labels that are joined to others: `A or B`, `A, B and C`, `A (Paris) / B (Lyon)`, `A-C`.

#: The most light words after a joint.
_MOST_LIGHT = 3
PLURALS = frozenset({"are", "sind", "sont", "son", "sono", "s\u00e3o", "zijn", "s\u0105"})
_LIGHT = FILL | OPTION | MAYBE


def _find_joined(units: Units, end: int) -> int | None:
    """Return the position of the label that is joined to the one that ends before `end`."""
    further = _skip_joint(units, end)
    joined = find_label(units, further)
    if joined is None:
        return None
    at = close_label(units, joined)
    if not is_separate(units, joined, at):
        # `A, C 三项`: whatever the word is, the letter is not a word of a sentence.
        is_letter = further == end + 1 and units.token(joined).isupper()
        return joined if is_letter else None
    is_subject = units.roles[at] & BE and units.gaps[at] and units.words[at] not in PLURALS
    return None if is_subject else joined  # `The answer is A, B is wrong.`


def _is_range(units: Units, at: int) -> bool:
    """Say whether there is a dash without spaces here: `A-C`."""
    return units.words[at] in DASHES and not units.gaps[at] and not units.gaps[at + 1]


def _skip_joint(units: Units, at: int) -> int:
    """Return where a joined label may begin: after `,`, `/`, `or`, with light words."""
    begin = at
    if units.words[at] in JOINTS or _is_range(units, at):
        at += 1
    # A letter that is a word for `and`, too, may be a label: `C, E, or G`.
    is_label = units.labels[at] is not None and find_label(units, at + 1) is None
    if units.roles[at] & (OR | AND) and not is_label:
        at += 1
    if at == begin:
        return units.size
    last = at + _MOST_LIGHT
    while at < last and units.labels[at] is None and units.roles[at] & _LIGHT:
        at += 1
    return at


# Labels as a text names them: one, or several joined, set off from the words around them.

#: More labels than these are a list of something else.
MANY = 26

#: How far from a label its text may begin, in units.
_TO_TEXT = 12

_BETWEEN = LABEL_MARKS | OPEN | CLOSE | DASHES | COMMAS | EQUALS | {"\u3002"}
_TEXT_ENDS = CLOSE | STOPS | COMMAS | DASHES | {BREAK}


def is_object(units: Units) -> bool:
    """Say whether a text is an object with keys, as JSON or Python writes it."""
    return '":' in units.text or ("':" in units.text and "{" in units.text)


@dataclass(slots=True)
class Named:
    """The choices that a place in the text names, from one unit to another.

    There are none when a cue leads to something that is not a choice. `is_wrapped`: in brackets,
    quotes or emphasis. `clashes`: followed by the text of another option. `is_negated`, `is_maybe`
    and `has_link` (a verb, a colon or the like) are said of what a cue leads to.
    """

    choices: tuple[str, ...]
    begin: int
    end: int
    is_wrapped: bool = False
    clashes: bool = False
    is_negated: bool = False
    is_maybe: bool = False
    has_link: bool = False

    def begin_at(self, begin: int) -> Named:
        """Return the same choices with another beginning, as they are before any cue."""
        return Named(self.choices, begin, self.end, self.is_wrapped, self.clashes)


def read_names(units: Units, at: int) -> Named | None:
    """Return the labels named from here on, if they are set off from the words around them."""
    position = find_label(units, at)
    if position is None:
        return None
    if position not in units.names:
        units.names[position] = _read_names_at(units, position)
    names = units.names[position]
    if not isinstance(names, Named):
        return None
    return names if position == at else names.begin_at(at)


def _read_names_at(units: Units, position: int) -> Named | None:
    if _is_tail(units, position) or _is_numeral(units, position):
        return None
    last = position
    end = close_label(units, position)
    choices = [units.labels[position]]
    while len(choices) < MANY:
        further = _find_joined(units, end)
        if further is None:
            break
        last = further
        end = close_label(units, further)
        choices.append(units.labels[last])
    if not is_separate(units, last, end):
        return None
    names = Named(tuple(dict.fromkeys(map(str, choices))), position, end)
    names.is_wrapped = end > units.text_ends.get(last, last + 1)
    if units.options and len(names.choices) == 1 and position not in units.text_ends:
        names.clashes = _leads_to_other(units, position, end) or _is_other(units, position)
    return names


def _is_numeral(units: Units, position: int) -> bool:
    """Say whether a label is the first of several Roman numerals; `(I)` is a label."""
    if units.words[position] != "i" or units.known.isdisjoint({"ii", "iii"}):
        return False
    return is_small(units, position) or units.words[position - 1] not in {"(", "["}


def _is_other(units: Units, position: int) -> bool:
    """Say whether a label is also another option's text, without an option word before it."""
    owner = units.options.get(position)
    if not owner or owner == units.labels[position] or _is_alone(units):
        return False
    if units.token(position) not in units.option_texts[units.choices.choices.index(owner)]:
        return False  # `C` is not the text `c`
    is_bracketed = units.words[position - 1] in {"(", "["}
    before = units.skip_back(position - 1, OPEN)
    is_called = bool(units.roles[before] & (ANSWER | OPTION))
    return not is_called and (not is_bracketed or units.words[position].isdecimal())


def _is_alone(units: Units) -> bool:
    """Say whether a text has no room for more than one word, its label."""
    words = [at for at in range(min(units.size, WRAPS)) if is_word(units, at)]
    return units.size <= WRAPS and len(words) == 1


def _leads_to_other(units: Units, position: int, end: int) -> bool:
    """Say whether a label is followed by another option's text."""
    is_keyed = is_object(units)  # the text may be the value of the next key
    for at in range(end, min(end + _TO_TEXT, units.size)):
        if at in units.options:
            is_own = units.options[at] in {units.labels[position], ""}
            return not is_own and _ends_text(units, at + 1)
        if not is_keyed and not _may_lead_to_text(units, at):
            break
    return False


def _may_lead_to_text(units: Units, at: int) -> bool:
    """Say whether a unit may stand between a label and its text."""
    if units.words[at] in _BETWEEN or units.roles[at] & (FILL | MATCH | OPTION):
        return True
    return not ~units.roles[at] & (IT | BE)  # `A, that is Lyon`


def _ends_text(units: Units, at: int) -> bool:
    """Say whether an option's text is complete here: a full stop, `because`."""
    is_verb = units.roles[at] & BE and not units.token(at).isascii()
    if is_verb and units.words[at + 1] in _TEXT_ENDS:
        return True  # `夏目漱石です。`
    return units.words[at] in _TEXT_ENDS or bool(units.roles[at] & AFTER)
