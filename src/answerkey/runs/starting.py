"""Runs begun, and taken up again, wherever they are to be."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from answerkey.datasets.storage import list_objects
from answerkey.errors import RunError
from answerkey.runs.journal import remove_journal
from answerkey.runs.places import RunPlace, StoredFolder, reaching_storage
from answerkey.runs.stored_journal import remove_copy
from answerkey.runs.stored_run import StoredRun, require_new
from answerkey.runs.writing import FolderRun


def require_free(place: RunPlace) -> None:
    """Raise what would keep a run from being started on shared storage, before any work is done for it."""
    if isinstance(place, StoredFolder):
        require_new(place)


def start_run(
    place: RunPlace, manifest: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]
) -> FolderRun:
    """Start a run in a folder, or on shared storage; E502 when something is there already."""
    if isinstance(place, StoredFolder):
        return StoredRun.start(place, manifest, tasks)
    return FolderRun.create(place, manifest, tasks)


def take_up_run(place: RunPlace) -> FolderRun:
    """Open a run that stopped; E506 while another process works on it."""
    if isinstance(place, StoredFolder):
        return StoredRun.take_up(place)
    return FolderRun.reopen(place)


def has_only_begun(place: RunPlace) -> bool:
    """Return whether a run stopped before its `run.json` was written."""
    if isinstance(place, StoredFolder):
        with reaching_storage():
            names = [one.url[len(place.url) + 1 :] for one in list_objects(place.url)]
        return "run.json" not in names and any(name.startswith("tasks/") for name in names)
    return (place / "tasks").is_dir() and not (place / "run.json").exists()


def forget_journal(place: RunPlace) -> None:
    """Delete what is left of the journal of a complete run, as far as that can be done."""
    with suppress(OSError, RunError):
        remove_copy(place) if isinstance(place, StoredFolder) else remove_journal(place)
