from __future__ import annotations

import importlib.metadata

import pytest

from answerkey.datasets import SOURCES, InlineSource, LocalSource, Source
from answerkey.datasets import sources as module
from answerkey.datasets.sources import SourceKinds


def test_the_built_in_kinds_are_found_by_type() -> None:
    """`local` and `inline` are there."""
    assert SOURCES["local"] is LocalSource
    assert SOURCES["inline"] is InlineSource


def test_the_built_in_kinds_are_sources() -> None:
    """Each has a type, filters and a way to read its rows."""
    assert isinstance(LocalSource("a.csv"), Source)
    assert isinstance(InlineSource(()), Source)


def test_an_unknown_kind_is_no_key() -> None:
    """A kind that nobody registered raises KeyError."""
    with pytest.raises(KeyError):
        SOURCES["nowhere"]


def test_other_packages_add_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points are looked up only when a name is not built in, and do not replace what is."""
    entries = [
        importlib.metadata.EntryPoint("ours", "answerkey.datasets.sources:InlineSource", "answerkey.sources"),
        importlib.metadata.EntryPoint(
            "local", "answerkey.datasets.sources:InlineSource", "answerkey.sources"
        ),
    ]
    asked: list[str] = []

    def find(*, group: str) -> list[importlib.metadata.EntryPoint]:
        asked.append(group)
        return entries

    monkeypatch.setattr(module, "entry_points", find)
    kinds = SourceKinds({"local": LocalSource})
    assert kinds["local"] is LocalSource
    assert asked == []
    assert kinds["ours"] is InlineSource
    assert (list(kinds), len(kinds), kinds["local"]) == (["local", "ours"], 2, LocalSource)
    assert asked == ["answerkey.sources"]
