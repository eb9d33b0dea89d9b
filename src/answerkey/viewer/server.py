"""The viewer's server: sockets and limits, then the app (guard, route, headers), then the routes.

Whatever goes wrong on the way of a request becomes an answer, too.
"""

from __future__ import annotations

import atexit
import hashlib
import ipaddress
import json
import os
import re
import secrets
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
import webbrowser
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from socketserver import TCPServer
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import polars as pl

from answerkey.errors import AnswerkeyError, RunError, ServeError, SpecError, hide_secrets
from answerkey.reports.comparison import build_comparison
from answerkey.reports.explain import find_position
from answerkey.reports.html import build_page as build_html
from answerkey.reports.html import hash_source
from answerkey.reports.overview import describe_overview, dump, name_dataset
from answerkey.reports.sample_view import view_rows, view_sample
from answerkey.reports.samples import Query, SampleTable
from answerkey.reports.view import count_trials, label_metric
from answerkey.runs import Run, TaskRun, list_places, load_run, load_summary, name_answerer
from answerkey.runs.lock import LOCK_NAME, is_alive
from answerkey.runs.store import JOURNAL_NAME, PART, FolderStore
from answerkey.text import clean_numbers, is_share, make_visible
from answerkey.viewer.guard import (
    METHOD,
    Address,
    Guard,
    Request,
    is_foreign,
    is_opening,
    miss,
    refuse,
)

#: So many of each are kept: runs and what they say, their rows, comparisons.
KEPT_RUNS = 64
KEPT_ROWS = 6
KEPT_COMPARISONS = 16

Plain = dict[str, Any]
#: What tells one state of a run's files from another.
Mark = tuple[tuple[int, int], ...]
T = TypeVar("T")

_SOLVE = "solve"
#: Seconds in which a journal that was written to counts as being worked on, wherever that is done.
_FRESH = 60.0
_PATIENCE = 2.0
_COLUMNS = "SELECT place, purpose, status, source, completion FROM calls"
_NEWER = f"{_COLUMNS} WHERE place > ?"
_AGAIN = f"{_COLUMNS} WHERE place IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants


@dataclass
class RunFolder:
    """One run of the folder: where it lies, and what is done of it, which is looked at again and
    again.

    What was counted once is not read twice: calls are appended to the journal and stay as they are,
    but for failed ones, which a resumed run asks again: these alone are looked up anew. `folder` is
    the name of the folder that several runs lie in.
    """

    path: Path
    folder: str = ""
    _last: int = 0
    _failed: dict[int, str] = field(default_factory=dict)
    _finished: Counter[str] = field(default_factory=Counter)
    _tokens: int = 0
    _rows: dict[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The same for the same name of the folder, so that links last, and not its name."""
        return make_id(self.label)

    @property
    def label(self) -> str:
        """What the run is called in the list."""
        return f"{self.folder}/{self.path.name}" if self.folder else self.path.name

    def read_mark(self) -> Mark:
        """Return what tells this state of the run from another; E501 when it is gone."""
        files = [self.path / "run.json", *sorted(self.path.glob("tasks/*/metrics.json"))]
        try:
            return tuple(
                (stat.st_mtime_ns, stat.st_size) for stat in (file.stat() for file in files)
            )
        except OSError as error:
            message = f"the run `{self.path.name}` is no longer there"
            raise RunError("E501", message, hint="the list of runs shows what there is") from error

    def describe_state(self, run: Run) -> Plain:
        """Return the status, and what is done of how much, with calls and tokens, until the run is
        complete.

        A run that nobody works on any more is incomplete, whatever it says. How many questions
        there are is None where that depends on rows that are not read yet.
        """
        if run.status == "complete":
            return {"status": run.status, "progress": None}
        seen, tasks = self.count_done(), run.manifest["tasks"]
        total = 0
        for entry in tasks:
            trials = (entry.get("trials") or {}).get("num_trials", 1)
            times = (entry.get("repeatability") or {}).get("num_runs", 1)
            total += int(entry["dataset"]["samples"]) * int(trials) * int(times)
        is_known = not any(entry.get("choice_order") for entry in tasks)
        progress = {"done": 0, "total": max(total, seen["done"]) if is_known else None, **seen}
        is_stale = run.status == "running" and not is_under_way(self.path)
        return {"status": "incomplete" if is_stale else run.status, "progress": progress}

    def count_done(self) -> dict[str, int]:
        """Return questions answered (failed ones too), calls of every purpose, tokens of live ones.

        What cannot be read at this moment is left for the next look.
        """
        # It may be in the making, or being removed.
        with suppress(sqlite3.Error, OSError, ValueError):
            self._read_journal()
        # Rows of completions or scores that are written, whichever are more.
        written = Counter({"completions": 0, "scores": 0})
        store, files = FolderStore(self.path), {}
        with suppress(OSError, RunError):  # it may be in the making, or none of ours
            files = store.list_files("tasks")
        for name, file in files.items():
            if PART.fullmatch(name):
                if name not in self._rows:
                    with suppress(RunError):
                        self._rows[name] = store.count_rows(file)
                written[name.split("/")[-2]] += self._rows.get(name, 0)
        failed = Counter(self._failed.values())
        return {
            "done": max(self._finished[_SOLVE] + failed[_SOLVE], *written.values()),
            "calls": self._finished.total() + failed.total(),
            "failed": failed.total(),
            "tokens": self._tokens,
        }

    def _read_journal(self) -> None:
        file = self.path / JOURNAL_NAME
        if not file.is_file():
            return
        # A journal that is being written has its `-wal` and `-shm` beside it. One without them is
        # whole in itself; SQLite would make them anew just to read it, unless told that nobody
        # writes.
        is_written = all(
            file.with_name(f"{file.name}{suffix}").exists() for suffix in ("-wal", "-shm")
        )
        address = (
            f"file:{quote(str(file.absolute()))}?mode=ro{'' if is_written else '&immutable=1'}"
        )
        with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as connection:
            again = list(connection.execute(_AGAIN, (json.dumps([*self._failed]),)))
            newer = connection.execute(_NEWER, (self._last,))
            self._failed.clear()
            for place, purpose, status, source, text in chain(again, newer):
                self._last = max(self._last, place)
                if status == "ERROR":
                    self._failed[place] = purpose
                    continue
                self._finished[purpose] += 1
                if source != "cache":
                    completion = json.loads(text)
                    self._tokens += completion.get("prompt_tokens", 0)
                    self._tokens += completion.get("completion_tokens", 0)


def is_under_way(folder: Path) -> bool:
    """Return whether a process works on the run in a folder, as far as can be told without its
    lock.

    Taking the lock to find out could turn away a process that starts at this moment.
    """
    try:
        holder = (folder / LOCK_NAME).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return False
    if holder.isdecimal() and is_alive(int(holder)):
        return True
    # The journal was written to a moment ago, perhaps by another machine.
    times = [path.stat().st_mtime for path in folder.glob(f"{JOURNAL_NAME}*") if path.exists()]
    return bool(times) and time.time() - max(times) < _FRESH


class Cache(Generic[T]):
    """Things that take long to make, the last used ones.

    Of several who ask at once, one makes it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what belongs to a key, made now unless it was."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                with self._lock:
                    if key in self._kept:
                        self._kept.move_to_end(key)
                        return self._kept[key]
                made = make()
                with self._lock:
                    self._kept[key] = made
                    while len(self._kept) > self._most:
                        self._kept.popitem(last=False)
                return made
        finally:
            with self._lock:
                self._making.pop(key, None)


class Catalog:
    """The runs right below a folder, or the one run that a folder is; safe for threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            hint = "name the folder that holds your runs"
            raise RunError("E501", f"`{folder}` is not a folder", hint=hint)
        self._entries: dict[str, RunFolder] = {}
        self._lock = threading.Lock()
        #: Held by a search through texts: one at a time has all cores, and one given up never
        #: begins.
        self.search = threading.Lock()
        self._runs: Cache[Run] = Cache(KEPT_RUNS)
        self._listed: Cache[Plain] = Cache(100 * KEPT_RUNS)
        self._overviews: Cache[Plain] = Cache(KEPT_RUNS)
        self._tables: Cache[SampleTable] = Cache(KEPT_ROWS)
        self._comparisons: Cache[Plain] = Cache(KEPT_COMPARISONS)

    def list(self) -> list[Plain]:
        """Return the runs as the list shows them, newest first."""
        found = [self._describe_listed(entry) for entry in self._scan().values()]
        return sorted(found, key=lambda one: (one["started_at"] or "", one["label"]), reverse=True)

    def find(self, run_id: str) -> RunFolder:
        """Return the run of an id; E703 when there is none."""
        entry = self._entries.get(run_id) or self._scan().get(run_id)
        return entry if entry is not None else miss("there is no such run")

    def open(self, entry: RunFolder) -> Run:
        """Return a run as it is now."""
        return self._runs.get((entry.id, entry.read_mark()), lambda: load_run(entry.path))

    def describe(self, run_id: str, *, is_brief: bool = False) -> Plain:
        """Return the overview of a run, with how far it is while it is under way.

        The brief one at once.
        """
        entry = self.find(run_id)
        run, label = self.open(entry), entry.label
        made = self._overviews.get(
            (run_id, is_brief, entry.read_mark()),
            lambda: describe_overview(run, run_id=run_id, label=label, is_brief=is_brief),
        )
        return {**made, **entry.describe_state(run)}

    def open_task(self, run_id: str, number: int) -> TaskRun:
        """Return the task of a number in a run; E703 when there is none."""
        tasks = list(self.open(self.find(run_id)).tasks.values())
        return tasks[number] if number < len(tasks) else miss("there is no such task in this run")

    def open_table(self, run_id: str, number: int) -> SampleTable:
        """Return the rows of a task."""
        entry, task = self.find(run_id), self.open_task(run_id, number)
        key = (run_id, task.key, entry.read_mark())
        return self._tables.get(key, lambda: SampleTable(self.open(entry), task))

    def compare(self, run_ids: Sequence[str]) -> Plain:
        """Return the comparison of runs, in this order."""
        entries = [self.find(one) for one in run_ids]

        def compare() -> Plain:
            runs = {entry.id: self.open(entry) for entry in entries}
            tables = {
                run_id: {
                    key: self.open_table(run_id, number) for number, key in enumerate(run.tasks)
                }
                for run_id, run in runs.items()
            }
            return dump(build_comparison(runs, tables))

        return self._comparisons.get(
            tuple((entry.id, entry.read_mark()) for entry in entries), compare
        )

    def _scan(self) -> dict[str, RunFolder]:
        """Return the runs that are there now.

        One that was seen before keeps what is known of it.
        """
        is_run = (self.folder / "run.json").is_file()
        found = [self.folder] if is_run else [Path(str(one)) for one in list_places(self.folder)]
        entries = [
            RunFolder(path, path.parent.name if path.parents[1] == self.folder else "")
            for path in sorted(found)
        ]
        with self._lock:
            self._entries = {one.id: self._entries.get(one.id) or one for one in entries}
            return dict(self._entries)

    def _describe_listed(self, entry: RunFolder) -> Plain:
        """Return one run of the list.

        What went wrong stands in the place of one that cannot be read.
        """
        about = {"id": entry.id, "label": entry.label}
        try:
            key = (entry.id, entry.read_mark())
            listed = self._listed.get(
                key, lambda: {**about, **describe_listed(load_summary(entry.path))}
            )
            if listed["status"] == "complete":
                return {**listed, "progress": None}
            return {**listed, **entry.describe_state(self.open(entry))}
        except AnswerkeyError as error:
            names = ("key", "model", "status", "started_at", "samples")
            blank = {**dict.fromkeys(names), "status": "unreadable", **_NO_NUMBER}
            return {**about, **blank, "tasks": [], "error": error.message, "progress": None}


def make_id(name: str) -> str:
    """Return the id of a run folder: the same for the same name, so that links last, and not its
    name.
    """
    return f"r{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


_NO_NUMBER: Plain = {"metric": None, "value": None, "interval": None, "n": None, "is_share": True}


def describe_listed(run: Run) -> Plain:
    """Return a run for the list; a number of a run that is not complete is no number yet."""
    tasks = []
    for task in run.tasks.values():
        metric = task.main_metric if run.status == "complete" else None
        number = _NO_NUMBER
        if metric is not None:
            number = {"metric": label_metric(task, metric)}
            number |= {name: getattr(metric, name) for name in ("value", "interval", "n")}
            number["is_share"] = is_share(metric)
        tasks.append(
            {
                "key": task.key,
                "name": task.manifest.get("display_name"),
                "model": name_answerer(task.manifest, with_folder=False),
                "dataset": name_dataset(task),
                "fingerprint": task.manifest["dataset"]["fingerprint"],
                **number,
            }
        )
    models = dict.fromkeys(name_answerer(one, with_folder=False) for one in run.manifest["tasks"])
    samples = [task.counts["samples"] for task in run.tasks.values()]
    main = tasks[0] if tasks else _NO_NUMBER
    described: Plain = clean_numbers(
        {
            "key": run.key,
            "model": ", ".join(models) or None,
            "status": run.status,
            "started_at": run.manifest.get("started_at"),
            "samples": sum(samples) if samples else None,
            **{name: main[name] for name in _NO_NUMBER},
            "tasks": tasks,
            "error": None,
        }
    )
    return described


# ── what can be asked for

MOST_ROWS = 500
USUAL_ROWS = 100
#: So many runs are compared at once; with more, pairs say nothing any more.
MOST_COMPARED = 12
MOST_TEXT = 1000


def read_api(
    catalog: Catalog, address: Address, is_given_up: Callable[[], bool] = lambda: False
) -> object:
    """Return what a path asks for.

    E703 where there is nothing, E702 for parameters that mean nothing there. `is_given_up` says
    whether who asked does not wait any more.
    """
    query = address.query
    match address.parts:
        case ("api", "runs"):
            _require_only(query)
            made = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            return {"folder": catalog.folder.name, "runs": catalog.list(), "made": made}
        case ("api", "compare"):
            _require_only(query, "runs")
            names = query.get("runs", "").split(",")
            if not 2 <= len(names) <= MOST_COMPARED or len(set(names)) < len(names):  # noqa: PLR2004 - a pair
                refuse(f"name two to {MOST_COMPARED} different runs")
            return catalog.compare(names)
        case ("api", "runs", run):
            _require_only(query, "brief")
            return catalog.describe(run, is_brief=query.get("brief") == "true")
        case ("api", "runs", run, "tasks", task, "rows"):
            _require_only(query, "offset", "limit", *(one.name for one in fields(Query)))
            offset = read_number(query.get("offset", "0"))
            limit = read_number(query.get("limit", str(USUAL_ROWS)), most=MOST_ROWS)
            table = catalog.open_table(run, read_number(task))
            found = _find_rows(catalog, table, query, is_given_up)
            return {
                "total": len(found),
                "rows": list(map(dump, view_rows(table, found.slice(offset, limit)))),
            }
        case ("api", "runs", run, "tasks", task, "rows", row):
            _require_only(query)
            table, position = catalog.open_table(run, read_number(task)), read_number(row)
            if position >= len(table):
                miss("there is no such row in this task")
            return dump(view_sample(table, position))
        case ("api", "runs", run, "tasks", task, "find"):
            _require_only(query, "id", "trial", *(one.name for one in fields(Query)))
            # A sample by its id and, asked several times, the trial; and its place among the rows
            # asked for.
            trial, asked = (
                read_number(query.get("trial", "0")),
                catalog.open_task(run, read_number(task)),
            )
            first = find_position(asked, query.get("id", ""))
            if first is None or trial >= count_trials(asked):
                return {"p": None, "index": None}
            table = catalog.open_table(run, read_number(task))
            rows = _find_rows(catalog, table, query, is_given_up)
            return {"p": first + trial, "index": rows.index_of(first + trial)}
    return miss()


def _find_rows(
    catalog: Catalog, table: SampleTable, words: Mapping[str, str], is_given_up: Callable[[], bool]
) -> pl.Series:
    """Return the positions of the rows that the words of an address ask for."""
    if any(len(text) > MOST_TEXT for text in words.values()):
        refuse(f"a text to look for has at most {MOST_TEXT:,} characters")
    wanted = Query.parse(words)
    with catalog.search if wanted.text else nullcontext():
        if is_given_up():  # who types a word does not wait for what its first letters find
            raise ConnectionAbortedError
        return table.find(wanted)


def _require_only(query: Mapping[str, str], *names: str) -> None:
    """Refuse parameters of other names."""
    if set(query) - set(names):
        refuse("there is a parameter that means nothing here")


def read_number(text: str, *, most: int = 2**32 - 1) -> int:
    """Return a whole number of plain digits; E702 for anything else."""
    if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) is None or int(text) > most:
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
    return f"{begin}{end}".encode(), "; ".join((policy, *ADDED))


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
REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>answerkey</title>
<p><a href="{0}">Go on to the runs</a></p>
"""
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
    ("Cache-Control", "no-store"),
)
#: Browsers heed it only where the address is that of the machine itself, and complain elsewhere.
LOCAL_HEADERS = (("Cross-Origin-Opener-Policy", "same-origin"),)
#: Where an error is not the viewer's own: missing, changed on disk, in use, not to be written.
STATUSES = {
    "E501": 404,
    "E504": 404,
    "E505": 409,
    "E506": 409,
    "E508": 409,
    "E502": 500,
    "E503": 500,
}


@dataclass(frozen=True)
class Answer:
    """An answer: what goes over the connection, but for what the connection itself adds."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class App:
    """Answers requests from the runs of a catalog, the page being the same for all of them.

    `report_bug` hears of what is a bug of ours; who asked is told no more than that it is one.
    """

    guard: Guard
    catalog: Catalog
    page: tuple[bytes, str]
    is_local: bool = True
    report_bug: Callable[[str], object] = field(default=sys.stderr.write, repr=False)

    def answer(self, request: Request, is_given_up: Callable[[], bool] = lambda: False) -> Answer:
        """Return the answer to a request."""
        try:
            address = self.guard.admit(request)
            if address.is_page:
                return self._respond(200, *self.page)
            return self._respond(200, read_api(self.catalog, address, is_given_up))
        except AnswerkeyError as error:
            return self.refuse(error, request)
        except (ConnectionError, TimeoutError):
            raise  # who asked has gone away
        except Exception as error:  # noqa: BLE001  # a front door: one request that fails must not end the rest
            told = hide_secrets("".join(traceback.format_exception(error)))
            self.report_bug(make_visible(told, keep_lines=True))
            return self._respond(500, _describe("E901", "a bug in answerkey", None))

    def refuse(self, error: AnswerkeyError, request: Request | None = None) -> Answer:
        """Return the answer to a request that is refused, or could not be carried out."""
        status = error.status if isinstance(error, ServeError) else STATUSES.get(error.code, 400)
        if error.code == "E704" and request is not None and request.target.partition("?")[0] == "/":
            # A browser that loads the page again goes on from there; to it, that is no failure.
            is_again = request.target == "/" and is_opening(request) and not is_foreign(request)
            return self._respond(200 if is_again else status, LOCKED_PAGE.encode(), LOCKED_POLICY)
        # Who has the token may see file names; where the folder lies is nobody's business but its
        # owner's.
        texts = [
            None
            if text is None
            else text.replace(str(self.catalog.folder), self.catalog.folder.name)
            for text in (error.message, error.hint)
        ]
        allow = (("Allow", METHOD),) if status == 405 else ()  # noqa: PLR2004  # as HTTP asks for
        return self._respond(status, _describe(error.code, *texts), BARE_POLICY, *allow)

    def _respond(
        self, status: int, content: object, policy: str = BARE_POLICY, *more: tuple[str, str]
    ) -> Answer:
        """Return an answer with all its headers; bytes are a page, anything else becomes JSON."""
        kind, body = "text/html", content
        if not isinstance(body, bytes):
            # ASCII, so that half a surrogate pair in a completion is no problem.
            kind, clean = "application/json", clean_numbers(content)
            body = json.dumps(
                clean, ensure_ascii=True, allow_nan=False, separators=(",", ":")
            ).encode()
        named = (("Content-Type", f"{kind}; charset=utf-8"), ("Content-Security-Policy", policy))
        return Answer(
            status, body, (*named, *HEADERS, *(LOCAL_HEADERS if self.is_local else ()), *more)
        )


def _describe(code: str, message: str | None, hint: str | None) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "hint": hint}}


# ── sockets

LOOPBACK = "127.0.0.1"
#: A browser opens six connections to a server; beyond so many, a new one is closed at once.
MOST_CONNECTIONS = 64
#: Seconds that a connection may be silent, in the middle of a request or between two.
PATIENCE = 20.0
#: What is read of a body that was refused, so that the refusal arrives before the connection ends.
MOST_DRAINED = 1 << 20
DRAIN_SECONDS = 2.0
VERSIONS = ("HTTP/1.0", "HTTP/1.1")


class Server(ThreadingHTTPServer):
    """Serves the runs of a folder; `url` is what to open, with the token."""

    daemon_threads = True
    request_queue_size = 64
    # Elsewhere the option would let another program listen on the same port at the same time.
    allow_reuse_address = os.name == "posix"

    def __init__(self, address: str, family: socket.AddressFamily, port: int) -> None:
        self.address_family = family
        self.app: App
        self.url = ""
        self.listen: Callable[[str], object] | None = None
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((address, port), Handler)

    def server_bind(self) -> None:
        """Bind without asking for the name of this machine, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = (
            str(self.server_address[0]),
            int(self.server_address[1]),
        )

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
        is_known = self.request_version in VERSIONS
        if (
            not is_known or self.headers.defects
        ):  # a line that is no header ends the headers for its base
            self.send_error(400 if is_known else 505)
            return
        # Its base makes one slash of several at the beginning; the guard is to see what came.
        target = self.requestline.split()[1]
        request = Request(self.command, target, list(self.headers.items()))
        answer = self.server.app.answer(request, self._is_given_up)
        has_body = any(self.headers.get(name) for name in ("Content-Length", "Transfer-Encoding"))
        is_left = has_body and self.headers.get("Content-Length") != "0"
        self.close_connection = self.close_connection or is_left
        self._send(answer)
        if is_left:
            self._drain()

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

    def _is_given_up(self) -> bool:
        """Return whether the other side has closed the connection.

        What it may have sent is not read.
        """
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
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        message = f"`--host {host}` is no address of this machine"
        raise SpecError("E119", message, hint=f"leave it out for {LOOPBACK}") from error
    family, _, _, _, place = found[0]
    address = str(place[0])
    number = _read_address(address)
    if not number.is_loopback and not allow_network:
        hint = "`--allow-network` says that this is meant; `ssh -L` needs neither"
        raise SpecError(
            "E119", f"`--host {host}` would show your runs to other machines", hint=hint
        )
    catalog = Catalog(folder)
    try:
        server = Server(address, family, port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        where = f"port {port} of `{host}`" if port else f"`{host}`"
        hint = (
            "leave `--port` out to have a free one chosen"
            if port
            else f"leave it out for {LOOPBACK}"
        )
        raise SpecError("E119", f"cannot listen on {where}: {why}", hint=hint) from error
    token = secrets.token_urlsafe(32)
    is_everywhere = number.is_unspecified
    guard = Guard(
        token, server.server_port, list_names(host, address), takes_addresses=is_everywhere
    )
    server.app = App(guard, catalog, build_page(), is_local=number.is_loopback)
    shown = LOOPBACK if is_everywhere else _bracket(host)
    server.url = f"http://{shown}:{server.server_port}/?token={token}"
    return server


def _read_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.partition("%")[0])


def list_names(host: str, address: str) -> frozenset[str]:
    """Return the names by which a request may call the server that listens on an address."""
    number, names = _read_address(address), {_bracket(host).lower(), _bracket(address).lower()}
    if number.is_loopback or number.is_unspecified:
        names |= {"localhost", LOOPBACK, "[::1]"}
    return frozenset(names | {socket.gethostname().lower()} if number.is_unspecified else names)


def _bracket(host: str) -> str:
    """Return a host as an address has it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def open_browser(url: str) -> bool:
    """Open an address by way of a file that only this user can read.

    Return whether a browser was found.
    """
    handle, name = tempfile.mkstemp(prefix="answerkey-view-", suffix=".html")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(REDIRECT.format(escape(url, quote=True)))
    try:
        return webbrowser.open(Path(name).as_uri())
    except webbrowser.Error:
        return False
