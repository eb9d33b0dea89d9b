"""Logs of other tools in place of a task file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.cli import run as cli
from answerkey.importers import READERS

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Call

LOGS = Path(__file__).parents[1] / "importers" / "logs"
ASKED: dict[str, Any] = {"question": "Which?", "options": ["x", "y"], "answer": "B"}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep imports in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def write(name: str, *rows: object) -> str:
    """Write lines of JSON into the folder of the test."""
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return name


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json", "lm-eval"])
def test_a_log_is_scored_as_it_lies(call: Call, name: str) -> None:
    """As a file or a folder; what the import says is told."""
    given = LOGS / name
    shutil.copytree(given, name) if given.is_dir() else shutil.copy(given, name)
    done = call("score", name, "--json")
    assert (done.code, done.json["run"]["status"]) == (0, "complete")
    assert f"{name}: log ({'lm-eval' if given.is_dir() else 'inspect'})" in done.err


def test_a_file_of_questions_is_no_log(call: Call) -> None:
    """And no importer is looked for; a folder with a run file is that."""
    file = write("data.jsonl", *[{**ASKED, "id": str(one), "completion": "B"} for one in range(3)])
    assert call("score", file, "--json").json["tasks"][0]["metrics"][0]["value"] == 1.0
    assert cli.open_given(file, None, None) == file  # type: ignore[arg-type]  # nothing is said
    Path("project").mkdir()
    shutil.copy(LOGS / "inspect.eval", "project")
    Path("project/run.yaml").write_text("", encoding="utf-8")
    assert cli.open_given("project", None, None) == "project"  # type: ignore[arg-type]  # same


def test_a_file_that_is_both_needs_a_word(call: Call) -> None:
    """MMLU-Pro writes the rows of its dataset with the replies: `--as` says how they are read."""
    row = {**ASKED, "question_id": 1, "pred": "A", "model_outputs": "The answer is (B)."}
    Path("both.json").write_text(json.dumps([row]), encoding="utf-8")
    done = call("score", "both.json")
    assert (done.code, "is a log (mmlu-pro) and a data file" in done.err) == (2, True)
    assert "say which: `--as log` or `--as data`" in done.err
    log, data = (call("score", "both.json", "--as", one, "--json") for one in ("log", "data"))
    assert log.json["tasks"][0]["metrics"] == data.json["tasks"][0]["metrics"]
    assert "log (mmlu-pro)" in log.err
    assert "log (" not in data.err


def test_only_completions_make_a_data_file_of_what_is_scored(call: Call) -> None:
    """Without them a log is meant; with a model it is either."""
    file = write("asked.jsonl", {**ASKED, "custom_id": "1", "response": {"status_code": 200, "body": {}}})
    done = call("run", file, "--model", "builtin/longest")
    assert (done.code, "is a log (openai-batch) and a data file" in done.err) == (2, True)


def test_what_is_no_log_is_not_taken_for_one(call: Call) -> None:
    """Also when the caller says so; a table with replies is a plain one then."""
    Path("note.txt").write_text("no log", encoding="utf-8")
    done = call("score", "note.txt", "--as", "log")
    assert (done.code, "`note.txt` is no log that is known" in done.err) == (2, True)
    file = write("said.jsonl", *[{**ASKED, "id": str(one), "completion": "B"} for one in range(3)])
    done = call("score", file, "--as", "log", "--json")
    assert (done.code, "log (plain)" in done.err) == (0, True)
    marked = write("marked.jsonl", {**ASKED, "completion": "B", "pred": "B"})
    assert call("score", marked, "--json").code == 0


def test_every_kind_of_log_has_a_mark() -> None:
    """Files that begin with it are held against the importers."""
    for kind in READERS:
        reader = READERS[kind]
        for keys in (*getattr(reader, "row_keys", ()), *getattr(reader, "head_keys", ())):
            text = json.dumps(dict.fromkeys(sorted(keys)))
            assert cli._MARKS.search(text.encode()), (kind, keys)
