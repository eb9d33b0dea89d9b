"""Dataset files, and data files named directly, become dataset specifications."""

from __future__ import annotations

import csv
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from answerkey.datasets import sources
from answerkey.datasets.formats import split_endings
from answerkey.datasets.questions import TRUTH_ROLES, find_columns
from answerkey.datasets.sources import SOURCES, Source
from answerkey.datasets.storage import allow_fetching, hide_query, is_stored, require_address
from answerkey.errors import AnswerkeyError, Place, SpecError, is_url
from answerkey.spec.config import refuse_config
from answerkey.spec.nodes import Node, Problems, from_plain, resolve_path
from answerkey.spec.shapes import DatasetFields, carry_over
from answerkey.spec.validation import (
    Fields,
    Part,
    fields_of,
    report_template,
    try_build,
    validate_node,
)
from answerkey.templates import DATASET_NAMES, RowFilter, Template, TemplateStopped

SOURCE = Part("source", SOURCES)
#: Filters with a `value` beside their expression.
_WITH_VALUE = frozenset(
    {"equals", "not_equals", "greater_than", "less_than", "greater_or_equal", "less_or_equal"}
)
#: A JSON file that is an object with one of these keys is a task or run file; no such file is
#: longer.
_SPEC_KEYS = (
    "definition",
    "tasks",
    "evaluation",
    "datasets",
    "models",
    "task_specifications",
    "source",
)
_LONGEST_SPEC = 1_000_000
#: So many characters show the first row of a table.
_LOOKED_AT = 100_000


@dataclass(frozen=True)
class DatasetSpec:
    """A dataset by name: where its rows come from. Paths in `source` are absolute."""

    key: str
    source: Source
    display_name: str | None = None
    description: str | None = None
    place: Place | None = None
    places: Node | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_path(cls, path: str | Path) -> DatasetSpec:
        """Return the dataset of a data file, of a folder of them, or of an address, named after
        it.
        """
        source: Source
        if is_remote(str(path)):
            # Storage that the caller names is the caller's own: whatever is there may be fetched.
            allow_fetching(str(path))
            most = sources.MOST_MEGABYTES if is_stored(str(path)) else sources.DEFAULT_MEGABYTES
            source = sources.UrlSource(url=str(path), max_megabytes=most)
        elif (real := resolve_path(Path(path), None)).is_dir():
            source = sources.FolderSource(directory_path=str(real))
        else:
            source = sources.LocalSource(file_path=str(real))
        return cls(key=name_dataset(path), source=source)

    @classmethod
    def of_questions(cls, path: str | Path) -> DatasetSpec:
        """Return the dataset of a data file whose columns are to be recognised.

        CSV without a header line gets the columns of MMLU's own files: question, options, truth.
        """
        dataset = cls.of_path(path)
        if isinstance(dataset.source, sources.LocalSource) and (header := find_header(Path(path))):
            return replace(dataset, source=replace(dataset.source, header=header))
        return dataset

    def locate(self, error: AnswerkeyError) -> AnswerkeyError:
        """Return an error of reading the rows, placed in the dataset's file where that is at
        fault.
        """
        if self.places is None:
            return error
        if isinstance(error, TemplateStopped):
            return error.at(self.places.of_template(error.source))
        where = self._find_fault(error, self.places.at("source"))
        if where is None:
            return error
        return type(error)(error.code, error.message, where=where, hint=error.hint)

    def _find_fault(self, error: AnswerkeyError, node: Node) -> Place | None:
        """Return where the source names a file or a column that there is not."""
        if error.code == "E201":
            return node.at(getattr(self.source, "path_field", "type")).place
        if error.code == "E214":
            return node.at("url" if self.source.type == "url" else "path").place
        if error.code not in {"E206", "E207"}:
            return None
        for index, one in enumerate(self.source.filters):
            if error.code == "E206" and error.message.startswith(f"filter `{one.expression}`"):
                return node.at("filters", index, "expression").place
        for name in getattr(self.source, "derive", {}):
            if error.message.startswith(f"derived column `{name}`"):
                return node.at("derive", name).place
        column, columns = error.where.field if error.where else None, node.at("columns")
        if column is None or column not in getattr(self.source, "columns", {}):
            return None
        return columns.key_place(column) if columns.get(column) is not None else columns.place


def find_header(path: Path) -> tuple[str, ...] | None:
    """Return the names of the columns if the first line of a CSV or TSV file is a question
    itself.
    """
    mark = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    if mark is None or not path.is_file():
        return None
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = stream.read(_LOOKED_AT).splitlines(keepends=True)
    try:
        cells = next(csv.reader(lines, delimiter=mark), [])
    except csv.Error:
        return None
    letters = string.ascii_uppercase[: max(len(cells) - 2, 0)]
    named = find_columns(tuple(cells), ("question", *TRUTH_ROLES)).columns
    is_row = len(letters) > 1 and not named and " " in cells[0] and cells[-1].strip() in [*letters]
    return ("question", *letters, "answer") if is_row else None


def name_dataset(path: str | Path) -> str:
    """Return what a dataset is called that is given by its path or address."""
    last = (
        unquote(hide_query(str(path))).rstrip("/").rpartition("/")[2]
        if is_remote(str(path))
        else ""
    )
    name = last or Path(path).name or Path(path).resolve().name
    return name.split(".")[0] or name or "dataset"


def is_remote(name: str) -> bool:
    """Return whether a name is an address: of the web, or of shared storage."""
    return is_url(name) or is_stored(name)


def is_data_file(given: object) -> bool:
    """Return whether a caller gives a data file, by its name.

    JSON that is an object may be a run file.
    """
    if not isinstance(given, str | Path) or not split_endings(show_file(given))[0]:
        return False
    path = Path(given)
    if is_remote(str(given)) or path.suffix.lower() != ".json" or not path.is_file():
        return not path.is_dir()
    with path.open("rb") as stream:
        head = stream.read(_LONGEST_SPEC)
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return True
    return not any(f'"{key}"'.encode() in head or f"{key}:".encode() in head for key in _SPEC_KEYS)


def show_file(given: str | Path) -> str:
    """Return a file as it may be written down: an address without what may be secret in it."""
    return hide_query(str(given)) if is_remote(str(given)) else str(given)


def resolve_stated(text: str, place: Place, base: Path) -> Path | str:
    """Return the address, or the whole path, that a file states; a path is relative to that file.

    `base` is for one that is stated in no file. Raises SpecError.
    """
    if is_stored(text):
        return require_address(text, place)
    return resolve_path((Path(place.file).parent if place.file else base) / text, place)


def build_dataset(node: Node, problems: Problems, *, base: Path) -> DatasetSpec | None:
    """Return the dataset that a node describes; `base` is for paths that are stated in no file."""
    refuse_config(node, problems)
    node = carry_over(node, "dataset", problems)
    fields = validate_node(DatasetFields, node, problems, name="the dataset")
    if "source" not in node.entries:
        if node.is_map and not node.is_broken and "generator_specification" not in node.entries:
            hint = "write `source: {type: local, file_path: …}`"
            problems.add("E108", "`source` is missing in the dataset", node.place, hint)
        return None
    source = build_source(node.entries["source"], problems, base=base)
    if fields is None or source is None:
        return None
    return DatasetSpec(
        fields.key, source, fields.display_name, fields.description, node.place, node
    )


def build_source(node: Node, problems: Problems, *, base: Path) -> Source | None:
    """Return where rows come from.

    A relative `file_path` is relative to the file that states it.
    """
    kind = SOURCE.choose(node, problems)
    if kind is None:
        return None
    rest, conditions = node, []
    if node.field("filters").is_list and "filters" in SOURCE.model(kind).model_fields:
        # Each is held against its own model: a mistake in one is told once, and hides nothing of
        # the next.
        conditions = [
            build_filter(one, problems, names=DATASET_NAMES) for one in node.at("filters").items
        ]
        rest = node.without("filters")
    _, source = SOURCE.read(rest, problems)
    if source is not None and conditions:
        source = replace(source, filters=tuple(one[0] for one in conditions if one is not None))
    for entry in node.field("derive").entries.values():
        try:
            Template.compile(entry.text or "", names=DATASET_NAMES)
        except SpecError as error:
            report_template(error, entry, problems)
    name = getattr(source, "path_field", "")
    if source is None or name not in node.entries:
        return cast("Source | None", source)
    path, place = getattr(source, name), node.entries[name].place
    if is_stored(path):
        hint = "write `type: url` and `url:` for a file on shared storage"
        problems.add("E108", f"`{name}` is an address", place, hint)
        return None
    try:
        return cast("Source", replace(source, **{name: str(resolve_stated(path, place, base))}))
    except SpecError as error:
        problems.report(error)
        return None


def build_filter(
    node: Node, problems: Problems, *, names: tuple[str, ...]
) -> tuple[RowFilter, Fields] | None:
    """Return a row filter and its fields.

    Its expression is compiled, and a missing `value` is a mistake. `names` are those that the
    expression sees.
    """
    fields = validate_node(fields_of(RowFilter), node, problems, name="the filter")
    if fields is None:
        return None
    operator = str(getattr(fields, "op", ""))
    if (operator in _WITH_VALUE) != ("value" in fields.model_fields_set):
        is_missing = operator in _WITH_VALUE
        message = f"a filter with op `{operator}` {'needs' if is_missing else 'has no'} `value`"
        problems.add("E108", message, node.place if is_missing else node.key_place("value"))
        return None
    condition: RowFilter | None = try_build(fields, node, problems)
    if condition is None:
        return None
    try:
        condition.compile(names)
    except SpecError as error:
        report_template(error, node.entries["expression"], problems)
    return condition, fields


def source_from(plain: Mapping[str, Any]) -> Source:
    """Return the source that `dataclasses.asdict` once described.

    Raises SpecError when it is none.
    """
    problems = Problems()
    filters = []
    for one in plain.get("filters") or ():
        kept = {"op": one["op"], "expression": one["expression"]}
        if one.get("values") is not None:
            kept["values"] = one["values"]
        elif one["op"] not in {"exists", "not_exists", "is_true", "is_false"}:
            kept["value"] = one.get("value")
        filters.append(kept)
    stated = {key: value for key, value in plain.items() if value is not None} | {
        "filters": filters
    }
    source = build_source(from_plain(stated, Place()), problems, base=Path())
    if source is None:
        raise problems.errors[0]
    return source
