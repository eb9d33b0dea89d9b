"""How much a template may do on one row: steps, and the size of what it makes.

Every limit here is a count, not a time, so that the same row always gives the same value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, Final

#: The elements that loops go through and the calls of one row, with the text that is made.
MOST_STEPS: Final = 1_000_000
#: A call counts as so many steps of a loop.
CALL_STEPS: Final = 4
#: So many characters count as one step.
STEP_TEXT: Final = 64
#: Larger texts and lists, products and powers are refused before they are made.
MOST_ELEMENTS: Final = 10_000_000
MOST_BITS: Final = 1_000_000

#: A conversion of `'%5.2f' % x`: its width and its precision.
_CONVERSION: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|[0-9]+)?(?:\.(\*|[0-9]+)?)?")
_WIDTH: Final = re.compile(r"[0-9*]")
#: A format of its own inside `'{:>5}'.format(x)`.
_SPECIAL: Final = re.compile(r"\{[^{}]*[:!]")
_DIGITS: Final = re.compile(r"[0-9]+")
#: Python reads no longer numbers either.
_LONGEST_WIDTH: Final = 18


_TEXTS: Final = frozenset([str])


class Effort:
    """What is left of the steps of one row."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self, steps: int) -> None:
        """Take steps away; raise OverflowError when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise OverflowError(f"the template takes more than {MOST_STEPS:,} steps on this row")

    def spend_text(self, size: int) -> None:
        """Take away the steps of a text or list before it is made; raise OverflowError if it is too long."""
        if size > MOST_ELEMENTS:
            message = f"the template makes a value of {size:,} elements; {MOST_ELEMENTS:,} are allowed"
            raise OverflowError(message)
        self.left -= 1 + size // STEP_TEXT
        if self.left < 0:
            self.spend(0)


def measure(value: object) -> int:
    """Return about how long a value is when it is printed; raise OverflowError where that is too long."""
    if not isinstance(value, (list, tuple, dict)):
        return measure_scalar(value)
    if type(value) is list and _TEXTS.issuperset(map(type, value)):
        # By far the most usual list, and told without a loop of ours.
        size = len(value) + 1 + sum(map(len, value))
    else:
        size = _measure_nested(value)
    if size > MOST_ELEMENTS:
        raise OverflowError(f"the template makes a value of more than {MOST_ELEMENTS:,} elements")
    return size


def _measure_nested(value: object) -> int:
    size = 0
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, (list, tuple, dict)):
            # Keys count as short: there are never more of them than values.
            waiting.extend(one.values() if isinstance(one, dict) else one)
            size += len(one) + 1
            if size > MOST_ELEMENTS:
                break
        else:
            size += 1
    return size


def measure_scalar(value: object) -> int:
    """Return the length of a text, and of any other value as if it were short."""
    return len(value) if isinstance(value, (str, bytes)) else 1


def check_power(left: object, right: object) -> None:
    """Refuse a power that is absurdly large."""
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MOST_BITS:
        raise OverflowError(f"the power {left} ** {right} is too large")


def measure_product(left: object, right: object) -> int:
    """Return the length of a repeated text or list, 0 for other products; refuse an absurdly large number."""
    for many, times in ((left, right), (right, left)):
        if isinstance(many, (str, bytes, list, tuple)) and isinstance(times, int):
            return len(many) * times
    if (
        isinstance(left, int)
        and isinstance(right, int)
        and left.bit_length() + right.bit_length() > MOST_BITS
    ):
        raise OverflowError("the product is too large a number")
    return 0


def measure_sum(left: object, right: object) -> int:
    """Return the length of two texts or lists put together, 0 for other sums."""
    if isinstance(left, (str, bytes, list, tuple)) and isinstance(right, (str, bytes, list, tuple)):
        return len(left) + len(right)
    return 0


def measure_conversions(text: str, values: object) -> int:
    """Return at most how long `text % values` is."""
    if not _WIDTH.search(text):
        return len(text) + text.count("%") * measure(values)
    arguments = values if isinstance(values, tuple) else (values,)
    pairs = _CONVERSION.findall(text)
    widths = [width for pair in pairs for width in pair]
    stars = sum(abs(one) for one in arguments if isinstance(one, int)) if "*" in widths else 0
    fixed = sum(_read_width(width) for width in widths if width.isdigit())
    return len(text) + fixed + stars + len(pairs) * measure(values)


def measure_fields(text: str, arguments: Sequence[object], named: Mapping[str, object]) -> int:
    """Return at most how long `text.format(…)` is."""
    values = [*arguments, *(named[key] for key in named)]
    if not _SPECIAL.search(text):
        return len(text) + text.count("{") * measure(values)
    size, fields = len(text), 0
    for _, name, form, _ in Formatter().parse(text):
        fields += name is not None
        size += sum(_read_width(width) for width in _DIGITS.findall(form or ""))
        if form and "{" in form:
            size += sum(_measure_width(one) for one in values)
    return size + fields * measure(values)


def _measure_width(value: object) -> int:
    """Return the largest width that a value can stand for inside a format."""
    if isinstance(value, int):
        return abs(value)
    return max((_read_width(width) for width in _DIGITS.findall(str(value))), default=0)


def _read_width(digits: str) -> int:
    return int(digits) if len(digits) <= _LONGEST_WIDTH else MOST_ELEMENTS + 1


def measure_replacement(text: str, old: str, new: str, count: int = -1) -> int:
    """Return how long a text is with `old` replaced by `new`, the first `count` times or (-1) always."""
    if len(new) <= len(old):
        return len(text)
    found = text.count(old)
    return len(text) + (found if count < 0 else min(found, count)) * (len(new) - len(old))


def measure_joined(separator: str, values: Sequence[object]) -> int:
    """Return how long values are with a separator between them."""
    return len(separator) * len(values) + sum(map(measure, values))


def _measure_padded(owner: Any, width: int = 0, *_: object) -> int:  # noqa: ANN401 - whatever has a length
    return max(len(owner), width)


def _measure_tabs(owner: str, tabsize: int = 8) -> int:
    return len(owner) + owner.count("\t") * tabsize


def _measure_table(owner: str, table: Mapping[int, object]) -> int:
    return len(owner) * max((measure_scalar(table[key]) for key in table), default=1)


#: Methods of texts and lists that make something longer than what they are given, and how long.
METHOD_SIZES: Final[dict[str, Callable[..., int]]] = {
    "center": _measure_padded,
    "ljust": _measure_padded,
    "rjust": _measure_padded,
    "zfill": _measure_padded,
    "expandtabs": _measure_tabs,
    "replace": measure_replacement,
    "join": measure_joined,
    "translate": _measure_table,
    "extend": lambda owner, values: len(owner) + len(values),
    "to_bytes": lambda _owner, length=1, *_rest, **_options: length,
}
