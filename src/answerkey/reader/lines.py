"""Lines of a text: labels on lines of their own, labels that open a line, lists of options."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from answerkey.reader.lexicon import (
    AFTER,
    AND,
    ANSWER,
    ARROWS,
    BE,
    BREAK,
    BULLETS,
    CLOSE,
    COLONS,
    COMMAS,
    DASHES,
    DRESS,
    EQUALS,
    FILL,
    HYPHENS,
    IT,
    LABEL_MARKS,
    MATHEMATICS,
    MAYBE,
    NOT,
    OPEN,
    OPTION,
    OR,
    OWN,
    PREP,
    QUESTION,
    QUESTION_MARKS,
    QUOTES,
    RIGHT,
    ROUND_CLOSE,
    SO,
    STOPS,
    WRONG,
    YES,
    load_lexicon,
)
from answerkey.reader.markup import BOXES, UNCHECKED
from answerkey.reader.names import Named, find_label, is_named_text, is_small, is_word, read_names
from answerkey.reader.statements import Findings, Statement, Weight
from answerkey.reader.units import MARGIN, Units, list_places, spell_options

#: The maximum number of units before a label at the beginning of a line.
_LEAD = 8
#: In a longer text `(a)` begins the first part of an argument.
_SHORT_TEXT = 24
#: A longer item of a list says more than its option's text.
_SHORT_ITEM = 10
#: The fewest items of a list, and of a list of the options, unless there are fewer options.
_FEWEST = 2
_LISTED = 3
#: Pictures: signs and emojis.
_FIRST_PICTURE = "\u2600"

_LEADING_ROLES = OPTION | MAYBE | SO | OWN | FILL
_LEADING_MARKS = BULLETS | OPEN | COMMAS | {"|"}
TRAILING_MARKS = STOPS | CLOSE | COMMAS | {"|"}
_AROUND_ITEM = TRAILING_MARKS | OPEN
_LABELLED = LABEL_MARKS | DASHES | OPEN
_INLINE_MARKS = (LABEL_MARKS - DASHES - COMMAS) | EQUALS | ARROWS | {"|", "\u3001"}
_VERDICTS = RIGHT | WRONG | YES
_AFTER_VERDICT = AFTER | ANSWER | OPTION | NOT
_PLANS = frozenset({"let", "let's"})
_LABEL_ENDS = LABEL_MARKS | frozenset(";\uff1b\u061b\u037e")
BOLD = frozenset({"**", "__", "***"})
_NEGATIVE_SIGNS = frozenset({UNCHECKED, *"\u2717\u2718\u274c\u2716\u2612\u00d7\U0001f5d9"})


@dataclass(slots=True)
class Line:
    """A line that is not blank, or an item of a list within one.

    `names` are the labels that it begins with. `is_bare`: there is nothing else on it. `is_echo`:
    there is the label with its own option's text and nothing else. `is_labelled`: the label is set
    off from what follows. `sign`: a tick, a cross or a check box before the label. `is_inline`: an
    item, not the whole line.
    """

    begin: int
    end: int
    names: Named
    is_bare: bool = False
    is_labelled: bool = False
    is_echo: bool = False
    sign: str = ""
    is_inline: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices that the line begins with."""
        return self.names.choices

    @property
    def label_end(self) -> int:
        """The unit after the label."""
        return self.names.end


@dataclass(slots=True)
class LineLayout:
    """The lines of a text that are not blank, and the lists in it."""

    lines: list[Line]
    lists: list[list[Line]]


def lay_out(units: Units) -> LineLayout:
    """Return the lines that are not blank, and the lists of a text."""
    lines: list[Line] = []
    begin = 0
    mark = None
    breaks = list(list_places(units.words, BREAK))
    for end in breaks[: 1 - MARGIN]:
        first = units.words[begin : begin + 2]
        if first[0] == "q":
            mark = first[1]
        is_thought = first == ["a", ":"] and units.words[begin + 2] in _PLANS
        if is_thought or (first == ["a", mark] and end > begin + 2):
            # Here `A:` stands for `Answer:`, not for a choice: `A: Let's think step by step.`
            if units.labels[begin] is not None:
                units.labels[begin] = None
                units.named.remove(begin)
            begin += 2
        if end > begin:
            lines.append(_read_line(units, begin, end))
        begin = end + 1
    return LineLayout(lines, _find_lists(units, lines))


def _read_line(units: Units, begin: int, end: int) -> Line:
    line = Line(begin, end, Named((), begin, begin))
    first = bisect_left(units.named, begin)
    if not any(at < min(end, begin + 2 * _LEAD) for at in units.named[first : first + 1]):
        return line
    at = begin
    while at < min(end, begin + _LEAD) and find_label(units, at) is None:
        if is_sign(units, at):
            line.sign = units.words[at]
        elif not units.roles[at] & _LEADING_ROLES and not _may_lead(units, at):
            return line
        at += 1
    names = read_names(units, at)
    if names is not None and names.end <= end and not is_named_text(units, at):
        _describe(units, line, names)
    return line


def _describe(units: Units, line: Line, names: Named) -> None:
    """Note what a line is that begins with these labels."""
    end = names.end
    if not BOXES.isdisjoint(units.words[line.begin : end]):
        return
    is_over = all(_may_trail(units, at) for at in range(names.end, line.end))
    position = find_label(units, names.begin)
    has_text = position in units.text_ends
    if is_over:
        line.is_echo = has_text
        line.is_bare = not has_text
    is_part = position is not None and is_small(units, position) and not line.is_echo
    if is_part and units.size > _SHORT_TEXT:
        line.is_bare = False
        return
    line.names = names
    if not line.is_bare:
        line.is_labelled = has_text or _is_labelled(units, names)


def is_sign(units: Units, at: int) -> bool:
    """Say whether a unit is a tick, a cross or a check box."""
    word = units.words[at]
    if not units.roles[at] & (YES | WRONG):
        return word == UNCHECKED
    return word != "" and not word[0].isalnum()


def _may_lead(units: Units, at: int) -> bool:
    """Say whether a mark may stand before a label on its line."""
    return units.words[at] in _LEADING_MARKS or _is_picture(units, at)


def _may_trail(units: Units, at: int) -> bool:
    """Say whether a unit may follow a label that stands alone: a full stop, `option`, an emoji."""
    return (
        units.words[at] in TRAILING_MARKS
        or bool(units.roles[at] & OPTION)
        or _is_picture(units, at)
        or (is_sign(units, at) and units.words[at] not in _NEGATIVE_SIGNS)
    )


def _is_picture(units: Units, at: int) -> bool:
    first = units.words[at][:1]
    return first >= _FIRST_PICTURE and not units.roles[at] and not first.isalnum()


def _is_labelled(units: Units, names: Named) -> bool:
    """Say whether something sets the labels off: brackets, a mark such as `.`, or `because`."""
    at = names.end
    word, closing = units.words[at], units.words[at - 1]
    if word == "|" or _is_heading(units, names):
        return False  # a row of a table
    if closing not in QUOTES and _is_bracketed(units, names):
        return True
    if units.gaps[at]:
        return word in _LABELLED or bool(units.roles[at] & AFTER)
    if units.roles[at] & BE:  # `Bです。`
        return units.words[at + 1] in STOPS | {BREAK}
    if word not in _LABEL_ENDS:
        return False
    return word not in HYPHENS or bool(units.gaps[at + 1])


def _is_heading(units: Units, names: Named) -> bool:
    """Say whether several labels stand before a dash: `A, B and D: fish`."""
    return len(names.choices) > 1 and units.words[names.end] in DASHES


def _is_bracketed(units: Units, names: Named) -> bool:
    is_closed = units.words[names.end - 1] in ROUND_CLOSE or units.words[names.begin] in OPEN
    return names.is_wrapped and is_closed


# Lists of options: on lines of their own, or one after the other on a line.


def _find_lists(units: Units, lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lists in a text: each item names one choice, later ones name later choices."""
    choices = units.choices.choices
    lists: list[list[Line]] = [[]]
    last = -1
    for line in lines:
        place = -1
        if len(line.choices) == 1:
            place = choices.index(line.choices[0])
        if place <= last:
            lists.append([])
        if place >= 0:
            lists[-1].append(line)
        last = place
    lists = [items for items in lists if len(items) >= _FEWEST]
    if {units.labels[at] for at in units.named}.issuperset(choices[:_LISTED]):
        lists += _find_inline_lists(units, lines)
    return lists


def _find_inline_lists(units: Units, lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield lists such as `(A) Paris (B) Lyon (C) Nice`, in the order of the choices."""
    choices = units.choices.choices
    needed = max(min(_LISTED, len(choices)), _FEWEST)
    for line in lines:
        items: list[int] = []
        first = bisect_left(units.named, line.begin)
        for at in units.named[first : bisect_left(units.named, line.end)]:
            if len(items) == len(choices) or units.labels[at] != choices[len(items)]:
                continue
            if _find_mark(units, at):
                items.append(at)
        if len(items) >= needed:
            yield [_read_item(units, *span) for span in pairwise([*items, line.end])]


def _read_item(units: Units, begin: int, end: int) -> Line:
    text_end = units.text_ends.get(begin, begin + 1)
    names = Named((str(units.labels[begin]),), begin, text_end)
    is_echo = _AROUND_ITEM.issuperset(units.words[text_end:end])
    return Line(begin, end, names, is_labelled=True, is_echo=is_echo, is_inline=True)


def _find_mark(units: Units, at: int) -> str:
    """Return the mark that sets a label off as the item of a list; nothing if there is none."""
    roles = units.roles
    at += 1
    while units.words[at] in DRESS or roles[at] & OPTION:
        at += 1  # `A项:`
    word = units.words[at]
    if word in _INLINE_MARKS or (word in DASHES and units.gaps[at]):
        return word
    if roles[at] & _VERDICTS:
        return UNCHECKED  # `A ✓`
    return word if roles[at + 1] & _VERDICTS else ""


# Questions in a reply: a model may continue with one of its own, or repeat the one it was asked.

_MOST_QUESTION_MARKS = 8
_BEFORE_QUESTION = frozenset({"*", "**", "[", "\u3010", *("#" * count for count in range(1, 7))})
SPEAKERS = frozenset({"user", "human"})
_AFTER_QUESTION = COLONS | {"\u3011"}


def find_questions(units: Units, layout: LineLayout) -> set[int]:
    """Return where a new question, or the next turn of a conversation, may begin."""
    questions = set()
    for at in units.marked:
        if units.roles[at] & QUESTION and _opens_question(units, at):
            questions.add(at)
    for items in layout.lists:
        begin = _find_question(units, layout.lines, items)
        if begin is not None:
            questions.add(begin)
    return questions


def _opens_question(units: Units, at: int) -> bool:
    """Say whether a line begins here with `Question:`, `**Q2.**` or the like."""
    words = units.words
    before = units.skip_back(at - 1, _BEFORE_QUESTION, _MOST_QUESTION_MARKS)
    if words[before] != BREAK:
        return False
    word = words[at]
    after = words[at + 1 : at + 5]
    if after[0] == BREAK:
        return word in SPEAKERS
    is_numbered = after[0].isdecimal() or not word
    return is_numbered or not _AFTER_QUESTION.isdisjoint(after)


def _find_question(units: Units, lines: Sequence[Line], items: Sequence[Line]) -> int | None:
    """Return where the question with these options begins; None if no question precedes them."""
    is_judged = any(judge(units, item) is not None for item in items)
    if is_judged or items[0].choices[0] != units.choices.choices[0]:
        return None
    first = items[0].begin
    at = bisect_right(lines, first, key=lambda line: line.begin) - 1
    for line in reversed(lines[: at + 1]):
        end = min(line.end, first)
        words = units.words[line.begin : end]
        is_numbered = line.end <= first and any(map(str.isdecimal, words[:2]))
        if is_numbered or not QUESTION_MARKS.isdisjoint(words):
            return line.begin
        if _has_words(units, line.begin, end):
            break
    return None


def _has_words(units: Units, begin: int, end: int) -> bool:
    """Say whether there are words other than `Options:` between two units."""
    words = filter(partial(is_word, units), range(begin, end))
    return any(not units.roles[at] & OPTION for at in words)


def is_foreign(units: Units, items: Sequence[Line]) -> bool:
    """Say whether a list has options other than those of the question: few share a word."""
    options: dict[str, set[str]] = {}
    for words, choice in spell_options(units.option_texts, units.choices).items():
        options[choice] = _list_content(words)
    compared = shared = remarks = 0
    for item in items:
        remarks += units.plays(item.label_end, item.label_end + 3, IT)
        here = _list_content(units.raw[units.places[item.begin] + 1 : units.places[item.end]])
        option = options.get(item.choices[0])
        if option and here:
            compared += 1
            shared += not option.isdisjoint(here)
    return compared > 1 and 2 * shared < compared and 2 * remarks < compared


def _list_content(words: Iterable[str]) -> set[str]:
    """Return the words with a meaning of their own: no articles, no marks."""
    roles = load_lexicon().roles
    light = FILL | PREP | AND | OR
    return {word for word in words if word[:1].isalnum() and not roles.get(word, 0) & light}


# What lines state: bare labels, labels that open or close the text, verdicts on every option.


def read_lines(units: Units, layout: LineLayout, findings: Findings) -> None:
    """Note what the lines state."""
    if not units.named:
        return
    _read_bare(units, layout, findings)
    _read_verdicts(units, layout, findings)
    labelled = [line for line in layout.lines if line.is_labelled]
    if labelled:
        _read_labelled(units, layout, labelled, findings)


def _state_line(line: Line, part: str, weight: Weight, findings: Findings) -> None:
    findings.state(line.names, part, weight, line.begin)


def _read_bare(units: Units, layout: LineLayout, findings: Findings) -> None:
    """Note labels on lines of their own, if they are not the items of a list."""
    bare = _list_bare_lines(units, layout)
    if len({line.choices for line in bare}) >= max(_LISTED, len(units.choices.choices)):
        return
    for line in bare:
        is_asked = units.words[line.end - 1] in QUESTION_MARKS
        weight = Weight.TENTATIVE if is_asked else Weight.DEFINITE
        _state_line(line, "label_line", weight, findings)


def _list_bare_lines(units: Units, layout: LineLayout) -> list[Line]:
    listed: set[int] = set()
    for items in layout.lists:
        if len(items) >= _LISTED and not items[0].is_bare:
            listed.update(item.begin for item in items if not item.sign)
    bare = []
    for line in layout.lines:
        if line.is_bare and line.begin not in listed and judge(units, line) is not False:
            bare.append(line)
    return bare


def _read_verdicts(units: Units, layout: LineLayout, findings: Findings) -> None:
    """Note what lines exclude, and the option that is called right or marked in a list of them."""
    judged = _list_judged(layout)
    right, choices = [], set()
    for line in judged:
        verdict = judge(units, line, is_alone=len(judged) == len(line.choices))
        if verdict is None:
            continue
        choices.add(line.choices)
        if verdict:
            right.append(line)
        elif line.sign != UNCHECKED:
            findings.exclude(line.choices, line.begin)
    count = len(units.choices.choices)
    if len(choices) == count:
        for line in right:
            _state_line(line, "verdict_list", Weight.VERDICT, findings)
    elif len(right) == 1 == len(choices) and len(judged) > 1:
        _state_line(right[0], "marked_option", Weight.VERDICT, findings)


def _list_judged(layout: LineLayout) -> list[Line]:
    """Return the items within lines, and the other lines that begin with a label."""
    judged = []
    for items in layout.lists:
        judged += [item for item in items if item.is_inline]
    hosts = set()
    for item in judged:
        hosts.add(bisect_right(layout.lines, item.begin, key=lambda line: line.begin) - 1)
    for at, line in enumerate(layout.lines):
        if line.choices and at not in hosts:
            judged.append(line)
    return judged


def _read_labelled(
    units: Units,
    layout: LineLayout,
    labelled: Sequence[Line],
    findings: Findings,
) -> None:
    """Note a label that opens or closes the text, or follows a verb and a colon."""
    lines = layout.lines
    first = lines[0]
    is_alone = len(labelled) == 1
    if judge(units, labelled[0], is_alone=is_alone and len(labelled[0].choices) == 1) is False:
        return
    if first.is_labelled and not _opens_list(units, labelled) and not _is_inline_list(units, first):
        _state_first(units, lines, findings)
    elif is_alone and not first.is_labelled:
        _read_alone(units, lines, labelled[0], findings)


def _read_alone(units: Units, lines: Sequence[Line], line: Line, findings: Findings) -> None:
    """Note the only label that opens a line: the last line, or one after a verb and a colon."""
    if line is not lines[-1]:
        if _follows_cue(units, lines, line):
            _state_line(line, "after_colon", Weight.VERDICT, findings)
    elif units.words[units.size - 1] not in COLONS and not _is_inline_list(units, line):
        _state_line(line, "last_label", Weight.DEFINITE, findings)


def _follows_cue(units: Units, lines: Sequence[Line], line: Line) -> bool:
    """Say whether the line before ends with a verb and a colon: `The answer is:`."""
    before = lines[lines.index(line) - 1].end
    is_verb = units.words[before - 1] in COLONS and units.roles[before - 2] & BE
    return bool(is_verb) and units.words[line.begin] not in MATHEMATICS


def _is_listed(units: Units, item: Line) -> bool:
    """Say whether an item is just an option, without a remark on it."""
    is_short = not units.option_texts and item.end - item.begin <= _SHORT_ITEM
    return item.is_echo or item.is_bare or (is_short and judge(units, item) is not False)


def _state_first(units: Units, lines: Sequence[Line], findings: Findings) -> None:
    """Note a label that opens the text: several choices if others are listed right after it."""
    choices = list(lines[0].choices)
    end = lines[0].label_end
    for line in lines[1:]:
        if not line.choices or not _is_listed(units, line):
            break
        choices += line.choices
        end = line.end
    distinct = tuple(dict.fromkeys(choices))
    is_repeated = len(distinct) < len(choices)
    if is_repeated or len(distinct) == len(lines[0].choices):
        _state_line(lines[0], "first_label", Weight.DEFINITE, findings)
        return
    statement = Statement(distinct, "first_label", Weight.DEFINITE, lines[0].begin, end)
    findings.statements.append(statement)


def judge(units: Units, line: Line, *, is_alone: bool = False) -> bool | None:
    """Return whether a line of a list calls its option right or wrong; None if it says neither.

    A line that stands alone says so only with a verb: `B. False` may be an option.
    """
    if line.sign:
        return line.sign not in _NEGATIVE_SIGNS
    begin = line.label_end
    first = units.skip(begin, _LABELLED)
    if is_alone and not units.roles[first] & (BE | NOT):
        return None
    return _find_verdict(units, line, begin)


def _find_verdict(units: Units, line: Line, begin: int) -> bool | None:
    """Return the first verdict on a line before another label is named."""
    for at in range(begin, line.end):
        if units.labels[at] not in {None, *line.choices} and not units.token(at).islower():
            break
        if line.is_inline and _ends_item(units, line, at):
            break
        if units.roles[at] & _VERDICTS and _ends_verdict(units, at + 1):
            before = units.skip_back(at - 1, DRESS)
            is_negated = units.roles[before] & (NOT | WRONG) == NOT
            return not units.roles[at] & WRONG and not is_negated
    return None


def _ends_item(units: Units, line: Line, at: int) -> bool:
    """Say whether the text of an item within a line ends here."""
    has_text = at > line.label_end or line.begin in units.text_ends
    return has_text and units.words[at] in STOPS


def _ends_verdict(units: Units, at: int) -> bool:
    """Say whether a verdict is complete before this unit: `correct because`, not `correct way`."""
    if not is_word(units, at) or units.labels[at] is not None:
        return True
    return bool(units.roles[at] & _AFTER_VERDICT)


def _opens_list(units: Units, labelled: Sequence[Line]) -> bool:
    """Say whether the first label is the first of several that are listed: options, or steps."""
    choices = units.choices.choices
    if labelled[0].choices[0] != choices[0]:
        return False
    other_items = {line.choices[0] for line in labelled} - {choices[0]}
    if choices[0].isdecimal() or labelled[0].is_echo:
        return bool(other_items)
    return len(other_items) >= max(1, min(2, len(choices) - 1))


def _is_inline_list(units: Units, line: Line) -> bool:
    """Say whether other labels follow on the line, marked as the first is: `A) Paris B) Lyon`."""
    first = find_label(units, line.names.begin)
    mark = _find_mark(units, first) if first is not None else ""
    if not mark:
        return False
    other_items = 0
    for at in range(line.label_end + 1, line.end - 1):
        if units.labels[at] not in {None, *line.choices} and _find_mark(units, at) == mark:
            other_items += 1
    return other_items > (mark in DASHES)
