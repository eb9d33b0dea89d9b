"""Bundles of the hosted platform run as they are, in both eras of the format.

What is foreign is one list.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answerkey.cli import main
from answerkey.models.config import CustomConfig, ModelConfig
from answerkey.spec import Options, load_plan
from answerkey.testing import TestServer

#: What people have on their disks: both eras, what is foreign, a folder of documents.
BUNDLES = Path(__file__).parent / "bundles"
UNSUPPORTED = "of the original platform is not supported"


def test_a_bundle_of_the_later_era_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Provider models, secrets, the evaluation's own config, policies: nothing is changed."""
    monkeypatch.setenv("ENDPOINT_KEY", "sk-secret")
    with TestServer("B") as server:
        monkeypatch.setenv("ENDPOINT", f"{server.url}/chat/completions")
        code = main(["run", str(BUNDLES / "later"), "--out", str(tmp_path), "--json", "-q"])
    result = json.loads(capsys.readouterr().out)
    assert code == 0
    (task,) = result["tasks"]
    assert (task["key"], task["counts"]["samples"]) == ("mcqa-own", 2)
    assert [(one["name"], one["value"]) for one in task["metrics"]] == [("MCQA Accuracy", 0.5)]
    assert [gate["status"] for gate in result["gates"]] == ["PASS", "PASS"]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"sk-secret" not in path.read_bytes()


def test_a_bundles_provider_model_has_the_platforms_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """`openai/gpt-4.1-nano` is `openai$gpt-4-1-nano`; `--config` chooses it."""
    for name in ("ENDPOINT_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("ENDPOINT", "http://127.0.0.1:9/v1/chat/completions")
    config = {"model_key": "openai$gpt-4-1-nano", "how_many": "1"}
    loaded = load_plan(BUNDLES / "later", Options(config=config))
    assert loaded.errors == []
    (job,) = loaded.jobs
    assert isinstance(job.model_choice, ModelConfig)
    assert not isinstance(job.model_choice.config, CustomConfig)
    assert job.selection.num_samples == 1


def test_a_bundle_of_the_seed_era_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Old names, lists in CSV cells and recorded traces are read; each old name warns once."""
    assert main(["run", str(BUNDLES / "seed"), "--out", str(tmp_path), "--json", "-q"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert [(metric["name"], metric["value"], metric["n"]) for metric in task["metrics"]] == [
        ("MCQA Accuracy", 0.5, 2)
    ]
    notices = load_plan(BUNDLES / "seed").notices
    assert sorted(notice.message.split("`")[1] for notice in notices) == [
        "choices_field",
        "entity_key",
        "evaluated_entity_type",
        "fast_subset_size",
        "file_path",
        "ground_truth_choice_field",
        "mode",
        "type: declarative_task",
    ]


def test_foreign_parts_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything runs, each with its place and what to do instead."""
    out = tmp_path / "out"
    assert main(["run", str(BUNDLES / "foreign"), "--out", str(out), "-q"]) == 2
    messages = capsys.readouterr().err
    heads = [line for line in messages.splitlines() if line.startswith("error")]
    assert heads == [
        f"error[E116]: `dataset_generators` {UNSUPPORTED}",
        f"error[E116]: `generator_specification` {UNSUPPORTED}",
        f"error[E116]: source type `langsmith` {UNSUPPORTED}",
        f"error[E116]: source type `inspect_ai` {UNSUPPORTED}",
        "error[E303]: solver type `multi_turn_solver` is outside the scope of multiple choice",
        "error[E303]: solver type `python` is outside the scope of multiple choice",
        f"error[E116]: scorer type `bleu` {UNSUPPORTED}",
        f"error[E116]: scorer type `python_all_samples` {UNSUPPORTED}",
        f"error[E116]: `postprocessor` {UNSUPPORTED}",
        f"error[E116]: scorer type `rag_checker` {UNSUPPORTED}",
        f"error[E116]: scorer type `function_call_coverage` {UNSUPPORTED}",
    ]
    assert messages.count("  = help: ") == len(heads)
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("key: p\nevaluations: []\n", "E116", f"`evaluations` {UNSUPPORTED}"),
        (
            "key: e\ntask_specifications: []\n",
            "E108",
            "the file is an evaluation, which stands under `evaluation` of a run file",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, code: str, message: str) -> None:
    """The hint says what to write instead."""
    (tmp_path / "run.yaml").write_text(text)
    loaded = load_plan(tmp_path)
    assert [(error.code, error.message) for error in loaded.errors] == [(code, message)]
    assert loaded.errors[0].hint


def test_document_folders_are_datasets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row for each, as where the source comes from."""
    words = ["--completion-column", "content", "--json", "-q"]
    assert main(["run", str(BUNDLES / "folder"), "--out", str(tmp_path), *words]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert [(metric["value"], metric["n"]) for metric in task["metrics"]] == [(1.0, 2)]
