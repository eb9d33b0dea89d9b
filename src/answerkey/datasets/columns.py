"""Cells and columns: which values there are, how text cells are typed, how chunks of rows become a table.

Values are those that JSON knows. `columns: {choices: list, correct_index: int}` types columns of text;
nothing else ever changes the type of a cell.

A column is native only if every value that is not null has exactly the same type and shape, so that what a
template sees is exactly what the file holds: `1` never turns into `1.0`, and no dict gains a key. Any other
column is stored as JSON text.

A shape is the type of some values, Null where only nulls are known so far, and None where they have no common
type. The shapes of two halves of a column, merged, are the shape of the column: a file is read in chunks,
each stored with the types it has by itself, and chunks that differ from what all have in common are stored
anew.
"""

from __future__ import annotations

import ast
import base64
import datetime as dt
import gc
import io
import json
import math
import re
import shutil
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, pairwise
from pathlib import Path
from typing import Generic, Literal, TypeVar, cast

import polars as pl

from answerkey.datasets.content import MAX_CELL, Content, RowErrors
from answerkey.datasets.rows import HeldRows, name_samples
from answerkey.errors import DataError, Place, listing, raise_all, suggest
from answerkey.types import Notice

ColumnKind = Literal["text", "int", "float", "bool", "list", "json"]
Kinds = Mapping[str, ColumnKind]
Shape = pl.DataType | None
Cells = Sequence[object] | pl.Series
Row = TypeVar("Row")

#: Nesting that templates and readers of the run folder can still walk.
MAX_DEPTH = 100
_SCALARS = frozenset({str, bool, float, int, type(None)})
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_JSON_KINDS = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
#: The Python type of a cell that is typed, and what it is called.
_KINDS: dict[ColumnKind, tuple[type, str]] = {
    "text": (str, "text"),
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "list": (list, "a list"),
    "json": (object, "JSON"),
}
#: Python literals longer than this are not parsed; JSON has no such limit.
_LITERAL_LIMIT = 100_000
#: Characters of a bad cell that are shown.
_SHOWN = 80
#: A chunk ends after so many rows, or so many characters.
CHUNK_ROWS = 32_768
CHUNK_CHARACTERS = 16 * 2**20
#: The lines of rows, beside their cells; no column of a file can have a name without a character.
LINE = " "
_LEAVES: dict[type, pl.DataType] = {
    str: pl.String(),
    bool: pl.Boolean(),
    float: pl.Float64(),
    int: pl.Int64(),
}
_INT64 = range(-(2**63), 2**63)
#: Deeper nesting is kept as JSON text: nested column types cost more than they give.
_NATIVE_DEPTH = 6


def make_plain(values: Sequence[object]) -> Sequence[object]:
    """Return values as JSON knows them, so that a dataset holds the same whatever it was read from.

    Raises TypeError for one that has no JSON form.
    """
    return values if set(map(type, values)) <= _SCALARS else [plain(value) for value in values]


def plain(value: object) -> object:
    """Return one value as JSON knows it: dates in ISO form, decimals as written, bytes in base64."""
    if type(value) in _SCALARS:
        return value
    match value:
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"a mapping whose key {key!r} is not text")
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return str(value)
        case Decimal():  # without places a whole number, else its text: no digit is lost
            return int(value) if value.as_tuple().exponent == 0 else format(value, "f")
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            return float(value)
    unwrap = getattr(value, "item", None)
    unwrapped = unwrap() if callable(unwrap) else value
    if type(unwrapped) in _SCALARS:
        return unwrapped
    raise TypeError(f"a value of type {type(value).__name__}")


class BadJsonError(Exception):
    """A JSON text that parses but is refused."""

    def __init__(self, code: str, message: str, hint: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.key = code, message, hint, key


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    built = dict(pairs)
    if len(built) == len(pairs):
        return built
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise BadJsonError("E212", f"key `{twice}` appears twice in one object", "remove one of them")


def _refuse_constant(name: str) -> object:
    raise BadJsonError("E202", f"`{name}` is not a JSON value", "write null for a missing number")


def _refuse_infinite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadJsonError("E202", f"the number {text[:40]} is too large")
    return number


#: Reads no key twice, and no number that JSON does not have.
DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_refuse_infinite
)


def parse_json(text: str) -> object:
    """Return the value of a JSON text; raises JSONDecodeError, or BadJsonError for what is refused."""
    if text.startswith("{"):
        with suppress(StopIteration, ValueError, RecursionError, BadJsonError):  # told in full below
            value, end = DECODER.scan_once(text, 0)  # type: ignore[attr-defined]  # CPython has it
            if end == len(text):
                return value
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:
        raise refuse_size(error) from None


def refuse_size(error: RecursionError | ValueError) -> BadJsonError:
    """Return what is wrong with a text that the parser gave up on."""
    if isinstance(error, RecursionError):
        return BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    return BadJsonError("E202", "a number has too many digits", "write it as text")


def check_row(value: object, source: str) -> dict[str, object]:
    """Return the row if it is an object that a table can hold; `source` is its JSON text."""
    if not isinstance(value, dict):
        kind = _JSON_KINDS.get(type(value), "null")
        raise BadJsonError("E202", f"the row is {kind}, not an object", 'write `{"column": value, ...}`')
    if len(source) > 2 * MAX_DEPTH and source.count("[") + source.count("{") > MAX_DEPTH:
        depth, level = 0, [value]
        while level := [one for one in level if isinstance(one, dict | list)]:
            depth += 1
            level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        if depth > MAX_DEPTH:
            raise BadJsonError("E202", f"the row is nested more than {MAX_DEPTH} levels deep")
    if "\\u" in source and _SURROGATE_ESCAPE.search(source):
        for name, cell in value.items():
            if _SURROGATE.search(json.dumps([name, cell], ensure_ascii=False)):
                message = "half of a surrogate pair (`\\ud800` to `\\udfff`) is not a character"
                raise BadJsonError("E203", message, "write both halves, or the character itself", name)
    if len(source) > MAX_CELL:
        for name, cell in value.items():
            if len(json.dumps(cell, ensure_ascii=False)) > MAX_CELL:
                raise BadJsonError("E202", f"the cell has more than {MAX_CELL} characters", None, name)
    return value


class _UnfitError(Exception):
    """A cell that does not have the type asked for; the text says why."""


def type_cells(
    cells: Sequence[object],
    kind: ColumnKind,
    where: Place,
    lines: Sequence[int] | pl.Series,
    errors: RowErrors,
) -> list[object]:
    """Return the typed cells of a column; each distinct text is parsed once.

    A text cell is parsed, an empty one is null (but stays empty text for `text`); a cell that already has the
    type stays as it is. An unfit one is among the errors, and null.
    """
    known: dict[str, object] = {}
    typed: list[object] = []
    with warnings.catch_warnings():
        # A Python literal with a stray backslash makes the compiler warn; the cell keeps the backslash.
        warnings.simplefilter("ignore")
        for position, cell in enumerate(cells):
            try:
                typed.append(_type_cell(cell, kind, known))
            except _UnfitError as error:
                text = repr(cell)
                shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
                message = f"{shown} is not {_KINDS[kind][1]}{error}"
                errors.add("E211", message, where=replace(where, line=int(lines[position])))
                typed.append(None)
    return typed


def _type_cell(cell: object, kind: ColumnKind, known: dict[str, object]) -> object:
    if isinstance(cell, str):
        if cell not in known:
            is_empty = kind != "text" and not cell.strip()
            known[cell] = None if is_empty else _parse_cell(cell, kind)
        return known[cell]
    if cell is None or kind == "json" or type(cell) is _KINDS[kind][0]:
        return cell
    if kind in {"float", "text"} and type(cell) is int:
        return float(cell) if kind == "float" else str(cell)
    raise _UnfitError


def _parse_cell(text: str, kind: ColumnKind) -> object:
    match kind:
        case "text":
            return text
        case "bool" if text.strip().lower() in _BOOLEANS:
            return _BOOLEANS[text.strip().lower()]
        case "float" if _FLOAT.fullmatch(text.strip()) and math.isfinite(float(text)):
            return float(text)
        case "int" if _INT.fullmatch(text.strip()):
            try:
                return int(text)
            except ValueError:
                raise _UnfitError(": too many digits") from None
        case "list" | "json":
            return _parse_nested(text, kind)
    raise _UnfitError


def _parse_nested(text: str, kind: ColumnKind) -> object:
    """Return the value of JSON; a list may also be a Python literal."""
    try:
        value = parse_json(text)
    except BadJsonError as error:
        raise _UnfitError(f": {error.message}") from None
    except json.JSONDecodeError as error:
        if kind == "json":
            raise _UnfitError(f": {error.msg.lower()} at character {error.pos + 1}") from None
        value = _parse_literal(text.strip())
    if kind == "list" and not isinstance(value, list):
        raise _UnfitError
    # Only an escape can smuggle in half of a character.
    if "\\" in text and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise _UnfitError(": half of a surrogate pair is not a character")
    return value


def _parse_literal(text: str) -> object:
    """Return the value of a Python literal, tuples as lists."""
    if len(text) > _LITERAL_LIMIT:
        raise _UnfitError(f": Python literals are read up to {_LITERAL_LIMIT} characters; write JSON")
    try:
        tree = ast.parse(text, mode="eval")
        value = ast.literal_eval(tree)
        kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(text).readline)]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        raise _UnfitError(": neither JSON nor a Python literal") from None
    words = [kind for kind in kinds if kind not in {tokenize.NL, tokenize.COMMENT}]
    if (tokenize.STRING, tokenize.STRING) in pairwise(words):  # Python would glue them into one choice
        raise _UnfitError(": two texts follow each other without a comma between them")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = [ast.dump(key) for key in node.keys if key is not None]
            if len(set(keys)) < len(keys):
                raise _UnfitError(": a key appears twice")
    return _as_json(value)


def _as_json(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _as_json(one) for key, one in value.items()}
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise _UnfitError(f": {value!r} has no form in JSON")


def check_names(names: Sequence[str], where: Place) -> tuple[Notice, ...]:
    """Refuse duplicate and empty column names; notice those with white space around them."""
    first: dict[str, int] = {}
    errors: list[DataError] = []
    for number, name in enumerate(names, 1):
        if not name.strip():
            hint = "give the column a name; a table written by pandas needs `index=False`"
            errors.append(DataError("E202", f"column {number} has no name", where=where, hint=hint))
        elif name in first:
            message = f"column `{name}` appears twice, as column {first[name]} and column {number}"
            errors.append(DataError("E212", message, where=where, hint="rename or remove one of them"))
        first.setdefault(name, number)
    raise_all(errors)
    spaced = [name for name in names if name != name.strip()]
    if not spaced:
        return ()
    message = f"white space around column names is part of the name: {listing(map(repr, spaced))}"
    return (Notice(message, where=where, hint="remove it, or write `sample[' name']` in templates"),)


def fill_column(name: str, values: Sequence[object], dtype: pl.DataType | None) -> pl.Series:
    """Return values that have this type as a column; as JSON text when it is None."""
    if dtype is not None:
        return _fill(values, dtype).alias(name)
    cells = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    return pl.Series(name, cells, dtype=pl.String)


def find_shape(values: Sequence[object], depth: int = 0) -> Shape:
    """Return the shape of some values."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pl.Null()
    kind = kinds.pop()
    if kinds or depth > _NATIVE_DEPTH:
        return None
    if kind is list:
        lists = (value for value in values if isinstance(value, list))
        inner = find_shape(list(chain.from_iterable(lists)), depth + 1)
        return None if inner is None else pl.List(inner)
    if kind is dict:
        dicts = [value for value in values if isinstance(value, dict)]
        names = set(map(tuple, dicts))
        if len(names) > 1 or () in names:
            return None
        return _join_fields({key: find_shape([one[key] for one in dicts], depth + 1) for key in names.pop()})
    if kind is int and not all(value in _INT64 for value in values if value is not None):
        return None
    return _LEAVES[kind]


def merge_shapes(one: Shape, other: Shape) -> Shape:
    """Return the shape of the values of both."""
    if one is None or other is None:
        return None
    if other in (one, pl.Null):
        return one
    if one == pl.Null:
        return other
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        inner = merge_shapes(cast("pl.DataType", one.inner), cast("pl.DataType", other.inner))
        return None if inner is None else pl.List(inner)
    if isinstance(one, pl.Struct) and isinstance(other, pl.Struct):
        ours, theirs = _list_fields(one), _list_fields(other)
        if list(ours) == list(theirs):
            return _join_fields({name: merge_shapes(ours[name], theirs[name]) for name in ours})
    return None


def choose_type(shape: Shape) -> pl.DataType | None:
    """Return the type that a column of this shape is stored with: where there are only nulls, text."""
    if isinstance(shape, pl.List):
        return pl.List(cast("pl.DataType", choose_type(cast("pl.DataType", shape.inner))))
    if isinstance(shape, pl.Struct):
        return _join_fields({name: choose_type(one) for name, one in _list_fields(shape).items()})
    return pl.String() if shape == pl.Null else shape


def _list_fields(struct: pl.Struct) -> dict[str, pl.DataType]:
    return {one.name: cast("pl.DataType", one.dtype) for one in struct.fields}


def _join_fields(fields: Mapping[str, Shape]) -> Shape:
    known = {name: one for name, one in fields.items() if one is not None}
    return pl.Struct(known) if len(known) == len(fields) else None


def _fill(values: Sequence[object], dtype: pl.DataType) -> pl.Series:
    """Return the values as a series; lists and dicts are taken apart, which is ten times faster."""
    if isinstance(dtype, pl.List):
        return _fill_lists(values, cast("pl.DataType", dtype.inner))
    if not isinstance(dtype, pl.Struct):
        return pl.Series(values, dtype=dtype, strict=True)
    dicts = [value if isinstance(value, dict) else None for value in values]
    fields = {
        name: _fill([None if one is None else one[name] for one in dicts], inner)
        for name, inner in _list_fields(dtype).items()
    }
    whole = pl.DataFrame(fields).to_struct("struct")
    is_there = pl.Series([one is not None for one in dicts], dtype=pl.Boolean)
    return whole.to_frame().select(pl.when(is_there).then(pl.col("struct")).alias("struct"))["struct"]


def _fill_lists(values: Sequence[object], inner: pl.DataType) -> pl.Series:
    """Return lists by filling their elements as one series and cutting it up again."""
    lists = [value if isinstance(value, list) else None for value in values]
    sizes = pl.Series("size", [None if one is None else len(one) for one in lists], dtype=pl.UInt32)
    elements = _fill(list(chain.from_iterable(one for one in lists if one)), inner)
    if not sizes.null_count() and sizes.n_unique() == 1 and sizes[0] and not inner.is_nested():
        return elements.reshape((len(sizes), int(sizes[0]))).cast(pl.List(inner)).alias("list")
    filled = sizes.filter(sizes > 0).to_frame().with_row_index("row")
    rows = filled.select(pl.col("row").repeat_by("size").explode()).to_series()
    cut = pl.DataFrame({"row": rows, "element": elements}).group_by("row", maintain_order=True).agg("element")
    is_filled = (pl.col("size") > 0).fill_null(value=False)
    empty = pl.lit(pl.Series([[]], dtype=pl.List(inner)))
    place = pl.when(is_filled).then(is_filled.cum_sum() - 1)
    return sizes.to_frame().select(
        pl.when(pl.col("size") == 0).then(empty).otherwise(pl.lit(cut["element"]).gather(place)).alias("list")
    )["list"]


def _require_columns(kinds: Kinds, names: list[str], file: str | None) -> None:
    """Raise E206 for the first column that is to be typed and is not there."""
    for name in kinds:
        if name not in names:
            message = f"`columns` types `{name}`, which is not a column"
            hint = suggest(name, names) or f"columns: {listing(names)}"
            raise DataError("E206", message, where=Place(file=file, field=name), hint=hint)


def check_sizes(
    column: pl.Series, lines: Sequence[int] | pl.Series, errors: RowErrors, most: int | None = MAX_CELL
) -> None:
    """Remember the cells of a text column that are too long."""
    if most is None or column.dtype != pl.String:
        return
    sizes = column.alias("cell").str.len_bytes()  # Polars would take a name such as `*` for a pattern
    for position in (sizes > most).arg_true():
        where = Place(file=errors.file, line=int(lines[position]), field=column.name)
        errors.add("E202", f"the cell has more than {MAX_CELL} bytes", where=where)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Let Python's search for cycles rest: rows have none, and it would look through them again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class SpillFolder:
    """Chunks kept as files in a folder of their own until all have been read."""

    folder: Path

    def __setitem__(self, number: int, frame: pl.DataFrame) -> None:
        frame.write_parquet(self.folder / f"{number:06d}.parquet", compression="lz4", statistics=False)

    def __getitem__(self, number: int) -> pl.DataFrame:
        return pl.read_parquet(self.folder / f"{number:06d}.parquet", glob=False)

    def unpack(self, content: Content) -> Content:
        """Return a content that lies decompressed in a file; a compressed one is expanded into the folder."""
        if not content.is_packed:
            return content
        path = self.folder / "expanded"
        with content.open() as stream, path.open("wb") as out:
            shutil.copyfileobj(stream, out, 2**20)
        return replace(content, path=path)


Chunks = dict[int, pl.DataFrame] | SpillFolder


@dataclass(frozen=True)
class BuiltTable:
    """What is known of a table when all of its chunks have been read; `size` is in bytes."""

    rows: int
    size: int
    encoded: frozenset[str]
    #: The line of the first row, when each row is on the line after the one before it.
    first_line: int | None
    notices: tuple[Notice, ...]
    #: How many rows each of several files has.
    spans: tuple[int, ...] = ()


class TableBuilder:
    """Takes the chunks of one file in their order; `kinds` says how text cells are typed.

    Chunks are kept in `chunks` by their numbers: in memory, or as files.
    """

    def __init__(
        self, content: Content, kinds: Kinds, chunks: Chunks, *, max_cell: int | None = MAX_CELL
    ) -> None:
        self.content = content
        self._kinds = kinds
        self._chunks = chunks
        self._max_cell = max_cell
        self._shapes: dict[str, Shape] = {}
        self._own: list[Mapping[str, Shape]] = []
        self._rows = 0
        self._bytes = 0
        self._first: int | None = None
        self._is_regular = True
        self._huge = RowErrors(content.file)
        self._unfit = {name: RowErrors(content.file) for name in kinds}

    def add(self, columns: Mapping[str, Cells], lines: Sequence[int]) -> None:
        """Take some rows: cells by column, and the line on which each row starts.

        A column that is a series has its type already.
        """
        if not lines:
            return
        self._first = lines[0] if self._first is None else self._first
        start = self._first + self._rows
        self._rows += len(lines)
        self._is_regular = self._is_regular and list(lines) == list(range(start, start + len(lines)))
        built = [pl.Series(LINE, lines, dtype=pl.Int64)]
        own: dict[str, Shape] = {}
        for name, cells in columns.items():
            series, own[name] = self._build(name, cells, lines)
            built.append(series)
            self._shapes[name] = merge_shapes(self._shapes.get(name, pl.Null()), own[name])
        frame = pl.DataFrame(built)
        self._bytes += int(frame.estimated_size())
        self._chunks[len(self._own)] = frame
        self._own.append(own)

    def _build(self, name: str, cells: Cells, lines: Sequence[int]) -> tuple[pl.Series, Shape]:
        """Return a column of a chunk, and its shape."""
        if name in self._kinds:
            cells = cells.to_list() if isinstance(cells, pl.Series) else cells
            texts = [one if isinstance(one, str) else None for one in cells]
            check_sizes(pl.Series(name, texts, dtype=pl.String), lines, self._huge, self._max_cell)
            where = Place(file=self.content.file, field=name)
            cells = type_cells(cells, self._kinds[name], where, lines, self._unfit[name])
        shape = cells.dtype if isinstance(cells, pl.Series) else find_shape(cells)
        series = cells if isinstance(cells, pl.Series) else fill_column(name, cells, choose_type(shape))
        if name not in self._kinds:
            check_sizes(series, lines, self._huge, self._max_cell)
        return series, shape

    def finish(self, notices: tuple[Notice, ...]) -> BuiltTable:
        """Return what all chunks have in common, having stored anew those that differ."""
        if not self._rows:
            raise self.content.error("E210", "the file has no rows")
        self._huge.raise_any()
        _require_columns(self._kinds, list(self._shapes), self.content.file)
        unfit = RowErrors(self.content.file)
        for one in self._unfit.values():
            unfit.extend(one)
        unfit.raise_any()
        types = {name: choose_type(shape) for name, shape in self._shapes.items()}
        for number, own in enumerate(self._own):
            own_types = {name: choose_type(shape) for name, shape in own.items()}
            if list(own_types.items()) != list(types.items()):
                self._chunks[number] = _align(self._chunks[number], own_types, types)
        encoded = frozenset(name for name, dtype in types.items() if dtype is None)
        first = self._first if self._is_regular else None
        return BuiltTable(self._rows, self._bytes, encoded, first, notices)


def _align(
    frame: pl.DataFrame, own: Mapping[str, pl.DataType | None], types: Mapping[str, pl.DataType | None]
) -> pl.DataFrame:
    """Return a chunk with the columns and types that all chunks have in common."""
    columns = [frame[LINE]]
    for name, dtype in types.items():
        if name not in own:
            columns.append(pl.Series(name, [None] * frame.height, dtype=dtype or pl.String()))
        elif own[name] == dtype:
            columns.append(frame[name])
        else:  # values of one type, or nulls: a chunk that has none in common is JSON text, and so are all
            columns.append(fill_column(name, frame[name].to_list(), dtype))
    return pl.DataFrame(columns)


def join_chunks(chunks: Mapping[int, pl.DataFrame], built: BuiltTable, file: str | None) -> HeldRows:
    """Return the chunks that were kept in memory as one table."""
    whole = pl.concat([chunks[number] for number in sorted(chunks)], rechunk=True)
    return HeldRows(name_samples(whole.drop(LINE), whole[LINE].alias("line"), built.encoded, file))


@dataclass
class RowWriter(Generic[Row]):
    """Hands rows to a table in chunks, so that no file is held as Python objects as a whole.

    `arrange` makes columns of rows.
    """

    table: TableBuilder
    arrange: Callable[[list[Row]], Mapping[str, Sequence[object]]]
    rows: list[Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    characters: int = 0

    def add(self, row: Row, line: int, characters: int) -> None:
        """Take one row, the line it starts on, and how long it is."""
        self.rows.append(row)
        self.lines.append(line)
        self.characters += characters
        if len(self.rows) >= CHUNK_ROWS or self.characters >= CHUNK_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Hand over the rows that are left."""
        self.table.add(self.arrange(self.rows) if self.rows else {}, self.lines)
        self.rows, self.lines, self.characters = [], [], 0
