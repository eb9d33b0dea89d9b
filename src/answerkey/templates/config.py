"""The first template level: `<< config.x >>`, filled in once when a file is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from answerkey.errors import Place, SpecError

#: The name ends with no white space; the pattern says so to try no blank twice.
_PLACEHOLDER = r"<<\s*config\.(?P<name>[^<>\n'\"{}]*[^<>\n'\"{}\s])\s*>>"
_NESTED = _PLACEHOLDER + r"|(?P<quote>['\"])|(?P<bracket>[(\[{])|(?P<close>[)\]}])"
#: What comes next in a region, by what opened the region.
_PATTERNS = {
    "": _PLACEHOLDER + r"|(?P<raw>\{%[-+]?\s*raw\s*-?%\})|(?P<comment>\{#)|(?P<code>\{\{|\{%)",
    "raw": _PLACEHOLDER + r"|(?P<end>\{%[-+]?\s*endraw\s*[-+]?%\})",
    "{#": _PLACEHOLDER + r"|(?P<end>#\})",
    "{{": r"(?P<end>\}\})|" + _NESTED,
    "{%": r"(?P<end>%\})|" + _NESTED,
    # Inside brackets a `}}` closes two of them, not the expression.
    "bracket": _NESTED,
    # A backslash keeps the next character from ending the string, but hides no placeholder.
    "'": _PLACEHOLDER + r"|\\(?:(?!<<).)?|(?P<end>')",
    '"': _PLACEHOLDER + r'|\\(?:(?!<<).)?|(?P<end>")',
}
_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_ACCESS = r"\s*\.\s*\Z"
#: What Jinja does not print as it is: as a whole text, and within one.
_UNSAFE_WHOLE = r"\{[{%#]|<<|\r|\n\Z"
_UNSAFE_PART = r"^[%#]|[{\r]|<<"


class Placeholder(NamedTuple):
    """One `<< config.name >>` at `start:end`.

    `opener` is what opened the region around it: nothing for plain text, `raw`, `{#` for a comment,
    a quote, or `{{`, `{%` or a bracket for code.
    """

    name: str
    start: int
    end: int
    opener: str = ""


class ConfigValue(NamedTuple):
    """The value of a config parameter.

    `is_code` when it was declared `string_kind: jinja` or `python`.
    """

    value: object
    is_code: bool = False


def find_whole(text: str) -> str | None:
    """Return the config name when the text is one placeholder, white space around it apart."""
    match = re.fullmatch(_PLACEHOLDER, text.strip())
    if match is None:
        return None
    return match["name"]


def find_config_names(text: str) -> list[str]:
    """Return the config names that a template needs, each once; a Jinja comment needs none."""
    names: list[str] = []
    if "<<" not in text:
        return names
    for placeholder in find_placeholders(text):
        if placeholder.opener != "{#" and placeholder.name not in names:
            names.append(placeholder.name)
    return names


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """Yield the placeholders of a template in the order of its text.

    The text is gone through as Jinja's lexer does, but never fails: what is open at the end just
    ends.
    """
    openers = [""]
    position = 0
    while match := re.compile(_PATTERNS[openers[-1]], re.DOTALL).search(text, position):
        position = match.end()
        match match.lastgroup:
            case "name":
                yield Placeholder(match["name"], match.start(), position, openers[-1])
            case "raw" | "bracket" as opener:
                openers.append(opener)
            case "comment" | "code" | "quote":
                openers.append(match[0])
            case "end":
                openers.pop()
            case "close" if openers[-1] == "bracket":
                openers.pop()


def embed_config(text: str, lookup: Callable[[str], ConfigValue], *, is_template: bool) -> object:
    """Return a text with its placeholders filled in.

    A text that is one placeholder becomes the value itself. In a template (`is_template`) a value
    never becomes code: it prints as it is, stays inside its quotes, or is refused with SpecError
    E111. `lookup` raises for a name that does not exist. Values are not searched for further
    placeholders.
    """
    name = find_whole(text)
    if name is not None:
        config = lookup(name)
        is_printed = is_template and not config.is_code and isinstance(config.value, str)
        if is_printed and re.search(_UNSAFE_WHOLE, str(config.value)):
            return _print_literally(str(config.value))
        return config.value
    if not is_template:
        return re.sub(_PLACEHOLDER, lambda match: _show(lookup(match["name"]).value), text)
    filled = ""
    position = 0
    for placeholder in find_placeholders(text):
        filled += text[position : placeholder.start]
        position = placeholder.end
        if placeholder.opener != "{#":
            config = lookup(placeholder.name)
            filled = _fill(filled, config, placeholder, text)
    return filled + text[position:]


def _show(value: object) -> str:
    """Return a value as it stands in text."""
    if isinstance(value, str):
        return value
    return repr(value)


def _fill(
    before: str,
    config: ConfigValue,
    placeholder: Placeholder,
    text: str,
) -> str:
    """Return what stands before a placeholder of a template, with the value behind it."""
    shown = _show(config.value)
    if placeholder.opener in {"'", '"'}:
        # A lone backslash before the value is doubled: it prints, and escapes nothing.
        backslashes = len(before) - len(before.rstrip("\\"))
        if backslashes % 2:
            before += "\\"
        return before + _escape(shown, placeholder.opener)
    if config.is_code and isinstance(config.value, str):
        return before + shown
    if placeholder.opener not in {"", "raw"}:
        return _fill_code(before, config.value, placeholder, text)
    if shown and shown == shown.strip() and not re.search(_UNSAFE_PART, shown):
        # Jinja prints it as it is, whatever stands beside it.
        return before + shown
    if placeholder.opener == "raw":
        return f"{before}{{% endraw %}}{_print_literally(shown)}{{% raw %}}"
    # A brace right before the value would make a delimiter together with ours: it is printed too.
    bare = before.rstrip("{")
    return bare + _print_literally(before[len(bare) :] + shown)


def _fill_code(
    before: str,
    value: object,
    placeholder: Placeholder,
    text: str,
) -> str:
    """Return the code before a placeholder with the value behind it.

    It becomes a name, a number, a literal or, after a dot, `[…]`.
    """
    access = re.search(_ACCESS, before)
    if access and not (isinstance(value, str) and value.isidentifier()):
        following = text[placeholder.end : placeholder.end + 1]
        if not following.isalnum() and following != "_":
            return f"{before[: access.start()]}[{_write_literal(value)}]"
    elif not isinstance(value, str):
        return before + _write_literal(value)
    elif re.fullmatch(_NUMBER, value) or all(part.isidentifier() for part in value.split(".")):
        return before + value
    name = placeholder.name
    message = (
        f"config value `{name}` is {value!r}, "
        "which is no name or number and cannot stand in Jinja code"
    )
    hint = (
        f"put it in quotes (`'<< config.{name} >>'`), "
        "or declare the parameter with `string_kind: jinja`"
    )
    where = Place(line=text.count("\n", 0, placeholder.start) + 1)
    raise SpecError("E111", message, where=where, hint=hint)


def _print_literally(text: str) -> str:
    return f'{{{{ "{_escape(text, chr(34))}" }}}}'


def _write_literal(value: object) -> str:
    """Return a value as Jinja code; `<<` must not look like config."""
    literal = repr(value).replace("<<", "\\x3c\\x3c")
    if literal.startswith("-"):
        return f"({literal})"
    return literal


def _escape(text: str, quote: str) -> str:
    """Return text as it stands between quotes in Jinja code; `<<` must not look like config."""
    escapes = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r", "<<": "\\x3c\\x3c"}
    for character, escape in escapes.items():
        text = text.replace(character, escape)
    return text
