"""Plain tables: CSV, JSON Lines, JSON, Parquet and the others, with the questions and replies in one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from answerkey.datasets import Rows, iterate_blocks, load_table
from answerkey.datasets.content import COMPRESSIONS, require_plain
from answerkey.datasets.tables import FORMATS
from answerkey.errors import DataError, Place, SpecError, listing
from answerkey.exchange.columns import Roles, find_roles
from answerkey.exchange.fields import get_count
from answerkey.exchange.lines import Line
from answerkey.exchange.logs import Glimpse, Log
from answerkey.models.responses import read_message

_BLOCK = 8_192


class PlainReader:
    """Reads any table that has a completion in each row."""

    kind: ClassVar[str] = "plain"
    title: ClassVar[str] = "table"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether the name's ending is that of a table."""
        endings = [one.lower() for one in glimpse.path.suffixes if one.lower() not in COMPRESSIONS]
        return glimpse.path.is_file() and bool(endings) and endings[-1] in FORMATS

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each row."""
        table = Questions.open(log.path, log.wishes.columns)
        roles = table.roles
        if "completion" not in roles.columns:
            hint = f"name the column: `--column completion=NAME`; columns: {listing(table.rows.columns)}"
            raise DataError("E209", "no column holds completions", where=Place(file=str(log.path)), hint=hint)
        log.told.task = log.path.name.partition(".")[0]
        log.told.score = roles.columns.get("score") or roles.columns.get("predicted")
        for sample_id, row in table.iterate():
            asked = roles.read_asked(row)
            said = read_message(roles.cell(row, "completion"))
            trial = get_count({"": roles.cell(row, "trial")}, "") or 0
            log.seen += 1
            yield Line(sample_id, asked, said, roles.read_theirs(row, asked), trial)


@dataclass(frozen=True)
class Questions:
    """A table whose columns are known by what they are."""

    rows: Rows
    roles: Roles

    @classmethod
    def open(cls, path: Path, columns: Mapping[str, str]) -> Questions:
        """Open a table; E206 when it has no truth."""
        rows = load_table(path, by_trial=True).rows
        roles = find_roles(rows.columns, columns)
        if not {"answer", "index"} & set(roles.columns):
            hint = f"name the column: `--column answer=NAME`; columns: {listing(rows.columns)}"
            raise DataError("E206", "no column holds the truth", where=Place(file=str(path)), hint=hint)
        return cls(rows, roles)

    def iterate(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Yield id and cells of each row."""
        own = self.roles.columns.get("id")
        for _, block in iterate_blocks(self.rows, size=_BLOCK):
            for number, row in zip(block.ids.to_list(), block.rows(), strict=True):
                cell = row.get(own) if own else None
                yield (str(number) if cell is None or cell == "" else str(cell)), row


def require_dataset(log: Log) -> Questions | None:
    """Return the table that `--dataset` names; None without one."""
    path = log.wishes.dataset
    if path is None:
        return None
    if not path.is_file():
        require_plain(path)
        raise SpecError("E119", f"`--dataset {path}`: there is no such file", where=Place(file=str(path)))
    return Questions.open(path, log.wishes.columns)
