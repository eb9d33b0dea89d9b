"""What a run may cost: a number of calls and a sum of money, neither of which is passed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from answerkey.errors import SolverError

RESUME_HINT = "what was answered is kept; `answerkey resume` goes on without this limit, or with a new one"


@dataclass(frozen=True)
class Price:
    """What one token costs, in the currency of the limit."""

    prompt: float
    completion: float

    def charge(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Return what so many tokens cost."""
        return self.prompt * prompt_tokens + self.completion * completion_tokens


@dataclass
class Budget:
    """What may still be asked; shared by all askers of a run, and safe for threads.

    A call is counted once, however often it is retried; one that is already known is not counted. `calls`
    and `spent` start with what the run has used before. Money is set aside before a call is sent, and
    settled with what it cost.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    calls: int = 0
    spent: float = 0.0
    _reserved: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def reserve(self, cost: float) -> bool:
        """Set money and one call aside; False means: calls under way must be settled first.

        Raises SolverError E305 when the next call would pass a limit, whatever those under way cost.
        """
        with self._lock:
            self._check(cost)
            if self.max_cost is not None and self.spent + self._reserved + cost > self.max_cost:
                return False
            self.calls += 1
            self._reserved += cost
            return True

    def admit(self, calls: int) -> None:
        """Count calls that were sent before, by a process that did not live to see them answered."""
        with self._lock:
            self.calls += calls

    def settle(self, reserved: float, cost: float) -> None:
        """Replace what was set aside for a call by what it cost."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - reserved)
            self.spent += cost

    def _check(self, cost: float) -> None:
        if self.max_calls is not None and self.calls >= self.max_calls:
            raise SolverError("E305", f"stopped at the limit of {self.max_calls} calls", hint=RESUME_HINT)
        if self.max_cost is not None and self.spent + cost > self.max_cost:
            message = (
                f"stopped before the limit of {self.max_cost:g}: {self.spent:.4f} is spent, "
                f"and the next call may cost {cost:.4f}"
            )
            raise SolverError("E305", message, hint=RESUME_HINT)
