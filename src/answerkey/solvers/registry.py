"""The solvers by type, with those that installed packages add."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from answerkey.errors import SpecError, listing, suggest
from answerkey.solvers.pass_through import PassThroughSolver
from answerkey.solvers.single_turn import SingleTurnSolver
from answerkey.solvers.solver import Solver

PLUGIN_GROUP = "answerkey.solvers"

SOLVERS: dict[str, type[Solver]] = {
    SingleTurnSolver.type: SingleTurnSolver,
    PassThroughSolver.type: PassThroughSolver,
}

#: Solvers of the hosted platform that ask more than one question for a sample.
OUTSIDE = ("multi_turn_solver", "grouped_single_turn_solver")


def find_solver(kind: str) -> type[Solver]:
    """Return the class of a solver type; SpecError E303 for one outside multiple choice, E109 if unknown."""
    if kind in SOLVERS:
        return SOLVERS[kind]
    for plugin in entry_points(group=PLUGIN_GROUP):
        if plugin.name == kind:
            return cast("type[Solver]", plugin.load())
    known = listing(SOLVERS)
    if kind in OUTSIDE:
        message = f"solver `{kind}` is outside the scope of multiple choice: one question, one answer"
        raise SpecError("E303", message, hint=f"solvers: {known}")
    raise SpecError("E109", f"unknown solver type {kind!r}", hint=suggest(kind, SOLVERS) or f"types: {known}")
