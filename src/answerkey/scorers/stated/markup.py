r"""Answers in markup: `\boxed{B}`, `<answer>B</answer>`, `[[B]]`; and thoughts, which are no answers."""

from __future__ import annotations

from answerkey.scorers.stated.following import follow
from answerkey.scorers.stated.marks import COLONS
from answerkey.scorers.stated.naming import read_names
from answerkey.scorers.stated.places import Scan
from answerkey.scorers.stated.roles import QUESTION
from answerkey.scorers.stated.statements import Findings, Statement, Weight
from answerkey.scorers.stated.units import BREAK, Units

_REACH = 40
_HEAD = 8

_NAMES = ("answer", "final_answer", "finalanswer", "final", "choice", "option", "ans", "correct_answer")
ANSWER_TAGS = frozenset(f"<{name}>" for name in _NAMES)
BOXES = frozenset({"\\boxed", "\\fbox", "\\framebox"})
MARKUP = ANSWER_TAGS | BOXES | {"["}

_THOUGHTS = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis")
_OPENING = frozenset({*(f"<{name}>" for name in _THOUGHTS), "<seed:think>", "[think]", "\u25c1think\u25b7"})
_CLOSING = frozenset(f"</{name}>" for name in _THOUGHTS)
_CLOSING |= {"</seed:think>", "[/think]", "\u25c1/think\u25b7", "<|message|>"}

#: Where a model goes on with the next turn, or with the next text.
_PIPED = ("im_start", "im_end", "eot_id", "eot", "user", "assistant", "endoftext", "end", "start_header_id")
TURNS = frozenset(f"<|{name}|>" for name in (*_PIPED, "end_of_text"))
TURNS |= {"</s>", "[inst]", "<end_of_turn>", "<start_of_turn>"}

_BEFORE_QUESTION = frozenset({"*", "**", "[", "\u3010", *("#" * count for count in range(1, 7))})
_AFTER_QUESTION = COLONS | {"\u3011"}


def read_markup(scan: Scan, at: int, findings: Findings) -> None:
    """Note what the markup at `at` states."""
    units, word = scan.units, scan.units.words[at]
    if word in ANSWER_TAGS:
        _read_inside(scan, at, f"</{word[1:]}", findings, part="answer_tag")
    elif word in BOXES:
        _read_inside(scan, at, "}", findings, part="boxed")
    elif units.words[at : at + 2] == ["[", "["]:
        names = read_names(scan, at)
        if names is not None and units.words[names.end - 2 : names.end] == ["]", "]"]:
            found = Statement(names.choices, "double_brackets", Weight.DEFINITE, at, names.end, names.clashes)
            findings.statements.append(found)


def _read_inside(scan: Scan, at: int, closing: str, findings: Findings, *, part: str) -> None:
    """Note what stands between the markup and what closes it, or the end of a text that is cut off."""
    found = follow(scan, at + 1, is_linked=True)
    inside = scan.units.words[at + 1 : at + _REACH]
    end = at + 1 + inside.index(closing) if closing in inside else at + _REACH
    if found is not None and not found.is_negated and found.end <= end + 3:
        statement = Statement(found.choices, part, Weight.DEFINITE, at, found.end, found.clashes)
        findings.statements.append(statement)


def find_region(units: Units) -> tuple[int, int] | None:
    """Return the units that are answer and not thought; None when a thought is never closed."""
    if _OPENING.isdisjoint(units.words) and _CLOSING.isdisjoint(units.words):
        return 0, units.size
    closings = [at for at, word in enumerate(units.words) if word in _CLOSING]
    begin = closings[-1] + 1 if closings else 0
    while begin < units.size and units.words[begin] == BREAK:
        begin += 1
    for at in range(begin, units.size):
        if units.words[at] in _OPENING:
            return (begin, at) if at > begin else None
    return begin, units.size


def find_turns(units: Units) -> list[int]:
    """Return where a new question, or the next turn of a conversation, may begin."""
    found = [at for at, roles in enumerate(units.roles) if roles & QUESTION and _opens_question(units, at)]
    if TURNS.isdisjoint(units.words):
        return found
    return sorted([*found, *(at for at, word in enumerate(units.words) if word in TURNS)])


def _opens_question(units: Units, at: int) -> bool:
    """Say whether a line begins here with `Question:`, `**Q2.**` or the like."""
    before = at - 1
    while before >= max(at - _HEAD, 0) and units.words[before] in _BEFORE_QUESTION:
        before -= 1
    if before >= 0 and units.words[before] != BREAK:
        return False
    after = units.words[at + 1 : at + 5]
    is_numbered = len(after) > 1 and after[0].isdecimal()
    return is_numbered or not _AFTER_QUESTION.isdisjoint(after)
