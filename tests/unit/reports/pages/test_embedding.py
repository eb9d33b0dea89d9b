from __future__ import annotations

import base64
import gzip
import json
import re

import pytest

from answerkey.reports.pages.embedding import join_columns, pack, write_block, write_element, write_json

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    "&lt;/script&gt;",
    "\u2028\u2029",
    "\x00\x1b[31m",
    "\ud800 half",
    "\ufeff\u202e",
    "'\"`${}\\",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_can_end_its_block(text: str) -> None:
    """What comes back is the text; in the page nothing of it is markup, and all of it is UTF-8."""
    written = write_json({text: [text]})
    assert re.search("[<>&\u2028\u2029\ud800-\udfff]", written) is None
    assert json.loads(written) == {text: [text]}
    assert json.loads(written.encode().decode()) == {text: [text]}


def test_numbers_are_finite() -> None:
    """JSON has no NaN: it becomes null."""
    assert write_json({"a": float("nan"), "b": [float("inf"), 1.5]}) == '{"a":null,"b":[null,1.5]}'


def test_small_blocks_are_plain_and_large_ones_packed() -> None:
    """A packed block says so, and unpacks to the same JSON."""
    assert write_element("x", write_block([1])) == '<script type="application/json" id="x">[1]</script>\n'
    large = write_element("x", write_block(["<é😀"] * 2_000))
    found = re.fullmatch(
        r'<script type="application/json" id="x" data-packed="gzip">([A-Za-z0-9+/=]+)</script>\n', large
    )
    assert found is not None
    assert json.loads(gzip.decompress(base64.b64decode(found[1]))) == ["<é😀"] * 2_000


def test_packing_is_repeatable() -> None:
    """The same text gives the same bytes: there is no time in them."""
    assert pack("a" * 5_000) == pack("a" * 5_000)


def test_few_texts_are_numbered() -> None:
    """Columns of names become codes, -1 where there is none."""
    names = ("p", "id", "trial", "value", "flipped", "head", "category", "truth", "predicted", "status")
    part = {name: ["x", None] for name in (*names, "validity", "reason")}
    joined = join_columns([part, part])
    assert joined["category"] == {"codes": [0, -1, 0, -1], "names": ["x"]}
    assert joined["id"] == ["x", None, "x", None]
