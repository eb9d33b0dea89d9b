"""What the user wrote: YAML files become tasks and plans, with every mistake at its line and column."""

from answerkey.spec.findings import sort_errors
from answerkey.spec.judges import load_judges
from answerkey.spec.loading import is_task_file, load_model, load_plan, load_task
from answerkey.spec.plans import Loaded, Overrides, Plan, Specification
from answerkey.spec.schema import schema
from answerkey.spec.sources import DatasetSpec, source_from
from answerkey.spec.task_building import task_from_source
from answerkey.spec.tasks import KeyedMetric, ScoringStep, Task

__all__ = [
    "DatasetSpec",
    "KeyedMetric",
    "Loaded",
    "Overrides",
    "Plan",
    "ScoringStep",
    "Specification",
    "Task",
    "is_task_file",
    "load_judges",
    "load_model",
    "load_plan",
    "load_task",
    "schema",
    "sort_errors",
    "source_from",
    "task_from_source",
]
