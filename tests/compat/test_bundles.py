"""Bundles of the hosted platform run as they are, in both eras of the format.

What is foreign is one list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from answerkey.cli import main
from answerkey.models.config import CustomConfig, ModelConfig
from answerkey.spec import Options, load_plan
from answerkey.testing import TestServer

ROWS = """\
{"prompt": "Largest planet? A) Mars B) Jupiter", "answer": "B", "choices": ["A", "B"]}
{"prompt": "Metal? A) Iron B) Wood", "answer": "A", "choices": ["A", "B"]}
"""
LATER = {
    "run.yaml": """\
secrets: {ENDPOINT_KEY: $ENDPOINT_KEY}
models:
  - $provider: "openai/gpt-4.1-nano"
  - $ref: "./models/own.yaml"
datasets:
  - $ref: "./datasets/mcqa.yaml"
tasks:
  - $ref: "./tasks/mcqa.yaml"
evaluation:
  key: "mcqa-evaluation"
  display_name: "MCQA"
  tags: ["Guides"]
  config_spec:
    - {key: "model_key", type: "model", display_name: "Model", description: "Who answers."}
    - {key: "how_many", type: "int", display_name: "Samples", default_value: 2, min: 1}
  task_specifications:
    - key: "mcqa-own"
      task_key: "mcqa"
      model_key: "<< config.model_key >>"
      num_samples: "<< config.how_many >>"
      task_config:
        answer_column: "answer"
config:
  model_key: "own"
policies:
  - key: "gate"
    display_name: "Gate"
    description: "What a model must show."
    rules:
      - key: "good"
        display_name: "Good"
        description: "Above a third."
        definition: {type: "threshold", metric: "MCQA Accuracy", operator: ">", threshold: 0.33}
        scope: "all_latest"
      - key: "measured"
        display_name: "Measured"
        definition: {type: "exists", metric: "MCQA Accuracy"}
        scope: {evaluation_keys: ["mcqa-evaluation"], task_specification_keys: ["mcqa-own"]}
""",
    "models/own.yaml": """\
key: "own"
display_name: "Own"
rate_limit: 6000
max_concurrent_requests: 2
task: "chat_completion"
config:
  connection_type: "custom_connection"
  url: "$ENDPOINT"
  api_key: "<< secrets.ENDPOINT_KEY >>"
  model_key: "tiny"
  adapter: {key: "latticeflow$openai_chat_completion"}
""",
    "datasets/mcqa.yaml": """\
display_name: "Questions"
key: "mcqa"
description: "Two questions."
source: {type: "local", file_path: "./mcqa.jsonl"}
""",
    "datasets/mcqa.jsonl": ROWS,
    "tasks/mcqa.yaml": """\
display_name: "Multiple Choice"
key: "mcqa"
description: >
  Accuracy on multiple choice questions.
config_spec:
  - {key: "dataset_key", type: "dataset", display_name: "Dataset", default_value: "mcqa"}
  - {key: "answer_column", type: "dataset_column", display_name: "Answer Column"}
definition:
  evaluated_entity_type: "model"
  dataset: {key: "<< config.dataset_key >>"}
  solver:
    type: "single_turn_solver"
    input_builder:
      type: "chat_completion"
      input_messages:
        - {role: "system", content: "Answer with a single letter."}
        - {role: "user", content: "{{ sample.prompt }}"}
  scorers:
    - type: "string_equals_mcqa"
      ground_truth_choice: "{{ sample.<< config.answer_column >> }}"
      choices: "{{ sample.choices }}"
      metrics:
        - {type: "mean", field: "is_correct", name: "MCQA Accuracy"}
""",
}
SEED = {
    "run.yaml": """\
models:
  - key: "silent"
    display_name: "Silent"
    task: "chat_completion"
    adapter: {key: "latticeflow$identity"}
    config: {connection_type: "placeholder"}
datasets:
  - {key: "mcqa", display_name: "Questions", file_path: "mcqa.csv"}
tasks:
  - display_name: "Multiple Choice"
    key: "mcqa"
    description: "Recorded replies."
    evaluated_entity_type: "model"
    config_spec:
      - {type: "dataset_column", key: "col", display_name: "Column", default_value: "answer"}
    definition:
      type: "declarative_task"
      dataset: {key: "mcqa", fast_subset_size: 5}
      solver: {type: "pass_through_solver", message_format: "open_responses", trace_column: "trace"}
      scorers:
        - type: "string_equals_mcqa"
          ground_truth_choice_field: "<< config.col >>"
          choices_field: "choices"
          metrics: [{type: "mean", field: "is_correct", name: "MCQA Accuracy"}]
evaluation:
  key: "seed"
  display_name: "Seed"
  mode: "debug"
  task_specifications:
    - {task_key: "mcqa", entity_key: "silent", task_config: {col: "answer"}}
""",
    "mcqa.csv": (
        "prompt,answer,choices,trace\n"
        '"Largest?",B,"[\'A\', \'B\']","{""FORMAT"": ""open_responses"", ""items"": [{""type"":'
        ' ""message"", ""role"": ""user"", ""content"": ""?""}, {""type"": ""message"", ""role"":'
        ' ""assistant"", ""content"": [{""type"": ""output_text"", ""text"": ""B""}]}]}"\n'
        "\"Metal?\",A,\"['A', 'B']\",B\n"
    ),
}


def write_bundle(files: Mapping[str, str], folder: Path) -> None:
    """Write the files of a bundle."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_bundle_of_the_later_era_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Provider models, secrets, the evaluation's own config, policies: nothing is changed for
    it.
    """
    write_bundle(LATER, tmp_path)
    monkeypatch.setenv("ENDPOINT_KEY", "sk-secret")
    with TestServer("B") as server:
        monkeypatch.setenv("ENDPOINT", f"{server.url}/chat/completions")
        code = main(["run", str(tmp_path), "--out", str(tmp_path / "out"), "--json", "-q"])
    result = json.loads(capsys.readouterr().out)
    assert code == 0
    (task,) = result["tasks"]
    assert (task["key"], task["counts"]["samples"]) == ("mcqa-own", 2)
    assert [(one["name"], one["value"]) for one in task["metrics"]] == [("MCQA Accuracy", 0.5)]
    assert [gate["status"] for gate in result["gates"]] == ["PASS", "PASS"]
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"sk-secret" not in path.read_bytes()


def test_the_provider_model_of_a_bundle_has_the_platforms_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`openai/gpt-4.1-nano` is `openai$gpt-4-1-nano`; `--config` chooses it."""
    write_bundle(LATER, tmp_path)
    for name in ("ENDPOINT_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("ENDPOINT", "http://127.0.0.1:9/v1/chat/completions")
    loaded = load_plan(
        tmp_path, Options(config={"model_key": "openai$gpt-4-1-nano", "how_many": "1"})
    )
    assert loaded.errors == []
    (one,) = loaded.jobs
    assert isinstance(one.model_choice, ModelConfig)
    assert not isinstance(one.model_choice.config, CustomConfig)
    assert one.selection.num_samples == 1


def test_a_bundle_of_the_seed_era_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Old names, an old place for the file, lists in CSV cells, recorded traces: each old name
    warns once.
    """
    write_bundle(SEED, tmp_path)
    assert main(["run", str(tmp_path), "--out", str(tmp_path / "out"), "--json", "-q"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert [(one["name"], one["value"], one["n"]) for one in task["metrics"]] == [
        ("MCQA Accuracy", 0.5, 2)
    ]
    loaded = load_plan(tmp_path)
    told = sorted(notice.message.split("`")[1] for notice in loaded.notices)
    assert told == [
        "choices_field",
        "entity_key",
        "evaluated_entity_type",
        "fast_subset_size",
        "file_path",
        "ground_truth_choice_field",
        "mode",
        "type: declarative_task",
    ]


FOREIGN = """\
dataset_generators:
  - {key: maker, display_name: Maker}
datasets:
  - {key: made, display_name: Made, generator_specification: {dataset_generator_key: maker, num_samples: 5}}
  - {key: traces, display_name: Traces, source: {type: langsmith, project: x}}
  - {key: logs, display_name: Logs, source: {type: inspect_ai, file_path: x.eval}}
  - {key: q, display_name: Q, source: {type: inline, rows: [{question: x, answer: A}]}}
tasks:
  - key: talk
    display_name: Talk
    description: Several turns.
    definition:
      dataset: {key: q}
      solver: {type: multi_turn_solver}
      scorers: [{type: string_equals, ground_truth: A}]
  - key: own
    display_name: Own
    description: A solver of the user's own.
    definition:
      dataset: {key: q}
      solver: {type: python, run_solver_snippet: x}
      scorers: [{type: bleu, ground_truth: A}, {type: python_all_samples}]
  - key: after
    display_name: After
    description: Something after the solver.
    definition:
      dataset: {key: q}
      solver:
        type: single_turn_solver
        input_builder: {type: chat_completion, input_messages: [{role: user, content: x}]}
        postprocessor: {type: python, postprocess_snippet: x}
      scorers: [{type: rag_checker}, {type: function_call_coverage}]
evaluation:
  key: all
  task_specifications:
    - {task_key: talk, model_key: builtin/random}
    - {task_key: own, model_key: builtin/random}
    - {task_key: after, model_key: builtin/random}
"""  # noqa: E501 - the text as it is written


def test_what_is_foreign_is_refused_by_name_in_one_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs, each with its place and what to do instead."""
    (tmp_path / "run.yaml").write_text(FOREIGN)
    assert main(["run", str(tmp_path), "--out", str(tmp_path / "out"), "-q"]) == 2
    told = capsys.readouterr().err
    heads = [line for line in told.splitlines() if line.startswith("error")]
    assert heads == [
        "error[E116]: `dataset_generators` of the original platform is not done",
        "error[E116]: `generator_specification` of the original platform is not done",
        "error[E116]: source type `langsmith` of the original platform is not done",
        "error[E116]: source type `inspect_ai` of the original platform is not done",
        "error[E303]: solver type `multi_turn_solver` is outside the scope of multiple choice",
        "error[E303]: solver type `python` is outside the scope of multiple choice",
        "error[E116]: scorer type `bleu` of the original platform is not done",
        "error[E116]: scorer type `python_all_samples` of the original platform is not done",
        "error[E116]: `postprocessor` of the original platform is not done",
        "error[E116]: scorer type `rag_checker` of the original platform is not done",
        "error[E116]: scorer type `function_call_coverage` of the original platform is not done",
    ]
    assert told.count("  = help: ") == len(heads)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "key: p\nevaluations: []\n",
            "E116",
            "`evaluations` of the original platform is not done",
        ),
        (
            "key: e\ntask_specifications: []\n",
            "E108",
            "the file is an evaluation, which stands under `evaluation` of a run file",
        ),
    ],
)
def test_files_that_are_no_run_files_are_told(
    tmp_path: Path, text: str, code: str, message: str
) -> None:
    """With what to write instead."""
    (tmp_path / "run.yaml").write_text(text)
    loaded = load_plan(tmp_path)
    assert [(error.code, error.message) for error in loaded.errors] == [(code, message)]
    assert loaded.errors[0].hint


FOLDERS = {
    "run.yaml": """\
datasets:
  - {key: cards, display_name: Cards, source: {type: folder, directory_path: "cards", extension: "md"}}
tasks:
  - key: cards
    display_name: Cards
    description: Questions as documents.
    definition:
      scorers:
        - {type: string_equals_mcqa, ground_truth_choice: "{{ sample.content | trim }}", choices: [A, B]}
""",  # noqa: E501 - the text as it is written
    "cards/one.md": "A\n",
    "cards/more/two.md": "B\n",
}


def test_a_folder_of_documents_is_a_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row for each, as where the source comes from."""
    write_bundle(FOLDERS, tmp_path)
    words = ["--completion-column", "content", "--json", "-q"]
    assert main(["run", str(tmp_path), "--out", str(tmp_path / "out"), *words]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert [(one["value"], one["n"]) for one in task["metrics"]] == [(1.0, 2)]
