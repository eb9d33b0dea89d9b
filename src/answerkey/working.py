"""A task with everything opened, and the work on one shard of it: what is said, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import polars as pl

from answerkey.datasets import Dataset, Recorded, Shard, cut_shards
from answerkey.engines import Spread
from answerkey.errors import InternalError
from answerkey.models.model import Model
from answerkey.scorers import apply_actions, choose_audited, score_rows
from answerkey.spec import Task
from answerkey.types import Completions, Samples, Scores

SHARD_ROWS = 131_072
Worked = tuple[Completions, dict[str, Scores]]


@dataclass(frozen=True)
class Prepared:
    """A task with everything opened: nothing is left but the work.

    Either `recorded` has the completions, or the task's solver gets them, with `model` if it needs one.
    `judges` are the models of scorers that ask one, by the scorer's key; a run puts them into `task`.
    `failed` holds, in order, the positions of rows that the dataset got wrong: not asked, FAILED for every
    scorer. Each repetition of a task has trials of its own. Only `columns` are read (None: all). The rows at
    `spots` are read by other rules as well.
    """

    key: str
    task: Task
    dataset: Dataset
    model: Model | None = None
    recorded: Recorded | None = None
    examples: Samples | None = None
    failed: Sequence[int] = ()
    keep_completions: bool = True
    repetition: int = 0
    judges: Mapping[str, Model] = field(default_factory=dict)
    columns: frozenset[str] | None = None
    spread: Spread = "alone"
    shard_rows: int = SHARD_ROWS
    spots: Sequence[int] = ()

    @property
    def trials(self) -> range:
        """The numbers of the trials of each sample."""
        size = self.task.num_trials
        return range(self.repetition * size, (self.repetition + 1) * size)

    def shards(self) -> Iterator[Shard]:
        """Yield the shards of the dataset; nothing is loaded yet."""
        size = max(1, min(self.shard_rows, SHARD_ROWS) // self.task.num_trials)
        return cut_shards(self.dataset, size, self.recorded, self.failed)

    def stages(self, first: int) -> Iterator[Iterable[Shard]]:
        """Yield the shard of the `first` samples, then those of the others; for 0 all of them together."""
        shards = self.shards()
        if not 0 < first < len(self.dataset):
            yield shards
            return
        size, whole = len(next(self.dataset.cut(first))), next(shards)
        left = [whole.cut(size, len(whole.samples))] if size < len(whole.samples) else []
        yield [whole.cut(0, size)]
        yield (replace(one, index=index) for index, one in enumerate(chain(left, shards), start=1))

    def without_rows(self) -> Prepared:
        """Return what the work on a shard needs beside it, small enough to be sent to where that is done."""
        spots = choose_audited(len(self.dataset))
        return replace(self, dataset=self.dataset.without_rows(), recorded=None, failed=(), spots=spots)


def work_on(prepared: Prepared, shard: Shard, asked: Samples) -> Worked:
    """Return what is said and judged of every row of a shard."""
    completions = complete(prepared, shard, asked)
    return completions, judge(prepared.task, asked, completions, shard.failed)


def work_around(prepared: Prepared, shard: Shard, asked: Samples) -> Worked:
    """Return the same with the withheld rows FAILED: nothing is asked, read or judged of them."""
    size, left = prepared.task.num_trials, shard.left
    parts = [
        complete(prepared, one, asked.slice(one.offset - shard.offset, len(one.samples)))
        for one in shard.cut_around()
    ]
    said = Completions(pl.concat([one.frame for one in parts]))
    failed = [place for place, row in enumerate(left) if row in set(shard.failed)]
    scores = judge(prepared.task, asked.take(left), said, failed)
    rows = [row * size + trial for row in left for trial in range(size)]
    whole = {key: one.spread(rows, len(asked) * size, shard.reason) for key, one in scores.items()}
    return said.spread(left, asked.ids, size).number(prepared.trials), whole


def judge(task: Task, asked: Samples, completions: Completions, failed: Sequence[int]) -> dict[str, Scores]:
    """Return the scores of these samples by scorer, as they are after the task's actions."""
    size, samples = task.num_trials, asked.repeat(task.num_trials)
    rows = [row * size + trial for row in failed for trial in range(size)]
    scores = {step.key: score_rows(step.scorer, samples, completions, rows) for step in task.scoring}
    return apply_actions(task.actions, samples, completions, scores, num_trials=size)


def complete(prepared: Prepared, shard: Shard, samples: Samples) -> Completions:
    """Return a shard's completions, one per sample and trial: those there are, or what the solver gets."""
    solver, size, trials = prepared.task.solver, prepared.task.num_trials, prepared.trials
    if shard.recorded is not None:
        return shard.recorded.read(samples).number(trials)
    if solver is None:
        raise InternalError("E901", f"task `{prepared.task.key}` has neither completions nor a solver")
    positions = sorted(set(range(len(samples))).difference(shard.failed)) if shard.failed else None
    asked = samples if positions is None else samples.take(positions)
    known, examples = prepared.task.know(asked), prepared.examples
    answers = solver.solve(asked, model=prepared.model, known=known, examples=examples, trials=trials)
    return (answers if positions is None else answers.spread(positions, samples.ids, size)).number(trials)
