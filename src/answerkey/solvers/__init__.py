"""Samples become completions: by asking a model, or by reading what it once said."""

from answerkey.solvers.asking import require_known
from answerkey.solvers.asking_field import find_asking_field
from answerkey.solvers.choice_order import (
    MOST_ORDERS,
    UNSUITABLE,
    ChoiceOrder,
    Pride,
    RowOrders,
    plan_row,
    tell_options,
)
from answerkey.solvers.choice_ranking import ChoiceRankingSolver, require_echo
from answerkey.solvers.examples import Examples, pick_examples
from answerkey.solvers.inputs import ChatInput, GenericInput, InputMessage
from answerkey.solvers.pass_through import PassThroughSolver
from answerkey.solvers.registry import SOLVERS
from answerkey.solvers.single_turn import SingleTurnSolver
from answerkey.solvers.solver import Solver, build_prompts, compile_templates

__all__ = [
    "MOST_ORDERS",
    "SOLVERS",
    "UNSUITABLE",
    "ChatInput",
    "ChoiceOrder",
    "ChoiceRankingSolver",
    "Examples",
    "GenericInput",
    "InputMessage",
    "PassThroughSolver",
    "Pride",
    "RowOrders",
    "SingleTurnSolver",
    "Solver",
    "build_prompts",
    "compile_templates",
    "find_asking_field",
    "pick_examples",
    "plan_row",
    "require_echo",
    "require_known",
    "tell_options",
]
