"""The extraction rule `stated_answer`: the answer that a text states anywhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from answerkey.reader.characters import WHITE_SPACE, Reading
from answerkey.reader.lexicon import (
    AFTER,
    AND,
    ANSWER,
    ARROWS,
    BE,
    BREAK,
    BUT,
    CLOSE,
    COLONS,
    COMMAS,
    CUES,
    DASHES,
    DROP,
    EQUALS,
    FILL,
    FIX,
    HYPHENS,
    IF,
    IT,
    LEAVE,
    MATCH,
    MATHEMATICS,
    MAYBE,
    NONE,
    NOT,
    NOT_AFTER,
    OPEN,
    OPERATORS,
    OPTION,
    OR,
    PICK,
    PREP,
    QUESTION,
    QUESTION_MARKS,
    QUOTES,
    REFUSE,
    RIGHT,
    SAYS,
    SO,
    STOPS,
    THINK,
    UNDO,
    WRONG,
    YES,
)
from answerkey.reader.lines import (
    BOLD,
    SPEAKERS,
    TRAILING_MARKS,
    Line,
    LineLayout,
    find_questions,
    is_foreign,
    lay_out,
    read_lines,
)
from answerkey.reader.markup import MARKUP, find_parts, read_markup, simplify
from answerkey.reader.names import close_label, is_object, is_small, is_word, read_names
from answerkey.reader.statements import (
    REACH,
    SENTENCE_ENDS,
    Context,
    Findings,
    Statement,
    Weight,
    is_inserted,
    read_context,
    read_cue,
    read_subject,
    read_text,
)
from answerkey.reader.units import KOREAN_VERBS, WRAPS, Labels, Units, read_labels, split_units

NOTHING = "NOTHING_STATED"
SEVERAL = "SEVERAL_CHOICES"
CLASH = "CONTRADICTS_ITSELF"
DECLINED = "DECLINED"


@dataclass(slots=True)
class Decision:
    """The choice or the reason why there is none, the part of the rule that decided, and where.

    `begin` and `end` are units. `doubt` says what speaks against the choice, which counts only for
    those who accept doubted ones.
    """

    choice: str | None = None
    reason: str | None = None
    part: str | None = None
    begin: int = 0
    end: int = 0
    doubt: str | None = None


# The choice that a reply names without stating it: first, last, or as the only one.

#: A longer text argues, so an option that it names need not be its answer.
_MOST_ASSERTED = 60
#: A shorter one says nothing else: `No, it is not.`
_SHORTEST = 10
_DENIAL = NOT | WRONG | DROP | NOT_AFTER | REFUSE
_DOUBT = _DENIAL | IF | SAYS | NONE | BUT
_SETTING_OFF = SENTENCE_ENDS | COMMAS | COLONS | DASHES
_ASSERTION_ENDS = _SETTING_OFF - QUESTION_MARKS
_SAYING = COLONS | EQUALS | ARROWS | {"\u2208", "\u2248"}


def _list_option_texts(units: Units) -> Iterator[Statement]:
    """Yield the option texts that have no label before them, as statements.

    One without choices is the text of several options. A label in brackets may follow a text; one
    of another option clashes with it, and so does a text that is another choice's label.
    """
    attached = {text_end - 1 for text_end in units.text_ends.values()}
    for at, choice in units.options.items():
        if at in attached or at in units.text_ends:
            continue
        if not choice:
            yield Statement((), "option_text", Weight.TENTATIVE, at, at + 1)
            continue
        text = read_text(units, choice, at + 1)
        clashes = text.clashes or units.labels[at] not in {None, choice}
        yield Statement(text.choices, "option_text", Weight.TENTATIVE, at, text.end, clashes)


def _list_mentions(units: Units, excluded: Collection[str]) -> list[Statement]:
    """Return the places that name a choice, by its label or its option's text, in their order.

    Choices that the text excludes are left out, and the options as the text repeats them.
    """
    places = list(_list_option_texts(units))
    covered: set[int] = set()
    for text in places:
        covered.update(range(text.begin, text.end))
    echo = list(units.text_ends)[: len(units.choices.choices)]
    if tuple(units.labels[at] for at in echo) == units.choices.choices:
        covered.update(echo)
    for at in units.named:
        if at not in covered and _is_mention(units, at):
            choices = (str(units.labels[at]),)
            end = close_label(units, at)
            places.append(Statement(choices, "conclusion", Weight.VERDICT, at, end))
    places = [place for place in places if not set(place.choices) & set(excluded)]
    return sorted(places, key=lambda place: place.begin)


def _find_mentioned_answer(units: Units, findings: Findings) -> Statement | None:
    """Return the place that names the answer of a reply that states none in words."""
    places = _list_mentions(units, findings.excluded)
    if not places:
        return None
    answers = _list_opening_and_closing(units, places)
    if _names_one_choice(units, places):
        answers = places[-1:]
    answers = answers or [place for place in places if _is_bold(units, place)]
    if not answers:
        labels = [place for place in places if not _is_text(place)]
        answers = [place for place in labels[-1:] if _settles_on_label(units, place)]
    choices = {place.choices for place in answers}
    return answers[-1] if len(choices) == 1 and () not in choices else None


def _settles_on_label(units: Units, place: Statement, *, is_last: bool = False) -> bool:
    """Say whether a sentence settles on a label without doubt: it is set off, or the only one."""
    begin, end = _find_sentence(units, place.begin, place.end)
    if not _is_plain(units, place, begin, end) or not _is_mention(units, place.begin):
        return False
    texts = {units.options.get(at) for at in range(begin, end)}
    if not texts.issubset({None, "", *place.choices}):
        return False  # `It is Lyon, just as option A says`
    is_set_off = _is_set_off(units, place, begin)
    if _is_only_label(units, place):
        return is_last or is_set_off or _is_subject(units, place)
    first = units.named[bisect_left(units.named, begin)]
    return is_last and is_set_off and first == place.begin


def _is_plain(units: Units, place: Statement, begin: int, end: int) -> bool:
    """Say whether the sentence of a label is complete, and neither a question nor doubtful."""
    is_cut = end == units.size and place.end == place.begin + 1
    if is_cut or units.words[end] in QUESTION_MARKS or units.plays(begin, end, _DOUBT):
        return False
    before = place.begin - 1
    before -= bool(units.roles[before] & OPTION)
    return units.words[before] != "of" and not units.roles[before] & OR  # `the side of option D`


def _is_set_off(units: Units, place: Statement, begin: int) -> bool:
    """Say whether a label stands within a sentence after an option word, or in brackets."""
    before = place.begin - 1
    is_called = units.roles[before] & (OPTION | MAYBE) == OPTION
    if not any(is_word(units, at) for at in range(begin, before + 1 - is_called)):
        return is_called
    return is_called or units.words[before] in OPEN - QUOTES


def _is_subject(units: Units, place: Statement) -> bool:
    """Say whether a short reply to a question with options says what a label is."""
    is_short = units.size <= _FIRST_WORDS and bool(units.option_texts)
    return is_short and bool(units.roles[place.end] & BE)


def _find_sentence(units: Units, begin: int, end: int) -> tuple[int, int]:
    """Return where the sentence of a passage begins and ends."""
    while begin > 0 and units.words[begin - 1] not in SENTENCE_ENDS:
        begin -= 1
    while units.words[end] not in SENTENCE_ENDS:
        end += 1
    return begin, end


def _is_only_label(units: Units, place: Statement) -> bool:
    """Say whether a reply names no other label; an article or `I` is not a label."""
    for at in units.named:
        is_article = units.words[at] in _WORDS and units.token(at).islower()
        if units.labels[at] not in place.choices and not is_article:
            return False
    return units.words[place.begin] != "i"


def _list_opening_and_closing(units: Units, places: Sequence[Statement]) -> list[Statement]:
    """Return the mentions that open or conclude a reply."""
    ends = []
    if len(units.text_ends) <= 1 and _opens(units, places[0]):
        ends.append(places[0])
    if _concludes(units, places[-1]):
        ends.append(places[-1])
    return ends


def _is_bold(units: Units, place: Statement) -> bool:
    """Say whether a place is set in bold type within a sentence."""
    begin = place.begin
    return is_word(units, begin - 2) and units.words[begin - 1] in BOLD


def _read_last(units: Units, findings: Findings) -> None:
    """Note a label with which the text ends, after a verb, a colon or the like."""
    last = units.skip_back(units.size - 1, _ENDINGS)
    if not units.named or units.named[-1] != last:
        return
    names = read_names(units, last)
    if names is None or is_small(units, last) or set(names.choices) & set(findings.excluded):
        return
    if any(statement.end > last for statement in findings.statements):
        return
    place = Statement(names.choices, "conclusion", Weight.VERDICT, last, names.end, names.clashes)
    if _concludes(units, place):
        before, _ = _skip_articles_and_quotes(units, place)
        texts = {units.options.get(units.skip_back(at, COMMAS)) for at in (before - 1, before)}
        place.clashes |= not texts.issubset({None, "", *names.choices})
        findings.statements.append(place)


def _is_text(place: Statement) -> bool:
    return place.part == "option_text"


def _skip_articles_and_quotes(units: Units, place: Statement) -> tuple[int, int]:
    """Return the units before and after a mention, past its articles, quotes and brackets."""
    light = FILL if _is_text(place) else FILL | OPTION | ANSWER
    before = place.begin - 1
    last = max(before - 2 * WRAPS, -1)
    while before > last and (units.words[before] in OPEN or units.roles[before] & light):
        before -= 1
    after = place.end + bool(units.roles[place.end] & OPTION)  # `B項`
    return before, units.skip(after, CLOSE)


def _opens(units: Units, place: Statement) -> bool:
    """Say whether the reply begins with this text, set off from what follows: `Invalid: it …`."""
    before, end = _skip_articles_and_quotes(units, place)
    mark = units.words[end]
    if before >= 0 or mark not in _SETTING_OFF or not _is_text(place):
        return False
    if _asks_question(units) or units.roles[end + 1] & _DOUBT:
        return False
    return mark not in COMMAS or bool(units.roles[end + 1] & AFTER) or _is_whole_reply(units, end)


def _is_whole_reply(units: Units, end: int) -> bool:
    """Say whether a reply consists of one option text, as in `No, it is not`."""
    is_short = units.size <= _SHORTEST and len(units.options) == 1
    return is_short and not units.plays(end, units.size, REFUSE)


def _asks_question(units: Units) -> bool:
    return not QUESTION_MARKS.isdisjoint(units.known)


def _concludes(units: Units, place: Statement) -> bool:
    """Say whether the last sentence states this choice with a verb or a mark."""
    before, end = _skip_articles_and_quotes(units, place)
    if not _ends_text(units, end):
        return False
    if _is_text(place) and _describes_label(units, before):
        return False
    is_stated = _is_introduced_text if _is_text(place) else _is_introduced_label
    return is_stated(units, place, before) and read_context(units, place.begin) is Context.ASSERTED


def _describes_label(units: Units, verb: int) -> bool:
    """Say whether a text describes a label (`A is incorrect`), or is mentioned in passing."""
    if "to" in units.words[max(verb - 1, 0) : verb + 1]:
        return True  # `to be valid`
    return bool(units.roles[verb] & BE) and units.labels[verb - 1] is not None


def _is_introduced_text(units: Units, place: Statement, before: int) -> bool:
    """Say whether a verb or a colon stands before an option's text."""
    # Without a full stop, a longer text may be cut off, and a number in it may be any step.
    is_stopped = not STOPS.isdisjoint(units.words[place.end : place.end + WRAPS])
    if units.size > _MOST_ASSERTED and not is_stopped:
        return False
    if _has_alternative(units, before - _BACK, before):
        return False
    if units.token(place.begin).endswith(KOREAN_VERBS):
        return True
    return units.words[before] in _SAYING or bool(units.roles[before] & (BE | MATCH))


def _has_alternative(units: Units, begin: int, end: int) -> bool:
    """Say whether there is a word for `or` between two units."""
    return any(roles & (OR | PREP) == OR for roles in units.roles[max(begin, 0) : end])


def _is_introduced_label(units: Units, place: Statement, before: int) -> bool:
    """Say whether a verb or a mark introduces a label, or its sentence settles on it."""
    word = units.words[before]
    if word in COLONS and units.plays(before - _BACK, before, WRONG | DROP | NONE):
        return False  # `This one is wrong: option C.`
    if units.roles[before] & (BE | MATCH):
        return before < place.begin - 1 or not units.token(place.begin).isdecimal()
    if word in _POINTING:
        return not _is_one_of_several(units, before)
    if word in SENTENCE_ENDS:
        is_free = word != BREAK and units.labels[before - 1] is None
        return is_free and _is_sentence(units, place)
    return _settles_on_label(units, place, is_last=True)


def _is_one_of_several(units: Units, mark: int) -> bool:
    """Say whether a label after a mark is one of several answers: `Question 2: B`."""
    pointed = {units.labels[at] for at in units.named if units.words[at - 1] in _POINTING}
    is_numbered = any(map(str.isdecimal, units.words[max(mark - 2, 0) : mark]))
    return len(pointed) > 1 or is_numbered or units.plays(mark - 2, mark, QUESTION)


def _is_sentence(units: Units, place: Statement) -> bool:
    """Say whether a label is a sentence of its own."""
    after = place.end + bool(units.roles[place.end] & OPTION)
    return units.words[after] in STOPS


def _ends_text(units: Units, end: int) -> bool:
    """Say whether only marks, or a reason, follow."""
    following = units.words[end : end + WRAPS]
    if all(word in _ENDINGS for word in following):
        return QUESTION_MARKS.isdisjoint(following)
    return following[0] in COMMAS and units.roles[end + 1] & (AFTER | SO) == AFTER


def _names_one_choice(units: Units, places: Sequence[Statement]) -> bool:
    """Say whether a short reply clearly speaks of only one choice, by its text."""
    if units.size > _MOST_ASSERTED or _asks_question(units):
        return False
    has_text = any(_is_text(place) or place.begin in units.text_ends for place in places)
    is_single = len({place.choices for place in places}) == 1
    return has_text and is_single and _is_clear(units, places)


def _is_clear(units: Units, places: Sequence[Statement]) -> bool:
    """Say whether a reply names its only choice as its answer, not in passing."""
    place = places[-1]
    before, end = _skip_articles_and_quotes(units, place)
    if not all(map(_is_text, places)):
        return _ends_text(units, end) or _has_no_doubt(units, places)
    if not _has_no_doubt(units, places) or _describes_label(units, before):
        return False
    is_over = units.words[end] in _SETTING_OFF
    if units.words[before] in SENTENCE_ENDS:
        return is_over or bool(units.roles[end] & BE)
    return is_over and (bool(units.roles[before] & (BE | YES)) or units.words[before] in COLONS)


def _has_no_doubt(units: Units, places: Sequence[Statement]) -> bool:
    """Say whether a reply denies and doubts nothing, apart from the texts of options."""
    texts = {place.begin for place in places}
    return not any(roles & _DOUBT and at not in texts for at, roles in enumerate(units.roles))


# Everything that a text states or excludes.

_ENDINGS = TRAILING_MARKS | {BREAK}
_POINTING = COLONS | ARROWS
#: So many items are a list of the options.
_LISTED = 3
#: How far before and after a cue the choice may stand that it states.
_BACK = 4
_FAR = 2 * REACH
#: Words that may also state something that is not a choice: `the answer is E`.
_NOUNS = ANSWER | OPTION | RIGHT | PICK | THINK


def gather(units: Units, layout: LineLayout) -> Findings:
    """Return everything that the text states or excludes."""
    findings = Findings()
    anchors = sorted({*units.named, *units.options})
    anchors.append(units.size + _FAR)
    for at in units.marked:
        if units.roles[at] & CUES:
            # Most cues have no choice near them.
            nearest = anchors[bisect_left(anchors, at - _BACK)]
            if nearest < at + _FAR or units.roles[at] & _NOUNS:
                read_cue(units, at, findings)
        if units.labels[at] is not None:
            read_subject(units, at, findings)
    if not MARKUP.isdisjoint(units.known):
        for at, word in enumerate(units.words):
            if word in MARKUP:
                read_markup(units, at, findings)
    _read_last(units, findings)
    for items in layout.lists:
        findings.statements = _drop_listed(units, items, findings.statements)
    read_lines(units, layout, findings)
    return findings


def _drop_listed(
    units: Units, items: Sequence[Line], statements: Sequence[Statement]
) -> list[Statement]:
    """Return the statements without those that lead into a list of the options: `Options: A. x`.

    A cue that leads to some of the options states several.
    """
    kept = []
    for statement in statements:
        is_introduced = statement.begin < items[0].begin < statement.end <= items[0].label_end
        if is_introduced and len(items) >= min(_LISTED, len(units.choices.choices)):
            continue
        if is_introduced:
            statement.choices = tuple(item.choices[0] for item in items)
        kept.append(statement)
    return kept


# One decision from everything that a text states.


def decide(units: Units, layout: LineLayout) -> Decision:
    """Return the answer that the text states."""
    findings = gather(units, layout)
    statements = sorted(findings.statements, key=lambda statement: (statement.begin, statement.end))
    if statements:
        statements = _drop_corrected(units, statements)
        statements = _drop_steps(units, statements)
        decision = _combine(units, _list_strongest(statements))
        return _raise_doubt(units, decision, findings)
    choice = _eliminate(units, findings)
    if choice is not None:
        places = findings.excluded.values()
        return Decision(choice, None, "elimination", min(places), max(places) + 1)
    text = _find_mentioned_answer(units, findings)
    if text is None:
        return _explain_missing_answer(units, findings)
    decision = Decision(text.choices[0], None, text.part, text.begin, text.end)
    if text.clashes:
        decision = replace(decision, reason=CLASH, doubt="other_text")
    return _raise_doubt(units, decision, findings)


def _list_strongest(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements of the strongest weight.

    A list that calls one option right and all others wrong says as much as a final answer.
    """
    weight = min(statement.weight for statement in statements)
    right = [
        statement
        for statement in statements
        if statement.part == "verdict_list" and statement.weight is not weight
    ]
    strongest = [statement for statement in statements if statement.weight is weight]
    return [*right, *strongest] if len(right) == 1 else strongest


def _drop_corrected(units: Units, statements: list[Statement]) -> list[Statement]:
    """Return the statements after the last correction that has some after it."""
    for at in reversed(_list_corrections(units)):
        after = [statement for statement in statements if statement.end > at + 1]
        if after:
            return after
    return statements


def _drop_steps(units: Units, statements: list[Statement]) -> list[Statement]:
    """Return the statements without the steps of a longer argument that ends with a statement."""
    last = statements[-1]
    if units.size <= _MOST_ASSERTED or not last.choices or not _ends_text(units, last.end):
        return statements
    end, _ = _find_sentence(units, last.begin, last.end)
    return [
        statement
        for statement in statements
        if statement.begin >= end
        or statement.begin < _FIRST_WORDS
        or statement.weight is not Weight.VERDICT
    ]


def _combine(units: Units, statements: Sequence[Statement]) -> Decision:
    """Return the decision that follows from statements of one weight.

    All must agree, unless a choice is made of several.
    """
    current = statements[0]
    is_open = False
    for statement in statements[1:]:
        if statement.end <= current.end or statement.choices == current.choices:
            continue
        is_open = is_open or not _narrows(statement, current)
        current = statement
    decision = Decision(None, None, current.part, current.begin, current.end)
    if not current.choices:
        is_declined = units.plays(current.begin, current.end, NONE)
        decision.reason = DECLINED if is_declined else "NOT_A_CHOICE"
    elif len(current.choices) > 1:
        decision.reason = SEVERAL
    else:
        decision.choice = current.choices[0]
        if is_open:
            decision.reason, decision.doubt = SEVERAL, "other_statement"
        elif current.clashes:
            decision.reason, decision.doubt = CLASH, "other_text"
    return decision


def _narrows(statement: Statement, earlier: Statement) -> bool:
    """Say whether a statement chooses among the choices of an earlier one."""
    return set(statement.choices) < set(earlier.choices)


def _list_corrections(units: Units) -> list[int]:
    """Return the positions of corrections: `wait`, `that is wrong`, and `no,` on its own."""
    corrections = []
    for at in units.marked:
        roles = units.roles[at]
        is_no = not ~roles & (WRONG | NOT) and units.words[at + 1] in {",", ":"}
        if is_no or roles & FIX:
            corrections.append(at)
    return corrections


def _eliminate(units: Units, findings: Findings) -> str | None:
    """Return the only choice that is not excluded, if all others are.

    If there are only two choices, excluding one does not make the other the answer.
    """
    left = [choice for choice in units.choices.choices if choice not in findings.excluded]
    if len(left) != 1 or len(findings.excluded) <= 1:
        return None
    return left[0]


#: A longer text that declines does so in its first or last words.
_SHORT_REPLY = 60
_FIRST_WORDS = 24


def _explain_missing_answer(units: Units, findings: Findings) -> Decision:
    """Return why a text without a statement names no choice: it declines, or states nothing.

    A choice that is named without a statement counts for those who accept weak readings.
    """
    refusal = REFUSE
    if units.size <= _FIRST_WORDS:
        refusal |= NONE
    last_words = units.size - _FIRST_WORDS
    if units.size <= _SHORT_REPLY:
        last_words = 0
    if units.plays(0, _FIRST_WORDS, refusal) or units.plays(last_words, units.size, refusal):
        return Decision(reason=DECLINED)
    choices = {str(units.labels[at]) for at in units.named if _is_mention(units, at)}
    for text in _list_option_texts(units):
        choices.update(text.choices)
    if len(choices) != 1 or not choices.isdisjoint(findings.excluded):
        return Decision(reason=NOTHING)
    return Decision(choices.pop(), NOTHING, doubt="only_named")


_WORDS = frozenset("ai")
_BRACKETS = frozenset("([\uff08\u3010")
_FORMULA = OPERATORS | EQUALS | HYPHENS | MATHEMATICS | frozenset("\u00b0\u00ba_^<>{|\u2229\u222a")


def _is_mention(units: Units, at: int) -> bool:
    """Say whether a letter that nothing states is a label, not an article or part of a formula."""
    if _is_argument(units, at):
        return False
    around = units.roles[at - 1] | units.roles[at + 1]
    is_dressed = units.words[at - 1] in _BRACKETS | BOLD
    if is_dressed or around & OPTION or at in units.text_ends:
        return read_names(units, at) is not None and not is_small(units, at)
    if not units.token(at).isupper() or _is_in_formula(units, at):
        return False
    if is_word(units, at - 1) and not units.roles[at - 1]:
        return False  # `vitamin C`
    return units.words[at] not in _WORDS or bool(around & (BE | AND | OR))


def _is_argument(units: Units, at: int) -> bool:
    """Say whether a letter is the argument of a function: `f(A)`."""
    return units.words[at - 1] == "(" and not units.gaps[at - 1] and is_word(units, at - 2)


def _is_in_formula(units: Units, at: int) -> bool:
    """Say whether a letter is part of a formula: `A + B`, `B(x)`."""
    if units.words[at + 1] == "(" and not units.gaps[at + 1]:
        return True
    return not _FORMULA.isdisjoint({units.words[at - 1], units.words[at + 1]})


# What speaks against a stated answer: one table of doubts, tried in this order.

_LAST_WORDS = 24
#: How far from an answer its quotation marks may be: after `the` and `.`.
_QUOTE = 2
#: How far before an answer the option text that leads to it may be.
_NEAR = 12
_UNSURE = _DENIAL | SAYS | IF | BUT
_SUPPORT = ANSWER | RIGHT | PICK | LEAVE | MATCH
#: Parts whose statements may be followed by a refusal to answer.
_LEANINGS = frozenset({"chosen", "conclusion", "correction"})
_FULL_STOPS = SENTENCE_ENDS - {";", "\uff1b"}
#: In an argument these may call another choice true without calling it the answer.
_LIGHT_PARTS = frozenset({"named_right", "verdict_list", "reference"})


def _raise_doubt(units: Units, decision: Decision, findings: Findings) -> Decision:
    """Return the decision with the first doubt that applies, and the reason that goes with it."""
    if decision.choice is None or decision.doubt or decision.part == "verdict_list":
        return decision
    for name, (reason, applies) in DOUBTS.items():
        if applies(units, decision, findings):
            return replace(decision, reason=reason, doubt=name)
    return decision


def _is_retracted(units: Units, decision: Decision, findings: Findings) -> bool:
    """Say whether the answer is retracted right after it, or in the last words of the text."""
    end = decision.end
    retracting_roles = UNDO
    if decision.part in _LEANINGS:
        retracting_roles |= REFUSE  # `I lean towards C, but I cannot tell`
    if units.plays(max(end, units.size - _LAST_WORDS), units.size, retracting_roles):
        return True
    fixes = [at for at in _list_corrections(units) if at >= end and is_inserted(units, at)]
    return bool(fixes) and not any(
        statement.end > fixes[-1] + 1 and statement.choices == (decision.choice,)
        for statement in findings.statements
    )


def _is_quoted(units: Units, decision: Decision, _findings: Findings) -> bool:
    """Say whether the answer is a quotation of somebody: `"It is C", said Tom`."""
    begin, end = decision.begin, decision.end
    is_opened = _has_opening_quote(units, begin)
    is_closed = not QUOTES.isdisjoint(units.words[end - 1 : end + _QUOTE])
    is_whole = begin <= _QUOTE and units.size <= end + _QUOTE
    if is_object(units) or is_whole or end == begin + 1:
        return False  # the whole text, or just the answer, may be in quotes
    if is_opened and (is_closed or units.plays(begin - 2 * _BACK, begin, SAYS | IF)):
        return True
    return is_closed and units.plays(end, end + _BACK, SAYS | IF)


def _has_opening_quote(units: Units, at: int) -> bool:
    """Say whether a quotation mark precedes the unit in its sentence."""
    quote = at - 1
    while quote > at - _BACK and units.words[quote] not in QUOTES | SENTENCE_ENDS:
        quote -= 1
    return units.words[quote] in QUOTES


def _is_denied(_units: Units, decision: Decision, findings: Findings) -> bool:
    """Say whether a later sentence denies the answer."""
    return findings.excluded.get(str(decision.choice), -1) >= decision.end


def _is_contradicted(units: Units, decision: Decision, findings: Findings) -> bool:
    """Say whether a weaker statement names another choice without a turn from it to the answer.

    What stands before the answer of a longer text may be a step of the argument.
    """
    for statement in findings.statements:
        is_own = not statement.choices or decision.choice in statement.choices
        if is_own or statement.part in _LIGHT_PARTS:
            continue
        if statement.begin >= decision.end:
            return True
        if _leads_elsewhere(units, statement, decision):
            return True
    return False


def _leads_elsewhere(units: Units, statement: Statement, decision: Decision) -> bool:
    """Say whether a short reply states another label without a turn from it to the answer."""
    named = units.labels[statement.begin : statement.end]
    is_label = not set(statement.choices).isdisjoint(named)
    if statement.weight is Weight.TENTATIVE or not is_label or units.size > _MOST_ASSERTED:
        return False
    if units.plays(statement.begin, decision.end, MAYBE | BUT):
        return False
    return not any(statement.end <= at < decision.end for at in _list_corrections(units))


def _has_rival(units: Units, decision: Decision, findings: Findings) -> bool:
    """Say whether the answer's sentence names another choice, or a later one supports another."""
    if _has_alternative(units, max(decision.end, units.size - 1), units.size):
        return True  # a text that is cut off after `or`
    if is_object(units):
        return False
    if _is_conditional(units, decision, findings):
        return True
    if decision.part == "conclusion" and _is_one_of_cases(units, decision, findings):
        return True
    for begin, end in _list_sentences(units, decision.end):
        rivals = _list_rivals(units, begin, end, decision.choice)
        if begin == decision.end:
            has_rival = any(_is_alternative(units, begin, at) for at in rivals)
        else:
            has_rival = any(_is_supported(units, at, begin, end) for at in rivals)
        if has_rival:
            return True
    return False


def _is_conditional(units: Units, decision: Decision, findings: Findings) -> bool:
    """Say whether another choice is stated under a condition: `If so, it is A; if not, B`."""
    for choice, at in findings.supposed.items():
        is_other = choice != decision.choice and at < decision.begin
        if is_other and _FULL_STOPS.isdisjoint(units.words[at : decision.begin]):
            return not units.plays(at, decision.begin, _DENIAL | SO | BUT | FIX | THINK)
    return False


def _list_rivals(units: Units, begin: int, end: int, choice: str | None) -> list[int]:
    """Return the labels of other choices mentioned between two units."""
    labels = units.named[bisect_left(units.named, begin) : bisect_left(units.named, end)]
    return [at for at in labels if units.labels[at] != choice and _is_mention(units, at)]


def _is_one_of_cases(units: Units, decision: Decision, findings: Findings) -> bool:
    """Say whether another choice comes first: `For the first it is A; for the second B`."""
    for at in _list_rivals(units, 0, decision.begin, decision.choice):
        is_said = units.roles[at - 1] & (BE | MATCH) and units.labels[at] not in findings.excluded
        if not is_said or units.words[close_label(units, at)] not in _ASSERTION_ENDS:
            continue
        is_turned = units.plays(at, decision.begin, _DENIAL | SO | BUT | FIX)
        if not is_turned and read_context(units, at) is Context.ASSERTED:
            return True
    return False


def _list_sentences(units: Units, begin: int) -> Iterator[tuple[int, int]]:
    """Yield where sentences begin and end, starting with the remainder of the one at `begin`."""
    for at in range(begin, units.size + 1):
        if units.words[at] in SENTENCE_ENDS:
            if at > begin:
                yield begin, at
            begin = at + 1


def _is_supported(units: Units, at: int, begin: int, end: int) -> bool:
    """Say whether a sentence calls a choice the answer without doubt."""
    is_said = at in units.options and bool(units.roles[at - 1] & BE)  # `It is Lyon (B).`
    is_said = is_said or units.plays(begin, end, _SUPPORT)
    return is_said and not units.plays(begin, end, _UNSURE)


def _is_alternative(units: Units, begin: int, at: int) -> bool:
    """Say whether the sentence of an answer offers a further choice: `or C`, not `because C`."""
    if units.plays(max(at - 2 * _BACK, begin), at + _BACK, _DENIAL):
        return False
    after = begin + (units.words[begin] in COMMAS)
    is_reason = units.roles[after] & (AFTER | PREP) == AFTER
    return not is_reason or _has_alternative(units, at - _BACK, at)


def _asserts_other_option(units: Units, decision: Decision, _findings: Findings) -> bool:
    """Say whether the text of another option is asserted right before the answer, or after it.

    `It is Lyon, so the answer is A`; in a short reply also `The answer is A. It is Lyon.`
    """
    if decision.choice in units.options.values():
        return False
    is_short = units.size <= _MOST_ASSERTED
    for text in _list_option_texts(units):
        is_near = is_short and text.begin > decision.end + 1
        if text.begin < decision.begin:
            is_near = _leads_on(units, text, decision.begin)
            if not is_short:
                is_near = (
                    is_near and text.begin >= _find_sentence(units, decision.begin, decision.end)[0]
                )
        if text.choices and is_near and _is_asserted(units, text):
            return True
    return False


def _leads_on(units: Units, text: Statement, end: int) -> bool:
    """Say whether an answer follows from a text, or says which option the text is."""
    if end - text.end > _NEAR:
        return False
    near = units.roles[max(text.begin - _QUOTE, 0) : end + 1]
    return any(roles & (SO | MATCH | PICK) or not ~roles & (IT | BE) for roles in near)


def _is_asserted(units: Units, text: Statement) -> bool:
    """Say whether a clause asserts this text: after a verb, or as its first words."""
    before, end = _skip_articles_and_quotes(units, text)
    is_said = before < 0 or units.roles[before] & BE or units.words[before] in EQUALS
    return bool(is_said) and units.words[end] in _SETTING_OFF


_Doubt = Callable[[Units, Decision, Findings], bool]

#: The doubts by name: the reason that a reading gives, and the test whether the doubt applies.
DOUBTS: dict[str, tuple[str, _Doubt]] = {
    "other_text": (CLASH, _asserts_other_option),
    "quoted": (NOTHING, _is_quoted),
    "taken_back": (NOTHING, _is_retracted),
    "denied": (NOTHING, _is_denied),
    "other_statement": (SEVERAL, _is_contradicted),
    "other_choice": (SEVERAL, _has_rival),
}


# The rule: a text is split into parts and questions; the first that states something decides.


def read_stated_answer(
    text: str, choices: Sequence[str], options: Sequence[str] | None = None
) -> Reading:
    """Return the answer that the text states, or the reason why it states none."""
    bare = text.strip(WHITE_SPACE)
    if not bare:
        return Reading(reason="EMPTY")
    if bare in choices:
        begin = text.index(bare)
        return Reading(bare, None, (begin, begin + len(bare)), "label_line")
    labels = read_labels(tuple(choices))
    parts = find_parts(text)
    if parts is None:
        return Reading(reason=NOTHING, part="unclosed_thought")
    options = _simplify_options(tuple(options or ()))
    # The first part that states anything decides; what follows is another turn.
    reading = Reading(reason=NOTHING)
    for begin, end in parts:
        reading = _read_part(simplify(text[begin:end]), labels, options, begin)
        if reading.reason != NOTHING:
            break
    return reading


def list_statements(
    text: str, choices: Sequence[str], options: Sequence[str] | None = None
) -> list[tuple[tuple[str, ...], tuple[int, int]]]:
    """Return every answer that the text states, in its order: the choices it names, and where.

    `read_stated_answer` decides among these. Thoughts are not read.
    """
    bare = text.strip(WHITE_SPACE)
    if bare in choices:
        begin = text.index(bare)
        return [((bare,), (begin, begin + len(bare)))]
    labels = read_labels(tuple(choices))
    options = _simplify_options(tuple(options or ()))
    passages = set()
    for begin, end in find_parts(text) or ():
        units = split_units(simplify(text[begin:end]), labels, options)
        for statement in gather(units, lay_out(units)).statements:
            first, last = units.span(statement.begin, statement.end)
            passages.add(((begin + first, begin + last), statement.choices))
    return [(names, span) for span, names in sorted(passages)]


@lru_cache(maxsize=4096)
def _simplify_options(options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(simplify, options))


def _read_part(text: str, labels: Labels, options: tuple[str, ...], offset: int) -> Reading:
    """Return what a turn states before it continues with a question of its own."""
    units = split_units(text, labels, options)
    layout = lay_out(units)
    questions = find_questions(units, layout)
    if not questions:
        return _locate(units, decide(units, layout), offset)
    begins = sorted({0, *questions})
    reading = Reading(reason=NOTHING)
    for begin, end in zip(begins, [*begins[1:], units.size], strict=True):
        first, last = units.span(begin, end)
        part = split_units(text[first:last], labels, options)
        layout = lay_out(part)
        if part.words[0] in SPEAKERS or any(is_foreign(part, items) for items in layout.lists):
            continue
        further = _locate(part, decide(part, layout), offset + first)
        if reading.choice is not None and further.choice not in {None, reading.choice}:
            return Reading(reason=SEVERAL)  # answers to several numbered questions
        if reading.reason == NOTHING:
            reading = further
        is_numbered = begin in questions and units.words[begin + 1].isdecimal()
        if reading.reason != NOTHING and not is_numbered:
            break
    return reading


def _locate(units: Units, decision: Decision, offset: int) -> Reading:
    """Return a decision as a reading, with the place of its passage in the text."""
    span = None
    if decision.end > decision.begin:
        first, last = units.span(decision.begin, decision.end)
        span = offset + first, offset + last
    if decision.doubt is None:
        return Reading(decision.choice, decision.reason, span, decision.part)
    return Reading(None, decision.reason, span, decision.part, decision.choice, decision.doubt)
