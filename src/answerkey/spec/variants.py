"""The `variants` of a task: the same task with other prompts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from answerkey.solvers.single_turn import ChatInput, GenericInput
from answerkey.spec.nodes import Node
from answerkey.spec.validation import Key, assign_keys, fields_of, validate_node

#: The variant that has the task's own prompt.
BASE = "base"
#: A task as a file has it, and which variant it is; None for a task without any.
TaskNode = tuple[Node, "Variant | None"]


@dataclass(frozen=True)
class Variant:
    """Which variant of which specification this is; both by their keys."""

    of: str
    key: str

    @property
    def job_key(self) -> str:
        """The key of the variant among the jobs."""
        return self.of if self.key == BASE else f"{self.of}-{self.key}"


@dataclass(frozen=True)
class PromptVariant:
    """Another prompt, which replaces the solver's `input_builder`."""

    key: Key
    input_builder: ChatInput | GenericInput


def split_task(
    task: Node,
    key: str,
    *,
    has_completions: bool,
) -> Iterator[TaskNode]:
    """Yield a task unchanged, and with the prompt of each of its `variants`.

    Recorded completions are answers to one prompt, so they count for the task itself only.
    """
    definition = task.field("definition")
    listed = definition.field("variants")
    bare = definition.without("variants")
    task = task.with_entry("definition", bare)
    if has_completions:
        message = "recorded completions are answers to one prompt: `variants` are left out"
        task.problems.notice(message, listed.place)
        yield task, None
        return
    yield task, Variant(key, BASE)
    solver = bare.field("solver")
    if "input_builder" not in solver.entries:
        message = "`variants` are other prompts, and the task's solver has none"
        listed.report("E108", message, "give the task a `single_turn_solver`")
        return
    base = definition.changed({"key": definition.changed(BASE)})
    entries = [(entry, "variant") for entry in (base, *listed.items)]
    assign_keys(entries, "variant", "in the task")
    for entry in listed.items:
        variant = validate_node(fields_of(PromptVariant), entry, "the variant")
        if variant is not None and entry.key is not None:
            prompt = solver.with_entry("input_builder", entry.entries["input_builder"])
            changed = bare.with_entry("solver", prompt)
            yield task.with_entry("definition", changed), Variant(key, entry.key)
