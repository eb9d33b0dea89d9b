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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal, cast

import polars as pl

from answerkey.datasets.content import Content, RowErrors, describe_long, find_cell_limit
from answerkey.errors import DataError, Place, listing, raise_all, refuse_column
from answerkey.text import parse_syntax
from answerkey.types import Notice

ColumnKind = Literal["text", "int", "float", "bool", "list", "json"]
Shape = pl.DataType | None
#: A column that is a series has its type already.
Cells = Sequence[object] | pl.Series
#: Some rows: cells by column, and the line on which each row starts.
Chunk = tuple[Mapping[str, Cells], Sequence[int]]

#: Nesting that templates and readers of the run folder can still walk.
MAX_DEPTH = 100
_SCALARS = frozenset({str, bool, float, int, type(None)})
SURROGATE = re.compile("[\ud800-\udfff]")
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
#: The lines of rows, beside their cells; no column of a file can have a name without a character.
LINE = " "
_LEAVES = {str: pl.String(), bool: pl.Boolean(), float: pl.Float64(), int: pl.Int64()}
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
            return value.isoformat() if value == value else None  # noqa: PLR0124 - a time of pandas that is none
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
    unwrap = getattr(value, "tolist", None) or getattr(value, "item", None)  # arrays and their scalars
    unwrapped = unwrap() if callable(unwrap) else value
    if type(unwrapped) in _SCALARS:
        return unwrapped
    if isinstance(unwrapped, list):
        return [plain(one) for one in unwrapped]
    if type(value).__name__ == "NAType":  # pandas has it for null
        return None
    raise TypeError(f"a value of type {type(value).__name__}")


@dataclass(eq=False)
class BadJsonError(Exception):
    """A JSON text that is refused; `key` is of its object, `line` and `column` are known where it breaks."""

    code: str
    message: str
    hint: str | None = None
    key: str | None = None
    line: int | None = None
    column: int | None = None


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


def check_row(value: object, source: str, most: int) -> dict[str, object]:
    """Return the row if it is an object that a table can hold; `source` is its JSON text.

    A cell has at most so many characters.
    """
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
            if SURROGATE.search(json.dumps([name, cell], ensure_ascii=False)):
                message = "half of a surrogate pair (`\\ud800` to `\\udfff`) is not a character"
                raise BadJsonError("E203", message, "write both halves, or the character itself", name)
    if len(source) > most:
        for name, cell in value.items():
            if len(json.dumps(cell, ensure_ascii=False)) > most:
                raise BadJsonError("E202", describe_long("the cell", most), None, name)
    return value


class _UnfitError(Exception):
    """A cell that does not have the declared type; the text says why."""


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
            if isinstance(cell, str) and cell in known:
                typed.append(known[cell])
                continue
            try:
                typed.append(_type_cell(cell, kind))
            except _UnfitError as error:
                text = repr(cell)
                shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
                message = f"{shown} is not {_KINDS[kind][1]}{error}"
                errors.add("E211", message, where=replace(where, line=int(lines[position])))
                typed.append(None)
            else:
                if isinstance(cell, str):
                    known[cell] = typed[-1]
    return typed


def _type_cell(cell: object, kind: ColumnKind) -> object:
    if not isinstance(cell, str):
        if cell is None or kind == "json" or type(cell) is _KINDS[kind][0]:
            return cell
        if kind in {"float", "text"} and type(cell) is int:
            return float(cell) if kind == "float" else str(cell)
        raise _UnfitError
    text = cell.strip()
    if kind == "text" or not text:
        return cell if kind == "text" else None
    match kind:
        case "bool" if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        case "float" if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        case "int" if _INT.fullmatch(text):
            try:
                return int(text)
            except ValueError:
                raise _UnfitError(": too many digits") from None
        case "list" | "json":
            try:
                value = parse_json(cell)
            except BadJsonError as error:
                raise _UnfitError(f": {error.message}") from None
            except json.JSONDecodeError as error:
                if kind == "json":
                    raise _UnfitError(f": {error.msg.lower()} at character {error.pos + 1}") from None
                value = _parse_literal(text)
            if kind == "list" and not isinstance(value, list):
                raise _UnfitError
            # Only an escape can smuggle in half of a character.
            if "\\" in cell and SURROGATE.search(json.dumps(value, ensure_ascii=False)):
                raise _UnfitError(": half of a surrogate pair is not a character")
            return value
    raise _UnfitError


def _parse_literal(text: str) -> object:
    """Return the value of a Python literal, tuples as lists."""
    if len(text) > _LITERAL_LIMIT:
        raise _UnfitError(f": Python literals are read up to {_LITERAL_LIMIT} characters; write JSON")
    try:
        tree = parse_syntax(text, "eval")
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


#: Column types that a cast brings to a type of ours without loss.
_CASTS: dict[type[pl.DataType], pl.DataType] = {
    **{kind: kind() for kind in (pl.String, pl.Boolean, pl.Int64, pl.Float64)},
    **dict.fromkeys((pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32), pl.Int64()),
    pl.Float32: pl.Float64(),
    **dict.fromkeys((pl.Categorical, pl.Enum, pl.Null), pl.String()),
}


def find_cast(dtype: pl.DataType) -> pl.DataType | None:
    """Return the type of ours to cast to without loss, or None if values need a look one by one."""
    if isinstance(dtype, pl.List):
        inner = find_cast(cast("pl.DataType", dtype.inner))
        return None if inner is None else pl.List(inner)
    if isinstance(dtype, pl.Struct) and dtype.fields:
        return _join_fields({name: find_cast(one) for name, one in _list_fields(dtype).items()})
    return _CASTS.get(type(dtype))


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


def check_sizes(
    column: pl.Series, lines: Sequence[int] | pl.Series, errors: RowErrors, most: int | None
) -> None:
    """Remember the cells of a text column that are too long."""
    if most is None or column.dtype != pl.String:
        return
    sizes = column.alias("cell").str.len_bytes()  # Polars would take a name such as `*` for a pattern
    is_long = sizes > most
    for position in is_long.arg_true() if is_long.any() else ():
        where = Place(file=errors.file, line=int(lines[position]), field=column.name)
        errors.add("E202", describe_long("the cell", most), where=where)


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


@dataclass
class SpillFolder:
    """Chunks kept as files in a folder of their own until all have been read."""

    folder: Path

    def __setitem__(self, number: int, frame: pl.DataFrame) -> None:
        frame.write_ipc(self.folder / f"{number:06d}.arrow")

    def __getitem__(self, number: int) -> pl.DataFrame:
        return pl.read_ipc((self.folder / f"{number:06d}.arrow").read_bytes())

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
    spans: tuple[int, ...]


@without_collecting()
def build_table(
    parts: Iterable[Chunk],
    file: str,
    kinds: Mapping[str, ColumnKind],
    chunks: Chunks,
    *,
    notices: Iterable[Notice] = (),
    spans: Sequence[int] = (),
    is_limited: bool = True,
) -> BuiltTable:
    """Keep the parts of a table in `chunks`, by their numbers, with the types that all of them share.

    `kinds` says how text cells are typed, `file` is the name in errors. `notices` and `spans` are complete
    when the last part has been read. Unless `is_limited`, cells may have any length.
    """
    max_cell = find_cell_limit() if is_limited else None
    shapes: dict[str, Shape] = {}
    own_types: list[dict[str, pl.DataType | None]] = []
    first = count = size = 0
    is_regular = True
    huge, unfit = RowErrors(file), {name: RowErrors(file) for name in kinds}
    for columns, lines in parts:
        if not lines:
            continue
        first = first if count else lines[0]
        following = range(first + count, first + count + len(lines))
        # Two ranges are compared at once.
        is_regular = is_regular and (lines == following or list(lines) == list(following))
        count += len(lines)
        if LINE in columns:  # refused before it meets our own
            check_names([*dict.fromkeys([*shapes, *columns])], Place(file=file))
        built = [pl.Series(LINE, lines, dtype=pl.Int64)]
        own: dict[str, pl.DataType | None] = {}
        for name, given in columns.items():
            cells = given
            if name in kinds:
                cells = cells.to_list() if isinstance(cells, pl.Series) else cells
                texts = [one if isinstance(one, str) else None for one in cells]
                check_sizes(pl.Series(name, texts, dtype=pl.String), lines, huge, max_cell)
                cells = type_cells(cells, kinds[name], Place(file=file, field=name), lines, unfit[name])
            shape = cells.dtype if isinstance(cells, pl.Series) else find_shape(cells)
            own[name] = choose_type(shape)
            if isinstance(cells, pl.Series):
                built.append(cells.alias(name))
            else:
                built.append(fill_column(name, cells, own[name]))
            if name not in kinds:
                check_sizes(built[-1], lines, huge, max_cell)
            shapes[name] = merge_shapes(shapes.get(name, pl.Null()), shape)
        frame = pl.DataFrame(built)
        size += int(frame.estimated_size())
        chunks[len(own_types)] = frame
        own_types.append(own)
        del columns
        cells = given = ()  # the next chunk is read into the same memory
    if not count:
        raise DataError("E210", "the file has no rows", where=Place(file=file))
    huge.raise_any()
    for name in kinds:
        if name not in shapes:
            message = f"`columns` types `{name}`, which is not a column"
            raise refuse_column(message, name, shapes, Place(file=file, field=name))
    for one in unfit.values():
        huge.extend(one)
    huge.raise_any()
    types = {name: choose_type(shape) for name, shape in shapes.items()}
    for number, own in enumerate(own_types):
        if list(own.items()) == list(types.items()):
            continue
        frame = chunks[number]
        aligned = [frame[LINE]]
        for name, dtype in types.items():
            if name not in own:
                aligned.append(pl.Series(name, [None] * frame.height, dtype=dtype or pl.String()))
            elif own[name] == dtype:
                aligned.append(frame[name])
            else:  # values of one type, or nulls: where a chunk has none in common, all are JSON text
                aligned.append(fill_column(name, frame[name].to_list(), dtype))
        chunks[number] = pl.DataFrame(aligned)
    encoded = frozenset(name for name, dtype in types.items() if dtype is None)
    first_line = first if is_regular else None
    return BuiltTable(count, size, encoded, first_line, tuple(notices), tuple(spans))
