"""Text documents become rows: what stands in them, and what a header at their top says.

A header is a block between lines of `---`. Of YAML it may use what such headers use: `key: value`, quoted
texts, lists in brackets or with dashes. Values are texts, but for whole numbers, decimals, true, false, null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from answerkey.datasets.content import Content
from answerkey.datasets.derived import Deriving
from answerkey.datasets.ids import ID_COLUMN
from answerkey.datasets.joining import FileFields
from answerkey.datasets.tables import Table, load_rows
from answerkey.errors import DataError, Place

#: The columns of a document beside those of its header.
NAME, TEXT = "file_name", "content"
_MARK = "---"
_ENTRY = re.compile(r"([A-Za-z_][\w -]*?)\s*:(?:\s+(.*)|\s*)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "~": None}
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'")


def read_documents(folder: Path, paths: Sequence[Path], how: FileFields) -> Table:
    """Return a row for each document.

    Its columns are `sample_id` (the hash of its content), `file_name`, `content`, and all names of headers.
    """
    rows = [_read_document(folder, path) for path in paths]
    table = load_rows(rows, name=str(folder))
    if not how.derive:
        return table
    deriving = Deriving(how.derive)
    deriving.refuse_lost(table.rows.columns, str(folder))
    derived = deriving.derive(table.samples)
    deriving.raise_any()
    further = [dict(zip(derived, cells, strict=True)) for cells in zip(*derived.values(), strict=True)]
    return load_rows([{**row, **more} for row, more in zip(rows, further, strict=True)], name=str(folder))


def _read_document(folder: Path, path: Path) -> dict[str, object]:
    content = Content(str(path), path)
    content.check_text()
    with content.open_text() as stream:
        text = stream.read()
    header, body = _split_header(text, str(path))
    return {
        ID_COLUMN: sha256(text.encode()).hexdigest(),
        NAME: path.relative_to(folder).as_posix(),
        TEXT: body,
        **header,
    }


def _split_header(text: str, file: str) -> tuple[dict[str, object], str]:
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _MARK:
        return {}, text
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == _MARK), None)
    if end is None:
        return {}, text
    body = "".join(lines[end + 1 :]).lstrip("\n")
    return _read_header([line.rstrip() for line in lines[1:end]], file), body


def _read_header(lines: Sequence[str], file: str) -> dict[str, object]:
    found: dict[str, object] = {}
    listed: list[object] | None = None
    for number, line in enumerate(lines, 2):
        where = Place(file=file, line=number)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.lstrip().startswith("- ") and listed is not None:
            listed.append(_read_value(line.lstrip()[2:].strip(), where))
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            raise _refuse(where)
        name, written = entry[1], (entry[2] or "").strip()
        if name in found or name in {ID_COLUMN, NAME, TEXT}:
            raise DataError("E212", f"`{name}` stands twice", where=where, hint="rename it in the header")
        listed = [] if not written else None
        found[name] = listed if listed is not None else _read_value(written, where)
    return {name: None if value == [] else value for name, value in found.items()}


def _read_value(text: str, where: Place) -> object:
    if text.startswith("[") and text.endswith("]"):
        return [_read_value(one.strip(), where) for one in _split_list(text[1:-1])]
    if text[:1] in {"{", "[", "|", ">", "&", "*", "!"}:
        raise _refuse(where)
    if quoted := _QUOTED.fullmatch(text):
        inner = quoted[1] if quoted[2] is None else quoted[2].replace("''", "'")
        return re.sub(r"\\(.)", r"\1", inner) if quoted[2] is None else inner
    plain = text.partition(" #")[0].strip()
    if plain in _WORDS:
        return _WORDS[plain]
    if found := _NUMBER.fullmatch(plain):
        return float(plain) if found[2] else int(plain)
    return plain


def _split_list(text: str) -> list[str]:
    """Return the entries of a list in brackets; a comma in quotes parts nothing."""
    parts = re.findall(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^,]+", text)
    return [part for part in parts if part.strip()]


def _refuse(where: Place) -> DataError:
    hint = "write `key: value`, `key: [a, b]`, or a list with dashes"
    return DataError("E202", "this line of the header is not understood", where=where, hint=hint)
