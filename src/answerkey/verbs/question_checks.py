"""What is odd about single questions, and what is counted of their truths; parts of both merge."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from answerkey.datasets import Rows
from answerkey.datasets.duplicates import sketch_questions
from answerkey.solvers import find_reference
from answerkey.types import Samples
from answerkey.verbs.audit_parts import write_quality
from answerkey.verbs.dataset_audits import SHOWN, Example
from answerkey.verbs.question_fields import QuestionFields
from answerkey.verbs.question_reading import Question, read_questions
from answerkey.verbs.text_damage import find_damage

MISSING_QUESTION, MISSING_OPTION, MISSING_TRUTH = "MISSING_QUESTION", "MISSING_OPTION", "MISSING_TRUTH"
BAD_TRUTH, BAD_CHOICES, ONE_CHOICE = "TRUTH_NOT_A_CHOICE", "CHOICES_DO_NOT_FIT", "ONE_CHOICE"
SAME_OPTIONS, RIGHT_TWICE, NESTED = "DUPLICATE_OPTIONS", "RIGHT_OPTION_TWICE", "NESTED_OPTIONS"
REFERS_TO_OTHERS, REFERS_TO_LABELS = "REFERS_TO_OTHERS", "REFERS_TO_LABELS"
_SHOWN_NOTE = 60
#: What table tools write for an empty cell.
_EMPTY_WORDS = frozenset({"", "nan", "NaN", "null", "NULL"})
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class QuestionRows:
    """Where questions lie, and how they are read; small enough to be sent around."""

    rows: Rows
    fields: QuestionFields
    first_row: int
    quality: tuple[str, frozenset[str]] | None = None
    find_duplicates: bool = True


@dataclass
class Kinds:
    """Rows in which something was found: how many by kind, and the first examples."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def add(self, kind: str, example: Example) -> None:
        """Take one row."""
        self.counts[kind] += 1
        shown = self.examples.setdefault(kind, [])
        if len(shown) < SHOWN:
            shown.append(example)

    def merge(self, other: Kinds) -> None:
        """Take the rows of a later part."""
        self.counts.update(other.counts)
        for kind, examples in other.examples.items():
            self.examples[kind] = [*self.examples.get(kind, ()), *examples][:SHOWN]


@dataclass
class Truths:
    """What is counted of rows whose truth is known.

    `sizes` is by number of choices, `places` by that and the place of the truth, `longest` by how many
    options are equally long, of rows whose truth is one of them; `others` counts options that speak of the
    others, and how often those are right, with what a guess would be.
    """

    n: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    places: Counter[tuple[int, int]] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    measured: Counter[int] = field(default_factory=Counter)
    longest: Counter[int] = field(default_factory=Counter)

    def add(self, question: Question) -> None:
        """Take one row, whose truth is known."""
        place, size = question.truth, max(len(question.options), len(question.labels))
        if place is None or not size:
            return
        self.n += 1
        self.sizes[size] += 1
        self.places[size, place] += 1
        if place < len(question.labels):
            self.labels[question.labels[place]] += 1
        if question.options:
            lengths = [len(one.strip()) for one in question.texts]
            ties = lengths.count(max(lengths))
            self.measured[len(lengths)] += 1
            self.longest[ties] += lengths[place] == max(lengths)

    def merge(self, other: Truths) -> None:
        """Take the rows of another part."""
        self.n += other.n
        for name in ("sizes", "places", "labels", "measured", "longest"):
            getattr(self, name).update(getattr(other, name))


@dataclass
class QuestionPart:
    """What some rows contribute; `sketches` are for finding duplicates."""

    rows: int = 0
    kinds: Kinds = field(default_factory=Kinds)
    every: Truths = field(default_factory=Truths)
    clean: Truths = field(default_factory=Truths)
    qualities: Counter[str] = field(default_factory=Counter)
    right_others: Counter[str] = field(default_factory=Counter)
    sketches: list[pl.DataFrame] = field(default_factory=list)

    def merge(self, other: QuestionPart) -> None:
        """Take a later part."""
        self.rows += other.rows
        self.kinds.merge(other.kinds)
        self.every.merge(other.every)
        self.clean.merge(other.clean)
        self.qualities.update(other.qualities)
        self.right_others.update(other.right_others)
        self.sketches.extend(other.sketches)


def measure_questions(source: QuestionRows, stretch: tuple[int, int]) -> QuestionPart:
    """Return what is found in some rows, given by the first of them and how many."""
    offset, length = stretch
    samples = load_rows(source, offset, length)
    questions = read_questions(samples, source.fields)
    part = QuestionPart(rows=len(questions))
    labels = _read_qualities(samples, source)
    for row, question in enumerate(questions):
        _check_question(part, samples, row, question)
        part.every.add(question)
        if labels is not None and source.quality is not None:
            part.qualities[labels[row]] += 1
            if labels[row] in source.quality[1]:
                part.clean.add(question)
    if source.find_duplicates:
        part.sketches.append(_sketch(questions, source.first_row + offset))
    return part


def load_rows(source: QuestionRows, offset: int, length: int) -> Samples:
    """Return some rows with the columns that are read."""
    columns = source.fields.columns
    if columns is not None and source.quality is not None:
        columns |= {source.quality[0]}
    return source.rows.slice(offset, length).load(columns)


def _read_qualities(samples: Samples, source: QuestionRows) -> list[str] | None:
    if source.quality is None:
        return None
    return [write_quality(one) for one in samples.values(source.quality[0])]


def _sketch(questions: Sequence[Question], first_row: int) -> pl.DataFrame:
    texts = pl.Series([one.text for one in questions], dtype=pl.String)
    options = pl.Series([list(one.texts) for one in questions], dtype=pl.List(pl.String))
    return sketch_questions(texts, options, first_row)


def make_example(samples: Samples, row: int, note: str = "") -> Example:
    """Return where a row stands, with a note."""
    place = samples.place(row)
    shown = note if len(note) <= _SHOWN_NOTE else f"{note[:_SHOWN_NOTE]}…"
    return Example(str(place.sample), place.file, place.line, shown)


def _check_question(part: QuestionPart, samples: Samples, row: int, question: Question) -> None:
    for kind, note in _find_oddities(question):
        part.kinds.add(kind, make_example(samples, row, note))
        if kind == REFERS_TO_OTHERS and _refers(question, question.truth):
            part.right_others["right"] += 1


def _find_oddities(question: Question) -> Iterator[tuple[str, str]]:
    """Yield each kind of oddity once, with a note."""
    yield from _find_missing(question)
    yield from _find_bad_truth(question)
    yield from _find_odd_options(question)
    reference = find_reference(question.texts, question.labels) if question.options else None
    if reference is not None:
        yield reference, _find_referring(question)
    yield from _find_damage(question)


def _is_empty(text: str | None) -> bool:
    return text is None or text.strip() in _EMPTY_WORDS


def _find_missing(question: Question) -> Iterator[tuple[str, str]]:
    if _is_empty(question.text):
        yield MISSING_QUESTION, ""
    empty = [label for label, one in zip(question.labels, question.options, strict=False) if _is_empty(one)]
    if empty:
        yield MISSING_OPTION, f"option {', '.join(empty)}"
    if _is_empty(question.said):
        yield MISSING_TRUTH, ""


def _find_bad_truth(question: Question) -> Iterator[tuple[str, str]]:
    size = max(len(question.options), len(question.labels))
    if size and not _is_empty(question.said) and question.truth is None:
        yield BAD_TRUTH, f"{question.said!r}, choices {', '.join(question.labels)}"
    if question.options and len(question.options) != len(question.labels):
        yield BAD_CHOICES, f"{len(question.options)} options, {len(question.labels)} labels"
    if size == 1:
        yield ONE_CHOICE, question.labels[0] if question.labels else ""


def fold_text(text: str) -> str:
    """Return a text without differences of width, white space and a full stop at its end.

    Upper and lower case stay apart: *Bb* and *bb* are two options.
    """
    return " ".join((text if text.isascii() else unicodedata.normalize("NFKC", text)).split()).rstrip(".")


def _find_odd_options(question: Question) -> Iterator[tuple[str, str]]:
    folded = [fold_text(one) for one in question.texts]
    counts = Counter(one for one in folded if one)
    twice = [one for one, count in counts.items() if count > 1]
    if twice:
        yield SAME_OPTIONS, repr(twice[0])
        if question.truth is not None and question.truth < len(folded) and folded[question.truth] in twice:
            yield RIGHT_TWICE, repr(folded[question.truth])
    nested = _find_nested([one.casefold() for one in counts])
    if nested:
        yield NESTED, f"{nested[0]!r} in {nested[1]!r}"


def _find_nested(texts: Sequence[str]) -> tuple[str, str] | None:
    """Return the first text that stands in another as whole words."""
    for inner in texts:
        for outer in texts:
            if len(inner) < len(outer) and inner in outer and _is_whole(inner, outer):
                return inner, outer
    return None


def _is_whole(inner: str, outer: str) -> bool:
    if _UNSPACED.search(inner):
        return len(inner) > 1
    at = outer.find(inner)
    while at >= 0:
        before, after = outer[at - 1 : at], outer[at + len(inner) : at + len(inner) + 1]
        if not _joins(before, inner[0]) and not _joins(after, inner[-1]):
            return True
        at = outer.find(inner, at + 1)
    return False


def _joins(neighbour: str, end: str) -> bool:
    """Return whether a character belongs to the same word or number as the one beside it."""
    if not neighbour:
        return False
    return (neighbour.isalnum() and end.isalnum()) or neighbour in "_.,-/^'" or end in "-+"


def _refers(question: Question, place: int | None) -> bool:
    if place is None or place >= len(question.texts):
        return False
    return find_reference([question.texts[place]], question.labels) is not None


def _find_referring(question: Question) -> str:
    return next((one for place, one in enumerate(question.texts) if _refers(question, place)), "")


def _find_damage(question: Question) -> Iterator[tuple[str, str]]:
    found: dict[str, str] = {}
    for text in (question.text, *question.options):
        for kind, note in find_damage(text or ""):
            found.setdefault(kind, note)
    yield from found.items()
