"""The recipes for servers that people start by hand: one command each, against replies as they send
them.

The servers themselves are not here; bodies and errors are those of their OpenAI-compatible
endpoints.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from answerkey.models.names import PROVIDERS
from answerkey.testing import Reply, TestServer

from .scripts import ROOT, Call, read

GUIDE = read("docs/guide/local-models.md")
USAGE = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37}
#: By provider: a name as the server knows it, what its messages have beside the content, what is on
#: top, and how it says that it does not know a model.
SERVERS: dict[str, dict[str, Any]]
SERVERS = YAML(typ="safe").load(Path(__file__).with_name("local_servers.yaml"))


def write_body(name: str) -> bytes:
    """Return a chat completion as the server of this provider writes it."""
    server = SERVERS[name]
    message = {"role": "assistant", "content": "B", **server["message"]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": server["model"]}
    return json.dumps({**head, "choices": [choice], "usage": USAGE, **server["body"]}).encode()


@pytest.mark.parametrize("name", SERVERS)
def test_recipe_gives_a_run(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The name and the address of the environment are enough: no key is sent, thoughts are kept
    apart.
    """
    monkeypatch.chdir(tmp_path)
    model = SERVERS[name]["model"]
    with TestServer(Reply(body=write_body(name))) as server:
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", server.url)
        words = ("--model", f"{name}/{model}", "--num-samples", 4, "--cache-policy", "no-cache")
        done = call("run", ROOT / "examples" / "quickstart", *words, "--out", "a", "--json")
        requests = [request for request in server.asked.requests if request.method == "POST"]
    assert done.code == 0
    (task,) = done.json["tasks"]
    counts = {"samples": 4, "scored": 4, "valid": 4}
    assert task["counts"] == dict.fromkeys(task["counts"], 0) | counts
    assert [request.path for request in requests] == ["/v1/chat/completions"] * 4
    assert [(request.body or {})["model"] for request in requests] == [model] * 4
    assert not any("authorization" in request.headers for request in requests)
    (file,) = Path("a").glob("tasks/*/completions/*.parquet")
    stored = pl.read_parquet(file)
    assert stored["reasoning"].to_list() == ["B it is."] * 4
    assert stored["completion"].to_list() == ["B"] * 4
    assert stored["finish_reason"].to_list() == ["stop"] * 4


@pytest.mark.parametrize("name", SERVERS)
def test_an_unknown_model_is_reported_in_the_server_s_words(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A model that was not started or pulled stops the run at once, with what the server says."""
    monkeypatch.chdir(tmp_path)
    refusal = SERVERS[name]["refusal"]
    with TestServer(Reply(status=404, body=json.dumps(refusal).encode())) as server:
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", server.url)
        words = ("--model", f"{name}/x", "--num-samples", 2)
        done = call("run", ROOT / "examples" / "quickstart", *words)
    assert done.code == 3
    assert refusal.get("message", refusal.get("error", {}).get("message")) in done.err
    assert "HTTP 404" in done.err


def test_guide_names_the_servers_that_there_are() -> None:
    """Each row has the provider's name."""
    row = re.compile(r"^\| (?:\[(.+?)\]\(.+?\)|(.+?)) \| (.+?) \| `(\w+)/NAME` \|$", re.MULTILINE)
    rows = row.findall(GUIDE)
    results = {name: (linked or plain, start) for linked, plain, start, name in rows}
    assert list(results) == ["vllm", "sglang", "llamacpp", "ollama", "lmstudio"]
    for name, (title, start) in results.items():
        assert title
        assert start
        assert PROVIDERS[name].is_local
