"""Few-shot: which rows of a second dataset a sample is shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from answerkey.errors import DataError, SpecError, listing, suggest
from answerkey.models import Draws
from answerkey.solvers.troubles import ExamplesTrouble
from answerkey.templates import RowTrouble
from answerkey.types import Row, Samples

#: An id is no content: the same question may have another one elsewhere.
ID_COLUMN = "sample_id"


@dataclass(frozen=True)
class Examples:
    """How examples are chosen; with `by`, only rows that have the sample's own value in that column."""

    dataset: str
    num_examples: int
    seed: int = 0
    by: str | None = None

    def __post_init__(self) -> None:
        if self.num_examples < 0:
            raise SpecError("E108", f"`num_examples` is {self.num_examples}, it must not be negative")


def pick_examples(setting: Examples, samples: Samples, examples: Samples) -> list[list[Row] | RowTrouble]:
    """Return the examples of each sample, or why there are too few.

    Rows are ranked by the seed and their id, and the first that are not the sample itself are taken: the same
    seed gives the same examples, whichever samples are asked. The sample itself is the row with its id in the
    same file, or any row that says the same in all columns the two have in common.
    """
    for table in (samples, examples):
        _require_column(setting, table)
    pool = _Pool(setting, examples)
    finder = _SelfFinder(samples, examples)
    wanted = samples.values(setting.by) if setting.by else [None] * len(samples)
    return [_pick(pool, finder, position, wanted[position]) for position in range(len(samples))]


def _pick(pool: _Pool, finder: _SelfFinder, position: int, value: object) -> list[Row] | RowTrouble:
    setting = pool.setting
    chosen: list[int] = []
    for candidate in pool.ranked(value):
        if len(chosen) == setting.num_examples:
            break
        if not finder.is_same(position, candidate):
            chosen.append(candidate)
    if len(chosen) == setting.num_examples:
        return [pool.row(one) for one in chosen]
    group = f" with `{setting.by}` = {value!r}" if setting.by else ""
    return ExamplesTrouble(
        f"{setting.num_examples} examples are asked for, and dataset `{setting.dataset}` has"
        f" {len(chosen)}{group} that are not the sample itself",
        hint="lower `num_examples`" + (", or leave `by` out" if setting.by else ""),
    )


def _require_column(setting: Examples, table: Samples) -> None:
    if setting.by is None or setting.by in table.columns:
        return
    raise DataError(
        "E206",
        f"`examples.by` names `{setting.by}`, which is not a column of both datasets",
        where=None,
        hint=suggest(setting.by, table.columns) or f"columns: {listing(table.columns)}",
    )


class _Pool:
    """The examples in the order in which they are offered, by group."""

    def __init__(self, setting: Examples, examples: Samples) -> None:
        self.setting = setting
        self._examples = examples
        self._rows: dict[int, Row] = {}

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        ids = self._examples.ids.to_list()
        order = sorted(
            range(len(ids)), key=lambda i: (Draws(self.setting.seed, ids[i]).rank("example"), ids[i])
        )
        if self.setting.by is None:
            return {_key(None): order}
        values = [_key(value) for value in self._examples.values(self.setting.by)]
        groups: dict[str, list[int]] = {}
        for position in order:
            groups.setdefault(values[position], []).append(position)
        return groups

    def ranked(self, value: object) -> Sequence[int]:
        """Return the positions of a group, first come first."""
        return self._groups.get(_key(value), [])

    def row(self, position: int) -> Row:
        """Return one example."""
        if position not in self._rows:
            self._rows[position] = self._examples.row(position)
        return self._rows[position]


class _SelfFinder:
    """Tells whether an example is the sample itself."""

    def __init__(self, samples: Samples, examples: Samples) -> None:
        self._is_same_file = samples.file is not None and samples.file == examples.file
        self._sample_ids, self._example_ids = samples.ids.to_list(), examples.ids.to_list()
        columns = _common_columns(samples, examples)
        self._contents = list(_contents(samples, columns))
        self._examples, self._columns = examples, columns
        self._example_contents: dict[int, bytes | None] = {}

    def is_same(self, position: int, candidate: int) -> bool:
        """Return whether the example at `candidate` is the sample at `position`."""
        if self._is_same_file and self._sample_ids[position] == self._example_ids[candidate]:
            return True
        content = self._contents[position]
        return content is not None and content == self._example_content(candidate)

    def _example_content(self, candidate: int) -> bytes | None:
        if candidate not in self._example_contents:
            one = self._examples.slice(candidate, 1)
            self._example_contents[candidate] = next(_contents(one, self._columns))
        return self._example_contents[candidate]


def _common_columns(samples: Samples, examples: Samples) -> list[str]:
    """Return the columns to compare content by; none unless one dataset has all columns of the other."""
    first, second = (set(table.columns) - {ID_COLUMN} for table in (samples, examples))
    return sorted(first & second) if first <= second or second <= first else []


def _contents(table: Samples, columns: Sequence[str]) -> Iterator[bytes | None]:
    """Yield what identifies each row's content; None where there is nothing to compare."""
    if not columns:
        yield from (None for _ in range(len(table)))
        return
    for row in table.rows(columns):
        yield hashlib.sha256(_key(row).encode(errors="surrogatepass")).digest()


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
