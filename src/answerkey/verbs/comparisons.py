"""What a comparison of runs says, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from answerkey.metrics.paired import Difference
from answerkey.text import Drawn
from answerkey.types import Notice

#: A difference is called significant when chance gives one as large in fewer than so many cases.
ALPHA = 0.05


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs: what it is called here, where it lies, who answered, and which value is compared.

    `mean` is that of the `n` samples that all runs have and this one has a value for.
    """

    label: str
    path: str | None
    model: str
    scorer: str
    value: str
    mean: float | None
    n: int
    is_share: bool = True


@dataclass(frozen=True)
class CategoryDifference:
    """The difference of two runs within one category."""

    category: str
    difference: Difference


@dataclass(frozen=True)
class PairComparison:
    """First minus second on the samples that both have a value for.

    `left_out` counts the other samples by reason. `p_adjusted` is corrected by Holm for the number of
    comparisons. `first_only` and `second_only` are the ids of the samples that only one of them has right; of
    values other than 0 and 1, those on which it is higher.
    """

    first: str
    second: str
    difference: Difference
    left_out: Mapping[str, int]
    first_only: tuple[str, ...]
    second_only: tuple[str, ...]
    categories: tuple[CategoryDifference, ...] = ()
    p_adjusted: float | None = None

    def is_significant(self, alpha: float = ALPHA) -> bool:
        """Whether chance alone would rarely give such a difference, all comparisons considered."""
        return self.p_adjusted is not None and self.p_adjusted < alpha

    def is_worse(self, alpha: float = ALPHA) -> bool:
        """Whether the first is significantly worse than the second."""
        return self.is_significant(alpha) and self.difference.value < 0


@dataclass(frozen=True)
class TaskComparison:
    """All pairs of one task; `category` and `cluster_by` are the columns in use."""

    key: str
    runs: tuple[ComparedRun, ...]
    pairs: tuple[PairComparison, ...]
    samples: int
    category: str | None = None
    cluster_by: str | None = None
    is_corrected: bool = True


@dataclass(frozen=True)
class Comparison(Drawn):
    """Several runs compared; `baseline` is the label of the run that all others are held against."""

    drawn_by = "answerkey.reports.comparison_text:draw_pairs"

    tasks: tuple[TaskComparison, ...]
    baseline: str | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def pairs(self) -> list[PairComparison]:
        """The pairs of all tasks."""
        return [pair for task in self.tasks for pair in task.pairs]

    def find_regressions(self, alpha: float = ALPHA) -> list[PairComparison]:
        """Return the pairs whose first run is significantly worse than the second, the baseline."""
        return [pair for pair in self.pairs if pair.is_worse(alpha)]
