"""The journal of a run on shared storage: it is written on this machine, and published from time to time.

SQLite needs a file system, and a call counts as finished when it is on disk. So the journal lies in the
user's cache folder; a copy goes to the run folder now and then, and when the run stops. Where it is resumed,
the copy and what this machine has of it become one.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

from answerkey.datasets.storage import find_object, put_object, remove_objects
from answerkey.errors import RunError
from answerkey.runs.journal import JOURNAL_NAME, VERSION, remove_journal
from answerkey.runs.places import StoredFolder, reaching_storage
from answerkey.runs.records import COLUMNS, mend_records

#: Seconds between two copies at least; a copy that takes long is made more seldom.
EVERY = 60.0
SHARE = 20.0
#: Which run a folder of this machine belongs to.
OWNER_NAME = "run"
#: A call that failed on one side was answered on the other; what was answered stays as it is.
_TAKE_ANSWERS = f"""
INSERT OR REPLACE INTO calls (place, {COLUMNS})
SELECT failed.place, {", ".join(f"other.{name}" for name in COLUMNS.split(", "))}
FROM calls AS failed JOIN other.calls AS other ON failed.key = other.key WHERE failed.status = 'ERROR'
"""  # noqa: S608 - constants
_TAKE_CALLS = f"""
INSERT INTO calls ({COLUMNS})
SELECT {COLUMNS} FROM other.calls WHERE key NOT IN (SELECT key FROM calls)
"""  # noqa: S608 - constants
_TAKE_BATCHES = "INSERT OR IGNORE INTO batches SELECT * FROM other.batches"


class JournalCopies:
    """Publishes copies of a journal while a run is worked on, on a thread of its own."""

    def __init__(self, place: StoredFolder) -> None:
        self._file = place.home / JOURNAL_NAME
        self._url = f"{place.url}/{JOURNAL_NAME}"
        self._end = threading.Event()
        self._turn = threading.Lock()
        self._published: int | None = None
        self._thread = threading.Thread(target=self._go_on, name="answerkey-journal", daemon=True)
        self._thread.start()

    def publish(self) -> None:
        """Publish a copy of the journal as it is now, unless that was done; E509 when it cannot be."""
        with self._turn, tempfile.TemporaryDirectory(prefix="answerkey-journal-") as folder:
            copy = Path(folder) / JOURNAL_NAME
            changes = self._copy(copy)
            if changes is not None and changes != self._published:
                with reaching_storage():
                    put_object(self._url, copy)
                self._published = changes

    def end(self) -> None:
        """Publish no more; a second call does nothing."""
        self._end.set()
        self._thread.join()

    def _go_on(self) -> None:
        pause = EVERY
        while not self._end.wait(pause):
            begun = time.monotonic()
            with suppress(
                RunError, OSError, sqlite3.Error
            ):  # the next copy, or the end of the run, will tell
                self.publish()
            pause = max(EVERY, SHARE * (time.monotonic() - begun))

    def _copy(self, copy: Path) -> int | None:
        """Copy the journal as it is at one moment; return a number that grows with it, None without one."""
        if not self._file.is_file():
            return None
        with closing(sqlite3.connect(self._file, timeout=30)) as source, closing(sqlite3.connect(copy)) as to:
            source.backup(to)
            to.execute("PRAGMA journal_mode = DELETE").close()
            return _sum_up(to)


def _sum_up(journal: sqlite3.Connection) -> int:
    """Return a number that differs when calls or batches do: calls are added, failed ones are answered."""
    row = journal.execute(
        "SELECT COUNT(*) + 3 * TOTAL(status <> 'ERROR') + 7 * (SELECT TOTAL(2 * rowid + (batch IS NOT NULL))"
        " FROM batches) FROM calls"
    ).fetchone()
    return int(row[0])


def claim_home(place: StoredFolder, started_at: str, *, is_new: bool) -> None:
    """Make the folder of this machine that of a run; what another run left there is removed."""
    home, owner = place.home, place.home / OWNER_NAME
    with suppress(OSError):
        if not is_new and owner.read_text(encoding="utf-8") == started_at:
            return
    remove_journal(home)
    owner.write_text(started_at, encoding="utf-8")


def bring_journal(place: StoredFolder) -> int:
    """Bring the published copy of a journal here; what this machine has of the run stays.

    Return how many records were lost where the two became one; what is lost of a copy that is the only one is
    told when it is opened. E503 when it is damaged, E509 when it cannot be had.
    """
    with reaching_storage():
        found = find_object(f"{place.url}/{JOURNAL_NAME}")
        if found is None:
            return 0
        home = place.home
        with tempfile.NamedTemporaryFile(dir=home, prefix=".journal-", delete=False) as file:
            copy = Path(file.name)
            for block in found.iterate():
                file.write(block)
    try:
        if (home / JOURNAL_NAME).is_file():
            return _merge(home / JOURNAL_NAME, copy)
        copy.replace(home / JOURNAL_NAME)
    except sqlite3.Error as error:
        message = (
            f"the journal `{found.url}`, or the one of this machine, `{home / JOURNAL_NAME}`, is damaged"
        )
        hint = "delete the damaged one and resume: what the other and the call cache know is not asked again"
        raise RunError("E503", f"{message}: {error}", hint=hint) from error
    else:
        return 0
    finally:
        copy.unlink(missing_ok=True)


def _merge(own: Path, other: Path) -> int:
    """Add to a journal what another one of the same run has more; return how many records both had lost."""
    with closing(sqlite3.connect(own, timeout=30, isolation_level=None)) as journal:
        journal.execute("PRAGMA trusted_schema = OFF").close()  # the copy may come from a stranger
        journal.execute("ATTACH ? AS other", (str(other),)).close()
        version = journal.execute("PRAGMA other.user_version").fetchone()[0]
        if version != VERSION:
            raise sqlite3.DatabaseError(f"it has the version {version}")
        lost = mend_records(journal) + mend_records(journal, "other")
        journal.execute("BEGIN IMMEDIATE").close()
        for statement in (_TAKE_ANSWERS, _TAKE_CALLS, _TAKE_BATCHES):
            journal.execute(statement).close()
        journal.execute("COMMIT").close()
    return lost


def remove_copy(place: StoredFolder) -> None:
    """Remove the published copy, and what is here: the tables of a complete run say the same."""
    with reaching_storage():
        remove_objects([f"{place.url}/{JOURNAL_NAME}"])
    with suppress(OSError):
        remove_journal(place.home)
        (place.home / OWNER_NAME).unlink(missing_ok=True)
