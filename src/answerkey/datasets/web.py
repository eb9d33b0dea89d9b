"""Downloads over HTTPS (HTTP on this machine only): few redirects, a limit on the size, retries.

Files on this machine and its network are fetched only if the caller named the host. What counts is
the address that the connection has, so no name, spelling or redirect gets around it.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import string
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

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
from answerkey.errors import remember_url
from answerkey.models.proxy import find_proxy, open_tls_context

TIMEOUT = 30.0
#: Seconds to wait before the next attempt.
WAITS = (1.0, 3.0)
MOST_REDIRECTS = 5
_BLOCK = 2**18
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {"User-Agent": f"answerkey/{__version__}", "Accept-Encoding": "identity"}
#: Headers of a reply, and those that ask whether the file has changed since.
_VALIDATORS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class _PassingError(Exception):
    """An error that may be over at the next attempt."""


def fetch(
    url: str,
    endings: str,
    max_bytes: int,
    digest: str | None = None,
) -> Fetched:
    """Download a file, unless the cache is certain to hold it.

    `endings` are those of the file's name, `digest` is the sha256 that it should have.
    """
    note: dict[str, Any] = {"sha256": digest}
    if digest is None:
        note = read_note(name_note(url))
    cached = find_content(str(note.get("sha256")), endings)
    if cached is not None and (digest is not None or is_offline()):
        return cached
    if is_offline():
        hint = f"unset `{OFFLINE}` to fetch it once"
        raise refuse(url, "has not been fetched yet, and nothing is fetched now", hint)
    headers = dict(_HEADERS)
    if cached is not None:
        for name, condition in _VALIDATORS.items():
            if note.get(name):
                headers[condition] = note[name]
    fetched = _download(url, headers, endings, max_bytes) or cached
    if fetched is None:
        raise refuse(url, "is said to be unchanged, and was never fetched")
    return fetched


def _download(
    url: str,
    headers: dict[str, str],
    endings: str,
    max_bytes: int,
) -> Fetched | None:
    """Download a file into the cache, in several attempts; None if it has not changed."""
    for pause in (*WAITS, None):
        try:
            with _open(url, headers) as reply:
                if reply.status == http.client.NOT_MODIFIED:
                    return None
                _check_status(url, reply.status)
                fetched = store_content(endings, _iterate_body(reply, url, max_bytes))
                break
        except _PassingError as error:
            if pause is None:
                raise refuse(url, str(error), "try again later") from None
            time.sleep(pause)
    validators = {name: reply.headers.get(name) for name in _VALIDATORS}
    keep_note(name_note(url), {"sha256": fetched.digest, **validators})
    return fetched


def _check_status(url: str, status: int) -> None:
    if status < http.client.MULTIPLE_CHOICES:
        return
    phrase = http.client.responses.get(status, "unknown status")
    message = f"cannot be fetched: status {status} ({phrase})"
    if status in _PASSING:
        raise _PassingError(message)
    raise refuse(url, message, "check the address")


@contextmanager
def _translating(url: str) -> Iterator[None]:
    """Turn errors of the network into our own: those that may pass, and E214."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        hint = "`SSL_CERT_FILE` names further certificates to trust"
        raise refuse(url, f"does not prove who it is: {error.verify_message}", hint) from None
    except ValueError as error:
        raise refuse(url, f"cannot be fetched: {error}", "check the address") from None
    except TimeoutError:
        raise _PassingError(f"did not answer within {TIMEOUT:.0f} s") from None
    except (OSError, http.client.HTTPException) as error:
        raise _PassingError(f"cannot be fetched: {error}") from None


@contextmanager
def _open(url: str, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
    """Request a file, and follow a few redirects."""
    target = url
    for _ in range(MOST_REDIRECTS + 1):
        with _translating(url):
            connection = _prepare_connection(target)
        with closing(connection):
            with _translating(url):
                parts = urlsplit(target)
                path = f"{parts.path or '/'}?{parts.query}".rstrip("?")
                connection.request("GET", path, headers=headers)
                reply = connection.getresponse()
            with closing(reply):
                if reply.status not in _REDIRECTS:
                    yield reply
                    return
                location = reply.headers.get("Location", "")
        with _translating(url):
            target = _find_target(url, target, location)
    raise refuse(url, f"redirects more than {MOST_REDIRECTS} times")


def _find_target(
    url: str,
    current: str,
    location: str,
) -> str:
    """Return where a redirect leads: only to where nobody on the way can listen."""
    target = urljoin(current, location)
    remember_url(target)
    if "@" in urlsplit(target).netloc:
        raise refuse(url, "redirects to an address with a user name or password")
    is_downgrade = current.startswith("https:") and not target.startswith("https:")
    if is_downgrade or not is_safe(target):
        raise refuse(url, f"redirects to `{hide_query(target)}`, which is not https")
    return quote(target, safe=string.punctuation, encoding="iso-8859-1")


def _prepare_connection(url: str) -> http.client.HTTPConnection:
    """Return a connection for a URL, which is opened by its first request."""
    host = urlsplit(url).netloc
    proxy = find_proxy(url)
    if proxy is not None:
        return _prepare_tunnel(url, urlsplit(proxy).netloc)
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
    if url.startswith("https:"):
        context = open_tls_context()
        connection = http.client.HTTPSConnection(
            host,
            timeout=TIMEOUT,
            context=context,
        )
    # The only hook between the connection and the first byte that is sent.
    vars(connection)["_create_connection"] = partial(_connect, url)
    return connection


def _prepare_tunnel(url: str, proxy: str) -> http.client.HTTPConnection:
    """Return a connection through a proxy, which only sees TLS."""
    parts = urlsplit(url)
    # The proxy may be anywhere, so the host behind it is looked up; perhaps only the proxy can.
    with suppress(OSError):
        for entry in socket.getaddrinfo(parts.hostname, parts.port):
            _refuse_internal(url, str(entry[4][0]))
    userinfo, _, proxy_host = proxy.rpartition("@")
    headers = {}
    if userinfo:
        credentials = b64encode(unquote(userinfo).encode())
        headers["Proxy-Authorization"] = f"Basic {credentials.decode()}"
    context = open_tls_context()
    connection = http.client.HTTPSConnection(
        proxy_host,
        timeout=TIMEOUT,
        context=context,
    )
    connection.set_tunnel(parts.netloc, headers=headers)
    return connection


def _connect(
    url: str,
    address: tuple[str, int],
    *options: Any,  # noqa: ANN401 - as the library has it
) -> socket.socket:
    """Open a connection for a URL, and check its address before anything is sent."""
    connection = socket.create_connection(address, *options)
    try:
        _refuse_internal(url, connection.getpeername()[0])
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_internal(url: str, address: str) -> None:
    """Raise E214 for an IP address that is not on the internet, unless the caller named the
    host.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_global or is_allowed(url):
        return
    message = f"is on this machine or its network ({address}): it is read only if you allow it"
    raise refuse(url, message, f"run again with `--allow-host {urlsplit(url).netloc}`")


def _iterate_body(
    reply: http.client.HTTPResponse,
    url: str,
    max_bytes: int,
) -> Iterator[bytes]:
    """Yield the blocks of a reply, and check its size."""
    length = reply.length
    if length is not None and length > max_bytes:
        raise refuse_large(url, length, max_bytes)
    size = 0
    block = b" "
    while block:
        with _translating(url):
            block = reply.read(_BLOCK)
        size += len(block)
        if size > max_bytes:
            raise refuse_large(url, size, max_bytes)
        yield block
    if length not in {None, size}:
        raise _PassingError(f"ended after {size:,} of {length:,} bytes")
