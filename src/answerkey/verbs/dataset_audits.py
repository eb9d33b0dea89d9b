"""What an audit of a dataset says, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from answerkey.metrics.intervals import ChiSquare
from answerkey.types import Notice

#: How many rows are shown for each thing that is found.
SHOWN = 5

Interval = tuple[float, float]


@dataclass(frozen=True)
class Example:
    """A row that shows something: its sample id, where it stands, and what is to be seen there."""

    sample: str
    file: str | None
    line: int | None
    note: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else (self.file or f"row {self.line}")
        return f"{self.sample} ({place})" + (f": {self.note}" if self.note else "")


@dataclass(frozen=True)
class DatasetFinding:
    """One thing to know of a dataset: a sentence with its numbers, a next step, and rows that show it.

    `kind` is its name in `--json`; the reference page of audits lists them.
    """

    kind: str
    sentence: str
    step: str
    count: int
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """What a strategy without any knowledge gets: the share, and its 95 % interval."""

    value: float
    interval: Interval | None
    n: int
    label: str = ""


@dataclass(frozen=True)
class TruthStatistics:
    """Where the truths of `n` rows stand, and what follows for those who know nothing.

    `sizes` is how many rows have so many choices, `chance` the mean of one over that. `places` counts truths
    by the number of choices and the place; `skew` tests whether all places are equally likely.
    """

    n: int
    sizes: Mapping[int, int]
    chance: float | None
    labels: Mapping[str, int]
    places: Mapping[int, tuple[int, ...]]
    majority: Baseline | None = None
    longest: Baseline | None = None
    skew: ChiSquare | None = None


@dataclass(frozen=True)
class LabelQuality:
    """The column that says whether labels can be relied on: its values, and which of them count as clean."""

    column: str
    values: Mapping[str, int]
    clean: tuple[str, ...]


@dataclass(frozen=True)
class DatasetAudit:
    """The audit of one dataset; `fields` says where its parts are read."""

    name: str
    files: tuple[str, ...]
    rows: int
    fields: Mapping[str, str]
    every: TruthStatistics
    clean: TruthStatistics | None = None
    quality: LabelQuality | None = None
    findings: tuple[DatasetFinding, ...] = ()
    notices: tuple[Notice, ...] = ()
