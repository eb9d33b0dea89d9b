"""`compare`: runs on the same samples, pair by pair; `power`: plan a comparison before anything is asked."""

from __future__ import annotations

from fractions import Fraction

import click

from answerkey.cli.console import Console
from answerkey.cli.options import with_console
from answerkey.errors import SpecError

REGRESSED = 1
WHOLE = 100


@click.command(
    "compare",
    epilog="""\b
Examples:
  answerkey compare runs/a runs/b
  answerkey compare runs/a runs/b runs/c --cluster-by passage
  answerkey compare latest --baseline runs/released --fail-on-regression""",
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--baseline", metavar="RUN", help="Hold every RUN against this one, not all against all.")
@click.option("--task", metavar="KEY", help="The task, when the runs have several; else all they share.")
@click.option("--scorer", metavar="KEY", help="The scorer, when it is not the main one.")
@click.option("--value", metavar="NAME", help="The scorer's value, when it is not its main one.")
@click.option("--by", metavar="COLUMN", help="Column of the categories; default as in the summary.")
@click.option("--cluster-by", metavar="COLUMN", help="Allow for samples that belong together by a column.")
@click.option("--uncorrected", is_flag=True, help="Leave out the correction C/(C-1) for few clusters.")
@click.option("--common", is_flag=True, help="Compare on the samples that all runs have.")
@click.option(
    "--flips",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    help="Name N flipped samples; 10 unless given.",
)
@click.option(
    "--digits", type=click.IntRange(min=0, max=17), metavar="N", help="Print N digits; shares as fractions."
)
@click.option("--fail-on-regression", is_flag=True, help="Exit 1 if a RUN is significantly worse.")
@with_console
def compare_command(
    console: Console,
    runs: tuple[str, ...],
    *,
    baseline: str | None,
    uncorrected: bool,
    flips: int,
    digits: int | None,
    fail_on_regression: bool,
    **options: object,
) -> int:
    """Compare each RUN with every other on the same samples, or with the baseline.

    RUN is a run folder, its name below `runs`, or `latest`. Samples are matched by id, and runs with other
    truths are refused. A difference is first minus second.
    """
    from answerkey.comparison.compare import compare, describe_comparison, draw_pairs
    from answerkey.reports.view import find_run
    from answerkey.text import clean_numbers

    if fail_on_regression and baseline is None:
        message = "`--fail-on-regression` needs to know worse than what"
        raise SpecError("E119", message, hint="name a run with `--baseline RUN`")
    found = compare(
        *map(find_run, runs),
        baseline=None if baseline is None else find_run(baseline),
        is_corrected=not uncorrected,
        **options,  # type: ignore[arg-type]  # the options above have the names of its parameters
    )
    if console.as_json:
        console.print_json(clean_numbers(describe_comparison(found)))
    else:
        console.print_lines(draw_pairs(found, console.width, digits=digits, flips=flips))
        console.warn(found.notices)
    return REGRESSED if fail_on_regression and found.find_regressions() else 0


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
@with_console
def power_command(
    console: Console, runs: tuple[str, ...], *, wanted: float, unpaired: bool, **options: object
) -> int:
    """Plan a comparison: how many samples a difference needs, how small a difference so many samples show.

    With one RUN its variance is used, with two that of their differences; with neither, --accuracy,
    and 0.5 unless given, at which answers vary most.
    """
    from answerkey.comparison.power import describe_power, draw_power, plan_comparison
    from answerkey.reports.view import find_run
    from answerkey.text import clean_numbers

    plan = plan_comparison(
        *map(find_run, runs),
        power=wanted,
        is_paired=not unpaired,
        **options,  # type: ignore[arg-type]  # the options above have the names of its parameters
    )
    if console.as_json:
        console.print_json(clean_numbers(describe_power(plan)))
    else:
        console.print_lines(draw_power(plan, console.width))
        console.warn(plan.notices)
    return 0
