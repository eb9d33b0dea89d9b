"""Large files that are no Parquet are read once, and kept as Parquet in the user's cache folder.

An entry is named by a hash of the decompressed content, of the format and of how cells are typed. Nothing
depends on the cache: where it is switched off, or cannot be written, the table is a temporary file.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from answerkey.datasets.columns import LINE, BuiltTable, SpillFolder
from answerkey.datasets.downloads import open_cache_folder
from answerkey.datasets.parquet import StoredRows
from answerkey.datasets.rows import BLOCK_ROWS
from answerkey.errors import Place, SpecError
from answerkey.types import Notice

#: `off`, or how many gigabytes the cache may hold.
VARIABLE = "ANSWERKEY_TABLE_CACHE"
GIGABYTE = 10**9
DEFAULT_BYTES = 20 * GIGABYTE
#: Changes when the same file would be stored otherwise.
VERSION = 1
#: What was used so many seconds ago may be in use, and what was begun so long ago was given up.
REST_SECONDS, GIVEN_UP_SECONDS = 3600.0, 86_400.0
GROUP_BYTES = 64 * 2**20
_KEY = "answerkey"
_SPILL = ".draft-"


@dataclass(frozen=True)
class StoredTable:
    """A table in the cache, and what is said about it."""

    rows: StoredRows
    notices: tuple[Notice, ...] = ()
    #: How many rows each of several files has.
    spans: tuple[int, ...] = ()


@dataclass
class TableCache:
    """The cache folder, None when it is switched off; `notices` says why it cannot be used, if so."""

    folder: Path | None
    limit: int = DEFAULT_BYTES
    notices: list[Notice] = field(default_factory=list)

    def find(self, key: str, file: str) -> StoredTable | None:
        """Return the table with this key; `file` is its name in errors."""
        if self.folder is None:
            return None
        path = self.folder / f"{key}.parquet"
        with suppress(OSError, pl.exceptions.PolarsError, ValueError, KeyError):
            found = _open_entry(path, file)
            os.utime(path)
            return found
        return None

    @contextmanager
    def open_spill_folder(self) -> Iterator[SpillFolder]:
        """Yield a folder for the chunks of a table; it is removed afterwards."""
        folder = self._make_folder()
        try:
            yield SpillFolder(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _make_folder(self) -> Path:
        try:
            if self.folder is not None:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                return Path(tempfile.mkdtemp(prefix=_SPILL, dir=self.folder))
        except OSError as error:
            message = (
                f"the table cache `{self.folder}` cannot be used: {error}; large files are read each time"
            )
            hint = f"make room or correct its rights; `{VARIABLE}=off` switches it off"
            self.notices.append(Notice(message, hint=hint))
            self.folder = None
        return Path(tempfile.mkdtemp(prefix="answerkey-table-"))

    def keep(self, key: str, chunks: SpillFolder, built: BuiltTable, file: str) -> StoredTable:
        """Make one table of the chunks and return it: an entry of the cache, or a temporary file."""
        whole = chunks.folder / "whole"
        scan = pl.scan_parquet(sorted(chunks.folder.glob("*.parquet")), glob=False)
        rows = max(1, GROUP_BYTES * built.rows // max(built.size, 1))  # groups of a bearable size
        (scan if built.first_line is None else scan.drop(LINE)).sink_parquet(
            whole,
            compression="zstd",
            compression_level=1,
            statistics=False,
            row_group_size=min(rows, BLOCK_ROWS),
            metadata={_KEY: json.dumps(_describe(built))},
        )
        if self.folder is not None:
            path = whole.replace(self.folder / f"{key}.parquet")
            self._make_room(self.folder, path)
        else:
            folder = Path(tempfile.mkdtemp(prefix="answerkey-table-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            path = Path(shutil.move(whole, folder / f"{key}.parquet"))
        return _open_entry(path, file)

    def _make_room(self, folder: Path, kept: Path) -> None:
        """Delete what was not used for longest until the rest fits."""
        entries: list[tuple[float, Path, int]] = []
        for path in folder.iterdir():
            with suppress(OSError):  # another process may have deleted it
                found = path.stat()
                entries.append((found.st_mtime, path, found.st_size))
        now, size = time.time(), 0
        for used, path, length in sorted(entries, reverse=True):
            if path.name.startswith(_SPILL):
                if now - used > GIVEN_UP_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
                continue
            size += length
            if size > self.limit and path != kept and now - used > REST_SECONDS:
                path.unlink(missing_ok=True)
                size -= length


def open_cache() -> TableCache:
    """Return the cache as the environment says; SpecError E119 when it says nonsense."""
    setting = os.environ.get(VARIABLE, "").strip().lower()
    folder = open_cache_folder("tables")
    if not setting:
        return TableCache(folder)
    try:
        limit = 0 if setting == "off" else int(float(setting) * GIGABYTE)
    except (ValueError, OverflowError):
        limit = -1
    if limit < 0:
        hint = f"write `{VARIABLE}=off`, or a number of gigabytes"
        raise SpecError("E119", f"`{VARIABLE}` is {setting!r}", hint=hint)
    return TableCache(folder if limit else None, limit)


def name_entry(digest: str, form: str, kinds: Mapping[str, str]) -> str:
    """Return the name of the entry of a content that is read in this way."""
    parts = [VERSION, digest, form, sorted(kinds.items())]
    return sha256(json.dumps(parts).encode()).hexdigest()


def _describe(built: BuiltTable) -> dict[str, Any]:
    """Return what is stored beside the rows; notices without the name of the file, another each time."""
    places = [(one, one.where or Place()) for one in built.notices]
    return {
        "rows": built.rows,
        "encoded": sorted(built.encoded),
        "first_line": built.first_line,
        "notices": [[one.message, one.hint, where.line, where.field] for one, where in places],
        "spans": list(built.spans),
    }


def _open_entry(path: Path, file: str) -> StoredTable:
    known: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)[_KEY])
    held = pl.scan_parquet(path, glob=False).collect_schema()
    schema = {name: dtype for name, dtype in held.items() if name != LINE}
    rows = StoredRows(
        path, schema, 0, known["rows"], file, frozenset(known["encoded"]), first_line=known["first_line"]
    )
    notices = tuple(
        Notice(message, where=Place(file=file, line=line, field=name), hint=hint)
        for message, hint, line, name in known["notices"]
    )
    return StoredTable(rows, notices, tuple(known.get("spans", ())))
