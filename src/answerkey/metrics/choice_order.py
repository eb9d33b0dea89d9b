"""What the order of the options does to a score: the numbers of a task with `choice_order`.

Of the samples whose options could be moved: the mean over their orders, how many are right in all orders and
in any, how many name the same option in all of them, and the recall by the place of the right option.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import polars as pl

from answerkey.metrics.clusters import Clustering, bound_clustered
from answerkey.metrics.concluding import Margin, Share, state_share, state_value
from answerkey.metrics.exact import divide_and_root
from answerkey.metrics.moments import Mean
from answerkey.metrics.observed import ERROR, FAILED, Observed, Part, merge_parts, name_left_out, read_column
from answerkey.metrics.ratios import Ratio, measure_clustered_error
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores

LEFT_IN_PLACE = "left_in_place"
NO_FORMULA = "no formula fits it; the recalls have intervals of their own"
#: Settings under which each sample is shown once.
SINGLE = frozenset({"original", "shuffled"})


@dataclass(frozen=True)
class _Shown:
    """The rows of one sample: right or not, the option named (by its label in the file), and the labels."""

    right: tuple[bool, ...]
    options: tuple[str | None, ...]
    predicted: tuple[str | None, ...]
    truths: tuple[str, ...]


@dataclass(frozen=True)
class ChoiceOrderMetric:
    """The numbers of a task with `choice_order`; `orders` is its setting."""

    orders: str

    type: ClassVar[str] = "choice_order"
    reads_rows: ClassVar[bool] = True

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (
            "is_correct",
            "base_sample_id",
            "predicted_option",
            "predicted_choice",
            "ground_truth_choice",
            "left_in_place",
        )

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        several = ("all_right", "any_right", "consistency", "modal_share")
        names = ("mean", *(() if self.orders in SINGLE else several), "rstd")
        return ValueNames(tuple(f"order_{name}" for name in names), patterns=(("order_recall_", ""),))

    def measure(self, scores: Scores) -> Part:
        """Return the counts of one shard, which holds all rows of each of its samples."""
        left_out: Counter[str] = Counter()
        counts: dict[str, Counter[str]] = {name: Counter() for name in ("means", "modal", "flags")}
        places: dict[str, dict[str, Counter[str]]] = {}
        for sample, reason in self._read_samples(scores):
            if sample is None:
                left_out[str(reason)] += 1
                continue
            size = len(sample.right)
            counts["means"][f"{sum(sample.right)}/{size}"] += 1
            counts["modal"][f"{_count_modal(sample.options)}/{size}"] += 1
            counts["flags"].update(_flag(sample))
            _count_places(sample, places)
        return {
            "n": sum(counts["means"].values()),
            "left_out": dict(left_out),
            **{name: dict(one) for name, one in counts.items()},
            "places": {
                label: {name: dict(one) for name, one in kinds.items()} for label, kinds in places.items()
            },
        }

    def _read_samples(self, scores: Scores) -> Iterator[tuple[_Shown | None, str | None]]:
        """Yield each sample's rows, or why it does not count."""
        table = pl.DataFrame(
            [read_column(scores, name).alias(name) for name in self.fields()]
            + [scores.frame.select(name_left_out()).to_series()]
        )
        groups = table.group_by("base_sample_id", maintain_order=True).agg(pl.all())
        for row in groups.iter_rows(named=True):
            reasons = [one for one in row["reason"] if one is not None] + [
                LEFT_IN_PLACE for one in row["left_in_place"] if one is not None
            ]
            if reasons:
                yield None, next((one for one in (ERROR, FAILED) if one in reasons), reasons[0])
            else:
                yield _read_shown(row), None

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the values; those that compare orders only where samples were shown in several."""
        mean = _state_mean("order_mean", part, "means", kind=self.type)
        if not part.get("n"):
            return [mean]
        several = [] if self.orders in SINGLE else self._state_several(part)
        recalls = [_state_recall(label, part, kind=self.type) for label in sorted(part["places"])]
        return [mean, *several, *recalls, self._state_spread(part)]

    def _state_several(self, part: Part) -> list[MetricValue]:
        shares = [
            state_share(f"order_{name}", Share(part["flags"].get(name, 0), part["n"]), part, kind=self.type)
            for name in ("all_right", "any_right", "consistency")
        ]
        return [*shares, _state_mean("order_modal_share", part, "modal", kind=self.type)]

    def _state_spread(self, part: Part) -> MetricValue:
        """Return RStd: the standard deviation (population form) of the recalls, in points."""
        counted = {label: _count_recall(kinds["recall"]) for label, kinds in sorted(part["places"].items())}
        recalls = [Fraction(one.count, one.of) for one in counted.values() if one.of]
        details = {
            "true": {label: one.of for label, one in counted.items()},
            "predicted": {
                label: kinds["predicted"].get("n", 0) for label, kinds in sorted(part["places"].items())
            },
            "invalid": part["flags"].get("invalid_rows", 0),
        }
        size = len(recalls)  # not 0: every sample that counts has a truth
        middle = sum(recalls, Fraction()) / size
        variance = 10_000 * sum(((one - middle) ** 2 for one in recalls), Fraction()) / size
        value = divide_and_root(variance.numerator, variance.denominator)
        margin = Margin(note=NO_FORMULA)
        return state_value("order_rstd", value, part, kind=self.type, details=details, margin=margin)


def _read_shown(row: Mapping[str, Sequence[object]]) -> _Shown:
    def take(name: str) -> tuple[str | None, ...]:
        return tuple(None if one is None else str(one) for one in row[name])

    right = tuple(bool(one) for one in row["is_correct"])
    return _Shown(
        right, take("predicted_option"), take("predicted_choice"), tuple(map(str, row["ground_truth_choice"]))
    )


def _count_modal(options: Sequence[str | None]) -> int:
    """Return how many rows name the option that most of them name; none for a sample that names none."""
    named = Counter(one for one in options if one is not None)
    return max(named.values(), default=0)


def _flag(sample: _Shown) -> Counter[str]:
    """Return what is true of a sample, each counted once, and how many of its rows name no option."""
    flags = {
        "all_right": all(sample.right),
        "any_right": any(sample.right),
        "consistency": _count_modal(sample.options) == len(sample.options),
    }
    invalid = sum(one is None for one in sample.options)
    return Counter({name: 1 for name, holds in flags.items() if holds}) + Counter(invalid_rows=invalid)


def _count_places(sample: _Shown, places: dict[str, dict[str, Counter[str]]]) -> None:
    """Count, by the label of the right option, how often it was named, and by any label how often it was."""
    rows: Counter[str] = Counter(sample.truths)
    hits = Counter(truth for truth, right in zip(sample.truths, sample.right, strict=True) if right)
    for label in rows:
        _open_place(places, label)["recall"][f"{hits[label]}/{rows[label]}"] += 1
    for name in sample.predicted:
        if name is not None:
            _open_place(places, name)["predicted"]["n"] += 1


def _open_place(places: dict[str, dict[str, Counter[str]]], label: str) -> dict[str, Counter[str]]:
    return places.setdefault(label, {"recall": Counter(), "predicted": Counter()})


def _read_kinds(kinds: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Return hits, rows, and how many samples have these."""
    split = [(text.split("/"), count) for text, count in sorted(kinds.items())]
    return [(int(hits), int(rows), count) for (hits, rows), count in split]


def _count_recall(kinds: Mapping[str, int]) -> Share:
    found = _read_kinds(kinds)
    return Share(sum(hits * count for hits, _, count in found), sum(rows * count for _, rows, count in found))


def _state_mean(name: str, part: Part, kinds: str, *, kind: str) -> MetricValue:
    """Return the mean of each sample's own share, as `mean` states it."""
    found = [
        ((float(Fraction(hits, rows)),), count) for hits, rows, count in _read_kinds(part.get(kinds, {}))
    ]
    metric = Mean(field="is_correct", name=name)
    observed = Observed(found, Counter(part.get("left_out", {})), ["is_correct"])
    value = metric.finish({**metric.collect(observed), "is_share": True})[0]
    return replace(value, type=kind)


def _state_recall(label: str, part: Part, *, kind: str) -> MetricValue:
    """Return the share of rows with the right option at a label that name it."""
    found = _read_kinds(part["places"][label]["recall"])
    share = _count_recall(part["places"][label]["recall"])
    samples = {**part, "n": sum(count for _, _, count in found)}
    value = state_share(f"order_recall_{label}", share, samples, kind=kind)
    if all(rows == 1 for _, rows, _ in found):
        return value
    ratios = [(Ratio(hits, rows, rows), count) for hits, rows, count in found]
    error = measure_clustered_error(ratios, is_corrected=True)
    bare = replace(value, interval=None, interval_method=None)
    return bound_clustered(bare, error, samples["n"], Clustering("samples"))
