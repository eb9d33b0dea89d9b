"""Real files, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets.recorded import find_own_completions
from answerkey.datasets.tables import FileFields, load_table

FOLDER = Path(__file__).parents[4] / "shared" / "data"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder with real files is not there")


def test_helm_completions_are_fields_of_a_struct() -> None:
    """The completions of ten models to 14,014 questions are read natively and reached by dotted names."""
    samples = load_table(FOLDER / "helm_mmlu" / "helm_mmlu.jsonl").samples
    assert len(samples) == 14_014
    assert isinstance(samples.frame.schema["completions"], pl.Struct)
    for model, right in (("anthropic_claude-3-opus-20240229", 11_918), ("openai_gpt-4o-2024-05-13", 11_886)):
        own = find_own_completions(samples, column=f"completions.{model}")
        assert own is not None
        assert (own.read(samples).frame["completion"] == samples.frame["answer"]).sum() == right


def test_redux_choices_are_python_lists() -> None:
    """Lists written by Python into CSV cells are read as lists of four."""
    path = FOLDER / "helm_mmlu" / "mmlu_redux_5700_with_14_models.csv"
    samples = load_table(path, FileFields(columns={"choices": "list", "groundtruth_answer": "int"})).samples
    assert samples.frame["choices"].list.len().unique().to_list() == [4]
    assert samples.frame["groundtruth_answer"].unique().sort().to_list() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("arc_challenge/ARC-Challenge-Test.jsonl", 1172),
        ("arc_challenge/ARC-Challenge-Dev.jsonl", 299),
        ("agieval/logiqa-zh.jsonl", 651),
        ("tricky_completions.jsonl", 58),
    ],
)
def test_real_files_are_read_whole(name: str, count: int) -> None:
    """No row is lost."""
    assert len(load_table(FOLDER / name).samples) == count
