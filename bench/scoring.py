"""A folder for datasets, tasks and runs, and the commands that are measured there."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import HERE, Cost, run_command, take_best
from workloads import Case, Mix

Work = Callable[[], Cost]


@dataclass(frozen=True)
class Workbench:
    """Where datasets, tasks and runs lie, and how often each measurement is taken."""

    folder: Path
    turns: int

    def make_file(self, name: str, words: Sequence[str]) -> Path:
        """Return a file that the generator makes the first time.

        A changed generator makes new ones.
        """
        maker = HERE / "generating.py"
        parts = [name, *words, hashlib.sha256(maker.read_bytes()).hexdigest()]
        path = (
            self.folder
            / "datasets"
            / f"{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:12]}-{name}"
        )
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"draft-{name}")
            run_command([sys.executable, str(maker), str(draft), *words])
            draft.rename(path)
        return path

    def find_dataset(self, rows: int, mix: Mix, ending: str = "parquet") -> Path:
        """Return a dataset of this many rows."""
        return self.make_file(f"rows.{ending}", ["--rows", str(rows), *mix.to_words()])

    def find_source(self, case: Case) -> Path:
        """Return the dataset of a case."""
        words = ["--rows", str(case.rows), *case.mix.to_words(), "--shape", case.shape, *case.words]
        return self.make_file(f"{case.shape}.{case.ending}", words)

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
    def cache(self) -> Path:
        """The cache folder that the measured commands use."""
        return self.folder / "cache"

    def clear(self, *, with_cache: bool = False) -> None:
        """Remove what the last measurement wrote."""
        for folder in [self.run, *([self.cache] if with_cache else [])]:
            self.clear_folder(folder)

    @staticmethod
    def clear_folder(folder: Path) -> None:
        """Remove a folder or a file."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.unlink(missing_ok=True)

    def call(self, *words: str | Path, cores: str | None = None) -> Cost:
        """Return the cost of one command of ours, start-up and all; `cores` are those it may use,
        as `taskset` lists them.
        """
        command = [sys.executable, "-m", "answerkey", *map(str, words)]
        if cores is not None:
            command = ["taskset", "--cpu-list", cores, *command]
        return run_command(command, {"XDG_CACHE_HOME": str(self.cache)})

    def refer(self, kind: str, *words: str | Path) -> Cost:
        """Return the cost of one kind of `references.py`, start-up and all."""
        return run_command([sys.executable, str(HERE / "references.py"), kind, *map(str, words)])

    def score(self, case: Case, *, is_first: bool = False, cores: str | None = None) -> Cost:
        """Return the cost of the command `answerkey score`; `is_first`: no dataset is known from
        before.
        """
        self.clear(with_cache=is_first)
        source = self.find_source(case)
        task = self.write_task(case)
        return self.call("score", task, "--dataset", source, "--out", self.run, cores=cores)

    def take_turns(self, works: Mapping[str, Work], turns: int | None = None) -> dict[str, Cost]:
        """Return the best of each work, which are measured one after the other, again and again."""
        costs: dict[str, list[Cost]] = {name: [] for name in works}
        for _ in range(turns or self.turns):
            for name, work in works.items():
                costs[name].append(cost := work())
                print(
                    f"  {name}: {cost.cpu:.2f} CPU s, {cost.wall:.2f} s, {cost.peak / 1e6:.0f} MB",
                    flush=True,
                )
        return {name: take_best(result) for name, result in costs.items()}
