"""A run as plain values: what `run --json` and `show --json` print."""

from __future__ import annotations

from typing import Any

from answerkey.run_audit.readings import describe_counted
from answerkey.runs import Run, TaskRun
from answerkey.text import clean_numbers, describe_metric


def describe_run(run: Run) -> dict[str, Any]:
    """Return the run, its tasks and its notices; numbers that are not finite become null."""
    shown = ("key", "display_name", "answerkey_version", "started_at", "ended_at")
    about: dict[str, Any] = {"path": None if run.path is None else str(run.path), "status": run.status}
    about |= {name: run.manifest.get(name) for name in shown}
    about |= {"stopped": run.manifest["stopped"]} if "stopped" in run.manifest else {}
    described: dict[str, Any] = clean_numbers(
        {
            "run": about,
            "tasks": [describe_task(task) for task in run.tasks.values()],
            **_describe_features(run),
            "notices": list(run.manifest.get("notices") or []),
        }
    )
    return described


def _describe_features(run: Run) -> dict[str, Any]:
    """Return the gates, and what variants of a prompt say together; nothing for a run without any."""
    described: dict[str, Any] = {}
    if run.gates:
        from answerkey.gates.text import describe_run_gates

        described["gates"] = describe_run_gates(run)
    if any(task.manifest.get("variant") for task in run.tasks.values()):
        from answerkey.comparison.variants import describe_variants

        described["variants"] = describe_variants(run)
    return described


def describe_task(task: TaskRun) -> dict[str, Any]:
    """Return one task: what was evaluated, the counts that add up, every metric, the counts behind them."""
    tally = {name: count for name, count in task.tally.items() if name != "counts"}
    spots = describe_counted(task)
    if spots is not None and spots.drawn_from is not None:
        tally["readings"] = {**tally["readings"], "drawn_from": spots.drawn_from}
    return {
        "key": task.key,
        "display_name": task.manifest.get("display_name"),
        "model": task.manifest.get("model"),
        "dataset": task.manifest.get("dataset"),
        "completions": task.manifest.get("completions"),
        "counts": dict(task.counts),
        "calls": task.manifest.get("calls"),
        "metrics": [describe_metric(value) for value in task.metrics.values()],
        "tally": tally,
        **_describe_repeats(task),
    }


def _describe_repeats(task: TaskRun) -> dict[str, Any]:
    """Return how samples were asked several times, and how far several runs agree; nothing for once."""
    found = {
        name: task.manifest[name] for name in ("trials", "choice_order", "variant") if task.manifest.get(name)
    }
    return found | ({"repeatability": task.repeatability} if task.repeatability else {})
