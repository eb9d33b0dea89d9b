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
from answerkey.runs.contents import Listed, choose_files, find_digest, pick_table
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
    require_run,
)
from answerkey.runs.stored_parts import (
    TOGETHER,
    StoredParts,
    count_stored_rows,
    read_stored_frame,
    require_same,
)

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
        there = _list_files(place)
        listed = require_run(place, manifest, {name: one.size for name, one in there.items()})
        keys = {entry["key"] for entry in manifest.get("tasks", [])}
        wanted = [name for name in there if (hit := _NUMBERS.fullmatch(name)) and hit[1] in keys]
        with ThreadPoolExecutor(TOGETHER) as pool:
            texts = pool.map(lambda name: read_stored_json(there[name], find_digest(listed, name)), wanted)
            read = dict(zip(wanted, texts, strict=True))
            copies = _find_other_tags(there, listed or {})
            list(pool.map(require_same, copies.keys(), copies.values()))
        return gather_tasks(place, manifest, partial(_load_task_run, place, there, listed, read))


def _list_files(place: StoredFolder) -> dict[str, StoredObject]:
    return {one.url[len(place.url) + 1 :]: one for one in list_objects(f"{place.url}/tasks")}


def _find_other_tags(there: Mapping[str, StoredObject], listed: Listed) -> dict[StoredObject, str]:
    """Return the tables whose tag is another, with their SHA-256: they have changed, or the run is a copy.

    Parts of which the list knows no tag are hashed when they are read.
    """
    return {
        there[name]: str(told["sha256"])
        for name, told in listed.items()
        if name.endswith(".parquet")
        and told.get("tag") != _read_tag(there[name])
        and ("tag" in told or name.endswith(f"/{AGREEMENT}"))
    }


def _read_tag(stored: StoredObject) -> str:
    return stored.mark.strip('"')


def describe_objects(place: StoredFolder) -> dict[str, dict[str, Any]]:
    """Return the list of the objects of a run for its `run.json`, from what the store has."""
    with reaching_storage():
        there = _list_files(place)
        names = choose_files(there)
        with ThreadPoolExecutor(TOGETHER) as pool:
            return dict(zip(names, pool.map(_describe, [there[name] for name in names]), strict=True))


def _describe(stored: StoredObject) -> dict[str, Any]:
    rows = {"rows": count_stored_rows(stored)} if stored.name.endswith(".parquet") else {}
    return {**rows, "bytes": stored.size, "sha256": stored.digest(), "tag": _read_tag(stored)}


def _load_task_run(
    place: StoredFolder,
    there: Mapping[str, StoredObject],
    listed: Listed | None,
    read: Mapping[str, dict[str, Any]],
    entry: Mapping[str, Any],
) -> TaskRun | None:
    """Return a task with its repetitions, as far as they are finished; None when it is not."""
    base = f"tasks/{entry['key']}"
    if f"{base}/metrics.json" not in read:
        return None
    build = partial(_build, place, there, listed, read, entry)
    found = build(base, read[f"{base}/task.json"])
    folders = [hit[1] for name in read if (hit := _METRICS.fullmatch(name))]
    again = sorted(
        (one for one in folders if one.startswith(f"{base}/repetitions/")),
        key=lambda one: int(one.rpartition("/")[2]),
    )
    if not again:
        return found
    return replace(
        found,
        repetitions=tuple(build(one, found.source) for one in again),
        repeatability=read.get(f"{base}/{REPEATABILITY}"),
        read_agreement=partial(read_stored_frame, there[f"{base}/{AGREEMENT}"]),
    )


def _build(
    place: StoredFolder,
    there: Mapping[str, StoredObject],
    listed: Listed | None,
    read: Mapping[str, dict[str, Any]],
    entry: Mapping[str, Any],
    base: str,
    source: Mapping[str, Any],
) -> TaskRun:
    tables = [_open_table(place, there, listed, f"{base}/{table}") for table in ("scores", "completions")]
    return build_numbers(entry, source, read[f"{base}/metrics.json"], *tables)


def _open_table(
    place: StoredFolder, there: Mapping[str, StoredObject], listed: Listed | None, base: str
) -> StoredParts:
    """Return a table; parts of which the list knows no tag, as they were put there by hand, are hashed."""
    table = pick_table(listed, base)
    if table is None:
        return StoredParts(f"{place.url}/{base}")
    found = tuple(there[f"{base}/{name}"] for name in sorted(table))
    digests = {name: str(told["sha256"]) for name, told in table.items() if "tag" not in told}
    return StoredParts(f"{place.url}/{base}", found, digests)


def read_stored_json(stored: StoredObject, digest: str | None = None) -> dict[str, Any]:
    """Return a JSON object of a run; E503 when it is damaged or none of ours."""
    if stored.size > MAX_JSON_BYTES:
        message = f"cannot read `{stored.url}`: it is larger than {MAX_JSON_BYTES // 1_000_000} MB"
        raise RunError("E503", message, hint="the run folder is damaged")
    return parse_json(stored.url, stored.read(0, stored.size) if stored.size else b"", digest)


def list_stored_runs(url: str) -> list[StoredFolder]:
    """Return the runs right below an address."""
    with reaching_storage():
        found = [one.url[len(url) + 1 :] for one in list_objects(url)]
    names = sorted({name.partition("/")[0] for name in found if re.fullmatch(r"[^/]+/run\.json", name)})
    return [StoredFolder(f"{url}/{name}") for name in names]
