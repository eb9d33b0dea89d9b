"""`tasks`: the ready-made tasks."""

from __future__ import annotations

import click

from answerkey.cli.completing import complete_ready_made
from answerkey.cli.options import speaks
from answerkey.cli.talk import Talk
from answerkey.errors import SpecError


@click.command(
    "tasks",
    epilog="""\b
Examples:
  answerkey tasks
  answerkey tasks show mmlu
  answerkey run mmlu --dataset data/mmlu/test --model builtin/random""",
)
@click.argument("words", metavar="[show NAME]", nargs=-1, shell_complete=complete_ready_made)
@speaks
def tasks_command(talk: Talk, words: tuple[str, ...]) -> int:
    """List the ready-made tasks, or show NAME: its data, its licence, and how it is run.

    A ready-made task is named wherever a task file may be: `answerkey run NAME`.
    """
    from answerkey.reports.ready_made import describe_ready_made, draw_ready_made, draw_ready_made_task
    from answerkey.spec.ready_made import list_ready_made, load_ready_made

    names = words[1:] if words[:1] == ("show",) else words
    if len(names) > 1 or (words and not names):
        raise SpecError("E119", "`tasks show` shows one task", hint="write `answerkey tasks show mmlu`")
    wanted = [name.lower().replace("-", "_") for name in names] or list_ready_made()
    found = [load_ready_made(name) for name in wanted]
    if talk.as_json:
        talk.print_json(describe_ready_made(found))
    elif names:
        talk.print_lines(draw_ready_made_task(found[0], talk.width))
    else:
        talk.print_lines(draw_ready_made(found, talk.width))
        talk.say_text("next: answerkey tasks show NAME")
    return 0
