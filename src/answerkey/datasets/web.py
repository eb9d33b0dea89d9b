"""Datasets at an address, and downloads over HTTPS (HTTP on this machine only): few redirects, and
a limit on the size.

Files on this machine and its network are fetched only if the caller named the host. What counts is
the address that the connection has, so no name, spelling or redirect gets around it.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import string
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Literal, Self
from urllib.parse import quote, unquote, urljoin, urlsplit

from answerkey._version import __version__
from answerkey.datasets.formats import split_endings
from answerkey.datasets.storage import (
    MEGABYTE,
    OFFLINE,
    STORES,
    Fetched,
    fetch_object,
    find_content,
    hide_query,
    is_allowed,
    is_offline,
    is_safe,
    is_stored,
    keep_note,
    name_note,
    open_object,
    read_note,
    refuse,
    refuse_large,
    require_address,
    store_content,
)
from answerkey.datasets.tables import DataFile, DataTable, FileFields, read_files
from answerkey.errors import SpecError, listing, remember_url
from answerkey.models.proxy import find_proxy, open_tls_context

TIMEOUT = 30.0
MOST_REDIRECTS = 5
_BLOCK = 2**18
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {"User-Agent": f"answerkey/{__version__}", "Accept-Encoding": "identity"}
_TRY_AGAIN = "check the address, or try again later"
DEFAULT_MEGABYTES = 1000
#: What the caller names on the command line may be as large as storage allows.
MOST_MEGABYTES = 10**8
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class UrlSource(FileFields):
    """A file at an address: `https`, `http` on this machine, or shared storage (`s3`, `gs`).

    `sha256` is the hash that it must have; without it the address is looked up each time, and the
    file is fetched if it has changed. Keys go only to the caller's own storage.
    """

    url: str
    sha256: str | None = None
    max_megabytes: int = DEFAULT_MEGABYTES
    type: Literal["url"] = "url"

    def __post_init__(self) -> None:
        super().__post_init__()
        remember_url(self.url)
        if is_stored(self.url):
            require_address(self.url)
        else:
            self._check_web_address()
        if self.sha256 is not None and not _DIGEST.fullmatch(self.sha256):
            hint = "it has 64 digits of 0-9 and a-f"
            raise SpecError("E108", f"`sha256` is {self.sha256!r}", hint=hint)
        if self.max_megabytes < 1:
            hint = "it is at least 1"
            raise SpecError("E108", f"`max_megabytes` is {self.max_megabytes}", hint=hint)

    def _check_web_address(self) -> None:
        if not is_safe(self.url) or not urlsplit(self.url).hostname:
            hint = f"it begins with `https://`, or with that of a store: {listing(STORES)}"
            raise SpecError("E108", f"`url` is {hide_query(self.url)!r}", hint=hint)
        if "@" in urlsplit(self.url).netloc:
            hint = "no key is sent to this source"
            raise SpecError("E117", "`url` holds a name or a password", hint=hint)

    @property
    def origin(self) -> str:
        """The address without what may be secret in it."""
        return hide_query(self.url)

    def read(self, *, name: str) -> DataTable:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        path = self.fetch().path
        file = DataFile(path, self.origin, self._name)
        return read_files([file], self, shown=self.origin)

    def pin(self) -> Self:
        """Return the source of the current content, without what may be secret in its address."""
        return replace(
            self,
            url=self.origin,
            sha256=self.fetch().digest,
        )

    def fetch(self) -> Fetched:
        """Return the file on this machine."""
        self.find_format(self._name or "file")
        max_bytes = self.max_megabytes * MEGABYTE
        if is_stored(self.url):
            fetched = fetch_object(open_object(self.url), max_bytes)
        else:
            endings = "".join(split_endings(self._name))
            fetched = fetch(self.url, endings, max_bytes, self.sha256)
        if self.sha256 not in {None, fetched.digest}:
            message = f"has the sha256 {fetched.digest}, and {self.sha256} is expected"
            hint = "it was changed: look at it, then correct or remove `sha256`"
            raise refuse(self.url, message, hint)
        return fetched

    @property
    def _name(self) -> str:
        path = urlsplit(self.url).path
        return unquote(PurePosixPath(path).name)


def fetch(
    url: str,
    endings: str,
    max_bytes: int,
    digest: str | None,
) -> Fetched:
    """Download a file, unless the cache is certain to hold it.

    `endings` are those of the file's name, `digest` is the sha256 that it should have. Offline, an
    address has the content that it had the last time.
    """
    note = name_note(url)
    if digest is None and is_offline():
        digest = read_note(note).get("sha256")
    cached = find_content(str(digest), endings)
    if cached is not None:
        return cached
    if is_offline():
        hint = f"unset `{OFFLINE}` to fetch it once"
        raise refuse(url, "has not been fetched yet, and nothing is fetched now", hint)
    with _open(url) as reply:
        if reply.status >= http.client.MULTIPLE_CHOICES:
            phrase = http.client.responses.get(reply.status, "unknown status")
            message = f"cannot be fetched: status {reply.status} ({phrase})"
            raise refuse(url, message, _TRY_AGAIN)
        fetched = store_content(endings, _iterate_body(reply, url, max_bytes))
    keep_note(note, {"sha256": fetched.digest})
    return fetched


@contextmanager
def _translating(url: str) -> Iterator[None]:
    """Turn errors of the network into E214."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        hint = "`SSL_CERT_FILE` names further certificates to trust"
        raise refuse(url, f"does not prove who it is: {error.verify_message}", hint) from None
    except ValueError as error:
        raise refuse(url, f"cannot be fetched: {error}", "check the address") from None
    except TimeoutError:
        raise refuse(url, f"did not answer within {TIMEOUT:.0f} s", _TRY_AGAIN) from None
    except (OSError, http.client.HTTPException) as error:
        raise refuse(url, f"cannot be fetched: {error}", _TRY_AGAIN) from None


@contextmanager
def _open(url: str) -> Iterator[http.client.HTTPResponse]:
    """Request a file, and follow a few redirects."""
    target = url
    for _ in range(MOST_REDIRECTS + 1):
        with _translating(url):
            connection = _prepare_connection(target)
        with closing(connection):
            with _translating(url):
                parts = urlsplit(target)
                path = f"{parts.path or '/'}?{parts.query}".rstrip("?")
                connection.request("GET", path, headers=_HEADERS)
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
    proxy = find_proxy(url)
    if proxy is not None:
        return _prepare_tunnel(url, urlsplit(proxy).netloc)
    host = urlsplit(url).netloc
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
    if url.startswith("https:"):
        connection = _prepare_tls(host)
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
    connection = _prepare_tls(proxy_host)
    connection.set_tunnel(parts.netloc, headers=headers)
    return connection


def _prepare_tls(host: str) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection(host, timeout=TIMEOUT, context=open_tls_context())


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
        raise refuse(url, f"ended after {size:,} of {length:,} bytes", _TRY_AGAIN)
