"""The multiple-choice question that a task makes of a sample: labels, option texts and truths.

Datasets spell choices and ground truths in many ways: lists, JSON text, Python literals, integers.
Which labels are admitted is decided here alone; that the extraction rules can read them is up to
`reader`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from answerkey.reader.characters import WHITE_SPACE, compose, find_first_label
from answerkey.reader.explain import shorten
from answerkey.scorers.base import FaultReason, RowFault
from answerkey.templates import RowError
from answerkey.text import parse_python
from answerkey.types import OPTION_TEXT_KEYS

#: Longer text in a cell is no list of labels; parsing it would only cost time.
LONGEST_LIST = 100_000
#: A question has no more choices than this.
MOST_CHOICES = 1_000
_NOUNS: dict[FaultReason, str] = {
    "BAD_CHOICES": "choice",
    "BAD_TRUTH": "ground truth",
}

Labels = tuple[str, ...]
#: Raises `RowFault` for labels that a rule cannot read: those of the choices, or the truth alone.
LabelCheck = Callable[[Labels, FaultReason], None]

# Which labels a rule can read.

#: What is wrong with one sample: the dataset's fault, not the model's.
FAULTS: dict[str, str] = {
    "BAD_TRUTH": "the ground truth of this row is not one single character out of its choices",
    "BAD_CHOICES": "the choices of this row are not a list of distinct single characters",
    "TEMPLATE_FAILED": "a template of the scorer could not be rendered on this row",
}
_LIST_HINT = 'write a list of single characters such as ["A", "B", "C", "D"]'
_EMPTY_HINT = "every choice is one character, such as 'A'"
_LONGER = "for longer answers use the scorer `string_equals`"
_LENGTH_HINTS: dict[FaultReason, str] = {
    "BAD_CHOICES": f"only single-character choices are supported here; {_LONGER}",
    "BAD_TRUTH": f"write the label of a choice, such as 'A'; {_LONGER}",
}
_NUMBER = re.compile("[1-9][0-9]{0,3}")


def check_characters(labels: Labels, reason: FaultReason) -> None:
    """Raise `RowFault` unless every label is a single character."""
    for label in labels:
        length = len(label)
        if length == 1:
            continue
        if find_first_label(label) != (0, length):
            message = f"{_NOUNS[reason]} {shorten(label)} has more than one character"
            raise RowFault(reason, message, _LENGTH_HINTS[reason])


def check_characters_or_numbers(labels: Labels, reason: FaultReason) -> None:
    """Raise `RowFault` unless the labels are single characters, or the numbers 1, 2, ….

    A truth may be any number: it must be one of the choices anyway.
    """
    if reason == "BAD_TRUTH" and _NUMBER.fullmatch(labels[0]):
        return
    numbers = map(str, range(1, len(labels) + 1))
    if labels != tuple(numbers):
        check_characters(labels, reason)


# What a sample says.


class Question(NamedTuple):
    """What a task makes of one sample.

    A label is text of any length. `truths` are all right labels, which a scorer may want to be one:
    `string_equals_mcqa` does, and `build_question` makes one at most. `labels` and `truths` are
    empty where the sample has none that can be used, and `faults` say why. `trimmed` names the
    fields whose values have white space around them.
    """

    labels: Labels = ()
    truths: frozenset[str] = frozenset()
    options: Labels | None = None
    faults: tuple[RowFault, ...] = ()
    trimmed: frozenset[str] = frozenset()

    def reorder(self, order: Sequence[int]) -> Question:
        """Return the question with its options in this order: the truth moves along."""
        if len(order) != len(self.labels):
            return self
        written = [self.labels[place] for place in order]
        moved = dict(zip(written, self.labels, strict=True))
        truths = [moved.get(truth, truth) for truth in self.truths]
        return self._replace(truths=frozenset(truths))


def build_question(
    choices: object,
    truth: object,
    check: LabelCheck,
    options: object = None,
) -> Question:
    """Return the question that these values of a sample make.

    A `RowError` is the value of a template that failed.
    """
    # As in nearly every row, and always with the same few choices.
    if type(truth) is str and type(choices) is list and {*map(type, choices)} == {str}:
        question = _recall_question(tuple(choices), truth, check)
    else:
        question = _parse_question(choices, truth, check)
    if options is None:
        return question
    if isinstance(options, RowError):
        fault = RowFault.from_error("options", options)
        return question._replace(faults=(*question.faults, fault))
    return question._replace(options=read_options(options))


def _parse_question(
    choices: object,
    truth: object,
    check: LabelCheck,
) -> Question:
    """Return the question that choices and truth make, with all that is wrong with them."""
    parsed: dict[str, Labels] = {}
    faults = []
    trimmed = set()
    cells = {"choices": choices, "ground_truth_choice": truth}
    for field, value in cells.items():
        try:
            if isinstance(value, RowError):
                raise RowFault.from_error(field, value)
            if field == "choices":
                labels, is_trimmed = parse_choices(value, check)
            else:
                labels, is_trimmed = parse_labels([value], "BAD_TRUTH", check)
        except RowFault as fault:
            fault.field = field
            faults.append(fault)
            continue
        parsed[field] = labels
        if is_trimmed:
            trimmed.add(field)
    labels = parsed.get("choices", ())
    truths = parsed.get("ground_truth_choice", ())
    if labels and not set(truths).issubset(labels):
        listed = shorten(list(labels))
        message = f"ground truth {truths[0]!r} is not among the choices {listed}"
        faults.append(RowFault("BAD_TRUTH", message, field="ground_truth_choice"))
    return Question(labels, frozenset(truths), None, tuple(faults), frozenset(trimmed))


_recall_question = lru_cache(maxsize=4096)(_parse_question)


def parse_choices(value: object, check: LabelCheck) -> tuple[Labels, bool]:
    """Return the labels of a list, and whether white space was cut off. Raise `RowFault`."""
    cells = _parse_list(value)
    if not cells:
        raise RowFault("BAD_CHOICES", "the list of choices is empty", _LIST_HINT)
    if len(cells) > MOST_CHOICES:
        message = f"there are {len(cells):,} choices, and at most {MOST_CHOICES:,} are read"
        raise RowFault("BAD_CHOICES", message, "offer fewer choices")
    labels, is_trimmed = parse_labels(cells, "BAD_CHOICES", check)
    for position, label in enumerate(labels):
        if label in labels[:position]:
            message = f"choice {label!r} appears twice in {shorten(list(labels))}"
            raise RowFault("BAD_CHOICES", message, "choices must be distinct")
    return labels, is_trimmed


def parse_labels(
    cells: Sequence[object],
    reason: FaultReason,
    check: LabelCheck,
) -> tuple[Labels, bool]:
    """Return cells as labels, trimmed and in NFC, and whether white space was cut off.

    A cell is text or an integer. Raise `RowFault`.
    """
    noun = _NOUNS[reason]
    labels = []
    is_trimmed = False
    for cell in cells:
        if cell is None:
            hint = "every row needs one; fill the cell or filter the row out"
            raise RowFault(reason, f"{noun} is null", hint)
        if isinstance(cell, bool) or not isinstance(cell, str | int):
            message = f"{noun} {shorten(cell)} is not text or an integer"
            raise RowFault(reason, message, f"write the {noun} as text, for example 'A' or '1'")
        text = str(cell)
        label = text.strip(WHITE_SPACE)
        if not label:
            raise RowFault(reason, f"{noun} is empty", _EMPTY_HINT)
        labels.append(compose(label))
        is_trimmed |= label != text
    check(tuple(labels), reason)
    return tuple(labels), is_trimmed


def read_options(value: object) -> Labels | None:
    """Return the texts of the options if the value is a list (or the text of a list), else None.

    An option may be a mapping that holds its text, such as `{key: A, text: Paris}`.
    """
    try:
        cells = _parse_list(value)
    except RowFault:
        return None
    texts = []
    for cell in cells:
        text = cell
        if isinstance(cell, Mapping):
            keys = [key for key in OPTION_TEXT_KEYS if key in cell]
            text = cell[keys[0]] if keys else cell
        texts.append("" if text is None else str(text))
    return tuple(texts)


def _parse_list(value: object) -> Sequence[object]:
    """Return a list, or the list that JSON or Python reads in a text. Raise `RowFault`."""
    if isinstance(value, str) and len(value) <= LONGEST_LIST:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            with suppress(ValueError):
                value = parse_python(str(value).strip(WHITE_SPACE))
    if isinstance(value, list | tuple):
        return value
    shown = "null" if value is None else f"{shorten(value)}, not a list"
    raise RowFault("BAD_CHOICES", f"the choices are {shown}", _LIST_HINT)
