"""Ours and the baselines on the same datasets, in turns, each time in a fresh process."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from measuring import HERE, Cost, run_command, run_inside, take_best
from reader import Pace
from workloads import COMPUTED, LITERAL_RULE, Case, Mix

WARM_ROWS = 100
MAIN_ROWS = 1_000_000
SIZES = (10_000, 100_000, MAIN_ROWS, 10_000_000)
#: Up to here the in-memory form of raw Polars is measured, beyond it the streaming form.
IN_MEMORY_ROWS = 2_000_000
FORMS = ("render", "expression")
MIXES = {
    "half of the completions long": Case(0, mix=Mix(long=0.5)),
    "half of the completions outside ASCII": Case(0, mix=Mix(unicode=0.5)),
    "a quarter of the rows with other labels": Case(0, mix=Mix(relabelled=0.25)),
    "computed templates, some thousand distinct values": Case(0, templates=COMPUTED),
    "computed templates, half of the values unique": Case(0, templates=COMPUTED, mix=Mix(unique=0.5)),
}

Work = Callable[[], Cost]


@dataclass(frozen=True)
class Workbench:
    """A folder for datasets, tasks and runs, and how often each measurement is taken."""

    folder: Path
    turns: int

    def find_dataset(self, rows: int, mix: Mix, ending: str = "parquet") -> Path:
        """Return a dataset, which is made the first time; a changed generator makes new ones."""
        maker = HERE / "generating.py"
        words = [str(rows), *mix.to_words(), hashlib.sha256(maker.read_bytes()).hexdigest()]
        name = hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]
        path = self.folder / "datasets" / f"rows-{name}.{ending}"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"draft.{ending}")
            run_command([sys.executable, str(maker), str(draft), "--rows", str(rows), *mix.to_words()])
            draft.rename(path)
        return path

    def write_task(self, case: Case) -> Path:
        """Return the task file of a case."""
        text = json.dumps(case.describe_task(), indent=2)
        path = self.folder / "tasks" / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def run(self) -> Path:
        """Where the run under measurement lies."""
        return self.folder / "run"

    @property
    def raw_scores(self) -> Path:
        """Where raw Polars writes."""
        return self.folder / "raw.parquet"

    @property
    def cache(self) -> Path:
        """The user's cache folder, as far as the measured commands know."""
        return self.folder / "cache"

    def clear(self, *, with_cache: bool = False) -> None:
        """Remove what the last measurement wrote."""
        folders = [self.run, self.run.with_name("run-warm"), *([self.cache] if with_cache else [])]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def run_score(self, case: Case) -> Cost:
        """Return the cost of the command `answerkey score`, start-up and all."""
        self.clear()
        source = self.find_dataset(case.rows, case.mix, case.ending)
        words = ["score", str(self.write_task(case)), "--dataset", str(source), "--out", str(self.run)]
        return run_command([sys.executable, "-m", "answerkey", *words], {"XDG_CACHE_HOME": str(self.cache)})

    def run_ours(self, case: Case) -> Cost:
        """Return the cost of the command, and beside it that of the same work without start-up."""
        whole = self.run_score(case)
        self.clear()
        words = ["--task", str(self.write_task(case)), *self._say_sources(case), "--out", str(self.run)]
        inside = run_inside("ours", words, {"XDG_CACHE_HOME": str(self.cache)})
        facts = {"correct": self._read_accuracy(), "written": self._count_written()}
        return replace(whole, inner_wall=inside.inner_wall, inner_cpu=inside.inner_cpu, facts=facts)

    def run_raw(self, case: Case) -> Cost:
        """Return the cost of raw Polars on the dataset of a case."""
        words = [*self._say_sources(case), "--out", str(self.raw_scores)]
        cost = run_inside("raw", [*words, "--streaming"] if case.rows > IN_MEMORY_ROWS else words)
        return replace(cost, facts={**cost.facts, "written": self.raw_scores.stat().st_size})

    def run_loop(self, case: Case, form: str) -> Cost:
        """Return the cost of the Jinja loop in two processes."""
        words = ["--task", str(self.write_task(case)), *self._say_sources(case), "--form", form]
        return run_inside("jinja", [*words, "--columns", ",".join(case.templates.columns)])

    def compare(self) -> None:
        """Stop unless raw Polars wrote what the last run of ours did."""
        scores = self.run / "tasks" / "bench" / "scores"
        run_inside("compare", ["--source", str(scores), "--out", str(self.raw_scores)])

    def take_turns(self, works: Mapping[str, Work], title: str) -> dict[str, Cost]:
        """Return the best of each work, which are measured one after the other, again and again."""
        costs: dict[str, list[Cost]] = {name: [] for name in works}
        for turn in range(self.turns):
            for name, work in works.items():
                costs[name].append(work())
                _say(f"{title}, turn {turn + 1}: {name}", costs[name][-1])
        return {name: take_best(found) for name, found in costs.items()}

    def _say_sources(self, case: Case) -> list[str]:
        warm = self.find_dataset(WARM_ROWS, Mix())
        return ["--warm", str(warm), "--source", str(self.find_dataset(case.rows, case.mix, case.ending))]

    def _read_accuracy(self) -> float:
        metrics = json.loads((self.run / "tasks" / "bench" / "metrics.json").read_text())["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "Accuracy"))

    def _count_written(self) -> int:
        return sum(path.stat().st_size for path in self.run.rglob("*.parquet"))


def _say(title: str, cost: Cost) -> None:
    wall, cpu = cost.inner_wall or cost.wall, cost.inner_cpu or cost.cpu
    print(f"  {title}: {wall:.3f} s, {cpu:.3f} CPU s, {cost.peak / 1e6:.0f} MB", flush=True)


@dataclass
class Findings:
    """Everything that was measured, in the order of the page."""

    startup: dict[str, Cost] = field(default_factory=dict)
    sizes: dict[int, dict[str, Cost]] = field(default_factory=dict)
    unique: dict[str, Cost] = field(default_factory=dict)
    unique_rows: int = 0
    mixes: dict[str, dict[str, Cost]] = field(default_factory=dict)
    formats: dict[str, dict[str, Cost]] = field(default_factory=dict)
    reader: dict[str, Pace] = field(default_factory=dict)
    foreign: dict[str, dict[str, float] | str] = field(default_factory=dict)
    live: dict[str, tuple[str, bool]] = field(default_factory=dict)


def measure_startup(bench: Workbench) -> dict[str, Cost]:
    """Return the cost of beginning: the help, the import, and a score of a hundred rows."""
    python = sys.executable
    works: dict[str, Work] = {
        "answerkey --help": partial(run_command, [python, "-m", "answerkey", "--help"]),
        "import answerkey": partial(run_command, [python, "-c", "import answerkey"]),
        "answerkey score, 100 rows": partial(bench.run_score, Case(WARM_ROWS)),
    }
    return bench.take_turns(works, "start-up")


def measure_size(bench: Workbench, rows: int) -> dict[str, Cost]:
    """Return the costs at one size: both rules, raw Polars, and up to a million rows the Jinja loop."""
    default, literal = Case(rows), Case(rows, rule=LITERAL_RULE)
    works: dict[str, Work] = {
        "default": partial(bench.run_ours, default),
        "literal": partial(bench.run_ours, literal),
        "raw": partial(bench.run_raw, default),
    }
    found = bench.take_turns(works, f"{rows:,} rows")
    if rows <= MAIN_ROWS:
        bench.compare()
        found |= bench.take_turns(_list_loops(bench, default), f"{rows:,} rows")
    for name in found.keys() - {"default", "literal"}:
        _require_same(found["literal"], found[name], name)
    return found


def _list_loops(bench: Workbench, case: Case) -> dict[str, Work]:
    return {form: partial(bench.run_loop, case, form) for form in FORMS}


def _require_same(ours: Cost, theirs: Cost, name: str) -> None:
    if abs(ours.facts["correct"] - theirs.facts["correct"]) > 1e-12:  # noqa: PLR2004 - rounding of a mean
        raise SystemExit(f"{name} found {theirs.facts['correct']} correct, ours {ours.facts['correct']}")


def measure_unique(bench: Workbench, rows: int) -> dict[str, Cost]:
    """Return the costs where every row's truth and choices are computed from values that no other row has."""
    case = Case(rows, templates=COMPUTED, mix=Mix(unique=1.0))
    works: dict[str, Work] = {"ours": partial(bench.run_ours, case), **_list_loops(bench, case)}
    return bench.take_turns(works, f"unique, {rows:,} rows")


def measure_mixes(bench: Workbench, rows: int) -> dict[str, dict[str, Cost]]:
    """Return the costs of ours and of raw Polars for other mixes of rows and other templates."""
    found = {}
    for name, bare in MIXES.items():
        case = replace(bare, rows=rows)
        works: dict[str, Work] = {"ours": partial(bench.run_ours, case), "raw": partial(bench.run_raw, case)}
        found[name] = bench.take_turns(works, name)
    return found


def measure_formats(bench: Workbench, rows: int) -> dict[str, dict[str, Cost]]:
    """Return the costs of the command for text formats: the first time, and when the dataset is cached."""
    found = {}
    for ending in ("jsonl", "csv"):
        case = Case(rows, ending=ending)
        works: dict[str, Work] = {
            "first": partial(_score_first, bench, case),
            "again": partial(bench.run_score, case),
        }
        found[ending] = bench.take_turns(works, ending)
    return found


def _score_first(bench: Workbench, case: Case) -> Cost:
    bench.clear(with_cache=True)
    return bench.run_score(case)
