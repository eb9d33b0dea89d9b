from __future__ import annotations

import pytest

from answerkey.datasets import SOURCES, InlineSource, LocalSource, Source


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
