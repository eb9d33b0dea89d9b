"""Labels of options, and which of them a log means by its truth or its answer."""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Sequence

#: The labels of options that have none: letters, then digits, as other tools go on after `Z`.
LABELS = (*string.ascii_uppercase, *"123456789", *string.ascii_lowercase)
#: Marks around a label: `(B)`, `B.`, `**B**`.
_WRAPPED = re.compile(r"[\s(\[{*_\"'`]*(?P<label>[^\W_])[\s)\]}*_\"'`.:]*", re.ASCII)
_LISTS = 20_000


def label_options(count: int) -> tuple[str, ...] | None:
    """Return a label for each of `count` options; None for more than there are labels, and for none."""
    return LABELS[:count] if 0 < count <= len(LABELS) else None


def take_labels(texts: Sequence[str]) -> tuple[str, ...] | None:
    """Return texts that are themselves labels: distinct single characters; None when they are not."""
    found = tuple(text.strip() for text in texts)
    is_labels = bool(found) and all(len(one) == 1 for one in found) and len(set(found)) == len(found)
    return found if is_labels else None


def take_counting(texts: Sequence[str]) -> tuple[str, ...] | None:
    """Return texts that count: `A`, `B`, …, or `a`, `1` or `0`, …; other single characters are options."""
    found = take_labels(texts)
    rows = (LABELS, string.ascii_lowercase, "123456789", string.digits)
    return found if found and any(found == tuple(row[: len(found)]) for row in rows) else None


def find_label(
    value: object, choices: Sequence[str] | None, options: Sequence[str] | None, *, by_index: bool = False
) -> str | None:
    """Return the label that a value means: a label, also in brackets; a place; or the text of one option.

    A whole number, also as text, is a place from 0 on with `by_index`; otherwise only where it is no label.
    None when nothing fits, or more than one option does.
    """
    if choices is None or value is None or isinstance(value, bool):
        return None
    place = _read_place(value, len(choices))
    if place is not None and by_index:
        return choices[place]
    text = str(value).strip()
    if text in choices:
        return text
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped and wrapped["label"] in choices:
        return wrapped["label"]
    same = [at for at, option in enumerate(options or ()) if option.strip() == text]
    if len(same) == 1 and same[0] < len(choices):
        return choices[same[0]]
    return None if place is None else choices[place]


def _read_place(value: object, count: int) -> int | None:
    if isinstance(value, float) and not value.is_integer():
        return None
    text = str(int(value)) if isinstance(value, float) else str(value).strip()
    place = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(count)) else None
    return place if place is not None and place < count else None


def read_texts(value: object) -> tuple[str, ...] | None:
    """Return a list of texts: a list, a mapping's values, or JSON or a Python literal of either."""
    if isinstance(value, str):
        value = _parse_list(value)
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple) or not value:
        return None
    if not all(isinstance(one, str | int | float) for one in value):
        return None
    return tuple(one if isinstance(one, str) else str(one) for one in value)


def _parse_list(text: str) -> object:
    if text.lstrip()[:1] not in {"[", "("} or len(text) > _LISTS:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
