"""The extraction rule `stated_answer`: the answer that a text states, wherever it stands."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import compress

from answerkey.reader.candidates import (
    WRAPS,
    Named,
    Scan,
    begins_well,
    find_label,
    is_end,
    is_plain,
    is_word,
    list_needed,
    read_names,
    read_texts,
)
from answerkey.reader.characters import WHITE_SPACE, Reading
from answerkey.reader.markup import (
    BOXES,
    CHECKED,
    MARKUP,
    UNCHECKED,
    find_parts,
    read_markup,
    simplify,
)
from answerkey.reader.statements import (
    Context,
    Decision,
    Findings,
    Statement,
    Weight,
    is_inserted,
    read_context,
    read_cue,
    read_subject,
    read_text,
    skip_back,
)
from answerkey.reader.units import (
    AFTER,
    AND,
    ANSWER,
    ARROWS,
    BE,
    BREAK,
    BULLETS,
    BUT,
    CLOSE,
    COLONS,
    COMMAS,
    CUES,
    DASHES,
    DRESS,
    DROP,
    EQUALS,
    FILL,
    FIX,
    HYPHENS,
    IF,
    IT,
    LABEL_MARKS,
    LEAVE,
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
    QUESTION,
    QUESTION_MARKS,
    QUOTES,
    REFUSE,
    RIGHT,
    ROUND_CLOSE,
    ROUND_OPEN,
    SAYS,
    SO,
    STOPS,
    THAT,
    UNDO,
    WRONG,
    YES,
    Labels,
    Units,
    load_lexicon,
    normalize_word,
    read_labels,
    split_tokens,
    split_units,
)

# Lines of a text: a label on a line of its own, a label that opens the text, options listed again.

#: Units that a label may stand after at the beginning of a line.
_LEAD = 8

#: In a longer text `(a)` begins the first part of an argument.
_SHORT_TEXT = 24

#: A longer item of a list says more than its option's text.
_SHORT_ITEM = 10

#: So many items are a list, and so many are a list of the options, unless there are fewer options.
_FEWEST = 2
_LISTED = 3

#: Pictures: signs and emojis.
_FIRST_PICTURE = "\u2600"

_LEADING_ROLES = OPTION | MAYBE | SO | OWN | FILL
_LEADING_MARKS = BULLETS | OPEN | COMMAS | {"|"}
_TRAILING_MARKS = STOPS | CLOSE | COMMAS | {"|"}
_LABELLED = LABEL_MARKS | DASHES | OPEN
_POINTERS = ARROWS | {"<", "\u2190", "\u21d0", "\u2b05", "\u2b05\ufe0f", "\U0001f448"}
_BEFORE_VERDICT = LABEL_MARKS | OPEN | STOPS | DASHES | CLOSE | EQUALS | _POINTERS | {"|"}
_BEFORE_ANSWER = _POINTERS | ROUND_OPEN | DASHES | {"|"}
_INLINE_MARKS = (LABEL_MARKS - DASHES - COMMAS) | EQUALS | ARROWS | {"|", "\u3001"}
_VERDICT_MARKS = EQUALS | ARROWS | {"|"}
_VERDICTS = RIGHT | WRONG | YES
_LIST_MARKS = frozenset(".)\uff0e\uff09\u3001")
_BOLD = frozenset({"**", "__", "***"})
_STRUCK = "~~"
_TICK = "\u2705"
#: `A: T`, `B: F`; in Romance languages `V`.
_INITIALS = frozenset("tfv")
_NEGATIVE_SIGNS = frozenset(
    {
        UNCHECKED,
        *"\u2717\u2718\u274c\u2716\u2612\u00d7",
        "\U0001f5d9",
        "\u274c\ufe0f",
        "\u2716\ufe0f",
    }
)


@dataclass(slots=True)
class Line:
    """A line that is not blank, or an item of a list within one.

    `names` are the labels that it begins with. `is_bare`: there is nothing else on it.
    `is_labelled`: the label is set off from the text that follows; `is_echo`: which is its own
    option's text. `is_maybe`: words before the label call it a guess. `sign`: a tick, a cross or a
    check box before the label. `is_inline`: an item, not the whole line.
    """

    begin: int
    end: int
    names: Named | None = None
    is_bare: bool = False
    is_labelled: bool = False
    is_echo: bool = False
    is_maybe: bool = False
    sign: str = ""
    is_inline: bool = False
    #: What `judge` said of it, if it was asked before.
    verdict: tuple[bool | None, ...] = field(default=(), compare=False)


def split_lines(scan: Scan) -> list[Line]:
    """Return the lines that are not blank."""
    units, begin = scan.units, 0
    lines = []
    for end in (*units.breaks, units.size):
        if end > begin:
            lines.append(_read_line(scan, begin, end))
        begin = end + 1
    return _drop_answer_prefix(scan, lines) if "q" in units.known else lines


def _drop_answer_prefix(scan: Scan, lines: list[Line]) -> list[Line]:
    """Return the lines, of which one begins after an `A:` that only answers a `Q:` before it."""
    words = scan.units.words
    marks = {
        words[line.begin + 1]
        for line in lines
        if words[line.begin] == "q" and line.end > line.begin + 1
    }
    labelled = [line for line in lines if line.is_labelled]
    if (
        len(labelled) != 1
        or words[labelled[0].begin] != "a"
        or words[labelled[0].begin + 1] not in marks
    ):
        return lines
    begin, end = labelled[0].begin + 2, labelled[0].end
    answer = [_read_line(scan, begin, end)] if end > begin else []
    return sorted(
        [line for line in lines if line is not labelled[0]] + answer, key=lambda line: line.begin
    )


def _read_line(scan: Scan, begin: int, end: int) -> Line:
    units, line = scan.units, Line(begin, end)
    words, roles, named = units.words, units.roles, units.named
    if not roles[begin] and units.labels[begin] is None and words[begin].isalpha():
        return line
    first = bisect_left(named, begin)
    if first == len(named) or named[first] >= min(end, begin + _LEAD + WRAPS):
        return line
    at, lead, sign = begin, 0, ""
    leading = _LEADING_ROLES | ANSWER if words[begin] == "|" else _LEADING_ROLES
    limit = min(end, begin + _LEAD)
    while at < limit and find_label(units, at) is None:
        if _is_sign(units, at):
            sign = words[at]
        elif not roles[at] & leading and words[at] not in _LEADING_MARKS:
            return line
        lead |= roles[at]
        at += 1
    names = read_names(scan, at)
    if names is None or names.end > end:
        return line
    if names.end < end and units.roles[names.end] & OPTION and not units.gaps[names.end]:
        names = Named(
            names.choices, names.begin, names.end + 1, names.is_wrapped, names.clashes
        )  # `A项`
    if "\\" in units.text and not BOXES.isdisjoint(units.words[begin : names.end]):
        return line
    if len(names.choices) > 1 and _read_text_line(scan, line) is not None:
        return line
    after = units.roles[names.end : min(names.end + 3, end)] if units.played & NOT_AFTER else ()
    if any(roles & NOT_AFTER for roles in after):
        return line
    is_cell = (
        "|" in units.words[begin:at] and not lead & (OPTION | ANSWER) and end - begin < units.size
    )
    is_echo = _is_echo(scan, names, end)
    is_bare = (
        not is_echo and not is_cell and all(_may_trail(units, one) for one in range(names.end, end))
    )
    if _is_small(units, names) and not is_echo and units.size > _SHORT_TEXT:
        return line
    is_set_off = not is_bare and not lead & (MAYBE | SO | OWN | FILL)
    line.names, line.is_bare, line.is_echo = names, is_bare, is_echo
    line.is_labelled = is_set_off and (is_echo or _is_labelled(units, names))
    line.is_maybe, line.sign = bool(lead & MAYBE), sign
    return line


def _is_sign(units: Units, at: int) -> bool:
    """Say whether a unit is a tick, a cross or a check box."""
    word = units.words[at]
    if not units.roles[at] & (YES | WRONG):
        return word == UNCHECKED
    return word != "" and not word[0].isalnum()


def _may_trail(units: Units, at: int) -> bool:
    """Say whether a unit may follow a label that stands alone: a full stop, `option`, an emoji."""
    word, roles = units.words[at], units.roles[at]
    if word in _TRAILING_MARKS or roles & OPTION:
        return True
    return word[:1] >= _FIRST_PICTURE and not roles and not word[:1].isalnum()


def _is_small(units: Units, names: Named) -> bool:
    """Say whether the label is written small where the choices are not, as in `(a) First, …`."""
    position = find_label(units, names.begin)
    return position is not None and units.token(position).islower() and names.choices[0].isupper()


def _is_labelled(units: Units, names: Named) -> bool:
    """Say whether something sets the labels off: brackets, a mark such as `.` or `:`, or
    `because`.
    """
    at, size = names.end, units.size
    is_closed = (
        units.words[names.begin] in OPEN and units.words[at - 1] not in QUOTES
    ) or units.words[at - 1] in ROUND_CLOSE
    if at < size and units.words[at] == "|":  # a row of a table
        return False
    if (names.is_wrapped and is_closed) or len(names.choices) > 1 or at >= size:
        return True
    if units.roles[at] & AFTER or (units.gaps[at] and units.words[at] in _LABELLED):
        return True
    if units.roles[at] & BE and not units.gaps[at]:  # `Bです。`
        return is_end(units, at + 1) or units.words[at + 1] in STOPS
    if units.words[at] not in LABEL_MARKS:
        return False
    is_apart = at + 1 >= size or bool(units.gaps[at + 1]) or units.words[at + 1] == BREAK
    return is_apart or (units.words[at] not in HYPHENS and _is_text(units, at + 1))


def _is_text(units: Units, at: int) -> bool:
    """Say whether text begins here: `B.Lyon`, `B:**Lyon**`; single letters and other marks are
    noise.
    """
    while at < units.size and units.words[at] in OPEN:
        at += 1
    word = units.words[at] if at < units.size else "."
    return len(word) != 1 or not word.isascii()


def _is_echo(scan: Scan, names: Named, end: int) -> bool:
    """Say whether the rest of the line is the label's own option text and nothing else."""
    units, at = scan.units, names.end
    if not scan.texts.spelled:
        return False
    text = scan.texts.find(units, at)
    while text is None and at < end and (units.words[at] in LABEL_MARKS or units.words[at] in OPEN):
        at += 1
        text = scan.texts.find(units, at)
    if text is None or text.choice != names.choices[0]:
        return False
    return all(units.words[one] in _TRAILING_MARKS for one in range(text.end, end))


def list_echoes(scan: Scan, lines: Sequence[Line]) -> Iterator[int]:
    """Yield the units of lines that only repeat an option; one such line may be the answer.

    The text of the first option may stand before the others without its label, which ended the
    prompt.
    """
    echoes = [line for line in lines if line.is_echo]
    if len({line.names.choices for line in echoes if line.names}) > 1:
        if lines[1] is echoes[0] and scan.texts.is_own(
            scan.units, lines[0].begin, scan.labels.choices[0]
        ):
            echoes.append(lines[0])
        for line in echoes:
            yield from range(line.begin, line.end)


# Lists of options: on lines of their own, or one after the other on a line.


def find_lists(scan: Scan, lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lists in a text, each with its items.

    An item names one choice, later ones later choices.
    """
    positions = scan.units.named
    choices = scan.labels.choices
    if (
        len(positions) < _FEWEST
        or len(named := {scan.units.labels[at] for at in positions}) < _FEWEST
    ):
        return []
    found = list(_find_vertical(scan, lines)) if len(lines) >= _FEWEST else []
    if named.issuperset(choices[:_LISTED]):
        found += _find_inline(scan, lines, positions)
    return found


def _find_vertical(scan: Scan, lines: Sequence[Line]) -> Iterator[list[Line]]:
    choices = scan.labels.choices
    items: list[Line] = []
    last = -1
    for line in lines:
        is_item = line.names is not None and len(line.names.choices) == 1
        is_item = is_item and (line.is_labelled or line.is_bare or _has_mark(scan.units, line))
        place = choices.index(line.names.choices[0]) if line.names and is_item else -1
        if place <= last:
            if len(items) >= _FEWEST:
                yield items
            items = []
        if is_item:
            items.append(line)
        last = place
    if len(items) >= _FEWEST:
        yield items


def _has_mark(units: Units, line: Line) -> bool:
    """Say whether the label is followed by a mark after which a verdict may stand: `A → `, `| A
    |`.
    """
    end = line.names.end if line.names else line.end
    return end < line.end and (units.words[end] in _VERDICT_MARKS or _is_sign(units, end))


def _find_inline(
    scan: Scan, lines: Sequence[Line], positions: Sequence[int]
) -> Iterator[list[Line]]:
    """Yield lists such as `(A) Paris (B) Lyon (C) Nice`, in the order of the choices."""
    units, choices = scan.units, scan.labels.choices
    needed = max(min(_LISTED, len(choices)), _FEWEST)
    for line in lines:
        here = positions[bisect_left(positions, line.begin) : bisect_left(positions, line.end)]
        if len(here) < needed:
            continue
        items: list[int] = []
        mark = ""
        for at in here:
            if len(items) < len(choices) and units.labels[at] == choices[len(items)]:
                found = _find_mark(units, at)
                if found and found == (mark or found) and _says_something(units, items, at):
                    items.append(at)
                    mark = found
        if len(items) >= needed:
            yield [
                Line(
                    begin,
                    end,
                    names,
                    is_labelled=True,
                    is_echo=_is_echo(scan, names, end),
                    is_inline=True,
                )
                for begin, end in zip(items, [*items[1:], line.end], strict=True)
                for names in [Named((str(units.labels[begin]),), begin, begin + 1)]
            ]


def _says_something(units: Units, items: Sequence[int], at: int) -> bool:
    """Say whether there is a text between a label and the item before it: `(A), (B) and (C)` is no
    list.
    """
    last = items[-1] + 1 if items else at
    between = range(last, min(last + _SHORT_ITEM, at))
    return last == at or any(
        (is_word(units, one) or _is_sign(units, one)) and not units.roles[one] & (AND | OR)
        for one in between
    )


def _find_mark(units: Units, at: int) -> str:
    """Return the mark that sets a label off as the item of a list; nothing if there is none."""
    at += 1
    while (
        at < units.size
        and not units.gaps[at]
        and (units.words[at] in DRESS or units.roles[at] & OPTION)
    ):
        at += 1  # `A项:`
    if at >= units.size:
        return ""
    if _is_sign(units, at):
        return UNCHECKED
    word = units.words[at]
    if word in _INLINE_MARKS or (word in DASHES and units.gaps[at]):
        return word
    if units.roles[at] & _VERDICTS and not units.token(at).isascii():
        return UNCHECKED
    is_judged = at + 1 < units.size and bool(units.roles[at + 1] & _VERDICTS)
    return word if is_judged and (word in DASHES or word in ROUND_OPEN) else ""


def is_question(scan: Scan, lines: Sequence[Line], items: Sequence[Line]) -> int | None:
    """Return where a question with these options begins.

    None if they are no options of a question.
    """
    units, choices = scan.units, scan.labels.choices
    first = items[0].names
    if first is None or first.choices[0] != choices[0] or len(items) < min(_LISTED, len(choices)):
        return None
    if any(judge(scan, item) is not None for item in items):
        return None
    at = bisect_right(lines, items[0].begin, key=lambda line: line.begin) - 1
    while at >= 0:
        line = lines[at]
        before = range(line.begin, min(line.end, items[0].begin))
        if not QUESTION_MARKS.isdisjoint(units.words[one] for one in before):
            return line.begin
        word = units.words[line.begin]
        if line.end <= items[0].begin and word.isdecimal() and units.words[line.begin + 1] != BREAK:
            return line.begin
        if (
            line.end <= items[0].begin
            and units.words[line.begin + 1].isdecimal()
            and line.end > line.begin + 3
        ):
            return line.begin  # a number after the word for a question, whatever that is
        # `Options:` may stand between.
        if any(is_word(units, one) and not units.roles[one] & OPTION for one in before):
            return None
        at -= 1
    return None


# What lines state: bare labels, labels that open or close the text, verdicts on every option.


def read_lines(
    scan: Scan, lines: Sequence[Line], lists: Sequence[Sequence[Line]], findings: Findings
) -> None:
    """Note what the lines state: bare labels, a label that opens or closes the text, verdicts in a
    list.
    """
    units = scan.units
    if CHECKED in units.known or _TICK in units.known:
        _read_checked(scan, lines, findings)
    if not lists and not [line for line in lines if line.names]:
        return
    _read_bare(scan, lines, lists, findings)
    inline = [item for items in lists for item in items if item.is_inline]
    hosts = {bisect_right(lines, item.begin, key=lambda line: line.begin) - 1 for item in inline}
    judged = [
        line
        for place, line in enumerate(lines)
        if (line.is_labelled or line.sign or _has_mark(units, line)) and place not in hosts
    ]
    judged += inline
    labelled = [line for line in lines if line.is_labelled]
    is_alone = labelled == lines[:1]
    verdicts = [judge(scan, line, is_alone=is_alone and not line.is_inline) for line in judged]
    _read_verdicts(scan, judged, verdicts, findings)
    for items in lists:
        _read_marked(scan, items, findings)
    if (
        not labelled
        or judge(scan, labelled[0], is_alone=is_alone) is False
        or _is_numeral(scan, labelled[0])
    ):
        return
    first, last = lines[0], lines[-1]
    is_listing = first.is_labelled and (_opens_list(scan, lines) or _is_inline_list(scan, first))
    if first.is_labelled and not is_listing:
        findings.statements += _state_first(scan, lines)
    elif last.is_labelled and (_is_inline_list(scan, last) or units.words[-1] in COLONS):
        return
    elif last.is_labelled and last is not first and _is_only(scan, lists, labelled):
        findings.statements.append(_state_line(last, "last_label"))
    elif len(labelled) == 1 and not is_listing:
        before = lines[lines.index(labelled[0]) - 1]
        is_formula = not MATHEMATICS.isdisjoint(
            units.words[labelled[0].begin : labelled[0].begin + _LEAD]
        )
        is_led = units.words[before.end - 1] in COLONS and units.roles[before.end - 2] & BE
        if is_led and not is_formula:
            findings.statements.append(_state_line(labelled[0], "after_colon", Weight.VERDICT))


def _is_only(scan: Scan, lists: Sequence[Sequence[Line]], labelled: Sequence[Line]) -> bool:
    """Say whether the last label, not called wrong, is the only one but for a list of all
    options.
    """
    if judge(scan, labelled[-1]) is False:
        return False
    if len(labelled) == 1:
        return not any(item is labelled[0] for items in lists for item in items)
    full = [items for items in lists if len(items) == len(scan.labels.choices)]
    return len(full) == 1 and labelled[-1] not in full[0] and len(labelled) == len(full[0]) + 1


def _state_line(line: Line, part: str, weight: Weight = Weight.DEFINITE) -> Statement:
    names = line.names or Named((), line.begin, line.end)
    weight = max(weight, Weight.TENTATIVE) if line.is_maybe else weight
    return Statement(names.choices, part, weight, line.begin, names.end, names.clashes)


def _state_first(scan: Scan, lines: Sequence[Line]) -> list[Statement]:
    """Return what a label states that opens the text: several choices if others are listed right
    after it.

    Nothing if they are the rest of the options, of which the first stand in the prompt.
    """
    stated = _state_line(lines[0], "first_label")
    others = []
    for line in lines[1:]:
        if line.names is None or not (line.is_labelled or line.is_bare):
            break
        others.append(line)
    named = [line.names.choices for line in others if line.names]
    if not others or stated.choices in named or not all(_is_listed(scan, line) for line in others):
        return [stated]
    if (*stated.choices, *(choice for one in named for choice in one)) == scan.labels.choices[
        -len(others) - 1 :
    ]:
        return []
    choices = dict.fromkeys(choice for one in (stated.choices, *named) for choice in one)
    return [replace(stated, choices=tuple(choices), end=others[-1].end)]


def _is_listed(scan: Scan, item: Line) -> bool:
    """Say whether an item is an option and no more, and not a remark on it."""
    is_short = item.end - item.begin <= _SHORT_ITEM
    if is_short and scan.texts.options and item.names:
        is_short = not any(is_word(scan.units, at) for at in range(item.names.end, item.end))
    is_option = item.is_echo or item.is_bare or is_short or _is_cut_off(scan, item)
    return is_option and judge(scan, item) is not False


def _is_cut_off(scan: Scan, item: Line) -> bool:
    """Say whether the text ends within the option of its last line."""
    units, names = scan.units, item.names
    if names is None or item.end < units.size:
        return False
    begin = names.end + (names.end < item.end and units.words[names.end] in LABEL_MARKS)
    options = dict(zip(scan.labels.choices, scan.texts.options, strict=False))
    text = units.text[units.end(begin - 1) :].strip().lower()
    return options.get(names.choices[0], "").lower().startswith(text)


def _read_bare(
    scan: Scan, lines: Sequence[Line], lists: Sequence[Sequence[Line]], findings: Findings
) -> None:
    listed = {
        item.begin
        for items in lists
        if len(items) >= _LISTED and not all(item.is_bare for item in items)
        for item in items
        if not item.sign
    }
    bare = [
        line
        for before, line in zip([None, *lines], lines, strict=False)
        if line.is_bare
        and line.begin not in listed
        and not _goes_on(scan, before, line)
        and judge(scan, line) is not False
    ]
    if len({line.names.choices for line in bare if line.names}) < max(3, len(scan.labels.choices)):
        findings.statements += [_state_line(line, "label_line") for line in bare]


def _goes_on(scan: Scan, before: Line | None, line: Line) -> bool:
    """Say whether a bare label only continues a list: `B. Lyon`, then `C` and the text is cut
    off.
    """
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
        if not is_right and line.names and line.sign != UNCHECKED:
            findings.exclude(line.names.choices, line.begin)
    if len({line.names.choices for line, _ in judged if line.names}) == len(scan.labels.choices):
        right = [
            _state_line(line, "verdict_list", Weight.VERDICT)
            for line, is_right in judged
            if is_right
        ]
        findings.statements += right


def _read_marked(scan: Scan, items: Sequence[Line], findings: Findings) -> None:
    """Note the one option that is marked in a list of them: by a tick, an arrow, a remark or bold
    type.
    """
    units = scan.units
    if len(items) < min(_LISTED, len(scan.labels.choices)):
        return
    verdicts = [judge(scan, item) for item in items]
    marked = [item for item, verdict in zip(items, verdicts, strict=True) if verdict]
    is_full = len(items) == len(scan.labels.choices)
    if len(marked) > 1 or (False in verdicts and not (marked and is_full)):
        return
    marked = marked or [item for item in items if units.words[item.begin] in ARROWS]
    marked = marked or [
        item
        for item in items
        if units.words[item.begin] in _BOLD and units.words[item.end - 1] in _BOLD
    ]
    others = [
        item
        for item, verdict in zip(items, verdicts, strict=True)
        if verdict is None and item not in marked
    ]
    if len(marked) == 1 and all(_is_listed(scan, item) for item in others):
        findings.statements.append(_state_line(marked[0], "marked_option", Weight.VERDICT))


def _read_checked(scan: Scan, lines: Sequence[Line], findings: Findings) -> None:
    """Note the one option whose text stands after a tick."""
    units, found = scan.units, []
    for line in lines:
        at = line.begin
        while at < line.end and units.words[at] in BULLETS:
            at += 1
        if line.names is None and at < line.end and units.words[at] in {CHECKED, _TICK}:
            text = scan.texts.find(units, at + 1)
            if (
                text is not None
                and text.choice
                and all(_may_trail(units, one) for one in range(text.end, line.end))
            ):
                found.append(
                    Statement((text.choice,), "marked_option", Weight.VERDICT, at, text.end)
                )
    if len(found) == 1:
        findings.statements += found


def judge(scan: Scan, line: Line, *, is_alone: bool = False) -> bool | None:
    """Return whether a line of a list calls its option right or wrong; None if it says neither.

    The text of an option is no verdict on it: `B. False`. `is_alone`: there is no list.
    """
    if is_alone:
        return _judge(scan, line, is_alone=True)
    line.verdict = line.verdict or (_judge(scan, line, is_alone=False),)
    return line.verdict[0]


def _judge(scan: Scan, line: Line, *, is_alone: bool) -> bool | None:
    if line.sign:
        return line.sign not in _NEGATIVE_SIGNS
    units, names = scan.units, line.names or Named((), line.begin, line.begin)
    if _STRUCK in units.words[line.begin : names.end]:
        return False
    begin = at = names.end
    while at < line.end and units.words[at] in _LABELLED:
        at += 1
    text = scan.texts.find(units, at) if at < line.end else None
    if text is not None:
        begin = text.end
    elif is_alone and not scan.texts.options and units.words[at - 1] in _LIST_MARKS:
        # `B. Wrong, not wrong`: words for right and wrong, and nothing else, are a text, too.
        rest = range(at, line.end)
        if all(units.roles[one] & (_VERDICTS | NOT) or not is_word(units, one) for one in rest):
            return None
    if at + 1 == line.end and units.labels[at] is None and units.words[at] in _INITIALS:
        return units.words[at] != "f"
    for at in range(begin, line.end):
        roles = units.roles[at]
        if units.labels[at] not in {None, *names.choices} and not units.token(at).islower():
            break
        if roles & _VERDICTS and _is_verdict(units, at, line):
            return (
                bool(roles & (RIGHT | YES)) != _is_negated(units, begin, at) and not roles & WRONG
            )
        if roles & ANSWER and _is_remark(units, at, line):
            return True
    return None


def _is_remark(units: Units, at: int, line: Line) -> bool:
    """Say whether `answer` is all that is said of an option: `<-- answer`, `(answer)`, `|
    **answer** |`.
    """
    before, after = at - 1, at + 1
    while before > line.begin and units.words[before] in DRESS:
        before -= 1
    while after < line.end and units.words[after] in DRESS:
        after += 1
    return units.words[before] in _BEFORE_ANSWER and (
        after >= line.end or not is_word(units, after)
    )


def _is_negated(units: Units, begin: int, at: int) -> bool:
    """Say whether the word before a verdict turns it round: `not correct`, `not **correct**`."""
    before = at - 1
    while before > begin and units.words[before] in DRESS:
        before -= 1
    roles = units.roles[before] if before >= begin else 0
    return bool(roles & NOT) and not roles & WRONG


def _is_verdict(units: Units, at: int, line: Line) -> bool:
    """Say whether a word stands where a verdict does: after a mark or a verb, before a mark or the
    end.
    """
    before = at - 1
    while before > max(line.begin, at - _LEAD) and (
        units.words[before] in DRESS or units.roles[before] & (FILL | NOT | MAYBE)
    ):
        before -= 1
    after = at + 1
    while after < min(line.end, at + _LEAD) and (
        units.words[after] in DRESS or units.roles[after] & (ANSWER | OPTION)
    ):
        after += 1
    if after >= line.end and _is_sign(units, at):
        return True
    is_open = units.words[before] in _BEFORE_VERDICT or bool(units.roles[before] & BE)
    is_open = is_open or (before == line.begin and line.is_inline)
    return is_open and (
        after >= line.end or not is_word(units, after) or bool(units.roles[after] & AFTER)
    )


def _is_numeral(scan: Scan, line: Line) -> bool:
    """Say whether a label is the first Roman numeral of an enumeration."""
    return (
        line.names is not None and line.names.choices[0].lower() == "i" and "ii" in scan.units.known
    )


def _opens_list(scan: Scan, lines: Sequence[Line]) -> bool:
    """Say whether the first line is the first of several that are listed: options, or numbered
    steps.
    """
    choices = scan.labels.choices
    names = [line.names.choices[0] for line in lines if line.names and line.is_labelled]
    others = set(names) - {choices[0]}
    needed = 1 if choices[0].isdecimal() else max(1, min(2, len(choices) - 1))
    return names[0] == choices[0] and len(others) >= needed


def _is_inline_list(scan: Scan, line: Line) -> bool:
    """Say whether other labels follow on the line, marked as the first is: `A) Paris B) Lyon`."""
    units, names = scan.units, line.names or Named((), line.begin, line.end)
    first = next(at for at in range(names.begin, line.end) if units.labels[at] is not None)
    mark = _find_mark(units, first)
    if not mark:
        return False
    others = sum(
        units.labels[at] not in {None, *names.choices} and _find_mark(units, at) == mark
        for at in range(names.end + 1, line.end - 1)
    )
    return others > (mark in DASHES)


# Answers without a label: a line that is one option's text, or a short assertion of it and of no
# other.

#: A longer text argues; an option's text in it need not be its answer.
MOST_ASSERTED = 60

#: In a longer text, the answer that opens it begins within so many units; and so far back a
#: sentence is read.
_LONGEST_OPENING = 8
_SENTENCE = 40

_BEFORE_COLON = 4
_BEFORE_VERB = 6

#: So short a text may go on with `No, it is not.`
_LONGEST_DENIAL = 10

_CONDITION = IF | SAYS | REFUSE | NONE
_DOUBT = WRONG | _CONDITION
_BEFORE_TEXT = OPEN | BULLETS
_SENTENCE_ENDS = STOPS | {BREAK}
_CLAUSE_ENDS = _SENTENCE_ENDS | COMMAS
_SETTING_OFF = _CLAUSE_ENDS | COLONS | DASHES
_PAUSES = COMMAS | STOPS | CLOSE
_LONGEST_SPEECH = 120
_BEFORE_SPEECH = COMMAS | COLONS
_INTERJECTIONS = 5
#: What opens the words of somebody, and what may close them.
_STRAIGHT, _KEY = '"', '":'
_SPEECH = {
    _STRAIGHT: (_STRAIGHT,),
    "'": ("'",),
    "\u2018": ("\u2019",),
    "\u00ab": ("\u00bb",),
    "\u00bb": ("\u00ab",),
    "\u201c": ("\u201d",),
    "\u201e": ("\u201c", "\u201d"),
    "\u300c": ("\u300d",),
    "\u300e": ("\u300f",),
}
_ENDINGS = _TRAILING_MARKS | {BREAK}
_POINTING = COLONS | ARROWS
#: `Let me check the next: option D.`
_PLANS = frozenset(
    {
        "let",
        "let's",
        "next",
        "check",
        "compare",
        "consider",
        "possible",
        "examine",
        "verify",
        "mistake",
    }
)
_TO_TEXT = 6
#: `i.e.`
_LATIN_INITIALS = frozenset({"i", "e"})
_BEFORE_LABEL = _PAUSES | OPEN | DASHES
_THAT_IS = FILL | OPTION | IT | MATCH | BE | OR | SO
_SAYING = COLONS | EQUALS | ARROWS | {"\u2208", "\u2248"}


def read_text_lines(scan: Scan, lines: Sequence[Line], findings: Findings) -> None:
    """Note a first or last line that is an option's full text and nothing else.

    Several such lines are a list, and a number alone may be any step of a calculation.
    """
    if len(lines) > _LISTED and not (
        _read_text_line(scan, lines[0]) or _read_text_line(scan, lines[-1])
    ):
        return
    found = [
        (line, one)
        for line in lines
        if not line.names
        and line.begin not in findings.echoed
        and (one := _read_text_line(scan, line)) is not None
    ]
    if len({one.choices for _, one in found}) != 1:
        return
    for line, one in found:
        is_text = scan.units.size <= MOST_ASSERTED or _has_words(scan.units, one)
        if is_text and (line is lines[0] or line is lines[-1]):
            findings.statements.append(one)


def _has_words(units: Units, text: Statement) -> bool:
    """Say whether a text is more than numbers, marks and single letters."""
    words = (units.words[at] or units.token(at) for at in range(text.begin, text.end))
    return any(len(one) > 1 or not one.isascii() for one in words if one[:1].isalpha())


def _read_text_line(scan: Scan, line: Line) -> Statement | None:
    units, at = scan.units, line.begin
    text = scan.texts.find(units, at)
    while text is None and at < line.end and units.words[at] in _BEFORE_TEXT:
        at += 1
        text = scan.texts.find(units, at)
    if text is None or text.choice is None or text.end > line.end:
        return None
    found = read_text(scan, text.choice, text.end)
    if any(word not in _TRAILING_MARKS for word in units.words[found.end : line.end]):
        return None
    return Statement(found.choices, "option_text", Weight.TENTATIVE, at, found.end, found.clashes)


def read_assertion(scan: Scan, echoed: Container[int] = ()) -> Decision | None:
    """Return the only option whose text a completion asserts: as its first words, as its last, or
    alone.

    The units `echoed` only repeat the options.
    """
    units = scan.units
    if not scan.texts.spelled:
        return None
    if units.played & FIX and any(roles & FIX for roles in units.roles[-_LAST_WORDS:]):
        return None
    is_short = units.size <= MOST_ASSERTED
    found = list(_find_texts(scan, 0, units.size if is_short else _LONGEST_OPENING))
    if not is_short:
        found += _find_texts(scan, units.size - MOST_ASSERTED, units.size)
    found = [one for one in found if one.begin not in echoed]
    clear = [one for one in found if _opens(units, one) or _concludes(units, one)]
    if not clear and is_short:
        inside = {at for one in found for at in range(one.begin, one.end)}
        around = [roles for at, roles in enumerate(units.roles) if at not in inside]
        if any(roles & _DOUBT for roles in around) or len({one.choices for one in found}) != 1:
            return None
        is_denied = any(roles & NOT for roles in around)
        clear = [one for one in found if _is_asserted(units, one, is_denied=is_denied)]
    if len({one.choices for one in clear}) != 1 or not clear[0].choices:
        return None
    last = clear[-1]
    if any(one.clashes for one in clear) or _ends_with_other(units, last):
        return Decision(None, "CONTRADICTS_ITSELF", last.part, last.begin, last.end)
    return Decision(last.choices[0], None, last.part, last.begin, last.end)


def _ends_with_other(units: Units, text: Statement) -> bool:
    """Say whether the last words name another option: `Saturn, cioè l'opzione D.`."""
    at = units.size - 1
    while at > text.end and units.words[at] in _ENDINGS:
        at -= 1
    if units.labels[at] in {None, *text.choices} or not units.roles[at - 1] & OPTION:
        return False
    between = units.roles[text.end : at]
    return 0 < len(between) <= _TO_TEXT and not any(roles & (NOT | WRONG) for roles in between)


def _find_texts(scan: Scan, begin: int, limit: int) -> Iterator[Statement]:
    """Yield the option texts, each with the label in brackets after it.

    No choice where several have it. A text that is also the label of another choice clashes.
    """
    units, labels, end = scan.units, scan.units.labels, 0
    raw, places, spelled = units.raw, units.places, scan.texts.spelled
    for at in range(begin, min(limit, units.size)):
        first = raw[places[at]]
        if at < end or (first not in spelled and first.isascii()):
            continue
        text = scan.texts.find(units, at)
        if text is None or text.end <= at:
            continue
        choices: tuple[str, ...] = ()
        end = text.end
        clashes = end == at + 1 and labels[at] not in {None, text.choice}
        if text.choice is not None:
            found = read_text(scan, text.choice, end)
            choices, end, clashes = found.choices, found.end, clashes or found.clashes
        yield Statement(choices, "option_text", Weight.TENTATIVE, at, end, clashes)


def _skip_dress(units: Units, text: Statement) -> tuple[int, int]:
    """Return the unit before a text, its articles and what opens it.

    And the one after what closes it.
    """
    before, end = skip_back(units, text.begin, FILL), text.end
    while before >= max(text.begin - WRAPS, 0) and units.words[before] in OPEN:
        before -= 1
    while end < min(text.end + WRAPS, units.size) and units.words[end] in CLOSE:
        end += 1
    return before, end


def _opens(units: Units, text: Statement) -> bool:
    """Say whether the completion begins with this text, set off from what follows: `Invalid: it
    …`.
    """
    before, end = _skip_dress(units, text)
    if before >= 0 or (end < units.size - 1 and not _has_words(units, text)):
        return False
    if end >= units.size:
        return True
    mark, after = units.words[end], units.roles[end + 1] if end + 1 < units.size else 0
    if mark not in _SETTING_OFF or mark in QUESTION_MARKS or after & (_DOUBT | NOT):
        return False
    if mark in COMMAS and units.words[end + 1 : end + 2] == ["\u3068"]:
        return False  # `正しい、と言えるか`
    return mark not in COMMAS or bool(after & AFTER)


def _concludes(units: Units, text: Statement) -> bool:
    """Say whether the last sentence says, with a verb or a mark, that it is this text."""
    before, end = _skip_dress(units, text)
    is_said = before >= 0 and (units.words[before] in _SAYING or bool(units.roles[before] & BE))
    if before > 0 and units.words[before] in EQUALS and units.labels[before - 1] is not None:
        return units.words[before - 2 : before - 1] == [
            "{"
        ]  # a variable that is called as a choice is
    if (not is_said and units.words[text.begin - 1] not in _BOLD) or _is_of_label(
        units, before, text
    ):
        return False
    if not _is_last(units, end):
        return False
    # A longer text may be cut off if there is no full stop, and a number in it be any step.
    is_stopped = not STOPS.isdisjoint(units.words[end : end + WRAPS])
    if units.size > MOST_ASSERTED and not (is_stopped and _has_words(units, text)):
        return False
    reach = _BEFORE_COLON if units.words[before] in COLONS else _SENTENCE
    in_clause = True
    for at in range(before, max(before - reach, -1), -1):
        word, roles = units.words[at], units.roles[at]
        if word in _SENTENCE_ENDS or (at < before and word in COLONS):
            break
        in_clause = in_clause and word not in COMMAS
        if roles & _CONDITION or (in_clause and roles & (NOT | WRONG | OR)):
            return False
        if at >= before - 1 and word == "to":
            return False
    return True


def _is_last(units: Units, end: int) -> bool:
    """Say whether nothing follows but marks, what it is not, or, in a short text, why it is so."""
    rest = units.words[end : end + WRAPS]
    if units.size <= end + WRAPS and all(
        one in _ENDINGS and one not in QUESTION_MARKS for one in rest
    ):
        return True
    if units.size > MOST_ASSERTED:
        return False
    at = end + 1 if rest and rest[0] in COMMAS else end
    if at < units.size and units.roles[at] & NOT and units.size <= at + WRAPS:
        return True
    is_why = end < at < units.size and bool(units.roles[at] & AFTER) and not units.roles[at] & SO
    return rest[0] in COLONS or is_why


def _is_asserted(units: Units, text: Statement, *, is_denied: bool) -> bool:
    """Say whether a sentence is about this text, or ends with it after a verb."""
    before, end = _skip_dress(units, text)
    is_set_off = end >= units.size or units.words[end] in _SETTING_OFF
    if is_denied:
        return text.begin == 0 and units.size <= _LONGEST_DENIAL and is_set_off
    if before < 0 or units.words[before] in _SENTENCE_ENDS:
        return is_set_off or bool(units.roles[end] & BE)
    is_said = units.words[before] in COLONS or bool(units.roles[before] & BE)
    is_infinitive = before > 0 and "to" in units.words[before - 1 : before + 1]
    if not is_said or is_infinitive or _is_of_label(units, before, text):
        return False
    return end >= units.size or units.words[end] in _CLAUSE_ENDS


def _is_of_label(units: Units, verb: int, text: Statement) -> bool:
    """Say whether the text is only what a label stands for, where others are named: `B is Lyon`."""
    if (
        verb > 0
        and units.words[verb] in COLONS
        and units.labels[verb - 1] not in {None, *text.choices}
    ):
        return True  # `B: True`, where that is the text of A
    if verb <= 0 or not units.roles[verb] & BE:
        return False
    for at in range(verb - 1, max(verb - _BEFORE_VERB, -1), -1):
        if units.words[at] in _CLAUSE_ENDS:
            break
        if _is_named(units, at):
            named = {units.labels[one] for one in units.named if _is_named(units, one)}
            return units.labels[at] not in text.choices or len(named) > 1
    return False


def _is_named(units: Units, at: int) -> bool:
    """Say whether a label stands here, and no article: that has no verb after it."""
    if units.labels[at] is None or units.token(at) not in _ARTICLES:
        return units.labels[at] is not None
    return units.token(at) in "aA" and at + 1 < units.size and bool(units.roles[at + 1] & BE)


# One decision from everything that a text states.

NOTHING = "NOTHING_STATED"

#: In a longer text what is excluded may be part of an argument.
_MOST_ELIMINATED = 160

_BACK = 4
_ARTICLES = frozenset("aiAI")

#: An answer is taken back in the last words of a text, if nothing comes after them.
_LAST_WORDS = 24


def decide(scan: Scan, lines: Sequence[Line], lists: Sequence[Sequence[Line]]) -> Decision:
    """Return the answer that the text states."""
    findings = gather(scan, lines, lists)
    group = statements = findings.statements
    if len(statements) > 1:
        statements = _drop_undone(scan, sorted(statements, key=lambda one: (one.begin, one.end)))
        weight = min(one.weight for one in statements)
        group = [one for one in statements if one.weight is weight]
        # A list that calls one option right and all others wrong says as much as a final answer.
        right = [one for one in statements if one.part == "verdict_list" and one not in group]
        group = [*right, *group] if len(right) == 1 else group
    if group:
        found = _combine(scan, group)
        is_denied = (
            found.part == "named_right" and findings.excluded.get(str(found.choice), 0) > found.end
        )
        if found.choice is not None and (is_denied or _is_left_open(scan, found)):
            return replace(found, choice=None, reason="SEVERAL_CHOICES")
        reason = None if found.choice is None else find_doubt(scan, found, statements)
        return found if reason is None else replace(found, choice=None, reason=reason)
    left = _eliminate(scan, findings) or read_assertion(scan, findings.echoed)
    if left is None or (left.part == "option_text" and left.choice in findings.excluded):
        return Decision(reason=NOTHING)
    return left


_NUMERALS = frozenset({"ii", "iii", "iv"})

#: What is said of a choice in a sentence: that it is the answer, or that it is not.
_SUPPORT = ANSWER | RIGHT | PICK | LEAVE | MATCH
_DENIAL = NOT | WRONG | DROP | NOT_AFTER | REFUSE
_UNSURE = _DENIAL | SAYS | IF | BUT
#: In an argument these may say of another choice that it is true, and still not the answer.
_LIGHT_PARTS = frozenset({"named_right", "verdict_list", "option_text"})


def find_doubt(scan: Scan, found: Decision, statements: Sequence[Statement]) -> str | None:
    """Return why an answer does not count though it is stated; None if nothing speaks against it.

    Somebody else says it; another statement says otherwise; or the words after it do.
    """
    units = scan.units
    if found.part == "verdict_list":
        return None
    is_denied = found.part == "first_label" and _is_denied_later(units, found)
    if is_denied or _is_quoted(units, found):
        return NOTHING
    if len(statements) > 1 and _is_contradicted(units, found, statements):
        return "SEVERAL_CHOICES"
    if (
        units.named
        and units.named[0] < found.begin
        and units.size <= MOST_ASSERTED
        and _concludes_other(scan, found)
    ):
        return "SEVERAL_CHOICES"
    if found.end >= units.size:
        return None
    is_open = (
        not units.named
        or units.named[-1] >= found.end
        or units.played & (FIX | NOT | NOT_AFTER | BUT)
    )
    return _read_on(scan, found, statements) if is_open or scan.texts.spelled else None


def _is_contradicted(units: Units, found: Decision, statements: Sequence[Statement]) -> bool:
    """Say whether a statement of any weight names another choice, and nothing between them corrects
    it.

    Guesses, and what is only called true, count for less if they come before the answer.
    """
    roles, is_short = units.roles, units.size <= MOST_ASSERTED
    others = [
        one
        for one in statements
        if one.choices
        and found.choice not in one.choices
        and not found.begin <= one.begin < found.end
    ]
    if _KEY in units.text:
        others = [one for one in others if one.weight is Weight.DEFINITE]  # other keys of an object
    if not _NUMERALS.isdisjoint(units.known):
        others = [one for one in others if "I" not in one.choices]  # statements by Roman numerals
    described = {one.choices for one in others if one.part == "reference"}
    if len(described) > 1:
        others = [one for one in others if one.part != "reference"]  # each option in turn
    others = [one for one in others if not _is_quoted_letter(units, one)]
    if not others:
        return False
    near = found.begin - _TO_CONTRAST
    contrasts = [
        at
        for at in _list_roles(units, BUT)
        if near <= at < found.end or (at > 0 and units.words[at - 1] in _SENTENCE_ENDS)
    ]
    turns = sorted({*_find_corrections(units), *contrasts})
    for one in others:
        is_true = one.part == "verdict_list" or "true" in units.words[one.begin : one.end]
        is_light = one.weight is Weight.TENTATIVE or any(
            role & MAYBE for role in roles[one.begin : one.end]
        )
        if one.part in _LIGHT_PARTS and not is_light:
            is_whole = is_short and not _SENTENCE_ENDS.isdisjoint(
                units.words[one.end : one.end + 1]
            )
            is_light = is_true or not is_whole
        if is_true and one.part in _LIGHT_PARTS:
            continue
        turn = bisect_left(turns, one.end)
        if one.begin >= found.end or not (
            is_light or (turn < len(turns) and turns[turn] < found.end)
        ):
            return True
    return False


def _is_quoted_letter(units: Units, stated: Statement) -> bool:
    """Say whether a small letter in quotes is meant where labels are written large: `which is
    'c'`.
    """
    at = stated.end - 1
    while at > stated.begin and units.labels[at] is None:
        at -= 1
    return (
        units.token(at).islower() and stated.choices[0].isupper() and units.words[at - 1] in QUOTES
    )


def _read_on(scan: Scan, found: Decision, statements: Sequence[Statement]) -> str | None:
    """Return what the sentences from the answer on say against it.

    Its own names a further choice; a later one denies it, supports another, asserts the text of
    another, or calls the words before mistaken, and nothing after that repeats the answer.
    """
    units, roles, choice = scan.units, scan.units.roles, found.choice
    begin, fix, is_own = found.end, -1, True
    agreeing = [one.begin for one in statements if one.choices == (choice,)]
    ends = [at for at in range(begin, units.size) if units.words[at] in _SENTENCE_ENDS]
    for end in (*ends, units.size):
        played = 0
        for role in roles[begin:end]:
            played |= role
        mentions = list(_list_mentions(scan, begin, end, choice))
        named = {units.labels[at] for at in mentions}
        place = bisect_left(agreeing, begin)
        said = agreeing[place] if place < len(agreeing) and agreeing[place] < end else -1
        reason = None
        if is_own:
            reason = None if _KEY in units.text else _read_rest(scan, found, mentions, end)
        elif named == {choice} and _is_denied(roles, mentions[0], begin, end if said < 0 else said):
            reason = NOTHING
        elif said < 0 and named and choice not in named:
            # The sentence ends with the other choice, after a word: `no, C.`; not with an initial.
            is_last = mentions[-1] == end - 1 and any(
                _is_long(word) for word in units.words[begin:end]
            )
            is_last = is_last and not any(role & _DENIAL for role in roles[begin + 1 : end])
            is_last = is_last and not (units.token(end - 2).istitle() and is_word(units, end + 1))
            is_other = is_last or (played & _SUPPORT and not played & _UNSURE)
            reason = "SEVERAL_CHOICES" if is_other else None
        if reason is not None:
            return reason
        for at in range(begin, end) if played & FIX else ():
            fix = at if roles[at] & FIX and is_inserted(units, at) else fix
        if not is_own and any(at > fix and units.labels[at] == choice for at in mentions):
            fix = -1
        if (
            units.size <= MOST_ASSERTED
            and not played & _DENIAL
            and _asserts_other(scan, found, begin, end)
        ):
            return "CONTRADICTS_ITSELF"
        begin, is_own = end + 1, False
    return NOTHING if fix >= 0 else None


def _is_denied(roles: Sequence[int], at: int, begin: int, end: int) -> bool:
    """Say whether a denial stands near a label: `I am not sure of C`, `C is not`."""
    return any(
        role & _DENIAL for role in roles[max(begin, at - _BEFORE_VERB) : min(at + _BACK, end)]
    )


def _is_long(word: str) -> bool:
    """Say whether this is a phrase, or a word of several letters."""
    return not word or (len(word) > 1 and word[0].isalpha())


def _read_rest(scan: Scan, found: Decision, mentions: Sequence[int], end: int) -> str | None:
    """Return what the rest of its own sentence says against an answer.

    Reasons (`because A`) do not count.
    """
    units, roles, begin = scan.units, scan.units.roles, found.end
    after = begin + (units.words[begin] in COMMAS)
    is_reason = any(role & AFTER and not role & PREP for role in roles[after : after + 1])
    denial = next((at for at in range(begin, end) if roles[at] & _DENIAL), units.size + _BACK)
    for at in mentions:
        if units.labels[at] == found.choice and any(
            role & _DENIAL for role in roles[at - _BACK : at]
        ):
            return NOTHING  # `so C, they say, but not C`
        if units.labels[at] != found.choice and denial >= at + _BACK and not is_reason:
            return "SEVERAL_CHOICES"
    for at in range(begin, end):
        if (
            units.words[at] in _SETTING_OFF
            or units.words[at] in OPEN
            or roles[at] & (AFTER | AND | BUT | THAT)
        ):
            break
        if roles[at] & (NOT | NOT_AFTER):  # `answer 4 does not fit`
            return None if any(at < one < at + _BACK for one in mentions) else NOTHING
    is_partly = found.part == "named_right" and is_word(
        units, begin
    )  # `B is right about the cause, but`
    return NOTHING if is_partly and any(role & BUT for role in roles[begin:end]) else None


def _concludes_other(scan: Scan, found: Decision) -> bool:
    """Say whether a sentence before ends with another choice: `which gives option B. The answer is
    C.`.
    """
    units, begin, played = scan.units, 0, 0
    for at in range(found.begin):
        played |= units.roles[at]
        if units.words[at] not in _SENTENCE_ENDS:
            continue
        last = at - 1
        while last > begin and units.words[last] in CLOSE:
            last -= 1
        is_cue = last > 0 and bool(units.roles[last - 1] & (OPTION | ANSWER | PICK))
        if (
            last >= begin
            and is_cue
            and units.labels[last] not in {None, found.choice}
            and not played & _UNSURE
        ):
            return not any(role & (FIX | BUT | _DENIAL) for role in units.roles[at : found.end])
        begin, played = at + 1, 0
    return False


def _list_mentions(scan: Scan, begin: int, end: int, choice: str | None) -> Iterator[int]:
    """Yield the labels in a sentence, but for those in the text of the option that was chosen."""
    units, named = scan.units, scan.units.named
    for at in named[bisect_left(named, begin) : bisect_left(named, end)]:
        before = units.words[at - 1]
        is_option = bool(units.roles[at - 1] & OPTION) or (
            at + 1 < end and bool(units.roles[at + 1] & OPTION)
        )
        is_part = (
            units.token(at).islower() and not str(units.labels[at]).islower()
        )  # `(a)` of a question
        is_set_off = is_option or (
            before in _BEFORE_CHOICE and bool(units.gaps[at - 1]) and not is_part
        )
        if not is_set_off and units.token(at).isascii():
            if not _is_capital_label(units, at, begin):
                continue
        elif read_names(scan, at) is None:
            continue
        near = range(max(begin, at - _TO_OWN_LABEL), at + 1) if scan.texts.spelled else ()
        if units.labels[at] == choice or not any(
            (text := scan.texts.find(units, one)) is not None
            and text.choice == choice
            and text.end > at
            for one in near
        ):
            yield at


def _is_capital_label(units: Units, at: int, begin: int) -> bool:
    """Say whether a letter alone is a label: no article that opens its sentence, no `I`, and no
    formula.
    """
    letter, is_next = units.token(at), at + 1 < units.size
    if not letter.isupper() or letter == "I" or not begins_well(units, at):
        return False
    is_first = at == begin or (at == begin + 1 and not is_word(units, begin))
    if letter == "A" and is_first and not (is_next and units.roles[at + 1] & BE):
        return False
    before, after = units.words[at - 1], units.words[at + 1] if is_next else ""
    if before == "." and not units.gaps[at]:
        return False  # an abbreviation
    if (
        before in _FORMULA
        or before in _BEFORE_CHOICE
        or after in _FORMULA
        or before[:1].isdecimal()
    ):
        return False
    is_joined = is_next and not units.gaps[at + 1] and (is_word(units, at + 1) or after == "(")
    return not (is_joined and units.token(at + 1).isascii())


_BEFORE_CHOICE = frozenset("([\uff08\u3010")
_FORMULA = (
    OPERATORS | EQUALS | HYPHENS | MATHEMATICS | {"\u00b0", "\u00ba", "_", "^", "<", ">", "{"}
)
_TO_OWN_LABEL = 40
_TO_CONTRAST = 16


def _asserts_other(scan: Scan, found: Decision, begin: int, end: int) -> bool:
    """Say whether a sentence, or the line of a label, ends with another option's text as an
    assertion.
    """
    units = scan.units
    if not scan.texts.spelled or (begin == found.end and found.part != "first_label"):
        return False
    while end > begin and units.words[end - 1] in CLOSE:
        end -= 1
    choice, at = scan.texts.find_before(units, end) or (None, 0)
    if (
        choice is None
        or choice == found.choice
        or at <= begin
        or (end - at == 1 and units.labels[at])
    ):
        return False
    if any(scan.texts.is_own(units, one, found.choice) for one in range(begin, end)):
        return False
    text = Statement((choice,), "option_text", Weight.VERDICT, at, end)
    before = skip_back(units, at, FILL)
    if not _has_words(units, text) or any(units.labels[one] == choice for one in range(begin, at)):
        return False
    if begin == found.end:
        return not any(role & AFTER for role in units.roles[begin : begin + 2])
    return before > begin and (bool(units.roles[before] & BE) or units.words[before] in DASHES)


def _is_denied_later(units: Units, found: Decision) -> bool:
    """Say whether the sentence that a label opens denies it: `B, despite …, can by no means be
    right`.
    """
    at, is_denied = found.end, False
    if units.words[at : at + 1] != [","] or any(
        roles & AFTER for roles in units.roles[at + 1 : at + 2]
    ):
        return False
    for further in range(at, min(at + _SENTENCE, units.size)):
        roles = units.roles[further]
        if units.words[further] in _SENTENCE_ENDS:
            return False
        if is_denied and roles & (RIGHT | ANSWER):
            return True
        is_other = units.labels[further + 1 : further + 2] not in (
            [],
            [None],
        )  # `B, not A, is right`
        is_denied = (
            is_denied or (bool(roles & NOT) and not is_other) or (roles & IF and roles & SAYS) > 0
        )
    return False


def _is_left_open(scan: Scan, found: Decision) -> bool:
    """Say whether the sentence goes on with another choice: `it could be B after all, or C`."""
    units, is_or = scan.units, False
    near = range(found.end, min(found.end + _SENTENCE, units.size))
    for at in near if units.played & (OR | MATCH | IF | PREP) else ():
        word, roles = units.words[at], units.roles[at]
        if word in _SENTENCE_ENDS and units.words[at - 1] not in _LATIN_INITIALS:
            return False
        label = units.labels[at]
        if label is not None and units.token(at) not in _ARTICLES and word not in _LATIN_INITIALS:
            return (
                is_or and label != found.choice and not scan.texts.is_own(units, at, found.choice)
            )
        is_light = roles & (FILL | OPTION | BE | IT | MAYBE | NOT) or word in _BEFORE_LABEL
        is_trigger = (
            roles & (OR | MATCH) or (roles & IF and not roles & AFTER) or word in _LATIN_INITIALS
        )
        is_trigger = is_trigger or (roles & AND and units.words[at - 1] in ROUND_OPEN)
        is_or = bool(is_trigger) or (is_or and bool(is_light))
    return bool(units.roles[-1] & OR) and units.size > found.end


def _is_quoted(units: Units, found: Decision) -> bool:
    """Say whether the answer stands in what somebody is quoted with: `"It is C", said Tom`."""
    if units.known.isdisjoint(_SPEECH):
        return False
    words, roles, quote = units.words, units.roles, -1
    for at in range(max(found.begin - _LONGEST_SPEECH, 0), found.begin + 1):
        if quote < 0 and words[at] in _SPEECH:
            # An apostrophe closes a word: `the students' answer`.
            quote = (
                at
                if words[at] != "'" or at == 0 or units.gaps[at] or words[at - 1] == BREAK
                else -1
            )
        elif quote >= 0 and (words[at] in _SPEECH[words[quote]] or words[at] == BREAK):
            quote = -1
    if quote < 0 or (words[quote] == _STRAIGHT and _KEY in units.text):
        return False
    before = quote - 1 - (quote > 0 and words[quote - 1] in _BEFORE_SPEECH)
    if before >= 0 and roles[before] & (IF | SAYS):
        return True  # `Tom said: "It is C."`
    speaker = range(before - 1, before + 1) if before > 0 and words[before + 1] in COLONS else ()
    if speaker and all(is_word(units, at) and not roles[at] & ~PREP for at in speaker):
        return True  # `María dijo: «Es C»`, whatever the word for saying is
    near = range(max(quote + 1, found.begin), min(found.end + _SENTENCE, units.size))
    end = next((at for at in near if words[at] in _SPEECH[words[quote]]), units.size) + 1
    is_label = quote == found.begin and end <= found.end
    if end < units.size and words[end] in COMMAS:
        end += 1
        end += end < units.size and words[end] in DASHES  # `«C», — сказал Иван`
    # `"C", said Tom`, not `"C", I think`.
    return is_word(units, end) and (not is_label or bool(roles[end] & (IF | SAYS)))


def _drop_undone(scan: Scan, statements: list[Statement]) -> list[Statement]:
    """Return the statements after the last one that is taken back, if there are any."""
    units = scan.units
    for at in reversed(_list_roles(units, UNDO)):
        after = [one for one in statements if one.begin >= at]
        if after and not _SETTING_OFF.isdisjoint(units.words[at : after[0].begin]):
            return after
    return statements


#: A verdict on a label has one of these, or a dash.
_JUDGING = BE | RIGHT | WRONG | ANSWER | PICK


def gather(scan: Scan, lines: Sequence[Line], lists: Sequence[Sequence[Line]]) -> Findings:
    """Return everything that the text states or excludes."""
    units, spelled, findings = scan.units, scan.texts.spelled, Findings([], {}, set())
    if len(lines) > 1 and spelled:
        findings.echoed.update(list_echoes(scan, lines))
    echoed, words, roles, marked = findings.echoed, units.words, units.roles, units.marked
    if not MARKUP.isdisjoint(units.known):
        marked = sorted({*marked, *compress(range(units.size), map(MARKUP.__contains__, words))})
    last = units.size - 1  # where the last verdict may stand
    while last >= 0 and not (roles[last] & _JUDGING or words[last] in DASHES):
        last -= 1
    for at in marked:
        if at in echoed:
            continue
        if roles[at] & CUES:
            read_cue(scan, at, findings)
        if units.labels[at] is not None:
            if at < last and not is_plain(scan, at + 1):
                read_subject(scan, at, findings)
            bracket = at - 2 if at > 1 and roles[at - 1] & OPTION else at - 1
            if spelled and bracket >= 0 and words[bracket] in ROUND_OPEN:
                read_labelled_text(scan, bracket, findings)
        elif words[at] in MARKUP:
            read_markup(scan, at, findings)
    _read_opening(scan, findings)
    read_last(scan, findings)
    drop_listed(scan, lists, findings)
    read_lines(scan, lines, lists, findings)
    if spelled:
        read_text_lines(scan, lines, findings)
    return findings


#: `Option B. The others are wrong.`
_OTHERS = frozenset(
    [
        "others",
        "other",
        "rest",
        "anderen",
        "übrigen",
        "autres",
        "demás",
        "otras",
        "demais",
        "outras",
        "altre",
    ]
)


def _read_opening(scan: Scan, findings: Findings) -> None:
    """Note an option that is all of the first sentence, if the next is about the others."""
    units = scan.units
    if not units.size or units.roles[0] & (OPTION | MAYBE) != OPTION or findings.statements:
        return
    names = read_names(scan, 1)
    if names is None or STOPS.isdisjoint(units.words[names.end : names.end + 1]):
        return
    if _OTHERS.isdisjoint(units.words[names.end + 1 : names.end + _BACK]):
        return
    stated = Statement(names.choices, "first_label", Weight.DEFINITE, 0, names.end, names.clashes)
    findings.statements.append(stated)


def read_last(scan: Scan, findings: Findings) -> None:
    """Note a label with which the text ends, after a colon, an arrow or a word for option: `…:
    option C.`.
    """
    units, last = scan.units, scan.units.size - 1
    fewest = max(units.size - WRAPS, 0)
    if not units.named or units.named[-1] < fewest - 1:
        return
    while last >= fewest and units.words[last] in _ENDINGS:
        last -= 1
    if last < 0 or units.labels[last] is None or not QUESTION_MARKS.isdisjoint(units.words[last:]):
        return
    begin, is_option = last - 1, False
    while begin >= max(last - WRAPS, 0) and (
        units.words[begin] in OPEN or units.roles[begin] & (OPTION | FILL | ANSWER)
    ):
        is_option = is_option or bool(units.roles[begin] & (OPTION | ANSWER))
        begin -= 1
    # `Letter E.` is a sentence of its own.
    is_led = begin >= 0 and (
        units.words[begin] in _POINTING or (is_option and units.words[begin] in _PAUSES)
    )
    if not is_led:
        return
    names = read_names(scan, begin + 1 if not is_option else last)
    is_small = names is None or (units.token(last).islower() and names.choices[0].isupper())
    if names is None or is_small:
        return
    for at in range(begin, max(begin - _SENTENCE, -1), -1):
        if at < begin and units.words[at] in _SENTENCE_ENDS:
            break
        if units.roles[at] & (_DOUBT | NOT | DROP) or units.words[at] in _PLANS:
            return
    if units.words[begin] in COLONS and begin > 0 and units.labels[begin - 1] is not None:
        return
    if any(
        units.words[at - 1] in COLONS and units.labels[at] != names.choices[0] for at in units.named
    ):
        return  # answers to several questions
    statement = Statement(
        names.choices, "conclusion", Weight.VERDICT, begin + 1, names.end, names.clashes
    )
    findings.statements.append(statement)


def read_labelled_text(scan: Scan, at: int, findings: Findings) -> None:
    """Note an option's text before its label in brackets, if a verb leads to it: `it is Canberra
    (B)`.
    """
    units = scan.units
    choice, begin = scan.texts.find_before(units, at) or (None, 0)
    if choice is None:
        return
    before = skip_back(units, begin, FILL)
    while before >= max(begin - WRAPS, 0) and units.words[before] in OPEN:
        before -= 1
    if before < 0 or not units.roles[before] & BE:
        return
    found = read_text(scan, choice, at)
    if found.end > at and read_context(units, begin) is Context.ASSERTED:
        statement = Statement(
            found.choices, "option_text", Weight.VERDICT, before, found.end, found.clashes
        )
        findings.statements.append(statement)


def _explains_other(scan: Scan, stated: Statement) -> bool:
    """Say whether the label only says which option the text before it is: `Saturn, that is, option
    D`.
    """
    units, at = scan.units, stated.end - 1
    while at > 0 and units.labels[at] is None:
        at -= 1
    end = at
    while at > max(end - _TO_TEXT, 0) and (
        units.words[at - 1] in _BEFORE_LABEL or units.roles[at - 1] & _THAT_IS
    ):
        at -= 1
    if at == end:
        return False
    choice, begin = scan.texts.find_before(units, at) or (None, 0)
    if (
        choice is None
        or choice in stated.choices
        or read_context(units, begin) is not Context.ASSERTED
    ):
        return False
    before = skip_back(units, begin, FILL)
    return before < 0 or units.words[before] in _SENTENCE_ENDS or bool(units.roles[before] & BE)


def _says_otherwise(scan: Scan, stated: Statement) -> bool:
    """Say whether a conclusion near the statement names another option.

    `It is therefore Lyon. Answer: A`; `it is Lyon, so the answer is A`.
    """
    units, is_other = scan.units, False
    if _explains_other(scan, stated):
        return True
    first = max(stated.begin - _SENTENCE, 0)
    near = units.roles[first : stated.end + _SENTENCE]
    verbs = [at for at, roles in enumerate(near, first) if roles & BE]
    for at in (one for one in verbs if not stated.begin <= one < stated.end):
        begin, lead = at + 1, 0
        while begin < min(at + WRAPS, units.size) and units.roles[begin] & (FILL | SO | OWN):
            lead |= units.roles[begin]
            begin += 1
        text = scan.texts.find(units, begin)
        if text is None or text.choice is None:
            continue
        between = range(text.end, stated.begin)
        is_reason = 0 < len(between) <= WRAPS and all(
            units.roles[one] & (FILL | SO | OWN) or units.words[one] in _PAUSES for one in between
        )
        is_reason = is_reason and any(units.roles[one] & SO for one in between)
        leads = is_reason and read_context(units, begin) is Context.ASSERTED
        if not lead & (SO | OWN) and not leads:
            continue
        if text.choice == stated.choices[0]:
            return False
        is_other = is_other or leads or is_end(units, text.end) or units.words[text.end] in STOPS
    return is_other


def _combine(scan: Scan, group: list[Statement]) -> Decision:
    """Return what statements of one weight come to: all must agree, unless one corrects those
    before it.
    """
    current, is_open = group[0], False
    fixes = [] if len(group) == 1 else list(_find_corrections(scan.units))
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
    if current.clashes or (scan.texts.spelled and _says_otherwise(scan, current)):
        return Decision(None, "CONTRADICTS_ITSELF", *place)
    if _is_taken_back(scan.units, current):
        return Decision(None, NOTHING, *place)
    return Decision(current.choices[0], None, *place)


def _list_roles(units: Units, wanted: int) -> list[int]:
    """Return the units that play one of these roles, which are among `MARKED`."""
    return [at for at in units.marked if units.roles[at] & wanted] if units.played & wanted else []


def _find_corrections(units: Units) -> Iterator[int]:
    """Yield where words replace what was said: `wait`, `that is wrong`, and `no,` on its own."""
    for at in _list_roles(units, FIX | WRONG):
        roles = units.roles[at]
        is_fix = roles & FIX and (
            roles & (UNDO | MUTE) or is_inserted(units, at) or not units.words[at]
        )
        is_fix = is_fix or (
            roles & FIX and any(role & ANSWER for role in units.roles[at + 1 : at + 2])
        )
        if is_fix or (roles & WRONG and roles & NOT and units.words[at + 1 : at + 2] == [","]):
            yield at


def _is_taken_back(units: Units, stated: Statement) -> bool:
    """Say whether the last words of a text, or those right after the answer, take it back."""
    end = stated.end
    if units.played & UNDO and any(
        roles & UNDO for roles in units.roles[max(end, units.size - _LAST_WORDS) :]
    ):
        return True
    sentences, has_fix = 0, False
    near = range(end, min(end + _LAST_WORDS, units.size))
    for at in near if units.played & (MUTE | NOT | FIX) else ():
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
    # Of two choices, that one is wrong does not say that the other is right; of one, there is no
    # other.
    if len(left) != 1 or len(findings.excluded) <= 1 or scan.units.size > _MOST_ELIMINATED:
        return None
    places = findings.excluded.values()
    return Decision(left[0], None, "elimination", min(places), max(places) + 1)


# The extraction rule `stated_answer`: the answer that a text states, wherever it stands.

_MOST_QUESTION_MARKS = 8
_BEFORE_QUESTION = frozenset({"*", "**", "[", "\u3010", *("#" * count for count in range(1, 7))})
_SPEAKERS = frozenset({"user", "human"})
#: `Next question` is a phrase, whose word is empty.
_NOT_ASKED = _SPEAKERS | {""}
_AFTER_QUESTION = COLONS | {"\u3011"}


def read_stated_answer(
    text: str, choices: Sequence[str], options: Sequence[str] | None = None
) -> Reading:
    """Return the answer that the text states, or the reason why it states none."""
    if not text.strip(WHITE_SPACE):
        return Reading(reason="EMPTY")
    parts = find_parts(text)
    if parts is None:
        return Reading(reason=NOTHING, part="unclosed_thought")
    labels = read_labels(tuple(choices))
    if options and ("<" in text or "\\" in text):
        options = _simplify_options(tuple(options))
    # What the first part states that states anything; what follows is another turn.
    reading = None
    for begin, end in parts:
        reading = _read_part(simplify(text[begin:end]), labels, options, begin)
        if reading.reason != NOTHING:
            break
    return reading or Reading(reason=NOTHING)


def list_statements(
    text: str, choices: Sequence[str], options: Sequence[str] | None = None
) -> list[tuple[tuple[str, ...], tuple[int, int]]]:
    """Return every answer that the text states, in the order of the text: the choices it names, and
    where.

    `read_stated_answer` decides among these. What is said in thoughts is not among them.
    """
    labels, found = read_labels(tuple(choices)), set()
    if options and ("<" in text or "\\" in text):
        options = _simplify_options(tuple(options))
    for begin, end in find_parts(text) or ():
        units = split_units(simplify(text[begin:end]), labels)
        scan = Scan(units, labels, read_texts(options, labels, units))
        lines = split_lines(scan)
        for one in gather(scan, lines, find_lists(scan, lines)).statements:
            span = begin + units.start(one.begin), begin + units.end(one.end - 1)
            found.add((span, one.choices))
    return [(named, span) for span, named in sorted(found)]


#: Longer texts seldom come again with other options.
_LONGEST_NARROWED = 200


def narrow_options(text: str, choices: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Return options with which the text is read in the same way.

    Those that it does not say may be empty. So a text that comes with many options is read a few
    times. Texts with lists are compared with all.
    """
    labels, own = read_labels(tuple(choices)), tuple(options[: len(choices)])
    known = _list_words(text, labels) if len(text) <= _LONGEST_NARROWED else None
    if known is None:
        return own
    return tuple(
        one if needed <= known else ""
        for one, needed in zip(own, list_needed(own, labels), strict=True)
    )


@lru_cache(maxsize=4096)
def _list_words(text: str, labels: Labels) -> set[str] | None:
    """Return the words of a text without markup; None of one that may have a list in it."""
    if (
        find_parts(text) != [(0, len(text))]
        or "<" in text
        or "\\" in text
        or simplify(text) != text
    ):
        return None
    units = split_units(text, labels)
    named = {units.labels[at] for at in units.named}
    may_list = len(named) >= _FEWEST and (
        units.breaks or named.issuperset(labels.choices[:_LISTED])
    )
    return None if may_list else units.known


@lru_cache(maxsize=4096)
def _simplify_options(options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(simplify, options))


def _read_part(text: str, labels: Labels, options: Sequence[str] | None, offset: int) -> Reading:
    """Return what a turn states before it goes on with a question of its own."""
    units = split_units(text, labels)
    scan = Scan(units, labels, read_texts(options, labels, units))
    lines = split_lines(scan)
    lists = find_lists(scan, lines)
    questions = find_questions(scan, lines, lists)
    if not questions:
        return _locate(scan, decide(scan, lines, lists), offset)
    begins = sorted({0, *questions})
    reading = Reading(reason=NOTHING)
    for begin, end in zip(begins, [*begins[1:], units.size], strict=True):
        first = units.start(begin)
        units_here = split_units(text[first : units.end(end - 1)], labels)
        part = Scan(units_here, labels, read_texts(options, labels, units_here))
        lines = split_lines(part)
        lists = find_lists(part, lines)
        if begin in questions and any(is_foreign(part, items) for items in lists):
            continue
        reading = _locate(part, decide(part, lines, lists), offset + first)
        is_first = begin == min(questions) <= 1 and units.words[begin] not in _NOT_ASKED
        if begin in questions and not _is_asked(part, lists, reading, is_first=is_first):
            reading = Reading(reason=NOTHING)
        if reading.reason != NOTHING:
            break
    return reading


def _is_asked(
    scan: Scan, lists: Sequence[Sequence[Line]], reading: Reading, *, is_first: bool
) -> bool:
    """Say whether what follows a question answers the one that was asked: its options are repeated,
    or named.

    `is_first`: the text begins with this question, which may be the one that was asked.
    """
    if reading.part in {"first_label", "last_label"}:
        return False  # an option of its question
    if reading.part in {"option_text", "verdict_list"} or (lists and scan.texts.options):
        return True
    return is_first and (scan.texts.is_near or not scan.texts.options)


def _locate(scan: Scan, found: Decision, offset: int) -> Reading:
    """Return a decision with the place of its passage in the text."""
    span = None
    if found.end > found.begin:
        span = offset + scan.units.start(found.begin), offset + scan.units.end(found.end - 1)
    return Reading(found.choice, found.reason, span, found.part)


def find_questions(scan: Scan, lines: Sequence[Line], lists: Sequence[Sequence[Line]]) -> set[int]:
    """Return where a new question, or the next turn of a conversation, may begin."""
    found = set()
    if scan.units.played & QUESTION:
        found = {at for at in _list_roles(scan.units, QUESTION) if _opens_question(scan.units, at)}
    if lists:
        found |= {at for items in lists if (at := is_question(scan, lines, items)) is not None}
    return found


def _opens_question(units: Units, at: int) -> bool:
    """Say whether a line begins here with `Question:`, `**Q2.**` or the like."""
    before = at - 1
    while before >= max(at - _MOST_QUESTION_MARKS, 0) and units.words[before] in _BEFORE_QUESTION:
        before -= 1
    if before >= 0 and units.words[before] != BREAK:
        return False
    after = units.words[at + 1 : at + 5]
    if after[:1] == [BREAK] and (
        units.words[at - 1][:1] == "#" or (at and units.words[at] in _SPEAKERS)
    ):
        return True
    if units.words[at] == "q" and ":" not in after[:2] and after[1:2] not in (["."], [")"]):
        return False  # a charge, a quantity
    is_numbered = len(after) > 1 and after[0].isdecimal() and units.words[at] != "input"
    is_next = not units.words[at] and after[:1] == ["."]  # `Next question.`
    return is_numbered or is_next or not _AFTER_QUESTION.isdisjoint(after)


def is_foreign(scan: Scan, items: Sequence[Line]) -> bool:
    """Say whether a list has other options than those that were asked about: few share a word with
    theirs.
    """
    options = dict(zip(scan.labels.choices, scan.texts.options, strict=False))
    shared = compared = remarks = 0
    for item in items:
        names = item.names or Named(("",), item.begin, item.end)
        option = _list_content(
            normalize_word(token) for token in split_tokens(options.get(names.choices[0], ""))
        )
        here = _list_content(
            scan.units.raw[scan.units.places[names.end] : scan.units.places[item.end]]
        )
        remarks += any(roles & IT for roles in scan.units.roles[names.end : names.end + 3])
        if option and here:
            compared += 1
            shared += not option.isdisjoint(here)
    return compared > 1 and 2 * shared < compared and 2 * remarks < compared


def _list_content(words: Iterable[str]) -> set[str]:
    """Return the words that say something: no articles, no marks."""
    roles = load_lexicon().roles
    return {
        word
        for word in words
        if word[:1].isalnum() and not roles.get(word, 0) & (FILL | PREP | AND | OR)
    }


def drop_listed(scan: Scan, lists: Sequence[Sequence[Line]], findings: Findings) -> None:
    """Drop statements that lead into a list: `Options:` and the first of them is no answer.

    A cue that leads to some of the options states several: `The answers are:`, `A. Paris`, `C.
    Nice`.
    """
    units = scan.units
    for items in lists:
        if not findings.statements:
            return
        first = items[0]
        names = first.names or Named((), first.begin, first.end)
        before = first.begin - 1
        while before > 0 and units.words[before] in OPEN:
            before -= 1
        is_led = before >= 0 and (units.words[before] in COLONS or units.words[before] == BREAK)
        if is_led and all(_is_listed(scan, item) for item in items[1:]):
            choices = tuple(item.names.choices[0] for item in items if item.names)
            is_part = len(items) < min(_LISTED, len(scan.labels.choices))
            findings.statements = [
                replace(one, choices=choices)
                if one.begin < first.begin < one.end <= names.end
                else one
                for one in findings.statements
                if is_part or not one.begin < first.begin < one.end <= names.end
            ]
