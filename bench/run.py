"""Everything that is measured, in one table: `make bench`.

Every row is a piece of work that users wait for, beside something else that was measured in the
same run: the least that such work can take here, and the best of other tools where there is one.
What is promised is the ratio to the former, so that a slower machine changes nothing. Start-up is
part of every command. A whole run also writes docs/performance.md. The exit code is 1 when a
promise is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from foreign import WORK, ForeignError, measure_inspect, measure_lm_eval
from measuring import HERE, Cost
from scoring import Work, Workbench
from tables import Table
from workloads import Case

PAGE = HERE.parent / "docs" / "performance.md"
MILLION = 1_000_000
FOREIGN_ROWS = 2_000
#: How many distinct texts are read: each takes as long as it takes.
REPLIES, CHAINS = 100_000, 20_000
SIMULATED = "builtin/simulated?accuracy=0.8&style=mixed&seed=0"


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is how often ours takes the limit.

    `promise` how often it may.
    """

    work: str
    ours: str
    compared: str
    limit: str
    ratio: float | None
    promise: float | None
    cost: Cost | None = None

    @property
    def is_missed(self) -> bool:
        """Whether the promise was measured and does not hold."""
        return None not in (self.ratio, self.promise) and self.ratio > self.promise  # type: ignore[operator]

    def to_cells(self) -> list[str]:
        """Return the cells of the table."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        promise = "-" if self.promise is None else f"at most {self.promise:g}"
        verdict = " MISSED" if self.is_missed else ""
        return [self.work, self.ours, self.compared, self.limit, ratio, promise + verdict]


def compare(
    work: str, ours: Cost, limit: tuple[str, Cost], promise: float | None, compared: str = "-"
) -> Row:
    """Return the row of a workload, by its CPU seconds."""
    name, least = limit
    best = f"{name}: {least.cpu:.2f} CPU s"
    return Row(work, _say(ours), compared, best, ours.cpu / least.cpu, promise, ours)


def limit_seconds(work: str, cost: Cost, seconds: float) -> Row:
    """Return the row of a work that may take so many CPU seconds on the machine of the page."""
    return Row(work, _say(cost), "-", f"{seconds:g} CPU s", cost.cpu / seconds, 1, cost)


def limit_memory(cost: Cost, megabytes: float) -> Row:
    """Return the row of the memory that the work above it may take."""
    peak = cost.peak / 1e6
    return Row(
        "the same, peak memory",
        f"{peak:.0f} MB",
        "-",
        f"{megabytes:,} MB",
        peak / megabytes,
        1,
    )


def _say(cost: Cost) -> str:
    return f"{cost.cpu:.2f} CPU s, {cost.wall:.2f} s, {cost.peak / 1e6:.0f} MB"


@dataclass(frozen=True)
class Bench:
    """All rows of the table, part by part."""

    bench: Workbench
    rows: int

    def measure_startup(self) -> Iterator[Row]:
        """Yield the rows of commands that do nearly nothing."""
        call, refer = self.bench.call, self.bench.refer
        works: dict[str, Work] = {
            "nothing": partial(refer, "nothing"),
            "help": partial(call, "--help"),
            "libraries": partial(refer, "libraries"),
            "score": partial(self.bench.score, Case(100)),
        }
        result = self.bench.take_turns(works, 7)
        yield compare("`answerkey --help`", result["help"], ("Python alone", result["nothing"]), 6)
        least = ("the libraries that it imports", result["libraries"])
        yield compare("`score` of 100 rows", result["score"], least, 1.7)

    def measure_scoring(self) -> Iterator[Row]:
        """Yield the rows of scoring short replies in JSON Lines by the default rule."""
        bench, case = self.bench, Case(self.rows, ending="jsonl")
        source, out = bench.find_source(case), bench.folder / "loop.parquet"
        works: dict[str, Work] = {
            "score": partial(bench.score, case),
            "loop": partial(bench.refer, "loop", source, out),
        }
        costs = bench.take_turns(works, 2)
        score, loop = costs["score"], costs["loop"]
        yield compare(
            f"`score`, {_count(self.rows)} of JSON Lines", score, ("a plain loop", loop), 3
        )
        many = Case(10 * self.rows, ending="jsonl")
        bench.find_source(many)
        tenfold = bench.take_turns({"tenfold": partial(bench.score, many)}, 1)["tenfold"]
        yield compare(f"`score`, {_count(many.rows)}", tenfold, (_count(self.rows), score), 11)
        yield limit_memory(tenfold, 1_000)

    def measure_answers(self) -> Iterator[Row]:
        """Yield the rows of `stated_answer` on texts that are all different."""
        for shape, rows, promise in (("replies", REPLIES, 1.6), ("chains", CHAINS, 1.2)):
            case = Case(min(rows, self.rows), rule="stated_answer", shape=shape)
            source = self.bench.find_source(case)
            works: dict[str, Work] = {
                "score": partial(self.bench.score, case),
                "score on one core": partial(self.bench.score, case, cores="0"),
                "reader": partial(self.bench.refer, "read", source),
            }
            result = self.bench.take_turns(works, 2)
            name = f"`score` by `stated_answer`, {_count(case.rows)} different {shape}"
            alone = result["reader"]
            yield compare(name, result["score"], ("the reader alone, one process", alone), promise)
            one_core = result["score on one core"].wall
            ratio = result["score"].wall / one_core
            seconds = f"{result['score'].wall:.2f} s"
            limit = f"the same on one core: {one_core:.2f} s"
            yield Row("the same by the clock, two cores", seconds, "-", limit, ratio, 0.65)

    def measure_runs(self) -> Iterator[Row]:
        """Yield the rows of commands that take a run, or a dataset."""
        bench, case = self.bench, Case(self.rows)
        score = bench.take_turns({"score": partial(bench.score, case)}, 1)["score"]
        limit = (f"`score`, {_count(self.rows)}", score)
        out = bench.folder / "out"
        works: dict[str, Work] = {
            "audit": partial(bench.call, "audit", bench.run),
            "report": partial(bench.call, "report", bench.run, "-o", out),
            "audit-dataset": partial(bench.call, "audit-dataset", bench.find_source(case)),
            **{
                form: partial(bench.call, "export", bench.run, "--to", form, "-o", out)
                for form in ("parquet", "jsonl", "csv")
            },
        }
        result = bench.take_turns(works, 1)
        for name in ("audit", "audit-dataset", "report"):
            yield compare(f"`{name}`", result[name], limit, None)
        for form in ("parquet", "jsonl", "csv"):
            yield compare(f"`export --to {form}`", result[form], limit, None)

    def measure_pages(self) -> Iterator[Row]:
        """Yield the rows of what is read of a run whose simulated replies have every style."""
        bench = self.bench
        case = Case(min(REPLIES, self.rows), ending="jsonl")
        out = bench.folder / "out"
        bench.clear()
        bench.call("run", bench.find_source(case), "--model", SIMULATED, "--out", bench.run)
        works: dict[str, Work] = {
            "report": partial(bench.call, "report", bench.run, "-o", out),
            "audit": partial(bench.call, "audit", bench.run),
        }
        result = bench.take_turns(works, 2)
        for name, seconds in (("report", 10), ("audit", 12)):
            work = f"`{name}` of {_count(case.rows)} of simulated replies"
            yield limit_seconds(work, result[name], seconds)
            yield limit_memory(result[name], 600)

    def measure_imports(self) -> Iterator[Row]:
        """Yield the rows of a log of another tool."""
        bench, case = self.bench, Case(self.rows // 4, shape="lm-eval", ending="jsonl")
        source, out = bench.find_source(case), bench.folder / "imported"
        works: dict[str, Work] = {
            "import": partial(self._import, source, out),
            "run": partial(self._run, out),
            "json": partial(bench.refer, "json", source),
        }
        result = bench.take_turns(works, 1)
        limit = (f"Python's json reads it ({source.stat().st_size / 1e6:.0f} MB)", result["json"])
        imported = result["import"]
        yield limit_seconds(f"`import` of lm-eval's samples, {_count(case.rows)}", imported, 20)
        yield limit_memory(imported, 600)
        yield compare("`run` of what was imported", result["run"], limit, None)

    def measure_live(self) -> Iterator[Row]:
        """Yield the rows of live models, and of a run that goes on."""
        for name in ("asking.py", "matrix.py", "resuming.py"):
            yield from _run_script(name, ["--turns", "1"])

    def measure_nodes(self) -> Iterator[Row]:
        """Yield the row of two Ray nodes on this machine."""
        yield from _run_script("cluster.py", ["--turns", "1", "--part", "replies"])

    def measure_others(self) -> Iterator[Row]:
        """Yield the rows of other harnesses: how many replies each scores again in a second."""
        bench, case = self.bench, Case(FOREIGN_ROWS, ending="jsonl")
        source, many = bench.find_source(case), Case(self.rows, ending="jsonl")
        cost = bench.take_turns({"score": partial(bench.score, many)}, 1)["score"]
        ours = many.rows / cost.cpu
        for name, measure, times in (
            ("lm-eval's filter and metric", measure_lm_eval, 12),
            ("Inspect scores its log again", measure_inspect, 140),
        ):
            work = f"`score`, {_count(many.rows)}: replies per CPU second"
            try:
                rate = measure(source)["end_to_end"]
            except ForeignError as error:
                yield Row(work, f"{ours:,.0f}/s", f"{name}: {error}", "-", None, None)
                continue
            compared = f"{name}: {rate:,.0f}/s"
            yield Row(
                work, f"{ours:,.0f}/s", compared, f"a {times}th of ours", times * rate / ours, 1
            )

    def _import(self, source: Path, out: Path) -> Cost:
        self.bench.clear_folder(out)
        return self.bench.call("import", "lm-eval", source, "--out", out)

    def _run(self, project: Path) -> Cost:
        self.bench.clear()
        return self.bench.call("run", project, "--out", self.bench.run)


def _count(rows: int) -> str:
    for size, letter in ((MILLION, "M"), (1_000, "k")):
        if rows >= size and rows % size == 0:
            return f"{rows // size} {letter} rows"
    return f"{rows:,} rows"


def _run_script(name: str, words: list[str]) -> Iterator[Row]:
    """Yield the rows that a script prints as `row: WORK | OURS | OTHER | LIMIT | RATIO |
    PROMISE`.
    """
    command = [sys.executable, str(HERE / name), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - fixed words
    print(done.stdout, done.stderr, sep="", end="", flush=True)
    lines = [
        line.removeprefix("row: ") for line in done.stdout.splitlines() if line.startswith("row: ")
    ]
    if not lines:
        raise SystemExit(f"{name} printed no row and ended with {done.returncode}")
    for line in lines:
        work, ours, compared, limit, ratio, promise = line.split(" | ")
        yield Row(work, ours, compared, limit, float(ratio), float(promise))


def describe_machine() -> str:
    """Return the machine and the versions that were measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("polars", "jinja2", "aiohttp", "answerkey")
    )
    kind = (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB of memory, "
        f"{platform.system()}"
    )
    return (
        f"Measured on {time.strftime('%Y-%m-%d')}: {kind}, Python "
        f"{platform.python_version()}, {libraries}."
    )


def _join(content: str, match: re.Match[str]) -> str:
    return f"{match[1]}{content}\n{match[2]}"


def write_page(**contents: str) -> None:
    """Put texts between their marks in the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, content in contents.items():
        pattern = rf"(<!-- measured: {name} -->\n).*?(<!-- /measured -->)"
        text = re.sub(pattern, partial(_join, content), text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


def main() -> int:
    """Measure, print and write the table; return 1 if a promise is missed."""
    begun = time.monotonic()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = [name.removeprefix("measure_") for name in vars(Bench) if name.startswith("measure_")]
    parser.add_argument("--rows", type=int, default=MILLION, help="rows of the main size")
    parser.add_argument(
        "--turns", type=int, default=3, help="how often each is measured; the best counts"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=parts, default=parts, metavar="PART", help=str(parts)
    )
    parser.add_argument(
        "--folder", type=Path, default=WORK, help="where datasets and runs lie meanwhile"
    )
    parser.add_argument("--no-page", action="store_true", help="leave docs/performance.md as it is")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bench, rows = Bench(Workbench(options.folder, options.turns), options.rows), []
    for part in options.parts:
        print(f"{part}, after {time.monotonic() - begun:.0f} s", flush=True)
        measure: Callable[[], Iterator[Row]] = getattr(bench, f"measure_{part}")
        rows += measure()
    bench.bench.clear(with_cache=True)
    head = ("work", "ours", "best other", "the limit", "ratio", "promise")
    table = Table(head, [row.to_cells() for row in rows])
    print(f"\n{describe_machine()}\n\n{table.to_text()}\n\n{time.monotonic() - begun:.0f} s in all")
    if set(options.parts) == set(parts) and options.rows == MILLION and not options.no_page:
        write_page(machine=describe_machine(), table=table.to_markdown())
    return 1 if any(row.is_missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
