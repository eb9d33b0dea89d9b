"""The files of a run: in a folder, on object storage, or in memory.

One interface, three back ends. A file exists as a whole or not at all, whatever stops the process
that writes it. A run may come from a stranger: only plain files are read, and none that takes far
more memory than any run needs.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import polars as pl

from answerkey.datasets.storage import (
    STORES,
    StoredObject,
    fetch_object,
    find_object,
    is_stored,
    list_objects,
    open_cache_folder,
    put_object,
    remove_objects,
    require_address,
)
from answerkey.errors import DataError, RunError, SpecError, listing
from answerkey.runs.lock import LOCK_NAME, FolderLock, ObjectLock, RunLock

#: A JSON object that was read, and one to be written.
Json = Mapping[str, Any]
JsonObject = dict[str, Any]
InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")
#: What is written before `run.json`.
_FIRST_FILE = re.compile(r"tasks/[^/]+/(?:task\.json|samples/part-00000\.parquet)")
JOURNAL_NAME = "calls.sqlite"
#: The file that names the run on object storage to which a folder of this machine belongs.
OWNER_NAME = "run"
#: Statistics, which nothing here reads, would take a third of the time of writing.
PARQUET: Any = {"compression_level": 1, "statistics": False}
PART = re.compile(r".*/part-\d+\.parquet")
#: The limits of a JSON file of a run: a stranger's file could fill the memory.
MAX_JSON_BYTES = 32_000_000
MAX_JSON_VALUES = 1_000_000
#: Rows that a table may have whatever its size, and for each byte of it.
FREE_ROWS = 10_000
ROWS_PER_BYTE = 20
#: The number of objects that are requested at the same time.
CONCURRENT = 8


@dataclass(frozen=True)
class StoredFolder:
    """A run folder on object storage, by its address.

    It has the methods of a path that naming and showing it need.
    """

    url: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", require_address(self.url))

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> StoredFolder:
        return StoredFolder(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> str:
        """The address of the parent folder."""
        return self.url.rpartition("/")[0]

    def resolve(self) -> Self:
        """Return the same: an address does not depend on the current folder."""
        return self


#: The place of a run: a folder, or an address on object storage.
RunPlace = Path | StoredFolder


def find_place(name: str | Path | StoredFolder) -> RunPlace:
    """Return the place of a run by its path or address; E108 for an address on the web."""
    if isinstance(name, StoredFolder | Path):
        return name
    if is_stored(name):
        return StoredFolder(name)
    if "://" in name:
        hint = f"name a folder, or an address of a store: {listing(STORES)}"
        raise SpecError("E108", f"`{name}` names no known storage", hint=hint)
    return Path(name)


@contextmanager
def reaching_storage() -> Iterator[None]:
    """Turn errors of object storage into RunError E509."""
    try:
        yield
    except DataError as error:
        if error.code != "E214":
            raise
        hint = error.hint or "`answerkey resume` continues with a run that was stopped"
        raise RunError("E509", error.message, where=error.where, hint=hint) from None


def write_whole(
    path: Path,
    write: Callable[[Path], object],
    *,
    ending: str = "draft",
) -> None:
    """Write a file under another name, flush it to disk, then rename it.

    A run folder has one writer: what a killed one left, or a link that a stranger put there, is
    removed by the next.
    """
    temporary = path.with_name(f".{path.name}.{ending}")
    try:
        temporary.unlink(missing_ok=True)
        write(temporary)
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    except BaseException as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError | pl.exceptions.PolarsError):
            raise
        why = getattr(error, "strerror", None) or error
        message = f"cannot write `{path}`: {why}"
        hint = (
            "check the free space and the permissions of the folder, or choose another with `--out`"
        )
        raise RunError("E502", message, hint=hint) from error


def _flush(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_output(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that a user names, as a whole or not at all; a pipe or a device directly.

    Several commands may write it at the same time: each has a draft of its own.
    """
    if path.exists() and not path.is_file():
        try:
            write(path)
        except OSError as error:
            message = f"cannot write `{path}`: {error.strerror or error}"
            raise RunError("E502", message, hint="choose another file") from error
        return
    if path.is_symlink():
        path = path.resolve()
    write_whole(path, write, ending=f"{secrets.token_hex(4)}.draft")


def write_frames(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    """Write frames, which have the same columns, one after the other into one Parquet file.

    One frame is in memory at a time. They lie beside the file until all are there, and it has its
    name then.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        parts = []
        for number, frame in enumerate(frames):
            part = Path(folder) / f"{number:06d}"
            frame.write_parquet(part, compression="lz4", statistics=False)
            parts.append(part)
        whole = Path(folder) / "whole"
        pl.scan_parquet(parts, glob=False).sink_parquet(whole)
        whole.replace(path)


class FolderFile(NamedTuple):
    """A file of a run as it was found, by its path below the run folder; an object has a mark.

    `sha256` is what `run.json` says of it, if it does.
    """

    name: str
    size: int
    mark: str = ""
    sha256: str | None = None


#: Files by their names.
Files = dict[str, FolderFile]


class RunStore(ABC):
    """The files of one run.

    Every name is a path below the run folder. `place` is None in memory.
    """

    place: RunPlace | None

    @property
    def home(self) -> Path | None:
        """The folder of this machine in which the journal is written; None in memory."""
        return None

    @abstractmethod
    def list_files(self, under: str) -> Files:
        """Return the files below a folder by name, without hidden ones.

        E503 for what is no plain file.
        """

    @abstractmethod
    def find_file(self, name: str) -> FolderFile | None:
        """Return a file; None when there is none."""

    def read_json(self, file: FolderFile) -> JsonObject:
        """Return the JSON object in a file.

        E503 when it is damaged, none of ours, or not what `run.json` says.
        """
        name = self.show(file.name)
        if file.size > MAX_JSON_BYTES:
            error = ValueError(f"it is larger than {MAX_JSON_BYTES // 1_000_000} MB")
            raise describe_damage(name, error)
        try:
            raw = self.read_bytes(file)
            require_digest(name, sha256(raw).hexdigest(), file.sha256)
            return _parse_object(raw)
        except (OSError, ValueError, RecursionError) as error:
            raise describe_damage(name, error) from error

    @abstractmethod
    def read_bytes(self, file: FolderFile) -> bytes:
        """Return the content of a small file."""

    @abstractmethod
    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file in place of what is there."""

    def write_json(self, name: str, content: object) -> None:
        """Write a JSON file in place of what is there."""
        # Any reader accepts what is in a folder: UTF-8, no NaN.
        text = json.dumps(
            content,
            ensure_ascii=False,
            indent=2,
            allow_nan=False,
        )
        self.write_bytes(name, f"{text}\n".encode(errors="backslashreplace"))

    def write_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Write a Parquet file in place of what is there."""
        buffer = BytesIO()
        frame.write_parquet(buffer, **PARQUET)
        self.write_bytes(name, buffer.getvalue())

    @abstractmethod
    def scan(self, file: FolderFile) -> pl.LazyFrame:
        """Return a Parquet file as a table that is read as far as it is collected."""

    @contextmanager
    def _open_table(self, file: FolderFile) -> Iterator[pl.LazyFrame]:
        """Yield a table; errors of a damaged one become E503."""
        try:
            yield self.scan(file)
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            raise describe_damage(self.show(file.name), error) from error

    def count_rows(self, file: FolderFile) -> int:
        """Return how many rows a Parquet file claims to have; E503 if that is impossible.

        Every row of ours has an id of its own, which takes some of a byte in any compression; a
        file of a stranger may hold a billion rows in a thousand bytes.
        """
        with self._open_table(file) as table:
            rows: int = table.select(pl.len()).collect().item()
            if rows > FREE_ROWS + ROWS_PER_BYTE * file.size:
                raise ValueError(f"{rows:,} rows cannot be in so small a file")
            return rows

    def read_schema(self, file: FolderFile) -> Mapping[str, pl.DataType]:
        """Return the columns of a Parquet file."""
        with self._open_table(file) as table:
            return table.collect_schema()

    def read_rows(
        self,
        file: FolderFile,
        rows: range | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Return a Parquet file, whole or some of its rows, with all columns or with some.

        E503 when it is damaged.
        """
        if rows is None:
            rows = range(self.count_rows(file))
        with self._open_table(file) as table:
            chosen = table.slice(rows.start, len(rows))
            if columns is not None:
                chosen = chosen.select(pl.selectors.by_name(*columns))
            return chosen.collect()

    def digest(self, file: FolderFile) -> str:
        """Return the SHA-256 of a file."""
        try:
            return sha256(self.read_bytes(file)).hexdigest()
        except OSError as error:
            raise describe_damage(self.show(file.name), error) from error

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Remove files, if they are there."""

    def list_top(self) -> set[str]:
        """Return the names of the entries of the run folder; in memory there are none."""
        return set()

    def require_new(self) -> None:
        """Raise E502 when something is there already, except what a process killed at its start
        left.
        """
        names = {name for name in self.list_top() if not name.endswith(".draft")} - {LOCK_NAME}
        is_started = names == {"tasks"} and all(
            map(_FIRST_FILE.fullmatch, self.list_files("tasks"))
        )
        if names and not is_started:
            message = f"`{self.place}` already exists and is not empty"
            raise RunError("E502", message, hint="choose a new folder with `--out`")

    def lock(self) -> RunLock:
        """Lock the run for this process; E506 while another one works on it."""
        return RunLock()

    def map(self, function: Callable[[InputT], OutputT], items: Iterable[InputT]) -> list[OutputT]:
        """Apply a function that reads or writes files, one by one, or concurrently if faster."""
        return [function(item) for item in items]

    def show(self, name: str) -> str:
        """Return a name as it is shown to the user."""
        return f"{self.place}/{name}"


@dataclass(frozen=True)
class FolderStore(RunStore):
    """A run in a folder."""

    place: Path

    @property
    def home(self) -> Path:
        """The folder itself has the journal."""
        return self.place

    def list_files(self, under: str) -> Files:
        files = {}
        for folder, _, names in os.walk(self.place / under):
            for file_name in names:
                if file_name.startswith("."):
                    continue
                path = Path(folder, file_name)
                name = path.relative_to(self.place).as_posix()
                size = _require_plain(path).stat().st_size
                files[name] = FolderFile(name, size)
        return dict(sorted(files.items()))

    def find_file(self, name: str) -> FolderFile | None:
        path = self.place / name
        if not path.is_file():
            return None
        return FolderFile(name, path.stat().st_size)

    def read_bytes(self, file: FolderFile) -> bytes:
        return _require_plain(self.place / file.name).read_bytes()

    def write_bytes(self, name: str, content: bytes) -> None:
        path = self.place / name
        with suppress(OSError):  # writing the file tells what is wrong
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda draft: draft.write_bytes(content))

    def scan(self, file: FolderFile) -> pl.LazyFrame:
        path = _require_plain(self.place / file.name)
        return pl.scan_parquet(path, glob=False)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.place / name).unlink(missing_ok=True)

    def list_top(self) -> set[str]:
        return {path.name for path in self.place.glob("*")}

    def lock(self) -> RunLock:
        return FolderLock(self.place)


@dataclass(frozen=True)
class ObjectStore(RunStore):
    """A run on object storage: every file is an object with the same bytes as in a folder.

    A file that cannot be read, or has changed since it was found, is E509.
    """

    place: StoredFolder

    @property
    def home(self) -> Path:
        """The folder of this machine that has the journal of a run that is worked on here."""
        digest = sha256(self.place.url.encode()).hexdigest()
        return open_cache_folder("runs") / digest[:32]

    def list_files(self, under: str) -> Files:
        with reaching_storage():
            objects = list_objects(self.show(under))
        files = {}
        for stored in objects:
            name = stored.url.removeprefix(f"{self.place}/")
            if "/." not in name:
                files[name] = FolderFile(name, stored.size, stored.mark)
        return files

    def find_file(self, name: str) -> FolderFile | None:
        with reaching_storage():
            stored = find_object(self.show(name))
        if stored is None:
            return None
        return FolderFile(name, stored.size, stored.mark)

    def read_bytes(self, file: FolderFile) -> bytes:
        if not file.size:
            return b""
        with reaching_storage():
            return self._find(file).read(0, file.size)

    def write_bytes(self, name: str, content: bytes) -> None:
        with reaching_storage():
            put_object(self.show(name), content)

    def scan(self, file: FolderFile) -> pl.LazyFrame:
        with reaching_storage():
            fetched = fetch_object(self._find(file))
        return pl.scan_parquet(fetched.path, glob=False)

    def digest(self, file: FolderFile) -> str:
        with reaching_storage():
            return fetch_object(self._find(file)).digest

    def remove(self, names: Iterable[str]) -> None:
        with reaching_storage():
            remove_objects([self.show(name) for name in names])

    def list_top(self) -> set[str]:
        with reaching_storage():
            objects = list_objects(self.place.url)
        names = set()
        for stored in objects:
            path = stored.url.removeprefix(f"{self.place}/")
            names.add(path.partition("/")[0])
        return names

    def lock(self) -> RunLock:
        """Lock the folder of this machine, too: another process here is told at once."""
        with reaching_storage():
            return ObjectLock(self.place.url, self.home)

    def map(self, function: Callable[[InputT], OutputT], items: Iterable[InputT]) -> list[OutputT]:
        with ThreadPoolExecutor(CONCURRENT) as pool:
            return list(pool.map(function, items))

    def _find(self, file: FolderFile) -> StoredObject:
        return StoredObject(self.show(file.name), file.size, file.mark)


@dataclass(frozen=True)
class MemoryStore(RunStore):
    """A run that is kept in memory: the content of its files by name."""

    content: dict[str, bytes] = field(default_factory=dict)
    place: None = field(default=None, init=False)

    def list_files(self, under: str) -> Files:
        files = {}
        for name in sorted(self.content):
            if name.startswith(f"{under}/"):
                files[name] = FolderFile(name, len(self.content[name]))
        return files

    def find_file(self, name: str) -> FolderFile | None:
        if name not in self.content:
            return None
        return FolderFile(name, len(self.content[name]))

    def read_bytes(self, file: FolderFile) -> bytes:
        return self.content[file.name]

    def write_bytes(self, name: str, content: bytes) -> None:
        self.content[name] = content

    def scan(self, file: FolderFile) -> pl.LazyFrame:
        return pl.scan_parquet(BytesIO(self.content[file.name]))

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.content.pop(name, None)


def open_store(place: RunPlace | None) -> RunStore:
    """Return the store of a run; None is in memory."""
    if place is None:
        return MemoryStore()
    if isinstance(place, StoredFolder):
        return ObjectStore(place)
    return FolderStore(place)


def _require_plain(path: Path) -> Path:
    """Refuse a link, a pipe or a device: a run never writes one, and reading it may never end."""
    is_plain = path.is_file() and not path.is_symlink()
    if path.exists() and not is_plain:
        message = f"`{path}` is not a plain file"
        raise RunError("E503", message, hint="answerkey did not write this run folder")
    return path


def _parse_object(raw: bytes) -> JsonObject:
    signs = raw.count(b"[") + raw.count(b"{") + raw.count(b",")
    if signs > MAX_JSON_VALUES:
        raise ValueError("it holds more values than any run writes")
    content = json.loads(raw.decode(), parse_constant=_refuse_constant)
    if not isinstance(content, dict):
        raise ValueError("it does not hold a JSON object")  # noqa: TRY004 - the file is wrong
    return content


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def describe_damage(name: object, error: Exception) -> RunError:
    """Return E503 for a file, or the parts in a folder, that cannot be read."""
    return RunError("E503", f"cannot read `{name}`: {error}", hint="the run folder is damaged")


def require_digest(name: str, digest: str, listed: str | None) -> None:
    """Raise E503 when a file has another SHA-256 than `run.json` says."""
    if listed is not None and digest != listed:
        why = f"its SHA-256 is {digest[:12]}…, `run.json` says {listed[:12]}…"
        raise refuse_changed(name, why)


def refuse_changed(name: str, why: str) -> RunError:
    """Return E503 for a file that has changed since the run."""
    hint = "copy the run folder again from an intact copy, or run again"
    return RunError("E503", f"`{name}` has changed since the run ended: {why}", hint=hint)
