"""Everything that is measured, in one table: `make bench`.

Every row is a piece of work that users wait for, beside something else that was measured in the same run: the
least that such work can take here, and the best of other tools where there is one. What is promised is the
ratio to the former, so that a slower machine changes nothing. Start-up is part of every command. A whole run
also writes docs/performance.md. The exit code is 1 when a promise is missed. `--growth` measures the commands
that take a file or a run with ten times the rows, too, and writes the second table of the page.
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
from workloads import COMPUTED, FLAT, Case, Mix

PAGE = HERE.parent / "docs" / "performance.md"
MILLION = 1_000_000
FOREIGN_ROWS = 2_000
#: How many distinct texts are read: each takes as long as it takes.
REPLIES, CHAINS = 100_000, 20_000


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is how often ours takes the limit; `promise` how often it may."""

    work: str
    ours: str
    other: str
    limit: str
    ratio: float | None
    promise: float | None
    cost: Cost | None = None

    @property
    def is_missed(self) -> bool:
        """Whether it was measured and does not hold."""
        return None not in (self.ratio, self.promise) and self.ratio > self.promise  # type: ignore[operator]

    def to_cells(self) -> list[str]:
        """Return the cells of the table."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        promise = "-" if self.promise is None else f"at most {self.promise:g}"
        verdict = " MISSED" if self.is_missed else ""
        return [self.work, self.ours, self.other, self.limit, ratio, promise + verdict]


def compare(work: str, ours: Cost, limit: tuple[str, Cost], promise: float | None, other: str = "-") -> Row:
    """Return the row of a work by its CPU seconds."""
    name, least = limit
    said = f"{name}: {least.cpu:.2f} CPU s"
    return Row(work, _say(ours), other, said, ours.cpu / least.cpu, promise, ours)


def compare_memory(work: str, ours: Cost, limit: tuple[str, Cost], promise: float) -> Row:
    """Return the row of a work by its peak memory."""
    name, least = limit
    said = f"{name}: {least.peak / 1e6:.0f} MB"
    return Row(work, f"{ours.peak / 1e6:.0f} MB", "-", said, ours.peak / least.peak, promise)


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
        found = self.bench.take_turns(works, 7)
        yield compare("`answerkey --help`", found["help"], ("Python alone", found["nothing"]), 6)
        least = "the libraries that it imports"  # half of 0.5 s on the machine that set the promise
        yield compare("`score` of 100 rows", found["score"], (least, found["libraries"]), 2)

    def measure_scoring(self) -> Iterator[Row]:
        """Yield the rows of scoring Parquet by the default rule."""
        case, bench = Case(self.rows), self.bench
        source, out = bench.find_source(case), bench.folder / "raw.parquet"
        works: dict[str, Work] = {
            "score": partial(bench.score, case),
            "raw Polars": partial(bench.refer, "raw", source, out),
        }
        found = bench.take_turns(works)
        loop = bench.take_turns({"Jinja loop": partial(self._loop, case)}, 1)["Jinja loop"]
        score, raw = found["score"], found["raw Polars"]
        other = f"a Jinja loop: {loop.cpu:.1f} CPU s"
        yield compare(f"`score`, {_count(self.rows)}", score, ("raw Polars", raw), 2, other)
        many = Case(10 * self.rows)
        bench.find_source(many)
        tenfold = bench.take_turns({"tenfold": partial(bench.score, many)}, 1)["tenfold"]
        yield compare(f"`score`, {_count(many.rows)}", tenfold, (_count(self.rows), score), 11)
        yield compare_memory("the same, peak memory", tenfold, (_count(self.rows), score), 1.5)

    def measure_reading(self) -> Iterator[Row]:
        """Yield the rows of text formats: what the first reading takes more than a later one."""
        for name, case, kind, promise in (
            ("JSONL, flat", Case(self.rows, templates=FLAT, shape="flat", ending="jsonl"), "ndjson", 2),
            ("JSONL with lists", Case(self.rows, ending="jsonl"), "ndjson", 1),
            ("CSV", Case(self.rows, ending="csv"), "csv", 3),
        ):
            bench, source = self.bench, self.bench.find_source(case)
            works: dict[str, Work] = {
                "first": partial(bench.score, case, is_first=True),
                "again": partial(bench.score, case),
                "Polars": partial(bench.refer, kind, source),
                "nothing": partial(bench.refer, "ndjson", self._find_empty()),
            }
            found = bench.take_turns(works)
            ours, polars = found["first"] - found["again"], found["Polars"] - found["nothing"]
            yield compare(f"{name}, read for the first time", ours, ("Polars reads it", polars), promise)

    def measure_templates(self) -> Iterator[Row]:
        """Yield the rows of templates that compute."""
        bench, columns = self.bench, Case(self.rows)
        computed, unique = (
            Case(self.rows, templates=COMPUTED, mix=Mix(unique=share)) for share in (0.0, 1.0)
        )
        works: dict[str, Work] = {
            "columns": partial(bench.score, columns),
            "computed": partial(bench.score, computed),
            "unique": partial(bench.score, unique),
        }
        found = bench.take_turns(works, 2)
        limit = ("templates that name columns", found["columns"])
        other = "-"
        if self.rows <= MILLION:
            loop = bench.take_turns({"Jinja loop": partial(self._loop, unique)}, 1)["Jinja loop"]
            other = f"a Jinja loop: {loop.cpu:.1f} CPU s"
        yield compare("`score`, computed templates", found["computed"], limit, 3)
        yield compare("the same, no two rows alike", found["unique"], limit, 4, other)

    def measure_wide(self) -> Iterator[Row]:
        """Yield the rows of long completions, by how the file is grouped."""
        bench, wide = self.bench, Mix(long=0.5)
        groups = Case(self.rows, mix=wide)
        single = Case(self.rows, mix=wide, words=("--group-rows", str(self.rows)))
        paged = Case(self.rows, mix=wide, words=("--group-rows", str(self.rows), "--pyarrow"))
        cases = {"groups": groups, "single": single, "paged": paged}
        found = bench.take_turns({name: partial(bench.score, case) for name, case in cases.items()}, 2)
        limit = ("in groups of 131 k", found["groups"])
        yield compare("`score`, long completions, one row group", found["single"], limit, 1.2)
        yield compare_memory("the same, peak memory", found["single"], limit, 1)
        yield compare("the same, one row group written by pyarrow", found["paged"], limit, 1.2)
        yield compare_memory("the same, peak memory", found["paged"], limit, 1.2)

    def measure_answers(self) -> Iterator[Row]:
        """Yield the rows of `stated_answer` on texts that are all different."""
        for shape, rows in (("replies", REPLIES), ("chains", CHAINS)):
            case = Case(min(rows, self.rows), rule="stated_answer", shape=shape)
            source = self.bench.find_source(case)
            works: dict[str, Work] = {
                "score": partial(self.bench.score, case),
                "reader": partial(self.bench.refer, "read", source),
            }
            found = self.bench.take_turns(works, 2)
            name = f"`score` by `stated_answer`, {_count(case.rows)} different {shape}"
            yield compare(name, found["score"], ("the reader alone, one process", found["reader"]), 1.3)

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
        found = bench.take_turns(works, 1)
        yield compare("`audit`", found["audit"], limit, 8)
        yield compare("`audit-dataset`", found["audit-dataset"], limit, 12)
        yield compare("`report`", found["report"], limit, 6)
        for form in ("parquet", "jsonl", "csv"):
            yield compare(f"`export --to {form}`", found[form], limit, 5)

    def measure_imports(self) -> Iterator[Row]:
        """Yield the rows of a log of another tool."""
        bench, case = self.bench, Case(self.rows // 4, shape="lm-eval", ending="jsonl")
        source, out = bench.find_source(case), bench.folder / "imported"
        works: dict[str, Work] = {
            "import": partial(self._import, source, out),
            "run": partial(self._run, out),
            "json": partial(bench.refer, "json", source),
        }
        found = bench.take_turns(works, 1)
        limit = (f"Python's json reads it ({source.stat().st_size / 1e6:.0f} MB)", found["json"])
        yield compare(f"`import` of lm-eval's samples, {_count(case.rows)}", found["import"], limit, 4)
        yield compare("`run` of what was imported", found["run"], limit, 3)

    def measure_live(self) -> Iterator[Row]:
        """Yield the rows of live models, from what the scripts print."""
        for name, words in (("asking.py", ["--turns", "1"]), ("matrix.py", ["--turns", "1"])):
            yield from _run_script(name, words)

    def measure_others(self) -> Iterator[Row]:
        """Yield the rows of other harnesses, which are the best others: they promise nothing."""
        bench, case = self.bench, Case(FOREIGN_ROWS, ending="jsonl")
        source = bench.find_source(case)
        ours = bench.take_turns({"score": partial(bench.score, case, is_first=True)}, 2)["score"]
        for name, measure in (
            ("Inspect scores its log again", measure_inspect),
            ("lm-eval's filter and metric", measure_lm_eval),
        ):
            try:
                other = case.rows / measure(source)["end_to_end"]
            except ForeignError as error:
                yield Row(f"`score`, {_count(case.rows)}", _say(ours), f"{name}: {error}", "-", None, None)
                continue
            said = f"{name}: {other:.2f} s without start-up"
            yield Row(f"`score`, {_count(case.rows)}", _say(ours), said, "that", ours.wall / other, 1)

    def _loop(self, case: Case) -> Cost:
        words = (self.bench.write_task(case), self.bench.find_source(case), ",".join(case.templates.columns))
        return self.bench.refer("loop", *words)

    def _find_empty(self) -> Path:
        path = self.bench.folder / "one.jsonl"
        path.write_text('{"a": 1}\n')
        return path

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
    """Yield the rows that a script prints as `row: WORK | OURS | OTHER | LIMIT | RATIO | PROMISE`."""
    command = [sys.executable, str(HERE / name), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - fixed words
    print(done.stdout, done.stderr, sep="", end="", flush=True)
    lines = [line.removeprefix("row: ") for line in done.stdout.splitlines() if line.startswith("row: ")]
    if not lines:
        raise SystemExit(f"{name} printed no row and ended with {done.returncode}")
    for line in lines:
        work, ours, other, limit, ratio, promise = line.split(" | ")
        yield Row(work, ours, other, limit, float(ratio), float(promise))


#: The parts whose work grows with the rows.
GROWING = ("reading", "templates", "runs", "imports")
TENFOLD = 10


def measure_growth(bench: Workbench, rows: int) -> Table:
    """Return what each work takes for so many rows and for ten times as many."""
    sizes = (rows, TENFOLD * rows)
    few, many = (
        [row for part in GROWING for row in getattr(Bench(bench, size), f"measure_{part}")()]
        for size in sizes
    )
    lines = [
        [
            one.work,
            one.ours,
            other.ours,
            f"{other.cost.cpu / one.cost.cpu:.1f}",
            f"{other.cost.peak / one.cost.peak:.2f}",
        ]
        for one, other in zip(few, many, strict=True)
        if one.cost and other.cost
    ]
    return Table(("work", *map(_count, sizes), "CPU", "memory"), lines)


def describe_machine() -> str:
    """Return what was measured on, and with what."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(f"{name} {version(name)}" for name in ("polars", "jinja2", "aiohttp", "answerkey"))
    kind = f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB of memory, {platform.system()}"
    return (
        f"Measured on {time.strftime('%Y-%m-%d')}: {kind}, Python {platform.python_version()}, {libraries}."
    )


def _join(content: str, found: re.Match[str]) -> str:
    return f"{found[1]}{content}\n{found[2]}"


def write_page(**contents: str) -> None:
    """Put texts between their marks in the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, content in contents.items():
        pattern = rf"(<!-- measured: {name} -->\n).*?(<!-- /measured -->)"
        text = re.sub(pattern, partial(_join, content), text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


def main() -> int:
    """Measure, print and write; return 1 when a promise is missed."""
    begun = time.monotonic()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = [name.removeprefix("measure_") for name in vars(Bench) if name.startswith("measure_")]
    parser.add_argument("--rows", type=int, default=MILLION, help="rows of the main size")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured; the best counts")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, metavar="PART", help=str(parts))
    parser.add_argument("--growth", action="store_true", help="ten times the rows, too; takes half an hour")
    parser.add_argument("--folder", type=Path, default=WORK, help="where datasets and runs lie meanwhile")
    parser.add_argument("--no-page", action="store_true", help="leave docs/performance.md as it is")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.growth:
        grown = measure_growth(Workbench(given.folder, 1), given.rows)
        print(f"\n{grown.to_text()}\n\n{time.monotonic() - begun:.0f} s in all")
        if given.rows == MILLION and not given.no_page:
            write_page(growth=grown.to_markdown())
        return 0
    bench, rows = Bench(Workbench(given.folder, given.turns), given.rows), []
    for part in given.parts:
        print(f"{part}, after {time.monotonic() - begun:.0f} s", flush=True)
        measure: Callable[[], Iterator[Row]] = getattr(bench, f"measure_{part}")
        rows += measure()
    bench.bench.clear(with_cache=True)
    head = ("work", "ours", "best other", "the limit", "ratio", "promise")
    table = Table(head, [row.to_cells() for row in rows])
    print(f"\n{describe_machine()}\n\n{table.to_text()}\n\n{time.monotonic() - begun:.0f} s in all")
    if set(given.parts) == set(parts) and given.rows == MILLION and not given.no_page:
        write_page(machine=describe_machine(), table=table.to_markdown())
    return 1 if any(row.is_missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
