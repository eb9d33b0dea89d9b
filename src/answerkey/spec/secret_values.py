"""`<< secrets.NAME >>`: values that are used and never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.models import Secret
from answerkey.spec.environment import Environment
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import (
    BROKEN,
    Broken,
    ListNode,
    MapNode,
    Node,
    Path,
    ScalarNode,
    break_node,
    map_scalars,
)
from answerkey.spec.positions import Kind, kind_of

_WHOLE = re.compile(r"\s*<<\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*>>\s*")
_ANYWHERE = re.compile(r"<<\s*secrets\.")
_HOLDERS = frozenset({"custom_headers", "environment"})


class _SecretSchema:
    """How pydantic reads a secret: as one, or as a text that becomes one; described to editors as text."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a secret."""
        del source, handler
        return core_schema.no_info_before_validator_function(
            _make_secret,
            core_schema.is_instance_schema(Secret),
            json_schema_input_schema=core_schema.str_schema(),
        )


SecretText = Annotated[Secret, _SecretSchema]


def _make_secret(value: object) -> object:
    return Secret(value, "written") if isinstance(value, str) else value


#: One that could not be had is known by its name all the same.
Known = Secret | Broken


def read_secrets(node: Node | None, findings: Findings) -> dict[str, Known]:
    """Return the run's own secrets: a mapping of names to values, or a list of `{key, value}`."""
    if node is None:
        return {}
    if isinstance(node, ListNode):
        return dict(pair for entry in node.entries for pair in _read_entry(entry, findings))
    if isinstance(node, MapNode):
        return dict(pair for name, entry in node.entries.items() for pair in _keep(name, entry, findings))
    findings.add("E108", "`secrets` must be a mapping of names to values", node.place)
    return {}


def _read_entry(entry: Node, findings: Findings) -> list[tuple[str, Known]]:
    key = entry.get("key") if isinstance(entry, MapNode) else None
    value = entry.get("value") if isinstance(entry, MapNode) else None
    if isinstance(entry, MapNode) and isinstance(key, ScalarNode) and value is not None:
        for extra in entry.entries.keys() - {"key", "value"}:
            findings.add(
                "E107", f"unknown key `{extra}`", entry.key_place(extra), "keys there: `key`, `value`"
            )
        return _keep(str(key.value), value, findings)
    findings.add("E108", "a secret in a list is `{key: NAME, value: …}`", entry.place)
    return []


def _keep(name: str, entry: Node, findings: Findings) -> list[tuple[str, Known]]:
    value = entry.value if isinstance(entry, ScalarNode) else None
    if entry.is_broken:
        return [(name, BROKEN)]
    if isinstance(value, Secret):
        return [(name, value)]
    if isinstance(value, str | int) and not isinstance(value, bool):
        return [(name, Secret(str(value), "project"))]
    findings.add(
        "E108", f"secret `{name}` must be text", entry.place, "put the value in quotes, or name it as `$NAME`"
    )
    return []


def fill_secrets(
    root: Node, secrets: Mapping[str, Known], environment: Environment, findings: Findings
) -> Node:
    """Return the tree with `<< secrets.NAME >>` replaced where it may stand; report it elsewhere."""

    def fill(path: Path, node: ScalarNode) -> Node:
        if not isinstance(node.value, str) or not _ANYWHERE.search(node.value):
            return node
        if kind_of(path) is Kind.MATERIAL:
            return node
        try:
            return ScalarNode(_look_up(path, node, secrets, environment), node.place)
        except SpecError as error:
            findings.report_broken(error, node.place)
            return break_node(node.place)

    return map_scalars(root, fill)


def _look_up(path: Path, node: ScalarNode, secrets: Mapping[str, Known], environment: Environment) -> Known:
    found = _WHOLE.fullmatch(str(node.value))
    if not may_hold_secret(path):
        raise _misplaced("`<< secrets.… >>` may not stand here", node.place)
    if not found:
        raise _misplaced("a secret must be the whole value, not a part of it", node.place)
    name = found[1]
    if name in secrets:
        return secrets[name]
    if name in environment.values:
        return environment.find_secret(name)
    near = suggest(name, secrets)
    hint = near or f"set it under `secrets` (there: {listing(secrets)}) or in the environment"
    raise SpecError("E117", f"secret `{name}` is not found", where=node.place, hint=hint)


def may_hold_secret(path: Path) -> bool:
    """Return whether a secret may be the value at a position: a key, a header, an environment value."""
    names = [step for step in path if isinstance(step, str)]
    return names[-1:] == ["api_key"] or (len(names) > 1 and names[-2] in _HOLDERS)


def _misplaced(message: str, place: Place) -> SpecError:
    hint = "secrets may be the whole value of `api_key`, of a header or of an environment value"
    return SpecError("E117", message, where=place, hint=hint)
