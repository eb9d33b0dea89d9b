"""Logs of other tools: what they asked, what the models replied, and how the tools judged it."""

from answerkey.datasets.questions import QuestionColumns
from answerkey.importers.imports import READERS, Imported, detect_kind, import_log
from answerkey.importers.json_values import DamagedError, Json
from answerkey.importers.logs import (
    ImportOptions,
    Log,
    LogPreview,
    LogReader,
    Record,
)
from answerkey.importers.questions import Question, read_question
from answerkey.models.responses import read_message

__all__ = [
    "READERS",
    "DamagedError",
    "ImportOptions",
    "Imported",
    "Json",
    "Log",
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
