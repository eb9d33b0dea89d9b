"""JSON Schema of the files, for editors; made from the models that the loader itself uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from answerkey.datasets import SOURCES
from answerkey.metrics import METRICS
from answerkey.scorers import SCORERS
from answerkey.solvers import SOLVERS, ChoiceOrder
from answerkey.spec.fields import fields_of
from answerkey.spec.parameters import PARAMETERS
from answerkey.spec.policies import RULES
from answerkey.spec.policy_building import PolicyFields, RuleFields, rule_model
from answerkey.spec.scoring import metric_model, scorer_model
from answerkey.spec.shapes import (
    CONNECTIONS,
    ActionFields,
    AdapterFields,
    DatasetFields,
    Definition,
    EvaluationFields,
    ModelFields,
    ProviderModel,
    RunConfigFields,
    RunFields,
    SpecificationFields,
    TaskFields,
    TrialsFields,
)
from answerkey.spec.sources import source_model
from answerkey.spec.task_building import solver_model
from answerkey.spec.variants import variant_model
from answerkey.templates import RowFilter

FileKind = Literal["task", "run", "dataset", "model"]
#: Any piece of a JSON Schema.
Keyword = Any
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LATER = r"<<\s*(config|secrets)\.[^<>]+>>"
_VARIABLE = r"^\$[A-Za-z_{]\S*$"
_WHOLE = r"(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)"
_TRUTH = "|".join(
    "".join(f"[{letter.upper()}{letter}]" for letter in word)
    for word in ("yes", "no", "on", "off", "true", "false", "y", "n", "t", "f")
)

#: What pydantic calls the bounds of a number that is read by a function first.
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}

#: Texts that the loader reads as something else: config and environment values, and words for true and false.
_STAND_INS: dict[str, str] = {
    "integer": rf"{_LATER}|{_VARIABLE}|^\s*[-+]?({_WHOLE}(\.0+)?)\s*$",
    "number": rf"{_LATER}|{_VARIABLE}|^\s*[-+]?({_WHOLE}|[0-9._]+([eE][-+]?[0-9]+)?)\s*$",
    "boolean": rf"{_LATER}|{_VARIABLE}|^({_TRUTH}|0|1)$",
    "array": _LATER,
    "object": _LATER,
}


def schema(kind: FileKind) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of one kind of file."""
    parts = _parts()
    definitions = {name: _describe_part(models) for name, models in parts.items()}
    return {
        "$schema": _DIALECT,
        "title": f"answerkey {kind} file",
        "$ref": f"#/$defs/{kind}",
        "$defs": _reachable(kind, definitions),
    }


@cache
def _parts() -> Mapping[str, tuple[type[BaseModel], ...]]:
    """Return the models that may stand at each part."""
    return {
        "task": (TaskFields,),
        "run": (RunFields,),
        "dataset": (DatasetFields,),
        "model": (ModelFields, ProviderModel),
        "definition": (Definition,),
        "scorer": tuple(scorer_model(kind) for kind in SCORERS),
        "metric": tuple(metric_model(kind) for kind in METRICS),
        "solver": tuple(solver_model(kind) for kind in SOLVERS),
        "source": tuple(source_model(kind) for kind in SOURCES),
        "parameter": tuple(PARAMETERS.values()),
        "filter": (fields_of(RowFilter),),
        "action": (ActionFields,),
        "connection": tuple(CONNECTIONS.values()),
        "adapter": (AdapterFields,),
        "evaluation": (EvaluationFields,),
        "specification": (SpecificationFields,),
        "run_config": (RunConfigFields,),
        "trials": (TrialsFields,),
        "choice_order": (fields_of(ChoiceOrder),),
        "variant": (variant_model(),),
        "policy": (PolicyFields,),
        "rule": (RuleFields,),
        "rule_definition": tuple(rule_model(kind) for kind in RULES),
    }


def _describe_part(models: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """Return the schema of a part: one of its models, or another file named by `$ref`."""
    options = [_inline(model.model_json_schema(mode="validation", by_alias=True)) for model in models]
    return {"anyOf": [*options, _elsewhere()]}


def _elsewhere() -> dict[str, Any]:
    """Return the schema of a node that is completed by another file."""
    return {"type": "object", "properties": {"$ref": {"type": "string"}}, "required": ["$ref"]}


def _inline(found: dict[str, Any]) -> dict[str, Any]:
    """Return a model's schema with its own definitions put in place and every value loosened."""
    definitions = found.pop("$defs", {})
    return _merge(found, definitions)


def _merge(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with each keyword loosened."""
    return {
        _BOUNDS.get(key, key): _loosen_properties(value, definitions)
        if key == "properties"
        else _keep(key, value, definitions)
        for key, value in node.items()
    }


def _loosen(node: Keyword, definitions: Mapping[str, Any]) -> Keyword:
    """Return a schema that also accepts what the loader turns into the value asked for."""
    if isinstance(node, list):
        return [_loosen(entry, definitions) for entry in node]
    if not isinstance(node, dict):
        return node
    if "part" in node:
        return {"$ref": f"#/$defs/{node['part']}"}
    if "$ref" in node:
        return _loosen(
            {**definitions[node["$ref"].rpartition("/")[2]], **_without(node, "$ref")}, definitions
        )
    return _with_stand_in(_merge(node, definitions))


def _loosen_properties(properties: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _loosen(value, definitions) for name, value in properties.items()}


def _keep(key: str, value: Keyword, definitions: Mapping[str, Any]) -> Keyword:
    """Return a keyword's value: changed where it holds schemas, as it is where it holds values."""
    if key in {"anyOf", "oneOf", "allOf", "items", "prefixItems", "additionalProperties"}:
        return _loosen(value, definitions)
    return value


def _with_stand_in(node: dict[str, Any]) -> dict[str, Any]:
    """Add the texts that may stand in for a value that is no text, or for one of a few words."""
    kind = node.get("type")
    stand_ins: list[dict[str, Any]] = []
    if isinstance(kind, str) and kind in _STAND_INS:
        stand_ins.append({"type": "string", "pattern": _STAND_INS[kind]})
    elif kind == "string" and node.keys() & {"enum", "const", "pattern", "maxLength"}:
        stand_ins.append({"type": "string", "pattern": rf"{_LATER}|{_VARIABLE}"})
        stand_ins.extend([{"type": "integer"}] if "pattern" in node or "maxLength" in node else [])
    elif kind == "string":
        stand_ins.append({"type": "integer"})
    if kind == "array" or (kind == "object" and "properties" in node):
        stand_ins.append(_elsewhere())
    return {"anyOf": [node, *stand_ins]} if stand_ins else node


def _without(node: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != key}


def _reachable(kind: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions that a kind of file needs."""
    needed: dict[str, Any] = {}
    waiting = [kind]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = definitions[name]
            waiting.extend(_references(definitions[name]))
    return dict(sorted(needed.items()))


def _references(node: Keyword) -> Iterable[str]:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
