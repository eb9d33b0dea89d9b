"""Answers without a label: a line that is one option's text, or a short assertion of it and of no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.scorers.stated.context import skip_back
from answerkey.scorers.stated.following import read_text
from answerkey.scorers.stated.lines import Line
from answerkey.scorers.stated.marks import BULLETS, CLOSE, COLONS, COMMAS, DASHES, OPEN, STOPS
from answerkey.scorers.stated.places import WRAPS, Scan
from answerkey.scorers.stated.roles import BE, FILL, IF, NONE, NOT, REFUSE, SAYS, WRONG
from answerkey.scorers.stated.statements import Decision, Findings, Statement, Weight
from answerkey.scorers.stated.units import BREAK, Units

#: A longer text argues; an option's text in it need not be its answer.
SHORT = 60

#: So short a text may go on with `No, it is not.`
_REMARK = 10

_DOUBT = WRONG | IF | SAYS | REFUSE | NONE
_LEADING = OPEN | BULLETS
_TRAILING = STOPS | CLOSE | COMMAS
_SENTENCE_ENDS = STOPS | {BREAK}
_CLAUSE_ENDS = _SENTENCE_ENDS | COMMAS
_SETTING_OFF = _CLAUSE_ENDS | COLONS | DASHES


def read_text_lines(scan: Scan, lines: Sequence[Line], findings: Findings) -> None:
    """Note a first or last line that is an option's full text and nothing else.

    Several such lines are a list, and a number alone may be any step of a calculation.
    """
    if not scan.texts.options:
        return
    found = [(line, one) for line in lines if not line.names and (one := _read_line(scan, line)) is not None]
    if len({one.choices for _, one in found}) != 1:
        return
    for line, one in found:
        words = scan.units.words[one.begin : one.end]
        is_text = scan.units.size <= SHORT or any(len(word) > 1 and word.isalpha() for word in words)
        if is_text and (line is lines[0] or line is lines[-1]):
            findings.statements.append(one)


def _read_line(scan: Scan, line: Line) -> Statement | None:
    units, at = scan.units, line.begin
    while at < line.end and units.words[at] in _LEADING:
        at += 1
    text = scan.texts.find(units, at) if at < line.end else None
    if text is None or text.choice is None or text.end > line.end:
        return None
    found = read_text(scan, text.choice, text.end)
    if any(word not in _TRAILING for word in units.words[found.end : line.end]):
        return None
    return Statement(found.choices, "option_text", Weight.TENTATIVE, at, found.end, found.clashes)


def read_assertion(scan: Scan) -> Decision | None:
    """Return the only option whose text a short completion asserts."""
    units = scan.units
    if not scan.texts.options or units.size > SHORT:
        return None
    found = list(_find_texts(scan))
    inside = {at for _, begin, end in found for at in range(begin, end)}
    around = [roles for at, roles in enumerate(units.roles) if at not in inside]
    if any(roles & _DOUBT for roles in around) or len({choice for choice, _, _ in found}) != 1:
        return None
    is_denied = any(roles & NOT for roles in around)
    for choice, begin, end in found:
        if choice is not None and _is_asserted(units, begin, end, is_denied=is_denied):
            return Decision(choice, None, "option_text", begin, end)
    return None


def _find_texts(scan: Scan) -> Iterator[tuple[str | None, int, int]]:
    at = 0
    while at < scan.units.size:
        text = scan.texts.find(scan.units, at)
        if text is not None and text.end > at:
            yield text.choice, at, text.end
            at = text.end
        else:
            at += 1


def _is_asserted(units: Units, begin: int, end: int, *, is_denied: bool) -> bool:
    """Say whether a sentence is about this text, or ends with it after a verb."""
    before = skip_back(units, begin, FILL)
    while before >= max(begin - WRAPS, 0) and units.words[before] in OPEN:
        before -= 1
    while end < units.size and units.words[end] in CLOSE:
        end += 1
    is_set_off = end >= units.size or units.words[end] in _SETTING_OFF
    if is_denied:
        return begin == 0 and units.size <= _REMARK and is_set_off
    if before < 0 or units.words[before] in _SENTENCE_ENDS:
        return is_set_off or bool(units.roles[end] & BE)
    is_said = units.words[before] in COLONS or bool(units.roles[before] & BE)
    return is_said and (end >= units.size or units.words[end] in _CLAUSE_ENDS)
