"""The part of a run in which models are called.

The models are bound to the run's journal and the call cache and share a budget; an observer follows
the calls of each task.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from answerkey.errors import AnswerkeyError, SolverError, SpecError, distinct, raise_all
from answerkey.evaluate.chunk import ChunkResult
from answerkey.evaluate.display import Display
from answerkey.evaluate.observer import Observer, count_calls
from answerkey.models.cache import CallCache, RunLedger
from answerkey.models.calls import BATCH_SOURCE, PRICED_NAMES, Budget, charge, max_open_connections
from answerkey.models.config import Model, Price
from answerkey.models.model import (
    LiveModel,
    calls_endpoint,
    find_account,
    is_identified,
    stores_calls,
)
from answerkey.models.store import CallStore
from answerkey.runs import RunWriter
from answerkey.scorers import asks_model
from answerkey.spec import Job, Options, Task
from answerkey.spec.job import SOLVE, name_purpose
from answerkey.types import Notice

#: The calls stop if this share of the first completions cannot be read.
UNREAD_SHARE = 0.8


@dataclass
class Session:
    """The bound models of a run, with their budget and observers.

    If jobs are evaluated at the same time, each has its own of the `displays`.
    """

    writer: RunWriter
    options: Options
    display: Display
    cache: CallCache
    stack: ExitStack
    budget: Budget
    displays: Mapping[str, Display]
    max_open: int | None = None
    _observers: dict[str, Observer] = field(default_factory=dict)
    #: The bound models of each job by the purpose of their calls.
    _models: defaultdict[str, dict[str, Model]] = field(default_factory=lambda: defaultdict(dict))
    _tasks: dict[str, Task] = field(default_factory=dict)
    _given_up: set[object] = field(default_factory=set)

    def bind(self, job: Job) -> Job:
        """Return the job with its live models bound to the run, and its scorers to their models.

        The repetitions of a job share its models; the session closes them at its end.
        """
        observer = self._observe(job)
        models = self._models[job.key]
        for purpose, model in job.models.items():
            if purpose not in models:
                models[purpose] = self._bind_model(
                    model,
                    job.key,
                    purpose,
                    observer,
                )
        if job.key not in self._tasks:
            self._tasks[job.key] = self._bind_scorers(job)
        return replace(job, model=models.get(SOLVE), task=self._tasks[job.key])

    def _observe(self, job: Job) -> Observer | None:
        """Return the observer of a job that calls a live model; the display follows it."""
        if not any(stores_calls(model) for model in job.models.values()):
            return None
        observer = self._observers.get(job.key)
        if observer is None:
            display = self.displays.get(job.key, self.display)
            observer = Observer(job.key, total=0, warn=display.warn)
            self._observers[job.key] = observer
            display.follow(observer)
        observer.total += job.num_calls * _count_continuations(job)
        return observer

    def require_readable(self, job: Job, results: Sequence[ChunkResult]) -> None:
        """Raise SolverError E305 when most of the first completions are INVALID.

        A batch is paid for when its replies come, and a fallback reads what the rule cannot.
        """
        has_fallback = any(purpose.startswith("fallback:") for purpose in job.models)
        is_unasked = self.options.batch or has_fallback or self.writer.is_resumed
        is_guarded = self.options.stop_on_nonsense is not False and calls_endpoint(job.model)
        if is_unasked or not is_guarded:
            return
        count = sum(result.problems.rows for result in results) * job.task.num_trials
        invalid = sum(result.invalid for result in results)
        if invalid >= UNREAD_SHARE * count:
            message = f"stopped: {invalid} of the first {count} completions are INVALID"
            hint = (
                "`--dry-run` shows the prompt: does it ask for the letter alone, and is "
                "`max_tokens` large enough? `--no-stop-on-nonsense` starts a run that does not stop"
            )
            raise SolverError("E305", message, hint=hint)

    def _bind_scorers(self, job: Job) -> Task:
        steps = []
        for step in job.task.scoring:
            scorer = step.scorer
            if step.key in job.judges and asks_model(scorer):
                model = self._models[job.key][name_purpose(step)]
                scorer = scorer.bind(model, key=step.key)
                if hasattr(scorer, "close"):
                    self.stack.callback(scorer.close)
            steps.append(replace(step, scorer=scorer))
        return replace(job.task, scoring=tuple(steps))

    def _bind_model(
        self,
        model: Model,
        key: str,
        purpose: str,
        observer: Observer | None,
    ) -> Model:
        if observer is None or not stores_calls(model):
            return model
        bound = replace(
            model,
            limits=replace(model.limits, max_open=self.options.max_concurrent),
            ledger=RunLedger(self._journal, self.cache, key),
            budget=self.budget,
            watch=observer.hear,
        )
        if calls_endpoint(bound):
            batches = None  # without a store of batches, calls are sent one by one
            if purpose == SOLVE and self.options.batch:
                batches = self._journal
            elif purpose == SOLVE:
                self._refuse_open_batches(bound)
            bound = replace(
                bound,
                limits=replace(bound.limits, max_open=self.max_open),
                price=choose_price(bound, self.options),
                batches=batches,
            )
        self.stack.callback(bound.close)
        return bound

    def _refuse_open_batches(self, model: LiveModel) -> None:
        for batch in self._journal.list_batches(model.identity):
            name = batch.batch or batch.file
            message = f"`--no-batch` cannot be used yet: the batch `{name}` is under way"
            hint = (
                "`answerkey resume` without it collects it; what failed may then be sent one by one"
            )
            raise SpecError("E119", message, hint=hint)

    def close_models(self, key: str) -> None:
        """Close the connections of a job that is done: the next one opens its own."""
        for model in self._models[key].values():
            if stores_calls(model):
                model.close()

    def give_up(self, key: str) -> None:
        """Remember which models of a job could not be called; close all of them."""
        models = self._models[key].values()
        lost = [model for model in models if calls_endpoint(model) and model.is_unusable]
        self._given_up.update(map(find_account, lost or models))
        self.close_models(key)

    def has_given_up(self, job: Job) -> bool:
        """Whether a job needs a model that could not be called before."""
        accounts = map(find_account, job.models.values())
        return not self._given_up.isdisjoint(accounts)

    def describe(self, key: str) -> dict[str, Any]:
        """Return what `run.json` says about the calls of a job; nothing without a live model."""
        observer = self._observers.get(key)
        if observer is None:
            return {}
        prices = {}
        for purpose, model in self._models[key].items():
            if calls_endpoint(model):
                prices[purpose] = model.price
        calls = count_calls(
            self._journal,
            key,
            prices,
            observer.retried,
        )
        return {"calls": calls}

    @property
    def _journal(self) -> CallStore:
        return self.writer.journal()


@contextmanager
def open_session(
    jobs: Sequence[Job],
    writer: RunWriter,
    options: Options,
    display: Display,
    *,
    num_other_runs: int = 0,
) -> Iterator[Session]:
    """Yield the session of a run; close its models and the cache afterwards.

    What is wrong with the cache or the journal is added to the run's notices.
    """
    journal = writer.journal() if calls_live(jobs) else None
    with ExitStack() as stack:
        cache = stack.enter_context(closing(CallCache(options.cache_policy or "no-cache")))
        budget = Budget(max_calls=options.max_calls, max_cost=options.max_cost)
        if journal is not None:
            _charge_earlier_calls(
                budget,
                journal,
                jobs,
                options,
            )
            if writer.is_resumed:
                _report_known_calls(jobs, writer, display)
        _announce_fallbacks(jobs, display)
        displays: dict[str, Display] = {}
        if not num_other_runs:
            displays = _open_displays(jobs, display)
        if displays:
            num_other_runs = len(jobs) - 1
        max_open, notices = _fit_connections(jobs, num_other_runs, options.max_concurrent)
        for notice in notices:
            display.warn(notice)
        yield Session(
            writer,
            options,
            display,
            cache,
            stack,
            budget,
            displays,
            max_open,
        )
        notices += cache.notices
        if journal is not None and journal.damaged:
            notices.append(_describe_loss(len(journal.damaged)))
        writer.add_notices(notices)


def _open_displays(jobs: Sequence[Job], display: Display) -> dict[str, Display]:
    """Return a display for each job where several accounts are called at the same time."""
    accounts = {find_account(job.model) for job in jobs if calls_endpoint(job.model)}
    if len(accounts) <= 1:
        return {}
    return {job.key: display.open_run(job.key, count_questions([job])) for job in jobs}


def _charge_earlier_calls(
    budget: Budget,
    journal: CallStore,
    jobs: Sequence[Job],
    options: Options,
) -> None:
    """Charge the budget with the calls that were made before the run stopped."""
    if options.max_calls is None and options.max_cost is None:
        return
    models = {job.key: job.models for job in jobs}
    for usage in journal.sum_usage():
        is_batch = usage.source == BATCH_SOURCE
        if usage.source != "live" and not is_batch:
            continue
        budget.calls += usage.calls
        model = models.get(usage.task, {}).get(usage.purpose)
        price = choose_price(model, options) if calls_endpoint(model) else None
        if price is not None:
            tokens = [usage.tokens[name] for name in PRICED_NAMES]
            budget.spent += charge(price, *tokens, is_batch=is_batch)


def _announce_fallbacks(jobs: Sequence[Job], display: Display) -> None:
    for job in jobs:
        limit = job.num_calls * job.num_runs
        about = f"completions of `{job.key}` in which no choice is read, at most {limit:,}"
        for purpose, model in job.models.items():
            if purpose.startswith("fallback:"):
                display.say(f"fallback: `{model.name}` is asked about {about}")


def _fit_connections(
    jobs: Sequence[Job],
    num_other_runs: int,
    most: int | None,
) -> tuple[int | None, list[Notice]]:
    """Return how many connections each model can have, up to `most`, with a notice if it wants
    more.

    The models of one job share them, and so do the other runs that call models at the same time.
    """
    wishes = []
    most_models = 1
    for job in jobs:
        endpoints = [model for model in job.models.values() if calls_endpoint(model)]
        most_models = max(most_models, len(endpoints))
        for model in endpoints:
            wishes.append(model.limits.choose_concurrent(model.connection.max_concurrent))
    room = max_open_connections() if wishes else None
    if room is None:
        return most, []
    limit = max(1, room // most_models // (1 + num_other_runs))
    if limit >= max(wishes):
        return most, []
    message = (
        f"at most {limit} of {max(wishes)} requests are sent at once: this process may open "
        "few files"
    )
    notice = Notice(message, hint="raise the limit of open files: `ulimit -n 4096`")
    return min(limit, most or limit), [notice]


def _describe_loss(count: int) -> Notice:
    hint = "their calls are made again, unless another copy of the journal has them"
    return Notice(f"damaged or missing records of the journal: {count:,}", hint=hint)


def _report_known_calls(
    jobs: Sequence[Job],
    writer: RunWriter,
    display: Display,
) -> None:
    """Report how many calls are in the journal of a resumed run, and how many were lost."""
    journal = writer.journal()
    entries = writer.manifest["tasks"]
    calls, failed = journal.count()
    recorded = 0
    for entry in entries:
        for purpose_entry in (entry.get("calls") or {}).values():
            recorded += purpose_entry["calls"]
    lost = max(journal.lost + writer.lost_records, recorded - calls)
    if lost:
        notice = _describe_loss(lost)
        display.warn(notice)
        for entry in entries:
            entry.pop("calls", None)  # so that it is reported once
        writer.add_notices([notice])
        writer.write_manifest()
    answered = calls - failed
    left = -answered
    is_exact = True
    for job in jobs:
        for purpose, model in job.models.items():
            if not stores_calls(model):
                continue
            size = _count_continuations(job) if purpose == SOLVE else 1
            left += job.num_calls * size * job.num_runs
            is_exact &= purpose == SOLVE  # a judge or a fallback is not asked about every sample
    limit = "" if is_exact else "at most "
    display.say(f"calls: {answered:,} known, {limit}{max(0, left):,} left")


def _count_continuations(job: Job) -> int:
    """Return how many calls a question takes, judged by the first sample."""
    solver = job.task.solver
    if solver is None or not solver.ranks_continuations or not len(job.dataset):
        return 1
    first_sample = job.dataset.rows.slice(0, 1).load()
    [prompts] = solver.list_calls(first_sample, job.examples)
    return max(1, len(prompts))


def calls_live(jobs: Sequence[Job]) -> bool:
    """Return whether jobs call a model that is not built in."""
    return any(stores_calls(model) for job in jobs for model in job.models.values())


def count_questions(jobs: Sequence[Job]) -> int:
    """Return how many calls solvers will make, those whose answers are known included."""
    total = 0
    for job in jobs:
        if stores_calls(job.model):
            total += job.num_calls * _count_continuations(job) * job.num_runs
    return total


def share_turns(
    jobs: Sequence[Job],
    turns: dict[object, threading.Lock],
    options: Options,
) -> list[Job]:
    """Return jobs whose models take turns with those that have the same host and key.

    Batch jobs never block other jobs.
    """

    def share(model: Model | None) -> Any:  # noqa: ANN401 - the model, or one like it
        if not calls_endpoint(model):
            return model
        turn = turns.setdefault(find_account(model), threading.Lock())
        return replace(model, turn=turn)

    shared = []
    for job in jobs:
        model = job.model if options.batch else share(job.model)
        judges = {key: share(judge) for key, judge in job.judges.items()}
        shared.append(replace(job, model=model, judges=judges))
    return shared


def choose_price(model: LiveModel, options: Options) -> Price | None:
    """Return the price of a model's tokens: the caller's, else the known one."""
    return options.parse_price() or model.connection.find_price()


def require_callable(jobs: Sequence[Job], options: Options) -> None:
    """Raise for a missing key or an unenforceable limit before anything is sent or written."""
    errors: list[AnswerkeyError] = []
    for job in jobs:
        for purpose, model in job.models.items():
            is_batch = bool(options.batch and purpose == SOLVE)
            if calls_endpoint(model):
                errors += _check_endpoint(model, options, is_batch=is_batch)
            elif stores_calls(model):
                errors += _check_function(model, options, is_batch=is_batch)
    raise_all(distinct(errors))


def _check_function(
    model: Model,
    options: Options,
    *,
    is_batch: bool,
) -> Iterator[SpecError]:
    if is_batch:
        message = f"`batch` cannot be used with `{model.name}`: it is code, and no endpoint"
        yield SpecError("E119", message)
    if options.max_cost is not None and not is_identified(model):
        message = f"`max_cost` cannot hold: what `{model.name}` costs is not known"
        yield SpecError("E119", message, hint="use `max_calls`")


def _check_endpoint(
    model: LiveModel,
    options: Options,
    *,
    is_batch: bool,
) -> Iterator[SpecError]:
    try:
        model.require_ready()
        if is_batch:
            model.connection.require_batches()
    except SpecError as error:
        yield error
    if options.max_cost is None:
        return
    if is_batch and model.connection.generation.max_tokens is None:
        message = f"`--max-cost` cannot hold in a batch: `{model.name}` has no `max_tokens`"
        yield SpecError("E119", message, hint="set `max_tokens`, or use `--max-calls`")
    if choose_price(model, options) is None:
        hint = "say it with `--price IN:OUT` (USD per million tokens), or use `--max-calls`"
        message = f"`--max-cost` cannot hold: what `{model.name}` costs is not known"
        yield SpecError("E119", message, hint=hint)
