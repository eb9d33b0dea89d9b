"""PriDe: a model's liking for places, estimated on some samples and taken out of the answers to the others.

The prior of a sample is the mean log-probability of each label over all rotations of its options, in which
every option stands behind every label once; the prior of the model is the mean over the samples that are
drawn for it. The other samples are answered by what is left of the probabilities when they are divided by it
(Zheng et al. 2024, *Large Language Models Are Not Robust Multiple Choice Selectors*).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import polars as pl

from answerkey.metrics.concluding import Margin, state_value
from answerkey.metrics.exact import UNIT_BITS, divide_and_root, to_units
from answerkey.metrics.moments import Mean
from answerkey.metrics.observed import Observed, Part, merge_parts, name_left_out, read_column
from answerkey.metrics.paired import Pair, measure_difference
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores

ESTIMATES, NO_PRIOR = "estimates_prior", "no_prior"
NO_FORMULA = "no formula fits it"
NAMES = ("pride_accuracy", "pride_accuracy_before", "pride_difference", "pride_rstd", "pride_rstd_before")
SEPARATOR = "\0"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class _Answer:
    """One row to be answered: the probabilities of its labels (0 where not known), the place of the truth."""

    shares: tuple[float, ...]
    truth: int


@dataclass(frozen=True)
class _Outcome:
    """How right answers were, before and after, and by the label of the truth."""

    pairs: Counter[tuple[float, float]]
    by_label: Mapping[str, Counter[tuple[float, float]]]


@dataclass(frozen=True)
class PrideMetric:
    """Accuracy and RStd of the samples that do not estimate the prior, before and after it is taken out."""

    share: float
    seed: int = 0

    type: ClassVar[str] = "pride"
    reads_rows: ClassVar[bool] = True
    reads_extra: ClassVar[bool] = True

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (
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
        table = pl.DataFrame(
            [read_column(scores, name).alias(name) for name in self.fields()]
            + [scores.frame.select(name_left_out()).to_series()]
        )
        part: Part = {"left_out": Counter(), "priors": {}, "answers": {}, "skipped": 0}
        for row in table.group_by("base_sample_id", maintain_order=True).agg(pl.all()).iter_rows(named=True):
            if row["estimates_prior"][0]:
                _add_prior(row, part)
            else:
                _add_answer(row, part)
        part["left_out"] = dict(part["left_out"])
        return part

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy and RStd, before and after, and the paired difference of the accuracies."""
        priors = {name: _read_prior(one) for name, one in sorted(part.get("priors", {}).items())}
        outcome, left_out = _answer_all(part, priors)
        whole = {**part, "n": sum(outcome.pairs.values()), "left_out": left_out}
        details = self._describe(part, priors)
        after, before = (
            _state_mean(name, outcome.pairs, place, whole) for name, place in ((NAMES[0], 1), (NAMES[1], 0))
        )
        values = [
            replace(after, details={**after.details, **details}),
            before,
            _state_difference(outcome, whole),
        ]
        return [
            *values,
            _state_spread(NAMES[3], outcome, 1, whole),
            _state_spread(NAMES[4], outcome, 0, whole),
        ]

    def _describe(self, part: Part, priors: Mapping[str, Mapping[str, float]]) -> dict[str, object]:
        counted = part.get("priors", {})
        told = [
            {"labels": list(prior), "prior": dict(prior), "samples": counted[name]["n"]}
            for name, prior in priors.items()
        ]
        return {
            "share": self.share,
            "seed": self.seed,
            "priors": told,
            "samples_without_prior": part.get("skipped", 0),
        }


def _add_prior(row: Mapping[str, Any], part: Part) -> None:
    """Add the prior of a sample; one of which a probability is not known estimates nothing."""
    part["left_out"][ESTIMATES] += 1
    choices = row["choices"][0]
    turned = [
        shares
        for shares, names, order in zip(
            row["probabilities"], row["choices"], row["option_order"], strict=True
        )
        if shares is not None and _is_rotation(order, names)
    ]
    is_known = all(share for shares in turned for share in shares)
    if choices is None or not is_known or len(turned) < len(choices) or any(row["reason"]):
        part["skipped"] += 1
        return
    size = len(turned)
    logs = [math.fsum(math.log(shares[place]) for shares in turned) / size for place in range(len(choices))]
    highest = max(logs)
    weights = [math.exp(one - highest) for one in logs]
    total = math.fsum(weights)
    known = part["priors"].setdefault(SEPARATOR.join(choices), {"n": 0, "sums": dict.fromkeys(choices, 0)})
    known["n"] += 1
    for label, weight in zip(choices, weights, strict=True):
        known["sums"][label] += to_units(weight / total)


def _is_rotation(order: Sequence[str] | None, choices: Sequence[str] | None) -> bool:
    if not order or not choices:
        return False
    start = list(choices).index(order[0])
    return list(order) == [*choices[start:], *choices[:start]]


def _add_answer(row: Mapping[str, Any], part: Part) -> None:
    """Add the first row of a sample, which is its own order, to those that are answered."""
    reason = row["reason"][0]
    shares, choices, truth = (row[name][0] for name in ("probabilities", "choices", "ground_truth_choice"))
    if reason is not None or shares is None or choices is None or truth not in choices:
        part["left_out"][reason or "null"] += 1
        return
    written = " ".join(repr(float(one or 0.0)) for one in shares)
    known = part["answers"].setdefault(SEPARATOR.join(choices), {})
    key = f"{written} {list(choices).index(truth)}"
    known[key] = known.get(key, 0) + 1


def _read_prior(one: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean prior of the samples, by label."""
    return {label: float(Fraction(total, one["n"] << UNIT_BITS)) for label, total in one["sums"].items()}


def _answer_all(part: Part, priors: Mapping[str, Mapping[str, float]]) -> tuple[_Outcome, dict[str, int]]:
    left_out: Counter[str] = Counter(part.get("left_out", {}))
    pairs: Counter[tuple[float, float]] = Counter()
    by_label: dict[str, Counter[tuple[float, float]]] = {}
    for name, answers in sorted(part.get("answers", {}).items()):
        if name not in priors:
            left_out[NO_PRIOR] += sum(answers.values())
            continue
        labels, prior = name.split(SEPARATOR), list(priors[name].values())
        for text, count in sorted(answers.items()):
            one = _read_answer(text)
            pair = (judge_shares(one), judge_shares(one, prior))
            pairs[pair] += count
            by_label.setdefault(labels[one.truth], Counter())[pair] += count
    return _Outcome(pairs, by_label), dict(sorted(left_out.items()))


def _read_answer(text: str) -> _Answer:
    *shares, truth = text.split()
    return _Answer(tuple(map(float, shares)), int(truth))


def judge_shares(answer: _Answer, prior: Iterable[float] | None = None) -> float:
    """Return how right the likeliest label is, by probabilities or by what the prior leaves of them."""
    weights = [1.0] * len(answer.shares) if prior is None else prior
    weighed = [share / weight for share, weight in zip(answer.shares, weights, strict=True)]
    best = [place for place, one in enumerate(weighed) if one == max(weighed)]
    return 1.0 / len(best) if answer.truth in best else 0.0


def _state_mean(name: str, pairs: Mapping[tuple[float, float], int], place: int, whole: Part) -> MetricValue:
    metric = Mean(field="is_correct", name=name)
    found = [((pair[place],), count) for pair, count in sorted(pairs.items())]
    observed = Observed(found, Counter(whole["left_out"]), ["is_correct"])
    value = metric.finish({**metric.collect(observed), "is_share": True})[0]
    return replace(value, type=PrideMetric.type)


def _state_difference(outcome: _Outcome, whole: Part) -> MetricValue:
    """Return after minus before over the same samples, with the interval of a paired difference."""
    pairs: list[Pair] = [(after, before, count) for (before, after), count in sorted(outcome.pairs.items())]
    found = measure_difference(pairs)
    if found is None:
        return state_value(NAMES[2], None, whole, kind=PrideMetric.type, note="no sample counts towards it")
    evidence = found.evidence
    margin = Margin(evidence.std_error, evidence.interval, evidence.interval_method, evidence.interval_note)
    details = {"p": evidence.p, "p_method": evidence.p_method}
    return state_value(NAMES[2], found.value, whole, kind=PrideMetric.type, details=details, margin=margin)


def _state_spread(name: str, outcome: _Outcome, place: int, whole: Part) -> MetricValue:
    """Return RStd of the recalls by label, in points."""
    recalls = []
    for counts in outcome.by_label.values():
        rows = sum(counts.values())
        right = sum((Fraction(pair[place]) * count for pair, count in counts.items()), Fraction())
        recalls.append(right / rows)
    if not recalls:
        return state_value(name, None, whole, kind=PrideMetric.type, note="no sample counts towards it")
    middle = sum(recalls, Fraction()) / len(recalls)
    variance = 10_000 * sum(((one - middle) ** 2 for one in recalls), Fraction()) / len(recalls)
    value = divide_and_root(variance.numerator, variance.denominator)
    return state_value(name, value, whole, kind=PrideMetric.type, margin=Margin(note=NO_FORMULA))
