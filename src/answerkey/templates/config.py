"""The first template level: `<< config.x >>`, filled in once when a file is loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from answerkey.errors import Place, SpecError
from answerkey.templates.placeholders import Placeholder, Standing, find_placeholders, find_whole

_OPENERS: Final = ("{{", "{%", "{#")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_ACCESS: Final = re.compile(r"\s*\.\s*\Z")


@dataclass(frozen=True)
class ConfigValue:
    """The value of a config parameter; `is_code` when it was declared `string_kind: jinja` or `python`."""

    value: object
    is_code: bool = False

    @property
    def code(self) -> str | None:
        """The text that goes in as it is, if the value is code."""
        return self.value if self.is_code and isinstance(self.value, str) else None


def embed_config(text: str, lookup: Callable[[str], ConfigValue], *, is_template: bool) -> object:
    """Return a text with its placeholders filled in; a text that is one placeholder becomes the value itself.

    In a template (`is_template`) a value never becomes code: it prints as it is, stays inside its quotes, or
    is refused with SpecError E111. `lookup` raises for a name that does not exist. Values are not searched
    for further placeholders.
    """
    name = find_whole(text)
    if name is not None:
        return _keep_type(lookup(name), is_template=is_template)
    filled, position = "", 0
    for spot in find_placeholders(text, is_template=is_template):
        filled += text[position : spot.start]
        position = spot.end
        if spot.standing is not Standing.COMMENT:
            filled = _fill(filled, lookup(spot.name), _Gap(spot, text, is_template=is_template))
    return filled + text[position:]


@dataclass(frozen=True)
class _Gap:
    """A placeholder and the text around it."""

    spot: Placeholder
    text: str
    is_template: bool

    @property
    def is_joined(self) -> bool:
        """Whether a name goes on directly behind the placeholder."""
        following = self.text[self.spot.end : self.spot.end + 1]
        return following.isalnum() or following == "_"

    def refuse(self, value: object) -> SpecError:
        line = self.text.count("\n", 0, self.spot.start) + 1
        name = self.spot.name
        hint = (
            f"put it in quotes (`'<< config.{name} >>'`), or declare the parameter with `string_kind: jinja`"
        )
        message = (
            f"config value `{name}` is {value!r}, which is no name or number and cannot stand in Jinja code"
        )
        return SpecError("E111", message, where=Place(line=line), hint=hint)


def _keep_type(value: ConfigValue, *, is_template: bool) -> object:
    content = value.value
    if not is_template or value.is_code or not isinstance(content, str):
        return content
    prints_alike = not any(mark in content for mark in (*_OPENERS, "<<", "\r")) and not content.endswith("\n")
    return content if prints_alike else _print_literally(content)


def _fill(before: str, value: ConfigValue, gap: _Gap) -> str:
    """Return the text before the placeholder and the value, as the place asks for it."""
    if gap.spot.standing is Standing.QUOTED:
        return _close_escape(before) + _escape(_write_text(value.value), gap.spot.quote)
    if value.code is not None:
        return before + value.code
    if not gap.is_template:
        return before + _write_text(value.value)
    return _FILLERS[gap.spot.standing](before, value.value, gap)


def _fill_text(before: str, value: object, _gap: _Gap) -> str:
    text = _write_text(value)
    if _is_harmless(text):
        return before + text
    # A brace right before the value would make a delimiter together with ours: it is printed along with it.
    braces = len(before) - len(before.rstrip("{"))
    return before[: len(before) - braces] + _print_literally("{" * braces + text)


def _fill_raw(before: str, value: object, _gap: _Gap) -> str:
    text = _write_text(value)
    if _is_harmless(text):
        return before + text
    return f"{before}{{% endraw %}}{_print_literally(text)}{{% raw %}}"


def _fill_code(before: str, value: object, gap: _Gap) -> str:
    access = _ACCESS.search(before)
    if access and not (isinstance(value, str) and value.isidentifier()):
        if gap.is_joined:
            raise gap.refuse(value)
        return f"{before[: access.start()]}[{_write_literal(value)}]"
    if not isinstance(value, str):
        return before + _write_literal(value)
    if not (_NUMBER.fullmatch(value) or all(part.isidentifier() for part in value.split("."))):
        raise gap.refuse(value)
    return before + value


_FILLERS: Final[dict[Standing, Callable[[str, object, _Gap], str]]] = {
    Standing.TEXT: _fill_text,
    Standing.RAW: _fill_raw,
    Standing.CODE: _fill_code,
}


def _is_harmless(text: str) -> bool:
    """Say whether Jinja prints the text as it is, wherever it stands and whatever stands beside it.

    An empty text is not: what stands on its two sides may come together as a delimiter.
    """
    return (
        bool(text)
        and text == text.strip()
        and not text.startswith(("%", "#"))
        and not any(c in text for c in ("{", "<<", "\r"))
    )


def _write_text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _print_literally(text: str) -> str:
    return f'{{{{ "{_escape(text, chr(34))}" }}}}'


def _write_literal(value: object) -> str:
    """Return a value as Jinja code."""
    if isinstance(value, str):
        return f"'{_escape(value, chr(39))}'"
    if isinstance(value, list):
        return f"[{', '.join(_write_literal(one) for one in value)}]"
    if isinstance(value, dict):
        pairs = (f"{_write_literal(key)}: {_write_literal(one)}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"('{value}' | float)"
    is_negative = isinstance(value, (int, float)) and value < 0
    return f"({value!r})" if is_negative else repr(value)


def _close_escape(before: str) -> str:
    """Return a quoted text with a backslash at its end doubled, so that it prints and escapes nothing."""
    backslashes = len(before) - len(before.rstrip("\\"))
    return before + "\\" if backslashes % 2 else before


def _escape(text: str, quote: str) -> str:
    """Return text as it stands between quotes in Jinja code; `<<` is hidden, it is no placeholder."""
    changes = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r"}
    escaped = "".join(changes.get(character, character) for character in text)
    return escaped.replace("<<", "\\x3c\\x3c")
