from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import answerkey.spec
from answerkey.spec.nodes import ProblemList, parse_yaml, to_plain
from answerkey.spec.schema import FileKind, schema

from .conftest import DATASET, RUN, TASK

EXAMPLES = Path(answerkey.spec.__file__).parent / "quickstart"
GATES = Path(__file__).parents[3] / "examples" / "gates" / "run.yaml"

TEMPLATED = """\
key: t
display_name: T
description: !include words.md
tags: << config.tags >>
config_spec: {$ref: parameters.yaml}
definition:
  dataset: {key: << config.dataset >>, fast_subset_size: 3}
  solver: {$ref: solver.yaml}
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice_field: x
      choices: [A, 2]
      purpose: << config.purpose >>
      metrics: << config.metrics >>
    - {$ref: scorer.yaml, key: second}
  actions: [{key: a, filter: {op: in, expression: "{{ sample.x }}", values: [1]}}]
"""
TRIALS = """\
  trials:
    num_trials: %d
    score_aggregators: [{score_name: is_correct, aggregator: {function: pass^k_plugin, k: 2}}]
"""
OLD_RUN = """\
secrets: {A: $A}
models: [{$provider: openai/gpt-4}, {key: m, display_name: M, config: {url: x, api_key: << secrets.A >>}}]
datasets: [{key: q, display_name: Q, file_path: q.csv}, {$ref: d.yaml}]
tasks: [{$ref: t.yaml}]
evaluation:
  key: e
  mode: debug
  task_specifications:
    - task_key: t
      num_samples: << config.n >>
      model_key: builtin/constant?choice=A
      generation: {logprobs: yes}
run_config: {num_samples: "10", subsampling: random, seed: $SEED}
"""  # noqa: E501 - the text as it is written


def faults(kind: FileKind, text: str) -> list[str]:
    """Return what the schema of a kind of file has against a YAML text."""
    plain = to_plain(parse_yaml(text, None, ProblemList()))
    return [error.message for error in Draft202012Validator(schema(kind)).iter_errors(plain)]


@pytest.mark.parametrize("kind", ["task", "run", "dataset", "model"])
def test_the_schema_is_one(kind: FileKind) -> None:
    """Each kind of file has a valid JSON Schema of 2020-12."""
    result = schema(kind)
    Draft202012Validator.check_schema(result)
    assert result["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert result["title"] == f"answerkey {kind} file"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("task", TASK),
        ("task", TEMPLATED),
        ("task", TASK + TRIALS % 3),
        ("run", RUN),
        ("run", OLD_RUN),
        ("dataset", DATASET),
        ("dataset", "key: q\ndisplay_name: Q\nsource: {type: inline, rows: [{a: 1}], filters: []}\n"),  # noqa: E501 - one case, one line
        ("dataset", "source: {type: local, file_path: q.csv, questions: {options: [A, B], truth: 'x:0'}}\n"),  # noqa: E501 - same
        ("task", TASK.replace("key: mcqa\n", "", 1)),
        ("model", "key: m\ndisplay_name: M\nconfig: {connection_type: placeholder}\n"),
        ("task", (EXAMPLES / "task.yaml").read_text(encoding="utf-8")),
        ("run", (EXAMPLES / "run.yaml").read_text(encoding="utf-8")),
        ("dataset", (EXAMPLES / "dataset.yaml").read_text(encoding="utf-8")),
        ("run", GATES.read_text(encoding="utf-8")),
    ],
)  # fmt: skip
def test_what_the_loader_accepts_is_accepted(kind: FileKind, text: str) -> None:
    """Old names, `<< config.x >>`, environment values and `$ref` in place of values are
    accepted.
    """
    assert faults(kind, text) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("task", TASK.replace("display_name: Questions", "display_nam: Questions")),
        ("task", TASK.replace("string_equals_mcqa", "string_equals_mcq")),
        ("task", TASK + "      purpose: grade\n"),
        ("task", TASK + TRIALS % 1),
        ("task", TASK + "      metrics: [{type: mean, fild: x}]\n"),
        ("run", RUN + "      num_samples: many\n"),
        ("run", RUN + "policies: {}\n"),
        ("run", RUN + "policies: {rules: [{key: x, definition: {type: treshold, metric: m}}]}\n"),
        ("run", RUN + "policies: [{key: p, rules: [{key: x, definition: {type: exists}}]}]\n"),
        ("dataset", DATASET.replace("local", "url")),
        ("model", "key: m\ndisplay_name: M\n"),
    ],
)
def test_mistakes_are_found_by_editors_too(kind: FileKind, text: str) -> None:
    """An unknown key, type or word is not accepted."""
    assert faults(kind, text) != []
