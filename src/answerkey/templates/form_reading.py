"""From the syntax tree of a template to the form in which whole columns compute it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jinja2 import nodes

from answerkey.templates.analysis import read_step
from answerkey.templates.forms import Change, Column, Element, Field, Form, Letters, Text

_METHODS: Final[dict[str, Change]] = {"upper": "upper", "lower": "lower", "strip": "trim"}
_FILTERS: Final[dict[str, Change]] = {"upper": "upper", "lower": "lower", "trim": "trim"}
_PRINTED: Final = (str, int, float, bool, type(None))


def read_form(expression: nodes.Expr | None, names: Sequence[str]) -> Form | None:
    """Return the form of an expression over the tables `names`; None if columns cannot compute it."""
    if isinstance(expression, (nodes.Getattr, nodes.Getitem)):
        return _read_part(expression, names)
    if isinstance(expression, nodes.Filter):
        return _read_filter(expression, names)
    if isinstance(expression, nodes.Call):
        return _read_method(expression, names)
    if isinstance(expression, nodes.Concat):
        return _join(expression.nodes, names)
    return None


def read_text_form(tree: nodes.Template, names: Sequence[str]) -> Form | None:
    """Return the form of what a template prints; None if it does more than print expressions between text."""
    if not all(isinstance(node, nodes.Output) for node in tree.body):
        return None
    return _join([node for output in tree.body for node in output.nodes], names)  # type: ignore[attr-defined]


def _join(printed: Iterable[nodes.Node], names: Sequence[str]) -> Form | None:
    pieces = tuple(_read_pieces(printed, names))
    is_known = None not in pieces and any(not isinstance(piece, str) for piece in pieces)
    return Text(tuple(piece for piece in pieces if piece is not None)) if is_known else None


def _read_pieces(printed: Iterable[nodes.Node], names: Sequence[str]) -> Iterator[str | Form | None]:
    for node in printed:
        if isinstance(node, nodes.TemplateData):
            yield node.data
        elif isinstance(node, nodes.Const):
            yield str(node.value) if isinstance(node.value, _PRINTED) else None
        else:
            yield read_form(node, names) if isinstance(node, nodes.Expr) else None


def _read_part(node: nodes.Getattr | nodes.Getitem, names: Sequence[str]) -> Form | None:
    """Return a column, a field of a struct or an element of a list."""
    step = read_step(node)
    key = read_form(node.arg, names) if step is None and isinstance(node, nodes.Getitem) else None
    if isinstance(node.node, nodes.Name):
        is_column = node.node.name in names and step is not None and isinstance(step.key, str)
        return Column(node.node.name, str(step.key)) if is_column and step else None
    owner = read_form(node.node, names)
    if owner is None or (step is None and key is None):
        return None
    if step is None:
        return None if key is None else Element(owner, key)
    return Field(owner, step.key) if isinstance(step.key, str) else Element(owner, step.key)


def _read_filter(node: nodes.Filter, names: Sequence[str]) -> Form | None:
    has_arguments = node.args or node.kwargs or node.dyn_args or node.dyn_kwargs
    owner = None if node.node is None or has_arguments else read_form(node.node, names)
    if owner is None:
        return None
    if node.name == "string":
        return Text((owner,))
    return Letters(owner, _FILTERS[node.name]) if node.name in _FILTERS else None


def _read_method(node: nodes.Call, names: Sequence[str]) -> Form | None:
    has_arguments = node.args or node.kwargs or node.dyn_args or node.dyn_kwargs
    if has_arguments or not isinstance(node.node, nodes.Getattr) or node.node.attr not in _METHODS:
        return None
    owner = read_form(node.node.node, names)
    return None if owner is None else Letters(owner, _METHODS[node.node.attr], is_method=True)
