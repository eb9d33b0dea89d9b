"""Read a file as a tree, with included files, environment values and secrets filled in.

`!include path` and `$ref: path` bring in other files of the project folder; `$V`, `${V}` and `$V/x`
are values of the environment, or else of `.env`; `<< secrets.NAME >>` is used and never shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING

from answerkey.datasets.formats import split_endings
from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.models.config import SECRET_NAME, Adapter, Origin, Secret
from answerkey.options import Options
from answerkey.spec.nodes import (
    INCLUDE_TAG,
    MAX_NODES,
    Location,
    Node,
    ProblemList,
    Steps,
    find_text_kind,
    from_plain,
    list_keys,
    map_scalars,
    read_text,
    read_yaml,
    resolve_path,
    to_plain,
)

if TYPE_CHECKING:
    from answerkey.spec.models import ModelSpec
    from answerkey.spec.sources import DatasetSpec

RUN_NAMES = ("run.yaml", "run.yml")
YAML_ENDINGS = (".yaml", ".yml")
#: The files of the ready-made tasks.
BENCHMARKS = "benchmarks"
MAX_FILES = 200
MAX_INCLUDED = 20_000_000

_VALUE = r"\$(?:[A-Za-z_]|\{[A-Za-z_])\S*"
_NAME = r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})"
_LINE = r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)"
_QUOTED = r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:#.*)?"""
_ESCAPE = r"\\(.)"
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    '"': '"',
    "\\": "\\",
    "$": "$",
}
_WHOLE_START = r"(?:\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})(?:/\S*)?"
_REFERENCE = r"\s*<<\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*>>\s*"
_REFERENCE_ANYWHERE = r"<<\s*secrets\."
_PLACES = (
    "secrets may be the whole value of `api_key`, of a header, of an environment value or under "
    "`secrets`"
)


@dataclass(frozen=True)
class Environment:
    """The values that `$NAME` can stand for; `project_names` are set by a file of the project."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    project_names: frozenset[str] = frozenset()

    def expand(
        self,
        text: str,
        place: Place,
        *,
        may_hold_secret: bool = False,
    ) -> str:
        """Return an environment value with its variables filled in; any other text as it is."""
        if not re.fullmatch(_VALUE, text):
            return text
        for name in _find_names(text):
            if SECRET_NAME.search(name) and not may_hold_secret:
                message = f"`{name}` looks like a secret, which is not allowed here"
                raise SpecError("E117", message, where=place, hint=_PLACES)
            if name not in self.values:
                hint = f"set it in the environment or in `.env`: `{name}=…`"
                near = suggest(name, self.values)
                if near:
                    hint = f"{near} or {hint}"
                message = f"environment value `{name}` is not set"
                raise SpecError("E106", message, where=place, hint=hint)
        return re.sub(_NAME, lambda match: self.values[match[1] or match[2]], text)

    def find_origin(self, text: str) -> Origin:
        """Return the origin of a value: the project only if its files state all of it."""
        is_projects = self.project_names.issuperset(_find_names(text))
        return "project" if is_projects else "caller"


def _find_names(text: str) -> list[str]:
    return [plain or braced for plain, braced in re.findall(_NAME, text)]


def load_environment(folder: Path | None, env: Location | None) -> Environment:
    """Return the process environment over the file `env`, or over `.env` in `folder`."""
    file = None
    if env is not None:
        file = Path(env)
    elif folder is not None and (folder / ".env").is_file():
        file = folder / ".env"
    if file is None:
        return Environment({**environ})
    shown = file.as_posix()
    stored = parse_env(read_text(file, shown), shown)
    values = {**stored, **environ}
    if folder is None or not file.resolve().is_relative_to(folder.resolve()):
        return Environment(values)
    return Environment(values, frozenset(stored.keys() - environ.keys()))


def parse_env(text: str, shown: str) -> dict[str, str]:
    """Return the values of a `.env` text: `NAME=value`, `export`, quotes, comments.

    Nothing is expanded.
    """
    values: dict[str, str] = {}
    for number, written in enumerate(text.splitlines(), start=1):
        line = written.strip()
        if not line or line.startswith("#"):
            continue
        where = Place(shown, number)
        match = re.fullmatch(_LINE, line, re.DOTALL)
        if match is None:
            raise SpecError("E102", "not a line of the form `NAME=value`", where=where)
        name, value = match.groups()
        if not value.startswith(("'", '"')):
            bare, *_ = re.split(r"\s#", value, maxsplit=1)
            values[name] = bare.strip()
            continue
        quoted = re.fullmatch(_QUOTED, value)
        if quoted is None:
            raise SpecError("E102", "quotes are not closed, or text follows them", where=where)
        bare, escaped = quoted.groups(default="")
        values[name] = bare or re.sub(_ESCAPE, _unescape, escaped)
    return values


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])


@dataclass(eq=False)
class Inclusion:
    """Follows `!include` and `$ref`; `folder` may not be left."""

    folder: Path
    environment: Environment
    problems: ProblemList
    allow_outside: bool = False
    _count: int = 0
    _included: int = 0
    _trees: dict[Path, Node] = field(default_factory=dict)

    def follow(
        self,
        node: Node,
        trail: tuple[Path, ...] = (),
        *,
        is_material: bool = False,
    ) -> Node:
        """Return a tree with everything followed; `trail` are the files that lead to it.

        Inside rows `$ref` is the name of a column and not followed; `!include` still is.
        """
        self._count += 1
        if self._count > MAX_NODES:
            message = f"more than {MAX_NODES:,} nodes in all files together"
            raise SpecError("E104", message, where=node.place)
        if node.style == INCLUDE_TAG:
            return self._include(node)
        if node.is_list:
            entries = []
            for entry in node.items:
                entries.append(self.follow(entry, trail, is_material=is_material))
            return replace(node, value=tuple(entries))
        if not node.is_map:
            return node
        followed: dict[str, Node] = {}
        for key, entry in node.entries.items():
            is_rows = key == "rows"
            if is_rows and "$ref" in entry.entries and not is_material:
                followed[key] = self._refer(entry, trail, is_material=True)
            else:
                followed[key] = self.follow(entry, trail, is_material=is_material or is_rows)
        node = replace(node, value=followed)
        if "$ref" in followed and not is_material:
            return self._refer(node, trail)
        return node

    def _include(self, node: Node) -> Node:
        """Return the text of the file that `!include` names, with the place where it begins."""
        try:
            path = self._locate(str(node.value), node.place)
            text = read_text(path, path.as_posix(), place=node.place)
        except SpecError as error:
            self.problems.report(error)
            return node
        self._included += len(text)
        if self._included > MAX_INCLUDED:
            most = MAX_INCLUDED // 1_000_000
            message = f"the files that `!include` names hold more than {most} MB"
            raise SpecError("E104", message, where=node.place)
        blank = len(text) - len(text.lstrip())
        line = text.count("\n", 0, blank) + 1
        column = blank - text.rfind("\n", 0, blank)
        start = Place(path.as_posix(), line, column)
        return Node(text.strip(), start, "include", problems=self.problems)

    def _refer(
        self,
        node: Node,
        trail: tuple[Path, ...],
        *,
        is_material: bool = False,
    ) -> Node:
        """Return the tree of the file that `$ref` names, with the keys beside `$ref` added."""
        reference = node.entries["$ref"]
        siblings = node.without("$ref")
        try:
            target = self._read_reference(reference, trail, is_material=is_material)
        except SpecError as error:
            self.problems.report(error)
            return siblings
        if not siblings.entries:
            return target
        if not target.is_map:
            message = "`$ref` with other keys beside it needs a mapping, "
            reference.report("E105", f"{message}and `{reference.text}` holds none")
        for key, sibling in siblings.entries.items():
            twin = target.entries.get(key, sibling)
            if to_plain(sibling) != to_plain(twin):
                place = target.key_place(key)
                message = f"`{key}` contradicts the file that `$ref` names ({place})"
                siblings.report("E105", message, f"keep `{key}` in one of the two", key=key)
        joined = reference.changed(target.entries | siblings.entries)
        return replace(joined, keys=target.keys | siblings.keys)

    def _read_reference(
        self,
        node: Node,
        trail: tuple[Path, ...],
        *,
        is_material: bool,
    ) -> Node:
        """Return the tree of the file that `$ref` names; each file is read once."""
        place = node.place
        if node.text is None:
            raise SpecError("E108", "`$ref` must be the path of a YAML file", where=place)
        text = self.environment.expand(node.text, place)
        path = self._locate(text, place)
        real = resolve_path(path, place)
        if real in trail:
            circle = (*trail[trail.index(real) :], real)
            names = [f"`{step.name}`" for step in circle]
            message = f"`$ref` refers to itself: {' → '.join(names)}"
            raise SpecError("E105", message, where=place)
        if real not in self._trees:
            if len(self._trees) >= MAX_FILES:
                message = f"`$ref` names more than {MAX_FILES} files"
                raise SpecError("E104", message, where=place)
            shown = path.as_posix()
            self._trees[real] = read_yaml(path, shown, self.problems, place=place)
        tree = self._trees[real]
        return self.follow(tree, (*trail, real), is_material=is_material)

    def _locate(self, text: str, place: Place) -> Path:
        """Return a named file: relative to the file that names it, inside the project."""
        base = Path(place.file).parent if place.file else self.folder
        path = base / text
        is_inside = resolve_path(path, place).is_relative_to(self.folder.resolve())
        if not is_inside and not self.allow_outside:
            message = f"`{text}` is outside the project folder `{self.folder}`"
            hint = "move the file into the project, or allow it with `--allow-outside`"
            raise SpecError("E105", message, where=place, hint=hint)
        return path


@dataclass(eq=False)
class Project:
    """A folder of files, with everything they define by key and the caller's options.

    `open_files` reads the caller's data files as those of a ready-made task. With `is_faulty`
    definitions, nothing is reported as missing. `is_callers` says whether the caller named the
    models, and not a file; where it is None, only the model of the options is the caller's.
    """

    folder: Path
    options: Options
    problems: ProblemList
    environment: Environment = field(default_factory=Environment)
    datasets: dict[str, DatasetSpec] = field(default_factory=dict)
    models: dict[str, ModelSpec] = field(default_factory=dict)
    adapters: dict[str, Adapter] = field(default_factory=dict)
    tasks: dict[str, Node] = field(default_factory=dict)
    is_faulty: bool = False
    is_callers: bool | None = None
    given_dataset: DatasetSpec | None = None
    open_files: Callable[[Location], DatasetSpec | None] | None = None

    @classmethod
    def open(
        cls,
        folder: Path,
        options: Options,
        problems: ProblemList,
    ) -> Project:
        """Return the project of a folder; raise for an `--env` file that cannot be read."""
        return cls(folder, options, problems, load_environment(folder, options.env))

    def read(
        self,
        source: Path | Mapping[str, object],
        *,
        limit: Path | None = None,
    ) -> Node:
        """Return the tree of a file, or of a mapping from Python, with its values filled in.

        `limit` is the folder that may not be left. Raises all errors at once.
        """
        problems = self.problems
        earlier = len(problems.errors)
        inclusion = Inclusion(
            folder=limit or self.folder,
            environment=self.environment,
            problems=problems,
            allow_outside=self.options.allow_outside,
        )
        if isinstance(source, Path):
            node = read_yaml(source, source.as_posix(), problems)
            node = inclusion.follow(node, (resolve_path(source, None),))
        else:
            node = inclusion.follow(from_plain(source, Place(), problems))
        secrets: dict[str, Secret] = {}
        if "secrets" in node.entries and "definition" not in node.entries:
            written = map_scalars(node.entries["secrets"], self._expand, ("secrets",))
            secrets = read_secrets(written)
            node = node.without("secrets")

        def fill(path: Steps, scalar: Node) -> Node:
            text = scalar.text or ""
            if text.startswith("$"):
                return self._expand(path, scalar)
            if re.search(_REFERENCE_ANYWHERE, text):
                return self._fill_secret(path, scalar, secrets)
            return scalar

        node = map_scalars(node, fill)
        problems.raise_any(earlier)
        return node

    def _expand(self, path: Steps, node: Node) -> Node:
        """Return a scalar with its environment value filled in."""
        text = node.text or ""
        if node.style == "include" or find_text_kind(path) != "plain":
            return node
        is_secret = path[:1] == ("secrets",) or may_hold_secret(path)
        try:
            expanded = self.environment.expand(text, node.place, may_hold_secret=is_secret)
        except SpecError as error:
            self.problems.report(error)
            return node
        if expanded == text:
            return node
        origin = self.environment.find_origin(text)
        if is_secret:
            return node.changed(Secret(expanded, origin))
        # A value that states the whole beginning of an address names its host.
        if re.fullmatch(_WHOLE_START, text) and origin == "caller":
            return replace(node, value=expanded, style="caller")
        return replace(node, value=expanded)

    def _fill_secret(
        self,
        path: Steps,
        node: Node,
        secrets: Mapping[str, Secret],
    ) -> Node:
        """Return a scalar with `<< secrets.NAME >>` replaced; report one in the wrong place."""
        if find_text_kind(path) == "material":
            return node
        match = re.fullmatch(_REFERENCE, node.text or "")
        if not match or not may_hold_secret(path):
            node.report("E117", "`<< secrets.… >>` is not allowed here", _PLACES)
            return node
        name = match[1]
        if name in secrets:
            return node.changed(secrets[name])
        value = self.environment.values.get(name)
        if value is not None:
            origin = self.environment.find_origin(f"${name}")
            return node.changed(Secret(value, origin))
        hint = suggest(name, secrets)
        if hint is None:
            hint = f"set it under `secrets` (there: {listing(secrets)}) or in the environment"
        node.report("E117", f"secret `{name}` is not found", hint)
        return node


def may_hold_secret(path: Steps) -> bool:
    """Return whether a secret is allowed here: as a key, a header or an environment value."""
    *_, above, name = ["", "", *list_keys(path)]
    return name == "api_key" or above in {"custom_headers", "environment"}


def read_secrets(node: Node) -> dict[str, Secret]:
    """Return the run's own secrets: a mapping of names to values, or a list of `{key, value}`."""
    values = dict(node.entries)
    for entry in node.items:
        if entry.key is None or entry.entries.keys() != {"key", "value"}:
            entry.report("E108", "a secret in a list is `{key: NAME, value: …}`")
        else:
            values[entry.key] = entry.entries["value"]
    if node.is_scalar and not node.is_null:
        node.report("E108", "`secrets` must be a mapping of names to values")
    secrets: dict[str, Secret] = {}
    for name, entry in values.items():
        value = entry.value
        if isinstance(value, Secret):
            secrets[name] = value
        elif isinstance(value, str | int) and not isinstance(value, bool):
            secrets[name] = Secret(str(value), "project")
        else:
            hint = "put the value in quotes, or name it as `$NAME`"
            entry.report("E108", f"secret `{name}` must be text", hint)
    return secrets


def find_file(path: Path) -> Path:
    """Return the file that the caller means: the path itself, or the run file of a folder."""
    if not path.is_dir():
        return path
    for name in RUN_NAMES:
        if (path / name).is_file():
            return path / name
    names = []
    for file in sorted(path.iterdir()):
        name = file.as_posix()
        if name.endswith(YAML_ENDINGS) or split_endings(name)[0]:
            names.append(name)
    hint = "write a `run.yaml` there"
    if names:
        hint = f"name one of its files, such as {listing(names, limit=3)}, or {hint}"
    shown = path.as_posix()
    message = f"folder `{shown}` holds no `run.yaml`"
    raise SpecError("E101", message, where=Place(file=shown), hint=hint)


def find_ready_made(location: object) -> str | None:
    """Return the ready-made task that a caller means.

    A file, or a folder with a run file, comes first.
    """
    name = str(location).lower().replace("-", "_")
    if not isinstance(location, str | Path) or not name.isidentifier():
        return None
    file = files("answerkey.spec") / BENCHMARKS / f"{name}.yaml"
    if not file.is_file():
        return None
    path = Path(location)
    own_files = [path, *(path / run_name for run_name in RUN_NAMES)]
    if any(own_file.is_file() for own_file in own_files):
        return None
    return name
