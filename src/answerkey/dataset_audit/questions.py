"""The questions of a dataset: where their parts are, what they contain, and what is wrong with
them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html.entities import html5

from answerkey.datasets import questions as ask
from answerkey.datasets.content import refuse_file
from answerkey.datasets.options import LABELLED, label_options, read_option_cell
from answerkey.datasets.recognition import recognise
from answerkey.datasets.rows import Rows
from answerkey.errors import DataError, listing
from answerkey.scorers import StringEqualsMcqa
from answerkey.solvers.choice_order import find_reference
from answerkey.templates import RowError, Template
from answerkey.types import Samples

# Where the parts are


@dataclass(frozen=True)
class QuestionFields:
    """Templates for the parts of a question.

    `options` is one template that yields the list, or one for each option. `labels`, if set, yields
    the labels of the options; without it they are `names`, or letters. `shown` says where each part
    is found. If the columns were `recognised`, the templates read fields derived from them.
    """

    questions: Sequence[Template]
    options: Sequence[Template]
    labels: Sequence[Template]
    truths: Sequence[Template]
    shown: Mapping[str, str]
    names: tuple[str, ...] = ()
    recognised: ask.QuestionColumns | None = None


def find_fields(rows: Rows, scorer: StringEqualsMcqa | None = None) -> QuestionFields:
    """Return where the parts are: as the task's scorer defines them, or else by common column
    names.
    """
    usual = ask.find_columns(tuple(rows.columns), ask.DATASET_ROLES)
    first = rows.slice(0, ask.LOOKED_AT)
    texts = recognise(first, roles=("passage", "question"), needs_all=False).columns
    templates = {}
    for role, name in {**usual.columns, **texts}.items():
        templates[role] = _compile(name, rows)
    if "question" not in templates:
        raise _refuse_question(rows)
    if scorer is not None:
        templates |= scorer.templates()
    options = _pick(templates, "options")
    names: tuple[str, ...] = ()
    if not options:
        options = [_compile(name, rows) for name in usual.spread]
        if max(map(len, usual.spread), default=0) == 1:
            names = usual.spread
    questions = _pick(templates, "passage", "question")
    labels = _pick(templates, "choices")
    truths = _pick(
        templates,
        "ground_truth_choice",
        "answer",
        "index",
        "key",
    )[:1]
    shown = {
        "question": _show_templates(questions),
        "options": _show_templates(options),
        "choices": _show_templates(labels),
        "truth": _show_templates(truths),
    }
    return QuestionFields(
        questions,
        options,
        labels,
        truths,
        shown,
        names,
    )


def _pick(templates: Mapping[str, Template], *roles: str) -> list[Template]:
    """Return the templates of those roles that have one."""
    return [templates[role] for role in roles if role in templates]


def _compile(name: str, rows: Rows) -> Template:
    """Return the template of a column, or of a path such as `question.stem`."""
    path = name.split(".")
    if name in rows.columns:
        path = [name]
    steps = "".join(f"[{step!r}]" for step in path)
    return Template.compile(f"{{{{ sample{steps} }}}}")


def _refuse_question(rows: Rows) -> DataError:
    hint = f"name it with `--column question=NAME`; columns: {listing(rows.columns)}"
    return refuse_file("E206", "no column holds the question", rows.file, hint)


def recognise_fields(rows: Rows, names_by_role: Mapping[str, str]) -> QuestionFields:
    """Return the parts of rows whose columns are recognised, or named by the caller."""
    columns = recognise(rows, names_by_role, needs_all=False)
    if "question" not in columns.columns:
        raise _refuse_question(rows)
    names = {}
    for part, name in columns.say().items():
        if not isinstance(name, str):
            name = ", ".join(name)  # noqa: PLW2901 - the same columns, as text
        names[part] = name
    parts = set(names)
    if columns.has("options"):
        parts |= {"options", "choices"}
    templates = {}
    for part in parts:
        templates[part] = Template.compile(f"{{{{ sample.{part} }}}}")
    question = names["question"]
    if "passage" in names:
        question = f"{names['passage']}, {question}"
    shown = {
        "question": question,
        "options": names.get("options", "none"),
        "choices": names.get("choices", "none"),
        "truth": names.get("truth", "none"),
    }
    return QuestionFields(
        questions=_pick(templates, "passage", "question"),
        options=_pick(templates, "options"),
        labels=_pick(templates, "choices"),
        truths=_pick(templates, "truth"),
        shown=shown,
        recognised=columns,
    )


def _show_templates(templates: Sequence[Template]) -> str:
    shown = []
    for template in templates:
        name = str(template.source)
        if template.path is not None:
            name = ".".join(map(str, template.path))
        shown.append(name)
    return ", ".join(shown) or "none"


# What they contain


@dataclass(frozen=True)
class AuditedQuestion:
    """One question. `truth` is the position of the right option, None if it is unknown.

    `answer` is the truth as the dataset writes it, None if there is none.
    """

    text: str | None
    options: tuple[str | None, ...]
    labels: tuple[str, ...]
    truth: int | None
    answer: str | None

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts of the options; a missing text is empty."""
        return tuple(option or "" for option in self.options)

    @cached_property
    def folded_texts(self) -> tuple[str, ...]:
        """The texts of the options, with character width and white space normalised."""
        return tuple(map(fold_spaces, self.texts))

    @property
    def size(self) -> int:
        """The number of choices."""
        return max(len(self.options), len(self.labels))


def read_questions(samples: Samples, fields: QuestionFields) -> list[AuditedQuestion]:
    """Return the questions of some samples."""
    if fields.recognised is not None:
        samples = fields.recognised.derive(samples)
    count = len(fields.questions)
    templates = (*fields.questions, *fields.options, *fields.labels, *fields.truths)
    columns = [template.values(samples) for template in templates]
    questions = []
    for row in zip(*columns, strict=True):
        cells = [None if isinstance(cell, RowError) else cell for cell in row]
        answer = None
        if fields.truths:
            truth = cells.pop()
            answer = None if truth is None else str(truth)
        options, labels = _read_options(cells[count:], fields)
        place = None
        if answer is not None and answer.strip() in labels:
            place = labels.index(answer.strip())
        question = AuditedQuestion(
            text=_join_texts(cells[:count]),
            options=tuple(options),
            labels=tuple(labels),
            truth=place,
            answer=answer,
        )
        questions.append(question)
    return questions


def _join_texts(cells: Sequence[object]) -> str | None:
    """Return the passage and, below it, the question; None without a question, which is the last
    cell.
    """
    if cells[-1] is None:
        return None
    texts = []
    for cell in cells:
        text = "" if cell is None else str(cell)
        if text.strip():
            texts.append(text)
    return "\n".join(texts)


def _read_options(
    cells: list[object],
    fields: QuestionFields,
) -> tuple[list[str | None], list[str]]:
    """Return the texts of the options and their labels; the labels are in the last cell."""
    cell_labels: list[str | None] = []
    if fields.labels:
        cell_labels = read_option_cell(cells.pop())[0] or []
    if len(fields.options) == 1:
        listed, names = read_option_cell(cells[0])
        options = listed or []
    else:
        options = [None if cell is None else str(cell) for cell in cells]
        names = list(fields.names)
    if cell_labels:
        return options, [label.strip() for label in cell_labels if label is not None]
    labels = list(map(str.strip, names or label_options(len(options)) or ()))
    return strip_labels(options, labels), labels


def strip_labels(options: Sequence[str | None], names: Sequence[str]) -> list[str | None]:
    """Return options without their labels, if they all begin with one, in order: `(A)…`, `(B)…`."""
    stripped: list[str | None] = []
    for option, name in zip(options, names, strict=False):
        match = LABELLED.match(option or "")
        if match is not None and match[1] == name:
            stripped.append(match.string[match.end() :])
    if len(stripped) == len(names) == len(options):
        return stripped
    return list(options)


# What is wrong with them

#: What table tools write for an empty cell.
_EMPTY_WORDS = frozenset({"", "nan", "NaN", "null", "NULL"})


def find_oddities(question: AuditedQuestion) -> dict[str, str]:
    """Return what is wrong with a question: a note for each kind of oddity."""
    oddities: dict[str, str] = {}
    # The note shows the first damaged text.
    for text in reversed((question.text or "", *question.texts)):
        oddities |= find_damage(text)
    if _is_empty(question.text):
        oddities["MISSING_QUESTION"] = ""
    if _is_empty(question.answer):
        oddities["MISSING_TRUTH"] = ""
    elif question.size and question.truth is None:
        choices = ", ".join(question.labels)
        oddities["TRUTH_NOT_A_CHOICE"] = f"{question.answer!r}, choices {choices}"
    return oddities | _find_option_oddities(question)


def _find_option_oddities(question: AuditedQuestion) -> dict[str, str]:
    """Return what is wrong with the options and their labels."""
    texts = question.texts
    labels = question.labels
    oddities: dict[str, str] = {}
    empty = []
    for label, text in zip(labels, texts, strict=False):
        if _is_empty(text):
            empty.append(label)
    if empty:
        oddities["MISSING_OPTION"] = f"option {', '.join(empty)}"
    if texts and len(texts) != len(labels):
        oddities["CHOICES_DO_NOT_FIT"] = f"{len(texts)} options, {len(labels)} labels"
    if question.size == 1:
        oddities["ONE_CHOICE"] = "".join(labels)
    reference = find_reference(texts, labels)
    if reference is not None:
        oddities[reference] = next(text for text in texts if find_reference([text], labels))
    return oddities | _find_repeated_options(question)


def _find_repeated_options(question: AuditedQuestion) -> dict[str, str]:
    folded = [text.rstrip(".") for text in question.folded_texts]
    repeated = [text for text in folded if text and folded.count(text) > 1]
    if not repeated:
        return {}
    oddities = {"DUPLICATE_OPTIONS": repr(repeated[0])}
    if question.truth is not None:
        for right in folded[question.truth : question.truth + 1]:
            if right in repeated:
                oddities["RIGHT_OPTION_TWICE"] = repr(right)
    return oddities


def _is_empty(text: str | None) -> bool:
    return text is None or text.strip() in _EMPTY_WORDS


def fold_spaces(text: str) -> str:
    """Return a text with character width and white space normalised."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.split())


def fold_text(text: str) -> str:
    """Return a text normalised, and without a full stop at its end.

    Case is kept: *Bb* and *bb* are two options.
    """
    return fold_spaces(text).rstrip(".")


# Damage done to texts by wrong encodings.

_ENTITY = re.compile(r"&(?:([A-Za-z]{2,8})|#\d{2,6}|#[xX][0-9a-fA-F]{2,6});")
_ODD_ASCII = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|{_ENTITY.pattern}")
#: Control characters other than line breaks, and invisible marks; joiners are part of scripts and
#: emoji.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_FOREIGN_RUN = re.compile(r"[^\x00-\x7f]{2,}")
#: The first byte of a multi-byte character, read as Latin-1; only such runs can be mojibake.
_LEAD = re.compile("[\xc2-\xf4]")
_SHOWN = 12


def find_damage(text: str) -> dict[str, str]:
    """Return each kind of damage, with an excerpt that shows it."""
    damage: dict[str, str] = {}
    if text.isascii() and not _ODD_ASCII.search(text):
        return damage
    for kind, place in _locate_damage(text).items():
        start = max(0, place - _SHOWN)
        damage[kind] = text[start : place + _SHOWN]
    return damage


def _locate_damage(text: str) -> dict[str, int]:
    """Return the position of the first damage of each kind."""
    places = {}
    if "\ufffd" in text:
        places["REPLACEMENT_CHARACTER"] = text.index("\ufffd")
    for run in _FOREIGN_RUN.finditer(text):
        if _is_mojibake(run[0]):
            places.setdefault("MOJIBAKE", run.start())
    control = _CONTROL.search(text)
    if control and "MOJIBAKE" not in places:
        places["CONTROL_CHARACTER"] = control.start()
    for entity in _ENTITY.finditer(text):
        if entity[1] is None or f"{entity[1]};" in html5:
            places.setdefault("HTML_ENTITY", entity.start())
    return places


def _is_mojibake(run: str) -> bool:
    """Return whether characters beyond ASCII are UTF-8 that was read as Latin-1 or Windows-1252."""
    if not _LEAD.search(run):
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            meant = run.encode(encoding).decode("utf-8")
        except (UnicodeEncodeError, UnicodeDecodeError):
            continue
        return len(meant) < len(run)
    return False
