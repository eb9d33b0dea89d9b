"""What a text states: cues (`the answer is B`) and verdicts on labels (`B is right`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from answerkey.reader.lexicon import (
    AFTER,
    AND,
    ANSWER,
    BARE,
    BE,
    BREAK,
    BUT,
    CLOSE,
    COLONS,
    COMMAS,
    DASHES,
    DRESS,
    DROP,
    FILL,
    FIX,
    IF,
    IT,
    JOINTS,
    LEAVE,
    LINKS,
    MATCH,
    MATHEMATICS,
    MAYBE,
    MUTE,
    NONE,
    NOT,
    NOT_AFTER,
    OPEN,
    OPERATORS,
    OPTION,
    OR,
    OWN,
    PICK,
    PREP,
    QUESTION_MARKS,
    RIGHT,
    ROUND_OPEN,
    SAYS,
    SO,
    STOPS,
    THAT,
    THINK,
    UNDO,
    WRAPPING,
    WRONG,
    YES,
)
from answerkey.reader.names import (
    PLURALS,
    Named,
    close_label,
    is_word,
    read_names,
)
from answerkey.reader.units import Units


class Weight(IntEnum):
    """How much a statement says: a lower one counts only where there is no higher one."""

    DEFINITE = 0
    TENTATIVE = 1
    VERDICT = 2


@dataclass(slots=True)
class Statement:
    """Choices that a passage states as the answer: several if it leaves that open, or none.

    `part` is the part of the rule that found it; `begin` and `end` are units.
    """

    choices: tuple[str, ...]
    part: str
    weight: Weight
    begin: int
    end: int
    clashes: bool = False


@dataclass(slots=True)
class Findings:
    """What has been found in a text so far: statements, and excluded choices with their places.

    `supposed` are choices that are stated only under a condition.
    """

    statements: list[Statement] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)
    supposed: dict[str, int] = field(default_factory=dict)

    def exclude(self, choices: tuple[str, ...], at: int) -> None:
        """Note that the text excludes these choices."""
        self.excluded.update((choice, at) for choice in choices)

    def state(self, names: Named, part: str, weight: Weight, begin: int) -> None:
        """Note that the text states these choices, from the unit `begin` on."""
        statement = Statement(names.choices, part, weight, begin, names.end, names.clashes)
        self.statements.append(statement)


# From a cue to what it states: `the answer is, I think, option (B)`.

#: How far a cue reaches, in units, and a remark after it; this bounds the work at one cue.
REACH = 24
_LONGEST_REMARK = 14
_NEGATION = 4

#: With more verbs and words for the answer than this, a new sentence has begun.
_CUES = 4

_LIGHT_AFTER_CUE = FILL | OWN | RIGHT | OPTION | THINK | FIX | MAYBE | IT | PICK
_LIGHT_AFTER_LABEL = FILL | BE | OPTION | RIGHT | BARE
_BRACKETS = frozenset("([\uff08\u3010")
_PAUSES = CLOSE | COMMAS
_INTERJECTION_ENDS = COMMAS | LINKS | STOPS
#: `选A的人`, those who choose A.
_OF = "\u7684"


@dataclass(slots=True)
class _CueState:
    """What the words since the cue mean, and what may follow them."""

    has_link: bool
    may_pause: bool
    may_break: bool
    cues: int = 0
    is_negated: bool = False
    is_maybe: bool = False


def follow(
    units: Units,
    at: int,
    *,
    is_linked: bool = False,
    may_pause: bool = True,
) -> Named | None:
    """Return what is named after a cue that ends at `at`; None if the words lead elsewhere.

    `is_linked`: the cue needs no verb or colon. `may_pause`: a comma may follow it.
    """
    state = _CueState(is_linked, may_pause, is_linked)
    end = min(at + REACH, units.size)
    while at < end:
        target = _read_target(units, at, has_link=state.has_link)
        if target is not None:
            target.is_negated = state.is_negated
            target.is_maybe = state.is_maybe
            target.has_link = state.has_link
            has_verb = state.cues > 0 or not state.has_link
            return _check_following(units, target, has_verb=has_verb)
        further = _step(units, at, state)
        if further is None:
            return None
        at = further
    return None


def _step(units: Units, at: int, state: _CueState) -> int | None:
    """Return the unit after this one, if it may stand between a cue and what it leads to."""
    roles = units.roles[at]
    if roles & NOT:
        state.is_negated |= not is_followed(units, at)  # `actually, no: it is B`
        return at + 1
    is_article = roles & (BE | FILL | OPTION) and read_names(units, at + 1)  # `odpowiedź to B`
    if roles & PREP and not is_article:
        if not state.has_link:
            return _skip_preposition(units, at)
        return at + 1 if roles & _LIGHT_AFTER_CUE else None
    if roles & (BE | ANSWER | _LIGHT_AFTER_CUE):
        is_passed = _pass_light_word(roles, state)
    else:
        is_passed = _pass_mark(units.words[at], state)
    return at + 1 if is_passed else None


def _pass_mark(word: str, state: _CueState) -> bool:
    """Note what a mark means; say whether it may stand between a cue and what it leads to."""
    if word in LINKS:
        state.has_link = state.may_pause = state.may_break = True
        return True
    if word in COMMAS:
        return state.may_pause
    return state.may_break if word == BREAK else word in WRAPPING


def _pass_light_word(roles: int, state: _CueState) -> bool:
    """Note what a verb or a light word means; say whether there are not too many of them."""
    is_verb = bool(roles & BE)
    state.cues += is_verb
    state.has_link |= is_verb
    state.is_maybe |= bool(roles & MAYBE)
    state.may_break |= is_verb
    return state.cues <= _CUES


def _read_target(units: Units, at: int, *, has_link: bool) -> Named | None:
    """Return what is named here: labels, an option text, or an answer that is not a choice."""
    names = read_names(units, at)
    text = units.options.get(at)
    if text and names is None and _ends_answer(units, at + 1):
        return read_text(units, text, at + 1)
    if names is not None:
        return names.begin_at(names.begin)
    if not has_link:
        return None
    if units.roles[at] & NONE:
        return Named((), at, at + 1)
    return _read_foreign(units, at)


def _ends_answer(units: Units, end: int) -> bool:
    """Say whether an option's text is complete here: no further word, no `or` and the like."""
    at = units.skip(end, CLOSE)
    if is_word(units, at):
        return bool(units.roles[at] & AFTER) or not units.token(at).isascii()
    if units.words[at] in COMMAS:
        return not units.roles[at + 1] & OR
    return units.words[at] not in OPERATORS or bool(units.gaps[at])


def read_text(units: Units, choice: str, end: int) -> Named:
    """Return the choice of an option text; the label in brackets after it has to be the same."""
    at = units.skip(end, _PAUSES)
    names = read_names(units, at)
    if names is None or units.words[at] not in _BRACKETS:
        return Named((choice,), end, end)
    return Named((choice,), end, names.end, clashes=choice not in names.choices)


def _read_foreign(units: Units, at: int) -> Named | None:
    """Return an answer that is not a choice, if here is a label that is not among the choices."""
    position = units.skip(at, OPEN)
    if not units.choices.resembles(units.token(position)):
        return None
    end = close_label(units, position)
    if units.labels[position] or is_word(units, end):
        return None
    return Named((), at, end)


def _skip_preposition(units: Units, at: int) -> int | None:
    """Return where the verb after `to this question` is; None if there is none."""
    for further in range(at + 1, min(at + _LONGEST_REMARK, units.size)):
        if units.roles[further] & (BE | PREP) == BE:
            return further
    return None


def _check_following(units: Units, target: Named, *, has_verb: bool) -> Named | None:
    """Return the target, negated if a negation follows; None for a condition or a question."""
    begin = target.end
    if units.words[begin] == _OF:
        return None
    if begin - 1 in units.options:
        return target  # `(B) Lyon. Lyon is not …` goes on about the text
    is_judged = False
    for at in range(begin, begin + _NEGATION):
        roles = units.roles[at]
        is_asked = units.words[at] in QUESTION_MARKS
        is_judged |= bool(roles & NOT and units.roles[at + 1] & BE)  # `B nie jest`
        is_bare = at == begin and not any(units.labels[at + 1 : at + _BACK])  # `B not right`
        if _denies(roles, is_judged=is_judged or is_bare):
            return replace(target, is_negated=True, end=at + 1)
        is_judged |= roles & (BE | IT) == BE
        if roles & (IF | AFTER) == IF or (is_asked and (has_verb or is_judged)):
            return None
        if not _may_be_skipped(units, at):
            break
    return target


def _may_be_skipped(units: Units, at: int) -> bool:
    """Say whether a verdict on a label may follow this unit: `B, clearly, is wrong`."""
    if units.roles[at] & _LIGHT_AFTER_LABEL or units.words[at] in CLOSE:
        return True
    return bool(units.roles[at - 1] & BE) and not units.roles[at] and is_word(units, at)


def _denies(roles: int, *, is_judged: bool) -> bool:
    """Say whether a word after a label denies it: `B is wrong`, `B is not`, `B가 아닙니다`."""
    if roles & NOT_AFTER or (roles & NOT and is_judged):
        return True
    return bool(roles & WRONG) and not roles & (NOT | AFTER)


def _follow_contrast(units: Units, end: int) -> Named | None:
    """Return what follows an exclusion: `not A but B`, `nicht A, sondern B`, `B가 아니라 C`."""
    at = units.skip(end, _PAUSES)
    if units.roles[at] & BUT:
        return follow(units, at + 1, is_linked=True)
    return follow(units, at, is_linked=True) if units.roles[at - 1] & NOT_AFTER else None


# What changes the meaning of a cue after it: conditions, others' opinions, negations.

#: How far back a sentence is read, in units, and how far its light words and others' opinions
#: reach.
SENTENCE = 48
BEFORE = 8

SENTENCE_ENDS = STOPS | {BREAK}
#: Verbs that make a condition of a sentence that begins with them: `Wäre es kalt, so wäre es B.`
_INVERTED = frozenset({"w\u00e4re", "w\u00e4ren", "sollte", "sollten", "were", "should"})
#: Words for `if` that mean something else in other languages: they begin a sentence, or follow a
#: label.
_AMBIGUOUS_IF = frozenset({"se", "om", "als", "ha", "caso"})
BEFORE_INSERTION = SENTENCE_ENDS | COMMAS | DASHES

#: Roles of words that may start a new statement, whatever came before.
_NEW = BUT | SO | FIX


class Context(IntEnum):
    """How the sentence before a cue means it: as asserted, as denied, or as hypothetical."""

    ASSERTED = 0
    DENIED = 1
    HYPOTHETICAL = 2


def skip_back(units: Units, at: int, roles: int) -> int:
    """Return the nearest unit before `at` that does not play one of these roles, or -1."""
    before, last = at - 1, max(at - 1 - BEFORE, -1)
    while before > last and units.roles[before] & roles:
        before -= 1
    return before


def read_context(units: Units, at: int) -> Context:
    """Return how a cue is meant, by the conditions, others' opinions and negations before it.

    A negation reaches as far as its clause, and into one that depends on it: `I don't think,
    frankly, that`. Others' opinions reach as far as the comma.
    """
    in_clause, in_part, depends = True, True, False
    context = Context.ASSERTED
    for before in range(at - 1, max(at - SENTENCE, 0) - 1, -1):
        word, roles = units.words[before], units.roles[before]
        if word in SENTENCE_ENDS or roles & _NEW:
            return Context.DENIED if roles & MUTE and in_clause else context
        is_reached = in_part if roles & SAYS else in_clause
        if _is_unreal(units, before, at, is_reached=is_reached):
            return Context.HYPOTHETICAL
        if roles & (NOT | WRONG):
            context = Context.DENIED if in_clause else context
        elif word in COMMAS:
            depends = depends or _depends(units, before + 1)
            in_part = depends
            in_clause = in_clause and depends
        elif roles & AND or word in LINKS:
            in_clause = in_clause and depends
    return context


def _is_unreal(units: Units, at: int, cue: int, *, is_reached: bool) -> bool:
    """Say whether a condition or somebody else's opinion begins here and reaches the cue."""
    roles = units.roles[at]
    if roles & SAYS:
        return bool(roles & IF) or (is_reached and cue - at <= BEFORE)
    if units.words[at] in _INVERTED | _AMBIGUOUS_IF:
        return units.words[at - 1] in SENTENCE_ENDS
    return bool(roles & IF) and (is_reached or units.words[at + 1] in COLONS)  # `Tom says: it is C`


def is_inserted(units: Units, at: int) -> bool:
    """Say whether a remark is set off: in `wait, the answer is`, not in `I don't actually`."""
    return is_followed(units, at) or units.words[at - 1] in BEFORE_INSERTION


def is_followed(units: Units, at: int) -> bool:
    """Say whether a comma, a colon or a stop sets the unit off from what follows."""
    return units.words[at + 1] in _INTERJECTION_ENDS


def _depends(units: Units, at: int) -> bool:
    """Say whether the clause that begins here depends on the one before: `, that`, `, is that`."""
    if units.roles[at] & BE:
        at += 1
    return bool(units.roles[at] & THAT)


def starts_line(units: Units, at: int) -> bool:
    """Say whether only marks, emphasis and light words stand before the unit on its line."""
    for before in range(at - 1, max(at - 1 - BEFORE, -1), -1):
        if units.words[before] == BREAK:
            return True
        if is_word(units, before) and not units.roles[before] & (FILL | OWN | RIGHT):
            return False
    return at <= BEFORE


# Cues, and what they state: `the answer is B`, `I choose B`, `that leaves B`, `not A`.

#: What may stand before `the correct one is`; a subject or a verb may not.
_BEFORE_RIGHT = SO | AND | BUT | FIX | AFTER | THINK | OWN | IT
_NEAR = 6
_BACK = 4
_CLAUSE_ENDS = STOPS | COMMAS | CLOSE | DASHES | ROUND_OPEN
#: The part of the rule for each role of a hint, which names a label at the end of a clause.
_HINTS = {LEAVE: "remaining", MATCH: "reference", SO | IT: "conclusion"}


def read_cue(units: Units, at: int, findings: Findings) -> None:
    """Note what the cue at `at` states or excludes."""
    roles = units.roles[at]
    if roles & (ANSWER | OPTION | RIGHT):
        _read_noun(units, at, findings)
    if roles & PICK:
        _note(units, at, _follow_pick(units, at), findings, "chosen")
    elif roles & THINK:
        target = follow(units, at + 1, is_linked=True)
        _note(units, at, target, findings, "chosen", Weight.TENTATIVE)
    elif _is_correction(units, at):
        _note(units, at, _follow_hint(units, at), findings, "correction")
    elif roles & (LEAVE | MATCH | SO | IT) or roles & NOT_AFTER:
        part = next((part for role, part in _HINTS.items() if roles & role), "conclusion")
        _note(units, at, _follow_hint(units, at), findings, part, Weight.VERDICT)
    elif roles & (NOT | DROP):
        _exclude(units, at, findings)


def _is_correction(units: Units, at: int) -> bool:
    """Say whether a word introduces a correction of an answer: `wait,`, `I meant`."""
    if units.roles[at] & (FIX | MUTE) != FIX:
        return False
    return not units.roles[at] & UNDO or is_followed(units, at)


def _read_noun(units: Units, at: int, findings: Findings) -> None:
    """Note what `the answer`, `the correct option` or `the correct one` leads to."""
    roles = units.roles[at]
    if roles & ANSWER:
        target = _follow_answer(units, at)
    elif roles & OPTION:
        target = _follow_option(units, at)
    else:
        target = _follow_right(units, at)
    if target is not None:
        weight = Weight.VERDICT
        if roles & ANSWER or not roles & OPTION or target.has_link:
            weight = _weigh(units, at)
        _note(units, at, target, findings, "answer_cue", weight)


def _weigh(units: Units, at: int) -> Weight:
    """Return the weight of a cue: `the closest answer`, `my guess` and `answers` weigh less."""
    before = skip_back(units, at, FILL | RIGHT | OWN)
    is_guess = units.plays(before + 1, at + 1, (THINK | MAYBE))
    return Weight.TENTATIVE if is_guess else Weight.DEFINITE


def _note(
    units: Units,
    at: int,
    target: Named | None,
    findings: Findings,
    part: str,
    weight: Weight = Weight.DEFINITE,
) -> None:
    """Add what a cue leads to: a statement, or excluded choices and the one that replaces them."""
    if target is None:
        return
    is_fix = units.roles[at] & FIX and is_inserted(units, at)
    context = Context.ASSERTED if is_fix else read_context(units, at)
    if context is Context.HYPOTHETICAL:
        findings.supposed.update(dict.fromkeys(target.choices, at))
        return
    if target.is_negated or context is Context.DENIED:
        findings.exclude(target.choices, at)
        target = _follow_contrast(units, target.end)
        if target is None or target.is_negated:
            return
    if target.is_maybe or not any(units.labels[at : target.end]):
        weight = max(weight, Weight.TENTATIVE)  # a text is stated and no label
    findings.state(target, part, weight, at)


def _follow_answer(units: Units, at: int) -> Named | None:
    """Return what `the answer` leads to: by a verb or a mark, or where a line begins with it."""
    target = follow(units, at + 1)
    if target is None:
        return None
    if target.has_link or starts_line(units, at):
        return target
    if target.end >= units.size or units.words[at - 1] in ROUND_OPEN:
        return None  # a text that is cut off, or a remark
    return target if _is_apposed(units, at, target) else None


def _is_apposed(units: Units, at: int, target: Named) -> bool:
    """Say whether a label right after `answer` is that answer: `dass die Antwort B ist`."""
    if units.roles[at] & BARE:
        return True
    before = skip_back(units, at, FILL | OWN | RIGHT)
    if units.roles[before] & BE and units.words[before] != "to":
        return True
    return bool(units.roles[target.end] & BE) and not is_word(units, target.end + 1)


def _follow_option(units: Units, at: int) -> Named | None:
    """Return what an option word leads to, if it is `the correct option` or `my choice`."""
    if units.labels[at - 1] is not None:
        return None  # `A项`
    before = skip_back(units, at, FILL & ~(RIGHT | OWN))
    around = units.roles[at] | units.roles[before] | units.roles[at + 1] & RIGHT
    if not around & (RIGHT | OWN) and not _is_key(units, at):
        return None
    if units.roles[at] & MAYBE and not around & RIGHT:
        return None  # `Options: A 8, B 9`
    target = follow(units, at + 1)
    if target is None or target.has_link or around & RIGHT:
        return target
    return None


def _is_key(units: Units, at: int) -> bool:
    """Say whether a line begins with the word and a colon: `Choice: B`, `"option": "B"`."""
    after = units.skip(at + 1, DRESS, _BACK - 1)
    return units.words[after] in COLONS and starts_line(units, at)


def _follow_right(units: Units, at: int) -> Named | None:
    """Return what `the correct one is` and `正确的是` lead to; not in `B is correct: A is not`."""
    if units.roles[at + 1] & (ANSWER | OPTION):
        return None  # that word leads to it
    before = skip_back(units, at, FILL)
    may_precede = units.roles[before] & _BEFORE_RIGHT and not units.roles[before] & PREP
    if before >= 0 and is_word(units, before) and not may_precede:
        return None
    target = follow(units, at + 1)
    if target is None or not target.has_link or not target.choices:
        return None
    return target


def _follow_pick(units: Units, at: int) -> Named | None:
    """Return what is chosen; a verb may end the sentence: `B를 선택합니다`.

    A variable (`choose $A$`) is not chosen.
    """
    if units.words[at + 1] in MATHEMATICS:
        return None
    target = follow(units, at + 1, is_linked=True, may_pause=False)
    if target is None and not is_word(units, at + 1):
        label = at - 1
        if units.labels[label] is None:
            label = skip_back(units, at, FILL | OPTION)
        names = read_names(units, label)
        target = names and replace(names, end=at + 1)
    return None if target is None or _is_asked(units, target) else target


def _is_asked(units: Units, target: Named) -> bool:
    """Say whether a question mark follows: `shall I choose B?`."""
    return target.end < units.size and units.words[target.end] in QUESTION_MARKS


def _follow_hint(units: Units, at: int) -> Named | None:
    """Return what `it is`, `so` and `that leaves` lead to, if the clause ends there."""
    roles = units.roles[at]
    begin = at + 1
    if roles & (IT | BE) == IT and not units.roles[begin] & BE:
        return None
    if roles & FIX:
        begin = units.skip(begin, STOPS, _BACK)
    may_pause = bool(roles & (FIX | SO | NOT_AFTER))
    target = follow(units, begin, is_linked=True, may_pause=may_pause)
    if target is None or not target.choices or not _ends_clause(units, target):
        return None
    if _is_asked(units, target):
        return None
    if roles & MATCH and not units.plays(begin, target.end, OPTION):
        return None
    return target


def _ends_clause(units: Units, target: Named) -> bool:
    """Say whether the label ends its clause: `so B.`, not `so B is wrong`, `so $B = 2$`."""
    at = target.end
    if not MATHEMATICS.isdisjoint(units.words[max(at - _NEAR, 0) : at]):
        return False
    if units.words[at] in _CLAUSE_ENDS | {BREAK}:
        return True
    roles = units.roles[at]
    if roles & (AFTER | BUT | THAT):
        return True
    if not is_word(units, at):
        return not units.gaps[at]
    # `よってBです`
    return bool(roles & BE) and not units.gaps[at] and not is_word(units, at + 1)


def _exclude(units: Units, at: int, findings: Findings) -> None:
    """Note the labels after `not`, `neither`, `eliminate`, `rule out options`."""
    names = None
    for further in range(at + 1, at + 1 + _BACK):
        names = read_names(units, further)
        is_light = units.roles[further] & (FILL | OPTION | BE) or units.words[further] in OPEN
        if names is not None or not is_light:
            break
    if names is None:
        return
    findings.exclude(names.choices, at)
    target = _follow_contrast(units, names.end)
    if target is not None and target.choices and not target.is_negated:
        findings.state(target, "conclusion", Weight.VERDICT, at)


# Labels as subjects of a verdict: `B is the answer`, `A and C are wrong`, `Bが正解です`.

_VERDICT_REACH = 10
_BEFORE_SUBJECT = THAT | OPTION | SO | AND | OR | THINK | FILL | BUT | IT | FIX | OWN | AFTER
_BEFORE_SUBJECT |= ANSWER | MAYBE | YES | BE | LEAVE
_LIGHT_IN_VERDICT = FILL | OWN | MAYBE | IT | SO | FIX
_FREE = STOPS | COMMAS | COLONS | DASHES | CLOSE
_VERDICT_ENDS = STOPS | CLOSE


@dataclass(slots=True)
class _Verdict:
    """What a sentence has said about a subject so far."""

    has_verb: bool = False
    is_negated: bool = False
    is_right: bool = False
    is_wrong: bool = False
    is_answer: bool = False
    end: int = 0

    @property
    def is_full(self) -> bool:
        """Whether it says more than a verb."""
        return self.is_right or self.is_wrong or self.is_answer


def read_subject(units: Units, at: int, findings: Findings) -> None:
    """Note what the sentence says about the labels that begin at `at`."""
    begin = _find_subject_begin(units, at)
    if begin is None:
        return
    names = read_names(units, at)
    if names is None:
        return
    is_inverted = bool(units.roles[begin - 1] & (BE | LEAVE))
    verdict = _read_verdict(units, names, has_verb=is_inverted)
    if verdict is None:
        return
    is_condition = units.roles[verdict.end] & (IF | AFTER) == IF
    if is_condition or units.words[verdict.end] in QUESTION_MARKS:
        return  # `D would be correct if`
    context = read_context(units, begin)
    if context is Context.HYPOTHETICAL:
        findings.supposed.update(dict.fromkeys(names.choices, at))
        return
    if verdict.is_wrong != (verdict.is_negated or context is Context.DENIED):
        findings.exclude(names.choices, begin)
    elif not verdict.is_wrong:
        _state_subject(units, names, verdict, findings, begin)


def _state_subject(
    units: Units,
    names: Named,
    verdict: _Verdict,
    findings: Findings,
    begin: int,
) -> None:
    """Note a subject that is called right; `B is.` says so only after others were excluded."""
    if len(names.choices) == 1 and not PLURALS.isdisjoint(units.words[names.end : verdict.end]):
        return  # `tanto la A como la B son correctas`
    if not verdict.is_full and set(names.choices).issuperset(findings.excluded):
        return
    part = "named_right" if verdict.is_full else "conclusion"
    weight = Weight.DEFINITE if verdict.is_answer else Weight.VERDICT
    findings.state(replace(names, end=verdict.end), part, weight, begin)


def _find_subject_begin(units: Units, at: int) -> int | None:
    """Return where the subject begins if the label at `at` can be one.

    An article or a pronoun cannot; and a label that is joined to another is read with it.
    """
    labels = units.labels
    before = units.skip_back(at - 1, OPEN)
    word, roles = units.words[before], units.roles[before]
    if word == BREAK:
        return before + 1
    if roles & THAT and units.words[before - 1] in SENTENCE_ENDS:
        return None  # `That B is right cannot be said.`
    is_joint = roles & (AND | OR) or word in JOINTS
    if is_joint and labels[units.skip_back(before - 1, JOINTS, 1)] is not None:
        earlier = labels[max(before - _BACK, 0) : before]
        return before + 1 if labels[at] in earlier else None  # `between C and D, C is better`
    if not units.gaps[at + 1] and not units.token(at + 1).isascii():
        return at  # `거짓이므로 B가 정답입니다`
    if roles & _BEFORE_SUBJECT or word in _FREE or units.options.get(before) == labels[at]:
        return before + 1
    return None


def _read_verdict(units: Units, names: Named, *, has_verb: bool = False) -> _Verdict | None:
    """Return the verdict of the words after the labels; None if they are no verdict."""
    at = names.end
    end = min(at + _VERDICT_REACH, units.size)
    verdict = _Verdict(has_verb)
    is_it = not ~units.roles[at] & (BE | IT)
    verdict.is_answer = is_it and is_followed(units, at)  # `B it is.`
    while at < end and _add_to_verdict(units, at, verdict):
        at += 1
    verdict.end = at
    if verdict.is_full:
        return verdict if verdict.has_verb or not units.text.isascii() else None
    if not verdict.has_verb or verdict.is_negated:
        return None
    return verdict if units.words[at] in _VERDICT_ENDS else None


def _add_to_verdict(units: Units, at: int, verdict: _Verdict) -> bool:
    """Say whether the unit belongs to a verdict, and add what it says."""
    roles = units.roles[at]
    is_chosen = bool(roles & PICK) and not units.token(at).isascii()
    if roles & (RIGHT | WRONG | ANSWER) or is_chosen:
        verdict.has_verb |= bool(roles & BE)
        verdict.is_right |= bool(roles & RIGHT)
        verdict.is_wrong |= bool(roles & WRONG)
        verdict.is_answer |= is_chosen or bool(roles & ANSWER)
        return True
    if roles & (BE | NOT | NOT_AFTER):
        verdict.has_verb |= bool(roles & BE)
        verdict.is_negated ^= bool(roles & (NOT | NOT_AFTER))
        return True
    verdict.has_verb |= units.words[at] in DASHES
    return units.words[at] in DASHES or bool(roles & (_LIGHT_IN_VERDICT | OPTION))
