"""How chunks are handed out to a Ray cluster, without Ray: a stand-in of its few calls counts busy
cores.
"""

from __future__ import annotations

import logging
import operator
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from answerkey._version import __version__
from answerkey.engines import ray_engine
from answerkey.engines.ray_engine import (
    MIN_CORES,
    NODE_TRIES,
    Dispatch,
    answer_chunk,
)
from answerkey.errors import DataError, EngineError, raise_all


class RayError(Exception):
    """What Ray raises."""


class NodeDiedError(RayError):
    """A node is lost."""


class WorkerCrashedError(RayError):
    """A process is."""


class Exceptions:
    """The names of `ray.exceptions` that are used."""

    RayError = RayError
    NodeDiedError = ObjectLostError = OwnerDiedError = ObjectFetchTimedOutError = NodeDiedError
    WorkerCrashedError = OutOfMemoryError = WorkerCrashedError


@dataclass(eq=False)
class Task:
    """A task that was handed in, and how many ticks it still needs."""

    given: tuple[Any, ...]
    chunk: Any
    is_search: bool
    left: int = 1
    answer: bytes | RayError | None = None


class FakeRay:
    """Cores that work in ticks, on the tasks that came first; a tick passes when nothing is done.

    `fail` says what becomes of a task instead of its value, `ticks` how long it takes, and `change`
    sets `cores` anew at the beginning of a tick. `busy` has how many cores worked in each tick, and
    how many tasks waited for one.
    """

    exceptions = Exceptions

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.tasks: list[Task] = []
        self.cancelled: list[Task] = []
        self.busy: list[int] = []
        self.pending: list[int] = []
        self.tries: Counter[Any] = Counter()
        self.found: list[Any] = []
        self.ticks: Callable[[Any], int] = lambda _: 1
        self.fail: Callable[[Task], RayError | None] = lambda _: None
        self.change: Callable[[int], int | None] = lambda _: None

    def remote(self, **settings: object) -> Callable[[Any], FakeFunction]:
        """Return what makes a function of this cluster."""
        assert settings == {"num_cpus": 1, "max_retries": 0}
        return partial(FakeFunction, self)

    def put(self, value: bytes) -> bytes:
        """Return the value."""
        return value

    def cluster_resources(self) -> dict[str, float]:
        """Return the cores; none is not named."""
        return {"CPU": float(self.cores)} if self.cores else {}

    def wait(
        self, tasks: Sequence[Task], *, num_returns: int, timeout: float
    ) -> tuple[list[Task], None]:
        """Return tasks that are done."""
        if timeout and all(task.answer is None for task in tasks):
            self._tick()
        return [task for task in tasks if task.answer is not None][:num_returns], None

    def get(self, task: Task) -> bytes:
        """Return the answer, or raise what came in its place."""
        assert task.answer is not None
        if isinstance(task.answer, RayError):
            raise task.answer
        return task.answer

    def cancel(self, task: Task, *, force: bool) -> None:
        """Note it."""
        assert force
        self.cancelled.append(task)

    def _tick(self) -> None:
        now = len(self.busy)
        cores = self.change(now)
        lost: list[Task] = []
        if cores is not None:
            lost = self.tasks[cores : self.cores]
            self.cores = cores
        for ref in lost:
            self._end(ref, NodeDiedError("lost"))
        working = self.tasks[: self.cores]
        self.busy.append(len(working))
        self.pending.append(len(self.tasks) - len(working))
        for ref in working:
            ref.left -= 1
            failure = self.fail(ref)
            if failure is not None or ref.left <= 0:
                self._end(ref, failure)

    def _end(self, task: Task, failure: RayError | None) -> None:
        self.tasks.remove(task)
        if failure is not None:
            task.answer = failure
        elif task.is_search:
            task.answer = pickle.dumps(("value", self.found))
        else:
            task.answer = answer_chunk(*task.given, is_search=False)


@dataclass
class FakeFunction:
    """A function that can be handed to the cluster."""

    ray: FakeRay
    function: Callable[..., bytes]

    def remote(self, version: str, function: bytes, chunk: bytes, *, is_search: bool) -> Task:
        """Hand in a task."""
        read = pickle.loads(chunk)  # noqa: S301 - our own
        task = Task((version, function, chunk), read, is_search)
        task.left = self.ray.ticks(task.chunk)
        self.ray.tries[task.chunk] += 1
        self.ray.tasks.append(task)
        return task


@pytest.fixture(autouse=True)
def _every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores are counted whenever there is something to do."""
    monkeypatch.setattr(ray_engine, "COUNT_SECONDS", 1e-9)


def run(ray: FakeRay, chunks: Any, function: Callable[[Any], object] | None = None) -> list[Any]:  # noqa: ANN401 - whatever they are
    """Return the results of the chunks; ten times each by default."""
    payload = pickle.dumps(function or partial(operator.mul, 10))
    return list(Dispatch(ray, payload).map(chunks))


def test_a_lost_node_costs_no_other_core_a_tick() -> None:
    """The chunks of all its cores are handed out again at once, and only what is yielded is in
    order.
    """
    ray = FakeRay(16)
    ray.change = lambda now: 12 if now == 3 else None
    assert run(ray, range(120)) == [10 * chunk for chunk in range(120)]
    assert ray.busy == [16] * 3 + [12] * 6
    assert ray.tries == Counter(range(120)) + Counter(range(60, 64))


def test_a_straggler_keeps_nobody_waiting() -> None:
    """Chunks after a slow one are done meanwhile, as many as there are."""
    ray = FakeRay(10)
    ray.ticks = lambda chunk: 30 if chunk == 0 else 1
    assert run(ray, range(271)) == [10 * chunk for chunk in range(271)]
    assert ray.busy == [10] * 30


def test_nodes_that_join_a_run_are_used() -> None:
    """There is work for them in the tick in which they come."""
    ray = FakeRay(2)
    ray.change = {2: 10, 5: 40}.get
    run(ray, range(500))
    assert ray.busy[:8] == [2, 2, 10, 10, 10, 20, 40, 40]


def test_cores_are_counted_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each chunk: it is a question to the cluster."""
    monkeypatch.setattr(ray_engine, "COUNT_SECONDS", 1_000.0)
    ray = FakeRay(MIN_CORES)
    ray.change = {1: 40}.get
    run(ray, range(100))
    assert ray.busy[:3] == [MIN_CORES, 2 * MIN_CORES, 2 * MIN_CORES]


def test_an_autoscaler_sees_tasks_that_wait() -> None:
    """Even if there is no node yet; never more than the number of cores, or a few."""
    ray = FakeRay(0)
    ray.change = {3: 2, 6: 40}.get
    run(ray, range(1_000))
    assert ray.pending[:6] == [2 * MIN_CORES] * 3 + [2 * MIN_CORES - 2] * 3
    assert set(ray.pending[7:-3]) == {40}


def test_what_waits_for_an_earlier_chunk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the first is done, answers up to the limit in bytes are held, and at least one for each
    slot.
    """
    monkeypatch.setattr(ray_engine, "MAX_HELD_BYTES", 20_000)
    read: list[bytes] = []

    def chunks() -> Iterator[bytes]:
        for number in range(1_000):
            read.append(b"%0976d" % number)
            yield read[-1]

    ray = FakeRay(4)
    ray.ticks = lambda chunk: 100 if int(chunk) == 0 else 1
    result = Dispatch(ray, pickle.dumps(bytes)).map(chunks())
    assert int(next(result)) == 0
    assert 21 <= len(read) <= 20 + 2 * MIN_CORES
    assert [int(one) for one in result] == list(range(1, 1_000))


def test_an_error_of_a_chunk_comes_in_its_turn() -> None:
    """What is before it is given back, and what is under way is cancelled."""
    ray = FakeRay(2)
    chunks = [(), (DataError("E202", "bad"),), *[()] * 50]
    result = Dispatch(ray, pickle.dumps(raise_all)).map(chunks)
    assert next(result) is None
    with pytest.raises(DataError, match="bad"):
        next(result)
    assert list(result) == []
    assert ray.cancelled
    assert ray.tries.total() < 52


@pytest.mark.parametrize(
    ("error", "tries", "words"),
    [
        (WorkerCrashedError("died"), 3, r"E602.*ended 3 workers.*died.*(?s:.*)Ray's messages"),
        (NodeDiedError("gone"), NODE_TRIES, r"E602.*a chunk lost 12 nodes: gone"),
        (RayError("what\never"), 1, r"E602.*Ray failed: what"),
    ],
)
def test_a_chunk_is_given_up_after_some_tries(
    error: RayError, tries: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised in its turn, and nothing new is begun when it is known."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ray = FakeRay(1)
    ray.fail = lambda task: error if task.chunk == 5 else None
    with pytest.raises(EngineError, match=words):
        run(ray, range(1_000))
    assert (ray.tries[5], ray.tries[999]) == (tries, 0)


def test_a_worker_killed_by_chance_costs_a_try() -> None:
    """Twice, a chunk is done again."""
    ray = FakeRay(3)
    ray.fail = lambda task: WorkerCrashedError() if task.chunk == 3 and ray.tries[3] < 3 else None
    assert run(ray, range(6)) == [0, 10, 20, 30, 40, 50]


@dataclass(frozen=True)
class Rows:
    """A chunk that can be searched."""

    numbers: tuple[int, ...]

    def skip(self, rows: Sequence[int]) -> Rows:
        """Return the others."""
        return Rows(tuple(number for number in self.numbers if number not in rows))


def sum_rows(chunk: Rows) -> int:
    """Return the sum."""
    return sum(chunk.numbers)


def test_rows_that_end_workers_are_searched_for_while_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After two workers the chunk is searched, then done without them.

    The file with Ray's words is named.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ray, bad = FakeRay(2), Rows((1, 2, 3))
    ray.found = [2]
    crash = WorkerCrashedError()
    ray.fail = lambda task: crash if task.chunk == bad and not task.is_search else None
    ray.ticks = lambda chunk: 5 if chunk == bad and ray.tries[bad] == 2 else 1
    with caplog.at_level(logging.WARNING):
        result = run(ray, [bad, *(Rows((number,)) for number in range(20))], sum_rows)
    assert result == [4, *range(20)]
    assert (ray.tries[bad], set(ray.busy[:11])) == (3, {2})
    assert caplog.messages == ["rows that end their worker are FAILED (ENDED_WORKER): 1"]


@pytest.mark.parametrize("deaths", [2, 99])
def test_a_chunk_in_which_no_row_is_to_blame_has_one_more_try(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is done, or given up; a search that is cut off is begun again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ray, bad = FakeRay(2), Rows((1, 2))

    def fail(task: Task) -> RayError | None:
        if task.is_search:
            return NodeDiedError() if ray.tries[bad] == 3 else None
        return WorkerCrashedError() if ray.tries[bad] <= deaths else None

    ray.fail = fail
    if deaths == 2:
        assert run(ray, [bad], sum_rows) == [3]
    else:
        with pytest.raises(EngineError, match="no row of it did alone"):
            run(ray, [bad], sum_rows)
    assert ray.tries[bad] == 5


@pytest.mark.parametrize("is_search", [False, True])
def test_a_node_with_another_version_does_nothing(*, is_search: bool) -> None:
    """The answer says so."""
    with pytest.raises(EngineError, match=r"E601.*a node has answerkey"):
        ray_engine.open_node_answer(answer_chunk("0.0.1", b"", b"", is_search=is_search))


def test_a_missing_package_on_a_node_is_reported() -> None:
    """It is E601, which names the package."""
    function = pickle.dumps(operator.add).replace(b"_operator", b"_operatox")
    answer = answer_chunk(__version__, function, pickle.dumps(1), is_search=False)
    reason = r"E601.*cannot load the work: No module named '_operatox'"
    with pytest.raises(EngineError, match=reason):
        ray_engine.open_node_answer(answer)


def test_the_answer_to_a_search_is_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were found in a process of its own."""
    monkeypatch.setattr(ray_engine, "find_deadly_rows", lambda function, chunk: [function, chunk])
    answer = answer_chunk(__version__, b"f", pickle.dumps(7), is_search=True)
    assert ray_engine.open_node_answer(answer) == [b"f", 7]
