"""Logs of other tools in: what they asked, what was said to it, and how they judged it."""

from answerkey.importers.imports import AUTO, READERS, Imported, detect_kind, import_log
from answerkey.importers.logs import (
    ImportOptions,
    Log,
    LogDescription,
    LogPreview,
    LogReader,
    Record,
)
from answerkey.importers.questions import Question

__all__ = [
    "AUTO",
    "READERS",
    "ImportOptions",
    "Imported",
    "Log",
    "LogDescription",
    "LogPreview",
    "LogReader",
    "Question",
    "Record",
    "detect_kind",
    "import_log",
]
