"""Scoring in memory: tables in, a run out, nothing written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from answerkey.datasets import (
    Dataset,
    InlineSource,
    completions_within,
    read_table,
    samples_from,
)
from answerkey.engines import open_engine
from answerkey.errors import SpecError, raise_all
from answerkey.models import open_model
from answerkey.pipeline import Prepared
from answerkey.runs import MemoryRun, Run
from answerkey.sandbox import require_trust
from answerkey.spec import DatasetSpec, Specification, Task, load_task
from answerkey.types import Completions, Samples
from answerkey.verbs.opening import Opened, find_completions, match_completions
from answerkey.verbs.options import Options, stay_silent
from answerkey.verbs.running import check_plan, describe_run, describe_sources, work

Table = pl.DataFrame | Sequence[Mapping[str, object]] | str | Path


def score(
    task: Task | Mapping[str, object] | str | Path,
    samples: Table,
    completions: Table | Sequence[str | None] | None = None,
    **options: object,
) -> Run:
    """Score completions against samples in memory and return the run; options as in `Options`.

    `completions` is a table, a file, or texts in the order of the samples; without it the samples' own
    completion column is scored.
    """
    chosen = Options(**options)  # type: ignore[arg-type]  # the fields of Options are the keyword arguments
    ready = _take_task(task, chosen)
    engine = open_engine(chosen.engine)
    require_trust(ready.snippets, trust_code=chosen.trust_code)
    dataset = Dataset.of(_take_samples(samples), name="samples")
    model = open_model(chosen.model) if chosen.model else None
    recorded = _take_completions(completions, ready, dataset, options=chosen)
    prepared = Prepared(key=ready.key, task=ready, dataset=dataset, model=model, recorded=recorded)
    specification = Specification(
        key=ready.key, task=ready, dataset=DatasetSpec("samples", InlineSource(rows=())), model=chosen.model
    )
    source = "recorded" if completions is not None else "builtin" if recorded is None else "dataset"
    opened, notices = check_plan(
        [Opened(specification, prepared, {"source": source, "file": None, "sha256": None, "column": None})],
        chosen,
        stay_silent,
    )
    manifest = describe_run(ready.key, ready.display_name, opened, notices)
    return work(opened, MemoryRun(manifest, {ready.key: describe_sources(opened[0])}), engine, stay_silent)


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


def _take_samples(samples: Table) -> Samples:
    if isinstance(samples, str | Path):
        return read_table(samples)
    return samples_from(samples, name="samples")


def _take_completions(
    completions: Table | Sequence[str | None] | None, task: Task, dataset: Dataset, *, options: Options
) -> Completions | None:
    if completions is None:
        return _find_own(task, dataset, options)
    if isinstance(completions, str | Path):
        table = read_table(completions)
    elif isinstance(completions, pl.DataFrame):
        table = samples_from(completions, name="completions")
    else:
        rows = [one if isinstance(one, Mapping) else {"completion": one} for one in completions]
        table = samples_from(rows, name="completions")
    return match_completions(table, dataset, options.completion_column)


def _find_own(task: Task, dataset: Dataset, options: Options) -> Completions | None:
    """Return the completions among the samples; with a solver they stand in for asking a model."""
    if task.solver is None or options.model is not None or not task.solver.needs_model:
        return find_completions(task, dataset, options)
    own = completions_within(dataset.samples(), column=options.completion_column)
    if own is None:
        raise SpecError(
            "E119",
            f"task `{task.key}` asks a model, and there are neither completions nor a model",
            hint="pass `completions`, `model`, or samples with a column `completion`",
        )
    return own
