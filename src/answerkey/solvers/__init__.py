"""Solvers turn samples into completions: by calling a model, or by reading recorded completions."""

from answerkey.solvers.choice_order import (
    UNSUITABLE,
    ChoiceOrder,
    RowOrders,
    find_reference,
    option_texts,
    plan_row,
)
from answerkey.solvers.single_turn import (
    ChatInput,
    ChoiceRankingSolver,
    Examples,
    GenericInput,
    InputMessage,
    SingleTurnSolver,
    pick_examples,
    require_echo,
)
from answerkey.solvers.solver import (
    PassThroughSolver,
    Solver,
    find_column_field,
    require_known,
)
from answerkey.types import Registry

_OWN: dict[str, type[Solver]] = {
    SingleTurnSolver.type: SingleTurnSolver,
    PassThroughSolver.type: PassThroughSolver,
    ChoiceRankingSolver.type: ChoiceRankingSolver,
}

#: The solvers by type.
SOLVERS: Registry[Solver] = Registry("answerkey.solvers", _OWN, _OWN.__getitem__)

__all__ = [
    "SOLVERS",
    "UNSUITABLE",
    "ChatInput",
    "ChoiceOrder",
    "ChoiceRankingSolver",
    "Examples",
    "GenericInput",
    "InputMessage",
    "PassThroughSolver",
    "RowOrders",
    "SingleTurnSolver",
    "Solver",
    "find_column_field",
    "find_reference",
    "option_texts",
    "pick_examples",
    "plan_row",
    "require_echo",
    "require_known",
]
