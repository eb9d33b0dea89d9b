"""How a model is to generate, and the same written behind `?` in a model's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

from answerkey.errors import SpecError, listing, suggest


@dataclass(frozen=True)
class Generation:
    """What is sent beside the messages; None leaves it to the endpoint."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    echo: bool | None = None

    def given(self) -> dict[str, object]:
        """Return what is set, by name; what is listed for `stop` is a list."""
        return dict(self._given)

    @cached_property
    def _given(self) -> dict[str, object]:
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in _NAMES
            if (value := getattr(self, name)) is not None
        }

    def over(self, other: Self) -> Self:
        """Return `other` with what is set here in its place."""
        return replace(other, **{name: getattr(self, name) for name in self.given()})

    @property
    def wants_logprobs(self) -> bool:
        """Whether log probabilities are asked for; `top_logprobs` or `echo` alone ask for them too."""
        is_implied = self.top_logprobs is not None or bool(self.echo)
        return bool(self.logprobs) or (self.logprobs is None and is_implied)


_NAMES = tuple(one.name for one in fields(Generation))


def read_generation(name: str, given: dict[str, str], others: tuple[str, ...] = ("api",)) -> Generation:
    """Return the generation that a model's name states behind `?`; SpecError E301 for anything else.

    `others` are parameters that may stand there, too, and were taken out before.
    """
    values: dict[str, object] = {}
    for key, text in given.items():
        if key not in READERS:
            known = (*READERS, *others)
            hint = suggest(key, known) or f"parameters: {listing(known)}"
            raise SpecError("E301", f"model `{name}` has no parameter `{key}`", hint=hint)
        wanted, read = READERS[key]
        try:
            values[key] = read(text)
        except ValueError:
            raise SpecError("E301", f"model `{name}`: `{key}` is {text!r}, not {wanted}") from None
    return Generation(**values)  # type: ignore[arg-type]  # each reader gives the type of its field


def _read_whole(least: int | None) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if least is not None and number < least:
            raise ValueError
        return number

    return read


def _read_number(most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = float(text)
        if not 0 <= number <= most:
            raise ValueError
        return number

    return read


def _read_stop(text: str) -> tuple[str, ...]:
    if not text:
        raise ValueError
    return (text,)


def _read_truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError
    return text == "true"


_MOST_TEMPERATURE = 1e9

#: What each parameter must be, in words, and how its text is read.
READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "temperature": ("a number from 0 on", _read_number(_MOST_TEMPERATURE)),
    "top_p": ("a number from 0 to 1", _read_number(1)),
    "max_tokens": ("a whole number from 1 on", _read_whole(1)),
    "seed": ("a whole number", _read_whole(None)),
    "stop": ("a text that is not empty", _read_stop),
    "logprobs": ("`true` or `false`", _read_truth),
    "top_logprobs": ("a whole number from 0 on", _read_whole(0)),
    "echo": ("`true` or `false`", _read_truth),
}
