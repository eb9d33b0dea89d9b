"""Access control: every request is checked here before anything is looked up.

A page of another site can make a browser send requests to this machine. But it cannot read the
token, it cannot set a header without a preflight request (which is refused), and its requests carry
its own Origin. A site whose DNS name is rebound to this machine sends that name as Host. Each check
works without the others.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import parse_qsl

from answerkey.errors import ServeError

TOKEN_HEADER = "X-Answerkey-Token"  # noqa: S105 - the name of a header
LOOPBACK = "127.0.0.1"
#: The loopback names of this machine.
NAMES = frozenset({LOOPBACK, "localhost", "[::1]"})
#: Limits of a request's target, in characters, and of its parameters.
MAX_TARGET = 8192
MAX_PARAMETERS = 20
#: Ids, numbers and the names of routes. Paths are never percent-decoded: none needs encoding.
_PATH = re.compile(r"/(?:[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,9})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_HINT = "open the address that `answerkey view` printed"


@dataclass(frozen=True)
class PageRequest:
    """A request as received: the method, the verbatim target, and every header line."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]] = ()

    def find(self, name: str) -> str | None:
        """Return the header with this name, or None; E702 if it occurs twice."""
        values = []
        for header, value in self.headers:
            if header.lower() == name.lower():
                values.append(value.strip())
        if len(values) > 1:
            refuse(f"the header `{name}` occurs {len(values)} times")
        return values[0] if values else None


@dataclass(frozen=True)
class RequestTarget:
    """The target of a valid request: the parts of its path, and its parameters."""

    parts: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_page(self) -> bool:
        """Whether the request is for the page itself, not for its data."""
        return not self.parts


@dataclass(frozen=True)
class Guard:
    """The checks of a server with this token and port."""

    token: str = field(repr=False)
    port: int

    def admit(self, request: PageRequest) -> RequestTarget:
        """Return the requested address.

        ServeError for a request that is malformed, from another site, or without the token.
        """
        self._check_origin(request)
        _check_body(request)
        path, query = _parse_target(request.target)
        is_page = path == "/"
        token = request.find(TOKEN_HEADER)
        if is_page:
            token = query.get("token")
        self._check_token(token)
        if _PATH.fullmatch(path) is None:
            raise_not_found()
        # Other sites may neither request data nor embed the page, but may link to it.
        if is_cross_site(request) and not (is_page and opens_page(request)):
            _forbid_other_site()
        _, *parts = path.split("/")
        return RequestTarget(() if is_page else tuple(parts), query)

    def _check_origin(self, request: PageRequest) -> None:
        """Refuse a request for another host, or from another site."""
        for name, value in request.headers:  # lines that another parser could read differently
            if _NAME.fullmatch(name) is None or set(value) & {"\n", "\r"}:
                refuse("a header cannot be read")
        host = (request.find("Host") or "").lower()
        if not self._is_own(host):
            hint = "forward the port to the same number"
            message = "the request is for another host"
            raise ServeError("E701", message, status=403, hint=hint)
        # Browsers send the origin of every request that could do harm.
        origin = request.find("Origin")
        if origin is not None and origin.lower() != f"http://{host}":
            _forbid_other_site()

    def _check_token(self, token: str | None) -> None:
        if not token:
            raise ServeError("E704", "the token is missing", status=403, hint=_HINT)
        guess = token.encode("utf-8", "replace")
        if not secrets.compare_digest(guess, self.token.encode()):
            hint = f"{_HINT}: each start has a new token"
            raise ServeError("E704", "the token is wrong", status=403, hint=hint)

    def _is_own(self, host: str) -> bool:
        """Return whether a Host header names this machine and the port of this server."""
        name, _, port = host.rpartition(":")
        if not port.isdecimal():  # browsers leave out the usual port
            name, port = host, "80"
        return name in NAMES and port == str(self.port)


def _check_body(request: PageRequest) -> None:
    """Refuse methods other than GET, and a body."""
    if request.method != "GET":
        refuse(f"the method {request.method[:20]!r} is not allowed", status=405)
    length = request.find("Content-Length")
    encoding = request.find("Transfer-Encoding")
    if encoding is not None or length not in {None, "0"}:
        refuse("a GET must not have a body")


def _parse_target(target: str) -> tuple[str, dict[str, str]]:
    """Return the path and the parameters of a target."""
    if len(target) > MAX_TARGET:
        refuse(f"the address is longer than {MAX_TARGET:,} characters", status=414)
    if re.fullmatch(r"[!-~]+", target) is None:
        refuse("the address contains invalid characters")
    path, _, text = target.partition("?")
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        refuse("the parameters cannot be read")
    query = dict(pairs)
    if len(query) != len(pairs):
        refuse("a parameter occurs twice")
    return path, query


def refuse(message: str, *, status: int = 400) -> NoReturn:
    """Raise E702: the request is malformed or not allowed."""
    raise ServeError("E702", message, status=status)


def raise_not_found(what: str = "not found") -> NoReturn:
    """Raise E703: the requested object does not exist."""
    raise ServeError("E703", what, status=404, hint="see the list of runs")


def _forbid_other_site() -> NoReturn:
    raise ServeError("E701", "the request is from another site", status=403, hint=_HINT)


def is_cross_site(request: PageRequest) -> bool:
    """Return whether the browser says that another site or port caused the request."""
    site = request.find("Sec-Fetch-Site") or ""
    return site.lower() in {"cross-site", "same-site"}


def opens_page(request: PageRequest) -> bool:
    """Return whether the browser says that it is opening a page, not in a frame."""
    return (
        request.find("Sec-Fetch-Mode") == "navigate"
        and request.find("Sec-Fetch-Dest") == "document"
    )
