"""Values of the environment and of `.env` files: `$V`, `${V}` and `$V/x`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import environ
from pathlib import Path

from answerkey.errors import Place, SpecError, suggest
from answerkey.models.config import SECRET_NAME, Origin
from answerkey.spec.yaml_text import read_text

_VALUE = re.compile(r"\$(?:[A-Za-z_]|\{[A-Za-z_])\S*")
_NAME = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


@dataclass(frozen=True)
class Environment:
    """The values that `$NAME` can stand for; `project_names` are set by a file of the project.

    One that `is_broken` lacks the values of a file that could not be read.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    project_names: frozenset[str] = frozenset()
    is_broken: bool = False

    def expand(self, text: str, place: Place, *, may_hold_secret: bool = False) -> str:
        """Return an environment value with its variables filled in; any other text as it is."""
        if not _VALUE.fullmatch(text):
            return text
        for name in _find_names(text):
            if SECRET_NAME.search(name) and not may_hold_secret:
                message = f"`{name}` looks like a secret, and may not stand here"
                hint = "secrets may be the value of "
                hint += "`api_key`, of a header, of an environment value or under `secrets`"
                raise SpecError("E117", message, where=place, hint=hint)
        for name in _find_names(text):
            if name not in self.values:
                hint = f"set it in the environment or in `.env`: `{name}=…`"
                near = suggest(name, self.values)
                if near:
                    hint = f"{near} or {hint}"
                message = f"environment value `{name}` is not set"
                raise SpecError("E106", message, where=place, hint=hint)
        return _NAME.sub(lambda match: self.values[match[1] or match[2]], text)

    def origin_of(self, text: str) -> Origin:
        """Return whose value this is: the project's only if its files state all of it."""
        return "project" if self.project_names.issuperset(_find_names(text)) else "caller"


def _find_names(text: str) -> list[str]:
    return [plain or braced for plain, braced in _NAME.findall(text)]


def load_environment(folder: Path | None, env: str | Path | None) -> Environment:
    """Return the process environment over the file `env`, or over `.env` in `folder`."""
    file = None
    if env is not None:
        file = Path(env)
    elif folder is not None and (folder / ".env").is_file():
        file = folder / ".env"
    if file is None:
        return Environment({**environ})
    stored = parse_env(read_text(file, file.as_posix()), file.as_posix())
    names = frozenset[str]()
    if folder is not None and file.resolve().is_relative_to(folder.resolve()):
        names = frozenset(stored.keys() - environ.keys())
    return Environment({**stored, **environ}, names)


def parse_env(text: str, shown: str) -> dict[str, str]:
    """Return the values of a `.env` text: `NAME=value`, `export`, quotes, comments.

    Nothing is expanded.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        where = Place(shown, number)
        match = _LINE.fullmatch(line)
        if match is None:
            raise SpecError("E102", "not a line of the form `NAME=value`", where=where)
        name, value = match.groups()
        if not value.startswith(("'", '"')):
            values[name] = re.split(r"\s#", value, maxsplit=1)[0].strip()
            continue
        quoted = _QUOTED.fullmatch(value)
        if quoted is None:
            raise SpecError("E102", "quotes are not closed, or text follows them", where=where)
        escaped = quoted[2] or ""
        values[name] = quoted[1] or re.sub(
            r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), escaped
        )
    return values
