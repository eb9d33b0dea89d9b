"""Labels that are joined to others: `A or B`, `A, B and C`, `A (Paris) / B (Lyon)`, `A-C`."""

from __future__ import annotations

from answerkey.scorers.stated.marks import CLOSE, DASHES, JOINTS, LABEL_MARKS, OPEN, ROUND_CLOSE, ROUND_OPEN
from answerkey.scorers.stated.places import WRAPS, Scan, close_label, find_label, is_word, stands
from answerkey.scorers.stated.roles import AND, BE, FILL, MAYBE, NOT, OPTION, OR, WRONG
from answerkey.scorers.stated.units import BREAK, Units

#: The longest remark in brackets after a label, and the most light words after a joint.
_ASIDE = 16
_LIGHT = 3

_PLURALS = frozenset({"are", "sind", "sont", "son", "sono", "s\u00e3o"})
_JOINING = JOINTS | DASHES


def find_joined(scan: Scan, position: int) -> int | None:
    """Return where the label is that is joined to the one at `position`."""
    units = scan.units
    end = close_label(units, position)
    for begin in dict.fromkeys((end, skip_remark(scan, end, str(units.labels[position])))):
        further = _skip_joint(units, begin)
        joined = None if further is None else find_label(units, further)
        if joined is not None and _is_another(scan, joined, is_direct=further == begin + 1):
            return joined
    return None


def skip_remark(scan: Scan, at: int, choice: str) -> int:
    """Return the first unit after a remark in brackets or the option's own text; `at` if there is none."""
    units = scan.units
    begin = at + 1 if at < units.size and units.words[at] in LABEL_MARKS else at
    while begin < min(at + WRAPS, units.size) and units.words[begin] in OPEN:
        begin += 1
    text = scan.texts.find(units, begin)
    if text is not None and text.choice == choice:
        end = text.end
        while end < min(text.end + WRAPS, units.size) and units.words[end] in CLOSE:
            end += 1
        return end
    return _skip_brackets(units, at)


def _skip_brackets(units: Units, at: int) -> int:
    if at >= units.size or units.words[at] not in ROUND_OPEN:
        return at
    for end in range(at + 1, min(at + _ASIDE, units.size)):
        if units.words[end] in ROUND_CLOSE:
            return end + 1
        if units.words[end] == BREAK:
            break
    return at


def _skip_joint(units: Units, at: int) -> int | None:
    """Return where a joined label may begin: after `,`, `/`, `or`, `, or`, or a dash without spaces."""
    if at >= units.size:
        return None
    begin, word = at, units.words[at]
    if word in DASHES:
        is_tight = not units.gaps[at] and at + 1 < units.size and not units.gaps[at + 1]
        return at + 1 if is_tight else None
    if word in JOINTS:
        at += 1
    if at < units.size and units.roles[at] & (OR | AND):
        at += 1
    return None if at == begin else _skip_light(units, at)


def _skip_light(units: Units, at: int) -> int | None:
    """Return the first unit that is a label or no light word: `or the option B`."""
    for further in range(at, min(at + _LIGHT, units.size)):
        is_label = units.labels[further] is not None and not is_word(units, further + 1)
        if is_label or not units.roles[further] & (FILL | OPTION | MAYBE):
            return further
    return None


def _is_another(scan: Scan, position: int, *, is_direct: bool) -> bool:
    """Say whether a label after a joint is one more answer, and not the beginning of something else."""
    units = scan.units
    if not stands(scan, position):
        following = units.words[position + 1 : position + 2]
        return is_direct and bool(following) and following[0] in _JOINING
    at = close_label(units, position)
    if at < units.size and units.roles[at] & BE and units.words[at] not in _PLURALS:
        further = units.roles[at] | (units.roles[at + 1] if at + 1 < units.size else 0)
        return not further & (NOT | WRONG)
    return True
