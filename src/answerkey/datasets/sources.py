"""Where the rows of a dataset come from: one class for each `type` of source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

from answerkey.datasets.content import COMPRESSIONS, refuse_file
from answerkey.datasets.formats import split_endings
from answerkey.datasets.tables import (
    DataFile,
    DataTable,
    FileFields,
    load_rows,
    matches,
    read_files,
)
from answerkey.errors import listing
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
        """The filters that a row must pass, all of them."""

    def read(self, *, name: str) -> DataTable:
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

    def read(self, *, name: str) -> DataTable:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        path = Path(self.file_path)
        file = DataFile(path, self.file_path, path.name)
        return read_files([file], self, shown=self.file_path)


@dataclass(frozen=True)
class InlineSource:
    """Rows written in the dataset file itself."""

    rows: tuple[dict[str, object], ...]
    type: Literal["inline"] = "inline"
    filters: tuple[RowFilter, ...] = ()

    def read(self, *, name: str) -> DataTable:
        """Return the rows."""
        return load_rows(self.rows, name=name)


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Rows in the caller's memory.

    A run keeps them among its files, because `asdict` would copy them.
    """

    table: DataTable = field(repr=False)
    type: Literal["memory"] = "memory"
    filters: tuple[RowFilter, ...] = ()
    origin: str | None = None

    def read(self, *, name: str) -> DataTable:  # noqa: ARG002 - the rows have a name of their own
        """Return the rows."""
        return self.table


@dataclass(frozen=True)
class FolderSource(FileFields):
    """The files of a folder, at any depth, in the order of their names.

    `extension` and `pattern` (of the path within the folder) choose among them. Data files are
    joined; if there are none, each file is a document, which becomes one row.
    """

    directory_path: str
    extension: str | None = None
    pattern: str = "*"
    type: Literal["folder"] = "folder"
    path_field: ClassVar[str] = "directory_path"

    @property
    def origin(self) -> str:
        """Where the rows come from, for people."""
        return self.directory_path

    def read(self, *, name: str) -> DataTable:  # noqa: ARG002 - the folder has a name of its own
        """Return the rows of all files."""
        folder = Path(self.directory_path)
        paths = list_files(folder, self.extension, self.pattern)
        files = [DataFile(path, str(path), label) for label, path in paths.items()]
        if not files:
            message = "the folder has no such file"
            names = listing(list_files(folder), limit=5)
            hint = f"files there: {names}; see `extension` and `pattern`"
            raise refuse_file("E201", message, self.origin, hint)
        fields: FileFields = self
        holds_data = any(split_endings(path)[0] for path in paths.values())
        if self.format is None and not holds_data:
            column = self.file_column or "file_name"
            fields = replace(self, format="document", file_column=column)
        return read_files(files, fields, shown=self.origin)


def list_files(
    folder: Path,
    extension: str | None = None,
    pattern: str = "*",
) -> dict[str, Path]:
    """Return the files of a folder, at any depth, sorted by their path within it.

    Hidden files and links to folders are left out.
    """
    if folder.is_file():
        message = f"the folder `{folder}` is a file, not a folder"
        raise refuse_file("E201", message, str(folder), "name a file with `type: local`")
    if not folder.is_dir():
        raise refuse_file("E201", f"the folder `{folder}` does not exist", str(folder))
    endings: tuple[str, ...] = ("",)
    if extension is not None:
        ending = f".{extension.lower().lstrip('.')}"
        endings = (ending, *(ending + packed for packed in COMPRESSIONS))
    files = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        is_hidden = "/." in f"/{name}"
        is_meant = name.lower().endswith(endings) and matches(name, pattern)
        if is_meant and not is_hidden and path.is_file():
            files[name] = path
    return dict(sorted(files.items()))


def _load_source(name: str) -> type[Source]:
    """Return the class of a type; what fetches files is imported when a dataset names it."""
    match name:
        case "local":
            return LocalSource
        case "folder":
            return FolderSource
        case "inline":
            return InlineSource
        case "url":
            from answerkey.datasets.web import UrlSource

            return UrlSource
    from answerkey.datasets.hub import HuggingFaceSource

    return HuggingFaceSource


_TYPES = ("local", "folder", "url", "huggingface", "inline")
SOURCES: Registry[Source] = Registry("answerkey.sources", _TYPES, _load_source)


def pin_source(source: Source) -> Source:
    """Return a source that will give the same rows again.

    What must be fetched is fetched now, and named by its commit or its hash from now on.
    """
    pin: Callable[[], Source] | None = getattr(source, "pin", None)
    return pin() if pin else source
