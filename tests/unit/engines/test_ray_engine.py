from __future__ import annotations

import gc
import importlib.util
import json
import operator
import os
import pickle
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from answerkey._version import __version__
from answerkey.engines import Engine, open_engine
from answerkey.engines.ray_engine import ActorObject, RayEngine
from answerkey.models.actors import ActorLostError

if importlib.util.find_spec("ray") is None:
    pytest.skip("needs `answerkey[ray]`", allow_module_level=True)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayEngine]:
    """Return an engine on a cluster of its own, which is left at the end."""
    opened = open_engine("ray")
    assert isinstance(opened, RayEngine)
    with pytest.MonkeyPatch.context() as patch:
        messages = opened._connect().messages
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("ray")))
        assert Path(messages.keep()).is_file()
    yield opened
    del opened, messages
    import_module("ray").shutdown()
    processes = [one for one in gc.get_objects() if isinstance(one, subprocess.Popen)]
    for one in processes:  # Ray ends its own and does not wait for them; other tests have theirs
        if "/ray/" in str(one.args)[:200] and "answerkey" not in str(one.args):
            one.wait(300)


def test_our_cluster_keeps_to_loopback(engine: Engine) -> None:
    """No process of the cluster listens on an address that another machine can reach."""
    assert list(engine.map(abs, [-1], spread="processes")) == [1]
    found = _list_listeners(_list_processes())
    assert found
    assert {one for one in found if not one.startswith(LOOPBACK)} == set()


def test_an_object_lives_on_a_node(engine: Engine) -> None:
    """Its methods are called from here; when its process is ended, who calls learns that it is lost."""
    assert engine.actors is not None
    (node,) = engine.actors.list_nodes()
    held = engine.actors.open(node, partial(operator.add, "node "))
    assert held.call("upper").result(120) == "NODE 127.0.0.1"
    with pytest.raises(ValueError, match="substring not found"):
        held.call("index", "x").result(120)
    held.close()
    # Ray ends the process when it comes to it: a call or two may still be answered.
    with pytest.raises(ActorLostError):
        _ = [held.call("upper").result(120) for _ in range(1_000)]


def test_shards_come_in_order_without_rows_that_end_workers(
    engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All other rows of their shard, and all other shards, are done; what Ray says of it is in a file.

    A worker that is killed by chance costs a try. Work that stays alone, and a function that cannot be sent,
    is done here.
    """
    messages, printer, told = engine._connect().messages, import_module("ray._private.worker"), Event()
    assert printer.print_worker_logs == messages.write

    def write(message: dict[str, Any], *given: object) -> None:
        messages.write(message, *given)
        told.set()

    monkeypatch.setattr(printer, "print_worker_logs", write)
    shards = [Numbers(0, 5, once=str(tmp_path / "once")), Numbers(5, 9), Numbers(9, 11)]
    found = list(engine.map(partial(sum_numbers, frozenset({6})), shards, spread="apart"))
    assert found == [(10, ()), (5 + 7 + 8, (6,)), (19, ())]
    assert told.wait(120)
    assert "A worker died or was killed" in Path(messages.keep()).read_text()
    said = capfd.readouterr()
    assert "(raylet)" not in said.out + said.err
    assert list(engine.map(os.getsid, [0])) == [os.getsid(0)]
    assert list(engine.map(lambda _: os.getpid(), [0, 1], spread="threads")) == [os.getpid()] * 2


@dataclass(frozen=True)
class Numbers:
    """Consecutive numbers, some of which may be withheld; the process is ended once at a file `once`."""

    start: int
    stop: int
    skipped: tuple[int, ...] = ()
    once: str | None = None

    def split(self, count: int) -> list[Numbers]:
        """Return single numbers."""
        assert count >= self.stop - self.start
        return [Numbers(one, one + 1) for one in range(self.start, self.stop)]

    def skip(self, rows: Sequence[Numbers]) -> Numbers:
        """Return the same without some."""
        return Numbers(self.start, self.stop, tuple(sorted(one.start for one in rows)))


def sum_numbers(deadly: frozenset[int], shard: Numbers) -> tuple[int, tuple[int, ...]]:
    """Return the sum; end the process at a deadly number."""
    numbers = set(range(shard.start, shard.stop)).difference(shard.skipped)
    is_first = shard.once is not None and not Path(shard.once).exists()
    if is_first:
        Path(str(shard.once)).touch()
    if is_first or numbers & deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return sum(numbers), shard.skipped


#: 127.0.0.1 as /proc writes it, by itself and as an IPv6 address.
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def _list_processes() -> list[int]:
    """Return this process and all below it."""
    found, waiting = list[int](), [os.getpid()]
    while waiting:
        found.append(waiting.pop())
        for children in Path(f"/proc/{found[-1]}/task").glob("*/children"):
            with suppress(OSError):
                waiting += map(int, children.read_text().split())
    return found


def _list_listeners(processes: Sequence[int]) -> list[str]:
    """Return the local addresses, in hexadecimal, on which these processes wait for connections."""
    sockets = set[str]()
    for process in processes:
        for handle in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(str(handle.readlink()))
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return [words[1] for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets]


@pytest.mark.usefixtures("engine")
def test_a_run_that_scores_nothing_stops_here_too(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that fails on the first 50 samples alike is run on no others, as on this machine alone."""
    snippet = "def compute_scores(sample, output):\n    return {'x': sample['nope']}\n"
    metrics = [{"type": "mean", "field": "x"}]
    scorer = {"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}
    task = {"key": "t", "display_name": "T", "description": "D", "definition": {"scorers": [scorer]}}
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    (tmp_path / "rows.jsonl").write_text('{"completion": "A"}\n' * 80)
    monkeypatch.chdir(tmp_path)
    words = ("score", "task.yaml", "--dataset", "rows.jsonl", "--trust-code", "--json")
    far, here = call(*words, "--engine", "ray", "--out", "far"), call(*words, "--out", "here")
    assert (far.code, here.code) == (3, 3)
    assert far.json["tasks"] == here.json["tasks"]
    assert far.json["tasks"][0]["tally"]["failed"]["STOPPED_EARLY"]["count"] == 30


def ask(held: ActorObject, method: str, *given: object) -> Any:  # noqa: ANN401 - kind and value
    """Return the answer of an object."""
    return pickle.loads(held.call(method, pickle.dumps(given)))  # noqa: S301 - our own


def open_object(build: bytes, version: str = __version__) -> ActorObject:
    """Return an object as an actor holds it, on the node 10.0.0.7."""
    held = ActorObject()
    held.open(version, build, "10.0.0.7")
    return held


def test_an_object_is_built_with_the_address_of_its_node() -> None:
    """Its methods are called, and what they return or raise comes back."""
    held = open_object(pickle.dumps(partial(operator.add, "node ")))
    assert ask(held, "upper") == ("value", "NODE 10.0.0.7")
    kind, error = ask(held, "index", "x")
    assert (kind, type(error)) == ("error", ValueError)


@pytest.mark.parametrize(
    ("build", "version", "kind", "words"),
    [
        # A node with another answerkey does nothing, and every call says so.
        (b"", "0.0.1", "error", "E601.*a node has answerkey"),
        # A package that is missing there is the answer.
        (
            pickle.dumps(operator.add).replace(b"_operator", b"_operatox"),
            __version__,
            "unknown",
            "No module named '_operatox'",
        ),
        # An error is not lost because nobody waits for it.
        (pickle.dumps(int), __version__, "error", "invalid literal"),
    ],
)
def test_what_cannot_be_built_is_the_answer_to_every_call(
    build: bytes, version: str, kind: str, words: str
) -> None:
    """Whoever calls learns why there is no object."""
    held = open_object(build, version)
    for _ in range(2):
        found, error = ask(held, "upper")
        assert found == kind
        assert re.search(words, str(error))
