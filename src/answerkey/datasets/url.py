"""The source `url`: a data file on the web."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

from answerkey.datasets.content import COMPRESSIONS
from answerkey.datasets.downloads import MEGABYTE, Fetched, Wanted, fetch, hide_query, is_safe
from answerkey.datasets.joining import DataFile, FileFields, read_files
from answerkey.datasets.tables import FORMATS, Table
from answerkey.errors import SpecError

_DIGEST = re.compile(r"[0-9a-f]{64}")
DEFAULT_MEGABYTES = 1000


@dataclass(frozen=True)
class UrlSource(FileFields):
    """A file at an address: `https`, or `http` on this machine.

    `sha256` is the hash it must have; without it the file is looked up again each time, and fetched if it has
    changed. No key is ever sent.
    """

    url: str
    sha256: str | None = None
    max_megabytes: int = DEFAULT_MEGABYTES
    type: Literal["url"] = "url"

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = urlsplit(self.url)
        if not is_safe(self.url) or not parts.hostname:
            shown = hide_query(self.url)
            raise SpecError("E108", f"`url` is {shown!r}", hint="it begins with `https://`")
        if parts.username is not None or parts.password is not None:
            raise SpecError("E117", "`url` holds a name or a password", hint="no key is sent to this source")
        if self.sha256 is not None and not _DIGEST.fullmatch(self.sha256):
            raise SpecError("E108", f"`sha256` is {self.sha256!r}", hint="it has 64 digits of 0-9 and a-f")
        if self.max_megabytes < 1:
            raise SpecError("E108", f"`max_megabytes` is {self.max_megabytes}", hint="it is at least 1")

    @property
    def origin(self) -> str:
        """The address without what may be secret in it."""
        return hide_query(self.url)

    def read(self, *, name: str) -> Table:  # noqa: ARG002 - the file has a name of its own
        """Return the rows of the file."""
        file = DataFile(self.fetch().path, self.origin, self._name)
        return read_files([file], self, shown=self.origin)

    def pin(self) -> Self:
        """Return the source of the content that is there now; its address is without what may be secret."""
        return replace(self, url=self.origin, sha256=self.fetch().digest)

    @property
    def _name(self) -> str:
        return unquote(PurePosixPath(urlsplit(self.url).path).name)

    def fetch(self) -> Fetched:
        """Return the file on this machine."""
        self.layout.find_format(Path(self._name or "file"))
        wanted = Wanted(self.url, self.max_megabytes * MEGABYTE, _find_endings(self._name), self.sha256)
        return fetch(wanted)


def _find_endings(name: str) -> str:
    """Return the endings of a name that say what the file is."""
    endings = [ending.lower() for ending in PurePosixPath(name).suffixes]
    packed = endings.pop() if endings and endings[-1] in COMPRESSIONS else ""
    return (endings[-1] if endings and endings[-1] in FORMATS else "") + packed
