from __future__ import annotations

from answerkey.importers.logs import LookupTable


def test_what_is_put_is_got_and_the_last_of_a_name_counts() -> None:
    """A name that was never put has nothing."""
    with LookupTable() as table:
        table.put("a", {"value": 1.5})
        table.put("a", ["two", None])
        assert (table.get("a"), table.get("b"), table.count) == (["two", None], None, 2)


def test_half_a_surrogate_pair_is_no_obstacle() -> None:
    """Names come from logs, which may hold anything."""
    with LookupTable() as table:
        table.put("\ud800", "\udfff")
        assert table.get("\ud800") == "\udfff"
