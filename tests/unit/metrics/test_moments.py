from __future__ import annotations

import math
import statistics

import pytest
from scipy import stats
from scipy.stats import sem, ttest_1samp

from answerkey.errors import ScoringError, SpecError
from answerkey.metrics import Mean, Metric
from answerkey.metrics.intervals import student
from answerkey.metrics.moments import Max, Min, StdDev, WeightedAverage

from .conftest import compute, make_scores


def test_mean_of_right_and_wrong_is_a_share_with_interval() -> None:
    """The mean of 0/1 values says how many of how many, and how sure that is."""
    value = compute(Mean("is_correct"), make_scores({"is_correct": [1.0, 0.0, 1.0, 1.0]}))["is_correct_mean"]
    assert (value.value, value.n, value.type) == (0.75, 4, "mean")
    assert value.interval_method == "wilson"
    assert value.interval == pytest.approx((0.300642, 0.954413), abs=1e-6)
    assert value.details == {"count": 3, "of": 4}


def test_mean_of_booleans_is_a_share() -> None:
    """True counts as 1, False as 0."""
    value = compute(Mean("ok"), make_scores({"ok": [True, False]}))["ok_mean"]
    assert value.value == 0.5
    assert value.interval is not None


def test_mean_of_other_numbers_has_the_interval_of_student() -> None:
    """The interval is mean ± t · s/√n with n - 1 degrees, as scipy has it."""
    numbers = [0.2, 0.9, 0.4, 0.4, 0.7]
    value = compute(Mean("score"), make_scores({"score": numbers}))["score_mean"]
    theirs = ttest_1samp(numbers, 0).confidence_interval(0.95)
    assert value.interval == pytest.approx((theirs.low, theirs.high), rel=1e-12)
    assert value.std_error == pytest.approx(sem(numbers), rel=1e-14)
    assert value.interval_method == "student_t"


@pytest.mark.parametrize(("numbers", "note"), [([0.5], "one sample"), ([0.5, 0.5], "all samples are alike")])
def test_mean_without_spread_has_no_interval(numbers: list[float], note: str) -> None:
    """One number, or the same number again, has no spread; the note says so."""
    value = compute(Mean("score"), make_scores({"score": numbers}))["score_mean"]
    assert (value.value, value.interval) == (0.5, None)
    assert note in str(value.interval_note)


def test_ends_have_no_interval() -> None:
    """The largest of a sample says nothing about the largest there is."""
    for metric in (Max("x"), Min("x")):
        value = compute(metric, make_scores({"x": [1.0, 2.0]}))[f"x_{metric.type}"]
        assert value.interval is None
        assert value.interval_note


def test_sums_are_not_rounded_on_the_way() -> None:
    """Ten times 0.1 has the mean 0.1, and large terms that cancel leave the small ones."""
    assert compute(Mean("x"), make_scores({"x": [0.1] * 10}))["x_mean"].value == 0.1
    assert compute(Mean("x"), make_scores({"x": [1e300, 1.0, -1e300, 1.0]}))["x_mean"].value == 0.5


def test_name_replaces_the_default_name() -> None:
    """`name` is the value's name."""
    assert list(compute(Mean("x", name="Mean Score"), make_scores({"x": [2]}))) == ["Mean Score"]


def test_ends_are_values_of_the_field() -> None:
    """The largest and the smallest value come back as floats."""
    scores = make_scores({"x": [3, -2, 7]})
    assert compute(Max("x"), scores)["x_max"].value == 7.0
    assert compute(Min("x"), scores)["x_min"].value == -2.0


def test_deviation_is_that_of_a_sample() -> None:
    """The divisor is n - 1: 2/3, 1, 2/3, 1, 2/3 deviates by 0.183."""
    numbers = [2 / 3, 1.0, 2 / 3, 1.0, 2 / 3]
    value = compute(StdDev("x"), make_scores({"x": numbers}))["x_std_dev"].value
    assert value == statistics.stdev(numbers) == pytest.approx(0.182574, abs=1e-6)


def test_deviation_of_one_value_is_none() -> None:
    """One value has no deviation, and the note says so."""
    value = compute(StdDev("x"), make_scores({"x": [5.0]}))["x_std_dev"]
    assert (value.value, value.n) == (None, 1)
    assert value.note == "it needs at least two values, there is one"


def test_deviation_beyond_floats_is_none() -> None:
    """A deviation that no float can hold is no value rather than infinity."""
    value = compute(StdDev("x"), make_scores({"x": [1.7e308, -1.7e308]}))["x_std_dev"]
    assert (value.value, value.note) == (None, "the value is too large for a float")


def test_standard_deviations_have_no_interval() -> None:
    """The value is there; its note says that there is no interval."""
    value = compute(StdDev("x"), make_scores({"x": [float(number) for number in range(40)]}))["x_std_dev"]
    assert value.value is not None
    assert (value.interval, value.std_error, value.interval_method) == (None, None, None)
    assert value.interval_note == "answerkey computes none for a standard deviation"


@pytest.mark.parametrize("metric", [Mean("x"), Max("x"), Min("x"), StdDev("x")])
def test_nothing_to_compute_is_none_with_the_reason(metric: Metric) -> None:
    """Without a value there is no number, neither 0 nor NaN."""
    scores = make_scores({"x": [None, None]}, status=["FAILED", "SCORED"])
    (value,) = compute(metric, scores).values()
    assert (value.value, value.n, value.note) == (None, 0, "no sample counts towards it")
    assert value.n_excluded == {"failed": 1, "null": 1}


@pytest.mark.parametrize("metric", [Mean("x"), Max("x"), Min("x"), StdDev("x")])
def test_no_shards_at_all_are_none(metric: Metric) -> None:
    """A task without samples still has its value, empty."""
    (value,) = metric.finish(metric.merge([]))
    assert (value.value, value.n, value.n_excluded) == (None, 0, {})


def test_left_out_samples_are_counted_by_reason() -> None:
    """Failed, errors, excluded and null samples are left out, each with its reason."""
    scores = make_scores(
        {"x": [1.0, None, None, 0.0, None, 1.0]},
        status=["SCORED", "FAILED", "ERROR", "SCORED", "SCORED", "SCORED"],
        excluded_by=[None, None, None, "refusals", None, None],
    )
    value = compute(Mean("x"), scores)["x_mean"]
    assert (value.value, value.n) == (1.0, 2)
    assert value.n_excluded == {"error": 1, "excluded:refusals": 1, "failed": 1, "null": 1}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_left_out_and_named(number: float) -> None:
    """NaN and infinity are no numbers to average: counted, and said in the note."""
    value = compute(Mean("x"), make_scores({"x": [1.0, number]}))["x_mean"]
    assert (value.value, value.n, value.n_excluded) == (1.0, 1, {"not_finite": 1})
    assert value.note == "1 NaN or infinite left out"


@pytest.mark.parametrize("metric", [Mean("letter"), Max("letter"), Min("letter"), StdDev("letter")])
def test_text_is_an_error_that_shows_it(metric: Metric) -> None:
    """A number of text does not exist; the error shows what the field holds."""
    scores = make_scores({"is_correct": [1.0, 0.0]}, {"letter": ["B", "A"]})
    with pytest.raises(
        ScoringError, match=r"`letter` holds other values in 2 samples, such as 'A', 'B'"
    ) as caught:
        compute(metric, scores)
    assert caught.value.code == "E402"


def test_field_that_no_score_has_is_an_error_with_suggestion() -> None:
    """A misspelt field is not a column of nulls."""
    with pytest.raises(ScoringError, match="no score has the field `is_corect`") as caught:
        compute(Mean("is_corect"), make_scores({"is_correct": [1.0]}))
    assert caught.value.hint == "did you mean `is_correct`?"


def test_field_that_one_shard_lacks_is_null_there() -> None:
    """A shard whose scores lack the field adds nulls, not an error."""
    metric = Mean("x")
    parts = [metric.measure(make_scores({"x": [1.0]})), metric.measure(make_scores({"y": [1.0, 2.0]}))]
    (value,) = metric.finish(metric.merge(parts))
    assert (value.value, value.n, value.n_excluded) == (1.0, 1, {"null": 2})


def test_value_comes_before_metadata_of_the_same_name() -> None:
    """A field is looked for among the values first."""
    assert compute(Mean("x"), make_scores({"x": [1.0]}, {"x": [5.0]}))["x_mean"].value == 1.0


def test_mixed_numbers_stored_as_json_count_like_others() -> None:
    """A field of whole numbers, floats and booleans is a field of numbers."""
    scores = make_scores({"x": [1, 0.5, True, None]}, encoded=["x"])
    value = compute(Mean("x"), scores)["x_mean"]
    assert (value.value, value.n, value.n_excluded) == (2.5 / 3, 3, {"null": 1})


def test_minus_zero_is_zero() -> None:
    """The smallest of 0.0 and -0.0 has no sign, whichever came first."""
    for numbers in ([0.0, -0.0], [-0.0, 0.0]):
        smallest = compute(Min("x"), make_scores({"x": numbers}))["x_min"].value
        assert smallest is not None
        assert math.copysign(1, smallest) == 1.0


def test_integer_beyond_floats_is_left_out() -> None:
    """An integer that no float can hold is treated like infinity."""
    value = compute(Mean("x"), make_scores({"x": [10**400, 2]}, encoded=["x"]))["x_mean"]
    assert (value.value, value.n_excluded) == (2.0, {"not_finite": 1})


def test_an_interval_beyond_all_floats_is_none() -> None:
    """The mean and its error are known; their interval would end in infinity, which no file holds."""
    value = compute(Mean("x"), make_scores({"x": [1.5e308, -1.5e308]}))["x_mean"]
    assert (value.value, value.std_error) == (0.0, 1.5e308)
    assert (value.interval, value.interval_note) == (None, "the spread is too large for a float")


def test_table_gives_the_mean_of_the_weights() -> None:
    """Each value counts as its weight; a value without a weight is left out and counted."""
    metric = WeightedAverage("grade", {"good": 1.0, "fair": 0.5})
    scores = make_scores({"grade": ["good", "fair", "good", "odd", None]})
    value = compute(metric, scores)["grade_weighted_average"]
    assert (value.value, value.n) == (2.5 / 3, 3)
    assert value.n_excluded == {"no_weight": 1, "null": 1}


@pytest.mark.parametrize("key", ["1.0", "1", 1, 1.0])
def test_number_finds_its_weight_in_any_spelling(key: str) -> None:
    """The value 1.0 has the weight of `1` as well as of `1.0`."""
    value = compute(WeightedAverage("x", {key: 3.0}), make_scores({"x": [1.0]}))["x_weighted_average"]
    assert value.value == 3.0


def test_text_finds_its_weight_only_as_text() -> None:
    """The text "1.0" is not the number 1."""
    value = compute(WeightedAverage("x", {"1": 3.0}), make_scores({"x": ["1.0"]}))["x_weighted_average"]
    assert value.n_excluded == {"no_weight": 1}


def test_field_of_weights_weighs_each_sample() -> None:
    """With a field name the value is Σwx / Σw; a sample without weight is left out."""
    scores = make_scores({"x": [1.0, 0.0, 1.0], "w": [3, 1, None]})
    value = compute(WeightedAverage("x", "w", name="Weighted"), scores)["Weighted"]
    assert (value.value, value.n, value.n_excluded) == (0.75, 2, {"no_weight": 1})


def test_weights_of_zero_give_no_value() -> None:
    """Σw = 0 is 0/0."""
    value = compute(WeightedAverage("x", "w"), make_scores({"x": [1.0], "w": [0.0]}))["x_weighted_average"]
    assert (value.value, value.note) == (None, "all weights are 0")


def test_nothing_to_weigh_gives_no_value() -> None:
    """No sample, no value."""
    value = compute(WeightedAverage("x", {"A": 1}), make_scores({"x": ["B"]}))["x_weighted_average"]
    assert (value.value, value.note) == (None, "no sample counts towards it")


def test_negative_weight_of_a_sample_is_an_error() -> None:
    """A sample cannot count less than not at all."""
    with pytest.raises(ScoringError, match="`w` holds negative weights in 1 sample"):
        compute(WeightedAverage("x", "w"), make_scores({"x": [1.0], "w": [-1.0]}))


def test_text_cannot_be_weighed_by_a_field() -> None:
    """Only numbers have a weighted mean."""
    with pytest.raises(ScoringError, match="`x` holds other values in 1 sample, such as 'A'"):
        compute(WeightedAverage("x", "w"), make_scores({"x": ["A"], "w": [1.0]}))


def test_error_shows_the_field_that_is_wrong() -> None:
    """The examples are those of the field that the error names, and long ones are cut."""
    scores = make_scores({"x": [1.0, 1.0], "w": ["z" * 500, "heavy"]})
    with pytest.raises(ScoringError) as caught:
        compute(WeightedAverage("x", "w"), scores)
    assert caught.value.message == (
        "`weighted_average` needs numbers, but `w` holds other values in 2 samples, "
        f"such as 'heavy', '{'z' * 79}…"
    )


@pytest.mark.parametrize("weights", [{}, "", {"A": "much"}, {"A": True}, {"A": float("nan")}, {"A": None}])
def test_weights_that_are_none_are_refused_at_once(weights: dict[str | bool | float, float] | str) -> None:
    """Empty weights, and weights that are no numbers, are the file's mistake."""
    with pytest.raises(SpecError) as caught:
        WeightedAverage("x", weights)
    assert caught.value.code == "E108"


def test_names_among_the_weights_are_no_numbers() -> None:
    """A number is looked up among the keys that read as one; the others are passed over."""
    metric = WeightedAverage("x", {"none": 7.0, "2.50": 3.0})
    assert compute(metric, make_scores({"x": [2.5]}))["x_weighted_average"].value == 3.0
    assert compute(metric, make_scores({"x": [1.5]}))["x_weighted_average"].value is None


def test_the_mean_of_weights_has_student_s_interval() -> None:
    """Weights out of a table are numbers like others; a field of weights makes a ratio."""
    scores = make_scores({"grade": ["good", "fair", "good", "bad"]})
    metric = WeightedAverage("grade", {"good": 1.0, "fair": 0.5, "bad": 0.0})
    value = compute(metric, scores)["grade_weighted_average"]
    numbers = [1.0, 0.5, 1.0, 0.0]
    assert value.std_error == pytest.approx(stats.sem(numbers))
    assert value.interval == student(0.625, value.std_error or 0, 3)
    assert (value.interval_method, value.note) == ("student_t", None)


def test_a_weighted_ratio_has_its_linearised_error() -> None:
    """√(n/(n-1) · Σ w²(x - R)²) / Σw, and Student's interval with n - 1 degrees."""
    values, weights = [1.0, 0.0, 0.5, 1.0], [3, 1, 2, 2]
    value = compute(WeightedAverage("x", "w"), make_scores({"x": values, "w": weights}))["x_weighted_average"]
    squares = sum((weight * (one - 0.75)) ** 2 for one, weight in zip(values, weights, strict=True))
    assert value.value == 0.75
    assert value.std_error == pytest.approx((4 / 3 * squares) ** 0.5 / 8)
    assert value.interval == student(0.75, value.std_error or 0, 3)
    assert value.interval_method == "ratio_t"


def test_means_of_the_largest_floats_are_held() -> None:
    """Sums are exact, so nothing overflows on the way."""
    scores = make_scores({"x": [1e308, -1e308], "w": [1e308, 1.7e308]})
    value = compute(WeightedAverage("x", "w"), scores)["x_weighted_average"]
    assert value.note is None
    far = make_scores({"grade": ["a", "a"]})
    value = compute(WeightedAverage("grade", {"a": 1.7e308}), far)["grade_weighted_average"]
    assert (value.value, value.note) == (1.7e308, None)


def test_empty_weights_are_refused_with_a_hint() -> None:
    """The hint says what to write."""
    with pytest.raises(SpecError) as caught:
        WeightedAverage("x", {})
    assert caught.value.code == "E108"
    assert (
        caught.value.hint == "give each value of the field a weight, or name the field that holds the weights"
    )


def test_negative_weights_have_a_code_and_a_hint() -> None:
    """And are counted in samples."""
    with pytest.raises(ScoringError) as caught:
        compute(WeightedAverage("x", "w"), make_scores({"x": [1.0, 1.0], "w": [-1.0, -2.0]}))
    assert (caught.value.code, caught.value.hint) == ("E402", "a weight is 0 or more")
    assert "in 2 samples" in caught.value.message
