"""The option texts of a row: where they stand, and the same cell with its options in another order.

A cell is a list of texts, a mapping from label to text, a list of objects, or the text of any of these; or
the texts stand in cells of their own. What belongs to a place stays there: the labels *A)* in front of the
texts, the keys of a mapping, and the fields of objects that hold the labels.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Order = Sequence[int]
#: Longer text is no list of options; parsing it would only cost time.
LONGEST_CELL = 100_000
#: The field of an object that holds the option's text, if it has one of these names.
TEXT_FIELDS = ("text", "content", "option", "value", "answer", "choice")


class OptionTrouble(Exception):  # noqa: N818 - a row's trouble, which becomes an error with a code
    """Why the options of a row cannot be put in another order."""


@dataclass(frozen=True)
class Options:
    """The options of one row: their texts without labels, and how a cell is made of them in some order.

    `is_plain` says that the cell is a list of which every entry moves as it is.
    """

    texts: tuple[str, ...]
    arrange: Callable[[Order], Any]
    is_plain: bool = False


def read_cell(cell: object, labels: Sequence[str]) -> Options:
    """Return the options of a cell, whose labels are these, in their order; raise OptionTrouble."""
    if isinstance(cell, str):
        return _read_text(cell, labels)
    if isinstance(cell, Mapping):
        return _read_mapping(cell, labels)
    if isinstance(cell, list | tuple):
        return _read_list(list(cell), labels, is_cell=True)
    raise OptionTrouble(f"the options are {_show(cell)}, not a list")


def _read_text(cell: str, labels: Sequence[str]) -> Options:
    """Return the options of a list or mapping that is written as JSON or as a Python literal."""
    value, write = _parse(cell)
    if not isinstance(value, list | tuple | Mapping):
        raise OptionTrouble(f"the options are the text {_show(cell)}, not a list")
    inner = read_cell(value, labels)
    return Options(inner.texts, lambda order: write(inner.arrange(order)))


def _parse(text: str) -> tuple[object, Callable[[object], str]]:
    if len(text) > LONGEST_CELL:
        return text, str
    try:
        return json.loads(text), lambda value: json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text.strip()), repr
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text, str


def _read_mapping(cell: Mapping[Any, Any], labels: Sequence[str]) -> Options:
    """Return the options of a mapping; keys without a value are those of other rows."""
    names = [key for key in cell if str(key) in set(labels)] if set(labels) <= set(map(str, cell)) else None
    keys = names if names is not None else [key for key, value in cell.items() if value is not None]
    inner = _read_list([cell[key] for key in keys], labels)

    def arrange(order: Order) -> dict[Any, Any]:
        return {**cell, **dict(zip(keys, inner.arrange(order), strict=True))}

    return Options(inner.texts, arrange)


def _read_list(cells: list[Any], labels: Sequence[str], *, is_cell: bool = False) -> Options:
    _require_number(len(cells), labels)
    if cells and all(isinstance(one, Mapping) for one in cells):
        return _read_objects(cells, labels)
    for one in cells:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise OptionTrouble(f"the option {_show(one)} is not text or a number")
    texts = [str(one) for one in cells]
    split = split_labels(texts, labels)
    if split is None:
        return Options(tuple(texts), lambda order: [cells[place] for place in order], is_plain=is_cell)
    prefixes, contents = split

    def arrange(order: Order) -> list[str]:
        return [prefix + contents[place] for prefix, place in zip(prefixes, order, strict=True)]

    return Options(tuple(contents), arrange)


def _read_objects(cells: list[Mapping[str, Any]], labels: Sequence[str]) -> Options:
    staying = {
        name
        for name in cells[0]
        if all(str(cell.get(name)).strip() == label for cell, label in zip(cells, labels, strict=True))
    }
    moving = [name for name in cells[0] if name not in staying]
    named = [name for name in TEXT_FIELDS if name in moving]
    texts = [name for name in [*named, *moving] if all(isinstance(cell.get(name), str) for cell in cells)]
    if not texts:
        raise OptionTrouble(f"the options are objects without a text: {_show(cells[0])}")

    def arrange(order: Order) -> list[dict[str, Any]]:
        return [
            {name: (cell if name in staying else cells[place]).get(name) for name in cell}
            for cell, place in zip(cells, order, strict=True)
        ]

    return Options(tuple(str(cell[texts[0]]) for cell in cells), arrange)


def split_labels(texts: Sequence[str], labels: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the labels in front of the texts, as written, and the rest; None unless all have one."""
    prefixes = []
    for text, label in zip(texts, labels, strict=True):
        found = re.match(rf"\s*[(\[]?\s*{re.escape(label)}\s*(?:[)\].:．。、：）]|-\s|\s-\s)[)\]]?\s*", text)  # noqa: RUF001 - the punctuation of many languages
        if found is None:
            return None
        prefixes.append(found.group())
    return prefixes, [text[len(prefix) :] for text, prefix in zip(texts, prefixes, strict=True)]


def read_cells(cells: Sequence[object], labels: Sequence[str]) -> Options:
    """Return the options that stand in cells of their own, one text each; raise OptionTrouble.

    Cells without a text at the end are options that the row does not have.
    """
    there = list(cells)
    while there and (there[-1] is None or there[-1] == ""):
        there.pop()
    inner = _read_list(there, labels)
    rest = list(cells[len(there) :])
    return Options(inner.texts, lambda order: [*inner.arrange(order), *rest])


def _require_number(count: int, labels: Sequence[str]) -> None:
    if count != len(labels):
        noun = "option" if count == 1 else "options"
        raise OptionTrouble(f"there are {count} {noun} for {len(labels)} choices")


def _show(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
