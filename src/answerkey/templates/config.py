"""The first template level: `<< config.x >>`, filled in once when a file is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from answerkey.errors import Place, SpecError

#: The name does not end in white space; stating that keeps the pattern from backtracking.
_PLACEHOLDER = r"<<\s*config\.(?P<name>[^<>\n'\"{}]*[^<>\n'\"{}\s])\s*>>"
_NESTED = _PLACEHOLDER + r"|(?P<quote>['\"])|(?P<bracket>[(\[{])|(?P<close>[)\]}])"
#: The next token of interest in a region, by the opener of the region.
_PATTERNS = {
    "": _PLACEHOLDER + r"|(?P<raw>\{%[-+]?\s*raw\s*-?%\})|(?P<comment>\{#)|(?P<code>\{\{|\{%)",
    "raw": _PLACEHOLDER + r"|(?P<end>\{%[-+]?\s*endraw\s*[-+]?%\})",
    "{#": _PLACEHOLDER + r"|(?P<end>#\})",
    "{{": r"(?P<end>\}\})|" + _NESTED,
    "{%": r"(?P<end>%\})|" + _NESTED,
    # Inside brackets, `}}` closes two brackets, not the expression.
    "bracket": _NESTED,
    # A backslash escapes the next character, but does not hide a placeholder.
    "'": _PLACEHOLDER + r"|\\(?:(?!<<).)?|(?P<end>')",
    '"': _PLACEHOLDER + r'|\\(?:(?!<<).)?|(?P<end>")',
}
_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_ACCESS = r"\s*\.\s*\Z"
#: Text that Jinja does not print literally: as a whole text, and within one.
_UNSAFE_WHOLE = r"\{[{%#]|<<|\r|\n\Z"
_UNSAFE_PART = r"^[%#]|[{\r]|<<"


class Placeholder(NamedTuple):
    """One `<< config.name >>` at `start:end`.

    `opener` is what opened the region around it: empty for plain text, `raw`, `{#` for a comment, a
    quote, or `{{`, `{%` or a bracket for code.
    """

    name: str
    start: int
    end: int
    opener: str = ""


class ConfigValue(NamedTuple):
    """The value of a config parameter.

    `is_code` if it was declared with `string_kind: jinja` or `python`.
    """

    value: object
    is_code: bool = False


def find_whole(text: str) -> str | None:
    """Return the config name if the text is a single placeholder, ignoring white space around
    it.
    """
    match = re.fullmatch(_PLACEHOLDER, text.strip())
    if match is None:
        return None
    return match["name"]


def find_config_names(text: str) -> list[str]:
    """Return the distinct config names that a template needs, except those in Jinja comments."""
    names: list[str] = []
    if "<<" not in text:
        return names
    for placeholder in find_placeholders(text):
        if placeholder.opener != "{#" and placeholder.name not in names:
            names.append(placeholder.name)
    return names


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """Yield the placeholders of a template in order.

    The text is scanned like Jinja's lexer does, but without errors: regions still open at the end
    are closed there.
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

    A text that is a single placeholder becomes the value itself. In a template (`is_template`) a
    value never becomes code: it is printed literally, stays inside its quotes, or is refused with
    SpecError E111. `lookup` raises for a name that does not exist. Values are not searched for
    further placeholders.
    """
    name = find_whole(text)
    if name is not None:
        config = lookup(name)
        is_printed = is_template and not config.is_code and isinstance(config.value, str)
        if is_printed and re.search(_UNSAFE_WHOLE, str(config.value)):
            return _print_literally(str(config.value))
        return config.value
    if not is_template:
        return re.sub(_PLACEHOLDER, lambda match: _format_value(lookup(match["name"]).value), text)
    filled = ""
    position = 0
    for placeholder in find_placeholders(text):
        filled += text[position : placeholder.start]
        position = placeholder.end
        if placeholder.opener != "{#":
            config = lookup(placeholder.name)
            filled = _fill(filled, config, placeholder, text)
    return filled + text[position:]


def _format_value(value: object) -> str:
    """Return a value as text."""
    if isinstance(value, str):
        return value
    return repr(value)


def _fill(
    before: str,
    config: ConfigValue,
    placeholder: Placeholder,
    text: str,
) -> str:
    """Return the text before a placeholder of a template, followed by the value."""
    shown = _format_value(config.value)
    if placeholder.opener in {"'", '"'}:
        # A lone backslash before the value is doubled, so that it is printed and escapes nothing.
        backslashes = len(before) - len(before.rstrip("\\"))
        if backslashes % 2:
            before += "\\"
        return before + _escape(shown, placeholder.opener)
    if config.is_code and isinstance(config.value, str):
        return before + shown
    if placeholder.opener not in {"", "raw"}:
        return _fill_code(before, config.value, placeholder, text)
    if shown and shown == shown.strip() and not re.search(_UNSAFE_PART, shown):
        # Jinja prints it literally, whatever comes before or after it.
        return before + shown
    if placeholder.opener == "raw":
        return f"{before}{{% endraw %}}{_print_literally(shown)}{{% raw %}}"
    # A brace right before the value would form a delimiter with ours, so it is printed literally
    # too.
    bare = before.rstrip("{")
    return bare + _print_literally(before[len(bare) :] + shown)


def _fill_code(
    before: str,
    value: object,
    placeholder: Placeholder,
    text: str,
) -> str:
    """Return the code before a placeholder, followed by the value.

    The value becomes a name, a number, a literal or, after a dot, `[…]`.
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
        "which is not a name or number and cannot be put into Jinja code"
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
    """Return text escaped for use between quotes in Jinja code; `<<` must not look like config."""
    escapes = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r", "<<": "\\x3c\\x3c"}
    for character, escape in escapes.items():
        text = text.replace(character, escape)
    return text
