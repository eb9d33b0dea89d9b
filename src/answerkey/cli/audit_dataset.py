"""`audit-dataset`: the questions themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from answerkey.cli.console import Talk
from answerkey.cli.options import CONFIG, ENV, speaks
from answerkey.errors import SpecError

if TYPE_CHECKING:
    from answerkey.dataset_audit.audit import DatasetOptions


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
@click.option("--label-quality", metavar="COLUMN", help="Show the numbers on rows with clean labels, too.")
@click.option(
    "--clean", multiple=True, metavar="VALUE", help="What the column says of a clean label; repeatable."
)
@click.option(
    "--similarity",
    type=click.FloatRange(min=0.3, max=1),
    metavar="X",
    help="How alike two questions must be to be named, 0.75 unless given.",
)
@click.option("--no-duplicates", is_flag=True, help="Do not look for questions that are asked twice.")
@click.option("--dataset", metavar="FILE", help="Dataset of a task file.")
@click.option(
    "--digits", type=click.IntRange(min=0, max=17), metavar="N", help="Print N digits; shares as fractions."
)
@CONFIG
@ENV
@speaks
def audit_dataset_command(talk: Talk, files: tuple[str, ...], *, digits: int | None, **chosen: object) -> int:
    """Look at the questions of FILE: a task file, a run file, its folder, or a data file.

    Several data files are one dataset. COLUMN is the name of a column, a path into one such as
    `question.stem`, or a template; what is not named is found by its usual names. The exit code is 0 whatever
    is found.
    """
    from answerkey.dataset_audit.audit import audit_dataset, describe_dataset_audits, draw_dataset_audit

    with talk.display() as display:
        found = audit_dataset(*files, progress=display.report, **_read_options(chosen))
    if talk.as_json:
        talk.print_json(describe_dataset_audits(found))
        return 0
    for number, one in enumerate(found):
        talk.print_lines([*([()] if number else []), *draw_dataset_audit(one, talk.width, digits=digits)])
        talk.warn(one.notices)
    return 0


def _read_options(chosen: Mapping[str, Any]) -> DatasetOptions:
    """Return what the verb takes for what the command line says."""
    from answerkey.dataset_audit.audit import SIMILARITY

    if chosen["clean"] and chosen["label_quality"] is None:
        message = "`--clean` needs to know of which column"
        raise SpecError("E119", message, hint="name it with `--label-quality COLUMN`")
    options: DatasetOptions = {**chosen}  # type: ignore[typeddict-item]  # they have the same names
    options["similarity"] = None if chosen["no_duplicates"] else chosen["similarity"] or SIMILARITY
    header = chosen["header"]
    options["header"] = None if header is None else [name.strip() for name in header.split(",")]
    del options["no_duplicates"]  # type: ignore[typeddict-item]  # said by the similarity
    return options
