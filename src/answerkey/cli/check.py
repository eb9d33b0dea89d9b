"""`check`: every mistake at once, before anything is asked."""

from __future__ import annotations

import click

from answerkey.cli.completing import complete_model, complete_task
from answerkey.cli.gates import POLICY_OPTIONS, find_baseline
from answerkey.cli.options import TASK_OPTIONS, add_options, speaks
from answerkey.cli.talk import Talk


@click.command(
    "check",
    epilog="""\b
Examples:
  answerkey check my-project
  answerkey check task.yaml --dataset questions.jsonl --plan""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete_task)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=complete_model,
    help="Model key or provider/name, in place of the one in FILE.",
)
@add_options(*TASK_OPTIONS, *POLICY_OPTIONS)
@click.option("--plan", is_flag=True, help="Show how each template will be evaluated.")
@speaks
def check_command(talk: Talk, files: tuple[str, ...], *, plan: bool, **options: object) -> int:
    """Find every mistake in FILE that can be found without asking a model; several files one by one.

    Files, config, templates on every row, columns, truths, choices, metric fields; all at once. Exit code 2
    on errors, 0 on warnings alone.
    """
    from answerkey import verbs
    from answerkey.reports.preview import describe_check, draw_check
    from answerkey.text import Span, line

    chosen = find_baseline(options)
    with talk.display() as display:
        checked = {file: verbs.check(file, progress=display.report, **chosen) for file in files}
    if talk.as_json:
        described = [describe_check(one, file) for file, one in checked.items()]
        talk.print_json(described[0] if len(files) == 1 else {"checks": described})
    else:
        for file, one in checked.items():
            talk.print_lines([line(Span(file, "title"))] if len(checked) > 1 else [])
            talk.print_lines(draw_check(one, talk.width, with_plan=plan))
    codes = (error.exit_code for one in checked.values() for error in one.errors)
    return max(codes, default=0)
