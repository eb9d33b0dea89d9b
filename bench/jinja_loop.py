"""The baseline with templates: a loop over rows that evaluates two compiled, sandboxed templates for each.

Nothing is cached, checked or written; it only counts. `render` renders texts, as templates do, and parses the
text of the list; `expression` has Jinja return the values themselves, which is the fastest form there is.
"""

from __future__ import annotations

import ast
import multiprocessing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

FORMS = ("render", "expression")
PROCESSES = 2
Evaluate = Callable[[Mapping[str, Any]], Any]


class Part(NamedTuple):
    """Some rows of a file and how they are judged."""

    source: Path
    start: int
    rows: int
    form: str
    truth: str
    choices: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """What was counted."""

    rows: int
    valid: int
    correct: int


def count_part(part: Part) -> Count:
    """Judge the rows of a part one by one."""
    find_truth, find_choices = compile_both(part)
    frame = pl.scan_parquet(part.source).select(part.columns).slice(part.start, part.rows).collect()
    valid = correct = 0
    for sample in frame.iter_rows(named=True):
        truth, choices = find_truth(sample), find_choices(sample)
        first = sample["completion"][:1]
        if first in choices:
            valid += 1
            correct += first == truth
    return Count(frame.height, valid, correct)


def compile_both(part: Part) -> tuple[Evaluate, Evaluate]:
    """Return what gives the truth and the choices of a row."""
    environment = SandboxedEnvironment(undefined=StrictUndefined)
    if part.form == "expression":
        bare = [text.strip().removeprefix("{{").removesuffix("}}") for text in (part.truth, part.choices)]
        truth, choices = (environment.compile_expression(text, undefined_to_none=False) for text in bare)
        return lambda sample: truth(sample=sample), lambda sample: choices(sample=sample)
    written, listed = environment.from_string(part.truth), environment.from_string(part.choices)
    return (
        lambda sample: written.render(sample=sample),
        lambda sample: ast.literal_eval(listed.render(sample=sample)),
    )


def start_pool() -> Pool:
    """Return the two processes."""
    return multiprocessing.get_context("spawn").Pool(PROCESSES)


def count_all(pool: Pool, whole: Part) -> Count:
    """Count the whole file, an equal share of rows in each process."""
    rows = pl.scan_parquet(whole.source).select(pl.len()).collect().item()
    size = -(-rows // PROCESSES)
    parts = [
        Part(whole.source, start, size, whole.form, whole.truth, whole.choices, whole.columns)
        for start in range(0, rows, size)
    ]
    counts = pool.map(count_part, parts, chunksize=1)
    return Count(*(sum(getattr(one, name) for one in counts) for name in ("rows", "valid", "correct")))
