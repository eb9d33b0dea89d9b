"""Questions that appear in a dataset more than once, word for word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
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

#: The maximum number of examples, and of characters of a note.
MAX_EXAMPLES, MAX_NOTE_LENGTH = 5, 60


@dataclass(frozen=True)
class DuplicateRow:
    """An example row of a finding: its sample id, its place, and a note on what to see there."""

    sample: str
    file: str | None
    line: int | None
    note: str = ""


def make_example(
    samples: Samples,
    row: int,
    note: str = "",
) -> DuplicateRow:
    """Return a row as an example, with a note."""
    place = samples.place(row)
    if len(note) > MAX_NOTE_LENGTH:
        note = f"{note[:MAX_NOTE_LENGTH]}…"
    return DuplicateRow(
        str(place.sample),
        place.file,
        place.line,
        note,
    )


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
    """Hashes of every question and its truth, from which duplicates are found.

    The order of the options does not matter.
    """

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []

    def add(self, questions: Sequence[AuditedQuestion]) -> None:
        """Keep the hashes of the next questions."""
        rows = []
        for question in questions:
            options = sorted(map(str.lower, question.folded_texts))
            key = hash((fold_spaces(question.text or "").lower(), *options))
            truth = _fold_truth(question)
            rows.append((key, None if truth is None else hash(truth.casefold())))
        schema = {"key": pl.Int64, "truth": pl.Int64}
        self._frames.append(pl.DataFrame(rows, schema=schema, orient="row"))

    def find_repeats(self, rows: Rows, fields: QuestionFields) -> Repeats:
        """Return the repeated questions."""
        if not self._frames:
            return Repeats()
        hashes = pl.concat(self._frames).with_row_index("row")
        again = hashes.filter(pl.col("key").is_duplicated()).group_by("key", maintain_order=True)
        groups = again.agg("row", differ=pl.col("truth").drop_nulls().n_unique() > 1)
        differing = groups.filter("differ")["row"].to_list()
        repeated = groups["row"].to_list()
        describe = partial(_describe_group, rows, fields)
        return Repeats(
            rows=sum(map(len, repeated)) - len(repeated),
            groups=len(repeated),
            contradicting=len(differing),
            examples=tuple(map(describe, repeated[:MAX_EXAMPLES])),
            contradictions=tuple(map(describe, differing[:MAX_EXAMPLES])),
        )


def _describe_group(
    rows: Rows,
    fields: QuestionFields,
    group: Sequence[int],
) -> DuplicateRow:
    """Return the first row of a group as an example, with a note about the others."""
    samples = rows.take(pl.Series(group[:2])).load()
    first = make_example(samples, 0)
    second = make_example(samples, 1)
    first_truth, second_truth = map(_fold_truth, read_questions(samples, fields))
    place = f"line {second.line}"
    if second.file not in {first.file, None}:
        place = f"{Path(str(second.file)).name}:{second.line}"
    note = f"like {second.sample} ({place})"
    if len(group) > 2:  # noqa: PLR2004 - the pair itself
        note += f" and {len(group) - 2} more"
    if first_truth and second_truth and first_truth.casefold() != second_truth.casefold():
        note += f"; truths {first_truth!r} and {second_truth!r}"
    return replace(first, note=note)
