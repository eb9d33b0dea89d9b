"""The policies of a file become rules; every mistake in them is reported at its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from answerkey.datasets import is_stored, require_address
from answerkey.errors import Place, SpecError
from answerkey.spec.config import Config
from answerkey.spec.fields import Fields, Text, extend_fields, fields_of
from answerkey.spec.findings import Findings
from answerkey.spec.keys import assign_keys
from answerkey.spec.nodes import ListNode, MapNode, Node, ScalarNode, from_plain, is_null
from answerkey.spec.opening import Project
from answerkey.spec.parameters import Key
from answerkey.spec.policies import RULES, Definition, NotWorse, Policy, Rule, Scope
from answerkey.spec.reader import resolve_path
from answerkey.spec.refusals import choose_type
from answerkey.spec.scoring import try_build
from answerkey.spec.shapes import RulePart
from answerkey.spec.validation import validate_node

Stated = str | Path | Mapping[str, object] | Sequence[object]
DEFAULT_KEY = "policy"
_QUOTES = 'YAML reads `>` and `|` as the beginning of a text block: write the operator in quotes, `">="`'


class ScopeFields(Fields):
    """Which tasks a rule is about."""

    evaluation_keys: Annotated[list[Key], Field(min_length=1)] | None = None
    task_specification_keys: Annotated[list[Key], Field(min_length=1)] | None = None


class RuleFields(Fields):
    """A rule of a policy."""

    key: Key
    display_name: Text | None = None
    description: Text | None = None
    definition: Annotated[Any, Field(json_schema_extra={"part": "rule_definition"})]
    scope: Literal["all_latest"] | ScopeFields | None = None


class PolicyFields(Fields):
    """A policy."""

    key: Key | None = None
    display_name: Text | None = None
    description: Text | None = None
    rules: Annotated[list[RulePart], Field(min_length=1)]


@cache
def rule_model(kind: str) -> type[Fields]:
    """Return the model of a rule's definition in YAML."""
    own = fields_of(RULES[kind])
    return extend_fields(own, f"{own.__name__}Definition", Fields, type=(Literal[kind], ...))


def build_policies(
    node: Node | None, findings: Findings, *, config: Config, base: Path
) -> tuple[Policy, ...]:
    """Return the policies of a list, or of the one mapping in its place; what is wrong is left out.

    `base` is for paths that are stated in no file.
    """
    if node is None or is_null(node) or node.is_broken:
        return ()
    node = config.fill(node, findings, ("policies",))
    entries = node.entries if isinstance(node, ListNode) else (node,)
    drafts = [
        (entry, fields)
        for index, entry in enumerate(entries)
        if (fields := validate_node(PolicyFields, entry, findings, name=_label(index, len(entries))))
    ]
    wanted = [(fields.key, DEFAULT_KEY, entry.place) for entry, fields in drafts]
    keys = assign_keys(wanted, findings, what="policy", within="in the run file")
    return tuple(
        Policy(
            key=key,
            rules=_build_rules(cast("MapNode", entry), key, findings, base),
            display_name=fields.display_name or key,
            description=fields.description,
        )
        for (entry, fields), key in zip(drafts, keys, strict=True)
    )


def _label(index: int, size: int) -> str:
    return f"policy {index + 1}" if size > 1 else "the policy"


def _build_rules(policy: MapNode, key: str, findings: Findings, base: Path) -> tuple[Rule, ...]:
    listed = policy.get("rules")
    entries = listed.entries if isinstance(listed, ListNode) else ()
    rules = [rule for entry in entries if (rule := _build_rule(entry, findings, base))]
    wanted = [(rule.key, rule.key, rule.place) for rule in rules]
    assign_keys(wanted, findings, what="rule", within=f"in policy `{key}`")
    return tuple(rules)


def _build_rule(entry: Node, findings: Findings, base: Path) -> Rule | None:
    fields = validate_node(RuleFields, entry, findings, name="the rule")
    part = entry.get("definition") if isinstance(entry, MapNode) else None
    if part is None:
        return None
    definition = _build_definition(part, findings, base)
    if fields is None or definition is None:
        return None
    return Rule(
        key=fields.key,
        definition=definition,
        display_name=fields.display_name or fields.key,
        description=fields.description,
        scope=_read_scope(fields.scope),
        place=part.place,
    )


def _read_scope(stated: str | ScopeFields | None) -> Scope:
    if not isinstance(stated, ScopeFields):
        return Scope()
    evaluations, tasks = stated.evaluation_keys, stated.task_specification_keys
    return Scope(None if evaluations is None else tuple(evaluations), None if tasks is None else tuple(tasks))


def _build_definition(node: Node, findings: Findings, base: Path) -> Definition | None:
    found = choose_type(node, "rule", RULES, findings)
    if found is None or not isinstance(node, MapNode):
        return None
    kind = str(cast("ScalarNode", node.entries["type"]).value)
    if _report_unquoted(node, findings):
        return None
    fields = validate_node(rule_model(kind), node, findings, name=f"rule `{kind}`")
    built = cast("Definition | None", try_build(fields, node, findings)) if fields is not None else None
    stated = node.get("baseline")
    if isinstance(built, NotWorse) and built.baseline is not None and stated is not None:
        return _make_absolute(built, built.baseline, stated.place, findings=findings, base=base)
    return built


def _report_unquoted(node: MapNode, findings: Findings) -> bool:
    """Report an operator that YAML took for the mark of a text block, and return whether it is one."""
    operator = node.get("operator")
    is_lost = isinstance(operator, ScalarNode) and operator.style in {">", "|"}
    if operator is not None and is_lost:
        findings.add("E108", "`operator` is not in quotes", operator.place, _QUOTES)
    return is_lost


def _make_absolute(
    rule: NotWorse, baseline: str, place: Place, *, findings: Findings, base: Path
) -> NotWorse | None:
    folder = Path(place.file).parent if place.file else base
    try:
        if is_stored(baseline):
            return replace(rule, baseline=require_address(baseline, place))
        return replace(rule, baseline=str(resolve_path(folder / baseline, place)))
    except SpecError as error:
        findings.report(error)
        return None


def read_policies(stated: Stated, project: Project, config: Config | None = None) -> tuple[Policy, ...]:
    """Return the policies that the caller gives in place of the run file's: a file, or plain values."""
    findings = project.findings
    base = project.folder
    try:
        if isinstance(stated, str | Path):
            path = Path(stated)
            base = path.parent
            node = project.read(path, limit=path.parent)
        else:
            wrapped = stated if isinstance(stated, Mapping) else {"policies": stated}
            node = project.take(wrapped)
    except SpecError as error:
        findings.report(error)
        return ()
    inner = _find_policies(node, findings)
    return build_policies(inner, findings, config=config or Config(), base=base)


def _find_policies(node: Node, findings: Findings) -> Node | None:
    """Return the policies of a file: under `policies`, as in a run file, or the file itself."""
    if not isinstance(node, MapNode) or "rules" in node.entries:
        return node
    if "policies" not in node.entries and not node.is_broken:
        hint = "it begins with `policies:`, a list of policies, each with `key` and `rules`"
        findings.add("E108", "the file holds no policies", node.place, hint)
    return node.get("policies")


def policies_from_source(plain: Sequence[object]) -> tuple[Policy, ...]:
    """Return the policies that `Policy.describe` once described; raises SpecError when they are none."""
    findings = Findings()
    policies = build_policies(from_plain(plain, Place()), findings, config=Config(), base=Path())
    if findings.errors:
        raise findings.errors[0]
    return policies
