"""Questions that a dataset asks twice, word for word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from answerkey.dataset_audit.questions import (
    AuditedQuestion,
    QuestionFields,
    fold_spaces,
    fold_text,
    read_questions,
)
from answerkey.datasets.rows import Rows
from answerkey.types import Samples

#: How many examples are shown, and how much of a note.
SHOWN, SHOWN_NOTE = 5, 60


@dataclass(frozen=True)
class DuplicateRow:
    """A row that shows something: its sample id, where it is, and what is to be seen there."""

    sample: str
    file: str | None
    line: int | None
    note: str = ""


def make_example(samples: Samples, row: int, note: str = "") -> DuplicateRow:
    """Return where a row is, with a note."""
    place = samples.place(row)
    if len(note) > SHOWN_NOTE:
        note = f"{note[:SHOWN_NOTE]}…"
    return DuplicateRow(
        str(place.sample),
        place.file,
        place.line,
        note,
    )


@dataclass(frozen=True)
class QuestionRows:
    """Rows with the fields that their questions are read from; `first_row` counts all rows before
    them.
    """

    rows: Rows
    fields: QuestionFields
    first_row: int


@dataclass(frozen=True)
class Repeats:
    """The number of rows beyond the first of each group, the number of groups, and examples.

    `contradicting` are groups whose truths differ, by the text of the right option.
    """

    rows: int = 0
    groups: int = 0
    contradicting: int = 0
    examples: tuple[DuplicateRow, ...] = ()
    contradictions: tuple[DuplicateRow, ...] = ()


def _fold_truth(question: AuditedQuestion) -> str | None:
    """Return the text of the right option, or its label if it has no text."""
    if question.truth is None:
        return None
    if question.truth < len(question.options):
        return fold_text(question.texts[question.truth])
    return question.labels[question.truth]


class QuestionHashes:
    """What is kept of every question until duplicates are looked for: hashes of it and its truth.

    Options count in any order.
    """

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []

    def add(self, questions: Sequence[AuditedQuestion]) -> None:
        """Keep the hashes of the next questions."""
        rows = []
        for question in questions:
            texts = [fold_spaces(text).lower() for text in (question.text or "", *question.texts)]
            truth = _fold_truth(question)
            key = hash((texts[0], *sorted(texts[1:])))
            rows.append((key, None if truth is None else hash(truth.casefold())))
        schema = {"key": pl.Int64, "truth": pl.Int64}
        self._frames.append(pl.DataFrame(rows, schema=schema, orient="row"))

    def find_repeats(self, sources: Sequence[QuestionRows]) -> Repeats:
        """Return the questions that are there twice."""
        if not self._frames:
            return Repeats()
        hashes = pl.concat(self._frames).with_row_index("row")
        again = hashes.filter(pl.col("key").is_duplicated()).group_by("key", maintain_order=True)
        groups = again.agg("row", differ=pl.col("truth").drop_nulls().n_unique() > 1)
        differing = groups.filter("differ")["row"].to_list()
        rows = groups["row"].to_list()
        return Repeats(
            rows=sum(map(len, rows)) - len(rows),
            groups=len(rows),
            contradicting=len(differing),
            examples=tuple(_describe_group(sources, group) for group in rows[:SHOWN]),
            contradictions=tuple(_describe_group(sources, group) for group in differing[:SHOWN]),
        )


def _load(sources: Sequence[QuestionRows], row: int) -> tuple[DuplicateRow, str | None]:
    """Return where a row is, and its truth."""
    source = [source for source in sources if source.first_row <= row][-1]
    samples = source.rows.slice(row - source.first_row, 1).load()
    (question,) = read_questions(samples, source.fields)
    return make_example(samples, 0), _fold_truth(question)


def _describe_group(sources: Sequence[QuestionRows], rows: Sequence[int]) -> DuplicateRow:
    first, first_truth = _load(sources, rows[0])
    second, second_truth = _load(sources, rows[1])
    place = f"line {second.line}"
    if second.file not in {first.file, None}:
        place = f"{Path(str(second.file)).name}:{second.line}"
    note = f"like {second.sample} ({place})"
    if len(rows) > 2:  # noqa: PLR2004 - the pair itself
        note += f" and {len(rows) - 2} more"
    if first_truth and second_truth and first_truth.casefold() != second_truth.casefold():
        note += f"; truths {first_truth!r} and {second_truth!r}"
    return replace(first, note=note)
