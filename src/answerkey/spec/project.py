"""A file that the caller names becomes a tree, with other files, environment values and secrets
filled in.

`!include path` and `$ref: path` bring in other files of the project folder; `$V`, `${V}` and `$V/x`
are values of the environment, or else of `.env`; `<< secrets.NAME >>` is used and never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import environ
from pathlib import Path
from typing import Generic, Literal, Self, TypeVar

from answerkey.datasets.formats import split_endings
from answerkey.datasets.sources import Source
from answerkey.errors import AnswerkeyError, Place, SpecError, listing, suggest
from answerkey.models.config import SECRET_NAME, ModelConfig, Origin, Secret
from answerkey.spec import nodes
from answerkey.spec.nodes import Broken, Node, Problems
from answerkey.spec.nodes import Path as Way
from answerkey.types import Notice

T = TypeVar("T")

#: The options of gates.
GATES = ("policies", "baseline", "fail_under", "not_worse_than")
RUN_NAMES = ("run.yaml", "run.yml")
MAX_FILES = 200
MAX_INCLUDED = 20_000_000

_VALUE = re.compile(r"\$(?:[A-Za-z_]|\{[A-Za-z_])\S*")
_NAME = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_WHOLE_START = re.compile(r"(?:\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})(?:/\S*)?")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}
_SECRET = re.compile(r"\s*<<\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*>>\s*")
_SECRET_ANYWHERE = re.compile(r"<<\s*secrets\.")


@dataclass(frozen=True)
class Overrides:
    """What the caller says beside the file; it wins over what the file says.

    `config` values that are text are read by the declared type of their parameter. `columns` says
    which columns of a data file, given in place of a task, are what: role to name. With
    `split_thinking`, thoughts are taken out of the texts of recorded completions. `env` replaces
    the `.env` beside the file. `allow_hosts` may be sent the caller's keys, or read from, when a
    file names them. `policies` (a file, or plain values of the same form) replace those of the run
    file; `baseline` is the folder of a run to be no worse than. `fail_under` (0.8, "80%") and
    `not_worse_than` (a run folder) are gates of their own.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    model: str | ModelConfig | None = None
    dataset: str | Path | Source | None = None
    completions: str | Path | None = None
    completion_column: str | None = None
    split_thinking: bool | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    num_samples: int | None = None
    subsampling: Literal["head", "random"] | None = None
    seed: int | None = None
    env: str | Path | None = None
    allow_outside: bool = False
    allow_hosts: tuple[str, ...] = ()
    policies: str | Path | Mapping[str, object] | Sequence[object] | None = None
    baseline: str | Path | None = None
    fail_under: float | str | None = None
    not_worse_than: str | Path | None = None

    @property
    def states_gates(self) -> bool:
        """Whether the caller says anything of gates."""
        return any(getattr(self, name) is not None for name in GATES)

    @property
    def model_name(self) -> str | None:
        """How the model is called; one that is no name has its own."""
        return self.model.name if isinstance(self.model, ModelConfig) else self.model

    @property
    def brings_completions(self) -> bool:
        """Whether the completions are recorded ones, so that no model is needed."""
        return self.completions is not None or self.completion_column is not None


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """What was read: as much as could be built, and every error and notice on the way."""

    value: T | None
    errors: list[AnswerkeyError]
    notices: list[Notice]

    @classmethod
    def of(cls, value: T | None, problems: Problems) -> Loaded[T]:
        """Return a value with the problems that were found, by their position."""
        return cls(value, nodes.sort_errors(problems.errors), problems.notices)


@dataclass(frozen=True)
class Environment:
    """The values that `$NAME` can stand for.

    `project_names` are those that a file of the project sets. One that `is_broken` lacks those of a
    file that could not be read.
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
                where = "`api_key`, of a header, of an environment value or under `secrets`"
                raise SpecError(
                    "E117", message, where=place, hint=f"secrets may be the value of {where}"
                )
        for name in _find_names(text):
            if name not in self.values:
                near, hint = (
                    suggest(name, self.values),
                    f"set it in the environment or in `.env`: `{name}=…`",
                )
                message = f"environment value `{name}` is not set"
                raise SpecError(
                    "E106", message, where=place, hint=f"{near} or {hint}" if near else hint
                )
        return _NAME.sub(lambda found: self.values[found[1] or found[2]], text)

    def origin_of(self, text: str) -> Origin:
        """Return whose an environment value is: the project's only if all of it stands in its
        files.
        """
        return "project" if self.project_names.issuperset(_find_names(text)) else "caller"


def _find_names(text: str) -> list[str]:
    return [plain or braced for plain, braced in _NAME.findall(text)]


def load_environment(folder: Path | None, env: str | Path | None) -> Environment:
    """Return the process environment over the file `env`, or over `.env` in `folder`."""
    file = Path(env) if env is not None else folder / ".env" if folder else None
    stored: dict[str, str] = {}
    if file is not None and (env is not None or file.is_file()):
        stored = parse_env(nodes.read_text(file, file.as_posix()), file.as_posix())
    is_within = bool(file and folder and file.resolve().is_relative_to(folder.resolve()))
    names = stored.keys() - environ.keys() if is_within else ()
    return Environment({**stored, **environ}, frozenset(names))


def parse_env(text: str, shown: str) -> dict[str, str]:
    """Return the values of a `.env` text: `NAME=value`, `export`, quotes, comments.

    Nothing is expanded.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        where = Place(shown, number)
        found = _LINE.fullmatch(line)
        if not found:
            raise SpecError("E102", "not a line of the form `NAME=value`", where=where)
        name, value = found[1], found[2]
        if value[:1] not in {"'", '"'}:
            values[name] = re.split(r"\s#", value, maxsplit=1)[0].strip()
            continue
        quoted = _QUOTED.fullmatch(value)
        if not quoted:
            raise SpecError("E102", "quotes are not closed, or text follows them", where=where)
        values[name] = quoted[1] or re.sub(
            r"\\(.)", lambda one: _ESCAPES.get(one[1], one[0]), quoted[2] or ""
        )
    return values


@dataclass
class Inclusion:
    """Follows `!include` and `$ref` from one file on.

    `project` is the folder they may not leave.
    """

    project: Path
    environment: Environment
    problems: Problems
    allow_outside: bool = False
    _count: int = 0
    _bytes: int = 0
    _trees: dict[Path, Node] = field(default_factory=dict)
    _texts: dict[Path, str] = field(default_factory=dict)

    def load(self, path: Path, shown: str) -> Node:
        """Return the tree of a file with everything followed.

        Raises SpecError for the file itself.
        """
        return self.follow(
            nodes.read_yaml(path, shown, self.problems), (nodes.resolve_path(path, None),)
        )

    def follow(
        self, node: Node, trail: tuple[Path, ...] = (), *, is_material: bool = False
    ) -> Node:
        """Return a tree with everything followed; `trail` are the files that lead to it.

        Rows are the user's own material: a column may well be called `$ref`. `!include` is
        unmistakable.
        """
        self._count += 1
        if self._count > nodes.MAX_NODES:
            message = f"more than {nodes.MAX_NODES:,} nodes in all files together"
            raise SpecError("E104", message, where=node.place)
        if node.is_scalar:
            return self._include(node) if node.style == nodes.INCLUDE_TAG else node
        if node.is_list:
            entries = (self.follow(entry, trail, is_material=is_material) for entry in node.items)
            return replace(node, value=tuple(entries))
        followed: dict[str, Node] = {}
        for key, entry in node.entries.items():
            if key == "rows" and entry.is_map and "$ref" in entry.entries and not is_material:
                followed[key] = self._refer(entry, trail, is_material=True)
            else:
                followed[key] = self.follow(entry, trail, is_material=is_material or key == "rows")
        node = replace(node, value=followed)
        return self._refer(node, trail) if "$ref" in followed and not is_material else node

    def _include(self, node: Node) -> Node:
        try:
            path = self._locate(str(node.value), node.place)
            real = nodes.resolve_path(path, node.place)
            if real not in self._texts:
                text = nodes.read_text(path, path.as_posix(), place=node.place)
                self._bytes += len(text)
                self._texts[real] = text
        except SpecError as error:
            self.problems.report(error)
            return self.problems.mark_broken(node.place)
        if self._bytes > MAX_INCLUDED:
            message = (
                f"the files that `!include` names hold more than {MAX_INCLUDED // 1_000_000} MB"
            )
            self.problems.add("E104", message, node.place)
            return self.problems.mark_broken(node.place)
        text = self._texts[real]
        before = text[: len(text) - len(text.lstrip())]
        start = Place(path.as_posix(), before.count("\n") + 1, len(before) - before.rfind("\n"))
        return Node(text.strip(), start, "include")

    def _refer(self, node: Node, trail: tuple[Path, ...], *, is_material: bool = False) -> Node:
        named, siblings = node.entries["$ref"], node.without("$ref")
        try:
            found = self._read_named(named, trail, is_material=is_material)
        except SpecError as error:
            self.problems.report(error)
            broken = self.problems.mark_broken(named.place)
            return replace(siblings, is_broken=True) if siblings.entries else broken
        if not siblings.entries:
            return found
        if not found.is_map:
            if not found.is_broken:
                message = (
                    f"`$ref` with other keys beside it needs a mapping, and `{named.text}` "
                    "holds none"
                )
                self.problems.add("E105", message, named.place)
            return replace(siblings, is_broken=True)
        for key in siblings.entries.keys() & found.entries.keys():
            if nodes.to_plain(siblings.entries[key]) != nodes.to_plain(found.entries[key]):
                message = f"`{key}` contradicts the file that `$ref` names ({found.key_place(key)})"
                self.problems.add(
                    "E105", message, siblings.key_place(key), f"keep `{key}` in one of the two"
                )
        entries, keys = found.entries | siblings.entries, found.keys | siblings.keys
        return Node(entries, named.place, keys=keys, is_broken=found.is_broken)

    def _read_named(self, named: Node, trail: tuple[Path, ...], *, is_material: bool) -> Node:
        """Return the tree of the file that `$ref` names.

        One that is named again is not read again.
        """
        if named.text is None:
            raise SpecError("E108", "`$ref` must be the path of a YAML file", where=named.place)
        path = self._locate(self.environment.expand(named.text, named.place), named.place)
        real = nodes.resolve_path(path, named.place)
        if real in trail:
            chain = " → ".join(f"`{step.name}`" for step in (*trail[trail.index(real) :], real))
            raise SpecError("E105", f"`$ref` goes in a circle: {chain}", where=named.place)
        if real not in self._trees:
            if len(self._trees) >= MAX_FILES:
                raise SpecError(
                    "E104", f"`$ref` names more than {MAX_FILES} files", where=named.place
                )
            self._trees[real] = nodes.read_yaml(
                path, path.as_posix(), self.problems, place=named.place
            )
        return self.follow(self._trees[real], (*trail, real), is_material=is_material)

    def _locate(self, text: str, place: Place) -> Path:
        """Return a named file: relative to the file that names it, inside the project."""
        path = (Path(place.file).parent if place.file else self.project) / text
        real = nodes.resolve_path(path, place)
        if not self.allow_outside and not real.is_relative_to(self.project.resolve()):
            message = f"`{text}` is outside the project folder `{self.project}`"
            hint = "move the file into the project, or allow it with `--allow-outside`"
            raise SpecError("E105", message, where=place, hint=hint)
        return path


@dataclass
class Project:
    """The folder that is read from, and what is known from outside it."""

    folder: Path
    overrides: Overrides
    problems: Problems
    environment: Environment = field(default_factory=Environment)

    @classmethod
    def open(cls, folder: Path, overrides: Overrides, problems: Problems) -> Self:
        """Return the project of a folder; an `--env` file that cannot be read is reported."""
        try:
            environment = load_environment(folder, overrides.env)
        except SpecError as error:
            problems.report(error)
            environment = replace(load_environment(None, None), is_broken=True)
        return cls(folder, overrides, problems, environment)

    def read(self, source: Path | Mapping[str, object], *, limit: Path | None = None) -> Node:
        """Return the tree of a file, or of a mapping that a Python caller hands in.

        `limit` is the folder that may not be left. Raises SpecError for a file that cannot be read
        at all.
        """
        outside = self.overrides.allow_outside
        inclusion = Inclusion(limit or self.folder, self.environment, self.problems, outside)
        if isinstance(source, Path):
            node = inclusion.load(source, source.as_posix())
        else:
            node = inclusion.follow(nodes.from_plain(source, Place()))
        secrets: dict[str, Secret | Broken] = {}

        def expand(path: Way, scalar: Node) -> Node:
            is_value = (scalar.text or "").startswith("$") and scalar.style != "include"
            return (
                self._expand(path, scalar)
                if is_value and nodes.kind_of(path) == "plain"
                else scalar
            )

        def fill(path: Way, scalar: Node) -> Node:
            is_secret = scalar.text is not None and _SECRET_ANYWHERE.search(scalar.text)
            return self._fill_secret(path, scalar, secrets) if is_secret else scalar

        node = nodes.map_scalars(node, expand)
        if node.is_map and "definition" not in node.entries:  # a task file has none
            secrets = read_secrets(node.field("secrets"), self.problems)
            node = node.without("secrets")
        return nodes.map_scalars(node, fill)

    def _expand(self, path: Way, node: Node) -> Node:
        """Return a scalar with its environment value filled in."""
        text = str(node.value)
        is_secret = path[:1] == ("secrets",) or may_hold_secret(path)
        try:
            expanded = self.environment.expand(text, node.place, may_hold_secret=is_secret)
        except SpecError as error:
            if not self.environment.is_broken or error.code != "E106":
                self.problems.report(error)
            return self.problems.mark_broken(node.place)
        if expanded == text:
            return node
        origin = self.environment.origin_of(text)
        if is_secret:
            return Node(Secret(expanded, origin), node.place)
        # Whoever states the whole beginning of an address names its host.
        names_host = _WHOLE_START.fullmatch(text) and origin == "caller"
        return Node(expanded, node.place, "caller" if names_host else node.style)

    def _fill_secret(self, path: Way, node: Node, secrets: Mapping[str, Secret | Broken]) -> Node:
        """Return a scalar with `<< secrets.NAME >>` replaced where it may stand.

        Report it elsewhere.
        """
        if nodes.kind_of(path) == "material":
            return node
        found = _SECRET.fullmatch(str(node.value))
        hint = "secrets may be the whole value of `api_key`, of a header or of an environment value"
        if not may_hold_secret(path):
            message = "`<< secrets.… >>` may not stand here"
        elif not found:
            message = "a secret must be the whole value, not a part of it"
        elif found[1] in secrets:
            secret = secrets[found[1]]
            return Node(secret, node.place, is_broken=isinstance(secret, Broken))
        elif found[1] in self.environment.values:
            origin = self.environment.origin_of(f"${found[1]}")
            return Node(Secret(self.environment.values[found[1]], origin), node.place)
        else:
            message = f"secret `{found[1]}` is not found"
            hint = f"set it under `secrets` (there: {listing(secrets)}) or in the environment"
            hint = suggest(found[1], secrets) or hint
        self.problems.add("E117", message, node.place, hint)
        return self.problems.mark_broken(node.place)


def may_hold_secret(path: Way) -> bool:
    """Return whether a secret may be the value at a position: a key, a header, an environment
    value.
    """
    names = [step for step in path if isinstance(step, str)]
    return names[-1:] == ["api_key"] or (
        len(names) > 1 and names[-2] in {"custom_headers", "environment"}
    )


def read_secrets(node: Node, problems: Problems) -> dict[str, Secret | Broken]:
    """Return the run's own secrets: a mapping of names to values, or a list of `{key, value}`.

    One that could not be had is known by its name all the same.
    """
    pairs = list(node.entries.items())
    for entry in node.items:
        key, value = entry.get("key"), entry.get("value")
        if key is None or not key.is_scalar or value is None:
            problems.add("E108", "a secret in a list is `{key: NAME, value: …}`", entry.place)
            continue
        for extra in entry.entries.keys() - {"key", "value"}:
            hint = "keys there: `key`, `value`"
            problems.add("E107", f"unknown key `{extra}`", entry.key_place(extra), hint)
        pairs.append((str(key.value), value))
    if node.is_scalar and not node.is_null:
        problems.add("E108", "`secrets` must be a mapping of names to values", node.place)
    secrets: dict[str, Secret | Broken] = {}
    for name, entry in pairs:
        if isinstance(entry.value, Secret | Broken):
            secrets[name] = entry.value
        elif isinstance(entry.value, str | int) and not isinstance(entry.value, bool):
            secrets[name] = Secret(str(entry.value), "project")
        else:
            hint = "put the value in quotes, or name it as `$NAME`"
            problems.add("E108", f"secret `{name}` must be text", entry.place, hint)
    return secrets


def find_file(path: Path) -> Path:
    """Return the file that the caller means: the path itself, or the run file of a folder."""
    if not path.is_dir():
        return path
    for name in RUN_NAMES:
        if (path / name).is_file():
            return path / name
    where = Place(file=path.as_posix())
    files = sorted(one.as_posix() for one in path.iterdir() if one.suffix in {".yaml", ".yml"})
    named = f", such as {listing(files, limit=3)}," if files else ""
    hint = f"name a task file{named} or write a `run.yaml` there"
    data = sorted(one.as_posix() for one in path.iterdir() if split_endings(one)[0])
    if data and not files:
        hint = f"name one of its data files: {listing(data, limit=3)}"
    raise SpecError(
        "E101", f"folder `{path.as_posix()}` holds no `run.yaml`", where=where, hint=hint
    )
