"""Resolve the values of a `config_spec`, and fill in `<< config.x >>`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from answerkey.errors import Place, SpecError
from answerkey.spec.nodes import (
    Json,
    Node,
    ProblemList,
    Steps,
    advise,
    find_text_kind,
    from_plain,
    map_scalars,
    to_plain,
    walk_scalars,
)
from answerkey.spec.validation import report_text, validate_node
from answerkey.templates import ConfigValue, embed_config, find_config_names

if TYPE_CHECKING:
    from answerkey.spec.parameters import Parameter

#: Config values by name, as written in the file.
Settings = Mapping[str, Node]
NO_SETTINGS: Settings = MappingProxyType({})


@dataclass(frozen=True)
class Config:
    """Declared parameters and their values; a name without a value was reported, or is not needed.

    `is_implied`: no `config_spec` declares them, the file only reads them. `is_read`: a text of
    the file reads a value.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    is_implied: bool = False
    is_read: bool = False

    def of_type(self, kind: str) -> dict[str, str]:
        """Return the values of all parameters of a type, without unset and null ones."""
        values = {}
        for key, parameter in self.parameters.items():
            value = self.values.get(key)
            if parameter.type == kind and value is not None:
                values[key] = str(value)
        return values

    def look_up(self, name: str) -> ConfigValue:
        """Return the value of `<< config.name >>`."""
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
            is_template = find_text_kind(path) == "template"
            value = embed_config(text, self.look_up, is_template=is_template)
        except SpecError as error:
            report_text(error, node)
            return node
        if isinstance(value, str):
            return replace(node, value=value)
        return from_plain(value, node.place, node.problems)

    def _check_name(
        self,
        name: str,
        path: Steps,
        node: Node,
    ) -> None:
        """Report a name that is read, and has no value or no declaration."""
        if self.is_implied and name not in self.values:
            kind = _find_type(name, node.text or "", path)
            hint = _advise_declaration(name, kind)
            node.report("E110", f"unknown config name `{name}`", hint)
        elif name not in self.parameters:
            _refuse_name(name, self.parameters, node)


def reads_config(node: Node) -> bool:
    """Return whether a task declares or reads config values."""
    if "config_spec" in node.entries:
        return True
    return any("<<" in (scalar.text or "") for _, scalar in walk_scalars(node))


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
    """Return the type of a parameter from the place of `<< config.name >>`."""
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
        return list(_list_implied_parameters(node))
    keys = [entry.key for entry in node.at("config_spec").items]
    return list(filter(None, keys))


def _list_implied_parameters(node: Node) -> dict[str, Parameter]:
    """Return a parameter for each config name that is read where no `config_spec` declares any."""
    from answerkey.spec.parameters import imply_parameter

    parameters: dict[str, Parameter] = {}
    for path, scalar in walk_scalars(node):
        text = scalar.text or ""
        if "<<" not in text:
            continue
        for name in find_config_names(text):
            kind = _find_type(name, text, path)
            parameter = imply_parameter(kind, name)
            if parameter is not None:
                parameters.setdefault(name, parameter)
    return parameters


def _read_parameters(node: Node) -> tuple[dict[str, Parameter], Settings]:
    """Return the parameters of a `config_spec`, and their defaults, by key."""
    from answerkey.spec.parameters import PARAMETERS

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
    """Return the checked config of a task or an evaluation: given values, else defaults.

    Of `common`, which wins over `settings`, only the declared names are used. `fallbacks` are
    values for parameters of a type that have neither. Without `needs_all`, a missing value is no
    error; an implied parameter without one is reported where it is read.
    """
    is_implied = "config_spec" not in node.entries
    defaults: Settings = {}
    if is_implied:
        parameters = _list_implied_parameters(node)
    else:
        parameters, defaults = _read_parameters(node.entries["config_spec"])
    report_unknown(settings, parameters)
    values: Json = {}
    places: dict[str, Place] = {}
    written = {**settings, **common}
    for key, parameter in parameters.items():
        layers = [
            fallbacks.get(parameter.type),
            defaults.get(key),
            written.get(key),
        ]
        chosen = list(filter(None, layers))
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
    return Config(parameters, values, places, is_implied, is_read=True)


def refuse_config(node: Node) -> None:
    """Report `<< config.x >>` where no config is known; inline rows are left alone."""
    for path, scalar in walk_scalars(node):
        if scalar.text is None or find_text_kind(path) not in {"plain", "template"}:
            continue
        for name in find_config_names(scalar.text):
            hint = "config values can only be used in tasks and task specifications"
            scalar.report("E110", f"no config value `{name}` is known here", hint)


def parse_caller_config(config: Mapping[str, object], problems: ProblemList) -> dict[str, Node]:
    """Return the values of `--config k=v`, or of a Python caller, whose texts are parsed alike."""
    settings = {}
    for name, value in config.items():
        node = from_plain(value, Place(file="--config"), problems)
        if isinstance(value, str):
            node = replace(node, style="argument")
        settings[name] = node
    return settings
