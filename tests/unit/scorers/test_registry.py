from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from importlib.metadata import EntryPoint

import pytest

from answerkey.scorers import SCORERS, Registry, StringEquals, StringEqualsMcqa, registry


def test_own_scorers_are_found_by_type() -> None:
    """The types of the docs are the keys of the registry."""
    assert list(SCORERS) == ["string_equals_mcqa", "string_equals", "python"]
    assert all(name == scorer.type for name, scorer in SCORERS.items())


@pytest.mark.parametrize("name", list(SCORERS))
def test_template_fields_are_fields(name: str) -> None:
    """Every field that is compiled as a template is a field of the scorer."""
    scorer = SCORERS[name]
    assert set(scorer.template_fields) <= {one.name for one in fields(scorer)}  # type: ignore[arg-type]  # scorers are dataclasses


def test_scorers_of_other_packages_are_loaded_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point adds a scorer; it cannot take over one of ours; nothing is loaded for our own."""
    asked: list[str] = []

    def find_points(group: str) -> list[EntryPoint]:
        asked.append(group)
        where = "answerkey.scorers:StringEquals"
        return [EntryPoint(name, where, group) for name in ("theirs", "string_equals_mcqa")]

    monkeypatch.setattr(registry, "entry_points", find_points)
    scorers = Registry({"string_equals_mcqa": StringEqualsMcqa})
    assert scorers["string_equals_mcqa"] is StringEqualsMcqa
    assert asked == []
    assert scorers["theirs"] is StringEquals
    assert list(scorers) == ["string_equals_mcqa", "theirs"]
    assert len(scorers) == 2
    assert asked == ["answerkey.scorers"]
    with pytest.raises(KeyError):
        scorers["nobody's"]


def test_unicode_tables_are_loaded_only_when_needed() -> None:
    """ASCII completions are judged without the library for grapheme clusters."""
    code = (
        "import sys; from answerkey.scorers import judge; judge('B. x', ['A', 'B'], 'B');"
        "assert 'regex' not in sys.modules; judge('B\u0301', ['A', 'B'], 'B'); assert 'regex' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
