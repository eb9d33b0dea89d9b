"""Where a key may turn up: in the header it is for, and nowhere else."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest
from tests.projects import describe_live_task, describe_model, write_rows, write_run
from tests.servers import find_places

from answerkey.models.model import LiveModel
from answerkey.testing import Reply, TestServer
from answerkey.testing.replies import Messages

KEY = "sk-canary-0123456789abcdef"
HEADER = "hdr-canary-fedcba9876543210"
PROJECT = "own-canary-5566778899aabbcc"
CANARIES = (KEY, HEADER, PROJECT)
Call = Callable[..., Any]


def tell_on_the_caller(messages: Messages) -> str | Reply:
    """Send the keys back in every way that a reply has."""
    question = str(messages[-1]["content"])
    body = json.dumps(
        {"choices": [{"message": {"role": "assistant", "content": f"A {' '.join(CANARIES)}"}}]}
    )
    error = json.dumps({"error": {"message": f"bad key {KEY}"}, "h": HEADER})
    raws = {
        "q0": Reply(body=body.encode()),
        "q1": Reply(body=body.replace("-", "\\u002d").encode()),
        "q2": Reply(body=f"<html>{KEY} {HEADER} {PROJECT}".encode()),
        "q3": Reply(body=error.encode(), status=400),
    }
    return raws.get(question, "A")


def write_project(folder: Path, url: str) -> None:
    """Write a project with a key of the caller, a secret header and a secret of its own."""
    write_rows(folder / "rows.jsonl", [{"question": f"q{n}", "answer": "A"} for n in range(6)])
    headers = {"X-Extra": "$EXTRA_TOKEN", "X-Own": "<< secrets.OWN >>"}
    model = describe_model("mine", url, api_key="<< secrets.MY_KEY >>", custom_headers=headers)
    write_run(folder, [model], task=describe_live_task(), secrets={"OWN": PROJECT})


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return an endpoint that sends back what it was sent."""
    with TestServer(tell_on_the_caller) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project; keys of the caller are in the environment."""
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("EXTRA_TOKEN", HEADER)
    (tmp_path / "project").mkdir()
    write_project(tmp_path / "project", server.url)
    return tmp_path / "project"


def require_absent(secrets: Iterable[str], done: Iterable[Any], folder: Path | None = None) -> None:
    """Hold that no text, in plain or as JSON writes it, is in a stream of a command.

    Nor in a file, Parquet unpacked, or its name; the run file alone may hold one.
    """
    for secret in secrets:
        forms = {secret, secret.replace("-", "\\u002d")}
        streams = "".join(called.out + called.err for called in done)
        assert not any(form in streams for form in forms)
        for path in folder.rglob("*") if folder else ():
            assert secret not in path.name
            if path.is_file() and path.name != "run.yaml":
                assert secret.encode() not in path.read_bytes(), path
            if path.suffix == ".parquet":
                rows = str(pl.read_parquet(path).to_dicts())
                assert not any(form in rows for form in forms), path


def test_keys_are_in_no_sink_of_a_run(
    project: Path, server: TestServer, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    """Terminal, `--json`, log, run folder, journal, cache, report, exports: who tells is not
    heard.
    """
    caplog.set_level(logging.DEBUG)
    run = project / "run"
    done = [call("-v", "run", project, "--out", run)]
    done += [call("run", project, "--out", project / "two", "--json")]
    assert server.asked.keys == {f"Bearer {KEY}": server.asked.total}
    done += [call("report", run, "-o", project / "report.html"), call("runs", project, "--json")]
    done += [call("explain", run, f"00000{number}") for number in range(1, 5)]
    for kind in ("csv", "jsonl"):
        done.append(call("export", run, "--to", kind, "-o", project / f"said.{kind}"))
    server.change(answers="A")
    done += [call("-v", "resume", run)]
    assert [(command.code, command.err) for command in done[2:] if command.code] == []
    require_absent(CANARIES, done, project.parent)
    assert not any(canary in caplog.text for canary in CANARIES)


def test_keys_are_in_no_error_message(
    project: Path, server: TestServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused key, and a bug that puts a key into its exception: not on stderr, in JSON or a
    traceback.
    """
    server.change(api_key="another")
    refused = [call("-v", "run", project, "--out", project / name, "--json") for name in "ab"]
    assert [command.json["errors"][0]["code"] for command in refused] == ["E304", "E304"]

    def fail(self: LiveModel, *_: object, **__: object) -> NoReturn:
        sent = self.connection.reveal_headers()
        raise RuntimeError(f"cannot send {sent}") from KeyError(sent["X-Extra"])

    monkeypatch.setattr(LiveModel, "complete", fail)
    bugs = [call("-v", "run", project, "--out", project / name, "--json") for name in "cd"]
    assert all(part in bug.err for bug in bugs for part in ("Traceback", "cannot send", "***"))
    assert [bug.code for bug in bugs] == [70, 70]
    require_absent(CANARIES, (*refused, *bugs), project.parent)


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
def test_redirects_carry_no_key(project: Path, server: TestServer, call: Call, status: str) -> None:
    """The other host receives no request at all, and the reason is reported."""
    with TestServer("A") as stranger:
        elsewhere = f"{stranger.url}/chat/completions"
        server.change(faults={status: 1.0}, faulty_attempts=None, redirect_to=elsewhere)
        done = call("run", project, "--out", project / "run")
        assert stranger.asked.total == 0
        assert not find_places(stranger.asked, KEY)
    assert done.code != 0
    assert "redirects to another" in done.out + done.err  # the table is as wide as the terminal


def test_no_proxy_of_the_environment_is_used(
    project: Path, server: TestServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would see the key; nothing is sent to one."""
    with TestServer("B") as proxy:
        for scheme in ("http", "https", "all"):
            for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
                monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        server.change(answers="A")
        assert call("run", project, "--out", project / "run").code == 0
        assert proxy.asked.total == 0
    assert server.asked.total == 6


def at(secret: str) -> dict[str, str]:
    """Return addresses that hold a secret: a password, a key, a signature."""
    return {
        "user": f"http://me:{secret}@127.0.0.1:9",
        "broken": f"https://[me:{secret}@host.invalid",
        "bare": f"me:{secret}@host.invalid",
        "key": f"http://127.0.0.1:9/x.jsonl?api_key={secret}",
        "signed": f"http://127.0.0.1:9/x.jsonl?X-Amz-Credential={secret}&X-Amz-Signature={secret}&sig={secret}",
    }


ADDRESSES = list(at(""))
COMMANDS = [
    "check . --model {0}#m",
    "check . --model {0}",
    "run . --model {0}#m --out out",
    "run . --model http://127.0.0.1:9/v1?temperature={0}#m --out out",
    "check . --dataset {0}",
    "check . --completions {0}",
    "run . --dataset {0} --model builtin/random --out out",
    "audit-dataset . --dataset {0}",
    "run . --model builtin/random --out {0}",
    "run . --model builtin/random --baseline {0}",
    "run . --model builtin/random --engine {0}",
    "check . --policies {0}",
    "check . --env {0}",
    "check . --config {0}",
    "check . --num-samples {0}",
    "check {0}",
    "resume {0}",
    "rescore {0}",
    "show {0}",
    "explain {0} 000001",
    "audit {0}",
    "compare {0} {0}",
    "report {0} -o report.html",
    "export {0}",
    "runs {0}",
    "view {0}",
    "tasks {0}",
    "import inspect {0}",
    "{0}",
]


@pytest.mark.parametrize("position", ADDRESSES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_secret_of_an_address_is_in_no_sink(
    project: Path, call: Call, monkeypatch: pytest.MonkeyPatch, command: str, position: str
) -> None:
    """Wherever an address is given: its password, key and signature are in no message, JSON, file
    or cache.

    The secret is too short to be hidden by its letters alone.
    """
    secret = f"zQ{COMMANDS.index(command)}j{ADDRESSES.index(position)}X"
    monkeypatch.chdir(project)
    if "--out {0}" in command and position == "bare":
        pytest.skip("it is the name of a folder")
    words = [word.format(at(secret)[position]) for word in command.split()]
    done = [call("-v", *words), call(*words, "--json")]
    assert [called.code for called in done] == [2, 2]
    require_absent([secret], done, project.parent)


CUSTOM = {"connection_type": "custom_connection", "model_key": "m"}
OPENAI = {"connection_type": "provider_connection", "provider_id": "openai", "model_key": "m"}


@pytest.mark.parametrize(
    "config",
    [
        {**CUSTOM, "url": "{0}"},
        {**CUSTOM, "url": "http://127.0.0.1:9/v1?code={1}"},
        {**OPENAI, "base_url": "{0}"},
    ],
)
def test_secrets_of_files_are_in_no_sink(project: Path, call: Call, config: dict[str, str]) -> None:
    """A model file may not hold one, and what it holds is not shown."""
    secret = "zQfileX"  # noqa: S105 - made up
    plan = json.loads((project / "run.yaml").read_text())
    address = f"http://me:{secret}@127.0.0.1:9/v1"
    plan["models"][0]["config"] = {key: url.format(address, secret) for key, url in config.items()}
    (project / "run.yaml").write_text(json.dumps(plan))
    done = [call("-v", "run", project, "--out", project / "run"), call("check", project, "--json")]
    assert [called.code for called in done] == [2, 2]
    assert "E117" in done[0].err
    assert "E117" in done[1].out
    require_absent([secret], done)
    assert not (project / "run").exists()


class Rows(BaseHTTPRequestHandler):
    """Serves rows to whoever has signed, and sends others on to an address with a signature of its
    own.
    """

    def do_GET(self) -> None:
        """Answer."""
        path, _, query = self.path.partition("?")
        is_moved = path == "/moved.jsonl"
        self.send_response(302 if is_moved else 200 if query else 404)
        body = b'{"question": "one", "answer": "A"}\n' if query else b""
        self.send_header("Content-Length", str(len(body)))
        if is_moved:
            self.send_header("Location", query)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@pytest.fixture
def web() -> Iterator[str]:
    """Return the address of a web server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Rows) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_presigned_dataset_is_used_and_its_signature_stored_nowhere(
    project: Path, call: Call, server: TestServer, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run folder, journal, report, exports and caches of a good run do not hold it."""
    secret = "zQgoodX"  # noqa: S105 - made up
    monkeypatch.chdir(project)
    server.change(answers="A")
    url = f"{web}/rows.jsonl?X-Amz-Credential={secret}&X-Amz-Signature={secret}&sp=r&sig={secret}"
    done = [call("-v", "run", ".", "--dataset", url, "--out", "run")]
    done += [call("show", "run", "--json"), call("report", "run", "-o", "report.html")]
    done += [call("explain", "run", "000001")]
    done += [call("export", "run", "--to", "jsonl", "-o", "rows-out.jsonl")]
    done += [call("rescore", "run", "--out", "again"), call("runs", ".", "--json")]
    assert [(called.code, called.err) for called in done if called.code] == []
    require_absent([secret], done, project.parent)


@pytest.mark.parametrize(
    "location",
    [
        "http://me:{0}@127.0.0.1:9/x",
        "http://127.0.0.1:9/x?sig={0}",
        "http://[me:{0}@h/x",
        "ftp://a?key={0}",
    ],
)
def test_data_redirects_show_no_secret(project: Path, call: Call, web: str, location: str) -> None:
    """A redirect may lead to a signed address; an error there is not reported as a bug."""
    url = f"{web}/moved.jsonl?{location.format('zQsentX')}"
    done = call("-v", "check", project, "--dataset", url, "--json")
    assert done.code == 2
    assert "E214" in done.out
    assert "zQsentX" not in done.out + done.err


def test_errors_show_no_secret(project: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug whose words hold addresses: not on stderr, in JSON, or in the traceback of `-v`."""

    def fail(*_: object, **__: object) -> NoReturn:
        texts = "GET http://me:{0}@host/x?a=1&sas_token={0} refused", "me:{0}@host"
        raise RuntimeError(texts[0].format("zQbugX")) from KeyError(texts[1].format("zQbugX"))

    monkeypatch.setattr(LiveModel, "complete", fail)
    done = call("-v", "run", project, "--out", project / "run", "--json")
    assert done.code == 70
    assert "RuntimeError: GET http://***@host/x?a=1&sas_token=*** refused" in done.err
    assert "KeyError: '***@host'" in done.err
    shown = [line for line in (done.out + done.err).splitlines() if "zQbugX" in line]
    source = "texts[0].format"  # the line that raised
    assert [line for line in shown if source not in line] == []
