"""From a specification to a prepared task: dataset, completions, model and examples opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from answerkey.datasets import (
    BlankCompletions,
    Dataset,
    Recorded,
    Rows,
    Selection,
    digest_file,
    find_own_completions,
    load_table,
    match_completions,
    name_lasting,
    open_dataset,
    pin_source,
    refuse_single,
)
from answerkey.errors import AnswerkeyError, DataError, SpecError, listing, raise_all, suggest
from answerkey.models.config import ModelConfig
from answerkey.models.model import open_model
from answerkey.pipeline import Prepared
from answerkey.spec import DatasetSpec, Specification, Task
from answerkey.types import Samples
from answerkey.verbs.columns import list_columns
from answerkey.verbs.judge_models import open_judges
from answerkey.verbs.logprob_checks import find_missing_logprobs
from answerkey.verbs.options import Options
from answerkey.verbs.ordering import name_completions, order_dataset, refuse_unordered
from answerkey.verbs.spreading import choose_shard_rows, choose_spread
from answerkey.verbs.staging import Staged

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
    staged: Staged | None = None

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
