"""How outcomes come back from a worker process: as JSON, in which every object is marked for what it is.

The worker renders what a stranger wrote, so nothing that it says is more than a value.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from answerkey.templates.plain import SCALARS, describe_type, is_flat
from answerkey.templates.trouble import Excess, RowTrouble

#: What cells can hold beside texts, numbers, lists and mappings: its mark, how it is written and read.
_CELLS: Final[dict[type, tuple[str, Callable[[Any], object], Callable[[Any], object]]]] = {
    dt.datetime: (
        "datetime",
        dt.datetime.isoformat,
        dt.datetime.fromisoformat,
    ),
    dt.date: ("date", dt.date.isoformat, dt.date.fromisoformat),
    dt.time: ("time", dt.time.isoformat, dt.time.fromisoformat),
    dt.timedelta: (
        "timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: dt.timedelta(*parts),
    ),
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
}
_MAPPING: Final = "mapping"
_TROUBLE: Final = "trouble"
_EXCESS: Final = "excess"
_STOPPED: Final = "stopped"
_READERS: Final = {mark: read for mark, _, read in _CELLS.values()}


@dataclass(frozen=True)
class Stopped:
    """The last thing that is said of a template: why nothing more of it is rendered."""

    reason: str


def encode(outcome: object) -> object:
    """Return an outcome, a value or a RowTrouble, as what JSON can hold."""
    if type(outcome) in SCALARS or is_flat(outcome):
        return outcome
    if isinstance(outcome, list):
        return [encode(one) for one in outcome]
    return _mark(outcome)


def _mark(outcome: object) -> dict[str, object]:
    """Return what is no list and no scalar as an object with one key, which says what it is."""
    if isinstance(outcome, Mapping):
        return {_MAPPING: [[encode(key), encode(one)] for key, one in outcome.items()]}
    if isinstance(outcome, Stopped):
        return {_STOPPED: outcome.reason}
    if type(outcome) in _CELLS:
        mark, write, _ = _CELLS[type(outcome)]
        return {mark: write(outcome)}
    if not isinstance(outcome, RowTrouble):
        outcome = RowTrouble(f"the template yields {describe_type(outcome)}, which is no value")
    parts = [outcome.message, outcome.hint, outcome.column, outcome.is_undefined]
    return {_EXCESS if isinstance(outcome, Excess) else _TROUBLE: parts}


def decode(message: bytes) -> list[object]:
    """Return the outcomes in a message. Raise ValueError for anything else."""
    try:
        outcomes = json.loads(message, object_hook=_read_object)
    except (KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None
    if not isinstance(outcomes, list):
        raise ValueError("no outcomes")  # noqa: TRY004 - what a process says is data
    return outcomes


def _read_object(found: dict[str, Any]) -> object:
    [(mark, content)] = found.items()
    if mark == _MAPPING:
        return dict(content)
    if mark in {_TROUBLE, _EXCESS}:
        message, hint, column, is_undefined = content
        kind = Excess if mark == _EXCESS else RowTrouble
        return kind(message, hint=hint, column=column, is_undefined=is_undefined)
    return Stopped(content) if mark == _STOPPED else _READERS[mark](content)
