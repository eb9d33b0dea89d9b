"""Everything that is measured, in one run: `make bench`.

Prints tables and holds them against what the project promises. A run of all parts at all sizes also writes
docs/performance.md with its plot. The exit code is 1 when a promise is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from concluding import list_promises
from foreign import WORK, ForeignError, measure_inspect, measure_lm_eval
from live import run_script
from page import build_tables, describe_machine, write_page
from reader import measure_reader
from scoring import (
    MAIN_ROWS,
    SIZES,
    Findings,
    Workbench,
    measure_formats,
    measure_mixes,
    measure_size,
    measure_startup,
    measure_unique,
)
from workloads import Mix

PARTS = ("startup", "sizes", "unique", "mixes", "formats", "reader", "foreign", "live")
FOREIGN_ROWS = 10_000
HARNESSES = {"Inspect": measure_inspect, "lm-eval": measure_lm_eval}


def measure_foreign(bench: Workbench, rows: int) -> dict[str, dict[str, float] | str]:
    """Return the rates of other harnesses, or why there is none."""
    source = bench.find_dataset(rows, Mix(), "jsonl")
    found: dict[str, dict[str, float] | str] = {}
    for name, measure in HARNESSES.items():
        try:
            found[name] = measure(source)
        except ForeignError as error:
            found[name] = f"cannot be measured here: {error}"
        print(f"  {name}: {found[name]}", flush=True)
    return found


def measure_live(*, is_quick: bool) -> dict[str, tuple[str, bool]]:
    """Return what the scripts of the live side print."""
    names = ["asking.py", "matrix.py"] if is_quick else ["asking.py", "matrix.py", "inspect_rate.py"]
    return {name: run_script(name) for name in names}


def measure(given: argparse.Namespace) -> Findings:
    """Measure the chosen parts, one after the other."""
    bench = Workbench(given.folder, given.turns)
    sizes = [rows for rows in SIZES if rows <= given.largest]
    main = min(MAIN_ROWS, given.largest)
    found = Findings(unique_rows=main)
    works: dict[str, Callable[[], None]] = {
        "startup": lambda: found.startup.update(measure_startup(bench)),
        "sizes": lambda: found.sizes.update({rows: measure_size(bench, rows) for rows in sizes}),
        "unique": lambda: found.unique.update(measure_unique(bench, main)),
        "mixes": lambda: found.mixes.update(measure_mixes(bench, main)),
        "formats": lambda: found.formats.update(measure_formats(bench, main)),
        "reader": lambda: found.reader.update(measure_reader()),
        "foreign": lambda: found.foreign.update(measure_foreign(bench, min(FOREIGN_ROWS, given.largest))),
        "live": lambda: found.live.update(measure_live(is_quick=given.quick)),
    }
    for part in given.parts:
        print(part, flush=True)
        works[part]()
    bench.clear(with_cache=True)
    return found


def read_words() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="no 10 M rows, no other harnesses")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="ROWS", help="the largest dataset")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured; the best counts")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument("--folder", type=Path, default=WORK, help="where datasets and runs lie meanwhile")
    parser.add_argument("--no-page", action="store_true", help="leave docs/performance.md as it is")
    given = parser.parse_args()
    if given.quick:
        given.largest = min(given.largest, MAIN_ROWS)
        given.parts = [part for part in given.parts if part != "foreign"]
    return given


def main() -> int:
    """Measure, print and write; return 1 when a promise is missed."""
    given = read_words()
    found = measure(given)
    promises = list_promises(found)
    print(f"\n{describe_machine()}")
    for name, table in build_tables(found, promises).items():
        if table.rows:
            print(f"\n{name}\n{table.to_text()}")
    is_whole = set(given.parts) == set(PARTS) and given.largest >= SIZES[-1]
    if is_whole and not given.no_page:
        write_page(found, promises)
    return 1 if any(promise.is_missed for promise in promises) else 0


if __name__ == "__main__":
    sys.exit(main())
