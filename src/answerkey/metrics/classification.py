"""`binary-classification` and `multiclass-classification`: truths against predictions, compared as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.errors import SpecError
from answerkey.metrics.classes import (
    AVERAGED,
    ClassCounts,
    count_classes,
    list_ratios,
    state_averages,
    state_rates,
)
from answerkey.metrics.concluding import NOTHING_COUNTED, Share, check_part, state_share
from answerkey.metrics.observed import (
    NEITHER_ANSWER,
    NULL,
    SHOWN_EXAMPLES,
    Ledger,
    Observed,
    Part,
    merge_parts,
    observe,
    show_value,
    write_label,
)
from answerkey.metrics.ratios import Ratio
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores


@dataclass(frozen=True)
class BinaryClassification:
    """Accuracy, precision, recall and F1 of a yes/no question.

    A sample whose truth or prediction is neither of the two answers is left out and counted.
    """

    field_gt: str
    field_pred: str
    positive_answer: str | bool | float
    negative_answer: str | bool | float

    type: ClassVar[str] = "binary-classification"
    sums: ClassVar[tuple[str, ...]] = ("n", "counts")

    def __post_init__(self) -> None:
        if write_label(self.positive_answer) == write_label(self.negative_answer):
            message = f"`positive_answer` and `negative_answer` are both {self.positive_answer!r}"
            raise SpecError("E108", message, hint="give the two answers that are to be told apart")

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field_gt, self.field_pred)

    def measure(self, scores: Scores) -> Part:
        """Return the four counts of this shard, and examples of labels that are neither answer."""
        return self.collect(observe(scores, self.fields()))

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ledger = Ledger.open(observed)
        answers = {
            write_label(self.positive_answer): "positive",
            write_label(self.negative_answer): "negative",
        }
        counts: Counter[str] = Counter()
        others: set[str] = set()
        for values, count in observed.counts:
            labels = [write_label(value) for value in values]
            if None in values:
                ledger.leave_out(NULL, count)
            elif not answers.keys() >= set(labels):
                ledger.leave_out(NEITHER_ANSWER, count)
                others = set(sorted(others | (set(labels) - answers.keys()))[:SHOWN_EXAMPLES])
            else:
                ledger.n += count
                counts[" as ".join(answers[label] for label in labels)] += count
        return ledger.close(counts=dict(counts), others=sorted(others))

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy, precision, recall and F1."""
        check_part(part, self.type, self.fields())
        counts: Counter[str] = Counter(part.get("counts", {}))
        positive = _count_positive(part)
        details = {
            "true_positives": positive.hits,
            "false_positives": positive.false_alarms,
            "false_negatives": positive.misses,
            "true_negatives": counts["negative as negative"],
        }
        accuracy = Share(positive.hits + counts["negative as negative"], part.get("n", 0))
        return [
            state_share(
                "accuracy", accuracy, part, kind=self.type, empty=self._explain(part), details=details
            ),
            *state_rates("", write_label(self.positive_answer), positive, part, kind=self.type),
        ]

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value, for each value."""
        positive = _count_positive(part)
        right = positive.hits + part["counts"].get("negative as negative", 0)
        return {"accuracy": Ratio(right, part["n"], part["n"]), **list_ratios("", positive, part["n"])}

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        return ValueNames(("accuracy", *AVERAGED), is_share=True)

    def _explain(self, part: Part) -> str:
        """Return why no sample counts, with what the fields hold instead of the two answers."""
        others = ", ".join(show_value(label) for label in part.get("others", [])[:SHOWN_EXAMPLES])
        answers = f"{self.positive_answer!r} or {self.negative_answer!r}"
        return f"{NOTHING_COUNTED}: instead of {answers} there is {others}" if others else NOTHING_COUNTED


def _count_positive(part: Part) -> ClassCounts:
    counts: Counter[str] = Counter(part.get("counts", {}))
    return ClassCounts(
        hits=counts["positive as positive"],
        false_alarms=counts["negative as positive"],
        misses=counts["positive as negative"],
    )


@dataclass(frozen=True)
class MulticlassClassification:
    """Accuracy, and precision, recall and F1 of each class and on average over the classes.

    A null prediction is a miss of its true class; only a null truth is left out.
    """

    field_gt: str
    field_pred: str

    type: ClassVar[str] = "multiclass-classification"
    sums: ClassVar[tuple[str, ...]] = ("n", "confusion", "no_prediction")

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field_gt, self.field_pred)

    def measure(self, scores: Scores) -> Part:
        """Return the confusion counts of this shard: truth, then prediction; null predictions apart."""
        return self.collect(observe(scores, self.fields()))

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ledger = Ledger.open(observed)
        confusion: dict[str, Counter[str]] = {}
        unanswered: Counter[str] = Counter()
        for (truth, predicted), count in observed.counts:
            if truth is None:
                ledger.leave_out(NULL, count)
                continue
            ledger.n += count
            if predicted is None:
                unanswered[write_label(truth)] += count
            else:
                confusion.setdefault(write_label(truth), Counter())[write_label(predicted)] += count
        rows = {truth: dict(row) for truth, row in confusion.items()}
        return ledger.close(confusion=rows, no_prediction=dict(unanswered))

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return accuracy, the values of each class in the order of their text, and the averages."""
        check_part(part, self.type, self.fields())
        confusion = {
            truth: dict(sorted(row.items())) for truth, row in sorted(part.get("confusion", {}).items())
        }
        unanswered = dict(sorted(part.get("no_prediction", {}).items()))
        counts = count_classes(confusion, unanswered)
        accuracy = Share(sum(one.hits for one in counts.values()), part.get("n", 0))
        details = {"confusion": confusion, "no_prediction": unanswered}
        values = [state_share("accuracy", accuracy, part, kind=self.type, details=details)]
        for name in sorted(counts):
            values += state_rates(f"{name}_", name, counts[name], part, kind=self.type)
        return values + state_averages(counts, part, kind=self.type)

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:
        """Return the sums of some samples whose ratio is the value, for the classes of the whole."""
        counts = count_classes(part["confusion"], part["no_prediction"])
        right = sum(one.hits for one in counts.values())
        found = {"accuracy": Ratio(right, part["n"], part["n"])}
        for name in count_classes(whole["confusion"], whole["no_prediction"]):
            found |= list_ratios(f"{name}_", counts.get(name, ClassCounts(0, 0, 0)), part["n"])
        return found

    def value_names(self) -> ValueNames:
        """Return what the values will be called; the classes are not known yet."""
        averages = (f"macro_{kind}" for kind in AVERAGED)
        return ValueNames(
            ("accuracy", *averages), tuple(("", f"_{kind}") for kind in AVERAGED), is_share=True
        )

    def averages(self, whole: Part) -> dict[str, list[str]]:
        """Return for each average the values whose mean it is; those that are 0/0 are not among them."""
        whole_ratios = self.ratios(whole, whole)
        names = count_classes(whole["confusion"], whole["no_prediction"])
        return {
            f"macro_{kind}": [f"{name}_{kind}" for name in names if whole_ratios[f"{name}_{kind}"].bottom]
            for kind in AVERAGED
        }
