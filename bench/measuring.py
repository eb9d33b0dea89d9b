"""What a command costs: wall time, CPU time of all its processes, and the peak memory of the whole
tree.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAUSE = 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """What one process and its descendants cost, start-up and all."""

    wall: float
    cpu: float
    peak: int

    def __sub__(self, earlier: Cost) -> Cost:
        """Return the difference in time to another cost; the memory stays."""
        return Cost(self.wall - earlier.wall, self.cpu - earlier.cpu, self.peak)


def list_tree(root: int) -> list[int]:
    """Return the process and its living descendants; nothing where there is no /proc."""
    result, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        result.append(process)
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            try:
                waiting += map(int, children.read_text().split())
            except OSError:
                continue
    return result


def read_resident(process: int) -> tuple[int, int]:
    """Return the resident memory of a process in bytes, now and at its peak."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {name: words.split() for name, _, words in (line.partition(":") for line in lines)}
    now, most = (int(sizes.get(name, ["0"])[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, most


def read_tree_cpu(root: int) -> float:
    """Return the CPU seconds of a process and its descendants, living and waited for."""
    total = 0
    for process in list_tree(root):
        try:
            words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, words[11:15]))
    return total / TICKS


class Watcher(threading.Thread):
    """Polls a process tree, and remembers the most memory it held."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.peak, self.ended = root, 0, threading.Event()

    def run(self) -> None:
        """Look until the tree has ended, more often at the beginning: some commands are short."""
        pause = PAUSE / 10
        while not self.ended.is_set():
            sizes = [read_resident(process) for process in list_tree(self.root)]
            together = sum(now for now, _ in sizes)
            alone = max((most for _, most in sizes), default=0)
            self.peak = max(self.peak, together, alone)
            self.ended.wait(pause)
            pause = min(PAUSE, pause * 1.2)


def run_command(words: Sequence[str], extra: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and return its cost; what it prints is shown only when it fails."""
    environment = {**os.environ, **(extra or {})}
    # An installed package has its bytecode; a checkout keeps it from the first command on.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile("w+") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - the bench's own commands
            words, stdout=output, stderr=output, env=environment
        )
        watcher = Watcher(process.pid)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        watcher.ended.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(
                f"{' '.join(words)}\nended with {process.returncode}:\n{output.read()[-4000:]}"
            )
    return Cost(wall, usage.ru_utime + usage.ru_stime, watcher.peak or usage.ru_maxrss * 1024)


def take_best(costs: Sequence[Cost]) -> Cost:
    """Return the least of each number over several turns: what disturbs a measurement only adds to
    it.
    """
    return Cost(*(min(getattr(cost, name) for cost in costs) for name in ("wall", "cpu", "peak")))
