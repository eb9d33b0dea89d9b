"""Numbers that independent code has computed from real completions, reproduced to every printed
digit.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.projects import SCORER, write_task

from answerkey.cli import main

from .conftest import Call

HELM = Path(__file__).parents[4] / "shared" / "data" / "helm_mmlu" / "helm_mmlu.jsonl"
OPUS, GPT4O = "anthropic_claude-3-opus-20240229", "openai_gpt-4o-2024-05-13"
pytestmark = pytest.mark.skipif(not HELM.exists(), reason="the shared material is not here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the runs of two models over all 57 subjects."""
    result = tmp_path_factory.mktemp("helm")
    write_task(result / "task.yaml", {**SCORER, "choices": [*"ABCD"]}, name="MMLU")
    for name in (OPUS, GPT4O):
        words = f"score {result}/task.yaml --dataset {HELM} --out {result}/{name}".split()
        assert main([*words, "--completion-column", f"completions.{name}", "-q"]) == 0
    return result


def test_accuracy_with_its_error_and_interval(call: Call, folder: Path) -> None:
    """11,918 of 14,014: 0.850435, standard error 0.003013, Wilson [0.844435, 0.856244].

    Macro 0.8458.
    """
    shown = call("show", folder / OPUS, "--digits", "6").out
    assert "  Accuracy  0.850435  [0.844435, 0.856244]    0.003013  14014\n" in shown
    assert "  macro average                        0.845777  [" in shown
    assert call("show", folder / OPUS, "--json").json["tasks"][0]["metrics"][0]["details"] == {
        "count": 11_918,
        "of": 14_014,
    }


def test_error_clustered_by_subject(call: Call, folder: Path) -> None:
    """0.019331 with the correction for 57 clusters."""
    shown = call("show", folder / OPUS, "--cluster-by", "subject", "--digits", "6").out
    line = next(row for row in shown.splitlines() if row.startswith("  Accuracy"))
    assert line.split()[-2:] == ["0.019331", "14014"]
    assert "57 clusters" in shown


def test_macro_average_over_subjects(call: Call, folder: Path) -> None:
    """0.8458, beside the micro average 0.8504."""
    shown = call("show", folder / OPUS, "--group-by", "subject", "--digits", "4").out
    table = shown.split("Averages by subject")[1]
    line = next(row for row in table.splitlines() if "Accuracy" in row)
    assert line.split()[:3] == ["Accuracy", "0.8504", "0.8458"]


def test_paired_difference(call: Call, folder: Path) -> None:
    """+0.002283, flips 831/799, exact p 0.44259."""
    shown = call("compare", folder / OPUS, folder / GPT4O, "--digits", "6", "--flips", "0").out
    line = next(row for row in shown.splitlines() if row.startswith("  A - B"))
    assert line.split()[3] == "+0.002283"
    assert line.split()[-2:] == ["831/799", "0.44259"]
    assert "0.848152  14014\n" in shown
