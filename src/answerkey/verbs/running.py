"""Runs: from a file to a finished run."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from answerkey._version import __version__
from answerkey.datasets import Dataset
from answerkey.engines import Engine, open_engine
from answerkey.errors import AnswerkeyError, Place, RunError, SpecError, raise_all
from answerkey.metrics import find_category_column
from answerkey.models.calls import CachePolicy
from answerkey.models.config import ModelConfig
from answerkey.models.model import Model
from answerkey.pipeline import FIRST, Outcome, Prepared, Progress, run_task
from answerkey.runs import (
    Run,
    RunPlace,
    RunWriter,
    TaskWriter,
    default_folder,
    find_place,
    require_free,
    start_run,
)
from answerkey.sandbox import require_trust
from answerkey.spec import DatasetSpec, Plan, Specification, load_plan
from answerkey.types import Notice, Samples
from answerkey.verbs.binding import Session, open_session, require_askable
from answerkey.verbs.gating import conclude_gates, describe_policies, list_baseline_errors
from answerkey.verbs.observing import Onlooker
from answerkey.verbs.opening import Opened, open_specification
from answerkey.verbs.options import Options, read_options, stay_silent
from answerkey.verbs.repeating import run_repetitions
from answerkey.verbs.row_checks import RowFindings, check_rows
from answerkey.verbs.staging import Stage, Staged, open_stage, visit_rows


def run(
    path: str | Path,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    onlooker: Onlooker | None = None,
    **options: object,
) -> Run:
    """Check everything, solve, score, write the run folder, and return the run; options as in `Options`.

    `onlooker` sees live models being asked.
    """
    chosen = read_options("run", options)
    report = progress or stay_silent
    plan, notices = read_plan(path, chosen)
    policy = chosen.cache_policy or cast("CachePolicy | None", plan.cache_policy)
    chosen = replace(chosen, cache_policy=policy)
    engine = open_engine(chosen.engine, chosen.ray_address)
    place = find_place(out) if out is not None else default_folder(plan.key)
    require_free(place)
    with open_stage(place, is_far=engine.is_far) as stage:
        opened, heard = check_plan(open_plan(plan, chosen), chosen, report, engine, stage)
        require_askable(opened, chosen)
        sources = {one.prepared.key: describe_sources(one) for one in opened}
        manifest = describe_run(plan.key, plan.display_name, opened, [*notices, *heard])
        manifest |= {"file": str(Path(path).resolve()), "options": chosen.stored()}
        manifest |= describe_policies(plan.policies)
        with start_run(place, manifest, sources) as writer:
            return work(opened, writer, engine, report, options=chosen, onlooker=onlooker)


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
    snippets = [one for spec in loaded.value.specifications for one in spec.snippets]
    require_trust(snippets, trust_code=options.trust_code)
    raise_all(list_baseline_errors(loaded.value.policies, loaded.value.key))
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
    opened: Sequence[Opened],
    options: Options,
    progress: Progress,
    engine: Engine,
    stage: Stage | None = None,
) -> tuple[list[Opened], list[Notice]]:
    """Check the rows to be used; refuse when more are wrong than `allow_failed` says.

    With a stage, a task that can be is scored on this occasion.
    """
    checked, errors, notices = [], [], []
    failures: list[AnswerkeyError] = []
    for one in opened:
        findings, staged = _check_one(one, progress, engine, stage)
        notices.extend([*one.prepared.dataset.notices, *findings.notices])
        errors.extend(_refuse(findings, options.failed_limit(len(one.prepared.dataset))))
        if isinstance(staged, AnswerkeyError):
            failures.append(staged)
            continue
        checked.append(replace(one, prepared=replace(one.prepared, failed=findings.failed), staged=staged))
    raise_all(errors or failures)
    return checked, list(dict.fromkeys(notices))


def _check_one(
    opened: Opened, progress: Progress, engine: Engine, stage: Stage | None
) -> tuple[RowFindings, Staged | AnswerkeyError | None]:
    prepared = opened.prepared
    if stage is None or not stage.takes(prepared) or opened.specification.num_runs > 1:
        return check_rows(prepared, progress, engine), None
    return visit_rows(prepared, stage.open_task(prepared.key), progress, engine)


def _refuse(findings: RowFindings, limit: int) -> list[AnswerkeyError]:
    if findings.fatal or len(findings.failed) > limit:
        return findings.errors()
    return []


def work(
    opened: Sequence[Opened],
    writer: RunWriter,
    engine: Engine,
    progress: Progress,
    *,
    options: Options | None = None,
    onlooker: Onlooker | None = None,
) -> Run:
    """Run every prepared task and close the run.

    It is incomplete when a call failed for good, or more samples could not be scored than `allow_failed`
    says. What stops it before its end leaves it incomplete, too, with its journal.
    """
    changes: dict[str, Mapping[str, Any]] = {}
    is_incomplete = is_stopped = False
    options = options or Options()
    with open_session(opened, writer, options, onlooker, engine.actors) as session:
        for one in opened:
            limit = options.failed_limit(one.prepared.dataset.num_samples)
            key = one.prepared.key
            try:
                if one.staged is not None:
                    outcomes = [one.staged.deliver(writer.task(key))]
                else:
                    run_one = partial(_run_once, session, engine, progress, limit=limit)
                    outcomes = run_repetitions(one, writer.task(key), run_one, is_stopped=is_stopped)
            except KeyboardInterrupt as stop:
                # Whoever sends a signal may not wait long: what there is first, then what still comes.
                _say_stopped(writer, session, {**changes, key: session.describe(key)}, stop)
                session.stack.close()
                _say_stopped(writer, session, {**changes, key: session.describe(key)}, stop)
                raise
            except AnswerkeyError as stop:
                if not isinstance(stop, RunError):  # a folder that cannot be written takes no more words
                    writer.stop({**changes, key: session.describe(key)}, stop)
                raise
            found = {"counts": outcomes[0].tally["counts"], "encoded": outcomes[0].encoded}
            changes[key] = found | session.describe(key)
            is_stopped |= outcomes[-1].is_stopped
            is_incomplete |= any(each.errors or each.tally["unscored"] > limit for each in outcomes)
            session.close_models(key)
    conclude = conclude_gates if writer.manifest.get("policies") else None
    return writer.finish("incomplete" if is_incomplete else "complete", changes, conclude)


def _run_once(
    session: Session,
    engine: Engine,
    progress: Progress,
    prepared: Prepared,
    writer: TaskWriter,
    *,
    limit: int,
    is_stopped: bool,
) -> Outcome:
    """Run a task once; where calls or the user's code cost something, the first samples are tried first."""
    # A batch may take a day, so it is handed in whole.
    is_tried = prepared.spread in ("alone", "apart") and limit < FIRST and not session.options.batch
    bound = session.bind(prepared)
    return run_task(bound, writer, engine, progress, first=FIRST if is_tried else 0, is_stopped=is_stopped)


def _say_stopped(
    writer: RunWriter,
    session: Session,
    changes: Mapping[str, Mapping[str, Any]],
    stop: KeyboardInterrupt,
) -> None:
    """Say in the run that a signal stopped it; storage that cannot be reached is told of, and no more."""
    try:
        writer.stop(changes, stop)
    except AnswerkeyError as error:
        session.onlooker.warn(Notice(error.message, hint=error.hint))


def describe_run(
    key: str, display_name: str | None, opened: Sequence[Opened], notices: Sequence[Notice]
) -> dict[str, Any]:
    """Return what `run.json` says before the work begins."""
    return {
        **describe_system(),
        "key": key,
        "display_name": display_name or key,
        "notices": [str(notice) for notice in notices],
        "tasks": [describe_task(one) for one in opened],
    }


def describe_system() -> dict[str, str]:
    """Return what a run runs on."""
    return {
        "answerkey_version": __version__,
        "python": platform.python_version(),
        "platform": platform.system().lower(),
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
        "model": _describe_model(prepared.model),
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
                **_describe_judge(prepared.judges.get(step.key)),
            }
            for step in prepared.task.scoring
        ],
        "selection": asdict(specification.selection),
        **_describe_repeats(specification),
        "counts": None,
    }


def _describe_repeats(specification: Specification) -> dict[str, Any]:
    """Return how often samples are asked, in which orders, and the task is run; nothing where all is once."""
    task, num_runs = specification.task, specification.num_runs
    asked: dict[str, Any] = {} if task.trials is None else {"trials": asdict(task.trials)}
    asked |= {} if specification.variant is None else {"variant": asdict(specification.variant)}
    asked |= {} if task.choice_order is None else {"choice_order": asdict(task.choice_order)}
    return asked | ({} if num_runs == 1 else {"repeatability": {"num_runs": num_runs}})


def _describe_judge(model: Model | None) -> dict[str, object]:
    """Return who judges; nothing for a scorer that asks nobody."""
    return {} if model is None else {"model": _describe_model(model)}


def _describe_model(model: Model | None) -> dict[str, object] | None:
    if model is None:
        return None
    identity = getattr(model, "identity", None)  # what decides a live model's answers, without secrets
    return {"name": model.name, "simulated": model.is_simulated} | (
        {"identity": identity} if identity else {}
    )


def _describe_dataset(opened: Opened) -> dict[str, object]:
    dataset, specification = opened.prepared.dataset, opened.specification.dataset
    return {
        "key": specification.key,
        "display_name": specification.display_name,
        "file": getattr(specification.source, "origin", None),
        "fingerprint": dataset.fingerprint,
        "rows_read": dataset.rows_read,
        "rows_filtered": dataset.rows_filtered,
        "samples": dataset.num_samples,
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
        "examples_fingerprint": _hash_samples(opened.prepared.examples),
        "model_key": specification.model_key,
        "generation": _describe_generation(specification),
        "num_runs": specification.num_runs,
    }


def _describe_generation(specification: Specification) -> dict[str, object] | None:
    model = specification.model
    return model.generation.given() if isinstance(model, ModelConfig) else None


def _hash_samples(samples: Samples | None) -> str | None:
    return None if samples is None else Dataset.of(samples, name="examples").fingerprint


def _describe_source(dataset: DatasetSpec) -> dict[str, Any]:
    source: Any = dataset.source
    return asdict(source)
