from __future__ import annotations

import pytest
from scipy.stats import sem

from answerkey.metrics.exact import UNIT_BITS, to_units
from answerkey.metrics.intervals import Ratio, measure_clustered_error, measure_error

#: Values 1, 1, 0, 0, 1, 0 in clusters a, a, b, b, c, c.
CLUSTERS = [(Ratio(2, 2, 2), 1), (Ratio(0, 2, 2), 1), (Ratio(1, 2, 2), 1)]


def test_clustered_error_has_its_known_value() -> None:
    """Three clusters of two: 0.288675 with the correction C/(C-1), 0.235702 without."""
    corrected, _ = measure_clustered_error(CLUSTERS)
    plain, _ = measure_clustered_error(CLUSTERS, is_corrected=False)
    assert (round(corrected or 0, 6), round(plain or 0, 6)) == (0.288675, 0.235702)


def test_each_sample_a_cluster_is_the_plain_error() -> None:
    """Clusters of one are independent samples, and the corrected error is that of a mean."""
    values = [1, 0, 0, 1, 1, 0, 1]
    found, _ = measure_clustered_error([(Ratio(value, 1, 1), 1) for value in values])
    assert found == pytest.approx(sem(values), rel=1e-15)


def test_clusters_that_are_alike_may_be_counted() -> None:
    """A cluster that occurs five times is five clusters."""
    apart = [(Ratio(2, 3, 3), 1)] * 5 + [(Ratio(1, 4, 4), 1)] * 2
    assert measure_clustered_error([(Ratio(2, 3, 3), 5), (Ratio(1, 4, 4), 2)]) == measure_clustered_error(
        apart
    )


def test_units_do_not_matter() -> None:
    """Sums in small units give the very same error."""
    scaled = [(Ratio(one.top << 40, one.bottom << 40, one.n), count) for one, count in CLUSTERS]
    assert measure_clustered_error(scaled) == measure_clustered_error(CLUSTERS)


@pytest.mark.parametrize("clusters", [[], [(Ratio(1, 2, 2), 1)], [(Ratio(0, 0, 2), 1), (Ratio(0, 0, 1), 1)]])
def test_fewer_than_two_clusters_have_no_error(clusters: list[tuple[Ratio, int]]) -> None:
    """Nothing, one cluster, and 0/0 have no spread."""
    assert measure_clustered_error(clusters)[0] is None


def test_error_of_a_mean_is_that_of_scipy() -> None:
    """Of plain numbers the error is s/√n, from exact sums."""
    numbers = [0.1, 0.7, 0.4, 0.4, 12.5]
    units = [to_units(number) for number in numbers]
    ratio = Ratio(sum(units), 5 << UNIT_BITS, 5)
    tops, products = sum(unit**2 for unit in units), sum(units) << UNIT_BITS
    found = measure_error(ratio, tops=tops, products=products, bottoms=5 << 2 * UNIT_BITS)
    assert found == pytest.approx(sem(numbers), rel=1e-15)


@pytest.mark.parametrize("n", [0, 1])
def test_error_needs_two_samples(n: int) -> None:
    """One sample has no spread."""
    assert measure_error(Ratio(1, 1, n), tops=1, products=1, bottoms=1) is None
