"""What a row says, whatever file it comes from: the same question has the same digest in CSV and in JSON."""

from __future__ import annotations

import ast
import hashlib
import json
import warnings
from collections.abc import Mapping

#: An id is no content: the same question may have another one elsewhere.
ID_COLUMN = "sample_id"
#: Longer text is compared as it is, not as what it may spell.
LONGEST_LITERAL = 100_000


def digest_row(row: Mapping[str, object]) -> str:
    """Return the SHA-256 of a row's content, without its id, its empty cells and the order of its columns.

    Numbers and true/false are the same as the texts that spell them, and so are lists and mappings.
    """
    cells = {name: _normalise(value) for name, value in row.items() if name != ID_COLUMN}
    said = {name: value for name, value in cells.items() if value is not None}
    text = json.dumps(said, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _normalise(value: object) -> object:
    if isinstance(value, Mapping):
        inner = {str(key): _normalise(entry) for key, entry in value.items()}
        return {key: entry for key, entry in inner.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [_normalise(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return None if value is None or value == "" else _read(str(value))


def _read(text: str) -> object:
    bare = text.strip()
    if bare[:1] in {"[", "{"} and len(bare) <= LONGEST_LITERAL:
        found = _parse(bare)
        return bare if found is None else _normalise(found)
    if bare.casefold() in {"true", "false"}:
        return bare.casefold()
    return _write_number(bare)


def _write_number(text: str) -> str:
    """Return a number in its shortest form; any other text as it is."""
    try:
        return repr(float(text))
    except (ValueError, OverflowError):
        return text


def _parse(text: str) -> object:
    """Return the list or mapping that JSON or Python reads in a text; None when neither reads one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
