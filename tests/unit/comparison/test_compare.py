"""Laws of comparisons: which runs can be compared, and what a comparison says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER

import answerkey as ak
from answerkey.errors import DataError, RunError

from .conftest import TRUTHS, Make, rows_of

Call = Callable[..., Any]
RIGHT, WRONG, SAME = TRUTHS, "?" * 12, "A" * 12


def test_the_difference_is_first_minus_second(make: Make) -> None:
    """Ten right against nine: flips are counted and named, and the exact test decides."""
    pair = ak.compare(make("a", "AABBAABBAA??"), make("b", "AABBAABB??B?")).pairs[0]
    value = pair.difference
    assert (pair.first, pair.second, value.n) == ("a", "b", 12)
    assert (value.first, value.second, value.value) == pytest.approx((10 / 12, 9 / 12, 1 / 12))
    assert (pair.first_only, pair.second_only) == (("q8", "q9"), ("q10",))
    assert value.flips is not None
    assert (value.flips.both, value.flips.neither) == (8, 1)
    assert (value.p_exact, value.p_mid, pair.p_adjusted) == (1.0, 0.625, 1.0)
    assert not pair.is_significant()


def test_samples_are_matched_by_id_not_by_order(make: Make) -> None:
    """The same rows in another order are the same samples."""
    rows = rows_of("AABBAABBAA??")
    pair = ak.compare(make("a", rows), make("b", rows[::-1])).pairs[0]
    assert (pair.difference.value, pair.first_only, pair.second_only) == (0.0, (), ())


def test_every_pair_is_compared_and_corrected_by_holm(make: Make) -> None:
    """Three runs make three comparisons; the p-value of each counts their number."""
    pairs = ak.compare(make("a", RIGHT), make("b", SAME), make("c", WRONG)).pairs
    assert [(pair.first, pair.second) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    chances = [pair.difference.p_exact for pair in pairs]
    assert chances == pytest.approx([2 / 2**6, 2 / 2**12, 2 / 2**6])
    assert [pair.p_adjusted for pair in pairs] == pytest.approx([4 / 2**6, 6 / 2**12, 4 / 2**6])


def test_a_baseline_is_held_against_every_run(make: Make) -> None:
    """Each run minus the baseline, which may be among the runs.

    A significant loss is a regression.
    """
    good, bad = make("good", RIGHT), make("bad", WRONG)
    result = ak.compare(good, bad, baseline=good)
    assert result.baseline == "good"
    assert [(p.first, p.second) for p in result.pairs] == [("bad", "good")]
    assert [pair.first for pair in result.find_regressions()] == ["bad"]
    assert ak.compare(good, baseline=bad).find_regressions() == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of(SAME, "BABBAABBAABB"),
        "1 of 12 samples have another truth: `q0` is 'A' in `a` and 'B' in `b`"),
        ([{**row, "sample_id": f"z{row['sample_id']}"} for row in rows_of(SAME)],
        "12 samples of `a` are not in `b`"),
        (rows_of(SAME)[:5], "7 samples of `a` are not in `b`"),
    ],
)  # fmt: skip
def test_other_samples_and_truths_are_refused(make: Make, rows: list[Any], message: str) -> None:
    """E508: a sample whose truth was changed is not the same question, and some are not all.

    On the samples that both have, runs are compared with `common`.
    """
    runs = [make("a", SAME), make("b", rows)]
    with pytest.raises(RunError, match=message) as caught:
        ak.compare(*runs)
    assert caught.value.code == "E508"
    if len(rows) < 12:
        assert "`--common`" in str(caught.value.hint)
        assert ak.compare(*runs, common=True).tasks[0].samples == 5


def test_meaningless_comparisons_are_refused(make: Make, tmp_path: Path) -> None:
    """One run, the same run twice, one that is not complete, and names that a run lacks."""
    runs = [make("a", SAME), make("b", SAME)]
    for refused in ((runs[0], None), (runs[0], runs[0])):
        with pytest.raises(RunError, match="needs two"):
            ak.compare(refused[0], baseline=refused[1])
    for name, message in {"scorer": "scorer `x`", "value": "value `x`", "task": "task `x`"}.items():
        with pytest.raises(RunError, match=f"has no {message}"):
            ak.compare(*runs, **{name: "x"})  # type: ignore[arg-type]  # one of its options
    assert ak.compare(*runs, scorer="string_equals_mcqa", value="is_correct", task="quiz").pairs
    manifest = tmp_path / "runs" / "a" / "run.json"
    manifest.write_text(manifest.read_text().replace('"complete"', '"incomplete"'))
    with pytest.raises(RunError, match="`a` is incomplete"):
        ak.compare(tmp_path / "runs" / "a", runs[1])


def test_failed_samples_are_left_out_and_counted(make: Make) -> None:
    """A sample that one run could not score is compared in neither."""
    broken = [*rows_of(RIGHT)[:-1], {**rows_of(RIGHT)[-1], "answer": "Z"}]
    pair = ak.compare(make("a", RIGHT), make("b", broken, allow_failed=1)).pairs[0]
    assert (pair.difference.n, dict(pair.left_out)) == (11, {"failed in b": 1})


def test_categories_are_compared_one_by_one(make: Make, tmp_path: Path) -> None:
    """The column is that of the summary, or the one that is named.

    The comparison itself needs the runs alone; a column that was asked for needs the file.
    """
    columns = {"category": "xxxxxxyyyyyy", "level": "121212121212"}
    runs = [make("a", rows_of(RIGHT, **columns)), make("b", rows_of("AABBAA??????", **columns))]
    (pair,) = ak.compare(*runs).pairs
    assert {label: value.value for label, value in pair.categories.items()} == {"x": 0.0, "y": 1.0}
    assert list(ak.compare(*runs, by="level").pairs[0].categories) == ["1", "2"]
    with pytest.raises(DataError, match="has no column `categry`"):
        ak.compare(*runs, by="categry")
    (tmp_path / "a" / "rows.jsonl").unlink()
    result = ak.compare(*runs)
    assert (result.tasks[0].category, result.pairs[0].difference.n) == (None, 12)
    assert "no table by category" in str(result.notices[-1])
    with pytest.raises(RunError, match="cannot be opened again"):
        ak.compare(*runs, by="category")


def test_clusters_decide_by_a_t_test(make: Make) -> None:
    """Samples of one passage are one draw.

    The task's own `cluster_by` is used unless another is named.
    """
    runs = [
        make(name, rows_of(texts, passage="aabbccddeeff"), definition={"cluster_by": "passage"})
        for name, texts in (("a", "AABBAABBAA??"), ("b", "AABBAAB?????"))
    ]
    result = ak.compare(*runs)
    evidence = result.pairs[0].difference.evidence
    assert (result.tasks[0].cluster_by, evidence.clusters) == ("passage", 6)
    assert evidence.p_method == "clustered_t"


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (
            {"extraction": "first_character_literal", "key": "mine"},
            ["the tasks of `a` and `b` differ", "`is_correct` of `mine` in `b`"],
        ),
        ({"metrics": [{"type": "mean", "field": "is_correct"}], "display_name": "Other"}, []),
    ],
)
def test_different_extraction_rules_give_a_notice(
    make: Make, change: dict[str, object], texts: list[str]
) -> None:
    """Runs scored by different rules can be compared, with a notice.

    Different metrics and names are not different rules.
    """
    changed = make("b", SAME, definition={"scorers": [{**SCORER, **change}]})
    result = ak.compare(make("a", SAME), changed)
    assert len(result.notices) == len(texts)
    assert all(text in str(notice) for text, notice in zip(texts, result.notices, strict=True))


def test_trials_are_compared_by_their_means(make: Make) -> None:
    """Each sample counts once, with the mean of its trials.

    A paired t test takes McNemar's place.
    """
    result = ak.compare(make("a", ["AB"] * 12), make("b", ["BB"] * 12))
    difference = result.pairs[0].difference
    assert (difference.n, difference.first, difference.value) == (12, 0.5, 0.0)
    assert (difference.flips, difference.evidence.p_method) == (None, "paired_t")
    assert all(run.is_share for run in result.tasks[0].runs)


def test_two_runs_as_a_command(make: Make, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs, their difference with interval and tests, flips by name, categories.

    Within 80 cells.
    """
    for name, texts in (("good", RIGHT), ("middle", "AABBAABB????")):
        make(name, rows_of(texts, category="xyxyxyxyxyxy"))
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("compare", "runs/good", "middle")
    assert shown.code == 0
    for line in (
        "quiz  2 runs on 12 samples",
        "         points  95 % interval  flips        p",
        "  A - B  +33.33  [2.20, 60.94]    4/0  0.12500",
        "  not significant: A - B",
        "  A right, B not (4): q8, q9, q10, q11",
        "  B right, A not (0): none",
        "  By category  n         A        B   A - B    95 % interval",
    ):
        assert f"{line}\n" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    digits = call("compare", "good", "middle", "--digits", "4").out
    assert "  A - B  +0.3333  [0.0220, 0.6094]    4/0  0.12500\n" in digits
    result = ak.compare(Path("runs/good"), Path("runs/middle"))
    assert "A - B" in str(result)
    assert result._repr_html_().startswith("<")


def test_several_runs_on_the_command_line(make: Make, call: Call) -> None:
    """Every pair has its own line, with the corrected p-value beside; verdicts are by that one.

    A regression fails when asked to, which needs a baseline.
    """
    for name, texts in (("good", RIGHT), ("middle", "AABBAABB????"), ("bad", WRONG)):
        make(name, texts)
    shown = call("compare", "good", "middle", "bad", "--flips", "0").out
    assert "p (Holm): corrected for 3 comparisons; significant below 0.05" in shown
    assert "  better: A than C, B than C\n  not significant: A - B\n" in shown
    assert "right" not in shown.split("p (Holm): ")[1]
    for run, baseline, code in (("bad", "good", 1), ("middle", "good", 0), ("good", "bad", 0)):
        assert call("compare", run, "--baseline", baseline).code == 0
        assert call("compare", run, "--baseline", baseline, "--fail-on-regression").code == code
    refused = call("compare", "good", "bad", "--fail-on-regression")
    assert (refused.code, "`--baseline RUN`" in refused.err) == (2, True)
    compared = call("compare", "good", "bad", "--baseline", "bad", "--json").json["comparison"]
    ((pair,),) = [task["pairs"] for task in compared["tasks"]]
    assert (compared["baseline"], pair["first"], pair["second"]) == ("bad", "good", "bad")
    assert pair["n"] == 12
    assert (pair["difference"], pair["p"], pair["p_method"]) == (1.0, 2 / 2**12, "mcnemar_exact")
    assert pair["flips"] == {"both": 0, "first_only": 12, "second_only": 0, "neither": 0}
    assert (len(pair["first_only"]), pair["second_only"], pair["is_significant"]) == (12, [], True)


def test_clusters_and_what_is_refused_on_the_command_line(make: Make, call: Call) -> None:
    """The column, how many clusters, and whether their number is corrected for.

    Exit 2 with the reason.
    """
    for name, texts in (("a", RIGHT), ("b", "AABBAABB????")):
        make(name, rows_of(texts, passage="aabbccddeeff"))
    make("five", rows_of(RIGHT, passage="aabbccddeeff")[:5])
    shown = call("compare", "a", "b", "--cluster-by", "passage").out
    assert "clustered by passage: 6 clusters" in shown
    assert "p: t test over clusters" in shown
    refused = call("compare", "a", "five")
    assert refused.code == 2
    message = "the runs have other samples: 7 samples of `a` are not in `five`"
    assert f"error[E508]: {message}" in refused.err
    common = call("compare", "a", "five", "--common", "--json").json["comparison"]
    assert common["comparisons"] == 1
