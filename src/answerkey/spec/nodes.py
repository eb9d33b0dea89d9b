"""YAML text becomes a tree of nodes, each with its file, line and column: safe, bounded, text stays
text.

Only `null`, `true`/`false`, plain decimal integers and decimals with a dot are read as values;
`yes`, `NO`, `2024-01-01`, `010`, `1:30`, `0x1F` and `1_000` stay text, so that no choice and no
answer changes.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Final, Literal

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

from answerkey.errors import AnswerkeyError, Place, SpecError, hide_values, listing, suggest
from answerkey.types import Notice

#: Of a text that is included; and of YAML, where a million characters, or the nodes, take some two
#: seconds.
MAX_BYTES = 10_000_000
MAX_YAML_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_PLAIN_NODES = 50_000_000
MAX_DEPTH = 100
#: More mistakes in one file than anybody reads.
MAX_ERRORS = 1_000
INCLUDE_TAG = "!include"

Path = tuple[str | int, ...]


@dataclass
class Problems:
    """Collects errors and notices, so that all can be shown together.

    The same one twice is kept once. What a broken value causes later, at the very same place, is
    not kept: its cause has been reported.
    """

    errors: list[AnswerkeyError] = dataclasses.field(default_factory=list)
    notices: list[Notice] = dataclasses.field(default_factory=list)
    #: Where a key was reported that is meant for another: that this one is missing need not be
    #: said.
    misspelt: set[tuple[Place, str]] = dataclasses.field(default_factory=set)
    _seen: set[tuple[str, str, Place | None]] = dataclasses.field(default_factory=set)
    _broken: set[Place | None] = dataclasses.field(default_factory=set)

    def add(self, code: str, message: str, where: Place | None, hint: str | None = None) -> None:
        """Keep a new SpecError."""
        self.report(SpecError(code, message, where=where, hint=hint))

    def report(self, error: AnswerkeyError) -> None:
        """Keep an error that was made elsewhere."""
        mark = (error.code, error.message, error.where)
        if error.where not in self._broken and mark not in self._seen:
            self.errors.append(error)
        self._seen.add(mark)

    def mark_broken(self, place: Place) -> Node:
        """Return what stands at a place without a value, about which nothing more is reported.

        A mapping that Python hands in has no places.
        """
        if place.line is not None:
            self._broken.add(place)
        return Node(BROKEN, place, is_broken=True)

    def notice(self, message: str, where: Place | None, hint: str | None = None) -> None:
        """Keep a notice; the same words are kept once, wherever they arise."""
        if ("", message, None) not in self._seen:
            self.notices.append(Notice(message, where, hint))
        self._seen.add(("", message, None))


def sort_errors(errors: Sequence[AnswerkeyError]) -> list[AnswerkeyError]:
    """Return errors by their position, file by file in the order in which files turn up.

    Without one last.
    """
    files = list(dict.fromkeys(error.where.file for error in errors if error.where))

    def rank(error: AnswerkeyError) -> tuple[int, int, int]:
        where = error.where
        if where is None or where.file is None:
            return len(files), 0, 0
        return files.index(where.file), where.line or 0, where.column or 0

    return sorted(errors, key=rank)


class Broken:
    """What stands in for a value that could not be had, as was reported: nothing more is said about
    it.
    """

    def __repr__(self) -> str:
        return "what was reported"


BROKEN: Final = Broken()


@dataclass(frozen=True)
class Node:
    """A value of a YAML file with its place: a scalar, a tuple of nodes, or a mapping from texts to
    nodes.

    `style` is YAML's mark for a scalar (`|`, `>`, quotes or none), `!include`, or one of these.
    `include`: the text is a whole file that `!include` named. `caller`: the value begins with one
    that the caller's environment holds, `$V` or `$V/x`. `keys` says where each key of a mapping
    stands.

    A value that `is_broken` could not be had, which was reported. A mapping that is lacks what
    another file was to bring: that a key is missing means nothing.
    """

    value: Any
    place: Place
    style: str = ""
    keys: dict[str, Place] = dataclasses.field(default_factory=dict)
    is_broken: bool = False

    @property
    def is_map(self) -> bool:
        """Whether this is a mapping."""
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        """Whether this is a list."""
        return isinstance(self.value, tuple)

    @property
    def is_scalar(self) -> bool:
        """Whether this is neither a mapping nor a list."""
        return not isinstance(self.value, dict | tuple)

    @property
    def is_null(self) -> bool:
        """Whether a node is null, which is the same as not being written."""
        return self.value is None

    @property
    def entries(self) -> dict[str, Node]:
        """The entries of a mapping; none of anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> tuple[Node, ...]:
        """The entries of a list; none of anything else."""
        return self.value if isinstance(self.value, tuple) else ()

    @property
    def text(self) -> str | None:
        """The text of a scalar that is one."""
        return self.value if isinstance(self.value, str) else None

    @property
    def key(self) -> str | None:
        """The `key` that a mapping states."""
        key = self.entries.get("key")
        is_given = key is not None and key.is_scalar and not key.is_null and not key.is_broken
        return str(key.value) if key is not None and is_given else None

    def get(self, step: str | int) -> Node | None:
        """Return the entry under a key of a mapping or an index of a list, or None."""
        if isinstance(step, str):
            return self.entries.get(step)
        return self.items[step] if step < len(self.items) else None

    def field(self, key: str) -> Node:
        """Return the entry under a key; null, at the place of this node, when there is none."""
        return self.entries.get(key) or Node(None, self.place)

    def find(self, path: Path) -> tuple[Node, Path]:
        """Return the deepest node that exists on the way along `path`, and the way to it.

        Steps that lead nowhere are passed over: pydantic puts the names of union members among
        them.
        """
        node, taken = self, Path()
        for step in path:
            if (inner := node.get(step)) is not None:
                node, taken = inner, (*taken, step)
        return node, taken

    def at(self, *path: str | int) -> Node:
        """Return the deepest node that exists on the way along `path`."""
        return self.find(path)[0]

    def of_line(self, path: Path, line: int | None) -> Place:
        """Return where a line of the text at `path` stands."""
        return self.at(*path).place_of_line(line)

    def of_template(self, source: str) -> Place | None:
        """Return where a template stands, with its braces or as a bare expression."""
        written = {source, source.removeprefix("{{ ").removesuffix(" }}")}
        return next((node.place for _, node in walk_scalars(self) if node.text in written), None)

    def key_place(self, key: str) -> Place:
        """Return where a key of a mapping stands; the node's own place when it is not written."""
        return self.keys.get(key, self.place)

    def place_of_line(self, line: int | None, column: int | None = None) -> Place:
        """Return where a line of a text stands; for folded and quoted texts, where they begin.

        The column is known in texts of their own file only: YAML indents the others.
        """
        start = self.place.line
        if line is None or start is None:
            return self.place
        if self.style == "include" and line == 1:
            return replace(self.place, column=(self.place.column or 1) + (column or 1) - 1)
        if self.style == "include":
            return replace(self.place, line=start + line - 1, column=column)
        return (
            replace(self.place, line=start + line, column=None) if self.style == "|" else self.place
        )

    def without(self, *names: str) -> Node:
        """Return the mapping without these keys."""
        return replace(
            self, value={key: node for key, node in self.entries.items() if key not in names}
        )

    def having(self, key: str, node: Node) -> Node:
        """Return the mapping with a key set."""
        return replace(self, value={**self.entries, key: node}, keys={key: node.place, **self.keys})


#: Files whose names say what they are, not what they are about.
_KINDS = frozenset({"task", "dataset", "model", "run", "evaluation"})


def name_key(name: str) -> str:
    """Return a name as a key: letters, digits, `_` and `-`."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", name).strip("-")[:250]


def with_key(node: Node) -> Node:
    """Return a definition with a key: its own, else the name of its file, or of the folder of
    `task.yaml`.
    """
    if not node.is_map or "key" in node.entries or node.is_broken:
        return node
    path = FilePath(node.place.file or "task")
    stem = (
        path.stem
        if path.stem not in _KINDS
        else path.resolve().parent.name
        if node.place.file
        else "task"
    )
    return node.having("key", Node(name_key(stem) or "task", node.place))


def to_plain(node: Node) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return the tree as plain Python values."""
    if isinstance(node.value, dict):
        return {key: to_plain(entry) for key, entry in node.value.items()}
    return (
        [to_plain(entry) for entry in node.value] if isinstance(node.value, tuple) else node.value
    )


def from_plain(value: object, place: Place) -> Node:
    """Return plain values as a tree whose nodes all stand at `place`."""
    if isinstance(value, Mapping):
        value = {str(key): from_plain(entry, place) for key, entry in value.items()}
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = tuple(from_plain(entry, place) for entry in value)
    return Node(value, place)


def walk_scalars(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every scalar of a tree with the way to it."""
    if node.is_scalar:
        yield path, node
    for step, entry in node.entries.items() if node.is_map else enumerate(node.items):
        yield from walk_scalars(entry, (*path, step))


def map_scalars(node: Node, change: Callable[[Path, Node], Node], path: Path = ()) -> Node:
    """Return the tree with every scalar replaced by what `change` makes of it."""
    if node.is_scalar:
        return change(path, node)
    if node.is_map:
        inner: Any = {
            key: map_scalars(one, change, (*path, key)) for key, one in node.entries.items()
        }
    else:
        inner = tuple(
            map_scalars(one, change, (*path, index)) for index, one in enumerate(node.items)
        )
    return replace(node, value=inner)


#: How the text at a position is read: a value (environment values are expanded), a Jinja template,
#: a snippet, or material: rows, answers and column names, which are never expanded.
Kind = Literal["plain", "template", "code", "material"]
_MATERIAL_FIELDS = frozenset(
    {
        "value",
        "values",
        "positive_answer",
        "negative_answer",
        "ground_truth_choice_field",
        "choices_field",
    }
)
_CODE_FIELDS = frozenset(
    {"source_code", "compute_scores_snippet", "compute_metrics_snippet", "snippet"}
)
_PROMPT_FIELDS = frozenset(
    {"content", "template", "system_prompt", "user_prompt", "message_format"}
)


@cache
def _scorer_templates() -> frozenset[str]:
    from answerkey.scorers import list_template_fields

    return list_template_fields() | _PROMPT_FIELDS


def kind_of(path: Path) -> Kind:
    """Return what kind of text stands at a position; indices of lists do not matter."""
    names = ["", *(step for step in path if isinstance(step, str))]
    last, above, pairs = names[-1], set(names[:-1]), set(itertools.pairwise(names))
    if pairs & {("source", "rows"), ("source", "header"), ("source", "questions")}:
        return "material"
    if last in _CODE_FIELDS:
        return "code"
    if "solver" in above:
        return "template" if _PROMPT_FIELDS & {last} or "content" in above else "plain"
    if above & {"filter", "filters"} or ("source", "derive") in pairs:
        is_template = last == "expression" or "derive" in above
    elif "scorers" in above:
        is_template = names[names.index("scorers") + 1] in _scorer_templates()
    else:
        return "plain"
    if is_template:
        return "template"
    return "material" if last in _MATERIAL_FIELDS else "plain"


def resolve_path(path: FilePath, place: Place | None) -> FilePath:
    """Return the real path, or raise E101 for a text that cannot be a path."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise SpecError("E101", f"{str(path)!r} cannot be a path: {error}", where=place) from None


def read_yaml(
    path: FilePath, shown: str, problems: Problems, *, place: Place | None = None
) -> Node:
    """Return the tree of a file; `shown` is its name in messages, `place` what asked for it."""
    return parse_yaml(read_text(path, shown, place=place, most=MAX_YAML_BYTES), shown, problems)


def read_text(
    path: FilePath, shown: str, *, place: Place | None = None, most: int = MAX_BYTES
) -> str:
    """Return the text of a file, or raise E101/E102/E104 for one that is missing, not text or too
    large.
    """
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
        hint: str | None = f"there is no folder `{path.parent}`"
        if path.parent.is_dir():
            there = [
                one.name
                for one in path.parent.iterdir()
                if one.suffix == path.suffix and path.suffix
            ]
            listed = f"files there: {listing(sorted(there), limit=10)}" if there else None
            hint = suggest(path.name, there) or listed
        raise SpecError("E101", f"file `{shown}` does not exist", where=where, hint=hint) from None
    except OSError as error:
        raise SpecError(
            "E101", f"file `{shown}` cannot be read: {error.strerror}", where=where
        ) from None
    if len(raw) > most:
        hint = "keep rows in a data file and name it in `file_path`"
        raise SpecError(
            "E104", f"`{shown}` is larger than {most // 1_000_000} MB", where=where, hint=hint
        )
    return decode(raw, shown)


def decode(raw: bytes, shown: str) -> str:
    """Return the text of a file's bytes, or raise E102 at the line where they are none."""
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
        line = text.count("\n", 0, text.index("\0")) + 1
        message, hint = f"`{shown}` holds a NUL character", "save the file as UTF-8 text"
        raise SpecError("E102", message, where=Place(file=shown, line=line), hint=hint)
    return text


# ruamel says what it expected of a text that is no YAML, which is seldom what was meant.

#: A line `key: value`, or one without the space; a value that is a bare template.
_ENTRY = re.compile(r"\s*(?:- +)*[\w$.-]+(?P<mark>: +|:(?!//))(?P<value>\S.*)")
_INDENT = re.compile(r"^(?: *- )* *(?=[^ ])", re.MULTILINE)
_BARE_TEMPLATE = re.compile(r"\s*(?:- +)*(?:[\w$.-]+: +)?(?P<value>\{\{.*)")


def parse_yaml(text: str, shown: str | None, problems: Problems) -> Node:
    """Return the tree of a YAML text; an empty text is a null scalar."""
    try:
        return _Builder(shown, problems, YAML(typ="safe", pure=True).parse(text)).build()
    except MarkedYAMLError as error:
        reason, row, column, hint = _explain_syntax(error, text.split("\n"))
        where = Place(shown, row + 1, column + 1)
        raise SpecError("E102", f"not valid YAML: {reason}", where=where, hint=hint) from None
    except YAMLError as error:
        position = getattr(error, "position", None)
        line = None if position is None else text.count("\n", 0, position) + 1
        message, hint = f"not valid YAML: {str(error).splitlines()[0]}", "remove the character"
        raise SpecError("E102", message, where=Place(shown, line), hint=hint) from None


def parse_plain(text: str) -> object:
    """Return the value of YAML that a program wrote, at any length.

    SpecError E101, or E104 for a bomb.
    """

    def count(value: object) -> int:
        """Return how many nodes a value has, aliases counted each time they are used."""
        if isinstance(value, dict | list) and id(value) not in sizes:
            sizes[id(value)] = MAX_PLAIN_NODES  # what holds itself has no end
            inner = value.values() if isinstance(value, dict) else value
            sizes[id(value)] = 1 + sum(map(count, inner))
        return sizes.get(id(value), 1)

    sizes: dict[int, int] = {}
    try:
        found: object = YAML(typ="safe").load(text)
        if count(found) >= MAX_PLAIN_NODES:
            raise SpecError("E104", f"more than {MAX_PLAIN_NODES:,} nodes")
    except (YAMLError, ValueError, RecursionError) as error:
        raise SpecError("E101", f"not valid YAML: {error}") from None
    return found


#: What a page prints in place of lines that it leaves out.
ELLIPSES = frozenset({"...", "…"})
ELLIPSIS_HINT = (
    "`...` stands for lines that the page leaves out: write them here, or delete this line"
)


def _explain_syntax(error: MarkedYAMLError, lines: list[str]) -> tuple[str, int, int, str]:
    """Return what is wrong, its line and column from 0, and what to write instead."""
    reason, context = error.problem or "", error.context or ""
    mark = error.problem_mark or error.context_mark
    start = error.context_mark or mark
    row, column, begun = min(mark.line, len(lines) - 1), mark.column, start.column
    source, opened = lines[row], lines[min(start.line, len(lines) - 1)]
    for at, text in enumerate(lines):
        if text.strip() in ELLIPSES:
            return (
                "a line that is no `key: value`",
                at,
                len(text) - len(text.lstrip()),
                ELLIPSIS_HINT,
            )
    bracket = opened[begun : begun + 1] if "flow" in context else ""
    if "\t" in source[: len(source) - len(source.lstrip())]:
        return (
            "a tab in the indentation",
            row,
            source.index("\t"),
            "indent with spaces: YAML takes no tabs",
        )
    if found := _BARE_TEMPLATE.match(source):
        at = found.start("value")
        return "a template without quotes", row, at, f"write {_quote_value(source, at)}"
    if "escape" in reason:
        hint = f"write {_quote_value(opened, begun)}, or `\\\\` for each"
        hint = "write `|`; the backslash comes from a Markdown table" if "'|'" in reason else hint
        return "a backslash in double quotes begins an escape", row, column - 1, hint
    if "end of stream" in reason:
        return "a quote that is not closed", start.line, begun, f"close it with `{opened[begun]}`"
    if bracket in {"[", "{"}:
        if (closing := "]" if bracket == "[" else "}") not in opened[begun:]:
            return (
                f"a `{bracket}` that is not closed",
                start.line,
                begun,
                f"close it with `{closing}`",
            )
        return (
            f"a comma is missing in `{bracket}…{closing}`",
            row,
            column,
            "put commas between the entries",
        )
    if "chomping" in reason or "start any token" in reason:
        at = begun if "chomping" in reason else column
        hint = f"it needs quotes: write {_quote_value(source, at)}"
        return f"text that begins with `{source[at]}`", row, at, hint
    if "mapping values" in reason or "expected ':'" in reason:
        first = start.line if "expected" in reason else row - 1
        above = next((at for at in range(max(first, 0), -1, -1) if lines[at].strip()), row)
        for at in (row, above):
            if (found := _ENTRY.match(lines[at])) and found["mark"] == ":":
                said = f"{lines[at][: found.end('mark')].lstrip()} {found['value']}"
                return (
                    "no space after the colon",
                    at,
                    found.start("mark"),
                    hide_values(f"write `{said}`"),
                )
        if (found := _ENTRY.match(source)) and column > found.start("value"):
            hint = (
                "text that holds `: ` needs quotes: write "
                f"{_quote_value(source, found.start('value'))}"
            )
            return "a second colon in one line", row, column, hint
        hint = (
            "write `key: value` in the same column as its neighbours, or put several lines "
            "in quotes"
        )
        at = row if found and "mapping" in reason else above
        return "a line without `key:`, or one that is indented too far", at, 0, hint
    if "<block end>" in reason:
        for at in range(start.line, row):
            if lines[at].replace('\\"', "").count('"') % 2:
                return (
                    "a quote that is not closed",
                    at,
                    lines[at].index('"'),
                    "close it where the text ends",
                )
        if "scalar" in reason or reason.endswith(("']'", "'}'")):
            hint = (
                "put quotes around it all, and the other kind inside: `\"{{ sample['answer'] }}\"`"
            )
            return "text behind the end of a value", row, column, hint
        above = len((_INDENT.findall("\n".join(lines[:row])) or [""])[-1])
        hint = f"begin it as its neighbours do; the line above is indented by {above}"
        return "an indentation that fits no line above, or a list beside keys", row, column, hint
    hint = "begin a list on its own line: `- entry`; text with `{`, `[`, `: ` or ` #` needs quotes"
    return reason or "it cannot be read", row, column, hint


def _quote_value(source: str, at: int) -> str:
    """Return the entry of a line with all from a column on in quotes, as code."""
    value = source[at:].strip().strip('"')
    quoted = f"'{value}'" if '"' in value or "\\" in value else f'"{value}"'
    return hide_values(f"`{source[:at].lstrip().removeprefix('- ')}{quoted}`")


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
    return float(text) if _DECIMAL.fullmatch(text) else text


class _Builder:
    """Builds one tree from parser events, counting nodes as an expansion of all aliases would."""

    def __init__(self, shown: str | None, problems: Problems, events: Iterator[Any]) -> None:
        self.shown, self.problems, self.count = shown, problems, 0
        self.events = events  # ruamel.yaml has no types for them
        self.anchors: dict[str, tuple[Node, int] | None] = {}

    def build(self) -> Node:
        root: Node | None = None
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                if root is not None:
                    hint = "keep one document in each file"
                    raise self.refuse("E104", "a second YAML document begins here", event, hint)
                root = self.node(next(self.events), 0)
        return root if root is not None else Node(None, Place(self.shown, 1, 1))

    def place(self, event: Any) -> Place:  # noqa: ANN401
        return Place(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)

    def refuse(self, code: str, message: str, event: Any, hint: str | None = None) -> SpecError:  # noqa: ANN401
        return SpecError(code, message, where=self.place(event), hint=hint)

    def node(self, event: Any, depth: int) -> Node:  # noqa: ANN401
        if depth > MAX_DEPTH:
            raise self.refuse("E104", f"nested more than {MAX_DEPTH} deep", event)
        if isinstance(event, AliasEvent):
            known = self.anchors.get(event.anchor, ())
            if known is None:
                raise self.refuse("E104", f"alias `*{event.anchor}` stands inside itself", event)
            if not known:
                hint = "text that begins with `*` needs quotes"
                raise self.refuse("E102", f"alias `*{event.anchor}` has no anchor", event, hint)
            self.add(known[1], event)
            return known[0]
        before = self.count
        self.add(1, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if isinstance(event, ScalarEvent):
            node = self.scalar(event)
        elif isinstance(event, SequenceStartEvent):
            self.check_tag(event)
            inside = itertools.takewhile(
                lambda one: not isinstance(one, SequenceEndEvent), self.events
            )
            node = Node(tuple(self.node(one, depth + 1) for one in inside), self.place(event))
        elif isinstance(event, MappingStartEvent):
            self.check_tag(event)
            node = self.mapping(event, depth)
        else:
            raise self.refuse("E102", "not valid YAML", event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def add(self, nodes: int, event: Any) -> None:  # noqa: ANN401
        self.count += nodes
        if self.count > MAX_NODES:
            message = f"more than {MAX_NODES:,} nodes (aliases counted each time they are used)"
            raise self.refuse(
                "E104", message, event, "keep rows in a data file and name it in `file_path`"
            )
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
        what, hint = "", "write the path in single quotes, or with `/`"
        if event.style == '"' and _ESCAPED_PATH.match(event.value):
            what = "a backslash in double quotes begins an escape"
        elif event.style is None and event.value[:1] in "“”„«\u2018\u2019" and "{{" in event.value:
            what, hint = (
                f"`{event.value[0]}` is no quote of YAML",
                "write the plain quotes `\"` or `'`",
            )
        if what:
            self.problems.add("E102", what, place, hint)
            return self.problems.mark_broken(place)
        if event.style is not None or kind in {"str", "!"}:
            return Node(event.value, place, event.style or "")
        value = resolve_scalar(event.value)
        if isinstance(value, float) and math.isinf(value):
            message = f"the number {event.value[:40]} is too large"
            self.problems.add("E108", message, place, "put it in quotes to make it text")
            return Node(BROKEN, place, is_broken=True)
        return Node(value, place)

    def check_tag(self, event: Any) -> str | None:  # noqa: ANN401
        """Return the kind a standard tag names, None without a tag; report any other tag."""
        tag = event.tag
        if tag is None or tag == "!":
            return None if tag is None else "!"
        kind = str(tag).removeprefix(_STANDARD)
        if kind not in _TAGS:
            name = f"!!{kind}" if str(tag).startswith(_STANDARD) else tag
            hint = "the only tag is `!include path`; put text that begins with `!` in quotes"
            self.problems.add("E104", f"unknown YAML tag `{name}`", self.place(event), hint)
        return kind

    def mapping(self, start: Any, depth: int) -> Node:  # noqa: ANN401
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Node] = []
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                break
            is_merge = (
                isinstance(event, ScalarEvent) and event.value == "<<" and event.style is None
            )
            key = self.key(self.node(event, depth + 1))
            value = self.node(next(self.events), depth + 1)
            if is_merge:  # of several mappings, earlier ones win over later ones
                sources = value.items if value.is_list else (value,)
                if all(one.is_map for one in sources):
                    merged.extend(sources)
                else:
                    self.problems.add(
                        "E108", "`<<` merges mappings only", value.place, "write `<<: *anchor`"
                    )
            elif key in keys:
                lines = f"lines {keys[key].line} and {event.start_mark.line + 1}"
                message = f"key `{key}` is given twice: {lines}"
                self.problems.add("E103", message, self.place(event), "keep one of them")
            else:
                entries[key], keys[key] = value, self.place(event)
        for source in merged:
            entries = entries | {
                key: node for key, node in source.entries.items() if key not in entries
            }
            keys = source.keys | keys
        return Node(entries, self.place(start), keys=keys)

    def key(self, node: Node) -> str:
        if node.is_map:  # what `{{ x }}` is
            where = replace(node.place, column=(node.place.column or 2) - 1)
            hint = 'put it in quotes: `"{{ sample.answer }}"`'
            raise SpecError(
                "E102", "not valid YAML: a template without quotes", where=where, hint=hint
            )
        if not node.is_scalar:
            self.problems.add("E108", "a list cannot be a key", node.place, "write a text")
            return f"line {node.place.line} column {node.place.column}"
        if node.text is None:
            self.problems.add(
                "E108", f"key {node.value!r} is not text", node.place, "put the key in quotes"
            )
        return str(node.value)
