"""A real Chromium, runs to look at, and pages under observation.

One browser serves all tests of a process. With `ANSWERKEY_PICTURES=1` pictures and traces of each
test go to `build/browser`, which no commit holds; without it they are not made, since they double
the work.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.forked import Forked

from .material import Call, carry_out, make_hostile_runs, make_plain_runs
from .stage import Stage, Watch

ROOT = Path(__file__).parents[2]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE = 240_000  # milliseconds: a machine that does much else is slow now and then

OpenStage = Callable[..., Stage]
expect.set_options(timeout=PATIENCE)


@pytest.fixture(autouse=True, scope="session")
def chromium() -> str:
    """Return the path of an installed Chromium, or of the program that `ANSWERKEY_CHROMIUM`
    names.
    """
    program = os.environ.get("ANSWERKEY_CHROMIUM")
    for name in [program] if program else NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium: `make test` installs it as root; else ANSWERKEY_CHROMIUM names it")


#: The browser, and the event loop of what drives it.
Driven = tuple[Browser, AbstractEventLoop]


@pytest.fixture(scope="session")
def driven(chromium: str) -> Iterator[Driven]:
    """Start Chromium, once for each process that runs tests.

    The driver leaves its event loop marked as running, and other tests of this process start loops
    of their own: the mark is there only while a test of the browser runs.
    """
    options = ["--disable-gpu", "--disable-software-rasterizer"]  # a sixth of the time
    if os.geteuid() == 0:  # to whom Chromium refuses its own sandbox
        options.append("--no-sandbox")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=options)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def browser(driven: Driven) -> Iterator[Browser]:
    """Return the browser, with its event loop in place."""
    browser, loop = driven
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@dataclass(frozen=True)
class Tab:
    """A page in its own browser context, with the watcher of its requests."""

    page: Page
    watch: Watch

    def empty(self) -> None:
        """Forget what a test left: what is stored, shown, imitated and held."""
        self.page.unroute_all(behavior="ignoreErrors")
        if self.page.url.startswith(("file:", "http:")):
            self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        self.page.goto("about:blank")


@pytest.fixture(scope="session")
def idle() -> dict[bool, list[Tab]]:
    """Return the pages that no test uses, by whether they are offline.

    A page that is used again opens a report with a third of the work of a new one.
    """
    return {False: [], True: []}


@pytest.fixture
def open_stage(
    browser: Browser, idle: dict[bool, list[Tab]], request: pytest.FixtureRequest
) -> Iterator[OpenStage]:
    """Return a function that opens a page: `open_stage(address)`.

    After the test nothing must have been seen that does not belong: no error or warning in the
    console, no dialog, no request but to what is its own. Only a page with settings of its own, or
    for which the test asks with `is_new`, has a context that was never used.
    """
    folder = None
    if os.environ.get("ANSWERKEY_PICTURES"):
        name = re.sub(r"[^\w-]+", "-", f"{request.path.stem}-{request.node.name}")
        folder = ROOT / "build" / "browser" / name.strip("-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    opened: list[tuple[Tab, bool | None]] = []

    def open_page(
        address: str,
        *,
        width: int = 1280,
        color_scheme: Literal["light", "dark"] = "light",
        offline: bool = False,
        is_new: bool = False,
        **settings: Any,  # noqa: ANN401  # of a context
    ) -> Stage:
        kind = None if is_new or settings or folder else offline
        if kind is not None and idle[kind]:
            tab = idle[kind].pop()
            tab.watch.begin()
        else:
            context = browser.new_context(reduced_motion="reduce", offline=offline, **settings)
            context.set_default_timeout(PATIENCE)
            if folder:
                context.tracing.start(snapshots=True, title=request.node.name)
            watch = Watch()
            watch.follow(context)
            tab = Tab(context.new_page(), watch)
        opened.append((tab, kind))
        tab.watch.allowed = (address.partition("?")[0], "about:", "data:")
        tab.page.emulate_media(media="screen", color_scheme=color_scheme, reduced_motion="reduce")
        tab.page.set_viewport_size({"width": width, "height": 900})
        return Stage(tab.page, tab.watch, address, folder)

    yield open_page
    for number, (tab, kind) in enumerate(opened):
        if folder:
            tab.page.context.tracing.stop(path=folder / f"trace-{number}.zip")
        if kind is None or tab.page.is_closed() or len(tab.page.context.pages) > 1:
            tab.page.context.close()
        else:
            tab.empty()
            idle[kind].append(tab)
    assert [problem for tab, _ in opened for problem in tab.watch.problems] == []


@pytest.fixture
def open_first(open_stage: OpenStage) -> OpenStage:
    """Return a function that opens the first page at an address."""

    def open_page(address: str, **settings: Any) -> Stage:  # noqa: ANN401  # of a context
        stage = open_stage(address, **settings)
        stage.go()
        return stage

    return open_page


@pytest.fixture
def stage(report: str, open_first: OpenStage) -> Stage:
    """Return the first page of the report of one run."""
    return open_first(report, offline=True)


@pytest.fixture(scope="session")
def plain_runs(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """Return a folder with the runs `first`, `second` and `asked`, all of the same 125 samples."""
    folder = tmp_path_factory.mktemp("plain")
    make_plain_runs(folder, call)
    return folder / "runs"


@pytest.fixture(scope="session")
def report(plain_runs: Path, call: Call) -> str:
    """Return the address of a report file of one run."""
    return write_report(call, plain_runs.parent / "one.html", plain_runs / "first")


@pytest.fixture(scope="session")
def comparison(plain_runs: Path, call: Call) -> str:
    """Return the address of a report file of three runs."""
    runs = [plain_runs / name for name in ("first", "second", "asked")]
    return write_report(call, plain_runs.parent / "three.html", *runs)


@pytest.fixture(scope="session")
def hostile_runs(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """Return a folder with the runs `texts-0`, `texts-1` and `names`, all of whose texts are
    injections.
    """
    folder = tmp_path_factory.mktemp("hostile")
    make_hostile_runs(folder, call)
    return folder / "runs"


@pytest.fixture(scope="session")
def view() -> Iterator[Callable[[Path], str]]:
    """Return a function that starts a viewer over a folder and returns its address, with the
    token.
    """
    started: dict[Path, tuple[subprocess.Popen[str], str]] = {}

    def start(folder: Path) -> str:
        if folder not in started:
            words = ["view", str(folder), "--quiet"]
            process = Forked(words, stdout=subprocess.PIPE, text=True, encoding="utf-8")
            assert process.stdout is not None
            started[folder] = (process, process.stdout.readline().strip())
        return started[folder][1]

    yield start
    for process, _ in started.values():
        process.terminate()
        process.communicate(timeout=PATIENCE / 1000)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve the files of a folder at the address that is returned."""
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def write_report(call: Call, file: Path, *runs: Path) -> str:
    """Return the address of a report file that is written of runs."""
    carry_out(call, "report", *runs, "-o", file)
    return file.as_uri()
