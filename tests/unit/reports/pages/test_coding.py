from __future__ import annotations

import polars as pl
import pytest

from answerkey.reports.pages import coding
from answerkey.reports.pages.coding import Coder, encode
from answerkey.reports.pages.filtering import Query
from answerkey.reports.pages.rows import open_rows

from .conftest import MakeRun


def build(*parts: list[str | None]) -> Coder:
    """Return a coder that has seen these parts."""
    coder = Coder()
    for part in parts:
        coder.add(pl.Series(part, dtype=pl.String))
    return coder


def test_texts_are_numbered_as_they_appear() -> None:
    """Parts share their numbers; null stays null."""
    found = build(["b", None, "a"], ["a", "c"], [None]).finish(6)
    assert found is not None
    assert found.names == ("b", "a", "c")
    assert found.codes.to_list() == [0, None, 1, 1, 2, None]
    assert found.matches("a").to_list() == [False, False, True, True, False, False]
    assert not found.matches("nobody").any()
    assert found.rank().to_list() == [1, None, 0, 0, 2, None]


@pytest.mark.parametrize("parts", [[], [[None, None]]])
def test_a_column_may_be_empty(parts: list[list[str | None]]) -> None:
    """Nothing matches, nothing has a rank."""
    found = build(*parts).finish(2)
    assert found is not None
    assert found.names == ()
    assert found.rank().to_list() == [None, None]
    assert found.matches("x").to_list() == [False, False]


def test_too_many_texts_are_not_numbered(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters and sorting then look at the rows themselves, and find the same."""
    run = make_run()
    queries = [Query(category="nature"), Query(truth="B"), Query(sort="category", descending=True)]
    plain = [open_rows(run).find(query).to_list() for query in queries]
    monkeypatch.setattr(coding, "MOST_NAMES", 2)
    book = open_rows(run)
    assert book.index.columns["category"] is None
    assert book.index.list_names("category") == []
    assert [book.find(query).to_list() for query in queries] == plain


def test_lists_are_numbered_for_the_page() -> None:
    """-1 stands for nothing."""
    assert encode(["x", None, "y", "x"]) == ([0, -1, 1, 0], ["x", "y"])
