"""Looking into the objects of a log, which may hold anything: what JSON makes of it, dicts and lists."""

from __future__ import annotations

import math


def get(value: object, *path: str) -> object:
    """Return what a path of keys leads to; None where it leads nowhere."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def get_text(value: object, *path: str) -> str | None:
    """Return the text that a path leads to, a number as text; None for anything else."""
    found = get(value, *path)
    if isinstance(found, str):
        return found
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return str(found) if is_number else None


def get_number(value: object, *path: str) -> float | None:
    """Return the finite number that a path leads to; true and false are 1 and 0."""
    return read_number(get(value, *path))


def read_number(value: object) -> float | None:
    """Return a value as a finite number, also one written as text; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def get_count(value: object, *path: str) -> int | None:
    """Return the whole number from 0 on that a path leads to."""
    found = get(value, *path)
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 63
    return found if is_count and isinstance(found, int) else None
