"""Zip archives, read as streams.

The standard library holds the list of an archive's members in memory and, before Python 3.14,
knows no Zstandard. No size that an archive states is trusted: what a member expands to is counted
and cut off beyond `MOST_RATIO`.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from answerkey.datasets.content import PACKED_BLOCK, open_blocks, open_zstd
from answerkey.errors import DataError, Place
from answerkey.importers.json_stream import DamagedError

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
#: A member may expand to so many times its size, and always to as much as `SMALL`.
MOST_RATIO = 400
SMALL = 64 * 2**20
MARK = b"PK\x03\x04"
_ENTRY_MARK, _END_MARK, _LOCATOR_MARK = b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x07"
_ENTRY, _LOCAL = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
_END, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_EXTRA = struct.Struct("<2H")
_WIDE_SIZES = 1
_LONGEST_COMMENT = 2**16
_FULL = 0xFFFFFFFF
_ENCRYPTED = 1
_BUFFER = 2**16


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive, as the list of members describes it."""

    name: str
    method: int
    checksum: int
    packed: int
    offset: int
    is_encrypted: bool


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, by its first bytes."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as stream:
                return stream.read(len(MARK)) == MARK
    return False


def iterate_members(path: Path) -> Iterator[Member]:
    """Yield the files of an archive in the order of its list.

    DataError E202 when there is no such list.
    """
    try:
        with path.open("rb") as stream:
            start, length, shift = _find_member_list(stream)
            stream.seek(start)
            end = start + length
            while stream.tell() < end:
                member = _read_entry(stream, shift)
                if not member.name.endswith("/"):
                    yield member
    except (DamagedError, struct.error, ValueError) as error:
        message = f"not a valid zip archive: {error}"
        hint = "copy or download it again; a log is complete once its tool has ended"
        raise DataError("E202", message, where=Place(file=str(path)), hint=hint) from None


def _find_member_list(stream: BinaryIO) -> tuple[int, int, int]:
    """Return where the list of members starts, its length, and how many bytes stand before the
    archive.
    """
    begin = max(0, stream.seek(0, io.SEEK_END) - _LONGEST_COMMENT - _END.size)
    stream.seek(begin)
    tail = stream.read()
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) < at + _END.size:
        raise DamagedError("it ends in the middle")
    end = _END.unpack_from(tail, at)
    position, length, offset = begin + at, end[5], end[6]
    if position >= _LOCATOR.size:
        stream.seek(position - _LOCATOR.size)
        locator = _read_struct(stream, _LOCATOR)
        if locator[0] == _LOCATOR_MARK:
            position = locator[2]
            _seek_inside(stream, position)
            wide = _read_struct(stream, _END_64)
            length, offset = wide[8], wide[9]
    start = position - length
    if start < 0:
        raise DamagedError("the list of members is damaged")
    return start, length, start - offset


def _read_entry(stream: BinaryIO, shift: int) -> Member:
    """Return the member that the next entry of the list describes."""
    entry = _read_struct(stream, _ENTRY)
    if entry[0] != _ENTRY_MARK:
        raise DamagedError("the list of members is damaged")
    name = _read_exactly(stream, entry[10])
    extra = _read_exactly(stream, entry[11])
    _read_exactly(stream, entry[12])
    packed, offset = _widen(extra, size=entry[9], packed=entry[8], offset=entry[16])
    return Member(
        name=name.decode("utf-8", "replace"),
        method=entry[4],
        checksum=entry[7],
        packed=packed,
        offset=offset + shift,
        is_encrypted=bool(entry[3] & _ENCRYPTED),
    )


def _widen(extra: bytes, *, size: int, packed: int, offset: int) -> tuple[int, int]:
    """Return the packed size and the offset, which large archives keep apart, and only if they are
    large.
    """
    sizes = [size, packed, offset]
    at = 0
    while at + _EXTRA.size <= len(extra):
        kind, length = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        if kind == _WIDE_SIZES:
            wide = iter(struct.unpack_from(f"<{length // 8}Q", extra, at))
            for place, narrow in enumerate(sizes):
                if narrow == _FULL:
                    sizes[place] = next(wide, narrow)
        at += length
    return sizes[1], sizes[2]


def _seek_inside(stream: BinaryIO, position: int) -> None:
    """Go to a place that the archive names itself, which may lie outside of it."""
    if not 0 <= position < stream.seek(0, io.SEEK_END):
        raise DamagedError("the list of members is damaged")
    stream.seek(position)


def _read_struct(stream: BinaryIO, form: struct.Struct) -> tuple[Any, ...]:
    return form.unpack(_read_exactly(stream, form.size))


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    raw = stream.read(count)
    if len(raw) != count:
        raise DamagedError("it ends in the middle")
    return raw


def open_member(path: Path, member: Member) -> BinaryIO:
    """Return a stream of a member's bytes; DamagedError now, or when it is read."""
    if member.is_encrypted:
        raise DamagedError("it is encrypted")
    if member.method not in {STORED, DEFLATED, ZSTANDARD}:
        raise DamagedError(f"it is compressed by method {member.method}, which is not read")
    stream = path.open("rb")
    try:
        _seek_inside(stream, member.offset)
        head = _read_struct(stream, _LOCAL)
        if head[0] != MARK:
            raise DamagedError("it is not where the list of members says")  # noqa: TRY301 - closes the stream
        stream.seek(head[9] + head[10], io.SEEK_CUR)
        return open_blocks(stream, _expand_member(stream, member), _BUFFER)
    except BaseException:
        stream.close()
        raise


def _expand_member(packed: BinaryIO, member: Member) -> Iterator[bytes]:
    """Yield the bytes of a member; its checksum is compared at the end."""
    expand, error_type = _choose_method(member.method)
    unread = member.packed
    size = 0
    checksum = 0
    while unread:
        block = packed.read(min(unread, PACKED_BLOCK))
        if not block:
            raise DamagedError("it ends in the middle")
        unread -= len(block)
        try:
            part = expand(block)
        except error_type as error:
            raise DamagedError(str(error)) from None
        size += len(part)
        checksum = zlib.crc32(part, checksum)
        if size > max(SMALL, member.packed * MOST_RATIO):
            raise DamagedError(f"it expands to more than {MOST_RATIO} times its size")
        yield part
    if checksum != member.checksum:
        raise DamagedError("its checksum is wrong")


def _choose_method(method: int) -> tuple[Callable[[bytes], bytes], type[Exception]]:
    """Return what decompresses a member block by block, and the error it raises."""
    if method == DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress, zlib.error
    if method == ZSTANDARD:
        frames = open_zstd()
        return frames.decompress, frames.error
    return bytes, zlib.error
