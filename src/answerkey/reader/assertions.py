"""Answers without a label: a text that asserts the full text of one option and of no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.reader.lexicon import (
    AFTER,
    ARROWS,
    BE,
    BULLETS,
    CLOSE,
    COLONS,
    COMMAS,
    DASHES,
    DROP,
    EQUALS,
    FILL,
    IF,
    NONE,
    NOT,
    NOT_AFTER,
    OPEN,
    OR,
    PREP,
    QUESTION_MARKS,
    REFUSE,
    SAYS,
    SO,
    STOPS,
    WRONG,
)
from answerkey.reader.lines import BOLD, TRAILING_MARKS
from answerkey.reader.markup import CHECKED
from answerkey.reader.statements import (
    SENTENCE_ENDS,
    Statement,
    Weight,
    read_text,
    skip_back,
)
from answerkey.reader.units import WRAPS, Units

#: A longer text argues; an option's text in it need not be its answer.
MOST_ASSERTED = 60
#: In a longer text, the answer that opens it begins within so many units.
_LONGEST_OPENING = 8
_LONGEST_DENIAL = 10
_PAIR = 2
_SENTENCE = 40

_DOUBT = WRONG | IF | SAYS | REFUSE | NONE | NOT | NOT_AFTER | DROP
_CLAUSE_ENDS = SENTENCE_ENDS | COMMAS
SETTING_OFF = _CLAUSE_ENDS | COLONS | DASHES
_SAYING = COLONS | EQUALS | ARROWS | {"\u2208", "\u2248"}
_TICKS = frozenset({CHECKED, "\u2705"})
_BEFORE_TEXT = OPEN | BULLETS | _TICKS
_ENDINGS = TRAILING_MARKS | {"\n"}


def list_texts(units: Units, begin: int, end: int) -> Iterator[Statement]:
    """Yield the option texts that have no label before them, as statements.

    One without choices is the text of several options. A label in brackets may follow a text; one
    of another option clashes with it, and so does a text that is another choice's label.
    """
    attached = {text_end - 1 for text_end in units.text_ends.values()}
    for at, choice in units.options.items():
        if not begin <= at < end or at in attached:
            continue
        if not choice:
            yield Statement((), "option_text", Weight.TENTATIVE, at, at + 1)
            continue
        text = read_text(units, choice, at + 1)
        clashes = text.clashes or units.labels[at] not in {None, choice}
        yield Statement(text.choices, "option_text", Weight.TENTATIVE, at, text.end, clashes)


def read_assertion(units: Units) -> Statement | None:
    """Return the only option whose text a reply asserts: first, last, or alone."""
    in_order = tuple(units.options.values()) == units.choices.choices
    if not units.options or (in_order and len(units.options) > _PAIR):
        return None  # every option in its order is a list
    is_short = units.size <= MOST_ASSERTED
    if is_short:
        texts = list(list_texts(units, 0, units.size))
    else:
        texts = list(list_texts(units, 0, _LONGEST_OPENING))
        texts += list_texts(units, units.size - MOST_ASSERTED, units.size)
    asserted = [text for text in texts if _opens(units, text) or _concludes(units, text)]
    if not asserted and is_short and _is_undoubted(units, texts):
        asserted = [text for text in texts if _is_asserted_alone(units, text)]
    if len({text.choices for text in asserted}) != 1 or not asserted[0].choices:
        return None
    return asserted[-1]


def _is_undoubted(units: Units, texts: Sequence[Statement]) -> bool:
    """Say whether one option is spoken of, and nothing in the reply denies or doubts anything."""
    if len({text.choices for text in texts}) != 1:
        return False
    doubt = _DOUBT
    if units.size <= _LONGEST_DENIAL and texts[0].begin == 0:
        doubt &= ~NOT  # `No, it is not.`
    inside = {text.begin for text in texts}
    return not any(roles & doubt and at not in inside for at, roles in enumerate(units.roles))


def _skip_dress(units: Units, text: Statement) -> tuple[int, int]:
    """Return the unit before a text, its articles and what opens it, and the one after it."""
    before = units.skip_back(skip_back(units, text.begin, FILL), OPEN)
    return before, units.skip(text.end, CLOSE)


def _opens(units: Units, text: Statement) -> bool:
    """Say whether the reply begins with this text, set off from what follows: `Invalid: it …`."""
    before, end = _skip_dress(units, text)
    if before >= 0 or len(units.text_ends) > 1:
        return False
    if end >= units.size - 1:
        return units.words[end] in SETTING_OFF
    mark, after = units.words[end], units.roles[end + 1]
    if mark not in SETTING_OFF or mark in QUESTION_MARKS:
        return False
    if after & _DOUBT:
        return False
    return mark not in COMMAS or bool(after & AFTER)


def _concludes(units: Units, text: Statement) -> bool:
    """Say whether the last sentence says, with a verb or a mark, that it is this text."""
    before, end = _skip_dress(units, text)
    if not _is_last(units, end):
        return False
    if before < 0:
        return False
    is_said = units.words[before] in _SAYING or units.roles[before] & BE
    if units.words[before] == "to":
        return False
    if not is_said and units.words[text.begin - 1] not in BOLD:
        return False
    if _is_of_label(units, before):
        return False
    # A longer text may be cut off if there is no full stop, and a number in it be any step.
    is_stopped = not STOPS.isdisjoint(units.words[end : end + WRAPS])
    if units.size > MOST_ASSERTED and not is_stopped:
        return False
    return _is_plain_clause(units, before)


def _is_plain_clause(units: Units, before: int) -> bool:
    """Say whether nothing in the sentence before a text denies it or makes it a condition."""
    for at in range(before, max(before - _SENTENCE, -1), -1):
        if units.words[at] in SENTENCE_ENDS:
            break
        if units.roles[at] & _DOUBT or units.roles[at] & (OR | PREP) == OR:
            return False
    return True


def _is_last(units: Units, end: int) -> bool:
    """Say whether nothing follows but marks, what it is not, or, in a short text, why it is so."""
    following = units.words[end : end + WRAPS]
    if units.size <= end + WRAPS and all(word in _ENDINGS for word in following):
        return QUESTION_MARKS.isdisjoint(following)
    if units.size > MOST_ASSERTED:
        return False
    at = end + (following[0] in COMMAS)
    roles = units.roles[at]
    if roles & NOT and units.size <= at + WRAPS:
        return True
    return at > end and roles & (AFTER | SO) == AFTER


def is_asserted(units: Units, text: Statement) -> bool:
    """Say whether a clause says that it is this text: after a verb, or as its first words."""
    before, end = _skip_dress(units, text)
    is_said = before < 0 or units.roles[before] & BE
    return bool(is_said) and units.words[end] in SETTING_OFF and _is_plain_clause(units, before)


def _is_asserted_alone(units: Units, text: Statement) -> bool:
    """Say whether a sentence is about this text, or ends with it."""
    before, end = _skip_dress(units, text)
    is_over = units.words[end] in SETTING_OFF
    if before < 0 or units.words[before] in SENTENCE_ENDS:
        return is_over or bool(units.roles[end] & BE)
    if not is_over or _is_of_label(units, before):
        return False
    if "to" in units.words[max(before - 1, 0) : before + 1]:
        return False
    return bool(units.roles[before] & BE) or units.words[before] in COLONS


def _is_of_label(units: Units, verb: int) -> bool:
    """Say whether the text is only what a label stands for: `B is Lyon`, `B: True`."""
    is_said = units.roles[verb] & BE or units.words[verb] in _SAYING
    return verb > 0 and bool(is_said) and units.labels[verb - 1] is not None
