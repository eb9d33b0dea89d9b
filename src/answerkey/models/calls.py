"""Calls: what is asked, where finished ones are kept, and what an onlooker hears."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from answerkey.models.encoding import make_encoder
from answerkey.types import Completion, CompletionStatus


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a model; `purpose` is `solve`, or `judge:` and the key of a scorer.

    Calls with the same `key` are the same question and share one completion.
    """

    key: str
    sample_id: str
    trial: int
    messages: Sequence[Mapping[str, object]]
    purpose: str = "solve"


class Ledger(Protocol):
    """Where finished calls are kept; used by one thread at a time."""

    def find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        """Return the completions that are known, by the key of the call; failed calls are not among them."""

    def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Keep finished calls; they are safe when this returns."""


@runtime_checkable
class SwiftLedger(Ledger, Protocol):
    """A ledger that keeps calls in two steps; `write` and `settle` together do what `add` does."""

    def write(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Keep finished calls so that they outlive this process; the event loop waits for it."""

    def settle(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Make sure that what was written outlives the machine as well; called from another thread."""


@dataclass
class MemoryLedger:
    """A ledger for runs that leave nothing behind."""

    kept: dict[str, Completion] = field(default_factory=dict)

    def find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        """Return the completions that are known, by the key of the call; failed calls are not among them."""
        found = {call.key: self.kept.get(call.key) for call in calls}
        return {key: one for key, one in found.items() if one and one.status is not CompletionStatus.ERROR}

    def add(self, finished: Sequence[tuple[Call, Completion]]) -> None:
        """Keep finished calls."""
        self.kept.update((call.key, completion) for call, completion in finished)


#: One order and no spaces, so that equal questions have equal texts.
_encode_canonically = make_encoder(sort_keys=True)


class Identified(Protocol):
    """Something that answers, as far as the key of a call is concerned."""

    @property
    def identity(self) -> str:
        """A stable text for everything that decides the answer, without secrets."""


def call_key(connection: Identified, messages: Sequence[Mapping[str, object]], trial: int) -> str:
    """Return the key of a question: the same for the same model, parameters, messages and trial.

    The order of the keys inside a message does not matter.
    """
    parts = [connection.identity, list(messages), trial]
    return hashlib.sha256(_encode_canonically(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Finished:
    """A call has its completion, and the ledger has it; `is_known` ones were not asked for."""

    call: Call
    completion: Completion
    is_known: bool


@dataclass(frozen=True, slots=True)
class Retried:
    """A call met trouble and is asked again after `wait` seconds; `attempt` counts from 1."""

    call: Call
    why: str
    wait: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Adapted:
    """From now on so many requests may be under way at once."""

    limit: int
    why: str


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """A batch was looked at: its status as the endpoint names it, and how many of its calls are done."""

    batch: str
    status: str
    done: int
    total: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class BatchLeft:
    """The waiting ends before a batch does; it goes on at the endpoint, and can be collected later."""

    batch: str
    calls: int


Event = Finished | Retried | Adapted | BatchSeen | BatchLeft

#: Hears every event, one at a time and in a hurry: asking waits for it. An AnswerkeyError that it raises
#: stops the asking; calls under way are finished and kept.
Watch = Callable[[Event], None]
