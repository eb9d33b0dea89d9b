"""The parameters of a `config_spec`, their values, and `<< config.x >>` filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.spec.nodes import (
    Node,
    Path,
    ProblemList,
    advise,
    from_plain,
    kind_of,
    map_scalars,
    to_plain,
    walk_scalars,
)
from answerkey.spec.validation import (
    Fields,
    Key,
    Number,
    Text,
    Whole,
    explain,
    report_text,
    validate_node,
)
from answerkey.templates import ConfigValue, embed_config, find_config_names

ElementType = Literal["string", "integer", "float", "boolean"]
_LISTS: dict[str, Any] = {
    "string": list[Text],
    "integer": list[Whole],
    "float": list[Number],
    "boolean": list[bool],
}
_DICTS: dict[str, Any] = {
    "string": dict[str, Text],
    "integer": dict[str, Whole],
    "float": dict[str, Number],
    "boolean": dict[str, bool],
}


def parse_several(text: str) -> object:
    """Return a list or a mapping that is written as JSON, or a list separated by commas."""
    if not text.strip().startswith(("[", "{")):
        return [part.strip() for part in text.split(",")] if text.strip() else []
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        hint = 'write `a,b`, `["a", "b"]` or `{"name": 1}`'
        raise SpecError("E111", f"is not JSON: {text!r}", hint=hint) from None


class Parameter(Fields):
    """What all parameters have; each kind says what its values are."""

    type: str
    key: Key
    display_name: Text
    description: Text | None = None
    default_value: Any = None
    nullable: bool = False

    def accept(self, value: object, *, is_text: bool = False) -> object:
        """Return a value, or what a text of the command line means; raise SpecError for another."""
        if is_text and self.nullable and str(value).strip() in {"null", "~", ""}:
            value = None
        if value is not None:
            return self.check(self.parse(str(value)) if is_text else value)
        if not self.nullable:
            hint = "give a value, or declare `nullable: true`"
            raise SpecError("E111", "may not be null", hint=hint)
        return None

    def check(self, value: object) -> object:
        """Return a value that is not null as this type."""
        try:
            return TypeAdapter(self.value_type()).validate_python(value)
        except ValidationError as error:
            detail = error.errors()[0]
        message, hint = explain(detail)
        for step in detail["loc"]:
            entry = step + 1 if isinstance(step, int) else f"`{step}`"
            message = f"entry {entry} {message}"
        raise SpecError("E111", message, hint=hint)

    def value_type(self) -> Any:  # noqa: ANN401 - a type that pydantic knows
        """Return what a value must be."""
        return Text

    def parse(self, text: str) -> object:
        """Return a text of the command line as a value to be checked."""
        return text

    def substitute(self, value: object) -> object:
        """Return what `<< config.key >>` stands for when this is the value."""
        return value

    def find_mistake(self) -> str | None:
        """Return which fields contradict each other."""
        low = getattr(self, "min", None)
        high = getattr(self, "max", None)
        if low is not None and high is not None and low > high:
            return f"`min` {low!r} is above `max` {high!r}"
        return None


class FloatParameter(Parameter):
    """A number within optional bounds."""

    type: Literal["float"]
    min: Number | None = None
    max: Number | None = None

    def value_type(self) -> Any:  # noqa: ANN401 - as above
        """Return a number within the bounds."""
        return Annotated[Number, Field(ge=self.min, le=self.max)]


class IntParameter(Parameter):
    """A whole number within optional bounds."""

    type: Literal["int"]
    min: Whole | None = None
    max: Whole | None = None

    def value_type(self) -> Any:  # noqa: ANN401 - as above
        """Return a whole number within the bounds."""
        return Annotated[Whole, Field(ge=self.min, le=self.max)]


class BooleanParameter(Parameter):
    """True or false."""

    type: Literal["boolean"]

    def value_type(self) -> Any:  # noqa: ANN401 - as above
        """Return true or false."""
        return bool


class StringParameter(Parameter):
    """A text; `string_kind` says whether it is code."""

    type: Literal["string"]
    string_kind: Literal["freeform", "python", "jinja"] = "freeform"
    examples: list[Text] | None = None


class ListParameter(Parameter):
    """A list of values of one type."""

    type: Literal["list"]
    dtype: ElementType = "string"

    def value_type(self) -> Any:  # noqa: ANN401 - as above
        """Return a list of `dtype`."""
        return _LISTS[self.dtype]

    def parse(self, text: str) -> object:
        """Return a list."""
        return parse_several(text)


class DictParameter(Parameter):
    """A mapping from text to values of one type."""

    type: Literal["dict"]
    value_dtype: ElementType = "string"

    def value_type(self) -> Any:  # noqa: ANN401 - as above
        """Return a mapping to `value_dtype`."""
        return _DICTS[self.value_dtype]

    def parse(self, text: str) -> object:
        """Return a mapping."""
        return parse_several(text)


class CategoricalParameter(Parameter):
    """One of the allowed values, or several when `multiple`.

    `values_mapping` says what each stands for.
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
            raise SpecError("E111", f"must be a list of allowed values, not {value!r}")
        return [self._pick(entry) for entry in value]

    def parse(self, text: str) -> object:
        """Return one value, or a list of them."""
        return parse_several(text) if self.multiple else text

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
            return [self.substitute(entry) for entry in value]
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

    type: Literal["model", "dataset", "dataset_column", "task_result"]

    def value_type(self) -> Any:  # noqa: ANN401 - as above
        """Return a name."""
        return Annotated[Text, Field(pattern=r"\S")]


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
        """Return the values of all parameters of a type, without unset and null ones."""
        values = {}
        for key, parameter in self.parameters.items():
            if parameter.type == kind and self.values.get(key) is not None:
                values[key] = str(self.values[key])
        return values

    def look_up(self, name: str) -> ConfigValue:
        """Return what `<< config.name >>` stands for."""
        parameter = self.parameters[name]
        is_code = getattr(parameter, "string_kind", "freeform") != "freeform"
        return ConfigValue(parameter.substitute(self.values[name]), is_code)

    def fill(self, root: Node, path: Path = ()) -> Node:
        """Return the tree with every `<< config.x >>` replaced, or reported and left."""
        return map_scalars(root, self._fill_scalar, path)

    def _fill_scalar(self, path: Path, node: Node) -> Node:
        text = node.text or ""
        if "<<" not in text:
            return node
        names = find_config_names(text)
        for name in names:
            if self.is_implied and name not in self.values:
                hint = _advise_declaration(name, _find_type(name, text, path))
                node.report("E110", f"unknown config name `{name}`", hint)
            elif name not in self.parameters:
                _refuse_name(name, self.parameters, node)
        if not names or not self.values.keys() >= set(names):
            return node
        try:
            value = embed_config(text, self.look_up, is_template=kind_of(path) == "template")
        except SpecError as error:
            report_text(error, node)
            return node
        if isinstance(value, str):
            return replace(node, value=value)
        return from_plain(value, node.place, node.problems)


def report_unknown(settings: Mapping[str, Node], names: Collection[str]) -> None:
    """Report config values whose names are not declared."""
    for name, node in settings.items():
        if name not in names:
            _refuse_name(name, names, node)


def _refuse_name(name: str, names: Collection[str], node: Node) -> None:
    hint = advise(name, names, "names")
    if not names:
        hint = f"the task reads no `<< config.{name} >>`: leave it out"
    node.report("E110", f"unknown config name `{name}`", hint)


def _find_type(
    name: str,
    text: str,
    path: Path,
) -> str:
    """Return the type of a parameter by where `<< config.name >>` stands."""
    if re.search(rf"sample\s*\.\s*<<\s*config\.{re.escape(name)}\s*>>", text):
        return "dataset_column"
    if path[:2] == ("definition", "dataset"):
        return "dataset"
    return "model" if path[-1:] == ("model_key",) else "string"


def _advise_declaration(name: str, kind: str) -> str:
    """Return how to give a value to an undeclared name, and how to declare it."""
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


def list_declared(node: Node) -> list[str]:
    """Return the config names that a task or an evaluation declares, or reads without declaring."""
    if "config_spec" not in node.entries:
        return list(_imply_parameters(node))
    return [entry.key for entry in node.at("config_spec").items if entry.key is not None]


def pick_declared(settings: Mapping[str, Node], node: Node) -> dict[str, Node]:
    """Return the values whose names a task or an evaluation declares."""
    names = list_declared(node)
    return {name: value for name, value in settings.items() if name in names}


def _imply_parameters(node: Node) -> dict[str, Parameter]:
    """Return a parameter for each config name that is read where no `config_spec` declares any."""
    parameters: dict[str, Parameter] = {}
    for path, scalar in walk_scalars(node):
        text = scalar.text or ""
        for name in find_config_names(text) if "<<" in text else ():
            kind = _find_type(name, text, path)
            with suppress(ValidationError):  # a text that cannot be a key
                parameter = PARAMETERS[kind](type=kind, key=name, display_name=name)
                parameters.setdefault(name, parameter)
    return parameters


def _read_parameter(entry: Node, label: str) -> Parameter | None:
    kind = entry.field("type")
    name = str(kind.value)
    if name not in PARAMETERS:
        hint = advise(name, PARAMETERS, "types")
        code = "E108" if kind.is_null else "E109"
        kind.report(code, f"{label}: unknown parameter type {name!r}", hint)
        return None
    parameter = validate_node(PARAMETERS[name], entry, label)
    mistake = parameter and parameter.find_mistake()
    if mistake:
        entry.report("E111", mistake)
    return parameter


def _read_parameters(node: Node) -> tuple[dict[str, Parameter], dict[str, Node]]:
    """Return the parameters of a task or an evaluation, and their defaults, by key."""
    parameters: dict[str, Parameter] = {}
    defaults: dict[str, Node] = {}
    if "config_spec" not in node.entries:
        return _imply_parameters(node), defaults
    listed = node.field("config_spec")
    if not listed.is_list and not listed.is_null:
        listed.report("E108", "`config_spec` must be a list of parameters")
    for number, entry in enumerate(listed.items, start=1):
        parameter = _read_parameter(entry, f"`config_spec` entry {number}")
        if parameter is None:
            continue
        if parameter.key in parameters:
            entry.report("E114", f"config parameter `{parameter.key}` is declared twice")
        parameters[parameter.key] = parameter
        if parameter.default_value is not None:
            defaults[parameter.key] = entry.entries["default_value"]
    return parameters, defaults


def resolve_config(
    node: Node,
    settings: Mapping[str, Node],
    *,
    fallbacks: Mapping[str, Node] = MappingProxyType({}),
    needs_all: bool = True,
) -> Config:
    """Return the config of a task or an evaluation: what is given, over its defaults, checked.

    `fallbacks` are values for parameters of a type that have neither. Without `needs_all`, a
    missing value is no error; an implied parameter without one is reported where it is read.
    """
    is_implied = "config_spec" not in node.entries
    parameters, defaults = _read_parameters(node)
    report_unknown(settings, parameters)
    values: dict[str, object] = {}
    places: dict[str, Place] = {}
    for key, parameter in parameters.items():
        layers = (fallbacks.get(parameter.type), defaults.get(key), settings.get(key))
        chosen = list(filter(None, layers))
        for value in chosen:  # a wrong default is reported even where it is not used
            places[key] = value.place
            try:
                values[key] = parameter.accept(to_plain(value), is_text=value.style == "argument")
            except SpecError as error:
                value.report("E111", f"config value `{key}` {error.message}", error.hint)
        if not chosen and parameter.nullable:
            values[key] = None
        elif not chosen and needs_all and not is_implied:
            hint = f"give it in `task_config` or with `--config {key}=…`, "
            hint += "or declare a `default_value`"
            node.report("E111", f"config value `{key}` is missing", hint)
    return Config(parameters, values, places, is_implied)


def refuse_config(node: Node) -> None:
    """Report `<< config.x >>` where no config is known; inline rows are left alone."""
    for path, scalar in walk_scalars(node):
        if scalar.text is not None and kind_of(path) in {"plain", "template"}:
            for name in find_config_names(scalar.text):
                hint = "config values stand in tasks and in task specifications"
                scalar.report("E110", f"no config value `{name}` is known here", hint)


def read_given(node: Node, name: str) -> dict[str, Node]:
    """Return the values of a `task_config` or `config` mapping."""
    if not node.is_map and not node.is_null:
        node.report("E108", f"`{name}` must be a mapping of config names to values")
    return dict(node.entries)


def given_by_caller(config: Mapping[str, object], problems: ProblemList) -> dict[str, Node]:
    """Return the values of `--config k=v`, or of a Python caller, whose text is read alike."""
    settings = {}
    for name, value in config.items():
        node = from_plain(value, Place(file="--config"), problems)
        settings[name] = replace(node, style="argument" if isinstance(value, str) else "")
    return settings
