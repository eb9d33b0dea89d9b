"""YAML files become tasks and jobs; every mistake is shown at its line and column."""

from answerkey.options import Options
from answerkey.spec.job import Job, Plan, ScoringStep, Task
from answerkey.spec.nodes import sort_errors
from answerkey.spec.plan import (
    load_dataset,
    load_judges,
    load_model,
    load_plan,
    load_task,
)
from answerkey.spec.project import find_ready_made
from answerkey.spec.sources import (
    DatasetSpec,
    is_data_file,
    source_from,
)
from answerkey.spec.task import task_from_source

__all__ = [
    "DatasetSpec",
    "Job",
    "Options",
    "Plan",
    "ScoringStep",
    "Task",
    "find_ready_made",
    "is_data_file",
    "load_dataset",
    "load_judges",
    "load_model",
    "load_plan",
    "load_task",
    "sort_errors",
    "source_from",
    "task_from_source",
]
