"""What the user wrote: YAML files become tasks and plans, with every mistake at its line and column."""

from answerkey.spec.findings import sort_errors
from answerkey.spec.judges import load_judges
from answerkey.spec.loading import (
    hold_policies,
    is_task_file,
    load_model,
    load_plan,
    load_policies,
    load_task,
)
from answerkey.spec.plans import Loaded, Overrides, Plan, Specification, Variant
from answerkey.spec.policies import Policy, Rule, name_baseline
from answerkey.spec.policy_building import policies_from_source
from answerkey.spec.ready_made import find_ready_made, list_ready_made, load_ready_made
from answerkey.spec.schema import schema
from answerkey.spec.sources import DatasetSpec, source_from
from answerkey.spec.task_building import task_from_source
from answerkey.spec.tasks import ScoringStep, Task

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
    "Variant",
    "find_ready_made",
    "hold_policies",
    "is_task_file",
    "list_ready_made",
    "load_judges",
    "load_model",
    "load_plan",
    "load_policies",
    "load_ready_made",
    "load_task",
    "name_baseline",
    "policies_from_source",
    "schema",
    "sort_errors",
    "source_from",
    "task_from_source",
]
