"""`audit`: how much of a number rests on format, position and chance."""

from __future__ import annotations

import click

from answerkey.cli.console import Talk
from answerkey.cli.options import complete_run, speaks


@click.command(
    "audit",
    epilog="""\b
Examples:
  answerkey audit latest
  answerkey audit runs/my-run --label-quality error_type --clean ok""",
)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--task", metavar="KEY", help="The task, when the run has several; else all of them.")
@click.option(
    "--label-quality", metavar="COLUMN", help="Show every metric on rows with clean labels, too, by a column."
)
@click.option(
    "--clean", multiple=True, metavar="VALUE", help="What the column says of a clean label; repeatable."
)
@click.option(
    "--digits", type=click.IntRange(min=0, max=17), metavar="N", help="Print N digits; shares as fractions."
)
@speaks
def audit_command(
    talk: Talk,
    run: str,
    *,
    task: str | None,
    label_quality: str | None,
    clean: tuple[str, ...],
    digits: int | None,
) -> int:
    """Read all completions of RUN by every rule and as other harnesses do, and say what stands out.

    RUN is a run folder, its name below `runs`, or `latest`. No model is asked and nothing is changed. The
    exit code is 0 whatever is found.
    """
    from answerkey.errors import SpecError
    from answerkey.report.listing import find_run
    from answerkey.run_audit.audit import audit
    from answerkey.run_audit.text import describe_audit, draw_audit

    if clean and label_quality is None:
        message = "`--clean` needs to know of which column"
        raise SpecError("E119", message, hint="name it with `--label-quality COLUMN`")
    found = find_run(run)
    with talk.display() as display:
        told = audit(found, task=task, label_quality=label_quality, clean=clean, progress=display.report)
    if talk.as_json:
        talk.print_json(describe_audit(told))
    else:
        talk.print_lines(draw_audit(told, talk.width, digits))
        talk.warn(told.notices)
    return 0
