from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.viewer.server import Catalog

Call = Callable[..., Any]
ROWS = [
    {"id": "a", "question": "One?", "options": ["x", "yy"], "answer": "A", "output": "A", "pred": "A"},
    {"id": "b", "question": "Two?", "options": ["x", "yy"], "answer": "B", "output": "Well.", "pred": "B"},
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a table with replies and what somebody read in them."""
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    return path


def test_a_log_is_imported_and_run(call: Call, log: Path) -> None:
    """The command says what it read, where it lies, and what to do next; what it says works."""
    done = call("import", "auto", log)
    assert done.code == 0
    assert done.out.splitlines() == [
        "Imported",
        "  log            table (plain)",
        "  task           mine",
        "  samples        2 samples",
        "  completions    2 OK",
        "  their verdict  `pred`: 100.00 % right, 2 judged",
        "  folder         imported/mine",
    ]
    assert done.err.splitlines() == ["next: answerkey run imported/mine", "next: answerkey audit latest"]
    ran = call("run", "imported/mine")
    assert ran.code == 0
    assert "Their verdicts and ours" in ran.out
    assert "the same in 50.00 % of 2 completions; right by theirs 100.00 %, by ours 50.00 %" in ran.out
    assert call("audit", "latest").code == 0
    explained = call("explain", "latest", "b").out
    assert explained.endswith("Their verdict\n  their_score   1.0\n  their_answer  B\n")
    assert call("explain", "latest", "b", "--json").json["samples"][0]["theirs"]["their_answer"] == "B"


def test_an_import_is_one_object_for_programs(call: Call, log: Path) -> None:
    """With the commands that come next."""
    told = call("import", "plain", log, "--out", "here", "--json").json
    assert (told["folder"], told["kind"], told["samples"]) == ("here", "plain", 2)
    assert told["next"] == ["answerkey run here", "answerkey audit latest"]


def test_what_is_broken_ends_the_import_unless_it_is_allowed(call: Call, log: Path) -> None:
    """Exit code 2, with the line, and how to go on without it."""
    with log.open("a") as stream:
        stream.write('{"custom_id"\n')
    log.write_text(log.read_text().replace('"id": "a"', '"custom_id": "a", "response": null, "error": null'))
    refused = call("import", "openai-batch", log)
    assert refused.code == 2
    assert "error[E202]: the line has no `custom_id`" in refused.err
    assert "mine.jsonl:3" in refused.err
    assert "= help: `--allow-failed N` leaves up to N broken ones out" in refused.err
    assert call("import", "openai-batch", log, "--allow-failed", "2").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("import", "auto", "nowhere"), "error[E201]: there is no log `nowhere`"),
        (("import", "inspct", "mine.jsonl"), "error[E119]: there is no kind of log `inspct`"),
        (("import", "plain", "mine.jsonl", "--column", "x"), "`--column x` is not of the form `NAME=COLUMN`"),
        (("import", "plain", "mine.jsonl", "--allow-failed", "x"), "neither a number of rows nor a share"),
    ],
)
def test_a_mistake_is_explained(call: Call, log: Path, words: tuple[str, ...], message: str) -> None:
    """And nothing is written."""
    refused = call(*words)
    assert refused.code == 2
    assert message in refused.err
    assert not (log.parent / "imported").exists() or not any((log.parent / "imported").iterdir())


def test_completions_alone_say_how_they_are_scored(call: Call, tmp_path: Path) -> None:
    """Batches know no questions."""
    body = {"choices": [{"message": {"role": "assistant", "content": "A"}}]}
    line = {"custom_id": "a", "response": {"status_code": 200, "body": body}, "error": None}
    (tmp_path / "output.jsonl").write_text(json.dumps(line), encoding="utf-8")
    done = call("import", "auto", "output.jsonl")
    assert done.code == 0
    assert (
        "next: answerkey score TASK --dataset FILE --completions imported/output/completions.parquet"
        in done.err
    )


def import_and_run(call: Call, model: str, said: str = "The answer is (A).") -> None:
    """Import a log of MMLU-Pro that this model wrote, and run it as `runs/<model>`."""
    row = {"question": "Which?", "options": ["one", "two"], "answer": "A", "pred": "A", "category": "maps"}
    rows = [{**row, "question_id": number, "model_outputs": said} for number in range(3)]
    Path(f"model_outputs_{model}_5shots.json").write_text(json.dumps(rows), encoding="utf-8")
    assert call("import", "mmlu-pro", f"model_outputs_{model}_5shots.json", "--out", f"of/{model}").code == 0
    assert call("run", f"of/{model}", "--out", f"runs/{model}").code == 0


def test_a_model_has_its_own_name_everywhere(call: Call) -> None:
    """The name that the log has: in every command, in every file that is written, and in the viewer."""
    name = "Qwen1.5-7B-Chat"
    import_and_run(call, name)
    run = f"runs/{name}"
    assert call("import", "auto", f"model_outputs_{name}_5shots.json", "--json").json["model"] == name
    assert f"completions  of {name}, recorded in" in call("show", run).out
    assert f"Completions of {name} on " in call("show", run, "--format", "markdown").out.replace("\\", "")
    assert call("show", run, "--json").json["tasks"][0]["completions"]["model"] == name
    assert f"  {name}  3 samples" in call("runs").out
    assert call("runs", "--json").json["runs"][0]["model"] == name
    exported = call("export", run, "--to", "every_eval_ever").out.splitlines()
    assert {json.loads(line)["model_id"] for line in exported} == {name}
    assert call("rescore", run, "--out", "runs/later").code == 0
    assert f"completions  of {name}, recorded in" in call("show", "runs/later").out
    assert [one["model"] for one in Catalog("runs").list()] == [name, name]
    assert call("report", run, "-o", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert f'"model": "{name}"' in page.replace('":"', '": "')
    assert "completions.parquet" not in page


def test_compared_runs_have_the_names_of_their_models(call: Call) -> None:
    """Two imported runs are told apart by who answered."""
    import_and_run(call, "Qwen1.5-7B-Chat")
    import_and_run(call, "gemini-1.5-flash-002", said="The answer is (B).")
    runs = ("runs/Qwen1.5-7B-Chat", "runs/gemini-1.5-flash-002")
    names = ["Qwen1.5-7B-Chat", "gemini-1.5-flash-002"]
    told = call("compare", *runs, "--json").json["comparison"]["tasks"][0]["runs"]
    assert [one["model"] for one in told] == names
    assert all(f"  {name}  " in call("compare", *runs).out for name in names)


def test_completions_of_the_caller_are_not_said_to_be_of_the_log(call: Call) -> None:
    """Whose completions the caller brings is not known; a model that is not asked has not written them."""
    import_and_run(call, "Qwen1.5-7B-Chat")
    brought = call("run", "of/Qwen1.5-7B-Chat", "--completions", "of/Qwen1.5-7B-Chat/completions.parquet")
    assert "  completions  recorded in " in brought.out
    unasked = call("run", "of/Qwen1.5-7B-Chat", "--model", "builtin/random")
    assert "  completions  of Qwen1.5-7B-Chat, recorded in " in unasked.out
