"""What the user wrote: YAML files become tasks and plans, with every mistake at its line and column."""

from answerkey.spec.nodes import sort_errors
from answerkey.spec.plan import (
    Plan,
    Specification,
    is_task_file,
    load_judges,
    load_model,
    load_plan,
    load_task,
)
from answerkey.spec.policies import (
    Policy,
    Rule,
    hold_policies,
    load_policies,
    name_baseline,
    policies_from_source,
)
from answerkey.spec.project import Loaded, Overrides
from answerkey.spec.ready_made import find_ready_made
from answerkey.spec.schema import schema
from answerkey.spec.sources import DatasetSpec, source_from
from answerkey.spec.task import ScoringStep, Task, task_from_source

__all__ = [
    "DatasetSpec",
    "Loaded",
    "Overrides",
    "Plan",
    "Policy",
    "Rule",
    "ScoringStep",
    "Specification",
    "Task",
    "find_ready_made",
    "hold_policies",
    "is_task_file",
    "load_judges",
    "load_model",
    "load_plan",
    "load_policies",
    "load_task",
    "name_baseline",
    "policies_from_source",
    "schema",
    "sort_errors",
    "source_from",
    "task_from_source",
]
