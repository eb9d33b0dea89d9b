"""Plain dataclasses of the other rooms become pydantic models, and come back as what they were.

A scorer, metric, solver or source states its YAML fields as a frozen dataclass; its annotations are
read here, with those of nested dataclasses, so that unknown keys are refused at every depth.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model
from pydantic_core import PydanticCustomError

from answerkey.spec.numbers import has_leading_zero, parse_number, parse_whole

#: Annotations are read and made at run time, and whatever dataclass they belong to is built.
Hint = Any
Built = Any

STRICT_KEYS = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True, defer_build=True)


def _read_text(value: object) -> object:
    """Accept a whole number where text is asked for: its digits are its text. Nothing else is retyped."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _read_number(value: object) -> object:
    """Return the number that a text spells; refuse true and false, which pydantic would read as 1 and 0."""
    if isinstance(value, str):
        value = value if (number := parse_number(value)) is None else number
    if isinstance(value, bool | str):
        raise PydanticCustomError("float_type", "must be a number")
    return value


def _read_whole(value: object) -> object:
    """Return the whole number that a text spells; refuse `1.0`, true and false: they are not the text `1`."""
    if isinstance(value, str):
        _refuse_leading_zero(value)
        return value if (number := parse_whole(value)) is None else number
    if isinstance(value, bool | float):
        raise PydanticCustomError("int_type", "must be a whole number")
    return value


def _refuse_leading_zero(text: str) -> None:
    if has_leading_zero(text):
        raise PydanticCustomError("leading_zero", "must be a whole number")


Text = Annotated[str, BeforeValidator(_read_text)]
Whole = Annotated[int, BeforeValidator(_read_whole)]
Number = Annotated[float, BeforeValidator(_read_number)]


class Fields(BaseModel):
    """The YAML fields of one piece of a file; unknown keys are refused."""

    model_config = STRICT_KEYS
    built_class: ClassVar[type | None] = None


@cache
def fields_of(built: type) -> type[Fields]:
    """Return the model of a dataclass's fields."""
    hints = get_type_hints(built, include_extras=True)
    members: dict[str, Any] = {}
    for entry in dataclasses.fields(built):
        if entry.init and not entry.name.startswith("_"):
            members[entry.name] = (_convert(hints[entry.name]), _default_of(entry))
    model = create_model(built.__name__, __base__=Fields, __module__=__name__, **members)
    model.built_class = built
    return model


def extend_fields(model: type[Fields], name: str, base: type[Fields], **members: Hint) -> type[Fields]:
    """Return `model` with the common fields of `base` and some more members in front."""
    return create_model(name, __base__=(model, base), __module__=__name__, **members)


def _default_of(entry: dataclasses.Field[Any]) -> object:
    if entry.default is not dataclasses.MISSING:
        return entry.default
    if entry.default_factory is not dataclasses.MISSING:
        return Field(default_factory=entry.default_factory)
    return ...


_PLAIN: dict[Any, Any] = {str: Text, int: Whole, float: Number, object: Any}


def _convert(hint: Hint) -> Hint:
    """Return an annotation with `str` read leniently and dataclasses replaced by their models."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fields_of(hint)
    origin: Hint = get_origin(hint)
    if origin is None or origin is Literal:
        return hint
    arguments = tuple(_convert(argument) for argument in get_args(hint))
    if origin in {Union, types.UnionType}:
        return _convert_union(arguments)
    if origin is Annotated:
        return _annotate(arguments[0], *get_args(hint)[1:])
    return origin[arguments]


def _annotate(hint: Hint, *extras: object) -> Hint:
    form: Hint = Annotated
    return form[(hint, *extras)]


def _convert_union(arguments: tuple[Hint, ...]) -> Hint:
    """Return a union; several models in it are told apart by their `type`."""
    models = [one for one in arguments if _is_model(one) and _tags(one)]
    if not models[1:]:
        return functools.reduce(operator.or_, arguments)
    default = _tags(models[0])[0]
    tagged = [Annotated[one, Tag(tag)] for one in models for tag in _tags(one)]
    union = functools.reduce(operator.or_, tagged)
    chosen = _annotate(union, Discriminator(_tag_reader(default)))
    rest = (one for one in arguments if one not in models)
    return functools.reduce(operator.or_, rest, chosen)


def _tag_reader(default: str) -> Callable[[object], object]:
    def read_tag(value: object) -> object:
        if isinstance(value, Mapping):
            return value.get("type", default)
        return getattr(value, "type", default)

    return read_tag


def _is_model(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _tags(model: Hint) -> tuple[str, ...]:
    entry = model.model_fields.get("type")
    return get_args(entry.annotation) if entry else ()


def build(fields: BaseModel, **extra: object) -> Built:
    """Return the dataclass that a model's values describe."""
    built = type(fields).built_class if isinstance(fields, Fields) else None
    if built is None:
        raise TypeError(f"{type(fields).__name__} was not made from a dataclass")
    names = [entry.name for entry in dataclasses.fields(built) if entry.init]
    values = {name: _build_value(getattr(fields, name)) for name in names if hasattr(fields, name)}
    return built(**values, **extra)


def _build_value(value: object) -> object:
    if isinstance(value, Fields) and value.built_class is not None:
        return build(value)
    if isinstance(value, tuple):
        return tuple(_build_value(entry) for entry in value)
    if isinstance(value, list):
        return [_build_value(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _build_value(entry) for key, entry in value.items()}
    return value
