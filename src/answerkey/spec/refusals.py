"""What the formats name and this release does not do: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

from answerkey.errors import SpecError, listing, suggest
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, ScalarNode

#: Types of the original platform that are not read, and what to do instead.
LATER_TYPES: dict[str, dict[str, str]] = {
    "source": {
        "inspect_ai": "`answerkey import inspect FILE` makes a dataset and completions of a log",
        "langsmith": "export the traces as JSONL and name the file: `type: local`",
        "phoenix": "export the traces as JSONL and name the file: `type: local`",
        "claude_code": "export the traces as JSONL and name the file: `type: local`",
        "opencode": "export the traces as JSONL and name the file: `type: local`",
    },
}

#: Keys of the original platform that have no place here, by the part of a file they stand in.
FOREIGN_KEYS: dict[str, dict[str, str]] = {
    "run": {
        "dataset_generators": "questions are not made here: generate the rows first, and name the file",
        "apps": "there are no apps here",
        "app": "there are no apps here",
        "integrations": "keys of providers come from the environment",
    },
    "dataset": {
        "generator_specification": "questions are not made here: generate the rows first, and name the file",
    },
    "solver": {
        "postprocessor": "the scorer reads the completion as it is: use `extraction`, or a `python` scorer",
    },
}

#: Types of the original platform that have no place in multiple choice.
FOREIGN_TYPES: dict[str, frozenset[str]] = {
    "scorer": frozenset(
        {
            "bleu",
            "rouge",
            "meteor",
            "bertscore",
            "levenshtein",
            "regex",
            "contains",
            "json_schema",
            "embedding_similarity",
            "rag_checker",
            "toxicity",
            "pii",
            "prompt_injection",
            "model_scorer",
            "model_as_a_judge_classifier",
            "labeler_via_model",
            "tool_calls",
            "sql_equals",
        }
    ),
    "solver": frozenset({"multi_turn_solver", "grouped_single_turn_solver", "python", "generate_loop"}),
}

_INSTEAD = {"scorer": "for a rule of your own use a `python` scorer"}


def refuse_foreign_keys(node: Node, part: str, findings: Findings) -> Node:
    """Return a part of a file without the keys that only the original platform has; each is reported."""
    if not isinstance(node, MapNode):
        return node
    present = [key for key in FOREIGN_KEYS[part] if key in node.entries]
    for key in present:
        message = f"`{key}` of the original platform is not done"
        findings.add("E116", message, node.key_place(key), FOREIGN_KEYS[part][key])
    return node.without(*present) if present else node


def choose_type(node: Node, part: str, registry: Mapping[str, type], findings: Findings) -> type | None:
    """Return the class that a part's `type` names; report a missing, unknown, later or foreign one."""
    label = f"`{part}`" if part != "source" else "dataset `source`"
    if not isinstance(node, MapNode):
        findings.add(
            "E108", f"{label} must be a mapping with a `type`", node.place, f"types: {listing(registry)}"
        )
        return None
    kind = node.get("type")
    if kind is None and node.is_broken:
        return None
    if kind is None:
        findings.add("E108", f"`type` is missing in {label}", node.place, f"types: {listing(registry)}")
        return None
    name = kind.value if isinstance(kind, ScalarNode) else None
    if isinstance(name, str) and name in registry:
        return registry[name]
    findings.report(_refuse_type(part, str(name), kind, registry))
    return None


def _refuse_type(part: str, name: str, node: Node, registry: Mapping[str, type]) -> SpecError:
    supported = f"supported: {listing(sorted(registry))}"
    if name in LATER_TYPES.get(part, ()):
        hint = f"{LATER_TYPES[part][name]}; {supported}"
        return SpecError("E116", f"{part} type `{name}` is not read", where=node.place, hint=hint)
    if name in FOREIGN_TYPES.get(part, ()) and part == "solver":
        message = f"solver type `{name}` is outside the scope of multiple choice"
        return SpecError("E303", message, where=node.place, hint=supported)
    if name in FOREIGN_TYPES.get(part, ()):
        message = f"{part} type `{name}` of the original platform is not supported"
        return SpecError("E109", message, where=node.place, hint=f"{supported}; {_INSTEAD[part]}")
    near = suggest(name, registry)
    hint = f"{near} {supported}" if near else supported
    return SpecError("E109", f"unknown {part} type {name!r}", where=node.place, hint=hint)
