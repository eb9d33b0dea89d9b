"""A new user's mistakes, each made through the real command: it says what, where and what to do.

`mistakes.yaml` describes them, `mistakes/` holds the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from answerkey.models.calls import Limits
from answerkey.testing import Behaviour, Reply, TestServer

FOLDER = Path(__file__).parent
#: A task, the same with a solver, gates, and a log of Inspect.
PROJECT = {path.name: path.read_text("utf-8") for path in (FOLDER / "projects/first").iterdir()}
#: Mistakes that are none for a project which `init` writes.
READABLE = {
    "truths are positions from 0",
    "truths have brackets",
    "truths are the texts of options",
    "choices are the options",
    "choices are a mapping",
}


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A mistake as `mistakes.yaml` describes it."""

    name: str
    command: str = "score task.yaml --dataset rows.jsonl"
    code: int = 2
    #: File → old text → new text.
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Other files; a name that ends with `/` is an empty folder.
    files: Mapping[str, str] = field(default_factory=dict)
    last_line_times: int = 1
    #: File → its name in this project.
    moved: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    #: Truths of `rows.jsonl`, over and over; columns that are the same in every row; a last line.
    answers: Sequence[object] = "ABCD"
    rows: int = 12
    columns: Mapping[str, object] = field(default_factory=dict)
    appended: str = ""
    #: Columns of the data file `q.jsonl`, over and over.
    questions: Mapping[str, Sequence[object]] | None = None
    #: What the server does with every call.
    fault: str | None = None
    reply: Mapping[str, Any] | None = None
    api_key: str | None = None

    @property
    def golden(self) -> Path:
        """The file of the stored message."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return FOLDER / "mistakes" / f"{slug}.txt"

    def __str__(self) -> str:
        return self.name

    def write_files(self) -> None:
        """Write the project into the working directory."""
        for name, text in self._make_files().items():
            path = Path(self.moved.get(name, name))
            if name.endswith("/"):
                path.mkdir()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding=self.encoding, newline="")

    def _make_files(self) -> dict[str, str]:
        recorded = {"answer": self.answers, "completion": "A"}
        recorded |= {name: [cell] for name, cell in self.columns.items()}
        files = {**PROJECT, "rows.jsonl": write_rows(recorded, self.rows) + self.appended}
        if self.questions is not None:
            files["q.jsonl"] = write_rows({"answer": "ABCD", **self.questions}, 12)
        for name, text in self.files.items():
            last_line = text.splitlines(keepends=True)[-1:]
            files[name] = text + "".join(last_line * (self.last_line_times - 1))
        for name, replacements in self.changes.items():
            for old, new in replacements.items():
                assert old in files[name]
                files[name] = files[name].replace(old, new)
        return files

    def serve(self) -> TestServer:
        """Return the server of the model."""
        faults = {} if self.fault is None else {self.fault: 1.0}
        behaviour = Behaviour(faults=faults, faulty_attempts=None, hang_seconds=2)
        behaviour = replace(behaviour, api_key=self.api_key)
        if self.reply is None:
            return TestServer("A", behaviour)
        answer = Reply(status=self.reply["status"], body=self.reply["body"].encode())
        return TestServer(answer, behaviour)


def write_rows(columns: Mapping[str, Sequence[object]], count: int) -> str:
    """Return this many rows of questions with these columns, whose cells repeat."""
    numbered = [f"q{number}?" for number in range(1, count + 1)]
    table: dict[str, Sequence[object]]
    table = {"question": numbered, "options": [["red", "green", "blue", "grey"]], **columns}
    cells = [islice(cycle(column), count) for column in table.values()]
    rows = [dict(zip(table, row, strict=True)) for row in zip(*cells, strict=True)]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


MISTAKES = [
    *(Mistake(**entry) for entry in YAML(typ="safe").load(FOLDER / "mistakes.yaml")),
    Mistake(
        name="a question has too many options",
        command="run q.jsonl --model builtin/random",
        questions={"options": [[str(number) for number in range(1_001)]]},
    ),
]


def limit_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each call at most twice, with short waits."""
    quick = {
        "attempts": 2,
        "unreadable_attempts": 2,
        "attempt_seconds": 0.5,
        "reach_seconds": 0.2,
        "first_wait": 0.01,
    }
    defaults = tuple(quick.get(limit.name, limit.default) for limit in fields(Limits))
    monkeypatch.setattr(Limits.__init__, "__defaults__", defaults)


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_explained(
    mistake: Mistake,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Any],
    compare: Callable[[Path, str], None],
) -> None:
    """The message is the stored one, word for word; besides it only `resume` is suggested."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("OPENAI_API_KEY", "ANSWERKEY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    limit_attempts(monkeypatch)
    mistake.write_files()
    with mistake.serve() as server:
        words = mistake.command.replace("https{server}", server.root.replace("http:", "https:"))
        done = call(*words.replace("{server}", server.root).split())
        message = done.err.partition("to continue: ")[0]
        message = message.replace(server.root, "{server}").replace(server.root[4:], "{server}")
    assert (done.code, done.out) == (mistake.code, "")
    compare(mistake.golden, message)


@pytest.mark.parametrize(
    "mistake", [mistake for mistake in MISTAKES if mistake.name in READABLE], ids=str
)
def test_the_suggested_command_works(mistake: Mistake, call: Callable[..., Any]) -> None:
    """The project that `init` writes reads every row."""
    assert "`answerkey init DIR --dataset rows.jsonl`" in mistake.golden.read_text(encoding="utf-8")
    mistake.write_files()
    assert call("init", "DIR", "--dataset", "rows.jsonl").code == 0
    assert call("check", "DIR").code == 0


def test_every_message_has_its_parts() -> None:
    """More than 65 messages, no two alike, say what to do, and where if there is a place."""
    messages = {mistake.name: mistake.golden.read_text(encoding="utf-8") for mistake in MISTAKES}
    assert len(set(messages.values())) == len(MISTAKES) >= 65
    for mistake in MISTAKES:
        message = messages[mistake.name]
        assert message.startswith("error[E"), mistake.name
        assert "\n  = help: " in message, mistake.name
        if mistake.command.startswith(("run", "score")) and "--model" not in mistake.command:
            assert re.search(r"\n  --> |: `--|option '--", message), mistake.name
