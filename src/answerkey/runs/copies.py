"""Copies of the journal of a run on object storage.

SQLite needs a file system, and a call counts as finished when it is on disk. So the journal of
such a run lies in the user's cache folder. A copy is published now and then, and when the run
stops. Where the run is resumed, the copy and what this machine has of it become one.
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path

from answerkey.datasets.storage import find_object, put_object
from answerkey.errors import RunError
from answerkey.models.store import CallStore, remove_store
from answerkey.runs.store import JOURNAL_NAME, OWNER_NAME, ObjectStore, reaching_storage

#: Seconds between two published copies.
EVERY = 60.0


class JournalCopies:
    """Publishes copies of the journal of a run on object storage, on a thread of its own."""

    def __init__(self, journal: CallStore, store: ObjectStore) -> None:
        self._journal = journal
        self._url = store.show(JOURNAL_NAME)
        self._end = threading.Event()
        self._turn = threading.Lock()
        self._published: int | None = None
        self._thread = threading.Thread(target=self._go_on, name="answerkey-journal", daemon=True)
        self._thread.start()

    def publish(self) -> None:
        """Publish a copy of the journal as it is now, unless that was done.

        E509 when it cannot be.
        """
        with self._turn, tempfile.TemporaryDirectory(prefix="answerkey-journal-") as folder:
            changes = self._journal.changes
            if changes == self._published:
                return
            copy = Path(folder) / JOURNAL_NAME
            self._journal.copy_to(copy)
            with reaching_storage():
                put_object(self._url, copy)
            self._published = changes

    def end(self) -> None:
        """Publish no more; a second call does nothing."""
        self._end.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._end.wait(EVERY):
            with suppress(RunError, OSError):  # the next copy, or the end of the run, will tell
                self.publish()


def claim_folder(store: ObjectStore, started_at: str) -> None:
    """Make the folder of this machine that of a run; what another run left there is removed."""
    owner = store.home / OWNER_NAME
    with suppress(OSError):
        if owner.read_text(encoding="utf-8") == started_at:
            return
    remove_store(store.home / JOURNAL_NAME)
    owner.write_text(started_at, encoding="utf-8")


def bring_journal(store: ObjectStore) -> int:
    """Bring the published copy of a journal here; what this machine has of the run stays.

    Return how many records were lost where the two became one; what is lost of a copy that is the
    only one is told when it is opened. E503 when it is damaged, E509 when it cannot be had.
    """
    local = store.home / JOURNAL_NAME
    with tempfile.TemporaryDirectory(dir=store.home, prefix=".journal-") as folder:
        copy = Path(folder) / JOURNAL_NAME
        with reaching_storage():
            published = find_object(store.show(JOURNAL_NAME))
            if published is None:
                return 0
            with copy.open("wb") as file:
                for block in published.iterate():
                    file.write(block)
        if not local.is_file():
            copy.replace(local)
            return 0
        try:
            with closing(CallStore(local)) as journal, closing(CallStore(copy)) as additions:
                journal.mend()
                additions.mend()
                journal.merge(additions)
                return journal.lost + additions.lost
        except RunError as error:
            if error.code != "E503":
                raise
            message = (
                f"the journal `{published.url}`, or the one of this machine, `{local}`, is "
                f"damaged: {error.__cause__}"
            )
            hint = "delete the damaged one and resume: calls in the other are not repeated"
            raise RunError("E503", message, hint=hint) from error
