"""Text from data made safe to print: nothing in it can move the cursor, hide itself or turn a line."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

# Control characters (and with them ANSI escapes), soft hyphen, bidi and invisible marks, fillers that show
# nothing, line separators, lone surrogates and tag characters. The joiners U+200C and U+200D stay, and so do
# variation selectors: scripts and emoji need them.
_HIDDEN_RANGES = (
    "\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[\x00-\x1f{_HIDDEN_RANGES}]")
# JSON writes the first thirty-two itself.
_HIDDEN_IN_JSON = re.compile(f"[{_HIDDEN_RANGES}]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ZERO_WIDTH = ("Mn", "Me", "Cf")


def make_visible(text: str, *, keep_lines: bool = False) -> str:
    r"""Return the text with every hidden character written out (`\x1b`, `\u202e`).

    With `keep_lines` line feeds stay and tabs become four spaces, for text that is printed as a block.
    """
    if keep_lines:
        return "\n".join(_escape(line.replace("\t", "    ")) for line in text.split("\n"))
    return _escape(text)


def _escape(text: str) -> str:
    return _HIDDEN.sub(lambda match: _NAMED.get(match[0]) or _write_out(ord(match[0])), text)


def _write_out(code: int) -> str:
    if code <= 0xFF:  # noqa: PLR2004  the three escape lengths of Python strings
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004  same


def escape_json(text: str) -> str:
    r"""Return JSON text that says the same with every hidden character as an escape (`\u202e`)."""
    return _HIDDEN_IN_JSON.sub(lambda match: json.dumps(match[0])[1:-1], text)


def measure_width(text: str) -> int:
    """Return how many terminal cells the text takes."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def _measure_character(character: str) -> int:
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Return the text made visible on one line, cut to `width` cells; a cut is marked by `…`."""
    # A huge completion is cut before it is looked at: at most `width` characters of it can show.
    shown = make_visible(text[: 4 * width + 4])
    if measure_width(shown) <= width and len(text) <= 4 * width + 4:
        return shown
    cells, kept = 0, 0
    for character in shown:
        cells += _measure_character(character)
        if cells > width - 1:
            break
        kept += 1
    return shown[:kept] + "…"


def shorten_path(path: str) -> str:
    """Return a path relative to the current folder where it lies below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
