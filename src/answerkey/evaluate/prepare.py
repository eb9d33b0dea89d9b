"""From a task specification and the caller's options to a task with everything opened, ready to
run.

Dataset, completions, model, judges and examples are opened; which columns are read, how many rows
are one shard, and how shards are spread over threads or processes is decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

from answerkey import features
from answerkey.datasets.dataset import Dataset, Recorded, Selection, Shard, cut_shards, open_dataset
from answerkey.datasets.formats import measure_fields
from answerkey.datasets.recorded import (
    BlankCompletions,
    SplitCompletions,
    find_own_completions,
    match_completions,
    refuse_single,
)
from answerkey.datasets.rows import Rows
from answerkey.datasets.sources import InlineSource, MemorySource, Source, pin_source
from answerkey.datasets.storage import allow_fetching, digest_file, hide_query, name_lasting
from answerkey.datasets.tables import Tabular, load_rows, load_table
from answerkey.engines import Spread
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    InternalError,
    NoModelError,
    Place,
    SpecError,
    distinct,
    is_url,
    listing,
    raise_all,
    refuse_column,
    suggest,
)
from answerkey.evaluate.choice_order import name_completions, order_dataset, refuse_unordered
from answerkey.metrics import find_category_column
from answerkey.models.config import CachePolicy, FunctionConfig, Model, ModelConfig, Price
from answerkey.scorers import (
    Scorer,
    asks_model,
    choose_audited,
    compile_templates,
    find_role,
    reads_by_templates,
    reads_choices,
)
from answerkey.scorers.extraction import find_rule
from answerkey.solvers import (
    Solver,
    require_echo,
)
from answerkey.spec import DatasetSpec, Overrides, ScoringStep, Specification, Task
from answerkey.spec import load_task as load_task_file
from answerkey.types import Completions, Notice, Samples

#: What a resumed run takes over from its folder, and nothing else. Trust, allowed hosts and
#: environment files are the caller's to give again: a folder from elsewhere must not run code, or
#: choose who gets a key.
STORED = (
    *(
        "config",
        "model",
        "dataset",
        "completions",
        "completion_column",
        "num_samples",
        "subsampling",
        "seed",
    ),
    *(
        "allow_failed",
        "engine",
        "ray_address",
        "copy",
        "cache_policy",
        "max_calls",
        "max_cost",
        "price",
    ),
    *("batch", "max_concurrent", "split_thinking"),
)
MILLION = 1_000_000
WHOLE = 100


@dataclass(frozen=True)
class Options(Overrides):
    """The options of `run`, `score`, `check` and `plan_calls`; they win over what the files say.

    `allow_failed` is a number of rows or a share such as `"2%"`. `max_cost` is in USD, and `price`
    says what a million tokens cost, `"IN:OUT"` or `"IN:OUT:CACHED"`, where that is not known. With
    `batch`, the calls of a solver are handed in together. A run stops when most of the first
    completions of an endpoint cannot be read, with `stop_on_nonsense` also when they are all the
    same or cut off; with False it goes on. With the engine `ray`, `ray_address` names a cluster;
    without it one is started here. `max_concurrent` is how many calls are under way at once at
    most, on each node.
    """

    allow_failed: int | str | None = None
    trust_code: bool = False
    engine: str = "local"
    ray_address: str | None = None
    copy: bool = False
    cache_policy: CachePolicy | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    price: str | None = None
    stop_on_nonsense: bool | None = None
    batch: bool | None = None
    max_concurrent: int | None = None

    def __post_init__(self) -> None:
        self.failed_limit(0)  # what is no number is told before anything is opened
        self.read_price()
        if self.max_concurrent is not None and self.max_concurrent < 1:
            raise SpecError(
                "E119", f"`max_concurrent` is {self.max_concurrent}; it must be at least 1"
            )

    def stored(self) -> dict[str, object]:
        """Return what a resumed run takes over, as plain values; paths are absolute."""
        values = {name: value for name in STORED if (value := getattr(self, name)) is not None}
        values |= {} if self.model is None else {"model": self.model_name}
        if not isinstance(self.dataset, str | Path):
            values.pop("dataset", None)  # which is among the files of the run
        for name in ("dataset", "completions"):
            if given := str(values.get(name, "")):  # an address loses what may be secret in it
                values[name] = hide_query(given) if is_url(given) else name_lasting(given)
        plain: dict[str, object] = json.loads(json.dumps(values, default=str))
        return plain

    def failed_limit(self, rows: int) -> int:
        """Return how many of `rows` may be FAILED."""
        if self.allow_failed is None:
            return 0
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(self.allow_failed))
        if not match or (not match[2] and "." in match[1]):
            message = (
                f"`--allow-failed {self.allow_failed}` is neither a number of rows nor a share"
            )
            hint = "write `--allow-failed 5` or `--allow-failed 2%`"
            raise SpecError("E119", message, hint=hint)
        if match[2] and float(match[1]) > WHOLE:
            message = f"`--allow-failed {self.allow_failed}` is more than all rows"
            raise SpecError(
                "E119", message, hint="write a share of at most `100%`, or a number of rows"
            )
        return int(float(match[1]) / WHOLE * rows) if match[2] else int(match[1])

    def select_rows(self) -> Selection:
        """Return which rows are used."""
        stated = {name: getattr(self, name) for name in ("num_samples", "subsampling", "seed")}
        return Selection(**{name: one for name, one in stated.items() if one is not None})

    def read_price(self) -> Price | None:
        """Return what one token costs, as the caller says; None when the caller does not."""
        if self.price is None:
            return None
        match = re.fullmatch(r"{0}:{0}(?::{0})?".format(r"\s*(\d+(?:\.\d+)?)\s*"), self.price)
        if not match:
            message = f"`--price {self.price}` is not of the form `IN:OUT` or `IN:OUT:CACHED`"
            hint = (
                "write what a million tokens cost in USD, prompt and completion: `--price "
                "0.15:0.60`"
            )
            raise SpecError("E119", message, hint=hint)
        prompt, completion, *cached = (
            float(one) / MILLION for one in match.groups() if one is not None
        )
        return Price(prompt, completion, cached[0] if cached else None)


class ScoreOptions(TypedDict, total=False):
    """The options of Python's functions, as in `Options`; a model may be a function."""

    config: Mapping[str, object] | None
    model: str | Callable[[list[dict[str, Any]]], object] | None
    completion_column: str | None
    split_thinking: bool | None
    columns: Mapping[str, str]
    num_samples: int | None
    subsampling: Literal["head", "random"] | None
    seed: int | None
    env: str | Path | None
    allow_outside: bool
    allow_hosts: Sequence[str]
    policies: str | Path | Mapping[str, object] | Sequence[object] | None
    baseline: str | Path | None
    fail_under: float | str | None
    not_worse_than: str | Path | None
    allow_failed: int | str | None
    trust_code: bool
    engine: str
    ray_address: str | None
    copy: bool
    cache_policy: CachePolicy | None
    max_calls: int | None
    max_cost: float | None
    price: str | None
    stop_on_nonsense: bool | None
    batch: bool | None
    max_concurrent: int | None


class RunOptions(ScoreOptions, total=False):
    """The options of functions that are not given samples and completions.

    A dataset may be a table.
    """

    dataset: Tabular | str | Path | None
    completions: str | Path | None


def refuse_unknown(
    verb: str, given: Iterable[str], known: Collection[str], *arguments: str
) -> None:
    """Raise TypeError for options that a function does not have.

    It may have `arguments` beside them.
    """
    for name in given:
        if name not in known:
            near = (
                suggest(name, [*known, *arguments])
                or f"options: {listing(known, limit=len(known))}"
            )
            raise TypeError(f"`{verb}` has no option `{name}`; {near}")


def read_options(verb: str, given: Mapping[str, object], kind: Any = RunOptions) -> Options:  # noqa: ANN401 - a TypedDict
    """Return the options of a verb.

    TypeError for one that does not exist, as for any other argument. A function becomes the config
    of a model, a table a source of rows.
    """
    known = [one.name for one in fields(Options) if one.name in kind.__optional_keys__]
    refuse_unknown(verb, given, known, "completions")
    values: dict[str, Any] = dict(given)
    model, dataset, completions = (values.get(name) for name in ("model", "dataset", "completions"))
    if callable(model):
        config = FunctionConfig(model)
        values["model"] = ModelConfig(config.name, config)
    elif not isinstance(model, str | ModelConfig | None):
        raise TypeError(
            f"`model` is a {type(model).__name__}: give a name, or a function of the messages"
        )
    if not isinstance(completions, str | Path | None):
        raise TypeError(
            f"`completions` is a {type(completions).__name__}: give a file, or use `ak.score`"
        )
    if not isinstance(dataset, str | Path | MemorySource | None):
        values["dataset"] = MemorySource(load_rows(dataset, name="dataset"))
    allow_fetching(*values.get("allow_hosts", ()))
    return Options(**values)


#: Hears of a stage how many rows are done, of how many.
Progress = Callable[[str, int, int], None]


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Accept a progress report and show nothing."""


SHARD_ROWS = 32_768


@dataclass(frozen=True)
class Prepared:
    """A task with everything opened: nothing is left but the work.

    Either `recorded` has the completions (`repeated` those of further repetitions), or the task's
    solver gets them, with `model` if it needs one; `completions` is what `run.json` says of where
    they come from. `judges` are the models of scorers that call one, by the scorer's key; a run
    puts them into the task. When rows are checked before they are scored (`is_checked`), `failed`
    holds, in order, the positions of those that the dataset got wrong: not sent to a model, FAILED
    for every scorer. Each repetition of a task has trials of its own. `image_files` has the SHA-256
    of each image file in the prompts, as checked. Only `columns` are read (None: all). The rows at
    `audited` are read by other extraction rules as well. When the run stopped, the model had been
    asked of the first `num_asked` rows.
    """

    specification: Specification
    dataset: Dataset
    model: Model | None = None
    judges: Mapping[str, Model] = field(default_factory=dict)
    recorded: Recorded | None = None
    repeated: tuple[Recorded, ...] = ()
    completions: Mapping[str, object] = field(default_factory=dict)
    examples: Samples | None = None
    keep_completions: bool = True
    is_rescored: bool = False
    is_checked: bool = False
    failed: Sequence[int] = ()
    image_files: Mapping[str, str] = field(default_factory=dict)
    repetition: int = 0
    columns: frozenset[str] | None = None
    spread: Spread = "alone"
    shard_rows: int = SHARD_ROWS
    audited: Sequence[int] = ()
    num_asked: int = 0

    @property
    def key(self) -> str:
        """The key of the specification, which names the task in a run."""
        return self.specification.key

    @property
    def task(self) -> Task:
        """The task itself."""
        return self.specification.task

    @property
    def trials(self) -> range:
        """The numbers of the trials of each sample."""
        size = self.task.num_trials
        return range(self.repetition * size, (self.repetition + 1) * size)

    @property
    def models(self) -> dict[str, Model]:
        """Every model that the task calls, by the purpose of its calls."""
        own = {} if self.model is None else {SOLVE: self.model}
        steps = [step for step in self.task.scoring if step.key in self.judges]
        return own | {name_purpose(step): self.judges[step.key] for step in steps}

    @property
    def calls_models(self) -> bool:
        """Whether a model would be called; then all rows are checked before the first call."""
        return self.model is not None or any(asks_model(step.scorer) for step in self.task.scoring)

    @property
    def num_calls(self) -> int:
        """How many prompts there are: every sample that is in order, in every trial."""
        return (len(self.dataset) - len(self.failed)) * len(self.trials)

    def shards(self) -> Iterator[Shard]:
        """Yield the shards of the dataset; nothing is loaded yet."""
        size = max(1, min(self.shard_rows, SHARD_ROWS) // self.task.num_trials)
        return cut_shards(self.dataset, size, self.recorded, self.failed)

    def stages(self, first: int) -> Iterator[Iterable[Shard]]:
        """Yield the shard of the `first` samples, then those of the others.

        For 0 all of them together.
        """
        shards = self.shards()
        if not 0 < first < len(self.dataset):
            yield shards
            return
        size, whole = len(next(self.dataset.cut(first))), next(shards)
        left = [whole.cut(size, len(whole.samples))] if size < len(whole.samples) else []
        yield [whole.cut(0, size)]
        yield (replace(one, index=index) for index, one in enumerate(chain(left, shards), start=1))

    def repeat(self, number: int) -> Prepared:
        """Return the task for its repetition `number`, which has its own trials, or its own
        completions.
        """
        recorded = self.repeated[number - 1] if number and self.repeated else self.recorded
        return replace(self, repetition=number, recorded=recorded)

    def only_checked(self) -> Prepared:
        """Return the task as it is checked beforehand: no model is needed, and fewer columns may
        be.
        """
        columns = list_checked_columns(self.task, self.dataset, self.recorded)
        bare = replace(self, columns=columns, model=None, judges={}, failed=(), is_checked=False)
        solver = self.task.solver if self.recorded is None else None
        parts = [step.scorer for step in self.task.scoring] + ([solver] if solver else [])
        spread: Spread = "threads"
        if not all(type(one).__module__.startswith("answerkey.") for one in parts):
            spread = "apart"
        elif len(self.dataset) - self.num_asked >= WORKER_ROWS:
            spread = "processes"
        most = choose_shard_rows(bare, spread)  # the messages of a row are many objects
        return replace(bare, spread=spread, shard_rows=min(most, PROCESS_ROWS) if solver else most)

    def without_rows(self) -> Prepared:
        """Return what the work on a shard needs beside it, small enough to be sent to where that is
        done.
        """
        bare = Specification(
            self.key, self.task, DatasetSpec(self.dataset.name, InlineSource(rows=()))
        )
        return replace(
            self,
            specification=bare,
            dataset=self.dataset.without_rows(),
            image_files={},
            recorded=None,
            repeated=(),
            failed=(),
            audited=choose_audited(len(self.dataset)),
        )


class Opened:
    """What several runs share, such as datasets: each is fetched, opened and checked once."""

    def __init__(self) -> None:
        self._known: list[tuple[object, Any]] = []

    def share(self, make: Callable[..., Any], *key: object) -> Any:  # noqa: ANN401 - what `make` makes
        """Return what is made of a key, or was before."""
        for known, made in self._known:
            if known == (make, *key):
                return made
        self._known.append(((make, *key), make(*key)))
        return self._known[-1][1]


def _open_samples(source: Source, selection: Selection, name: str) -> Dataset:
    return open_dataset(source, selection=selection, name=name)


def prepare_specification(
    specification: Specification,
    options: Options,
    shared: Opened | None = None,
    *,
    is_check: bool = False,
    needs_model: bool = True,
) -> tuple[Prepared | None, list[AnswerkeyError]]:
    """Open everything a specification names.

    Return it with every error met, None without a dataset. A check opens the whole dataset, and
    does without a model. What other runs opened is `shared` with them.
    """
    errors: list[AnswerkeyError] = []
    shared = shared or Opened()
    is_named = specification.completions is not None and options.completions is None
    if is_named:  # the file names the completions, and may say which model wrote them
        options = replace(options, completions=str(specification.completions))
    source, examples = specification.dataset, specification.examples
    with _collect(errors, source):
        source = replace(source, source=shared.share(pin_source, source.source))
    with _collect(errors, examples):
        examples = examples and replace(examples, source=shared.share(pin_source, examples.source))
    if errors:
        return None, errors
    specification = replace(specification, dataset=source, examples=examples)
    task = specification.task
    with _collect(errors, source):
        selection = Selection() if is_check else specification.selection
        dataset: Dataset = shared.share(_open_samples, source.source, selection, source.key)
    if errors:
        return None, errors
    table, recorded, shown = None, None, None
    with _collect(errors):
        if options.completions is not None:
            table = load_table(options.completions, by_trial=True).rows
        dataset = order_dataset(task, dataset, table)
    named: list[tuple[str, str, Place | None]] = [
        (f"config value `{name}`", column, task.place("config_spec", name))
        for name, column in task.dataset_columns.items()
    ]
    if specification.selection.stratify_by is not None:  # a check opens all rows and selects none
        named.append(("`stratify_by`", specification.selection.stratify_by, None))
    errors += [*_refuse_columns(named, dataset), *find_missing_design(task, dataset)]
    calls_model = bool(task.solver and task.solver.needs_model and not options.brings_completions)
    if specification.num_runs > 1 and not calls_model:
        message = (
            f"`repeatability` of `{specification.key}`: recorded completions are the same "
            "in every run"
        )
        errors.append(SpecError("E119", message, hint="leave `repeatability` out, or name a model"))
    with _collect(errors):
        if table is not None or options.completions is None:
            column = options.completion_column
            recorded = find_completions(task, dataset, table, column, calls_model=calls_model)
        if options.split_thinking:
            recorded = split_recorded(task, dataset, recorded, calls_model=calls_model)
    model = None
    with _collect(errors):
        if calls_model and specification.model is not None:
            from answerkey.models.model import open_model

            model = open_model(specification.model)
        elif calls_model and needs_model and not is_check:
            message = f"task `{task.key}` calls a model, and none is named"
            hint = (
                "add `--model builtin/random`, or bring recorded completions with "
                "`--completions FILE`"
            )
            raise NoModelError("E119", message, where=task.place("definition", "solver"), hint=hint)
    errors.extend(_find_missing_logprobs(task, model))
    judges, problems = open_judges(task, specification.judges)
    errors.extend(problems)
    with _collect(errors, examples):
        if examples is not None:
            shown = shared.share(
                _open_samples, examples.source, Selection(), examples.key
            ).samples()
    prepared = Prepared(
        specification=specification,
        dataset=dataset,
        model=model,
        judges=judges,
        recorded=recorded,
        examples=shown,
        keep_completions=options.copy or model is not None,
    )
    if not errors:
        said: dict[str, object] = {"source": "trace", "file": None, "sha256": None}
        if options.completions is not None:
            file = name_lasting(options.completions)
            said = {"source": "recorded", "file": file, "sha256": digest_file(file)}
        elif recorded is not None and not (task.solver and options.completion_column is None):
            said["source"] = "dataset"
        elif model is not None:
            said["source"] = "builtin" if model.name.startswith("builtin/") else "live"
        said["column"] = options.completion_column
        said |= {"split_thinking": True} if options.split_thinking else {}
        if is_named and specification.model_name:
            said["model"] = specification.model_name
        prepared = plan_work(replace(prepared, completions=said))
    return prepared, errors


def prepare_opened(specification: Specification, dataset: Dataset, **parts: Any) -> Prepared:  # noqa: ANN401 - of Prepared
    """Return a task whose samples and completions are at hand already.

    Raise what is wrong with the rest.
    """
    judges, errors = open_judges(specification.task, specification.judges)
    raise_all([*errors, *find_missing_design(specification.task, dataset)])
    return plan_work(Prepared(specification, dataset, judges=judges, **parts))


def plan_work(prepared: Prepared) -> Prepared:
    """Return a task with what decides how the work is done: what is read, how much at a time, and
    where.
    """
    task, dataset, recorded = prepared.task, prepared.dataset, prepared.recorded
    category = find_category_column(dataset.columns)
    found = [
        list_checked_columns(task, dataset, recorded),
        *(action.filter.template.columns for action in task.actions),
        frozenset(task.design_columns),
        frozenset({category} if category else ()),
        frozenset() if recorded is None else recorded.columns,
    ]
    planned = replace(prepared, columns=_join_columns(found, dataset))
    spread = choose_spread(planned)
    return replace(planned, spread=spread, shard_rows=choose_shard_rows(planned, spread))


@contextmanager
def _collect(errors: list[AnswerkeyError], dataset: DatasetSpec | None = None) -> Iterator[None]:
    """Keep what goes wrong.

    With a dataset, placed where its file says so, rather than where the rows are.
    """
    try:
        yield
    except AnswerkeyError as error:
        inside: Sequence[AnswerkeyError] = getattr(error, "errors", (error,))
        errors.extend(inside if dataset is None else map(dataset.locate, inside))


def find_missing_design(task: Task, dataset: Dataset) -> list[AnswerkeyError]:
    """Return an error for each `group_by` and `cluster_by` that names no column, where the task
    says it.
    """
    named: list[tuple[str, str, Place | None]] = []
    for step in task.scoring:
        for number, one in enumerate(step.metrics):
            above = ("definition", "scorers", step.index, "metrics", number)
            clusters = (
                [] if one.design.cluster_by is None else [("cluster_by", one.design.cluster_by)]
            )
            for name, column in [
                *(("group_by", column) for column in one.design.group_by),
                *clusters,
            ]:
                own = task.place(*above, name)  # the metric says it, or the task for all of them
                where = task.place("definition", name) if own == task.place(*above) else own
                named.append((f"`{name}`", column, where))
    return distinct(_refuse_columns(named, dataset))


def _refuse_columns(
    named: Iterable[tuple[str, str, Place | None]], dataset: Dataset
) -> Iterator[AnswerkeyError]:
    for who, column, where in named:
        if column not in dataset.columns:
            message = f"{who} names the column `{column}`: dataset `{dataset.name}` has none such"
            yield refuse_column(message, column, dataset.columns, where)


def find_completions(
    task: Task, dataset: Dataset, table: Rows | None, column: str | None, *, calls_model: bool
) -> Recorded | None:
    """Return the completions that are there already: in a table, or beside the questions.

    None to be solved. A task whose scorers look at the samples alone gets completions without text.
    """
    if table is not None:
        table = name_completions(task, table, dataset)
        return match_completions(table, dataset, column=column, num_trials=task.num_trials)
    if task.num_trials > 1 and not calls_model:
        raise refuse_single(task.num_trials)
    if task.solver and column is None:
        return None
    own = find_own_completions(dataset.rows, column=column)
    if own is not None:
        refuse_unordered(task)
        return own
    if wanted := [step.key for step in task.scoring if step.scorer.needs_completion]:
        raise DataError(
            "E209",
            f"scorer `{wanted[0]}` needs completions: the task has no solver, and "
            f"dataset `{dataset.name}`"
            " has no column `completion`, `output`, `response` or `model_output`",
            where=Place(file=dataset.rows.file),
            hint="name the column with `--completion-column NAME`, or bring a file with "
            "`--completions FILE`;"
            f" columns: {listing(dataset.columns)}",
        )
    return BlankCompletions()


@dataclass(frozen=True)
class TracedCompletions:
    """Completions that a solver finds in the dataset, without asking a model."""

    solver: Solver
    columns: frozenset[str]
    num_trials: int = 1

    def slice(self, offset: int, length: int) -> Self:  # noqa: ARG002 - the samples bring their own
        """Return the same."""
        return self

    def read(self, samples: Samples) -> Completions:
        """Return what the solver finds."""
        return self.solver.solve(samples, model=None, known=None, examples=None)


def find_traced(task: Task, dataset: Dataset) -> TracedCompletions | None:
    """Return the completions that the solver of a task finds in the dataset.

    None without a solver.
    """
    if task.solver is None:
        return None
    columns = task.solver.list_columns(dataset.rows.slice(0, 0).load())
    return TracedCompletions(
        task.solver, frozenset(dataset.columns) if columns is None else columns
    )


def split_recorded(
    task: Task, dataset: Dataset, recorded: Recorded | None, *, calls_model: bool
) -> Recorded | None:
    """Return completions with their thoughts apart; SpecError E119 where a model writes them."""
    if calls_model:
        message = "`--split-thinking` is about recorded completions, and a model is called"
        hint = (
            "leave it out: thoughts in a model's reply are taken out, unless `thinking: "
            "keep` is set"
        )
        raise SpecError("E119", message, hint=hint)
    found = recorded or find_traced(task, dataset)
    return None if found is None else SplitCompletions(found)


# Models that scorers call, and what a model must send.

SOLVE = "solve"


def name_purpose(step: ScoringStep) -> str:
    """Return the purpose of the calls of a scorer."""
    return f"{find_role(step.scorer)}:{step.key}"


def open_judges(
    task: Task, judges: Mapping[str, str | ModelConfig]
) -> tuple[dict[str, Model], list[AnswerkeyError]]:
    """Return the models of scorers that call one, by the scorer's key, and why some cannot
    judge.
    """
    opened: dict[str, Model] = {}
    errors: list[AnswerkeyError] = []
    for step in task.scoring:
        if step.key not in judges or not asks_model(step.scorer):
            continue
        from answerkey.models.model import open_model

        try:
            model = open_model(judges[step.key])
            step.scorer.bind(model, key=step.key)
            opened[step.key] = model
        except SpecError as error:
            where = error.where or task.place(*step.model_path)
            errors.append(SpecError(error.code, error.message, where=where, hint=error.hint))
    return opened, errors


def _find_missing_logprobs(task: Task, model: Model | None) -> list[AnswerkeyError]:
    """Return an error for each scorer that reads log-probabilities which the model will not
    send.
    """
    if model is None:
        return []
    if task.solver is not None and task.solver.ranks_continuations:
        errors: list[AnswerkeyError] = []
        with _collect(errors):
            require_echo(model)
        return errors
    explain = getattr(model, "explain_missing_logprobs", None)
    why = explain() if explain is not None else None
    found: list[AnswerkeyError] = []
    for step in (
        one for one in task.scoring if why and getattr(one.scorer, "reads_logprobs", False)
    ):
        message = f"scorer `{step.key}` reads log-probabilities, and {why}"
        hint = "add `generation: {logprobs: true, top_logprobs: 10}` to the model"
        hint += ", or `?top_logprobs=10` to its name"
        where = task.place("definition", "scorers", step.index)
        found.append(SpecError("E108", message, where=where, hint=hint))
    return found


# Which columns of a dataset a task reads, so that no others are loaded.

Columns = frozenset[str] | None


def list_checked_columns(task: Task, dataset: Dataset, recorded: Recorded | None) -> Columns:
    """Return the columns that checking the rows reads; None for all."""
    found = [
        _join_columns(one.columns for one in compile_templates(step.scorer)[0].values())
        if reads_by_templates(step.scorer)
        else None
        for step in task.scoring
    ]
    found.append(task.choice_order.columns if task.choice_order else frozenset())
    if recorded is None and task.solver is not None:
        found.append(task.solver.list_columns(dataset.rows.slice(0, 0).load()))
    return _join_columns(found, dataset)


def _join_columns(found: Iterable[Columns], dataset: Dataset | None = None) -> Columns:
    """Return all of them.

    None where one may be any, or does not exist: the error names those that do.
    """
    columns: frozenset[str] = frozenset()
    for one in found:
        if one is None:
            return None
        columns |= one
    return columns if dataset is None or columns <= set(dataset.columns) else None


# How the work is spread, over threads, processes or not at all, and how much is one shard.

#: Starting worker processes takes as long as rendering so many rows.
WORKER_ROWS = 50_000
#: The same for characters of completions that are read word by word.
WORKER_CHARACTERS = 12_000_000
#: A shard of at most so many bytes of cells is worked on at a time, on each core.
SHARD_BYTES = 20 * 2**20
FEWEST_ROWS = 1_000
#: Rows that are slow are handed out in smaller shards, so that no core waits long for another.
PROCESS_ROWS = 16_384
PROCESS_SHARDS = 16


def choose_shard_rows(prepared: Prepared, spread: Spread) -> int:
    """Return how many rows one shard has: fewer where rows are long, or take long."""
    most = fit_rows(prepared.dataset.rows, prepared.columns, prepared.recorded)
    if spread == "processes":
        most = min(most, max(FEWEST_ROWS, len(prepared.dataset) // PROCESS_SHARDS))
    return min(most, PROCESS_ROWS) if spread in ("apart", "processes") else most


def fit_rows(rows: Rows, columns: Collection[str] | None, recorded: Recorded | None) -> int:
    """Return how many rows can well be in memory together, as the first and the middle ones
    tell.
    """
    if len(rows) <= FEWEST_ROWS:
        return SHARD_ROWS
    size, seen = 0, 0
    for offset in (0, len(rows) // 2):
        samples = rows.slice(offset, FEWEST_ROWS).load(columns)
        size += sum(map(measure_fields, samples.rows()))
        seen += len(samples)
        if (
            recorded is not None and not recorded.columns
        ):  # they are not among the columns of the samples
            said = recorded.slice(offset, len(samples)).read(samples)
            size += int(said.frame["completion"].estimated_size())
    return min(SHARD_ROWS, max(FEWEST_ROWS, SHARD_BYTES * seen // max(size, 1)))


def choose_spread(prepared: Prepared) -> Spread:
    """Return how a task's shards may be worked on.

    Whatever calls a model does so from here, shard after shard. A snippet, which has a process of
    its own, and a scorer that is not ours, for nobody told it of threads, want a process with
    nothing beside them.
    """
    scorers = [step.scorer for step in prepared.task.scoring]
    if prepared.calls_models:
        return "alone"
    if prepared.task.snippets or not all(map(reads_by_templates, scorers)):
        return "apart"
    num_rows = len(prepared.dataset)
    if num_rows >= WORKER_ROWS:
        return "processes"
    if prepared.recorded is None or num_rows <= FEWEST_ROWS or not _reads_words(scorers):
        return "threads"
    first = prepared.dataset.rows.slice(0, FEWEST_ROWS).load(prepared.columns)
    completions = prepared.recorded.slice(0, len(first)).read(first).frame["completion"]
    characters = int(completions.str.len_chars().sum()) * num_rows // len(completions)
    return "processes" if characters >= WORKER_CHARACTERS else "threads"


def _reads_words(scorers: Sequence[Scorer]) -> bool:
    """Return whether a scorer reads completions word by word, which takes long."""
    with suppress(SpecError):  # reported elsewhere, with its place
        readers = [scorer for scorer in scorers if reads_choices(scorer)]
        return any(find_rule(scorer.extraction).reads_options for scorer in readers)
    return False


# Python's own way to a task, and what lies above this package.


def load_task(source: str | Path | Mapping[str, object], **config: object) -> Task:
    """Return a task from a file or a mapping, with these config values.

    Raise all its errors at once.
    """
    loaded = load_task_file(source, config=config, overrides=Overrides(config=config))
    raise_all(loaded.errors)
    if loaded.value is None:
        raise InternalError("E901", "a task without errors was not built")
    return loaded.value


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ASKED = "Answer with the letter of the right option and nothing else.\nAnswer:"
_LISTED = "{%% for letter, text in %s | zip(%s) %%}\n{{ letter }}. {{ text }}\n{%%- endfor %%}\n"


def mcqa(
    *,
    truth: str,
    question: str | None = None,
    options: str | Sequence[str] | None = None,
    choices: str | Sequence[str] | None = None,
    prompt: str | None = None,
    extraction: str = "stated_answer",
    key: str = "mcqa",
    **definition: object,
) -> Task:
    """Return a multiple-choice task, as a task file would define it; texts are templates.

    The model is asked the `question`, with the `options` below it (an expression for the list, or
    one for each), each behind its choice (A, B, … unless given); or `prompt`, which is the whole
    message. `definition` may have more fields of that name, such as `group_by`.
    """
    if (question is None) == (prompt is None) or (options is None and choices is None):
        raise TypeError("`mcqa` needs `question` or `prompt`, and `options` or `choices`")
    texts = None if options is None else _write_expression(options)
    letters = f"'{_LETTERS}'" if choices is None else _write_expression(choices)
    choices = f"{{{{ {letters}[:{texts} | length] | list }}}}" if choices is None else choices
    if prompt is None:
        listed = "" if texts is None else _LISTED % (letters, texts)
        prompt = f"{question}\n{listed}\n{_ASKED}"
    scorer: dict[str, object] = {"type": "string_equals_mcqa", "ground_truth_choice": truth}
    scorer |= {
        "choices": choices if isinstance(choices, str) else list(choices),
        "extraction": extraction,
    }
    scorer |= (
        {}
        if options is None
        else {"options": options if isinstance(options, str) else list(options)}
    )
    builder = {"type": "chat_completion", "input_messages": [{"role": "user", "content": prompt}]}
    fields = {
        "solver": {"type": "single_turn_solver", "input_builder": builder},
        "scorers": [scorer],
    }
    named = {"key": key, "display_name": key, "description": key}
    return load_task({**named, "definition": {**fields, **definition}})


def _write_expression(given: str | Sequence[str]) -> str:
    """Return what stands between the braces of a template.

    Of a list, the list of that, or of plain texts.
    """
    if isinstance(given, str):
        found = re.fullmatch(r"\s*\{\{\s*(.*?)\s*\}\}\s*", given, re.DOTALL)
        if found is None:
            return json.dumps(given)
        return found[1] if re.fullmatch(r"[\w.]+", found[1]) else f"({found[1]})"
    return f"[{', '.join(map(_write_expression, given))}]"


def take_policies(
    tasks: Mapping[str, Task], evaluation: str, options: Options, *, stored: Sequence[object] = ()
) -> tuple[Sequence[Mapping[str, Any]], list[Notice]]:
    """Return the policies that the caller gives, else the stored ones, checked against loaded
    tasks.
    """
    if not options.states_gates and not stored:
        return (), []
    take: Callable[..., tuple[Sequence[Mapping[str, Any]], list[Notice]]]
    take = features.load_gates().take_policies
    return take(tasks, evaluation, options, stored=stored)
