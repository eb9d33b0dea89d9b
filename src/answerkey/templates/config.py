"""The first template level: `<< config.x >>`, filled in once when a file is loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from answerkey.errors import Place, SpecError

#: Where a placeholder stands.
Region = Literal["text", "code", "quoted", "comment", "raw"]
#: The name ends with no white space; that it does is said so that no blank is tried twice.
_PLACEHOLDER: Final = r"<<\s*config\.(?P<name>[^<>\n'\"{}]*[^<>\n'\"{}\s])\s*>>"
_WHOLE: Final = re.compile(_PLACEHOLDER)
_NESTED: Final = _PLACEHOLDER + r"|(?P<quote>['\"])|(?P<open>[(\[{])|(?P<close>[)\]}])"
#: What is looked for, by where the search stands and by what that began with.
_PATTERNS: Final = {
    ("text", ""): re.compile(
        _PLACEHOLDER + r"|(?P<raw>\{%[-+]?\s*raw\s*-?%\})|(?P<comment>\{#)|(?P<code>\{\{|\{%)"
    ),
    ("raw", ""): re.compile(_PLACEHOLDER + r"|(?P<end>\{%[-+]?\s*endraw\s*[-+]?%\})"),
    ("comment", ""): re.compile(_PLACEHOLDER + r"|(?P<end>#\})"),
    ("code", "{{"): re.compile(r"(?P<end>\}\})|" + _NESTED),
    ("code", "{%"): re.compile(r"(?P<end>%\})|" + _NESTED),
    # Inside brackets a `}}` closes two of them, not the expression.
    ("code", "["): re.compile(_NESTED),
    # A backslash keeps the next character from ending the string; a placeholder is not hidden by one.
    ("quoted", "'"): re.compile(_PLACEHOLDER + r"|\\(?:(?!<<).)?|(?P<end>')", re.DOTALL),
    ("quoted", '"'): re.compile(_PLACEHOLDER + r'|\\(?:(?!<<).)?|(?P<end>")', re.DOTALL),
}
_OPENERS: Final = ("{{", "{%", "{#")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_ACCESS: Final = re.compile(r"\s*\.\s*\Z")


@dataclass(frozen=True)
class Placeholder:
    """One `<< config.name >>` at `start:end`; `quote` is the quotation mark around it, if any."""

    name: str
    start: int
    end: int
    region: Region
    quote: str = ""


@dataclass(frozen=True)
class ConfigValue:
    """The value of a config parameter; `is_code` when it was declared `string_kind: jinja` or `python`."""

    value: object
    is_code: bool = False


def find_whole(text: str) -> str | None:
    """Return the config name when the text is one placeholder and nothing else but white space around it."""
    match = _WHOLE.fullmatch(text.strip())
    return match["name"] if match else None


def find_config_names(text: str) -> list[str]:
    """Return the config names that a template needs, each once; a Jinja comment needs none."""
    found = find_placeholders(text, is_template=True)
    return list(dict.fromkeys(one.name for one in found if one.region != "comment"))


def find_placeholders(text: str, *, is_template: bool) -> Iterator[Placeholder]:
    """Yield the placeholders in the order of the text; in a text that is no template all stand in text.

    A template is gone through as Jinja's lexer does, but never fails: what is open at the end just ends.
    """
    if not is_template:
        for one in _WHOLE.finditer(text):
            yield Placeholder(one["name"], one.start(), one.end(), "text")
        return
    region: Region = "text"
    opener, quote, depth, position = "", "", 0, 0
    while match := _PATTERNS[region, quote or ("[" if depth else opener)].search(text, position):
        found, position = match.groupdict(), match.end()
        if found["name"]:
            yield Placeholder(found["name"], match.start(), position, region, quote)
        elif found.get("code"):
            region, opener = "code", found["code"]
        elif region == "text":
            region = "raw" if found["raw"] else "comment"
        elif found.get("end"):
            region, opener, quote = ("code", opener, "") if quote else ("text", "", "")
        elif found.get("quote"):
            region, quote = "quoted", found["quote"]
        elif region == "code":
            depth = max(0, depth + (1 if found["open"] else -1))


def embed_config(text: str, lookup: Callable[[str], ConfigValue], *, is_template: bool) -> object:
    """Return a text with its placeholders filled in; a text that is one placeholder becomes the value itself.

    In a template (`is_template`) a value never becomes code: it prints as it is, stays inside its quotes, or
    is refused with SpecError E111. `lookup` raises for a name that does not exist. Values are not searched
    for further placeholders.
    """
    name = find_whole(text)
    if name is not None:
        value = lookup(name)
        whole = value.value
        if not is_template or value.is_code or not isinstance(whole, str):
            return whole
        prints_alike = not any(mark in whole for mark in (*_OPENERS, "<<", "\r")) and not whole.endswith("\n")
        return whole if prints_alike else _print_literally(whole)
    filled, position = "", 0
    for placeholder in find_placeholders(text, is_template=is_template):
        filled += text[position : placeholder.start]
        position = placeholder.end
        if placeholder.region == "comment":
            continue
        value = lookup(placeholder.name)
        shown = value.value if isinstance(value.value, str) else repr(value.value)
        if placeholder.region == "quoted":
            # A lone backslash at the end of what stands before is doubled: it prints, and escapes nothing.
            backslashes = len(filled) - len(filled.rstrip("\\"))
            filled += "\\" * (backslashes % 2) + _escape(shown, placeholder.quote)
        elif not is_template or (value.is_code and isinstance(value.value, str)):
            filled += shown
        elif placeholder.region == "code":
            filled = _fill_code(filled, value.value, placeholder, text)
        elif shown and shown == shown.strip() and not re.search(r"^[%#]|[{\r]|<<", shown):
            # Jinja prints it as it is, whatever stands beside it; at an empty text the two sides would meet.
            filled += shown
        elif placeholder.region == "raw":
            filled += f"{{% endraw %}}{_print_literally(shown)}{{% raw %}}"
        else:
            # A brace right before the value would make a delimiter together with ours: it is printed too.
            bare = filled.rstrip("{")
            filled = bare + _print_literally(filled[len(bare) :] + shown)
    return filled + text[position:]


def _fill_code(before: str, value: object, placeholder: Placeholder, text: str) -> str:
    """Return the code before a placeholder with the value behind it: a name, a number, a literal, `[…]`."""
    access = _ACCESS.search(before)
    following = text[placeholder.end : placeholder.end + 1]
    if access and not (isinstance(value, str) and value.isidentifier()):
        if not (following.isalnum() or following == "_"):
            return f"{before[: access.start()]}[{_write_literal(value)}]"
    elif not isinstance(value, str):
        return before + _write_literal(value)
    elif _NUMBER.fullmatch(value) or all(part.isidentifier() for part in value.split(".")):
        return before + value
    name = placeholder.name
    message = f"config value `{name}` is {value!r}, which is no name or number and cannot stand in Jinja code"
    hint = f"put it in quotes (`'<< config.{name} >>'`), or declare the parameter with `string_kind: jinja`"
    where = Place(line=text.count("\n", 0, placeholder.start) + 1)
    raise SpecError("E111", message, where=where, hint=hint)


def _print_literally(text: str) -> str:
    return f'{{{{ "{_escape(text, chr(34))}" }}}}'


def _write_literal(value: object) -> str:
    """Return a value as Jinja code."""
    if isinstance(value, str):
        return f"'{_escape(value, chr(39))}'"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_literal, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_write_literal(key)}: {_write_literal(one)}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"('{value}' | float)"
    is_negative = isinstance(value, (int, float)) and value < 0
    return f"({value!r})" if is_negative else repr(value)


def _escape(text: str, quote: str) -> str:
    """Return text as it stands between quotes in Jinja code; `<<` is hidden, it is no placeholder."""
    changes = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r"}
    return "".join(changes.get(one, one) for one in text).replace("<<", "\\x3c\\x3c")
