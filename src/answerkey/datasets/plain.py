"""Python values as JSON knows them, so that a dataset holds the same values whatever it was read from."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import cast

_SCALARS = frozenset({str, bool, float, int, type(None)})


def make_plain(values: Sequence[object]) -> Sequence[object]:
    """Return the values as JSON knows them; raises TypeError for one that has no JSON form."""
    return values if set(map(type, values)) <= _SCALARS else [plain(value) for value in values]


def plain(value: object) -> object:
    """Return one value as JSON knows it: dates in ISO form, decimals as written, bytes in base64."""
    if type(value) in _SCALARS:
        return value
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value)
    unwrap = getattr(value, "item", None)
    unwrapped = unwrap() if callable(unwrap) else value
    if type(unwrapped) in _SCALARS:
        return unwrapped
    raise TypeError(f"a value of type {type(value).__name__}")


def _convert_mapping(value: object) -> object:
    mapping = cast("Mapping[object, object]", value)
    for key in mapping:
        if not isinstance(key, str):
            raise TypeError(f"a mapping whose key {key!r} is not text")
    return {str(key): plain(one) for key, one in mapping.items()}


def _convert_sequence(value: object) -> object:
    return [plain(one) for one in cast("Sequence[object]", value)]


def _convert_date(value: object) -> object:
    return cast("dt.date | dt.time", value).isoformat()


def _convert_decimal(value: object) -> object:
    """Return a decimal without places as a whole number, any other as its text: no digit is lost."""
    number = cast("Decimal", value)
    return int(number) if number.as_tuple().exponent == 0 else format(number, "f")


def _convert_bytes(value: object) -> object:
    return base64.b64encode(cast("bytes", value)).decode("ascii")


_CONVERTERS: tuple[tuple[type | tuple[type, ...], Callable[[object], object]], ...] = (
    (Mapping, _convert_mapping),
    ((list, tuple), _convert_sequence),
    ((dt.date, dt.time), _convert_date),
    (dt.timedelta, str),
    (Decimal, _convert_decimal),
    (bytes, _convert_bytes),
    (str, lambda value: str.__str__(cast("str", value))),
    (int, lambda value: int(cast("int", value))),
    (float, lambda value: float(cast("float", value))),
)
