"""Text in tokens: words (by script), numbers, marks, tags, LaTeX commands and line breaks.

One pattern, of runs of characters only, so that the time is linear whatever the text is.
"""

from __future__ import annotations

import re

from answerkey.scorers.characters import LINE_BREAKS, SPACES, WHITE_SPACE

_MARKS = "\u0300-\u036f"
_EXTENDERS = "\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff"
_LATIN = f"A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff{_MARKS}"
_GREEK = f"\u0370-\u03ff\u1f00-\u1fff{_MARKS}"
_CYRILLIC = f"\u0400-\u052f\u1c80-\u1c8f{_MARKS}"
_HEBREW = "\u0591-\u05bd\u05bf-\u05f4"
_ARABIC = "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
_ARABIC += "\ufb50-\ufdff\ufe70-\ufefc\u200c\u200d"
_INDIA = "\u0900-\u0963\u0970-\u09e5\u09f0-\u0a65\u0a70-\u0ae5\u0af0-\u0b65\u0b70-\u0be5\u0bf0-\u0c65"
_INDIA += "\u0c70-\u0ce5\u0cf0-\u0d65\u0d70-\u0dff\u200c\u200d"
_INDOCHINA = "\u0e01-\u0e4f\u0e80-\u0ecf\u1000-\u103f\u1780-\u17d3"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
_WIDE = "\uff21-\uff3a\uff41-\uff5a"
_MATHEMATICAL = "\U0001d400-\U0001d7cb"

#: One run for each script, so that `B입니다` is a label and a word; Chinese and hiragana go by the character.
_RUNS = (_GREEK, _CYRILLIC, _HEBREW, _ARABIC, _INDIA, _INDOCHINA, _KATAKANA, _HANGUL, _WIDE, _MATHEMATICAL)

_ELISION = "(?:[cdjlmnstCDJLMNST]|[Qq]u)"
_TAG = r"</?[A-Za-z][A-Za-z0-9_:.\-]{0,40} ?/?>|<\|[A-Za-z_]{1,40}\|>|\[/?[A-Za-z]{3,12}\]"
_SIGNS = r"\\[A-Za-z]+|\\[()\[\]{}]|[-=]+>|\*+|_+|`+|~+|#+|\$+|=+|-+"

#: More white space on end than any rule counts: the rest of it, up to its last line break, is one gap.
_MOST_BLANKS = 256
_ASCII_SPACES = r" \t\x1f"
_ASCII_BREAKS = r"\n\x0b\x0c\r\x1c-\x1e"


def _write_gap(spaces: str, breaks: str) -> str:
    blank = f"[{spaces}{breaks}]"
    return f"((?<={blank}{{{_MOST_BLANKS}}}){blank}+(?=[{breaks}])|[{spaces}]*)"


_ASCII = re.compile(
    rf"{_write_gap(_ASCII_SPACES, _ASCII_BREAKS)}(\r\n|[{_ASCII_BREAKS}]|{_ELISION}'(?=[A-Za-z])"
    rf"|[A-Za-z]+(?:'[A-Za-z]+)*|[0-9]+(?:[.,:][0-9]+)*|{_TAG}|{_SIGNS}|[^ \t\x1f])"
)

_ANY = re.compile(
    rf"{_write_gap(SPACES, LINE_BREAKS)}(\r\n|[{LINE_BREAKS}]|{_ELISION}['\u2019](?=[{_LATIN}])"
    rf"|[{_LATIN}]+(?:['\u2019][{_LATIN}]+)*|\d+(?:[.,:]\d+)*[{_EXTENDERS}]*"
    rf"|{_TAG}|\u25c1/?think\u25b7|{_SIGNS}|{'|'.join(f'[{run}]+' for run in _RUNS)}"
    rf"|[^{SPACES}](?:[{_EXTENDERS}{_MARKS}]|\u200d[^{SPACES}{LINE_BREAKS}])*)"
)


def split_tokens(text: str) -> list[tuple[str, str]]:
    """Return the spaces before each token, and the token; white space at the end is left out."""
    text = text.rstrip(WHITE_SPACE)
    return (_ASCII if text.isascii() else _ANY).findall(text)
