"""Whether the dataset has the columns by which metrics group and cluster samples."""

from __future__ import annotations

from collections.abc import Iterator

from answerkey.datasets import Dataset
from answerkey.errors import AnswerkeyError, DataError, Place, listing, suggest
from answerkey.metrics import Design
from answerkey.spec import Task


def find_missing_design(task: Task, dataset: Dataset) -> list[AnswerkeyError]:
    """Return an error for each `group_by` and `cluster_by` that names no column, where the task says it."""
    found: dict[str, AnswerkeyError] = {}
    for step in task.scoring:
        for number, one in enumerate(step.metrics):
            for field, column in _list_fields(one.design):
                if column not in dataset.columns:
                    where = _find_place(task, ("scorers", step.index, "metrics", number), field)
                    error = _miss(field, column, dataset, where)
                    found.setdefault(str(error), error)
    return list(found.values())


def _list_fields(design: Design) -> Iterator[tuple[str, str]]:
    yield from (("group_by", column) for column in design.group_by)
    if design.cluster_by is not None:
        yield "cluster_by", design.cluster_by


def _find_place(task: Task, metric: tuple[str | int, ...], field: str) -> Place:
    """Return where a metric says it, or the task for all of them."""
    own, above = task.place("definition", *metric, field), task.place("definition", *metric)
    return task.place("definition", field) if own == above else own


def _miss(field: str, column: str, dataset: Dataset, where: Place) -> DataError:
    message = f"`{field}` names the column `{column}`: dataset `{dataset.name}` has none such"
    hint = suggest(column, dataset.columns) or f"columns: {listing(dataset.columns)}"
    return DataError("E206", message, where=where, hint=hint)
