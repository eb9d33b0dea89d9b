"""Runs on disk: write, read, list, and go on where one stopped."""

from answerkey.runs.files import write_frames, write_output
from answerkey.runs.gates import NOT_COMPLETE, describe_gates, leave_open
from answerkey.runs.journal import Journal, JournalCall, TaskLedger, Usage, remove_journal
from answerkey.runs.lock import RunLock
from answerkey.runs.parts import FolderParts, HeldParts, KeptCompletions, Parts
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
    "NOT_COMPLETE",
    "FolderParts",
    "FolderRun",
    "FolderTask",
    "HeldParts",
    "Journal",
    "JournalCall",
    "KeptCompletions",
    "MemoryRun",
    "MemoryTask",
    "Parts",
    "Run",
    "RunLock",
    "TaskLedger",
    "TaskRun",
    "TaskWriter",
    "Usage",
    "default_folder",
    "describe_gates",
    "leave_open",
    "list_runs",
    "load_run",
    "read_manifest",
    "read_source",
    "remove_journal",
    "write_frames",
    "write_output",
]
