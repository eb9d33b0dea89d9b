"""Tells how many small changes to scorers, metrics and extraction the tests notice.

python -m tests.mutation.mutants                 every mutant
python -m tests.mutation.mutants --sample 600    some of them, drawn by --seed
python -m tests.mutation.mutants --again         those that the last run left, for whoever writes tests
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from .baseline import measure
from .mutating import Mutant, find_mutants
from .running import Outcome, run_mutants
from .tallying import NOTICED, Tally, count, keep_outcomes, read_equivalents, read_outcomes, write_table

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "answerkey"
ROOMS = ("reader", "scorers", "metrics", "robustness")
_TESTS = ("unit/reader", "unit/scorers", "unit/metrics", "cases", "unit/robustness")
FOLDERS = tuple(ROOT / "tests" / name for name in _TESTS)
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
#: Test files whose tests take long for what they notice.
LEFT_OUT = frozenset({"test_real_completions.py", "test_linear_work.py", "test_nothing_stated.py"})
#: What a quick run is about, the tests that it runs, and those, with their modules, that it does without.
QUICK = (SOURCE / "metrics", SOURCE / "reader")
QUICK_TESTS = (FOLDERS[0], FOLDERS[2], FOLDERS[3] / "test_rule_cases.py")
SLOW = frozenset({"test_coverage.py", "test_columns.py", "test_python.py", "test_cases.py"})
#: Between these lines of a page stands what the last run found.
BEGIN, END = "<!-- mutants -->", "<!-- /mutants -->"


def list_files() -> list[Path]:
    """Return the files that are mutated."""
    return sorted(path for room in ROOMS for path in (SOURCE / room).rglob("*.py"))


def list_tests() -> list[Path]:
    """Return the test files that are run."""
    files = sorted(path for folder in FOLDERS for path in folder.rglob("test_*.py"))
    return [path for path in files if path.name not in LEFT_OUT]


def list_mutants(files: Sequence[Path]) -> list[Mutant]:
    """Return every mutant of these files."""
    return [mutant for path in files for mutant in find_mutants(path, name_module(path))]


def name_module(path: Path) -> str:
    """Return a file's module below the package: `metrics.paired`."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def read_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="N", help="draw N mutants")
    parser.add_argument("--seed", type=int, default=1, help="the draw, and the order of all mutants")
    parser.add_argument("--match", default="", metavar="TEXT", help="only mutants with this in their names")
    parser.add_argument("--again", action="store_true", help="only mutants that the last run left")
    parser.add_argument(
        "--quick", action="store_true", help="a part of the rooms, without tests that take seconds"
    )
    parser.add_argument("--rest", action="store_true", help="only mutants that no run has judged yet")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants are run at a time")
    parser.add_argument(
        "--kept", type=Path, default=ROOT / "build" / "mutants", help="what runs leave for later"
    )
    parser.add_argument("--least", type=float, default=0.9, help="the score below which this fails")
    parser.add_argument("--page", type=Path, help="the page that says what the last run found")
    return parser.parse_args(words)


def main() -> None:
    """Run mutants, print what became of them, and end with 1 when the score is too low."""
    options = read_options()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # threads do not outlive a fork
    start = time.monotonic()
    known = read_outcomes(options.kept / "outcomes.json")
    equivalents = read_equivalents(EQUIVALENT)
    drawing = random.Random(options.seed)
    files, tests = list_files(), list_tests()
    if options.quick:
        files = [file for file in files if file.parent in QUICK and f"test_{file.name}" not in SLOW]
        tests = [test for test in tests if _is_quick(test)]
    mutants = [mutant for mutant in list_mutants(files) if options.match in mutant.name]
    if options.again:
        mutants = [mutant for mutant in mutants if _is_left(mutant, known)]
    if options.rest:
        mutants = [mutant for mutant in mutants if mutant.name not in known]
    whole = len(mutants)
    mutants = drawing.sample(mutants, min(options.sample or len(mutants), len(mutants)))
    baseline = measure(files, tests, options.kept)
    teller = Teller(len(mutants), known, options.kept / "outcomes.json")
    outcomes = run_mutants(mutants, baseline, tests, options.jobs, teller.tell)
    teller.keep()
    tallies = count(mutants, outcomes, equivalents)
    minutes = (time.monotonic() - start) / 60
    drawn = f"{len(mutants):,} of {whole:,} mutants, drawn with seed {options.seed}"
    told = [summarize(tallies["all"], drawn, minutes), "", write_table(tallies)]
    sys.stdout.write("\n".join([*reversed(told), ""]))
    if options.page:
        renew_page(options.page, told[0])
    sys.exit(tallies["all"].score < options.least)


class Teller:
    """Says on the terminal which mutants live, and keeps what became of all."""

    def __init__(self, size: int, outcomes: dict[str, Outcome], file: Path) -> None:
        self.terminal = os.fdopen(os.dup(2), "w", encoding="utf-8")
        self.size, self.done = size, 0
        self.outcomes, self.file = outcomes, file

    def tell(self, mutant: Mutant, outcome: Outcome) -> None:
        """Note what became of a mutant, and say so unless a test noticed it."""
        self.done += 1
        self.outcomes[mutant.name] = outcome
        if outcome.status not in NOTICED:
            place = f"{mutant.path.name}:{mutant.lines.start}"
            self.terminal.write(f"[{self.done}/{self.size}] {outcome.status} {place} {mutant.name}\n")
            self.terminal.flush()
        if not self.done % 100:
            self.keep()

    def keep(self) -> None:
        """Keep the outcomes for the next run."""
        keep_outcomes(self.file, self.outcomes)


def summarize(totals: Tally, drawn: str, minutes: float) -> str:
    """Return what a run found, in sentences."""
    day = datetime.now(UTC).date().isoformat()
    return (
        f"{day}: {drawn}, in {minutes:.0f} minutes.\n"
        f"{totals.killed:,} killed, {totals.survived:,} survived, {totals.equivalent:,} argued equivalent.\n"
        f"Score: {totals.score:.1%}; without the list of equivalents {totals.plain_score:.1%}."
    )


def renew_page(page: Path, text: str) -> None:
    """Put a text between the marks of a page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def _is_quick(test: Path) -> bool:
    return test.name not in SLOW and any(one in {test, test.parent} for one in QUICK_TESTS)


def _is_left(mutant: Mutant, known: dict[str, Outcome]) -> bool:
    return mutant.name in known and known[mutant.name].status not in NOTICED


if __name__ == "__main__":
    main()
