"""Laws of files that somebody wrote: YAML, task files, and data in every format."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import polars as pl
import zstandard

from answerkey.datasets.tables import FileFields, load_table
from answerkey.errors import AnswerkeyError
from answerkey.spec import load_plan, load_task
from answerkey.spec.nodes import (
    MAX_DEPTH,
    MAX_NODES,
    Node,
    ProblemList,
    decode,
    parse_yaml,
    walk_scalars,
)

from .law import HERE, Law, list_words, open_folder, refusing, require_error

ROOT = HERE.parents[1]
LABELS = ["A", "B"]
ROWS = (
    {"id": "a", "question": "?", "choices": LABELS, "answer": "A", "meta": {"n": 1, "x": None}},
    {"id": "b", "question": "„ö“?\n", "choices": LABELS, "answer": "B", "meta": {"n": 2, "x": "y"}},
)
CSV = b'id,question,choices,answer\na,"Which, of\nthem?","[""A"", ""B""]",A\nb,x,"[""A""]",\n'


def check_yaml(raw: bytes) -> None:
    """Require that YAML is refused with its place, or is a tree of the size promised, of plain
    values.
    """
    findings = ProblemList()
    with refusing():
        root = parse_yaml(decode(raw, "x.yaml"), "x.yaml", findings)
        assert sum(1 for _ in _walk(root)) <= MAX_NODES
        ends = (b"\n", b"\r", b"\xc2\x85", b"\xe2\x80")
        lines = 1 + sum(raw.count(end) for end in ends)
        for _, scalar in walk_scalars(root):
            assert isinstance(scalar.value, str | int | float | bool | None)
            assert not isinstance(scalar.value, float) or math.isfinite(scalar.value)
            assert 1 <= (scalar.place.line or 0) <= lines
    for error in findings.errors:
        require_error(error)


def _walk(node: Node, depth: int = 0) -> Iterator[Node]:
    """Yield every node, each time it is used."""
    assert node.is_scalar or depth <= MAX_DEPTH + 1
    yield node
    for entry in (*node.entries.values(), *node.items):
        yield from _walk(entry, depth + 1)


@cache
def open_project() -> Path:
    """Return a folder with what a task file may refer to."""
    folder = open_folder() / "project"
    folder.mkdir()
    (folder / "rows.jsonl").write_bytes(write_lines())
    (folder / "x.yaml").write_text("a: 1\n", encoding="utf-8")
    return folder


def check_task_file(raw: bytes) -> None:
    """Require that a task or run file is understood, or that what is wrong with it is told."""
    path = open_project() / "run.yaml"
    path.write_bytes(raw)
    plan = load_plan(path)
    problems = ProblemList()
    try:
        load_task(path, problems=problems)
    except AnswerkeyError as mistake:
        problems.report(mistake)
    for error in (*plan.errors, *problems.errors):
        require_error(error)
    assert plan.key or plan.errors
    json.dumps([str(notice) for notice in (*plan.notices, *problems.notices)])


def check_table(ending: str, raw: bytes, how: FileFields | None = None) -> None:
    """Require that a data file is refused, or has rows with ids, the same when it is read again."""
    path = open_folder() / f"table{ending}"
    path.write_bytes(raw)
    with refusing():
        table = load_table(path, how)
        samples = table.samples
        assert len(samples) == len(table.rows) == len(list(samples.rows())) > 0
        assert samples.ids.dtype == pl.String
        assert samples.ids.n_unique() == len(samples)
        again = load_table(path, how)
        assert again.digest == table.digest
        assert repr(list(again.samples)) == repr(list(samples))
        for name in samples.columns:
            assert len(samples.values(name)) == len(samples)


def write_lines() -> bytes:
    """Return the rows as JSON lines."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in ROWS).encode()


def write_frame(write: Callable[[pl.DataFrame, io.BytesIO], object]) -> bytes:
    """Return the rows as a binary file, with columns of many types."""
    frame = pl.DataFrame(
        {
            "id": ["a", "b"],
            "question": ["Which?", "Wer: „ö“?\n"],
            "choices": [["A", "B"], ["A"]],
            "meta": [{"n": 1, "x": None}, {"n": None, "x": "y"}],
            "small": pl.Series([1, -1], dtype=pl.Int8),
            "bytes": [b"\xff", b"x"],
            "answer": pl.Series(["A", "B"], dtype=pl.Categorical),
            "when": pl.Series([0, 1], dtype=pl.Datetime("us", "UTC")),
        }
    )
    stream = io.BytesIO()
    write(frame, stream)
    return stream.getvalue()


def write_plain(frame: pl.DataFrame, stream: io.BytesIO) -> None:
    """Write columns of text as Parquet that is not compressed."""
    frame.select("id", "question").write_parquet(stream, compression="uncompressed")


def list_yaml() -> list[bytes]:
    """Return the small YAML files of the examples and of the ready-made tasks."""
    folders = (ROOT / "examples", ROOT / "src" / "answerkey" / "spec" / "benchmarks")
    paths = sorted(path for folder in folders for path in folder.rglob("*.yaml"))
    return [raw for path in paths if len(raw := path.read_bytes()) < 1_200][::2]


def make_laws() -> dict[str, Law]:
    """Return the laws of this module by name."""
    lines = write_lines()
    arrays = [json.dumps(ROWS).encode(), json.dumps({"rows": ROWS}).encode()]
    csv_words = [*list_words("table"), b"\xff\xfe"]
    json_words = [*list_words("json_lines"), b"1" * 400, b"[" * 60]
    frames = pl.DataFrame
    parquet = [write_frame(frames.write_parquet), write_frame(write_plain)]
    arrow = [write_frame(frames.write_ipc), write_frame(frames.write_ipc_stream)]
    tables: dict[str, tuple[str, list[bytes], list[bytes], int]] = {
        "csv": (".csv", [CSV], csv_words, 80),
        "tsv": (".tsv", [CSV.replace(b",", b"\t")], csv_words, 60),
        "jsonl": (".jsonl", [lines], json_words, 100),
        "json": (".json", arrays, json_words, 100),
        "parquet": (".parquet", parquet, [], 20),
        "arrow": (".arrow", arrow, [], 20),
        "gzip": (".jsonl.gz", list_packed(gzip.compress), [], 80),
        "zstd": (".jsonl.zst", list_packed(zstandard.compress), [], 80),
    }
    laws = {
        name: Law(partial(check_table, ending), partial(list, seeds), words, examples)
        for name, (ending, seeds, words, examples) in tables.items()
    }
    return laws | {
        "yaml": Law(check_yaml, list_yaml, list_words("yaml"), 150),
        "task_file": Law(check_task_file, list_yaml, list_words("yaml", "task_keys"), 100),
    }


def list_packed(pack: Callable[[bytes], bytes]) -> list[bytes]:
    """Return compressed lines, twice the same, and nothing."""
    return [pack(write_lines()), pack(write_lines()) * 2, pack(b"")]
