"""Everything that can be found without asking a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from answerkey.engines import open_engine
from answerkey.errors import AnswerkeyError
from answerkey.pipeline import Progress
from answerkey.spec import Specification, load_plan, sort_errors
from answerkey.types import Notice
from answerkey.verbs.gating import list_baseline_errors
from answerkey.verbs.opening import Opened, open_specification
from answerkey.verbs.options import read_options, stay_silent
from answerkey.verbs.row_checks import check_rows
from answerkey.verbs.template_plans import PlannedTemplate, plan_templates


@dataclass(frozen=True)
class CheckedTask:
    """What `check` looked at: rows, and how each template will be evaluated."""

    key: str
    dataset: str
    rows: int
    templates: tuple[PlannedTemplate, ...]


@dataclass(frozen=True)
class Checked:
    """What `check` found."""

    errors: tuple[AnswerkeyError, ...]
    notices: tuple[Notice, ...]
    tasks: tuple[CheckedTask, ...]


def check(path: str | Path, *, progress: Progress | None = None, **options: object) -> Checked:
    """Return every mistake in a task or run file that can be found without asking a model; asks nothing."""
    chosen = read_options("check", options)
    loaded = load_plan(path, chosen.overrides())
    errors, notices = list(loaded.errors), list(loaded.notices)
    errors += list_baseline_errors(loaded.value.policies, loaded.value.key) if loaded.value else []
    tasks: list[CheckedTask] = []
    for specification in loaded.value.specifications if loaded.value else ():
        opened, troubles = open_specification(specification, chosen, is_check=True)
        errors.extend(troubles)
        if opened is None:
            continue
        findings = check_rows(opened.prepared, progress or stay_silent, open_engine())
        errors.extend(findings.errors())
        notices.extend([*opened.prepared.dataset.notices, *findings.notices])
        tasks.append(_describe(specification, opened))
    return Checked(tuple(sort_errors(_unique(errors))), tuple(dict.fromkeys(notices)), tuple(tasks))


def _describe(specification: Specification, opened: Opened) -> CheckedTask:
    dataset = opened.prepared.dataset
    templates = plan_templates(specification, dataset.rows.slice(0, 1).load())
    return CheckedTask(specification.key, dataset.name, len(dataset), templates)


def _unique(errors: Sequence[AnswerkeyError]) -> list[AnswerkeyError]:
    return list({str(error): error for error in errors}.values())
