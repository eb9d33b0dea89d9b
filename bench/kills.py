"""Workers and nodes killed in the middle of the work, and a row that ends every process: what comes
of it.

And how many cores of a cluster work while a node is lost and another joins.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import polars as pl
from measuring import HERE
from nodes import PAUSE, Nodes, count_parts, run_answerkey, start_nodes
from polling import read_title, read_trees
from workloads import Case

from answerkey.engines import open_engine

#: Chunks of the timeline: each waits a second, every twelfth five.
CHUNKS = 96
#: Ray's title for a process that works on a chunk.
AT_WORK = "ray::answer_chunk"
DEADLY_ROW = "000777"
DEADLY_ROWS = 40_000
PLUGIN = f'''"""A scorer that ends its process at one row."""

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

from answerkey.scorers import StringEqualsMcqa


@dataclass(frozen=True)
class Deadly(StringEqualsMcqa):
    type: ClassVar[str] = "deadly"

    def score(self, samples, completions):
        if "{DEADLY_ROW}" in set(samples.ids):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().score(samples, completions)
'''


@dataclass
class Assassin:
    """Kills one worker that is at work, and later a whole node that is, with -9."""

    nodes: Nodes
    folder: Path
    first: int
    second: int
    killed: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Kill the worker or the node once its time has come."""
        parts = count_parts(self.folder)
        if not self.killed and parts >= self.first:
            self._kill_worker(parts)
        elif len(self.killed) == 1 and parts >= self.second:
            self._kill_node(parts)

    def _kill_worker(self, parts: int) -> None:
        for process in read_trees(self.nodes.raylets):
            if read_title(process).startswith(AT_WORK):
                os.kill(process, signal.SIGKILL)
                self.killed.append(f"a worker after {parts} parts")
                return

    def _kill_node(self, parts: int) -> None:
        node = read_trees(self.nodes.raylets[1:])
        if not any(read_title(process).startswith(AT_WORK) for process in node):
            return
        for process in node:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self.killed.append(f"a node of {len(node)} processes after {parts} parts")


def hash_tables(run: Path) -> str:
    """Return a hash of all tables and metrics of a run."""
    digest = sha256()
    for path in sorted((run / "tasks").rglob("*")):
        if path.suffix in {".parquet", ".json"} and path.name != "task.json":
            digest.update(path.relative_to(run).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def try_kills(folder: Path, words: list[str], rows: int) -> bool:
    """Kill a worker and a node in the middle.

    Say what came of it, and return whether it is exact.
    """
    whole, work = folder / "whole", folder / "killed"
    run_answerkey([*words, "--out", str(whole)])
    parts = count_parts(whole)
    with start_nodes(2) as nodes:
        assassin = Assassin(nodes, work, max(1, parts // 4), max(2, parts // 2))
        spent = run_answerkey([*words, "--out", str(work / "run")], nodes, assassin.look)
    scores = pl.scan_parquet(work / "run" / "tasks" / "*" / "scores" / "*.parquet").select(
        "sample_id"
    )
    ids = scores.select(pl.len(), pl.col("sample_id").n_unique().alias("distinct")).collect().row(0)
    is_exact = hash_tables(whole) == hash_tables(work / "run") and ids == (rows, rows)
    print(f"killed: {'; '.join(assassin.killed)}; {spent.wall:.0f} s")
    print(
        f"{ids[0]} rows, {ids[1]} distinct ids; tables equal to those of the local "
        f"engine: {is_exact}"
    )
    return is_exact and len(assassin.killed) == 2  # noqa: PLR2004 - a worker and a node


def try_deadly_row(folder: Path, dataset: Path) -> bool:
    """Score rows of which one ends its process; return whether all others have their score."""
    plugin = folder / "plugin"
    metadata = plugin / "deadly-1.dist-info"
    metadata.mkdir(parents=True)
    (plugin / "deadly.py").write_text(PLUGIN)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[answerkey.scorers]\ndeadly = deadly:Deadly\n")
    task = Case(DEADLY_ROWS).describe_task()
    task["definition"]["scorers"][0]["type"] = "deadly"
    (folder / "deadly.yaml").write_text(json.dumps(task))
    environment = {"PYTHONPATH": os.pathsep.join([str(plugin), os.environ.get("PYTHONPATH", "")])}
    words = [
        "score",
        str(folder / "deadly.yaml"),
        "--dataset",
        str(dataset),
        "--out",
        str(folder / "deadly"),
    ]
    with start_nodes(2, extra=environment) as nodes:
        spent = run_answerkey([*words, "--trust-code", "--allow-failed", "1"], nodes)
    scores = pl.read_parquet(folder / "deadly" / "tasks" / "*" / "scores" / "*.parquet")
    status = pl.col(scores.columns[-1]).struct.field("status")
    failed = scores.filter(status == "FAILED")["sample_id"].to_list()
    scored = scores.filter(status == "SCORED").height
    shutil.rmtree(plugin)
    print(f"{scored} rows scored, FAILED: {failed}; {spent.wall:.0f} s")
    return (scored, failed) == (DEADLY_ROWS - 1, [DEADLY_ROW])


def wait_and_note(folder: Path, chunk: int) -> int:
    """Wait as long as a chunk would run, and record its start and end."""
    mark = folder / f"{chunk}-{time.time_ns()}"
    mark.with_suffix(".begun").write_text(str(time.time()))
    time.sleep(5.0 if chunk % 12 == 5 else 1.0)  # noqa: PLR2004 - stragglers
    mark.with_suffix(".ended").write_text(str(time.time()))
    return chunk


def draw_timeline(folder: Path) -> None:
    """Print how many of 8 cores of 4 nodes work each second.

    A node is lost, and later one joins.
    """
    environment = {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    begun, marks = 0.0, list[tuple[float, str]]()
    with start_nodes(4, cpus=2, extra=environment) as nodes:
        os.environ |= nodes.environment

        def change_nodes() -> None:
            for share, event in ((4, "node lost"), (2, "node joined")):
                while sum(1 for _ in folder.glob("*.ended")) < CHUNKS // share:
                    time.sleep(PAUSE)
                if event == "node joined":
                    nodes.add()
                else:
                    for process in read_trees(nodes.raylets[3:]):
                        with suppress(OSError):
                            os.kill(process, signal.SIGKILL)
                marks.append((time.time() - begun, event))

        engine = open_engine("ray", nodes.words[-1])
        list(engine.map(time.sleep, [0.5] * 16, spread="apart"))  # workers are there
        begun = time.time()
        watch = threading.Thread(target=change_nodes)
        watch.start()
        result = list(engine.map(partial(wait_and_note, folder), range(CHUNKS), spread="apart"))
        wall = time.time() - begun
        watch.join()
        del engine
    lost = begun + marks[0][0]
    spans = []
    for path in folder.glob("*.begun"):
        end = path.with_suffix(".ended")
        spans.append((float(path.read_text()), float(end.read_text()) if end.exists() else lost))
    steps = [begun + second for second in range(int(wall) + 2)]
    busy = [
        sum(max(0.0, min(end, stop) - max(start, first)) for first, end in spans)
        for start, stop in pairwise(steps)
    ]
    events = ", ".join(f"{event} after {at:.0f} s" for at, event in marks)
    is_exact = result == list(range(CHUNKS))
    print(f"{len(spans)} tries for {CHUNKS} chunks in {wall:.0f} s, in order: {is_exact}; {events}")
    print(f"busy cores, second by second: {' '.join(f'{cores:.0f}' for cores in busy)}")
