from __future__ import annotations

import importlib
import operator
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import get_args

import pytest

from answerkey.engines import Spread, local, open_engine
from answerkey.engines.local import find_deadly_rows, map_processes
from answerkey.errors import DataError, EngineError, Place, raise_all

SPREADS: tuple[Spread, ...] = get_args(Spread)


@pytest.mark.parametrize("spread", SPREADS)
def test_every_spread_keeps_chunk_order(spread: Spread) -> None:
    """What comes back is in the order of the chunks, wherever the work is done; nothing of nothing.

    An error in a chunk reaches the caller as it is, after the values before it, and nothing
    follows.
    """
    assert list(open_engine().map(abs, [], spread=spread)) == []
    result = open_engine().map(partial(operator.mul, 10), range(20), spread=spread)
    assert list(result) == [10 * chunk for chunk in range(20)]
    result = open_engine().map(partial(operator.floordiv, 12), [3, 4, 0, 6], spread=spread)
    assert [next(result), next(result)] == [4, 3]
    with pytest.raises(ZeroDivisionError):
        next(result)
    assert list(result) == []


def test_chunks_are_handed_out_as_they_are_needed() -> None:
    """No more chunks are read than twice the processes beyond the last value that was taken."""
    read: list[int] = []

    def chunks() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    values = map_processes(abs, chunks(), 2)
    assert next(values) == 0
    assert len(read) <= 5
    values.close()  # type: ignore[attr-defined]  # a generator
    assert len(read) <= 5


def test_workers_are_other_processes() -> None:
    """Each has a session of its own, so that Ctrl-C at the keyboard does not reach it.

    A single chunk is worked on here: a process would cost more than the work.
    """
    assert os.getsid(0) not in set(map_processes(os.getsid, [0] * 8, 2))
    assert list(map_processes(os.getsid, [0], 2)) == [os.getsid(0)]


def test_a_function_that_cannot_be_sent_is_run_here() -> None:
    """A function of the caller's own script is not known to another process."""
    assert list(map_processes(lambda chunk: chunk + 1, [1, 2, 3], 2)) == [2, 3, 4]
    assert list(map_processes(_Unknown(), [1, 2, 3], 2)) == [1, 2, 3]


class _Unknown:
    """Can be pickled by reference, but a worker does not know the module of this test."""

    def __call__(self, chunk: int) -> int:
        """Return the chunk."""
        return chunk


def test_an_error_of_ours_travels_whole() -> None:
    """Code, message and hint of an error are the same on both sides."""
    error = DataError("E202", "bad", where=Place("rows.csv", 3), hint="mend it")
    with pytest.raises(DataError) as caught:
        list(map_processes(raise_all, [[], [error]], 2))
    assert str(caught.value) == str(error)


class _Deadly:
    """Ends the process that loads it, before that has read anything else."""

    def __call__(self, chunk: bytes) -> int:
        """Return how long the chunk is."""
        return len(chunk)

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (3,)


@pytest.mark.parametrize(
    ("function", "chunks"),
    [(os._exit, [3, 3]), (_Deadly(), [b"x" * 2_000_000] * 2)],
    ids=["work", "start"],
)
def test_a_dead_worker_is_reported(
    function: Callable[[object], object], chunks: list[object]
) -> None:
    """It is E602, never a broken pipe for what it has not read; no other one is left behind."""
    with pytest.raises(EngineError, match=r"E602.*a worker process ended: exit code 3"):
        list(map_processes(function, chunks, 2))


DEADLY = """
import os
from dataclasses import dataclass

@dataclass(frozen=True)
class Numbers:
    start: int
    stop: int
    log: str

    def split(self, count):
        step = max(1, -(-(self.stop - self.start) // count))
        starts = range(self.start, self.stop, step)
        return [Numbers(one, min(one + step, self.stop), self.log) for one in starts]

def add(chunk):
    with open(chunk.log, "a") as stream:
        print(os.getpid(), chunk.start, chunk.stop, file=stream)
    with open(chunk.log) as stream:
        tries = stream.read().count(" 20 21\\n")
    numbers = range(chunk.start, chunk.stop)
    if 17 in numbers or (20 in numbers and tries < 2):
        os.kill(os.getpid(), 9)
    raise ValueError("an error ends no process")
"""


def test_rows_that_end_a_process_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process tries part after part, and is started again for a part that ended it and, twice,
    its row.

    A row that did once did by chance. If much of the chunk does, the rows are not to blame.
    """
    (tmp_path / "deadly_numbers.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(tmp_path)
    numbers = importlib.import_module("deadly_numbers")
    function, log = pickle.dumps(numbers.add), tmp_path / "log"
    result = find_deadly_rows(function, numbers.Numbers(0, 1_600, str(log)))
    assert [(lost.start, lost.stop) for lost in result] == [(17, 18)]
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len({process for process, *_ in lines}) == 1 + 2 + 1 + 1
    assert len(lines) == 64 + 25 + 1 + 1
    monkeypatch.setattr(local, "MAX_STRETCHES", 0)
    with pytest.raises(EngineError, match=r"E602.*more than 0 stretches"):
        find_deadly_rows(function, numbers.Numbers(16, 19, str(log)))


SCRIPT = """
import sys
from answerkey.engines.local import map_processes
print("begun", flush=True)
for pid in map_processes(eval, ["__import__('os').getpid()"] * 4, 2):
    print(pid, flush=True)
    if "stay" in sys.argv:
        input()
"""


def test_a_script_is_not_run_again(tmp_path: Path) -> None:
    """A program without the usual `if __name__ == "__main__"` can call answerkey."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "script.py")]
    printed = subprocess.check_output(command, text=True, timeout=120)
    assert (printed.count("begun"), len(printed.splitlines())) == (1, 5)


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """They notice by themselves that their parent is gone."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "script.py"), "stay"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        worker = int(parent.stdout.readline())
        parent.kill()
    ends = time.monotonic() + 60
    while Path(f"/proc/{worker}/stat").exists() and time.monotonic() < ends:
        if Path(f"/proc/{worker}/stat").read_text(encoding="utf-8").split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{worker}").exists()


def test_local_engine_reads_one_chunk_at_a_time() -> None:
    """A chunk is read only when the one before it is done."""
    seen: list[str] = []

    def chunks() -> Iterator[int]:
        for number in (1, 2):
            seen.append(f"read {number}")
            yield number

    def work(chunk: int) -> int:
        seen.append(f"work {chunk}")
        return chunk

    assert list(open_engine().map(work, chunks())) == [1, 2]
    assert seen == ["read 1", "work 1", "read 2", "work 2"]


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [
        ("ray", None, "E601.*install it with `pip install ray==2.60.0`$"),
        ("local", "10.0.0.1:6379", "E601.*does not apply to the engine `local`"),
        ("locale", None, r"E601.*did you mean `local`\?$"),
        ("spark", None, "E601.*engines: `local`, `ray`$"),
    ],
)
def test_an_unknown_engine_is_refused(
    name: str, address: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is named, with the way to get it; so is an address that would be ignored."""
    monkeypatch.setattr("answerkey.engines.ray_engine.find_spec", lambda _: None)
    with pytest.raises(EngineError, match=f"(?s){words}"):
        open_engine(name, address)


def test_work_in_this_process_loads_no_multiprocessing() -> None:
    """It is loaded when processes are."""
    script = "import sys, answerkey.engines as e; list(e.open_engine().map(abs, [1]));"
    command = [sys.executable, "-c", f"{script} print('multiprocessing' in sys.modules)"]
    assert subprocess.check_output(command, text=True, timeout=120) == "False\n"
