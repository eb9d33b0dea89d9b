"""Everything that can be found without asking a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from answerkey.errors import AnswerkeyError, DataError, SpecError
from answerkey.pipeline import Prepared, Progress, Shard, cut_shards
from answerkey.scorers import RowProblem
from answerkey.solvers import find_asking_field, require_known
from answerkey.spec import ScoringStep, Specification, load_plan, sort_errors
from answerkey.types import Notice
from answerkey.verbs.opening import Opened, open_specification
from answerkey.verbs.options import read_options, stay_silent

#: How many rows of one kind are shown before only their number is.
SHOWN = 20


@dataclass(frozen=True)
class CheckedTask:
    """What `check` looked at: rows, and how each template will be evaluated (field, kind, columns)."""

    key: str
    dataset: str
    rows: int
    templates: tuple[tuple[str, str, tuple[str, ...] | None], ...]


@dataclass(frozen=True)
class Checked:
    """What `check` found."""

    errors: tuple[AnswerkeyError, ...]
    notices: tuple[Notice, ...]
    tasks: tuple[CheckedTask, ...]


@dataclass
class RowFindings:
    """What is wrong with the rows: errors to show (each kind cut after 20), and which rows they are.

    `failed` holds the rows that may be FAILED with `--allow-failed`; `fatal` the errors no allowance covers.
    `rows` is how many rows there are.
    """

    rows: int
    shown: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    failed: set[int] = field(default_factory=set)
    fatal: list[AnswerkeyError] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, kind: str, error: AnswerkeyError) -> None:
        """Count an error; keep it while there are few of its kind. The very same error is told once."""
        if any(str(error) == str(known) for known in self.shown):
            return
        self.counts[kind, error.code] += 1
        if self.counts[kind, error.code] <= SHOWN:
            self.shown.append(error)

    def errors(self) -> list[AnswerkeyError]:
        """Return the errors to show, with one more for each kind that was cut."""
        cut = [(kind, code, count - SHOWN) for (kind, code), count in self.counts.items() if count > SHOWN]
        return [
            *self.fatal,
            *(self._allow_failed(error) for error in self.shown),
            *(DataError(code, f"{kind}: {more} more rows have the same trouble") for kind, code, more in cut),
        ]

    def _allow_failed(self, error: AnswerkeyError) -> AnswerkeyError:
        """Return the error with the way to go on all the same added to its hint, if a row would be left."""
        failed = len(self.failed)
        if failed >= self.rows:
            return error
        these = "this sample" if error.where and error.where.sample else "these samples"
        allow = f"run with `--allow-failed {failed}` to score the rest and report {these} as FAILED"
        hint = f"{error.hint or 'fix the row'}, or {allow}"
        return DataError(error.code, error.message, where=error.where, hint=hint)


def check_rows(prepared: Prepared, progress: Progress) -> RowFindings:
    """Check truths, choices and prompts on every row of the prepared dataset."""
    findings = RowFindings(len(prepared.dataset))
    for shard in cut_shards(prepared.dataset):
        for name, problem in _find_problems(prepared, shard, findings.notices):
            if problem.error.code == "E206":
                if not any(str(problem.error) == str(known) for known in findings.fatal):
                    findings.fatal.append(problem.error)
                continue
            findings.failed.add(shard.offset + problem.position)
            findings.add(name, problem.error)
        findings.fatal.extend(_find_unknown(prepared, shard))
        progress("check", shard.offset + len(shard.samples), len(prepared.dataset))
    findings.notices[:] = list(dict.fromkeys(findings.notices))
    return findings


def _find_problems(
    prepared: Prepared, shard: Shard, notices: list[Notice]
) -> Iterator[tuple[str, RowProblem]]:
    for step in prepared.task.scoring:
        problems, heard = step.scorer.check_rows(shard.samples)
        notices.extend(heard)
        for problem in problems:
            yield f"scorer `{step.key}`", _name_field(prepared, problem, step)
    solver = prepared.task.solver
    if solver is not None and prepared.recorded is None:
        for position, error in solver.check_rows(shard.samples, prepared.examples):
            yield "solver", RowProblem(position, _place_setting(prepared, error), "PROMPT_FAILED")


def _place_setting(prepared: Prepared, error: DataError) -> DataError:
    """Return an error that belongs to no row placed where the task asks for the column or the examples."""
    if error.code == "E206":
        way = find_asking_field(prepared.task.solver, error)
    elif error.where is None and error.code == "E302":
        way = ("examples", "num_examples")
    else:
        return error
    where = prepared.task.place("definition", "solver", *way)
    return DataError(error.code, error.message, where=where, hint=error.hint)


def _name_field(prepared: Prepared, problem: RowProblem, step: ScoringStep) -> RowProblem:
    """Return the problem of a missing column placed where the task asks for it, not in the dataset.

    A row's own problem names the scorer when there are several.
    """
    if problem.error.code != "E206":
        return _name_scorer(prepared, problem, step)
    if problem.field is None:
        return problem
    where = prepared.task.place("definition", "scorers", step.index, problem.field)
    message = f"{problem.error.message} of dataset `{prepared.dataset.name}`"
    error = DataError("E206", message, where=where, hint=problem.error.hint)
    return replace(problem, error=error)


def _name_scorer(prepared: Prepared, problem: RowProblem, step: ScoringStep) -> RowProblem:
    error = problem.error
    if len(prepared.task.scoring) == 1:
        return problem
    message = f"{error.message} (scorer `{step.key}`)"
    return replace(problem, error=DataError(error.code, message, where=error.where, hint=error.hint))


def _find_unknown(prepared: Prepared, shard: Shard) -> list[AnswerkeyError]:
    """Return what the model needs to know of the samples and nobody tells it; looked at once."""
    if prepared.model is None or shard.index:
        return []
    try:
        require_known(prepared.model, shard.samples, prepared.task.know(shard.samples))
    except SpecError as error:
        return [error]
    return []


def check(path: str | Path, *, progress: Progress | None = None, **options: object) -> Checked:
    """Return every mistake in a task or run file that can be found without asking a model; asks nothing."""
    chosen = read_options("check", options)
    loaded = load_plan(path, chosen.overrides())
    errors, notices = list(loaded.errors), list(loaded.notices)
    tasks: list[CheckedTask] = []
    for specification in loaded.value.specifications if loaded.value else ():
        opened, troubles = open_specification(specification, chosen, is_check=True)
        errors.extend(troubles)
        if opened is None:
            continue
        findings = check_rows(opened.prepared, progress or stay_silent)
        errors.extend(findings.errors())
        notices.extend([*opened.prepared.dataset.notices, *findings.notices])
        tasks.append(_describe(specification, opened))
    return Checked(tuple(sort_errors(_unique(errors))), tuple(dict.fromkeys(notices)), tuple(tasks))


def _describe(specification: Specification, opened: Opened) -> CheckedTask:
    templates = []
    for name, template in specification.task.templates():
        columns = None if template.columns is None else tuple(sorted(template.columns))
        templates.append((name, template.kind, columns))
    dataset = opened.prepared.dataset
    return CheckedTask(specification.key, dataset.name, len(dataset), tuple(templates))


def _unique(errors: Sequence[AnswerkeyError]) -> list[AnswerkeyError]:
    return list({str(error): error for error in errors}.values())
