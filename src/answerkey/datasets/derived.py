"""`derive`: further columns of a dataset, each a template over the row as its file has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from answerkey.datasets.plain import make_plain
from answerkey.errors import DataError, Place, raise_all
from answerkey.templates import RowTrouble, Template
from answerkey.types import Samples

#: How many kinds of trouble are shown.
SHOWN = 20


@dataclass
class _Kind:
    """Rows on which a template fails in the same way: the first of them, and how many."""

    trouble: RowTrouble
    where: Place
    count: int = 0


@dataclass
class Deriving:
    """The templates of new columns, by name, and the rows on which they failed so far.

    A template that fails everywhere in the same way is one mistake, told once at its first row.
    """

    columns: Mapping[str, str]
    _kinds: dict[tuple[str, str], _Kind] = field(default_factory=dict)

    def refuse_lost(self, names: Collection[str], file: str) -> None:
        """Raise E212 for a column of the file that a template would replace without reading it."""
        for name, source in self.columns.items():
            read = Template.compile(source).columns
            if name in names and read is not None and name not in read:
                message = (
                    f"{_label(name)} would replace the column `{name}` of the file, which it does not read"
                )
                hint = f"rename one of them; a template that reads `sample.{name}` may replace it"
                raise DataError("E212", message, where=Place(file=file, field=name), hint=hint)

    def derive(self, samples: Samples) -> dict[str, Sequence[object]]:
        """Return the new columns of some rows; a row in trouble has a null cell."""
        return {name: self._derive(name, source, samples) for name, source in self.columns.items()}

    def _derive(self, name: str, source: str, samples: Samples) -> Sequence[object]:
        values = Template.compile(source).values(samples)
        for position, value in enumerate(values):
            if isinstance(value, RowTrouble):
                self._note(name, value, samples.place(position, value.column))
        cells = [None if isinstance(one, RowTrouble) else one for one in values]
        try:
            return make_plain(cells)
        except TypeError as error:
            message = f"{_label(name)} yields {error}"
            raise DataError("E207", message, where=Place(file=samples.file, field=name)) from None

    def _note(self, name: str, trouble: RowTrouble, where: Place) -> None:
        kind = self._kinds.setdefault((name, trouble.message), _Kind(trouble, where))
        kind.count += 1

    def raise_any(self) -> None:
        """Raise what failed; nothing if nothing did."""
        errors: list[DataError] = []
        for (name, message), kind in list(self._kinds.items())[:SHOWN]:
            rest = f" (and in {kind.count - 1} more rows)" if kind.count > 1 else ""
            is_missing = kind.trouble.is_undefined and kind.trouble.column is not None
            code = "E206" if is_missing else "E207"
            text = f"{_label(name)}: {message}{rest}"
            errors.append(DataError(code, text, where=kind.where, hint=kind.trouble.hint))
        raise_all(errors)


def _label(name: str) -> str:
    return f"derived column `{name}`"
