"""`show`, `explain` and `runs`: views over runs on disk."""

from __future__ import annotations

from pathlib import Path

import click

from answerkey.cli.completing import complete_run
from answerkey.cli.gates import (
    POLICY_OPTIONS,
    REPORT_OPTIONS,
    find_baseline,
    find_exit_code,
    keep_files,
)
from answerkey.cli.options import add_options, speaks
from answerkey.cli.talk import Talk, open_stream
from answerkey.errors import SpecError

RUNS = "runs"


@click.command(
    "show",
    epilog="""\b
Examples:
  answerkey show latest
  answerkey show latest --group-by subject --digits 6
  answerkey show latest --cluster-by passage
  answerkey show latest --format markdown > summary.md
  answerkey show latest --policies gates.yaml --junit gates.xml""",
)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option(
    "--group-by", "group_by", multiple=True, metavar="COLUMN", help="Measure by the values of a column, too."
)
@click.option("--cluster-by", metavar="COLUMN", help="Allow for samples that belong together by a column.")
@click.option("--uncorrected", is_flag=True, help="Leave out the correction C/(C-1) for few clusters.")
@click.option(
    "--digits",
    type=click.IntRange(min=0, max=17),
    metavar="N",
    help="Print N digits and standard errors; shares as fractions.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown"]),
    default="text",
    metavar="FORM",
    help="text (default) or markdown.",
)
@add_options(*POLICY_OPTIONS, *REPORT_OPTIONS)
@speaks
def show_command(
    talk: Talk,
    run: str,
    *,
    group_by: tuple[str, ...],
    cluster_by: str | None,
    uncorrected: bool,
    digits: int | None,
    form: str,
    **options: object,
) -> int:
    """Print the summary of RUN: a run folder, its name below `runs`, or `latest`.

    `--group-by` and `--cluster-by` name columns of the dataset; its metrics are measured again for them, and
    the run stays as it is. The exit code is that of its gates.
    """
    from answerkey.reports.json_form import describe_run
    from answerkey.reports.listing import find_run
    from answerkey.reports.summary import draw_next_steps, draw_summary
    from answerkey.verbs.gating import gate
    from answerkey.verbs.regrouping import regroup

    if form == "markdown" and (talk.as_json or digits is not None):
        other = "--json" if talk.as_json else "--digits"
        raise SpecError("E119", f"`--format markdown` and `{other}` exclude each other", hint="leave one out")
    with keep_files(options) as files:
        found = find_run(run)
        is_measured = bool(group_by or cluster_by or uncorrected)
        if is_measured:
            corrected = False if uncorrected else None
            found = regroup(found, group_by=group_by, cluster_by=cluster_by, is_corrected=corrected)
        if any(options.values()) or (is_measured and found.gates):
            found = gate(found, **find_baseline(options))  # type: ignore[arg-type]  # the options of its name
        if talk.as_json:
            talk.print_json(describe_run(found))
        elif form == "markdown":
            from answerkey.reports.markdown import write_markdown

            open_stream(is_json=False).write(write_markdown(found))
        else:
            talk.print_lines(draw_summary(found, talk.width, verbose=talk.verbose, digits=digits))
            talk.say([(), *draw_next_steps(found)])
        files.write([found])
        return find_exit_code([found]) if found.gates else 0


@click.command("explain", epilog="Example: answerkey explain latest 000002")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("sample", metavar="SAMPLE")
@click.option("--task", metavar="KEY", help="The task, when the run has several.")
@speaks
def explain_command(talk: Talk, run: str, sample: str, *, task: str | None) -> int:
    """Show the whole way of SAMPLE in RUN: row, prompt, completion, the rule that decided, and why.

    SAMPLE is a sample id; for generated ids the row number will do (`2` for `000002`).
    """
    from answerkey.reports.explain import describe_explained, explain_sample
    from answerkey.reports.explain_text import draw_explained
    from answerkey.reports.listing import find_run

    found = explain_sample(find_run(run), sample, task_key=task)
    if talk.as_json:
        talk.print_json({"samples": [describe_explained(one) for one in found]})
        return 0
    for number, one in enumerate(found):
        talk.print_lines([*([()] if number else []), *draw_explained(one, talk.width)])
    return 0


@click.command("runs", epilog="Example: answerkey runs my-project/runs")
@click.argument("folder", metavar="[DIR]", required=False)
@speaks
def runs_command(talk: Talk, folder: str | None) -> int:
    """List the runs below DIR, newest first; DIR is `runs` unless given."""
    from answerkey.reports.listing import describe_listing, draw_listing, list_folder

    if folder is None and not Path(RUNS).is_dir():
        if talk.as_json:
            talk.print_json({"runs": []})
        talk.say_text("no runs here yet; `answerkey demo` makes one")
        return 0
    rows = list_folder(folder or RUNS)
    if talk.as_json:
        talk.print_json({"runs": [describe_listing(row) for row in rows]})
    elif rows:
        talk.print_lines(draw_listing(rows, talk.width))
    else:
        talk.say_text(f"no runs in `{folder or RUNS}`")
    return 0
