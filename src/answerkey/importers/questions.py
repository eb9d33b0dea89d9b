"""The question of a record: from the columns of its row, or from its prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from answerkey.datasets.options import (
    LABELS,
    WRAPPED,
    Texts,
    find_lettered,
    label_options,
    list_values,
    read_mark,
    read_option_cell,
    split_question,
    take_labels,
    write_cell,
)
from answerkey.datasets.questions import (
    FOLDED,
    QUESTION_ROLES,
    QuestionColumns,
    find_columns,
    fold_name,
)

Row = Mapping[str, object]


@dataclass(slots=True)
class Question:
    """A question; `choices` are the labels, and `options` their texts in the same order.

    `truth` is a label if it names an option, otherwise what the table contains. `original` has the
    cells of the row that are not part of the question.
    """

    question: str | None = None
    choices: Texts | None = None
    options: Texts | None = None
    truth: str | None = None
    category: str | None = None
    original: Row = field(default_factory=dict)
    passage: str | None = None

    @property
    def has_several_truths(self) -> bool:
        """Whether the truth is several labels, joined by commas."""
        labels = [label.strip() for label in (self.truth or "").split(",")]
        return len(labels) > 1 and set(labels) <= set(self.choices or ())

    def take_choices(self, texts: Texts) -> None:
        """Replace the choices of the prompt by those that the log lists.

        Choices that are labels themselves leave the options to the prompt. Single characters that
        neither count nor label the prompt's options are options: `Q`, `O`, `N`.
        """
        stripped = tuple(map(str.strip, texts))
        labels = take_labels(texts, counting=self.choices != stripped)
        if labels is None:
            self.choices = label_options(len(texts))
            self.options = stripped
        elif self.choices != labels:
            self.choices = labels
            self.options = None

    def find_label(
        self,
        value: object,
        *,
        by_index: bool = False,
    ) -> str | None:
        """Return the label for a value: a label, perhaps in brackets; a position; or an option's
        text.

        A whole number, perhaps as text, is a position from 0 with `by_index`; otherwise only if it
        is not a label. None if nothing matches, or if several options have this text.
        """
        if self.choices is None or value is None or isinstance(value, bool):
            return None
        if by_index:
            return self._find_label_at(value) or self._find_label_of(value)
        return self._find_label_of(value) or self._find_label_at(value)

    def _find_label_of(self, value: object) -> str | None:
        """Return the label that a value spells, or that of the only option with this text."""
        choices = self.choices or ()
        text = str(value).strip()
        if text in choices:
            return text
        wrapped = WRAPPED.fullmatch(text)
        if wrapped and wrapped["bare"] in choices:
            return wrapped["bare"]
        texts = list(map(str.strip, self.options or ()))
        if texts.count(text) != 1:
            return None
        place = texts.index(text)
        return choices[place] if place < len(choices) else None

    def _find_label_at(self, value: object) -> str | None:
        """Return the label at the position, from 0, that a whole number means."""
        choices = self.choices or ()
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        digits = str(value).strip()
        is_number = digits.isascii() and digits.isdigit()
        if not is_number or len(digits) > len(str(len(choices))):
            return None
        place = int(digits)
        return choices[place] if place < len(choices) else None

    def name_truth(self, target: object) -> str | None:
        """Return one or several truths, joined by commas, as labels if they name options."""
        truths = []
        if not isinstance(target, list):
            target = [target]
        for value in target:
            text = self.find_label(value) or write_cell(value)
            if text:
                truths.append(text)
        return ",".join(truths) or None


#: The columns that `derive` adds.
DERIVED = QuestionColumns(
    {
        "question": "question",
        "options": "options",
        "choices": "choices",
        "category": "category",
        "answer": "truth",
    }
)


def read_question(
    columns: QuestionColumns,
    row: Row,
    taken: frozenset[str] | None = None,
) -> Question:
    """Return the question in a row; cells of columns that are not `taken` become `original`."""
    taken = taken or columns.taken
    options, labels = _read_listed(columns, row)
    choices = take_labels(read_texts(columns.cell(row, "choices")) or labels)
    if options is not None and (choices is None or len(choices) != len(options)):
        choices = label_options(len(options))
        # A list of letters has the labels, not the options.
        if tuple(map(str.strip, options)) == choices:
            options = None
    original = {}
    for name, cell in row.items():
        if name not in taken and cell is not None:
            original[name] = cell  # noqa: PERF403 - clearer than a comprehension with two conditions
    question = Question(
        question=columns.text(row, "question"),
        choices=choices,
        options=options,
        category=columns.text(row, "category"),
        original=original,
        passage=columns.text(row, "passage"),
    )
    answer = columns.cell(row, "answer")
    index = columns.cell(row, "index")
    label = question.find_label(answer) or question.find_label(index, by_index=True)
    question.truth = label or write_cell(answer) or write_cell(index)
    return question


def _read_listed(
    columns: QuestionColumns,
    row: Row,
) -> tuple[Texts | None, list[str]]:
    """Return the options of a list cell, or of several columns, with their labels."""
    texts, labels = read_option_cell(columns.cell(row, "options"))
    if texts:
        return tuple(text or "" for text in texts), labels
    options: list[str] = []
    for name in columns.spread:
        text = write_cell(row.get(name)) or ""
        if not text.strip():
            break
        options.append(text)
    return tuple(options) or None, labels


#: What harnesses write around a question; evalscope does in English and in Chinese.
_AROUND = re.compile(
    r"\A(?:(?:Answer the following multiple[ -]choice "
    r"question|\u56de\u7b54\u4e0b\u9762)[^\n]*\n\s*)?"
    r"(?:Question:|\u95ee\u9898\uff1a)?"
    r"|\n[ \t]*(?:Options|Choices|\u9009\u9879)[:\uff1a]?\Z",
    re.IGNORECASE,
)


def parse_prompt(prompt: str | None) -> Question:
    """Return the question in a prompt, with its last options that are lettered from A on.

    Earlier options belong to worked examples, and what harnesses write around a question is
    removed. A prompt without options is the question as a whole.
    """
    before, options = find_lettered(prompt or "")
    if options is None:
        return Question(prompt)
    text = before.strip()
    return Question(_AROUND.sub("", text).strip() or text, LABELS[: len(options)], options)


def read_logged_question(
    cells: Row,
    prompt: str | None,
    *,
    target: object = None,
    chosen: tuple[tuple[str, str], ...] = (),
) -> Question:
    """Return the question of a record: from the columns of its row, or else from its prompt.

    `target` is the truth if the log has it separately, `chosen` are columns that the caller names,
    with their roles. If the prompt has the options in another order, its order counts, since the
    model saw it.
    """
    question = read_question(_find_columns(cells, chosen), cells)
    shown = parse_prompt(prompt)
    text = _cut_options(question.question, question.options or shown.options)
    question.question = text or shown.question
    truth = question.truth
    if _shows_options(shown, question):
        if question.options and question.choices and truth in question.choices:
            truth = question.options[question.choices.index(truth)]
        question.choices = shown.choices
        question.options = shown.options
    question.truth = question.name_truth(_unwrap(truth if target is None else target))
    return question


def _shows_options(
    shown: Question,
    question: Question,
) -> bool:
    """Return whether a prompt shows the options of a question, in any order, or its labels."""
    if question.options is None:
        return question.choices in {None, shown.choices}
    return sorted(question.options) == sorted(shown.options or ())


def _unwrap(target: object) -> object:
    """Return the only truth in a list that is written as text; any other truth unchanged."""
    if isinstance(target, str) and target.startswith("["):
        truths = read_texts(target)
        if truths and len(truths) == 1:
            return truths[0]
    return target


def _find_columns(
    cells: Row,
    chosen: tuple[tuple[str, str], ...],
) -> QuestionColumns:
    """Return the roles of a record's columns; options are a list, mappings are named by field."""
    names: dict[str, None] = {}
    fields: dict[str, None] = {}
    for name, cell in cells.items():
        # A list written as text begins with a bracket.
        is_plain = isinstance(cell, str) and cell[:1].isalnum()
        is_list = isinstance(cell, list)
        if not is_plain and not is_list:
            is_list = read_option_cell(cell)[0] is not None
        if isinstance(cell, dict) and not is_list:
            for inner, value in cell.items():
                if read_mark(value) is None:
                    fields[f"{name}.{inner}"] = None
        elif is_list or fold_name(name) not in FOLDED["options"]:
            names[name] = None
    return find_columns(
        tuple(names | fields),
        ("passage", *QUESTION_ROLES),
        chosen,
    )


def _cut_options(
    question: str | None,
    options: Texts | None,
) -> str | None:
    """Return a question without the lines at its end that show these options."""
    if not question or "\n" not in question:
        return question
    bare, listed = split_question(question)
    return bare if listed and tuple(listed) == options else question


def read_texts(value: object) -> Texts | None:
    """Return the texts of a list or a mapping, which may be JSON or a Python literal; None
    otherwise.
    """
    texts = []
    for text in list_values(value):
        if not isinstance(text, str | int | float):
            return None
        texts.append(str(text))
    return tuple(texts) or None
