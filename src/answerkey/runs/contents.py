"""The files of a run as `run.json` lists them: one that is missing, has changed or came later is named.

The list is written when a run ends, complete or not. A run that is under way, or was killed, has none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from answerkey.errors import RunError
from answerkey.runs.files import count_rows, digest_file, refuse_changed, require_plain

#: `bytes` and `sha256` of each file by its path below the run folder; `rows` of a table, `tag` of an object.
Listed = Mapping[str, Mapping[str, Any]]
_FILE = re.compile(
    r"(tasks/[^/]+(?:/repetitions/\d+)?)/"
    r"(?:(?:task|metrics|repeatability)\.json|agreement\.parquet|(?:scores|completions)/part-[^/]+\.parquet)"
)


def choose_files(names: Collection[str]) -> list[str]:
    """Return those of these files that belong in the list, in order.

    A worker may still be writing parts of what has no numbers yet, and nothing reads them.
    """
    found = {name: hit[1] for name in names if (hit := _FILE.fullmatch(name))}
    return sorted(
        name
        for name, folder in found.items()
        if name.endswith("/task.json") or f"{folder}/metrics.json" in found
    )


def measure_files(folder: Path) -> dict[str, int]:
    """Return the sizes of what lies below `tasks` in a run folder; E503 for what is no plain file."""
    sizes: dict[str, int] = {}
    for where, _, names in os.walk(folder / "tasks"):
        for path in (Path(where, name) for name in names):
            name = path.relative_to(folder).as_posix()
            if _FILE.fullmatch(name):
                require_plain(path)
                sizes[name] = path.stat().st_size
    return sizes


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the list of a run folder, from the bytes on disk."""
    found: dict[str, dict[str, Any]] = {}
    for name in choose_files(sizes := measure_files(folder)):
        path = folder / name
        rows = {"rows": count_rows(path)} if name.endswith(".parquet") else {}
        found[name] = {**rows, "bytes": sizes[name], "sha256": digest_file(path)}
    return found


def require_listed(place: object, listed: Listed, sizes: Mapping[str, int]) -> None:
    """Raise E503 unless the files that are there, with their sizes, are those of the list."""
    if missing := sorted(listed.keys() - sizes.keys()):
        message = f"`{place}/{missing[0]}` is missing: `run.json` lists it{_count_all(missing)}"
        raise RunError("E503", message, hint="copy the run folder again from where it is whole, or run again")
    if surplus := [name for name in choose_files(sizes) if name not in listed]:
        message = (
            f"`{place}/{surplus[0]}` is not of this run: `run.json` does not list it{_count_all(surplus)}"
        )
        raise RunError("E503", message, hint="remove what was put into the run folder")
    for name, told in listed.items():
        if sizes[name] != told["bytes"]:
            why = f"it has {sizes[name]:,} bytes, `run.json` says {told['bytes']:,}"
            raise refuse_changed(f"{place}/{name}", why)


def _count_all(names: Collection[str]) -> str:
    return f" ({len(names)} such files in all)" if len(names) > 1 else ""


def pick_table(listed: Listed | None, base: str) -> Listed | None:
    """Return what the list says of the parts of one table, by their names; None without a list."""
    if listed is None:
        return None
    start = f"{base}/"
    return {name[len(start) :]: told for name, told in listed.items() if name.startswith(start)}


def find_digest(listed: Listed | None, name: str) -> str | None:
    """Return the SHA-256 of a file by the list; None without one."""
    return None if listed is None or name not in listed else str(listed[name]["sha256"])
