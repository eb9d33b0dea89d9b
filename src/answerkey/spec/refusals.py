"""What the formats name and this release does not do: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

from answerkey.errors import SpecError, listing, suggest
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, ScalarNode

_TRACES = "export the traces as JSONL and name the file: `type: local`"
_ROWS = "questions are not made here: generate the rows first, and name the file"

#: Types of the original platform that are not done here, by the part of a file, and what to do instead.
FOREIGN_TYPES: dict[str, dict[str, str]] = {
    "source": {
        "inspect_ai": "`answerkey import inspect FILE` makes a dataset and completions of a log",
        "langsmith": _TRACES,
        "phoenix": _TRACES,
        "claude_code": _TRACES,
        "opencode": _TRACES,
    },
    "scorer": {
        "model_as_a_judge_classifier": "a judge answers with a number here: `model_as_a_judge_scorer`",
        "labeler_via_model": "a judge answers with a number here: `model_as_a_judge_scorer`",
        "python_all_samples": "a score depends on its own sample alone: compute over all of them in a"
        " `python` metric",
        "bleu": "multiple choice has one right answer: write another rule as a `python` scorer",
        "rag_checker": "there are no retrieved passages in multiple choice: write a `python` scorer",
        "function_call_coverage": "there are no function calls in multiple choice: write a `python` scorer",
    },
}

#: Keys of the original platform that have no place here, wherever they stand, and what to do instead.
FOREIGN_KEYS: dict[str, str] = {
    "dataset_generators": _ROWS,
    "generator_specification": _ROWS,
    "apps": "there are no apps here: leave it out",
    "app": "there are no apps here: leave it out",
    "integrations": "keys of providers come from the environment: leave it out",
    "postprocessor": "the scorer reads the completion as it is: use `extraction`, or a `python` scorer",
    "secrets": "secrets stand at the top of the run file, beside `models`",
}

#: Solvers of the original platform that ask more than one question for a sample.
OUTSIDE_SOLVERS = frozenset({"multi_turn_solver", "grouped_single_turn_solver", "python", "generate_loop"})

_INSTEAD = {"scorer": "for a rule of your own use a `python` scorer"}


def choose_type(node: Node, part: str, registry: Mapping[str, type], findings: Findings) -> type | None:
    """Return the class that a part's `type` names; report a missing, unknown or foreign one."""
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
    if name in FOREIGN_TYPES.get(part, ()):
        message = f"{part} type `{name}` of the original platform is not done"
        hint = f"{FOREIGN_TYPES[part][name]}; {supported}"
        return SpecError("E116", message, where=node.place, hint=hint)
    if part == "solver" and name in OUTSIDE_SOLVERS:
        message = f"solver type `{name}` is outside the scope of multiple choice"
        return SpecError("E303", message, where=node.place, hint=supported)
    near = suggest(name, registry)
    hint = f"{near} {supported}" if near else "; ".join(filter(None, [supported, _INSTEAD.get(part)]))
    return SpecError("E109", f"unknown {part} type {name!r}", where=node.place, hint=hint)
