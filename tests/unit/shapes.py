"""Small tables with the columns of well-known datasets, and what is to be recognised in each.

They stand in `shapes.yaml`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from ruamel.yaml import YAML

CAPITALS = (
    ("What is the capital of France?", ["Lyon", "Paris", "Nice", "Lille"], 1),
    ("What is the capital of Peru?", ["Lima", "Cusco", "Piura", "Tacna"], 0),
    ("What is the capital of Japan?", ["Osaka", "Kyoto", "Nagoya", "Tokyo"], 3),
    ("What is the capital of Kenya?", ["Mombasa", "Kisumu", "Nairobi", "Nakuru"], 2),
)


@dataclass(frozen=True)
class Shape:
    """A table, the `questions` of a dataset file for it, the truths, and the options of its
    first row.
    """

    name: str
    suffix: str
    questions: Mapping[str, object]
    truths: Sequence[str]
    options: Sequence[str]
    right: Sequence[str]
    passage: str | None = None
    rows: Sequence[Mapping[str, Any]] = ()
    text: str = ""
    encoding: str = "utf-8"

    def write(self, folder: Path) -> Path:
        """Write the table into a folder and return its path."""
        path = folder / f"{self.name}{self.suffix}"
        if self.suffix == ".parquet":
            pl.DataFrame(list(self.rows)).write_parquet(path)
            return path
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows]
        text = self.text or "".join(lines)
        path.write_bytes(text.encode(self.encoding))
        return path


SHAPES = [Shape(**entry) for entry in YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))]
