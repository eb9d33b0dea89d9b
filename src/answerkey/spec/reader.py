"""YAML text becomes a tree of nodes: safe, bounded, and without guessing what text means.

Only `null`, `true`/`false`, plain decimal integers and decimals with a dot are read as values; `yes`, `NO`,
`2024-01-01`, `010`, `1:30`, `0x1F` and `1_000` stay text, so that no choice and no answer changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from answerkey.errors import Place, SpecError
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import ListNode, MapNode, Node, ScalarNode, break_node

#: Of a text that is included; and of YAML, where a million characters, or the nodes, take some two seconds.
MAX_BYTES = 10_000_000
MAX_YAML_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 100
#: More mistakes in one file than anybody reads.
MAX_ERRORS = 1_000

INCLUDE_STYLE = "!include"

#: ruamel.yaml has no types for its events.
Event = Any

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?")
_WORDS = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 40
_STANDARD = "tag:yaml.org,2002:"
_KINDS = {"str", "int", "float", "bool", "null", "map", "seq"}
#: Longer digit strings are identifiers, not numbers; Python itself refuses to print them back.
_MAX_DIGITS = 300


def resolve_path(path: Path, place: Place | None) -> Path:
    """Return the real path, or raise E101 for a text that cannot be a path."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as trouble:
        message = f"{str(path)!r} cannot be a path: {trouble}"
        raise SpecError("E101", message, where=place) from None


def read_yaml(path: Path, shown: str, findings: Findings, *, place: Place | None = None) -> Node:
    """Return the tree of a file; `shown` is its name in messages, `place` what asked for it."""
    return parse_yaml(read_text(path, shown, place=place, most=MAX_YAML_BYTES), shown, findings)


def read_text(path: Path, shown: str, *, place: Place | None = None, most: int = MAX_BYTES) -> str:
    """Return the text of a file, or raise E101/E102/E104 for one that is missing, not text or too large."""
    where = place or Place(file=shown)
    resolve_path(path, where)
    try:
        if path.is_dir():
            raise SpecError("E101", f"`{shown}` is a folder, not a file", where=where)
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise SpecError("E101", f"`{shown}` is not a plain file", where=where)
        with path.open("rb") as stream:
            raw = stream.read(most + 1)
    except FileNotFoundError:
        raise SpecError("E101", f"file `{shown}` does not exist", where=where, hint=_near(path)) from None
    except OSError as trouble:
        raise SpecError("E101", f"file `{shown}` cannot be read: {trouble.strerror}", where=where) from None
    if len(raw) > most:
        hint = "keep rows in a data file and name it in `file_path`"
        raise SpecError("E104", f"`{shown}` is larger than {most // 1_000_000} MB", where=where, hint=hint)
    return _decode(raw, shown)


def _near(path: Path) -> str | None:
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder `{folder}`"
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == path.suffix and path.suffix)
    return f"files there: {', '.join(f'`{name}`' for name in names[:10])}" if names else None


def _decode(raw: bytes, shown: str) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as trouble:
        line = raw.count(b"\n", 0, trouble.start) + 1
        message = f"`{shown}` is not UTF-8 text: byte 0x{raw[trouble.start]:02x}"
        where = Place(file=shown, line=line)
        raise SpecError("E102", message, where=where, hint="save the file as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SpecError("E102", f"`{shown}` holds a NUL character", where=Place(file=shown, line=line))
    return text


def parse_yaml(text: str, shown: str | None, findings: Findings) -> Node:
    """Return the tree of a YAML text; an empty text is a null scalar."""
    try:
        return _Builder(shown, findings).build(YAML(typ="safe", pure=True).parse(text))
    except MarkedYAMLError as trouble:
        mark = trouble.problem_mark or trouble.context_mark
        where = Place(shown, mark.line + 1, mark.column + 1) if mark else Place(shown)
        reason = trouble.problem or trouble.context or "it cannot be read"
        raise SpecError("E102", f"not valid YAML: {reason}", where=where, hint=_syntax_hint(reason)) from None
    except YAMLError as trouble:
        reason = str(trouble).splitlines()[0]
        position = getattr(trouble, "position", None)
        line = None if position is None else text.count("\n", 0, position) + 1
        raise SpecError("E102", f"not valid YAML: {reason}", where=Place(shown, line)) from None


def _syntax_hint(reason: str) -> str | None:
    if "unknown escape character '|'" in reason:
        return "write `|`; the backslash comes from a Markdown table"
    if "unknown escape character" in reason:
        return "in double quotes a backslash begins an escape: write `\\\\`, or use single quotes"
    if "chomping" in reason:
        return "text that begins with `>` or `|` needs quotes"
    if "token" in reason or "mapping values" in reason:
        return "a value that begins with `{`, `[`, `%`, `@` or holds `: ` needs quotes"
    return None


def resolve_scalar(text: str) -> object:
    """Return what a plain (unquoted) scalar means."""
    if text in _WORDS:
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    if len(text) <= _MAX_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text


class _Builder:
    """Builds one tree from parser events, counting nodes as an expansion of all aliases would."""

    def __init__(self, shown: str | None, findings: Findings) -> None:
        self.shown = shown
        self.findings = findings
        self.count = 0
        self.anchors: dict[str, tuple[Node, int] | None] = {}
        self.events: Iterator[Event] = iter(())

    def build(self, events: Iterator[Event]) -> Node:
        self.events = events
        root: Node | None = None
        for event in events:
            if not isinstance(event, DocumentStartEvent):
                continue
            if root is not None:
                message = "a second YAML document begins here"
                raise SpecError(
                    "E104", message, where=self.place(event), hint="keep one document in each file"
                )
            root = self.node(next(events), 0)
        return root if root is not None else ScalarNode(None, Place(self.shown, 1, 1))

    def place(self, event: Event) -> Place:
        return Place(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)

    def node(self, event: Event, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise SpecError("E104", f"nested more than {MAX_DEPTH} deep", where=self.place(event))
        if isinstance(event, AliasEvent):
            return self.alias(event)
        before = self.count
        self.add(1, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        node = self.fresh(event, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def fresh(self, event: Event, depth: int) -> Node:
        if isinstance(event, ScalarEvent):
            return self.scalar(event)
        self.check_tag(event)
        if isinstance(event, SequenceStartEvent):
            return ListNode(tuple(self.entries(depth)), self.place(event))
        if isinstance(event, MappingStartEvent):
            return self.mapping(event, depth)
        raise SpecError("E102", "not valid YAML", where=self.place(event))

    def add(self, nodes: int, event: Event) -> None:
        self.count += nodes
        if self.count > MAX_NODES:
            message = f"more than {MAX_NODES:,} nodes (aliases counted each time they are used)"
            hint = "keep rows in a data file and name it in `file_path`"
            raise SpecError("E104", message, where=self.place(event), hint=hint)
        if len(self.findings.errors) > MAX_ERRORS:
            raise SpecError("E104", f"more than {MAX_ERRORS:,} mistakes", where=self.place(event))

    def alias(self, event: Event) -> Node:
        known = self.anchors.get(event.anchor, ())
        if known is None:
            raise SpecError("E104", f"alias `*{event.anchor}` stands inside itself", where=self.place(event))
        if not known:
            raise SpecError("E102", f"alias `*{event.anchor}` has no anchor", where=self.place(event))
        node, size = known
        self.add(size, event)
        return node

    def scalar(self, event: Event) -> ScalarNode:
        place = self.place(event)
        self.check_characters(event)
        if event.tag == INCLUDE_STYLE:
            return ScalarNode(event.value, place, INCLUDE_STYLE)
        kind = self.check_tag(event)
        if event.style is None and kind not in {"str", "!"}:
            return self.plain_scalar(event, place)
        return ScalarNode(event.value, place, event.style or "")

    def plain_scalar(self, event: Event, place: Place) -> ScalarNode:
        value = resolve_scalar(event.value)
        if isinstance(value, float) and math.isinf(value):
            message = f"the number {event.value[:_SHOWN]} is too large"
            self.findings.add("E108", message, place, "put it in quotes to make it text")
            return break_node(place)
        return ScalarNode(value, place)

    def check_characters(self, event: Event) -> None:
        """Refuse what an escape can write and no file can hold: one half of a surrogate pair."""
        half = _SURROGATE.search(event.value)
        if half is not None:
            message = f"`\\u{ord(half[0]):04x}` is half of a surrogate pair, which is no character"
            hint = "write the character itself, or `\\U` with eight digits"
            raise SpecError("E102", message, where=self.place(event), hint=hint)

    def check_tag(self, event: Event) -> str | None:
        """Return the kind a standard tag names, None without a tag; report any other tag."""
        tag = event.tag
        if tag is None:
            return None
        if tag == "!":
            return "!"
        kind = str(tag).removeprefix(_STANDARD)
        if kind not in _KINDS:
            name = f"!!{kind}" if str(tag).startswith(_STANDARD) else tag
            hint = "the only tag is `!include path`; put text that begins with `!` in quotes"
            self.findings.add("E104", f"unknown YAML tag `{name}`", self.place(event), hint)
        return kind

    def entries(self, depth: int) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, SequenceEndEvent):
                return
            yield self.node(event, depth + 1)

    def mapping(self, start: Event, depth: int) -> MapNode:
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[MapNode] = []
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                break
            is_merge = isinstance(event, ScalarEvent) and event.value == "<<" and event.style is None
            key = self.key(self.node(event, depth + 1))
            value = self.node(next(self.events), depth + 1)
            if is_merge:
                merged.extend(self.merge_sources(value))
            elif key in keys:
                message = (
                    f"key `{key}` is given twice: lines {keys[key].line} and {event.start_mark.line + 1}"
                )
                self.findings.add("E103", message, self.place(event), "keep one of them")
            else:
                entries[key], keys[key] = value, self.place(event)
        for source in merged:
            entries = entries | {key: node for key, node in source.entries.items() if key not in entries}
            keys = source.keys | keys
        return MapNode(entries, self.place(start), keys)

    def merge_sources(self, value: Node) -> list[MapNode]:
        """Return the mappings that `<<` merges: earlier ones win over later ones."""
        sources = value.entries if isinstance(value, ListNode) else (value,)
        if all(isinstance(source, MapNode) for source in sources):
            return [source for source in sources if isinstance(source, MapNode)]
        self.findings.add("E108", "`<<` merges mappings only", value.place, "write `<<: *anchor`")
        return []

    def key(self, node: Node) -> str:
        if isinstance(node, ScalarNode):
            if isinstance(node.value, str):
                return node.value
            message = f"key {node.value!r} is not text"
            self.findings.add("E108", message, node.place, "put the key in quotes")
            return str(node.value)
        hint = "a Jinja template such as `{{ sample.answer }}` needs quotes around it"
        self.findings.add("E108", "a list or mapping cannot be a key", node.place, hint)
        return f"line {node.place.line} column {node.place.column}"
