from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from answerkey import types
from answerkey.datasets.sources import SOURCES
from answerkey.errors import SpecError
from answerkey.metrics import METRICS
from answerkey.scorers import SCORERS
from answerkey.solvers import SOLVERS
from answerkey.types import Notice, Registry, Row

GROUP = "answerkey.kinds"


class Entries:
    """Entry points as installed packages would bring them; `asked` counts the looks at them."""

    def __init__(self, **values: str) -> None:
        self.points = [EntryPoint(name, value, GROUP) for name, value in values.items()]
        self.asked: list[str] = []

    def __call__(self, *, group: str) -> list[EntryPoint]:
        """Stand in for the standard library's search."""
        self.asked.append(group)
        return self.points


def open_registry(monkeypatch: pytest.MonkeyPatch, entries: Entries) -> Registry[object]:
    """Return a registry with a built-in kind and these entry points."""
    monkeypatch.setattr(types, "entry_points", entries)
    return Registry(GROUP, ["own"], lambda _: Row)


def test_other_packages_are_only_looked_at_for_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A built-in kind is found without a search of the installed packages, which happens once."""
    entries = Entries(theirs="answerkey.types:Notice")
    kinds = open_registry(monkeypatch, entries)
    assert kinds["own"] is Row
    assert entries.asked == []
    assert kinds["theirs"] is Notice
    assert (list(kinds), len(kinds), "nobody's" in kinds) == (["own", "theirs"], 2, False)
    assert entries.asked == [GROUP]


def test_name_of_ours_cannot_be_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point with a built-in name is ignored."""
    kinds = open_registry(monkeypatch, Entries(own="answerkey.types:Notice"))
    assert (kinds["own"], list(kinds)) == (Row, ["own"])


def test_a_package_that_does_not_load_costs_only_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken package is told by name when its kind is asked for, and not before."""
    entries = Entries(broken="no_such_module:Kind", fine="answerkey.types:Notice")
    kinds = open_registry(monkeypatch, entries)
    assert kinds["fine"] is Notice
    with pytest.raises(SpecError) as caught:
        kinds["broken"]
    message = "`broken` of `no_such_module:Kind` cannot be loaded: No module named 'no_such_module'"
    assert (caught.value.code, caught.value.message) == ("E109", message)


def test_name_that_two_packages_bring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of two packages is meant is not guessed."""
    entries = Entries(theirs="answerkey.types:Notice")
    entries.points.append(EntryPoint("theirs", "answerkey.types:Row", GROUP))
    kinds = open_registry(monkeypatch, entries)
    with pytest.raises(SpecError) as caught:
        kinds["theirs"]
    message = "`theirs` is provided by `answerkey.types:Notice` and by `answerkey.types:Row`"
    assert caught.value.message == message


def test_each_room_has_its_group() -> None:
    """The group of a room's entry points is `answerkey.` and its name in docs."""
    registries: dict[str, Registry[Any]]
    registries = {"sources": SOURCES, "solvers": SOLVERS, "scorers": SCORERS, "metrics": METRICS}
    for name, registry in registries.items():
        assert registry.group == f"answerkey.{name}"
