"""What kind of text stands where in a file: a template, code, the user's own material, or a plain value.

`<< config.x >>` and environment values are read by these kinds: a prompt that begins with `$` stays a prompt.
"""

from __future__ import annotations

import itertools
from enum import Enum
from functools import cache

from answerkey.spec.nodes import Path


class Kind(Enum):
    """How the text at a position is read."""

    PLAIN = "a value: environment values are expanded"
    TEMPLATE = "a Jinja template"
    CODE = "a snippet"
    MATERIAL = "rows, answers, column names: never expanded"


_FILTERS = frozenset({"filter", "filters"})
_MATERIAL_FIELDS = frozenset(
    {"value", "values", "positive_answer", "negative_answer", "ground_truth_choice_field", "choices_field"}
)
_CODE_FIELDS = frozenset({"source_code", "compute_scores_snippet", "compute_metrics_snippet", "snippet"})
_PROMPT_FIELDS = frozenset({"content", "template", "system_prompt", "user_prompt", "message_format"})


@cache
def scorer_templates() -> frozenset[str]:
    """Return the names of all fields of scorers that hold templates."""
    from answerkey.scorers import SCORERS

    return frozenset(name for scorer in SCORERS.values() for name in scorer.template_fields)


def kind_of(path: Path) -> Kind:
    """Return what kind of text stands at a position; indices of lists do not matter."""
    names = ["", *(step for step in path if isinstance(step, str))]
    last, above = names[-1], frozenset(names[:-1])
    pairs = frozenset(itertools.pairwise(names))
    if pairs & {("source", "rows"), ("source", "header")}:
        return Kind.MATERIAL
    if last in _CODE_FIELDS:
        return Kind.CODE
    if "solver" in above:
        return Kind.TEMPLATE if last in _PROMPT_FIELDS else Kind.PLAIN
    if above & _FILTERS or ("source", "derive") in pairs:
        return Kind.TEMPLATE if last == "expression" or "derive" in above else _material(last)
    if "scorers" in above:
        return Kind.TEMPLATE if _is_scorer_template(names) else _material(last)
    return Kind.PLAIN


def _is_scorer_template(names: list[str]) -> bool:
    own = names[names.index("scorers") + 1]
    return own in scorer_templates() or own in _PROMPT_FIELDS


def _material(name: str) -> Kind:
    return Kind.MATERIAL if name in _MATERIAL_FIELDS else Kind.PLAIN
