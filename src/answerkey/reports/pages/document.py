"""The report: one HTML file with everything in it, written part by part.

runs ──► overviews, comparison, selections ──► begin of the page, a block of JSON each, end of the page
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from answerkey._version import __version__
from answerkey.engines import Spread, open_engine
from answerkey.evaluate.pairs import is_same_run
from answerkey.reports.pages.compared import describe_comparison, label_runs, list_compared
from answerkey.reports.pages.embedding import (
    BLOCK_SAMPLES,
    Columns,
    embed_samples,
    join_columns,
    write_block,
    write_element,
    write_json,
)
from answerkey.reports.pages.overview import describe_run
from answerkey.reports.pages.rows import RowBook
from answerkey.reports.pages.selection import MOST_EMBEDDED, Selection, select_rows
from answerkey.reports.pages.skeleton import load_skeleton
from answerkey.runs import Run, write_whole

#: So many samples are described together, by one process.
TOGETHER = 5 * BLOCK_SAMPLES
#: Starting worker processes takes as long as describing so many samples.
WORKER_ROWS = 2_000

Plain = dict[str, Any]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ReportOptions:
    """How a report is made: at most how many rows of each task it embeds, and what runs are held against.

    With `common`, runs are compared on the samples that all of them have. `title` is that of the page.
    """

    most: int = MOST_EMBEDDED
    baseline: Run | None = None
    common: bool = False
    title: str | None = None


@dataclass(frozen=True)
class Report:
    """What was written: the file and its size, and how many of the rows are in it."""

    path: Path
    size: int
    runs: int
    rows: int
    embedded: int
    notices: tuple[str, ...] = ()


def write_report(
    runs: Sequence[Run],
    path: str | Path,
    options: ReportOptions | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write the report of one or several runs; the file is there whole or not at all."""
    making = _Making(runs, options or ReportOptions(), progress or (lambda *_: None))
    target = Path(path)

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(making.write())

    write_whole(target, write)
    chosen = making.selections.values()
    return Report(
        path=target,
        size=target.stat().st_size,
        runs=len(making.runs),
        rows=sum(one.count for one in chosen),
        embedded=sum(map(len, chosen)),
    )


class _Making:
    """A report that is being made."""

    def __init__(self, runs: Sequence[Run], options: ReportOptions, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self.runs = {f"r{number}": run for number, run in enumerate(list_distinct(runs, options.baseline))}
        self.baseline = _find_baseline(self.runs, options.baseline)
        self.labels = dict(zip(self.runs, label_runs(list(self.runs.values())), strict=True))
        self.books = {
            name: {key: RowBook(run, task) for key, task in run.tasks.items()}
            for name, run in self.runs.items()
        }
        self.selections: dict[tuple[str, int], Selection] = {}

    def write(self) -> Iterator[str]:
        """Yield the page, part by part."""
        skeleton = load_skeleton()
        comparison = self._compare()
        for name in self.runs:
            for number, book in enumerate(self.books[name].values()):
                compared = list_compared(comparison, name, number)
                self.selections[name, number] = select_rows(book, self.options.most, compared)
        title = self.options.title or _name_page(self.labels, self.runs)
        yield skeleton.begin(title)
        yield self._write_overview(title, comparison)
        yield from self._write_rows()
        yield skeleton.end()

    def _compare(self) -> Plain | None:
        if len(self.runs) == 1:
            return None
        self.progress("comparing", 0, 1)
        return describe_comparison(self.runs, self.books, baseline=self.baseline, common=self.options.common)

    def _write_overview(self, title: str, comparison: Plain | None) -> str:
        """Return the first block, which is never packed: the page cannot begin without it."""
        overviews = []
        for place, name in enumerate(self.runs):
            self.progress("auditing", place, len(self.runs))
            overviews.append(self._describe_run(name))
        content = {
            "mode": "report",
            "title": title,
            "made": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "version": __version__,
            "runs": overviews,
            "comparison": comparison,
        }
        return write_element("ak-overview", f">{write_json(content)}")

    def _describe_run(self, name: str) -> Plain:
        base = None if self.baseline in {None, name} else self.runs[str(self.baseline)]
        run = self.runs[name]
        overview = describe_run(run, baseline=base, run_id=name, label=self.labels[name])
        for number, task in enumerate(overview["tasks"]):
            chosen = self.selections[name, number]
            missing = self.books[name][task["key"]].missing
            sentences = [one for one in (chosen.sentence, missing) if one]
            task["rows"] |= {"embedded": len(chosen), "sentence": " ".join(sentences) or None}
        return overview

    def _write_rows(self) -> Iterator[str]:
        total, done = sum(map(len, self.selections.values())), 0
        for (name, number), chosen in self.selections.items():
            book = list(self.books[name].values())[number]
            place, columns, blocks = f"{list(self.runs).index(name)}-{number}", list[Columns](), 0
            for part, texts in _embed(book, chosen):
                columns.append(part)
                for text in texts:
                    yield write_element(f"ak-samples-{place}-{blocks}", text)
                    blocks += 1
                done += len(part["p"])
                self.progress("writing", done, total)
            yield write_element(f"ak-rows-{place}", write_block(join_columns(columns)))


def _embed(book: RowBook, chosen: Selection) -> Iterator[tuple[Columns, list[str]]]:
    """Yield rows and blocks of samples, made by as many processes as there are cores."""
    if not len(chosen):
        return iter(())
    starts = range(0, len(chosen), TOGETHER)
    stretches = (chosen.positions.slice(start, TOGETHER) for start in starts)
    spread: Spread = "processes" if len(chosen) > WORKER_ROWS else "alone"
    return open_engine().map(partial(embed_samples, book.source), stretches, spread=spread)


def list_distinct(runs: Sequence[Run], baseline: Run | None) -> list[Run]:
    """Return each run once, the baseline last."""
    found: list[Run] = []
    for run in runs:
        if not any(is_same_run(run, one) for one in (*found, *([baseline] if baseline else []))):
            found.append(run)
    return [*found, *([baseline] if baseline else [])]


def _find_baseline(runs: Mapping[str, Run], baseline: Run | None) -> str | None:
    return None if baseline is None else next(name for name, run in runs.items() if run is baseline)


def _name_page(labels: Mapping[str, str], runs: Mapping[str, Run]) -> str:
    first = next(iter(runs.values()))
    if len(runs) == 1:
        return str(first.manifest.get("display_name") or first.key)
    return f"{len(labels)} runs compared"
