"""How samples belong together: groups that are reported apart, clusters that move together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import polars as pl

from answerkey.metrics.intervals import Scale
from answerkey.metrics.observed import Observed, Part, write_label
from answerkey.metrics.ratios import Ratio
from answerkey.metrics.registry import Metric
from answerkey.types import Samples

#: How samples without a group are called.
NO_GROUP = "(none)"


@dataclass(frozen=True)
class Design:
    """Columns of the dataset that put samples together, and how intervals are made.

    Each column of `group_by` gives a metric's value for each of its groups, and their average. Samples with
    the same `cluster_by` are not independent (questions on one passage), and the interval allows for that,
    with the correction C/(C-1) for few clusters unless it is switched off. `seed` is for resampling.
    """

    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None
    is_corrected: bool = True
    seed: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the samples must have."""
        return (*self.group_by, *([self.cluster_by] if self.cluster_by else []))


@dataclass(frozen=True)
class KeyedMetric:
    """A metric and its key, unique in its scorer, with the design of its samples.

    `scale` are the ends that its values cannot pass, where these are known.
    """

    key: str
    metric: Metric
    design: Design = Design()
    scale: Scale | None = None


def find_scale(metric: Metric, scales: Mapping[str, Scale]) -> Scale | None:
    """Return the scale of a metric's values from those of the fields that a scorer knows; None without one.

    Right or wrong is 1 or 0 in every scorer, and a part of an answer lies in between.
    """
    find = getattr(metric, "find_scale", None)
    found: Scale | None = find({"is_correct": (0.0, 1.0), **scales}) if find else None
    return found


@runtime_checkable
class Splittable(Protocol):
    """A metric that takes counts of what was observed, so that groups need no table of their own."""

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ...


@runtime_checkable
class RatioMetric(Splittable, Protocol):
    """A metric whose values are ratios of sums; `sums` names what of a part they are computed from."""

    sums: ClassVar[tuple[str, ...]]

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:
        """Return the sums of a part by the name of the value, for every name of the whole."""
        ...


def label_columns(samples: Samples, designs: Sequence[Design]) -> dict[str, pl.Series]:
    """Return the labels of the columns that these designs need; null without a label."""
    names = dict.fromkeys(name for design in designs for name in design.columns)
    return {name: label_rows(samples, name) for name in names}


def label_rows(samples: Samples, column: str) -> pl.Series:
    """Return a column of the dataset as text, as metrics write values; null stays null."""
    series = samples.frame[column].rename(column)
    if series.dtype == pl.String and column not in samples.encoded:
        return series
    distinct = series.unique(maintain_order=True)
    values = Samples(pl.DataFrame([distinct]), pl.Series([], dtype=pl.String), encoded=samples.encoded)
    labels = [None if one is None else write_label(one) for one in values.values(column)]
    table = pl.DataFrame([distinct, pl.Series("label", labels, dtype=pl.String)])
    rows = pl.DataFrame([series]).join(table, on=column, how="left", nulls_equal=True, maintain_order="left")
    return rows["label"].rename(column)


def name_groups(labels: pl.Series) -> pl.Series:
    """Return labels with the samples that have none in a group of their own."""
    return labels.fill_null(NO_GROUP)


def name_clusters(labels: pl.Series, ids: pl.Series) -> pl.Series:
    """Return labels with each sample that has none in a cluster of its own; no label begins like those."""
    own = pl.lit("\0") + ids.cast(pl.String)
    return pl.select(pl.when(labels.is_null()).then(own).otherwise(labels)).to_series().rename(labels.name)


def pick_first(labels: Mapping[str, pl.Series], num_trials: int) -> dict[str, pl.Series]:
    """Return the labels of samples from those of their trials."""
    return {name: series.gather_every(num_trials) for name, series in labels.items()}
