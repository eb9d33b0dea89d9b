"""YAML text becomes a tree of nodes: safely, within limits, and text stays text.

Only `null`, `true`/`false`, plain decimal integers and decimals with a dot are read as values;
`yes`, `NO`, `2024-01-01`, `010`, `1:30`, `0x1F` and `1_000` stay text, so that no choice and no
answer changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
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

from answerkey.errors import (
    Place,
    SpecError,
    hide_values,
    listing,
    suggest,
)
from answerkey.spec.nodes import Node, Problems

MAX_BYTES = 10_000_000
#: A million characters of YAML take about two seconds, and so do the nodes.
MAX_YAML_BYTES = 1_000_000
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
    problems: Problems,
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
        if path.is_dir():
            raise SpecError("E101", f"`{shown}` is a folder, not a file", where=where)
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise SpecError("E101", f"`{shown}` is not a plain file", where=where)
        with path.open("rb") as stream:
            raw = stream.read(most + 1)
    except FileNotFoundError:
        hint = _suggest_file(path)
        raise SpecError("E101", f"file `{shown}` does not exist", where=where, hint=hint) from None
    except OSError as error:
        message = f"file `{shown}` cannot be read: {error.strerror}"
        raise SpecError("E101", message, where=where) from None
    if len(raw) > most:
        message = f"`{shown}` is larger than {most // 1_000_000} MB"
        raise SpecError("E104", message, where=where, hint=_ROWS_HINT)
    return decode(raw, shown)


def _suggest_file(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"there is no folder `{path.parent}`"
    if not path.suffix:
        return None
    names = sorted(file.name for file in path.parent.iterdir() if file.suffix == path.suffix)
    if not names:
        return None
    return suggest(path.name, names) or f"files there: {listing(names, limit=10)}"


def decode(raw: bytes, shown: str) -> str:
    """Return the text of a file's bytes, or raise E102 at the line where they are not text."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode().removeprefix("\ufeff").split("\n")
        where = Place(file=shown, line=len(before), column=len(before[-1]) + 1)
        name = "UTF-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "LATIN1"
        message = f"`{shown}` is not UTF-8 text: byte 0x{raw[error.start]:02x}, as in {name}"
        hint = f"save the file as UTF-8; `iconv -f {name} -t UTF-8 {shown}` prints it so"
        raise SpecError("E102", message, where=where, hint=hint) from None
    if "\0" in text:
        where = Place(file=shown, line=text.count("\n", 0, text.index("\0")) + 1)
        message = f"`{shown}` holds a NUL character"
        raise SpecError("E102", message, where=where, hint="save the file as UTF-8 text")
    return text


def parse_yaml(
    text: str,
    shown: str | None,
    problems: Problems,
) -> Node:
    """Return the tree of a YAML text; an empty text is a null scalar."""
    try:
        return _Builder(shown, problems, YAML(typ="safe", pure=True).parse(text)).build()
    except MarkedYAMLError as error:
        reason, row, column, hint = _Diagnosis(error, text.split("\n")).explain()
        where = Place(shown, row + 1, column + 1)
        raise SpecError("E102", f"not valid YAML: {reason}", where=where, hint=hint) from None
    except YAMLError as error:
        line = None
        position = getattr(error, "position", None)
        if position is not None:
            line = text.count("\n", 0, position) + 1
        message = f"not valid YAML: {str(error).splitlines()[0]}"
        where = Place(shown, line)
        raise SpecError("E102", message, where=where, hint="remove the character") from None


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


#: What a page prints in place of lines that it leaves out.
ELLIPSES = frozenset({"...", "…"})
ELLIPSIS_HINT = (
    "`...` stands for lines that the page leaves out: write them here, or delete this line"
)
#: A line `key: value`, or one without the space.
_ENTRY = re.compile(r"\s*(?:- +)*[\w$.-]+(?P<mark>: +|:(?!//))(?P<value>\S.*)")
_INDENT = re.compile(r"^(?: *- )* *(?=[^ ])", re.MULTILINE)
_BARE_TEMPLATE = re.compile(r"\s*(?:- +)*(?:[\w$.-]+: +)?(?P<value>\{\{.*)")
_CLOSING = {"[": "]", "{": "}"}
#: What is wrong, its line and column from 0, and what to write instead.
Slip = tuple[str, int, int, str]


class _Diagnosis:
    """Explains a syntax error: ruamel says what it expected, which is seldom what was meant.

    The error was noticed at `row` and `column`, in something that begins at `start`.
    """

    def __init__(self, error: MarkedYAMLError, lines: list[str]) -> None:
        mark = error.problem_mark or error.context_mark
        start = error.context_mark or mark
        self.reason: str = error.problem or ""
        self.context: str = error.context or ""
        self.lines = lines
        self.row: int = min(mark.line, len(lines) - 1)
        self.column: int = mark.column
        self.start: int = min(start.line, len(lines) - 1)
        self.start_column: int = start.column
        self.line = lines[self.row]
        self.opening = lines[self.start][start.column :]

    def explain(self) -> Slip:
        checks = (
            self._find_ellipsis,
            self._find_tab,
            self._find_template,
            self._find_escape,
            self._find_open_end,
            self._find_reserved_start,
            self._find_colon,
            self._find_block_end,
        )
        for check in checks:
            slip = check()
            if slip is not None:
                return slip
        hint = "begin a list on its own line: `- entry`; "
        hint += "text with `{`, `[`, `: ` or ` #` needs quotes"
        return self.reason or "it cannot be read", self.row, self.column, hint

    def _find_ellipsis(self) -> Slip | None:
        for row, text in enumerate(self.lines):
            if text.strip() in ELLIPSES:
                column = len(text) - len(text.lstrip())
                return "a line that is no `key: value`", row, column, ELLIPSIS_HINT
        return None

    def _find_tab(self) -> Slip | None:
        column = self.line.find("\t")
        if column < 0 or self.line[:column].strip():
            return None
        hint = "indent with spaces: YAML takes no tabs"
        return "a tab in the indentation", self.row, column, hint

    def _find_template(self) -> Slip | None:
        match = _BARE_TEMPLATE.match(self.line)
        if match is None:
            return None
        column = match.start("value")
        hint = f"write {_quote_value(self.line, column)}"
        return "a template without quotes", self.row, column, hint

    def _find_escape(self) -> Slip | None:
        if "escape" not in self.reason:
            return None
        hint = (
            f"write {_quote_value(self.lines[self.start], self.start_column)}, or `\\\\` for each"
        )
        if "'|'" in self.reason:
            hint = "write `|`; the backslash comes from a Markdown table"
        message = "a backslash in double quotes begins an escape"
        return message, self.row, self.column - 1, hint

    def _find_open_end(self) -> Slip | None:
        """Find a quote or bracket that is not closed, or a comma missing inside brackets."""
        mark = self.opening[:1]
        if "end of stream" in self.reason:
            hint = f"close it with `{mark}`"
            return "a quote that is not closed", self.start, self.start_column, hint
        if "flow" not in self.context or mark not in _CLOSING:
            return None
        closing = _CLOSING[mark]
        if closing not in self.opening:
            message = f"a `{mark}` that is not closed"
            return message, self.start, self.start_column, f"close it with `{closing}`"
        message = f"a comma is missing in `{mark}…{closing}`"
        return message, self.row, self.column, "put commas between the entries"

    def _find_reserved_start(self) -> Slip | None:
        """Find text that begins with a character which YAML reserves."""
        if "chomping" in self.reason:
            column = self.start_column
        elif "start any token" in self.reason:
            column = self.column
        else:
            return None
        hint = f"it needs quotes: write {_quote_value(self.line, column)}"
        return f"text that begins with `{self.line[column]}`", self.row, column, hint

    def _find_colon(self) -> Slip | None:
        """Find a colon without a space, a second one in a line, or a line without any."""
        is_mapping = "mapping values" in self.reason
        if not is_mapping and "expected ':'" not in self.reason:
            return None
        above = self.row - 1 if is_mapping else self.start
        while above > 0 and not self.lines[above].strip():
            above -= 1
        if not self.lines[max(above, 0)].strip():
            above = self.row
        above = max(above, 0)
        for row in (self.row, above):
            slip = self._find_missing_space(row)
            if slip is not None:
                return slip
        match = _ENTRY.match(self.line)
        if match and self.column > match.start("value"):
            quoted = _quote_value(self.line, match.start("value"))
            hint = f"text that holds `: ` needs quotes: write {quoted}"
            return "a second colon in one line", self.row, self.column, hint
        row = self.row if match and is_mapping else above
        hint = "write `key: value` in the same column as its neighbours, "
        hint += "or put several lines in quotes"
        return "a line without `key:`, or one that is indented too far", row, 0, hint

    def _find_missing_space(self, row: int) -> Slip | None:
        line = self.lines[row]
        match = _ENTRY.match(line)
        if match is None or match["mark"] != ":":
            return None
        hint = hide_values(f"write `{line[: match.end('mark')].lstrip()} {match['value']}`")
        return "no space after the colon", row, match.start("mark"), hint

    def _find_block_end(self) -> Slip | None:
        """Find why a block ends where it should not."""
        if "<block end>" not in self.reason:
            return None
        for row in range(self.start, self.row):
            line = self.lines[row]
            if line.replace('\\"', "").count('"') % 2:
                column = line.index('"')
                return "a quote that is not closed", row, column, "close it where the text ends"
        if "scalar" in self.reason or self.reason.endswith(("']'", "'}'")):
            example = "`\"{{ sample['answer'] }}\"`"
            hint = f"put quotes around it all, and the other kind inside: {example}"
            return "text behind the end of a value", self.row, self.column, hint
        indents = _INDENT.findall("\n".join(self.lines[: self.row])) or [""]
        hint = "begin it as its neighbours do; "
        hint += f"the line above is indented by {len(indents[-1])}"
        message = "an indentation that fits no line above, or a list beside keys"
        return message, self.row, self.column, hint


def _quote_value(line: str, column: int) -> str:
    """Return the entry of a line with everything from a column on in quotes, as code."""
    value = line[column:].strip().strip('"')
    quote = "'" if '"' in value or "\\" in value else '"'
    name = line[:column].lstrip().removeprefix("- ")
    return hide_values(f"`{name}{quote}{value}{quote}`")


_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
#: What is left of `"C:\temp\new"`.
_ESCAPED_PATH = re.compile(r"[A-Za-z]:[\x00-\x1f\x85]")
_CURLY_QUOTES = "“”„«\u2018\u2019"
_STANDARD = "tag:yaml.org,2002:"
_TAGS = {"str", "int", "float", "bool", "null", "map", "seq"}
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
    """Builds one tree from parser events; every use of an alias counts its nodes again."""

    def __init__(
        self,
        shown: str | None,
        problems: Problems,
        events: Iterator[Any],
    ) -> None:
        self.shown = shown
        self.problems = problems
        self.events = events  # ruamel.yaml has no types for them
        self.count = 0
        self.anchors: dict[str, tuple[Node, int] | None] = {}

    def build(self) -> Node:
        root: Node | None = None
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                if root is not None:
                    hint = "keep one document in each file"
                    raise self.refuse("E104", "a second YAML document begins here", event, hint)
                root = self.node(next(self.events), 0)
        return root or Node(None, Place(self.shown, 1, 1))

    def place(self, event: Any) -> Place:  # noqa: ANN401
        return Place(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)

    def refuse(
        self,
        code: str,
        message: str,
        event: Any,  # noqa: ANN401
        hint: str | None = None,
    ) -> SpecError:
        return SpecError(code, message, where=self.place(event), hint=hint)

    def node(self, event: Any, depth: int) -> Node:  # noqa: ANN401
        if depth > MAX_DEPTH:
            raise self.refuse("E104", f"nested more than {MAX_DEPTH} deep", event)
        if isinstance(event, AliasEvent):
            return self.alias(event)
        before = self.count
        self.add(1, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if isinstance(event, ScalarEvent):
            node = self.scalar(event)
        elif isinstance(event, SequenceStartEvent):
            node = self.sequence(event, depth)
        elif isinstance(event, MappingStartEvent):
            node = self.mapping(event, depth)
        else:
            raise self.refuse("E102", "not valid YAML", event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def alias(self, event: Any) -> Node:  # noqa: ANN401
        if event.anchor not in self.anchors:
            hint = "text that begins with `*` needs quotes"
            raise self.refuse("E102", f"alias `*{event.anchor}` has no anchor", event, hint)
        anchored = self.anchors[event.anchor]
        if anchored is None:
            raise self.refuse("E104", f"alias `*{event.anchor}` stands inside itself", event)
        node, size = anchored
        self.add(size, event)
        return node

    def add(self, nodes: int, event: Any) -> None:  # noqa: ANN401
        self.count += nodes
        if self.count > MAX_NODES:
            message = f"more than {MAX_NODES:,} nodes (aliases counted each time they are used)"
            raise self.refuse("E104", message, event, _ROWS_HINT)
        if len(self.problems.errors) > MAX_ERRORS:
            raise self.refuse("E104", f"more than {MAX_ERRORS:,} mistakes", event)

    def scalar(self, event: Any) -> Node:  # noqa: ANN401
        place = self.place(event)
        half = _SURROGATE.search(event.value)
        if half is not None:  # an escape can write it, no file can hold it
            message = f"`\\u{ord(half[0]):04x}` is half of a surrogate pair, which is no character"
            hint = "write the character itself, or `\\U` with eight digits"
            raise self.refuse("E102", message, event, hint)
        if event.tag == INCLUDE_TAG:
            return Node(event.value, place, INCLUDE_TAG)
        kind = self.check_tag(event)
        if event.style == '"' and _ESCAPED_PATH.match(event.value):
            message = "a backslash in double quotes begins an escape"
            return self.break_off(message, place, "write the path in single quotes, or with `/`")
        if event.style is None and event.value[:1] in _CURLY_QUOTES and "{{" in event.value:
            message = f"`{event.value[0]}` is no quote of YAML"
            return self.break_off(message, place, "write the plain quotes `\"` or `'`")
        if event.style is not None or kind in {"str", "!"}:
            return Node(event.value, place, event.style or "")
        value = resolve_scalar(event.value)
        if isinstance(value, float) and math.isinf(value):
            message = f"the number {event.value[:40]} is too large"
            return self.break_off(message, place, "put it in quotes to make it text", "E108")
        return Node(value, place)

    def break_off(
        self,
        message: str,
        place: Place,
        hint: str,
        code: str = "E102",
    ) -> Node:
        self.problems.add(code, message, place, hint)
        return self.problems.mark_broken(place)

    def check_tag(self, event: Any) -> str | None:  # noqa: ANN401
        """Return the kind a standard tag names, None without a tag; report any other tag."""
        tag = event.tag
        if tag is None or tag == "!":
            return tag  # type: ignore[no-any-return]
        kind = str(tag).removeprefix(_STANDARD)
        if kind not in _TAGS:
            name = str(tag).replace(_STANDARD, "!!")
            hint = "the only tag is `!include path`; put text that begins with `!` in quotes"
            self.problems.add("E104", f"unknown YAML tag `{name}`", self.place(event), hint)
        return kind

    def sequence(self, start: Any, depth: int) -> Node:  # noqa: ANN401
        self.check_tag(start)
        entries = []
        for event in self.events:
            if isinstance(event, SequenceEndEvent):
                break
            entries.append(self.node(event, depth + 1))
        return Node(tuple(entries), self.place(start))

    def mapping(self, start: Any, depth: int) -> Node:  # noqa: ANN401
        self.check_tag(start)
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Node] = []
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                break
            key = self.key(self.node(event, depth + 1))
            value = self.node(next(self.events), depth + 1)
            if key == "<<" and getattr(event, "style", "") is None:
                merged.extend(self.list_merged(value))
            elif key in keys:
                lines = f"lines {keys[key].line} and {event.start_mark.line + 1}"
                message = f"key `{key}` is given twice: {lines}"
                self.problems.add("E103", message, self.place(event), "keep one of them")
            else:
                entries[key] = value
                keys[key] = self.place(event)
        for source in merged:  # earlier mappings win over later ones
            entries = source.entries | entries
            keys = source.keys | keys
        return Node(entries, self.place(start), keys=keys)

    def list_merged(self, value: Node) -> tuple[Node, ...]:
        """Return the mappings that `<<` merges."""
        sources = value.items if value.is_list else (value,)
        if all(source.is_map for source in sources):
            return sources
        self.problems.add("E108", "`<<` merges mappings only", value.place, "write `<<: *anchor`")
        return ()

    def key(self, node: Node) -> str:
        if node.is_map:  # `{{ x }}` without quotes is read as a mapping in a mapping
            where = replace(node.place, column=(node.place.column or 2) - 1)
            hint = 'put it in quotes: `"{{ sample.answer }}"`'
            message = "not valid YAML: a template without quotes"
            raise SpecError("E102", message, where=where, hint=hint)
        if not node.is_scalar:
            self.problems.add("E108", "a list cannot be a key", node.place, "write a text")
            return f"line {node.place.line} column {node.place.column}"
        if node.text is None:
            message = f"key {node.value!r} is not text"
            self.problems.add("E108", message, node.place, "put the key in quotes")
        return str(node.value)
