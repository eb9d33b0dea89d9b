"""YAML text becomes a tree of nodes: safely, within limits, and text stays text.

Only `null`, `true`/`false`, plain decimal integers and decimals with a dot are read as values;
`yes`, `NO`, `2024-01-01`, `010`, `1:30`, `0x1F` and `1_000` stay text, so that no choice and no
answer changes.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode, SequenceNode

from answerkey.errors import Place, SpecError, suggest
from answerkey.spec.nodes import Node, ProblemList, to_plain

MAX_BYTES = 10_000_000
#: So many characters of YAML take about two seconds.
MAX_YAML_BYTES = 500_000
MAX_NODES = 50_000
MAX_PLAIN_NODES = 50_000_000
MAX_DEPTH = 100
MAX_ERRORS = 1_000
INCLUDE_TAG = "!include"
_ROWS_HINT = "keep rows in a data file and name it in `file_path`"


def resolve_path(path: Path, place: Place | None) -> Path:
    """Return the real path, or raise E101 for a text that cannot be a path."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise SpecError("E101", f"{str(path)!r} cannot be a path: {error}", where=place) from None


def read_yaml(
    path: Path,
    shown: str,
    problems: ProblemList,
    *,
    place: Place | None = None,
) -> Node:
    """Return the tree of a file; messages call it `shown`, and `place` is where it is named."""
    return parse_yaml(read_text(path, shown, place=place, most=MAX_YAML_BYTES), shown, problems)


def read_text(
    path: Path,
    shown: str,
    *,
    place: Place | None = None,
    most: int = MAX_BYTES,
) -> str:
    """Return the text of a file, or raise E101, E102 or E104."""
    where = place or Place(file=shown)
    resolve_path(path, where)
    try:
        # A pipe or a device may never end.
        if path.exists() and not path.is_file():
            kind = "a folder, not a file" if path.is_dir() else "not a plain file"
            raise SpecError("E101", f"`{shown}` is {kind}", where=where)
        with path.open("rb") as stream:
            raw = stream.read(most + 1)
    except FileNotFoundError:
        names = map(str, path.parent.iterdir()) if path.parent.is_dir() else ()
        hint = suggest(str(path), names)
        raise SpecError("E101", f"file `{shown}` does not exist", where=where, hint=hint) from None
    except OSError as error:
        message = f"file `{shown}` cannot be read: {error.strerror}"
        raise SpecError("E101", message, where=where) from None
    if len(raw) > most:
        message = f"`{shown}` is larger than {most:,} bytes"
        raise SpecError("E104", message, where=where, hint=_ROWS_HINT)
    return decode(raw, shown)


def decode(raw: bytes, shown: str) -> str:
    """Return the text of a file's bytes, or raise E102 at the line where they are not text."""
    try:
        text = raw.decode("utf-8-sig")
        if "\0" not in text:
            return text
        before = text[: text.index("\0")].split("\n")
        reason = "a NUL character"
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode().removeprefix("\ufeff").split("\n")
        reason = f"byte 0x{raw[error.start]:02x}"
    where = Place(shown, len(before), len(before[-1]) + 1)
    message = f"`{shown}` is not UTF-8 text: {reason}"
    raise SpecError("E102", message, where=where, hint="save the file as UTF-8")


#: What a page prints in place of lines that it leaves out.
ELLIPSES = frozenset({"...", "…"})
ELLIPSIS_HINT = (
    "`...` stands for lines that the page leaves out: write them here, or delete this line"
)
_HINT = (
    "indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, "
    "`: `, ` #` or `\\` needs single quotes around it all"
)


def parse_yaml(
    text: str,
    shown: str | None,
    problems: ProblemList,
) -> Node:
    """Return the tree of a YAML text; an empty text is a null scalar."""
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except RecursionError:
        raise SpecError("E104", "nested too deep", where=Place(shown, 1, 1)) from None
    except YAMLError as error:
        raise _explain(error, text, shown) from None
    if root is None:
        return Node(None, Place(shown, 1, 1), problems=problems)
    return _Builder(shown, problems).build(root)


def _explain(error: YAMLError, text: str, shown: str | None) -> SpecError:
    """Return a syntax error in the words of ruamel, with what is wrong most often."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() in ELLIPSES:
            where = Place(shown, number, len(line) - len(line.lstrip()) + 1)
            message = "not valid YAML: a line that is no `key: value`"
            return SpecError("E102", message, where=where, hint=ELLIPSIS_HINT)
    reason = str(error).splitlines()[0]
    position = getattr(error, "position", None)
    where = Place(shown)
    if position is not None:
        where = Place(shown, text.count("\n", 0, position) + 1)
    elif isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = Place(shown, mark.line + 1, mark.column + 1)
        reason = error.problem or error.context
        if error.context_mark is not None and error.context_mark.line != mark.line:
            reason += f", {error.context} that begins in line {error.context_mark.line + 1}"
    hint = _HINT
    if "'|'" in reason:
        hint = "write `|`; the backslash comes from a Markdown table"
    return SpecError("E102", f"not valid YAML: {reason}", where=where, hint=hint)


def parse_plain(text: str) -> object:
    """Return the value of YAML that a program wrote, at any length.

    Raises SpecError: E101, or E104 for a bomb.
    """
    sizes: dict[int, int] = {}

    def count(value: object) -> int:
        """Return the number of nodes of a value, with aliases counted each time."""
        if isinstance(value, dict | list) and id(value) not in sizes:
            sizes[id(value)] = MAX_PLAIN_NODES  # a value that holds itself has no end
            inner = value.values() if isinstance(value, dict) else value
            sizes[id(value)] = 1 + sum(map(count, inner))
        return sizes.get(id(value), 1)

    try:
        value: object = YAML(typ="safe").load(text)
        if count(value) >= MAX_PLAIN_NODES:
            raise SpecError("E104", f"more than {MAX_PLAIN_NODES:,} nodes")
    except (YAMLError, ValueError, RecursionError) as error:
        raise SpecError("E101", f"not valid YAML: {error}") from None
    return value


_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_STANDARD = "tag:yaml.org,2002:"
_TAGS = {"str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge", "value"}
#: Longer digit strings are identifiers, not numbers; Python itself refuses to print them back.
_MAX_DIGITS = 300


def resolve_scalar(text: str) -> object:
    """Return what a plain (unquoted) scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _MAX_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text


class _Builder:
    """Builds one tree from the nodes of ruamel; every use of an alias counts its nodes again."""

    def __init__(self, shown: str | None, problems: ProblemList) -> None:
        self.shown = shown
        self.problems = problems
        self.count = 0

    def build(self, source: Any, depth: int = 0) -> Node:  # noqa: ANN401 - ruamel.yaml has no types
        place = Place(self.shown, source.start_mark.line + 1, source.start_mark.column + 1)
        self.count += 1
        limits = (
            (depth, MAX_DEPTH, "levels"),
            (self.count, MAX_NODES, "nodes (aliases counted each time they are used)"),
            (len(self.problems.errors), MAX_ERRORS, "mistakes"),
        )
        for number, most, name in limits:
            if number > most:
                message = f"more than {most:,} {name}"
                raise SpecError("E104", message, where=place, hint=_ROWS_HINT)
        if isinstance(source, ScalarNode):
            return self.build_scalar(source, place)
        self.check_tag(source, place)
        if isinstance(source, SequenceNode):
            entries = tuple(self.build(entry, depth + 1) for entry in source.value)
            return Node(entries, place, problems=self.problems)
        return self.build_mapping(source, place, depth)

    def build_scalar(self, source: Any, place: Place) -> Node:  # noqa: ANN401
        text = source.value
        half = _SURROGATE.search(text)
        if half is not None:  # an escape can write it, no file can hold it
            message = f"`\\u{ord(half[0]):04x}` is half of a surrogate pair, which is no character"
            raise SpecError("E102", message, where=place, hint="write the character itself")
        if source.tag == INCLUDE_TAG:
            return Node(text, place, INCLUDE_TAG, problems=self.problems)
        kind = self.check_tag(source, place)
        if source.style is not None or kind == "str":
            return Node(text, place, source.style or "", problems=self.problems)
        node = Node(resolve_scalar(text), place, problems=self.problems)
        if isinstance(node.value, float) and math.isinf(node.value):
            hint = "put it in quotes to make it text"
            node.report("E108", f"the number {text[:40]} is too large", hint)
            return node.changed(text)
        return node

    def check_tag(self, source: Any, place: Place) -> str:  # noqa: ANN401
        """Return the kind of value that a tag, written or implied, names; report a foreign one."""
        kind = str(source.tag).removeprefix(_STANDARD)
        if kind not in _TAGS:
            name = str(source.tag).replace(_STANDARD, "!!")
            hint = "the only tag is `!include path`; put text that begins with `!` in quotes"
            self.problems.add("E104", f"unknown YAML tag `{name}`", place, hint)
        return kind

    def build_mapping(self, source: Any, place: Place, depth: int) -> Node:  # noqa: ANN401
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Node] = []
        for key_source, value_source in source.value:
            key_node = self.build(key_source, depth + 1)
            key = read_key(key_node)
            value = self.build(value_source, depth + 1)
            if key_source.tag == f"{_STANDARD}merge":
                merged.extend(list_merged(value))
            elif key in keys:
                message = f"key `{key}` is given twice: lines {keys[key].line} and "
                key_node.report("E103", f"{message}{key_node.place.line}", "keep one of them")
            else:
                entries[key] = value
                keys[key] = key_node.place
        for mapping in merged:  # earlier mappings win over later ones
            entries = mapping.entries | entries
            keys = mapping.keys | keys
        return Node(entries, place, keys=keys, problems=self.problems)


def list_merged(value: Node) -> tuple[Node, ...]:
    """Return the mappings that `<<` merges."""
    sources = value.items if value.is_list else (value,)
    if all(source.is_map for source in sources):
        return sources
    value.report("E108", "`<<` merges mappings only", "write `<<: *anchor`")
    return ()


def read_key(node: Node) -> str:
    """Return a key of a mapping, which is text."""
    if node.is_map:  # `{{ x }}` without quotes is read as a mapping in a mapping
        where = replace(node.place, column=(node.place.column or 2) - 1)
        hint = 'put it in quotes: `"{{ sample.answer }}"`'
        message = "not valid YAML: a template without quotes"
        raise SpecError("E102", message, where=where, hint=hint)
    if node.text is None:
        node.report("E108", "a key must be text", "put the key in quotes")
    return str(to_plain(node))
