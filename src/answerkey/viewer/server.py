"""The viewer's server: sockets and limits, then the app (guard, route, headers), then the routes.

Whatever goes wrong on the way of a request becomes an answer, too.
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
    HostAddress,
    PageRequest,
    is_foreign,
    is_opening,
    miss,
    refuse,
)

# ── what can be asked for

MOST_ROWS = 500
USUAL_ROWS = 100
#: How many runs are compared at once; with more, pairs say nothing any more.
MOST_COMPARED = 12
MOST_TEXT = 1000
FILTERS = tuple(parameter.name for parameter in fields(Query))


def read_api(catalog: Catalog, address: HostAddress) -> object:
    """Return what a path asks for.

    E703 where there is nothing, E702 for parameters that mean nothing there.
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
            if is_repeated or not 2 <= len(names) <= MOST_COMPARED:  # noqa: PLR2004 - a pair
                refuse(f"name two to {MOST_COMPARED} different runs")
            return catalog.compare(names)
        case ("api", "runs", run):
            _require_only(query, "brief")
            is_brief = query.get("brief") == "true"
            return catalog.describe(run, is_brief=is_brief)
        case ("api", "runs", run, "tasks", task, "rows"):
            _require_only(query, "offset", "limit", *FILTERS)
            offset = read_number(query.get("offset", "0"))
            limit = read_number(query.get("limit", str(USUAL_ROWS)), most=MOST_ROWS)
            table = catalog.open_table(run, read_number(task))
            positions = table.find(_parse_query(query))
            rows = view_rows(table, positions.slice(offset, limit))
            return {"total": len(positions), "rows": rows}
        case ("api", "runs", run, "tasks", task, "rows", row):
            _require_only(query)
            table = catalog.open_table(run, read_number(task))
            position = read_number(row)
            if position >= len(table):
                miss("there is no such row in this task")
            return view_sample(table, position)
        case ("api", "runs", run, "tasks", task, "find"):
            _require_only(query, "id", "trial", *FILTERS)
            return _find_sample(catalog, run, read_number(task), query)
    return miss()


def _find_sample(
    catalog: Catalog,
    run: str,
    task: int,
    query: Mapping[str, str],
) -> dict[str, int | None]:
    """Return where a sample, or one trial of it, stands: in the run, and among the rows shown."""
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
    if any(len(text) > MOST_TEXT for text in words.values()):
        refuse(f"a text to look for has at most {MOST_TEXT:,} characters")
    return Query.parse(words)


def _require_only(query: Mapping[str, str], *names: str) -> None:
    """Refuse parameters of other names."""
    if set(query) - set(names):
        refuse("there is a parameter that means nothing here")


def read_number(text: str, *, most: int = 2**32 - 1) -> int:
    """Return a whole number of plain digits; E702 for anything else."""
    is_number = re.fullmatch(r"[0-9]{1,10}", text, re.ASCII)
    if not is_number or int(text) > most:
        refuse(f"a whole number from 0 to {most:,} is needed")
    return int(text)


# ── pages

TITLE = "answerkey"
#: Beyond what a report needs: asking this server, and no frame around the page. Text can then not
#: become markup in any way that a browser knows of.
ADDED = (
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)


def build_page() -> tuple[bytes, str]:
    """Return the page of the viewer, and the policy that is sent with it."""
    begin, end, policy = build_html(TITLE, is_viewer=True)
    page = f"{begin}{end}"
    return page.encode(), "; ".join((policy, *ADDED))


# What a browser shows that comes without the token: it says so, or goes on where the token is still
# known. The page takes the token out of the address bar, so that it is in no bookmark and on no
# screenshot. When such an address is opened again, a token that this browser keeps for the server
# opens it, nothing else.
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
<p>Runs are shown only to who has the whole address that <code>answerkey view</code> printed, with the token
at its end. Each start has a token of its own.</p>
</main>
<script>{LOCKED_SCRIPT}</script>
</body>
</html>
"""  # noqa: E501 - the text as it is written
#: A page that goes on to an address at once.
LOCKED_POLICY = (
    f"default-src 'none'; script-src '{hash_source(LOCKED_SCRIPT)}'; "
    f"style-src '{hash_source(LOCKED_STYLE)}'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


# ── the app: from a request to its answer

#: Of everything that is no page: there is nothing in it to run or to show.
BARE_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#: On every answer, whatever it is. No header opens anything to another origin.
HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
#: The status of errors that are not the viewer's own; of other runs it is 500, of parameters 400.
STATUSES = {"E501": 404, "E504": 404}


@dataclass(frozen=True)
class Answer:
    """An answer: what goes over the connection, but for what the connection itself adds."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ViewerApp:
    """Answers requests from the runs of a catalog, the page being the same for all of them.

    `report_bug` hears of what is a bug of ours; who asked is told no more than that it is one.
    """

    guard: Guard
    catalog: Catalog
    page: tuple[bytes, str]
    report_bug: Callable[[str], object] = field(
        default=sys.stderr.write,
        repr=False,
    )

    def answer(self, request: PageRequest) -> Answer:
        """Return the answer to a request."""
        try:
            address = self.guard.admit(request)
            if address.is_page:
                return self._respond(200, *self.page)
            return self._respond(200, read_api(self.catalog, address))
        except AnswerkeyError as error:
            return self.refuse(error, request)
        except (ConnectionError, TimeoutError):
            raise  # who asked has gone away
        except Exception as error:  # noqa: BLE001  # a front door: one request that fails must not end the rest
            text = hide_secrets("".join(traceback.format_exception(error)))
            self.report_bug(make_visible(text, keep_lines=True))
            return self._respond(500, _describe("E901", "a bug in answerkey"))

    def refuse(
        self,
        error: AnswerkeyError,
        request: PageRequest | None = None,
    ) -> Answer:
        """Return the answer to a request that is refused, or could not be carried out."""
        if isinstance(error, ServeError):
            status = error.status
        elif isinstance(error, RunError):
            status = STATUSES.get(error.code, 500)
        else:
            status = 400
        if error.code == "E704" and request is not None and _asks_for_page(request):
            # A browser that loads the page again goes on from there; to it, that is no failure.
            is_again = request.target == "/" and is_opening(request) and not is_foreign(request)
            if is_again:
                status = 200
            return self._respond(status, LOCKED_PAGE.encode(), LOCKED_POLICY)
        # Who has the token may see file names, but not where the folder lies.
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
        """Return an answer with all its headers; bytes are a page, anything else becomes JSON."""
        if isinstance(content, bytes):
            kind, body = "text/html", content
        else:
            # ASCII, so that half a surrogate pair in a completion is no problem.
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

#: Seconds that a connection may be silent in the middle of a request.
PATIENCE = 20.0
VERSIONS = ("HTTP/1.0", "HTTP/1.1")


class Server(ThreadingHTTPServer):
    """Serves the runs of a folder; `url` is what to open, with the token."""

    daemon_threads = True
    request_queue_size = 64
    # Elsewhere the option would let another program listen on the same port at the same time.
    allow_reuse_address = os.name == "posix"

    app: ViewerApp
    url: str

    def server_bind(self) -> None:
        """Bind without asking for the name of this machine, which may take long."""
        TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # of its base
        """Say nothing: who asked has gone away."""


class Handler(BaseHTTPRequestHandler):
    """One connection, which serves one request."""

    server: Server
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answer a GET."""
        # A line that is no header ends the headers for its base.
        if self.request_version not in VERSIONS or self.headers.defects:
            self.send_error(400)
            return
        # Its base makes one slash of several at the beginning; the guard is to see what came.
        target = self.requestline.split()[1]
        headers = list(self.headers.items())
        request = PageRequest(self.command, target, headers)
        self._send(self.server.app.answer(request))

    def send_error(
        self,
        code: int,
        message: str | None = None,  # noqa: ARG002 - of its base
        explain: str | None = None,  # noqa: ARG002 - of its base
    ) -> None:
        """Refuse what its base could not read, or a method that is not taken."""
        error = ServeError("E702", "the request cannot be read", status=int(code))
        if code == HTTPStatus.NOT_IMPLEMENTED:
            error = ServeError("E702", "the method is not taken", status=405)
        if self.request_version not in VERSIONS:
            self.request_version = "HTTP/1.0"  # else the answer would have no headers
        self._send(self.server.app.refuse(error))

    def version_string(self) -> str:
        """Return what the answers say of who made them: no versions."""
        return "answerkey"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in its base
        """Write nothing: the address of a request holds the token."""

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


def open_server(folder: str | Path, *, port: int = 0) -> Server:
    """Return a server over the runs of a folder, bound to this machine alone and not serving yet.

    E119 for a port that cannot be had.
    """
    catalog = Catalog(folder)
    try:
        server = Server((LOOPBACK, port), Handler)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "leave `--port` out to have a free one chosen"
        raise SpecError("E119", f"cannot listen on port {port}: {why}", hint=hint) from error
    token = secrets.token_urlsafe(32)
    guard = Guard(token, server.server_port)
    server.app = ViewerApp(guard, catalog, build_page())
    server.url = f"http://{LOOPBACK}:{server.server_port}/?token={token}"
    return server
