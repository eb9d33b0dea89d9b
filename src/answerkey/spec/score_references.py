"""What the filters of actions read of the scores: scorers by their keys, values by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.scorers import Action
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import ListNode, MapNode, find_node, key_of
from answerkey.spec.tasks import ScoringStep


def check_score_references(
    definition: MapNode,
    steps: Sequence[ScoringStep],
    actions: Iterable[tuple[Action, object]],
    findings: Findings,
) -> None:
    """Report filters of actions that read a scorer, or a value of one, that there is not (E113)."""
    known = {step.key: step for step in steps}
    for action, _ in actions:
        try:
            paths = action.filter.template.paths_from("scores")
        except SpecError:
            continue
        where = _find_place(definition, action.key)
        for path in sorted(paths, key=str):
            fault = _find_fault([str(step) for step in path], known)
            if fault is not None:
                findings.add("E113", f"action `{action.key}`: {fault[0]}", where, fault[1])


def _find_fault(path: Sequence[str], known: dict[str, ScoringStep]) -> tuple[str, str] | None:
    """Return what is wrong with a path from `scores`, and a hint."""
    if not path:
        return None
    step = known.get(path[0])
    if step is None:
        return f"no scorer has the key `{path[0]}`", suggest(path[0], known) or f"scorers: {listing(known)}"
    names = _name_values(step)
    if len(path) == 1 or names is None or path[1].split(".")[0] in names:
        return None
    near = suggest(path[1], names)
    return f"scorer `{step.key}` has no value `{path[1]}`", near or f"values: {listing(names)}"


def _name_values(step: ScoringStep) -> list[str] | None:
    """Return the names of a scorer's values and metadata; None when only the scores can tell."""
    values, metadata = step.scorer.value_names, step.scorer.metadata_names
    return None if values is None or metadata is None else [*values, *metadata]


def _find_place(definition: MapNode, key: str) -> Place:
    listed = definition.get("actions")
    for entry in listed.entries if isinstance(listed, ListNode) else ():
        if key_of(entry) == key:
            return find_node(entry, ("filter", "expression"))[0].place
    return definition.place
