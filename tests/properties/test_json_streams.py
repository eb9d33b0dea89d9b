"""Laws of JSON that is read as a stream, for any value and any size of block."""

from __future__ import annotations

import io
import json
import os
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.importers.json_stream import DamagedError, JsonStream

EXAMPLES = 1_000 if os.environ.get("ANSWERKEY_LONG") else 40
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def read(text: str, block: int, *path: str) -> list[object]:
    """Return the elements to which a path leads, read so many characters at a time."""
    with patch("answerkey.importers.json_stream._BLOCK", block):
        return [value for _, value in JsonStream(io.StringIO(text)).elements(*path)]


@settings(max_examples=EXAMPLES)
@given(
    values=st.lists(VALUES, max_size=6),
    block=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    is_ascii=st.booleans(),
)
def test_a_stream_reads_what_the_whole_holds(
    values: list[object], block: int, indent: int | None, *, is_ascii: bool
) -> None:
    """A list by itself, and one inside objects beside other values."""
    text = json.dumps(values, indent=indent, ensure_ascii=is_ascii)
    assert read(text, block) == values
    inside = {"before": values, "a": {"x": values, "rows": values, "y": 1}, "after": {"rows": [0]}}
    assert (
        read(json.dumps(inside, indent=indent, ensure_ascii=is_ascii), block, "a", "rows") == values
    )


@settings(max_examples=EXAMPLES)
@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(1, 40), st.data())
def test_a_text_that_is_cut_off_is_damaged(
    values: list[object], block: int, data: st.DataObject
) -> None:
    """Wherever it is: nothing less than the whole is taken for it."""
    text = json.dumps(values)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    try:
        found = read(cut, block)
    except DamagedError:
        return
    raise AssertionError(found)
