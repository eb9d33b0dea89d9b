"""The options of a question as datasets spell them: lists, mappings, or the text of either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from answerkey.scorers.mcqa import read_options

#: What a list of options says of each, where it says more than the text.
_TEXT_KEYS, _LABEL_KEYS = ("text", "content", "value", "option"), ("label", "key", "id", "letter")


def write_text(value: object) -> str | None:
    """Return a cell as text; None stays None."""
    return None if value is None else str(value)


def read_option_cell(cell: object) -> tuple[list[str | None] | None, list[str]]:
    """Return the texts of a list of options, and their labels where it has any; None for what is no list.

    A list of texts, of mappings with text and label, a mapping of both lists or of label to text, or the text
    of any of these.
    """
    if isinstance(cell, str):
        cell = read_options(cell)
    if isinstance(cell, Mapping):
        return _read_mapping(cell)
    if not isinstance(cell, list | tuple):
        return None, []
    if cell and all(isinstance(one, Mapping) for one in cell):
        texts = [write_text(_pick(one, _TEXT_KEYS)) for one in cell]
        labels = [_pick(one, _LABEL_KEYS) for one in cell]
        return texts, [str(one) for one in labels if one is not None]
    return [write_text(one) for one in cell], []


def _read_mapping(cell: Mapping[str, object]) -> tuple[list[str | None] | None, list[str]]:
    texts, labels = _pick(cell, _TEXT_KEYS), _pick(cell, _LABEL_KEYS)
    if isinstance(texts, list | tuple):
        named = [str(one) for one in labels] if isinstance(labels, list | tuple) else []
        return [write_text(one) for one in texts], named
    if all(value is None or isinstance(value, str | int | float) for value in cell.values()):
        pairs = [(str(name), write_text(value)) for name, value in cell.items() if value is not None]
        return [text for _, text in pairs], [name for name, _ in pairs]
    return None, []


def _pick(cell: Mapping[str, object], names: Sequence[str]) -> object:
    return next((cell[name] for name in names if name in cell), None)
