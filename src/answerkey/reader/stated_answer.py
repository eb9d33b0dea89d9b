"""The extraction rule `stated_answer`: the answer that a text states, wherever it stands."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from answerkey.reader.candidates import (
    WRAPS,
    Named,
    Scan,
    find_label,
    is_word,
    read_names,
    read_texts,
)
from answerkey.reader.characters import WHITE_SPACE, Reading
from answerkey.reader.statements import (
    CUES,
    MARKUP,
    Decision,
    Findings,
    Statement,
    Weight,
    find_region,
    find_turns,
    read_cue,
    read_markup,
    read_subject,
    read_text,
    skip_back,
)
from answerkey.reader.units import (
    AFTER,
    BE,
    BREAK,
    BULLETS,
    CLOSE,
    COLONS,
    COMMAS,
    DASHES,
    DRESS,
    FILL,
    FIX,
    HYPHENS,
    IF,
    LABEL_MARKS,
    MAYBE,
    MUTE,
    NONE,
    NOT,
    OPEN,
    OPTION,
    OWN,
    PREP,
    REFUSE,
    RIGHT,
    ROUND_CLOSE,
    SAYS,
    SO,
    STOPS,
    UNDO,
    WRONG,
    YES,
    Units,
    read_labels,
    split_units,
)

# Lines of a text: a label on a line of its own, a label that opens the text, options listed again.

#: Units that a label may stand after at the beginning of a line.
_LEAD = 8

#: In a longer text `(a)` begins the first part of an argument.
_SHORT_TEXT = 24

_LEADING_ROLES = OPTION | MAYBE | SO | OWN | FILL
_LEADING_MARKS = BULLETS | OPEN | COMMAS
_TRAILING_MARKS = STOPS | CLOSE | COMMAS
_LABELLED = LABEL_MARKS | DASHES | OPEN
_BEFORE_VERDICT = LABEL_MARKS | OPEN | STOPS | DASHES | CLOSE
_INLINE_MARKS = LABEL_MARKS - DASHES - COMMAS


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank; `names` are the labels that it begins with.

    `is_bare`: there is nothing else on it. `is_labelled`: the label is set off from the text that follows;
    `is_echo`: which is its own option's text. `is_maybe`: words before the label call it a guess.
    """

    begin: int
    end: int
    names: Named | None = None
    is_bare: bool = False
    is_labelled: bool = False
    is_echo: bool = False
    is_maybe: bool = False


def split_lines(scan: Scan) -> list[Line]:
    """Return the lines that are not blank."""
    words = scan.units.words
    breaks = [at for at, word in enumerate(words) if word == BREAK]
    begins = [0, *(at + 1 for at in breaks)]
    ends = [*breaks, len(words)]
    return [_read_line(scan, begin, end) for begin, end in zip(begins, ends, strict=True) if end > begin]


def _read_line(scan: Scan, begin: int, end: int) -> Line:
    units, plain = scan.units, Line(begin, end)
    at, lead = begin, 0
    while at < min(end, begin + _LEAD) and find_label(units, at) is None:
        if not units.roles[at] & _LEADING_ROLES and units.words[at] not in _LEADING_MARKS:
            return plain
        lead |= units.roles[at]
        at += 1
    names = read_names(scan, at)
    if names is None or names.end > end:
        return plain
    rest = range(names.end, end)
    is_bare = all(units.words[one] in _TRAILING_MARKS or units.roles[one] & OPTION for one in rest)
    is_echo = not is_bare and _is_echo(scan, names, end)
    if _is_small(units, names) and not is_echo and units.size > _SHORT_TEXT:
        return plain
    is_set_off = not is_bare and not lead & (MAYBE | SO | OWN | FILL)
    is_labelled = is_set_off and (is_echo or _is_labelled(units, names))
    return Line(begin, end, names, is_bare, is_labelled, is_echo, bool(lead & MAYBE))


def _is_small(units: Units, names: Named) -> bool:
    """Say whether the label is written small where the choices are not, as in `(a) First, …`."""
    position = find_label(units, names.begin)
    return position is not None and units.token(position).islower() and names.choices[0].isupper()


def _is_labelled(units: Units, names: Named) -> bool:
    """Say whether something sets the labels off: brackets, a mark such as `.` or `:`, or `because`."""
    at, size = names.end, units.size
    is_closed = units.words[names.begin] in OPEN or units.words[at - 1] in ROUND_CLOSE
    if (names.is_wrapped and is_closed) or len(names.choices) > 1 or at >= size:
        return True
    if units.roles[at] & AFTER or (units.gaps[at] and units.words[at] in _LABELLED):
        return True
    if units.words[at] not in LABEL_MARKS:
        return False
    is_apart = at + 1 >= size or bool(units.gaps[at + 1]) or units.words[at + 1] == BREAK
    return is_apart or (units.words[at] not in HYPHENS and _is_text(units, at + 1))


def _is_text(units: Units, at: int) -> bool:
    """Say whether text begins here: `B.Lyon`, `B:**Lyon**`; single letters and other marks are noise."""
    while at < units.size and units.words[at] in OPEN:
        at += 1
    word = units.words[at] if at < units.size else "."
    return len(word) != 1 or not word.isascii()


def _is_echo(scan: Scan, names: Named, end: int) -> bool:
    """Say whether the rest of the line is the label's own option text and nothing else."""
    units, at = scan.units, names.end
    while at < end and (units.words[at] in LABEL_MARKS or units.words[at] in OPEN):
        at += 1
    text = scan.texts.find(units, at)
    if text is None or text.choice != names.choices[0]:
        return False
    return all(units.words[one] in _TRAILING_MARKS for one in range(text.end, end))


def list_echoes(lines: Sequence[Line]) -> Iterator[int]:
    """Yield the units of lines that only repeat an option; one such line may be the answer."""
    echoes = [line for line in lines if line.is_echo]
    if len({line.names.choices for line in echoes if line.names}) > 1:
        for line in echoes:
            yield from range(line.begin, line.end)


def read_lines(scan: Scan, lines: Sequence[Line], findings: Findings) -> None:
    """Note what the lines state: bare labels, a label that opens or closes the text, verdicts in a list."""
    _read_bare(scan, lines, findings)
    labelled = [line for line in lines if line.is_labelled]
    verdicts = [_find_verdict(scan.units, line) for line in labelled]
    _read_verdicts(scan, labelled, verdicts, findings)
    if not labelled or verdicts[0] is False or _is_numeral(scan, labelled[0]):
        return
    first, last = lines[0], lines[-1]
    if first.is_labelled:
        if not _opens_list(scan, lines) and not _is_inline_list(scan.units, first):
            findings.statements.append(_state_line(first, "first_label"))
    elif last.is_labelled and len(labelled) == 1 and verdicts == [None]:
        findings.statements.append(_state_line(last, "last_label"))


def _state_line(line: Line, part: str, weight: Weight = Weight.DEFINITE) -> Statement:
    names = line.names or Named((), line.begin, line.end)
    weight = max(weight, Weight.TENTATIVE) if line.is_maybe else weight
    return Statement(names.choices, part, weight, line.begin, names.end, names.clashes)


def _read_bare(scan: Scan, lines: Sequence[Line], findings: Findings) -> None:
    bare = [
        line
        for before, line in zip([None, *lines], lines, strict=False)
        if line.is_bare and not _goes_on(scan, before, line)
    ]
    if len({line.names.choices for line in bare if line.names}) < max(3, len(scan.labels.choices)):
        findings.statements += [_state_line(line, "label_line") for line in bare]


def _goes_on(scan: Scan, before: Line | None, line: Line) -> bool:
    """Say whether a bare label only continues a list: `B. Lyon`, then `C` and the text is cut off."""
    if before is None or before.names is None or line.names is None or not before.is_labelled:
        return False
    choices = scan.labels.choices
    follows = choices.index(line.names.choices[0]) == choices.index(before.names.choices[0]) + 1
    return follows and line.begin == before.end + 1


def _read_verdicts(
    scan: Scan, labelled: Sequence[Line], verdicts: Sequence[bool | None], findings: Findings
) -> None:
    """Note the verdicts of a list, if it has one for every choice; what it excludes in any case."""
    judged = [pair for pair in zip(labelled, verdicts, strict=True) if pair[1] is not None]
    for line, is_right in judged:
        if not is_right and line.names:
            findings.exclude(line.names.choices, line.begin)
    if len({line.names.choices for line, _ in judged if line.names}) == len(scan.labels.choices):
        right = [_state_line(line, "verdict_list", Weight.VERDICT) for line, is_right in judged if is_right]
        findings.statements += right


def _find_verdict(units: Units, line: Line) -> bool | None:
    """Return whether a line of a list calls its option right or wrong; None if it says neither."""
    begin = line.names.end if line.names else line.begin
    for at in range(begin, line.end):
        roles = units.roles[at]
        if not roles & (RIGHT | WRONG | YES) or not _is_verdict(units, at, line):
            continue
        return bool(roles & (RIGHT | YES)) != _is_negated(units, begin, at) and not roles & WRONG
    return None


def _is_negated(units: Units, begin: int, at: int) -> bool:
    """Say whether the word before a verdict turns it round: `not correct`, `not **correct**`."""
    before = at - 1
    while before > begin and units.words[before] in DRESS:
        before -= 1
    roles = units.roles[before] if before >= begin else 0
    return bool(roles & NOT) and not roles & WRONG


def _is_verdict(units: Units, at: int, line: Line) -> bool:
    """Say whether a word stands where a verdict does: after a mark or a verb, before a mark or the end."""
    before = at - 1
    while before > max(line.begin, at - _LEAD) and (
        units.words[before] in DRESS or units.roles[before] & (FILL | NOT | MAYBE)
    ):
        before -= 1
    after = at + 1
    while after < min(line.end, at + _LEAD) and units.words[after] in DRESS:
        after += 1
    is_open = units.words[before] in _BEFORE_VERDICT or bool(units.roles[before] & BE)
    return is_open and (after >= line.end or not is_word(units, after) or bool(units.roles[after] & AFTER))


def _is_numeral(scan: Scan, line: Line) -> bool:
    """Say whether a label is the first Roman numeral of an enumeration."""
    return line.names is not None and line.names.choices[0].lower() == "i" and "ii" in scan.units.raw


def _opens_list(scan: Scan, lines: Sequence[Line]) -> bool:
    """Say whether the first line is the first of several that are listed: options, or numbered steps."""
    choices = scan.labels.choices
    names = [line.names.choices[0] for line in lines if line.names and line.is_labelled]
    others = set(names) - {choices[0]}
    needed = 1 if choices[0].isdecimal() else max(1, min(2, len(choices) - 1))
    return names[0] == choices[0] and len(others) >= needed


def _is_inline_list(units: Units, line: Line) -> bool:
    """Say whether other labels follow on the line, marked as the first is: `A) Paris B) Lyon`."""
    names = line.names or Named((), line.begin, line.end)
    first = next(at for at in range(names.begin, line.end) if units.labels[at] is not None)
    mark = units.words[first + 1]  # a label alone on its line is bare, not labelled
    return mark in _INLINE_MARKS and any(
        units.labels[at] not in {None, *names.choices}
        and units.words[at + 1] == mark
        and not units.gaps[at + 1]
        for at in range(names.end + 1, line.end - 1)
    )


# Answers without a label: a line that is one option's text, or a short assertion of it and of no other.

#: A longer text argues; an option's text in it need not be its answer.
MOST_ASSERTED = 60

#: So short a text may go on with `No, it is not.`
_LONGEST_DENIAL = 10

_DOUBT = WRONG | IF | SAYS | REFUSE | NONE
_BEFORE_TEXT = OPEN | BULLETS
_SENTENCE_ENDS = STOPS | {BREAK}
_CLAUSE_ENDS = _SENTENCE_ENDS | COMMAS
_SETTING_OFF = _CLAUSE_ENDS | COLONS | DASHES


def read_text_lines(scan: Scan, lines: Sequence[Line], findings: Findings) -> None:
    """Note a first or last line that is an option's full text and nothing else.

    Several such lines are a list, and a number alone may be any step of a calculation.
    """
    if not scan.texts.options:
        return
    found = [
        (line, one) for line in lines if not line.names and (one := _read_text_line(scan, line)) is not None
    ]
    if len({one.choices for _, one in found}) != 1:
        return
    for line, one in found:
        words = scan.units.words[one.begin : one.end]
        is_text = scan.units.size <= MOST_ASSERTED or any(len(word) > 1 and word.isalpha() for word in words)
        if is_text and (line is lines[0] or line is lines[-1]):
            findings.statements.append(one)


def _read_text_line(scan: Scan, line: Line) -> Statement | None:
    units, at = scan.units, line.begin
    while at < line.end and units.words[at] in _BEFORE_TEXT:
        at += 1
    text = scan.texts.find(units, at) if at < line.end else None
    if text is None or text.choice is None or text.end > line.end:
        return None
    found = read_text(scan, text.choice, text.end)
    if any(word not in _TRAILING_MARKS for word in units.words[found.end : line.end]):
        return None
    return Statement(found.choices, "option_text", Weight.TENTATIVE, at, found.end, found.clashes)


def read_assertion(scan: Scan) -> Decision | None:
    """Return the only option whose text a short completion asserts."""
    units = scan.units
    if not scan.texts.options or units.size > MOST_ASSERTED:
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
        return begin == 0 and units.size <= _LONGEST_DENIAL and is_set_off
    if before < 0 or units.words[before] in _SENTENCE_ENDS:
        return is_set_off or bool(units.roles[end] & BE)
    is_said = units.words[before] in COLONS or bool(units.roles[before] & BE)
    return is_said and (end >= units.size or units.words[end] in _CLAUSE_ENDS)


# One decision from everything that a text states.

NOTHING = "NOTHING_STATED"

#: In a longer text what is excluded may be part of an argument.
_MOST_ELIMINATED = 160

_BACK = 4
_ARTICLES = frozenset("aiAI")

#: An answer is taken back in the last words of a text, if nothing comes after them.
_LAST_WORDS = 24


def decide(scan: Scan) -> Decision:
    """Return the answer that the text states."""
    findings = gather(scan)
    statements = _drop_undone(scan, sorted(findings.statements, key=lambda one: (one.begin, one.end)))
    for weight in Weight:
        group = [one for one in statements if one.weight is weight]
        if group:
            return _combine(scan, group)
    return _eliminate(scan, findings) or read_assertion(scan) or Decision(reason=NOTHING)


def _drop_undone(scan: Scan, statements: list[Statement]) -> list[Statement]:
    """Return the statements after the last one that is taken back, if there are any."""
    undone = [at for at, roles in enumerate(scan.units.roles) if roles & UNDO] if len(statements) > 1 else []
    for at in reversed(undone):
        after = [one for one in statements if one.begin >= at]
        if after:
            return after
    return statements


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


def _combine(scan: Scan, group: list[Statement]) -> Decision:
    """Return what statements of one weight come to: all must agree, unless one corrects those before it."""
    current, is_open = group[0], False
    fixes = [] if len(group) == 1 else [at for at, roles in enumerate(scan.units.roles) if roles & FIX]
    for one in group[1:]:
        if one.end <= current.end or one.choices == current.choices:
            continue
        fix = bisect_left(fixes, current.end)
        is_correction = fix < len(fixes) and fixes[fix] < one.end
        is_choice = not is_open and set(one.choices) < set(current.choices) and bool(one.choices)
        is_open = not is_correction and not is_choice
        current = one
    place = (current.part, current.begin, current.end)
    if is_open or len(current.choices) > 1:
        return Decision(None, "SEVERAL_CHOICES", *place)
    if not current.choices:
        return Decision(None, "NOT_A_CHOICE", *place)
    if current.clashes:
        return Decision(None, "CONTRADICTS_ITSELF", *place)
    if _is_taken_back(scan.units, current):
        return Decision(None, NOTHING, *place)
    return Decision(current.choices[0], None, *place)


def _is_taken_back(units: Units, stated: Statement) -> bool:
    """Say whether the last words of a text, or those right after the answer, take it back."""
    end = stated.end
    if any(roles & UNDO for roles in units.roles[max(end, units.size - _LAST_WORDS) :]):
        return True
    sentences, has_fix = 0, False
    for at in range(end, min(end + _LAST_WORDS, units.size)):
        roles = units.roles[at]
        if roles & MUTE and sentences <= 1:
            return at + 1 >= units.size or not units.roles[at + 1] & (AFTER | PREP)
        has_fix = has_fix or bool(roles & FIX)
        label = units.labels[at]
        if label is not None and units.token(at) not in _ARTICLES:
            is_denied = bool(units.roles[at - 1] & NOT)
            if is_denied if label in stated.choices else has_fix and not is_denied:
                return not any(one & (WRONG | NOT | BE) for one in units.roles[at + 1 : at + _BACK])
        sentences += units.words[at] in STOPS
    return False


def _eliminate(scan: Scan, findings: Findings) -> Decision | None:
    """Return the only choice that is not excluded, if all others are."""
    left = [choice for choice in scan.labels.choices if choice not in findings.excluded]
    if len(left) != 1 or not findings.excluded or scan.units.size > _MOST_ELIMINATED:
        return None
    places = findings.excluded.values()
    return Decision(left[0], None, "elimination", min(places), max(places) + 1)


# The extraction rule `stated_answer`: the answer that a text states, wherever it stands.


def read_stated_answer(text: str, choices: Sequence[str], options: Sequence[str] | None = None) -> Reading:
    """Return the answer that the text states, or the reason why it states none."""
    if not text.strip(WHITE_SPACE):
        return Reading(reason="EMPTY")
    labels = read_labels(tuple(choices))
    texts = read_texts(options, labels)
    units = split_units(text, labels)
    region = find_region(units)
    if region is None:
        return Reading(reason=NOTHING, part="unclosed_thought")
    turns = [at for at in find_turns(units) if region[0] <= at < region[1]]
    is_whole = not turns and region == (0, units.size)
    begins = sorted({region[0], *turns})
    reading = Reading(reason=NOTHING)
    # What the first turn states that states anything; what follows is another question.
    for begin, end in zip(begins, [*begins[1:], region[1]], strict=True):
        if end <= begin:
            continue
        offset, part = 0, units
        if not is_whole:
            offset = units.start(begin)
            part = split_units(text[offset : units.ends[end - 1]], labels)
        found = decide(Scan(part, labels, texts))
        span = None
        if found.end > found.begin:
            span = offset + part.start(found.begin), offset + part.ends[found.end - 1]
        reading = Reading(found.choice, found.reason, span, found.part)
        if reading.reason != NOTHING:
            break
    return reading
