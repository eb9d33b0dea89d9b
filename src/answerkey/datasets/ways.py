"""Ways to read a table: each is tried on all rows, with counts of what it makes of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from answerkey.datasets.options import Options, read_truth
from answerkey.datasets.questions import (
    FORMS,
    SAID_OPTIONS,
    QuestionColumns,
    Row,
    locate_error,
)
from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.errors import DataError
from answerkey.text import shorten
from answerkey.types import Samples

#: A way that misses a larger share of the rows is none; the rows that it misses are reported when
#: rows are checked.
_MISSED = 0.1
_HIDDEN = (None, "-1", "-1.0")
#: Several labels in place of one: `AB`, `A, C`, `A and C`.
_SEVERAL = re.compile(r"[A-Z](?:\s*(?:[,;/&+|]|and)?\s*[A-Z])+")
#: How many rows, and how much of a text, an error shows.
SHOWN_ROWS = 3
SHOWN_TEXT = 40

#: The options of a question, unless they are yes and no, and the place of its truth.
_Reading = tuple[list[str] | None, int | None]
_Sources = dict[object, list[tuple[Row, Options | None]]]


class TableRow(NamedTuple):
    """A row of a table, with its position in a block of rows."""

    block: Samples
    position: int
    fields: Row

    def locate(self) -> str:
        """Return where the row stands, as the beginning of a line of an error."""
        line = self.block.place(self.position).line
        return "" if line is None else f"line {line}: "


def iterate_rows(
    rows: Rows,
    columns: Collection[str],
) -> Iterator[TableRow]:
    """Yield each row with some of its columns."""
    for _, block in iterate_blocks(rows, columns):
        for position, fields in enumerate(block.rows()):
            yield TableRow(block, position, fields)


@dataclass(eq=False)
class Way:
    """One way to read a table, with counts of what it makes of the questions in it.

    `missed` truths name no option; of these, `hidden` ones say nothing, `several` name more than
    one, and the first are `shown` in an error. `conflicts` are the ways that read some row
    differently.
    """

    columns: QuestionColumns
    total: int = 0
    filled: int = 0
    labelled: int = 0
    missed: int = 0
    hidden: int = 0
    several: int = 0
    is_relabelled: bool = False
    shown: list[str] = field(default_factory=list)
    conflicts: set[Way] = field(default_factory=set)

    @cached_property
    def truth(self) -> str | None:
        """The column of the truth."""
        return self.columns.columns.get("truth")

    @property
    def is_filled(self) -> bool:
        """Whether nearly all rows have options."""
        return self.total - self.filled <= _MISSED * self.total

    @property
    def is_index(self) -> bool:
        """Whether truths are numbers of options."""
        return self.columns.form in {"0", "1"}

    @property
    def has_labels(self) -> bool:
        """Whether truths are labels that the table states in every row."""
        return self.columns.form == "label" and self.labelled == self.total

    def is_confirmed(self, fitting: Sequence[Way]) -> bool:
        """Return whether the labels or texts of another column agree on every row."""
        for way in fitting:
            is_sure = way.columns.form in {"label", "text"} and way.truth != self.truth
            if is_sure and way not in self.conflicts:
                return True
        return False

    @cached_property
    def source(self) -> tuple[object, ...]:
        """Where the options are; other ways may read the same."""
        columns = self.columns
        form = columns.form if columns.form in SAID_OPTIONS else None
        options = columns.columns.get("options")
        return options, columns.separator, columns.spread, columns.unfolded, form

    def read(
        self,
        row: TableRow,
        sources: _Sources,
    ) -> list[_Reading]:
        """Read the questions of a row; `sources` keeps the options that ways have in common."""
        questions = sources.setdefault(self.source, [])
        if not questions:
            for fields in self.columns.split_row(row.fields):
                questions.append((fields, self.columns.read_options(fields)))
        readings: list[_Reading] = []
        for fields, options in questions:
            place = self.columns.find_place(fields, options)
            self.total += 1
            if place is None and self.truth is not None:
                self._count_missed(row, fields)
            if options is None:
                readings.append((None, place))
                continue
            self._count_options(options)
            # Yes is True.
            texts = None if self.columns.form in SAID_OPTIONS else options.texts
            readings.append((texts, place))
        return readings

    def _count_options(self, options: Options) -> None:
        self.filled += 1
        if options.names is not None:
            self.labelled += 1
            bare_names = [re.sub(r"\W", "", name) for name in options.names]
            self.is_relabelled |= bare_names != options.choices

    def _count_missed(
        self,
        row: TableRow,
        fields: Row,
    ) -> None:
        self.missed += 1
        cell = self.columns.cell(fields, "truth")
        truth = read_truth(cell)
        if truth in _HIDDEN:
            self.hidden += 1
        elif _SEVERAL.fullmatch(str(truth)) or (isinstance(cell, list) and len(cell) > 1):
            self.several += 1
        if self.missed <= SHOWN_ROWS:
            self.shown.append(row.locate() + self.show(fields))

    def show(self, fields: Row) -> str:
        """Return what the table says of a question's truth, and which option that is."""
        options = self.columns.read_options(fields)
        place = self.columns.find_place(fields, options)
        option = "no option"
        if options is not None and place is not None:
            option = repr(shorten(options.texts[place], SHOWN_TEXT))
        cell = shorten(repr(self.columns.cell(fields, "truth")), SHOWN_TEXT)
        return f"`{self.truth}` {cell} as {FORMS[str(self.columns.form)]} is {option}"


def try_ways(
    rows: Rows,
    ways: Sequence[Way],
) -> None:
    """Read all rows in each way, and note which ways read a row differently."""
    for row in iterate_rows(rows, _list_taken(ways)):
        sources: _Sources = {}
        readings: dict[Way, list[_Reading]] = {}
        try:
            for way in ways:
                readings[way] = way.read(row, sources)
        except DataError as error:
            raise locate_error(error, row.block, row.position) from None
        for first, second in combinations(ways, 2):
            if readings[first] != readings[second]:
                first.conflicts.add(second)
                second.conflicts.add(first)


def _list_taken(ways: Sequence[Way]) -> set[str]:
    taken: set[str] = set()
    for way in ways:
        taken |= way.columns.taken
    return taken


def choose_fitting(
    filled: Sequence[Way],
    *,
    is_forced: bool,
) -> list[Way]:
    """Return the ways that fit the truths, the first of those that agree on every row."""
    readable = [way for way in filled if way.truth is not None]
    fitting = [way for way in readable if not way.missed]
    if not fitting:
        most = 1 if is_forced else _MISSED
        fitting = [way for way in readable if way.missed <= most * way.total]
    different: list[Way] = []
    for way in fitting:
        if way.conflicts.issuperset(different) and not _is_refuted(way, fitting):
            different.append(way)
    return different


def _is_refuted(
    way: Way,
    fitting: Sequence[Way],
) -> bool:
    """Return whether truths are no index: they are labels that the table states, or the other index
    agrees with another column.
    """
    if not way.is_index:
        return False
    has_confirmed = False
    for rival in fitting:
        if rival.truth != way.truth:
            continue
        if rival.has_labels:
            return True
        if rival.is_index and rival.is_confirmed(fitting):
            has_confirmed = True
    return has_confirmed and not way.is_confirmed(fitting)


def show_conflicts(
    rows: Rows,
    ways: Sequence[Way],
) -> Iterator[str]:
    """Yield what the ways make of each question that they read differently."""
    for row in iterate_rows(rows, _list_taken(ways)):
        readings = []
        questions = []
        for way in ways:
            readings.append(way.read(row, {}))
            questions.append(way.columns.split_row(row.fields))
        for number, fields in enumerate(zip(*questions, strict=False)):
            first = readings[0][number]
            if all(reading[number] == first for reading in readings):
                continue
            shown = map(
                Way.show,
                ways,
                fields,
            )
            yield row.locate() + "; ".join(shown)
