"""A dataset whose samples are shown with their options in several orders: one row for each order.

A row in the order of the file has the sample's own id, the others `<id>~1`, `<id>~2`, …; where each
sample is shown once, all rows have the ids of their samples. Recorded completions say in the column
`option_order` in which order the options stood: it holds, for each place, what the option there is
called in the dataset: `["C", "A", "B"]`, or `CAB`; or where it stands there, counted from 0: `[2,
0, 1]`. The sample is that of `base_sample_id`, else of `sample_id`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

import polars as pl

from answerkey.datasets.dataset import Dataset
from answerkey.datasets.rows import ID_COLUMN, ORDER_COLUMN, Rows, RowsOver, iterate_blocks
from answerkey.errors import DataError, Place, listing
from answerkey.scorers import RowProblem
from answerkey.solvers.choice_order import UNSUITABLE, ChoiceOrder, RowOrders, plan_row
from answerkey.spec import Task
from answerkey.types import PRIOR_SCHEMA, Row, Sample, Samples

BASE_COLUMN = "base_sample_id"
Places = tuple[int, ...]


def _list_bases(table: Samples) -> list[str]:
    """Return the id of the sample that each row is of."""
    bases = []
    for sample in table:
        base = sample.fields.get(BASE_COLUMN)
        if base is None:
            base = sample.id
        bases.append(str(base))
    return bases


def read_order(cell: object, labels: Sequence[str], place: Place) -> Places:
    """Return the positions of the options in the dataset; null means the order of the dataset."""
    if cell is None or cell in ("", []):
        return tuple(range(len(labels)))
    entries = cell
    if isinstance(cell, str):
        with suppress(ValueError, RecursionError):
            entries = json.loads(cell)
    if not isinstance(entries, list):  # with commas, or letter by letter
        text = str(cell).replace(" ", "")
        entries = list(text)
        if "," in text:
            entries = text.split(",")
    names = [str(entry) for entry in entries]
    numbers = sorted(map(str, range(len(labels))))
    if sorted(names) == numbers and sorted(labels) != numbers:
        return tuple(map(int, names))
    if sorted(names) != sorted(labels):
        message = f"`{ORDER_COLUMN}` is {cell!r}, not an order of the choices {list(labels)!r}"
        hint = "name every choice once: at each place the one that its option has in the dataset"
        raise DataError("E209", message, where=place, hint=hint)
    return tuple(list(labels).index(name) for name in names)


SEPARATOR = "~"
#: The rows to be shown: which row of the file, the number in its id (0: none), the order, why it
#: stays as it is, and which of the label sets it has (null: no choices).
PLAN_SCHEMA: dict[str, pl.DataType] = {
    "row": pl.UInt32(),
    "number": pl.UInt32(),
    "order": pl.List(pl.UInt16),
    "not_reordered": pl.String(),
    "labels": pl.UInt32(),
    **PRIOR_SCHEMA,
}
#: How many rows are planned together.
BLOCK = 16_384
Labels = tuple[str, ...]


@dataclass(frozen=True)
class OrderedRows(RowsOver):
    """The rows of a dataset, repeated for each order in which their options are shown."""

    plan: pl.DataFrame
    labels: tuple[Labels, ...]
    setting: ChoiceOrder

    def __len__(self) -> int:
        return self.plan.height

    def slice(self, offset: int, length: int) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        return self._cut(self.plan.slice(offset, length))

    def take(self, positions: range | pl.Series, /) -> Rows:
        """Return the rows at these positions, which ascend."""
        if isinstance(positions, range):
            return self.slice(positions.start, len(positions))
        return self._cut(self.plan[positions])

    def _cut(self, plan: pl.DataFrame) -> Self:
        """Return the rows of a part of the plan, with only the rows of the file that they need."""
        if not plan.height:
            return replace(self, rows=self.rows.slice(0, 0), plan=plan)
        first = int(plan["row"][0])
        last = int(plan["row"][-1])
        rows = self.rows.slice(first, last + 1 - first)
        return replace(self, rows=rows, plan=plan.with_columns(pl.col("row") - first))

    def load(self) -> Samples:
        """Return all rows with their options in order."""
        base = self.rows.load().take(self.plan["row"])
        orders = self.plan.select(
            base.ids.alias("base_sample_id"),
            pl.col("order").cast(pl.List(pl.UInt16)),
            "not_reordered",
        )
        if self.setting.pride is not None:
            orders = orders.with_columns(self.plan.select(*PRIOR_SCHEMA))
        ids = self._number(base.ids)
        written = []
        for sample, row_id in zip(base, ids, strict=True):
            written.append(replace(sample, id=row_id))
        return replace(
            base,
            items=self._arrange(base, ids),
            orders=orders,
            written=written,
        )

    @property
    def ids(self) -> pl.Series:
        """The ids of all rows."""
        return self._number(self.rows.ids.gather(self.plan["row"]))

    def _number(self, ids: pl.Series) -> pl.Series:
        number = self.plan["number"]
        suffix = pl.Series([SEPARATOR]) + number.cast(pl.String)
        row_ids = pl.when(number == 0).then(ids).otherwise(ids + suffix)
        return pl.select(row_ids.alias(ids.name)).to_series()

    def _arrange(self, base: Samples, ids: Iterable[str]) -> list[Sample]:
        """Return the samples under their ids, the options of each in its order."""
        can_arrange = self.setting.columns <= set(base.columns)
        plan = self.plan.select("order", "not_reordered", "labels").iter_rows()
        items: list[Sample] = []
        for sample, row_id, (order, reason, code) in zip(
            base,
            ids,
            plan,
            strict=True,
        ):
            fields = sample.fields
            can_move = can_arrange and reason is None and code is not None
            if can_move and list(order) != sorted(order):
                arranged = self.setting.arrange(fields, self.labels[code], order)
                fields = Row({**fields, **arranged})
            items.append(replace(sample, id=row_id, fields=fields))
        return items


@dataclass(frozen=True)
class OrderedDataset(Dataset):
    """A dataset with its options in several orders; `base` is the original dataset."""

    base: Dataset = field(kw_only=True)

    @property
    def rows_read(self) -> int:
        """How many rows the source has."""
        return self.base.rows_read

    @property
    def rows_filtered(self) -> int:
        """How many rows the filters leave out."""
        return self.base.rows_filtered

    @property
    def num_samples(self) -> int:
        """How many samples there are."""
        return len(self.base)

    def cut(self, rows: int) -> Iterator[range]:
        """Yield positions in parts of about `rows` rows; those of one sample stay together."""
        owners = pl.Series(dtype=pl.UInt32)
        if isinstance(self.table, OrderedRows):
            owners = self.table.plan["row"]
        first_rows = (owners != owners.shift()).fill_null(value=True).arg_true()
        start = 0
        while start < len(self):
            place = first_rows.search_sorted(start + rows, side="right")
            stop = len(self)
            if start + rows < len(self):
                stop = int(first_rows[place - 1])
            if stop <= start:  # the sample has more rows than a part may have
                later_rows = [*first_rows.slice(place, 1), len(self)]
                stop = int(later_rows[0])
            yield range(start, stop)
            start = stop

    def without_rows(self) -> Self:
        """Return the description of the dataset, without its rows."""
        return replace(super().without_rows(), base=self.base.without_rows())


def order_dataset(
    task: Task,
    dataset: Dataset,
    completions: Rows | None = None,
) -> Dataset:
    """Return the dataset with a row for each order in which a task shows a sample.

    The orders are those of recorded completions, where these say in which one their question was
    asked.
    """
    setting = task.choice_order
    if setting is None:
        return dataset
    for name in sorted(setting.columns - set(dataset.columns)):
        message = (
            f"`choice_order` reads the column `{name}`: dataset `{dataset.name}` has none such"
        )
        where = task.place("definition", "choice_order", "options")
        hint = f"columns: {listing(dataset.columns)}"
        raise DataError("E206", message, where=where, hint=hint)
    plan, label_sets = _plan_orders(
        task,
        setting,
        dataset,
        completions,
    )
    rows = OrderedRows(
        dataset.rows,
        plan,
        label_sets,
        setting,
    )
    if dataset.rows.ids.str.contains(SEPARATOR, literal=True).any():
        ids = rows.ids
        for repeated_id in ids.filter(ids.is_duplicated()).head(1):
            message = f"sample id `{repeated_id}` is also the name of an order of another sample"
            where = Place(file=rows.file, field="sample_id")
            hint = f"ids that end in `{SEPARATOR}` and a number are those of orders"
            raise DataError("E208", message, where=where, hint=hint)
    positions = range(len(rows))
    return OrderedDataset(
        dataset.name,
        dataset.fingerprint,
        rows,
        positions,
        positions,
        notices=dataset.notices,
        base=dataset,
    )


def _plan_orders(
    task: Task,
    setting: ChoiceOrder,
    dataset: Dataset,
    completions: Rows | None,
) -> tuple[pl.DataFrame, tuple[Labels, ...]]:
    """Return the rows to be shown, as in PLAN_SCHEMA, and the label sets that they have."""
    label_sets: dict[Labels, int] = {}
    recorded = _list_recorded_orders(completions)
    parts = [pl.DataFrame(schema=PLAN_SCHEMA)]
    for offset, block in iterate_blocks(dataset.rows, size=BLOCK):
        lines: list[Sequence[object]] = []
        for position, labels in enumerate(list_labels(task, block)):
            sample = block.items[position]
            planned = plan_row(setting, sample.fields, labels)
            code = None
            if labels is not None:
                code = label_sets.setdefault(labels, len(label_sets))
                if recorded is not None and planned.not_reordered != UNSUITABLE:
                    planned = _follow_recorded(
                        planned,
                        recorded,
                        sample.id,
                        labels,
                    )
            for line in _list_lines(planned, code):
                lines.append((offset + position, *line))
        parts.append(pl.DataFrame(lines, schema=PLAN_SCHEMA, orient="row"))
    return pl.concat(parts), tuple(label_sets)


#: The orders in which each sample was shown, as recorded completions state them, and where.
RecordedOrders = dict[str, list[tuple[object, Place]]]


def _list_recorded_orders(completions: Rows | None) -> RecordedOrders | None:
    """Return the orders that recorded completions state for each sample; None without any."""
    if completions is None or ORDER_COLUMN not in completions.columns:
        return None
    table = completions.load()
    recorded: RecordedOrders = {}
    for position, base in enumerate(_list_bases(table)):
        cell = table.row(position)[ORDER_COLUMN]
        place = table.place(position, ORDER_COLUMN)
        recorded.setdefault(base, []).append((cell, place))
    return recorded


def _follow_recorded(
    planned: RowOrders,
    recorded: RecordedOrders,
    sample_id: str,
    labels: Labels,
) -> RowOrders:
    """Return the distinct orders that completions state for a sample, else the first planned."""
    orders: dict[Places, None] = {}
    for cell, place in recorded.get(sample_id, ()):
        orders[read_order(cell, labels, place)] = None
    recorded_orders = tuple(orders) or planned.orders[:1]
    not_reordered = None
    if recorded_orders == planned.orders:
        not_reordered = planned.not_reordered
    return RowOrders(recorded_orders, not_reordered, estimates_prior=planned.estimates_prior)


def _list_lines(planned: RowOrders, code: int | None) -> Iterator[tuple[object, ...]]:
    """Yield the lines of the plan for one sample, without the place of its row.

    The order of the file has the sample's own id; the others are numbered.
    """
    count = 0
    for index, order in enumerate((*planned.orders, *planned.extra)):
        is_extra = index >= len(planned.orders)
        is_alone = len(planned.orders) == 1
        is_as_written = list(order) == sorted(order)
        number = 0
        if is_extra or not (is_alone or is_as_written):
            count += 1
            number = count
        yield (
            number,
            list(order),
            planned.not_reordered,
            code,
            planned.estimates_prior,
            is_extra,
        )


def list_labels(task: Task, samples: Samples) -> list[Labels | None]:
    """Return the labels of the options of each sample; None where a row has no choices."""
    facts = task.sample_facts(samples)
    labels: list[Labels | None] = [None] * len(samples)
    if facts is not None:
        for row, names in enumerate(facts.choices):
            if names is not None:
                labels[row] = tuple(names)
    return labels


def find_order_problems(task: Task, samples: Samples) -> Iterator[RowProblem]:
    """Yield the rows whose options cannot be reordered though their choices are valid."""
    setting = task.choice_order
    orders = samples.orders
    if setting is None or orders is None:
        return
    is_unsuitable = orders["not_reordered"] == UNSUITABLE
    positions = is_unsuitable.fill_null(value=False).arg_true()
    written = samples.take(positions).as_written()
    label_lists = list_labels(task, written)
    for position, row, labels in zip(
        positions,
        written.rows(),
        label_lists,
        strict=True,
    ):
        problem = plan_row(setting, row, labels).problem
        if problem is None:
            continue
        columns = ", ".join(sorted(setting.columns))
        where = samples.place(position, columns)
        message = f"sample `{orders['base_sample_id'][position]}`: {problem}"
        hint = "fix the row"
        if " orders" in problem:
            hint = "fix the row, or use `orders: rotations`"
        error = DataError("E213", message, where=where, hint=hint)
        yield RowProblem(position, error, "BAD_OPTIONS")


def name_completions(task: Task, completions: Rows, dataset: Dataset) -> Rows:
    """Return recorded completions under the ids that the rows of an ordered dataset have.

    A row is identified by its sample and its order.
    """
    if task.choice_order is None:
        return completions
    if ORDER_COLUMN not in completions.columns:
        refuse_unordered(task.choice_order, completions.file)
        return completions
    samples = dataset.samples()
    if samples.orders is None:
        return completions
    row_ids: dict[tuple[str, Places], str] = {}
    label_sets: dict[str, Sequence[str]] = {}
    orders = samples.orders.select("base_sample_id", "order").iter_rows()
    label_lists = list_labels(task, samples.as_written())
    for sample, (base, order), labels in zip(
        samples,
        orders,
        label_lists,
        strict=True,
    ):
        row_ids[base, tuple(order)] = sample.id
        label_sets[base] = labels or ()
    table = completions.load()
    items = []
    for sample, base in zip(table, _list_bases(table), strict=True):
        order = ()
        if label_sets.get(base):
            cell = sample.fields[ORDER_COLUMN]
            order = read_order(cell, label_sets[base], sample.place(ORDER_COLUMN))
        row_id = row_ids.get((base, order), sample.id)
        items.append(replace(sample, id=row_id))
    columns = list(table.columns)
    if ID_COLUMN not in columns:
        columns.append(ID_COLUMN)
    return replace(table, items=items, columns=columns)


def refuse_unordered(setting: ChoiceOrder, file: str | None = None) -> None:
    """Raise E209 for completions that do not say in which order their options stood, if there are
    several.
    """
    if setting.orders == "original":
        return
    message = "the completions do not say in which order their options stood"
    hint = (
        f"bring a file with the columns `sample_id` and `{ORDER_COLUMN}` by "
        "`--completions FILE`, or write `orders: original`"
    )
    raise DataError("E209", message, where=Place(file=file), hint=hint)
