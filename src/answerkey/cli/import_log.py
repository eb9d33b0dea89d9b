"""`import`: another tool's log becomes a dataset and completions that can be scored."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from answerkey.cli.console import Console
from answerkey.cli.options import with_console
from answerkey.errors import SpecError

if TYPE_CHECKING:
    from answerkey.importers import Imported


def read_columns(context: click.Context, option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG001  # click's signature
    """Return `--column` pairs as a mapping; the last of a name wins."""
    for pair in pairs:
        name, mark, column = pair.partition("=")
        if not (name.strip() and mark and column):
            message = f"`--column {pair}` is not of the form `NAME=COLUMN`"
            raise SpecError("E119", message, hint="write `--column completion=my_output`")
    return {pair.partition("=")[0].strip(): pair.partition("=")[2] for pair in pairs}


@click.command(
    "import",
    epilog="""\b
Examples:
  answerkey import auto logs/2026-01-31_mmlu.eval --out mmlu && answerkey run mmlu
  answerkey import lm-eval results/my-model
  answerkey import openai-batch output.jsonl --dataset questions.jsonl""",
)
@click.argument("kind", metavar="KIND")
@click.argument("path", metavar="PATH")
@click.option("--out", metavar="DIR", help="Folder to write, new or empty; default `imported/<name>`.")
@click.option("--score", metavar="NAME", help="Which of their scores is compared, when the log has several.")
@click.option(
    "--dataset",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What was asked, where the log does not say: batch outputs.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=COLUMN",
    callback=read_columns,
    help="Which column of a plain file is what: `completion=my_output`; repeatable.",
)
@click.option(
    "--allow-failed", metavar="N|N%", help="Leave out up to N broken lines (or N %); read the rest."
)
@with_console
def import_command(
    console: Console,
    kind: str,
    path: str,
    *,
    out: str | None,
    allow_failed: str | None,
    **options: Any,  # noqa: ANN401 - those that are named like the fields of `ImportOptions`
) -> int:
    """Turn another tool's log at PATH into a project: dataset, completions, task and run file.

    KIND is `auto`, `inspect`, `lm-eval`, `mmlu-pro`, `openai-batch`, `anthropic-batch`, `helm`, `lighteval`,
    `evalscope`, `opencompass`, `promptfoo`, `every_eval_ever`, `evidence` or `plain`. The tool's own verdicts
    come along: the summary of a run says how often ours differ, and why.
    """
    from answerkey.importers import ImportOptions, describe_import, import_log
    from answerkey.reports.preview import draw_import

    with console.display() as display:
        found = import_log(
            kind,
            path,
            out=out,
            options=ImportOptions(**options),
            allow_failed=allow_failed,
            progress=display.report,
        )
    if console.as_json:
        console.print_json(describe_import(found) | {"next": list_next_commands(found)})
        return 0
    console.print_lines(draw_import(found, console.width))
    console.warn(found.notices)
    for command in list_next_commands(found):
        console.say_text(f"next: {command}")
    return 0


def list_next_commands(found: Imported) -> list[str]:
    """Return what to do with an import, as commands that work as they stand."""
    folder = shlex.quote(str(found.folder))
    if not found.has_questions:
        return [f"answerkey score TASK --dataset FILE --completions {folder}/completions.parquet"]
    return [f"answerkey run {folder}", "answerkey audit latest"]
