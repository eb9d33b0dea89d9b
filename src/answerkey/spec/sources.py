"""Build dataset specifications from dataset files and from data files named directly."""

from __future__ import annotations

import csv
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from answerkey.datasets import sources
from answerkey.datasets.formats import split_endings
from answerkey.datasets.questions import TRUTH_ROLES, find_columns
from answerkey.datasets.sources import SOURCES, Source
from answerkey.datasets.storage import allow_fetching, hide_query, is_stored, require_address
from answerkey.errors import AnswerkeyError, Place, SpecError, is_url
from answerkey.spec.config import refuse_config
from answerkey.spec.nodes import MAX_YAML_BYTES, Json, Location, Node, from_plain, resolve_path
from answerkey.spec.shapes import DatasetFields
from answerkey.spec.validation import (
    Part,
    fields_of,
    replace_old_names,
    report_text,
    try_build,
    validate_node,
)
from answerkey.templates import DATASET_NAMES, RowFilter, Template, TemplateStopped

SOURCE = Part("source", SOURCES)
#: Filters with a `value` beside their expression.
_WITH_VALUE = frozenset(
    {"equals", "not_equals", "greater_than", "less_than", "greater_or_equal", "less_or_equal"}
)
#: A JSON object with one of these keys is a task or run file.
_SPEC_KEYS = b"definition|tasks|evaluation|datasets|models|task_specifications|source"
_SPEC_KEY = re.compile(b'"(?:%b)"|(?:%b):' % (_SPEC_KEYS, _SPEC_KEYS))
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
#: A question, two options and the answer.
_FEWEST_CELLS = 4
#: The first row of a table is within this number of characters.
_HEAD = 100_000


@dataclass(frozen=True)
class DatasetSpec:
    """A dataset by name: where its rows come from. Paths in `source` are absolute."""

    key: str
    source: Source
    display_name: str | None = None
    place: Place | None = None
    places: Node | None = field(
        default=None,
        repr=False,
        compare=False,
    )

    @classmethod
    def of_path(cls, path: Location) -> DatasetSpec:
        """Return the dataset of a data file, a folder of them, or an address, named after it."""
        source: Source
        if is_remote(path):
            # Storage that the caller names is the caller's own: anything there may be fetched.
            from answerkey.datasets import web

            allow_fetching(str(path))
            most = web.MOST_MEGABYTES if is_stored(str(path)) else web.DEFAULT_MEGABYTES
            source = web.UrlSource(url=str(path), max_megabytes=most)
        else:
            real = resolve_path(Path(path), None)
            if real.is_dir():
                source = sources.FolderSource(directory_path=str(real))
            else:
                source = sources.LocalSource(file_path=str(real))
        return cls(key=name_dataset(path), source=source)

    @classmethod
    def of_questions(cls, path: Location) -> DatasetSpec:
        """Return the dataset of a data file whose columns are to be recognised.

        CSV without a header line gets the columns of MMLU's own files: question, options, truth.
        """
        dataset = cls.of_path(path)
        header = find_header(Path(path))
        if isinstance(dataset.source, sources.LocalSource) and header:
            source = replace(dataset.source, header=header)
            return replace(dataset, source=source)
        return dataset

    def locate(self, error: AnswerkeyError) -> AnswerkeyError:
        """Return an error of reading the rows, placed in the dataset's file if that is at fault."""
        if self.places is None:
            return error
        if isinstance(error, TemplateStopped):
            return error.at(self.places.of_template(error.source))
        if error.code == "E201":
            name = getattr(self.source, "path_field", "type")
        elif error.code == "E214":
            name = "url" if self.source.type == "url" else "path"
        else:
            return error
        return type(error)(
            error.code,
            error.message,
            where=self.places.at("source", name).place,
            hint=error.hint,
        )


def find_header(path: Path) -> tuple[str, ...] | None:
    """Return names for the columns of a CSV or TSV file whose first line is a question."""
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if delimiter is None or not path.is_file():
        return None
    with path.open(
        encoding="utf-8-sig",
        errors="replace",
        newline="",
    ) as stream:
        lines = stream.read(_HEAD).splitlines(keepends=True)
    try:
        cells = next(csv.reader(lines, delimiter=delimiter), [])
    except csv.Error:
        return None
    if len(cells) < _FEWEST_CELLS or " " not in cells[0]:
        return None
    letters = [*string.ascii_uppercase[: len(cells) - 2]]
    is_named = find_columns(tuple(cells), ("question", *TRUTH_ROLES)).columns
    if is_named or cells[-1].strip() not in letters:
        return None
    return ("question", *letters, "answer")


def name_dataset(path: Location) -> str:
    """Return a name for a dataset that is given by its path or address."""
    name = Path(path).name or Path(path).resolve().name
    if is_remote(path):
        address = unquote(hide_query(str(path)))
        _, _, last_part = address.rstrip("/").rpartition("/")
        name = last_part or name
    stem, *_ = name.split(".")
    return stem or name or "dataset"


def is_remote(name: Location) -> bool:
    """Return whether a name is an address: of the web, or of shared storage."""
    address = str(name)
    if "://" not in address:
        return False
    return is_url(address) or is_stored(address)


def is_data_file(location: object) -> bool:
    """Return whether a caller gives a data file, by its name; JSON may also be a run file."""
    if not isinstance(location, Location):
        return False
    data_format, *_ = split_endings(show_file(location))
    if not data_format:
        return False
    path = Path(location)
    may_be_spec = path.suffix.lower() == ".json" and path.is_file()
    if is_remote(location) or not may_be_spec:
        return not path.is_dir()
    with path.open("rb") as stream:
        head = stream.read(MAX_YAML_BYTES)
    is_object = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return not is_object or not _SPEC_KEY.search(head)


def show_file(location: Location) -> str:
    """Return a file as it may be shown: an address without what may be secret in it."""
    if is_remote(location):
        return hide_query(str(location))
    return str(location)


def resolve_stated(
    text: str,
    place: Place,
    base: Path,
) -> Path | str:
    """Return the address or full path that a file states, relative to that file.

    `base` is for a path that is stated in no file. Raises SpecError.
    """
    if is_stored(text):
        return require_address(text, place)
    if place.file:
        base = Path(place.file).parent
    return resolve_path(base / text, place)


def build_dataset(node: Node, base: Path) -> DatasetSpec | None:
    """Return the dataset that a node describes; `base` is for paths that are stated in no file."""
    refuse_config(node)
    node = replace_old_names(node, "dataset")
    earlier = len(node.problems.errors)
    fields = validate_node(DatasetFields, node, "the dataset")
    if "source" not in node.entries and len(node.problems.errors) == earlier:
        hint = "write `source: {type: local, file_path: …}`"
        node.report("E108", "`source` is missing in the dataset", hint)
    if fields is None or fields.source is None:
        return None
    source = build_source(node.entries["source"], base)
    if source is None:
        return None
    return DatasetSpec(
        key=fields.key,
        source=source,
        display_name=fields.display_name,
        place=node.place,
        places=node,
    )


def build_source(node: Node, base: Path) -> Source | None:
    """Return where rows come from; a path is relative to the file that states it."""
    if isinstance(node.value, sources.MemorySource):
        return node.value
    remaining = node
    filters: list[RowFilter | None] = []
    if node.field("filters").is_list:
        # Each is validated by itself, so that a mistake in one hides none in the next.
        remaining = node.without("filters")
        for entry in node.entries["filters"].items:
            filters.append(build_filter(entry, DATASET_NAMES))
    source: Any
    _, source = SOURCE.read(remaining)
    _check_derived(node.field("derive"))
    if source is None:
        return None
    changes: Json = {}
    if filters:
        changes["filters"] = tuple(filter(None, filters))
    name = getattr(source, "path_field", "")
    if name in node.entries:
        path = getattr(source, name)
        path_node = node.entries[name]
        try:
            changes[name] = str(resolve_stated(path, path_node.place, base))
        except SpecError as error:
            node.problems.report(error)
        if is_stored(path):
            hint = "write `type: url` and `url:` for a file on shared storage"
            path_node.report("E108", f"`{name}` is an address", hint)
    return replace(source, **changes)  # type: ignore[no-any-return]


def _check_derived(node: Node) -> None:
    for entry in node.entries.values():
        try:
            Template.compile(entry.text or "", names=DATASET_NAMES)
        except SpecError as error:
            report_text(error, entry)


def build_filter(
    node: Node,
    names: tuple[str, ...],
) -> RowFilter | None:
    """Return a row filter whose expression compiles with these names."""
    fields: Any = validate_node(fields_of(RowFilter), node, "the filter")
    if fields is None:
        return None
    needs_value = fields.op in _WITH_VALUE
    if needs_value != ("value" in node.entries):
        needs = "needs" if needs_value else "has no"
        node.report("E108", f"a filter with op `{fields.op}` {needs} `value`", key="value")
        return None
    condition: RowFilter | None = try_build(fields, node)
    try:
        if condition is not None:
            condition.compile(names)
    except SpecError as error:
        report_text(error, node.entries["expression"])
    return condition


def describe_filter(condition: RowFilter) -> Json:
    """Return a filter as a file states it."""
    plain: Json = {"op": condition.op, "expression": condition.expression}
    if condition.op in _WITH_VALUE:
        plain["value"] = condition.value
    elif condition.values is not None:
        plain["values"] = list(condition.values)
    return plain


def source_from(plain: Mapping[str, Any]) -> Source:
    """Return the source that `dataclasses.asdict` once described; raises SpecError."""
    fields = {key: value for key, value in plain.items() if value is not None}
    node = from_plain(fields, Place())
    source: Source | None
    _, source = SOURCE.read(node)
    if source is None:
        raise node.problems.errors[0]
    return source
