"""How the test server behaves: delays, faults, limits; readable from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from answerkey.models.builtin import Draws
from answerkey.testing.replies import Answers, Reply, answer_by_hash

BatchOutcome = Literal["completed", "failed", "expired", "cancelled"]

#: Faults that are more than a status code, with what each does.
FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "429_seconds": "status 429 with `Retry-After` in seconds",
        "429_date": "status 429 with `Retry-After` as a date",
        "503_seconds": "status 503 with `Retry-After` in seconds",
        "reset": "the connection is reset before anything is answered",
        "cut": "half of the body, then the connection is closed",
        "hang": "nothing is answered for `hang_seconds`, then the connection is closed",
        "drip": "the right body, one byte every `drip_seconds`",
        "endless": "a body that never ends",
        "gzip_bomb": "a small compressed body that unpacks to `bomb_bytes`",
        "bad_json": "status 200 and a body that stops in the middle of its JSON",
        "html": "status 200 and a page for people",
        "empty": "status 200 and no body at all",
    }
)

_STATUSES = range(300, 600)


@dataclass(frozen=True)
class Behaviour:
    """How the server treats requests; what it answers is said apart.

    `delay` in seconds, or from and to (drawn by the request's content). `faults` maps a status code (`"500"`)
    or a name out of `FAULTS` to the share of requests that meet it; which do is drawn from `seed`, the
    content and how often it was asked; only its first `faulty_attempts` requests do (None: all).
    `requests_per_minute` and `max_concurrent` answer 429 above the limit; a minute lasts `minute_seconds`.
    With `api_key`, requests that do not bring it are refused (401). `unknown_fields` of a body are refused
    (400). `canary` is a text to look out for in all that arrives. Redirects lead to `redirect_to`.
    """

    delay: float | tuple[float, float] = 0.0
    faults: Mapping[str, float] = field(default_factory=dict)
    faulty_attempts: int | None = 3
    seed: int = 0
    requests_per_minute: int | None = None
    minute_seconds: float = 60.0
    max_concurrent: int | None = None
    api_key: str | None = None
    unknown_fields: tuple[str, ...] = ()
    canary: str | None = None
    retry_after: float = 0.0
    hang_seconds: float = 3600.0
    drip_seconds: float = 1.0
    bomb_bytes: int = 1 << 26
    redirect_to: str = "/elsewhere"
    batch_polls: int = 2
    batch_outcome: BatchOutcome = "completed"

    def __post_init__(self) -> None:
        for name in self.faults:
            if name not in FAULTS and not (name.isdecimal() and int(name) in _STATUSES):
                raise ValueError(f"unknown fault {name!r}: a status code, or one of {', '.join(FAULTS)}")
        if not 0 <= sum(self.faults.values()) <= 1 + 1e-9 or any(one < 0 for one in self.faults.values()):
            raise ValueError("the shares of faults must be between 0 and 1 together")
        if self.batch_outcome not in get_args(BatchOutcome):
            raise ValueError(f"unknown batch outcome {self.batch_outcome!r}")

    def choose_fault(self, digest: str, attempt: int) -> str | None:
        """Return the fault that the attempt (from 0) of a request with this content meets, or None."""
        if not self.faults or (self.faulty_attempts is not None and attempt >= self.faulty_attempts):
            return None
        left = Draws(self.seed, digest).draw(f"fault {attempt}")
        for name, share in self.faults.items():
            if left < share:
                return name
            left -= share
        return None

    def choose_delay(self, digest: str) -> float:
        """Return how many seconds a request with this content waits."""
        if not isinstance(self.delay, tuple):
            return self.delay
        low, high = self.delay
        return low + (high - low) * Draws(self.seed, digest).draw("delay")


def read_config(config: Any) -> tuple[Answers, Behaviour]:  # noqa: ANN401 - JSON
    """Return answers and behaviour of a JSON object: fields of `Behaviour`, and `answers` or `choices`.

    `answers` is a text, a reply (an object with `kind`), or an object from prompt to text or reply; `choices`
    is a list out of which each prompt gets one by its hash.
    """
    if not isinstance(config, Mapping):
        raise TypeError("the settings must be a JSON object")
    rest = dict(config)
    choices = rest.pop("choices", None)
    answers = _read_answers(rest.pop("answers", "A"))
    known = {one.name for one in fields(Behaviour)}
    unknown = sorted(set(rest) - known)
    if unknown:
        raise ValueError(
            f"unknown setting {unknown[0]!r}; there are answers, choices, {', '.join(sorted(known))}"
        )
    rest |= {name: tuple(value) for name, value in rest.items() if isinstance(value, list)}
    behaviour = Behaviour(**rest)
    return (answer_by_hash(choices, seed=behaviour.seed) if choices else answers), behaviour


def _read_answers(value: Any) -> Answers:  # noqa: ANN401 - JSON
    if isinstance(value, str) or "kind" in value:
        return _read_reply(value)
    return {str(prompt): _read_reply(one) for prompt, one in value.items()}


def _read_reply(value: Any) -> str | Reply:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else Reply(**value)
