"""Objects on shared storage, `s3://…` and `gs://…`: looked up, read by ranges, written whole.

Who may read, and which host is asked, is the caller's to say: keys, region and endpoint come from the
environment and the user's own settings, never from a project. Libraries are imported for the first address
that needs one. An object is read as it was looked up: one that has changed since is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from answerkey.datasets.stores import STORES, Store, open_store
from answerkey.errors import DataError, Place, SpecError, listing

#: Read at a time, and how many such blocks are on the way together.
BLOCK = 8 * 2**20
AHEAD = 4
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_stored(name: str | Path) -> bool:
    """Return whether a name is the address of an object, or of a folder of them, on shared storage."""
    found = _SCHEME.match(name) if isinstance(name, str) else None
    return found is not None and found[0][:-3].lower() in STORES


def name_lasting(given: str | Path) -> str:
    """Return the name by which a file or folder is found again from anywhere: an address, or a whole path."""
    return str(given) if is_stored(given) else str(Path(given).resolve())


def require_address(url: str, where: Place | None = None) -> str:
    """Return an address without a slash at its end; SpecError where it holds more than bucket and name."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "@" in parts.netloc or "?" in url or "#" in url:
        hint = "write `scheme://bucket/name`; keys come from the environment, or from your own settings"
        raise SpecError(
            "E117", f"the address `{shown}` holds more than a bucket and a name", where=where, hint=hint
        )
    if not parts.netloc or not parts.path.strip("/") or "//" in parts.path or _climbs(parts.path):
        raise SpecError("E108", f"`{url}` names no object", where=where, hint="write `scheme://bucket/name`")
    return url.rstrip("/")


def _climbs(path: str) -> bool:
    return any(part in {".", ".."} for part in path.split("/"))


@dataclass(frozen=True)
class StoredObject:
    """An object as it is at one moment; `mark` is another one when the content is."""

    url: str
    size: int
    mark: str

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` on, before `stop`; DataError E214 when the object has changed."""
        store, path = _open(self.url)
        raw = store.read(path, self.mark, start, stop)
        if len(raw) != stop - start:
            raise refuse(self.url, "has changed while it was being read", "start again when it is complete")
        return raw

    def iterate(self) -> Iterator[bytes]:
        """Yield the whole content in blocks; a few of them are in memory."""
        with ThreadPoolExecutor(AHEAD) as pool:
            waiting: list[Future[bytes]] = []
            for start in range(0, self.size, BLOCK):
                waiting.append(pool.submit(self.read, start, min(start + BLOCK, self.size)))
                if len(waiting) == AHEAD:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()

    def digest(self) -> str:
        """Return the sha256 of the content, which is read for that."""
        found = sha256()
        for block in self.iterate():
            found.update(block)
        return found.hexdigest()


def look_up(url: str) -> StoredObject:
    """Return the object at an address as it is now; DataError E214 when there is none."""
    found = find_object(url)
    if found is not None:
        return found
    if list_objects(url):
        raise refuse(url, "is a folder", "name one file; Parquet takes any number of rows")
    raise refuse(url, "is not there", "check the address; names are told apart by case")


def find_object(url: str) -> StoredObject | None:
    """Return the object at an address as it is now; None when there is none, E214 when that is not known."""
    store, path = _open(url)
    found = store.look_up(path)
    return None if found is None else StoredObject(url, found.size, found.mark)


def list_objects(url: str) -> list[StoredObject]:
    """Return the objects below an address, at any depth, by name; none when there is nothing."""
    store, path = _open(url)
    base = urlsplit(url).scheme
    return [StoredObject(f"{base}://{one.path}", one.size, one.mark) for one in store.find(path)]


def put_object(url: str, content: bytes | Path) -> None:
    """Write an object, whole or not at all, in place of what is there."""
    store, path = _open(url)
    store.put_file(path, content) if isinstance(content, Path) else store.put(path, content)


def copy_object(source: str, url: str) -> None:
    """Copy an object within a store."""
    store, path = _open(url)
    store.copy(_open(source)[1], path)


def remove_objects(urls: list[str]) -> None:
    """Remove objects, if they are there."""
    for url in urls:
        store, path = _open(url)
        store.remove(path)


def put_new(url: str, content: bytes, *, in_place_of: str | None = None) -> str | None:
    """Write an object only if none is there, or the one with a mark; return its mark, None if it is not so.

    A store that knows no such condition writes it in any case: read it again to see whose it is.
    """
    store, path = _open(url)
    return store.put_new(path, content, in_place_of)


def refuse(url: str, message: str, hint: str | None = None) -> DataError:
    """Return the error about an object that cannot be had."""
    return DataError("E214", f"`{url}` {message}", where=Place(file=url), hint=hint)


def _open(url: str) -> tuple[Store, str]:
    """Return the store of an address, and where the object is in it."""
    scheme, _, path = url.partition("://")
    if scheme.lower() not in STORES:
        message = f"`{url}` is on no storage that is known"
        raise SpecError("E108", message, hint=f"schemes: {listing(STORES)}")
    return open_store(scheme.lower()), path
