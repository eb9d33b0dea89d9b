"""What a run would ask, without asking: `--dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from answerkey.pipeline import Prepared, cut_shards
from answerkey.solvers import build_prompts
from answerkey.templates import RowTrouble
from answerkey.verbs.options import Options, stay_silent
from answerkey.verbs.running import check_plan, open_plan, read_plan

#: A rule of thumb for English text; the exact number is the provider's to say.
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class PlannedTask:
    """What one task would ask. `cost` is 0 for a built-in model; no call is made for recorded completions."""

    key: str
    model: str | None
    samples: int
    calls: int
    prompt_tokens: int
    cost: float | None
    first_prompt: Sequence[Mapping[str, object]] | None


@dataclass(frozen=True)
class DryRun:
    """What a run would ask, task by task."""

    tasks: tuple[PlannedTask, ...]


def plan_calls(path: str | Path, **options: object) -> DryRun:
    """Return what `run` would ask of the model; checks everything as `run` does, and asks nothing."""
    chosen = Options(**options)  # type: ignore[arg-type]  # the fields of Options are the keyword arguments
    plan, _ = read_plan(path, chosen)
    opened, _ = check_plan(open_plan(plan, chosen), chosen, stay_silent)
    return DryRun(tuple(_plan_task(one.prepared) for one in opened))


def _plan_task(prepared: Prepared) -> PlannedTask:
    calls, characters, first = 0, 0, None
    solver = prepared.task.solver
    if prepared.model is not None and solver is not None:
        for shard in cut_shards(prepared.dataset):
            for prompt in build_prompts(solver, shard.samples, prepared.examples):
                if isinstance(prompt, RowTrouble):
                    continue
                first = first or prompt
                calls += 1
                characters += sum(len(str(message.get("content"))) for message in prompt)
    return PlannedTask(
        key=prepared.key,
        model=prepared.model.name if prepared.model else None,
        samples=len(prepared.dataset),
        calls=calls,
        prompt_tokens=-(-characters // CHARACTERS_PER_TOKEN),
        cost=0.0,
        first_prompt=first,
    )
