"""`power`: plan a comparison before anything is asked."""

from __future__ import annotations

from fractions import Fraction

import click

from answerkey.cli.console import Talk
from answerkey.cli.options import speaks
from answerkey.errors import SpecError

WHOLE = 100


def read_quantity(context: click.Context, option: click.Parameter, given: object) -> object:  # noqa: ARG001  # click's signature
    """Return numbers as people write them (`0.03`, `1/9`, `3%`), one or several."""
    if given is None:
        return None
    if isinstance(given, tuple):
        return tuple(_read_number(str(one), option) for one in given)
    return _read_number(str(given), option)


def _read_number(text: str, option: click.Parameter) -> float:
    try:
        number = Fraction(text.strip().removesuffix("%"))
    except (ValueError, ZeroDivisionError) as error:
        message = f"`{option.opts[0]} {text}` is no number"
        raise SpecError("E119", message, hint="write it like 0.03, 1/9 or 3%") from error
    return float(number / WHOLE if text.strip().endswith("%") else number)


@click.command(
    "power",
    epilog="""\b
Examples:
  answerkey power --difference 0.02
  answerkey power --accuracy 0.85 --correlation 0.5
  answerkey power --difference 0.03 --omega2 1/9 --sigma2 1/6 --trials 10
  answerkey power runs/a runs/b --samples 2000""",
)
@click.argument("runs", metavar="[RUN [RUN]]", nargs=-1)
@click.option(
    "--difference", callback=read_quantity, metavar="D", help="The difference to be seen, such as 0.03."
)
@click.option("--samples", type=click.IntRange(min=1), metavar="N", help="The samples there are.")
@click.option(
    "--accuracy",
    callback=read_quantity,
    multiple=True,
    metavar="P",
    help="Accuracy of both models, or twice; 0.5 unless given.",
)
@click.option(
    "--correlation",
    callback=read_quantity,
    default="0",
    metavar="R",
    help="Correlation of their answers; 0 unless given.",
)
@click.option(
    "--omega2", callback=read_quantity, metavar="V", help="Variance of the difference between samples."
)
@click.option(
    "--sigma2",
    callback=read_quantity,
    multiple=True,
    metavar="V",
    help="Variance by chance, of both models, or twice.",
)
@click.option(
    "--trials", type=click.IntRange(min=1), multiple=True, metavar="K", help="How often each sample is asked."
)
@click.option(
    "--power", "wanted", callback=read_quantity, default="0.8", metavar="P", help="Power; 0.8 unless given."
)
@click.option(
    "--alpha",
    callback=read_quantity,
    default="0.05",
    metavar="A",
    help="Level of the test; 0.05 unless given.",
)
@click.option("--unpaired", is_flag=True, help="The models are not asked the same samples.")
@click.option("--task", metavar="KEY", help="The task, when the runs have several.")
@speaks
def power_command(
    talk: Talk, runs: tuple[str, ...], *, wanted: float, unpaired: bool, **options: object
) -> int:
    """Plan a comparison: how many samples a difference needs, how small a difference so many samples show.

    With one RUN its variance is used, with two that of their differences; with neither, --accuracy,
    and 0.5 unless given, at which answers vary most.
    """
    from answerkey.comparison.power import describe_power, draw_power, plan_comparison
    from answerkey.reports.listing import find_run
    from answerkey.text import clean_numbers

    plan = plan_comparison(
        *map(find_run, runs),
        power=wanted,
        is_paired=not unpaired,
        **options,  # type: ignore[arg-type]  # the options above have the names of `PowerOptions`
    )
    if talk.as_json:
        talk.print_json(clean_numbers(describe_power(plan)))
    else:
        talk.print_lines(draw_power(plan, talk.width))
        talk.warn(plan.notices)
    return 0
