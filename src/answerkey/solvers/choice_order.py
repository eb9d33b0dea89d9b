"""`choice_order`: the options of each sample shown in other orders.

An order is the list of places in the file from which the options come: `(2, 0, 1)` shows the third option
first. Each row is looked at by itself, so that leaving one out changes no other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Literal, get_args

from answerkey.errors import SpecError, listing, suggest
from answerkey.models import Draws
from answerkey.solvers.contents import digest_row
from answerkey.solvers.option_cells import Options, OptionTrouble, read_cell, read_cells
from answerkey.solvers.option_references import find_reference
from answerkey.templates import Template
from answerkey.types import Row, Samples

Orders = Literal["original", "shuffled", "rotations", "all"]
Path = tuple[str | int, ...]
Places = tuple[int, ...]

#: `orders: all` asks a sample at most so often: five options.
MOST_ORDERS = 120
#: What is wrong with a row that is left as it stands for that.
UNSUITABLE = "UNSUITABLE"


@dataclass(frozen=True)
class Pride:
    """From which share of the samples the model's prior for places is estimated, and by which draw.

    These samples are shown in all rotations; the others need no further call.
    """

    share: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SpecError(
                "E108", f"`share` is {self.share!r}", hint="it lies between 0 and 1, such as 0.05"
            )


@dataclass(frozen=True)
class ChoiceOrder:
    """Where the option texts stand, and in which orders they are shown.

    `options` is a template that simply reads a column (or a field in one), or a list of such templates, one
    for each option. `shuffled` shows each sample in one order, drawn by `seed` and the row's content.
    """

    options: str | list[str]
    orders: Orders
    seed: int = 0
    pride: Pride | None = None

    def __post_init__(self) -> None:
        known = get_args(Orders)
        if self.orders not in known:
            hint = suggest(str(self.orders), known) or f"orders: {listing(known)}"
            raise SpecError("E108", f"`orders` is {self.orders!r}", hint=hint)
        _ = self.paths

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The ways from a sample to the cells that hold option texts."""
        written = self.options if isinstance(self.options, list) else [self.options]
        return tuple(_find_path(one) for one in written)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that hold option texts."""
        return frozenset(str(path[0]) for path in self.paths)

    def read(self, row: Row, labels: Sequence[str]) -> Options:
        """Return the options of a row; raise OptionTrouble when it has none that can be moved."""
        cells = [follow(row, path) for path in self.paths]
        return read_cells(cells, labels) if isinstance(self.options, list) else read_cell(cells[0], labels)

    def arrange(self, row: Row, labels: Sequence[str], order: Sequence[int]) -> dict[str, object]:
        """Return the columns of a row that hold option texts, with the options in this order."""
        moved = self.read(row, labels).arrange(order)
        changed: dict[str, object] = {}
        for path, cell in zip(self.paths, moved if isinstance(self.options, list) else [moved], strict=True):
            column = str(path[0])
            changed[column] = _put(changed.get(column, row[column]), path[1:], cell)
        return changed


def _find_path(source: str) -> Path:
    template = Template.compile(source)
    if template.kind != "column" or template.path is None:
        raise SpecError(
            "E108",
            f"`options` is {source!r}: it must simply read a column, where the options are put back",
            hint='write "{{ sample.COLUMN }}", or a list of these, one for each option',
        )
    return template.path


def follow(row: object, path: Path) -> object:
    """Return what a path leads to; raise OptionTrouble where it leads nowhere."""
    for step in path:
        try:
            row = row[step]  # type: ignore[index]  # what cannot be entered is the trouble
        except (KeyError, IndexError, TypeError):
            raise OptionTrouble(f"there is no `{'.'.join(map(str, path))}`") from None
    return row


def _put(cell: object, path: Path, value: object) -> object:
    """Return a cell with a value put where a path leads; the cell itself is not changed."""
    if not path:
        return value
    if isinstance(cell, dict):
        return {**cell, path[0]: _put(cell[path[0]], path[1:], value)}
    inner = list(cell)  # type: ignore[call-overload]  # the path was followed before
    inner[int(path[0])] = _put(inner[int(path[0])], path[1:], value)
    return inner


@dataclass(frozen=True)
class RowOrders:
    """The orders of one row, and why it is left as it stands; `trouble` says what is wrong with it.

    `is_plain` says that its options are a list of which every entry moves as it is. A row that
    `estimates_prior` is also shown in the orders `extra`, which count for nothing else.
    """

    orders: tuple[Places, ...]
    left_in_place: str | None = None
    trouble: str | None = None
    is_plain: bool = False
    estimates_prior: bool = False
    extra: tuple[Places, ...] = ()


def plan_row(setting: ChoiceOrder, row: Row, labels: Sequence[str] | None) -> RowOrders:
    """Return the orders of a row; one whose options cannot be moved has the order of the file."""
    if labels is None:  # what is wrong with the choices is the scorer's to say
        return RowOrders(((),), UNSUITABLE)
    same = tuple(range(len(labels)))
    try:
        options = setting.read(row, labels)
    except OptionTrouble as trouble:
        return RowOrders((same,), UNSUITABLE, str(trouble))
    if setting.orders == "original" and setting.pride is None:
        return RowOrders((same,))
    reference = find_reference(options.texts, labels)
    if reference is not None:
        return RowOrders((same,), None if setting.orders == "original" else reference)
    found = replace(_draw_orders(setting, row, same), is_plain=options.is_plain)
    return found if setting.pride is None or found.trouble else _add_extra(found, setting.pride, row)


def _add_extra(found: RowOrders, pride: Pride, row: Row) -> RowOrders:
    """Return the orders of a row, and those it needs besides if it is one that estimates the prior."""
    if Draws(pride.seed, digest_row(row)).draw("pride") >= pride.share:
        return found
    wanted = list_orders("rotations", len(found.orders[0]))
    extra = tuple(one for one in wanted if one not in found.orders)
    return replace(found, estimates_prior=True, extra=extra)


def _draw_orders(setting: ChoiceOrder, row: Row, same: Places) -> RowOrders:
    """Return the orders of a row whose options can be moved."""
    count = len(same)
    if setting.orders == "shuffled":
        return RowOrders((shuffle(count, setting.seed, digest_row(row)),))
    if setting.orders == "all" and math.factorial(count) > MOST_ORDERS:
        many = math.factorial(count)
        why = f"its {count} options have {many} orders, and `all` asks at most {MOST_ORDERS}"
        return RowOrders((same,), UNSUITABLE, why)
    return RowOrders(list_orders(setting.orders, count))


def tell_options(
    setting: ChoiceOrder, samples: Samples, choices: Sequence[Sequence[str] | None]
) -> list[Sequence[str] | None]:
    """Return the option texts of each sample as they stand; None where there are none."""
    if not setting.columns <= set(samples.columns):
        return [None] * len(samples)
    rows = zip(samples.rows(sorted(setting.columns)), choices, strict=True)
    return [None if labels is None else _read_texts(setting, row, labels) for row, labels in rows]


def _read_texts(setting: ChoiceOrder, row: Row, labels: Sequence[str]) -> Sequence[str] | None:
    try:
        return setting.read(row, labels).texts
    except OptionTrouble:
        return None


@lru_cache(maxsize=128)
def list_orders(orders: Orders, count: int) -> tuple[Places, ...]:
    """Return the orders of so many options, the order of the file first."""
    same = tuple(range(count))
    if orders == "rotations":
        return tuple(same[shift:] + same[:shift] for shift in range(count))
    return tuple(permutations(same)) if orders == "all" else (same,)


def shuffle(count: int, seed: int, content: str) -> Places:
    """Return an order drawn by the seed and a row's content."""
    draws = Draws(seed, content)
    return tuple(sorted(range(count), key=lambda place: (draws.rank(f"option {place}"), place)))
