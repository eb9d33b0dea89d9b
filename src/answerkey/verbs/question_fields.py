"""Where a dataset keeps its questions, options and truths: as somebody says, or by their usual names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from string import ascii_lowercase
from typing import Literal

from answerkey.datasets import Rows
from answerkey.errors import DataError, Place, listing, suggest
from answerkey.evaluate import read_option_cell
from answerkey.scorers import StringEqualsMcqa
from answerkey.templates import Template
from answerkey.types import Samples

#: How a truth names its option: by its label, its place counted from 0 or from 1, or its text.
TruthForm = Literal["label", "index", "number", "text"]
Path = tuple[str, ...]
Fits = Callable[[Sequence[object]], bool]

#: Rows that are looked at to see what a column holds.
LOOKED_AT = 2_000
QUESTIONS = (
    "question",
    "question_text",
    "stem",
    "query",
    "problem",
    "input",
    "prompt",
    "sentence",
    "ctx",
    "text",
)
PASSAGES = ("passage", "context", "article", "story", "paragraph", "background")
OPTIONS = ("options", "candidates", "endings", "alternatives", "answers", "option_texts")
TRUTHS = (
    "answer",
    "answer_key",
    "answerkey",
    "label",
    "ground_truth",
    "groundtruth",
    "groundtruth_answer",
    "truth",
    "correct_answer",
    "correct_option",
    "correct",
    "answer_index",
    "answer_idx",
    "gold",
    "target",
    "key",
)
_NUMBERED = re.compile(
    r"(?P<stem>|option|choice|answer|ending|opt?)[_ ]?(?P<place>[a-z]|\d{1,2})", re.IGNORECASE
)


@dataclass(frozen=True)
class QuestionFields:
    """Templates for the parts of a question.

    `options` is one template that yields the list, or one for each option. `labels` yields what the options
    are called; without it they have names of their own, or letters. `shown` says where each part is found.
    """

    questions: tuple[Template, ...]
    options: tuple[Template, ...] = ()
    labels: Template | None = None
    names: tuple[str, ...] = ()
    truth: Template | None = None
    truth_form: TruthForm = "label"
    shown: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that are read; None for all."""
        found: frozenset[str] = frozenset()
        single = [one for one in (self.labels, self.truth) if one is not None]
        for template in (*self.questions, *self.options, *single):
            if template.columns is None:
                return None
            found |= template.columns
        return found


@dataclass(frozen=True)
class FieldNames:
    """What the caller says: columns, paths such as `question.stem`, or templates."""

    question: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    choices: str | None = None
    truth: str | None = None
    truth_form: TruthForm | None = None


def find_fields(rows: Rows, said: FieldNames, scorer: StringEqualsMcqa | None = None) -> QuestionFields:
    """Return where the parts are: what the caller says wins, then the scorer of a task, then usual names."""
    first = rows.slice(0, LOOKED_AT).load()
    finder = _Finder(first, rows.columns, rows.file)
    shown: dict[str, str] = {}
    question = [finder.read(one) for one in said.question] or finder.find_question()
    templates = scorer.templates() if scorer else {}
    options, names = finder.find_options(said.options, templates.get("options"))
    labels = finder.read(said.choices) if said.choices else templates.get("choices")
    labels = labels or finder.find_labels()
    truth = finder.read(said.truth) if said.truth else templates.get("ground_truth_choice")
    truth = truth or finder.find_truth()
    for name, found in (
        ("question", question),
        ("options", options),
        ("choices", [labels]),
        ("truth", [truth]),
    ):
        shown[name] = ", ".join(_show(one) for one in found if one is not None) or "none"
    form: TruthForm = said.truth_form or "label"
    return QuestionFields(tuple(question), tuple(options), labels, names, truth, form, shown)


def _show(template: Template) -> str:
    if template.path is not None:
        return ".".join(map(str, template.path))
    return str(template.source)


def _compile_path(path: Path) -> Template:
    return Template.compile("{{ sample" + "".join(f"[{step!r}]" for step in path) + " }}")


class _Finder:
    """Finds parts among the columns and among the fields of columns that are mappings."""

    def __init__(self, first: Samples, columns: Sequence[str], file: str | None) -> None:
        self.first, self.columns, self.file = first, columns, file
        self.paths: dict[str, Path] = {}
        for path in self._list_paths():
            self.paths.setdefault(path[-1].lower(), path)

    def _list_paths(self) -> Iterator[Path]:
        """Yield the columns, then the fields of mappings in them."""
        yield from ((name,) for name in self.columns)
        for name in self.columns:
            cells = (cell for cell in self.first.slice(0, 50).values(name) if isinstance(cell, dict))
            yield from ((name, str(key)) for key in next(cells, {}))

    def read(self, text: str) -> Template:
        """Return what the caller means: a template, a column, or a path into one."""
        if "{{" in text or "{%" in text:
            return Template.compile(text)
        if text in self.columns:
            return _compile_path((text,))
        path = tuple(text.split("."))
        if path[0] not in self.columns:
            hint = suggest(path[0], self.columns) or f"columns: {listing(self.columns)}"
            message = f"there is no column `{path[0]}`"
            raise DataError("E206", message, where=Place(file=self.file), hint=hint)
        return _compile_path(path)

    def find_question(self) -> list[Template]:
        """Return the passage, if there is one, and the question."""
        passage = self._find(PASSAGES, _are_texts)
        question = self._find(QUESTIONS, _are_texts)
        if question is None:
            hint = f"name it with `--question COLUMN`; columns: {listing(self.columns)}"
            raise DataError("E206", "no column holds the question", where=Place(file=self.file), hint=hint)
        return [_compile_path(path) for path in (passage, question) if path is not None]

    def find_options(
        self, said: Sequence[str], told: Template | None
    ) -> tuple[list[Template], tuple[str, ...]]:
        """Return the template of the list, or those of the single options and what they are called."""
        if said:
            return [self.read(one) for one in said], ()
        if told is not None:
            return [told], ()
        path = self._find(OPTIONS, _are_options) or self._find(("choices",), _are_other_options)
        if path is not None:
            return [_compile_path(path)], ()
        columns = self._find_numbered()
        return [_compile_path((name,)) for name in columns], _name_columns(columns)

    def _find_numbered(self) -> list[str]:
        """Return the longest series of columns such as `A`, `B`, `C` or `choice0`, `choice1`."""
        series: dict[str, dict[str, str]] = {}
        for name in self.columns:
            match = _NUMBERED.fullmatch(name)
            if match:
                stem = match["stem"].lower() + ("1" if match["place"].isdigit() else "a")
                series.setdefault(stem, {})[match["place"].lower()] = name
        found: list[str] = []
        for places in series.values():
            for order in (
                ascii_lowercase,
                [str(one) for one in range(100)],
                [str(one) for one in range(1, 100)],
            ):
                run = [places[place] for place in _take_run(places, order)]
                found = run if len(run) > max(1, len(found)) else found
        return found

    def find_labels(self) -> Template | None:
        """Return the column with the labels of the options, if there is one."""
        path = self._find(("choices", "labels", "option_labels"), _are_labels)
        return None if path is None else _compile_path(path)

    def find_truth(self) -> Template | None:
        """Return the column with the truth, if there is one."""
        path = self._find(TRUTHS, _are_truths)
        return None if path is None else _compile_path(path)

    def _find(self, names: Sequence[str], fits: Fits) -> Path | None:
        for name in names:
            path = self.paths.get(name)
            if path is not None and self._holds(path, fits):
                return path
        return None

    def _holds(self, path: Path, fits: Fits) -> bool:
        """Return whether the first cells, as far as they hold anything, are of the kind wanted."""
        values = _compile_path(path).values(self.first)
        cells = [one for one in values if one is not None and not isinstance(one, Exception)]
        return bool(cells) and fits(cells)


def _take_run(places: Mapping[str, str], order: Sequence[str]) -> list[str]:
    run = []
    for place in order:
        if place not in places:
            break
        run.append(place)
    return run


def _name_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return what options in columns such as `A`, `B` are called; nothing where columns are numbered."""
    return tuple(columns) if columns and all(len(name) == 1 for name in columns) else ()


def _are_texts(cells: Sequence[object]) -> bool:
    return all(isinstance(cell, str) for cell in cells)


def _are_truths(cells: Sequence[object]) -> bool:
    return all(isinstance(cell, str | int) and not isinstance(cell, bool) for cell in cells)


def _are_options(cells: Sequence[object]) -> bool:
    return all(read_option_cell(cell)[0] is not None for cell in cells)


def _are_other_options(cells: Sequence[object]) -> bool:
    """Return whether cells of a column that may also hold labels are options."""
    return _are_options(cells) and not _are_labels(cells)


def _are_labels(cells: Sequence[object]) -> bool:
    """Return whether cells are lists of single characters that follow each other: A, B, C or 1, 2, 3."""
    found = [read_option_cell(cell) for cell in cells]
    return all(not names and _follow(texts or []) for texts, names in found)


def _follow(texts: Sequence[str | None]) -> bool:
    characters = [(text or "").strip() for text in texts]
    if not characters or any(len(one) != 1 for one in characters):
        return False
    return all(ord(two) == ord(one) + 1 for one, two in pairwise(characters))
