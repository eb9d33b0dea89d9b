"""What the order of the options does to a score: the numbers of a task with `choice_order`, and
PriDe.

Of the samples whose options could be moved: the mean over their orders, how many are right in all
orders and in any, how many name the same option in all of them, and the recall by the place of the
right option.

PriDe is a model's liking for places, estimated on some samples and taken out of the answers to the
others. The prior of a sample is the mean log-probability of each label over all rotations of its
options, in which every option stands behind every label once; the prior of the model is the mean
over the samples that are drawn for it. The other samples are answered by what is left of the
probabilities when they are divided by it (Zheng et al. 2024, *Large Language Models Are Not Robust
Multiple Choice Selectors*).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import polars as pl

from answerkey.metrics.base import (
    ERROR,
    FAILED,
    NOTHING_COUNTED,
    BaseMetric,
    Coverage,
    ValueCounts,
    ValueNames,
    name_left_out,
    read_column,
)
from answerkey.metrics.intervals import Margin, Ratio, average, measure_clustered_error, root
from answerkey.metrics.measure import Design, bound_clustered
from answerkey.metrics.moments import Mean
from answerkey.metrics.paired import measure_difference
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    draw_text,
    format_count,
    format_interval,
    format_number,
    format_percent,
    format_value,
    is_share,
    lay_out,
    line,
    make_visible,
)
from answerkey.types import MetricValue, Scores

LEFT_IN_PLACE = "left_in_place"
ESTIMATES, NO_PRIOR = "estimates_prior", "no_prior"
NAMES = (
    "pride_accuracy",
    "pride_accuracy_before",
    "pride_difference",
    "pride_rstd",
    "pride_rstd_before",
)
#: Settings under which each sample is shown once.
SINGLE = frozenset({"original", "shuffled"})

#: How right an answer is, before and after the prior is taken out.
BeforeAfter = tuple[float, float]


class _OrderMetric(BaseMetric):
    """A metric that reads all rows of a sample."""

    reads_rows: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]]

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return self.reads

    def read_samples(self, scores: Scores) -> Iterator[dict[str, Any]]:
        """Yield for each sample its fields, each as the list of its rows, and why each row does not
        count.
        """
        columns = [read_column(scores, name).alias(name) for name in self.reads]
        table = pl.DataFrame([*columns, scores.frame.select(name_left_out()).to_series()])
        yield from (
            table.group_by("base_sample_id", maintain_order=True)
            .agg(pl.all())
            .iter_rows(named=True)
        )

    def state_mean(
        self, name: str, counts: Mapping[float, int], left_out: Mapping[str, int]
    ) -> MetricValue:
        """Return the mean of shares as `mean` states it."""
        metric = Mean(field="is_correct", name=name)
        shares = [((share,), rows) for share, rows in counts.items()]
        value_counts = ValueCounts(shares, left_out, ["is_correct"])
        value_counts.is_share = True
        value = metric.state_values(value_counts, metric.collect(value_counts))[0]
        return replace(value, type=self.type)

    def state_rstd(
        self,
        name: str,
        recalls: Sequence[Fraction],
        coverage: Coverage,
        **more: Any,  # noqa: ANN401 - as `state`
    ) -> MetricValue:
        """Return RStd: the standard deviation (population form) of the recalls, in points."""
        middle = sum(recalls, Fraction()) / len(recalls)
        squares = sum(((recall - middle) ** 2 for recall in recalls), Fraction())
        variance = 10_000 * squares / len(recalls)
        return self.state(name, root(variance), coverage, **more)


@dataclass(frozen=True)
class ChoiceOrderMetric(_OrderMetric):
    """The numbers of a task with `choice_order`; `orders` is its setting."""

    orders: str

    type: ClassVar[str] = "choice_order"
    reads: ClassVar[tuple[str, ...]] = (
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
        return ValueNames(
            tuple(f"order_{name}" for name in names), patterns=(("order_recall_", ""),)
        )

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the values; those that compare orders only where samples were shown in several."""
        counts = self.count_orders(scores)
        coverage = counts.coverage
        mean = self.state_mean("order_mean", counts.means, coverage.left_out)
        if not coverage.n:
            return [mean]
        values = [mean]
        if self.orders not in SINGLE:
            for name in ("all_right", "any_right", "consistency"):
                share = (counts.flags[name], coverage.n)
                values.append(self.state_share(f"order_{name}", share, coverage))
            modal = self.state_mean("order_modal_share", counts.modal, coverage.left_out)
            values.append(modal)
        labels = sorted({*counts.recalls, *counts.predicted})
        totals: dict[str, tuple[int, int]] = {}
        for label in labels:
            hits = counts.recalls.get(label, Counter())
            totals[label] = (
                sum(right * samples for (right, _), samples in hits.items()),
                sum(rows * samples for (_, rows), samples in hits.items()),
            )
            values.append(self._state_recall(label, hits, totals[label], coverage.left_out))
        details = {
            "true": {label: of for label, (_, of) in totals.items()},
            "predicted": {label: counts.predicted[label] for label in labels},
            "invalid": counts.flags["invalid_rows"],
        }
        margin = Margin(interval_note="no formula fits it; the recalls have intervals of their own")
        recalls = [Fraction(count, of) for count, of in totals.values() if of]
        rstd = self.state_rstd("order_rstd", recalls, coverage, details=details, margin=margin)
        return [*values, rstd]

    def count_orders(self, scores: Scores) -> OrderCounts:
        """Return what the rows of each sample say."""
        counts = OrderCounts()
        for row in self.read_samples(scores):
            reasons = [reason for reason in row["reason"] if reason is not None]
            reasons += [LEFT_IN_PLACE for reason in row["left_in_place"] if reason is not None]
            if reasons:
                counts.coverage.left_out[_choose_reason(reasons)] += 1
                continue
            counts.add(row)
        return counts

    def _state_recall(
        self,
        label: str,
        hits: Mapping[tuple[int, int], int],
        total: tuple[int, int],
        left_out: Counter[str],
    ) -> MetricValue:
        """Return the recall of the samples whose right option stands at a label."""
        n = sum(hits.values())
        value = self.state_share(f"order_recall_{label}", total, Coverage(n, left_out))
        if all(rows == 1 for _, rows in hits):
            return value
        # The rows of one sample are no independent draws.
        sums: list[list[Ratio]] = []
        for (right, rows), count in hits.items():
            sums += [[Ratio(right, rows, rows)]] * count
        bare = replace(value, interval=None, interval_method=None)
        return bound_clustered(bare, measure_clustered_error(sums)[0], n, Design())


def _choose_reason(reasons: Sequence[str]) -> str:
    """Return why a sample is left out: an error before a failure before anything else."""
    for reason in (ERROR, FAILED):
        if reason in reasons:
            return reason
    return reasons[0]


@dataclass
class OrderCounts:
    """What the rows of samples say, shown in several orders.

    `recalls` counts, by the label of the right option, samples by their right rows and rows.
    """

    coverage: Coverage = field(default_factory=Coverage)
    means: Counter[float] = field(default_factory=Counter)
    modal: Counter[float] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    recalls: dict[str, Counter[tuple[int, int]]] = field(default_factory=dict)
    predicted: Counter[str] = field(default_factory=Counter)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one sample."""
        right = [bool(value) for value in row["is_correct"]]
        options = row["predicted_option"]
        size = len(right)
        uses = Counter(option for option in options if option is not None)
        # A sample that names no option has none that most of its rows name.
        most = max(uses.values(), default=0)
        self.coverage.n += 1
        self.means[sum(right) / size] += 1
        self.modal[most / size] += 1
        self.flags["all_right"] += all(right)
        self.flags["any_right"] += any(right)
        self.flags["consistency"] += most == size
        self.flags["invalid_rows"] += options.count(None)
        hits: Counter[str] = Counter()
        rows: Counter[str] = Counter()
        for truth, is_hit in zip(row["ground_truth_choice"], right, strict=True):
            hits[str(truth)] += is_hit
            rows[str(truth)] += 1
        for label, count in rows.items():
            self.recalls.setdefault(label, Counter())[hits[label], count] += 1
        for choice in row["predicted_choice"]:
            if choice is not None:
                self.predicted[str(choice)] += 1


@dataclass(frozen=True)
class PrideMetric(_OrderMetric):
    """Accuracy and RStd of the samples that do not estimate the prior, before and after it is taken
    out.
    """

    share: float
    seed: int = 0

    type: ClassVar[str] = "pride"
    reads_extra: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = (
        "base_sample_id",
        "probabilities",
        "choices",
        "ground_truth_choice",
        "option_order",
        "estimates_prior",
    )

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        return ValueNames(NAMES)

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return accuracy and RStd, before and after, and the paired difference of the
        accuracies.
        """
        counts = PriorCounts()
        for row in self.read_samples(scores):
            counts.add(row)
        priors = counts.estimate_priors()
        coverage = Coverage(0, counts.left_out)
        pairs: Counter[BeforeAfter] = Counter()
        by_label: dict[str, Counter[BeforeAfter]] = {}
        for choices, answers in counts.answers.items():
            if choices not in priors:
                coverage.left_out[NO_PRIOR] += answers.total()
                continue
            weights = list(priors[choices].values())
            for (shares, place), count in answers.items():
                pair = (judge_shares(shares, place), judge_shares(shares, place, weights))
                pairs[pair] += count
                by_label.setdefault(choices[place], Counter())[pair] += count
        coverage.n = pairs.total()
        described = []
        for choices, prior in sorted(priors.items()):
            samples = len(counts.priors[choices])
            described.append({"labels": list(choices), "prior": prior, "samples": samples})
        details = {
            "share": self.share,
            "seed": self.seed,
            "priors": described,
            "samples_without_prior": counts.skipped,
        }
        before: Counter[float] = Counter()
        after: Counter[float] = Counter()
        for (was, is_now), count in pairs.items():
            before[was] += count
            after[is_now] += count
        accuracy = self.state_mean(NAMES[0], after, coverage.left_out)
        return [
            replace(accuracy, details={**accuracy.details, **details}),
            self.state_mean(NAMES[1], before, coverage.left_out),
            self._state_difference(pairs, coverage),
            self._state_spread(NAMES[3], by_label, 1, coverage),
            self._state_spread(NAMES[4], by_label, 0, coverage),
        ]

    def _state_difference(
        self, pairs: Mapping[BeforeAfter, int], coverage: Coverage
    ) -> MetricValue:
        """Return after minus before over the same samples, with the interval of a paired
        difference.
        """
        if not pairs:
            return self.state(NAMES[2], None, coverage, note=NOTHING_COUNTED)
        difference = measure_difference(
            [(after, before, count) for (before, after), count in pairs.items()]
        )
        evidence = difference.evidence
        margin = Margin(
            evidence.std_error,
            evidence.interval,
            evidence.interval_method,
            evidence.interval_note,
        )
        details = {"p": evidence.p, "p_method": evidence.p_method}
        return self.state(NAMES[2], difference.value, coverage, details=details, margin=margin)

    def _state_spread(
        self,
        name: str,
        by_label: Mapping[str, Mapping[BeforeAfter, int]],
        place: int,
        coverage: Coverage,
    ) -> MetricValue:
        """Return RStd of the recalls by label, before or after."""
        if not by_label:
            return self.state(name, None, coverage, note=NOTHING_COUNTED)
        recalls = []
        for counts in by_label.values():
            right = Fraction()
            for pair, count in counts.items():
                right += Fraction(pair[place]) * count
            recalls.append(right / sum(counts.values()))
        margin = Margin(interval_note="no formula fits it")
        return self.state_rstd(name, recalls, coverage, margin=margin)


#: The labels of a sample's options.
Choices = tuple[str, ...]


@dataclass
class PriorCounts:
    """The priors of the samples that estimate one, and the answers to the others, by labels.

    An answer is the probability of each label and the place of the true one. `skipped` counts
    samples that were drawn to estimate a prior and could not.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    priors: dict[Choices, list[list[float]]] = field(default_factory=dict)
    answers: dict[Choices, Counter[tuple[tuple[float, ...], int]]] = field(default_factory=dict)
    skipped: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one sample, given by its fields, each as the list of its rows."""
        if not row["estimates_prior"][0]:
            self._add_answer(row)
            return
        self.left_out[ESTIMATES] += 1
        prior = _measure_prior(row)
        if prior is None:
            self.skipped += 1
        else:
            self.priors.setdefault(tuple(row["choices"][0]), []).append(prior)

    def _add_answer(self, row: Mapping[str, Any]) -> None:
        # The first row of a sample is its own order. A probability that is not known is 0.
        choices = row["choices"][0]
        shares = row["probabilities"][0]
        truth = row["ground_truth_choice"][0]
        reason = row["reason"][0]
        if reason is not None or shares is None or choices is None or truth not in choices:
            self.left_out[reason or "null"] += 1
            return
        numbers = tuple(float(share or 0.0) for share in shares)
        place = list(choices).index(truth)
        self.answers.setdefault(tuple(choices), Counter())[numbers, place] += 1

    def estimate_priors(self) -> dict[Choices, dict[str, float]]:
        """Return the mean prior of each label, by the labels of the options."""
        priors = {}
        for choices, estimates in self.priors.items():
            means = [average(column) for column in zip(*estimates, strict=True)]
            priors[choices] = dict(zip(choices, means, strict=True))
        return priors


def _measure_prior(row: Mapping[str, Any]) -> list[float] | None:
    """Return the prior of one sample from its rotations; None where a probability is not known."""
    choices = row["choices"][0]
    if choices is None or any(row["reason"]):
        return None
    rotations = []
    for shares, names, order in zip(
        row["probabilities"], row["choices"], row["option_order"], strict=True
    ):
        if shares is not None and _is_rotation(order, names):
            rotations.append(shares)
    if len(rotations) < len(choices) or not all(map(all, rotations)):
        return None
    logs = []
    for column in zip(*rotations, strict=True):
        logs.append(math.fsum(map(math.log, column)) / len(rotations))
    weights = [math.exp(log - max(logs)) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _is_rotation(order: Sequence[str] | None, choices: Sequence[str] | None) -> bool:
    if not order or not choices:
        return False
    start = list(choices).index(order[0])
    return list(order) == [*choices[start:], *choices[:start]]


def judge_shares(
    shares: Sequence[float], truth: int, prior: Iterable[float] | None = None
) -> float:
    """Return how right the likeliest label is, by probabilities or by what the prior leaves of
    them.
    """
    weights = [1.0] * len(shares) if prior is None else prior
    weighed = [share / weight for share, weight in zip(shares, weights, strict=True)]
    if weighed[truth] < max(weighed):
        return 0.0
    return 1.0 / weighed.count(max(weighed))


# In words

#: What the values are called in a summary, in this order; by the ending of their names.
TITLES = {
    "order_mean": "mean over orders",
    "order_all_right": "right in all orders (circular)",
    "order_any_right": "right in any order",
    "order_consistency": "same option in all orders",
    "order_modal_share": "share of the most frequent option",
}
PRIDE_TITLES = {
    "pride_accuracy_before": "accuracy before",
    "pride_accuracy": "accuracy after",
    "pride_difference": "after - before (points)",
    "pride_rstd_before": "RStd before (points)",
    "pride_rstd": "RStd after (points)",
}
RECALL = "order_recall_"
WHY_LEFT = {
    "REFERS_TO_OTHERS": "an option speaks of the others (such as *none of the above*)",
    "REFERS_TO_LABELS": "an option names the letters of others",
    "UNSUITABLE": "their options cannot be moved",
}


def say_order(task: TaskRun) -> str | None:
    """Return in which orders samples were shown; None where all stood as in the file."""
    setting, orders = task.manifest.get("choice_order"), task.totals.get("orders")
    if not setting or not orders:
        return None
    samples, rows = task.counts["samples"], orders["counts"]["samples"]
    seed = f" (seed {setting['seed']})" if setting["orders"] == "shuffled" else ""
    extra = f", {orders['extra']} more for the prior" if orders.get("extra") else ""
    return (
        f"{setting['orders']}{seed}: {format_count(samples, 'sample')}, "
        f"{format_count(rows, 'row')}{extra}"
    )


def draw_choice_order(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return the numbers about the order of the options; nothing for a task that has none."""
    lines: list[Line] = []
    values = [value for value in task.metrics.values() if value.type == ChoiceOrderMetric.type]
    if values:
        lines += _draw_values("Order of the options", TITLES, values, width, digits)
        lines += _draw_places(values, width, digits)
        left: Mapping[str, int] = (task.totals.get("orders") or {}).get("left_in_place") or {}
        for reason, count in left.items():
            note = f"{format_count(count, 'sample')} left in place: {WHY_LEFT.get(reason, reason)}"
            lines += draw_text(note, width, "dim")
    values = [value for value in task.metrics.values() if value.type == PrideMetric.type]
    if values:
        heading = "Prior for places taken out (PriDe)"
        lines += _draw_values(heading, PRIDE_TITLES, values, width, digits)
        for note in _list_prior_notes(values):
            lines += draw_text(note, width, "dim")
    return lines


def _list_prior_notes(values: Sequence[MetricValue]) -> Iterator[str]:
    """Yield what the priors are, and how their samples were drawn."""
    details: Any = next(value for value in values if value.name.endswith(NAMES[0])).details
    for estimate in details["priors"]:
        prior = estimate["prior"].items()
        shares = ", ".join(f"{label} {format_percent(share)}" for label, share in prior)
        yield f"prior of {format_count(estimate['samples'], 'sample')}: {shares}"
    if not details["priors"]:
        yield "no sample could be used to estimate it"
    drawn = f"a share of {details['share']}, seed {details['seed']}"
    yield f"samples drawn to estimate it ({drawn}) do not count here"


def _draw_values(
    heading: str,
    titles: Mapping[str, str],
    values: Sequence[MetricValue],
    width: int,
    digits: int | None,
) -> list[Line]:
    """Return a table of the values that have a title, in the order of the titles."""
    rows: list[Sequence[Cell]] = []
    for name, title in titles.items():
        for value in values:
            if not value.name.endswith(name):
                continue
            shown = format_value(value, digits)
            ends = format_interval(value.interval, as_share=is_share(value), digits=digits)
            if name == NAMES[2] and value.value is not None and digits is None:
                shown = f"{100 * value.value:+.2f}"
                ends = format_interval(value.interval)
            cell = Span(shown, "dim" if value.value is None else "strong")
            rows.append((Span(title, "strong"), cell, ends, str(value.n)))
    return [BLANK, *lay_out(Table((heading, "value", "95 % interval", "n"), rows, "<>>>"), width)]


def _draw_places(values: Sequence[MetricValue], width: int, digits: int | None) -> list[Line]:
    """Return the recall by the place of the right option, and how far the recalls lie apart."""
    spread = next((value for value in values if "order_rstd" in value.name), None)
    if spread is None or spread.value is None:
        return []
    counts: list[Any] = [spread.details.get(name) or {} for name in ("true", "predicted")]
    rows: list[Sequence[Cell]] = []
    for value in values:
        if RECALL in value.name:
            label = value.name.partition(RECALL)[2]
            interval = format_interval(value.interval, as_share=True, digits=digits)
            recall = format_value(value, digits)
            numbers = [str(count.get(label, 0)) for count in counts]
            rows.append((make_visible(label), recall, interval, *numbers))
    header = ("Right option at", "recall", "95 % interval", "rows", "predicted")
    text = f"  RStd of the recalls: {format_number(spread.value)} points"
    return [BLANK, *lay_out(Table(header, rows, "<>>>>"), width), line(text)]
