"""Blocks of text files whose rows are all alike, as columns: the same cells as row by row, many times faster.

A block is accepted only with a proof that the readers of `formats` would find the same cells in it, and no
error; any other block is theirs. So nothing depends on this module but time.

JSON Lines: the first row says what stands between the values. Where every row has as many quotes, Polars cuts
the rows at them; if what is not in a text is the same in each row, the rest are the values. Other rows: a
regular expression of what stands between the values, and of their kinds, finds that all rows are made so.
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
from functools import lru_cache, partial
from itertools import islice
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

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
from answerkey.datasets.content import FOREIGN, find_line_limit

Parsed = TypeVar("Parsed")
#: Columns by name, and how many rows they have.
Block = tuple[dict[str, Cells], int]
#: The keys that lead to a value.
Keys = tuple[str, ...]
_WORKERS = 8
#: Large beside what each call of Polars takes, small beside the memory of a machine.
BLOCK_BYTES = 2 * 2**20
#: A row that is longer is read by itself.
MAX_ROW = 2 * BLOCK_BYTES
#: After so many blocks in a row that were not alike, one in as many is tried.
_MISSES = 8
#: So many rows of a block say what its columns hold.
_LOOKED_AT = 16
#: Stands for what is between two values; JSON never has this character as it is.
_CUT = "\x1f"
#: Escapes that would be taken for the end of a text, and what they are hidden behind: no JSON has it either.
_HIDDEN = {r"\\": "\x1e", r"\"": "\x1f"}
_MARKS, _SPACE = "[\\\\\x1e\x1f]", 0x20
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
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SCALAR = _Kind(rf"(?:{_STRING}|{_NUMBER}|true|false|null)")
#: Lists of texts, by what separates the texts.
_LISTS = {between: _Kind(f"{_INSIDE}(?:{between}{_INSIDE})*", '["', '"]') for between in ('","', '", "')}
#: Looked at value by value.
_ANYTHING = _Kind(r"[^\x00-\x1f]+")
_ESCAPE = r"\\(?s:.?)"
#: A row of more pieces is parsed as JSON: a table of so many columns takes longer.
_MOST_PIECES = 1_000
#: Escapes of one character, and what they stand for.
_ESCAPES = {rf"\{letter}": meant for letter, meant in zip('\\"/bfnrt', '\\"/\b\f\n\r\t', strict=True)}
#: The search that finds the leftmost match is faster; older Polars has only the other. Here no two overlap.
_LEFTMOST: dict[str, Any] = (
    {"leftmost": True} if "leftmost" in inspect.signature(pl.Series([""]).str.replace_many).parameters else {}
)


class _Cuts(NamedTuple):
    """How a block is cut at its quotes: types and texts of the pieces, the proof, and the cells of a row."""

    schema: dict[str, pl.DataType]
    texts: list[str]
    least: pl.Expr
    size: pl.Expr
    cells: list[pl.Expr]


class _UnlikeError(Exception):
    """A block without a proof."""


@dataclass
class JsonBlocks:
    """Parses blocks of JSON Lines; what did not help with the last ones is not tried each time."""

    misses: int = 0
    way: int = 0

    def parse(self, raw: bytes) -> Block | None:
        """Return the rows of a block; None where they are not all alike, or one is wrong."""
        if len(raw) > MAX_ROW or (self.misses >= _MISSES and self.misses % _MISSES):
            self.misses += 1
            return None
        whole = raw if raw.endswith(b"\n") else raw + b"\n"
        for way in sorted(range(len(_WAYS)), key=lambda way: way != self.way):
            with suppress(_UnlikeError, BadJsonError, RecursionError, *FOREIGN):
                found = _WAYS[way](whole)
                self.misses, self.way = 0, way
                return found
        self.misses += 1
        return None


@lru_cache(maxsize=16)
def _plan_cuts(gaps: tuple[str, ...], sizes: tuple[int | None, ...], same: tuple[str | None, ...]) -> _Cuts:
    """Return how rows are cut that have these gaps; `sizes` are those of texts (0) and lists of texts (1 on).

    A row is cut into pieces at its quotes; `same` are those that are the same in each row.
    """
    texts, cells, at = list[str](), list[pl.Expr](), 0
    proofs = [pl.col(str(place)) == piece for place, piece in enumerate(same) if piece is not None]
    for gap, following, size in zip(gaps, gaps[1:], sizes, strict=False):
        at += gap.count('"')
        if size is None:
            before, after = gap.rpartition('"')[2], following.partition('"')[0]
            whole = pl.col(str(at))
            cells.append(whole.str.strip_prefix(before).str.strip_suffix(after))
            proofs.append(whole.str.len_bytes() - cells[-1].str.len_bytes() == len(before + after))
        else:
            own = [str(at + place) for place in range(1, 2 * (size or 1), 2)]
            filled = [pl.col(place).fill_null("") for place in own]
            cells.append(pl.concat_arr(filled).cast(pl.List(pl.String)) if size else filled[0])
            texts, at = texts + own, at + 2 * len(own)
    return _Cuts(
        dict.fromkeys(map(str, range(len(same))), pl.String()),
        texts,
        pl.min_horizontal(proof.sum() for proof in proofs).alias("least"),
        pl.sum_horizontal(pl.all().str.len_bytes().sum()).alias("size"),
        [cell.alias(str(place)) for place, cell in enumerate(cells)],
    )


def _cut_at_quotes(raw: bytes, *, is_hidden: bool) -> Block:
    """Return the rows of a block that all have as many texts; `is_hidden` lets texts have quotes inside."""
    line = raw[: raw.find(b"\n")].decode()
    names, gaps = _find_gaps(line)
    first = parse_json(line)
    if not isinstance(first, dict) or tuple(first) != names or (is_hidden and b'\\"' not in raw):
        raise _UnlikeError
    plan, sizes, _, frame = _cut_rows(raw, gaps, list(first.values()), is_hidden=is_hidden)
    columns = zip(names, sizes, frame.select(plan.cells).iter_columns(), strict=True)
    return {name: _read_values(one) if size is None else one for name, size, one in columns}, frame.height


def _cut_rows(
    raw: bytes, gaps: Sequence[str], values: Sequence[object], *, is_hidden: bool
) -> tuple[_Cuts, list[int | None], pl.DataFrame, pl.DataFrame]:
    """Return how rows are cut, the sizes of texts, and the pieces, as they stand and with what texts say.

    `gaps` and `values` are those of the first row. What is neither a text nor a list of texts has no proof.
    """
    line, controls = raw[: raw.find(b"\n")].decode(), int((_list_bytes(raw) < _SPACE).sum())
    if is_hidden:
        for escape, mark in _HIDDEN.items():
            raw, line = raw.replace(escape.encode(), mark.encode()), line.replace(escape, mark)
    same: list[str | None] = [*line.split('"')]
    if len(same) > _MOST_PIECES:
        raise _UnlikeError
    sizes, at = list[int | None](), 0
    for gap, value in zip(gaps, values, strict=False):
        at += gap.count('"')
        listed = value if isinstance(value, list) else [value]
        if listed and set(map(type, listed)) == {str}:
            sizes.append(len(listed) if listed is value else 0)
            same[at + 1 : at + 2 * len(listed) : 2] = [None] * len(listed)
            at += 2 * len(listed)
        else:
            sizes.append(None)
            same[at] = None
    if at != len(same) - 1:  # there is a text inside of something else
        raise _UnlikeError
    plan = _plan_cuts(tuple(gaps), tuple(sizes), tuple(same))
    frame = pl.read_csv(raw, has_header=False, schema=plan.schema, separator='"', quote_char=None)
    escapes = (pl.col(place).str.contains(_MARKS if is_hidden else r"\\").any() for place in plan.texts)
    found = frame.select(*escapes, plan.least, plan.size).row(0, named=True)
    rows = frame.height  # each has so many quotes, and a line break, which is the only control character
    if not found["least"] == controls == rows or found["size"] + rows * len(same) != len(raw):
        raise _UnlikeError
    escaped = [frame[place].fill_null("") for place in plan.texts if found[place]]
    read = frame.with_columns(_read_texts(one, is_hidden=is_hidden) for one in escaped)
    return plan, sizes, frame, read


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
    pieces = text.select(piece.str.replace_all("|".join(escaped), _CUT).str.split(_CUT).explode())
    cells = pieces.select(piece.gather_every(width, place).alias(str(place)) for place in range(width))
    columns: dict[str, Cells] = {}
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        given = cells[str(place)]
        if kind is _TEXT:
            columns[name] = _read_texts(given)
        elif kind is _ANYTHING:
            columns[name] = _decode_values(given)
        elif not kind.opening:
            columns[name] = _read_values(given)
        elif not given.str.contains("\\", literal=True).any():
            columns[name] = given.str.split(next(one for one in _LISTS if _LISTS[one] is kind))
        else:
            columns[name] = _decode_values(kind.opening + given + kind.closing)
    return columns, cells.height


def _find_gaps(line: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the keys of a row, and what stands before, between and after its values."""
    paths, gaps = _find_paths(line, is_deep=False)
    if gaps[-1].strip(" \t\r") != "}":
        raise _UnlikeError
    return tuple(path[0] for path in paths), gaps


def _find_paths(line: str, *, is_deep: bool) -> tuple[list[Keys], list[str]]:
    """Return the keys that lead to each value of a row, and what stands before, between and after them."""
    found = list(_find_leaves(line, 0, (), is_deep=is_deep))
    ends, begins = [0, *(end for *_, end in found)], [*(begin for _, begin, _ in found), len(line)]
    gaps = [line[end:begin] for end, begin in zip(ends, begins, strict=True)]
    return [path for path, *_ in found], gaps


def _find_kind(values: list[object], line: bytes, *, is_mixed: bool) -> _Kind:
    """Return what values of a column are made of; `line` is the first row."""
    kinds = set(map(type, values))
    if kinds == {str} and not is_mixed:
        return _TEXT
    if not kinds & {list, dict}:
        return _SCALAR
    is_texts = all(isinstance(one, list) and one and set(map(type, one)) == {str} for one in values)
    return _LISTS['", "' if b'", "' in line else '","'] if is_texts and not is_mixed else _ANYTHING


def _read_texts(cells: pl.Series, *, is_hidden: bool = False) -> pl.Series:
    """Return what stands between the quotes of JSON strings as text; with `is_hidden`, some escapes are."""
    is_escaped = cells.str.contains(_MARKS if is_hidden else r"\\")
    if not is_escaped.any():
        return cells
    texts = cells.filter(is_escaped)
    if is_hidden:
        texts = texts.str.replace_many(list(_HIDDEN.values()), list(_HIDDEN), **_LEFTMOST)
    if texts.str.contains("\\u", literal=True).any():
        if not texts.str.contains(rf"\A{_INSIDE}\z").all():
            raise _UnlikeError
        read = pl.Series([parse_json(f'"{text}"') for text in texts], dtype=pl.String)
    else:
        read = texts.str.replace_many(list(_ESCAPES), list(_ESCAPES.values()), **_LEFTMOST)
        # Each escape is one byte less now, unless it is none.
        if (texts.str.len_bytes() - read.str.len_bytes() != texts.str.count_matches(_ESCAPE)).any():
            raise _UnlikeError
    return cells.clone().scatter(is_escaped.arg_true(), read)


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
            return _read_texts(inner).set(is_null, None)
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


#: Ways to read a block of JSON Lines, the fastest first; the last lets a column of texts hold other values.
_WAYS: tuple[Callable[[bytes], Block], ...] = (
    partial(_cut_at_quotes, is_hidden=False),
    partial(_cut_at_quotes, is_hidden=True),
    partial(_split_block, is_mixed=False),
    partial(_split_block, is_mixed=True),
)


@dataclass
class DelimitedBlocks:
    """Parses blocks of CSV with these columns, until one of them has no proof.

    `style` says which cells are in quotes, as the blocks so far have it.
    """

    names: tuple[str, ...]
    separator: str
    style: Literal["necessary", "always"] = "necessary"
    is_over: bool = False

    def parse(self, raw: bytes) -> tuple[dict[str, Cells], range | pl.Series, int] | None:
        """Return the rows of a block, on which line of it each starts, from 0 on, and how many lines it has.

        None if unproved.
        """
        returns = raw.count(b"\r") if b"\r" in raw else 0
        ending = "\r\n" if returns and b"\r\n" in raw else "\n"
        whole = raw if raw.endswith(b"\n") else raw + ending.encode()
        breaks = whole.count(b"\n")
        # A line break of another kind ends a row, and a blank line is none, in a file of one column an error.
        returns += len(whole) - len(raw) - (whole is not raw)
        is_odd = returns != (breaks if len(ending) > 1 else 0) or len(self.names) == 1
        if self.is_over or is_odd or len(raw) > MAX_ROW or b"\0" in raw:
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
                lines: range | pl.Series = range(frame.height)
                if breaks != frame.height:
                    inside = pl.sum_horizontal(pl.all().str.count_matches("\n", literal=True)).cast(pl.Int64)
                    lines = cells.select((inside + 1).cum_sum().shift(1, fill_value=0)).to_series()
                return dict(zip(self.names, cells.iter_columns(), strict=True)), lines, breaks
        self.is_over = True
        return None


def _list_bytes(raw: bytes) -> pl.Series:
    """Return bytes as numbers: to count some of them is faster than Python where there are many."""
    return pl.Series([raw], dtype=pl.Binary).cast(pl.List(pl.UInt8)).explode()


def cut_blocks(stream: BinaryIO, rest: bytes = b"", *, by_row: bool = False) -> Iterator[bytes]:
    """Yield the bytes of a stream in blocks that end with a line, or with a row where cells may be in quotes.

    `rest` was read before. A row that is too long is cut in the middle; behind a line that is longer than the
    limit there is no other block.
    """
    longest = MAX_ROW if by_row else find_line_limit() + 1
    while raw := rest + stream.read(BLOCK_BYTES):
        parts, rest = [raw, stream.readline(longest)], b""
        if by_row:
            size = len(raw)
            quotes = int((_list_bytes(raw) == ord('"')).sum()) + parts[1].count(b'"')
            while quotes % 2 and size <= MAX_ROW and (line := stream.readline(MAX_ROW)):
                parts.append(line)
                size, quotes = size + len(line), quotes + line.count(b'"')
        yield b"".join(parts)
        if not by_row and len(parts[1]) == longest:
            return


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

_NO_TEXT = rf"^(?:{_NUMBER}|true|false|null|\[\]|\{{\}})$"
_END = re.compile(r"[ \t\r]*\}")


@dataclass(frozen=True)
class Leaf:
    """A value that all rows of a block have: a text, a list of as many texts, or what is no text.

    `cells` are the JSON texts, without quotes or brackets around; `values` is what texts say.
    """

    kind: Literal["text", "texts", "scalar"]
    cells: pl.Series
    values: pl.Series

    def take(self, rows: pl.Series) -> Leaf:
        """Return some of the rows."""
        return Leaf(self.kind, self.cells.gather(rows), self.values.gather(rows))


def split_leaves(raw: bytes) -> dict[Keys, Leaf] | None:
    """Return the values inside the rows of a block by the keys that lead to them; None for rows unlike.

    A list that is alone in a list is under `[]`, which is no key.
    """
    whole = raw if raw.endswith(b"\n") else raw + b"\n"
    with suppress(_UnlikeError, BadJsonError, LookupError, RecursionError, *FOREIGN):
        line, is_hidden = whole[: whole.find(b"\n")].decode(), b'\\"' in whole
        first = parse_json(line)
        paths, gaps = _find_paths(line, is_deep=True)
        values = [_reach(first, path) for path in paths]
        plan, sizes, frame, read = _cut_rows(whole, gaps, values, is_hidden=is_hidden)
        found: dict[Keys, Leaf] = {}
        columns = zip(*(one.select(plan.cells).iter_columns() for one in (frame, read)), strict=True)
        for path, size, (cells, said) in zip(paths, sizes, columns, strict=True):
            if size is None:
                if not cells.str.contains(_NO_TEXT).all():
                    raise _UnlikeError
                found[path] = Leaf("scalar", cells, cells)
                continue
            inside = cells.list.join('", "') if size else cells
            if is_hidden:
                inside = inside.str.replace_many(list(_HIDDEN.values()), list(_HIDDEN), **_LEFTMOST)
            found[path] = Leaf("texts" if size else "text", inside, said)
        return found
    return None


def _find_leaves(line: str, end: int, path: Keys, *, is_deep: bool) -> Iterator[tuple[Keys, int, int]]:
    """Yield the path of each value of the object that begins at `end`, and where it begins and ends.

    With `is_deep`, values inside of objects take the place of these.
    """
    mark = _BRACE
    while found := mark.match(line, end):
        key = _KEY.match(line, found.end())
        colon = key and _COLON.match(line, key.end())
        if not key or not colon:
            raise _UnlikeError
        begin, inner, mark = colon.end(), (*path, key[0][1:-1]), _COMMA
        value, end = DECODER.raw_decode(line, begin)
        if is_deep and isinstance(value, dict) and value:
            yield from _find_leaves(line, begin, inner, is_deep=True)
        elif is_deep and isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
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
