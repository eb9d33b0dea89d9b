"""Looking at runs, one by one or side by side, and at the questions of a dataset."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from answerkey.cli.console import Console, open_stream, write_json, write_lines, write_text
from answerkey.cli.options import (
    COLUMN,
    CONFIG,
    ENV,
    NATURAL,
    POLICY_OPTIONS,
    POSITIVE,
    REPORT_OPTIONS,
    RUN,
    RUNS,
    ClickValue,
    add_options,
    command,
    find_baselines,
    find_exit_code,
    flag,
    keep_files,
    option,
    write_size,
)
from answerkey.errors import RunError, SpecError

if TYPE_CHECKING:
    from answerkey.runs import Run

FOLDER = "runs"
DIGITS = option(
    "--digits", "N", "Print N digits; shares as fractions.", type=click.IntRange(min=0, max=17)
)
CLUSTER_BY = option(
    "--cluster-by", "COLUMN", "Column of samples that belong together, such as a passage."
)


@command(
    "show",
    "show latest",
    "show latest --group-by subject --digits 6",
    "show latest --cluster-by passage",
    "show latest --policies gates.yaml --junit gates.xml",
)
@RUN
@option(
    "--group-by", "COLUMN", "Also measure for each value of a column.", "group_by", multiple=True
)
@CLUSTER_BY
@DIGITS
@option(
    "--format",
    "FORM",
    "text (default) or markdown.",
    "form",
    type=click.Choice(["text", "markdown"]),
    default="text",
)
@add_options(*POLICY_OPTIONS, *REPORT_OPTIONS)
def show_command(
    console: Console,
    run: str,
    *,
    group_by: tuple[str, ...],
    cluster_by: str | None,
    digits: int | None,
    form: str,
    **options: ClickValue,
) -> int:
    """Print the summary of RUN: a run folder, its name below `runs`, or `latest`.

    `--group-by` and `--cluster-by` name columns of the dataset; the metrics are measured again, and
    the run does not change. The exit code is that of its gates.
    """
    from answerkey.reports.listing import find_run
    from answerkey.reports.terminal import draw_next_steps, draw_summary
    from answerkey.reports.view import describe_run

    with keep_files(options) as write:
        shown = find_run(run)
        is_measured = bool(group_by or cluster_by)
        if is_measured:
            from answerkey.evaluate.reopen import regroup

            shown = regroup(shown, group_by=group_by, cluster_by=cluster_by)
        if any(options.values()) or (is_measured and shown.gates):
            from answerkey.gates.policies import gate

            find_baselines(options)
            shown = gate(shown, **options)
        if form == "markdown" and not console.as_json:
            from answerkey.reports.markdown import write_markdown

            write_text(write_markdown([shown]), open_stream(is_json=False))
        else:
            console.show(
                lambda: describe_run(shown),
                lambda: draw_summary(shown, console.width, verbose=console.verbose, digits=digits),
            )
            if not console.as_json:
                console.say([(), *draw_next_steps(shown)])
        if write is not None:
            write([shown])
        return find_exit_code([shown]) if shown.gates else 0


@command("explain", "explain latest 000002")
@RUN
@click.argument("sample", metavar="SAMPLE")
@option("--task", "KEY", "Task, if the run has several.")
def explain_command(
    console: Console,
    run: str,
    sample: str,
    *,
    task: str | None,
) -> None:
    """Show SAMPLE of RUN: row, prompt, completion, score, the rule that decided, and why.

    SAMPLE is a sample id; for generated ids the row number is enough (`2` for `000002`).
    """
    from answerkey.reports.explain import describe_explained, explain
    from answerkey.reports.listing import find_run

    explanation = explain(find_run(run), sample, task=task)
    console.show(
        lambda: {"samples": [*map(describe_explained, explanation.samples)]},
        lambda: explanation.draw(console.width),
    )


@command("runs", "runs my-project/runs")
@click.argument("folder", metavar="[DIR]", required=False)
def runs_command(console: Console, folder: str | None) -> None:
    """List the runs below DIR (default `runs`), newest first."""
    from answerkey.reports.listing import draw_listing, list_folder
    from answerkey.text import clean_numbers

    if folder is None and not Path(FOLDER).is_dir():
        console.show(lambda: {"runs": []}, tuple)
        console.say_text("no runs here yet; `answerkey demo` makes one")
        return
    rows = list_folder(folder or FOLDER)
    if rows or console.as_json:
        console.show(
            lambda: {"runs": clean_numbers([*map(asdict, rows)])},
            lambda: draw_listing(rows, console.width),
        )
    else:
        console.say_text(f"no runs in `{folder or FOLDER}`")


@command(
    "report",
    "report latest",
    "report runs/a runs/b -o comparison.html",
)
@RUNS
@option("-o", "FILE", "File to write; default the run's name with `.html`.", "--out")
@option(
    "--max-samples",
    "N",
    "Embed at most N rows of each task; default 20000.",
    type=NATURAL,
)
def report_command(
    console: Console,
    runs: tuple[str, ...],
    *,
    out: str | None,
    **chosen: Any,  # noqa: ANN401 - options of click
) -> None:
    """Write one HTML file that shows each RUN: numbers, plots, samples, and how several runs
    compare.

    RUN is a run folder, its name below `runs`, `latest`, or a folder of runs. The file opens from
    disk and loads nothing else. An existing file is replaced.
    """
    from answerkey.reports.html import report
    from answerkey.reports.listing import find_runs

    shown = find_runs(runs)
    name = "comparison"
    if len(shown) == 1 and shown[0].path:
        name = shown[0].path.resolve().name
    path = out or f"{name}.html"
    options = {name: value for name, value in chosen.items() if value is not None}
    with console.display() as display:
        written = report(shown, path, progress=display.report, **options)
    console.show(lambda: {"report": written}, tuple)
    if not console.as_json:
        total = "" if written["embedded"] == written["rows"] else f" of {written['rows']:,}"
        size = write_size(written["bytes"])
        console.say_text(f"{path}: {size}, {written['embedded']:,}{total} rows embedded")


@command(
    "view",
    "view",
    "view my-project/runs",
    "view --port 8080",
)
@click.argument("folder", metavar="[DIR]", required=False)
@option(
    "--port",
    "N",
    "Port to listen on; default a free one.",
    type=click.IntRange(min=0, max=65535),
    default=0,
)
def view_command(
    console: Console,
    folder: str | None,
    *,
    port: int,
) -> None:
    """Serve the runs below DIR (default `runs`) as a web page, until Ctrl-C.

    The page is reachable from this machine only, with the token in the printed address. DIR may
    also be a run folder.
    """
    from answerkey.viewer.server import open_server

    if folder is None and not Path(FOLDER).is_dir():
        hint = "name the folder that holds your runs; `answerkey demo` makes one"
        raise RunError("E501", f"there is no folder `{FOLDER}` here", hint=hint)
    with open_server(folder or FOLDER, port=port) as server:
        try:
            address = {
                "url": server.url,
                "host": server.server_name,
                "port": server.server_port,
            }
            address["folder"] = str(server.app.catalog.folder)
            console.show(lambda: {"view": address}, lambda: [server.url])
            sys.stdout.flush()
            console.say_text("Ctrl-C ends it")
            server.serve_forever()
        except KeyboardInterrupt as stop:  # Ctrl-C is how a viewer ends, and no failure
            if getattr(stop, "number", signal.SIGINT) != signal.SIGINT:
                raise
            console.say_text("ended")


@command(
    "export",
    "export latest --to jsonl > rows.jsonl",
    "export runs/my-run --to parquet -o rows.parquet",
)
@RUN
@option(
    "--to",
    "FORM",
    "jsonl (default), csv, parquet or every_eval_ever.",
    "form",
    default="jsonl",
)
@option("-o", "FILE", "File to write, in place of stdout; Parquet needs one.", "--out")
@option("--task", "KEY", "Task, if the run has several.")
@flag("--raw", "CSV: write texts that look like formulas unchanged.")
def export_command(
    console: Console,
    run: str,
    *,
    form: str,
    out: str | None,
    task: str | None,
    raw: bool,
) -> None:
    """Write one row per sample and trial of RUN: completion, scores, and the sample itself.

    `every_eval_ever` writes rows of that schema, into a folder the pair of files that its validator
    takes.

    In CSV, a text that looks like a formula gets an apostrophe in front, unless `--raw`.
    """
    from answerkey.exporters import export
    from answerkey.exporters.forms import CSV
    from answerkey.reports.listing import find_run

    if out is None and console.as_json:
        message = "the rows need a file: `--json` keeps stdout for its own object"
        raise SpecError("E119", message, hint=f"add `-o rows.{form}`")
    stream = open_stream(is_json=form != CSV)
    written = export(
        find_run(run),
        form,
        out,
        task=task,
        stream=stream,
        is_raw=raw,
    )
    if console.as_json:
        about: dict[str, object] = {
            "file": out,
            "form": form,
            "rows": written.rows,
        }
        if written.left_out:
            about["left_out"] = written.left_out
        write_json({"export": about})
        return
    if out:
        console.say_text(f"{written.rows} rows written to {out}")
    if written.left_out:
        reason = f"{form} has no place for them"
        console.say_text(f"{written.left_out} rows without a score are left out: {reason}")


@command(
    "audit",
    "audit latest",
)
@RUN
@option("--task", "KEY", "Task, if the run has several; default all.")
def audit_command(console: Console, run: str, *, task: str | None) -> None:
    """Read all completions of RUN by every rule and as other harnesses do, and report what stands
    out.

    RUN is a run folder, its name below `runs`, or `latest`. No model is called and nothing is
    changed. The exit code is 0 whatever is found.
    """
    from answerkey.reports.listing import find_run
    from answerkey.run_audit.audit import audit
    from answerkey.run_audit.text import describe_audit

    audited = find_run(run)
    with console.display() as display:
        result = audit(audited, progress=display.report, task=task)
    console.show(
        lambda: describe_audit(result),
        lambda: result.draw(console.width),
        result.notices,
    )


@command(
    "audit-dataset",
    "audit-dataset my-project",
    "audit-dataset questions.jsonl --column truth=answer:1",
    "audit-dataset test.csv dev.csv --header question,A,B,C,D,answer",
)
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
)
@COLUMN
@option("--header", "NAMES", "Column names of a CSV file that has no header line.")
@option("--dataset", "FILE", "Dataset of a task file.")
@CONFIG
@ENV
def audit_dataset_command(
    console: Console,
    files: tuple[str, ...],
    *,
    header: str | None,
    **chosen: Any,  # noqa: ANN401 - options of click
) -> None:
    """Find problems in the questions of FILE: a task, run or dataset file, a project folder, or a
    data file.

    Several data files are one dataset, whose columns are recognised. The exit code is 0 whatever is
    found.
    """
    from answerkey.dataset_audit.audit import audit_dataset
    from answerkey.dataset_audit.text import describe_dataset_audits, draw_dataset_audit

    chosen["header"] = None if header is None else [name.strip() for name in header.split(",")]
    with console.display() as display:
        audits = audit_dataset(*files, progress=display.report, **chosen)
    if console.as_json:
        write_json(describe_dataset_audits(audits))
        return
    for number, result in enumerate(audits):
        if number:
            write_lines([()], sys.stdout)
        write_lines(draw_dataset_audit(result, console.width), sys.stdout)
        console.warn(result.notices)


@command(
    "compare",
    "compare runs/a runs/b",
    "compare runs/a runs/b runs/c --cluster-by passage",
    "compare latest --baseline runs/released --fail-on-regression",
)
@RUNS
@option("--baseline", "RUN", "Compare every RUN with this one only.")
@option("--task", "KEY", "Task, if the runs have several; default all that they share.")
@option("--scorer", "KEY", "Scorer to compare; default the main one.")
@option("--value", "NAME", "Value to compare; default the scorer's main one.")
@option("--by", "COLUMN", "Column of the categories; default as in the summary.")
@CLUSTER_BY
@flag("--common", "Compare on the samples that all runs have.")
@option("--flips", "N", "List N flipped samples; default 10.", type=NATURAL, default=10)
@DIGITS
@flag("--fail-on-regression", "Exit 1 if a RUN is significantly worse.")
def compare_command(
    console: Console,
    runs: tuple[str, ...],
    *,
    baseline: str | None,
    flips: int,
    digits: int | None,
    fail_on_regression: bool,
    **options: object,
) -> int:
    """Compare each RUN with every other, or with the baseline, on the same samples.

    RUN is a run folder, its name below `runs`, `latest`, or a folder of runs. Samples are matched
    by id, and runs with other truths are refused. A difference is first minus second.
    """
    from answerkey.comparison.compare import compare, describe_comparison, draw_pairs
    from answerkey.reports.listing import find_run, find_runs
    from answerkey.text import clean_numbers

    if fail_on_regression and baseline is None:
        message = "`--fail-on-regression` needs to know worse than what"
        raise SpecError("E119", message, hint="name a run with `--baseline RUN`")
    compared = find_runs(runs)
    if len(compared) > len(runs):  # a folder of runs was named
        compared = _choose_complete(console, compared)
    result = compare(
        *compared,
        baseline=None if baseline is None else find_run(baseline),
        **options,  # type: ignore[arg-type]  # the options above have the names of `CompareOptions`
    )
    console.show(
        lambda: clean_numbers(describe_comparison(result)),
        lambda: draw_pairs(result, console.width, digits=digits, flips=flips),
        result.notices,
    )
    return 1 if fail_on_regression and result.find_regressions() else 0


def _choose_complete(console: Console, runs: Sequence[Run]) -> list[Run]:
    from answerkey.types import Notice

    complete = []
    for run in runs:
        if run.status == "complete":
            complete.append(run)
        else:
            console.warn([Notice(f"`{run.path}` is left out: it is {run.status}")])
    return complete


def read_quantity(context: click.Context, option: click.Parameter, value: object) -> object:
    """Return numbers as people write them (`0.03`, `1/9`, `3%`), one or several."""
    if isinstance(value, tuple):
        return tuple(read_quantity(context, option, text) for text in value)
    if value is None:
        return None
    from answerkey.text import read_fraction

    try:
        return read_fraction(str(value))
    except ValueError as error:
        message = f"`{option.opts[0]} {value}` is no number"
        raise SpecError("E119", message, hint="write it like 0.03, 1/9 or 3%") from error


@command(
    "power",
    "power --difference 0.02",
    "power --accuracy 0.85 --correlation 0.5",
    "power --difference 0.03 --omega2 1/9",
    "power runs/a runs/b --samples 2000",
)
@click.argument("runs", metavar="[RUN [RUN]]", nargs=-1)
@option("--difference", "D", "Difference to detect, such as 0.03.", callback=read_quantity)
@option("--samples", "N", "Number of samples that you have.", type=POSITIVE)
@option(
    "--accuracy",
    "P",
    "Accuracy of both models, or given twice; default 0.5.",
    callback=read_quantity,
    multiple=True,
)
@option(
    "--correlation",
    "R",
    "Correlation of their answers; default 0.",
    callback=read_quantity,
    default="0",
)
@option("--omega2", "V", "Variance of the difference between samples.", callback=read_quantity)
@option("--power", "P", "Power; default 0.8.", callback=read_quantity, default="0.8")
@option("--alpha", "A", "Level of the test; default 0.05.", callback=read_quantity, default="0.05")
@option("--task", "KEY", "Task, if the runs have several.")
def power_command(console: Console, runs: tuple[str, ...], **options: object) -> None:
    """Plan a comparison: how many samples a difference needs, or which difference your samples can
    show.

    With one RUN its variance is used, with two that of their differences; without a RUN that of
    --accuracy (default 0.5, where answers vary most).
    """
    from answerkey.comparison.power import describe_power, draw_power, plan_comparison
    from answerkey.reports.listing import find_run
    from answerkey.text import clean_numbers

    plan = plan_comparison(
        *map(find_run, runs),
        **options,  # type: ignore[arg-type]  # the options above have the names of `PowerOptions`
    )
    console.show(
        lambda: clean_numbers(describe_power(plan)),
        lambda: draw_power(plan, console.width),
        plan.notices,
    )
