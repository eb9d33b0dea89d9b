"""Files fetched over HTTP: TLS or loopback only, few redirects, no larger than allowed, tried again."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from answerkey._version import __version__
from answerkey.datasets.downloads import (
    OFFLINE,
    Fetched,
    Wanted,
    find_content,
    hide_query,
    is_offline,
    is_safe,
    keep_note,
    open_cache_folder,
    read_note,
    store_content,
)
from answerkey.errors import remember_url
from answerkey.models.proxy import find_proxy, open_tls_context

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


class _PassingError(Exception):
    """An error that may be over at the next attempt."""


def fetch(wanted: Wanted) -> Fetched:
    """Return a file from the web, from the cache where that is certain to be the right one."""
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
            fetched = store_content(folder, wanted.endings, _iterate_reply(reply, wanted))
            marks = {"etag": reply.headers.get("ETag"), "last_modified": reply.headers.get("Last-Modified")}
            keep_note(note_path, {"sha256": fetched.digest, **marks})
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
