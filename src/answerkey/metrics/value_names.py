"""What the values of a metric will be called, as far as that is known before there are scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class ValueNames:
    """Names that are certain, and openings with endings between which the scores put a label.

    `is_share` says that all these values lie within [0, 1] by their nature.
    """

    names: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()
    is_share: bool = False

    def allow(self, name: str) -> bool:
        """Return whether a value may be called so."""
        return name in self.names or any(_fits(name, opening, ending) for opening, ending in self.patterns)


#: Of a function of the user's own, and of a metric that says nothing about its names.
ANY_NAME = ValueNames(patterns=(("", ""),))


@runtime_checkable
class NamesValues(Protocol):
    """A metric that can tell what its values will be called."""

    def value_names(self) -> ValueNames:
        """Return what the values will be called."""
        ...


def foresee_names(metric: object) -> ValueNames:
    """Return what the values of a metric will be called."""
    return metric.value_names() if isinstance(metric, NamesValues) else ANY_NAME


def _fits(name: str, opening: str, ending: str) -> bool:
    is_long_enough = len(name) >= len(opening) + len(ending)
    return is_long_enough and name.startswith(opening) and name.endswith(ending)
