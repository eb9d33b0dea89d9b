"""Laws of the table of providers: bare names, servers of this machine, and what is offered of
both.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from answerkey.errors import SpecError
from answerkey.models import http
from answerkey.models.config import Caller
from answerkey.models.connections import connect
from answerkey.models.model import LiveModel, Offer, find_offers, open_model
from answerkey.models.names import LOCAL, PROVIDERS, complete_name
from answerkey.models.retry import Health, Outcome, Request, Verdict
from answerkey.testing import Behaviour, TestServer
from answerkey.types import Completion, CompletionStatus

NOWHERE = "http://127.0.0.1:9/v1"
#: No server of this machine answers; tests name those that do.
ALONE = {f"{name.upper()}_BASE_URL": NOWHERE for name in LOCAL}
#: Seconds in which a server that is there answers, on a machine that does much else.
PATIENCE = 5.0


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
        url = "yours, in `AZURE_BASE_URL`" if one.base_url is None else f"`{one.base_url}`"
        assert f"| `{name}` | {url} | `{one.api}` |" in page


def test_a_bare_name_opens_the_model_of_its_provider() -> None:
    """As if the provider had been named."""
    opened = open_model("gpt-4.1-nano", caller=Caller({"OPENAI_API_KEY": "sk-canary-1"}))
    assert isinstance(opened, LiveModel)
    assert (opened.name, opened.connection.host) == ("openai/gpt-4.1-nano", "api.openai.com")


@pytest.mark.parametrize(
    ("name", "port"),
    [("ollama", 11434), ("vllm", 8000), ("lmstudio", 1234), ("llamacpp", 8080), ("sglang", 30000)],
)
def test_a_server_of_this_machine_is_called_at_its_usual_port(name: str, port: int) -> None:
    """Without a key, not even that of a provider.

    Its own is sent where it is set, and its URL may differ.
    """
    found = connect(
        f"{name}/meta-llama/Llama-3.1-8B", caller=Caller({"OPENAI_API_KEY": "sk-canary-1"})
    )
    assert found.url == f"http://127.0.0.1:{port}/v1/chat/completions"
    assert (found.model, found.missing_key) == ("meta-llama/Llama-3.1-8B", None)
    assert found.reveal_headers() == {}
    own = {f"{name.upper()}_API_KEY": "sk-own-2", f"{name.upper()}_BASE_URL": "http://127.0.0.1:77"}
    found = connect(f"{name}/x", caller=Caller(own))
    assert found.url == "http://127.0.0.1:77/v1/chat/completions"
    assert found.reveal_headers() == {"Authorization": "Bearer sk-own-2"}


def test_a_project_cannot_send_the_key_of_a_local_server_elsewhere() -> None:
    """A base URL in a file of the project is not the caller's word."""
    values = {"VLLM_API_KEY": "sk-canary-1", "VLLM_BASE_URL": "https://evil.example/v1"}
    with pytest.raises(SpecError) as caught:
        connect("vllm/x", caller=Caller(values, frozenset({"VLLM_BASE_URL"})))
    assert caught.value.code == "E117"


ELSEWHERE = (
    ", or name another address, `{}_BASE_URL=http://HOST:PORT/v1`; then `answerkey resume` goes on"
)
REFUSED = Outcome(
    Verdict.AGAIN, Completion(None, CompletionStatus.ERROR, error="refused"), "connect"
)


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (
            "ollama/llama3.2",
            "port 11434 is that of Ollama: start it with `ollama serve`"
            + ELSEWHERE.format("OLLAMA"),
        ),
        (
            "http://localhost:8000/v1#x",
            "port 8000 is that of vLLM: start it with `vllm serve MODEL`"
            + ELSEWHERE.format("VLLM"),
        ),
        *(
            (
                name,
                "check the address, and that the endpoint is up; then `answerkey resume` goes on",
            )
            for name in ("http://127.0.0.1:8001/v1#x", "http://10.0.0.1:11434/v1#x", "openai/x")
        ),
    ],
)
def test_a_server_that_is_not_running_is_named_with_how_to_start_it(model: str, hint: str) -> None:
    """By the port of this machine that is called, whatever the model's name."""
    found = connect(model, caller=Caller({}))
    error = Health(found.name, found.host, found.start_hint).note(REFUSED, is_final=True)
    assert error is not None
    assert (error.code, error.message, error.hint) == (
        "E306",
        f"`{model}` cannot be reached: refused",
        hint,
    )


@contextmanager
def serve(body: bytes, status: int = 200, **headers: str) -> Iterator[str]:
    """Yield the base URL of a server that always says the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_running_servers_and_set_keys_are_offered() -> None:
    """Models of servers by name, providers by the variable that holds their key.

    No key is in it.
    """
    keys = {"OPENAI_API_KEY": "sk-canary-1", "GEMINI_API_KEY": " ", "AZURE_API_KEY": "sk-canary-2"}
    with TestServer("A") as one, TestServer("A", Behaviour(api_key="sk-own-3")) as other:
        servers = {
            "OLLAMA_BASE_URL": one.url,
            "VLLM_BASE_URL": other.url,
            "VLLM_API_KEY": "sk-own-3",
        }
        found = find_offers(Caller(ALONE | keys | servers))
    assert found == [
        Offer("ollama/test", "Ollama on this machine"),
        Offer("vllm/test", "vLLM on this machine"),
        Offer("openai/", "`OPENAI_API_KEY` is set"),
    ]
    azure = {"AZURE_API_KEY": "sk-canary-2", "AZURE_BASE_URL": "https://me.openai.azure.com"}
    assert find_offers(Caller(ALONE | azure)) == [Offer("azure/", "`AZURE_API_KEY` is set")]
    assert find_offers(Caller(ALONE)) == []


def test_names_of_many_models_are_cut_and_odd_ones_left_out() -> None:
    """What could not be typed behind `--model`, or would command a terminal, is not offered."""
    odd = [{"id": name} for name in ("a?b", "a b", "\x1b[2J", "a#b")]
    other = [{"id": None}, {"name": "x"}, "y", 3]
    many = [{"id": f"m{number}"} for number in range(100)]
    with serve(json.dumps({"data": [*odd, *other, *many]}).encode()) as url:
        found = find_offers(Caller(ALONE | {"LMSTUDIO_BASE_URL": url}))
    assert [one.name for one in found] == [f"lmstudio/m{number}" for number in range(40)]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>hello</html>", 200),
        (b'{"data": [{"id": "m"}]}', 404),
        (b'{"data": {"id": "m"}}', 200),
        (b"[]", 200),
        (b"[" * 100_000, 200),
        (b'{"data": [' + b'"x",' * 300_000 + b"1]}", 200),
        (b"", 200),
    ],
)
def test_another_server_on_a_usual_port_is_passed_over(body: bytes, status: int) -> None:
    """A page, an error, JSON of another kind or far too much of it: no model is made up."""
    with serve(body, status) as url:
        assert find_offers(Caller(ALONE | {"LLAMACPP_BASE_URL": url})) == []


def test_no_other_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address elsewhere is not called, a redirect not followed, an address that is none passed
    over.
    """
    called: list[str] = []
    send = http.HttpClient.send

    async def note(self: http.HttpClient, request: Request, *, seconds: float) -> object:
        called.append(str(request.url))
        return await send(self, request, seconds=seconds)

    monkeypatch.setattr(http.HttpClient, "send", note)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    with serve(b"", 302, Location="http://example.com/v1/models") as url:
        away = {
            "OLLAMA_BASE_URL": "http://192.0.2.1:11434/v1",
            "VLLM_BASE_URL": url,
            "LMSTUDIO_BASE_URL": "x",
        }
        assert find_offers(Caller(ALONE | away)) == []
    assert sorted(called) == sorted([f"{url}/models", f"{NOWHERE}/models", f"{NOWHERE}/models"])


def test_servers_that_hang_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are asked at once and for some seconds: three that hang take no longer than one."""
    monkeypatch.setattr("answerkey.models.model.ASKED_SECONDS", PATIENCE)
    with socket.socket() as silent, TestServer("A") as running:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        hanging = {name: f"http://127.0.0.1:{silent.getsockname()[1]}/v1" for name in ALONE}
        begun = time.monotonic()
        found = find_offers(Caller(hanging | {"OLLAMA_BASE_URL": running.url}))
        assert time.monotonic() - begun < 3 * PATIENCE
    assert [one.name for one in found] == ["ollama/test"]
