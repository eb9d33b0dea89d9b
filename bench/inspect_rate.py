"""Requests per second of answerkey and of Inspect on the same server at the same concurrency.

Inspect is installed into an environment of its own (see `foreign.py`); it is no dependency of ours.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from asking import start_server
from foreign import ForeignError, open_environment, run_foreign

CONCURRENT, DELAY = 256, 0.05
OURS, THEIRS = 20_000, 1_000
PROMISED = 20

#: What runs in the scratch environment: the same questions, asked by Inspect; prints how many a
#: second.
THEIR_SIDE = """
import os, sys, time
os.environ.update(BENCH_API_KEY="none", BENCH_BASE_URL=sys.argv[1], INSPECT_LOG_DIR=sys.argv[2])
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate
count, at_once = int(sys.argv[3]), int(sys.argv[4])
samples = [Sample(input=f"question {number}", target="B") for number in range(count)]
task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match())
begun = time.perf_counter()
logs = eval(task, model="openai-api/bench/bench", max_connections=at_once, max_samples=at_once,
            display="none", log_level="error")
assert logs[0].status == "success", logs[0].error
print(count / (time.perf_counter() - begun))
"""

TASK = {
    "key": "bench",
    "display_name": "Bench",
    "description": "The same questions.",
    "definition": {
        "dataset": {"key": "rows"},
        "solver": {
            "type": "single_turn_solver",
            "input_builder": {
                "type": "chat_completion",
                "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
            },
        },
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "B",
                "choices": ["A", "B", "C", "D"],
            }
        ],
    },
}


def measure_inspect(base: str, folder: Path) -> float:
    """Return Inspect's requests per second: asking and scoring, without its start-up."""
    words = ["-c", THEIR_SIDE, base, str(folder / "logs"), str(THEIRS), str(CONCURRENT)]
    return float(run_foreign([open_environment("inspect"), *words]).split()[-1])


def measure_ours(base: str, folder: Path) -> float:
    """Return the samples per second of a whole run: check, ask, journal, score, write, metrics."""
    import answerkey as ak

    model = {"key": "bench", "display_name": "Bench", "max_concurrent_requests": CONCURRENT}
    config = {
        "url": f"{base}/chat/completions",
        "adapter": {"key": "latticeflow$openai_chat_completion"},
    }
    rows = [{"question": f"question {number}"} for number in range(OURS)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"type": "local", "file_path": "rows.jsonl"}
    specification = {"task_key": "bench", "model_key": "bench"}
    run = {
        "models": [{**model, "config": {**config, "model_key": "bench"}}],
        "datasets": [{"key": "rows", "display_name": "Rows", "source": source}],
        "tasks": [TASK],
        "evaluation": {
            "key": "bench",
            "display_name": "Bench",
            "task_specifications": [specification],
        },
    }
    (folder / "run.yaml").write_text(json.dumps(run))
    begun = time.perf_counter()
    ak.run(folder, out=folder / "run", cache_policy="no-cache")
    return OURS / (time.perf_counter() - begun)


def main() -> int:
    """Print both rates and their ratio; return 1 when it is below what the project promises."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as scratch, start_server(DELAY) as url:
        base = url.removesuffix("/chat/completions")
        try:
            theirs = measure_inspect(base, Path(scratch))
        except ForeignError as error:
            print(f"Inspect cannot be measured here: {error}")
            return 0
        ours = measure_ours(base, Path(scratch))
    ratio = ours / theirs
    print(
        f"{CONCURRENT} at once, {DELAY * 1000:.0f} ms: answerkey {ours:.0f}/s, Inspect "
        f"{theirs:.0f}/s"
    )
    print(f"ratio {ratio:.1f}, promised {PROMISED}")
    return 0 if ratio >= PROMISED else 1


if __name__ == "__main__":
    sys.exit(main())
