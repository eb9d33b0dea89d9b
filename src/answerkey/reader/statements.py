"""What a text states: cues (`the answer is B`) and verdicts on labels (`B is right`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from answerkey.reader.candidates import (
    PLURALS,
    WRAPS,
    Named,
    Scan,
    close_label,
    is_end,
    is_plain,
    is_word,
    read_names,
    skip_remark,
    stands,
)
from answerkey.reader.units import (
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
    ENDING,
    EQUALS,
    FILL,
    FIX,
    HYPHENS,
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
    QUOTES,
    RIGHT,
    ROUND_CLOSE,
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
    Units,
)

# What a text states: the answers it gives, with their weight, and the choices it excludes.


class Weight(IntEnum):
    """How much a statement says: a lower one counts only where there is no higher one."""

    DEFINITE = 0
    TENTATIVE = 1
    VERDICT = 2


@dataclass(slots=True)
class Statement:
    """Choices that a passage states as the answer: several if that is left open, none if it is no
    choice.

    `part` is the part of the rule that found it; `begin` and `end` are units.
    """

    choices: tuple[str, ...]
    part: str
    weight: Weight
    begin: int
    end: int
    clashes: bool = False


@dataclass(slots=True)
class Decision:
    """The choice or the reason why there is none, the part of the rule that decided, and where
    (units).
    """

    choice: str | None = None
    reason: str | None = None
    part: str | None = None
    begin: int = 0
    end: int = 0


@dataclass(slots=True)
class Findings:
    """What has been found in a text so far."""

    statements: list[Statement] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)
    #: Units of lines that only repeat the options.
    echoed: set[int] = field(default_factory=set)

    def exclude(self, choices: tuple[str, ...], at: int) -> None:
        """Note that the text excludes these choices."""
        self.excluded.update((choice, at) for choice in choices)


# From a cue to what it states: `the answer is, I think, option (B)`.

#: How far a cue reaches, in units, and a remark after it: the work at one cue is bounded.
REACH = 24
_LONGEST_REMARK = 14
_NEGATION = 4

#: More verbs and words for the answer than these are other sentences, which speak for themselves.
_CUES = 4

_LIGHT_AFTER_CUE = FILL | OWN | RIGHT | OPTION | THINK | FIX | MAYBE | IT | PICK
_BRACKETS = frozenset("([\uff08\u3010")
_PAUSES = CLOSE | COMMAS
_STRUCK = "~~"
_INTERJECTION_ENDS = COMMAS | LINKS | STOPS


@dataclass(slots=True)
class Followed:
    """What a cue leads to; `choices` are none when it is something that is not a choice.

    `has_link`: by way of a verb, a colon or the like.
    """

    choices: tuple[str, ...]
    end: int
    is_negated: bool = False
    is_maybe: bool = False
    has_link: bool = False
    is_wrapped: bool = False
    clashes: bool = False


@dataclass(slots=True)
class _Way:
    """What the words since the cue allow and mean."""

    has_link: bool
    may_pause: bool
    may_break: bool
    has_paused: bool = False
    cues: int = 0
    is_negated: bool = False
    is_maybe: bool = False


def follow(
    scan: Scan, at: int, *, is_linked: bool = False, may_pause: bool = True
) -> Followed | None:
    """Return what is named after a cue that ends at `at`, or None if the words lead elsewhere.

    `is_linked`: the cue needs no verb or colon. `may_pause`: a comma may follow it.
    """
    units, way = scan.units, _Way(is_linked, may_pause, is_linked)
    spelled, is_ascii = scan.texts.spelled, units.text.isascii()
    end = min(at + REACH, units.size)
    while at < end:
        word, roles, label = units.words[at], units.roles[at], units.labels[at]
        if not roles and label is None and is_plain(scan, at):
            return None
        if word == _STRUCK:
            at = _skip_struck(units, at)
            continue
        # A longer word of ASCII is no label: of those, only what may begin an option's text is
        # read.
        is_name = label is not None or word in OPEN or roles & NONE or not is_ascii
        is_name = (
            is_name or (len(word) == 1 and word.isalnum()) or units.raw[units.places[at]] in spelled
        )
        found = _read_here(scan, at, has_link=way.has_link) if is_name else None
        if found is not None:
            if way.has_paused and not way.has_link:
                return None
            is_maybe = way.is_maybe or found.is_maybe
            found.is_negated, found.is_maybe, found.has_link = (
                way.is_negated,
                is_maybe,
                way.has_link,
            )
            return _look_after(scan, found, has_verb=way.cues > 0 or not way.has_link)
        further = _step(scan, at, way)
        if further is None:
            return None
        at = further
    return None


def _skip_struck(units: Units, at: int) -> int:
    """Return the first unit after words that are struck out: `~~A~~ B`."""
    for further in range(at + 1, min(at + _LONGEST_REMARK, units.size)):
        if units.words[further] == _STRUCK:
            return further + 1
    return at + 1


def _step(scan: Scan, at: int, way: _Way) -> int | None:
    """Return the unit after this one, if it may stand between a cue and what it leads to."""
    units = scan.units
    word, roles = units.words[at], units.roles[at]
    if roles & NOT:
        way.is_negated = way.is_negated or not _is_interjection(units, at)
    elif roles & PREP and not _leads_to_label(scan, at):
        if way.has_link:
            return at + 1 if roles & _LIGHT_AFTER_CUE else None
        return _skip_preposition(units, at)
    elif roles & (BE | _LIGHT_AFTER_CUE) or (roles & ANSWER and way.has_link):
        is_verb = bool(roles & BE)
        way.cues += is_verb or bool(roles & ANSWER)
        if way.cues > _CUES:
            return None
        way.has_link, way.may_pause = way.has_link or is_verb, way.may_pause or is_verb
        way.may_break, way.is_maybe = way.may_break or is_verb, way.is_maybe or bool(roles & MAYBE)
    elif word in LINKS:
        way.has_link = way.may_pause = True
        way.may_break = way.may_break or word not in EQUALS
    elif word in COMMAS:
        way.has_paused = True
        return at + 1 if way.may_pause else None
    elif not (way.may_break if word == BREAK else word in WRAPPING):
        return None
    return at + 1


def _is_interjection(units: Units, at: int) -> bool:
    """Say whether a negation stands alone: `actually, no: it is B`."""
    return bool(units.roles[at] & WRONG) and _is_followed(units, at)


def _read_here(scan: Scan, at: int, *, has_link: bool) -> Followed | None:
    """Return the labels, the option text, or the answer that is no choice, that stand here."""
    units = scan.units
    is_name = units.labels[at] is not None or units.words[at] in OPEN
    names = read_names(scan, at) if is_name else None
    text = scan.texts.find(units, at) if scan.texts.spelled else None
    is_label = (
        text is not None and text.end == at + 1 and units.labels[at] not in {None, text.choice}
    )
    if is_label and names is None:
        return None
    if text is not None and names is not None and text.end < names.end + (len(names.choices) == 1):
        text = None
    if text is not None and text.choice is not None and _ends_text(units, text.end):
        return read_text(scan, text.choice, text.end)
    if names is not None:
        return Followed(
            names.choices, names.end, is_wrapped=names.is_wrapped, clashes=names.clashes
        )
    if not has_link:
        return None
    return (
        Followed((), at + 1, is_maybe=True) if units.roles[at] & NONE else _read_foreign(scan, at)
    )


def _ends_text(units: Units, end: int) -> bool:
    """Say whether an option's text is complete here: no further word, no joint to another."""
    at = end
    while at < min(end + WRAPS, units.size) and units.words[at] in CLOSE:
        at += 1
    if at >= units.size:
        return True
    if units.words[at] in COMMAS and at + 1 < units.size and units.roles[at + 1] & OR:
        return False
    if not is_word(units, at):
        is_number = units.words[at - 1][:1].isdecimal()
        return units.words[at] not in OPERATORS or (bool(units.gaps[at]) and not is_number)
    if units.roles[at] & BE and not units.token(at).isascii():
        return True
    return bool(units.roles[at] & AFTER) and not units.roles[at] & (OR | AND)


def read_text(scan: Scan, choice: str, end: int) -> Followed:
    """Return the choice of an option text; the label in brackets after it has to be the same."""
    units, at = scan.units, end
    while at < min(end + WRAPS, units.size) and units.words[at] in _PAUSES:
        at += 1
    if at >= units.size or units.words[at] not in _BRACKETS:
        return Followed((choice,), end)
    is_option = at + 1 < units.size and bool(units.roles[at + 1] & OPTION)
    names = read_names(scan, at + 2 if is_option else at)
    if names is None:
        return Followed((choice,), end)
    return Followed((choice,), names.end, clashes=choice not in names.choices)


def _read_foreign(scan: Scan, at: int) -> Followed | None:
    """Return an answer that is no choice when a label stands here that is not among them."""
    units, position = scan.units, at
    while position < min(at + WRAPS, units.size) and units.words[position] in OPEN:
        position += 1
    if position >= units.size or units.labels[position] is not None:
        return None
    if not scan.labels.resembles(units.token(position)):
        return None
    end = close_label(units, position)
    return None if is_word(units, end) or not stands(scan, position, end) else Followed((), end)


def _leads_to_label(scan: Scan, at: int) -> bool:
    """Say whether a word that may be a preposition is none here: `odpowiedź to B`."""
    roles = scan.units.roles[at]
    if not roles & (BE | FILL | OPTION):
        return False
    return bool(roles & OPTION) or read_names(scan, at + 1) is not None


def _skip_preposition(units: Units, at: int) -> int | None:
    """Return where the verb or the colon is after `to this question`; None when there is none."""
    is_quoted = False
    for further in range(at + 1, min(at + _LONGEST_REMARK, units.size)):
        word, roles = units.words[further], units.roles[further]
        is_quoted = is_quoted != (word in QUOTES)
        if is_quoted:
            continue
        if (roles & BE and not roles & PREP) or (word in LINKS and not units.gaps[further]):
            return further
        if word in STOPS or word == BREAK:
            break
    return None


#: `选A的人`, those who choose A.
_OF = "\u7684"


def _look_after(scan: Scan, found: Followed, *, has_verb: bool) -> Followed | None:
    """Return the finding, negated if a negation follows.

    None for a condition, a question or hearsay.
    """
    units, at = scan.units, found.end
    if at + 1 < units.size and units.words[at] == _OF and is_word(units, at + 1):
        return None
    after = units.roles[at : at + 2]
    is_wrong = bool(after) and bool(after[0] & WRONG) and not after[0] & (NOT | AFTER)
    is_not = bool(after) and bool(after[0] & NOT) and not is_word(units, at + 1)
    if is_wrong or is_not or (len(after) > 1 and after[0] & NOT and after[1] & RIGHT):
        found.is_negated = (
            not found.is_negated
        )  # `answer B incorrect`, where the verb is not written
        return found
    for further in range(at, min(at + _NEGATION, units.size)):
        roles = units.roles[further]
        if roles & NOT_AFTER:
            return replace(found, is_negated=True, end=further + 1)
        if roles & IF and not roles & AFTER:
            return None
        if units.words[further] in QUESTION_MARKS:
            return None if has_verb else found
        has_verb = has_verb or bool(roles & BE)
        if not roles & (FILL | BE | OPTION | RIGHT | BARE) and units.words[further] not in CLOSE:
            break
    return found


def follow_contrast(scan: Scan, end: int) -> Followed | None:
    """Return what follows an exclusion: `not A but B`, `nicht A, sondern B`, `B가 아니라 C`."""
    units, at = scan.units, end
    while at < min(end + WRAPS, units.size) and units.words[at] in _PAUSES:
        at += 1
    if at >= units.size:
        return None
    if units.roles[at] & BUT:
        return follow(scan, at + 1, is_linked=True)
    return follow(scan, at, is_linked=True) if units.roles[at - 1] & NOT_AFTER else None


# What stands before a cue and changes its meaning: conditions, questions, others' opinions,
# negations.

#: How far back a sentence is read, in units, and how far its light words and others' opinions
#: reach.
SENTENCE = 48
BEFORE = 8

_SENTENCE_ENDS = STOPS | {BREAK}
_BEFORE_INSERTION = _SENTENCE_ENDS | COMMAS | DASHES


#: Roles of words that may begin anew, whatever was said before.
_NEW = BUT | SO | FIX


class Context(IntEnum):
    """How the sentence before a cue means it: as it stands, as denied, or as nobody's own
    statement.
    """

    ASSERTED = 0
    DENIED = 1
    HYPOTHETICAL = 2


def skip_back(units: Units, at: int, roles: int) -> int:
    """Return the nearest unit before `at` that does not play one of these roles.

    -1 at the beginning.
    """
    before, last = at - 1, max(at - 1 - BEFORE, -1)
    while before > last and units.roles[before] & roles:
        before -= 1
    return before


#: `W\u00e4re die L\u00f6sung verd\u00fcnnt, m\u00fcsste man D ankreuzen.`
_UNREAL_OPENINGS = frozenset(
    {
        "w\u00e4re",
        "w\u00e4ren",
        "h\u00e4tte",
        "h\u00e4tten",
        "sollte",
        "sollten",
        "were",
        "had",
        "should",
    }
)


#: `Dass es C sein soll, glaube ich nicht.`
_SUBJECT_CLAUSES = frozenset(
    {"dass", "da\u00df", "\u017ce", "\u0447\u0442\u043e", "\u0447\u0442\u043e\u0431\u044b"}
)


def read_context(units: Units, at: int) -> Context:
    """Return how a cue is meant: conditions, questions, others' opinions and negations stand before
    it.

    A negation reaches as far as its clause, and into one that depends on it: `I don't think,
    frankly, that`.
    """
    in_clause, depends, is_denied, begin = True, False, False, max(at - SENTENCE, 0)
    in_brackets = False
    all_words, all_roles = units.words, units.roles
    for before in range(at - 1, begin - 1, -1):
        word, roles = all_words[before], all_roles[before]
        if not roles and word.isalpha():
            continue
        if word in ROUND_CLOSE and before < at - 1:
            in_brackets = not ROUND_OPEN.isdisjoint(units.words[begin:before])
        if in_brackets:
            in_brackets = word not in ROUND_OPEN
            continue
        if word in _SENTENCE_ENDS or (roles & _NEW and _starts_anew(units, before)):
            is_denied = is_denied or (
                bool(roles & MUTE) and in_clause and _denies(units, before, at)
            )
            begin = before + 1
            break
        if roles & (IF | SAYS):
            is_speech = units.words[before + 1] in COLONS  # `Tom says: it is C`
            if _is_unreal(roles, in_clause=in_clause or is_speech, is_near=at - before <= BEFORE):
                return Context.HYPOTHETICAL
        if roles & (NOT | WRONG):
            is_denied = is_denied or (in_clause and _denies(units, before, at))
        elif word in COMMAS:
            depends = depends or _depends(units, before + 1)
            in_clause = in_clause and depends
        elif roles & AND or (word in LINKS and (word not in HYPHENS or bool(units.gaps[before]))):
            in_clause = in_clause and depends
    if _asks(units, begin, at):
        return Context.HYPOTHETICAL
    if begin == at:
        return Context.DENIED if is_denied else Context.ASSERTED
    opening = units.words[begin]
    if opening in _UNREAL_OPENINGS or (
        opening in _SUBJECT_CLAUSES and not COMMAS.isdisjoint(units.words[at : at + REACH])
    ):
        return Context.HYPOTHETICAL
    if units.roles[begin] & NOT and not units.labels[begin + 1]:
        # `Nothing in the text, neither this nor that, says that the answer is C.`
        is_denied = is_denied or any(roles & THAT for roles in units.roles[begin + 1 : at])
    return Context.DENIED if is_denied else Context.ASSERTED


def _starts_anew(units: Units, at: int) -> bool:
    """Say whether what was said before does not reach beyond this unit: `but`, `so`, `wait,`."""
    roles = units.roles[at]
    return bool(roles & (BUT | SO)) or (bool(roles & FIX) and is_inserted(units, at))


def _is_unreal(roles: int, *, in_clause: bool, is_near: bool) -> bool:
    """Say whether a condition or somebody else's opinion reaches the cue: `if` does across a
    comma.
    """
    return bool(roles & IF) and in_clause if not roles & SAYS else is_near or bool(roles & IF)


def is_inserted(units: Units, at: int) -> bool:
    """Say whether a remark stands on its own: `wait, the answer is`; not `I don't actually
    think`.
    """
    return _is_followed(units, at) or at == 0 or units.words[at - 1] in _BEFORE_INSERTION


def _is_followed(units: Units, at: int) -> bool:
    """Say whether a comma, a colon or a stop sets the unit off from what follows."""
    return at + 1 < units.size and units.words[at + 1] in _INTERJECTION_ENDS


def _depends(units: Units, at: int) -> bool:
    """Say whether the clause that begins here depends on the one before: `, that`, `, is that`."""
    if at + 1 < units.size and units.roles[at] & BE:
        at += 1
    return at < units.size and bool(units.roles[at] & THAT)


def _denies(units: Units, at: int, cue: int) -> bool:
    """Say whether a negation denies the cue.

    `wrong` does right before it, or if `that` or `to` follows.
    """
    further = at + 1
    if units.roles[at] & NOT or further == cue:
        return True
    if further < units.size and units.words[further] in COMMAS:
        further += 1
    return further < units.size and bool(units.roles[further] & THAT)


def _asks(units: Units, begin: int, at: int) -> bool:
    """Say whether the sentence that begins here is a question with the verb first: `Could the
    answer be`.
    """
    if not units.roles[begin] & BE or units.roles[begin] & (FILL | OWN | IT):
        return False
    for further in range(at, min(at + REACH, units.size)):
        if units.words[further] in _SENTENCE_ENDS:
            return units.words[further] in QUESTION_MARKS
    return False


def starts_line(units: Units, at: int) -> bool:
    """Say whether nothing but marks, emphasis and light words stands before the unit on its
    line.
    """
    for before in range(at - 1, max(at - 1 - BEFORE, -1), -1):
        if units.words[before] == BREAK:
            return True
        if is_word(units, before) and not units.roles[before] & (FILL | OWN | RIGHT):
            return False
    return at <= BEFORE


# Cues and what they state: `the answer is B`, `I choose B`, `that leaves B`, `not A`.

#: What may stand before `the correct one is`; a subject or a verb may not.
_BEFORE_RIGHT = SO | AND | BUT | FIX | AFTER | THINK | OWN | IT
_LIGHT = FILL | OPTION | ANSWER | MAYBE | BE | NOT | IT | RIGHT
_NEAR = 6
_BACK = 4
_CLAUSE_ENDS = STOPS | COMMAS | CLOSE | DASHES


def read_cue(scan: Scan, at: int, findings: Findings) -> None:
    """Note what the cue at `at` states or excludes."""
    roles = scan.units.roles[at]
    if not roles & PICK and is_plain(scan, at + 1):
        return  # a plain word leads nowhere
    if roles & (ANSWER | OPTION | RIGHT):
        _read_noun(scan, at, findings)
    if roles & PICK:
        _note(scan, at, _follow_pick(scan, at), findings, part="chosen")
    elif roles & THINK and not roles & ANSWER:
        found = follow(scan, at + 1, is_linked=True)
        _note(scan, at, found, findings, part="chosen", weight=Weight.TENTATIVE)
    elif roles & FIX and not roles & MUTE and (not roles & UNDO or _is_followed(scan.units, at)):
        _note(scan, at, _follow_hint(scan, at), findings, part="correction")
    elif roles & (LEAVE | MATCH | SO | IT):
        part = "remaining" if roles & LEAVE else "reference" if roles & MATCH else "conclusion"
        _note(scan, at, _follow_hint(scan, at), findings, part=part, weight=Weight.VERDICT)
    elif roles & NOT_AFTER and any(scan.units.labels[max(at - _BACK, 0) : at]):
        # `A가 아니라 B`, `A değil, B`
        _note(scan, at, _follow_hint(scan, at), findings, part="conclusion", weight=Weight.VERDICT)
    elif roles & (NOT | DROP):
        _exclude(scan, at, findings)
    elif not roles & ~(MAYBE | FILL) and (at == 0 or scan.units.words[at - 1] in _BEFORE_INSERTION):
        found = None if _is_one_of_several(scan.units, at) else _follow_hint(scan, at)
        _note(scan, at, found, findings, part="chosen", weight=Weight.TENTATIVE)


def _is_one_of_several(units: Units, at: int) -> bool:
    """Say whether another label stands before in the sentence, or at the beginning of the line
    before.
    """
    for before in range(at - 1, max(at - SENTENCE, -1), -1):
        if units.words[before] in STOPS:
            return False
        if units.labels[before] is not None and units.token(before).isupper():
            return True
    return False


def _read_noun(scan: Scan, at: int, findings: Findings) -> None:
    """Note what `the answer`, `the correct option` or `the correct one` leads to."""
    roles = scan.units.roles[at]
    if roles & ANSWER:
        found = _follow_answer(scan, at)
    elif roles & OPTION:
        found = None if roles & PICK else _follow_option(scan, at)
    else:
        found = None if roles & WRONG else _follow_right(scan, at)
    if found is not None:
        is_named = roles & ANSWER or not roles & OPTION or found.has_link
        weight = _weigh(scan.units, at) if is_named else Weight.VERDICT
        _note(scan, at, found, findings, part="answer_cue", weight=weight)


def _weigh(units: Units, at: int) -> Weight:
    """Return the weight of a cue: `the closest answer`, `my guess` and `answers` say less."""
    if not units.played & (THINK | MAYBE):
        return Weight.DEFINITE
    before = skip_back(units, at, FILL | RIGHT | OWN)
    is_guess = any(one & (THINK | MAYBE) for one in units.roles[before + 1 : at + 1])
    return Weight.TENTATIVE if is_guess else Weight.DEFINITE


def _note(
    scan: Scan,
    at: int,
    found: Followed | None,
    findings: Findings,
    *,
    part: str,
    weight: Weight = Weight.DEFINITE,
) -> None:
    """Add what a cue leads to: a statement, or choices excluded and perhaps the one that replaces
    them.
    """
    if found is None:
        return
    is_own = bool(scan.units.roles[at] & FIX) and is_inserted(scan.units, at)
    context = Context.ASSERTED if is_own else read_context(scan.units, at)
    if context is Context.HYPOTHETICAL or _is_conditional(scan.units, at, found.end):
        return
    if _is_judged_wrong(scan, found):
        findings.exclude(found.choices, at)
        return
    if found.is_negated or context is Context.DENIED:
        findings.exclude(found.choices, at)
        found = follow_contrast(scan, found.end)
        if found is not None and context is Context.DENIED and not _ends_clause(scan, found):
            return
    if found is None or found.is_negated or len(found.choices) == len(scan.labels.choices) > 1:
        return
    weight = max(weight, Weight.TENTATIVE) if found.is_maybe else weight
    findings.statements.append(Statement(found.choices, part, weight, at, found.end, found.clashes))


def _is_conditional(units: Units, at: int, end: int) -> bool:
    """Say whether the verb is one of conditions and one stands before: `si l'on suit Kelsen, ce
    serait B`.
    """
    is_free = bool(units.roles[at] & (ANSWER | PICK | OPTION | RIGHT | THINK))
    if is_free and not units.played & IF:
        return False
    # `wäre die Antwort B`, not `I would choose B`.
    begin = max(skip_back(units, at, FILL), 0) if units.roles[at] & ANSWER else at
    if not any(units.token(one).lower().endswith(_UNREAL) for one in range(begin, end)):
        return False
    for before in range(at - 1, max(at - SENTENCE, -1), -1):
        if units.words[before] in _SENTENCE_ENDS and units.words[before] != ";":
            return False
        if units.roles[before] & IF or (
            not is_free and (units.words[before] in COMMAS or is_unknown(units, before))
        ):
            return True  # whatever the word for a condition is: `qualora fosse così, sarebbe B`
    return False


def _is_judged_wrong(scan: Scan, found: Followed) -> bool:
    """Say whether a verdict follows that excludes the label: `so C cannot be right`."""
    units, at = scan.units, found.end
    if not found.choices or at >= units.size or not units.roles[at] & (BE | NOT):
        return False
    verdict = _read_verdict(scan, found)
    return verdict is not None and verdict.is_wrong != verdict.is_negated


def _follow_answer(scan: Scan, at: int) -> Followed | None:
    units = scan.units
    found = follow(scan, at + 1)
    if found is not None and units.roles[at] & MAYBE and is_word(units, found.end):
        return None  # `two answers: 1 for the noun and 3 for the verb`
    if found is None or found.has_link:
        return found
    if not starts_line(units, at) and found.end >= units.size and not found.is_wrapped:
        return None  # a text that is cut off
    is_close = bool(units.roles[at] & BARE) or starts_line(units, at) or found.is_wrapped
    has_verb_after = _has_verb_after(units, found.end)
    if not units.roles[at] & BARE and found.end < units.size and units.roles[found.end] & BE:
        return found if has_verb_after else None  # `answers B and C are too small`
    before = skip_back(units, at, FILL | OWN | RIGHT)
    has_verb = (before >= 0 and bool(units.roles[before] & BE)) or has_verb_after
    return found if found.choices and (is_close or has_verb) else None


def _has_verb_after(units: Units, at: int) -> bool:
    """Say whether the clause ends with the verb, as in German: `dass die Antwort B ist`."""
    is_verb = at < units.size and bool(units.roles[at] & BE)
    return is_verb and (is_end(units, at + 1) or units.words[at + 1] in _CLAUSE_ENDS)


def _follow_option(scan: Scan, at: int) -> Followed | None:
    """Return what an option word leads to, if it is `the correct option` or `my choice`."""
    units = scan.units
    if at > 0 and units.labels[at - 1] is not None and not units.gaps[at]:
        return None  # `A项`
    before = skip_back(units, at, FILL & ~(RIGHT | OWN))
    around = (units.roles[before] if before >= 0 else 0) | units.roles[at]
    around |= units.roles[at + 1] & RIGHT if at + 1 < units.size else 0
    if not around & (RIGHT | OWN) and not _is_key(units, at):
        return None
    if units.roles[at] & MAYBE and not around & RIGHT:
        return None  # `Options: A 8, B 9`
    found = follow(scan, at + 1)
    return found if found is not None and (found.has_link or around & RIGHT) else None


def _is_key(units: Units, at: int) -> bool:
    """Say whether a line begins with the word and a colon: `Choice: B`, `"option": "B"`."""
    after = [word for word in units.words[at + 1 : at + _BACK] if word not in DRESS]
    return bool(after) and after[0] in COLONS and starts_line(units, at)


def _follow_right(scan: Scan, at: int) -> Followed | None:
    """Return what `the correct one is` and `正确的是` lead to, not `B is correct: A is not`."""
    units = scan.units
    before = skip_back(units, at, FILL)
    is_inside = before >= 0 and is_word(units, before) and not units.roles[before] & _BEFORE_RIGHT
    if is_inside and not starts_line(units, at):
        return None
    if before >= 0 and units.roles[before] & PREP:
        return None  # `from the right`
    if at + 1 < units.size and units.roles[at + 1] & (ANSWER | OPTION):
        return None
    found = follow(scan, at + 1)
    return found if found is not None and found.has_link and found.choices else None


def _follow_pick(scan: Scan, at: int) -> Followed | None:
    """Return what is chosen; a variable (`choose $A$`) is not."""
    units = scan.units
    if at + 1 < units.size and units.words[at + 1] in MATHEMATICS:
        return None
    if _is_of_others(units, at):
        return None
    found = follow(scan, at + 1, is_linked=True, may_pause=False)
    if found is None:
        is_last = bool(units.roles[at] & ENDING) or not units.token(at).isascii()
        return _read_before(scan, at) if is_last else None
    return None if found.choices and _is_variable(scan, found) else found


#: Who chooses or thinks: the model itself.
_SELF = frozenset(
    (
        "i",
        "i'd",
        "i'll",
        "i'm",
        "i've",
        "im",
        "id",
        "we",
        "we'd",
        "we'll",
        "let's",
        "lets",
        "ich",
        "wir",
        "je",
    )
) | {"nous", "on", "yo", "eu", "io", "ik", "ja", "ben", "t\u00f4i", "gonna"}


def is_unknown(units: Units, at: int) -> bool:
    """Say whether a unit is a word of Latin letters that plays no role and is no label."""
    return (
        units.words[at].isalpha()
        and units.words[at].isascii()
        and not units.roles[at]
        and units.labels[at] is None
    )


def _is_of_others(units: Units, at: int) -> bool:
    """Say whether a clause has a subject of its own: `the umpire would have to go with 2`.

    Words after a preposition (`for exam purposes`) and the one right before the cue are none.
    """
    is_other = False
    for before in range(at - 1, max(at - 1 - BEFORE, -1), -1):
        word, roles = units.words[before], units.roles[before]
        if word in _SELF:
            return False
        if word in HYPHENS and not units.gaps[before]:
            continue
        is_other = is_other or units.token(before).startswith("would")
        if word in _BEFORE_INSERTION or word in COLONS or roles & (SO | BUT | FIX):
            break
        is_other = (is_other or (is_unknown(units, before) and before < at - 1)) and not (
            roles & PREP and not roles & FILL
        )
    return is_other


def _is_variable(scan: Scan, found: Followed) -> bool:
    """Say whether more is chosen than a label: `choose a and b such that`, `choose A and let`."""
    units = scan.units
    if units.token(found.end - 1).islower() and not found.choices[0].islower():
        is_joined = found.end < units.size and bool(units.roles[found.end] & AND)
        return not found.is_wrapped and (is_joined or not _ends_clause(scan, found))
    after = range(found.end, min(found.end + 2, units.size))
    return (
        len(after) > 1 and bool(units.roles[after[0]] & AND) and units.labels[after[1]] is not None
    )


def _read_before(scan: Scan, at: int) -> Followed | None:
    """Return the label before a verb that ends its sentence: `B를 선택합니다`."""
    units, before = scan.units, at - 1
    while before > max(at - _BACK, 0) and units.labels[before] is None:
        if not units.roles[before] & (FILL | OPTION) and units.words[before] not in CLOSE:
            return None
        before -= 1
    names = read_names(scan, before) if before >= 0 and units.labels[before] is not None else None
    is_joined = (
        before > 1 and units.labels[before - 2] is not None and units.words[before - 1] in JOINTS
    )
    is_of = is_word(units, at + 1) and not units.roles[at + 1] and not units.gaps[at + 1]
    if is_of and not units.roles[at] & ENDING:
        return None  # those who choose it
    return (
        None
        if names is None or is_joined
        else Followed(names.choices, at + 1, clashes=names.clashes)
    )


_MEANS = frozenset(
    {"means", "implies", "suggests", "indicates", "shows", "proves", "follows", "tells", "confirms"}
)


def _follow_hint(scan: Scan, at: int) -> Followed | None:
    """Return what `it is`, `so`, `that leaves` and `matches option` lead to, if the clause ends
    there.
    """
    units, roles = scan.units, scan.units.roles[at]
    begin = at + 1
    if roles & (IT | BE) == IT and (begin >= units.size or not units.roles[begin] & BE):
        return None
    before = units.words[at - 1] if at > 1 and not units.roles[at - 1] else ""
    if roles & IT and before.endswith("s") and before not in _MEANS and is_word(units, at - 2):
        return None  # `my roommate swears it is A`
    if roles & (IT | BE) == IT:
        begin += 0 if units.roles[begin] & NOT else 1
    while roles & FIX and begin < min(at + _BACK, units.size) and units.words[begin] in STOPS:
        begin += 1
    found = follow(scan, begin, is_linked=True, may_pause=bool(roles & (FIX | SO | NOT_AFTER)))
    if found is None or not found.choices:
        return None
    if roles & (IT | SO) and not QUESTION_MARKS.isdisjoint(units.words[found.end : found.end + 1]):
        return None
    is_near = all(
        _is_light(units, between) for between in range(begin, min(found.end, begin + _NEAR))
    )
    is_clear = found.is_wrapped or any(one & OPTION for one in units.roles[begin : found.end])
    if not roles & MATCH:
        is_clear = is_clear or not units.token(found.end - 1).islower()
    return found if is_near and is_clear and _ends_clause(scan, found) else None


def _is_light(units: Units, at: int) -> bool:
    is_plain = not is_word(units, at) and units.words[at] not in STOPS and units.words[at] != BREAK
    return is_plain or units.labels[at] is not None or bool(units.roles[at] & _LIGHT)


def _ends_clause(scan: Scan, found: Followed) -> bool:
    """Say whether nothing is said of the label any more: `so B.`, not `so B is wrong` or `so $B =
    2$`.
    """
    units = scan.units
    for before in range(found.end - 1, max(found.end - _NEAR - 1, -1), -1):
        if units.words[before] == BREAK:
            break
        if units.words[before] in MATHEMATICS:
            return False
    at = skip_remark(scan, found.end, found.choices[0]) if found.choices else found.end
    if is_end(units, at) or units.words[at] in _CLAUSE_ENDS:
        return True
    if units.roles[at] & THAT:
        return True  # `c'est donc B qu'il faut retenir`
    if units.roles[at] & NOT:
        return any(label is not None for label in units.labels[at + 1 : at + _BACK])
    if units.roles[at] & (AFTER | BUT | AND):
        # `so A and B go` says something of both.
        return not (units.roles[at] & AND and units.labels[at + 1 : at + 2] not in ([], [None]))
    if not is_word(units, at):
        return not units.gaps[at]
    while (
        at < min(found.end + _NEAR, units.size)
        and units.roles[at] & (BE | FILL)
        and not units.gaps[at]
    ):
        at += 1  # `よってBです`
    return at > found.end and not is_word(units, at)


def _exclude(scan: Scan, at: int, findings: Findings) -> None:
    """Note the labels after `not`, `neither`, `eliminate`, `rule out options`."""
    units, names = scan.units, None
    for further in range(at + 1, min(at + 1 + _BACK, units.size)):
        is_name = units.labels[further] is not None or units.words[further] in OPEN
        names = read_names(scan, further) if is_name else None
        is_light = units.roles[further] & (FILL | OPTION | BE) or units.words[further] in OPEN
        if names is not None or not is_light:
            break
    if names is None:
        return
    findings.exclude(names.choices, at)
    found = follow_contrast(scan, names.end)
    if found is not None and found.choices and not found.is_negated:
        statement = Statement(
            found.choices, "conclusion", Weight.VERDICT, at, found.end, found.clashes
        )
        findings.statements.append(statement)


# Labels as subjects of a verdict: `B is the answer`, `A and C are wrong`, `Bが正解です`.

_VERDICT_REACH = 10
_UNDER = frozenset(
    {
        "on",
        "in",
        "at",
        "under",
        "with",
        "for",
        "only",
        "auf",
        "bei",
        "sur",
        "sous",
        "en",
        "em",
        "con",
        "com",
    }
)
_UNREAL = (
    "would",
    "would be",
    "w\u00e4re",
    "serait",
    "ser\u00eda",
    "seria",
    "seria a",
    "ser\u00eda la",
    "sarebbe",
    "zou",
)
_BEFORE_SUBJECT = (
    THAT
    | OPTION
    | SO
    | AND
    | OR
    | THINK
    | FILL
    | BUT
    | IT
    | FIX
    | OWN
    | AFTER
    | ANSWER
    | MAYBE
    | YES
)
_LIGHT_IN_VERDICT = FILL | OWN | MAYBE | IT | SO | FIX
_SMALL = frozenset("ai")
_FREE = STOPS | COMMAS | COLONS | DASHES | CLOSE
_VERDICT_ENDS = STOPS | CLOSE | {BREAK}
_IN_VERDICT = DASHES | WRAPPING


@dataclass(slots=True)
class _Verdict:
    """What is said of a subject so far."""

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


def _is_exception(units: Units, begin: int, end: int) -> bool:
    """Say whether something bad is said of the only one: `C is the only one I would reject`."""
    if "one" not in units.known:
        return False
    ones = [at for at in range(begin, end) if "one" in units.token(at).lower().split()]
    for at in range(ones[-1] + 1, min(end + _VERDICT_REACH, units.size)) if ones else ():
        if units.words[at] in _SENTENCE_ENDS or units.words[at] in COMMAS:
            return False
        if units.roles[at] & (DROP | NOT | WRONG | MUTE):
            return True
    return False


def read_subject(scan: Scan, at: int, findings: Findings) -> None:
    """Note what is said of the labels that begin at `at`."""
    units = scan.units
    begin = _find_begin(units, at)
    names = None if begin is None else read_names(scan, at)
    if begin is None or names is None:
        return
    is_inverted = begin > 0 and bool(units.roles[begin - 1] & (BE | LEAVE))
    verdict = _read_verdict(scan, names, has_verb=is_inverted)
    if verdict is None or (is_inverted and not verdict.is_full):
        return
    if _is_exception(units, names.end, verdict.end):
        return
    if is_inverted and _asks(units, begin - 1, verdict.end):
        return
    end = verdict.end
    roles, after = (units.roles[end], units.words[end]) if end < units.size else (0, "")
    if roles & (IF | AFTER) == IF or after in QUESTION_MARKS:
        return  # `D would be correct if`
    if after in _UNDER and any(
        units.token(one).lower().startswith(_UNREAL) for one in range(names.end, end)
    ):
        return  # `C would be right on the Moon`
    context = read_context(units, begin)
    if context is Context.HYPOTHETICAL or (context is Context.DENIED and verdict.is_wrong):
        return
    if verdict.is_wrong != (verdict.is_negated or context is Context.DENIED):
        findings.exclude(names.choices, begin)
        return
    # `B is right`; and `B is.`, which says something only after others were excluded.
    is_said = not verdict.is_wrong and (verdict.is_full or bool(findings.excluded))
    if len(names.choices) == 1 and not PLURALS.isdisjoint(units.words[names.end : verdict.end]):
        return  # `tanto la A como la B son correctas`
    if is_said and len(names.choices) < len(scan.labels.choices):
        part = "named_right" if verdict.is_full else "conclusion"
        weight = Weight.DEFINITE if verdict.is_answer else Weight.VERDICT
        stated = Statement(names.choices, part, weight, begin, verdict.end, names.clashes)
        findings.statements.append(stated)


def _find_begin(units: Units, at: int) -> int | None:
    """Return where the subject begins if the label at `at` can be one.

    An article or a pronoun cannot; and a label that is joined to another is read with it.
    """
    words, before = units.words, at - 1
    while before >= 0 and words[before] in OPEN and before >= at - WRAPS:
        before -= 1
    word, roles = (words[before], units.roles[before]) if before >= 0 else (BREAK, 0)
    if not roles and word.isalpha():
        return None
    if before == at - 1 and words[at] in _SMALL and not roles & OPTION:
        # An article has no verb after it: `a is the best option`.
        written = units.token(at)
        is_verb_next = at + 1 < units.size and bool(units.roles[at + 1] & BE)
        if written == "i" or (written == "a" and not is_verb_next):
            return None
    if word == BREAK:
        return before + 1
    if (roles & (AND | OR) or word in JOINTS) and _is_after_label(units, before - 1):
        earlier = units.labels[max(before - _BACK, 0) : before]
        return before + 1 if units.labels[at] in earlier else None  # `between C and D, C is better`
    if roles & THAT and (before == 0 or words[before - 1] in _SENTENCE_ENDS):
        return None  # `That B is right cannot be said.`
    if word == "where":
        return None  # `"the answer is (C)" where C is the correct letter`
    return before + 1 if roles & (_BEFORE_SUBJECT | BE | LEAVE) or word in _FREE else None


def _is_after_label(units: Units, at: int) -> bool:
    while at > 0 and not units.gaps[at] and (units.words[at] in CLOSE or units.words[at] in COMMAS):
        at -= 1
    return at >= 0 and units.labels[at] is not None


def _read_verdict(
    scan: Scan, names: Named | Followed, *, has_verb: bool = False
) -> _Verdict | None:
    """Return what the words after the labels say of them, None if they say something else."""
    units = scan.units
    at = skip_remark(scan, names.end, names.choices[0]) if len(names.choices) == 1 else names.end
    end = min(at + _VERDICT_REACH, units.size)
    if not has_verb and (at >= end or not (units.roles[at] or units.words[at] in _IN_VERDICT)):
        return None
    verdict = _Verdict(has_verb)
    if at < end and units.roles[at] & BE and units.roles[at] & IT and _is_followed(units, at):
        verdict.is_answer = True  # `B it is.`
    while at < end and _add_to_verdict(units, at, verdict):
        at += 1
    verdict.end = at
    if verdict.is_full and (verdict.has_verb or not units.text.isascii()):
        return verdict
    is_over = at < units.size and units.words[at] in _VERDICT_ENDS
    return verdict if verdict.has_verb and not verdict.is_negated and is_over else None


def _add_to_verdict(units: Units, at: int, verdict: _Verdict) -> bool:
    """Say whether the unit belongs to a verdict, and add what it says."""
    word, roles = units.words[at], units.roles[at]
    is_chosen = bool(roles & PICK) and not units.token(at).isascii()
    if roles & NOT_AFTER:
        verdict.is_negated = not verdict.is_negated
    elif roles & (RIGHT | WRONG | ANSWER) or is_chosen:
        if _goes_on(units, at):
            return False
        verdict.has_verb = verdict.has_verb or bool(roles & BE)
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
        return bool(roles & _LIGHT_IN_VERDICT) or (word in WRAPPING and not verdict.is_right)
    return True


def _goes_on(units: Units, at: int) -> bool:
    """Say whether a verdict is only the beginning of another word: 对称, `right-handed`."""
    if at + 2 >= units.size or units.gaps[at + 1]:
        return False
    if units.words[at + 1] in HYPHENS:
        return not units.gaps[at + 2] and is_word(units, at + 2)
    is_character = len(units.words[at]) == 1 and not units.words[at].isascii()
    return is_character and is_word(units, at + 1) and not units.roles[at + 1]
