"""Zip archives whose members are read as streams.

The standard library reads the list of members, but no Zstandard before Python 3.14. No size in an
archive is trusted: the expanded bytes of a member are counted, and cut off beyond `MAX_RATIO`.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from answerkey.datasets.content import PACKED_BLOCK, open_blocks, open_zstd, refuse_file
from answerkey.importers.json_values import DamagedError

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
#: A member may expand to this multiple of its size, or to `FREE_BYTES`, whichever is more.
MAX_RATIO = 400
FREE_BYTES = 64 * 2**20
MAGIC = b"PK\x03\x04"
#: The header of a member; the last two numbers are the lengths of its name and of its extra field.
_HEAD = struct.Struct("<4s22x2H")
_ENCRYPTED = 1
_BUFFER = 2**16


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, by its first bytes."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def list_members(path: Path) -> list[zipfile.ZipInfo]:
    """Return the files in an archive, in the order of its list; raise DataError E202 without a
    list.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [member for member in archive.infolist() if not member.is_dir()]
    except (zipfile.BadZipFile, RuntimeError, ValueError, struct.error) as error:
        message = f"not a valid zip archive: {error}"
        hint = "copy or download it again; a log is complete only when its tool has finished"
        raise refuse_file("E202", message, str(path), hint) from None


def open_member(path: Path, member: zipfile.ZipInfo) -> BinaryIO:
    """Return a stream of a member's bytes; raise DamagedError now or while it is read."""
    if member.flag_bits & _ENCRYPTED:
        raise DamagedError("it is encrypted")
    method = _choose_method(member.compress_type)
    stream = path.open("rb")
    try:
        if not 0 <= member.header_offset < path.stat().st_size:
            raise DamagedError("it is not where the archive's list says")  # noqa: TRY301 - closes the stream
        stream.seek(member.header_offset)
        head = stream.read(_HEAD.size)
        if not head.startswith(MAGIC) or len(head) < _HEAD.size:
            raise DamagedError("it is not where the archive's list says")  # noqa: TRY301 - closes the stream
        _, name_length, extra_length = _HEAD.unpack(head)
        stream.seek(name_length + extra_length, io.SEEK_CUR)
        return open_blocks(stream, _expand_member(stream, member, *method), _BUFFER)
    except BaseException:
        stream.close()
        raise


def _choose_method(method: int) -> tuple[Callable[[bytes], bytes], type[Exception]]:
    """Return the function that decompresses a member's blocks, and the error it raises."""
    if method == STORED:
        return bytes, zlib.error
    if method == DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress, zlib.error
    if method == ZSTANDARD:
        frames = open_zstd()
        return frames.decompress, frames.error
    raise DamagedError(f"it is compressed by the unsupported method {method}")


def _expand_member(
    packed: BinaryIO,
    member: zipfile.ZipInfo,
    expand: Callable[[bytes], bytes],
    error_type: type[Exception],
) -> Iterator[bytes]:
    """Yield the bytes of a member; compare its checksum at the end."""
    unread = member.compress_size
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
        if size > max(FREE_BYTES, member.compress_size * MAX_RATIO):
            raise DamagedError(f"it expands to more than {MAX_RATIO} times its size")
        yield part
    if checksum != member.CRC:
        raise DamagedError("its checksum is wrong")
