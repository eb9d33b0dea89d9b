"""The live models of a run: bound to its journal and call cache, with a budget, followed call by
call.

models ──► Observer.hear (each event, at once) ──► counts ──► Observer.look (when somebody looks)
"""

from __future__ import annotations

import _thread
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from statistics import quantiles
from typing import Any, Protocol

import polars as pl

from answerkey.errors import AnswerkeyError, SolverError, SpecError, distinct, raise_all
from answerkey.evaluate.prepare import SOLVE, Options, Prepared, name_purpose
from answerkey.metrics import wilson
from answerkey.models.cache import CallCache, RunLedger
from answerkey.models.calls import (
    BATCH_SOURCE,
    PRICED_NAMES,
    BatchLeft,
    BatchSeen,
    Budget,
    Call,
    Event,
    Finished,
    FinishedCalls,
    Remembered,
    Retried,
    Reused,
    charge,
    find_room,
)
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
from answerkey.spec import Task
from answerkey.types import (
    NOT_ASKED,
    USAGE_NAMES,
    Completion,
    Completions,
    CompletionStatus,
    Notice,
    ScoreStatus,
    Validity,
)

_LONGEST_REASON = 80
_LONGEST_EXAMPLE = 300
#: The pace is that of the last so many seconds.
WINDOW_SECONDS = 15.0
#: Completions that wait to be judged; beyond that they are judged even if nobody looks.
WAITING = 5000
#: So many completions tell whether all that would follow are of any use: not if this share is
#: INVALID.
FIRST, UNREAD_SHARE = 20, 0.8
_SHOWN = 60


# What was asked of a model: how many calls, tokens, seconds, and what went wrong.


class Reasons:
    """Errors in groups by purpose and cause: how many, and one example each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, purpose: str, why: str, sample_id: str) -> None:
        """Count one error."""
        reason = why.partition(":")[0][:_LONGEST_REASON] or "unknown"
        example = {"sample_id": sample_id, "error": why[:_LONGEST_EXAMPLE]}
        one = self._found.setdefault(
            (purpose, reason), {"reason": reason, "count": 0, "example": example}
        )
        one["count"] += 1

    def describe(self, purpose: str) -> list[dict[str, Any]]:
        """Return the groups of a purpose, the largest first."""
        found = [one for (owner, _), one in self._found.items() if owner == purpose]
        return sorted(found, key=lambda one: (-one["count"], one["reason"]))


def count_calls(
    journal: CallStore, task: str, prices: Mapping[str, Price | None], retried: Reasons
) -> dict[str, dict[str, Any]]:
    """Return by purpose what was asked: counts, tokens, cost, latency, failures and retries by
    reason.

    `retried` has the reasons for asking again of this process; the count of retries is that of the
    whole run.
    """
    counts: dict[str, Counter[str]] = {}
    errors, batches = Reasons(), Counter[tuple[str, str]]()
    ages: dict[str, int] = {}
    for usage in (usages := journal.sum_usage(task)):
        own = counts.setdefault(usage.purpose, Counter())
        own.update(calls=usage.calls, failed=len(usage.failures))
        for sample_id, why in usage.failures:
            errors.add(usage.purpose, why, sample_id)
        if usage.source == "cache":
            if usage.oldest is not None:
                ages[usage.purpose] = max(0, round(time.time()) - usage.oldest)
            continue
        own.update(usage.tokens, asked=usage.calls, retries=usage.retries)
        if usage.source == BATCH_SOURCE:  # which costs half
            batches.update({(usage.purpose, name): count for name, count in usage.tokens.items()})
    described: dict[str, dict[str, Any]] = {}
    for purpose, own in counts.items():
        # Not by Polars, which raises Ctrl-C once more while this is said of a run that it has
        # stopped.
        made = [one.seconds for one in usages if one.purpose == purpose and one.source != "cache"]
        price, spans = prices.get(purpose), sorted(chain.from_iterable(made))
        cuts = (
            quantiles(spans if spans[1:] else 2 * spans, n=20, method="inclusive") if spans else []
        )
        cost = None
        if price is not None:
            half = [batches[purpose, name] for name in PRICED_NAMES]
            full = [own[name] - batches[purpose, name] for name in PRICED_NAMES]
            cost = charge(price, *full) + charge(price, *half, is_batch=True)
        described[purpose] = {
            "calls": own["calls"],
            "asked": own["asked"],
            "cached": own["calls"] - own["asked"],
            "oldest_seconds": ages.get(purpose),
            **{name: own[name] for name in ("failed", "retries", *USAGE_NAMES)},
            "cost": None if cost is None else round(cost, 6),
            "price": None if price is None else asdict(price),
            "latency": {"p50": round(cuts[9], 4), "p95": round(cuts[18], 4)} if cuts else None,
            "errors": errors.describe(purpose),
            "retried": retried.describe(purpose),
        }
    return described


# A task followed while its model is called: how far it is, how it goes, what is odd about it.


@dataclass(frozen=True)
class Judged:
    """How completions were judged; `invalid` is None for a scorer that knows no validity."""

    scored: int = 0
    correct: int = 0
    invalid: int | None = None

    def __add__(self, other: Judged) -> Judged:
        both = None if other.invalid is None else (self.invalid or 0) + other.invalid
        return Judged(self.scored + other.scored, self.correct + other.correct, both)


@dataclass(frozen=True)
class CallProgress:
    """How far the asking is. `known` calls were answered from the cache or the journal, and are
    done, too.

    `retried` counts attempts that will be made again. Tokens are those of calls made now. `pace` is
    in calls per second, `seconds_left` None when it cannot be told yet. `batches` are those that
    are waited for. `problem` is why the last attempt is made again, as long as nothing was answered
    since.
    """

    task: str
    purpose: str
    done: int
    total: int
    known: int = 0
    failed: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    pace: float | None = None
    seconds_left: float | None = None
    judged: Judged = field(default_factory=Judged)
    batches: tuple[BatchSeen, ...] = ()
    problem: str | None = None

    @property
    def accuracy(self) -> tuple[float, tuple[float, float]] | None:
        """The share of right completions so far, and its 95 % Wilson interval; None without any."""
        if not self.judged.scored:
            return None
        return self.judged.correct / self.judged.scored, wilson(
            self.judged.correct, self.judged.scored
        )

    @property
    def invalid_share(self) -> float | None:
        """The share of INVALID completions so far; None where the scorer knows none."""
        if not self.judged.scored or self.judged.invalid is None:
            return None
        return self.judged.invalid / self.judged.scored


class Listener(Protocol):
    """Who wants to see a run while it is under way."""

    def follow(self, observer: Observer) -> None:
        """Take the observer of a task that begins to ask; `look` may be called from any thread."""

    def warn(self, notice: Notice) -> None:
        """Hear what the user should know now; called from any thread, in a hurry."""

    def say(self, text: str) -> None:
        """Hear a line about how the run goes on."""


class Display(Listener, Protocol):
    """Who looks at one run, or at several at the same time."""

    def open_run(self, name: str, total: int) -> Display:
        """Return who looks at one of several runs, whose solvers make so many calls."""

    def report(self, stage: str, done: int, total: int) -> None:
        """Take how far a stage is."""

    def close(self, error: AnswerkeyError | None) -> None:
        """Take that the run is over, and what kept it from its end."""


class Observer:
    """Follows the calls of one task; safe for threads.

    `total` is how many calls of each purpose there will be. With `stops`, completions that make no
    sense end the asking: SolverError E305; where it `is_guarded`, only those that cannot be read
    do. Completions are judged as they come in by the task's main scorer, if that is one that judges
    thousands in no time.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        total: int,
        warn: Callable[[Notice], None],
        stops: bool = False,
        is_guarded: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key = prepared.key
        self.total = total
        self.retried = Reasons()
        self._warn = warn
        self._stops, self._is_guarded = stops, is_guarded
        self._clock = clock
        scorer = prepared.task.main_step.scorer
        self._scorer = scorer if scorer.type in {"string_equals_mcqa", "string_equals"} else None
        self._rows, self._columns = prepared.dataset.rows, prepared.columns
        self._places = self._rows.ids.to_frame("sample_id").with_row_index("position")
        # What actions leave out of the metrics is only known in the end.
        self._shows_accuracy = self._scorer is not None and not prepared.task.actions
        # The first completions of all; what is ranked is echoed, not said.
        solver = prepared.task.solver
        is_ranked = solver is not None and solver.ranks_continuations
        self._first: list[tuple[str, Completion]] | None = None if is_ranked else []
        self._counts: dict[str, Counter[str]] = {}
        self._purpose = SOLVE
        self._waiting: list[tuple[str, Completion]] = []
        self._judged = Judged()
        self._batches: dict[str, BatchSeen] = {}
        self._problem: str | None = None
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._lock = threading.Lock()
        self._looking = threading.Lock()

    def hear(self, event: Event) -> None:
        """Take an event in; raises SolverError E305 when the asking should stop."""
        if isinstance(event, Finished):
            self._note_finished(event.call, event.completion)
        elif isinstance(event, Remembered):
            self._note_remembered(event.calls)
        elif isinstance(event, Retried):
            with self._lock:
                self._count(event.call.purpose)["retried"] += 1
                self._problem = event.why
                self.retried.add(event.call.purpose, event.why, event.call.sample_id)
        elif isinstance(event, BatchSeen):
            with self._lock:
                self._batches[event.batch] = event
        elif isinstance(event, Reused):
            calls = len(event.completions)
            replies = Completions(
                [
                    completion
                    for completion in event.completions
                    if completion.status is not CompletionStatus.ERROR
                    and completion.source != NOT_ASKED
                ]
            )
            judged = self._judge(replies) if self._shows_accuracy else Judged()
            with self._lock:
                self._count(SOLVE).update(done=calls, known=calls)
                self._judged += judged
                self._first = None  # the run looked at them before it stopped
        elif isinstance(event, BatchLeft):
            what = f"the batch `{event.batch}` of {event.calls} calls"
            hint = "`answerkey resume` collects it; nothing is handed in twice"
            self._warn(Notice(f"{what} goes on at the endpoint, and is paid for", hint=hint))

    def _note_finished(self, call: Call, completion: Completion) -> None:
        with self._lock:
            counts = self._count(call.purpose)
            self._problem = None
            counts["done"] += 1
            counts["prompt_tokens"] += completion.prompt_tokens or 0
            counts["completion_tokens"] += completion.completion_tokens or 0
            if completion.status is CompletionStatus.ERROR:
                counts["failed"] += 1
                return
        if call.purpose == SOLVE:
            self._expect_judgement([(call, completion)])
            self._look_at_first([(call, completion)])

    def _note_remembered(self, calls: FinishedCalls) -> None:
        """Count calls that are not made, and judge their completions."""
        said = [pair for pair in calls if pair[1].status is not CompletionStatus.ERROR]
        with self._lock:
            counts = self._count(calls[0][0].purpose)
            counts.update(done=len(calls), known=len(calls), failed=len(calls) - len(said))
        if calls[0][0].purpose == SOLVE:
            self._expect_judgement(said)
            self._look_at_first(said)

    def _expect_judgement(self, said: FinishedCalls) -> None:
        """Keep completions until somebody looks, or there are many."""
        if not self._shows_accuracy:
            return
        with self._lock:
            self._waiting += [(call.sample_id, completion) for call, completion in said]
            is_full = len(self._waiting) >= WAITING
        if is_full:
            self._judge_waiting()

    def _look_at_first(self, said: FinishedCalls) -> None:
        """Say what the first completions of all have in common, once there are enough of them."""
        with self._lock:
            if self._first is None:
                return
            first = self._first
            first += [(call.sample_id, one) for call, one in said[: FIRST - len(first)]]
            if len(first) < FIRST:
                return
            self._first = None
        if found := judge_first([one for _, one in first], self._judge(_build_table(first))):
            notice, is_useless, is_unread = found
            if (self._stops and is_useless) or (self._is_guarded and is_unread):
                hint = (notice.hint or "").removeprefix("Ctrl-C stops the run; ")
                hint += (
                    "; `answerkey doctor` shows more; `--no-stop-on-nonsense` starts a run "
                    "that goes on"
                )
                raise SolverError("E305", f"stopped: {notice.message}", hint=hint)
            self._warn(notice)

    def _count(self, purpose: str) -> Counter[str]:
        if purpose != self._purpose:
            self._purpose = purpose
            self._marks = deque([(self._clock(), 0)])
        return self._counts.setdefault(purpose, Counter())

    def look(self) -> CallProgress:
        """Return how far the asking is now."""
        self._judge_waiting()
        with self._lock:
            counts = self._counts.get(self._purpose, Counter[str]())
            done = counts["done"]
            pace = self._measure_pace(done - counts["known"])
            names = ("known", "failed", "retried", "prompt_tokens", "completion_tokens")
            return CallProgress(
                task=self.key,
                purpose=self._purpose,
                done=done,
                total=max(self.total, done),
                **{name: counts[name] for name in names},
                pace=pace,
                seconds_left=max(0, self.total - done) / pace if pace else None,
                judged=self._judged,
                batches=tuple(one for one in self._batches.values() if not one.is_over),
                problem=self._problem,
            )

    @property
    def solved(self) -> int:
        """How many calls of the solver are done."""
        with self._lock:
            return self._counts.get(SOLVE, Counter[str]())["done"]

    def _measure_pace(self, asked: int) -> float | None:
        """Return the calls per second of the last seconds.

        None before there is a second to look back on.
        """
        now = self._clock()
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now - WINDOW_SECONDS:
            marks.popleft()
        then, before = marks[0]
        marks.append((now, asked))
        return (asked - before) / (now - then) if now - then >= 1 else None

    def _judge_waiting(self) -> None:
        with self._looking:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if waiting:
                judged = self._judge(_build_table(waiting))
                with self._lock:
                    self._judged += judged

    def _judge(self, completions: Completions) -> Judged:
        """Return how completions are judged; nothing by a slow scorer."""
        if self._scorer is None:
            return Judged()
        ids = completions.column("sample_id").to_frame()
        try:
            # Each once, though it may have several trials; the others stay where they are.
            some = self._places.filter(pl.col("sample_id").is_in(ids["sample_id"].implode()))
            samples = self._rows.take(some["position"]).load(self._columns)
            order = ids.join(
                some.with_row_index(), on="sample_id", how="left", maintain_order="left"
            )["index"]
            scores = self._scorer.score(samples.take(order), completions)
            is_judged = "completion_validity" in (self._scorer.metadata_names or ())
            validities = [score.metadata.get("completion_validity") for score in scores]
            return Judged(
                scored=sum(score.status is ScoreStatus.SCORED for score in scores),
                correct=int(sum(score.values.get("is_correct") or 0 for score in scores)),  # type: ignore[misc]  # a number
                invalid=validities.count(Validity.INVALID.value) if is_judged else None,
            )
        except AnswerkeyError:  # it will say so when its turn comes
            return Judged()
        except KeyboardInterrupt:  # of Polars, which raises it in the thread whose query it ends
            _thread.interrupt_main()
            return Judged()


def _build_table(said: Sequence[tuple[str, Completion]]) -> Completions:
    """Return the table of completions, each with the id of its sample, as far as they are
    judged.
    """
    completions = [one.with_fields(prompt=None, logprobs=None) for _, one in said]
    return Completions.build([sample_id for sample_id, _ in said], completions, source="live")


def judge_first(said: Sequence[Completion], judged: Judged) -> tuple[Notice, bool, bool] | None:
    """Return what is wrong with the first completions, whether it makes the rest useless, or
    unreadable.

    A letter cut off after one token may be just what was wanted, and is only worth a warning.
    """
    cut, invalid = sum(one.finish_reason == "length" for one in said), judged.invalid or 0
    is_invalid = bool(judged.scored) and invalid >= UNREAD_SHARE * judged.scored
    # A dataset that is sorted by its truths has the same right answer fifty times.
    is_right = bool(judged.scored) and judged.correct == judged.scored
    is_same = len({(one.status, one.text) for one in said}) == 1 and not is_right
    told = {
        "all INVALID" if invalid == judged.scored else f"mostly INVALID ({invalid})": is_invalid,
        "all the same": is_same,
        "all cut off by the token limit": cut == len(said),
    }
    found = [what for what, is_so in told.items() if is_so]
    if not found:
        return None
    text = said[0].text or ""
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    shown = f"no text ({said[0].status.value})" if said[0].text is None else shown
    all_of_it = " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)
    if 2 * cut > len(said):
        advice = "raise `max_tokens` in the model's `generation`, unless one letter is all you want"
    else:
        wanted = "ask for the letter alone" if is_invalid else "hold the question and the options"
        advice = f"`--dry-run` shows the prompt: does it {wanted}?"
    message = f"the first {len(said)} completions are {all_of_it}; for example {shown}"
    is_useless = is_invalid or is_same or 2 * invalid >= judged.scored
    return Notice(message, hint=f"Ctrl-C stops the run; {advice}"), is_useless, is_invalid


# The time in which a run calls its models.


class NullProgress:
    """The progress display of a run that nobody watches."""

    def open_run(self, name: str, total: int) -> NullProgress:  # noqa: ARG002 - as for all of them
        """Return the display itself: it shows nothing."""
        return self

    def report(self, stage: str, done: int, total: int) -> None:
        """Look away."""

    def follow(self, observer: Observer) -> None:
        """Look away."""

    def warn(self, notice: Notice) -> None:
        """Keep quiet."""

    def say(self, text: str) -> None:
        """Keep quiet."""

    def close(self, error: AnswerkeyError | None) -> None:
        """Keep quiet."""


@dataclass
class Session:
    """The time in which a run calls its models."""

    writer: RunWriter
    options: Options
    listener: Listener
    cache: CallCache
    stack: ExitStack
    budget: Budget
    max_open: int | None = None
    _observers: dict[str, Observer] = field(default_factory=dict)
    _models: dict[tuple[str, str], Model] = field(default_factory=dict)
    _tasks: dict[str, Task] = field(default_factory=dict)
    _given_up: set[object] = field(default_factory=set)

    def bind(self, prepared: Prepared) -> Prepared:
        """Return the task with its live models bound to the run.

        The session closes them in the end. The repetitions of a task share its models. Scorers that
        call one are given theirs.
        """
        observer = self._observers.get(prepared.key)
        if any(stores_calls(one) for one in prepared.models.values()):
            if observer is None:
                stops = self.options.stop_on_nonsense
                # A batch is paid for when its completions come, and a fallback reads what a rule
                # does not.
                is_last = self.options.batch or any(
                    one.startswith("fallback:") for one in prepared.models
                )
                guards = stops is None and calls_endpoint(prepared.model) and not is_last
                warn = self.listener.warn
                observer = Observer(
                    prepared, total=0, warn=warn, stops=bool(stops), is_guarded=guards
                )
                self._observers[prepared.key] = observer
                self.listener.follow(observer)
            observer.total += prepared.num_calls * _count_continuations(prepared)
        for purpose, model in prepared.models.items():
            if (prepared.key, purpose) not in self._models:
                bound = self._bind_model(model, prepared.key, purpose, observer)
                self._models[prepared.key, purpose] = bound
        if prepared.key not in self._tasks:
            steps = []
            for step in prepared.task.scoring:
                scorer = step.scorer
                if step.key in prepared.judges and asks_model(scorer):
                    scorer = scorer.bind(
                        self._models[prepared.key, name_purpose(step)], key=step.key
                    )
                    if hasattr(scorer, "close"):
                        self.stack.callback(scorer.close)
                steps.append(replace(step, scorer=scorer))
            self._tasks[prepared.key] = replace(prepared.task, scoring=tuple(steps))
        specification = replace(prepared.specification, task=self._tasks[prepared.key])
        return replace(
            prepared, model=self._models.get((prepared.key, SOLVE)), specification=specification
        )

    def _bind_model(self, model: Model, key: str, purpose: str, observer: Observer | None) -> Model:
        if observer is None or not stores_calls(model):
            return model
        model = replace(model, limits=replace(model.limits, max_open=self.options.max_concurrent))
        bound = replace(
            model,
            ledger=RunLedger(self._journal, self.cache, key),
            budget=self.budget,
            watch=observer.hear,
        )
        if calls_endpoint(bound):
            # Where batches are written down; calls are sent one by one without.
            batches = self._journal if purpose == SOLVE and self.options.batch else None
            for one in (
                self._journal.list_batches(bound.identity)
                if purpose == SOLVE and not batches
                else ()
            ):
                message = (
                    f"`--no-batch` cannot be used yet: the batch `{one.batch or one.file}` "
                    "is under way"
                )
                hint = (
                    "`answerkey resume` without it collects it; what failed may then be "
                    "sent one by one"
                )
                raise SpecError("E119", message, hint=hint)
            bound = replace(
                bound,
                limits=replace(bound.limits, max_open=self.max_open),
                price=choose_price(bound, self.options),
                batches=batches,
            )
        self.stack.callback(bound.close)
        return bound

    def close_models(self, key: str) -> None:
        """Close the connections of a task that is done: the next one opens its own."""
        for (task, _), model in self._models.items():
            if task == key and stores_calls(model):
                model.close()

    def give_up(self, key: str) -> None:
        """Remember which models of a task could not be called; close all of them."""
        models = [model for (task, _), model in self._models.items() if task == key]
        lost = [one for one in models if calls_endpoint(one) and one.is_given_up]
        self._given_up.update(map(find_account, lost or models))
        self.close_models(key)

    def has_given_up(self, prepared: Prepared) -> bool:
        """Whether a task needs a model that could not be called before."""
        return not self._given_up.isdisjoint(map(find_account, prepared.models.values()))

    def describe(self, key: str) -> dict[str, Any]:
        """Return what the task asked, for its entry in `run.json`; nothing for one without a live
        model.
        """
        observer = self._observers.get(key)
        if observer is None:
            return {}
        prices = {
            purpose: model.price
            for (task, purpose), model in self._models.items()
            if task == key and calls_endpoint(model)
        }
        return {"calls": count_calls(self._journal, key, prices, observer.retried)}

    @property
    def _journal(self) -> CallStore:
        return self.writer.journal()


@contextmanager
def open_session(
    tasks: Sequence[Prepared],
    writer: RunWriter,
    options: Options,
    listener: Listener | None,
    *,
    num_beside: int = 0,
) -> Iterator[Session]:
    """Yield the session of a run; close its models and the cache afterwards.

    What is wrong with the cache is added to the run's notices.
    """
    models = {
        (one.key, purpose): model
        for one in tasks
        for purpose, model in one.models.items()
        if stores_calls(model)
    }
    with ExitStack() as stack:
        cache = stack.enter_context(closing(CallCache(options.cache_policy or "no-cache")))
        budget = Budget(max_calls=options.max_calls, max_cost=options.max_cost)
        is_limited = options.max_calls is not None or options.max_cost is not None
        journal = writer.journal() if models else None
        for usage in (
            journal.sum_usage() if journal and is_limited else ()
        ):  # used before the run stopped
            if usage.source not in {"live", BATCH_SOURCE}:
                continue
            budget.calls += usage.calls
            model = models.get((usage.task, usage.purpose))
            price = choose_price(model, options) if calls_endpoint(model) else None
            if price is not None:
                tokens = (usage.tokens[name] for name in PRICED_NAMES)
                budget.spent += charge(price, *tokens, is_batch=usage.source == BATCH_SOURCE)
        listener = listener or NullProgress()
        if writer.is_resumed and models:
            _tell_known(tasks, writer, listener)
        for one in tasks:
            most = one.num_calls * one.specification.num_runs
            about = f"completions of `{one.key}` in which no choice is read, at most {most:,}"
            for purpose, named in one.models.items():
                if purpose.startswith("fallback:"):
                    listener.say(f"fallback: `{named.name}` is asked about {about}")
        max_open, notices = _fit_connections(tasks, num_beside)
        for notice in notices:
            listener.warn(notice)
        max_open = min(filter(None, (max_open, options.max_concurrent)), default=None)
        yield Session(writer, options, listener, cache, stack, budget, max_open)
        notices = [*notices, *cache.notices]
        if journal is not None and journal.damaged:
            notices.append(_describe_loss(len(journal.damaged)))
        heard = map(str, notices)
        writer.manifest["notices"] = [*writer.manifest["notices"], *heard]


def _fit_connections(tasks: Sequence[Prepared], num_beside: int) -> tuple[int | None, list[Notice]]:
    """Return how many connections each model can have where that is less than it wants, and say so.

    The models of one task are called together, and those of the runs beside this one.
    """
    live = [[model for model in one.models.values() if calls_endpoint(model)] for one in tasks]
    wanted = [
        one.limits.choose_concurrent(one.connection.max_concurrent) for task in live for one in task
    ]
    room = find_room() if wanted else None
    most = None if room is None else max(1, room // max(map(len, live)) // (1 + num_beside))
    if most is None or most >= max(wanted):
        return None, []
    message = (
        f"at most {most} of {max(wanted)} requests are sent at once: this process may open "
        "few files"
    )
    return most, [Notice(message, hint="raise the limit of open files: `ulimit -n 4096`")]


def _describe_loss(count: int) -> Notice:
    hint = "their calls are made again, unless another copy of the journal has them"
    return Notice(f"damaged or missing records of the journal: {count:,}", hint=hint)


def _tell_known(tasks: Sequence[Prepared], writer: RunWriter, listener: Listener) -> None:
    """Say what the journal of a run that goes on knows, and what is lost of it."""
    journal, entries = writer.journal(), writer.manifest["tasks"]
    calls, failed = journal.count()
    told = sum(one["calls"] for entry in entries for one in (entry.get("calls") or {}).values())
    if lost := max(journal.lost + writer.lost_records, told - calls):
        notice = _describe_loss(lost)
        listener.warn(notice)
        for entry in entries:
            entry.pop("calls", None)  # so that it is told once
        writer.manifest["notices"] = [*writer.manifest["notices"], str(notice)]
        writer.write_manifest()
    known = calls - failed
    left, is_exact = -known, True
    for one in tasks:
        for purpose in (purpose for purpose, model in one.models.items() if stores_calls(model)):
            size = _count_continuations(one) if purpose == SOLVE else 1
            left += one.num_calls * size * one.specification.num_runs
            is_exact &= purpose == SOLVE  # a judge or a fallback is not asked about every sample
    listener.say(f"calls: {known:,} known, {'' if is_exact else 'at most '}{max(0, left):,} left")


def _count_continuations(prepared: Prepared) -> int:
    """Return how many calls a question is.

    The first sample tells, where the solver ranks continuations.
    """
    solver = prepared.task.solver
    if solver is None or not solver.ranks_continuations or not len(prepared.dataset):
        return 1
    first = prepared.dataset.rows.slice(0, 1).load(prepared.columns)
    return max(1, len(solver.list_calls(first, prepared.examples)[0]))


def calls_live(tasks: Sequence[Prepared]) -> bool:
    """Return whether tasks call a model that is not built in."""
    return any(stores_calls(model) for one in tasks for model in one.models.values())


def count_questions(tasks: Sequence[Prepared]) -> int:
    """Return how many calls solvers will make, those whose answers are known already among them."""
    live = [one for one in tasks if stores_calls(one.model)]
    return sum(
        one.num_calls * _count_continuations(one) * one.specification.num_runs for one in live
    )


def share_turns(
    tasks: Sequence[Prepared], turns: dict[object, threading.Lock], options: Options
) -> Sequence[Prepared]:
    """Return tasks whose models take turns with those of other tasks that have the same host and
    key.

    A batch holds up nobody.
    """

    def share(model: Model | None) -> Any:  # noqa: ANN401 - the model, or one like it
        if not calls_endpoint(model):
            return model
        return replace(model, turn=turns.setdefault(find_account(model), threading.Lock()))

    return [
        replace(
            one,
            model=one.model if options.batch else share(one.model),
            judges={key: share(judge) for key, judge in one.judges.items()},
        )
        for one in tasks
    ]


def choose_price(model: LiveModel, options: Options) -> Price | None:
    """Return what a model's tokens cost: as the caller says, else as is known of it."""
    price = options.read_price() or model.connection.find_price()
    return None if price is None else model.connection.price_cache(price)


def require_askable(tasks: Sequence[Prepared], options: Options) -> None:
    """Raise, before anything is asked or written, for a key that is missing and a limit that cannot
    hold.
    """
    errors: list[AnswerkeyError] = []
    for purpose, model in (pair for one in tasks for pair in one.models.items()):
        is_batch = bool(options.batch and purpose == SOLVE)
        if not calls_endpoint(model):
            if is_batch and stores_calls(model):
                message = f"`batch` cannot be used with `{model.name}`: it is code, and no endpoint"
                errors.append(SpecError("E119", message))
            if options.max_cost is not None and stores_calls(model) and not is_identified(model):
                message = f"`max_cost` cannot hold: what `{model.name}` costs is not known"
                errors.append(SpecError("E119", message, hint="use `max_calls`"))
            continue
        try:
            model.require_ready()
            if is_batch:
                model.connection.require_batches()
        except SpecError as error:
            errors.append(error)
        if (
            is_batch
            and options.max_cost is not None
            and model.connection.generation.max_tokens is None
        ):
            hint = "set `max_tokens`, or use `--max-calls`"
            message = f"`--max-cost` cannot hold in a batch: `{model.name}` has no `max_tokens`"
            errors.append(SpecError("E119", message, hint=hint))
        if options.max_cost is not None and choose_price(model, options) is None:
            hint = "say it with `--price IN:OUT` (USD per million tokens), or use `--max-calls`"
            message = f"`--max-cost` cannot hold: what `{model.name}` costs is not known"
            errors.append(SpecError("E119", message, hint=hint))
    raise_all(distinct(errors))
