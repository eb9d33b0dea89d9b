"""`pass_through_solver`: what the model once said stands in the dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from answerkey.errors import DataError, SpecError, listing, suggest
from answerkey.models import Model, is_trace, read_message
from answerkey.solvers.solver import ONE_TRIAL, Compiled, Prompt
from answerkey.templates import RowTrouble, Template
from answerkey.types import Completion, Completions, Known, Samples


@dataclass(frozen=True)
class PassThroughSolver:
    """Reads completions from a column; asks no model.

    A cell holds a trace (an OpenAI-like object, a list of messages, or the JSON text of either) or plain
    text. JSON text that is no trace is plain text. `message_format` is accepted for the sake of existing
    files and changes nothing.
    """

    trace_column: str
    message_format: object = None

    type: ClassVar[str] = "pass_through_solver"
    needs_model: ClassVar[bool] = False

    def templates(self) -> dict[str, Template]:
        """Return nothing: there is no template."""
        return {}

    def compile_templates(self) -> Compiled:
        """Return nothing: there is no template."""
        return {}, []

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Prompt | RowTrouble]:  # noqa: ARG002 - the protocol's signature
        """Return an empty prompt for each sample: nothing is asked."""
        return [[] for _ in range(len(samples))]

    def check_rows(self, samples: Samples, examples: Samples | None) -> list[tuple[int, DataError]]:  # noqa: ARG002 - the protocol's signature
        """Return the error of a trace column that does not exist, once."""
        try:
            find_column(samples, self.trace_column)
        except DataError as error:
            return [(0, error)]
        return []

    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,  # noqa: ARG002 - the protocol's signature
        known: Known | None,  # noqa: ARG002 - same
        examples: Samples | None,  # noqa: ARG002 - same
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return what the column says, in order; there is one trial of it."""
        if len(trials) > 1:
            raise SpecError(
                "E119",
                f"`{self.type}` reads one completion for each sample, not {len(trials)} trials",
                hint="leave `trials` out, or ask a model with a `single_turn_solver`",
            )
        column, path = find_column(samples, self.trace_column)
        completions = [read_cell(_reach(cell, path)) for cell in samples.values(column)]
        return Completions.build(samples.ids, completions, source="recorded")


def read_cell(cell: object) -> Completion:
    """Return the completion of one cell: a trace, its JSON text, or plain text; null is NO_TEXT."""
    if isinstance(cell, str) and cell.lstrip()[:1] in {"{", "["}:
        parsed = _parse(cell)
        return read_message(parsed if is_trace(parsed) else cell)
    return read_message(cell)


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def find_column(samples: Samples, name: str) -> tuple[str, str]:
    """Return the column that a name means and the dotted rest that leads into its cells."""
    if name in samples.columns:
        return name, ""
    for column, rest in _splits(name):
        if column in samples.columns:
            return column, rest
    raise DataError(
        "E206",
        f"`trace_column` names `{name}`, which is not a column",
        where=samples.place(0, name) if len(samples) else None,
        hint=suggest(name, samples.columns) or f"columns: {listing(samples.columns)}",
    )


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """Yield a dotted name cut in two at each dot, the longest first part first."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        yield ".".join(parts[:count]), ".".join(parts[count:])


def _reach(cell: object, path: str) -> object:
    """Return what a dotted path leads to; None where it leads nowhere."""
    if not path:
        return cell
    if not isinstance(cell, Mapping):
        return None
    if path in cell:
        return cell[path]
    found = next(((cell[first], rest) for first, rest in _splits(path) if first in cell), None)
    return None if found is None else _reach(*found)
