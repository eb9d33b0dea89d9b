"""The page of the metrics says what the code does: every type, every field, every reason, every
example.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from answerkey.metrics import METRICS, base
from answerkey.types import Scores

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
SECTIONS = dict(
    re.findall(r"^## `([^`]+)`\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
)
EXAMPLES = [
    (YAML(typ="safe").load(source), json.loads(outcome))
    for section in SECTIONS.values()
    for source, outcome in re.findall(
        r"```yaml\n(.*?)```\n```json\n(.*?)```", section, flags=re.DOTALL
    )
]


def test_every_type_has_its_section() -> None:
    """The sections are the registered types, in their order."""
    assert list(SECTIONS) == list(METRICS)


@pytest.mark.parametrize("name", list(METRICS))
def test_every_field_has_its_line(name: str) -> None:
    """The table of a section lists exactly the fields of its class."""
    listed = re.findall(r"^\| `(\w+)` \|", SECTIONS[name], flags=re.MULTILINE)
    assert listed == [field.name for field in dataclasses.fields(METRICS[name])]  # type: ignore[arg-type]


def test_every_reason_has_its_line() -> None:
    """Whatever can stand in `n_excluded` is explained."""
    reasons = (
        base.FAILED,
        base.ERROR,
        "excluded:<key>",
        base.NULL,
        base.NOT_FINITE,
        base.NO_WEIGHT,
        base.NEITHER_ANSWER,
    )
    table = PAGE.partition("| reason in `n_excluded` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE) == list(reasons)


@pytest.mark.parametrize("name", list(METRICS))
def test_every_type_has_an_example(name: str) -> None:
    """Each section shows the metric at work."""
    assert name in {fields["type"] for fields, _ in EXAMPLES}


@pytest.mark.parametrize(
    ("fields", "outcome"), EXAMPLES, ids=[fields["type"] for fields, _ in EXAMPLES]
)
def test_every_example_is_true(fields: dict[str, Any], outcome: dict[str, Any]) -> None:
    """The metric of an example computes the values that the page shows."""
    metric = METRICS[fields["type"]](
        **{name: value for name, value in fields.items() if name != "type"}
    )
    values = metric.compute(_make_scores(outcome["scores"]))
    assert {value.name: value.value for value in values} == outcome["values"]


def _make_scores(columns: dict[str, list[object]]) -> Scores:
    table = pl.DataFrame(columns)
    texts = pl.Series([None] * table.height, dtype=pl.String)
    frame = pl.DataFrame(
        {
            "status": ["SCORED"] * table.height,
            "reason": texts,
            "values": table.to_struct(),
            "metadata": table.to_struct(),
            "excluded_by": texts,
        }
    )
    return Scores(frame)
