"""Logs of other tools in place of a task file."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.golden.test_first_mistakes import PROJECT
from tests.unit.importers.test_promptfoo import row as promptfoo_row
from tests.unit.importers.test_promptfoo import whole

from answerkey.cli import run as cli
from answerkey.importers.imports import OWN_READERS

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Call

#: A log of two questions with one right letter, and the same where the first has two.
SINGLE = PROJECT["log.json"].replace('"target": "B"', '"target": "A"')
SEVERAL = SINGLE.replace('"target": "A"', '"target": "A,B"', 1)
LOGS = Path(__file__).parents[1] / "importers" / "logs"
ASKED: dict[str, Any] = {"question": "Which?", "options": ["x", "y"], "answer": "B"}


def write(name: str, *rows: object) -> str:
    """Write lines of JSON into the folder of the test."""
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return name


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json", "lm-eval"])
def test_a_log_is_scored_as_it_lies(call: Call, name: str) -> None:
    """As a file or a folder; what the import says is told."""
    log = LOGS / name
    shutil.copytree(log, name) if log.is_dir() else shutil.copy(log, name)
    done = call("score", name, "--json")
    assert (done.code, done.json["run"]["status"]) == (0, "complete")
    assert f"{name}: log ({'lm-eval' if log.is_dir() else 'inspect'})" in done.err


def test_a_file_of_questions_is_no_log(call: Call) -> None:
    """And no importer is looked for; a folder with a run file is that."""
    file = write("data.jsonl", *[{**ASKED, "id": name, "completion": "B"} for name in "012"])
    scored = call("score", file, "--json")
    assert scored.json["tasks"][0]["metrics"][0]["value"] == 1.0
    assert "log (" not in scored.err
    Path("project").mkdir()
    shutil.copy(LOGS / "inspect.eval", "project")
    Path("project/run.yaml").write_text("", encoding="utf-8")
    done = call("score", "project")
    assert (done.code, "the file is empty" in done.err, "log (" in done.err) == (2, True, False)


def test_what_is_no_log_is_not_taken_for_one(call: Call) -> None:
    """Also when the caller says so; a table with replies is a plain one then."""
    Path("note.txt").write_text("no log", encoding="utf-8")
    done = call("score", "note.txt", "--as", "log")
    assert (done.code, "`note.txt` is not a known kind of log" in done.err) == (2, True)
    file = write("said.jsonl", *[{**ASKED, "id": name, "completion": "B"} for name in "012"])
    done = call("score", file, "--as", "log", "--json")
    assert (done.code, "log (plain)" in done.err) == (0, True)
    marked = write("marked.jsonl", {**ASKED, "completion": "B", "pred": "B"})
    assert call("score", marked, "--json").code == 0


def test_a_log_is_known_by_the_keys_of_its_reader() -> None:
    """A file with the keys by which an importer recognises its logs is read by that importer."""
    for kind, reader in OWN_READERS.items():
        for keys in (*reader.row_keys, *reader.head_keys):
            file = write("log.jsonl", dict.fromkeys(sorted(keys)))
            assert cli._find_kind(Path(file), None) == kind, keys


def test_a_warning_about_a_log_is_said_once_and_its_hint_works(call: Call) -> None:
    """It has its lines, and the option in its hint is one of the command."""
    shutil.copytree(LOGS / "lm-eval", "lm")
    done = call("score", "lm")
    assert done.err.startswith(
        "lm: log (lm-eval)\n"
        "warning: task `made_text`: filter `strict` is used; others: `loose`\n"
        "  --> lm\n"
        "  = help: `--task made_text --score exact_match,loose` uses another\n"
    )
    (words,) = re.findall(r"help: `(.+)` uses another", done.err)
    theirs = call("score", "lm", *words.split(), "--json").json["tasks"][0]["tally"]["imported"]
    assert (theirs["compared"], theirs["both_right"], theirs["both_wrong"]) == (8, 5, 2)


def test_a_run_of_a_log_names_the_log_and_not_the_cache(call: Call) -> None:
    """In the summary, also of a run that is shown later, and of the log itself."""
    shutil.copytree(LOGS / "lm-eval", "lm")
    for words in (("score", "lm"), ("show", "latest"), ("show", "lm")):
        out = call(*words).out
        assert "  completions  of " in out
        assert ", recorded in lm\n" in out
        assert "(lm, 8 samples)" in out


def test_options_of_the_import_are_options_of_score(call: Call) -> None:
    """`--single-answers` and `--allow-failed` do what the messages say."""
    Path("log.json").write_text(SEVERAL)
    done = call("score", "log.json", "--single-answers", "--json")
    assert done.json["tasks"][0]["counts"]["scored"] == 1
    Path("cut.json").write_text(SINGLE.replace('"total_samples": 2', '"total_samples": 5'))
    done = call("score", "cut.json", "--allow-failed", "3", "--json")
    assert done.json["tasks"][0]["counts"]["scored"] == 2


def test_another_provider_of_a_promptfoo_log_can_be_scored(call: Call) -> None:
    """As the notice about the others says."""
    rows = [promptfoo_row(0, "A"), promptfoo_row(0, "B", promptIdx=1, provider={"id": "other"})]
    Path("res.json").write_text(json.dumps(whole(*rows)))
    done = call("score", "res.json")
    assert "`--column provider=NAME` and `--column prompt=LABEL` select another\n" in done.err
    second = call("score", "res.json", "--column", "provider=other", "--json").json["tasks"][0]
    assert second["metrics"][0]["value"] == 1.0


def test_a_batch_is_scored_with_its_questions(call: Call) -> None:
    """Also after the questions have changed."""
    body = '{"choices": [{"message": {"role": "assistant", "content": "A"}}]}'
    Path("out.jsonl").write_text(
        f'{{"custom_id": "1", "response": {{"body": {body}}}, "error": null}}\n'
    )
    for answer, accuracy in (("A", 1.0), ("B", 0.0)):
        question = f'{{"id": "1", "question": "?", "options": ["x", "y"], "answer": "{answer}"}}\n'
        Path("questions.jsonl").write_text(question)
        done = call("score", "out.jsonl", "--dataset", "questions.jsonl", "--json")
        assert done.json["tasks"][0]["metrics"][0]["value"] == accuracy


def test_a_hint_of_a_log_that_is_shown_names_the_command_with_its_option(call: Call) -> None:
    """`show` has no such option."""
    Path("log.json").write_text(SEVERAL)
    done = call("show", "log.json")
    assert done.code == 2
    hint = "`--single-answers` leaves them out and imports the other 1; "
    assert f"{hint}these are options of `answerkey score log.json`\n" in done.err
