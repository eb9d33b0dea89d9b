"""Scoring in memory: tables in, a run out, nothing written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from answerkey.datasets import (
    Dataset,
    InlineSource,
    Recorded,
    Rows,
    find_own_completions,
    load_rows,
    load_table,
    match_completions,
    refuse_single,
)
from answerkey.engines import open_engine
from answerkey.errors import SpecError, raise_all
from answerkey.models.model import open_model
from answerkey.pipeline import Prepared
from answerkey.runs import Run, start_run
from answerkey.sandbox import require_trust
from answerkey.spec import DatasetSpec, Specification, Task, load_judges, load_task
from answerkey.verbs.gating import describe_policies, take_policies
from answerkey.verbs.judge_models import open_judges
from answerkey.verbs.opening import Opened, find_completions, lay_out_work
from answerkey.verbs.options import Options, read_options, stay_silent
from answerkey.verbs.ordering import name_completions, order_dataset, refuse_unordered
from answerkey.verbs.running import check_plan, describe_run, describe_sources, work
from answerkey.verbs.staging import Stage

Table = pl.DataFrame | Sequence[Mapping[str, object]] | str | Path


def score(
    task: Task | Mapping[str, object] | str | Path,
    samples: Table,
    completions: Table | Sequence[str | None] | None = None,
    **options: object,
) -> Run:
    """Score completions against samples in memory and return the run; options as in `Options`.

    `completions` is a table, a file, or texts in the order of the samples; without it the samples' own
    completion column is scored. A scorer that asks a model must name it by provider or URL; it is asked.
    """
    chosen = read_options("score", options)
    ready = _take_task(task, chosen)
    engine = open_engine(chosen.engine, chosen.ray_address)
    is_callers = isinstance(task, Mapping)
    judges = load_judges(ready, run_file=None, overrides=chosen.overrides(), is_callers=is_callers)
    require_trust(ready.snippets, trust_code=chosen.trust_code)
    judge_models, errors = open_judges(ready, judges)
    raise_all(errors)
    given_rows = _take_table(completions)
    dataset = order_dataset(ready, Dataset.of(_take_samples(samples), name="samples"), given_rows)
    model = open_model(chosen.model) if chosen.model else None
    recorded = _take_completions(given_rows, ready, dataset, options=chosen)
    prepared = lay_out_work(
        Prepared(
            key=ready.key, task=ready, dataset=dataset, model=model, recorded=recorded, judges=judge_models
        )
    )
    given = DatasetSpec("samples", InlineSource(rows=()))
    specification = Specification(key=ready.key, task=ready, dataset=given, model=chosen.model, judges=judges)
    source = "recorded" if completions is not None else "builtin" if recorded is None else "dataset"
    opened, notices = check_plan(
        [Opened(specification, prepared, {"source": source, "file": None, "sha256": None, "column": None})],
        chosen,
        stay_silent,
        engine,
        Stage(),
    )
    policies, heard = take_policies({ready.key: ready}, ready.key, chosen)
    manifest = describe_run(ready.key, ready.display_name, opened, [*notices, *heard])
    manifest |= describe_policies(policies)
    writer = start_run(None, manifest, {ready.key: describe_sources(opened[0])})
    return work(opened, writer, engine, stay_silent, options=chosen)


def _take_task(task: Task | Mapping[str, object] | str | Path, options: Options) -> Task:
    if isinstance(task, Task):
        return task
    loaded = load_task(task, config=options.config, overrides=options.overrides())
    raise_all(loaded.errors)
    if loaded.value is None:
        raise SpecError(
            "E119", "there is no task to score with", hint="give a task file, a mapping or a Task"
        )
    return loaded.value


def _take_samples(samples: Table) -> Rows:
    if isinstance(samples, str | Path):
        return load_table(samples).rows
    return load_rows(samples, name="samples").rows


def _take_table(completions: Table | Sequence[str | None] | None) -> Rows | None:
    """Return the rows of completions that are given as a file, a table, or texts."""
    if completions is None:
        return None
    if isinstance(completions, str | Path):
        return load_table(completions, by_trial=True).rows
    if isinstance(completions, pl.DataFrame):
        return load_rows(completions, name="completions", by_trial=True).rows
    rows = [one if isinstance(one, Mapping) else {"completion": one} for one in completions]
    return load_rows(rows, name="completions", by_trial=True).rows


def _take_completions(
    completions: Rows | None, task: Task, dataset: Dataset, *, options: Options
) -> Recorded | None:
    if completions is None:
        return _find_own(task, dataset, options)
    named, column = name_completions(task, completions, dataset), options.completion_column
    return match_completions(named, dataset, column=column, num_trials=task.num_trials)


def _find_own(task: Task, dataset: Dataset, options: Options) -> Recorded | None:
    """Return the completions among the samples; with a solver they stand in for asking a model."""
    if task.solver is None or options.model is not None or not task.solver.needs_model:
        return find_completions(task, dataset, options)
    own = find_own_completions(dataset.rows, column=options.completion_column)
    if own is None:
        raise SpecError(
            "E119",
            f"task `{task.key}` asks a model, and there are neither completions nor a model",
            hint="pass `completions`, `model`, or samples with a column `completion`",
        )
    refuse_unordered(task)
    if task.num_trials > 1:
        raise refuse_single(task.num_trials)
    return own
