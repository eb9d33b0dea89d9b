from __future__ import annotations

from typing import Any

import pytest

from answerkey.reports.pages import rows
from answerkey.reports.pages.rows import open_rows
from answerkey.reports.pages.selection import select_rows

from .conftest import MakeRun


def list_many(wrong: int, invalid: int, right: int) -> list[dict[str, Any]]:
    """Return so many rows of each kind, right ones last."""
    said = ["B"] * wrong + ["none"] * invalid + ["A"] * right
    return [{"question": f"q{n}", "answer": "A", "completion": text} for n, text in enumerate(said)]


def test_a_file_that_can_carry_all_rows_holds_all(make_run: MakeRun) -> None:
    """Nothing is left out, and nothing is said."""
    chosen = select_rows(open_rows(make_run()), 5)
    assert (chosen.positions.to_list(), chosen.count, chosen.sentence) == ([0, 1, 2, 3, 4], 5, None)


def test_what_decides_comes_first(make_run: MakeRun) -> None:
    """A few wrong and INVALID rows are all there; the others are drawn from the rest."""
    book = open_rows(make_run(rows=list_many(wrong=5, invalid=5, right=190)))
    chosen = select_rows(book, 40)
    positions = chosen.positions.to_list()
    assert len(positions) == 40
    assert positions == sorted(set(positions))
    assert set(range(10)) <= set(positions)
    assert chosen.sentence == (
        "This file holds 40 of 200 samples: all 5 INVALID, all 5 wrong, 30 others drawn at random."
        " Every number of the overview is of all; the table, its counts and the search are of these alone."
    )


def test_no_kind_takes_more_than_a_quarter(make_run: MakeRun) -> None:
    """Where most rows are wrong, right ones are there all the same."""
    book = open_rows(make_run(rows=list_many(wrong=150, invalid=40, right=10)))
    chosen = select_rows(book, 40)
    assert "10 of 40 INVALID, 10 of 150 wrong, 20 others drawn at random" in str(chosen.sentence)
    assert len(chosen) == 40


def test_the_same_run_gives_the_same_selection(make_run: MakeRun) -> None:
    """The draw depends on nothing but the run."""
    run = make_run(rows=list_many(wrong=50, invalid=50, right=100))
    first, second = (select_rows(open_rows(run), 30) for _ in range(2))
    assert first.positions.to_list() == second.positions.to_list()


def test_rows_on_which_runs_differ_are_there(make_run: MakeRun) -> None:
    """What a comparison lists can be looked at."""
    book = open_rows(make_run(rows=list_many(wrong=0, invalid=0, right=200)))
    chosen = select_rows(book, 64, compared=[7, 77, 177])
    assert {7, 77, 177} <= set(chosen.positions.to_list())
    assert "all 3 flipped between runs" in str(chosen.sentence)


def test_of_flips_it_is_said_how_many_were_looked_at(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every completion of a large run is read by every rule."""
    monkeypatch.setattr(rows, "MOST_REREAD", 50)
    said = ["The answer is A."] * 100
    many = [{"question": "q", "answer": "A", "completion": text} for text in said]
    chosen = select_rows(open_rows(make_run(rows=many)), 40)
    assert "10 of 50 flipped between rules (of 50 that were looked at)" in str(chosen.sentence)


def test_a_file_may_hold_no_row_at_all(make_run: MakeRun) -> None:
    """Zero is a number of rows."""
    chosen = select_rows(open_rows(make_run()), 0)
    assert len(chosen) == 0
    assert str(chosen.sentence).startswith("This file holds none of 5 samples.")
