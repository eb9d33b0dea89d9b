"""What the order of the options does to a score: the numbers of a task with `choice_order`, and PriDe.

Of the samples whose options could be moved: the mean over their orders, how many are right in all orders and
in any, how many name the same option in all of them, and the recall by the place of the right option.

PriDe is a model's liking for places, estimated on some samples and taken out of the answers to the others.
The prior of a sample is the mean log-probability of each label over all rotations of its options, in which
every option stands behind every label once; the prior of the model is the mean over the samples that are
drawn for it. The other samples are answered by what is left of the probabilities when they are divided by it
(Zheng et al. 2024, *Large Language Models Are Not Robust Multiple Choice Selectors*).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import polars as pl

from answerkey.metrics.base import (
    ERROR,
    FAILED,
    NOTHING_COUNTED,
    BaseMetric,
    Part,
    ValueCounts,
    ValueNames,
    name_left_out,
    read_column,
)
from answerkey.metrics.exact import UNIT_BITS, divide_and_root, to_units
from answerkey.metrics.intervals import Margin, Ratio, measure_clustered_error
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
NAMES = ("pride_accuracy", "pride_accuracy_before", "pride_difference", "pride_rstd", "pride_rstd_before")
#: Settings under which each sample is shown once.
SINGLE = frozenset({"original", "shuffled"})

_SEPARATOR = "\0"

#: How right an answer is, before and after the prior is taken out.
BeforeAfter = tuple[float, float]


class _OrderMetric(BaseMetric):
    """A metric that reads all rows of a sample; a shard holds all rows of each of its samples."""

    reads_rows: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]]

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return self.reads

    def read_samples(self, scores: Scores) -> Iterator[dict[str, Any]]:
        """Yield for each sample its fields, each as the list of its rows, and why each row does not count."""
        columns = [read_column(scores, name).alias(name) for name in self.reads]
        table = pl.DataFrame([*columns, scores.frame.select(name_left_out()).to_series()])
        yield from table.group_by("base_sample_id", maintain_order=True).agg(pl.all()).iter_rows(named=True)

    def state_mean(self, name: str, counts: Mapping[float, int], left_out: Mapping[str, int]) -> MetricValue:
        """Return the mean of shares as `mean` states it."""
        metric = Mean(field="is_correct", name=name)
        found = ValueCounts([((one,), rows) for one, rows in counts.items()], left_out, ["is_correct"])
        value = metric.finish({**metric.collect(found), "is_share": True})[0]
        return replace(value, type=self.type)

    def state_rstd(self, name: str, recalls: Sequence[Fraction], part: Part, **more: Any) -> MetricValue:  # noqa: ANN401 - as `state`
        """Return RStd: the standard deviation (population form) of the recalls, in points."""
        middle = sum(recalls, Fraction()) / len(recalls)
        variance = 10_000 * sum(((one - middle) ** 2 for one in recalls), Fraction()) / len(recalls)
        return self.state(name, divide_and_root(variance.numerator, variance.denominator), part, **more)


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
        return ValueNames(tuple(f"order_{name}" for name in names), patterns=(("order_recall_", ""),))

    def measure(self, scores: Scores) -> Part:
        """Return the counts of one shard; shares of a sample's rows are written as `hits/rows`."""
        left_out, means, modal, flags = (Counter[str]() for _ in range(4))
        recalls: dict[str, Counter[str]] = {}
        predicted: Counter[str] = Counter()
        for row in self.read_samples(scores):
            reasons = [one for one in row["reason"] if one is not None]
            reasons += [LEFT_IN_PLACE for one in row["left_in_place"] if one is not None]
            if reasons:
                left_out[next((one for one in (ERROR, FAILED) if one in reasons), reasons[0])] += 1
                continue
            right, options = [bool(one) for one in row["is_correct"]], row["predicted_option"]
            size, named = len(right), Counter(one for one in options if one is not None)
            # A sample that names no option has none that most of its rows name.
            most = max(named.values(), default=0)
            means[f"{sum(right)}/{size}"] += 1
            modal[f"{most}/{size}"] += 1
            flags["all_right"] += all(right)
            flags["any_right"] += any(right)
            flags["consistency"] += most == size
            flags["invalid_rows"] += options.count(None)
            truths = [str(one) for one in row["ground_truth_choice"]]
            hits = Counter(truth for truth, is_hit in zip(truths, right, strict=True) if is_hit)
            for label, rows in Counter(truths).items():
                recalls.setdefault(label, Counter())[f"{hits[label]}/{rows}"] += 1
            predicted.update(str(one) for one in row["predicted_choice"] if one is not None)
        return {
            "n": sum(means.values()),
            "left_out": dict(left_out),
            "means": dict(means),
            "modal": dict(modal),
            "flags": dict(flags),
            "recalls": {label: dict(one) for label, one in recalls.items()},
            "predicted": dict(predicted),
        }

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the values; those that compare orders only where samples were shown in several."""
        left_out = part.get("left_out", {})
        mean = self.state_mean("order_mean", _read_shares(part.get("means", {})), left_out)
        if not part.get("n"):
            return [mean]
        several = []
        if self.orders not in SINGLE:
            names = ("all_right", "any_right", "consistency")
            shares = {f"order_{name}": (part["flags"][name], part["n"]) for name in names}
            several = [self.state_share(name, share, part) for name, share in shares.items()]
            several.append(self.state_mean("order_modal_share", _read_shares(part["modal"]), left_out))
        labels = sorted({*part["recalls"], *part["predicted"]})
        recalls = {label: _read_hits(part["recalls"].get(label, {})) for label in labels}
        totals = {
            label: (sum(hits * n for hits, _, n in found), sum(rows * n for _, rows, n in found))
            for label, found in recalls.items()
        }
        details = {
            "true": {label: of for label, (_, of) in totals.items()},
            "predicted": {label: part["predicted"].get(label, 0) for label in labels},
            "invalid": part["flags"]["invalid_rows"],
        }
        margin = Margin(interval_note="no formula fits it; the recalls have intervals of their own")
        known = [Fraction(count, of) for count, of in totals.values() if of]
        rstd = self.state_rstd("order_rstd", known, part, details=details, margin=margin)
        stated = []
        for label in labels:
            hits = recalls[label]
            n = sum(samples for _, _, samples in hits)
            value = self.state_share(f"order_recall_{label}", totals[label], {**part, "n": n})
            if any(rows > 1 for _, rows, _ in hits):  # rows of one sample are no independent draws
                sums = [(Ratio(one, rows, rows), count) for one, rows, count in hits]
                bare = replace(value, interval=None, interval_method=None)
                value = bound_clustered(bare, measure_clustered_error(sums)[0], n, Design())
            stated.append(value)
        return [mean, *several, *stated, rstd]


def _read_hits(shares: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Return hits, rows, and how many samples have these."""
    split = [(text.split("/"), count) for text, count in sorted(shares.items())]
    return [(int(hits), int(rows), count) for (hits, rows), count in split]


def _read_shares(shares: Mapping[str, int]) -> Counter[float]:
    counts: Counter[float] = Counter()
    for hits, rows, count in _read_hits(shares):
        counts[hits / rows] += count
    return counts


@dataclass(frozen=True)
class PrideMetric(_OrderMetric):
    """Accuracy and RStd of the samples that do not estimate the prior, before and after it is taken out."""

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

    def measure(self, scores: Scores) -> Part:
        """Return the priors of this shard's samples, summed, and the answers of the others."""
        left_out: Counter[str] = Counter()
        priors: dict[str, Any] = {}
        answers: dict[str, Counter[str]] = {}
        skipped = 0
        for row in self.read_samples(scores):
            choices, shares, truth = (
                row[name][0] for name in ("choices", "probabilities", "ground_truth_choice")
            )
            if not row["estimates_prior"][0]:
                # The first row of a sample is its own order. A probability that is not known is 0.
                reason = row["reason"][0]
                if reason is not None or shares is None or choices is None or truth not in choices:
                    left_out[reason or "null"] += 1
                    continue
                written = " ".join(repr(float(one or 0.0)) for one in shares)
                known = answers.setdefault(_SEPARATOR.join(choices), Counter())
                known[f"{written} {list(choices).index(truth)}"] += 1
                continue
            left_out[ESTIMATES] += 1
            rows = zip(row["probabilities"], row["choices"], row["option_order"], strict=True)
            turned = [one for one, names, order in rows if one is not None and _is_rotation(order, names)]
            # A sample of which a probability is not known estimates nothing.
            is_known = all(share for found in turned for share in found)
            if choices is None or not is_known or len(turned) < len(choices) or any(row["reason"]):
                skipped += 1
                continue
            places = range(len(choices))
            logs = [math.fsum(math.log(found[place]) for found in turned) / len(turned) for place in places]
            weights = [math.exp(one - max(logs)) for one in logs]
            total = math.fsum(weights)
            prior = priors.setdefault(_SEPARATOR.join(choices), {"n": 0, "sums": dict.fromkeys(choices, 0)})
            prior["n"] += 1
            for label, weight in zip(choices, weights, strict=True):
                prior["sums"][label] += to_units(weight / total)
        return {"left_out": dict(left_out), "priors": priors, "answers": answers, "skipped": skipped}

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy and RStd, before and after, and the paired difference of the accuracies."""
        known = dict(sorted(part.get("priors", {}).items()))
        priors = {}
        for name, one in known.items():
            units = one["n"] << UNIT_BITS
            priors[name] = {label: float(Fraction(total, units)) for label, total in one["sums"].items()}
        left_out: Counter[str] = Counter(part.get("left_out", {}))
        pairs: Counter[BeforeAfter] = Counter()
        by_label: dict[str, Counter[BeforeAfter]] = {}
        for name, answers in sorted(part.get("answers", {}).items()):
            if name not in priors:
                left_out[NO_PRIOR] += sum(answers.values())
                continue
            labels = name.split(_SEPARATOR)
            for text, count in answers.items():
                *shares, truth = text.split()
                numbers, place = [float(share) for share in shares], int(truth)
                pair = (judge_shares(numbers, place), judge_shares(numbers, place, priors[name].values()))
                pairs[pair] += count
                by_label.setdefault(labels[place], Counter())[pair] += count
        whole = {**part, "n": sum(pairs.values()), "left_out": dict(sorted(left_out.items()))}
        told = [
            {"labels": list(prior), "prior": prior, "samples": known[name]["n"]}
            for name, prior in priors.items()
        ]
        details = {"share": self.share, "seed": self.seed, "priors": told}
        details["samples_without_prior"] = part.get("skipped", 0)
        before, after = (Counter[float](), Counter[float]())
        for (was, now), count in pairs.items():
            before[was] += count
            after[now] += count
        accuracy = self.state_mean(NAMES[0], after, whole["left_out"])
        difference = self.state(NAMES[2], None, whole, note=NOTHING_COUNTED)
        if pairs:
            # After minus before over the same samples, with the interval of a paired difference.
            found = measure_difference([(one, other, count) for (other, one), count in pairs.items()])
            sure = found.evidence
            margin = Margin(sure.std_error, sure.interval, sure.interval_method, sure.interval_note)
            chances = {"p": sure.p, "p_method": sure.p_method}
            difference = self.state(NAMES[2], found.value, whole, details=chances, margin=margin)
        return [
            replace(accuracy, details={**accuracy.details, **details}),
            self.state_mean(NAMES[1], before, whole["left_out"]),
            difference,
            self._state_spread(NAMES[3], by_label, 1, whole),
            self._state_spread(NAMES[4], by_label, 0, whole),
        ]

    def _state_spread(
        self, name: str, by_label: Mapping[str, Mapping[BeforeAfter, int]], place: int, whole: Part
    ) -> MetricValue:
        """Return RStd of the recalls by label, before or after."""
        if not by_label:
            return self.state(name, None, whole, note=NOTHING_COUNTED)
        recalls = []
        for counts in by_label.values():
            rights = (Fraction(pair[place]) * count for pair, count in counts.items())
            recalls.append(sum(rights, Fraction()) / sum(counts.values()))
        return self.state_rstd(name, recalls, whole, margin=Margin(interval_note="no formula fits it"))


def _is_rotation(order: Sequence[str] | None, choices: Sequence[str] | None) -> bool:
    if not order or not choices:
        return False
    start = list(choices).index(order[0])
    return list(order) == [*choices[start:], *choices[:start]]


def judge_shares(shares: Sequence[float], truth: int, prior: Iterable[float] | None = None) -> float:
    """Return how right the likeliest label is, by probabilities or by what the prior leaves of them."""
    weights = [1.0] * len(shares) if prior is None else prior
    weighed = [share / weight for share, weight in zip(shares, weights, strict=True)]
    best = [place for place, one in enumerate(weighed) if one == max(weighed)]
    return 1.0 / len(best) if truth in best else 0.0


# ------------------------------------------------------------------------------- what is said of it

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
    return f"{setting['orders']}{seed}: {format_count(samples, 'sample')}, {format_count(rows, 'row')}{extra}"


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
        lines += _draw_values("Prior for places taken out (PriDe)", PRIDE_TITLES, values, width, digits)
        details: Any = next(value for value in values if value.name.endswith(NAMES[0])).details
        for one in details["priors"]:
            shares = ", ".join(f"{label} {format_percent(share)}" for label, share in one["prior"].items())
            note = f"prior of {format_count(one['samples'], 'sample')}: {shares}"
            lines += draw_text(note, width, "dim")
        if not details["priors"]:
            lines += draw_text("no sample could be used to estimate it", width, "dim")
        drawn = f"a share of {details['share']}, seed {details['seed']}"
        lines += draw_text(f"samples drawn to estimate it ({drawn}) do not count here", width, "dim")
    return lines


def _draw_values(
    heading: str, titles: Mapping[str, str], values: Sequence[MetricValue], width: int, digits: int | None
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
            both = [str(one.get(label, 0)) for one in counts]
            rows.append((make_visible(label), format_value(value, digits), interval, *both))
    header = ("Right option at", "recall", "95 % interval", "rows", "predicted")
    text = f"  RStd of the recalls: {format_number(spread.value)} points"
    return [BLANK, *lay_out(Table(header, rows, "<>>>>"), width), line(text)]
