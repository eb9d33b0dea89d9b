"""Limits of asking: how many, how fast, how long, how large."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from answerkey.errors import RunError

#: How many requests are under way at once, unless the model says otherwise.
DEFAULT_CONCURRENT = 64
MEGABYTE = 1 << 20
#: Files that are opened beside connections: the journal, the call cache, tables, modules, worker processes.
KEPT_FILES = 24


@dataclass(frozen=True)
class Limits:
    """The limits of one asker. What the connection says of concurrency and rates wins over these.

    In seconds: `attempt_seconds` is for one request, `call_seconds` for a call with all its attempts,
    `wait_seconds` for the longest pause between two, also when the endpoint asks for more, `first_wait` for
    the pause after the first trouble; it doubles after each further one (a random part of it is waited).
    `reach_seconds` is how long a call is tried while no connection was ever made.
    `unreadable_attempts` is how many replies without sense are asked for; an endpoint that sends them is
    not overloaded, and they may cost. `max_bytes` holds for a body as sent, and unpacked. `max_open` is how
    many connections this process can have open, whatever the model says.
    """

    max_concurrent: int = DEFAULT_CONCURRENT
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    attempts: int = 10
    unreadable_attempts: int = 6
    attempt_seconds: float = 120.0
    connect_seconds: float = 15.0
    call_seconds: float = 600.0
    reach_seconds: float = 3.0
    first_wait: float = 0.5
    wait_seconds: float = 60.0
    max_bytes: int = 16 * MEGABYTE
    max_open: int | None = None

    def choose_concurrent(self, wanted: int | None) -> int:
        """Return how many requests are under way at once at most, where a model wants so many."""
        most = wanted or self.max_concurrent
        return most if self.max_open is None else min(most, self.max_open)


@dataclass(frozen=True)
class Clock:
    """Time as the asker sees it; tests bring their own.

    `now` never goes back; `wall` is the time of day in seconds since 1970, for dates in headers.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]


def find_room() -> int | None:
    """Return how many connections fit under the limit of open files of this process; None without one.

    One connection is tried where there may be room for it; RunError E502 where there is none.
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
        message = f"this process may open no more than {limit} files, too few to ask a model"
        raise RunError("E502", message, hint="raise the limit: `ulimit -n 4096`")
    return max(1, limit - taken - KEPT_FILES)


class Bucket:
    """So many units a minute, spread evenly from the first on.

    Who takes units leaves a debt that the next ones wait for. Idle time is not saved up.
    """

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._rate = per_minute / 60
        self._debt = 0.0
        self._clock = clock
        self._paid_at = clock.now()

    def take(self, units: float) -> float:
        """Take units and return how many seconds to wait before using them."""
        self._pay()
        wait = self._debt / self._rate
        self._debt += units
        return wait

    def give_back(self, units: float) -> None:
        """Correct an estimate: what was taken too much comes back, a negative number is taken as well."""
        self._pay()
        self._debt = max(0.0, self._debt - units)

    def _pay(self) -> None:
        now = self._clock.now()
        self._debt = max(0.0, self._debt - (now - self._paid_at) * self._rate)
        self._paid_at = now
