"""Several runs compared, as the page shows them: pairs of runs, or a leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from answerkey.comparison.compare import PairComparison, TaskComparison
from answerkey.errors import AnswerkeyError
from answerkey.evaluate.pairs import name_runs
from answerkey.metrics.paired import CLUSTERED_TEST, EXACT_TEST, PAIRED_TEST
from answerkey.reports.leaderboard import (
    Compared,
    Labels,
    Leaderboard,
    Runs,
    Tasks,
    build_leaderboard,
    compare_tasks,
    list_columns,
)
from answerkey.reports.samples import locate
from answerkey.reports.view import Interval
from answerkey.runs import Run, name_answerer

#: The most flipped samples of a pair that are listed; fewer where there are many pairs.
MAX_FLIPS, MAX_ALL_FLIPS, MIN_FLIPS = 2_000, 20_000, 100
TESTS = {
    EXACT_TEST: "McNemar's exact test",
    PAIRED_TEST: "paired t test over samples",
    CLUSTERED_TEST: "t test over clusters",
}


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample that only one run of a pair answers correctly; `p` are its positions."""

    id: str
    p: Mapping[str, int]
    side: str


@dataclass(frozen=True, slots=True)
class CategoryDifference:
    """The difference in one category."""

    label: str
    difference: float
    interval: Interval | None
    n: int


@dataclass(frozen=True, slots=True)
class PairView:
    """Two runs, by their ids, and how they differ."""

    first: str
    second: str
    difference: float
    interval: Interval | None
    p: float | None
    p_adjusted: float | None
    test: str
    is_significant: bool
    first_only: int
    second_only: int
    left_out: Mapping[str, int]
    categories: Sequence[CategoryDifference]
    flips: Sequence[Flip]
    flips_total: int


@dataclass(frozen=True, slots=True)
class ComparedRunView:
    """One of the runs; `task` is the number of the task in it."""

    id: str
    task: int
    label: str
    model: str
    mean: float | None
    n: int


@dataclass(frozen=True, slots=True)
class ComparedTask:
    """One task, compared between the runs that have it."""

    key: str
    name: str | None
    samples: int
    comparisons: int
    runs: Sequence[ComparedRunView]
    is_share: bool
    pairs: Sequence[PairView]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """The comparison of several runs; `refused` says why there is none."""

    tasks: Sequence[ComparedTask]
    notices: Sequence[str]
    refused: str | None
    leaderboard: Leaderboard | None


def label_runs(runs: Sequence[Run]) -> list[str]:
    """Return the names of runs' folders, numbered where they are the same."""
    counts: dict[str, int] = {}
    labels = []
    for run in runs:
        name = run.key
        if run.path:
            name = run.path.resolve().name
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 1:
            name += f" ({counts[name]})"
        labels.append(name)
    return labels


def build_comparison(runs: Runs) -> ComparisonView:
    """Return the comparison of runs by their ids."""
    names = label_runs(list(runs.values()))
    labels = dict(zip(runs, names, strict=True))
    compared: list[Compared] = []
    notices: list[str] = []
    refused = None
    try:
        compared, notices = compare_tasks(runs)
    except AnswerkeyError as error:
        refused = f"{error.message} ({error.hint})" if error.hint else error.message
        refused = _rename(refused, runs, labels)
    comparisons = 0
    for task, _ in compared:
        comparisons += len(task.pairs)
    board = None
    if len(runs) > 2 or refused:  # noqa: PLR2004 - a pair is compared, more are ranked
        columns = list_columns(runs, compared)
        board = build_leaderboard(runs, labels, columns)
    views = []
    for task, tasks in compared:
        view = _build_task(
            task,
            tasks,
            runs,
            labels,
            comparisons,
        )
        views.append(view)
    return ComparisonView(
        tasks=views,
        notices=[_rename(notice, runs, labels) for notice in notices],
        refused=refused,
        leaderboard=board,
    )


def _rename(
    text: str,
    runs: Runs,
    labels: Labels,
) -> str:
    """Return a sentence with runs called as in the page, not by the folders of this machine."""
    names = name_runs(list(runs.values()))
    for name, (run_id, run) in zip(names, runs.items(), strict=True):
        label = labels[run_id]
        text = text.replace(f"`{name}`", f"`{label}`")
        if run.path:
            text = text.replace(str(run.path), label)
    return text


def list_flips(
    comparison: ComparisonView | None,
    run: str,
    task: int,
) -> list[int]:
    """Return the positions of the flipped samples that are listed, in one task of one run."""
    positions: set[int] = set()
    for view in comparison.tasks if comparison else ():
        if all((side.id, side.task) != (run, task) for side in view.runs):
            continue
        for pair in view.pairs:
            for flip in pair.flips:
                if run in flip.p:
                    positions.add(flip.p[run])
    return sorted(positions)


def _build_task(
    task: TaskComparison,
    tasks: Tasks,
    runs: Runs,
    labels: Labels,
    comparisons: int,
) -> ComparedTask:
    """Return the comparison of one task; `tasks` are in the order of the comparison."""
    limit = min(MAX_FLIPS, max(MIN_FLIPS, MAX_ALL_FLIPS // comparisons))
    ids: dict[str, str] = {}
    sides = []
    for side, (name, task_run) in zip(task.runs, tasks.items(), strict=True):
        ids[side.label] = name
        keys = list(runs[name].tasks)
        view = ComparedRunView(
            id=name,
            task=keys.index(task_run.key),
            label=labels[name],
            model=name_answerer(task_run.manifest, with_folder=False),
            mean=side.mean,
            n=side.n,
        )
        sides.append(view)
    listed = [_choose_flips(pair, limit) for pair in task.pairs]
    samples: list[str] = []
    for flips in listed:
        samples += flips
    positions = {}
    for name, task_run in tasks.items():
        positions[name] = locate(task_run, samples)
    pairs = []
    for pair, flips in zip(task.pairs, listed, strict=True):
        pairs.append(_build_pair(pair, ids, labels, flips, positions))
    first = next(iter(tasks.values()))
    return ComparedTask(
        key=task.key,
        name=first.manifest.get("display_name"),
        samples=task.samples,
        comparisons=comparisons,
        runs=sides,
        is_share=all(side.is_share for side in task.runs),
        pairs=pairs,
    )


def _choose_flips(pair: PairComparison, limit: int) -> dict[str, str]:
    """Return flipped samples with their side: as many of each side where there are too many."""
    most = max(limit // 2, limit - len(pair.second_only))
    first = pair.first_only[:most]
    second = pair.second_only[: limit - len(first)]
    flips = dict.fromkeys(first, "first")
    flips |= dict.fromkeys(second, "second")
    return flips


def _build_pair(
    pair: PairComparison,
    ids: Mapping[str, str],
    labels: Labels,
    flips: Mapping[str, str],
    positions: Mapping[str, Mapping[str, int]],
) -> PairView:
    evidence = pair.difference.evidence
    sides = ids[pair.first], ids[pair.second]
    left_out = {}
    for reason, count in pair.left_out.items():  # `failed in a`, with the run called as in the page
        shown = reason
        for label, name in ids.items():
            if reason.endswith(f" in {label}"):
                shown = f"{reason.removesuffix(label)}{labels[name]}"
                break
        left_out[shown] = count
    categories = []
    for label, value in pair.categories.items():
        category = CategoryDifference(
            label,
            value.value,
            value.evidence.interval,
            value.n,
        )
        categories.append(category)
    views = []
    for name, side in flips.items():
        places = {}
        for run in sides:
            if name in positions[run]:
                places[run] = positions[run][name]
        views.append(Flip(name, places, side))
    return PairView(
        first=sides[0],
        second=sides[1],
        difference=pair.difference.value,
        interval=evidence.interval,
        p=evidence.p,
        p_adjusted=pair.p_adjusted,
        test=TESTS.get(evidence.p_method or "", "no test"),
        is_significant=pair.is_significant(),
        first_only=len(pair.first_only),
        second_only=len(pair.second_only),
        left_out=left_out,
        categories=categories,
        flips=views,
        flips_total=len(pair.first_only) + len(pair.second_only),
    )
