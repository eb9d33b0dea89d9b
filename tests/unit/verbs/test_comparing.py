"""Laws of comparisons: which runs can be compared, and what a comparison says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.errors import DataError, RunError

SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}
Row = dict[str, Any]
TRUTHS = "AABBAABBAABB"
Make = Callable[..., ak.Run]


def make_rows(said: str, truths: str = TRUTHS, **columns: Any) -> list[Row]:  # noqa: ANN401 - any cells
    """Return a row for each letter that was said; `?` is no choice."""
    rows: list[Row] = []
    for place, (truth, letter) in enumerate(zip(truths, said, strict=True)):
        extra = {name: values[place] for name, values in columns.items()}
        rows.append({"sample_id": f"q{place}", "answer": truth, "completion": letter, **extra})
    return rows


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a maker of finished runs from rows that hold their completions."""

    def make_run(name: str, rows: list[Row], *, definition: Row | None = None, **options: object) -> ak.Run:
        folder = tmp_path / name
        folder.mkdir()
        task = {"key": "quiz", "display_name": "Quiz", "description": ""}
        task["definition"] = {"scorers": [SCORER], **(definition or {})}  # type: ignore[assignment]  # plain JSON
        (folder / "task.yaml").write_text(json.dumps(task))
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        given: dict[str, Any] = {"dataset": str(folder / "rows.jsonl"), **options}
        return ak.run(folder / "task.yaml", out=tmp_path / "runs" / name, **given)

    return make_run


def test_the_difference_is_first_minus_second(make: Make) -> None:
    """Ten right against eight: flips are counted and named, and the exact test decides."""
    first = make("a", make_rows("AABBAABBAA??"))
    second = make("b", make_rows("AABBAABB??B?"))
    pair = ak.compare(first, second).pairs[0]
    found = pair.difference
    assert (pair.first, pair.second, found.n) == ("a", "b", 12)
    assert (found.first, found.second, found.value) == pytest.approx((10 / 12, 9 / 12, 1 / 12))
    assert (pair.first_only, pair.second_only) == (("q8", "q9"), ("q10",))
    assert found.flips is not None
    assert (found.flips.both, found.flips.neither) == (8, 1)
    assert (found.p_exact, found.p_mid, pair.p_adjusted) == (1.0, 0.625, 1.0)
    assert not pair.is_significant()


def test_samples_are_matched_by_id_not_by_order(make: Make) -> None:
    """The same rows in another order are the same samples."""
    rows = make_rows("AABBAABBAA??")
    pair = ak.compare(make("a", rows), make("b", rows[::-1])).pairs[0]
    assert (pair.difference.value, pair.first_only, pair.second_only) == (0.0, (), ())


def test_every_pair_is_compared_and_corrected_by_holm(make: Make) -> None:
    """Three runs make three comparisons; the p-value of each counts their number."""
    runs = [
        make("a", make_rows("AABBAABBAABB")),
        make("b", make_rows("A" * 12)),
        make("c", make_rows("?" * 12)),
    ]
    pairs = ak.compare(*runs).pairs
    assert [(pair.first, pair.second) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    exact = [pair.difference.p_exact for pair in pairs]
    assert exact == pytest.approx([2 / 2**6, 2 / 2**12, 2 / 2**6])
    assert [pair.p_adjusted for pair in pairs] == pytest.approx([4 / 2**6, 6 / 2**12, 4 / 2**6])


def test_a_baseline_is_held_against_every_run(make: Make) -> None:
    """Each run minus the baseline, which may be among the runs; a significant loss is a regression."""
    good, bad = make("good", make_rows("AABBAABBAABB")), make("bad", make_rows("?" * 12))
    found = ak.compare(good, bad, baseline=good)
    assert (found.baseline, [(pair.first, pair.second) for pair in found.pairs]) == (
        "good",
        [("bad", "good")],
    )
    assert [pair.first for pair in found.find_regressions()] == ["bad"]
    assert ak.compare(good, baseline=bad).find_regressions() == []


def test_other_truths_are_refused(make: Make) -> None:
    """A sample whose truth was changed is not the same question; the error names it."""
    runs = [make("a", make_rows("A" * 12)), make("b", make_rows("A" * 12, "BABBAABBAABB"))]
    with pytest.raises(
        RunError, match="1 of 12 samples have another truth: `q0` is 'A' in `a` and 'B' in `b`"
    ):
        ak.compare(*runs)


def test_other_samples_are_refused(make: Make) -> None:
    """Runs of other datasets have no sample in common."""
    rows = [row | {"sample_id": f"z{row['sample_id']}"} for row in make_rows("A" * 12)]
    runs = [make("a", make_rows("A" * 12)), make("b", rows)]
    with pytest.raises(RunError, match="no sample in common") as caught:
        ak.compare(*runs)
    assert caught.value.code == "E508"


def test_some_samples_are_compared_only_when_told_so(make: Make) -> None:
    """A run on some of the samples is refused, and compared on these with `common`."""
    rows = make_rows("AABBAABBAABB")
    runs = [make("a", rows), make("b", rows, num_samples=5)]
    with pytest.raises(RunError, match="7 samples of `a` are not in `b`") as caught:
        ak.compare(*runs)
    assert "`--common`" in str(caught.value.hint)
    assert ak.compare(*runs, common=True).tasks[0].samples == 5


def test_a_run_that_is_not_complete_is_refused(make: Make, tmp_path: Path) -> None:
    """A share of what is there says nothing about the whole."""
    make("a", make_rows("A" * 12))
    second = make("b", make_rows("A" * 12))
    manifest = tmp_path / "runs" / "a" / "run.json"
    manifest.write_text(manifest.read_text().replace('"complete"', '"incomplete"'))
    with pytest.raises(RunError, match="`a` is incomplete"):
        ak.compare(tmp_path / "runs" / "a", second)


def test_one_run_is_no_comparison(make: Make) -> None:
    """Two are needed, and the same run is not two."""
    run = make("a", make_rows("A" * 12))
    with pytest.raises(RunError, match="needs two"):
        ak.compare(run)
    with pytest.raises(RunError, match="needs two"):
        ak.compare(run, baseline=run)


def test_failed_samples_are_left_out_and_counted(make: Make) -> None:
    """A sample that one run could not score is compared in neither."""
    rows = make_rows("AABBAABBAABB")
    broken = [*rows[:-1], rows[-1] | {"answer": "Z"}]
    pair = ak.compare(make("a", rows), make("b", broken, allow_failed=1)).pairs[0]
    assert (pair.difference.n, dict(pair.left_out)) == (11, {"failed in b": 1})


def test_categories_are_compared_one_by_one(make: Make) -> None:
    """The column is that of the summary, or the one that is named."""
    columns: dict[str, Any] = {"category": list("xxxxxxyyyyyy"), "level": list("121212121212")}
    first = make("a", make_rows("AABBAABBAABB", **columns))
    second = make("b", make_rows("AABBAA??????", **columns))
    found = ak.compare(first, second)
    assert found.tasks[0].category == "category"
    assert [(one.category, one.difference.value) for one in found.pairs[0].categories] == [
        ("x", 0.0),
        ("y", 1.0),
    ]
    assert [one.category for one in ak.compare(first, second, by="level").pairs[0].categories] == ["1", "2"]


def test_without_the_dataset_there_are_no_categories(make: Make, tmp_path: Path) -> None:
    """The comparison itself needs the runs alone; a column that was asked for needs the file."""
    rows = make_rows("A" * 12, category=list("xxxxxxyyyyyy"))
    runs = [make("a", rows), make("b", rows)]
    (tmp_path / "a" / "rows.jsonl").unlink()
    found = ak.compare(*runs)
    assert (found.tasks[0].category, found.pairs[0].difference.n) == (None, 12)
    assert "no table by category" in str(found.notices[0])
    with pytest.raises(RunError, match="cannot be opened again"):
        ak.compare(*runs, by="category")


def test_a_column_that_is_not_there_is_named(make: Make) -> None:
    """The error suggests the nearest one."""
    rows = make_rows("A" * 12, category=list("xxxxxxyyyyyy"))
    with pytest.raises(DataError, match="has no column `categry`"):
        ak.compare(make("a", rows), make("b", rows), by="categry")


def test_clusters_decide_by_a_t_test(make: Make) -> None:
    """Samples of one passage are one draw; the task's own `cluster_by` is used unless another is named."""
    columns: dict[str, Any] = {"passage": list("aabbccddeeff")}
    first = make("a", make_rows("AABBAABBAA??", **columns), definition={"cluster_by": "passage"})
    second = make("b", make_rows("AABBAAB?????", **columns), definition={"cluster_by": "passage"})
    found = ak.compare(first, second)
    assert (found.tasks[0].cluster_by, found.pairs[0].difference.evidence.clusters) == ("passage", 6)
    assert found.pairs[0].difference.evidence.p_method == "clustered_t"
    plain = ak.compare(first, second, is_corrected=False).pairs[0].difference.evidence
    assert plain.std_error == pytest.approx(
        (found.pairs[0].difference.evidence.std_error or 0) * (5 / 6) ** 0.5, rel=1e-12
    )


def test_other_rules_are_told(make: Make) -> None:
    """Runs scored by other rules can be compared, and the notice says that they differ."""
    rows = make_rows("A" * 12)
    other = {"scorers": [{**SCORER, "extraction": "first_character_literal", "key": "mine"}]}
    found = ak.compare(make("a", rows), make("b", rows, definition=other))
    texts = [str(notice) for notice in found.notices]
    assert any("the tasks of `a` and `b` differ" in text for text in texts)
    assert any("`is_correct` of `mine` in `b`" in text for text in texts)


def test_metrics_and_names_are_no_other_rules(make: Make) -> None:
    """A task that only measures something else asks and scores the same."""
    rows = make_rows("A" * 12, category=list("xxxxxxyyyyyy"))
    other = {
        "group_by": "category",
        "scorers": [{**SCORER, "metrics": [{"type": "mean", "field": "is_correct"}]}],
    }
    assert ak.compare(make("a", rows), make("b", rows, definition=other)).notices == ()


def test_scorers_and_values_can_be_named(make: Make) -> None:
    """A name that a run lacks is refused, with those it has."""
    runs = [make("a", make_rows("A" * 12)), make("b", make_rows("B" * 12))]
    with pytest.raises(RunError, match="has no scorer `judge`"):
        ak.compare(*runs, scorer="judge")
    with pytest.raises(RunError, match="has no value `score`"):
        ak.compare(*runs, value="score")
    with pytest.raises(RunError, match="has no task `other`"):
        ak.compare(*runs, task="other")
    assert ak.compare(*runs, scorer="string_equals_mcqa", value="is_correct", task="quiz").pairs


def test_trials_are_compared_by_their_means(make: Make, tmp_path: Path) -> None:
    """Each sample counts once, with the mean of its trials; a paired t test takes McNemar's place."""
    rows = [
        {name: value for name, value in row.items() if name != "completion"} for row in make_rows("A" * 12)
    ]
    runs = []
    for name, letters in (("a", "AB"), ("b", "BB")):
        recorded = [
            {"sample_id": row["sample_id"], "trial": trial, "completion": letter}
            for row in rows
            for trial, letter in enumerate(letters)
        ]
        pl.DataFrame(recorded).write_ndjson(tmp_path / f"{name}.jsonl")
        trials = {"trials": {"num_trials": 2}}
        runs.append(make(name, rows, definition=trials, completions=str(tmp_path / f"{name}.jsonl")))
    found = ak.compare(*runs)
    difference = found.pairs[0].difference
    assert (difference.n, difference.first, difference.value, difference.flips) == (12, 0.5, 0.0, None)
    assert difference.evidence.p_method == "paired_t"
    assert all(run.is_share for run in found.tasks[0].runs)


def test_a_comparison_shows_itself(make: Make) -> None:
    """In print and in a notebook, with data escaped."""
    found = ak.compare(make("a", make_rows("A" * 12)), make("b", make_rows("?" * 12)))
    assert "A - B" in str(found)
    assert found._repr_html_().startswith("<pre>")
