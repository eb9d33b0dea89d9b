"""Runs on disk: write, read, list."""

from answerkey.runs.reading import FORMAT_VERSION, Run, TaskRun, list_runs, load_run
from answerkey.runs.writing import FolderRun, MemoryRun, TaskWriter, default_folder

__all__ = [
    "FORMAT_VERSION",
    "FolderRun",
    "MemoryRun",
    "Run",
    "TaskRun",
    "TaskWriter",
    "default_folder",
    "list_runs",
    "load_run",
]
