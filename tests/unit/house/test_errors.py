"""Laws of the errors."""

from __future__ import annotations

import pickle

import pytest

from answerkey.errors import (
    CODES,
    DataError,
    Place,
    Problems,
    RunError,
    SolverError,
    SpecError,
    listing,
    raise_all,
    suggest,
)

ERROR = DataError("E204", "what", where=Place("a.jsonl", 3, None, "s1", "answer"), hint="do this")


def test_an_error_says_what_happened_where_and_what_to_do() -> None:
    """The text has three lines: what, where, help."""
    assert str(ERROR) == "error[E204]: what\n  --> a.jsonl:3, column `answer`\n  = help: do this"


def test_a_place_without_a_file_names_the_sample() -> None:
    """Samples in memory have no file; their id is the place."""
    assert str(Place(sample="s1", field="answer")) == "sample `s1`, column `answer`"


def test_errors_travel_between_processes_unchanged() -> None:
    """An error pickles with its code, place and hint; several stay several."""
    again = pickle.loads(pickle.dumps(ERROR))  # noqa: S301 - our own bytes
    assert (type(again), str(again)) == (DataError, str(ERROR))
    several = pickle.loads(pickle.dumps(Problems([ERROR, SpecError("E107", "x")])))  # noqa: S301 - same
    assert [error.code for error in several.errors] == ["E204", "E107"]


def test_several_errors_are_shown_together_with_the_worst_exit_code() -> None:
    """Problems flatten, print all, and exit with the worst code."""
    inner = Problems([ERROR, SolverError("E301", "y")])
    outer = Problems([inner, RunError("E501", "z")])
    assert [error.code for error in outer.errors] == ["E204", "E301", "E501"]
    assert outer.exit_code == 3
    assert str(outer).count("error[") == 3


def test_raise_all_raises_what_there_is() -> None:
    """Nothing for none, the error for one, Problems for several."""
    raise_all([])
    with pytest.raises(DataError):
        raise_all([ERROR])
    with pytest.raises(Problems):
        raise_all([ERROR, ERROR])


def test_codes_belong_to_their_family() -> None:
    """Every code is E and three digits."""
    assert all(len(code) == 4 and code[0] == "E" and code[1:].isdigit() for code in CODES)


@pytest.mark.parametrize(("name", "expected"), [("anser", "did you mean `answer`?"), ("xyz", None)])
def test_a_hint_names_the_nearest(name: str, expected: str | None) -> None:
    """Of what there is, or nothing when nothing is near."""
    assert suggest(name, ["answer", "question"]) == expected


@pytest.mark.parametrize(
    ("names", "expected"), [(["a", "b", "c"], "`a`, `b` and 1 more"), ([], "none")]
)
def test_a_hint_lists_what_there_is(names: list[str], expected: str) -> None:
    """A long list is cut, and says how many are left."""
    assert listing(names, limit=2) == expected
