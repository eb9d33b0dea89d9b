"""The page of the policies says what the code does: every example is read, every field has its
line.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from answerkey.cli.options import REPORT_OPTIONS
from answerkey.errors import Place
from answerkey.gates.policies import build_policies
from answerkey.gates.rules import RULES
from answerkey.runs import NOT_COMPLETE
from answerkey.spec.config import Config
from answerkey.spec.nodes import ProblemList, from_plain
from answerkey.types import GateCheck

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (FOLDER / "policies.md").read_text(encoding="utf-8")
EXAMPLES = [
    YAML(typ="safe").load(text)["policies"]
    for text in re.findall(r"```yaml\n(policies:.*?)```", PAGE, flags=re.DOTALL)
]
SECTIONS = dict(
    re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_read(example: Any) -> None:  # noqa: ANN401 - whatever stands on the page
    """The policies of the page are sound, and every kind of rule is among them."""
    problems = ProblemList()
    policies, _ = build_policies(
        from_plain(example, Place(), problems), config=Config(), base=Path()
    )
    assert policies
    assert problems.errors == []


def test_every_kind_has_its_section_and_an_example() -> None:
    """The sections are the kinds, in their order."""
    assert list(SECTIONS) == list(RULES)
    policies = [
        policy
        for example in EXAMPLES
        for policy in (example if isinstance(example, list) else [example])
    ]
    assert {rule["definition"]["type"] for policy in policies for rule in policy["rules"]} == set(
        RULES
    )


@pytest.mark.parametrize("kind", ["threshold", "not_worse"])
def test_every_field_has_its_line(kind: str) -> None:
    """The table of a section lists exactly the fields of the rule."""
    listed = re.findall(r"^\| `(\w+)` \|", SECTIONS[kind], flags=re.MULTILINE)
    assert listed == [field.name for field in dataclasses.fields(RULES[kind])]


def test_the_run_folder_page_has_every_field_of_a_check() -> None:
    """What `run.json` says of a gate is explained."""
    page = (FOLDER / "run-folder.md").read_text(encoding="utf-8")
    table = page.partition("An entry of `checks`")[2].partition("\n\nSecrets")[0]
    rows = "".join(row.partition(" | ")[0] for row in table.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == {
        field.name for field in dataclasses.fields(GateCheck)
    }
    assert NOT_COMPLETE == "the run is not complete"


def test_the_options_for_ci_servers_are_two() -> None:
    """`--junit` and `--summary` are on the page."""
    assert len(REPORT_OPTIONS) == 2
    assert "`--junit FILE`" in PAGE
    assert "`--summary FILE`" in PAGE
