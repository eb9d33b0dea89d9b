"""Files of strangers: YAML that explodes, and files that name what is not theirs to name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from answerkey.errors import SpecError
from answerkey.importers import READERS
from answerkey.spec.nodes import ProblemList, read_yaml

from .corpus import GOOD, Outcome, require_refusal, run_cases

OUTSIDE = "what stands outside the project"
TOUCH = "'touch was-here'"
EVIL = GOOD.replace("key: good", "key: evil")
#: A way out that is refused, a file that is none, and what the two mean for the task.
ESCAPE_CODES = {"E101", "E104", "E105", "E108"}


def repeat(text: str, times: int) -> Callable[[], str]:
    """Return a maker of the same text many times, within the size that is read."""
    return lambda: (text * times)[:990_000]


def write_laughs(first: str, line: str, count: int) -> Callable[[], str]:
    """Return a maker of lines each of which refers to the line above it again and again."""
    lines = [line.replace("BELOW", str(i - 1)).replace("NOW", str(i)) for i in range(1, count)]
    return lambda: "\n".join([first, *lines])


def number(line: str, times: int) -> Callable[[], str]:
    """Return a maker of a line many times, each with another number."""
    return lambda: "".join(line.replace("NOW", str(i)) for i in range(times))


YAML_BOMBS: dict[str, Callable[[], str]] = {
    "a billion laughs by aliases": write_laughs(
        f"a0: &a0 [{', '.join('x' * 10)}]", f"aNOW: &aNOW [{', '.join(['*aBELOW'] * 10)}]", 10
    ),
    "a billion laughs by merging": write_laughs(
        "a0: &a0 {k0: x, k1: x}", "aNOW: &aNOW {<<: [*aBELOW, *aBELOW], kNOW: {<<: *aBELOW}}", 40
    ),
    "an alias inside itself": lambda: "a: &a [*a]\n",
    "lists without end": repeat("[", 100_000),
    "mappings without end": repeat("{a: ", 100_000),
    "blocks without end": lambda: "\n".join(" " * depth + "a:" for depth in range(1300)),
    "dashes without end": repeat("- ", 100_000),
    "question marks without end": repeat("? ", 100_000),
    "a million scalars": repeat("- a\n", 247_000),
    "a million keys": number("kNOW: 1\n", 80_000),
    "a million anchors": number("- &aNOW x\n", 70_000),
    "a million aliases": lambda: "a: &a x\nb:\n" + "- *a\n" * 190_000,
    "the same key again and again": repeat("a: 1\n", 190_000),
    "a million documents": repeat("---\na\n", 160_000),
    "a million unknown tags": repeat("- !t x\n", 140_000),
    "a file that is too large": lambda: "a: " + "x" * 1_100_000,
    "an object of Python": lambda: f"{EVIL}tags: !!python/object/apply:os.system [{TOUCH}]\n",
    "an object of Python under another name": lambda: (
        f"%TAG ! tag:yaml.org,2002:python/\n---\n{EVIL}tags: !object/apply:os.system [{TOUCH}]\n"
    ),
    "a number without end": lambda: EVIL + "tags: [1.0e999999999]\n",
    "half a character": lambda: EVIL + 'tags: ["\\ud800"]\n',
    "a character that is none": lambda: EVIL + "tags: [\x01]\n",
}
#: All of them are ended by the same limit of 50,000 values; the short series has keys and aliases.
if not os.environ.get("ANSWERKEY_LONG"):
    del YAML_BOMBS["a million scalars"], YAML_BOMBS["a million anchors"]
#: What a task includes or refers to, and how the file comes to be there.
ESCAPES: dict[str, dict[str, Any]] = {
    "include of the folder above": {"line": "!include ../outside.md"},
    "include of a way through a folder": {"line": "!include sub/../../outside.md"},
    "include of an absolute path": {"line": "!include /etc/passwd"},
    "include of the environment": {"line": "!include /proc/self/environ"},
    "include of the memory": {"line": "!include /proc/self/mem"},
    "include of a device": {"line": "!include /dev/zero"},
    "include of a link": {"line": "!include link.md", "links": {"link.md": "../outside.md"}},
    "include through a linked folder": {"line": "!include up/outside.md", "links": {"up": ".."}},
    "include of a link to a link": {
        "line": "!include one.md",
        "links": {"one.md": "two.md", "two.md": "../outside.md"},
    },
    "include of a pipe": {"line": "!include pipe.md", "pipes": ["pipe.md"]},
    "include of a folder": {"line": "!include ."},
    "include of a name that is none": {"line": '!include "a\\0b"'},
    "include of an endless name": {"line": f"!include {'a' * 5000}"},
    "include of a URL": {"line": "!include file:///etc/passwd"},
    "reference to the folder above": {"line": "{$ref: ../outside.md}"},
    "reference by a variable": {"line": "{$ref: $OUTSIDE}"},
    "reference by a link": {"line": "{$ref: link.yaml}", "links": {"link.yaml": "../outside.md"}},
    "reference to itself": {"line": "{$ref: evil.yaml}"},
    "references that multiply": {
        "line": "{$ref: f0.yaml}",
        "files": {
            **{f"f{i}.yaml": f"[{', '.join([f'{{$ref: f{i + 1}.yaml}}'] * 10)}]" for i in range(9)},
            "f9.yaml": f"[{', '.join('x' * 10)}]\n",
        },
    },
    "includes that multiply": {
        "line": f"[{', '.join(f'!include big{i}.md' for i in range(8))}]",
        "files": {f"big{i}.md": "x" * 9_000_000 for i in range(8)},
    },
}


def make_escape(name: str, escape: Mapping[str, Any]) -> dict[str, object]:
    """Return a case: a task whose description is what is stated."""
    evil = EVIL.replace("A task that does no harm.", escape["line"])
    return {"name": name, **escape, "files": {"evil.yaml": evil, **escape.get("files", {})}}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """Return what became of the escapes from a project folder, and after them of the YAML bombs."""
    above = tmp_path_factory.mktemp("escapes")
    (above / "outside.md").write_text(OUTSIDE, encoding="utf-8")
    folder = above / "project"
    folder.mkdir()
    cases = [make_escape(name, escape) for name, escape in ESCAPES.items()]
    cases += [{"name": name, "files": {"evil.yaml": make()}} for name, make in YAML_BOMBS.items()]
    return run_cases(folder, cases, OUTSIDE=str(above / "outside.md"))


@pytest.mark.parametrize("name", YAML_BOMBS)
def test_a_yaml_bomb_is_refused(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """Before it is built, within five seconds of computing and 300 MB, with place and reason."""
    require_refusal(outcomes[name])
    assert {error["code"] for error in outcomes[name].errors} <= {"E102", "E103", "E104", "E108"}


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escape_is_refused(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """A file outside the project is not read, by whatever way; what it holds is not shown."""
    require_refusal(outcomes[name])
    assert {error["code"] for error in outcomes[name].errors} <= ESCAPE_CODES
    assert OUTSIDE not in str(outcomes[name].errors)


def test_a_pipe_in_place_of_the_file_itself_is_refused(tmp_path: Path) -> None:
    """The file that the caller names is a plain file, or none."""
    os.mkfifo(tmp_path / "task.yaml")
    with pytest.raises(SpecError, match="is not a plain file"):
        read_yaml(tmp_path / "task.yaml", "task.yaml", ProblemList())


@pytest.fixture
def soon() -> Iterator[None]:
    """Fail a test that blocks on a pipe without a writer."""

    def give_up(*_: object) -> None:
        raise TimeoutError("still waiting for the pipe")

    handler = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)


TABLES = (".jsonl", ".csv", ".json", ".parquet", ".arrow", ".jsonl.gz", ".csv.zst", ".txt")
PIPES = [
    *(f"check good.yaml --dataset pipe{end}" for end in TABLES),
    "score good.yaml --dataset rows.jsonl --completions pipe.jsonl",
    "score good.yaml --dataset rows.jsonl --completions pipe.parquet",
    "check pipe.yaml",
    "check includes.yaml --dataset rows.jsonl",
    "check good.yaml --dataset rows.jsonl --env pipe.env",
    "check good.yaml --dataset rows.jsonl --policies pipe.yaml",
    "audit-dataset pipe.jsonl",
    "audit-dataset pipe.csv --header question,answer",
    *(f"import {kind} pipe.json --out out" for kind in ("auto", *READERS)),
    *(f"import {kind} pipe.eval --out out" for kind in ("auto", *READERS)),
    "import openai-batch rows.jsonl --dataset pipe.jsonl --out out",
]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("command", PIPES)
def test_what_is_no_plain_file_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Any],
    command: str,
    kind: str,
) -> None:
    """A pipe, or a device that never ends, in place of any file that is read: exit code 2, and the
    reason.
    """
    monkeypatch.chdir(tmp_path)
    including = GOOD.replace("description: ", "description: !include pipe.txt #")
    Path("good.yaml").write_text(GOOD)
    Path("includes.yaml").write_text(including)
    Path("rows.jsonl").write_text('{"question": "q", "answer": "A", "completion": "A"}\n')
    name = next(word for word in [*command.split(), "pipe.txt"] if word.startswith("pipe"))
    if kind == "pipe":
        os.mkfifo(name)
    else:
        Path(name).symlink_to("/dev/zero")
    done = call(*command.split())
    assert done.code == 2
    # A link of the project leads nowhere but into it: that is said first.
    is_link_of_project = kind == "device" and "includes" in command
    reason = "is outside the project" if is_link_of_project else "is not a plain file"
    assert reason in done.out + done.err
