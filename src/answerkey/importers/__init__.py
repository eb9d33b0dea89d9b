"""Logs of other tools in: what they asked, what was said to it, and how they judged it."""

from answerkey.datasets.questions import QuestionColumns
from answerkey.importers.imports import AUTO, READERS, Imported, detect_kind, import_log
from answerkey.importers.json_values import DamagedError, Json
from answerkey.importers.logs import (
    ImportOptions,
    Log,
    LogDescription,
    LogPreview,
    LogReader,
    Record,
)
from answerkey.importers.questions import Question, read_question
from answerkey.models.responses import read_message

__all__ = [
    "AUTO",
    "READERS",
    "DamagedError",
    "ImportOptions",
    "Imported",
    "Json",
    "Log",
    "LogDescription",
    "LogPreview",
    "LogReader",
    "Question",
    "QuestionColumns",
    "Record",
    "detect_kind",
    "import_log",
    "read_message",
    "read_question",
]
