"""`export`: the per-sample rows of a run."""

from __future__ import annotations

import sys

import click

from answerkey.cli.options import speaks
from answerkey.cli.talk import Talk
from answerkey.errors import SpecError


@click.command(
    "export",
    epilog="""\b
Examples:
  answerkey export latest --to jsonl > rows.jsonl
  answerkey export runs/my-run --to parquet -o rows.parquet""",
)
@click.argument("run", metavar="RUN")
@click.option("--to", "form", default="jsonl", metavar="FORM", help="jsonl (default), csv or parquet.")
@click.option("-o", "--out", metavar="FILE", help="File to write, in place of stdout; Parquet needs one.")
@click.option("--task", metavar="KEY", help="The task, when the run has several.")
@speaks
def export_command(talk: Talk, run: str, *, form: str, out: str | None, task: str | None) -> int:
    """Write one row per sample and trial of RUN: completion, scores, and the sample itself."""
    from answerkey.reports.export import check_form, export_rows
    from answerkey.reports.listing import find_run

    check_form(form)
    if out is None and (form == "parquet" or talk.as_json):
        reason = "Parquet is not text" if form == "parquet" else "`--json` keeps stdout for its own object"
        raise SpecError("E119", f"the rows need a file: {reason}", hint=f"add `-o rows.{form}`")
    count = export_rows(find_run(run), form, task_key=task, file=out, stream=sys.stdout)
    if talk.as_json:
        talk.print_json({"export": {"file": out, "form": form, "rows": count}})
    elif out:
        talk.say_text(f"{count} rows written to {out}")
    return 0
