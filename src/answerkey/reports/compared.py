"""Several runs compared, as a page shows it: forest rows, categories, flipped samples side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.comparison.compare import Comparison, PairComparison, TaskComparison, compare
from answerkey.errors import AnswerkeyError
from answerkey.evaluate.pairs import name_runs
from answerkey.metrics.paired import CLUSTERED_TEST, EXACT_TEST, PAIRED_TEST
from answerkey.reports.samples import SampleTable
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
Tables = Mapping[str, Mapping[str, SampleTable]]


def label_runs(runs: Sequence[Run]) -> list[str]:
    """Return what runs are called in a page: the names of their folders, numbered where they are the same."""
    counts: dict[str, int] = {}
    labels = []
    for run in runs:
        name = run.path.resolve().name if run.path else run.key
        counts[name] = counts.get(name, 0) + 1
        labels.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return labels


def describe_comparison(
    runs: Mapping[str, Run], tables: Tables, *, baseline: str | None = None, common: bool = False
) -> Plain:
    """Return the comparison of runs by their ids; `refused` says why there is none.

    With `baseline`, the id of one of them, the others are each held against it.
    """
    labels = dict(zip(runs, label_runs(list(runs.values())), strict=True))
    others = {name: run for name, run in runs.items() if name != baseline}
    against = None if baseline is None else runs[baseline]
    ordered = {**others, **({} if baseline is None else {baseline: runs[baseline]})}

    def rename(text: str) -> str:
        """Return a sentence with runs called as in the page, and not by the folders of this machine."""
        for name, known in zip(ordered, name_runs(list(ordered.values())), strict=True):
            text = text.replace(f"`{known}`", f"`{labels[name]}`")
            text = text.replace(str(runs[name].path), labels[name]) if runs[name].path else text
        return text

    try:
        found = compare(*others.values(), baseline=against, common=common)
    except AnswerkeyError as error:
        refused = f"{error.message} ({error.hint})" if error.hint else error.message
        return {"tasks": [], "notices": [], "refused": rename(refused)}
    described: Plain = clean_numbers(
        {
            "tasks": [
                _describe_task(task, found, ordered, labels=labels, tables=tables) for task in found.tasks
            ],
            "notices": [rename(notice.message) for notice in found.notices],
            "refused": None,
        }
    )
    return described


def list_compared(comparison: Plain | None, run: str, task: int) -> list[int]:
    """Return the positions of the flipped samples that a comparison lists, in one task of one run."""
    found: set[int] = set()
    for one in [] if comparison is None else comparison["tasks"]:
        if (run, task) in [(each["id"], each["task"]) for each in one["runs"]]:
            flips = (flip for pair in one["pairs"] for flip in pair["flips"])
            found.update(flip["p"][run] for flip in flips if run in flip["p"])
    return sorted(found)


def _describe_task(
    task: TaskComparison,
    whole: Comparison,
    runs: Mapping[str, Run],
    *,
    labels: Mapping[str, str],
    tables: Tables,
) -> Plain:
    """Return the comparison of one task; `runs` are in the order of the comparison."""
    # Which task of a run was compared: the one of that name, or its only one.
    keys = {name: task.key if task.key in run.tasks else next(iter(run.tasks)) for name, run in runs.items()}
    ids = {one.label: name for one, name in zip(task.runs, runs, strict=True)}
    shown = {one.label: labels[ids[one.label]] for one in task.runs}
    is_share = all(one.is_share for one in task.runs)
    most = min(MOST_FLIPS, max(FEWEST, MOST_OF_ALL // len(whole.pairs)))
    flips = [_list_flips(pair, most) for pair in task.pairs]
    flipped = [name for pair in flips for name, _ in pair]
    positions = {name: tables[name][key].locate(flipped) for name, key in keys.items()}
    described = []
    for one in task.runs:
        name = ids[one.label]
        task_run = runs[name].tasks[keys[name]]
        metric = task_run.main_metric
        # The interval of the run's own metric, if that is of the same samples.
        is_same = metric is not None and (metric.value, metric.n) == (one.mean, one.n)
        described.append(
            {
                "id": name,
                "task": list(runs[name].tasks).index(keys[name]),
                "label": labels[name],
                "model": name_answerer(task_run.manifest, with_folder=False),
                "mean": one.mean,
                "interval": metric.interval if metric is not None and is_same else None,
                "n": one.n,
            }
        )
    pairs = []
    for pair, listed in zip(task.pairs, flips, strict=True):
        evidence, sides = pair.difference.evidence, [ids[pair.first], ids[pair.second]]
        left_out = {}
        for reason, count in pair.left_out.items():  # `failed in a`, with the run called as in the page
            known = next((one for one in shown if reason.endswith(f" in {one}")), "")
            left_out[f"{reason.removesuffix(known)}{shown.get(known, '')}"] = count
        pairs.append(
            {
                "first": sides[0],
                "second": sides[1],
                "difference": pair.difference.value,
                "interval": evidence.interval,
                "se": evidence.std_error,
                "p": evidence.p,
                "p_adjusted": pair.p_adjusted,
                "test": TESTS.get(evidence.p_method or "", "no test"),
                "is_significant": pair.is_significant(),
                "first_only": len(pair.first_only),
                "second_only": len(pair.second_only),
                "left_out": left_out,
                "sentence": _say_pair(pair, shown, len(whole.pairs), is_share=is_share),
                "categories": [
                    {
                        "label": category,
                        "difference": one.value,
                        "interval": one.evidence.interval,
                        "n": one.n,
                    }
                    for category, one in pair.categories.items()
                ],
                "flips": [
                    {
                        "id": name,
                        "p": {run: at[name] for run in sides if name in (at := positions[run])},
                        "side": side,
                    }
                    for name, side in listed
                ],
                "flips_total": len(pair.first_only) + len(pair.second_only),
            }
        )
    about = {"key": task.key, "samples": task.samples}
    return {**about, "runs": described, "is_share": is_share, "pairs": pairs}


def _list_flips(pair: PairComparison, most: int) -> list[tuple[str, str]]:
    """Return the flipped samples of a pair, as many of one side as of the other where there are too many."""
    first = pair.first_only[: max(most // 2, most - len(pair.second_only))]
    second = pair.second_only[: most - len(first)]
    return [(name, "first") for name in first] + [(name, "second") for name in second]


def _say_pair(pair: PairComparison, labels: Mapping[str, str], comparisons: int, *, is_share: bool) -> str:
    """Return what a pair comes to, in a sentence."""
    found, evidence = pair.difference, pair.difference.evidence

    def write(value: float) -> str:
        return f"{100 * value:.2f}" if is_share else format_number(value)

    size = f"{write(abs(found.value))}{' points' if is_share else ''}"
    word = "as good as" if not found.value else f"{size} {'better' if found.value > 0 else 'worse'} than"
    ends = evidence.interval
    interval = "" if ends is None else f", 95 % interval [{write(ends[0])}, {write(ends[1])}]"
    chance = format_chance(pair.p_adjusted)
    several = f", corrected for {comparisons} comparisons" if comparisons > 1 else ""
    sign = "p " if chance.startswith("<") else "p = "
    test = f" ({sign}{chance}{several})" if chance else ""
    verdict = "chance alone would rarely give that" if pair.is_significant() else "that may be chance"
    rule = f"{verdict}{test}" if evidence.p is not None else "no test can be made"
    where = f"{labels[pair.second]} on {found.n:,} samples{interval}"
    return f"{labels[pair.first]} is {word} {where}: {rule}."
