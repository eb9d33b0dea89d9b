"""The kinds of one room by name: ours, and those that installed packages bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from answerkey.errors import SpecError

Kind = TypeVar("Kind")


class Registry(Mapping[str, type[Kind]]):
    """Classes by the name that stands in `type:`.

    A package adds one through an entry point of the group, under its name; a name of ours cannot be taken
    over. Other packages are looked at only when ours do not have a name, and loaded when theirs is asked for.
    """

    def __init__(self, group: str, own: Mapping[str, type[Kind]]) -> None:
        self.group = group
        self._own = dict(own)
        self._loaded: dict[str, type[Kind]] = {}

    def __getitem__(self, name: str) -> type[Kind]:
        if name in self._own:
            return self._own[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self._foreign[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._foreign

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._foreign

    def __len__(self) -> int:
        return len(self._own) + len(self._foreign)

    @cached_property
    def _foreign(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self.group), key=lambda one: (one.name, one.value)):
            known = found.setdefault(point.name, point)
            if known.value != point.value and point.name not in self._own:
                both = f"{_name_package(known)} and by {_name_package(point)}"
                raise self._refuse(f"`{point.name}` is brought by {both}")
        return {name: point for name, point in found.items() if name not in self._own}

    def _load(self, point: EntryPoint) -> type[Kind]:
        try:
            kind: type[Kind] = point.load()
        except (ImportError, AttributeError) as error:
            message = f"`{point.name}` of {_name_package(point)} cannot be loaded: {error}"
            raise self._refuse(message) from error
        return kind

    def _refuse(self, message: str) -> SpecError:
        hint = f"update or uninstall the package; it is an entry point of the group `{self.group}`"
        return SpecError("E109", message, hint=hint)


def _name_package(point: EntryPoint) -> str:
    return f"package `{point.dist.name}`" if point.dist else f"`{point.value}`"
