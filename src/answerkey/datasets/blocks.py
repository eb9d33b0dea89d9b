"""Blocks of text files whose rows are all alike, as columns: the same cells as row by row, many times faster.

A block is accepted only with a proof that the readers of `formats` would find the same cells in it, and no
error; any other block is theirs. So nothing depends on this module but time.

JSON Lines: the first rows say what stands between the values, and of what kind these are. A regular
expression of that finds that all rows are made so; then what stands between are the values.
CSV: Polars parses the block. If its cells, written again by the rules of CSV, are the very bytes of the
block, they are what any reader of CSV finds there.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Literal, TypeVar

import polars as pl

from answerkey.datasets.columns import (
    DECODER,
    MAX_DEPTH,
    SURROGATE,
    BadJsonError,
    Cells,
    Chunk,
    choose_type,
    fill_column,
    find_shape,
    parse_json,
)
from answerkey.datasets.content import FOREIGN, MAX_CELL

Parsed = TypeVar("Parsed")
#: Columns by name, and how many rows they have.
Block = tuple[dict[str, Cells], int]
_WORKERS = 8
#: Small enough for a processor's cache.
BLOCK_BYTES = 2 * 2**20
#: After so many blocks in a row that were not alike, one in as many is tried.
_MISSES = 8
#: So many rows of a block say what its columns hold.
_LOOKED_AT = 16
#: Stands for what is between two values; JSON never has this character as it is.
_CUT = "\x1f"
_BRACE, _COLON, _COMMA = (re.compile(rf"[ \t\r]*{mark}[ \t\r]*") for mark in (r"\{", ":", ","))
#: Keys that could not be mistaken for the end of a text.
_KEY = re.compile(r'"\w[^"\\\x00-\x1f]*"')
_HEX = "[0-9a-fA-F]"
#: The inside of JSON strings; half of a surrogate pair is no character.
_INSIDE = (
    r'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF]' + _HEX + r"{3}|[dD][0-7]" + _HEX + "{2}"
    r"|[dD][89abAB]" + _HEX + r"{2}\\u[dD][c-fC-F]" + _HEX + "{2})))*"
)
_STRING = f'"{_INSIDE}"'


@dataclass(frozen=True)
class _Kind:
    """What the values of a column are made of: a regular expression, and what is around it."""

    pattern: str
    opening: str = ""
    closing: str = ""


_TEXT = _Kind(_INSIDE, '"', '"')
_WHOLE = _Kind("-?(?:0|[1-9][0-9]{0,17})")
_SCALAR = _Kind(rf"(?:{_STRING}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)")
#: Lists of texts, by what separates the texts.
_LISTS = {between: _Kind(f"{_INSIDE}(?:{between}{_INSIDE})*", '["', '"]') for between in ('","', '", "')}
#: Looked at value by value.
_ANYTHING = _Kind(r"[^\x00-\x1f]+")
#: Escapes of one character, and what they stand for.
_ESCAPES = {rf"\{letter}": meant for letter, meant in zip('\\"/bfnrt', '\\"/\b\f\n\r\t', strict=True)}
#: The search that finds the leftmost match is faster; older Polars has only the other. Here no two overlap.
_LEFTMOST: dict[str, Any] = (
    {"leftmost": True} if "leftmost" in inspect.signature(pl.Series([""]).str.replace_many).parameters else {}
)


class _UnlikeError(Exception):
    """A block without a proof."""


@dataclass
class JsonBlocks:
    """Parses blocks of JSON Lines; what did not help with the last ones is not tried each time."""

    misses: int = 0
    is_mixed: bool = False

    def parse(self, raw: bytes) -> Block | None:
        """Return the rows of a block; None where they are not all alike, or one is wrong."""
        if len(raw) > MAX_CELL or (self.misses >= _MISSES and self.misses % _MISSES):
            self.misses += 1
            return None
        for is_mixed in (self.is_mixed, not self.is_mixed):
            with suppress(_UnlikeError, BadJsonError, RecursionError, *FOREIGN):
                found = _split_block(raw if raw.endswith(b"\n") else raw + b"\n", is_mixed=is_mixed)
                self.misses, self.is_mixed = 0, is_mixed
                return found
        self.misses += 1
        return None


def _split_block(raw: bytes, *, is_mixed: bool) -> Block:
    """Return the rows of a block; `is_mixed` lets a column of texts also hold other values."""
    lines = raw.split(b"\n", _LOOKED_AT)[:-1]
    names, gaps = _find_gaps(lines[0].decode())
    looked_at = [parse_json(line.decode()) for line in lines]
    rows = [row for row in looked_at if isinstance(row, dict) and tuple(row) == names]
    if len(rows) < len(looked_at):
        raise _UnlikeError
    kinds = [_find_kind([row[name] for row in rows], lines[0], is_mixed=is_mixed) for name in names]
    before, after = ["", *(kind.closing for kind in kinds)], [*(kind.opening for kind in kinds), ""]
    head, *between, tail = ("".join(parts) for parts in zip(before, gaps, after, strict=True))
    joints = [*between, f"{tail}\n{head}"]
    if not raw.startswith(head.encode()) or not raw.endswith(f"{tail}\n".encode()):
        raise _UnlikeError
    body = raw[len(head.encode()) : -len(tail.encode()) - 1]
    text = pl.Series("text", [body], dtype=pl.Binary).cast(pl.String).to_frame()
    escaped = [pl.escape_regex(joint) for joint in joints]
    row = "".join(kind.pattern + joint for kind, joint in zip(kinds, [*escaped[:-1], ""], strict=True))
    piece, width = pl.col("text"), len(names)
    is_proved = text.select(piece.str.contains(rf"\A{row}(?:{escaped[-1]}{row})*\z")).item()
    if is_proved and _ANYTHING in kinds:  # else no key can be inside a value
        found = (piece.str.count_matches(one).alias(str(place)) for place, one in enumerate(escaped))
        counts = text.select(found).row(0)
        is_proved = len({*counts[:-1], counts[-1] + 1}) == 1
    if not is_proved:
        raise _UnlikeError
    if set(kinds) <= {_TEXT, _WHOLE}:  # what Polars reads fastest
        schema = {
            name: pl.String if kind is _TEXT else pl.Int64 for name, kind in zip(names, kinds, strict=True)
        }
        frame = pl.read_ndjson(raw, schema=schema)
        if frame.height != raw.count(b"\n") or any(one.null_count() for one in frame.iter_columns()):
            raise _UnlikeError
        return dict(zip(names, frame.iter_columns(), strict=True)), frame.height
    pieces = text.select(piece.str.replace_all("|".join(escaped), _CUT).str.split(_CUT).explode())
    cells = pieces.select(piece.gather_every(width, place).alias(str(place)) for place in range(width))
    escapes = cells.select(pl.all().str.contains("\\", literal=True)) if b"\\" in raw else None
    columns: dict[str, Cells] = {}
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        given, is_escaped = cells[str(place)], None if escapes is None else escapes[str(place)]
        if kind is _TEXT:
            columns[name] = _read_texts(given, is_escaped)
        elif kind is _ANYTHING:
            columns[name] = _decode_values(given)
        elif not kind.opening:
            columns[name] = _read_values(given)
        elif is_escaped is None or not is_escaped.any():
            columns[name] = given.str.split(next(one for one in _LISTS if _LISTS[one] is kind))
        else:
            columns[name] = _decode_values(kind.opening + given + kind.closing)
    return columns, cells.height


def _find_gaps(line: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the keys of a row, and what stands before, between and after its values."""
    names, gaps = list[str](), list[str]()
    begin, end, mark = 0, 0, _BRACE
    while found := mark.match(line, end):
        key = _KEY.match(line, found.end())
        colon = key and _COLON.match(line, key.end())
        if not key or not colon:
            raise _UnlikeError
        names.append(key[0][1:-1])
        gaps.append(line[begin : colon.end()])
        _, begin = DECODER.raw_decode(line, colon.end())
        end, mark = begin, _COMMA
    gaps.append(line[begin:])
    if gaps[-1].strip(" \t\r") != "}":
        raise _UnlikeError
    return tuple(names), gaps


def _find_kind(values: list[object], line: bytes, *, is_mixed: bool) -> _Kind:
    """Return what values of a column are made of; `line` is the first row."""
    kinds = set(map(type, values))
    if kinds == {str} and not is_mixed:
        return _TEXT
    if kinds == {int} and not is_mixed:
        return _WHOLE
    if not kinds & {list, dict}:
        return _SCALAR
    is_texts = all(isinstance(one, list) and one and set(map(type, one)) == {str} for one in values)
    return _LISTS['", "' if b'", "' in line else '","'] if is_texts and not is_mixed else _ANYTHING


def _read_texts(cells: pl.Series, is_escaped: pl.Series | None) -> pl.Series:
    """Return what stands between the quotes of JSON strings as text."""
    if is_escaped is None or not is_escaped.any():
        return cells
    texts = cells.filter(is_escaped)
    if texts.str.contains("\\u", literal=True).any():
        texts = pl.Series([parse_json(f'"{text}"') for text in texts], dtype=pl.String)
    else:
        texts = texts.str.replace_many(list(_ESCAPES), list(_ESCAPES.values()), **_LEFTMOST)
    places = is_escaped.cum_sum().cast(pl.Int64) - is_escaped.cast(pl.Int64)
    return texts.gather(places.clip(0, len(texts) - 1)).zip_with(is_escaped, cells)


def _read_values(cells: pl.Series) -> Cells:
    """Return JSON texts as values: whole numbers, text or null, or anything else."""
    first = cells[0]
    if first[0] in "-0123456789":
        numbers = cells.cast(pl.Int64, strict=False)
        if numbers.cast(pl.String).eq_missing(cells).all():
            return numbers
    if first[0] == '"' or first == "null":
        is_null = cells == "null"
        inner = cells.str.strip_prefix('"').str.strip_suffix('"')
        is_text = cells.str.len_bytes() == inner.str.len_bytes() + 2
        if is_text.any() and (is_text | is_null).all():
            return _read_texts(inner, inner.str.contains("\\", literal=True)).set(is_null, None)
    return _decode_values(cells)


def _decode_values(cells: pl.Series) -> Cells:
    """Return any JSON texts as values; each distinct text is parsed once."""
    distinct = cells.unique()
    values: list[object] = []
    for source in distinct:
        is_deep = source.count("[") + source.count("{") >= MAX_DEPTH
        value = None if is_deep else parse_json(source)
        if is_deep or ("\\u" in source and SURROGATE.search(json.dumps(value, ensure_ascii=False))):
            raise _UnlikeError
        values.append(value)
    shape = find_shape(values)
    dtype = choose_type(shape)
    if dtype is None or dtype != shape:
        known = dict(zip(distinct.to_list(), values, strict=True))
        return [known[text] for text in cells.to_list()]
    table = pl.DataFrame({"text": distinct, "value": fill_column("value", values, dtype)})
    found = cells.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    return found["value"]


@dataclass
class DelimitedBlocks:
    """Parses blocks of CSV with these columns, until one of them has no proof.

    `style` says which cells are in quotes, as the blocks so far have it.
    """

    names: tuple[str, ...]
    separator: str
    style: Literal["necessary", "always"] = "necessary"
    is_over: bool = False

    def parse(self, raw: bytes) -> tuple[dict[str, Cells], Sequence[int]] | None:
        """Return the rows of a block, and on which line of it each starts, from 0 on; None if unproved."""
        ending = "\r\n" if b"\r\n" in raw else "\n"
        whole = raw if raw.endswith(b"\n") else raw + ending.encode()
        breaks = whole.count(b"\n")
        # A line break of another kind ends a row, and a blank line is none, in a file of one column an error.
        is_odd = whole.count(b"\r") != (breaks if len(ending) > 1 else 0) or len(self.names) == 1
        if self.is_over or is_odd or len(raw) > MAX_CELL or b"\0" in raw:
            self.is_over = True
            return None
        schema = dict.fromkeys(map(str, range(len(self.names))), pl.String)
        with suppress(*FOREIGN):
            frame = pl.read_csv(whole, has_header=False, schema=schema, separator=self.separator)
            styles: tuple[Literal["necessary", "always"], ...] = (self.style, "necessary", "always")
            for style in dict.fromkeys(styles):
                out = io.BytesIO()
                frame.write_csv(
                    out,
                    include_header=False,
                    separator=self.separator,
                    line_terminator=ending,
                    quote_style=style,
                )
                if out.getvalue() != whole:
                    continue
                self.style = style
                has_null = any(one.null_count() for one in frame.iter_columns())
                cells = frame.fill_null("") if has_null else frame
                lines: Sequence[int] = range(frame.height)
                if breaks != frame.height:
                    inside = pl.sum_horizontal(pl.all().str.count_matches("\n", literal=True)).cast(pl.Int64)
                    lines = cells.select((inside + 1).cum_sum().shift(1, fill_value=0)).to_series().to_list()
                return dict(zip(self.names, cells.iter_columns(), strict=True)), lines
        self.is_over = True
        return None


def _count_quotes(raw: bytes) -> int:
    """Return how many there are; faster than Python where there are many."""
    octets = pl.Series([raw], dtype=pl.Binary).cast(pl.List(pl.UInt8)).explode()
    return int((octets == ord('"')).sum())


def cut_blocks(stream: BinaryIO, rest: bytes = b"", *, by_row: bool = False) -> Iterator[bytes]:
    """Yield the bytes of a stream in blocks that end with a line, or with a row where cells may be in quotes.

    `rest` was read before. A row that is too long for a cell is cut in the middle.
    """
    size = BLOCK_BYTES * 2 if by_row else BLOCK_BYTES
    while more := stream.read(max(size, len(rest))):
        raw = rest + more
        end = raw.rfind(b"\n") + 1
        is_open = by_row and _count_quotes(raw[:end]) % 2 == 1
        while is_open and end:
            before = raw.rfind(b"\n", 0, end - 1) + 1
            is_open = raw.count(b'"', before, end) % 2 == 0
            end = before
        if by_row and not end and len(raw) > MAX_CELL:
            end = len(raw)
        if end:
            yield raw[:end]
        rest = raw[end:]
    if rest:
        yield rest


def work_ahead(parse: Callable[[bytes], Parsed], blocks: Iterator[bytes]) -> Iterator[tuple[bytes, Parsed]]:
    """Yield each block with what it is parsed to; where there are several, some at the same time."""
    first = list(islice(blocks, 2))
    if len(first) < 2:  # noqa: PLR2004 - nothing to be ahead of
        yield from ((raw, parse(raw)) for raw in first)
        return
    workers = min(os.cpu_count() or 1, _WORKERS)
    with ThreadPoolExecutor(workers) as pool:
        waiting = deque((raw, pool.submit(parse, raw)) for raw in first)
        while waiting:
            waiting += ((raw, pool.submit(parse, raw)) for raw in islice(blocks, workers + 1 - len(waiting)))
            raw, parsed = waiting.popleft()
            yield raw, parsed.result()


def join_chunks(chunks: Iterable[Chunk], rows: int) -> Iterator[Chunk]:
    """Yield chunks, of which those that follow each other with the same types are one, up to so many rows."""
    parts: list[pl.DataFrame] = []
    held: Sequence[int] = ()
    for columns, lines in chunks:
        frame = pl.DataFrame(columns) if all(isinstance(one, pl.Series) for one in columns.values()) else None
        if parts and (frame is None or frame.schema != parts[0].schema or len(held) >= rows):
            yield pl.concat(parts).to_dict(), held
            parts, held = [], ()
        if frame is None:
            yield columns, lines
        elif isinstance(held, range) and isinstance(lines, range) and held.stop == lines.start:
            parts, held = [*parts, frame], range(held.start, lines.stop)
        else:
            parts, held = [*parts, frame], [*held, *lines] if parts else lines
    if parts:
        yield pl.concat(parts).to_dict(), held


# ── rows of nested objects, as the values inside ────────────────────────────────────────────────────────────

Keys = tuple[str, ...]
_END = re.compile(r"[ \t\r]*\}")


@dataclass(frozen=True)
class Leaf:
    """A value that all rows of a block have: `cells` are its JSON texts, without quotes around a text.

    Its kind is `text`, `texts` (a list, whose cells are cut by `between`), `whole` (a number), `scalar`, or
    `same` for anything else: that is the same in all rows and has no cells.
    """

    kind: Literal["text", "texts", "whole", "scalar", "same"]
    between: str
    cells: pl.Series

    def read(self) -> pl.Series:
        """Return the texts, or the lists of texts."""
        is_escaped = self.cells.str.contains("\\", literal=True)
        if self.kind == "text":
            return _read_texts(self.cells, is_escaped)
        if is_escaped.any():
            return pl.Series([parse_json(f'["{one}"]') for one in self.cells], dtype=pl.List(pl.String))
        return self.cells.str.split(self.between)


def split_leaves(raw: bytes) -> dict[Keys, Leaf] | None:
    """Return the values inside the rows of a block by the keys that lead to them; None for rows unlike.

    A list that is alone in a list is under `[]`, which is no key. The proof is that all rows are made like
    the first one, and that what stands between two values stands nowhere else.
    """
    whole = raw if raw.endswith(b"\n") else raw + b"\n"
    with suppress(_UnlikeError, BadJsonError, LookupError, RecursionError, *FOREIGN):
        lines = [line.decode() for line in whole.split(b"\n", _LOOKED_AT)[:-1]]
        rows, line, at = [parse_json(one) for one in lines], lines[0], 0
        found: dict[Keys, _Kind] = {}
        gaps: list[str] = []
        for path, begin, end in _find_leaves(line, 0, ()):
            kind = _find_kind([_reach(row, path) for row in rows], line.encode(), is_mixed=False)
            is_whole = line.startswith(kind.opening, begin) and line.endswith(kind.closing, begin, end)
            if path in found or not is_whole:
                raise _UnlikeError
            found[path] = kind
            if kind is not _ANYTHING:
                gaps.append(line[at : begin + len(kind.opening)])
                at = end - len(kind.closing)
        kinds, tail = [kind for kind in found.values() if kind is not _ANYTHING], f"{line[at:]}\n"
        joints, width, count = [*gaps[1:], tail + gaps[0]], len(gaps), whole.count(b"\n")
        text = pl.DataFrame({"text": pl.Series([whole], dtype=pl.Binary).cast(pl.String)})
        row = "".join(pl.escape_regex(gap) + kind.pattern for gap, kind in zip(gaps, kinds, strict=True))
        is_like = pl.col("text").str.contains(rf"\A(?:{row}{pl.escape_regex(tail)})+\z")
        times = (pl.col("text").str.count_matches(pl.escape_regex(one)).alias(one) for one in joints)
        if not text.select(is_like).item() or text.select(times).row(0) != (
            *[count] * (width - 1),
            count - 1,
        ):
            raise _UnlikeError
        inner = pl.col("text").str.strip_prefix(gaps[0]).str.strip_suffix(tail)
        cut = inner.str.replace_many(joints, [_CUT] * width, **_LEFTMOST)
        pieces = text.select(cut.str.split(_CUT).explode()).to_series()
        cells = iter([pieces.gather_every(width, place) for place in range(width)])
        return {path: _make_leaf(kind, cells) for path, kind in found.items()}
    return None


def _make_leaf(kind: _Kind, cells: Iterator[pl.Series]) -> Leaf:
    if kind is _ANYTHING:
        return Leaf("same", "", pl.Series(dtype=pl.String))
    between = next((one for one, known in _LISTS.items() if known is kind), "")
    if between:
        return Leaf("texts", between, next(cells))
    return Leaf("text" if kind is _TEXT else "whole" if kind is _WHOLE else "scalar", "", next(cells))


def _find_leaves(line: str, end: int, path: Keys) -> Iterator[tuple[Keys, int, int]]:
    """Yield the path of each value inside the object that begins at `end`, and where it begins and ends."""
    mark = _BRACE
    while found := mark.match(line, end):
        key = _KEY.match(line, found.end())
        colon = key and _COLON.match(line, key.end())
        if not key or not colon:
            raise _UnlikeError
        begin, inner, mark = colon.end(), (*path, key[0][1:-1]), _COMMA
        value, end = DECODER.raw_decode(line, begin)
        if isinstance(value, dict) and value:
            yield from _find_leaves(line, begin, inner)
        elif isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
            yield (*inner, "[]"), begin + 1, end - 1
        else:
            yield inner, begin, end
    if not _END.match(line, end):
        raise _UnlikeError


def _reach(row: object, path: Keys) -> object:
    for key in path:
        if not isinstance(row, dict) and not (isinstance(row, list) and len(row) == 1):
            raise _UnlikeError
        row = row[key] if isinstance(row, dict) else row[0]
    return row
