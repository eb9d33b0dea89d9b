"""A file that the caller names becomes a tree, with other files, environment values and secrets filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from answerkey.errors import Place, SpecError
from answerkey.models import Secret
from answerkey.spec.environment import Environment, load_environment, try_expand
from answerkey.spec.findings import Findings
from answerkey.spec.includes import Inclusion
from answerkey.spec.nodes import MapNode, Node, ScalarNode, break_node, from_plain, map_scalars
from answerkey.spec.nodes import Path as Way
from answerkey.spec.plans import Overrides
from answerkey.spec.positions import Kind, kind_of
from answerkey.spec.secret_values import Known, fill_secrets, may_hold_secret, read_secrets

RUN_NAMES = ("run.yaml", "run.yml")
YAML_SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass
class Project:
    """The folder that is read from, and what is known from outside it."""

    folder: Path
    overrides: Overrides
    findings: Findings
    environment: Environment = field(default_factory=Environment)

    def read(self, path: Path, *, limit: Path | None = None) -> Node:
        """Return the tree of a file; raises SpecError when it cannot be read at all."""
        return self._complete(self._inclusion(limit).load(path, path.as_posix()))

    def take(self, plain: Mapping[str, object]) -> Node:
        """Return the tree of a mapping that a Python caller hands in."""
        return self._complete(self._inclusion(None).follow(from_plain(plain, Place())))

    def _inclusion(self, limit: Path | None) -> Inclusion:
        folder = limit or self.folder
        return Inclusion(folder, self.environment, self.findings, allow_outside=self.overrides.allow_outside)

    def _complete(self, node: Node) -> Node:
        return self._fill_secrets(map_scalars(node, self._expand))

    def _expand(self, path: Way, node: ScalarNode) -> Node:
        if not isinstance(node.value, str) or node.is_included or not node.value.startswith("$"):
            return node
        if kind_of(path) is not Kind.PLAIN:
            return node
        is_secret = path[:1] == ("secrets",) or may_hold_secret(path)
        text = try_expand(self.environment, node.value, node.place, self.findings, may_hold_secret=is_secret)
        if text is None:
            return break_node(node.place)
        if text == node.value:
            return node
        if is_secret:
            return ScalarNode(Secret(text, self.environment.origin_of(node.value)), node.place)
        return ScalarNode(
            text, node.place, "caller" if self.environment.names_host(node.value) else node.style
        )

    def _fill_secrets(self, node: Node) -> Node:
        """Take the secrets out of a run file and put them where they are named; a task file has none."""
        secrets: dict[str, Known] = {}
        if isinstance(node, MapNode) and "definition" not in node.entries:
            secrets = read_secrets(node.get("secrets"), self.findings)
            node = node.without("secrets")
        secrets |= {name: Secret(text, "caller") for name, text in self.overrides.secrets.items()}
        return fill_secrets(node, secrets, self.environment, self.findings)


def open_project(folder: Path, overrides: Overrides, findings: Findings) -> Project:
    """Return the project of a folder; an `--env` file that cannot be read is reported."""
    project = Project(folder, overrides, findings)
    env_file = Path(overrides.env_file) if overrides.env_file is not None else None
    try:
        project.environment = load_environment(folder, env_file, overrides.environment)
    except SpecError as error:
        findings.report(error)
        project.environment = replace(load_environment(None, None, overrides.environment), is_broken=True)
    return project


def find_file(path: Path) -> Path:
    """Return the file that the caller means: the path itself, or the run file of a folder."""
    if not path.is_dir():
        return path
    for name in RUN_NAMES:
        if (path / name).is_file():
            return path / name
    where = Place(file=path.as_posix())
    hint = "name a task file, or write a `run.yaml` there"
    raise SpecError("E101", f"folder `{path.as_posix()}` holds no `run.yaml`", where=where, hint=hint)
