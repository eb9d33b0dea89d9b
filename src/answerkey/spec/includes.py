"""`!include path` and `$ref: path`: other files in place of a node, within the project folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from answerkey.errors import Place, SpecError
from answerkey.spec.environment import Environment
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import ListNode, MapNode, Node, ScalarNode, break_node, to_plain
from answerkey.spec.reader import INCLUDE_STYLE, MAX_NODES, read_text, read_yaml, resolve_path

REF = "$ref"
MAX_FILES = 200
MAX_INCLUDED = 20_000_000
#: Rows are the user's own material: a column may well be called `$ref`. The tag `!include` is unmistakable.
_MATERIAL_KEYS = frozenset({"rows"})


@dataclass
class Inclusion:
    """Follows `!include` and `$ref` from one file on; `project` is the folder they may not leave."""

    project: Path
    environment: Environment
    findings: Findings
    allow_outside: bool = False
    _count: int = field(default=0)
    _bytes: int = field(default=0)
    _trees: dict[Path, Node] = field(default_factory=dict)
    _texts: dict[Path, str] = field(default_factory=dict)

    def load(self, path: Path, shown: str) -> Node:
        """Return the tree of a file with everything followed; raises SpecError for the file itself."""
        return self._follow(read_yaml(path, shown, self.findings), (resolve_path(path, None),))

    def follow(self, node: Node) -> Node:
        """Return a tree that was not read from a file with everything followed."""
        return self._follow(node, ())

    def _follow(self, node: Node, trail: tuple[Path, ...], *, is_material: bool = False) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise SpecError("E104", f"more than {MAX_NODES:,} nodes in all files together", where=node.place)
        if isinstance(node, ScalarNode):
            return self._include(node) if node.style == INCLUDE_STYLE else node
        if isinstance(node, ListNode):
            entries = (self._follow(entry, trail, is_material=is_material) for entry in node.entries)
            return ListNode(tuple(entries), node.place)
        followed = replace(
            node,
            entries={
                key: self._follow_entry(key, entry, trail, is_material=is_material)
                for key, entry in node.entries.items()
            },
        )
        return self._refer(followed, trail) if REF in followed.entries and not is_material else followed

    def _follow_entry(self, key: str, entry: Node, trail: tuple[Path, ...], *, is_material: bool) -> Node:
        if key not in _MATERIAL_KEYS:
            return self._follow(entry, trail, is_material=is_material)
        if isinstance(entry, MapNode) and REF in entry.entries and not is_material:
            return self._refer(entry, trail, is_material=True)
        return self._follow(entry, trail, is_material=True)

    def _include(self, node: ScalarNode) -> ScalarNode:
        try:
            path, shown = self._locate(str(node.value), node.place)
            text = self._read_text(path, shown, node.place)
        except SpecError as error:
            self.findings.report_broken(error, node.place)
            return break_node(node.place)
        return ScalarNode(text.strip(), _find_start(text, shown), "include")

    def _refer(self, node: MapNode, trail: tuple[Path, ...], *, is_material: bool = False) -> Node:
        named = node.entries[REF]
        siblings = node.without(REF)
        try:
            found = self._read_named(named, trail, is_material=is_material)
        except SpecError as error:
            self.findings.report_broken(error, named.place)
            return replace(siblings, is_broken=True) if siblings.entries else break_node(named.place)
        if not siblings.entries:
            return found
        if isinstance(found, MapNode):
            return self._join(siblings, found, named.place)
        if not found.is_broken:
            message = f"`$ref` with other keys beside it needs a mapping, and `{to_plain(named)}` holds none"
            self.findings.add("E105", message, named.place)
        return replace(siblings, is_broken=True)

    def _read_named(self, named: Node, trail: tuple[Path, ...], *, is_material: bool) -> Node:
        if not isinstance(named, ScalarNode) or not isinstance(named.value, str):
            raise SpecError("E108", "`$ref` must be the path of a YAML file", where=named.place)
        path, shown = self._locate(self.environment.expand(named.value, named.place), named.place)
        real = resolve_path(path, named.place)
        if real in trail:
            chain = " → ".join(f"`{step.name}`" for step in (*trail[trail.index(real) :], real))
            raise SpecError("E105", f"`$ref` goes in a circle: {chain}", where=named.place)
        found = self._read_tree(real, path, shown, named.place)
        return self._follow(found, (*trail, real), is_material=is_material)

    def _read_tree(self, real: Path, path: Path, shown: str, place: Place) -> Node:
        """Return the tree of a file; one that is named again is not read again."""
        if real not in self._trees:
            if len(self._trees) >= MAX_FILES:
                raise SpecError("E104", f"`$ref` names more than {MAX_FILES} files", where=place)
            self._trees[real] = read_yaml(path, shown, self.findings, place=place)
        return self._trees[real]

    def _read_text(self, path: Path, shown: str, place: Place) -> str:
        real = resolve_path(path, place)
        if real not in self._texts:
            text = read_text(path, shown, place=place)
            self._bytes += len(text)
            if self._bytes > MAX_INCLUDED:
                message = f"the files that `!include` names hold more than {MAX_INCLUDED // 1_000_000} MB"
                raise SpecError("E104", message, where=place)
            self._texts[real] = text
        return self._texts[real]

    def _locate(self, text: str, place: Place) -> tuple[Path, str]:
        """Return a named file and how to show it: relative to the file that names it, inside the project."""
        base = Path(place.file).parent if place.file else self.project
        path = base / text
        if not self.allow_outside and not resolve_path(path, place).is_relative_to(self.project.resolve()):
            message = f"`{text}` is outside the project folder `{self.project}`"
            hint = "move the file into the project, or allow it with `--allow-outside`"
            raise SpecError("E105", message, where=place, hint=hint)
        return path, path.as_posix()

    def _join(self, siblings: MapNode, found: MapNode, place: Place) -> MapNode:
        for key in siblings.entries.keys() & found.entries.keys():
            if to_plain(siblings.entries[key]) != to_plain(found.entries[key]):
                message = f"`{key}` contradicts the file that `$ref` names ({found.key_place(key)})"
                self.findings.add("E105", message, siblings.key_place(key), f"keep `{key}` in one of the two")
        entries, keys = found.entries | siblings.entries, found.keys | siblings.keys
        return MapNode(entries, place, keys, is_broken=found.is_broken)


def _find_start(text: str, shown: str) -> Place:
    """Return where the text of a file begins, white space apart."""
    before = text[: len(text) - len(text.lstrip())]
    return Place(shown, before.count("\n") + 1, len(before) - before.rfind("\n"))
