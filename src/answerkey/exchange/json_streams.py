"""JSON as other tools write it, element by element: lines, lists, and lists inside objects.

Numbers that JSON does not have (`NaN`, `Infinity`) are null. Of a text only a window is in memory, which
grows when an element does not fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from answerkey.exchange.archives import DamagedError

#: The longest element, in characters.
MOST_CHARACTERS = 256 * 2**20
_BLOCK = 2**20
_SPACE = re.compile(r"[ \t\r\n]*")
#: How far from the end of the window a value that goes on can be mistaken for a broken one.
_EDGE = 16
#: What is deeper than this inside something that is passed over is read as one value.
_PASSED_DEPTH = 4
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def parse_json(text: str) -> object:
    """Return the value of a JSON text; DamagedError when it is none."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise DamagedError(f"not valid JSON: {_lower(error.msg)} (character {error.pos + 1})") from None
    except (RecursionError, ValueError) as error:
        raise _refuse_size(error) from None


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _refuse_size(error: RecursionError | ValueError) -> DamagedError:
    if isinstance(error, RecursionError):
        return DamagedError("it is nested too deeply")
    return DamagedError("a number has too many digits")


class JsonStream:
    """One JSON text; `rest` holds what was met on the way to the elements, by its path (`eval`, `a/b`)."""

    def __init__(self, stream: TextIO) -> None:
        self.rest: dict[str, object] = {}
        self.line = 1
        self._stream = stream
        self._text = ""
        self._at = 0

    def elements(self, *path: str, kept: Sequence[str] = ()) -> Iterator[tuple[str, object]]:
        """Yield the elements of the list, or the values of the object, to which a path of keys leads.

        Each comes with its place in the list, or its key. Of what stands beside the path, that of the names
        in `kept` is in `rest` once it was met. DamagedError when the text ends or breaks off.
        """
        yield from self._descend(path, "", frozenset(kept))
        if self.peek():
            raise self._fail("extra text after the end")

    def _descend(
        self, path: Sequence[str], before: str, kept: frozenset[str]
    ) -> Iterator[tuple[str, object]]:
        if not path:
            yield from self._iterate()
            return
        if self.peek() != "{":
            self._pass_over()
            return
        for key in self._keys():
            way = f"{before}{key}"
            if key == path[0]:
                yield from self._descend(path[1:], f"{way}/", kept)
            elif way in kept:
                self.rest[way] = self._decode()
            else:
                self._pass_over()

    def _iterate(self) -> Iterator[tuple[str, object]]:
        if self.peek() == "{":
            for key in self._keys():
                yield key, self._decode()
        elif self.peek() == "[":
            for place in self._places():
                yield str(place), self._decode()
        else:
            self._decode()

    def _keys(self) -> Iterator[str]:
        """Yield the keys of the object that starts here; whoever takes one reads its value."""
        self._require("{")
        is_first = True
        while not self._take("}"):
            if not is_first:
                self._require(",")
            is_first = False
            key = self._decode()
            if not isinstance(key, str):
                raise self._fail("expecting a key")
            self._require(":")
            yield key

    def _places(self) -> Iterator[int]:
        self._require("[")
        place = 0
        while not self._take("]"):
            if place:
                self._require(",")
            yield place
            place += 1

    def _pass_over(self, depth: int = _PASSED_DEPTH) -> None:
        """Read a value without keeping it, nor holding a large one as a whole."""
        mark = self.peek() if depth else ""
        if mark not in {"{", "["}:
            self._decode()
            return
        for _ in self._keys() if mark == "{" else self._places():
            self._pass_over(depth - 1)

    def peek(self) -> str:
        """Return the next character that is no white space; "" at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            end = found.end() if found else self._at
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            if end < len(self._text):
                return self._text[end]
            if not self._read_on():
                return ""

    def _take(self, mark: str) -> bool:
        is_there = self.peek() == mark
        self._at += is_there
        return is_there

    def _require(self, mark: str) -> None:
        if not self._take(mark):
            raise self._fail(f"expecting `{mark}`")

    def _decode(self) -> object:
        """Return the value that starts here, and go on behind it."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _EDGE
                if not is_cut or not self._read_on():
                    raise self._fail(_lower(error.msg)) from None
            except (RecursionError, ValueError) as error:
                raise _refuse_size(error) from None
            else:
                # A number goes on in the next block, maybe: `1` and `.5`, or `1e-` and `5`.
                is_whole = self._text[end - 1] in '}]"' or end <= len(self._text) - _EDGE
                if is_whole or not self._read_on():
                    self.line += self._text.count("\n", self._at, end)
                    self._at = end
                    return value

    def _read_on(self) -> bool:
        """Let go of what has been read and add to the window; return whether there was more."""
        held = len(self._text) - self._at
        if held > MOST_CHARACTERS:
            raise self._fail(f"an element has more than {MOST_CHARACTERS} characters")
        more = self._stream.read(max(_BLOCK, held))
        if more:
            self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)

    def _fail(self, message: str) -> DamagedError:
        where = "at the end" if not self._text[self._at :] else f"on line {self.line}"
        return DamagedError(f"not valid JSON {where}: {message}")
