"""Bytes and text of files, whole and damaged."""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.datasets import rows, tables
from answerkey.datasets.content import Content, find_line_limit
from answerkey.datasets.tables import load_table
from answerkey.errors import AnswerkeyError, DataError, Place, SpecError


def open_content(path: Path) -> Content:
    """Return the content of a file."""
    return Content(str(path), path)


Write = Callable[[str, str | bytes], Path]
ROWS = b"a,b\n" + b"1,2\n" * 1000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("question.csv", r"did you mean `questions\.csv`\?$"),
        ("nowhere/a.csv", "files there: none$"),
        ("", "it is a folder"),
        ("\0.csv", "cannot read"),
    ],
)
def test_what_is_no_file_is_refused(write: Write, name: str, words: str) -> None:
    """E201, with the nearest name where there is one: nothing there, a folder, a name no file can
    have.
    """
    folder = write("questions.csv", "a\n1\n").parent
    with pytest.raises(DataError, match=f"(?s)E201.*{words}"):
        open_content(Path(f"{folder}/{name}")).open()


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a.csv.gz", gzip.compress(ROWS, mtime=0)),
        ("a.csv.GZ", gzip.compress(ROWS[:500], mtime=0) + gzip.compress(ROWS[500:], mtime=0)),
        ("a.csv.zst", zstandard.compress(ROWS)),
        ("b.csv.zst", zstandard.compress(ROWS[:500]) + zstandard.compress(ROWS[500:])),
        ("c.csv.zst", b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + zstandard.compress(ROWS)),
    ],
)
def test_compressed_files_are_expanded_whole(write: Write, name: str, raw: bytes) -> None:
    """All members and frames of a compressed file are read, skippable frames passed over."""
    content = open_content(write(name, raw))
    assert content.open().read() == ROWS
    assert content.digest == "2b2926135aa8c482f45d351a278653b3ea8faedce03bb990fceed929ab7b035c"


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.csv.gz", gzip.compress(ROWS, mtime=0)[:-9], "the gzip file ends in the middle"),
        ("a.csv.gz", ROWS, "not a valid gzip file"),
        ("a.csv.zst", zstandard.compress(ROWS)[:-1], "the zstd file ends in the middle"),
        ("a.csv.zst", zstandard.compress(ROWS) + b"rest", "not a valid zstd file"),
        ("a.csv.zst", ROWS, "not a valid zstd file"),
    ],
)
def test_damaged_compression_is_refused(write: Write, name: str, raw: bytes, message: str) -> None:
    """A compressed file that is cut off or not compressed gives E202, never fewer rows."""
    with pytest.raises(DataError, match=f"E202.*{message}"):
        open_content(write(name, raw)).open().read()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_read_by_its_byte_order_mark(write: Write, encoding: str) -> None:
    """As spreadsheets write it; a half character is E203."""
    raw = "\ufeffa,ü\n1,2\n".encode(encoding)
    assert load_table(write("a.csv", raw)).samples.columns == ["a", "ü"]
    with pytest.raises(DataError, match=r"E203.*not valid utf-16"):
        load_table(write("a.csv", raw[:-1]))


@pytest.mark.parametrize(
    ("raw", "message", "line", "column"),
    [
        (b"a,b\nfine,2\n\xc3\xa9\xe9,3\n", "byte 0xe9 is not valid UTF-8", 3, 2),
        (b"a,b\n1,2\n1,\x002\n", "NUL byte in the text", 3, 3),
    ],
)
def test_what_is_no_text_is_refused(
    write: Write, raw: bytes, message: str, line: int, column: int
) -> None:
    """The first line with bytes that are not UTF-8, or a NUL, is E203 with line and column."""
    path = write("a.csv", raw)
    with pytest.raises(DataError, match=f"E203.*{message}") as caught:
        open_content(path).check_text()
    assert caught.value.where == Place(str(path), line, column)


def test_a_compressed_file_under_a_plain_name_is_recognised(write: Write) -> None:
    """The first bytes of a file are used for the hint, never to guess the format."""
    hint = r"by its first bytes this file is compressed with gzip: add `\.gz` to its name$"
    with pytest.raises(DataError, match=hint):
        open_content(write("a.csv", gzip.compress(ROWS, mtime=0))).check_text()


WHOLE = {
    "a.csv": b'q,choices\nWhat?,"[""A"", ""B""]"\n"two\nlines",[]\n',
    "a.tsv": b'q\tchoices\nWhat?\t["A"]\n',
    "a.jsonl": b'{"q": "What?", "choices": ["A", {"k": 1.5}]}\n\n{"q": '
    b'null, "n": 12}\n{"n": 1.5}\n',
    "a.json": b'[{"q": "What?", "choices": ["A", {"k": 1.5}]},\n {"q": null, "n": 12}, {"n": '
    b"[1]}]\n",
}
PIECES = [bytes([one]) for one in b'"\n\r\0\xff{[],\t']
PIECES += [b"\xef\xbb\xbf", b"\\ud800", b"NaN", b'{"n": "x"}\n']


@contextmanager
def read_from_files(size: int) -> Iterator[None]:
    """Read rows in chunks of this many, through windows of this many characters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "HELD_BYTES", -1)
        patch.setattr(rows, "BLOCK_ROWS", size)
        yield


def read(path: Path) -> object:
    """Return all that a file says, or all that is wrong with it."""
    try:
        table = load_table(path)
    except AnswerkeyError as error:
        return str(error)
    samples = table.samples
    values = json.dumps([dict(row) for row in samples.rows()], allow_nan=False)
    places = [(sample.id, sample.file, sample.line) for sample in samples]
    return values, places, list(samples.columns), table.digest


@pytest.mark.parametrize("name", list(WHOLE))
@settings(max_examples=2000 if os.environ.get("ANSWERKEY_LONG") else 40)
@given(st.data())
def test_damage_is_an_error_or_harmless(name: str, draw: st.DataObject) -> None:
    """Whatever is cut out of a file or put into it, both ways of reading end with the same rows or
    errors.
    """
    raw = WHOLE[name]
    for _ in range(draw.draw(st.integers(0, 3))):
        start = draw.draw(st.integers(0, len(raw)))
        end = draw.draw(st.integers(start, min(len(raw), start + 9)))
        raw = raw[:start] + draw.draw(st.sampled_from([b"", *PIECES])) + raw[end:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        held = read(path)
        with read_from_files(draw.draw(st.integers(1, 20))):
            assert read(path) == held


def test_the_environment_sets_how_long_a_line_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """In gigabytes; `off` is no limit, and nonsense is E119."""
    monkeypatch.setenv("ANSWERKEY_MAX_LINE", "0.5")
    assert find_line_limit() == 5 * 10**8
    monkeypatch.setenv("ANSWERKEY_MAX_LINE", "off")
    assert find_line_limit() == sys.maxsize
    monkeypatch.setenv("ANSWERKEY_MAX_LINE", "much")
    with pytest.raises(SpecError, match=r"^error\[E119\]: .*`ANSWERKEY_MAX_LINE` is 'much'"):
        find_line_limit()
