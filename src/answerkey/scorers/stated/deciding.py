"""One decision from everything that a text states."""

from __future__ import annotations

from bisect import bisect_left

from answerkey.scorers.stated.cues import CUES, read_cue
from answerkey.scorers.stated.lines import list_echoes, read_lines, split_lines
from answerkey.scorers.stated.markup import MARKUP, read_markup
from answerkey.scorers.stated.places import Scan
from answerkey.scorers.stated.plain_texts import read_assertion, read_text_lines
from answerkey.scorers.stated.roles import FIX, UNDO
from answerkey.scorers.stated.statements import Decision, Findings, Statement, Weight
from answerkey.scorers.stated.subjects import read_subject

NOTHING = "NOTHING_STATED"

#: In a longer text what is excluded may be part of an argument.
_SHORT = 160

#: An answer is taken back in the last words of a text, if nothing comes after them.
_LAST_WORDS = 24


def decide(scan: Scan) -> Decision:
    """Return the answer that the text states."""
    findings = gather(scan)
    statements = sorted(findings.statements, key=lambda one: (one.begin, one.end))
    for weight in Weight:
        group = [one for one in statements if one.weight is weight]
        if group:
            return _settle(scan, group)
    return _eliminate(scan, findings) or read_assertion(scan) or Decision(reason=NOTHING)


def gather(scan: Scan) -> Findings:
    """Return everything that the text states or excludes."""
    units, findings = scan.units, Findings()
    lines = split_lines(scan)
    echoed = set(list_echoes(lines))
    for at, (roles, label, word) in enumerate(zip(units.roles, units.labels, units.words, strict=True)):
        if (label is None and not roles & CUES and word not in MARKUP) or at in echoed:
            continue
        if roles & CUES:
            read_cue(scan, at, findings)
        if label is not None:
            read_subject(scan, at, findings)
        elif word in MARKUP:
            read_markup(scan, at, findings)
    read_lines(scan, lines, findings)
    read_text_lines(scan, lines, findings)
    return findings


def _settle(scan: Scan, group: list[Statement]) -> Decision:
    """Return what statements of one weight come to: all must agree, unless one corrects those before it."""
    current, is_open = group[0], False
    fixes = [] if len(group) == 1 else [at for at, roles in enumerate(scan.units.roles) if roles & FIX]
    for one in group[1:]:
        if one.end <= current.end or one.choices == current.choices:
            continue
        is_correction = _is_between(fixes, current.end, one.end)
        is_choice = not is_open and set(one.choices) < set(current.choices) and bool(one.choices)
        is_open = not is_correction and not is_choice
        current = one
    return _conclude(scan, current, is_open=is_open)


def _is_between(positions: list[int], begin: int, end: int) -> bool:
    at = bisect_left(positions, begin)
    return at < len(positions) and positions[at] < end


def _conclude(scan: Scan, statement: Statement, *, is_open: bool) -> Decision:
    place = (statement.part, statement.begin, statement.end)
    if is_open or len(statement.choices) > 1:
        return Decision(None, "SEVERAL_CHOICES", *place)
    if not statement.choices:
        return Decision(None, "NOT_A_CHOICE", *place)
    if statement.clashes:
        return Decision(None, "CONTRADICTS_ITSELF", *place)
    last = max(statement.end, scan.units.size - _LAST_WORDS)
    if any(roles & UNDO for roles in scan.units.roles[last:]):
        return Decision(None, NOTHING, *place)
    return Decision(statement.choices[0], None, *place)


def _eliminate(scan: Scan, findings: Findings) -> Decision | None:
    """Return the only choice that is not excluded, if all others are."""
    left = [choice for choice in scan.labels.choices if choice not in findings.excluded]
    if len(left) != 1 or not findings.excluded or scan.units.size > _SHORT:
        return None
    places = findings.excluded.values()
    return Decision(left[0], None, "elimination", min(places), max(places) + 1)
