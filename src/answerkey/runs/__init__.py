"""Runs on disk: write, read, list, and go on where one stopped."""

from answerkey.runs.files import write_frames, write_output
from answerkey.runs.finding import is_run, list_places, list_runs, load_manifest, load_run
from answerkey.runs.gates import NOT_COMPLETE, describe_gates, leave_open
from answerkey.runs.journal import Journal, JournalCall, TaskLedger, Usage, remove_journal
from answerkey.runs.lock import RunLock
from answerkey.runs.memory import MemoryRun, MemoryTask
from answerkey.runs.parts import FolderParts, HeldParts, KeptCompletions, Parts
from answerkey.runs.places import RunPlace, StoredFolder, find_place
from answerkey.runs.reading import FORMAT_VERSION, Run, TaskRun, find_answerer, name_answerer, read_manifest
from answerkey.runs.starting import forget_journal, has_only_begun, require_free, start_run, take_up_run
from answerkey.runs.stored_run import StoredTask
from answerkey.runs.writing import FolderRun, FolderTask, TaskWriter, default_folder

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
    "RunPlace",
    "StoredFolder",
    "StoredTask",
    "TaskLedger",
    "TaskRun",
    "TaskWriter",
    "Usage",
    "default_folder",
    "describe_gates",
    "find_answerer",
    "find_place",
    "forget_journal",
    "has_only_begun",
    "is_run",
    "leave_open",
    "list_places",
    "list_runs",
    "load_manifest",
    "load_run",
    "name_answerer",
    "read_manifest",
    "remove_journal",
    "require_free",
    "start_run",
    "take_up_run",
    "write_frames",
    "write_output",
]
