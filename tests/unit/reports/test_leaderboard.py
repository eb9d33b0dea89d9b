"""Laws of the leaderboard: rows are models, ranks respect ties, and every task has its column."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, write_rows, write_task

from answerkey.reports.comparison import build_comparison
from answerkey.reports.leaderboard import draw_leaderboard, rank_ties
from answerkey.reports.overview import dump
from answerkey.runs import Run, load_run
from answerkey.text import plain_text

Score = Callable[..., Run]


@pytest.fixture
def score(tmp_path: Path, call: Callable[..., Any]) -> Score:
    """Return a maker of runs: so many of 100 samples are right, from the first on."""

    def make(name: str, right: int, key: str = "quiz") -> Run:
        (folder := tmp_path / f"{name}-files").mkdir()
        task = write_task(
            folder / "task.yaml", SCORER | {"ground_truth_choice": "A"}, name=key.title()
        )
        rows = [{"sample_id": f"{key}-{i}"} for i in range(100)]
        replies = [{**row, "completion": "AB"[i >= right]} for i, row in enumerate(rows)]
        questions = write_rows(folder / "rows.jsonl", rows)
        completions = write_rows(folder / "replies.jsonl", replies)
        files = ("--dataset", questions, "--completions", completions, "--out", tmp_path / name)
        done = call("score", task, *files)
        assert done.code == 0, done.err
        return load_run(tmp_path / name)

    return make


def describe(*runs: Run) -> dict[str, Any]:
    """Return the comparison of runs that are called r0, r1 and so on."""
    runs_by_id = {f"r{number}": run for number, run in enumerate(runs)}
    return dump(build_comparison(runs_by_id))


def test_ranks_begin_after_the_better_and_end_before_the_worse() -> None:
    """A run that does not differ significantly from its neighbour shares its rank."""
    shown = [("a", "c"), ("a", "d"), ("b", "d"), ("c", "d")]
    assert rank_ties("abcd", shown) == {"a": (1, 2), "b": (1, 3), "c": (2, 3), "d": (4, 4)}
    assert rank_ties("ab", []) == {"a": (1, 2), "b": (1, 2)}


def test_models_that_are_not_shown_to_differ_share_ranks(score: Score) -> None:
    """90 and 88 of 100 right are a tie; 60 is shown to be worse than both. The best comes first."""
    board = describe(score("low", 60), score("high", 90), score("near", 88))["leaderboard"]
    names = [row["name"] for row in board["rows"]]
    cells = [row["cells"][0] for row in board["rows"]]
    assert names == ["high", "near", "low"]
    assert [cell["value"] for cell in cells] == [0.9, 0.88, 0.6]
    assert [cell["rank"] for cell in cells] == [[1, 2], [1, 2], [3, 3]]
    assert cells[0]["interval"] == pytest.approx([0.8256, 0.9448], abs=1e-4)
    assert [task["is_ranked"] for task in board["tasks"]] == [True]
    assert (board["comparisons"], board["rows"][0]["mean"]) == (3, None)


def test_runs_of_other_tasks_are_columns(score: Score) -> None:
    """Each task is compared between the runs that have it; what a row lacks is empty."""
    runs = [score("a", 95), score("b", 50), score("c", 95, "exam"), score("d", 50, "exam")]
    result = describe(*runs)
    board = result["leaderboard"]
    assert (result["refused"], [task["key"] for task in board["tasks"]]) == (None, ["quiz", "exam"])
    ranks = {row["name"]: [cell and cell["rank"] for cell in row["cells"]] for row in board["rows"]}
    first, second = [1, 1], [2, 2]
    assert ranks == {
        "a": [first, None],
        "b": [second, None],
        "c": [None, first],
        "d": [None, second],
    }


def test_several_tasks_have_a_mean(score: Score) -> None:
    """It has an interval from those of the tasks."""
    runs = []
    for model, right in (("x", 95), ("y", 50), ("z", 40)):
        exam = score(f"{model}-exam", right, "exam")
        runs.append(put_together(score(f"{model}-quiz", right), exam))
    board = describe(*runs)["leaderboard"]
    assert [row["mean"]["value"] for row in board["rows"]] == [0.95, 0.5, 0.4]
    low, high = board["rows"][0]["cells"][0]["interval"]
    best = board["rows"][0]["mean"]
    assert best["interval"][1] - best["value"] == pytest.approx((high - low) / 2 / math.sqrt(2))


def test_runs_that_cannot_be_compared_are_listed_without_ranks(score: Score) -> None:
    """Their numbers are there, and the page says why nothing is compared."""
    result = describe(score("a", 60), score("b", 90, "exam"))
    assert result["refused"] is not None
    assert {row["name"] for row in result["leaderboard"]["rows"]} == {"a", "b"}


def draw(*runs: Run, width: int = 100) -> list[str]:
    """Return the lines of the table in a terminal, without what is said of it."""
    return plain_text(draw_leaderboard(runs, width)).split("\n\n  Each cell")[0].splitlines()


def put_together(*runs: Run) -> Run:
    """Return the tasks of several runs as those of one."""
    first, second = runs
    entries = [*first.manifest["tasks"], *second.manifest["tasks"]]
    tasks = {**first.tasks, **second.tasks}
    return replace(first, manifest={**first.manifest, "tasks": entries}, tasks=tasks)


def test_a_terminal_has_one_table_with_the_best_first(score: Score) -> None:
    """Value, interval and rank of each model in each task.

    A run that is not complete has no number.
    """
    weak, strong = score("weak", 40), score("strong", 90)
    stopped = replace(weak, manifest={**weak.manifest, "status": "incomplete"})
    table = draw(weak, strong, stopped)
    assert table[:3] == ["Comparison", "", f"  model{'quiz':>{len(table[2]) - 7}}"]
    last_cells = [row.rpartition("  ")[2] for row in table[3:]]
    assert last_cells == ["90.0 [82.6, 94.5] 1", "40.0 [30.9, 49.8] 2", "incomplete"]
    assert draw(stopped, stopped)[3].endswith("  incomplete")
