"""From a task specification and the caller's options to a task with everything opened, ready to run.

Dataset, completions, model, judges and examples are opened; which columns are read, how many rows are one
shard, and how shards are spread over threads or processes is decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

from answerkey.datasets import (
    BlankCompletions,
    Dataset,
    Recorded,
    Rows,
    Selection,
    Shard,
    cut_shards,
    digest_file,
    find_own_completions,
    load_table,
    match_completions,
    name_lasting,
    open_dataset,
    pin_source,
    refuse_single,
)
from answerkey.datasets.downloads import hide_query
from answerkey.engines import Spread
from answerkey.errors import AnswerkeyError, DataError, InternalError, SpecError, listing, raise_all, suggest
from answerkey.evaluate.choice_order import name_completions, order_dataset, refuse_unordered
from answerkey.metrics import find_category_column
from answerkey.models import LiveModel, Model, ModelConfig, Price, open_model
from answerkey.models.cache import CachePolicy
from answerkey.models.config import is_url
from answerkey.scorers import (
    AskingScorer,
    ChoiceProbabilities,
    Scorer,
    StringEquals,
    StringEqualsMcqa,
    choose_audited,
    compile_templates,
)
from answerkey.scorers.extraction import find_rule
from answerkey.solvers import (
    ChoiceRankingSolver,
    PassThroughSolver,
    SingleTurnSolver,
    Solver,
    find_column,
    require_echo,
)
from answerkey.spec import DatasetSpec, Overrides, ScoringStep, Specification, Task, load_feature
from answerkey.spec import load_task as load_task_file
from answerkey.templates import Template
from answerkey.types import Notice, Samples

#: What a resumed run takes over from its folder, and nothing else. Trust, allowed hosts and environment files
#: are the caller's to give again: a folder from elsewhere must not run code, or choose who gets a key.
STORED = (
    *("config", "model", "dataset", "completions", "completion_column", "num_samples", "subsampling", "seed"),
    *("allow_failed", "engine", "ray_address", "copy", "cache_policy", "max_calls", "max_cost", "price"),
    "batch",
)
PATHS = ("dataset", "completions")
MILLION = 1_000_000
WHOLE = 100


@dataclass(frozen=True)
class Options:
    """The options of `run`, `score`, `check` and `plan_calls`; they win over what the files say.

    `allow_failed` is a number of rows or a share such as `"2%"`; `env` replaces the `.env` beside the file.
    `max_cost` is in USD, and `price` says what a million tokens cost, `"IN:OUT"`, where that is not known.
    With `batch`, the calls of a solver are handed in together. `policies` (a file, or plain values of the
    same form) replace those of the run file; `baseline` is the folder of a run to be no worse than. With the
    engine `ray`, `ray_address` names a cluster; without it one is started here.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    model: str | None = None
    dataset: str | None = None
    completions: str | None = None
    completion_column: str | None = None
    num_samples: int | None = None
    subsampling: Literal["head", "random"] | None = None
    seed: int | None = None
    env: str | None = None
    allow_outside: bool = False
    allow_failed: int | str | None = None
    trust_code: bool = False
    engine: str = "local"
    ray_address: str | None = None
    copy: bool = False
    cache_policy: CachePolicy | None = None
    allow_hosts: tuple[str, ...] = ()
    max_calls: int | None = None
    max_cost: float | None = None
    price: str | None = None
    stop_on_nonsense: bool = False
    batch: bool | None = None
    policies: str | Path | Mapping[str, object] | Sequence[object] | None = None
    baseline: str | Path | None = None

    @property
    def brings_completions(self) -> bool:
        """Whether the completions are recorded ones, so that no model is needed."""
        return self.completions is not None or self.completion_column is not None

    def overrides(self) -> Overrides:
        """Return what the files are read with."""
        return Overrides(
            config=self.config,
            model=self.model,
            dataset=self.dataset,
            completions=self.completions or self.completion_column,
            num_samples=self.num_samples,
            subsampling=self.subsampling,
            seed=self.seed,
            env_file=self.env,
            allow_outside=self.allow_outside,
            allow_hosts=tuple(self.allow_hosts),
            policies=self.policies,
            baseline=self.baseline,
        )

    def stored(self) -> dict[str, object]:
        """Return what a resumed run takes over, as plain values; paths are absolute."""
        values = {name: value for name in STORED if (value := getattr(self, name)) is not None}
        values |= {name: _make_absolute(str(values[name])) for name in PATHS if name in values}
        plain: dict[str, object] = json.loads(json.dumps(values, default=str))
        return plain

    def failed_limit(self, rows: int) -> int:
        """Return how many of `rows` may be FAILED."""
        if self.allow_failed is None:
            return 0
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(self.allow_failed))
        if not match or (not match[2] and "." in match[1]):
            raise SpecError(
                "E119",
                f"`--allow-failed {self.allow_failed}` is neither a number of rows nor a share",
                hint="write `--allow-failed 5` or `--allow-failed 2%`",
            )
        if match[2] and float(match[1]) > WHOLE:
            message = f"`--allow-failed {self.allow_failed}` is more than all rows"
            raise SpecError("E119", message, hint="write a share of at most `100%`, or a number of rows")
        return int(float(match[1]) / WHOLE * rows) if match[2] else int(match[1])

    def read_price(self) -> Price | None:
        """Return what one token costs, as the caller says; None when the caller does not."""
        if self.price is None:
            return None
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*:\s*(\d+(?:\.\d+)?)\s*", self.price)
        if not match:
            raise SpecError(
                "E119",
                f"`--price {self.price}` is not of the form `IN:OUT`",
                hint="write what a million tokens cost in USD, prompt and completion: `--price 0.15:0.60`",
            )
        return Price(float(match[1]) / MILLION, float(match[2]) / MILLION)


def _make_absolute(given: str) -> str:
    """Return a path that does not depend on the current folder; an address loses what may be secret in it."""
    return hide_query(given) if is_url(given) else name_lasting(given)


def read_options(verb: str, given: Mapping[str, object]) -> Options:
    """Return the options of a verb; TypeError for one that does not exist, as for any other argument."""
    known = [one.name for one in fields(Options)]
    for name in given:
        if name not in known:
            near = suggest(name, known) or f"options: {listing(known, limit=len(known))}"
            raise TypeError(f"`{verb}` has no option `{name}`; {near}")
    return Options(**given)  # type: ignore[arg-type]  # the fields of Options are the keyword arguments


#: Hears of a stage how many rows are done, of how many.
Progress = Callable[[str, int, int], None]


def stay_silent(stage: str, done: int, total: int) -> None:
    """Take progress and say nothing."""


SHARD_ROWS = 131_072


@dataclass(frozen=True)
class Prepared:
    """A task with everything opened: nothing is left but the work.

    Either `recorded` has the completions, or the task's solver gets them, with `model` if it needs one.
    `judges` are the models of scorers that ask one, by the scorer's key; a run puts them into `task`.
    `failed` holds, in order, the positions of rows that the dataset got wrong: not asked, FAILED for every
    scorer. Each repetition of a task has trials of its own. Only `columns` are read (None: all). The rows at
    `spots` are read by other rules as well.
    """

    key: str
    task: Task
    dataset: Dataset
    model: Model | None = None
    recorded: Recorded | None = None
    examples: Samples | None = None
    failed: Sequence[int] = ()
    keep_completions: bool = True
    repetition: int = 0
    judges: Mapping[str, Model] = field(default_factory=dict)
    columns: frozenset[str] | None = None
    spread: Spread = "alone"
    shard_rows: int = SHARD_ROWS
    spots: Sequence[int] = ()

    @property
    def trials(self) -> range:
        """The numbers of the trials of each sample."""
        size = self.task.num_trials
        return range(self.repetition * size, (self.repetition + 1) * size)

    def shards(self) -> Iterator[Shard]:
        """Yield the shards of the dataset; nothing is loaded yet."""
        size = max(1, min(self.shard_rows, SHARD_ROWS) // self.task.num_trials)
        return cut_shards(self.dataset, size, self.recorded, self.failed)

    def stages(self, first: int) -> Iterator[Iterable[Shard]]:
        """Yield the shard of the `first` samples, then those of the others; for 0 all of them together."""
        shards = self.shards()
        if not 0 < first < len(self.dataset):
            yield shards
            return
        size, whole = len(next(self.dataset.cut(first))), next(shards)
        left = [whole.cut(size, len(whole.samples))] if size < len(whole.samples) else []
        yield [whole.cut(0, size)]
        yield (replace(one, index=index) for index, one in enumerate(chain(left, shards), start=1))

    def without_rows(self) -> Prepared:
        """Return what the work on a shard needs beside it, small enough to be sent to where that is done."""
        spots = choose_audited(len(self.dataset))
        return replace(self, dataset=self.dataset.without_rows(), recorded=None, failed=(), spots=spots)


#: Scorers that read of a sample what their templates name; others may look at any column.
BY_TEMPLATE = (StringEquals, StringEqualsMcqa, ChoiceProbabilities)
Columns = frozenset[str] | None


def list_checked_columns(task: Task, dataset: Dataset, recorded: Recorded | None) -> Columns:
    """Return the columns that checking the rows reads; None for all."""
    found = [_list_scorer_columns(step.scorer) for step in task.scoring]
    found.append(task.choice_order.columns if task.choice_order else frozenset())
    if recorded is None and task.solver is not None:
        found.append(list_solver_columns(task.solver, dataset))
    return _gather(found, dataset)


def list_columns(task: Task, dataset: Dataset, recorded: Recorded | None) -> Columns:
    """Return the columns that a task reads on its way to the metrics; None for all."""
    category = find_category_column(dataset.columns)
    found = [
        list_checked_columns(task, dataset, recorded),
        *(action.filter.template.columns for action in task.actions),
        frozenset(task.design_columns),
        frozenset({category} if category else ()),
        frozenset() if recorded is None else recorded.columns,
    ]
    return _gather(found, dataset)


def _gather(found: Iterable[Columns], dataset: Dataset) -> Columns:
    """Return all of them; None where one may be any, or does not exist: the error names those that do."""
    columns: frozenset[str] = frozenset()
    for one in found:
        if one is None:
            return None
        columns |= one
    return columns if columns <= set(dataset.columns) else None


def _list_scorer_columns(scorer: Scorer) -> Columns:
    if type(scorer) not in BY_TEMPLATE:
        return None
    return _list_template_columns(compile_templates(scorer)[0].values())


def list_solver_columns(solver: Solver, dataset: Dataset) -> Columns:
    """Return the columns that a solver reads; None for all."""
    if isinstance(solver, PassThroughSolver):
        try:
            return frozenset({find_column(dataset.rows.slice(0, 0).load(), solver.trace_column)[0]})
        except DataError:
            return None
    if isinstance(solver, SingleTurnSolver | ChoiceRankingSolver) and solver.examples is None:
        return _list_template_columns(solver.compile_templates()[0].values())
    return None


def _list_template_columns(templates: Iterable[Template]) -> Columns:
    columns: frozenset[str] = frozenset()
    for one in templates:
        if one.columns is None:
            return None
        columns |= one.columns
    return columns


SOLVE = "solve"


def name_purpose(key: str) -> str:
    """Return the purpose of the calls of a scorer."""
    return f"judge:{key}"


def open_judges(
    task: Task, judges: Mapping[str, str | ModelConfig]
) -> tuple[dict[str, Model], list[AnswerkeyError]]:
    """Return the models of scorers that ask one, by the scorer's key, and why some cannot judge."""
    opened: dict[str, Model] = {}
    errors: list[AnswerkeyError] = []
    for step in task.scoring:
        if step.key not in judges or not isinstance(step.scorer, AskingScorer):
            continue
        try:
            model = open_model(judges[step.key])
            step.scorer.bind(model, key=step.key)
        except SpecError as error:
            where = task.place("definition", "scorers", step.index, "model_key")
            errors.append(SpecError(error.code, error.message, where=error.where or where, hint=error.hint))
        else:
            opened[step.key] = model
    return opened, errors


def list_models(prepared: Prepared) -> dict[str, Model]:
    """Return every model that a task asks, by the purpose of its calls."""
    own = {} if prepared.model is None else {SOLVE: prepared.model}
    return own | {name_purpose(key): model for key, model in prepared.judges.items()}


def place_judges(task: Task, judges: Mapping[str, Model]) -> Task:
    """Return the task with its scorers ready to ask these models, given by the scorer's key."""
    return replace(task, scoring=tuple(_place_judge(step, judges.get(step.key)) for step in task.scoring))


def _place_judge(step: ScoringStep, model: Model | None) -> ScoringStep:
    if model is None or not isinstance(step.scorer, AskingScorer):
        return step
    return replace(step, scorer=step.scorer.bind(model, key=step.key))


_HINT = "add `generation: {logprobs: true, top_logprobs: 10}` to the model, or `?top_logprobs=10` to its name"


def find_missing_logprobs(task: Task, model: Model | None) -> list[AnswerkeyError]:
    """Return an error for each scorer that reads log-probabilities which the model will not send."""
    if model is None:
        return []
    if isinstance(task.solver, ChoiceRankingSolver):
        try:
            require_echo(model)
        except SpecError as error:
            return [error]
        return []
    why = _explain(model)
    return [
        SpecError(
            "E108",
            f"scorer `{step.key}` reads log-probabilities, and {why}",
            where=task.place("definition", "scorers", step.index),
            hint=_HINT,
        )
        for step in task.scoring
        if why and getattr(step.scorer, "reads_logprobs", False)
    ]


def _explain(model: Model) -> str | None:
    """Return why a model sends none that would do; None when it may."""
    if model.name.startswith("builtin/"):
        return f"`{model.name}` has none"
    if not isinstance(model, LiveModel):
        return None
    generation = model.connection.generation
    if not generation.wants_logprobs:
        return f"model `{model.name}` is not asked for them"
    if not generation.top_logprobs:
        return f"model `{model.name}` is asked for no alternatives: `top_logprobs` is not set"
    return None


#: Starting worker processes takes as long as rendering so many rows.
WORKER_ROWS = 50_000
#: What is rendered once per distinct value is rendered for most rows, if it is for most of the first ones.
LOOKED_AT = 2_000
MOST = 0.5
#: A shard of at most so many bytes of cells is worked on at a time, on each core.
SHARD_BYTES = 32 * 2**20
FEWEST_ROWS = 1_000
#: Rows that are slow are handed out in smaller shards, so that no core waits long for another.
PROCESS_ROWS = 16_384


def choose_shard_rows(prepared: Prepared, spread: Spread) -> int:
    """Return how many rows one shard has: fewer where rows are long, or take long."""
    most = fit_rows(prepared.dataset.rows, prepared.columns, prepared.recorded)
    return min(most, PROCESS_ROWS) if spread in ("apart", "processes") else most


def fit_rows(rows: Rows, columns: Collection[str] | None, recorded: Recorded | None) -> int:
    """Return how many rows can well be in memory together, as the first and the middle ones tell."""
    if len(rows) <= FEWEST_ROWS:
        return SHARD_ROWS
    size, looked_at = 0, 0
    for offset in (0, len(rows) // 2):
        samples = rows.slice(offset, FEWEST_ROWS).load(columns)
        size += int(samples.frame.estimated_size())
        looked_at += len(samples)
        if recorded is not None and not recorded.columns:  # they are not among the columns of the samples
            said = recorded.slice(offset, len(samples)).read(samples)
            size += int(said.frame["completion"].estimated_size())
    return min(SHARD_ROWS, max(FEWEST_ROWS, SHARD_BYTES * looked_at // max(size, 1)))


def choose_spread(prepared: Prepared) -> Spread:
    """Return how a task's shards may be worked on.

    Whatever asks a model does so from here, shard after shard. A snippet, which has a process of its own, and
    a scorer that is not ours, for nobody told it of threads, want a process with nothing beside them.
    """
    scorers = [step.scorer for step in prepared.task.scoring]
    if prepared.model is not None or any(isinstance(one, AskingScorer) for one in scorers):
        return "alone"
    if prepared.task.snippets or not all(type(one) in BY_TEMPLATE for one in scorers):
        return "apart"
    if len(prepared.dataset) < WORKER_ROWS:
        return "threads"
    first = prepared.dataset.rows.slice(0, LOOKED_AT).load(prepared.columns)
    is_solved = prepared.recorded is None  # a solver reads traces one by one
    is_slow = is_solved or _needs_python(prepared, first) or _reads_one_by_one(prepared, first)
    return "processes" if is_slow else "threads"


def choose_check_spread(prepared: Prepared) -> Spread:
    """Return how the rows of a task may be checked: nobody is asked, but prompts are rendered."""
    solver = prepared.task.solver if prepared.recorded is None else None
    parts = [step.scorer for step in prepared.task.scoring] + ([solver] if solver else [])
    if not all(type(one).__module__.startswith("answerkey.") for one in parts):
        return "apart"
    if len(prepared.dataset) < WORKER_ROWS:
        return "threads"
    if solver is not None and solver.needs_model:
        return "processes"
    first = prepared.dataset.rows.slice(0, LOOKED_AT).load(prepared.columns)
    return "processes" if _needs_python(prepared, first) else "threads"


def _needs_python(prepared: Prepared, samples: Samples) -> bool:
    """Return whether some template is rendered for most rows."""
    return any(_is_rendered(template, samples) for template in _list_templates(prepared))


def _reads_one_by_one(prepared: Prepared, samples: Samples) -> bool:
    """Return whether a rule that has no column form reads completions of which most are different."""
    scorers = [step.scorer for step in prepared.task.scoring]
    is_read = any(
        isinstance(one, StringEqualsMcqa) and find_rule(one.extraction).has_parts for one in scorers
    )
    if not is_read or prepared.recorded is None:
        return False
    said = prepared.recorded.slice(0, len(samples)).read(samples).frame["completion"]
    return said.n_unique() > MOST * len(said)


def _list_templates(prepared: Prepared) -> Iterator[Template]:
    for step in prepared.task.scoring:
        yield from compile_templates(step.scorer)[0].values()


def _is_rendered(template: Template, samples: Samples) -> bool:
    kind = template.plan(samples).kind
    if kind != "distinct":
        return kind == "rows"
    columns = sorted(template.columns or samples.columns)
    return samples.frame.select(columns).n_unique() > MOST * len(samples)


T = TypeVar("T")


@dataclass(frozen=True)
class Opened:
    """A prepared task with what the run folder says of it.

    `repeated` are the completions of further repetitions, where they are there already. `staged` has the
    scores, where there are some already.
    """

    specification: Specification
    prepared: Prepared
    completions: dict[str, object]
    repeated: tuple[Recorded, ...] = ()
    staged: Any = None

    def prepare_repetition(self, number: int) -> Prepared:
        """Return the task for its repetition `number`, which has its own trials, or its own completions."""
        recorded = self.repeated[number - 1] if number and self.repeated else self.prepared.recorded
        return replace(self.prepared, repetition=number, recorded=recorded)


def open_specification(
    specification: Specification, options: Options, *, is_check: bool = False
) -> tuple[Opened | None, list[AnswerkeyError]]:
    """Open everything a specification names; return it with every error met, None without a dataset.

    A check opens the whole dataset, and does without a model.
    """
    errors: list[AnswerkeyError] = []
    pinned = _attempt(errors, lambda: _pin(specification))
    if pinned is None:
        return None, errors
    specification, task = pinned, pinned.task
    speaker = _name_speaker(specification, options)
    options = _bring_recorded(specification, options)
    found = _attempt(errors, lambda: _open_samples(specification, Selection() if is_check else None))
    if found is None:
        return None, errors
    dataset = _attempt(errors, lambda: order_dataset(task, found, _find_table(task, options))) or found
    errors.extend(_find_missing_columns(task, dataset))
    errors.extend(_find_missing_stratum(specification, dataset))
    errors.extend(_refuse_repetitions(specification, options))
    recorded = _attempt(errors, lambda: find_completions(task, dataset, options))
    model = None
    if _wants_model(task, options) and not (is_check and specification.model is None):
        model = _attempt(errors, lambda: open_model(_require_model(specification)))
    errors.extend(find_missing_logprobs(task, model))
    judges, troubles = open_judges(task, specification.judges)
    errors.extend(troubles)
    prepared = Prepared(
        key=specification.key,
        task=task,
        dataset=dataset,
        model=model,
        judges=judges,
        recorded=recorded,
        examples=_attempt(errors, lambda: _open_examples(specification)),
        keep_completions=options.copy or model is not None,
    )
    described = {} if errors else _describe_completions(prepared, options) | speaker
    return Opened(specification, lay_out_work(prepared) if not errors else prepared, described), errors


def lay_out_work(prepared: Prepared) -> Prepared:
    """Return a task with what decides how the work is done: what is read, how much at a time, and where."""
    columns = list_columns(prepared.task, prepared.dataset, prepared.recorded)
    planned = replace(prepared, columns=columns)
    spread = choose_spread(planned)
    return replace(planned, spread=spread, shard_rows=choose_shard_rows(planned, spread))


def _bring_recorded(specification: Specification, options: Options) -> Options:
    """Return the options with the completions that the file names, where the caller brings none."""
    if specification.completions is None or options.completions is not None:
        return options
    return replace(options, completions=str(specification.completions))


def _name_speaker(specification: Specification, given: Options) -> dict[str, object]:
    """Return which model wrote the recorded completions that the file names; nothing of the caller's own."""
    is_told = specification.completions is not None and given.completions is None
    return {"model": specification.model_name} if is_told and specification.model_name else {}


def _wants_model(task: Task, options: Options) -> bool:
    return bool(task.solver and task.solver.needs_model and not options.brings_completions)


def _attempt(errors: list[AnswerkeyError], action: Callable[[], T]) -> T | None:
    try:
        return action()
    except AnswerkeyError as error:
        errors.extend(all_errors(error))
        return None


@contextmanager
def _locate_errors(dataset: DatasetSpec) -> Iterator[None]:
    """Place what is wrong with a dataset where its file says so, rather than where the rows are."""
    try:
        yield
    except AnswerkeyError as error:
        raise_all([dataset.locate(one) for one in all_errors(error)])


def _pin(specification: Specification) -> Specification:
    """Return the specification with datasets that give the same rows when they are opened again."""
    dataset, examples = specification.dataset, specification.examples
    with _locate_errors(dataset):
        pinned = replace(specification, dataset=replace(dataset, source=pin_source(dataset.source)))
    if examples is None:
        return pinned
    with _locate_errors(examples):
        return replace(pinned, examples=replace(examples, source=pin_source(examples.source)))


def _open_samples(specification: Specification, selection: Selection | None) -> Dataset:
    dataset = specification.dataset
    with _locate_errors(dataset):
        return open_dataset(dataset.source, selection=selection or specification.selection, name=dataset.key)


def _open_examples(specification: Specification) -> Samples | None:
    examples = specification.examples
    if examples is None:
        return None
    with _locate_errors(examples):
        return open_dataset(examples.source, name=examples.key).samples()


def _find_missing_columns(task: Task, dataset: Dataset) -> list[AnswerkeyError]:
    return [
        DataError(
            "E206",
            f"config value `{name}` names the column `{column}`: dataset `{dataset.name}` has none such",
            where=task.place("config_spec", name),
            hint=suggest(column, dataset.columns) or f"columns: {listing(dataset.columns)}",
        )
        for name, column in task.dataset_columns.items()
        if column not in dataset.columns
    ]


def _find_missing_stratum(specification: Specification, dataset: Dataset) -> list[AnswerkeyError]:
    """Return the error that selecting rows would meet; a check opens all rows and selects none."""
    column = specification.selection.stratify_by
    if column is None or column in dataset.columns:
        return []
    message = f"`stratify_by` names the column `{column}`: dataset `{dataset.name}` has none such"
    hint = suggest(column, dataset.columns) or f"columns: {listing(dataset.columns)}"
    return [DataError("E206", message, hint=hint)]


def _refuse_repetitions(specification: Specification, options: Options) -> list[AnswerkeyError]:
    """Return the error about running a task again that asks nobody, and would say the same each time."""
    if specification.num_runs == 1 or _wants_model(specification.task, options):
        return []
    message = f"`repeatability` of `{specification.key}`: recorded completions are the same in every run"
    return [SpecError("E119", message, hint="leave `repeatability` out, or ask a model")]


def _require_model(specification: Specification) -> str | ModelConfig:
    if specification.model is None:
        raise SpecError(
            "E119",
            f"task `{specification.task.key}` asks a model, and none is named",
            where=specification.task.place("definition", "solver"),
            hint="add `--model builtin/random`, or bring recorded completions with `--completions FILE`",
        )
    return specification.model


def _find_table(task: Task, options: Options) -> Rows | None:
    """Return the recorded completions of a task that puts options in order: they may say in which."""
    if task.choice_order is None or options.completions is None:
        return None
    return load_table(options.completions, by_trial=True).rows


def find_completions(task: Task, dataset: Dataset, options: Options) -> Recorded | None:
    """Return the completions that are there already: in a file, or beside the questions; None to be solved.

    A task whose scorers look at the samples alone gets completions without text.
    """
    if options.completions is not None:
        table = name_completions(task, load_table(options.completions, by_trial=True).rows, dataset)
        column = options.completion_column
        return match_completions(table, dataset, column=column, num_trials=task.num_trials)
    if task.num_trials > 1 and not _wants_model(task, options):
        raise refuse_single(task.num_trials)
    if task.solver and options.completion_column is None:
        return None
    own = find_own_completions(dataset.rows, column=options.completion_column)
    if own is not None:
        refuse_unordered(task)
    wanted = [step.key for step in task.scoring if step.scorer.needs_completion]
    if own is None and wanted:
        raise DataError(
            "E209",
            f"scorer `{wanted[0]}` needs completions: the task has no solver, and dataset `{dataset.name}`"
            " has no column `completion`, `output`, `response` or `model_output`",
            hint="name the column with `--completion-column NAME`, or bring a file with `--completions FILE`",
        )
    return own if own is not None else BlankCompletions()


def _describe_completions(prepared: Prepared, options: Options) -> dict[str, object]:
    described: dict[str, object] = {"source": "trace", "file": None, "sha256": None}
    if options.completions is not None:
        file = name_lasting(options.completions)
        described = {"source": "recorded", "file": file, "sha256": digest_file(file)}
    elif prepared.recorded is not None:
        described["source"] = "dataset"
    elif prepared.model is not None:
        described["source"] = "builtin" if prepared.model.name.startswith("builtin/") else "live"
    return {**described, "column": options.completion_column}


def all_errors(error: AnswerkeyError) -> list[AnswerkeyError]:
    """Return the errors inside an error: itself, or the members of `Problems`."""
    return list(getattr(error, "errors", (error,)))


def load_task(source: str | Path | Mapping[str, object], **config: object) -> Task:
    """Return a task from a file or a mapping, with these config values; raise all its errors at once."""
    loaded = load_task_file(source, config=config, overrides=Overrides(config=config))
    raise_all(loaded.errors)
    if loaded.value is None:
        raise InternalError("E901", "a task without errors was not built")
    return loaded.value


def describe_policies(policies: Sequence[Any]) -> dict[str, Any]:
    """Return the entry `policies` for `run.json`; nothing without any."""
    return {"policies": [policy.describe() for policy in policies]} if policies else {}


def take_policies(
    tasks: Mapping[str, Task], evaluation: str, options: Options, *, stored: Sequence[object] = ()
) -> tuple[Sequence[Any], list[Notice]]:
    """Return the policies that the caller gives, else the stored ones, checked against loaded tasks."""
    if options.policies is None and options.baseline is None and not stored:
        return (), []
    found: tuple[Sequence[Any], list[Notice]] = load_feature("policies").take_policies(
        tasks, evaluation, options.overrides(), stored=stored
    )
    return found
