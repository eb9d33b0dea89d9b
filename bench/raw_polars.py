"""The baseline without a harness: Polars reads the file, compares first characters, writes the same columns.

It checks nothing, knows one rule (`first_character_literal`) and one shape of rows, and computes one number:
the share of correct ones. The columns it writes are a run's scores, in the same types and compression.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

RULE = "first_character_literal"


def build_columns() -> dict[str, pl.Expr]:
    """Return the score columns, computed from a row's number, answer, choices and completion."""
    first = pl.col("completion").str.slice(0, 1)
    valid = first.is_in(pl.col("choices"))
    metadata = pl.struct(
        completion_validity=pl.when(valid).then(pl.lit("VALID")).otherwise(pl.lit("INVALID")),
        validity_reason=pl.when(~valid).then(pl.lit("NOT_A_CHOICE")),
        predicted_choice=pl.when(valid).then(first),
        ground_truth_choice=pl.col("answer"),
        choices=pl.col("choices"),
        extraction_rule=pl.lit(RULE),
    )
    verdict = pl.struct(
        status=pl.lit("SCORED"),
        reason=pl.lit(None, pl.String),
        values=pl.struct(is_correct=(first == pl.col("answer")).cast(pl.Float64)),
        metadata=metadata,
        excluded_by=pl.lit(None, pl.String),
    )
    return {
        "sample_id": pl.col("row").cast(pl.String).str.zfill(6),
        "trial": pl.lit(0, pl.Int32),
        "string_equals_mcqa": verdict,
    }


def score_raw(source: Path, out: Path, *, is_streaming: bool = False) -> float:
    """Write the scores of a Parquet file and return the share of correct ones.

    In memory it is faster than streaming, which is for files that do not fit.
    """
    columns = build_columns()
    if is_streaming:
        pl.scan_parquet(source, row_index_name="row", row_index_offset=1).select(**columns).sink_parquet(out)
        verdict = pl.scan_parquet(out).select(_find_correct().mean())
        return float(verdict.collect().item())
    needed = pl.scan_parquet(source).select("answer", "choices", "completion").with_row_index("row", 1)
    scores = needed.select(**columns).collect(engine="in-memory")
    scores.write_parquet(out)
    return float(scores.select(_find_correct().mean()).item())


def _find_correct() -> pl.Expr:
    return pl.col("string_equals_mcqa").struct.field("values").struct.field("is_correct")


def compare_scores(ours: Path, raw: Path) -> None:
    """Raise unless both wrote the very same table: then the baseline does the same work."""
    left, right = pl.read_parquet(ours / "*.parquet"), pl.read_parquet(raw)
    if left.schema != right.schema:
        raise SystemExit(f"the baseline writes other columns:\n{left.schema}\n{right.schema}")
    if not left.equals(right):
        raise SystemExit("the baseline writes other scores")
