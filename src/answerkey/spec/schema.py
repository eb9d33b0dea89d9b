"""JSON Schema of the files, for editors, built from the models of the loader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from answerkey import features
from answerkey.solvers.choice_order import ChoiceOrder
from answerkey.spec import actions, models, run_file, shapes, trials
from answerkey.spec.nodes import Json
from answerkey.spec.parameters import PARAMETERS
from answerkey.spec.sources import SOURCE
from answerkey.spec.task import (
    METRIC,
    SCORER,
    SOLVER,
)
from answerkey.spec.validation import Part, fields_of
from answerkey.spec.variants import PromptVariant
from answerkey.templates import RowFilter

FileKind = Literal["task", "run", "dataset", "model"]
_LATER = r"<<\s*(config|secrets)\.[^<>]+>>"
_VARIABLE = r"^\$[A-Za-z_{]\S*$"
_WHOLE = r"(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)"
_TRUTH = "|".join(
    "".join(f"[{letter.upper()}{letter}]" for letter in word)
    for word in ("yes", "no", "on", "off", "true", "false", "y", "n", "t", "f")
)

#: The names that pydantic gives to the bounds of a number which a function parses first.
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}

#: Texts that the loader reads as something else: config and environment values, and words for true
#: and false.
_STAND_INS: dict[str, str] = {
    "integer": rf"{_LATER}|{_VARIABLE}|^\s*[-+]?({_WHOLE}(\.0+)?)\s*$",
    "number": rf"{_LATER}|{_VARIABLE}|^\s*[-+]?({_WHOLE}|[0-9._]+([eE][-+]?[0-9]+)?)\s*$",
    "boolean": rf"{_LATER}|{_VARIABLE}|^({_TRUTH}|0|1)$",
    "array": _LATER,
    "object": _LATER,
}


#: A node that is completed by another file.
_ELSEWHERE = {
    "type": "object",
    "properties": {"$ref": {"type": "string"}},
    "required": ["$ref"],
}


def schema(kind: FileKind) -> Json:
    """Return the JSON Schema (2020-12) of one kind of file."""
    parts = _list_parts()
    models = {model for part in parts.values() for model in part}
    inputs: list[Any] = [(model, "validation") for model in sorted(models, key=str)]
    references, generated = models_json_schema(inputs, by_alias=True)
    definitions = _accept_stand_ins(generated["$defs"])
    for name, part in parts.items():
        options = [references[model, "validation"] for model in part]
        definitions[name] = {"anyOf": [*options, _ELSEWHERE]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"answerkey {kind} file",
        "$ref": f"#/$defs/{kind}",
        "$defs": definitions,
    }


@cache
def write_schema(kind: FileKind) -> str:
    """Return the JSON Schema of one kind of file as a project keeps it; made once in a process."""
    return json.dumps(schema(kind), indent=1) + "\n"


@cache
def _list_parts() -> Mapping[str, list[type[BaseModel]]]:
    """Return the possible models of each part."""

    def list_kinds(part: Part) -> list[type[BaseModel]]:
        return [part.model(kind) for kind in part.registry]

    gates = features.load_gates()
    return {
        "task": [shapes.TaskFields],
        "run": [run_file.RunFields],
        "dataset": [shapes.DatasetFields],
        "model": [models.ModelFields, models.ProviderModel],
        "definition": [shapes.Definition],
        "scorer": list_kinds(SCORER),
        "metric": list_kinds(METRIC),
        "solver": list_kinds(SOLVER),
        "source": list_kinds(SOURCE),
        "parameter": list(dict.fromkeys(PARAMETERS.values())),
        "filter": [fields_of(RowFilter)],
        "action": [actions.ActionFields],
        "connection": list(models.CONNECTIONS.values()),
        "adapter": [models.AdapterFields],
        "evaluation": [run_file.EvaluationFields],
        "specification": [run_file.SpecificationFields],
        "run_config": [run_file.RunConfigFields],
        "trials": [trials.TrialsFields],
        "choice_order": [fields_of(ChoiceOrder)],
        "variant": [fields_of(PromptVariant)],
        "policy": [gates.PolicyFields],
        "rule": [gates.RuleFields],
        "rule_definition": list_kinds(gates.RULE),
    }


def _accept_stand_ins(node: Any) -> Any:  # noqa: ANN401 - any piece of a JSON Schema
    """Return a schema that also accepts what the loader converts to the required value."""
    if isinstance(node, list):
        return [_accept_stand_ins(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if "part" in node:
        return {"$ref": f"#/$defs/{node['part']}"}
    loosened: Json = {}
    for key, value in node.items():
        loosened[_BOUNDS.get(str(key), str(key))] = _accept_stand_ins(value)
    stand_ins = _list_stand_ins(loosened)
    return {"anyOf": [loosened, *stand_ins]} if stand_ins else loosened


def _list_stand_ins(node: Json) -> list[Json]:
    """Return the texts that the loader accepts in place of a value."""
    kind = node.get("type")
    later = {"type": "string", "pattern": rf"{_LATER}|{_VARIABLE}"}
    if kind == "string" and node.keys() & {"enum", "const"}:
        return [later]
    if kind == "string":
        return [later, {"type": "integer"}]
    stand_ins: list[Json] = []
    if isinstance(kind, str) and kind in _STAND_INS:
        stand_ins.append({"type": "string", "pattern": _STAND_INS[kind]})
    if kind == "array" or (kind == "object" and "properties" in node):
        stand_ins.append(_ELSEWHERE)
    return stand_ins
