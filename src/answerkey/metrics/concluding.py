"""From the merged part to metric values: what every metric says alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from answerkey.errors import ScoringError, listing, suggest
from answerkey.metrics.exact import divide, divide_and_root
from answerkey.metrics.intervals import (
    RATIO_STUDENT,
    RATIO_WILSON,
    STUDENT,
    WILSON,
    Interval,
    score_interval,
    student,
    wilson,
    wilson_f1,
)
from answerkey.metrics.observed import NOT_FINITE, SHOWN_EXAMPLES, Part
from answerkey.types import MetricValue

NOTHING_COUNTED = "no sample counts towards it"
TOO_LARGE = "the value is too large for a float"
TOO_LARGE_SPREAD = "the spread is too large for a float"
ONE_SAMPLE = "there is one sample, and a spread needs two"
ALL_ALIKE = "all samples are alike, which says nothing about the spread"


@dataclass(frozen=True)
class Share:
    """A share of 0/1 outcomes, in counts."""

    count: int
    of: int


@dataclass(frozen=True)
class Margin:
    """How sure a value is: its standard error, and its interval or why there is none.

    `is_share` says that the value lies within [0, 1] by its nature.
    """

    std_error: float | None = None
    interval: Interval | None = None
    method: str | None = None
    note: str | None = None
    is_share: bool = False


def check_part(part: Part, kind: str, fields: Sequence[str]) -> None:
    """Raise if a field is nowhere among the scores, or holds what this metric cannot take."""
    names = part.get("names", [])
    for name in fields:
        if part.get("rows") and name not in names:
            hint = suggest(name, names) or f"the scorer has {listing(names)}"
            raise ScoringError("E402", f"`{kind}`: no score has the field `{name}`", hint=hint)
    for name, count in sorted(part.get("unsuitable", {}).items()):
        examples = ", ".join(part["examples"][name][:SHOWN_EXAMPLES])
        held = f"holds other values in {say_samples(count)}, such as {examples}"
        message = f"`{kind}` needs numbers, but `{name}` {held}"
        hint = "`frequency` and the classification metrics read text"
        raise ScoringError("E402", message, hint=hint)


def state_value(
    name: str,
    value: float | None,
    part: Part,
    *,
    kind: str,
    note: str | None = None,
    details: Mapping[str, object] | None = None,
    margin: Margin | None = None,
) -> MetricValue:
    """Return a metric value; its note also says when values that are not finite were left out."""
    left_out = {reason: part["left_out"][reason] for reason in sorted(part.get("left_out", {}))}
    sure = margin if margin is not None and value is not None else Margin()
    return MetricValue(
        name=name,
        value=value,
        n=part.get("n", 0),
        n_excluded=left_out,
        interval=sure.interval,
        interval_method=sure.method,
        interval_note=sure.note,
        std_error=sure.std_error,
        note=join_notes(note, describe_not_finite(left_out)),
        type=kind,
        details=details or {},
        is_share=sure.is_share,
    )


def state_share(
    name: str,
    share: Share,
    part: Part,
    *,
    kind: str,
    empty: str = NOTHING_COUNTED,
    details: Mapping[str, object] | None = None,
) -> MetricValue:
    """Return a share with its Wilson interval; `empty` is the note for 0/0."""
    details = {"count": share.count, "of": share.of, **(details or {})}
    if share.of == 0:
        return state_value(name, None, part, kind=kind, note=empty, details=details)
    value, margin = divide(share.count, share.of), measure_share(share)
    return state_value(name, value, part, kind=kind, details=details, margin=margin)


def measure_share(share: Share) -> Margin:
    """Return how sure a share of at least one 0/1 outcome is: the Wilson interval, whatever its size."""
    spread = share.count * (share.of - share.count)
    error = divide_and_root(spread, share.of**2 * (share.of - 1)) if share.of > 1 else None
    return Margin(error, wilson(share.count, share.of), WILSON, is_share=True)


def measure_f1(hits: int, others: int) -> Margin:
    """Return how sure F1 = 2 TP / (2 TP + FP + FN) of at least one sample is; `others` are FP + FN."""
    size = hits + others
    # J = hits / size has the variance J (1 - J) / (size - 1), and F1 = 2 J / (1 + J) the slope 2 / (1 + J)².
    error = None
    if size > 1:
        error = divide_and_root(4 * size**2 * hits * others, (size - 1) * (size + hits) ** 4)
    return Margin(error, wilson_f1(hits, others), WILSON, is_share=True)


def measure_mean(value: float | None, std_error: float | None, n: int, *, is_share: bool = False) -> Margin:
    """Return how sure a mean of `n` independent numbers is: Student's t."""
    if value is None or not std_error:
        return Margin(std_error, note=_explain_spread(std_error, n), is_share=is_share)
    interval = student(value, std_error, n - 1, is_share=is_share)
    return replace(bound_margin(std_error, interval, STUDENT), is_share=is_share)


def measure_ratio(value: float | None, std_error: float | None, n: int, *, is_share: bool) -> Margin:
    """Return how sure a ratio of sums over `n` independent samples is."""
    if value is None or not std_error:
        return Margin(std_error, note=_explain_spread(std_error, n), is_share=is_share)
    if is_share:
        return Margin(std_error, score_interval(value, std_error, n - 1), RATIO_WILSON, is_share=True)
    return bound_margin(std_error, student(value, std_error, n - 1), RATIO_STUDENT)


def _explain_spread(std_error: float | None, n: int) -> str:
    """Return why there is no spread to make an interval from."""
    if n == 1:
        return ONE_SAMPLE
    return TOO_LARGE_SPREAD if std_error is None else ALL_ALIKE


def bound_margin(std_error: float, interval: Interval, method: str) -> Margin:
    """Return the margin, without an interval whose ends no float can hold."""
    if not all(map(math.isfinite, interval)):
        return Margin(std_error, note=TOO_LARGE_SPREAD)
    return Margin(std_error, interval, method)


def describe_not_finite(left_out: Mapping[str, int]) -> str | None:
    """Return the sentence about NaN and infinite values, or None when there are none."""
    count = left_out.get(NOT_FINITE, 0)
    return f"{count} NaN or infinite left out" if count else None


def say_samples(count: int) -> str:
    """Return `1 sample`, `2 samples`."""
    return "1 sample" if count == 1 else f"{count} samples"


def join_notes(*notes: str | None) -> str | None:
    """Return the notes that there are as one text, or None."""
    return "; ".join(note for note in notes if note) or None
