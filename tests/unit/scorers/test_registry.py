from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest

from answerkey.scorers import SCORERS


def test_own_scorers_are_found_by_type() -> None:
    """The types of the docs are the keys of the registry."""
    assert list(SCORERS) == [
        "string_equals_mcqa",
        "string_equals",
        "python",
        "model_as_a_judge_scorer",
        "choice_probabilities",
    ]
    assert all(name == scorer.type for name, scorer in SCORERS.items())


@pytest.mark.parametrize("name", list(SCORERS))
def test_template_fields_are_fields(name: str) -> None:
    """Every field that is compiled as a template is a field of the scorer."""
    scorer = SCORERS[name]
    assert set(scorer.template_fields) <= {one.name for one in fields(scorer)}  # type: ignore[arg-type]  # scorers are dataclasses


def test_unicode_tables_are_loaded_only_when_needed() -> None:
    """ASCII completions are judged without the library for grapheme clusters."""
    code = (
        "import sys; from answerkey.scorers import judge; judge('B. x', ['A', 'B'], 'B');"
        "assert 'regex' not in sys.modules; judge('B\u0301', ['A', 'B'], 'B'); assert 'regex' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
