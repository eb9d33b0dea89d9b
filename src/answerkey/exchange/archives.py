"""Zip archives read as streams: the list of members as well as each of them.

The standard library holds the whole list in memory and, before Python 3.14, knows no Zstandard. Nothing here
trusts a size that an archive states: what a member expands to is counted, and cut off beyond all reason.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from answerkey.errors import DataError, Place

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
#: A member may expand to so many times its size, and always to as much as `SMALL`.
MOST_RATIO = 400
SMALL = 64 * 2**20
MARK = b"PK\x03\x04"
_BLOCK = 2**16
#: Few bytes of Zstandard data may expand many thousand times.
_PACKED_BLOCK = 2**10
_ENTRY, _LOCAL = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
_END, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_LONGEST_COMMENT = 2**16
_FULL = 0xFFFFFFFF
_ENCRYPTED = 1


class DamagedError(Exception):
    """A member, or a whole archive, that cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive, as its list of members describes it."""

    name: str
    method: int
    checksum: int
    packed: int
    offset: int
    is_encrypted: bool


class _Expander(Protocol):
    def decompress(self, data: bytes, /) -> bytes:
        """Return what some bytes expand to."""


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, by its first bytes."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(len(MARK)) == MARK
    except OSError:
        return False


def iterate_members(path: Path) -> Iterator[Member]:
    """Yield the files of an archive in the order of its list; DataError E202 when there is no such list."""
    try:
        with path.open("rb") as stream:
            yield from _iterate_entries(stream)
    except (DamagedError, struct.error, ValueError) as error:
        message = f"not a valid zip archive: {error}"
        hint = "copy or download it again; a log is complete once its tool has ended"
        raise DataError("E202", message, where=Place(file=str(path)), hint=hint) from None


def _iterate_entries(stream: BinaryIO) -> Iterator[Member]:
    start, length, shift = _find_list(stream)
    stream.seek(start)
    left = io.BufferedReader(stream, _BLOCK) if isinstance(stream, io.RawIOBase) else stream
    while length > 0:
        head = _ENTRY.unpack(_read_exactly(left, _ENTRY.size))
        if head[0] != b"PK\x01\x02":
            raise DamagedError("the list of members is damaged")
        flags, method, checksum = head[3], head[4], head[7]
        name, extra = _read_exactly(left, head[10]), _read_exactly(left, head[11])
        _read_exactly(left, head[12])
        length -= _ENTRY.size + head[10] + head[11] + head[12]
        packed, offset = _widen(extra, size=head[9], packed=head[8], offset=head[16])
        text = name.decode("utf-8", "replace")
        if not text.endswith("/"):
            yield Member(text, method, checksum, packed, offset + shift, bool(flags & _ENCRYPTED))


def _find_list(stream: BinaryIO) -> tuple[int, int, int]:
    """Return where the list of members starts, its length, and how much stands before the archive."""
    size = stream.seek(0, io.SEEK_END)
    begin = max(0, size - _LONGEST_COMMENT - _END.size)
    stream.seek(begin)
    tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + _END.size:
        raise DamagedError("it ends in the middle")
    end = _END.unpack_from(tail, at)
    position, length, offset = begin + at, end[5], end[6]
    if position >= _LOCATOR.size:
        stream.seek(position - _LOCATOR.size)
        found = _LOCATOR.unpack(_read_exactly(stream, _LOCATOR.size))
        if found[0] == b"PK\x06\x07":
            _go_to(stream, found[2])
            wide = _END_64.unpack(_read_exactly(stream, _END_64.size))
            position, length, offset = found[2], wide[8], wide[9]
    start = position - length
    if start < 0:
        raise DamagedError("the list of members is damaged")
    return start, length, start - offset


def _widen(extra: bytes, *, size: int, packed: int, offset: int) -> tuple[int, int]:
    """Return the packed size and the offset, which large archives keep apart, and only if they are large."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            size, packed, offset = (
                next(wide, one) if one == _FULL else one for one in (size, packed, offset)
            )
        at += 4 + length
    return packed, offset


def _go_to(stream: BinaryIO, position: int) -> None:
    """Go to a place that the archive names itself, which may lie outside of it."""
    if not 0 <= position < stream.seek(0, io.SEEK_END):
        raise DamagedError("the list of members is damaged")
    stream.seek(position)


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    found = stream.read(count)
    if len(found) != count:
        raise DamagedError("it ends in the middle")
    return found


def open_member(path: Path, member: Member) -> BinaryIO:
    """Return a stream of a member's bytes; DamagedError now, or when it is read."""
    if member.is_encrypted:
        raise DamagedError("it is encrypted")
    stream = path.open("rb")
    try:
        _find_start(stream, member)
        return io.BufferedReader(_MemberStream(stream, member), _BLOCK)  # type: ignore[type-var]  # a raw stream
    except BaseException:
        stream.close()
        raise


def _find_start(stream: BinaryIO, member: Member) -> None:
    """Go to where a member's bytes begin."""
    _go_to(stream, member.offset)
    head = _LOCAL.unpack(_read_exactly(stream, _LOCAL.size))
    if head[0] != MARK:
        raise DamagedError("it is not where the list of members says")
    stream.seek(head[9] + head[10], io.SEEK_CUR)


def _choose_expander(method: int) -> _Expander | None:
    if method == STORED:
        return None
    if method == DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS)
    if method == ZSTANDARD:
        return _Frames()
    raise DamagedError(f"it is compressed by method {method}, which is not read")


class _Frames:
    """All frames of Zstandard data, one after the other."""

    def __init__(self) -> None:
        import zstandard

        self._start = zstandard.ZstdDecompressor().decompressobj
        self._errors = zstandard.ZstdError
        self._frame = self._start()

    def decompress(self, data: bytes, /) -> bytes:
        parts = []
        while data:
            try:
                parts.append(self._frame.decompress(data))
            except self._errors as error:
                raise DamagedError(str(error)) from None
            data = self._frame.unused_data
            if self._frame.eof:
                self._frame = self._start()
        return b"".join(parts)


class _MemberStream(io.RawIOBase):
    """The bytes of a member, expanded; its checksum is compared at the end."""

    def __init__(self, packed: BinaryIO, member: Member) -> None:
        super().__init__()
        self._packed = packed
        self._member = member
        self._left = member.packed
        self._limit = max(SMALL, member.packed * MOST_RATIO)
        self._expander = _choose_expander(member.method)
        self._rest = memoryview(b"")
        self._size, self._checksum = 0, 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._packed.close()
        super().close()

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # what BufferedReader hands in
        while not self._rest:
            if self._left == 0:
                if self._checksum != self._member.checksum:
                    raise DamagedError("its checksum is wrong")
                return 0
            self._expand()
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def _expand(self) -> None:
        block = self._packed.read(min(self._left, _PACKED_BLOCK))
        if not block:
            raise DamagedError("it ends in the middle")
        self._left -= len(block)
        try:
            part = block if self._expander is None else self._expander.decompress(block)
        except zlib.error as error:
            raise DamagedError(str(error)) from None
        self._size += len(part)
        self._checksum = zlib.crc32(part, self._checksum)
        if self._size > self._limit:
            raise DamagedError(f"it expands to more than {MOST_RATIO} times its size")
        self._rest = memoryview(part)
