"""The line to one endpoint: places, rates and the endpoint's health, kept from one asking to the next."""

from __future__ import annotations

from collections.abc import Callable

from answerkey.models.budget import Price
from answerkey.models.concurrency import Gate, Pace
from answerkey.models.connections import Connection
from answerkey.models.health import Health
from answerkey.models.limits import Bucket, Clock, Limits
from answerkey.models.retrying import (
    TOO_MANY_REQUESTS,
    Outcome,
    Reply,
    Trouble,
    judge_reply,
    judge_trouble,
    read_retry_after,
)
from answerkey.types import Completion

#: Tokens of a text are estimated by its length.
CHARACTERS_PER_TOKEN = 4
#: How long a completion is taken to be while none was seen and the model has no `max_tokens`.
FIRST_GUESS_TOKENS = 256


class Line:
    """One endpoint as all calls to it see it. `draw` gives numbers between 0 and 1."""

    def __init__(
        self, connection: Connection, limits: Limits, clock: Clock, draw: Callable[[], float]
    ) -> None:
        self.connection = connection
        self.limits = limits
        self.clock = clock
        self.draw = draw
        self.gate = Gate(Pace(limits.choose_concurrent(connection.max_concurrent)))
        self.health = Health(connection.name, connection.host)
        self._requests = _open_bucket(connection.requests_per_minute or limits.requests_per_minute, clock)
        self._tokens = _open_bucket(connection.tokens_per_minute or limits.tokens_per_minute, clock)
        self._longest_seen: int | None = None
        self._closed_until = 0.0

    @property
    def concurrent(self) -> int:
        """The most requests that will ever be under way at once."""
        return self.gate.pace.cap

    def estimate_tokens(self, body: bytes) -> tuple[int, int]:
        """Return how many tokens a prompt has and its completion may have."""
        longest = self.connection.generation.max_tokens or self._longest_seen or FIRST_GUESS_TOKENS
        return len(body) // CHARACTERS_PER_TOKEN, longest

    def take_turn(self, tokens: int) -> float:
        """Return how many seconds to wait until the rates allow one more request of so many tokens."""
        wait = self._closed_until - self.clock.now()
        if self._requests is not None:
            wait = max(wait, self._requests.take(1))
        if self._tokens is not None:
            wait = max(wait, self._tokens.take(tokens))
        return wait

    def judge(self, came: Reply | Trouble, epoch: int) -> tuple[Outcome, bool]:
        """Return how a request of an epoch of the pace went, and whether the limit has changed."""
        outcome = self._judge(came)
        has_changed = self.gate.pace.note(epoch, is_trouble=outcome.is_overload)
        if has_changed:
            self.gate.wake()
        return outcome, has_changed

    def note_usage(self, completion: Completion, estimated: int) -> None:
        """Correct the estimate by what a call used; one without usage, or that failed, used nothing."""
        used = (completion.prompt_tokens or 0) + (completion.completion_tokens or 0)
        if completion.completion_tokens:
            self._longest_seen = max(self._longest_seen or 0, completion.completion_tokens)
        if self._tokens is not None and used:
            self._tokens.give_back(estimated - used)

    def _judge(self, came: Reply | Trouble) -> Outcome:
        if isinstance(came, Trouble):
            return judge_trouble(came)
        outcome = judge_reply(came, self.connection.read)
        if not outcome.is_overload:
            return outcome
        return self._heed(came, outcome)

    def _heed(self, reply: Reply, outcome: Outcome) -> Outcome:
        """Take in how long the endpoint asks to wait; at one request at a time, nobody asks before that."""
        asked = read_retry_after(reply.headers, self.clock.wall())
        if asked is None:
            return outcome
        if self.gate.pace.limit == 1 and reply.status == TOO_MANY_REQUESTS:
            pause = min(asked, self.limits.wait_seconds)
            self._closed_until = max(self._closed_until, self.clock.now() + pause)
        return Outcome(
            outcome.verdict, outcome.completion, outcome.label, is_overload=True, retry_after=asked
        )


def charge(price: Price | None, prompt_tokens: int | None, completion_tokens: int | None) -> float:
    """Return what tokens cost; nothing when no price is known."""
    return 0.0 if price is None else price.charge(prompt_tokens or 0, completion_tokens or 0)


def _open_bucket(per_minute: float | None, clock: Clock) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute, clock)
