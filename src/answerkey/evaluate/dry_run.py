"""Everything that needs no model: `check`, `--dry-run` and the prompts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import starmap
from typing import NamedTuple, Unpack

import polars as pl

from answerkey.datasets.rows import iterate_blocks
from answerkey.engines import open_engine
from answerkey.errors import AnswerkeyError, Place, SpecError, distinct, listing
from answerkey.evaluate.display import Progress, ignore_progress
from answerkey.evaluate.evaluate import check_jobs, check_rows
from answerkey.evaluate.job import Shared, open_job, open_jobs
from answerkey.evaluate.run import (
    RunOptions,
    TaskSource,
    read_options,
    read_plan,
    show_options,
)
from answerkey.evaluate.session import choose_price
from answerkey.models.cache import CallCache
from answerkey.models.calls import charge
from answerkey.models.config import Model
from answerkey.models.images import IMAGE_TOKENS, expand_images, list_images
from answerkey.models.model import (
    Journaled,
    build_calls,
    calls_endpoint,
    is_identified,
    stores_calls,
)
from answerkey.models.responses import read_text
from answerkey.scorers import asks_model, find_role, reads_choices
from answerkey.solvers.single_turn import SingleTurnSolver
from answerkey.solvers.solver import Prompt
from answerkey.spec import Job, Options, load_plan, sort_errors
from answerkey.spec.nodes import ProblemList
from answerkey.types import Notice, Request, Samples

#: How many sample ids a notice shows.
MAX_SHOWN_IDS = 3
#: Prompts that are in memory together: each may be a long text.
PROMPT_ROWS = 8_192
#: A rule of thumb for English text; only the provider knows the exact number.
CHARACTERS_PER_TOKEN = 4
Messages = Sequence[Mapping[str, object]]
_MESSAGES = pl.List(pl.Struct({"role": pl.String, "content": pl.String}))


# `check`: every mistake that can be found without calling a model.


class CheckedTask(NamedTuple):
    """A task that was checked."""

    key: str
    dataset: str
    rows: int


@dataclass(frozen=True)
class Checked:
    """The result of `check`."""

    errors: tuple[AnswerkeyError, ...]
    notices: tuple[Notice, ...]
    tasks: tuple[CheckedTask, ...]


@show_options(RunOptions)
def check(
    path: TaskSource,
    *,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> Checked:
    """Return every mistake in a task or run file that can be found without calling a model."""
    chosen = read_options("check", options)
    plan = load_plan(path, chosen)
    errors = plan.errors
    if plan.policies:
        errors += plan.find_baseline_errors()
    notices = list(plan.notices)
    tasks: list[CheckedTask] = []
    shared = Shared()
    for planned in plan.jobs:
        problems = ProblemList()
        job = open_job(
            planned,
            chosen,
            problems,
            shared,
            is_check=True,
        )
        for error in problems.errors:
            # Completions are missing where a mistake in the file leaves a task without its solver.
            if error.code != "E209" or not plan.errors or planned.completions_from:
                errors.append(error)
        if job is None:
            continue
        row_problems = check_rows(job, open_engine(), progress or ignore_progress)
        errors += row_problems.errors(job)
        notices += [*job.dataset.notices, *row_problems.notices, *find_suspicious_options(job)]
        tasks.append(CheckedTask(job.key, job.dataset.name, len(job.dataset)))
    return Checked(
        errors=tuple(sort_errors(distinct(errors))),
        notices=tuple(dict.fromkeys(notices)),
        tasks=tuple(tasks),
    )


def find_suspicious_options(job: Job) -> list[Notice]:
    """Return notices of questions with one option only, and of those with the same option twice."""
    scorers = [step.scorer for step in job.task.scoring if reads_choices(step.scorer)]
    if not scorers:
        return []
    rows = job.dataset.rows
    counts = Counter[str]()
    examples: dict[str, list[Place]] = {}
    for _, samples in iterate_blocks(rows):
        for row, options in enumerate(scorers[0].option_texts(samples)):
            finding = _describe_suspicion(options or ())
            if finding is None:
                continue
            counts[finding] += 1
            if counts[finding] <= MAX_SHOWN_IDS:
                examples.setdefault(finding, []).append(samples.place(row))
    notices = []
    for finding, places in sorted(examples.items()):
        ids = ", ".join(f"`{place.sample}`" for place in places)
        if counts[finding] > MAX_SHOWN_IDS:
            ids = f"{ids} and {counts[finding] - MAX_SHOWN_IDS} more"
        message = f"{counts[finding]:,} of {len(rows):,} questions have {finding}: sample {ids}"
        hint = "correct the options, or leave these questions out"
        notices.append(Notice(message, places[0], hint))
    return notices


def _describe_suspicion(options: Sequence[str]) -> str | None:
    """Return what is suspicious about the options of a question; None if nothing is."""
    texts = [option.strip() for option in options]
    if len(texts) == 1:
        return "only one option"
    if len(set(texts)) < len(texts):
        return "the same option twice"
    return None


# `--dry-run`: what a run would send.


@dataclass(frozen=True)
class PlannedTask:
    """What one task would send.

    `calls` are those that neither the cache nor an earlier call answers. Tokens are estimated by
    characters; `completion_tokens` is the most that `max_tokens` allows, None without such a limit.
    `cost` in USD is None when it is not known, and 0 for a built-in model. A judge's prompts depend
    on completions, so only its calls are counted, in `judge_calls`; of `fallback_calls`, those for
    completions that the rule can read are not made. `prompts` are the samples in every order, trial
    and repetition.
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
    fallback_calls: int = 0
    prompts: int = 0


@dataclass(frozen=True)
class DryRun:
    """What a run would send, task by task."""

    tasks: tuple[PlannedTask, ...]


@show_options(RunOptions)
def plan_calls(path: TaskSource, **options: Unpack[RunOptions]) -> DryRun:
    """Return the calls that `run` would make; everything is checked, and nothing is called."""
    chosen = read_options("plan_calls", options)
    plan = read_plan(path, chosen)
    policy = chosen.cache_policy or plan.cache_policy
    engine = open_engine(chosen.engine, chosen.ray_address)
    jobs = open_jobs(plan.jobs, chosen)
    jobs, _ = check_jobs(
        jobs,
        chosen,
        engine,
        ignore_progress,
    )
    with closing(CallCache(policy or "no-cache")) as cache:
        return DryRun(tuple(_plan_job(job, chosen, cache) for job in jobs))


def _plan_job(job: Job, options: Options, cache: CallCache) -> PlannedTask:
    count = _CallCount(job, cache)
    if job.model is not None:
        for samples, prompts in _build_prompts(job):
            count.add(job.model, samples, prompts)
    count.close()
    prompt_tokens = -(-count.characters // CHARACTERS_PER_TOKEN)
    limit, cost = _estimate_cost(
        job.model,
        options,
        count.calls,
        prompt_tokens,
    )
    num_runs = job.num_runs
    roles = [find_role(step.scorer) for step in job.task.scoring if asks_model(step.scorer)]
    return PlannedTask(
        key=job.key,
        model=job.model.name if job.model else None,
        samples=job.dataset.num_samples,
        prompts=job.num_calls * num_runs,
        calls=count.calls,
        cached=count.cached,
        prompt_tokens=prompt_tokens,
        completion_tokens=limit,
        cost=cost,
        first_prompt=count.first_prompt,
        judge_calls=job.num_calls * roles.count("judge") * num_runs,
        fallback_calls=job.num_calls * roles.count("fallback") * num_runs,
    )


class _CallCount:
    """Counts the calls of a job, and the characters of their prompts.

    Of calls that a cache may answer, hashes are kept in columns until all are counted: there may
    be millions.
    """

    def __init__(self, job: Job, cache: CallCache) -> None:
        self.calls = 0
        self.cached = 0
        self.characters = 0
        self.first_prompt: Messages | None = None
        self._job = job
        self._cache = cache
        self._parts: list[pl.DataFrame] = []

    def add(
        self,
        model: Model,
        samples: Samples,
        prompts: Sequence[Sequence[Prompt]],
    ) -> None:
        """Count the calls for some samples, each with its prompts."""
        choices: Sequence[Sequence[str] | None] = [None] * len(prompts)
        if getattr(model, "needs", None):
            facts = self._job.task.sample_facts(samples)
            if facts is not None:
                choices = facts.choices
        requests = []
        for row, messages in enumerate(prompts):
            requests += [Request("", prompt, choices[row]) for prompt in messages]
        if requests and self.first_prompt is None:
            self.first_prompt = requests[0].messages
        sizes = [_count_characters(request.messages) for request in requests]
        for number in range(self._job.num_runs):
            for trial in self._job.repeat(number).trials:
                if is_identified(model):
                    self._add_identified(
                        model,
                        requests,
                        sizes,
                        trial,
                    )
                else:  # each trial is a call of its own
                    self.calls += len(requests)
                    self.characters += sum(sizes)

    def _add_identified(
        self,
        model: Journaled,
        requests: Sequence[Request],
        sizes: Sequence[int],
        trial: int,
    ) -> None:
        """Note the keys of calls; several calls may have the same key."""
        keys = [call.key for call in build_calls(model, requests, trial)]
        cached = self._cache.list_known(keys)
        columns = {
            "key": pl.Series(keys, dtype=pl.String).hash(),
            "size": pl.Series(sizes, dtype=pl.Int64),
            "is_cached": pl.Series([key in cached for key in keys], dtype=pl.Boolean),
        }
        self._parts.append(pl.DataFrame(columns))

    def close(self) -> None:
        """Count each distinct call once; those in the cache are not made."""
        if not self._parts:
            return
        distinct_calls = pl.concat(self._parts).unique("key")
        made = distinct_calls.filter(~pl.col("is_cached"))
        self.cached += len(distinct_calls) - len(made)
        self.calls += len(made)
        self.characters += int(made["size"].sum())


def _count_characters(messages: Messages) -> int:
    """Return the characters of a prompt; an image counts as its tokens."""
    characters = sum(len(str(message.get("content"))) for message in messages)
    return characters + CHARACTERS_PER_TOKEN * IMAGE_TOKENS * len(list_images(messages))


def _estimate_cost(
    model: Model | None,
    options: Options,
    calls: int,
    prompt_tokens: int,
) -> tuple[int | None, float | None]:
    """Return the maximum tokens of the replies and the estimated cost, where they are known."""
    if stores_calls(model) and not is_identified(model):
        return None, None  # what a function or a package's model costs is not known
    if not calls_endpoint(model):
        return None, 0.0
    generation = model.connection.generation
    limit = generation.max_tokens
    if limit is None and generation.echo:
        limit = 1  # a text that is echoed needs no reply
    if limit is None:
        return None, None
    price = choose_price(model, options)
    if price is None:
        return limit * calls, None
    cost = charge(
        price,
        prompt_tokens,
        limit * calls,
        is_batch=bool(options.batch),
    )
    return limit * calls, cost


def _build_prompts(job: Job) -> Iterator[tuple[Samples, list[list[Prompt]]]]:
    """Yield many samples at a time, each with its prompts; a wrong row has none."""
    solver = job.task.solver
    if solver is None:
        return
    failed = set(job.failed)
    for offset, samples in iterate_blocks(job.dataset.rows, size=PROMPT_ROWS):
        prompts = solver.list_calls(samples, job.examples)
        for row in range(len(prompts)):
            if offset + row in failed:
                prompts[row] = []
        yield samples, prompts


# `export-prompts`.


def build_prompts(
    path: TaskSource,
    key: str | None,
    progress: Progress,
    **options: Unpack[RunOptions],
) -> tuple[int, Iterator[pl.DataFrame]]:
    """Return the prompts of one task, and how many; all rows are checked, and no model is called.

    There is a row for each sample and trial, with what recorded completions are joined by:
    `sample_id`; where there are several, `base_sample_id` and `option_order`, and `trial`. Then
    `messages`, and `prompt`, the text of them that `api: completions` sends. The content of a
    message with images is its parts as JSON.
    """
    chosen = read_options("build_prompts", options)
    plan = load_plan(path, chosen)
    plan.problems.raise_any()
    matching = [job for job in plan.jobs if key in {None, job.key}]
    solver = matching[0].task.solver if len(matching) == 1 else None
    if solver is None or not solver.sends_prompts:
        message = f"`{key or path}` is not one task with a `{SingleTurnSolver.type}`"
        keys = listing(job.key for job in plan.jobs)
        raise SpecError("E119", message, hint=f"name one with `--task`: {keys}")
    bare = replace(matching[0], model_choice=None, judge_choices={})
    jobs = open_jobs([bare], chosen, needs_model=False)
    jobs, _ = check_jobs(
        jobs,
        chosen,
        open_engine(),
        progress,
    )
    num_trials = jobs[0].task.num_trials

    def build_frame(samples: Samples, prompts: Sequence[Sequence[Messages]]) -> pl.DataFrame:
        return _tabulate_prompts(samples, [messages for (messages,) in prompts], num_trials)

    return jobs[0].num_calls, starmap(build_frame, _build_prompts(jobs[0]))


def _tabulate_prompts(
    samples: Samples,
    prompts: Sequence[Messages],
    num_trials: int,
) -> pl.DataFrame:
    """Return the prompts of samples as a table, each once for every trial."""
    columns: dict[str, object] = {"sample_id": samples.ids}
    if samples.orders is not None:
        columns["base_sample_id"] = samples.orders["base_sample_id"]
        columns["option_order"] = samples.orders["order"]
    conversations = []
    for messages in prompts:
        conversation = []
        for message in messages:
            conversation.append({"role": str(message["role"]), "content": _write_content(message)})
        conversations.append(conversation)
    columns["messages"] = pl.Series(conversations, dtype=_MESSAGES)
    columns["prompt"] = [
        "\n\n".join(message["content"] for message in conversation)
        for conversation in conversations
    ]
    table = pl.DataFrame(columns)
    if num_trials > 1:
        table = table.select(pl.all().repeat_by(num_trials).explode())
        table = table.with_columns(trial=pl.int_range(pl.len()) % num_trials)
    return table


def _write_content(message: Mapping[str, object]) -> str:
    """Return the text of a message; of one with images, its parts as JSON."""
    if not list_images([message]):
        return read_text(message)
    parts = expand_images([message])[0]["content"]
    return json.dumps(parts, ensure_ascii=False)
