"""The baseline without a harness: a plain loop over JSON Lines that writes the same table of
scores.

It checks nothing, knows one rule (`first_character`) and one shape of rows, and computes one
number.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from answerkey.reader import read_first_character

RULE = "first_character"


def score_rows(source: Path, out: Path) -> float:
    """Write the scores of a file, and return the share of correct ones."""
    readings: dict[tuple[str, str], tuple[str | None, str | None]] = {}
    rows = []
    with source.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            sample = json.loads(line)
            text, labels, truth = sample["completion"], sample["choices"], sample["answer"]
            key = (text, "".join(labels))
            if key not in readings:
                reading = read_first_character(text, tuple(labels))
                readings[key] = (reading.choice, reading.reason)
            choice, reason = readings[key]
            is_correct = 1.0 if choice == truth else 0.0
            validity = "VALID" if choice else "INVALID"
            rows.append(
                (f"{number:06d}", is_correct, validity, reason, choice, truth, labels, RULE)
            )
    names = (
        "sample_id",
        "is_correct",
        "completion_validity",
        "validity_reason",
        "predicted_choice",
    )
    table = pl.DataFrame(
        rows, [*names, "ground_truth_choice", "choices", "extraction_rule"], orient="row"
    )
    table.write_parquet(out)
    return float(table.select(pl.col("is_correct").mean()).item())
