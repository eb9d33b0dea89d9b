"""Several runs compared, as a page shows it: forest rows, categories, flipped samples side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.comparison.compare import Comparison, PairComparison, TaskComparison, compare
from answerkey.errors import AnswerkeyError
from answerkey.evaluate.pairs import ComparedRun, name_runs
from answerkey.metrics.paired import CLUSTERED_TEST, EXACT_TEST, PAIRED_TEST
from answerkey.reports.listing import find_main_metric
from answerkey.reports.pages.rows import RowBook
from answerkey.runs import Run, name_answerer
from answerkey.text import clean_numbers, format_chance, format_number

#: So many flipped samples of a pair are listed, and fewer where there are many pairs.
MOST_FLIPS, MOST_OF_ALL, FEWEST = 2_000, 20_000, 100
TESTS = {
    EXACT_TEST: "McNemar's exact test",
    PAIRED_TEST: "paired t test over samples",
    CLUSTERED_TEST: "t test over clusters",
}
Plain = dict[str, Any]
#: Run id → task key → rows.
Books = Mapping[str, Mapping[str, RowBook]]


def label_runs(runs: Sequence[Run]) -> list[str]:
    """Return what runs are called in a page: the names of their folders, numbered where they are the same."""
    names = [run.path.resolve().name if run.path else run.key for run in runs]
    counts: dict[str, int] = {}
    labels = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        labels.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return labels


def describe_comparison(
    runs: Mapping[str, Run], books: Books, *, baseline: str | None = None, common: bool = False
) -> Plain:
    """Return the comparison of runs by their ids; `refused` says why there is none.

    With `baseline`, the id of one of them, the others are each held against it.
    """
    labels = dict(zip(runs, label_runs(list(runs.values())), strict=True))
    ordered = {one: runs[one] for one in runs if one != baseline}
    against = None if baseline is None else runs[baseline]
    ordered |= {} if baseline is None or against is None else {baseline: against}
    try:
        found = compare(*(runs[one] for one in ordered if one != baseline), baseline=against, common=common)
    except AnswerkeyError as error:
        refused = f"{error.message} ({error.hint})" if error.hint else error.message
        return {"tasks": [], "notices": [], "refused": _rename(refused, ordered, labels)}
    described: Plain = clean_numbers(
        {
            "tasks": [_Drawing(task, ordered, labels, books, found).describe() for task in found.tasks],
            "notices": [_rename(notice.message, ordered, labels) for notice in found.notices],
            "refused": None,
        }
    )
    return described


def _rename(text: str, runs: Mapping[str, Run], labels: Mapping[str, str]) -> str:
    """Return a sentence with runs called as in the page, and not by the folders of this machine."""
    for name, known in zip(runs, name_runs(list(runs.values())), strict=True):
        text = text.replace(f"`{known}`", f"`{labels[name]}`")
        text = text.replace(str(runs[name].path), labels[name]) if runs[name].path else text
    return text


def list_compared(comparison: Plain | None, run: str, task: int) -> list[int]:
    """Return the positions of the flipped samples that a comparison lists, in one task of one run."""
    found: set[int] = set()
    for one in [] if comparison is None else comparison["tasks"]:
        if (run, task) not in [(each["id"], each["task"]) for each in one["runs"]]:
            continue
        flips = (flip for pair in one["pairs"] for flip in pair["flips"])
        found.update(flip["p"][run] for flip in flips if run in flip["p"])
    return sorted(found)


class _Drawing:
    """The comparison of one task; `runs` are in the order of the comparison."""

    def __init__(
        self,
        task: TaskComparison,
        runs: Mapping[str, Run],
        labels: Mapping[str, str],
        books: Books,
        whole: Comparison,
    ) -> None:
        self.task, self.labels, self.whole = task, labels, whole
        self.ids = {one.label: run for one, run in zip(task.runs, runs, strict=True)}
        keys = {name: self._find_key(run) for name, run in runs.items()}
        self.books = {name: books[name][key] for name, key in keys.items()}
        self.places = {name: list(runs[name].tasks).index(key) for name, key in keys.items()}
        self.is_share = all(one.is_share for one in task.runs)
        self.most = min(MOST_FLIPS, max(FEWEST, MOST_OF_ALL // len(whole.pairs)))

    def _find_key(self, run: Run) -> str:
        """Return which task of a run was compared: the one of that name, or its only one."""
        return self.task.key if self.task.key in run.tasks else next(iter(run.tasks))

    def describe(self) -> Plain:
        """Return the runs and every pair of them."""
        positions = {run: book.locate_all(self._list_flipped()) for run, book in self.books.items()}
        return {
            "key": self.task.key,
            "samples": self.task.samples,
            "runs": [self._describe_run(one) for one in self.task.runs],
            "is_share": self.is_share,
            "pairs": [self._describe_pair(pair, positions) for pair in self.task.pairs],
        }

    def _describe_run(self, one: ComparedRun) -> Plain:
        return {
            "id": self.ids[one.label],
            "task": self.places[self.ids[one.label]],
            "label": self.labels[self.ids[one.label]],
            "model": name_answerer(self.books[self.ids[one.label]].task_run.manifest, with_folder=False),
            "mean": one.mean,
            "interval": self._find_interval(one),
            "n": one.n,
        }

    def _find_interval(self, one: ComparedRun) -> list[float] | None:
        """Return the interval of the run's own metric, if that is of the same samples."""
        metric = find_main_metric(self.books[self.ids[one.label]].task_run)
        if metric is None or metric.value != one.mean or metric.n != one.n:
            return None
        return _list_ends(metric.interval)

    def _list_flipped(self) -> list[str]:
        return [name for pair in self.task.pairs for name, _ in _list_flips(pair, self.most)]

    def _describe_pair(self, pair: PairComparison, positions: Mapping[str, Mapping[str, int]]) -> Plain:
        found, evidence = pair.difference, pair.difference.evidence
        runs = [self.ids[pair.first], self.ids[pair.second]]
        return {
            "first": runs[0],
            "second": runs[1],
            "difference": found.value,
            "interval": None if evidence.interval is None else list(evidence.interval),
            "se": evidence.std_error,
            "p": evidence.p,
            "p_adjusted": pair.p_adjusted,
            "test": TESTS.get(evidence.p_method or "", "no test"),
            "is_significant": pair.is_significant(),
            "first_only": len(pair.first_only),
            "second_only": len(pair.second_only),
            "left_out": {self._rename_reason(name): count for name, count in pair.left_out.items()},
            "sentence": self._say(pair),
            "categories": [
                {
                    "label": one.category,
                    "difference": one.difference.value,
                    "interval": _list_ends(one.difference.evidence.interval),
                    "n": one.difference.n,
                }
                for one in pair.categories
            ],
            "flips": [
                {
                    "id": name,
                    "p": {run: at[name] for run in runs if name in (at := positions[run])},
                    "side": side,
                }
                for name, side in _list_flips(pair, self.most)
            ],
            "flips_total": len(pair.first_only) + len(pair.second_only),
        }

    def _rename_reason(self, reason: str) -> str:
        """Return why samples are left out, with the run called as in the page: `failed in a`."""
        for known, name in self.ids.items():
            if reason.endswith(f" in {known}"):
                return f"{reason.removesuffix(known)}{self.labels[name]}"
        return reason

    def _say(self, pair: PairComparison) -> str:
        """Return what a pair comes to, in a sentence."""
        found, evidence = pair.difference, pair.difference.evidence
        unit = " points" if self.is_share else ""
        size = f"{self._write(abs(found.value))}{unit}"
        word = "as good as" if not found.value else f"{size} {'better' if found.value > 0 else 'worse'} than"
        ends = evidence.interval
        interval = "" if ends is None else f", 95 % interval [{self._write(ends[0])}, {self._write(ends[1])}]"
        chance = format_chance(pair.p_adjusted)
        several = f", corrected for {len(self.whole.pairs)} comparisons" if len(self.whole.pairs) > 1 else ""
        sign = "p " if chance.startswith("<") else "p = "
        test = f" ({sign}{chance}{several})" if chance else ""
        verdict = "chance alone would rarely give that" if pair.is_significant() else "that may be chance"
        rule = f"{verdict}{test}" if evidence.p is not None else "no test can be made"
        first, second = (self.labels[self.ids[one]] for one in (pair.first, pair.second))
        return f"{first} is {word} {second} on {found.n:,} samples{interval}: {rule}."

    def _write(self, value: float) -> str:
        return f"{100 * value:.2f}" if self.is_share else format_number(value)


def _list_ends(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _list_flips(pair: PairComparison, most: int) -> list[tuple[str, str]]:
    """Return the flipped samples of a pair, as many of one side as of the other where there are too many."""
    first = pair.first_only[: max(most // 2, most - len(pair.second_only))]
    second = pair.second_only[: most - len(first)]
    return [(name, "first") for name in first] + [(name, "second") for name in second]
