"""What a row of the table is held against, as a command of its own: `python bench/references.py KIND ...`.

`nothing`: Python alone. `libraries`: what `answerkey score` imports from others. `raw IN OUT`: Polars reads,
compares first characters and writes, nothing checked. `loop TASK IN`: two compiled Jinja templates for every
row, in two processes. `ndjson`, `csv`: Polars reads a file. `json`: Python's json reads each line.
`read`: the reader of answerkey in a loop, in one process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path


def import_libraries() -> None:
    """Import what scoring needs of others."""
    import click
    import jinja2.sandbox
    import polars as pl
    import pydantic
    import regex
    import ruamel.yaml

    _use(click, jinja2, pl, pydantic, regex, ruamel)


def score_raw(source: str, out: str) -> None:
    """Score by raw Polars."""
    from raw_polars import score_raw as score

    print(score(Path(source), Path(out)))


def loop(task: str, source: str, columns: str) -> None:
    """Evaluate both templates of a task row by row."""
    from jinja_loop import Part, count_all, start_pool

    scorer = json.loads(Path(task).read_text())["definition"]["scorers"][0]
    whole = Part(Path(source), 0, 0, "expression", scorer["ground_truth_choice"], scorer["choices"], ())
    with start_pool() as pool:
        found = count_all(pool, whole._replace(columns=tuple(columns.split(","))))
    print(found.correct / found.rows)


def read_ndjson(source: str) -> None:
    """Read JSONL by Polars."""
    import polars as pl

    _use(pl.read_ndjson(source))


def read_csv(source: str) -> None:
    """Read CSV by Polars."""
    import polars as pl

    _use(pl.read_csv(source))


def read_json(source: str) -> None:
    """Read each line by itself; nothing is kept."""
    with Path(source).open("rb") as lines:
        for line in lines:
            json.loads(line)


def read_texts(source: str) -> None:
    """Read the answer out of each completion."""
    import polars as pl

    from answerkey.reader import read

    rows = pl.read_parquet(source, columns=["completion", "choices", "options"])
    for text, choices, options in rows.iter_rows():
        read(text, choices, options)


def _use(*_: object) -> None:
    """Take what was made, so that nothing leaves it out."""


KINDS: dict[str, Callable[..., None]] = {
    "nothing": _use,
    "libraries": import_libraries,
    "raw": score_raw,
    "loop": loop,
    "ndjson": read_ndjson,
    "csv": read_csv,
    "json": read_json,
    "read": read_texts,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
