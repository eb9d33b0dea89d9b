"""Runs in Inspect's own environment: logs the given rows once, scores them again, prints the rates.

Scoring again means what `inspect score` does: read the log, score every sample, compute the
metrics, write the log.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval, score  # noqa: A004 - its name
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

TURNS = 2


def make_log(rows: list[dict[str, Any]], kept: Path) -> Path:
    """Return the log of an evaluation whose completions are those of the rows; made once."""
    if kept.exists():
        return kept
    completions = {row["question"]: row["completion"] for row in rows}
    usage = ModelUsage(input_tokens=60, output_tokens=1, total_tokens=61)

    def answer(messages: list[Any], *_rest: object) -> ModelOutput:
        output = ModelOutput.from_content("mockllm", completions[messages[-1].text])
        output.usage = usage
        return output

    samples = [
        Sample(id=number, input=row["question"], choices=row["options"], target=row["answer"])
        for number, row in enumerate(rows, 1)
    ]
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match(location="begin"))
    model = get_model("mockllm/model", custom_outputs=answer)
    logs = eval(
        task,
        model=model,
        log_dir=str(kept.parent / "raw"),
        display="none",
        log_level="error",
        max_samples=64,
    )
    if logs[0].status != "success":
        raise SystemExit(f"Inspect ended with {logs[0].status}: {logs[0].error}")
    Path(logs[0].location.removeprefix("file://")).rename(kept)
    return kept


def score_again(log: Path) -> tuple[float, float]:
    """Return the seconds of the whole and of the scoring alone."""
    begun = time.perf_counter()
    recorded = read_eval_log(str(log))
    read = time.perf_counter()
    scored = score(recorded, match(location="begin"), action="overwrite", display="none")
    done = time.perf_counter()
    write_eval_log(scored, str(log.with_name("again.eval")))
    return time.perf_counter() - begun, done - read


def main() -> None:
    """Print the rates as JSON."""
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    name = f"{version('inspect-ai')}-{Path(sys.argv[1]).stem}.eval"
    log = make_log(rows, Path(sys.argv[2]) / name)
    turns = [score_again(log) for _ in range(TURNS)]
    whole, scoring = (min(turn[part] for turn in turns) for part in (0, 1))
    rates = {"end_to_end": len(rows) / whole, "scoring": len(rows) / scoring}
    print(json.dumps({**rates, "rows": len(rows), "version": version("inspect-ai")}))


if __name__ == "__main__":
    main()
