"""Files that are fetched whole, from the web or from shared storage, and kept by the hash of their content.

From the web they come over TLS, and no larger than allowed. `$XDG_CACHE_HOME/answerkey/downloads` holds the
contents, each under its sha256, and under `urls` what was last found at an address: the address itself, which
may hold a key, is not stored. All of it may be deleted.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from answerkey.datasets.storage import StoredObject, is_stored, look_up, refuse, require_address
from answerkey.errors import DataError, Place, hide_secrets

#: Set to anything but `0`: nothing is fetched, and what was fetched before is used.
OFFLINE = "ANSWERKEY_OFFLINE"
MEGABYTE = 10**6


@dataclass(frozen=True)
class Fetched:
    """A file on this machine, with the hash of its content."""

    path: Path
    digest: str


@dataclass(frozen=True)
class Wanted:
    """What is to be fetched: `endings` are those of the file's name, `digest` the hash it must have."""

    url: str
    max_bytes: int
    endings: str = ""
    digest: str | None = None

    def refuse(self, message: str, hint: str | None = None) -> DataError:
        """Return the error about a file that cannot be had, without what may be secret in its address."""
        shown = hide_query(self.url)
        return DataError("E214", f"`{shown}` {message}", where=Place(file=shown), hint=hint)

    def refuse_size(self, size: int) -> DataError:
        """Return the error about a file that is too large."""
        hint = f"allow more with `max_megabytes: {size // MEGABYTE + 1}`"
        return self.refuse(f"is larger than {self.max_bytes // MEGABYTE:,} MB", hint)


def is_offline() -> bool:
    """Return whether the caller wants nothing fetched."""
    return os.environ.get(OFFLINE, "0").strip().lower() not in {"", "0", "false", "no", "off"}


def hide_query(url: str) -> str:
    """Return an address without its query and fragment, which may hold a key, or a password."""
    return hide_secrets(re.split("[?#]", url, maxsplit=1)[0])


def is_loopback(host: str | None) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return host is not None and ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_safe(url: str) -> bool:
    """Return whether nobody on the way can read or change what is fetched; False for what is no address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))


def open_cache_folder(name: str) -> Path:
    """Return a folder of the user's cache; it is made when something is written."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "answerkey" / name


def open_object(url: str) -> StoredObject:
    """Return the object of a dataset as it is now; E214 when there is none, or nothing is to be fetched."""
    require_address(url)
    if is_offline():
        raise refuse(url, "is on shared storage, and nothing is fetched now", f"unset `{OFFLINE}`")
    return look_up(url)


def fetch_object(stored: StoredObject, endings: str, max_bytes: int | None = None) -> Fetched:
    """Return an object of shared storage as a file of this machine; `endings` are those of its name."""
    if max_bytes is not None and stored.size > max_bytes:
        raise Wanted(stored.url, max_bytes).refuse_size(stored.size)
    folder = open_cache_folder("downloads")
    note = _find_note(stored)
    found = find_content(folder, str(read_note(note).get("sha256")), endings)
    if found is None:
        found = store_content(folder, endings, stored.iterate())
        keep_note(note, {"sha256": found.digest})
    return found


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


def digest_file(path: str | Path) -> str:
    """Return the sha256 of the bytes of a file, here or on shared storage."""
    if isinstance(path, str) and is_stored(path):
        return find_digest(open_object(path))
    return _digest_file(Path(path))


def _digest_file(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def store_content(folder: Path, endings: str, blocks: Iterable[bytes]) -> Fetched:
    """Write a content into the cache under its hash, whole or not at all."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".draft-", dir=folder)
    try:
        digest = sha256()
        with os.fdopen(handle, "wb") as out:
            for block in blocks:
                digest.update(block)
                out.write(block)
        path = folder / f"{digest.hexdigest()}{endings}"
        Path(name).replace(path)
        return Fetched(path, digest.hexdigest())
    finally:
        Path(name).unlink(missing_ok=True)


def find_content(folder: Path, digest: str, endings: str) -> Fetched | None:
    """Return a content by its hash; one that does not have it any more is deleted."""
    path = folder / f"{digest}{endings}"
    with suppress(OSError):
        if _digest_file(path) == digest:
            return Fetched(path, digest)
        path.unlink()
    return None


def _find_note(stored: StoredObject) -> Path:
    mark = f"{stored.url} {stored.size} {stored.mark}"
    return open_cache_folder("downloads") / "urls" / f"{sha256(mark.encode()).hexdigest()}.json"


def read_note(path: Path) -> dict[str, Any]:
    """Return what was written down about an address; nothing where there is no such note."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def keep_note(path: Path, note: Mapping[str, object]) -> None:
    """Write down what was found at an address."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(note), encoding="utf-8")
    draft.replace(path)
