"""Files become tables: the format is told by the ending of the name, never guessed from the content."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import polars as pl

from answerkey.datasets.binary import adopt_frame, read_arrow, read_parquet
from answerkey.datasets.cells import ColumnKind, type_columns
from answerkey.datasets.content import COMPRESSIONS, Content, read_content
from answerkey.datasets.ids import name_samples
from answerkey.datasets.json_rows import read_json_lines, read_json_list
from answerkey.datasets.names import check_names
from answerkey.datasets.plain import make_plain
from answerkey.datasets.shapes import Columns, build_frame
from answerkey.datasets.text_rows import MAX_CELL, read_csv, read_tsv
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place, listing
from answerkey.types import Notice, Samples

#: Ending of a file name to the function that reads its content.
FORMATS: dict[str, Callable[[Content], Columns]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_list,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
    ".ipc": read_arrow,
}


@dataclass(frozen=True)
class Table:
    """All rows of a source, before filters and selection; `digest` stands for its content."""

    samples: Samples
    digest: str
    notices: tuple[Notice, ...] = ()


def read_table(
    path: str | Path, *, columns: Mapping[str, ColumnKind] | None = None, by_trial: bool = False
) -> Samples:
    """Return the rows of a data file, compressed or not, with their sample ids.

    With `by_trial`, rows of one sample may differ in the column `trial`.
    """
    return load_table(path, columns=columns, by_trial=by_trial).samples


def load_table(
    path: str | Path, *, columns: Mapping[str, ColumnKind] | None = None, by_trial: bool = False
) -> Table:
    """Return the rows of a data file with the digest of its content and what is odd about it."""
    content = read_content(path)
    found = find_format(Path(path))(content)
    if not found.frame.height:
        raise DataError("E210", "the file has no rows", where=content.place())
    _refuse_huge(found, content)
    if columns:
        found = type_columns(found, columns, content.file)
    return Table(name_samples(found, content.file, by_trial=by_trial), content.digest, found.notices)


def _refuse_huge(columns: Columns, content: Content) -> None:
    troubles = Troubles(content.file)
    for name, dtype in columns.frame.schema.items():
        if dtype != pl.String:
            continue
        for position in (columns.frame[name].str.len_bytes() > MAX_CELL).arg_true():
            where = Place(file=content.file, line=int(columns.lines[position]), field=name)
            troubles.add("E202", f"the cell has more than {MAX_CELL} bytes", where=where)
    troubles.raise_any()


def find_format(path: Path) -> Callable[[Content], Columns]:
    """Return the function that reads files with this name."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSIONS:
        endings.pop()
    if endings and endings[-1] in FORMATS:
        return FORMATS[endings[-1]]
    message = f"the ending of `{path.name}` names no format"
    hint = f"endings: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}"
    raise DataError("E201", message, where=Place(file=str(path)), hint=hint)


def samples_from(
    rows: pl.DataFrame | Sequence[Mapping[str, object]], *, name: str, by_trial: bool = False
) -> Samples:
    """Return rows that are in memory as samples; `name` stands for the file in errors."""
    return load_rows(rows, name=name, by_trial=by_trial).samples


def load_rows(
    rows: pl.DataFrame | Sequence[Mapping[str, object]], *, name: str, by_trial: bool = False
) -> Table:
    """Return rows that are in memory with the digest of their content."""
    where = Place(file=name)
    found = adopt_frame(rows, where) if isinstance(rows, pl.DataFrame) else _gather(rows, where)
    if not found.frame.height:
        raise DataError("E210", f"`{name}` has no rows", where=where)
    samples = name_samples(found, name, by_trial=by_trial)
    return Table(samples, digest_rows(found.frame, found.encoded), found.notices)


def _gather(rows: Sequence[Mapping[str, object]], where: Place) -> Columns:
    names: dict[object, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    notices = check_names([_check_name(key, where) for key in names], where)
    columns = {str(key): _plain_column(rows, str(key), where) for key in names}
    try:
        frame, encoded = build_frame(columns)
    except UnicodeEncodeError as error:
        message = f"the text {error.object!r} holds half of a surrogate pair, which is not a character"
        raise DataError("E203", message, where=where) from None
    lines = pl.int_range(1, len(rows) + 1, eager=True, dtype=pl.Int64)
    return Columns(frame, lines.alias("line"), encoded, notices)


def _check_name(key: object, where: Place) -> str:
    if isinstance(key, str):
        return key
    raise DataError("E202", f"the column name {key!r} is not text", where=where)


def _plain_column(rows: Sequence[Mapping[str, object]], name: str, where: Place) -> Sequence[object]:
    try:
        return make_plain([row.get(name) for row in rows])
    except TypeError as error:
        place = Place(file=where.file, field=name)
        raise DataError("E202", f"the column holds {error}", where=place) from None


def digest_rows(frame: pl.DataFrame, encoded: frozenset[str]) -> str:
    """Return the sha256 of the rows as JSON lines, so that equal rows have equal digests."""
    # JSON lines write a float that is not a number as null; as text it stays apart.
    rows = frame.with_columns(pl.selectors.float().cast(pl.String)).write_ndjson()
    header = [list(map(str, frame.schema.items())), sorted(encoded)]
    return sha256(f"{json.dumps(header)}\n{rows}".encode()).hexdigest()
