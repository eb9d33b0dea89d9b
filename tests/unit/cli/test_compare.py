from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
TASK = """\
key: small
display_name: Small
description: Twelve questions.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: ["A", "B"]
"""
TRUTHS = "AABBAABBAABB"
SAID = {"good": "AABBAABBAABB", "middle": "AABBAABB????", "bad": "????????????"}


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, call: Call) -> None:
    """Make three finished runs on the same samples below `runs`."""
    (tmp_path / "task.yaml").write_text(TASK)
    rows = [
        {"answer": truth, "category": "xy"[place % 2], **{name: said[place] for name, said in SAID.items()}}
        for place, truth in enumerate(TRUTHS)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in SAID:
        words = ("--dataset", "rows.jsonl", "--completion-column", name, "--out", f"runs/{name}")
        assert call("score", "task.yaml", *words).code == 0


def test_two_runs_are_compared(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs, their difference with interval and tests, flips by name, categories; within 80 cells."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("compare", "runs/good", "middle")
    assert shown.code == 0
    assert "small  2 runs on 12 samples\n" in shown.out
    assert "  A  good    good      100.00 %  12\n" in shown.out
    assert "         points  95 % interval     SE  flips        p    mid-p\n" in shown.out
    assert "  A - B  +33.33  [2.20, 60.94]  14.21    4/0  0.12500  0.06250\n" in shown.out
    assert "  may be chance: A - B\n" in shown.out
    assert "  A right, B not (4): 000009, 000010, 000011, 000012\n" in shown.out
    assert "  B right, A not (0): none\n" in shown.out
    assert "  By category  n         A        B   A - B    95 % interval\n" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80


def test_several_runs_are_corrected_for_their_number(call: Call) -> None:
    """Every pair has its own line, with the corrected p-value beside; verdicts are by that one."""
    shown = call("compare", *SAID, "--flips", "0")
    assert "p (Holm): corrected for 3 comparisons; it decides, below 0.05" in shown.out
    assert "  better: A than C, B than C\n" in shown.out
    assert "  may be chance: A - B\n" in shown.out
    assert "right" not in shown.out.split("p (Holm): ")[1]


def test_digits_are_plain_numbers(call: Call) -> None:
    """With `--digits` shares are fractions."""
    shown = call("compare", "good", "middle", "--digits", "4")
    assert "  A - B  +0.3333  [0.0220, 0.6094]  0.1421    4/0  0.12500  0.06250\n" in shown.out


@pytest.mark.parametrize(("run", "code"), [("bad", 1), ("middle", 0), ("good", 0)])
def test_a_regression_fails_when_asked_to(call: Call, run: str, code: int) -> None:
    """Exit 1 only for a run that is significantly worse than the baseline, and only with the option."""
    words = ("compare", run, "--baseline", "good") if run != "good" else ("compare", run, "--baseline", "bad")
    assert call(*words).code == 0
    assert call(*words, "--fail-on-regression").code == code


def test_a_regression_needs_a_baseline(call: Call) -> None:
    """Worse than what, must be said."""
    refused = call("compare", "good", "bad", "--fail-on-regression")
    assert refused.code == 2
    assert "`--baseline RUN`" in refused.err


def test_json_has_everything(call: Call) -> None:
    """Every flip and every category, all digits, one object."""
    found = call("compare", "good", "bad", "--baseline", "bad", "--json").json["comparison"]
    (task,) = found["tasks"]
    (pair,) = task["pairs"]
    assert (found["baseline"], pair["first"], pair["second"], pair["n"]) == ("bad", "good", "bad", 12)
    assert (pair["difference"], pair["p"], pair["p_method"]) == (1.0, 2 / 2**12, "mcnemar_exact")
    assert pair["flips"] == {"both": 0, "first_only": 12, "second_only": 0, "neither": 0}
    assert (len(pair["first_only"]), pair["second_only"], pair["is_significant"]) == (12, [], True)
    assert [one["category"] for one in pair["categories"]] == ["x", "y"]
    assert [run["mean"] for run in task["runs"]] == [1.0, 0.0]


def test_runs_that_cannot_be_compared_are_refused(call: Call) -> None:
    """Exit 2, with the reason; what is missing on either side is named."""
    words = (
        "--dataset",
        "rows.jsonl",
        "--completion-column",
        "good",
        "--num-samples",
        "5",
        "--out",
        "runs/five",
    )
    call("score", "task.yaml", *words)
    refused = call("compare", "good", "five")
    assert refused.code == 2
    assert "error[E508]: the runs have other samples: 7 samples of `good` are not in `five`" in refused.err
    assert call("compare", "good", "five", "--common").code == 0


def test_clusters_are_told(call: Call) -> None:
    """The column, how many clusters, and whether their number is corrected for."""
    rows = Path("rows.jsonl").read_text().splitlines()
    with_passages = [json.dumps(json.loads(row) | {"passage": place // 2}) for place, row in enumerate(rows)]
    Path("more.jsonl").write_text("\n".join(with_passages))
    for name in ("good", "middle"):
        words = ("--dataset", "more.jsonl", "--completion-column", name, "--out", f"runs/more-{name}")
        assert call("score", "task.yaml", *words).code == 0
    shown = call("compare", "more-good", "more-middle", "--cluster-by", "passage", "--uncorrected")
    assert "clustered by passage: 6 clusters, without the correction C/(C-1)\n" in shown.out
    assert "p: t test over clusters" in shown.out
