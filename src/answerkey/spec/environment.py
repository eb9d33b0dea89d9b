"""Environment values: `$V`, `${V}` and `$V/x`, and the `.env` file beside the run file.

What the process was started with wins over `.env`: a value given for one command is the more deliberate one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from answerkey.errors import Place, SpecError, suggest
from answerkey.spec.findings import Findings
from answerkey.spec.reader import read_text

_VALUE = re.compile(r"\$(?:[A-Za-z_]|\{[A-Za-z_])\S*")
_NAME = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


@dataclass(frozen=True)
class Environment:
    """The values that `$NAME` can stand for."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def expand(self, text: str, place: Place) -> str:
        """Return an environment value with its variables filled in; any other text as it is."""
        if not _VALUE.fullmatch(text):
            return text
        return _NAME.sub(lambda found: self._value(found[1] or found[2], place), text)

    def _value(self, name: str, place: Place) -> str:
        if name in self.values:
            return self.values[name]
        hint = f"set it in the environment or in `.env`: `{name}=…`"
        near = suggest(name, self.values)
        raise SpecError(
            "E106",
            f"environment value `{name}` is not set",
            where=place,
            hint=f"{near} or {hint}" if near else hint,
        )


def load_environment(
    folder: Path | None, env_file: Path | None, base: Mapping[str, str] | None = None
) -> Environment:
    """Return the process environment (or `base`) over `env_file`, or over `.env` in `folder`."""
    file = env_file or (folder / ".env" if folder else None)
    stored: dict[str, str] = {}
    if file is not None and (env_file is not None or file.is_file()):
        stored = parse_env(read_text(file, file.as_posix()), file.as_posix())
    return Environment({**stored, **(os.environ if base is None else base)})


def parse_env(text: str, shown: str) -> dict[str, str]:
    """Return the values of a `.env` text: `NAME=value`, `export`, quotes, comments; nothing is expanded."""
    values: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if not found:
            raise SpecError("E102", "not a line of the form `NAME=value`", where=Place(shown, number))
        values[found[1]] = _unquote(found[2], Place(shown, number))
    return values


def _unquote(text: str, place: Place) -> str:
    if text[:1] not in {"'", '"'}:
        return re.split(r"\s#", text, maxsplit=1)[0].strip()
    quote = text[0]
    pattern = r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"'
    found = re.fullmatch(pattern + r"\s*(?:#.*)?", text)
    if not found:
        raise SpecError("E102", "quotes are not closed, or text follows them", where=place)
    if quote == "'":
        return found[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), found[1])


def try_expand(environment: Environment, text: str, place: Place, findings: Findings) -> str:
    """Return the expanded text; report an unset name and return the text as it is."""
    try:
        return environment.expand(text, place)
    except SpecError as error:
        findings.report(error)
        return text
