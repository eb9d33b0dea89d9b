"""Labels as subjects of a verdict: `B is the answer`, `A and C are wrong`, `Bが正解です`."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.scorers.stated.context import is_hypothetical
from answerkey.scorers.stated.joints import skip_remark
from answerkey.scorers.stated.marks import (
    CLOSE,
    COLONS,
    COMMAS,
    DASHES,
    JOINTS,
    OPEN,
    QUESTION_MARKS,
    STOPS,
    WRAPPING,
)
from answerkey.scorers.stated.naming import Named, read_names
from answerkey.scorers.stated.places import WRAPS, Scan
from answerkey.scorers.stated.roles import (
    AFTER,
    AND,
    ANSWER,
    BE,
    BUT,
    FILL,
    FIX,
    IT,
    MAYBE,
    NOT,
    NOT_AFTER,
    OPTION,
    OR,
    OWN,
    PICK,
    RIGHT,
    SO,
    THINK,
    WRONG,
    YES,
)
from answerkey.scorers.stated.statements import Findings, Statement, Weight
from answerkey.scorers.stated.units import BREAK, Units

_REACH = 10
_BEFORE_SUBJECT = OPTION | SO | AND | OR | THINK | FILL | BUT | IT | FIX | OWN | AFTER | ANSWER | MAYBE | YES
_LIGHT = FILL | OWN | MAYBE | IT | SO | FIX
_FREE = STOPS | COMMAS | COLONS | DASHES | CLOSE
_ENDS = STOPS | CLOSE | {BREAK}


@dataclass(slots=True)
class _Verdict:
    """What is said of a subject so far."""

    has_verb: bool = False
    is_negated: bool = False
    is_right: bool = False
    is_wrong: bool = False
    is_answer: bool = False
    end: int = 0


def read_subject(scan: Scan, at: int, findings: Findings) -> None:
    """Note what is said of the labels that begin at `at`."""
    units = scan.units
    begin = _find_begin(units, at)
    names = None if begin is None else read_names(scan, at)
    verdict = None if names is None else _read_verdict(scan, names)
    if begin is None or names is None or verdict is None or is_hypothetical(units, begin):
        return
    if not QUESTION_MARKS.isdisjoint(units.words[verdict.end : verdict.end + 1]):
        return
    if verdict.is_wrong != verdict.is_negated:
        findings.exclude(names.choices, begin)
    elif not verdict.is_wrong and len(names.choices) < len(scan.labels.choices):
        _state(names, verdict, begin, findings)


def _state(names: Named, verdict: _Verdict, begin: int, findings: Findings) -> None:
    """Add `B is right`; and `B is.`, which says something only after others were excluded."""
    is_full = verdict.is_right or verdict.is_answer
    if is_full or findings.excluded:
        part = "named_right" if is_full else "conclusion"
        weight = Weight.DEFINITE if verdict.is_answer else Weight.VERDICT
        findings.statements.append(Statement(names.choices, part, weight, begin, verdict.end, names.clashes))


def _find_begin(units: Units, at: int) -> int | None:
    """Return where the subject begins if the label at `at` can be one.

    An article or a pronoun cannot; and a label that is joined to another is read with it.
    """
    before = at - 1
    while before >= max(at - WRAPS, 0) and units.words[before] in OPEN:
        before -= 1
    roles = units.roles[before] if before >= 0 else 0
    is_wrapped = before < at - 1
    if not is_wrapped and not roles & OPTION and units.token(at) in {"a", "i"}:
        return None
    if before < 0 or units.words[before] == BREAK:
        return before + 1
    if (roles & (AND | OR) or units.words[before] in JOINTS) and _is_after_label(units, before - 1):
        return None
    return before + 1 if roles & _BEFORE_SUBJECT or units.words[before] in _FREE else None


def _is_after_label(units: Units, at: int) -> bool:
    while at > 0 and not units.gaps[at] and (units.words[at] in CLOSE or units.words[at] in COMMAS):
        at -= 1
    return at >= 0 and units.labels[at] is not None


def _read_verdict(scan: Scan, names: Named) -> _Verdict | None:
    """Return what the words after the labels say of them, None if they say something else."""
    units = scan.units
    at = skip_remark(scan, names.end, names.choices[0]) if len(names.choices) == 1 else names.end
    verdict = _Verdict()
    end = min(at + _REACH, units.size)
    while at < end and _hear(units, at, verdict):
        at += 1
    verdict.end = at
    is_full = verdict.is_right or verdict.is_wrong or verdict.is_answer
    if is_full and (verdict.has_verb or not units.text.isascii()):
        return verdict
    is_over = at >= units.size or units.words[at] in _ENDS
    return verdict if verdict.has_verb and not verdict.is_negated and is_over else None


def _hear(units: Units, at: int, verdict: _Verdict) -> bool:
    """Say whether the unit belongs to a verdict, and add what it says."""
    word, roles = units.words[at], units.roles[at]
    is_chosen = bool(roles & PICK) and not units.token(at).isascii()
    if roles & NOT_AFTER:
        verdict.is_negated = not verdict.is_negated
    elif roles & (RIGHT | WRONG | ANSWER) or is_chosen:
        verdict.is_right = verdict.is_right or bool(roles & RIGHT)
        verdict.is_wrong = verdict.is_wrong or bool(roles & WRONG)
        verdict.is_answer = verdict.is_answer or is_chosen or bool(roles & ANSWER)
    elif roles & (BE | NOT):
        verdict.has_verb = verdict.has_verb or bool(roles & BE)
        verdict.is_negated = verdict.is_negated != bool(roles & NOT)
    elif roles & OPTION:
        verdict.is_answer = verdict.is_answer or verdict.is_right
    elif word in DASHES:
        verdict.has_verb = True
    else:
        return bool(roles & _LIGHT) or (word in WRAPPING and not verdict.is_right)
    return True
