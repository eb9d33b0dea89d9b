"""How many requests are under way at once: grows while the endpoint is healthy, shrinks when it struggles."""

from __future__ import annotations

import asyncio
from collections import deque

START = 8
#: The pace is judged after as many requests as may be under way at once, but not after fewer than this.
SMALLEST_WINDOW = 8
#: A share of troubles from which on the endpoint is overloaded, whatever else may be wrong with it.
HEAVY_SHARE = 0.5
#: A share of troubles above the usual one from which on it may be.
LIGHT_SHARE = 0.1


class Pace:
    """The limit, and how it follows the outcomes; knows nothing of time or tasks.

    It doubles after each healthy window until the first cut, then grows by a sixteenth of the cap. A window
    with many troubles halves it. A share of troubles that halving does not lower has nothing to do with the
    load: the cut is taken back and that share counts as usual.
    """

    def __init__(self, cap: int) -> None:
        self.cap = max(1, cap)
        self.limit = min(START, self.cap)
        #: Changes with each cut; outcomes of requests sent before it say nothing about the new limit.
        self.epoch = 0
        self._is_starting = True
        self._seen = self._troubled = 0
        self._usual_share = 0.0
        self._trial: tuple[float, int] | None = None

    def note(self, epoch: int, *, is_trouble: bool) -> bool:
        """Count one outcome; return whether the limit has changed."""
        if epoch != self.epoch:
            return False
        self._seen += 1
        self._troubled += is_trouble
        if self._seen < max(self.limit, SMALLEST_WINDOW):
            return False
        before = self.limit
        self._judge_window(self._troubled / self._seen)
        self._seen = self._troubled = 0
        return self.limit != before

    def _judge_window(self, share: float) -> None:
        trial, self._trial = self._trial, None
        if share >= HEAVY_SHARE:
            self._cut()
        elif share - self._usual_share < LIGHT_SHARE:
            self._usual_share = (self._usual_share + share) / 2
            self._grow()
        elif trial is not None and share > trial[0] / 2:
            self._usual_share = share
            self.limit = trial[1]
        else:
            self._trial = (share, self.limit)
            self._cut()

    def _cut(self) -> None:
        self._is_starting = False
        self.limit = max(1, self.limit // 2)
        self.epoch += 1

    def _grow(self) -> None:
        step = self.limit if self._is_starting else max(1, self.cap // 16)
        self.limit = min(self.cap, self.limit + step)


class Gate:
    """Lets as many requests pass at once as the pace allows; calls that are asked again go first.

    New calls are let in only while fewer than twice the limit are unfinished, those that wait for their next
    attempt included: an endpoint that struggles gets the calls it has before it gets more.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.busy = self.unfinished = 0
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()

    def enter(self) -> asyncio.Future[None]:
        """Return what a new call waits for until it has a place."""
        return self._stand_in(self._new)

    def enter_again(self) -> asyncio.Future[None]:
        """Return what a call waits for until it has a place for its next attempt."""
        return self._stand_in(self._again)

    def leave(self) -> None:
        """Free a place; the call will be asked again."""
        self.busy -= 1
        self.wake()

    def finish(self, count: int = 1) -> None:
        """Free the places of calls that are done with."""
        self.unfinished -= count
        self.busy -= count
        self.wake()

    def reset(self) -> None:
        """Forget all calls; for when none is under way any more."""
        self.busy = self.unfinished = 0
        self._again.clear()
        self._new.clear()

    def wake(self) -> None:
        """Hand out the places that are free."""
        while self.busy < self.pace.limit and self._again:
            self._pass(self._again.popleft(), is_new=False)
        while self.busy < self.pace.limit and self.unfinished < 2 * self.pace.limit and self._new:
            self._pass(self._new.pop(), is_new=True)  # who came last: its memory is still at hand

    def _stand_in(self, line: deque[asyncio.Future[None]]) -> asyncio.Future[None]:
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        self.wake()
        return turn

    def _pass(self, turn: asyncio.Future[None], *, is_new: bool) -> None:
        if turn.done():  # its task was cancelled
            return
        self.busy += 1
        self.unfinished += is_new
        turn.set_result(None)
