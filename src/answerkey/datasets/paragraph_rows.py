"""Paragraphs: text files whose rows are groups of lines, parted by blank ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from answerkey.datasets.content import Content
from answerkey.datasets.gathering import CHUNK_CHARACTERS, CHUNK_ROWS, Chunk, Gatherer
from answerkey.types import Notice

#: The one column: the lines of a paragraph, without their ends.
COLUMN = "lines"


def read_paragraphs(content: Content, gatherer: Gatherer) -> tuple[Notice, ...]:
    """Hand over one row for each paragraph, on the line where it begins."""
    rows: list[list[str]] = []
    starts: list[int] = []
    characters = 0
    with content.open_text() as stream:
        for start, lines in _iterate_paragraphs(content, stream):
            rows.append(lines)
            starts.append(start)
            characters += sum(map(len, lines))
            if len(rows) >= CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
                gatherer.add(Chunk({COLUMN: rows}, starts))
                rows, starts, characters = [], [], 0
    gatherer.add(Chunk({COLUMN: rows}, starts))
    return ()


def _iterate_paragraphs(content: Content, stream: TextIO) -> Iterator[tuple[int, list[str]]]:
    start, lines = 0, list[str]()
    for number, raw in enumerate(stream, 1):
        if "\0" in raw:
            content.check_text()
        line = raw.rstrip("\r\n")
        if line.strip():
            start = start if lines else number
            lines.append(line)
        elif lines:
            yield start, lines
            lines = []
    if lines:
        yield start, lines
