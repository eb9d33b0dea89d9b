"""A model behind an endpoint, as the solvers see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

from answerkey.models.batch_book import BatchBook
from answerkey.models.batch_rounds import BatchMeans
from answerkey.models.batching import BatchAsker
from answerkey.models.branching import BranchAsker
from answerkey.models.budget import Budget, Price
from answerkey.models.calls import Call, Identified, Ledger, MemoryLedger, Watch, call_key
from answerkey.models.connections import Connection
from answerkey.models.limits import Limits
from answerkey.models.sending import Asker, AskerSettings
from answerkey.models.stations import Stations
from answerkey.types import Completion, Question


@dataclass(frozen=True, eq=False)
class LiveModel:
    """A model that is asked over the network; a context manager, since it keeps its connections open.

    Without `bind` it remembers its answers only as long as it lives. With `batches`, where they are written
    down, calls are not sent one by one but handed in together; with `stations`, they are sent from there.
    """

    connection: Connection
    ledger: Ledger = field(default_factory=MemoryLedger)
    budget: Budget = field(default_factory=Budget)
    watch: Watch | None = None
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    batches: BatchBook | None = None
    stations: Stations | None = None
    is_simulated: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name as the user wrote it."""
        return self.connection.name

    @property
    def identity(self) -> str:
        """A hash of everything that decides the answers; no secret is in it."""
        return self.connection.identity

    def bind(
        self,
        ledger: Ledger,
        budget: Budget | None = None,
        watch: Watch | None = None,
        *,
        limits: Limits | None = None,
        price: Price | None = None,
        batches: BatchBook | None = None,
        stations: Stations | None = None,
    ) -> LiveModel:
        """Return the same model with a ledger, a budget and an onlooker of its own."""
        return replace(
            self,
            ledger=ledger,
            budget=budget or Budget(),
            watch=watch,
            limits=limits or self.limits,
            price=price,
            batches=batches,
            stations=stations,
        )

    def require_ready(self) -> None:
        """Raise SpecError E117 when a key is missing, or would pass through a proxy without TLS."""
        from answerkey.models.proxy import find_proxy_for_key

        self.connection.require_key()
        if not self.connection.is_per_node:
            find_proxy_for_key(self.connection.url, self.name, has_key=self.connection.has_secret)

    def answer(
        self, questions: Sequence[Question], *, trial: int = 0, purpose: str = "solve"
    ) -> list[Completion]:
        """Return one completion for each question, in order; what the ledger knows is not asked."""
        return self._asker.ask(build_calls(self, questions, trial, purpose))

    def close(self) -> None:
        """Close the connections; twice does no harm."""
        if "_asker" in self.__dict__:
            self._asker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _asker(self) -> Asker:
        self.require_ready()
        settings: AskerSettings = {
            "ledger": self.ledger,
            "limits": self.limits,
            "budget": self.budget,
            "price": self.price,
            "watch": self.watch,
        }
        if self.batches is not None:
            return BatchAsker(self.connection, BatchMeans(self.batches), **settings)
        if self.stations is not None:
            return BranchAsker(self.connection, self.stations, **settings)
        self.connection.require_address()
        return Asker(self.connection, **settings)


def build_calls(
    model: Identified, questions: Sequence[Question], trial: int, purpose: str = "solve"
) -> list[Call]:
    """Return the calls that questions are; the same question of the same model has the same key.

    `trial` counts on top of the questions' own.
    """
    numbers = [one.trial + trial for one in questions]
    return [
        Call(call_key(model, one.messages, number), one.sample_id, number, one.messages, purpose)
        for one, number in zip(questions, numbers, strict=True)
    ]
