"""The viewer's server: sockets and limits, then the app (guard, route, headers), then the routes.

An error at any step becomes a response, too.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from answerkey.errors import AnswerkeyError, RunError, ServeError, SpecError, hide_secrets
from answerkey.reports.html import build_page as build_html
from answerkey.reports.html import hash_source
from answerkey.reports.sample_view import view_rows, view_sample
from answerkey.reports.samples import Query, find_position
from answerkey.reports.view import count_trials
from answerkey.text import clean_numbers, make_visible
from answerkey.viewer.catalog import Catalog
from answerkey.viewer.guard import (
    LOOPBACK,
    Guard,
    PageRequest,
    RequestTarget,
    is_cross_site,
    opens_page,
    raise_not_found,
    refuse,
)

# ── routes

MAX_ROWS = 500
DEFAULT_ROWS = 100
#: The maximum number of runs compared at once: more pairs would be unreadable.
MAX_COMPARED = 12
MAX_TEXT = 1000
FILTERS = tuple(parameter.name for parameter in fields(Query))


def read_api(catalog: Catalog, address: RequestTarget) -> object:
    """Return the data for a path.

    E703 if there is none, E702 for parameters that the route does not have.
    """
    query = address.query
    match address.parts:
        case ("api", "runs"):
            _require_only(query)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            return {
                "folder": catalog.folder.name,
                "runs": catalog.list(),
                "made": now.replace("+00:00", "Z"),
            }
        case ("api", "compare"):
            _require_only(query, "runs")
            names = query.get("runs", "").split(",")
            is_repeated = len(set(names)) < len(names)
            if is_repeated or not 2 <= len(names) <= MAX_COMPARED:  # noqa: PLR2004 - a pair
                refuse(f"name two to {MAX_COMPARED} different runs")
            return catalog.compare(names)
        case ("api", "runs", run):
            _require_only(query, "brief")
            is_brief = query.get("brief") == "true"
            return catalog.describe(run, is_brief=is_brief)
        case ("api", "runs", run, "tasks", task, "rows"):
            _require_only(query, "offset", "limit", *FILTERS)
            offset = read_number(query.get("offset", "0"))
            limit = read_number(query.get("limit", str(DEFAULT_ROWS)), highest=MAX_ROWS)
            table = catalog.open_table(run, read_number(task))
            positions = table.find(_parse_query(query))
            rows = view_rows(table, positions.slice(offset, limit))
            return {"total": len(positions), "rows": rows}
        case ("api", "runs", run, "tasks", task, "rows", row):
            _require_only(query)
            table = catalog.open_table(run, read_number(task))
            position = read_number(row)
            if position >= len(table):
                raise_not_found("this task has no such row")
            return view_sample(table, position)
        case ("api", "runs", run, "tasks", task, "find"):
            _require_only(query, "id", "trial", *FILTERS)
            return _find_sample(catalog, run, read_number(task), query)
    return raise_not_found()


def _find_sample(
    catalog: Catalog,
    run: str,
    task: int,
    query: Mapping[str, str],
) -> dict[str, int | None]:
    """Return the position of a sample, or of one of its trials: in the run, and among the rows
    shown.
    """
    trial = read_number(query.get("trial", "0"))
    task_run = catalog.open_task(run, task)
    first = find_position(task_run, query.get("id", ""))
    if first is None or trial >= count_trials(task_run):
        return {"p": None, "index": None}
    table = catalog.open_table(run, task)
    rows = table.find(_parse_query(query))
    position = first + trial
    return {"p": position, "index": rows.index_of(position)}


def _parse_query(words: Mapping[str, str]) -> Query:
    if any(len(text) > MAX_TEXT for text in words.values()):
        refuse(f"a search text has at most {MAX_TEXT:,} characters")
    return Query.parse(words)


def _require_only(query: Mapping[str, str], *names: str) -> None:
    """Refuse parameters with other names."""
    if set(query) - set(names):
        refuse("unknown parameter")


def read_number(text: str, *, highest: int = 2**32 - 1) -> int:
    """Return a whole number written in plain digits; E702 for anything else."""
    is_number = re.fullmatch(r"[0-9]{1,10}", text, re.ASCII)
    if not is_number or int(text) > highest:
        refuse(f"a whole number from 0 to {highest:,} is needed")
    return int(text)


# ── pages

TITLE = "answerkey"
#: Added to the policy of a report: requests to this server, no embedding in frames, and trusted
#: types, so that no text can become markup.
ADDED_POLICY = (
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)


def build_page() -> tuple[bytes, str]:
    """Return the page of the viewer, and the content security policy sent with it."""
    begin, end, policy = build_html(TITLE, is_viewer=True)
    page = f"{begin}{end}"
    return page.encode(), "; ".join((policy, *ADDED_POLICY))


# The page for a browser without the token: it explains that, or redirects if the browser still
# stores the token. The viewer removes the token from the address bar, to keep it out of bookmarks
# and screenshots; such an address can be opened again only with the token that the browser stores.
LOCKED_STYLE = """\
:root { color-scheme: light dark; font: 1rem/1.6 system-ui, sans-serif }
body { max-width: 34rem; margin: 15vh auto; padding: 0 1.5rem }
code { font-family: ui-monospace, monospace }"""
LOCKED_SCRIPT = """\
"use strict";
const name = "answerkey-token";
const given = new URLSearchParams(location.search).has("token");
try {
  const kept = localStorage.getItem(name);
  if (given) localStorage.removeItem(name);
  else if (kept) location.replace("/?token=" + encodeURIComponent(kept) + location.hash);
} catch (error) {
  document.documentElement.dataset.storage = "closed";
}"""
LOCKED_PAGE = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>answerkey: no token</title>
<style>{LOCKED_STYLE}</style>
</head>
<body>
<main>
<h1>This address lacks the token</h1>
<p>To see the runs, open the whole address that <code>answerkey view</code> printed, with the token
at its end. Each start has a new token.</p>
</main>
<script>{LOCKED_SCRIPT}</script>
</body>
</html>
"""
#: The content security policy of that page.
LOCKED_POLICY = (
    f"default-src 'none'; script-src '{hash_source(LOCKED_SCRIPT)}'; "
    f"style-src '{hash_source(LOCKED_STYLE)}'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


# ── the app: from a request to its response

#: The policy of everything that is not a page: nothing in it may run or be shown.
BARE_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#: Sent with every response. No header opens anything to another origin.
HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
#: HTTP statuses by error code; other errors of runs are 500, errors in parameters 400.
STATUSES = {"E501": 404, "E504": 404}


@dataclass(frozen=True)
class Answer:
    """A response, without what the connection itself adds."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ViewerApp:
    """Answers requests about the runs of a catalog, always with the same page.

    `report_bug` is called with our own bugs; the response says only that there was one.
    """

    guard: Guard
    catalog: Catalog
    page: tuple[bytes, str]
    report_bug: Callable[[str], object] = field(
        default=sys.stderr.write,
        repr=False,
    )

    def answer(self, request: PageRequest) -> Answer:
        """Return the response to a request."""
        try:
            address = self.guard.admit(request)
            if address.is_page:
                return self._respond(200, *self.page)
            return self._respond(200, read_api(self.catalog, address))
        except AnswerkeyError as error:
            return self.refuse(error, request)
        except (ConnectionError, TimeoutError):
            raise  # the client has disconnected
        except Exception as error:  # noqa: BLE001  # a front door: one request that fails must not end the rest
            text = hide_secrets("".join(traceback.format_exception(error)))
            self.report_bug(make_visible(text, keep_lines=True))
            return self._respond(500, _describe("E901", "a bug in answerkey"))

    def refuse(
        self,
        error: AnswerkeyError,
        request: PageRequest | None = None,
    ) -> Answer:
        """Return the response to a request that was refused or failed."""
        if isinstance(error, ServeError):
            status = error.status
        elif isinstance(error, RunError):
            status = STATUSES.get(error.code, 500)
        else:
            status = 400
        if error.code == "E704" and request is not None and _asks_for_page(request):
            # A browser that reloads the page can continue from there, so to it this is not an
            # error.
            is_again = request.target == "/" and opens_page(request) and not is_cross_site(request)
            if is_again:
                status = 200
            return self._respond(status, LOCKED_PAGE.encode(), LOCKED_POLICY)
        # Whoever has the token may see file names, but not the path of the folder.
        folder = self.catalog.folder
        message = error.message.replace(str(folder), folder.name)
        hint = (error.hint or "").replace(str(folder), folder.name)
        return self._respond(status, _describe(error.code, message, hint))

    def _respond(
        self,
        status: int,
        content: object,
        policy: str = BARE_POLICY,
    ) -> Answer:
        """Return a response with all its headers; bytes are a page, anything else becomes JSON."""
        if isinstance(content, bytes):
            kind, body = "text/html", content
        else:
            # ASCII, so that a lone surrogate in a completion does no harm.
            text = json.dumps(
                clean_numbers(content),
                allow_nan=False,
                separators=(",", ":"),
            )
            kind, body = "application/json", text.encode()
        headers = (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Security-Policy", policy),
            *HEADERS,
        )
        return Answer(status, body, headers)


def _asks_for_page(request: PageRequest) -> bool:
    return request.target.partition("?")[0] == "/"


def _describe(
    code: str,
    message: str,
    hint: str = "",
) -> dict[str, object]:
    error = {
        "code": code,
        "message": message,
        "hint": hint or None,
    }
    return {"error": error}


# ── sockets

#: The timeout of a connection that is silent in the middle of a request, in seconds.
IDLE_SECONDS = 20.0
VERSIONS = ("HTTP/1.0", "HTTP/1.1")


class Server(ThreadingHTTPServer):
    """Serves the runs of a folder; `url` is the address to open, with the token."""

    daemon_threads = True
    request_queue_size = 64
    # On other systems, the option would let another program listen on the same port.
    allow_reuse_address = os.name == "posix"

    app: ViewerApp
    url: str

    def server_bind(self) -> None:
        """Bind without looking up the name of this machine, which can be slow."""
        TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 # signature of the base class
        """Print nothing: the client has disconnected."""


class Handler(BaseHTTPRequestHandler):
    """One connection, which serves one request."""

    server: Server
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Answer a GET."""
        # The base class stops reading headers at a line that is not one.
        if self.request_version not in VERSIONS or self.headers.defects:
            self.send_error(400)
            return
        # The base class collapses leading slashes, but the guard must see the original target.
        target = self.requestline.split()[1]
        headers = list(self.headers.items())
        request = PageRequest(self.command, target, headers)
        self._send(self.server.app.answer(request))

    def send_error(
        self,
        code: int,
        message: str | None = None,  # noqa: ARG002 - signature of the base class
        explain: str | None = None,  # noqa: ARG002 - signature of the base class
    ) -> None:
        """Refuse a request that the base class could not read, or a method that is not allowed."""
        error = ServeError("E702", "the request cannot be read", status=int(code))
        if code == HTTPStatus.NOT_IMPLEMENTED:
            error = ServeError("E702", "the method is not allowed", status=405)
        if self.request_version not in VERSIONS:
            self.request_version = "HTTP/1.0"  # otherwise the response would have no headers
        self._send(self.server.app.refuse(error))

    def version_string(self) -> str:
        """Return the `Server` header, without versions."""
        return "answerkey"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the name in the base class
        """Log nothing: the address of a request contains the token."""

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


def open_server(folder: str | Path, *, port: int = 0) -> Server:
    """Return a server for the runs of a folder, bound to loopback and not serving yet.

    E119 if the port is not available.
    """
    catalog = Catalog(folder)
    try:
        server = Server((LOOPBACK, port), Handler)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "leave `--port` out to use a free port"
        raise SpecError("E119", f"cannot listen on port {port}: {why}", hint=hint) from error
    token = secrets.token_urlsafe(32)
    guard = Guard(token, server.server_port)
    server.app = ViewerApp(guard, catalog, build_page())
    server.url = f"http://{LOOPBACK}:{server.server_port}/?token={token}"
    return server
