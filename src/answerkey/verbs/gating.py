"""Gates: the rules of a run's policies, decided when the run is complete, or later by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from answerkey.datasets import name_lasting
from answerkey.errors import AnswerkeyError, listing, raise_all
from answerkey.evaluate import Options
from answerkey.runs import NOT_COMPLETE, Run, RunPlace, describe_gates, leave_open
from answerkey.spec import (
    Policy,
    Rule,
    Task,
    hold_policies,
    load_policies,
    name_baseline,
    policies_from_source,
    task_from_source,
)
from answerkey.spec.policies import list_rules
from answerkey.types import Gate, GateStatus, Notice, find_worst_status
from answerkey.verbs.baseline_rule import find_baseline_error
from answerkey.verbs.gate_rules import check_rule

Stated = str | Path | Mapping[str, object] | Sequence[object]


def decide_gates(run: Run, policies: Sequence[Policy]) -> tuple[Gate, ...]:
    """Return how every rule stands; nothing is decided of a run that is not complete."""
    return tuple(_decide(run, policy, rule) for policy, rule in list_rules(policies))


def _decide(run: Run, policy: Policy, rule: Rule) -> Gate:
    blank = leave_open(policy.key, rule.describe(), NOT_COMPLETE)
    keys = rule.scope.pick(list(run.tasks))
    if not rule.scope.covers(run.key) or (run.tasks and not keys):
        return replace(blank, status=GateStatus.SKIPPED, note=_say_scope(rule, run))
    if run.status != "complete":
        return blank
    checks = tuple(check_rule(rule.definition, run, keys))
    status = find_worst_status(check.status for check in checks)
    if status is None:
        return replace(blank, status=GateStatus.FAIL, note="no task in its scope has such a value")
    return replace(blank, status=status, checks=checks, note=None)


def _say_scope(rule: Rule, run: Run) -> str:
    if not rule.scope.covers(run.key):
        return (
            f"it is for the evaluation {listing(rule.scope.evaluation_keys or ())}, and this is `{run.key}`"
        )
    return f"it is for other tasks: {listing(rule.scope.task_specification_keys or ())}"


def conclude_gates(run: Run) -> dict[str, Any]:
    """Return the entry `gates` for the `run.json` of a run that has policies, and ends."""
    return {"gates": describe_gates(decide_gates(run, policies_from_source(run.manifest["policies"])))}


def describe_policies(policies: Sequence[Policy]) -> dict[str, Any]:
    """Return the entry `policies` for `run.json`; nothing without any."""
    return {"policies": [policy.describe() for policy in policies]} if policies else {}


def list_baseline_errors(policies: Sequence[Policy], evaluation: str) -> list[AnswerkeyError]:
    """Return what is wrong with the baselines that rules for an evaluation name."""
    rules = [rule for _, rule in list_rules(policies) if rule.scope.covers(evaluation)]
    return [error for rule in rules if (error := find_baseline_error(rule)) is not None]


def take_policies(
    tasks: Mapping[str, Task], evaluation: str, options: Options, *, stored: Sequence[object] = ()
) -> tuple[tuple[Policy, ...], list[Notice]]:
    """Return the policies that the caller gives, else the stored ones, for tasks that are loaded already.

    Everything that is wrong with them is raised at once; a stored baseline that is gone leaves its rule open.
    """
    if options.policies is None:
        policies = policies_from_source(stored)
    else:
        loaded = load_policies(options.policies, options.overrides())
        raise_all(loaded.errors)
        policies = loaded.value or ()
    held = hold_policies(policies, tasks, evaluation)
    baseline = None if options.baseline is None else name_lasting(options.baseline)
    policies = name_baseline(policies, baseline)
    is_given = options.policies is not None or baseline is not None
    raise_all([*held.errors, *(list_baseline_errors(policies, evaluation) if is_given else [])])
    return policies, held.notices


def gate(run: Run, policies: Stated | None = None, baseline: Run | str | RunPlace | None = None) -> Run:
    """Return a run with its gates decided anew: by its own policies, or by those that are given.

    The folder of the run stays as it is.
    """
    path = baseline.path if isinstance(baseline, Run) else baseline
    options = Options(policies=policies, baseline=None if path is None else str(path))
    tasks = {key: task_from_source(one.source["task"]) for key, one in run.tasks.items()}
    found, _ = take_policies(tasks, run.key, options, stored=run.manifest.get("policies") or ())
    gates = describe_gates(decide_gates(run, found))
    return replace(run, manifest={**run.manifest, **describe_policies(found), "gates": gates})
