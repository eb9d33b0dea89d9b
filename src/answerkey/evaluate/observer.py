"""The progress of a task while its model is called, and what went wrong.

models ──► Observer.hear (each event, at once) ──► counts ──► Observer.look (for a display)
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import quantiles
from typing import Any

from answerkey.models.calls import (
    BATCH_SOURCE,
    PRICED_NAMES,
    BatchPending,
    BatchPolled,
    Call,
    Event,
    Finished,
    FinishedCalls,
    Retried,
    Reused,
    charge,
)
from answerkey.models.config import Price
from answerkey.models.store import CallStore, Usage
from answerkey.spec.job import SOLVE
from answerkey.types import (
    USAGE_NAMES,
    Completion,
    CompletionStatus,
    Notice,
)

_LONGEST_REASON = 80
_LONGEST_EXAMPLE = 300
#: The number of seconds over which the pace is measured.
WINDOW_SECONDS = 15.0


# Totals of the calls to a model: number, tokens, seconds, and errors.


class Reasons:
    """Errors in groups by purpose and cause: how many, and one example each."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}

    def add(
        self,
        purpose: str,
        message: str,
        sample_id: str,
    ) -> None:
        """Count one error."""
        reason = message.partition(":")[0][:_LONGEST_REASON] or "unknown"
        example = {"sample_id": sample_id, "error": message[:_LONGEST_EXAMPLE]}
        new_group = {
            "reason": reason,
            "count": 0,
            "example": example,
        }
        self._groups.setdefault((purpose, reason), new_group)["count"] += 1

    def describe(self, purpose: str) -> list[dict[str, Any]]:
        """Return the groups of a purpose, the largest first."""
        groups = [group for (owner, _), group in self._groups.items() if owner == purpose]
        return sorted(groups, key=lambda group: (-group["count"], group["reason"]))


def count_calls(
    journal: CallStore,
    task: str,
    prices: Mapping[str, Price | None],
    retried: Reasons,
) -> dict[str, dict[str, Any]]:
    """Return the totals of the calls by purpose: counts, tokens, cost, latency, failures, retries.

    `retried` has the reasons for the retries of this process; the count of retries is that of the
    whole run.
    """
    usages = defaultdict[str, list[Usage]](list)
    for usage in journal.sum_usage(task):
        usages[usage.purpose].append(usage)
    described = {}
    for purpose, group in usages.items():
        described[purpose] = _describe_usage(group, prices.get(purpose))
        described[purpose]["retried"] = retried.describe(purpose)
    return described


def _describe_usage(usages: Sequence[Usage], price: Price | None) -> dict[str, Any]:
    """Return the totals of the calls for one purpose; calls in batches cost half."""
    counts = Counter[str]()
    errors = Reasons()
    seconds: list[float] = []
    cost = 0.0
    oldest_seconds = None
    for usage in usages:
        counts.update(calls=usage.calls, failed=len(usage.failures))
        for sample_id, message in usage.failures:
            errors.add(usage.purpose, message, sample_id)
        if usage.source != "cache":
            counts.update(usage.tokens, sent=usage.calls, retries=usage.retries)
            tokens = [usage.tokens[name] for name in PRICED_NAMES]
            cost += charge(price, *tokens, is_batch=usage.source == BATCH_SOURCE)
            seconds += usage.seconds
        elif usage.oldest is not None:
            oldest_seconds = max(0, round(time.time()) - usage.oldest)
    return {
        "calls": counts["calls"],
        "asked": counts["sent"],
        "cached": counts["calls"] - counts["sent"],
        "oldest_seconds": oldest_seconds,
        **{name: counts[name] for name in ("failed", "retries", *USAGE_NAMES)},
        "cost": None if price is None else round(cost, 6),
        "price": None if price is None else asdict(price),
        "latency": _measure_latency(seconds),
        "errors": errors.describe(usages[0].purpose),
    }


def _measure_latency(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return the median and the 95th percentile of the seconds that calls took."""
    # Not by Polars: it raises Ctrl-C once more while a stopped run is described.
    in_order = sorted(seconds)
    if not in_order:
        return None
    if len(in_order) == 1:
        in_order *= 2
    cuts = quantiles(in_order, n=20, method="inclusive")
    return {"p50": round(cuts[9], 4), "p95": round(cuts[18], 4)}


# The progress of calls.


@dataclass(frozen=True)
class CallProgress:
    """The progress of the calls. `remembered` ones were answered from the cache or the journal.

    `retried` counts attempts that will be made again. Tokens are those of calls made now. `pace` is
    in calls per second, `seconds_left` None when it cannot be told yet. `batches` are those that
    are waited for. `problem` is why the last attempt is made again, as long as nothing was answered
    since.
    """

    task: str
    purpose: str
    done: int
    total: int
    remembered: int = 0
    failed: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    pace: float | None = None
    seconds_left: float | None = None
    batches: tuple[BatchPolled, ...] = ()
    problem: str | None = None


class Observer:
    """Follows the calls of one task; safe for threads.

    `total` is how many calls of each purpose there will be.
    """

    def __init__(
        self,
        key: str,
        *,
        total: int,
        warn: Callable[[Notice], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key = key
        self.total = total
        self.retried = Reasons()
        self._warn = warn
        self._clock = clock
        self._counts: dict[str, Counter[str]] = {}
        self._purpose = SOLVE
        self._batches: dict[str, BatchPolled] = {}
        self._problem: str | None = None
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._lock = threading.Lock()

    def hear(self, event: Event) -> None:
        """Note an event."""
        if isinstance(event, Finished):
            self._note_finished(event.call, event.completion)
        elif isinstance(event, Reused):
            self._note_remembered(event.calls)
        elif isinstance(event, Retried):
            self._note_retried(event)
        elif isinstance(event, BatchPolled):
            with self._lock:
                self._batches[event.batch] = event
        elif isinstance(event, BatchPending):
            batch = f"the batch `{event.batch}` of {event.calls} calls"
            hint = "`answerkey resume` collects it; nothing is handed in twice"
            self._warn(Notice(f"{batch} goes on at the endpoint, and is paid for", hint=hint))

    def _note_retried(self, event: Retried) -> None:
        with self._lock:
            self._count(event.call.purpose)["retried"] += 1
            self._problem = event.why
            self.retried.add(event.call.purpose, event.why, event.call.sample_id)

    def _note_finished(self, call: Call, completion: Completion) -> None:
        with self._lock:
            counts = self._count(call.purpose)
            self._problem = None
            counts["done"] += 1
            counts["prompt_tokens"] += completion.prompt_tokens or 0
            counts["completion_tokens"] += completion.completion_tokens or 0
            if completion.status is CompletionStatus.ERROR:
                counts["failed"] += 1

    def _note_remembered(self, calls: FinishedCalls) -> None:
        """Count calls whose results are known already."""
        failed = sum(reply.status is CompletionStatus.ERROR for _, reply in calls)
        with self._lock:
            counts = self._count(calls[0][0].purpose)
            counts.update(
                done=len(calls),
                remembered=len(calls),
                failed=failed,
            )

    def _count(self, purpose: str) -> Counter[str]:
        if purpose != self._purpose:
            self._purpose = purpose
            self._marks = deque([(self._clock(), 0)])
        return self._counts.setdefault(purpose, Counter())

    def look(self) -> CallProgress:
        """Return the current progress of the calls."""
        with self._lock:
            counts = self._counts.get(self._purpose, Counter[str]())
            done = counts["done"]
            pace = self._measure_pace(done - counts["remembered"])
            seconds_left = None
            if pace:
                seconds_left = max(0, self.total - done) / pace
            batches = [batch for batch in self._batches.values() if not batch.is_over]
            return CallProgress(
                task=self.key,
                purpose=self._purpose,
                done=done,
                total=max(self.total, done),
                remembered=counts["remembered"],
                failed=counts["failed"],
                retried=counts["retried"],
                prompt_tokens=counts["prompt_tokens"],
                completion_tokens=counts["completion_tokens"],
                pace=pace,
                seconds_left=seconds_left,
                batches=tuple(batches),
                problem=self._problem,
            )

    @property
    def solved(self) -> int:
        """How many calls of the solver are done."""
        with self._lock:
            return self._counts.get(SOLVE, Counter[str]())["done"]

    def _measure_pace(self, calls: int) -> float | None:
        """Return the calls per second of the last seconds; None in the first second."""
        now = self._clock()
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now - WINDOW_SECONDS:
            marks.popleft()
        then, before = marks[0]
        marks.append((now, calls))
        if now - then < 1:
            return None
        return (calls - before) / (now - then)
