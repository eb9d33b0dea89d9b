"""The wire: sockets, limits, and requests as they come, handed to the app."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from socketserver import TCPServer
from typing import Any

from answerkey.errors import ServeError, SpecError
from answerkey.serve.app import Answer, App, Line
from answerkey.serve.catalog import Catalog
from answerkey.serve.guard import Guard, Request
from answerkey.serve.page import build_page

LOOPBACK = "127.0.0.1"
#: A browser opens six connections to a server; beyond so many, a new one is closed at once.
MOST_CONNECTIONS = 64
#: Seconds that a connection may be silent, in the middle of a request or between two.
PATIENCE = 20.0
#: What is read of a body that was refused, so that the refusal arrives before the connection ends.
MOST_DRAINED = 1 << 20
DRAIN_SECONDS = 2.0
VERSIONS = ("HTTP/1.0", "HTTP/1.1")


@dataclass(frozen=True)
class Listening:
    """Where to listen: the address as given, as resolved, and whether it is of this machine alone."""

    host: str
    address: str
    family: socket.AddressFamily
    is_loopback: bool
    is_everywhere: bool


class Server(ThreadingHTTPServer):
    """Serves the runs of a folder; `url` is what to open, with the token."""

    daemon_threads = True
    request_queue_size = 64
    # Elsewhere the option would let another program listen on the same port at the same time.
    allow_reuse_address = os.name == "posix"

    def __init__(self, listening: Listening, port: int) -> None:
        self.address_family = listening.family
        self.app: App
        self.url = ""
        self.listen: Callable[[str], object] | None = None
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((listening.address, port), Handler)

    def server_bind(self) -> None:
        """Bind without asking for the name of this machine, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # as in its base
        """Begin with a connection in a thread of its own, or close it when there are too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # same
        """Work on a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # same
        """Say nothing: who asked has gone away."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer()

    do_PUT = do_GET  # noqa: N815 - refused by the guard like any other method, its body read first

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse what its base could not read, or a method that is not taken."""
        self.close_connection = True
        status = 405 if code == 501 else int(code)  # noqa: PLR2004  # to its base, other methods are not made yet
        text = "the method is not taken" if status == 405 else "the request cannot be read"  # noqa: PLR2004
        if self.request_version not in VERSIONS:
            self.request_version = "HTTP/1.0"  # else the answer would have no headers
        self._send(self.server.app.refuse(ServeError("E702", text, status=status)))

    def version_string(self) -> str:
        """Return what the answers say of who made them: no versions."""
        return "answerkey"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in its base
        """Write nothing; `_send` tells who listens, without the token."""

    def _answer(self) -> None:
        if self.request_version not in VERSIONS:
            self.send_error(505)
            return
        if self.headers.defects:  # a line that is no header, which ends the headers for its base
            self.send_error(400)
            return
        # Its base makes one slash of several at the beginning; the guard is to see what came.
        target = self.requestline.split()[1]
        request = Request(self.command, target, list(self.headers.items()))
        answer = self.server.app.answer(request, Line(self._is_given_up))
        has_body = any(self.headers.get(name) for name in ("Content-Length", "Transfer-Encoding"))
        is_left = has_body and self.headers.get("Content-Length") != "0"
        self.close_connection = self.close_connection or is_left
        self._send(answer)
        if is_left:
            self._drain()

    def _is_given_up(self) -> bool:
        """Return whether the other side has closed the connection; what it may have sent is not read."""
        with DefaultSelector() as selector:
            selector.register(self.connection, EVENT_READ)
            return bool(selector.select(0)) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _send(self, answer: Answer) -> None:
        if self.server.listen is not None:
            words = (self.requestline or "").split()[:2]
            shown = " ".join(word.partition("?")[0][:200] for word in words)
            self.server.listen(f"{answer.status} {shown} {len(answer.body)} bytes")
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _drain(self) -> None:
        """Read on for a moment: closing on unread bytes would take the answer back."""
        with suppress(OSError):
            self.connection.settimeout(DRAIN_SECONDS)
            self.connection.shutdown(socket.SHUT_WR)
            left = MOST_DRAINED
            while left > 0 and (read := self.connection.recv(min(left, 65_536))):
                left -= len(read)


def open_server(
    folder: str | Path, *, host: str = LOOPBACK, port: int = 0, allow_network: bool = False
) -> Server:
    """Return a server over the runs of a folder, bound and not serving yet.

    E119 for an address beyond this machine without `allow_network`, and for one that cannot be had.
    """
    listening = resolve_host(host)
    if not listening.is_loopback and not allow_network:
        raise SpecError(
            "E119",
            f"`--host {host}` would show your runs to other machines",
            hint="`--allow-network` says that this is meant; `ssh -L` needs neither",
        )
    catalog = Catalog(folder)
    try:
        server = Server(listening, port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        where = f"port {port} of `{host}`" if port else f"`{host}`"
        hint = "leave `--port` out to have a free one chosen" if port else f"leave it out for {LOOPBACK}"
        raise SpecError("E119", f"cannot listen on {where}: {why}", hint=hint) from error
    token = secrets.token_urlsafe(32)
    guard = Guard(token, server.server_port, list_names(listening), takes_addresses=listening.is_everywhere)
    server.app = App(guard, catalog, build_page(), is_local=listening.is_loopback)
    shown = LOOPBACK if listening.is_everywhere else bracket(host)
    server.url = f"http://{shown}:{server.server_port}/?token={token}"
    return server


def resolve_host(host: str) -> Listening:
    """Return where a host is; E119 when it is nowhere."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        message = f"`--host {host}` is no address of this machine"
        raise SpecError("E119", message, hint=f"leave it out for {LOOPBACK}") from error
    family, _, _, _, place = found[0]
    address = str(place[0])
    number = ipaddress.ip_address(address.partition("%")[0])
    return Listening(host, address, family, number.is_loopback, number.is_unspecified)


def list_names(listening: Listening) -> frozenset[str]:
    """Return the names by which a request may call the server."""
    names = {bracket(listening.host).lower(), bracket(listening.address).lower()}
    if listening.is_loopback or listening.is_everywhere:
        names |= {"localhost", LOOPBACK, "[::1]"}
    if listening.is_everywhere:
        names.add(socket.gethostname().lower())
    return frozenset(names)


def bracket(host: str) -> str:
    """Return a host as an address has it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host
