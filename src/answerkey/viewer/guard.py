"""Who may ask, and how: every request passes here before anything is looked up.

A page of another site can make a browser send requests to this machine. It cannot read the token,
it cannot set a header without asking first (which is refused), and its requests bear its own
Origin. A site whose name is made to point here bears that name as Host. None of the checks rests on
another.
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
#: The names of this machine to itself.
NAMES = frozenset({LOOPBACK, "localhost", "[::1]"})
#: The longest target.
MOST_TARGET = 8192
MOST_PARAMETERS = 20
#: Ids and numbers, and the names of routes. Nothing is ever decoded in a path: there is nothing to
#: encode.
_PATH = re.compile(r"/(?:[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,9})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_HINT = "open the address that `answerkey view` printed"


@dataclass(frozen=True)
class PageRequest:
    """A request as it came: the method, the target to the letter, and every header line."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]] = ()

    def find(self, name: str) -> str | None:
        """Return the one header of a name, or None; E702 when it is there twice."""
        values = []
        for header, value in self.headers:
            if header.lower() == name.lower():
                values.append(value.strip())
        if len(values) > 1:
            refuse(f"the header `{name}` is there {len(values)} times")
        return values[0] if values else None


@dataclass(frozen=True)
class HostAddress:
    """The target of a request that is in order: the parts of its path, and its parameters."""

    parts: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_page(self) -> bool:
        """Whether the page itself is meant, and not what it asks for."""
        return not self.parts


@dataclass(frozen=True)
class Guard:
    """The token that the address of the server holds, and its port."""

    token: str = field(repr=False)
    port: int

    def admit(self, request: PageRequest) -> HostAddress:
        """Return what is asked for.

        ServeError for a request from elsewhere, malformed or without token.
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
            miss()
        # A foreign page may neither ask nor frame; a link to the page may stand anywhere.
        if is_foreign(request) and not (is_page and is_opening(request)):
            _forbid_other_site()
        _, *parts = path.split("/")
        return HostAddress(() if is_page else tuple(parts), query)

    def _check_origin(self, request: PageRequest) -> None:
        """Refuse a request for another host, or from another site."""
        for name, value in request.headers:  # lines that another reader could take for others
            if _NAME.fullmatch(name) is None or set(value) & {"\n", "\r"}:
                refuse("a header cannot be read")
        host = (request.find("Host") or "").lower()
        if not self._is_own(host):
            hint = "forwarded ports have to keep their number"
            message = "the request is for another host"
            raise ServeError("E701", message, status=403, hint=hint)
        # Browsers name the origin of whatever could do harm.
        origin = request.find("Origin")
        if origin is not None and origin.lower() != f"http://{host}":
            _forbid_other_site()

    def _check_token(self, token: str | None) -> None:
        if not token:
            raise ServeError("E704", "the token is missing", status=403, hint=_HINT)
        guess = token.encode("utf-8", "replace")
        if not secrets.compare_digest(guess, self.token.encode()):
            hint = f"{_HINT}: each start has a token of its own"
            raise ServeError("E704", "the token is wrong", status=403, hint=hint)

    def _is_own(self, host: str) -> bool:
        """Return whether a Host header is a name of this machine with the port of this server."""
        name, _, port = host.rpartition(":")
        if not port.isdecimal():  # browsers leave out the usual port
            name, port = host, "80"
        return name in NAMES and port == str(self.port)


def _check_body(request: PageRequest) -> None:
    """Refuse other methods than GET, and a body."""
    if request.method != "GET":
        refuse(f"the method {request.method[:20]!r} is not taken", status=405)
    length = request.find("Content-Length")
    encoding = request.find("Transfer-Encoding")
    if encoding is not None or length not in {None, "0"}:
        refuse("a GET has no body")


def _parse_target(target: str) -> tuple[str, dict[str, str]]:
    """Return path and parameters of an address."""
    if len(target) > MOST_TARGET:
        refuse(f"the address is longer than {MOST_TARGET:,} characters", status=414)
    if re.fullmatch(r"[!-~]+", target) is None:
        refuse("the address has characters that no address has")
    path, _, text = target.partition("?")
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except ValueError:
        refuse("the parameters cannot be read")
    query = dict(pairs)
    if len(query) != len(pairs):
        refuse("a parameter is there twice")
    return path, query


def refuse(message: str, *, status: int = 400) -> NoReturn:
    """Raise E702: the request cannot be understood, or not be taken."""
    raise ServeError("E702", message, status=status)


def miss(what: str = "there is nothing here") -> NoReturn:
    """Raise E703: what is asked for does not exist."""
    raise ServeError("E703", what, status=404, hint="the list of runs shows what there is")


def _forbid_other_site() -> NoReturn:
    raise ServeError("E701", "the request is from another site", status=403, hint=_HINT)


def is_foreign(request: PageRequest) -> bool:
    """Return whether the browser says that another site, or another port, made it ask."""
    site = request.find("Sec-Fetch-Site") or ""
    return site.lower() in {"cross-site", "same-site"}


def is_opening(request: PageRequest) -> bool:
    """Return whether the browser says that somebody opens a page, and not in a frame."""
    return (
        request.find("Sec-Fetch-Mode") == "navigate"
        and request.find("Sec-Fetch-Dest") == "document"
    )
