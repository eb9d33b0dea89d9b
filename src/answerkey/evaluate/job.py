"""Open a job: its dataset, completions, model, judges and examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from answerkey.datasets.dataset import Dataset, Recorded, Selection, open_dataset
from answerkey.datasets.recorded import (
    RecordedCompletions,
    find_own_completions,
    match_completions,
    refuse_single,
)
from answerkey.datasets.rows import Rows
from answerkey.datasets.sources import pin_source
from answerkey.datasets.storage import digest_file, name_lasting
from answerkey.datasets.tables import DataTable, load_table
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
from answerkey.models.config import Model
from answerkey.scorers import asks_model
from answerkey.solvers import Solver
from answerkey.spec import DatasetSpec, Job, Options, ScoringStep, Task
from answerkey.spec.job import plan_work
from answerkey.spec.nodes import Location, ProblemList
from answerkey.types import Completions, Samples

Errors = list[AnswerkeyError]


@dataclass
class Shared:
    """Objects that several runs share, such as datasets: each is opened and checked only once."""

    values: list[tuple[object, Any]] = field(default_factory=list)

    def get(
        self,
        make: Callable[..., Any],
        *arguments: object,
        **keywords: object,
    ) -> Any:  # noqa: ANN401 - what `make` makes
        """Return the result of a function for these arguments, which is computed only once."""
        key = (make, arguments, keywords)
        for earlier_key, value in self.values:
            if earlier_key == key:
                return value
        value = make(*arguments, **keywords)
        self.values.append((key, value))
        return value


def open_jobs(
    jobs: Iterable[Job],
    options: Options,
    shared: Shared | None = None,
    **how: Any,  # noqa: ANN401 - as for `open_job`
) -> list[Job]:
    """Return the jobs with everything opened; raise all errors at once."""
    problems = ProblemList()
    shared = shared or Shared()
    opened = [open_job(job, options, problems, shared, **how) for job in jobs]
    raise_all(problems.errors)
    return list(filter(None, opened))


def open_job(
    job: Job,
    options: Options,
    problems: ProblemList,
    shared: Shared,
    *,
    is_check: bool = False,
    needs_model: bool = True,
    can_use_own: bool = False,
) -> Job | None:
    """Open everything a job names and report every error; None without a dataset.

    A check opens the whole dataset, and needs no model. The samples' own completions stand in for a
    model that is not named, if they can.
    """
    earlier = len(problems.errors)
    selection = Selection() if is_check else job.selection
    job = _open_samples(
        job,
        selection,
        shared,
        problems,
    )
    if job.opened is None:
        return None
    origin = job.completions_from
    if options.completions is not None:
        origin = options.completions
    table = None
    with collecting(problems):
        table = _load_completions(origin)
    job = _order_samples(job, table, problems)
    for error in find_missing_columns(job):
        problems.report(error)
    calls_model = _calls_model(
        job,
        options,
        origin,
        can_use_own=can_use_own,
    )
    if origin is None or table is not None:
        with collecting(problems):
            recorded = _open_completions(
                job,
                table,
                options,
                calls_model=calls_model,
            )
            job = replace(job, recorded=recorded)
    if calls_model:
        is_required = needs_model and not is_check
        job = replace(job, model=_open_model(job, problems, is_required=is_required))
    job = replace(job, judges=open_judges(job, problems))
    if len(problems.errors) > earlier:
        return job
    completions = describe_completions(job, options, origin)
    # What is in no file cannot be referred to.
    is_in_file = job.model is None and isinstance(origin, Location | None)
    keep_completions = options.copy or not is_in_file
    return plan_work(replace(job, completions=completions, keep_completions=keep_completions))


def _open_samples(
    job: Job,
    selection: Selection,
    shared: Shared,
    problems: ProblemList,
) -> Job:
    """Return the job with its dataset and examples, whose files and addresses are fixed from now
    on.
    """
    with collecting(problems, job.dataset_spec):
        source = shared.get(pin_source, job.dataset_spec.source)
        name = job.dataset_spec.key
        dataset = shared.get(
            open_dataset,
            source,
            selection=selection,
            name=name,
        )
        job = replace(job, dataset_spec=replace(job.dataset_spec, source=source), opened=dataset)
    if job.examples_spec is not None:
        with collecting(problems, job.examples_spec):
            source = shared.get(pin_source, job.examples_spec.source)
            examples = shared.get(open_dataset, source, name=job.examples_spec.key).samples()
            spec = replace(job.examples_spec, source=source)
            job = replace(job, examples_spec=spec, examples=examples)
    return job


def _load_completions(origin: Location | DataTable | Rows | None) -> Rows | None:
    """Return the recorded completions that are in a file or in memory."""
    if isinstance(origin, Location):
        return load_table(origin, by_trial=True).rows
    return origin.rows if isinstance(origin, DataTable) else origin


def _order_samples(job: Job, table: Rows | None, problems: ProblemList) -> Job:
    """Return the job with a row for each order in which its task shows a sample."""
    if job.task.choice_order is None:
        return job
    from answerkey.evaluate.choice_order import order_dataset

    dataset = job.dataset
    with collecting(problems):
        dataset = order_dataset(job.task, dataset, table)
    return replace(job, opened=dataset)


def _calls_model(
    job: Job,
    options: Options,
    origin: object,
    *,
    can_use_own: bool,
) -> bool:
    """Return whether the solver calls a model because there are no recorded completions."""
    if origin is not None or options.completion_column is not None:
        return False
    if can_use_own and job.model_choice is None:
        return False
    solver = job.task.solver
    return solver is not None and solver.needs_model


def _open_completions(
    job: Job,
    table: Rows | None,
    options: Options,
    *,
    calls_model: bool,
) -> Recorded | None:
    """Return the recorded completions of a job; None where a solver gets them."""
    if job.num_runs > 1 and not calls_model:
        message = f"`repeatability` of `{job.key}`: recorded completions are the same in every run"
        raise SpecError("E119", message, hint="leave `repeatability` out, or name a model")
    column = options.completion_column
    recorded = find_completions(
        job.task,
        job.dataset,
        table,
        column,
        calls_model=calls_model,
    )
    if options.split_thinking:
        return split_recorded(job.task, recorded, calls_model=calls_model)
    return recorded


def complete_job(job: Job) -> Job:
    """Return a job whose samples and completions are open with its judges; raise what is wrong."""
    problems = ProblemList()
    judges = open_judges(job, problems)
    raise_all([*problems.errors, *find_missing_design(job.task, job.dataset)])
    return plan_work(replace(job, judges=judges))


@contextmanager
def collecting(problems: ProblemList, dataset: DatasetSpec | None = None) -> Iterator[None]:
    """Collect the errors raised in the block; a dataset's errors point to where a file names it."""
    try:
        yield
    except AnswerkeyError as error:
        for single in getattr(error, "errors", (error,)):
            problems.report(single if dataset is None else dataset.locate(single))


def _open_model(
    job: Job,
    problems: ProblemList,
    *,
    is_required: bool,
) -> Model | None:
    """Return the model that the task calls; E119 when one is required and none is named."""
    if job.model_choice is not None:
        from answerkey.models.model import open_model

        model = None
        with collecting(problems):
            model = open_model(job.model_choice)
            _report_missing_logprobs(job.task, model, problems)
        return model
    if is_required:
        message = f"task `{job.task.key}` calls a model, and none is named"
        where = job.task.place("definition", "solver")
        hint = (
            "add `--model builtin/random`, or bring recorded completions with `--completions FILE`"
        )
        problems.report(NoModelError("E119", message, where=where, hint=hint))
    return None


def describe_completions(
    job: Job,
    options: Options,
    origin: Location | DataTable | Rows | None,
) -> dict[str, object]:
    """Return what `run.json` says about where the completions come from."""
    file = None
    digest = None
    if isinstance(origin, DataTable):
        file = name_lasting(origin.rows.file or "")
        digest = origin.digest
    elif isinstance(origin, Location):
        file = name_lasting(origin)
        digest = digest_file(file)
    described: dict[str, object] = {
        "source": "recorded" if origin is not None else _name_source(job),
        "file": file,
        "sha256": digest,
        "column": options.completion_column,
    }
    if options.split_thinking:
        described["split_thinking"] = True
    is_callers = options.completions is not None
    if job.completions_from is not None and job.model_name and not is_callers:
        described["model"] = job.model_name
    return described


def _name_source(job: Job) -> str:
    """Return the source of completions for which the caller gives no file or table."""
    if job.recorded is not None and not isinstance(job.recorded, TracedCompletions):
        return "dataset"
    if job.model is None:
        return "trace"
    return "builtin" if job.model.name.startswith("builtin/") else "live"


# Columns that the task names.


def find_missing_columns(job: Job) -> Errors:
    """Return an error for each column that the job names and the dataset lacks."""
    task = job.task
    dataset = job.dataset
    errors: Errors = []
    for name, column in task.dataset_columns.items():
        if column not in dataset.columns:
            place = task.place("config_spec", name)
            errors.append(
                _refuse_column(
                    f"config value `{name}`",
                    column,
                    dataset,
                    place,
                )
            )
    stratify_by = job.selection.stratify_by
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
                errors.append(
                    _refuse_column(
                        f"`{field_name}`",
                        column,
                        dataset,
                        place,
                    )
                )
    return distinct(errors)


def _refuse_column(
    owner: str,
    column: str,
    dataset: Dataset,
    where: Place | None = None,
) -> AnswerkeyError:
    message = f"{owner} names the column `{column}`: dataset `{dataset.name}` has none such"
    return refuse_column(
        message,
        column,
        dataset.columns,
        where,
    )


# Recorded completions.


def find_completions(
    task: Task,
    dataset: Dataset,
    table: Rows | None,
    column: str | None,
    *,
    calls_model: bool,
) -> RecordedCompletions | None:
    """Return the recorded completions, from a table or the dataset; None if a solver gets them.

    A task whose scorers look at the samples alone gets completions without text.
    """
    if table is not None:
        if task.choice_order is not None:
            from answerkey.evaluate.choice_order import name_completions

            table = name_completions(task, table, dataset)
        return match_completions(
            table,
            dataset,
            column=column,
            num_trials=task.num_trials,
        )
    if task.num_trials > 1 and not calls_model:
        raise refuse_single(task.num_trials)
    if task.solver is not None and column is None:
        is_solved = calls_model or not task.solver.needs_model
        if is_solved:
            return None
    return _find_own_completions(task, dataset, column)


def _find_own_completions(
    task: Task,
    dataset: Dataset,
    column: str | None,
) -> RecordedCompletions:
    """Return the completions in the dataset itself."""
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
            facts=None,
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
    """Return completions with their thoughts split off; SpecError E119 if a model writes them."""
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


# Models that scorers call, and the abilities that a model must have.


def open_judges(job: Job, problems: ProblemList) -> dict[str, Model]:
    """Return the models of scorers that call one, by the scorer's key; report why some cannot be
    opened.
    """
    models: dict[str, Model] = {}
    for step in job.task.scoring:
        if step.key not in job.judge_choices or not asks_model(step.scorer):
            continue
        from answerkey.models.model import open_model

        try:
            model = open_model(job.judge_choices[step.key])
            step.scorer.bind(model, key=step.key)
        except SpecError as error:
            where = error.where or job.task.place(*step.model_path)
            problems.add(
                error.code,
                error.message,
                where,
                error.hint,
            )
        else:
            models[step.key] = model
    return models


def _report_missing_logprobs(
    task: Task,
    model: Model,
    problems: ProblemList,
) -> None:
    """Report each scorer that reads log-probabilities which the model does not send."""
    if task.solver is not None and task.solver.ranks_continuations:
        from answerkey.solvers.single_turn import require_echo

        require_echo(model)
        return
    explain = getattr(model, "explain_missing_logprobs", None)
    reason = explain() if explain is not None else None
    if not reason:
        return
    for step in task.scoring:
        if getattr(step.scorer, "reads_logprobs", False):
            message = f"scorer `{step.key}` reads log-probabilities, and {reason}"
            hint = "name the model of an endpoint, with `?top_logprobs=10` behind its name"
            hint += " or `generation: {logprobs: true, top_logprobs: 10}` in its model file"
            where = task.place("definition", "scorers", step.index)
            problems.add(
                "E108",
                message,
                where,
                hint,
            )
