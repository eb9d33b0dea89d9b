"""Power analysis: how many samples a comparison needs, and the smallest difference it can detect.

The variance of the per-sample difference between two models is given, derived from accuracies, or
measured on finished runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from answerkey.errors import RunError, SpecError, listing
from answerkey.evaluate.pairs import (
    AnyRun,
    choose_tasks,
    label_runs,
    read_outcomes,
    require_alike,
)
from answerkey.metrics.paired import Aim, count_samples, measure_power, smallest_difference
from answerkey.text import BLANK, Line, Span, draw_table, draw_text, format_number
from answerkey.types import Notice

#: The differences shown when the caller names none.
DEFAULT_DIFFERENCES = (0.01, 0.02, 0.03, 0.05, 0.1)
PAIR = 2
#: The accuracy at which right and wrong answers vary most.
WORST_ACCURACY = 0.5
SOURCES = "name one or two runs, or write `--accuracy 0.8`, or `--omega2 1/9`"
VARIANCE_UNKNOWN = Notice(
    "the variance is unknown: both models are assumed to have an accuracy of "
    f"{WORST_ACCURACY}, which needs the most samples",
    hint=SOURCES,
)
ASSUMED_INDEPENDENT = Notice(
    "the models' answers are assumed to be independent, which overestimates the samples needed",
    hint="give their `--correlation`, or two runs",
)


@dataclass(frozen=True)
class PowerPlan:
    """A planned comparison and its results; both models answer the same samples.

    `needed` is the number of samples each difference takes. `smallest` is the smallest difference
    that `samples` detect with the requested power, `achieved` their power for a `difference`.
    `variance` is that of one sample's difference, and `basis` says where it comes from. `is_share`
    says that the values are between 0 and 1.
    """

    aim: Aim
    variance: float
    basis: str
    needed: tuple[tuple[float, int], ...] = ()
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
    accuracy: Sequence[float] = (),
    correlation: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    task: str | None = None,
) -> PowerPlan:
    """Return how many samples a difference needs, or which difference the samples can detect.

    The variance of a sample's difference is `omega2`, or comes from runs: one run's own variance is
    used for both models, and two runs give the variance of their differences; `samples` defaults to
    the samples of the runs. Or it is derived from the `accuracy` of each model and the
    `correlation` of their answers; a single accuracy is used for both models. The default accuracy
    is 0.5, at which answers vary most.
    """
    aim = Aim(alpha, power)
    _validate_numbers(difference, samples, correlation, aim)
    sources = [bool(runs), omega2 is not None, bool(accuracy)]
    if sources.count(True) > 1:
        message = "give only one source of the variance: runs, `omega2` or `accuracy`"
        raise SpecError("E119", message, hint=SOURCES)
    if runs:
        plan = _plan_from_runs(aim, runs, correlation, task)
    elif omega2 is not None:
        if omega2 < 0:
            raise SpecError("E119", "a variance cannot be negative", hint="`--omega2` is a square")
        plan = PowerPlan(aim, omega2, "as given")
    else:
        plan = _plan_from_accuracy(aim, accuracy, correlation)
    if difference is not None and difference > 1 and plan.is_share:
        message = f"`difference` is {difference!r}, but accuracies differ by at most 1"
        raise SpecError("E119", message, hint="3 points are `--difference 0.03`")
    samples = samples or plan.samples
    needed = []
    for shown_difference in DEFAULT_DIFFERENCES if difference is None else (difference,):
        count = count_samples(plan.variance, shown_difference, aim)
        needed.append((shown_difference, count))
    smallest = None
    achieved = None
    if samples is not None:
        smallest = smallest_difference(plan.variance, samples, aim)
    if samples is not None and difference is not None:
        achieved = measure_power(plan.variance, samples, difference, alpha)
    return replace(
        plan,
        difference=difference,
        samples=samples,
        needed=tuple(needed),
        smallest=smallest,
        achieved=achieved,
    )


def _validate_numbers(
    difference: float | None,
    samples: int | None,
    correlation: float,
    aim: Aim,
) -> None:
    """Raise E119 for a number out of range."""
    if not 0 < aim.alpha < 1:
        raise SpecError("E119", f"`alpha` is {aim.alpha!r}, not between 0 and 1")
    if not 0 < aim.power < 1:
        raise SpecError("E119", f"`power` is {aim.power!r}, not between 0 and 1")
    if difference is not None and not difference > 0:
        raise SpecError("E119", f"`difference` is {difference!r}, not above 0, such as 0.03")
    if samples is not None and samples <= 0:
        raise SpecError("E119", f"`samples` is {samples!r}, not above 0")
    if not -1 <= correlation <= 1:
        raise SpecError("E119", f"`correlation` is {correlation!r}, not between -1 and 1")


def _plan_from_accuracy(aim: Aim, accuracy: Sequence[float], correlation: float) -> PowerPlan:
    """Return the plan with the variance derived from accuracies."""
    if len(accuracy) > PAIR:
        hint = "once for both models, or twice"
        raise SpecError("E119", f"`accuracy` is given {len(accuracy)} times", hint=hint)
    rates = accuracy or (WORST_ACCURACY,)
    first = rates[0]
    second = rates[-1]
    if not (0 <= first <= 1 and 0 <= second <= 1):
        raise SpecError("E119", f"`accuracy` is {(first, second)}, not between 0 and 1")
    shown = f"{first:g}"
    if first != second:
        shown += f" and {second:g}"
    basis = f"accuracy {shown}, correlation {correlation:g}"
    variance = _difference_variance(first * (1 - first), second * (1 - second), correlation)
    notices = () if accuracy else (VARIANCE_UNKNOWN,)
    return PowerPlan(aim, variance, basis, notices=notices)


def _difference_variance(first: float, second: float, correlation: float) -> float:
    """Return the variance of a difference."""
    return max(0.0, first + second - 2 * correlation * math.sqrt(first * second))


def _plan_from_runs(
    aim: Aim,
    runs: Sequence[AnyRun],
    correlation: float,
    task: str | None,
) -> PowerPlan:
    """Return the plan with the variance of a finished run, or of the differences of two."""
    if len(runs) > PAIR:
        message = f"{len(runs)} runs are given; a comparison is planned for two"
        raise SpecError("E119", message, hint="name one or two")
    notices: list[Notice] = []
    tasks_by_key = choose_tasks(label_runs(runs, fewest=1), task, notices)
    if len(tasks_by_key) > 1:
        hint = f"`--task` one of {listing(tasks_by_key)}"
        raise RunError("E504", "the runs have several tasks", hint=hint)
    (tasks,) = tasks_by_key.values()
    outcomes = []
    for label, (run, task_run) in tasks.items():
        outcomes.append(read_outcomes(run, task_run, label=label))
    values = outcomes[0].table["value"].drop_nulls()
    first = outcomes[0]
    last = outcomes[-1]
    if len(outcomes) == 1:
        variance = _measure_variance(values, f"`{first.label}`")
        basis = f"variance of `{first.label}` for both models, correlation {correlation:g}"
        variance = _difference_variance(variance, variance, correlation)
        notices = [] if correlation else [ASSUMED_INDEPENDENT]
    else:
        require_alike(outcomes, common=True, notices=notices)
        rows = first.table.join(last.table, on="sample_id")
        values = (rows["value"] - rows["value_right"]).drop_nulls()
        names = f"`{first.label}` and `{last.label}`"
        variance = _measure_variance(values, names)
        basis = f"differences of {names}"
    is_share = True
    for outcome in outcomes:
        is_share &= outcome.table["value"].drop_nulls().is_between(0, 1).all()
    return PowerPlan(
        aim,
        variance,
        basis,
        samples=len(values),
        notices=tuple(notices),
        is_share=is_share,
    )


def _measure_variance(values: pl.Series, name: str) -> float:
    if len(values) <= 1:
        message = f"{name}: fewer than two samples have a value, and a variance needs two"
        raise RunError("E508", message)
    return float(str(values.var()))


# As text and as JSON


def draw_power(plan: PowerPlan, width: int) -> list[Line]:
    """Return how many samples each difference takes, what the available samples can detect, and the
    assumptions behind it.
    """
    rows = []
    for difference, count in plan.needed:
        samples = Span(str(count), "strong")
        rows.append((_format_difference(plan, difference), samples))
    lines = draw_table(("difference", "samples"), rows, ">>", width)
    if plan.samples is not None and plan.smallest is not None:
        smallest = Span(_format_difference(plan, plan.smallest), "strong")
        text = f"  {plan.samples} samples detect a difference of "
        lines += [BLANK, (text, smallest, " or more")]
    if plan.achieved is not None and plan.difference is not None:
        share = Span(f"{100 * plan.achieved:.1f} %", "strong")
        text = f"  and one of {_format_difference(plan, plan.difference)} in "
        lines.append((text, share, " of all cases"))
    test = f"power {100 * plan.aim.power:g} %, two-sided test at {100 * plan.aim.alpha:g} %"
    variance = f"{format_number(plan.variance)} ({plan.basis})"
    notes = [
        f"paired: both models on the same samples; {test}",
        f"variance of a sample's difference: {variance}",
    ]
    lines.append(BLANK)
    for note in notes:
        lines += draw_text(note, width, "dim")
    return lines


def _format_difference(plan: PowerPlan, difference: float) -> str:
    """Return a difference of shares in points, with at most two digits."""
    if not plan.is_share:
        return format_number(difference)
    points = f"{100 * difference:.2f}".removesuffix("0").removesuffix(".0")
    if points == "1":
        return "1 point"
    return f"{points} points"


def describe_power(plan: PowerPlan) -> dict[str, Any]:
    """Return the plan as plain values."""
    needed = []
    for difference, count in plan.needed:
        needed.append({"difference": difference, "samples": count})
    return {
        "power": {
            **asdict(plan.aim),
            "is_share": plan.is_share,
            "basis": plan.basis,
            "variance": plan.variance,
            "needed": needed,
            "samples": plan.samples,
            "smallest_difference": plan.smallest,
            "difference": plan.difference,
            "achieved_power": plan.achieved,
        },
        "notices": [str(notice) for notice in plan.notices],
    }
