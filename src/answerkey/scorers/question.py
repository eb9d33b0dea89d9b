"""The multiple-choice question that a task makes of a sample: labels, option texts and truths.

Datasets spell choices and ground truths in many ways: lists, JSON text, Python literals, integers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from answerkey.reader.characters import compose, strip_white_space
from answerkey.reader.explain import shorten
from answerkey.scorers.base import FaultReason, RowFault
from answerkey.templates import RowError, Template
from answerkey.text import parse_python
from answerkey.types import OPTION_TEXT_KEYS, Samples

#: Longer text in a cell is no list of labels; parsing it would only cost time.
LONGEST_LIST = 100_000
#: A question has no more choices than this.
MOST_CHOICES = 1_000
_LIST_HINT = 'write a list of single characters such as ["A", "B", "C", "D"]'
NOUNS: dict[FaultReason, str] = {"BAD_CHOICES": "choice", "BAD_TRUTH": "ground truth"}

Labels = tuple[str, ...]
#: Raises `RowFault` for labels that a scorer cannot use: those of the choices, or the truth alone.
LabelCheck = Callable[[Labels, FaultReason], None]


@dataclass(frozen=True, slots=True)
class Question:
    """What a task makes of one sample.

    A label is text of any length. `labels` and `truths` are empty where the sample has none that
    can be used, and `faults` say why. `trimmed` names the fields whose values have white space
    around them.
    """

    labels: Labels = ()
    truths: frozenset[str] = frozenset()
    options: Labels | None = None
    faults: tuple[RowFault, ...] = ()
    trimmed: frozenset[str] = frozenset()

    @property
    def truth(self) -> str | None:
        """The right label, or one of several; None where there is none."""
        return next(iter(self.truths), None)


def build_questions(
    templates: Mapping[str, Template], samples: Samples, check: LabelCheck
) -> list[Question]:
    """Return the question of each sample.

    Where options were put in another order, the truth moves along.
    """
    written = samples.as_written()
    columns = {}
    for name, template in templates.items():
        # Option texts are shown in their new order, labels stay where they are.
        columns[name] = template.values(samples if name == "options" else written)
    orders = None if samples.orders is None else samples.orders["order"].to_list()
    questions = []
    for row in range(len(samples)):
        cells = {name: column[row] for name, column in columns.items()}
        question = build_question(cells, check)
        if orders is not None and len(orders[row]) == len(question.labels):
            written_labels = [question.labels[place] for place in orders[row]]
            moved = dict(zip(written_labels, question.labels, strict=True))
            truths = frozenset(moved.get(truth, truth) for truth in question.truths)
            question = replace(question, truths=truths)
        questions.append(question)
    return questions


def build_question(cells: Mapping[str, object], check: LabelCheck) -> Question:
    """Return the question that the values of a sample make, by field.

    A `RowError` is the value of a template that failed.
    """
    choices = cells.get("choices")
    truth = cells.get("ground_truth_choice")
    # As in nearly every row, and always with the same few choices.
    if type(truth) is str and type(choices) is list and {*map(type, choices)} == {str}:
        question = _recall_question(tuple(choices), truth, check)
    else:
        question = _parse_question(cells, check)
    options = cells.get("options")
    if options is None:
        return question
    if isinstance(options, RowError):
        fault = RowFault.from_error("options", options)
        return replace(question, faults=(*question.faults, fault))
    return replace(question, options=read_options(options))


@lru_cache(maxsize=4096)
def _recall_question(
    choices: Labels,
    truth: str,
    check: LabelCheck,
) -> Question:
    return _parse_question({"choices": choices, "ground_truth_choice": truth}, check)


def _parse_question(cells: Mapping[str, object], check: LabelCheck) -> Question:
    """Return the question that choices and truth make, each of which may be missing."""
    faults = []
    trimmed = set()
    parsed = {}
    for field, parse in (("choices", parse_choices), ("ground_truth_choice", parse_truth)):
        if field not in cells:
            continue
        value = cells[field]
        try:
            if isinstance(value, RowError):
                raise RowFault.from_error(field, value)
            parsed[field], is_trimmed = parse(value, check)
            if is_trimmed:
                trimmed.add(field)
        except RowFault as fault:
            fault.field = field
            faults.append(fault)
    labels = parsed.get("choices", ())
    truths = parsed.get("ground_truth_choice", ())
    if labels and not set(truths).issubset(labels):
        listed = shorten(list(labels))
        message = f"ground truth {truths[0]!r} is not among the choices {listed}"
        faults.append(RowFault("BAD_TRUTH", message, field="ground_truth_choice"))
    return Question(
        labels,
        frozenset(truths),
        None,
        tuple(faults),
        frozenset(trimmed),
    )


def parse_choices(value: object, check: LabelCheck) -> tuple[Labels, bool]:
    """Return the labels of a list, and whether white space was cut off. Raise `RowFault`."""
    cells = _parse_list(value)
    if not cells:
        raise RowFault("BAD_CHOICES", "the list of choices is empty", _LIST_HINT)
    if len(cells) > MOST_CHOICES:
        message = f"there are {len(cells):,} choices, and at most {MOST_CHOICES:,} are read"
        raise RowFault("BAD_CHOICES", message, "offer fewer choices")
    labels, is_trimmed = _parse_labels(cells, "BAD_CHOICES", check)
    for position, label in enumerate(labels):
        if label in labels[:position]:
            message = f"choice {label!r} appears twice in {shorten(list(labels))}"
            raise RowFault("BAD_CHOICES", message, "choices must be distinct")
    return labels, is_trimmed


def parse_truth(value: object, check: LabelCheck) -> tuple[Labels, bool]:
    """Return the ground truth, and whether white space was cut off. Raise `RowFault`."""
    return _parse_labels([value], "BAD_TRUTH", check)


def _parse_labels(
    cells: Sequence[object], reason: FaultReason, check: LabelCheck
) -> tuple[Labels, bool]:
    """Return cells as labels, trimmed and in NFC, and whether white space was cut off."""
    labels = []
    is_trimmed = False
    for cell in cells:
        text = _read_text(cell, reason)
        label = strip_white_space(text)
        if not label:
            hint = "every choice is one character, such as 'A'"
            raise RowFault(reason, f"{NOUNS[reason]} is empty", hint)
        labels.append(compose(label))
        is_trimmed |= label != text
    check(tuple(labels), reason)
    return tuple(labels), is_trimmed


def _read_text(cell: object, reason: FaultReason) -> str:
    """Return a cell that is text or an integer as text. Raise `RowFault`."""
    noun = NOUNS[reason]
    if cell is None:
        hint = "every row needs one; fill the cell or filter the row out"
        raise RowFault(reason, f"{noun} is null", hint)
    if isinstance(cell, str | int) and not isinstance(cell, bool):
        return str(cell)
    message = f"{noun} {shorten(cell)} is not text or an integer"
    raise RowFault(reason, message, f"write the {noun} as text, for example 'A' or '1'")


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
            text = next((cell[key] for key in OPTION_TEXT_KEYS if key in cell), cell)
        texts.append("" if text is None else str(text))
    return tuple(texts)


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
