"""What a YAML file says, as a tree whose every node knows its file, line and column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final

from answerkey.errors import Place

Path = tuple[str | int, ...]


class Broken:
    """What stands in for a value that could not be had, as was reported: nothing more is said about it."""

    def __repr__(self) -> str:
        return "what was reported"


BROKEN: Final = Broken()


@dataclass(frozen=True)
class ScalarNode:
    """A single value; `style` is YAML's mark for it (`|`, `>`, quotes or none), `include`, or `caller`."""

    value: object
    place: Place
    style: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether the value could not be had, which was reported."""
        return self.value is BROKEN

    @property
    def is_included(self) -> bool:
        """Whether the text is a whole file that `!include` named."""
        return self.style == "include"

    @property
    def is_callers(self) -> bool:
        """Whether the value begins with one that the caller's environment holds: `$V` or `$V/x`."""
        return self.style == "caller"

    def place_of_line(self, line: int | None, column: int | None = None) -> Place:
        """Return where a line of the text stands; for folded and quoted texts, where they begin.

        The column is known in texts of their own file only: YAML indents the others.
        """
        start = self.place.line
        if line is None or start is None:
            return self.place
        if self.is_included and line == 1:
            return replace(self.place, column=(self.place.column or 1) + (column or 1) - 1)
        if self.is_included:
            return replace(self.place, line=start + line - 1, column=column)
        if self.style == "|":
            return replace(self.place, line=start + line, column=None)
        return self.place


@dataclass(frozen=True)
class ListNode:
    """A YAML sequence."""

    entries: tuple[Node, ...]
    place: Place
    is_broken: ClassVar[bool] = False


@dataclass(frozen=True)
class MapNode:
    """A YAML mapping with text keys; `keys` says where each key stands.

    One that `is_broken` lacks what another file was to bring: that a key is missing means nothing.
    """

    entries: dict[str, Node]
    place: Place
    keys: dict[str, Place] = field(default_factory=dict)
    is_broken: bool = False

    def get(self, key: str) -> Node | None:
        """Return the node of a key, or None."""
        return self.entries.get(key)

    def key_place(self, key: str) -> Place:
        """Return where a key stands; the mapping's own place when the key is not written."""
        return self.keys.get(key, self.place)

    def without(self, *names: str) -> MapNode:
        """Return the mapping without these keys."""
        kept = {key: node for key, node in self.entries.items() if key not in names}
        return replace(self, entries=kept)

    def having(self, key: str, node: Node) -> MapNode:
        """Return the mapping with a key set."""
        return replace(self, entries={**self.entries, key: node}, keys={key: node.place, **self.keys})


Node = ScalarNode | ListNode | MapNode


def break_node(place: Place) -> ScalarNode:
    """Return what stands where a value could not be had; the reason was reported."""
    return ScalarNode(BROKEN, place)


def holds_broken(value: object) -> bool:
    """Return whether a plain value is, or has inside it, one that could not be had."""
    if isinstance(value, Mapping):
        return any(holds_broken(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(holds_broken(one) for one in value)
    return value is BROKEN


def to_plain(node: Node) -> object:
    """Return the tree as plain Python values."""
    if isinstance(node, MapNode):
        return {key: to_plain(entry) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [to_plain(entry) for entry in node.entries]
    return node.value


def from_plain(value: object, place: Place) -> Node:
    """Return plain values as a tree whose nodes all stand at `place`."""
    if isinstance(value, Mapping):
        entries = {str(key): from_plain(entry, place) for key, entry in value.items()}
        return MapNode(entries, place)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ListNode(tuple(from_plain(entry, place) for entry in value), place)
    return ScalarNode(value, place)


def list_entries(node: MapNode, name: str) -> tuple[Node, ...]:
    """Return the entries of the list under a key; none when there is no list."""
    found = node.get(name)
    return found.entries if isinstance(found, ListNode) else ()


def is_null(node: Node) -> bool:
    """Whether a node is null, which is the same as not being written."""
    return isinstance(node, ScalarNode) and node.value is None


def key_of(node: Node) -> str | None:
    """Return the `key` that a mapping states."""
    key = node.get("key") if isinstance(node, MapNode) else None
    is_given = isinstance(key, ScalarNode) and key.value is not None and not key.is_broken
    return str(key.value) if is_given else None  # type: ignore[union-attr]  # it is a scalar then


def find_node(root: Node, path: Path) -> tuple[Node, Path]:
    """Return the deepest node that exists on the way along `path`, and the way to it.

    Steps that lead nowhere are passed over: pydantic puts the names of union members among them.
    """
    node, taken = root, Path()
    for step in path:
        inner = _step(node, step)
        if inner is not None:
            node, taken = inner, (*taken, step)
    return node, taken


def _step(node: Node, step: str | int) -> Node | None:
    if isinstance(node, MapNode) and isinstance(step, str):
        return node.entries.get(step)
    if isinstance(node, ListNode) and isinstance(step, int) and step < len(node.entries):
        return node.entries[step]
    return None


def walk_scalars(node: Node, path: Path = ()) -> Iterator[tuple[Path, ScalarNode]]:
    """Yield every scalar of a tree with the way to it."""
    if isinstance(node, ScalarNode):
        yield path, node
    elif isinstance(node, ListNode):
        for index, entry in enumerate(node.entries):
            yield from walk_scalars(entry, (*path, index))
    else:
        for key, entry in node.entries.items():
            yield from walk_scalars(entry, (*path, key))


def map_scalars(node: Node, change: Callable[[Path, ScalarNode], Node], path: Path = ()) -> Node:
    """Return the tree with every scalar replaced by what `change` makes of it."""
    if isinstance(node, ScalarNode):
        return change(path, node)
    if isinstance(node, ListNode):
        entries = (map_scalars(entry, change, (*path, index)) for index, entry in enumerate(node.entries))
        return ListNode(tuple(entries), node.place)
    changed = {key: map_scalars(entry, change, (*path, key)) for key, entry in node.entries.items()}
    return replace(node, entries=changed)


@dataclass(frozen=True)
class Places:
    """Where the parts of a task stand: called with a way such as `("definition", "scorers", 0)`."""

    root: Node

    def __call__(self, path: Path) -> Place:
        """Return the place of the node at `path`, or of the nearest one above it."""
        return find_node(self.root, path)[0].place

    def key(self, path: Path) -> Place:
        """Return where the last key of `path` stands, or the nearest node above it."""
        holder = find_node(self.root, path[:-1])[0]
        is_written = isinstance(holder, MapNode) and path[-1] in holder.entries
        return holder.key_place(str(path[-1])) if is_written else self(path)  # type: ignore[union-attr]  # a mapping then

    def of_line(self, path: Path, line: int | None) -> Place:
        """Return where a line of the text at `path` stands."""
        node = find_node(self.root, path)[0]
        return node.place_of_line(line) if isinstance(node, ScalarNode) else node.place

    def of_template(self, source: str) -> Place | None:
        """Return where a template stands, with its braces or as a bare expression."""
        written = {source, source.removeprefix("{{ ").removesuffix(" }}")}
        texts = ((node.value, node.place) for _, node in walk_scalars(self.root))
        return next((place for value, place in texts if isinstance(value, str) and value in written), None)

    @cached_property
    def file(self) -> str | None:
        """The file of the root."""
        return self.root.place.file
