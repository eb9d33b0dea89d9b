"""What was asked of a model in a run: how many calls, tokens, seconds, and what went wrong."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from answerkey.models.calls import Price
from answerkey.runs import JournalCall
from answerkey.types import CompletionStatus

_LONGEST_REASON = 80
_LONGEST_EXAMPLE = 300


class Reasons:
    """Troubles in groups by purpose and cause: how many, and one example each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, purpose: str, why: str, sample_id: str) -> None:
        """Count one trouble."""
        reason = why.partition(":")[0][:_LONGEST_REASON] or "unknown"
        one = self._found.get((purpose, reason))
        if one is None:
            example = {"sample_id": sample_id, "error": why[:_LONGEST_EXAMPLE]}
            self._found[purpose, reason] = one = {"reason": reason, "count": 0, "example": example}
        one["count"] += 1

    def describe(self, purpose: str) -> list[dict[str, Any]]:
        """Return the groups of a purpose, the largest first."""
        found = [one for (owner, _), one in self._found.items() if owner == purpose]
        return sorted(found, key=lambda one: (-one["count"], one["reason"]))


@dataclass
class _Tally:
    calls: int = 0
    asked: int = 0
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latencies: array[float] = field(default_factory=lambda: array("d"))

    def add(self, call: JournalCall) -> None:
        self.calls += 1
        self.failed += call.status == CompletionStatus.ERROR.value
        if call.source == "cache":
            return
        self.asked += 1
        self.retries += max(0, (call.attempts or 1) - 1)
        self.prompt_tokens += call.prompt_tokens or 0
        self.completion_tokens += call.completion_tokens or 0
        if call.latency is not None:
            self.latencies.append(call.latency)

    def describe(self, price: Price | None) -> dict[str, Any]:
        tokens = (self.prompt_tokens, self.completion_tokens)
        return {
            "calls": self.calls,
            "asked": self.asked,
            "cached": self.calls - self.asked,
            "failed": self.failed,
            "retries": self.retries,
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "cost": None if price is None else round(price.charge(*tokens), 6),
            "latency": _measure_latency(self.latencies),
        }


def tally_calls(
    calls: Iterable[JournalCall], prices: Mapping[str, Price | None], retried: Reasons
) -> dict[str, dict[str, Any]]:
    """Return by purpose what was asked: counts, tokens, cost, latency, failures and retries by reason.

    `retried` has the reasons for asking again of this process; the count of retries is that of the whole run.
    """
    tallies: dict[str, _Tally] = {}
    errors = Reasons()
    for call in calls:
        tallies.setdefault(call.purpose, _Tally()).add(call)
        if call.status == CompletionStatus.ERROR.value:
            errors.add(call.purpose, call.error or "", call.sample_id)
    return {
        purpose: tally.describe(prices.get(purpose))
        | {"errors": errors.describe(purpose), "retried": retried.describe(purpose)}
        for purpose, tally in tallies.items()
    }


def _measure_latency(seconds: array[float]) -> dict[str, float] | None:
    """Return the median and the 95th percentile in seconds; None without any."""
    if not seconds:
        return None
    found = pl.Series(seconds)
    return {
        name: round(value, 4)
        for name, share in (("p50", 0.5), ("p95", 0.95))
        if (value := found.quantile(share, "linear")) is not None
    }
