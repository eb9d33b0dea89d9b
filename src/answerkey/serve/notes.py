"""Notes that people attach to samples: a file of its own in the run folder, beside what the run wrote."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from answerkey.errors import RunError, ServeError

NOTES_NAME = "notes.json"
VERSION = 1
MOST_CHARACTERS = 20_000
#: A file of notes that is larger was not written here.
_MOST_BYTES = 64 << 20
_PATIENCE = 3.0
_PAUSE = 0.02


@dataclass(frozen=True)
class Note:
    """What somebody wrote about a sample of a task; `trial` is 0 where each was asked once."""

    task: str
    sample_id: str
    trial: int
    text: str
    changed_at: str

    @property
    def place(self) -> tuple[str, str, int]:
        """What the note is about."""
        return self.task, self.sample_id, self.trial


class Notes:
    """The notes of one run; safe for threads, and for several viewers of the same run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / NOTES_NAME
        self._lock = threading.Lock()
        self._read: tuple[object, dict[tuple[str, str, int], Note]] = (None, {})

    def list(self) -> list[Note]:
        """Return the notes in the order in which they were first written."""
        return list(self._load().values())

    def find(self, task: str, sample_id: str, trial: int) -> str | None:
        """Return the note on a sample, or None."""
        found = self._load().get((task, sample_id, trial))
        return None if found is None else found.text

    def write(self, task: str, sample_id: str, trial: int, text: str, *, was: str | None = None) -> None:
        """Keep a note; an empty one is removed. E705 when it is no longer what it `was`, if that is told."""
        note = Note(task, sample_id, trial, text, datetime.now(UTC).isoformat(timespec="seconds"))
        with self._lock, _hold(self._folder):
            notes = dict(self._load())
            held = notes.get(note.place)
            if was is not None and (held.text if held else "") != was:
                hint = "read it again, then change it"
                raise ServeError("E705", "the note was changed meanwhile", status=409, hint=hint)
            if text:
                notes[note.place] = note
            else:
                notes.pop(note.place, None)
            self._store(notes)

    def _load(self) -> dict[tuple[str, str, int], Note]:
        """Return the notes by what they are about; the file is read again only when it has changed."""
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            return {}
        mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if self._read[0] != mark:
            self._read = mark, {note.place: note for note in _read_notes(self._file, stat.st_size)}
        return self._read[1]

    def _store(self, notes: Mapping[tuple[str, str, int], Note]) -> None:
        try:
            if notes:
                listed = [asdict(note) for note in notes.values()]
                _write_whole(self._file, {"format_version": VERSION, "notes": listed})
            else:
                self._file.unlink(missing_ok=True)
        except OSError as error:
            hint = "check the free space and the rights of the run folder"
            raise RunError("E502", f"the note cannot be kept: {error.strerror}", hint=hint) from error


def _read_notes(file: Path, size: int) -> list[Note]:
    hint = "correct the file, or move it away; it is not overwritten"
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8")) if size <= _MOST_BYTES else None
        version, stored = content["format_version"], [_read_note(one) for one in content["notes"]]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError("E503", f"`{NOTES_NAME}` of the run cannot be read: {error}", hint=hint) from error
    if version != VERSION:
        raise RunError("E503", f"`{NOTES_NAME}` of the run has the unknown version {version!r}", hint=hint)
    return stored


def _read_note(stored: Mapping[str, Any]) -> Note:
    texts = [str(stored[name]) for name in ("task", "sample_id")]
    return Note(texts[0], texts[1], int(stored["trial"]), str(stored["text"]), str(stored.get("changed_at")))


def _write_whole(file: Path, content: object) -> None:
    """Write the file under a new name, flush it, then give it its name.

    The new name is one that nobody could have prepared: a run folder may come from someone else, and a link
    in it must not lead the writing elsewhere.
    """
    text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    handle, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(draft).chmod(0o644)
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


@contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Keep other viewers from writing notes meanwhile; the lock is on the folder itself, no file is made."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    message = "another viewer is writing notes on this run"
                    raise RunError("E506", message, hint="try again in a moment") from error
                time.sleep(_PAUSE)
            except OSError:  # a file system without such locks
                break
        yield
    finally:
        with suppress(OSError):
            os.close(handle)
