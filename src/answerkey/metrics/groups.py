"""A metric's values by group, and their average over the groups: micro is the value itself, macro is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from answerkey.metrics.averages import average_errors, average_shares
from answerkey.metrics.clusters import NAMED, Clustering, average_clustered_error, bound_clustered
from answerkey.metrics.concluding import Margin, Share, state_share
from answerkey.metrics.design import Design, RatioMetric
from answerkey.metrics.exact import UNIT_BITS, average, to_units
from answerkey.metrics.frequency import Frequency
from answerkey.metrics.observed import Part
from answerkey.metrics.ratios import Ratio
from answerkey.metrics.registry import Metric
from answerkey.types import Groups, GroupValue, MetricValue

#: More groups than that are no breakdown for people; they are counted, and not listed.
MOST_GROUPS = 10_000
NOT_HERE = "it does not occur in this group"
NO_VALUES = "no group has a value"


@dataclass(frozen=True)
class Grouped:
    """One group: its merged part, its clusters if there are any, and the values finished from them."""

    label: str
    whole: Part
    clusters: Part
    values: Sequence[MetricValue]

    @cached_property
    def by_name(self) -> Mapping[str, MetricValue]:
        """The values by name, the first of each."""
        return {value.name: value for value in reversed(self.values)}


@dataclass(frozen=True)
class Breakdown:
    """All groups of one column, for one metric; `whole` is its part over all of them."""

    column: str
    groups: Sequence[Grouped]
    metric: Metric
    design: Design
    whole: Part

    def state(self, value: MetricValue) -> Groups:
        """Return a value of the metric by group, and its average over the groups."""
        if len(self.groups) > MOST_GROUPS:
            note = f"there are more than {MOST_GROUPS} groups"
            return Groups(self.column, (), GroupValue(None, None, len(self.groups), note=note))
        own = [_find_own(value, group) for group in self.groups]
        listed = [_describe(group.label, one) for group, one in zip(self.groups, own, strict=True)]
        return Groups(self.column, tuple(listed), self._average(value, own))

    def _average(self, value: MetricValue, own: Sequence[MetricValue]) -> GroupValue:
        known = [pair for pair in zip(self.groups, own, strict=True) if pair[1].value is not None]
        if not known:
            return GroupValue(None, None, 0, note=NO_VALUES)
        numbers = [float(one.value or 0) for _, one in known]
        mean = MetricValue(
            value.name,
            average(numbers),
            len(numbers),
            note=_say_missing(len(known), len(own)),
            is_share=all(one.is_share for _, one in known),
        )
        return _describe(None, self._bound(mean, known))

    def _bound(self, mean: MetricValue, known: Sequence[tuple[Grouped, MetricValue]]) -> MetricValue:
        """Return the average with its interval.

        The groups are those there are, and each is measured with an error of its own. Only where they are the
        clusters, too, they stand for others like them, and what counts is how far they differ.
        """
        values = [one for _, one in known]
        if self.design.cluster_by == self.column:
            ratios = [Ratio(to_units(float(one.value or 0)), 1 << UNIT_BITS, 1) for one in values]
            return self._bound_clusters(mean, [([one], 1) for one in ratios])
        if self.design.cluster_by is not None:
            return self._bound_clusters(mean, self._lay_out_clusters(mean.name, known))
        shares = [_read_share(one) for one in values]
        found = [share for share in shares if share is not None]
        margin = average_shares(found) if len(found) == len(values) else average_errors(values)
        return _apply(mean, margin)

    def _bound_clusters(
        self, mean: MetricValue, clusters: Sequence[tuple[Sequence[Ratio], int]]
    ) -> MetricValue:
        noun = f"values of `{self.design.cluster_by}`"
        if not clusters:
            return replace(mean, interval_note="no formula for clusters fits this type")
        error, size = average_clustered_error(clusters, is_corrected=self.design.is_corrected)
        clustering = Clustering(noun, self.design.cluster_by, self.design.is_corrected)
        return bound_clustered(mean, error, size, clustering)

    def _lay_out_clusters(
        self, name: str, known: Sequence[tuple[Grouped, MetricValue]]
    ) -> list[tuple[Sequence[Ratio], int]]:
        """Return for each cluster its sums in every group; a cluster may lie in several."""
        metric = self.metric
        if not isinstance(metric, RatioMetric):
            return []
        nothing = Ratio(0, 0, 0)
        columns = [
            {
                label: metric.ratios(sums, self.whole).get(name, nothing)
                for label, sums in group.clusters.get(NAMED, {}).items()
            }
            for group, _ in known
        ]
        labels = sorted(set().union(*columns))
        return [([column.get(label, nothing) for column in columns], 1) for label in labels]


def _find_own(value: MetricValue, group: Grouped) -> MetricValue:
    """Return a group's own value; a label that it never has is none of its samples."""
    if value.name in group.by_name:
        return group.by_name[value.name]
    n = group.whole.get("n", 0)
    if value.type == Frequency.type and n:
        return state_share(value.name, Share(0, n), group.whole, kind=value.type)
    left_out = dict(sorted(group.whole.get("left_out", {}).items()))
    return MetricValue(value.name, None, n, left_out, note=NOT_HERE, type=value.type)


def _say_missing(known: int, size: int) -> str | None:
    return f"mean over {known} of {size} groups, the others have no value" if known < size else None


def _read_share(value: MetricValue) -> Share | None:
    """Return the counts behind a share of independent samples; None for any other value."""
    count, of = value.details.get("count"), value.details.get("of")
    is_plain = isinstance(count, int) and isinstance(of, int) and "clusters" not in value.details
    return Share(int(str(count)), int(str(of))) if is_plain else None


def _apply(value: MetricValue, margin: Margin) -> MetricValue:
    return replace(
        value,
        std_error=margin.std_error,
        interval=margin.interval,
        interval_method=margin.method,
        interval_note=margin.note,
    )


def _describe(label: str | None, value: MetricValue) -> GroupValue:
    return GroupValue(
        group=label,
        value=value.value,
        n=value.n,
        n_excluded=value.n_excluded,
        interval=value.interval,
        interval_method=value.interval_method,
        interval_note=value.interval_note,
        std_error=value.std_error,
        note=value.note,
    )
