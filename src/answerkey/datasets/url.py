"""The source `url`: a data file on the web."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

from answerkey.datasets.downloads import MEGABYTE, Fetched, Wanted, fetch, hide_query, is_safe
from answerkey.datasets.joining import DataFile, FileFields, read_files, reads_alone
from answerkey.datasets.storage import StoredObject, is_stored, refuse, require_address
from answerkey.datasets.stored_files import fetch_object, find_digest, open_object
from answerkey.datasets.stores import STORES
from answerkey.datasets.tables import Table, find_endings, is_plain_parquet
from answerkey.errors import SpecError, listing, remember_url

_DIGEST = re.compile(r"[0-9a-f]{64}")
DEFAULT_MEGABYTES = 1000
#: What the caller names on the command line may be as large as storage allows.
MOST_MEGABYTES = 10**8


@dataclass(frozen=True)
class UrlSource(FileFields):
    """A file at an address: `https`, `http` on this machine, or shared storage (`s3`, `gs`).

    `sha256` is the hash it must have; without it the file is looked up again each time, and fetched if it has
    changed. No key is ever sent but to the caller's own storage. Parquet there is read where it lies, of any
    size.
    """

    url: str
    sha256: str | None = None
    max_megabytes: int = DEFAULT_MEGABYTES
    type: Literal["url"] = "url"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_address()
        if self.sha256 is not None and not _DIGEST.fullmatch(self.sha256):
            raise SpecError("E108", f"`sha256` is {self.sha256!r}", hint="it has 64 digits of 0-9 and a-f")
        if self.max_megabytes < 1:
            raise SpecError("E108", f"`max_megabytes` is {self.max_megabytes}", hint="it is at least 1")

    def _check_address(self) -> None:
        remember_url(self.url)
        if is_stored(self.url):
            require_address(self.url)
            return
        if not is_safe(self.url) or not urlsplit(self.url).hostname:
            shown = hide_query(self.url)
            hint = f"it begins with `https://`, or with that of a store: {listing(STORES)}"
            raise SpecError("E108", f"`url` is {shown!r}", hint=hint)
        if "@" in urlsplit(self.url).netloc:
            raise SpecError("E117", "`url` holds a name or a password", hint="no key is sent to this source")

    @property
    def origin(self) -> str:
        """The address without what may be secret in it."""
        return self.url if is_stored(self.url) else hide_query(self.url)

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        if self._lies_in_place:
            self._find_stored()
            return read_files([DataFile(self.url, self.origin, self._name)], self, shown=self.origin)
        file = DataFile(self.fetch().path, self.origin, self._name)
        return read_files([file], self, shown=self.origin)

    def pin(self) -> Self:
        """Return the source of the content that is there now; its address is without what may be secret."""
        if self._lies_in_place:
            return replace(self, sha256=find_digest(self._find_stored()))
        return replace(self, url=self.origin, sha256=self.fetch().digest)

    @property
    def _lies_in_place(self) -> bool:
        """Whether the rows are read by ranges: a Parquet file on shared storage, taken as it stands."""
        if not is_stored(self.url) or not reads_alone(self) or self.columns:
            return False
        return is_plain_parquet(self._name, self.layout)

    def _find_stored(self) -> StoredObject:
        """Return the object as it is now; E214 when it has not the hash it must have."""
        stored = open_object(self.url)
        if self.sha256 is not None and (found := find_digest(stored)) != self.sha256:
            message = f"has the sha256 {found}, and {self.sha256} is expected"
            hint = "it was changed: look at it, then correct or remove `sha256`"
            raise refuse(self.url, message, hint)
        return stored

    @property
    def _name(self) -> str:
        return unquote(PurePosixPath(urlsplit(self.url).path).name)

    def fetch(self) -> Fetched:
        """Return the file on this machine."""
        self.layout.find_format(Path(self._name or "file"))
        endings, most = find_endings(self._name), self.max_megabytes * MEGABYTE
        if is_stored(self.url):
            return fetch_object(self._find_stored(), endings, most)
        return fetch(Wanted(self.url, most, endings, self.sha256))
