"""The kinds of parameters that a `config_spec` declares, and their allowed values."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from answerkey.errors import SpecError, listing, suggest
from answerkey.spec.nodes import Json
from answerkey.spec.validation import Fields, Hint, Key, Number, Text, Whole, explain

ElementType = Literal["string", "integer", "float", "boolean"]
_ELEMENTS: dict[str, Hint] = {
    "string": Text,
    "integer": Whole,
    "float": Number,
    "boolean": bool,
}
_LIST: Hint = list
_DICT: Hint = dict


def parse_several(text: str) -> object:
    """Return a list or a mapping that is written as JSON, or a list separated by commas."""
    text = text.strip()
    if not text:
        return []
    if not text.startswith(("[", "{")):
        return list(map(str.strip, text.split(",")))
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        hint = 'write `a,b`, `["a", "b"]` or `{"name": 1}`'
        raise SpecError("E111", f"is not JSON: {text!r}", hint=hint) from None


class Parameter(Fields):
    """The fields of all parameters; each kind defines its values."""

    #: What a value must be, beside `min` and `max`.
    value_type: ClassVar[Hint] = Text

    type: str
    key: Key
    display_name: Text
    description: Text | None = None
    default_value: Any = None
    nullable: bool = False

    def accept(self, value: object, *, is_text: bool = False) -> object:
        """Return a value, parsed if it is a command-line text; SpecError for an invalid one."""
        is_null = is_text and str(value).strip() in {"null", "~", ""}
        if is_null and self.nullable:
            value = None
        if value is None and not self.nullable:
            hint = "give a value, or declare `nullable: true`"
            raise SpecError("E111", "may not be null", hint=hint)
        if value is None:
            return None
        if is_text and self.is_several:
            value = parse_several(str(value))
        return self.check(value)

    @property
    def is_several(self) -> bool:
        """Whether a value is a list or a mapping."""
        return self.type in {"list", "dict"}

    def check(self, value: object) -> object:
        """Return a value that is not null as this type."""
        low, high = self.bounds()
        hint: Hint = Annotated
        adapter = TypeAdapter(hint[self.find_type(), Field(ge=low, le=high)])
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            detail = error.errors()[0]
        message, advice = explain(detail)
        for step in detail["loc"]:
            entry = step + 1 if isinstance(step, int) else f"`{step}`"
            message = f"entry {entry} {message}"
        raise SpecError("E111", message, hint=advice)

    def find_type(self) -> Hint:
        """Return the type of a value."""
        return self.value_type

    def bounds(self) -> tuple[Any, Any]:
        """Return the least and the greatest allowed value, if any."""
        return getattr(self, "min", None), getattr(self, "max", None)

    def substitute(self, value: object) -> object:
        """Return the value that replaces `<< config.key >>`."""
        return value

    def find_mistake(self) -> str | None:
        """Return a message about fields that contradict each other, if any."""
        low, high = self.bounds()
        if low is not None and high is not None and low > high:
            return f"`min` {low!r} is above `max` {high!r}"
        return None


class FloatParameter(Parameter):
    """A number within optional bounds."""

    value_type: ClassVar[Hint] = Number
    type: Literal["float"]
    min: Number | None = None
    max: Number | None = None


class IntParameter(Parameter):
    """A whole number within optional bounds."""

    value_type: ClassVar[Hint] = Whole
    type: Literal["int"]
    min: Whole | None = None
    max: Whole | None = None


class BooleanParameter(Parameter):
    """True or false."""

    value_type: ClassVar[Hint] = bool
    type: Literal["boolean"]


class StringParameter(Parameter):
    """A text; `string_kind` says whether it is code."""

    type: Literal["string"]
    string_kind: Literal["freeform", "python", "jinja"] = "freeform"
    examples: list[Text] | None = None


class ListParameter(Parameter):
    """A list of values of one type."""

    type: Literal["list"]
    dtype: ElementType = "string"

    def find_type(self) -> Hint:
        """Return a list of `dtype`."""
        return _LIST[_ELEMENTS[self.dtype]]


class DictParameter(Parameter):
    """A mapping from text to values of one type."""

    type: Literal["dict"]
    value_dtype: ElementType = "string"

    def find_type(self) -> Hint:
        """Return a mapping to `value_dtype`."""
        return _DICT[str, _ELEMENTS[self.value_dtype]]


class CategoricalParameter(Parameter):
    """One of the allowed values, or several when `multiple`.

    `values_mapping` says what each stands for.
    """

    type: Literal["categorical"]
    allowed_values: Annotated[list[Any], Field(min_length=1)]
    multiple: bool = False
    values_mapping: Json | None = None

    @property
    def is_several(self) -> bool:
        """Whether a value is a list of allowed ones."""
        return self.multiple

    def check(self, value: object) -> object:
        """Return the value, when it is allowed."""
        if not self.multiple:
            return self._pick(value)
        if not isinstance(value, list):
            raise SpecError("E111", f"must be a list of allowed values, not {value!r}")
        return list(map(self._pick, value))

    def _pick(self, value: object) -> object:
        for allowed in self.allowed_values:
            if value == allowed and isinstance(value, bool) == isinstance(allowed, bool):
                return allowed
        names = list(map(str, self.allowed_values))
        if str(value) in names:
            return self.allowed_values[names.index(str(value))]
        message = f"is {value!r}; allowed: {listing(names)}"
        raise SpecError("E111", message, hint=suggest(str(value), names))

    def substitute(self, value: object) -> object:
        """Return the mapped value, or the value itself where there is no mapping."""
        if isinstance(value, list):
            return list(map(self.substitute, value))
        return (self.values_mapping or {}).get(str(value), value)

    def find_mistake(self) -> str | None:
        """Return which mapped value is not allowed."""
        allowed = list(map(str, self.allowed_values))
        for name in self.values_mapping or ():
            if name not in allowed:
                return f"`values_mapping` maps {name!r}, which is not in `allowed_values`"
        return None


class NamedParameter(Parameter):
    """The key of something defined elsewhere, which is looked up there."""

    value_type: ClassVar[Hint] = Annotated[Text, Field(pattern=r"\S")]
    type: Literal["model", "dataset", "dataset_column", "task_result"]


_KINDS: tuple[type[Parameter], ...] = (
    FloatParameter,
    IntParameter,
    BooleanParameter,
    StringParameter,
    CategoricalParameter,
    ListParameter,
    DictParameter,
    NamedParameter,
)
#: The kinds of parameters by their `type`.
PARAMETERS: dict[str, type[Parameter]] = {}
for kind in _KINDS:
    PARAMETERS |= dict.fromkeys(get_args(kind.model_fields["type"].annotation), kind)


def imply_parameter(kind: str, name: str) -> Parameter | None:
    """Return a parameter that no file declares; None for a name that cannot be a key."""
    try:
        return PARAMETERS[kind](
            type=kind,
            key=name,
            display_name=name,
        )
    except ValidationError:
        return None
