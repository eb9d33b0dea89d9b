"""Blocks of rows that are all alike: for any bytes the same table, and the same errors, as row by row."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.datasets import blocks, columns, formats
from answerkey.datasets.content import Content
from answerkey.errors import AnswerkeyError
from answerkey.types import Notice

LONG = bool(os.environ.get("ANSWERKEY_LONG"))
EXAMPLES = 20_000 if LONG else 40
#: Files of each format.
FILES = 20_000 if LONG else 80
#: Whole numbers and fractions at their limits, escapes, and what JSON has not.
ODD_VALUES = (
    "1.0", "1e5", "-0", "-0.0", "0.1", "1E400", "007", "+1", "1.", ".5", "NaN", "Infinity", "-Infinity",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "123456789012345678901234567890",
    "true", "false", "null", "[]", "{}", "[1,2]", '["A",2]', '["A", "B"]', '["A","B"]', "[null]", "[[]]",
    '{"x":1,"x":2}', '{"x": 1}', '{"answer":"B"}', '""', '","', '", "', '"\\n"', '"\\u00e9"',
    '"\\ud83d\\ude00"', '"\\ud800"', '"\\\\"',
    '"\\""', '"\\/\\b\\f\\r\\t"', '"\\x"', '"\x01"', '"\x1f"', '"é"', '"\u2028"',
    '",\\"answer\\":\\""', '"a" ', " 1", '"a"b', "'a'", "tru",
)  # fmt: skip
ODD_BYTES = (
    b"\n", b"\r\n", b"\r", b"\n\n", b"\x00", b"\xef\xbb\xbf", b"\xff", b"\xe2\x82", b"\t", b" ", b",", b'"',
    b'""', b"\\", b"{", b"}", b"[", b"]", b":", b'","', b'", "', b"\x1e", b"\x1f", b"\\u0041", b"\\ud800",
    b'\\"', b"1", b"e", b'"answer":', b',"answer":"A"', b',"new":1', b"null", b";", b"\xc3\xa9", b"x" * 300,
)  # fmt: skip
SPACINGS = ((",", ":"), (", ", ": "), (",\t", ":"))

Outcome = tuple[list[str], object, object]


def read(raw: bytes, form: formats.FormatName, block: int) -> Outcome:
    """Return the table, its lines and types, or the errors, of a file that is read in blocks of this size."""
    content = Content(f"rows.{form}", Path(f"rows.{form}"), raw=raw)
    chunks: dict[int, pl.DataFrame] = {}
    notices: list[Notice] = []
    with patch.object(blocks, "BLOCK_BYTES", block):
        try:
            try:
                parts = formats.READERS[form](content, notices)
                built = columns.build_table(parts, content.file, {}, chunks)
            except (AnswerkeyError, UnicodeDecodeError):
                content.check_text()
                raise
        except AnswerkeyError as error:
            found = getattr(error, "errors", [error])
            return ["error"], [(one.code, one.message, one.where, one.hint) for one in found], notices
    frame = pl.concat([chunks[number] for number in sorted(chunks)])
    known = built.rows, built.encoded, built.first_line
    return (
        [f"{name} {kind}" for name, kind in frame.schema.items()],
        repr(frame.rows()),
        (known, str(notices)),
    )


def refuse(_self: object, _raw: bytes) -> None:
    """Take no block, so that all rows are read one by one."""


def compare(raw: bytes, form: formats.FormatName, block: int) -> None:
    """Require the same of a file whether its blocks are taken or not, and whatever their size is."""
    found = read(raw, form, block)
    with patching(refuse):
        assert found == read(raw, form, 2**20)


@contextmanager
def patching(parse: Callable[..., object]) -> Iterator[None]:
    """Let all blocks be parsed by this."""
    json_way = patch.object(blocks.JsonBlocks, "parse", parse)
    with json_way, patch.object(blocks.DelimitedBlocks, "parse", parse):
        yield


def mutate(raw: bytes, choice: random.Random) -> bytes:
    """Return bytes of which a few were replaced, removed, doubled or moved."""
    changed = bytearray(raw)
    for _ in range(choice.randint(0, 3)):
        at = choice.randrange(len(changed) + 1)
        until = min(len(changed), at + choice.choice((0, 0, 1, 1, 5, 40)))
        put = choice.choice((*ODD_BYTES, b"", bytes([choice.randrange(256)]), bytes(changed[at:until]) * 2))
        changed[at:until] = put
    cut = choice.randrange(8)
    return bytes(changed[: choice.randrange(len(changed) + 1)] if cut == 0 else changed)


def write_json(choice: random.Random) -> bytes:
    """Return rows that are nearly alike, some cells of which are odd."""
    comma, colon = choice.choice(SPACINGS)
    texts = ("A", "", "What, is?", "a\nb", "é 里", 'say "x"', "\\", "😀", "C:\\n", "x" * 90)
    is_ascii = choice.random() < 0.3
    dump = partial(json.dumps, ensure_ascii=is_ascii, separators=(comma, colon))
    makers: dict[str, Callable[[], str]] = {
        "question": lambda: dump(choice.choice(texts)),
        "n": lambda: str(choice.randrange(-5, 10 ** choice.randrange(1, 19))),
        "options": lambda: dump([choice.choice(texts) for _ in range(choice.randint(1, 4))]),
        "score": lambda: repr(choice.random()),
        "doc": lambda: dump({"a": choice.randrange(9), "b": [choice.choice(texts)]}),
        "flag": lambda: choice.choice(("true", "false", "null")),
        "maybe": lambda: choice.choice(("null", dump(choice.choice(texts)))),
        "answer": lambda: dump(choice.choice("ABCD")),
    }
    names = choice.sample(list(makers), choice.randint(1, len(makers)))
    lines = []
    for _ in range(choice.randint(1, 30)):
        cells = [(name, makers[name]()) for name in names]
        if choice.random() < 0.04:
            at = choice.randrange(len(cells))
            cells[at] = cells[at][0], choice.choice(ODD_VALUES)
        if choice.random() < 0.02:
            choice.shuffle(cells)
        if choice.random() < 0.02:
            cells.append(choice.choice(cells))
        if choice.random() < 0.02:
            cells.pop()
        lines.append("{" + comma.join(f'"{name}"{colon}{cell}' for name, cell in cells) + "}")
    ending = choice.choice(("\n", "\n", "\n", "\r\n"))
    return (ending.join(lines) + choice.choice(("", ending))).encode("utf-8", "surrogatepass")


def write_csv(choice: random.Random) -> bytes:
    """Return rows of CSV, each cell of which is in quotes where it has to be, or where it is odd."""
    texts = ("A", "", "What, is?", "a\nb", "é", 'say "x"', '"', " x ", "007", "a;b", "x" * 90)
    style, ending = choice.random(), choice.choice(("\n", "\n", "\r\n"))
    width = choice.randint(1, 4)
    lines = [",".join(f"c{place}" for place in range(width))]
    for _ in range(choice.randint(1, 30)):
        cells = [choice.choice(texts) for _ in range(width)]
        must = [any(mark in cell for mark in ',"\n\r') for cell in cells]
        quoted = [style < 0.2 or one or choice.random() < 0.01 for one in must]
        pairs = zip(cells, quoted, strict=True)
        line = ",".join('"' + cell.replace('"', '""') + '"' if is_in else cell for cell, is_in in pairs)
        lines.append(choice.choice(("", "a,b", 'x"y,"z"q', line)) if choice.random() < 0.02 else line)
    return (ending.join(lines) + choice.choice(("", ending))).encode()


@pytest.mark.parametrize(("form", "write"), [("jsonl", write_json), ("csv", write_csv)])
def test_mutated_rows_are_read_as_row_by_row(
    form: formats.FormatName, write: Callable[[random.Random], bytes]
) -> None:
    """Table, types, lines, notices and errors are the same; about half of the files have blocks to take."""
    taken = 0
    parse_json, parse_csv = blocks.JsonBlocks.parse, blocks.DelimitedBlocks.parse

    def count(self: blocks.JsonBlocks | blocks.DelimitedBlocks, raw: bytes) -> object:
        nonlocal taken
        found = parse_json(self, raw) if isinstance(self, blocks.JsonBlocks) else parse_csv(self, raw)
        taken += found is not None
        return found

    for seed in range(FILES):
        choice = random.Random(seed)
        raw = write(choice)
        raw = mutate(raw, choice) if choice.random() < 0.6 else raw
        with patching(count):
            compare(raw, form, choice.choice((40, 300, 2**20, 2**20, 2**20)))
    assert taken > FILES // 4


#: Cells of a column that are all alike; the rows that a block is judged by show nothing else.
ALIKE = {
    "text": '"A"',
    "whole": "7",
    "fraction": "0.5",
    "texts": '["A","B"]',
    "flag": "true",
    "object": '{"x":1}',
}


@pytest.mark.parametrize("kind", ALIKE)
def test_one_odd_cell_far_below_is_read_as_row_by_row(kind: str) -> None:
    """Whatever stands in one row, or in place of some of its bytes, after many rows that are alike."""
    comma, colon = SPACINGS[0]
    rows = [f'{{"a"{colon}{ALIKE[kind]}{comma}"n"{colon}{number}}}' for number in range(30)]
    odd = [
        f'{{"a"{colon}{value}{comma}"n"{colon}25}}'.encode("utf-8", "surrogatepass") for value in ODD_VALUES
    ]
    plain = rows[25].encode()
    places = range(len(plain) + 1) if LONG else range(0, len(plain) + 1, 9)
    odd += [plain[:at] + put + plain[at + size :] for at in places for put in ODD_BYTES for size in (0, 1)]
    before, after = ("\n".join(part).encode() for part in (rows[:25], rows[26:]))
    for row in odd:
        compare(before + b"\n" + row + b"\n" + after, "jsonl", 2**20)


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | CELLS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELLS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=EXAMPLES)
@given(
    kinds=st.lists(
        st.sampled_from([CELLS, st.integers(), st.lists(CELLS), st.floats(), VALUES]), min_size=1, max_size=4
    ),
    data=st.data(),
    is_ascii=st.booleans(),
    spacing=st.sampled_from(SPACINGS),
)
def test_any_values_are_read_as_row_by_row(
    kinds: list[st.SearchStrategy[object]], data: st.DataObject, spacing: tuple[str, str], *, is_ascii: bool
) -> None:
    """Columns of texts, numbers, lists, or anything, with any names."""
    names = data.draw(st.lists(CELLS, min_size=len(kinds), max_size=len(kinds)))
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=6))
    lines = [
        json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=is_ascii, separators=spacing)
        for row in rows
    ]
    compare("\n".join(lines).encode(), "jsonl", 2**20)


@settings(max_examples=EXAMPLES)
@given(raw=st.binary(max_size=60), form=st.sampled_from(["jsonl", "csv"]), block=st.integers(1, 70))
def test_any_bytes_are_read_as_row_by_row(raw: bytes, form: formats.FormatName, block: int) -> None:
    """Most of them are no rows at all."""
    compare(raw, form, block)


def test_a_block_that_polars_cuts_otherwise_is_read_in_another_way() -> None:
    """A row that is lost, a cell that is null or longer, and another key are not taken from it."""
    raw = b'{"a":"x","n":1}\n{"a":"y","n":2}\n'
    schema = dict.fromkeys("0123456", pl.String)
    cut = pl.read_csv(raw, has_header=False, schema=schema, separator='"', quote_char=None)
    changes: dict[str, list[list[str | None]]] = {
        "3": [["x", None], ["x", "yy"]],
        "5": [["n", "m"], ["n", None]],
        "6": [[":1}", ":2]"]],
    }
    wrong = [cut.with_columns(pl.Series(name, one)) for name, given in changes.items() for one in given]
    for frame in (cut, cut.head(1), *wrong):
        with patch.object(pl, "read_csv", lambda *_, frame=frame, **__: frame):
            reader = blocks.JsonBlocks()
            found = reader.parse(raw)
        assert found is not None
        assert reader.way == (0 if frame is cut else 2)
        assert {name: list(cells) for name, cells in found[0].items()} == {"a": ["x", "y"], "n": [1, 2]}


@pytest.mark.parametrize(
    ("way", "rows"),
    [
        (
            0,
            [
                {"a": "é\n\\", "n": -1, "f": 0.5, "l": ["", "y"]},
                {"a": "", "n": 2, "f": 1.0, "l": ["\t", "x"]},
            ],
        ),
        (1, [{"a": 'say "x"', "l": ["\\", '"']}, {"a": '\\"\u2028', "l": ['",', '","l":["']}]),
        (2, [{"a": "x", "l": ["a", "b"]}, {"a": "y", "l": ["c"]}]),
        (3, [*[{"a": "x", "l": {"a": "b"}}] * 20, {"a": None, "l": {"a": "c"}}]),
    ],
)
def test_rows_that_are_alike_are_read_in_the_fastest_way(way: int, rows: list[dict[str, object]]) -> None:
    """As many texts in each row, quotes inside of them, lists of several sizes, values of several kinds."""
    reader = blocks.JsonBlocks()
    found = reader.parse("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    assert found is not None
    assert reader.way == way
    assert {name: pl.Series(cells).to_list() for name, cells in found[0].items()} == {
        name: [row[name] for row in rows] for name in rows[0]
    }


def test_rows_that_cannot_be_taken_in_blocks_are_read_row_by_row() -> None:
    """A last row that ends otherwise, half of a pair inside a list, and a row that is longer than a cell."""
    compare(
        b'{"a": 1, "b": 2}\n {"a": 1, "b": 2 }\n' + b'{"a": 1, "b": 2}\n' * 20 + b'{"a": 1, "b": 2 }',
        "jsonl",
        2**20,
    )
    compare(b'{"a":["x",1]}\n{"a":["\\ud800",1]}\n', "jsonl", 2**20)
    with patch.object(blocks, "MAX_ROW", 20):
        compare(b'a,b\n"' + b"x" * 90 + b'",y\n', "csv", 8)
