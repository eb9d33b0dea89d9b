"""Damage that texts take on their way through encodings: what it looks like, and where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5

REPLACEMENT, MOJIBAKE, CONTROL, ENTITY = (
    "REPLACEMENT_CHARACTER",
    "MOJIBAKE",
    "CONTROL_CHARACTER",
    "HTML_ENTITY",
)
_ODD_ASCII = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|&(?:[A-Za-z]{2,8}|#\d{2,6}|#[xX][0-9a-fA-F]{2,6});"
)
#: Controls that are no line breaks, and marks that nobody sees; joiners belong to scripts and emoji.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_ENTITY = re.compile(r"&(?:([A-Za-z]{2,8})|#\d{2,6}|#[xX][0-9a-fA-F]{2,6});")
_FOREIGN_RUN = re.compile(r"[^\x00-\x7f]{2,}")
#: The first byte of a character of several, read as Latin-1; only such runs can be mojibake.
_LEAD = re.compile("[\xc2-\xf4]")
_SHOWN = 12


def find_damage(text: str) -> Iterator[tuple[str, str]]:
    """Yield each kind of damage once, with the passage that shows it."""
    if text.isascii() and not _ODD_ASCII.search(text):
        return
    if "\ufffd" in text:
        yield REPLACEMENT, _show(text, text.index("\ufffd"))
    broken = next((run for run in _FOREIGN_RUN.finditer(text) if is_mojibake(run[0])), None)
    if broken is not None:
        yield MOJIBAKE, _show(text, broken.start())
    control = _CONTROL.search(text) if broken is None else None
    if control is not None:
        yield CONTROL, _show(text, control.start())
    for entity in _ENTITY.finditer(text):
        if entity[1] is None or f"{entity[1]};" in html5:
            yield ENTITY, _show(text, entity.start())
            break


def is_mojibake(run: str) -> bool:
    """Return whether characters beyond ASCII are UTF-8 that was read as Latin-1 or Windows-1252."""
    if not _LEAD.search(run):
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            meant = run.encode(encoding).decode("utf-8")
        except (UnicodeEncodeError, UnicodeDecodeError):
            continue
        return len(meant) < len(run)
    return False


def _show(text: str, at: int) -> str:
    return text[max(0, at - _SHOWN) : at + _SHOWN]
