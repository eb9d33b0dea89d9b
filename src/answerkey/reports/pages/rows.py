"""The rows of one task of a run, for tables: found by filters, listed page by page, shown one by one."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import polars as pl

from answerkey.errors import RunError
from answerkey.evaluate import find_task
from answerkey.reports.explain import find_position, iterate_ids
from answerkey.reports.pages.excerpts import Wanted, join_columns, order_positions
from answerkey.reports.pages.filtering import Query, filter_rows, sort_rows
from answerkey.reports.pages.row_index import RowIndex, build_index
from answerkey.reports.pages.rule_readings import read_rows
from answerkey.reports.pages.sample_source import SampleSource, open_samples
from answerkey.reports.pages.single_samples import describe_samples, list_rows
from answerkey.runs import Run, TaskRun

#: So many completions are read by every rule to see which of them flip; of more, so many drawn at random.
MOST_REREAD = 20_000
#: So many queries are remembered.
KEPT_QUERIES = 8
SEED = 0

Plain = dict[str, Any]
Lines = list[Plain]
Made = TypeVar("Made")


class RowBook:
    """The rows of one task; a row is a sample, or one trial or order of it, and is known by its position.

    Nothing is read before it is asked for. Rows in their own order are read where they lie; the first filter
    or sorting makes an index of all of them. Safe for threads.
    """

    def __init__(self, run: Run, task_run: TaskRun) -> None:
        self.run, self.task_run = run, task_run
        self._kept: OrderedDict[Query, pl.Series] = OrderedDict()
        self._made: dict[str, Any] = {}
        self._lock = threading.RLock()

    def _make_once(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what is made when it is first asked for; others who ask meanwhile wait for it."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            found: Made = self._made[name]
            return found

    def __len__(self) -> int:
        return len(self.task_run.stored_scores)

    @property
    def source(self) -> SampleSource:
        """Where the rows lie, and who reads them."""
        return self._make_once("source", lambda: open_samples(self.run, self.task_run))

    @property
    def index(self) -> RowIndex:
        """What filters look at."""
        return self._make_once("index", lambda: build_index(self.source))

    @property
    def columns(self) -> list[str]:
        """The columns of the dataset; empty where it is gone."""
        return self.source.rows.columns

    @property
    def category_column(self) -> str | None:
        """The column that holds categories, if there is one."""
        return self.source.category

    @property
    def missing(self) -> str | None:
        """What cannot be shown, and why; None where everything is there."""
        return self.source.rows.missing

    def find(self, query: Query) -> pl.Series:
        """Return the positions of the rows that a query asks for, in the order asked for."""
        if query.is_plain:
            return pl.int_range(len(self), dtype=pl.UInt32, eager=True)
        with self._lock:
            if query not in self._kept:
                found = filter_rows(self.source, self.index, query, lambda: self.flips)
                self._kept[query] = sort_rows(self.source, self.index, query, found)
                while len(self._kept) > KEPT_QUERIES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(query)
            return self._kept[query]

    @property
    def reread(self) -> pl.Series:
        """The positions whose completions are looked at to see which flip: all, or some drawn at random."""
        return self._make_once("reread", lambda: choose_reread(len(self)))

    @property
    def flips(self) -> pl.Series:
        """The positions, among those that are reread, whose completions not all rules read alike."""
        return self._make_once("flips", self._find_flips)

    def _find_flips(self) -> pl.Series:
        source = self.source
        if source.reading is None or not source.rows.has_completions:
            return pl.Series([], dtype=pl.UInt32)
        wanted = self._want(completions=True)
        found: list[int] = []
        for part in source.rows.read(self.reread, wanted):
            readings = read_rows(source, part, lenses=False)
            found += [
                position
                for position, one in zip(part.positions.to_list(), readings, strict=True)
                if one is not None and one.is_flipped
            ]
        return pl.Series(found, dtype=pl.UInt32)

    def _want(self, *, completions: bool) -> Wanted:
        """Return what the lines of the table need: questions, categories, and what rules are told."""
        source = self.source
        read = [frozenset({source.category} if source.category else ()), source.question_columns]
        if source.reading is not None:
            templates = source.reading.scorer.templates().values()
            read += [one.columns for one in templates]
            read.append(frozenset({"options"}))
        scorers = dict.fromkeys([source.main.key, *([source.reading.key] if source.reading else [])])
        return Wanted(join_columns(*read), tuple(scorers), completions)

    def list(self, positions: Sequence[int] | pl.Series) -> Lines:
        """Return the lines of the table for some rows, in the order given."""
        distinct, places = order_positions(positions)
        source, rows = self.source, []
        for part in source.rows.read(distinct, self._want(completions=source.rows.has_completions)):
            rows += list_rows(source, part, read_rows(source, part, lenses=False))
        return [rows[place] for place in places]

    def describe(self, position: int) -> Plain:
        """Return all there is to say of one row; E504 when there is none such."""
        if not 0 <= position < len(self):
            raise RunError("E504", f"there is no row {position}", hint=f"there are {len(self)} rows")
        source = self.source
        part = next(source.rows.read(pl.Series([position], dtype=pl.UInt32), Wanted()))
        return describe_samples(source, part)[0][1]

    def locate(self, sample_id: str) -> int | None:
        """Return the position of a sample's first row, by its id or by the number of a generated one."""
        return find_position(self.task_run, sample_id)

    def locate_all(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the positions of the first rows of samples, in one pass; those not found are left out."""
        wanted = pl.Series(ids, dtype=pl.String).unique()
        own: dict[str, int] = {}
        ordered: dict[str, int] = {}
        for offset, names in iterate_ids(self.task_run):
            table = pl.DataFrame({"id": names.cast(pl.String)}).with_row_index("p", offset)
            # A sample whose options are shown in several orders may have no row of its own id.
            table = table.with_columns(base=pl.col("id").str.replace(r"~\d+$", ""))
            for column, found in (("id", own), ("base", ordered)):
                rows = table.filter(pl.col(column).is_in(wanted.implode()))
                for position, name in rows.select("p", column).iter_rows():
                    found.setdefault(name, position)
        return ordered | own


def choose_reread(count: int) -> pl.Series:
    """Return which of so many rows are reread: all, or some that depend on nothing but their number."""
    if count <= MOST_REREAD:
        return pl.int_range(count, dtype=pl.UInt32, eager=True)
    draw = random.Random(SEED)  # noqa: S311 - for repeatability, not for secrets
    return pl.Series(sorted(draw.sample(range(count), MOST_REREAD)), dtype=pl.UInt32)


def open_rows(run: Run, task_key: str | None = None) -> RowBook:
    """Return the rows of a task; E504 when the run has no such task."""
    return RowBook(run, find_task(run, task_key))
