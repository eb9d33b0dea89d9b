"""Who may ask, and how: every request passes here before anything is looked up.

A page of another site can make a browser send requests to this machine. It cannot read the token, it cannot
set a header without asking first (which is refused), and its requests bear its own Origin. A site whose name
is made to point here bears that name as Host. None of the checks rests on another.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import parse_qsl

from answerkey.errors import ServeError

TOKEN_HEADER = "X-Answerkey-Token"  # noqa: S105 - the name of a header
TOKEN_NAME = "token"  # noqa: S105 - the name of a parameter
METHODS = ("GET",)
#: The longest target.
MOST_TARGET = 8192
MOST_PARAMETERS = 20
#: Ids and numbers, and the names of routes. Nothing is ever decoded in a path: there is nothing to encode.
_PATH = re.compile(r"/(?:[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,9})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_DEFAULT_PORT = 80
_FOREIGN = ("cross-site", "same-site")
_HINT = "open the address that `answerkey view` printed"


@dataclass(frozen=True)
class Request:
    """A request as it came: the method, the target to the letter, and every header line."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]] = ()

    def find(self, name: str) -> str | None:
        """Return the one header of a name, or None; E702 when it is there twice."""
        found = [value for one, value in self.headers if one.lower() == name.lower()]
        if len(found) > 1:
            refuse(f"the header `{name}` is there {len(found)} times")
        return found[0].strip() if found else None


@dataclass(frozen=True)
class Address:
    """The target of a request that is in order: the parts of its path, and its parameters."""

    parts: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_page(self) -> bool:
        """Whether the page itself is meant, and not what it asks for."""
        return not self.parts


@dataclass(frozen=True)
class Guard:
    """The names by which this server may be called, and the token that only its printed address tells.

    With `takes_addresses` any numeric address will do, for a server that listens on all of them: a name that
    is made to point here is no number.
    """

    token: str = field(repr=False)
    port: int
    names: frozenset[str]
    takes_addresses: bool = False

    def admit(self, request: Request) -> Address:
        """Return what is asked for; ServeError for a request from elsewhere, malformed or without token."""
        _check_headers(request)
        host = self._check_host(request)
        _check_origin(request, host)
        if request.method not in METHODS:
            refuse(f"the method {_show(request.method)} is not taken", status=405)
        _check_body(request)
        address = _read_target(request.target)
        self._check_token(request, address)
        if not _is_path(request.target):
            miss()
        _check_site(request, is_page=address.is_page)
        return address

    def _check_host(self, request: Request) -> str:
        host = (request.find("Host") or "").lower()
        name, port = _split_host(host)
        is_known = name in self.names or (self.takes_addresses and _is_address(name))
        if not is_known or port != self.port:
            _forbid("the request is for another host", "forwarded ports have to keep their number")
        return host

    def _check_token(self, request: Request, address: Address) -> None:
        given = address.query.get(TOKEN_NAME) if address.is_page else request.find(TOKEN_HEADER)
        if not given:
            raise ServeError("E704", "the token is missing", status=403, hint=_HINT)
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            hint = f"{_HINT}: each start has a token of its own"
            raise ServeError("E704", "the token is wrong", status=403, hint=hint)


def refuse(message: str, *, status: int = 400, hint: str | None = None) -> NoReturn:
    """Raise E702: the request cannot be understood, or not be taken."""
    raise ServeError("E702", message, status=status, hint=hint)


def miss(what: str = "there is nothing here") -> NoReturn:
    """Raise E703: what is asked for does not exist."""
    raise ServeError("E703", what, status=404, hint="the list of runs shows what there is")


def _forbid(message: str, hint: str) -> NoReturn:
    raise ServeError("E701", message, status=403, hint=hint)


def _check_headers(request: Request) -> None:
    """Refuse header lines that another reader could take for something else."""
    for name, value in request.headers:
        if _NAME.fullmatch(name) is None or "\n" in value or "\r" in value:
            refuse("a header cannot be read")


def _check_origin(request: Request, host: str) -> None:
    """Refuse what another origin asks; browsers name the origin of whatever could do harm."""
    origin = request.find("Origin")
    if origin is not None and origin.lower() != f"http://{host}":
        _forbid("the request is from another site", _HINT)


def _check_site(request: Request, *, is_page: bool) -> None:
    """Refuse what a foreign page asks for, or frames; a link to the page may stand anywhere."""
    if is_foreign(request) and not (is_page and is_opening(request)):
        _forbid("the request is from another site", _HINT)


def is_foreign(request: Request) -> bool:
    """Return whether the browser says that another site, or another port, made it ask."""
    return (request.find("Sec-Fetch-Site") or "").lower() in _FOREIGN


def is_opening(request: Request) -> bool:
    """Return whether the browser says that somebody opens a page, and not in a frame."""
    return request.find("Sec-Fetch-Mode") == "navigate" and request.find("Sec-Fetch-Dest") == "document"


def _check_body(request: Request) -> None:
    if request.find("Transfer-Encoding") is not None:
        refuse("a body without a stated length is not taken", status=411)
    length = request.find("Content-Length")
    if length is None:
        return
    if re.fullmatch(r"[0-9]{1,12}", length, re.ASCII) is None:
        refuse("the length of the body is not a number")
    if int(length):
        refuse("a GET has no body")


def _read_target(target: str) -> Address:
    if len(target) > MOST_TARGET:
        refuse(f"the address is longer than {MOST_TARGET:,} characters", status=414)
    if re.fullmatch(r"[!-~]+", target) is None:
        refuse("the address has characters that no address has")
    path, _, query = target.partition("?")
    parts = () if path == "/" else tuple(path.split("/")[1:]) or (path,)
    return Address(parts, _read_query(query))


def _read_query(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        refuse("the parameters cannot be read")
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse("a parameter is there twice")
    return found


def _is_path(target: str) -> bool:
    return _PATH.fullmatch(target.partition("?")[0]) is not None


def _split_host(host: str) -> tuple[str, int | None]:
    """Return name and port of a Host header; brackets of an IPv6 address stay. No name is a malformed one."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", host, re.ASCII)
    if found is None:
        return "", None
    return found[1], _DEFAULT_PORT if found[2] is None else int(found[2])


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _show(word: str) -> str:
    return repr(word[:20])
