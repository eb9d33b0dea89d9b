"""Several bad rows of one file, reported together."""

from __future__ import annotations

from dataclasses import dataclass, field

from answerkey.errors import DataError, Place, raise_all

#: How many bad rows of one file are shown; the rest is counted.
SHOWN = 20


@dataclass
class Troubles:
    """The bad rows of one file so far: the first `SHOWN` as errors, the rest as a count."""

    file: str | None
    errors: list[DataError] = field(default_factory=list)
    unshown: int = 0

    def add(self, code: str, message: str, *, where: Place, hint: str | None = None) -> None:
        """Remember one bad row."""
        if len(self.errors) < SHOWN:
            self.errors.append(DataError(code, message, where=where, hint=hint))
        else:
            self.unshown += 1

    def extend(self, others: Troubles) -> None:
        """Remember the bad rows that were found elsewhere, after these."""
        room = SHOWN - len(self.errors)
        self.errors += others.errors[:room]
        self.unshown += others.unshown + len(others.errors[room:])

    def raise_any(self) -> None:
        """Raise what was found; nothing if nothing was."""
        errors = list(self.errors)
        if self.unshown:
            message = f"{self.unshown} more bad rows in this file are not shown"
            errors.append(DataError(errors[-1].code, message, where=Place(file=self.file)))
        raise_all(errors)
