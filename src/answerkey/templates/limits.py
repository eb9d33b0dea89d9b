"""How much a template may do on one row: steps, and the size of what it makes.

Every limit here is a count, not a time, so that the same row always gives the same value. What no count
foresees is stopped by the limits of the worker process (`isolation`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, Final

#: The elements that loops and filters go through and the calls of one row, with the text that is made.
MOST_STEPS: Final = 1_000_000
#: A tame template that needs no more is rendered here; one that does is rendered again in a worker process.
FEW_STEPS: Final = 10_000
#: A call counts as so many steps of a loop.
CALL_STEPS: Final = 20
#: A filter counts as so many on each element, and so does one in the body of a loop.
FILTER_STEPS: Final = 5
#: So many characters count as one step, and so many parts of the body of a loop.
STEP_TEXT: Final = 32
STEP_NODES: Final = 4
#: Larger texts are refused before they are made, and larger lists, products and powers.
MOST_ELEMENTS: Final = 10_000_000
MOST_PARTS: Final = 1_000_000
MOST_BITS: Final = 10_000
#: The product of two numbers of so many bits together counts as one step.
STEP_BITS: Final = 2**14
#: What a template may make of nothing, and how many times what it reads and what it is written with.
FREE_OUTPUT: Final = 16_384
MOST_GROWTH: Final = 32
#: For patterns whose worst case is not known, on one row.
PATTERN_SECONDS: Final = 0.5

#: A conversion of `'%5.2f' % x`: its width and its precision.
_CONVERSION: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|[0-9]+)?(?:\.(\*|[0-9]+)?)?")
_WIDTH: Final = re.compile(r"[0-9*]")
#: A format of its own inside `'{:>5}'.format(x)`.
_SPECIAL: Final = re.compile(r"\{[^{}]*[:!]")
_DIGITS: Final = re.compile(r"[0-9]+")
#: Python reads no longer numbers either.
_LONGEST_WIDTH: Final = 18
_SHOWN_BITS: Final = 200
_DIGIT_BITS: Final = 4


_TEXTS: Final = frozenset([str])


class ExcessError(OverflowError):
    """A template does more on a row than it may."""


class Effort:
    """What is left of the steps of one row, and of the time for patterns.

    With few steps (`FEW_STEPS`) nothing is tried whose cost cannot be told.
    """

    __slots__ = ("left", "seconds", "steps")

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.steps = steps
        self.renew()

    def renew(self) -> None:
        """Begin anew with the next row."""
        self.left = self.steps
        self.seconds = PATTERN_SECONDS

    def spend(self, steps: int) -> None:
        """Take steps away; raise ExcessError when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise ExcessError(f"the template takes more than {self.steps:,} steps on this row")

    def spend_text(self, size: int) -> None:
        """Take away the steps of a text or list before it is made; raise ExcessError if it is too long."""
        if size > MOST_ELEMENTS:
            message = f"the template makes a value of {size:,} elements; {MOST_ELEMENTS:,} are allowed"
            raise ExcessError(message)
        self.left -= 1 + size // STEP_TEXT
        if self.left < 0:
            self.spend(0)

    def require_all(self) -> None:
        """Raise ExcessError unless all steps are granted, which is where the process can be stopped."""
        if self.steps < MOST_STEPS:
            self.left = -1
            self.spend(0)


def measure(value: object) -> int:
    """Return about how long a value is when it is printed; raise ExcessError where that is too long."""
    if not isinstance(value, (list, tuple, dict)):
        return measure_scalar(value)
    if type(value) is list and _TEXTS.issuperset(map(type, value)):
        # By far the most usual list, and told without a loop of ours.
        size = len(value) + 1 + sum(map(len, value))
    else:
        size = _measure_nested(value)
    if size > MOST_ELEMENTS:
        raise ExcessError(f"the template makes a value of more than {MOST_ELEMENTS:,} elements")
    return size


def _measure_nested(value: object) -> int:
    size = parts = 0
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, (list, tuple, dict)):
            # Keys count as short: there are never more of them than values.
            waiting.extend(one.values() if isinstance(one, dict) else one)
            parts += len(one) + 1
            if parts > MOST_PARTS:
                raise ExcessError(f"the template makes a value of more than {MOST_PARTS:,} parts")
        else:
            size += 1
    return size + parts


def count_within(value: object, most: int) -> int:
    """Return how many characters and parts a value has; when there are more than `most`, some such number.

    A list or mapping that is reached in several ways counts once.
    """
    size = 0
    seen: set[int] = set()
    waiting: list[object] = [value]
    while waiting and size <= most:
        one = waiting.pop()
        if isinstance(one, (list, tuple, dict)):
            if id(one) in seen:
                continue
            seen.add(id(one))
            size += 2 * len(one) + 2
            if size <= most:
                waiting.extend([*one, *one.values()] if isinstance(one, dict) else one)
        else:
            size += len(one) if isinstance(one, (str, bytes)) else 0
    return size


def limit_growth(size: int, given: int) -> None:
    """Raise ExcessError for an outcome that is out of proportion to what it was made of."""
    most = FREE_OUTPUT + MOST_GROWTH * given
    if size > most:
        made = f"the template makes {size:,} characters out of {given:,}, its own and those that it reads"
        raise ExcessError(f"{made}; {most:,} are allowed")


def measure_scalar(value: object) -> int:
    """Return the length of a text and about that of a number, and of any other value as if it were short."""
    if isinstance(value, (str, bytes)):
        return len(value)
    return max(1, value.bit_length() // _DIGIT_BITS) if isinstance(value, int) else 1


def measure_power(left: object, right: object) -> int:
    """Return the steps of a power; refuse one that is absurdly large."""
    if not (isinstance(left, int) and isinstance(right, int)) or right < 0:
        return 0
    bits = left.bit_length() * right
    if bits > MOST_BITS:
        raise ExcessError(f"the power {_show_number(left)} ** {_show_number(right)} is too large")
    return bits * bits // STEP_BITS


def measure_product(left: object, right: object) -> int:
    """Return the length of a repeated text or list, the work of other products; refuse what is absurd."""
    for many, times in ((left, right), (right, left)):
        if isinstance(many, (str, bytes, list, tuple)) and isinstance(times, int):
            return (len(many) if isinstance(many, (str, bytes)) else measure(many)) * times
    if not (isinstance(left, int) and isinstance(right, int)):
        return 0
    sizes = left.bit_length(), right.bit_length()
    if sum(sizes) > MOST_BITS:
        raise ExcessError("the product is too large a number")
    return sizes[0] * sizes[1] * STEP_TEXT // STEP_BITS


def measure_sum(left: object, right: object) -> int:
    """Return the length of two texts or lists put together, 0 for other sums."""
    if isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
        return len(left) + len(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return measure(left) + measure(right)
    return 0


def _show_number(number: int) -> str:
    return str(number) if number.bit_length() < _SHOWN_BITS else f"(a number of {number.bit_length()} bits)"


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


def measure_stripped(text: str, characters: str | None = None) -> int:
    """Return what it takes to look for each character at the ends of a text among others."""
    return len(text) * max(1, len(characters or "") // STEP_TEXT)


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
    "strip": measure_stripped,
    "lstrip": measure_stripped,
    "rstrip": measure_stripped,
    "replace": measure_replacement,
    "join": measure_joined,
    "translate": _measure_table,
    "extend": lambda owner, values: len(owner) + len(values),
    "to_bytes": lambda _owner, length=1, *_rest, **_options: length,
}
