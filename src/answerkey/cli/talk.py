"""Printing: data on stdout, talk on stderr, colour only where someone looks at it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TextIO, cast
from weakref import WeakSet

if TYPE_CHECKING:
    from rich.text import Text

    from answerkey.cli.display import Display
    from answerkey.text import Line
    from answerkey.types import Notice

#: What JSON has been written to.
_json_streams: WeakSet[TextIO] = WeakSet()
STYLES = {
    "plain": "",
    "title": "bold",
    "head": "dim",
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
}


@dataclass(frozen=True)
class Talk:
    """How this command speaks: `--json`, `--verbose`, `--quiet`."""

    as_json: bool = False
    verbose: bool = False
    quiet: bool = False

    @property
    def width(self) -> int:
        """The cells of a line: of the terminal, or 100 where there is none."""
        return max(60, shutil.get_terminal_size((100, 24)).columns)

    def print_lines(self, lines: Iterable[Line]) -> None:
        """Print data for people on stdout."""
        write_lines(lines, sys.stdout)

    def print_json(self, content: object) -> None:
        """Print the one JSON object of `--json` on stdout."""
        write_json(content)

    def say(self, lines: Iterable[Line]) -> None:
        """Print talk on stderr, unless `--quiet`."""
        if not self.quiet:
            write_lines(lines, sys.stderr)

    def say_text(self, text: str) -> None:
        """Print one line of talk on stderr, unless `--quiet`."""
        from answerkey.text import line, make_visible

        self.say([line(make_visible(text))])

    def warn(self, notices: Iterable[Notice]) -> None:
        """Print notices on stderr, unless `--quiet`."""
        from answerkey.text import draw_notice

        for notice in notices:
            self.say(draw_notice(notice))

    @contextmanager
    def display(self) -> Iterator[Display]:
        """Yield what shows progress on stderr: a block on a terminal, else a line now and then."""
        from answerkey.cli.display import open_display

        with open_display(is_quiet=self.quiet) as display:
            yield display


def wants_colour(stream: TextIO) -> bool:
    """Return whether to colour what goes to a stream: `NO_COLOR`, then `FORCE_COLOR`, then a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def write_lines(lines: Iterable[Line], stream: TextIO) -> None:
    """Write lines to a stream, with or without colour; the text is the same."""
    from answerkey.text import make_line_visible, plain_text

    if not wants_colour(stream):
        stream.write(plain_text(map(make_line_visible, lines)))
        return
    from rich.console import Console

    console = Console(file=stream, force_terminal=True, markup=False, highlight=False, emoji=False)
    for one in lines:
        console.print(colour_line(one), soft_wrap=True)


def colour_line(one: Line) -> Text:
    """Return a line with its roles as colours."""
    from rich.text import Text

    from answerkey.text import make_line_visible

    text = Text()
    for span in make_line_visible(one):
        text.append(span.text, style=STYLES[span.role] or None)
    text.rstrip()
    return text


def write_json(content: object) -> None:
    """Write one JSON object to stdout; never NaN, readable in any encoding, nothing that a terminal obeys."""
    from answerkey.text import escape_json

    is_ascii = not is_unicode(sys.stdout)
    text = escape_json(json.dumps(content, ensure_ascii=is_ascii, indent=2, allow_nan=False)) + "\n"
    _json_streams.add(sys.stdout)
    sys.stdout.write(text)


def has_written_json() -> bool:
    """Return whether stdout has its one JSON object."""
    return sys.stdout in _json_streams


class VisibleStream:
    """A terminal to which data is written: what it would obey or hide is written out, lines stay."""

    def __init__(self, stream: TextIO, show: Callable[[str], str]) -> None:
        self._stream = stream
        self._show = show

    def write(self, text: str) -> int:
        """Write text so that all of it is seen."""
        return self._stream.write(self._show(text))

    def writelines(self, texts: Iterable[str]) -> None:
        """Write texts one by one."""
        for text in texts:
            self.write(text)


def open_stream(*, is_json: bool) -> TextIO:
    """Return stdout for data: exact where a program reads it, visible where somebody looks at it."""
    if not sys.stdout.isatty():
        return sys.stdout
    from answerkey.text import escape_json, make_visible

    show = escape_json if is_json else partial(make_visible, keep_lines=True)
    return cast("TextIO", VisibleStream(sys.stdout, show))


def is_unicode(stream: TextIO) -> bool:
    """Return whether a stream takes every character."""
    return (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"
