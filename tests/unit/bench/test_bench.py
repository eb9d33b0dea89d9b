"""Laws of the bench: datasets are what they claim, the baselines do the same work, verdicts are strict."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture(autouse=True)
def _find_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scripts of the bench import each other by name, as when they are run."""
    monkeypatch.syspath_prepend(str(BENCH))


def load(name: str) -> Any:  # noqa: ANN401 - scripts are not typed from here
    """Return one of the bench's modules."""
    return importlib.import_module(name)


def test_a_dataset_does_not_depend_on_how_it_is_cut() -> None:
    """A row is the same whichever group it is made in."""
    generating, mix = load("generating"), load("workloads").Mix(unique=0.5)
    whole = generating.make_rows(0, 300, mix)
    assert pl.concat([generating.make_rows(0, 100, mix), generating.make_rows(100, 300, mix)]).equals(whole)


def test_unique_rows_share_neither_choices_nor_options() -> None:
    """With the share 1 every list of choices and of options appears once, and no label twice in a list."""
    rows = load("generating").make_rows(0, 20_000, load("workloads").Mix(unique=1.0))
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
    workloads, generating = load("workloads"), load("generating")
    none = {"long": 0.0, "unicode": 0.0, "unique": 0.0}
    frames = [generating.make_rows(0, 5_000, workloads.Mix(**{**none, share: size})) for size in (0.0, 0.2)]
    found = [frame.select(is_meant.mean()).item() for frame in frames]
    assert found[0] == 0
    assert found[1] == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_every_format_scores_alike(ending: str, tmp_path: Path) -> None:
    """The same rows in any format give the same accuracy: 273 of 500, as `judge` says row by row."""
    workloads, path = load("workloads"), tmp_path / f"rows.{ending}"
    load("generating").write_dataset(path, 500, workloads.Mix(unique=0.3))
    run = ak.score(workloads.Case(500).describe_task(), path)
    assert run.metrics["Accuracy"].value == 0.546


def test_raw_polars_writes_what_a_run_writes(tmp_path: Path) -> None:
    """The baseline's table is the table of our scores, row by row."""
    workloads, raw_polars = load("workloads"), load("raw_polars")
    load("generating").write_dataset(tmp_path / "rows.parquet", 500, workloads.Mix())
    case = workloads.Case(500, rule=workloads.LITERAL_RULE)
    run = ak.score(case.describe_task(), tmp_path / "rows.parquet")
    raw_polars.score_raw(tmp_path / "rows.parquet", tmp_path / "raw.parquet")
    raw_polars.score_raw(tmp_path / "rows.parquet", tmp_path / "streamed.parquet", is_streaming=True)
    written = pl.read_parquet(tmp_path / "raw.parquet")
    assert run.tasks["bench"].scores.equals(written)
    assert pl.read_parquet(tmp_path / "streamed.parquet").equals(written)


def test_both_forms_of_the_loop_count_alike(tmp_path: Path) -> None:
    """Rendered texts and values as they are give the same counts, for both pairs of templates."""
    workloads, jinja_loop = load("workloads"), load("jinja_loop")
    load("generating").write_dataset(tmp_path / "rows.parquet", 200, workloads.Mix(unique=0.5))
    parts = [
        jinja_loop.Part(tmp_path / "rows.parquet", 0, 200, form, one.truth, one.choices, one.columns)
        for form in jinja_loop.FORMS
        for one in (workloads.COLUMNS, workloads.COMPUTED)
    ]
    assert len({jinja_loop.count_part(part) for part in parts}) == 1


def test_a_cost_covers_the_whole_process_tree() -> None:
    """CPU time and memory of children count."""
    child = "x = bytearray(50_000_000); sum(i * i for i in range(1_500_000))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    cost = load("measuring").run_command([sys.executable, "-c", parent])
    assert cost.cpu > 0.05
    assert cost.peak > 50_000_000


def test_a_promise_is_missed_on_the_wrong_side_of_its_bound_only() -> None:
    """A floor is missed below, a ceiling above; what was not measured or not promised is not missed."""
    promise = load("promises").Promise
    missed = [promise("x", 0.5, 0.6), promise("x", 601, 600, is_ceiling=True)]
    kept = [promise("x", 0.6, 0.6), promise("x", 600, 600, is_ceiling=True), promise("x", None, 1)]
    assert [one.is_missed for one in missed + kept] == [True, True, False, False, False]
    assert promise("x", 3.0, None).to_row() == ["x", "3", "-", "no promise"]


def test_the_page_keeps_what_was_written_by_hand() -> None:
    """Only the blocks change, and a part that was not measured says so."""
    page, findings = load("page"), load("scoring").Findings()
    text = "Before.\n<!-- measured: sizes -->\nold\n<!-- /measured -->\nAfter.\n"
    filled = page.fill_page(text, findings, [])
    assert filled == text.replace("old", "Not measured.")
    assert set(page.BLOCK.findall(page.PAGE.read_text())) != set()


def test_the_plot_names_every_line() -> None:
    """The plot is SVG with one name per line."""
    plotting = load("plotting")
    lines = [plotting.Line("ours", [(10, 0.1), (100, 0.5)]), plotting.Line("a < b", [(10, 1.0), (100, 9.0)])]
    drawn = plotting.draw_plot(lines)
    assert drawn.startswith("<svg ")
    assert (">ours</text>" in drawn, ">a &lt; b</text>" in drawn) == (True, True)
