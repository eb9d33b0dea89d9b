"""Solvers turn samples into completions: by calling a model, or by reading recorded completions.

Modules other than `solver` are imported when a task names one of their solvers, or `choice_order`.
"""

from answerkey.solvers.solver import (
    PassThroughSolver,
    Solver,
    find_column_field,
    require_known,
)
from answerkey.types import Registry

__all__ = [
    "SOLVERS",
    "PassThroughSolver",
    "Solver",
    "find_column_field",
    "require_known",
]

_OWN = ("single_turn_solver", "pass_through_solver", "choice_ranking_solver")


def _load_solver(name: str) -> type[Solver]:
    if name == PassThroughSolver.type:
        return PassThroughSolver
    from answerkey.solvers.single_turn import ChoiceRankingSolver, SingleTurnSolver

    return SingleTurnSolver if name == SingleTurnSolver.type else ChoiceRankingSolver


#: The solvers by type.
SOLVERS: Registry[Solver] = Registry("answerkey.solvers", _OWN, _load_solver)
