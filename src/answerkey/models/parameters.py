"""The part of a model's name after `?`: read strictly into the fields of the model's class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from answerkey.errors import SpecError, listing, suggest


@dataclass(frozen=True)
class Parameter:
    """One parameter of a built-in model: a text, a whole number, a number, or one of some words."""

    default: str | int | float
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] = ()

    def read(self, text: str) -> str | int | float:
        """Return the value of a text; ValueError says what is expected."""
        if self.allowed and text not in self.allowed:
            raise ValueError(f"one of {listing(self.allowed)}")
        if isinstance(self.default, str):
            return self._read_text(text)
        return self._read_number(text)

    def _read_text(self, text: str) -> str:
        if not text:
            raise ValueError("a text that is not empty")
        return text

    def _read_number(self, text: str) -> int | float:
        wanted = self._describe_number()
        try:
            number = type(self.default)(text)
        except ValueError:
            raise ValueError(wanted) from None
        low = float("-inf") if self.minimum is None else self.minimum
        high = float("inf") if self.maximum is None else self.maximum
        if isinstance(number, str) or not low <= number <= high:
            raise ValueError(wanted)
        return number

    def _describe_number(self) -> str:
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        if self.minimum is not None and self.maximum is not None:
            return f"{kind} from {self.minimum:g} to {self.maximum:g}"
        return kind if self.minimum is None else f"{kind} from {self.minimum:g} on"


def read_query(name: str, query: str, parameters: Mapping[str, Parameter]) -> dict[str, str | int | float]:
    """Return the value of every parameter, given or default; SpecError E301 for anything else."""
    values = {key: parameter.default for key, parameter in parameters.items()}
    for key, text in split_query(name, query):
        parameter = parameters.get(key)
        if parameter is None:
            raise _refuse_key(name, key, parameters)
        try:
            values[key] = parameter.read(text)
        except ValueError as error:
            near = suggest(text, parameter.allowed)
            raise SpecError("E301", f"model `{name}`: `{key}` is {text!r}, not {error}", hint=near) from None
    return values


def split_query(name: str, query: str) -> list[tuple[str, str]]:
    """Return what stands behind `?` in a model's name; SpecError E301 for a name that is there twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        hint = "write `NAME?parameter=value&parameter=value`"
        raise SpecError("E301", f"model `{name}`: {query!r} is not `parameter=value`", hint=hint) from None
    keys = [key for key, _ in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise SpecError("E301", f"model `{name}`: given more than once: {listing(twice)}")
    return pairs


def _refuse_key(name: str, key: str, known: Iterable[str]) -> SpecError:
    known = list(known)
    words = f"parameters: {listing(known)}" if known else "it has no parameters"
    return SpecError("E301", f"model `{name}` has no parameter `{key}`", hint=suggest(key, known) or words)
