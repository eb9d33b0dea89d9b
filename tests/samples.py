"""Samples for tests, made of a table, and tables of cases."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from answerkey.datasets.sources import Source
from answerkey.errors import DataError
from answerkey.scorers import Scorer, score_rows
from answerkey.types import Completion, Completions, Row, Sample, Samples, Scores


def samples_from_frame(
    frame: pl.DataFrame,
    ids: Iterable[object] | None = None,
    file: str | None = None,
    lines: Iterable[int] | None = None,
    *,
    encoded: Collection[str] = (),
    orders: pl.DataFrame | None = None,
) -> Samples:
    """Return the rows of a frame as samples, with numbers from 0 on as ids unless they have others.

    The cells of `encoded` columns are JSON text.
    """
    names = list(map(str, range(frame.height) if ids is None else ids))
    numbers: list[int | None] = [None] * len(names)
    if lines is not None:
        numbers = list(lines)
    rows = frame.to_dicts() if frame.width else [{} for _ in names]
    items = []
    for name, line, fields in zip(names, numbers, rows, strict=True):
        for column in encoded:
            if isinstance(fields[column], str):
                fields[column] = json.loads(fields[column])
        items.append(Sample(name, Row(fields), file, line))
    written = None if orders is None else items
    return Samples(items, frame.columns, file, orders, written)


def record(samples: Samples, completions: Iterable[Completion | str | None]) -> Completions:
    """Return recorded completions of samples; a text stands for the completion that says it."""
    items = [reply if isinstance(reply, Completion) else Completion(reply) for reply in completions]
    return Completions.build(samples.ids, items, source="recorded")


def read_cases(test_file: str) -> dict[str, list[Any]]:
    """Return the tables of cases in the YAML file beside a test, by name."""
    cases: dict[str, list[Any]] = YAML(typ="safe").load(Path(test_file).with_suffix(".yaml"))
    return cases


def refuse(source: Source, message: str) -> None:
    """Read a source that is refused with this message."""
    with pytest.raises(DataError, match=message):
        source.read(name="x")


def score_table(scorer: Scorer, samples: Samples, completions: Completions) -> Scores:
    """Return a scorer's scores as a run stores them."""
    return score_rows(scorer, samples, completions)
