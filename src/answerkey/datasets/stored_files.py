"""Files of shared storage that are needed whole: fetched once, and kept by the hash of their content.

They lie with the other downloads. What was last found at an address is remembered with the mark that the
object had: while it has that, its hash is known without reading it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from answerkey.datasets.downloads import (
    MEGABYTE,
    OFFLINE,
    Fetched,
    find_content,
    is_offline,
    keep_note,
    open_cache_folder,
    read_note,
)
from answerkey.datasets.storage import BLOCK, StoredObject, is_stored, look_up, refuse, require_address


def open_object(url: str) -> StoredObject:
    """Return the object of a dataset as it is now; E214 when there is none, or nothing is to be fetched."""
    require_address(url)
    if is_offline():
        raise refuse(url, "is on shared storage, and nothing is fetched now", f"unset `{OFFLINE}`")
    return look_up(url)


def find_digest(stored: StoredObject) -> str:
    """Return the sha256 of an object's bytes; it is read once as long as it stays the same."""
    note = _find_note(stored)
    known = read_note(note).get("sha256")
    if isinstance(known, str):
        return known
    digest = stored.digest()
    with suppress(OSError):  # where nothing can be written it is read again the next time
        keep_note(note, {"sha256": digest})
    return digest


def fetch_object(stored: StoredObject, endings: str, max_bytes: int | None = None) -> Fetched:
    """Return an object as a file of this machine; `endings` are those of its name."""
    if max_bytes is not None and stored.size > max_bytes:
        hint = f"allow more with `max_megabytes: {stored.size // MEGABYTE + 1}`"
        raise refuse(stored.url, f"is larger than {max_bytes // MEGABYTE:,} MB", hint)
    folder = open_cache_folder("downloads")
    note = _find_note(stored)
    found = find_content(folder, str(read_note(note).get("sha256")), endings)
    if found is not None:
        return found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".draft-", dir=folder)
    try:
        digest = sha256()
        with os.fdopen(handle, "wb") as out:
            for block in stored.iterate():
                digest.update(block)
                out.write(block)
        path = folder / f"{digest.hexdigest()}{endings}"
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    keep_note(note, {"sha256": digest.hexdigest()})
    return Fetched(path, digest.hexdigest())


def digest_file(path: str | Path) -> str:
    """Return the sha256 of the bytes of a file, here or on shared storage."""
    if isinstance(path, str) and is_stored(path):
        return find_digest(open_object(path))
    digest = sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _find_note(stored: StoredObject) -> Path:
    mark = f"{stored.url} {stored.size} {stored.mark}"
    return open_cache_folder("downloads") / "urls" / f"{sha256(mark.encode()).hexdigest()}.json"
