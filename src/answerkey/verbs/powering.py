"""A comparison planned: how many samples it needs, and how small a difference they show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, TypeVar, Unpack

from answerkey.errors import SpecError
from answerkey.metrics.paired import Aim, Spread, count_samples, find_smallest, measure_power
from answerkey.runs import Run, RunPlace
from answerkey.types import Notice
from answerkey.verbs.variances import Basis, spread_accuracies, spread_parts, spread_runs

T = TypeVar("T")

#: Differences that are looked up when none is asked for.
USUAL = (0.01, 0.02, 0.03, 0.05, 0.1)
FRACTIONS = (0.05, 0.1, 0.2, 0.5)
PAIR = 2
#: The accuracy at which right and wrong answers vary most.
WORST = 0.5
SOURCES = "name a RUN or two, or write `--accuracy 0.8`, or `--omega2 1/9 --sigma2 1/6`"
UNKNOWN = Notice(
    f"nothing says how much samples vary: both models are taken to have an accuracy of {WORST}, which asks "
    "for the most samples",
    hint=SOURCES,
)


class PowerOptions(TypedDict, total=False):
    """What is known of the samples, and what is planned.

    The variance of a sample's difference comes from runs; from `omega2` and `sigma2` (between samples, and by
    chance of each model); or from an `accuracy` of each model, with the `correlation` of their answers. Where
    none is given the accuracy is 0.5, at which answers vary most.
    `trials` is how often each model is asked a sample: once, or as in the runs, unless given. One number
    stands for both models.
    """

    difference: float | None
    samples: int | None
    omega2: float | None
    sigma2: Sequence[float]
    accuracy: Sequence[float]
    correlation: float
    trials: Sequence[int]
    alpha: float
    power: float
    is_paired: bool
    task: str | None


@dataclass(frozen=True)
class PowerPlan:
    """What is asked for and what follows from it.

    `needed` is how many samples each difference takes; unpaired, for each model. `smallest` is the smallest
    difference that `samples` show with the power asked for, `achieved` their power for a `difference`.
    `variance` is that of one sample's difference, `spread` its parts where they are known, and `basis` says
    where it comes from. `is_share` says that the values lie within [0, 1].
    """

    aim: Aim
    variance: float
    basis: str
    is_paired: bool
    needed: tuple[tuple[float, int], ...]
    spread: Spread | None = None
    difference: float | None = None
    samples: int | None = None
    smallest: float | None = None
    achieved: float | None = None
    notices: tuple[Notice, ...] = ()
    is_share: bool = True


def plan_comparison(*runs: Run | str | RunPlace, **options: Unpack[PowerOptions]) -> PowerPlan:
    """Return how many samples a difference needs, and how small a difference so many samples show.

    With one run its own variance is used for both models, with two that of their differences; the samples are
    theirs unless given.
    """
    aim = Aim(options.get("alpha", 0.05), options.get("power", 0.8))
    difference = options.get("difference")
    _require_sound(aim, difference, options.get("samples"))
    basis = _find_basis(runs, options)
    samples = options.get("samples") or basis.samples
    wanted = _choose_differences(basis) if difference is None else (difference,)
    return PowerPlan(
        aim=aim,
        variance=basis.variance,
        basis=basis.text,
        is_paired=options.get("is_paired", True),
        needed=tuple((one, count_samples(basis.variance, one, aim)) for one in wanted),
        spread=basis.spread,
        difference=difference,
        samples=samples,
        smallest=None if samples is None else find_smallest(basis.variance, samples, aim),
        achieved=None
        if samples is None or difference is None
        else measure_power(basis.variance, samples, difference, aim.alpha),
        notices=basis.notices,
        is_share=basis.is_share,
    )


def _choose_differences(basis: Basis) -> tuple[float, ...]:
    """Return differences worth looking up: usual ones of shares, else fractions of the spread of a model."""
    if basis.is_share:
        return USUAL
    deviation = math.sqrt(basis.variance / 2)
    return tuple(float(f"{share * deviation:.1g}") for share in FRACTIONS if deviation)


def _require_sound(aim: Aim, difference: float | None, samples: int | None) -> None:
    for name, value in (("alpha", aim.alpha), ("power", aim.power)):
        if not 0 < value < 1:
            raise SpecError("E119", f"`{name}` is {value!r}, not between 0 and 1")
    if difference is not None and not difference > 0:
        hint = "a difference of 3 points is `--difference 0.03`"
        raise SpecError("E119", f"`difference` is {difference!r}, not above 0", hint=hint)
    if samples is not None and samples <= 0:
        raise SpecError("E119", f"`samples` is {samples!r}, not above 0")


def _find_basis(runs: Sequence[Run | str | RunPlace], options: PowerOptions) -> Basis:
    """Return where the variance comes from; E119 when more than one is given."""
    parts = options.get("omega2") is not None or bool(options.get("sigma2"))
    given = [bool(runs), parts, bool(options.get("accuracy"))]
    if sum(given) > 1:
        message = "the variance is to come from one of: runs, `omega2` and `sigma2`, `accuracy`"
        raise SpecError("E119", message, hint=SOURCES)
    trials = _for_both("trials", options["trials"]) if options.get("trials") else None
    is_paired, correlation = options.get("is_paired", True), options.get("correlation", 0.0)
    if not -1 <= correlation <= 1:
        raise SpecError("E119", f"`correlation` is {correlation!r}, not between -1 and 1")
    if runs:
        return spread_runs(runs, trials, correlation, is_paired=is_paired, task=options.get("task"))
    if parts:
        chances = _for_both("sigma2", options.get("sigma2") or (0.0,))
        return spread_parts(options.get("omega2") or 0.0, chances, trials or (1, 1), is_paired=is_paired)
    accuracies = _for_both("accuracy", options.get("accuracy") or (WORST,))
    basis = spread_accuracies(accuracies, trials or (1, 1), correlation, is_paired=is_paired)
    return basis if any(given) else replace(basis, notices=(UNKNOWN,))


def _for_both(name: str, given: Sequence[T]) -> tuple[T, T]:
    """Return the numbers of both models; one number stands for both."""
    if len(given) > PAIR:
        raise SpecError(
            "E119", f"`{name}` is given {len(given)} times", hint="once for both models, or twice"
        )
    return given[0], given[-1]
