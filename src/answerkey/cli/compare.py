"""`compare`: runs on the same samples, pair by pair."""

from __future__ import annotations

import click

from answerkey.cli.console import Talk
from answerkey.cli.options import speaks
from answerkey.errors import SpecError

REGRESSED = 1


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
@speaks
def compare_command(
    talk: Talk,
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
    from answerkey.comparison.compare import compare, describe_comparison
    from answerkey.comparison.text import draw_pairs
    from answerkey.reports.listing import find_run
    from answerkey.text import clean_numbers

    if fail_on_regression and baseline is None:
        message = "`--fail-on-regression` needs to know worse than what"
        raise SpecError("E119", message, hint="name a run with `--baseline RUN`")
    found = compare(
        *map(find_run, runs),
        baseline=None if baseline is None else find_run(baseline),
        is_corrected=not uncorrected,
        **options,  # type: ignore[arg-type]  # the options above have the names of `CompareOptions`
    )
    if talk.as_json:
        talk.print_json(clean_numbers(describe_comparison(found)))
    else:
        talk.print_lines(draw_pairs(found, talk.width, digits=digits, flips=flips))
        talk.warn(found.notices)
    return REGRESSED if fail_on_regression and found.find_regressions() else 0
