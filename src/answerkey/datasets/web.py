"""Files fetched over HTTP: TLS or loopback only, few redirects, no larger than allowed, tried again.

From this machine and its network, files are fetched only if the caller named the host. What counts is the
address that a connection has: no name, no way to write an address and no redirect leads around it.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from hashlib import sha256
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from answerkey._version import __version__
from answerkey.datasets.storage import (
    OFFLINE,
    Fetched,
    find_content,
    hide_query,
    is_allowed,
    is_offline,
    is_safe,
    keep_note,
    name_note,
    read_note,
    refuse,
    refuse_large,
    store_content,
)
from answerkey.errors import DataError, remember_url
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


def fetch(url: str, endings: str, max_bytes: int, digest: str | None = None) -> Fetched:
    """Return a file from the web, from the cache where that is certain to be the right one.

    `endings` are those of the file's name, `digest` is the hash it must have.
    """
    if digest is not None and (found := find_content(digest, endings)):
        return found
    note_path = name_note(url)
    note = read_note(note_path)
    known = find_content(str(note.get("sha256")), endings)
    if digest is not None and known is not None and known.digest != digest:
        known = None
    if is_offline():
        if known is None:
            hint = f"unset `{OFFLINE}` to fetch it once"
            raise refuse(url, "has not been fetched yet, and nothing is fetched now", hint)
        return known
    headers = {"User-Agent": f"answerkey/{__version__}", "Accept-Encoding": "identity"}
    if known is not None:
        marks = {"If-None-Match": note.get("etag"), "If-Modified-Since": note.get("last_modified")}
        headers |= {name: str(value) for name, value in marks.items() if value}
    for pause in (*WAITS, None):
        try:
            with _open(url, headers) as reply:
                fetched = store_content(endings, _iterate_reply(reply, url, max_bytes, digest))
                etag, modified = reply.headers.get("ETag"), reply.headers.get("Last-Modified")
                keep_note(note_path, {"sha256": fetched.digest, "etag": etag, "last_modified": modified})
                return fetched
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _UNCHANGED:
                    if known is None:
                        raise refuse(url, "is said to be unchanged, and was never fetched") from None
                    return known
            phrase = http.client.responses.get(error.code, "unknown status")
            message = f"cannot be fetched: status {error.code} ({phrase})"
            if error.code not in _AGAIN:
                raise refuse(url, message, "check the address") from None
        except _PassingError as error:
            message = str(error)
        except _FOREIGN as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                hint = "`SSL_CERT_FILE` names further certificates to trust"
                raise refuse(url, f"does not prove who it is: {reason.verify_message}", hint) from None
            if isinstance(reason, ValueError):
                raise refuse(url, f"cannot be fetched: {reason}", "check the address") from None
            message = f"cannot be fetched: {reason}"
            if isinstance(reason, TimeoutError):
                message = f"did not answer within {TIMEOUT:.0f} s"
        if pause is None:
            raise refuse(url, message, "try again later")
        time.sleep(pause)
    raise AssertionError


def _open(url: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    proxy = find_proxy(url)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({} if proxy is None else {"http": proxy, "https": proxy}),
        _HTTPHandler(),
        _HTTPSHandler(context=open_tls_context()),
        _Redirects(url),
    )
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the scheme was checked
    reply: http.client.HTTPResponse = opener.open(request, timeout=TIMEOUT)
    return reply


def _refuse_internal(url: str, addresses: Iterable[str]) -> None:
    """Raise E214 where one of the addresses of a URL's host is internal, and the caller did not name it."""
    for address in addresses:
        if is_internal(address) and not is_allowed(url):
            host = urlsplit(url).netloc
            message = f"is on this machine or its network ({address}): it is read only if you allow it"
            raise refuse(url, message, f"run again with `--allow-host {host}`")


def is_internal(address: str) -> bool:
    """Return whether an IP address is of this machine or its network, and not of the internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return not (getattr(ip, "ipv4_mapped", None) or ip).is_global


def _connect(url: str, address: tuple[str, int], *more: Any) -> socket.socket:  # noqa: ANN401 - as the library has it
    """Return a connection for a URL, over which nothing has been sent yet."""
    connection = socket.create_connection(address, *more)
    try:
        _refuse_internal(url, [connection.getpeername()[0]])
    except BaseException:
        connection.close()
        raise
    return connection


class _Connections(urllib.request.AbstractHTTPHandler):
    """Looks at the address of each connection before anything is sent over it."""

    def do_open(self, http_class: Any, req: urllib.request.Request, **options: Any) -> Any:  # noqa: ANN401 - as the library has it
        """Send a request; a proxy may be anywhere, so that the host behind it is looked up here."""
        parts = urlsplit(req.full_url)
        is_direct = not req.has_proxy() and getattr(req, "_tunnel_host", None) is None
        if not is_direct:
            with suppress(OSError):  # perhaps only the proxy knows the name
                found = socket.getaddrinfo(parts.hostname, parts.port)
                _refuse_internal(req.full_url, [str(entry[4][0]) for entry in found])

        def make_connection(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - same
            connection = http_class(*given, **named)
            if is_direct:
                connection._create_connection = partial(_connect, req.full_url)  # noqa: SLF001 - its only hook
            return connection

        return super().do_open(make_connection, req, **options)


class _HTTPHandler(_Connections, urllib.request.HTTPHandler):
    pass


class _HTTPSHandler(_Connections, urllib.request.HTTPSHandler):
    pass


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, and only to where nobody on the way can listen."""

    #: The library's own limits stay out of the way.
    max_repeats = max_redirections = MOST_REDIRECTS + 1

    def __init__(self, url: str) -> None:
        self._url = url
        self._count = 0

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:  # noqa: ANN401 - as the library has it
        """Follow a redirect; the reply that sent us on is closed in any case."""
        with closing(fp):
            target = urljoin(req.full_url, headers.get("Location", ""))
            if urlsplit(target).scheme not in {"http", "https"}:
                raise self._refuse_target(target)
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
            raise refuse(self._url, f"redirects more than {MOST_REDIRECTS} times")
        if "@" in urlsplit(newurl).netloc:
            raise refuse(self._url, "redirects to an address with a user name or password")
        is_same_kind = urlsplit(newurl).scheme == urlsplit(req.full_url).scheme
        if not is_safe(newurl) or not (is_same_kind or newurl.startswith("https:")):
            raise self._refuse_target(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def _refuse_target(self, target: str) -> DataError:
        return refuse(self._url, f"redirects to `{hide_query(target)}`, which is not https")


def _iterate_reply(
    reply: http.client.HTTPResponse, url: str, max_bytes: int, digest: str | None
) -> Iterator[bytes]:
    """Yield the blocks of a reply; at the end its size and its hash must be the right ones."""
    stated = reply.headers.get("Content-Length", "")
    length = int(stated) if stated.isdigit() else None
    if length is not None and length > max_bytes:
        raise refuse_large(url, length, max_bytes)
    found, size = sha256(), 0
    while block := reply.read(_BLOCK):
        size += len(block)
        if size > max_bytes:
            raise refuse_large(url, size, max_bytes)
        found.update(block)
        yield block
    if length is not None and size != length:
        raise _PassingError(f"ended after {size:,} of {length:,} bytes")
    if digest is not None and found.hexdigest() != digest:
        message = f"has the sha256 {found.hexdigest()}, and {digest} is expected"
        raise refuse(url, message, "it was changed: look at it, then correct or remove `sha256`")
