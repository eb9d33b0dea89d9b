"""Where a dataset comes from; one class per `type` of source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from answerkey.datasets.cells import ColumnKind
from answerkey.datasets.tables import Table, load_rows, load_table
from answerkey.templates import RowFilter
from answerkey.types import Registry


@runtime_checkable
class Source(Protocol):
    """What a source can do; its other fields are the fields of its YAML."""

    @property
    def type(self) -> str:
        """The name of the kind of source in YAML."""

    @property
    def filters(self) -> tuple[RowFilter, ...]:
        """The filters that a row must all pass."""

    def read(self, *, name: str) -> Table:
        """Return all rows; `name` is the dataset's key."""


@dataclass(frozen=True)
class LocalSource:
    """A file on this machine; `columns` types text cells."""

    file_path: str
    type: Literal["local"] = "local"
    filters: tuple[RowFilter, ...] = ()
    columns: dict[str, ColumnKind] = field(default_factory=dict)

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        return load_table(self.file_path, columns=self.columns)


@dataclass(frozen=True)
class InlineSource:
    """Rows written in the dataset file itself."""

    rows: tuple[dict[str, object], ...]
    type: Literal["inline"] = "inline"
    filters: tuple[RowFilter, ...] = ()

    def read(self, *, name: str) -> Table:
        """Return the rows."""
        return load_rows(self.rows, name=name)


SOURCES: Registry[Source] = Registry("answerkey.sources", {"local": LocalSource, "inline": InlineSource})
