from __future__ import annotations

from answerkey.exchange.shelves import Shelf


def test_what_is_put_is_got_and_the_last_of_a_name_counts() -> None:
    """A name that was never put has nothing."""
    with Shelf() as shelf:
        shelf.put("a", {"value": 1.5})
        shelf.put("a", ["two", None])
        assert (shelf.get("a"), shelf.get("b"), shelf.count) == (["two", None], None, 2)


def test_half_a_surrogate_pair_is_no_obstacle() -> None:
    """Names come from logs, which may hold anything."""
    with Shelf() as shelf:
        shelf.put("\ud800", "\udfff")
        assert shelf.get("\ud800") == "\udfff"
