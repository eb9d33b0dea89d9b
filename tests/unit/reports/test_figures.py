from __future__ import annotations

import pytest

from answerkey.text import format_count, format_interval, format_number, format_value
from answerkey.types import MetricValue


@pytest.mark.parametrize(
    ("value", "shown"), [(3.0, "3"), (12.5, "12.5"), (1 / 3, "0.333333"), (0.0, "0"), (-2.0, "-2")]
)
def test_numbers_are_short(value: float, shown: str) -> None:
    """Six significant digits; whole numbers have no point."""
    assert format_number(value) == shown


def test_a_mean_of_right_and_wrong_is_a_percentage() -> None:
    """A value with a Wilson interval is a share."""
    value = MetricValue("Accuracy", 11918 / 14014, 14014, {}, (0.844435, 0.856244), "wilson", type="mean")
    assert format_value(value) == "85.04 %"
    assert format_interval(value.interval) == "[84.44, 85.62]"


def test_another_mean_is_a_number() -> None:
    """A mean of lengths is no share."""
    assert format_value(MetricValue("length", 12.5, 9, type="mean")) == "12.5"


def test_no_value_is_said() -> None:
    """A metric without a value prints neither 0 nor NaN."""
    assert format_value(MetricValue("recall", None, 0, note="0/0", type="recall")) == "no value"


def test_nouns_agree_with_their_count() -> None:
    """One sample, two samples."""
    assert [format_count(1, "sample"), format_count(2, "sample")] == ["1 sample", "2 samples"]
