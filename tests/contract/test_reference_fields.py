"""Every YAML field of the code is named on its reference page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from answerkey.datasets.sources import SOURCES
from answerkey.gates.policies import RULE, PolicyFields, RuleFields
from answerkey.gates.rules import RULES
from answerkey.scorers import SCORERS
from answerkey.solvers import SOLVERS
from answerkey.spec import models, shapes
from answerkey.spec.config import PARAMETERS
from answerkey.spec.sources import SOURCE
from answerkey.spec.task import SCORER, SOLVER
from answerkey.spec.validation import DEPRECATIONS, FOREIGN_TYPES, fields_of
from answerkey.templates import FilterOp, RowFilter
from answerkey.types import GateStatus

PAGES = Path(__file__).parents[2] / "docs" / "reference"

MODELS: dict[str, list[type[BaseModel]]] = {
    "task-file": [
        shapes.TaskFields,
        shapes.Definition,
        shapes.DatasetChoice,
        shapes.ActionFields,
        shapes.TrialsFields,
        shapes.MetricCommon,
        fields_of(RowFilter),
        *PARAMETERS.values(),
        *(SCORER.model(kind) for kind in SCORERS),
        *(SOLVER.model(kind) for kind in SOLVERS),
    ],
    "run-file": [
        shapes.RunFields,
        shapes.EvaluationFields,
        shapes.SpecificationFields,
        shapes.RunConfigFields,
        shapes.TrialsFields,
    ],
    "policies": [PolicyFields, RuleFields, *(RULE.model(kind) for kind in RULES)],
    "dataset-file": [
        shapes.DatasetFields,
        fields_of(RowFilter),
        *(SOURCE.model(kind) for kind in SOURCES),
    ],
    "model-file": [
        models.ModelFields,
        models.ProviderModel,
        models.AdapterFields,
        models.Code,
        *models.CONNECTIONS.values(),
    ],
}

WORDS: dict[str, list[str]] = {
    "task-file": [*PARAMETERS, *SCORERS, *SOLVERS, "trials", "declarative_task"],
    "policies": [*RULES, *GateStatus],
    "dataset-file": [*SOURCES, *FOREIGN_TYPES["source"], *get_args(FilterOp)],
    "model-file": [*models.CONNECTIONS, "$provider"],
}


def words_of(page: str) -> set[str]:
    """Return the words of a page that stand in code."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    code = re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL)
    return {word for piece in code for word in re.findall(r"[$A-Za-z_][\w-]*", piece)}


def list_fields(model: type[BaseModel]) -> Iterator[str]:
    """Yield the YAML names of a model's fields and of the models inside it."""
    for name, entry in model.model_fields.items():
        yield entry.alias or name
        waiting = [entry.annotation]
        while waiting:
            hint = waiting.pop()
            if isinstance(hint, type) and issubclass(hint, BaseModel):
                yield from list_fields(hint)
            waiting.extend(get_args(hint))


@pytest.mark.parametrize("page", sorted(MODELS))
def test_every_field_is_named(page: str) -> None:
    """A field that the loader reads is named on the page of its file, at any depth."""
    fields = {name for model in MODELS[page] for name in list_fields(model)}
    assert fields - words_of(page) == set()


@pytest.mark.parametrize("page", sorted(WORDS))
def test_every_type_is_named(page: str) -> None:
    """Types, filter ops, and what is refused by name are on the page of their file."""
    assert set(WORDS[page]) - words_of(page) == set()


def test_every_old_name_is_named() -> None:
    """The pages name every entry of the table of old names."""
    words = set().union(*(words_of(page) for page in MODELS))
    assert {entry.value or entry.name for entry in DEPRECATIONS} - words == set()
