"""A task followed while its model is called: how far it is, how it goes, what is odd about it.

models ──► Observer.hear (each event, at once) ──► counts ──► Observer.look (for a display)
"""

from __future__ import annotations

import _thread
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from statistics import quantiles
from typing import Any

from answerkey.errors import AnswerkeyError, SolverError
from answerkey.evaluate.job import SOLVE, Job
from answerkey.models.calls import (
    BATCH_SOURCE,
    PRICED_NAMES,
    BatchLeft,
    BatchSeen,
    Call,
    Event,
    Finished,
    FinishedCalls,
    Remembered,
    Retried,
    Reused,
    charge,
)
from answerkey.models.config import Price
from answerkey.models.store import CallStore
from answerkey.types import (
    USAGE_NAMES,
    Completion,
    Completions,
    CompletionStatus,
    Notice,
    Samples,
    Score,
    ScoreStatus,
    Validity,
)

_LONGEST_REASON = 80
_LONGEST_EXAMPLE = 300
#: The pace is that of the last so many seconds.
WINDOW_SECONDS = 15.0
#: So many completions tell whether the rest will be of any use: not if this share is INVALID.
FIRST_REPLIES, UNREAD_SHARE = 20, 0.8
_LONGEST_SHOWN = 60


# What was sent to a model: how many calls, tokens, seconds, and what went wrong.


class Reasons:
    """Errors in groups by purpose and cause: how many, and one example each."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, purpose: str, message: str, sample_id: str) -> None:
        """Count one error."""
        reason = message.partition(":")[0][:_LONGEST_REASON] or "unknown"
        example = {"sample_id": sample_id, "error": message[:_LONGEST_EXAMPLE]}
        new_group = {"reason": reason, "count": 0, "example": example}
        self._groups.setdefault((purpose, reason), new_group)["count"] += 1

    def describe(self, purpose: str) -> list[dict[str, Any]]:
        """Return the groups of a purpose, the largest first."""
        groups = [group for (owner, _), group in self._groups.items() if owner == purpose]
        return sorted(groups, key=lambda group: (-group["count"], group["reason"]))


@dataclass
class PurposeUsage:
    """What the calls of one purpose come to; batches cost half, so their tokens are apart."""

    counts: Counter[str] = field(default_factory=Counter)
    batch_tokens: Counter[str] = field(default_factory=Counter)
    seconds: list[Sequence[float]] = field(default_factory=list)
    oldest_seconds: int | None = None

    def cost(self, price: Price | None) -> float | None:
        """Return the cost in USD; None where the price is not known."""
        if price is None:
            return None
        batch = [self.batch_tokens[name] for name in PRICED_NAMES]
        live = [self.counts[name] - self.batch_tokens[name] for name in PRICED_NAMES]
        return round(charge(price, *live) + charge(price, *batch, is_batch=True), 6)

    def latency(self) -> dict[str, float] | None:
        """Return the median and the 95th percentile of the seconds that calls took."""
        # Not by Polars: it raises Ctrl-C once more while a stopped run is described.
        seconds = sorted(chain.from_iterable(self.seconds))
        if not seconds:
            return None
        if len(seconds) == 1:
            seconds *= 2
        cuts = quantiles(seconds, n=20, method="inclusive")
        return {"p50": round(cuts[9], 4), "p95": round(cuts[18], 4)}


def count_calls(
    journal: CallStore, task: str, prices: Mapping[str, Price | None], retried: Reasons
) -> dict[str, dict[str, Any]]:
    """Return by purpose what was sent: counts, tokens, cost, latency, failures and retries.

    `retried` has the reasons for the retries of this process; the count of retries is that of the
    whole run.
    """
    purposes: dict[str, PurposeUsage] = {}
    errors = Reasons()
    for usage in journal.sum_usage(task):
        total = purposes.setdefault(usage.purpose, PurposeUsage())
        total.counts.update(calls=usage.calls, failed=len(usage.failures))
        for sample_id, message in usage.failures:
            errors.add(usage.purpose, message, sample_id)
        if usage.source == "cache":
            if usage.oldest is not None:
                total.oldest_seconds = max(0, round(time.time()) - usage.oldest)
            continue
        total.counts.update(usage.tokens, asked=usage.calls, retries=usage.retries)
        total.seconds.append(usage.seconds)
        if usage.source == BATCH_SOURCE:
            total.batch_tokens.update(usage.tokens)
    described: dict[str, dict[str, Any]] = {}
    for purpose, total in purposes.items():
        price = prices.get(purpose)
        counts = total.counts
        described[purpose] = {
            "calls": counts["calls"],
            "asked": counts["asked"],
            "cached": counts["calls"] - counts["asked"],
            "oldest_seconds": total.oldest_seconds,
            **{name: counts[name] for name in ("failed", "retries", *USAGE_NAMES)},
            "cost": total.cost(price),
            "price": None if price is None else asdict(price),
            "latency": total.latency(),
            "errors": errors.describe(purpose),
            "retried": retried.describe(purpose),
        }
    return described


# The progress of calls.


@dataclass(frozen=True)
class CallProgress:
    """How far the calls are. `known` ones were answered from the cache or the journal.

    `retried` counts attempts that will be made again. Tokens are those of calls made now. `pace` is
    in calls per second, `seconds_left` None when it cannot be told yet. `batches` are those that
    are waited for. `problem` is why the last attempt is made again, as long as nothing was answered
    since.
    """

    task: str
    purpose: str
    done: int
    total: int
    known: int = 0
    failed: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    pace: float | None = None
    seconds_left: float | None = None
    batches: tuple[BatchSeen, ...] = ()
    problem: str | None = None


class Observer:
    """Follows the calls of one task; safe for threads.

    `total` is how many calls of each purpose there will be. With `stops`, completions that make no
    sense end the calls: SolverError E305; where it `is_guarded`, only those that cannot be read do.
    """

    def __init__(
        self,
        job: Job,
        *,
        total: int,
        warn: Callable[[Notice], None],
        stops: bool = False,
        is_guarded: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key = job.key
        self.total = total
        self.retried = Reasons()
        self._warn = warn
        self._stops = stops
        self._is_guarded = is_guarded
        self._clock = clock
        scorer = job.task.main_step.scorer
        self._scorer = scorer if scorer.type in {"string_equals_mcqa", "string_equals"} else None
        self._rows = job.dataset.rows
        # The first replies of all; a continuation that is ranked is an echo, not a reply.
        solver = job.task.solver
        is_ranked = solver is not None and solver.ranks_continuations
        self._first: list[tuple[Call, Completion]] | None = None if is_ranked else []
        self._counts: dict[str, Counter[str]] = {}
        self._purpose = SOLVE
        self._batches: dict[str, BatchSeen] = {}
        self._problem: str | None = None
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._lock = threading.Lock()

    def hear(self, event: Event) -> None:
        """Note an event; raise SolverError E305 when the calls should stop."""
        if isinstance(event, Finished):
            self._note_finished(event.call, event.completion)
        elif isinstance(event, Remembered):
            self._note_remembered(event.calls)
        elif isinstance(event, Retried):
            self._note_retried(event)
        elif isinstance(event, BatchSeen):
            with self._lock:
                self._batches[event.batch] = event
        elif isinstance(event, Reused):
            calls = len(event.completions)
            with self._lock:
                self._count(SOLVE).update(done=calls, known=calls)
                self._first = None  # the run looked at them before it stopped
        elif isinstance(event, BatchLeft):
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
                return
        if call.purpose == SOLVE:
            self._look_at_first([(call, completion)])

    def _note_remembered(self, calls: FinishedCalls) -> None:
        """Count calls that are not made."""
        replies = [pair for pair in calls if pair[1].status is not CompletionStatus.ERROR]
        purpose = calls[0][0].purpose
        with self._lock:
            counts = self._count(purpose)
            counts.update(done=len(calls), known=len(calls), failed=len(calls) - len(replies))
        if purpose == SOLVE:
            self._look_at_first(replies)

    def _look_at_first(self, replies: FinishedCalls) -> None:
        """Say what the first replies of all have in common, once there are enough of them."""
        with self._lock:
            if self._first is None:
                return
            first = self._first
            first += replies[: FIRST_REPLIES - len(first)]
            if len(first) < FIRST_REPLIES:
                return
            self._first = None
        finding = judge_first([completion for _, completion in first], self._score(first))
        if finding is None:
            return
        notice, is_useless, is_unread = finding
        if (self._stops and is_useless) or (self._is_guarded and is_unread):
            hint = (notice.hint or "").removeprefix("Ctrl-C stops the run; ")
            hint += (
                "; `answerkey doctor` shows more; `--no-stop-on-nonsense` starts a run that goes on"
            )
            raise SolverError("E305", f"stopped: {notice.message}", hint=hint)
        self._warn(notice)

    def _count(self, purpose: str) -> Counter[str]:
        if purpose != self._purpose:
            self._purpose = purpose
            self._marks = deque([(self._clock(), 0)])
        return self._counts.setdefault(purpose, Counter())

    def look(self) -> CallProgress:
        """Return how far the calls are now."""
        with self._lock:
            counts = self._counts.get(self._purpose, Counter[str]())
            done = counts["done"]
            pace = self._measure_pace(done - counts["known"])
            return CallProgress(
                task=self.key,
                purpose=self._purpose,
                done=done,
                total=max(self.total, done),
                known=counts["known"],
                failed=counts["failed"],
                retried=counts["retried"],
                prompt_tokens=counts["prompt_tokens"],
                completion_tokens=counts["completion_tokens"],
                pace=pace,
                seconds_left=max(0, self.total - done) / pace if pace else None,
                batches=tuple(batch for batch in self._batches.values() if not batch.is_over),
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

    def _score(self, calls: FinishedCalls) -> Sequence[Score]:
        """Return the scores of replies; none by a slow scorer."""
        if self._scorer is None:
            return ()
        try:
            positions = {name: place for place, name in enumerate(self._rows.ids)}
            places = [positions[call.sample_id] for call, _ in calls]
            items = [self._rows.slice(place, 1).load().items[0] for place in places]
            samples = Samples(items, self._rows.columns)
            completions = Completions.build(
                samples.ids, [completion for _, completion in calls], source="live"
            )
            return self._scorer.score(samples, completions)
        except AnswerkeyError:  # it is reported when the chunk is scored
            return ()
        except KeyboardInterrupt:  # Polars raises it in the thread whose query it ends
            _thread.interrupt_main()
            return ()


def judge_first(
    replies: Sequence[Completion], scores: Sequence[Score]
) -> tuple[Notice, bool, bool] | None:
    """Return what is wrong with the first replies, whether the rest is useless, or unreadable.

    A letter cut off after one token may be just what was wanted, and is only worth a warning.
    """
    cut_off = sum(reply.finish_reason == "length" for reply in replies)
    validities = [score.metadata.get("completion_validity") for score in scores]
    invalid = validities.count(Validity.INVALID.value)
    scored = sum(score.status is ScoreStatus.SCORED for score in scores)
    correct = sum(score.values.get("is_correct") == 1 for score in scores)
    is_invalid = scored > 0 and invalid >= UNREAD_SHARE * scored
    # A dataset that is sorted by its truths has the same right answer fifty times.
    is_right = scored > 0 and correct == scored
    is_same = len({(reply.status, reply.text) for reply in replies}) == 1 and not is_right
    findings = []
    if is_invalid:
        findings.append("all INVALID" if invalid == scored else f"mostly INVALID ({invalid})")
    if is_same:
        findings.append("all the same")
    if cut_off == len(replies):
        findings.append("all cut off by the token limit")
    if not findings:
        return None
    listed = findings[-1]
    if len(findings) > 1:
        listed = f"{', '.join(findings[:-1])} and {listed}"
    if 2 * cut_off > len(replies):
        advice = "raise `max_tokens` in the model's `generation`, unless one letter is all you want"
    elif is_invalid:
        advice = "`--dry-run` shows the prompt: does it ask for the letter alone?"
    else:
        advice = "`--dry-run` shows the prompt: does it hold the question and the options?"
    example = _show_reply(replies[0])
    message = f"the first {len(replies)} completions are {listed}; for example {example}"
    is_useless = is_invalid or is_same or 2 * invalid >= scored
    return Notice(message, hint=f"Ctrl-C stops the run; {advice}"), is_useless, is_invalid


def _show_reply(reply: Completion) -> str:
    if reply.text is None:
        return f"no text ({reply.status.value})"
    if len(reply.text) <= _LONGEST_SHOWN:
        return repr(reply.text)
    return repr(f"{reply.text[:_LONGEST_SHOWN]}…")
