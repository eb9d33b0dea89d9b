"""The laws of what a run may cost."""

from __future__ import annotations

import pytest

from answerkey.errors import SolverError
from answerkey.models.calls import Budget, Price


def test_without_limits_everything_may_be_asked() -> None:
    """A budget without limits refuses nothing, and counts."""
    budget = Budget()
    assert all(budget.reserve(1e9) for _ in range(3))
    assert budget.calls == 3


def test_the_number_of_calls_is_never_passed() -> None:
    """With a limit of two calls the third is refused with E305."""
    budget = Budget(max_calls=2)
    assert budget.reserve(0)
    assert budget.reserve(0)
    with pytest.raises(SolverError, match="limit of 2 calls") as raised:
        budget.reserve(0)
    assert raised.value.code == "E305"
    assert raised.value.exit_code == 3
    assert budget.calls == 2


def test_calls_of_an_earlier_part_of_the_run_count() -> None:
    """A resumed run goes on with the count it had."""
    with pytest.raises(SolverError, match="E305"):
        Budget(max_calls=5, calls=5).reserve(0)


def test_money_under_way_counts_until_it_is_settled() -> None:
    """A call that fits only if those under way cost less than set aside has to wait, and is then let in."""
    budget = Budget(max_cost=1.0)
    assert budget.reserve(0.6)
    assert not budget.reserve(0.6)
    budget.settle(0.6, 0.1)
    assert budget.reserve(0.6)
    assert budget.calls == 2


def test_money_is_never_overspent() -> None:
    """A call that would pass the limit by what is spent already is refused with E305."""
    budget = Budget(max_cost=1.0)
    assert budget.reserve(0.6)
    budget.settle(0.6, 0.6)
    with pytest.raises(
        SolverError, match=r"limit of 1: 0\.6000 is spent, and the next call may cost 0\.6000"
    ):
        budget.reserve(0.6)


def test_a_price_charges_both_ways() -> None:
    """Prompt and completion tokens have prices of their own."""
    assert Price(prompt=0.5, completion=2.0).charge(10, 3) == 11.0


def test_calls_that_were_sent_before_are_counted_even_beyond_the_limit() -> None:
    """They are made already; the next one is refused."""
    budget = Budget(max_calls=2)
    budget.admit(3)
    assert budget.calls == 3
    with pytest.raises(SolverError, match="E305"):
        budget.reserve(0)
