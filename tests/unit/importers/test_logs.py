"""Laws of what readers get: members of archives, and JSON, also damaged or made to do harm."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from answerkey.errors import DataError
from answerkey.importers.archives import is_archive, list_members, open_member
from answerkey.importers.json_values import DamagedError, parse_bytes, parse_first

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk


def read_all(path: Path) -> dict[str, bytes]:
    """Return every member's bytes."""
    contents = {}
    for member in list_members(path):
        with open_member(path, member) as stream:
            contents[member.filename] = stream.read()
    return contents


@pytest.mark.parametrize("method", [0, 8, 93])
def test_members_are_read_whatever_they_are_compressed_by(desk: Desk, method: int) -> None:
    """Stored, deflated, and Zstandard in several frames."""
    files = {"a.json": b'{"a": 1}', "b/c.txt": "größer ".encode() * 5_000, "empty": b""}
    assert read_all(desk.archive("x.zip", files, method=method)) == files


def test_members_come_as_they_are_listed_wherever_the_archive_begins(desk: Desk) -> None:
    """A name that was written anew comes again.

    Offsets are counted from where the archive begins.
    """
    path = desk.archive("x.zip", [("b", b"1"), ("a", b"2"), ("b", b"3")], start=b"#!/bin/sh\n")
    assert [member.filename for member in list_members(path)] == ["b", "a", "b"]
    assert read_all(path) == {"b": b"3", "a": b"2"}


def test_large_archives_keep_their_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wide fields are read where the narrow ones are full."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 4)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        archive.writestr("folder/first", "some text " * 10)
        archive.writestr("second", "more text")
    texts = {"folder/first": b"some text " * 10, "second": b"more text"}
    assert read_all(tmp_path / "x.zip") == texts


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
    with pytest.raises(DataError, match=r"^error\[E202\]: .*not a valid zip archive"):
        list_members(path)


@pytest.mark.parametrize("place", [-1, 10_000, 2**62])
def test_a_member_outside_of_the_archive_is_damage(desk: Desk, place: int) -> None:
    """The archive names its place itself."""
    path = desk.archive("x.zip", {"a": b"text"}, start=b"start")
    (member,) = list_members(path)
    member.header_offset = place
    with pytest.raises(DamagedError, match="not where the archive's list says"):
        open_member(path, member)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"flags": 1}, "encrypted"), ({"method": 14}, "compressed by the unsupported method 14")],
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
def test_huge_members_are_cut_off(desk: Desk, monkeypatch: pytest.MonkeyPatch, method: int) -> None:
    """What is expanded is counted; what an archive states about sizes is not relied on."""
    monkeypatch.setattr("answerkey.importers.archives.FREE_BYTES", 1_000)
    path = desk.archive("x.zip", {"a": bytes(10_000_000)}, method=method)
    with pytest.raises(DamagedError, match="expands to more than 400 times its size"):
        read_all(path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"[1, 2", "not valid JSON: expecting ',' delimiter"),
        (b'[{"a": "never', "unterminated string"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1" + b"0" * 5_000 + b"]", "a number has too many digits"),
        (b'"\xff"', "byte 0xff is not valid UTF-8"),
    ],
)
def test_json_that_cannot_be_read_is_damaged(raw: bytes, message: str) -> None:
    """The message says why; nothing of it gives a first row unless that is whole."""
    with pytest.raises(DamagedError, match=message):
        parse_bytes(raw)
    assert parse_first(raw.decode(errors="replace")).object() == {}


def test_numbers_that_json_does_not_have_are_null() -> None:
    """The first row of a list, or of lines, is known before the text has ended."""
    assert parse_bytes(b"\xef\xbb\xbf[NaN, -Infinity, 1]") == [None, None, 1]
    assert parse_first('[\n {"a": 1}, {"b').object() == {"a": 1}
    assert parse_first('{"a": NaN}\n{"b').object() == {"a": None}


def test_json_that_is_too_large_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read as a whole."""
    monkeypatch.setenv("ANSWERKEY_MAX_LINE", "0.0001")
    log = desk.json("log.json", [{"pred": "A", "model_outputs": "x" * 2**20}])
    desk.refuse(
        "the file has more than 0.8 MB; if that is meant, set `ANSWERKEY_MAX_LINE", log, "mmlu-pro"
    )


# Logs that somebody damaged, or made to do harm.

ROW = {
    "question_id": 1,
    "question": "?",
    "options": ["x"],
    "answer": "A",
    "pred": "A",
    "model_outputs": "A",
}


def test_names_of_members_lead_nowhere(desk: Desk) -> None:
    """Nothing is unpacked: a path in an archive is a name."""
    members = {"../../evil.json": [ROW], "/etc/evil.json": [{**ROW, "question_id": 2}]}
    desk.bring(desk.archive("x.zip", members))
    assert sorted(path.name for path in desk.folder.parent.glob("*evil*")) == []
    assert desk.asked("sample_id") == ["1", "2"]


def test_text_that_is_not_utf8_is_named(desk: Desk) -> None:
    """By its line."""
    log = desk.folder / "output.jsonl"
    log.write_bytes(b'{"custom_id": "a", "response": null, "error": {}}\n{"custom_id": "\xff"}\n')
    error = desk.refuse("byte 0xff is not valid UTF-8", log)
    assert error.where is not None
    assert error.where.line == 2


def test_yaml_of_an_import_is_read_back_whatever_a_log_is_called(desk: Desk) -> None:
    """Names of tasks and models are values, never code or another key."""
    import answerkey as ak

    name = 'a: b #c "d" {{ 1/0 }} << config.x >> $HOME !include x \u2028 \x07'
    row = {
        "doc_id": 0,
        "doc": {"question": "?", "choices": ["x", "yy"]},
        "target": "A",
        "filter": "none",
    }
    names = {
        "resps": [["A"]],
        "filtered_resps": ["A"],
        "metrics": ["exact_match"],
        "exact_match": 1.0,
    }
    desk.lines("samples_x_2026-01-01T00-00-00.jsonl", [row | names])
    desk.json("results_2026-01-01T00-00-00.json", {"model_name": name, "results": {}})
    result = desk.bring(desk.folder / "samples_x_2026-01-01T00-00-00.jsonl")
    assert result.tasks[0].description.model == name
    assert ak.run(result.folder, out=desk.folder / "run").metrics["Accuracy"].value == 1.0
