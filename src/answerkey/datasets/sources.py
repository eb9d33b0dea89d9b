"""Where a dataset comes from, one class per `type` of source: files, folders, the web, rows in YAML."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal, NoReturn, Protocol, Self, runtime_checkable
from urllib.parse import unquote, urlsplit

from answerkey.datasets.content import COMPRESSIONS, describe_unreadable
from answerkey.datasets.downloads import (
    MEGABYTE,
    Fetched,
    Wanted,
    fetch_object,
    find_digest,
    hide_query,
    is_safe,
    open_object,
)
from answerkey.datasets.hub import HuggingFaceSource
from answerkey.datasets.storage import STORES, StoredObject, is_stored, refuse, require_address
from answerkey.datasets.tables import (
    DataFile,
    FileFields,
    Table,
    load_rows,
    matches,
    read_documents,
    read_files,
    split_endings,
)
from answerkey.errors import DataError, Place, SpecError, listing, remember_url
from answerkey.templates import RowFilter
from answerkey.types import Notice, Registry

DEFAULT_MEGABYTES = 1000
#: What the caller names on the command line may be as large as storage allows.
MOST_MEGABYTES = 10**8
_DIGEST = re.compile(r"[0-9a-f]{64}")


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
        tables = [path for path in found if self.format is not None or split_endings(path)[0]]
        if tables and len(tables) < len(found):
            others = _list_names(folder, [path for path in found if path not in tables])
            message = f"the folder `{folder}` holds data files and others: {others}"
            hint = f"say which are meant: `extension: {min(path.suffix.lstrip('.') for path in tables)}`"
            raise DataError("E201", message, where=Place(file=str(folder)), hint=hint)
        if tables:
            files = [DataFile(path, str(path), path.relative_to(folder).as_posix()) for path in found]
            return read_files(files, self, shown=self.directory_path)
        # PDF files are no text: they are passed over, and counted.
        texts = [path for path in found if path.suffix.lower() != ".pdf"]
        if not texts:
            self._refuse_nothing(folder)
        table = read_documents(folder, texts, self)
        skipped = len(found) - len(texts)
        notice = Notice(f"{skipped} PDF files of the folder `{folder}` are passed over: they are no text")
        return replace(table, notices=(*table.notices, notice)) if skipped else table

    def _refuse_nothing(self, folder: Path) -> NoReturn:
        wanted = " and ".join(
            f"`{name}` {value!r}"
            for name, value in (("extension", self.extension), ("pattern", self.pattern))
            if value is not None
        )
        message = f"no file of the folder `{folder}` matches {wanted}" if wanted else "the folder is empty"
        hint = f"files there: {_list_names(folder, list_files(folder))}"
        raise DataError("E201", message, where=Place(file=str(folder)), hint=hint)


def _list_names(folder: Path, paths: Sequence[Path]) -> str:
    return listing([path.relative_to(folder).as_posix() for path in paths], limit=5)


def list_files(folder: Path, *, extension: str | None = None, pattern: str | None = None) -> list[Path]:
    """Return the files of a folder, at any depth, by name; hidden ones and links to folders are left out."""
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        hint = "name a file with `type: local`" if folder.exists() else None
        raise DataError("E201", f"the folder `{folder}` {what}", where=Place(file=str(folder)), hint=hint)

    def fail(error: OSError) -> None:
        raise error

    found: list[Path] = []
    try:
        for base, folders, names in os.walk(folder, onerror=fail):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths = (Path(base) / name for name in names if not name.startswith("."))
            found += [path for path in paths if path.is_file()]
    except OSError as error:
        raise describe_unreadable(folder, error) from None
    if extension is not None:
        ending = f".{extension.lower().lstrip('.')}"
        endings = (ending, *(ending + packed for packed in COMPRESSIONS))
        found = [path for path in found if path.name.lower().endswith(endings)]
    if pattern is not None:
        found = [path for path in found if matches(path.relative_to(folder).as_posix(), pattern)]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


@dataclass(frozen=True)
class UrlSource(FileFields):
    """A file at an address: `https`, `http` on this machine, or shared storage (`s3`, `gs`).

    `sha256` is the hash it must have; without it the file is looked up again each time, and fetched if it has
    changed. No key is ever sent but to the caller's own storage. Parquet there is read where it lies, of any
    size.
    """

    url: str
    sha256: str | None = None
    max_megabytes: int = DEFAULT_MEGABYTES
    type: Literal["url"] = "url"

    def __post_init__(self) -> None:
        super().__post_init__()
        remember_url(self.url)
        if is_stored(self.url):
            require_address(self.url)
        elif not is_safe(self.url) or not urlsplit(self.url).hostname:
            hint = f"it begins with `https://`, or with that of a store: {listing(STORES)}"
            raise SpecError("E108", f"`url` is {hide_query(self.url)!r}", hint=hint)
        elif "@" in urlsplit(self.url).netloc:
            raise SpecError("E117", "`url` holds a name or a password", hint="no key is sent to this source")
        if self.sha256 is not None and not _DIGEST.fullmatch(self.sha256):
            raise SpecError("E108", f"`sha256` is {self.sha256!r}", hint="it has 64 digits of 0-9 and a-f")
        if self.max_megabytes < 1:
            raise SpecError("E108", f"`max_megabytes` is {self.max_megabytes}", hint="it is at least 1")

    @property
    def origin(self) -> str:
        """The address without what may be secret in it."""
        return self.url if is_stored(self.url) else hide_query(self.url)

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        if self._lies_in_place:
            self._find_stored()
        path = self.url if self._lies_in_place else self.fetch().path
        return read_files([DataFile(path, self.origin, self._name)], self, shown=self.origin)

    def pin(self) -> Self:
        """Return the source of the content that is there now; its address is without what may be secret."""
        if self._lies_in_place:
            return replace(self, sha256=find_digest(self._find_stored()))
        return replace(self, url=self.origin, sha256=self.fetch().digest)

    def fetch(self) -> Fetched:
        """Return the file on this machine."""
        self.find_format(self._name or "file")
        endings, most = "".join(split_endings(self._name)), self.max_megabytes * MEGABYTE
        if is_stored(self.url):
            return fetch_object(self._find_stored(), endings, most)
        from answerkey.datasets.web import fetch

        return fetch(Wanted(self.url, most, endings, self.sha256))

    @property
    def _name(self) -> str:
        return unquote(PurePosixPath(urlsplit(self.url).path).name)

    @property
    def _lies_in_place(self) -> bool:
        """Whether the rows are read by ranges: a Parquet file on shared storage, taken as it stands."""
        return is_stored(self.url) and self.lies_in_place(self._name)

    def _find_stored(self) -> StoredObject:
        """Return the object as it is now; E214 when it has not the hash it must have."""
        stored = open_object(self.url)
        if self.sha256 is not None and (found := find_digest(stored)) != self.sha256:
            message = f"has the sha256 {found}, and {self.sha256} is expected"
            hint = "it was changed: look at it, then correct or remove `sha256`"
            raise refuse(self.url, message, hint)
        return stored


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
