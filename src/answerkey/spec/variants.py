"""`variants`: the same task with other prompts, each run on the same samples as its own specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from answerkey.solvers import ChatInput, GenericInput
from answerkey.spec.definitions import Definitions
from answerkey.spec.evaluations import Wish
from answerkey.spec.fields import Fields, extend_fields, fields_of
from answerkey.spec.keys import assign_keys
from answerkey.spec.nodes import MapNode, Node, is_null, key_of, list_entries
from answerkey.spec.parameters import Key
from answerkey.spec.plans import BASE, Variant
from answerkey.spec.validation import validate_node


@dataclass(frozen=True)
class PromptVariant:
    """Another prompt: what stands in place of the solver's `input_builder`."""

    key: str
    input_builder: ChatInput | GenericInput


@cache
def variant_model() -> type[Fields]:
    """Return the model of a variant's YAML."""
    return extend_fields(fields_of(PromptVariant), "VariantFields", Fields, key=(Key, ...))


def spread_wishes(wishes: Sequence[Wish], known: Definitions) -> list[Wish]:
    """Return the wishes with one more for each variant of a task's prompt.

    Recorded completions are answers to one prompt: they are taken for those of the task itself.
    """
    return [one for wish in wishes for one in _spread(wish, known)]


def _spread(wish: Wish, known: Definitions) -> Iterator[Wish]:
    definition = wish.node.get("definition")
    listed = definition.get("variants") if isinstance(definition, MapNode) else None
    if not isinstance(definition, MapNode) or listed is None or is_null(listed):
        yield wish
        return
    bare = definition.without("variants")
    name = wish.key or wish.task_key
    base = replace(wish, node=wish.node.having("definition", bare))
    if (known.overrides.completions or wish.completions) is not None:
        message = "recorded completions are answers to one prompt: `variants` are left out"
        known.findings.notice(message, listed.place)
        yield base
        return
    yield replace(base, variant=Variant(name, BASE))
    yield from _list_variants(base, definition, name, known)


def _list_variants(base: Wish, definition: MapNode, name: str, known: Definitions) -> Iterator[Wish]:
    bare, solver = definition.without("variants"), definition.get("solver")
    entries = list_entries(definition, "variants")
    if not isinstance(solver, MapNode) or solver.get("input_builder") is None:
        where = definition.entries["variants"].place
        hint = "give the task a `single_turn_solver`"
        known.findings.add(
            "E108", "`variants` are other prompts, and the task's solver has none", where, hint
        )
        return
    wanted = [(BASE, BASE, definition.place), *((key_of(entry), "variant", entry.place) for entry in entries)]
    assign_keys(wanted, known.findings, what="variant", within="in the task")
    for entry in entries:
        fields = validate_node(variant_model(), entry, known.findings, name="the variant")
        key, builder = key_of(entry), _take_builder(entry)
        if fields is None or key is None or builder is None:
            continue
        node = base.node.having("definition", bare.having("solver", solver.having("input_builder", builder)))
        yield replace(base, node=node, key=f"{name}-{key}", variant=Variant(name, key))


def _take_builder(entry: Node) -> Node | None:
    return entry.get("input_builder") if isinstance(entry, MapNode) else None
