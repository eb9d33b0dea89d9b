"""`show`, `explain`, `runs`, `report`, `view` and `export`: looking at runs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from answerkey.cli.console import Console, open_stream
from answerkey.cli.options import (
    POLICY_OPTIONS,
    REPORT_OPTIONS,
    add_options,
    complete_run,
    find_baseline,
    find_exit_code,
    keep_files,
    with_console,
)
from answerkey.errors import RunError, SpecError

if TYPE_CHECKING:
    from answerkey.runs import Run
    from answerkey.viewer.server import Server


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
@with_console
def show_command(
    console: Console,
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
    from answerkey.report.listing import find_run
    from answerkey.report.terminal import draw_next_steps, draw_summary
    from answerkey.report.view import describe_run

    if form == "markdown" and (console.as_json or digits is not None):
        other = "--json" if console.as_json else "--digits"
        raise SpecError("E119", f"`--format markdown` and `{other}` exclude each other", hint="leave one out")
    with keep_files(options) as files:
        found = find_run(run)
        is_measured = bool(group_by or cluster_by or uncorrected)
        if is_measured:
            from answerkey.evaluate.rerun import regroup

            corrected = False if uncorrected else None
            found = regroup(found, group_by=group_by, cluster_by=cluster_by, is_corrected=corrected)
        if any(options.values()) or (is_measured and found.gates):
            from answerkey.gates.policies import gate

            found = gate(found, **find_baseline(options))  # type: ignore[arg-type]  # the options of its name
        if console.as_json:
            console.print_json(describe_run(found))
        elif form == "markdown":
            from answerkey.report.markdown import write_markdown

            open_stream(is_json=False).write(write_markdown(found))
        else:
            console.print_lines(draw_summary(found, console.width, verbose=console.verbose, digits=digits))
            console.say([(), *draw_next_steps(found)])
        files.write([found])
        return find_exit_code([found]) if found.gates else 0


@click.command("explain", epilog="Example: answerkey explain latest 000002")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("sample", metavar="SAMPLE")
@click.option("--task", metavar="KEY", help="The task, when the run has several.")
@with_console
def explain_command(console: Console, run: str, sample: str, *, task: str | None) -> int:
    """Show the whole way of SAMPLE in RUN: row, prompt, completion, the rule that decided, and why.

    SAMPLE is a sample id; for generated ids the row number will do (`2` for `000002`).
    """
    from answerkey.report.explain import describe_explained, draw_explained, explain_sample
    from answerkey.report.listing import find_run

    found = explain_sample(find_run(run), sample, task_key=task)
    if console.as_json:
        console.print_json({"samples": [describe_explained(one) for one in found]})
        return 0
    for number, one in enumerate(found):
        console.print_lines([*([()] if number else []), *draw_explained(one, console.width)])
    return 0


@click.command("runs", epilog="Example: answerkey runs my-project/runs")
@click.argument("folder", metavar="[DIR]", required=False)
@with_console
def runs_command(console: Console, folder: str | None) -> int:
    """List the runs below DIR, newest first; DIR is `runs` unless given."""
    from answerkey.report.listing import describe_listing, draw_listing, list_folder

    if folder is None and not Path(RUNS).is_dir():
        if console.as_json:
            console.print_json({"runs": []})
        console.say_text("no runs here yet; `answerkey demo` makes one")
        return 0
    rows = list_folder(folder or RUNS)
    if console.as_json:
        console.print_json({"runs": [describe_listing(row) for row in rows]})
    elif rows:
        console.print_lines(draw_listing(rows, console.width))
    else:
        console.say_text(f"no runs in `{folder or RUNS}`")
    return 0


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
@with_console
def report_command(
    console: Console,
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
    from answerkey.report.html import MOST_EMBEDDED, write_report
    from answerkey.report.listing import find_run

    found = [find_run(name) for name in runs]
    base = None if baseline is None else find_run(baseline)
    path = Path(out) if out else _name_file(found, base)
    with console.display() as display:
        written = write_report(
            found,
            path,
            most=MOST_EMBEDDED if max_samples is None else max_samples,
            baseline=base,
            common=common,
            title=title,
            progress=display.report,
        )
    if console.as_json:
        console.print_json({"report": written})
        return 0
    left = "" if written["embedded"] == written["rows"] else f" of {written['rows']:,}"
    console.say_text(f"{path}: {show_size(written['bytes'])}, {written['embedded']:,}{left} rows embedded")
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


@click.command(
    "view",
    epilog="""\b
Examples:
  answerkey view
  answerkey view my-project/runs --open
  answerkey view --port 8080""",
)
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=0,
    metavar="N",
    help="Port to listen on; a free one unless given.",
)
@click.option("--open/--no-browser", "is_opened", default=False, help="Open the page in a browser; or not.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Listen on another address.")
@click.option("--allow-network", is_flag=True, help="Let --host show your runs to other machines.")
@with_console
def view_command(
    console: Console, folder: str | None, *, port: int, is_opened: bool, host: str, allow_network: bool
) -> int:
    """Show the runs below DIR in a web page, until Ctrl-C; DIR is `runs` unless given.

    The page is for whoever has the address that is printed, with the token at its end, and is served to this
    machine only. DIR may also be a run folder.
    """
    from answerkey.datasets.storage import is_stored
    from answerkey.viewer.server import open_server

    if folder is None and not Path(RUNS).is_dir():
        hint = "name the folder that holds your runs; `answerkey demo` makes one"
        raise RunError("E501", f"there is no folder `{RUNS}` here", hint=hint)
    if folder is not None and is_stored(folder):
        hint = f"`answerkey report {folder}/NAME` makes a page of a run; or copy the runs to this machine"
        raise RunError("E501", "the viewer reads folders of this machine", hint=hint)
    with open_server(folder or RUNS, host=host, port=port, allow_network=allow_network) as server:
        if console.verbose:
            server.listen = console.say_text
        try:
            _tell_address(console, server)
            if is_opened:
                _open_browser(console, server)
            server.serve_forever()
        except KeyboardInterrupt as stop:  # Ctrl-C is how a viewer ends, and no failure
            if getattr(stop, "number", signal.SIGINT) != signal.SIGINT:
                raise
            console.say_text("ended")
    return 0


def _tell_address(console: Console, server: Server) -> None:
    if console.as_json:
        address = {"url": server.url, "host": server.server_name, "port": server.server_port}
        console.print_json({"view": {**address, "folder": str(server.app.catalog.folder)}})
    else:
        sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    if not server.app.is_local:
        console.say_text("other machines can reach it by the name or an address of this one;")
        console.say_text("what is sent is not encrypted, the token neither")
    console.say_text("Ctrl-C ends it")


def _open_browser(console: Console, server: Server) -> None:
    from answerkey.viewer.server import open_browser

    if not open_browser(server.url):
        console.say_text("no browser could be opened; open the address above")


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
@with_console
def export_command(
    console: Console, run: str, *, form: str, out: str | None, task: str | None, raw: bool
) -> int:
    """Write one row per sample and trial of RUN: completion, scores, and the sample itself.

    `every_eval_ever` are rows of that shared schema.

    In CSV, a text that a spreadsheet would take for a formula has an apostrophe in front, unless `--raw`.
    """
    from answerkey.exporters import CSV, check_form, export_rows
    from answerkey.report.listing import find_run

    check_form(form)
    if raw and form != CSV:
        hint = f"the texts of {form} are always as they are"
        raise SpecError("E119", "`--raw` is for CSV", hint=hint)
    if out is None and (form == "parquet" or console.as_json):
        reason = "Parquet is not text" if form == "parquet" else "`--json` keeps stdout for its own object"
        raise SpecError("E119", f"the rows need a file: {reason}", hint=f"add `-o rows.{form}`")
    stream = open_stream(is_json=form != CSV)
    found = export_rows(find_run(run), form, task_key=task, file=out, stream=stream, is_raw=raw)
    left_out = {"left_out": found.left_out} if found.left_out else {}
    if console.as_json:
        console.print_json({"export": {"file": out, "form": form, "rows": found.rows, **left_out}})
    elif out:
        console.say_text(f"{found.rows} rows written to {out}")
    if found.left_out and not console.as_json:
        console.say_text(f"{found.left_out} rows without a score are left out: {form} has no place for them")
    return 0
