from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from answerkey.engines import Engine, open_engine
from answerkey.engines.ray_engine import RayEngine
from answerkey.testing import TestServer, answer_by_hash

if importlib.util.find_spec("ray") is None:
    pytest.skip("needs `answerkey[ray]`", allow_module_level=True)


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
    for (
        process
    ) in processes:  # Ray ends its own and does not wait for them; other tests have theirs
        if "/ray/" in str(process.args)[:200] and "answerkey" not in str(process.args):
            process.wait(300)


def test_our_cluster_keeps_to_loopback(engine: Engine) -> None:
    """No process of the cluster listens on an address that another machine can reach."""
    assert list(engine.map(abs, [-1], spread="processes")) == [1]
    result = _list_listeners(_list_processes())
    assert result
    assert {one for one in result if not one.startswith(LOOPBACK)} == set()


def test_a_worker_killed_by_chance_costs_a_try_and_order_is_kept(
    engine: RayEngine,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What Ray says of it is logged.

    Work that stays alone, and a function that cannot be sent, is done here.
    """
    function = partial(end_once, str(tmp_path / "once"))
    assert list(engine.map(function, [5, 0, 7], spread="apart")) == [5, 0, 7]
    assert (tmp_path / "once").exists()
    printed = capfd.readouterr()
    assert "(raylet)" not in printed.out + printed.err
    assert list(engine.map(os.getsid, [0])) == [os.getsid(0)]
    assert list(engine.map(lambda _: os.getpid(), [0, 1], spread="apart")) == [os.getpid()] * 2


def end_once(file: str, number: int) -> int:
    """Return the number; the first time that it is 0, end the process."""
    if number == 0 and not Path(file).exists():
        Path(file).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


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
    """Code that fails on the first 50 samples alike is run on no others, as on this machine
    alone.
    """
    snippet = "def compute_scores(sample, output):\n    return {'x': sample['nope']}\n"
    metrics = [{"type": "mean", "field": "x"}]
    scorer = {"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}
    task = {
        "key": "t",
        "display_name": "T",
        "description": "D",
        "definition": {"scorers": [scorer]},
    }
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    (tmp_path / "rows.jsonl").write_text('{"completion": "A"}\n' * 80)
    monkeypatch.chdir(tmp_path)
    words = ("score", "task.yaml", "--dataset", "rows.jsonl", "--trust-code", "--json")
    far, here = call(*words, "--engine", "ray", "--out", "far"), call(*words, "--out", "here")
    assert (far.code, here.code) == (3, 3)
    assert far.json["tasks"] == here.json["tasks"]
    assert far.json["tasks"][0]["tally"]["failed"]["STOPPED_EARLY"]["count"] == 30


LIVE_TASK: dict[str, Any] = {
    "key": "t",
    "display_name": "T",
    "description": "D",
    "definition": {
        "solver": {
            "type": "single_turn_solver",
            "input_builder": {
                "type": "chat_completion",
                "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
            },
        },
        "scorers": [
            {"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": ["A", "B"]}
        ],
    },
}


@pytest.mark.usefixtures("engine")
def test_a_live_run_calls_the_model_once_for_each_sample(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the run makes the calls; numbers are those of a run without Ray."""
    (tmp_path / "task.yaml").write_text(json.dumps(LIVE_TASK))
    rows = [json.dumps({"question": f"question {number}"}) for number in range(40)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    with TestServer(answer_by_hash(["A", "B"])) as server:
        words = ["run", "task.yaml", "--dataset", "rows.jsonl", "--model", f"{server.url}#m"]
        words += ["--cache-policy", "no-cache", "--json"]
        far = call(*words, "--engine", "ray", "--out", "far")
        assert server.asked.total == 40
        here = call(*words, "--out", "here")
    assert (far.code, here.code) == (0, 0)
    assert far.json["tasks"][0]["metrics"] == here.json["tasks"][0]["metrics"]
