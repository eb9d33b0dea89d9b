"""What the end of a Parquet file says: how many rows each group has, and where its columns lie.

The end is a Thrift structure in its compact form. Only the numbers that tell places are used of it, and only
to choose what is fetched; rows are read by the column library alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MARK = b"PAR1"
#: Length and mark, after the structure.
TAIL = 8
#: Some writers leave the header of the first page out of a column's size.
SLACK = 128
_DEEPEST = 32
_LONG_LIST = 15
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
#: Numbers of fields in the structures of the format.
_ROWS, _GROUPS = 3, 4
_COLUMNS, _GROUP_ROWS = 1, 3
_ABOUT = 3
_PATH, _SIZE, _FIRST_PAGE, _DICTIONARY = 3, 7, 9, 11


@dataclass(frozen=True)
class Footer:
    """The end of a Parquet file: `start` is where it begins, `groups` have rows and column pieces.

    A piece is the name of the column at the top, where it starts and where it stops.
    """

    start: int
    raw: bytes
    rows: int
    groups: tuple[tuple[int, tuple[tuple[str, int, int], ...]], ...]

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns at the top; none where there are no rows."""
        return frozenset(name for _, pieces in self.groups[:1] for name, _, _ in pieces)

    def list_spans(self, rows: range, names: Collection[str]) -> list[tuple[int, int]]:
        """Return where the columns of these rows lie, piece by piece, in order."""
        ends = list(accumulate(count for count, _ in self.groups))
        spans: list[tuple[int, int]] = []
        for (count, pieces), end in zip(self.groups, ends, strict=True):
            if rows.start < end and end - count < rows.stop:
                spans += [(first, last) for name, first, last in pieces if name in names]
        return sorted(spans)


def merge_spans(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans, which are in order, with those that touch as one."""
    held: tuple[int, int] | None = None
    for first, last in spans:
        if held is not None and first <= held[1]:
            held = (held[0], max(held[1], last))
            continue
        if held is not None:
            yield held
        held = (first, last)
    if held is not None:
        yield held


def read_length(tail: bytes) -> int:
    """Return how long the structure is, from the last bytes of a file; ValueError where it is no Parquet."""
    if len(tail) != TAIL or tail[4:] != MARK:
        raise ValueError("the mark at its end is missing")
    return int(struct.unpack("<I", tail[:4])[0])


def read_footer(raw: bytes, start: int) -> Footer:
    """Return what a footer says; `raw` goes to the end of the file. ValueError when it cannot be read."""
    try:
        told = _Reader(raw[:-TAIL]).read_struct()
        groups = tuple(_read_group(one, start) for one in told.get(_GROUPS, ()))
        rows = int(told[_ROWS])
    except (IndexError, KeyError, TypeError, AttributeError, struct.error, UnicodeDecodeError) as error:
        raise ValueError("its footer is damaged") from error
    if sum(count for count, _ in groups) != rows:
        raise ValueError("its footer is damaged")
    return Footer(start, raw, rows, groups)


def _read_group(told: dict[int, Any], end: int) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    pieces = []
    for column in told[_COLUMNS]:
        about = column[_ABOUT]
        first = about[_FIRST_PAGE]
        dictionary = about.get(_DICTIONARY) or 0
        if 0 < dictionary < first:
            first = dictionary
        last = min(first + about[_SIZE] + SLACK, end)
        if not 0 <= first <= last:
            raise ValueError("its footer is damaged")
        pieces.append((about[_PATH][0].decode(), first, last))
    return int(told[_GROUP_ROWS]), tuple(pieces)


class _Reader:
    """Reads Thrift's compact form: structures as dicts by field number, lists as lists, text as bytes."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._depth = 0
        self._kinds: dict[int, Callable[[], Any]] = {
            _TRUE: lambda: True,
            _FALSE: lambda: False,
            _BYTE: self._take_byte,
            **dict.fromkeys((4, 5, 6), self._read_number),
            _DOUBLE: lambda: self._take(8),
            _BINARY: lambda: self._take(self._read_varint()),
            _LIST: self._read_list,
            _SET: self._read_list,
            _MAP: self._read_map,
            _STRUCT: self.read_struct,
        }

    def read_struct(self) -> dict[int, Any]:
        """Return the structure at hand."""
        self._enter()
        found: dict[int, Any] = {}
        field = 0
        while head := self._take_byte():
            field = field + (head >> 4) if head >> 4 else self._read_number()
            found[field] = self._kinds[head & 15]()
        self._depth -= 1
        return found

    def _read_list(self) -> list[Any]:
        self._enter()
        head = self._take_byte()
        size = head >> 4 if head >> 4 < _LONG_LIST else self._read_varint()
        self._require_room(size)
        kind = head & 15
        read = self._take_byte if kind in (_TRUE, _FALSE) else self._kinds[kind]
        found = [read() for _ in range(size)]
        self._depth -= 1
        return found

    def _read_map(self) -> list[Any]:
        size = self._read_varint()
        if not size:
            return []
        self._enter()
        self._require_room(size)
        head = self._take_byte()
        found = [(self._kinds[head >> 4](), self._kinds[head & 15]()) for _ in range(size)]
        self._depth -= 1
        return found

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("its footer is damaged")

    def _require_room(self, size: int) -> None:
        """Refuse a list that is said to be longer than what is left: each entry has a byte at least."""
        if size > len(self._raw) - self._at:
            raise ValueError("its footer is damaged")

    def _take(self, count: int) -> bytes:
        self._require_room(count)
        self._at += count
        return self._raw[self._at - count : self._at]

    def _take_byte(self) -> int:
        self._at += 1
        return self._raw[self._at - 1]

    def _read_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take_byte()
            value |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004 - the bit that says that more follow
                return value
            shift += 7
            if shift > 70:  # noqa: PLR2004 - more than 64 bits
                raise ValueError("its footer is damaged")

    def _read_number(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)
