"""How the completions of a task are read by other rules, and what stands out: for one page over a run.

Completions are read again, as the audit does. Where they cannot be, what the run counted has to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from answerkey.errors import AnswerkeyError
from answerkey.metrics.classification import measure_chance, measure_recalls, measure_rstd
from answerkey.reports.breakdown import find_main_scorer
from answerkey.reports.repeats import count_scored
from answerkey.run_audit.audit import (
    Finding,
    ReasonCounts,
    TaskAudit,
    audit,
    find_format,
    find_run_findings,
)
from answerkey.run_audit.readings import Reading, count_own, describe_counted, list_readings, say_unfit
from answerkey.runs import Run, TaskRun

#: Of more completions, so many are read, drawn at random.
MOST_AUDITED = 20_000
GONE = "E505"
_NOTHING: Mapping[str, Any] = {"count": 0, "examples": []}


@dataclass(frozen=True)
class Audited:
    """What is known of how completions are read: `n` of them, `of` so many; `sentence` says why not all.

    `scorer` is the one whose `rule` has read them. `unfit` says who read less than half of them.
    `reasons` are there only where all completions were read. `chance` is what guessing would get.
    """

    n: int
    of: int
    scorer: str | None = None
    rule: str | None = None
    chance: float | None = None
    sentence: str | None = None
    readings: tuple[Reading, ...] = ()
    unfit: str | None = None
    reasons: Mapping[str, ReasonCounts] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    notices: tuple[str, ...] = ()
    has_flips: bool = False


def audit_completions(run: Run, task: TaskRun) -> Audited:
    """Return what the audit of a task says; without its files, what the run counted."""
    if "task" not in task.source:  # a run that was put together by hand
        return trust_tally(task)
    try:
        told = audit(run, task=task.key, most=MOST_AUDITED)
    except AnswerkeyError as error:
        return replace(trust_tally(task), sentence=_say_unread(error))
    found = told.tasks[0]
    is_drawn = found.drawn_from is not None
    return Audited(
        n=found.n,
        of=found.drawn_from or found.n,
        scorer=found.scorer,
        rule=found.rule,
        chance=find_chance(task) or found.chance,
        sentence=_say_drawn(found),
        readings=tuple(list_readings(task, found)),
        unfit="; ".join(say_unfit(found)) or None,
        reasons={} if is_drawn else {one.reason: one for one in found.reasons},
        findings=found.findings,
        notices=tuple(notice.message for notice in told.notices),
        has_flips=bool(found.flips) or (is_drawn and found.own is not None),
    )


def _say_drawn(found: TaskAudit) -> str | None:
    if found.drawn_from is None:
        return None
    extent = f"{found.n:,} of {found.drawn_from:,} completions"
    return f"read again are {extent}, drawn at random; `answerkey audit` reads all"


def _say_unread(error: AnswerkeyError) -> str:
    """Return why completions were not read again; a page travels, so no path is named."""
    if error.code == GONE:
        return "completions are not read again: the dataset or the completions are gone or have changed"
    return f"completions are not read again: {error.message}"


def trust_tally(task: TaskRun) -> Audited:
    """Return what the run itself counted: some completions by every rule, all of them by its own."""
    spots = describe_counted(task)
    if spots is None:
        return Audited(0, count_scored(task), chance=find_chance(task))
    whole = _describe_whole(task, str(spots.rule))
    part = {
        "prompts": {"n": 0, "placeholders": {}},
        "texts": {},
        "cut_off": {**_NOTHING, "short": 0, "stubs": _NOTHING, "by_limit": 0, "open_thoughts": 0},
        "statuses": task.tally.get("completion_statuses") or {},
    }
    return Audited(
        n=spots.n,
        of=spots.drawn_from or spots.n,
        scorer=whole.scorer,
        rule=spots.rule,
        chance=whole.chance,
        sentence=_say_drawn(spots),
        readings=tuple(list_readings(task, spots)),
        unfit="; ".join(say_unfit(spots)) or None,
        findings=(*find_run_findings(whole, part), *find_format(spots)),
        has_flips=any(
            (one.correct, one.invalid) != (spots.readers[0].correct, spots.readers[0].invalid)
            for one in spots.readers
        ),
    )


def _describe_whole(task: TaskRun, rule: str) -> TaskAudit:
    """Return all completions, read by the run's own rule, as an audit of their own."""
    letters: Mapping[str, Mapping[str, int]] = task.tally.get("letters") or {}
    own, recalls = count_own(task, rule), measure_recalls(letters)
    return TaskAudit(
        key=task.key,
        scorer=find_main_scorer(task),
        rule=rule,
        n=own.n,
        left_out={},
        num_trials=1,
        samples=own.samples,
        readers=(own,),
        letters=letters,
        chance=find_chance(task),
        recalls=recalls,
        spread=measure_rstd(list(recalls.values())),
    )


def find_chance(task: TaskRun) -> float | None:
    """Return what guessing among the choices would get; None where there are none."""
    sizes = {int(size): count for size, count in (task.tally.get("choice_counts") or {}).items()}
    return measure_chance(sizes)
