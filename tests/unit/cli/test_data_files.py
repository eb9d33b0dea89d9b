"""Laws of a data file in place of a task: `run`, `score`, `check`, `audit-dataset`, `init` and
Python.
"""

from __future__ import annotations

import json
import os
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.projects import describe_solver, write_rows
from tests.unit.shapes import CAPITALS, SHAPES, Shape

import answerkey as ak
from answerkey.errors import AnswerkeyError
from answerkey.testing import TestServer

from .conftest import Call

KNOWING = "builtin/simulated?accuracy=1&style=sentence"
ROWS = [
    {"question": question, "options": options, "answer": place, "topic": "maps"}
    for question, options, place in CAPITALS
]
SAID = (
    "mine.jsonl: 4 rows; question `question`, options `options`, truth `answer` (index from 0),"
    " category `topic`"
)


def strip(printed: Any) -> Any:  # noqa: ANN401 - what `--json` printed
    """Return the tasks of a run without what no two runs share."""
    return [
        {name: field for name, field in task.items() if name in {"key", "counts", "metrics"}}
        for task in printed["tasks"]
    ]


@pytest.fixture
def mine() -> str:
    """Return a data file: question, options, and an index."""
    return write_rows(Path("mine.jsonl"), ROWS).name


#: Of the other commands the short series tries every fourth shape: all of them recognise it as
#: `run` does.
SOME = SHAPES if os.environ.get("ANSWERKEY_LONG") else SHAPES[::4]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_shape_is_run_as_it_is(call: Call, shape: Shape, tmp_path: Path) -> None:
    """From the file to a number without a word of YAML.

    Who knows the truths gets all of them right.
    """
    path = shape.write(tmp_path)
    done = call("run", path.name, "--model", KNOWING, "--json")
    (task,) = done.json["tasks"]
    assert done.code == 0
    assert task["counts"]["samples"] == len(shape.truths)
    assert task["metrics"][0]["value"] == 1.0
    rows = len(shape.rows) or len(CAPITALS)
    assert done.err.startswith(f"{path.name}: {rows} rows; question ")
    if shape in SOME:
        assert call("check", path.name, "-q").code == 0
        assert call("audit-dataset", path.name, "-q").code == 0


@pytest.mark.parametrize("shape", SOME, ids=lambda shape: shape.name)
def test_a_saved_project_does_the_same(call: Call, shape: Shape, tmp_path: Path) -> None:
    """Same prompts, same numbers; each file is short enough to be read at a glance."""
    path = shape.write(tmp_path)
    words = ("--model", "builtin/random?seed=3")
    direct = call("run", path.name, *words, "--save", "saved", "--json")
    assert "project: saved\n" in direct.err
    assert strip(direct.json) == strip(call("run", "saved", "--json").json)
    plans = [call("run", file, *words, "--dry-run", "--json").json for file in (path.name, "saved")]
    assert plans[0] == plans[1]
    lines = {
        name: len(Path(f"saved/{name}.yaml").read_text().splitlines())
        for name in ("run", "task", "dataset")
    }
    assert all(count <= 30 for count in lines.values()), lines


def test_one_line_says_what_was_recognised(call: Call, mine: str) -> None:
    """On stderr, in `run`, `score`, `check` and `init`; `--dry-run` shows the prompt; `-q` says
    nothing.
    """
    dry = call("run", mine, "--model", "builtin/longest", "--dry-run")
    assert dry.err == f"{SAID}\n"
    assert "| What is the capital of France?\n  |\n  | A. Lyon\n  | B. Paris" in dry.out
    assert "| Answer with the letter of the right option and nothing else." in dry.out
    assert call("check", mine).err == f"{SAID}\n"
    assert call("run", mine, "--model", "builtin/longest", "-q").err == ""
    assert call("init", "made", "--dataset", mine).err == f"{SAID}\nnext: answerkey run made\n"
    made = call("run", "made", "--json")
    assert (made.code, made.json["tasks"][0]["counts"]["samples"]) == (0, 4)
    refused = call("init", "made", "--dataset", mine)
    assert (refused.code, "already exists; nothing was written" in refused.err) == (2, True)


def test_a_stopped_run_of_a_data_file_goes_on(call: Call, mine: str, server: TestServer) -> None:
    """What its columns are is part of the run: nothing need be said again."""
    flags = ("--model", f"{server.url}#m", "--column", "truth=answer:0", "--max-calls", "2")
    assert call("run", mine, *flags, "--out", "live").code == 3
    done = call("resume", "live", "--json")
    assert (done.code, done.json["tasks"][0]["metrics"][0]["value"]) == (0, 0.25)
    assert server.asked.total == 4


def test_completions_in_the_file_are_scored(call: Call) -> None:
    """A model that is named answers in their place, and that is said.

    `score` and `run` do the same.
    """
    replies = [{"generated_text": f"The answer is {letter}."} for letter in "BABB"]
    rows = [row | reply for row, reply in zip(ROWS, replies, strict=True)]
    write_rows(Path("both.jsonl"), rows)
    scored = call("score", "both.jsonl", "--json", "--save", "kept")
    assert "completion `generated_text`" in scored.err
    assert scored.json["tasks"][0]["metrics"][0]["value"] == 0.5
    assert strip(call("run", "both.jsonl", "--json").json) == strip(scored.json)
    assert strip(call("run", "kept", "--json").json) == strip(scored.json)
    live = call("run", "both.jsonl", "--model", KNOWING)
    assert "; completions in `generated_text` are not used: the model answers\n" in live.err
    assert "warning: completions in `generated_text` are not used: the model answers" in live.out
    by_column = call("score", "both.jsonl", "--completion-column", "generated_text", "--json")
    assert strip(by_column.json) == strip(scored.json)


def test_completions_of_another_file_are_scored(call: Call, mine: str) -> None:
    """In the order of the rows; the project that is saved names their file."""
    write_rows(Path("said.jsonl"), [{"completion": letter} for letter in "BABA"])
    scored = call("score", mine, "--completions", "said.jsonl", "--save", "kept", "--json")
    assert scored.json["tasks"][0]["metrics"][0]["value"] == 0.5
    assert strip(call("run", "kept", "--json").json) == strip(scored.json)
    none = call("score", mine)
    assert (none.code, "add `--completions FILE`" in none.err) == (2, True)


def test_the_caller_corrects_what_was_recognised(call: Call) -> None:
    """`--column` decides what fits in two ways, in every command that takes a data file."""
    rows = [{"question": "?", "options": ["x", "y", "z"], "answer": 1 + n % 2} for n in range(4)]
    write_rows(Path("mine.jsonl"), rows)
    run = "run mine.jsonl --model builtin/longest"
    for words in (run, "check mine.jsonl", "audit-dataset mine.jsonl"):
        refused = call(*words.split())
        assert refused.code == 2
        assert "the truths can be read in 2 ways, which all fit" in refused.err + refused.out
        assert "`--column truth=answer:0` or `--column truth=answer:1`" in refused.err + refused.out
    assert call("init", "new", "--dataset", "mine.jsonl").code == 2
    assert not Path("new").exists()
    for base, counts in (("0", {"B": 2, "C": 2}), ("1", {"A": 2, "B": 2})):
        assert call("check", "mine.jsonl", "--column", f"answer=answer:{base}").code == 0
        flag = ("--column", f"truth=answer:{base}")
        assert call("check", "mine.jsonl", *flag).code == 0
        audited = call("audit-dataset", "mine.jsonl", *flag, "--json")
        assert audited.json["datasets"][0]["all"]["labels"] == counts
        made = call("init", f"made{base}", "--dataset", "mine.jsonl", *flag)
        assert (made.code, call("run", f"made{base}", "-q").code) == (0, 0)
        assert f"truth: answer:{base}" in Path(f"made{base}/dataset.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "content", "words", "code", "message"),
    [
        ("hidden.jsonl", [{"question": "?", "options": ["x", "y"], "answer": -1}], "", "E215",
         "1 of 1 truths match no option"),
        ("bare.jsonl", [{"question": "?", "answer": "A"}], "", "E206",
         "no column holds the options"),
        ("mine.jsonl", ROWS, "--column answr=x", "E119", "unknown part `answr`"),
        ("mine.jsonl", ROWS, "--column truth=nope", "E206", "truth: there is no column `nope`"),
        ("mine.jsonl", ROWS, "--dataset mine.jsonl", "E119", "`--dataset` is for a task"),
        ("mine.jsonl", ROWS, "--config x=1", "E110", "unknown config name `x`"),
        ("empty.csv", b"", "", "E210", "the file is empty"),
        ("empty.parquet", b"", "", "E210", "the file is empty"),
        ("bad.parquet", b"PAR1 no", "", "E202", "not a valid Parquet file"),
        ("table.txt", b"question,A,B,answer\nwho?,x,y,A\n", "", "E201",
         "endings of data files: `.csv`"),
        ("lines.json", b'{"question": "?"}\n{"question": "?"}\n', "", "E202", "is named `.jsonl`"),
        ("nested.json", b'{"examples": [{"input": "?"}]}', "", "E202",
         "not a JSON list of objects"),
        ("task.yaml", b"definition: {scorers: []}", "--column truth=x", "E119",
         "`--column` is for a data file"),
        ("task.yaml", b"definition: {scorers: []}", "--save new", "E119",
         "`--save` writes a data file"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_explained(
    call: Call, name: str, content: bytes | list[Any], words: str, code: str, message: str
) -> None:
    """Data is never called YAML; what is neither is said to be so."""
    if isinstance(content, bytes):
        Path(name).write_bytes(content)
    else:
        write_rows(Path(name), content)
    refused = call("run", name, "--model", "builtin/longest", *words.split())
    assert refused.code == 2
    assert f"error[{code}]" in refused.err
    assert message in refused.err
    assert "YAML:" not in refused.err
    assert not Path("runs").exists()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves the current folder, and says nothing."""

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def test_an_address_is_a_data_file(call: Call, mine: str) -> None:
    """What may be secret in it is used, and written nowhere: not in messages, the run or the
    project.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler) as served:
        Thread(target=served.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{served.server_port}/{mine}?token=verysecret"
        done = call("run", url, "--model", KNOWING, "--out", "one", "--save", "kept")
        served.shutdown()
    assert (done.code, done.err.startswith(SAID)) == (0, True)
    paths = [*Path("one").rglob("*"), *Path("kept").rglob("*")]
    written = [path for path in paths if path.is_file()]
    printed = b"".join(path.read_bytes() for path in written) + (done.out + done.err).encode()
    assert b"verysecret" not in printed
    assert f"url: http://127.0.0.1:{served.server_port}/{mine}".encode() in printed


def test_a_file_that_is_not_there_is_looked_for(call: Call, mine: str) -> None:
    """With the names that are near; a folder with an ending is a folder."""
    missing = call("run", "mne.jsonl", "--model", "builtin/longest")
    assert (missing.code, f"did you mean `{mine}`?" in missing.err) == (2, True)
    Path("folder.jsonl").mkdir()
    assert "holds no `run.yaml`" in call("run", "folder.jsonl", "--model", "builtin/longest").err


def test_hostile_columns_are_run_and_saved(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a template, a variable or a config value in a name stays a name, in the
    project too.
    """
    monkeypatch.setenv("HOME_OF_ALL", "secret")
    columns = {
        "question": "$HOME_OF_ALL",
        "options": "{{ 7*7 }}",
        "truth": "<< config.x >>",
        "category": "a: #b",
    }
    rows = [
        {
            columns["question"]: "?",
            columns["options"]: ["x", "y"],
            columns["truth"]: "B",
            "a: #b": "c",
        }
    ]
    write_rows(Path("odd.jsonl"), rows)
    flags = [word for role, name in columns.items() for word in ("--column", f"{role}={name}")]
    direct = call("run", "odd.jsonl", *flags, "--model", KNOWING, "--save", "saved", "--json")
    assert (direct.code, direct.json["tasks"][0]["metrics"][0]["value"]) == (0, 1.0)
    assert strip(call("run", "saved", "--json").json) == strip(direct.json)


def test_names_of_ones_own_files_have_defaults(call: Call, mine: str) -> None:
    """A task needs no `key`, `display_name` or `description`, a dataset no `display_name`."""
    scorer = {"type": "string_equals_mcqa", "ground_truth_choice": "B", "choices": ["A", "B"]}
    definition = {"solver": describe_solver(), "scorers": [scorer]}
    write_rows(Path("quiz.yaml"), [{"definition": definition}])
    model = ("--model", "builtin/constant?choice=B")
    done = call("run", "quiz.yaml", "--dataset", mine, *model, "--json")
    assert (done.code, done.json["tasks"][0]["key"]) == (0, "quiz")
    Path("mine.yaml").write_text(json.dumps({"source": {"type": "local", "file_path": mine}}))
    words = ("run", "quiz.yaml", "--dataset", "mine.yaml", "--model", "builtin/constant?choice=B")
    assert call(*words).code == 0


def test_python_takes_a_data_file(mine: str) -> None:
    """`run`, `check` and `score`, with `columns`; completions may be texts."""
    assert ak.run(mine, model=KNOWING).metrics["Accuracy"].value == 1.0
    assert ak.check(mine).errors == ()
    assert ak.score(mine, completions=["B", "A", "C", "C"]).metrics["Accuracy"].value == 0.75
    corrected = ak.score(mine, completions=[*"BADC"], columns={"truth": "answer:0"})
    assert corrected.metrics["Accuracy"].value == 1.0
    with pytest.raises(AnswerkeyError, match="brings its samples"):
        ak.score(mine, ROWS, ["A"] * 4)
    with pytest.raises(AnswerkeyError, match="a task needs some"):
        ak.score({"definition": {"scorers": []}})
    write_rows(Path("both.jsonl"), [row | {"completion": "A"} for row in ROWS])
    assert ak.score("both.jsonl").metrics["Accuracy"].value == 0.25
    (audit,) = ak.audit_dataset(mine)
    assert (audit.rows, audit.fields["truth"]) == (4, "answer:0")


def test_mmlus_own_csv_has_no_header(call: Call, tmp_path: Path) -> None:
    """Its columns are question, options and the letter of the truth; a project says so."""
    lines = [
        f"{question},{','.join(options)},{'ABCD'[place]}\n" for question, options, place in CAPITALS
    ]
    Path("abstract_test.csv").write_text("".join(lines))
    done = call("run", "abstract_test.csv", "--model", KNOWING, "--json", "--save", "new")
    (task,) = done.json["tasks"]
    assert (done.code, task["counts"]["samples"], task["metrics"][0]["value"]) == (0, 4, 1.0)
    columns = "question `question`, options `A`, `B`, `C`, `D`, truth `answer` (label)"
    assert done.err.startswith(f"abstract_test.csv: 4 rows; no header line; {columns}\n")
    again = call("run", str(tmp_path / "new"), "--model", KNOWING, "--json")
    assert strip(again.json) == strip(done.json)
    assert call("audit-dataset", "abstract_test.csv", "-q").code == 0


def test_many_options_are_numbered(call: Call) -> None:
    """The prompt asks for a number, and replies of two digits are read."""
    options = [f"name {number}" for number in range(1, 31)]
    rows = [{"question": "Who?", "options": options, "answer": n} for n in (0, 9, 26, 26, 29)]
    write_rows(Path("many.jsonl"), rows)
    planned = call("run", "many.jsonl", "--model", "builtin/random", "--dry-run").out
    assert "  | 27. name 27\n" in planned
    assert "  | Answer with the number of the right option and nothing else.\n" in planned
    replies = ["1", "The answer is 10.", "27", "The answer is 27.", "3"]
    write_rows(Path("replies.jsonl"), [{"completion": reply} for reply in replies])
    done = call("score", "many.jsonl", "--completions", "replies.jsonl", "--json")
    (task,) = done.json["tasks"]
    assert (task["counts"]["valid"], task["metrics"][0]["value"]) == (5, 0.8)


def test_json_booleans_are_true_and_false(call: Call) -> None:
    """A reply of `true` or `false` is understood."""
    rows = [{"question": f"Is {number} even?", "answer": number % 2 == 0} for number in range(4)]
    replies = [{"completion": text} for text in ("True", "False", "A", "A")]
    write_rows(Path("even.jsonl"), rows)
    write_rows(Path("replies.jsonl"), replies)
    done = call("score", "even.jsonl", "--completions", "replies.jsonl", "--json")
    assert done.err == "even.jsonl: 4 rows; question `question`, truth `answer` (true or false)\n"
    (task,) = done.json["tasks"]
    assert (task["counts"]["valid"], task["metrics"][0]["value"]) == (4, 0.75)


def test_long_labels_beside_texts_become_letters(call: Call) -> None:
    """The model sees the texts, and one line says that the labels are others."""
    rows = [
        {
            "question": question,
            "choices": ["A1", "A2", "A3", "A4"],
            "options": options,
            "answer": f"A{place + 1}",
        }
        for question, options, place in CAPITALS
    ]
    write_rows(Path("labels.jsonl"), rows)
    done = call("run", "labels.jsonl", "--model", "builtin/random", "--dry-run")
    assert "  | A. Lyon\n  | B. Paris\n  | C. Nice\n  | D. Lille\n" in done.out
    assert "truth `answer` (label), labels shown as A, B, …\n" in done.err


@pytest.mark.parametrize(
    ("labels", "reply", "code"),
    [(["A1", "A2", "A3", "A4"], "A2", 2), (["(A)", "(B)", "(C)", "(D)"], "B", 0)],
)
def test_recorded_replies_are_not_held_against_other_labels(
    call: Call, labels: list[str], reply: str, code: int
) -> None:
    """Labels of several characters that replies use are refused; brackets around one are not."""
    question, options, place = CAPITALS[0]
    row = {"question": question, "choices": labels, "options": options, "answer": labels[place]}
    write_rows(Path("labels.jsonl"), [{**row, "completion": reply}] * 2)
    done = call("score", "labels.jsonl")
    assert done.code == code
    refusal = "labels in `choices` have several characters, and recorded completions answer with"
    assert (refusal in done.err) is (code == 2)


def test_images_are_shown_by_a_project(call: Call) -> None:
    """A model is never asked blind; completions can be scored all the same."""
    write_rows(Path("seen.jsonl"), [{**row, "image_1": "a.png", "image_2": None} for row in ROWS])
    refused = call("run", "seen.jsonl", "--model", "builtin/random")
    assert refused.code == 2
    assert "error[E215]: images in `image_1` are not shown" in refused.err
    write_rows(Path("replies.jsonl"), [{"completion": "B"}] * 4)
    scored = call("score", "seen.jsonl", "--completions", "replies.jsonl", "--json")
    assert (scored.code, scored.json["tasks"][0]["metrics"][0]["value"]) == (0, 0.25)
    assert call("init", "my-eval", "--dataset", "seen.jsonl").code == 0
    assert "image: \"{{ sample['image_1'] }}\"" in Path("my-eval/task.yaml").read_text()
    Path("a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 16)
    assert call("check", "my-eval").code == 0


@pytest.mark.parametrize("answer", [["A", "C"], "AC"])
def test_what_an_error_proposes_works(call: Call, answer: object) -> None:
    """Pasted behind the command that failed, it makes a run of it."""
    usual = {"question": "Which?", "options": ["red", "green", "blue"], "answer": "A"}
    write_rows(Path("mine.jsonl"), [usual | {"answer": answer}] * 2 + [usual] * 4)
    words = ("run", "mine.jsonl", "--model", KNOWING)
    refused = call(*words)
    assert (refused.code, "truth=answer:label" in refused.err) == (2, True)
    proposed = ("--column", "truth=answer:label", "--allow-failed", "2")
    counts = call(*words, "--json", *proposed).json["tasks"][0]["counts"]
    assert (counts["scored"], counts["failed"]) == (4, 2)


def test_check_warns_of_questions_with_too_few_options(call: Call) -> None:
    """A single option is always right, and two equal options cannot be told apart."""
    rows = [dict(row) for row in ROWS]
    rows[1] |= {"options": ["Lima"]}
    rows[2] |= {"options": ["Osaka", "Osaka ", "Nagoya", "Tokyo"]}
    write_rows(Path("odd.jsonl"), rows)
    done = call("check", "odd.jsonl", "--json")
    assert done.code == 0
    assert [notice["message"] for notice in done.json["notices"]] == [
        "1 of 4 questions have only one option: sample `000002`",
        "1 of 4 questions have the same option twice: sample `000003`",
    ]
