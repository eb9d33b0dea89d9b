"""`demo`, `init` and `schema`: how to begin."""

from __future__ import annotations

import shlex
from itertools import count
from pathlib import Path
from typing import Literal

import click

from answerkey.cli.options import speaks
from answerkey.cli.talk import Talk
from answerkey.errors import SpecError

KINDS = ("task", "run", "dataset", "model")


def copy_project(folder: Path) -> list[Path]:
    """Copy the built-in project into a folder and return its files; E119 when one is there already."""
    from importlib.resources import as_file, files

    with as_file(files("answerkey.spec") / "quickstart") as source:
        names = sorted(path.relative_to(source) for path in source.rglob("*") if _belongs(path))
        taken = [name for name in names if (folder / name).exists()]
        if taken or (folder.exists() and not folder.is_dir()):
            what = folder / taken[0] if taken else folder
            raise SpecError(
                "E119", f"`{what}` is there already; nothing was written", hint="choose a new or empty folder"
            )
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((source / name).read_bytes())
    return [folder / name for name in names]


def _belongs(path: Path) -> bool:
    return path.is_file() and path.suffix not in {".py", ".pyc"}


@click.command("init", epilog="Example: answerkey init my-project && answerkey run my-project")
@click.argument("folder", metavar="[DIR]", default=".")
@speaks
def init_command(talk: Talk, folder: str) -> int:
    """Make a working project in DIR (the current folder unless given); nothing is overwritten."""
    written = copy_project(Path(folder))
    if talk.as_json:
        talk.print_json({"folder": folder, "files": [str(path) for path in written]})
        return 0
    for path in written:
        click.echo(path)
    talk.say_text(f"next: answerkey run {shlex.quote(folder)}")
    return 0


@click.command("schema", epilog="Example: answerkey schema task > task.schema.json")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@speaks
def schema_command(talk: Talk, kind: Literal["task", "run", "dataset", "model"]) -> int:
    """Print the JSON Schema of a file kind: task, run, dataset or model."""
    from answerkey.spec import schema

    talk.print_json(schema(kind))
    return 0


@click.command("demo", epilog="Example: answerkey demo --dir /tmp/answerkey-demo")
@click.option(
    "--dir", "folder", default="answerkey-demo", metavar="DIR", help="Folder for the example project."
)
@speaks
def demo_command(talk: Talk, folder: str) -> int:
    """Run the built-in example from end to end, offline: make the project, run it, print the summary.

    A folder that holds the project already is used as it is.
    """
    from answerkey.cli.run import finish, run_file

    project = Path(folder)
    if (project / "run.yaml").is_file():
        talk.say_text(f"using the project in {project}")
    else:
        talk.say_text(f"example project: {len(copy_project(project))} files in {project}")
    run = run_file(talk, project, out=_new_folder(project / "runs"), options={})
    steps = [(f"answerkey run {shlex.quote(folder)} --model builtin/longest", "another model")]
    return finish(talk, [run], steps)


def _new_folder(runs: Path) -> Path:
    return next(path for number in count(1) if not (path := runs / f"demo-{number}").exists())
