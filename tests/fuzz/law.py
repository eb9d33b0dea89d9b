"""What every law needs: the words for it, text and values out of bytes, and a folder to write
in.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from answerkey.errors import CODES, AnswerkeyError, Problems

HERE = Path(__file__).parent
#: Longer inputs are cut: what is large is the matter of other tests.
LONGEST = 65_536
#: Between the parts of one input.
PART, ENTRY = "\x1e", "\x1d"


@dataclass(frozen=True)
class Law:
    """What holds for all bytes: `check` raises for those for which it does not.

    `seeds` are inputs that mean something, `words` pieces that they are made of. In the short
    series `check` is called `examples` times.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes] = ()
    examples: int = 40


def list_stored(name: str) -> list[bytes]:
    """Return the seeds that lie in a folder."""
    return [path.read_bytes() for path in sorted((HERE / "seeds" / name).iterdir())]


@cache
def read_words() -> dict[str, list[str]]:
    """Return the pieces that inputs are made of, by what they are pieces of."""
    words: dict[str, list[str]] = json.loads((HERE / "words.json").read_text(encoding="utf-8"))
    return words


def list_words(*names: str) -> list[bytes]:
    """Return the pieces of inputs of these kinds."""
    return [word.encode() for name in names for word in read_words()[name]]


def decode(raw: bytes) -> str:
    """Return bytes as text that any table can hold."""
    return raw.decode("utf-8", "replace")


def split(raw: bytes, count: int) -> list[str]:
    """Return a text in this many parts; missing parts are empty."""
    parts = decode(raw).split(PART, count - 1)
    return parts + [""] * (count - len(parts))


def read_value(text: str) -> object:
    """Return what a text is as JSON, else the text itself."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return text


@cache
def open_folder() -> Path:
    """Return a folder for this process; it is removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="answerkey-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def refusing(*codes: str) -> Iterator[None]:
    """Let an error of ours pass, with one of these codes if any are named, that can be shown as it
    is.
    """
    try:
        yield
    except AnswerkeyError as error:
        require_error(error)
        if codes and error.code not in codes:
            raise


def require_error(error: AnswerkeyError) -> None:
    """Require that an error says what happened, and is no bug."""
    for cause in error.errors if isinstance(error, Problems) else (error,):
        assert cause.code in CODES
        assert cause.code != "E901", str(cause)
        assert cause.message
        json.dumps(cause.describe(), allow_nan=False)
        str(cause).encode("utf-8", "backslashreplace")
