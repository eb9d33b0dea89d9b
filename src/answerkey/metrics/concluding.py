"""From the merged part to metric values: what every metric says alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from answerkey.errors import ScoringError, listing, suggest
from answerkey.metrics.exact import divide
from answerkey.metrics.intervals import wilson
from answerkey.metrics.observed import NOT_FINITE, SHOWN_EXAMPLES, Part
from answerkey.types import MetricValue

NOTHING_COUNTED = "no sample counts towards it"
TOO_LARGE = "the value is too large for a float"


@dataclass(frozen=True)
class Share:
    """A share of 0/1 outcomes, in counts."""

    count: int
    of: int


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
) -> MetricValue:
    """Return a metric value; its note also says when values that are not finite were left out."""
    left_out = {reason: part["left_out"][reason] for reason in sorted(part.get("left_out", {}))}
    return MetricValue(
        name=name,
        value=value,
        n=part.get("n", 0),
        n_excluded=left_out,
        note=join_notes(note, describe_not_finite(left_out)),
        type=kind,
        details=details or {},
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
    stated = state_value(name, divide(share.count, share.of), part, kind=kind, details=details)
    return _with_interval(stated, share)


def _with_interval(stated: MetricValue, share: Share) -> MetricValue:
    return replace(stated, interval=wilson(share.count, share.of), interval_method="wilson")


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
