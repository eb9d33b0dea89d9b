"""Files with any mistakes give errors, never a crash.

What loads cleanly builds again from its source.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML

from answerkey.spec import Overrides, load_plan, task_from_source

RUN: dict[str, object] = YAML(typ="safe").load("""
secrets: {A: x}
models:
  - {$provider: openai/x}
  - {key: m, display_name: M, config: {url: x, api_key: << secrets.A >>, adapter: {key: a}}}
model_adapters: [{key: a, process_input: {source_code: x}, process_output: {source_code: x}}]
datasets:
  - key: rows
    display_name: I
    source: {type: inline, rows: [{a: 1}], filters: [{op: equals, expression: sample.a, value: 1}]}
  - {key: file, display_name: F, source: {type: local, file_path: x.csv}}
tasks:
  - key: t
    display_name: T
    description: d
    config_spec:
      - {type: dataset_column, key: answer, display_name: A, default_value: answer key}
      - {type: list, dtype: integer, key: l, display_name: L, default_value: [1]}
    definition:
      dataset: {key: rows}
      solver:
        type: single_turn_solver
        input_builder: {type: chat_completion, input_messages: [{role: user, content: "{{ sample.q }}"}]}
        examples: {dataset: rows, num_examples: 1}
      scorers:
        - type: string_equals_mcqa
          ground_truth_choice: "{{ sample.<< config.answer >> }}"
          choices_field: choices
          metrics: [{type: mean, field: is_correct, name: Acc}]
        - type: python
          compute_scores_snippet: "def compute_scores(sample): return {}"
          metrics: [{type: weighted_average, field: x, weights: {a: 1}}]
      actions: [{key: x, filter: {op: in, expression: "{{ sample.a }}", values: [1]}}]
evaluation:
  key: e
  config_spec: [{type: int, key: n, display_name: N, default_value: 3}]
  task_specifications:
    - {task_key: t, task_config: {answer: b}, num_samples: << config.n >>, model_key: builtin/random}
run_config: {num_samples: 3}
config: {n: 4}
""")  # noqa: E501 - the text as it is written
ODD: list[object] = [
    *(
        None,
        True,
        3,
        1.5,
        10**400,
        float("nan"),
        "",
        "x",
        "a" * 300,
        "\ud800",
        "a\0b",
        "<< config.zzz >>",
    ),
    *("<< config.n >>", "<< secrets.A >>", "$X", "{{ x", "{{ sample.y }}", [], {}, [1], {"a": 1}),
    *(
        ["x", {"type": "mean"}],
        {"type": "mean"},
        {"$ref": "none.yaml"},
        {"$ref": "\0"},
        {"$ref": 3},
    ),
]
KEYS = [
    "keyy",
    "type",
    "key",
    "trials",
    "file_path",
    "choices_field",
    "mode",
    "$ref",
    "metrics",
    "policies",
]

Way = tuple[str | int, ...]


def list_ways(value: object, way: Way = ()) -> Iterator[Way]:
    """Yield the way to every value."""
    if way:
        yield way
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, inner in pairs:
        yield from list_ways(inner, (*way, step))


def spoil(seed: int) -> dict[str, object]:
    """Return the run with one to four things replaced, removed or added."""
    chance = random.Random(seed)
    run = copy.deepcopy(RUN)
    for _ in range(chance.randint(1, 4)):
        way = chance.choice(list(list_ways(run)))
        holder: object = run
        for step in way[:-1]:
            holder = holder[step]  # type: ignore[index]  # the way leads through lists and mappings
        kind = chance.random()
        odd = copy.deepcopy(chance.choice(ODD))
        if kind < 0.3 and isinstance(holder, dict):
            holder[chance.choice(KEYS)] = odd
        elif kind < 0.5:
            del holder[way[-1]]  # type: ignore[attr-defined]  # same
        else:
            holder[way[-1]] = odd  # type: ignore[index]  # same
    return run


@pytest.mark.parametrize("start", range(0, 400, 40))
def test_mistakes_are_reported_not_raised(start: int) -> None:
    """Whatever is wrong with a run is reported with a code.

    A clean task is built again from its source.
    """
    for seed in range(start, start + 40):
        loaded = load_plan(spoil(seed), Overrides())
        assert all(str(error).startswith("error[E") for error in loaded.errors)
        for one in loaded.value.specifications if loaded.value and not loaded.errors else ():
            assert task_from_source(one.task.source) == one.task


def test_the_run_itself_is_clean() -> None:
    """The run that is spoilt above has no mistakes."""
    loaded = load_plan(RUN, Overrides())
    assert loaded.errors == []
    assert loaded.value is not None
