from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from answerkey import types
from answerkey.solvers import SOLVERS, PassThroughSolver
from answerkey.types import Registry


def test_solvers_are_found_by_type() -> None:
    """The registry's keys are the solvers' types."""
    assert {kind: solver.type for kind, solver in SOLVERS.items()} == {
        "single_turn_solver": "single_turn_solver",
        "pass_through_solver": "pass_through_solver",
        "choice_ranking_solver": "choice_ranking_solver",
    }


def test_installed_package_adds_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point adds a solver under its name."""
    points = [EntryPoint("own_solver", "answerkey.solvers:PassThroughSolver", "answerkey.solvers")]
    monkeypatch.setattr(types, "entry_points", lambda group: points if group == SOLVERS.group else [])
    assert Registry(SOLVERS.group, {})["own_solver"] is PassThroughSolver
