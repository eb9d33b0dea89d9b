"""Files from the web: fetched over TLS, no larger than allowed, kept by the hash of their content.

`$XDG_CACHE_HOME/answerkey/downloads` holds the contents, each under its sha256, and under `urls` what was
last found at an address: the address itself, which may hold a key, is not stored. All of it may be deleted.
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
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import Message
from hashlib import sha256
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from answerkey._version import __version__
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

    @property
    def shown(self) -> str:
        """The address without what may be secret in it."""
        return hide_query(self.url)

    def refuse(self, message: str, hint: str | None = None) -> DataError:
        """Return the error about a file that cannot be had."""
        return DataError("E214", f"`{self.shown}` {message}", where=Place(file=self.shown), hint=hint)


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


def fetch(wanted: Wanted, *, wait: Callable[[float], None] = time.sleep) -> Fetched:
    """Return a file, from the cache where that is certain to be the right one."""
    folder = open_cache_folder("downloads")
    if wanted.digest is not None and (found := find_content(folder, wanted.digest, wanted.endings)):
        return found
    note_path = folder / "urls" / f"{sha256(wanted.url.encode()).hexdigest()}.json"
    note = read_note(note_path)
    known = find_content(folder, str(note.get("sha256")), wanted.endings)
    if wanted.digest is not None and known is not None and known.digest != wanted.digest:
        known = None
    if is_offline():
        if known is None:
            hint = f"unset `{OFFLINE}` to fetch it once"
            raise wanted.refuse("has not been fetched yet, and nothing is fetched now", hint)
        return known
    return _fetch_again(wanted, folder, note_path, known, note, wait)


def _fetch_again(
    wanted: Wanted,
    folder: Path,
    note_path: Path,
    known: Fetched | None,
    note: dict[str, Any],
    wait: Callable[[float], None],
) -> Fetched:
    marks = {"If-None-Match": note.get("etag"), "If-Modified-Since": note.get("last_modified")}
    headers = {name: str(value) for name, value in marks.items() if value and known is not None}
    for pause in (*WAITS, None):
        try:
            return _download(wanted, folder, note_path, headers) or _require(known, wanted)
        except _PassingError as trouble:
            if pause is None:
                raise wanted.refuse(str(trouble), "try again later") from None
            wait(pause)
    raise AssertionError


class _PassingError(Exception):
    """Trouble that may be over at the next attempt."""


def _require(known: Fetched | None, wanted: Wanted) -> Fetched:
    if known is None:
        raise wanted.refuse("is said to be unchanged, and was never fetched")
    return known


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
            fetched = _store(reply, wanted, folder)
            _write_note(note_path, fetched.digest, reply.headers)
            return fetched
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _UNCHANGED:
                return None
        raise _translate_status(error.code, wanted) from None
    except FOREIGN as error:
        raise _translate(error, wanted) from None


#: What the standard library raises about the network and about addresses that are none; `_translate` puts it
#: into words.
FOREIGN = (
    *(urllib.error.URLError, http.client.HTTPException, ssl.SSLError, TimeoutError, ConnectionError),
    ValueError,
)


def _translate(error: Exception, wanted: Wanted) -> Exception:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        message = f"does not prove who it is: {reason.verify_message}"
        return wanted.refuse(message, "`SSL_CERT_FILE` names further certificates to trust")
    if isinstance(reason, ValueError):
        return wanted.refuse(f"cannot be fetched: {reason}", "check the address")
    if isinstance(reason, TimeoutError):
        return _PassingError(f"did not answer within {TIMEOUT:.0f} s")
    return _PassingError(f"cannot be fetched: {reason}")


def _translate_status(code: int, wanted: Wanted) -> Exception:
    phrase = http.client.responses.get(code, "unknown status")
    if code in _AGAIN:
        return _PassingError(f"cannot be fetched: status {code} ({phrase})")
    return wanted.refuse(f"cannot be fetched: status {code} ({phrase})", "check the address")


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


def _store(reply: http.client.HTTPResponse, wanted: Wanted, folder: Path) -> Fetched:
    """Write a reply into the cache under its hash, whole or not at all."""
    stated = reply.headers.get("Content-Length", "")
    length = int(stated) if stated.isdigit() else None
    if length is not None and length > wanted.max_bytes:
        raise _refuse_size(wanted, length)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".draft-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            digest, size = _copy(reply, out, wanted)
        if length is not None and size != length:
            raise _PassingError(f"ended after {size:,} of {length:,} bytes")
        if wanted.digest is not None and digest != wanted.digest:
            message = f"has the sha256 {digest}, and {wanted.digest} is expected"
            raise wanted.refuse(message, "it was changed: look at it, then correct or remove `sha256`")
        path = folder / f"{digest}{wanted.endings}"
        Path(name).replace(path)
        return Fetched(path, digest)
    finally:
        Path(name).unlink(missing_ok=True)


def _copy(reply: http.client.HTTPResponse, out: IO[bytes], wanted: Wanted) -> tuple[str, int]:
    digest, size = sha256(), 0
    while block := reply.read(_BLOCK):
        size += len(block)
        if size > wanted.max_bytes:
            raise _refuse_size(wanted, size)
        digest.update(block)
        out.write(block)
    return digest.hexdigest(), size


def _refuse_size(wanted: Wanted, size: int) -> DataError:
    message = f"is larger than {wanted.max_bytes // MEGABYTE:,} MB"
    hint = f"allow more with `max_megabytes: {size // MEGABYTE + 1}`"
    return wanted.refuse(message, hint)


def find_content(folder: Path, digest: str, endings: str) -> Fetched | None:
    """Return a content by its hash; one that does not have it any more is deleted."""
    path = folder / f"{digest}{endings}"
    with suppress(OSError):
        with path.open("rb") as stream:
            found = sha256()
            while block := stream.read(_BLOCK):
                found.update(block)
        if found.hexdigest() == digest:
            return Fetched(path, digest)
        path.unlink()
    return None


def read_note(path: Path) -> dict[str, Any]:
    """Return what was written down about an address; nothing where there is no such note."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _write_note(path: Path, digest: str, headers: Message) -> None:
    marks = {"etag": headers.get("ETag"), "last_modified": headers.get("Last-Modified")}
    keep_note(path, {"sha256": digest, **marks})


def keep_note(path: Path, note: Mapping[str, object]) -> None:
    """Write down what was found at an address."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(note), encoding="utf-8")
    draft.replace(path)
