"""Logs of other tools, as small as they can be."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from answerkey.errors import AnswerkeyError
from answerkey.importers import Imported, import_log

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
Files = Mapping[str, object] | Iterable[tuple[str, object]]
#: What the dataset has of the question that most logs here ask.
WHICH = {"question": "Which?", "options": ["one", "two"], "choices": ["A", "B"], "answer": "B"}


def pack(raw: bytes, method: int) -> bytes:
    """Return bytes as a member of an archive holds them; Zstandard in two frames."""
    if method == DEFLATED:
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(raw) + packer.flush()
    if method == ZSTANDARD:
        half = len(raw) // 2
        return zstandard.compress(raw[:half]) + zstandard.compress(raw[half:])
    return raw


def write_archive(
    path: Path, files: Files, *, method: int = ZSTANDARD, flags: int = 0, start: bytes = b""
) -> Path:
    """Write a zip archive; what is no bytes is written as JSON. A name may come twice."""
    listed = files.items() if isinstance(files, Mapping) else files
    body, entries, count = start, b"", 0
    for name, content in listed:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        packed, title = pack(raw, method), name.encode()
        shape = (flags, method, 0, 0, zlib.crc32(raw), len(packed), len(raw), len(title), 0)
        local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, *shape) + title + packed
        entries += struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, *shape, 0, 0, 0, 0, len(body) - len(start)
        )
        entries += title
        body += local
        count += 1
    at = len(body) - len(start)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(entries), at, 0)
    path.write_bytes(body + entries + end)
    return path


class Desk:
    """A folder in which logs are written and imported; `out` is where the last import went."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self._imports = 0

    def archive(self, name: str, files: Files, **options: Any) -> Path:  # noqa: ANN401 - those of the function
        """Write a zip archive: `method`, `flags` and `start` as in `write_archive`."""
        return write_archive(self.folder / name, files, **options)

    def lines(self, name: str, rows: Iterable[object]) -> Path:
        """Write a file with one JSON value on each line."""
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        return self.write(name, text)

    def json(self, name: str, content: object) -> Path:
        """Write a file that is one JSON value."""
        return self.write(name, json.dumps(content))

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def bring(
        self,
        path: Path,
        kind: str = "auto",
        *,
        out: Path | None = None,
        allow_failed: str | None = None,
        **options: Any,  # noqa: ANN401 - the fields of `ImportOptions`
    ) -> Imported:
        """Import a log into a new folder of the desk."""
        self._imports += 1
        self.out = out or self.folder / f"out-{self._imports}"
        return import_log(kind, path, out=self.out, allow_failed=allow_failed, **options)

    def refuse(
        self,
        message: str,
        path: Path,
        kind: str = "auto",
        **options: Any,  # noqa: ANN401 - as above
    ) -> AnswerkeyError:
        """Return the error of a log that cannot be imported; nothing is written."""
        with pytest.raises(AnswerkeyError, match=message) as caught:
            self.bring(path, kind, **options)
        assert not self.out.exists()
        return caught.value

    def asked(self, *columns: str, task: str = "") -> list[Any]:
        """Return columns of the dataset that was written: cells of one, tuples of several, rows of
        all.

        Of several tasks, that of one.
        """
        return self._read(task, "dataset.jsonl", columns)

    def said(self, *columns: str, task: str = "") -> list[Any]:
        """Return columns of the completions that were written, in the order of the samples."""
        rows = self._read(task, "completions.jsonl", ())
        if list(self.out.glob(f"{task or '*'}/dataset.jsonl")):
            ids = self.asked("sample_id", task=task)
            rows.sort(key=lambda row: (ids.index(row["sample_id"]), row["trial"]))
        return _pick(rows, columns)

    def _read(self, task: str, name: str, columns: tuple[str, ...]) -> list[Any]:
        (path,) = self.out.glob(f"{task or '*'}/{name}")
        with path.open(encoding="utf-8") as lines:
            rows = list(map(json.loads, lines))
        names = dict.fromkeys(key for row in rows for key in row)
        return _pick([{key: row.get(key) for key in names} for row in rows], columns)

    def text(self, name: str) -> str:
        """Return a file that was written."""
        return (self.out / name).read_text(encoding="utf-8")


def _pick(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[Any]:
    if len(columns) == 1:
        return [row.get(columns[0]) for row in rows]
    return [tuple(map(row.get, columns)) for row in rows] if columns else rows


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return an empty desk."""
    return Desk(tmp_path)
