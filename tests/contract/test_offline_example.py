"""Prompts, a batch engine without a server, completions, scores: the example from end to end.

vLLM is not here: a module of its name with the same classes answers in its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from .scripts import ROOT, Call, load_script

SCRIPT = load_script("examples/offline/generate.py")
EXAMPLES = ROOT / "examples"
PROJECT = EXAMPLES / "quickstart"
PROMPTS = ("prompts.parquet", "completions.parquet", "--model", "org/tiny")
#: What vLLM has, as far as the example uses it; every fifth reply is cut off.
VLLM = """
from types import SimpleNamespace as Some


class SamplingParams:
    def __init__(self, *, temperature, max_tokens):
        self.temperature, self.max_tokens = temperature, max_tokens


class LLM:
    def __init__(self, model):
        assert model == "org/tiny"
        self.count = 0

    def chat(self, messages, sampling_params):
        assert sampling_params.max_tokens == 2048
        assert all(set(part) == {"role", "content"} for prompt in messages for part in prompt)
        return [self.answer(prompt[-1]["content"]) for prompt in messages]

    def generate(self, prompts, sampling_params):
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, text):
        assert isinstance(text, str) and text
        self.count += 1
        reason = "length" if self.count % 5 == 0 else "stop"
        return Some(outputs=[Some(text="B", finish_reason=reason)])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the stand-in for vLLM, which is on the path."""
    (tmp_path / "vllm.py").write_text(VLLM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("flags", [(), ("--text",)])
def test_prompts_become_scores_without_a_server(
    call: Call, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """Every prompt is answered once, in batches.

    The numbers are those of a model that says the same.
    """
    assert call("export-prompts", PROJECT, "-o", "prompts.parquet").code == 0
    monkeypatch.setattr(SCRIPT, "BATCH_ROWS", 50)
    SCRIPT.main([*PROMPTS, *flags])
    written = pl.read_parquet("completions.parquet")
    assert written.columns == ["sample_id", "completion", "finish_reason"]
    words = ("--completions", "completions.parquet", "--out", "a", "--json")
    (task,) = call("score", PROJECT, *words).json["tasks"]
    assert task["counts"]["samples"] == task["counts"]["scored"] == 125
    assert task["tally"]["cut_off"] == 25
    live = call("run", PROJECT, "--model", "builtin/constant?choice=B", "--out", "b", "--json")
    values = [metric["value"] for metric in live.json["tasks"][0]["metrics"]]
    assert [metric["value"] for metric in task["metrics"]] == values


@pytest.mark.skipif(not os.environ.get("ANSWERKEY_LONG"), reason="Ray takes long to start")
def test_ray_data_gives_the_same(folder: Path, call: Call) -> None:
    """Actors of Ray Data write the same completions, in any order."""
    assert call("export-prompts", PROJECT, "-o", "prompts.parquet").code == 0
    SCRIPT.main(list(PROMPTS))
    here = pl.read_parquet("completions.parquet").sort("sample_id")
    command = [sys.executable, str(EXAMPLES / "offline" / "generate.py"), *PROMPTS]
    environment = {**os.environ, "PYTHONPATH": str(folder), "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    subprocess.run([*command, "--workers", "1", "--gpus", "0"], check=True, env=environment)
    there = pl.read_parquet("completions.parquet").sort("sample_id")
    assert here["sample_id", "completion"].equals(there["sample_id", "completion"])


def test_images_reach_the_engine_as_parts(call: Call) -> None:
    """They are written as the JSON of a message's parts."""
    assert call("export-prompts", EXAMPLES / "images", "-o", "prompts.parquet").code == 0
    messages = pl.read_parquet("prompts.parquet")["messages"].to_list()
    parts = {part["type"]: part for part in SCRIPT.read_parts(messages[0][-1])["content"]}
    assert parts.keys() == {"image_url", "text"}
    assert parts["image_url"]["image_url"]["url"].startswith("data:image/png;base64,")


def test_text_that_looks_like_parts_stays_text() -> None:
    """Only JSON of parts is read as parts."""
    message = {"role": "user", "content": "[1] Which?"}
    assert SCRIPT.read_parts(message) == message
