"""The source `folder`: all data files of a folder as one table, or its documents as one row each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import ClassVar, Literal

from answerkey.datasets.content import COMPRESSIONS, describe_unreadable
from answerkey.datasets.documents import read_documents
from answerkey.datasets.joining import DataFile, FileFields, read_files
from answerkey.datasets.tables import FORMATS, Table
from answerkey.errors import DataError, Place, listing
from answerkey.types import Notice

#: What is no text: such files are passed over, as they are where this source comes from, and counted.
_NO_TEXT = frozenset({".pdf"})


@dataclass(frozen=True)
class FolderSource(FileFields):
    """The files of a folder, at any depth, in the order of their names.

    `extension` and `pattern` (over the path within the folder) say which. Data files are joined; any other
    text file is a document, which is a row of its own.
    """

    directory_path: str
    extension: str | None = None
    pattern: str | None = None
    type: Literal["folder"] = "folder"
    path_field: ClassVar[str] = "directory_path"

    @property
    def origin(self) -> str:
        """Where the rows come from, for people."""
        return self.directory_path

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the folder has a name of its own
        """Return the rows of all its files."""
        folder = Path(self.directory_path)
        found = list_files(folder, extension=self.extension, pattern=self.pattern)
        if not found:
            self._refuse_nothing(folder)
        tables = [path for path in found if self.format is not None or is_data_file(path)]
        if tables and len(tables) < len(found):
            _refuse_mixture(folder, tables, [path for path in found if path not in tables])
        if not tables:
            return self._read_documents(folder, found)
        return read_files([_describe(folder, path) for path in found], self, shown=self.directory_path)

    def _read_documents(self, folder: Path, found: Sequence[Path]) -> Table:
        texts = [path for path in found if path.suffix.lower() not in _NO_TEXT]
        if not texts:
            self._refuse_nothing(folder)
        table = read_documents(folder, texts, self)
        skipped = len(found) - len(texts)
        notice = Notice(f"{skipped} PDF files of the folder `{folder}` are passed over: they are no text")
        return replace(table, notices=(*table.notices, notice)) if skipped else table

    def _refuse_nothing(self, folder: Path) -> None:
        wanted = " and ".join(
            f"`{name}` {value!r}"
            for name, value in (("extension", self.extension), ("pattern", self.pattern))
            if value is not None
        )
        there = listing([path.relative_to(folder).as_posix() for path in list_files(folder)], limit=5)
        message = f"no file of the folder `{folder}` matches {wanted}" if wanted else "the folder is empty"
        raise DataError("E201", message, where=Place(file=str(folder)), hint=f"files there: {there}")


def list_files(folder: Path, *, extension: str | None = None, pattern: str | None = None) -> list[Path]:
    """Return the files of a folder, at any depth, by name; hidden ones and links to folders are left out."""
    if not folder.is_dir():
        raise _describe_no_folder(folder)
    try:
        found = sorted(_walk(folder), key=lambda path: path.relative_to(folder).as_posix())
    except OSError as error:
        raise describe_unreadable(folder, error) from None
    if extension is not None:
        found = [path for path in found if _has_extension(path, extension)]
    if pattern is not None:
        found = [path for path in found if matches(path.relative_to(folder).as_posix(), pattern)]
    return found


def matches(name: str, pattern: str) -> bool:
    """Return whether a path within a folder, or the name at its end, fits a pattern with `*` and `?`."""
    return fnmatch(name, pattern) or ("/" not in pattern and fnmatch(name.rpartition("/")[2], pattern))


def is_data_file(path: Path) -> bool:
    """Return whether a name says that a file holds a table."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSIONS:
        endings.pop()
    return bool(endings) and endings[-1] in FORMATS


def _walk(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(base) / name
            if not name.startswith(".") and path.is_file():
                yield path


def _raise(error: OSError) -> None:
    raise error


def _has_extension(path: Path, extension: str) -> bool:
    ending = f".{extension.lower().lstrip('.')}"
    name = path.name.lower()
    return name.endswith(ending) or any(name.endswith(ending + packed) for packed in COMPRESSIONS)


def _describe(folder: Path, path: Path) -> DataFile:
    label = path.relative_to(folder).as_posix()
    return DataFile(path, str(path), label)


def _describe_no_folder(folder: Path) -> DataError:
    what = "is a file, not a folder" if folder.exists() else "does not exist"
    hint = "name a file with `type: local`" if folder.exists() else None
    return DataError("E201", f"the folder `{folder}` {what}", where=Place(file=str(folder)), hint=hint)


def _refuse_mixture(folder: Path, tables: Sequence[Path], others: Sequence[Path]) -> None:
    shown = listing([path.relative_to(folder).as_posix() for path in others], limit=5)
    kinds = sorted({path.suffix.lstrip(".") for path in tables})
    message = f"the folder `{folder}` holds data files and others: {shown}"
    hint = f"say which are meant: `extension: {kinds[0]}`"
    raise DataError("E201", message, where=Place(file=str(folder)), hint=hint)
