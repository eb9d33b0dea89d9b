from __future__ import annotations

from random import Random

import pytest
from tests.lazy import stats

from answerkey.metrics import wilson
from answerkey.metrics.paired import (
    Aim,
    Flips,
    adjust_by_holm,
    bound_flips,
    count_samples,
    mcnemar,
    measure_difference,
    measure_power,
    smallest_difference,
)

#: claude-3-opus and gpt-4o on MMLU: both right, only one, neither.
KNOWN = [(1.0, 1.0, 11_087), (1.0, 0.0, 831), (0.0, 1.0, 799), (0.0, 0.0, 1_297)]


def test_a_known_comparison_has_its_known_numbers() -> None:
    """+0.002283 with the standard error 0.002881, exact p 0.44259 and mid-p 0.42816."""
    result = measure_difference(KNOWN)
    assert (result.n, result.flips) == (14_014, Flips(11_087, 831, 799, 1_297))
    assert round(result.value, 6) == 0.002283
    assert round(result.evidence.std_error or 0, 6) == 0.002881
    assert (round(result.p_exact or 0, 5), round(result.p_mid or 0, 5)) == (0.44259, 0.42816)
    assert (result.evidence.p, result.evidence.p_method) == (result.p_exact, "mcnemar_exact")


@pytest.mark.parametrize(
    ("first", "second"), [(0, 1), (3, 9), (12, 30), (831, 799), (4_000, 4_200)]
)
def test_exact_test_agrees_with_scipy(first: int, second: int) -> None:
    """McNemar's exact test is the two-sided test of a fair coin on the flips.

    Mid-p halves the tie.
    """
    exact, mid = mcnemar(Flips(5, first, second, 5))
    assert exact == pytest.approx(stats.binomtest(first, first + second).pvalue, rel=1e-9)
    tie = stats.binom.pmf(min(first, second), first + second, 0.5)
    assert mid == pytest.approx(exact - tie, rel=1e-9)


@pytest.mark.parametrize("each", [0, 1, 40])
def test_equal_flips_on_both_sides_are_no_evidence(each: int) -> None:
    """Both p-values are 1, and not more."""
    assert mcnemar(Flips(1, each, each, 1)) == (1.0, 1.0)


def test_other_values_have_the_paired_t_test() -> None:
    """Values between 0 and 1 have scipy's paired t test and interval, and no flips."""
    random = Random(3)
    pairs = [(random.random(), random.random()) for _ in range(25)]
    result = measure_difference([(a, b, 1) for a, b in pairs])
    theirs = stats.ttest_rel([a for a, _ in pairs], [b for _, b in pairs])
    assert (result.flips, result.p_exact, result.evidence.p_method) == (None, None, "paired_t")
    assert result.evidence.p == pytest.approx(theirs.pvalue, rel=1e-9)
    ends = theirs.confidence_interval(0.95)
    assert result.evidence.interval == pytest.approx((ends.low, ends.high), rel=1e-11)


def test_interval_of_many_flips_is_that_of_student() -> None:
    """With ten flips or more, the mean of the differences ± t · error."""
    result = measure_difference(KNOWN)
    error, reach = result.evidence.std_error or 0, stats.t.ppf(0.975, 14_013)
    ends = (result.value - reach * error, result.value + reach * error)
    assert result.evidence.interval == pytest.approx(ends, rel=1e-12)
    assert result.evidence.interval_method == "student_t"


def test_few_flips_have_an_interval_that_is_wide_enough() -> None:
    """With fewer than ten flips the interval is Newcombe's, by the Wilson intervals of both
    shares.
    """
    result = measure_difference([(1.0, 1.0, 90), (1.0, 0.0, 5), (0.0, 0.0, 5)])
    assert (result.value, result.evidence.interval_method) == (0.05, "newcombe")
    low, high = result.evidence.interval or (0.0, 0.0)
    assert low < 0.05 < high
    assert (round(low, 4), round(high, 4)) == (0.0007, 0.1112)


def test_clusters_widen_the_interval() -> None:
    """The error is that of cluster sums, and the test has C - 1 degrees of freedom."""
    clusters = {}
    for place in range(12):
        clusters[str(place)] = [(1.0, 0.0, 1 + place % 3), (0.0, 1.0, place % 2), (1.0, 1.0, 4)]
    pairs = [pair for cluster in clusters.values() for pair in cluster]
    result = measure_difference(pairs, clusters)
    assert (result.evidence.clusters, result.evidence.p_method) == (12, "clustered_t")
    n, mean = result.n, result.value
    counts = [(1 + place % 3, place % 2) for place in range(12)]
    residuals = [won - lost - mean * (4 + won + lost) for won, lost in counts]
    expected = (12 / 11 * sum(residual**2 for residual in residuals)) ** 0.5 / n
    assert result.evidence.std_error == pytest.approx(expected, rel=1e-13)
    assert result.evidence.p == pytest.approx(2 * stats.t.sf(mean / expected, 11), rel=1e-9)


def test_few_clusters_have_an_error_and_no_interval() -> None:
    """Two clusters say too little, and the note says so."""
    few = {"a": [(1.0, 0.0, 3)], "b": [(0.0, 0.0, 3)]}
    result = measure_difference([*few["a"], *few["b"]], few)
    assert (result.evidence.interval, result.evidence.p) == (None, None)
    assert result.evidence.interval_note == "it needs 5 clusters, there are 2"
    clusters = {str(place): [(1.0, float(place > 1), 2)] for place in range(5)}
    result = measure_difference([pair for (pair,) in clusters.values()], clusters)
    assert (result.evidence.clusters, result.evidence.interval_method) == (5, "clustered_t")


def test_holm_steps_down() -> None:
    """The smallest p counts as often as there are comparisons, the next one time less, and so
    on.
    """
    assert adjust_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_by_holm([0.8, None, 0.6]) == [1.0, None, 1.0]
    assert adjust_by_holm([0.2]) == [0.2]


@pytest.mark.parametrize(
    ("pairs", "error", "note"),
    [
        ([(0.5, 0.25, 1)], None, "there is only one sample"),
        ([(0.5, 0.25, 3), (1.0, 0.75, 2)], 0.0, "all samples differ alike"),
    ],
)
def test_differences_without_a_spread_have_no_interval(
    pairs: list[tuple[float, float, int]], error: float | None, note: str
) -> None:
    """One sample, or samples that all differ by the same number, say nothing about the next."""
    result = measure_difference(pairs)
    assert (result.value, result.evidence.std_error) == (0.25, error)
    assert (result.evidence.interval, result.evidence.interval_note) == (None, note)


@pytest.mark.parametrize(("flips", "method"), [(9, "newcombe"), (10, "student_t")])
def test_ten_flips_are_enough_for_student(flips: int, method: str) -> None:
    """With fewer the interval is Newcombe's."""
    result = measure_difference([(1.0, 0.0, flips), (1.0, 1.0, 40)])
    assert result.evidence.interval_method == method


@pytest.mark.parametrize(
    ("flips", "tie"),
    [
        (Flips(5, 3, 2, 14), (5 * 14 - 3 * 2 - 12) / (8 * 16 * 7 * 17) ** 0.5),
        (Flips(1, 6, 5, 2), (1 * 2 - 6 * 5) / (7 * 7 * 6 * 8) ** 0.5),
        (Flips(8, 2, 0, 0), 0.0),
    ],
    ids=["corrected by half a sample", "negative as it is", "no spread to share"],
)
def test_newcombe_s_interval_is_that_of_his_formula(flips: Flips, tie: float) -> None:
    """Method 10 of Newcombe (1998), by hand, with the correlation `tie` of the runs."""
    n = flips.both + flips.first_only + flips.second_only + flips.neither
    right = (flips.both + flips.first_only, flips.both + flips.second_only)
    p, q = (x / n for x in right)
    (low, high), (other_low, other_high) = (wilson(x, n) for x in right)
    a, b = p - low, other_high - q
    c, d = high - p, q - other_low
    below, above = a**2 - 2 * tie * a * b + b**2, c**2 - 2 * tie * c * d + d**2
    assert bound_flips(flips) == pytest.approx((p - q - below**0.5, p - q + above**0.5))


#: Miller 2024: ω² = 1/9 and σ² = 1/6 of each model.
VARIANCE = 1 / 9 + 1 / 6 + 1 / 6


@pytest.mark.parametrize(("trials", "samples"), [(1, 3_876), (10, 1_260)])
def test_known_plans_have_their_known_size(trials: int, samples: int) -> None:
    """A difference of 0.03 takes 3,876 samples when each is asked once, 1,260 when it is asked ten
    times.
    """
    variance = 1 / 9 + (1 / 6 + 1 / 6) / trials
    assert count_samples(variance, 0.03, Aim()) == samples


def test_smallest_difference_and_samples_undo_each_other() -> None:
    """With the samples that a difference takes, the smallest difference is that one, or a little
    less.
    """
    samples = count_samples(VARIANCE, 0.05, Aim())
    assert smallest_difference(VARIANCE, samples, Aim()) <= 0.05
    assert smallest_difference(VARIANCE, samples - 1, Aim()) > 0.05


def test_power_at_the_smallest_difference_is_the_requested_power() -> None:
    """The test sees it in 80 of 100 cases; without any difference, it errs in 5."""
    smallest = smallest_difference(VARIANCE, 1_000, Aim(power=0.8))
    assert measure_power(VARIANCE, 1_000, smallest, 0.05) == pytest.approx(0.8, abs=1e-5)
    assert measure_power(VARIANCE, 1_000, 0.0, 0.05) == pytest.approx(0.05, abs=1e-12)


def test_power_agrees_with_scipy() -> None:
    """It is the share of a shifted normal variable beyond the critical points."""
    error = (VARIANCE / 400) ** 0.5
    shifted = stats.norm(0.06 / error)
    expected = shifted.sf(stats.norm.ppf(0.995)) + shifted.cdf(-stats.norm.ppf(0.995))
    assert measure_power(VARIANCE, 400, 0.06, 0.01) == pytest.approx(expected, rel=1e-12)


def test_without_spread_one_sample_is_enough() -> None:
    """If nothing varies, the first sample shows it."""
    assert (count_samples(0.0, 0.03, Aim()), measure_power(0.0, 1, 0.03, 0.05)) == (1, 1.0)


def test_no_flip_at_all_is_not_certainty() -> None:
    """Two runs that never differ may still differ on the next sample."""
    low, high = bound_flips(Flips(90, 0, 0, 10))
    assert low < 0 < high
    assert low == pytest.approx(-high, rel=1e-12)
