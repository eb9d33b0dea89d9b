"""How each template of a task will be evaluated on its dataset: what `check --plan` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from answerkey.scorers import AskingScorer
from answerkey.solvers import SingleTurnSolver
from answerkey.spec import Specification, Task
from answerkey.templates import ACTION_NAMES, Plan, Template
from answerkey.types import Samples


@dataclass(frozen=True)
class PlannedTemplate:
    """A template by the name of its field, and how it will be evaluated."""

    field: str
    template: Template
    plan: Plan

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that it reads; None: any."""
        columns = self.template.columns
        return None if columns is None else tuple(sorted(columns))


def plan_templates(specification: Specification, samples: Samples) -> tuple[PlannedTemplate, ...]:
    """Return the filters of a dataset and every template of its task, in the order in which they are used.

    `samples` are any rows of the dataset: only their columns matter.
    """
    return (*_plan_filters(specification, samples), *_plan_task(specification.task, samples))


def _plan_filters(specification: Specification, samples: Samples) -> Iterator[PlannedTemplate]:
    dataset = specification.dataset
    for position, one in enumerate(dataset.source.filters):
        name = f"dataset {dataset.key}.filters.{position}.expression"
        yield PlannedTemplate(name, one.row_template, one.row_template.plan(samples))


def _plan_task(task: Task, samples: Samples) -> Iterator[PlannedTemplate]:
    judges = {step.key for step in task.scoring if isinstance(step.scorer, AskingScorer)}
    for name, template in task.templates():
        if name.startswith("solver."):
            plan = _plan_prompt(task, template, samples)
        elif name.rpartition(".")[0] in judges:
            plan = _leave_to_rows(template, samples, "the prompt is written with the completion of each row")
        else:
            plan = template.plan(samples, later=ACTION_NAMES)
        yield PlannedTemplate(name, template, plan)


def _plan_prompt(task: Task, template: Template, samples: Samples) -> Plan:
    if isinstance(task.solver, SingleTurnSolver) and task.solver.examples is not None:
        return _leave_to_rows(template, samples, "the prompt is written with the examples of each row")
    return template.plan(samples, as_text=True)


def _leave_to_rows(template: Template, samples: Samples, why: str) -> Plan:
    plan = template.plan(samples, as_text=True)
    return plan if plan.kind == "constant" else Plan("rows", plan.reads, why)
