"""What `answerkey resume` costs where every call of a run is answered already, beside the reader.

A run with a prompt of several lines is stopped when all of its calls are in the journal; no server
is needed. Resuming it renders and finds every prompt, scores every reply, and sends nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from foreign import WORK
from measuring import Cost, take_best
from scoring import Workbench
from workloads import Case

import answerkey as ak
from answerkey.models.calls import Answers, Call
from answerkey.models.client import ModelClient
from answerkey.types import Completion

ROWS = 100_000
TURNS = 2
#: CPU seconds beside those of the reader, for so many rows.
PROMISE = 8.0
MODEL = "http://127.0.0.1:9/v1#bench"
PROMPT = """\
Answer the question. Finish with "Answer: X".

{{ sample.question }}
{% for label in sample.choices %}{{ label }}. {{ sample.options[loop.index0] }}
{% endfor %}"""


def write_task(bench: Workbench, case: Case) -> Path:
    """Return the task of a case with a prompt."""
    task = json.loads(bench.write_task(case).read_text())
    message = {"role": "user", "content": PROMPT}
    builder = {"type": "chat_completion", "input_messages": [message]}
    task["definition"]["solver"] = {"type": "single_turn_solver", "input_builder": builder}
    path = bench.folder / "tasks" / "prompted.yaml"
    path.write_text(json.dumps(task))
    return path


def stop_answered(bench: Workbench, case: Case) -> Path:
    """Return a stopped run whose journal has the answer to every call."""
    source = bench.find_source(case)
    texts = pl.read_parquet(source, columns=["completion"])["completion"].to_list()
    count = 0

    def answer(self: ModelClient, calls: Sequence[Call]) -> Answers:
        nonlocal count
        finished = []
        for call, text in zip(calls, texts[count : count + len(calls)], strict=True):
            completion = Completion(text, attempts=1, latency=0.5, source="live")
            finished.append((call, completion.with_fields(prompt_tokens=60, completion_tokens=9)))
        count += len(finished)
        self.settings.ledger.write(finished)
        if count == len(texts):
            raise ak.SolverError("E305", "every call is answered")
        return {call.key: completion for call, completion in finished}

    run = bench.folder / "answered"
    bench.clear_folder(run)
    ModelClient._send = answer  # noqa: SLF001 - no server is needed
    try:
        ak.run(
            write_task(bench, case),
            dataset=source,
            model=MODEL,
            out=run,
            cache_policy="no-cache",
            stop_on_nonsense=False,
        )
    except ak.SolverError:
        return run
    raise SystemExit("the run was not stopped")


def main() -> int:
    """Print the measurements; return 1 if a promise is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, default=WORK)
    chosen = parser.parse_args()
    bench = Workbench(chosen.folder, chosen.turns)
    case = Case(chosen.rows, rule="stated_answer", shape="replies")
    costs: list[Cost] = []
    readings: list[Cost] = []
    for _ in range(chosen.turns):
        run = stop_answered(bench, case)
        costs.append(bench.call("resume", run))
        readings.append(bench.refer("read", bench.find_source(case)))
    ours = take_best(costs)
    reader = take_best(readings)
    ratio = (ours.cpu - reader.cpu) / PROMISE * ROWS / chosen.rows
    cells = [
        f"`resume`, {chosen.rows // 1000} k calls that are answered",
        f"{ours.cpu:.2f} CPU s, {ours.wall:.2f} s, {ours.peak / 1e6:.0f} MB",
        "-",
        f"the reader alone: {reader.cpu:.2f} CPU s, and {PROMISE:g} s",
        f"{ratio:.2f}",
        "1",
    ]
    print("row:", " | ".join(cells))
    return 0 if ratio <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
