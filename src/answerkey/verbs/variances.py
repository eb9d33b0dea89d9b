"""How much one sample's difference between two models varies: as given, by accuracies, or by runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from answerkey.errors import RunError, SpecError, listing
from answerkey.metrics.paired import Spread
from answerkey.runs import Run, RunPlace, load_run
from answerkey.types import Notice
from answerkey.verbs.aligning import choose_tasks, name_runs, require_alike, require_complete
from answerkey.verbs.pairing import Outcomes, read_outcomes

PAIR = 2
BY_CHANCE = "how much of the variance is chance, and would shrink with more trials, is not known"


@dataclass(frozen=True)
class Basis:
    """The variance of one sample's difference, where it comes from, and how many samples there are."""

    variance: float
    text: str
    spread: Spread | None = None
    samples: int | None = None
    notices: tuple[Notice, ...] = ()
    is_share: bool = True


def spread_parts(
    between: float, chances: tuple[float, float], trials: tuple[int, int], *, is_paired: bool
) -> Basis:
    """Return the basis of variances that are given."""
    if min(between, *chances) < 0:
        raise SpecError("E119", "a variance cannot be negative", hint="`--omega2` and `--sigma2` are squares")
    if not is_paired:
        raise SpecError(
            "E119",
            "`omega2` is the variance of paired differences",
            hint="leave `--unpaired` out, or write `--accuracy` in place of `--omega2` and `--sigma2`",
        )
    spread = Spread(between, *chances, *trials)
    return Basis(spread.total, "as given", spread)


def spread_accuracies(
    accuracies: tuple[float, float], trials: tuple[int, int], correlation: float, *, is_paired: bool
) -> Basis:
    """Return the basis of right answers at these rates, with the variances p (1 - p)."""
    if not all(0 <= one <= 1 for one in accuracies):
        raise SpecError("E119", f"`accuracy` is {accuracies}, not between 0 and 1")
    if max(trials) > 1:
        raise SpecError("E119", BY_CHANCE, hint="write `--omega2` and `--sigma2`, or name runs with trials")
    first, second = (one * (1 - one) for one in accuracies)
    rates = " and ".join(f"{one:g}" for one in dict.fromkeys(accuracies))
    tie = f", correlation {correlation:g}" if is_paired else ""
    variance = _subtract(first, second, correlation if is_paired else 0.0)
    return Basis(variance, f"accuracy {rates}{tie}")


def _subtract(first: float, second: float, correlation: float) -> float:
    """Return the variance of a difference."""
    return max(0.0, first + second - 2 * correlation * float((first * second) ** 0.5))


def spread_runs(
    runs: Sequence[Run | str | RunPlace],
    planned: tuple[int, int] | None,
    correlation: float,
    *,
    is_paired: bool,
    task: str | None,
) -> Basis:
    """Return the basis of one or two finished runs: of their values, or of the differences between them.

    As many trials are planned as they have, unless told otherwise.
    """
    found = [run if isinstance(run, Run) else load_run(run) for run in runs]
    if len(found) > PAIR:
        message = f"there are {len(found)} runs; a comparison is planned for two"
        raise SpecError("E119", message, hint="name one or two")
    labelled = dict(zip(name_runs(found), found, strict=True))
    require_complete(labelled)
    notices: list[Notice] = []
    chosen = choose_tasks(labelled, task, notices)
    if len(chosen) > 1:
        raise RunError("E504", "the runs have several tasks", hint=f"`--task` one of {listing(chosen)}")
    tasks = next(iter(chosen.values()))
    outcomes = [read_outcomes(labelled[label], one, label=label) for label, one in tasks.items()]
    trials = planned or (outcomes[0].num_trials, outcomes[-1].num_trials)
    is_share = all(one.table["value"].drop_nulls().is_between(0, 1).all() for one in outcomes)
    if len(outcomes) == 1:
        basis = _spread_one(outcomes[0], trials, correlation, is_paired=is_paired)
    elif is_paired:
        require_alike(outcomes, common=True, notices=notices)
        basis = _spread_pair(outcomes, trials, tuple(notices))
    else:
        basis = _spread_apart(outcomes, trials)
    return replace(basis, is_share=is_share)


def _spread_one(one: Outcomes, trials: tuple[int, int], correlation: float, *, is_paired: bool) -> Basis:
    """Return the basis of a run whose variance stands for both models."""
    between, chance = _part(one, max(trials))
    tie = correlation if is_paired else 0.0
    spread = Spread(_subtract(between, between, tie), chance, chance, *trials)
    text = f"variance of `{one.label}` for both models"
    text += f", correlation {correlation:g}" if is_paired else ""
    notice = Notice(
        "as if the models' answers had nothing to do with each other, which asks for too many samples",
        hint="give their `--correlation`, or two runs",
    )
    notices = (notice,) if is_paired and not correlation else ()
    known = spread if one.num_trials > 1 else None
    return Basis(spread.total, text, known, _count(one), notices)


def _spread_apart(outcomes: Sequence[Outcomes], trials: tuple[int, int]) -> Basis:
    """Return the basis of two runs whose samples are not the same."""
    (first, chance), (second, other) = map(_part, outcomes, trials)
    spread = Spread(first + second, chance, other, *trials)
    text = f"variances of `{outcomes[0].label}` and `{outcomes[1].label}`"
    known = spread if all(one.num_trials > 1 for one in outcomes) else None
    return Basis(spread.total, text, known, min(map(_count, outcomes)))


def _spread_pair(outcomes: Sequence[Outcomes], trials: tuple[int, int], notices: tuple[Notice, ...]) -> Basis:
    """Return the basis of the differences that two runs have, sample by sample."""
    first, second = outcomes
    both = first.table.join(second.table, on="sample_id").drop_nulls(["value", "value_right"])
    seen = _variance(both["value"] - both["value_right"], f"`{first.label}` and `{second.label}`")
    text = f"differences of `{first.label}` and `{second.label}`"
    (_, chance), (_, other) = map(_part, outcomes, trials)
    between = max(0.0, seen - chance / first.num_trials - other / second.num_trials)
    spread = Spread(between, chance, other, *trials)
    known = spread if min(first.num_trials, second.num_trials) > 1 else None
    return Basis(spread.total, text, known, both.height, notices)


def _part(one: Outcomes, planned: int) -> tuple[float, float]:
    """Return the variance between samples, and that by chance; all is the former where it is not known."""
    seen = _variance(one.table["value"].drop_nulls(), f"`{one.label}`")
    if one.num_trials == 1:
        if planned > 1:
            hint = "name runs with trials, or write `--omega2` and `--sigma2`"
            raise SpecError("E119", f"`{one.label}` asked each sample once: {BY_CHANCE}", hint=hint)
        return seen, 0.0
    chance = one.chance or 0.0
    return max(0.0, seen - chance / one.num_trials), chance


def _variance(values: pl.Series, name: str) -> float:
    if len(values) <= 1:
        raise RunError("E508", f"{name}: fewer than two samples have a value, and a variance needs two")
    return float(str(values.var()))


def _count(one: Outcomes) -> int:
    return len(one.table["value"].drop_nulls())
