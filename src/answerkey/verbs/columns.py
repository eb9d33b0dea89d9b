"""Which columns of a dataset a task reads, so that no others are loaded."""

from __future__ import annotations

from collections.abc import Iterable

from answerkey.datasets import Dataset, Recorded
from answerkey.errors import DataError
from answerkey.metrics import find_category_column
from answerkey.scorers import ChoiceProbabilities, Scorer, StringEquals, StringEqualsMcqa, compile_templates
from answerkey.solvers import ChoiceRankingSolver, PassThroughSolver, SingleTurnSolver, Solver, find_column
from answerkey.spec import Task
from answerkey.templates import Template

#: Scorers that read of a sample what their templates name; others may look at any column.
BY_TEMPLATE = (StringEquals, StringEqualsMcqa, ChoiceProbabilities)
Columns = frozenset[str] | None


def list_checked_columns(task: Task, dataset: Dataset, recorded: Recorded | None) -> Columns:
    """Return the columns that checking the rows reads; None for all."""
    found = [_list_scorer_columns(step.scorer) for step in task.scoring]
    found.append(task.choice_order.columns if task.choice_order else frozenset())
    if recorded is None and task.solver is not None:
        found.append(list_solver_columns(task.solver, dataset))
    return _gather(found, dataset)


def list_columns(task: Task, dataset: Dataset, recorded: Recorded | None) -> Columns:
    """Return the columns that a task reads on its way to the metrics; None for all."""
    category = find_category_column(dataset.columns)
    found = [
        list_checked_columns(task, dataset, recorded),
        *(action.filter.template.columns for action in task.actions),
        frozenset(task.design_columns),
        frozenset({category} if category else ()),
        frozenset() if recorded is None else recorded.columns,
    ]
    return _gather(found, dataset)


def _gather(found: Iterable[Columns], dataset: Dataset) -> Columns:
    """Return all of them; None where one may be any, or does not exist: the error names those that do."""
    columns: frozenset[str] = frozenset()
    for one in found:
        if one is None:
            return None
        columns |= one
    return columns if columns <= set(dataset.columns) else None


def _list_scorer_columns(scorer: Scorer) -> Columns:
    if type(scorer) not in BY_TEMPLATE:
        return None
    return _list_template_columns(compile_templates(scorer)[0].values())


def list_solver_columns(solver: Solver, dataset: Dataset) -> Columns:
    """Return the columns that a solver reads; None for all."""
    if isinstance(solver, PassThroughSolver):
        try:
            return frozenset({find_column(dataset.rows.slice(0, 0).load(), solver.trace_column)[0]})
        except DataError:
            return None
    if isinstance(solver, SingleTurnSolver | ChoiceRankingSolver) and solver.examples is None:
        return _list_template_columns(solver.compile_templates()[0].values())
    return None


def _list_template_columns(templates: Iterable[Template]) -> Columns:
    columns: frozenset[str] = frozenset()
    for one in templates:
        if one.columns is None:
            return None
        columns |= one.columns
    return columns
