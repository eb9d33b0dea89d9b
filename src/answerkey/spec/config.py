"""The parameters of a `config_spec`, their values, and `<< config.x >>` filled in once over the
tree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, PrivateAttr, ValidationError

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.spec import nodes, validation
from answerkey.spec.nodes import Node, Path, Problems
from answerkey.spec.validation import Fields, Key, Number, Text, Whole
from answerkey.templates import ConfigValue, embed_config, find_config_names

ElementType = Literal["string", "integer", "float", "boolean"]
_MUST_BE = {
    "string": "text",
    "integer": "a whole number",
    "float": "a number",
    "boolean": "true or false",
}
_TRUTHS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(
    ("false", "no", "off", "0"), False
)


class UnsuitableError(ValueError):
    """A value that a parameter does not accept: what it must be, and what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def read_element(value: Any, dtype: ElementType) -> Any:  # noqa: ANN401 - of that type
    """Return a value as a plain type has it: a number may be spelled, a whole number is text by its
    digits.

    NaN and infinities are no numbers; `yes`, `no`, `on` and `off` are truth values too.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    found: object = None
    if dtype == "boolean":
        found = _TRUTHS.get(str(value).strip().lower()) if isinstance(value, bool | str) else None
    elif dtype == "string":
        found = (
            str(value) if isinstance(value, str) or (is_number and isinstance(value, int)) else None
        )
    elif isinstance(value, str):
        found = (
            validation.parse_whole(value) if dtype == "integer" else validation.parse_number(value)
        )
    elif is_number:
        with suppress(OverflowError):
            found = float(value) if math.isfinite(value) else None
        if dtype == "integer":
            found = int(value) if isinstance(value, int) or value.is_integer() else None
    if found is None:
        hint = (
            "put the value in quotes"
            if dtype == "string"
            else validation.advise_leading_zero(value)
        )
        raise UnsuitableError(f"must be {_MUST_BE[dtype]}, not {value!r}", hint)
    return found


def read_entry(value: object, dtype: ElementType, name: str) -> object:
    """Return one entry of a list or mapping as its type has it."""
    try:
        return read_element(value, dtype)
    except UnsuitableError as error:
        raise UnsuitableError(f"{name} {error}", error.hint) from None


def split_list(text: str) -> list[object]:
    """Return a list written as JSON, or separated by commas."""
    if not text.strip().startswith("["):
        return [part.strip() for part in text.split(",")] if text.strip() else []
    try:
        return list(json.loads(text))
    except (ValueError, RecursionError):
        raise UnsuitableError(
            f"is not a JSON list: {text!r}", 'write `a,b` or `["a", "b"]`'
        ) from None


class Parameter(Fields):
    """What all parameters have; what their values are is said by each kind."""

    key: Key
    display_name: Text
    description: Text | None = None
    default_value: Any = None
    nullable: bool = False
    _default_place: Place | None = PrivateAttr(default=None)
    element: ClassVar[ElementType] = "string"

    @property
    def has_default(self) -> bool:
        """Whether the file states a default.

        `default_value: null` is one when the parameter is nullable.
        """
        return "default_value" in self.model_fields_set and (
            self.default_value is not None or self.nullable
        )

    def accept(self, value: object, *, is_text: bool = False) -> object:
        """Return a value, or what a text of the command line means, as this type has it."""
        if is_text:
            text = str(value)
            value = (
                None if self.nullable and text.strip() in {"null", "~", ""} else self.parse(text)
            )
        if value is None and not self.nullable:
            raise UnsuitableError("may not be null", "give a value, or declare `nullable: true`")
        return None if value is None else self.check(value)

    def check(self, value: object) -> object:
        """Return a value that is not null as this type has it, or raise UnsuitableError."""
        found = read_element(value, self.element)
        low, high = getattr(self, "min", None), getattr(self, "max", None)
        if low is not None and found < low:
            raise UnsuitableError(f"is {found!r}, below `min` {low!r}")
        if high is not None and found > high:
            raise UnsuitableError(f"is {found!r}, above `max` {high!r}")
        return found

    def parse(self, text: str) -> object:
        """Return a text of the command line as a value to be checked."""
        return text

    def substitute(self, value: object) -> object:
        """Return what `<< config.key >>` stands for when this is the value."""
        return value


class FloatParameter(Parameter):
    """A number within optional bounds."""

    type: Literal["float"]
    min: Number | None = None
    max: Number | None = None
    element = "float"


class IntParameter(Parameter):
    """A whole number within optional bounds."""

    type: Literal["int"]
    min: Whole | None = None
    max: Whole | None = None
    element = "integer"


class BooleanParameter(Parameter):
    """True or false."""

    type: Literal["boolean"]
    element = "boolean"


class StringParameter(Parameter):
    """A text; `string_kind` says whether it is code."""

    type: Literal["string"]
    string_kind: Literal["freeform", "python", "jinja"] = "freeform"
    examples: list[Text] | None = None


class CategoricalParameter(Parameter):
    """One of the allowed values, or several when `multiple`; `values_mapping` says what each stands
    for.
    """

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
        names = {str(allowed): allowed for allowed in reversed(self.allowed_values)}
        if str(value) in names:
            return names[str(value)]
        known = [str(allowed) for allowed in self.allowed_values]
        raise UnsuitableError(
            f"is {value!r}; allowed: {listing(known)}", suggest(str(value), known)
        )

    def substitute(self, value: object) -> object:
        """Return the mapped value, or the value itself where there is no mapping."""
        if isinstance(value, list):
            return [self.substitute(entry) for entry in value]
        return (self.values_mapping or {}).get(str(value), value)


class ListParameter(Parameter):
    """A list of values of one type."""

    type: Literal["list"]
    dtype: ElementType = "string"

    def check(self, value: object) -> object:
        """Return the list with every entry as `dtype` has it."""
        if not isinstance(value, list | tuple):
            raise UnsuitableError(f"must be a list, not {value!r}")
        return [
            read_entry(one, self.dtype, f"entry {index}")
            for index, one in enumerate(value, start=1)
        ]

    def parse(self, text: str) -> object:
        """Return a list written as JSON or separated by commas."""
        return split_list(text)


class DictParameter(Parameter):
    """A mapping from text to values of one type."""

    type: Literal["dict"]
    value_dtype: ElementType = "string"

    def check(self, value: object) -> object:
        """Return the mapping with every value as `value_dtype` has it."""
        if not isinstance(value, dict):
            raise UnsuitableError(f"must be a mapping, not {value!r}")
        return {
            str(key): read_entry(entry, self.value_dtype, f"`{key}`")
            for key, entry in value.items()
        }

    def parse(self, text: str) -> object:
        """Return a mapping written as JSON."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise UnsuitableError(f"is not JSON: {text!r}", 'write it as `{"name": 1}`') from None


class NamedParameter(Parameter):
    """The key of something defined elsewhere.

    Whether it is defined is checked where that is known.
    """

    def check(self, value: object) -> object:
        """Return the key."""
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

    def check(self, value: object) -> object:
        """Return the column's name."""
        return super().check(
            str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        )


class TaskResultParameter(NamedParameter):
    """The key of another task specification of the same evaluation."""

    type: Literal["task_result"]


#: The kinds of parameters by their `type`, in the order in which they stand here.
PARAMETERS: dict[str, type[Parameter]] = {
    get_args(model.model_fields["type"].annotation)[0]: model
    for model in (*Parameter.__subclasses__(), *NamedParameter.__subclasses__())
    if "type" in model.model_fields
}


@dataclass(frozen=True)
class Given:
    """A config value and where it is given.

    `is_text` when it is to be read from the command line.
    """

    value: object
    place: Place
    is_text: bool = False


@dataclass(frozen=True)
class Config:
    """Declared parameters and their values; a name without a value was reported, or is not needed.

    `is_implied`: no `config_spec` declares them, the file only reads them.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    is_implied: bool = False

    def of_type(self, kind: str) -> dict[str, str]:
        """Return the values of all parameters of a type, by parameter key, without unset and null
        ones.
        """
        return {
            key: str(self.values[key])
            for key, parameter in self.parameters.items()
            if PARAMETERS[kind] is type(parameter) and self.values.get(key) is not None
        }

    def look_up(self, name: str) -> ConfigValue:
        """Return what `<< config.name >>` stands for."""
        parameter = self.parameters[name]
        is_code = isinstance(parameter, StringParameter) and parameter.string_kind != "freeform"
        return ConfigValue(parameter.substitute(self.values[name]), is_code)

    def fill(self, root: Node, problems: Problems, path: Path = ()) -> Node:
        """Return the tree with every `<< config.x >>` replaced.

        What cannot be is reported and stays.
        """

        def change(path: Path, node: Node) -> Node:
            text = node.text
            if text is None or "<<" not in text:
                return node
            names = find_config_names(text)
            for name in names:
                if self.is_implied and name not in self.values:
                    hint = _advise_declaration(name, _find_type(name, text, path))
                    problems.add("E110", f"unknown config name `{name}`", node.place, hint)
                elif name not in self.parameters:
                    problems.report(_refuse_name(name, self.parameters, node.place))
            if not names or any(name not in self.values for name in names):
                return node
            try:
                found = embed_config(
                    text, self.look_up, is_template=nodes.kind_of(path) == "template"
                )
            except SpecError as error:
                validation.report_text(error, node, problems)
                return node
            is_text = isinstance(found, str)
            return replace(node, value=found) if is_text else nodes.from_plain(found, node.place)

        return nodes.map_scalars(root, change, path)


def _refuse_name(name: str, parameters: Mapping[str, Parameter], place: Place) -> SpecError:
    """Return the error for a name that is not declared."""
    hint = suggest(name, parameters) or f"names: {listing(parameters)}"
    if not parameters:
        hint = f"the task reads no `<< config.{name} >>`: leave it out"
    return SpecError("E110", f"unknown config name `{name}`", where=place, hint=hint)


def _find_type(name: str, text: str, path: Path) -> str:
    """Return the type of a parameter by where `<< config.name >>` stands."""
    if re.search(rf"sample\s*\.\s*<<\s*config\.{re.escape(name)}\s*>>", text):
        return "dataset_column"
    if path[:2] == ("definition", "dataset"):
        return "dataset"
    return "model" if path[-1:] == ("model_key",) else "string"


def _advise_declaration(name: str, kind: str) -> str:
    """Return how to give a value to a name that no `config_spec` declares, and how to declare
    it.
    """
    example = name.removesuffix("_column")
    if example == name:
        example = "VALUE"
    return f"""\
give it with `--config {name}={example}`, or declare it at the top of the file:
config_spec:
  - type: {kind}
    key: {name}
    display_name: {name}
    default_value: {example}"""


def imply_parameters(node: Node) -> dict[str, Parameter]:
    """Return a parameter for each config name that a task or an evaluation without `config_spec`
    reads.
    """
    parameters: dict[str, Parameter] = {}
    for path, scalar in nodes.walk_scalars(node):
        text = scalar.text or ""
        for name in find_config_names(text) if "<<" in text else ():
            kind = _find_type(name, text, path)
            with suppress(ValidationError):  # a text that cannot be a key
                parameter = PARAMETERS[kind].model_validate(
                    {"type": kind, "key": name, "display_name": name}
                )
                parameters.setdefault(name, parameter)
    return parameters


def read_parameters(node: Node | None, problems: Problems) -> dict[str, Parameter]:
    """Return the parameters of a `config_spec`, by key, with their defaults checked."""
    if node is None or node.is_null:
        return {}
    if not node.is_list:
        problems.add("E108", "`config_spec` must be a list of parameters", node.place)
    parameters: dict[str, Parameter] = {}
    for number, entry in enumerate(node.items, start=1):
        kind = entry.get("type")
        label, types = f"`config_spec` entry {number}", f"types: {listing(PARAMETERS)}"
        if kind is None or not kind.is_scalar:
            problems.add("E108", f"{label} needs a `type`", entry.place, types)
            continue
        if str(kind.value) not in PARAMETERS:
            hint = suggest(str(kind.value), PARAMETERS) or types
            problems.add("E109", f"unknown parameter type {kind.value!r}", kind.place, hint)
            continue
        parameter = validation.validate_node(
            PARAMETERS[str(kind.value)], entry, problems, name=label
        )
        if parameter is None:
            continue
        low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
        if low is not None and high is not None and low > high:
            problems.add("E111", f"`min` {low!r} is above `max` {high!r}", entry.key_place("min"))
        allowed = [str(value) for value in getattr(parameter, "allowed_values", ())]
        for one in getattr(parameter, "values_mapping", None) or ():
            if one not in allowed:
                message = f"`values_mapping` maps {one!r}, which is not in `allowed_values`"
                where = entry.key_place("values_mapping")
                problems.add("E111", message, where, f"allowed: {listing(allowed)}")
        default = entry.get("default_value")
        if default is not None and parameter.default_value is not None:
            parameter._default_place = default.place  # noqa: SLF001 - beside the fields, which are the file's
            try:
                parameter.accept(parameter.default_value)
            except UnsuitableError as error:
                message = f"default of config parameter `{parameter.key}` {error}"
                problems.add("E111", message, default.place, error.hint)
        if parameter.key in parameters:
            problems.add(
                "E114", f"config parameter `{parameter.key}` is declared twice", entry.place
            )
        parameters[parameter.key] = parameter
    return parameters


def resolve_config(
    parameters: Mapping[str, Parameter],
    given: Mapping[str, Given],
    problems: Problems,
    *,
    place: Place,
    needs_all: bool = True,
    is_implied: bool = False,
) -> Config:
    """Return the config: given values, checked, over defaults.

    Without `needs_all`, a missing value is no error; that of an implied parameter is one where it
    is read.
    """
    for name, one in given.items():
        if name not in parameters:
            problems.report(_refuse_name(name, parameters, one.place))
    values: dict[str, object] = {}
    places: dict[str, Place] = {}
    for key, parameter in parameters.items():
        one = given.get(key) or Given(parameter.default_value, parameter._default_place or place)  # noqa: SLF001
        if key not in given and not parameter.has_default:
            if parameter.nullable:
                values[key] = None
            elif needs_all and not is_implied:
                hint = (
                    f"give it in `task_config` or with `--config {key}=…`, or declare a "
                    "`default_value`"
                )
                problems.add("E111", f"config value `{key}` is missing", place, hint)
            continue
        try:
            values[key] = parameter.accept(one.value, is_text=one.is_text)
            places[key] = one.place
        except UnsuitableError as error:
            if key in given:
                problems.add("E111", f"config value `{key}` {error}", one.place, error.hint)
    return Config(parameters, values, places, is_implied)


def refuse_config(node: Node, problems: Problems) -> None:
    """Report `<< config.x >>` where no config is known; inline rows are left alone."""
    for path, scalar in nodes.walk_scalars(node):
        if scalar.text is not None and nodes.kind_of(path) in {"plain", "template"}:
            for name in find_config_names(scalar.text):
                hint = "config values stand in tasks and in task specifications"
                problems.add("E110", f"no config value `{name}` is known here", scalar.place, hint)


def read_given(node: Node | None, problems: Problems, *, name: str) -> dict[str, Given]:
    """Return the values of a `task_config` or `config` mapping."""
    if node is None or node.is_null:
        return {}
    if not node.is_map:
        problems.add("E108", f"`{name}` must be a mapping of config names to values", node.place)
    return {key: Given(nodes.to_plain(entry), entry.place) for key, entry in node.entries.items()}


def given_by_caller(config: Mapping[str, object]) -> dict[str, Given]:
    """Return the values of `--config k=v`, or of a Python caller, who may give values that are no
    text.
    """
    place = Place(file="--config")
    return {
        key: Given(value, place, is_text=isinstance(value, str)) for key, value in config.items()
    }
