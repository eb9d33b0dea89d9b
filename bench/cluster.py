"""Cost and safety of a Ray cluster: `python bench/cluster.py [--rows N] [--kill] [--part NAME]`.

`overhead`: CPU seconds per million rows of recorded completions, all processes counted: the local
engine, one node that the command starts, and two nodes that are there. `replies`: different replies
read by `stated_answer`, locally and on two nodes. With `--kill`: a worker and
then a node killed with -9 in the middle, a row that ends every process, and the busy cores of 4
nodes of which one is lost (`timeline`). Nodes are on this machine, on loopback alone, so nothing
here says how computation scales.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from kills import DEADLY_ROWS, draw_timeline, try_deadly_row, try_kills
from nodes import NO_NODES, Nodes, Spent, run_answerkey, start_nodes
from scoring import Workbench
from tables import Table
from workloads import Case, Mix

from answerkey.engines import count_cores

ROWS = 5_000_000
TURNS = 3
#: How many different replies are read, and how often the local engine's CPU seconds nodes may take.
REPLIES, PROMISE = 100_000, 1.3
#: The start of everything is told by so many times fewer rows.
FEWER = 25
MILLION = 1_000_000
#: A node that the command starts.
OWN_NODE = Nodes(("--engine", "ray"))


def build_words(bench: Workbench, rows: int) -> list[str]:
    """Return the arguments of the command that scores this many rows."""
    task, dataset = bench.write_task(Case(rows)), bench.find_dataset(rows, Mix())
    return ["score", str(task), "--dataset", str(dataset), "--completion-column", "completion"]


def measure_turns(bench: Workbench, rows: int) -> dict[str, list[Spent]]:
    """Return the cost of each engine in each round.

    They take turns, so that all meet the same disturbances.
    """
    words, out = build_words(bench, rows), bench.folder / "out"
    results: dict[str, list[Spent]] = {}

    def measure(name: str, nodes: Nodes) -> None:
        bench.clear_folder(out)
        spent = run_answerkey([*words, "--out", str(out)], nodes)
        results.setdefault(name, []).append(spent)
        words_of_it = (
            f"{spent.cpu:.1f} CPU s, {spent.main:.1f} of them in the main process, "
            f"{spent.wall:.1f} s"
        )
        print(f"  {rows} rows, {name}: {words_of_it}", flush=True)

    for _ in range(bench.turns):
        measure("local engine", NO_NODES)
        measure("Ray, one node that it starts", OWN_NODE)
        with start_nodes(2) as nodes:
            run_answerkey(
                [*words, "--num-samples", "10", "--out", str(bench.folder / "warm")], nodes
            )
            shutil.rmtree(bench.folder / "warm")
            measure("Ray, two nodes that are there", nodes)
    return results


def measure_overhead(bench: Workbench, rows: int) -> None:
    """Print CPU seconds by engine, for all rows and for each further million."""
    many, few = measure_turns(bench, rows), measure_turns(bench, rows // FEWER)
    head = [f"{rows:,} rows", "CPU s, median", "least to most", "per million", "against local"]
    head += [f"{rows // FEWER:,} rows", "each further million", "of it in the main process"]
    base, lines = median(cost.cpu for cost in many["local engine"]), []
    for name, turns in many.items():
        costs = [turn.cpu for turn in turns]
        middle, start = median(costs), median(cost.cpu for cost in few[name])
        main = median(turn.main for turn in turns) - median(turn.main for turn in few[name])
        further = (rows - rows // FEWER) / MILLION
        numbers = (
            middle / rows * MILLION,
            middle / base,
            start,
            (middle - start) / further,
            main / further,
        )
        spread = f"{min(costs):.1f} to {max(costs):.1f}"
        lines.append([name, f"{middle:.1f}", spread, *(f"{number:.2f}" for number in numbers)])
    print(f"\n{Table(head, lines).to_markdown()}\n", flush=True)


def measure_replies(bench: Workbench) -> None:
    """Print the cost of replies that all differ, locally and on two nodes."""
    case = Case(REPLIES, rule="stated_answer", shape="replies")
    out = bench.folder / "out"
    words = ["score", str(bench.write_task(case)), "--dataset", str(bench.find_source(case))]
    costs: dict[str, list[float]] = {"local": [], "nodes": []}
    for _ in range(bench.turns):
        bench.clear_folder(out)
        costs["local"].append(run_answerkey([*words, "--out", str(out)]).cpu)
        with start_nodes(2) as nodes:
            bench.clear_folder(out)  # the first samples warm the nodes up
            run_answerkey([*words, "--num-samples", "10", "--out", str(out)], nodes)
            bench.clear_folder(out)
            costs["nodes"].append(run_answerkey([*words, "--out", str(out)], nodes).cpu)
    local, nodes = min(costs["local"]), min(costs["nodes"])
    work = f"`score` by `stated_answer`, {REPLIES // 1000} k rows on two Ray nodes"
    limit = f"the local engine: {local:.2f} CPU s"
    print(f"row: {work} | {nodes:.2f} CPU s | - | {limit} | {nodes / local:.2f} | {PROMISE}")


def try_all_kills(bench: Workbench, rows: int) -> bool:
    """Kill workers and nodes; return whether every result is still exact."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        is_exact = try_kills(Path(folder), build_words(bench, rows), rows)
        return try_deadly_row(Path(folder), bench.find_dataset(DEADLY_ROWS, Mix())) and is_exact


def main() -> int:
    """Measure the requested parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--kill", action="store_true", help="also the trials with kill -9")
    parser.add_argument(
        "--part", choices=["overhead", "replies", "kill", "timeline"], help="only this one"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "answerkey-bench"
    )
    options = parser.parse_args()
    bench = Workbench(options.folder, options.turns)
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{count_cores()} cores, which all nodes share\n")
    is_good = True
    if options.part in (None, "overhead"):
        measure_overhead(bench, options.rows)
    if options.part in (None, "replies"):
        measure_replies(bench)
    if options.kill or options.part == "kill":
        is_good = try_all_kills(bench, options.rows)
    if options.kill or options.part == "timeline":
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            draw_timeline(Path(folder))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
