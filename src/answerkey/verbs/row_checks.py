"""Truths, choices and prompts on every row, before anything is asked or written."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

from answerkey.datasets import Shard, cut_shards
from answerkey.engines import Engine
from answerkey.errors import AnswerkeyError, DataError, SpecError
from answerkey.pipeline import SHARD_ROWS, Prepared, Progress
from answerkey.scorers import RowProblem
from answerkey.solvers import find_asking_field, require_known
from answerkey.spec import ScoringStep
from answerkey.templates import TemplateStopped
from answerkey.types import Notice, Samples
from answerkey.verbs.columns import list_checked_columns
from answerkey.verbs.design_columns import find_missing_design
from answerkey.verbs.made_up import find_unreadable
from answerkey.verbs.ordering import find_order_problems
from answerkey.verbs.shown_options import find_hidden_options
from answerkey.verbs.spreading import choose_check_spread, choose_shard_rows

#: How many rows of one kind are shown before only their number is.
SHOWN = 20
Kind = tuple[str, str]


@dataclass
class ShardFindings:
    """What is wrong with the rows of one shard: the first errors of each kind, and how many there are more.

    An error that belongs to no row may be that of another shard, too; all of these are kept.
    """

    rows: int
    kept: list[tuple[str, AnswerkeyError]] = field(default_factory=list)
    more: Counter[Kind] = field(default_factory=Counter)
    failed: set[int] = field(default_factory=set)
    fatal: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)

    def add(self, name: str, problem: RowProblem) -> None:
        """Take one problem."""
        error = problem.error
        if error.code == "E206":
            self.fatal.append(error)
            return
        self.failed.add(problem.position)
        kind = name, error.code
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN or error.where is None:
            self.kept.append((name, error))
        else:
            self.more[kind] += 1


@dataclass
class RowFindings:
    """What is wrong with the rows: errors to show (each kind cut after 20), and which rows they are.

    `failed` holds, in order, the rows that may be FAILED with `--allow-failed`; `fatal` the errors that no
    allowance covers. `rows` is how many rows there are.
    """

    rows: int
    shown: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    failed: array[int] = field(default_factory=lambda: array("q"))
    fatal: list[AnswerkeyError] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)

    def add(self, kind: str, error: AnswerkeyError) -> None:
        """Count an error; keep it while there are few of its kind. The very same error is told once."""
        if any(str(error) == str(known) for known in self.shown):
            return
        self.counts[kind, error.code] += 1
        if self.counts[kind, error.code] <= SHOWN:
            self.shown.append(error)

    def take(self, found: ShardFindings, offset: int) -> None:
        """Add what was found in the next shard, whose first row stands at `offset`."""
        for name, error in found.kept:
            self.add(name, error)
        self.counts.update(found.more)
        self.failed.extend(offset + row for row in sorted(found.failed))
        self.fatal = list({str(error): error for error in (*self.fatal, *found.fatal)}.values())
        self.notices = list(dict.fromkeys((*self.notices, *found.notices)))

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


def check_rows(prepared: Prepared, progress: Progress, engine: Engine) -> RowFindings:
    """Check truths, choices and prompts on every row of the prepared dataset."""
    dataset = prepared.dataset
    findings = RowFindings(len(dataset))
    columns = list_checked_columns(prepared.task, dataset, prepared.recorded)
    bare = replace(prepared.without_rows(), columns=columns, model=None, judges={})
    function = partial(check_shard, bare, is_recorded=prepared.recorded is not None)
    spread = choose_check_spread(prepared)
    rows = choose_shard_rows(replace(prepared, columns=columns, recorded=None), spread)
    done = 0
    for found in engine.map(function, cut_shards(dataset, rows), spread=spread):
        findings.take(found, done)
        done += found.rows
        progress("check", done, len(dataset))
    conclude_findings(findings, prepared)
    return findings


def conclude_findings(findings: RowFindings, prepared: Prepared) -> None:
    """Add what is wrong with the task as a whole."""
    findings.fatal.extend([*_find_unknown(prepared), *find_missing_design(prepared.task, prepared.dataset)])
    findings.fatal.extend(find_unreadable(prepared))
    findings.notices.extend(find_hidden_options(prepared, findings.failed))


def check_shard(prepared: Prepared, shard: Shard, *, is_recorded: bool) -> ShardFindings:
    """Return what is wrong with the rows of one shard."""
    return look_at_shard(prepared, shard, shard.samples.load(prepared.columns), is_recorded=is_recorded)


def look_at_shard(prepared: Prepared, shard: Shard, samples: Samples, *, is_recorded: bool) -> ShardFindings:
    """Return what is wrong with the rows of a shard that has been loaded; not with those withheld."""
    if not shard.withheld:
        return look_at_samples(prepared, samples, is_recorded=is_recorded)
    left = shard.left
    found = look_at_samples(prepared, samples.take(left), is_recorded=is_recorded)
    return replace(found, rows=len(samples), failed={left[position] for position in found.failed})


def look_at_samples(prepared: Prepared, samples: Samples, *, is_recorded: bool) -> ShardFindings:
    """Return what is wrong with these samples; prompts are of no concern when completions are recorded."""
    found = ShardFindings(len(samples))
    try:
        _look_at_parts(prepared, samples, found, is_recorded=is_recorded)
    except TemplateStopped as stopped:
        found.fatal.append(stopped.at(prepared.task.places.of_template(stopped.source)))
    return found


def _look_at_parts(prepared: Prepared, samples: Samples, found: ShardFindings, *, is_recorded: bool) -> None:
    for step in prepared.task.scoring:
        problems, heard = step.scorer.check_rows(samples)
        found.notices.extend(heard)
        for problem in problems:
            found.add(f"scorer `{step.key}`", _name_field(prepared, problem, step))
    for problem in find_order_problems(prepared.task, samples):
        found.add("`choice_order`", problem)
    solver = None if is_recorded else prepared.task.solver
    for position, error in solver.check_rows(samples, prepared.examples) if solver else ():
        found.add("solver", RowProblem(position, _place_setting(prepared, error), "PROMPT_FAILED"))


def _place_setting(prepared: Prepared, error: DataError) -> DataError:
    """Return an error that belongs to no row placed where the task asks for the column or the examples.

    One that does belong to a row says whose prompt it is.
    """
    if error.code == "E207":
        message = f"{error.message} (prompt of task `{prepared.task.key}`)"
        return DataError(error.code, message, where=error.where, hint=error.hint)
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


def _find_unknown(prepared: Prepared) -> list[AnswerkeyError]:
    """Return what the model needs to know of the samples and nobody tells it; the first ones tell."""
    if prepared.model is None:
        return []
    samples = prepared.dataset.rows.slice(0, SHARD_ROWS).load(prepared.columns)
    try:
        require_known(prepared.model, samples, prepared.task.know(samples))
    except SpecError as error:
        return [error]
    return []
