"""The multiple-choice question that a task makes of a sample: labels, option texts and the right label.

Datasets spell choices and ground truths in many ways: lists, JSON text, Python literals, integers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache

from answerkey.reader.characters import LONGEST_CHARACTER, compose, measure_character, strip_white_space
from answerkey.reader.explain import shorten
from answerkey.scorers.base import FaultReason, RowFault
from answerkey.templates import RowError, Template
from answerkey.text import parse_python
from answerkey.types import OPTION_TEXT_KEYS, Samples

#: Longer text in a cell is no list of single characters; parsing it would only cost time.
LONGEST_LIST = 100_000
#: A question has no more choices than this.
MOST_CHOICES = 1_000
_NUMBER = re.compile("[1-9][0-9]{0,3}")
_LONGER = "for longer answers use the scorer `string_equals`"
ADVICE = f"only single-character choices are supported here; {_LONGER}"
_LIST_HINT = 'write a list of single characters such as ["A", "B", "C", "D"]'
#: The fields of a scorer that make a question, in the order in which faults are reported.
QUESTION_FIELDS = ("choices", "ground_truth_choice", "options")


@dataclass(frozen=True, slots=True)
class Question:
    """What a task makes of one sample.

    `labels` and `truths` are empty where the sample has none that can be used, and `faults` say why.
    `trimmed` names the fields whose values have white space around them.
    """

    labels: tuple[str, ...] = ()
    truths: frozenset[str] = frozenset()
    options: tuple[str, ...] | None = None
    faults: tuple[RowFault, ...] = ()
    trimmed: frozenset[str] = field(default=frozenset())

    @property
    def truth(self) -> str | None:
        """The right label; None where there is none."""
        return next(iter(self.truths), None)


def build_questions(
    templates: Mapping[str, Template], samples: Samples, *, is_numbered: bool
) -> Iterator[Question]:
    """Yield the question of each sample; where options were put in another order, the truth moves along."""
    written = samples.as_written()
    values: dict[str, list[object]] = {}
    for name in QUESTION_FIELDS:
        if name in templates:
            # Option texts are shown in their new order, labels stay where they are.
            values[name] = templates[name].values(samples if name == "options" else written)
    orders = None if samples.orders is None else samples.orders["order"].to_list()
    for position in range(len(samples)):
        cells = {name: column[position] for name, column in values.items()}
        question = build_question(cells, is_numbered=is_numbered)
        if orders is not None:
            order = orders[position]
            moved = [move_label(truth, question.labels, order) for truth in question.truths]
            question = replace(question, truths=frozenset(moved))
        yield question


def build_question(cells: Mapping[str, object], *, is_numbered: bool) -> Question:
    """Return the question that the values of a sample make, by field; a `RowError` is a value that failed."""
    choices, truth = cells.get("choices"), cells.get("ground_truth_choice")
    if type(truth) is str and type(choices) is list and {*map(type, choices)} == {str}:  # nearly every row
        question = _recall_question(tuple(choices), truth, is_numbered=is_numbered)
    else:
        question = _parse_question(cells, is_numbered=is_numbered)
    if "options" not in cells:
        return question
    options: tuple[str, ...] | None = None
    faults = question.faults
    if isinstance(cells["options"], RowError):
        faults = (*faults, RowFault.from_error("options", cells["options"]))
    else:
        options = read_options(cells["options"])
    return Question(question.labels, question.truths, options, faults, question.trimmed)


@lru_cache(maxsize=4096)
def _recall_question(choices: tuple[str, ...], truth: str, *, is_numbered: bool) -> Question:
    return _parse_question({"choices": choices, "ground_truth_choice": truth}, is_numbered=is_numbered)


def _parse_question(cells: Mapping[str, object], *, is_numbered: bool) -> Question:
    """Return the question that choices, then truth, make; each of them may be missing, or have failed."""
    faults: list[RowFault] = []
    trimmed: set[str] = set()
    labels: tuple[str, ...] = ()
    truths: frozenset[str] = frozenset()
    for name in ("choices", "ground_truth_choice"):
        if name not in cells:
            continue
        value = cells[name]
        is_trimmed = False
        try:
            if isinstance(value, RowError):
                raise RowFault.from_error(name, value)
            if name == "choices":
                labels, is_trimmed = parse_choices(value, is_numbered=is_numbered)
            else:
                truth, is_trimmed = parse_truth(value, is_numbered=is_numbered)
                truths = frozenset([truth])
                if labels:
                    check_truth(truth, labels)
        except RowFault as fault:
            fault.field = name
            faults.append(fault)
        if is_trimmed:
            trimmed.add(name)
    return Question(labels, truths, None, tuple(faults), frozenset(trimmed))


def parse_choices(value: object, *, is_numbered: bool = False) -> tuple[tuple[str, ...], bool]:
    """Return the labels that a cell or a template yields, and whether white space was cut; raise `RowFault`.

    They are trimmed, in NFC and in their order: single characters or, with `is_numbered`, 1, 2, … as well.
    """
    cells = _parse_list(value)
    if not cells:
        raise RowFault("BAD_CHOICES", "the list of choices is empty", _LIST_HINT)
    if len(cells) > MOST_CHOICES:
        message = f"there are {len(cells):,} choices, and at most {MOST_CHOICES:,} are read"
        raise RowFault("BAD_CHOICES", message, "offer fewer choices")
    numbers = [str(number) for number in range(1, len(cells) + 1)]
    if is_numbered and numbers == [str(cell) for cell in cells]:
        return tuple(numbers), False
    parsed = [_parse_character(cell, "BAD_CHOICES", "choice") for cell in cells]
    labels = tuple(label for label, _ in parsed)
    if len(set(labels)) < len(labels):
        twice = next(label for position, label in enumerate(labels) if label in labels[:position])
        message = f"choice {twice!r} appears twice in {shorten(list(labels))}"
        raise RowFault("BAD_CHOICES", message, "choices must be distinct")
    return labels, any(is_trimmed for _, is_trimmed in parsed)


def parse_truth(value: object, *, is_numbered: bool = False) -> tuple[str, bool]:
    """Return the ground truth of a cell or a template, and whether white space was cut; raise `RowFault`."""
    if is_numbered and type(value) in {int, str} and _NUMBER.fullmatch(str(value)):
        return str(value), False
    return _parse_character(value, "BAD_TRUTH", "ground truth")


def check_truth(truth: str, labels: Sequence[str]) -> None:
    """Raise `RowFault` unless the truth is one of the labels."""
    if truth not in labels:
        message = f"ground truth {truth!r} is not among the choices {shorten(list(labels))}"
        raise RowFault("BAD_TRUTH", message, field="ground_truth_choice")


def read_options(value: object) -> tuple[str, ...] | None:
    """Return the texts of the options if the value is a list (or the text of a list), else None.

    An option may be a mapping that holds its text, such as `{key: A, text: Paris}`.
    """
    try:
        cells = _parse_list(value)
    except RowFault:
        return None
    texts: list[str] = []
    for cell in cells:
        text = cell
        if isinstance(cell, Mapping):
            text = next((cell[key] for key in OPTION_TEXT_KEYS if key in cell), cell)
        texts.append("" if text is None else str(text))
    return tuple(texts)


def move_label(label: str, labels: Sequence[str], order: Sequence[int]) -> str:
    """Return what the option with this label in the file is called in this order."""
    if label not in labels or len(order) != len(labels):
        return label
    return labels[list(order).index(labels.index(label))]


def _parse_list(value: object) -> Sequence[object]:
    """Return a list, or the list that JSON or Python reads in a text. Raise `RowFault`."""
    if isinstance(value, str) and len(value) <= LONGEST_LIST:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            with suppress(ValueError):
                value = parse_python(strip_white_space(str(value)))
    if isinstance(value, list | tuple):
        return value
    shown = "null" if value is None else f"{shorten(value)}, not a list"
    raise RowFault("BAD_CHOICES", f"the choices are {shown}", _LIST_HINT)


def _parse_character(cell: object, reason: FaultReason, noun: str) -> tuple[str, bool]:
    """Return the one character of a cell, and whether white space was cut off around it."""
    if type(cell) is str and len(cell) == 1 and "!" <= cell <= "~":  # nearly every label
        return cell, False
    if cell is None:
        raise RowFault(reason, f"{noun} is null", "every row needs one; fill the cell or filter the row out")
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        message = f"{noun} {shorten(cell)} is {_describe_kind(cell)}, not text or an integer"
        raise RowFault(reason, message, f"write the {noun} as text, for example 'A' or '1'")
    text = str(cell)
    label = strip_white_space(text)
    if not label:
        raise RowFault(reason, f"{noun} is empty", "every choice is one character, such as 'A'")
    if measure_character(label) != len(label) or len(label) > LONGEST_CHARACTER:
        hint = f"write the label of a choice, such as 'A'; {_LONGER}"
        if reason == "BAD_CHOICES":
            hint = ADVICE
        raise RowFault(reason, f"{noun} {shorten(label)} has more than one character", hint)
    return compose(label), text != label


def _describe_kind(cell: object) -> str:
    """Return what a cell is that cannot be a label."""
    if isinstance(cell, bool):
        return "true/false"
    if isinstance(cell, float):
        return "a number with decimals"
    if isinstance(cell, list | tuple | dict | set):
        return "a nested value"
    return f"a {type(cell).__name__}"
