"""The rows of a run for other programs: JSONL, CSV, Parquet and every_eval_ever."""

from answerkey.exporters.rows import (
    CSV,
    FORMS,
    PARQUET,
    Exported,
    check_form,
    describe_verdict,
    export_rows,
    find_encoded,
    guard_column,
    pick_task,
    read_rows,
    to_json,
)

__all__ = [
    "CSV",
    "FORMS",
    "PARQUET",
    "Exported",
    "check_form",
    "describe_verdict",
    "export_rows",
    "find_encoded",
    "guard_column",
    "pick_task",
    "read_rows",
    "to_json",
]
