"""Numbers as people read them."""

from __future__ import annotations

from answerkey.types import MetricValue

FRACTION_TYPES = frozenset(
    {"frequency", "precision", "recall", "f1_score", "binary-classification", "multiclass-classification"}
)


#: Whole numbers up to here are exact in a float.
EXACT = 2**53


def format_percent(share: float) -> str:
    """Return a share as a percentage with two digits."""
    return f"{100 * share:.2f} %"


def format_number(value: float) -> str:
    """Return a number with up to six significant digits; whole numbers without a point."""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < EXACT else f"{value:.6g}"


def is_share(value: MetricValue) -> bool:
    """Return whether the metric is a share of something, best read as a percentage."""
    return value.interval_method == "wilson" or value.type in FRACTION_TYPES


def format_value(value: MetricValue) -> str:
    """Return the metric's number as it is printed; `no value` when there is none."""
    if value.value is None:
        return "no value"
    return format_percent(value.value) if is_share(value) else format_number(value.value)


def format_interval(interval: tuple[float, float] | None, *, as_share: bool = True) -> str:
    """Return `[lo, hi]`, in per cent for a share; empty when there is none."""
    if interval is None:
        return ""
    low, high = interval
    if as_share:
        return f"[{100 * low:.2f}, {100 * high:.2f}]"
    return f"[{format_number(low)}, {format_number(high)}]"


def format_count(number: int, noun: str) -> str:
    """Return `1 sample`, `2 samples`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
