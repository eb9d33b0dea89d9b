"""`weighted_average`: a weight for each value of a field, or a field that holds each sample's weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics.concluding import (
    NOTHING_COUNTED,
    TOO_LARGE,
    Margin,
    check_part,
    measure_mean,
    measure_ratio,
    say_samples,
    state_value,
)
from answerkey.metrics.exact import UNIT_BITS, divide, find_common_bits, to_units
from answerkey.metrics.intervals import Scale
from answerkey.metrics.observed import (
    NO_WEIGHT,
    NULL,
    Ledger,
    Observed,
    Part,
    is_finite,
    merge_parts,
    observe,
    read_number,
    write_label,
)
from answerkey.metrics.ratios import Ratio, Squares, measure_error
from answerkey.metrics.value_names import ValueNames
from answerkey.types import MetricValue, Scores

#: Of how many numbers in units each sum is one of products.
_FACTORS = {"top": 2, "bottom": 1, "tops": 4, "products": 3, "bottoms": 2}


@dataclass(frozen=True)
class WeightedAverage:
    """The mean of the weights of a field's values, or Σwx/Σw with the weights in another field.

    A value finds its weight by its text, or, if both are numbers, as a number (`1.0` finds `1`). A value
    without a weight is left out and counted.
    """

    field: str
    weights: Mapping[str | bool | float, float] | str
    name: str | None = None

    type: ClassVar[str] = "weighted_average"
    sums: ClassVar[tuple[str, ...]] = ("n", "top", "bottom")

    def __post_init__(self) -> None:
        if not self.weights:
            hint = "give each value of the field a weight, or name the field that holds the weights"
            raise SpecError("E108", "`weights` is empty", hint=hint)
        table: Mapping[str | bool | float, object] = {} if isinstance(self.weights, str) else self.weights
        for value, weight in table.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not is_finite(weight):
                raise SpecError("E108", f"the weight of {value!r} is {weight!r}, not a number")

    def fields(self) -> tuple[str, ...]:
        """Return the names of the score values or metadata that it reads."""
        return (self.field, self.weights) if isinstance(self.weights, str) else (self.field,)

    def measure(self, scores: Scores) -> Part:
        """Return the exact sums of this shard."""
        return self.collect(observe(scores, self.fields()))

    def collect(self, observed: Observed) -> Part:
        """Return the part of what was observed."""
        ledger = Ledger.open(observed)
        weighed = [(self._weigh(ledger, values, count), count) for values, count in observed.counts]
        pairs = [(*pair, count) for pair, count in weighed if pair is not None]
        # In units no smaller than the numbers need, for the sake of speed; the sums are then shifted.
        bits = find_common_bits(number for value, weight, _ in pairs for number in (value, weight))
        sums = {"top": 0, "bottom": 0, "tops": 0, "products": 0, "bottoms": 0}
        for one, other, count in pairs:
            value, weight = to_units(one, bits), to_units(other, bits)
            product = value * weight
            sums["top"] += count * product
            sums["bottom"] += count * weight
            sums["tops"] += count * product**2
            sums["products"] += count * product * weight
            sums["bottoms"] += count * weight**2
        shifted = {name: total << _FACTORS[name] * (UNIT_BITS - bits) for name, total in sums.items()}
        negative = sum(count for _, weight, count in pairs if weight < 0)
        return ledger.close(**shifted, negative=negative)

    def _weigh(self, ledger: Ledger, values: tuple[object, ...], count: int) -> tuple[float, float] | None:
        """Return value and weight; a weight out of the table is a value of weight 1."""
        if values[0] is None:
            ledger.leave_out(NULL, count)
            return None
        if isinstance(self.weights, str):
            return self._weigh_by_field(ledger, values, count)
        weight = find_weight(self.weights, values[0])
        if weight is None:
            ledger.leave_out(NO_WEIGHT, count)
            return None
        ledger.n += count
        return weight, 1

    def _weigh_by_field(
        self, ledger: Ledger, values: tuple[object, ...], count: int
    ) -> tuple[float, float] | None:
        if values[1] is None:
            ledger.leave_out(NO_WEIGHT, count)
            return None
        numbers = ledger.take_numbers(self.fields(), values, count)
        return None if numbers is None else (numbers[0], numbers[1])

    def value_names(self) -> ValueNames:
        """Return what the value will be called."""
        return ValueNames((self.name or f"{self.field}_{self.type}",))

    def merge(self, parts: Sequence[Part]) -> Part:
        """Return several parts as one, in any order."""
        return merge_parts(parts)

    def finish(self, part: Part) -> list[MetricValue]:
        """Return the one value; none when nothing counts or all weights are 0."""
        check_part(part, self.type, self.fields())
        if part.get("negative"):
            samples = say_samples(part["negative"])
            message = f"`{self.type}`: `{self.weights}` holds negative weights in {samples}"
            raise ScoringError("E402", message, hint="a weight is 0 or more")
        bottom = part.get("bottom", 0)
        value = divide(part["top"], bottom << UNIT_BITS) if bottom else None
        note, margin = self._explain(part, value), self._measure_margin(part, value)
        return [state_value(self._name_value(), value, part, kind=self.type, note=note, margin=margin)]

    def _name_value(self) -> str:
        return self.name or f"{self.field}_weighted_average"

    def find_scale(self, scales: Mapping[str, Scale]) -> Scale | None:
        """Return the least and the greatest weight of the table, or the scale of the field itself."""
        if isinstance(self.weights, str):
            return scales.get(self.field.partition(".")[0])
        return float(min(self.weights.values())), float(max(self.weights.values()))

    def ratios(self, part: Part, whole: Part) -> dict[str, Ratio]:  # noqa: ARG002 - the names need no whole
        """Return the sums of some samples whose ratio is the value."""
        return {self._name_value(): Ratio(part["top"], part["bottom"] << UNIT_BITS, part["n"])}

    def _measure_margin(self, part: Part, value: float | None) -> Margin:
        if value is None:
            return Margin()
        squares = Squares(part["tops"], part["products"] << UNIT_BITS, part["bottoms"] << 2 * UNIT_BITS)
        error = measure_error(self.ratios(part, part)[self._name_value()], squares)
        if isinstance(self.weights, str):
            return measure_ratio(value, error, part["n"], is_share=False)
        return measure_mean(value, error, part["n"])

    def _explain(self, part: Part, value: float | None) -> str | None:
        if not part.get("n"):
            return NOTHING_COUNTED
        if not part["bottom"]:
            return "all weights are 0"
        return TOO_LARGE if value is None else None


def find_weight(weights: Mapping[str | bool | float, float], value: object) -> float | None:
    """Return the weight whose key is the value's text, else the same number, else None."""
    label = write_label(value)
    number = read_number(value)
    for key, weight in weights.items():
        if write_label(key) == label:
            return weight
    if number is None:
        return None
    return next((weight for key, weight in weights.items() if _reads_as(write_label(key), number)), None)


def _reads_as(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False
