"""Commands; the only package that prints and exits.

`main` finds the command, runs it, and turns whatever happens into text on stderr and an exit code
(`exits`). Each command reads its options, calls a function, and prints what the reports drew
(`console`). Modules of commands, and the heavy libraries they need, are imported when a command is
called, so that `--help` is fast.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from answerkey._version import __version__
from answerkey.cli.console import leave_stream, surviving_lost_reader
from answerkey.cli.exits import catch_faults
from answerkey.errors import SpecError, suggest

#: Command name → module of this package, what it does in one line; in the order and groups of
#: `--help`.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Evaluate": {
        "run": ("run", "Call a model, score its replies, write the run and print its summary."),
        "score": ("run", "Score recorded completions; no model is called."),
        "resume": ("run", "Continue an interrupted run where it stopped."),
        "rescore": ("run", "Score an old run's completions again, as a new run."),
        "export-prompts": ("run", "Write the prompts with their ids, for offline batch engines."),
        "check": ("run", "Find every mistake that can be found without a model."),
        "doctor": ("run", "Call a model a dozen times: will its numbers be worth their money?"),
        "audit-dataset": (
            "look",
            "Find problems in the questions: duplicates, wrong truths, skew.",
        ),
    },
    "Look at runs": {
        "show": ("look", "Print the summary of a run."),
        "explain": ("look", "Show one sample from its row to its score."),
        "audit": ("look", "Show how much of a number depends on format, position and chance."),
        "compare": ("look", "Compare runs sample by sample."),
        "power": ("look", "Plan a comparison: how many samples a difference needs."),
        "report": ("look", "Write runs as one self-contained HTML file."),
        "view": ("look", "Show the runs of a folder in a local web page."),
        "runs": ("look", "List the runs of a folder."),
        "export": ("look", "Write the per-sample rows of a run as JSONL, CSV or Parquet."),
    },
    "Start": {
        "tasks": ("start", "List the ready-made tasks, or show one."),
        "import": ("start", "Turn another tool's log into a project that can be scored."),
        "demo": ("start", "Run the built-in example from end to end, offline."),
        "init": ("start", "Create a working project to start from."),
        "schema": ("start", "Print the JSON Schema of a file kind, for editors."),
        "cache": ("start", "Show what is kept of earlier calls and datasets, or clear it."),
    },
}


#: Python looks for garbage after so many new objects. Libraries make many while they load, and keep
#: them.
GARBAGE_THRESHOLD = 200_000
_BY_NAME = {name: about for group in COMMANDS.values() for name, about in group.items()}


def command_names() -> list[str]:
    """Return the commands there are, in the order of `--help`."""
    return list(_BY_NAME)


class App(click.Group):
    """A group that knows its commands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of the commands there are."""
        return command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  same
        """Return a command, imported now; None for a name that there is not."""
        if cmd_name not in _BY_NAME:
            return None
        module, summary = _BY_NAME[cmd_name]
        found = import_module(f"{__name__}.{module}")
        command: click.Command = getattr(found, f"{cmd_name.replace('-', '_')}_command")
        command.short_help = summary
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, or say which one is near."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = suggest(name, command_names()) or f"commands: {', '.join(command_names())}"
            raise SpecError("E119", f"there is no command `{name}`", hint=near)
        return super().resolve_command(ctx, args)

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  same
        """Write the commands in their groups."""
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in group.items()])


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return the exit code."""
    words, is_last = list(sys.argv[1:] if arguments is None else arguments), arguments is None
    if is_last:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by the caller
                setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end
        gc.set_threshold(GARBAGE_THRESHOLD)
        # To find plugins, pydantic reads the metadata of every package that is installed.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = catch_faults(
        lambda: app.main(words, prog_name="answerkey", standalone_mode=False),
        words,
        is_last=is_last,
    )
    if is_last:
        gc.freeze()  # the system takes all memory back: nothing is searched once more at the end
    return code
