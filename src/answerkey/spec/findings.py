"""What was found while reading: errors and notices, each once, so that all can be shown together."""

from __future__ import annotations

from dataclasses import dataclass, field

from answerkey.errors import AnswerkeyError, Place, SpecError
from answerkey.types import Notice


@dataclass
class Findings:
    """Collects errors and notices in the order they are found; the same one twice is kept once."""

    errors: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    _seen: set[tuple[str, str, Place | None]] = field(default_factory=set)

    def add(self, code: str, message: str, where: Place | None, hint: str | None = None) -> None:
        """Keep a new SpecError."""
        self.report(SpecError(code, message, where=where, hint=hint))

    def report(self, error: AnswerkeyError) -> None:
        """Keep an error that was made elsewhere."""
        if self._is_new(error.code, error.message, error.where):
            self.errors.append(error)

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
