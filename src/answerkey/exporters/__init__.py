"""Exports of a run as JSONL, CSV, Parquet or every_eval_ever.

A JSONL object is nested; CSV and Parquet have the columns of `run.to_frame()`.
"""

from answerkey.exporters.forms import FORMS, Exported, export, export_prompts
from answerkey.exporters.rows import (
    COMPACT,
    build_frame,
    describe_verdict,
    encoded_values,
    to_json,
)

__all__ = [
    "COMPACT",
    "FORMS",
    "Exported",
    "build_frame",
    "describe_verdict",
    "encoded_values",
    "export",
    "export_prompts",
    "to_json",
]
