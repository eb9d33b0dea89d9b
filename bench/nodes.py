"""Ray nodes on loopback, and commands that are measured on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from measuring import HERE
from polling import Poll

SCRIPT = HERE.parent / "scripts" / "ray_nodes.py"
#: How often a command is looked at, by whoever wants to kill something.
PAUSE = 0.02


@dataclass(frozen=True)
class Nodes:
    """Nodes that are up: how they are named on a command line, their processes, and how to add
    one.
    """

    words: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    holder: int | None = None
    raylets: Sequence[int] = ()
    add: Callable[[], None] = lambda: None


#: No nodes: the command does without, or starts its own.
NO_NODES = Nodes()


@contextmanager
def start_nodes(
    count: int, cpus: int = 1, extra: Mapping[str, str] | None = None
) -> Iterator[Nodes]:
    """Yield this many nodes on this machine."""
    environment = {**os.environ, **(extra or {})}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    command = [sys.executable, str(SCRIPT), str(count), str(cpus)]
    with subprocess.Popen(command, env=environment, **pipes) as process:  # noqa: S603 - our own script
        try:
            cluster = json.loads(process.stdout.readline())
            words = ("--engine", "ray", "--ray-address", cluster["address"])
            secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": cluster["token"]}

            def add() -> None:
                process.stdin.write(b"one more\n")
                process.stdin.flush()
                process.stdout.readline()

            yield Nodes(
                words, {**secret, **(extra or {})}, process.pid, tuple(cluster["raylets"]), add
            )
        finally:
            process.stdin.close()
            process.wait(60)


@dataclass(frozen=True)
class Spent:
    """What a command took: CPU seconds of all processes, those of its own main process, and wall
    seconds.
    """

    cpu: float
    main: float
    wall: float


def run_answerkey(
    words: Sequence[str], nodes: Nodes = NO_NODES, meanwhile: Callable[[], None] | None = None
) -> Spent:
    """Run an answerkey command on nodes.

    `meanwhile` is called again and again while it runs.
    """
    environment = {**os.environ, **nodes.environment}
    with tempfile.TemporaryFile("w+") as output:
        begun = time.perf_counter()
        command = [sys.executable, "-m", "answerkey", *words, *nodes.words]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)  # noqa: S603 - our own command
        poll = Poll([process.pid] + ([nodes.holder] if nodes.holder else []))
        poll.start()
        while process.poll() is None:
            if meanwhile is not None:
                meanwhile()
            time.sleep(PAUSE)
        wall = time.perf_counter() - begun
        poll.end()
        if process.returncode:
            output.seek(0)
            raise SystemExit(
                f"{' '.join(words)}\nended with {process.returncode}:\n{output.read()[-4000:]}"
            )
    return Spent(poll.sum_seconds(), poll.sum_seconds(process.pid), wall)


def count_parts(folder: Path) -> int:
    """Return how many parts of tables lie below a folder."""
    return sum(1 for _ in folder.rglob("part-*.parquet"))
