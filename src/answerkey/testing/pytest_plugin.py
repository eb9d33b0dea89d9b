"""The pytest plugin: gates inside a test suite.

Run files that match `answerkey_files` in pytest's settings are collected, and every rule of their
policies becomes a test. The fixture `answerkey_gates` runs a file from within a test. Without
either, the plugin does nothing and imports nothing of answerkey.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from answerkey.runs import Run

FILES = "answerkey_files"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings and the options of the plugin."""
    parser.addini(
        FILES, "run files of answerkey whose gates are tests (patterns)", "linelist", default=[]
    )
    group = parser.getgroup("answerkey", "gates of answerkey")
    group.addoption(
        "--answerkey-model", metavar="NAME", help="call this model instead of those in the files"
    )
    group.addoption(
        "--answerkey-baseline", metavar="RUN", help="fail if significantly worse than RUN"
    )
    group.addoption("--answerkey-out", metavar="DIR", help="keep the runs in this folder")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> RunFile | None:
    """Return the tests of a run file that matches the settings."""
    config = parent.config
    name = os.path.relpath(file_path, config.rootpath)
    for pattern in config.getini(FILES):
        if fnmatch(Path(name).as_posix(), pattern):
            return RunFile.from_parent(parent, path=file_path)
    return None


class RunFile(pytest.File):
    """A run file, which is run once, when the first of its gates is tested."""

    _done: Run | str | None = None

    def collect(self) -> Iterable[pytest.Item]:
        """Return a test for each rule of the file's policies, or a single test that the run is
        complete.
        """
        from answerkey.errors import Problems
        from answerkey.spec import Options, load_plan

        overrides = Options(**_read_options(self.config))
        plan = load_plan(self.path, overrides)
        if plan.errors:
            raise self.CollectError(str(Problems(plan.errors)))
        names = []
        for policy in plan.policies:
            for rule in policy["rules"]:
                names.append(f"{policy['key']}::{rule['key']}")
        for name in names or ["the run is complete"]:
            yield GateItem.from_parent(self, name=name)

    def run_once(self) -> Run:
        """Return the run of the file; an error in the run fails every gate."""
        from answerkey.errors import AnswerkeyError

        if self._done is None:
            try:
                self._done = _run(self.config, self.path, {})
            except AnswerkeyError as error:
                self._done = str(error)
        if isinstance(self._done, str):
            pytest.fail(self._done, pytrace=False)
        return self._done


class GateItem(pytest.Item):
    """One rule of a run file."""

    parent: RunFile

    def runtest(self) -> None:
        """Pass if the gate passes; skip a gate that applies to other tasks."""
        from answerkey.gates.rules import WORDS, advise_gate, explain_gate
        from answerkey.types import GateStatus

        run = self.parent.run_once()
        gates = []
        for gate in run.gates:
            if f"{gate.policy}::{gate.rule}" == self.name:
                gates.append(gate)
        if not gates and run.status != "complete":
            see = f"see `answerkey show {run.path}`"
            message = f"the run is {run.status}: calls failed permanently; {see}"
            pytest.fail(message, pytrace=False)
        for gate in gates:
            has_tasks = len(run.tasks) > 1
            lines = explain_gate(gate, with_tasks=has_tasks)
            if gate.status is GateStatus.SKIPPED:
                pytest.skip("; ".join(lines))
            if gate.status is not GateStatus.PASS:
                lines.insert(0, f"{WORDS[gate.status]}  {gate.display_name or gate.rule}")
                lines.append(advise_gate(gate, run) or "")
                pytest.fail("\n".join(lines).rstrip(), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the location of the test."""
        return self.path, None, self.name


def _read_options(config: pytest.Config) -> dict[str, Any]:
    """Return pytest's command-line options as options of `answerkey.run`."""
    from answerkey.reports.listing import find_run

    options = {}
    if model := config.getoption("answerkey_model"):
        options["model"] = model
    if baseline := config.getoption("answerkey_baseline"):
        run = find_run(str(baseline))
        options["baseline"] = str(run.path)
    return options


def _run(
    config: pytest.Config,
    path: str | Path,
    options: dict[str, Any],
) -> Run:
    import answerkey

    options = {**_read_options(config), **options}
    if not options.get("out"):
        whole = Path(path).resolve()
        options["out"] = _find_folder(config, whole)
    return answerkey.run(path, **options)


def _find_folder(config: pytest.Config, path: Path) -> Path:
    """Return a new folder for a run: in the folder given on the command line, or else in pytest's
    temporary folder.

    Pytest keeps its temporary folders for three more test sessions.
    """
    base = config.getoption("answerkey_out")
    factory = vars(config).get("_tmp_path_factory")
    if factory is not None and not base:
        base = factory.mktemp("answerkey-gates")
    root = Path(base or tempfile.mkdtemp(prefix="answerkey-gates-"))
    name = path.parent.name if path.suffix else path.name
    number = 1
    folder = root / f"{name}-1"
    while folder.exists():
        number += 1
        folder = root / f"{name}-{number}"
    return folder


@pytest.fixture
def answerkey_gates(request: pytest.FixtureRequest) -> Callable[..., Run]:
    """Return a function that runs a file and fails the test if a gate fails.

    It has the parameters of `answerkey.run`, and returns the run.
    """

    def run_gates(path: str | Path, **options: object) -> Run:
        from answerkey.gates.rules import draw_gates, judge_run
        from answerkey.text import plain_text
        from answerkey.types import GateStatus

        run = _run(request.config, path, options)
        if run.status != "complete":
            pytest.fail(f"the run is {run.status}; see `answerkey show {run.path}`", pytrace=False)
        verdict = judge_run(run)
        if verdict not in {None, GateStatus.PASS, GateStatus.SKIPPED}:
            table = plain_text(draw_gates(run, 100))
            pytest.fail(table.strip(), pytrace=False)
        return run

    return run_gates
