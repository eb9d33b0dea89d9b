"""Ways to read a table: each is tried on all rows, with counts of what it makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from answerkey.datasets.options import Options, read_truth
from answerkey.datasets.questions import (
    FORMS,
    SAID_OPTIONS,
    QuestionColumns,
    Row,
    locate_error,
)
from answerkey.datasets.rows import Rows, iterate_samples
from answerkey.errors import DataError
from answerkey.text import shorten
from answerkey.types import Sample

#: A way that misses a larger share of the rows is none; the rows that it misses are reported when
#: rows are checked.
_MISSED = 0.1
_HIDDEN = (None, "-1", "-1.0")
#: Several labels in place of one: `AB`, `A, C`, `A and C`.
_SEVERAL = re.compile(r"[A-Z](?:\s*(?:[,;/&+|]|and)?\s*[A-Z])+")
#: How many rows, and how much of a text, an error shows.
SHOWN_ROWS = 3
SHOWN_TEXT = 40


@dataclass(eq=False)
class Way:
    """One way to read a table, with counts of what it makes of the questions in it.

    `missed` truths name no option; of these, `hidden` ones say nothing, `several` name more than
    one, and the first are `shown` in an error. Ways with the same `digest` read every row alike.
    """

    columns: QuestionColumns
    total: int = 0
    filled: int = 0
    labelled: int = 0
    missed: int = 0
    hidden: int = 0
    several: int = 0
    is_relabelled: bool = False
    digest: int = 0
    shown: list[str] = field(default_factory=list)

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
            if is_sure and way.digest == self.digest:
                return True
        return False

    @property
    def source(self) -> tuple[object, ...]:
        """Where the options are; other ways may read the same."""
        columns = self.columns
        form = columns.form if columns.form in SAID_OPTIONS else None
        options = columns.columns.get("options")
        return options, columns.separator, columns.spread, columns.unfolded, form

    def read(self, fields: Row, options: Options | None) -> tuple[object, int | None]:
        """Return the texts of a question's options, and the place of its truth among them."""
        place = self.columns.find_place(fields, options)
        # `Yes` and `True` are the same option.
        if options is None or self.columns.form in SAID_OPTIONS:
            return None, place
        return tuple(options.texts), place

    def count(self, sample: Sample, fields: Row, options: Options | None) -> None:
        """Read a question of a row, and count what comes of it."""
        reading = self.read(fields, options)
        self.digest = hash((self.digest, reading))
        self.total += 1
        if options is not None:
            self.filled += 1
        if options is not None and options.names is not None:
            self.labelled += 1
            bare_names = [re.sub(r"\W", "", name) for name in options.names]
            self.is_relabelled |= bare_names != options.choices
        if reading[1] is None and self.truth is not None:
            self._count_missed(sample, fields)

    def _count_missed(self, sample: Sample, fields: Row) -> None:
        self.missed += 1
        cell = self.columns.cell(fields, "truth")
        truth = read_truth(cell)
        is_list = isinstance(cell, list) and len(cell) > 1
        if truth in _HIDDEN:
            self.hidden += 1
        elif is_list or _SEVERAL.fullmatch(str(truth)):
            self.several += 1
        if self.missed <= SHOWN_ROWS:
            self.shown.append(show_line(sample) + self.show(fields))

    def show(self, fields: Row) -> str:
        """Return what the table says of a question's truth, and which option that is."""
        options = self.columns.read_options(fields)
        place = self.columns.find_place(fields, options)
        option = "no option"
        if options is not None and place is not None:
            option = repr(shorten(options.texts[place], SHOWN_TEXT))
        cell = shorten(repr(self.columns.cell(fields, "truth")), SHOWN_TEXT)
        return f"`{self.truth}` {cell} as {FORMS[str(self.columns.form)]} is {option}"


def show_line(sample: Sample) -> str:
    """Return where a row stands, as the beginning of a line of an error."""
    return "" if sample.line is None else f"line {sample.line}: "


def try_ways(rows: Rows, ways: Sequence[Way]) -> None:
    """Read all rows in each way; options are read once for the ways that share them."""
    groups: dict[object, list[Way]] = {}
    for way in ways:
        groups.setdefault(way.source, []).append(way)
    for sample in iterate_samples(rows):
        for group in groups.values():
            columns = group[0].columns
            try:
                for fields in columns.split_row(sample.fields):
                    options = columns.read_options(fields)
                    for way in group:
                        way.count(sample, fields, options)
            except DataError as error:
                raise locate_error(error, sample) from None


def choose_fitting(filled: Sequence[Way], *, is_forced: bool) -> list[Way]:
    """Return the ways that fit the truths, the first of those that agree on every row."""
    readable = [way for way in filled if way.truth is not None]
    fitting = [way for way in readable if not way.missed]
    if not fitting:
        most = 1 if is_forced else _MISSED
        fitting = [way for way in readable if way.missed <= most * way.total]
    different: dict[int, Way] = {}
    for way in fitting:
        if not _is_refuted(way, fitting):
            different.setdefault(way.digest, way)
    return list(different.values())


def _is_refuted(way: Way, fitting: Sequence[Way]) -> bool:
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


def show_conflicts(rows: Rows, ways: Sequence[Way]) -> Iterator[str]:
    """Yield what the ways make of each question that they read differently."""
    for sample in iterate_samples(rows):
        questions = [way.columns.split_row(sample.fields) for way in ways]
        for fields in zip(*questions, strict=False):
            readings = set()
            for way, cells in zip(ways, fields, strict=True):
                readings.add(way.read(cells, way.columns.read_options(cells)))
            if len(readings) > 1:
                yield show_line(sample) + "; ".join(map(Way.show, ways, fields))
