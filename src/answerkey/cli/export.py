"""`export`: the per-sample rows of a run."""

from __future__ import annotations

import click

from answerkey.cli.completing import complete_run
from answerkey.cli.options import speaks
from answerkey.cli.talk import Talk, open_stream
from answerkey.errors import SpecError


@click.command(
    "export",
    epilog="""\b
Examples:
  answerkey export latest --to jsonl > rows.jsonl
  answerkey export runs/my-run --to parquet -o rows.parquet
  answerkey export latest --to every_eval_ever -o rows.jsonl""",
)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option(
    "--to",
    "form",
    default="jsonl",
    metavar="FORM",
    help="jsonl (default), csv, parquet or every_eval_ever.",
)
@click.option("-o", "--out", metavar="FILE", help="File to write, in place of stdout; Parquet needs one.")
@click.option("--task", metavar="KEY", help="The task, when the run has several.")
@click.option("--raw", is_flag=True, help="CSV: leave texts that a spreadsheet would compute as they are.")
@speaks
def export_command(talk: Talk, run: str, *, form: str, out: str | None, task: str | None, raw: bool) -> int:
    """Write one row per sample and trial of RUN: completion, scores, and the sample itself.

    `every_eval_ever` are rows of that shared schema.

    In CSV, a text that a spreadsheet would take for a formula has an apostrophe in front, unless `--raw`.
    """
    from answerkey.exporters import CSV, check_form, export_rows
    from answerkey.reports.listing import find_run

    check_form(form)
    if raw and form != CSV:
        hint = f"the texts of {form} are always as they are"
        raise SpecError("E119", "`--raw` is for CSV", hint=hint)
    if out is None and (form == "parquet" or talk.as_json):
        reason = "Parquet is not text" if form == "parquet" else "`--json` keeps stdout for its own object"
        raise SpecError("E119", f"the rows need a file: {reason}", hint=f"add `-o rows.{form}`")
    stream = open_stream(is_json=form != CSV)
    found = export_rows(find_run(run), form, task_key=task, file=out, stream=stream, is_raw=raw)
    left_out = {"left_out": found.left_out} if found.left_out else {}
    if talk.as_json:
        talk.print_json({"export": {"file": out, "form": form, "rows": found.rows, **left_out}})
    elif out:
        talk.say_text(f"{found.rows} rows written to {out}")
    if found.left_out and not talk.as_json:
        talk.say_text(f"{found.left_out} rows without a score are left out: {form} has no place for them")
    return 0
