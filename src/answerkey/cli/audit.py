"""`audit` and `audit-dataset`: what a number rests on, and the questions themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from answerkey.cli.console import Console
from answerkey.cli.options import CONFIG, ENV, complete_run, with_console
from answerkey.errors import SpecError

_CLEAN = click.option(
    "--clean", multiple=True, metavar="VALUE", help="What the column says of a clean label; repeatable."
)
_DIGITS = click.option(
    "--digits", type=click.IntRange(min=0, max=17), metavar="N", help="Print N digits; shares as fractions."
)


def _quality(text: str) -> Callable[[Any], Any]:
    return click.option("--label-quality", metavar="COLUMN", help=text)


def _require_column(clean: object, label_quality: str | None) -> None:
    if clean and label_quality is None:
        message = "`--clean` needs to know of which column"
        raise SpecError("E119", message, hint="name it with `--label-quality COLUMN`")


@click.command(
    "audit",
    epilog="""\b
Examples:
  answerkey audit latest
  answerkey audit runs/my-run --label-quality error_type --clean ok""",
)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--task", metavar="KEY", help="The task, when the run has several; else all of them.")
@_quality("Show every metric on rows with clean labels, too, by a column.")
@_CLEAN
@_DIGITS
@with_console
def audit_command(console: Console, run: str, *, digits: int | None, **chosen: Any) -> int:  # noqa: ANN401 - options of click
    """Read all completions of RUN by every rule and as other harnesses do, and say what stands out.

    RUN is a run folder, its name below `runs`, or `latest`. No model is asked and nothing is changed. The
    exit code is 0 whatever is found.
    """
    from answerkey.reports.view import find_run
    from answerkey.run_audit.audit import audit
    from answerkey.run_audit.text import describe_audit, draw_audit

    _require_column(chosen["clean"], chosen["label_quality"])
    found = find_run(run)
    with console.display() as display:
        told = audit(found, progress=display.report, **chosen)
    if console.as_json:
        console.print_json(describe_audit(told))
    else:
        console.print_lines(draw_audit(told, console.width, digits))
        console.warn(told.notices)
    return 0


@click.command(
    "audit-dataset",
    epilog="""\b
Examples:
  answerkey audit-dataset my-project
  answerkey audit-dataset questions.jsonl --options options --truth answer
  answerkey audit-dataset test.csv dev.csv --header question,A,B,C,D,answer""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--question", multiple=True, metavar="COLUMN", help="Column of the question; repeatable.")
@click.option(
    "--options", multiple=True, metavar="COLUMN", help="Column of the options, or one for each; repeatable."
)
@click.option("--choices", metavar="COLUMN", help="Column of the options' labels.")
@click.option("--truth", metavar="COLUMN", help="Column of the truth.")
@click.option(
    "--truth-form",
    type=click.Choice(["label", "index", "number", "text"]),
    metavar="FORM",
    help="label, index (from 0), number (from 1) or text: how a truth names its option.",
)
@click.option("--header", metavar="NAMES", help="Column names of a CSV file that has no header line.")
@_quality("Show the numbers on rows with clean labels, too.")
@_CLEAN
@click.option(
    "--similarity",
    type=click.FloatRange(min=0.3, max=1),
    metavar="X",
    help="How alike two questions must be to be named, 0.75 unless given.",
)
@click.option("--no-duplicates", is_flag=True, help="Do not look for questions that are asked twice.")
@click.option("--dataset", metavar="FILE", help="Dataset of a task file.")
@_DIGITS
@CONFIG
@ENV
@with_console
def audit_dataset_command(
    console: Console,
    files: tuple[str, ...],
    *,
    digits: int | None,
    header: str | None,
    similarity: float | None,
    no_duplicates: bool,
    **chosen: Any,  # noqa: ANN401 - options of click
) -> int:
    """Look at the questions of FILE: a task file, a run file, its folder, or a data file.

    Several data files are one dataset. COLUMN is the name of a column, a path into one such as
    `question.stem`, or a template; what is not named is found by its usual names. The exit code is 0 whatever
    is found.
    """
    from answerkey.dataset_audit.audit import (
        SIMILARITY,
        audit_dataset,
        describe_dataset_audits,
        draw_dataset_audit,
    )

    _require_column(chosen["clean"], chosen["label_quality"])
    chosen["similarity"] = None if no_duplicates else similarity or SIMILARITY
    chosen["header"] = None if header is None else [name.strip() for name in header.split(",")]
    with console.display() as display:
        found = audit_dataset(*files, progress=display.report, **chosen)
    if console.as_json:
        console.print_json(describe_dataset_audits(found))
        return 0
    for number, one in enumerate(found):
        console.print_lines(
            [*([()] if number else []), *draw_dataset_audit(one, console.width, digits=digits)]
        )
        console.warn(one.notices)
    return 0
