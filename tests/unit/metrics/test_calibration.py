"""Laws of the metric `calibration`."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from answerkey.errors import SpecError
from answerkey.metrics import Calibration
from answerkey.metrics.classification import find_bin
from answerkey.types import MetricValue, Scores


def make_scores(pairs: Sequence[tuple[float | None, float | None]]) -> Scores:
    """Return scores with these confidences and right answers."""
    rows = [
        {
            "status": "SCORED",
            "reason": None,
            "values": {"confidence": one, "is_correct": right},
            "excluded_by": None,
        }
        for one, right in pairs
    ]
    frame = pl.DataFrame(rows, schema_overrides={"reason": pl.String, "excluded_by": pl.String})
    return Scores(frame.with_columns(pl.struct(pl.lit(None).alias("_")).alias("metadata")))


def finish(pairs: Sequence[tuple[float | None, float | None]], *bins: int) -> list[MetricValue]:
    """Return the values over all pairs."""
    metric = Calibration(bins=bins or (10,))
    return metric.finish(metric.measure(make_scores(pairs)))


def test_the_error_is_the_weighted_distance_in_each_bin() -> None:
    """Two bins: 0.9 sure and right in half, 0.5 sure and always right."""
    pairs = [(0.9, 1.0), (0.9, 0.0), (0.5, 1.0), (0.5, 1.0)]
    value = finish(pairs)[0]
    assert value.name == "ece_10"
    assert value.value == pytest.approx(0.5 * 0.4 + 0.5 * 0.5)


def test_a_model_that_is_as_sure_as_it_is_right_has_no_error() -> None:
    """Three of four at 0.75."""
    assert finish([(0.75, 1.0), (0.75, 1.0), (0.75, 1.0), (0.75, 0.0)])[0].value == 0.0


@pytest.mark.parametrize(
    ("confidence", "size", "place"),
    [(0.0, 10, 0), (0.1, 10, 1), (0.05, 10, 0), (0.5, 10, 4), (0.5, 2, 0), (0.51, 2, 1), (1.0, 15, 14)],
)
def test_bins_include_their_upper_end(confidence: float, size: int, place: int) -> None:
    """The float 0.1 is a little more than a tenth, and lies in the second of ten bins."""
    assert find_bin(confidence, size) == place


def test_the_curve_has_every_bin() -> None:
    """An empty bin has no confidence and no accuracy."""
    curve = finish([(0.2, 0.0), (0.4, 1.0)], 2)[0].details["bins"]
    assert curve == [
        {"from": 0.0, "to": 0.5, "n": 2, "confidence": pytest.approx(0.3), "accuracy": 0.5},
        {"from": 0.5, "to": 1.0, "n": 0, "confidence": None, "accuracy": None},
    ]


def test_rows_without_a_confidence_are_left_out_and_counted() -> None:
    """Null, and what is no probability."""
    value = finish([(None, 1.0), (1.5, 1.0), (0.5, 1.0)])[0]
    assert (value.n, value.n_excluded) == (1, {"null": 1, "outside_0_to_1": 1})
    assert finish([(None, 1.0)])[0].value is None


def test_shards_merge_exactly() -> None:
    """The sums are exact, so any split and any order give the same bits."""
    pairs = [((7 * number % 101) / 101, float(number % 3 == 0)) for number in range(90)]
    metric = Calibration()
    parts = [metric.measure(make_scores(pairs[start : start + 7])) for start in range(0, 90, 7)]
    whole = metric.finish(metric.measure(make_scores(pairs)))
    assert metric.finish(metric.merge(parts[::-1])) == whole
    assert whole[0].interval is None


@pytest.mark.parametrize("bins", [(), (0,), (10, 10)])
def test_unsuitable_bins_are_refused(bins: tuple[int, ...]) -> None:
    """There is at least one number of bins, from 1 on, each once."""
    with pytest.raises(SpecError):
        Calibration(bins=bins)


def test_value_names_are_known_before_there_are_scores() -> None:
    """Gates may name the error for each number of bins, which is a share."""
    names = Calibration(bins=(5, 20)).value_names()
    assert (names.names, names.is_share) == (("ece_5", "ece_20"), True)


def test_the_curve_counts_every_right_answer_of_a_bin() -> None:
    """Three of four with a confidence in one bin are right; half right counts half."""
    curve = finish([(0.15, 1.0), (0.15, 1.0), (0.19, 1.0), (0.11, 0.0), (0.95, 0.5), (0.95, 0.5)], 10)[0]
    points = curve.details["bins"]
    assert isinstance(points, list)
    assert points[1] == {
        "from": 0.1,
        "to": 0.2,
        "n": 4,
        "confidence": pytest.approx(0.15),
        "accuracy": 0.75,
    }
    assert (points[9]["n"], points[9]["accuracy"]) == (2, 0.5)
    assert points[0] == {"from": 0.0, "to": 0.1, "n": 0, "confidence": None, "accuracy": None}


def test_one_bin_and_full_confidence_are_suitable() -> None:
    """The ends of what is allowed are allowed."""
    (value,) = finish([(1.0, 1.0), (0.0, 0.0), (1.0, 0.0)], 1)
    assert (value.name, value.n) == ("ece_1", 3)
    assert value.value == pytest.approx(1 / 3)
    assert dict(value.n_excluded) == {}
