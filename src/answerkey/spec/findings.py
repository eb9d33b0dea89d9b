"""What was found while reading: errors and notices, each once, so that all can be shown together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from answerkey.errors import AnswerkeyError, Place, SpecError
from answerkey.types import Notice


@dataclass
class Findings:
    """Collects errors and notices; the same one twice is kept once.

    What a broken value causes later, at the very same place, is not kept: its cause has been told.
    """

    errors: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    _seen: set[tuple[str, str, Place | None]] = field(default_factory=set)
    _broken: set[Place] = field(default_factory=set)

    def add(self, code: str, message: str, where: Place | None, hint: str | None = None) -> None:
        """Keep a new SpecError."""
        self.report(SpecError(code, message, where=where, hint=hint))

    def report(self, error: AnswerkeyError) -> None:
        """Keep an error that was made elsewhere."""
        if error.where not in self._broken and self._is_new(error.code, error.message, error.where):
            self.errors.append(error)

    def report_broken(self, error: AnswerkeyError, place: Place) -> None:
        """Keep an error that leaves no value at a place; nothing more is said about that place."""
        self.report(error)
        self.mark_broken(place)

    def mark_broken(self, place: Place) -> None:
        """Keep no more errors about a place; a mapping that Python hands in has no places."""
        if place.line is not None:
            self._broken.add(place)

    def notice(self, message: str, where: Place | None, hint: str | None = None) -> None:
        """Keep a notice; the same words are kept once, wherever they arise."""
        if self._is_new("", message, None):
            self.notices.append(Notice(message, where, hint))

    def absorb(self, other: Findings) -> None:
        """Keep what other findings hold."""
        for error in other.errors:
            self.report(error)
        for notice in other.notices:
            self.notice(notice.message, notice.where, notice.hint)

    def _is_new(self, code: str, message: str, where: Place | None) -> bool:
        mark = (code, message, where)
        is_new = mark not in self._seen
        self._seen.add(mark)
        return is_new


def sort_errors(errors: Sequence[AnswerkeyError]) -> list[AnswerkeyError]:
    """Return errors by their position, file by file in the order in which files turn up; without one last."""
    files = list(dict.fromkeys(error.where.file for error in errors if error.where))

    def rank(error: AnswerkeyError) -> tuple[int, int, int]:
        where = error.where
        if where is None or where.file is None:
            return len(files), 0, 0
        return files.index(where.file), where.line or 0, where.column or 0

    return sorted(errors, key=rank)
