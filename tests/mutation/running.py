"""Runs mutants: each in a forked process, where only the tests that can notice it are run, until one does."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FunctionType

import pytest
from _pytest.runner import runtestprotocol

from .baseline import Baseline
from .mutating import Mutant, compile_mutant

KILLED, TIMED_OUT, SURVIVED, UNREACHED = "killed", "timed out", "survived", "unreached"

#: A test that takes so many times its usual seconds, and these more, does not end: the mutant is noticed.
TIMES, MORE = 10, 2.0
#: What so few tests run is often remembered by a function, and read by the tests that come after them.
FEW = 3
#: The same by the clock on the wall, for one that waits for ever.
WALL_MORE = 30.0
#: What a mutant may need more than the tests themselves.
MEMORY = 3 << 30


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant, and the test that noticed it."""

    status: str
    killer: str | None = None


class Runner:
    """A pytest plugin that runs mutants in place of the tests that were collected."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        baseline: Baseline,
        jobs: int,
        tell: Callable[[Mutant, Outcome], None],
    ) -> None:
        self.mutants, self.baseline, self.jobs, self.tell = mutants, baseline, jobs, tell
        self.outcomes: dict[str, Outcome] = {}
        self.caches: list[_lru_cache_wrapper[object]] = []
        self.kills: dict[str, Counter[str]] = defaultdict(Counter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run every mutant; `jobs` of them at a time."""
        tests = {test.nodeid: test for test in session.items}
        functions = find_functions({str(mutant.path) for mutant in self.mutants})
        self.caches = find_caches()
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # made once, not in every child
        gc.collect()
        gc.freeze()
        waiting = list(reversed(self.mutants))
        running: dict[int, tuple[Mutant, int]] = {}
        while waiting or running:
            if waiting and len(running) < self.jobs:
                self._start(waiting.pop(), tests, functions, running)
            else:
                self._finish(running)
        return True

    def _start(
        self,
        mutant: Mutant,
        tests: Mapping[str, pytest.Item],
        functions: Mapping[tuple[str, str], list[FunctionType]],
        running: dict[int, tuple[Mutant, int]],
    ) -> None:
        chosen = [tests[name] for name in self._order(mutant) if name in tests]
        if not chosen:
            self._note(mutant, Outcome(UNREACHED))
            return
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            seconds = [self.baseline.seconds[test.nodeid] for test in chosen]
            if self.baseline.is_imported(mutant.path, mutant.lines):
                for remembering in self.caches:  # what was computed while tests were imported
                    remembering.cache_clear()
            _live(mutant, functions[str(mutant.path), mutant.qualname], chosen, seconds, writing)
        os.close(writing)
        running[child] = mutant, reading

    def _order(self, mutant: Mutant) -> list[str]:
        """Return the names of the tests that can notice a mutant: first what noticed others like it."""
        near, far = self.kills[f"{mutant.module}:{mutant.qualname}"], self.kills[mutant.module]
        seconds = self.baseline.seconds
        names = self.baseline.find_tests(mutant.path, mutant.lines)
        ordered = sorted(names, key=lambda name: (-near[name], -far[name], seconds[name], name))
        return ordered + (self.baseline.list_neighbours(names) if len(names) <= FEW else [])

    def _finish(self, running: dict[int, tuple[Mutant, int]]) -> None:
        child, status = os.waitpid(-1, 0)
        mutant, reading = running.pop(child)
        with suppress(ProcessLookupError):  # what the tests started may still hold the pipe
            os.killpg(child, signal.SIGKILL)
        with os.fdopen(reading, encoding="utf-8") as told:
            killer = told.read()
        if os.WIFSIGNALED(status):
            slow = os.WTERMSIG(status) in {signal.SIGPROF, signal.SIGALRM}
            self._note(mutant, Outcome(TIMED_OUT if slow else KILLED))
        else:
            self._note(mutant, Outcome(KILLED, killer) if os.WEXITSTATUS(status) else Outcome(SURVIVED))

    def _note(self, mutant: Mutant, outcome: Outcome) -> None:
        self.outcomes[mutant.name] = outcome
        if outcome.killer:
            self.kills[f"{mutant.module}:{mutant.qualname}"][outcome.killer] += 1
            self.kills[mutant.module][outcome.killer] += 1
        self.tell(mutant, outcome)


def find_functions(paths: Iterable[str]) -> dict[tuple[str, str], list[FunctionType]]:
    """Return the living functions of these files by file and name, however they are wrapped."""
    wanted = set(paths)
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename in wanted:
            found[function.__code__.co_filename, function.__code__.co_qualname].append(function)
    return found


def find_caches() -> list[_lru_cache_wrapper[object]]:
    """Return the functions of the package that remember what they have returned."""
    wrappers = [one for one in gc.get_objects() if isinstance(one, _lru_cache_wrapper)]
    return [one for one in wrappers if str(one.__module__).startswith("answerkey.")]


def run_mutants(
    mutants: Sequence[Mutant],
    baseline: Baseline,
    files: Sequence[Path],
    jobs: int,
    tell: Callable[[Mutant, Outcome], None],
) -> dict[str, Outcome]:
    """Return the outcome of each mutant by its name."""
    runner = Runner(mutants, baseline, jobs, tell)
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    code = pytest.main([*quiet, *map(str, files)], [runner])
    if code:
        sys.exit(f"pytest ended with {code!r}")
    return runner.outcomes


def _live(
    mutant: Mutant,
    functions: Sequence[FunctionType],
    tests: Sequence[pytest.Item],
    seconds: Sequence[float],
    writing: int,
) -> None:
    """Be the mutant: end with 1 when a test notices, with 0 when none does; never return."""
    code, killer = 1, ""
    try:
        os.setpgrp()
        _limit_memory()
        compiled = compile_mutant(mutant)
        for function in functions:
            function.__code__ = compiled
        for place, test in enumerate(tests):
            _limit_seconds(seconds[place])
            killer = test.nodeid
            following = tests[place + 1] if place + 1 < len(tests) else None
            if any(report.failed for report in runtestprotocol(test, log=False, nextitem=following)):
                break
        else:
            code = 0
    finally:
        os.write(writing, killer.encode())
        os._exit(code)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_seconds(usual: float) -> None:
    """Let the kernel end this process when a test takes far longer than it usually does."""
    signal.setitimer(signal.ITIMER_PROF, TIMES * usual + MORE)
    signal.setitimer(signal.ITIMER_REAL, TIMES * usual + WALL_MORE)
