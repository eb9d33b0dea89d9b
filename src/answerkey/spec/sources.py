"""Dataset files, and data files named directly, become dataset specifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import unquote

from answerkey.datasets import (
    DEFAULT_MEGABYTES,
    MOST_MEGABYTES,
    SOURCES,
    FolderSource,
    InlineSource,
    LocalSource,
    Source,
    UrlSource,
    is_stored,
)
from answerkey.datasets.downloads import hide_query
from answerkey.errors import AnswerkeyError, Place, SpecError
from answerkey.models.config import is_url
from answerkey.spec.config import refuse_config
from answerkey.spec.deprecations import carry_over
from answerkey.spec.fields import Fields, extend_fields, fields_of
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import ListNode, MapNode, Node, Places, ScalarNode, from_plain
from answerkey.spec.nodes import Path as Way
from answerkey.spec.reader import resolve_path
from answerkey.spec.refusals import choose_type
from answerkey.spec.scoring import report_template, try_build
from answerkey.spec.shapes import DatasetFields
from answerkey.spec.task_building import build_filter
from answerkey.spec.validation import validate_node
from answerkey.templates import DATASET_NAMES, Template, TemplateStopped

if TYPE_CHECKING:
    from answerkey.datasets import Dataset


@dataclass(frozen=True)
class DatasetSpec:
    """A dataset by name: where its rows come from. Paths in `source` are absolute."""

    key: str
    source: Source
    display_name: str | None = None
    description: str | None = None
    place: Place | None = None
    places: Places | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_path(cls, path: str | Path) -> DatasetSpec:
        """Return the dataset of a data file, of a folder of them, or of an address, named after it."""
        return cls(key=name_dataset(path), source=_find_source(path))

    def locate(self, error: AnswerkeyError) -> AnswerkeyError:
        """Return an error of reading the rows, placed in the dataset's file where that is at fault."""
        if isinstance(error, TemplateStopped) and self.places is not None:
            return error.at(self.places.of_template(error.source))
        found = self._find_fault(error)
        if found is None or self.places is None:
            return error
        where = self.places.key(found) if found[-2:-1] == ("columns",) else self.places(found)
        return type(error)(error.code, error.message, where=where, hint=error.hint)

    def _find_fault(self, error: AnswerkeyError) -> Way | None:
        """Return the way to what names a file or a column that there is not."""
        if error.code == "E201":
            return ("source", getattr(self.source, "path_field", "type"))
        if error.code == "E214":
            return ("source", "url" if self.source.type == "url" else "path")
        if error.code not in {"E206", "E207"}:
            return None
        for index, one in enumerate(self.source.filters):
            if error.code == "E206" and error.message.startswith(f"filter `{one.expression}`"):
                return ("source", "filters", index, "expression")
        for name in getattr(self.source, "derive", {}):
            if error.message.startswith(f"derived column `{name}`"):
                return ("source", "derive", name)
        column = error.where.field if error.where else None
        is_typed = column is not None and column in getattr(self.source, "columns", {})
        return ("source", "columns", str(column)) if is_typed else None

    @classmethod
    def of_samples(cls, dataset: Dataset) -> DatasetSpec:
        """Return the specification of a dataset that is in memory only; its rows are not repeated here."""
        return cls(key=dataset.name, source=InlineSource(rows=()))


def name_dataset(path: str | Path) -> str:
    """Return what a dataset is called that is given by its path or address."""
    last = unquote(hide_query(str(path))).rstrip("/").rpartition("/")[2] if is_remote(str(path)) else ""
    name = last or Path(path).name or Path(path).resolve().name
    return name.split(".")[0] or name or "dataset"


def is_remote(name: str) -> bool:
    """Return whether a name is an address: of the web, or of shared storage."""
    return is_url(name) or is_stored(name)


def _find_source(path: str | Path) -> Source:
    if is_remote(str(path)):
        # Storage that the caller names is the caller's own: whatever is there may be fetched.
        most = MOST_MEGABYTES if is_stored(str(path)) else DEFAULT_MEGABYTES
        return UrlSource(url=str(path), max_megabytes=most)
    real = resolve_path(Path(path), None)
    return FolderSource(directory_path=str(real)) if real.is_dir() else LocalSource(file_path=str(real))


@cache
def source_model(kind: str) -> type[Fields]:
    """Return the model of a source's YAML."""
    own = fields_of(SOURCES[kind])
    return extend_fields(own, f"{own.__name__}Fields", Fields, type=(Literal[kind], ...))


def build_dataset(node: Node, findings: Findings, *, base: Path) -> DatasetSpec | None:
    """Return the dataset that a node describes; `base` is for paths that are stated in no file."""
    refuse_config(node, findings)
    node = carry_over(node, "dataset", findings)
    fields = validate_node(DatasetFields, node, findings, name="the dataset")
    if not isinstance(node, MapNode):
        return None
    part = node.get("source")
    if part is None and (node.is_broken or "generator_specification" in node.entries):
        return None
    if part is None:
        hint = "write `source: {type: local, file_path: …}`"
        findings.add("E108", "`source` is missing in the dataset", node.place, hint)
        return None
    source = build_source(part, findings, base=base)
    if fields is None or source is None:
        return None
    return DatasetSpec(
        fields.key, source, fields.display_name, fields.description, node.place, places=Places(node)
    )


def build_source(node: Node, findings: Findings, *, base: Path) -> Source | None:
    """Return where rows come from; a relative `file_path` is relative to the file that states it."""
    found = choose_type(node, "source", SOURCES, findings)
    if found is None or not isinstance(node, MapNode):
        return None
    kind = str(cast("ScalarNode", node.entries["type"]).value)
    filters = node.get("filters")
    if isinstance(filters, ListNode) and "filters" in source_model(kind).model_fields:
        # Each is held against its own model: a mistake in one is told once, and hides nothing of the next.
        conditions = [build_filter(one, findings, names=DATASET_NAMES) for one in filters.entries]
        rest = node.without("filters")
    else:
        conditions, rest = [], node
    fields = validate_node(source_model(kind), rest, findings, name=f"source `{kind}`")
    source: Any = try_build(fields, rest, findings) if fields is not None else None
    if source is not None and conditions:
        source = replace(source, filters=tuple(one[0] for one in conditions if one is not None))
    _check_derived(node.get("derive"), findings)
    stated = node.get(getattr(source, "path_field", ""))
    if source is not None and stated is not None:
        return _make_absolute(source, stated.place, findings, base=base)
    return cast("Source | None", source)


def _check_derived(node: Node | None, findings: Findings) -> None:
    """Report the templates of new columns that do not compile."""
    for entry in node.entries.values() if isinstance(node, MapNode) else ():
        if isinstance(entry, ScalarNode) and isinstance(entry.value, str):
            try:
                Template.compile(entry.value, names=DATASET_NAMES)
            except SpecError as error:
                report_template(error, entry, findings)


def _make_absolute(source: Any, place: Place, findings: Findings, *, base: Path) -> Source | None:  # noqa: ANN401 - any source with a path
    folder = Path(place.file).parent if place.file else base
    name = source.path_field
    if is_stored(getattr(source, name)):
        hint = "write `type: url` and `url:` for a file on shared storage"
        findings.add("E108", f"`{name}` is an address", place, hint)
        return None
    try:
        path = str(resolve_path(folder / getattr(source, name), place))
    except SpecError as error:
        findings.report(error)
        return None
    return cast("Source", replace(source, **{name: path}))


def source_from(plain: Mapping[str, object]) -> Source:
    """Return the source that `dataclasses.asdict` once described; raises SpecError when it is none."""
    findings = Findings()
    slim = {key: value for key, value in plain.items() if value is not None}
    filters = [_slim_filter(one) for one in cast("list[Mapping[str, object]]", slim.get("filters") or [])]
    source = build_source(from_plain({**slim, "filters": filters}, Place()), findings, base=Path())
    if source is None:
        raise findings.errors[0]
    return source


def _slim_filter(one: Mapping[str, object]) -> dict[str, object]:
    has_values = one.get("values") is not None
    takes_value = not has_values and one.get("op") not in {"exists", "not_exists", "is_true", "is_false"}
    kept = {"op": one["op"], "expression": one["expression"]}
    if has_values:
        kept["values"] = one["values"]
    if takes_value:
        kept["value"] = one.get("value")
    return kept
