"""What the shell offers when a command line is completed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

#: Written out: importing the models takes longer than anybody waits for a completion.
BUILTIN = ("constant", "random", "longest", "overlap", "simulated")
PROVIDERS = ("openai", "anthropic", "gemini", "together", "fireworks", "sambanova", "novita", "azure")


def complete_ready_made(
    context: click.Context,  # noqa: ARG001 - click's signature
    parameter: click.Parameter,  # noqa: ARG001 - same
    incomplete: str,
) -> list[CompletionItem]:
    """Return the ready-made tasks whose names begin so."""
    return _begin(incomplete, _list_ready_made())


def complete_task(
    context: click.Context,  # noqa: ARG001 - click's signature
    parameter: click.Parameter,  # noqa: ARG001 - same
    incomplete: str,
) -> list[CompletionItem]:
    """Return what a task may be given as: files, folders, and the ready-made tasks."""
    files = CompletionItem(incomplete, type="file")
    return [*_begin(incomplete, _list_ready_made()), files]


def complete_model(
    context: click.Context,  # noqa: ARG001 - click's signature
    parameter: click.Parameter,  # noqa: ARG001 - same
    incomplete: str,
) -> list[CompletionItem]:
    """Return the built-in models and the providers whose names begin so."""
    return _begin(incomplete, [*(f"builtin/{name}" for name in BUILTIN), *(f"{one}/" for one in PROVIDERS)])


def complete_run(
    context: click.Context,  # noqa: ARG001 - click's signature
    parameter: click.Parameter,  # noqa: ARG001 - same
    incomplete: str,
) -> list[CompletionItem]:
    """Return the runs below `runs`, and folders."""
    runs = Path("runs")
    names = sorted(path.parent.name for path in runs.glob("*/run.json")) if runs.is_dir() else []
    known = ["latest", *names] if names else []
    return [*_begin(incomplete, known), CompletionItem(incomplete, type="dir")]


def _begin(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _list_ready_made() -> list[str]:
    """Return the names of the ready-made tasks, without reading any of their files."""
    # `importlib.resources` would import the room `spec`, and completing a line would take a second.
    folder = Path(__file__).resolve().parents[1] / "spec" / "benchmarks"
    return sorted(path.stem for path in folder.glob("*.yaml"))
