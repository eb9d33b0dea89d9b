from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, describe_solver, describe_task, write_rows

from answerkey.engines import Engine, open_engine
from answerkey.engines.ray_engine import RayEngine
from answerkey.testing import TestServer, answer_by_hash

if importlib.util.find_spec("ray") is None:
    pytest.skip("needs `answerkey[ray]`", allow_module_level=True)
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    """Return an engine on a cluster of its own, which is left at the end."""
    opened = open_engine("ray")
    assert isinstance(opened, RayEngine)
    settings = dict(os.environ)
    opened.connect()
    # A name that is added while Polars works ends the process.
    assert os.environ.keys() == settings.keys()
    yield opened
    del opened
    import_module("ray").shutdown()
    processes = [one for one in gc.get_objects() if isinstance(one, subprocess.Popen)]
    for process in processes:  # Ray ends its own and does not wait for them
        if "/ray/" in str(process.args)[:200] and "answerkey" not in str(process.args):
            process.wait(300)


def test_our_cluster_keeps_to_loopback(engine: Engine) -> None:
    """No process of the cluster listens on an address that another machine can reach."""
    assert list(engine.map(abs, [-1], spread="processes")) == [1]
    result = _list_listeners(_list_processes())
    assert result
    assert {address for address in result if not address.startswith(LOOPBACK)} == set()


def test_chunks_come_in_order_without_rows_that_end_workers(
    engine: RayEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """All other rows of their chunk, and all other chunks, are done.

    What Ray says of it is logged. A worker that is killed by chance costs a try. Work that stays
    alone, and a function that cannot be sent, is done here.
    """
    chunks = [Numbers(0, 5, once=str(tmp_path / "once")), Numbers(5, 9), Numbers(9, 11)]
    result = list(engine.map(partial(sum_numbers, frozenset({6})), chunks, spread="apart"))
    assert result == [(10, ()), (5 + 7 + 8, (6,)), (19, ())]
    printed = capfd.readouterr()
    assert "(raylet)" not in printed.out + printed.err
    assert list(engine.map(os.getsid, [0])) == [os.getsid(0)]
    assert list(engine.map(lambda _: os.getpid(), [0, 1], spread="apart")) == [os.getpid()] * 2


@dataclass(frozen=True)
class Numbers:
    """Consecutive numbers, some of which may be withheld.

    The process is ended once at a file `once`.
    """

    start: int
    stop: int
    skipped: tuple[int, ...] = ()
    once: str | None = None

    def split(self, count: int) -> list[Numbers]:
        """Return single numbers."""
        assert count >= self.stop - self.start
        return [Numbers(number, number + 1) for number in range(self.start, self.stop)]

    def skip(self, rows: Sequence[Numbers]) -> Numbers:
        """Return the same without some."""
        return Numbers(self.start, self.stop, tuple(sorted(row.start for row in rows)))


def sum_numbers(deadly: frozenset[int], chunk: Numbers) -> tuple[int, tuple[int, ...]]:
    """Return the sum; end the process at a deadly number."""
    numbers = set(range(chunk.start, chunk.stop)).difference(chunk.skipped)
    is_first = chunk.once is not None and not Path(chunk.once).exists()
    if is_first:
        Path(str(chunk.once)).touch()
    if is_first or numbers & deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return sum(numbers), chunk.skipped


#: 127.0.0.1 as /proc writes it, by itself and as an IPv6 address.
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def _list_processes() -> list[int]:
    """Return this process and all below it."""
    processes, waiting = list[int](), [os.getpid()]
    while waiting:
        processes.append(waiting.pop())
        for children in Path(f"/proc/{processes[-1]}/task").glob("*/children"):
            with suppress(OSError):
                waiting += map(int, children.read_text().split())
    return processes


def _list_listeners(processes: Sequence[int]) -> list[str]:
    """Return the local addresses, in hexadecimal, on which these processes wait for connections."""
    sockets = set[str]()
    for process in processes:
        for handle in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(str(handle.readlink()))
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [words[1] for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets]


@pytest.mark.usefixtures("engine")
def test_useless_runs_stop_too(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that fails on the first 50 samples alike is run on no others, as on this machine
    alone.
    """
    snippet = "def compute_scores(sample, output):\n    return {'x': sample['nope']}\n"
    metrics = [{"type": "mean", "field": "x"}]
    scorer = {"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}
    (tmp_path / "task.yaml").write_text(json.dumps(describe_task(scorers=[scorer])))
    write_rows(tmp_path / "rows.jsonl", [{"completion": "A"}] * 80)
    monkeypatch.chdir(tmp_path)
    words = ("score", "task.yaml", "--dataset", "rows.jsonl", "--trust-code", "--json")
    far, here = call(*words, "--engine", "ray", "--out", "far"), call(*words, "--out", "here")
    assert (far.code, here.code) == (3, 3)
    assert far.json["tasks"] == here.json["tasks"]
    assert far.json["tasks"][0]["tally"]["failed"]["STOPPED_EARLY"]["count"] == 30


@pytest.mark.usefixtures("engine")
def test_one_call_for_a_sample(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the run makes the calls; numbers are those of a run without Ray."""
    task = describe_task(solver=describe_solver(), scorers=[SCORER])
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    rows = [{"question": f"question {number}", "answer": "A"} for number in range(40)]
    write_rows(tmp_path / "rows.jsonl", rows)
    monkeypatch.chdir(tmp_path)
    with TestServer(answer_by_hash(["A", "B"])) as server:
        words = ["run", "task.yaml", "--dataset", "rows.jsonl", "--model", f"{server.url}#m"]
        words += ["--cache-policy", "no-cache", "--json"]
        far = call(*words, "--engine", "ray", "--out", "far")
        assert server.asked.total == 40
        here = call(*words, "--out", "here")
    assert (far.code, here.code) == (0, 0)
    assert far.json["tasks"][0]["metrics"] == here.json["tasks"][0]["metrics"]
