"""Damaged text files give samples or an error of ours, never anything else; streamed ones the very same."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.datasets import columns, content, load_table, rows, text_files
from answerkey.errors import AnswerkeyError

WHOLE = {
    "a.csv": b'q,choices\nWhat?,"[""A"", ""B""]"\n"two\nlines",[]\n',
    "a.tsv": b'q\tchoices\nWhat?\t["A"]\n',
    "a.jsonl": b'{"q": "What?", "choices": ["A", {"k": 1.5}]}\n\n{"q": null, "n": 12}\n{"n": 1.5}\n',
    "a.json": b'[{"q": "What?", "choices": ["A", {"k": 1.5}]},\n {"q": null, "n": 12}, {"n": [1]}]\n',
}
PIECES = [
    b'"',
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"{",
    b"[",
    b"]",
    b",",
    b"\t",
    b"\\ud800",
    b"NaN",
    b'{"n": "x"}\n',
]
EXAMPLES = 2000 if os.environ.get("ANSWERKEY_LONG") else 100


@contextmanager
def read_as_stream(size: int, folder: Path) -> Iterator[None]:
    """Let every file be read in chunks of so many rows, through windows of so many characters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "HELD_BYTES", -1)
        patch.setattr(rows, "BLOCK_ROWS", size)
        patch.setattr(columns, "CHUNK_ROWS", size)
        patch.setattr(text_files, "_BLOCK", size)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


def read(path: Path) -> object:
    """Return all that a file says, or all that is wrong with it."""
    try:
        table = load_table(path)
    except AnswerkeyError as error:
        return str(error)
    samples = table.samples
    values = json.dumps([dict(row) for row in samples.rows()], allow_nan=False)
    lines = None if samples.lines is None else samples.lines.to_list()
    about = samples.frame.schema, samples.encoded, table.digest, table.notices
    return values, samples.ids.to_list(), lines, about


@pytest.mark.parametrize("name", list(WHOLE))
@settings(max_examples=EXAMPLES)
@given(st.data())
def test_damage_is_an_error_or_harmless(name: str, draw: st.DataObject) -> None:
    """Whatever is cut out of a file or put into it, both ways of reading end with the same rows or errors."""
    raw = WHOLE[name]
    for _ in range(draw.draw(st.integers(0, 3))):
        start = draw.draw(st.integers(0, len(raw)))
        end = draw.draw(st.integers(start, min(len(raw), start + 9)))
        raw = raw[:start] + draw.draw(st.sampled_from([b"", *PIECES])) + raw[end:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        held = read(path)
        with read_as_stream(draw.draw(st.integers(1, 20)), Path(folder)):
            assert read(path) == held
            assert read(path) == held  # from the cache, if it could be read at all
