"""The parameters of a `config_spec`, their values, and `<< config.x >>` filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import (
    dataclass,
    field,
    replace,
)
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    get_args,
)

from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
)

from answerkey.errors import (
    Place,
    SpecError,
    listing,
    suggest,
)
from answerkey.spec import validation
from answerkey.spec.nodes import (
    Node,
    Path,
    Problems,
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
)
from answerkey.templates import (
    ConfigValue,
    embed_config,
    find_config_names,
)

ElementType = Literal["string", "integer", "float", "boolean"]
_ADAPTERS: dict[ElementType, TypeAdapter[Any]] = {
    "string": TypeAdapter(Text),
    "integer": TypeAdapter(Whole),
    "float": TypeAdapter(Number),
    "boolean": TypeAdapter(bool),
}


class UnsuitableError(ValueError):
    """A value that a parameter does not accept: what it must be, and what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def read_element(
    value: object,
    dtype: ElementType,
    name: str = "",
) -> Any:  # noqa: ANN401 - of that type
    """Return a value as a type; `name` says which entry of a list or mapping it is."""
    if isinstance(value, float) and value.is_integer() and dtype == "integer":
        value = int(value)
    try:
        return _ADAPTERS[dtype].validate_python(value)
    except ValidationError as error:
        message, hint = validation.explain(error.errors()[0])
        raise UnsuitableError(f"{name}{message}", hint) from None


def split_list(text: str) -> list[object]:
    """Return a list written as JSON, or separated by commas."""
    if not text.strip():
        return []
    if not text.strip().startswith("["):
        return [part.strip() for part in text.split(",")]
    return list(_parse_json(text, "a JSON list", 'write `a,b` or `["a", "b"]`'))


def _parse_json(
    text: str,
    what: str,
    hint: str,
) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UnsuitableError(f"is not {what}: {text!r}", hint) from None


class Parameter(Fields):
    """What all parameters have; each kind says what its values are."""

    type: str
    key: Key
    display_name: Text
    description: Text | None = None
    default_value: Any = None
    nullable: bool = False
    element: ClassVar[ElementType] = "string"

    def accept(self, value: object, *, is_text: bool = False) -> object:
        """Return a value, or what a text of the command line means, as this type."""
        if is_text and not (self.nullable and str(value).strip() in {"null", "~", ""}):
            value = self.parse(str(value))
        elif is_text:
            value = None
        if value is not None:
            return self.check(value)
        if not self.nullable:
            raise UnsuitableError("may not be null", "give a value, or declare `nullable: true`")
        return None

    def check(self, value: object) -> object:
        """Return a value that is not null as this type, or raise UnsuitableError."""
        element = read_element(value, self.element)
        low = getattr(self, "min", None)
        high = getattr(self, "max", None)
        if low is not None and element < low:
            raise UnsuitableError(f"is {element!r}, below `min` {low!r}")
        if high is not None and element > high:
            raise UnsuitableError(f"is {element!r}, above `max` {high!r}")
        return element

    def parse(self, text: str) -> object:
        """Return a text of the command line as a value to be checked."""
        return text

    def substitute(self, value: object) -> object:
        """Return what `<< config.key >>` stands for when this is the value."""
        return value

    def find_mistake(self) -> tuple[str, str, str | None] | None:
        """Return the field that contradicts another one, what is wrong with it, and a hint."""
        low = getattr(self, "min", None)
        high = getattr(self, "max", None)
        if low is not None and high is not None and low > high:
            return "min", f"`min` {low!r} is above `max` {high!r}", None
        return None


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
            raise UnsuitableError(f"must be a list of allowed values, not {value!r}")
        return [self._pick(entry) for entry in value]

    def parse(self, text: str) -> object:
        """Return one value, or a list of them."""
        return split_list(text) if self.multiple else text

    def _pick(self, value: object) -> object:
        for allowed in self.allowed_values:
            if value == allowed and isinstance(value, bool) == isinstance(allowed, bool):
                return allowed
        names = list(map(str, self.allowed_values))
        if str(value) in names:
            return self.allowed_values[names.index(str(value))]
        message = f"is {value!r}; allowed: {listing(names)}"
        raise UnsuitableError(message, suggest(str(value), names))

    def substitute(self, value: object) -> object:
        """Return the mapped value, or the value itself where there is no mapping."""
        if isinstance(value, list):
            return [self.substitute(entry) for entry in value]
        return (self.values_mapping or {}).get(str(value), value)

    def find_mistake(self) -> tuple[str, str, str | None] | None:
        """Return which mapped value is not allowed."""
        allowed = list(map(str, self.allowed_values))
        for name in self.values_mapping or ():
            if name not in allowed:
                message = f"`values_mapping` maps {name!r}, which is not in `allowed_values`"
                return "values_mapping", message, f"allowed: {listing(allowed)}"
        return None


class ListParameter(Parameter):
    """A list of values of one type."""

    type: Literal["list"]
    dtype: ElementType = "string"

    def check(self, value: object) -> object:
        """Return the list with every entry as `dtype`."""
        if not isinstance(value, list | tuple):
            raise UnsuitableError(f"must be a list, not {value!r}")
        return [
            read_element(entry, self.dtype, f"entry {number} ")
            for number, entry in enumerate(value, start=1)
        ]

    def parse(self, text: str) -> object:
        """Return a list written as JSON or separated by commas."""
        return split_list(text)


class DictParameter(Parameter):
    """A mapping from text to values of one type."""

    type: Literal["dict"]
    value_dtype: ElementType = "string"

    def check(self, value: object) -> object:
        """Return the mapping with every value as `value_dtype`."""
        if not isinstance(value, dict):
            raise UnsuitableError(f"must be a mapping, not {value!r}")
        return {
            str(key): read_element(entry, self.value_dtype, f"`{key}` ")
            for key, entry in value.items()
        }

    def parse(self, text: str) -> object:
        """Return a mapping written as JSON."""
        return _parse_json(text, "JSON", 'write it as `{"name": 1}`')


class NamedParameter(Parameter):
    """The key of something defined elsewhere, which is looked up there."""

    def check(self, value: object) -> object:
        """Return the key."""
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
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


class TaskResultParameter(NamedParameter):
    """The key of another task specification of the same evaluation."""

    type: Literal["task_result"]


_KINDS: tuple[type[Parameter], ...] = (
    FloatParameter,
    IntParameter,
    BooleanParameter,
    StringParameter,
    CategoricalParameter,
    ListParameter,
    DictParameter,
    ModelParameter,
    DatasetParameter,
    DatasetColumnParameter,
    TaskResultParameter,
)
#: The kinds of parameters by their `type`.
PARAMETERS = {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in _KINDS}


@dataclass(frozen=True)
class Given:
    """A config value and where it is given; `is_text` if it comes from the command line."""

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

    def fill(
        self,
        root: Node,
        problems: Problems,
        path: Path = (),
    ) -> Node:
        """Return the tree with every `<< config.x >>` replaced, or reported and left."""
        return map_scalars(root, lambda way, node: self._fill_scalar(way, node, problems), path)

    def _fill_scalar(
        self,
        path: Path,
        node: Node,
        problems: Problems,
    ) -> Node:
        text = node.text or ""
        if "<<" not in text:
            return node
        names = find_config_names(text)
        for name in names:
            if self.is_implied and name not in self.values:
                hint = _advise_declaration(name, _find_type(name, text, path))
                problems.add("E110", f"unknown config name `{name}`", node.place, hint)
            elif name not in self.parameters:
                _refuse_name(name, self.parameters, node.place, problems)
        if not names or not self.values.keys() >= set(names):
            return node
        is_template = kind_of(path) == "template"
        try:
            value = embed_config(text, self.look_up, is_template=is_template)
        except SpecError as error:
            validation.report_text(error, node, problems)
            return node
        if isinstance(value, str):
            return replace(node, value=value)
        return from_plain(value, node.place)


def report_unknown(
    settings: Mapping[str, Given],
    names: Collection[str],
    problems: Problems,
) -> None:
    """Report config values whose names are not declared."""
    for name, value in settings.items():
        if name not in names:
            _refuse_name(name, names, value.place, problems)


def _refuse_name(
    name: str,
    names: Collection[str],
    place: Place,
    problems: Problems,
) -> None:
    hint = suggest(name, names) or f"names: {listing(names)}"
    if not names:
        hint = f"the task reads no `<< config.{name} >>`: leave it out"
    problems.add("E110", f"unknown config name `{name}`", place, hint)


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


def pick_declared(settings: Mapping[str, Given], node: Node) -> dict[str, Given]:
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


def _read_parameters(
    node: Node, problems: Problems
) -> tuple[dict[str, Parameter], dict[str, Given]]:
    """Return the parameters of a task or an evaluation, and their defaults, by key, checked."""
    if "config_spec" not in node.entries:
        return _imply_parameters(node), {}
    parameters: dict[str, Parameter] = {}
    defaults: dict[str, Given] = {}
    listed = node.entries["config_spec"]
    if not listed.is_list and not listed.is_null:
        problems.add("E108", "`config_spec` must be a list of parameters", listed.place)
    for number, entry in enumerate(listed.items, start=1):
        parameter = _read_parameter(entry, f"`config_spec` entry {number}", problems)
        if parameter is None:
            continue
        key = parameter.key
        if key in parameters:
            problems.add("E114", f"config parameter `{key}` is declared twice", entry.place)
        parameters[key] = parameter
        if "default_value" in parameter.model_fields_set:
            default = Given(parameter.default_value, entry.at("default_value").place)
            if default.value is not None or parameter.nullable:
                defaults[key] = default
    return parameters, defaults


def _read_parameter(
    entry: Node,
    label: str,
    problems: Problems,
) -> Parameter | None:
    kind = entry.field("type")
    types = f"types: {listing(PARAMETERS)}"
    if kind.is_null or not kind.is_scalar:
        problems.add("E108", f"{label} needs a `type`", entry.place, types)
        return None
    name = str(kind.value)
    if name not in PARAMETERS:
        hint = suggest(name, PARAMETERS) or types
        problems.add("E109", f"unknown parameter type {kind.value!r}", kind.place, hint)
        return None
    parameter = validation.validate_node(PARAMETERS[name], entry, problems, name=label)
    if parameter is None:
        return None
    mistake = parameter.find_mistake()
    if mistake is not None:
        wrong, message, advice = mistake
        problems.add("E111", message, entry.key_place(wrong), advice)
    try:
        if parameter.default_value is not None:
            parameter.accept(parameter.default_value)
    except UnsuitableError as error:
        message = f"default of config parameter `{parameter.key}` {error}"
        problems.add("E111", message, entry.at("default_value").place, error.hint)
    return parameter


def resolve_config(
    node: Node,
    settings: Mapping[str, Given],
    problems: Problems,
    *,
    fallbacks: Mapping[str, Given] = MappingProxyType({}),
    needs_all: bool = True,
) -> Config:
    """Return the config of a task or an evaluation: what is given, over its defaults, checked.

    `fallbacks` are values for parameters of a type that have neither. Without `needs_all`, a
    missing value is no error; an implied parameter without one is reported where it is read.
    """
    is_implied = "config_spec" not in node.entries
    parameters, defaults = _read_parameters(node, problems)
    report_unknown(settings, parameters, problems)
    values: dict[str, object] = {}
    places: dict[str, Place] = {}
    for key, parameter in parameters.items():
        chosen = settings.get(key) or defaults.get(key) or fallbacks.get(parameter.type)
        if chosen is not None:
            try:
                values[key] = parameter.accept(chosen.value, is_text=chosen.is_text)
                places[key] = chosen.place
            except UnsuitableError as error:
                if key in settings:  # an unsuitable default was reported
                    message = f"config value `{key}` {error}"
                    problems.add("E111", message, chosen.place, error.hint)
        elif parameter.nullable:
            values[key] = None
        elif needs_all and not is_implied:
            hint = f"give it in `task_config` or with `--config {key}=…`, "
            hint += "or declare a `default_value`"
            problems.add("E111", f"config value `{key}` is missing", node.place, hint)
    return Config(parameters, values, places, is_implied)


def refuse_config(node: Node, problems: Problems) -> None:
    """Report `<< config.x >>` where no config is known; inline rows are left alone."""
    for path, scalar in walk_scalars(node):
        if scalar.text is not None and kind_of(path) in {"plain", "template"}:
            for name in find_config_names(scalar.text):
                hint = "config values stand in tasks and in task specifications"
                problems.add("E110", f"no config value `{name}` is known here", scalar.place, hint)


def read_given(
    node: Node,
    problems: Problems,
    *,
    name: str,
) -> dict[str, Given]:
    """Return the values of a `task_config` or `config` mapping."""
    if not node.is_map and not node.is_null:
        problems.add("E108", f"`{name}` must be a mapping of config names to values", node.place)
    return {key: Given(to_plain(entry), entry.place) for key, entry in node.entries.items()}


def given_by_caller(config: Mapping[str, object]) -> dict[str, Given]:
    """Return the values of `--config k=v`, or of a Python caller, whose text is read alike."""
    place = Place(file="--config")
    return {name: Given(value, place, isinstance(value, str)) for name, value in config.items()}
