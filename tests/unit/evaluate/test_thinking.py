"""Laws of thoughts from the command line: what is scored, counted, said and shown of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests import projects
from tests.projects import SCORER, describe_task

import answerkey as ak
from answerkey.errors import SpecError
from answerkey.testing import Reply, TestServer

THINKING = "<think>hm, A?</think>\n\nB"
TASK = describe_task(scorers=[SCORER])
Call = Callable[..., Any]


def write_rows(folder: Path, *texts: str) -> str:
    """Write a data file whose rows have these completions, and return its path."""
    rows = []
    for number, text in enumerate(texts):
        question = {"question": f"Which, {number}?", "options": ["one", "two"], "answer": "B"}
        rows.append({**question, "completion": text})
    projects.write_rows(folder / "rows.jsonl", rows)
    return str(folder / "rows.jsonl")


def test_recorded_completions_are_scored_as_they_are_written() -> None:
    """Unless their thoughts are to be taken out; then every rule sees what follows."""
    samples = [{"answer": "B"}] * 3
    texts = [THINKING, "<think>hm", "B"]
    written = ak.score(TASK, samples, texts)
    split = ak.score(TASK, samples, texts, split_thinking=True)
    for run, first in ((written, "NOT_A_CHOICE"), (split, None)):
        reasons = run.to_frame()["string_equals_mcqa.validity_reason"].to_list()
        assert reasons == [first, "TRUNCATED_THINKING", None]
    table = split.to_frame()
    assert table["completion"].to_list() == ["B", "", "B"]
    assert table["reasoning"].to_list() == ["hm, A?", "hm", None]


def test_thoughts_of_a_run_that_is_read_again_are_apart(tmp_path: Path, call: Call) -> None:
    """`explain`, `export` and `rescore` read the file again, and take the thoughts out again."""
    file, out = write_rows(tmp_path, THINKING, "B"), tmp_path / "run"
    (task,) = call("score", file, "--split-thinking", "--out", out, "--json").json["tasks"]
    assert task["completions"]["split_thinking"] is True
    assert task["counts"]["valid"] == 2
    (sample,) = call("explain", out, "1", "--json").json["samples"]
    assert (sample["reasoning"], sample["completion"]) == ("hm, A?", "B")
    assert "Thoughts\n  | hm, A?\n" in call("explain", out, "1").out
    rows = [json.loads(line) for line in call("export", out, "--to", "jsonl").out.splitlines()]
    pairs = [(row["completion"], row.get("reasoning")) for row in rows]
    assert pairs == [("B", "hm, A?"), ("B", None)]
    table = tmp_path / "rows.parquet"
    assert call("export", out, "--to", "parquet", "-o", table).code == 0
    assert pl.read_parquet(table)["reasoning"].to_list() == ["hm, A?", None]
    again = call("rescore", out, "--out", tmp_path / "again", "--json")
    assert again.json["tasks"][0]["counts"]["valid"] == 2
    assert "thoughts taken out" in call("show", out).out


@pytest.mark.parametrize(("thinking", "lines"), [(1, 0), (2, 2)])
def test_scored_thoughts_are_told(tmp_path: Path, call: Call, thinking: int, lines: int) -> None:
    """From more than 1 % of the recorded completions on."""
    texts = [*[THINKING] * thinking, *["B"] * (100 - thinking)]
    done = call("score", write_rows(tmp_path, *texts), "--out", tmp_path / "run")
    notice = f"begin with a thinking block: {thinking}, scored"
    hint = "`--split-thinking` takes the thoughts out"
    assert (notice in done.out) + (hint in done.out) == lines


def test_a_live_model_has_no_thoughts_to_split(tmp_path: Path, call: Call) -> None:
    """They are apart already: the option is an error."""
    with TestServer("B") as server:
        words = ("--model", f"{server.url}#m", "--split-thinking")
        done = call("run", write_rows(tmp_path, "B"), *words)
        assert server.asked.total == 0
    assert done.code == 2
    assert "`--split-thinking` is about recorded completions, and a model is called" in done.err
    with pytest.raises(SpecError, match="a model is called"):
        ak.run(write_rows(tmp_path, "B"), model="builtin/random", split_thinking=True)


def test_tokens_of_thoughts_are_in_the_run(tmp_path: Path, call: Call) -> None:
    """`--json` and `run.json` have their sum, the summary says it, the completions have each."""
    details = {"completion_tokens_details": {"reasoning_tokens": 6}}
    usage = {"prompt_tokens": 4, "completion_tokens": 9, **details}
    message = {"role": "assistant", "content": "B", "reasoning_content": "hm"}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    out = tmp_path / "run"
    with TestServer(Reply(body=json.dumps(body).encode())) as server:
        file = write_rows(tmp_path, "-", "-")
        model = f"{server.url}#m"
        done = call("run", file, "--model", model, "--price", "0:1000000", "--out", out, "--json")
    calls = done.json["tasks"][0]["calls"]["solve"]
    assert (calls["completion_tokens"], calls["reasoning_tokens"], calls["cost"]) == (18, 12, 18.0)
    manifest = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert manifest["tasks"][0]["calls"]["solve"]["reasoning_tokens"] == 12
    assert "8 prompt + 18 completion (12 of them reasoning)" in call("show", out).out
    (part,) = (out / "tasks").glob("*/completions/*.parquet")
    frame = pl.read_parquet(part)
    assert frame["usage"].struct.field("reasoning_tokens").to_list() == [6, 6]
    assert frame["reasoning"].to_list() == ["hm", "hm"]


def test_a_cut_thought_is_told_with_what_to_do(tmp_path: Path, call: Call) -> None:
    """The summary counts such replies and names the limit."""
    with TestServer(Reply("<think>hm", "truncated")) as server:
        words = ("--model", f"{server.url}#m", "--out", tmp_path / "run")
        done = call("run", write_rows(tmp_path, "-"), *words)
    assert "end within their thoughts: 1; raise `max_tokens` of the model" in done.out
    assert "TRUNCATED_THINKING" in done.out


def test_thoughts_beside_recorded_completions_are_read(tmp_path: Path, call: Call) -> None:
    """A file of completions may have them in a column `reasoning`; a dataset's own column is
    none.
    """
    file = write_rows(tmp_path, "-")
    replies = tmp_path / "said.jsonl"
    replies.write_text(json.dumps({"completion": "", "reasoning": "hm"}), encoding="utf-8")
    done = call("score", file, "--completions", replies, "--out", tmp_path / "run", "--json")
    assert list(done.json["tasks"][0]["tally"]["invalid"]) == ["TRUNCATED_THINKING"]
    in_rows = ak.score(TASK, [{"answer": "B", "completion": "", "reasoning": "because"}])
    assert in_rows.to_frame()["string_equals_mcqa.validity_reason"].to_list() == ["EMPTY"]
