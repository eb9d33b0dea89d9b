"""Laws of recipes: the lines of the Dockerfile, and servers that people start by hand."""

from __future__ import annotations

import json
import re
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from answerkey.models.names import PROVIDERS
from answerkey.testing import Reply, TestServer

from .fresh import INSTALLS, Fresh
from .scripts import ROOT, Call, read

LINE = re.compile(r"^([A-Z]+) (.+)$", re.MULTILINE)
LOCKED = "--require-hashes -r requirements/run.lock"


def read_lines() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = read("Dockerfile").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(map(LINE.fullmatch, lines))
    return LINE.findall("\n".join(lines))


def is_sent(name: str) -> bool:
    """Return whether `.dockerignore` lets a path into the build: the last line that fits
    decides.
    """
    sent = True
    paths = [name, *map(str, Path(name).parents)][:-1]
    for line in read(".dockerignore").splitlines():
        pattern = line.removeprefix("!")
        if line and line[0] != "#" and any(fnmatch(path, pattern) for path in paths):
            sent = line.startswith("!")
    return sent


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Return an environment into which nothing is installed yet."""
    return Fresh.make(tmp_path_factory.mktemp("docker"))


def carry_out(fresh: Fresh, image: Path) -> str:
    """Carry out the lines in a folder in place of the image; return what its command prints."""
    here = image
    entry: list[str] = []
    variables: dict[str, str] = {}
    for instruction, argument in read_lines():
        inside = re.sub(r"(?<![\w/.])/(?=\w)", f"{image}/", argument)
        if instruction == "FROM":
            assert re.fullmatch(r"python:3\.1[1-9]-slim", argument)
        elif instruction == "WORKDIR":
            here = Path(inside)
            here.mkdir(parents=True, exist_ok=True)
        elif instruction == "COPY":
            *names, target = argument.split()
            for name in names:
                assert is_sent(name)
                place = here / target / (Path(name).name if target == "./" else "")
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
                copy(ROOT / name, place)
        elif instruction == "ENV":
            name, _, value = inside.partition("=")
            variables[name] = value
        elif instruction == "RUN":
            if INSTALLS or LOCKED not in argument:
                done = fresh.run(inside, here, variables)
                assert done.returncode == 0, done.stderr
        elif instruction in {"ENTRYPOINT", "CMD"}:
            entry += json.loads(argument)
        else:
            assert instruction == "USER"
    done = fresh.run(" ".join(entry), here, variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_image_runs_the_demo(fresh: Fresh) -> None:
    """Its lines install answerkey from the sources, and its command prints the summary of the
    demo.
    """
    printed = carry_out(fresh, fresh.folder / "image")
    assert (fresh.folder / "image" / "work" / "answerkey-demo").is_dir()
    assert "MCQA Accuracy" in printed
    assert "SIMULATED" in printed
    where = fresh.run("python -c 'import answerkey; print(answerkey.__file__)'", fresh.folder)
    assert Path(where.stdout.strip()).is_relative_to(fresh.folder)


def test_only_what_is_copied_is_sent_to_the_build() -> None:
    """Keys in `.env`, runs, and the repository's history stay outside of the image."""
    lines = [argument.split() for kind, argument in read_lines() if kind == "COPY"]
    copied = [name for names in lines for name in names[:-1]]
    assert copied
    assert all((ROOT / name).exists() and is_sent(name) for name in copied)
    outside = [".env", ".git/config", "runs/x/run.json", ".venv/bin/python", "tests/conftest.py"]
    assert [name for name in [*outside, "requirements"] if is_sent(name)] == []


def test_the_image_does_not_run_as_root() -> None:
    """The last user is not root, and the lock is installed with hashes."""
    lines = read_lines()
    (user,) = [argument for kind, argument in lines if kind == "USER"]
    assert user.split(":")[0] not in {"root", "0"}
    assert any(kind == "RUN" and LOCKED in argument for kind, argument in lines)


# Servers that people start by hand.

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
    rows = row.findall(read("docs/guide/local-models.md"))
    results = {name: (linked or plain, start) for linked, plain, start, name in rows}
    assert list(results) == ["vllm", "sglang", "llamacpp", "ollama", "lmstudio"]
    for name, (title, start) in results.items():
        assert title
        assert start
        assert PROVIDERS[name].is_local
