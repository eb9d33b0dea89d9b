"""How much of a run's number rests on format, position and chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from answerkey.datasets import Dataset
from answerkey.engines import Spread, open_engine
from answerkey.errors import RunError
from answerkey.evaluate import Progress, Reopened, find_task, fit_rows, reopen, require_column, stay_silent
from answerkey.metrics.base import sort_keys
from answerkey.metrics.classification import (
    correct_for_chance,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_rstd,
)
from answerkey.reader import EXTRACTORS
from answerkey.runs import KeptCompletions, Run, RunPlace, TaskRun, load_run
from answerkey.scorers import StringEqualsMcqa, choose_audited
from answerkey.scorers.scoring import OWN
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.types import Notice, Samples
from answerkey.verbs.audit_findings import find_run_findings
from answerkey.verbs.audit_parts import AuditedRows, Part, measure_rows, merge_audit_parts, write_quality
from answerkey.verbs.audits import Audit, CleanRows, ReaderCounts, ReaderKind, ReasonCounts, TaskAudit
from answerkey.verbs.clean_rows import CLEAN_VALUES, measure_clean

#: How many completions are read together.
BLOCK = 8_192
#: Starting worker processes takes as long as reading so many completions.
WORKER_ROWS = 4_000


def audit(
    run: Run | str | RunPlace,
    *,
    task: str | None = None,
    label_quality: str | None = None,
    clean: Sequence[str] = (),
    most: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Read all completions of a run by every rule and lens, and say what stands out; no model is asked.

    `task` is one of several. `label_quality` names a column of the dataset that says whether a label can be
    relied on; `clean` are its values that say so. Of a task with more than `most` completions, so many are
    read, drawn by nothing but these numbers. The dataset must still be there (E505).
    """
    found = run if isinstance(run, Run) else load_run(run)
    wanted = list(found.tasks.values()) if task is None else [find_task(found, task)]
    values = frozenset(write_quality(one) for one in clean) or CLEAN_VALUES
    quality = None if label_quality is None else (label_quality, values)
    notices = _tell_circumstances(found, wanted)
    tasks = [
        _audit_task(_reopen(found, one, notices), quality, most, progress or stay_silent) for one in wanted
    ]
    path = None if found.path is None else str(found.path)
    return Audit(path, found.status, tuple(tasks), tuple(notices))


def _tell_circumstances(run: Run, tasks: Sequence[TaskRun]) -> list[Notice]:
    notices: list[Notice] = []
    if run.status != "complete":
        message = (
            f"the run is {run.status}: what is said of the completions that are there is not said of all"
        )
        notices.append(Notice(message))
    repeated = [one.key for one in tasks if one.repetitions]
    if repeated:
        notices.append(Notice(f"of the repetitions of `{repeated[0]}` the first is looked at"))
    if not tasks:
        notices.append(Notice("no task of this run is finished"))
    return notices


def _reopen(run: Run, task_run: TaskRun, notices: list[Notice]) -> Reopened:
    """Return a task opened again; without its dataset, if the completions are kept and that is enough."""
    try:
        return reopen(run, task_run.key)
    except RunError as error:
        task = task_from_source(task_run.source["task"])
        kept = task_run.stored_completions
        if error.code != "E505" or not len(kept) or _needs_samples(task):
            raise
    if run.path is not None:
        notices.append(Notice(f"the dataset of `{task_run.key}` is gone: lenses do not see the options"))
    ids = kept.read(0, len(kept), ["sample_id"])["sample_id"].gather_every(task.num_trials)
    dataset = Dataset.of(Samples(pl.DataFrame([ids]), ids), name="samples")
    return Reopened(task, task_run, dataset, KeptCompletions(kept, task.num_trials))


def _needs_samples(task: Task) -> bool:
    """Return whether completions cannot be read without their samples: rules are told the options."""
    scorer = _find_step(task).scorer
    return isinstance(scorer, StringEqualsMcqa) and scorer.options is not None


def _audit_task(
    reopened: Reopened, quality: tuple[str, frozenset[str]] | None, most: int | None, progress: Progress
) -> TaskAudit:
    task_run = reopened.task_run
    if quality is not None:
        require_column(quality[0], reopened.dataset.columns, task_run)
    step = _find_step(reopened.task)
    source = replace(_lay_out(reopened, step, quality), spots=_draw_spots(reopened, most))
    part = _measure(source, len(reopened.dataset), progress)
    found = _conclude(reopened, step, part)
    found = found if source.spots is None else replace(found, drawn_from=len(reopened))
    if quality is not None:
        found = _add_clean(found, task_run, part, quality)
    return _add_findings(found, part)


def _draw_spots(reopened: Reopened, most: int | None) -> tuple[int, ...] | None:
    """Return the samples that stand for all; None where all are read."""
    if most is None or len(reopened) <= most:
        return None
    return choose_audited(len(reopened.dataset), max(1, most // reopened.task.num_trials))


def _find_step(task: Task) -> ScoringStep:
    """Return the main scorer if it reads choices, else the first that does, else the main one."""
    reading = [step for step in task.scoring if isinstance(step.scorer, StringEqualsMcqa)]
    return task.main_step if task.main_step in reading or not reading else reading[0]


def _lay_out(
    reopened: Reopened, step: ScoringStep, quality: tuple[str, frozenset[str]] | None
) -> AuditedRows:
    scorer = step.scorer if isinstance(step.scorer, StringEqualsMcqa) else None
    encoded = (reopened.task_run.manifest.get("encoded") or {}).get(step.key, ())
    return AuditedRows(
        scorer_key=step.key,
        scorer=scorer,
        rows=reopened.dataset.rows,
        recorded=reopened.recorded,
        scores=reopened.task_run.stored_scores,
        num_trials=reopened.task.num_trials,
        columns=_list_columns(reopened, scorer, quality),
        encoded=frozenset(encoded),
        quality=quality,
    )


def _list_columns(
    reopened: Reopened, scorer: StringEqualsMcqa | None, quality: tuple[str, frozenset[str]] | None
) -> frozenset[str] | None:
    read: frozenset[str] = frozenset()
    for template in scorer.templates().values() if scorer else ():
        if template.columns is None:
            return None
        read |= template.columns
    named = {"options"} | ({quality[0]} if quality else set())
    return read | reopened.recorded.columns | named.intersection(reopened.dataset.columns)


def _measure(source: AuditedRows, samples: int, progress: Progress) -> Part:
    block = BLOCK if source.spots is None else fit_rows(source.rows, source.columns, source.recorded)
    step = max(1, block // source.num_trials)
    stretches = [(offset, min(step, samples - offset)) for offset in range(0, samples, step)]
    parts, done = [], 0
    read = samples if source.spots is None else len(source.spots)
    is_large = len(stretches) > 1 and read * source.num_trials > WORKER_ROWS
    spread: Spread = "processes" if is_large else "alone"
    for part in open_engine().map(partial(measure_rows, source), stretches, spread=spread):
        parts.append(part)
        done += part["samples"]
        progress("audit", done, samples)
    return merge_audit_parts(parts)


def _conclude(reopened: Reopened, step: ScoringStep, part: Part) -> TaskAudit:
    base = TaskAudit(
        key=reopened.task_run.key,
        scorer=None,
        rule=None,
        n=part["n"],
        left_out=dict(sorted(part["left_out"].items())),
        num_trials=reopened.task.num_trials,
        samples=part["owners"],
    )
    if not isinstance(step.scorer, StringEqualsMcqa):
        return base
    readers = list_reader_counts(part, name_rule(step.scorer))
    letters = sort_keys(part["letters"])
    sizes = {int(size): count for size, count in part["choice_counts"].items()}
    chance = measure_chance(sizes)
    own = next(one for one in readers if one.kind == "own")
    recalls = measure_recalls(letters)
    return replace(
        base,
        scorer=step.key,
        rule=name_rule(step.scorer),
        readers=readers,
        flips=part["flips"]["count"],
        flipped=tuple(part["flips"]["examples"]),
        reasons=_list_reasons(part["reasons"]),
        letters=letters,
        choice_counts=dict(sorted(sizes.items())),
        chance=chance,
        corrected=_correct(own.accuracy, chance),
        kappa=measure_kappa(letters),
        recalls=recalls,
        spread=measure_rstd(list(recalls.values())),
    )


def name_rule(scorer: StringEqualsMcqa) -> str:
    """Return what the scorer's rule is called."""
    return scorer.extraction if isinstance(scorer.extraction, str) else "pattern"


def _correct(accuracy: float | None, chance: float | None) -> float | None:
    return None if accuracy is None or chance is None else correct_for_chance(accuracy, chance)


def list_reader_counts(part: Mapping[str, Any], own_rule: str) -> tuple[ReaderCounts, ...]:
    """Return the counts of a part, the run's own reading first."""

    def name_kind(name: str) -> ReaderKind:
        if name == OWN:
            return "own"
        return "lens" if name in EXTRACTORS else "rule"

    return tuple(
        ReaderCounts(
            name=own_rule if name == OWN else name,
            kind=name_kind(name),
            n=part["n"],
            correct=one["correct"],
            invalid=one["invalid"],
            samples=part["owners"],
            changes=one["changes"],
            gains=one["gains"],
            losses=one["losses"],
            gained=tuple(one["gained"]),
            lost=tuple(one["lost"]),
        )
        for name, one in part["readers"].items()
    )


def _list_reasons(counts: Mapping[str, Mapping[str, Any]]) -> tuple[ReasonCounts, ...]:
    found = [
        ReasonCounts(reason, one["count"], one["stated"], one["right"], *one["example"][0])
        for reason, one in counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.count, one.reason)))


def _add_clean(
    found: TaskAudit, task_run: TaskRun, part: Part, quality: tuple[str, frozenset[str]]
) -> TaskAudit:
    column, values = quality
    clean = part.get("clean", {"n": 0, "owners": 0, "readers": {}})
    rows = CleanRows(
        column=column,
        values=tuple(sorted(values.intersection(part.get("labels", ())))),
        labels=dict(sorted(part.get("labels", {}).items(), key=lambda one: (-one[1], one[0]))),
        n=clean["n"],
        readers=list_reader_counts(clean, found.rule or ""),
        every=task_run.metrics,
        metrics=measure_clean(task_run, column, values),
    )
    return replace(found, clean=rows)


def _add_findings(found: TaskAudit, part: Part) -> TaskAudit:
    return replace(found, findings=tuple(find_run_findings(found, part)))
