"""Prompts, a batch engine without a server, completions, scores: the example from end to end.

vLLM is not here: a module of its name with the same classes answers in its place.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "offline" / "generate.py"
PROJECT = Path(__file__).parents[2] / "examples" / "quickstart"
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
        assert all(set(one) == {"role", "content"} for prompt in messages for one in prompt)
        return [self.answer(prompt[-1]["content"]) for prompt in messages]

    def generate(self, prompts, sampling_params):
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, text):
        assert isinstance(text, str) and text
        self.count += 1
        reason = "length" if self.count % 5 == 0 else "stop"
        return Some(outputs=[Some(text="B", finish_reason=reason)])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the stand-in for vLLM, which is on the path."""
    (tmp_path / "vllm.py").write_text(VLLM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load_script() -> Any:  # noqa: ANN401 - a module
    """Return the example as a module."""
    result = importlib.util.spec_from_file_location("generate_offline", SCRIPT)
    assert result is not None
    assert result.loader is not None
    module = importlib.util.module_from_spec(result)
    result.loader.exec_module(module)
    return module


@pytest.mark.parametrize("flags", [(), ("--text",)])
def test_prompts_become_scores_without_a_server(
    folder: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """Every prompt is answered once, in batches.

    The numbers are those of a model that says the same.
    """
    assert call("export-prompts", str(PROJECT), "-o", "prompts.parquet").code == 0
    script = load_script()
    monkeypatch.setattr(script, "BATCH_ROWS", 50)
    script.main(["prompts.parquet", "completions.parquet", "--model", "org/tiny", *flags])
    written = pl.read_parquet("completions.parquet")
    assert written.columns == ["sample_id", "completion", "finish_reason"]
    scored = call(
        "score", str(PROJECT), "--completions", "completions.parquet", "--out", "a", "--json"
    )
    (task,) = scored.json["tasks"]
    assert (task["counts"]["samples"], task["counts"]["scored"], task["tally"]["cut_off"]) == (
        125,
        125,
        25,
    )
    live = call("run", str(PROJECT), "--model", "builtin/constant?choice=B", "--out", "b", "--json")
    values = [metric["value"] for metric in live.json["tasks"][0]["metrics"]]
    assert [metric["value"] for metric in task["metrics"]] == values
    assert folder.exists()


@pytest.mark.skipif(not os.environ.get("ANSWERKEY_LONG"), reason="Ray takes long to start")
def test_ray_data_gives_the_same(folder: Path, call: Callable[..., Any]) -> None:
    """Actors of Ray Data write the same completions, in any order."""
    assert call("export-prompts", str(PROJECT), "-o", "prompts.parquet").code == 0
    load_script().main(["prompts.parquet", "here.parquet", "--model", "org/tiny"])
    words = [
        "prompts.parquet",
        "ray.parquet",
        "--model",
        "org/tiny",
        "--workers",
        "1",
        "--gpus",
        "0",
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder), "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    subprocess.run([sys.executable, str(SCRIPT), *words], check=True, env=environment)
    here, there = (
        pl.read_parquet(name).sort("sample_id") for name in ("here.parquet", "ray.parquet")
    )
    assert here["sample_id", "completion"].equals(there["sample_id", "completion"])


def test_images_reach_the_engine_as_parts(folder: Path, call: Callable[..., Any]) -> None:
    """They are written as the JSON of a message's parts."""
    images = PROJECT.parent / "images"
    assert call("export-prompts", str(images), "-o", "prompts.parquet").code == 0
    messages = pl.read_parquet(folder / "prompts.parquet")["messages"].to_list()
    parts = load_script().read_parts(messages[0][-1])["content"]
    assert {part["type"] for part in parts} == {"image_url", "text"}
    address = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    assert address.startswith("data:image/png;base64,")
    plain = {"role": "user", "content": "[1] Which?"}
    assert load_script().read_parts(plain) == plain
