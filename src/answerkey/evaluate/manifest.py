"""The description of a run and its tasks in the run folder, written before the work begins."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.dataset import Dataset
from answerkey.datasets.sources import MemorySource, Source
from answerkey.datasets.tables import SAMPLE_COLUMN
from answerkey.metrics import find_category_column
from answerkey.models.config import Model, ModelConfig
from answerkey.scorers import find_role
from answerkey.spec import Job, ScoringStep
from answerkey.types import Notice

#: The software and the machine that this process runs on.
ENVIRONMENT = {
    "answerkey_version": __version__,
    "python": platform.python_version(),
    "platform": platform.system().lower(),
}


def describe_run(
    key: str,
    display_name: str | None,
    jobs: Sequence[Job],
    notices: Sequence[Notice],
    policies: Sequence[Mapping[str, Any]],
    **more: object,
) -> dict[str, Any]:
    """Return what `run.json` says before the work begins."""
    manifest = {
        **ENVIRONMENT,
        "key": key,
        "display_name": display_name or key,
        "notices": [str(notice) for notice in notices],
        "tasks": [describe_job(job) for job in jobs],
        **more,
    }
    if policies:
        manifest["policies"] = list(policies)
    return manifest


def describe_job(job: Job) -> dict[str, Any]:
    """Return a task's entry in `run.json`; settings that are not used are left out."""
    task = job.task
    dataset = job.dataset
    entry = {
        "key": job.key,
        "display_name": job.display_name or task.display_name,
        "task": {
            "key": task.key,
            "display_name": task.display_name,
            "fingerprint": task.fingerprint,
            "file": task.file,
        },
        "dataset": {
            "key": job.dataset_spec.key,
            "display_name": job.dataset_spec.display_name,
            "file": getattr(job.dataset_spec.source, "origin", None),
            "fingerprint": dataset.fingerprint,
            "rows_read": dataset.rows_read,
            "rows_filtered": dataset.rows_filtered,
            "samples": dataset.num_samples,
            "category": find_category_column(dataset.columns),
        },
        "model": describe_model(job.model) if job.model else None,
        "completions": job.completions,
        "config": task.config,
        "scorers": [_describe_step(step, job.judges.get(step.key)) for step in task.scoring],
        "selection": asdict(job.selection),
    }
    if task.trials is not None:
        entry["trials"] = asdict(task.trials)
    if job.variant is not None:
        entry["variant"] = asdict(job.variant)
    if task.choice_order is not None:
        entry["choice_order"] = asdict(task.choice_order)
    if job.num_runs > 1:
        entry["repeatability"] = {"num_runs": job.num_runs}
    entry["counts"] = None
    return entry


def _describe_step(step: ScoringStep, judge: Model | None) -> dict[str, object]:
    scorer = step.scorer
    described: dict[str, object] = {
        "key": step.key,
        "type": scorer.type,
        "title": scorer.title,
        "purpose": step.purpose,
        "display_name": step.display_name,
        "validity": "completion_validity" in (scorer.metadata_types or ()),
    }
    if judge is not None:
        model = describe_model(judge)
        role = find_role(scorer)
        if role != "judge":  # a fallback has a prompt of ours
            prompt = str(getattr(scorer, "model_prompt", ""))
            model |= {"role": role, "prompt": hashlib.sha256(prompt.encode()).hexdigest()}
        described["model"] = model
    return described


def describe_model(model: Model) -> dict[str, object]:
    """Return the settings that decide a model's answers, without secrets."""
    described: dict[str, object] = {"name": model.name, "simulated": model.is_simulated}
    for name in ("identity", "is_function"):
        value = getattr(model, name, None)
        if value:
            described[name] = value
    return described


def describe_sources(job: Job) -> dict[str, Any]:
    """Return `task.json`: the task as resolved and where its samples come from."""
    examples = None
    if job.examples_spec is not None:
        examples = _describe_source(job.examples_spec.source)
    fingerprint = None
    if job.examples is not None:
        fingerprint = Dataset.of(job.examples, name="examples").fingerprint
    generation = None
    if isinstance(job.model_choice, ModelConfig):
        generation = job.model_choice.generation.given()
    return {
        "task": job.task.source,
        "dataset": _describe_source(job.dataset_spec.source),
        "examples": examples,
        "examples_fingerprint": fingerprint,
        "model_key": job.model_key,
        "generation": generation,
        "num_runs": job.num_runs,
        "image_files": job.image_files,
        "rows_checked": job.is_checked and not job.failed,
    }


def _describe_source(source: Source) -> dict[str, Any]:
    if isinstance(source, MemorySource):
        return {"type": source.type, "digest": source.table.digest}
    return asdict(cast("Any", source))


def tabulate_samples(source: MemorySource) -> pl.DataFrame:
    """Return samples that are in no file as a table of JSON texts."""
    texts = [json.dumps(fields, ensure_ascii=False) for fields in source.table.samples.rows()]
    return pl.DataFrame({SAMPLE_COLUMN: pl.Series(texts, dtype=pl.String)})
