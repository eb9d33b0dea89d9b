"""The command line called as a function, other tools in their environments, and test settings."""

from __future__ import annotations

import gc
import importlib.util
import io
import json
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import certifi
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from answerkey import errors
from answerkey.cli import main
from answerkey.models.names import LOCAL, PROVIDERS

# How long an example takes says how busy the machine is, not whether a law holds.
settings.register_profile(
    "any-machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=200 if os.environ.get("ANSWERKEY_LONG") else 10,
)
settings.load_profile("any-machine")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect garbage less often, and never what exists when the tests begin."""
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send xdist's controller only the reports that it counts: six messages a test take time."""
    if not hasattr(item.config, "workerinput") or item.config.getoption("durations") is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class ByFolder(LoadFileScheduling):  # type: ignore[misc]  # without types
    """Hands out files one by one, and a whole folder where its files share expensive fixtures."""

    def _split_scope(self, nodeid: str) -> str:
        for folder in TOGETHER:
            if nodeid.startswith(folder):
                return folder
        return str(super()._split_scope(nodeid))


#: They share a browser with its runs and reports, and SciPy.
TOGETHER = ("tests/browser/", "tests/unit/metrics/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder | None:  # noqa: ANN401  # of xdist
    """Return the scheduler of `--dist loadfile`."""
    return ByFolder(config, log) if config.getoption("dist") == "loadfile" else None


@dataclass(frozen=True)
class Called:
    """The result of a command: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever the command printed
        """The one object that `--json` printed on stdout."""
        return json.loads(self.out)


@pytest.fixture(autouse=True, scope="session")
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's trust, caches, keys and servers away from the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        keys = [provider.key for provider in PROVIDERS.values() if provider.key]
        for name in map(str.upper, PROVIDERS):
            keys += [f"{name}_API_KEY", f"{name}_BASE_URL"]
        for name in keys:
            patch.delenv(name, raising=False)
        for name in map(str.upper, LOCAL):
            patch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:9/v1")
        if not os.environ.get("ANSWERKEY_LONG"):  # which reaches hosts of the network
            trust_one_certificate(patch, tmp_path_factory.mktemp("trusted"))
        yield


@pytest.fixture(autouse=True)
def _own_secrets() -> Iterator[None]:
    """Forget the secrets that a test made up, which are hidden in whatever the next one prints."""
    before = set(errors._KNOWN)
    yield
    errors._KNOWN.intersection_update(before)


def trust_one_certificate(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let TLS trust one certificate: reading the system's takes as long as a small run."""
    first, end, _ = Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----")
    (folder / "one.pem").write_text(f"{first}{end}\n", encoding="utf-8")
    for name in ("SSL_CERT_FILE", "AWS_CA_BUNDLE"):
        patch.setenv(name, str(folder / "one.pem"))
    patch.setenv("SSL_CERT_DIR", str(folder))
    patch.delenv("REQUESTS_CA_BUNDLE", raising=False)


@pytest.fixture(scope="session")
def call() -> Callable[..., Called]:
    """Return a function that runs a command: `call("run", "project")`."""

    def call_main(*words: object) -> Called:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(word) for word in words])
        return Called(code, out.getvalue(), err.getvalue())

    return call_main


#: What worker processes import before they begin.
WORK = ("answerkey.dataset_audit.audit", "answerkey.evaluate.run", "answerkey.run_audit.audit")


@pytest.fixture(scope="session")
def forking() -> BaseContext:
    """Return a context that forks processes from one in which workers' imports are done."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(WORK))
    forkserver.ensure_running()
    return context


@pytest.fixture
def quick_workers(forking: BaseContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork worker processes instead of starting them."""
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: forking)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Return the endpoint of an S3 server on this machine, which is started once."""
    for name in ("moto", "s3fs", "flask"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"`{name}` is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = "import sys; from moto.server import main; main(sys.argv[1:])"
    command = [sys.executable, "-W", "ignore", "-c", code, "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            while not is_listening(port):
                assert server.poll() is None
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def is_listening(port: int) -> bool:
    """Return whether a port of this machine accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def foreign() -> dict[str, Any]:
    """Return the names that `bench/foreign.py` defines."""
    return runpy.run_path(str(Path(__file__).parents[1] / "bench" / "foreign.py"))


@pytest.fixture(scope="session")
def run_tool(foreign: dict[str, Any]) -> Callable[..., str]:
    """Return a function that runs the Python of another tool, `run_tool("lm-eval", "-m",
    "lm_eval")`.

    With `newest=True` it is the newest version. The tool is installed the first time; the test is
    skipped where that cannot be done.
    """

    def run(name: str, *words: object, newest: bool = False, **environment: str) -> str:
        try:
            start = foreign["open_tool"](name, foreign["find_newest"](name) if newest else None)
        except foreign["ForeignError"] as error:
            pytest.skip(f"{name} cannot be installed: {error}")
        outer = {"PYTHONPATH", "VIRTUAL_ENV"}
        variables = {name: value for name, value in os.environ.items() if name not in outer}
        done = subprocess.run(
            [*start, *map(str, words)],
            env={**variables, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]
        return done.stdout

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines that tests recorded as the property `table`."""
    passed = terminalreporter.getreports("passed")
    lines = {line for report in passed for name, line in report.user_properties if name == "table"}
    if lines:
        terminalreporter.section("other tools")
        terminalreporter.write_line("\n".join(sorted(lines)))
