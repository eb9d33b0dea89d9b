"""JSON of logs: values that are looked up by path, and long texts read element by element."""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Sequence
from typing import TextIO

from answerkey.datasets.content import describe_long, find_line_limit
from answerkey.datasets.options import write_cell
from answerkey.errors import DataError, Place

Row = dict[str, object]

_BLOCK = 2**20
#: Anything nested deeper than this inside a skipped value is read as one value.
_SKIPPED_DEPTH = 4
#: Numbers that JSON does not have (`NaN`, `Infinity`) are null.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
#: Made once: `str | int | float` would build a type for every value.
_NUMBERS = (str, int, float)
_SPACE = re.compile(r"[ \t\n\r]*")
#: A value that ends this close to the end of the window may go on in the next block: `-Infinity`.
_EDGE = 16


class DamagedError(Exception):
    """A row, a file or a whole archive that cannot be read; the message says why."""


class Json:
    """A value of a log.

    Paths of keys lead to what is inside, and to None or nothing where it is not there. A row of a
    file knows its `line` and, inside an object, its `key`.
    """

    __slots__ = ("key", "line", "value")

    def __init__(self, value: object, line: int | None = None, key: str = "") -> None:
        self.value = value
        self.line = line
        self.key = key

    def get(self, *path: str) -> object:
        """Return what a path leads to."""
        value = self.value
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def at(self, *path: str) -> Json:
        """Return what a path leads to, for further paths."""
        return Json(self.get(*path))

    def list(self, *path: str) -> list[Json]:
        """Return the elements of the list that a path leads to."""
        value = self.get(*path)
        if not isinstance(value, list):
            return []
        return [Json(element) for element in value]

    def first(self, *path: str) -> Json:
        """Return the first element of the list that a path leads to; null where it has none."""
        value = self.get(*path)
        if isinstance(value, list) and value:
            return Json(value[0])
        return Json(None)

    def object(self, *path: str) -> Row:
        """Return the object that a path leads to."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def text(self, *path: str) -> str | None:
        """Return the text that a path leads to, a number as text."""
        return write_cell(self.get(*path))

    def require(self, owner: str, *path: str) -> str:
        """Return the text that a path leads to.

        DamagedError, which names the `owner`, where it has none.
        """
        text = self.text(*path)
        if text is None:
            raise DamagedError(f"the {owner} has no `{'.'.join(path)}`")
        return text

    def any_text(self, *names: str) -> str | None:
        """Return the first text under one of some names that is not empty."""
        for name in names:
            text = self.text(name)
            if text:
                return text
        return None

    def number(self, *path: str) -> float | None:
        """Return the finite number that a path leads to, also written as text.

        True and false are 1 and 0.
        """
        value = self.get(*path)
        if not isinstance(value, _NUMBERS):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return number if math.isfinite(number) else None

    def count(self, *path: str) -> int | None:
        """Return the whole number from 0 on that a path leads to."""
        value = self.get(*path)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if 0 <= value < 1 << 63 else None

    def pick(self, *names: str) -> Row:
        """Return the values under some names that are not null."""
        cells = self.object()
        return {name: cells[name] for name in names if cells.get(name) is not None}

    def numbers(self, *path: str) -> dict[str, float]:
        """Return the numbers among the values of the object that a path leads to, by name."""
        numbers = {}
        for name, value in self.object(*path).items():
            number = Json(value).number()
            if number is not None:
                numbers[str(name)] = number
        return numbers


def parse_json(text: str) -> object:
    """Return the value of a JSON text; DamagedError when it is none."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        message = f"not valid JSON: {_lower(error.msg)} (character {error.pos + 1})"
        raise DamagedError(message) from None
    except (RecursionError, ValueError) as error:
        raise _refuse_size(error) from None


def parse_object(raw: bytes) -> Row:
    """Return the object that bytes hold as JSON; DamagedError when they hold none."""
    try:
        # Python decodes plain UTF-8 much faster.
        value = parse_json(raw.decode("utf-8-sig" if raw.startswith(BOM_UTF8) else "utf-8"))
    except UnicodeDecodeError as error:
        raise DamagedError(f"byte 0x{raw[error.start]:02x} is not valid UTF-8") from None
    if not isinstance(value, dict):
        raise DamagedError(f"an object is expected here, not {type(value).__name__}")
    return value


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _refuse_size(error: RecursionError | ValueError) -> DamagedError:
    if isinstance(error, RecursionError):
        return DamagedError("it is nested too deeply")
    return DamagedError("a number has too many digits")


class JsonStream:
    """One JSON text, read element by element.

    Only a window of it is in memory, which grows with a value. `beside` holds what was met on the
    way to the elements, by its path (`eval`, `a/b`); `line` is that on which the last element ends.
    """

    def __init__(self, stream: TextIO, beside: Row | None = None) -> None:
        self.line = 1
        self.beside: Row = {} if beside is None else beside
        self._stream = stream
        self._window = ""
        self._position = 0

    def elements(self, *path: str, kept: Collection[str] = ()) -> Iterator[tuple[str, object]]:
        """Yield the elements of the list, or the values of the object, to which a path leads.

        Each comes with its place in the list, or its key. Of what stands beside the path, that of
        the names in `kept` is in `beside` once it was met. DamagedError when the text ends early or
        is broken.
        """
        yield from self._descend(path, "", kept)
        if self._peek():
            raise self._fail("extra text after the end")

    def _descend(
        self, path: Sequence[str], before: str, kept: Collection[str]
    ) -> Iterator[tuple[str, object]]:
        mark = self._peek()
        if not path and mark in {"{", "["}:
            for key in self._entries():
                yield key, self._read()
            return
        if not path or mark != "{":
            self._skip()
            return
        for key in self._entries():
            place = f"{before}{key}"
            if key == path[0]:
                yield from self._descend(path[1:], f"{place}/", kept)
            elif place in kept:
                self.beside[place] = self._read()
            else:
                self._skip()

    def _entries(self) -> Iterator[str]:
        """Yield the keys of the object, or the places of the list, that starts here.

        Its value is next.
        """
        is_object = self._take("{")
        if not is_object:
            self._require("[")
        end = "}" if is_object else "]"
        place = 0
        while not self._take(end):
            if place:
                self._require(",")
            yield self._read_key() if is_object else str(place)
            place += 1

    def _read_key(self) -> str:
        key = self._read()
        if not isinstance(key, str):
            raise self._fail("expecting a key")
        self._require(":")
        return key

    def _skip(self, depth: int = _SKIPPED_DEPTH) -> None:
        """Read a value without keeping it, nor holding a large one as a whole."""
        if depth and self._peek() in {"{", "["}:
            for _ in self._entries():
                self._skip(depth - 1)
        else:
            self._read()

    def _require(self, mark: str) -> None:
        if not self._take(mark):
            raise self._fail(f"expecting `{mark}`")

    def _take(self, mark: str) -> bool:
        """Return whether a mark comes next, and go behind it."""
        is_next = self._peek() == mark
        self._position += is_next
        return is_next

    def _peek(self) -> str:
        """Go to the next character that is no white space, and return it; "" at the end."""
        while True:
            space = _SPACE.match(self._window, self._position)
            if space is not None:
                self._go_to(space.end())
            if self._position < len(self._window):
                return self._window[self._position]
            if not self._read_on():
                return ""

    def _go_to(self, position: int) -> None:
        self.line += self._window.count("\n", self._position, position)
        self._position = position

    def _read(self) -> object:
        """Return the value that starts here, and go on behind it."""
        self._peek()
        try:
            value, end = self._decode()
        except (RecursionError, ValueError) as error:
            raise _refuse_size(error) from None
        self._go_to(end)
        return value

    def _decode(self) -> tuple[object, int]:
        """Return the value that starts here, and where it ends."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._window, self._position)
            except json.JSONDecodeError as error:
                is_near_end = error.pos > len(self._window) - _EDGE
                is_cut = is_near_end or error.msg.startswith("Unterminated")
                if not is_cut or not self._read_on():
                    raise self._fail(error.msg) from None
            else:
                # A number may go on in the next block: `1` and `.5`, or `1e-` and `5`.
                is_closed = self._window[end - 1] in '}]"'
                if is_closed or end <= len(self._window) - _EDGE or not self._read_on():
                    return value, end

    def _read_on(self) -> bool:
        """Drop what has been read and add to the window; return whether there was more.

        DataError E202 for a value that is too long.
        """
        limit = find_line_limit()
        size = len(self._window) - self._position
        if size > limit:
            message = describe_long("an element", limit)
            raise DataError("E202", message, where=Place(line=self.line))
        more = self._stream.read(max(_BLOCK, size))
        if not more:
            return False
        self._window = self._window[self._position :] + more
        self._position = 0
        return True

    def _fail(self, message: str) -> DamagedError:
        """Return the error, with the line."""
        is_end = self._position >= len(self._window)
        where = "at the end" if is_end else f"on line {self.line}"
        return DamagedError(f"not valid JSON {where}: {_lower(message)}")
