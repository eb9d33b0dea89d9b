"""What a run would ask, without asking: `--dry-run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from answerkey.datasets import cut_shards
from answerkey.engines import open_engine
from answerkey.models.cache import CallCache
from answerkey.models.calls import CachePolicy, call_key
from answerkey.models.model import LiveModel, SnippetModel
from answerkey.pipeline import SHARD_ROWS, Prepared
from answerkey.scorers import AskingScorer
from answerkey.solvers import ChoiceRankingSolver
from answerkey.templates import RowTrouble
from answerkey.verbs.binding import choose_price, count_calls, list_trials
from answerkey.verbs.opening import Opened
from answerkey.verbs.options import Options, read_options, stay_silent
from answerkey.verbs.running import check_plan, open_plan, read_plan

#: A rule of thumb for English text; the exact number is the provider's to say.
CHARACTERS_PER_TOKEN = 4
Messages = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class PlannedTask:
    """What one task would ask; `calls` are those that neither the cache nor a call before them answers.

    Tokens are estimated by characters; `completion_tokens` is the most that `max_tokens` allows, None without
    such a limit. `cost` in USD is None when it is not known, and 0 for a built-in model. A judge's prompts
    depend on completions, so only its calls are counted, in `judge_calls`. `prompts` are the samples in every
    order, trial and repetition.
    """

    key: str
    model: str | None
    samples: int
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int | None
    cost: float | None
    first_prompt: Messages | None
    judge_calls: int = 0
    prompts: int = 0


@dataclass(frozen=True)
class DryRun:
    """What a run would ask, task by task."""

    tasks: tuple[PlannedTask, ...]


def plan_calls(path: str | Path, **options: object) -> DryRun:
    """Return what `run` would ask of the model; checks everything as `run` does, and asks nothing."""
    chosen = read_options("plan_calls", options)
    plan, _ = read_plan(path, chosen)
    policy = chosen.cache_policy or cast("CachePolicy | None", plan.cache_policy)
    opened, _ = check_plan(
        open_plan(plan, chosen), chosen, stay_silent, open_engine(chosen.engine, chosen.ray_address)
    )
    with closing(CallCache(policy or "reuse")) as cache:
        return DryRun(tuple(_plan_task(one, chosen, cache) for one in opened))


@dataclass(frozen=True)
class _Demand:
    """Prompts that would be sent, counted."""

    calls: int = 0
    cached: int = 0
    characters: int = 0


def _plan_task(opened: Opened, options: Options, cache: CallCache) -> PlannedTask:
    prepared, num_runs = opened.prepared, opened.specification.num_runs
    model, demand, first = prepared.model, _Demand(), None
    seen: set[str] = set()
    for prompts in _build_all(prepared) if model is not None else ():
        first = first or next(iter(prompts), None)
        for number in range(num_runs):
            demand = _count(opened.prepare_repetition(number), prompts, demand, cache, seen)
    prompt_tokens = -(-demand.characters // CHARACTERS_PER_TOKEN)
    limit = _limit_tokens(model) if isinstance(model, LiveModel) else None
    most = None if limit is None else limit * demand.calls
    return PlannedTask(
        key=prepared.key,
        model=model.name if model else None,
        samples=prepared.dataset.num_samples,
        prompts=(len(prepared.dataset) - len(prepared.failed)) * len(list_trials(prepared)) * num_runs,
        calls=demand.calls,
        cached=demand.cached,
        prompt_tokens=prompt_tokens,
        completion_tokens=most,
        cost=_estimate_cost(prepared, options, prompt_tokens, most),
        first_prompt=first,
        judge_calls=count_calls(prepared) * _count_judges(prepared) * num_runs,
    )


def _limit_tokens(model: LiveModel) -> int | None:
    """Return how many tokens a completion has at most; of an echoed text nothing is to be said."""
    generation = model.connection.generation
    return 1 if generation.max_tokens is None and generation.echo else generation.max_tokens


def _build_all(prepared: Prepared) -> Iterator[list[Messages]]:
    """Yield the prompts of each shard; rows that the dataset has wrong are not asked."""
    solver = prepared.task.solver
    if solver is None:
        return
    for shard in cut_shards(prepared.dataset, SHARD_ROWS, failed=prepared.failed):
        samples, wrong = shard.samples.load(prepared.columns), set(shard.failed)
        if isinstance(solver, ChoiceRankingSolver):
            listed = enumerate(solver.list_calls(samples, prepared.examples))
            yield [prompt for row, prompts in listed if row not in wrong for prompt in prompts]
            continue
        found = solver.build_prompts(samples, prepared.examples)
        yield [
            prompt
            for row, prompt in enumerate(found)
            if row not in wrong and not isinstance(prompt, RowTrouble)
        ]


def _count(
    prepared: Prepared, prompts: Sequence[Messages], demand: _Demand, cache: CallCache, seen: set[str]
) -> _Demand:
    """Return the demand with these prompts added, each trial a call of its own."""
    model, trials = prepared.model, list_trials(prepared)
    if not isinstance(model, LiveModel | SnippetModel):
        calls = len(prompts) * len(trials)
        characters = sum(map(_measure, prompts)) * len(trials)
        return replace(demand, calls=demand.calls + calls, characters=demand.characters + characters)
    sizes = {
        key: _measure(prompt)
        for prompt in prompts
        for trial in trials
        if (key := call_key(model, prompt, trial)) not in seen
    }
    seen.update(sizes)
    known = cache.list_known(list(sizes))
    return _Demand(
        demand.calls + len(sizes) - len(known),
        demand.cached + len(known),
        demand.characters + sum(size for key, size in sizes.items() if key not in known),
    )


def _measure(prompt: Messages) -> int:
    return sum(len(str(message.get("content"))) for message in prompt)


def _estimate_cost(
    prepared: Prepared, options: Options, prompt_tokens: int, completion_tokens: int | None
) -> float | None:
    """Return what the calls may cost at most; None when the price or the longest completion is not known."""
    model = prepared.model
    if not isinstance(model, LiveModel):
        return 0.0
    price = choose_price(model, options)
    if price is None or completion_tokens is None:
        return None
    return price.charge(prompt_tokens, completion_tokens)


def _count_judges(prepared: Prepared) -> int:
    return sum(isinstance(step.scorer, AskingScorer) for step in prepared.task.scoring)
