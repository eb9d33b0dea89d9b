"""CPU seconds of process trees, measured by polling.

What a process has used is asked of itself, not of its parent: most of Ray's processes are never
waited for, and a parent does not know of them. What a process uses after the last look at it is
missed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAUSE = 0.05


def read_processes() -> dict[int, tuple[int, float]]:
    """Return the parent and the CPU seconds of every process of this machine."""
    results = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            results[int(folder.name)] = int(words[1]), (int(words[11]) + int(words[12])) / TICKS
    return results


def read_trees(roots: Sequence[int]) -> dict[int, float]:
    """Return the CPU seconds of these processes and their living descendants."""
    processes = read_processes()
    children: dict[int, list[int]] = {}
    for process, (parent, _) in processes.items():
        children.setdefault(parent, []).append(process)
    results: dict[int, float] = {}
    waiting = [root for root in roots if root in processes]
    while waiting:
        process = waiting.pop()
        if process not in results:
            results[process] = processes[process][1]
            waiting += children.get(process, [])
    return results


def read_title(process: int) -> str:
    """Return the title of a process; Ray writes there what it is doing."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class Poll(threading.Thread):
    """Polls process trees until it is stopped, and sums the CPU time they use meanwhile."""

    def __init__(self, roots: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self.roots = list(roots)
        self._before = read_trees(self.roots)
        self._last = dict(self._before)
        self._ended = threading.Event()

    def run(self) -> None:
        """Poll until stopped."""
        while not self._ended.wait(PAUSE):
            self.look()

    def look(self) -> None:
        """Poll once."""
        self._last.update(read_trees(self.roots))

    def end(self) -> None:
        """Stop polling."""
        self.look()
        self._ended.set()
        self.join()

    def sum_seconds(self, process: int | None = None) -> float:
        """Return the CPU seconds since the beginning, of all processes or of one."""
        used = {
            process: last - self._before.get(process, 0.0) for process, last in self._last.items()
        }
        return sum(used.values()) if process is None else used.get(process, 0.0)
