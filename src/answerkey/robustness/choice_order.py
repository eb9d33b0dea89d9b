"""How the order of the options changes a score: the numbers of a task with `choice_order`, and
PriDe.

For the samples whose options could be reordered: the mean over their orders, the share that is
right in all orders and in any, the share that names the same option in all of them, and the recall
by position of the right option.

PriDe estimates a model's preference for positions on some samples and removes it from the answers
to the others. The prior of a sample is the mean log-probability of each label over all rotations of
its options, in which every option has every label once; the prior of the model is the mean over the
samples drawn to estimate it. The other samples are answered by their probabilities divided by the
prior (Zheng et al. 2024, *Large Language Models Are Not Robust Multiple Choice Selectors*).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import truediv
from statistics import pvariance
from typing import Any, ClassVar

import polars as pl

from answerkey.metrics.base import (
    ERROR,
    FAILED,
    NOTHING_COUNTED,
    NULL,
    BaseMetric,
    Coverage,
    ValueCounts,
    ValueNames,
    exclusion_reason,
    read_column,
)
from answerkey.metrics.intervals import Counts, Margin, Ratio, average, root
from answerkey.metrics.measure import Design, bound_clustered
from answerkey.metrics.moments import Mean
from answerkey.metrics.paired import measure_difference
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    draw_table,
    draw_text,
    format_count,
    format_interval,
    format_number,
    format_percent,
    format_value,
    is_share,
)
from answerkey.types import MetricValue, Scores

NOT_REORDERED = "not_reordered"
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

#: The right label, and the credit of an answer before and after the prior is removed.
Judged = tuple[str, float, float]
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
        """Yield for each sample its fields, each as the list of its rows, and the reason why each
        row is left out.
        """
        table = scores.frame.select(exclusion_reason())
        for name in self.reads:
            column = read_column(scores, name)
            table = table.with_columns(column.alias(name))
        groups = table.group_by("base_sample_id", maintain_order=True)
        samples = groups.agg(pl.all())
        yield from samples.iter_rows(named=True)

    def describe_mean(
        self,
        name: str,
        shares: Sequence[float],
        left_out: Mapping[str, int],
    ) -> MetricValue:
        """Return the mean of shares in the form of the metric `mean`."""
        metric = Mean(field="is_correct", name=name)
        counts = ValueCounts(
            left_out=Counter(left_out),
            names=metric.fields(),
            is_share=True,
        )
        for share, rows in Counter(shares).items():
            counts.counts.append(((share,), rows))
        sums = metric.collect(counts)
        [value] = metric.make_values(counts, sums)
        return replace(value, type=self.type)

    def describe_rstd(
        self,
        name: str,
        recalls: Sequence[Fraction],
        coverage: Coverage,
        **more: Any,  # noqa: ANN401 - as `make_value`
    ) -> MetricValue:
        """Return RStd: the standard deviation (population form) of the recalls, in points."""
        deviation = root(10_000 * pvariance(recalls))
        return self.make_value(name, deviation, coverage, **more)


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
        "not_reordered",
    )

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        names = list(TITLES)
        if self.orders in SINGLE:
            names = ["order_mean"]
        names.append("order_rstd")
        return ValueNames(tuple(names), patterns=((RECALL, ""),))

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the values; those that compare orders only if samples were shown in several
        orders.
        """
        coverage = Coverage()
        samples = []
        for sample in self.read_samples(scores):
            reasons = list(filter(None, sample["reason"]))
            if any(sample["not_reordered"]):
                reasons.append(NOT_REORDERED)
            if reasons:
                coverage.left_out[_choose_reason(reasons)] += 1
            else:
                samples.append(sample)
        coverage.n = len(samples)
        shares_right = []
        for sample in samples:
            right = list(map(bool, sample["is_correct"]))
            shares_right.append(sum(right) / len(right))
        values = [self.describe_mean("order_mean", shares_right, coverage.left_out)]
        if not samples:
            return values
        if self.orders not in SINGLE:
            modal_shares = [_measure_modal_share(sample["predicted_option"]) for sample in samples]
            counts = {
                "order_all_right": shares_right.count(1),
                "order_any_right": len(samples) - shares_right.count(0),
                "order_consistency": modal_shares.count(1),
            }
            for name, count in counts.items():
                share = (count, len(samples))
                values.append(self.make_share(name, share, coverage))
            modal = self.describe_mean("order_modal_share", modal_shares, coverage.left_out)
            values.append(modal)
        return [*values, *self._describe_recalls(samples, coverage)]

    def _describe_recalls(
        self,
        samples: Sequence[SampleRows],
        coverage: Coverage,
    ) -> Iterator[MetricValue]:
        """Yield for each label the recall of the samples whose right option has it, and RStd."""
        predicted: Counter[str] = Counter()
        recalls: defaultdict[str, list[Counts]] = defaultdict(list)
        invalid = 0
        for sample in samples:
            predicted.update(filter(None, sample["predicted_choice"]))
            invalid += sample["predicted_option"].count(None)
            for label, counts in _count_right_rows(sample).items():
                recalls[label].append(counts)
        details: dict[str, Any] = {
            "true": {},
            "predicted": {},
            "invalid": invalid,
        }
        shares = []
        for label in sorted({*recalls, *predicted}):
            right = sum(hits for hits, _ in recalls[label])
            rows = sum(size for _, size in recalls[label])
            details["true"][label] = rows
            details["predicted"][label] = predicted[label]
            if rows:
                shares.append(Fraction(right, rows))
            label_coverage = Coverage(len(recalls[label]), coverage.left_out)
            value = self.make_share(f"{RECALL}{label}", (right, rows), label_coverage)
            if value.n < rows:
                # The rows of one sample are not independent draws.
                clusters = [[Ratio(*counts)] for counts in recalls[label]]
                bare = replace(value, interval=None, interval_method=None)
                value = bound_clustered(bare, clusters, Design())
            yield value
        note = "there is no formula for it; the recalls have intervals of their own"
        yield self.describe_rstd(
            "order_rstd",
            shares,
            coverage,
            details=details,
            margin=Margin(interval_note=note),
        )


def _count_right_rows(sample: SampleRows) -> dict[str, Counts]:
    """Return for each label how many rows with their right option there are right, and how many
    there are.
    """
    truths: list[str] = sample["ground_truth_choice"]
    right: Counter[str] = Counter()
    for truth, is_right in zip(truths, sample["is_correct"], strict=True):
        right[truth] += bool(is_right)
    sizes = Counter(truths)
    return {label: (right[label], rows) for label, rows in sizes.items()}


def _measure_modal_share(options: Sequence[str | None]) -> float:
    """Return the share of the rows that name the most frequent option."""
    uses = Counter(filter(None, options))
    return max(uses.values(), default=0) / len(options)


def _choose_reason(reasons: Sequence[str]) -> str:
    """Return why a sample is left out: errors take precedence over failures, and failures over the
    rest.
    """
    for reason in (ERROR, FAILED):
        if reason in reasons:
            return reason
    return reasons[0]


@dataclass(frozen=True)
class PrideMetric(_OrderMetric):
    """Accuracy and RStd before and after the prior is removed, over the samples that did not
    estimate it.
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
        left_out: Counter[str] = Counter()
        estimates: defaultdict[Choices, list[list[float]]] = defaultdict(list)
        answers: list[Answer] = []
        skipped = 0
        for row in self.read_samples(scores):
            if not row["estimates_prior"][0]:
                answer = _read_answer(row)
                if isinstance(answer, str):
                    left_out[answer] += 1
                else:
                    answers.append(answer)
                continue
            left_out[ESTIMATES] += 1
            estimate = _measure_prior(row)
            if estimate is None:
                skipped += 1
            else:
                estimates[tuple(row["choices"][0])].append(estimate)
        priors = {}
        described = []
        for labels, samples in sorted(estimates.items()):
            prior = list(map(average, zip(*samples, strict=True)))
            by_label = dict(zip(labels, prior, strict=True))
            priors[labels] = prior
            described.append({"labels": list(labels), "prior": by_label, "samples": len(samples)})
        judged = _judge_answers(answers, priors, left_out)
        coverage = Coverage(len(judged), left_out)
        accuracy = self.describe_mean(NAMES[0], [after for _, _, after in judged], left_out)
        details = {
            **accuracy.details,
            "share": self.share,
            "seed": self.seed,
            "priors": described,
            "samples_without_prior": skipped,
        }
        return [
            replace(accuracy, details=details),
            self.describe_mean(NAMES[1], [before for _, before, _ in judged], left_out),
            self._describe_difference(judged, coverage),
            self._describe_spread(NAMES[3], judged, 2, coverage),
            self._describe_spread(NAMES[4], judged, 1, coverage),
        ]

    def _describe_difference(self, judged: Sequence[Judged], coverage: Coverage) -> MetricValue:
        """Return after minus before on the same samples, with the interval of a paired
        difference.
        """
        if not judged:
            return self.make_value(NAMES[2], None, coverage, note=NOTHING_COUNTED)
        pairs = Counter((after, before) for _, before, after in judged)
        difference = measure_difference([(*pair, count) for pair, count in pairs.items()])
        evidence = difference.evidence
        margin = Margin(
            evidence.std_error,
            evidence.interval,
            evidence.interval_method,
            evidence.interval_note,
        )
        details = {"p": evidence.p, "p_method": evidence.p_method}
        return self.make_value(
            NAMES[2],
            difference.value,
            coverage,
            details=details,
            margin=margin,
        )

    def _describe_spread(
        self,
        name: str,
        judged: Sequence[Judged],
        place: int,
        coverage: Coverage,
    ) -> MetricValue:
        """Return RStd of the recalls by label, before or after."""
        if not judged:
            return self.make_value(name, None, coverage, note=NOTHING_COUNTED)
        right: defaultdict[str, Fraction] = defaultdict(Fraction)
        samples: Counter[str] = Counter()
        for entry in judged:
            right[entry[0]] += Fraction(entry[place])
            samples[entry[0]] += 1
        recalls = [right[label] / samples[label] for label in right]
        margin = Margin(interval_note="there is no formula for it")
        return self.describe_rstd(name, recalls, coverage, margin=margin)


#: The labels of a sample's options.
Choices = tuple[str, ...]
#: The labels, the probability of each, and the place of the true one.
Answer = tuple[Choices, tuple[float, ...], int]


def _read_answer(row: SampleRows) -> Answer | str:
    """Return the answer in a sample's own order, or why it is left out."""
    # The first row of a sample has the original order. An unknown probability is 0.
    choices = row["choices"][0]
    shares = row["probabilities"][0]
    truth = row["ground_truth_choice"][0]
    reason: str | None = row["reason"][0]
    is_known = shares is not None and truth in (choices or ())
    if reason is not None or not is_known:
        return reason or NULL
    numbers = tuple(share or 0.0 for share in shares)
    return tuple(choices), numbers, choices.index(truth)


def _judge_answers(
    answers: Iterable[Answer],
    priors: Mapping[Choices, Sequence[float]],
    left_out: Counter[str],
) -> list[Judged]:
    """Return the credit of the answers; those without a prior are left out and counted."""
    judged: list[Judged] = []
    for labels, shares, place in answers:
        if labels not in priors:
            left_out[NO_PRIOR] += 1
            continue
        shares_left = list(map(truediv, shares, priors[labels]))
        before = judge_shares(shares, place)
        after = judge_shares(shares_left, place)
        judged.append((labels[place], before, after))
    return judged


def _measure_prior(row: SampleRows) -> list[float] | None:
    """Return the prior of one sample from its rotations; None if a probability is unknown."""
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
    """Return the credit of the likeliest label: equally likely labels share the point."""
    highest = max(shares)
    if shares[truth] < highest:
        return 0.0
    return 1.0 / shares.count(highest)


# As text

#: The titles of values in a summary, in this order, by the ending of their names.
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
REASONS_LEFT_OUT = {
    "REFERS_TO_OTHERS": "an option refers to the others (such as *none of the above*)",
    "REFERS_TO_LABELS": "an option names the letters of others",
    "UNSUITABLE": "their options cannot be moved",
}


def describe_order(task: TaskRun) -> str | None:
    """Return the orders in which samples were shown; None if all were shown as in the file."""
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
    """Return the numbers about the order of the options; nothing for a task without them."""
    lines: list[Line] = []
    values: dict[str, list[MetricValue]] = {}
    for value in task.metrics.values():
        values.setdefault(value.type, []).append(value)
    by_order = values.get(ChoiceOrderMetric.type)
    if by_order:
        lines += _draw_values("Order of the options", TITLES, by_order, width, digits)
        lines += _draw_places(by_order, width, digits)
        orders = task.totals.get("orders") or {}
        left: Mapping[str, int] = orders.get("not_reordered") or {}
        for reason, count in left.items():
            samples = format_count(count, "sample")
            note = f"{samples} left in place: {REASONS_LEFT_OUT.get(reason, reason)}"
            lines += draw_text(note, width, "dim")
    by_prior = values.get(PrideMetric.type)
    if by_prior:
        heading = "Position prior removed (PriDe)"
        lines += _draw_values(heading, PRIDE_TITLES, by_prior, width, digits)
        for note in _list_prior_notes(by_prior):
            lines += draw_text(note, width, "dim")
    return lines


def _list_prior_notes(values: Sequence[MetricValue]) -> Iterator[str]:
    """Yield the priors, and how their samples were drawn."""
    # The accuracy, which has the details, comes first.
    details: Any = values[0].details
    for estimate in details["priors"]:
        shares = []
        for label, share in estimate["prior"].items():
            shares.append(f"{label} {format_percent(share)}")
        samples = format_count(estimate["samples"], "sample")
        yield f"prior of {samples}: {', '.join(shares)}"
    if not details["priors"]:
        yield "no sample could be used to estimate the prior"
    drawn = f"a share of {details['share']}, seed {details['seed']}"
    yield f"samples drawn to estimate the prior ({drawn}) do not count here"


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
    return [BLANK, *draw_table(header, rows, "<>>>", width)]


def _draw_places(
    values: Sequence[MetricValue],
    width: int,
    digits: int | None,
) -> list[Line]:
    """Return the recall by position of the right option, and the spread of the recalls."""
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
                label,
                recall,
                interval,
                str(details["true"].get(label, 0)),
                str(details["predicted"].get(label, 0)),
            )
            rows.append(row)
    header = ("Right option at", "recall", "95 % interval", "rows", "predicted")
    text = f"  RStd of the recalls: {format_number(spread.value)} points"
    return [BLANK, *draw_table(header, rows, "<>>>>", width), text]
