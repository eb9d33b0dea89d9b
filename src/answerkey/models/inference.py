"""A model that is a user's own Python function; it runs in the sandbox, once it is trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import ClassVar

from answerkey.errors import HIDDEN, SolverError
from answerkey.models.budget import Budget
from answerkey.models.calls import Call, Finished, Ledger, MemoryLedger, Watch
from answerkey.models.live import build_calls
from answerkey.models.message import read_message
from answerkey.models.reading import fail
from answerkey.models.secret import SECRET_NAME, SHORTEST_KEY, Secret
from answerkey.sandbox import Snippet, SnippetProcess, SnippetTrouble
from answerkey.types import Completion, CompletionStatus, Question

FUNCTION = "infer"
#: The function of the later era; it is given the messages in a mapping, as an endpoint is.
LATER_FUNCTION = "run_inference"
#: A local model may think for a while.
SECONDS = 120.0
#: So many calls are made before their answers are kept.
KEPT_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class SnippetModel:
    """Answers with what `infer(messages)` or `infer(messages, environment)` gives.

    Or `run_inference`, of the later era, which is given `{"messages": …}`. A text, a message, or a whole chat
    completion. Whoever opens it has made sure that the snippet is trusted.
    """

    name: str
    snippet: Snippet
    environment: Mapping[str, Secret] = field(default_factory=dict)
    seconds: float = SECONDS
    ledger: Ledger = field(default_factory=MemoryLedger)
    budget: Budget = field(default_factory=Budget)
    watch: Watch | None = None
    is_simulated: ClassVar[bool] = False

    @property
    def identity(self) -> str:
        """A hash of the snippet."""
        return sha256(f"inference\0{self.snippet.digest}".encode()).hexdigest()

    def bind(self, ledger: Ledger, budget: Budget | None = None, watch: Watch | None = None) -> SnippetModel:
        """Return the same model with a ledger, a budget and an onlooker of its own."""
        return replace(self, ledger=ledger, budget=budget or Budget(), watch=watch)

    def answer(
        self, questions: Sequence[Question], *, trial: int = 0, purpose: str = "solve"
    ) -> list[Completion]:
        """Return one completion for each question, in order; a call that fails has the status ERROR."""
        calls = build_calls(self, questions, trial, purpose)
        first = {call.key: call for call in reversed(calls)}
        known = dict(self.ledger.find(list(first.values())))
        for call in calls:
            if call.key in known:
                self._tell(call, known[call.key], is_known=True)
        missing = [call for call in calls if call.key not in known and first[call.key] is call]
        for start in range(0, len(missing), KEPT_AT_ONCE):
            known |= self._keep(missing[start : start + KEPT_AT_ONCE])
        return [known[call.key] for call in calls]

    def close(self) -> None:
        """End the process; twice does no harm."""
        self._process.close()

    @cached_property
    def _process(self) -> SnippetProcess:
        return SnippetProcess(self.snippet, seconds=self.seconds)

    def _keep(self, calls: Sequence[Call]) -> dict[str, Completion]:
        for _ in calls:
            self.budget.reserve(0.0)
        finished: list[tuple[Call, Completion]] = []
        try:
            finished.extend(zip(calls, self._infer(calls), strict=True))
        finally:  # what an interrupt finds answered is kept
            self.ledger.add(finished)
        for call, completion in finished:
            self._tell(call, completion, is_known=False)
        return {call.key: completion for call, completion in finished}

    def _infer(self, calls: Sequence[Call]) -> Iterator[Completion]:
        environment = {name: secret.reveal() for name, secret in self.environment.items()}
        arguments = ([self._show(call.messages), environment] for call in calls)
        try:
            for call, outcome in zip(calls, self._process.call_all(arguments), strict=True):
                yield replace(self._read(outcome), prompt=call.messages, source="live")
        except SnippetTrouble as trouble:
            message = f"model `{self.name}`: its snippet cannot be loaded: {self._hide(str(trouble))}"
            raise SolverError("E306", message, where=self.snippet.place) from None

    def _show(self, messages: Sequence[Mapping[str, object]]) -> object:
        shown = [dict(one) for one in messages]
        return {"messages": shown} if self.snippet.function == LATER_FUNCTION else shown

    def _read(self, outcome: object) -> Completion:
        if isinstance(outcome, SnippetTrouble):
            return fail(self._hide(str(outcome)))
        completion = read_message(self._hide_keys(outcome) if self._keys else outcome)
        if completion.status is CompletionStatus.NO_TEXT and not isinstance(outcome, Mapping | None):
            return fail(
                f"`{self.snippet.function}` gives neither a text nor a message: {type(outcome).__name__}"
            )
        return completion

    def _hide_keys(self, value: object) -> object:
        """Return what a snippet gave without the keys that it was given; its other values are no secrets."""
        if isinstance(value, Mapping):
            return {name: self._hide_keys(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._hide_keys(one) for one in value]
        if isinstance(value, str):
            for key in self._keys:
                value = value.replace(key, HIDDEN)
        return value

    @cached_property
    def _keys(self) -> list[str]:
        named = [one.reveal() for name, one in self.environment.items() if SECRET_NAME.search(name)]
        return [key for key in named if len(key) >= SHORTEST_KEY]

    def _hide(self, text: str) -> str:
        for secret in self.environment.values():
            text = text.replace(secret.reveal(), "***") if secret else text
        return text

    def _tell(self, call: Call, completion: Completion, *, is_known: bool) -> None:
        if self.watch is not None:
            self.watch(Finished(call, completion, is_known))
