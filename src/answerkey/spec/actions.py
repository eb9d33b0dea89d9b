"""The `actions` of a task, which are applied to samples after scoring."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from answerkey.errors import SpecError
from answerkey.scorers import Action
from answerkey.spec.job import Scoring
from answerkey.spec.nodes import Json, Node, advise
from answerkey.spec.shapes import part
from answerkey.spec.sources import build_filter, describe_filter
from answerkey.spec.validation import Fields, Key, assign_keys, validate_node
from answerkey.templates import ACTION_NAMES


class ActionFields(Fields):
    """What happens to samples after scoring."""

    key: Key
    action: Literal["exclude_from_metrics"] = "exclude_from_metrics"
    filter: Annotated[Any, part("filter")]


def build_actions(node: Node, steps: Scoring) -> list[Action]:
    """Return the actions of a task, without those that have mistakes."""
    actions = []
    entries = []
    for number, entry in enumerate(node.items, start=1):
        fields = validate_node(ActionFields, entry, f"action {number}")
        condition = None
        if "filter" in entry.entries:
            condition = build_filter(entry.entries["filter"], ACTION_NAMES)
        if fields is not None and condition is not None:
            action = Action(
                key=fields.key,
                filter=condition,
                action=fields.action,
            )
            _check_action(action, entry.at("filter", "expression"), steps)
            actions.append(action)
            entries.append((entry, fields.key))
    assign_keys(entries, "action", "in the task")
    return actions


def describe_action(action: Action) -> Json:
    """Return an action as a file states it."""
    return {
        "key": action.key,
        "action": action.action,
        "filter": describe_filter(action.filter),
    }


def _check_action(action: Action, node: Node, steps: Scoring) -> None:
    """Report a filter that reads a scorer or a value that does not exist (E113)."""
    scorers = {step.key: step for step in steps}
    try:
        paths = action.filter.template.paths_from("scores")
    except SpecError:
        return
    for path in filter(None, sorted(paths, key=str)):
        key, *inner = map(str, path)
        if key not in scorers:
            if not node.problems.errors:
                message = f"action `{action.key}`: no scorer has the key `{key}`"
                node.report("E113", message, advise(key, scorers, "scorers"))
            continue
        names = scorers[key].list_names()
        if not inner or names is None:
            continue
        value = inner[0]
        if value.split(".")[0] not in names:
            message = f"action `{action.key}`: scorer `{key}` has no value `{value}`"
            node.report("E113", message, advise(value, names, "values"))
