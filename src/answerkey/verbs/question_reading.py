"""The questions of a dataset as an audit sees them: text, options, labels, and which option is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from answerkey.evaluate import read_option_cell, write_text
from answerkey.templates import RowTrouble
from answerkey.types import Samples
from answerkey.verbs.question_fields import QuestionFields, TruthForm

_LABELLED = re.compile(r"\s*[(\[]?([A-Z]|\d)[)\].:\u3001\uff0e]\s*")


@dataclass(frozen=True)
class Question:
    """One question. `truth` is the place of the right option, None when it cannot be told.

    `said` is the truth as the dataset writes it, None when there is none.
    """

    text: str | None
    options: tuple[str | None, ...]
    labels: tuple[str, ...]
    truth: int | None
    said: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the options, empty where there is none."""
        return tuple(one or "" for one in self.options)


def read_questions(samples: Samples, fields: QuestionFields) -> list[Question]:
    """Return the questions of some samples."""
    texts = [template.values(samples) for template in fields.questions]
    options = [template.values(samples) for template in fields.options]
    blank: list[object] = [None] * len(samples)
    labels = blank if fields.labels is None else fields.labels.values(samples)
    truths = blank if fields.truth is None else fields.truth.values(samples)
    return [
        _read_question(
            [column[row] for column in texts],
            [column[row] for column in options],
            _known(labels[row]),
            truth=_known(truths[row]),
            fields=fields,
        )
        for row in range(len(samples))
    ]


def _known(value: object) -> object:
    return None if isinstance(value, RowTrouble) else value


def _read_question(
    texts: Sequence[object], cells: Sequence[object], labels: object, *, truth: object, fields: QuestionFields
) -> Question:
    known = [str(one) for one in map(_known, texts) if one is not None and str(one).strip()]
    # The question itself comes last; a passage alone asks nothing.
    text = "\n".join(known) if texts and _known(texts[-1]) is not None else None
    if len(cells) == 1:
        options, names = read_option_cell(_known(cells[0]))
    else:
        options, names = [write_text(_known(one)) for one in cells], list(fields.names)
    told = [one for one in read_option_cell(labels)[0] or () if one is not None]
    listed: list[str | None] = list(options or ())
    names = [one.strip() for one in (told or names)] or name_options(max(len(listed), 0))
    if not told and len(names) == len(listed):
        listed = strip_labels(listed, names)
    said = write_text(truth)
    place = find_place(said, names, listed, fields.truth_form)
    return Question(text, tuple(listed), tuple(names), place, said)


def name_options(count: int) -> list[str]:
    """Return letters for so many options; numbers where there are more than letters."""
    if count <= len(ascii_uppercase):
        return list(ascii_uppercase[:count])
    return [str(number) for number in range(1, count + 1)]


def strip_labels(options: Sequence[str | None], names: Sequence[str]) -> list[str | None]:
    """Return options without the labels that they begin with, if all do, in order: `(A)…`, `(B)…`."""
    found = [_LABELLED.match(one or "") for one in options]
    if not options or [match and match[1] for match in found] != list(names):
        return list(options)
    return [(one or "")[match.end() :] if match else one for one, match in zip(options, found, strict=True)]


def find_place(
    said: str | None, labels: Sequence[str], options: Sequence[str | None], form: TruthForm
) -> int | None:
    """Return the place of the option that a truth means, None when it means none of them."""
    if said is None:
        return None
    wanted = said.strip()
    if form == "text":
        texts = [(one or "").strip() for one in options]
        return texts.index(wanted) if texts.count(wanted) >= 1 else None
    if form == "label":
        return list(labels).index(wanted) if wanted in labels else None
    place = int(wanted) - (form == "number") if re.fullmatch(r"\d{1,4}", wanted) else -1
    return place if 0 <= place < max(len(options), len(labels)) else None


def guess_form(questions: Sequence[Question]) -> TruthForm:
    """Return how most truths name their option; a place is counted from 1 only if 0 never occurs."""
    known = [one for one in questions if one.said is not None]
    forms: tuple[TruthForm, ...] = ("label", "index", "number", "text")
    hits = {form: sum(_fits(one, form) for one in known) for form in forms}
    if 2 * hits["label"] >= len(known):
        return "label"
    if any((one.said or "").strip() == "0" for one in known):
        hits["number"] = 0
    elif hits["number"] >= hits["index"]:
        hits["index"] = 0
    return max(forms, key=lambda form: hits[form])


def _fits(question: Question, form: TruthForm) -> bool:
    return find_place(question.said, question.labels, question.options, form) is not None
