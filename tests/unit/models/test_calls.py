"""Laws of budgets and prices, and of the quick JSON encoder."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.errors import SolverError
from answerkey.models.calls import Budget, charge, charge_completion
from answerkey.models.config import Price
from answerkey.models.store import decode_completion, encode_completion
from answerkey.types import Completion, CompletionStatus


def test_the_number_of_calls_is_never_passed() -> None:
    """With a limit of two calls the third is refused with E305.

    Without one, calls are only counted. What an earlier part of the run has asked counts, even
    beyond the limit.
    """
    free, budget, resumed = Budget(), Budget(max_calls=2), Budget(max_calls=5, calls=3)
    assert all(free.reserve(1e9) for _ in range(3))
    assert (budget.reserve(0), budget.reserve(0)) == (True, True)
    resumed.admit(3)
    for one, match in ((budget, "limit of 2 calls"), (resumed, "limit of 5 calls")):
        with pytest.raises(SolverError, match=match) as raised:
            one.reserve(0)
        assert (raised.value.code, raised.value.exit_code) == ("E305", 3)
    assert (free.calls, budget.calls, resumed.calls) == (3, 2, 6)


def test_money_under_way_counts_until_it_is_settled() -> None:
    """A call that fits only if those under way cost less than set aside has to wait, and is then
    let in.
    """
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


def test_cached_tokens_have_a_price_of_their_own() -> None:
    """Read and written tokens are taken out of the prompt's.

    Without a price they cost what others do.
    """
    said = Completion(
        "B",
        prompt_tokens=100,
        completion_tokens=10,
        cached_tokens=60,
        cache_write_tokens=30,
    )
    assert charge_completion(Price(2.0, 5.0), said) == 250.0
    assert charge_completion(Price(2.0, 5.0, cached=0.5, written=3.0), said) == 20 + 30 + 90 + 50
    more = Completion("B", prompt_tokens=10, completion_tokens=0, cached_tokens=60)
    assert charge_completion(Price(2.0, 5.0, cached=0.5), more) == 30.0


def test_a_batch_costs_half() -> None:
    """Of every price."""
    tokens, price = (100, 10, 60, 30), Price(2.0, 5.0, cached=0.5, written=3.0)
    assert charge(price, *tokens, is_batch=True) == charge(price, *tokens) / 2
    assert charge_completion(price, Completion("B", prompt_tokens=100, source="batch")) == 100.0
    assert charge_completion(price, Completion("B", prompt_tokens=100, source="live")) == 200.0


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)


@given(st.text(st.characters()), st.floats(), st.integers(min_value=0), VALUES)
def test_completions_come_back(text: str, latency: float, tokens: int, logprobs: object) -> None:
    """Whatever is in its fields; a number that is not finite is null."""
    completion = Completion(
        text,
        CompletionStatus.OK,
        latency=latency,
        prompt_tokens=tokens,
        logprobs={"content": logprobs},
    )
    written = encode_completion(completion)
    assert json.loads(written)["status"] == "OK"
    result = decode_completion(written)
    assert (result.text, result.prompt_tokens) == (text, tokens)
    assert result.latency == (latency if math.isfinite(latency) else None)
