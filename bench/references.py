"""What a row of the table is held against, as a command of its own: `python bench/references.py
KIND ...`.

`nothing`: Python alone. `libraries`: what `answerkey score` imports from others. `loop IN OUT`: a
plain loop that scores JSON Lines and writes the same table, nothing checked. `json`: Python's json
reads each line. `read`: the reader of answerkey in a loop, in one process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path


def import_libraries() -> None:
    """Import the libraries that scoring needs."""
    import click
    import jinja2.sandbox
    import polars as pl
    import pydantic
    import regex
    import ruamel.yaml

    _use(click, jinja2, pl, pydantic, regex, ruamel)


def loop(source: str, out: str) -> None:
    """Score by a plain loop."""
    from plain_loop import score_rows

    print(score_rows(Path(source), Path(out)))


def read_json(source: str) -> None:
    """Read each line by itself; nothing is kept."""
    with Path(source).open("rb") as lines:
        for line in lines:
            json.loads(line)


def read_texts(source: str) -> None:
    """Extract the answer from each completion."""
    import polars as pl

    from answerkey.reader import read

    rows = pl.read_parquet(source, columns=["completion", "choices", "options"])
    for text, choices, options in rows.iter_rows():
        read(text, choices, options)


def _use(*_: object) -> None:
    """Use a value, so that it is really computed."""


KINDS: dict[str, Callable[..., None]] = {
    "nothing": _use,
    "libraries": import_libraries,
    "loop": loop,
    "json": read_json,
    "read": read_texts,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
