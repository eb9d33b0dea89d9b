from __future__ import annotations

import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from answerkey.errors import DataError
from answerkey.importers.logs import DamagedError, is_archive, iterate_members, open_member

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk


def read_all(path: Path) -> dict[str, bytes]:
    """Return every member's bytes."""
    found = {}
    for member in iterate_members(path):
        with open_member(path, member) as stream:
            found[member.name] = stream.read()
    return found


@pytest.mark.parametrize("method", [0, 8, 93])
def test_members_are_read_whatever_they_are_compressed_by(desk: Desk, method: int) -> None:
    """Stored, deflated, and Zstandard in several frames."""
    files = {"a.json": b'{"a": 1}', "b/c.txt": "größer ".encode() * 5_000, "empty": b""}
    assert read_all(desk.archive("x.zip", files, method=method)) == files


def test_the_list_of_members_keeps_its_order_and_its_repetitions(desk: Desk) -> None:
    """A name that was written anew comes again."""
    path = desk.archive("x.zip", [("b", b"1"), ("a", b"2"), ("b", b"3")])
    assert [member.name for member in iterate_members(path)] == ["b", "a", "b"]


def test_an_archive_may_stand_behind_something_else(desk: Desk) -> None:
    """Offsets are counted from where the archive begins."""
    path = desk.archive("x.zip", {"a": b"text"}, start=b"#!/bin/sh\n")
    assert read_all(path) == {"a": b"text"}


def test_folders_are_no_members_and_a_comment_is_passed_over(tmp_path: Path) -> None:
    """As the standard library writes them."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.mkdir("folder")
        archive.writestr("folder/a", "text")
        archive.comment = b"PK is how zip marks begin"
    assert read_all(tmp_path / "x.zip") == {"folder/a": b"text"}


def test_large_archives_keep_sizes_and_offsets_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wide fields are read where the narrow ones are full."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 4)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("first", "some text " * 10)
        archive.writestr("second", "more text")
    assert read_all(tmp_path / "x.zip") == {"first": b"some text " * 10, "second": b"more text"}


def test_a_file_is_an_archive_by_its_first_bytes(desk: Desk) -> None:
    """Its name does not matter; a folder and a missing file are none."""
    assert is_archive(desk.archive("log.eval", {"a": b""}))
    assert not is_archive(desk.lines("x.zip", []))
    assert not is_archive(desk.folder)
    assert not is_archive(desk.folder / "nowhere")


def test_an_archive_that_was_cut_off_is_refused(desk: Desk) -> None:
    """Its list of members is at its end."""
    path = desk.archive("x.zip", {"a": b"text" * 100})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="not a valid zip archive: it ends in the middle") as caught:
        list(iterate_members(path))
    assert caught.value.code == "E202"


@pytest.mark.parametrize("place", [-1, 10_000, 2**62, 2**64 - 1])
def test_a_place_outside_of_the_archive_is_damage(desk: Desk, place: int) -> None:
    """Of a member, and of the list of members in a large archive."""
    path = desk.archive("x.zip", {"a": b"text"})
    (member,) = iterate_members(path)
    with pytest.raises(DamagedError, match="the list of members is damaged"):
        open_member(path, replace(member, offset=place))
    raw = path.read_bytes()
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, place % 2**64, 1)
    path.write_bytes(raw[:-22] + locator + raw[-22:])
    with pytest.raises(DataError, match="the list of members is damaged"):
        list(iterate_members(path))


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"flags": 1}, "encrypted"), ({"method": 14}, "compressed by method 14, which is not read")],
)
def test_what_cannot_be_read_is_said(desk: Desk, options: dict[str, int], reason: str) -> None:
    """Encryption, and methods that are not known."""
    path = desk.archive("x.zip", {"a": b"text"}, **options)
    with pytest.raises(DamagedError, match=reason):
        read_all(path)


@pytest.mark.parametrize("method", [0, 8, 93])
def test_a_member_with_other_bytes_is_refused(desk: Desk, method: int) -> None:
    """Its checksum is compared when it has been read."""
    path = desk.archive("x.zip", {"a": b"0123456789" * 20}, method=method)
    raw = bytearray(path.read_bytes())
    raw[45] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(DamagedError):
        read_all(path)


@pytest.mark.parametrize("method", [8, 93])
def test_a_member_that_expands_beyond_reason_is_cut_off(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, method: int
) -> None:
    """What is expanded is counted; what an archive states about sizes is not relied on."""
    monkeypatch.setattr("answerkey.importers.logs.SMALL", 1_000)
    path = desk.archive("x.zip", {"a": bytes(10_000_000)}, method=method)
    with pytest.raises(DamagedError, match="expands to more than 400 times its size"):
        read_all(path)
