"""How to begin: `demo`, `init`, `schema`, `tasks`, `import` of another tool's log.

And the caches.
"""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click

from answerkey.cli.console import Console, write_json
from answerkey.cli.options import (
    COLUMN,
    KINDS,
    SCORE,
    SINGLE_ANSWERS,
    TASK,
    Kind,
    command,
    flag,
    option,
    write_files,
    write_size,
)
from answerkey.errors import SpecError


def copy_project(folder: Path, *, with_schemas: bool = False) -> list[Path]:
    """Copy the built-in project into a folder and return its files.

    E119 when one is there already.
    """
    from importlib.resources import as_file, files

    texts = {}
    with as_file(files("answerkey.spec") / "quickstart") as source:
        for path in sorted(source.rglob("*")):
            if path.is_file() and path.suffix not in {".py", ".pyc"}:
                texts[path.relative_to(source).as_posix()] = path.read_text(encoding="utf-8")
    return write_files(folder, texts, with_schemas=with_schemas)


@command(
    "init",
    "init my-project && answerkey run my-project",
    "init my-project --dataset questions.jsonl",
    "init my-mmlu --task mmlu --dataset data/mmlu/test",
)
@click.argument("folder", metavar="[DIR]", default=".")
@option(
    "--task",
    "NAME",
    "Start from a ready-made task (`answerkey tasks`) instead of the example.",
)
@option(
    "--dataset",
    "FILE",
    "Data file to create the project for; with `--task`, raw files of that task.",
)
@COLUMN
def init_command(
    console: Console,
    folder: str,
    *,
    task: str | None,
    dataset: str | None,
    columns: dict[str, str],
) -> None:
    """Create a working project in DIR (default: the current folder); nothing is overwritten.

    The first line of each file tells editors its JSON Schema.
    """
    if task is None and dataset is not None:
        from answerkey.spec import Options, is_data_file
        from answerkey.spec.data_file import describe_file, write_project

        if not is_data_file(dataset):
            message = f"`--dataset {dataset}` is no data file"
            raise SpecError(
                "E119", message, hint="name one, or add `--task NAME` of a ready-made task"
            )
        options = Options(columns=columns)
        console.say_text(describe_file(dataset, options))
        written = write_files(Path(folder), write_project(dataset, options, Path(folder)))
    elif task is None:
        written = copy_project(Path(folder), with_schemas=True)
    else:
        from answerkey.spec import ready_made

        ready = ready_made.load_ready_made(_find_key(task))
        written = write_files(Path(folder), ready_made.write_project(ready, dataset))
    names = [str(path) for path in written]
    console.show(lambda: {"folder": folder, "files": names}, lambda: names)
    if not console.as_json:
        console.say_text(f"next: answerkey run {shlex.quote(folder)}")


@command("schema", "schema task > task.schema.json")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
def schema_command(_console: Console, kind: Kind) -> None:
    """Print the JSON Schema of a file kind: task, run, dataset or model."""
    from answerkey.spec.schema import schema

    write_json(schema(kind))


@command("cache", "cache", "cache --clear")
@flag("--clear", "Delete what the caches hold.")
def cache_command(console: Console, *, clear: bool) -> None:
    """Show the place and the sizes of the caches; with `--clear`, delete what they hold.

    Links are not followed, and journals of unfinished runs are kept.
    """
    from answerkey.models.cache import clear_cache, default_cache_file, list_caches
    from answerkey.text import draw_table

    caches = list_caches()
    if clear:
        caches = [cache for cache in caches if cache.is_clearable and (cache.entries or cache.size)]
        for cache in caches:
            clear_cache(cache)
    described = []
    rows = []
    for cache in caches:
        about = {
            "name": cache.name,
            "path": str(cache.path),
            "bytes": cache.size,
        }
        described.append({**about, "entries": cache.entries})
        rows.append((cache.name, f"{cache.entries:,}", write_size(cache.size), cache.holds))
    total = sum(cache.size for cache in caches)
    folder = str(default_cache_file().parent)
    header = ("cache", "entries", "size", "holds")
    did = f"{'deleted ' if clear else ''}{write_size(total)} in {folder}"
    console.show(
        lambda: {
            "folder": folder,
            "caches": described,
            "bytes": total,
            "deleted": clear,
        },
        lambda: [*draw_table(header, rows, "<>><", console.width), did] if rows else [did],
    )


@command("demo", "demo --dir /tmp/answerkey-demo")
@option("--dir", "DIR", "Folder for the example project.", "folder", default="answerkey-demo")
def demo_command(console: Console, folder: str) -> int:
    """Run the built-in example from end to end, offline: create the project, run it, print the
    summary.

    A folder that already holds the project is used unchanged.
    """
    from answerkey.cli.run import finish
    from answerkey.evaluate.run import run_matrix

    project = Path(folder)
    if (project / "run.yaml").is_file():
        console.say_text(f"using the project in {project}")
    else:
        console.say_text(f"example project: {len(copy_project(project))} files in {project}")
    number = 1
    while (out := project / "runs" / f"demo-{number}").exists():
        number += 1
    with console.display() as display:
        made = run_matrix(project, out=out, display=display)
    return finish(console, made)


@command(
    "tasks",
    "tasks",
    "tasks show mmlu",
    "run mmlu --dataset data/mmlu/test --model builtin/random",
)
@click.argument("words", metavar="[show NAME]", nargs=-1)
def tasks_command(console: Console, words: tuple[str, ...]) -> None:
    """List the ready-made tasks, or show NAME: its data, its licence, and how to run it.

    Use a ready-made task wherever a task file may stand: `answerkey run NAME`.
    """
    from answerkey.reports.preview import describe_ready_made, draw_ready_made, draw_ready_made_task
    from answerkey.spec.ready_made import list_ready_made, load_ready_made

    names = [word for word in words if word != "show"]
    tasks = [load_ready_made(_find_key(name)) for name in names or list_ready_made()]
    if len(names) == 1:
        draw = partial(draw_ready_made_task, tasks[0])
    else:
        draw = partial(draw_ready_made, tasks)
    console.show(lambda: describe_ready_made(tasks), lambda: draw(console.width))
    if not names and not console.as_json:
        console.say_text("next: answerkey tasks show NAME")


def _find_key(name: str) -> str:
    return name.lower().replace("-", "_")


@command(
    "import",
    "import auto logs/2026-01-31_mmlu.eval --out mmlu && answerkey run mmlu",
    "import lm-eval results/my-model",
    "import openai-batch output.jsonl --dataset questions.jsonl",
)
@click.argument("kind", metavar="KIND")
@click.argument("path", metavar="PATH")
@option("-o", "DIR", "Folder to write, new or empty; default `imported/<name>`.", "--out")
@TASK
@SCORE
@option(
    "--dataset",
    "FILE",
    "File with the questions of a batch output.",
    type=click.Path(path_type=Path),
)
@COLUMN
@option("--allow-failed", "N|N%", "Leave out up to N (or N %) broken lines.")
@SINGLE_ANSWERS
def import_command(
    console: Console,
    kind: str,
    path: str,
    **options: Any,  # noqa: ANN401 - those that are named as in `import_log`
) -> None:
    """Turn another tool's log at PATH into a project: dataset, completions, task and run file.

    KIND is `auto`, `inspect`, `lm-eval`, `mmlu-pro`, `openai-batch`, `anthropic-batch`, `helm`,
    `lighteval`, `evalscope`, `opencompass`, `promptfoo`, `every_eval_ever`, `evidence` or `plain`.
    The summary of a run compares the tool's own verdicts with ours.
    """
    from answerkey.importers import import_log
    from answerkey.reports.preview import draw_import

    with console.display() as display:
        project = import_log(kind, path, progress=display.report, **options)
    folder = shlex.quote(str(project.folder))
    completions = f"{folder}/{project.tasks[0].key}/completions.jsonl"
    commands = [f"answerkey score TASK --dataset FILE --completions {completions}"]
    if project.has_questions:
        commands = [f"answerkey run {folder}", "answerkey audit latest"]
    console.show(
        lambda: project.describe() | {"next": commands},
        lambda: draw_import(project, console.width),
        project.notices,
    )
    if not console.as_json:
        for next_command in commands:
            console.say_text(f"next: {next_command}")
