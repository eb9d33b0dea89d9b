"""Calls per second of a solver that mostly waits, asked from 1, 2, 4 and 8 nodes of a local test cluster.

The endpoint answers after 200 ms, and each node has 32 places: 160 calls a second for each is the most there
can be. The local engine with as many places is the baseline. Time runs from the first request to the last.
What a call costs in CPU time is told by two runs without delay, of few and of many calls.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from nodes import NO_NODES, Nodes, Spent, run_answerkey, start_nodes
from tables import Table

from answerkey.testing import Behaviour, TestServer

DELAY = 0.2
PLACES = 32
WORKERS = (1, 2, 4, 8)
#: Each place asks so many times, the first of them while the number of requests at once still grows.
CALLS_OF_A_PLACE = 40
FEW_CALLS, MANY_CALLS = 2_000, 22_000
COSTING_NODES = 2
QUESTION = (
    "Which of these is the capital of Australia?\nA. Sydney\nB. Canberra\nC. Perth\nD. Hobart\n({number})"
)
CONTENT = "{{ sample.question }}"
PROMPT = {"type": "chat_completion", "input_messages": [{"role": "user", "content": CONTENT}]}
SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "B", "choices": ["A", "B", "C", "D"]}
TASK = {
    "key": "live",
    "display_name": "Live",
    "description": "Questions.",
    "definition": {
        "dataset": {"key": "rows"},
        "solver": {"type": "single_turn_solver", "input_builder": PROMPT},
        "scorers": [SCORER],
    },
}


class Stopwatch:
    """Answers B, and knows when it was asked first and last."""

    def __init__(self) -> None:
        self.first = self.last = 0.0
        self.count = 0

    def __call__(self, messages: Sequence[Mapping[str, object]]) -> str:
        """Return the answer."""
        del messages
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.count += 1
        return "B"


def serve(delay: float, pipe: Pipe) -> None:
    """Serve until told to stop; say what was seen."""
    watch = Stopwatch()
    with TestServer(watch, Behaviour(delay=delay)) as server:
        pipe.send(server.url)
        pipe.recv()
        pipe.send((watch.count, watch.last - watch.first + delay))


@contextmanager
def start_server(delay: float) -> Iterator[tuple[str, Pipe]]:
    """Yield the address of a server in a process of its own, and the way to it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(delay, there), daemon=True)
    process.start()
    try:
        yield here.recv(), here
    finally:
        process.kill()
        process.join()


def write_run(folder: Path, url: str, places: int, calls: int) -> None:
    """Write what is to be asked."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"question": QUESTION.format(number=number)}) for number in range(calls)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    config = {"connection_type": "custom_connection", "url": f"{url}/chat/completions", "model_key": "m"}
    model = {"key": "m", "display_name": "M", "task": "chat_completion", "config": config}
    named = {"key": "e", "display_name": "E", "description": ""}
    source = {"type": "local", "file_path": "rows.jsonl"}
    plan = {
        "models": [{**model, "max_concurrent_requests": places}],
        "datasets": [{"key": "rows", "display_name": "Rows", "source": source}],
        "tasks": [TASK],
        "evaluation": {**named, "task_specifications": [{"task_key": "live", "model_key": "m"}]},
    }
    (folder / "run.yaml").write_text(json.dumps(plan))


def ask(nodes: Nodes, delay: float, places: int, calls: int) -> tuple[float, Spent]:
    """Return the calls per second of a run, and what it took."""
    with tempfile.TemporaryDirectory() as folder, start_server(delay) as (url, pipe):
        write_run(Path(folder), url, places, calls)
        words = ["run", f"{folder}/run.yaml", "--cache-policy", "no-cache", "--out", f"{folder}/run"]
        spent = run_answerkey(words, nodes)
        pipe.send("stop")
        count, seconds = pipe.recv()
    if count != calls:
        raise SystemExit(f"{count} requests for {calls} calls")
    return count / seconds, spent


def measure_paces(workers: Sequence[int] = WORKERS) -> None:
    """Print calls per second by the number of workers."""
    head = ["workers", "most possible", "local engine", "on Ray", "on Ray / local", "on Ray / first row"]
    lines: list[list[str]] = []
    first = 0.0
    for count in workers:
        places = PLACES * count
        near, _ = ask(NO_NODES, DELAY, places, places * CALLS_OF_A_PLACE)
        with start_nodes(count) as nodes:
            far, _ = ask(nodes, DELAY, places, places * CALLS_OF_A_PLACE)
        first = first or far
        rates = [f"{one:,.0f}/s" for one in (places / DELAY, near, far)]
        lines.append([str(count), *rates, f"{far / near:.2f}", f"{far / first:.2f}"])
        print(Table(head, lines[-1:]).to_text(), flush=True)
    print(f"\n{DELAY * 1000:.0f} ms, {PLACES} places for each worker\n\n{Table(head, lines).to_markdown()}\n")


def measure_costs() -> None:
    """Print what a thousand further calls cost, by process."""
    _, near = _measure_difference(NO_NODES)
    with start_nodes(COSTING_NODES) as nodes:
        main, everything = _measure_difference(nodes)
    head = ["CPU s of 1,000 further calls", "main process", "all but the server", "all / local"]
    lines = [
        ["local engine", f"{near:.2f}", f"{near:.2f}", "1.00"],
        [f"Ray, {COSTING_NODES} nodes", f"{main:.2f}", f"{everything:.2f}", f"{everything / near:.2f}"],
    ]
    print(f"{Table(head, lines).to_markdown()}\n", flush=True)


def _measure_difference(nodes: Nodes) -> tuple[float, float]:
    """Return the CPU seconds of 1,000 calls more: of the main process, and of all."""
    places = PLACES * COSTING_NODES
    _, few = ask(nodes, 0.0, places, FEW_CALLS)
    _, many = ask(nodes, 0.0, places, MANY_CALLS)
    thousands = (MANY_CALLS - FEW_CALLS) / 1000
    return (many.main - few.main) / thousands, (many.cpu - few.cpu) / thousands
