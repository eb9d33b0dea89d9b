"""Places on other machines where an object of ours can live; an engine provides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol


class StationLostError(Exception):
    """The process of a station, or its whole node, is gone; what it was doing is not known."""


@dataclass(frozen=True)
class Node:
    """A machine that takes work; `address` is how others reach it."""

    name: str
    address: str


class Station(Protocol):
    """A process on a node with one object in it."""

    def call(self, method: str, *given: object) -> Future[Any]:
        """Call a method of the object; the future may hold a `StationLostError`, or an error of ours.

        Several calls may be under way at a time. What is given and what comes back can be pickled.
        """
        ...

    def close(self) -> None:
        """End the process, whatever it is doing; twice does no harm."""
        ...


class Stations(Protocol):
    """The nodes of an engine, and how an object comes to live there."""

    def list_nodes(self) -> Sequence[Node]:
        """Return the nodes that are there now, in the same order each time."""
        ...

    def open(self, node: Node, build: Callable[[str], object]) -> Station:
        """Start a process on a node; `build` is called there with the node's address, and its value kept.

        Returns at once. What `build` raises is raised by every call.
        """
        ...
