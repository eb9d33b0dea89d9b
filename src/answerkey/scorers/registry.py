"""The scorers there are, by type: ours, and those that installed packages bring through entry points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import entry_points

from answerkey.scorers.base import Scorer

GROUP = "answerkey.scorers"


class Registry(Mapping[str, type[Scorer]]):
    """Scorer classes by type; other packages are only looked at when ours do not have the type.

    An entry point's name is the scorer's type; a name of ours cannot be taken over.
    """

    def __init__(self, own: Mapping[str, type[Scorer]]) -> None:
        self._own = own

    @cached_property
    def _foreign(self) -> dict[str, type[Scorer]]:
        found = {point.name: point for point in entry_points(group=GROUP) if point.name not in self._own}
        return {name: point.load() for name, point in sorted(found.items())}

    def __getitem__(self, name: str) -> type[Scorer]:
        return self._own[name] if name in self._own else self._foreign[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._foreign

    def __len__(self) -> int:
        return len(self._own) + len(self._foreign)
