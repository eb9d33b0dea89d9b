"""A comparison planned: how many samples it needs, and how small a difference they show.

The variance of one sample's difference between two models is given, or follows from accuracies, or
comes from finished runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

#: Differences that are looked up when none is asked for; of values that are no shares, parts of
#: their spread.
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
    hint = "a difference of 3 points is `--difference 0.03`"
    sources = "the variance is to come from one of: runs, `omega2` and `sigma2`, `accuracy`"
    for is_wrong, message, advice in (
        (not 0 < alpha < 1, f"`alpha` is {alpha!r}, not between 0 and 1", None),
        (not 0 < power < 1, f"`power` is {power!r}, not between 0 and 1", None),
        (
            difference is not None and not difference > 0,
            f"`difference` is {difference!r}, not above 0",
            hint,
        ),
        (samples is not None and samples <= 0, f"`samples` is {samples!r}, not above 0", None),
        (bool(runs) + has_parts + bool(accuracy) > 1, sources, SOURCES),
        (
            not -1 <= correlation <= 1,
            f"`correlation` is {correlation!r}, not between -1 and 1",
            None,
        ),
    ):
        if is_wrong:
            raise SpecError("E119", message, hint=advice)
    planned = _for_both("trials", trials) if trials else None
    aim = Aim(alpha, power)
    plan = PowerPlan(aim, 0.0, "", is_paired, difference=difference)
    # Samples of their own have nothing to do with each other.
    tie = correlation if is_paired else 0.0
    told = f", correlation {correlation:g}" if is_paired else ""
    if runs:
        plan = _use_runs(plan, runs, planned, tie, told, task)
    elif has_parts:
        chances = _for_both("sigma2", sigma2 or (0.0,))
        spread = Spread(omega2 or 0.0, *chances, *(planned or (1, 1)))
        if min(spread.between, *chances) < 0:
            hint = "`--omega2` and `--sigma2` are squares"
            raise SpecError("E119", "a variance cannot be negative", hint=hint)
        if not is_paired:
            hint = (
                "leave `--unpaired` out, or write `--accuracy` in place of `--omega2` and "
                "`--sigma2`"
            )
            raise SpecError("E119", "`omega2` is the variance of paired differences", hint=hint)
        plan = replace(plan, variance=spread.total, basis="as given", spread=spread)
    else:
        rates = _for_both("accuracy", accuracy or (WORST,))
        if not all(0 <= one <= 1 for one in rates):
            raise SpecError("E119", f"`accuracy` is {rates}, not between 0 and 1")
        if max(planned or (1, 1)) > 1:
            hint = "write `--omega2` and `--sigma2`, or name runs with trials"
            raise SpecError("E119", NO_CHANCE, hint=hint)
        basis = f"accuracy {' and '.join(f'{one:g}' for one in dict.fromkeys(rates))}{told}"
        first, second = (one * (1 - one) for one in rates)
        variance = _subtract(first, second, tie)
        notices = () if accuracy else (UNKNOWN,)
        plan = replace(plan, variance=variance, basis=basis, notices=notices)
    wanted: tuple[float, ...] = USUAL
    if difference is not None:
        wanted = (difference,)
    elif not plan.is_share:
        deviation = math.sqrt(plan.variance / 2)
        wanted = tuple(float(f"{share * deviation:.1g}") for share in FRACTIONS if deviation)
    needed = tuple((one, count_samples(plan.variance, one, aim)) for one in wanted)
    samples = samples or plan.samples
    if samples is None:
        return replace(plan, needed=needed)
    smallest = find_smallest(plan.variance, samples, aim)
    achieved = difference and measure_power(plan.variance, samples, difference, aim.alpha)
    return replace(plan, needed=needed, samples=samples, smallest=smallest, achieved=achieved)


def _for_both(name: str, given: Sequence[T]) -> tuple[T, T]:
    """Return the numbers of both models; one number stands for both."""
    if len(given) > PAIR:
        hint = "once for both models, or twice"
        raise SpecError("E119", f"`{name}` is given {len(given)} times", hint=hint)
    return given[0], given[-1]


def _subtract(first: float, second: float, correlation: float) -> float:
    """Return the variance of a difference."""
    return max(0.0, first + second - 2 * correlation * float((first * second) ** 0.5))


def _use_runs(
    plan: PowerPlan,
    runs: Sequence[AnyRun],
    planned: tuple[int, int] | None,
    correlation: float,
    told: str,
    task: str | None,
) -> PowerPlan:
    """Return the plan with the variance of one or two finished runs, or of the differences between
    them.

    As many trials are planned as they have, unless told otherwise.
    """
    if len(runs) > PAIR:
        message = f"there are {len(runs)} runs; a comparison is planned for two"
        raise SpecError("E119", message, hint="name one or two")
    notices: list[Notice] = []
    chosen = choose_tasks(label_runs(runs, fewest=1), task, notices)
    if len(chosen) > 1:
        raise RunError(
            "E504", "the runs have several tasks", hint=f"`--task` one of {listing(chosen)}"
        )
    (tasks,) = chosen.values()
    found = [read_outcomes(run, one, label=label) for label, (run, one) in tasks.items()]
    first, last = found[0], found[-1]
    trials = planned or (first.num_trials, last.num_trials)
    values = [one.table["value"].drop_nulls() for one in found]
    samples = min(map(len, values))
    if len(found) == 1:
        between, chance = _split_variance(first, max(trials))
        spread = Spread(_subtract(between, between, correlation), chance, chance, *trials)
        basis = f"variance of `{first.label}` for both models{told}"
        notices = [UNRELATED] if plan.is_paired and not correlation else []
    elif plan.is_paired:
        require_alike(found, common=True, notices=notices)
        both = first.table.join(last.table, on="sample_id").drop_nulls(["value", "value_right"])
        seen = _variance(both["value"] - both["value_right"], f"`{first.label}` and `{last.label}`")
        (_, chance), (_, other) = map(_split_variance, found, trials)
        between = max(0.0, seen - chance / first.num_trials - other / last.num_trials)
        spread, samples = Spread(between, chance, other, *trials), both.height
        basis = f"differences of `{first.label}` and `{last.label}`"
    else:
        (between, chance), (between_last, other) = map(_split_variance, found, trials)
        spread, notices = Spread(between + between_last, chance, other, *trials), []
        basis = f"variances of `{first.label}` and `{last.label}`"
    return replace(
        plan,
        variance=spread.total,
        basis=basis,
        spread=spread if min(first.num_trials, last.num_trials) > 1 else None,
        samples=samples,
        notices=tuple(notices),
        is_share=all(one.is_between(0, 1).all() for one in values),
    )


def _split_variance(one: Outcomes, planned: int) -> tuple[float, float]:
    """Return the variance between samples, and that by chance.

    All is the former where it is not known.
    """
    seen = _variance(one.table["value"].drop_nulls(), f"`{one.label}`")
    if one.num_trials == 1 and planned > 1:
        hint = "name runs with trials, or write `--omega2` and `--sigma2`"
        raise SpecError(
            "E119", f"`{one.label}` has one trial of each sample: {NO_CHANCE}", hint=hint
        )
    return max(0.0, seen - one.chance / one.num_trials), one.chance


def _variance(values: pl.Series, name: str) -> float:
    if len(values) <= 1:
        raise RunError(
            "E508", f"{name}: fewer than two samples have a value, and a variance needs two"
        )
    return float(str(values.var()))


# For people, and as plain values


def draw_power(plan: PowerPlan, width: int) -> list[Line]:
    """Return how many samples each difference takes, what those there are show, and what that rests
    on.
    """

    def write(difference: float) -> str:
        """Return a difference of shares in points, with two digits as far as they are needed."""
        if not plan.is_share:
            return format_number(difference)
        points = f"{100 * difference:.2f}".removesuffix("0").removesuffix(".0")
        return f"{points} point{'' if points == '1' else 's'}"

    rows = [(write(difference), Span(str(count), "strong")) for difference, count in plan.needed]
    head = "samples" if plan.is_paired else "samples of each"
    lines = lay_out(Table(("difference", head), rows, ">>"), width)
    if plan.samples is not None and plan.smallest is not None:
        smallest = Span(write(plan.smallest), "strong")
        lines += [
            BLANK,
            line(f"  {plan.samples} samples show a difference of ", smallest, " and more"),
        ]
    if plan.achieved is not None and plan.difference is not None:
        share = Span(f"{100 * plan.achieved:.1f} %", "strong")
        lines.append(line(f"  and one of {write(plan.difference)} in ", share, " of all cases"))
    kind = (
        "paired: both models on the same samples"
        if plan.is_paired
        else "unpaired: other samples each"
    )
    notes = [
        f"{kind}; power {100 * plan.aim.power:g} %, two-sided test at {100 * plan.aim.alpha:g} %"
    ]
    notes.append(
        f"variance of a sample's difference: {format_number(plan.variance)} ({plan.basis})"
    )
    if (spread := plan.spread) is not None:
        parts = [f"{format_number(spread.between)} between samples"]
        for chance, trials in (
            (spread.first, spread.first_trials),
            (spread.second, spread.second_trials),
        ):
            parts.append(f"{format_number(chance)} by chance / {trials}")
        notes.append(f"= {' + '.join(parts)} (trials)")
    return [*lines, BLANK, *(part for note in notes for part in draw_text(note, width, "dim"))]


def describe_power(plan: PowerPlan) -> dict[str, Any]:
    """Return the plan as plain values."""
    return {
        "power": {
            **asdict(plan.aim),
            "is_paired": plan.is_paired,
            "is_share": plan.is_share,
            "basis": plan.basis,
            "variance": plan.variance,
            "spread": None if plan.spread is None else asdict(plan.spread),
            "needed": [{"difference": one, "samples": count} for one, count in plan.needed],
            "samples": plan.samples,
            "smallest_difference": plan.smallest,
            "difference": plan.difference,
            "achieved_power": plan.achieved,
        },
        "notices": [str(notice) for notice in plan.notices],
    }
