"""Damaged text files give samples or an error of ours, never anything else."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.datasets import read_table
from answerkey.errors import DataError, Problems

WHOLE = {
    "a.csv": b'q,choices\nWhat?,"[""A"", ""B""]"\n"two\nlines",[]\n',
    "a.tsv": b'q\tchoices\nWhat?\t["A"]\n',
    "a.jsonl": b'{"q": "What?", "choices": ["A", {"k": 1.5}]}\n\n{"q": null, "n": 12}\n',
    "a.json": b'[{"q": "What?", "choices": ["A", {"k": 1.5}]},\n {"q": null, "n": 12}]\n',
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
]


@pytest.mark.parametrize("name", list(WHOLE))
@settings(deadline=None)
@given(st.data())
def test_damage_is_an_error_or_harmless(name: str, draw: st.DataObject) -> None:
    """Whatever is cut out of a file or put into it, reading ends with samples or with a data error."""
    raw = WHOLE[name]
    for _ in range(draw.draw(st.integers(1, 3))):
        start = draw.draw(st.integers(0, len(raw)))
        end = draw.draw(st.integers(start, min(len(raw), start + 9)))
        raw = raw[:start] + draw.draw(st.sampled_from([b"", *PIECES])) + raw[end:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        with suppress(DataError, Problems):
            json.dumps([dict(row) for row in read_table(path).rows()], allow_nan=False)
