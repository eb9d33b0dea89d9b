"""The tree of a YAML file: nodes with their file, line and column, and the problems found in it.

YAML is read safely, within limits, and text stays text. Only `null`, `true`/`false`, plain decimal
integers and decimals with a dot are read as values; `yes`, `NO`, `2024-01-01`, `010`, `1:30`,
`0x1F` and `1_000` stay text, so that no choice and no answer changes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode, SequenceNode

from answerkey.errors import AnswerkeyError, Place, SpecError, listing, raise_all, suggest
from answerkey.types import Notice

#: The path to a node of a tree: keys of mappings and indices of lists.
Steps = tuple[str | int, ...]
#: A node of ruamel.yaml, which has no types.
Source = Any
#: A mapping with plain values, as JSON or YAML has them.
Json = dict[str, Any]
#: A path, or the address of something remote.
Location = str | Path


@dataclass
class ProblemList:
    """Collects errors and notices, so that all of them are shown together; each is kept once."""

    errors: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def report(self, error: AnswerkeyError) -> None:
        """Add an error, or each of several."""
        marks = {_identify(kept) for kept in self.errors}
        for single in getattr(error, "errors", (error,)):
            if _identify(single) not in marks:
                self.errors.append(single)

    def raise_any(self, earlier: int = 0) -> None:
        """Raise all errors but the first `earlier` ones, by position, if there are any."""
        if len(self.errors) > earlier:
            raise_all(sort_errors(self.errors[earlier:]))

    def add(
        self,
        code: str,
        message: str,
        where: Place | None,
        hint: str | None = None,
    ) -> None:
        """Keep a new SpecError."""
        error = SpecError(code, message, where=where, hint=hint)
        self.report(error)

    def notice(
        self,
        message: str,
        where: Place | None,
        hint: str | None = None,
    ) -> None:
        """Keep a notice; one with the same message is kept once, wherever it arises."""
        messages = [kept.message for kept in self.notices]
        if message not in messages:
            self.notices.append(Notice(message, where, hint))


def _identify(error: AnswerkeyError) -> tuple[str, str, Place | None]:
    return error.code, error.message, error.where


@dataclass(eq=False)
class Node:
    """A value of a YAML file: a scalar, a tuple of nodes, or a mapping from texts to nodes.

    `style` is YAML's mark for a scalar (`|`, `>`, quotes or none), the tag `!include`, or one of
    three words. `include`: the text is a whole file that `!include` named. `caller`: the value
    begins with one from the caller's environment, `$V` or `$V/x`. `argument`: a text of the command
    line. `keys` says where each key of a mapping stands. What is wrong is reported to `problems`.

    `entries` are those of a mapping and `items` those of a list, both empty for anything else;
    `text` is the value if it is text. A null means the same as leaving the key out. A node is never
    changed.
    """

    value: Any
    place: Place = Place()  # noqa: RUF009 - it is frozen
    style: str = ""
    keys: dict[str, Place] = field(default_factory=dict)
    problems: ProblemList = field(default_factory=ProblemList, repr=False)

    def __post_init__(self) -> None:
        value = self.value
        self.is_map = isinstance(value, dict)
        self.is_list = isinstance(value, tuple)
        self.is_scalar = not isinstance(value, dict | tuple)
        self.is_null = value is None
        self.entries: dict[str, Node] = value if self.is_map else {}
        self.items: tuple[Node, ...] = value if self.is_list else ()
        self.text: str | None = value if isinstance(value, str) else None

    @property
    def key(self) -> str | None:
        """The `key` that a mapping states."""
        key = self.field("key")
        if key.is_null or not key.is_scalar:
            return None
        return str(key.value)

    def report(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """Report an error at this node, or at one of its keys."""
        where = self.place
        if key is not None:
            where = self.key_place(key)
        self.problems.add(code, message, where, hint)

    def field(self, key: str) -> Node:
        """Return the entry under a key; null, at the place of this node, when there is none."""
        return self.entries.get(key) or self.changed(None)

    def find(self, path: Steps) -> tuple[Node, Steps]:
        """Return the deepest node that exists along `path`, and the path to it.

        Steps that lead nowhere are skipped: pydantic puts the names of union members among them.
        """
        node = self
        taken = Steps()
        for step in path:
            inner = None
            if isinstance(step, str):
                inner = node.entries.get(step)
            elif step < len(node.items):
                inner = node.items[step]
            if inner is not None:
                node = inner
                taken = (*taken, step)
        return node, taken

    def at(self, *path: str | int) -> Node:
        """Return the deepest node that exists along `path`."""
        return self.find(path)[0]

    def of_line(self, path: Steps, line: int | None) -> Place:
        """Return the place of a line of the text at `path`."""
        return self.at(*path).place_of_line(line)

    def of_template(self, source: str) -> Place | None:
        """Return the place of a template, with its braces or as a bare expression."""
        spellings = {source, source.removeprefix("{{ ").removesuffix(" }}")}
        for _, node in walk_scalars(self):
            if node.text in spellings:
                return node.place
        return None

    def key_place(self, key: str) -> Place:
        """Return the place of a key of a mapping; the node's own place when it is not written."""
        return self.keys.get(key, self.place)

    def place_of_line(self, line: int | None) -> Place:
        """Return the place of a line of a text; for folded and quoted texts, of their beginning."""
        start = self.place.line
        if line is None or start is None:
            return self.place
        if self.style == "|":
            number = start + line
        elif self.style == "include" and line > 1:
            number = start + line - 1
        else:
            return self.place
        return replace(self.place, line=number, column=None)

    def changed(self, value: object) -> Node:
        """Return another value at the same place."""
        return Node(value, self.place, problems=self.problems)

    def without(self, *names: str) -> Node:
        """Return the mapping without these keys."""
        entries = dict(self.entries)
        for name in names:
            entries.pop(name, None)
        return replace(self, value=entries)

    def with_entry(self, key: str, node: Node) -> Node:
        """Return the mapping with a key set."""
        entries = {**self.entries, key: node}
        keys = {key: node.place, **self.keys}
        return replace(self, value=entries, keys=keys)


def advise(
    name: str,
    names: Iterable[str],
    label: str,
) -> str:
    """Return a hint with the name that a misspelt name may mean, or with all names."""
    candidates = list(names)
    near = suggest(name, candidates)
    if near is None:
        return f"{label}: {listing(candidates)}"
    return near


def sort_errors(errors: Sequence[AnswerkeyError]) -> list[AnswerkeyError]:
    """Return errors by position, files in the order in which they turn up, no file last."""
    places = [error.where or Place() for error in errors]
    files = [place.file for place in places if place.file is not None]

    def rank(error: AnswerkeyError) -> tuple[int, int, int]:
        where = error.where
        if where is None or where.file is None:
            return len(files), 0, 0
        place = files.index(where.file)
        return place, where.line or 0, where.column or 0

    return sorted(errors, key=rank)


#: File names that state the kind of a file, not its subject.
_KINDS = frozenset({"task", "dataset", "model", "run", "evaluation"})


def name_key(name: str) -> str:
    """Return a name as a key: letters, digits, `_` and `-`."""
    key = re.sub(r"[^a-zA-Z0-9_-]+", "-", name)
    return key.strip("-")[:250]


def with_key(node: Node) -> Node:
    """Return a definition with a key: its own, or the name of its file, or of its folder.

    The folder counts for files with names such as `task.yaml`.
    """
    if not node.is_map or "key" in node.entries:
        return node
    name = "task"
    if node.place.file:
        path = Path(node.place.file)
        name = path.stem
        if name in _KINDS:
            name = path.resolve().parent.name
    key = name_key(name) or "task"
    return node.with_entry("key", node.changed(key))


def to_plain(node: Node) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return the tree as plain Python values."""
    if node.is_map:
        plain = {}
        for key, entry in node.entries.items():
            plain[key] = to_plain(entry)
        return plain
    if node.is_list:
        return list(map(to_plain, node.items))
    return node.value


def from_plain(
    value: object,
    place: Place,
    problems: ProblemList | None = None,
) -> Node:
    """Return plain values as a tree whose nodes all have this place."""
    problems = problems or ProblemList()
    if isinstance(value, Mapping):
        entries = {}
        for key, entry in value.items():
            entries[str(key)] = from_plain(entry, place, problems)
        value = entries
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = []
        for item in value:
            items.append(from_plain(item, place, problems))
        value = tuple(items)
    return Node(value, place, problems=problems)


def walk_scalars(
    node: Node,
    path: Steps = (),
) -> Iterator[tuple[Steps, Node]]:
    """Yield every scalar of a tree with the path to it."""
    if node.is_scalar:
        yield path, node
    for key, entry in node.entries.items():
        yield from walk_scalars(entry, (*path, key))
    for index, entry in enumerate(node.items):
        yield from walk_scalars(entry, (*path, index))


def map_scalars(
    node: Node,
    change: Callable[[Steps, Node], Node],
    path: Steps = (),
) -> Node:
    """Return the tree with every scalar replaced by the result of `change`."""
    if node.is_scalar:
        return change(path, node)
    if node.is_list:
        items = []
        for index, item in enumerate(node.items):
            items.append(map_scalars(item, change, (*path, index)))
        return replace(node, value=tuple(items))
    entries = {}
    for key, entry in node.entries.items():
        entries[key] = map_scalars(entry, change, (*path, key))
    return replace(node, value=entries)


#: How a text is read: as a value (environment values are expanded), a Jinja template, a snippet,
#: or material: rows, answers and column names, which are never expanded.
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
_MATERIAL_PARTS = {
    ("source", "rows"),
    ("source", "header"),
    ("source", "questions"),
}


@cache
def _scorer_templates() -> frozenset[str]:
    from answerkey.scorers import list_template_fields

    return list_template_fields() | _PROMPT_FIELDS


def list_keys(path: Steps) -> list[str]:
    """Return the keys among the steps of a path."""
    return [step for step in path if isinstance(step, str)]


def find_text_kind(path: Steps) -> Kind:
    """Return the kind of text at a path; indices of lists do not matter."""
    *above, name = ["", *list_keys(path)]
    if _MATERIAL_PARTS.intersection(itertools.pairwise([*above, name])):
        return "material"
    if name in _CODE_FIELDS:
        return "code"
    if _is_template(above, name):
        return "template"
    if "solver" in above or name not in _MATERIAL_FIELDS:
        return "plain"
    if {"filter", "filters", "scorers"}.intersection(above):
        return "material"
    return "plain"


def _is_template(above: list[str], name: str) -> bool:
    if "solver" in above:
        return name in _PROMPT_FIELDS or "content" in above
    if {"filter", "filters"}.intersection(above):
        return name == "expression"
    if "source" in above and "derive" in above:
        return True
    if "scorers" in above:
        names = [*above, name]
        field_name = names[names.index("scorers") + 1]
        return field_name in _scorer_templates()
    return False


# Reading files.

MAX_BYTES = 10_000_000
#: Parsing this number of characters of YAML takes about two seconds.
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
    text = read_text(path, shown, place=place, most=MAX_YAML_BYTES)
    return parse_yaml(text, shown, problems)


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
        hint = None
        if path.parent.is_dir():
            names = map(str, path.parent.iterdir())
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
        before = text[: text.index("\0")]
        reason = "a NUL character"
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode().removeprefix("\ufeff")
        reason = f"byte 0x{raw[error.start]:02x}"
    *earlier_lines, line = before.split("\n")
    where = Place(shown, len(earlier_lines) + 1, len(line) + 1)
    message = f"`{shown}` is not UTF-8 text: {reason}"
    raise SpecError("E102", message, where=where, hint="save the file as UTF-8")


#: The marks that documentation prints in place of omitted lines.
ELLIPSES = frozenset({"...", "…"})
ELLIPSIS_HINT = (
    "`...` stands for lines that the page leaves out: write them here, or delete this line"
)
_HINT = (
    "indent with spaces, write `: ` after a key, close quotes and brackets; text with `{`, `[`, "
    "`: `, ` #` or `\\` needs single quotes around it all"
)


def parse_yaml(text: str, shown: str | None, problems: ProblemList) -> Node:
    """Return the tree of a YAML text; an empty text is a null scalar."""
    start = Place(shown, 1, 1)
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except RecursionError:
        raise SpecError("E104", "nested too deep", where=start) from None
    except YAMLError as error:
        raise _explain(error, text, shown) from None
    if root is None:
        return Node(None, start, problems=problems)
    return _Builder(shown, problems).build(root)


def _explain(error: YAMLError, text: str, shown: str | None) -> SpecError:
    """Return a syntax error in the words of ruamel, with the most frequent cause as hint."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() in ELLIPSES:
            indent = len(line) - len(line.lstrip())
            where = Place(shown, number, indent + 1)
            message = "not valid YAML: a line that is no `key: value`"
            return SpecError("E102", message, where=where, hint=ELLIPSIS_HINT)
    reason = str(error).splitlines()[0]
    position = getattr(error, "position", None)
    where = Place(shown)
    if position is not None:
        line_breaks = text.count("\n", 0, position)
        where = Place(shown, line_breaks + 1)
    elif isinstance(error, MarkedYAMLError):
        context = error.context_mark
        mark = error.problem_mark or context
        where = Place(shown, mark.line + 1, mark.column + 1)
        reason = error.problem or error.context
        if context is not None and context.line != mark.line:
            reason += f", {error.context} that begins in line {context.line + 1}"
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
        if not isinstance(value, dict | list):
            return 1
        key = id(value)
        if key not in sizes:
            sizes[key] = MAX_PLAIN_NODES  # a value that holds itself has no end
            inner = value.values() if isinstance(value, dict) else value
            sizes[key] = 1 + sum(map(count, inner))
        return sizes[key]

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
_MERGE_TAG = f"{_STANDARD}merge"
_TAGS = frozenset(
    {
        "bool",
        "float",
        "int",
        "map",
        "merge",
        "null",
        "seq",
        "str",
        "timestamp",
        "value",
    }
)
#: Longer digit strings are identifiers, not numbers; Python itself refuses to print them back.
_MAX_DIGITS = 300


@dataclass
class _Builder:
    """Builds one tree from the nodes of ruamel; every use of an alias counts its nodes again."""

    shown: str | None
    problems: ProblemList
    count: int = 0

    def build(self, source: Source, depth: int = 0) -> Node:
        mark = source.start_mark
        place = Place(self.shown, mark.line + 1, mark.column + 1)
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
        tag = str(source.tag)
        kind = tag.removeprefix(_STANDARD)
        is_scalar = isinstance(source, ScalarNode)
        is_include = is_scalar and kind == INCLUDE_TAG
        if kind not in _TAGS and not is_include:
            name = tag.replace(_STANDARD, "!!")
            hint = "the only tag is `!include path`; put text that begins with `!` in quotes"
            self.problems.add("E104", f"unknown YAML tag `{name}`", place, hint)
        if is_scalar:
            return self._build_scalar(source, place, kind)
        if isinstance(source, SequenceNode):
            items = []
            for item in source.value:
                items.append(self.build(item, depth + 1))
            return Node(tuple(items), place, problems=self.problems)
        return self._build_mapping(source, place, depth)

    def _build_scalar(
        self,
        source: Source,
        place: Place,
        kind: str,
    ) -> Node:
        text = source.value
        half = _SURROGATE.search(text)
        if half is not None:  # an escape can write it, no file can hold it
            message = f"`\\u{ord(half[0]):04x}` is half of a surrogate pair, not a character"
            raise SpecError("E102", message, where=place, hint="write the character itself")
        style = source.style or ""
        if kind == INCLUDE_TAG:
            style = INCLUDE_TAG
        node = Node(
            text,
            place,
            style,
            problems=self.problems,
        )
        if node.style or kind == "str":
            return node
        if text in _WORDS:
            return node.changed(_WORDS[text])
        if len(text) <= _MAX_DIGITS and _INTEGER.fullmatch(text):
            return node.changed(int(text))
        if not _DECIMAL.fullmatch(text):
            return node
        if math.isinf(float(text)):
            hint = "put it in quotes to make it text"
            node.report("E108", f"the number {text[:40]} is too large", hint)
            return node
        return node.changed(float(text))

    def _build_mapping(
        self,
        source: Source,
        place: Place,
        depth: int,
    ) -> Node:
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Node] = []
        for key_source, value_source in source.value:
            key_node = self.build(key_source, depth + 1)
            key = key_node.text
            if key is None:
                key = _read_odd_key(key_node)
            value = self.build(value_source, depth + 1)
            if key_source.tag == _MERGE_TAG:
                merged.extend(_list_merged(value))
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


def _list_merged(value: Node) -> tuple[Node, ...]:
    """Return the mappings that `<<` merges."""
    sources = value.items if value.is_list else (value,)
    if all(source.is_map for source in sources):
        return sources
    value.report("E108", "`<<` merges mappings only", "write `<<: *anchor`")
    return ()


def _read_odd_key(node: Node) -> str:
    """Report a key that is not text, and return it as text."""
    if node.is_map:  # `{{ x }}` without quotes is read as a mapping in a mapping
        column = node.place.column or 2
        where = replace(node.place, column=column - 1)
        hint = 'put it in quotes: `"{{ sample.answer }}"`'
        message = "not valid YAML: a template without quotes"
        raise SpecError("E102", message, where=where, hint=hint)
    node.report("E108", "a key must be text", "put the key in quotes")
    return str(to_plain(node))
