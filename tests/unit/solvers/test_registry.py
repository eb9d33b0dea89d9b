from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from answerkey.errors import SpecError
from answerkey.solvers import SOLVERS, PassThroughSolver, find_solver, registry


def test_solvers_are_found_by_type() -> None:
    """The registry's keys are the solvers' types."""
    assert {kind: solver.type for kind, solver in SOLVERS.items()} == {
        "single_turn_solver": "single_turn_solver",
        "pass_through_solver": "pass_through_solver",
    }
    assert find_solver("pass_through_solver") is PassThroughSolver


@pytest.mark.parametrize("kind", ["multi_turn_solver", "grouped_single_turn_solver"])
def test_solvers_beyond_multiple_choice_are_refused_by_name(kind: str) -> None:
    """A solver of the hosted platform that is outside the scope is told as such."""
    with pytest.raises(SpecError) as caught:
        find_solver(kind)
    assert caught.value.code == "E303"
    assert caught.value.message == (
        f"solver `{kind}` is outside the scope of multiple choice: one question, one answer"
    )


def test_unknown_type_gets_a_suggestion() -> None:
    """A mistyped type is answered with the nearest one."""
    with pytest.raises(SpecError) as caught:
        find_solver("single_turn")
    assert (caught.value.code, caught.value.hint) == ("E109", "did you mean `single_turn_solver`?")


def test_installed_package_adds_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point adds a solver under its name."""
    points = [EntryPoint("own_solver", "answerkey.solvers:PassThroughSolver", "answerkey.solvers")]
    monkeypatch.setattr(
        registry, "entry_points", lambda group: points if group == "answerkey.solvers" else []
    )
    assert find_solver("own_solver") is PassThroughSolver
