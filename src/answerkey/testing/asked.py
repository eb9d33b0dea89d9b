"""What the test server was asked: counted while it is running."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

#: Headers that carry keys, in the ways of the providers.
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_KEPT = 1000


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None


@dataclass
class Asked:
    """What was asked, counted; safe to read while the server runs.

    `by_prompt` counts by the text of the last user message, `statuses` by what was answered (0: no status was
    sent), `faults` by the fault met. `keys` are the values of key headers. `canary_places` says where the
    canary was seen (`header authorization`, `path`, `body`, …). `requests` are the last 1,000.
    """

    total: int = 0
    answered: int = 0
    at_once: int = 0
    most_at_once: int = 0
    by_path: Counter[str] = field(default_factory=Counter)
    by_prompt: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    canary_places: Counter[str] = field(default_factory=Counter)
    connections: set[object] = field(default_factory=set)
    requests: deque[Request] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _attempts: Counter[str] = field(default_factory=Counter, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, request: Request, peer: object) -> None:
        """Count a request that has arrived."""
        with self._lock:
            self.total += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.by_path[request.path] += 1
            self.connections.add(peer)
            self.requests.append(request)
            for name in KEY_HEADERS:
                if name in request.headers:
                    self.keys[request.headers[name]] += 1

    def add_prompt(self, prompt: str) -> None:
        """Count what was asked."""
        with self._lock:
            self.by_prompt[prompt] += 1

    def add_attempt(self, digest: str) -> int:
        """Return how often this content was asked before, and count it."""
        with self._lock:
            self._attempts[digest] += 1
            return self._attempts[digest] - 1

    def add_fault(self, name: str) -> None:
        """Count a fault."""
        with self._lock:
            self.faults[name] += 1

    def add_canary(self, place: str) -> None:
        """Count a place where the canary was seen."""
        with self._lock:
            self.canary_places[place] += 1

    def close(self, status: int, *, is_answer: bool) -> None:
        """Count a request that is over."""
        with self._lock:
            self.at_once -= 1
            self.answered += is_answer
            self.statuses[status] += 1

    def as_json(self) -> dict[str, Any]:
        """Return the counts as plain values; requests and keys are left out."""
        with self._lock:
            return {
                "total": self.total,
                "answered": self.answered,
                "at_once": self.at_once,
                "most_at_once": self.most_at_once,
                "connections": len(self.connections),
                "by_path": dict(self.by_path),
                "by_prompt": dict(self.by_prompt),
                "statuses": {str(status): count for status, count in self.statuses.items()},
                "faults": dict(self.faults),
                "canary_places": dict(self.canary_places),
            }
