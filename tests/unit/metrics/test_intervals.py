"""Intervals hold the truth about as often as they say: in 95 of 100 draws, with the slack that
chance needs.

With 400 draws and a coverage of 95 %, fewer than 92 % are a chance of 1 in 100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

import pytest
from tests.lazy import stats

from answerkey.metrics import average_counts, wilson
from answerkey.metrics.base import ValueCounts
from answerkey.metrics.classification import MulticlassClassification
from answerkey.metrics.intervals import (
    Interval,
    Margin,
    Ratio,
    average_errors,
    average_shares,
    beta_share,
    binomial_cdf,
    bound_value,
    chi_square_tail,
    compare_counts,
    measure_clustered_error,
    measure_f1,
    measure_share,
    mover,
    score_interval,
    student,
    student_quantile,
    student_tails,
)
from answerkey.metrics.paired import measure_difference
from answerkey.types import MetricValue


@pytest.mark.parametrize(
    ("successes", "n"),
    [(0, 1), (1, 1), (1, 2), (3, 10), (0, 500), (500, 500), (11_918, 14_014), (999, 1_000_000)],
)
def test_interval_agrees_with_scipy(successes: int, n: int) -> None:
    """The interval is Wilson's without continuity correction.

    None and all touch the ends exactly.
    """
    theirs = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert (wilson(0, 7)[0], wilson(7, 7)[1]) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (2, 1), (-1, 5)])
def test_impossible_share_is_refused(successes: int, n: int) -> None:
    """There is no interval without samples or outside of 0 to n."""
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, n)


def test_f1_carries_the_interval_of_its_hits_over() -> None:
    """6 hits among 8 samples that are a hit, a false alarm or a miss: F1 is 12/14, within its
    interval.
    """
    low, high = wilson(6, 8)
    assert measure_f1(6, 2).interval == (2 * low / (1 + low), 2 * high / (1 + high))
    assert 2 * low / (1 + low) < 12 / 14 < 2 * high / (1 + high)


def test_student_reaches_t_standard_errors_to_both_sides() -> None:
    """The interval is value ± t · error; that of a share does not leave [0, 1]."""
    reach = 0.1 * stats.t.ppf(0.975, 9)
    assert student(0.9, 0.1, 9) == pytest.approx((0.9 - reach, 0.9 + reach), rel=1e-13)
    assert student(0.9, 0.1, 9, is_share=True) == pytest.approx((0.9 - reach, 1.0), rel=1e-13)


def test_score_interval_of_independent_outcomes_is_the_wilson_interval() -> None:
    """With the standard error √(p(1-p)/n) and many degrees of freedom nothing is left of the
    difference.
    """
    share, n = 0.85, 14_000
    result = score_interval(share, (share * (1 - share) / n) ** 0.5, 10**9)
    assert result == pytest.approx(wilson(11_900, n), rel=1e-9)


@pytest.mark.parametrize(("size", "interval"), [(1, (0.3, 0.9)), (4, (0.4, 0.7))])
def test_mover_adds_distances_as_squares(size: int, interval: Interval) -> None:
    """The mean of one value is as sure as the value.

    Four equal parts halve the distances to both ends.
    """
    assert mover([(0.5, (0.3, 0.9))] * size) == pytest.approx(interval, rel=1e-15)


@pytest.mark.parametrize("df", [1, 2, 3, 5, 10, 29, 56, 199, 500, 999, 1000, 1001, 14_013, 10**7])
@pytest.mark.parametrize("share", [0.6, 0.9, 0.975, 0.995])
def test_student_quantile_agrees_with_scipy(df: int, share: float) -> None:
    """The quantile of Student's t is exact to 12 digits, on both sides of where the expansion takes
    over.

    Of far quantiles the range is doubled until the point lies in it.
    """
    assert student_quantile(share, df) == pytest.approx(stats.t.ppf(share, df), rel=1e-12)
    for far in (0.9999, 0.99999, 0.9999999):
        assert student_quantile(far, 1) == pytest.approx(stats.t.ppf(far, 1), rel=1e-9)


@pytest.mark.parametrize("df", [1, 2, 5, 30, 500, 14_013, 10**6])
@pytest.mark.parametrize("point", [-3.0, 0.01, 1.0, 2.5, 12.0])
def test_student_tails_agree_with_scipy(df: int, point: float) -> None:
    """Both tails of Student's t are exact to eight digits."""
    assert student_tails(point, df) == pytest.approx(2 * stats.t.sf(abs(point), df), rel=1e-8)


@pytest.mark.parametrize(
    ("first", "second", "point"), [(0.5, 0.5, 0.3), (2, 3, 0.7), (50, 0.5, 0.99), (3, 80, 0.02)]
)
def test_beta_share_agrees_with_scipy(first: float, second: float, point: float) -> None:
    """The regularised incomplete beta function is exact to twelve digits, and runs from 0 to 1."""
    theirs = stats.beta.cdf(point, first, second)
    assert beta_share(first, second, point) == pytest.approx(theirs, rel=1e-12)
    assert (beta_share(first, second, 0.0), beta_share(first, second, 1.0)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("heads", "tosses"),
    [(0, 0), (0, 1), (5, 10), (799, 1630), (2500, 5000), (2400, 5001), (499_000, 10**6)],
)
def test_tosses_agree_with_scipy(heads: int, tosses: int) -> None:
    """Tails of a fair coin are exact to nine digits, in whole numbers and beyond them."""
    theirs = stats.binom.cdf(heads, tosses, 0.5)
    assert binomial_cdf(heads, tosses) == pytest.approx(theirs, rel=1e-9)
    assert binomial_cdf(-1, tosses) == 0.0


def test_shares_of_very_large_parameters_end_in_time() -> None:
    """Three digits are right for a hundred billion samples.

    For more the fraction is cut, and is a share.
    """
    theirs = stats.beta.cdf(0.499999, 1e11, 1e11)
    assert beta_share(1e11, 1e11, 0.499999) == pytest.approx(theirs, abs=1e-3)
    assert 0 < beta_share(1e14, 1e14, 0.5 - 3.5e-10) < 0.5


@pytest.mark.parametrize("df", [1, 2, 3, 4, 9, 20, 57, 171, 500])
@pytest.mark.parametrize("point", [0.0, 1e-6, 0.1, 1.0, 3.841, 10.0, 40.0, 150.0, 700.0])
def test_the_tail_is_that_of_scipy(point: float, df: int) -> None:
    """Own code and scipy agree to twelve digits."""
    theirs = stats.chi2.sf(point, df)
    assert chi_square_tail(point, df) == pytest.approx(theirs, rel=1e-11, abs=1e-300)


def test_one_group_is_the_usual_test() -> None:
    """With one group the test is scipy's `chisquare`."""
    counts = [3219, 3452, 3575, 3768]
    result = compare_counts([(counts, [sum(counts) / 4] * 4)])
    expected = stats.chisquare(counts)
    assert result is not None
    assert result.df == 3
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.p == pytest.approx(expected.pvalue, rel=1e-9)


def test_groups_add_up() -> None:
    """Statistics and degrees of independent groups are added.

    Without two cells there is no test.
    """
    result = compare_counts([([30, 10], [20.0, 20.0]), ([10, 10, 10], [10.0] * 3)])
    assert result is not None
    assert (result.statistic, result.df) == (10.0, 3)
    assert result.p == pytest.approx(stats.chi2.sf(10, 3), rel=1e-12)
    assert (compare_counts([]), compare_counts([([5], [5.0])])) == (None, None)


def test_each_sample_a_cluster_is_the_plain_error() -> None:
    """Clusters of one are independent samples, and the corrected error is that of a mean."""
    values = [1, 0, 0, 1, 1, 0, 1]
    error, _ = measure_clustered_error([[Ratio(value, 1, 1)] for value in values])
    assert error == pytest.approx(stats.sem(values), rel=1e-15)


@pytest.mark.parametrize("clusters", [[], [[Ratio(1, 2, 2)]], [[Ratio(0, 0, 2)], [Ratio(0, 0, 1)]]])
def test_fewer_than_two_clusters_have_no_error(clusters: list[list[Ratio]]) -> None:
    """Nothing, one cluster, and 0/0 have no spread."""
    assert measure_clustered_error(clusters)[0] is None


def test_variances_of_shares_add_up() -> None:
    """The standard error of a mean of shares is √(Σ p(1-p)/(n-1)) over their number.

    Degrees of freedom are Satterthwaite's, weighed by the spreads; the interval is that of the
    effective sample. All of 5 is not taken as certain: it has the spread of its Jeffreys posterior.
    """
    first, second = 0.6 * 0.4 / 49, 0.9 * 0.1 / 99
    result = average_shares([(30, 50), (90, 100)])
    assert result.std_error == pytest.approx((first + second) ** 0.5 / 2, rel=1e-14)
    freedom = int((first + second) ** 2 / (first**2 / 49 + second**2 / 99))
    assert result.interval == score_interval(0.75, result.std_error or 0, freedom)
    assert result.interval == pytest.approx((0.6672408897833992, 0.8177969386923625))
    assert (result.interval_method, result.is_share) == ("stratified", True)
    perfect = average_shares([(5, 5), (50, 100)]).std_error
    assert perfect == pytest.approx((5.5 * 0.5 / (36 * 7) + 0.25 / 99) ** 0.5 / 2, rel=1e-14)


@pytest.mark.parametrize(
    ("shares", "method", "interval"),
    [
        ([(5, 5)] * 10, "mover", (1 - (1 - wilson(5, 5)[0]) / 10**0.5, 1.0)),
        ([(0, 5), (0, 8)], "mover", (0.0, 0.27112)),
        ([(0, 5), (5, 5)], "stratified", score_interval(0.5, (2 * 2.75 / (36 * 7)) ** 0.5 / 2, 8)),
        ([(1, 2), (3, 4)], "stratified", (0.00714, 0.99742)),
    ],
)
def test_shares_at_an_end_have_an_interval(
    shares: list[tuple[int, int]], method: str, interval: Interval
) -> None:
    """Where all shares are at the same end it is made from their own, ends there and does not
    shrink to it.

    Small shares have at least one degree of freedom.
    """
    result = average_shares(shares)
    assert (result.interval_method, result.is_share) == (method, True)
    assert result.interval == pytest.approx(interval, abs=5e-6)


def test_a_part_with_one_sample_leaves_no_interval() -> None:
    """Its spread cannot be known, and the note says so."""
    result = average_shares([(1, 1), (50, 100)])
    note = "a part with one sample says nothing about its spread"
    assert (result.interval, result.interval_note) == (None, note)


def test_standard_errors_add_up_as_squares() -> None:
    """Two values with errors 3 and 4 have a mean with the error 2.5."""
    values = [MetricValue("x", 10.0, 50, std_error=3.0), MetricValue("x", 20.0, 50, std_error=4.0)]
    result = average_errors(values)
    assert (result.std_error, result.interval_method) == (2.5, "stratified")
    assert result.interval == pytest.approx((10.03, 19.97), abs=0.01)


def test_a_missing_error_leaves_no_interval() -> None:
    """One value without a standard error is enough, and the note counts them."""
    result = average_errors([MetricValue("x", 1.0, 5), MetricValue("x", 2.0, 5, std_error=0.1)])
    assert (result.interval, result.interval_note) == (None, "1 of 2 have no standard error")


def test_counts_have_the_mean_and_the_interval_of_their_shares() -> None:
    """Each part counts the same, however large it is.

    Of no shares there is nothing to be sure of.
    """
    interval = average_shares([(30, 50), (90, 100)]).interval
    assert average_counts([(30, 50), (90, 100)]) == (0.75, interval)
    assert average_counts([(1, 2), (100, 100)])[0] == 0.75
    assert average_shares([]) == Margin()


def test_means_of_shares_stay_within_zero_and_one() -> None:
    """From their own errors 0.1 and 0.2 with 4 and 8 degrees of freedom."""
    values = [
        MetricValue("x", 0.25, 5, std_error=0.1, is_share=True),
        MetricValue("x", 0.5, 9, std_error=0.2, is_share=True),
    ]
    result = average_errors(values)
    freedom = int((0.25 + 1) ** 2 / (0.25**2 / 4 + 1 / 8))
    assert result.interval == score_interval(0.375, result.std_error or 0, freedom)
    assert (result.is_share, result.interval_method) == (True, "stratified")
    assert result.std_error == pytest.approx(0.05**0.5 / 2)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_intervals_of_means_are_clipped_to_the_scale(value: float) -> None:
    """A share of all or nothing that has an error is not carried beyond the end."""
    result = average_errors([MetricValue("x", value, 9, std_error=0.1, is_share=True)] * 2)
    assert result.interval is not None
    assert (min(result.interval), max(result.interval))[int(value)] == value


def test_degrees_of_freedom_follow_the_clusters() -> None:
    """One less than the clusters that a value was computed from, else than its samples, and at
    least 1.
    """
    plain = [MetricValue("x", 10.0, 50, std_error=3.0), MetricValue("x", 20.0, 5, std_error=4.0)]
    clustered = [MetricValue("x", 10.0, 50, std_error=3.0, details={"clusters": 2})] * 2
    single = [MetricValue("x", 10.0, 1, std_error=3.0)] * 2
    squares = (9 / 16, 1.0)
    freedom = int(sum(squares) ** 2 / (squares[0] ** 2 / 49 + squares[1] ** 2 / 4))
    assert average_errors(plain).interval == student(15.0, 2.5, freedom)
    for values in (clustered, single):
        result = average_errors(values)
        assert result.interval == student(10.0, result.std_error or 0, 2)


def test_parts_without_spread_have_a_note() -> None:
    """An error of 0 is known, and no interval follows from it."""
    result = average_errors([MetricValue("x", 1.0, 5, std_error=0.0, is_share=True)] * 2)
    assert result == Margin(0.0, interval_note="no part shows any spread", is_share=True)


def test_a_share_of_one_sample_has_no_standard_error() -> None:
    """Its interval is Wilson's all the same."""
    assert measure_share(1, 1) == Margin(None, wilson(1, 1), "wilson", is_share=True)
    assert measure_share(1, 2).std_error == 0.5
    assert measure_share(3, 10).std_error == pytest.approx((0.3 * 0.7 / 9) ** 0.5)


def test_f1_of_one_sample_has_no_standard_error() -> None:
    """From two on it has: that of J by the delta method."""
    low, _ = wilson(1, 1)
    assert measure_f1(1, 0) == Margin(None, (2 * low / (1 + low), 1.0), "wilson", is_share=True)
    share = 3 / 5
    error = (share * (1 - share) / 4) ** 0.5 * 2 / (1 + share) ** 2
    assert measure_f1(3, 2).std_error == pytest.approx(error)
    assert measure_f1(1, 1).std_error == pytest.approx((0.5 * 0.5) ** 0.5 * 2 / 1.5**2)


def test_ratios_have_the_interval_of_their_kind() -> None:
    """A share that of the effective sample, any other number Student's."""
    share = bound_value(0.4, 0.1, 8, "ratio_t", score_method="ratio_wilson", is_share=True)
    assert share == Margin(0.1, score_interval(0.4, 0.1, 8), "ratio_wilson", is_share=True)
    number = bound_value(4.0, 0.1, 8, "ratio_t", score_method="ratio_wilson")
    assert number == Margin(0.1, student(4.0, 0.1, 8), "ratio_t")


@pytest.mark.parametrize("is_share", [True, False])
@pytest.mark.parametrize(
    ("error", "n", "note"),
    [
        (None, 1, "there is only one sample, and a spread needs two"),
        (0.0, 2, "all samples are alike, which says nothing about the spread"),
        (None, 2, "the spread is too large for a float"),
    ],
)
def test_a_missing_interval_has_a_note(
    error: float | None, n: int, note: str, *, is_share: bool
) -> None:
    """One sample, samples that are alike, or a spread beyond all floats."""
    bare = Margin(error, interval_note=note, is_share=is_share)
    assert bound_value(1.0, error, n - 1, "m", is_share=is_share) == bare


@pytest.mark.parametrize("value", [1e308, -1e308])
def test_an_interval_beyond_the_range_of_floats_is_null(value: float) -> None:
    """One such end is enough."""
    beyond = Margin(1e308, interval_note="the spread is too large for a float")
    assert bound_value(value, 1e308, 9, "m") == beyond
    assert bound_value(1.0, 1.0, 9, "m") == Margin(1.0, student(1.0, 1.0, 9), "m")


DRAWS = 400


def draw_binomial(n: int, share: float, random: Random) -> int:
    """Return how many of `n` independent trials succeed."""
    return sum(random.random() < share for _ in range(n))


Draw = Callable[[Random], Interval | None]


def measure_coverage(draw: Draw, truth: float) -> float:
    """Return how often an interval holds the truth, of those there are."""
    random = Random(11)
    results = [sample for sample in (draw(random) for _ in range(DRAWS)) if sample is not None]
    assert len(results) > DRAWS / 2
    return sum(low <= truth <= high for low, high in results) / len(results)


@pytest.mark.parametrize(("clusters", "size"), [(10, 20), (57, 20)])
def test_clusters(clusters: int, size: int) -> None:
    """Shares of clusters that differ among themselves are held, where a plain interval would
    fail.
    """

    def draw(random: Random) -> Interval | None:
        counts = [draw_binomial(size, random.betavariate(4, 1), random) for _ in range(clusters)]
        error, _ = measure_clustered_error([[Ratio(count, size, size)] for count in counts])
        share = sum(counts) / (clusters * size)
        return score_interval(share, error, clusters - 1) if error else None

    assert 0.91 <= measure_coverage(draw, 0.8) <= 0.99


@pytest.mark.parametrize("size", [2, 20])
def test_averages_of_groups(size: int) -> None:
    """The mean of many groups is held, also where most groups are all right."""
    shares = [0.5 + 0.48 * place / 29 for place in range(30)]

    def draw(random: Random) -> Interval | None:
        counts = [(draw_binomial(size, share, random), size) for share in shares]
        return average_shares(counts).interval

    assert 0.93 <= measure_coverage(draw, sum(shares) / 30) <= 1.0


def test_ratios_of_sums() -> None:
    """Samples of one to four outcomes, with shares of their own, have a ratio that is held."""

    def draw(random: Random) -> Interval | None:
        sizes = [random.randrange(1, 5) for _ in range(50)]
        tops = [draw_binomial(size, random.betavariate(8, 2), random) for size in sizes]
        ratio = Ratio()
        for top, size in zip(tops, sizes, strict=True):
            ratio.add(top, size)
        return bound_value(
            ratio.value, ratio.std_error, 49, "ratio_t", score_method="ratio_wilson", is_share=True
        ).interval

    assert 0.91 <= measure_coverage(draw, 0.8) <= 0.99


def test_mean_f1_of_classes() -> None:
    """The delta method holds the mean F1 of three classes, of which one is hard."""
    shares = {"A": 0.9, "B": 0.8, "C": 0.5}
    cells = [(truth, guess) for truth in shares for guess in shares]
    weights = [shares[a] if a == b else (1 - shares[a]) / 2 for a, b in cells]
    metric = MulticlassClassification("truth", "said")

    def measure(counts: Mapping[tuple[str, str], int]) -> MetricValue:
        values = ValueCounts(names=["truth", "said"], counts=list(counts.items()))
        return metric.make_values(values, metric.collect(values))[-1]

    exact = measure(dict(zip(cells, (round(weight * 10**6) for weight in weights), strict=True)))
    assert (exact.name, exact.interval_method) == ("macro_f1_score", "ratio_wilson")

    def draw(random: Random) -> Interval | None:
        return measure(Counter(random.choices(cells, weights, k=100))).interval

    assert exact.value is not None
    assert 0.91 <= measure_coverage(draw, exact.value) <= 0.99


@pytest.mark.parametrize(
    ("n", "first", "second"),
    [(100, 0.05, 0.0), (200, 0.05, 0.05), (50, 0.2, 0.1), (80, 0.02, 0.01)],
)
def test_differences(n: int, first: float, second: float) -> None:
    """The difference of two runs is held, with few flips and with many, to one side and to both."""

    def draw(random: Random) -> Interval | None:
        # Where the runs do not differ, both have 0.8 right.
        won = draw_binomial(n, first, random)
        lost = draw_binomial(n - won, second / (1 - first), random)
        tied = draw_binomial(n - won - lost, 0.8, random)
        pairs = [(1.0, 1.0, tied), (1.0, 0.0, won), (0.0, 1.0, lost)]
        return measure_difference([*pairs, (0.0, 0.0, n - won - lost - tied)]).evidence.interval

    assert 0.91 <= measure_coverage(draw, first - second) <= 1.0
