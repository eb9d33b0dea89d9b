"""One piece of work in a process of its own, timed without the start-up; `measuring.run_inside` calls it.

Each kind first does its work on a few rows, so that everything is imported and every pool is up, then on the
dataset. The clock runs for the second only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from measuring import list_tree, read_tree_cpu

Facts = dict[str, object]


def count_cpu() -> float:
    """Return the CPU seconds so far of this process and all below it."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(read_tree_cpu(process) for process in list_tree(os.getpid())[1:])
    return time.process_time() + waited.ru_utime + waited.ru_stime + living


def time_work(work: Callable[[], Facts]) -> Facts:
    """Return what the work says of itself, its wall time and its CPU time."""
    before, begun = count_cpu(), time.perf_counter()
    facts = work()
    wall = time.perf_counter() - begun
    return {"wall": wall, "cpu": count_cpu() - before, **facts}


def do_ours(given: argparse.Namespace) -> Facts:
    """Time the whole command `answerkey score`, summary included."""
    from answerkey.cli import main

    def score(source: Path, out: Path) -> Facts:
        words = ["score", str(given.task), "--dataset", str(source), "--out", str(out)]
        if (code := main(words)) != 0:
            raise SystemExit(code)
        return {}

    score(given.warm, given.out.with_name(f"{given.out.name}-warm"))
    return time_work(lambda: score(given.source, given.out))


def do_raw(given: argparse.Namespace) -> Facts:
    """Time raw Polars."""
    from raw_polars import score_raw

    def score(source: Path) -> Facts:
        return {"correct": score_raw(source, given.out, is_streaming=given.streaming)}

    score(given.warm)
    return time_work(lambda: score(given.source))


def do_jinja(given: argparse.Namespace) -> Facts:
    """Time the loop in two processes."""
    from dataclasses import replace

    from jinja_loop import Part, count_all, start_pool

    task = json.loads(given.task.read_text())
    scorer = task["definition"]["scorers"][0]
    columns = tuple(given.columns.split(","))
    whole = Part(given.source, 0, 0, given.form, scorer["ground_truth_choice"], scorer["choices"], columns)
    with start_pool() as pool:

        def count() -> Facts:
            found = count_all(pool, whole)
            return {"correct": found.correct / found.rows, "valid": found.valid}

        count_all(pool, replace(whole, source=given.warm))
        return time_work(count)


def do_compare(given: argparse.Namespace) -> Facts:
    """Hold the tables of both against each other."""
    from raw_polars import compare_scores

    def compare() -> Facts:
        compare_scores(given.source, given.out)
        return {}

    return time_work(compare)


def main() -> int:
    """Do one kind of work and write what it took."""
    kinds = {"ours": do_ours, "raw": do_raw, "jinja": do_jinja, "compare": do_compare}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("marks", type=Path)
    for name in ("task", "warm", "source", "out"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--streaming", action="store_true")
    parser.add_argument("--form", default="render")
    parser.add_argument("--columns", default="")
    given = parser.parse_args()
    given.marks.write_text(json.dumps(kinds[given.kind](given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
