"""A comparison planned: how many samples it needs, and how small a difference they show.

The variance of one sample's difference between two models is given, or follows from accuracies, or
comes from finished runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import polars as pl

from answerkey.errors import RunError, SpecError, listing
from answerkey.evaluate.pairs import (
    AnyRun,
    Outcomes,
    choose_tasks,
    label_runs,
    read_outcomes,
    require_alike,
)
from answerkey.metrics.paired import Aim, Spread, count_samples, find_smallest, measure_power
from answerkey.text import BLANK, Line, Span, Table, draw_text, format_number, lay_out, line
from answerkey.types import Notice

T = TypeVar("T")

#: The differences that are shown when the caller names none; of values that are no shares, parts
#: of their standard deviation.
USUAL = (0.01, 0.02, 0.03, 0.05, 0.1)
FRACTIONS = (0.05, 0.1, 0.2, 0.5)
PAIR = 2
#: The accuracy at which right and wrong answers vary most.
WORST = 0.5
SOURCES = "name a RUN or two, or write `--accuracy 0.8`, or `--omega2 1/9 --sigma2 1/6`"
UNKNOWN = Notice(
    "nothing says how much samples vary: both models are taken to have an accuracy of "
    f"{WORST}, which needs "
    "the most samples",
    hint=SOURCES,
)
NO_CHANCE = "how much of the variance is chance, and would shrink with more trials, is not known"
UNRELATED = Notice(
    "as if the models' answers had nothing to do with each other, which gives too many samples",
    hint="give their `--correlation`, or two runs",
)


@dataclass(frozen=True)
class PowerPlan:
    """What is asked for and what follows from it.

    `needed` is how many samples each difference takes; unpaired, for each model. `smallest` is the
    smallest difference that `samples` show with the power asked for, `achieved` their power for a
    `difference`. `variance` is that of one sample's difference, `spread` its parts where they are
    known, and `basis` says where it comes from. `is_share` says that the values lie within [0, 1].
    """

    aim: Aim
    variance: float
    basis: str
    is_paired: bool
    needed: tuple[tuple[float, int], ...] = ()
    spread: Spread | None = None
    difference: float | None = None
    samples: int | None = None
    smallest: float | None = None
    achieved: float | None = None
    notices: tuple[Notice, ...] = ()
    is_share: bool = True


def plan_comparison(  # noqa: PLR0913 - each is an option of the command
    *runs: AnyRun,
    difference: float | None = None,
    samples: int | None = None,
    omega2: float | None = None,
    sigma2: Sequence[float] = (),
    accuracy: Sequence[float] = (),
    correlation: float = 0.0,
    trials: Sequence[int] = (),
    alpha: float = 0.05,
    power: float = 0.8,
    is_paired: bool = True,
    task: str | None = None,
) -> PowerPlan:
    """Return how many samples a difference needs, or which difference the samples can show.

    The variance of a sample's difference comes from runs: with one run its own variance is used for
    both models, with two that of their differences, and the samples are theirs unless given. Or it
    comes from `omega2` and `sigma2` (between samples, and by chance of each model); or from an
    `accuracy` of each model, with the `correlation` of their answers. Where none is given the
    accuracy is 0.5, at which answers vary most. `trials` is how often each model is asked a sample:
    once, or as in the runs, unless given. One number stands for both models.
    """
    has_parts = omega2 is not None or bool(sigma2)
    _refuse_wrong(difference, samples, correlation, Aim(alpha, power))
    if bool(runs) + has_parts + bool(accuracy) > 1:
        message = "the variance is to come from one of: runs, `omega2` and `sigma2`, `accuracy`"
        raise SpecError("E119", message, hint=SOURCES)
    planned = _for_both("trials", trials) if trials else None
    plan = PowerPlan(Aim(alpha, power), 0.0, "", is_paired, difference=difference)
    if runs:
        plan = _use_runs(plan, runs, planned, correlation, task)
    elif has_parts:
        plan = _use_parts(plan, omega2 or 0.0, sigma2 or (0.0,), planned or (1, 1))
    else:
        plan = _use_accuracy(plan, accuracy, planned or (1, 1), correlation)
    samples = samples or plan.samples
    plan = replace(plan, needed=tuple(_list_needed(plan)), samples=samples)
    if samples is None:
        return plan
    plan = replace(plan, smallest=find_smallest(plan.variance, samples, plan.aim))
    if difference is None:
        return plan
    achieved = measure_power(plan.variance, samples, difference, alpha)
    return replace(plan, achieved=achieved)


def _refuse_wrong(
    difference: float | None, samples: int | None, correlation: float, aim: Aim
) -> None:
    """Raise E119 for a number that makes no sense."""
    if not 0 < aim.alpha < 1:
        raise SpecError("E119", f"`alpha` is {aim.alpha!r}, not between 0 and 1")
    if not 0 < aim.power < 1:
        raise SpecError("E119", f"`power` is {aim.power!r}, not between 0 and 1")
    if difference is not None and not difference > 0:
        hint = "a difference of 3 points is `--difference 0.03`"
        raise SpecError("E119", f"`difference` is {difference!r}, not above 0", hint=hint)
    if samples is not None and samples <= 0:
        raise SpecError("E119", f"`samples` is {samples!r}, not above 0")
    if not -1 <= correlation <= 1:
        raise SpecError("E119", f"`correlation` is {correlation!r}, not between -1 and 1")


def _list_needed(plan: PowerPlan) -> Iterator[tuple[float, int]]:
    """Yield how many samples each difference takes."""
    differences: Sequence[float] = USUAL
    if plan.difference is not None:
        differences = (plan.difference,)
    elif not plan.is_share:
        deviation = math.sqrt(plan.variance / 2)
        differences = [float(f"{share * deviation:.1g}") for share in FRACTIONS if deviation]
    for difference in differences:
        yield difference, count_samples(plan.variance, difference, plan.aim)


def _use_parts(
    plan: PowerPlan, omega2: float, sigma2: Sequence[float], trials: tuple[int, int]
) -> PowerPlan:
    """Return the plan with a variance whose parts the caller gives."""
    chances = _for_both("sigma2", sigma2)
    if min(omega2, *chances) < 0:
        hint = "`--omega2` and `--sigma2` are squares"
        raise SpecError("E119", "a variance cannot be negative", hint=hint)
    if not plan.is_paired:
        hint = "leave `--unpaired` out, or write `--accuracy` in place of `--omega2` and `--sigma2`"
        raise SpecError("E119", "`omega2` is the variance of paired differences", hint=hint)
    spread = Spread(omega2, *chances, *trials)
    return replace(plan, variance=spread.total, basis="as given", spread=spread)


def _use_accuracy(
    plan: PowerPlan, accuracy: Sequence[float], trials: tuple[int, int], correlation: float
) -> PowerPlan:
    """Return the plan with the variance that follows from accuracies."""
    first, second = _for_both("accuracy", accuracy or (WORST,))
    if not (0 <= first <= 1 and 0 <= second <= 1):
        raise SpecError("E119", f"`accuracy` is {(first, second)}, not between 0 and 1")
    if max(trials) > 1:
        hint = "write `--omega2` and `--sigma2`, or name runs with trials"
        raise SpecError("E119", NO_CHANCE, hint=hint)
    rates = f"{first:g}" if first == second else f"{first:g} and {second:g}"
    basis = f"accuracy {rates}{_say_correlation(plan, correlation)}"
    variance = _subtract(plan, first * (1 - first), second * (1 - second), correlation)
    notices = () if accuracy else (UNKNOWN,)
    return replace(plan, variance=variance, basis=basis, notices=notices)


def _for_both(name: str, numbers: Sequence[T]) -> tuple[T, T]:
    """Return the numbers of both models; one number stands for both."""
    if len(numbers) > PAIR:
        hint = "once for both models, or twice"
        raise SpecError("E119", f"`{name}` is given {len(numbers)} times", hint=hint)
    return numbers[0], numbers[-1]


def _subtract(plan: PowerPlan, first: float, second: float, correlation: float) -> float:
    """Return the variance of a difference; different samples are not correlated."""
    covariance = correlation * math.sqrt(first * second) if plan.is_paired else 0.0
    return max(0.0, first + second - 2 * covariance)


def _say_correlation(plan: PowerPlan, correlation: float) -> str:
    return f", correlation {correlation:g}" if plan.is_paired else ""


def _use_runs(
    plan: PowerPlan,
    runs: Sequence[AnyRun],
    planned: tuple[int, int] | None,
    correlation: float,
    task: str | None,
) -> PowerPlan:
    """Return the plan with the variance of one or two finished runs, or of their differences.

    As many trials are planned as the runs have, unless the caller says otherwise.
    """
    if len(runs) > PAIR:
        message = f"there are {len(runs)} runs; a comparison is planned for two"
        raise SpecError("E119", message, hint="name one or two")
    notices: list[Notice] = []
    tasks_by_key = choose_tasks(label_runs(runs, fewest=1), task, notices)
    if len(tasks_by_key) > 1:
        hint = f"`--task` one of {listing(tasks_by_key)}"
        raise RunError("E504", "the runs have several tasks", hint=hint)
    (tasks,) = tasks_by_key.values()
    outcomes = [
        read_outcomes(run, task_run, label=label) for label, (run, task_run) in tasks.items()
    ]
    first, last = outcomes[0], outcomes[-1]
    trials = planned or (first.num_trials, last.num_trials)
    between, chance = _split_variance(first, trials[0] if len(runs) > 1 else max(trials))
    last_between, last_chance = between, chance
    values = [run.table["value"].drop_nulls() for run in outcomes]
    samples = min(map(len, values))
    if len(outcomes) == 1:
        basis = f"variance of `{first.label}` for both models{_say_correlation(plan, correlation)}"
        between = _subtract(plan, between, between, correlation)
        notices = [UNRELATED] if plan.is_paired and not correlation else []
    else:
        last_between, last_chance = _split_variance(last, trials[1])
        names = f"`{first.label}` and `{last.label}`"
        basis = f"variances of {names}"
        between += last_between
        if plan.is_paired:
            require_alike(outcomes, common=True, notices=notices)
            rows = first.table.join(last.table, on="sample_id").drop_nulls(["value", "value_right"])
            variance = _variance(rows["value"] - rows["value_right"], names)
            by_chance = chance / first.num_trials + last_chance / last.num_trials
            between, samples = max(0.0, variance - by_chance), rows.height
            basis = f"differences of {names}"
        else:
            notices = []
    spread = Spread(between, chance, last_chance, *trials)
    return replace(
        plan,
        variance=spread.total,
        basis=basis,
        spread=spread if min(first.num_trials, last.num_trials) > 1 else None,
        samples=samples,
        notices=tuple(notices),
        is_share=all(column.is_between(0, 1).all() for column in values),
    )


def _split_variance(outcomes: Outcomes, planned: int) -> tuple[float, float]:
    """Return the variance between samples, and that by chance, 0 where it is not known."""
    variance = _variance(outcomes.table["value"].drop_nulls(), f"`{outcomes.label}`")
    if outcomes.num_trials == 1 and planned > 1:
        message = f"`{outcomes.label}` has one trial of each sample: {NO_CHANCE}"
        hint = "name runs with trials, or write `--omega2` and `--sigma2`"
        raise SpecError("E119", message, hint=hint)
    by_chance = outcomes.chance / outcomes.num_trials
    return max(0.0, variance - by_chance), outcomes.chance


def _variance(values: pl.Series, name: str) -> float:
    if len(values) <= 1:
        message = f"{name}: fewer than two samples have a value, and a variance needs two"
        raise RunError("E508", message)
    return float(str(values.var()))


# For people, and as plain values


def draw_power(plan: PowerPlan, width: int) -> list[Line]:
    """Return how many samples each difference takes, what the available ones show, and what that
    rests on.
    """
    rows = [(_write(plan, value), Span(str(count), "strong")) for value, count in plan.needed]
    head = "samples" if plan.is_paired else "samples of each"
    lines = lay_out(Table(("difference", head), rows, ">>"), width)
    if plan.samples is not None and plan.smallest is not None:
        smallest = Span(_write(plan, plan.smallest), "strong")
        text = f"  {plan.samples} samples show a difference of "
        lines += [BLANK, line(text, smallest, " and more")]
    if plan.achieved is not None and plan.difference is not None:
        share = Span(f"{100 * plan.achieved:.1f} %", "strong")
        text = f"  and one of {_write(plan, plan.difference)} in "
        lines.append(line(text, share, " of all cases"))
    kind = "unpaired: other samples each"
    if plan.is_paired:
        kind = "paired: both models on the same samples"
    test = f"power {100 * plan.aim.power:g} %, two-sided test at {100 * plan.aim.alpha:g} %"
    variance = f"{format_number(plan.variance)} ({plan.basis})"
    notes = [f"{kind}; {test}", f"variance of a sample's difference: {variance}"]
    spread = plan.spread
    if spread is not None:
        between = f"{format_number(spread.between)} between samples"
        first = f"{format_number(spread.first)} by chance / {spread.first_trials}"
        second = f"{format_number(spread.second)} by chance / {spread.second_trials}"
        notes.append(f"= {between} + {first} + {second} (trials)")
    lines.append(BLANK)
    for note in notes:
        lines += draw_text(note, width, "dim")
    return lines


def _write(plan: PowerPlan, difference: float) -> str:
    """Return a difference of shares in points, with two digits as far as they are needed."""
    if not plan.is_share:
        return format_number(difference)
    points = f"{100 * difference:.2f}".removesuffix("0").removesuffix(".0")
    return "1 point" if points == "1" else f"{points} points"


def describe_power(plan: PowerPlan) -> dict[str, Any]:
    """Return the plan as plain values."""
    return {
        "power": {
            **asdict(plan.aim),
            "is_paired": plan.is_paired,
            "is_share": plan.is_share,
            "basis": plan.basis,
            "variance": plan.variance,
            "spread": plan.spread and asdict(plan.spread),
            "needed": [{"difference": value, "samples": count} for value, count in plan.needed],
            "samples": plan.samples,
            "smallest_difference": plan.smallest,
            "difference": plan.difference,
            "achieved_power": plan.achieved,
        },
        "notices": [str(notice) for notice in plan.notices],
    }
