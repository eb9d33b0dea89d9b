"""Runs by where they are: a folder of this machine, or an address on shared storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from answerkey.datasets.storage import find_object
from answerkey.errors import RunError
from answerkey.runs.places import RunPlace, StoredFolder, find_place, reaching_storage
from answerkey.runs.reading import Run, load_folder_run, read_manifest
from answerkey.runs.stored_reading import list_stored_runs, load_stored_run, read_stored_manifest


def load_run(path: str | Path | StoredFolder) -> Run:
    """Return the run in a folder; a run that is still being written shows the tasks finished so far.

    The folder may be on shared storage: `s3://bucket/runs/name`.
    """
    place = find_place(path)
    return load_stored_run(place) if isinstance(place, StoredFolder) else load_folder_run(place)


def load_manifest(place: RunPlace) -> dict[str, Any]:
    """Return `run.json`; E501 when there is none, E503 when it cannot be understood."""
    return read_stored_manifest(place) if isinstance(place, StoredFolder) else read_manifest(place)


def list_runs(folder: str | Path) -> list[Run]:
    """Return the runs right below a folder, newest first; folders that hold no run are passed over."""
    runs = [load_run(place) for place in list_places(folder)]
    return sorted(runs, key=lambda run: (str(run.manifest.get("started_at")), str(run.path)), reverse=True)


def is_run(place: RunPlace) -> bool:
    """Return whether there is a run, and not only a folder of runs."""
    if isinstance(place, StoredFolder):
        with reaching_storage():
            return find_object(f"{place.url}/run.json") is not None
    return (place / "run.json").is_file()


def list_places(folder: str | RunPlace) -> list[RunPlace]:
    """Return where the runs right below a folder are; E501 when it is none."""
    below = find_place(folder)
    if isinstance(below, StoredFolder):
        return [*list_stored_runs(below.url)]
    if not below.is_dir():
        raise RunError("E501", f"`{below}` is not a folder", hint="name the folder that holds your runs")
    return [path.parent for path in below.glob("*/run.json")]
