"""Runs read back from shared storage: numbers now, tables when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from answerkey.datasets.storage import StoredObject, find_object, list_objects
from answerkey.errors import RunError
from answerkey.runs.files import MAX_JSON_BYTES, parse_json
from answerkey.runs.places import StoredFolder, reaching_storage
from answerkey.runs.reading import (
    AGREEMENT,
    REPEATABILITY,
    Run,
    TaskRun,
    build_numbers,
    check_manifest,
    gather_tasks,
    refuse_no_run,
)
from answerkey.runs.stored_parts import TOGETHER, StoredParts, read_stored_frame

_METRICS = re.compile(r"(tasks/[^/]+(?:/repetitions/\d+)?)/metrics\.json")
_NUMBERS = re.compile(r"tasks/([^/]+)/(?:task|metrics|repeatability|repetitions/\d+/metrics)\.json")


def load_stored_run(place: StoredFolder) -> Run:
    """Return the run under an address; E501 when there is none, E509 when that cannot be known."""
    return put_stored_together(place, read_stored_manifest(place))


def read_stored_manifest(place: StoredFolder) -> dict[str, Any]:
    """Return `run.json` of a run under an address."""
    with reaching_storage():
        found = find_object(f"{place.url}/run.json")
        if found is None:
            raise refuse_no_run(place)
        return check_manifest(place, read_stored_json(found))


def put_stored_together(place: StoredFolder, manifest: Mapping[str, Any]) -> Run:
    """Return the run under an address as a manifest describes it, which may not be written yet."""
    with reaching_storage():
        there = {one.url[len(place.url) + 1 :]: one for one in list_objects(f"{place.url}/tasks")}
        keys = _list_keys(manifest.get("tasks"))
        wanted = [name for name in there if (hit := _NUMBERS.fullmatch(name)) and hit[1] in keys]
        with ThreadPoolExecutor(TOGETHER) as pool:
            read = dict(
                zip(wanted, pool.map(lambda name: read_stored_json(there[name]), wanted), strict=True)
            )
        return gather_tasks(place, manifest, partial(_load_task_run, place, there, read))


def _list_keys(stated: object) -> set[str]:
    """Return the keys of the tasks that a manifest names, whoever wrote it."""
    entries = [one for one in stated if isinstance(one, dict)] if isinstance(stated, list) else []
    return {one["key"] for one in entries if isinstance(one.get("key"), str)}


def _load_task_run(
    place: StoredFolder,
    there: Mapping[str, StoredObject],
    read: Mapping[str, dict[str, Any]],
    entry: Mapping[str, Any],
) -> TaskRun | None:
    """Return a task with its repetitions, as far as they are finished; None when it is not."""
    base = f"tasks/{entry['key']}"
    if f"{base}/metrics.json" not in read:
        return None
    found = _build(place, base, entry, read[f"{base}/task.json"], read)
    folders = [hit[1] for name in read if (hit := _METRICS.fullmatch(name))]
    again = sorted(
        (one for one in folders if one.startswith(f"{base}/repetitions/")),
        key=lambda one: int(one.rpartition("/")[2]),
    )
    if not again:
        return found
    return replace(
        found,
        repetitions=tuple(_build(place, one, entry, found.source, read) for one in again),
        repeatability=read.get(f"{base}/{REPEATABILITY}"),
        read_agreement=partial(read_stored_frame, there[f"{base}/{AGREEMENT}"]),
    )


def _build(
    place: StoredFolder,
    base: str,
    entry: Mapping[str, Any],
    source: Mapping[str, Any],
    read: Mapping[str, dict[str, Any]],
) -> TaskRun:
    url = f"{place.url}/{base}"
    return build_numbers(
        entry,
        source,
        read[f"{base}/metrics.json"],
        StoredParts(f"{url}/scores"),
        StoredParts(f"{url}/completions"),
    )


def read_stored_json(stored: StoredObject) -> dict[str, Any]:
    """Return a JSON object of a run; E503 when it is damaged or none of ours."""
    if stored.size > MAX_JSON_BYTES:
        message = f"cannot read `{stored.url}`: it is larger than {MAX_JSON_BYTES // 1_000_000} MB"
        raise RunError("E503", message, hint="the run folder is damaged")
    return parse_json(stored.url, stored.read(0, stored.size) if stored.size else b"")


def list_stored_runs(url: str) -> list[StoredFolder]:
    """Return the runs right below an address."""
    with reaching_storage():
        found = [one.url[len(url) + 1 :] for one in list_objects(url)]
    names = sorted({name.partition("/")[0] for name in found if re.fullmatch(r"[^/]+/run\.json", name)})
    return [StoredFolder(f"{url}/{name}") for name in names]
