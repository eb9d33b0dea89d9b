"""The parameters of a `config_spec`: what each type accepts, and how a text from the command line is read."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr

from answerkey.errors import Place, listing, suggest
from answerkey.spec.fields import Fields, Number, Text, Whole
from answerkey.spec.numbers import LEADING_ZERO_HINT, has_leading_zero, parse_number, parse_whole

KEY_PATTERN = r"^[a-zA-Z0-9_\-]+$"
Key = Annotated[Text, Field(pattern=KEY_PATTERN, min_length=1, max_length=250)]
ElementType = Literal["string", "integer", "float", "boolean"]

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class UnsuitableError(ValueError):
    """A value that a parameter does not accept: what it must be, and what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Parameter(Fields):
    """What all parameters have."""

    key: Key
    display_name: Text
    description: Text | None = None
    default_value: Any = None
    nullable: bool = False

    #: Whether values of this kind are code that templates and snippets take in as it is.
    is_code: ClassVar[bool] = False
    _default_place: Place | None = PrivateAttr(default=None)

    @property
    def default_place(self) -> Place | None:
        """Where the default stands."""
        return self._default_place

    def place_default(self, place: Place) -> None:
        """Remember where the default stands."""
        self._default_place = place

    @property
    def has_default(self) -> bool:
        """Whether the file states a default; `default_value: null` is one when the parameter is nullable."""
        return "default_value" in self.model_fields_set and (self.default_value is not None or self.nullable)

    def accept(self, value: object) -> object:
        """Return the value as this type has it, or raise UnsuitableError."""
        if value is None:
            if self.nullable:
                return None
            raise UnsuitableError("may not be null", "give a value, or declare `nullable: true`")
        return self.check(value)

    def read(self, text: str) -> object:
        """Return what a text from the command line means for this type."""
        if self.nullable and text.strip() in {"null", "~", ""}:
            return None
        return self.accept(self.parse(text))

    @abstractmethod
    def check(self, value: object) -> object:
        """Return a value that is not null as this type has it, or raise UnsuitableError."""

    def parse(self, text: str) -> object:
        """Return a text of the command line as a value to be checked."""
        return text

    def substitute(self, value: object) -> object:
        """Return what `<< config.key >>` stands for when this is the value."""
        return value


class _NumberParameter(Parameter):
    def _bound(self, number: float, low: float | None, high: float | None) -> None:
        if low is not None and number < low:
            raise UnsuitableError(f"is {number!r}, below `min` {low!r}")
        if high is not None and number > high:
            raise UnsuitableError(f"is {number!r}, above `max` {high!r}")


class FloatParameter(_NumberParameter):
    """A number within optional bounds."""

    type: Literal["float"]
    min: Number | None = None
    max: Number | None = None

    def check(self, value: object) -> float:
        """Return the number; NaN and infinities are none."""
        number = read_float(value)
        self._bound(number, self.min, self.max)
        return number


class IntParameter(_NumberParameter):
    """A whole number within optional bounds."""

    type: Literal["int"]
    min: Whole | None = None
    max: Whole | None = None

    def check(self, value: object) -> int:
        """Return the whole number."""
        number = read_int(value)
        self._bound(number, self.min, self.max)
        return number


class BooleanParameter(Parameter):
    """True or false."""

    type: Literal["boolean"]

    def check(self, value: object) -> bool:
        """Return the truth value; `yes`, `no`, `on` and `off` are read too."""
        return read_bool(value)


class StringParameter(Parameter):
    """A text; `string_kind` says whether it is code."""

    type: Literal["string"]
    string_kind: Literal["freeform", "python", "jinja"] = "freeform"
    examples: list[Text] | None = None

    def check(self, value: object) -> str:
        """Return the text."""
        return read_string(value)


class CategoricalParameter(Parameter):
    """One of the allowed values, or several when `multiple`; `values_mapping` says what each stands for."""

    type: Literal["categorical"]
    allowed_values: Annotated[list[Any], Field(min_length=1)]
    multiple: bool = False
    values_mapping: dict[str, Any] | None = None

    def check(self, value: object) -> object:
        """Return the value, when it is allowed."""
        if not self.multiple:
            return self._pick(value)
        if not isinstance(value, list):
            raise UnsuitableError(f"must be a list of allowed values, not {value!r}")
        return [self._pick(entry) for entry in value]

    def parse(self, text: str) -> object:
        """Return one value, or a list of them."""
        return split_list(text) if self.multiple else text

    def _pick(self, value: object) -> object:
        for allowed in self.allowed_values:
            if value == allowed and isinstance(value, bool) == isinstance(allowed, bool):
                return allowed
        for allowed in self.allowed_values:
            if str(value) == str(allowed):
                return allowed
        names = [str(allowed) for allowed in self.allowed_values]
        raise UnsuitableError(f"is {value!r}; allowed: {listing(names)}", suggest(str(value), names))

    def substitute(self, value: object) -> object:
        """Return the mapped value, or the value itself where there is no mapping."""
        if isinstance(value, list):
            return [self.substitute(entry) for entry in value]
        return (self.values_mapping or {}).get(str(value), value)


class ListParameter(Parameter):
    """A list of values of one type."""

    type: Literal["list"]
    dtype: ElementType = "string"

    def check(self, value: object) -> list[object]:
        """Return the list with every entry as `dtype` has it."""
        if not isinstance(value, list | tuple):
            raise UnsuitableError(f"must be a list, not {value!r}")
        return [
            check_element(entry, self.dtype, f"entry {index}") for index, entry in enumerate(value, start=1)
        ]

    def parse(self, text: str) -> object:
        """Return a list written as JSON or separated by commas."""
        return split_list(text)


class DictParameter(Parameter):
    """A mapping from text to values of one type."""

    type: Literal["dict"]
    value_dtype: ElementType = "string"

    def check(self, value: object) -> dict[str, object]:
        """Return the mapping with every value as `value_dtype` has it."""
        if not isinstance(value, dict):
            raise UnsuitableError(f"must be a mapping, not {value!r}")
        return {str(key): check_element(entry, self.value_dtype, f"`{key}`") for key, entry in value.items()}

    def parse(self, text: str) -> object:
        """Return a mapping written as JSON."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise UnsuitableError(f"is not JSON: {text!r}", 'write it as `{"name": 1}`') from None


class NamedParameter(Parameter):
    """The key of something defined elsewhere."""

    def check(self, value: object) -> str:
        """Return the key; whether it is defined is checked where the definitions are known."""
        if not isinstance(value, str) or not value.strip():
            raise UnsuitableError(f"must be a name, not {value!r}")
        return value


class ModelParameter(NamedParameter):
    """The key of a model."""

    type: Literal["model"]


class DatasetParameter(NamedParameter):
    """The key of a dataset."""

    type: Literal["dataset"]


class DatasetColumnParameter(NamedParameter):
    """The name of a column of the task's dataset."""

    type: Literal["dataset_column"]

    def check(self, value: object) -> str:
        """Return the column's name."""
        return super().check(str(value) if isinstance(value, int) and not isinstance(value, bool) else value)


class TaskResultParameter(NamedParameter):
    """The key of another task specification of the same evaluation."""

    type: Literal["task_result"]


PARAMETERS: dict[str, type[Parameter]] = {
    "float": FloatParameter,
    "int": IntParameter,
    "boolean": BooleanParameter,
    "string": StringParameter,
    "categorical": CategoricalParameter,
    "list": ListParameter,
    "dict": DictParameter,
    "model": ModelParameter,
    "dataset": DatasetParameter,
    "dataset_column": DatasetColumnParameter,
    "task_result": TaskResultParameter,
}


def read_float(value: object) -> float:
    """Return a finite number from a number or its text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if math.isfinite(number):
            return number
    if isinstance(value, str) and (read := parse_number(value)) is not None:
        return read
    raise UnsuitableError(f"must be a number, not {value!r}", _advise_zero(value))


def read_int(value: object) -> int:
    """Return a whole number from a number or its text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (read := parse_whole(value)) is not None:
        return read
    raise UnsuitableError(f"must be a whole number, not {value!r}", _advise_zero(value))


def _advise_zero(value: object) -> str | None:
    return LEADING_ZERO_HINT if isinstance(value, str) and has_leading_zero(value) else None


def read_bool(value: object) -> bool:
    """Return a truth value from one or from its text."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise UnsuitableError(f"must be true or false, not {value!r}")


def read_string(value: object) -> str:
    """Return a text; a whole number is its digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise UnsuitableError(f"must be text, not {value!r}", "put the value in quotes")


_ELEMENTS: dict[str, Callable[[object], object]] = {
    "string": read_string,
    "integer": read_int,
    "float": read_float,
    "boolean": read_bool,
}


def check_element(value: object, dtype: str, name: str) -> object:
    """Return one entry of a list or mapping as its type has it."""
    try:
        return _ELEMENTS[dtype](value)
    except UnsuitableError as trouble:
        raise UnsuitableError(f"{name} {trouble}", trouble.hint) from None


def split_list(text: str) -> list[object]:
    """Return a list written as JSON, or separated by commas."""
    if text.strip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise UnsuitableError(f"is not a JSON list: {text!r}", 'write `a,b` or `["a", "b"]`') from None
        return list(found)
    return [part.strip() for part in text.split(",")] if text.strip() else []
