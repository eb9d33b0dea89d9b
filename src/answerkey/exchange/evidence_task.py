"""The task that an evidence log states, as the task of a project, and the rows as it names their columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get
from answerkey.exchange.projects import DATASET_KEY, RUN, SCHEMAS, TASK, make_plain, name_key
from answerkey.exchange.settling import DATASET
from answerkey.models.responses import mend_text
from answerkey.spec import task_from_source

ROWS = "dataset.jsonl"
#: What is asked and how is over: the replies are there. Orders of options are rows by now.
_LEFT_OUT = frozenset({"solver", "choice_order", "dataset"})
_BLOCK = 8_192
_WORDS = frozenset({"null", "true", "false", "yes", "off"})
#: `$NAME` as a whole value, and `<< config.x >>` anywhere.
_LOOKED_UP = re.compile(r"\A\$\S*\Z|<<\s*(config|secrets)\s*\.")
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,250}")
_KEEP = ("description", "long_description", "tags", "tasks")
#: Characters that JSON leaves as they are and YAML does not read back.
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def find_definition(specification: object) -> Mapping[str, object] | None:
    """Return the definition of the task that a log states; None when it states none.

    AnswerkeyError or DamagedError for one that is no task, or has more in it than a task: a reference, or a
    value of the environment.
    """
    holder = get(specification, "task") or specification
    definition = get(holder, "definition")
    if not isinstance(definition, dict) or not definition.get("scorers"):
        return None
    try:
        _refuse_references(definition)
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    task_from_source(
        {"key": "stated", "display_name": "", "description": "", "definition": _trim(definition)}
    )
    return definition


def _trim(definition: Mapping[str, object]) -> dict[str, object]:
    """Return what is needed to score: scorers, trials, actions, and how metrics group."""
    kept = {name: value for name, value in definition.items() if name not in _LEFT_OUT}
    return {**kept, "dataset": {"key": DATASET_KEY}}


def _refuse_references(value: object) -> None:
    """Raise DamagedError for what a task file would look up elsewhere."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if str(key).startswith("$"):
                raise DamagedError(f"it has a reference `{key}`")
            _refuse_references(inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_references(inner)
    elif isinstance(value, str) and _LOOKED_UP.search(value):
        raise DamagedError(f"it has a value that is looked up elsewhere: `{value[:60]}`")


def _is_plain(value: object) -> bool:
    """Return whether a part of a task is text, or a list of texts, that says nothing but itself."""
    texts = value if isinstance(value, list) else [value]
    return all(isinstance(one, str) and not _LOOKED_UP.search(one) for one in texts)


def restore_task(
    folder: Path, task: Mapping[str, object], definition: Mapping[str, object], *, name: str
) -> None:
    """Write the task and the rows of a log into its project."""
    written, stated = name_key(name), str(task.get("key") or "")
    key = stated if _KEY.fullmatch(stated) else written
    fields: dict[str, object] = {"key": key, "display_name": make_plain(name)}
    fields |= {one: task[one] for one in _KEEP if task.get(one) is not None and _is_plain(task[one])}
    fields.setdefault("description", f"Imported from the evidence log of {make_plain(name)}.")
    fields["definition"] = _trim(definition)
    lines = [
        f"# yaml-language-server: $schema={SCHEMAS}/task.json",
        "# The task of the evidence log, as it states it. The replies are recorded.",
        *write_yaml(fields),
    ]
    (folder / TASK).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    _write_rows(folder)
    run = folder / RUN
    text = run.read_text(encoding="utf-8")
    for old, new in (
        (f"file_path: {DATASET}\n", f"file_path: {ROWS}\n"),
        (f"task_key: {written}\n", f"task_key: {key}\n"),
    ):
        text = text.replace(old, new)
    run.write_text(text, encoding="utf-8")


def _write_rows(folder: Path) -> None:
    """Write the samples with the columns that the task names; some are in memory at a time."""
    table = folder / DATASET
    scan = pl.scan_parquet(table, glob=False)
    names = [name for name in ("sample_id", "original") if name in scan.collect_schema()]
    with (folder / ROWS).open("w", encoding="utf-8", newline="\n") as out:
        offset = 0
        while (block := scan.select(names).slice(offset, _BLOCK).collect()).height:
            offset += block.height
            out.writelines(f"{_write_row(row)}\n" for row in block.iter_rows(named=True))
    table.unlink()


def _write_row(row: Mapping[str, str | None]) -> str:
    original = json.loads(row.get("original") or "{}")
    own = original.get("sample_id")
    if own is None or str(own) != row["sample_id"]:
        original["sample_id"] = row["sample_id"]
    return json.dumps(original, ensure_ascii=False, allow_nan=False)


def write_yaml(value: Mapping[str, object] | list[object], depth: int = 0) -> Iterator[str]:
    """Yield the lines of a YAML block in which every text is quoted, so that it stays what it is."""
    pad = "  " * depth
    if isinstance(value, Mapping):
        entries = [(f"{pad}{_quote(str(key))}:", inner) for key, inner in value.items()]
    else:
        entries = [(f"{pad}-", inner) for inner in value]
    for start, inner in entries:
        if isinstance(inner, Mapping | list) and inner:
            yield start
            yield from write_yaml(inner, depth + 1)
        else:
            yield f"{start} {_quote(inner)}"


def _quote(value: object) -> str:
    """Return a plain value as YAML reads it back; a word that can be nothing else stays bare."""
    if isinstance(value, str) and re.fullmatch(r"[a-z_]{3,}", value) and value not in _WORDS:
        return value
    text = mend_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
