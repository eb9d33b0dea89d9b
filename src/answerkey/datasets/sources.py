"""Where a dataset comes from; one class per `type` of source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

from answerkey.datasets.folder import FolderSource
from answerkey.datasets.hub import HuggingFaceSource
from answerkey.datasets.joining import DataFile, FileFields, read_files
from answerkey.datasets.tables import Table, load_rows
from answerkey.datasets.url import UrlSource
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
class LocalSource(FileFields):
    """A file on this machine."""

    file_path: str
    type: Literal["local"] = "local"
    path_field: ClassVar[str] = "file_path"

    @property
    def origin(self) -> str:
        """Where the rows come from, for people."""
        return self.file_path

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        path = Path(self.file_path)
        return read_files([DataFile(path, self.file_path, path.name)], self, shown=self.file_path)


@dataclass(frozen=True)
class InlineSource:
    """Rows written in the dataset file itself."""

    rows: tuple[dict[str, object], ...]
    type: Literal["inline"] = "inline"
    filters: tuple[RowFilter, ...] = ()

    def read(self, *, name: str) -> Table:
        """Return the rows."""
        return load_rows(self.rows, name=name)


SOURCES: Registry[Source] = Registry(
    "answerkey.sources",
    {
        "local": LocalSource,
        "folder": FolderSource,
        "url": UrlSource,
        "huggingface": HuggingFaceSource,
        "inline": InlineSource,
    },
)


def pin_source(source: Source) -> Source:
    """Return a source that will give the same rows again.

    What is to be fetched is fetched now, and named by its commit or its hash from then on.
    """
    pin = getattr(source, "pin", None)
    pinned: Source = source if pin is None else pin()
    return pinned
