"""Calls as data: what is asked, where finished calls are stored, what they may cost, and the events
they cause.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from answerkey.errors import RunError, SolverError
from answerkey.models.config import Price
from answerkey.models.responses import Messages
from answerkey.types import (
    CACHE_NAMES,
    Completion,
    CompletionStatus,
    Request,
)

MEGABYTE = 1 << 20
#: Files that are open besides connections: the journal, the call cache, tables, modules, worker
#: processes.
KEPT_FILES = 24
#: The `source` of a completion from a batch.
BATCH_SOURCE = "batch"
#: The token counts that have a price; thoughts are part of the completion's.
PRICED_NAMES = ("prompt_tokens", "completion_tokens", *CACHE_NAMES)
RESUME_HINT = (
    "what was answered is kept; `answerkey resume` continues without this limit, or with a new one"
)


#: Sorted keys and no spaces, so that equal questions have equal texts.
_encode_canonically = json.JSONEncoder(separators=(",", ":"), default=str, sort_keys=True).encode


class Call(NamedTuple):
    """One question to a model; `purpose` is `solve`, or `judge:` and the key of a scorer.

    Calls with the same `key` are the same question and share one completion. A call that is not
    `is_cached` concerns this run alone, because not everything that determines the answer is known.
    `question` is for models that see the sample.
    """

    key: str
    sample_id: str
    trial: int
    messages: Messages
    purpose: str = "solve"
    is_cached: bool = True
    question: Request | None = None


Calls = Sequence[Call]
FinishedCalls = Sequence[tuple[Call, Completion]]
#: Completions by the keys of their calls.
Answers = dict[str, Completion]


@dataclass(frozen=True)
class SubmittedBatch:
    """A submitted batch: the uploaded file, and the batch once its name is known.

    `identity` is that of the connection. A batch without a name may exist all the same, if the
    process ended while it was being created.
    """

    file: str
    identity: str
    keys: Sequence[str]
    batch: str | None = None


def call_key(identity: str, messages: Messages, trial: int) -> str:
    """Return the key of a question: the same for the same model, parameters, messages and trial.

    `identity` is that of the model. The order of the keys in a message does not matter.
    """
    question = _encode_canonically([identity, list(messages), trial])
    return hashlib.sha256(question.encode()).hexdigest()


class Ledger(Protocol):
    """Where finished calls are stored; used by one thread at a time."""

    def find(self, calls: Calls) -> Answers:
        """Return the stored completions by the key of the call, without failed ones."""

    def write(self, finished: FinishedCalls) -> None:
        """Store finished calls so that they outlive this process."""

    def settle(self, finished: FinishedCalls) -> None:
        """Make sure that calls that were written outlive a crash of the machine too."""


@dataclass
class MemoryLedger:
    """A ledger for runs that leave nothing behind."""

    kept: Answers = field(default_factory=dict)

    def find(self, calls: Calls) -> Answers:
        """Return the stored completions by the key of the call, without failed ones."""
        completions = {}
        for call in calls:
            completion = self.kept.get(call.key)
            if completion is not None and completion.status is not CompletionStatus.ERROR:
                completions[call.key] = completion
        return completions

    def write(self, finished: FinishedCalls) -> None:
        """Store finished calls."""
        self.kept.update((call.key, completion) for call, completion in finished)

    def settle(self, finished: FinishedCalls) -> None:
        """Do nothing: memory cannot be made any safer."""


def save_calls(ledger: Ledger, finished: FinishedCalls) -> None:
    """Store finished calls; they are on disk when this returns."""
    ledger.write(finished)
    ledger.settle(finished)


@dataclass(frozen=True)
class Limits:
    """The limits of calls to one endpoint; the model's own concurrency and rate take precedence.

    `attempt_seconds` is the time of one request, `call_seconds` that of a call with all its
    attempts. `first_wait` is the pause after the first error; it doubles after each further one,
    and a random part of it is waited. `wait_seconds` is the longest pause, even if the endpoint
    asks for more. `reach_seconds` is how long a call is tried if no connection was ever made,
    `failing_seconds` if the endpoint has answered only with server errors. `unreadable_attempts`
    limits requests whose replies cannot be read: their endpoint is not overloaded, and they may
    cost money. `max_bytes` is for one body. `max_open` is how many connections this process can
    have open, whatever the model says.
    """

    max_concurrent: int = 64
    requests_per_minute: float | None = None
    attempts: int = 10
    unreadable_attempts: int = 6
    attempt_seconds: float = 120.0
    connect_seconds: float = 15.0
    call_seconds: float = 600.0
    reach_seconds: float = 3.0
    failing_seconds: float = 60.0
    first_wait: float = 0.5
    wait_seconds: float = 60.0
    max_bytes: int = 16 * MEGABYTE
    max_open: int | None = None

    def choose_concurrent(self, max_concurrent: int | None) -> int:
        """Return the maximum number of open requests, given the model's own setting."""
        most = max_concurrent or self.max_concurrent
        return min(most, self.max_open or most)


def max_open_connections() -> int | None:
    """Return how many connections fit under this process's limit of open files; None if unlimited.

    Raises RunError E502 if there is hardly room for one.
    """
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = sum(1 for _ in Path("/dev/fd").iterdir())
    except (ImportError, OSError):
        return None
    if limit == resource.RLIM_INFINITY:
        return None
    if limit - taken < KEPT_FILES // 2:
        raise RunError(
            "E502",
            f"this process may open no more than {limit} files, too few to call a model",
            hint="raise the limit: `ulimit -n 4096`",
        )
    return max(1, limit - taken - KEPT_FILES)


def charge(
    price: Price | None,
    prompt: float | None,
    completion: float | None,
    cached: float | None = 0,
    written: float | None = 0,
    *,
    is_batch: bool = False,
) -> float:
    """Return what tokens cost, given in the order of `PRICED_NAMES`; 0 if no price is known."""
    if price is None:
        return 0.0
    read = cached or 0
    write = written or 0
    read_price = price.prompt if price.cached is None else price.cached
    write_price = price.prompt if price.written is None else price.written
    cost = price.prompt * max(0, (prompt or 0) - read - write)
    cost += price.completion * (completion or 0)
    cost += write_price * write
    cost += read_price * read
    if is_batch:
        cost /= 2
    return cost


def completion_cost(price: Price | None, completion: Completion) -> float:
    """Return what a completion cost."""
    tokens = [getattr(completion, name) for name in PRICED_NAMES]
    return charge(price, *tokens, is_batch=completion.source == BATCH_SOURCE)


@dataclass
class Budget:
    """What the models of a run may still be asked; safe for threads.

    A call counts once, however often it is retried; stored calls do not count. `calls` and `spent`
    start with what the run has used before. Money is reserved before a call is sent, and replaced
    by the actual cost.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    calls: int = 0
    spent: float = 0.0
    _reserved: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(
        default_factory=threading.Lock,
        init=False,
        repr=False,
    )

    def reserve(self, cost: float) -> bool:
        """Reserve money and one call; False means that open calls must be settled first.

        Raises SolverError E305 if the next call would exceed a limit, whatever the open ones cost.
        """
        with self._lock:
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise SolverError(
                    "E305", f"stopped at the limit of {self.max_calls} calls", hint=RESUME_HINT
                )
            if self.max_cost is not None:
                if self.spent + cost > self.max_cost:
                    why = f"{self.spent:.4f} is spent, and the next call may cost {cost:.4f}"
                    raise SolverError(
                        "E305",
                        f"stopped before the limit of {self.max_cost:g}: {why}",
                        hint=RESUME_HINT,
                    )
                if self.spent + self._reserved + cost > self.max_cost:
                    return False
            self.calls += 1
            self._reserved += cost
            return True

    def admit(self, calls: int) -> None:
        """Count calls that an earlier process sent without seeing them answered."""
        with self._lock:
            self.calls += calls

    def settle(self, reserved: float, cost: float) -> None:
        """Replace the money reserved for a call by its cost."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - reserved)
            self.spent += cost


class Finished(NamedTuple):
    """A call has its completion, and the ledger has it."""

    call: Call
    completion: Completion


class Reused(NamedTuple):
    """Calls of one purpose that are not made, because the ledger has their completions."""

    calls: FinishedCalls


class Retried(NamedTuple):
    """A call failed and is sent again after `wait` seconds; `attempt` counts from 1."""

    call: Call
    why: str
    wait: float
    attempt: int


class BatchPolled(NamedTuple):
    """The status of a batch, in the endpoint's own words, and how many of its calls are done."""

    batch: str
    status: str
    done: int
    total: int
    is_over: bool


class BatchPending(NamedTuple):
    """The waiting has ended before the batch has; it can be collected later."""

    batch: str
    calls: int


Event = Finished | Reused | Retried | BatchPolled | BatchPending

#: Receives every event, one at a time; the client waits for it. An AnswerkeyError that it raises
#: stops the calls; open ones are finished and stored.
Watch = Callable[[Event], None]


def ignore_event(_: Event) -> None:
    """Do nothing with an event."""


@dataclass(frozen=True)
class Clock:
    """Time and chance; tests replace them.

    `now` never goes back; `wall` is the time of day in seconds since 1970, for dates in headers.
    `draw` returns numbers between 0 and 1.
    """

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    draw: Callable[[], float] = random.random


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class CallSettings:
    """How calls are made: where finished ones are stored, what they may cost, who gets their
    events.

    `turn` is held while calls are open; models that share an endpoint's limits share it.
    """

    ledger: Ledger = field(default_factory=MemoryLedger)
    budget: Budget = field(default_factory=Budget)
    watch: Watch = ignore_event
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    clock: Clock = field(default_factory=Clock)
    turn: threading.Lock = field(default_factory=threading.Lock)


def complete_calls(
    calls: Calls,
    stored: Answers,
    send: Callable[[Calls], Answers],
    watch: Watch,
) -> list[Completion]:
    """Return the completions in the order of the calls.

    Calls that are not stored are sent, each key once. `send` reports its own calls to `watch`; the
    others are reported here.
    """
    remembered = []
    missing = {}
    repeated = []
    for call in calls:
        if call.key in stored:
            remembered.append(call)
        elif call.key in missing:
            repeated.append(call)
        else:
            missing[call.key] = call
    _report_reused(remembered, stored, watch)
    completions = dict(stored)
    if missing:
        completions.update(send(list(missing.values())))
    _report_reused(repeated, completions, watch)
    return [completions[call.key] for call in calls]


def _report_reused(
    calls: Calls,
    completions: Answers,
    watch: Watch,
) -> None:
    if calls:
        remembered = [(call, completions[call.key]) for call in calls]
        watch(Reused(remembered))
