"""Runs: from a file to a finished run."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from answerkey._version import __version__
from answerkey.engines import Engine, open_engine
from answerkey.errors import AnswerkeyError, Place, SpecError, raise_all
from answerkey.metrics import find_category_column
from answerkey.pipeline import Prepared, Progress, run_task
from answerkey.runs import FolderRun, MemoryRun, Run, default_folder
from answerkey.sandbox import require_trust
from answerkey.spec import DatasetSpec, Plan, load_plan
from answerkey.types import Notice
from answerkey.verbs.checking import RowFindings, check_rows
from answerkey.verbs.opening import Opened, open_specification
from answerkey.verbs.options import Options, stay_silent


def run(
    path: str | Path,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Run:
    """Check everything, solve, score, write the run folder, and return the run; options as in `Options`."""
    chosen = Options(**options)  # type: ignore[arg-type]  # the fields of Options are the keyword arguments
    report = progress or stay_silent
    plan, notices = read_plan(path, chosen)
    opened = open_plan(plan, chosen)
    opened, heard = check_plan(opened, chosen, report)
    engine = open_engine(chosen.engine)
    folder = Path(out) if out is not None else default_folder(plan.key)
    sources = {one.prepared.key: describe_sources(one) for one in opened}
    manifest = describe_run(plan.key, plan.display_name, opened, [*notices, *heard])
    writer = FolderRun.create(folder, manifest, sources)
    return work(opened, writer, engine, report)


def read_plan(path: str | Path, options: Options) -> tuple[Plan, list[Notice]]:
    """Load a run or task file; raise all its errors at once, and E118 for code that is not trusted."""
    loaded = load_plan(path, options.overrides())
    raise_all(loaded.errors)
    if loaded.value is None or not loaded.value.specifications:
        raise SpecError(
            "E119",
            f"`{path}` names nothing to run",
            where=Place(file=str(path)),
            hint="a run file needs an `evaluation` with `task_specifications`, or `tasks` and a dataset",
        )
    snippets = [one for spec in loaded.value.specifications for one in spec.task.snippets]
    require_trust(snippets, trust_code=options.trust_code)
    return loaded.value, list(loaded.notices)


def open_plan(plan: Plan, options: Options) -> list[Opened]:
    """Open every specification; raise all errors at once."""
    opened: list[Opened] = []
    errors: list[AnswerkeyError] = []
    for specification in plan.specifications:
        one, troubles = open_specification(specification, options)
        errors.extend(troubles)
        opened.extend([one] if one else [])
    raise_all(errors)
    return opened


def check_plan(
    opened: Sequence[Opened], options: Options, progress: Progress
) -> tuple[list[Opened], list[Notice]]:
    """Check the rows to be used; refuse when more are wrong than `allow_failed` says."""
    checked, errors, notices = [], [], []
    for one in opened:
        findings = check_rows(one.prepared, progress)
        notices.extend([*one.prepared.dataset.notices, *findings.notices])
        errors.extend(_refuse(findings, options.failed_limit(len(one.prepared.dataset))))
        checked.append(replace(one, prepared=replace(one.prepared, failed=frozenset(findings.failed))))
    raise_all(errors)
    return checked, list(dict.fromkeys(notices))


def _refuse(findings: RowFindings, limit: int) -> list[AnswerkeyError]:
    if findings.fatal or len(findings.failed) > limit:
        return findings.errors()
    return []


def work(opened: Sequence[Opened], writer: FolderRun | MemoryRun, engine: Engine, progress: Progress) -> Run:
    """Run every prepared task and close the run; it is incomplete when a call failed for good."""
    changes: dict[str, Mapping[str, Any]] = {}
    for one in opened:
        outcome = run_task(one.prepared, writer.task(one.prepared.key), engine, progress)
        changes[one.prepared.key] = {"counts": outcome.tally["counts"], "encoded": outcome.encoded}
    failed_calls = sum(change["counts"]["errors"] for change in changes.values())
    return writer.finish("incomplete" if failed_calls else "complete", changes)


def describe_run(
    key: str, display_name: str | None, opened: Sequence[Opened], notices: Sequence[Notice]
) -> dict[str, Any]:
    """Return what `run.json` says before the work begins."""
    return {
        "answerkey_version": __version__,
        "key": key,
        "display_name": display_name or key,
        "python": platform.python_version(),
        "platform": platform.system().lower(),
        "notices": [str(notice) for notice in notices],
        "tasks": [describe_task(one) for one in opened],
    }


def describe_task(opened: Opened) -> dict[str, Any]:
    """Return a task's entry in `run.json`."""
    specification, prepared = opened.specification, opened.prepared
    return {
        "key": prepared.key,
        "display_name": specification.display_name or prepared.task.display_name,
        "task": {
            "key": prepared.task.key,
            "display_name": prepared.task.display_name,
            "fingerprint": prepared.task.fingerprint,
            "file": prepared.task.file,
        },
        "dataset": _describe_dataset(opened),
        "model": _describe_model(prepared),
        "completions": opened.completions,
        "config": prepared.task.config,
        "scorers": [
            {
                "key": step.key,
                "type": step.scorer.type,
                "title": step.scorer.title,
                "purpose": step.purpose,
                "display_name": step.display_name,
                "validity": "completion_validity" in (step.scorer.metadata_names or ()),
            }
            for step in prepared.task.scoring
        ],
        "selection": asdict(specification.selection),
        "counts": None,
    }


def _describe_model(prepared: Prepared) -> dict[str, object] | None:
    return {"name": prepared.model.name, "simulated": prepared.model.is_simulated} if prepared.model else None


def _describe_dataset(opened: Opened) -> dict[str, object]:
    dataset, specification = opened.prepared.dataset, opened.specification.dataset
    return {
        "key": specification.key,
        "display_name": specification.display_name,
        "file": getattr(specification.source, "file_path", None),
        "fingerprint": dataset.fingerprint,
        "rows_read": dataset.rows_read,
        "rows_filtered": dataset.rows_filtered,
        "samples": len(dataset),
        "category": find_category_column(dataset.columns),
    }


def describe_sources(opened: Opened) -> dict[str, Any]:
    """Return `task.json`: the task as resolved and where its samples come from, enough to open it again."""
    specification = opened.specification
    examples = specification.examples
    return {
        "task": specification.task.source,
        "dataset": _describe_source(specification.dataset),
        "examples": _describe_source(examples) if examples else None,
    }


def _describe_source(dataset: DatasetSpec) -> dict[str, Any]:
    source: Any = dataset.source
    return asdict(source)
