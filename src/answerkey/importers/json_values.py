"""Values in logs, looked up by path."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8

from answerkey.datasets.options import write_cell

Row = dict[str, object]

#: Numbers that JSON does not have (`NaN`, `Infinity`) become null.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
#: Made once: `str | int | float` would build a type for every value.
_NUMBERS = (str, int, float)
#: The words of tools for right and wrong answers; partly right is a half.
_VERDICTS = {
    "c": 1.0,
    "correct": 1.0,
    "true": 1.0,
    "yes": 1.0,
    "right": 1.0,
    "pass": 1.0,
    "passed": 1.0,
    "p": 0.5,
    "i": 0.0,
    "incorrect": 0.0,
    "wrong": 0.0,
    "fail": 0.0,
    "failed": 0.0,
    "false": 0.0,
    "no": 0.0,
    "n": 0.0,
}


class DamagedError(Exception):
    """A row, a file or an archive that cannot be read; the message says why."""


class Json:
    """A value in a log.

    A path of keys leads to an inner value; a missing one is None or empty. A row of a file knows
    its `line`, or its `key` in a list or an object.
    """

    __slots__ = ("key", "line", "value")

    def __init__(
        self,
        value: object,
        line: int | None = None,
        key: str = "",
    ) -> None:
        self.value = value
        self.line = line
        self.key = key

    def get(self, *path: str) -> object:
        """Return the value at a path."""
        value = self.value
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def at(self, *path: str) -> Json:
        """Return the value at a path, for further paths."""
        return Json(self.get(*path))

    def list(self, *path: str) -> list[Json]:
        """Return the elements of the list at a path."""
        value = self.get(*path)
        if not isinstance(value, list):
            return []
        return [Json(element) for element in value]

    def element(self, place: int, *path: str) -> Json:
        """Return one element of the list at a path; null if there is none."""
        value = self.get(*path)
        if isinstance(value, list) and place < len(value):
            return Json(value[place])
        return Json(None)

    def object(self, *path: str) -> Row:
        """Return the object at a path."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def text(self, *path: str) -> str | None:
        """Return the text at a path; a number as text."""
        return write_cell(self.get(*path))

    def require(self, owner: str, *path: str) -> str:
        """Return the text at a path; raise DamagedError with the name of the `owner` if missing."""
        text = self.text(*path)
        if not text:
            raise DamagedError(f"the {owner} has no `{'.'.join(path)}`")
        return text

    def any_text(self, *names: str) -> str | None:
        """Return the first text under these names that is not empty."""
        for name in names:
            text = self.text(name)
            if text:
                return text
        return None

    def number(self, *path: str) -> float | None:
        """Return the finite number at a path, which may be written as text; true and false are 1
        and 0.
        """
        value = self.get(*path)
        if not isinstance(value, _NUMBERS):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return number if math.isfinite(number) else None

    def any_number(self, *names: str) -> float | None:
        """Return the first number under these names."""
        for name in names:
            number = self.number(name)
            if number is not None:
                return number
        return None

    def verdict(self) -> float | None:
        """Return the value as a verdict: a number, or the number of a word such as `C` or
        `incorrect`.
        """
        word = str(self.value).strip().lower()
        return _VERDICTS.get(word, self.number())

    def count(self, *path: str) -> int | None:
        """Return the non-negative whole number at a path."""
        value = self.get(*path)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if 0 <= value < 1 << 63 else None

    def pick(self, *names: str) -> Row:
        """Return the values under these names that are not null."""
        cells = {}
        for name in names:
            value = self.get(name)
            if value is not None:
                cells[name] = value
        return cells


def parse_json(text: str) -> object:
    """Return the value of a JSON text; raise DamagedError if it is not one."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise DamagedError(f"not valid JSON: {reason} (character {error.pos + 1})") from None
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    except ValueError:
        raise DamagedError("a number has too many digits") from None


def parse_first(text: str) -> Json:
    """Return the object at the start of a text, or of its list; null if there is none."""
    try:
        value, _ = _DECODER.raw_decode(text.lstrip("[ \t\r\n"))
    except (RecursionError, ValueError):
        return Json(None)
    return Json(value if isinstance(value, dict) else None)


def parse_bytes(raw: bytes) -> object:
    """Return the JSON value in bytes; raise DamagedError if there is none."""
    encoding = "utf-8"  # which Python decodes much faster
    if raw.startswith(BOM_UTF8):
        encoding = "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DamagedError(f"byte 0x{byte:02x} is not valid UTF-8") from None
    return parse_json(text)
