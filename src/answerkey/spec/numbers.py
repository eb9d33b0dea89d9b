"""Numbers that YAML 1.1 spells in its own ways: `1_000`, `0x1F`, `0o17`, `0b101`.

They are text wherever text may stand; only a field that asks for a number reads them. `010` is refused there:
YAML 1.1 means 8 by it, YAML 1.2 means 10.
"""

from __future__ import annotations

import math
import re

_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
#: Python itself refuses to print longer ones back.
_MAX_DIGITS = 300

LEADING_ZERO_HINT = "a leading 0 may mean octal or nothing: leave it out, or write `0o10` for 8"


def has_leading_zero(text: str) -> bool:
    """Return whether a text is a whole number of which YAML 1.1 and 1.2 make two different ones."""
    return bool(_LEADING_ZERO.fullmatch(text.strip()))


def parse_whole(text: str) -> int | None:
    """Return the whole number that a text spells, or None."""
    trimmed = text.strip()
    if len(trimmed) > _MAX_DIGITS or not _WHOLE.fullmatch(trimmed):
        return None
    try:
        return int(trimmed.replace("_", ""), 0)
    except ValueError:
        return None


def parse_number(text: str) -> float | None:
    """Return the finite number that a text spells, or None."""
    whole = parse_whole(text)
    if whole is not None:
        return float(whole)
    trimmed = text.strip()
    if has_leading_zero(trimmed) or not _NUMBER.fullmatch(trimmed):
        return None
    number = float(trimmed.replace("_", ""))
    return number if math.isfinite(number) else None
