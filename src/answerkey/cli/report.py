"""`report`: runs as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from answerkey.cli.options import speaks
from answerkey.cli.talk import Talk

if TYPE_CHECKING:
    from answerkey.runs import Run

MEGABYTE, KILOBYTE = 1_000_000, 1_000


@click.command(
    "report",
    epilog="""\b
Examples:
  answerkey report latest
  answerkey report runs/a runs/b -o comparison.html
  answerkey report latest --baseline runs/released""",
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("-o", "--out", metavar="FILE", help="File to write; default the run's name with `.html`.")
@click.option(
    "--baseline", metavar="RUN", help="Hold every RUN against this one, which is in the report, too."
)
@click.option("--common", is_flag=True, help="Compare on the samples that all runs have.")
@click.option(
    "--max-samples",
    type=click.IntRange(min=0),
    metavar="N",
    help="Embed at most N rows of each task; 20000 unless given.",
)
@click.option("--title", metavar="TEXT", help="Title of the page; default the name of what ran.")
@speaks
def report_command(
    talk: Talk,
    runs: tuple[str, ...],
    *,
    out: str | None,
    baseline: str | None,
    common: bool,
    max_samples: int | None,
    title: str | None,
) -> int:
    """Write one HTML file that shows each RUN: numbers, plots, samples, and how several runs compare.

    RUN is a run folder, its name below `runs`, or `latest`. The file needs nothing else: it opens from disk
    and asks nobody for anything. A file of that name is replaced.
    """
    from answerkey.reports.listing import find_run
    from answerkey.reports.pages.document import ReportOptions, write_report
    from answerkey.reports.pages.selection import MOST_EMBEDDED

    found = [find_run(name) for name in runs]
    options = ReportOptions(
        most=MOST_EMBEDDED if max_samples is None else max_samples,
        baseline=None if baseline is None else find_run(baseline),
        common=common,
        title=title,
    )
    path = Path(out) if out else _name_file(found, options.baseline)
    with talk.display() as display:
        written = write_report(found, path, options, display.report)
    if talk.as_json:
        talk.print_json(
            {
                "report": {
                    "file": str(path),
                    "bytes": written.size,
                    "runs": written.runs,
                    "rows": written.rows,
                    "embedded": written.embedded,
                }
            }
        )
        return 0
    left = "" if written.embedded == written.rows else f" of {written.rows:,}"
    talk.say_text(f"{path}: {show_size(written.size)}, {written.embedded:,}{left} rows embedded")
    return 0


def _name_file(runs: Sequence[Run], baseline: Run | None) -> Path:
    """Return the file that is written unless one is named, in the current folder."""
    if len(runs) > 1 or baseline is not None:
        return Path("comparison.html")
    (run,) = runs
    return Path(f"{run.path.resolve().name if run.path else run.key}.html")


def show_size(size: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{size / MEGABYTE:.1f} MB" if size >= MEGABYTE else f"{size / KILOBYTE:.0f} kB"
