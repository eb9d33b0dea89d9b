"""What the user wrote: YAML files become tasks and plans, with every mistake at its line and column."""

from answerkey.spec.loading import load_plan, load_task
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
    "load_plan",
    "load_task",
    "schema",
    "source_from",
    "task_from_source",
]
