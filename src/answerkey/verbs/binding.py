"""Live models of a run: bound to its journal, with the call cache behind it, its limits, and who looks on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from answerkey.engines import LocalEngine
from answerkey.errors import AnswerkeyError, SpecError, raise_all
from answerkey.models.cache import CallCache
from answerkey.models.calls import Budget, Price, find_room
from answerkey.models.model import LiveModel, Model, SnippetModel
from answerkey.pipeline import Prepared
from answerkey.runs import Journal, RunWriter
from answerkey.solvers import ChoiceRankingSolver
from answerkey.spec import Task
from answerkey.types import CompletionStatus, Notice
from answerkey.verbs.judge_models import SOLVE, list_models, name_purpose, place_judges
from answerkey.verbs.observing import Observer, Onlooker
from answerkey.verbs.opening import Opened
from answerkey.verbs.options import Options
from answerkey.verbs.tallying import tally_calls

if TYPE_CHECKING:
    from answerkey.models.actors import ActorHost


class NobodyLooks:
    """An onlooker for runs that nobody watches."""

    def follow(self, observer: Observer) -> None:
        """Look away."""

    def warn(self, notice: Notice) -> None:
        """Keep quiet."""

    def say(self, text: str) -> None:
        """Keep quiet."""


@dataclass
class Session:
    """The time in which a run asks its models."""

    writer: RunWriter
    options: Options
    onlooker: Onlooker
    cache: CallCache
    stack: ExitStack
    budget: Budget
    actors: ActorHost | None = None
    max_open: int | None = None
    _observers: dict[str, Observer] = field(default_factory=dict)
    _models: dict[tuple[str, str], Model] = field(default_factory=dict)
    _tasks: dict[str, Task] = field(default_factory=dict)

    def bind(self, prepared: Prepared) -> Prepared:
        """Return the task with its live models bound to the run; the session closes them in the end.

        The repetitions of a task share its models. Scorers that ask are given theirs.
        """
        models = list_models(prepared)
        observer = self._observe(prepared) if any(map(_is_asked, models.values())) else None
        for purpose, model in models.items():
            if (prepared.key, purpose) not in self._models:
                bound = self._bind_model(model, prepared.key, purpose, observer)
                self._models[prepared.key, purpose] = bound
        if prepared.key not in self._tasks:
            self._tasks[prepared.key] = self._place_judges(prepared)
        solving = self._models.get((prepared.key, SOLVE))
        return replace(prepared, model=solving, task=self._tasks[prepared.key])

    def _place_judges(self, prepared: Prepared) -> Task:
        judges = {key: self._models[prepared.key, name_purpose(key)] for key in prepared.judges}
        task = place_judges(prepared.task, judges)
        for step in task.scoring:
            if step.key in judges and hasattr(step.scorer, "close"):
                self.stack.callback(step.scorer.close)
        return task

    def _bind_model(self, model: Model, key: str, purpose: str, observer: Observer | None) -> Model:
        if observer is None or not isinstance(model, LiveModel | SnippetModel):
            return model
        ledger = self._journal.task(key)
        if isinstance(model, LiveModel):
            price = choose_price(model, self.options)
            book = self._find_book(model) if purpose == SOLVE else None
            bound: LiveModel | SnippetModel = model.bind(
                *(ledger, self.budget, observer.hear),
                limits=replace(model.limits, max_open=self.max_open),
                price=price,
                batches=book,
                actors=self.actors,
            )
        else:
            bound = model.bind(ledger, self.budget, observer.hear)
        self.stack.callback(bound.close)
        return bound

    def _find_book(self, model: LiveModel) -> Journal | None:
        """Return where batches are written down; None when calls are sent one by one."""
        if self.options.batch:
            return self._journal
        for one in self._journal.list_batches(model.identity):
            raise SpecError(
                "E119",
                f"`--no-batch` cannot be used yet: the batch `{one.batch or one.file}` is under way",
                hint="`answerkey resume` without it collects it; what failed may then be sent one by one",
            )
        return None

    def close_models(self, key: str) -> None:
        """Close the connections of a task that is done: the next one opens its own."""
        for (task, _), model in self._models.items():
            if task == key and isinstance(model, LiveModel | SnippetModel):
                model.close()

    def describe(self, key: str) -> dict[str, Any]:
        """Return what the task asked, for its entry in `run.json`; nothing for one without a live model."""
        observer = self._observers.get(key)
        if observer is None:
            return {}
        prices = {
            purpose: model.price
            for (task, purpose), model in self._models.items()
            if task == key and isinstance(model, LiveModel)
        }
        return {"calls": tally_calls(self._journal.list_calls(key), prices, observer.retried)}

    @property
    def _journal(self) -> Journal:
        return self.writer.journal(self.cache)

    def _observe(self, prepared: Prepared) -> Observer:
        observer = self._observers.get(prepared.key)
        if observer is None:
            warn, stops = self.onlooker.warn, self.options.stop_on_nonsense
            observer = self._observers[prepared.key] = Observer(prepared, total=0, warn=warn, stops=stops)
            self.onlooker.follow(observer)
        observer.total += count_calls(prepared) * _count_continuations(prepared)
        return observer


@contextmanager
def open_session(
    opened: Sequence[Opened],
    writer: RunWriter,
    options: Options,
    onlooker: Onlooker | None,
    actors: ActorHost | None = None,
) -> Iterator[Session]:
    """Yield the session of a run; close its models and the cache afterwards.

    With `actors`, models are asked from there. What is wrong with the cache is added to the run's notices.
    """
    with ExitStack() as stack:
        cache = stack.enter_context(closing(CallCache(options.cache_policy or "reuse")))
        budget = _open_budget(opened, writer, cache, options)
        onlooker = onlooker or NobodyLooks()
        if writer.is_resumed:
            _tell_known(opened, writer, cache, onlooker)
        max_open, notices = (None, []) if actors is not None else _fit_connections(opened)
        for notice in notices:
            onlooker.warn(notice)
        yield Session(writer, options, onlooker, cache, stack, budget, actors, max_open)
        heard = map(str, (*notices, *cache.notices))
        writer.manifest["notices"] = [*writer.manifest["notices"], *heard]


def _fit_connections(opened: Sequence[Opened]) -> tuple[int | None, list[Notice]]:
    """Return how many connections each model can have where that is less than it wants, and say so.

    The models of one task are asked together.
    """
    tasks = [list_models(one.prepared).values() for one in opened]
    live = [[model for model in models if isinstance(model, LiveModel)] for models in tasks]
    wanted = [one.limits.choose_concurrent(one.connection.max_concurrent) for task in live for one in task]
    room = find_room() if wanted else None
    most = None if room is None else max(1, room // max(map(len, live)))
    if most is None or most >= max(wanted):
        return None, []
    message = f"at most {most} of {max(wanted)} requests are sent at once: this process may open few files"
    return most, [Notice(message, hint="raise the limit of open files: `ulimit -n 4096`")]


def _open_budget(opened: Sequence[Opened], writer: RunWriter, cache: CallCache, options: Options) -> Budget:
    """Return the budget of the run, less what it has used before it stopped."""
    budget = Budget(max_calls=options.max_calls, max_cost=options.max_cost)
    models = {
        (one.prepared.key, purpose): model
        for one in opened
        for purpose, model in list_models(one.prepared).items()
    }
    if not any(map(_is_asked, models.values())):
        return budget
    for usage in writer.journal(cache).sum_usage():
        budget.calls += usage.calls
        model = models.get((usage.specification, usage.purpose))
        price = choose_price(model, options) if isinstance(model, LiveModel) else None
        if price is not None:
            budget.spent += price.charge(usage.prompt_tokens, usage.completion_tokens)
    return budget


def _tell_known(opened: Sequence[Opened], writer: RunWriter, cache: CallCache, onlooker: Onlooker) -> None:
    """Say what the journal of a run that goes on knows, and what is lost of it."""
    asked = [
        (one, purpose)
        for one in opened
        for purpose, model in list_models(one.prepared).items()
        if _is_asked(model)
    ]
    if not asked:
        return
    journal = writer.journal(cache)
    counts = journal.count()
    entries = writer.manifest["tasks"]
    told = sum(one["calls"] for entry in entries for one in (entry.get("calls") or {}).values())
    if lost := max(journal.lost + writer.lost_records, told - sum(counts.values())):
        hint = "their calls are made again, unless another copy of the journal or the call cache knows them"
        notice = Notice(f"damaged or missing records of the journal: {lost:,}", hint=hint)
        onlooker.warn(notice)
        for entry in entries:
            entry.pop("calls", None)  # so that it is told once
        writer.manifest["notices"] = [*writer.manifest["notices"], str(notice)]
        writer.write_manifest()
    known = sum(counts.values()) - counts.get(CompletionStatus.ERROR.value, 0)
    left = sum(_count_all(one, purpose) for one, purpose in asked) - known
    is_exact = all(purpose == SOLVE for _, purpose in asked)  # a judge is not asked about every sample
    onlooker.say(f"calls: {known:,} known, {'' if is_exact else 'at most '}{max(0, left):,} left")


def _count_all(opened: Opened, purpose: str) -> int:
    """Return how many calls a task makes for a purpose, in all its repetitions."""
    size = _count_continuations(opened.prepared) if purpose == SOLVE else 1
    return count_calls(opened.prepared) * size * opened.specification.num_runs


def _is_asked(model: Model) -> bool:
    """Return whether a model's answers go through the journal."""
    return isinstance(model, LiveModel | SnippetModel)


def count_calls(prepared: Prepared) -> int:
    """Return how many questions a task has: every sample that is in order, in every trial."""
    return (len(prepared.dataset) - len(prepared.failed)) * len(list_trials(prepared))


def _count_continuations(prepared: Prepared) -> int:
    """Return how many calls a question is; the first sample tells, where the solver ranks continuations."""
    solver = prepared.task.solver
    if not isinstance(solver, ChoiceRankingSolver) or not len(prepared.dataset):
        return 1
    first = prepared.dataset.rows.slice(0, 1).load(prepared.columns)
    return max(1, len(solver.list_calls(first, prepared.examples)[0]))


def list_trials(prepared: Prepared) -> range:
    """Return the numbers of the trials that a task asks; a repetition has trials of its own."""
    size = prepared.task.num_trials
    return range(prepared.repetition * size, (prepared.repetition + 1) * size)


def choose_price(model: LiveModel, options: Options) -> Price | None:
    """Return what a model's tokens cost: as the caller says, else as is known of it."""
    return options.read_price() or model.connection.find_price()


def require_askable(opened: Sequence[Opened], options: Options) -> None:
    """Raise, before anything is asked or written, for a key that is missing and a limit that cannot hold."""
    errors: list[AnswerkeyError] = []
    asked = [pair for one in opened for pair in list_models(one.prepared).items()]
    for purpose, model in asked:
        is_batch = bool(options.batch and purpose == SOLVE)
        if is_batch and isinstance(model, SnippetModel):
            errors.append(SpecError("E119", f"`--batch` cannot be used with `{model.name}`: it is a snippet"))
        if not isinstance(model, LiveModel):
            continue
        errors.extend(_find_obstacles(model, options, is_batch=is_batch))
        if options.max_cost is not None and choose_price(model, options) is None:
            errors.append(
                SpecError(
                    "E119",
                    f"`--max-cost` cannot hold: what `{model.name}` costs is not known",
                    hint="say it with `--price IN:OUT` (USD per million tokens), or use `--max-calls`",
                )
            )
    raise_all(list({str(error): error for error in errors}.values()))


def _find_obstacles(model: LiveModel, options: Options, *, is_batch: bool) -> list[AnswerkeyError]:
    """Return why a model cannot be asked: a key that is missing, or an API that has no batches."""
    errors: list[AnswerkeyError] = []
    try:
        model.require_ready()
        if is_batch or options.engine == LocalEngine.name:
            model.connection.require_address()
        if is_batch:
            model.connection.require_batches()
    except SpecError as error:
        errors.append(error)
    if is_batch and options.max_cost is not None and model.connection.generation.max_tokens is None:
        hint = "set `max_tokens`, or use `--max-calls`"
        message = f"`--max-cost` cannot hold in a batch: `{model.name}` has no `max_tokens`"
        errors.append(SpecError("E119", message, hint=hint))
    return errors
