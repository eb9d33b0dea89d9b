"""Column names: each there once, none empty, odd ones said aloud."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.errors import DataError, Place, listing, raise_all
from answerkey.types import Notice

_UNNAMED_HINT = "give the column a name; a table written by pandas needs `index=False`"


def check_names(names: Sequence[str], where: Place) -> tuple[Notice, ...]:
    """Refuse duplicate and empty column names; notice those with white space around them."""
    first: dict[str, int] = {}
    errors: list[DataError] = []
    for number, name in enumerate(names, 1):
        if not name.strip():
            errors.append(DataError("E202", f"column {number} has no name", where=where, hint=_UNNAMED_HINT))
        elif name in first:
            message = f"column `{name}` appears twice, as column {first[name]} and column {number}"
            errors.append(DataError("E212", message, where=where, hint="rename or remove one of them"))
        first.setdefault(name, number)
    raise_all(errors)
    return _notice_spaces(names, where)


def _notice_spaces(names: Sequence[str], where: Place) -> tuple[Notice, ...]:
    spaced = [name for name in names if name != name.strip()]
    if not spaced:
        return ()
    message = f"white space around column names is part of the name: {listing(map(repr, spaced))}"
    return (Notice(message, where=where, hint="remove it, or write `sample[' name']` in templates"),)
