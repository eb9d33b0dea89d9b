"""Where `<< config.x >>` stands: in text, in Jinja code, in a quoted string, a comment or a raw block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: The name ends with no white space; that it does is said so that no blank is tried twice.
_PLACEHOLDER: Final = r"<<\s*config\.(?P<name>[^<>\n'\"{}]*[^<>\n'\"{}\s])\s*>>"
_WHOLE: Final = re.compile(_PLACEHOLDER)
_TEXT: Final = re.compile(
    _PLACEHOLDER + r"|(?P<raw>\{%[-+]?\s*raw\s*-?%\})|(?P<comment>\{#)|(?P<code>\{\{|\{%)"
)
_RAW: Final = re.compile(_PLACEHOLDER + r"|(?P<end>\{%[-+]?\s*endraw\s*[-+]?%\})")
_NESTED: Final = r"|(?P<quote>['\"])|(?P<open>[(\[{])|(?P<close>[)\]}])"
#: Inside brackets a `}}` closes two of them, not the expression.
_BRACKETED: Final = re.compile(_PLACEHOLDER + _NESTED)
_CODE: Final = {
    "{{": re.compile(_PLACEHOLDER + r"|(?P<end>\}\})" + _NESTED),
    "{%": re.compile(_PLACEHOLDER + r"|(?P<end>%\})" + _NESTED),
}
#: A backslash keeps the next character from ending the string; a placeholder is not hidden by one.
_QUOTED: Final = {
    quote: re.compile(_PLACEHOLDER + rf"|\\(?:(?!<<).)?|(?P<end>{quote})", re.DOTALL) for quote in ("'", '"')
}


class Standing(StrEnum):
    """Where a placeholder stands."""

    TEXT = "text"
    CODE = "code"
    QUOTED = "quoted"
    COMMENT = "comment"
    RAW = "raw"


@dataclass(frozen=True)
class Placeholder:
    """One `<< config.name >>` at `start:end`; `quote` is the quotation mark around it, if any."""

    name: str
    start: int
    end: int
    standing: Standing
    quote: str = ""


def find_whole(text: str) -> str | None:
    """Return the config name when the text is one placeholder and nothing else but white space around it."""
    match = _WHOLE.fullmatch(text.strip())
    return match["name"] if match else None


def find_placeholders(text: str, *, is_template: bool) -> list[Placeholder]:
    """Return the placeholders in the order of the text; in a text that is no template all stand in text."""
    if is_template:
        return list(_Scanner(text).scan())
    return [_locate(match, Standing.TEXT) for match in _WHOLE.finditer(text)]


def find_config_names(text: str, *, is_template: bool = True) -> list[str]:
    """Return the config names that a text needs, each once; a Jinja comment needs none."""
    spots = find_placeholders(text, is_template=is_template)
    return list(dict.fromkeys(spot.name for spot in spots if spot.standing is not Standing.COMMENT))


def _locate(match: re.Match[str], standing: Standing, quote: str = "") -> Placeholder:
    return Placeholder(match["name"], match.start(), match.end(), standing, quote)


class _Scanner:
    """Walks through a template as Jinja's lexer does, but never fails: what is open at the end just ends."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def scan(self) -> Iterator[Placeholder]:
        while match := self._next(_TEXT):
            if match["name"]:
                yield _locate(match, Standing.TEXT)
            elif match["raw"]:
                yield from self._scan_raw()
            elif match["comment"]:
                yield from self._scan_comment()
            else:
                yield from self._scan_code(match["code"])

    def _next(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.search(self.text, self.position)
        self.position = match.end() if match else len(self.text)
        return match

    def _scan_raw(self) -> Iterator[Placeholder]:
        while (match := self._next(_RAW)) and not match["end"]:
            yield _locate(match, Standing.RAW)

    def _scan_comment(self) -> Iterator[Placeholder]:
        end = self.text.find("#}", self.position)
        end = len(self.text) if end < 0 else end
        for match in _WHOLE.finditer(self.text, self.position, end):
            yield _locate(match, Standing.COMMENT)
        self.position = end + 2

    def _scan_code(self, opener: str) -> Iterator[Placeholder]:
        depth = 0
        while match := self._next(_BRACKETED if depth else _CODE[opener]):
            found = match.groupdict()
            if found.get("end"):
                return
            if found["name"]:
                yield _locate(match, Standing.CODE)
            elif found["quote"]:
                yield from self._scan_string(found["quote"])
            else:
                depth = max(0, depth + (1 if found["open"] else -1))

    def _scan_string(self, quote: str) -> Iterator[Placeholder]:
        while (match := self._next(_QUOTED[quote])) and not match["end"]:
            if match["name"]:
                yield _locate(match, Standing.QUOTED, quote)
