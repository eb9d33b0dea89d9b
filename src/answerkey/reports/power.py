"""A planned comparison: text and plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from answerkey.text import (
    BLANK,
    Line,
    Span,
    Table,
    clean_numbers,
    format_number,
    lay_out,
    line,
    make_visible,
    wrap,
)
from answerkey.verbs.powering import PowerPlan


def draw_power(plan: PowerPlan, width: int) -> list[Line]:
    """Return how many samples each difference takes, what those there are show, and what that rests on."""
    head = "samples" if plan.is_paired else "samples of each"
    rows = [(_say(plan, difference), Span(str(count), "strong")) for difference, count in plan.needed]
    lines = lay_out(Table(("difference", head), rows, ">>"), width)
    if plan.samples is not None and plan.smallest is not None:
        smallest = Span(_say(plan, plan.smallest), "strong")
        lines += [BLANK, line(f"  {plan.samples} samples show a difference of ", smallest, " and more")]
    if plan.achieved is not None and plan.difference is not None:
        share = Span(f"{100 * plan.achieved:.1f} %", "strong")
        lines.append(line(f"  and one of {_say(plan, plan.difference)} in ", share, " of all cases"))
    notes = [part for note in _explain(plan) for part in wrap(make_visible(note), width - 2)]
    return [*lines, BLANK, *(line(Span(f"  {part}", "dim")) for part in notes)]


def _say(plan: PowerPlan, difference: float) -> str:
    """Return a difference of shares in points, with two digits as far as they are needed."""
    if not plan.is_share:
        return format_number(difference)
    points = f"{100 * difference:.2f}".removesuffix("0").removesuffix(".0")
    return f"{points} point{'' if points == '1' else 's'}"


def _explain(plan: PowerPlan) -> list[str]:
    kind = "paired: both models on the same samples" if plan.is_paired else "unpaired: other samples each"
    power, alpha = f"{100 * plan.aim.power:g} %", f"{100 * plan.aim.alpha:g} %"
    notes = [f"{kind}; power {power}, two-sided test at {alpha}"]
    notes.append(f"variance of a sample's difference: {format_number(plan.variance)} ({plan.basis})")
    if plan.spread is not None:
        spread = plan.spread
        parts = [f"{format_number(spread.between)} between samples"]
        for number, trials in ((spread.first, spread.first_trials), (spread.second, spread.second_trials)):
            parts.append(f"{format_number(number)} by chance / {trials}")
        notes.append(f"= {' + '.join(parts)} (trials)")
    return notes


def describe_power(plan: PowerPlan) -> dict[str, Any]:
    """Return the plan as plain values."""
    described: dict[str, Any] = clean_numbers(
        {
            "power": {
                "alpha": plan.aim.alpha,
                "power": plan.aim.power,
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
    )
    return described
