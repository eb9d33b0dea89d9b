"""A run in other forms: JSONL, CSV, Parquet, every_eval_ever.

The JSONL object is nested; CSV and Parquet have the columns of `run.to_frame()`.
"""

from answerkey.exporters.forms import FORMS, Exported, export, export_prompts
from answerkey.exporters.rows import (
    COMPACT,
    build_frame,
    describe_verdict,
    find_encoded,
    to_json,
)

__all__ = [
    "COMPACT",
    "FORMS",
    "Exported",
    "build_frame",
    "describe_verdict",
    "export",
    "export_prompts",
    "find_encoded",
    "to_json",
]
