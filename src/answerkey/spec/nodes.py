"""The tree of a YAML file: nodes with their file, line and column, and the problems found in it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Literal

from answerkey.errors import AnswerkeyError, Place, SpecError, listing, suggest
from answerkey.types import Notice

Path = tuple[str | int, ...]


@dataclass
class ProblemList:
    """Collects errors and notices, so that all of them are shown together; each is kept once."""

    errors: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def report(self, error: AnswerkeyError) -> None:
        """Keep an error, or each of several."""
        marks = {(kept.code, kept.message, kept.where) for kept in self.errors}
        for single in getattr(error, "errors", (error,)):
            if (single.code, single.message, single.where) not in marks:
                self.errors.append(single)

    def add(self, code: str, message: str, where: Place | None, hint: str | None = None) -> None:
        """Keep a new SpecError."""
        self.report(SpecError(code, message, where=where, hint=hint))

    def notice(self, message: str, where: Place | None, hint: str | None = None) -> None:
        """Keep a notice; one with the same message is kept once, wherever it arises."""
        if message not in [kept.message for kept in self.notices]:
            self.notices.append(Notice(message, where, hint))


@dataclass(frozen=True)
class Node:
    """A value of a YAML file: a scalar, a tuple of nodes, or a mapping from texts to nodes.

    `style` is YAML's mark for a scalar (`|`, `>`, quotes or none), the tag `!include`, or one of
    three words. `include`: the text is a whole file that `!include` named. `caller`: the value
    begins with one from the caller's environment, `$V` or `$V/x`. `argument`: a text of the command
    line. `keys` says where each key of a mapping stands. What is wrong is reported to `problems`.
    """

    value: Any
    place: Place = Place()  # noqa: RUF009 - it is frozen
    style: str = ""
    keys: dict[str, Place] = field(default_factory=dict)
    problems: ProblemList = field(default_factory=ProblemList, repr=False, compare=False)

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
        """Whether the value is null, which means the same as leaving it out."""
        return self.value is None

    @property
    def entries(self) -> dict[str, Node]:
        """The entries of a mapping; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> tuple[Node, ...]:
        """The entries of a list; empty for anything else."""
        return self.value if isinstance(self.value, tuple) else ()

    @property
    def text(self) -> str | None:
        """The value, if it is text."""
        return self.value if isinstance(self.value, str) else None

    @property
    def key(self) -> str | None:
        """The `key` that a mapping states."""
        key = self.field("key")
        return str(key.value) if key.is_scalar and not key.is_null else None

    def report(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """Report an error at this node, or at one of its keys."""
        where = self.place if key is None else self.key_place(key)
        self.problems.add(code, message, where, hint)

    def field(self, key: str) -> Node:
        """Return the entry under a key; null, at the place of this node, when there is none."""
        return self.entries.get(key) or self.changed(None)

    def find(self, path: Path) -> tuple[Node, Path]:
        """Return the deepest node that exists along `path`, and the path to it.

        Steps that lead nowhere are skipped: pydantic puts the names of union members among them.
        """
        node = self
        taken = Path()
        for step in path:
            inner = dict(node.steps()).get(step)
            if inner is not None:
                node = inner
                taken = (*taken, step)
        return node, taken

    def at(self, *path: str | int) -> Node:
        """Return the deepest node that exists along `path`."""
        return self.find(path)[0]

    def of_line(self, path: Path, line: int | None) -> Place:
        """Return where a line of the text at `path` stands."""
        return self.at(*path).place_of_line(line)

    def of_template(self, source: str) -> Place | None:
        """Return where a template stands, with its braces or as a bare expression."""
        spellings = {source, source.removeprefix("{{ ").removesuffix(" }}")}
        for _, node in walk_scalars(self):
            if node.text in spellings:
                return node.place
        return None

    def key_place(self, key: str) -> Place:
        """Return where a key of a mapping stands; the node's own place when it is not written."""
        return self.keys.get(key, self.place)

    def place_of_line(self, line: int | None, column: int | None = None) -> Place:
        """Return where a line of a text stands; for folded and quoted texts, where they begin.

        The column is known only in included files: YAML indents other texts.
        """
        start = self.place.line
        if line is None or start is None:
            return self.place
        if self.style == "|":
            return replace(self.place, line=start + line, column=None)
        if self.style != "include":
            return self.place
        if line == 1:
            return replace(self.place, column=(self.place.column or 1) + (column or 1) - 1)
        return replace(self.place, line=start + line - 1, column=column)

    def changed(self, value: object) -> Node:
        """Return another value at the same place."""
        return Node(value, self.place, problems=self.problems)

    def without(self, *names: str) -> Node:
        """Return the mapping without these keys."""
        entries = {key: node for key, node in self.entries.items() if key not in names}
        return replace(self, value=entries)

    def having(self, key: str, node: Node) -> Node:
        """Return the mapping with a key set."""
        return replace(self, value={**self.entries, key: node}, keys={key: node.place, **self.keys})

    def steps(self) -> list[tuple[str | int, Node]]:
        """Return the entries of a mapping or a list, each with its key or index."""
        return list(self.entries.items() if self.is_map else enumerate(self.items))


def advise(name: str, names: Iterable[str], label: str) -> str:
    """Return a hint to the name that a name may be a slip of, or to all of them."""
    candidates = list(names)
    return suggest(name, candidates) or f"{label}: {listing(candidates)}"


def sort_errors(errors: Sequence[AnswerkeyError]) -> list[AnswerkeyError]:
    """Return errors by position, files in the order in which they turn up, no file last."""
    files = list(dict.fromkeys(error.where.file for error in errors if error.where))

    def rank(error: AnswerkeyError) -> tuple[int, int, int]:
        where = error.where
        if where is None or where.file is None:
            return len(files), 0, 0
        return files.index(where.file), where.line or 0, where.column or 0

    return sorted(errors, key=rank)


#: File names that say what a file is, not what it is about.
_KINDS = frozenset({"task", "dataset", "model", "run", "evaluation"})


def name_key(name: str) -> str:
    """Return a name as a key: letters, digits, `_` and `-`."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", name).strip("-")[:250]


def with_key(node: Node) -> Node:
    """Return a definition with a key: its own, or the name of its file, or of its folder.

    The folder counts for files with names such as `task.yaml`.
    """
    if not node.is_map or "key" in node.entries:
        return node
    name = "task"
    if node.place.file:
        path = FilePath(node.place.file)
        name = path.stem
        if name in _KINDS:
            name = path.resolve().parent.name
    return node.having("key", node.changed(name_key(name) or "task"))


def to_plain(node: Node) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return the tree as plain Python values."""
    if node.is_map:
        return {key: to_plain(entry) for key, entry in node.entries.items()}
    if node.is_list:
        return [to_plain(entry) for entry in node.items]
    return node.value


def from_plain(value: object, place: Place, problems: ProblemList | None = None) -> Node:
    """Return plain values as a tree whose nodes all stand at `place`."""
    problems = problems or ProblemList()
    if isinstance(value, Mapping):
        value = {str(key): from_plain(entry, place, problems) for key, entry in value.items()}
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = tuple(from_plain(entry, place, problems) for entry in value)
    return Node(value, place, problems=problems)


def walk_scalars(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every scalar of a tree with the path to it."""
    if node.is_scalar:
        yield path, node
    for step, entry in node.steps():
        yield from walk_scalars(entry, (*path, step))


def map_scalars(
    node: Node,
    change: Callable[[Path, Node], Node],
    path: Path = (),
) -> Node:
    """Return the tree with every scalar replaced by the result of `change`."""
    if node.is_scalar:
        return change(path, node)
    entries = {step: map_scalars(entry, change, (*path, step)) for step, entry in node.steps()}
    return replace(node, value=entries if node.is_map else tuple(entries.values()))


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
_MATERIAL_PARTS = {("source", "rows"), ("source", "header"), ("source", "questions")}


@cache
def _scorer_templates() -> frozenset[str]:
    from answerkey.scorers import list_template_fields

    return list_template_fields() | _PROMPT_FIELDS


def kind_of(path: Path) -> Kind:
    """Return what kind of text stands at a path; indices of lists do not matter."""
    names = ["", *(step for step in path if isinstance(step, str))]
    above = set(names[:-1])
    if _MATERIAL_PARTS.intersection(itertools.pairwise(names)):
        return "material"
    if names[-1] in _CODE_FIELDS:
        return "code"
    if _is_template(names):
        return "template"
    may_be_material = above & {"filter", "filters", "scorers"} and "solver" not in above
    if may_be_material and names[-1] in _MATERIAL_FIELDS:
        return "material"
    return "plain"


def _is_template(names: list[str]) -> bool:
    above = set(names[:-1])
    if "solver" in above:
        return names[-1] in _PROMPT_FIELDS or "content" in above
    if above & {"filter", "filters"}:
        return names[-1] == "expression"
    if above >= {"source", "derive"}:
        return True
    if "scorers" in above:
        return names[names.index("scorers") + 1] in _scorer_templates()
    return False
