"""Runs on disk: write, read, list, and go on where one stopped."""

from answerkey.runs.journal import Journal, JournalCall, TaskLedger, Usage, remove_journal
from answerkey.runs.lock import RunLock
from answerkey.runs.reading import (
    FORMAT_VERSION,
    Run,
    TaskRun,
    list_runs,
    load_run,
    read_manifest,
    read_source,
)
from answerkey.runs.writing import (
    FolderRun,
    FolderTask,
    MemoryRun,
    MemoryTask,
    TaskWriter,
    default_folder,
)

__all__ = [
    "FORMAT_VERSION",
    "FolderRun",
    "FolderTask",
    "Journal",
    "JournalCall",
    "MemoryRun",
    "MemoryTask",
    "Run",
    "RunLock",
    "TaskLedger",
    "TaskRun",
    "TaskWriter",
    "Usage",
    "default_folder",
    "list_runs",
    "load_run",
    "read_manifest",
    "read_source",
    "remove_journal",
]
