from __future__ import annotations

from answerkey.models.actors import Order, share_out
from answerkey.models.config import connect
from answerkey.models.retry import Limits
from answerkey.models.settings import Caller

CALLER = Caller({})


def share(url: str, limits: Limits, nodes: int) -> list[tuple[int | None, float | None, float | None]]:
    """Return places, requests and tokens a minute of each branch."""
    orders = share_out(Order(connect(url, caller=CALLER), limits), nodes)
    found = [one.connection for one in orders]
    return [(one.max_concurrent, one.requests_per_minute, one.tokens_per_minute) for one in found]


def test_limits_are_shared_out() -> None:
    """All shares together are the whole."""
    limits = Limits(max_concurrent=64, requests_per_minute=600, tokens_per_minute=9000)
    assert share("http://127.0.0.1:9/v1#m", limits, 3) == [(22, 200, 3000), (21, 200, 3000), (21, 200, 3000)]


def test_without_rates_places_alone_are_shared() -> None:
    """What is not limited stays so."""
    assert share("http://127.0.0.1:9/v1#m", Limits(), 2) == [(32, None, None)] * 2


def test_no_branch_has_less_than_a_place_and_a_request_a_second() -> None:
    """With more nodes than that, some ask nothing."""
    url = "http://127.0.0.1:9/v1#m"
    assert share(url, Limits(max_concurrent=2), 8) == [(1, None, None)] * 2
    assert share(url, Limits(requests_per_minute=120), 8) == [(32, 60, None)] * 2
    assert share(url, Limits(requests_per_minute=10), 8) == [(64, 10, None)]


def test_endpoints_of_their_own_have_limits_of_their_own() -> None:
    """Where each node has an endpoint, each may be asked as much as the limits say."""
    assert share("http://{node_ip}:8000/v1#m", Limits(max_concurrent=5), 2) == [(None, None, None)] * 2
