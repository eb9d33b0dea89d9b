"""Where a key may turn up: in the header it is for, and nowhere else."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from answerkey.models.live import LiveModel
from answerkey.testing import Behaviour, Reply, TestServer
from answerkey.testing.replies import Messages

KEY = "sk-canary-0123456789abcdef"
HEADER = "hdr-canary-fedcba9876543210"
PROJECT = "own-canary-5566778899aabbcc"
CANARIES = (KEY, HEADER, PROJECT)
Call = Callable[..., Any]


def tell_on_the_caller(messages: Messages) -> str | Reply:
    """Send the keys back in every way that a reply has."""
    question = str(messages[-1]["content"])
    said = json.dumps({"choices": [{"message": {"role": "assistant", "content": f"A {' '.join(CANARIES)}"}}]})
    raws = {
        "q0": Reply(body=said.encode()),
        "q1": Reply(body=said.replace("-", "\\u002d").encode()),
        "q2": Reply(body=f"<html>{KEY} {HEADER} {PROJECT}".encode()),
        "q3": Reply(
            body=json.dumps({"error": {"message": f"bad key {KEY}"}, "h": HEADER}).encode(), status=400
        ),
    }
    return raws.get(question, "A")


def write_project(folder: Path, url: str) -> None:
    """Write a project with a key of the caller, a secret header and a secret of its own."""
    rows = [{"question": f"q{number}", "answer": "A"} for number in range(6)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    message = {"role": "user", "content": "{{ sample.question }}"}
    solver = {"type": "single_turn_solver", "input_builder": {"type": "chat_completion"}}
    solver["input_builder"] |= {"input_messages": [message]}  # type: ignore[operator]  # it is a mapping
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": ["A", "B"],
    }
    plan = {
        "secrets": {"OWN": PROJECT},
        "models": [
            {
                "key": "mine",
                "display_name": "Mine",
                "task": "chat_completion",
                "config": {
                    "connection_type": "custom_connection",
                    "url": f"{url}/chat/completions",
                    "model_key": "m",
                    "api_key": "<< secrets.MY_KEY >>",
                    "custom_headers": {"X-Extra": "$EXTRA_TOKEN", "X-Own": "<< secrets.OWN >>"},
                },
            }
        ],
        "datasets": [
            {"key": "rows", "display_name": "Rows", "source": {"type": "local", "file_path": "rows.jsonl"}}
        ],
        "tasks": [
            {
                "key": "quiz",
                "display_name": "Quiz",
                "description": "",
                "definition": {"dataset": {"key": "rows"}, "solver": solver, "scorers": [scorer]},
            }
        ],
        "evaluation": {
            "key": "e",
            "display_name": "E",
            "description": "",
            "task_specifications": [{"task_key": "quiz", "model_key": "mine"}],
        },
    }
    (folder / "run.yaml").write_text(json.dumps(plan))


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return an endpoint that sends back what it was sent."""
    with TestServer(tell_on_the_caller) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project; keys of the caller are in the environment, the cache is a folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("EXTRA_TOKEN", HEADER)
    (tmp_path / "project").mkdir()
    write_project(tmp_path / "project", server.url)
    return tmp_path / "project"


def require_hidden(*texts: str) -> None:
    """Hold that no key is in any of these texts, in plain or as JSON writes it."""
    for text in texts:
        assert [one for one in CANARIES if one in text or one.replace("-", "\\u002d") in text] == []


def require_hidden_files(folder: Path) -> None:
    """Hold that no key is in any file, Parquet unpacked; the run file alone has one written in it."""
    import polars as pl

    for path in folder.rglob("*"):
        if not path.is_file() or path.name == "run.yaml":
            continue
        content = path.read_bytes()
        assert [one for one in CANARIES if one.encode() in content] == [], path
        if path.suffix == ".parquet":
            require_hidden(str(pl.read_parquet(path).to_dicts()))


def test_keys_are_in_no_sink_of_a_run(
    project: Path, server: TestServer, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    """Terminal, `--json`, log, run folder, journal, cache, report, exports: who tells is not heard."""
    caplog.set_level(logging.DEBUG)
    run = project / "run"
    done = [
        call("-v", "run", project, "--out", run),
        call("run", project, "--out", project / "two", "--json"),
    ]
    assert server.asked.keys == {f"Bearer {KEY}": server.asked.total}
    done += [call("report", run, "-o", project / "report.html"), call("runs", project, "--json")]
    done += [call("explain", run, f"00000{number}") for number in range(1, 5)]
    done += [call("export", run, "--to", kind, "-o", project / f"said.{kind}") for kind in ("csv", "jsonl")]
    server.change(answers="A")
    done += [call("-v", "resume", run)]
    assert [(one.code, one.err) for one in done[2:] if one.code] == []
    require_hidden(caplog.text, *(one.out + one.err for one in done))
    require_hidden_files(project.parent)


def test_keys_are_in_no_error_whoever_words_it(
    project: Path, server: TestServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused key, and a bug that puts a key into its exception: not on stderr, in JSON or a traceback."""
    server.change(api_key="another")
    refused = [call("-v", "run", project, "--out", project / name, "--json") for name in "ab"]
    assert [one.json["error"]["code"] for one in refused] == ["E304", "E304"]

    def fail(self: LiveModel, *_: object, **__: object) -> NoReturn:
        sent = self.connection.reveal_headers()
        raise RuntimeError(f"cannot send {sent}") from KeyError(sent["X-Extra"])

    monkeypatch.setattr(LiveModel, "answer", fail)
    bugs = [call("-v", "run", project, "--out", project / name, "--json") for name in "cd"]
    assert all("Traceback" in one.err and "cannot send" in one.err and "***" in one.err for one in bugs)
    assert [one.code for one in bugs] == [70, 70]
    require_hidden(*(one.out + one.err for one in (*refused, *bugs)))
    require_hidden_files(project.parent)


@pytest.mark.parametrize("url", [f"http://me:{KEY}@127.0.0.1:9/v1", f"http://127.0.0.1:9/v1?api_key={KEY}"])
def test_an_address_with_a_key_is_refused_and_not_shown(project: Path, call: Call, url: str) -> None:
    """User info and a key in the query are E117, wherever the address is written."""
    config = json.loads((project / "run.yaml").read_text())
    config["models"][0]["config"]["url"] = url
    (project / "run.yaml").write_text(json.dumps(config))
    done = [call("-v", "run", project, "--out", project / "run", "--json"), call("check", project, "--json")]
    done += [call("-v", "run", project, "--model", f"{url}#m", "--out", project / "run", "--json")]
    assert "E117" in done[0].out
    assert all(one.code == 2 for one in done)
    require_hidden(*(one.out + one.err for one in done))
    assert not (project / "run").exists()


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
def test_a_redirect_to_another_host_carries_no_key(
    project: Path, server: TestServer, call: Call, status: str
) -> None:
    """The other host is never asked at all, by calls, and the reason is told."""
    with TestServer("A", Behaviour(canary=KEY)) as other:
        elsewhere = f"{other.url}/chat/completions"
        server.change(faults={status: 1.0}, faulty_attempts=None, redirect_to=elsewhere)
        done = call("run", project, "--out", project / "run")
        assert other.asked.total == 0
        assert not other.asked.canary_places
    assert done.code != 0
    assert "redirects to another" in done.out + done.err  # the table is as wide as the terminal


def test_no_proxy_of_the_environment_is_used(
    project: Path, server: TestServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would see the key; nothing is sent to one."""
    with TestServer("B") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        server.change(answers="A")
        assert call("run", project, "--out", project / "run").code == 0
        assert proxy.asked.total == 0
    assert server.asked.total == 6
