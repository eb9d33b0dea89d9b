"""Laws of the bench: datasets are what they claim, the baselines do the same work, verdicts are
strict.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak


def load_bench(*names: str) -> list[Any]:
    """Return modules of the bench, which import each other by name as when they are run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "bench"))
        return [importlib.import_module(name) for name in names]


generating, workloads, plain_loop = load_bench("generating", "workloads", "plain_loop")
measuring, bench_run = load_bench("measuring", "run")


@pytest.mark.parametrize("shape", ["rows", "flat", "lm-eval", "replies", "chains"])
def test_a_dataset_does_not_depend_on_how_it_is_cut(shape: str) -> None:
    """A row is the same whichever group it is made in."""
    mix = workloads.Mix(unique=0.5)
    whole = generating.make_shape(0, 24, mix, shape)
    parts = [generating.make_shape(start, start + 8, mix, shape) for start in (0, 8, 16)]
    assert pl.concat(parts).equals(whole)
    assert whole.height == 24


def test_unique_rows_share_neither_choices_nor_options() -> None:
    """With the share 1 every list of choices and of options appears once, and no label twice in a
    list.
    """
    rows = generating.make_rows(0, 20_000, workloads.Mix(unique=1.0))
    assert rows["choices"].n_unique() == rows["options"].n_unique() == 20_000
    assert rows["choices"].list.n_unique().to_list() == [4] * 20_000


@pytest.mark.parametrize(
    ("share", "is_meant"),
    [
        ("long", pl.col("completion").str.len_chars() > 500),
        ("unicode", pl.col("completion").str.contains(r"[^\x00-\x7f]")),
        ("unique", pl.col("question").str.contains("(", literal=True)),
    ],
)
def test_shares_are_kept(share: str, is_meant: pl.Expr) -> None:
    """A share of 0.2 makes about that many rows, a share of 0 none."""
    results = []
    for size in (0.0, 0.2):
        mix = workloads.Mix(**{"long": 0.0, "unicode": 0.0, "unique": 0.0, share: size})
        results.append(generating.make_rows(0, 5_000, mix).select(is_meant.mean()).item())
    assert results == [0, pytest.approx(0.2, abs=0.03)]


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_every_format_scores_alike(ending: str, tmp_path: Path) -> None:
    """The same rows in any format give the same accuracy: 273 of 500, as `judge` says row by
    row.
    """
    path = tmp_path / f"rows.{ending}"
    generating.write_dataset(path, 500, workloads.Mix(unique=0.3))
    run = ak.score(workloads.Case(500).describe_task(), path)
    assert run.metrics["Accuracy"].value == 0.546


def test_the_plain_loop_writes_what_a_run_writes(tmp_path: Path) -> None:
    """The baseline's table has the values and the metadata of our scores, row by row."""
    source, out = tmp_path / "rows.jsonl", tmp_path / "loop.parquet"
    generating.write_dataset(source, 500, workloads.Mix())
    scores = ak.score(workloads.Case(500).describe_task(), source).tasks["bench"].scores
    verdicts = scores["string_equals_mcqa"].struct.unnest()
    columns = [verdicts[name].struct.unnest() for name in ("values", "metadata")]
    ours = pl.concat([scores.select("sample_id"), *columns], how="horizontal")
    accuracy = plain_loop.score_rows(source, out)
    assert pl.read_parquet(out).equals(ours)
    assert accuracy == ours["is_correct"].mean()


def test_a_cost_covers_the_whole_process_tree() -> None:
    """CPU time and memory of children count."""
    child = "x = bytearray(50_000_000); sum(i * i for i in range(1_500_000))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    cost = measuring.run_command([sys.executable, "-c", parent])
    assert cost.cpu > 0.05
    assert cost.peak > 50_000_000


def test_a_promise_is_missed_above_its_bound_only() -> None:
    """What was not measured or not promised is not missed."""
    bounds = [(2.1, 2), (2, 2), (None, 2), (3, None)]
    results = [bench_run.Row("x", "", "", "", ratio, most) for ratio, most in bounds]
    assert [result.is_missed for result in results] == [True, False, False, False]
    assert results[0].to_cells()[-2:] == ["2.10", "at most 2 MISSED"]


def test_the_page_keeps_what_people_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the table and the line about the machine change."""
    page = tmp_path / "performance.md"
    marks = "<!-- measured: table -->", "<!-- /measured -->"
    assert all(mark in bench_run.PAGE.read_text() for mark in marks)
    page.write_text("Before.\n{}\nold\n{}\nAfter.\n".format(*marks))
    monkeypatch.setattr(bench_run, "PAGE", page)
    for table in ("| a |", "| b |"):
        bench_run.write_page(table=table)
        assert page.read_text() == f"Before.\n{marks[0]}\n{table}\n{marks[1]}\nAfter.\n"
