"""The solvers by type."""

from __future__ import annotations

from answerkey.solvers.choice_ranking import ChoiceRankingSolver
from answerkey.solvers.pass_through import PassThroughSolver
from answerkey.solvers.single_turn import SingleTurnSolver
from answerkey.solvers.solver import Solver
from answerkey.types import Registry

_OWN: tuple[type[Solver], ...] = (SingleTurnSolver, PassThroughSolver, ChoiceRankingSolver)

SOLVERS: Registry[Solver] = Registry("answerkey.solvers", {solver.type: solver for solver in _OWN})
