"""Text documents become rows: one for each file."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from answerkey.datasets.content import Content
from answerkey.datasets.derived import Deriving
from answerkey.datasets.ids import ID_COLUMN
from answerkey.datasets.joining import FileFields
from answerkey.datasets.tables import Table, load_rows


def read_documents(folder: Path, paths: Sequence[Path], how: FileFields) -> Table:
    """Return a row for each document.

    Its columns are `sample_id` (the hash of its content), `file_name` and `content`.
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
    return {
        ID_COLUMN: sha256(text.encode()).hexdigest(),
        "file_name": path.relative_to(folder).as_posix(),
        "content": text,
    }
