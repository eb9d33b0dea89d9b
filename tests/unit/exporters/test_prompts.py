"""Laws of `export-prompts`: what a run would ask, with the ids by which replies are joined
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.projects import SCORER as MCQA
from tests.projects import describe_solver, make_task

import answerkey as ak
from answerkey.exporters import export_prompts
from answerkey.testing import TestServer

Call = Callable[..., Any]

SOLVER = describe_solver(
    "{{ sample.question }}\nA. {{ sample.options[0] }}\nB. {{ sample.options[1] }}"
)
SOLVER["input_builder"]["input_messages"][:0] = [
    {"role": "system", "content": "Answer with a letter."}
]
SCORER = MCQA | {"options": "{{ sample.options }}"}
ROWS: list[dict[str, Any]] = [
    {"sample_id": f"s{n}", "question": f'Which, "{n}"?', "answer": "AB"[n % 2]} for n in range(12)
]
for row in ROWS:
    row["options"] = ["=1", "x,y"]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that writes a run file.

    `model` and more parts of the definition may be given.
    """
    monkeypatch.chdir(tmp_path)

    def write_run(model: str | None = None, **definition: Any) -> Path:  # noqa: ANN401 - YAML
        task = make_task(SCORER, name="T", dataset={"key": "q"}, solver=SOLVER)
        task["definition"] |= definition
        dataset = {"key": "q", "display_name": "Q", "source": {"type": "inline", "rows": ROWS}}
        content: dict[str, Any] = {"datasets": [dataset], "tasks": [task]}
        if model:
            step = {"task_key": "t", "model_key": model}
            content["evaluation"] = {"key": "e", "display_name": "E", "task_specifications": [step]}
        (tmp_path / "run.yaml").write_text(json.dumps(content))
        return tmp_path / "run.yaml"

    return write_run


def read(name: str) -> pl.DataFrame:
    """Return what was written, whatever its form; lists and structs of CSV are JSON text."""
    if name.endswith(".csv"):
        frame = pl.read_csv(name)
        return frame.with_columns(pl.Series("messages", map(json.loads, frame["messages"])))
    return pl.read_parquet(name) if name.endswith(".parquet") else pl.read_ndjson(name)


def reply(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the completions of an engine that answers A to even questions, in another order."""
    ends = [("A" if int(text.split('"')[1]) % 2 == 0 else "B", "stop") for text in frame["prompt"]]
    columns = pl.DataFrame(ends, schema=["completion", "finish_reason"], orient="row")
    return pl.concat([frame.drop("messages", "prompt"), columns], how="horizontal").reverse()


def measure_replies(file: Path, frame: pl.DataFrame) -> float | None:
    """Return the accuracy of the engine's completions."""
    reply(frame).write_parquet("said.parquet")
    run = ak.run(file, completions="said.parquet", out="out")
    return run.tasks["t"].metrics["Accuracy"].value


def test_prompts_are_those_that_a_run_sends(write: Callable[..., Path]) -> None:
    """Byte for byte what a chat endpoint is sent, and what the completions API is sent."""
    file = write()
    export_prompts(file, "prompts.parquet")
    frame = read("prompts.parquet")
    with TestServer("A") as server:
        for api, name in (("chat", "messages"), ("completions", "prompt")):
            server.forget()
            ak.run(file, model=f"{server.url}?api={api}#m", out=api, cache_policy="no-cache")
            bodies = [request.body or {} for request in server.asked.requests]
            sent = sorted(json.dumps(body[name]) for body in bodies)
            assert sent == sorted(json.dumps(prompt) for prompt in frame[name].to_list())


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv"])
def test_completions_of_trials_are_joined_again(write: Callable[..., Path], form: str) -> None:
    """With trials, each has its row and its number; `score` finds every one."""
    file = write(trials={"num_trials": 3})
    assert export_prompts(file, f"prompts.{form}") == 36
    frame = read(f"prompts.{form}")
    assert frame["trial"].to_list() == [0, 1, 2] * 12
    assert measure_replies(file, frame) == 1.0


def test_orders_of_options_are_joined_again(write: Callable[..., Path]) -> None:
    """Each order of the options has its row, says which it is, and shows its options so."""
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    file = write(choice_order=order)
    assert export_prompts(file, "prompts.parquet") == 24
    frame = read("prompts.parquet")
    assert frame["base_sample_id"].to_list()[:4] == ["s0", "s0", "s1", "s1"]
    assert frame["option_order"].to_list()[:2] == [[0, 1], [1, 0]]
    assert frame["prompt"][1].endswith("A. x,y\nB. =1")
    assert measure_replies(file, frame) == 0.5  # the same letter, whatever stands there


def test_neither_model_nor_key_is_needed(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    """A file that names a provider's model is exported without its key.

    Rows are chosen as by `run`.
    """
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = write(model="openai/gpt-5")
    words = ("--num-samples", 4, "--subsampling", "random", "--seed", 3, "--json")
    done = call("export-prompts", file, "-o", "prompts.jsonl", *words)
    assert done.json == {"export_prompts": {"file": "prompts.jsonl", "rows": 4}}
    selection: dict[str, Any] = {"num_samples": 4, "subsampling": "random", "seed": 3}
    drawn = ak.run(file, model="builtin/constant?choice=A", out="out", **selection)
    ids = drawn.tasks["t"].scores["sample_id"]
    assert read("prompts.jsonl")["sample_id"].to_list() == ids.to_list()


PASSING = {"solver": {"type": "pass_through_solver", "trace_column": "answer"}}


@pytest.mark.parametrize(
    ("out", "definition", "message"),
    [
        ("prompts.txt", {}, "`-o prompts.txt`: the file extension is not a known form"),
        ("p.csv", PASSING, "is not one task with"),
        ("p.csv", {"solver": None}, "is not one task with a `single_turn_solver`"),
        ("no/such/p.csv", {}, "cannot write `no/such/p.csv`: No such file or directory"),
        ("p.csv", {"scorers": [SCORER | {"choices": ["A", "C"]}]}, "error[E204]"),
    ],
)
def test_unwritable_files_are_reported(
    write: Callable[..., Path], call: Call, out: str, definition: dict[str, Any], message: str
) -> None:
    """An ending that says nothing, a task that asks nothing, a folder that is not there.

    All rows are checked before anything is written, as before a run.
    """
    done = call("export-prompts", write(**definition), "-o", out)
    assert (done.code, Path(out).exists()) == (2, False)
    assert message in done.err
