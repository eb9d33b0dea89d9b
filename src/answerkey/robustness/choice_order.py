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
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from operator import truediv
from statistics import pvariance
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
from answerkey.metrics.intervals import Margin, Ratio, average, root
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
ESTIMATES = "estimates_prior"
NO_PRIOR = "no_prior"
NAMES = (
    "pride_accuracy",
    "pride_accuracy_before",
    "pride_difference",
    "pride_rstd",
    "pride_rstd_before",
)
#: Settings under which each sample is shown once.
SINGLE = frozenset({"original", "shuffled"})

#: The right label, and how right an answer is before and after the prior is taken out.
Judged = tuple[str, float, float]
#: How many rows of a sample are right, and how many it has.
RightOfRows = tuple[int, int]
Recalls = defaultdict[str, Counter[RightOfRows]]
#: The fields of a sample, each as the list of its rows.
SampleRows = Mapping[str, Any]
RECALL = "order_recall_"


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
        table = scores.frame.select(name_left_out())
        for name in self.reads:
            column = read_column(scores, name)
            table = table.with_columns(column.alias(name))
        groups = table.group_by("base_sample_id", maintain_order=True)
        samples = groups.agg(pl.all())
        yield from samples.iter_rows(named=True)

    def state_mean(
        self,
        name: str,
        counts: Mapping[float, int],
        left_out: Mapping[str, int],
    ) -> MetricValue:
        """Return the mean of shares as `mean` states it."""
        metric = Mean(field="is_correct", name=name)
        shares = []
        for share, rows in counts.items():
            shares.append(((share,), rows))
        value_counts = ValueCounts(shares, left_out, ["is_correct"])
        value_counts.is_share = True
        totals = metric.collect(value_counts)
        [value] = metric.state_values(value_counts, totals)
        return replace(value, type=self.type)

    def state_rstd(
        self,
        name: str,
        recalls: Sequence[Fraction],
        coverage: Coverage,
        **more: Any,  # noqa: ANN401 - as `state`
    ) -> MetricValue:
        """Return RStd: the standard deviation (population form) of the recalls, in points."""
        deviation = root(10_000 * pvariance(recalls))
        return self.state(name, deviation, coverage, **more)


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
        names = list(TITLES)
        if self.orders in SINGLE:
            names = ["order_mean"]
        names.append("order_rstd")
        return ValueNames(tuple(names), patterns=((RECALL, ""),))

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the values; those that compare orders only where samples were shown in several."""
        counts = self.count_orders(scores)
        coverage = counts.coverage
        left_out = coverage.left_out
        values = [self.state_mean("order_mean", counts.means, left_out)]
        if not coverage.n:
            return values
        if self.orders not in SINGLE:
            for name in ("all_right", "any_right", "consistency"):
                share = (counts.flags[name], coverage.n)
                value = self.state_share(f"order_{name}", share, coverage)
                values.append(value)
            modal_share = self.state_mean("order_modal_share", counts.modal, left_out)
            values.append(modal_share)
        recalls = []
        true_rows = {}
        predicted_rows = {}
        labels = {*counts.recalls, *counts.predicted}
        for label in sorted(labels):
            right, rows = counts.count_rows(label)
            true_rows[label] = rows
            predicted_rows[label] = counts.predicted[label]
            if rows:
                recalls.append(Fraction(right, rows))
            values.append(self._state_recall(label, counts))
        details = {
            "true": true_rows,
            "predicted": predicted_rows,
            "invalid": counts.flags["invalid_rows"],
        }
        note = "no formula fits it; the recalls have intervals of their own"
        rstd = self.state_rstd(
            "order_rstd",
            recalls,
            coverage,
            details=details,
            margin=Margin(interval_note=note),
        )
        return [*values, rstd]

    def count_orders(self, scores: Scores) -> OrderCounts:
        """Return what the rows of each sample say."""
        counts = OrderCounts()
        for sample in self.read_samples(scores):
            reasons = list(filter(None, sample["reason"]))
            if any(sample["left_in_place"]):
                reasons.append(LEFT_IN_PLACE)
            if reasons:
                reason = _choose_reason(reasons)
                counts.coverage.left_out[reason] += 1
            else:
                counts.add(sample)
        return counts

    def _state_recall(self, label: str, counts: OrderCounts) -> MetricValue:
        """Return the recall of the samples whose right option stands at a label."""
        hits = counts.recalls[label]
        total = counts.count_rows(label)
        n = hits.total()
        coverage = Coverage(n, counts.coverage.left_out)
        value = self.state_share(f"{RECALL}{label}", total, coverage)
        if n == total[1]:
            return value
        # The rows of one sample are no independent draws.
        clusters = [[Ratio(right, rows, rows)] for right, rows in hits.elements()]
        bare = replace(value, interval=None, interval_method=None)
        return bound_clustered(bare, clusters, Design())


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
    recalls: Recalls = field(default_factory=partial(defaultdict, Counter))
    predicted: Counter[str] = field(default_factory=Counter)

    def count_rows(self, label: str) -> RightOfRows:
        """Return how many rows have their right option at a label and are right, and how many."""
        right_rows = 0
        all_rows = 0
        for right, rows in self.recalls[label].elements():
            right_rows += right
            all_rows += rows
        return right_rows, all_rows

    def add(self, row: SampleRows) -> None:
        """Count one sample."""
        right = list(map(bool, row["is_correct"]))
        options = row["predicted_option"]
        size = len(right)
        uses: Counter[str | None] = Counter(options)
        # A sample that names no option has none that most of its rows name.
        del uses[None]
        most = max(uses.values(), default=0)
        self.coverage.n += 1
        share_right = sum(right) / size
        self.means[share_right] += 1
        self.modal[most / size] += 1
        self.flags["all_right"] += all(right)
        self.flags["any_right"] += any(right)
        self.flags["consistency"] += most == size
        self.flags["invalid_rows"] += options.count(None)
        truths: list[str] = row["ground_truth_choice"]
        hits: Counter[str] = Counter()
        for truth, is_hit in zip(truths, right, strict=True):
            hits[truth] += is_hit
        for label, count in Counter(truths).items():
            self.recalls[label][hits[label], count] += 1
        choices = filter(None, row["predicted_choice"])
        self.predicted.update(choices)


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
        pairs = counts.judge()
        before: Counter[float] = Counter()
        after: Counter[float] = Counter()
        for (_, was, is_now), count in pairs.items():
            before[was] += count
            after[is_now] += count
        left_out = counts.left_out
        coverage = Coverage(pairs.total(), left_out)
        accuracy = self.state_mean(NAMES[0], after, left_out)
        details = {
            **accuracy.details,
            "share": self.share,
            "seed": self.seed,
            "priors": counts.describe_priors(),
            "samples_without_prior": counts.skipped,
        }
        return [
            replace(accuracy, details=details),
            self.state_mean(NAMES[1], before, left_out),
            self._state_difference(pairs, coverage),
            self._state_spread(NAMES[3], pairs, 2, coverage),
            self._state_spread(NAMES[4], pairs, 1, coverage),
        ]

    def _state_difference(self, pairs: Counter[Judged], coverage: Coverage) -> MetricValue:
        """Return after minus before over the same samples, with the interval of a paired
        difference.
        """
        if not pairs:
            return self.state(NAMES[2], None, coverage, note=NOTHING_COUNTED)
        rows = []
        for (_, before, after), count in pairs.items():
            rows.append((after, before, count))
        difference = measure_difference(rows)
        evidence = difference.evidence
        margin = Margin(
            evidence.std_error,
            evidence.interval,
            evidence.interval_method,
            evidence.interval_note,
        )
        details = {"p": evidence.p, "p_method": evidence.p_method}
        return self.state(
            NAMES[2],
            difference.value,
            coverage,
            details=details,
            margin=margin,
        )

    def _state_spread(
        self,
        name: str,
        pairs: Counter[Judged],
        place: int,
        coverage: Coverage,
    ) -> MetricValue:
        """Return RStd of the recalls by label, before or after."""
        if not pairs:
            return self.state(name, None, coverage, note=NOTHING_COUNTED)
        right: defaultdict[str, Fraction] = defaultdict(Fraction)
        samples: Counter[str] = Counter()
        for judged, count in pairs.items():
            label = judged[0]
            right[label] += Fraction(judged[place]) * count
            samples[label] += count
        recalls = [right[label] / samples[label] for label in right]
        margin = Margin(interval_note="no formula fits it")
        return self.state_rstd(name, recalls, coverage, margin=margin)


#: The labels of a sample's options.
Choices = tuple[str, ...]
#: The probability of each label, and the place of the true one.
Answer = tuple[tuple[float, ...], int]


@dataclass
class PriorCounts:
    """The priors of the samples that estimate one, and the answers to the others, by labels.

    An answer is the probability of each label and the place of the true one. `skipped` counts
    samples that were drawn to estimate a prior and could not.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    priors: dict[Choices, list[list[float]]] = field(default_factory=dict)
    answers: dict[Choices, Counter[Answer]] = field(default_factory=dict)
    skipped: int = 0

    def add(self, row: SampleRows) -> None:
        """Count one sample."""
        if not row["estimates_prior"][0]:
            self._add_answer(row)
            return
        self.left_out[ESTIMATES] += 1
        prior = _measure_prior(row)
        if prior is None:
            self.skipped += 1
            return
        labels = tuple(row["choices"][0])
        self.priors.setdefault(labels, []).append(prior)

    def _add_answer(self, row: SampleRows) -> None:
        # The first row of a sample is its own order. A probability that is not known is 0.
        choices = row["choices"][0]
        shares = row["probabilities"][0]
        truth = row["ground_truth_choice"][0]
        reason = row["reason"][0]
        is_known = shares is not None and truth in (choices or ())
        if reason is not None or not is_known:
            self.left_out[reason or "null"] += 1
            return
        labels = tuple(choices)
        numbers = tuple(share or 0.0 for share in shares)
        answers = self.answers.setdefault(labels, Counter())
        answers[numbers, labels.index(truth)] += 1

    def judge(self) -> Counter[Judged]:
        """Return how right the answers are; those without a prior are left out."""
        pairs: Counter[Judged] = Counter()
        for labels, answers in self.answers.items():
            if labels not in self.priors:
                self.left_out[NO_PRIOR] += answers.total()
                continue
            prior = self.average_prior(labels)
            for (shares, place), count in answers.items():
                left_of_shares = list(map(truediv, shares, prior))
                before = judge_shares(shares, place)
                after = judge_shares(left_of_shares, place)
                pairs[labels[place], before, after] += count
        return pairs

    def average_prior(self, labels: Choices) -> list[float]:
        """Return the mean prior of each of these labels."""
        columns = zip(*self.priors[labels], strict=True)
        return list(map(average, columns))

    def describe_priors(self) -> list[dict[str, object]]:
        """Return the mean priors as the details of the metric state them."""
        described: list[dict[str, object]] = []
        for labels, estimates in sorted(self.priors.items()):
            prior = self.average_prior(labels)
            description = {
                "labels": list(labels),
                "prior": dict(zip(labels, prior, strict=True)),
                "samples": len(estimates),
            }
            described.append(description)
        return described


def _measure_prior(row: SampleRows) -> list[float] | None:
    """Return the prior of one sample from its rotations; None where a probability is not known."""
    choices = row["choices"][0]
    if choices is None or any(row["reason"]):
        return None
    rotations = []
    rows = zip(row["probabilities"], row["option_order"], strict=True)
    for shares, order in rows:
        if shares is not None and _is_rotation(order, choices):
            rotations.append(shares)
    is_known = all(map(all, rotations))
    if not is_known or len(rotations) < len(choices):
        return None
    logs = []
    for column in zip(*rotations, strict=True):
        total = math.fsum(map(math.log, column))
        logs.append(total / len(rotations))
    highest = max(logs)
    weights = [math.exp(log - highest) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _is_rotation(order: list[str] | None, choices: list[str]) -> bool:
    if not order:
        return False
    start = choices.index(order[0])
    rotation = choices[start:] + choices[:start]
    return order == rotation


def judge_shares(shares: Sequence[float], truth: int) -> float:
    """Return how right the likeliest label is: labels that are equally likely share the point."""
    highest = max(shares)
    if shares[truth] < highest:
        return 0.0
    return 1.0 / shares.count(highest)


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
WHY_LEFT = {
    "REFERS_TO_OTHERS": "an option speaks of the others (such as *none of the above*)",
    "REFERS_TO_LABELS": "an option names the letters of others",
    "UNSUITABLE": "their options cannot be moved",
}


def say_order(task: TaskRun) -> str | None:
    """Return in which orders samples were shown; None where all stood as in the file."""
    setting = task.manifest.get("choice_order")
    orders = task.totals.get("orders")
    if not setting or not orders:
        return None
    kind = setting["orders"]
    if kind == "shuffled":
        kind += f" (seed {setting['seed']})"
    samples = format_count(task.counts["samples"], "sample")
    rows = format_count(orders["counts"]["samples"], "row")
    text = f"{kind}: {samples}, {rows}"
    if orders.get("extra"):
        text += f", {orders['extra']} more for the prior"
    return text


def draw_choice_order(
    task: TaskRun,
    width: int,
    digits: int | None = None,
) -> list[Line]:
    """Return the numbers about the order of the options; nothing for a task that has none."""
    lines: list[Line] = []
    values: dict[str, list[MetricValue]] = {}
    for value in task.metrics.values():
        values.setdefault(value.type, []).append(value)
    by_order = values.get(ChoiceOrderMetric.type)
    if by_order:
        lines += _draw_values("Order of the options", TITLES, by_order, width, digits)
        lines += _draw_places(by_order, width, digits)
        orders = task.totals.get("orders") or {}
        left: Mapping[str, int] = orders.get("left_in_place") or {}
        for reason, count in left.items():
            samples = format_count(count, "sample")
            note = f"{samples} left in place: {WHY_LEFT.get(reason, reason)}"
            lines += draw_text(note, width, "dim")
    by_prior = values.get(PrideMetric.type)
    if by_prior:
        heading = "Prior for places taken out (PriDe)"
        lines += _draw_values(heading, PRIDE_TITLES, by_prior, width, digits)
        for note in _list_prior_notes(by_prior):
            lines += draw_text(note, width, "dim")
    return lines


def _list_prior_notes(values: Sequence[MetricValue]) -> Iterator[str]:
    """Yield what the priors are, and how their samples were drawn."""
    # The accuracy, which has the details, comes first.
    details: Any = values[0].details
    for estimate in details["priors"]:
        shares = []
        for label, share in estimate["prior"].items():
            shares.append(f"{label} {format_percent(share)}")
        samples = format_count(estimate["samples"], "sample")
        yield f"prior of {samples}: {', '.join(shares)}"
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
            as_share = is_share(value)
            ends = format_interval(value.interval, as_share=as_share, digits=digits)
            if name == NAMES[2] and value.value is not None and digits is None:
                shown = f"{100 * value.value:+.2f}"
                ends = format_interval(value.interval)
            row = (
                Span(title, "strong"),
                Span(shown, "dim" if value.value is None else "strong"),
                ends,
                str(value.n),
            )
            rows.append(row)
    header = (heading, "value", "95 % interval", "n")
    table = Table(header, rows, "<>>>")
    return [BLANK, *lay_out(table, width)]


def _draw_places(
    values: Sequence[MetricValue],
    width: int,
    digits: int | None,
) -> list[Line]:
    """Return the recall by the place of the right option, and how far the recalls lie apart."""
    spread = None
    for value in values:
        if value.name.endswith("order_rstd"):
            spread = value
            break
    if spread is None or spread.value is None:
        return []
    details: Any = spread.details
    rows: list[Sequence[Cell]] = []
    for value in values:
        _, is_recall, label = value.name.partition(RECALL)
        if is_recall:
            recall = format_value(value, digits)
            interval = format_interval(value.interval, as_share=True, digits=digits)
            row = (
                make_visible(label),
                recall,
                interval,
                str(details["true"].get(label, 0)),
                str(details["predicted"].get(label, 0)),
            )
            rows.append(row)
    header = ("Right option at", "recall", "95 % interval", "rows", "predicted")
    table = Table(header, rows, "<>>>>")
    text = f"  RStd of the recalls: {format_number(spread.value)} points"
    return [BLANK, *lay_out(table, width), line(text)]
