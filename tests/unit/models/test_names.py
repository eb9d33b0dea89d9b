"""Laws of the table of providers: bare names, and servers of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.models.config import Caller
from answerkey.models.connections import connect
from answerkey.models.names import PROVIDERS, complete_name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("gpt-4.1-nano", "openai/gpt-4.1-nano"),
        ("gpt-4.1-nano?temperature=0&stop=/", "openai/gpt-4.1-nano?temperature=0&stop=/"),
        ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
        ("o1", "openai/o1"),
        ("o3-mini", "openai/o3-mini"),
        ("o4-mini?max_tokens=5", "openai/o4-mini?max_tokens=5"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        # Others serve these, or nobody does.
        *(
            (name, name)
            for name in ("gpt-oss-20b", "gpt-oss:20b", "o1x", "o2-mini", "llama3.2", "my-gpt-4")
        ),
        *(
            (name, name)
            for name in ("openai/gpt-4", "ollama/gpt-4", "http://h/v1#gpt-4", "builtin/longest", "")
        ),
    ],
)
def test_a_bare_name_gets_its_provider(typed: str, name: str) -> None:
    """Where only one provider has models of such names; any other name stays as it is."""
    assert complete_name(typed) == name


def test_every_provider_is_documented() -> None:
    """The reference has each name with its base URL and its API."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "models.md").read_text(
        encoding="utf-8"
    )
    for name, one in PROVIDERS.items():
        url = f"`{one.base_url}`"
        if one.base_url is None:
            url = f"yours, in `{name.upper()}_BASE_URL`"
        assert f"| `{name}` | {url} | `{one.api}` |" in page


@pytest.mark.parametrize(
    ("name", "port"),
    [("ollama", 11434), ("vllm", 8000), ("lmstudio", 1234), ("llamacpp", 8080), ("sglang", 30000)],
)
def test_a_server_of_this_machine_is_called_at_its_usual_port(name: str, port: int) -> None:
    """Without a key, not even that of a provider.

    Its own is sent where it is set, and its URL may differ.
    """
    result = connect(
        f"{name}/meta-llama/Llama-3.1-8B", caller=Caller({"OPENAI_API_KEY": "sk-canary-1"})
    )
    assert result.url == f"http://127.0.0.1:{port}/v1/chat/completions"
    assert (result.model, result.missing_key) == ("meta-llama/Llama-3.1-8B", None)
    assert result.reveal_headers() == {}
    own = {f"{name.upper()}_API_KEY": "sk-own-2", f"{name.upper()}_BASE_URL": "http://127.0.0.1:77"}
    result = connect(f"{name}/x", caller=Caller(own))
    assert result.url == "http://127.0.0.1:77/v1/chat/completions"
    assert result.reveal_headers() == {"Authorization": "Bearer sk-own-2"}
