"""Other tools' logs in: what they asked, what was said to it, and how they judged it; rows out."""

from answerkey.exchange.every_eval_ever_rows import write_every_eval_ever
from answerkey.exchange.importing import AUTO, READERS, Imported, describe_import, detect_kind, import_log
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Glimpse, Log, LogReader, Told, Wishes

__all__ = [
    "AUTO",
    "READERS",
    "Asked",
    "Glimpse",
    "Imported",
    "Line",
    "Log",
    "LogReader",
    "Theirs",
    "Told",
    "Wishes",
    "describe_import",
    "detect_kind",
    "import_log",
    "write_every_eval_ever",
]
