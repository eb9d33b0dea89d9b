"""Where a run lies: in a folder of this machine, or on shared storage under an address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

from answerkey.datasets.downloads import open_cache_folder
from answerkey.datasets.storage import is_stored, require_address
from answerkey.datasets.stores import STORES
from answerkey.errors import DataError, RunError, SpecError, listing


@dataclass(frozen=True)
class StoredFolder:
    """A run folder on shared storage, by its address; as far as it is named and shown, it is like a path."""

    url: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", require_address(self.url))

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> StoredFolder:
        return StoredFolder(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> str:
        """The address of what the folder lies in."""
        return self.url.rpartition("/")[0]

    @property
    def home(self) -> Path:
        """The folder of this machine that has the journal of a run that is worked on here."""
        return open_cache_folder("runs") / sha256(self.url.encode()).hexdigest()[:32]

    def resolve(self) -> Self:
        """Return the same: an address does not depend on the current folder."""
        return self


#: Where a run is.
RunPlace = Path | StoredFolder


def find_place(given: str | Path | StoredFolder) -> RunPlace:
    """Return where a run is that is named by a path or an address; SpecError for one of the web."""
    if isinstance(given, StoredFolder | Path):
        return given
    if "://" in given and not is_stored(given):
        message = f"`{given}` is on no storage that is known"
        raise SpecError("E108", message, hint=f"name a folder, or an address of a store: {listing(STORES)}")
    return StoredFolder(given) if is_stored(given) else Path(given)


@contextmanager
def reaching_storage() -> Iterator[None]:
    """Turn what keeps a run from being read from, or written to, shared storage into RunError E509."""
    try:
        yield
    except DataError as error:
        if error.code != "E214":
            raise
        hint = error.hint or "`answerkey resume` goes on with a run that was stopped"
        raise RunError("E509", error.message, where=error.where, hint=hint) from None
