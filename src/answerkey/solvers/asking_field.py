"""Which field of a solver asks for a column that does not exist."""

from __future__ import annotations

import re

from answerkey.errors import DataError
from answerkey.solvers.solver import Solver

#: How the checks of settings begin: "`trace_column` names `x`, which is not a column".
_SETTING = re.compile(r"`([a-z_.]+)` names ")


def find_asking_field(solver: Solver | None, error: DataError) -> tuple[str | int, ...]:
    """Return the way to the field that a missing column (E206) is asked for in; empty when none is known."""
    setting = _SETTING.match(error.message)
    if setting:
        return _split(setting[1])
    column = error.where.field if error.where else None
    if solver is None or column is None:
        return ()
    compiled = solver.compile_templates()[0]
    readers = [name for name, template in compiled.items() if column in (template.columns or ())]
    # What is read of the examples, or of the row as a whole, is known by its text only.
    mentions = [name for name, template in compiled.items() if column in str(template.source)]
    return _split((readers or mentions or [""])[0])


def _split(name: str) -> tuple[str | int, ...]:
    return tuple(int(step) if step.isdigit() else step for step in name.split(".") if step)
