"""Files that are fetched whole, from the web or from shared storage, and kept by the hash of their content.

From the web they come over TLS, and no larger than allowed. `$XDG_CACHE_HOME/answerkey/downloads` holds the
contents, each under its sha256, and under `urls` what was last found at an address: the address itself, which
may hold a key, is not stored. All of it may be deleted.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import re
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from answerkey._version import __version__
from answerkey.datasets.storage import StoredObject, is_stored, look_up, refuse, require_address
from answerkey.errors import DataError, Place, hide_secrets, remember_url
from answerkey.models.proxy import find_proxy, open_tls_context

#: Set to anything but `0`: nothing is fetched, and what was fetched before is used.
OFFLINE = "ANSWERKEY_OFFLINE"
MEGABYTE = 10**6
TIMEOUT = 30.0
#: Waits before another attempt, in seconds.
WAITS = (1.0, 3.0)
MOST_REDIRECTS = 5
_BLOCK = 2**18
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNCHANGED = 304
#: What the standard library raises about the network and about addresses that are none.
_FOREIGN = (
    *(urllib.error.URLError, http.client.HTTPException, ssl.SSLError, TimeoutError, ConnectionError),
    ValueError,
)


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


class _PassingError(Exception):
    """An error that may be over at the next attempt."""


def fetch(wanted: Wanted) -> Fetched:
    """Return a file from the web, from the cache where that is certain to be the right one."""
    folder = open_cache_folder("downloads")
    if wanted.digest is not None and (found := _find_content(folder, wanted.digest, wanted.endings)):
        return found
    note_path = folder / "urls" / f"{sha256(wanted.url.encode()).hexdigest()}.json"
    note = _read_note(note_path)
    known = _find_content(folder, str(note.get("sha256")), wanted.endings)
    if wanted.digest is not None and known is not None and known.digest != wanted.digest:
        known = None
    if is_offline():
        if known is None:
            hint = f"unset `{OFFLINE}` to fetch it once"
            raise wanted.refuse("has not been fetched yet, and nothing is fetched now", hint)
        return known
    marks = {"If-None-Match": note.get("etag"), "If-Modified-Since": note.get("last_modified")}
    headers = {name: str(value) for name, value in marks.items() if value and known is not None}
    for pause in (*WAITS, None):
        try:
            fetched = _download(wanted, folder, note_path, headers) or known
        except _PassingError as error:
            if pause is None:
                raise wanted.refuse(str(error), "try again later") from None
            time.sleep(pause)
            continue
        if fetched is None:
            raise wanted.refuse("is said to be unchanged, and was never fetched")
        return fetched
    raise AssertionError


def _download(wanted: Wanted, folder: Path, note_path: Path, headers: dict[str, str]) -> Fetched | None:
    """Fetch a file into the cache; None when it has not changed."""
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        wanted.url,
        headers={"User-Agent": f"answerkey/{__version__}", "Accept-Encoding": "identity", **headers},
    )
    proxy = find_proxy(wanted.url)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({} if proxy is None else {"http": proxy, "https": proxy}),
        urllib.request.HTTPSHandler(context=open_tls_context()),
        _Redirects(wanted),
    )
    try:
        with opener.open(request, timeout=TIMEOUT) as reply:
            fetched = _store(folder, wanted.endings, _iterate_reply(reply, wanted))
            marks = {"etag": reply.headers.get("ETag"), "last_modified": reply.headers.get("Last-Modified")}
            _keep_note(note_path, {"sha256": fetched.digest, **marks})
            return fetched
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _UNCHANGED:
                return None
        phrase = http.client.responses.get(error.code, "unknown status")
        message = f"cannot be fetched: status {error.code} ({phrase})"
        if error.code in _AGAIN:
            raise _PassingError(message) from None
        raise wanted.refuse(message, "check the address") from None
    except _FOREIGN as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            message = f"does not prove who it is: {reason.verify_message}"
            hint = "`SSL_CERT_FILE` names further certificates to trust"
            raise wanted.refuse(message, hint) from None
        if isinstance(reason, ValueError):
            raise wanted.refuse(f"cannot be fetched: {reason}", "check the address") from None
        if isinstance(reason, TimeoutError):
            raise _PassingError(f"did not answer within {TIMEOUT:.0f} s") from None
        raise _PassingError(f"cannot be fetched: {reason}") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, and only to where nobody on the way can listen."""

    #: The library's own limits stay out of the way.
    max_repeats = max_redirections = MOST_REDIRECTS + 1

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._count = 0

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:  # noqa: ANN401 - as the library has it
        """Follow a redirect; the reply that sent us on is closed in any case."""
        with closing(fp):
            return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the next request."""
        remember_url(newurl)
        self._count += 1
        if self._count > MOST_REDIRECTS:
            raise self._wanted.refuse(f"redirects more than {MOST_REDIRECTS} times")
        if "@" in urlsplit(newurl).netloc:
            raise self._wanted.refuse("redirects to an address with a user name or password")
        is_same_kind = urlsplit(newurl).scheme == urlsplit(req.full_url).scheme
        if not is_safe(newurl) or not (is_same_kind or newurl.startswith("https:")):
            raise self._wanted.refuse(f"redirects to `{hide_query(newurl)}`, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _iterate_reply(reply: http.client.HTTPResponse, wanted: Wanted) -> Iterator[bytes]:
    """Yield the blocks of a reply; at the end its size and its hash must be the right ones."""
    stated = reply.headers.get("Content-Length", "")
    length = int(stated) if stated.isdigit() else None
    if length is not None and length > wanted.max_bytes:
        raise wanted.refuse_size(length)
    digest, size = sha256(), 0
    while block := reply.read(_BLOCK):
        size += len(block)
        if size > wanted.max_bytes:
            raise wanted.refuse_size(size)
        digest.update(block)
        yield block
    if length is not None and size != length:
        raise _PassingError(f"ended after {size:,} of {length:,} bytes")
    if wanted.digest is not None and digest.hexdigest() != wanted.digest:
        message = f"has the sha256 {digest.hexdigest()}, and {wanted.digest} is expected"
        raise wanted.refuse(message, "it was changed: look at it, then correct or remove `sha256`")


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
    found = _find_content(folder, str(_read_note(note).get("sha256")), endings)
    if found is None:
        found = _store(folder, endings, stored.iterate())
        _keep_note(note, {"sha256": found.digest})
    return found


def find_digest(stored: StoredObject) -> str:
    """Return the sha256 of an object's bytes; it is read once as long as it stays the same."""
    note = _find_note(stored)
    known = _read_note(note).get("sha256")
    if isinstance(known, str):
        return known
    digest = stored.digest()
    with suppress(OSError):  # where nothing can be written it is read again the next time
        _keep_note(note, {"sha256": digest})
    return digest


def digest_file(path: str | Path) -> str:
    """Return the sha256 of the bytes of a file, here or on shared storage."""
    if isinstance(path, str) and is_stored(path):
        return find_digest(open_object(path))
    return _digest_file(Path(path))


def _digest_file(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _store(folder: Path, endings: str, blocks: Iterable[bytes]) -> Fetched:
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


def _find_content(folder: Path, digest: str, endings: str) -> Fetched | None:
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


def _read_note(path: Path) -> dict[str, Any]:
    """Return what was written down about an address; nothing where there is no such note."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _keep_note(path: Path, note: Mapping[str, object]) -> None:
    """Write down what was found at an address."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(note), encoding="utf-8")
    draft.replace(path)
