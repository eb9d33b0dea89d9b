"""The parameters of a `config_spec`, their values, and `<< config.x >>` filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.spec.nodes import (
    Node,
    Plain,
    ProblemList,
    Steps,
    advise,
    from_plain,
    kind_of,
    map_scalars,
    to_plain,
    walk_scalars,
)
from answerkey.spec.validation import (
    Fields,
    Hint,
    Key,
    Number,
    Text,
    Whole,
    explain,
    report_text,
    validate_node,
)
from answerkey.templates import ConfigValue, embed_config, find_config_names

#: Config values by name, as they are written.
Settings = Mapping[str, Node]
NO_SETTINGS: Settings = MappingProxyType({})
ElementType = Literal["string", "integer", "float", "boolean"]
_LISTS: dict[str, Hint] = {
    "string": list[Text],
    "integer": list[Whole],
    "float": list[Number],
    "boolean": list[bool],
}
_DICTS: dict[str, Hint] = {
    "string": dict[str, Text],
    "integer": dict[str, Whole],
    "float": dict[str, Number],
    "boolean": dict[str, bool],
}


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
    """What all parameters have; each kind says what its values are."""

    #: What a value must be, beside `min` and `max`.
    value_type: ClassVar[Hint] = Text

    type: str
    key: Key
    display_name: Text
    description: Text | None = None
    default_value: Any = None
    nullable: bool = False

    def accept(self, value: object, *, is_text: bool = False) -> object:
        """Return a value, or what a text of the command line means; raise SpecError for another."""
        is_null = is_text and str(value).strip() in {"null", "~", ""}
        if is_null and self.nullable:
            value = None
        if value is None and not self.nullable:
            hint = "give a value, or declare `nullable: true`"
            raise SpecError("E111", "may not be null", hint=hint)
        if value is None:
            return None
        if is_text and self.is_several():
            value = parse_several(str(value))
        return self.check(value)

    def is_several(self) -> bool:
        """Return whether a value is a list or a mapping."""
        return False

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
        """Return what a value must be."""
        return self.value_type

    def bounds(self) -> tuple[Any, Any]:
        """Return the least and the greatest value, where there are such."""
        return getattr(self, "min", None), getattr(self, "max", None)

    def substitute(self, value: object) -> object:
        """Return what `<< config.key >>` stands for when this is the value."""
        return value

    def find_mistake(self) -> str | None:
        """Return which fields contradict each other."""
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

    def is_several(self) -> bool:
        """Return that it is a list."""
        return True

    def find_type(self) -> Hint:
        """Return a list of `dtype`."""
        return _LISTS[self.dtype]


class DictParameter(Parameter):
    """A mapping from text to values of one type."""

    type: Literal["dict"]
    value_dtype: ElementType = "string"

    def is_several(self) -> bool:
        """Return that it is a mapping."""
        return True

    def find_type(self) -> Hint:
        """Return a mapping to `value_dtype`."""
        return _DICTS[self.value_dtype]


class CategoricalParameter(Parameter):
    """One of the allowed values, or several when `multiple`.

    `values_mapping` says what each stands for.
    """

    type: Literal["categorical"]
    allowed_values: Annotated[list[Any], Field(min_length=1)]
    multiple: bool = False
    values_mapping: Plain | None = None

    def is_several(self) -> bool:
        """Return whether it is a list of allowed values."""
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
            value = self.values.get(key)
            if parameter.type == kind and value is not None:
                values[key] = str(value)
        return values

    def look_up(self, name: str) -> ConfigValue:
        """Return what `<< config.name >>` stands for."""
        parameter = self.parameters[name]
        is_code = getattr(parameter, "string_kind", "freeform") != "freeform"
        return ConfigValue(parameter.substitute(self.values[name]), is_code)

    def fill(self, root: Node, path: Steps = ()) -> Node:
        """Return the tree with every `<< config.x >>` replaced, or reported and left."""
        return map_scalars(root, self._fill_scalar, path)

    def _fill_scalar(self, path: Steps, node: Node) -> Node:
        text = node.text or ""
        if "<<" not in text:
            return node
        names = find_config_names(text)
        for name in names:
            self._check_name(name, path, node)
        if not names or not self.values.keys() >= set(names):
            return node
        try:
            is_template = kind_of(path) == "template"
            value = embed_config(text, self.look_up, is_template=is_template)
        except SpecError as error:
            report_text(error, node)
            return node
        if isinstance(value, str):
            return replace(node, value=value)
        return from_plain(value, node.place, node.problems)

    def _check_name(self, name: str, path: Steps, node: Node) -> None:
        """Report a name that is read, and has no value or no declaration."""
        if self.is_implied and name not in self.values:
            kind = _find_type(name, node.text or "", path)
            hint = _advise_declaration(name, kind)
            node.report("E110", f"unknown config name `{name}`", hint)
        elif name not in self.parameters:
            _refuse_name(name, self.parameters, node)


def report_unknown(settings: Settings, names: Collection[str]) -> None:
    """Report config values whose names are not declared."""
    for name, node in settings.items():
        if name not in names:
            _refuse_name(name, names, node)


def _refuse_name(name: str, names: Collection[str], node: Node) -> None:
    hint = f"the task reads no `<< config.{name} >>`: leave it out"
    if names:
        hint = advise(name, names, "names")
    node.report("E110", f"unknown config name `{name}`", hint)


def _find_type(name: str, text: str, path: Steps) -> str:
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


def _imply_parameters(node: Node) -> dict[str, Parameter]:
    """Return a parameter for each config name that is read where no `config_spec` declares any."""
    parameters: dict[str, Parameter] = {}
    for path, scalar in walk_scalars(node):
        text = scalar.text or ""
        if "<<" not in text:
            continue
        for name in find_config_names(text):
            kind = _find_type(name, text, path)
            with suppress(ValidationError):  # a text that cannot be a key
                parameter = PARAMETERS[kind](
                    type=kind,
                    key=name,
                    display_name=name,
                )
                parameters.setdefault(name, parameter)
    return parameters


def _read_parameters(node: Node) -> tuple[dict[str, Parameter], Settings]:
    """Return the parameters of a `config_spec`, and their defaults, by key."""
    parameters: dict[str, Parameter] = {}
    defaults: dict[str, Node] = {}
    if not node.is_list and not node.is_null:
        node.report("E108", "`config_spec` must be a list of parameters")
    for number, entry in enumerate(node.items, start=1):
        label = f"`config_spec` entry {number}"
        kind = entry.field("type")
        name = str(kind.value)
        if name not in PARAMETERS:
            hint = advise(name, PARAMETERS, "types")
            code = "E108" if kind.is_null else "E109"
            kind.report(code, f"{label}: unknown parameter type {name!r}", hint)
            continue
        parameter = validate_node(PARAMETERS[name], entry, label)
        if parameter is None:
            continue
        mistake = parameter.find_mistake()
        if mistake:
            entry.report("E111", mistake)
        if parameter.key in parameters:
            entry.report("E114", f"config parameter `{parameter.key}` is declared twice")
        parameters[parameter.key] = parameter
        if parameter.default_value is not None:
            defaults[parameter.key] = entry.entries["default_value"]
    return parameters, defaults


def resolve_config(
    node: Node,
    settings: Settings,
    common: Settings = NO_SETTINGS,
    *,
    fallbacks: Settings = NO_SETTINGS,
    needs_all: bool = True,
) -> Config:
    """Return the config of a task or an evaluation: what is given, over its defaults, checked.

    Of `common`, which wins over `settings`, only the declared names are used. `fallbacks` are
    values for parameters of a type that have neither. Without `needs_all`, a missing value is no
    error; an implied parameter without one is reported where it is read.
    """
    is_implied = "config_spec" not in node.entries
    defaults: Settings = {}
    if is_implied:
        parameters = _imply_parameters(node)
    else:
        parameters, defaults = _read_parameters(node.entries["config_spec"])
    report_unknown(settings, parameters)
    values: Plain = {}
    places: dict[str, Place] = {}
    written = {**settings, **common}
    for key, parameter in parameters.items():
        layers = [fallbacks.get(parameter.type), defaults.get(key)]
        chosen = list(filter(None, [*layers, written.get(key)]))
        for value in chosen:  # a wrong default is reported even where it is not used
            places[key] = value.place
            try:
                is_text = value.style == "argument"
                values[key] = parameter.accept(to_plain(value), is_text=is_text)
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
        if scalar.text is None or kind_of(path) not in {"plain", "template"}:
            continue
        for name in find_config_names(scalar.text):
            hint = "config values stand in tasks and in task specifications"
            scalar.report("E110", f"no config value `{name}` is known here", hint)


def given_by_caller(config: Mapping[str, object], problems: ProblemList) -> dict[str, Node]:
    """Return the values of `--config k=v`, or of a Python caller, whose text is read alike."""
    settings = {}
    for name, value in config.items():
        node = from_plain(value, Place(file="--config"), problems)
        if isinstance(value, str):
            node = replace(node, style="argument")
        settings[name] = node
    return settings
