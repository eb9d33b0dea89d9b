"""Values as JSON inside a page: nothing in a block can end it, and large blocks are packed.

A packed block is gzip in base64, marked `data-packed="gzip"`; every current browser unpacks it by itself.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import polars as pl

from answerkey.reports.pages.coding import encode
from answerkey.reports.pages.excerpts import Wanted
from answerkey.reports.pages.sample_source import SampleSource
from answerkey.reports.pages.single_samples import describe_samples
from answerkey.text import clean_numbers

#: A block of samples; the page unpacks one when a sample of it is opened.
BLOCK_SAMPLES = 200
#: Smaller blocks stay plain text.
LEAST_PACKED = 4_096
PACKED = "gzip"
GZIP = 31
CODED = ("category", "truth", "predicted", "status", "validity", "reason")
PLAIN = ("p", "id", "trial", "value", "flipped", "head")

# What could end a block or be taken for markup, what old scripts take for the end of a line, and halves of
# characters, which UTF-8 does not have.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")

#: Rows, column by column.
Columns = dict[str, list[Any]]


def write_json(content: object) -> str:
    """Return JSON that is safe in a page and has no NaN."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", _dump(content))


def _dump(content: object) -> str:
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:
        cleaned = clean_numbers(content)
        return json.dumps(cleaned, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)


def write_block(content: object) -> str:
    """Return what stands in an element of the page from its attributes on: JSON, packed if it is large."""
    text = write_json(content)
    return f">{text}" if len(text) < LEAST_PACKED else f' data-packed="{PACKED}">{pack(text)}'


def write_element(name: str, block: str) -> str:
    """Return the element of the page that holds a block."""
    return f'<script type="application/json" id="{name}"{block}</script>\n'


def pack(text: str) -> str:
    """Return a text packed: gzip, then base64; the same text gives the same bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    return base64.b64encode(packer.compress(text.encode()) + packer.flush()).decode("ascii")


def embed_samples(source: SampleSource, positions: pl.Series) -> tuple[Columns, list[str]]:
    """Return some rows as columns, and their samples as blocks of JSON, each ready to be written."""
    columns: Columns = {name: [] for name in (*PLAIN, *CODED)}
    samples: list[dict[str, Any]] = []
    for part in source.rows.read(positions, Wanted()):
        for row, sample in describe_samples(source, part):
            samples.append(sample)
            for name, values in columns.items():
                values.append(row[name])
    starts = range(0, len(samples), BLOCK_SAMPLES)
    return columns, [write_block(samples[start : start + BLOCK_SAMPLES]) for start in starts]


def join_columns(parts: list[Columns]) -> dict[str, Any]:
    """Return rows column by column; few texts that come again and again are numbered."""
    lists = {name: [value for part in parts for value in part[name]] for name in (*PLAIN, *CODED)}
    coded = {name: dict(zip(("codes", "names"), encode(lists[name]), strict=True)) for name in CODED}
    return {**lists, **coded}
