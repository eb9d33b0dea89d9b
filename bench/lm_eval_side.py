"""Runs in lm-eval's own environment: its filters and its metric over recorded completions.

Prints the rate. The task is like lm-eval's own ones that read letters from text:
`multi_choice_regex`, the first match, `exact_match`. Building the requests is not timed, nor is
anything read or written.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
from lm_eval.api.task import ConfigurableTask

FILTER = "flexible-extract"
TURNS = 3


def build_task(rows: list[dict[str, Any]]) -> ConfigurableTask:
    """Return the task with one request per row, answered by the row's completion."""
    questions = [
        {"question": row["question"], "choices": row["options"], "answer": f"({row['answer']})"}
        for row in rows
    ]
    steps = [
        {
            "function": "multi_choice_regex",
            "group_select": -1,
            "ignore_case": True,
            "ignore_punctuation": True,
            "regex_pattern": r"(\([A-Z]\))",
        },
        {"function": "take_first"},
    ]
    metric = {
        "metric": "exact_match",
        "aggregation": "mean",
        "higher_is_better": True,
        "ignore_case": True,
    }
    config = {
        "task": "bench",
        "custom_dataset": lambda **_: datasets.DatasetDict(
            {"test": datasets.Dataset.from_list(questions)}
        ),
        "output_type": "generate_until",
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "filter_list": [{"name": FILTER, "filter": steps}],
        "metric_list": [{**metric, "ignore_punctuation": True}],
    }
    task = ConfigurableTask(config=config)
    task.build_all_requests()
    for request, row in zip(task.instances, rows, strict=True):
        request.resps.append(row["completion"])
    return task


def judge(task: ConfigurableTask) -> float:
    """Return the seconds of filtering, judging and averaging."""
    begun = time.perf_counter()
    task.apply_filters()
    values = [
        task.process_results(row, [request.filtered_resps[FILTER]])["exact_match"]
        for (_, row), request in zip(task.doc_iterator(), task.instances, strict=True)
    ]
    task.aggregation()["exact_match"](values)
    return time.perf_counter() - begun


def main() -> None:
    """Print the rate as JSON."""
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    task = build_task(rows)
    best = min(judge(task) for _ in range(TURNS))
    print(
        json.dumps(
            {"end_to_end": len(rows) / best, "rows": len(rows), "version": version("lm-eval")}
        )
    )


if __name__ == "__main__":
    main()
