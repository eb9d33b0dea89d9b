"""Laws of the leaderboard: rows are models, ranks respect ties, and every task has its column."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answerkey.reports.comparison import build_comparison
from answerkey.reports.leaderboard import draw_leaderboard, rank_ties
from answerkey.reports.overview import dump
from answerkey.reports.samples import SampleTable
from answerkey.runs import Run, load_run
from answerkey.text import plain_text

Score = Callable[..., Run]
SIZE = 100


@pytest.fixture
def score(tmp_path: Path, call: Callable[..., Any]) -> Score:
    """Return a maker of runs: so many of 100 samples are right, from the first on."""

    def make(name: str, right: int, key: str = "quiz") -> Run:
        folder = tmp_path / f"{name}-files"
        folder.mkdir()
        scorer = {"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": ["A", "B"]}
        task = {"key": key, "display_name": key.title(), "definition": {"scorers": [scorer]}}
        (folder / "task.yaml").write_text(json.dumps(task))
        rows = [{"sample_id": f"{key}-{i}"} for i in range(SIZE)]
        said = [{**row, "completion": "A" if i < right else "B"} for i, row in enumerate(rows)]
        for file, lines in (("rows", rows), ("said", said)):
            (folder / f"{file}.jsonl").write_text(
                "".join(json.dumps(line) + "\n" for line in lines)
            )
        words = ("--dataset", folder / "rows.jsonl", "--completions", folder / "said.jsonl")
        done = call("score", folder / "task.yaml", *words, "--out", tmp_path / name)
        assert done.code == 0, done.err
        return load_run(tmp_path / name)

    return make


def describe(*runs: Run) -> dict[str, Any]:
    """Return the comparison of runs that are called r0, r1 and so on."""
    named = {f"r{number}": run for number, run in enumerate(runs)}
    tables = {
        name: {key: SampleTable(run, task) for key, task in run.tasks.items()}
        for name, run in named.items()
    }
    return dump(build_comparison(named, tables))


def test_ranks_begin_after_the_better_and_end_before_the_worse() -> None:
    """Whoever is not shown to differ from a neighbour shares its rank."""
    shown = [("a", "c"), ("a", "d"), ("b", "d"), ("c", "d")]
    assert rank_ties("abcd", shown) == {"a": (1, 2), "b": (1, 3), "c": (2, 3), "d": (4, 4)}
    assert rank_ties("ab", []) == {"a": (1, 2), "b": (1, 2)}


def test_models_that_are_not_shown_to_differ_share_ranks(score: Score) -> None:
    """90 and 88 of 100 right are a tie; 60 is shown to be worse than both. The best comes first."""
    board = describe(score("low", 60), score("high", 90), score("near", 88))["leaderboard"]
    told = [
        (row["name"], row["cells"][0]["value"], row["cells"][0]["rank"]) for row in board["rows"]
    ]
    assert told == [("high", 0.9, [1, 2]), ("near", 0.88, [1, 2]), ("low", 0.6, [3, 3])]
    assert board["rows"][0]["cells"][0]["interval"] == pytest.approx([0.8256, 0.9448], abs=1e-4)
    assert board["comparisons"] == 3
    assert [task["is_ranked"] for task in board["tasks"]] == [True]
    assert board["rows"][0]["mean"] is None


def test_runs_of_other_tasks_are_columns(score: Score) -> None:
    """Each task is compared between the runs that have it; what a row lacks is empty."""
    runs = [score("a", 95), score("b", 50), score("c", 95, "exam"), score("d", 50, "exam")]
    result = describe(*runs)
    board = result["leaderboard"]
    assert (result["refused"], [task["key"] for task in board["tasks"]]) == (None, ["quiz", "exam"])
    cells = {row["name"]: [cell and cell["rank"] for cell in row["cells"]] for row in board["rows"]}
    assert cells == {
        "a": [[1, 1], None],
        "b": [[2, 2], None],
        "c": [None, [1, 1]],
        "d": [None, [2, 2]],
    }


def test_several_tasks_have_a_mean(score: Score) -> None:
    """It has an interval from those of the tasks."""
    runs = [
        put_together(score(f"{model}-quiz", right), score(f"{model}-exam", right, "exam"))
        for model, right in (("x", 95), ("y", 50), ("z", 40))
    ]
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
    entries = [entry for run in runs for entry in run.manifest["tasks"]]
    tasks = {key: task for run in runs for key, task in run.tasks.items()}
    return replace(runs[0], manifest={**runs[0].manifest, "tasks": entries}, tasks=tasks)


def test_a_terminal_has_one_table_with_the_best_first(score: Score) -> None:
    """Value, interval and rank of each model in each task.

    A run that is not complete has no number.
    """
    weak, strong = score("weak", 40), score("strong", 90)
    stopped = replace(weak, manifest={**weak.manifest, "status": "incomplete"})
    table = draw(weak, strong, stopped)
    assert table[:3] == ["Comparison", "", f"  model{'quiz':>{len(table[2]) - 7}}"]
    assert [one.rpartition("  ")[2] for one in table[3:]] == [
        "90.0 [82.6, 94.5] 1",
        "40.0 [30.9, 49.8] 2",
        "incomplete",
    ]
    assert draw(stopped, stopped)[3].endswith("  incomplete")
