"""The first read of text files, beside Polars: CPU seconds and peak memory, each in a fresh process.

    python bench/reading.py --rows 1000000

*Polars* only parses the file into memory. Ours also checks every row, hashes the file and keeps the table in
the cache as Parquet.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from generating import write_dataset
from measuring import Cost, run_command, take_best
from workloads import Mix

POLARS = (
    "import sys, polars as pl; path = sys.argv[1]; "
    "pl.read_csv(path, infer_schema=False) if path.endswith('csv') else pl.read_ndjson(path)"
)
OURS = "import sys; from answerkey.datasets.tables import load_table; load_table(sys.argv[1])"
#: A process that reads nothing; taken off.
NOTHING = {"Polars": "import polars", "ours": "import answerkey.datasets.tables"}


def make_files(folder: Path, rows: int) -> dict[str, Path]:
    """Return the files to read: flat rows, rows with lists of options, and CSV."""
    import polars as pl

    names = {"JSONL, flat": "flat.jsonl", "JSONL, nested": "nested.jsonl", "CSV": "rows.csv"}
    paths = {kind: folder / name for kind, name in names.items()}
    write_dataset(paths["JSONL, nested"], rows, Mix())
    write_dataset(paths["CSV"], rows, Mix())
    nested = pl.scan_ndjson(paths["JSONL, nested"])
    nested.select("question", "position", "answer", "completion").sink_ndjson(paths["JSONL, flat"])
    return paths


def measure(words: list[str], turns: int) -> Cost:
    """Return the best of several turns, each with an empty cache."""
    costs = []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as cache:
            costs.append(run_command([sys.executable, "-c", *words], {"XDG_CACHE_HOME": cache}))
    return take_best(costs)


def main() -> int:
    """Measure all files and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        print(f"{'first read':14} {'Polars':>14} {'ours':>14} {'ratio':>7} {'peak':>8}")
        empty = {name: measure([code], given.turns).cpu for name, code in NOTHING.items()}
        for kind, path in make_files(folder, given.rows).items():
            polars = measure([POLARS, str(path)], given.turns).cpu - empty["Polars"]
            cost = measure([OURS, str(path)], given.turns)
            ours = cost.cpu - empty["ours"]
            told = f"{polars:8.2f} CPU s {ours:8.2f} CPU s {ours / polars:7.2f} {cost.peak / 1e6:5.0f} MB"
            print(f"{kind:14} {told}", flush=True)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
