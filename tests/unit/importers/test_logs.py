"""Laws of what readers get: members of archives, elements of JSON, values kept on disk."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from answerkey.errors import DataError
from answerkey.importers.archives import is_archive, iterate_members, open_member
from answerkey.importers.json_stream import DamagedError, JsonStream, parse_json
from answerkey.importers.logs import LookupTable

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


def test_members_come_as_they_are_listed_wherever_the_archive_begins(desk: Desk) -> None:
    """A name that was written anew comes again.

    Offsets are counted from where the archive begins.
    """
    files = [("b", b"1"), ("a", b"2"), ("b", b"3")]
    path = desk.archive("x.zip", files, start=b"#!/bin/sh\n")
    assert [member.name for member in iterate_members(path)] == ["b", "a", "b"]
    assert read_all(path) == {"b": b"3", "a": b"2"}


def test_folders_are_no_members_and_a_comment_is_passed_over(tmp_path: Path) -> None:
    """As the standard library writes them."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.mkdir("folder")
        archive.writestr("folder/a", "text")
        archive.comment = b"PK is how zip marks begin"
    assert read_all(tmp_path / "x.zip") == {"folder/a": b"text"}


def test_large_archives_keep_sizes_and_offsets_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr("answerkey.importers.archives.SMALL", 1_000)
    path = desk.archive("x.zip", {"a": bytes(10_000_000)}, method=method)
    with pytest.raises(DamagedError, match="expands to more than 400 times its size"):
        read_all(path)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a few characters at a time, so that every value is cut somewhere."""
    monkeypatch.setattr("answerkey.importers.json_stream._BLOCK", 7)


def read(text: str, *path: str) -> list[tuple[str, object]]:
    """Return the elements to which a path leads."""
    return list(JsonStream(io.StringIO(text)).elements(*path))


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_comes_element_by_element(indent: int | None) -> None:
    """Whatever white space stands between, and wherever a block ends."""
    values = [
        {"a": [1, 2.5, 'text with \\ and " and ]']},
        12345678901,
        "x" * 40,
        None,
        True,
        [],
        {},
    ]
    found = read(json.dumps(values, indent=indent))
    assert found == [(str(place), value) for place, value in enumerate(values)]


def test_a_path_leads_into_objects_and_what_is_beside_it_can_be_kept() -> None:
    """Of what stands beside, only what was asked for stays in memory."""
    text = json.dumps(
        {"head": {"n": 1}, "other": [[1], {"x": [2]}], "results": {"v": 3, "rows": [4, 5]}, "z": 6}
    )
    stream = JsonStream(io.StringIO(text))
    assert list(stream.elements("results", "rows", kept=("head", "results/v", "z"))) == [
        ("0", 4),
        ("1", 5),
    ]
    assert stream.beside == {"head": {"n": 1}, "results/v": 3, "z": 6}


@pytest.mark.parametrize(
    ("text", "path", "elements"),
    [
        ('{"1": {"a": 1}, "0": 2}', (), [("1", {"a": 1}), ("0", 2)]),
        ('{"a": [1]}', ("b",), []),
        ('{"a": [1]}', ("a", "b"), []),
        ("[NaN, 1]", (), [("0", None), ("1", 1)]),
    ],
)
def test_values_come_by_their_keys(text: str, path: tuple[str, ...], elements: object) -> None:
    """A path that leads nowhere has none; numbers that JSON does not have are null."""
    assert read(text, *path) == elements
    assert parse_json("[NaN, Infinity, -Infinity, 1]") == [None, None, None, 1]


def test_the_line_of_an_element_is_known() -> None:
    """It is the one on which the element ends."""
    stream = JsonStream(io.StringIO('[\n{"a":\n1},\n\n{"b": 2}\n]'))
    assert [(stream.line, value) for _, value in stream.elements()] == [
        (3, {"a": 1}),
        (5, {"b": 2}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2", "not valid JSON at the end: expecting `,`"),
        ('[{"a": 1}\n{"b": 2}]', "not valid JSON on line 2: expecting `,`"),
        ('[{"a": tru}]', "not valid JSON on line 1: expecting value"),
        ("[1] 2", "extra text after the end"),
        ('[{"a": "never', "unterminated string"),
        ("[" * 100_000, "nested too deeply"),
        ("[1" + "0" * 5_000 + "]", "a number has too many digits"),
    ],
)
def test_a_text_that_breaks_off_is_damaged(text: str, message: str) -> None:
    """The message says where and why."""
    with pytest.raises(DamagedError, match=message):
        read(text)


def test_elements_before_the_damage_are_there() -> None:
    """A log that was cut off is read as far as it goes."""
    stream = JsonStream(io.StringIO('[{"a": 1}, {"b": 2}, {"c'))
    found: list[object] = []
    with pytest.raises(DamagedError):
        found.extend(value for _, value in stream.elements())
    assert found == [{"a": 1}, {"b": 2}]


def test_an_element_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file makes the window grow without end."""
    monkeypatch.setattr("answerkey.datasets.content.DEFAULT_LINE_BYTES", 100)
    with pytest.raises(DataError, match="an element has more than"):
        read(json.dumps(["x" * 1_000]))


def test_what_is_put_is_got_and_the_last_of_a_name_counts() -> None:
    """A name that was never put has nothing.

    Names come from logs, which may hold half a surrogate pair.
    """
    with LookupTable() as table:
        table.put("a", {"value": 1.5})
        table.put("a", ["two", None])
        table.put("\ud800", "\udfff")
        assert (table.get("a"), table.get("b"), table.count) == (["two", None], None, 3)
        assert table.get("\ud800") == "\udfff"
