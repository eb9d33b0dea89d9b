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
from answerkey.models import Origin, Secret
from answerkey.models.settings import SECRET_NAME
from answerkey.spec.findings import Findings
from answerkey.spec.reader import read_text

_VALUE = re.compile(r"\$(?:[A-Za-z_]|\{[A-Za-z_])\S*")
_NAME = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_WHOLE_START = re.compile(r"(?:\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})(?:/\S*)?")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


@dataclass(frozen=True)
class Environment:
    """The values that `$NAME` can stand for; `project_names` are those that a file of the project sets.

    One that `is_broken` lacks those of a file that could not be read.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    project_names: frozenset[str] = frozenset()
    is_broken: bool = False

    def expand(self, text: str, place: Place, *, may_hold_secret: bool = False) -> str:
        """Return an environment value with its variables filled in; any other text as it is."""
        if not _VALUE.fullmatch(text):
            return text
        names = _find_names(text)
        if not may_hold_secret and (hidden := [name for name in names if SECRET_NAME.search(name)]):
            raise _refuse_secret(hidden[0], place)
        return _NAME.sub(lambda found: self._value(found[1] or found[2], place), text)

    def origin_of(self, text: str) -> Origin:
        """Return whose an environment value is: the project's only if all of it stands in its files."""
        return "project" if self.project_names.issuperset(_find_names(text)) else "caller"

    def names_host(self, text: str) -> bool:
        """Return whether a URL's host is the caller's choice: all of `$V` or `$V/x`, set by the caller."""
        return bool(_WHOLE_START.fullmatch(text)) and self.origin_of(text) == "caller"

    def find_secret(self, name: str) -> Secret:
        """Return the value of a name as a secret."""
        return Secret(self.values[name], self.origin_of(f"${name}"))

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


def _find_names(text: str) -> list[str]:
    return [plain or braced for plain, braced in _NAME.findall(text)]


def _refuse_secret(name: str, place: Place) -> SpecError:
    hint = "secrets may be the value of `api_key`, of a header, of an environment value or under `secrets`"
    return SpecError("E117", f"`{name}` looks like a secret, and may not stand here", where=place, hint=hint)


def load_environment(
    folder: Path | None, env_file: Path | None, base: Mapping[str, str] | None = None
) -> Environment:
    """Return the process environment (or `base`) over `env_file`, or over `.env` in `folder`."""
    file = env_file or (folder / ".env" if folder else None)
    stored: dict[str, str] = {}
    if file is not None and (env_file is not None or file.is_file()):
        stored = parse_env(read_text(file, file.as_posix()), file.as_posix())
    given = os.environ if base is None else base
    names = frozenset(stored.keys() - given.keys()) if _is_within(file, folder) else frozenset()
    return Environment({**stored, **given}, names)


def _is_within(file: Path | None, folder: Path | None) -> bool:
    return bool(file and folder and file.resolve().is_relative_to(folder.resolve()))


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


def try_expand(
    environment: Environment, text: str, place: Place, findings: Findings, *, may_hold_secret: bool = False
) -> str | None:
    """Return the expanded text; report an unset name and return None."""
    try:
        return environment.expand(text, place, may_hold_secret=may_hold_secret)
    except SpecError as error:
        if not environment.is_broken or error.code != "E106":
            findings.report(error)
        findings.mark_broken(place)
        return None
