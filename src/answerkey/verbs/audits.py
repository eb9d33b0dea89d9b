"""What an audit of a run says, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from answerkey.metrics import wilson
from answerkey.text import Drawn
from answerkey.types import MetricValue, Notice

#: How many samples are named for each thing that is found.
SHOWN = 5

ReaderKind = Literal["own", "rule", "lens"]


def reach_of(correct: int, n: int, samples: int) -> tuple[float, float] | None:
    """Return the Wilson interval of a share, with as many draws as there are samples."""
    return wilson(round(correct * samples / n), samples) if n and samples else None


@dataclass(frozen=True)
class Finding:
    """One thing to know: a sentence with its numbers, what to do about it, and some samples that show it.

    `kind` is its name in `--json`; the reference page of audits lists them.
    """

    kind: str
    sentence: str
    step: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReaderCounts:
    """What one rule or lens reads in the `n` completions; `own` is what the run itself read.

    `gains` are right by this reading and not by the run's, `losses` the other way round, `changes` all that
    are read otherwise. `gained` and `lost` are the first samples of each. Completions of the same sample are
    not independent: where there are fewer `samples` than completions there is no interval.
    """

    name: str
    kind: ReaderKind
    n: int
    correct: int
    invalid: int
    samples: int
    changes: int = 0
    gains: int = 0
    losses: int = 0
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """The share of right answers; None without any completion."""
        return self.correct / self.n if self.n else None

    @property
    def read(self) -> int:
        """In how many completions a choice is read."""
        return self.n - self.invalid

    @property
    def reads_half(self) -> bool:
        """Whether it reads at least half of the completions: no finding rests on one that does not."""
        return 2 * self.read >= self.n

    @property
    def invalid_share(self) -> float | None:
        """The share of completions in which no choice is read."""
        return self.invalid / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the accuracy; None where completions are not independent."""
        return self.reach if self.samples == self.n else None

    @property
    def reach(self) -> tuple[float, float] | None:
        """How far chance may move the accuracy: as if each sample were one completion."""
        return reach_of(self.correct, self.n, self.samples)


@dataclass(frozen=True)
class ReasonCounts:
    """INVALID completions with one reason: how many state an answer somewhere, and the right one."""

    reason: str
    count: int
    stated: int
    right: int
    example: str
    completion: str | None


@dataclass(frozen=True)
class CleanRows:
    """What is left when samples with doubtful labels are taken out, by a column of the dataset.

    `every` has the metrics of the run on all rows, `metrics` those on clean ones.
    """

    column: str
    values: tuple[str, ...]
    labels: Mapping[str, int]
    n: int
    readers: tuple[ReaderCounts, ...]
    every: Mapping[str, MetricValue]
    metrics: Mapping[str, MetricValue]


@dataclass(frozen=True)
class TaskAudit:
    """The audit of one task. `n` completions count; `left_out` says why others do not.

    Without a scorer that reads choices there are no readers, and nothing that follows from them. `flips` are
    completions that not all rules read alike. `recalls` are by letter, `spread` their RStd in points.
    `drawn_from` is how many completions there are, where not all were read.
    """

    key: str
    scorer: str | None
    rule: str | None
    n: int
    left_out: Mapping[str, int]
    num_trials: int
    samples: int
    readers: tuple[ReaderCounts, ...] = ()
    flips: int = 0
    flipped: tuple[str, ...] = ()
    reasons: tuple[ReasonCounts, ...] = ()
    letters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    choice_counts: Mapping[int, int] = field(default_factory=dict)
    chance: float | None = None
    corrected: float | None = None
    kappa: float | None = None
    recalls: Mapping[str, float] = field(default_factory=dict)
    spread: float | None = None
    clean: CleanRows | None = None
    findings: tuple[Finding, ...] = ()
    drawn_from: int | None = None

    @property
    def own(self) -> ReaderCounts | None:
        """What the run itself read."""
        return next((one for one in self.readers if one.kind == "own"), None)

    @property
    def unfit(self) -> tuple[str, ...]:
        """The rules and lenses that read less than half of the completions."""
        return tuple(one.name for one in self.readers if one.kind != "own" and not one.reads_half)

    def find_reader(self, name: str) -> ReaderCounts | None:
        """Return what a rule or lens reads; the run's own rule is found by its name, too."""
        if name == self.rule:
            return self.own
        return next((one for one in self.readers if one.name == name), None)


@dataclass(frozen=True)
class Audit(Drawn):
    """The audit of a run, task by task."""

    drawn_by = "answerkey.reports.audit_text:draw_audit"

    path: str | None
    status: str
    tasks: tuple[TaskAudit, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """The findings of all tasks."""
        return [finding for task in self.tasks for finding in task.findings]
