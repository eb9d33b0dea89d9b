"""`check`: every mistake at once, before anything is asked."""

from __future__ import annotations

import click

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
@click.argument("file", metavar="FILE")
@click.option("--model", metavar="NAME", help="Model key or provider/name, in place of the one in FILE.")
@add_options(*TASK_OPTIONS, *POLICY_OPTIONS)
@click.option("--plan", is_flag=True, help="Show how each template will be evaluated.")
@speaks
def check_command(talk: Talk, file: str, *, plan: bool, **options: object) -> int:
    """Find every mistake in FILE that can be found without asking a model.

    Files, config, templates on every row, columns, truths, choices, metric fields; all at once. Exit code 2
    on errors, 0 on warnings alone.
    """
    from answerkey import verbs
    from answerkey.reports.preview import describe_check, draw_check

    with talk.display() as display:
        checked = verbs.check(file, progress=display.report, **find_baseline(options))
    if talk.as_json:
        talk.print_json(describe_check(checked, file))
    else:
        talk.print_lines(draw_check(checked, talk.width, with_plan=plan))
    return max((error.exit_code for error in checked.errors), default=0)
