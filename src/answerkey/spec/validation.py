"""A node is held against a model: every mistake is reported at its place, what is sound is still built."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from answerkey.errors import listing, suggest
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import BROKEN, ListNode, MapNode, Node, Path, find_node, to_plain
from answerkey.spec.numbers import LEADING_ZERO_HINT, has_leading_zero
from answerkey.spec.refusals import FOREIGN_KEYS

M = TypeVar("M", bound=BaseModel)

_EXTRA = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
#: What was reported already: a config name that stands for nothing.
_UNRESOLVED = re.compile(r"<<\s*config\.")
_SECRETIVE = frozenset({"api_key", "custom_headers", "environment", "secrets"})
_NUMERIC = frozenset({"leading_zero", "float_type"})
_SHOWN = 60

#: What pydantic found, in the words of the documentation; others keep pydantic's own sentence.
_WORDS: dict[str, str] = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "leading_zero": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dataclass_type": "must be a mapping",
    "none_required": "must be null",
}


def validate_node(model: type[M], node: Node | None, findings: Findings, *, name: str) -> M | None:
    """Return the model's values, or None when a required one is missing or wrong; `name` is for messages.

    Unknown keys and unsuitable optional values are reported and left out; errors that a broken value or an
    unresolved `<< config.x >>` would cause are not reported, since the cause has been.
    """
    if node is not None and node.is_broken and not isinstance(node, MapNode):
        return None
    if not isinstance(node, MapNode):
        where = None if node is None else node.place
        findings.add(
            "E108",
            f"{name} must be a mapping, not {_shorten(None if node is None else to_plain(node))}",
            where,
        )
        return None
    try:
        return model.model_validate(to_plain(node))
    except ValidationError as trouble:
        details = _merge_alternatives(trouble.errors(include_url=False))
    for detail in details:
        _report(model, node, detail, findings=findings, name=name)
    return _build_without(model, node, {_spot(node, detail) for detail in details})


def _build_without(model: type[M], node: MapNode, spots: set[Path]) -> M | None:
    """Return the values without the faulty ones and what needs them; None when that is all."""
    rest: Node = node
    while () not in spots:
        rest = _prune(rest, spots)
        try:
            return model.model_validate(to_plain(rest))
        except ValidationError as trouble:
            spots = {_spot(rest, detail) for detail in trouble.errors(include_url=False)}
    return None


def _spot(node: Node, detail: ErrorDetails) -> Path:
    """Return the way to what must go for an error to go: the faulty node, or the one that lacks something."""
    return find_node(node, detail["loc"])[1]


def _prune(node: Node, spots: set[Path], path: Path = ()) -> Node:
    if isinstance(node, MapNode):
        kept = {
            key: _prune(entry, spots, (*path, key))
            for key, entry in node.entries.items()
            if (*path, key) not in spots
        }
        return replace(node, entries=kept)
    if isinstance(node, ListNode):
        entries = enumerate(node.entries)
        left = (_prune(one, spots, (*path, index)) for index, one in entries if (*path, index) not in spots)
        return ListNode(tuple(left), node.place)
    return node


def _merge_alternatives(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Keep one error for a value that fits none of several plain types."""
    kept: list[ErrorDetails] = []
    for detail in details:
        twin = next((one for one in kept if _is_alternative(one, detail)), None)
        if twin is None:
            kept.append(detail)
    return kept


def _is_alternative(one: ErrorDetails, other: ErrorDetails) -> bool:
    """Whether two errors are about members of one union: their ways differ in the member's name only."""
    ways = one["loc"], other["loc"]
    if one["input"] is not other["input"] or one["type"] in _EXTRA or other["type"] in _EXTRA:
        return False
    return "missing" not in {one["type"], other["type"]} and ways[0][:-1] == ways[1][:-1]


def _is_told(detail: ErrorDetails, found: Node) -> bool:
    """Whether the cause of an error has been reported."""
    value = detail["input"]
    if detail["type"] == "missing":
        return found.is_broken
    is_open = isinstance(value, str) and bool(_UNRESOLVED.search(value))
    return detail["type"] not in _EXTRA and (is_open or value is BROKEN)


def _report(
    model: type[BaseModel], node: MapNode, detail: ErrorDetails, *, findings: Findings, name: str
) -> None:
    loc = detail["loc"]
    found, taken = find_node(node, loc)
    if _is_told(detail, found):
        return
    if detail["type"] == "missing":
        missing = str(loc[-1])
        findings.add("E108", f"`{missing}` is missing{_within(name, taken)}", found.place)
    elif detail["type"] in _EXTRA:
        _report_unknown(model, node, detail, findings=findings, name=name)
    elif detail["type"] == "union_tag_invalid":
        _report_type(found, detail, findings)
    else:
        shown = "***" if _SECRETIVE & set(taken) else _shorten(detail["input"])
        findings.add("E108", f"{_label(taken, name)} {_describe(detail, shown)}", found.place, _hint(detail))


def _label(taken: Path, name: str) -> str:
    text = ".".join(str(step) for step in taken)
    return f"`{text}`" if text else name


def _within(name: str, taken: Path) -> str:
    steps = ".".join(str(step) for step in taken)
    return f" in `{steps}` of {name}" if steps else f" in {name}"


def _report_unknown(
    model: type[BaseModel], node: MapNode, detail: ErrorDetails, *, findings: Findings, name: str
) -> None:
    loc = detail["loc"]
    holder, taken = find_node(node, loc[:-1])
    key = str(loc[-1])
    where = holder.key_place(key) if isinstance(holder, MapNode) else holder.place
    if key in FOREIGN_KEYS:
        findings.add("E116", f"`{key}` of the original platform is not done", where, FOREIGN_KEYS[key])
        return
    known = sorted(keys_at(model, loc[:-1]))
    hint = suggest(key, known) or f"keys there: {listing(known)}"
    findings.add("E107", f"unknown key `{key}`{_within(name, taken)}", where, hint)


def _report_type(found: Node, detail: ErrorDetails, findings: Findings) -> None:
    context = detail.get("ctx", {})
    known = [name.strip("'") for name in str(context.get("expected_tags", "")).split(", ")]
    tag = str(context.get("tag"))
    where = find_node(found, ("type",))[0].place
    findings.add("E109", f"unknown type {tag!r}", where, suggest(tag, known) or f"types: {listing(known)}")


def _describe(detail: ErrorDetails, value: str) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in {"literal_error", "enum"}:
        return f"is {value}; it must be {context.get('expected')}"
    if kind == "string_pattern_mismatch":
        return f"is {value}; it must match `{context.get('pattern')}`"
    if kind in _WORDS:
        return f"{_WORDS[kind]}, not {value}"
    if kind == "value_error":
        return f"{str(context.get('error')).rstrip('.')} (it is {value})"
    message = detail["msg"]
    return f"is {value}: {message[:1].lower()}{message[1:]}"


def _hint(detail: ErrorDetails) -> str | None:
    if detail["type"] == "string_type" and isinstance(detail["input"], bool | float):
        return "put the value in quotes to make it text"
    if detail["type"] in _NUMERIC and isinstance(detail["input"], str) and has_leading_zero(detail["input"]):
        return LEADING_ZERO_HINT
    if detail["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected")))
        return suggest(str(detail["input"]), known)
    return None


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> set[str]:
    """Return the keys that may stand at a location of a model."""
    models = {model}
    for step in loc:
        inner = {
            found for one in models if step in one.model_fields for found in _inner_models(one, str(step))
        }
        tagged = {one for one in models if _carries_tag(one, step)}
        models = inner or tagged or models
    return {entry.alias or key for one in models for key, entry in one.model_fields.items()}


def _inner_models(model: type[BaseModel], field: str) -> Iterator[type[BaseModel]]:
    waiting = [model.model_fields[field].annotation]
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            yield hint
        else:
            waiting.extend(get_args(hint))


def _carries_tag(model: type[BaseModel], tag: str | int) -> bool:
    entry = model.model_fields.get("type")
    return entry is not None and tag in get_args(entry.annotation)
