"""The extraction rule `stated_answer`: the answer that a text states, wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.scorers.characters import WHITE_SPACE
from answerkey.scorers.heads import Reading
from answerkey.scorers.stated.deciding import NOTHING, decide
from answerkey.scorers.stated.labels import Labels, read_labels
from answerkey.scorers.stated.markup import find_region, find_turns
from answerkey.scorers.stated.option_texts import OptionTexts, read_texts
from answerkey.scorers.stated.places import Scan
from answerkey.scorers.stated.statements import Decision
from answerkey.scorers.stated.units import Units, split_units


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
    if not turns and region == (0, units.size):
        return _place(decide(Scan(units, labels, texts)), units, 0)
    return _read_turns(units, region, turns, labels=labels, texts=texts)


def _read_turns(
    units: Units, region: tuple[int, int], turns: Sequence[int], *, labels: Labels, texts: OptionTexts
) -> Reading:
    """Return what the first turn states that states anything; what follows is another question."""
    begins = sorted({region[0], *turns})
    reading = Reading(reason=NOTHING)
    for begin, end in zip(begins, [*begins[1:], region[1]], strict=True):
        if end <= begin:
            continue
        offset = units.start(begin)
        part = split_units(units.text[offset : units.ends[end - 1]], labels)
        reading = _place(decide(Scan(part, labels, texts)), part, offset)
        if reading.reason != NOTHING:
            break
    return reading


def _place(decision: Decision, units: Units, offset: int) -> Reading:
    if decision.end <= decision.begin:
        return Reading(decision.choice, decision.reason, decision.part)
    span = offset + units.start(decision.begin), offset + units.ends[decision.end - 1]
    return Reading(decision.choice, decision.reason, decision.part, span)
