"""Config: the values of a `config_spec`, checked, and `<< config.x >>` filled in once over the tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import (
    ListNode,
    MapNode,
    Node,
    Path,
    ScalarNode,
    from_plain,
    is_null,
    map_scalars,
    to_plain,
    walk_scalars,
)
from answerkey.spec.parameters import PARAMETERS, Parameter, StringParameter, UnsuitableError
from answerkey.spec.positions import Kind, kind_of
from answerkey.spec.validation import validate_node
from answerkey.templates import ConfigValue, embed_config, find_config_names


@dataclass(frozen=True)
class Given:
    """A config value and where it is given; `is_text` when it is to be read from the command line."""

    value: object
    place: Place
    is_text: bool = False


@dataclass(frozen=True)
class Config:
    """Declared parameters and their values; a name without a value was reported, or is not needed."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)

    def of_type(self, kind: str) -> dict[str, str]:
        """Return the values of all parameters of a type, by parameter key, without unset and null ones."""
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

    def fill(self, root: Node, findings: Findings, path: Path = ()) -> Node:
        """Return the tree with every `<< config.x >>` replaced; what cannot be is reported and stays."""

        def change(path: Path, node: ScalarNode) -> Node:
            if not isinstance(node.value, str):
                return node
            names = find_config_names(node.value)
            return self._embed(path, node, names, findings) if names else node

        return map_scalars(root, change, path)

    def _embed(self, path: Path, node: ScalarNode, names: list[str], findings: Findings) -> Node:
        unknown = [name for name in names if name not in self.parameters]
        for name in unknown:
            findings.report(self.unknown_name(name, node.place))
        if unknown or any(name not in self.values for name in names):
            return node
        try:
            text = str(node.value)
            found = embed_config(text, self.look_up, is_template=kind_of(path) is Kind.TEMPLATE)
        except SpecError as error:
            line = error.where.line if error.where else None
            findings.add(error.code, error.message, node.place_of_line(line), error.hint)
            return node
        if isinstance(found, str):
            return ScalarNode(found, node.place, node.style)
        return from_plain(found, node.place)

    def unknown_name(self, name: str, place: Place) -> SpecError:
        """Return the error for a name that is not declared."""
        hint = suggest(name, self.parameters)
        if hint is None:
            declared = listing(self.parameters)
            hint = f"names: {declared}" if self.parameters else "declare it in `config_spec`"
        return SpecError("E110", f"unknown config name `{name}`", where=place, hint=hint)


def read_parameters(node: Node | None, findings: Findings) -> dict[str, Parameter]:
    """Return the parameters of a `config_spec`, by key, with their defaults checked."""
    if node is None or is_null(node):
        return {}
    if not isinstance(node, ListNode):
        findings.add("E108", "`config_spec` must be a list of parameters", node.place)
        return {}
    parameters: dict[str, Parameter] = {}
    for index, entry in enumerate(node.entries):
        parameter = _read_parameter(entry, index, findings)
        if parameter is None:
            continue
        if parameter.key in parameters:
            findings.add("E114", f"config parameter `{parameter.key}` is declared twice", entry.place)
        parameters[parameter.key] = parameter
    return parameters


def _read_parameter(entry: Node, index: int, findings: Findings) -> Parameter | None:
    kind = entry.get("type") if isinstance(entry, MapNode) else None
    label = f"`config_spec` entry {index + 1}"
    if not isinstance(entry, MapNode) or not isinstance(kind, ScalarNode):
        findings.add("E108", f"{label} needs a `type`", entry.place, f"types: {listing(PARAMETERS)}")
        return None
    model = PARAMETERS.get(str(kind.value))
    if model is None:
        hint = suggest(str(kind.value), PARAMETERS) or f"types: {listing(PARAMETERS)}"
        findings.add("E109", f"unknown parameter type {kind.value!r}", kind.place, hint)
        return None
    parameter = validate_node(model, entry, findings, name=label)
    if parameter is None:
        return None
    _check_parameter(parameter, entry, findings)
    return parameter


def _check_parameter(parameter: Parameter, entry: MapNode, findings: Findings) -> None:
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is not None and high is not None and low > high:
        findings.add("E111", f"`min` {low!r} is above `max` {high!r}", entry.key_place("min"))
    for name in getattr(parameter, "values_mapping", None) or ():
        allowed = [str(value) for value in getattr(parameter, "allowed_values", ())]
        if name not in allowed:
            message = f"`values_mapping` maps {name!r}, which is not in `allowed_values`"
            findings.add("E111", message, entry.key_place("values_mapping"), f"allowed: {listing(allowed)}")
    default = entry.get("default_value")
    if default is None or parameter.default_value is None:
        return
    parameter.place_default(default.place)
    try:
        parameter.accept(parameter.default_value)
    except UnsuitableError as trouble:
        message = f"default of config parameter `{parameter.key}` {trouble}"
        findings.add("E111", message, default.place, trouble.hint)


def resolve_config(
    parameters: Mapping[str, Parameter],
    given: Mapping[str, Given],
    findings: Findings,
    *,
    place: Place,
    needs_all: bool = True,
) -> Config:
    """Return the config: given values, checked, over defaults.

    Without `needs_all`, a missing value is no error.
    """
    empty = Config(parameters)
    for name, one in given.items():
        if name not in parameters:
            findings.report(empty.unknown_name(name, one.place))
    values: dict[str, object] = {}
    places: dict[str, Place] = {}
    for key, parameter in parameters.items():
        one = given.get(key) or Given(parameter.default_value, parameter.default_place or place)
        if key not in given and not parameter.has_default:
            if parameter.nullable:
                values[key] = None
            elif needs_all:
                hint = f"give it in `task_config` or with `--config {key}=…`, or declare a `default_value`"
                findings.add("E111", f"config value `{key}` is missing", place, hint)
            continue
        try:
            values[key] = parameter.read(str(one.value)) if one.is_text else parameter.accept(one.value)
            places[key] = one.place
        except UnsuitableError as trouble:
            if key in given:
                findings.add("E111", f"config value `{key}` {trouble}", one.place, trouble.hint)
    return Config(parameters, values, places)


def refuse_config(node: Node, findings: Findings) -> None:
    """Report `<< config.x >>` where no config is known; inline rows are left alone."""
    for path, scalar in walk_scalars(node):
        if isinstance(scalar.value, str) and kind_of(path) in {Kind.PLAIN, Kind.TEMPLATE}:
            for name in find_config_names(scalar.value):
                hint = "config values stand in tasks and in task specifications"
                findings.add("E110", f"no config value `{name}` is known here", scalar.place, hint)


def read_given(node: Node | None, findings: Findings, *, name: str) -> dict[str, Given]:
    """Return the values of a `task_config` or `config` mapping."""
    if node is None or is_null(node):
        return {}
    if not isinstance(node, MapNode):
        findings.add("E108", f"`{name}` must be a mapping of config names to values", node.place)
        return {}
    return {key: Given(to_plain(entry), entry.place) for key, entry in node.entries.items()}


def given_by_caller(config: Mapping[str, object]) -> dict[str, Given]:
    """Return the values of `--config k=v`, or of a Python caller, who may give values that are no text."""
    place = Place(file="--config")
    return {key: Given(value, place, is_text=isinstance(value, str)) for key, value in config.items()}
