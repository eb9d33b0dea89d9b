"""Numbers as people read them.

Where `digits` are asked for, every number is plain and has so many after the point: a share is then no
percentage, so that it can be compared with what others printed.
"""

from __future__ import annotations

from answerkey.types import MetricValue

FRACTION_TYPES = frozenset(
    {"frequency", "precision", "recall", "f1_score", "binary-classification", "multiclass-classification"}
)


#: Whole numbers up to here are exact in a float.
EXACT = 2**53


def format_percent(share: float, digits: int | None = None) -> str:
    """Return a share as a percentage with two digits."""
    return f"{100 * share:.2f} %" if digits is None else f"{share:.{digits}f}"


def format_number(value: float, digits: int | None = None) -> str:
    """Return a number with up to six significant digits; whole numbers without a point."""
    if digits is not None:
        return f"{value:.{digits}f}"
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < EXACT else f"{value:.6g}"


def is_share(value: MetricValue) -> bool:
    """Return whether the metric is a share of something, best read as a percentage."""
    return value.is_share or value.interval_method == "wilson" or value.type in FRACTION_TYPES


def format_value(value: MetricValue, digits: int | None = None) -> str:
    """Return the metric's number as it is printed; `no value` when there is none."""
    return format_figure(value.value, as_share=is_share(value), digits=digits)


def format_figure(value: float | None, *, as_share: bool, digits: int | None = None) -> str:
    """Return a number, as a percentage if it is a share; `no value` when there is none."""
    if value is None:
        return "no value"
    return format_percent(value, digits) if as_share else format_number(value, digits)


def format_interval(
    interval: tuple[float, float] | None, *, as_share: bool = True, digits: int | None = None
) -> str:
    """Return `[lo, hi]`, in per cent for a share; empty when there is none."""
    if interval is None:
        return ""
    low, high = interval
    if as_share and digits is None:
        return f"[{100 * low:.2f}, {100 * high:.2f}]"
    return f"[{format_number(low, digits)}, {format_number(high, digits)}]"


def format_error(error: float | None, *, as_share: bool, digits: int | None = None) -> str:
    """Return a standard error; empty when there is none."""
    return "" if error is None else format_figure(error, as_share=as_share, digits=digits)


def format_count(number: int, noun: str) -> str:
    """Return `1 sample`, `2 samples`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
