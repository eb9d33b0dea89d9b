"""From a task specification to a job: dataset, completions, model, judges and examples opened.

Which columns are read, how many rows make one chunk, and whether chunks go to worker processes is
decided here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from answerkey.datasets.dataset import (
    Chunk,
    Dataset,
    Recorded,
    Selection,
    open_dataset,
    split_into_chunks,
)
from answerkey.datasets.formats import measure_fields
from answerkey.datasets.recorded import (
    RecordedCompletions,
    find_own_completions,
    match_completions,
    refuse_single,
)
from answerkey.datasets.rows import Rows
from answerkey.datasets.sources import InlineSource, Source, pin_source
from answerkey.datasets.storage import digest_file, name_lasting
from answerkey.datasets.tables import DataTable, load_table
from answerkey.engines import Spread
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    NoModelError,
    Place,
    SpecError,
    distinct,
    listing,
    raise_all,
    refuse_column,
)
from answerkey.evaluate.options import Options
from answerkey.models.config import Model, ModelConfig
from answerkey.scorers import (
    asks_model,
    choose_audited,
    find_role,
    reads_by_templates,
)
from answerkey.solvers import Solver, require_echo
from answerkey.spec import DatasetSpec, ScoringStep, Specification, Task
from answerkey.types import Completions, Samples

#: The purpose of the calls of a solver.
SOLVE = "solve"
#: A chunk has at most so many rows, and about so many bytes of cells.
CHUNK_ROWS = 32_768
CHUNK_BYTES = 20 * 2**20
FEWEST_ROWS = 1_000
#: Rows that are slow go to workers in smaller chunks, so that no core waits long for another.
WORKER_CHUNK_ROWS = 16_384
WORKER_CHUNKS = 24
#: Starting worker processes takes about as long as scoring so many rows.
WORKER_ROWS = 20_000

Errors = list[AnswerkeyError]
#: Called with a stage, how many rows of it are done, and how many there are.
Progress = Callable[[str, int, int], None]


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Accept a progress report and show nothing."""


@dataclass(frozen=True)
class Job:
    """A task with everything opened: nothing is left but the work.

    Either `recorded` has the completions (`repeated` those of further repetitions), or the task's
    solver gets them, with `model` if it needs one; `completions` is what `run.json` says about
    where they come from. `judges` are the models of scorers that call one, by the scorer's key.
    When rows are checked before they are scored (`is_checked`), `failed` holds, in order, the
    positions of rows that are wrong in the dataset: they are not sent to a model, and are FAILED
    for every scorer. `image_files` has the SHA-256 of each image file in the prompts. The rows at
    `audited` are read by other extraction rules as well.
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
    spread: Spread = "alone"
    chunk_rows: int = CHUNK_ROWS
    audited: Sequence[int] = ()

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
        """The numbers of the trials of each sample; every repetition has its own."""
        size = self.task.num_trials
        return range(self.repetition * size, (self.repetition + 1) * size)

    @property
    def models(self) -> dict[str, Model]:
        """Every model that the task calls, by the purpose of its calls."""
        models = {}
        if self.model is not None:
            models[SOLVE] = self.model
        for step in self.task.scoring:
            if step.key in self.judges:
                models[name_purpose(step)] = self.judges[step.key]
        return models

    @property
    def calls_models(self) -> bool:
        """Whether a model would be called; then all rows are checked before the first call."""
        if self.model is not None:
            return True
        return any(asks_model(step.scorer) for step in self.task.scoring)

    @property
    def is_costly(self) -> bool:
        """Whether models are called, snippets of the user run, or scorers of another package."""
        if self.calls_models or self.task.snippets:
            return True
        return not all(reads_by_templates(step.scorer) for step in self.task.scoring)

    @property
    def num_calls(self) -> int:
        """How many prompts there are: every sample that is in order, in every trial."""
        return (len(self.dataset) - len(self.failed)) * len(self.trials)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the dataset; nothing is loaded yet."""
        rows = max(1, min(self.chunk_rows, CHUNK_ROWS) // self.task.num_trials)
        return split_into_chunks(self.dataset, rows, self.recorded, self.failed)

    def stages(self, first: int) -> Iterator[Iterable[Chunk]]:
        """Yield the chunk of the `first` samples, then the chunks of the others.

        For 0 all chunks come together.
        """
        chunks = self.chunks()
        if not 0 < first < len(self.dataset):
            yield chunks
            return
        size = len(next(self.dataset.cut(first)))
        whole = next(chunks)
        yield [whole.cut(0, size)]
        later: Iterable[Chunk] = chunks
        if size < len(whole.samples):
            remainder = whole.cut(size, len(whole.samples))
            later = chain([remainder], chunks)
        yield (replace(chunk, index=index) for index, chunk in enumerate(later, start=1))

    def repeat(self, number: int) -> Job:
        """Return the job of one repetition, which has trials, or recorded completions, of its
        own.
        """
        if number and self.repeated:
            return replace(self, repetition=number, recorded=self.repeated[number - 1])
        return replace(self, repetition=number)

    def only_check(self) -> Job:
        """Return the job of checking the rows: no model is needed."""
        kinds: list[object] = [step.scorer for step in self.task.scoring]
        sends_prompts = self.recorded is None and self.task.solver is not None
        if sends_prompts:
            kinds.append(self.task.solver)
        spread: Spread = "apart"
        are_ours = all(type(kind).__module__.startswith("answerkey.") for kind in kinds)
        if are_ours and len(self.dataset) >= WORKER_ROWS:
            spread = "processes"
        rows = choose_chunk_rows(self, spread)
        if sends_prompts:
            rows = min(rows, WORKER_CHUNK_ROWS)  # the messages of a row are many objects
        return replace(
            self,
            model=None,
            judges={},
            failed=(),
            is_checked=False,
            spread=spread,
            chunk_rows=rows,
        )

    def without_rows(self) -> Job:
        """Return what the work on a chunk needs beside it, small enough to be sent to a worker."""
        empty = DatasetSpec(self.dataset.name, InlineSource(rows=()))
        return replace(
            self,
            specification=Specification(self.key, self.task, empty),
            dataset=self.dataset.without_rows(),
            image_files={},
            recorded=None,
            repeated=(),
            failed=(),
            audited=choose_audited(len(self.dataset)),
        )


@dataclass
class Shared:
    """What several runs share, such as datasets: each is fetched, opened and checked once."""

    values: list[tuple[object, Any]] = field(default_factory=list)

    def get(self, make: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - what `make` makes
        """Return what a function makes of arguments, or has made of them before."""
        key = (make, *arguments)
        for earlier_key, value in self.values:
            if earlier_key == key:
                return value
        value = make(*arguments)
        self.values.append((key, value))
        return value


def open_jobs(
    specifications: Iterable[Specification],
    options: Options,
    shared: Shared | None = None,
) -> list[Job]:
    """Return a job for each specification, with everything opened; raise all errors at once."""
    jobs: list[Job] = []
    errors: Errors = []
    for specification in specifications:
        job, problems = open_job(specification, options, shared)
        errors.extend(problems)
        if job is not None:
            jobs.append(job)
    raise_all(errors)
    return jobs


def open_job(
    specification: Specification,
    options: Options,
    shared: Shared | None = None,
    *,
    is_check: bool = False,
    needs_model: bool = True,
    table: Rows | None = None,
    can_use_own: bool = False,
) -> tuple[Job | None, Errors]:
    """Open everything a specification names; return the job, if any, and every error.

    A check opens the whole dataset, and needs no model. `table` has recorded completions that are
    in memory. The samples' own completions stand in for a model that is not named, if they can.
    """
    errors: Errors = []
    options, table, model_name = _choose_completions(specification, options, table)
    selection = Selection() if is_check else specification.selection
    job = _open_samples(specification, selection, shared or Shared(), errors)
    if job is None:
        return None, errors
    if options.completions is not None and table is None:
        with collecting(errors):
            table = load_table(options.completions, by_trial=True).rows
    if job.task.choice_order is not None:
        job = _order_samples(job, table, errors)
    errors += find_missing_columns(job.specification, job.dataset)
    calls_model = _calls_model(specification, options, table, can_use_own=can_use_own)
    if table is not None or options.completions is None:
        with collecting(errors):
            recorded = _open_completions(job, table, options, calls_model=calls_model)
            job = replace(job, recorded=recorded)
    if calls_model:
        is_required = needs_model and not is_check
        job = replace(job, model=_open_model(job, errors, is_required=is_required))
    if specification.judges:
        judges, problems = open_judges(job.task, specification.judges)
        errors += problems
        job = replace(job, judges=judges)
    if errors:
        return job, errors
    job = replace(
        job,
        completions=describe_completions(job, options, model_name, is_recorded=table is not None),
        keep_completions=options.copy or _is_in_memory_only(job),
    )
    return plan_work(job), errors


def _is_in_memory_only(job: Job) -> bool:
    """Return whether the completions are in no file that the run could refer to."""
    return job.model is not None or isinstance(job.specification.completions, DataTable)


def _choose_completions(
    specification: Specification,
    options: Options,
    table: Rows | None,
) -> tuple[Options, Rows | None, str | None]:
    """Return the options and the table with the completions that the specification brings, and the
    name of the model that gave these.
    """
    stored = specification.completions
    if stored is None or options.completions is not None:
        return options, table, None
    if isinstance(stored, DataTable):
        return options, stored.rows, specification.model_name
    return replace(options, completions=str(stored)), table, specification.model_name


def _open_samples(
    specification: Specification,
    selection: Selection,
    shared: Shared,
    errors: Errors,
) -> Job | None:
    """Return a job with its dataset and examples, whose files and addresses are fixed from now on;
    None if the dataset cannot be opened.
    """
    dataset: Dataset | None = None
    examples: Samples | None = None
    source = specification.dataset
    with collecting(errors, source):
        source = replace(source, source=shared.get(pin_source, source.source))
        dataset = shared.get(_open_source, source.source, selection, source.key)
    specification = replace(specification, dataset=source)
    if specification.examples is not None:
        source = specification.examples
        with collecting(errors, source):
            source = replace(source, source=shared.get(pin_source, source.source))
            examples = shared.get(_open_source, source.source, Selection(), source.key).samples()
        specification = replace(specification, examples=source)
    if dataset is None:
        return None
    return Job(specification, dataset, examples=examples)


def _order_samples(job: Job, table: Rows | None, errors: Errors) -> Job:
    """Return the job with a row for each order in which its task shows a sample."""
    from answerkey.evaluate.choice_order import order_dataset

    dataset = job.dataset
    with collecting(errors):
        dataset = order_dataset(job.task, dataset, table)
    return replace(job, dataset=dataset)


def _open_source(source: Source, selection: Selection, name: str) -> Dataset:
    return open_dataset(source, selection=selection, name=name)


def _calls_model(
    specification: Specification,
    options: Options,
    table: Rows | None,
    *,
    can_use_own: bool,
) -> bool:
    """Return whether the solver calls a model: no completions are recorded, here or beside."""
    if options.brings_completions or table is not None:
        return False
    if can_use_own and specification.model is None:
        return False
    solver = specification.task.solver
    return solver is not None and solver.needs_model


def _open_completions(
    job: Job,
    table: Rows | None,
    options: Options,
    *,
    calls_model: bool,
) -> Recorded | None:
    """Return the recorded completions of a job; None where a solver gets them."""
    if job.specification.num_runs > 1 and not calls_model:
        message = f"`repeatability` of `{job.key}`: recorded completions are the same in every run"
        raise SpecError("E119", message, hint="leave `repeatability` out, or name a model")
    column = options.completion_column
    recorded = find_completions(job.task, job.dataset, table, column, calls_model=calls_model)
    if options.split_thinking:
        return split_recorded(job.task, recorded, calls_model=calls_model)
    return recorded


def open_job_of(specification: Specification, dataset: Dataset, **parts: Any) -> Job:  # noqa: ANN401 - fields of Job
    """Return the job of a task whose samples and completions are open; raise what is wrong."""
    judges, errors = open_judges(specification.task, specification.judges)
    raise_all([*errors, *find_missing_design(specification.task, dataset)])
    return plan_work(Job(specification, dataset, judges=judges, **parts))


@contextmanager
def collecting(errors: Errors, dataset: DatasetSpec | None = None) -> Iterator[None]:
    """Keep what goes wrong; an error of a dataset is placed where its file names the dataset."""
    try:
        yield
    except AnswerkeyError as error:
        inner: Sequence[AnswerkeyError] = getattr(error, "errors", (error,))
        if dataset is not None:
            inner = list(map(dataset.locate, inner))
        errors.extend(inner)


def _open_model(job: Job, errors: Errors, *, is_required: bool) -> Model | None:
    """Return the model that the task calls; E119 when one is required and none is named."""
    config = job.specification.model
    if config is not None:
        from answerkey.models.model import open_model

        model = None
        with collecting(errors):
            model = open_model(config)
            errors += _find_missing_logprobs(job.task, model)
        return model
    if is_required:
        message = f"task `{job.task.key}` calls a model, and none is named"
        where = job.task.place("definition", "solver")
        hint = (
            "add `--model builtin/random`, or bring recorded completions with `--completions FILE`"
        )
        errors.append(NoModelError("E119", message, where=where, hint=hint))
    return None


def describe_completions(
    job: Job,
    options: Options,
    model_name: str | None,
    *,
    is_recorded: bool,
) -> dict[str, object]:
    """Return what `run.json` says about where the completions come from."""
    origin: dict[str, object] = {"source": "trace", "file": None, "sha256": None}
    table = job.specification.completions
    if options.completions is not None:
        file = name_lasting(options.completions)
        origin = {"source": "recorded", "file": file, "sha256": digest_file(file)}
    elif isinstance(table, DataTable):
        file = name_lasting(table.rows.file or "")
        origin = {"source": "recorded", "file": file, "sha256": table.digest}
    elif is_recorded:
        origin["source"] = "recorded"
    elif job.recorded is not None and not isinstance(job.recorded, TracedCompletions):
        origin["source"] = "dataset"
    elif job.model is not None:
        origin["source"] = "builtin" if job.model.name.startswith("builtin/") else "live"
    origin["column"] = options.completion_column
    if options.split_thinking:
        origin["split_thinking"] = True
    if model_name:
        origin["model"] = model_name
    return origin


# Columns that the task names.


def find_missing_columns(specification: Specification, dataset: Dataset) -> Errors:
    """Return an error for each column that the specification names and the dataset lacks."""
    task = specification.task
    errors: Errors = []
    for name, column in task.dataset_columns.items():
        if column not in dataset.columns:
            place = task.place("config_spec", name)
            errors.append(_refuse_column(f"config value `{name}`", column, dataset, place))
    stratify_by = specification.selection.stratify_by
    # A check opens all rows and selects none.
    if stratify_by is not None and stratify_by not in dataset.columns:
        errors.append(_refuse_column("`stratify_by`", stratify_by, dataset))
    if not task.design_columns:
        return errors
    return [*errors, *find_missing_design(task, dataset)]


def find_missing_design(task: Task, dataset: Dataset) -> Errors:
    """Return an error for each `group_by` and `cluster_by` that names no column."""
    errors: Errors = []
    for step in task.scoring:
        for number, metric in enumerate(step.metrics):
            above = ("definition", "scorers", step.index, "metrics", number)
            references = [("group_by", column) for column in metric.design.group_by]
            if metric.design.cluster_by is not None:
                references.append(("cluster_by", metric.design.cluster_by))
            for field_name, column in references:
                if column in dataset.columns:
                    continue
                place = task.place(*above, field_name)
                if place == task.place(*above):  # the task says it, for all of its metrics
                    place = task.place("definition", field_name)
                errors.append(_refuse_column(f"`{field_name}`", column, dataset, place))
    return distinct(errors)


def _refuse_column(
    owner: str,
    column: str,
    dataset: Dataset,
    where: Place | None = None,
) -> AnswerkeyError:
    message = f"{owner} names the column `{column}`: dataset `{dataset.name}` has none such"
    return refuse_column(message, column, dataset.columns, where)


# Completions that are there already.


def find_completions(
    task: Task,
    dataset: Dataset,
    table: Rows | None,
    column: str | None,
    *,
    calls_model: bool,
) -> RecordedCompletions | None:
    """Return the recorded completions, in a table or beside the questions; None to be solved.

    A task whose scorers look at the samples alone gets completions without text.
    """
    if table is not None:
        if task.choice_order is not None:
            from answerkey.evaluate.choice_order import name_completions

            table = name_completions(task, table, dataset)
        return match_completions(table, dataset, column=column, num_trials=task.num_trials)
    if task.num_trials > 1 and not calls_model:
        raise refuse_single(task.num_trials)
    if task.solver is not None and column is None:
        is_solved = calls_model or not task.solver.needs_model
        if is_solved:
            return None
    return _find_own_completions(task, dataset, column)


def _find_own_completions(task: Task, dataset: Dataset, column: str | None) -> RecordedCompletions:
    """Return the completions beside the questions."""
    recorded = find_own_completions(dataset.rows, column=column)
    if recorded is not None:
        if task.choice_order is not None:
            from answerkey.evaluate.choice_order import refuse_unordered

            refuse_unordered(task.choice_order)
        return recorded
    for step in task.scoring:
        if step.scorer.needs_completion:
            raise _refuse_missing(step, dataset)
    return RecordedCompletions()


def _refuse_missing(step: ScoringStep, dataset: Dataset) -> DataError:
    message = (
        f"scorer `{step.key}` needs completions: no model is called, and dataset "
        f"`{dataset.name}` has no column `completion`, `output`, `response` or `model_output`"
    )
    hint = (
        "name the column with `--completion-column NAME`, or bring a file with "
        f"`--completions FILE`; columns: {listing(dataset.columns)}"
    )
    return DataError("E209", message, where=Place(file=dataset.rows.file), hint=hint)


@dataclass(frozen=True, kw_only=True)
class TracedCompletions(RecordedCompletions):
    """Completions that a solver finds in the dataset, without calling a model."""

    solver: Solver

    def read_whole(self, samples: Samples) -> Completions:
        """Return what the solver finds."""
        return self.solver.solve(
            samples,
            model=None,
            known=None,
            examples=None,
        )


def find_traced(task: Task) -> TracedCompletions | None:
    """Return the completions that the task's solver finds in the dataset; None without a solver."""
    if task.solver is None:
        return None
    return TracedCompletions(solver=task.solver)


def split_recorded(
    task: Task,
    recorded: RecordedCompletions | None,
    *,
    calls_model: bool,
) -> RecordedCompletions | None:
    """Return completions with their thoughts apart; SpecError E119 where a model writes them."""
    if calls_model:
        message = "`--split-thinking` is about recorded completions, and a model is called"
        hint = (
            "leave it out: thoughts in a model's reply are taken out, unless `thinking: "
            "keep` is set"
        )
        raise SpecError("E119", message, hint=hint)
    completions = recorded or find_traced(task)
    if completions is None:
        return None
    return replace(completions, splits_thoughts=True)


# Models that scorers call, and what a model must be able to send.


def name_purpose(step: ScoringStep) -> str:
    """Return the purpose of the calls of a scorer."""
    return f"{find_role(step.scorer)}:{step.key}"


def open_judges(
    task: Task,
    judges: Mapping[str, str | ModelConfig],
) -> tuple[dict[str, Model], Errors]:
    """Return the models of scorers that call one, by the scorer's key, and why some cannot be
    opened.
    """
    models: dict[str, Model] = {}
    errors: Errors = []
    for step in task.scoring:
        if step.key not in judges or not asks_model(step.scorer):
            continue
        from answerkey.models.model import open_model

        try:
            model = open_model(judges[step.key])
            step.scorer.bind(model, key=step.key)
        except SpecError as error:
            where = error.where or task.place(*step.model_path)
            errors.append(SpecError(error.code, error.message, where=where, hint=error.hint))
        else:
            models[step.key] = model
    return models, errors


def _find_missing_logprobs(task: Task, model: Model) -> Errors:
    """Return an error for each scorer that reads log-probabilities which the model does not
    send.
    """
    errors: Errors = []
    if task.solver is not None and task.solver.ranks_continuations:
        with collecting(errors):
            require_echo(model)
        return errors
    explain = getattr(model, "explain_missing_logprobs", None)
    reason = explain() if explain is not None else None
    if not reason:
        return errors
    for step in task.scoring:
        if getattr(step.scorer, "reads_logprobs", False):
            message = f"scorer `{step.key}` reads log-probabilities, and {reason}"
            hint = "add `generation: {logprobs: true, top_logprobs: 10}` to the model"
            hint += ", or `?top_logprobs=10` to its name"
            where = task.place("definition", "scorers", step.index)
            errors.append(SpecError("E108", message, where=where, hint=hint))
    return errors


# How many rows make a chunk, and whether chunks go to worker processes.


def plan_work(job: Job) -> Job:
    """Return the job with the size of its chunks, and where they go."""
    job = replace(job, spread=choose_spread(job))
    if len(job.dataset) <= FEWEST_ROWS:
        return job
    return replace(job, chunk_rows=choose_chunk_rows(job, job.spread))


def choose_spread(job: Job) -> Spread:
    """Return where a job's chunks are worked on; whatever calls a model does so from here."""
    if job.calls_models:
        return "alone"
    if job.is_costly or len(job.dataset) < WORKER_ROWS:
        return "apart"
    return "processes"


def choose_chunk_rows(job: Job, spread: Spread) -> int:
    """Return how many rows one chunk has: fewer where rows are long, or take long."""
    rows = fit_rows(job.dataset.rows, job.recorded)
    if spread != "processes":
        return rows
    share = max(FEWEST_ROWS, len(job.dataset) // WORKER_CHUNKS)
    return min(rows, share, WORKER_CHUNK_ROWS)


def fit_rows(rows: Rows, recorded: Recorded | None) -> int:
    """Return how many rows fit into one chunk, judged by the first and the middle ones."""
    if len(rows) <= FEWEST_ROWS:
        return CHUNK_ROWS
    size = 0
    seen = 0
    for offset in (0, len(rows) // 2):
        samples = rows.slice(offset, FEWEST_ROWS).load()
        size += sum(map(measure_fields, samples.rows()))
        seen += len(samples)
        if recorded is not None:
            completions = recorded.slice(offset, len(samples)).read(samples)
            size += int(completions.frame["completion"].estimated_size())
    rows_that_fit = CHUNK_BYTES * seen // max(size, 1)
    return min(CHUNK_ROWS, max(FEWEST_ROWS, rows_that_fit))
