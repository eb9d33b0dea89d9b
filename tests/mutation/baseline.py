"""Which tests run which lines, and how long each takes: only they can notice a mutant there."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from coverage import Coverage

#: Tests that take longer than this many seconds of the processor are left out: mutants must be cheap.
LONGEST = 0.3
#: How many tests of the same file are run where hardly any runs a line.
NEIGHBOURS = 60


@dataclass
class Baseline:
    """The seconds of each test, and the tests of each line by file; the empty name stands for importing."""

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[str, dict[int, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )

    def find_tests(self, path: Path, lines: range) -> set[str]:
        """Return the tests that run any of these lines of a file."""
        by_line = self.tests[str(path)]
        return {test for line in lines for test in by_line[line] if test in self.seconds}

    def list_neighbours(self, names: Collection[str]) -> list[str]:
        """Return the fastest other tests of the files that these tests stand in."""
        files = {name.split("::", 1)[0] for name in names}
        others = [name for name in self.seconds if name not in names and name.split("::", 1)[0] in files]
        return sorted(others, key=lambda name: (self.seconds[name], name))[:NEIGHBOURS]

    def is_imported(self, path: Path, lines: range) -> bool:
        """Say whether importing alone runs any of these lines."""
        return any("" in self.tests[str(path)][line] for line in lines)


def measure(paths: Sequence[Path], tests: Sequence[Path], kept: Path) -> Baseline:
    """Return the baseline of test files over source files; what did not change is taken from `kept`."""
    kept.mkdir(parents=True, exist_ok=True)
    shared = [path for test in tests for path in test.parent.iterdir() if path.suffix == ".md"]
    shared += [path for test in tests for path in test.parent.glob("conftest.py")]
    common = _hash_files([*paths, *sorted(set(shared))])
    stored = {test: kept / f"{test.stem}-{_hash_files([test], common)[:16]}.json" for test in tests}
    missing = {test: file for test, file in stored.items() if not file.exists()}
    if missing:
        child = os.fork()
        if not child:
            os._exit(_run(paths, missing))
        _, status = os.waitpid(child, 0)
        if status:
            message = "the tests do not pass without any mutant: see above"
            raise SystemExit(message)
    baseline = Baseline()
    for file in stored.values():
        _add(baseline, json.loads(file.read_text(encoding="utf-8")))
    return baseline


class Watcher:
    """A pytest plugin that notes the lines and the seconds of each test."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch one test."""
        self.coverage.switch_context(item.nodeid)
        start = time.process_time()
        outcome = yield
        self.seconds[item.nodeid] = time.process_time() - start
        self.coverage.switch_context("")
        return outcome


def _run(paths: Sequence[Path], missing: Mapping[Path, Path]) -> int:
    """Run test files and keep what was seen of each; return pytest's exit code."""
    coverage = Coverage(
        data_file=None, config_file=False, include=[str(path) for path in paths], messages=False
    )
    coverage.start()
    watcher = Watcher(coverage)
    code = pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *map(str, missing)], [watcher])
    coverage.stop()
    lines = coverage.get_data()
    by_path = {str(path): lines.contexts_by_lineno(str(path)) for path in paths}
    failed = {_file_of(name) for name in watcher.failed}
    for test, file in missing.items():
        if test not in failed:
            file.write_text(json.dumps(_select(test, watcher.seconds, by_path)), encoding="utf-8")
    return int(code)


def _select(
    test: Path, seconds: Mapping[str, float], by_path: Mapping[str, Mapping[int, Sequence[str]]]
) -> dict[str, object]:
    """Return what belongs to one test file, and what importing runs."""
    own = {name: taken for name, taken in seconds.items() if _file_of(name) == test and taken <= LONGEST}
    tests = {
        path: {line: [name for name in names if not name or name in own] for line, names in by_line.items()}
        for path, by_line in by_path.items()
    }
    return {"seconds": own, "tests": tests}


def _add(baseline: Baseline, stored: Mapping[str, Mapping[str, Mapping[str, Iterable[str]]]]) -> None:
    baseline.seconds.update(stored["seconds"])  # type: ignore[arg-type] # as written by `_select`
    for path, by_line in stored["tests"].items():
        for line, names in by_line.items():
            baseline.tests[path][int(line)].update(names)


def _file_of(name: str) -> Path:
    return Path.cwd() / name.split("::", 1)[0]


def _hash_files(paths: Iterable[Path], common: str = "") -> str:
    digest = hashlib.sha256(common.encode())
    for path in paths:
        digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()
