"""What the formats name and this release does not do: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

from answerkey.errors import SpecError, listing, suggest
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, ScalarNode

#: Types of the original platform that a later release reads.
LATER_TYPES: dict[str, frozenset[str]] = {
    "source": frozenset({"url", "huggingface", "folder", "inspect_ai"}),
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
            "tool_calls",
            "sql_equals",
        }
    ),
    "solver": frozenset({"multi_turn_solver", "grouped_single_turn_solver"}),
}

_INSTEAD = {
    "source": "download the data and name the file: `type: local`, `file_path: …`",
    "scorer": "for a rule of your own use a `python` scorer",
}


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
        hint = "; ".join(filter(None, [_INSTEAD.get(part), supported]))
        return SpecError("E116", f"{part} type `{name}` is not in this release", where=node.place, hint=hint)
    if name in FOREIGN_TYPES.get(part, ()) and part == "solver":
        message = f"solver type `{name}` is outside the scope of multiple choice"
        return SpecError("E303", message, where=node.place, hint=supported)
    if name in FOREIGN_TYPES.get(part, ()):
        message = f"{part} type `{name}` of the original platform is not supported"
        return SpecError("E109", message, where=node.place, hint=f"{supported}; {_INSTEAD[part]}")
    near = suggest(name, registry)
    hint = f"{near} {supported}" if near else supported
    return SpecError("E109", f"unknown {part} type {name!r}", where=node.place, hint=hint)
