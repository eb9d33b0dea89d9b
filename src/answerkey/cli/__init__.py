"""Commands; the only package that prints and exits.

`main` finds the command, runs it, and turns whatever happens into text on stderr and an exit code
(`exits`). Each command reads its options, calls a function, and prints what the reports drew
(`console`). What a command needs is imported when it is called, so that `--help` is fast.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from answerkey._version import __version__
from answerkey.cli import look, run, start
from answerkey.cli.console import leave_stream, surviving_lost_reader
from answerkey.cli.exits import catch_faults

#: The commands in the groups and the order of `--help`, and what each does in one line.
COMMANDS: dict[str, dict[click.Command, str]] = {
    "Evaluate": {
        run.run_command: "Call a model, score its replies, write the run and print its summary.",
        run.score_command: "Score recorded completions; no model is called.",
        run.resume_command: "Continue an interrupted run where it stopped.",
        run.rescore_command: "Score an old run's completions again, as a new run.",
        run.export_prompts_command: "Write the prompts with their ids, for offline batch engines.",
        run.check_command: "Find every mistake that can be found without a model.",
        run.doctor_command: "Call a model a few times: will its numbers be worth their money?",
        look.audit_dataset_command: (
            "Find problems in the questions: duplicates, wrong truths, skew."
        ),
    },
    "Look at runs": {
        look.show_command: "Print the summary of a run.",
        look.explain_command: "Show one sample from its row to its score.",
        look.audit_command: "Show how much of a number depends on format, position and chance.",
        look.compare_command: "Compare runs sample by sample.",
        look.power_command: "Plan a comparison: how many samples a difference needs.",
        look.report_command: "Write runs as one self-contained HTML file.",
        look.view_command: "Show the runs of a folder in a local web page.",
        look.runs_command: "List the runs of a folder.",
        look.export_command: "Write the per-sample rows of a run as JSONL, CSV or Parquet.",
    },
    "Start": {
        start.tasks_command: "List the ready-made tasks, or show one.",
        start.import_command: "Turn another tool's log into a project that can be scored.",
        start.demo_command: "Run the built-in example from end to end, offline.",
        start.init_command: "Create a working project to start from.",
        start.schema_command: "Print the JSON Schema of a file kind, for editors.",
        start.cache_command: "Show what is kept of earlier calls and datasets, or clear it.",
    },
}
#: Python looks for garbage after so many new objects. Libraries make many while they load, and keep
#: them.
GARBAGE_THRESHOLD = 200_000


def command_names() -> list[str]:
    """Return the commands there are, in the order of `--help`."""
    return list(app.commands)


class App(click.Group):
    """The commands in their groups."""

    def make_context(self, *words: Any, **settings: Any) -> click.Context:  # noqa: ANN401 - click's
        """Read the arguments or print help.

        A reader that has gone is no failure (click would exit 1).
        """
        with surviving_lost_reader(sys.stdout):
            return super().make_context(*words, **settings)
        raise click.exceptions.Exit(0)

    def invoke(self, ctx: click.Context) -> object:
        """Carry out the command.

        A reader of its data that has gone is no failure (click would exit 1).
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            leave_stream(sys.stdout)
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """Write the commands in their groups."""
        for title, group in COMMANDS.items():
            with formatter.section(title):
                rows = [(str(command.name), summary) for command, summary in group.items()]
                formatter.write_dl(rows)


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: answerkey demo\n\nHelp for one command: answerkey run --help",
)
@click.version_option(__version__, prog_name="answerkey", message="%(prog)s %(version)s")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show more, and the traceback of an internal error."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only data and errors.")
@click.pass_context
def app(context: click.Context, *, verbose: bool, quiet: bool) -> None:
    """Multiple-choice evaluation of language models with numbers that stand up."""
    context.obj = {"verbose": verbose, "quiet": quiet}


for commands in COMMANDS.values():
    for command, summary in commands.items():
        command.short_help = summary
        app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line, by default that of the process, and return the exit code."""
    if arguments is not None:
        return _call(list(arguments), is_last=False)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end
    gc.set_threshold(GARBAGE_THRESHOLD)
    # To find plugins, pydantic reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = _call(sys.argv[1:], is_last=True)
    gc.freeze()  # the system takes all memory back: nothing is searched once more at the end
    return code


def _call(words: list[str], *, is_last: bool) -> int:
    return catch_faults(
        lambda: app.main(words, prog_name="answerkey", standalone_mode=False),
        words,
        is_last=is_last,
    )
